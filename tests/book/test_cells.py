"""What holds for the code that pages show: their cells, and what they include from the package."""

import re
import textwrap
from pathlib import Path

import pytest
from sphinx.directives.code import LiteralIncludeReader

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "book").glob("*.md"))
WIDEST = 88
"""Characters: so many fit without scrolling into a window of 1200 pixels (tests/site)."""
CELL = re.compile(r"^(`{3,}|:{3,})\{code-cell\}[^\n]*\n(.*?)^\1", re.M | re.S)
INCLUDED = re.compile(r"^(`{3,}|:{3,})\{literalinclude\} (\S+)\n(.*?)^\1", re.M | re.S)
OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)+)", re.M | re.S)


def cells(text):
    """Return the code of each cell of a page, less the cell's options."""
    return [OPTIONS.sub("", match[2]) for match in CELL.finditer(text)]


def included(page, text):
    """Return each piece of the package that a page shows, as the page shows it, by its name."""
    found = {}
    for _, path, body in INCLUDED.findall(text):
        options = dict(re.findall(r"^:([\w-]+): *(.*)$", body, re.M))
        wanted = {name: options[name] for name in ("pyobject", "lines") if name in options}
        config = type("Config", (), {"source_encoding": "utf-8"})
        code, _ = LiteralIncludeReader(str(page.parent / path), wanted, config).read()
        name = f"{Path(path).name} {options.get('pyobject', '')}"
        found[name] = textwrap.dedent(code) if "dedent" in options else code
    return found


def too_wide(code):
    return [line for line in code.splitlines() if len(line) > WIDEST]


@pytest.fixture(params=PAGES, ids=lambda page: page.stem)
def page(request):
    return request.param


def test_code_fits_its_column(page):
    text = page.read_text(encoding="utf-8")
    shown = {f"cell {number}": code for number, code in enumerate(cells(text), start=1)}
    shown |= included(page, text)
    assert {name: lines for name, code in shown.items() if (lines := too_wide(code))} == {}


def test_results_are_loaded_by_name(page):
    """A path would lead nowhere in a notebook that a reader downloads."""
    assert "results/" not in "\n".join(cells(page.read_text(encoding="utf-8")))


def test_a_line_that_is_too_wide_is_found(tmp_path):
    wide = "x = " + "1" * (WIDEST - 3)
    page = tmp_path / "page.md"
    (tmp_path / "code.py").write_text(f"class A:\n    def f(self):\n        {wide}\n")
    include = "```{literalinclude} code.py\n:pyobject: A.f\n%s```\n"
    page.write_text(
        f"```{{code-cell}} ipython3\n:tags: [{'x' * 99}]\n\n{wide}\n```\n{include % ''}"
    )
    text = page.read_text()
    assert [too_wide(code) for code in cells(text)] == [[wide]]
    assert too_wide(included(page, text)["code.py A.f"]) == [f"        {wide}"]
    text = include % ":dedent:\n"
    assert too_wide(included(page, text)["code.py A.f"]) == [f"    {wide}"]
    assert not too_wide(wide[:-1])
