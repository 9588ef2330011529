"""Searches find what they promise, on languages small enough to list every sentence."""

import copy
import inspect
import itertools
import math
import types
from collections import Counter

import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from search_models import (
    VOCAB,
    WORDS,
    A,
    B,
    C,
    Counting,
    Markov,
    MarkovText,
    counting,
    decided,
    markov,
    opinionated_seq2seq,
    random_markov,
    source,
    transformer,
)

from attentively.attention.masks import padding_mask
from attentively.generation import search as decoding
from attentively.generation.search import beam_search, greedy_search
from attentively.models.configs import LanguageModelConfig
from attentively.models.interface import evaluating
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, UNK_ID

# Greedy takes A (0.6) and ends with 0.6 × 0.4 = 0.24; B C has 0.4 × 0.9 = 0.36.
GREEDY_LOSES = {
    (START_ID, START_ID): {A: 0.6, B: 0.4},
    (START_ID, A): {A: 0.4, B: 0.3, C: 0.3},
    (START_ID, B): {C: 0.9, A: 0.1},
}
# "A" has probability 0.5; "B C C" has 0.5 × 0.9 × 0.9 = 0.405, over twice as many tokens.
LONG_OR_SHORT = {
    (START_ID, START_ID): {A: 0.5, B: 0.5},
    (START_ID, B): {C: 0.9, END_ID: 0.1},
    (B, C): {C: 0.9, END_ID: 0.1},
}
# The empty sentence takes the first place; "B" is third and better than what follows "A".
ENDS_AT_ONCE = {
    (START_ID, START_ID): {END_ID: 0.5, A: 0.3, B: 0.2},
    (START_ID, A): {A: 0.5, B: 0.5},
}
# After "A" and "B C" (0.14, three tokens) have ended, "B C C" has 0.21: better for its length.
STILL_HOPEFUL = {
    (START_ID, START_ID): {A: 0.5, B: 0.5},
    (START_ID, B): {C: 0.7, END_ID: 0.3},
    (B, C): {C: 0.6, END_ID: 0.4},
}
# Two ends, "A" (0.21) and "B" (0.20), stand between "A A" and "B B", and only the first is kept.
ENDS_BETWEEN = {
    (START_ID, START_ID): {A: 0.52, B: 0.48},
    (START_ID, A): {A: 0.6, END_ID: 0.4},
    (START_ID, B): {END_ID: 0.41, B: 0.3, C: 0.29},
    (A, A): {A: 0.34, B: 0.33, END_ID: 0.33},
}
# "A" and "B" end after two tokens, and nothing else can be as likely as either.
SETTLED = {
    (START_ID, START_ID): {A: 0.9, B: 0.1},
    (START_ID, A): {END_ID: 0.98, A: 0.02},
    (A, A): {A: 1.0},
}


def log_probability_of(model, src, ids):
    """What the model says of a whole target when it is read to it (teacher forcing)."""
    row = torch.tensor([src])
    tgt = torch.tensor([[START_ID, *ids]])
    logits = model(row, tgt[:, :-1])
    return logits.log_softmax(-1).gather(-1, tgt[:, 1:, None]).sum().item()


def every_sentence(max_len):
    """Every row of words and an end with at most `max_len` tokens."""
    for length in range(max_len):
        for words in itertools.product(WORDS, repeat=length):
            yield [*words, END_ID]


# --- Properties, each a function that a broken twin of the module can be given ---


def width_one_is_greedy(module):
    for seed in range(5):
        model = random_markov(seed)
        src = source((4,), (5, 4), (6, 6, 5))
        for max_len in (1, 2, 11):
            greedy = module.greedy_search(model, src, max_len)
            beam = module.beam_search(model, src, max_len, beam_size=1)
            for one, found in zip(greedy, beam, strict=True):
                assert len(found) == 1
                assert (one.ids, one.finished) == (found[0].ids, found[0].finished)
                assert one.log_probability == pytest.approx(found[0].log_probability)


def a_wide_beam_is_exhaustive(module):
    max_len = 4
    for seed in range(3):
        model = random_markov(seed)
        src = source((4,), (5,))
        for length_penalty in (0.0, 0.7, 1.0, 2.0):
            found = module.beam_search(model, src, max_len, 300, length_penalty)
            for row, hypotheses in zip(src.tolist(), found, strict=True):
                finished = [h for h in hypotheses if h.finished]
                scores = {
                    tuple(ids[:-1]): log_probability_of(model, row, ids)
                    / len(ids) ** length_penalty
                    for ids in every_sentence(max_len)
                }
                best_first = sorted(scores, key=scores.get, reverse=True)
                assert [tuple(h.ids) for h in finished] == best_first
                assert [h.score for h in finished] == pytest.approx([scores[i] for i in best_first])


