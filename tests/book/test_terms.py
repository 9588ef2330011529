"""Prose, docstrings, help and messages use the terms of the field, not private words.

`PRIVATE` lists the words that the book does not use for a technical term, with what to write.
A file that may have one is on a list of exceptions, and the list is checked too.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"


class Word(NamedTuple):
    """A private word: where it is one, and where the same letters are ordinary English."""

    instead: str
    pattern: str
    found_in: tuple[str, ...]
    """Examples that the pattern must find."""
    not_in: tuple[str, ...]
    """Examples that it must not find."""
    allowed: str = r"(?!)"
    """Phrases that are ordinary English."""
    times: int = 0
    """How often a file may use it."""


PRIVATE = {
    "numbers": Word(
        "parameters, dimension, entries, values or units",
        r"\b(?:million|thousand|\d+(?:\.\d+)?\s?[Mk])\s+numbers\b|\bnumber by number\b"
        r"|\bnumbers (?:of|in) (?:a|one|each|every|its) (?:vector|row|layer|state|embedding)\b"
        r"|\b(?:rows?|vectors?) of (?:[\w,.]+ ){0,2}numbers\b"
        r"|\b(?:learned|adjustable|trainable) numbers\b"
        r"|\b(?:as many|equally many) numbers\b",
        (
            "It has 1.9 M numbers.",
            "a vector of 64 numbers",
            "multiplied number by number",
            "a row of learned numbers for each word",
            "nearly as many numbers as the other",
            "2 million numbers",
        ),
        ("Two numbers in a sentence.", "the numbers of a table", "plain arrays, numbers and text"),
    ),
    "place": Word(
        "position or location",
        r"\bplaces?\b",
        ("a vector for each place", "attends to other places", "the place with the largest weight"),
        (
            "It takes place here.",
            "an in-place change",
            "two decimal places",
            "in place of the mask",
        ),
        r"\b(?:takes?|took|taken|taking)\s+(?:(?:its|the|their)\s+)?place\b|\b(?:in[\s-]|to\s+)place\b"
        r"|\bchang(?:e|es|ed|ing)\s+places\b|\bin(?:\s+the)?\s+first\s+place\b|\bdecimal\s+places?\b|\bin\s+one\s+place\b",
    ),
    "likelier": Word(
        "more probable, most probable",
        r"\blikel(?:ier|iest)\b",
        ("the likeliest token", "a likelier sentence"),
        ("It is likely.", "the most likely token"),
    ),
    "surprise": Word(
        "negative log-likelihood, cross-entropy or loss",
        r"\bsurprises?\b",
        ("the mean surprise in nats",),
        ("It surprised nobody.", "That is no surprise."),
        r"\b(?:no|by|a)\s+surprise\b",
        times=1,  # once, as intuition
    ),
    "beginning": Word(
        "hypothesis or prefix",
        r"\bbeginnings\b"
        r"|\b(?:a|each|every|best|empty|kept|another|finished|shorter|longer)\s+beginning\b",
        ("keep the k best beginnings", "each beginning gets a score"),
        ("from the beginning", "at the beginning of a sentence"),
    ),
    "draw": Word(
        "sample or sampling",
        r"\b(?:random|independent)\s+draws?\b|\bdraws\s+(?:of|at)\b"
        r"|\b(?:draw|draws|drew|drawn|drawing)\s+(?:at\s+random|anew|from)\b"
        r"|\bdrawn\s+(?:words?|sentences?|tokens?|pairs?|batch\w*|negatives?)\b"
        r"|\b(?:a|each|every|one)\s+draw\b(?!\s+(?:the|a|an|it)\b)",
        ("words drawn at random", "each draw of the bootstrap", "draws from the vocabulary"),
        (
            "draw the figure",
            "It draws a map.",
            "figures are drawn on white",
            "a conclusion drawn from it",
        ),
        r"\bconclusions?\s+(?:(?:is|are|was|were)\s+)?drawn\s+from\b",
    ),
    "reader": Word(
        "forward RNN, backward RNN, model or encoder",
        r"\b(?:forward|backward|recurrent|bidirectional)\s+readers?\b"
        r"|\bforward\s+and\s+(?:the\s+)?backward\s+readers?\b"
        r"|\b(?:both|two)\s+readers'?\s+states?\b|\bstates?\s+of\s+(?:both|one|each)\s+readers?\b",
        ("the forward reader", "states of both readers", "both readers' states"),
        ("The reader may skip this.", "readers of the book", "one reader in three"),
    ),
    "beside": Word(
        "compared with, next to or alongside",
        r"\bbeside\b",
        ("our speed beside theirs",),
        ("Besides, it is fast.",),
    ),
    "anew": Word("again or from scratch", r"\banew\b", ("trained anew",), ("a new one",)),
    "go on with": Word(
        "continue or resume",
        r"\b(?:go|goes|going|gone|went)\s+on\s+(?:with|to\s+train|training|writing)\b",
        ("A run goes on with --resume.", "going on to train a model"),
        ("It goes on the list.", "Go on a trip."),
    ),
    "mend": Word(
        "fix", r"\bmend(?:s|ed|ing)?\b", ("Mend the cell.",), ("We recommend it.", "amend")
    ),
    "spread": Word(
        "standard deviation, range or spread of the seeds",
        r"\b(?:the|a|their|its|this)\s+spread\b|\bspreads?\s+of\b",
        ("The spread is 0.2.", "with a spread of 3"),
        ("weights spread over all tokens", "the spread of the seeds", "spread of seeds"),
        r"\bspread\s+of\s+(?:the\s+)?seeds\b|\b(?:the|a)\s+spread\s+of\s+(?:the\s+)?seeds\b",
    ),
    "ladder": Word(
        "comparison, model or variant",
        r"\bladders?\b|\brungs?\b",
        ("every rung of the ladder",),
        ("a wrung cloth", "attentively experiment ladder --rungs additive"),
        r"\b(?:experiment|for)\s+ladder\b|--rungs\b",
    ),
    "twins": Word("minimal pairs", r"\btwins?\b", ("Both twins are right.",), ("between", "twine")),
    "trainings": Word(
        "training run(s)",
        r"\btrainings\b|\b(?:a|one|each|every|another)\s+training"
        r"(?=[.,;:)]|\s+(?:of|with|that|which|is|was|takes|took|in|on|from|has|ends|ended)\b)",
        ("three trainings", "a training of 600 steps", "after a training."),
        (
            "a training run",
            "training takes a minute",
            "a training set of pairs",
            "each training step",
        ),
    ),
    "way around": Word(
        "residual (skip) connection",
        r"\bways?\s+a?round\b",
        ("the way around the sub-layer",),
        ("the other way round", "It works around that."),
        r"\bother\s+way\s+a?round\b",
    ),
    "short way": Word(
        "path length",
        r"\b(?:short|long|shorter|longer|shortest|longest)\s+ways?\b",
        ("a short way between two words", "the longest way"),
        ("a short while", "in this way"),
    ),
    "in a row": Word(
        "sequential operations",
        r"\bin\s+a\s+row\b(?!\s+of)",
        ("n steps in a row",),
        ("the entries in a row of the table",),
    ),
    "transplant": Word(
        "activation patching", r"\btransplant\w*", ("transplanted heads",), ("a plant",)
    ),
    "cut edge": Word(
        "attention knockout",
        r"\bcut\s+edges?\b|\bedges?\s+(?:that\s+)?(?:(?:is|are|was|were)\s+)?cut\b"
        r"|\bcut(?:s|ting)?\s+(?:an|the|one|each|every|this|all)\s+edges?\b",
        ("the cut edge", "edges are cut", "cutting the edge"),
        ("at the edge of the window", "The paper cut is shallow."),
    ),
    "graphics card": Word(
        "GPU", r"\bgraphics\s+cards?\b", ("on a graphics card",), ("graphics in SVG",)
    ),
    "processor": Word(
        "CPU", r"\bprocessors?\b", ("on two processors",), ("a preprocessor", "processing")
    ),
    "dear": Word(
        "expensive, cheaper or costs more",
        r"\bdear(?:er|est|ly)?\b",
        ("the dearest part",),
        ("endear",),
    ),
    "foretell": Word(
        "predict", r"\bforet(?:ell\w*|old)\b", ("foretells the loss",), ("told before",)
    ),
    "tried on": Word(
        "evaluated on", r"\btried\s+on\b", ("It is tried on new sentences.",), ("tried once",)
    ),
    "tell apart": Word(
        "distinguish",
        r"\b(?:tell|tells|told|telling)(?:\s+[^\s.;:]+){0,4}?\s+apart\b",
        ("told apart", "tells the two words apart"),
        ("Tell them. Apart from that, no.",),
    ),
    "by heart": Word(
        "memorise or overfit", r"\bby\s+heart\b", ("learned by heart",), ("the heart",)
    ),
    "pace": Word(
        "learning-rate schedule",
        r"\bpaces?\b",
        ("the paper's pace",),
        ("the space", "It keeps pace with it."),
        r"\bkeeps?\s+pace\b",
    ),
    "smoothed labels": Word(
        "label smoothing",
        r"\bsmoothed\s+labels?\b",
        ("with smoothed labels",),
        ("label smoothing", "a smoothed target distribution"),
    ),
    "fill up": Word(
        "pad or padding",
        r"\bfill(?:s|ed|ing)?(?:\s+[^\s.;:]+){0,3}?\s+up\b",
        ("filled up with <pad>", "fill the batch up"),
        ("Fill it in. Up to four.", "filled with padding"),
    ),
    "stands nowhere": Word(
        "is not given in the book or the package",
        r"\b(?:stands?|stood)\s+nowhere\b",
        ("Its answer stands nowhere.",),
        ("It is nowhere.",),
    ),
}


# Reading texts. What is not prose is replaced by spaces, so that line numbers stay.

FRONT_MATTER = r"\A---\n.*?^---$"
PROSE_BLOCKS = r"\{(admonition|dropdown|quiz|glossary|figure|transformer-map|exercise-map|div)\}"
FENCE = re.compile(r" *(`{3,})([^`]*)")
CAPTION = re.compile(r"^:? *(?:caption|alt): ?.*$", re.M)
NOT_PROSE = [
    r"<!--.*?-->",
    r"\$\$.*?\$\$",
    r"(?<!\\)\$[^$\n]+(?:\n[^$\n]+)?\$",
    r"(?:\{[\w:-]+\})?(`+)[^`]+?\1",  # code and roles
    r"\]\([^)]*\)",
    r"https?://\S+",
    r"(?<!\*)\*(?!\*)[^*\s](?:[^*\n]*)\*(?!\*)",  # example sentences are in italics
    r"[\"“][^\"”\n]{1,80}(?:\n[^\"”\n]{1,80})?[\"”]",
]
NOT_PROSE_IN_STRINGS = [
    *(r":\w+:`[^`]+`", r"(`+)[^`]+?\1", r"https?://\S+", r"^\s*\.\. math::.*?(?=^\S|\Z)"),
    *(
        r"[\"“][^\"”\n]{1,80}[\"”]",
        r"(?<!\w)'[^'\n]{1,80}'(?!\w)",
        r"(?<!\*)\*[^*\n]{1,60}\*(?!\*)",
    ),
]


def without(text: str, patterns: list[str]) -> str:
    """Replace what the patterns match by spaces."""
    for pattern in patterns:
        text = re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)
    return text


def markdown(text: str) -> str:
    """Return the prose of a page, the captions and alternative texts of its cells included."""

    lines, fences = [], []  # of the blocks that are open: fence, and the words after it
    for line in without(text, [FRONT_MATTER]).split("\n"):
        found = FENCE.fullmatch(line)
        code = [words for _, words in fences if not re.match(PROSE_BLOCKS, words)]
        if found and fences and found[1] == fences[-1][0] and not found[2].strip():
            fences.pop()
        elif found and not code:
            fences.append((found[1], found[2]))
        elif not code or ("{code-cell}" in code[0] and CAPTION.fullmatch(line)):
            lines.append(line)
            continue
        lines.append("")
    return without("\n".join(lines), NOT_PROSE)


SHAPED = {"Bool", "Float", "Int", "Num", "Shaped"}


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings and other strings of at least four words, with their lines."""
    inside = set()  # of another string, or of an annotation with a shape
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in SHAPED:
            inside |= set(map(id, ast.walk(node.slice)))
        if isinstance(node, ast.JoinedStr):
            inside |= set(map(id, ast.walk(node))) - {id(node)}
            parts = [p.value if isinstance(p, ast.Constant) else "X" for p in node.values]
            text = "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            text = node.value
        else:
            continue
        if len(text.split()) >= 4:
            yield node.lineno, without(text, NOT_PROSE_IN_STRINGS)


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a file that readers see, each with its first line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from strings(text)
    elif path.suffix == ".ipynb":
        for number, cell in enumerate(json.loads(text)["cells"], start=1):
            if cell["cell_type"] == "markdown":
                yield number, markdown("".join(cell["source"]))
    elif path.name == "CHANGELOG.md":  # its newest entry
        head, entry, *_ = re.split(r"^## ", text, flags=re.M)
        yield head.count("\n") + 1, markdown(entry)
    elif path.parent.name == "decisions" and path.name != "README.md":  # what is decided
        decided = re.search(r"^\*\*Decision\.\*\*.*?(?=\n\n)", text, re.M | re.S)
        if decided is None:
            raise ValueError(f"{path.name} has no paragraph that begins with **Decision.**")
        yield 1, markdown(text.partition("\n")[0])
        yield text[: decided.start()].count("\n") + 1, markdown(decided[0])
    else:
        yield 1, markdown(text)


