"""What the quick form of an experiment must give, wherever it runs."""

import json
import math
from pathlib import Path

import pytest

from attentively import experiments
from attentively.experiments import decoding


def published(name: str) -> dict:
    path = Path(__file__).parents[2] / "book" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def see_decoding(rows):
    """No search finds less than a narrower one, and none more than there is."""
    for row in rows:
        searches = {(s["penalty"], s["beam_size"]): s for s in row["searches"]}
        assert set(searches) == {(p, k) for p in decoding.PENALTIES for k in (1, 3)}
        greedy, wide = searches["none", 1], searches["none", 3]
        assert wide["log_probability"] >= greedy["log_probability"]
        assert row["log_probability_likeliest"] >= wide["log_probability"]
        assert {searches[p, 1]["bleu"] for p in decoding.PENALTIES} == {greedy["bleu"]}


def see_exposure(rows):
    """Each kind of row has what the chapter reads from it."""
    for row in rows:
        if row["kind"] in ("forwards", "reversed"):
            assert [found["clauses"] for found in row["by_clauses"]] == [1, 2]
        else:
            assert row["alive"]["tokens"] <= row["tokens"]


def see_ladder(rows):
    """Who attends is held against the gold links."""
    rows = {row["rung"]: row for row in rows if row["decoding"] == "greedy"}
    assert rows["fixed"]["alignment_error_rate"] is None
    assert all(0 < rows[rung]["alignment_error_rate"] <= 1 for rung in ("dot", "transformer"))
    assert rows["fixed"]["best_head"] is rows["dot"]["best_head"] is None
    best = rows["transformer"]["best_head"]
    assert 1 <= best["layer"] <= 2
    assert 1 <= best["head"] <= 4
    assert 0 < best["alignment_error_rate"] <= 1


def see_recipe(rows):
    """The numbers of a row agree."""
    [row] = [row for row in rows if row["change"] == "averaging"]
    assert row["perplexity"] == pytest.approx(math.exp(row["loss"]), rel=1e-3)
    assert 0 <= row["accuracy"] <= 1
    assert 0 < row["confidence"] < 1


SEEN_IN = {
    "decoding": see_decoding,
    "exposure": see_exposure,
    "ladder": see_ladder,
    "recipe": see_recipe,
}
"""What the rows of an experiment must contain."""


def see(name: str, content: dict) -> None:
    """The quick form has a row for each condition, with the columns of the published results."""
    conditions = experiments.find(name).conditions
    columns = [set(row) for row in published(name)["rows"][: len(conditions)]]
    assert [set(row) for row in content["rows"]] == columns
    assert len(columns) == len(conditions)
    if name in SEEN_IN:
        SEEN_IN[name](content["rows"])
