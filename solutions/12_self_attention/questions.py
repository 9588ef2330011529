"""Self-attention as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Parts 1
to 5 are recorded. Part 6 is examined by code in `attentively.checks.self_attention`, because many
answers are right.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  for the edits
from torch import Tensor

from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question, learning
from attentively.checks.self_attention.black_boxes import (
    FAR,
    VOCAB,
    Box,
    Late,
    Normalised,
    Total,
    Trigger,
    Whisper,
)

OVERFLOW = "exp overflows for large scores. Subtract the largest score "
BY_D_K = "The scores are divided by d_k; divide by its square root."
UNSCALED = "The scores are not divided by √d_k."


def doubled(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with floating-point tensors as float64."""
    return {
        name: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in inputs.items()
    }


def in_32_bits(results: Any) -> Any:
    return results.float() if isinstance(results, Tensor) else tuple(map(in_32_bits, results))


def some(*shape: int) -> Tensor:
    """Return a mask in which every query may attend to at least one key."""
    mask = torch.rand(shape) < 0.5
    mask[..., 0] |= ~mask.any(dim=-1)
    return mask


# Part 1


def scores_of(x, word, w_q, w_k):
    query = x[word] @ w_q
    keys = x @ w_k
    scores = keys @ query / math.sqrt(w_q.shape[1])
    return scores


def look(scores, x, w_v):
    weights = scores.softmax(dim=-1)
    values = x @ w_v
    output = weights @ values
    return weights, output


HAND = {
    "x": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    "word": 0,
    "w_q": torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 1.0]]),
    "w_k": torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0]]),
    "w_v": torch.tensor([[10.0], [20.0]]),
}


def word_inputs(thorough: bool) -> Iterator[dict[str, Any]]:
    yield HAND
    sizes = [(3, 2, 2, 2, 1), (5, 7, 3, 2, 4), (2, 3, 5, 3, 0)]
    if thorough:
        sizes += [(1, 2, 3, 5, 0), (11, 5, 5, 5, 7), (7, 3, 1, 1, 6)]
    for words, d_model, d_k, d_v, word in sizes:
        projections = {"w_q": d_k, "w_k": d_k, "w_v": d_v}
        drawn = {name: torch.randn(d_model, size) for name, size in projections.items()}
        yield {"x": torch.randn(words, d_model), "word": word, **drawn}


def scores_cases(thorough: bool) -> Iterator[Case]:
    asked = [{n: v for n, v in each.items() if n != "w_v"} for each in word_inputs(thorough)]
    for inputs in [*asked, learning(asked[2], "x"), doubled(asked[2])]:
        yield Case(inputs)


def look_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        {"scores": scores_of(*[*each.values()][:4]), "x": each["x"], "w_v": each["w_v"]}
        for each in word_inputs(thorough)
    ]
    # exp of the first scores overflows and of the second ones underflows, also in float64.
    for scores in ([0.0, 1000.0, 999.0], [-1000.0, -1001.0, -999.0]):
        asked.append({"scores": torch.tensor(scores), "x": HAND["x"], "w_v": HAND["w_v"]})
    for inputs in asked:
        yield Case(inputs)
    yield Case(learning(asked[2], "scores", "x", "w_v"), results=("output",))
    yield Case(learning(asked[2], "scores"))
    yield Case(doubled(asked[2]))


D_K = "math.sqrt(w_q.shape[1])"
SCORES = Question(
    scores_of,
    {"the scores": ""},
    scores_cases,
    {
        UNSCALED: f" / {D_K} -> ",
        "The scores are always divided by the same value. Divide by the square root of d_k, the "
        "number of columns of w_q.": [f"{D_K} -> 2", f"{D_K} -> 8"],
        BY_D_K: f"{D_K} -> w_q.shape[1]",
        "The scores are divided by √d_model, where d_model is the dimension of x. Divide by √d_k: "
        "the dot product has d_k terms.": f"{D_K} -> math.sqrt(w_q.shape[0])",
        "The scores are divided by the square root of the number of words. Divide by √d_k: the dot "
        "product has d_k terms.": f"{D_K} -> math.sqrt(len(x))",
        "Query and keys are exchanged. The query is computed from the one word, with w_q; every "
        "word has a key, computed with w_k.": (
            "x[word] @ w_q -> x[word] @ w_k",
            "x @ w_k -> x @ w_q",
        ),
        "Query and keys are computed with the same matrix. The query needs w_q, and the keys need "
        "w_k.": ["x @ w_k -> x @ w_q", "x[word] @ w_q -> x[word] @ w_k"],
        "The vectors in x are compared directly. Compare the query of the word with the keys of "
        "all words.": [
            "keys @ query -> x @ x[word]",
            f"keys @ query / {D_K} -> x @ x[word] / math.sqrt(x.shape[1])",
        ],
        "The scores of all queries are returned. Return only those of the given word, of shape "
        "(len,).": "keys @ query -> (x @ w_q) @ keys.T",
        "These are attention weights. The softmax belongs into `look`.": (
            "return scores -> return scores.softmax(dim=-1)"
        ),
    },
    named=True,
    either_precision=True,
    tidy=in_32_bits,
)

