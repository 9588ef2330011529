"""A check that is called before its answer is defined shows what to do, not a traceback."""

import pytest

from attentively.checks import CheckFailed, Parts, undefined_names
from attentively_grader.examination.notebook_shell import Shell


def check_halves(answer, thorough=False):
    if answer() != 41:
        raise CheckFailed("  This is not 41.")


def parts_of_a_notebook():
    parts = Parts()
    return parts, parts.part("halves", "halves")(check_halves)


@pytest.fixture
def shell(monkeypatch):
    """A shell in which a notebook has imported its checks, as its set-up cell does."""
    monkeypatch.setattr(undefined_names, "_explanations", [])
    shell = Shell()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell.shell)
    shell.namespace["parts"], shell.namespace["check"] = parts_of_a_notebook()
    return shell


def error_of(shell, source):
    ran = shell.run("a-cell", source, 1)
    (error,) = [each for each in ran.outputs if each["output_type"] == "error"]
    return ran.error, error["ename"], "\n".join(error["traceback"])


def test_a_check_before_its_answer_says_which_cell_to_run(shell):
    raised, name, shown = error_of(shell, "check(halves)")
    assert isinstance(raised, NameError)  # the cell has failed, and earns no points
    assert name == "CheckFailed"
    assert shown.startswith("`halves` is not defined.\n  Run the cell that defines `halves` first.")
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
    parts_of_a_notebook()
    assert shell.shell.custom_exceptions == (ZeroDivisionError,)


def test_without_the_handler_there_is_a_traceback(monkeypatch):
    """The broken variant: what a student sees where the handler is missing."""
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    shell = Shell()
    _, shell.namespace["check"] = parts_of_a_notebook()
    _, name, shown = error_of(shell, "check(halves)")
    assert name == "NameError"
    assert "Traceback" in shown