def log_probabilities_are_the_models(module):
    model = random_markov(1)
    src = source((4,), (5, 4), (6, 6, 5))
    for row, found in zip(src, module.beam_search(model, src, 9, beam_size=5), strict=True):
        for hypothesis in found:
            ids = [*hypothesis.ids, *[END_ID] * hypothesis.finished]
            expected = log_probability_of(model, row.tolist(), ids)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-5)
            assert hypothesis.score == pytest.approx(expected / len(ids), abs=1e-5)


def special_tokens_are_never_written(module):
    for seed in range(5):
        model = random_markov(seed)
        src = source((4,), (5,), (6,))
        for found in module.beam_search(model, src, 7, beam_size=11):
            assert found
            for hypothesis in found:
                assert set(hypothesis.ids) <= set(WORDS)
        for hypothesis in module.greedy_search(model, src, 7):
            assert set(hypothesis.ids) <= set(WORDS)


def company_changes_nothing(module):
    model = random_markov(2)
    rows = [(4,), (5, 4), (6, 6, 5), (4, 4, 4, 4, 4), (5,)]
    src = source(*rows)
    together = module.beam_search(model, src, 7, beam_size=3)
    backwards = module.beam_search(model, src.flip(0), 7, beam_size=3)
    assert together == backwards[::-1]
    assert together == [module.beam_search(model, source(row), 7, beam_size=3)[0] for row in rows]
    greedy = module.greedy_search(model, src, 7)
    assert greedy == [module.greedy_search(model, source(row), 7)[0] for row in rows]


def two_beams_find_what_greedy_misses(module):
    model = markov(GREEDY_LOSES)
    (greedy,) = module.greedy_search(model, source(), max_len=5)
    assert greedy.ids == [A, A]
    assert math.exp(greedy.log_probability) == pytest.approx(0.24)
    ((best, *_),) = module.beam_search(model, source(), max_len=5, beam_size=2)
    assert best.ids == [B, C]
    assert math.exp(best.log_probability) == pytest.approx(0.36)


def the_length_penalty_chooses(module):
    model = markov(LONG_OR_SHORT)
    short, long = math.log(0.5), math.log(0.405)  # of 2 and 4 tokens
    for length_penalty, winner, score in [
        (0.0, [A], short),
        (1.0, [B, C, C], long / 4),
        (module.power(1.0), [B, C, C], long / 4),
        (module.power(0.5), [B, C, C], long / 2),  # -0.452, and -0.490 of the short one
        (module.gnmt(1.0), [A], short * 6 / 7),  # -0.594 and -0.603
        (module.gnmt(2.0), [B, C, C], long * (6 / 9) ** 2),  # -0.509 and -0.402
    ]:
        ((best, *_),) = module.beam_search(model, source(), 5, 3, length_penalty)
        assert (best.ids, best.score) == (winner, pytest.approx(score))


def a_later_sentence_may_overtake(module):
    """The short sentence ends first; the search goes on and keeps the best two of three."""
    (found,) = module.beam_search(markov(LONG_OR_SHORT), source(), 5, 2, 1.0)
    assert [hypothesis.ids for hypothesis in found] == [[B, C, C], [A]]
    expected = [math.log(0.405) / 4, math.log(0.5) / 2]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(expected)


def unfinished_sentences_come_last(module):
    """After two tokens only "A" has ended, and its score is worse than that of "B C"."""
    model = markov({(START_ID, START_ID): {A: 0.4, B: 0.6}, (START_ID, B): {C: 1.0}})
    (found,) = module.beam_search(model, source(), max_len=2, beam_size=2)
    assert [(h.ids, h.finished) for h in found] == [([A], True), ([B, C], False)]
    assert found[0].score < found[1].score


def no_more_than_the_width_is_returned(module):
    """Ended or given up; and nothing impossible where there is less."""
    for model in (random_markov(0), markov(GREEDY_LOSES), markov(SETTLED)):
        for max_len, beam_size in itertools.product((1, 2, 3), (1, 2, 3, 9)):
            (found,) = module.beam_search(model, source(), max_len, beam_size)
            assert 1 <= len(found) <= beam_size
            assert all(math.isfinite(hypothesis.log_probability) for hypothesis in found)


