"""The checks of 09_multiplicative_attention, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import Assignment
from torch.utils.flop_counter import FlopCounterMode

from attentively.attention.multiplicative import LocalAttention, LuongAttention
from attentively.checks import multiplicative_attention as checks
from attentively.checks.recordings import load_questions

ASSIGNMENT = Assignment("09_multiplicative_attention")
questions = load_questions(ASSIGNMENT.questions)


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("The set-up is complete.\n")


def test_the_toy_vocabulary_is_as_large_as_part_3_says():
    assert checks.untrained().config.tgt_vocab_size == 271


# The recorded answers are those of the package


def test_the_window_is_that_of_the_package():
    attention = LocalAttention(5, 7, window=2, score="general")
    query, keys, mask = torch.randn(3, 5), torch.randn(3, 11, 7), questions.ragged(3, 11)
    W_p, v_p = attention.position_projection.weight, attention.position_energy.weight[0]
    with torch.no_grad():
        _, weights = attention(query, keys, mask)
        scores = attention.content.scores(query, attention.project_keys(keys))
        position = questions.predicted_position(query, mask.sum(dim=1), W_p, v_p)
        assert torch.allclose(questions.local_weights(scores, position, mask, 2), weights)


def multiplications(score, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    """Count while the package scores a whole target; general in the cheaper of two orders."""
    attention = LuongAttention(query_dim, key_dim, score, hidden_dim)
    queries, keys = torch.randn(tgt_len, 1, query_dim), torch.randn(1, src_len, key_dim)

    def keys_first():
        projected = attention.project_keys(keys)
        for query in queries:
            attention.scores(query, projected)

    def queries_first():
        for query in queries:
            (query @ attention.key_projection.weight).unsqueeze(1) @ keys.mT

    found = []
    for run in (keys_first, queries_first) if score == "general" else (keys_first,):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run()
        found.append(counter.get_total_flops() // 2)  # a multiplication and an addition each
    return min(found)


def test_the_recorded_costs_are_those_of_the_package():
    for case in questions.MULTIPLICATIONS.cases(thorough=True):
        asked = [*case.inputs.values()]
        assert questions.multiplications(*asked) == multiplications(*asked)
    for case in questions.PARAMETERS.cases(thorough=True):
        score, query_dim, key_dim, hidden_dim = case.inputs.values()
        made = LuongAttention(query_dim, key_dim, score, hidden_dim).parameters()
        found = questions.parameters(*case.inputs.values())
        assert found == sum(parameter.numel() for parameter in made)


@pytest.mark.parametrize("seed", range(20))
def test_no_vectors_each_find_the_next_by_dot(seed):
    """Why part 5 needs a matrix that is not its own transpose."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(100):
        X = 3 * torch.randn(3, 5, generator=generator)
        assert (X @ X.T).argmax(dim=-1).tolist() != [1, 2, 0]


DECODERS = [*checks._DECODERS, *checks._FURTHER_DECODERS]


@pytest.mark.parametrize(("what", "faults", "expected"), DECODERS)
def test_every_decoder_has_its_symptoms_whatever_the_numbers(what, faults, expected):
    for examine in ASSIGNMENT.right["examine"]:
        for seed in range(10):
            torch.manual_seed(seed)
            assert set(examine(checks._TestedDecoder(faults, seed=seed))) == expected, what


def test_every_symptom_is_seen_alone_and_in_the_vectors_only():
    alone = {next(iter(found)) for _, _, found in DECODERS if len(found) == 1}
    assert alone == set(checks.SYMPTOMS)
    hidden = [found for what, _, found in DECODERS if what.startswith("returns correct weights")]
    assert set().union(*hidden) == {"padding", "future", "neighbours"}


# The student's part inside the package's translator


def test_the_papers_order_of_columns_is_turned_round_for_the_package():
    readout = torch.nn.Linear(5, 3)
    combine = checks._context_first(readout, decoder_dim=2)
    state, context = torch.randn(1, 2), torch.randn(1, 3)
    assert torch.allclose(
        combine(torch.cat([context, state], -1)), readout(torch.cat([state, context], -1))
    )
