r"""Map of the exercises, read from the notebooks in solutions/ when the book is built.

In a page::

    ```{exercise-map}
    :name: fig-exercises

    The caption.
    ```

    ```{exercise-table}
    ```

The first directive draws every assignment with its parts, an arrow for each part that a later
assignment reuses (`earlier_parts.take`), a dotted arrow where only the checks are repeated, and
small arcs between the parts of one assignment. The second gives the same information as a table;
with `:parts:` it lists every part with its points, minutes and difficulty instead.

No list of notebooks is kept here: a new notebook appears at the next build.
"""

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import ClassVar, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator
from transformer_map import Address, chapter_of

HEADING = re.compile(
    r"^## Part (\d+) · (.+) \((\d+) points, about (\d+) minutes, (easy|medium|hard)\)$", re.M
)
CHECKS = "attentively.checks"


class Part(NamedTuple):
    """One graded part."""

    number: int
    title: str
    points: int
    minutes: int
    difficulty: str
    original: bool
    """Its answer is not given in the book or the package."""
    check: str
    uses: tuple[int, ...]
    """Other parts of the same assignment that its solution, or the demonstration, calls."""


class Take(NamedTuple):
    """A part of an earlier assignment that a student's own answer is taken from."""

    assignment: str
    part: int
    names: str
    below: int
    """The part under whose heading it is taken; 0 under any other heading."""


class Assignment(NamedTuple):
    """The data of a notebook that the map needs."""

    name: str
    title: str
    parts: tuple[Part, ...]
    takes: tuple[Take, ...]
    checks_of: tuple[str, ...]
    """Earlier assignments whose checks are repeated here."""

    @property
    def number(self) -> str:
        """The first two digits of its name."""
        return self.name[:2]

    @property
    def points(self) -> int:
        """Sum over all parts."""
        return sum(part.points for part in self.parts)

    @property
    def minutes(self) -> int:
        """Sum over all parts."""
        return sum(part.minutes for part in self.parts)


# Reading


class Cell(NamedTuple):
    """A code cell, and the part under whose heading it is."""

    part: int
    tree: ast.Module
    graded: bool
    original: bool


class Notebook(NamedTuple):
    """A notebook's headings and code."""

    name: str
    title: str
    headings: tuple[tuple[int, str, int, int, str], ...]
    cells: tuple[Cell, ...]
    checks: str
    """The module of its checks."""


def notebook_paths(root: Path) -> list[Path]:
    """Return the assignments' notebooks in order."""
    paths = (root / "solutions").glob("[0-9][0-9]_*/*.ipynb")
    return sorted(path for path in paths if path.stem == path.parent.name)


def read_notebook(path: Path) -> Notebook:
    """Read a notebook; raise ValueError for one that is no assignment."""
    title, part, headings, cells = "", 0, [], []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            if first := re.match(r"# (.+)", source):
                title = title or first[1]
            if found := HEADING.search(source):
                number, name, points, minutes, difficulty = found.groups()
                part = int(number)
                headings.append((part, name, int(points), int(minutes), difficulty))
            elif re.search(r"^## ", source, re.M):
                part = 0
        elif cell["cell_type"] == "code":
            metadata = cell["metadata"]
            graded = bool(metadata.get("nbgrader", {}).get("grade"))
            original = "original" in metadata.get("tags", [])
            cells.append(Cell(part, ast.parse(source), graded, original))
    checks = [
        module
        for cell in cells
        for name, module in imported_modules(cell.tree)
        if name == "checks" and module.startswith(f"{CHECKS}.")
    ]
    if not title or not headings or not checks:
        raise ValueError(
            f"{path.name} has no title, no heading “## Part 1 · Name (20 points, about 10 minutes, "
            f"easy)”, or no line “from {CHECKS} import … as checks”"
        )
    return Notebook(path.stem, title, tuple(headings), tuple(cells), checks[0])