def an_end_costs_no_place(module):
    """As many beginnings go on after a sentence has ended."""
    (found,) = module.beam_search(markov(ENDS_AT_ONCE), source(), 5, 2, 0.0)
    assert [hypothesis.ids for hypothesis in found] == [[], [B]]
    (found,) = module.beam_search(markov(ENDS_BETWEEN), source(), 5, 2, 0.0)
    assert [hypothesis.ids for hypothesis in found] == [[A], [B, B]]


def beginnings_are_scored_at_their_present_length(module):
    (found,) = module.beam_search(markov(STILL_HOPEFUL), source(), 9, 2, 1.0)
    assert [hypothesis.ids for hypothesis in found] == [[A], [B, C, C]]


def the_search_ends_when_nothing_can_improve(module):
    model = counting(SETTLED)
    (found,) = module.beam_search(model, source(), 50, 2, 0.0)
    assert [hypothesis.ids for hypothesis in found] == [[A], [B]]
    assert model.rows == [1, 2]


def an_empty_place_asks_nothing(module):
    """A beam wider than there are beginnings asks the model only how beginnings go on."""
    module.beam_search(counting(SETTLED), source(), 9, 4, 0.0)
    module.beam_search(counting(GREEDY_LOSES), source(), 9, 7, 0.0)


def what_is_done_leaves_the_batch(module):
    """In the first language one word is enough, in the second three."""
    trees = (
        {(START_ID, START_ID): {A: 1.0}},
        {(START_ID, START_ID): {A: 1.0}, (START_ID, A): {B: 1.0}, (A, B): {C: 1.0}},
    )
    logits = torch.cat([markov(tree).logits.detach() for tree in trees])
    src = source((4,), (5,), (4,))
    for search, expected in [
        (lambda model: module.greedy_search(model, src, 9), [3, 3, 1, 1]),
        (lambda model: module.beam_search(model, src, 9, 1), [3, 3, 1, 1]),
        (lambda model: module.sample(model, src, 9, samples=5), [15, 15, 5, 5]),
    ]:
        model = Counting(logits)
        found = search(model)
        assert model.rows == expected
        texts = [[h.ids for h in (hs if isinstance(hs, list) else [hs])] for hs in found]
        copies = len(texts[0])
        assert texts == [[[A]] * copies, [[A, B, C]] * copies, [[A]] * copies]


def rows_are_chosen_only_where_they_change(module):
    for search, expected in [
        (lambda model: module.greedy_search(model, source(), 9), 0),
        (lambda model: module.sample(model, source(), 9), 0),
        (lambda model: module.beam_search(model, source(), 9, 1), 0),
        (lambda model: module.beam_search(model, source(), 5, 2), 3),
    ]:
        model = counting(LONG_OR_SHORT)
        search(model)
        assert model.selected == expected


def distributions(temperature, top_k, top_p, probabilities):
    """`truncate` in plain numbers, for probabilities of which no two are equal."""
    kept = {token: p ** (1 / temperature) for token, p in probabilities.items()}
    likeliest_first = sorted(kept, key=kept.get, reverse=True)[:top_k]
    total = sum(kept[token] for token in likeliest_first)
    nucleus, mass = {}, 0.0
    for token in likeliest_first:
        if mass < top_p:
            nucleus[token] = kept[token] / total
        mass += kept[token] / total
    return {token: p / sum(nucleus.values()) for token, p in nucleus.items()}


WAYS_TO_DRAW = [
    {},
    {"temperature": 0.4},
    {"temperature": 2.5},
    {"top_k": 1},
    {"top_k": 2},
    {"top_p": 0.6},
    {"top_p": 0.05},
    {"temperature": 1.7, "top_k": 2, "top_p": 0.75},
]
# Two words, then an end: a sentence of two words has the product of its probabilities.
TWO_WORDS = {
    (START_ID, START_ID): {A: 0.55, B: 0.3, C: 0.15},
    (START_ID, A): {A: 0.1, B: 0.2, C: 0.7},
    (START_ID, B): {A: 0.45, B: 0.35, C: 0.2},
    (START_ID, C): {A: 0.25, B: 0.65, C: 0.1},
}


def truncating_gives_the_distribution(module):
    probabilities = {0: 0.15, 1: 0.5, 2: 0.05, 3: 0.3}
    log_probabilities = torch.tensor([probabilities[token] for token in range(4)]).log()
    for way in WAYS_TO_DRAW:
        expected = distributions(
            way.get("temperature", 1.0), way.get("top_k"), way.get("top_p", 1.0), probabilities
        )
        found = module.truncate(log_probabilities.expand(2, 3, 4), **way).exp()
        for row in found.flatten(0, 1):
            assert row.tolist() == pytest.approx([expected.get(token, 0.0) for token in range(4)])
            assert (row > 0).tolist() == [token in expected for token in range(4)]


