r"""Tables of results: HTML on a page and in JupyterLab, aligned text in a terminal.

`show` accepts the rows of a results file (``book/results/*.json``). Conditions define the rows of
the table, columns define the displayed values, and the seeds of one condition are averaged::

    tables.show(
        results["rows"],
        by=[Condition("attention", "Score")],
        each="by_clauses",
        columns=[
            Column("exact_match", "1 clause", "%", scale=100, best="max", where={"clauses": 1}),
            Column("exact_match", "2 clauses", "%", scale=100, best="max", where={"clauses": 2}),
            Column("parameters", "Parameters"),
        ],
        caption="Exact match on unseen sentences.",
    )
"""

import math
import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args
from xml.etree import ElementTree

from tabulate import tabulate

Row = Mapping[str, Any]
Key = str | Callable[[Row], Any]
Best = Literal["max", "min"]
Spread = Literal["range", "sd", "none"]

MISSING = "–"
"""The text of a cell without a value."""

_FIGURE_SPACE = "\u2007"  # as wide as a digit, and kept by browsers
_HIDDEN = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)"
_NUMBERS = "text-align: right; white-space: nowrap"
_WORDS = "text-align: left"
_ABSENT = object()


@dataclass(frozen=True)
class Condition:
    """A condition that distinguishes the rows of a table, such as the model or the number of steps.

    `key` is a key of the rows (``"alive.tokens"`` reads a nested one) or a function of a row.
    `names` contains the text for each value and, with `order`, determines the order of the values.
    """

    key: Key
    header: str
    unit: str = ""
    names: Mapping[Any, str] | None = None


@dataclass(frozen=True)
class Column:
    """A measured quantity, or a text, that a table shows for each condition.

    `key` is a key of the rows (``"alive.gold.loss"`` reads a nested one) or a function of a row.
    Numbers are multiplied by `scale`, so that ``unit="%", scale=100`` shows percentages, and
    rounded to `digits` decimals; by default none where all numbers are whole, otherwise two.
    `best` marks the highest (``"max"``) or the lowest (``"min"``) mean, and all that equal it after
    rounding. `where` selects the rows with these values. With `optional`, rows may lack the key;
    like a value of None they are shown as "–".

    Raises `ValueError` for an unknown `best`.
    """

    key: Key
    header: str
    unit: str = ""
    digits: int | None = None
    scale: int | float = 1
    best: Best | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False

    def __post_init__(self) -> None:
        if self.best not in (None, *get_args(Best)):
            raise ValueError(
                f"best={self.best!r} is unknown: choose one of {', '.join(get_args(Best))}"
            )


class _Cell(NamedTuple):
    text: str
    spread: str = ""
    best: bool = False


class _Shown(NamedTuple):
    """A column as it is shown: its cells from top to bottom."""

    header: str
    numeric: bool
    cells: list[_Cell]
    names_rows: bool = False


@dataclass(frozen=True, repr=False)
class Table:
    """A table for display: the last line of a cell, or ``IPython.display.display(table)``."""

    caption: str
    columns: Sequence[_Shown]
    notes: Sequence[str]
    legend: str
    """Description of the marked cells; empty if none is marked."""

    def _repr_html_(self) -> str:
        """Return the table as HTML, with escaped texts."""
        frame = ElementTree.Element("div", {"class": "results-table"})
        # The keyboard scrolls the element with the focus; the label names it.
        box = _add(frame, "div", tabindex="0", role="region")
        box.set("aria-label", self.caption)
        # The book's theme shows HTML in dark colours where it finds a table of this class.
        table = _add(box, "table")
        table.set("class", "dataframe")
        _add(_add(table, "caption"), "span", self.caption)
        head = _add(_add(table, "thead"), "tr")
        for column in self.columns:
            style = "text-align: right" if column.numeric else _WORDS
            _add(head, "th", column.header, scope="col", style=style)
        body = _add(table, "tbody")
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            line = _add(body, "tr")
            for column, cell in zip(self.columns, cells, strict=True):
                _add_cell(line, column, cell)
        for note in [*self.notes, *([f"Bold: {self.legend}"] if self.legend else [])]:
            _add(frame, "p", note)
        return ElementTree.tostring(frame, encoding="unicode", short_empty_elements=False)

    def __repr__(self) -> str:
        """Return the table as aligned text, with an asterisk where HTML has bold."""
        columns = [_as_text(column) for column in self.columns]
        lines = tabulate(
            list(zip(*columns, strict=True)),
            headers=[column.header for column in self.columns],
            colalign=["right" if column.numeric else "left" for column in self.columns],
            disable_numparse=True,
            preserve_whitespace=True,
        )
        width = max(60, lines.index("\n"))
        notes = [*self.notes, *([f"* {self.legend}"] if self.legend else [])]
        told = [textwrap.fill(text, width) for text in (self.caption, *notes)]
        return "\n".join([told[0], "", lines, *([""] if notes else []), *told[1:]])


