"""Render the class report as one HTML page: points, submissions to look at, similar answers.

The page has no scripts, supports light and dark mode, and is for the instructor only, because it
names students. The template escapes every value (decision 0034).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from attentively_grader.course.course import Scores
from attentively_grader.reports.similarity import Alike
from attentively_grader.reports.summary import WEAKER, shown, taken_off

BINS = (
    (0.0, "0%"),
    (0.25, "≤ 25%"),
    (0.5, "≤ 50%"),
    (0.75, "≤ 75%"),
    (0.9999, "< 100%"),
    (1.0, "100%"),
)
"""Bins of a histogram: the upper end as a share of a part's points, and the label."""
TALLEST = 66.0
"""Height of the tallest bar."""
PAGES = Environment(
    loader=PackageLoader("attentively_grader.reports", ""),
    autoescape=True,
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)


def render(
    assignment: str,
    scores: Mapping[str, Scores],
    needs: Sequence[tuple[str, str]] = (),
    groups: Sequence[Alike] = (),
    weaker: Mapping[str, str] | None = None,
    unverified: Sequence[str] = (),
) -> str:
    """Return the page.

    `needs` lists students whose submission needs attention, and why; `weaker` the parts whose
    tests run next to the student's code, and why. `unverified` are the lines of a self-test in
    which the solution missed points.
    """
    weaker = weaker or {}
    most = {part: points for row in scores.values() for part, points in row.maximum.items()}
    late = any(row.penalty for row in scores.values())
    totals = [row.total for row in scores.values()]
    rows = [
        (
            student,
            [*(shown(row, part) for part in most), *[taken_off(row)] * late, f"{row.total:g}"],
        )
        for student, row in sorted(scores.items())
    ]
    worth = [*(f"{points:g}" for points in most.values()), *[""] * late, f"{sum(most.values()):g}"]
    return PAGES.get_template("class_report.html.j2").render(
        assignment=assignment,
        scores=scores,
        mean=sum(totals) / len(totals) if totals else 0.0,
        most=f"{sum(most.values()):g}",
        unverified=unverified,
        needs=needs,
        charts=[*_charts(scores, most)],
        columns=[
            *(f"{part}{'*' * (part in weaker)}" for part in most),
            *["late penalty"] * late,
            "total",
        ],
        rows=[("maximum", worth), *rows],
        waiting=any(row.by_hand for row in scores.values()),
        weaker=weaker,
        what_is_weaker=WEAKER,
        groups=[(", ".join(group.students), f"{group.most:.0%} in common") for group in groups],
    )


def _charts(scores: Mapping[str, Scores], maximum: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    for part, most in maximum.items():
        graded = [row for row in scores.values() if part not in row.by_hand]
        if not graded:
            continue
        shares = [row.points.get(part, 0.0) / most if most else 0.0 for row in graded]
        share = sum(shares) / len(shares)
        chart = {"title": part, "mean": share * most, "most": f"{most:g}", "share": f"{share:.0%}"}
        yield chart | histogram(shares)


def counts(shares: Sequence[float]) -> list[int]:
    """Return the number of shares in each of `BINS`."""
    found = [0] * len(BINS)
    for share in shares:
        index = next((i for i, (end, _) in enumerate(BINS) if share <= end), len(BINS) - 1)
        found[index] += 1
    return found


def histogram(shares: Sequence[float]) -> dict[str, Any]:
    """Return the bars of a histogram of the shares of a part's points, and what it shows."""
    found = [(number, label) for number, (_, label) in zip(counts(shares), BINS, strict=True)]
    tallest = max(number for number, _ in found) or 1
    return {
        "said": ", ".join(f"{label} of the points: {number}" for number, label in found if number),
        "bars": [
            {"label": label, "number": number, "height": TALLEST * number / tallest}
            for number, label in found
        ],
    }