def samples_follow_the_distribution(module):
    """Pearson's statistic of 3,000 draws stays below what one in a thousand fair runs exceeds."""
    draws = 3000
    for way in WAYS_TO_DRAW:
        choices = way.get("temperature", 1.0), way.get("top_k"), way.get("top_p", 1.0)
        expected = {
            (first, second): draws * p * q
            for first, p in distributions(*choices, TWO_WORDS[START_ID, START_ID]).items()
            for second, q in distributions(*choices, TWO_WORDS[START_ID, first]).items()
        }
        generator = torch.Generator().manual_seed(7)
        (found,) = module.sample(
            markov(TWO_WORDS), source(), 5, **way, samples=draws, generator=generator
        )
        counts = Counter(tuple(hypothesis.ids) for hypothesis in found)
        assert counts.keys() <= expected.keys()
        statistic = sum((counts[text] - n) ** 2 / n for text, n in expected.items())
        assert statistic < scipy.stats.chi2.isf(1e-3, max(1, len(expected) - 1))


def samples_say_what_the_model_says(module):
    """Also where they were drawn from something else, and where a token is forbidden."""
    model = random_markov(3)
    src = source((4,), (5, 4), (6, 6, 5))
    for way in WAYS_TO_DRAW:
        for row, found in zip(src, module.sample(model, src, 9, **way, samples=4), strict=True):
            assert len(found) == 4
            for hypothesis in found:
                assert set(hypothesis.ids) <= set(WORDS)
                ids = [*hypothesis.ids, *[END_ID] * hypothesis.finished]
                expected = log_probability_of(model, row.tolist(), ids)
                assert hypothesis.log_probability == pytest.approx(expected, abs=1e-5)
                assert hypothesis.score == hypothesis.log_probability


def a_prompt_is_read_once(module):
    """What follows a prompt is what would follow it had the model written it."""
    model, reads_source = (kind(random_markov(4).logits.detach()) for kind in (MarkovText, Markov))
    src = source((6,))  # asks for the first language
    everything = module.beam_search(reads_source, src, 5, 400, 0.0)[0]
    for prompt in ([], [B], [C, A]):
        expected = [h for h in everything if h.finished and h.ids[: len(prompt)] == prompt]
        before = log_probability_of(reads_source, src[0].tolist(), prompt) if prompt else 0.0
        rows = torch.tensor([[START_ID, *prompt]] * 2)
        for found in module.generate(model, rows, 5 - len(prompt), module.Beam(400, 0.0)):
            finished = [h for h in found if h.finished]
            assert [[*prompt, *h.ids] for h in finished] == [h.ids for h in expected]
            assert [before + h.log_probability for h in finished] == pytest.approx(
                [h.log_probability for h in expected], abs=1e-5
            )


PROPERTIES = [
    width_one_is_greedy,
    a_wide_beam_is_exhaustive,
    log_probabilities_are_the_models,
    special_tokens_are_never_written,
    company_changes_nothing,
    two_beams_find_what_greedy_misses,
    the_length_penalty_chooses,
    a_later_sentence_may_overtake,
    unfinished_sentences_come_last,
    no_more_than_the_width_is_returned,
    an_end_costs_no_place,
    beginnings_are_scored_at_their_present_length,
    the_search_ends_when_nothing_can_improve,
    an_empty_place_asks_nothing,
    what_is_done_leaves_the_batch,
    rows_are_chosen_only_where_they_change,
    truncating_gives_the_distribution,
    samples_follow_the_distribution,
    samples_say_what_the_model_says,
    a_prompt_is_read_once,
]


@pytest.mark.parametrize("holds", PROPERTIES)
def test_property(holds):
    holds(decoding)


def broken_twin(old, new):
    """The module with one line changed."""
    source_code = inspect.getsource(decoding)
    assert source_code.count(old) == 1, f"found {source_code.count(old)} times: {old}"
    twin = types.ModuleType("broken_twin")
    exec(compile(source_code.replace(old, new), "broken_twin", "exec"), twin.__dict__)
    return twin


