"""The promise of chapter 08, kept by a training of its own: attention finds the alignment."""

import json
from pathlib import Path

import pytest

from attentively.data import toy
from attentively.experiments import toy_translation
from attentively.models import checkpoints
from attentively.training.training_config import TrainingConfig


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_attention_learns_where_to_look_from_translating_alone():
    checkpoint = toy_translation.new_checkpoint("additive", seed=0)
    held_out = toy.load("test", 100, clauses=(1,))
    assert toy_translation.alignment_errors(checkpoint, held_out) > 0.7
    config = TrainingConfig(steps=300, learning_rate=1e-2, validate_every=100)
    trainer = toy_translation.train(checkpoint, config, train_pairs=4000, clauses=(1,))
    losses = [record["validation_loss"] for record in trainer.records]
    assert losses == sorted(losses, reverse=True)
    assert toy_translation.alignment_errors(checkpoint, held_out) < 0.2
    assert toy_translation.scores(checkpoint, held_out)["exact_match"] > 0.5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_shipped_models_score_what_their_provenance_says():
    """The plot of the chapter, the models of the package and the results file agree."""
    for name, kind in [("toy-fixed", "fixed"), ("toy-additive", "additive")]:
        checkpoint = checkpoints.load_pretrained(name)
        [row] = [
            row
            for row in published_rows()
            if (row["attention"], row["steps"], row["seed"])
            == (kind, 2000, checkpoint.provenance["seed"])
        ]
        for group in row["by_clauses"][:3]:
            pairs = toy.load("test", 200, clauses=(group["clauses"],))
            found = toy_translation.scores(checkpoint, pairs)["exact_match"]
            # Half precision may tip a sentence or two.
            assert found == pytest.approx(group["exact_match"], abs=0.02)


def published_rows():
    path = Path(__file__).parents[2] / "book" / "results" / "bottleneck.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"]
