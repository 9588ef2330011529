"""A part inside the trained model is examined on whole translations and word by word."""

import pytest
import torch

from attentively.checks import CheckFailed
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations

SENTENCES = ["the cat drank the milk because it was hungry", "the dog runs"]


def scaled_where(wrong):
    """Return a `put_in` that scales the first normalisation of the decoder where `wrong` says."""

    def put_in(model):
        norm = model.decoder.layers[0].around_self_attention.layer_norm
        norm.register_forward_hook(lambda _, inputs, output: output * (1 + wrong(output)))

    return put_in


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda output: False, None),
        (lambda output: output.shape[1] > 1, "the trained model's weights"),
        (lambda output: 9 * (output.shape[1] == 1), "the trained model translates differently"),
    ],
    ids=["nowhere", "in whole sentences", "word by word"],
)
def test_both_ways_of_decoding_are_examined(wrong, message):
    torch.manual_seed(0)
    arguments = (scaled_where(wrong), SENTENCES, "norm", TRANSFORMER)
    if message is None:
        expect_same_translations(*arguments)
    else:
        with pytest.raises(CheckFailed, match=message):
            expect_same_translations(*arguments)
