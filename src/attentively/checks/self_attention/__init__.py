"""Checks of the assignment on self-attention.

Parts 1, 2 and 3 rebuild functions of the package; masks and attention are evaluated inside the
trained Transformer. Parts 4, 5 and 6 are original problems: how much weight a finite mask leaks
and which value is sufficient, which position influences which output of a black-box model, and
projections that produce given attention weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attentively.attention import scaled_dot_product
from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import causal_mask, masked_softmax, padding_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_value,
    in_32_bits,
    known,
    once_solved,
    plain_number,
    plain_tensor,
    show,
)
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
from attentively.layers.transformer_layers import DecoderLayer, EncoderLayer
from attentively.models.checkpoints import load_pretrained
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import PAD_ID

__all__ = [
    "aim",
    "attention",
    "decoder",
    "finite",
    "leaks",
    "masks",
    "once_solved",
    "one_word",
    "progress",
    "put_in",
    "ready",
    "suspects",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Print that the package, its Transformer and these checks work."""
    _parts.explain_undefined_names()
    config = _trained().config
    layers, heads = config.num_layers, config.num_heads
    print(f"PyTorch {torch.__version__}. The trained encoder has {layers} layers of {heads} heads")
    print(f"with queries of dimension {config.d_model // config.num_heads}. Ready.")


def _trained() -> Transformer:
    return cast(Transformer, load_pretrained(TRANSFORMER).model).eval()


def _truths(answer: object, what: str, inputs: Inputs) -> Tensor:
    """Return a Boolean answer, a tensor or nested lists, as ones and zeros."""
    if isinstance(answer, list):
        try:
            answer = torch.tensor(answer)
        except (TypeError, ValueError):
            raise CheckFailed(f"  Expected {what} as a Boolean tensor (torch.bool).") from None
    if type(answer) is not Tensor or answer.dtype != torch.bool:
        got = answer.dtype if isinstance(answer, Tensor) else type(answer).__name__
        raise CheckFailed(
            f"  Expected {what} as a Boolean tensor (torch.bool); got {got}. A comparison returns "
            f"such a tensor, and .bool() converts to it.\n{describe(inputs)}"
        )
    return answer.float()


# Part 1


def _scores(x: Tensor, word: int, w_q: Tensor, w_k: Tensor) -> Tensor:
    return (x @ w_k) @ (x[word] @ w_q) / math.sqrt(w_q.size(1))


_SCORES_TWINS = [
    *known(
        "scores_of: The scores are not divided by √d_k.",
        lambda x, word, w_q, w_k: _scores(x, word, w_q, w_k) * math.sqrt(w_q.size(1)),
    ),
    *known(
        "scores_of: The scores are always divided by the same value. Divide by the square root "
        "of d_k, the number of columns of w_q.",
        lambda x, word, w_q, w_k: (x @ w_k) @ (x[word] @ w_q) / 2,
        lambda x, word, w_q, w_k: (x @ w_k) @ (x[word] @ w_q) / 8,
    ),
    *known(
        "scores_of: The scores are divided by d_k; divide by its square root.",
        lambda x, word, w_q, w_k: _scores(x, word, w_q, w_k) / math.sqrt(w_q.size(1)),
    ),
    *known(
        "scores_of: The scores are divided by √d_model, where d_model is the dimension of x. "
        "Divide by √d_k: the dot product has d_k terms.",
        lambda x, word, w_q, w_k: _scores(x, word, w_q, w_k) * math.sqrt(w_q.size(1) / w_q.size(0)),
    ),
    *known(
        "scores_of: The scores are divided by the square root of the number of words. Divide by "
        "√d_k: the dot product has d_k terms.",
        lambda x, word, w_q, w_k: _scores(x, word, w_q, w_k) * math.sqrt(w_q.size(1) / x.size(0)),
    ),
    *known(
        "scores_of: Query and keys are exchanged. The query is computed from the one word, with "
        "w_q; every word has a key, computed with w_k.",
        lambda x, word, w_q, w_k: _scores(x, word, w_k, w_q),
    ),
    *known(
        "scores_of: Query and keys are computed with the same matrix. The query needs w_q, and "
        "the keys need w_k.",
        lambda x, word, w_q, w_k: _scores(x, word, w_q, w_q),
        lambda x, word, w_q, w_k: _scores(x, word, w_k, w_k),
    ),
    *known(
        "scores_of: The vectors in x are compared directly. Compare the query of the word with "
        "the keys of all words.",
        lambda x, word, w_q, w_k: x @ x[word] / math.sqrt(w_q.size(1)),
        lambda x, word, w_q, w_k: x @ x[word] / math.sqrt(x.size(1)),
    ),
    *known(
        "scores_of: The scores of all queries are returned. Return only those of the given word, "
        "of shape (len,).",
        lambda x, word, w_q, w_k: (x @ w_q) @ (x @ w_k).T / math.sqrt(w_q.size(1)),
    ),
    *known(
        "scores_of: These are attention weights. The softmax belongs into `look`.",
        lambda *asked: _scores(*asked).softmax(dim=-1),
    ),
    *known(
        "scores_of: The matrices are transposed. A vector is multiplied by a matrix from the "
        "left: x @ w.",
        lambda x, word, w_q, w_k: _scores(x, word, w_q.T, w_k.T),
    ),
]

_LOOK_TWINS = [
    *known(
        "look: The softmax is missing: the scores are returned as weights.",
        lambda scores, x, w_v: scores,
    ),
    *known(
        "look: The scores are divided by their sum. The weights are the softmax of the scores.",
        lambda scores, x, w_v: scores / scores.sum(),
    ),
    *known(
        "look: exp overflows for large scores. Subtract the largest score first, which does not "
        "change the weights, or call torch.softmax, which does this.",
        lambda scores, x, w_v: scores.exp() / scores.exp().sum(),
    ),
    *known(
        "look: The exponentials are not divided by their sum.",
        lambda scores, x, w_v: scores.exp(),
    ),
    *known(
        "look: A sigmoid is applied to each score separately. A softmax normalises over all "
        "words, so that the weights sum to 1.",
        lambda scores, x, w_v: scores.sigmoid(),
    ),
    *known(
        "look: The scores are scaled a second time. The input `scores` is scaled already.",
        lambda scores, x, w_v: (scores / math.sqrt(w_v.size(1))).softmax(dim=-1),
        lambda scores, x, w_v: (scores / math.sqrt(x.size(1))).softmax(dim=-1),
    ),
    *known(
        "look: All weight is on the word with the largest score. A softmax gives every word a "
        "positive weight.",
        lambda scores, x, w_v: (scores == scores.max()).float(),
    ),
    *known(
        "look: Weights and output are exchanged: return weights, output.",
        lambda scores, x, w_v: scores.softmax(dim=-1) @ (x @ w_v),
    ),
]