SOFTMAX = "scores.softmax(dim=-1)"
SUM_UP = "weights @ values"
LOOK = Question(
    look,
    {"weights": "", "output": ""},
    look_cases,
    {
        "The softmax is missing: the scores are returned as weights.": f"{SOFTMAX} -> scores",
        "The scores are divided by their sum. The weights are the softmax of the scores.": (
            f"{SOFTMAX} -> scores / scores.sum()"
        ),
        f"{OVERFLOW}first, which does not change the weights, or call torch.softmax, which does "
        "this.": f"{SOFTMAX} -> scores.exp() / scores.exp().sum()",
        "The exponentials are not divided by their sum.": f"{SOFTMAX} -> scores.exp()",
        "A sigmoid is applied to each score separately. A softmax normalises over all words, so "
        "that the weights sum to 1.": f"{SOFTMAX} -> scores.sigmoid()",
        "The scores are scaled a second time. The input `scores` is scaled already.": [
            f"{SOFTMAX} -> (scores / math.sqrt({each}.shape[1])).softmax(dim=-1)"
            for each in ("w_v", "x")
        ],
        "All weight is on the word with the largest score. A softmax gives every word a positive "
        "weight.": f"{SOFTMAX} -> (scores == scores.max()).float()",
        "The vectors in x are summed, not their values x @ w_v.": "x @ w_v -> x",
        "The values are multiplied by the scores, not by the weights.": (
            f"{SUM_UP} -> scores @ values"
        ),
        "The weighted values are not summed. The output has the shape (d_v,).": (
            f"{SUM_UP} -> weights.unsqueeze(-1) * values"
        ),
        "The values are averaged or summed without the weights.": [
            f"{SUM_UP} -> values.mean(dim=0)",
            f"{SUM_UP} -> values.sum(dim=0)",
        ],
        "The sum is divided by the number of words. The weights sum to 1 already.": (
            f"{SUM_UP} -> {SUM_UP} / len(x)"
        ),
        "This is the value of the word with the largest weight alone. The output is the weighted "
        "sum of all values.": f"{SUM_UP} -> values[scores.argmax()]",
    },
    named=True,
    either_precision=True,
    tidy=in_32_bits,
)


# Part 2


def mask_for(ids, pad_id, causal):
    size = ids.shape[1]
    real = (ids != pad_id).unsqueeze(1)
    mask = real.expand(-1, size, -1)
    if causal:
        mask = mask & torch.ones(size, size, dtype=torch.bool).tril()
    return mask


def blind(mask):
    fully_masked = ~mask.any(dim=-1)
    return fully_masked


def mask_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (torch.tensor([[0, 7, 5]]), 0),
        (torch.tensor([[4, 7, 5, 0, 0], [6, 8, 9, 4, 5]]), 0),
        (torch.tensor([[1, 1, 4], [5, 0, 6]]), 1),
    ]
    if thorough:
        asked += [(torch.randint(0, 3, (5, 7)), 2), (torch.tensor([[3]]), 0)]
    for ids, pad_id in asked:
        for causal in (False, True):
            yield Case({"ids": ids, "pad_id": pad_id, "causal": causal})


def blind_cases(thorough: bool) -> Iterator[Case]:
    yield Case({"mask": torch.tensor([[[0, 1, 1], [0, 0, 0], [1, 0, 0]]]).bool()})
    for case in mask_cases(thorough):
        yield Case({"mask": mask_for(*case.inputs.values()).clone()})


