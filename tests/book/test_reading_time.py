"""The time to read a page counts its words and its visible code; a chapter adds its assignment."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
PAGE = """---
file_format: mystnb
kernelspec: {{name: python3, display_name: Python 3}}
{options}---
# A page

{prose}

```{{code-cell}} ipython3
{tag}
{code}
```
"""
PART = {
    "cell_type": "markdown",
    "metadata": {},
    "source": ["## Part {} · Scores (50 points, about {} minutes, easy)"],
}


@pytest.fixture(scope="module")
def stated(tmp_path_factory):
    """Return a function that builds a book of these pages and gives what each states."""
    root = tmp_path_factory.mktemp("book")
    sources = root / "book"
    sources.mkdir()
    (root / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'book' / '_ext')!r})\n"
        "extensions = ['myst_nb', 'reading_time']\nnb_execution_mode = 'off'\n"
        "exclude_patterns = ['_build', 'solutions']\nroot_doc = 'book/first'\n"
    )

    def build(pages):
        shutil.rmtree(sources)
        sources.mkdir()
        for name, text in pages.items():
            (sources / f"{name}.md").write_text(text)
        command = [sys.executable, "-m", "sphinx", "-q", ".", "_build"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = {}
        for name in pages:
            page = BeautifulSoup((root / "_build" / "book" / f"{name}.html").read_text(), "lxml")
            line = page.select_one("h1 + p.reading-time")
            found[name] = line and line.get_text()
        return found

    build.root = root
    return build


def page(words=0, lines=0, tag="", options=""):
    prose = "word " * words
    code = "print(\n    1\n)\n\n" * (lines // 2)
    return PAGE.format(prose=prose, code=code, tag=tag, options=options)


def test_words_and_visible_lines_of_code_count(stated):
    hidden, output = ":tags: [hide-input]\n", ":tags: [remove-input]\n"
    found = stated(
        {
            "first": page(),
            "words": page(words=1000),
            "code": page(lines=100),
            "both": page(words=2500, lines=80),
            "hidden": page(words=1000, lines=100, tag=hidden),
            "removed": page(words=1000, lines=100, tag=output),
            "long": page(words=12_000),
            "very_long": page(words=13_400),
            "looked_up": page(words=1000, options="reading_time: false\n"),
        }
    )
    assert found == {
        "first": "Reading time: about 5 minutes",
        "words": "Reading time: about 10 minutes",
        "code": "Reading time: about 20 minutes",
        "both": "Reading time: about 40 minutes",
        "hidden": "Reading time: about 10 minutes",
        "removed": "Reading time: about 10 minutes",
        "long": "Reading time: about 2 hours",
        "very_long": "Reading time: about 2 h 15 min",
        "looked_up": None,
    }


def test_a_chapter_states_the_time_of_its_assignment(stated):
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# Scores"]}]
    for number, minutes in enumerate((30, 45), start=1):
        source = PART["source"][0].format(number, minutes)
        cells.append(PART | {"source": [source]})
    imports = "from attentively.checks import scores as checks"
    cells.append({"cell_type": "code", "metadata": {}, "source": [imports]})
    folder = stated.root / "solutions" / "08_scores"
    folder.mkdir(parents=True)
    (folder / "08_scores.ipynb").write_text(json.dumps({"cells": cells}))
    found = stated({"first": page(), "08_scores": page(words=1000)})
    assert found["08_scores"] == (
        "Reading time: about 10 minutes · assignment: about 75 minutes in 2 parts"
    )
    assert found["first"] == "Reading time: about 5 minutes"
