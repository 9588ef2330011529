"""Evaluation: each score is what it says, over each distinct source once."""

import math

import pytest
import sacrebleu
import tiny_models
import torch
import torch.nn.functional as F

from attentively.data import digits, toy
from attentively.data.batches import Example, encode_lines, encode_pairs
from attentively.data.pairs import Pair
from attentively.data.sentiment import Labelled
from attentively.experiments import toy_translation
from attentively.generation.predict import Judgement
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import (
    ClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
)
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import Model
from attentively.models.language_model import LanguageModel
from attentively.scoring import evaluation
from attentively.scoring.metrics import perplexity
from attentively.tokens.vocabulary import START_ID, CharacterTokenizer, Vocabulary, WordTokenizer
from attentively.training.trainer import validation_loss


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
    with pytest.raises(ValueError, match="a Seq2Seq cannot translate text"):
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


def test_where_nothing_was_said_no_file_is_emptied(tmp_path):
    path = tmp_path / "keep.tsv"
    path.write_text("precious")
    for found in (
        evaluation.LanguageModelEvaluation(3, 7, 1.5),
        evaluation.MaskedEvaluation(1, 2, 0.5, 1.5),
    ):
        with pytest.raises(ValueError, match=r"no outputs to write to .*keep\.tsv"):
            found.write(path)
    assert path.read_text() == "precious"


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


# Models that do not translate


def test_every_character_of_a_running_text_is_judged_once():
    text = "abba ab baab " * 7
    tokenizer = CharacterTokenizer.train([text])
    model = LanguageModel(
        LanguageModelConfig(vocab_size=len(tokenizer), d_model=6, num_heads=2, d_ff=5, num_layers=1)
    )
    checkpoint = Checkpoint(model, None, tokenizer)
    for piece_length in (7, 10, 500):
        result = evaluation.evaluate_language_model(checkpoint, text, piece_length)
        assert (result.tokens, result.characters) == (len(text), len(text))
    ids = torch.tensor([[START_ID, *tokenizer.encode(text)[:-1]]])
    with torch.no_grad():  # in one piece it is the model's own loss
        whole = F.cross_entropy(model.eval()(ids[:, :-1])[0], ids[0, 1:]).item()
    assert result.loss == pytest.approx(whole, abs=1e-5)
    assert result.scores()["perplexity_per_character"] == result.scores()["perplexity"]


@pytest.mark.parametrize("kind", [CharacterTokenizer, WordTokenizer])
def test_no_text_is_refused(kind):
    tokenizer = kind.train(["a b"])
    model = LanguageModel(
        LanguageModelConfig(vocab_size=len(tokenizer), d_model=6, num_heads=2, d_ff=5, num_layers=1)
    )
    with pytest.raises(ValueError, match="the text to evaluate on is empty"):
        evaluation.evaluate_language_model(Checkpoint(model, None, tokenizer), "")


def test_lines_are_judged_with_their_ends():
    text = "a b c\n\nb a\n"
    tokenizer = WordTokenizer.train([text])
    model = LanguageModel(
        LanguageModelConfig(vocab_size=len(tokenizer), d_model=6, num_heads=2, d_ff=5, num_layers=1)
    )
    result = evaluation.evaluate_language_model(Checkpoint(model, None, tokenizer), text)
    assert (result.tokens, result.characters) == (3 + 1 + 2 + 1, len("a b c\nb a\n"))
    mean = validation_loss(model, encode_lines(text.splitlines(), tokenizer))
    assert result.loss == pytest.approx(mean, abs=1e-5)
    per_character = result.loss * 7 / 10
    assert result.scores()["bits_per_character"] == pytest.approx(
        per_character / math.log(2), abs=1e-4
    )


def test_a_confusion_says_what_was_taken_for_what(checkpoint, monkeypatch):
    said = {"one": "good", "two": "bad", "three": "good"}

    def classify(_, texts):
        return [Judgement(said[text], {}) for text in texts]

    monkeypatch.setattr(evaluation, "classify", classify)
    items = [Labelled("one", "good"), Labelled("two", "good"), Labelled("three", "bad")]
    result = evaluation.evaluate_classifier(checkpoint, items)
    assert result.accuracy == pytest.approx(1 / 3)
    assert result.confusion == {"good": {"good": 1, "bad": 1}, "bad": {"good": 1, "bad": 0}}
    assert list(result.rows())[1] == ("two", "bad", "good")
    assert "predicted good" in result.summary()


