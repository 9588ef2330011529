"""The theme still writes what is corrected, and its icons are those of its own font."""

import base64
import re
import sys
from io import BytesIO
from pathlib import Path

import docutils
import myst_nb
import pydata_sphinx_theme
import pytest
from fontTools.ttLib import TTFont

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import theme_corrections  # noqa: E402

THEME = Path(pydata_sphinx_theme.__file__).parent / "theme" / "pydata_sphinx_theme"
COMPONENTS = THEME / "components"


@pytest.mark.parametrize(
    ("file", "written", "corrected"),
    [
        (THEME / "static/webpack-macros.html", "fontawesome.js", None),
        (COMPONENTS / "page-toc.html", '<i class="fa-solid fa-list">', '<i aria-hidden="true" cl'),
        (THEME / "sections/header.html", '<span class="fa-solid', '<span aria-hidden="true" cl'),
        (
            Path(myst_nb.__file__).parent / "sphinx_.py",
            '<summary aria-label="Toggle hidden content">',
            "<summary>",
        ),
        (
            Path(docutils.__file__).parent / "writers" / "_html_base.py",
            'role="doc-biblioentry"',
            'role="listitem"',
        ),
    ],
)
def test_what_the_theme_writes_is_corrected(file, written, corrected):
    before = file.read_text(encoding="utf-8")
    after = theme_corrections.correct(before)
    assert written in before
    assert written not in after
    assert corrected is None or corrected in after


def test_the_parameters_of_a_signature_are_lines():
    line = '<em class="sig-param"><span>x</span></em>,'
    others = "<dl>\n<dt>a</dt>\n<dd>b</dd>\n</dl>\n"
    definitions = f"<dd>{line}</dd>\n" * 2
    lines = f'<span class="sig-line">{line}</span>\n' * 2
    page = f"{others}<dt>f(\n<dl>\n{definitions}</dl>\n)</dt>"
    assert theme_corrections.correct(page) == f"{others}<dt>f(\n<span>\n{lines}</span>\n)</dt>"


def test_the_button_for_the_pages_below_a_page_is_named_after_it():
    link = '<li><a class="reference internal" href="api.html">API</a><details open="open">'
    icon = '<span class="toctree-toggle" role="presentation"></span></summary>'
    page = f"<a href='x'>x</a><details><summary>y</summary></details>{link}"
    named = theme_corrections.correct(f"{page}<summary>{icon}")
    assert named == f'{page}<summary aria-label="Pages of API">{icon}'


def test_a_number_and_its_unit_stay_on_one_line():
    page = "<p>62 %, 5.4 MB, 30\nms of 3 models; the % sign, 4 bits</p><pre># 5 %</pre>"
    corrected = page.replace("62 %", "62\xa0%").replace("4 M", "4\xa0M").replace("0\nm", "0\xa0m")
    assert theme_corrections.correct(page) == corrected


def test_the_rest_of_a_page_stays_as_it_is():
    page = '<script src="a.js"></script><i>fa-list</i><summary>x</summary><div role="list"></div>'
    assert theme_corrections.correct(page) == page


def test_icons_are_named_as_in_the_theme():
    style = (THEME / "static/styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    for name, code in theme_corrections.ICONS.items():
        rule = re.search(rf"[^{{}}]*\.fa-{name}:before[^{{}}]*\{{content:\"\\(\w+)\"", style)
        assert rule, name
        assert int(rule[1], 16) == code, name


def test_the_font_has_these_icons_only():
    style = theme_corrections.icon_style([0xF03A, 0xF185])
    assert len(style) < 3_000
    data = re.search(r"base64,([^)]*)\)", style)[1]
    font = TTFont(BytesIO(base64.b64decode(data)))
    assert {*font.getBestCmap()} == {0xF03A, 0xF185}
    # The head of a font holds the time of its last change: here that of the original.
    original = TTFont(THEME / "static/vendor/fontawesome/webfonts/fa-solid-900.ttf")
    assert font["head"].modified == original["head"].modified
