"""Tables of results: values worked by hand, HTML as a parser reads it, text, and errors.

Each property is a function of the module, so that it can be tested on the module as it is and on
one with a mistake, which must fail it.
"""

import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
from bs4 import BeautifulSoup

from attentively.analysis import tables
from attentively.analysis.tables import Column, Condition

RESULTS = Path(__file__).resolve().parents[2] / "book" / "results"

# Three seeds of dot, two of location; the means of exact are 0.7 and 0.9, of loss 0.5 and 1.5.
ROWS = [
    {"kind": "dot", "seed": 0, "exact": 0.5, "loss": 0.25, "size": 1200, "deep": {"er": 0.1}},
    {"kind": "dot", "seed": 1, "exact": 0.7, "loss": 0.50, "size": 1200, "deep": {"er": 0.1}},
    {"kind": "location", "seed": 0, "exact": 0.8, "loss": 1.0, "size": 7, "deep": {"er": None}},
    {"kind": "dot", "seed": 2, "exact": 0.9, "loss": 0.75, "size": 1200, "deep": {"er": 0.1}},
    {"kind": "location", "seed": 1, "exact": 1.0, "loss": 2.0, "size": 7, "deep": {"er": None}},
]
# Two seeds; each has a list of rows, of which the first is the same for both.
NESTED = [
    {"seed": 0, "size": 5, "groups": [{"clauses": 1, "bleu": 90.0}, {"clauses": 2, "bleu": 10.0}]},
    {"seed": 1, "size": 5, "groups": [{"clauses": 1, "bleu": 90.0}, {"clauses": 2, "bleu": 30.0}]},
]


def table_of(module, columns, rows=ROWS, by=("kind", "Score"), **options):
    """Return a table of `columns`, each a tuple (key, header, options)."""
    conditions = [module.Condition(*by)]
    made = [module.Column(key, header, **more) for key, header, more in columns]
    return module.show(rows, made, by=conditions, caption="Scores", **options)


def parsed(table):
    return BeautifulSoup(table._repr_html_(), "html.parser")


def column(table, place):
    """Return the text of the cells of a column, without what is only spoken or fills up."""
    page = parsed(table)
    for hidden in page.select("td span"):
        hidden.extract()
    lines = [line.find_all(["th", "td"]) for line in page.tbody.find_all("tr")]
    return [line[place].get_text().strip().strip("\u2007") for line in lines]


def marked(table, place):
    """Return whether the cells of a column are bold; the word for the ear must agree."""
    lines = [line.find_all(["th", "td"]) for line in parsed(table).tbody.find_all("tr")]
    bold = [line[place].strong is not None for line in lines]
    assert ["(best)" in line[place].get_text() for line in lines] == bold
    return bold


def means_and_ranges(module):
    table = table_of(module, [("exact", "Exact", {}), ("loss", "Loss", {"digits": 1})])
    assert column(table, 0) == ["dot", "location"]
    assert column(table, 1) == ["0.70 (0.50–0.90)", "0.90 (0.80–1.00)"]
    assert column(table, 2) == ["0.5 (0.2–0.8)", "1.5 (1.0–2.0)"]
    assert list(table.notes) == ["Mean of 2 to 3 seeds (lowest–highest)."]


def standard_deviations(module):
    """Of 0.5, 0.7, 0.9: the root of (0.04 + 0 + 0.04) / 2."""
    table = table_of(module, [("exact", "Exact", {})], spread="sd")
    assert column(table, 1) == ["0.70 ± 0.20", "0.90 ± 0.14"]
    assert list(table.notes) == ["Mean of 2 to 3 seeds ± sample standard deviation."]


def values_without_spread(module):
    """What is the same for all seeds has no range, and one seed is called one seed."""
    table = table_of(module, [("size", "Parameters", {}), ("exact", "Exact", {})])
    assert column(table, 1) == ["1,200", "7"]
    one = table_of(module, [("exact", "Exact", {})], [ROWS[0], ROWS[2]])
    assert column(one, 1) == ["0.50", "0.80"]
    assert list(one.notes) == ["One seed."]
    each = table_of(module, [("exact", "Exact", {})], ROWS[:2], ("seed", "Seed"))
    assert list(each.notes) == ["Each value is of one seed."]
    plain = table_of(module, [("exact", "Exact", {})], [{"kind": "a", "exact": 0.5}], notes="Mine.")
    assert list(plain.notes) == ["Mine."]


