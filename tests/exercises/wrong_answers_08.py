"""Plausible wrong answers to 08_additive_attention, with a part of each expected message."""

import math

import torch
import torch.nn.functional as F
from right_answers_08 import (
    Base,
    by_hand,
    energies_by_broadcasting,
    experiment,
    least_looked_at,
    links,
    mended_by_broadcasting,
    multiplications,
    numbers_kept,
    query_dependence,
    true_statements,
)
from torch import nn

from attentively.additive import AdditiveAttention
from attentively.metrics import alignment_error_rate

# Part 1: (answer, a part of its message)


def without_tanh(s, h, W, U, v):
    return ((s @ W.T)[:, None] + h @ U.T) @ v


def tanh_around_everything(s, h, W, U, v):
    return torch.tanh(((s @ W.T)[:, None] + h @ U.T) @ v)


def two_tanh(s, h, W, U, v):
    return ((s @ W.T).tanh()[:, None] + (h @ U.T).tanh()) @ v


def without_v(s, h, W, U, v):
    return torch.tanh((s @ W.T)[:, None] + h @ U.T).sum(-1)


def not_summed(s, h, W, U, v):
    return torch.tanh((s @ W.T)[:, None] + h @ U.T) * v


def with_softmax(s, h, W, U, v):
    return energies_by_broadcasting(s, h, W, U, v).softmax(-1)


def forgotten_unsqueeze(s, h, W, U, v):
    return torch.tanh(s @ W.T + h @ U.T) @ v


def matrices_not_transposed(s, h, W, U, v):
    return torch.tanh((s @ W)[:, None] + h @ U) @ v


def matrices_swapped(s, h, W, U, v):
    return energies_by_broadcasting(s, h, U, W, v)


def only_W_not_transposed(s, h, W, U, v):
    return torch.tanh((s @ W)[:, None] + h @ U.T) @ v


def only_U_not_transposed(s, h, W, U, v):
    return torch.tanh((s @ W.T)[:, None] + h @ U) @ v


def multiplied(s, h, W, U, v):
    return torch.tanh((s @ W.T)[:, None] * (h @ U.T)) @ v


def with_sigmoid(s, h, W, U, v):
    return torch.sigmoid((s @ W.T)[:, None] + h @ U.T) @ v


def with_relu(s, h, W, U, v):
    return torch.relu((s @ W.T)[:, None] + h @ U.T) @ v


def query_of_the_first(s, h, W, U, v):
    return torch.tanh(s[0] @ W.T + h @ U.T) @ v


def scaled(s, h, W, U, v):
    return energies_by_broadcasting(s, h, W, U, v) / math.sqrt(len(v))


def softmax_over_the_batch(s, h, W, U, v):
    return energies_by_broadcasting(s, h, W, U, v).softmax(0)


def averaged(s, h, W, U, v):
    return (torch.tanh((s @ W.T)[:, None] + h @ U.T) * v).mean(-1)


def without_the_query(s, h, W, U, v):
    return torch.tanh(h @ U.T) @ v


def last_axis_kept(s, h, W, U, v):
    return energies_by_broadcasting(s, h, W, U, v).unsqueeze(-1)


def nothing_returned(s, h, W, U, v):
    energies_by_broadcasting(s, h, W, U, v)


def python_lists(s, h, W, U, v):
    return energies_by_broadcasting(s, h, W, U, v).tolist()


def rebuilt_from_numbers(s, h, W, U, v):
    return torch.tensor(energies_by_broadcasting(s, h, W, U, v).tolist())


def writes_into_its_input(s, h, W, U, v):
    W *= 1.0001
    return energies_by_broadcasting(s, h, W, U, v)


def with_dropout(s, h, W, U, v):
    return F.dropout(energies_by_broadcasting(s, h, W, U, v), 0.2)


class EqualToAnything:
    def __eq__(self, other):
        return True

    __hash__ = None
    shape = torch.Size([1, 3])
    dtype = torch.float32


class SlyTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True


def equal_to_anything(s, h, W, U, v):
    return EqualToAnything()


def sly_tensor(s, h, W, U, v):
    return torch.zeros(len(h), h.size(1)).as_subclass(SlyTensor)


def leaves_by_the_back_door(s, h, W, U, v):
    raise SystemExit(0)


def sparse(s, h, W, U, v):
    return energies_by_broadcasting(s, h, W, U, v).to_sparse()


