"""The live-model directive: what it writes into a site, and what it refuses."""

import base64
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attentively.models import checkpoints

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

import live_transformer  # noqa: E402

NAME = "tatoeba-en-fr-transformer"
RECURRENT = "tatoeba-en-fr-additive"
CONF = """
import sys
sys.path.insert(0, {extensions!r})
extensions = ["myst_parser", "live_transformer"]
html_static_path = [{static!r}]
"""
DIRECTIVE = """
```{{{directive}}} {name}
{options}

Without scripts, *this* is shown.
```
"""


def build(folder: Path, **pages: str) -> subprocess.CompletedProcess:
    """Build a small site of these pages."""
    folder.mkdir()
    static = str(ROOT / "book" / "_static")
    (folder / "conf.py").write_text(CONF.format(extensions=str(EXTENSIONS), static=static))
    for name, text in {"index": "# Index", **pages}.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", folder, folder / "html"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ})


@pytest.mark.parametrize("name", [NAME, RECURRENT])
def test_the_scripts_hold_the_parameters_of_the_checkpoint(name):
    scripts = live_transformer.scripts(live_transformer.PRETRAINED / f"{name}.safetensors")
    assert sum(len(text) for text in scripts.values()) < 6_000_000
    described = scripts.pop(f"{name}.js")
    description = json.loads(described[described.index("{") : described.rindex("}") + 1])
    assert description["count"] == len(scripts)
    data = b""
    for index in range(description["count"]):
        (text,) = re.findall(r'"([A-Za-z0-9+/=]{9,})"', scripts[f"{name}.{index}.js"])
        data += base64.b64decode(text)
    model = checkpoints.load_pretrained(name).model
    parameters, offset = dict(model.named_parameters()), 0
    for tensor, size in description["tensors"]:
        values = torch.frombuffer(bytearray(data[offset : offset + 2 * size]), dtype=torch.float16)
        assert torch.equal(values.float(), parameters.pop(tensor).detach().flatten()), tensor
        offset += 2 * size
    assert offset == len(data)
    assert not parameters
    assert description["model"] == type(model).__name__
    assert description["config"].items() <= model.config.to_dict().items()


@pytest.mark.parametrize(
    ("directive", "name", "kind", "files"),
    [("live-transformer", NAME, "Transformer", 8), ("live-model", RECURRENT, "Seq2Seq", 7)],
)
def test_a_page_with_the_directive_gets_the_model_and_others_do_not(
    tmp_path, directive, name, kind, files
):
    options = ':sentence: Don\'t < & >\n:examples: One. | "Two".'
    page = "# Live" + DIRECTIVE.format(directive=directive, name=name, options=options)
    index = "# Index\n\n```{toctree}\nlive\n```\n"
    built = build(tmp_path / "site", index=index, live=page)
    assert built.returncode == 0, built.stderr
    html = tmp_path / "site" / "html"
    text = (html / "live.html").read_text(encoding="utf-8")
    assert f'data-checkpoint="{name}" data-model="{kind}"' in text
    assert 'data-sentence="Don&#x27;t &lt; &amp; &gt;"' in text
    assert 'data-examples="[&quot;One.&quot;, &quot;\\&quot;Two\\&quot;.&quot;]"' in text
    assert "<em>this</em> is shown" in text
    places = [text.index(f"live/{script}") for script in live_transformer.SCRIPTS]
    assert places == sorted(places)
    assert "live/" not in (html / "index.html").read_text(encoding="utf-8")
    written = sorted(path.name for path in (html / "_static" / "live").glob(f"{name}*.js"))
    assert len(written) == files


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("no-such-model", ":sentence: Hello.", "the package ships no checkpoint 'no-such-model'"),
        (NAME, ":examples: Hello.", "a live model needs :sentence:"),
        ("shakespeare-gpt", ":sentence: Hello.", "a page can run only Transformer or Seq2Seq"),
        ("ladder-dot", ":sentence: Hello.", "has attention='dot', but a page can run only"),
    ],
)
def test_a_wrong_directive_is_an_error_of_the_page(tmp_path, name, options, fault):
    page = "# Live" + DIRECTIVE.format(directive="live-model", name=name, options=options)
    built = build(tmp_path / "site", index=page)
    assert built.returncode
    assert fault in built.stderr


def test_a_checkpoint_in_another_precision_is_refused(tmp_path):
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = json.dumps({"__metadata__": {}, "model.x": entry}).encode()
    path = tmp_path / "other.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    with pytest.raises(ValueError, match=r"model\.x is F32 at 0, but expected F16 at 0"):
        live_transformer.read_checkpoint(path)
