"""The book's build: nothing stale is kept, nothing that failed passes the next time."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build_book, execute_pages = tool("build_book"), tool("execute_pages")

PAGE = """---
file_format: mystnb
kernelspec: {{name: python3, display_name: Python 3}}
---
# {title}

```{{code-cell}} python3
:tags: [hide-input]
import sys

sys.path.insert(0, "../src")
{code}
```
"""
# `shown` is what a page imports; what it needs lies two imports deep, once inside a function.
SHOWN = "from shown import value\n\nprint(f'The value is {value()}.')"
RESULTS = """import published

print("The result is", published.load("small"))"""
PUBLISHED = """import json
from pathlib import Path


def load(name):
    file = Path(__file__).parents[1] / "book" / "results" / f"{name}.json"
    return json.loads(file.read_text())
"""
API = """# The package

```{eval-rst}
.. automodule:: aside
   :members:

.. automodule:: deep

.. automodule:: middle

.. automodule:: shown
```
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A book of three pages, built as the real one is, on a package of four modules."""
    root = tmp_path / "project"
    for folder in ("_ext", "_static"):
        shutil.copytree(ROOT / "book" / folder, root / "book" / folder)
    shutil.copy(ROOT / "_config.yml", root)
    (root / "tools").mkdir()
    for name in ("build_book.py", "execute_pages.py"):
        shutil.copy(ROOT / "tools" / name, root / "tools")
    write(root, "book/references.bib", "")
    write(root, "book/page.md", PAGE.format(title="A page", code=SHOWN))
    write(root, "book/other.md", PAGE.format(title="Another page", code=RESULTS))
    write(root, "book/api.md", API)
    write(root, "book/results/small.json", "1")
    write(root, "book/results/large.json", "2")
    chapters = "chapters: [{file: book/other}, {file: book/api}]"
    write(root, "_toc.yml", f"format: jb-book\nroot: book/page\n{chapters}\n")
    write(root, "constraints.txt", "")
    write(root, "src/shown.py", "from middle import deep_value as value\n")
    write(root, "src/middle/__init__.py", "def deep_value():\n    import deep\n    return deep.N\n")
    write(root, "src/published.py", PUBLISHED)
    write(root, "src/middle/table.csv", "1,2")
    write(root, "src/aside.py", '"""Beside it."""\n\n\ndef unused():\n    """Return nothing."""\n')
    write(root, "src/pretrained/toy.safetensors", "numbers")
    write_value(root, "17")
    monkeypatch.setenv("PYTHONPATH", str(root / "src"))  # for the page of the package
    return root


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def write_value(root, expression, docstring="Hold a number."):
    write(root, "src/deep.py", f'"""{docstring}"""\n\nN = {expression}\n')


@pytest.mark.slow
@pytest.mark.notebook
@pytest.mark.timeout(600)
def test_a_change_in_src_is_seen_and_a_failure_stays_one(project, capfd):
    """The trap: Jupyter Book's cache looks at the page only."""

    def build():
        status = build_book.build_book(project)
        html = project / "_build" / "html" / "book" / "page.html"
        said = re.sub(r"\x1b\[[\d;]*m", "", "".join(capfd.readouterr()))  # less its colours
        assert "Executing notebook" not in said, "Sphinx finds every page in the cache"
        executed = re.findall(r"(\w+)\.md: executed in [\d.]+ s", said)
        return status, html.read_text() if html.exists() else "", said, executed

    def text(page):
        return (project / "_build" / "html" / "book" / f"{page}.html").read_text()

    status, html, said, executed = build()
    assert status == 0, said
    assert "The value is 17." in html
    assert "The result is 1" in text("other")
    assert "Return nothing." in text("api")
    assert "Open _build/html/index.html" in said
    assert sorted(executed) == ["other", "page"]

    # Without a change the files stay as they are; a page that is missing is written again.
    written = (project / "_build" / "html" / "index.html").stat().st_mtime_ns
    status, _, said, executed = build()
    assert status == 0
    assert said.startswith("\nNothing has changed since the last build. Open _build/html/index")
    assert (project / "_build" / "html" / "index.html").stat().st_mtime_ns == written
    (project / "_build" / "html" / "index.html").unlink()
    status, _, said, executed = build()
    assert (status, executed) == (0, [])
    assert "The book is built" in said

    # A module that no page imports, and a docstring of one that a page does: nothing is executed.
    write(project, "src/aside.py", 'def unused():\n    """Return nothing at all."""\n')
    write_value(project, "17", docstring="Hold a prime number.")
    status, html, said, executed = build()
    assert status == 0
    assert executed == []
    assert "Return nothing at all." in text("api")

    # Two imports deep: this page is executed, the other is not.
    write_value(project, "19")
    status, html, said, executed = build()
    assert status == 0
    assert "pages to execute again because their inputs have changed: book/page.md" in said
    assert executed == ["page"]
    assert "The value is 19." in html
    assert "The value is 17." not in html
    assert "The result is 1" in text("other")

    # A result is read by the other page alone; a failure is one again in the next build.
    write(project, "book/results/small.json", "23")
    write_value(project, "1 / 0")
    for others in (["other"], []):  # Sphinx alone would not read the page a second time
        status, html, said, executed = build()
        assert status == 1
        assert executed == others
        assert "book/page.md: FAILED" in said
        assert "book/page.md, line 7, code cell 1 of 1:" in said
        assert "ZeroDivisionError: division by zero" in said
        assert said.rstrip().splitlines()[-1].startswith("The book was not built")
        assert not re.search(r"The value is \d", html)

    # The number of long ago comes back: what was executed then has been forgotten.
    write_value(project, "17")
    status, html, said, executed = build()
    assert status == 0
    assert executed == ["page"]
    assert "The value is 17." in html
    assert "The result is 23" in text("other")


