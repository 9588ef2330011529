"""Equations are drawn when the book is built, and stay legible for screen readers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import equations  # noqa: E402

CONF = f"""
import sys
sys.path.insert(0, {str(ROOT / "book" / "_ext")!r})
extensions = ["equations"]
math_numfig = False
"""
PAGE = """Page
====

In a line: :math:`a < b`.

.. math:: \\sum_k \\alpha_{ik} = 1
   :label: sum

.. math::

   x = 1 \\\\
   y = 2

   z = 3
"""


def build(folder, page):
    (folder / "conf.py").write_text(CONF)
    (folder / "index.rst").write_text(page)
    return subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", folder, folder / "html"],
        capture_output=True,
        text=True,
    )


def test_an_equation_is_drawn_without_fonts_and_can_be_read_aloud():
    drawn = equations.draw(r"\frac{a}{b}")
    assert "<path" in drawn
    assert "<use" not in drawn
    assert '<svg style="vertical-align:' in drawn
    assert 'aria-hidden="true"' in drawn
    assert "<mfrac><mi>a</mi><mi>b</mi></mfrac>" in drawn


def test_wrong_tex_is_refused():
    with pytest.raises(ValueError, match=r"cannot draw '\\\\frac\{a\}': Missing argument"):
        equations.draw(r"\frac{a}")
    with pytest.raises(ValueError, match="Undefined control sequence"):
        equations.draw(r"\nosuchcommand")


def test_the_keyboard_reaches_an_equation_that_scrolls_on_a_phone():
    wide = "+".join("abcdefghijklmnop")
    assert 'tabindex="0"' in equations.draw(wide, display=True)
    assert 'tabindex="0"' in equations.draw(wide)
    assert "tabindex" not in equations.draw(wide[:17])
    assert "tabindex" not in equations.draw("a + b", display=True)


def test_a_page_shows_equations_without_a_script(tmp_path):
    done = build(tmp_path, PAGE)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "index.html").read_text()
    assert page.count("<mjx-container") == 3
    assert "<mi>a</mi><mo>&lt;</mo><mi>b</mi>" in page
    assert '<div class="math notranslate nohighlight" id="equation-sum">' in page
    assert '<span class="eqno">(1)<a class="headerlink" href="#equation-sum"' in page
    assert page.count("<mtable") == 3  # the lines, and in the first of them two more
    assert "mathjax" not in page.replace("MathJax", "").lower()
    assert "<script>window.MathJax" not in page
    assert "equations.css" in page
    style = (tmp_path / "html" / "_static" / "equations.css").read_text()
    assert "mjx-assistive-mml" in style


def test_punctuation_stays_on_the_line_of_its_equation(tmp_path):
    text = "PAGE\n====\n\nFor (:math:`a`), :math:`b`, *x* and :math:`c`-grams, *then* :math:`d`.\n"
    done = build(tmp_path, text)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "index.html").read_text()
    drawn = re.sub(r"<mjx-container.*?</mjx-container>", "", page, flags=re.S)
    line = re.search(r"<p>(For .*?)</p>", drawn)[1]
    line = line.replace('<span class="math notranslate nohighlight"></span>', "=")
    assert line == (
        'For <span class="unbroken">(=),</span> <span class="unbroken">=,</span> <em>x</em> and '
        '<span class="unbroken">=-</span>grams, <em>then</em> <span class="unbroken">=.</span>'
    )


def test_wrong_tex_on_a_page_is_a_warning_with_its_line(tmp_path):
    done = build(tmp_path, PAGE.replace("a < b", r"\frac{a}"))
    assert done.returncode != 0
    assert "index.rst:4" in done.stderr
    assert "MathJax cannot draw" in done.stderr