def show(
    rows: Iterable[Row],
    columns: Sequence[Column],
    *,
    by: Sequence[Condition],
    caption: str,
    each: str = "",
    order: Sequence[str] = (),
    spread: Spread = "range",
    notes: str | Sequence[str] = (),
) -> Table:
    """Return a table with a row for each condition, the seeds of a condition averaged.

    `by` are the conditions; their values are the first columns and the headers of the rows. The
    key ``seed`` distinguishes the rows of a condition. A cell shows their mean, followed by the
    lowest and highest value (`spread` ``"range"``), by the sample standard deviation
    (``"sd"``), or by nothing (``"none"``); a note states which.

    `each` names a key whose value is a list of rows, such as ``"by_clauses"``: each of its entries
    then counts as a row, together with the keys of the surrounding row. If both have a key, the
    value of the entry is used.

    Conditions appear in the order of the rows, or are sorted by the keys in `order` (by the header
    of a condition whose key is a function): by their position in `names`, or by value.

    Raises `ValueError` if there are no rows, a key is missing in some or all rows, `where` matches
    no row, or one seed has several values of a column under one condition.
    """
    if spread not in get_args(Spread):
        raise ValueError(
            f"spread={spread!r} is unknown: choose one of {', '.join(get_args(Spread))}"
        )
    given = expanded_rows(list(rows), each)
    if not given:
        raise ValueError("there are no rows to show")
    if not by:
        raise ValueError("by=[] contains no condition: the rows of a table need headers")

    for one in by:
        for value in values_of(given, one):
            if one.names is not None and value not in one.names:
                there = ", ".join(map(repr, one.names))
                raise ValueError(f"the names of {one.header!r} lack {value!r}; they are {there}")
    values = zip(*(values_of(given, one) for one in by), strict=True)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for value, row in zip(values, given, strict=True):
        groups.setdefault(value, []).append(row)
    groups = _sorted(groups, by, order)

    heads = [_conditions(one, [value[i] for value in groups]) for i, one in enumerate(by)]
    measured = [_measure(column, given, groups, by) for column in columns]
    shown = [_shown(column, runs, spread) for column, runs in zip(columns, measured, strict=True)]
    told = [notes] if isinstance(notes, str) else [*notes]
    told += _seeds_note({row["seed"] for row in given if "seed" in row}, measured, spread)
    return Table(caption, heads + shown, told, _legend(columns, shown))


def expanded_rows(rows: list[Row], each: str) -> list[Row]:
    """Return a row for each entry of the lists under the key `each`."""
    if not each or not rows:
        return rows
    lists = _lookup(rows, each)
    for entries in lists:
        if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
            raise ValueError(f"each={each!r} must contain lists of rows, not {entries!r:.60}")
    return [
        {**{key: value for key, value in row.items() if key != each}, **entry}
        for row, entries in zip(rows, lists, strict=True)
        for entry in entries
    ]


def _lookup(rows: Sequence[Row], key: str, optional: bool = False) -> list[Any]:
    """Return the value of each row; None where an optional value is missing."""
    found = [_nested(row, key) for row in rows]
    missing = [row for row, value in zip(rows, found, strict=True) if value is _ABSENT]
    if len(missing) == len(rows):
        raise ValueError(f"no row has the key {key!r}; the keys are {_keys(rows)}")
    if missing and not optional:
        start = ", ".join(f"{name}={value!r:.30}" for name, value in [*missing[0].items()][:4])
        raise ValueError(
            f"{len(missing)} of {len(rows)} rows lack the key {key!r}, the first of them with "
            f"{start}: select rows, or use optional=True for the column"
        )
    return [None if value is _ABSENT else value for value in found]


def _nested(row: Row, key: str) -> Any:
    """Return the value of ``"loss"`` or of ``"alive.gold.loss"``."""
    if key in row:
        return row[key]
    first, _, rest = key.partition(".")
    inner = row.get(first)
    return _nested(inner, rest) if rest and isinstance(inner, Mapping) else _ABSENT


def _keys(rows: Iterable[Row]) -> str:
    return ", ".join(dict.fromkeys(key for row in rows for key in row))


