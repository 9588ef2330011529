"""Tooltips of glossary terms: the first occurrence in running text, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"

CONF = """
import sys
from docutils import nodes
sys.path.insert(0, {extensions!r})
extensions = ["myst_parser", "sphinx_design", "quiz", "glossary_tooltips"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
html_theme = {theme!r}
html_static_path = [{static!r}]
mathjax_path = "none.js"

def name_outputs(app, document):
    for node in document.findall(nodes.container):
        if node["classes"] == ["cell-output"]:
            node["classes"] = ["cell_output"]  # as MyST-NB names it

def setup(app):
    app.connect("doctree-read", name_outputs)
"""
GLOSSARY = """
# Notation

```{glossary}
cross-attention
  Attention with queries from another sequence. *Also:* source attention. [03](03_chapter.md)

attention
  A weighted average of `values`, one for each query. *Symbol:* $c$. [03](03_chapter.md)

attention weight
  The share of a value. [03](03_chapter.md)

residual connection
  The sum of input and output. *Also:* skip connection. [03](03_chapter.md)

memorise
  To store examples & not a rule. [03](03_chapter.md)

GRU
  A gated recurrent unit. [03](03_chapter.md)

value
  An everyday word. [03](03_chapter.md)
```
"""
CHAPTER = """
# 03 The attention chapter

```{figure} /x.svg
:alt: A figure.

A caption on attention.

A legend on attention.
```

A heading, a caption, `attention`, $attention$, [attention](notation.md), {term}`attention`,
self-attention, inattention and attention–free text are not marked. The value is not either.

| attention |
|---|
| a cell |

:::{container} cell_output
This is printed: attention.
:::

```python
attention = 1
```

```{quiz}
Is it so?

- [x] attention, yes
  Because.
- [ ] no
  Not so.
```

There is cross-attention here, and one attention weight. **Attention** comes later; then attention
is plain. A gru is an animal, a GRU is not. Residual
connections add. It memorised them; they memorise.
"""


def build(folder: Path, theme: str = "basic", extensions: Path = EXTENSIONS) -> Path:
    """Build a book with one chapter and three other pages; return its folder."""
    static = str(ROOT / "book" / "_static")
    for name, text in {
        "conf.py": CONF.format(extensions=str(extensions), theme=theme, static=static),
        "index.md": "# Book\n\n```{toctree}\n03_chapter\nnotation\nother\n```\n",
        "notation.md": GLOSSARY,
        "03_chapter.md": CHAPTER,
        "other.md": "# Other page\n\nHere attention is not marked.\n",
        "x.svg": '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>',
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", ".", "html"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


def article(page: Path) -> str:
    return (
        page.read_text(encoding="utf-8").partition('role="main"')[2].partition("</section>\n\n")[0]
    )


EXPECTED = [
    *("cross-attention", "attention weight", "Attention"),
    *("GRU", "Residual connections", "memorised"),
]
LINK = re.compile(r'<a class="glossary-term"([^>]*)>(.*?)</a>', re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("book"))


def marked(folder: Path) -> list[str]:
    return [
        " ".join(words.split()) for _, words in LINK.findall(article(folder / "03_chapter.html"))
    ]


def test_the_first_occurrence_in_running_text_is_marked(folder):
    assert marked(folder) == EXPECTED
    text = article(folder / "03_chapter.html")
    # After everything in which the word must not be marked.
    assert text.index("glossary-term") > text.index("There is")
    assert '<strong><a class="glossary-term"' in text


def test_the_link_has_definition_and_entry(folder):
    text = article(folder / "03_chapter.html")
    by_word = {" ".join(words.split()): attributes for attributes, words in LINK.findall(text)}
    assert 'title="A weighted average of values, one for each query."' in by_word["Attention"]
    assert 'title="The sum of input and output."' in by_word["Residual connections"]
    assert "examples &amp; not a rule" in by_word["memorised"]
    for attributes in by_word.values():
        assert 'data-bs-toggle="tooltip"' in attributes
        page, anchor = re.search(r'href="(.+?)#(.+?)"', attributes).groups()
        assert f'id="{anchor}"' in (folder / page).read_text(encoding="utf-8")


def test_lists_of_terms_name_entries_of_the_glossary():
    sys.path.insert(0, str(EXTENSIONS))
    try:
        import glossary_tooltips
    finally:
        sys.path.remove(str(EXTENSIONS))
    page = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    entries = set(re.findall(r"^(\S.*)\n  ", page, re.M))
    for listed in (glossary_tooltips.OTHER_FORMS, glossary_tooltips.AMBIGUOUS):
        assert set(listed) - entries == set()


def test_other_pages_are_left_alone(folder):
    for name in ("other", "notation", "index"):
        assert "glossary-term" not in article(folder / f"{name}.html")


@pytest.mark.parametrize(
    ("broken", "by"),
    [
        (r"(?<![\w\-–])", ""),
        (r"(?![\w\-–])", ""),
        ("reverse=True", "reverse=False"),
        ("nodes.literal, nodes.math", "nodes.math"),
        ("nodes.math, nodes.thead", "nodes.thead"),
        ("nodes.legend, nodes.raw", "nodes.raw"),
        ('"cell_output"', '"no class"'),
        ("(nodes.reference, nodes.literal", "(nodes.literal"),
        ("if name in seen", "if False"),
        ("isinstance(node, nodes.paragraph)", "True"),
        ("nodes.thead, nodes.legend", "nodes.legend"),
        ("        join_lines(self.document)", ""),
        ("(?:{anything})", "(?i:{anything})"),
        (r'r"\s+".join', '" ".join'),
        ("chapter_of(self.env.docname) is None", "True"),
        ("if name not in AMBIGUOUS", ""),
    ],
)
def test_a_broken_variant_marks_other_words(tmp_path, broken, by):
    source = (EXTENSIONS / "glossary_tooltips.py").read_text(encoding="utf-8")
    assert source.count(broken) == 1
    for name in ("transformer_map.py", "quiz.py"):
        shutil.copy(EXTENSIONS / name, tmp_path)
    (tmp_path / "glossary_tooltips.py").write_text(source.replace(broken, by), encoding="utf-8")
    assert marked(build(tmp_path, extensions=tmp_path)) != EXPECTED
