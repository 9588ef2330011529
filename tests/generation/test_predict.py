"""Labels and gaps: what is said is what the model's logits say."""

import pytest
import torch

from attentively.attention.masks import padding_mask
from attentively.generation.predict import classify, fill
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import ClassifierConfig, MaskedLanguageModelConfig
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import ModelKindError
from attentively.tokens.vocabulary import END_ID, PAD_ID, Vocabulary, WordTokenizer

WORDS = WordTokenizer(Vocabulary(["the", "dog", "cat", "sleeps", "runs"]))
SIZES = {"d_model": 14, "num_heads": 2, "d_ff": 11, "num_layers": 1}


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    config = ClassifierConfig(vocab_size=len(WORDS), labels=("good", "bad", "ugly"), **SIZES)
    return Checkpoint(Classifier(config), WORDS, None)


@pytest.fixture
def masked():
    torch.manual_seed(0)
    config = MaskedLanguageModelConfig(vocab_size=len(WORDS), **SIZES)
    return Checkpoint(MaskedLanguageModel(config), WORDS, None)


def test_a_label_is_the_likeliest_whatever_the_company(classifier):
    texts = ["the dog sleeps", "cat", "the cat runs the dog", ""]
    together = classify(classifier, texts)
    for text, judgement in zip(texts, together, strict=True):
        ids = torch.tensor([WORDS.encode(text)])
        logits = classifier.model.eval()(ids, padding_mask(ids, PAD_ID))[0]
        expected = logits.softmax(dim=-1).tolist()
        assert list(judgement.probabilities.values()) == pytest.approx(expected, abs=1e-6)
        assert judgement.label == ("good", "bad", "ugly")[int(logits.argmax())]
    one_by_one = [judgement for text in texts for judgement in classify(classifier, [text])]
    assert [one.label for one in one_by_one] == [one.label for one in together]
    in_parts = classify(classifier, texts, batch_size=3)
    assert [one.label for one in in_parts] == [one.label for one in together]
    assert classify(classifier, []) == []


def test_unknown_words_are_told(classifier, masked):
    assert classify(classifier, ["the zebra sleeps"])[0].note == "unknown words: zebra"
    assert fill(masked, "the zebra ___").note == "unknown words: zebra"


def test_a_text_without_words_is_told(classifier):
    assert [one.note for one in classify(classifier, ["", " ", "the"])] == [
        *["empty sentence"] * 2,
        "",
    ]


def test_a_gap_gets_what_the_model_holds_likeliest(masked):
    filled = fill(masked, "the ___ sleeps", guesses=3)
    the, sleeps = WORDS.vocabulary.encode(["the", "sleeps"])
    ids = torch.tensor([[the, masked.model.mask_id, sleeps, END_ID]])
    logits = masked.model.eval()(ids, padding_mask(ids, PAD_ID))[0, 1]
    logits[: END_ID + 1] = float("-inf")
    probabilities, tokens = logits.softmax(dim=-1).topk(3)
    [guesses] = filled.guesses
    assert list(guesses) == WORDS.tokens(tokens.tolist())
    assert list(guesses.values()) == pytest.approx(probabilities.tolist(), abs=1e-6)
    assert filled.text == f"the {next(iter(guesses))} sleeps"


def test_several_gaps_and_nothing_else(masked):
    filled = fill(masked, "___ the ___")
    assert len(filled.guesses) == 2
    assert len(filled.text.split()) == 3
    assert len(fill(masked, "___", guesses=99).guesses[0]) == len(WORDS) - END_ID - 1


def test_what_cannot_be_done_is_refused(classifier, masked):
    with pytest.raises(ValueError, match=r"'the dog' has no gap: write ___"):
        fill(masked, "the dog")
    with pytest.raises(ValueError, match="guesses=0 must be at least 1"):
        fill(masked, "the ___", guesses=0)
    with pytest.raises(ModelKindError, match="a Classifier cannot fill gaps"):
        fill(classifier, "the ___")
    with pytest.raises(ModelKindError, match="a MaskedLanguageModel cannot classify text"):
        classify(masked, ["the dog"])
