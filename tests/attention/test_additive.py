"""Additive attention does what its equation says."""

import math

import pytest
import torch
from torch import nn

from attentively.attention.additive import AdditiveAttention
from attentively.attention.masks import masked_softmax

BATCH, SRC_LEN, QUERY_DIM, KEY_DIM, HIDDEN_DIM = 3, 5, 7, 11, 13


def attention_and_input(seed=0):
    """Sizes are distinct primes, so that no axis can be taken for another."""
    torch.manual_seed(seed)
    attention = AdditiveAttention(QUERY_DIM, KEY_DIM, HIDDEN_DIM)
    query = torch.randn(BATCH, QUERY_DIM)
    keys = torch.randn(BATCH, SRC_LEN, KEY_DIM)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    return attention, query, keys, mask


def by_the_equation(attention, query, keys, mask):
    """One sentence, one key, one number at a time."""
    W, U = attention.query_projection.weight, attention.key_projection.weight
    v = attention.energy.weight[0]
    contexts, all_weights = [], []
    for b in range(len(query)):
        energies = []
        for j in range(keys.shape[1]):
            energy = sum(
                v[k]
                * torch.tanh(
                    sum(W[k, q] * query[b, q] for q in range(QUERY_DIM))
                    + sum(U[k, d] * keys[b, j, d] for d in range(KEY_DIM))
                )
                for k in range(HIDDEN_DIM)
            )
            energies.append(energy)
        exponentials = [e.exp() if mask[b, j] else 0 * e for j, e in enumerate(energies)]
        weights = torch.stack([e / sum(exponentials) for e in exponentials])
        all_weights.append(weights)
        contexts.append(sum(weights[j] * keys[b, j] for j in range(keys.shape[1])))
    return torch.stack(contexts), torch.stack(all_weights)


def test_by_hand():
    """Two numbers: the key 0 scores tanh(0) = 0, the key atanh(1/2) scores ln 3, twice 1/2 ln 3."""
    attention = AdditiveAttention(1, 1, 1)
    with torch.no_grad():
        attention.query_projection.weight.fill_(1.0)
        attention.key_projection.weight.fill_(1.0)
        attention.energy.weight.fill_(2 * math.log(3))
    far = math.atanh(0.5)
    context, weights = attention(torch.tensor([[0.0]]), torch.tensor([[[0.0], [far]]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(context, torch.tensor([[0.75 * far]]))
    # The query is inside the tanh: with s = atanh(1/2), the key -s scores 0, the key 0 scores ln 3.
    _, weights = attention(torch.tensor([[far]]), torch.tensor([[[-far], [0.0]]]))
    torch.testing.assert_close(weights, torch.tensor([[0.25, 0.75]]))


def test_equals_the_equation_in_value_and_gradient():
    attention, query, keys, mask = attention_and_input()
    query.requires_grad_()
    keys.requires_grad_()
    wanted = [query, keys, *attention.parameters()]
    direction = torch.randn(BATCH, KEY_DIM)

    context, weights = attention(query, keys, mask)
    gradients = torch.autograd.grad((context * direction).sum(), wanted)
    expected_context, expected_weights = by_the_equation(attention, query, keys, mask)
    expected_gradients = torch.autograd.grad((expected_context * direction).sum(), wanted)

    torch.testing.assert_close(weights, expected_weights)
    torch.testing.assert_close(context, expected_context)
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        assert gradient.abs().max() > 0
        torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)


def test_without_a_mask_every_key_may_be_looked_at():
    attention, query, keys, _ = attention_and_input()
    everywhere = torch.ones(BATCH, SRC_LEN, dtype=torch.bool)
    torch.testing.assert_close(attention(query, keys), attention(query, keys, everywhere))


def test_weights_sum_to_one_and_are_zero_under_the_mask():
    attention, query, keys, mask = attention_and_input()
    _, weights = attention(query, keys, mask)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH))
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


class MaskOnTheContext(AdditiveAttention):
    """A broken twin: masked keys are left out of the context, not of the softmax."""

    def forward(self, query, keys, mask=None, projected_keys=None):
        _, weights = super().forward(query, keys)
        weights = weights * mask
        return torch.einsum("bs,bsd->bd", weights, keys), weights


class NoMask(AdditiveAttention):
    """A broken twin: the mask is forgotten."""

    def forward(self, query, keys, mask=None, projected_keys=None):
        return super().forward(query, keys)


