r"""The `live-model` directive: a trained model that runs in the reader's browser.

In a page::

    ```{live-model} tatoeba-en-fr-transformer
    :sentence: I do not like milk.
    :examples: She is tired. | Where did you buy this book?
    ```

The argument is a pretrained checkpoint of the package. At the end of a build its parameters are
written as scripts into the site (`_static/live/NAME.*.js`), in half precision as in the checkpoint,
because a page that is opened from a folder may load scripts but not fetch files. A page loads them
only when the reader asks for the model. The forward pass is `_static/live/transformer.js` or, for
the recurrent model with additive attention, `_static/live/recurrent.js`. `live-transformer` is
another name of the directive.

`:sentence:`  what stands in the input field
`:examples:`  further sentences to choose, with bars between

The translation of the sentence, recorded at the build, is shown until the first one, and where
scripts do not run. There, the content of the directive is shown too: it says what is missed.
"""

import base64
import json
import struct
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import recorded_translation
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

PRETRAINED = Path(__file__).parents[2] / "src" / "attentively" / "pretrained"
SCRIPTS = [
    "transformer.js",
    "recurrent.js",
    "subwords.js",
    "search.js",
    "checkpoint.js",
    "live.js",
]
COMPUTED: dict[str, dict[str, Any]] = {
    "Transformer": {
        "share_embeddings": True,
        "norm": "pre",
        "positions": "sinusoidal",
        "activation": "relu",
        "num_kv_heads": None,
    },
    "Seq2Seq": {"share_embeddings": True, "attention": "additive", "decoder": "bahdanau"},
}
"""The kinds of model that the scripts compute, and what they expect of the configuration."""
PIECE = 600_000
"""Bytes of the parameters in one script, so that loading has visible progress."""


class live_node(nodes.General, nodes.Element):
    """The element in which the script builds its controls."""


class LiveModel(SphinxDirective):
    """Put a live model into the page."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "sentence": directives.unchanged_required,
        "examples": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return the node; an unknown checkpoint is an error of the page."""
        name = self.arguments[0]
        path = PRETRAINED / f"{name}.safetensors"
        if not path.exists():
            raise self.error(f"the package ships no checkpoint {name!r}")
        if not self.content or "sentence" not in self.options:
            raise self.error("a live model needs :sentence: and a text for pages without scripts")
        examples = [each.strip() for each in self.options.get("examples", "").split("|")]
        try:
            node = described(path, self.options["sentence"], examples)
        except ValueError as error:
            raise self.error(str(error)) from None
        self.env.note_dependency(str(path))
        fallback = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, fallback)
        node += fallback.children
        self.env.metadata[self.env.docname]["live"] = name
        return [node]


def described(path: Path, sentence: str, examples: list[str]) -> live_node:
    """Return the node of a checkpoint; one that no script computes raises `ValueError`."""
    size = sum(len(text.encode()) for text in scripts(path).values())
    return live_node(
        "",
        checkpoint=path.stem,
        model=read_checkpoint(path)[0]["model"],
        megabytes=f"{size / 1e6:.1f}",
        sentence=sentence,
        examples=examples,
        recorded=recorded_translation.record(path.stem, sentence),
    )


def opening(node: live_node, folder: str) -> str:
    """Return the start of the element: what the script reads."""
    examples = escape(json.dumps(node["examples"], ensure_ascii=False))
    return (
        f'<div class="live-transformer" data-folder="{folder}" '
        f'data-checkpoint="{escape(node["checkpoint"])}" '
        f'data-model="{node["model"]}" data-megabytes="{node["megabytes"]}" '
        f'data-sentence="{escape(node["sentence"])}" data-examples="{examples}">\n'
        + recorded_figure(node["recorded"])
        + '<div class="live-fallback">\n'
    )


