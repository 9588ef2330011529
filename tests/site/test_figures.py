"""Words and lines of every figure are seen, on the light page and on the dark one."""

import re
from io import StringIO

import pytest
from legibility import SEEN_IN_FIGURE, faint
from matplotlib.figure import Figure

PAGES = {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 18, 18)"}


def faults_of(page, svg: str, scheme: str) -> list[str]:
    """Return the parts of a figure that are hard to see; a figure without words is none."""
    parts = page.evaluate(SEEN_IN_FIGURE, svg)
    assert parts, "the figure has neither words nor lines"
    return faint(parts, PAGES[scheme])


def test_every_figure_is_seen(site, visit):
    files = {
        name
        for page in site.glob("book/*.html")
        for name in re.findall(r'_images/([^"]+\.svg)', page.read_text(encoding="utf-8"))
    }
    assert len(files) > 100
    assert any("-dark-" in name for name in files)
    page = visit(1600).page
    faults = {}
    for name in sorted(files):
        scheme = "dark" if "-dark-" in name else "light"
        svg = (site / "_images" / name).read_text(encoding="utf-8")
        if found := faults_of(page, svg, scheme):
            faults[name] = found
    assert faults == {}


OVERLAPS = """(text) => {
    document.body.innerHTML = text;
    const words = [...document.querySelectorAll('svg g[id^="text_"]')]
        .filter((group) => !/rotate/.test(group.innerHTML))
        .map((group) => [group, [...group.querySelectorAll('use')]])
        .map(([group, uses]) => [group, uses.map((e) => e.getBoundingClientRect())])
        .filter(([, shapes]) => shapes.length)
        .map(([group, shapes]) => ({
            name: [...group.childNodes].find((e) => e.nodeType === 8)?.data.trim() ?? group.id,
            left: Math.min(...shapes.map((e) => e.left)),
            top: Math.min(...shapes.map((e) => e.top)),
            right: Math.max(...shapes.map((e) => e.right)),
            bottom: Math.max(...shapes.map((e) => e.bottom)),
        }));
    return words.flatMap((a, i) => words.slice(i + 1)
        .filter((b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > -2
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        .map((b) => `${a.name} | ${b.name}`));
}"""
"""The pairs of horizontal texts in a figure that overlap or touch."""


def test_no_words_of_a_figure_touch(site, visit):
    files = {
        name
        for page in site.glob("book/*.html")
        for name in re.findall(r'_images/([^"]+\.svg)', page.read_text(encoding="utf-8"))
        if "-dark-" not in name
    }
    page = visit(1600).page
    found = {
        name: page.evaluate(OVERLAPS, (site / "_images" / name).read_text(encoding="utf-8"))
        for name in sorted(files)
    }
    assert {name: pairs for name, pairs in found.items() if pairs} == {}


@pytest.mark.parametrize(("at", "pairs"), [(0.3, ["word | other"]), (0.9, [])])
def test_words_that_touch_are_found(visit, at, pairs):
    drawn, file = Figure(figsize=(3, 2)), StringIO()
    drawn.text(0.2, 0.5, "word")
    drawn.text(at, 0.5, "other")
    drawn.text(0.2, 0.4, "turned", rotation=90)
    drawn.savefig(file, format="svg")
    assert visit(1600).page.evaluate(OVERLAPS, file.getvalue()) == pairs


def figure(**options) -> Figure:
    """Draw a word and a line, on a dark and on a pale field."""
    options = {"colour": "black", "at": 1, "line": "black", "alpha": 1.0} | options
    drawn = Figure(figsize=(3, 2))
    ax = drawn.add_subplot()
    ax.imshow([[0.9, 0.0]], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.text(options["at"], 0, "word", color=options["colour"], ha="center")
    ax.plot([0, 1], [0.4, 0.4], color=options["line"], alpha=options["alpha"])
    return drawn


@pytest.mark.parametrize(
    ("options", "faint"),
    [
        ({}, None),
        ({"colour": "#666666"}, None),
        ({"at": 0, "colour": "white"}, None),
        ({"colour": "white"}, "word"),
        ({"at": 0}, "word"),
        ({"colour": "#888888"}, "word"),
        ({"line": "#aaaaaa"}, "line2d"),
        ({"alpha": 0.2}, "line2d"),
    ],
)
def test_what_is_faint_is_found(visit, options, faint):
    file = StringIO()
    figure(**options).savefig(file, format="svg")
    found = faults_of(visit().page, file.getvalue(), "light")
    assert [re.sub(r"_\d+", "", fault.split("'")[1]) for fault in found] == [faint] * bool(faint)
