"""The checks of 05_decoding, beyond what its bank of answers proves."""

import math

import pytest
import torch
from assignments import Assignment

from attentively.checks import CheckFailed
from attentively.checks import decoding as checks
from attentively.checks.recordings import load_questions
from attentively.generation.search import beam_search, greedy_search, truncate
from attentively.tokens.vocabulary import END_ID, START_ID

questions = load_questions(Assignment("05_decoding").questions)
SRC = torch.tensor([[4, END_ID]])


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
def test_the_recorded_searches_are_the_packages(seed):
    """On random tables, in all hypotheses and scores, whatever the beam size and the penalty."""
    table = questions.random_table(seed, 2, 3)
    model, step = checks.TableModel(table), checks.step_of(table)
    for max_len in (2, 4):
        (found,) = greedy_search(model, SRC, max_len, ())
        expected = found.ids, pytest.approx(found.log_probability, rel=1e-4)
        assert questions.greedy(step, max_len) == expected
        for beam_size, alpha in [(1, 0.0), (2, 0.7), (3, 1.5), (50, 0.7)]:
            (several,) = beam_search(model, SRC, max_len, beam_size, alpha, ())
            over = [hypothesis for hypothesis in several if hypothesis.finished]
            mine = questions.beam_search(step, beam_size, max_len, alpha)
            assert [s for _, s in mine] == pytest.approx([h.score for h in over], rel=1e-4)
            assert [tokens for tokens, _ in mine][:1] == [h.ids for h in over][:1]


def test_a_search_on_a_table_finds_what_the_search_of_part_3_finds():
    for seed in range(4):
        table = questions.random_table(seed, 2, 3)
        for beam_size in (1, 2, 7):
            tokens, total = questions.beam_search(checks.step_of(table), beam_size, 9, 0.0)[0]
            text = " ".join("abc"[token - 4] for token in tokens)
            assert checks.search(table, beam_size) == (text, pytest.approx(math.exp(total)))


def test_of_equally_probable_tokens_the_first_in_the_order_is_taken():
    table = {"": {"a": 0.5, "b": 0.25, "END": 0.25}, "a": {"b": 0.3, "a": 0.3, "END": 0.4}}
    assert checks.search({"": {"a": 0.5, "b": 0.5}}, 1, order=("b", "a", "END")).text == "b"
    assert {each.text for each in checks._written(table, 2)} == {"", "b"}


def test_the_recorded_distributions_are_the_packages():
    for case in questions.top_p_cases(thorough=True):
        scores, temperature, p = case.inputs.values()
        expected = truncate(scores.double(), temperature, top_p=p).exp().sort().values
        found = questions.top_p(scores, temperature, p).sort().values
        assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("sizes", [(2, 4, 5), (3, 4, 5), (1, 4, 3), (5, 3, 7)])
def test_the_recorded_costs_are_those_of_a_language_of_this_size(sizes):
    """Every search runs to the end, because END is improbable."""
    number, max_len, beam_size = sizes
    calls = []
    row = torch.cat([torch.tensor([-50.0]), torch.linspace(1, 2, number)]).log_softmax(0)

    def step(token, state):
        calls.append(token)
        return torch.cat([torch.full((END_ID,), -math.inf), row]), token

    counted = []
    for width in (1, beam_size, number**max_len):
        calls.clear()
        questions.beam_search(step, width, max_len, 0.0)
        counted.append(len(calls))
    # An unlimited beam extends each prefix once, and each can also end.
    expected = dict(zip(("greedy", "beam", "texts"), counted, strict=True))
    assert questions.costs(*sizes) == expected


def test_at_the_recorded_alphas_both_hypotheses_have_the_same_score():
    for case in questions.alpha_cases(thorough=True):
        pair = [(sum(map(math.log, text)), len(text)) for text in case.inputs.values()]
        power, gnmt = questions.tipping_alphas(**case.inputs)
        for penalties in ([n**power for _, n in pair], [((5 + n) / 6) ** gnmt for _, n in pair]):
            short, long = (
                total / penalty for (total, _), penalty in zip(pair, penalties, strict=True)
            )
            assert short == pytest.approx(long)


def test_the_texts_of_a_table_share_out_all_probability():
    for seed in range(4):
        found = [*checks._texts(questions.random_table(seed, 2, 3))]
        assert sum(each.probability for each in found) == pytest.approx(1)
        assert len({each.text for each in found}) == len(found)


def test_no_case_has_a_tie_that_decides():
    """Renaming the words reverses the order of ties, and must change nothing else."""
    turned, renamed = {4: 6, 5: 5, 6: 4}, str.maketrans("ac", "ca")
    for case in questions.beam_cases(thorough=True):
        step, *how = case.inputs.values()
        other = {
            prefix.translate(renamed): {
                n if n == "END" else n.translate(renamed): p for n, p in row.items()
            }
            for prefix, row in step.rows.items()
        }
        found = questions.beam_search(step, *how)
        again = questions.beam_search(checks.step_of(other), *how)
        again = [([turned[token] for token in tokens], score) for tokens, score in again]
        assert again == [(tokens, pytest.approx(score)) for tokens, score in found]


# What the parts are about


def test_the_solutions_tables_show_what_they_are_for():
    empty = questions.empty_wins()
    for width, alpha, number in [(1, 0.0, 3), (2, 0.0, 0), (10, 0.0, 0), (2, 1.0, 3)]:
        assert len(checks.search(empty, width, alpha).text.split()) == number
    found = [checks.search(questions.beam_loses(), width).probability for width in (1, 2, 3)]
    assert found == pytest.approx([0.16, 0.16, 0.25])


def test_what_a_beam_of_ten_finds_on_the_translator_is_likelier_and_much_too_short():
    """What part 3 shows."""
    src, tgt = checks.sentences(9, clauses=3)
    step = checks.translation_step(src[7:8])
    found = [questions.beam_search(step, width, 60, 0.0)[0] for width in (1, 10)]
    assert found[0][1] < found[1][1]
    assert checks.words(found[1][0]) == "la tante"
    assert len(checks.words(tgt[7].tolist()).split()) > 10


def test_counts_must_be_exact():
    """The broken variants: a float, and 64-bit integers, which overflow for a large vocabulary."""
    right = (questions.costs, questions.tipping_alphas, questions.tipping_temperature)

    def in_floats(*sizes):
        return {key: float(value) for key, value in questions.costs(*sizes).items()}

    def in_64_bits(*sizes):
        return {key: value % 2**63 for key, value in questions.costs(*sizes).items()}

    checks.predictions(*right)
    for costs in (in_floats, in_64_bits):
        with pytest.raises(CheckFailed, match="costs, texts"):
            checks.predictions(costs, *right[1:])
