"""The checks of 04_encoder_and_decoder, beyond what its bank of answers proves."""

import itertools

import pytest
import right_answers_04 as right
import torch
import wrong_answers_04 as wrong

from attentively.checks import CheckFailed
from attentively.checks import encoder_and_decoder as checks
from attentively.generation.search import greedy_search
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID
from attentively.training.objectives import Batch, teacher_forced_loss


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_translates(capsys):
    checks.ready()
    assert "“le chat boit le lait”" in capsys.readouterr().out


def test_the_planted_ids_are_those_of_the_package():
    assert (PAD_ID, START_ID, END_ID) == (0, 2, 3)


# The answers that the checks take for known, worked out again

MIXED = {
    "start overwritten": wrong.start_overwritten,
    "k ignored": wrong.k_ignored,
    "turned": wrong.gold_first,
    "k counts start": wrong.k_counts_start,
    "one more": wrong.one_more_own,
    "filled": wrong.filled_with_padding,
    "ended": wrong.filled_with_end,
    "uncut": wrong.uncut,
    "first row": wrong.first_row_only,
    "stretched": wrong.stretched,
    "gold": wrong.gold_throughout,
    "put in": wrong.put_in_before,
}
AFTER = {
    "all labels": wrong.all_labels,
    "too early": wrong.too_early,
    "too late": wrong.too_late,
    "before": wrong.before_k,
    "turned": wrong.turned_pair,
    "padding": wrong.padding_after,
    "sentence means": wrong.sentence_means_after,
    "own labels": wrong.own_labels,
    "unshifted": wrong.unshifted,
    "summed": wrong.summed_after,
    "own throughout": wrong.own_throughout,
    "gold twice": wrong.gold_twice,
    "own twice": wrong.own_twice,
    "rest": wrong.rest_own,
    "one label": wrong.label_k_only,
    "without end": wrong.end_not_counted,
    "other divisor": wrong.divided_by_all,
}


@pytest.mark.parametrize("case", [*checks._MIXED, *checks._FURTHER_MIXED])
def test_the_planted_inputs_are_those_of_the_definition(case):
    asked, expected, mistakes = case
    for answer in (right.mixed_inputs, right.mixed_by_lists):
        assert answer(*asked.values()).tolist() == expected
    for name, wrong_inputs in mistakes.items():
        assert MIXED[name](*asked.values()).tolist() == wrong_inputs != expected


@pytest.mark.parametrize("case", [*checks._AFTER, *checks._FURTHER_AFTER])
def test_the_planted_losses_are_those_of_the_planted_surprises(case):
    asked, surprises, expected, mistakes = case
    model = checks.PlantedLossModel(asked["tgt"], surprises)
    found = right.loss_after_by_sentences(model, *asked.values())
    assert found == pytest.approx(expected, rel=1e-4)
    for name, losses in mistakes.items():
        assert AFTER[name](model, *asked.values()) == pytest.approx(losses, rel=1e-4)
    assert len({expected, *mistakes.values()}) == 1 + len(mistakes)


def test_every_known_mistake_has_its_words():
    assert {name for _, _, names in checks._MIXED for name in names} == {*checks._SAID_OF_MIXED}
    assert {*MIXED} == {*checks._SAID_OF_MIXED}
    assert {name for *_, names in checks._AFTER for name in names} == {*checks._SAID_OF_AFTER}
    assert {*AFTER} == {*checks._SAID_OF_AFTER}


def test_no_known_count_or_shape_is_the_measured_one_everywhere():
    """A mistake must lead to another answer than what is measured, on some batch of the check."""
    batches = [([5, 2, 3], 10), ([7, 1, 2, 4], 5)]
    for key in right.counts([1], 2):
        said = [checks._counted_wrong(*batch)[key] for batch in batches]
        measured = [checks._counted(*batch)[key] for batch in batches]
        for number in range(len(said[0])):
            assert [row[number][1] for row in said] != measured
    sizes = (2, 3, 5, 7, 11, 13, 17)
    measured = checks._shapes(*sizes)
    assert measured == right.shapes(*sizes)
    for key, mistakes in checks._shapes_wrong(*sizes).items():
        assert measured[key] not in [shape for _, shape in mistakes]


# What the parts are about


def test_a_scripted_model_writes_its_texts_and_babbles_after_them():
    model = checks.ScriptedModel([[5, 6], [7]])
    src = torch.tensor([[11, END_ID], [12, END_ID]])
    assert [h.ids for h in greedy_search(model, src, 9, ())] == [[5, 6], [7]]
    assert model.calls == 3
    assert wrong.never_stops(model, src, 5) == [[5, 6, END_ID, 9, 9], [7, END_ID, 9, 9, 9]]


def test_exposure_costs_nothing_where_the_translator_is_right_and_much_where_it_is_not():
    model = checks.translator()
    gaps = []
    with torch.no_grad():
        for clauses, k in ((1, 2), (3, 2), (3, 8), (3, 12)):
            src, tgt = checks.sentences(50, clauses)
            gold, own = right.loss_after(model, src, tgt, checks.own_words(src), k)
            gaps.append(own - gold)
    assert abs(gaps[0]) < 0.01
    assert gaps[1] < 0.1 < 0.5 < gaps[2] < gaps[3]


def test_the_students_loss_is_the_packages_on_the_translator():
    src, tgt = checks.sentences(20, 2)
    with torch.no_grad():
        expected = float(teacher_forced_loss(checks.translator(), Batch(src, tgt)))
        for answer in right.LOSSES:
            assert float(answer(checks.translator(), src, tgt)) == pytest.approx(expected, rel=1e-4)


FAULTS = ("leak", "mask", "eval", "padding", "clip", "keep")


@pytest.mark.parametrize("count", range(1, len(FAULTS) + 1))
def test_the_bug_hunt_ends_only_when_every_fault_is_mended(count):
    for faults in itertools.combinations(FAULTS, count):
        with pytest.raises(CheckFailed):
            checks.bug_hunt(wrong.step_with(*faults))


def test_a_leaking_step_says_a_lower_loss_and_learns_nothing():
    """What part 6 shows."""
    src, tgt = checks.sentences(200, 1, split="train")
    unseen = Batch(*checks.sentences(50, 1))
    said, worth = [], []
    for step in (wrong.as_it_was, right.training_step):
        model = checks.untrained()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for first in range(0, 200, 20):
            rows = slice(first, first + 20)
            loss = step(model, optimizer, src[rows], tgt[rows], 1.0)
        said.append(loss)
        with torch.no_grad():
            worth.append(float(teacher_forced_loss(model.eval(), unseen)))
    assert said[0] < said[1]
    assert worth[0] > worth[1]
