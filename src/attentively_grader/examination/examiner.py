"""Examine a notebook: student cells run in the student process, tests in this examiner process.

Which cell runs where:

- A cell that the student wrote runs in the student process.
- A cell of the instructor without points runs in the student process too, and its outputs are taken
  from there. If it binds a name that a graded cell uses, directly or through another such cell, or
  may bind names that only its run shows (`exec`, `globals()`), it also runs here. Here it is always
  the instructor's text, even if the student changed or deleted the cell, and its output is
  discarded.
- A demonstration is a cell without points that the course names as such
  (``c.Grading.demonstrations``). It does not run, unless another cell uses a name that it binds.
- A graded cell of the instructor runs here. In it, built-in names and names that the instructor's
  earlier cells have bound are real, and so are the imports of the model solution. A name that the
  instructor binds only later is undefined, even if the student binds it. All other names are the
  student's, and proxies. A name that the model solution binds is the student's from the answer cell
  on, until a cell of the instructor binds it again. The cell earns its points if it raises no
  error, prints nothing on standard error itself, and the student process is still alive. If its
  last expression is a number, it earns this number of points. What it does to the student's names
  is carried across (see `name_changes`).
- A graded cell that is to run next to the student's code (`Job.beside`, or the tag
  ``beside-the-student``) is left out. Afterwards a new student process runs the notebook once more,
  from the top, with this cell in it, as nbgrader does. Of the other graded cells, only those run
  there that bind a name that it uses. Only the points and outputs of this cell are taken, and it is
  marked as weaker.

There is a new examiner process for each notebook, because tests leave state behind.
"""

import builtins
import contextlib
import faulthandler
import functools
import math
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from attentively_grader.course import cell_names
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.examination.name_changes import ABSENT, Change, Key, NameChanges, words
from attentively_grader.examination.notebook_shell import Ran, Shell, file_of
from attentively_grader.examination.output_limits import OutputLimits
from attentively_grader.examination.part_time import PartTime
from attentively_grader.jobs import CellOutcome, End, Job, Outcome
from attentively_grader.wire import proxies
from attentively_grader.wire.endpoint import Endpoint
from attentively_grader.wire.fair_clock import fair_time
from attentively_grader.wire.gradients import Graph
from attentively_grader.wire.messages import Gone, TooLate, Wire, WireError
from attentively_grader.wire.shared_objects import Entry, freeze, frozen_same

BESIDE = "beside-the-student"
_AROUND = ("%%time", "%%capture", "%%prun")
"""Cell magics that run the rest of the cell as Python."""
_TIMED = re.compile(r"^([ \t]*)%(?:time|prun)[ \t]+", re.MULTILINE)
"""Line magics that run the rest of the line as Python."""
_NOT_RUN = {
    "output_type": "stream",
    "name": "stdout",
    "text": "This cell shows what your answers do. It is not run in grading.\n",
}
"""The output of a demonstration."""
_PATIENCE = 10.0
"""Seconds after the alarm of a test until its process is ended."""
_TO_BEGIN = 30.0
"""Seconds in which a new student process must answer; no code of the student has run in it."""
Renew = Callable[[], tuple[socket.socket | None, str]]
"""Return the connection to a new student process, or None, and why the last one ended."""
Report = Callable[[str, CellOutcome | None], None]
"""Called with the id of a cell when it begins, and again with its outcome."""


def examine(
    job: Job,
    connection: socket.socket,
    renew: Renew | None = None,
    report: Report = lambda cell, outcome: None,
) -> Outcome:
    """Run one notebook and return its outcome."""
    return _Examination(job, connection, renew, report).outcome()