ALL = {"html", ".doctrees", ".jupyter_cache", "jupyter_execute"}
PAGES = ["api", "other", "page"]


@pytest.fixture
def built(project):
    """What a build leaves behind, without the building."""
    build = project / "_build"
    assert "page.md" in build_book.drop_stale(project, build)
    leave(project)
    return build


def leave(project):
    build = project / "_build"
    for name in ["html", ".doctrees/book", "jupyter_execute"]:
        (build / name).mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        (build / ".doctrees" / "book" / f"{page}.doctree").touch()
    cache = get_cache(build / ".jupyter_cache")
    for page in ("page", "other"):
        record(cache, project / "book" / f"{page}.md", page)


def record(cache, path, page):
    notebook = new_notebook(
        cells=[new_code_cell(f"print({page!r})")],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    bundle = CacheBundleIn(notebook, str(path))
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


def left(build):
    return {path.name for path in build.iterdir() if path.is_dir()}


def executions(build):
    """Return the pages whose executions are kept."""
    if not (build / ".jupyter_cache").exists():
        return []
    records = get_cache(build / ".jupyter_cache").list_cache_records()
    return sorted(Path(each.uri).stem for each in records)


def read(build):
    """Return the pages that Sphinx will not read again."""
    return sorted(path.stem for path in build.glob(".doctrees/book/*.doctree"))


def test_no_change_drops_nothing(project, built):
    assert build_book.drop_stale(project, built) == ""
    assert left(built) == ALL
    assert executions(built) == ["other", "page"]
    assert read(built) == PAGES


BOTH = ["page", "other"]


@pytest.mark.parametrize(
    ("path", "executed_again", "read_again"),
    [
        # Needed by the page: itself, two imports deep, inside a function; a package's data
        ("src/shown.py", ["page"], ["api", "page"]),
        ("src/middle/__init__.py", ["page"], ["api", "page"]),
        ("src/deep.py", ["page"], ["api", "page"]),
        # Needed by none: docstrings are shown all the same, if a page names the package
        ("src/aside.py", [], ["api"]),
        ("src/middle/unused.py", [], ["api"]),
        ("src/new.py", [], []),
        ("src/pretrained/toy.safetensors", [], []),
        # What shadows a module that a page imports is needed
        ("src/json.py", ["other"], ["other"]),
        # Results are read by name
        ("book/results/small.json", ["other"], ["other"]),
        ("book/results/large.json", [], []),
        # What concerns all
        ("book/helper.py", BOTH, BOTH),
        ("constraints.txt", BOTH, PAGES),
        ("tools/build_book.py", BOTH, PAGES),
        ("tools/execute_pages.py", BOTH, PAGES),
        ("book/_ext/new.py", [], PAGES),
        ("book/references.bib", [], PAGES),
        ("_toc.yml", [], PAGES),
        ("_config.yml", [], PAGES),
    ],
)
def test_each_change_drops_what_it_makes_stale(project, built, path, executed_again, read_again):
    before = (project / path).read_text() if (project / path).exists() else ""
    write(project, path, before + "\nnew = 1\n")
    changed = bool(executed_again or read_again)
    said = build_book.drop_stale(project, built)
    assert bool(said) == changed
    assert executions(built) == sorted({"other", "page"} - {*executed_again})
    assert read(built) == sorted({*PAGES} - {*read_again})
    assert ("html" in left(built)) == (not changed), "whatever changes, all pages are written"
    for page in ("page", "other"):
        assert (f"{page}.md" in said) == (page in executed_again)
    assert build_book.drop_stale(project, built) == "", "and is told once"


@pytest.mark.parametrize(
    ("text", "executed_again"),
    [
        ('"""Hold another number."""\n\nN = 17\n', []),
        ("# A comment\nN = (17)  # of the paper\n", []),
        ("N = 18\n", ["page"]),
        ('"""Hold a number."""\n\nN = 17.0\n', ["page"]),
    ],
)
def test_docstrings_comments_and_layout_execute_nothing(project, built, text, executed_again):
    write(project, "src/deep.py", text)
    assert build_book.drop_stale(project, built)
    assert executions(built) == sorted({"other", "page"} - {*executed_again})
    assert "api" not in read(built)


@pytest.mark.parametrize("cell", ["help(value)", "print(value.__doc__)", "import inspect"])
def test_a_page_that_looks_at_code_counts_every_letter(project, built, cell):
    write(project, "book/page.md", PAGE.format(title="A page", code=f"{SHOWN}\n{cell}"))
    build_book.drop_stale(project, built)
    leave(project)
    write_value(project, "17", docstring="Hold a prime.")
    build_book.drop_stale(project, built)
    assert executions(built) == ["other"]


@pytest.mark.parametrize(
    "cell",
    [
        "!python script.py",
        "%run x.py",
        "import importlib\nimportlib.import_module('a' + 'b')",
        "import subprocess\nsubprocess.run(['python', 'script.py'])",
    ],
)
@pytest.mark.parametrize("path", ["src/aside.py", "src/pretrained/toy.safetensors"])
def test_where_needs_cannot_be_read_all_of_src_counts(project, built, cell, path):
    write(project, "book/page.md", PAGE.format(title="A page", code=cell))
    build_book.drop_stale(project, built)
    leave(project)
    write(project, path, "changed = 1\n")
    build_book.drop_stale(project, built)
    assert executions(built) == ["other"]


@pytest.mark.parametrize(
    ("cell", "needs"),
    [
        ("load_pretrained('toy')", True),
        ("load_pretrained('other')", False),
        ("load_pretrained(name)", True),
        ("[*map(load_pretrained, names)]", True),
    ],
)
def test_checkpoints_count_by_name_where_all_names_are_written_out(project, built, cell, needs):
    write(project, "src/shown.py", "FOLDER = 'pretrained'\ndef load_pretrained(name): ...\n")
    code = f"from shown import load_pretrained\n{cell}"
    write(project, "book/page.md", PAGE.format(title="A page", code=code))
    build_book.drop_stale(project, built)
    leave(project)
    write(project, "src/pretrained/toy.safetensors", "other numbers")
    build_book.drop_stale(project, built)
    assert executions(built) == (["other"] if needs else ["other", "page"])


def test_data_beside_a_module_that_names_it_counts(project, built):
    write(project, "src/deep.py", "N = open('table.csv')\n")
    build_book.drop_stale(project, built)
    leave(project)
    write(project, "src/middle/table.csv", "3,4")
    build_book.drop_stale(project, built)
    assert executions(built) == ["other"]


@pytest.mark.parametrize(
    ("code", "counts"),
    [
        ("published.load('large')", True),
        ("published.load('sm' + 'all')", True),
        ("published.load(*names)", True),
        ("[*map(published.load, names)]", True),
        ("published.load('small')", False),
        ("pickle.load(file)", False),
    ],
)
@pytest.mark.parametrize("where", ["page", "module"])
def test_results_count_by_name_and_all_of_them_where_one_is_computed(
    project, built, code, counts, where
):
    """Be it the page that loads them, or a module that it needs."""
    if where == "module":
        write(project, "src/shown.py", f"import published\ndef value():\n    return {code}\n")
        code = "value()"
    cell = f"import published\nfrom shown import value\n{code}".replace("'large'", "'la' 'rge'")
    write(project, "book/page.md", PAGE.format(title="A page", code=cell))
    build_book.drop_stale(project, built)
    leave(project)
    write(project, "book/results/large.json", "3")
    build_book.drop_stale(project, built)
    assert executions(built) == (["other"] if counts else ["other", "page"])


def test_a_chapter_is_read_again_when_its_assignment_changes(project, built):
    """It says how long the assignment takes."""
    for path, again in [("solutions/other/other.ipynb", True), ("solutions/x/x.ipynb", False)]:
        write(project, path, "1")
        build_book.drop_stale(project, built)
        assert ("other" not in read(built)) == again
        assert executions(built) == ["other", "page"]
        leave(project)


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("solutions/08_new/08_new.ipynb", True),
        ("src/attentively/checks/new.py", True),
        ("solutions/08_new/notes.txt", False),
        ("exercises/08_new/08_new.ipynb", False),
        ("src/shown.py", False),
    ],
)
def test_the_map_of_exercises_is_read_again_with_the_assignments(project, built, path, counts):
    write(project, "book/other.md", "# The map\n\n```{exercise-map}\n```\n")
    build_book.drop_stale(project, built)
    leave(project)
    write(project, path, "new = 1\n")
    build_book.drop_stale(project, built)
    assert ("other" in read(built)) == (not counts)