class NoQuery(AdditiveAttention):
    """A broken twin: every query gets the same answer."""

    def forward(self, query, keys, mask=None, projected_keys=None):
        return super().forward(torch.zeros_like(query), keys, mask)


class ByPlace(AdditiveAttention):
    """A broken twin: the first keys weigh more because they are the first."""

    def forward(self, query, keys, mask=None, projected_keys=None):
        scores = -torch.arange(keys.shape[1]).float().expand(keys.shape[:2])
        weights = masked_softmax(scores, mask)
        return torch.einsum("bs,bsd->bd", weights, keys), weights


def twin(kind):
    attention, query, keys, mask = attention_and_input()
    other = kind(QUERY_DIM, KEY_DIM, HIDDEN_DIM)
    other.load_state_dict(attention.state_dict())
    return other, query, keys, mask


def ignores_masked_keys(kind):
    attention, query, keys, mask = twin(kind)
    changed = torch.where(mask.unsqueeze(-1), keys, 100 * torch.randn_like(keys))
    before, after = attention(query, keys, mask), attention(query, changed, mask)
    return all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_masked_keys_have_no_influence():
    assert ignores_masked_keys(AdditiveAttention)
    assert not ignores_masked_keys(MaskOnTheContext)
    assert not ignores_masked_keys(NoMask)


def follows_the_keys(kind):
    attention, query, keys, mask = twin(kind)
    order = torch.tensor([3, 0, 4, 1, 2])
    context, weights = attention(query, keys, mask)
    moved_context, moved_weights = attention(query, keys[:, order], mask[:, order])
    return torch.allclose(moved_weights, weights[:, order], atol=1e-6) and torch.allclose(
        moved_context, context, atol=1e-6
    )


def test_permuting_the_keys_permutes_the_weights_and_keeps_the_context():
    assert follows_the_keys(AdditiveAttention)
    assert not follows_the_keys(ByPlace)


def listens_to_the_query(kind):
    attention, query, keys, mask = twin(kind)
    _, before = attention(query, keys, mask)
    _, after = attention(query + 1, keys, mask)
    return not torch.allclose(before, after)


def test_the_query_matters():
    assert listens_to_the_query(AdditiveAttention)
    assert not listens_to_the_query(NoQuery)


def test_sentences_of_a_batch_do_not_meet():
    attention, query, keys, mask = attention_and_input()
    context, weights = attention(query, keys, mask)
    for b in range(BATCH):
        alone = attention(query[b : b + 1], keys[b : b + 1], mask[b : b + 1])
        torch.testing.assert_close(alone, (context[b : b + 1], weights[b : b + 1]))


def test_keys_projected_once_give_the_same():
    attention, query, keys, mask = attention_and_input()
    projected_keys = attention.project_keys(keys)
    assert projected_keys.shape == (BATCH, SRC_LEN, HIDDEN_DIM)
    torch.testing.assert_close(
        attention(query, keys, mask, projected_keys), attention(query, keys, mask)
    )


def test_keys_projected_once_are_used():
    attention, query, keys, mask = attention_and_input()
    calls = []
    attention.key_projection.register_forward_hook(lambda *_: calls.append(1))
    projected_keys = attention.project_keys(keys)
    for _ in range(3):
        attention(query, keys, mask, projected_keys)
    assert len(calls) == 1


def test_a_sentence_with_nothing_to_attend_to_gives_zeros():
    attention, query, keys, mask = attention_and_input()
    mask[1] = False
    context, weights = attention(query, keys, mask)
    assert (weights[1] == 0).all()
    assert (context[1] == 0).all()
    assert context[0].abs().max() > 0


def test_parameters_keep_their_names_and_have_no_bias():
    attention, *_ = attention_and_input()
    assert {name: tuple(p.shape) for name, p in attention.named_parameters()} == {
        "query_projection.weight": (HIDDEN_DIM, QUERY_DIM),
        "key_projection.weight": (HIDDEN_DIM, KEY_DIM),
        "energy.weight": (1, HIDDEN_DIM),
    }
    assert isinstance(attention.energy, nn.Linear)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_the_wrong_shape_is_refused_with_both_shapes():
    attention, query, keys, mask = attention_and_input()
    with pytest.raises(ValueError, match=r"\(3, 1, 5\).*\(3, 5\)"):
        attention(query, keys, mask.unsqueeze(1))