class _Endpoint(Endpoint):
    """The examiner's end; it keeps the names at both ends the same."""

    before: Callable[[], None] | None = None
    """Called before each request of a test."""
    after: Callable[[], None] | None = None
    """Called after each request of a test that ran code of the student."""

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Request an operation of the other end; return its result or raise its error."""
        with self._turn:
            if self.before is not None:
                self.before()
            try:
                return super().ask(operation, *arguments)
            finally:
                if self.after is not None and operation in ("call", "method"):
                    self.after()


class _Examination:
    def __init__(
        self, job: Job, connection: socket.socket, renew: Renew | None, report: Report
    ) -> None:
        self.job = job
        self.limits = job.limits
        self.renew = renew
        self.report = report
        self.cells = [c for c in job.notebook["cells"] if c["cell_type"] == "code"]
        self.numbers = {cell["id"]: number for number, cell in enumerate(self.cells, start=1)}
        """The numbers of the code cells in tracebacks, in both processes."""
        self.beside = {
            cell["id"]
            for cell in self.cells
            if _is_test(cell)
            and (cell["id"] in job.beside or BESIDE in cell["metadata"].get("tags", []))
        }
        """The graded cells that run next to the student's code."""
        tests = sum(map(_is_test, self.cells))
        self.time = PartTime(self.limits, tests)
        self.output_limits = OutputLimits(self.limits)
        self.packages = self._packages()
        self.needed = self._needed()
        self.left_out = self._left_out()
        self.shell = Shell(self.limits.output_kib * 1024, everywhere=True)
        self.shell.hide_lines_of_warnings()
        self.answers = {name for cell in self.cells for name in _of(cell).get("binds", ())}
        """Names that a model solution binds, so the student must bind them."""
        self.instructors = {
            name
            for cell in self.cells
            for name in cell_names.bound(_python_in(_instructors_text(cell)))
        } - self.answers
        """Names that any cell of the instructor binds; they are never the student's."""
        self.read = {name for cell in self.cells for name in _read(cell)}
        """Global names that functions of the instructor's text read in the student process."""
        self.ours = {*vars(builtins), *self.shell.namespace}
        """Names that are real here: built-in names, and those bound by the instructor's cells."""
        self.students: set[str] = set()
        """The names in `answers` that the student bound last."""
        self.wanted: set[str] = set()
        """Names that the cells run here use."""
        self.before: dict[str, Any] = {}
        """The names as the present cell found them, or as the student's code has changed them."""
        self.ran: dict[str, tuple[str, float]] = {}
        """The cells that the student process has run, with their source and time."""
        self.deadly: set[str] = set()
        """The cells that ended a student process; they are not run again."""
        self.repeated = True
        """Whether the student process has run all cells in `ran`."""
        self.given: dict[Key, Entry] = {}
        """The objects that replace names in the student process."""
        self.changes = NameChanges(self.shell.namespace, self._tell)
        self.own_classes: dict[str, type] = {}
        """The classes that the instructor's cells define, by name."""
        self.cells_of_classes: dict[str, str] = {}
        """The cell that defines each of them."""
        self.returned: dict[str, list[str]] = {}
        self.reason = ""
        self.end: End = "complete"
        self.files: set[str] = set()
        """The names of the cells whose source a student's traceback may show."""
        self._meet(connection)

    def outcome(self) -> Outcome:
        """Run every cell."""
        all_beside = all(cell["id"] in self.beside for cell in self.cells if _is_test(cell))
        outcomes: dict[str, CellOutcome] = {}
        for cell in self.cells:
            if all_beside or cell["id"] not in self.beside:
                outcomes[cell["id"]] = self._cell(cell)
        if self.beside and not all_beside:
            outcomes |= self._beside()
        self._note_returned()
        self.endpoint.wire.close()
        seconds = time.monotonic() - self.time.started
        ordered = [outcomes[cell["id"]] for cell in self.cells]
        return Outcome(ordered, self.end, self.reason, seconds, returned=self.returned)

    def _beside(self) -> dict[str, CellOutcome]:
        """Run the notebook in a new student process, for the graded cells that belong there."""
        self._next_process()
        self.ran = {}
        included = self._included()
        found = {}
        for cell in self.cells:
            name = cell["id"]
            if name in self.beside:
                found[name] = self._cell(cell)
            elif (name in included or not _is_test(cell)) and name not in self.deadly:
                self._cell(cell, final=False)
        return found

    def _included(self) -> set[str]:
        """Return the ids of the other graded cells that bind what a cell of `beside` uses."""
        wanted: set[str] = set()
        included: set[str] = set()
        for cell in reversed(self.cells):
            source = _python_in(_source(cell))
            if cell["id"] in self.beside or cell_names.bound(source) & wanted:
                wanted -= cell_names.surely_bound(source)
                wanted |= cell_names.needed(source)
                if cell["id"] not in self.beside:
                    included.add(cell["id"])
        return included

    # Analysis of the notebook

    def _packages(self) -> frozenset[str]:
        """Return the packages that the instructor's cells import, except the standard library."""
        found: set[str] = set()
        for cell in self.cells:
            found |= cell_names.imported(python_of(_instructors_text(cell)))
            found |= cell_names.imported("\n".join(_of(cell).get("imports", ())))
        return frozenset(found - sys.stdlib_module_names - {"attentively_grader"})

    def _needed(self) -> set[str]:
        """Return the ids of the instructor's cells without points that graded cells depend on."""
        wanted: set[str] = set()
        needed: set[str] = set()
        sources = {cell["id"]: _python_in(_instructors_text(cell)) for cell in self.cells}
        unseen = {
            name
            for source in sources.values()
            if cell_names.binds_unseen(source)
            for name in cell_names.bound(source)
        }
        """Names of functions, among others, that may bind further names when they are called."""
        tests_follow = False
        for cell in reversed(self.cells):
            source = sources[cell["id"]]
            used = cell_names.used(source)
            if _is_test(cell):
                tests_follow = True
                wanted |= used | words(source)
            elif tests_follow and (
                cell_names.bound(source) & wanted
                or cell_names.binds_unseen(source)
                or used & unseen
            ):
                wanted |= used
                needed.add(cell["id"])
        return needed

    def _left_out(self) -> set[str]:
        """Return the ids of the demonstrations that bind no name that another cell uses."""
        sources = {cell["id"]: _python_in(_source(cell)) for cell in self.cells}
        left_out = {
            cell["id"]
            for cell in self.cells
            if _is_instructors(cell) and _of(cell).get("demonstration")
        } - self.needed
        while left_out:
            others = sources.keys() - left_out
            used = set().union(*(cell_names.used(sources[name]) for name in others))
            needed = {name for name in left_out if cell_names.bound(sources[name]) & used}
            if not needed:
                break
            left_out -= needed
        return left_out

    # The student process

    def _meet(self, connection: socket.socket) -> None:
        wire = Wire(connection, self.limits.wire_mib * 2**20)
        self.endpoint = _Endpoint(wire, trusted=True, known_packages=self.packages)
        self.endpoint.expected = self.job.returned
        self.endpoint.recording = self.job.solution
        self.endpoint.files = self.files
        self.endpoint.show = self._show
        self.endpoint.operations = {
            "call": proxies.guarded(self.endpoint, proxies.call),
            "get": proxies.guarded(self.endpoint, proxies.get),
            "method": proxies.guarded(self.endpoint, proxies.method),
            "set": proxies.refuse_change,
            "delete": proxies.refuse_change,
            "backward": Graph.backward,
        }
        self.endpoint.own_classes = self.own_classes
        self.endpoint.secret = "\0".join(map(_instructors_text, self.cells)).encode()
        text = self.limits.output_kib * 1024
        self._ask("begin", sorted(self.packages), text, seconds=_TO_BEGIN)

    def _alive(self) -> bool:
        return self.endpoint.wire.dead is None

    def _show(self, name: str, text: str) -> None:
        """Print text of the student process where the test prints now.

        On the page, its standard error appears as output: warnings of an answer cost no points.
        """
        stream = sys.stderr if name == "stderr" else sys.stdout
        if name == "stderr" and self.shell.collects(stream):
            self.shell.outputs.text("stdout", text)
            return
        with contextlib.suppress(Exception):  # a stream of the test that is closed, for example
            stream.write(text)

    def _ask(self, operation: str, *arguments: Any, seconds: float | None = None) -> Any:
        """Send a request of the grader itself; return None if the process has ended."""
        most = self.time.of_cell() if seconds is None else seconds
        wall = self.time.left() if seconds is None else math.inf
        try:
            with self.endpoint.within(most, wall):
                return Endpoint.ask(self.endpoint, operation, *arguments)
        except WireError:
            return None

    def _tell(self, change: Change) -> None:
        """Send a change; an object in it may be used until the next change of the name."""
        Endpoint.ask(self.endpoint, "change", *change)
        table = self.endpoint.table
        before = self.given.pop(change[:2], None)
        if before is not None:
            before.ended = True
        number = table.name_of(change[3])
        if number is not None:
            self.given[change[:2]] = table.entries[number]
            table.entries[number].ended = False

    def _note_returned(self) -> None:
        """Keep what the endpoint recorded of the values that calls returned."""
        for call, kinds in getattr(self.endpoint, "returned", {}).items():
            known = self.returned.setdefault(call, [])
            known += [kind for kind in kinds if kind not in known]

    def _why(self, cell: dict[str, Any]) -> str:
        """Return why the student process ended in this cell, and start a new one if possible."""
        self.deadly.add(cell["id"])
        self.ran.pop(cell["id"], None)
        dead = self.endpoint.wire.dead
        why = str(dead)
        if isinstance(dead, TooLate):
            why = f"it ran longer than {self.limits.cell_seconds:g} seconds"
            if self.time.left() <= 0:
                why = "it used up the time of this part of the notebook"
        ended = self._next_process()
        if isinstance(dead, Gone):  # otherwise the connection was closed from this end
            why = ended or why
        if not self._alive():
            self.end = "timeout" if isinstance(dead, TooLate) else "died"
        what = why[3:] if why.startswith("it ") else f"ended the process: {why}"
        self.reason = self.reason or f"your code {what}"
        return why

    def _next_process(self) -> str:
        """Start a new student process if possible; return why the last one ended."""
        self._note_returned()
        connection, why = None, ""
        if self.renew is not None:
            connection, why = self.renew()
        self.endpoint.wire.close()
        if connection is not None:
            self._meet(connection)
            self.given.clear()
            self.repeated = False
        return why

    def _repeat(self) -> None:
        """Run the earlier cells in a new student process, as far as the time for this permits.

        A cell that takes longer than the remaining time for repetitions is left out.
        """
        while not self.repeated and self._alive():
            self.repeated = True
            for cell, (source, seconds) in list(self.ran.items()):
                if seconds > min(self.time.again, self.time.left()):
                    continue
                started = time.monotonic()
                most = min(2 * seconds + 5, self.time.left())
                self._ask("run", cell, source, self.numbers[cell], seconds=most)
                self._ask_classes(cell)
                self.time.again -= time.monotonic() - started
                if not self._alive():
                    self.ran.pop(cell)
                    self._next_process()
                    break
        self.changes.repeat()

    # Cells

    def _cell(self, cell: dict[str, Any], final: bool = True) -> CellOutcome:
        """Run a cell; with `final`, its outcome is reported and counts."""
        started = time.monotonic()
        name = cell["id"]
        self.report(name, None)
        if not self.repeated and self.time.left() > 0:
            self._repeat()
        if name in self.left_out:
            outcome = CellOutcome(name, [_NOT_RUN])
        elif name in self.job.ended:
            outcome = _failed(cell, self.job.ended[name])
        elif self.time.left() <= 0:
            self.end = "timeout"
            self.reason = self.reason or (
                "your code used up the time of a part of the notebook, which has "
                f"{self.limits.seconds:g} seconds for all of them"
            )
            outcome = _failed(cell, "this cell was not run: the time of this part is used up")
        elif not self._alive():
            outcome = _failed(cell, f"this cell was not run: {self.reason}")
        elif _is_test(cell) and name not in self.beside and final:
            outcome = self._test(cell)
        else:
            outcome = self._in_student_process(cell, started)
        if not final:
            return outcome
        if _is_test(cell):
            self.time.next()
        outcome = replace(
            outcome,
            outputs=self.output_limits.allowed(outcome.outputs),
            weaker=name in self.beside,
            seconds=round(time.monotonic() - started, 3),
        )
        self.report(name, outcome)
        return outcome

    def _in_student_process(self, cell: dict[str, Any], started: float) -> CellOutcome:
        name, source = cell["id"], _source(cell)
        self.shell.know(name, python_of(source), self.numbers[name])
        if not _is_test(cell):
            self.files.add(file_of(name))
        answer = self._ask("run", name, source, self.numbers[name])
        if not self._alive():
            return _failed(cell, f"your code stopped here: {self._why(cell)}")
        self.ran[name] = source, time.monotonic() - started
        if not _is_instructors(cell):
            bound = cell_names.bound(python_of(source)) & self.answers
            bound = bound.union(_of(cell).get("binds", ()))
            self.students |= bound
            self.changes.forget(bound)
            self._import_for(cell)
        if name in self.needed:
            self._in_this_process(name, _instructors_text(cell))
            if _is_instructors(cell):
                self._note_classes(cell)
        outputs, failed, value = _checked(answer)
        if not _is_test(cell):
            return CellOutcome(name, outputs, failed)
        points = None if failed or value is None else _points(value, cell)
        return CellOutcome(name, outputs, failed, points)

    def _note_classes(self, cell: dict[str, Any]) -> None:
        """Note the classes that a cell of the instructor has defined in both processes."""
        for name in cell_names.bound(_python_in(_source(cell))) - self.answers:
            value = self.shell.namespace.get(name)
            if isinstance(value, type) and value.__module__ == "__main__":
                self.own_classes[name] = value
                self.cells_of_classes[name] = cell["id"]
        self._ask_classes(cell["id"])

    def _ask_classes(self, cell: str) -> None:
        """Let the student process note its classes of a cell."""
        names = [name for name, each in self.cells_of_classes.items() if each == cell]
        if names:
            self._ask("classes", names)

    def _import_for(self, cell: dict[str, Any]) -> None:
        """Import here what the model solution of an answer cell imports."""
        for statement in _of(cell).get("imports", ()):
            names = cell_names.bound(statement)
            if names <= self.ours or names & self.answers:
                continue
            with contextlib.suppress(Exception):  # not installed here, so the solution fails too
                exec(statement, self.shell.namespace)
                self.ours |= names

    def _test(self, cell: dict[str, Any]) -> CellOutcome:
        self.endpoint.ignored.clear()
        self.endpoint.refused.clear()
        ran = self._in_this_process(cell["id"], _source(cell), test=True)
        if self._alive() and ran.error is None and self.endpoint.ignored:
            ran = self._again_with_changes(cell, ran)
        if not self._alive():
            kept = [each for each in ran.outputs if each["output_type"] != "error"]
            said = _failed(cell, f"your code stopped here: {self._why(cell)}")
            return CellOutcome(cell["id"], [*kept, *said.outputs], True)
        if ran.error is None and self.endpoint.refused:
            said = _failed(cell, self.endpoint.refused[0], "UnexpectedValue")
            return CellOutcome(cell["id"], [*ran.outputs, *said.outputs], True)
        told = [each for each in ran.outputs if each.get("name") == "stderr"]
        failed = ran.error is not None or bool(told)  # some tests only print their failures
        points = None
        if not failed and type(ran.value) in (int, float):
            points = _points(ran.value, cell)
        return CellOutcome(cell["id"], ran.outputs, failed, points)

    def _again_with_changes(self, cell: dict[str, Any], first: Ran) -> Ran:
        """Run a test again after the student's code changed arguments that the solution does not.

        The first run ignored these changes, so that they could not alter what the test expects. In
        the second run they reach the test, which may forbid them. The test must pass both times. If
        it fails the second time, a new process repeats the cells before it, and its run counts.
        """
        with self.endpoint.following_changes():
            ran = self._in_this_process(cell["id"], _source(cell), test=True)
        if self._alive() and ran.error is not None and self.renew is not None:
            # The first run may have changed the student's global state; a new process has not.
            self._next_process()
            self._repeat()
            if self._alive():
                with self.endpoint.following_changes():
                    ran = self._in_this_process(cell["id"], _source(cell), test=True)
        credits = [each.value for each in (first, ran) if type(each.value) in (int, float)]
        ran.value = min(credits, default=None)
        return ran

    def _in_this_process(self, name: str, source: str, test: bool = False) -> Ran:
        """Run the instructor's text of a cell in this process."""
        python = _python_in(source)
        bound = cell_names.bound(python)
        used = cell_names.used(python) | words(python)
        self.wanted |= used
        own = self.ours | self.instructors
        wanted = self.wanted & self.students | self.wanted - own
        found = self._fetch(wanted)
        self.before = before = dict(self.shell.namespace)
        seconds, wall = self.time.of_cell(), self.time.left()
        with (
            self.endpoint.within(seconds, wall),
            _alarm(seconds, wall),
            self._carrying(python, wanted & used) if test else contextlib.nullcontext(),
        ):
            ran = self.shell.run(name, source, self.numbers[name])
        space = self.shell.namespace
        if not test or cell_names.binds_unseen(python):
            bound |= {each for each in space if space[each] is not before.get(each, ABSENT)}
        # A name that a test has restored, or deleted, is still the student's.
        bound -= {
            each for each in found if each not in space or space[each] is before.get(each, ABSENT)
        }
        self.students -= bound
        self.ours |= bound
        return ran

    def _fetch(self, wanted: set[str]) -> set[str]:
        """Set these names to their values in the student process; return those that exist."""
        space = self.shell.namespace
        wanted -= {name for name in wanted if self.changes.is_changed(name)}
        found = self._ask("names", sorted(wanted)) if wanted else {}
        for each in wanted:
            space.pop(each, None)
        if not isinstance(found, dict):
            return set()
        kept = {name: found[name] for name in wanted if name in found}
        space.update(kept)
        return set(kept)

    @contextlib.contextmanager
    def _carrying(self, source: str, used: set[str]) -> Iterator[None]:
        """Keep the names of both processes the same while a test runs."""
        space = self.shell.namespace
        refreshed = sorted(name for name in used if not _is_proxy(space.get(name)))
        self.changes.begin(self.read, used, source)
        busy = False

        def before() -> None:
            nonlocal busy
            if not busy:
                busy = True
                try:
                    self.changes.send()
                finally:
                    busy = False

        def after() -> None:
            names = {name for name in refreshed if not self.changes.is_changed(name)}
            if names and not busy and self._alive():
                self._refresh(names)

        self.endpoint.before = before
        self.endpoint.after = after if refreshed else None
        try:
            yield
            if self._alive():
                with contextlib.suppress(WireError):
                    before()
        finally:
            self.endpoint.before = self.endpoint.after = None

    def _refresh(self, names: set[str]) -> None:
        """Set plain values again if the student's code has changed them."""
        space = self.shell.namespace
        found = Endpoint.ask(self.endpoint, "names", sorted(names))
        for name in names:
            if not isinstance(found, dict) or name not in found:
                space.pop(name, None)
                self.before.pop(name, None)
            elif name not in space or not frozen_same(freeze(found[name]), freeze(space[name])):
                space[name] = self.before[name] = found[name]
            else:
                continue
            self.changes.knows(name, space.get(name, ABSENT))