def private_words(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield each private word with its position and its context."""
    for name, word in PRIVATE.items():
        plain = without(text, [f"(?i:{word.allowed})"])
        for match in re.finditer(word.pattern.replace(" ", r"\s+"), plain, re.I):
            around = text[max(0, match.start() - 30) : match.end() + 30]
            yield name, match.start(), " ".join(around.split())


def faults(path: Path) -> list[str]:
    """Return a line for each private word in a file."""
    found: dict[str, list[str]] = {}
    for first, text in pieces(path):
        for name, start, around in private_words(text):
            line = first + text[:start].count("\n") * (path.suffix != ".ipynb")
            where = f"{path.relative_to(ROOT)}:{line}"
            instead = PRIVATE[name].instead
            found.setdefault(name, []).append(f"{where}: “{around}”: {name}: write {instead}")
    return [line for name, lines in found.items() for line in lines[PRIVATE[name].times :]]


# Which texts

TEXTS = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "book/**/*.md",
    "book/_ext/*.py",
    "docs/decisions/*.md",
    "solutions/*/*.ipynb",
    "src/**/*.py",
    ".github/**/*.md",
    ".github/**/*.yml",
]

COMMAND = "ladder is the name of an experiment, and --rungs that of its option"
NOUNS = "a place is a kind of noun in the toy language"
EXCEPTIONS = {
    "src/attentively/experiments/__init__.py": COMMAND,
    "src/attentively/experiments/ladder.py": COMMAND,
    "src/attentively/experiments/real_ladder.py": COMMAND,
    "src/attentively/data/toy": NOUNS,
}
"""Files and folders that may have private words, each with the reason."""


def texts() -> list[Path]:
    return sorted({path for pattern in TEXTS for path in ROOT.glob(pattern)})


def excepted(path: Path) -> bool:
    return any(path == ROOT / name or ROOT / name in path.parents for name in EXCEPTIONS)


@pytest.fixture(scope="module")
def by_file() -> dict[Path, list[str]]:
    return {path: faults(path) for path in texts()}


def not_excepted(by_file: dict[Path, list[str]]) -> list[str]:
    return [line for path, lines in by_file.items() if not excepted(path) for line in lines]


def needless(by_file: dict[Path, list[str]]) -> list[str]:
    """Return the exceptions without any private word."""
    faulty = {path for path, lines in by_file.items() if lines}
    needed = faulty | {folder for path in faulty for folder in path.parents}
    return [name for name in EXCEPTIONS if ROOT / name not in needed]


def test_texts_use_the_terms_of_the_field(by_file):
    assert len(by_file) > 200
    found = not_excepted(by_file)
    assert not found, "\n".join([f"{len(found)} private words:", *found])


def test_exceptions_are_needed(by_file):
    assert needless(by_file) == [], "take these off the list: they have no private words"


def test_a_fault_or_a_needless_exception_is_seen(by_file, monkeypatch):
    readme, answers = ROOT / "README.md", ROOT / "book" / "answers.md"
    assert not_excepted(by_file | {readme: ["a fault"]}) == ["a fault"]
    monkeypatch.setitem(EXCEPTIONS, "book/answers.md", "no reason")
    assert needless(by_file) == ["book/answers.md"]
    assert needless(by_file | {answers: ["a fault"]}) == []


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_word_is_found_and_ordinary_english_is_not(name):
    word = PRIVATE[name]
    assert word.found_in
    assert word.not_in
    for text in word.found_in:
        assert name in {found for found, *_ in private_words(text)}, text
    for text in word.not_in:
        assert name not in {found for found, *_ in private_words(text)}, text


PAGE = """---
title: a ladder
---
# On twins

```{quiz}
Which twins?
```

Not `twins`, $twins$, {ref}`twins <twins>`, [a link](twins.md), *the twins sleep* or "twins".

```python
twins = 1  # twins
```

```{code-cell} ipython3
:mystnb:
:  figure:
:    caption: Two twins.
:  image:
:    alt: A rung.

twins()
```

:::{admonition} Box
A way
around.
:::
"""
CODE = '''
def f(x):
    """Return the likeliest token, not `likeliest`.

    .. math:: likeliest
    """
    raise ValueError(
        f"the mask {x} is wrong: "
        "mend the line beside it"
    )

SHORT = "twins"
steps: Annotated[int, Option(help="How many steps in a row.")] = 1
x: Float[Tensor, "batch places size size"]
'''


def test_prose_captions_and_messages_are_read_and_code_is_not(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page, module, notebook = (tmp_path / f"x.{ending}" for ending in ("md", "py", "ipynb"))
    page.write_text(PAGE)
    module.write_text(CODE)
    cells = [
        {"cell_type": "code", "source": ["twins = 1"]},
        {"cell_type": "markdown", "source": ["Two ", "twins."]},
    ]
    notebook.write_text(json.dumps({"cells": cells}))
    found = {
        tuple(re.fullmatch(r"(.+?): “.*”: (.+): write .+", line).groups())
        for path in (page, module, notebook)
        for line in faults(path)
    }
    assert found == {
        ("x.md:4", "twins"),
        ("x.md:7", "twins"),
        ("x.md:19", "twins"),
        ("x.md:21", "ladder"),
        ("x.md:27", "way around"),
        ("x.py:3", "likelier"),
        ("x.py:8", "mend"),
        ("x.py:8", "beside"),
        ("x.py:13", "in a row"),
        ("x.ipynb:2", "twins"),
    }