@pytest.mark.parametrize(
    ("old", "new", "seen_by"),
    [
        # the search stops at the first ended sentence that beats the beginnings
        ("if len(found) < beam_size:", "if not found:", a_later_sentence_may_overtake),
        # ... or as soon as there are enough ended ones
        ("return best_live > found[-1].score", "return False", a_later_sentence_may_overtake),
        # ... or not before every beginning has ended or been given up
        (
            "return best_live > found[-1].score",
            "return True",
            the_search_ends_when_nothing_can_improve,
        ),
        # beginnings are compared without regard to their length
        (
            "highest[row] / penalty(length)",
            "highest[row]",
            beginnings_are_scored_at_their_present_length,
        ),
        # ended sentences push beginnings out of the beam
        (
            "log_probabilities, 2 * beam_size)",
            "log_probabilities, beam_size)",
            an_end_costs_no_place,
        ),
        ("log_probabilities, 2 * beam_size)", "log_probabilities, 3)", an_end_costs_no_place),
        # the beam is one narrower
        ("live.topk(min(beam_size,", "live.topk(min(1,", two_beams_find_what_greedy_misses),
        # an unlikely end is as good as any
        ("ended[:, :beam_size].nonzero()", "ended.nonzero()", width_one_is_greedy),
        # all that ended is kept
        ("= best[:beam_size]", "= best", a_later_sentence_may_overtake),
        # ... in the order in which it ended
        ("key=_score, reverse=True)", "key=len)", a_wide_beam_is_exhaustive),
        # unlikely tokens are thrown away early
        ("topk(min(count, width", "topk(min(count, 3, width", a_wide_beam_is_exhaustive),
        # the states of the hypotheses are mixed up
        (
            "* width + beam.parent)",
            "* width + 0 * beam.parent)",
            log_probabilities_are_the_models,
        ),
        # ... or those of the sentences
        ("unsqueeze(1) * width +", "unsqueeze(1) * 0 +", company_changes_nothing),
        # ... or left as they were
        ("select(parents)", "select(parents.sort().values)", log_probabilities_are_the_models),
        # ... or chosen without need
        ("if parents.tolist() !=", "if True or", rows_are_chosen_only_where_they_change),
        ("if len(continuing) < len(live):", "if True:", rows_are_chosen_only_where_they_change),
        # an empty place holds an ended sentence, and the model is asked how it goes on
        ("place.where(best > -math.inf,", "place.where(best < 1,", an_empty_place_asks_nothing),
        # one sentence's end is everybody's
        ("if not continuing:", "if len(continuing) < len(live):", width_one_is_greedy),
        # what has ended stays in the batch
        (
            "continuing = [row for row, text in enumerate(live) if texts[text][-1] != END_ID]",
            "continuing = [*range(len(live))] * any(i[-1] != END_ID for i in texts)",
            what_is_done_leaves_the_batch,
        ),
        # the end is kept
        ("ids[:-1] if finished", "ids if finished", width_one_is_greedy),
        # the length penalty is forgotten
        ("lambda length: length**alpha", "lambda length: 1.0", the_length_penalty_chooses),
        ("(5 + length) / 6", "length / 6", the_length_penalty_chooses),
        ("(5 + length) / 6", "(5 + length) / 5", the_length_penalty_chooses),
        # the end token is not counted
        (
            "_ended(candidates, beam_size, penalty(length))",
            "_ended(candidates, beam_size, penalty(max(1, length - 1)))",
            a_later_sentence_may_overtake,
        ),
        # sentences that never ended are ranked among those that did
        (
            "[*found[sentence], *unfinished][:beam_size]",
            "sorted([*found[sentence], *unfinished], key=_score, reverse=True)[:beam_size]",
            unfinished_sentences_come_last,
        ),
        # ... or fill more places than there are, or impossible ones
        (
            "[*found[sentence], *unfinished][:beam_size]",
            "[*found[sentence], *unfinished]",
            no_more_than_the_width_is_returned,
        ),
        (
            "        if total > -math.inf\n",
            "        if True\n",
            no_more_than_the_width_is_returned,
        ),
        # <pad>, <unk> and <start> are written
        (
            "FORBIDDEN_IDS = (PAD_ID, UNK_ID, START_ID)",
            "FORBIDDEN_IDS = ()",
            special_tokens_are_never_written,
        ),
        # what is forbidden is shared out among the rest
        (
            "    if not log_probabilities.amax",
            "    log_probabilities = log_probabilities.log_softmax(dim=-1)\n"
            "    if not log_probabilities.amax",
            log_probabilities_are_the_models,
        ),
        # the choices of a draw are forgotten, or a little off
        (") / temperature", ")", truncating_gives_the_distribution),
        (") / temperature", ") * temperature", samples_follow_the_distribution),
        ("topk(min(top_k, ", "topk(min(top_k + 1, ", truncating_gives_the_distribution),
        (".cumsum(dim=-1) - probabilities", ".cumsum(dim=-1)", truncating_gives_the_distribution),
        (
            "(-1, order, likelier >= top_p)",
            "(-1, order.roll(1, -1), likelier >= top_p)",
            truncating_gives_the_distribution,
        ),
        (
            "(-1, order, likelier >= top_p)",
            "(-1, order.sort().values, likelier >= top_p)",
            truncating_gives_the_distribution,
        ),
        ("return scores.log_softmax(dim=-1)", "return scores", truncating_gives_the_distribution),
        # the likeliest is always drawn
        (
            "torch.multinomial(kept, 1, generator=generator).squeeze(1)",
            "kept.argmax(-1)",
            samples_follow_the_distribution,
        ),
        # ... or anything that is left
        (
            "torch.multinomial(kept,",
            "torch.multinomial((kept > 0).float(),",
            samples_follow_the_distribution,
        ),
        # the probability is that of what was drawn from
        (
            "log_probabilities.gather(1, token",
            "(choose.__closure__ and log_probabilities / 2).gather(1, token",
            samples_say_what_the_model_says,
        ),
        # a prompt's last token is read twice
        ("model.start(prompt[:, :-1])", "model.start(prompt)", a_prompt_is_read_once),
        # ... or its first
        ("prompt[:, -1])", "prompt[:, 0])", a_prompt_is_read_once),
    ],
)
def test_a_broken_twin_is_seen(old, new, seen_by):
    twin = broken_twin(old, new)
    with pytest.raises(AssertionError):
        seen_by(twin)


