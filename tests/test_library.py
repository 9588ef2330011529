"""The package as a library: what it exports, its types, its wheel, and completion in a shell."""

import importlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import torch

import attentively

ROOT = Path(__file__).resolve().parents[1]
NAMES = {name: module for module, names in attentively.EXPORTS.items() for name in names}
IMPORT = """
import sys, time
started = time.process_time()
import attentively
print(time.process_time() - started, "torch" in sys.modules, "Transformer" in dir(attentively))
"""
USER = f"""\
from pathlib import Path

import torch

import attentively
from attentively import {", ".join(sorted(NAMES))}
from attentively.attention.masks import causal_mask

model: PretrainedModel = attentively.load("tatoeba-en-fr-transformer", device="cpu")
text: str = model.translate("I do not like milk.", beam_size=1)
texts: list[str] = model.translate(["I do not like milk."])
label: str = model.classify("good").label
prompt: str = model.generate("ROMEO:", temperature=0.8)
model.save_pretrained(Path("folder"))
again: PretrainedModel = PretrainedModel.from_pretrained("folder")
transformer = Transformer(TransformerConfig(src_vocab_size=7, tgt_vocab_size=7))
logits: torch.Tensor = transformer(torch.tensor([[4]]), torch.tensor([[2]]))
mask: torch.Tensor = causal_mask(3)

wrong_text: int = model.translate("I do not like milk.")  # assignment
wrong_texts: str = model.translate(["I do not like milk."])  # assignment
wrong_logits: str = transformer(torch.tensor([[4]]), torch.tensor([[2]]))  # assignment
model.translate("I do not like milk.", beam=5)  # call-overload
attentively.load(7)  # arg-type
attentively.Transfomer  # attr-defined
TransformerConfig(src_vocab_size="7", tgt_vocab_size=7)  # arg-type
"""


