"""``python -m attentively_grader``: grade submitted/ into gradebook.db."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attentively_grader.course import CourseError
from attentively_grader.grading import grade


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and grade; return the exit status.

    0: all is graded. 1: some submission was set aside. 2: there was nothing to do it with.
    """
    parser = argparse.ArgumentParser(
        prog="python -m attentively_grader", description="Grade what was submitted."
    )
    parser.add_argument("assignment", nargs="?", help="all that were submitted, by default")
    parser.add_argument(
        "--student", action="append", default=[], metavar="NAME", help="only this one; repeatable"
    )
    parser.add_argument(
        "--again", action="store_true", help="grade anew what was graded and has not changed"
    )
    parser.add_argument(
        "--course", type=Path, default=Path(), metavar="FOLDER", help="where nbgrader_config.py is"
    )
    options = parser.parse_args(arguments)
    try:
        return grade(options.course, options.assignment, options.student, options.again)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
