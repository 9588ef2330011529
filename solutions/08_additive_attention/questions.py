"""Additive attention as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Parts 1,
2, the second function of part 4 and of part 5, and part 6 are recorded. The others are examined by
code in `attentively.checks.additive_attention`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F  # noqa: F401  for the edits
from torch import Tensor, nn

from attentively.checks.question import Case, Question
from attentively.metrics import alignment_error_rate

LOWEST = "Use the lowest finite value, torch.finfo(scores.dtype).min."
OVERFLOW = (
    "On this input, the exponential of a score is infinite in 32-bit floats. Subtract the largest "
    "score of each row before the exponential, as torch.softmax does."
)


def random(*sizes: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*sizes)


def ragged(batch: int, src_len: int) -> Tensor:
    """Return a padding mask of sentences of different lengths, each of at least one word."""
    lengths = torch.tensor([1 + (11 * row + 1) % src_len for row in range(batch)])
    return torch.arange(src_len) < lengths.unsqueeze(1)


def last_row_empty(batch: int, src_len: int) -> Tensor:
    mask = ragged(batch, src_len)
    mask[-1] = False
    return mask


def learning(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs, with gradients required of all but masks."""
    return {
        name: value if value.dtype == torch.bool else value.clone().requires_grad_()
        for name, value in inputs.items()
    }


# Part 1


def energies(query, keys, W, U, v):
    projected_query = (query @ W.T).unsqueeze(1)
    projected_keys = keys @ U.T
    scores = torch.tanh(projected_query + projected_keys) @ v
    return scores


def energy_inputs(batch: int, src_len: int, query_dim: int, key_dim: int, hidden: int) -> dict:
    return {
        "query": random(batch, query_dim),
        "keys": random(batch, src_len, key_dim),
        "W": random(hidden, query_dim, scale=0.7),
        "U": random(hidden, key_dim, scale=0.7),
        "v": random(hidden),
    }


def energy_cases(thorough: bool) -> Iterator[Case]:
    by_hand = {
        "query": torch.tensor([[1.0]]),
        "keys": torch.tensor([[[0.0], [1.0], [-1.5]]]),
        "W": torch.tensor([[0.5]]),
        "U": torch.tensor([[1.0]]),
        "v": torch.tensor([2.0]),
    }
    two_components = {
        "query": torch.tensor([[1.0, -1.0]]),
        "keys": torch.tensor([[[0.5, 0.0], [0.0, 2.0], [1.0, 1.0]]]),
        "W": torch.tensor([[0.5, 0.2], [0.1, 0.7]]),
        "U": torch.tensor([[0.4, -0.3], [0.9, 0.2]]),
        "v": torch.tensor([1.0, -2.0]),
    }
    as_many_keys_as_sentences = {
        "query": torch.tensor([[0.2], [1.0]]),
        "keys": torch.tensor([[[1.0], [-1.0]], [[0.5], [0.0]]]),
        "W": torch.tensor([[1.0]]),
        "U": torch.tensor([[0.5]]),
        "v": torch.tensor([1.0]),
    }
    for inputs in (by_hand, two_components, as_many_keys_as_sentences):
        yield Case(inputs)
    yield Case(energy_inputs(2, 3, 5, 7, 11))
    yield Case(learning(energy_inputs(2, 3, 5, 7, 11)))
    yield Case({n: 20 * value for n, value in energy_inputs(2, 5, 3, 7, 3).items()})
    if thorough:
        for sizes in [(7, 5, 3, 2, 13), (1, 1, 2, 3, 5), (5, 2, 13, 11, 3), (3, 17, 7, 5, 2)]:
            yield Case(energy_inputs(*sizes))


# Mistakes in the line of the scores, which parts 1 and 4 have in common
SUM = "torch.tanh(projected_query + projected_keys) @ v"
TWO_TANH = (
    "The tanh is applied twice, to W s and to U h separately. Add W s and U h first, then "
    "apply one tanh to the sum."
)
SCALED = "The scores are divided by √hidden_dim. Additive attention does not scale its scores."
IN_THE_SCORES = {
    "The product with v is inside the tanh: these values are tanh(v·(W s + U h)). Apply "
    "the tanh first and multiply by v afterwards: v·tanh(W s + U h).": (
        f"{SUM} -> torch.tanh((projected_query + projected_keys) @ v)"
    ),
    "The product with v is averaged over the hidden dimension, so the scores are too small by "
    "the factor hidden_dim. Sum it: `torch.tanh(...) @ v`.": f"{SUM} -> {SUM} / len(v)",
    "W s and U h are multiplied. The equation adds them.": (
        f"{SUM} -> torch.tanh(projected_query * projected_keys) @ v"
    ),
    "The activation function is a sigmoid. The equation has a tanh.": "torch.tanh -> torch.sigmoid",
    "The activation function is a ReLU. The equation has a tanh.": "torch.tanh -> torch.relu",
    "v is missing: these values are the plain sums of tanh(W s + U h) over the hidden "
    "dimension. Weight its entries by v: `torch.tanh(...) @ v`.": "@ v -> @ torch.ones_like(v)",
    SCALED: f"{SUM} -> {SUM} / len(v) ** 0.5",
}