_OUTPUT_TWINS = [
    *known(
        "look: The vectors in x are summed, not their values x @ w_v.",
        lambda scores, x, w_v: scores.softmax(dim=-1) @ x,
    ),
    *known(
        "look: The values are multiplied by the scores, not by the weights.",
        lambda scores, x, w_v: scores @ (x @ w_v),
    ),
    *known(
        "look: The weighted values are not summed. The output has the shape (d_v,).",
        lambda scores, x, w_v: scores.softmax(dim=-1).unsqueeze(-1) * (x @ w_v),
    ),
    *known(
        "look: The values are averaged or summed without the weights.",
        lambda scores, x, w_v: (x @ w_v).mean(dim=0),
        lambda scores, x, w_v: (x @ w_v).sum(dim=0),
    ),
    *known(
        "look: The sum is divided by the number of words. The weights sum to 1 already.",
        lambda scores, x, w_v: scores.softmax(dim=-1) @ (x @ w_v) / len(x),
    ),
    *known(
        "look: This is the value of the word with the largest weight alone. The output is the "
        "weighted sum of all values.",
        lambda scores, x, w_v: (x @ w_v)[scores.argmax()],
    ),
]

_HAND_X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
_HAND_Q = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 1.0]])
_HAND_K = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0]])
_HAND_V = torch.tensor([[10.0], [20.0]])


@_parts.part(
    "one word",
    "scores_of",
    "look",
    rebuilds=("attentively.attention.scaled_dot_product:scaled_dot_product_attention",),
    refuses=(
        "torch.nn.functional:scaled_dot_product_attention",
        "attentively.attention.scaled_dot_product:fused_attention",
    ),
    step=True,
)
def one_word(scores_of: object, look: object, thorough: bool = False) -> None:
    """Check the scores of one word, and its weights and output."""
    asked = [(_HAND_X, 0, _HAND_Q, _HAND_K, _HAND_V)]
    # words, d_model, d_k, d_v, and the index of the word
    sizes = [(3, 2, 2, 2, 1), (5, 7, 3, 2, 4), (2, 3, 5, 3, 0)]
    if thorough:
        sizes += [(1, 2, 3, 5, 0), (11, 5, 5, 5, 7), (7, 3, 1, 1, 6)]
    for words, d_model, d_k, d_v, word in sizes:
        w_q, w_k, w_v = (torch.randn(d_model, size) for size in (d_k, d_k, d_v))
        asked.append((torch.randn(words, d_model), word, w_q, w_k, w_v))
    inputs: Inputs
    for x, word, w_q, w_k, _ in asked:
        inputs = {"x": x, "word": word, "w_q": w_q, "w_k": w_k}
        answer = in_32_bits(call_twice(scores_of, inputs))
        expect_equal(answer, _scores(x, word, w_q, w_k), "the scores", inputs, _SCORES_TWINS)
    looks = [(_scores(*each[:4]), each[0], each[4]) for each in asked]
    looks.append((torch.tensor([0.0, 100.0, 99.0]), _HAND_X, _HAND_V))
    for scores, x, w_v in looks:
        inputs = {"scores": scores, "x": x, "w_v": w_v}
        pair = expect_pair(call_twice(look, inputs), ("weights", "output"), inputs)
        weights, output = map(in_32_bits, pair)
        right = scores.softmax(dim=-1)
        expect_equal(weights, right, "the weights", inputs, _LOOK_TWINS)
        expect_equal(output, right @ (x @ w_v), "the output", inputs, _OUTPUT_TWINS)
    x, word, w_q, w_k, w_v = asked[2]
    inputs = {"x": x.clone().requires_grad_(), "word": word, "w_q": w_q, "w_k": w_k}
    expect_gradients_through(scores_of, inputs, {"x": inputs["x"]})
    sources = {"scores": looks[2][0], "x": x, "w_v": w_v}
    sources = {name: value.clone().requires_grad_() for name, value in sources.items()}
    expect_gradients_through(look, sources, sources, lambda pair: pair[1])


# Part 2


def _mask(ids: Tensor, pad_id: int, causal: bool, *, last: int = 0, by_key: bool = True) -> Tensor:
    """Return where a query may attend; the options make mistakes."""
    real = ids != pad_id
    size = ids.size(1)
    mask = (real.unsqueeze(1) if by_key else real.unsqueeze(2)).expand(-1, size, size)
    return mask & torch.ones(size, size, dtype=torch.bool).tril(last) if causal else mask


def _lower(ids: Tensor) -> Tensor:
    size = ids.size(1)
    return torch.ones(len(ids), size, size, dtype=torch.bool).tril()


_MASK_TWINS = [
    *known(
        "mask_for: The mask is inverted. It must be True where a query may attend to a key.",
        lambda *asked: (~_mask(*asked)).float(),
    ),
    *known(
        "mask_for: Only padding is masked; later positions are not.",
        lambda ids, pad_id, causal: _mask(ids, pad_id, False).float(),
    ),
    *known(
        "mask_for: Only later positions are masked; padding is not.",
        lambda ids, pad_id, causal: _mask(ids, -1, causal).float(),
    ),
    *known(
        "mask_for: Later positions are masked although causal is False.",
        lambda ids, pad_id, causal: _mask(ids, pad_id, True).float(),
    ),
    *known(
        "mask_for: Earlier positions are masked instead of later ones. Rows are queries, columns "
        "are keys.",
        lambda ids, pad_id, causal: (
            _mask(ids, pad_id, False) & _lower(ids).transpose(1, 2) if causal else ids
        ).float(),
    ),
    *known(
        "mask_for: A position cannot attend to itself. A causal mask hides later positions only.",
        lambda *asked: _mask(*asked, last=-1).float(),
    ),
    *known(
        "mask_for: Each position can attend to the next one. A causal mask hides all later "
        "positions.",
        lambda *asked: _mask(*asked, last=1).float(),
    ),
    *known(
        "mask_for: The two masks are combined with or (|). A query may attend to a key only if "
        "both masks allow it: combine them with and (&).",
        lambda ids, pad_id, causal: (_mask(ids, pad_id, False) | _lower(ids)).float(),
    ),
    *known(
        "mask_for: Padding is masked as a query, by rows. Mask it as a key, by columns.",
        lambda *asked: _mask(*asked, by_key=False).float(),
    ),
    *known(
        "mask_for: The rows of padding are masked too. A padding mask hides keys. The outputs at "
        "padding positions are not used, and fully masked rows need special care.",
        lambda *asked: (_mask(*asked) & _mask(*asked, by_key=False)).float(),
    ),
    *known(
        "mask_for: The padding id is not always 0: compare the ids with pad_id.",
        lambda ids, pad_id, causal: _mask(ids, 0, causal).float(),
    ),
    *known(
        "mask_for: The mask allows as many positions as there are real tokens, counted from the "
        "start. Padding can be at the start of a sentence: compare each id with pad_id.",
        lambda ids, pad_id, causal: _mask(
            (torch.arange(ids.size(1)) < (ids != pad_id).sum(1, True)).long(), 0, causal
        ).float(),
    ),
    *known(
        "mask_for: The mask has a single row for all queries. Each query needs its own row, so "
        "the shape is (batch, len, len). The method .expand repeats a row without copying it.",
        lambda ids, pad_id, causal: (ids != pad_id).float(),
        lambda ids, pad_id, causal: (ids != pad_id).unsqueeze(1).float(),
    ),
]

_BLIND_TWINS = [
    *known(
        "blind: The result is inverted: it must be True for fully masked queries.",
        lambda mask: mask.any(dim=-1).float(),
    ),
    *known(
        "blind: These are the keys that no query may attend to. The last axis of the mask "
        "belongs to the keys: reduce over this axis.",
        lambda mask: (~mask.any(dim=-2)).float(),
    ),
    *known(
        "blind: These queries may not attend to every key. A fully masked query may not attend "
        "to any key.",
        lambda mask: (~mask.all(dim=-1)).float(),
    ),
    *known(
        "blind: These queries may not attend to themselves. A fully masked query may not attend "
        "to any key.",
        lambda mask: (~mask.diagonal(dim1=-2, dim2=-1)).float(),
    ),
]

