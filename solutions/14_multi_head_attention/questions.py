"""Multi-head attention as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Part 4 is
examined by code in `attentively.checks.multi_head_attention`, because many answers are right. In
parts 5 and 6, the results are those of the attention that the returned parameters compute.
"""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  for the edits
from torch import Tensor, nn

from attentively.attention.masks import causal_mask
from attentively.checks import multi_head_attention as checks
from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question
from attentively.checks.replaceable_attention import State, weights_of


def drawn(d_model: int, num_heads: int) -> State:
    """Return parameters whose attention weights are far from equal, with biases."""
    return {
        name: 2 * each for name, each in weights_of(MultiHeadAttention(d_model, num_heads)).items()
    }


# Part 1


def split_heads(x, num_heads):
    parts = x.unflatten(2, (num_heads, -1))
    return parts.transpose(1, 2)


def merge_heads(x):
    parts = x.transpose(1, 2)
    return parts.flatten(2)


def split_cases(thorough: bool) -> Iterator[Case]:
    yield Case({"x": torch.arange(1.0, 19.0).reshape(1, 3, 6), "num_heads": 2})
    for shape, num_heads in [((2, 5, 12), 3), ((3, 2, 20), 4)]:
        yield Case({"x": torch.randn(shape), "num_heads": num_heads})
    yield Case({"x": torch.randn(2, 3, 4, requires_grad=True), "num_heads": 2})
    for shape, num_heads in [((1, 1, 3), 1), ((2, 7, 10), 5), ((5, 3, 7), 7)] * thorough:
        yield Case({"x": torch.randn(shape), "num_heads": num_heads})


def merge_cases(thorough: bool) -> Iterator[Case]:
    cases = split_cases(thorough)
    *without_gradients, _ = islice(cases, 4)
    for case in without_gradients:
        yield Case({"x": split_heads(*case.inputs.values()).contiguous()})
    yield Case({"x": torch.randn(2, 3, 5, 4, requires_grad=True)})
    for case in cases:
        yield Case({"x": split_heads(*case.inputs.values()).contiguous()})


LAST_AXIS, EXCHANGE = "unflatten(2, (num_heads, -1))", "parts.transpose(1, 2)"
STRIDED = f"{LAST_AXIS} -> unflatten(2, (-1, num_heads))"
SPLIT = Question(
    split_heads,
    {"the output of split_heads": ""},
    split_cases,
    {
        "The last two axes are exchanged. They must be (length, d_head).": (
            f"{EXCHANGE} -> parts.permute(0, 2, 3, 1)"
        ),
        "The tensor is reshaped without exchanging axes, so a head receives the entries of whole "
        "words. Split the last axis first, then exchange the axes of words and heads.": [
            f"{EXCHANGE} -> x.reshape(len(x), num_heads, x.size(1), -1)",
            f"{EXCHANGE} -> x.reshape(len(x), num_heads, -1, x.size(1)).transpose(2, 3)",
        ],
        "Each head receives every num_heads-th entry. The entries of a head are adjacent: head 0 "
        "has the first d_head entries of each word.": [
            (STRIDED, f"{EXCHANGE} -> parts.permute(0, 3, 1, 2)"),
            (STRIDED, f"{EXCHANGE} -> parts.transpose(2, 3)"),
        ],
        "num_heads and d_head are exchanged. The last axis must be split into (num_heads, d_head).":
            STRIDED,
        "The axis of the words comes before the axis of the heads. Exchange the two: (batch, "
        "num_heads, length, d_head).": f"{EXCHANGE} -> parts",
        "The axis of the heads comes before the batch. The batch must be the first axis.": [
            f"{EXCHANGE} -> parts.permute(2, 0, 1, 3)",
            f"{EXCHANGE} -> torch.cat(x.chunk(num_heads, dim=-1))",
        ],
    },
    named=True,
    either_precision=True,
)  # fmt: skip

MERGE = Question(
    merge_heads,
    {"the output of merge_heads": ""},
    merge_cases,
    {
        "The tensor is reshaped without exchanging axes, so the entries of different words are "
        "mixed. Exchange the axes of heads and words first, then flatten the last two axes.": (
            "parts.flatten(2) -> x.reshape(len(x), x.size(2), -1)"
        ),
        "The entries of the heads alternate. The heads must be concatenated: first all entries of "
        "head 0, then those of head 1.": "transpose(1, 2) -> permute(0, 2, 3, 1)",
        "The heads are still an axis of their own. Flatten the axes (num_heads, d_head) into one "
        "axis of size d_model.": ["parts.flatten(2) -> parts", "parts.flatten(2) -> x"],
        "The heads are averaged or summed. They must be concatenated, so that every entry is kept.":
            ["parts.flatten(2) -> x.mean(dim=1)", "parts.flatten(2) -> x.sum(dim=1)"],
        "All words of a head are concatenated. The heads of each word must be concatenated.": (
            "parts.flatten(2) -> x.flatten(2)"
        ),
    },
    named=True,
    either_precision=True,
)  # fmt: skip


