"""Explain, in a notebook, that the cell which defines an answer was not run.

A check is called as ``checks.energies(energies)``. If no cell has defined ``energies``, Python
raises NameError before the check starts. IPython, which runs the cells in JupyterLab and in
grading, can hand such an error to a function of ours, which shows one message instead of the
traceback.
"""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_explanations: list[Callable[[str], Exception | None]] = []


def explain_with(explanation: Callable[[str], Exception | None]) -> None:
    """Show what `explanation` returns for an undefined name instead of the NameError.

    It returns None for a name that it does not know. Outside IPython nothing changes. A handler
    of other exceptions that somebody has set, such as a debugger, stays in place.
    """
    _explanations.append(explanation)
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell and not shell.custom_exceptions:
        shell.set_custom_exc((NameError,), _show)


def _show(
    shell: Any,
    kind: type[NameError],
    error: NameError,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    found = (explain(error.name or "") for explain in _explanations)
    verdict = next((each for each in found if each is not None), None)
    shown = (kind, error, trace) if verdict is None else (type(verdict), verdict, None)
    shell.showtraceback(shown, tb_offset=tb_offset)
