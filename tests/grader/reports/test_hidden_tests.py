"""A course may keep its hidden tests to itself: the page for a student does not show them."""

from dataclasses import replace

import nbformat
import pytest
from grader.classroom import Classroom, Stub
from traitlets.config import Config

from attentively_grader.examination.notebook_shell import Shell
from attentively_grader.reports import hidden_tests

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]

HIDDEN = "assert part_1() == 41"
TEST = f"""\
values = [1, 2]
assert part_1() > 0
### BEGIN HIDDEN TESTS
{HIDDEN}, 'not forty-one'
### END HIDDEN TESTS
assert values
"""


def run(source, **names):
    """Return a notebook of one test cell as IPython runs it."""
    shell = Shell()
    shell.namespace.update(names)
    ran = shell.run("check", source, 1)
    marks = {"grade": True, "grade_id": "check", "points": 1, "solution": False}
    cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": marks}, id="check")
    cell.outputs = nbformat.from_dict(ran.outputs)
    return nbformat.v4.new_notebook(cells=[cell])


def hidden(notebook, **config):
    (cell,) = hidden_tests.without_hidden_tests(notebook, Config(config)).cells
    errors = [output for output in cell.outputs if output.output_type == "error"]
    return cell.source, ["\n".join(error.traceback) for error in errors]


def test_a_hidden_failure_says_what_but_not_where():
    notebook = run(TEST, part_1=lambda: 7)
    assert HIDDEN in "".join(notebook.cells[0].outputs[0].traceback)
    source, (said,) = hidden(notebook)
    assert HIDDEN not in source + said
    assert source.splitlines()[2:4] == ["# Hidden tests ran here.", "assert values"]
    assert "AssertionError: not forty-one" in said
    assert hidden_tests.WHERE in said


def test_hidden_tests_that_are_shown_have_no_markers():
    notebook = run(TEST, part_1=lambda: 7)
    assert "BEGIN HIDDEN TESTS" in "".join(notebook.cells[0].outputs[0].traceback)
    (cell,) = hidden_tests.without_markers(notebook, Config()).cells
    said = "\n".join(cell.outputs[0].traceback)
    assert cell.source == "\n".join(line for line in TEST.splitlines() if "###" not in line)
    assert f"----> 4 {HIDDEN}" in said
    assert "HIDDEN TESTS" not in cell.source + said


def test_a_failure_beside_hidden_lines_shows_none_of_them():
    """IPython shows the lines round the one that failed."""
    notebook = run(TEST, part_1=lambda: -1)
    assert HIDDEN in "".join(notebook.cells[0].outputs[0].traceback)
    _, (said,) = hidden(notebook)
    assert HIDDEN not in said
    assert "HIDDEN TESTS" not in said
    assert "----> 2 assert part_1() > 0" in said
    assert hidden_tests.WHERE not in said
    assert "AssertionError" in said


def test_a_hidden_statement_of_several_lines_is_hidden_wherever_it_fails():
    lines = ["assert (", "1 /", "part_1()", ")", "assert (", "part_1()", "== 41", ")"]
    source = "\n".join(["### BEGIN HIDDEN TESTS", *lines, "### END HIDDEN TESTS"])
    for value in (0, 7):
        _, (said,) = hidden(run(source, part_1=lambda value=value: value))
        assert hidden_tests.WHERE in said
        assert not [line for line in lines if f" {line}\n" in said]


def test_colours_hide_no_hidden_line():
    notebook = run(TEST, part_1=lambda: -1)
    (error,) = notebook.cells[0].outputs
    error.traceback = [
        part.replace("assert", "\x1b[38;5;28massert\x1b[39m").replace("---->", "\x1b[32m---->")
        for part in error.traceback
    ]
    _, (said,) = hidden(notebook)
    assert "41" not in said
    assert "part_1() > 0" in said
    assert hidden_tests.WHERE not in said


