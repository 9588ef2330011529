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


def explain_undefined_names(explanation: Callable[[str], Exception | None]) -> None:
    """Show what `explanation` returns for an undefined name instead of the NameError.

    It returns None for a name that it does not know. Outside IPython nothing changes. A handler
    for other exceptions that is already set, such as that of a debugger, stays in place.
    """

    def show(
        shell: Any,
        kind: type[NameError],
        error: NameError,
        trace: TracebackType,
        tb_offset: int | None = None,
    ) -> None:
        verdict = explanation(error.name or "")
        shown = (kind, error, trace) if verdict is None else (type(verdict), verdict, None)
        shell.showtraceback(shown, tb_offset=tb_offset)

    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell and shell.custom_exceptions in ((), (NameError,)):
        shell.set_custom_exc((NameError,), show)