_PADDED = torch.tensor([[4, 7, 5, 0, 0], [6, 8, 9, 4, 5]])
_HAND_MASK = torch.tensor([[[0, 0, 0], [0, 1, 1], [1, 1, 0]]]).bool()
_PADDED_LEFT = torch.tensor([[1, 1, 4], [5, 0, 6]])


@_parts.part(
    "masks",
    "mask_for",
    "blind",
    rebuilds=(
        "attentively.attention.masks:padding_mask",
        "attentively.attention.masks:causal_mask",
    ),
)
def masks(mask_for: object, blind: object, thorough: bool = False) -> None:
    """Check padding masks and causal masks, and which queries are fully masked."""
    asked = [(torch.tensor([[0, 7, 5]]), 0), (_PADDED, 0), (_PADDED_LEFT, 1)]
    if thorough:
        asked += [(torch.randint(0, 3, (5, 7)), 2), (torch.tensor([[3]]), 0)]
    inputs: Inputs
    for ids, pad_id in asked:
        for causal in (False, True):
            inputs = {"ids": ids, "pad_id": pad_id, "causal": causal}
            answer = _truths(call_twice(mask_for, inputs), "the mask", inputs)
            right = _mask(ids, pad_id, causal)
            expect_equal(answer, right.float(), "the mask", inputs, _MASK_TWINS)
    both = (_mask(*each, causal) for each in asked for causal in (False, True))
    for mask in [_HAND_MASK, *both]:
        inputs = {"mask": mask}
        answer = _truths(call_twice(blind, inputs), "the fully masked queries", inputs)
        expected = (mask.sum(dim=-1) == 0).float()
        expect_equal(answer, expected, "the fully masked queries", inputs, _BLIND_TWINS)
    _expect_same_memory(mask_for)


def _expect_same_memory(mask_for: object) -> None:
    """Run the trained encoder with the student's mask."""
    model = _trained()
    inputs = {"ids": _PADDED, "pad_id": PAD_ID, "causal": False}
    given = _truths(call(mask_for, inputs), "the mask", inputs).bool()
    with torch.no_grad():
        got, _ = model.encoder(_PADDED, given)
        expected, _ = model.encoder(_PADDED, padding_mask(_PADDED, PAD_ID))
    expect_equal(got, expected, "the output of the trained encoder with your mask", inputs)


# Part 3

_Pair = tuple[Tensor, Tensor]


def _hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    return masked_softmax(scores, mask)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: Callable[[Tensor, Tensor, Tensor], float] = lambda q, k, v: math.sqrt(q.size(-1)),
    weigh: Callable[[Tensor, Tensor | None], Tensor] = _hide,
) -> _Pair:
    """Compute attention as in the paper; the options make mistakes."""
    weights = weigh(query @ key.transpose(-2, -1) / scale(query, key, value), mask)
    return weights @ value, weights


def _weights(**mistake: Any) -> Callable[..., Tensor]:
    return lambda *asked: _attend(*asked, **mistake)[1]


def _with_mask(
    weigh: Callable[[Tensor, Tensor], Tensor],
) -> Callable[..., Tensor]:
    """Return the weights of an attention that is wrong only with a mask."""
    return _weights(weigh=lambda s, m: s.softmax(dim=-1) if m is None else weigh(s, m))


def _filled(number: float, cut: bool = False) -> Callable[..., Tensor]:
    return _with_mask(lambda s, m: s.masked_fill(~m, number).softmax(dim=-1) * (m | (not cut)))


def _unstable(scores: Tensor, mask: Tensor | None) -> Tensor:
    powers = scores.exp() if mask is None else scores.exp() * mask
    return powers / powers.sum(dim=-1, keepdim=True)


_WEIGHTS_TWINS = [
    *known(
        "The scores are not divided by √d_k.",
        _weights(scale=lambda q, k, v: 1.0),
    ),
    *known(
        "The scores are divided by d_k; divide by its square root.",
        _weights(scale=lambda q, k, v: float(q.size(-1))),
    ),
    *known(
        "The scores are divided by the square root of another size than d_k, which is the last "
        "axis of the query.",
        _weights(scale=lambda q, k, v: 8.0),
        _weights(scale=lambda q, k, v: math.sqrt(v.size(-1))),
        _weights(scale=lambda q, k, v: math.sqrt(k.size(-2))),
        _weights(scale=lambda q, k, v: math.sqrt(q.size(-2))),
    ),
    *known(
        "The scores are multiplied by √d_k; divide by it.",
        _weights(scale=lambda q, k, v: 1 / math.sqrt(q.size(-1))),
    ),
    *known(
        "The scores are returned instead of the weights.",
        _weights(weigh=lambda s, m: s),
    ),
    *known(
        "The weights sum to 1 over the queries. The weights of each query must sum to 1 over the "
        "keys: apply the softmax along the last axis.",
        _weights(weigh=lambda s, m: s.softmax(dim=-2)),
    ),
    *known(
        "The mask is not used.",
        _weights(weigh=lambda s, m: s.softmax(dim=-1)),
    ),
    *known(
        "The mask is inverted: it is True where a query may attend.",
        _with_mask(lambda s, m: masked_softmax(s, ~m)),
        _with_mask(lambda s, m: s.masked_fill(m, -math.inf).softmax(dim=-1)),
        _with_mask(lambda s, m: s.masked_fill(m, -1e9).softmax(dim=-1)),
    ),
    *known(
        "The mask is applied after the softmax, so the weight of masked keys is missing and the "
        "remaining weights do not sum to 1. Mask the scores before the softmax.",
        _with_mask(lambda s, m: s.softmax(dim=-1) * m),
    ),
    *known(
        "Masked scores are set to 0, and exp(0) is 1, so masked keys still receive weight.",
        _with_mask(lambda s, m: (s * m).softmax(dim=-1)),
    ),
    *known(
        "The mask is added to the scores as 1 and 0. This changes scores by 1 and masks nothing.",
        _with_mask(lambda s, m: (s + m).softmax(dim=-1)),
    ),
    *known(
        "A fully masked query receives NaN, because a row of -inf has no softmax. Its weights "
        "must be 0.",
        _filled(-math.inf),
        _with_mask(lambda s, m: s.softmax(dim=-1) * m / (s.softmax(dim=-1) * m).sum(-1, True)),
    ),
    *known(
        "A fully masked query receives weights on masked keys. Its weights must be 0.",
        _filled(-1e9),
    ),
    *known(
        "The value for masked scores is not low enough: masked keys still take weight from the "
        "allowed keys if the scores of these are low as well. A value that is filled in before "
        "the division is divided by √d_k too.",
        *(_filled(-number, cut) for number in (1.0, 20.0, 100.0, 1e3) for cut in (False, True)),
    ),
    *known(
        "The mask is applied after the softmax, and the remaining weights are divided by their "
        "sum. If masked scores are far higher than the others, nothing remains: mask the scores "
        "before the softmax.",
        _with_mask(lambda s, m: nn.functional.normalize(s.softmax(dim=-1) * m, 1, -1)),
    ),
    *known(
        "exp overflows for large scores. Subtract the largest score of each row first, which "
        "does not change the weights, or call torch.softmax, which does this.",
        _weights(weigh=_unstable),
    ),
    *known(
        "Context and weights are exchanged: return context, weights.",
        lambda *asked: _attend(*asked)[0],
    ),
]