ENERGIES = Question(
    energies,
    {"scores": "Return one score for each key of each sentence: (batch, src_len)."},
    energy_cases,
    {
        "The tanh is missing: these values are v·(W s + U h).": "torch.tanh( -> (",
        **IN_THE_SCORES,
        TWO_TANH: (
            "(query @ W.T) -> (query @ W.T).tanh()",
            "keys @ U.T -> (keys @ U.T).tanh()",
            "torch.tanh( -> (",
        ),
        "These values are attention weights: a softmax is already applied. Return the scores "
        "before the softmax.": "return scores -> return scores.softmax(dim=-1)",
        "A softmax over the batch (dim=0) is already applied. Return the scores before the "
        "softmax.": "return scores -> return scores.softmax(dim=0)",
        "The query is missing: these values are v·tanh(U h).": (
            "projected_query + projected_keys -> projected_keys"
        ),
        "W and U are exchanged: W multiplies the query s, and U multiplies the keys h.": (
            "query @ W.T -> query @ U.T",
            "keys @ U.T -> keys @ W.T",
        ),
        "W must be transposed. Its shape is (hidden_dim, query_dim) and each query is a row, so "
        "W s is `query @ W.T`.": "W.T -> W",
        "U must be transposed. Its shape is (hidden_dim, key_dim) and each key is a row, so "
        "U h is `keys @ U.T`.": "U.T -> U",
        "W and U must both be transposed, because queries and keys are rows: `query @ W.T` and "
        "`keys @ U.T`.": ("W.T -> W", "U.T -> U"),
        "Key j is scored with the query of sentence j instead of the query of its own sentence: "
        "broadcasting aligns the batch dimension of W s with the key dimension (src_len) of U h. "
        "Insert a dimension of size 1 for the keys: (query @ W.T).unsqueeze(1).": (
            "(query @ W.T).unsqueeze(1) -> query @ W.T"
        ),
        "Every sentence is scored with the query of the first sentence (index 0).": (
            "query @ W.T -> query[:1] @ W.T"
        ),
    },
)


# Part 2


class AdditiveAttention(nn.Module):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, keys, mask=None):
        projected_query = self.query_projection(query).unsqueeze(1)
        projected_keys = self.key_projection(keys)
        scores = self.energy(torch.tanh(projected_query + projected_keys)).squeeze(-1)
        if mask is None:
            mask = torch.ones_like(scores, dtype=torch.bool)
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1) * mask
        context = (weights.unsqueeze(-1) * keys).sum(dim=1)
        return context, weights


# v, and three keys, for W = 0.5, U = 1 and the query -1. With the last key masked: in the first
# case its score is about 40 above the others, in the second every score is below -130. In the
# third, without a mask, every score is above 130.
HARD_TO_MASK = [(20.0, (-1.5, -2.0, 3.0)), (150.0, (-1.5, -1.45, -1.6))]
LARGE_SCORES = (150.0, (3.0, 2.9, 2.5))
WITHOUT_A_MASK = "In this call mask is None: no position is masked."
NAN = (
    " One sentence of this input is fully masked. The softmax of a row of -inf is NaN, and "
    "replacing this NaN afterwards does not remove it from the gradient. Use the lowest finite "
    "value, torch.finfo(scores.dtype).min."
)


def attention_cases(thorough: bool) -> Iterator[Case]:
    made = {"query_dim": 1, "key_dim": 1, "hidden_dim": 1}
    names = ("query_projection.weight", "key_projection.weight", "energy.weight")

    def by_hand(inputs: dict[str, Tensor], v: float = 2.0) -> Case:
        weights = {n: torch.tensor([[x]]) for n, x in zip(names, (0.5, 1.0, v), strict=True)}
        return Case(inputs, made, weights, note="" if "mask" in inputs else WITHOUT_A_MASK)

    query = torch.tensor([[1.0], [-1.0]])
    keys = torch.tensor([[[0.0], [1.0], [-1.5]], [[2.0], [0.5], [0.25]]])
    mask = torch.tensor([[True, True, False], [False, True, True]])
    yield by_hand({"query": query, "keys": keys})
    yield by_hand({"query": query, "keys": keys, "mask": mask})
    yield by_hand({"query": query[:1], "keys": keys[:1]})
    yield by_hand({"query": query, "keys": keys[:, :1]})
    v, values = LARGE_SCORES
    yield by_hand({"query": query[1:], "keys": torch.tensor([[[h] for h in values]])}, v)
    for v, values in HARD_TO_MASK:
        hard = {"query": query[1:], "keys": torch.tensor([[[h] for h in values]])}
        yield by_hand(hard | {"mask": torch.tensor([[True, True, False]])}, v)

    def of_size(batch: int, src_len: int, *dims: int) -> Case:
        made = dict(zip(("query_dim", "key_dim", "hidden_dim"), dims, strict=True))
        weights = AdditiveAttention(*dims).state_dict()
        inputs = {"query": random(batch, dims[0]), "keys": random(batch, src_len, dims[1])}
        return Case(inputs, made, weights)

    case, empty = of_size(2, 3, 5, 7, 11), last_row_empty(2, 3)
    yield replace(case, note=WITHOUT_A_MASK)
    for mask in (ragged(2, 3), torch.rand(2, 3) < 0.6):
        yield replace(case, inputs={**case.inputs, "mask": mask})
    yield replace(case, inputs=learning({**case.inputs, "mask": empty}), nan=NAN)
    made = {"query_dim": 3, "key_dim": 2, "hidden_dim": 5}
    inputs = learning({"query": random(2, 3), "keys": random(2, 4, 2), "mask": ragged(2, 4)})
    yield Case(inputs, made, AdditiveAttention(3, 2, 5).state_dict(), results=("context",))
    for size in [(3, 3, 2, 5, 7), (7, 5, 3, 2, 13), (1, 1, 2, 3, 5)] * thorough:
        case = of_size(*size)
        yield replace(case, inputs={**case.inputs, "mask": last_row_empty(*size[:2])})