def values_of(rows: Sequence[Row], one: Condition | Column) -> list[Any]:
    """Return the value of a condition or a column in each row."""
    if isinstance(one.key, str):
        return _lookup(rows, one.key, isinstance(one, Column) and one.optional)
    try:
        return [one.key(row) for row in rows]
    except KeyError as error:
        raise ValueError(
            f"the function for {one.header!r} reads the key {error}, which a row lacks; "
            f"the keys are {_keys(rows)}"
        ) from error


def _sorted(
    groups: dict[tuple[Any, ...], list[Row]], by: Sequence[Condition], order: Sequence[str]
) -> dict[tuple[Any, ...], list[Row]]:
    """Return the groups, sorted by the conditions that `order` names."""
    known = [one.key if isinstance(one.key, str) else one.header for one in by]
    for key in order:
        if key not in known:
            raise ValueError(
                f"order: {key!r} is not a condition; the conditions are {', '.join(known)}"
            )
    places = [known.index(key) for key in order]

    def rank(value: Any, names: Mapping[Any, str] | None) -> Any:
        if names is not None:
            return [*names].index(value)
        return (value is not None, value)  # none before all

    ordered = sorted(groups, key=lambda values: [rank(values[i], by[i].names) for i in places])
    return {values: groups[values] for values in ordered}


def _conditions(one: Condition, values: Sequence[Any]) -> _Shown:
    """Return the column of row headers of a condition."""
    numeric = one.names is None and all(_is_number(value) for value in values)
    if numeric:  # as many decimals as the value with the most: 0.95, 0.90
        digits = max(-int(Decimal(str(value)).as_tuple().exponent) for value in values)
        texts = [_number(float(value), max(0, digits)) for value in values]
    elif one.names is None:
        texts = [_text(value) for value in values]
    else:
        texts = [one.names[value] for value in values]
    return _Shown(_header(one), numeric, [_Cell(text) for text in texts], names_rows=True)


def _measure(
    column: Column,
    rows: Sequence[Row],
    groups: Mapping[tuple[Any, ...], Sequence[Row]],
    by: Sequence[Condition],
) -> list[list[Any]]:
    """Return the values of a column for each condition, one for each seed."""
    chosen = list(rows)
    for key, wanted in column.where.items():
        values = _lookup(chosen, key, optional=True)
        chosen = [row for row, value in zip(chosen, values, strict=True) if value == wanted]
        if not chosen:
            there = ", ".join(dict.fromkeys(map(repr, values)))
            raise ValueError(
                f"{column.header!r}: no row has {key}={wanted!r}; its values are {there}"
            )
    value_of = dict(zip(map(id, chosen), values_of(chosen, column), strict=True))
    measured = []
    for condition, group in groups.items():
        by_seed: dict[Any, Any] = {}
        first: dict[Any, Row] = {}
        here = ", ".join(
            f"{one.header}={value!r}" for one, value in zip(by, condition, strict=True)
        )
        for row in group:
            if id(row) not in value_of:
                continue
            seed, value = row.get("seed"), value_of[id(row)]
            if seed not in by_seed:
                by_seed[seed], first[seed] = value, row
            elif by_seed[seed] is not value and by_seed[seed] != value:
                raise ValueError(
                    f"{column.header!r} has several values for seed {seed} of {here}, such as "
                    f"{by_seed[seed]!r:.30} and {value!r:.30}: add a condition to by= or "
                    f"where=, for example {_differences(first[seed], row)}"
                )
        missing = [seed for seed, value in by_seed.items() if value is None]
        if 0 < len(missing) < len(by_seed):
            raise ValueError(
                f"{column.header!r} of {here} has no value for seed {missing[0]}, but values for "
                "others: use a function as key that replaces missing values"
            )
        measured.append([value for value in by_seed.values() if value is not None])
    return measured


def _differences(one: Row, other: Row) -> str:
    """Return the keys that distinguish two rows, without those of measured numbers."""
    keys = [
        key
        for key in one
        if isinstance(one[key], str | int) and isinstance(other.get(key), str | int)
    ]
    return ", ".join(key for key in keys if one[key] != other[key]) or "a key that they differ in"


