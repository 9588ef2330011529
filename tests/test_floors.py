"""The package's floors: a module imports from below, or from one named before it on its floor."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"

# A package (data, checks, experiments, cli) counts as one: inside it, imports are its own affair.
FLOORS = [
    ["byte_pair", "vocabulary", "masks", "config", "device", "memory_meter", "files"],
    [
        "embedding",
        "skip_gram",
        "word_vectors",
        "positional",
        "kernels",
        "additive",
        "multiplicative",
        "scaled_dot_product",
        "blockwise",
        "feed_forward",
        "layer_norm",
        "rms_norm",
        "dropout",
        "recurrent_cells",
    ],
    ["multi_head", "pruning", "interventions", "recurrent"],
    ["layers"],
    [
        "protocol",
        "seq2seq",
        "transformer",
        "captioning",
        "language_model",
        "heads",
        "attentive_classifier",
    ],
    ["data", "metrics", "bootstrap", "losses", "schedules", "checkpoints", "parallel"],
    [
        "decoding",
        "writing",
        "reading",
        "tasks",
        "training",
        "vector_training",
        "evaluation",
        "explanations",
        "plots",
        "attention_page",
    ],
    ["checks", "experiments", "earlier_parts", "coursework"],
    ["cli", "__main__"],
]
PLACE = {
    name: (floor, place) for floor, names in enumerate(FLOORS) for place, name in enumerate(names)
}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of each module, or name in a module, that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def faults(package: Path) -> list[str]:
    """Return every import that goes up, or sideways to a later name, and every unknown module."""
    found = []
    for file in sorted(package.rglob("*.py")):
        module = file.relative_to(package).with_suffix("").parts[0]
        if module == "__init__":
            continue
        if module not in PLACE:
            found.append(f"{module} stands on no floor: give it a place in FLOORS")
            continue
        for name in imported(ast.parse(file.read_text())):
            if name.startswith("."):
                found.append(f"{file.name} imports {name}: write the full name")
            first, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if first != package.name or other not in PLACE or other == module:
                continue
            if PLACE[other] >= PLACE[module]:
                found.append(f"{module} imports {other}, which stands above or after it")
    return found


def test_the_package_keeps_its_floors():
    assert faults(SRC / "attentively") == []


def test_the_package_imports_nothing_by_itself():
    """`import attentively` is cheap: names are imported from where they live."""
    names = imported(ast.parse((SRC / "attentively" / "__init__.py").read_text()))
    assert not [name for name in names if name.startswith("attentively")]


def test_the_grader_knows_nothing_of_attention():
    files = [*(SRC / "attentively_grader").rglob("*.py")]
    guilty = [
        file.name
        for file in files
        for name in imported(ast.parse(file.read_text()))
        if name.partition(".")[0] == "attentively"
    ]
    assert guilty == []


def test_only_the_command_line_and_coursework_know_the_grader():
    guilty = {
        file.relative_to(SRC / "attentively").parts[0]
        for file in (SRC / "attentively").rglob("*.py")
        for name in imported(ast.parse(file.read_text()))
        if name.partition(".")[0] == "attentively_grader"
    }
    assert guilty <= {"cli", "coursework.py", "earlier_parts.py"}


@pytest.mark.parametrize(
    ("path", "line", "message"),
    [
        (
            "masks.py",
            "from attentively.additive import AdditiveAttention",
            "masks imports additive",
        ),
        ("masks.py", "def f():\n    import attentively.training", "masks imports training"),
        ("masks.py", "from attentively import config", "masks imports config"),
        ("protocol.py", "from attentively.seq2seq import Seq2Seq", "protocol imports seq2seq"),
        ("data/toy/grammar.py", "from attentively import decoding", "data imports decoding"),
        ("masks.py", "from .vocabulary import PAD", "write the full name"),
        ("utils.py", "", "utils stands on no floor"),
    ],
)
def test_a_broken_twin_is_caught(tmp_path, path, line, message):
    file = tmp_path / "attentively" / path
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")
    (fault,) = faults(tmp_path / "attentively")
    assert message in fault


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("seq2seq.py", "from attentively.protocol import Memory"),
        ("seq2seq.py", "from attentively import masks, config"),
        ("data/toy/grammar.py", "from attentively.data.toy import lexicon"),
        ("masks.py", "import attentively"),
        ("masks.py", "import torch.masks"),
    ],
)
def test_a_good_import_is_let_pass(tmp_path, path, line):
    file = tmp_path / "attentively" / path
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")
    assert faults(tmp_path / "attentively") == []