SOFTMAX = "scores.softmax(dim=-1)"
FILL = "scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)"
NOT_FILLED = f"{FILL} -> pass"
NOT_MULTIPLIED = " * mask -> "
NO_MASK = "dtype=torch.bool)"
SUM_UP = "(weights.unsqueeze(-1) * keys).sum(dim=1)"
TOO_HIGH = (
    "The value that replaces the masked scores is not low enough: on this input all other scores "
    f"are lower. {LOWEST} (If you compute the softmax with exp, subtract the largest score first.)"
)
SHARED_OUT_LATE = (
    "The weights are masked and normalised again after the softmax. On this input the masked key "
    "has by far the highest score, so the softmax leaves the other keys weights too small to be "
    "normalised again. Mask the scores before the softmax."
)

ATTENTION = Question(
    AdditiveAttention,
    {
        "context": "Return one vector for each sentence: (batch, key_dim).",
        "weights": "Return one weight for each key of each sentence: (batch, src_len).",
    },
    attention_cases,
    {
        TOO_HIGH: "torch.finfo(scores.dtype).min -> -100.0",
        SHARED_OUT_LATE: (
            NOT_FILLED,
            f"{SOFTMAX} * mask -> F.normalize({SOFTMAX} * mask, 1, -1, eps=1e-9)",
        ),
        "The mask is ignored: {masked_weight}": (NOT_FILLED, NOT_MULTIPLIED),
        "The masked positions receive all of the weight: the mask is inverted, or the value "
        "that replaces the masked scores is positive. True marks the positions that *may* be "
        "attended to, so fill where ~mask is True, with the lowest finite value.": (
            f"{NO_MASK} -> {NO_MASK}\n        else:\n            mask = ~mask"
        ),
        "The mask is applied after the softmax, so the weights no longer sum to 1: the weight "
        "of the masked positions is lost. Mask the scores before the softmax.": NOT_FILLED,
        "The scores of masked positions are close to 0 before the softmax (filled with 0 or "
        "1e-9, or multiplied by the mask). A score of 0 still receives weight, because exp(0) = 1. "
        "Replace these scores by the lowest finite value, torch.finfo(scores.dtype).min.": [
            "torch.finfo(scores.dtype).min -> 0.0",
            ("torch.finfo(scores.dtype).min -> 0.0", NOT_MULTIPLIED),
        ],
        "The mask is added to the scores as 1 or 0, which does not exclude any position. Use "
        "scores.masked_fill(~mask, ...) or torch.where.": (
            f"{FILL} -> scores = scores + mask.float()",
            NOT_MULTIPLIED,
        ),
        "Every sentence is masked with the mask of the first sentence (index 0).": (
            f"{NO_MASK} -> {NO_MASK}\n        mask = mask[:1].expand_as(mask)"
        ),
        "As many positions are masked as the mask excludes, but always the last ones. A mask may "
        "exclude any position: use its entries, not only their number.": (
            f"{NO_MASK} -> {NO_MASK}\n        mask = mask.sort(dim=1, descending=True).values"
        ),
        "The weights are normalised over the batch instead of over the keys: softmax is "
        "applied along the wrong dimension (dim=0). Use dim=-1.": (
            "softmax(dim=-1) -> softmax(dim=0)"
        ),
        "Every weight is 1: softmax is applied along a dimension of size 1. Remove the last "
        "dimension of the scores with .squeeze(-1) before the softmax.": (
            f"{SOFTMAX} * mask -> torch.ones_like(scores)"
        ),
        ".squeeze() without an argument removes every dimension of size 1: here also the batch "
        "or the keys, of which there is only one. Name the dimension: .squeeze(-1).": (
            ".squeeze(-1) -> .squeeze()"
        ),
        "The softmax is missing: these values are scores, not attention weights.": (
            f"{SOFTMAX} * mask -> scores"
        ),
        "The softmax is applied twice. Apply it once, to the scores.": (
            f"{SOFTMAX} * mask -> ({SOFTMAX} * mask).softmax(dim=-1)"
        ),
        "These values are logarithms of the weights. Use softmax instead of log_softmax.": (
            f"{SOFTMAX} * mask -> scores.log_softmax(dim=-1)"
        ),
        "A sigmoid is applied to each score, so the weights of a sentence do not sum to 1. Use "
        "softmax over the keys.": f"{SOFTMAX} -> scores.sigmoid()",
        OVERFLOW: f"{SOFTMAX} -> scores.exp() / scores.exp().sum(dim=-1, keepdim=True)",
        "Every key receives the same weight, whatever its score. Apply the softmax to the "
        "scores.": f"{SOFTMAX} * mask -> torch.full_like(scores, 1 / scores.size(1))",
        "The tanh is missing from the scores. Without it the query has no influence on the "
        "weights.": "torch.tanh( -> (",
        "The query has no influence on the weights: it is left out of the scores, or the tanh is "
        "applied twice, to W s and to U h separately, so that the softmax cancels the term of the "
        "query. Add W s and U h first, then apply one tanh to the sum.": (
            "projected_query + projected_keys -> projected_keys"
        ),
        SCALED: ".squeeze(-1) -> .squeeze(-1) / self.energy.in_features ** 0.5",
        "The context is a weighted sum of the projected keys U h. Sum the keys themselves (the "
        "encoder outputs h).": f"{SUM_UP} -> (weights.unsqueeze(-1) * projected_keys).sum(dim=1)",
        "The context is the unweighted sum of the keys. Multiply each key by its weight first.": (
            f"{SUM_UP} -> keys.sum(dim=1)"
        ),
        "The context is the unweighted mean of the keys. Multiply each key by its weight and "
        "sum.": f"{SUM_UP} -> keys.mean(dim=1)",
        "The context is only the key with the largest weight. Compute the weighted sum of all "
        "keys.": f"{SUM_UP} -> keys[torch.arange(len(keys)), weights.argmax(dim=1)]",
        "The weighted keys are averaged, so the context is too small by the factor src_len. "
        "The weights already sum to 1: use .sum(dim=1) instead of .mean(dim=1).": (
            ".sum(dim=1) -> .mean(dim=1)"
        ),
        "The weighted keys are not summed. The context is one vector for each sentence: sum "
        "over the keys (dim=1).": ".sum(dim=1) -> ",
    },
    look=("weights", "context"),
)


