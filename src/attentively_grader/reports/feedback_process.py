"""Render feedback pages in a separate process, in parallel with grading.

A student can write text that takes extremely long to render. Therefore the process has a time
limit per page and a memory limit. A page that exceeds the time limit is missing; a page on which
the process ends is rendered a second time by a new process, and is missing if that one ends too.
The grades are not affected.
"""

import contextlib
import multiprocessing
import signal
import sys
import threading
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from attentively_grader.course.course import Course, CourseError, Submission

SECONDS = 60.0
FIRST_SECONDS = 180.0
"""Time limit of the first page, which includes the import of nbgrader."""
MEMORY = 4 * 2**30


class Pages:
    """Renders pages in the order of the requests; use it in a ``with`` statement."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.waiting: deque[Submission] = deque()
        self.missed: dict[Submission, str] = {}
        self._process: multiprocessing.process.BaseProcess | None = None
        self._line: Connection | None = None
        self._seconds = FIRST_SECONDS
        self._started = False
        self._repeated = False
        """Whether a process has already ended on the first waiting page."""

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.finish()
        self._end()

    def ask(self, submission: Submission) -> None:
        """Request a page; it is rendered after those requested before."""
        self.waiting.append(submission)
        self.look()

    def look(self, wait: bool = False) -> None:
        """Collect the result of a page that is done, and start the next one."""
        if self._started and self._line is not None:
            if not self._line.poll(self._seconds if wait else 0):
                if wait:
                    self._miss(f"the page took longer than {self._seconds:.0f} s")
                return
            try:
                complaint = self._line.recv()
            except (EOFError, OSError):
                self._process_ended()
                return
            submission = self.waiting.popleft()
            self._started, self._repeated, self._seconds = False, False, SECONDS
            if complaint:
                self.missed[submission] = complaint
        if self.waiting and not self._started:
            if self._line is None:
                self._begin()
            assert self._line is not None
            with contextlib.suppress(OSError):
                self._line.send(self.waiting[0])
            self._started = True

    def finish(self) -> None:
        """Wait until every page is rendered or has failed."""
        while self.waiting:
            self.look(wait=True)

    def _begin(self) -> None:
        # A fork starts with everything imported, but only a process with one thread may fork.
        alone = sys.platform == "linux" and threading.active_count() == 1
        self._line, theirs = multiprocessing.Pipe()
        arguments = (self.root, theirs, self._line if alone else None)
        if alone:
            context = multiprocessing.get_context("fork")
            self._process = context.Process(target=_serve, args=arguments, daemon=True)
        else:
            new = multiprocessing.get_context("spawn")
            self._process = new.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        self._seconds = FIRST_SECONDS
        theirs.close()

    def _process_ended(self) -> None:
        if self._repeated:
            self._miss("rendering the page ended the process twice (too little memory?)")
        else:
            self._repeated, self._started = True, False
            self._end()

    def _miss(self, why: str) -> None:
        self.missed[self.waiting.popleft()] = why
        self._started = self._repeated = False
        self._end()

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._line = None


def _serve(root: Path, line: Connection, other_end: Connection | None) -> None:
    """In the process: render the requested pages; answer with an error message or an empty text."""
    if other_end is not None:
        other_end.close()  # otherwise this process would not notice that grading has ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from attentively_grader.reports.feedback import Renderer

    renderer: Renderer | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            submission = line.recv()
            try:
                renderer = renderer or Renderer(Course(root))
                renderer.render(submission)
                line.send("")
            except CourseError as error:
                line.send(str(error))
            except Exception as error:
                line.send(f"{type(error).__name__}: {str(error)[:200]}")
