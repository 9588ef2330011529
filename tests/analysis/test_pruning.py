"""A head left out lacks its own term of the sum, and comes back."""

import pytest
import torch

from attentively.analysis.pruning import Head, find_heads, silenced
from attentively.attention.multi_head import MultiHeadAttention
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer

BATCH, QUERIES, KEYS, D_MODEL, HEADS = 2, 5, 7, 15, 3


@pytest.fixture
def attention():
    torch.manual_seed(0)
    attention = MultiHeadAttention(D_MODEL, HEADS)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return attention


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    memory = torch.randn(BATCH, KEYS, D_MODEL)
    return torch.randn(BATCH, QUERIES, D_MODEL), memory, memory


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = TransformerConfig(
        src_vocab_size=11, tgt_vocab_size=13, d_model=12, num_heads=3, d_ff=5, num_layers=2
    )
    return Transformer(config).eval()


def contribution(attention, inputs, number):
    """What one head adds to the output: its own attention, times its columns of W^O."""
    rows = slice(number * attention.d_head, (number + 1) * attention.d_head)
    q, k, v = (
        x @ projection.weight[rows].T + projection.bias[rows]
        for x, projection in zip(
            inputs,
            (attention.query_projection, attention.key_projection, attention.value_projection),
            strict=True,
        )
    )
    weights = (q @ k.transpose(1, 2) / attention.d_head**0.5).softmax(dim=-1)
    return weights @ v @ attention.output_projection.weight[:, rows].T


def test_every_head_of_a_transformer_is_found(model):
    heads = find_heads(model)
    assert len(heads) == len(set(heads)) == 3 * 2 * 3  # kinds, layers, heads
    assert heads[0] == Head("encoder.layers.0.self_attention", 0)
    assert Head("decoder.layers.1.cross_attention", 2) in heads


@pytest.mark.parametrize("number", range(HEADS))
def test_a_silenced_head_lacks_its_own_term_of_the_sum(attention, inputs, number):
    whole, weights = attention(*inputs)
    with silenced(attention, [Head("", number)]):
        without, same_weights = attention(*inputs)
    torch.testing.assert_close(whole - without, contribution(attention, inputs, number))
    torch.testing.assert_close(weights, same_weights)  # it still looks; nobody hears it


def test_all_heads_silenced_leave_the_bias(attention, inputs):
    with silenced(attention, find_heads(attention)):
        output, _ = attention(*inputs)
    torch.testing.assert_close(output, attention.output_projection.bias.expand_as(output))


def test_a_silenced_model_is_afterwards_as_before_even_after_an_error(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def changed():
        return [name for name, value in model.state_dict().items() if not value.equal(before[name])]

    def fail_in_silence():
        with silenced(model, find_heads(model)[2:7]):
            assert len(changed()) == 3  # heads 2 to 6 stand in three attentions
            assert all(name.endswith("output_projection.weight") for name in changed())
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_in_silence()
    assert not changed()


def test_silencing_nothing_changes_nothing(attention, inputs):
    whole, _ = attention(*inputs)
    with silenced(attention, []):
        assert attention(*inputs)[0].equal(whole)


def test_an_unknown_head_is_refused(model):
    unknown = silenced(model, [Head("decoder.layers.7.self_attention", 0)])
    with pytest.raises(ValueError, match=r"decoder\.layers\.7\.self_attention"), unknown:
        pass