# Part 3, examined by code: the check measures both costs


def numbers_kept(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    return batch * tgt_len * src_len * hidden_dim


def multiplications(batch, src_len, tgt_len, query_dim, key_dim, hidden_dim, keys_once):
    times_projected = 1 if keys_once else tgt_len
    query_products = batch * tgt_len * hidden_dim * query_dim
    key_products = batch * src_len * hidden_dim * key_dim * times_projected
    score_products = batch * tgt_len * src_len * hidden_dim
    context_products = batch * tgt_len * src_len * key_dim
    return query_products + key_products + score_products + context_products


KEPT = Question(
    numbers_kept,
    mistakes={
        "too small by the factor tgt_len": "tgt_len * src_len -> src_len",
        "too small by the factor hidden_dim": " * hidden_dim -> ",
        "the tanh outputs a different number of values": "tgt_len * src_len -> (tgt_len + src_len)",
        "Count values, not bytes": "return batch -> return 4 * batch",
        "has the factor key_dim instead of hidden_dim": "src_len * hidden_dim -> src_len * key_dim",
        "Expected numbers_kept as an int": "return batch -> return float(batch) ",
        "is there a `return`?": "return batch -> batch",
    },
)
MULTIPLICATIONS = Question(
    multiplications,
    mistakes={
        "but keys_once=True means once per sentence": "1 if keys_once else tgt_len -> tgt_len",
        "but keys_once=False means once per target position": "1 if keys_once else tgt_len -> 1",
        "the multiplications of the product with v are not counted": " + score_products -> ",
        "of the weighted sum of the keys are not counted": " + context_products -> ",
        "Count multiplications only": (
            "return query_products + key_products + score_products + context_products -> "
            "return 2 * (query_products + key_products + score_products + context_products)"
        ),
        "too small by the factor batch": (
            "    times_projected -> \n    batch = 1\n    times_projected"
        ),
        "weighted sum of the keys has the factor hidden_dim instead of key_dim": (
            "src_len * key_dim\n -> src_len * hidden_dim\n"
        ),
        "the count for the product with v is too large by the factor hidden_dim": (
            "src_len * hidden_dim\n -> src_len * hidden_dim * hidden_dim\n"
        ),
        "not the number of multiplications of the four": (
            "return query_products -> "
            "return (batch - 1) * tgt_len - (batch - 1) * key_products // batch + query_products"
        ),
        "the count for W s is too large by the factor src_len": (
            "hidden_dim * query_dim -> hidden_dim * query_dim * src_len"
        ),
    },
)


# Part 4


def true_statements():
    return {"B", "D", "H"}


STATEMENTS = Question(
    true_statements,
    mistakes={
        "these statements are true of a correct attention": '{"B", "D", "H"} -> {*"ADEFGH"}',
        "1 of the statements A, B, C is judged wrongly": '{"B", "D", "H"} -> {*"ABDH"}',
        "1 of the statements D, E is judged wrongly": '{"B", "D", "H"} -> {*"BDEH"}',
        "1 of the statements F, G, H is judged wrongly": '{"B", "D", "H"} -> {"B", "D"}',
        "must return a set of letters from A to H": [
            '{"B", "D", "H"} -> ["B and D", "H"]',
            '{"B", "D", "H"} -> torch.tensor([False, True])',
        ],
    },
)


def mended_attention(queries, keys, mask, W, U, v):
    projected_query = (queries @ W.T).unsqueeze(2)
    projected_keys = (keys @ U.T).unsqueeze(1)
    scores = torch.tanh(projected_query + projected_keys) @ v
    mask = mask.unsqueeze(1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1) * mask
    contexts = weights @ keys
    return contexts, weights


def target_inputs(
    batch: int, tgt_len: int, src_len: int, query_dim: int, key_dim: int, hidden_dim: int
) -> dict[str, Tensor]:
    inputs = {
        "queries": random(batch, tgt_len, query_dim),
        "keys": random(batch, src_len, key_dim),
        "mask": torch.ones(batch, src_len, dtype=torch.bool),
        "W": random(hidden_dim, query_dim),
        "U": random(hidden_dim, key_dim),
        "v": random(hidden_dim),
    }
    return {
        name: value if name == "mask" else value.round(decimals=1) + 0.0  # not -0.0
        for name, value in inputs.items()
    }


def mended_cases(thorough: bool) -> Iterator[Case]:
    """Yield one property after the other, first with inputs small enough to be shown."""
    sizes = [(2, 2, 3, 1, 1, 2), (2, 3, 5, 7, 11, 13)]
    if thorough:
        sizes += [(3, 3, 2, 5, 7, 11), (5, 2, 7, 3, 11, 2), (1, 7, 3, 2, 5, 3)]
    for place, each in enumerate(sizes):
        if place < 2:
            yield Case(target_inputs(*each), stage="weights sum to 1 without a mask", results=())
            yield Case(target_inputs(*each), stage="weights depend on the query", results=())
        stage, weights = "weights without a mask", ("weights",)
        said = (
            "The weights sum to 1 and depend on the query, but they are not the softmax of v·tanh(W"
            " s + U h). Check the scores."
        )
        if place < 2:
            yield Case(target_inputs(*each), stage=stage, results=weights, general=said)
        if place == 0:
            hard = hard_inputs(*LARGE_SCORES)
            yield Case(hard, stage=stage, results=weights, general=said)
        stage, inputs = "weights with a mask", target_inputs(*each)
        mask = ragged(*inputs["mask"].shape)
        said = (
            "With a mask the weights sum to 1, but they are not the softmax of the scores of the "
            "positions that are not masked."
        )
        yield Case(inputs | {"mask": mask}, stage=stage, results=weights, general=said)
        said = (
            "The weights are wrong where the mask is False at the first positions of a sentence. "
            "A mask may exclude any position, not only the last ones: use its entries, not only "
            "their number."
        )
        stage, flipped = "masks at any position", inputs | {"mask": mask.flip(1)}
        yield Case(flipped, stage=stage, results=weights, general=said)
        stage = "masks and large scores"
        hard_masks = zip((SHARED_OUT_LATE, TOO_HIGH), HARD_TO_MASK, strict=True)
        for said, (strength, words) in hard_masks if place == 0 else ():
            hard = hard_inputs(strength, words) | {"mask": torch.tensor([[True, True, False]])}
            yield Case(hard, stage=stage, results=weights, general=said)
        said = (
            "The weights are correct, but the contexts are not the sums of the keys with these "
            "weights."
        )
        if place < 2:
            inputs = target_inputs(*each) | {"mask": mask}
            yield Case(inputs, stage="contexts", results=("contexts",), general=said)
        empty = {"mask": last_row_empty(*mask.shape)}
        yield Case(target_inputs(*each) | empty, stage="fully masked sentences")
        if place == 0:  # of larger inputs, finite differences are less exact
            inputs = target_inputs(*each)
            yield Case(learning(inputs), stage="gradients", results=("contexts",))
            yield Case(learning(inputs | empty), stage="gradients", results=(), nan=NAN)


def hard_inputs(strength: float, words: tuple[float, ...]) -> dict[str, Tensor]:
    return {
        "queries": torch.tensor([[[-1.0], [-0.5]]]),
        "keys": torch.tensor([[[h] for h in words]]),
        "mask": torch.ones(1, len(words), dtype=torch.bool),
        "W": torch.tensor([[0.5]]),
        "U": torch.tensor([[1.0]]),
        "v": torch.tensor([strength]),
    }


CORRECTED = Question(
    mended_attention,
    {
        "contexts": "Return one vector for each target position: (batch, tgt_len, key_dim).",
        "weights": "Return one weight for each pair of target and source position: (batch, "
        "tgt_len, src_len).",
    },
    mended_cases,
    {
        **IN_THE_SCORES,
        OVERFLOW: f"{SOFTMAX} -> scores.exp() / scores.exp().sum(dim=-1, keepdim=True)",
        "The contexts are too small by the factor src_len: the weighted keys are averaged "
        "instead of summed.": "weights @ keys -> weights @ keys / keys.size(1)",
        "The contexts are too small by the factor tgt_len: the weighted keys are averaged "
        "instead of summed.": "weights @ keys -> weights @ keys / queries.size(1)",
    },
    look=("weights", "contexts"),
)


# Part 5: the parameters set by hand are examined by code


def by_hand():
    W = torch.tensor([[2.0], [2.0]])
    U = torch.tensor([[2.0, -2.0], [2.0, 2.0]])
    v = torch.tensor([3.0, -3.0])
    return W, U, v


BY_HAND = Question(
    by_hand,
    mistakes={
        "W is zero, so the query has no influence": "[[2.0], [2.0]] -> [[0.0], [0.0]]",
        "but less than 0.9": "[3.0, -3.0] -> [1.0, -1.0]",
        "Reverse the sign of v": "[3.0, -3.0] -> [-3.0, 3.0]",
        "both queries prefer the same key": (
            "[[2.0], [2.0]] -> [[3.0], [1.0]]",
            "[[2.0, -2.0], [2.0, 2.0]] -> [[3.0, 0.0], [-1.0, 0.0]]",
            "[3.0, -3.0] -> [3.0, 1.0]",
        ),
        "The shape of W of by_hand is (1, 2), expected (2, 1)": "return W -> return W.T",
        "both queries assign the same weights": (
            "[[2.0], [2.0]] -> [[0.1], [0.2]]",
            "[[2.0, -2.0], [2.0, 2.0]] -> [[1.0, 1.0], [1.0, 0.5]]",
            "[3.0, -3.0] -> [9.0, 9.0]",
        ),
    },
)


def query_dependence(scores):
    weights = scores.softmax(dim=-1)
    changes = weights.max(dim=0).values - weights.min(dim=0).values
    return changes.max().item()


CHANGES = "weights.max(dim=0).values - weights.min(dim=0).values"
NOT_LARGEST = "the result is not the largest change of a weight between two queries."
ALL_PAIRS = "Compare every pair of queries: the maximum minus the minimum over all queries."


def dependence_cases(thorough: bool) -> Iterator[Case]:
    # The scores are logarithms of chosen weights, so the expected value can be read off.
    weights = torch.tensor([[0.3, 0.5, 0.15, 0.05], [0.25, 0.125, 0.225, 0.4]])
    yield Case({"scores": weights.log()}, general=NOT_LARGEST)
    # A linear score is a term of the query plus a term of the key.
    linear = torch.tensor([[0.5], [-2.0], [3.0]]) + torch.tensor([[1.0, 0.0, -1.0, 2.0]])
    same = (
        "in this input each query adds the same constant to the scores of all keys, so no weight "
        "changes. Compare the weights instead of the scores."
    )
    yield Case({"scores": linear}, general=same)
    weights = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4], [0.9, 0.1], [0.75, 0.25]])
    yield Case({"scores": weights.log() + 7}, general=f"{NOT_LARGEST} {ALL_PAIRS}")
    yield Case({"scores": weights.log() + 200}, general=NOT_LARGEST)
    if thorough:
        row = torch.tensor([[0.05, 0.25, 0.3, 0.4]])
        single = "with a single query no weight changes, so the result is 0."
        yield Case({"scores": row.log()}, general=single)
        more = torch.cat([row, row.roll(1, 1), row.roll(2, 1)])
        yield Case({"scores": more.log() - 3}, general=NOT_LARGEST)


