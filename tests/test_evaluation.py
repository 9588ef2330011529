"""Evaluation: each score is what it says, over each distinct source once."""

import pytest
import sacrebleu

from attentively import evaluation
from attentively.data import toy
from attentively.data.batches import encode_pairs
from attentively.data.pairs import Pair
from attentively.experiments import toy_translation
from attentively.metrics import perplexity
from attentively.training import validation_loss


class Said:
    def __init__(self, text):
        self.text = text


PAIRS = [
    Pair("the cat sleeps", "le chat dort bien ici"),
    Pair("the dog runs", "le chien court vite ici"),
    Pair("the cat sleeps", "le chat est endormi ici"),
    Pair("two birds sing", "deux oiseaux chantent bien ensemble"),
]
ANSWERS = {
    "the cat sleeps": "le chat est endormi ici",
    "the dog runs": "le chien court vite",
    "two birds sing": "deux oiseaux chantent bien ensemble",
}


@pytest.fixture
def checkpoint():
    return toy_translation.new_checkpoint("additive", seed=0)


@pytest.fixture
def result(checkpoint, monkeypatch):
    asked = []

    def translate(_, sentences, beam_size, length_penalty, need_weights):
        asked.extend(sentences)
        return [Said(ANSWERS[sentence]) for sentence in sentences]

    monkeypatch.setattr(evaluation, "translate", translate)
    found = evaluation.evaluate(checkpoint, PAIRS)
    assert sorted(asked) == sorted(ANSWERS)  # each distinct source once
    return found


def test_any_reference_will_do(result):
    assert result.sentences == 3
    assert result.exact_match == pytest.approx(2 / 3)


def test_bleu_is_sacrebleus(result):
    assert result.bleu == pytest.approx(result.sacrebleu, abs=1e-9)
    one_reference = sacrebleu.corpus_bleu(result.translations, [[r[0] for r in result.references]])
    assert result.sacrebleu > one_reference.score  # the second reference of the cat counts
    assert "tok:13a" in result.signature


def test_chrf_is_sacrebleus(result):
    assert result.chrf == pytest.approx(result.sacrebleu_chrf, abs=1e-9)
    one_reference = sacrebleu.corpus_chrf(result.translations, [[r[0] for r in result.references]])
    assert result.sacrebleu_chrf > one_reference.score
    for part in ("nrefs:var", "nc:6", "nw:0"):
        assert part in result.chrf_signature


def test_what_does_not_translate_is_refused(checkpoint):
    checkpoint.tgt_tokenizer = None
    with pytest.raises(ValueError, match="a Seq2Seq does not translate text"):
        evaluation.evaluate(checkpoint, PAIRS)


def test_perplexity_is_of_every_pair(result, checkpoint):
    examples = encode_pairs(PAIRS, checkpoint.src_tokenizer, checkpoint.tgt_tokenizer)
    assert result.perplexity == pytest.approx(
        perplexity(validation_loss(checkpoint.model, examples))
    )


def test_the_file_has_a_line_for_each_source(result, tmp_path):
    result.write(tmp_path / "out.tsv")
    lines = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == [
        "the cat sleeps",
        "le chat est endormi ici",
        "le chat dort bien ici",
        "le chat est endormi ici",
    ]
    assert len(lines) == 3


def test_scores_are_in_the_summary(result):
    for name, value in result.scores().items():
        assert f"{name:14} {value}" in result.summary()


def test_an_empty_split_is_refused(checkpoint):
    with pytest.raises(ValueError, match="no sentence pair"):
        evaluation.evaluate(checkpoint, [])


def test_an_untrained_model_really_translates(checkpoint):
    """Nothing replaced: a whole evaluation on a few toy sentences."""
    pairs = toy_translation.as_text(toy.load("test", 5, clauses=(1,)))
    found = evaluation.evaluate(checkpoint, pairs, beam_size=2)
    assert found.sentences == 5
    assert 0 <= found.bleu < 50
    assert found.chrf == pytest.approx(found.sacrebleu_chrf, abs=1e-9)
    assert found.perplexity > 50  # it has learned nothing
