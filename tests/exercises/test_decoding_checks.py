"""The checks of 05_decoding, beyond what its bank of answers proves."""

import math

import pytest
import right_answers_05 as right
import torch
import wrong_answers_05 as wrong

from attentively.checks import CheckFailed
from attentively.checks import decoding as checks
from attentively.generation.search import beam_search, greedy_search
from attentively.tokens.vocabulary import END_ID, START_ID

FAULTS = [("states",), ("alike",), ("alike", "states")]


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_translates(capsys):
    checks.ready()
    assert "“le chat boit le lait”" in capsys.readouterr().out


# What is searched


def test_a_step_function_says_what_its_table_says():
    step = checks.step_of({"": {"a": 0.6, "END": 0.4}, "a": {"b": 1.0}})
    first, state = step(START_ID, None)
    assert first.exp().tolist() == pytest.approx([0, 0, 0, 0.4, 0.6, 0, 0])
    second, after = step(torch.tensor(4), state)
    assert second.exp().tolist() == pytest.approx([0, 0, 0, 0, 0, 1, 0])
    assert step(4, state)[1] == after  # the state that was given stays as it was
    assert step(5, after)[0].exp()[END_ID] == 1  # what the table lacks ends
    with pytest.raises(ValueError, match="The first call is step"):
        step(4, None)
    with pytest.raises(ValueError, match="the second of the two values"):
        step(4, (first, state))


@pytest.mark.parametrize("seed", range(4))
def test_the_search_of_the_checks_is_the_packages(seed):
    """On random tables, in all its texts and scores, whatever the width and the penalty."""
    table = checks._random_table(seed, 2, 3)
    model, src = checks.TableModel(table), torch.tensor([[4, END_ID]])
    for beam_size in (1, 2, 3, 50):
        for alpha in (0.0, 0.7, 1.5):
            for max_len in (2, 4):
                (found,) = beam_search(model, src, max_len, beam_size, alpha, ())
                over = [hypothesis for hypothesis in found if hypothesis.finished]
                mine = checks.search(checks.step_of(table), beam_size, max_len, alpha)
                assert [s for _, s in mine] == pytest.approx([h.score for h in over], rel=1e-4)
                assert [tokens for tokens, _ in mine][:1] == [h.ids for h in over][:1]


def test_the_greedy_loop_of_the_checks_is_the_packages():
    for seed in range(4):
        table = checks._random_table(seed, 3, 2)
        model, src = checks.TableModel(table), torch.tensor([[4, END_ID]])
        for max_len in (2, 5):
            (found,) = greedy_search(model, src, max_len, ())
            expected = [found.ids, pytest.approx(found.log_probability, rel=1e-4)]
            assert checks._greedy(checks.step_of(table), max_len) == expected


def test_the_texts_of_a_table_share_out_all_probability():
    for seed in range(4):
        found = [*checks._texts(checks._random_table(seed, 2, 3))]
        assert sum(each.probability for each in found) == pytest.approx(1)
        assert len({each.text for each in found}) == len(found)


def test_no_case_has_a_tie_that_decides():
    """Renaming the words turns ties round, and must change nothing else."""
    turned = {4: 6, 5: 5, 6: 4}
    for table, *how in checks.CASES + checks.FURTHER:
        found = checks.search(checks.step_of(table), *how)
        other = checks.search(checks.step_of(table, checks.NAMES[::-1]), *how)
        renamed = [([turned[token] for token in tokens], score) for tokens, score in other]
        assert renamed == [(tokens, pytest.approx(score)) for tokens, score in found]


# What the parts are about


def test_the_solutions_tables_show_what_they_are_for():
    empty = right.empty_wins()
    for width, alpha, words in [(1, 0.0, 3), (2, 0.0, 0), (10, 0.0, 0), (2, 1.0, 3)]:
        assert len(checks.search(checks.step_of(empty), width, 9, alpha)[0][0]) == words
    found = [
        math.exp(checks.search(checks.step_of(right.beam_loses()), width, 9, 0.0)[0][1])
        for width in (1, 2, 3)
    ]
    assert found == pytest.approx([0.16, 0.16, 0.25])


def test_what_a_beam_of_ten_finds_on_the_translator_is_likelier_and_much_too_short():
    """What part 3 shows."""
    src, tgt = checks.sentences(9, clauses=3)
    step = checks.translation_step(src[7:8])
    found = [checks.search(step, width, 60, 0.0)[0] for width in (1, 10)]
    assert found[0][1] < found[1][1]
    assert checks.words(found[1][0]) == "la tante"
    assert len(checks.words(tgt[7].tolist()).split()) > 10


@pytest.mark.parametrize("faults", FAULTS, ids="-".join)
def test_the_hunt_for_clones_ends_only_when_all_are_corrected(faults):
    with pytest.raises(CheckFailed):
        checks.bug_hunt(wrong.clones_with(*faults), right.ranked, right.sampled)


def test_a_sampler_that_is_hardly_corrected_hears_what_is_left():
    for faults in (("shares", "unshared"), ("crossing", "shares")):
        with pytest.raises(CheckFailed) as caught:
            checks.bug_hunt(right.clones, right.ranked, wrong.sampled_with(*faults))
        flat = " ".join(str(caught.value).split())
        names = {"shares": "temperature"}
        for fault in faults:
            assert checks._SAMPLED_FAULTS[names.get(fault, fault)] in flat