DEPENDENCE = Question(
    query_dependence,
    {"query dependence": ""},
    dependence_cases,
    {
        "the changes of all keys are summed. Return the largest change only.": (
            "changes.max() -> changes.sum()"
        ),
        "the result is the mean of the changes. Return the largest change.": (
            "changes.max() -> changes.mean()"
        ),
        "a weight may decrease or increase. Take the absolute value of the change.": (
            f"{CHANGES} -> weights[-1] - weights[0]"
        ),
        "the result is a change of the scores. Apply the softmax over the keys first: scores may "
        "change while the weights stay the same.": [
            f"{SOFTMAX} -> scores",
            (f"{SOFTMAX} -> scores", f"{CHANGES} -> weights[0] - weights[-1]"),
        ],
        "the result is the difference between the weights of different keys. Compare the "
        "weights of the same key over the queries (dim=0).": (
            "max(dim=0) -> max(dim=-1)",
            "min(dim=0) -> min(dim=-1)",
        ),
        "the softmax is applied over the queries (dim=0). Apply it over the keys (dim=-1).": (
            "softmax(dim=-1) -> softmax(dim=0)"
        ),
        f"only the first query is compared with the others. {ALL_PAIRS}": (
            f"{CHANGES} -> (weights - weights[0]).abs()"
        ),
        f"only the first and the last query are compared. {ALL_PAIRS}": (
            f"{CHANGES} -> (weights[-1] - weights[0]).abs()"
        ),
        f"only neighbouring queries are compared. {ALL_PAIRS}": (
            f"{CHANGES} -> weights.diff(dim=0).abs()"
        ),
        f"{OVERFLOW[0].lower()}{OVERFLOW[1:]}": (
            f"{SOFTMAX} -> scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"
        ),
    },
    named=True,
)


