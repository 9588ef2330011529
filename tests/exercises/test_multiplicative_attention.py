"""The checks of 09_multiplicative_attention, beyond what its bank of answers proves."""

import pytest
import right_answers_09 as right
import torch
import wrong_answers_09 as wrong

from attentively.attention.multiplicative import LocalAttention
from attentively.checks import CheckFailed
from attentively.checks import multiplicative_attention as checks


def test_each_part_has_ten_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 10


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("The set-up is complete.\n")


def test_the_toy_vocabulary_is_as_large_as_part_3_says():
    assert checks.untrained().config.tgt_vocab_size == 271


# The answers that the checks take for known, worked out again


def test_the_window_is_that_of_the_package():
    attention = LocalAttention(5, 7, window=2, score="general")
    query, keys, mask = torch.randn(3, 5), torch.randn(3, 11, 7), checks._ragged(3, 11)
    with torch.no_grad():
        _, weights = attention(query, keys, mask)
        scores = attention.content.scores(query, attention.project_keys(keys))
        position = attention.aligned_position(query, mask.sum(dim=1), None)
    assert torch.allclose(checks._windowed(scores, position, mask, 2), weights)
    assert torch.allclose(right.local_by_loops(scores, position, mask, 2), weights)


@pytest.mark.parametrize("fault", checks._FED_WRONG)
def test_each_known_mistake_of_feeding_shows_in_the_vectors(fault):
    shows = []
    for case in checks._FED_CASES:
        torch.manual_seed(0)
        layers, inputs = checks._fed_inputs(case)
        vectors, _ = checks._fed(*inputs.values(), layers=layers)
        try:
            wrong_vectors, _ = checks._fed(*inputs.values(), layers=layers, fault=fault)
        except RuntimeError:  # this mistake cannot be made with these sizes
            continue
        shows.append(not torch.allclose(vectors, wrong_vectors, atol=1e-3))
    assert any(shows)


@pytest.mark.parametrize("score", checks._COSTED)
@pytest.mark.parametrize("sizes", [(13, 2, 3, 5, 7), (2, 13, 11, 2, 3), (1, 1, 2, 3, 5)])
def test_the_measured_costs_are_those_of_the_formulas(score, sizes):
    src_len, tgt_len, query_dim, key_dim, hidden = sizes
    key_dim = query_dim if score == "dot" else key_dim
    asked = (score, src_len, tgt_len, query_dim, key_dim, hidden)
    assert checks._multiplications(*asked) == right.multiplications(*asked)
    assert checks._parameters(score, *asked[3:]) == right.parameters(score, *asked[3:])


def test_both_orders_of_general_are_the_cheaper_one_somewhere():
    keys_first = lambda S, T, q, k: S * q * k + S * T * q  # noqa: E731
    for sizes, cheaper in (((13, 2, 3, 5), False), ((2, 13, 11, 2), True)):
        found = checks._multiplications("general", *sizes, 7)
        assert (found == keys_first(*sizes)) is cheaper


@pytest.mark.parametrize("seed", range(20))
def test_no_vectors_each_find_the_next_by_dot(seed):
    """Why part 5 needs a matrix that is not its own transpose."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(100):
        X = 3 * torch.randn(3, 5, generator=generator)
        assert (X @ X.T).argmax(dim=-1).tolist() != [1, 2, 0]


DECODERS = [*checks._DECODERS, *checks._FURTHER_DECODERS]


@pytest.mark.parametrize(("what", "faults", "expected"), DECODERS)
@pytest.mark.parametrize("examine", right.EXAMINATIONS)
def test_every_decoder_has_its_symptoms_whatever_the_numbers(what, faults, expected, examine):
    for seed in range(10):
        torch.manual_seed(seed)
        assert set(examine(checks._TestedDecoder(*faults, seed=seed))) == expected, what


def test_every_symptom_is_seen_alone_and_in_the_vectors_only():
    alone = {next(iter(found)) for _, _, found in DECODERS if len(found) == 1}
    assert alone == set(checks.SYMPTOMS)
    hidden = [found for what, _, found in DECODERS if what.startswith("returns correct weights")]
    assert set().union(*hidden) == {"padding", "future", "neighbours"}


# The student's part inside the package's translator


def test_a_translator_that_differs_only_step_by_step_is_caught():
    model, changed = checks._small_model("general"), checks._small_model("general")
    step = changed.step

    def another_word(token, state):
        logits, state = step(token, state)
        return logits.roll(1, dims=-1), state

    changed.step = another_word
    checks._expect_same_model(model, checks._small_model("general"))
    with pytest.raises(CheckFailed, match="greedy search outputs other tokens"):
        checks._expect_same_model(model, changed)


def test_the_papers_order_of_columns_is_turned_round_for_the_package():
    readout = torch.nn.Linear(5, 3)
    combine = checks._context_first(readout, decoder_dim=2)
    state, context = torch.randn(1, 2), torch.randn(1, 3)
    assert torch.allclose(
        combine(torch.cat([context, state], -1)), readout(torch.cat([state, context], -1))
    )
