"""The toy task's scores, against sentences whose answer is known."""

import pytest
import torch

from attentively.data import toy
from attentively.experiments import toy_translation
from attentively.models.transformer import AttentionMaps
from attentively.training.training_config import TrainingConfig


@pytest.fixture(scope="module")
def pairs():
    return toy.load("test", 7, clauses=(1,))


def test_the_model_knows_every_word(pairs):
    checkpoint = toy_translation.new_checkpoint("additive", seed=0)
    for text in toy_translation.as_text(pairs):
        assert (
            checkpoint.src_tokenizer.decode(checkpoint.src_tokenizer.encode(text.src)) == text.src
        )
        assert (
            checkpoint.tgt_tokenizer.decode(checkpoint.tgt_tokenizer.encode(text.tgt)) == text.tgt
        )


def test_the_seed_settles_the_model():
    one, same, other = (
        toy_translation.new_checkpoint("additive", seed=seed).model.state_dict()
        for seed in (3, 3, 5)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_the_transformer_has_the_shape_that_is_said_and_what_is_asked_for():
    checkpoint = toy_translation.new_transformer(0, {"seed": 0}, positions="none", num_heads=2)
    config = checkpoint.model.config
    assert (config.d_model, config.d_ff, config.num_layers) == (64, 256, 2)
    assert (config.positions, config.num_heads) == ("none", 2)
    assert config.src_vocab_size == len(checkpoint.src_tokenizer)
    assert config.tgt_vocab_size == len(checkpoint.tgt_tokenizer)
    assert checkpoint.provenance == {"seed": 0}
    one, same, other = (
        toy_translation.new_transformer(seed).model.state_dict() for seed in (3, 3, 5)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_alignment_errors_are_those_of_the_largest_weights(pairs, monkeypatch):
    """With weights that are the gold alignment there is no error but that of one link a word."""
    checkpoint = toy_translation.new_checkpoint("additive", seed=0)
    one_to_one = [pair for pair in pairs if len(pair.alignment) == len(pair.tgt)]
    assert one_to_one

    def gold(model, examples, shift=0):
        found = []
        for pair in one_to_one:
            weights = torch.zeros(len(pair.tgt) + 1, len(pair.src) + 1)
            for src_index, tgt_index in pair.alignment:
                weights[tgt_index, (src_index + shift) % len(pair.src)] = 1
            found.append(weights)
        return found

    monkeypatch.setattr(toy_translation, "teacher_forced_weights", gold)
    assert toy_translation.alignment_errors(checkpoint, one_to_one) == 0
    monkeypatch.setattr(
        toy_translation, "teacher_forced_weights", lambda *given: gold(*given, shift=1)
    )
    assert toy_translation.alignment_errors(checkpoint, one_to_one) == 1


def test_weights_may_be_those_of_the_step_that_reads_the_word(pairs, monkeypatch):
    """A model that looks up every word one step late: as it reads it, not as it predicts it."""
    checkpoint = toy_translation.new_checkpoint("additive", seed=0)
    one_to_one = [pair for pair in pairs if len(pair.alignment) == len(pair.tgt)]

    def late(model, examples):
        found = []
        for pair in one_to_one:
            weights = torch.zeros(len(pair.tgt) + 1, len(pair.src) + 1)
            weights[0, -1] = 1
            for src_index, tgt_index in pair.alignment:
                weights[tgt_index + 1, src_index] = 1
            found.append(weights)
        return found

    monkeypatch.setattr(toy_translation, "teacher_forced_weights", late)
    assert toy_translation.alignment_errors(checkpoint, one_to_one, reading=True) == 0
    assert toy_translation.alignment_errors(checkpoint, one_to_one) > 0.5
    for pair, matrix in zip(
        one_to_one, toy_translation.word_weights(checkpoint, one_to_one), strict=True
    ):
        assert matrix.shape == (len(pair.tgt), len(pair.src))


def test_scores_tell_right_from_wrong(pairs, monkeypatch):
    checkpoint = toy_translation.new_checkpoint("additive", seed=0)
    answers = {pair.src_text: pair.tgt_text for pair in pairs}
    spoiled = pairs[0].src_text

    class Said:
        def __init__(self, text):
            self.text = text

    def translate(_, sentences, beam_size):
        return [Said("oui" if text == spoiled else answers[text]) for text in sentences]

    monkeypatch.setattr(toy_translation, "translate", translate)
    found = toy_translation.scores(checkpoint, pairs)
    assert found["exact_match"] == pytest.approx(6 / 7)
    assert 0 < found["bleu"] < 100


def test_training_resumes_in_its_directory(tmp_path):
    config = TrainingConfig(steps=4, validate_every=2, batch_size=5)
    first = toy_translation.train(
        toy_translation.new_checkpoint("fixed", seed=0), config, tmp_path, train_pairs=11
    )
    again = toy_translation.train(
        toy_translation.new_checkpoint("fixed", seed=0), config, tmp_path, train_pairs=11
    )
    assert first.step == again.step == 4
    assert again.records == first.records  # nothing was trained twice


def test_a_single_heads_errors_are_the_models(pairs):
    checkpoint = toy_translation.new_transformer(0, num_layers=1, num_heads=1)
    found = toy_translation.head_alignment_errors(checkpoint, pairs)
    assert found == {(0, 0): toy_translation.alignment_errors(checkpoint, pairs)}


def test_heads_are_told_apart_by_layer_and_place(pairs, monkeypatch):
    """One head looks where the gold links are, the others at the first word."""
    checkpoint = toy_translation.new_transformer(0)
    one_to_one = [pair for pair in pairs if len(pair.alignment) == len(pair.tgt)]
    waiting = iter(one_to_one)

    def maps(src, tgt):
        pair = next(waiting)
        cross = torch.zeros(2, 1, 4, tgt.shape[1], src.shape[1])
        cross[..., 0] = 0.5
        for src_index, tgt_index in pair.alignment:
            cross[1, 0, 2, tgt_index, src_index] = 1
        return AttentionMaps(cross, cross, cross)

    monkeypatch.setattr(checkpoint.model, "attention_maps", maps)
    found = toy_translation.head_alignment_errors(checkpoint, one_to_one)
    assert len(found) == 2 * 4
    assert found.pop((1, 2)) == 0
    assert min(found.values()) > 0.5


def test_a_model_without_heads_has_no_errors_of_heads(pairs):
    with pytest.raises(ValueError, match="a Seq2Seq has no attention heads"):
        toy_translation.head_alignment_errors(toy_translation.new_checkpoint("dot", 0), pairs)