# --- Searching, the rest ---


def test_forbidden_ids_are_the_callers_choice():
    model = markov({(START_ID, START_ID): {UNK_ID: 0.9, A: 0.1}})
    assert greedy_search(model, source(), max_len=3)[0].ids == [A]
    assert greedy_search(model, source(), 3, forbidden_ids=())[0].ids == [UNK_ID]
    assert beam_search(model, source(), 3, 1, forbidden_ids=(A,))[0][0].ids == [UNK_ID]
    assert decoding.sample(model, source(), 3, forbidden_ids=(A,))[0][0].ids == [UNK_ID]
    text, prompt = MarkovText(model.logits.detach()), torch.tensor([[START_ID]])
    for how in (decoding.Beam(1), decoding.Sampling()):
        ((found,),) = decoding.generate(text, prompt, 3, how, forbidden_ids=(A,))
        assert found.ids == [UNK_ID]


def test_an_impossible_token_is_never_written():
    """A beam wider than the choices there are holds fewer hypotheses."""
    (found,) = beam_search(markov(GREEDY_LOSES), source(), max_len=5, beam_size=100)
    assert len(found) == 5
    assert sum(math.exp(h.log_probability) for h in found) == pytest.approx(1.0)


def test_an_empty_translation_may_win():
    model = markov({(START_ID, START_ID): {END_ID: 0.9, A: 0.1}})
    assert greedy_search(model, source(), max_len=3)[0][:1] == ([],)
    ((best, *_),) = beam_search(model, source(), max_len=3, beam_size=2)
    assert (best.ids, best.finished) == ([], True)
    assert best.score == pytest.approx(math.log(0.9))


@pytest.mark.parametrize("search", [greedy_search, lambda *given: beam_search(*given, beam_size=3)])
@pytest.mark.parametrize(
    "model",
    [
        markov({(START_ID, START_ID): {UNK_ID: 1.0}}),
        Markov(torch.full((1, *[VOCAB] * 3), math.nan)),
    ],
)
def test_a_model_that_leaves_no_choice_is_refused(search, model):
    with pytest.raises(ValueError, match="no next token can be chosen"):
        search(model, source(), 5)


def test_one_row_without_a_choice_is_enough():
    logits = torch.zeros(2, VOCAB)
    logits[1] = math.nan
    with pytest.raises(decoding.NoChoiceError):
        decoding.next_log_probabilities(logits)


def test_logits_stay_as_they_are_and_half_precision_is_left():
    logits = torch.randn(2, VOCAB, generator=torch.Generator().manual_seed(0))
    before = logits.clone()
    found = decoding.next_log_probabilities(logits, ())
    assert torch.equal(logits, before)
    torch.testing.assert_close(found, logits.log_softmax(dim=-1))
    halves = decoding.next_log_probabilities(logits.half(), ())
    torch.testing.assert_close(halves, logits.half().float().log_softmax(dim=-1))


