"""Grade one submission in a container of Gradescope and write its results.json.

    python -m attentively_grader.gradescope COURSE ASSIGNMENT SUBMISSION RESULTS

`tools/make_gradescope.py` packs the archive whose ``run_autograder`` runs this command. The format
is that of https://gradescope-autograders.readthedocs.io/en/latest/specs/.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attentively_grader.coordinator import Coordinator
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course, CourseError, Submission
from attentively_grader.gradebook.safe_output import text
from attentively_grader.intake import collection
from attentively_grader.intake.result_store import write_whole
from attentively_grader.intake.tasks import Options
from attentively_grader.workforce.local_pool import pool_factory

STUDENT = "student"
"""The only student of the course in the container."""
SECONDS = 300
"""Time limit of the notebook: results are written before Gradescope's default limit, 10 minutes."""
LONGEST = 4_000
"""Maximum characters of the message of a part."""


def results(course: Course, assignment: str, handed_in: Path, sandboxed: bool) -> dict[str, Any]:
    """Grade the files of `handed_in` and return the content of results.json.

    What the student can fix scores 0, with the reason in "output". Raises `CourseError` for
    everything else, for example a missing sandbox or a solution that misses points.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(handed_in, Path(folder) / STUDENT, symlinks=True)
        planned = collection.plan(course, Path(folder), assignment, force=True)
        collection.write(course, planned)
    chosen = [
        Submission(one.student, assignment, one.folder)
        for one in planned.submissions
        if one.state != "refused"
    ]
    if len(chosen) != 1:
        refused = [remark for one in planned.submissions for remark in one.remarks]
        return _ungraded(assignment, [*refused, *planned.without.values()])
    options = Options(seconds=SECONDS, sandboxed=sandboxed)
    coordinator = Coordinator(course, options, pool_factory(1, sandboxed))
    coordinator.grade(chosen)
    if coordinator.set_aside:
        return _ungraded(assignment, coordinator.set_aside.values())
    if chosen != coordinator.graded:
        reasons = [*coordinator.unrecorded.values(), "the solution misses points, see above"]
        raise CourseError(f"the submission was not graded: {reasons[0]}")
    return {"output": coordinator.ends.get(chosen[0], ""), "tests": [*_tests(course, chosen[0])]}


def _ungraded(assignment: str, reasons: Iterable[str]) -> dict[str, Any]:
    why = "; ".join(reasons) or "several students' folders were found"
    return {
        "score": 0.0,
        "output": text(
            f"This submission was not graded: {why}. Upload {assignment}.ipynb, or the zip archive "
            f"that `attentively submit {assignment} --student NAME --zip` writes.",
            LONGEST,
        ),
    }


def _tests(course: Course, submission: Submission) -> Iterator[dict[str, Any]]:
    """Yield one test per part, with its title, points and error message."""
    scores = course.scores(submission.assignment)[submission.student]
    messages = dict(_messages(course, submission))
    for part, maximum in scores.maximum.items():
        by_hand = part in scores.by_hand
        yield {
            "name": part,
            "score": scores.points[part],
            "max_score": maximum,
            "output": "Waits for manual grading." if by_hand else messages.get(part, ""),
            "output_format": "text",
        }


def _messages(course: Course, submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield the parts whose test failed, and the message; never a line of a test."""
    where = course.place("autograded", submission.student, submission.assignment)
    for (notebook, name), part in course.parts(submission.assignment).items():
        for cell in notebooks.read(where / f"{notebook}.ipynb").cells:
            if notebooks.has_points(cell.metadata) and notebooks.grade_id(cell) == name:
                for output in cell.get("outputs", []):
                    if output.output_type == "error":
                        said = ": ".join(filter(None, (output.ename, output.evalue)))
                        yield part, text(said, LONGEST)


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade, write the results and return the exit status.

    Without results, Gradescope tells the student that the autograder failed, and records no points.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("course", type=Path)
    parser.add_argument("assignment")
    parser.add_argument("submission", type=Path, help="folder of the student's files")
    parser.add_argument("results", type=Path, help="the results.json to write")
    parser.add_argument(
        "--unsafe-no-sandbox", action="store_true", help="run students' code with your own rights"
    )
    chosen = parser.parse_args(arguments)
    try:
        found = results(
            Course(chosen.course),
            chosen.assignment,
            chosen.submission,
            not chosen.unsafe_no_sandbox,
        )
    except (CourseError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_whole(chosen.results, json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
