"""A page as a notebook says all that the page says, in Markdown that any notebook shows."""

import base64
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "book").glob("[0-9][0-9]_*.md"))
ADDRESS = "https://book.example/attentively"
ROLES = "cite:[a-z]+|doc|download|eq|numref|ref|term"
ONLY_IN_THE_BOOK = re.compile(
    rf"^(?:`{{3,}}\{{|:{{3,}}|\([\w-]+\)=$|\$\$ *\()|\{{(?:{ROLES})\}}`|\]\(\d\d_\w+\.md", re.M
)


class Referred:
    """References whose answers show what was asked."""

    def role(self, role, content):
        return f"<{role} {content}>"

    def link(self, text, name, place):
        return f"<link {text} {name}{place}>"

    def numbered(self, caption, name):
        return f"<number {name}> {caption.strip()}"


@pytest.fixture
def plain(monkeypatch):
    """Return a function that makes Markdown plain, as if it stood on a page of the book."""
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    with docutils_namespace():
        import notebook_download

        class App:
            config = type("Config", (), {"source_encoding": "utf-8"})

        yield lambda text: notebook_download.plain_markdown(text, PAGES[0], App(), Referred())
    for name in ("notebook_download", "quiz", "transformer_map", "widget"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("colons", [":::", "::::"])
def test_boxes_are_unfolded_whatever_their_fence(plain, colons):
    said = plain(f"Before.\n\n{colons}{{dropdown}} `join`, and why\nInside.\n{colons}\n")
    folded = "<details><summary><code>join</code>, and why</summary>\n\nInside.\n\n</details>\n"
    assert said == f"Before.\n\n{folded}"
    said = plain(f"{colons}{{admonition}} What it `expects`\n:class: tip\nMuch.\n{colons}\nAfter.")
    assert said == "**What it `expects`**\n\nMuch.\nAfter."
    assert plain(f"{colons}{{warning}}\nNot yet.\n{colons}") == "**Warning**\n\nNot yet."


def test_code_inside_a_box_is_spelled_out(plain):
    fence = "```{literalinclude} ../src/attentively/tokens/byte_pair.py\n:pyobject: to_bytes\n```"
    said = plain(f"::::{{dropdown}} Code\n{fence}\n::::")
    assert "<summary>Code</summary>\n\n```python\ndef to_bytes(text: str)" in said
    assert said.endswith("```\n\n</details>")


def test_a_method_stands_at_the_margin(plain):
    fence = (
        "```{literalinclude} ../src/attentively/attention/additive.py\n:pyobject: %s\n:dedent:\n```"
    )
    said = plain(fence % "AdditiveAttention.forward")
    assert said.startswith("```python\ndef forward(")


def test_of_a_widget_the_static_version_is_left(plain):
    said = plain("Before.\n\n```{widget} masks\nPress\na key.\n\nA table.\n\nA note.\n```\nAfter.")
    note = "*The page of the book has a widget here, and this is its static version.*"
    assert said == f"Before.\n\n{note}\n\nA table.\n\nA note.\nAfter."


def test_labels_are_no_words_and_roles_are_resolved(plain):
    assert plain("(tools)=\n# Tools {cite:p}`one2016,two2017`\n\nf(x)=\n") == (
        "# Tools <cite:p one2016,two2017>\n\nf(x)=\n"
    )
    assert plain("by {eq}`eq-x` and {ref}`the\nnext <next>`") == (
        "by <eq eq-x> and <ref the\nnext <next>>"
    )
    assert plain("see [the\nnext](02_next.md#there), [a list](https://a.example/b.md)") == (
        "see <link the\nnext 02_next#there>, [a list](https://a.example/b.md)"
    )


def test_equations_keep_their_numbers(plain):
    assert plain("$$\nx = 1\n$$ (eq-x)\n") == "$$\nx = 1\n\\tag{<eq eq-x>}\n$$\n"
    assert plain("```{math}\n:label: eq-y\ny\n```") == "$$\ny\n\\tag{<eq eq-y>}\n$$"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_of_every_page_nothing_is_left_that_only_the_book_understands(plain, page):
    _, _, text = page.read_text(encoding="utf-8").split("---\n", maxsplit=2)
    cells = text.split("```{code-cell}")
    prose = [cells[0], *(cell.partition("\n```\n")[2] for cell in cells[1:])]
    for part in map(plain, prose):
        assert ONLY_IN_THE_BOOK.findall(part) == []


@pytest.mark.parametrize("text", [":::{tip}", "(x)=", "$$ (eq-x)", "{term}`x`", "[x](01_x.md)"])
def test_what_only_the_book_understands_is_found(text):
    assert ONLY_IN_THE_BOOK.search(f"Before.\n{text}\nAfter.")


# The notebooks of a small book, as its site offers them

FIRST = """---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3}
---
(first)=
# The first

As Vaswani and others {cite:p}`vaswani2017` and {cite:t}`bahdanau2015` say
({download}`the notes <notes.txt>`):

$$
x = 1
$$ (eq-one)

By {eq}`eq-one`, {eq}`eq-two`, {numref}`fig-dot` and {ref}`second`, see
[the *second*](02_second.md).

```{transformer-map}
:lit: position
:name: fig-map

Its {eq}`eq-one`.
```

```{code-cell} ipython3
:tags: [hide-input]
:mystnb:
:  figure:
:    name: fig-dot
:    caption: A dot, as in {cite:t}`vaswani2017`.

from IPython.display import SVG

SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>')
```
"""
SECOND = "(second)=\n# The second\n\n$$\ny = 2\n$$ (eq-two)\n\n```{bibliography}\n:all:\n```\n"


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """Return a function that builds a book for an address; it gives its first page's cells."""
    root = tmp_path_factory.mktemp("book")
    shutil.copytree(ROOT / "book" / "_ext", root / "book" / "_ext")
    shutil.copy(ROOT / "book" / "references.bib", root / "book")
    (root / "book" / "_static").mkdir()
    (root / "book" / "_static" / "attentively.css").touch()
    shutil.copy(ROOT / "book" / "_static" / "favicon.svg", root / "book" / "_static")
    (root / "book" / "notes.txt").write_text("Notes")
    (root / "book" / "01_first.md").write_text(FIRST)
    (root / "book" / "02_second.md").write_text(SECOND)
    toc = "format: jb-book\nroot: book/01_first\nchapters: [{file: book/02_second}]\n"
    (root / "_toc.yml").write_text(toc)
    config = (ROOT / "_config.yml").read_text()
    assert 'baseurl: ""' in config
    built_for = []

    def build(address):
        if built_for != [address]:
            build_again(address)
            built_for[:] = [address]
        return nbformat.read(root / "_build/html/_sources/book/01_first.ipynb", 4).cells, root

    def build_again(address):
        (root / "_config.yml").write_text(config.replace('baseurl: ""', f'baseurl: "{address}"'))
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)  # then all is read again
        command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "-W"]
        built = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert built.returncode == 0, built.stdout + built.stderr

    return build


