"""A check that is called before its answer is defined shows what to do, not a traceback."""

import pytest
from assignments import ASSIGNMENTS

from attentively.checks import CheckFailed, Parts
from attentively_grader.examination.notebook_shell import Shell


def check_halves(answer, thorough=False):
    if answer() != 41:
        raise CheckFailed("  This is not 41.")


def parts_of_a_notebook():
    parts = Parts()
    return parts, parts.part("halves", "halves")(check_halves)


@pytest.fixture
def shell(monkeypatch):
    """A shell in which the set-up cell of a notebook has run."""
    shell = Shell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell.shell)
    parts, shell.namespace["check"] = parts_of_a_notebook()
    parts.explain_undefined_names()
    return shell


def error_of(shell, source):
    ran = shell.run("a-cell", source, 1)
    (error,) = [each for each in ran.outputs if each["output_type"] == "error"]
    return ran.error, error["ename"], "\n".join(error["traceback"])


def test_a_check_before_its_answer_says_which_cell_to_run(shell):
    raised, name, shown = error_of(shell, "check(halves)")
    assert isinstance(raised, NameError)  # the cell has failed, and earns no points
    assert name == "CheckFailed"
    assert shown.startswith(
        "Part 1 (halves): `halves` is not defined.\n  Run the cell that defines"
    )
    assert "Traceback" not in shown


def test_other_errors_are_shown_as_before(shell):
    for source, said in {
        "check(halve)": "name 'halve' is not defined",
        "raise NameError('of my own')": "of my own",
        "1 / 0": "division by zero",
    }.items():
        _, _, shown = error_of(shell, source)
        assert "Traceback" in shown
        assert said in shown


def test_a_handler_of_somebody_else_stays(shell):
    def debugger(*_, **__):
        pass

    shell.shell.set_custom_exc((ZeroDivisionError,), debugger)
    parts_of_a_notebook()[0].explain_undefined_names()
    assert shell.shell.custom_exceptions == (ZeroDivisionError,)


def test_of_two_notebooks_in_one_process_the_last_is_explained(shell):
    parts = Parts()
    shell.namespace["check"] = parts.part("doubles", "doubles")(check_halves)
    parts.explain_undefined_names()
    assert "Part 1 (doubles): `doubles` is not defined" in error_of(shell, "check(doubles)")[2]


def test_every_set_up_cell_calls_it(monkeypatch):
    """Grading imports the checks before there is a shell, so an import alone would not do."""
    called = []
    monkeypatch.setattr(Parts, "explain_undefined_names", lambda parts: called.append(parts))
    for assignment in ASSIGNMENTS:
        assignment.checks.ready()
        assert called[-1:] == [assignment.checks._parts], assignment


def test_without_the_handler_there_is_a_traceback(monkeypatch):
    """The broken variant: what a student sees where the handler is missing."""
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    shell = Shell()
    parts, shell.namespace["check"] = parts_of_a_notebook()
    parts.explain_undefined_names()
    _, name, shown = error_of(shell, "check(halves)")
    assert name == "NameError"
    assert "Traceback" in shown
