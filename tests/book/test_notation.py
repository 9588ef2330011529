"""Notation and glossary: axes are those of the annotations, terms those of the chapters."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
PAGE = (BOOK / "notation.md").read_text(encoding="utf-8")
GLOSSARY = (BOOK / "glossary.md").read_text(encoding="utf-8")
TOC = (ROOT / "_toc.yml").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "attentively"
sys.path.insert(0, str(BOOK / "_ext"))
try:
    from glossary_tooltips import forms_of
finally:
    sys.path.pop(0)
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

ENTRY = re.compile(r"^(\S.*)\n  (.+) \[(\d\d)\]\((\S+)\)$", re.M)
"""The term; its definition with names; its chapter with a link."""
NAMES = re.compile(r"\*(Symbol|Code|Also):\* (.+?)\.(?= \*|$)")
MINIMUM = 170


class Term(NamedTuple):
    """An entry of the glossary."""

    name: str
    definition: str
    chapter: str
    page: str
    names: dict[str, list[str]]
    """Symbols, names in code and synonyms."""


def terms(page: str = GLOSSARY) -> list[Term]:
    """Return the entries of the glossary."""
    glossary = re.search(r"^```\{glossary\}\n(.*?)^```$", page, re.M | re.S)[1]
    found = []
    for name, text, chapter, link in ENTRY.findall(glossary):
        definition = re.split(r" \*(?:Symbol|Code|Also):\*", text)[0]
        names = {kind: re.split(r"[,;] ", listed) for kind, listed in NAMES.findall(text)}
        found.append(Term(name, definition, chapter, link, names))
    assert len(found) == len(re.findall(r"^\S", glossary, re.M)), "an entry has no chapter"
    return found


def alphabetical(term: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", re.sub("[-–]", " ", term.lower()))


def test_terms_are_in_alphabetical_order_and_unique():
    names = [term.name for term in terms()]
    assert len(names) > MINIMUM
    assert names == sorted(set(names), key=alphabetical)


def uses(text: str, names: list[str]) -> bool:
    """Say whether a page uses one of the names, in any number and with any ending."""
    text = " ".join(text.lower().split())
    return any(name.lower().removesuffix("ing").removesuffix("s") in text for name in names)


def chapter_of_each_page() -> dict[str, str]:
    """Return the pages of the chapters in their order; a second page has no number of its own."""
    chapter, found = "", {}
    for page in re.findall(r"- file: book/(\w+)$", TOC, re.M):
        if page == "exercise_map":  # the first page of the back matter
            break
        chapter = page[:2] if page[:2].isdigit() else chapter
        found[f"{page}.md"] = chapter
    return found


def test_a_second_page_belongs_to_the_chapter_before_it():
    chapters = chapter_of_each_page()
    assert chapters["18_why_it_wins.md"] == chapters["models_compared.md"] == "18"
    assert "notation.md" not in chapters


def pages_of_chapters() -> dict[str, str]:
    """Return the text of each page of the chapters, in the order of the book."""
    return {page: (BOOK / page).read_text(encoding="utf-8") for page in chapter_of_each_page()}


def test_each_term_leads_to_a_chapter_that_uses_it():
    pages = pages_of_chapters()
    chapters = chapter_of_each_page()
    unused = {}
    for term in terms():
        assert chapters[term.page] == term.chapter, f"{term.name}: another chapter"
        if not uses(pages[term.page], [term.name, *term.names.get("Also", [])]):
            unused[term.name] = term.chapter
    assert unused == {}
    assert not uses(pages["08_additive_attention.md"], ["recurrence relation"])


# The first page: each term leads to the page that introduces it in bold.

FLAGS = re.M | re.S
CODE = r"^(`{3,})(?:\{code-cell\}|\{literalinclude\}|\w+).*?^\1$"
RECAP = r"^(:{3,})\{admonition\} (?:Before you start|What this page uses).*?^\1$"
BOLD = re.compile(r"\*\*(?!\s)([^*]+?)(?<!\s)\*\*")
OTHER_MEANING = {
    ("intervention", "10_visual_attention.md"): "a change of the input, not inside the model",
    ("location in an image", "09_multiplicative_attention.md"): "a score function",
    ("projection", "00_tools.md"): "a linear layer with a bias, as a whole model",
    ("rank", "02_subwords.md"): "the rank of a word by its frequency",
    ("score", "00_tools.md"): "the score of a token of the vocabulary",
}
"""Pages that have the word in bold for something else than the entry."""


def in_bold(page: str, recap: str = RECAP) -> set[str]:
    """Return the words in bold, in lower case, without those of code and of the box of recaps."""
    text = re.sub(recap, "", re.sub(CODE, "", page, flags=FLAGS), flags=FLAGS)
    words = (" ".join(found.lower().split()) for found in BOLD.findall(text))
    return {word.strip("`").rstrip(".:,?") for word in words}


def first_pages(found: list[Term], pages: dict[str, str]) -> dict[str, str | None]:
    """Return for each term the first page with its name or a synonym in bold, or None."""
    headwords = {form.lower() for term in found for form in forms_of(term.name)}
    bold = {page: in_bold(text) for page, text in pages.items()}
    opening = next(iter(pages))  # its box cannot be a recap of earlier chapters
    bold[opening] = in_bold(pages[opening], recap=r"(?!)")
    first = {}
    for term in found:
        synonyms = {form.lower() for name in term.names.get("Also", []) for form in forms_of(name)}
        forms = {form.lower() for form in forms_of(term.name)} | (synonyms - headwords)
        first[term.name] = next(
            (
                page
                for page, words in bold.items()
                if forms & words and (term.name, page) not in OTHER_MEANING
            ),
            None,
        )
    return first


def disagreements(found: list[Term], pages: dict[str, str]) -> dict[str, str]:
    """Return what is wrong with the page of each term that does not lead to its first page."""
    first, wrong = first_pages(found, pages), {}
    for term in found:
        page = first[term.name]
        if page == term.page:
            continue
        where = f"first in bold on {page}" if page else "no page has it in bold"
        wrong[term.name] = f"{where}; the glossary says {term.page}"
    return wrong


def test_each_term_leads_to_the_page_that_introduces_it_in_bold():
    wrong = disagreements(terms(), pages_of_chapters())
    listed = "\n".join(f"  {name}: {fault}" for name, fault in wrong.items())
    assert not wrong, f"{len(wrong)} terms:\n{listed}"


CHAPTER_WITH_BOLD = """# A page

