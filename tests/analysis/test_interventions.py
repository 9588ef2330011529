"""The outputs of heads can be recorded and patched; a blocked edge transmits nothing."""

import pytest
import torch

from attentively.analysis.interventions import knock_out, patch_outputs, record_outputs
from attentively.analysis.pruning import Head, find_heads
from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import ALiBi, RotaryPositionalEmbedding
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer

BATCH, QUERIES, KEYS, D_MODEL, HEADS = 2, 5, 7, 12, 3


@pytest.fixture
def attention():
    torch.manual_seed(0)
    return MultiHeadAttention(D_MODEL, HEADS)


def new_inputs(seed, queries=QUERIES):
    torch.manual_seed(seed)
    memory = torch.randn(BATCH, KEYS, D_MODEL)
    return torch.randn(BATCH, queries, D_MODEL), memory, memory


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = TransformerConfig(
        src_vocab_size=11, tgt_vocab_size=13, d_model=12, num_heads=3, d_ff=5, num_layers=2
    )
    return Transformer(config).eval()


def read(model, src, tgt):
    return model.decode(tgt, model.encode(src)).logits


def edges_at(*places, keys=KEYS, queries=QUERIES):
    edges = torch.zeros(BATCH, queries, keys, dtype=torch.bool)
    for sentence, query, key in places:
        edges[sentence, query, key] = True
    return edges


# Outputs of heads


def test_the_outputs_of_heads_add_up_to_that_of_the_attention(attention):
    with record_outputs(attention, find_heads(attention)) as outputs:
        output, _ = attention(*new_inputs(1))
    matrix = attention.output_projection.weight
    added = attention.output_projection.bias + sum(
        outputs[Head("", number)] @ matrix[:, 4 * number : 4 * number + 4].T
        for number in range(HEADS)
    )
    torch.testing.assert_close(output, added)


def test_only_the_heads_asked_for_are_recorded_in_their_last_pass(model):
    head = Head("decoder.layers.1.cross_attention", 2)
    src, tgt = torch.randint(4, 11, (BATCH, 5)), torch.randint(4, 13, (BATCH, 6))
    with record_outputs(model, [head]) as outputs:
        assert outputs == {}
        read(model, src, tgt[:, :4])
        read(model, src, tgt)
    assert {head: what.shape for head, what in outputs.items()} == {head: (BATCH, 6, 4)}


def test_all_heads_of_another_sentence_make_its_output(attention):
    with record_outputs(attention, find_heads(attention)) as outputs:
        other, _ = attention(*new_inputs(2))
    with patch_outputs(attention, outputs):
        output, _ = attention(*new_inputs(1))
    torch.testing.assert_close(output, other)


@pytest.mark.parametrize("number", range(HEADS))
def test_one_head_at_one_query_changes_its_own_term_there(attention, number):
    head = Head("", number)
    own, _ = attention(*new_inputs(1))
    with record_outputs(attention, [head]) as of_own:
        attention(*new_inputs(1))
    with record_outputs(attention, [head]) as of_other:
        attention(*new_inputs(2))
    at = torch.zeros(BATCH, QUERIES, dtype=torch.bool)
    at[1, 3] = True
    with patch_outputs(attention, of_other, at):
        output, _ = attention(*new_inputs(1))
    columns = attention.output_projection.weight[:, 4 * number : 4 * number + 4]
    change = (of_other[head] - of_own[head]) @ columns.T
    torch.testing.assert_close(output - own, change * at.unsqueeze(-1))


def test_patching_with_its_own_outputs_changes_nothing(model):
    src, tgt = torch.randint(4, 11, (BATCH, 5)), torch.randint(4, 13, (BATCH, 6))
    with record_outputs(model, find_heads(model)) as outputs:
        logits = read(model, src, tgt)
    with patch_outputs(model, outputs):
        torch.testing.assert_close(read(model, src, tgt), logits)