@pytest.mark.parametrize("name", NAMES)
def test_the_package_exports_its_models_and_attentions(name):
    module = importlib.import_module(f"attentively.{NAMES[name]}")
    assert getattr(attentively, name) is getattr(module, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'attentively' has no attribute 'Transfomer'"):
        attentively.Transfomer  # noqa: B018


def test_a_model_returns_logits():
    config = attentively.TransformerConfig(src_vocab_size=7, tgt_vocab_size=11, d_model=8)
    logits = attentively.Transformer(config)(torch.tensor([[4, 5, 3]]), torch.tensor([[2, 4]]))
    assert isinstance(logits, torch.Tensor)
    assert logits.shape == (1, 2, 11)


def test_the_import_takes_less_than_a_tenth_of_a_second_and_no_pytorch():
    runs = [
        subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    seconds, *flags = zip(*(run.stdout.split() for run in runs), strict=True)
    assert min(map(float, seconds)) < 0.1
    assert flags == [("False",) * 3, ("True",) * 3]


# Types


@pytest.fixture(scope="module")
def user(installed, tmp_path_factory):
    """Return a Python whose only package `attentively` is the installed wheel."""
    folder = tmp_path_factory.mktemp("user")
    venv.create(folder, symlinks=True, with_pip=False)
    [packages] = (folder / "lib").glob("python*/site-packages")
    (packages / "paths.pth").write_text(f"{installed}\n{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "python"


def mypy(user, folder, text):
    (folder / "user.py").write_text(text)
    options = ["--strict", "--python-executable", user, "--cache-dir", folder, "--config-file", ""]
    command = [sys.executable, "-m", "mypy", *options, "user.py"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    return dict(re.findall(r"user\.py:(\d+): error: .*\[([a-z-]+)\]", done.stdout)), done.stdout


@pytest.mark.slow
def test_mypy_knows_the_types_of_a_users_program(user, tmp_path):
    lines = USER.splitlines()
    marked = {str(number): line.split("  # ") for number, line in enumerate(lines, 1)}
    wrong = {number: parts[1] for number, parts in marked.items() if len(parts) == 2}
    assert len(wrong) == 7
    found, output = mypy(user, tmp_path, USER)
    assert found == wrong, output


def test_without_the_marker_nothing_is_known(user, installed, tmp_path):
    marker = installed / "attentively" / "py.typed"
    marker.rename(marker.with_suffix(".away"))
    try:
        found, output = mypy(user, tmp_path, "import attentively\n")
    finally:
        marker.with_suffix(".away").rename(marker)
    assert found == {"1": "import-untyped"}, output


# The wheel


def build(root, folder, **environment):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, env=os.environ | environment
    )


def metadata(wheel):
    archive = zipfile.ZipFile(wheel)
    [name] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_bytes(archive.read(name))


@pytest.fixture
def project(tmp_path):
    """Return a small project with the build settings of this one, and an address."""
    files = [ROOT / "pyproject.toml", ROOT / "hatch_build.py", ROOT / "README.md", ROOT / "LICENSE"]
    for file in files:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert settings.count('  url: ""\n') == 1
    settings = settings.replace('  url: ""\n', '  url: "https://example.org/a/b/" # where it is\n')
    (tmp_path / "_config.yml").write_text(settings, encoding="utf-8")
    for name in ("pretrained/m.safetensors", "pretrained/registry.txt", "checks/r.safetensors"):
        path = tmp_path / "src" / "attentively" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "src" / "attentively_grader").mkdir()
    (tmp_path / "book" / "results").mkdir(parents=True)
    return tmp_path


def test_the_addresses_follow_from_the_one_setting(project, tmp_path):
    built = build(project, tmp_path / "dist")
    assert built.returncode == 0, built.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    assert metadata(wheel).get_all("Project-URL") == [
        "Repository, https://example.org/a/b",
        "Issues, https://example.org/a/b/issues",
        "Changelog, https://example.org/a/b/blob/main/CHANGELOG.md",
    ]
    assert "attentively/pretrained/m.safetensors" in zipfile.ZipFile(wheel).namelist()


def test_without_an_address_none_is_named(wheel):
    about = metadata(wheel)
    assert about.get_all("Project-URL") is None
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert "attentively/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_a_small_wheel_has_everything_but_the_models(project, tmp_path):
    built = build(project, tmp_path / "dist", ATTENTIVELY_SMALL_WHEEL="1")
    assert built.returncode == 0, built.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("attentively/")}
    assert names == {"attentively/pretrained/registry.txt", "attentively/checks/r.safetensors"}


def test_a_small_wheel_needs_an_address(tmp_path):
    built = build(ROOT, tmp_path, ATTENTIVELY_SMALL_WHEEL="1")
    assert built.returncode != 0
    assert "set repository.url in _config.yml" in built.stderr


# Completion in a shell

RUN = "import sys; sys.argv[0] = 'attentively'; from attentively.cli import main; main()"


def completed(*words):
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    asked["_ATTENTIVELY_COMPLETE"] = "complete_bash"
    done = subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, env=os.environ | asked
    )
    return done.stdout.split()


def test_a_shell_completes_commands_and_options():
    assert completed("attentively", "tr") == ["train", "translate"]
    assert completed("attentively", "grade", "--can") == ["--canvas"]
    assert completed("attentively", "data", "c") == ["check"]
    assert completed("attentively", "x") == []


def test_the_script_for_a_shell_is_printed():
    # The shell is recognised as a parent process, so bash must not replace itself: `exit` is last.
    ask = f'{shlex.quote(sys.executable)} -c "$0" --show-completion; exit'
    done = subprocess.run(["bash", "-c", ask, RUN], capture_output=True, text=True)
    assert "complete -o default -F _attentively_completion attentively" in done.stdout


# The README


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(import attentively\n.*?)```", text, re.S)
    names = {"src": torch.tensor([[4, 5, 3]]), "tgt": torch.tensor([[2, 4]])}
    exec(example, names)
    assert names["logits"].shape == (1, 2, 1000)
    assert {path.name for path in (tmp_path / "my-model").iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json")
    }
    said = re.search(r'translate\("I do not like milk\."\)  # "(.*)"', example)[1]
    assert names["model"].translate("I do not like milk.") == said
