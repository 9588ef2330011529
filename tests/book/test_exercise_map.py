"""The map of the exercises: it says what the notebooks do, and nothing that they do not."""

import importlib.util
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebook_tools import flags, write

from attentively.analysis.figures.diagram import text_size

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"

sys.path.insert(0, str(EXTENSIONS))  # it imports the other map
spec = importlib.util.spec_from_file_location("exercise_map", EXTENSIONS / "exercise_map.py")
emap = importlib.util.module_from_spec(spec)
spec.loader.exec_module(emap)
sys.path.remove(str(EXTENSIONS))

SVG = "{http://www.w3.org/2000/svg}"


def assignment(name, module, parts, *extra):
    """Return a notebook; a part is (its names, its solution, the code below its check)."""
    cells = [
        new_markdown_cell(f"# Title of {name}"),
        new_code_cell(f"from attentively.checks import {module} as checks"),
    ]
    for number, (names, solution, below) in enumerate(parts, start=1):
        points, check = 100 // len(parts), f"check_{number}"
        heading = f"## Part {number} · Piece {number} ({points} points, about 7 minutes, easy)"
        tags = ["original", "raises-exception"] if number == 2 else ["raises-exception"]
        cells += [
            new_markdown_cell(f"{heading}\n\nWrite it."),
            new_code_cell(solution, metadata={"nbgrader": flags(f"s{number}", solution=True)}),
            new_code_cell(
                f"checks.{check}({', '.join(names)})\n### BEGIN HIDDEN TESTS\n"
                f"checks.{check}({', '.join(names)}, thorough=True)\n### END HIDDEN TESTS",
                metadata={
                    "tags": tags,
                    "nbgrader": flags(f"c{number}", grade=True, points=points),
                },
            ),
            new_code_cell(below),
        ]
    return new_notebook(cells=[*cells, *extra])


def take(source, check):
    return f"theirs = earlier_parts.take(\n    {source!r},\n    first.{check},\n    stand_in,\n)"


@pytest.fixture
def course(tmp_path):
    """Two assignments: the second takes part 2 of the first, and its checks use the first's."""
    add(
        tmp_path,
        "03_first",
        "first",
        [
            (["halve"], "def halve(x):\n    return x / 2", ""),
            (["quarter", "eighth"], "def quarter(x):\n    return halve(halve(x))", ""),
        ],
    )
    add(
        tmp_path,
        "11_second",
        "second",
        [
            (["go"], "def go(x):\n    return x", take("03_first", "check_2")),
            (["stop"], "def stop(go):\n    return go", "print(theirs)"),
            (["wait"], "def wait():\n    return 1", "with checks.once_solved():\n    go(stop)"),
        ],
    )
    return tmp_path


def add(root, name, module, parts, *extra):
    write(assignment(name, module, parts, *extra), root / "solutions" / name / f"{name}.ipynb")


def check_module(root, name, text):
    path = root / "src" / "attentively" / "checks" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_part_is_read_with_all_that_its_heading_says(course):
    first, _ = emap.read_assignments(course)
    assert (first.name, first.number, first.title) == ("03_first", "03", "Title of 03_first")
    assert (first.points, first.minutes) == (100, 14)
    assert first.parts[1] == emap.Part(2, "Piece 2", 50, 7, "easy", True, "check_2", (1,))
    assert not first.parts[0].original


def test_a_part_uses_another_where_its_cells_call_it(course):
    first, second = emap.read_assignments(course)
    assert [part.uses for part in first.parts] == [(), (1,)]
    # In part 2 `go` is an argument's name, not the function of part 1.
    assert [part.uses for part in second.parts] == [(), (), (1, 2)]


def test_what_is_taken_is_the_part_of_that_check(course):
    first, second = emap.read_assignments(course)
    assert first.takes == ()
    assert second.takes == (emap.Take("03_first", 2, "check_2", 1),)
    [feed] = emap.feeds([first, second])
    assert feed == emap.Feed("03_first", ("11_second",), 2)


def test_below_another_heading_it_stands_under_no_part(course):
    name = "12_third"
    parts = [(["x"], "x = 1", ""), (["y"], "y = 2", "")]
    cells = [new_markdown_cell("## All of it yours"), new_code_cell(take("03_first", "check_1"))]
    add(course, name, "third", parts, *cells)
    *_, third = emap.read_assignments(course)
    assert third.takes == (emap.Take("03_first", 1, "check_1", 0),)


def test_a_new_notebook_is_there_by_itself(course):
    before = emap.draw(emap.read_assignments(course))
    parts = [(["x"], "x = 1", take("11_second", "check_3")), (["y"], "y = 2", "")]
    add(course, "12_third", "third", parts)
    assignments = emap.read_assignments(course)
    after = emap.draw(assignments)
    assert "Title of 12_third" not in before
    assert "Title of 12_third" in after
    assert ways(after) == [*ways(before), ("11.3", ["12"])]
    assert "| 12 Title of 12_third | 2 | 100 | 50 | 14 | 11.3 | – |" in emap.table(assignments, {})


