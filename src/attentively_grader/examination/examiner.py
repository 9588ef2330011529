"""Examine a notebook: student cells run in the student process, tests in this examiner process.

Which cell runs where:

- A cell that the student wrote runs in the student process.
- A cell of the instructor without points runs in the student process too, and its outputs are taken
  from there. If it binds a name that a graded cell uses, directly or through another such cell, it
  also runs here. Here it is always the instructor's text, even if the student changed or deleted
  the cell, and its output is discarded.
- A graded cell of the instructor runs here. In it, built-in names and names that the instructor's
  earlier cells have bound are real. A name that the instructor binds only later is undefined, even
  if the student binds it. All other names are the student's, and proxies. A name that the model
  solution binds is the student's from the answer cell on, until a cell of the instructor binds it
  again. The cell earns its points if it raises no error and the student process is still alive. If
  its last expression is a number, it earns this number of points.
- A graded cell with the tag ``beside-the-student`` runs in the student process and is marked as
  weaker.

There is a new examiner process for each notebook, because tests leave state behind.
"""

import builtins
import contextlib
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from attentively_grader.course import cell_names
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.examination.notebook_shell import Ran, Shell
from attentively_grader.jobs import CellOutcome, End, Job, Outcome
from attentively_grader.wire import proxies
from attentively_grader.wire.endpoint import Endpoint
from attentively_grader.wire.gradients import Graph
from attentively_grader.wire.messages import TooLate, Wire, WireError

BESIDE = "beside-the-student"
_AROUND = ("%%time", "%%capture", "%%prun")
"""Cell magics that run the rest of the cell as Python."""
Renew = Callable[[], tuple[socket.socket | None, str]]
"""Return the connection to a new student process, or None, and why the last one ended."""


def examine(job: Job, connection: socket.socket, renew: Renew | None = None) -> Outcome:
    """Run one notebook and return its outcome."""
    return _Examination(job, connection, renew).outcome()


