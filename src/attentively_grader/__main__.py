"""``python -m attentively_grader``: grade submitted/ into the gradebook."""

import argparse
import importlib.metadata
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attentively_grader.course.course import Course, CourseError
from attentively_grader.intake.tasks import Options, PoolFactory
from attentively_grader.jobs import Limits
from attentively_grader.workforce.local_pool import pool_factory

NO_SANDBOX = """\
!! --unsafe-no-sandbox: the students' code runs on this machine with YOUR rights.
!! It can read and delete your files and change the gradebook. Grade only the work of
!! people whom you would let use this account, or grade in a container made for it.
!! Each notebook that is graded so carries a note of it.
"""
STOPPED = 130
"""The exit status of a run that was stopped."""
LEAST_MEMORY = 256
"""In MiB: what no submission could do with less than."""
CONFLICTS = (
    ("scheduler", "workers"),
    ("scheduler", "shard"),
    ("shard", "canvas"),
    ("shard", "moodle"),
)
"""Options that make no sense together."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and grade; return the exit status.

    0: all is graded. 1: something was set aside, or could not be recorded. 2: there was nothing
    to do it with. 130: it was stopped, and the same command goes on.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attentively_grader", description="Grade what was submitted."
    )
    parser.add_argument("assignment", nargs="?", help="one of them; all by default")
    parser.add_argument(
        "--student", action="append", default=[], metavar="NAME", help="only this one; repeatable"
    )
    parser.add_argument(
        "--workers", type=_positive, metavar="N", help="notebooks at once; one a core, by default"
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a Dask cluster that is to run the notebooks: tcp://host:8786",
    )
    parser.add_argument(
        "--shard",
        metavar="I/N",
        help="run the I-th of N shares of the class, keep the results, record nothing",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a run that was stopped: always so"
    )
    parser.add_argument(
        "--force", action="store_true", help="grade again what has not changed since it was graded"
    )
    parser.add_argument(
        "--timeout",
        type=_positive,
        metavar="S",
        default=int(Limits.seconds),
        help="seconds for one notebook (%(default)s); one cell has what c.Execute.timeout says, "
        "or a fifth of this, and below 600 never more than a fifth",
    )
    parser.add_argument(
        "--memory",
        type=_memory,
        metavar="MIB",
        default=Limits.memory_mib,
        help="memory for one notebook, in MiB (%(default)s)",
    )
    parser.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="run the students' code with your own rights, where there is no sandbox",
    )
    for kind, name in (("canvas", "Canvas"), ("moodle", "Moodle")):
        parser.add_argument(
            f"--{kind}",
            type=Path,
            metavar="FILE",
            help=f"also write all grades as {name} imports them",
        )
    parser.add_argument(
        "--course", type=Path, default=Path(), metavar="FOLDER", help="where nbgrader_config.py is"
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version of the package and exit"
    )
    options = parser.parse_args(arguments)
    if options.version:
        print(f"attentively_grader {importlib.metadata.version('attentively')}")
        return 0
    try:
        with _ended_as_stopped():
            return _run(options)
    except KeyboardInterrupt:
        print("\nstopped; what was run is kept: the same command goes on", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:  # who reads the output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if sys.platform == "win32":
        raise CourseError("grading needs Linux, for its sandbox: use it in WSL")
    for one, other in CONFLICTS:
        if getattr(options, one) is not None and getattr(options, other) is not None:
            raise CourseError(f"--{one} and --{other} do not go together")
    for kind in ("canvas", "moodle"):
        path = getattr(options, kind)
        if path is not None and not path.absolute().parent.is_dir():
            raise CourseError(f"--{kind} {path}: there is no folder {path.parent}")
    if options.assignment is not None:
        options.assignment = options.assignment.rstrip("/")
    if options.unsafe_no_sandbox:
        print(NO_SANDBOX, file=sys.stderr, flush=True)
    # Here, because other systems lack what it locks with.
    from attentively_grader.coordinator import grade
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
            note = f"; answers that are yet to be graded by hand: {waiting}"
            print(f"Grades: {path}{note * bool(waiting)}")
    return status


@contextmanager
def _ended_as_stopped() -> Iterator[None]:
    """Let SIGTERM stop this as Ctrl-C does, so that no folder is left behind."""
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _options(given: argparse.Namespace) -> Options:
    return Options(
        force=given.force,
        seconds=given.timeout,
        memory_mib=given.memory,
        sandboxed=not given.unsafe_no_sandbox,
    )


def _pool_factory(given: argparse.Namespace) -> PoolFactory:
    if given.scheduler is not None:
        from attentively_grader.workforce import dask_cluster

        return dask_cluster.cluster_factory(given.scheduler, not given.unsafe_no_sandbox)
    return pool_factory(given.workers, not given.unsafe_no_sandbox)


def _shard(given: argparse.Namespace) -> int:
    from attentively_grader import shard

    course = Course(given.course)
    chosen = course.submissions(given.assignment, given.student)
    part = shard.Shard.parse(given.shard)
    return shard.run(course, chosen, part, _options(given), _pool_factory(given))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _memory(text: str) -> int:
    number = _positive(text)
    if number < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(
            f"{text} MiB is less than the libraries alone take: {LEAST_MEMORY} at least"
        )
    return number


if __name__ == "__main__":
    sys.exit(main())
