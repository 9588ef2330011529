"""Draw the equations when the book is built, so that a page needs no script for them.

MathJax runs in V8 (mini-racer) instead of the reader's browser. The package sphinx-mathjax-offline
contains it (MathJax 3.2.2, Apache licence). Each equation becomes an SVG of outlines, which needs
no font, and next to it the hidden MathML that screen readers read. Decision 0030 compares the
alternatives.
"""

import functools
import re
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from py_mini_racer import MiniRacer
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

PARTS = (
    "startup",
    "core",
    "adaptors/liteDOM",
    "input/tex-full",
    "output/svg",
    "output/svg/fonts/tex",
    "a11y/assistive-mml",
)
"""The files of MathJax, in the order in which they are loaded."""
START = """
var window = globalThis;
var MathJax = {
  options: { enableMenu: false },
  startup: { typeset: false },
  svg: { fontCache: "none" },
  tex: { packages: { "[-]": ["autoload", "require", "noundefined"] } },
};
"""
READY = f"""
MathJax._.components.loader.Loader.preLoad(...{list(PARTS[1:])});
MathJax.config.startup.ready();
const html = (node) => MathJax.startup.adaptor.outerHTML(node);
function draw(tex, display) {{ return html(MathJax.tex2svg(tex, {{ display }})); }}
function style() {{ return MathJax.startup.adaptor.textContent(MathJax.svgStylesheet()); }}
"""
STYLE = "equations.css"
WIDEST, WIDEST_IN_A_LINE = 32, 36
"""Widths of equations, in heights of an x, that fit on a phone, also in a folded box."""
SCROLLS = 'tabindex="0" role="group" aria-label="Equation, scrolls sideways"'
TOUCHING = re.compile(r"[([\u201c\u2018]*$"), re.compile(r"[^\w\s]*")
"""Punctuation before and after an equation."""

logger = logging.getLogger(__name__)


@functools.cache
def mathjax() -> MiniRacer:
    """Return MathJax, loaded and ready to draw."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ExtensionError("sphinx-mathjax-offline is not installed: run `make setup`")
    folder = Path(package.origin).parent / "static" / "mathjax"
    engine = MiniRacer()
    engine.eval(START)
    for part in PARTS:
        engine.eval((folder / f"{part}.js").read_text(encoding="utf-8"))
    engine.eval(READY)
    return engine


@functools.cache
def draw(tex: str, display: bool = False) -> str:
    """Return an equation as HTML; raise ValueError where the TeX is wrong."""
    drawn = str(mathjax().call("draw", tex, display))
    if problem := re.search(r'data-mjx-error="([^"]*)"', drawn):
        raise ValueError(f"MathJax cannot draw {tex!r}: {problem[1]}")
    width = re.search(r'<svg [^>]*?\bwidth="([\d.]+)ex"', drawn)
    if width and float(width[1]) > (WIDEST if display else WIDEST_IN_A_LINE):
        drawn = drawn.replace("<mjx-container ", f"<mjx-container {SCROLLS} ", 1)
    return drawn


def displayed(node: nodes.math_block) -> str:
    """Return the TeX of a displayed equation: a blank line separates lines, as in Sphinx."""
    if node["nowrap"]:
        return node.astext()
    lines = [line for line in node.astext().split("\n\n") if line.strip()]
    lines = [rf"\begin{{split}}{line}\end{{split}}" if r"\\" in line else line for line in lines]
    if len(lines) == 1:
        return lines[0]
    return r"\begin{align}\begin{aligned}" + r"\\".join(lines) + r"\end{aligned}\end{align}"


def _drawn(node: nodes.Node, tex: str, display: bool) -> str:
    try:
        return draw(tex, display)
    except ValueError as problem:
        logger.warning("%s", problem, location=node)
        return ""


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an equation inside a line."""
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    self.body.append(_drawn(node, node.astext(), display=False) + "</span>")
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed equation with its number."""
    self.body.append(self.starttag(node, "div", "", CLASS="math notranslate nohighlight"))
    if node["number"] and not node["nowrap"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(_drawn(node, displayed(node), display=True) + "</div>\n")
    raise nodes.SkipNode


def keep_together(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put an equation inside a line and the punctuation that touches it into one element.

    Browsers may end a line on both sides of a drawing, also before a comma.
    """
    for equation in list(doctree.findall(nodes.math)):
        line, at = equation.parent, equation.parent.index(equation)
        before, after = (
            text if isinstance(text, nodes.Text) else nodes.Text("")
            for text in (line[at - 1] if at else None, *line[at + 1 : at + 2], None)[:2]
        )
        opening, closing = TOUCHING[0].search(before)[0], TOUCHING[1].match(after)[0]  # type: ignore[index]
        if opening or closing:
            together = nodes.inline(classes=["unbroken"])
            if closing:
                line[at + 1] = nodes.Text(after[len(closing) :])
            if opening:
                line[at - 1] = nodes.Text(before.removesuffix(opening))
            line[at] = together
            together += [nodes.Text(opening), equation, nodes.Text(closing)]


def write_style(app: Sphinx) -> None:
    """Write MathJax's style sheet to the site's others."""
    if app.builder.format == "html":
        file = Path(app.outdir) / "_static" / STYLE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(mathjax().call("style"), encoding="utf-8")
        app.add_css_file(STYLE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("drawn", (visit_math, None), (visit_math_block, None))
    app.connect("builder-inited", write_style)
    app.connect("doctree-resolved", keep_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
