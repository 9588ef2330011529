"""Examine a notebook: the student's cells run over there, the instructor's tests here.

Which cell runs where:

- A cell that the student wrote runs in the student's process.
- An instructor's cell without points runs there too, and what it shows is taken from there. If it
  binds a name that a graded cell uses, by itself or through another such cell, it also runs here,
  where its own output counts for nothing: as the instructor wrote it, even if the student has
  changed it over there, or taken it out.
- An instructor's graded cell runs here. What an instructor's cell has bound is real in it, and so
  is what is Python's own; what one of them binds only later is not there yet, whatever the student
  calls by that name. All other names are the student's, and proxies; so is a name that a model
  solution binds, from the student's answer to it on until an instructor's cell binds it again. The
  cell earns its points if it ends without an error and the student's process is still there; a
  number as its last expression is what it earns.
- With the tag ``beside-the-student`` a graded cell runs in the student's process, and is said to
  be weaker for it.

This process is made for one notebook and ends with it: tests leave state behind.
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
"""Magics that run a cell's Python in the notebook."""
Renew = Callable[[], tuple[socket.socket | None, str]]
"""Return the connection to a new student's process, if there can be one, and why the last ended."""


def examine(job: Job, connection: socket.socket, renew: Renew | None = None) -> Outcome:
    """Run one notebook and return what came of it."""
    return _Examination(job, connection, renew).outcome()


class _Examination:
    def __init__(self, job: Job, connection: socket.socket, renew: Renew | None) -> None:
        self.job = job
        self.limits = job.limits
        self.renew = renew
        self.started = time.monotonic()
        self.cells = [c for c in job.notebook["cells"] if c["cell_type"] == "code"]
        self.numbers = {cell["id"]: number for number, cell in enumerate(self.cells, start=1)}
        """What tracebacks call the cells, on both sides: their place among those with code."""
        self.packages = self._packages()
        self.needed = self._needed()
        self.shell = Shell(self.limits.output_kib * 1024, everywhere=True)
        self.answers = {name for cell in self.cells for name in _of(cell).get("binds", ())}
        """Names that a model solution binds: they are the student's to bind."""
        self.instructors = {
            name
            for cell in self.cells
            for name in cell_names.bound(_python_in(_instructors_text(cell)))
        } - self.answers
        """Names that an instructor's cell binds somewhere: none of them is ever the student's."""
        self.ours = {*vars(builtins), *self.shell.namespace}
        """Names that are real here: Python's own, and those that an instructor's cell bound."""
        self.students: set[str] = set()
        """Of `answers`, those that the student bound last."""
        self.wanted: set[str] = set()
        """Names that cells which ran here use."""
        self.ran: list[tuple[str, str]] = []
        """What the student's process has run, to be run again in a new one."""
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

    # What the notebook says

    def _packages(self) -> frozenset[str]:
        """Return the packages that the instructor's cells import, but for Python's own."""
        found: set[str] = set()
        for cell in self.cells:
            found |= cell_names.imported(python_of(_instructors_text(cell)))
        return frozenset(found - sys.stdlib_module_names - {"attentively_grader"})

    def _needed(self) -> set[str]:
        """Return the ids of the instructor's cells without points that graded ones rest on."""
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

    # The student's process

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
        """Ask for what the grader itself needs; None if the process is gone."""
        try:
            with self.endpoint.within(self._seconds()):
                return self.endpoint.ask(operation, *arguments)
        except WireError:
            return None

    def _seconds(self) -> float:
        left = self.started + self.limits.seconds - time.monotonic()
        return max(0.0, min(left, self.limits.cell_seconds))

    def _why(self) -> str:
        """Say why the student's process is gone, and begin a new one where that is possible."""
        dead = self.endpoint.wire.dead
        why = str(dead)
        if isinstance(dead, TooLate):
            why = f"it took longer than {self.limits.cell_seconds:g} seconds"
        if self._seconds() <= 0:
            self.end = "timeout"
            self.reason = (
                f"your code was ended: it ran for more than {self.limits.seconds:g} seconds"
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
            outcome = _failed(cell, f"not run: {self.reason}")
        elif _is_test(cell) and BESIDE not in cell["metadata"].get("tags", []):
            outcome = self._test(cell)
        else:
            outcome = self._over_there(cell)
        seconds = round(time.monotonic() - started, 3)
        return CellOutcome(**{**vars(outcome), "seconds": seconds})

    def _over_there(self, cell: dict[str, Any]) -> CellOutcome:
        name, source = cell["id"], _source(cell)
        self.shell.know(name, python_of(source), self.numbers[name])
        answer = self._ask("run", name, source, self.numbers[name])
        if self.endpoint.wire.dead is not None:
            return _failed(cell, f"your code ended here: {self._why()}")
        self.ran.append((name, source))
        if not _is_instructors(cell):
            bound = cell_names.bound(python_of(source)) & self.answers
            self.students |= bound.union(_of(cell).get("binds", ()))
        if name in self.needed:
            self._here(name, _instructors_text(cell))
        outputs, failed, value = _checked(answer)
        if not _is_test(cell):
            return CellOutcome(name, outputs, failed)
        points = None if failed or value is None else _points(value, cell)
        return CellOutcome(name, outputs, failed, points, weaker=True)

    def _test(self, cell: dict[str, Any]) -> CellOutcome:
        ran = self._here(cell["id"], _source(cell))
        if self.endpoint.wire.dead is not None:
            kept = [each for each in ran.outputs if each["output_type"] != "error"]
            said = _failed(cell, f"your code ended here: {self._why()}")
            return CellOutcome(cell["id"], [*kept, *said.outputs], True)
        failed = ran.error is not None
        points = None
        if not failed and type(ran.value) in (int, float):
            points = _points(ran.value, cell)
        return CellOutcome(cell["id"], ran.outputs, failed, points)

    def _here(self, name: str, source: str) -> Ran:
        """Run what the instructor wrote in this process."""
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
    """Return the Python of a cell to look for names in, without a magic around all of it."""
    first, _, rest = source.lstrip().partition("\n")
    return python_of(rest if first.split(" ")[0] in _AROUND else source)


def python_of(source: str) -> str:
    """Return a cell's source with magics turned into Python."""
    try:
        return TransformerManager().transform_cell(source)
    except Exception:
        return source


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End a test that itself does not end, be it by what the student's code answers."""

    def ring(*_: Any) -> None:
        raise TimeoutError("this test took too long")

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
    """Return what was noted of a cell when it was merged."""
    found: dict[str, Any] = cell["metadata"].get(METADATA_KEY, {})
    return found


def _is_instructors(cell: dict[str, Any]) -> bool:
    return bool(_of(cell).get("author") == "instructor")


def _instructors_text(cell: dict[str, Any]) -> str:
    """Return what the instructor wrote there, be it changed by the student; "" if nothing."""
    if _is_instructors(cell):
        return _source(cell)
    return str(_of(cell).get("original", ""))


def _is_test(cell: dict[str, Any]) -> bool:
    flags = cell["metadata"].get("nbgrader", {})
    return bool(_is_instructors(cell) and flags.get("grade") and not flags.get("solution"))


def _points(value: float, cell: dict[str, Any]) -> float:
    """Return partial credit, between nothing and all."""
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
    """Return what the student's process says of a cell, as far as it is well-formed."""
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