MASK = Question(
    mask_for,
    {"the mask": ""},
    mask_cases,
    {
        "The mask is inverted. It must be True where a query may attend to a key.": [
            "return mask -> return ~mask",
            "ids != pad_id -> ids == pad_id",
        ],
        "Only padding is masked; later positions are not.": "if causal -> if False",
        "Only later positions are masked; padding is not.": "ids != pad_id -> ids == ids",
        "Later positions are masked although causal is False.": [
            "if causal -> if True",
            "if causal -> if not causal",
        ],
        "Earlier positions are masked instead of later ones. Rows are queries, columns are keys.": (
            "tril() -> triu()"
        ),
        "A position cannot attend to itself. A causal mask hides later positions only.": (
            "tril() -> tril(-1)"
        ),
        "Each position can attend to the next one. A causal mask hides all later positions.": (
            "tril() -> tril(1)"
        ),
        "The two masks are combined with or (|). A query may attend to a key only if both masks "
        "allow it: combine them with and (&).": "mask & -> mask |",
        "Padding is masked as a query, by rows. Mask it as a key, by columns.": [
            "real.expand(-1, size, -1) -> real.mT.expand(-1, -1, size)",
            "return mask -> return mask.mT",
        ],
        "The rows of padding are masked too. A padding mask hides keys. The outputs at padding "
        "positions are not used, and fully masked rows need special care.": (
            "return mask -> return mask & real.mT"
        ),
        "The padding id is not always 0: compare the ids with pad_id.": "pad_id).un -> 0).un",
        "The mask allows as many positions as there are real tokens, counted from the start. "
        "Padding can be at the start of a sentence: compare each id with pad_id.": (
            "(ids != pad_id) -> (torch.arange(size) < (ids != pad_id).sum(1, True))"
        ),
        "The mask has a single row for all queries. Each query needs its own row, so the shape is "
        "(batch, len, len). The method .expand repeats a row without copying it.": [
            "real.expand(-1, size, -1) -> real",
            "return mask -> return real.squeeze(1)",
        ],
    },
    named=True,
    in_all_cases=True,
    either_precision=True,
    tidy=in_32_bits,
)

BLIND = Question(
    blind,
    {"the fully masked queries": ""},
    blind_cases,
    {
        "The result is inverted: it must be True for fully masked queries.": "~mask -> mask",
        "These are the keys that no query may attend to. The last axis of the mask belongs to the "
        "keys: reduce over this axis.": "dim=-1 -> dim=-2",
        "These queries may not attend to every key. A fully masked query may not attend to any "
        "key.": "any(dim -> all(dim",
        "These queries may not attend to themselves. A fully masked query may not attend to any "
        "key.": "mask.any(dim=-1) -> mask.diagonal(dim1=-2, dim2=-1)",
    },
    named=True,
    in_all_cases=True,
    either_precision=True,
    tidy=in_32_bits,
)


# Part 3


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1) * mask
    context = weights @ value
    return context, weights


def qkv(lead: list[int], q: int, k: int, d_k: int, d_v: int) -> dict[str, Tensor]:
    shapes = {"query": (q, d_k), "key": (k, d_k), "value": (k, d_v)}
    return {name: torch.randn(*lead, *shape) for name, shape in shapes.items()}


NAN = " A softmax over a row of -inf causes this, even if its result is replaced by 0 later."


def attention_cases(thorough: bool) -> Iterator[Case]:
    by_hand = {
        "query": torch.tensor([[1.0, 0.0, 0.0, 1.0]]),
        "key": torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0]]),
        "value": torch.tensor([[10.0, 0.0], [20.0, 1.0]]),
    }
    plain = [by_hand, qkv([], 3, 3, 2, 2), qkv([2], 3, 5, 2, 7), qkv([2, 3], 5, 2, 3, 5)]
    hidden = [qkv([], 2, 3, 2, 2) | {"mask": torch.tensor([[True, False, True], [True] * 3])}]
    hidden += [qkv([2, 3], 2, 5, 3, 2) | {"mask": some(2, 3, 2, 5)}]
    # An axis of size 1 is broadcast: a padding mask to all queries, a causal mask to all sentences.
    hidden += [qkv([2], 3, 5, 7, 2) | {"mask": some(2, 1, 5)}]
    hidden += [qkv([2, 3], 5, 5, 2, 3) | {"mask": torch.ones(1, 1, 5, 5).tril().bool()}]
    hidden += [qkv([2, 3], 1, 5, 2, 3) | {"mask": some(2, 1, 1, 5)}]
    empty = qkv([], 2, 3, 2, 2) | {"mask": torch.tensor([[False] * 3, [True, False, True]])}
    # exp of these scores overflows in float64 too.
    large = [{**qkv([2], 3, 5, 2, 3), "query": 1000 * torch.randn(2, 3, 2)}]
    large += [large[0] | {"mask": some(2, 3, 5)}]
    # Allowed scores of -50,000, lower than -10,000 after or before the division, and of -10.
    low = {
        "query": torch.tensor([[-1000.0, 0.0, 0.0, 0.0], [-0.2, 0.0, 0.0, 0.0]]),
        "key": torch.tensor([100.0, 120.0, 130.0, 100.0]).unsqueeze(1) * torch.eye(4)[:1],
        "value": torch.tensor([[10.0, 0.0], [20.0, 1.0], [30.0, 1.0], [50.0, 0.0]]),
        "mask": torch.tensor([[True, False, False, True]] * 2),
    }
    if thorough:
        plain += [qkv([1], 1, 1, 1, 1), qkv([2, 3, 2], 3, 7, 5, 2)]
        hidden += [qkv([5, 2], 3, 7, 2, 5) | {"mask": some(5, 1, 3, 7)[..., :1]}]
        hidden += [qkv([3], 7, 11, 5, 2) | {"mask": some(3, 7, 11)}]
    for inputs in [*plain, *hidden, low, *large, empty]:
        yield Case(inputs)
    for inputs, nan in ((empty, NAN), (hidden[0], "")):
        yield Case(learning(inputs, "query", "key", "value"), results=("context",), nan=nan)
    yield Case(learning(hidden[0], "query", "key"), results=("weights",))
    yield Case(doubled(hidden[1]))


