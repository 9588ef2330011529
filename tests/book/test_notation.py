"""The notation page: its axes are those of the annotations, its terms those of the chapters."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
PAGE = (BOOK / "notation.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "attentively"
# What belongs to single assignments and experiments explains itself there.
ELSEWHERE = {"checks", "experiments", "cli"}


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in ("__init__", "__call__")


def annotations(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """Yield every annotation of public functions, methods and fields."""
    for node in body:
        if isinstance(node, ast.ClassDef) and is_public(node.name):
            yield from annotations(node.body)
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and is_public(node.name):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            found = [argument.annotation for argument in every if argument] + [node.returns]
            yield from (annotation for annotation in found if annotation)


def annotated_axes(source: str) -> set[str]:
    """Return the names of axes in the jaxtyping annotations of what is public in a module."""
    tree = ast.parse(source)
    types = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "jaxtyping"
        for alias in node.names
    }
    axes = set()
    for annotation in annotations(tree.body):
        for node in ast.walk(annotation):
            if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") in types:
                shape = ast.literal_eval(node.slice.elts[1])
                axes |= {word.lstrip("*#_?") for word in shape.split()}
    return {axis for axis in axes if not re.fullmatch(r"\d*|\.\.\.", axis)}


def explained_axes(page: str) -> list[str]:
    """Return the names in the table of axes."""
    section = page.partition("## Names of axes")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.M)


def package_axes() -> set[str]:
    paths = [
        path
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ELSEWHERE
    ]
    return set().union(*(annotated_axes(path.read_text(encoding="utf-8")) for path in paths))


def test_every_axis_of_the_package_is_explained_and_no_other():
    explained = explained_axes(PAGE)
    assert explained == sorted(set(explained))
    assert package_axes() - set(explained) == set(), "explain these in book/notation.md"
    assert set(explained) - package_axes() == set(), "no annotation has these"


MODULE = """
import jaxtyping
from jaxtyping import Bool, Float
from torch import Tensor
from typing import Literal

class Layer:
    state: Float[Tensor, "batch state_dim"]
    def __init__(self, table: Float[Tensor, "#vocab d"]) -> None: ...
    def forward(self, *x: Float[Tensor, "*batch 3 d"], mask: Bool[Tensor, "..."] | None = None
    ) -> tuple[Float[Tensor, " heads"], dict[str, Bool[Tensor, "_len"]]]: ...
    def _inside(self, x: Float[Tensor, "hidden"]) -> None: ...

class _Private:
    def forward(self, x: Float[Tensor, "hidden"]) -> None: ...

def choose(name: Literal["soft", "hard"]) -> None:
    local: Float[Tensor, "hidden"]
"""


def test_axes_are_read_from_what_is_public():
    assert annotated_axes(MODULE) == {"batch", "state_dim", "vocab", "d", "heads", "len"}


@pytest.mark.parametrize(("old", "new"), [("`heads`", "`head`"), ("| `k` |", "| `kk` |")])
def test_an_axis_renamed_on_one_side_is_seen(old, new):
    assert old in PAGE
    assert set(explained_axes(PAGE.replace(old, new))) != package_axes()


# Terms

ENTRY = re.compile(r"^(\S.*)\n  (.+) (?:\[(\d\d)\]\((\S+)\)|(\d\d))$", re.M)
"""The term; what it means; its chapter, with a link where there is a page."""


def terms() -> list[tuple[str, str, str, str]]:
    """Return each term with its meaning, its chapter, and the page that it leads to, if any."""
    glossary = re.search(r"^```\{glossary\}\n(.*?)^```$", PAGE, re.M | re.S)[1]
    found = [
        (term, meaning, chapter or unlinked, page)
        for term, meaning, chapter, page, unlinked in ENTRY.findall(glossary)
    ]
    assert len(found) == len(re.findall(r"^\S", glossary, re.M)), "an entry has no chapter"
    return found


def alphabetical(term: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", re.sub("[-–]", " ", term.lower()))


def test_terms_stand_in_their_order_and_once():
    names = [term for term, *_ in terms()]
    assert len(names) > 140
    assert names == sorted(set(names), key=alphabetical)


def stands_on(term: str, text: str) -> bool:
    """Say whether a page uses a term, or one of those that share the entry."""
    text = " ".join(text.lower().split())
    return any(
        name.strip().removesuffix("ing").removesuffix("s") in text
        for name in term.lower().split(",")
    )


def test_each_term_leads_to_a_chapter_that_uses_it():
    pages = {path.name: path.read_text(encoding="utf-8") for path in BOOK.glob("[0-9]*.md")}
    numbers = {name[:2] for name in pages}
    for term, _, chapter, page in terms():
        if chapter in numbers:
            assert page.startswith(chapter), f"{term} has no link, or one to another chapter"
            assert stands_on(term, pages[page]), f"{page} does not say {term!r}"
    assert not stands_on("recurrence relation", pages["08_additive_attention.md"])


def test_each_chapter_has_terms_and_symbols():
    chapters = {f"{number:02}" for number in range(22)}
    assert {chapter for _, _, chapter, _ in terms()} == chapters
    before = PAGE.partition("## Terms")[0]
    said = set(re.findall(r"^Chapters? (.+)\.$", before, re.M))
    named = {number for line in said for number in re.findall(r"\[?(\d\d)\]?", line)}
    assert named == chapters


def test_an_entry_does_not_explain_itself_by_itself():
    for term, meaning, *_ in terms():
        first = re.split(r"[.;:]", meaning)[0].lower()
        assert first != term.lower(), term
        assert len(meaning.split()) >= 3, term
