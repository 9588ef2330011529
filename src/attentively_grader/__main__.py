"""``python -m attentively_grader``: grade submitted/ into the gradebook."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attentively_grader.course import Course, CourseError
from attentively_grader.outcome import Limits

STOPPED = 130
"""The exit status of a run that was stopped."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and grade; return the exit status.

    0: all is graded. 1: something was set aside, or could not be recorded. 2: there was nothing
    to do it with. 130: it was stopped, and the same command goes on.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attentively_grader", description="Grade what was submitted."
    )
    parser.add_argument("assignment", nargs="?", help="all that were submitted, by default")
    parser.add_argument(
        "--student", action="append", default=[], metavar="NAME", help="only this one; repeatable"
    )
    parser.add_argument(
        "--workers", type=_positive, metavar="N", help="notebooks at once; one a core, by default"
    )
    parser.add_argument(
        "--force", action="store_true", help="run anew what was graded and has not changed"
    )
    parser.add_argument("--again", action="store_true", dest="force", help=argparse.SUPPRESS)
    parser.add_argument(
        "--timeout",
        type=_positive,
        metavar="S",
        default=int(Limits.seconds),
        help="seconds for one notebook (%(default)s)",
    )
    parser.add_argument(
        "--memory",
        type=_positive,
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
    options = parser.parse_args(arguments)
    try:
        if sys.platform == "win32":
            raise CourseError("grading needs Linux, for its sandbox: use it in WSL")
        # Here, because it imports nbgrader, which takes a second.
        from attentively_grader.coordinator import Options, grade
        from attentively_grader.gradesheets import FORMATS, write

        status = grade(
            options.course,
            options.assignment,
            options.student,
            options=Options(
                force=options.force,
                seconds=options.timeout,
                memory_mib=options.memory,
                sandboxed=not options.unsafe_no_sandbox,
            ),
            workers=options.workers,
        )
        for kind in FORMATS:
            if (path := getattr(options, kind)) is not None and status != STOPPED:
                write(Course(options.course), options.assignment, kind, path)
                print(f"Grades: {path}")
        return status
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


if __name__ == "__main__":
    sys.exit(main())