ROOT = "math.sqrt(query.shape[-1])"
NO_MASK = "dtype=torch.bool)"
INVERTED = f"{NO_MASK} -> {NO_MASK}\n    else:\n        mask = ~mask"
LOWEST = "torch.finfo(scores.dtype).min"
FILL = f"scores = scores.masked_fill(~mask, {LOWEST})"
NOT_FILLED, NOT_MULTIPLIED = f"{FILL} -> pass", " * mask -> "
CONTEXT = "weights @ value"

ATTENTION = Question(
    scaled_dot_product_attention,
    {"context": "", "weights": ""},
    attention_cases,
    {
        UNSCALED: f" / {ROOT} -> ",
        BY_D_K: f"{ROOT} -> query.shape[-1]",
        "The scores are divided by the square root of another size than d_k, which is the last "
        "axis of the query.": [
            f"{ROOT} -> {each} ** 0.5"
            for each in ("64", "value.shape[-1]", "key.shape[-2]", "query.shape[-2]")
        ],
        "The scores are multiplied by √d_k; divide by it.": f"/ {ROOT} -> * {ROOT}",
        "The scores are returned instead of the weights.": (
            "return context, weights -> return context, scores"
        ),
        "The weights sum to 1 over the queries. The weights of each query must sum to 1 over the "
        "keys: apply the softmax along the last axis.": "softmax(dim=-1) -> softmax(dim=-2)",
        "The mask is not used.": (NOT_FILLED, NOT_MULTIPLIED),
        "The mask is inverted: it is True where a query may attend.": [
            INVERTED,
            (INVERTED, NOT_MULTIPLIED),
            (INVERTED, NOT_MULTIPLIED, f"{LOWEST} -> -math.inf"),
        ],
        "The mask is applied after the softmax, so the weight of masked keys is missing and the "
        "remaining weights do not sum to 1. Mask the scores before the softmax.": NOT_FILLED,
        "Masked scores are set to 0, and exp(0) is 1, so masked keys still receive weight.": (
            f"{LOWEST} -> 0.0",
            NOT_MULTIPLIED,
        ),
        "The mask is added to the scores as 1 and 0. This changes scores by 1 and masks nothing.": (
            f"{FILL} -> scores = scores + mask",
            NOT_MULTIPLIED,
        ),
        "A fully masked query receives NaN, because a row of -inf has no softmax. Its weights "
        "must be 0.": f"{LOWEST} -> -math.inf",
        "A fully masked query receives weights on masked keys. Its weights must be 0.": (
            NOT_MULTIPLIED
        ),
        "The value for masked scores is not low enough: masked keys still take weight from the "
        "allowed keys if the scores of these are low as well. A value that is filled in before "
        "the division is divided by √d_k too.": [
            (f"{LOWEST} -> {number}", *more)
            for number in (-1.0, -20.0, -1000.0)
            for more in ((), (NOT_MULTIPLIED,))
        ],
        "If masked scores are far higher than the others, nothing remains for the allowed keys. "
        "The mask is applied only after the softmax, or it lowers masked scores instead of "
        "replacing them.": [
            f"{FILL} -> scores = scores - 100 * ~mask",
            (NOT_FILLED, f"{SOFTMAX} * mask -> F.normalize({SOFTMAX} * mask, 1, -1)"),
            (NOT_FILLED, " * mask -> * mask\n    weights = weights / weights.sum(-1, True)"),
        ],
        f"{OVERFLOW}of each row first, which does not change the weights, or call torch.softmax, "
        "which does this.": [
            f"{SOFTMAX} -> scores.exp() / scores.exp().sum(-1, True)",
            f"{SOFTMAX} -> F.normalize(scores.exp(), 1, -1)",
        ],
        "The largest of all scores is subtracted before exp. In a row with far lower scores, all "
        "exponentials are then 0. Subtract the largest score of each row.": [
            f"{SOFTMAX} -> F.normalize((scores - scores.max()).exp(), 1, -1, eps={eps})"
            for eps in (0, 1e-12)
        ],
        "The logarithm of the sum of the exponentials is subtracted from the scores, and rounded "
        "if these are far from 0. Divide by the sum itself, or call torch.softmax.": (
            f"{SOFTMAX} -> (scores - scores.logsumexp(-1, True)).exp()"
        ),
        "Context and weights are exchanged: return context, weights.": (
            "return context, weights -> return weights, context"
        ),
        "The weights are multiplied by the keys, not by the values.": f"{CONTEXT} -> weights @ key",
        "The values are averaged without the weights.": (
            f"{CONTEXT} -> value.mean(-2, keepdim=True).expand(*query.shape[:-1], -1)"
        ),
        "The sum is divided by the number of keys. The weights sum to 1 already.": (
            f"{CONTEXT} -> {CONTEXT} / key.shape[-2]"
        ),
    },
    look=("weights", "context"),
    either_precision=True,
    tidy=in_32_bits,
)