def test_a_text_goes_on_without_dropout():
    class Watched(MarkovText):
        def step(self, token, state):
            modes.add((self.training, torch.is_grad_enabled()))
            return super().step(token, state)

    model = Watched(random_markov(4).logits.detach()).train()
    for how in (decoding.Beam(2), decoding.Sampling()):
        modes = set()
        decoding.generate(model, torch.tensor([[START_ID, A]]), 3, how)
        assert modes == {(False, False)}
        assert model.training


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (lambda model: greedy_search(model, source(), max_len=0), "max_len=0 must be at least 1"),
        (lambda model: beam_search(model, source(), 0, 2), "max_len=0 must be at least 1"),
        (lambda model: beam_search(model, source(), 3, 0), "beam_size=0 must be at least 1"),
        (lambda model: beam_search(model, source(), 3, -2), "beam_size=-2 must be at least 1"),
    ],
)
def test_searches_refuse(search, message):
    with pytest.raises(ValueError, match=message):
        search(random_markov(0))


# --- With a real model ---


@pytest.fixture(scope="module", params=["additive", "fixed"])
def seq2seq(request):
    return opinionated_seq2seq(request.param)


def test_padding_the_source_changes_nothing(seq2seq):
    src = source((4, 5, 6), (7, 8, 9, 10, 4), (12,))
    longer = F.pad(src, (0, 6), value=PAD_ID)
    assert_close([greedy_search(seq2seq, src, 7)], [greedy_search(seq2seq, longer, 7)])
    assert_close(beam_search(seq2seq, src, 7, 3), beam_search(seq2seq, longer, 7, 3))


def test_a_model_that_looks_at_padding_would_be_seen(seq2seq):
    seq2seq = copy.deepcopy(seq2seq)
    seq2seq.source_mask = lambda src: padding_mask(src, pad_id=-1)
    src = source((4, 5, 6), (7, 8, 9, 10, 4), (12,))
    longer = F.pad(src, (0, 6), value=PAD_ID)
    with pytest.raises(AssertionError):
        assert_close(beam_search(seq2seq, src, 7, 3), beam_search(seq2seq, longer, 7, 3))


def assert_close(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_searching_leaves_the_model_as_it_was(seq2seq):
    seq2seq.train()
    seq2seq.encoder.eval()  # a frozen part stays frozen
    try:
        first = beam_search(seq2seq, source((4, 5)), 7, 3)
        assert first == beam_search(seq2seq, source((4, 5)), 7, 3)  # no dropout
        assert seq2seq.training
        assert seq2seq.dropout.training
        assert not seq2seq.encoder.training
        with evaluating(seq2seq):
            assert not seq2seq.dropout.training
            assert not torch.is_grad_enabled()
        with pytest.raises(ValueError, match="logits"), evaluating(seq2seq):
            decoding.next_log_probabilities(torch.full((2, VOCAB), math.nan))
        assert seq2seq.dropout.training
        assert not seq2seq.encoder.training
        assert torch.is_grad_enabled()
    finally:
        seq2seq.eval()


# --- With a Transformer, and with a language model ---


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary", "alibi"])
def test_a_transformer_is_searched_in_company_and_alone(positions):
    model = transformer(positions=positions, norm="post")
    rows = [(4, 5, 6), (7, 8, 9, 10, 4), (12,), (4, 4)]
    src = source(*rows)
    together = beam_search(model, src, 9, 3)
    assert_close(together, [beam_search(model, source(row), 9, 3)[0] for row in rows])
    greedy = greedy_search(model, src, 9)
    assert_close([greedy], [[greedy_search(model, source(row), 9)[0] for row in rows]])
    assert len({tuple(h.ids) for found in together for h in found}) > 2
    for row, found in zip(rows, together, strict=True):
        for hypothesis in found:
            ids = [*hypothesis.ids, *[END_ID] * hypothesis.finished]
            with torch.no_grad():
                expected = log_probability_of(model, [*row, END_ID], ids)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)


