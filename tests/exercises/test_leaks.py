"""No function that a student can import answers a part, but for the leaks that are listed here.

The list only shrinks: a leak that is not in it fails, and so does an entry that no longer passes.
It ends empty when the checks hold recorded values instead of references.
"""

import offers as offering
import pytest
from assignments import ASSIGNMENTS
from offers import Call, Offer, leaks_of, may_answer, offers

from attentively.checks import CheckFailed, Parts
from attentively.checks import call as call_candidate

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.timeout(200)]

LEAKS = {
    "00 softmax": {
        "softmax": ["checks.what_attention_explains._softmax"],
    },
    "00 nll": {
        "negative_log_likelihoods": [
            "checks.encoder_and_decoder._surprises",
            "checks.tools._nll",
            "experiments.exposure.surprise",
        ],
    },
    "00 perplexity": {
        "mean_nll": ["checks.tools._mean"],
    },
    "02 pairs": {
        "count_pairs": ["checks.subwords._count"],
    },
    "02 merges": {
        "learn_merges": ["checks.subwords._learn"],
    },
    "02 encoding": {
        "encode_word": ["checks.subwords._by_rank", "checks.subwords._in_order"],
        "piece_ids": ["checks.subwords._ids"],
    },
    "02 round_trip": {
        "encode_text": ["checks.subwords._text_ids"],
    },
    "03 predictions": {
        "parameters": ["checks.recurrent_networks._wrong_count"],
        "sequential_steps": ["checks.recurrent_networks._steps"],
    },
    "04 free_running": {
        "write": ["checks.encoder_and_decoder._free_run"],
    },
    "04 predictions": {
        "counts": ["checks.encoder_and_decoder._counted"],
        "shapes": ["checks.encoder_and_decoder._shapes"],
    },
    "07 pooling": {
        "lookup": ["checks.queries_keys_and_values._found"],
    },
    "07 learned_width": {
        "leave_one_out": ["checks.queries_keys_and_values._left_out"],
    },
    "07 answers": {
        "both": ["checks.queries_keys_and_values._both"],
        "either": ["checks.queries_keys_and_values._either"],
    },
    "09 scores": {
        "dot_scores": ["checks.multiplicative_attention._dot"],
        "general_scores": ["checks.multiplicative_attention._general"],
        "concat_scores": ["checks.multiplicative_attention._concat"],
    },
    "09 local": {
        "predicted_position": ["checks.multiplicative_attention._position"],
        "local_weights": ["checks.multiplicative_attention._windowed"],
    },
    "09 what_w_buys": {
        "parameters": ["checks.multiplicative_attention._parameters"],
        "multiplications": ["checks.multiplicative_attention._multiplications"],
    },
    "10 steps": {
        "step": ["checks.visual_attention._step"],
    },
    "10 pixels": {
        "pixels_seen": ["checks.visual_attention._seen", "checks.visual_attention._walk_back"],
    },
    "10 inside": {
        "inside": ["checks.visual_attention._inside"],
        "pointing": ["checks.visual_attention._chances"],
    },
    "10 bug_hunt": {
        "mended_heat": ["checks.visual_attention._heat"],
    },
    "11 permutations": {
        "total_variation": ["checks.what_attention_explains._variation"],
        "shuffled": ["checks.what_attention_explains._dealt"],
    },
    "11 audit": {
        "smallest": ["checks.what_attention_explains._smallest"],
    },
    "11 other_weights": {
        "jensen_shannon": ["checks.what_attention_explains._divergence"],
        "other_weights": ["checks.what_attention_explains._farthest"],
    },
    "11 forger": {
        "exposed": ["checks.what_attention_explains._exposed"],
    },
    "15 read_off": {
        "sizes": ["checks.building_the_transformer._sizes"],
    },
    "15 from_pytorch": {
        "from_pytorch": ["checks.building_the_transformer.pytorch_names.expected_weights"],
    },
    "16 smoothing": {
        "smoothed_targets": ["checks.training_the_transformer._taught"],
        "smoothed_loss": ["checks.training_the_transformer._mean_loss"],
    },
    "16 schedule": {
        "learning_rate": ["checks.training_the_transformer.learning_rates.rate"],
    },
    "16 batching": {
        "token_batches": ["checks.training_the_transformer.token_limits.cut"],
        "padding_share": ["checks.training_the_transformer.token_limits.padding"],
    },
    "16 training": {
        "update": ["checks.training_the_transformer._own_update"],
    },
    "16 prediction": {
        "at_best": ["checks.training_the_transformer._best"],
        "steps_at": ["checks.training_the_transformer._kept"],
    },
}
"""What passes today: {part: {name that the part asks for: offers}}."""