# Part 4


def leaked(scores, mask, d_k, fill, before):
    root = math.sqrt(d_k)
    amount = fill / root if before else fill
    lowered = scores / root - amount * ~mask
    weights = lowered.softmax(dim=-1)
    total = weights.masked_fill(mask, 0.0).sum(dim=-1)
    return total


def enough(bound, d_k, seen, hidden, share, before):
    root = math.sqrt(d_k)
    gap = 2 * bound / root
    odds = hidden / seen * (1 - share) / share
    fill = gap + math.log(odds)
    if before:
        fill = fill * root
    return max(fill, 0.0)


def leaked_cases(thorough: bool) -> Iterator[Case]:
    small = torch.tensor([[4.0, 8.0, 2.0]]), torch.tensor([[True, False, True]]), 4, 6.0
    asked = [small, (5 * torch.randn(2, 5), some(2, 5), 7, 3.0)]
    asked += [(5 * torch.randn(2, 3, 5), some(2, 3, 5), 3, 2.0)]
    # exp of these scores overflows in float64 too.
    large = torch.tensor([[0.0, 4000.0, 3990.0]])
    asked += [(large, torch.tensor([[True, False, True]]), 4, 6.0)]
    if thorough:
        asked += [(torch.randn(7, 2), some(7, 2), 11, 1.0)]
        asked += [(torch.randn(3, 11), some(3, 11), 5, 7.0)]
    names = ("scores", "mask", "d_k", "fill")
    made = [dict(zip(names, each, strict=True)) for each in asked]
    exact = doubled(made[1])
    exact["scores"] += 1e6  # this changes no weight
    rounded = "The scores are float64 and near 1,000,000; float32 would round their differences."
    for inputs, general in [*((each, "") for each in made), (exact, rounded)]:
        for before in (True, False):
            yield Case(inputs | {"before": before}, general=general)


def enough_cases(thorough: bool) -> Iterator[Case]:
    asked = [(3.0, 7, 5, 2, 0.1), (3.0, 4, 1, 1, 0.75), (0.0, 4, 1, 1, 0.45), (0.5, 4, 7, 1, 0.4)]
    if thorough:
        asked += [(4e4, 64, 3, 50, 0.001), (0.0, 2, 9, 1, 0.5), (11.0, 5, 13, 7, 0.03)]
    names = ("bound", "d_k", "seen", "hidden", "share", "before")
    for each in asked:
        for before in (True, False):
            yield Case(dict(zip(names, (*each, before), strict=True)))


LEAKED = Question(
    leaked,
    {"the total weight of the masked keys": ""},
    leaked_cases,
    {
        "`before` is ignored or inverted. If fill is subtracted before the scaling, it is divided "
        "by √d_k as well; if it is subtracted after the scaling, it is not.": [
            "if before -> if not before",
            "if before -> if False",
            "if before -> if True",
        ],
        "The masked scores are replaced by -fill. Subtract fill from them, so that a high masked "
        "score stays higher than a low one.": (
            "scores / root - amount * ~mask -> (scores / root).masked_fill(~mask, -amount)"
        ),
        UNSCALED: "math.sqrt(d_k) -> 1.0",
        BY_D_K: "math.sqrt(d_k) -> d_k",
        "The mask is inverted: subtract fill where the mask is False.": (
            "root = math -> mask = ~mask\n    root = math"
        ),
        "This is the weight of the allowed keys. Return the weight of the masked keys.": (
            "fill(mask -> fill(~mask"
        ),
        "fill is added, so masked keys receive more weight. Subtract it.": "- amount -> + amount",
        "This is the sum over all queries. Return one value for each query.": [
            "return total -> return total.sum()",
            "return total -> return total.sum(dim=-1)",
        ],
        f"{OVERFLOW}first, or call torch.softmax, which does this.": (
            "lowered.softmax(dim=-1) -> lowered.exp() / lowered.exp().sum(-1, True)"
        ),
        "This is the mean over the masked keys. Return the sum of their weights.": (
            "return total -> return total / (~mask).sum(dim=-1)"
        ),
    },
    named=True,
    either_precision=True,
    tidy=in_32_bits,
)