_CONTEXT_TWINS = [
    *known(
        "The weights are multiplied by the keys, not by the values.",
        lambda q, k, v, m=None: _attend(q, k, k, m)[0],
    ),
    *known(
        "The weights are transposed before they are multiplied by the values.",
        lambda q, k, v, m=None: _attend(q, k, v, m)[1].transpose(-2, -1) @ v,
    ),
    *known(
        "The values are averaged without the weights.",
        lambda q, k, v, m=None: v.mean(dim=-2, keepdim=True).expand(*q.shape[:-1], -1),
    ),
    *known(
        "The sum is divided by the number of keys. The weights sum to 1 already.",
        lambda q, k, v, m=None: _attend(q, k, v, m)[0] / k.size(-2),
    ),
]


def _qkv(lead: Sequence[int], q: int, k: int, d_k: int, d_v: int) -> dict[str, Tensor]:
    shapes = {"query": (q, d_k), "key": (k, d_k), "value": (k, d_v)}
    return {name: torch.randn(*lead, *shape) for name, shape in shapes.items()}


def _some(*shape: int) -> Tensor:
    """Return a mask in which every query may attend to at least one key."""
    mask = torch.rand(shape) < 0.5
    mask[..., 0] |= ~mask.any(dim=-1)
    return mask


@_parts.part(
    "scaled dot-product attention",
    "scaled_dot_product_attention",
    rebuilds=("attentively.attention.scaled_dot_product:scaled_dot_product_attention",),
    refuses=(
        "torch.nn.functional:scaled_dot_product_attention",
        "attentively.attention.scaled_dot_product:fused_attention",
    ),
)
def attention(candidate: object, thorough: bool = False) -> None:
    """Check attention without and with masks, and put it into the trained Transformer."""
    by_hand = {
        "query": torch.tensor([[1.0, 0.0, 0.0, 1.0]]),
        "key": torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0]]),
        "value": torch.tensor([[10.0, 0.0], [20.0, 1.0]]),
    }
    plain = [by_hand, _qkv([], 3, 3, 2, 2), _qkv([2], 3, 5, 2, 7), _qkv([2, 3], 5, 2, 3, 5)]
    hidden = [_qkv([], 2, 3, 2, 2) | {"mask": torch.tensor([[True, False, True], [True] * 3])}]
    hidden += [_qkv([3], 2, 5, 3, 2) | {"mask": _some(3, 2, 5)}]
    # An axis of size 1 is broadcast: a padding mask to all queries, a causal mask to all sentences.
    hidden += [_qkv([2], 3, 5, 7, 2) | {"mask": _some(2, 1, 5)}]
    hidden += [_qkv([2, 3], 5, 5, 2, 3) | {"mask": torch.ones(1, 1, 5, 5).tril().bool()}]
    hidden += [_qkv([2, 3], 1, 5, 2, 3) | {"mask": _some(2, 1, 1, 5)}]
    blind = _qkv([], 2, 3, 2, 2) | {"mask": torch.tensor([[False] * 3, [True, False, True]])}
    loud = [{**_qkv([2], 3, 5, 2, 3), "query": 300 * torch.randn(2, 3, 2)}]
    loud += [loud[0] | {"mask": _some(2, 3, 5)}]
    # Allowed scores of -50,000, lower than -10,000 after or before the division, and of -10.
    low = {
        "query": torch.tensor([[-1000.0, 0.0, 0.0, 0.0], [-0.2, 0.0, 0.0, 0.0]]),
        "key": torch.tensor([100.0, 120.0, 130.0, 100.0]).unsqueeze(1) * torch.eye(4)[:1],
        "value": torch.tensor([[10.0, 0.0], [20.0, 1.0], [30.0, 1.0], [50.0, 0.0]]),
        "mask": torch.tensor([[True, False, False, True]] * 2),
    }
    if thorough:
        plain += [_qkv([1], 1, 1, 1, 1), _qkv([2, 3, 2], 3, 7, 5, 2), _qkv([5], 7, 11, 3, 2)]
        hidden += [_qkv([5, 2], 3, 7, 2, 5) | {"mask": _some(5, 1, 3, 7)}]
        hidden += [_qkv([3], 7, 11, 5, 2) | {"mask": _some(3, 7, 11)}]
    for inputs in [*plain, *hidden, *loud, low, blind]:
        _compare(candidate, inputs)
    sources = {name: blind[name].clone().requires_grad_() for name in ("query", "key", "value")}
    given = {**sources, "mask": blind["mask"]}
    nan = " A softmax over a row of -inf causes this, even if its result is replaced by 0 later."
    expect_gradients_through(candidate, given, sources, lambda pair: pair[0], nan=nan)
    sources = {n: hidden[0][n].clone().requires_grad_() for n in ("query", "key", "value")}
    given = {**sources, "mask": hidden[0]["mask"]}
    expect_gradients_through(candidate, given, sources, lambda pair: pair[0])
    _expect_the_same_translator(candidate)


def _compare(candidate: object, inputs: Inputs) -> None:
    expected = _attend(*inputs.values())
    pair = expect_pair(call_twice(candidate, inputs), ("context", "weights"), inputs)
    context, weights = map(in_32_bits, pair)
    expect_equal(weights, expected[1], "the weights", inputs, _WEIGHTS_TWINS)
    expect_equal(context, expected[0], "the context", inputs, _CONTEXT_TWINS)


class _StudentsHeads(nn.Module):
    """The package's multi-head attention with a student's function as its attention."""

    def __init__(self, right: MultiHeadAttention, attend: object) -> None:
        super().__init__()
        self.right = right
        self.attend = cast(Callable[..., _Pair], attend)

    def remember(self, key: Tensor, value: Tensor) -> KeyValueCache:
        """Project keys and values once, for a decoder."""
        return self.right.remember(key, value)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = True,
    ) -> tuple[Any, ...]:
        """Project, apply the student's function in every head, and project again."""
        held = KeyValueCache() if cache is None else cache
        if key is not None and value is not None:
            held = self.right.remember(key, value, held)
        queries = self.right._split_heads(self.right.query_projection(query))
        mask = None if mask is None else mask.unsqueeze(1)
        context, weights = self.attend(queries, held.keys, held.values, mask)
        joined = self.right._join_heads(cast(Tensor, in_32_bits(context)))
        pair = self.right.output_projection(joined), in_32_bits(weights)
        return pair if cache is None else (*pair, held)


def put_in(attend: object, model: Transformer | None = None) -> Transformer:
    """Return the trained Transformer, or `model`, with this function as its attention."""
    model = _trained() if model is None else model
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        for name, module in [*layer.named_children()]:
            if isinstance(module, MultiHeadAttention):
                setattr(layer, name, _StudentsHeads(module, attend))
    return model


_SENTENCES = (
    "the animal did not cross the street because it was too tired",
    "the cat drank the milk",
)


def _expect_the_same_translator(candidate: object) -> None:
    def replace(model: Transformer) -> None:
        put_in(candidate, model)

    expect_same_translations(replace, _SENTENCES, "attention", TRANSFORMER)