# Attention knockout


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "position", [None, RotaryPositionalEmbedding(4), ALiBi(HEADS)], ids=["none", "rotary", "alibi"]
)
def test_an_edge_blocked_in_all_heads_is_an_edge_masked(position, need_weights):
    torch.manual_seed(0)
    attention = MultiHeadAttention(D_MODEL, HEADS, position=position)
    inputs = new_inputs(1, queries=KEYS)
    edges = edges_at((0, 1, 0), (0, 1, 1), (1, 4, 2), queries=KEYS)
    expected, _ = attention(*inputs, mask=causal_mask(KEYS) & ~edges)
    with knock_out(attention, find_heads(attention), edges):
        output, _ = attention(*inputs, mask=causal_mask(KEYS), need_weights=need_weights)
    torch.testing.assert_close(output, expected)  # zeros where what is left is hidden, too


def test_an_edge_is_blocked_in_one_head_and_its_weight_goes_to_the_others(attention):
    _, before = attention(*new_inputs(1))
    with knock_out(attention, [Head("", 1)], edges_at((1, 3, 6))):
        _, weights = attention(*new_inputs(1))
    assert weights[1, 1, 3, 6] == 0
    torch.testing.assert_close(weights[1, 1, 3].sum(), torch.tensor(1.0))
    torch.testing.assert_close(
        weights[1, 1, 3, :6], before[1, 1, 3, :6] / before[1, 1, 3, :6].sum()
    )
    weights[1, 1, 3] = before[1, 1, 3]
    torch.testing.assert_close(weights, before)


def test_after_a_knockout_all_is_as_before_even_after_an_error(model):
    src, tgt = torch.randint(4, 11, (BATCH, 5)), torch.randint(4, 13, (BATCH, 6))
    logits, names = read(model, src, tgt), list(model.state_dict())

    def fail_in_the_middle():
        heads = [
            Head("encoder.layers.0.self_attention", 0),
            Head("encoder.layers.1.self_attention", 2),
        ]
        with knock_out(model, heads, edges_at((0, 1, 2), queries=5, keys=5)):
            assert list(model.state_dict()) == names
            assert not read(model, src, tgt).equal(logits)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_in_the_middle()
    assert read(model, src, tgt).equal(logits)
    assert all(module.position is None for module in model.modules() if hasattr(module, "position"))


# What is refused


def test_a_query_with_nothing_left_is_refused(attention):
    edges = edges_at(*((0, 2, key) for key in range(KEYS)))
    with (
        pytest.raises(ValueError, match="block every key of a query"),
        knock_out(attention, [Head("", 0)], edges),
    ):
        pass


def test_edges_of_another_shape_are_refused(attention):
    edges = edges_at((0, 1, 2), keys=6)
    with (
        knock_out(attention, [Head("", 0)], edges),
        pytest.raises(ValueError, match=r"\(2, 5, 6\), but expected .*\(2, 5, 7\)"),
    ):
        attention(*new_inputs(1))


def test_outputs_of_another_shape_are_refused(attention):
    outputs = {Head("", 0): torch.zeros(BATCH, 4, 4)}
    with (
        patch_outputs(attention, outputs),
        pytest.raises(ValueError, match=r"\(2, 5, 4\).* \(2, 4, 4\)"),
    ):
        attention(*new_inputs(1))


@pytest.mark.parametrize(
    "intervene",
    [
        lambda model, head: record_outputs(model, [head]),
        lambda model, head: patch_outputs(model, {head: torch.zeros(1, 1, 4)}),
        lambda model, head: knock_out(model, [head], torch.zeros(1, 1, 1, dtype=torch.bool)),
    ],
    ids=["record", "patch", "knock out"],
)
def test_an_unknown_head_is_refused(model, intervene):
    with (
        pytest.raises(
            ValueError, match=r"not have these heads: Head\(attention='encoder', number=7"
        ),
        intervene(model, Head("encoder", 7)),
    ):
        pass