@pytest.mark.parametrize(
    ("source", "check", "said"),
    [
        ("09_missing", "check_1", "11_second takes first.check_1 from '09_missing': expected"),
        ("11_second", "check_1", "an assignment before it"),
        ("03_first", "check_9", "no part of 03_first is checked by that"),
    ],
)
def test_what_cannot_be_taken_is_an_error(course, source, check, said):
    parts = [(["x"], "x = 1", take(source, check)), (["y"], "y = 2", "")]
    add(course, "11_second", "second", parts)
    with pytest.raises(ValueError, match=re.escape(said)):
        emap.read_assignments(course)


def test_a_notebook_without_headings_is_an_error(course):
    write(new_notebook(cells=[new_markdown_cell("# Bare")]), course / "solutions/12_x/12_x.ipynb")
    with pytest.raises(ValueError, match=r"12_x.ipynb has no title, no heading"):
        emap.read_assignments(course)


def test_checks_are_found_through_their_helpers(course):
    check_module(course, "first", "")
    check_module(course, "helper", "from attentively.checks import first\n")
    check_module(course, "second", "from attentively.checks.helper import known\n")
    first, second = emap.read_assignments(course)
    assert second.checks_of == ()  # the arrow of what is taken says more
    parts = [(["x"], "x = 1", ""), (["y"], "y = 2", "")]
    add(course, "11_second", "second", parts)
    first, second = emap.read_assignments(course)
    assert second.checks_of == ("03_first",)
    assert emap.feeds([first, second]) == [emap.Feed("03_first", ("11_second",), 0)]
    check_module(course, "second", "from attentively.checks import other\n")
    _, second = emap.read_assignments(course)
    assert second.checks_of == ()


# Of the real course


@pytest.fixture(scope="module")
def assignments():
    return emap.read_assignments(ROOT)


@pytest.fixture(scope="module")
def picture(assignments):
    return emap.draw(assignments)


def ways(svg):
    found = re.findall(r'data-from="([\d.]+)" data-to="([\d,]+)"', svg)
    return [(source, targets.split(",")) for source, targets in found]


def test_all_assignments_are_there(assignments):
    folders = sorted(path.name for path in (ROOT / "solutions").glob("[0-9][0-9]_*"))
    assert [each.name for each in assignments] == folders
    assert {each.points for each in assignments} == {100}


def test_the_transformer_is_built_from_what_came_before(assignments):
    taken = {
        (take.assignment[:2], take.part, each.number) for each in assignments for take in each.takes
    }
    assert {("12", 3, "15"), ("13", 1, "15"), ("14", 2, "15"), ("15", 4, "17")} <= taken


