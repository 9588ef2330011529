"""State under the title of each page how long it takes to read.

The time is counted when the page is read by Sphinx: 100 words a minute and five lines of code a
minute. Words are those of the prose, with quizzes and captions; code is that of visible cells and
of the package, without blank lines and those of brackets alone. Outputs and folded cells do not
count: the slow rates leave time for them, and for equations and figures. The reasons are in
docs/decisions/0020-reading-time.md. Times are rounded to five minutes, because they are no more
exact than that.

On a chapter, the time of its assignment follows: the minutes of all parts, from the notebook in
solutions/. A page with `reading_time: false` in its front matter states no time.
"""

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from exercise_map import read_notebook
from sphinx.application import Sphinx

WORDS_A_MINUTE = 100
LINES_A_MINUTE = 5
UNREAD = {"cell_output", "tag_hide-cell", "tag_hide-input", "tag_remove-cell", "tag_remove-input"}
"""Classes of what is folded away or is an output."""


def pieces(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield the texts and the blocks of code that a reader sees, in their order."""
    if isinstance(node, nodes.Element) and UNREAD.intersection(node.get("classes", [])):
        return
    if isinstance(node, (nodes.Text, nodes.literal_block)):
        yield node
    elif not isinstance(node, (nodes.Invisible, nodes.math, nodes.math_block, nodes.raw)):
        for child in node.children:
            yield from pieces(child)


def minutes_to_read(document: nodes.document) -> float:
    """Return the time to read a page, in minutes."""
    words = lines = 0
    for piece in pieces(document):
        if isinstance(piece, nodes.literal_block):
            lines += sum(any(map(str.isalnum, line)) for line in piece.astext().splitlines())
        else:
            words += len(piece.astext().split())
    return words / WORDS_A_MINUTE + lines / LINES_A_MINUTE


def spoken(minutes: float) -> str:
    """Return a duration in words: in steps of five minutes, in hours from two on."""
    rounded = max(5, 5 * round(minutes / 5))
    if rounded < 120:
        return f"{rounded} minutes"
    hours, rest = divmod(rounded, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} hours"


def state_time(app: Sphinx, document: nodes.document) -> None:
    """Put a line with the times under the title."""
    env = app.env
    title = next(iter(document.findall(nodes.title)), None)
    if title is None or str(env.metadata[env.docname].get("reading_time")).lower() == "false":
        return
    said = f"Reading time: about {spoken(minutes_to_read(document))}"
    name = Path(env.docname).name
    assignment = Path(env.srcdir) / "solutions" / name / f"{name}.ipynb"
    if assignment.is_file():
        env.note_dependency(str(assignment))
        parts = read_notebook(assignment).headings
        minutes = sum(minutes for _, _, _, minutes, _ in parts)
        said += f" · assignment: about {spoken(minutes)} in {len(parts)} parts"
    line = nodes.paragraph("", said, classes=["reading-time"])
    title.parent.insert(title.parent.index(title) + 1, line)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", state_time)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
