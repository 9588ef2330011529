"""A page as a notebook says all that the page says, in Markdown that any notebook shows."""

import re
import sys
from pathlib import Path

import pytest
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "book").glob("[0-9][0-9]_*.md"))


@pytest.fixture
def plain(monkeypatch):
    """Return a function that makes Markdown plain, as if it stood on a page of the book."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    with docutils_namespace():
        import notebook_download

        class App:
            config = type("Config", (), {"source_encoding": "utf-8"})

        yield lambda text: notebook_download.plain_markdown(text, PAGES[0], App())
    for name in ("notebook_download", "quiz", "transformer_map"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("colons", [":::", "::::"])
def test_boxes_are_unfolded_whatever_their_fence(plain, colons):
    said = plain(f"Before.\n\n{colons}{{dropdown}} `join`, and why\nInside.\n{colons}\n")
    folded = "<details><summary><code>join</code>, and why</summary>\n\nInside.\n\n</details>\n"
    assert said == f"Before.\n\n{folded}"
    said = plain(f"{colons}{{admonition}} What it `expects`\n:class: tip\nMuch.\n{colons}\nAfter.")
    assert said == "**What it `expects`**\n\nMuch.\nAfter."


def test_code_inside_a_box_is_spelled_out(plain):
    fence = "```{literalinclude} ../src/attentively/tokens/byte_pair.py\n:pyobject: to_bytes\n```"
    said = plain(f"::::{{dropdown}} Code\n{fence}\n::::")
    assert "<summary>Code</summary>\n\n```python\ndef to_bytes(text: str)" in said
    assert said.endswith("```\n\n</details>")


def test_labels_and_roles_are_no_words(plain):
    assert plain("(tools)=\n# Tools {cite:p}`one2016`\n\nf(x)=\n") == (
        "# Tools `one2016`\n\nf(x)=\n"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_of_every_page_nothing_is_left_that_only_the_book_understands(plain, page):
    _, _, text = page.read_text(encoding="utf-8").split("---\n", maxsplit=2)
    cells = text.split("```{code-cell}")
    prose = [cells[0], *(cell.partition("\n```\n")[2] for cell in cells[1:])]
    for part in map(plain, prose):
        assert re.findall(r"^(?:`{3,}\{|:{3,}|\([\w-]+\)=$).*", part, re.M) == []
