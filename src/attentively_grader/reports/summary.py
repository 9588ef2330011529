"""Summarise a run in the terminal: points, the hardest part, and what was not graded."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from tabulate import tabulate

from attentively_grader.course.course import Course, Scores, Submission
from attentively_grader.intake.submissions import printable

WEAKER = (
    "weaker, because the test runs next to the student's code, as in nbgrader, which could tamper "
    "with it"
)
"""What a star next to the name of a part means."""


WIDEST_TITLE = 16
"""Width of a column's title in characters; a longer title continues on the next line."""


class Graded(Protocol):
    """The results of a run, as the coordinator collects them."""

    graded: list[Submission]
    set_aside: dict[Submission, str]
    unrecorded: dict[Submission, str]
    missed: dict[Submission, str]
    remarks: dict[Submission, tuple[str, ...]]
    weaker: dict[str, dict[str, str]]
    unverified: dict[str, list[str]]


def summary(course: Course, run: Graded, whole_class: bool = False) -> Iterator[str]:
    """Yield the lines of the summary; for a whole class, also the students without submission."""
    for assignment in sorted({each.assignment for each in run.graded}):
        known = course.scores(assignment)
        students = sorted(each.student for each in run.graded if each.assignment == assignment)
        scores = {student: known[student] for student in students if student in known}
        if scores:
            yield ""
            yield from table(assignment, scores, run.weaker.get(assignment, {}))
        absent = course.absent(assignment) if whole_class else []
        if absent:
            yield f"no submission: {', '.join(absent)}"
    if run.graded:
        yield ""
        yield f"Feedback: {course.directory.feedback_directory}/STUDENT/ASSIGNMENT/*.html"
    yield from _list("Remarks", {each: "; ".join(said) for each, said in run.remarks.items()})
    strays = course.strays() if whole_class else []
    if strays:
        yield ""
        yield f"Folders that belong to no assignment of this course ({len(strays)}):"
        yield from (f"  {printable(name)}" for name in strays)
    yield from _list("No feedback", run.missed)
    yield from _list("Not recorded", run.unrecorded)
    yield from _list("Set aside, not graded", run.set_aside)
    if run.unverified:
        yield ""
        yield f"The solution does not earn every point; see above ({len(run.unverified)}):"
        yield from (f"  {lines[0]}" for lines in run.unverified.values())


def _list(title: str, those: Mapping[Submission, str]) -> Iterator[str]:
    if those:
        yield ""
        yield f"{title} ({len(those)}):"
        for submission, why in those.items():
            yield f"  {submission.assignment}, {printable(submission.student)}: {why}"


def table(
    assignment: str, scores: Mapping[str, Scores], weaker: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Yield one line per student, the mean, and the part with the lowest mean.

    A question mark marks an answer that waits for manual grading; such a part is never named as
    the hardest. A star marks a part whose test runs next to the student's code; `weaker` gives the
    reasons.
    """
    weaker = weaker or {}
    most = next(iter(scores.values())).maximum
    parts = list(most)
    late = any(row.penalty for row in scores.values())
    headings = [f"{part}{'*' * (part in weaker)}" for part in parts]
    columns = [*headings, *["penalty"] * late, "total"]
    worth = [*map(_number, most.values()), *[""] * late, _number(sum(most.values()))]
    rows = [["maximum", *worth]]
    for student, row in scores.items():
        points = (shown(row, part) for part in parts)
        rows.append([student, *points, *[taken_off(row)] * late, _number(row.total)])
    waiting = set().union(*(row.by_hand for row in scores.values()))
    hardest = ""
    if len(scores) > 1:
        mean = {part: _mean(row.points.get(part, 0.0) for row in scores.values()) for part in parts}
        means = ["?" if part in waiting else _number(mean[part]) for part in parts]
        total = _mean(row.total for row in scores.values())
        rows.append(["mean", *means, *[""] * late, _number(total)])
        shares = {part: mean[part] / most[part] for part in {*parts} - waiting if most[part]}
        hardest = min(shares, key=lambda part: (shares[part], parts.index(part)), default="")
    yield from tabulate(
        rows,
        [assignment, *columns],
        tablefmt="plain",
        disable_numparse=True,
        colalign=("left", *["right"] * len(columns)),
        maxheadercolwidths=[None, *[WIDEST_TITLE] * len(columns)],
    ).splitlines()
    if hardest:
        yield f"hardest part: {hardest}, mean {shares[hardest]:.0%} of its points"
    if waiting:
        number = sum(len(row.by_hand) for row in scores.values())
        yield f"?: waits for manual grading, for example in Formgrader ({number})"
    if weaker:
        yield f"*: {WEAKER}"
        yield from (f"   {part}: {why}" for part, why in weaker.items())


def shown(row: Scores, part: str) -> str:
    """Return the points of a part, with a question mark if it waits for manual grading."""
    return f"{row.points.get(part, 0.0):g}{'?' * (part in row.by_hand)}"


def taken_off(row: Scores) -> str:
    """Return the late penalty with a minus sign; an empty text if there is none."""
    return f"-{row.penalty:g}" if row.penalty else ""


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _number(value: float) -> str:
    return f"{round(value, 1):g}"