RATIO, ODDS = "hidden / seen", "(1 - share) / share"
ENOUGH = Question(
    enough,
    {"the smallest sufficient fill": ""},
    enough_cases,
    {
        "A score can lie on either side of 0: masked scores may be +bound while allowed scores "
        "are -bound.": "2 * bound -> bound",
        "The scores are not considered. A masked score may be higher than the allowed ones.": (
            "gap + math -> math"
        ),
        "This is sufficient for the best scores. In the worst case, masked scores are as high as "
        "possible and allowed scores as low as possible.": "gap + math -> -gap + math",
        "The numbers of keys are not used. More masked keys receive more weight together, and more "
        "allowed keys leave less for them.": f"{RATIO} -> 1",
        "The number of masked keys is used, but the number of allowed keys is not.": (
            f"{RATIO} -> hidden"
        ),
        "The number of allowed keys is used, but the number of masked keys is not: the share is "
        "that of all masked keys together.": f"{RATIO} -> 1 / seen",
        "seen and hidden are exchanged.": f"{RATIO} -> seen / hidden",
        "This is the ratio of the masked to the allowed weight. The share is relative to all "
        "weight: masked / (masked + allowed).": f"{ODDS} -> 1 / share",
        "The odds are inverted: a smaller share needs a larger fill.": (
            f"{ODDS} -> share / (1 - share)"
        ),
        "This gives each masked key the share. All masked keys together may not receive more than "
        "it.": f"{RATIO} * {ODDS} -> (1 - hidden * share) / (seen * share)",
        "Before the scaling, fill must be √d_k times as large, not smaller by this factor.": (
            "fill * root -> fill / root"
        ),
        "The result is negative. If nothing has to be subtracted, return 0.": (
            "max(fill, 0.0) -> fill"
        ),
        "The bound is that of the scores before the scaling, so it is divided by √d_k too.": (
            "bound / root -> bound"
        ),
        "Before the scaling, fill is divided by √d_k as a whole. The whole value must be √d_k "
        "times as large, not only the part that depends on bound.": (
            "fill * root -> 2 * bound + math.log(odds)"
        ),
        "`before` is ignored or inverted.": [
            "if before -> if not before",
            "if before -> if False",
            "if before -> if True",
        ],
    },
    named=True,
)


# Part 5


def reached(model, ids, real, vocab_size):
    before = model(ids.unsqueeze(0), real.unsqueeze(0))
    found = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    for position in range(len(ids)):
        changed = ids.repeat(vocab_size, 1)
        changed[:, position] = torch.arange(vocab_size)
        change = model(changed, real.expand_as(changed)) - before
        found[:, position] = (change.abs() > 1e-4).any(dim=-1).any(dim=0)
    return found


def faults(reached, real):
    allowed = torch.ones_like(reached).tril() & real
    judged = real.unsqueeze(1)
    leaks = reached & ~allowed & judged
    missing = ~reached & allowed & judged
    return {"leaks": leaks.nonzero().tolist(), "missing": missing.nonzero().tolist()}


def box(kind: type, tokens: list[int], text: str, padding: int = 0, **given: Any) -> Case:
    return Case(
        {
            "model": Fresh(kind, given, text),
            "ids": torch.tensor(tokens),
            "real": torch.arange(len(tokens)) >= padding,
            "vocab_size": VOCAB,
        }
    )


CAUSAL = (FAR, 0)


def reached_cases(thorough: bool) -> Iterator[Case]:
    three, padded = [3, 1, 4], [0, 3, 1]
    yield box(Box, three, "a model", bands=(CAUSAL,))
    yield box(Total, [3, 3, 3], "a model with one output component")
    ahead = ((FAR, 1),)
    yield box(Late, [1, 2, 6, 3], "a model whose outputs all start with 1", bands=ahead)
    everything = ((FAR, FAR),)
    yield box(Normalised, three, "a model with normalised outputs", bands=everything)
    for token in (5, 0, VOCAB - 1):
        text = f"a model, token {token} influences all outputs"
        yield box(Trigger, three, text, heard=token)
    yield box(Whisper, three, "a model with small leaks", loud=6e-4)
    yield box(Whisper, three, "a model with rounding errors", loud=2e-5)
    two, one = [1.5e-4, 0.0, 0.0, 1.5e-4], [5e-4, 0.0, 0.0, 0.0]
    yield box(Trigger, three, "a model with a leak in two components", heard=5, loud=two)
    yield box(Trigger, three, "a model with a leak in one component", heard=5, loud=one)
    yield box(Trigger, three, "a model with changes of 0.00008", heard=5, loud=8e-5)
    up_and_down = [8e-5, 0.0, 0.0, 0.0]
    text = "a model with changes of 0.00008 and -0.00008"
    yield box(Trigger, [3, 2, 4], text, heard=1, against=0, loud=up_and_down)
    text = "a model with outputs near 50 and a leak of 0.0005"
    yield box(Trigger, three, text, heard=5, loud=5e-4, level=50.0)
    yield box(Box, padded, "a model with a padding mask", 1)
    yield box(Box, padded, "a model without a padding mask", 1, sees_padding=True)
    if thorough:
        yield box(Box, [2, 6, 1, 3, 4], "a model with two layers", bands=(CAUSAL, (FAR, 1)))
        narrow = ((1, 0), (1, 0))
        yield box(Normalised, [0, 0, 1, 3, 4], "a model with two narrow layers", 2, bands=narrow)
        yield box(Box, [4, 2], "a model", bands=((FAR, -1),))


