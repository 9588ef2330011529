"""Render the class report as one HTML page: points, submissions to look at, similar answers.

The page has no scripts, supports light and dark mode, and is for the instructor only, because it
names students.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

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
STYLE = """
:root { color-scheme: light dark; --bar: #3b6ea5; --line: #8888; }
@media (prefers-color-scheme: dark) { :root { --bar: #7fb0e0; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
caption { text-align: left; padding-bottom: .4rem; }
th:first-child { text-align: left; }
tbody th { font-weight: normal; white-space: nowrap; }
h1 { font-size: clamp(1.3rem, 5vw, 2rem); }
h1, li { overflow-wrap: anywhere; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .9rem; } figcaption strong { display: block; }
rect { fill: var(--bar); } text { fill: currentColor; font-size: 11px; }
"""


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
    return "\n".join(_lines(assignment, scores, needs, groups, weaker or {}, unverified)) + "\n"


def _lines(
    assignment: str,
    scores: Mapping[str, Scores],
    needs: Sequence[tuple[str, str]],
    groups: Sequence[Alike],
    weaker: Mapping[str, str],
    unverified: Sequence[str],
) -> Iterator[str]:
    title = escape(assignment)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f"<title>Class report: {title}</title>"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>Class report: {title}</h1>"
    totals = [row.total for row in scores.values()]
    most = max((sum(row.maximum.values()) for row in scores.values()), default=0.0)
    mean = f" Mean: {sum(totals) / len(totals):.1f} of {most:g} points." if totals else ""
    yield f"<p>Submissions graded: {len(scores)}.{mean}</p>"
    if unverified:
        yield "<h2>The solution does not earn every point</h2>"
        yield f"<pre>{escape(chr(10).join(unverified))}</pre>"
    yield "<h2>Submissions that need attention</h2>"
    yield from _list([(escape(name), escape(why)) for name, why in needs], "None.")
    if scores:
        yield from _charts(scores)
        yield from _table(scores, weaker)
    if weaker:
        yield "<h2>Tests that run next to the student's code</h2>"
        yield f"<p>A star (*) marks these parts: {WEAKER}.</p>"
        yield from _list([(escape(part), escape(why)) for part, why in weaker.items()], "")
    yield "<h2>Similar answers</h2>"
    yield "<p>Treat a group as a hint, not as a verdict.</p>"
    yield "<ul>"
    yield (
        "<li>The percentage is the share of the shorter answer's code that the longer one contains "
        "too, for the two most similar answers of the group.</li>"
    )
    yield "<li>The comparison ignores identifiers, strings and comments.</li>"
    yield "<li>A short question with one clear answer has many similar answers.</li>"
    yield (
        "<li>Code that more than a quarter of the class share, or more than 20 students, counts as "
        "the common answer and forms no group. In a class of fewer than twelve, the limit is two "
        "students.</li>"
    )
    yield "<li>Long answers that are identical from beginning to end always form a group.</li>"
    yield "</ul>"
    yield "<h3>Groups</h3>"
    alike = [(escape(", ".join(group.students)), f"{group.most:.0%} in common") for group in groups]
    yield from _list(alike, "None.")
    yield "</body>\n</html>"


def _list(items: Sequence[tuple[str, str]], nothing: str) -> Iterator[str]:
    if not items:
        yield f"<p>{nothing}</p>"
        return
    yield "<ul>"
    for name, why in items:
        yield f"<li><strong>{name}</strong>: {why}</li>"
    yield "</ul>"


def _parts(scores: Mapping[str, Scores]) -> dict[str, float]:
    """Return the parts and their maximum points, in the order of the notebook."""
    return {part: most for row in scores.values() for part, most in row.maximum.items()}


def _charts(scores: Mapping[str, Scores]) -> Iterator[str]:
    yield "<h2>Points by part</h2>"
    yield (
        "<p>Each chart shows one part: the number of students, by the share of the part's points "
        "that they received. Answers that wait for manual grading are not counted.</p>"
    )
    yield '<div class="charts">'
    for part, most in _parts(scores).items():
        graded = [row for row in scores.values() if part not in row.by_hand]
        if not graded:
            continue
        shares = [row.points.get(part, 0.0) / most if most else 0.0 for row in graded]
        mean = sum(shares) / len(shares)
        yield f"<figure>{histogram(shares, part)}<figcaption><strong>{escape(part)}</strong>"
        yield f"mean {mean * most:.1f} of {most:g} points ({mean:.0%})</figcaption></figure>"
    yield "</div>"


def counts(shares: Sequence[float]) -> list[int]:
    """Return the number of shares in each of `BINS`."""
    found = [0] * len(BINS)
    for share in shares:
        index = next((i for i, (end, _) in enumerate(BINS) if share <= end), len(BINS) - 1)
        found[index] += 1
    return found


def histogram(shares: Sequence[float], name: str) -> str:
    """Return an SVG histogram of the shares of a part's points."""
    found = counts(shares)
    tallest = max(found) or 1
    summary = ", ".join(
        f"{label} of the points: {number}"
        for number, (_, label) in zip(found, BINS, strict=True)
        if number
    )
    bars = "".join(
        f'<rect x="{5 + 46 * i}" y="{80 - 66 * number / tallest:.1f}" width="38" '
        f'height="{66 * number / tallest:.1f}"/>'
        f'<text x="{24 + 46 * i}" y="{77 - 66 * number / tallest:.1f}" text-anchor="middle">'
        f"{number or ''}</text>"
        f'<text x="{24 + 46 * i}" y="94" text-anchor="middle">{escape(label)}</text>'
        for i, (number, (_, label)) in enumerate(zip(found, BINS, strict=True))
    )
    return (
        f'<svg role="img" width="280" height="98" viewBox="0 0 280 98">'
        f"<title>{escape(name)}, number of students: {escape(summary)}</title>{bars}</svg>"
    )


def _table(scores: Mapping[str, Scores], weaker: Mapping[str, str]) -> Iterator[str]:
    parts = _parts(scores)
    late = any(row.penalty for row in scores.values())
    names = [f"{escape(part)}{'*' * (part in weaker)}" for part in parts]
    columns = [*names, *["late penalty"] * late, "total"]
    worth = (f"{most:g}" for most in parts.values())
    most = [*worth, *[""] * late, f"{sum(parts.values()):g}"]
    yield "<h2>Points by student</h2>\n<table>\n<caption>Points of each student, by part</caption>"
    yield '<thead><tr><th scope="col">student</th>'
    yield "".join(f'<th scope="col">{column}</th>' for column in columns) + "</tr>"
    inside = "".join(f"<td>{cell}</td>" for cell in most)
    yield f'<tr><th scope="row">maximum</th>{inside}</tr></thead>'
    yield "<tbody>"
    for student, row in sorted(scores.items()):
        points = (shown(row, part) for part in parts)
        cells = [*points, *[taken_off(row)] * late, f"{row.total:g}"]
        inside = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr><th scope="row">{escape(student)}</th>{inside}</tr>'
    yield "</tbody>\n</table>"
    if any(row.by_hand for row in scores.values()):
        yield "<p>A question mark (?) marks an answer that waits for manual grading.</p>"