def test_each_take_in_the_text_is_on_the_map(assignments):
    """Counted in the text, not in the syntax: a call written in a new way would be missed."""
    for each in assignments:
        path = ROOT / "solutions" / each.name / f"{each.name}.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        assert "\n".join(code).count(".take(") == len(each.takes), each.name


def test_the_picture_has_an_arrow_for_each_line(assignments, picture):
    drawn = {(source, target) for source, targets in ways(picture) for target in targets}
    wanted = {
        (f"{take.assignment[:2]}.{take.part}", each.number)
        for each in assignments
        for take in each.takes
    } | {(name[:2], each.number) for each in assignments for name in each.checks_of}
    assert drawn == wanted
    arcs = set(re.findall(r'data-arc="([\d.-]+)"', picture))
    assert arcs == {
        f"{each.number}.{used}-{part.number}"
        for each in assignments
        for part in each.parts
        for used in part.uses
    }


def test_the_parts_given_are_filled(picture):
    tree = ElementTree.fromstring(picture)
    filled = {
        element.get("data-part")
        for element in tree.iter(f"{SVG}g")
        if "given" in element.get("class", "").split()
    }
    assert filled == {source for source, _ in ways(picture) if "." in source}


def test_who_does_not_see_it_is_told(assignments, picture):
    said = ElementTree.fromstring(picture).get("aria-label")
    assert "15 reuses 12 part 3, 13 part 1, 14 part 2" in said
    for each in assignments:
        for name in each.checks_of:
            assert f"{each.number} repeats checks of {name[:2]}" in said


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_nothing_is_drawn_outside_the_picture_or_over_another(assignments):
    """With as many arrows as there could be: each assignment takes from the three before it."""
    full = [
        each._replace(
            takes=tuple(
                emap.Take(before.name, 1, "x", 1) for before in assignments[max(0, i - 3) : i]
            )
        )
        for i, each in enumerate(assignments)
    ]
    svg = emap.draw(full)
    tree = ElementTree.fromstring(svg)
    _, _, width, height = numbers(tree.get("viewBox"))
    for path in tree.iter(f"{SVG}path"):
        if "way" in path.get("class").split():
            assert max(numbers(path.get("d"))) <= max(width, height)
            across = [float(x) for x in re.findall(r"[HQ] ?([\d.]+)", path.get("d"))]
            assert max(across) < width
    rows = [
        (float(box.get("y")), float(box.get("y")) + float(box.get("height")))
        for box in tree.iter(f"{SVG}rect")
        if box.get("class") == "row"
    ]
    assert len(rows) == len(assignments)
    assert all(bottom <= top for (_, bottom), (top, _) in pairwise(rows))
    assert rows[-1][1] <= height
    # No two arrows of one row come closer than their names are high.
    ends = sorted(
        float(text.get("y")) for text in tree.iter(f"{SVG}text") if text.get("class") == "small"
    )
    assert min(later - sooner for sooner, later in pairwise(ends)) > 11


def long_titles(assignments):
    """Return the numbers of the rows whose title reaches the names of arrows at the right edge."""
    free = emap.ROW_X + emap.ROW_WIDTH - 4 - text_size("12.3", 13.0)[0]
    return [
        group.get("data-assignment")
        for group in ElementTree.fromstring(emap.draw(assignments)).iter(f"{SVG}g")
        for text in group.findall(f"{SVG}text")
        if group.get("data-assignment")
        and float(text.get("x")) + text_size(text.text, 14.0)[0] > free - 4
    ]


def test_a_title_does_not_reach_the_names_of_arrows(assignments, monkeypatch):
    assert long_titles(assignments) == []
    monkeypatch.setattr(emap, "TITLE", 80)
    assert {"17", "18"} <= {*long_titles(assignments)}


def test_lines_in_one_lane_do_not_meet():
    order = [f"{n:02}" for n in range(8)]
    lines = [
        emap.Feed("00", ("02",), 1),
        emap.Feed("02", ("03",), 1),  # begins where the first ends
        emap.Feed("03", ("04",), 1),
        emap.Feed("05", ("07",), 1),
    ]
    assert emap.lanes(lines, order) == [0, 1, 0, 0]


def test_a_title_leads_to_its_chapter_where_there_is_one(assignments):
    svg = emap.draw(assignments, address={8: "08.html"}.get)
    [link] = ElementTree.fromstring(svg).iter(f"{SVG}a")
    assert link.get("href") == "08.html"
    assert link.get("aria-label") == "08 Additive attention: go to the chapter"
    rows = emap.table(assignments, {8: "book/08_additive_attention"})
    assert any(
        row.startswith("| [08 Additive attention](/book/08_additive_attention.md) | 6 | 100 | 64 |")
        for row in rows
    )


def test_the_table_says_what_is_taken_and_by_whom(course):
    first, second = emap.table(emap.read_assignments(course), {})[2:4]
    assert first.endswith("| – | 03.2 by 11 |")
    assert second.endswith("| 03.2 | – |")
    check_module(course, "second", "from attentively.checks import first\n")
    parts = [(["x"], "x = 1", ""), (["y"], "y = 2", "")]
    add(course, "11_second", "second", parts)
    first, second = emap.table(emap.read_assignments(course), {})[2:4]
    assert first.endswith("| – | checks by 11 |")
    assert second.endswith("| checks of 03 | – |")


def test_the_tables_add_up(assignments):
    *_, whole = emap.table(assignments, {})
    rows = emap.parts_table(assignments)[2:]
    number, points, original, minutes = (int(n) for n in whole.split("|")[2:6])
    assert number == len(rows)
    assert points == 100 * len(assignments)
    assert minutes == sum(int(row.split("|")[4]) for row in rows)
    assert original == sum(int(row.split("|")[3]) for row in rows if "(original)" in row)


PAGE = """# Map

```{exercise-map}
:name: fig-exercises

What *feeds* what.
```

```{exercise-table}
```

```{exercise-table}
:parts:
```
"""


def build(root):
    (root / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(EXTENSIONS)!r})\n"
        "extensions = ['myst_parser', 'transformer_map', 'exercise_map']\n"
        "numfig = True\nroot_doc = 'book/index'\nexclude_patterns = ['site', 'solutions']\n"
    )
    book = root / "book"
    book.mkdir(exist_ok=True)
    (book / "index.md").write_text(f"{PAGE}\n```{{toctree}}\n03_first\n```\n")
    (book / "03_first.md").write_text("# First\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", root, root / "site"]
    done = subprocess.run(command, capture_output=True, text=True)
    page = root / "site" / "book" / "index.html"
    return done, page.read_text() if page.exists() else ""


def test_in_a_book(course):
    done, page = build(course)
    assert done.returncode == 0, done.stderr
    [svg] = re.findall(r"<svg class=.exercise-map.*?</svg>", page, re.S)
    assert ways(svg) == [("03.2", ["11"])]
    assert 'href="03_first.html"' in svg
    assert "<em>feeds</em>" in page
    assert page.count("<table") == 2
    assert '<a class="reference internal" href="03_first.html">' in page

    # Built once more, with a notebook more: nothing else was touched.
    parts = [(["x"], "x = 1", take("11_second", "check_3")), (["y"], "y = 2", "")]
    add(course, "12_third", "third", parts)
    done, page = build(course)
    assert done.returncode == 0, done.stderr
    assert "Title of 12_third" in page


def test_a_book_with_a_wrong_take_does_not_build(course):
    parts = [(["x"], "x = 1", take("03_first", "check_9")), (["y"], "y = 2", "")]
    add(course, "11_second", "second", parts)
    done, _ = build(course)
    assert done.returncode != 0
    assert "no part of 03_first is checked by that" in done.stderr