def test_a_file_that_a_page_shows_counts(project, built):
    shown = "\n```{literalinclude} ../src/aside.py\n```\n"
    write(project, "book/page.md", PAGE.format(title="A page", code=SHOWN) + shown)
    build_book.drop_stale(project, built)
    leave(project)
    write(project, "src/aside.py", '"""Elsewhere."""\n\n\ndef unused(): ...\n')
    build_book.drop_stale(project, built)
    assert "page" not in read(built)
    leave(project)
    write(project, "src/aside.py", '"""Elsewhere."""\n\n\ndef unused():\n    return 1\n')
    build_book.drop_stale(project, built)
    assert executions(built) == ["other"]


def test_a_page_of_other_cells_is_executed_and_read_again(project, built):
    write(project, "book/page.md", PAGE.format(title="A page", code=SHOWN + "\nprint(1)"))
    assert "book/page.md" in build_book.drop_stale(project, built)
    assert executions(built) == ["other"]
    assert read(built) == ["api", "other"]


def test_prose_executes_nothing(project, built):
    write(project, "book/page.md", PAGE.format(title="A new title", code=SHOWN))
    assert "have changed: none" in build_book.drop_stale(project, built)
    assert executions(built) == ["other", "page"]
    assert read(built) == ["api", "other"]