def test_a_language_model_goes_on_as_it_reads():
    """Greedy text by the cache is the text of a model that reads it all again at every step."""
    config = LanguageModelConfig(vocab_size=11, d_model=6, num_heads=2, d_ff=5, num_layers=2)
    model = decided(LanguageModel(config))
    prompts = torch.tensor([[START_ID, 4, 5], [START_ID, 10, 7]])
    greedy = decoding.generate(model, prompts, 7, decoding.Beam(1))
    for prompt, (hypothesis,) in zip(prompts.tolist(), greedy, strict=True):
        text = list(prompt)
        for _ in range(7):
            with torch.no_grad():
                logits = model(torch.tensor([text]))[:, -1]
            text.append(decoding.next_log_probabilities(logits).argmax().item())
            if text[-1] == END_ID:
                break
        assert [*prompt, *hypothesis.ids, *[END_ID] * hypothesis.finished] == text
    for hypothesis in itertools.chain(*decoding.generate(model, prompts, 7, decoding.Beam(3))):
        length = len(hypothesis.ids) + hypothesis.finished  # of what follows the prompt
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / length)
    generator = torch.Generator().manual_seed(0)
    drawn = decoding.generate(
        model, prompts, 7, decoding.Sampling(1.5, top_k=5, samples=3, generator=generator)
    )
    for prompt, found in zip(prompts.tolist(), drawn, strict=True):
        assert len(found) == 3
        for hypothesis in found:
            ids = [*hypothesis.ids, *[END_ID] * hypothesis.finished]
            text = torch.tensor([[*prompt, *ids]])
            with torch.no_grad():
                said = model(text[:, :-1]).log_softmax(-1)[0, len(prompt) - 1 :]
            expected = said.gather(-1, torch.tensor(ids).unsqueeze(-1)).sum().item()
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)


# --- Drawing, the rest ---


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"temperature": 0.0}, "temperature=0.0 must be above 0; for 0 use greedy_search"),
        ({"temperature": -1.0}, "temperature=-1.0 must be above 0"),
        ({"temperature": math.nan}, "temperature=nan must be above 0"),
        ({"temperature": math.inf}, "temperature=inf must be a finite number of at least 1.2e-38"),
        ({"temperature": 1e-40}, "temperature=1e-40 must be a finite number of at least 1.2e-38"),
        ({"top_k": 0}, "top_k=0 must be at least 1"),
        ({"top_p": 0.0}, "top_p=0.0 must be above 0 and at most 1"),
        ({"top_p": 1.1}, "top_p=1.1 must be above 0 and at most 1"),
        ({"samples": 0}, "samples=0 must be at least 1"),
        ({"max_len": 0}, "max_len=0 must be at least 1"),
    ],
)
def test_sampling_refuses(choices, message):
    with pytest.raises(ValueError, match=message):
        decoding.sample(random_markov(0), source(), **{"max_len": 3} | choices)


def test_a_seed_settles_the_samples():
    model = random_markov(0)
    src = source((4,), (5,))

    def draw(seed):
        return decoding.sample(
            model, src, 7, samples=20, generator=torch.Generator().manual_seed(seed)
        )

    assert draw(1) == draw(1) != draw(2)
    first, second = draw(1)
    assert len(first) == len(second) == 20
    assert first != second


def test_the_likeliest_token_is_what_a_greedy_search_takes(seq2seq):
    src = source((4, 5, 6), (7, 8, 9, 10, 4), (12,))
    greedy = greedy_search(seq2seq, src, 7)
    coldest = torch.finfo(torch.float32).tiny
    for way in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}, {"temperature": coldest}):
        drawn = decoding.sample(seq2seq, src, 7, **way)
        assert_close(drawn, [[hypothesis] for hypothesis in greedy])


def test_a_truncated_distribution_is_one():
    log_probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    for choices, expected in [
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"temperature": 0.5}, [0.25 / 0.365, 0.09 / 0.365, 0.0225 / 0.365, 0.0025 / 0.365]),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_k": 9}, [0.5, 0.3, 0.15, 0.05]),
        ({"top_p": 0.79}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.81}, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
        ({"top_p": 0.01}, [1, 0, 0, 0]),
        ({"top_p": 1.0}, [0.5, 0.3, 0.15, 0.05]),
        ({"top_k": 2, "top_p": 0.6}, [1, 0, 0, 0]),  # 0.625 of what top_k has left
    ]:
        found = decoding.truncate(log_probabilities, **choices)
        torch.testing.assert_close(found.exp(), torch.tensor(expected, dtype=torch.float))
    many = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * 4
    assert (decoding.truncate(many, top_p=1.0) > -math.inf).all()  # whatever the sum rounds to
    halves = decoding.truncate(torch.tensor([0.5, 0.25, 0.25]).log(), top_p=0.5)  # exactly reached
    assert halves.exp().tolist() == [1, 0, 0]
    ties = decoding.truncate(torch.tensor([0.4, 0.3, 0.3]).log(), top_k=2)
    torch.testing.assert_close(ties.exp(), torch.tensor([0.4, 0.3, 0.3]))