def faults_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        ([[1, 1], [0, 0]], [True, True]),
        ([[1, 0, 0], [0, 1, 1], [1, 1, 1]], [True, True, False]),
        ([[0, 1, 1], [0, 0, 0], [1, 1, 1]], [False, True, True]),
        ([[1, 0, 0], [1, 0, 0], [0, 1, 1]], [True, True, True]),
        (torch.randint(0, 2, (5, 5)).tolist(), [False, True, True, True, False]),
    ]
    if thorough:
        asked += [(torch.randint(0, 2, (7, 7)).tolist(), [True] * 7), ([[1]], [True])]
    for matrix, words in asked:
        yield Case({"reached": torch.tensor(matrix).bool(), "real": torch.tensor(words)})


COMPARED, TOKENS = "change.abs()", "torch.arange(vocab_size)"
REACHED = Question(
    reached,
    {"the matrix of influences": ""},
    reached_cases,
    {
        "Rows and columns are exchanged: entry [i, j] is True if position j influences output i.": (
            "return found -> return found.T"
        ),
        "The mean, the sum or the norm of a change is compared with 0.0001. Compare each "
        "component separately.": [
            f"{COMPARED} -> {COMPARED}.{each}(dim=-1, keepdim=True)"
            for each in ("mean", "sum", "norm")
        ],
        "The components of an output are summed before they are compared, so that changes can "
        "cancel. Compare each component separately.": [
            f"{COMPARED} -> change.{each}(dim=-1, keepdim=True).abs()" for each in ("sum", "mean")
        ],
        "Only one component of an output is compared. Compare all of them.": [
            f"{COMPARED} -> change[..., {each}].abs()" for each in (":1", "-1:")
        ],
        "A single component that changes is enough: combine them with any.": (
            "any(dim=-1) -> all(dim=-1)"
        ),
        "A single token that changes an output is enough: compare the outputs for each token "
        "separately, and combine the tokens with any.": [
            "any(dim=0) -> all(dim=0)",
            f"{COMPARED} -> {COMPARED}.mean(dim=0, keepdim=True)",
            f"{COMPARED} -> change.mean(dim=0, keepdim=True).abs()",
        ],
        "The copies are compared with each other. Compare each with the output for the original "
        "sentence.": [
            f"{COMPARED} -> {each}"
            for each in (
                "change.diff(dim=0).abs()",
                "(change - change[:1]).abs()",
                "(change.amax(0) - change.amin(0)).unsqueeze(0)",
            )
        ],
        "The result is inverted: it must be True where a position influences an output.": (
            "return found -> return ~found"
        ),
        "Only increases are counted. A decrease is a change too: take the absolute difference.": (
            f"{COMPARED} -> change"
        ),
        "The threshold is not 0.0001. A component counts as changed if it differs by more than "
        "this; smaller differences are rounding errors. (For squared differences the threshold "
        "would be 0.00000001, and torch.allclose adds a relative tolerance.)": [
            f"1e-4 -> {another}"
            for another in (0.0, 1e-8, 1e-6, 1e-5, 1e-3, 1e-2, "1e-4 + 1e-5 * before.abs()")
        ],
        "One of the tokens is never tried. Try all tokens from 0 to vocab_size - 1.": [
            ("ids.repeat(vocab_size, -> ids.repeat(vocab_size - 1,", f"{TOKENS} -> {each}")
            for each in ("torch.arange(1, vocab_size)", "torch.arange(vocab_size - 1)")
        ],
        "Positions that were tried before are still changed. Start from the original sentence at "
        "each position.": [
            f"= {TOKENS} -> = {TOKENS}\n        changed[:, :position] = {each}"
            for each in ("vocab_size - 1", f"{TOKENS}.unsqueeze(1)")
        ],
        "Padding positions are left out. The question is whether their tokens matter: replace "
        "them as well, and pass `real` unchanged.": "return found -> return found & real",
        "`real` is changed. Pass it unchanged, also when the token of a padding position is "
        "replaced.": [
            "before = -> real = torch.ones_like(real)\n    before =",
            *(
                f"real.expand_as(changed) -> {each}"
                for each in (
                    "torch.ones_like(changed).bool()",
                    "(real | (torch.arange(len(ids)) == position)).expand_as(changed)",
                    "real & (changed != 0)",
                )
            ),
        ],
        "Only one other token decides at each position. Some tokens change nothing where another "
        "one does: combine the results of all tokens.": [
            f"{TOKENS} -> {each}"
            for each in (
                "(ids[position] + 1) % vocab_size",
                "(ids[position] - 1) % vocab_size",
                "0",
                "1",
                "vocab_size - 1",
                "(ids[position] == 0).long()",
            )
        ],
        "Later positions are assumed to have no influence. The question is whether they do: "
        "compare all outputs.": "return found -> return found.tril()",
    },
    named=True,
    in_all_cases=True,
    either_precision=True,
    tidy=in_32_bits,
)

