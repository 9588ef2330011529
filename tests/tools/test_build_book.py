"""The book's build: nothing stale is kept, nothing that failed passes the next time."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("build_book", ROOT / "tools" / "build_book.py")
build_book = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build_book)

PAGE = """---
file_format: mystnb
kernelspec: {name: python3, display_name: Python 3}
---
# A page

```{code-cell} python3
import sys

sys.path.insert(0, "../src")
from shown import value

print(f"The value is {value()}.")
```
"""


@pytest.fixture
def project(tmp_path):
    """A book of one page, built as the real one is, on a package of one function."""
    root = tmp_path / "project"
    shutil.copytree(ROOT / "book" / "_ext", root / "book" / "_ext")
    shutil.copytree(ROOT / "book" / "_static", root / "book" / "_static")
    shutil.copy(ROOT / "_config.yml", root)
    (root / "book" / "references.bib").write_text("")
    (root / "book" / "page.md").write_text(PAGE)
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/page\n")
    (root / "constraints.txt").write_text("")
    (root / "src").mkdir()
    write_value(root, "17")
    return root


def write_value(root, expression):
    (root / "src" / "shown.py").write_text(f"def value():\n    return {expression}\n")


@pytest.mark.notebook
@pytest.mark.timeout(400)
def test_a_change_in_src_is_seen_and_a_failure_stays_one(project, capfd):
    """The trap: Jupyter Book's cache looks at the page only."""

    def build():
        status = build_book.build_book(project)
        html = project / "_build" / "html" / "book" / "page.html"
        said = re.sub(r"\x1b\[[\d;]*m", "", "".join(capfd.readouterr()))  # less its colours
        return status, html.read_text() if html.exists() else "", said

    status, html, said = build()
    assert status == 0
    assert "The value is 17." in html
    assert "Open _build/html/index.html" in said

    status, html, said = build()
    assert status == 0
    assert "Executing notebook" not in said, "a second build executes nothing"

    write_value(project, "19")
    status, html, said = build()
    assert status == 0
    assert "src/, book/results/ or the pins changed" in said
    assert "The value is 19." in html
    assert "The value is 17." not in html

    write_value(project, "1 / 0")
    for _ in range(2):  # Sphinx alone would pass the second time: the page is not read again
        status, html, said = build()
        assert status == 1
        assert "ZeroDivisionError: division by zero" in said
        assert "The traceback of a failing cell: _build/html/reports/book/page.err.log" in said
        assert not re.search(r"The value is \d", html)

    write_value(project, "23")
    status, html, said = build()
    assert status == 0
    assert "The value is 23." in html


@pytest.fixture
def built(project):
    """What a build leaves behind, without the building."""
    build = project / "_build"
    assert build_book.drop_stale(project, build) == ""
    for name in ["html", ".doctrees", ".jupyter_cache", "jupyter_execute"]:
        (build / name).mkdir(parents=True)
    return build


def left(build):
    return {path.name for path in build.iterdir() if path.is_dir()}


def test_no_change_drops_nothing(project, built):
    assert build_book.drop_stale(project, built) == ""
    assert left(built) == {"html", ".doctrees", ".jupyter_cache", "jupyter_execute"}


@pytest.mark.parametrize(
    ("path", "executed_again"),
    [
        ("src/new.py", True),
        ("src/pretrained/model.safetensors", True),
        ("book/results/bottleneck.json", True),
        ("constraints.txt", True),
        ("book/_ext/new.py", False),
        ("_toc.yml", False),
    ],
)
def test_each_change_drops_what_it_makes_stale(project, built, path, executed_again):
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text("new")
    assert "anew" in build_book.drop_stale(project, built)
    assert left(built) == (set() if executed_again else {".jupyter_cache", "jupyter_execute"})
    assert build_book.drop_stale(project, built) == "", "and is told once"


def test_a_renamed_or_removed_file_counts_as_a_change(project, built):
    (project / "src" / "shown.py").rename(project / "src" / "other.py")
    assert build_book.drop_stale(project, built)
    (project / "src" / "other.py").unlink()
    assert build_book.drop_stale(project, built)


@pytest.mark.parametrize("path", ["src/__pycache__/shown.pyc", "README.md", "tests/test_x.py"])
def test_other_files_do_not_matter(project, built, path):
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text("new")
    assert build_book.drop_stale(project, built) == ""
