"""Formulas become MathML: all of the assignments', and nothing else of a student's."""

import json
import time

import pytest
from bs4 import BeautifulSoup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from notebook_tools import ROOT

from attentively_grader.reports.mathml import with_mathml

HOSTILE = {
    "link": r"$\href{javascript:alert(1)}{x}$",
    "style": r"$\style{position:fixed;top:0}{x}$",
    "class": r"$\class{panel-heading}{x}$",
    "tags in a text": r"$\text{&lt;/mtext&gt;&lt;script&gt;alert(1)&lt;/script&gt;}$",
    "references in a text": r"$\text{&amp;lt;script&amp;gt;alert(1)}$",
    "a tag as a symbol": r"$&lt;img src=x onerror=alert(1)&gt;$",
    "moved over the score": r"$\hspace{-99em}\raise{99em}{100}$",
    "colour as a style": r"$\color{red;position:fixed}{x}$",
}


def shown(page):
    return BeautifulSoup(with_mathml(page), "html.parser")


def formulas(page):
    return [(each["display"], each.get_text()) for each in shown(page).find_all("math")]


def test_every_formula_of_the_assignments_is_converted():
    found = []

    class Renderer(IPythonRenderer):
        def inline_math(self, body):
            found.append(body)
            return super().inline_math(body)

        def block_math(self, body):
            found.append(body)
            return super().block_math(body)

        def latex_environment(self, name, body):
            found.append(body)
            return super().latex_environment(name, body)

    pages = []
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                renderer = Renderer(escape=False)
                pages.append(MarkdownWithMath(renderer=renderer).render("".join(cell["source"])))
    converted = shown("\n".join(pages)).find_all("math")
    assert len(found) > 600
    assert len(converted) == len(found)
    assert not [each.get_text() for each in converted if "\\" in each.get_text()]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>$a &lt; b$</p>", [("inline", "a<b")]),
        ("<p>$$\nx\n$$ and $y$</p>", [("block", "x"), ("inline", "y")]),
        (r"\begin{align*}a &amp;= b\end{align*}", [("block", "a=b")]),
        (r"$\text{per\_word}$", [("inline", "per_word")]),
        ("<pre>$x$</pre><code>$x$</code><style>$x$</style>", []),
        ('<a title="$x$" href="#$y$">a</a><!-- $x$ -->', []),
        ("<p>5 $</p><p>6 $</p>", []),
        (r"<p>\$5 and \$6</p>", []),
        (r"<p>$x_a_b$</p>", []),
        (r"<p>$\newcommand{\a}{b}\a$</p>", []),
        (f"<p>${'x' * 2001}$</p>", []),
    ],
)
def test_formulas_are_found_and_other_dollars_are_left(page, expected):
    assert formulas(page) == expected
    if not expected:
        assert with_mathml(page) == page


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_formula_cannot_act_or_move(source):
    page = with_mathml(f"<p>{source}</p>")
    for tag in BeautifulSoup(page, "html.parser").find_all(True):
        assert tag.name == "p" or tag.name == "math" or tag.name.startswith("m")
        assert not {"href", "style", "class", "id", "src", "onerror"} & set(tag.attrs)
        assert not any("99" in str(value) for value in tag.attrs.values())
    assert "<script" not in page
    assert "<img" not in page


def test_many_dollars_and_deep_formulas_take_little_time():
    begun = time.process_time()
    for page in ("$$" * 10_000, "$x$ " * 5_000, f"${'{' * 1000}x{'}' * 900}$", '<a "' * 500):
        with_mathml(f"<p>{page}</p>")
    assert time.process_time() - begun < 20


def test_without_the_library_the_page_keeps_its_tex(monkeypatch):
    monkeypatch.setattr("attentively_grader.reports.mathml.Converter", None)
    assert with_mathml("<p>$x$</p>") == "<p>$x$</p>"
