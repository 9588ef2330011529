"""Summarise a run: the points, the difficulty of each part, and what was not graded."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from attentively_grader.course.course import Course, Scores, Submission
from attentively_grader.intake.submissions import printable


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
    """Yield a line for each student, the mean, and the part that was hardest.

    What waits for a person has a question mark, and no part is called hard for it.
    """
    most = next(iter(scores.values())).maximum
    parts = list(most)
    late = any(row.penalty for row in scores.values())
    columns = [*parts, *["late"] * late, "total"]
    width = max(map(len, [assignment, "of", "mean", *scores]))

    def line(name: str, *cells: str) -> str:
        places = zip(cells, columns, strict=True)
        aligned = (f"{cell:>{max(5, len(column))}}" for cell, column in places)
        return "  ".join([f"{name:{width}}", *aligned])

    yield line(assignment, *columns)
    yield line("of", *map(_number, most.values()), *[""] * late, _number(sum(most.values())))
    for student, row in scores.items():
        points = (shown(row, part) for part in parts)
        yield line(student, *points, *[taken_off(row)] * late, _number(row.total))
    waiting = set().union(*(row.by_hand for row in scores.values()))
    if len(scores) > 1:
        mean = {part: _mean(row.points.get(part, 0.0) for row in scores.values()) for part in parts}
        cells = ["?" if part in waiting else _number(mean[part]) for part in parts]
        total = _mean(row.total for row in scores.values())
        yield line("mean", *cells, *[""] * late, _number(total))
        shares = {part: mean[part] / most[part] for part in {*parts} - waiting if most[part]}
        if shares:
            hardest = min(parts, key=lambda part: shares.get(part, 2.0))
            yield f"hardest: {hardest}, {shares[hardest]:.0%} of its points on average"
    if waiting:
        number = sum(len(row.by_hand) for row in scores.values())
        yield f"?: to be graded by hand, as with Formgrader ({number})"


def shown(row: Scores, part: str) -> str:
    """Return the points of a part, with a question mark where a person has yet to give them."""
    return f"{row.points.get(part, 0.0):g}{'?' * (part in row.by_hand)}"


def taken_off(row: Scores) -> str:
    """Return what coming late costs; nothing where it costs nothing."""
    return f"-{row.penalty:g}" if row.penalty else ""


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _number(value: float) -> str:
    return f"{round(value, 1):g}"