ENERGIES = [
    (sparse, "the layout is torch.sparse_coo, expected a dense tensor"),
    (without_tanh, "The tanh is missing"),
    (tanh_around_everything, "The tanh is applied to the whole expression"),
    (two_tanh, "The tanh is applied twice"),
    (without_v, "v is missing"),
    (not_summed, "Return one score for each key"),
    (with_softmax, "a softmax is already applied"),
    (forgotten_unsqueeze, ".unsqueeze(1)"),
    (matrices_not_transposed, "W and U must both be transposed"),
    (only_W_not_transposed, "W must be transposed"),
    (only_U_not_transposed, "U must be transposed"),
    (matrices_swapped, "W and U are exchanged"),
    (multiplied, "W s and U h are multiplied"),
    (with_sigmoid, "The activation function is a sigmoid"),
    (with_relu, "The activation function is a ReLU"),
    (query_of_the_first, "the query of the first sentence"),
    (scaled, "divided by √hidden_dim"),
    (softmax_over_the_batch, "A softmax over the batch (dim=0) is already applied"),
    (averaged, "averaged over the hidden dimension"),
    (without_the_query, "The query is missing"),
    (last_axis_kept, "The shape of scores is (1, 3, 1), expected (1, 3)"),
    (nothing_returned, "is there a `return`?"),
    (python_lists, "Expected scores as a torch.Tensor, got a list"),
    (rebuilt_from_numbers, "no gradient flows"),
    (writes_into_its_input, "changes its input W"),
    (with_dropout, "two different answers"),
    (equal_to_anything, "got an EqualToAnything"),
    (sly_tensor, "got a SlyTensor"),
    (leaves_by_the_back_door, "raises SystemExit"),
]


# Part 2


class WithMethods(Base):
    """The steps apart, so that one can be wrong."""

    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        return scores.masked_fill(~mask, -1e30).softmax(-1) * mask

    def sum_up(self, weights, keys):
        return torch.einsum("bs,bsd->bd", weights, keys)

    def forward(self, query, keys, mask=None):
        weights = self.weigh(self.scores(query, keys), mask)
        return self.sum_up(weights, keys), weights