class _Examination:
    def __init__(self, job: Job, connection: socket.socket, renew: Renew | None) -> None:
        self.job = job
        self.limits = job.limits
        self.renew = renew
        self.started = time.monotonic()
        self.cells = [c for c in job.notebook["cells"] if c["cell_type"] == "code"]
        self.numbers = {cell["id"]: number for number, cell in enumerate(self.cells, start=1)}
        """The numbers of the code cells in tracebacks, in both processes."""
        self.packages = self._packages()
        self.needed = self._needed()
        self.shell = Shell(self.limits.output_kib * 1024, everywhere=True)
        self.answers = {name for cell in self.cells for name in _of(cell).get("binds", ())}
        """Names that a model solution binds, so the student must bind them."""
        self.instructors = {
            name
            for cell in self.cells
            for name in cell_names.bound(_python_in(_instructors_text(cell)))
        } - self.answers
        """Names that any cell of the instructor binds; they are never the student's."""
        self.ours = {*vars(builtins), *self.shell.namespace}
        """Names that are real here: built-in names, and those bound by the instructor's cells."""
        self.students: set[str] = set()
        """The names in `answers` that the student bound last."""
        self.wanted: set[str] = set()
        """Names that the cells run here use."""
        self.ran: list[tuple[str, str]] = []
        """The cells that the student process has run, to be repeated in a new one."""
        self.reason = ""
        self.end: End = "complete"
        self._meet(connection)

    def outcome(self) -> Outcome:
        """Run every cell."""
        outcomes = []
        for cell in self.cells:
            outcomes.append(self._cell(cell))
        self.endpoint.wire.close()
        seconds = time.monotonic() - self.started
        return Outcome(outcomes, self.end, self.reason, seconds)

    # Analysis of the notebook

    def _packages(self) -> frozenset[str]:
        """Return the packages that the instructor's cells import, except the standard library."""
        found: set[str] = set()
        for cell in self.cells:
            found |= cell_names.imported(python_of(_instructors_text(cell)))
        return frozenset(found - sys.stdlib_module_names - {"attentively_grader"})

    def _needed(self) -> set[str]:
        """Return the ids of the instructor's cells without points that graded cells depend on."""
        wanted: set[str] = set()
        needed: set[str] = set()
        for cell in reversed(self.cells):
            source = _python_in(_instructors_text(cell))
            if _is_test(cell):
                wanted |= cell_names.used(source)
            elif cell_names.bound(source) & wanted or cell_names.binds_unseen(source):
                wanted |= cell_names.used(source)
                needed.add(cell["id"])
        return needed

    # The student process

    def _meet(self, connection: socket.socket) -> None:
        wire = Wire(connection, self.limits.wire_mib * 2**20)
        self.endpoint = Endpoint(wire, trusted=True, known_packages=self.packages)
        self.endpoint.show = self._show
        self.endpoint.operations = {
            "call": proxies.guarded(self.endpoint, proxies.call),
            "get": proxies.guarded(self.endpoint, proxies.get),
            "method": proxies.guarded(self.endpoint, proxies.method),
            "backward": Graph.backward,
        }
        self._ask("begin", sorted(self.packages), self.limits.output_kib * 1024)

    def _show(self, name: str, text: str) -> None:
        self.shell.outputs.text("stderr" if name == "stderr" else "stdout", text)

    def _ask(self, operation: str, *arguments: Any) -> Any:
        """Send a request of the grader itself; return None if the process has ended."""
        try:
            with self.endpoint.within(self._seconds()):
                return self.endpoint.ask(operation, *arguments)
        except WireError:
            return None

    def _seconds(self) -> float:
        left = self.started + self.limits.seconds - time.monotonic()
        return max(0.0, min(left, self.limits.cell_seconds))

    def _why(self) -> str:
        """Return why the student process ended, and start a new one if possible."""
        dead = self.endpoint.wire.dead
        why = str(dead)
        if isinstance(dead, TooLate):
            why = f"it ran longer than {self.limits.cell_seconds:g} seconds"
        if self._seconds() <= 0:
            self.end = "timeout"
            self.reason = (
                f"your code was stopped: it ran longer than {self.limits.seconds:g} seconds"
            )
            return why
        connection = None
        if self.renew is not None:
            connection, said = self.renew()
            why = said or why
        if connection is not None:
            self._meet(connection)
            for cell, source in self.ran:
                self._ask("run", cell, source, self.numbers[cell])
        else:
            self.end = "timeout" if isinstance(dead, TooLate) else "died"
        what = why[3:] if why.startswith("it ") else f"ended the process: {why}"
        self.reason = self.reason or f"your code {what}"
        return why

    # Cells

    def _cell(self, cell: dict[str, Any]) -> CellOutcome:
        started = time.monotonic()
        if self.endpoint.wire.dead is not None:
            outcome = _failed(cell, f"this cell was not run: {self.reason}")
        elif _is_test(cell) and BESIDE not in cell["metadata"].get("tags", []):
            outcome = self._test(cell)
        else:
            outcome = self._in_student_process(cell)
        seconds = round(time.monotonic() - started, 3)
        return CellOutcome(**{**vars(outcome), "seconds": seconds})

    def _in_student_process(self, cell: dict[str, Any]) -> CellOutcome:
        name, source = cell["id"], _source(cell)
        self.shell.know(name, python_of(source), self.numbers[name])
        answer = self._ask("run", name, source, self.numbers[name])
        if self.endpoint.wire.dead is not None:
            return _failed(cell, f"your code stopped here: {self._why()}")
        self.ran.append((name, source))
        if not _is_instructors(cell):
            bound = cell_names.bound(python_of(source)) & self.answers
            self.students |= bound.union(_of(cell).get("binds", ()))
        if name in self.needed:
            self._in_this_process(name, _instructors_text(cell))
        outputs, failed, value = _checked(answer)
        if not _is_test(cell):
            return CellOutcome(name, outputs, failed)
        points = None if failed or value is None else _points(value, cell)
        return CellOutcome(name, outputs, failed, points, weaker=True)

    def _test(self, cell: dict[str, Any]) -> CellOutcome:
        ran = self._in_this_process(cell["id"], _source(cell))
        if self.endpoint.wire.dead is not None:
            kept = [each for each in ran.outputs if each["output_type"] != "error"]
            said = _failed(cell, f"your code stopped here: {self._why()}")
            return CellOutcome(cell["id"], [*kept, *said.outputs], True)
        failed = ran.error is not None
        points = None
        if not failed and type(ran.value) in (int, float):
            points = _points(ran.value, cell)
        return CellOutcome(cell["id"], ran.outputs, failed, points)

    def _in_this_process(self, name: str, source: str) -> Ran:
        """Run the instructor's text of a cell in this process."""
        python = _python_in(source)
        bound = cell_names.bound(python)
        self.wanted |= cell_names.used(python)
        own = self.ours | self.instructors
        wanted = sorted(self.wanted & self.students | self.wanted - own)
        found = self._ask("names", wanted) if wanted else {}
        space = self.shell.namespace
        for each in wanted:
            space.pop(each, None)
        if isinstance(found, dict):
            space.update({each: found[each] for each in wanted if each in found})
        before = dict(space)
        unset = object()
        seconds = self._seconds()
        with self.endpoint.within(seconds), _alarm(seconds + 5):
            ran = self.shell.run(name, source, self.numbers[name])
        if cell_names.binds_unseen(python):
            bound |= {each for each in space if space[each] is not before.get(each, unset)}
        self.students -= bound
        self.ours |= bound
        return ran