# Part 6


def links(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(dim=1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


LARGEST = "words.max(dim=1, keepdim=True).values"


def planted(src_len: int, tgt_len: int, threshold: float) -> Tensor:
    """Return weights with several links a row, in which <end> may receive the most."""
    weights = torch.zeros(tgt_len + 1, src_len + 1)
    for i in range(tgt_len):
        best = (2 * i + 1) % src_len
        for j in range(src_len):
            linked = (i + j) % 3 == 0
            share = threshold + (1 - threshold) * 0.4 if linked else threshold * 0.98
            weights[i, j] = 1.0 if j == best else share
        weights[i, -1] = 1.5
    weights[-1, 0] = 1.0
    return weights / weights.sum(dim=1, keepdim=True)


def links_cases(thorough: bool) -> Iterator[Case]:
    by_hand = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.1, 0.1, 0.1, 0.7]])
    yield Case({"weights": by_hand, "threshold": 0.5})
    tied = percents("20 0 20 60 / 10 20 30 40 / 10 10 10 70")
    for threshold in (1.0, 0.0):
        yield Case({"weights": tied, "threshold": threshold})
    sizes = [(5, 3, 0.5)]
    if thorough:
        sizes += [(2, 7, 0.3), (11, 5, 0.7), (1, 2, 0.9), (3, 3, 1.0)]
    for src_len, tgt_len, threshold in sizes:
        yield Case({"weights": planted(src_len, tgt_len, threshold), "threshold": threshold})


LINKS = Question(
    links,
    {"links": ""},
    links_cases,
    {
        "the order of each pair is reversed: a link is (source index, target index).": (
            "{(j, i) -> {(i, j)"
        ),
        "links to or from <end> are included. <end> is not a word: remove the last row and the "
        "last column.": [f"[:-1, :-1] -> {kept}" for kept in ("[:, :]", "[:-1]", "[:, :-1]")],
        "the largest weight of each row is taken with <end> included. Remove the last row and "
        "the last column first.": "words.max -> weights[:-1].max",
        "the weights are compared with threshold times the largest of all weights. Take the "
        "largest weight of each row: .max(dim=1, keepdim=True).values.": (
            f"{LARGEST} -> words.max()"
        ),
        "the weights are compared with the largest weight of their column (source word). Take "
        "the largest weight of each row (target word): .max(dim=1, keepdim=True).values.": (
            "dim=1 -> dim=0"
        ),
        "the weights are compared with the threshold itself. Compare them with the threshold "
        "times the largest weight of their row.": f"threshold * {LARGEST} -> threshold",
        "the weights of each row are normalised again and compared with the threshold itself. "
        "Compare them with the threshold times the largest weight of their row.": (
            "words >= -> words / words.sum(dim=1, keepdim=True) >=",
            f"threshold * {LARGEST} -> threshold",
        ),
        "only the source word with the largest weight is linked to each target word. Link every "
        "source word whose weight is at least threshold times that weight.": (
            f"threshold * {LARGEST} -> {LARGEST}"
        ),
        "links are missing: {missing}. A source word is linked if its weight is at least (>=) "
        "threshold times the largest weight of the row, also if both are equal.": ">= -> >",
    },
    named=True,
)


