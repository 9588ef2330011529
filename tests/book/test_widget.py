"""The widget directive: what it writes into a page, and what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
CONF = f"""
import sys
sys.path.insert(0, {str(EXTENSIONS)!r})
extensions = ["myst_parser", "widget"]
html_static_path = [{str(ROOT / "book" / "_static")!r}]
"""
CONTENT = "Try *this*.\n\nInstead, **that**.\n\n- And more.\n"


def directive(name: str, content: str = CONTENT) -> str:
    return f"\n\n```{{widget}} {name}\n{content}```\n"


def build(folder: Path, **pages: str) -> subprocess.CompletedProcess:
    """Build a small site of these pages."""
    folder.mkdir()
    (folder / "conf.py").write_text(CONF)
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", folder, folder / "html"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ})


def test_a_page_gets_the_scripts_of_its_widgets_and_others_do_not(tmp_path):
    page = "# Page" + directive("temperature") + directive("masks")
    index = "# Index\n\n```{toctree}\npage\n```\n"
    built = build(tmp_path / "site", index=index, page=page)
    assert built.returncode == 0, built.stderr
    html = tmp_path / "site" / "html"
    text = (html / "page.html").read_text(encoding="utf-8")
    assert text.count('<div class="widget" data-widget="temperature">') == 1
    places = [text.index(f"widgets/{name}.js") for name in ("common", "temperature", "masks")]
    assert places == sorted(places)
    trial, static = text.split('<div class="widget-static">')[:2]
    assert "<em>this</em>" in trial.rpartition('<div class="widget-trial">')[2]
    assert "<strong>that</strong>" in static
    assert "And more." in static
    assert "widgets/schedules.js" not in text
    assert "widgets/" not in (html / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (directive("no-such"), "there is no widget 'no-such'; the widgets are "),
        (directive("common"), "there is no widget 'common'; the widgets are "),
        (directive("masks", "Only this.\n"), "must be a paragraph that says what to try"),
        (directive("masks", ""), "must be a paragraph that says what to try"),
        (directive("masks", "- A list.\n\nThen that.\n"), "must be a paragraph that says what"),
        (directive("masks") + directive("masks"), "the page already has the widget 'masks'"),
    ],
)
def test_a_wrong_directive_is_an_error_of_the_page(tmp_path, text, fault):
    built = build(tmp_path / "site", index=f"# Index{text}")
    assert built.returncode
    assert fault in " ".join(built.stderr.split())
