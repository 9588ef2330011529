"""The checks of 19_heads_for_other_tasks, beyond what its bank of answers proves."""

import pytest
import right_answers_19 as right
import torch
import wrong_answers_19 as wrong

from attentively.checks import heads_for_other_tasks as checks
from attentively.checks.heads_for_other_tasks.planted_batches import (
    FAULTS,
    MASK_ID,
    found_in,
    planted,
)
from attentively.models.checkpoints import load_pretrained
from attentively.models.encoder_heads import (
    Classifier,
    ClassifierConfig,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
)
from attentively.tokens.vocabulary import END_ID, START_ID
from attentively.training.objectives import take_out


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("words from 4 on. Ready.\n")


# What the checks compare with is what the package does


def test_with_the_same_dice_the_package_hides_the_same():
    ids = checks._texts(7, 23, 31)
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


def test_the_sizes_of_heads_are_those_of_the_packages_models():
    config = {"vocab_size": 11, "d_model": 4, "num_heads": 2, "d_ff": 5, "num_layers": 1}
    model = Classifier(ClassifierConfig(labels=("a", "b", "c"), **config))
    ids, mask = torch.randint(4, 11, (2, 5)), torch.ones(2, 1, 5, dtype=torch.bool)
    shape, added = right.head("label", 4, 11, 3, 2, 5)
    assert model(ids, mask).shape == shape
    assert sum(each.numel() for each in model.output.parameters()) == added
    masked = MaskedLanguageModel(MaskedLanguageModelConfig(**config))
    shape, added = right.head("masked", 4, 11, 3, 2, 5)
    assert masked(ids, mask).shape == shape
    table = masked.encoder.input.embedding.table.weight
    assert len(list(masked.parameters())) == len(list(masked.encoder.parameters()))
    assert table.numel() - 11 * 4 == added


# Part 3: what is shown


def test_under_the_students_head_shakespeare_writes_as_in_the_package():
    encoder, tokenizer = checks.shakespeare()
    model = load_pretrained("shakespeare-gpt").model.eval()
    ids = torch.tensor([[START_ID, *tokenizer.encode("ROMEO:")[:-1]]])
    with torch.no_grad():
        torch.testing.assert_close(right.LanguageModel(encoder)(ids), model(ids).logits)


def test_what_belongs_to_the_toy_language_is_told():
    assert checks.belongs("the cat drank the milk")
    assert not checks.belongs("the cat drank the street the")


# Part 5


@pytest.mark.parametrize("faults", [(), *((name,) for name in FAULTS), tuple(FAULTS)[2:]], ids=str)
def test_what_is_planted_is_found(faults):
    for seed in range(10):
        assert found_in(planted(faults, seed), MASK_ID) == [f for f in FAULTS if f in faults]


def test_six_pipelines_are_shown_and_one_is_sound():
    found = {letter: right.audit(rounds, MASK_ID) for letter, rounds in checks.batches().items()}
    assert [letter for letter, faults in found.items() if not faults] == ["B"]
    assert set().union(*found.values()) == set(FAULTS)


# Part 6


def test_the_recorded_runs_are_a_fair_comparison():
    rows = checks.recorded_runs()
    assert len(rows) == 4 * 5 * 2 * 2 * 4
    answer = right.compare(rows)
    assert set(answer) == {4, 16, 64, 256}
    assert "unfair" not in {reading for _, reading in answer.values()}
    cut = [row for row in rows if row["begins"] == "pretrained" or row["epoch"] == 1]
    assert {reading for _, reading in right.compare(cut).values()} == {"unfair"}