:::{admonition} Before you start
- The **recap** comes first.
:::

**Step by step.** The **path
length** is short. Two **epochs** of **`einsum`**: *emphasis*, 2 ** 3, x ** 2.

```{code-cell} ipython3
f(**code)  # **comment**
```

```python
g(**plain)
```

```{quiz}
Which **option**?
```
"""


def test_words_in_bold_are_read_from_the_text():
    assert in_bold(CHAPTER_WITH_BOLD) == {
        *("step by step", "path length", "epochs", "einsum", "option"),
    }


def test_a_wrong_first_page_is_named():
    good = terms()[0]
    epoch = good._replace(name="epoch", page="02_b.md", chapter="02", names={"Also": ["pass"]})
    query = epoch._replace(name="query", names={})
    pages = {"01_a.md": "An **apple**.", "02_b.md": "Two **epochs**.", "14_c.md": "An **epoch**."}
    assert disagreements([epoch], pages) == {}
    assert (
        "first in bold on 02_b.md"
        in disagreements([epoch._replace(page="14_c.md")], pages)["epoch"]
    )
    assert "no page" in disagreements([query], pages)["query"]
    earlier = pages | {"01_a.md": "One **pass**."}
    assert "01_a.md" in disagreements([epoch], earlier)["epoch"]
    # A synonym that has an entry of its own is not the term.
    assert (
        disagreements([epoch, epoch._replace(name="pass", page="01_a.md", names={})], earlier) == {}
    )


def test_exceptions_for_another_meaning_are_needed():
    pages = pages_of_chapters()
    chapters = list(pages)
    by_name = {term.name: term for term in terms()}
    for name, page in OTHER_MEANING:
        assert chapters.index(page) < chapters.index(by_name[name].page)
        words = {name, *by_name[name].names.get("Also", [])}
        assert words & in_bold(pages[page]), f"{page} does not have {name} in bold"


def test_each_chapter_has_terms_and_symbols():
    chapters = {f"{number:02}" for number in range(22)}
    assert {term.chapter for term in terms()} == chapters
    before = PAGE.partition("## Terms")[0]
    lines = set(re.findall(r"^Chapters? (.+)\.$", before, re.M))
    assert {number for line in lines for number in re.findall(r"\[(\d\d)\]", line)} == chapters


def circular(term: Term) -> bool:
    """Say whether a definition is only the term again, or hardly a definition at all."""
    first = re.split(r"[.;:]", term.definition)[0].lower()
    return first.removeprefix("a ").removeprefix("the ") == term.name.lower() or (
        len(term.definition.split()) < 5
    )


def too_long(term: Term) -> bool:
    """Say whether a definition is more than two sentences, or does not fit a tooltip."""
    return len(re.findall(r"[.?](?= |$)", term.definition)) > 2 or len(term.definition) > 260


def with_math(term: Term) -> bool:
    """Say whether a definition has an equation: tooltips are plain text."""
    return "$" in term.definition.replace("$k$", "").replace("$n$", "")


@pytest.mark.parametrize("fault", [circular, too_long, with_math])
def test_definitions(fault):
    assert [term.name for term in terms() if fault(term)] == []


def test_a_poor_definition_is_seen():
    good = terms()[0]
    assert circular(good._replace(name="dimension", definition="The dimension: of any vector."))
    assert circular(good._replace(definition="A kind of network."))
    assert too_long(good._replace(definition="One is here. Two are there. Three are too many."))
    assert with_math(good._replace(definition="The quantity that is written as $x + y$ here."))


def unknown_code(found: list[Term]) -> set[str]:
    """Return the names in code that occur nowhere in the package."""
    paths = PACKAGE.rglob("*.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    words = set(re.findall(r"\w+", source))
    listed = {name for term in found for each in term.names.get("Code", []) for name in [each]}
    return {name for name in listed if not set(re.findall(r"\w+", name)) <= words}


def test_names_in_code_are_those_of_the_package():
    found = terms()
    assert sum("Code" in term.names for term in found) > 80
    assert unknown_code(found) == set()
    changed = GLOSSARY.replace("`masked_softmax`", "`softmax_masked`")
    assert unknown_code(terms(changed)) == {"`softmax_masked`"}


# The glossary has to name the terms that the style guide asks for.
EXPECTED = """
ablation, activation patching, autoregressive, backpropagation, backpropagation through
time, complexity, contextual, dimension, extrapolation, generalise, ground truth, hidden state,
hyperparameter, hypothesis, inference, initialisation, label smoothing, memorise, minimal pairs,
overfitting, parameter, path length, prefix, regularise, representation, residual connection,
sequential operations, teacher forcing, time step, training run, unrolling, weight decay"""


def test_terms_of_the_field_have_entries():
    assert set(" ".join(EXPECTED.split()).split(", ")) - {term.name for term in terms()} == set()