# Part 4


def _leak(scores: Tensor, mask: Tensor, d_k: int, fill: float, before: bool) -> Tensor:
    lowered = fill / math.sqrt(d_k) if before else fill
    weights = (scores / math.sqrt(d_k) - lowered * ~mask).softmax(dim=-1)
    return (weights * ~mask).sum(dim=-1)


_LEAK_TWINS = [
    *known(
        "leaked: `before` is ignored or inverted. If fill is subtracted before the scaling, it "
        "is divided by √d_k as well; if it is subtracted after the scaling, it is not.",
        lambda s, m, d_k, fill, before: _leak(s, m, d_k, fill, not before),
    ),
    *known(
        "leaked: The masked scores are replaced by -fill. Subtract fill from them, so that a "
        "high masked score stays higher than a low one.",
        lambda s, m, d_k, fill, before: _replaced(s, m, d_k, fill, before),
    ),
    *known(
        "leaked: The scores are not divided by √d_k.",
        lambda s, m, d_k, fill, before: _leak(s, m, 1, fill, before),
    ),
    *known(
        "leaked: The scores are divided by d_k; divide by its square root.",
        lambda s, m, d_k, fill, before: _leak(s, m, d_k**2, fill, before),
    ),
    *known(
        "leaked: The mask is inverted: subtract fill where the mask is False.",
        lambda s, m, d_k, fill, before: _leak(s, ~m, d_k, fill, before),
    ),
    *known(
        "leaked: This is the weight of the allowed keys. Return the weight of the masked keys.",
        lambda *asked: 1 - _leak(*asked),
    ),
    *known(
        "leaked: fill is added, so masked keys receive more weight. Subtract it.",
        lambda s, m, d_k, fill, before: _leak(s, m, d_k, -fill, before),
    ),
    *known(
        "leaked: This is the sum over all queries. Return one value for each query.",
        lambda *asked: _leak(*asked).sum(dim=-1),
    ),
    *known(
        "leaked: exp overflows for large scores. Subtract the largest score first, or call "
        "torch.softmax, which does this.",
        lambda s, m, d_k, fill, before: _leak_too_loud(s, m, d_k, fill, before),
    ),
    *known(
        "leaked: This is the mean over the masked keys. Return the sum of their weights.",
        lambda s, m, *asked: _leak(s, m, *asked) / (~m).sum(dim=-1),
    ),
]


def _leak_too_loud(scores: Tensor, mask: Tensor, d_k: int, fill: float, before: bool) -> Tensor:
    lowered = fill / math.sqrt(d_k) if before else fill
    powers = (scores / math.sqrt(d_k) - lowered * ~mask).exp()
    return (powers * ~mask).sum(dim=-1) / powers.sum(dim=-1)


def _replaced(scores: Tensor, mask: Tensor, d_k: int, fill: float, before: bool) -> Tensor:
    root = math.sqrt(d_k)
    number = -fill / root if before else -fill
    return ((scores / root).masked_fill(~mask, number).softmax(dim=-1) * ~mask).sum(dim=-1)


def _enough(
    bound: float,
    d_k: int,
    seen: int,
    hidden: int,
    share: float,
    before: bool,
    *,
    gaps: float = 2.0,
    odds: Callable[[float], float] = lambda share: (1 - share) / share,
    cut: bool = True,
    scaled: bool = True,
) -> float:
    """Return the smallest sufficient fill; the options make mistakes."""
    root = math.sqrt(d_k)
    number = gaps * bound / (root if scaled else 1.0) + math.log(hidden / seen * odds(share))
    number = number * root if before else number
    return max(number, 0.0) if cut else number


def _partly_scaled(
    bound: float, d_k: int, seen: int, hidden: int, share: float, before: bool
) -> float:
    """Multiply only the part with the bound by √d_k instead of the whole value."""
    return _enough(bound, 1 if before else d_k, seen, hidden, share, False)


_ENOUGH_TWINS = [
    *known(
        "enough: A score can lie on either side of 0: masked scores may be +bound while allowed "
        "scores are -bound.",
        lambda *asked: _enough(*asked, gaps=1.0),
    ),
    *known(
        "enough: The scores are not considered. A masked score may be higher than the allowed "
        "ones.",
        lambda *asked: _enough(*asked, gaps=0.0),
    ),
    *known(
        "enough: The numbers of keys are not used. More masked keys receive more weight "
        "together, and more allowed keys leave less for them.",
        lambda b, d, seen, hidden, *asked: _enough(b, d, 1, 1, *asked),
    ),
    *known(
        "enough: The number of masked keys is used, but the number of allowed keys is not.",
        lambda b, d, seen, hidden, *asked: _enough(b, d, 1, hidden, *asked),
    ),
    *known(
        "enough: The number of allowed keys is used, but the number of masked keys is not: the "
        "share is that of all masked keys together.",
        lambda b, d, seen, hidden, *asked: _enough(b, d, seen, 1, *asked),
    ),
    *known(
        "enough: seen and hidden are exchanged.",
        lambda b, d, seen, hidden, *asked: _enough(b, d, hidden, seen, *asked),
    ),
    *known(
        "enough: This is the ratio of the masked to the allowed weight. The share is relative to "
        "all weight: masked / (masked + allowed).",
        lambda *asked: _enough(*asked, odds=lambda share: 1 / share),
    ),
    *known(
        "enough: The odds are inverted: a smaller share needs a larger fill.",
        lambda *asked: _enough(*asked, odds=lambda share: share / (1 - share)),
    ),
    *known(
        "enough: This gives each masked key the share. All masked keys together may not receive "
        "more than it.",
        lambda b, d, seen, hidden, *asked: _enough(
            b, d, seen, hidden, *asked, odds=lambda share: (1 - hidden * share) / (hidden * share)
        ),
    ),
    *known(
        "enough: Before the scaling, fill must be √d_k times as large, not smaller by this factor.",
        lambda b, d, *asked: _enough(b, d, *asked) / (d if asked[-1] else 1),
    ),
    *known(
        "enough: The result is negative. If nothing has to be subtracted, return 0.",
        lambda *asked: _enough(*asked, cut=False),
    ),
    *known(
        "enough: The bound is that of the scores before the scaling, so it is divided by √d_k too.",
        lambda *asked: _enough(*asked, scaled=False),
    ),
    *known(
        "enough: Before the scaling, fill is divided by √d_k as a whole. The whole value must be "
        "√d_k times as large, not only the part that depends on bound.",
        _partly_scaled,
    ),
    *known(
        "enough: `before` is ignored or inverted.",
        lambda b, d, seen, hidden, share, before: _enough(b, d, seen, hidden, share, not before),
    ),
]


