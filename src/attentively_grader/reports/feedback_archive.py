"""Pack the feedback pages into one archive, under the names that the platform gave the students.

Moodle ("Upload multiple feedback files in a zip") and Canvas ("Upload Submissions") read from the
name of each file whose it is, in the form of their own download. The name was noted when the
submission was collected; a page of another submission lies in STUDENT/ASSIGNMENT/.
"""

import contextlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from attentively_grader.course.course import Course, CourseError, assignments
from attentively_grader.intake.collection import note_of
from attentively_grader.intake.result_store import WRITING


def write(course: Course, assignment: str | None, path: Path) -> int:
    """Write the pages of one assignment, or of all, into a zip archive; return their number.

    Raises `CourseError` if it cannot be written; an existing file is then left unchanged.
    """
    names = [assignment] if assignment else assignments(course.root, course.config)
    temporary: Path | None = None
    number = 0
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=WRITING, delete=False) as file:
            temporary = Path(file.name)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in names:
                    for page, inside in _pages(course, name):
                        archive.write(page, inside)
                        number += 1
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise CourseError(f"{path} cannot be written: {error.strerror}") from None
    return number


def _pages(course: Course, assignment: str) -> Iterator[tuple[Path, str]]:
    """Yield each page of an assignment and its name in the archive."""
    with contextlib.suppress(CourseError):  # nothing was submitted
        for submission in course.submissions(assignment):
            student = submission.student
            back = _back(submission.folder) or f"{student}/{assignment}/"
            for page in sorted(course.place("feedback", student, assignment).glob("*.html")):
                yield page, f"{back}{page.name}"


def _back(submitted: Path) -> str:
    """Return what the platform expects before the name of a file, if it was noted."""
    try:
        back = json.loads(note_of(submitted).read_text(encoding="utf-8"))["back"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return back if isinstance(back, str) else ""
