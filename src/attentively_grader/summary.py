"""What a run says at its end: the points, how hard the parts were, and what was not graded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from attentively_grader.course import Course, Scores, Submission
from attentively_grader.submissions import printable


class Graded(Protocol):
    """What is known at the end of a run."""

    graded: list[Submission]
    set_aside: dict[Submission, str]
    unrecorded: dict[Submission, str]
    missed: dict[Submission, str]
    remarks: dict[Submission, tuple[str, ...]]


def summary(course: Course, run: Graded, whole_class: bool = False) -> Iterator[str]:
    """Yield the lines of the report; of a whole class also who is missing from it."""
    for assignment in sorted({each.assignment for each in run.graded}):
        known = course.scores(assignment)
        students = sorted(each.student for each in run.graded if each.assignment == assignment)
        scores = {student: known[student] for student in students if student in known}
        if scores:
            yield ""
            yield from table(assignment, scores)
        absent = course.absent(assignment) if whole_class else []
        if absent:
            yield f"nothing submitted: {', '.join(absent)}"
    if run.graded:
        yield ""
        yield f"Feedback: {course.directory.feedback_directory}/STUDENT/ASSIGNMENT/*.html"
    yield from _list("Worth a look", {each: "; ".join(said) for each, said in run.remarks.items()})
    strays = course.strays() if whole_class else []
    if strays:
        yield ""
        yield f"For no assignment of this course, {len(strays)}:"
        yield from (f"  {printable(name)}" for name in strays)
    yield from _list("Without feedback", run.missed)
    yield from _list("Not recorded", run.unrecorded)
    yield from _list("Set aside, not graded", run.set_aside)


def _list(title: str, those: Mapping[Submission, str]) -> Iterator[str]:
    if those:
        yield ""
        yield f"{title}, {len(those)}:"
        for submission, why in those.items():
            yield f"  {submission.assignment}, {printable(submission.student)}: {why}"


def table(assignment: str, scores: Mapping[str, Scores]) -> Iterator[str]:
    """Yield a line for each student, the mean, and the part that was hardest."""
    most = next(iter(scores.values())).maximum
    parts = list(most)
    names = [assignment, "of", "mean", *scores]
    width = max(map(len, names))
    yield f"{assignment:{width}}  " + "  ".join([*parts, "total"])
    yield _row("of", most, parts, width)
    for student, row in scores.items():
        yield _row(student, row.points, parts, width)
    mean = {part: _mean(row.points.get(part, 0.0) for row in scores.values()) for part in parts}
    yield _row("mean", mean, parts, width)
    shares = {part: mean[part] / most[part] for part in parts if most[part]}
    if shares and len(scores) > 1:
        hardest = min(shares, key=lambda part: shares[part])
        yield f"hardest: {hardest}, {shares[hardest]:.0%} of its points on average"


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return round(sum(numbers) / len(numbers), 1)


def _row(name: str, points: Mapping[str, float], parts: Sequence[str], width: int) -> str:
    cells = [f"{points.get(part, 0.0):{len(part)}g}" for part in parts]
    return f"{name:{width}}  " + "  ".join([*cells, f"{sum(points.values()):5g}"])