def experiment(validation, test, thresholds):
    def rate(examples, threshold):
        predicted = [links(weights, threshold) for weights, _ in examples]
        return alignment_error_rate(predicted, [gold for _, gold in examples])

    best = min(thresholds, key=lambda threshold: rate(validation, threshold))
    return best, rate(test, best)


def percents(rows: str) -> Tensor:
    return torch.tensor([[int(number) for number in row.split()] for row in rows.split("/")]) / 100


def example(weights: str, gold: str) -> tuple[Tensor, set[tuple[int, int]]]:
    """Parse rows of weights, one for each target word, in percent, and links as src-tgt."""
    pairs = (link.split("-") for link in gold.split())
    return percents(weights), {(int(src), int(tgt)) for src, tgt in pairs}


THRESHOLDS = (1.0, 0.8, 0.6, 0.4, 0.2)

# Each row is a target word; the last row and the last column are <end>. Constructed so that every
# known mistake leads to another result.
CORPORA = [
    (
        [
            example(
                "2 1 50 45 2 / 12 2 40 2 44 / 2 1 28 40 29 / "
                "40 2 1 20 37 / 40 2 2 36 20 / 35 50 1 1 13",
                "0-3 0-4 2-0 2-1 2-2 3-2 3-4",
            ),
            example("45 50 5 / 28 40 32", "1-0"),
            example("40 1 20 39 / 15 50 2 33 / 40 1 36 23", "0-0 1-1"),
        ],
        [
            example(
                "25 1 50 24 / 40 28 1 31 / 2 40 20 38 / 2 45 50 3 / 50 1 25 24",
                "0-0 0-1 1-1 1-2 1-3 2-0 2-2 2-3",
            ),
            example("40 2 2 2 12 42 / 20 40 1 2 2 35 / 1 2 50 1 35 11", "0-0 0-1 1-1"),
        ],
    ),
    (
        [
            example(
                "50 35 2 2 11 / 2 25 50 2 21 / 1 45 1 50 3 / "
                "5 2 1 50 42 / 2 1 50 15 32 / 50 35 2 2 11",
                "0-0 1-0 1-2 2-1 2-4 3-2 3-3",
            ),
            example("28 40 32 / 28 40 32", "1-0"),
            example("50 25 2 23 / 50 1 35 14 / 35 50 2 13", "0-0 0-1 2-1"),
        ],
        [
            example(
                "40 1 20 39 / 20 2 40 38 / 40 12 1 47 / 50 1 15 34 / 36 2 40 22",
                "0-0 0-1 0-2 0-3 1-2 2-0 2-1 2-3",
            ),
            example("2 2 2 12 40 42 / 2 2 40 28 1 27 / 50 45 2 2 1 0", "2-1 3-0 3-1 4-0"),
        ],
    ),
]


def random_corpus(generator: torch.Generator, sentences: int) -> list:
    """Return sentences of two to four words with random weights and links."""

    def whole(low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator)

    corpus = []
    for _ in range(sentences):
        src_len, tgt_len = int(whole(2, 5)), int(whole(2, 5))
        weights = whole(1, 50, tgt_len + 1, src_len + 1).float()
        weights = (weights / weights.sum(1, keepdim=True) * 100).round() / 100
        linked = torch.rand(tgt_len, src_len, generator=generator) < 0.4
        gold = {(j, i) for i, j in linked.nonzero().tolist()}
        corpus.append((weights, gold or {(0, 0)}))
    return corpus


def experiment_cases(thorough: bool) -> Iterator[Case]:
    said = (
        "the threshold is not the one with the lowest alignment error rate on the validation "
        "sentences, in one call of alignment_error_rate with all of them."
    )
    for validation, test in CORPORA[: 2 if thorough else 1]:
        inputs = {"validation": validation, "test": test, "thresholds": THRESHOLDS}
        yield Case(inputs, general=said)
        # With a single threshold there is no choice, although its error rate is 1.
        second_largest = [example("50 30 20 / 40 40 20", "1-0")]
        single = {"validation": second_largest, "thresholds": (1.0,)}
        yield Case(inputs | single, general=said)
    # The first of 2,500 seeds with which most mistakes lead to a result of their own, above all
    # the choice on one sentence.
    generator = torch.Generator().manual_seed(2002)
    inputs = {"validation": random_corpus(generator, 3), "test": random_corpus(generator, 2)}
    yield Case(inputs | {"thresholds": THRESHOLDS[::-1]}, general=said)


CHOSEN = "rate(validation, threshold))"
REPORTED = "return best, rate(test, best)"
OPTIMISTIC = (
    "the test sentences took part in the choice of the threshold. Choose it on the validation "
    "sentences only: an error rate on data that took part in the choice is too optimistic."
)
MEAN_OF_VALIDATION = "sum(rate([each], threshold) for each in validation))"
MEAN_OF_TEST = "sum(rate([each], best) for each in test) / len(test)"