def _shown(column: Column, measured: Sequence[list[Any]], spread: Spread) -> _Shown:
    """Return a column as it is shown: means with the range or deviation of the seeds, or text."""
    runs = [value for values in measured for value in values]
    if not all(_is_number(value) for value in runs):
        for values in measured:
            if len(set(map(_text, values))) > 1:
                raise ValueError(
                    f"the text {column.header!r} differs between seeds of one condition: "
                    f"{', '.join(dict.fromkeys(map(_text, values)))}"
                )
        texts = [_text(values[0]) if values else MISSING for values in measured]
        return _Shown(_header(column), False, [_Cell(text) for text in texts])

    scaled = [[float(value) * column.scale for value in values] for values in measured]
    means = [statistics.fmean(values) if values else None for values in scaled]
    digits = column.digits
    if digits is None:
        there = [mean for mean in means if mean is not None] + [
            x for values in scaled for x in values
        ]
        digits = 0 if all(math.isfinite(x) and x == int(x) for x in there) else 2
    texts = [MISSING if mean is None else _number(mean, digits) for mean in means]
    best = _best(means, texts, column.best)
    varies = spread != "none" and any(len(set(values)) > 1 for values in scaled)
    cells = [
        _Cell(text, _spread(values, digits, spread) if varies else "", text in best)
        for text, values in zip(texts, scaled, strict=True)
    ]
    return _Shown(_header(column), True, cells)


def _best(means: Sequence[float | None], texts: Sequence[str], best: Best | None) -> set[str]:
    """Return the texts to mark: none where all that is shown is the same."""
    there = {
        text: mean
        for text, mean in zip(texts, means, strict=True)
        if mean is not None and not math.isnan(mean)
    }
    if best is None or len(there) < 2:
        return set()
    choose = max if best == "max" else min
    return {choose(there, key=lambda text: there[text])}


def _spread(values: Sequence[float], digits: int, spread: Spread) -> str:
    """Return the text after the mean of several values; empty for a single one."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return ""
    if spread == "sd":
        return f"± {_number(statistics.stdev(values), digits)}"
    return f"({_number(min(values), digits)}–{_number(max(values), digits)})"


def _seeds_note(
    seeds: Set[Any], measured: Sequence[Sequence[list[Any]]], spread: Spread
) -> list[str]:
    """Return a note with the number of seeds and the meaning of the text after a mean."""
    groups = [runs for values in measured for runs in values if runs and all(map(_is_number, runs))]
    counts = sorted({len(runs) for runs in groups})
    if not seeds or not counts:
        return []
    if counts == [1]:
        return ["One seed." if len(seeds) == 1 else "Each value is of one seed."]
    note = f"Mean of {' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))} seeds"
    if spread != "none" and any(len(set(runs)) > 1 for runs in groups):
        note += " (lowest–highest)" if spread == "range" else " ± sample standard deviation"
    return [note + "."]


def _legend(columns: Sequence[Column], shown: Sequence[_Shown]) -> str:
    """Return a description of the marked cells, with the direction."""
    parts = []
    for best, word in (("max", "highest"), ("min", "lowest")):
        marked = [
            column.header
            for column, one in zip(columns, shown, strict=True)
            if column.best == best and any(cell.best for cell in one.cells)
        ]
        if marked:
            parts.append(f"{word}: {', '.join(marked)}")
    return f"best of its column ({'; '.join(parts)})." if parts else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _number(value: float, digits: int) -> str:
    """Return a number with thousands separated, a true minus sign, and no negative zero."""
    text = f"{value:,.{digits}f}"
    negative = text.startswith("-") and any(digit in text for digit in "123456789")
    return ("−" if negative else "") + text.removeprefix("-")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return MISSING if value is None else str(value)


def _header(one: Condition | Column) -> str:
    return f"{one.header} ({one.unit})" if one.unit else one.header


def _as_text(column: _Shown) -> list[str]:
    """Return the cells of a column as text, with marks and ranges of equal width."""
    if not column.numeric:
        return [cell.text for cell in column.cells]
    spread = max(len(cell.spread) for cell in column.cells)
    marks = any(cell.best for cell in column.cells)
    return [
        cell.text
        + ("*" if cell.best else " ") * marks
        + (f" {cell.spread:{spread}}" if spread else "")
        for cell in column.cells
    ]


def _add(
    parent: ElementTree.Element, tag: str, text: str = "", **attributes: str
) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _add_cell(line: ElementTree.Element, column: _Shown, cell: _Cell) -> None:
    """Add a cell, with its mean aligned to the other means of the column."""
    style = _NUMBERS if column.numeric else _WORDS
    if column.names_rows and not column.numeric:  # on a phone, not one word a line
        style += f"; min-width: min({len(cell.text)}ch, 7rem)"
    added = (
        _add(line, "th", scope="row", style=style)
        if column.names_rows
        else _add(line, "td", style=style)
    )
    width = max(len(one.spread) for one in column.cells)
    spread = f" {cell.spread.ljust(width, _FIGURE_SPACE)}" if width else ""
    if cell.best:
        _add(added, "strong", cell.text)
        _add(added, "span", " (best)", style=_HIDDEN).tail = spread
    else:
        added.text = cell.text + spread