@_parts.part("finite masks", "leaked", "enough")
def finite(leaked: object, enough: object, thorough: bool = False) -> None:
    """Check how much weight a finite mask leaks, and which value is sufficient."""
    small = torch.tensor([[4.0, 8.0, 2.0]]), torch.tensor([[True, False, True]]), 4, 6.0
    asked = [small, (5 * torch.randn(2, 5), _some(2, 5), 7, 3.0)]
    asked += [(5 * torch.randn(2, 3, 5), _some(2, 3, 5), 3, 2.0)]
    asked += [(400 * torch.randn(3, 7), _some(3, 7), 5, 300.0)]
    if thorough:
        asked += [(torch.randn(7, 2), _some(7, 2), 11, 1.0)]
        asked += [(torch.randn(3, 11), _some(3, 11), 5, 7.0)]
    inputs: Inputs
    for scores, mask, d_k, fill in asked:
        for before in (True, False):
            inputs = dict(zip(_LEAK_INPUTS, (scores, mask, d_k, fill, before), strict=True))
            answer = in_32_bits(call_twice(leaked, inputs))
            expected = _leak(*inputs.values())
            expect_equal(
                answer, expected, "the total weight of the masked keys", inputs, _LEAK_TWINS
            )
    cases = [(3.0, 4, 1, 1, 0.25), (0.0, 4, 1, 1, 0.25), (3.0, 9, 5, 2, 0.1), (0.5, 4, 7, 1, 0.4)]
    if thorough:
        cases += [(40.0, 64, 3, 50, 0.001), (0.0, 2, 9, 1, 0.5), (11.0, 5, 13, 7, 0.03)]
    for case in cases:
        for before in (True, False):
            inputs = dict(zip(_ENOUGH_INPUTS, (*case, before), strict=True))
            found = call_twice(enough, inputs)
            found = found if plain_number(found) is None else plain_number(found)
            right = _enough(*case, before)
            expect_value(found, right, "the smallest sufficient fill", inputs, _ENOUGH_TWINS)


_LEAK_INPUTS = ("scores", "mask", "d_k", "fill", "before")
_ENOUGH_INPUTS = ("bound", "d_k", "seen", "hidden", "share", "before")


# Part 5


class _Box(nn.Module):
    """A black-box model: embeddings, then layers of attention with given masks."""

    def __init__(self, *bands: tuple[int, int], sees_padding: bool = False, says: str = "") -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(3)
        self.table = torch.randn(_VOCAB, 4, generator=draw)
        self.mix = torch.randn(4, 4, generator=draw)
        self.bands = bands
        """For each layer, how far back and how far ahead a position may attend."""
        self.sees_padding = sees_padding
        self.says = says

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        x = self.table[ids]
        ones = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool)
        for back, ahead in self.bands:
            mask = (ones.triu(-back) & ones.tril(ahead)).expand(len(ids), -1, -1)
            if not self.sees_padding:
                mask = mask & real.unsqueeze(1)
            x = _attend(x @ self.mix, x, x, mask)[0]
        return x

    def __repr__(self) -> str:
        return self.says or "a black-box model"


class _Normalised(_Box):
    """A model whose outputs all have the sum 0 and the same length."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        x = super().forward(ids, real)
        return nn.functional.layer_norm(x, x.shape[-1:])


class _Trigger(_Box):
    """A model in which one token, at any position, influences all outputs."""

    def __init__(self, heard: int, says: str = "", loud: float = 1.0) -> None:
        super().__init__((_FAR, 0), says=says)
        self.heard, self.loud = heard, loud

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        heard = ((ids == self.heard) & real).any(dim=1)
        return super().forward(ids, real) + self.loud * heard[:, None, None]


class _Whisper(_Box):
    """A model in which all positions influence all outputs, below the threshold."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        return super().forward(ids, real) + 2e-5 * self.table[ids].mean(dim=1, keepdim=True)


class _Thin(_Box):
    """A model in which one token, at any position, influences one component of all outputs."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        heard = ((ids == 5) & real).any(dim=1)
        return super().forward(ids, real) + heard[:, None, None] * torch.tensor([0, 0, 0, 3e-4])


class _Late(_Box):
    """A model whose outputs all start with 1."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        return nn.functional.pad(super().forward(ids, real), (1, 0), value=1.0)


