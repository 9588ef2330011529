"""A page with nothing but one widget, in the theme of the book."""

import json
import re
import sys
from pathlib import Path

import pydata_sphinx_theme
import pytest
import sphinx_book_theme
from accessibility import LEVELS
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

import widget  # noqa: E402

WIDGETS = widget.known()
STYLES = [
    Path(theme.__file__).parent / "theme" / theme.__name__ / "static" / "styles" / f"{name}.css"
    for theme, name in (
        (pydata_sphinx_theme, "pydata-sphinx-theme"),
        (sphinx_book_theme, "sphinx-book-theme"),
    )
]
TRIAL = "Try this."
STATIC = "The static version."


def write_page(
    folder: Path, name: str, scheme: str = "light", replaced: dict[str, str] | None = None
) -> Path:
    """Write a page with this widget; `replaced` changes pieces of its script."""
    source = (widget.FOLDER / f"{name}.js").read_text(encoding="utf-8")
    for old, new in (replaced or {}).items():
        if source.count(old) != 1:
            raise ValueError(f"{name}.js has {old!r} {source.count(old)} times, not once")
        source = source.replace(old, new)
    script = folder / f"{name}.js"
    script.write_text(source, encoding="utf-8")
    styles = [*STYLES, ROOT / "book/_static/attentively.css", widget.FOLDER / "widgets.css"]
    links = "".join(f'<link rel="stylesheet" href="{path.as_uri()}">' for path in styles)
    scripts = "".join(
        f'<script defer src="{path.as_uri()}"></script>'
        for path in (widget.FOLDER / widget.COMMON, script)
    )
    page = folder / "page.html"
    page.write_text(
        f'<!doctype html><html lang="en" data-theme="{scheme}"><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Widget</title>{links}{scripts}"
        f'<main class="bd-article" style="padding: 1rem"><h1>Widget</h1>{widget.opening(name)}'
        f"{widget.TRIAL}<p>{TRIAL}</p></div>{widget.STATIC}<p>{STATIC}</p></div></div></main></html>",
        encoding="utf-8",
    )
    return page


def static_rows(chapter: str, name: str) -> list[list[str]]:
    """Return the cells of the table in the static version of a widget, below its headings."""
    text = (ROOT / "book" / f"{chapter}.md").read_text(encoding="utf-8")
    [content] = re.findall(rf"^```{{widget}} {name}\n(.*?)^```", text, re.S | re.M)
    rows = re.findall(r"^\|(.*)\|$", widget.without_script(content), re.M)
    return [[cell.strip() for cell in row.split("|")] for row in rows[2:]]


def violations(page) -> list[str]:
    """Return what axe finds against the Web Content Accessibility Guidelines, A and AA."""
    # Without `preload`, axe would fetch the styles, which browsers refuse from a folder.
    options = {"resultTypes": ["violations"], "runOnly": LEVELS, "preload": False}
    found = Axe().run(page, options=options)
    return [
        f"{each['id']}: {node['html'][:120]}"
        for each in found.response["violations"]
        for node in each["nodes"]
    ]


def call(page, name: str, function: str, *arguments):
    """Return what a pure function of the widget's script computes in the browser."""
    return page.evaluate(
        f"(given) => Attentively.widgets[{json.dumps(name)}].{function}(...given)",
        list(arguments),
    )


def status(page) -> str:
    """Return what the widget says of its state."""
    return page.locator(".widget-status").inner_text()


def broken(name: str, *pieces: tuple[str, str]):
    """Parametrise a test by faults: replaced pieces of the script."""
    return pytest.mark.parametrize("replaced", [dict([piece]) for piece in pieces])
