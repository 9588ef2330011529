"""One page about a graded class: how the points fell, who needs a person, whose answers are alike.

It is a single HTML file without scripts, for light and dark, and for the instructor alone: it names
students.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from attentively_grader.course.course import Scores
from attentively_grader.reports.similarity import Alike
from attentively_grader.reports.summary import shown, taken_off

BINS = (
    (0.0, "0"),
    (0.25, "to ¼"),
    (0.5, "to ½"),
    (0.75, "to ¾"),
    (0.9999, "below all"),
    (1.0, "all"),
)
"""Upper ends of the shares of a part's points, and what they are called."""
STYLE = """
:root { color-scheme: light dark; --bar: #3b6ea5; --line: #8888; }
@media (prefers-color-scheme: dark) { :root { --bar: #7fb0e0; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .9rem; max-width: 15rem; }
rect { fill: var(--bar); } text { fill: currentColor; font-size: 9px; }
"""


def page(
    assignment: str,
    scores: Mapping[str, Scores],
    needs: Sequence[tuple[str, str]] = (),
    groups: Sequence[Alike] = (),
) -> str:
    """Return the page; `needs` are students with the reason why a person should look."""
    return "\n".join(_lines(assignment, scores, needs, groups)) + "\n"


def _lines(
    assignment: str,
    scores: Mapping[str, Scores],
    needs: Sequence[tuple[str, str]],
    groups: Sequence[Alike],
) -> Iterator[str]:
    title = escape(assignment)
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield f"<title>{title}</title>"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    totals = [row.total for row in scores.values()]
    most = max((sum(row.maximum.values()) for row in scores.values()), default=0.0)
    mean = f", mean {sum(totals) / len(totals):.1f} of {most:g}" if totals else ""
    yield f"<p>{len(scores)} graded{mean}.</p>"
    if scores:
        yield from _charts(scores)
        yield from _table(scores)
    yield "<h2>For a person to look at</h2>"
    yield from _list([(escape(name), escape(why)) for name, why in needs], "Nothing.")
    yield "<h2>Answers that read alike</h2>"
    yield (
        "<p>A hint and no verdict: runs of code that two answers share and few others have, names "
        "and remarks left aside. Short answers to a clear question are often alike. What more than "
        "a quarter of the class have (in a class of fewer than twelve: more than two), or more "
        "than 20, is taken for the common way to answer and shows no group, but for long answers "
        "that are the same from beginning to end.</p>"
    )
    alike = [
        (escape(", ".join(group.students)), f"{group.most:.0%} of the shorter one")
        for group in groups
    ]
    yield from _list(alike, "None stand out.")
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
    """Return the parts with what they are worth, in their order."""
    return {part: most for row in scores.values() for part, most in row.maximum.items()}


def _charts(scores: Mapping[str, Scores]) -> Iterator[str]:
    yield '<h2>How the points fell</h2>\n<div class="charts">'
    for part, most in _parts(scores).items():
        graded = [row for row in scores.values() if part not in row.by_hand]
        if not graded:
            continue
        shares = [row.points.get(part, 0.0) / most if most else 0.0 for row in graded]
        mean = sum(shares) / len(shares)
        yield f"<figure>{histogram(shares, part)}"
        yield f"<figcaption>{escape(part)}: {mean:.0%} of {most:g} on average</figcaption></figure>"
    yield "</div>"


def counts(shares: Sequence[float]) -> list[int]:
    """Return how many shares of a part's points fall into each of `BINS`."""
    found = [0] * len(BINS)
    for share in shares:
        place = next((i for i, (end, _) in enumerate(BINS) if share <= end), len(BINS) - 1)
        found[place] += 1
    return found


def histogram(shares: Sequence[float], name: str) -> str:
    """Return a drawing of how many students have which share of a part's points."""
    found = counts(shares)
    tallest = max(found) or 1
    said = ", ".join(
        f"{number} {label}" for number, (_, label) in zip(found, BINS, strict=True) if number
    )
    bars = "".join(
        f'<rect x="{4 + 38 * i}" y="{78 - 66 * number / tallest:.1f}" width="32" '
        f'height="{66 * number / tallest:.1f}"/>'
        f'<text x="{20 + 38 * i}" y="{74 - 66 * number / tallest:.1f}" text-anchor="middle">'
        f"{number or ''}</text>"
        f'<text x="{20 + 38 * i}" y="90" text-anchor="middle">{label}</text>'
        for i, (number, (_, label)) in enumerate(zip(found, BINS, strict=True))
    )
    return (
        f'<svg role="img" width="236" height="96" viewBox="0 0 236 96">'
        f"<title>{escape(name)}: {said}</title>{bars}</svg>"
    )


def _table(scores: Mapping[str, Scores]) -> Iterator[str]:
    parts = _parts(scores)
    late = any(row.penalty for row in scores.values())
    columns = [*map(escape, parts), *["late"] * late, "total"]
    yield "<h2>Points</h2>\n<table>\n<thead><tr><th>student</th>"
    yield "".join(f"<th>{column}</th>" for column in columns) + "</tr></thead>"
    yield "<tbody>"
    for student, row in sorted(scores.items()):
        points = (shown(row, part) for part in parts)
        cells = [*points, *[taken_off(row)] * late, f"{row.total:g}"]
        inside = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f"<tr><td>{escape(student)}</td>{inside}</tr>"
    yield "</tbody>\n</table>"
    if any(row.by_hand for row in scores.values()):
        yield "<p>?: to be graded by hand.</p>"