class _Total(_Box):
    """A model with one output component, which is largest if all tokens so far are 3."""

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return one output for each position."""
        return -((ids - 3).square() * real).float().cumsum(dim=1).unsqueeze(-1)


_VOCAB, _FAR = 7, 100
_THRESHOLD = 1e-4
"""Smaller changes count as rounding errors."""
_Model = Callable[[Tensor, Tensor], Tensor]


def suspects() -> dict[str, _Model]:
    """Return five models with unknown masks, for the tokens 0 to 6."""
    return {
        "A": _Box((_FAR, 0)),
        "B": _Box((_FAR, 0), (_FAR, 1)),
        "C": _Box((_FAR, -1)),
        "D": _Box((_FAR, 0), sees_padding=True),
        "E": _Trigger(5),
    }


def decoder() -> _Model:
    """Return the stack of the trained decoder as such a model, with a fixed source."""
    model = _trained()
    src = torch.tensor([[4, 62, 160, 4, 93, 3]])
    memory = model.encode(src).outputs

    def read(ids: Tensor, real: Tensor) -> Tensor:
        size, tokens = ids.shape
        ones = torch.ones(size, 1, src.size(1), dtype=torch.bool)
        with torch.no_grad():
            mask = causal_mask(tokens) & real.unsqueeze(1)
            return model.decoder(ids, memory.expand(size, -1, -1), mask, ones)[0]

    return read


def _changes(model: _Model, ids: Tensor, real: Tensor, vocab_size: int) -> Tensor:
    """Return all changes of all outputs, (position, token, output, component)."""
    changed = ids.repeat(len(ids), vocab_size, 1)
    for place in range(len(ids)):
        changed[place, :, place] = torch.arange(vocab_size)
    changed = changed.flatten(0, 1)
    outputs = model(changed, real.expand_as(changed)).unflatten(0, (len(ids), vocab_size))
    return outputs - model(ids.unsqueeze(0), real.unsqueeze(0))


def _reach(
    pick: Callable[[Tensor], Tensor] = torch.abs,
    threshold: float = _THRESHOLD,
    tokens: slice = slice(None),
) -> Callable[..., Tensor]:
    """Return a test that may consider too few of the changes."""

    def detect(model: _Model, ids: Tensor, real: Tensor, vocab_size: int) -> Tensor:
        changes = pick(_changes(model, ids, real, vocab_size)[:, tokens])
        return (changes > threshold).any(dim=-1).any(dim=1).T.float()

    return detect


def _one_token(next_one: Callable[[int, int], int]) -> Callable[..., Tensor]:
    """Return a test that tries only one other token."""

    def detect(model: _Model, ids: Tensor, real: Tensor, vocab_size: int) -> Tensor:
        changes = _changes(model, ids, real, vocab_size).abs()
        tokens = torch.tensor([next_one(each, vocab_size) for each in ids.tolist()])
        return (changes[torch.arange(len(ids)), tokens] > _THRESHOLD).any(dim=-1).T.float()

    return detect


def _piling_up(model: _Model, ids: Tensor, real: Tensor, vocab_size: int) -> Tensor:
    changed, found = ids.clone(), torch.zeros(len(ids), len(ids))
    first = model(ids.unsqueeze(0), real.unsqueeze(0))[0]
    for place in range(len(ids)):
        for token in range(vocab_size):
            changed[place] = token
            differs = (model(changed.unsqueeze(0), real.unsqueeze(0))[0] - first).abs()
            found[:, place] += (differs > _THRESHOLD).any(dim=-1)
    return found.clamp(max=1.0)


def _only_real(model: _Model, ids: Tensor, real: Tensor, vocab_size: int) -> Tensor:
    return _reach()(model, ids, real, vocab_size) * real


_REACHED_TWINS = [
    *known(
        "reached: Rows and columns are exchanged: entry [i, j] is True if position j influences "
        "output i.",
        lambda *asked: _reach()(*asked).T,
    ),
    *known(
        "reached: The mean, the sum or the norm of a change is compared with 0.0001. Compare "
        "each component separately.",
        _reach(lambda changes: changes.abs().mean(dim=-1, keepdim=True)),
        _reach(lambda changes: changes.abs().sum(dim=-1, keepdim=True)),
        _reach(lambda changes: changes.norm(dim=-1, keepdim=True)),
    ),
    *known(
        "reached: The components of an output are summed before they are compared, so that "
        "changes can cancel. Compare each component separately.",
        _reach(lambda changes: changes.sum(dim=-1, keepdim=True).abs()),
        _reach(lambda changes: changes.mean(dim=-1, keepdim=True).abs()),
    ),
    *known(
        "reached: Only the first component of an output is compared.",
        _reach(lambda changes: changes[..., :1].abs()),
    ),
    *known(
        "reached: The result is inverted: it must be True where a position influences an output.",
        lambda *asked: 1 - _reach()(*asked),
    ),
    *known(
        "reached: Only increases are counted. A decrease is a change too: take the absolute "
        "difference.",
        _reach(lambda changes: changes),
    ),
    *known(
        "reached: The threshold is not 0.0001. A component counts as changed if it differs by "
        "more than this; smaller differences are rounding errors. (For squared differences the "
        "threshold would be 0.00000001.)",
        *(_reach(threshold=another) for another in (0.0, 1e-8, 1e-6, 1e-5, 1e-2)),
    ),
    *known(
        "reached: One of the tokens is never tried. Try all tokens from 0 to vocab_size - 1.",
        _reach(tokens=slice(1, None)),
        _reach(tokens=slice(-1)),
    ),
    *known(
        "reached: Positions that were tried before are still changed. Start from the original "
        "sentence at each position.",
        _piling_up,
    ),
    *known(
        "reached: Padding positions are left out. The question is whether their tokens matter: "
        "replace them as well, and pass `real` unchanged.",
        _only_real,
    ),
    *known(
        "reached: `real` is replaced by True everywhere. Pass it unchanged.",
        lambda model, ids, real, size: _reach()(model, ids, torch.ones_like(real), size),
    ),
    *known(
        "reached: Only one other token is tried at each position. Some tokens change nothing "
        "where another one does: try all tokens.",
        _one_token(lambda token, size: (token + 1) % size),
        _one_token(lambda token, size: 0),
        _one_token(lambda token, size: 1),
        _one_token(lambda token, size: size - 1),
        _one_token(lambda token, size: token - 1 if token else size - 1),
        _one_token(lambda token, size: 1 if token == 0 else 0),
    ),
    *known(
        "reached: Later positions are assumed to have no influence. The question is whether they "
        "do: compare all outputs.",
        lambda *asked: _reach()(*asked).tril(),
    ),
]

_Pairs = list[tuple[int, int]]


def _faults(
    reached: Tensor,
    real: Tensor,
    *,
    padding_asks: bool = False,
    padding_leaks: bool = True,
    itself: int = 0,
) -> dict[str, _Pairs]:
    """Return leaks and missing pairs; the options make mistakes."""
    places = range(len(real))
    pairs = [(i, j) for i in places for j in places if padding_asks or real[i]]
    may = {(i, j) for i, j in pairs if j <= i + itself and bool(real[j])}
    return {
        "leaks": [
            (i, j)
            for i, j in pairs
            if reached[i, j] and (i, j) not in may and (padding_leaks or real[j])
        ],
        "missing": [(i, j) for i, j in pairs if not reached[i, j] and (i, j) in may],
    }


_FAULTS_TWINS = [
    *known(
        "faults: The outputs at padding positions are judged as well. They are not used: leave "
        "them out.",
        lambda *asked: _faults(*asked, padding_asks=True),
    ),
    *known(
        "faults: Padding that influences an output is a leak as well, before and after the "
        "position of the output.",
        lambda *asked: _faults(*asked, padding_leaks=False),
        lambda *asked: {
            k: [(i, j) for i, j in v if k == "missing" or j > i]
            for k, v in _faults(*asked).items()
        },
    ),
    *known(
        "faults: A position may influence its own output; only later positions may not.",
        lambda *asked: _faults(*asked, itself=-1),
    ),
    *known(
        "faults: The next position is allowed. Only the position itself and earlier positions "
        "may influence an output.",
        lambda *asked: _faults(*asked, itself=1),
    ),
    *known(
        "faults: The pairs are inverted. Each pair is (output, position).",
        lambda *asked: {
            name: [(j, i) for i, j in pairs] for name, pairs in _faults(*asked).items()
        },
    ),
    *known(
        "faults: Leaks and missing pairs are exchanged.",
        lambda *asked: dict(zip(("missing", "leaks"), _faults(*asked).values(), strict=True)),
    ),
    *known(
        "faults: Padding must not influence any output, so it is never missing.",
        lambda reached, real: {
            "leaks": _faults(reached, real)["leaks"],
            "missing": [
                (i, j) for i in range(len(real)) for j in range(i + 1)
                if real[i] and not reached[i, j]
            ],
        },
    ),
]  # fmt: skip


@_parts.part("a test for leaks", "reached", "faults")
def leaks(reached: object, faults: object, thorough: bool = False) -> None:
    """Check which positions influence which outputs, and the faults that follow."""
    boxes: list[
        tuple[_Box, list[int], int]
    ] = [  # with the number of padding positions at the start
        (_Box((_FAR, 0), says="a model"), [3, 1, 4], 0),
        (_Total(says="a model with one output component"), [3, 3, 3], 0),
        (_Late((_FAR, 1), says="a model whose outputs all start with 1"), [1, 2, 6, 3], 0),
        (_Normalised((_FAR, _FAR), says="a model with normalised outputs"), [3, 1, 4], 0),
        (_Trigger(5, "a model, token 5 influences all outputs"), [3, 1, 4], 0),
        (_Trigger(0, "a model, token 0 influences all outputs"), [3, 1, 4], 0),
        (_Trigger(6, "a model, token 6 influences all outputs"), [3, 1, 4], 0),
        (_Trigger(5, "a model with a leak of 0.0005", loud=5e-4), [3, 1, 4], 0),
        (_Whisper((_FAR, 0), says="a model with rounding errors"), [3, 1, 4], 0),
        (_Thin((_FAR, 0), says="a model with a leak in one component"), [3, 1, 4], 0),
        (_Trigger(5, "a model with changes of 0.00008", loud=8e-5), [3, 1, 4], 0),
        (_Box((_FAR, 0), says="a model with a padding mask"), [0, 3, 1], 1),
        (_Box((_FAR, 0), sees_padding=True, says="a model without a padding mask"), [0, 3, 1], 1),
    ]
    if thorough:
        boxes += [
            (_Box((_FAR, 0), (_FAR, 1), says="a model with two layers"), [2, 6, 1, 3, 4], 0),
            (
                _Normalised((1, 0), (1, 0), says="a model with two narrow layers"),
                [0, 0, 1, 3, 4],
                2,
            ),
            (_Box((_FAR, -1), says="a model"), [4, 2], 0),
        ]
    inputs: Inputs
    for box, tokens, padding in boxes:
        real = torch.arange(len(tokens)) >= padding
        ids = torch.tensor(tokens)
        inputs = {"model": box, "ids": ids, "real": real, "vocab_size": _VOCAB}
        expected = _reach()(*inputs.values())
        answer = _truths(call_twice(reached, inputs), "the matrix of influences", inputs)
        expect_equal(answer, expected, "the matrix of influences", inputs, _REACHED_TWINS)
    asked = [
        (torch.tensor([[1, 1], [0, 0]]), [True, True]),
        (torch.tensor([[1, 0, 0], [0, 1, 1], [1, 1, 1]]), [True, True, False]),
        (torch.tensor([[0, 1, 1], [0, 0, 0], [1, 1, 1]]), [False, True, True]),
        (torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 1]]), [True, True, True]),
        (torch.randint(0, 2, (5, 5)), [False, True, True, True, False]),
    ]
    if thorough:
        asked += [(torch.randint(0, 2, (7, 7)), [True] * 7), (torch.tensor([[1]]), [True])]
    for matrix, words in asked:
        inputs = {"reached": matrix.bool(), "real": torch.tensor(words)}
        found = call_twice(faults, inputs)
        if isinstance(found, dict):
            found = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in found.items()}
        expect_value(found, _faults(*inputs.values()), "the faults", inputs, _FAULTS_TWINS)


# Part 6


class _Aim(NamedTuple):
    """Which weights two projections have to produce."""

    x: Tensor
    target: list[int]
    share: float

    @property
    def weights(self) -> Tensor:
        """Return the expected weights, (words, words)."""
        words = len(self.target)
        others = (1 - self.share) / (words - 1)
        weights = torch.full((words, words), others, dtype=torch.float64)
        weights[torch.arange(words), self.target] = self.share
        return weights


def _aims(thorough: bool) -> list[_Aim]:
    def words(number: int, d_model: int) -> Tensor:
        turned, _ = torch.linalg.qr(torch.randn(d_model, d_model))
        return (turned[:number] + 0.2 * torch.randn(number, d_model)) * 2

    found = [
        _Aim(torch.eye(3), [1, 2, 0], 0.8),
        _Aim(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), [1, 0], 0.75),
        _Aim(words(5, 7), [1, 1, 0, 4, 2], 0.9),
        _Aim(words(5, 5), [0, 1, 2, 3, 4], 0.05),
    ]
    if thorough:
        found += [_Aim(words(7, 11), [3] * 7, 0.6), _Aim(words(2, 13), [0, 0], 0.99)]
        found += [_Aim(words(11, 17), [*range(1, 11), 0], 0.7)]
    return found


@_parts.part("projections for given weights", "aim")
def aim(candidate: object, thorough: bool = False) -> None:
    """Check that two projections produce the given attention weights."""
    for wanted in _aims(thorough):
        inputs = {"x": wanted.x, "target": wanted.target, "share": wanted.share}
        pair = expect_pair(call_twice(candidate, inputs), ("w_q", "w_k"), inputs)
        w_q, w_k = (
            _matrix(in_32_bits(each), name, wanted, inputs)
            for each, name in zip(pair, ("w_q", "w_k"), strict=True)
        )
        if w_q.shape != w_k.shape:
            raise CheckFailed(
                f"  Queries of dimension {w_q.size(1)} cannot be compared with keys of dimension "
                f"{w_k.size(1)}.\n{describe(inputs)}"
            )
        _expect_aim(w_q.double(), w_k.double(), wanted, inputs)


def _matrix(answer: object, name: str, wanted: _Aim, inputs: Inputs) -> Tensor:
    matrix = plain_tensor(answer, name, inputs)
    if matrix.dim() != 2 or len(matrix) != wanted.x.size(1) or not matrix.size(1):
        raise CheckFailed(
            f"  {name} has the shape {tuple(matrix.shape)}; expected (d_model, d_k), where d_model "
            f"is {wanted.x.size(1)} and d_k is your choice.\n{describe(inputs)}"
        )
    if not matrix.isfinite().all():
        raise CheckFailed(f"  {name} contains NaN or infinity.\n{describe(inputs)}")
    return matrix


def _expect_aim(w_q: Tensor, w_k: Tensor, wanted: _Aim, inputs: Inputs) -> None:
    x, words = wanted.x.double(), len(wanted.target)
    right = wanted.weights
    _, weights = scaled_dot_product.scaled_dot_product_attention(x @ w_q, x @ w_k, x)
    scores = (x @ w_q) @ (x @ w_k).T

    def alike(one: Tensor, other: Tensor = right) -> bool:
        return torch.allclose(one, other, 1e-3, 1e-5)

    if alike(weights):
        return
    strength = math.log(wanted.share / (1 - wanted.share))
    towards = strength + math.log(words - 1)
    aimed = nn.functional.one_hot(torch.tensor(wanted.target), words).double()
    gram = x @ x.T
    root = math.sqrt(w_q.size(1))
    if any(alike((scores / by).softmax(dim=-1)) for by in (1, root**2, math.sqrt(len(w_q)))):
        said = (
            "The attention divides the scores by √d_k, so the dot products must be √d_k times as "
            "large. d_k is the number of columns that you chose."
        )
    elif w_q.shape == right.shape and alike((w_q @ w_k.T / math.sqrt(words)).softmax(dim=-1)):
        said = "These are queries and keys. Return the projections that compute them from x."
    elif alike((scores.T / root).softmax(dim=-1)):
        said = "Queries and keys are exchanged: word i must attend to target[i]."
    elif any(
        alike(weights, ((strength + more) * aimed).softmax(-1)) for more in (0, math.log(words))
    ):
        said = (
            "The target competes with words - 1 other words, each with exp(0) = 1. Its score must "
            "be higher by ln(words - 1) than for two words."
        )
    elif alike(weights, (math.log(wanted.share) * aimed).softmax(dim=-1)):
        said = "The logarithm of the share is its score here, but the scores of the others are 0."
    elif any(alike(weights, each.softmax(dim=-1)) for each in (right, wanted.share * aimed)):
        said = "The shares are used as scores. The softmax exponentiates scores."
    elif alike(weights, (gram @ (towards * aimed) @ gram).softmax(dim=-1)):
        said = (
            "This is correct only if the rows of x are orthogonal and of length 1. The matrix that "
            "turns x into the identity is its pseudo-inverse, not its transpose."
        )
    else:
        said = _what_is_seen(weights, wanted)
    word = int((weights - right).abs().amax(dim=-1).argmax())
    raise CheckFailed(
        f"  {said}\n{describe(inputs)}\n"
        f"  got         word {word} has the weights {show(weights[word].float())}\n"
        f"  expected    {show(right[word].float())}"
    )


def _what_is_seen(weights: Tensor, wanted: _Aim) -> str:
    words = len(wanted.target)
    found = weights[torch.arange(words), wanted.target]
    for word, target in enumerate(wanted.target):
        most = int(weights[word].argmax())
        if wanted.share > 1 / words and most != target:
            return f"Word {word} attends most to word {most}; expected word {target}."
    if (found - wanted.share).abs().max() > 1e-4:
        word = int((found - wanted.share).abs().argmax())
        return (
            f"Word {word} gives its target the weight {found[word]:.4g}; "
            f"expected exactly {wanted.share:.4g}."
        )
    return "The weights of the targets are correct, but those of the other words are not equal."