EXPERIMENT = Question(
    experiment,
    {"threshold and rate": ""},
    experiment_cases,
    {
        OPTIMISTIC: [
            f"{CHOSEN} -> rate(test, threshold))",
            f"{CHOSEN} -> rate([*validation, *test], threshold))",
        ],
        "your threshold minimises the mean of the error rates of single sentences. Minimise the "
        "error rate of the whole corpus instead: one call of alignment_error_rate with all "
        "validation sentences.": [
            f"{CHOSEN} -> {MEAN_OF_VALIDATION}",
            (f"{CHOSEN} -> {MEAN_OF_VALIDATION}", f"{REPORTED} -> return best, {MEAN_OF_TEST}"),
        ],
        "the threshold is correct, but the rate is the mean of per-sentence error rates. Compute "
        "the rate of the whole corpus: one call of alignment_error_rate with all test "
        "sentences.": f"{REPORTED} -> return best, {MEAN_OF_TEST}",
        "the threshold is correct, but the rate is the one of the validation sentences, on which "
        "the threshold was chosen. Return the rate of the test sentences.": (
            "rate(test, best) -> rate(validation, best)"
        ),
        "this threshold has the highest error rate on the validation sentences. Choose the "
        "lowest: it is an error rate.": "min( -> max(",
        "the threshold is chosen on a single validation sentence. Choose it on all of them: one "
        "call of alignment_error_rate with all validation sentences.": [
            f"{CHOSEN} -> rate(validation[{one}], threshold))" for one in (":1", "-1:")
        ],
        "the threshold is correct, but the rate is that of a single test sentence. Return the "
        "rate of all of them: one call of alignment_error_rate with all test sentences.": [
            f"rate(test, best) -> rate(test[{one}], best)" for one in (":1", "-1:")
        ],
        "the two results are in the wrong order: `return threshold, rate`.": (
            f"{REPORTED} -> return rate(test, best), best"
        ),
        "the first result is not one of the given thresholds. Choose one of the entries of the "
        "argument thresholds (not its index, and not a constant in your code).": [
            f"{REPORTED} -> return thresholds.index(best), rate(test, best)",
            "min(thresholds, -> min((0.2, 0.4, 0.6, 0.8, 1.0),",
        ],
    },
    named=True,
    in_all_cases=True,
)


def least_looked_at(weights):
    return weights[:-1, :-1].sum(dim=0).argmin().item()


def least_cases(thorough: bool) -> Iterator[Case]:
    # The sums, the largest and the smallest weights, with and without <end>, each select another
    # word.
    looked_at = percents(
        "8 26 2 10 26 4 17 7 / 3 7 32 31 15 3 2 7 / 36 6 3 1 23 4 24 3 / "
        "12 10 4 21 4 36 6 7 / 8 17 28 10 3 8 10 16"
    )
    said = "this source word does not have the smallest total weight."
    yield Case({"weights": looked_at}, general=said)
    for shift in (3, 4, 6) if thorough else (3,):
        turned = torch.cat([looked_at[:, :-1].roll(shift, dims=1), looked_at[:, -1:]], dim=1)
        yield Case({"weights": turned}, general=said)
    # The second target word assigns most of its weight to <end>, so its other weights are small.
    # The total of the last source word is farther from 1 than the smallest total.
    rows = "50 25 8 7 10 / 1 3 7 1 88 / 1 1 1 95 2 / 1 1 1 95 2 / 20 20 20 20 20"
    yield Case({"weights": percents(rows)}, general=said)


WORDS = "weights[:-1, :-1]"
LEAST = Question(
    least_looked_at,
    {"source word": ""},
    least_cases,
    {
        "this is the index of <end>, which is not a word: remove the last column.": (
            f"{WORDS} -> weights[:-1]"
        ),
        "the last row is included. It belongs to <end>, which is not a word: remove it.": (
            f"{WORDS} -> weights[:, :-1]"
        ),
        "this source word has the largest total weight. Return the one with the smallest: "
        "argmin.": "argmin -> argmax",
        "the weights are summed over the source words, for each target word. Sum over the target "
        "words, for each source word (dim=0).": "dim=0 -> dim=1",
        "this source word has the smallest single weight. Sum the weights of each source word "
        "first.": "sum(dim=0) -> min(dim=0).values",
        "this source word has the smallest maximum weight. Sum the weights of each source word "
        "instead, without the last column.": "sum(dim=0) -> max(dim=0).values",
        "{number} is not the index of a source word: there are {words}. Sum over the target "
        "words (dim=0) before you take the argmin.": ".sum(dim=0) -> ",
        "the result does not depend on the weights. Compute it from the argument.": (
            "return weights -> return 2 or weights"
        ),
        "the rows are normalised again after <end> is removed. Sum the weights as they are: a "
        "target word that attends mostly to <end> attends little to the words.": (
            f"{WORDS} -> ({WORDS} / {WORDS}.sum(dim=1, keepdim=True))"
        ),
    },
    named=True,
    in_all_cases=True,
)


PARTS = {
    "energies": [ENERGIES],
    "attention": [ATTENTION],
    "predictions": [KEPT, MULTIPLICATIONS],
    "bug_hunt": [STATEMENTS, CORRECTED],
    "why_tanh": [BY_HAND, DEPENDENCE],
    "alignment": [LINKS, EXPERIMENT, LEAST],
}
"""The questions of each check, in the order of its arguments."""