class SoftmaxOverTheBatch(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(0)


class SoftmaxOverOneEntry(WithMethods):
    def weigh(self, scores, mask):
        return scores.unsqueeze(-1).softmax(-1).squeeze(-1)


class NoSoftmax(WithMethods):
    def weigh(self, scores, mask):
        return scores


class Sigmoid(WithMethods):
    def weigh(self, scores, mask):
        return scores.sigmoid()


class IgnoresTheMask(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1)


class MaskTurnedRound(WithMethods):
    def weigh(self, scores, mask):
        return super().weigh(scores, None if mask is None else ~mask)


class MaskedWithPositive(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.masked_fill(~mask, 1e9).softmax(-1)


class MaskedWithTiny(WithMethods):
    """1e-9 where -1e9 is meant."""

    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.masked_fill(~mask, 1e-9).softmax(-1)


class NeedsAMask(WithMethods):
    def weigh(self, scores, mask):
        return scores.masked_fill(~mask, -1e30).softmax(-1) * mask


class TwoSoftmax(WithMethods):
    def weigh(self, scores, mask):
        return super().weigh(scores, mask).softmax(-1)


class MaskAfterSoftmax(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.softmax(-1) * mask


class MaskedWithZero(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.masked_fill(~mask, 0).softmax(-1)


class MaskedTooWeakly(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -9).softmax(-1)


class Squeezed(WithMethods):
    def weigh(self, scores, mask):
        return super().weigh(scores.unsqueeze(-1).squeeze(), mask)

    def sum_up(self, weights, keys):
        return (weights.unsqueeze(-1) * keys).sum(1)


class SharedOutLate(WithMethods):
    def weigh(self, scores, mask):
        weights = scores.softmax(-1)
        if mask is None:
            return weights
        weights = weights * mask
        return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


class SharedOutLateWithEpsilon(WithMethods):
    def weigh(self, scores, mask):
        weights = scores.softmax(-1)
        if mask is None:
            return weights
        weights = weights * mask
        return weights / (weights.sum(-1, keepdim=True) + 1e-9)


class MaskedWithMinusHundred(WithMethods):
    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        return scores.masked_fill(~mask, -100).softmax(-1) * mask


class MultipliedByTheMask(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else (scores * mask).softmax(-1) * mask


class DividedByNothing(WithMethods):
    def weigh(self, scores, mask):
        weights = super().weigh(scores, mask)
        return weights / weights.sum(-1, keepdim=True)


class MaskedWithInfinity(WithMethods):
    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        return scores.masked_fill(~mask, -math.inf).softmax(-1)


class HiddenNaN(WithMethods):
    """Here NaN comes back with the gradient: adding passes it on, filling in does not."""

    def weigh(self, scores, mask):
        if mask is None:
            return scores.softmax(-1)
        return (scores + mask.float().log()).softmax(-1).nan_to_num(0.0)


class UniformOverNothing(WithMethods):
    def weigh(self, scores, mask):
        return scores.softmax(-1) if mask is None else scores.masked_fill(~mask, -1e30).softmax(-1)


class MeanOfTheKeys(WithMethods):
    def sum_up(self, weights, keys):
        return keys.mean(dim=1)


class SumOfProjectedKeys(WithMethods):
    def sum_up(self, weights, keys):
        return torch.einsum("bs,bsd->bd", weights, self.key_projection(keys))


class HardestKey(WithMethods):
    def sum_up(self, weights, keys):
        return keys[torch.arange(len(keys)), weights.argmax(1)]


class MeanOfWeightedKeys(WithMethods):
    def sum_up(self, weights, keys):
        return (weights.unsqueeze(-1) * keys).mean(1)


class CutOffWeights(WithMethods):
    def sum_up(self, weights, keys):
        return torch.einsum("bs,bsd->bd", weights.detach(), keys)


class ReturnedWeightsCutOff(WithMethods):
    def forward(self, query, keys, mask=None):
        context, weights = super().forward(query, keys, mask)
        return context, weights.detach()


class WeightsFirst(WithMethods):
    def forward(self, query, keys, mask=None):
        return super().forward(query, keys, mask)[::-1]


class OnlyTheContext(WithMethods):
    def forward(self, query, keys, mask=None):
        return super().forward(query, keys, mask)[0]


class WithBias(WithMethods):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__(query_dim, key_dim, hidden_dim)
        self.query_projection = nn.Linear(query_dim, hidden_dim)


class SidesSwapped(WithMethods):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__(query_dim, key_dim, hidden_dim)
        self.query_projection = nn.Linear(hidden_dim, query_dim, bias=False)


class OtherNames(nn.Module):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.W = nn.Linear(query_dim, hidden_dim, bias=False)
        self.U = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v = nn.Linear(hidden_dim, 1, bias=False)


class NoTanh(WithMethods):
    def scores(self, query, keys):
        inside = self.query_projection(query)[:, None] + self.key_projection(keys)
        return self.energy(inside).squeeze(-1)


class Scaled(WithMethods):
    def scores(self, query, keys):
        return super().scores(query, keys) / self.energy.in_features**0.5


class NotAModule:
    def __init__(self, query_dim, key_dim, hidden_dim):
        pass


class ThePackagesInDisguise(AdditiveAttention):
    pass


ATTENTIONS = [
    (SoftmaxOverTheBatch, "normalised over the batch instead of over the keys"),
    (SoftmaxOverOneEntry, "Every weight is 1"),
    (NoSoftmax, "The softmax is missing"),
    (Sigmoid, "A sigmoid is applied to each score"),
    (
        IgnoresTheMask,
        "The mask is ignored: position 0 of sentence 1 is masked, but received weight",
    ),
    (MaskTurnedRound, "the mask is inverted"),
    (MaskedWithPositive, "the value that replaces the masked scores is positive"),
    (MaskedWithTiny, "close to 0 before the softmax (filled with 0 or 1e-9"),
    (NeedsAMask, "In this call mask is None"),
    (TwoSoftmax, "The softmax is applied twice"),
    (MaskAfterSoftmax, "applied after the softmax"),
    (MaskedWithZero, "A score of 0 still receives weight"),
    (MaskedTooWeakly, "It must receive exactly 0. Use torch.finfo"),
    (Squeezed, ".squeeze() without an argument"),
    (SharedOutLate, "normalised again after the softmax"),
    (SharedOutLateWithEpsilon, "normalised again after the softmax"),
    (MaskedWithMinusHundred, "not low enough: on this input all other scores are lower"),
    (MultipliedByTheMask, "or multiplied by the mask"),
    (DividedByNothing, "a softmax over -inf only, or a division by a sum of 0"),
    (MaskedWithInfinity, "a softmax over -inf only, or a division by a sum of 0"),
    (HiddenNaN, "does not remove it from the gradient"),
    (UniformOverNothing, "Its scores are all equal"),
    (MeanOfTheKeys, "the unweighted mean of the keys"),
    (SumOfProjectedKeys, "a weighted sum of the projected keys"),
    (HardestKey, "only the key with the largest weight"),
    (MeanOfWeightedKeys, "use .sum(dim=1) instead of .mean(dim=1)"),
    (CutOffWeights, "no gradient reaches query"),
    (ReturnedWeightsCutOff, "This concerns the returned weights"),
    (WeightsFirst, "in the wrong order: return context, weights"),
    (OnlyTheContext, "Expected a pair"),
    (WithBias, "Your class has the bias query_projection.bias"),
    (SidesSwapped, "nn.Linear(in_features, out_features)"),
    (OtherNames, "Your class lacks the parameter(s) energy.weight"),
    (NoTanh, "Without it the query has no influence"),
    (Scaled, "divided by √hidden_dim"),
    (NotAModule, "must be a subclass of torch.nn.Module"),
    (AdditiveAttention, "not accepted. Your code uses"),
    (ThePackagesInDisguise, "not accepted. Your code uses"),
]


# Part 3


def kept_of_one_step(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return batch * src_len * hidden_dim


def kept_after_v(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return batch * src_len * tgt_len


def kept_in_both_projections(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return batch * hidden_dim * (src_len + tgt_len)


def kept_in_bytes(*sizes):
    return 4 * numbers_kept(*sizes)


def kept_of_the_keys(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return batch * src_len * tgt_len * key_dim


def kept_as_float(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return float(batch * tgt_len * src_len * hidden_dim)


def _count(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once, **switches):
    keys = src_len * key_dim * hidden_dim * (1 if keys_once else tgt_len)
    query = tgt_len * query_dim * hidden_dim
    v = tgt_len * src_len * hidden_dim * switches.get("v", 1)
    context = tgt_len * src_len * key_dim * switches.get("context", 1)
    return batch * (keys + query + v + context) * switches.get("times", 1)


def never_once(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    return multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, False)


def always_once(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    return multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, True)


def v_forgotten(*sizes):
    return _count(*sizes, v=0)


def context_forgotten(*sizes):
    return _count(*sizes, context=0)


def additions_too(*sizes):
    return _count(*sizes, times=2)


def of_one_sentence(batch, *others):
    return multiplications(1, *others)


def query_for_every_key(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    right = multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once)
    return right + batch * tgt_len * (src_len - 1) * query_dim * hidden_dim


def context_of_hidden_dim(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    right = multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once)
    return right + batch * tgt_len * src_len * (hidden_dim - key_dim)


def v_times_hidden_dim(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    right = multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once)
    return right + batch * tgt_len * src_len * hidden_dim * (hidden_dim - 1)


def keys_of_one_sentence(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    sizes = (src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once)
    keys = src_len * key_dim * hidden_dim * (1 if keys_once else tgt_len)
    return multiplications(batch, *sizes) - (batch - 1) * keys + (batch - 1) * tgt_len


def kept_but_not_returned(*sizes):
    numbers_kept(*sizes)


PREDICTIONS = [
    ((kept_but_not_returned, multiplications), "is there a `return`?"),
    ((kept_of_one_step, multiplications), "too small by the factor tgt_len"),
    ((kept_after_v, multiplications), "too small by the factor hidden_dim"),
    ((kept_in_both_projections, multiplications), "the tanh outputs a different number of values"),
    ((kept_in_bytes, multiplications), "Count values, not bytes"),
    ((kept_of_the_keys, multiplications), "has the factor key_dim instead of hidden_dim"),
    ((kept_as_float, multiplications), "numbers_kept must return an int"),
    ((numbers_kept, never_once), "but keys_once=True means once per sentence"),
    ((numbers_kept, always_once), "but keys_once=False means once per target position"),
    ((numbers_kept, v_forgotten), "the multiplications of the product with v are not counted"),
    ((numbers_kept, context_forgotten), "of the weighted sum of the keys are not counted"),
    ((numbers_kept, additions_too), "Count multiplications only"),
    ((numbers_kept, of_one_sentence), "too small by the factor batch"),
    (
        (numbers_kept, context_of_hidden_dim),
        "weighted sum of the keys has the factor hidden_dim instead of key_dim",
    ),
    (
        (numbers_kept, v_times_hidden_dim),
        "or the count for the product with v is too large by the factor hidden_dim",
    ),
    ((numbers_kept, keys_of_one_sentence), "not the number of multiplications of the four"),
    ((numbers_kept, query_for_every_key), "the count for W s is too large by the factor src_len"),
]


# Part 4: any subset of the faults may be left


def faulty_attention(
    queries,
    keys,
    mask,
    W,
    U,
    v,
    two_tanh=False,
    axis=-1,
    mask_after=False,
    detached=False,
    mean=False,
):
    ws, uh = (queries @ W.T)[:, :, None], (keys @ U.T)[:, None]
    scores = (ws.tanh() + uh.tanh() if two_tanh else (ws + uh).tanh()) @ v
    mask = mask[:, None]
    if mask_after:
        weights = scores.softmax(axis) * mask
    else:
        weights = scores.masked_fill(~mask, -1e30).softmax(axis) * mask
    share = (weights.detach() if detached else weights).unsqueeze(-1) * keys[:, None]
    return (share.mean(2) if mean else share.sum(2)), weights


def _left(**faults):
    def mended(*inputs):
        return faulty_attention(*inputs, **faults)

    mended.__name__ = "_and_".join(faults)
    return mended


def nan_for_nothing(queries, keys, mask, W, U, v):
    scores = torch.tanh((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    weights = scores.masked_fill(~mask[:, None], -math.inf).softmax(-1)
    return weights @ keys, weights


def masked_with_zero(queries, keys, mask, W, U, v):
    scores = torch.tanh((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    weights = (scores * mask[:, None]).softmax(-1)
    return weights @ keys, weights


def without_any_tanh(queries, keys, mask, W, U, v):
    weights = (((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v).softmax(-1)
    return weights @ keys, weights


def relu_for_tanh(queries, keys, mask, W, U, v):
    scores = torch.relu((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    weights = scores.masked_fill(~mask[:, None], -1e30).softmax(-1) * mask[:, None]
    return weights @ keys, weights


def tanh_of_the_difference(queries, keys, mask, W, U, v):
    return mended_by_broadcasting(queries, keys, mask, -W, U, v)


def mask_inverted(queries, keys, mask, W, U, v):
    return mended_by_broadcasting(queries, keys, ~mask, W, U, v)


def mask_inverted_once(queries, keys, mask, W, U, v):
    scores = torch.tanh((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    weights = scores.masked_fill(mask[:, None], -1e30).softmax(-1)
    return weights @ keys, weights


def tanh_around_the_scores(queries, keys, mask, W, U, v):
    scores = torch.tanh(((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v)
    weights = scores.masked_fill(~mask[:, None], -1e30).softmax(-1) * mask[:, None]
    return weights @ keys, weights


def summed_over_the_targets(queries, keys, mask, W, U, v):
    _, weights = mended_by_broadcasting(queries, keys, mask, W, U, v)
    return (weights.unsqueeze(-1) * keys[:, None]).sum(1), weights


def one_target_word(queries, keys, mask, W, U, v):
    contexts, weights = mended_by_broadcasting(queries, keys, mask, W, U, v)
    return contexts[:, 0], weights[:, 0]


def swapped_results(*inputs):
    return mended_by_broadcasting(*inputs)[::-1]


def detached_weights(*inputs):
    contexts, weights = mended_by_broadcasting(*inputs)
    return contexts, weights.detach()


def shared_out_late(queries, keys, mask, W, U, v):
    scores = torch.tanh((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    weights = scores.softmax(-1) * mask[:, None]
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    return weights @ keys, weights


def masked_with_minus_hundred(queries, keys, mask, W, U, v):
    scores = torch.tanh((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v
    weights = scores.masked_fill(~mask[:, None], -100).softmax(-1) * mask[:, None]
    return weights @ keys, weights


def context_detached(queries, keys, mask, W, U, v):
    _, weights = mended_by_broadcasting(queries, keys, mask, W, U, v)
    return weights @ keys.detach(), weights


def of_the_first_words(queries, keys, mask, W, U, v):
    prefix = torch.arange(mask.size(1)) < mask.sum(dim=1, keepdim=True)
    return mended_by_broadcasting(queries, keys, prefix, W, U, v)


def of_the_corrected_function():
    return {*"ADEFGH"}


def sums_of_one():
    return {*"ABDH"}


def the_mask_seems_right():
    return {*"BDEH"}


def no_gradient_at_all():
    return {*"BD"}


def words_for_letters():
    return ["B and D", "H"]


def a_tensor_of_truths():
    return torch.tensor([False, True])


STATEMENTS = [
    (of_the_corrected_function, "these statements are true of a correct attention"),
    (sums_of_one, "1 of the statements A, B, C is judged wrongly"),
    (the_mask_seems_right, "1 of the statements D, E is judged wrongly"),
    (no_gradient_at_all, "1 of the statements F, G, H is judged wrongly"),
    (words_for_letters, "must return a set of letters from A to H"),
    (a_tensor_of_truths, "must return a set of letters from A to H"),
]


ALL_FAULTS = {"two_tanh": True, "axis": 1, "mask_after": True, "detached": True, "mean": True}

MENDED = [
    (_left(**ALL_FAULTS), "They sum to 1 over the target positions (dim=1)"),
    (_left(axis=1), "They sum to 1 over the target positions (dim=1)"),
    (_left(axis=0), "They sum to 1 over the sentences of the batch (dim=0)"),
    (_left(two_tanh=True), "the weights do not depend on the query"),
    (without_any_tanh, "the weights do not depend on the query"),
    (mask_inverted, "All weights are 0, although no position is masked"),
    (mask_inverted_once, "All weights are equal (1/3), although no position is masked"),
    (tanh_around_the_scores, "The tanh is applied to the whole expression"),
    (summed_over_the_targets, "Return one vector for each target position"),
    (relu_for_tanh, "The activation function is a ReLU"),
    (tanh_of_the_difference, "they are not the softmax of v·tanh(W s + U h)"),
    (_left(mask_after=True), "the weight of the masked positions is lost"),
    (masked_with_zero, "but must receive exactly 0"),
    (_left(mean=True), "too small by the factor src_len"),
    (_left(detached=True), "no gradient reaches queries"),
    (context_detached, "the gradient of keys is not: a part of it is missing"),
    (of_the_first_words, "A mask may exclude any position, not only the last ones"),
    (nan_for_nothing, "Possible causes: a softmax over -inf only"),
    (swapped_results, "in the wrong order: return contexts, weights"),
    (detached_weights, "This concerns the returned weights"),
    (shared_out_late, "normalised again after the softmax"),
    (masked_with_minus_hundred, "not low enough: on this input all other scores are lower"),
    (one_target_word, "The shape of contexts is (2, 1), expected (2, 2, 1)"),
    (_left(two_tanh=True, mask_after=True), "Correct so far: weights sum to 1 without a mask"),
]

BUG_HUNTS = [((judged, mended_by_broadcasting), words) for judged, words in STATEMENTS]
BUG_HUNTS += [((true_statements, mended), words) for mended, words in MENDED]


# Part 5


def zero_W():
    return torch.zeros(2, 1), *by_hand()[1:]


def not_enough():
    W, U, v = by_hand()
    return W, U, v / 3


def sign_turned():
    W, U, v = by_hand()
    return W, U, -v


def without_the_constant():
    U = torch.tensor([[3.0, 0.0], [-1.0, 0.0]])
    return torch.tensor([[3.0], [1.0]]), U, torch.tensor([3.0, 1.0])


def whole_numbers():
    return tuple(matrix.long() for matrix in by_hand())


def wrong_shapes():
    W, U, v = by_hand()
    return W.T, U, v


def one_query_wins():
    return torch.tensor([[0.1], [0.2]]), torch.tensor([[1.0, 1.0], [1.0, 0.5]]), torch.ones(2) * 9


def change_of_scores(scores):
    return (scores.max(0).values - scores.min(0).values).max()


def sum_of_changes(scores):
    weights = scores.softmax(-1)
    return (weights[0] - weights[-1]).abs().sum()


def softmax_over_queries(scores):
    weights = scores.softmax(0)
    return (weights.max(0).values - weights.min(0).values).max()


def range_within_a_query(scores):
    weights = scores.softmax(-1)
    return (weights.max(-1).values - weights.min(-1).values).max()


def only_neighbours(scores):
    return scores.softmax(-1).diff(dim=0).abs().max()


def from_the_first(scores):
    weights = scores.softmax(-1)
    return (weights - weights[0]).abs().max()


def a_whole_tensor(scores):
    weights = scores.softmax(-1)
    return weights.max(0).values - weights.min(0).values


WHY_TANH = [
    ((zero_W, query_dependence), "W is zero, so the query has no influence"),
    ((not_enough, query_dependence), "but less than 0.9"),
    ((sign_turned, query_dependence), "Reverse the sign of v"),
    ((without_the_constant, query_dependence), "both queries prefer the same key"),
    ((whole_numbers, query_dependence), "W has the dtype torch.int64, expected torch.float32"),
    ((wrong_shapes, query_dependence), "The shape of W of by_hand is (1, 2), expected (2, 1)"),
    ((one_query_wins, query_dependence), "both queries assign the same weights"),
    ((by_hand, change_of_scores), "a change of the scores"),
    ((by_hand, sum_of_changes), "the changes of all keys are summed"),
    ((by_hand, softmax_over_queries), "the softmax is applied over the queries (dim=0)"),
    ((by_hand, range_within_a_query), "the difference between the weights of different keys"),
    ((by_hand, only_neighbours), "only neighbouring queries"),
    ((by_hand, from_the_first), "only the first query"),
    ((by_hand, a_whole_tensor), "query_dependence must return one number"),
]


# Part 6


def swapped_links(weights, threshold):
    return {(i, j) for j, i in links(weights, threshold)}


def absolute_threshold(weights, threshold):
    return {(j, i) for i, j in (weights[:-1, :-1] >= threshold).nonzero().tolist()}


def end_kept(weights, threshold):
    linked = weights >= threshold * weights.max(1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def only_the_largest(weights, threshold):
    return {(int(row[:-1].argmax()), i) for i, row in enumerate(weights[:-1])}


def largest_with_end(weights, threshold):
    linked = weights >= threshold * weights.max(1, keepdim=True).values
    return {(j, i) for i, j in linked[:-1, :-1].nonzero().tolist()}


def largest_of_all(weights, threshold):
    words = weights[:-1, :-1]
    return {(j, i) for i, j in (words >= threshold * words.max()).nonzero().tolist()}


def largest_of_the_column(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(0, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def normalised_again(weights, threshold):
    words = weights[:-1, :-1]
    linked = words / words.sum(1, keepdim=True) >= threshold
    return {(j, i) for i, j in linked.nonzero().tolist()}


def more_not_equal(weights, threshold):
    words = weights[:-1, :-1]
    linked = words > threshold * words.max(1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def links_of_tensors(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero()}


def list_of_links(weights, threshold):
    return sorted(links(weights, threshold))


def _rate(examples, threshold):
    predicted = [links(weights, threshold) for weights, _ in examples]
    return alignment_error_rate(predicted, [gold for _, gold in examples])


def _mean_rate(examples, threshold):
    return sum(_rate([each], threshold) for each in examples) / len(examples)


def chosen_on_test(validation, test, thresholds):
    return experiment(test, test, thresholds)


def chosen_by_the_mean(validation, test, thresholds):
    best = min(thresholds, key=lambda threshold: _mean_rate(validation, threshold))
    return best, _rate(test, best)


def chosen_and_reported_by_the_mean(validation, test, thresholds):
    best, _ = chosen_by_the_mean(validation, test, thresholds)
    return best, _mean_rate(test, best)


def mean_reported(validation, test, thresholds):
    best, _ = experiment(validation, test, thresholds)
    return best, _mean_rate(test, best)


def validation_reported(validation, test, thresholds):
    return experiment(validation, validation, thresholds)


def highest_rate(validation, test, thresholds):
    worst = max(thresholds, key=lambda threshold: _rate(validation, threshold))
    return worst, _rate(test, worst)


def chosen_on_both(validation, test, thresholds):
    best, _ = experiment([*validation, *test], test, thresholds)
    return best, _rate(test, best)


def rate_first(*data):
    return experiment(*data)[::-1]


def index_of_the_threshold(validation, test, thresholds):
    best, rate = experiment(validation, test, thresholds)
    return thresholds.index(best), rate


def end_looked_at_least(weights):
    return int(weights[:-1].sum(0).argmin())


def end_row_counted(weights):
    return int(weights[:, :-1].sum(0).argmin())


def most_looked_at(weights):
    return int(weights[:-1, :-1].sum(0).argmax())


def sums_of_rows(weights):
    return int(weights[:-1, :-1].sum(1).argmin())


def smallest_weight(weights):
    return int(weights[:-1, :-1].min(0).values.argmin())


def flat_index(weights):
    return int(weights[:-1, :-1].argmin())


def a_float(weights):
    return float(least_looked_at(weights))


def thresholds_written_down(validation, test, thresholds):
    return experiment(validation, test, (0.2, 0.4, 0.6, 0.8, 1.0))


def always_two(weights):
    return 2


def shared_out_anew(weights):
    words = weights[:-1, :-1]
    return int((words / words.sum(1, keepdim=True)).sum(0).argmin())


ALIGNMENT = [
    ((links, thresholds_written_down, least_looked_at), "not a constant in your code"),
    ((links, experiment, always_two), "does not depend on the weights"),
    ((links, experiment, shared_out_anew), "normalised again after <end> is removed"),
    ((swapped_links, experiment, least_looked_at), "the order of each pair is reversed"),
    ((absolute_threshold, experiment, least_looked_at), "compared with the threshold itself"),
    ((end_kept, experiment, least_looked_at), "links to or from <end> are included"),
    (
        (only_the_largest, experiment, least_looked_at),
        "only the source word with the largest weight is linked",
    ),
    (
        (largest_with_end, experiment, least_looked_at),
        "taken with <end> included",
    ),
    ((largest_of_all, experiment, least_looked_at), "threshold times the largest of all weights"),
    ((largest_of_the_column, experiment, least_looked_at), "the largest weight of their column"),
    ((normalised_again, experiment, least_looked_at), "for this input only the source word"),
    ((more_not_equal, experiment, least_looked_at), "at least (>=) threshold times"),
    ((links_of_tensors, experiment, least_looked_at), "compares tensors by identity"),
    ((list_of_links, experiment, least_looked_at), "links must return a set of pairs"),
    (
        (links, chosen_on_test, least_looked_at),
        "the test sentences took part in the choice of the threshold",
    ),
    ((links, chosen_on_both, least_looked_at), "the test sentences took part in the choice"),
    ((links, rate_first, least_looked_at), "in the wrong order: `return threshold, rate`"),
    ((links, chosen_by_the_mean, least_looked_at), "minimises the mean of the error rates"),
    (
        (links, chosen_and_reported_by_the_mean, least_looked_at),
        "minimises the mean of the error rates of single sentences",
    ),
    ((links, mean_reported, least_looked_at), "the rate is the mean of per-sentence error rates"),
    ((links, validation_reported, least_looked_at), "Return the rate of the test sentences"),
    ((links, highest_rate, least_looked_at), "Choose the lowest: it is an error rate"),
    ((links, index_of_the_threshold, least_looked_at), "not one of the given thresholds"),
    ((links, experiment, end_looked_at_least), "this is the index of <end>"),
    ((links, experiment, end_row_counted), "the last row is included"),
    ((links, experiment, most_looked_at), "has the largest total weight"),
    ((links, experiment, sums_of_rows), "summed over the source words, for each target word"),
    ((links, experiment, smallest_weight), "has the smallest single weight"),
    ((links, experiment, flat_index), "17 is not the index of a source word: there are 7"),
    ((links, experiment, a_float), "must be the index of a source word, an int"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "energies": ENERGIES,
    "attention": ATTENTIONS,
    "predictions": PREDICTIONS,
    "bug_hunt": BUG_HUNTS,
    "why_tanh": WHY_TANH,
    "alignment": ALIGNMENT,
}


# Through nbgrader: cells as a student would write them

WITHOUT_TANH = """
def energies(query, keys, W, U, v):
    return ((query @ W.T).unsqueeze(1) + keys @ U.T) @ v
"""
MASK_IGNORED = """
import warnings


class AdditiveAttention(nn.Module):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, keys, mask=None):
        inside = self.query_projection(query).unsqueeze(1) + self.key_projection(keys)
        weights = self.energy(torch.tanh(inside)).squeeze(-1).softmax(dim=-1)
        return (weights.unsqueeze(-1) * keys).sum(dim=1), weights
"""
# Right, and with a warning on stderr, which must cost nothing.
WARNED = """
def energies(query, keys, W, U, v):
    import warnings
    warnings.warn("this is only a warning")
    return torch.tanh((query @ W.T).unsqueeze(1) + keys @ U.T) @ v
"""
CHOSEN_ON_TEST = """
from attentively.metrics import alignment_error_rate


def links(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(dim=1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def experiment(validation, test, thresholds):
    def rate(threshold):
        predicted = [links(weights, threshold) for weights, _ in test]
        return alignment_error_rate(predicted, [gold for _, gold in test])

    return min((rate(threshold), threshold) for threshold in thresholds)[::-1]


def least_looked_at(weights):
    return int(weights[:-1, :-1].sum(dim=0).argmin())
"""

# Student: the cells that differ from the solution, the checks lost, a part of the feedback
HANDED_IN = {
    "without_tanh": ({"energies": WITHOUT_TANH}, ["energies-check"], "The tanh is missing"),
    "mask_ignored": (
        {"energies": WARNED, "attention": MASK_IGNORED},
        ["attention-check"],
        "The mask is ignored",
    ),
    "not_defined": (
        {"energies": "def energies(query, keys, W, U, v:\n    return query\n"},
        ["energies-check"],
        "`energies` is not defined",
    ),
    "chosen_on_test": (
        {"alignment": CHOSEN_ON_TEST},
        ["alignment-check"],
        "the test sentences took part in the choice of the threshold",
    ),
}
