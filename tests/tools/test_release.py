"""tools/release.py: what an assignment must have, and sources without noise."""

import importlib.util
import json
import shutil

import pytest
from notebook_tools import ROOT, small_notebook, with_source, write

from attentively_grader.course import notebooks

spec = importlib.util.spec_from_file_location("release_tool", ROOT / "tools" / "release.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

SOURCES = sorted((ROOT / "solutions").glob("*/*.ipynb"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_source_is_an_assignment_and_tidy(path):
    notebook = notebooks.read(path)
    assert tool.problems(notebook) == []
    assert path.read_text(encoding="utf-8") == notebooks.tidy(notebook)


def test_there_is_an_assignment():
    assert SOURCES


def change(cell_id, **changes):
    """Return a function that changes a cell's metadata or source."""

    def apply(notebook):
        (cell,) = [cell for cell in notebook.cells if cell.id == cell_id]
        for name, value in changes.items():
            if name == "source":
                cell.source = value(cell.source)
            elif name == "tags":
                cell.metadata.tags = value
            else:
                cell.metadata.nbgrader[name] = value
        return notebook

    return apply


def drop(cell_id):
    def apply(notebook):
        notebook.cells = [cell for cell in notebook.cells if cell.id != cell_id]
        return notebook

    return apply


FAULTS = [
    (change("check-1", points=59), "the points sum to 99"),
    (change("check-1", points=59), "says part 1 and 60 points, expected part 1 and 59 points"),
    (change("check-1", tags=["raises-exception"]), None),
    (change("check-1", tags=["original"]), "the tag raises-exception is missing"),
    (change("check-1", locked=False), "it is not locked"),
    (change("check-2", grade_id="check-1"), "several cells have the id 'check-1'"),
    (drop("check-1"), "solution 'part-1': there is no check between it and 'part-2'"),
    (drop("check-2"), "solution 'part-2': there is no check after it"),
    (drop("part-2"), "check 'check-2': there is no solution before it"),
    (drop("text-2"), "part 2: found 0 headings, expected one such as"),
    (
        change("text-1", source=lambda text: text.replace("<details>", "", 1)),
        "part 1: found 2 hints, expected 3",
    ),
    (
        change("check-1", source=lambda text: text[text.index("###") :]),
        "there is no visible test",
    ),
    (change("check-1", source=lambda text: text.split("###")[0]), "there are no hidden tests"),
    (
        change("part-1", source=lambda text: text.replace("###", "#")),
        "### BEGIN SOLUTION and ### END SOLUTION do not match",
    ),
    (change("title", source=lambda text: "### BEGIN SOLUTION"), "neither a solution nor a check"),
]


@pytest.mark.parametrize(("spoil", "words"), FAULTS)
def test_what_an_assignment_lacks_is_named(spoil, words):
    assert tool.problems(small_notebook()) == []
    found = tool.problems(spoil(small_notebook()))
    if words is None:
        assert found == []
    else:
        assert any(words in problem for problem in found), found


def test_too_few_points_for_original_parts_are_refused():
    notebook = small_notebook()
    for cell in notebook.cells:
        if cell.id == "check-1":
            cell.metadata.tags = ["raises-exception"]
        if cell.id in ("check-1", "check-2"):
            cell.metadata.nbgrader.points = {"check-1": 61, "check-2": 39}[cell.id]
    assert any("39 points are for original parts" in problem for problem in tool.problems(notebook))


# Tidiness


def test_noise_is_taken_out_and_nothing_else():
    notebook = small_notebook()
    quiet = notebooks.tidy(notebook)
    noisy = with_source(notebook, "title", "# Small\n")
    noisy.metadata.language_info.version = "3.11.7"
    noisy.metadata.widgets = {"state": {}}
    code = noisy.cells[2]
    code.execution_count = 17
    code.outputs = [{"output_type": "stream", "name": "stdout", "text": "noise"}]
    code.metadata.collapsed = True
    code.metadata.execution = {"iopub.status.busy": "2026"}
    code.metadata.nbgrader.checksum = "0123"
    code.id = "a1b2c3d4"  # as JupyterLab gives to a cell that was pasted
    assert notebooks.tidy(noisy) == quiet
    noisy.cells[3].source += "\nmore()"
    assert notebooks.tidy(noisy) != quiet


def test_tidy_is_stable_and_its_ids_are_distinct():
    notebook = small_notebook()
    notebook.cells[0].id = notebook.cells[1].id = "same"
    once = notebooks.tidy(notebook)
    ids = [cell["id"] for cell in json.loads(once)["cells"]]
    assert len(set(ids)) == len(ids)
    assert ids[:2] == ["same", "same-2"]


@pytest.fixture
def course(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    write(small_notebook(), tmp_path / "solutions" / "small" / "small.ipynb")
    return tmp_path


def test_check_complains_and_changes_nothing(course, capsys):
    path = course / "solutions" / "small" / "small.ipynb"
    notebook = notebooks.read(path)
    notebook.cells[0].metadata.collapsed = True
    write(notebook, path)
    before = path.read_bytes()
    assert tool.main(["--check"], course) == 1
    assert "is not tidy" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert not (course / "exercises").exists()
    assert tool.main(["--tidy"], course) == 0
    assert path.read_text(encoding="utf-8") == notebooks.tidy(notebook)


def with_chapter(course, address=""):
    (course / "book").mkdir(exist_ok=True)
    (course / "book" / "small.md").write_text("---\nx: y\n---\n\n# 08 A small page\n\n# Code\n")
    (course / "_config.yml").write_text(f'html:\n  baseurl: "{address}"\n')


def test_the_first_cell_links_the_chapter(course, capsys):
    path = course / "solutions" / "small" / "small.ipynb"
    with_chapter(course)
    assert tool.main(["--check"], course) == 1
    assert "small.ipynb is not tidy" in capsys.readouterr().err
    link = "**Chapter:** [08 A small page](/static/book/small.html)"
    line = f"{link} (file `_build/html/book/small.html`"
    for address, end in [
        ("", ")"),
        ("https://x.org/b/", ", [online](https://x.org/b/book/small.html))"),
    ]:
        with_chapter(course, address)
        assert tool.main(["--tidy"], course) == 0
        assert notebooks.read(path).cells[0].source == f"# Small\n\n{line}{end}"
        before = path.read_bytes()
        assert tool.main(["--tidy"], course) == 0
        assert path.read_bytes() == before
    assert tool.main([], course) == 0
    released = notebooks.read(course / "exercises" / "small" / "small.ipynb")
    assert line in released.cells[0].source
    assert "checksum" not in json.dumps(released.cells[0].metadata)  # not a locked cell


def test_the_link_keeps_the_text_below_the_heading(course):
    with_chapter(course)
    notebook = with_source(small_notebook(), "title", "# Small\n\nFirst.\n\nSecond.")
    for _ in range(2):
        tool.link_chapter(notebook, course, "small")
        heading, link, *rest = notebook.cells[0].source.split("\n\n")
        assert (heading, rest) == ("# Small", ["First.", "Second."])
        assert link.startswith(tool.CHAPTER)


def test_every_assignment_links_its_chapter():
    for path in SOURCES:
        source = notebooks.read(path).cells[0].source
        assert f"](/static/book/{path.stem}.html)" in source
        assert (ROOT / "book" / f"{path.stem}.md").is_file()


def test_a_release_says_what_it_did_and_is_checked_afterwards(course, capsys):
    assert tool.main(["--tidy"], course) == 0
    assert tool.main([], course) == 0
    assert "small: released to exercises/small/ (small.ipynb)" in capsys.readouterr().out
    stray = course / "exercises" / "small" / "stray.txt"
    stray.write_text("edited by hand")
    assert tool.main(["--check"], course) == 1
    assert "is not up to date. Run `make release`" in capsys.readouterr().err
    assert tool.main([], course) == 0
    assert not stray.exists()
    assert not (course / "gradebook.db").exists()


def test_an_assignment_with_faults_is_not_released(course, capsys):
    path = course / "solutions" / "small" / "small.ipynb"
    write(change("check-1", points=59)(notebooks.read(path)), path)
    assert tool.main([], course) == 1
    assert "the points sum to 99, expected 100" in capsys.readouterr().err
    assert not (course / "exercises").exists()


def test_an_unknown_assignment_lists_those_there_are(course):
    with pytest.raises(tool.CourseError, match="Assignments there: small"):
        tool.main(["large"], course)