def test_what_was_taken_out_is_known_or_not(monkeypatch):
    tokenizer = WordTokenizer.train(["dog dog dog cat"])
    config = MaskedLanguageModelConfig(
        vocab_size=len(tokenizer), d_model=6, num_heads=2, d_ff=5, num_layers=1
    )
    model = MaskedLanguageModel(config)
    [dog, _] = tokenizer.encode("dog")

    def always_dog(ids, mask=None):
        return 9.0 * F.one_hot(torch.full_like(ids, dog), len(tokenizer)).float()

    monkeypatch.setattr(model, "forward", always_dog)
    checkpoint = Checkpoint(model, tokenizer, None)
    texts = ["dog " * length for length in (1, 7, 20)]
    result = evaluation.evaluate_masked_language_model(checkpoint, texts)
    assert (result.texts, result.masked, result.accuracy) == (3, 1 + 1 + 3, 1.0)
    surprise = math.log(1 + (len(tokenizer) - 1) * math.exp(-9))
    assert result.loss == pytest.approx(surprise, abs=1e-4)
    assert evaluation.evaluate_masked_language_model(checkpoint, ["cat"]).accuracy == 0


def test_a_caption_may_be_true_and_another(monkeypatch):
    scenes = digits.load("test", 5)
    said = [" ".join(scene.caption) for scene in scenes]
    said[0] = "a nine above a nine and a nine"  # no sentence
    monkeypatch.setattr(
        evaluation, "caption", lambda *_, **__: [Said(text) for text in said[: len(scenes)]]
    )
    monkeypatch.setattr(evaluation, "validation_loss", lambda *_: 0.0)
    tokenizer = WordTokenizer(Vocabulary(digits.words()))
    checkpoint = Checkpoint(Model(), None, tokenizer)
    result = evaluation.evaluate_captioner(checkpoint, scenes)
    assert (result.faithful, result.exact_match, result.perplexity) == (0.8, 0.8, 1.0)


def test_labels_that_a_classifier_cannot_say_are_refused(monkeypatch):
    tokenizer = WordTokenizer(Vocabulary(["dog"]))
    config = ClassifierConfig(vocab_size=len(tokenizer), labels=("good", "bad"), d_model=12)
    monkeypatch.setattr(evaluation, "classify", None)  # it is not asked
    checkpoint = Checkpoint(Classifier(config), tokenizer, None)
    items = [Labelled("dog", label) for label in ("good", *"gfedcba", "a")]
    message = "cannot predict: 'a', 'b', 'c', 'd', 'e'; the model's labels are 'good', 'bad'$"
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate_classifier(checkpoint, items)


def test_a_model_of_another_kind_is_refused(checkpoint):
    with pytest.raises(ValueError, match="a Seq2Seq cannot predict the next token of a text"):
        evaluation.evaluate_language_model(checkpoint, "some text")
    with pytest.raises(ValueError, match="a Seq2Seq cannot fill gaps"):
        evaluation.evaluate_masked_language_model(checkpoint, ["some text"])
    with pytest.raises(ValueError, match="there are no scenes"):
        evaluation.evaluate_captioner(checkpoint, [])
    with pytest.raises(ValueError, match="there are no labelled sentences"):
        evaluation.evaluate_classifier(checkpoint, [])
    with pytest.raises(ValueError, match="a Seq2Seq cannot classify text"):
        evaluation.evaluate_classifier(checkpoint, [Labelled("dog", "good")])


def test_teacher_forced_weights_are_those_of_each_pair_alone():
    model, given = tiny_models.seq2seq(dropout=0.3).train(), tiny_models.sentences()
    lengths = zip(given.src_lengths, given.tgt_lengths, strict=True)
    examples = [
        Example(given.src[row, :src_len].tolist(), given.tgt[row, :tgt_len].tolist())
        for row, (src_len, tgt_len) in enumerate(lengths)
    ]
    found = evaluation.teacher_forced_weights(model, examples, batch_size=2)
    assert len(found) == len(examples)
    for matrix, example in zip(found, examples, strict=True):
        assert matrix.shape == (len(example.tgt) - 1, len(example.src))
        (alone,) = evaluation.teacher_forced_weights(model, [example])
        torch.testing.assert_close(matrix, alone)
    assert model.training  # as it was
    blind = tiny_models.seq2seq(attention="fixed")
    with pytest.raises(ValueError, match="this Seq2Seq has no attention"):
        evaluation.teacher_forced_weights(blind, examples)
