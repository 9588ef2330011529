"""The experiment on DPO: the pairs follow the rule, and only the policy is trained."""

import copy

import pytest
import torch

from attentively.experiments import preference_tuning
from attentively.experiments.preference_tuning import (
    ANSWER,
    PROMPT,
    both,
    compare,
    line_breaks,
    tune,
)
from attentively.models.checkpoints import load_pretrained


@pytest.fixture(scope="module")
def shipped():
    return load_pretrained("shakespeare-gpt")


@pytest.fixture(scope="module")
def pairs(shipped):
    given = preference_tuning.prompts("train", 24, 0, quick=True)
    return compare(shipped, given, 0)


def test_the_rule_prefers_more_line_breaks_after_the_same_prompt(shipped, pairs):
    assert len(pairs.chosen) > 5
    assert (line_breaks(pairs.chosen, shipped) > line_breaks(pairs.rejected, shipped)).all()
    prompts = pairs.chosen[:, : 1 + PROMPT], pairs.rejected[:, : 1 + PROMPT]
    torch.testing.assert_close(*prompts, rtol=0, atol=0)
    assert pairs.is_answer.sum(dim=1).tolist() == [ANSWER] * len(pairs.chosen)
    assert not pairs.is_answer[:, : 1 + PROMPT].any()


def test_tuning_increases_the_margin_and_leaves_the_reference_alone(shipped, pairs):
    reference = shipped.model.eval()
    kept = copy.deepcopy(reference.state_dict())
    policy = copy.deepcopy(reference)
    assert list(tune(policy, reference, pairs, 0.5, seed=0, steps=3)) == [1, 2, 3]
    with torch.no_grad():
        chosen, rejected = both(policy, pairs)
        reference_chosen, reference_rejected = both(reference, pairs)
    assert ((chosen - reference_chosen) - (rejected - reference_rejected)).mean() > 0
    assert all(torch.equal(kept[name], value) for name, value in reference.state_dict().items())