# Part 2


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} does not split into {num_heads} equal heads")
        self.num_heads = num_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        queries = split_heads(self.query_projection(query), self.num_heads)
        keys = split_heads(self.key_projection(key), self.num_heads)
        values = split_heads(self.value_projection(value), self.num_heads)
        scores = queries @ keys.mT / math.sqrt(queries.size(3))
        if mask is None:
            mask = torch.ones_like(scores[:, 0], dtype=torch.bool)
        allowed = mask.unsqueeze(1)  # the same for every head
        lowered = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = lowered.softmax(dim=-1) * allowed
        merged = merge_heads(weights @ values)
        context = self.output_projection(merged)
        return context, weights


def of_slices(layer: nn.Linear, x: Tensor, num_heads: int) -> Tensor:
    """Let each head project its own slice of the vectors."""
    blocks = layer.weight.unflatten(0, (num_heads, -1)).unflatten(2, (num_heads, -1))
    found = [part @ blocks[head, :, head].T for head, part in enumerate(x.chunk(num_heads, dim=-1))]
    return torch.cat(found, dim=-1) + layer.bias


def strided(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(2, (-1, num_heads)).permute(0, 3, 1, 2)


def reshaped(x: Tensor, num_heads: int) -> Tensor:
    return x.reshape(len(x), num_heads, x.size(1), -1)


def attention_cases(thorough: bool) -> Iterator[Case]:
    def case(d_model: int, num_heads: int, inputs: dict[str, Any]) -> Case:
        made = {"d_model": d_model, "num_heads": num_heads}
        return Case(inputs, made, drawn(d_model, num_heads))

    welcome = torch.randn(1, 3, 6).mul(10).round() / 10
    yield case(6, 2, dict.fromkeys(("query", "key", "value"), welcome))
    asked = [(2, 2, 4, 5, 8, "whole some none one"), (3, 4, 2, 5, 12, "padding")]
    if thorough:
        asked += [(1, 1, 3, 2, 5, "some"), (2, 7, 1, 4, 7, "none"), (3, 3, 5, 5, 21, "padding")]
    for batch, num_heads, queries, keys, d_model, kinds in asked:
        lengths = {"query": queries, "key": keys, "value": keys}
        inputs = {name: torch.randn(batch, size, d_model) for name, size in lengths.items()}
        some = torch.rand(batch, queries, keys) < 0.5
        some[..., 0] = True
        none = some.clone()
        none[0, 0] = False  # nothing to attend to
        padding = torch.arange(keys).expand(batch, 1, keys) < keys - 1
        masks = {"some": some, "none": none, "padding": padding, "one": padding[:1]}
        for kind in kinds.split():
            mask = {} if kind == "whole" else {"mask": masks[kind]}
            yield case(d_model, num_heads, inputs | mask)
    yield large_scores()


def large_scores() -> Case:
    """Return a case with scores of about 200 and -200, in which rounding changes nothing."""
    weights = drawn(8, 2)
    same = {name: torch.eye(8) if each.dim() == 2 else 0 * each for name, each in weights.items()}
    heads = torch.eye(8)[0] + torch.eye(8)[4]  # the first entry of each head
    inputs = {
        "query": torch.tensor([[[20.0], [-20.0]]]) * heads,
        "key": torch.tensor([[[20.0], [19.875], [10.0]]]) * heads,
        "value": torch.arange(24.0).reshape(1, 3, 8) / 8,
        "mask": torch.tensor([[[True, True, False]]]),
    }
    return Case(inputs, {"d_model": 8, "num_heads": 2}, same)


def of_all(change: Callable[[str], str]) -> tuple[str, ...]:
    """Return the edits of the lines that project queries, keys and values."""
    return tuple(map(change, ("query", "key", "value")))


SPLITTING = {
    way: of_all(lambda n, way=way: f"split_heads(self.{n}_pro -> {way}(self.{n}_pro")
    for way in ("reshaped", "strided")
}
ROOT, MERGED = "math.sqrt(queries.size(3))", "merge_heads(weights @ values)"
LOWEST = "torch.finfo(scores.dtype).min"
NOT_LOWERED = f"scores.masked_fill(~allowed, {LOWEST}) -> scores"
NOT_ZERO = " * allowed -> "
RETURNED = "return context, weights"
TAKEN = {n: f"self.{n}_projection({n})" for n in ("query", "key", "value")}
NOT_USED = "The {}_projection is not used."
ATTENTION = Question(
    MultiHeadAttention,
    {"context": "", "weights": ""},
    attention_cases,
    {
        "The output projection W^O is missing. Apply output_projection to the concatenated head "
        "outputs.": "self.output_projection(merged) -> merged",
        "The bias of output_projection is missing. Call the layer.": (
            "self.output_projection(merged) -> merged @ self.output_projection.weight.T"
        ),
        "The scores are divided by √d_model. Queries and keys of a head have dimension d_head, so "
        "divide by √d_head.": "queries.size(3) -> query.size(2)",
        "The scores are not divided by √d_head.": f" / {ROOT} -> ",
        "The scores are divided by d_head, which is √d_head twice. Divide by √d_head once: "
        "scaled_dot_product_attention already does so.": f"{ROOT} -> queries.size(3)",
        "The head outputs are merged without exchanging axes, so the entries of different words "
        "are mixed.": f"{MERGED} -> (weights @ values).reshape(query.shape)",
        "The projections are reshaped without exchanging axes, so a head receives the entries of "
        "whole words.": SPLITTING["reshaped"],
        "The mask is inverted: True means that a query may attend to the key. (In "
        "nn.MultiheadAttention, True has the opposite meaning.)": (
            "torch.bool) -> torch.bool)\n        else:\n            mask = ~mask"
        ),
        "The mask is not used. Where it is False, the weight must be 0.": [
            (NOT_LOWERED, NOT_ZERO),
            "if mask is None -> if mask is None or len(mask) < len(query)",
        ],
        "The batch axis of the mask is aligned with the heads. Add an axis for the heads after the "
        "batch: mask.unsqueeze(1).": (
            "mask.unsqueeze(1) -> mask.unsqueeze(0 if len(mask) == self.num_heads else 1)"
        ),
        "A query that may attend to no key has equal weights for all keys. Its weights must be 0.":
            NOT_ZERO,
        "A query that may attend to no key has NaN as weights. They must be 0. The softmax of a "
        "row of -inf is NaN; masked_softmax returns 0.": f"{LOWEST} -> -math.inf",
        "The exponential of a large score is infinite. Subtract the largest score of a row first, "
        "as torch.softmax does.": (
            "lowered.softmax(dim=-1) * allowed -> scores.exp() * allowed\n"
            "        weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-30)"
        ),
        "Masked keys receive weight if all other scores are lower still. Set their scores to -inf, "
        "or to the lowest number of the dtype.": [
            f"{LOWEST} -> -100.0",
            (f"{LOWEST} -> -100.0", f"{NOT_ZERO}* allowed.any(dim=-1, keepdim=True)"),
        ],
        "Masked keys have the score 0 and take part in the softmax. Their scores must be very low "
        "before the softmax, such as -1e9.": (f"{LOWEST} -> 0.0", NOT_ZERO),
        "The mask is applied after the softmax, so the remaining weights do not sum to 1. Apply it "
        "to the scores, before the softmax.": NOT_LOWERED,
        "The softmax is taken over the queries. It must be taken over the keys, the last axis.": (
            "dim=-1 -> dim=-2"
        ),
        "The projections are split differently than in part 1. Head 0 has the first d_head rows of "
        "each projection, and the head outputs are concatenated in the order of the heads.": [
            SPLITTING["strided"],
            f"{MERGED} -> (weights @ values).permute(0, 2, 3, 1).flatten(2)",
        ],
        "num_heads and d_head are exchanged: there are d_head heads of dimension num_heads.": (
            "self.num_heads = num_heads -> self.num_heads = d_model // num_heads"
        ),
        "There is only one head: the projections are not split.": (
            "self.num_heads = num_heads -> self.num_heads = 1"
        ),
        "The inputs are split, so a head reads only a part of each vector. Every head must project "
        "the whole vectors; the projections are split.": of_all(
            lambda n: f"{TAKEN[n]} -> of_slices(self.{n}_projection, {n}, self.num_heads)"
        ),
        "The values are projected from `key`. They must be projected from `value`.": (
            "projection(value) -> projection(key)"
        ),
        "`key` and `value` are exchanged.": (
            "projection(value) -> projection(key)",
            "key_projection(key) -> key_projection(value)",
        ),
        "Keys and values are projected from `query`. They must be projected from `key` and "
        "`value`.": (
            "projection(key) -> projection(query)",
            "projection(value) -> projection(query)",
        ),
        "query_projection and key_projection are exchanged.": (
            f"{TAKEN['query']} -> self.key_projection(query)",
            f"{TAKEN['key']} -> self.query_projection(key)",
        ),
        "One projection is used twice. Queries, keys and values need a projection of their own "
        "each.": [
            f"{TAKEN['query']} -> self.key_projection(query)",
            f"{TAKEN['value']} -> self.key_projection(value)",
            f"{TAKEN['key']} -> self.query_projection(key)",
            (
                f"{TAKEN['key']} -> self.query_projection(key)",
                f"{TAKEN['value']} -> self.query_projection(value)",
            ),
        ],
        **{NOT_USED.format(name): f"{taken} -> {name}" for name, taken in TAKEN.items()},
        "The returned weights are those without the mask.": (
            f"{RETURNED} -> return context, scores.softmax(dim=-1)"
        ),
        "The scores are returned instead of the weights.": f"{RETURNED} -> return context, scores",
        "The weights are averaged over the heads. Return the weights of each head: (batch, "
        "num_heads, q, k).": [
            f"{RETURNED} -> {RETURNED}.mean(dim=1)",
            f"{RETURNED} -> {RETURNED}.mean(dim=1, keepdim=True)",
        ],
        "The weights are summed over the heads. Return the weights of each head: (batch, "
        "num_heads, q, k).": f"{RETURNED} -> {RETURNED}.sum(dim=1)",
    },
    either_precision=True,
)  # fmt: skip


# Part 3


def in_the_encoder(attention, x, src_mask):
    mask = src_mask.unsqueeze(1)
    return attention(x, x, x, mask)


def in_the_decoder(attention, y, tgt_mask):
    causal = causal_mask(y.size(1))
    mask = causal & tgt_mask.unsqueeze(1)
    return attention(y, y, y, mask)


def across(attention, y, x, tgt_mask, src_mask):
    mask = src_mask.unsqueeze(1)
    return attention(y, x, x, mask)


def earlier(y: Tensor, x: Tensor) -> Tensor:
    return torch.ones(1, y.size(1), x.size(1), dtype=torch.bool).tril()


def use_inputs(thorough: bool) -> Iterator[dict[str, Any]]:
    sizes = [(2, 5, 5), (3, 5, 4)]
    if thorough:
        sizes += [(1, 3, 7), (4, 6, 6)]
    for batch, src_len, tgt_len in sizes:
        rows = torch.arange(batch).unsqueeze(1)
        given = {"weights": drawn(6, 2), "num_heads": 2}
        yield {
            "attention": Fresh(checks.given_attention, given, "multi-head attention"),
            "x": torch.randn(batch, src_len, 6),
            "y": torch.randn(batch, tgt_len, 6),
            "src_mask": torch.arange(src_len) < src_len - rows,
            "tgt_mask": torch.arange(tgt_len) < tgt_len - rows.flip(0),
        }


def use_cases(*names: str) -> Callable[[bool], Iterator[Case]]:
    return lambda thorough: (Case({n: each[n] for n in names}) for each in use_inputs(thorough))


def of_words(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return the answer with results of 0 for the queries that are padding."""

    def run(attention: nn.Module, x: Tensor, *rest: Tensor) -> Any:
        real = rest[-1] if len(rest) == 1 else rest[1]
        return checks.of_words(answer(attention, x, *rest), real)

    return run


RESULTS = {"the context": "", "the weights": ""}
INVERTED = "The mask is inverted: True means that a query may attend to the key."
ENCODER = Question(
    in_the_encoder,
    RESULTS,
    use_cases("attention", "x", "src_mask"),
    {
        "A source word attends to padding. The mask must hide the keys that are padding from every "
        "query: (batch, 1, src_len).": [
            "x, mask) -> x)",
            "(x, x, x, mask) -> (*[x * src_mask.unsqueeze(2)] * 3)",
        ],
        "A source word cannot attend to later words. The encoder reads the complete source, so it "
        "needs no causal mask.": [
            "src_mask.unsqueeze(1) -> earlier(x, x)",
            "src_mask.unsqueeze(1) -> src_mask.unsqueeze(1) & earlier(x, x)",
        ],
        INVERTED: "x, mask) -> x, ~mask)",
    },
    named=True,
    either_precision=True,
    runner=of_words,
)

CAUSAL, BOTH = "causal_mask(y.size(1))", "causal & tgt_mask.unsqueeze(1)"
DECODER = Question(
    in_the_decoder,
    RESULTS,
    use_cases("attention", "y", "tgt_mask"),
    {
        "A target word attends to later words, which are not known yet. A causal mask is needed.": [
            f"{BOTH} -> tgt_mask.unsqueeze(1)",
            f"{BOTH} -> None",
        ],
        "The causal mask has the wrong direction: a word attends to later words instead of earlier "
        "ones.": [
            (f"{CAUSAL} -> {way}", *more)
            for way in (f"{CAUSAL}.mT", f"~{CAUSAL}")
            for more in ((), (f"{BOTH} -> causal",))
        ],
        "A word cannot attend to itself. The decoder has read this word, so the diagonal of the "
        "mask must be True.": [
            (f"{CAUSAL} -> {CAUSAL}.tril(-1){first}", *more)
            for first in ("", "\n    causal[:, 0, 0] = True")
            for more in ((), (f"{BOTH} -> causal",))
        ],
        "A word attends to the next word, which it must predict. Above the diagonal, the mask must "
        "be False.": [
            (f"{CAUSAL} -> torch.ones_like({CAUSAL}).tril(1)", *more)
            for more in ((), (f"{BOTH} -> causal",))
        ],
    },
    named=True,
    either_precision=True,
    runner=of_words,
)

HIDING, ATTENDING = "src_mask.unsqueeze(1)", "attention(y, x, x, mask)"
ACROSS = Question(
    across,
    RESULTS,
    use_cases("attention", "y", "x", "tgt_mask", "src_mask"),
    {
        "A target word attends to the padding of the source.": f"{HIDING} -> None",
        "A causal mask hides later source words. The complete source is known before the first "
        "target word is predicted; only the self-attention of the decoder needs a causal mask.": [
            f"{HIDING} -> earlier(y, x)",
            f"{HIDING} -> {HIDING} & earlier(y, x)",
        ],
        "The mask is that of the target's padding. The keys are source words, so the mask must be "
        "src_mask.": f"{HIDING} -> tgt_mask.unsqueeze(1)",
        INVERTED: "x, mask) -> x, ~mask)",
        "Source and target are exchanged: the queries must come from the target, the keys and "
        "values from the source.": [
            f"{ATTENDING} -> attention(x, y, y, {mask})"
            for mask in ("None", "tgt_mask.unsqueeze(1)", "mask")
        ],
        "The target attends to itself. Keys and values must come from the source.": [
            f"{ATTENDING} -> attention(y, y, y, {mask})"
            for mask in ("tgt_mask.unsqueeze(1)", "mask", "causal_mask(y.size(1))", "None")
        ],
        "The source attends to itself. The queries must come from the target.": (
            f"{ATTENDING} -> attention(x, x, x, mask)"
        ),
        "The values come from the target. Keys and values must come from the source.": (
            f"{ATTENDING} -> attention(y, x, y, mask)"
        ),
        "The keys come from the target. Keys and values must come from the source.": (
            f"{ATTENDING} -> attention(y, y, x, mask)"
        ),
    },
    named=True,
    either_precision=True,
    runner=of_words,
)


# Part 4


def look_ups(n, steps):
    place = torch.arange(n)
    strength = 30 * n**0.5
    W_Q, W_K, W_V = torch.zeros(3, 2 * n, 2 * n)
    W_O = torch.eye(2 * n)
    for head, step in enumerate(steps):
        rows = head * n + place
        target = (place + step).clamp(0, n - 1)
        W_Q[head * n + target, n + place] = strength
        W_K[rows, n + place] = 1.0
        W_V[rows, place] = 1.0
    return W_Q, W_K, W_V, W_O


def turned_on(matrices: Any, n: int) -> Any:
    """Put the values of each head in another order, and let W_O turn them on instead of back."""
    W_Q, W_K, W_V, _ = matrices
    turn = torch.eye(n).roll(1, dims=0)
    turn = torch.block_diag(turn, turn)
    return W_Q, W_K, turn @ W_V, turn


FOUND = "return W_Q, W_K, W_V, W_O -> return"
LOOK_UPS = Question(
    look_ups,
    mistakes={
        "The scores must differ more": ["30 * n**0.5 -> 20", "30 * n**0.5 -> 3 * n**0.5"],
        "the look-up continues at the other end": (
            "(place + step).clamp(0, n - 1) -> (place + step) % n"
        ),
        "Where a step leads beyond the end, the first or": (
            "= strength -> = strength * (place + step == target)"
        ),
        "The steps have the wrong sign": "in enumerate(steps) -> in enumerate([-s for s in steps])",
        "The two look-ups are exchanged": "enumerate(steps) -> enumerate(steps[::-1])",
        "The output is the *position* that was looked up": f"{FOUND} W_Q, W_K, W_V.roll(n, 1), W_O",
        "Transposed: W_Q, W_K, W_V.": f"{FOUND} W_Q.T, W_K.T, W_V.T, W_O",
        "or rows and columns are exchanged in W_Q": (
            "W_Q[head * n + target, n + place] -> W_Q[rows, n + target]"
        ),
        "W_Q and W_K are exchanged": f"{FOUND} W_K, W_Q, W_V, W_O",
        "Transposed: W_V.": f"{FOUND} W_Q, W_K, W_V.T, W_O",
        "Transposed: W_O.": f"{FOUND} turned_on((W_Q, W_K, W_V, W_O), n)",
        "Transposed: W_K.": f"{FOUND} W_Q, W_K.T, W_V, W_O",
        "Transposed: W_Q, W_K.": f"{FOUND} W_Q.T, W_K.T, W_V, W_O",
        "The wrong half of x is read: W_K.": f"{FOUND} W_Q, W_K.roll(n, 1), W_V, W_O",
        "The wrong half of x is read: W_Q, W_K.": (
            f"{FOUND} W_Q.roll(n, 1), W_K.roll(n, 1), W_V, W_O"
        ),
        "too large for 32-bit floating-point numbers": f"{FOUND} 1e30 * W_Q, 1e30 * W_K, W_V, W_O",
        "The first n entries of the output are all 0": f"{FOUND} W_Q, W_K, W_V, 0 * W_O",
        "The last n entries of the output are all 0": (
            f"{FOUND} W_Q, W_K, torch.cat([W_V[:n], 0 * W_V[n:]]), W_O"
        ),
        "Both heads use the same step": [
            "in enumerate(steps) -> in enumerate([steps[0]] * 2)",
            "in enumerate(steps) -> in enumerate([0, 0])",
        ],
        "All positions have the same weight": f"{FOUND} 0 * W_Q, W_K, W_V, W_O",
    },
)  # fmt: skip


# Part 5


def pruned(weights, num_heads, keep):
    d_head = len(weights["output_projection.bias"]) // num_heads
    rows = torch.cat([torch.arange(d_head) + head * d_head for head in keep])
    columns = rows
    found = dict(weights)
    for name in ("query", "key", "value"):
        found[f"{name}_projection.weight"] = weights[f"{name}_projection.weight"][rows]
        found[f"{name}_projection.bias"] = weights[f"{name}_projection.bias"][rows]
    found["output_projection.weight"] = weights["output_projection.weight"][:, columns]
    return found


def importance(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    gradients = torch.autograd.functional.jacobian(loss_of, gates)
    return gradients.abs().mean(dim=0)


def costs(loss_of: Callable[[Tensor], Tensor], num_heads: int) -> Tensor:
    """Return the increase of each example's loss when a head is removed, (examples, num_heads)."""
    ones = torch.ones(num_heads)
    return torch.stack([loss_of(ones - each) - loss_of(ones) for each in torch.eye(num_heads)], -1)


def one_open(loss_of: Callable[[Tensor], Tensor], num_heads: int) -> Tensor:
    """Return the gradient of each gate where the other gates are 0, (examples, num_heads)."""
    jacobians = [
        torch.autograd.functional.jacobian(loss_of, gates) for gates in torch.eye(num_heads)
    ]
    return torch.stack([each[:, head] for head, each in enumerate(jacobians)], -1)


def attended(heads_of: Callable[..., int]) -> Callable[..., Callable[..., Any]]:
    """Return a runner that computes attention with the parameters that an answer returns."""

    def runner(answer: Callable[..., State]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            found = answer(*given)
            return *checks.attended(found, heads_of(*given)), found

        return run

    return runner


def results_of(name: str) -> dict[str, str]:
    of = f"with the parameters that {name} returns"
    return {f"the context {of}": "", f"the weights {of}": "", "parameters": ""}


def pruned_cases(thorough: bool) -> Iterator[Case]:
    asked = [(8, 4, [0, 3]), (6, 3, [1]), (15, 5, [3, 1, 2])]
    if thorough:
        asked += [(5, 1, [0]), (14, 7, [6, 0]), (12, 3, [2, 0, 1])]
    for d_model, num_heads, keep in asked:
        weights = drawn(d_model, num_heads)
        yield Case({"weights": weights, "num_heads": num_heads, "keep": keep})


def importance_cases(thorough: bool) -> Iterator[Case]:
    def squares(factors: Tensor) -> Case:
        loss_of = Fresh(checks.squares, {"factors": factors})
        return Case({"loss_of": loss_of, "num_heads": factors.size(1)})

    def of_attention(d_model: int, num_heads: int, examples: int) -> Case:
        given = {"weights": drawn(d_model, num_heads), "num_heads": num_heads}
        given |= dict(zip(("x", "goal"), torch.randn(2, examples, 4, d_model), strict=True))
        return Case({"loss_of": Fresh(checks.attention_losses, given), "num_heads": num_heads})

    yield squares(torch.tensor([[3.0, -4.0], [1.0, 1.0]]))
    yield squares(torch.randn(5, 3))
    yield of_attention(8, 4, 3)
    if thorough:
        yield squares(torch.randn(1, 1))
        yield of_attention(6, 2, 7)


PARTS_OF, OLD_BIAS = "torch.arange(d_head) + head * d_head", 'weights["output_projection.bias"]'
STRIDES = f"{PARTS_OF} -> torch.arange(d_head) * num_heads + head"
IN_STRIDES = (
    "Head i consists of every num_heads-th row. The rows of a head are adjacent and start at i · "
    "d_head."
)


def also(name: str, value: str) -> str:
    """Return an edit that replaces one of the returned parameters."""
    return f'return found -> return found | {{"{name}": {value}}}'


PRUNED = Question(
    pruned,
    results_of("pruned"),
    pruned_cases,
    {
        "The heads in `keep` are removed and the others are kept. `keep` names the heads that "
        "stay.":
            "for head in keep -> for head in range(num_heads) if head not in keep",
        IN_STRIDES: STRIDES,
        "W^O keeps the wrong columns, so the outputs of the remaining heads are multiplied by "
        "columns of other heads.": "columns = rows -> columns = torch.arange(len(rows))",
        "The first len(keep) heads are kept, whatever `keep` contains.": (
            "for head in keep -> for head in range(len(keep))"
        ),
        "The heads are in their old order. Head i of the new attention must be head keep[i] of the "
        "old one.": "for head in keep -> for head in sorted(keep)",
        "The output bias is set to 0. It belongs to no head and must stay unchanged.": (
            also("output_projection.bias", f"0 * {OLD_BIAS}")
        ),
        "The biases of the remaining heads are missing. Keep the same entries of the biases as "
        "rows of the matrices.": '_projection.bias"][rows] -> _projection.bias"][rows] * 0',
        "The output bias is scaled down. It belongs to no head and must stay unchanged.": (
            also("output_projection.bias", f"{OLD_BIAS} * len(keep) / num_heads")
        ),
    },
    look=tuple(results_of("pruned"))[:2],
    named=True,
    in_all_cases=True,
    either_precision=True,
    runner=attended(lambda weights, num_heads, keep: len(keep)),
)  # fmt: skip

MEAN = "gradients.abs().mean(dim=0)"
COSTS = "torch.autograd.functional.jacobian(loss_of, gates) -> costs(loss_of, num_heads)"
IMPORTANCE = Question(
    importance,
    {"the importance of the heads": ""},
    importance_cases,
    {
        "The absolute value is taken after the mean, so gradients of opposite sign cancel. Take "
        "the absolute value for each example, then the mean.": (
            f"{MEAN} -> gradients.mean(dim=0).abs()"
        ),
        "The absolute value is missing. Take it for each example, before the mean.": (
            f"{MEAN} -> gradients.mean(dim=0)"
        ),
        "The result is the sum over the examples. It must be the mean.": [
            f"{MEAN} -> {way}"
            for way in (
                "gradients.abs().sum(dim=0)",
                "gradients.sum(dim=0)",
                "gradients.sum(dim=0).abs()",
            )
        ],
        "The gradient is computed with all gates at 0. All gates must be 1.": (
            "torch.ones(num -> torch.zeros(num"
        ),
        "Only the first example is used. Compute the mean over all examples.": (
            f"{MEAN} -> gradients[0].abs()"
        ),
        "The result is the maximum over the examples. It must be the mean.": (
            f"{MEAN} -> gradients.abs().amax(dim=0)"
        ),
        "The result is the increase of the loss when a head is removed. It must be the gradient "
        "with respect to the gates, with all gates at 1.": [
            COSTS,
            *((COSTS, f"{MEAN} -> {sign}gradients.mean(dim=0){end}")
              for sign, end in (("", ""), ("-", ""), ("", ".abs()"))),
        ],
        "The gradients of the examples accumulate, because backward() adds to .grad. Set .grad to "
        "None before each example, or use torch.autograd.grad.": (
            f"{MEAN} -> gradients.cumsum(dim=0).abs().mean(dim=0)"
        ),
        "The gradient of each gate is computed with the other gates at 0. All gates must be 1.": (
            "torch.autograd.functional.jacobian(loss_of, gates) -> one_open(loss_of, num_heads)"
        ),
        "The sum is divided by the number of heads. Divide it by the number of examples.": (
            f"{MEAN} -> gradients.abs().sum(dim=0) / num_heads"
        ),
        "The gradients are squared. Take their absolute values.": [
            f"{MEAN} -> gradients.square().mean(dim=0)",
            f"{MEAN} -> gradients.square().mean(dim=0).sqrt()",
        ],
        "The values are normalised to sum to 1. Return them without this normalisation.": (
            f"{MEAN} -> F.normalize({MEAN}, p=1, dim=0)"
        ),
    },
    named=True,
    either_precision=True,
    runner=torch.enable_grad(),
)  # fmt: skip


# Part 6


def reordered(weights, num_heads, order):
    d_head = len(weights["output_projection.bias"]) // num_heads
    rows = torch.cat([torch.arange(d_head) + head * d_head for head in order])
    found = dict(weights)
    for name in ("query", "key", "value"):
        found[f"{name}_projection.weight"] = weights[f"{name}_projection.weight"][rows]
        found[f"{name}_projection.bias"] = weights[f"{name}_projection.bias"][rows]
    found["output_projection.weight"] = weights["output_projection.weight"][:, rows]
    return found


def folded(weights):
    zero = torch.zeros_like(weights["key_projection.bias"])
    added = weights["output_projection.weight"] @ weights["value_projection.bias"]
    found = dict(weights)
    found["key_projection.bias"] = zero
    found["value_projection.bias"] = zero.clone()
    found["output_projection.bias"] = weights["output_projection.bias"] + added
    return found


def reordered_cases(thorough: bool) -> Iterator[Case]:
    asked = [(6, 3, [1, 2, 0]), (12, 4, [3, 1, 0, 2])]
    if thorough:
        asked += [(10, 2, [1, 0]), (15, 5, [4, 2, 0, 1, 3]), (3, 1, [0])]
    for d_model, num_heads, order in asked:
        weights = drawn(d_model, num_heads)
        yield Case({"weights": weights, "num_heads": num_heads, "order": order})


def folded_cases(thorough: bool) -> Iterator[Case]:
    for d_model in (6, 12, *((9, 15, 3) if thorough else ())):
        yield Case({"weights": drawn(d_model, checks.FOLDED_HEADS)})


REORDERED = Question(
    reordered,
    results_of("reordered"),
    reordered_cases,
    {
        "The order of the heads has not changed.": "return found -> return dict(weights)",
        "The columns of W^O are not reordered, so each head output is multiplied by the columns of "
        "another head.": "[:, rows] -> ",
        "The rows of W^O are reordered. Reorder its columns: they are multiplied by the head "
        "outputs.": "[:, rows] -> [rows]",
        "The permutation is inverted. Head i of the new attention must be head order[i] of the old "
        "one.": "in order] -> in torch.tensor(order).argsort().tolist()]",
        IN_STRIDES: f"{PARTS_OF} -> torch.arange(d_head) * num_heads + head",
    },
    look=tuple(results_of("reordered"))[:2],
    named=True,
    either_precision=True,
    runner=attended(lambda weights, num_heads, order: num_heads),
)

ADDED = 'weights["output_projection.weight"] @ weights["value_projection.bias"]'
FOLDED = Question(
    folded,
    results_of("folded"),
    folded_cases,
    {
        "The value bias is removed without a replacement. It is added to every value, and the "
        "weights of a query sum to 1. What does it add to the output?": f"{ADDED} -> zero",
        "The value bias is added to the output bias directly. Values reach the output through "
        "W^O.": f'{ADDED} -> weights["value_projection.bias"]',
        "The value bias is multiplied by W^O transposed. nn.Linear computes W x + b.": (
            'weights["output_projection.weight"] @ -> weights["output_projection.weight"].T @'
        ),
        "The contribution of the value bias is subtracted from the output bias. It must be added.":
            "+ added -> - added",
        "The key bias is added to the output bias. It influences only the scores, and it adds the "
        "same value to all scores of a query. What is the effect on the softmax?": (
            f'{ADDED} -> {ADDED} + weights["output_projection.weight"] @ '
            'weights["key_projection.bias"]'
        ),
        "The output bias contains only the contribution of the value bias. The old output bias "
        "must be added.": 'weights["output_projection.bias"] + added -> added',
        "The query bias is set to 0, which changes the weights. It adds a different value to the "
        "score of each key, so it must stay.": also("query_projection.bias", "zero.clone()"),
        "The key bias is moved to the query bias, which changes the weights. It must be removed.":
            also(
                "query_projection.bias",
                'weights["query_projection.bias"] + weights["key_projection.bias"]',
            ),
    },
    look=tuple(results_of("folded"))[:2],
    named=True,
    either_precision=True,
    runner=attended(lambda weights: checks.FOLDED_HEADS),
)  # fmt: skip


PARTS = {
    "heads": [SPLIT, MERGE],
    "multi_head": [ATTENTION],
    "uses": [ENCODER, DECODER, ACROSS],
    "look_ups": [LOOK_UPS],
    "pruning": [PRUNED, IMPORTANCE],
    "same_function": [REORDERED, FOLDED],
}
"""The questions of each check, in the order of its arguments."""
