"""Command line of the grader: ``python -m attentively_grader``."""

import argparse
import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attentively_grader.jobs import Limits

if TYPE_CHECKING:
    from attentively_grader.intake.tasks import Options, PoolFactory

NO_SANDBOX = """\
!! --unsafe-no-sandbox: students' code runs on this machine with YOUR rights.
!! It can read and delete your files and change the gradebook. Grade only the work of
!! people whom you trust with this account, or grade in a container for this purpose.
!! The feedback of each notebook that is graded in this way says so.
"""
STOPPED = 130
"""Exit status of an interrupted run."""
INTERRUPTED = "Interrupted. All results so far are kept. To resume, repeat the command."
LEAST_MEMORY = 256
"""Minimum of ``--memory`` in MiB; below it, no submission could run."""
CONFLICTS = (
    ("scheduler", "workers"),
    ("scheduler", "shard"),
    ("shard", "canvas"),
    ("shard", "moodle"),
    ("shard", "feedback_zip"),
    *(("compare", other) for other in ("shard", "canvas", "moodle", "feedback_zip")),
)
"""Pairs of options that cannot be combined."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and grade; return the exit status.

    0: every submission is graded. 1: a submission was set aside or could not be recorded, or the
    solution of an assignment does not earn every automatic point, so its students are not graded.
    2: grading could not start. 130: the run was interrupted; the same command resumes it.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attentively_grader", description="Grade all submissions in submitted/."
    )
    parser.add_argument("assignment", nargs="?", help="one assignment; all by default")
    parser.add_argument(
        "--student",
        action="append",
        default=[],
        metavar="NAME",
        help="grade only this student; repeatable",
    )
    parser.add_argument(
        "--workers",
        type=_positive,
        metavar="N",
        help="notebooks that run in parallel; one per CPU core by default",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run the notebooks on the Dask cluster at this address, e.g. tcp://host:8786",
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="run share I of N of the class and keep the results; record nothing",
    )
    parser.add_argument(
        "--resume", action="store_true", help="accepted for convenience; every run resumes"
    )
    parser.add_argument("--force", action="store_true", help="run again what has not changed")
    parser.add_argument(
        "--even-so",
        action="store_true",
        help="grade an assignment although its solution does not earn every automatic point",
    )
    parser.add_argument(
        "--timeout",
        type=_positive,
        metavar="S",
        default=int(Limits.seconds),
        help="time limit of one notebook in seconds (%(default)s). The limit of one cell is "
        "c.Execute.timeout or, if that is not set, a fifth of S. Below 600 seconds, it is at most "
        "a fifth of S.",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        metavar="MIB",
        default=Limits.memory_mib,
        help=f"memory limit of one notebook in MiB, at least {LEAST_MEMORY} (%(default)s)",
    )
    parser.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="run students' code without a sandbox, with your own rights",
    )
    for kind, name in (("canvas", "Canvas"), ("moodle", "Moodle")):
        parser.add_argument(
            f"--{kind}",
            type=Path,
            metavar="FILE",
            help=f"also write all grades in the import format of {name}",
        )
    parser.add_argument(
        "--feedback-zip",
        type=Path,
        metavar="FILE",
        help="also pack all feedback pages, under the names that Moodle or Canvas gave the "
        "students, to upload them there",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        default=None,
        help="grade with nbgrader's autograde too, print every difference in points, and record "
        "nothing. nbgrader runs students' code WITHOUT isolation, with your rights; this option "
        "confirms that you want that. Exit status 0: equal, 1: different",
    )
    parser.add_argument(
        "--compare-report",
        type=Path,
        metavar="FILE",
        help="with --compare: also write the comparison as JSON",
    )
    parser.add_argument(
        "--course",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="folder that contains nbgrader_config.py; the current one by default",
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version of the package and exit"
    )
    options = parser.parse_args(arguments)
    if options.version:
        print(f"attentively_grader {importlib.metadata.version('attentively')}")
        return 0
    # Imported here, because --help needs no nbgrader, which takes seconds.
    from attentively_grader.course.course import CourseError

    try:
        with _interrupted_by_sigterm():
            return _run(options)
    except KeyboardInterrupt:
        print(f"\n{INTERRUPTED}", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    from attentively_grader.course.course import Course, CourseError

    if sys.platform == "win32":
        raise CourseError("grading needs Linux because of its sandbox. On Windows, run it in WSL")
    for one, other in CONFLICTS:
        if getattr(options, one) is not None and getattr(options, other) is not None:
            option = other.replace("_", "-")
            raise CourseError(f"--{one} and --{option} cannot be combined")
    for kind in ("canvas", "moodle", "feedback_zip", "compare_report"):
        path = getattr(options, kind)
        if path is not None and not path.absolute().parent.is_dir():
            option = kind.replace("_", "-")
            raise CourseError(f"--{option} {path}: the folder {path.parent} does not exist")
    if options.compare_report is not None and not options.compare:
        raise CourseError("--compare-report needs --compare")
    if options.assignment is not None:
        options.assignment = options.assignment.rstrip("/")
    if options.unsafe_no_sandbox:
        print(NO_SANDBOX, file=sys.stderr, flush=True)
    # Imported here, because other systems lack the module for locks.
    if options.compare:
        from attentively_grader.comparison import compare

        return compare(
            options.course,
            options.assignment,
            options.student,
            options=_options(options),
            pool_factory=_pool_factory(options),
            report=options.compare_report,
        )
    from attentively_grader.coordinator import grade
    from attentively_grader.reports import feedback_archive
    from attentively_grader.reports.gradesheets import FORMATS, write

    status = (
        _shard(options)
        if options.shard is not None
        else grade(
            options.course,
            options.assignment,
            options.student,
            options=_options(options),
            pool_factory=_pool_factory(options),
        )
    )
    for kind in FORMATS:
        if (path := getattr(options, kind)) is not None:
            waiting = write(Course(options.course), options.assignment, kind, path)
            note = f" (answers that wait for manual grading and count 0: {waiting})"
            print(f"Grades: {path}{note * bool(waiting)}")
    if (path := options.feedback_zip) is not None:
        number = feedback_archive.write(Course(options.course), options.assignment, path)
        print(f"Feedback pages: {number}, in {path}")
    return status


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that temporary folders are removed."""
    if threading.current_thread() is not threading.main_thread():  # only this one receives signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _options(given: argparse.Namespace) -> "Options":
    from attentively_grader.intake.tasks import Options

    return Options(
        force=given.force,
        seconds=given.timeout,
        memory_mib=given.memory,
        sandboxed=not given.unsafe_no_sandbox,
        even_so=given.even_so,
    )


def _pool_factory(given: argparse.Namespace) -> "PoolFactory":
    if given.scheduler is not None:
        from attentively_grader.workforce import dask_cluster

        return dask_cluster.cluster_factory(given.scheduler, not given.unsafe_no_sandbox)
    from attentively_grader.workforce.local_pool import pool_factory

    return pool_factory(given.workers, not given.unsafe_no_sandbox)


def _shard(given: argparse.Namespace) -> int:
    from attentively_grader import shard
    from attentively_grader.course.course import Course

    course = Course(given.course)
    chosen = course.submissions(given.assignment, given.student)
    part = shard.Shard.parse(given.shard)
    return shard.run(course, chosen, part, _options(given), _pool_factory(given))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive integer")
    return number


def _memory(text: str) -> int:
    number = _positive(text)
    if number < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(
            f"{text} MiB is too little for the libraries; expected at least {LEAST_MEMORY} MiB"
        )
    return number


if __name__ == "__main__":
    sys.exit(main())