def imported_modules(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the local name and the full name of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name


def calls(tree: ast.AST, of: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of a function of the module known as `of`, with the function's name."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == of
        ):
            yield node.func.attr, node


def parts_of(notebook: Notebook) -> tuple[Part, ...]:
    """Return the parts with the other parts that they use."""
    asked = {}  # by part: its check, the candidates, and whether it is original
    for cell in notebook.cells:
        if cell.graded and cell.part:
            check, call = next(calls(cell.tree, "checks"))
            names = [arg.id for arg in call.args if isinstance(arg, ast.Name)]
            asked[cell.part] = (check, names, cell.original)
    made_in = {name: part for part, (_, names, _) in asked.items() for name in names}
    used: dict[int, set[int]] = {part: set() for part in asked}
    for cell in notebook.cells:
        if cell.part in used and not cell.graded:
            own = set(defined(cell.tree))
            for node in ast.walk(cell.tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    maker = made_in.get(node.id, cell.part)
                    if maker != cell.part and node.id not in own:
                        used[cell.part].add(maker)
    parts = []
    for number, title, points, minutes, difficulty in notebook.headings:
        if number not in asked:
            raise ValueError(f"{notebook.name}: part {number} has no graded cell")
        check, _, original = asked[number]
        uses = tuple(sorted(used[number]))
        parts.append(Part(number, title, points, minutes, difficulty, original, check, uses))
    return tuple(parts)


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a cell binds, arguments included."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def takes_of(notebook: Notebook, known: dict[str, tuple[Part, ...]]) -> Iterator[Take]:
    """Yield the parts that the notebook reuses from earlier assignments."""
    for cell in notebook.cells:
        for name, call in calls(cell.tree, "earlier_parts"):
            if name != "take":
                continue
            assignment, part = ast.literal_eval(call.args[0]), call.args[1]
            if not isinstance(part, ast.Attribute) or assignment not in known:
                raise ValueError(
                    f"{notebook.name} takes {ast.unparse(part)} from {assignment!r}: expected a "
                    f"part of an assignment before it, as in take('12_self_attention', "
                    f"self_attention.attention, …)"
                )
            numbers = [each.number for each in known[assignment] if each.check == part.attr]
            if not numbers:
                raise ValueError(
                    f"{notebook.name} takes {part.attr}: no part of {assignment} is checked by that"
                )
            yield Take(assignment, numbers[0], part.attr, cell.part)


def checks_used(module: str, root: Path, owners: dict[str, str]) -> set[str]:
    """Return the assignments whose checks a module of checks imports, through helpers too."""
    found, seen, waiting = set(), set(), [module]
    while waiting:
        place = root / "src" / Path(*waiting.pop().split("."))
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        for _, name in imported_modules(ast.parse(path.read_text(encoding="utf-8"))):
            for candidate in (name, name.rpartition(".")[0]):
                if candidate in owners:
                    found.add(owners[candidate])
                elif candidate.startswith(f"{CHECKS}."):
                    waiting.append(candidate)
    return found


def read_assignments(root: Path) -> list[Assignment]:
    """Return every assignment of the course at `root`, in order."""
    notebooks = [read_notebook(path) for path in notebook_paths(root)]
    owners = {notebook.checks: notebook.name for notebook in notebooks}
    known: dict[str, tuple[Part, ...]] = {}
    assignments = []
    for notebook in notebooks:
        takes = tuple(sorted(set(takes_of(notebook, known))))
        known[notebook.name] = parts_of(notebook)
        again = checks_used(notebook.checks, root, owners)
        again -= {notebook.name} | {take.assignment for take in takes}
        assignments.append(
            Assignment(
                *(notebook.name, notebook.title, known[notebook.name], takes),
                tuple(sorted(again)),
            )
        )
    return assignments


# Drawing

STYLE = """
.exercise-map text { font: 14px sans-serif; fill: var(--map-ink, #222832); }
.exercise-map .small { font-size: 13px; fill: var(--map-muted, #48566b); }
.exercise-map .row { fill: var(--map-ink, #222832); fill-opacity: .05; }
.exercise-map a text { text-decoration: underline; }
.exercise-map a .number { text-decoration: none; }
.exercise-map a:focus { outline: none; }
.exercise-map a:focus-visible .row { stroke: var(--map-focus, #b06107); stroke-width: 4; }
.exercise-map .chip { fill: var(--map-paper, #fff); stroke: var(--map-muted, #48566b); }
.exercise-map .given .chip { fill: var(--map-encoder, #316781);
  stroke: var(--map-encoder, #316781); }
.exercise-map .given text { fill: var(--map-paper, #fff); }
.exercise-map .inside { fill: none; stroke: var(--map-muted, #48566b); stroke-width: 1.3; }
.exercise-map .inside-tip { fill: var(--map-muted, #48566b); }
.exercise-map .way { fill: none; stroke: var(--role); stroke-width: 1.8; }
.exercise-map .again { stroke-dasharray: 2 4; }
.exercise-map .tip { fill: var(--role); }
.exercise-map .even { --role: var(--map-encoder, #316781); }
.exercise-map .odd { --role: var(--map-decoder, #b107b5); }
.exercise-map .dull { --role: var(--map-muted, #48566b); }
"""

WIDTH, ROW_X, ROW_WIDTH = 464, 4, 318
CHIP, STEP, CHIPS_X = 22, 36, 16
LANE = 15
TITLE, TITLE_LINE = 34, 17
"""Characters of a title before it is wrapped, left of the arrows' names; and a line's height."""
ENTRY = 13
"""Between two arrows that end at one row."""


class Feed(NamedTuple):
    """A reuse of one part in later assignments, drawn as one line with branches."""

    source: str
    targets: tuple[str, ...]
    part: int
    """The part that is reused; 0 where only the checks are repeated."""


def feeds(assignments: Sequence[Assignment]) -> list[Feed]:
    """Return the lines of the map, from the shortest to the longest."""
    found: dict[tuple[str, int], list[str]] = {}
    for each in assignments:
        for source, part in dict.fromkeys((take.assignment, take.part) for take in each.takes):
            found.setdefault((source, part), []).append(each.name)
        for source in each.checks_of:
            found.setdefault((source, 0), []).append(each.name)
    order = [each.name for each in assignments]
    lines = [Feed(source, tuple(targets), part) for (source, part), targets in found.items()]
    return sorted(lines, key=lambda line: order.index(line.targets[-1]) - order.index(line.source))


def lanes(lines: Sequence[Feed], order: Sequence[str]) -> list[int]:
    """Give each line the lane nearest to the rows in which it meets no other line."""
    taken: list[list[tuple[int, int]]] = []
    chosen = []
    for line in lines:
        first, last = order.index(line.source), order.index(line.targets[-1])
        free = [
            number
            for number, others in enumerate(taken)
            if all(last < begin or end < first for begin, end in others)
        ]
        if not free:
            taken.append([])
            free = [len(taken) - 1]
        taken[free[0]].append((first, last))
        chosen.append(free[0])
    return chosen


def heights(assignments: Sequence[Assignment], lines: Sequence[Feed]) -> list[int]:
    """Return the height of each row, with space for its arcs and arrows."""
    ends = [
        sum((each.name in line.targets) + (each.name == line.source) for line in lines)
        for each in assignments
    ]
    return [
        max(
            54 + 8 * any(part.uses for part in each.parts) + TITLE_LINE * (len(titles(each)) - 1),
            ENTRY * (count + 1),
        )
        for each, count in zip(assignments, ends, strict=True)
    ]


def titles(each: Assignment) -> list[str]:
    """Return the lines of a title."""
    return textwrap.wrap(each.title, TITLE)


def draw(assignments: Sequence[Assignment], address: Address = lambda chapter: None) -> str:
    """Return the map as SVG."""
    order = [each.name for each in assignments]
    lines = feeds(assignments)
    tops, top = {}, 0.0
    tall = dict(zip(order, heights(assignments, lines), strict=True))
    for name in order:
        tops[name] = top
        top += tall[name] + 6
    given = {(line.source, line.part) for line in lines}
    pieces = [row(each, tops[each.name], tall[each.name], given, address) for each in assignments]

    chosen = lanes(lines, order)
    at = dict.fromkeys(order, 0)  # arrows that begin or end at a row so far

    def slot(name: str) -> float:
        at[name] += 1
        count = sum((name in line.targets) + (name == line.source) for line in lines)
        return tops[name] + tall[name] * at[name] / (count + 1)

    # At one row, what comes from far above enters above what comes from near.
    entries = {
        (line, target): 0.0
        for target in order
        for line in sorted(lines, key=lambda line: order.index(line.source))
        if target in line.targets
    }
    for line, target in entries:
        entries[line, target] = slot(target)
    for line, lane in sorted(zip(lines, chosen, strict=True), key=lambda pair: pair[1]):
        x = ROW_X + ROW_WIDTH + 22 + LANE * lane
        role = ("even", "odd")[lane % 2] if line.part else "dull"
        ends = [entries[line, target] for target in line.targets]
        pieces.append(way(line, x, slot(line.source), ends, role))
    said = "; ".join(spoken(assignments)) or "no part is reused"
    return (
        f'<svg class="exercise-map" xmlns="http://www.w3.org/2000/svg" role="group" '
        f'viewBox="0 0 {WIDTH} {top:g}" aria-label="{escape(f"The assignments: {said}.")}">'
        f"<style>{STYLE}</style>{''.join(pieces)}</svg>"
    )


def spoken(assignments: Sequence[Assignment]) -> Iterator[str]:
    """Yield a sentence for each assignment that others feed."""
    for each in assignments:
        sources = [f"{take.assignment[:2]} part {take.part}" for take in each.takes]
        if sources:
            yield f"{each.number} reuses {', '.join(sources)}"
        if each.checks_of:
            again = ", ".join(name[:2] for name in each.checks_of)
            yield f"{each.number} repeats checks of {again}"


def row(
    each: Assignment, top: float, height: float, given: set[tuple[str, int]], address: Address
) -> str:
    """Return an assignment's row: its title, and a chip for each part."""
    chips, arcs = [], []
    lines = titles(each)
    y = top + 26 + TITLE_LINE * (len(lines) - 1)

    def middle(number: int) -> float:
        return CHIPS_X + STEP * (number - 1) + CHIP / 2

    for part in each.parts:
        state = " given" * ((each.name, part.number) in given)
        said = f"Part {part.number}: {part.title}, {part.points} points"
        chips.append(
            f'<g class="part{state}" data-part="{each.number}.{part.number}">'
            f"<title>{escape(said)}</title>"
            f'<rect class="chip" x="{middle(part.number) - CHIP / 2:g}" y="{y:g}" '
            f'width="{CHIP}" height="{CHIP}" rx="5"/>'
            f'<text x="{middle(part.number):g}" y="{y + 16:g}" text-anchor="middle">'
            f"{part.number}</text></g>"
        )
        for used in part.uses:
            # A small offset distinguishes arcs that leave a part from arcs that reach it.
            turn = 4 if used < part.number else -4
            start, end, foot = middle(used) + turn, middle(part.number) - turn, y + CHIP
            low = foot + 6 + 2 * abs(part.number - used)
            arcs.append(
                f'<path class="inside" data-arc="{each.number}.{used}-{part.number}" '
                f'd="M{start:g} {foot:g} C{start:g} {low:g} {end:g} {low:g} {end:g} {foot + 4:g}"/>'
                f'<polygon class="inside-tip" points="{end:g},{foot:g} {end - 3.5:g},{foot + 6:g} '
                f'{end + 3.5:g},{foot + 6:g}"/>'
            )
    inside = (
        f'<rect class="row" x="{ROW_X}" y="{top:g}" width="{ROW_WIDTH}" height="{height:g}" '
        f'rx="8"/>'
        f'<text class="number" x="{CHIPS_X}" y="{top + 18:g}">{each.number}</text> '
        + " ".join(
            f'<text x="{CHIPS_X + 24}" y="{top + 18 + TITLE_LINE * i:g}">{escape(line)}</text>'
            for i, line in enumerate(lines)
        )
    )
    where = address(int(each.number))
    if where:
        said = f"{each.number} {each.title}: go to the chapter"
        inside = f'<a href="{escape(where)}" aria-label="{escape(said)}">{inside}</a>'
    return f'<g data-assignment="{each.number}">{inside}{"".join(chips)}{"".join(arcs)}</g>'


def way(line: Feed, x: float, start: float, ends: Sequence[float], role: str) -> str:
    """Return a line down at `x` from its source, with an arrow into each target."""
    edge, round_by = ROW_X + ROW_WIDTH, 6
    style = f"way{'' if line.part else ' again'}"
    pieces = []
    for end in ends:
        pieces.append(
            f'<path class="{style}" d="M{edge:g} {start:g} H{x - round_by:g} '
            f"Q{x:g} {start:g} {x:g} {start + round_by:g} V{end - round_by:g} "
            f'Q{x:g} {end:g} {x - round_by:g} {end:g} H{edge + 6:g}"/>'
            f'<polygon class="tip" points="{edge:g},{end:g} {edge + 8:g},{end - 4.5:g} '
            f'{edge + 8:g},{end + 4.5:g}"/>'
        )
    name = f"{line.source[:2]}.{line.part}" if line.part else line.source[:2]
    pieces += [
        f'<text class="small" x="{edge - 4:g}" y="{end + 4:g}" text-anchor="end">{name}</text>'
        for end in ends
    ]
    targets = ",".join(target[:2] for target in line.targets)
    return f'<g class="{role}" data-from="{name}" data-to="{targets}">{"".join(pieces)}</g>'


# The tables


def table(assignments: Sequence[Assignment], pages: dict[int, str]) -> list[str]:
    """Return one row for each assignment, in Markdown."""
    lines = [
        "| assignment | parts | points | original | minutes | reuses | reused by |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in assignments:
        took = [f"{take.assignment[:2]}.{take.part}" for take in each.takes]
        took += [f"checks of {name[:2]}" for name in each.checks_of]
        later = [
            f"{each.number}.{part.number} by {', '.join(takers)}"
            for part in each.parts
            if (takers := takers_of(each, part, assignments))
        ]
        if takers := [other.number for other in assignments if each.name in other.checks_of]:
            later.append(f"checks by {', '.join(takers)}")
        original = sum(part.points for part in each.parts if part.original)
        cells = [
            *(linked(each, pages), len(each.parts), each.points, original, each.minutes),
            *(", ".join(took) or "–", "; ".join(later) or "–"),
        ]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    points = sum(each.points for each in assignments)
    original = sum(p.points for each in assignments for p in each.parts if p.original)
    minutes = sum(each.minutes for each in assignments)
    number = sum(len(each.parts) for each in assignments)
    lines.append(
        f"| **total: {len(assignments)}** | {number} | {points} | {original} | {minutes} | | |"
    )
    return lines


def takers_of(each: Assignment, part: Part, assignments: Sequence[Assignment]) -> list[str]:
    """Return the numbers of the assignments that reuse a part of this one."""
    wanted = (each.name, part.number)
    return [
        other.number
        for other in assignments
        if wanted in [(take.assignment, take.part) for take in other.takes]
    ]


def parts_table(assignments: Sequence[Assignment]) -> list[str]:
    """Return one row for each part, in Markdown."""
    lines = [
        "| part | topic | points | minutes | difficulty | calls |",
        "|---|---|---|---|---|---|",
    ]
    for each in assignments:
        for part in each.parts:
            uses = ", ".join(f"{each.number}.{number}" for number in part.uses) or "–"
            title = part.title + " (original)" * part.original
            lines.append(
                f"| {each.number}.{part.number} | {title} | {part.points} | {part.minutes} "
                f"| {part.difficulty} | {uses} |"
            )
    return lines


def linked(each: Assignment, pages: dict[int, str]) -> str:
    """Return the assignment's number and title, with a link to its chapter if there is one."""
    label = f"{each.number} {each.title}"
    page = pages.get(int(each.number))
    return f"[{label}](/{page}.md)" if page else label


# In the book


def pages_of(names: Sequence[str]) -> dict[int, str]:
    """Return the chapters' pages by their numbers."""
    return {number: name for name in names if (number := chapter_of(name)) is not None}


class exercise_map_node(nodes.General, nodes.Element):
    """The drawing of the map."""


class FromNotebooks(SphinxDirective):
    """A directive that reads the notebooks; its page is read again when they change."""

    def assignments(self) -> list[Assignment]:
        """Return all assignments; an error in a notebook is one of this page."""
        root = Path(self.env.srcdir)
        for path in [*notebook_paths(root), *(root / "src/attentively/checks").rglob("*.py")]:
            self.env.note_dependency(str(path))
        self.env.note_reread()  # a notebook that is new was nobody's dependency
        try:
            return read_assignments(root)
        except (OSError, SyntaxError, ValueError) as problem:
            raise self.error(str(problem)) from None


class ExerciseMapDirective(FromNotebooks):
    """Make a figure from the map and its caption."""

    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return one figure."""
        drawn = exercise_map_node("", assignments=self.assignments())
        figure = nodes.figure("", drawn, classes=["exercise-map"])
        self.set_source_info(figure)
        if self.content:
            words, messages = self.parse_inline(" ".join(self.content))
            figure += [nodes.caption("", "", *words), *messages]
        self.add_name(figure)
        return [figure]


class ExerciseTableDirective(FromNotebooks):
    """Make a table."""

    option_spec: ClassVar = {"parts": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the parsed table."""
        assignments = self.assignments()
        if "parts" in self.options:
            lines = parts_table(assignments)
        else:
            lines = table(assignments, pages_of(sorted(self.env.found_docs)))
        node = nodes.container()
        source = self.get_source_info()[0]
        self.state.nested_parse(StringList(lines, source=source), self.content_offset, node)
        return node.children


def visit_map(self: HTML5Translator, node: exercise_map_node) -> None:
    """Draw the map with links to the chapters of the book."""
    pages = pages_of(sorted(self.builder.env.found_docs))
    here = self.builder.current_docname

    def address(chapter: int) -> str | None:
        return self.builder.get_relative_uri(here, pages[chapter]) if chapter in pages else None

    self.body.append(draw(node["assignments"], address))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(exercise_map_node, html=(visit_map, None))
    app.add_directive("exercise-map", ExerciseMapDirective)
    app.add_directive("exercise-table", ExerciseTableDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
