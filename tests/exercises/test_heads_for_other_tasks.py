"""The checks of 19_heads_for_other_tasks, beyond what its bank of answers proves."""

import pytest
import torch
from notebook_tools import ROOT

from attentively.checks import heads_for_other_tasks as checks
from attentively.checks.heads_for_other_tasks.planted_batches import FAULTS, MASK_ID, planted
from attentively.checks.recordings import load_questions
from attentively.checks.student_modules import shaken, state_of
from attentively.models import plain_transformer
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import (
    ClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
)
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, START_ID
from attentively.training.objectives import LanguageModelling, take_out

SIZES = {"vocab_size": 11, "d_model": 4, "num_heads": 2, "d_ff": 5, "num_layers": 1}


@pytest.fixture(scope="module")
def right():
    return load_questions(ROOT / "solutions/19_heads_for_other_tasks/questions.py")


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("words from 4 on. Ready.\n")


# The right answers do what the package does


def test_with_the_same_random_values_the_package_hides_the_same(right):
    ids = right.texts_of(7, 23, 31)
    generator = torch.Generator().manual_seed(5)
    expected = take_out(ids, 31, generator, share=0.17)
    generator = torch.Generator().manual_seed(5)
    lottery = torch.rand(ids.shape, generator=generator)
    fate = torch.rand(ids.shape, generator=generator)
    others = torch.randint(END_ID + 1, 31, ids.shape, generator=generator)
    got = right.hide(ids, right.choose(ids, lottery, 0.17), fate, others, 31)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])
    assert not torch.equal(got[0], ids)


def test_with_its_parameters_the_classifier_is_the_packages(right):
    ours = shaken(Classifier(ClassifierConfig(labels=("a", "b", "c"), **SIZES)))
    vocab_size = len(ours.encoder.input.embedding.table.weight)
    made = right.Classifier(plain_transformer.Encoder(vocab_size, 4, 2, 5, 1), 4, 3)
    made.load_state_dict(state_of(ours))
    ids = right.texts_of(5, 9, 11)
    mask = (ids != 0).unsqueeze(1)
    torch.testing.assert_close(made(ids, mask), ours(ids, mask))


def test_with_its_parameters_the_loss_of_the_language_model_is_the_packages(right):
    ours = shaken(LanguageModel(LanguageModelConfig(**SIZES)))
    encoder = plain_transformer.Encoder(11, 4, 2, 5, 1)
    encoder.load_state_dict(ours.decoder.state_dict())
    texts = right.whole_texts(5, 7, 11)
    task = LanguageModelling()
    batch = task.collate([[i for i in text if i] for text in texts.tolist()])
    got = right.next_word_loss(right.LanguageModel(encoder), texts)
    torch.testing.assert_close(got, task.loss(ours, batch))


def test_the_sizes_of_heads_are_those_of_the_packages_models(right):
    model = Classifier(ClassifierConfig(labels=("a", "b", "c"), **SIZES))
    ids, mask = torch.randint(4, 11, (2, 5)), torch.ones(2, 1, 5, dtype=torch.bool)
    shape, added = right.head("label", 4, 11, 3, 2, 5)
    assert model(ids, mask).shape == shape
    assert sum(each.numel() for each in model.output.parameters()) == added
    masked = MaskedLanguageModel(MaskedLanguageModelConfig(**SIZES))
    shape, added = right.head("masked", 4, 11, 3, 2, 5)
    assert masked(ids, mask).shape == shape
    table = masked.encoder.input.embedding.table.weight
    assert len(list(masked.parameters())) == len(list(masked.encoder.parameters()))
    assert table.numel() - 11 * 4 == added


# Part 3: what is shown


def test_with_the_students_head_the_scores_on_shakespeare_are_the_packages(right):
    encoder, tokenizer = checks.shakespeare()
    model = load_pretrained("shakespeare-gpt").model.eval()
    ids = torch.tensor([[START_ID, *tokenizer.encode("ROMEO:")[:-1]]])
    with torch.no_grad():
        torch.testing.assert_close(right.LanguageModel(encoder)(ids), model(ids))


def test_sentences_of_the_toy_language_are_recognised():
    assert checks.belongs("the cat drank the milk")
    assert not checks.belongs("the cat drank the street the")


# Part 5


@pytest.mark.parametrize("faults", [(), *((name,) for name in FAULTS), tuple(FAULTS)[2:]], ids=str)
def test_planted_faults_are_found(right, faults):
    for seed in range(10):
        assert right.audit(planted(faults, seed), MASK_ID) == {*faults}


def test_six_pipelines_are_shown_and_one_is_without_a_fault(right):
    found = {letter: right.audit(rounds, MASK_ID) for letter, rounds in checks.batches().items()}
    assert [letter for letter, faults in found.items() if not faults] == ["B"]
    assert set().union(*found.values()) == set(FAULTS)


# Part 6


def test_the_recorded_runs_are_a_fair_comparison(right):
    rows = checks.recorded_runs()
    assert len(rows) == 4 * 5 * 2 * 2 * 4
    answer = right.compare(rows)
    assert set(answer) == {4, 16, 64, 256}
    assert "unfair" not in {reading for _, reading in answer.values()}
    cut = [row for row in rows if row["begins"] == "pretrained" or row["epoch"] == 1]
    assert {reading for _, reading in right.compare(cut).values()} == {"unfair"}