FAULTS = Question(
    faults,
    {"the faults": ""},
    faults_cases,
    {
        "The outputs at padding positions are judged as well. They are not used: leave them out.": [
            "judged = real.unsqueeze(1) -> judged = torch.ones_like(reached)",
            "~allowed & judged -> ~allowed",
        ],
        "Padding that influences an output is a leak as well, before and after the position of the "
        "output.": [
            "~allowed & judged -> ~allowed & judged & real",
            "~allowed & judged -> (~allowed & judged).triu(1)",
            "~allowed & judged -> ~allowed & judged & (real | torch.ones_like(reached).triu(1))",
        ],
        "A position may influence its own output; only later positions may not.": (
            "tril() -> tril(-1)"
        ),
        "The next position is allowed. Only the position itself and earlier positions may "
        "influence an output.": "tril() -> tril(1)",
        "The pairs are inverted. Each pair is (output, position).": [
            (f"leaks{each[0]} -> leaks{each[1]}", f"missing{each[0]} -> missing{each[1]}")
            for each in ((".nonzero()", ".nonzero().flip(1)"), (".nonzero()", ".T.nonzero()"))
        ],
        "Leaks and missing pairs are exchanged.": (
            '"leaks": leaks -> "leaks": missing',
            '"missing": missing -> "missing": leaks',
        ),
        "Padding must not influence any output, so it is never missing.": (
            "~reached & allowed -> ~reached & torch.ones_like(reached).tril()"
        ),
    },
    named=True,
    in_all_cases=True,
    tidy=lambda found: {name: [tuple(pair) for pair in pairs] for name, pairs in found.items()},
)


# Part 6


def aim(x, target, share):
    words = len(target)
    score = math.log((words - 1) * share / (1 - share))
    aimed = score * torch.eye(words, dtype=x.dtype)[target]
    inverse = torch.linalg.pinv(x)
    w_q = inverse @ aimed * math.sqrt(words)
    w_k = inverse
    return w_q, w_k


STRENGTH, SCALE = "(words - 1) * share / (1 - share)", "math.sqrt(words)"
AIM = Question(
    aim,
    mistakes={
        "The attention divides the scores by √d_k, so the dot products must be √d_k times as "
        "large. d_k is the number of columns that you chose.": [
            f" * {SCALE} -> ",
            f"{SCALE} -> words",
            f"{SCALE} -> math.sqrt(x.shape[1])",
        ],
        "Queries and keys are exchanged, or a matrix is transposed: word i must attend to "
        "target[i].": ("return w_q, w_k -> return w_k, w_q"),
        "The target competes with words - 1 other words, each with exp(0) = 1. Its score must be "
        "higher by ln(words - 1) than for two words.": [
            f"{STRENGTH} -> share / (1 - share)",
            f"{STRENGTH} -> words * share / (1 - share)",
        ],
        "The shares are used as scores. The softmax exponentiates scores.": (
            f"math.log({STRENGTH}) -> share"
        ),
        "The logarithm of the share is its score here, but the scores of the others are 0.": (
            f"{STRENGTH} -> share"
        ),
        "The matrix that turns x into the identity is its pseudo-inverse, not its transpose.": (
            "torch.linalg.pinv(x) -> x.T"
        ),
        "gives its target the weight": "inverse @ aimed -> 10 * inverse @ aimed",
        "Word 0 attends most to word 0; expected word 1": "[target] -> [list(range(words))]",
        "These are queries and keys. Return the projections that compute them from x.": (
            "torch.linalg.pinv(x) -> torch.eye(words, dtype=x.dtype)"
        ),
    },
)


PARTS = {
    "one_word": [SCORES, LOOK],
    "masks": [MASK, BLIND],
    "attention": [ATTENTION],
    "finite": [LEAKED, ENOUGH],
    "leaks": [REACHED, FAULTS],
    "aim": [AIM],
}
"""The questions of each check, in the order of its arguments."""
