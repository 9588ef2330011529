"""The ladder: its rungs, and that the second decoding trains nothing again."""

import pytest

from attentively.data import toy
from attentively.experiments import ladder


def test_the_rungs_are_the_models_of_the_chapters():
    models = {rung: ladder.new_model(rung, 0).model for rung in ladder.RUNGS}
    assert type(models["transformer"]).__name__ == "Transformer"
    asked = {
        rung: (model.config.attention, model.config.decoder)
        for rung, model in models.items()
        if rung != "transformer"
    }
    assert asked == {
        "fixed": ("fixed", "bahdanau"),
        "additive": ("additive", "bahdanau"),
        "dot": ("dot", "luong"),
        "general": ("general", "luong"),
        "concat": ("concat", "luong"),
    }


def test_an_unknown_rung_is_refused():
    with pytest.raises(ValueError, match="'lstm' is unknown"):
        ladder.new_model("lstm", 0)


def test_every_rung_meets_both_decodings():
    asked = {(row["rung"], row["decoding"]) for row in ladder.EXPERIMENT.conditions}
    assert asked == {(rung, name) for rung in ladder.RUNGS for name in ("greedy", "beam 5")}


def test_the_second_decoding_takes_the_trained_model(tmp_path, monkeypatch):
    updates = []
    update = ladder.train

    def counted(checkpoint, *given):
        trainer = update(checkpoint, *given)
        updates.append(trainer.seconds)
        return trainer

    monkeypatch.setattr(ladder, "train", counted)
    greedy, beam = (
        ladder.measure("dot", "toy", name, seed=0, quick=True, directory=tmp_path / name)
        for name in ladder.BEAM_SIZES
    )
    assert updates[0] == updates[1] > 0  # the time of the training is that of the one training
    assert greedy["perplexity"] == beam["perplexity"]
    assert greedy["sentences"] == 2 * 3
    assert [group["clauses"] for group in greedy["by_clauses"]] == list(ladder.CLAUSES)
    longest = greedy["by_clauses"][-1]
    pairs = toy.load("test", 3, clauses=(ladder.CLAUSES[-1],))
    assert longest["mean_words"] == round(sum(len(pair.src) for pair in pairs) / 3, 1)