def _is_proxy(value: Any) -> bool:
    return (
        isinstance(value, proxies.RemoteFunction)
        or isinstance(type(value), proxies.RemoteType)
        or isinstance(value, proxies.RemoteType)
    )


def _read(cell: dict[str, Any]) -> set[str]:
    """Return the global names that functions of the instructor read in the student process."""
    source = "" if _is_test(cell) else python_of(_instructors_text(cell))
    return cell_names.read_by_functions(source).union(_of(cell).get("reads", ()))


def _python_in(source: str) -> str:
    """Return the Python code of a cell for the analysis of names, without a cell magic."""
    source = _TIMED.sub(r"\1", source)
    first, _, rest = source.lstrip().partition("\n")
    magic, *options = first.split()[:2] or [""]
    if magic not in _AROUND:
        return python_of(source)
    captured = [
        f"\n{name} = None" for name in options if magic == "%%capture" and name.isidentifier()
    ]
    return python_of(rest) + "".join(captured)


@functools.lru_cache(maxsize=500)
def python_of(source: str) -> str:
    """Return the source of a cell with magics translated to Python.

    IPython takes seconds for hundreds of magics, so the result is kept.
    """
    try:
        return TransformerManager().transform_cell(source)
    except Exception:
        return source


@contextlib.contextmanager
def _alarm(seconds: float, wall: float) -> Iterator[None]:
    """Stop a test that does not end, for example because of the student's answers.

    If it does not react to the alarm, its process ends, and the test is not run again.
    """

    until, end = fair_time() + seconds, time.monotonic() + wall

    def ring(*_: Any) -> None:
        if fair_time() >= until or time.monotonic() >= end:
            raise TimeoutError("this test exceeded its time limit")
        faulthandler.dump_traceback_later(5 + _PATIENCE, exit=True, file=nowhere)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds + 5, 5)
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(seconds + 5 + _PATIENCE, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()
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


def _failed(cell: dict[str, Any], why: str, name: str = "Ended") -> CellOutcome:
    output = {
        "output_type": "error",
        "ename": name,
        "evalue": why,
        "traceback": [why],
    }
    return CellOutcome(cell["id"], [output], True)


def _checked(answer: Any) -> tuple[list[Any], bool, Any]:
    """Return the parts of the student process's answer on a cell."""
    try:
        outputs, failed, value = answer
    except (TypeError, ValueError):
        return [], True, None
    return outputs, bool(failed), value if type(value) in (int, float) else None