@pytest.mark.notebook
@pytest.mark.timeout(300)
def test_what_a_page_refers_to_is_in_its_notebook(offered):
    cells, _ = offered("")
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert cells[0].source.startswith("*A page of Attentively. It needs the Python package")
    assert "As Vaswani and others (Vaswani et al., 2017) and Bahdanau et al. (2015) say\n" in text
    assert "(the notes):" in text
    assert "x = 1\n\\tag{1}\n$$" in text
    assert "By (1), (2), Fig. 2 and The second, see\nthe *second*." in text
    assert "*Fig. 1. Its (1).*" in text
    assert "](http" not in text.partition("## References")[0]

    # The picture of the map is whole, though it can link to no page.
    picture = base64.b64decode(re.search(r"base64,([\w+/=]+)\)", text)[1]).decode()
    assert " 13: " in picture
    assert "not in the book" not in picture

    # A figure's caption follows its cell, whose code is folded.
    [code] = [n for n, cell in enumerate(cells) if cell.cell_type == "code"]
    assert cells[code].metadata["jupyter"] == {"source_hidden": True}
    assert cells[code].execution_count == 1
    assert "image/svg+xml" in cells[code].outputs[0].data
    assert cells[code + 1].source == "*Fig. 2. A dot, as in Vaswani et al. (2017).*"

    listed = cells[-1].source.split("\n- ")
    assert listed[0] == "## References\n"
    assert [re.findall(r"\b20\d\d\b", entry)[0] for entry in listed[1:]] == ["2015", "2017"]
    assert listed[2].startswith("Ashish Vaswani, Noam Shazeer")


@pytest.mark.notebook
@pytest.mark.timeout(300)
def test_with_an_address_references_are_links_to_pages_that_exist(offered):
    offered("")
    cells, root = offered(ADDRESS)
    [code] = [cell for cell in cells if cell.cell_type == "code"]
    assert code.outputs, "what Sphinx takes from its cache is there as well"
    text = "\n\n".join(cell.source for cell in cells[:-1] if cell.cell_type == "markdown")
    links = dict(re.findall(rf"\[([^\[\]]+)\]\({re.escape(ADDRESS)}/([^)]+)\)", text))
    assert set(links) == {"Attentively", "the notes", "(2)", "The second", "the *second*"}
    assert "By (1), [(2)](" in text, "what is on the same page is no link"
    for location in links.values():
        path, _, place = location.partition("#")
        assert (root / "_build" / "html" / path).is_file(), location
        assert f'id="{place}"' in (root / "_build" / "html" / path).read_text() or not place
