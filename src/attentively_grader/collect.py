"""Collect the submissions in archives and folders of a learning platform."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from attentively_grader.course.course import Course
from attentively_grader.intake.collection import plan, report, write


def collect(
    root: Path,
    sources: Sequence[Path],
    assignment: str | None = None,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> int:
    """Collect from each source in turn, print what happened, and return the exit status.

    0: everything was collected. 1: nothing could be collected from a student, a submission was kept
    or refused, or a file was skipped; the lines give the reasons. Raises `CourseError` for a source
    that is neither a folder nor a zip archive.
    """
    course = Course(root)
    rows = None
    complete = True
    for source in sources:
        print(f"{source}:")
        planned = plan(course, source, assignment, force, _bar("reading"), rows)
        if dry_run:
            rows = planned.rows  # the next source finds the students of this one
        else:
            write(course, planned, _bar("writing"))
        for line in report(planned, dry_run):
            print(line)
        wrong = [one for one in planned.submissions if one.state in ("kept", "refused")]
        complete = complete and not (planned.without or planned.skipped or wrong)
    return 0 if complete else 1


def _bar(what: str) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Return a progress bar that appears after two seconds."""
    hidden = not sys.stderr.isatty()
    return lambda those: tqdm(those, what, delay=2, unit="student", leave=False, disable=hidden)