def test_executions_of_another_place_are_not_trusted(project, built):
    """A copied tree: its cache tells of the pages that it was copied from."""
    copy = project.parent / "copy"
    shutil.copytree(project, copy)
    write(copy, "src/deep.py", "N = 1\n")
    build_book.drop_stale(copy, copy / "_build")
    assert executions(copy / "_build") == []


def test_a_renamed_or_removed_file_counts_as_a_change(project, built):
    (project / "src" / "shown.py").rename(project / "src" / "middle" / "other.py")
    assert build_book.drop_stale(project, built)
    (project / "src" / "middle" / "other.py").unlink()
    assert build_book.drop_stale(project, built)


@pytest.mark.parametrize("path", ["src/__pycache__/shown.pyc", "README.md", "tests/test_x.py"])
def test_other_files_do_not_matter(project, built, path):
    write(project, path, "new")
    assert build_book.drop_stale(project, built) == ""


def test_a_module_that_starts_a_program_can_be_read(tmp_path):
    """It starts itself, in a process of its own, and what it needs is read already."""
    write(tmp_path, "measured.py", "import subprocess\nimport needed\n")
    write(tmp_path, "needed.py", "value = 1\n")
    found = build_book.modules(tmp_path, "import measured")
    assert {path.name for path in found} == {"measured.py", "needed.py"}
    write(tmp_path, "needed.py", "import importlib\nimportlib.import_module('measured')\n")
    build_book.look_again()
    with pytest.raises(LookupError):
        build_book.modules(tmp_path, "import measured")


