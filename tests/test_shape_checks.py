"""The shapes in the annotations are checked in the tests, or many tests would test less."""

import jaxtyping
import pytest
import torch

from attentively.attention.additive import AdditiveAttention
from attentively.attention.masks import causal_mask, padding_mask
from attentively.config import Config
from attentively.data.batches import Batch
from attentively.layers.bidirectional import BidirectionalEncoder


def test_too_few_axes():
    with pytest.raises(jaxtyping.TypeCheckError, match="ids"):
        padding_mask(torch.zeros(3, dtype=torch.long), 0)


def test_another_type_of_number():
    with pytest.raises(jaxtyping.TypeCheckError, match="ids"):
        padding_mask(torch.zeros(3, 5), 0)
    with pytest.raises(jaxtyping.TypeCheckError, match="size"):
        causal_mask("5")


def test_two_arguments_that_disagree():
    attention = AdditiveAttention(7, 11, 13)
    with pytest.raises(jaxtyping.TypeCheckError, match="keys"):
        attention(torch.zeros(3, 7), torch.zeros(2, 5, 11))
    with pytest.raises(jaxtyping.TypeCheckError, match="mask"):
        attention(torch.zeros(3, 7), torch.zeros(3, 5, 11), torch.ones(3, 7, dtype=torch.bool))


def test_a_result_that_disagrees():
    encoder = BidirectionalEncoder(5, 3)
    embedded, mask = torch.zeros(2, 7, 5), torch.ones(2, 7, dtype=torch.bool)
    assert encoder(embedded, mask)[0].shape == (2, 7, 6)

    def one_sentence_less(_, __, output):
        outputs, state = output
        return outputs, state[:, :1]

    encoder.gru.register_forward_hook(one_sentence_less)
    with pytest.raises(jaxtyping.TypeCheckError, match="return"):
        encoder(embedded, mask)


def test_a_method_that_returns_self_works():
    assert isinstance(Config.from_dict({}), Config)
    ids = torch.zeros(2, 3, dtype=torch.long)
    assert isinstance(Batch(ids, ids).to("cpu"), Batch)


@pytest.mark.usefixtures("unchecked")
def test_they_can_be_switched_off():
    assert padding_mask(torch.zeros(3), 0).shape == (3, 1)
