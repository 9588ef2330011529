"""The experiment on norms: what differs is the place of the norms, and the warm-up alone."""

import itertools

import torch

from attentively.experiments import norms
from attentively.experiments.toy_translation import new_transformer
from attentively.training.schedules import one_cycle


def first_weights(norm):
    checkpoint = new_transformer(3, norm=norm, dropout=0.0, **norms.SHAPE)
    return dict(checkpoint.model.named_parameters())


def test_both_kinds_begin_with_the_same_weights():
    pre, post = first_weights("pre"), first_weights("post")
    assert all(torch.equal(weights, pre[name]) for name, weights in post.items())
    assert {name.rpartition(".")[0] for name in pre.keys() - post.keys()} == {
        "encoder.last_norm",
        "decoder.last_norm",
    }


def test_every_place_of_the_norms_meets_every_warm_up():
    conditions = norms.EXPERIMENT.conditions
    asked = [(condition["norm"], condition["warm_up_steps"]) for condition in conditions]
    assert asked == list(itertools.product(("pre", "post"), norms.WARM_UP))


def test_one_begins_fast_and_one_slowly():
    fast, slow = (
        [one_cycle(step, norms.STEPS, warm_up) for step in range(norms.STEPS)]
        for warm_up in norms.WARM_UP
    )
    assert fast[1] == max(fast) == 1
    assert slow[1] < 0.05
    assert max(slow) == slow[norms.WARM_UP[1]] == 1