def test_a_failure_far_from_hidden_lines_is_shown_as_it_is():
    source = "assert part_1() > 0\n" + "# .\n" * 9 + TEST
    notebook = run(source, part_1=lambda: -1)
    _, (said,) = hidden(notebook)
    assert "assert part_1() > 0" in said
    assert hidden_tests.WHERE not in said


def test_what_it_is_given_stays_as_it_was():
    notebook = run(TEST, part_1=lambda: 7)
    before = nbformat.writes(notebook)
    hidden(notebook)
    assert nbformat.writes(notebook) == before


def test_the_marks_are_those_of_the_configuration():
    source = "x = 1\n# SECRET\nassert x == 1\n# PUBLIC\nassert x"
    marks = {"begin_test_delimeter": "# SECRET", "end_test_delimeter": "# PUBLIC"}
    found, _ = hidden(run(source), ClearHiddenTests=marks)
    assert found == "x = 1\n# Hidden tests ran here.\nassert x"


def test_the_page_follows_the_configuration(tmp_path):
    """From the first page on, and when the configuration changes, either way."""
    room = Classroom(tmp_path)
    room.hand_in("anna", room.answered(first="def part_1():\n    return 7"))

    def shown(outcome):
        cells = []
        for cell in outcome.cells:
            outputs = [
                {**each, "traceback": [f"----> 4 {HIDDEN}, 'not forty-one'", *each["traceback"]]}
                if each["output_type"] == "error"
                else each
                for each in cell.outputs
            ]
            cells.append(replace(cell, outputs=outputs))
        return replace(outcome, cells=cells)

    ran = []
    for wanted in (True, False, True):
        with open(tmp_path / "nbgrader_config.py", "a") as file:
            file.write(f"\nc.Grading.hide_hidden_tests = {wanted}\n")
        stub = Stub({"anna": shown})
        assert room.grade(stub=stub) == 0
        ran.append(len(stub.ran))
        page = room.page("anna")
        assert "not forty-one" in page
        assert ("Hidden tests ran here" in page) == wanted
        assert (hidden_tests.WHERE in page) == wanted
        assert ("-&gt; 4 assert part_1() == 41" in page) != wanted
        assert "HIDDEN TESTS" not in page
        assert room.points("anna") == [0, 40]
    assert ran == [1, 0, 0]


def test_hidden_lines_of_another_cell_are_hidden_too():
    """A test that calls a function of another test's hidden lines shows its frame."""
    shell = Shell()
    marks = {"grade": True, "points": 1, "solution": False}
    helper = "def secret(x):\n    return 1 / (x - 4711)"
    calls = "import traceback\ntry:\n    secret(4711)\nexcept ZeroDivisionError:\n"
    calls += "    traceback.print_exc()\nsecret(4711)"
    sources = [f"### BEGIN HIDDEN TESTS\n{helper}\n### END HIDDEN TESTS", calls]
    cells = []
    for number, source in enumerate(sources, start=1):
        ran = shell.run(f"c{number}", source, number)
        own = {"nbgrader": {**marks, "grade_id": f"c{number}"}}
        cells.append(nbformat.v4.new_code_cell(source, metadata=own, id=f"c{number}"))
        cells[-1].outputs = nbformat.from_dict(ran.outputs)
    notebook = nbformat.v4.new_notebook(cells=cells)
    assert str(notebook.cells[1].outputs).count("return 1 / (x - 4711)") >= 2
    shown = hidden_tests.without_hidden_tests(notebook, Config())
    assert "x - 4711" not in str(shown)
    assert "ZeroDivisionError" in str(shown.cells[1].outputs)
    assert "secret(4711)" in str(shown.cells[1].outputs)


def test_printed_text_keeps_what_resembles_a_short_hidden_line():
    source = "print('all tests passed')\n### BEGIN HIDDEN TESTS\npass\n### END HIDDEN TESTS"
    (cell,) = hidden_tests.without_hidden_tests(run(source), Config()).cells
    assert cell.outputs[0].text == "all tests passed\n"