@pytest.mark.parametrize(
    "code", ["from attentively.experiments import EXPERIMENTS", "experiments.find(x)"]
)
def test_a_page_that_takes_experiments_by_name_needs_all(code):
    assert build_book.modules(ROOT / "src", "from attentively.experiments import published")
    with pytest.raises(LookupError):
        build_book.modules(ROOT / "src", code)


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("from attentively import Transformer", True),
        ("import attentively\nattentively.Transformer", True),
        ("from attentively import masks", False),
        ("from attentively.attention import masks", False),
    ],
)
def test_a_name_of_the_package_needs_its_module_and_no_other_name_does(code, needs):
    needed = build_book.modules(ROOT / "src", code)
    assert (ROOT / "src/attentively/models/transformer.py" in needed) == needs
    assert ROOT / "src/attentively/__init__.py" in needed


def test_every_page_of_the_book_can_be_read():
    """Of no chapter all of src counts: that would execute it after every change."""
    for page in (ROOT / "book").glob("*.md"):
        code = build_book.cells(page.read_text())
        needed = build_book.modules(ROOT / "src", code)
        assert len(needed) < len([*(ROOT / "src").rglob("*.py")])


MEETS = """import time
from pathlib import Path
Path("{own}.here").touch()
for _ in range(600):
    if Path("{other}.here").exists():
        break
    time.sleep(0.1)
assert Path("{other}.here").exists()"""
DIES = "print('alive')\n```\n\n```{code-cell} python3\nimport os\nos._exit(1)"


@pytest.mark.notebook
@pytest.mark.timeout(300)
def test_pages_are_executed_side_by_side_and_a_cell_that_fails_is_named(
    project, capsys, monkeypatch
):
    """Two pages wait for each other; in the third the kernel dies; the fourth is in no chapter."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    write(project, "book/page.md", PAGE.format(title="One", code=MEETS.format(own=1, other=2)))
    write(project, "book/other.md", PAGE.format(title="Two", code=MEETS.format(own=2, other=1)))
    write(project, "book/api.md", PAGE.format(title="Three", code=DIES))
    write(project, "book/draft.md", PAGE.format(title="Four", code="1 / 0"))
    cache = project / "_build" / ".jupyter_cache"
    assert execute_pages.execute_pages(project, cache) == 1
    said = capsys.readouterr().out
    assert executions(project / "_build") == ["other", "page"]
    assert "book/api.md, line 15, code cell 2 of 2:\nKernel died" in said
    assert "book/draft.md" not in said
    for number in (1, 2, 3):
        assert f"[{number}/3] book/" in said
    # What is cached is not executed again.
    assert execute_pages.execute_pages(project, cache) == 1
    assert "[1/1] book/api.md: FAILED" in capsys.readouterr().out