def _python_in(source: str) -> str:
    """Return the Python code of a cell for the analysis of names, without a cell magic."""
    first, _, rest = source.lstrip().partition("\n")
    return python_of(rest if first.split(" ")[0] in _AROUND else source)


def python_of(source: str) -> str:
    """Return the source of a cell with magics translated to Python."""
    try:
        return TransformerManager().transform_cell(source)
    except Exception:
        return source


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Stop a test that does not end, for example because of the student's answers."""

    def ring(*_: Any) -> None:
        raise TimeoutError("this test exceeded its time limit")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return "".join(source) if isinstance(source, list) else source


def _of(cell: dict[str, Any]) -> dict[str, Any]:
    """Return the grader's metadata of a cell."""
    found: dict[str, Any] = cell["metadata"].get(METADATA_KEY, {})
    return found


def _is_instructors(cell: dict[str, Any]) -> bool:
    return bool(_of(cell).get("author") == "instructor")


def _instructors_text(cell: dict[str, Any]) -> str:
    """Return the instructor's text of a cell, even if the student changed it; "" if none."""
    if _is_instructors(cell):
        return _source(cell)
    return str(_of(cell).get("original", ""))


def _is_test(cell: dict[str, Any]) -> bool:
    flags = cell["metadata"].get("nbgrader", {})
    return bool(_is_instructors(cell) and flags.get("grade") and not flags.get("solution"))


def _points(value: float, cell: dict[str, Any]) -> float:
    """Return partial credit, clipped to the range from 0 to the maximum."""
    most = float(cell["metadata"]["nbgrader"].get("points", 0))
    return 0.0 if math.isnan(value) else float(min(max(value, 0), most))


def _failed(cell: dict[str, Any], why: str) -> CellOutcome:
    output = {
        "output_type": "error",
        "ename": "Ended",
        "evalue": why,
        "traceback": [why],
    }
    return CellOutcome(cell["id"], [output], True)


def _checked(answer: Any) -> tuple[list[dict[str, Any]], bool, Any]:
    """Return the well-formed part of the student process's answer on a cell."""
    try:
        outputs, failed, value = answer
        kept = [each for each in outputs if _is_output(each)]
        return kept, bool(failed), value if type(value) in (int, float) else None
    except (TypeError, ValueError):
        return [], True, None


def _is_output(output: Any) -> bool:
    if not isinstance(output, dict):
        return False
    kind = output.get("output_type")
    if kind == "stream":
        return output.get("name") in ("stdout", "stderr") and type(output.get("text")) is str
    if kind == "error":
        return (
            type(output.get("ename")) is str
            and type(output.get("evalue")) is str
            and isinstance(output.get("traceback"), list)
            and all(type(line) is str for line in output["traceback"])
        )
    if kind in ("display_data", "execute_result"):
        return isinstance(output.get("data"), dict) and isinstance(output.get("metadata"), dict)
    return False