def units_and_scales(module):
    percent = {"unit": "%", "scale": 100, "digits": 0}
    table = table_of(module, [("exact", "Exact", percent)], spread="none")
    assert [head.get_text() for head in parsed(table).thead.find_all("th")] == [
        "Score",
        "Exact (%)",
    ]
    assert column(table, 1) == ["70", "90"]


def best_values(module):
    columns = [("exact", "Exact", {"best": "max"}), ("loss", "Loss", {"best": "min"})]
    table = table_of(module, [*columns, ("exact", "Unmarked", {})])
    assert [marked(table, place) for place in (0, 1, 2, 3)] == [
        [False, False],
        [False, True],
        [True, False],
        [False, False],
    ]
    told = "best of its column (highest: Exact; lowest: Loss)."
    assert parsed(table).find_all("p")[-1].get_text() == f"Bold: {told}"
    assert repr(table).endswith(f"* {told}")


def ties(module):
    rows = [{"kind": kind, "x": x} for kind, x in [("e", math.nan), ("a", 0.501), ("b", 0.499)]]
    rows += [{"kind": "c", "x": 0.3}, {"kind": "d", "x": None}]
    table = table_of(module, [("x", "X", {"best": "max"})], rows)
    assert column(table, 1) == ["nan", "0.50", "0.50", "0.30", "–"]
    assert marked(table, 1) == [False, True, True, False, False]
    same = table_of(module, [("x", "X", {"best": "max"})], rows[1:3])
    assert marked(same, 1) == [False, False]
    assert "best" not in repr(same)


def missing_values(module):
    table = table_of(module, [("deep.er", "Error rate", {})])
    assert column(table, 1) == ["0.10", "–"]
    rows = [{"kind": "a"}, {"kind": "b", "x": 2}]
    assert column(table_of(module, [("x", "X", {"optional": True})], rows), 1) == ["–", "2"]


def lists_of_rows(module):
    """`each` makes a row of each entry, and `where` a column of some of them."""
    table = table_of(
        module,
        [("bleu", "BLEU", {"digits": 0}), ("size", "Size", {})],
        NESTED,
        ("clauses", "Clauses"),
        each="groups",
    )
    assert column(table, 0) == ["1", "2"]
    assert column(table, 1) == ["90 (90–90)", "20 (10–30)"]
    across = table_of(
        module,
        [("bleu", f"{n}", {"digits": 0, "where": {"clauses": n}}) for n in (1, 2)]
        + [("size", "Size", {})],
        NESTED,
        ("size", "Size"),
        each="groups",
    )
    assert [column(across, place) for place in (1, 2, 3)] == [["90"], ["20 (10–30)"], ["5"]]


def order_of_conditions(module):
    rows = [{"kind": kind, "steps": steps} for kind, steps in [("b", 10), ("a", 9), ("b", 9)]]
    conditions = [
        module.Condition("kind", "Kind", names={"b": "second letter", "a": "first letter"}),
        module.Condition("steps", "Steps"),
    ]
    columns = [module.Column(lambda row: row["steps"] * 2, "Twice")]
    for order, steps in {(): "10 9 9", ("steps",): "9 9 10", ("kind", "steps"): "9 10 9"}.items():
        table = module.show(rows, columns, by=conditions, caption="", order=order)
        assert column(table, 1) == steps.split()
    assert column(table, 0) == ["second letter", "second letter", "first letter"]


def structure(module):
    table = table_of(module, [("exact", "Exact", {}), ("loss", "Loss", {})], notes=["One.", "Two."])
    page = parsed(table)
    assert page.caption.get_text() == "Scores"
    assert [head["scope"] for head in page.thead.find_all("th")] == ["col"] * 3
    assert [head["scope"] for head in page.tbody.find_all("th")] == ["row"] * 2
    assert [note.get_text() for note in page.find_all("p")][:2] == ["One.", "Two."]
    assert page.table.find("p") is None
    box = page.table.parent
    assert (box["role"], box["tabindex"], box["aria-label"]) == ("region", "0", "Scores")
    assert "left" in page.tbody.th["style"]
    assert f"min({len(page.tbody.th.text)}ch, 7rem)" in page.tbody.th["style"]
    assert "right" in page.tbody.td["style"]
    assert "color" not in str(page)  # inherited, so that light and dark agree


def escaping(module):
    rows = [{"kind": "<b>a</b>", "text": "x < y & 'z'"}]
    table = module.show(
        rows,
        [module.Column("text", "<i>")],
        by=[module.Condition("kind", "A & B")],
        caption='<script>"1"',
        notes="<br>",
    )
    page = parsed(table)
    assert page.find(["b", "i", "br", "script"]) is None
    assert page.caption.get_text() == page.table.parent["aria-label"] == '<script>"1"'
    assert [cell.get_text() for cell in page.find_all(["th", "td"])] == [
        "A & B",
        "<i>",
        "<b>a</b>",
        "x < y & 'z'",
    ]
    assert page.p.get_text() == "<br>"