def recorded_figure(recorded: recorded_translation.Recorded) -> str:
    """Return a recorded translation, which the script removes when the model has one of its own."""
    return (
        '<figure class="live-recorded">\n'
        f'<p class="live-translation" lang="fr">{escape(recorded.text)}</p>\n'
        f"{recorded_translation.draw(recorded)}\n"
        f"<figcaption>{recorded_translation.caption(recorded)}</figcaption>\n"
        f"{recorded_translation.table(recorded)}\n</figure>\n"
    )


def visit_live(self: HTML5Translator, node: live_node) -> None:
    """Write the start of the element."""
    depth = self.builder.current_docname.count("/")
    self.body.append(opening(node, "../" * depth + "_static/live"))


def depart_live(self: HTML5Translator, node: live_node) -> None:
    """Close both."""
    self.body.append("</div>\n</div>\n")


def add_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the scripts and the style to pages with a live model, and to no others."""
    if doctree is not None and app.env.metadata.get(pagename, {}).get("live"):
        app.add_css_file("live/live.css")
        for name in SCRIPTS:
            app.add_js_file(f"live/{name}", loading_method="defer")


def read_checkpoint(path: Path) -> tuple[dict[str, str], list[tuple[str, int]], bytes]:
    """Return the metadata of a checkpoint, its tensors' names and sizes, and their bytes.

    Raises `ValueError` unless all tensors are in half precision and lie one after the other.
    """
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__")
    tensors, end = [], 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, after = entry["data_offsets"]
        if entry["dtype"] != "F16" or start != end:
            raise ValueError(
                f"{path}: {name} is {entry['dtype']} at {start}, but expected F16 at {end}"
            )
        tensors.append((name.removeprefix("model."), (after - start) // 2))
        end = after
    return metadata, tensors, content[8 + length :]


def scripts(path: Path) -> dict[str, str]:
    """Return the scripts of a checkpoint by file name: a description, then its parameters.

    Raises `ValueError` for a model that the scripts of the page do not compute.
    """
    name = path.stem
    metadata, tensors, data = read_checkpoint(path)
    kind, config = metadata["model"], json.loads(metadata["config"])
    if kind not in COMPUTED:
        raise ValueError(f"{name} is a {kind}, but a page can run only {' or '.join(COMPUTED)}")
    for key, value in COMPUTED[kind].items():
        if config.get(key) != value:
            raise ValueError(
                f"{name} has {key}={config.get(key)!r}, but a page can run only {key}={value!r}"
            )
    tokenizer = json.loads(metadata["src_tokenizer"])["library"]["model"]
    ids = tokenizer["vocab"]
    pieces = [data[first : first + PIECE] for first in range(0, len(data), PIECE)]
    description = {
        "model": kind,
        "config": config,
        "vocabulary": sorted(ids, key=ids.get),
        "merges": tokenizer["merges"],
        "tensors": tensors,
        "count": len(pieces),
    }
    quoted = json.dumps(name)
    text = json.dumps(description, ensure_ascii=False, separators=(",", ":"))
    found = {f"{name}.js": f"Attentively.describe({quoted}, {text});\n"}
    for index, piece in enumerate(pieces):
        encoded = base64.b64encode(piece).decode("ascii")
        found[f"{name}.{index}.js"] = f'Attentively.receive({quoted}, {index}, "{encoded}");\n'
    return found


def write_checkpoints(app: Sphinx, error: Exception | None) -> None:
    """Write the scripts of every checkpoint that a page runs."""
    if error is not None or app.builder.format != "html":
        return
    target = Path(app.outdir) / "_static" / "live"
    for name in sorted({page["live"] for page in app.env.metadata.values() if "live" in page}):
        target.mkdir(parents=True, exist_ok=True)
        for file, text in scripts(PRETRAINED / f"{name}.safetensors").items():
            (target / file).write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(live_node, html=(visit_live, depart_live))
    for name in ("live-model", "live-transformer"):
        app.add_directive(name, LiveModel)
    app.connect("html-page-context", add_scripts)
    app.connect("build-finished", write_checkpoints)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