def faults_of_leaks(found, listed):
    """Return what is found and not listed, and what is listed and not found."""
    said = []
    for name in dict.fromkeys([*found, *listed]):
        now, before = set(found.get(name, ())), set(listed.get(name, ()))
        said += [f"{name} is answered by {each}" for each in sorted(now - before)]
        said += [
            f"{name} is no longer answered by {each}: take it out of LEAKS"
            for each in sorted(before - now)
        ]
    return said


def answers_of(assignment, name):
    answer = assignment.right[name][0]
    return answer if isinstance(answer, tuple) else (answer,)


@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)
def test_only_listed_functions_answer_a_part(assignment):
    said = []
    for name, part in assignment.parts.items():
        found = leaks_of(part, answers_of(assignment, name), offers())
        faults = faults_of_leaks(found, LEAKS.get(f"{assignment.number} {name}", {}))
        said += [f"{name}: {fault}" for fault in faults]
    assert said == []


def test_every_listed_part_exists():
    parts = {f"{each.number} {name}" for each in ASSIGNMENTS for name in each.part_names}
    assert set(LEAKS) <= parts


# Broken variants: planted leaks


def two_sums(add, add_twice, thorough=False):
    for answer, expected in ((add, 5), (add_twice, 8)):
        if call_candidate(answer, {"one": 2, "other": 3}) != expected:
            raise CheckFailed("  This is another sum.")


PLANTED = Parts().part("sums", "add", "add_twice")(two_sums)


def plus(one, other):
    return one + other


def plus_twice(one, other):
    return one + 2 * other


def times(one, other):
    return one * other


def test_a_planted_leak_is_seen_and_a_wrong_function_is_not():
    planted = [Offer(each.__name__, each) for each in (plus, times, plus_twice)]
    right = (lambda one, other: one + other, lambda one, other: one + 2 * other)
    found = leaks_of(PLANTED, right, planted)
    assert found == {"add": ["plus"], "add_twice": ["plus_twice"]}
    assert faults_of_leaks(found, {}) == [
        "add is answered by plus",
        "add_twice is answered by plus_twice",
    ]


def test_an_entry_that_no_longer_passes_is_a_fault():
    assert faults_of_leaks({}, {"add": ["plus"]}) == [
        "add is no longer answered by plus: take it out of LEAKS"
    ]


def test_an_offer_that_does_not_end_for_one_part_is_offered_to_the_next(monkeypatch):
    """What is found must not depend on the parts that were examined before in this process."""
    monkeypatch.setattr(offering, "MOST_SECONDS", 0.05)

    def ends_for_small_numbers(one, other):
        while one > 3:
            pass
        return one + other

    offer = Offer("sum", ends_for_small_numbers)
    found = [may_answer(offer, Call((one, 3), {}, one + 3)) for one in (2, 4, 2)]
    assert found == [True, False, True]


def test_private_functions_of_the_checks_are_offered_and_nothing_twice():
    names = [each.name for each in offers()]
    assert {"checks.tools._nll", "attention.blockwise.blockwise_attention"} <= {*names}
    assert len({id(each.value) for each in offers()}) == len(names) > 1000
    assert not [name for name in names if name.startswith("attention.blockwise._")]
