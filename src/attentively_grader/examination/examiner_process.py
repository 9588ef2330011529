"""Entry point of the examiner process, and its connection to the worker that started it."""

import importlib
import os
import pkgutil
import socket
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path

from attentively_grader.jobs import CellOutcome, Job, Outcome
from attentively_grader.sandbox.process_channel import receive, send

SOLUTIONS = "COURSE_SOLUTIONS"
"""The environment variable that names the folder of the instructor's files."""
EXAMINE = "attentively_grader.examination.examiner:examine"


class WorkerConnection:
    """Requests new student processes from the worker, and reports the cells."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line

    def student(self) -> tuple[socket.socket | None, str]:
        """Return a connection to a new student process, and why the last one ended.

        The last one is killed if it still runs. If the job's time is up, there is no new one.
        """
        send(self.line, {"ask": "student"})
        answer, files = receive(self.line)
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return (socket.socket(fileno=files[0]) if files else None), answer["why"]

    def report(self, cell: str, outcome: CellOutcome | None) -> None:
        """Tell the worker that a cell begins, or its outcome."""
        send(self.line, {"at": cell} if outcome is None else {"cell": asdict(outcome)})


def provide(test_files: dict[str, str], folder: Path) -> None:
    """Write the instructor's files into a folder of this process, which `SOLUTIONS` names.

    The variable is set without any files too: tests must not find the files that the student handed
    in, which are in the current folder.
    """
    for name, text in test_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    os.environ[SOLUTIONS] = str(folder)


def prepare_tests(function: str, test_files: dict[str, str]) -> None:
    """In the zygote of the examiner processes: call the course's function with the test files."""
    with tempfile.TemporaryDirectory() as folder:
        provide(test_files, Path(folder))
        pkgutil.resolve_name(function)(Path(folder))


def examine(line: socket.socket) -> None:
    """In the examiner process: receive the job, examine it, return the outcome."""
    message, _ = receive(line)
    try:
        module, _, name = message["examine"].partition(":")
        function = getattr(importlib.import_module(module), name)
        job = Job.from_dict(message["job"], files=Path.cwd())
        pool = WorkerConnection(line)
        before = set(sys.modules)
        connection, _ = pool.student()
        with tempfile.TemporaryDirectory() as folder:
            provide(job.test_files, Path(folder))
            outcome: Outcome = function(job, connection, pool.student, pool.report)
        imported = [name for name in sys.modules if name not in before]
        send(line, {"outcome": outcome.to_dict(), "imported": imported})
    except Exception:
        send(line, {"failed": traceback.format_exc()[-4000:]})