def aligned_text(module):
    rows = [
        {"kind": "short", "seed": seed, "x": x, "word": "le"} for seed, x in enumerate([9.0, 10.0])
    ]
    rows += [
        {"kind": "longer", "seed": seed, "x": x, "word": "elle"}
        for seed, x in enumerate([-2.0, -0.5])
    ]
    rows += [{"kind": "none", "seed": 0, "x": None, "word": None}]
    columns = [("x", "X", {"digits": 1, "best": "max", "unit": "nats"}), ("word", "Word", {})]
    table = table_of(module, columns, rows)
    assert repr(table).splitlines() == [
        "Scores",
        "",
        "Score             X (nats)  Word",
        "-------  -----------------  ------",
        "short     9.5* (9.0–10.0)   le",
        "longer   −1.2  (−2.0–−0.5)  elle",
        "none        –               –",
        "",
        "Mean of 2 seeds (lowest–highest).",
        "* best of its column (highest: X).",
    ]
    ends = [cell.get_text().replace(" (best)", "") for cell in parsed(table).select("td")[::2]]
    assert len({len(text) - len(text.split(" ")[0]) for text in ends}) == 1  # means end together


def numbers(module):
    rows = [{"rate": rate, "x": x} for rate, x in [(0.5, -0.001), (0.25, 12345.678), (1, True)]]
    table = table_of(module, [("x", "X", {})], rows[:2], ("rate", "Rate"))
    assert column(table, 0) == ["0.50", "0.25"]
    assert column(table, 1) == ["0.00", "12,345.68"]
    assert column(table_of(module, [("x", "X", {})], rows[2:], ("rate", "Rate")), 1) == ["yes"]


def agreement_within_a_seed(module):
    """Two experiments under one condition are not averaged."""
    rows = [{"kind": "a", "seed": 0, "feeding": feeding, "x": feeding + 1.5} for feeding in (0, 1)]
    with pytest.raises(ValueError, match=r"for seed 0 of Score='a'.* 1\.5 and 2\.5.*: .* feeding$"):
        table_of(module, [("x", "X", {})], rows)
    rows = [{"kind": "a", "seed": seed, "word": word} for seed, word in enumerate(["le", "la"])]
    with pytest.raises(ValueError, match=r"the text 'Word' differs between seeds .*: le, la"):
        table_of(module, [("word", "Word", {})], rows)
    rows = [{"kind": "a", "seed": seed, "x": x} for seed, x in enumerate([1.0, None])]
    with pytest.raises(
        ValueError, match=r"'X' of Score='a' has no value for seed 1, but values for others"
    ):
        table_of(module, [("x", "X", {})], rows)


BROKEN = [
    (means_and_ranges, "statistics.fmean(values)", "statistics.median_low(values[:2])"),
    (means_and_ranges, "min(values), digits", "values[-1], digits"),
    (standard_deviations, "statistics.stdev", "statistics.pstdev"),
    (values_without_spread, "if varies else", "if spread else"),
    (values_without_spread, "if counts == [1]:", "if not counts:"),
    (values_without_spread, "if len(seeds) == 1 else", "if counts == [1] else"),
    (units_and_scales, " * column.scale", ""),
    (units_and_scales, ' ({one.unit})" if', '" if'),
    (best_values, 'max if best == "max" else min', "max"),
    (best_values, '_add(added, "span", " (best)"', '_add(added, "span", ""'),
    (ties, "len(there) < 2", "len(there) < 1"),
    (ties, " and not math.isnan(mean)", ""),
    (ties, "_best(means, texts,", "_best(means, [str(mean) for mean in means],"),
    (missing_values, "MISSING if mean is None", "'' if mean is None"),
    (lists_of_rows, "value == wanted", "value is not wanted"),
    (lists_of_rows, "if key != each}, **entry}", "if key != each and 0}, **entry}"),
    (order_of_conditions, "[*names].index(value)", "names[value]"),
    (order_of_conditions, "for i in places]", "for i in sorted(places)[:1]]"),
    (structure, 'scope="row"', 'scope="col"'),
    (structure, '_add(_add(table, "caption"), "span", self.caption)', ""),
    (
        escaping,
        "short_empty_elements=False)",
        'short_empty_elements=False).replace("&lt;", "<").replace("&gt;", ">")',
    ),
    (aligned_text, '("*" if cell.best else " ") * marks', '"*" * cell.best'),
    (aligned_text, "cell.spread.ljust(width, _FIGURE_SPACE)", "cell.spread"),
    (numbers, ' and any(digit in text for digit in "123456789")', ""),
    (agreement_within_a_seed, "elif by_seed[seed] is not value and", "elif False and"),
    (agreement_within_a_seed, "if 0 < len(missing) < len(by_seed)", "if False"),
]
CHECKS = list(dict.fromkeys(check for check, _, _ in BROKEN))


