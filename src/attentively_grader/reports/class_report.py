"""Write the class report of each assignment that was graded."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from attentively_grader.course.course import Course, Submission
from attentively_grader.intake.result_store import write_whole
from attentively_grader.reports.class_report_html import render
from attentively_grader.reports.similarity import LONGEST, alike

FOLDER = "reports"


class Run(Protocol):
    """The results of a run, as the coordinator collects them."""

    graded: list[Submission]
    set_aside: dict[Submission, str]
    unrecorded: dict[Submission, str]
    remarks: dict[Submission, tuple[str, ...]]
    ends: dict[Submission, str]
    weaker: dict[str, dict[str, str]]
    unverified: dict[str, list[str]]
    answers: dict[Submission, str]
    given: dict[str, str]


def write_reports(course: Course, run: Run) -> Iterator[Path]:
    """Write ``reports/ASSIGNMENT.html`` for each assignment; yield the files."""
    those = [*run.graded, *run.set_aside, *run.unrecorded]
    for assignment in sorted({each.assignment for each in those} | {*run.unverified}):
        answers = {
            submission.student: text
            for submission, text in run.answers.items()
            if submission.assignment == assignment
        }
        graded = {each.student for each in run.graded if each.assignment == assignment}
        # The gradebook contains nothing about an assignment that cannot be graded.
        known = course.scores(assignment) if graded else {}
        scores = {student: known[student] for student in known if student in graded}
        by_hand = {
            student: "has answers that wait for manual grading"
            for student in known
            if known[student].by_hand
        }
        needs = [*needing(run, assignment, by_hand), *_long(answers)]
        groups = alike(answers, run.given.get(assignment, ""))
        path = course.root / FOLDER / f"{assignment}.html"
        weaker = run.weaker.get(assignment, {})
        said = run.unverified.get(assignment, ())
        write_whole(path, render(assignment, scores, needs, groups, weaker, said))
        yield path


def _long(answers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for student, code in answers.items():
        if len(code) > LONGEST:
            yield (
                student,
                f"wrote {len(code):,} characters of code; only the first {LONGEST:,} are compared "
                "with other answers",
            )


def needing(run: Run, assignment: str, manual: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the students whose submission needs attention, with the reason."""
    reasons: list[Mapping[Submission, str]] = [
        {each: f"set aside: {why}" for each, why in run.set_aside.items()},
        {each: f"not recorded: {why}" for each, why in run.unrecorded.items()},
        run.ends,
        {each: "; ".join(said) for each, said in run.remarks.items()},
    ]
    found = [
        (submission.student, why)
        for those in reasons
        for submission, why in those.items()
        if submission.assignment == assignment
    ]
    return [*found, *manual.items()]