@pytest.mark.parametrize("check", CHECKS)
def test_tables(check):
    check(tables)


@pytest.mark.parametrize(("check", "right", "wrong"), BROKEN)
def test_a_mistake_is_caught(check, right, wrong, monkeypatch):
    source = Path(tables.__file__).read_text(encoding="utf-8")
    assert source.count(right) == 1
    broken = ModuleType("broken_tables")
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    exec(source.replace(right, wrong), broken.__dict__)
    with pytest.raises(
        (AssertionError, AttributeError, LookupError, ValueError, pytest.fail.Exception)
    ):
        check(broken)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": []}, "there are no rows"),
        ({"by": []}, r"by=\[\] contains no condition"),
        (
            {"columns": [Column("los", "X")]},
            r"no row has the key 'los'; the keys are kind, seed, e",
        ),
        ({"columns": [Column("deep.no", "X")]}, r"no row has the key 'deep\.no'"),
        ({"columns": [Column("los", "X", optional=True)]}, r"no row has the key 'los'"),
        ({"by": [Condition("kinds", "X")]}, r"no row has the key 'kinds'; the keys are kind"),
        (
            {"rows": [*ROWS, {"kind": "new", "seed": 0}]},
            r"1 of 6 rows lack the key 'loss', the first of them with kind='new', seed=0",
        ),
        (
            {"columns": [Column(lambda row: row["los"], "Twice")]},
            r"function for 'Twice' reads the key 'los', .* the keys are kind, seed",
        ),
        (
            {"columns": [Column("loss", "X", where={"kind": "no"})]},
            r"'X': no row has kind='no'; its values are 'dot', 'location'",
        ),
        ({"columns": [Column("loss", "X", where={"kinds": 1})]}, r"no row has the key 'kinds'"),
        ({"order": ["seed"]}, r"order: 'seed' is not a condition; the conditions are kind"),
        ({"each": "loss"}, r"each='loss' must contain lists of rows, not 0\.25"),
        (
            {"by": [Condition("kind", "Score", names={"dot": "Dot"})]},
            r"the names of 'Score' lack 'location'; they are 'dot'",
        ),
    ],
)
def test_errors_say_what_there_is(changes, message):
    given = {"rows": ROWS, "columns": [Column("loss", "Loss")], "by": [Condition("kind", "Score")]}
    with pytest.raises(ValueError, match=message):
        tables.show(caption="Scores", **{**given, **changes})


@pytest.mark.usefixtures("unchecked")
def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match=r"best='highest' is unknown: choose one of max, min"):
        Column("loss", "Loss", best="highest")
    with pytest.raises(ValueError, match=r"spread='std' is unknown: choose one of range, sd, none"):
        tables.show(ROWS, [], by=[Condition("kind", "Score")], caption="", spread="std")


def test_published_results_are_taken_as_they_are():
    scores = json.loads((RESULTS / "scores.json").read_text(encoding="utf-8"))["rows"]
    table = tables.show(
        scores,
        [Column("bleu", "BLEU", digits=1, where={"clauses": 1})],
        by=[Condition(lambda r: (r["attention"], r["input_feeding"], r.get("start")), "Score")],
        each="by_clauses",
        caption="",
    )
    fixed = [row["by_clauses"][0]["bleu"] for row in scores if row["attention"] == "fixed"]
    mean = sum(fixed) / 3
    assert column(table, 1)[0] == f"{mean:.1f} ({min(fixed):.1f}–{max(fixed):.1f})"
    ladder = json.loads((RESULTS / "ladder-tatoeba-en-fr.json").read_text(encoding="utf-8"))
    ladder = [row for row in ladder if row["seed"] == 0]
    by = [Condition("rung", "Model"), Condition("decoding", "Decoding")]
    table = tables.show(ladder, [Column("chrf", "chrF", best="max")], by=by, caption="")
    assert column(table, 2) == [f"{row['chrf']:.2f}" for row in ladder]
    assert list(table.notes) == ["One seed."]
