"""Checks of the assignment on additive attention.

Parts 1 and 2 rebuild functions of the package and are compared with the package. Parts 3 to 6 are
original problems, and this module contains no solution to them: their inputs are constructed from
a known answer, or the expected value is measured, or its properties are tested one by one.
"""

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attentively.attention import additive
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_tensor,
    in_32_bits,
    once_solved,
    plain_number,
    plain_tensor,
    show,
)
from attentively.checks.trained_translator import MODEL, expect_same_translations
from attentively.data import toy
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import PAD_ID, target_ids

__all__ = [
    "alignment",
    "an_example",
    "attention",
    "bug_hunt",
    "energies",
    "examples",
    "once_solved",
    "predictions",
    "progress",
    "ready",
    "why_tanh",
]

SENTENCES = (
    "the cat drinks the milk",
    "the girl does not see the white horse",
    "the animal did not cross the street because it was too tired",
    "the animal did not cross the street because it was too wide",
    "my uncle hears the small dog and the queen opens the door",
)

Inputs = Mapping[str, Tensor]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Translate one sentence, to show that the package, its trained model and the checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"to “{translation.text}”. The set-up is complete.")


def examples(split: str, num_pairs: int) -> list[tuple[Tensor, set[tuple[int, int]]]]:
    """Return the trained model's attention weights in toy sentence pairs, with the gold links.

    The decoder is given the gold translation (teacher forcing), so that row i of the weights
    belongs to target word i. Sentences have one or two clauses.
    """
    return [
        (weights, set(pair.alignment))
        for pair, weights in _with_weights(toy.load(split, num_pairs, clauses=(1, 2)))
    ]


def an_example() -> tuple[toy.ToyPair, Tensor]:
    """Return one toy sentence pair with the trained model's attention weights."""
    return _with_weights([toy.translate(SENTENCES[2])])[0]


def _with_weights(pairs: Sequence[toy.ToyPair]) -> list[tuple[toy.ToyPair, Tensor]]:
    model, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    src = pad([src_tokenizer.encode(pair.src_text) for pair in pairs], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, pair.tgt_text) for pair in pairs], PAD_ID)
    with torch.no_grad():
        memory = model.encode(src)
        output = model.decode(tgt[:, :-1], memory, need_weights=True)
    assert output.weights is not None  # the trained model attends
    return [
        (pair, weights[: len(pair.tgt) + 1, : len(pair.src) + 1])
        for pair, weights in zip(pairs, output.weights, strict=True)
    ]


def _random(*sizes: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*sizes)


# Part 1


def _energies(query: Tensor, keys: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return torch.tanh((query @ W.T).unsqueeze(1) + keys @ U.T) @ v


def _softmaxed(query: Tensor, keys: Tensor, W: Tensor, U: Tensor, v: Tensor) -> Tensor:
    return _energies(query, keys, W, U, v).softmax(dim=-1)


_ENERGY_TWINS = (
    Twin(
        "The tanh is missing: these values are v·(W s + U h).",
        lambda s, h, W, U, v: ((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
    ),
    Twin(
        "The tanh is applied to the whole expression: these values are tanh(v·(W s + U h)). Apply "
        "the tanh first and multiply by v afterwards: v·tanh(W s + U h).",
        lambda s, h, W, U, v: torch.tanh(((s @ W.T).unsqueeze(1) + h @ U.T) @ v),
    ),
    Twin(
        "The tanh is applied twice, to W s and to U h separately. Add W s and U h first, then "
        "apply one tanh to the sum.",
        lambda s, h, W, U, v: (torch.tanh(s @ W.T).unsqueeze(1) + torch.tanh(h @ U.T)) @ v,
    ),
    Twin(
        "These values are attention weights: a softmax is already applied. Return the scores "
        "before the softmax.",
        _softmaxed,
    ),
    Twin(
        "A softmax over the batch (dim=0) is already applied. Return the scores before the "
        "softmax.",
        lambda *inputs: _energies(*inputs).softmax(dim=0),
    ),
    Twin(
        "The product with v is averaged over the hidden dimension, so the scores are too small by "
        "the factor hidden_dim. Sum it: `torch.tanh(...) @ v`.",
        lambda s, h, W, U, v: _energies(s, h, W, U, v) / len(v),
    ),
    Twin(
        "The query is missing: these values are v·tanh(U h).",
        lambda s, h, W, U, v: torch.tanh(h @ U.T) @ v,
    ),
    Twin(
        "W s and U h are multiplied. The equation adds them.",
        lambda s, h, W, U, v: torch.tanh((s @ W.T).unsqueeze(1) * (h @ U.T)) @ v,
    ),
    Twin(
        "The activation function is a sigmoid. The equation has a tanh.",
        lambda s, h, W, U, v: torch.sigmoid((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
    ),
    Twin(
        "The activation function is a ReLU. The equation has a tanh.",
        lambda s, h, W, U, v: torch.relu((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
    ),
    Twin(
        "v is missing: these values are the plain sums of tanh(W s + U h) over the hidden "
        "dimension. Weight its entries by v: `torch.tanh(...) @ v`.",
        lambda s, h, W, U, v: _energies(s, h, W, U, torch.ones_like(v)),
    ),
    Twin(
        "W and U are exchanged: W multiplies the query s, and U multiplies the keys h.",
        lambda s, h, W, U, v: _energies(s, h, U, W, v),
    ),
    Twin(
        "W must be transposed. Its shape is (hidden_dim, query_dim) and each query is a row, so "
        "W s is `query @ W.T`.",
        lambda s, h, W, U, v: _energies(s, h, W.T, U, v),
    ),
    Twin(
        "U must be transposed. Its shape is (hidden_dim, key_dim) and each key is a row, so "
        "U h is `keys @ U.T`.",
        lambda s, h, W, U, v: _energies(s, h, W, U.T, v),
    ),
    Twin(
        "W and U must both be transposed, because queries and keys are rows: `query @ W.T` and "
        "`keys @ U.T`.",
        lambda s, h, W, U, v: _energies(s, h, W.T, U.T, v),
    ),
    Twin(
        "Key j is scored with the query of sentence j instead of the query of its own sentence: "
        "broadcasting aligns the batch dimension of W s with the key dimension (src_len) of U h. "
        "Insert a dimension of size 1 for the keys: (query @ W.T).unsqueeze(1).",
        lambda s, h, W, U, v: torch.tanh((s @ W.T) + h @ U.T) @ v,
    ),
    Twin(
        "Every sentence is scored with the query of the first sentence (index 0).",
        lambda s, h, W, U, v: _energies(s[:1].expand_as(s), h, W, U, v),
    ),
    Twin(
        "The scores are divided by √hidden_dim. Additive attention does not scale its scores.",
        lambda s, h, W, U, v: _energies(s, h, W, U, v) / W.size(0) ** 0.5,
    ),
)


def _energy_inputs(batch: int, src_len: int, query_dim: int, key_dim: int, hidden: int) -> Inputs:
    return {
        "query": _random(batch, query_dim),
        "keys": _random(batch, src_len, key_dim),
        "W": _random(hidden, query_dim, scale=0.7),
        "U": _random(hidden, key_dim, scale=0.7),
        "v": _random(hidden),
    }


@_parts.part(
    "energies",
    "energies",
    rebuilds=("attentively.attention.additive:AdditiveAttention",),
    step=True,
)
def energies(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(query, keys, W, U, v) -> scores``."""
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
    stages = [by_hand, two_components, as_many_keys_as_sentences, _energy_inputs(2, 3, 5, 7, 11)]
    if thorough:
        sizes = [(7, 5, 3, 2, 13), (1, 1, 2, 3, 5), (5, 2, 13, 11, 3), (3, 17, 7, 5, 2)]
        stages += [_energy_inputs(*each) for each in sizes]
        stages.append({n: 20 * value for n, value in _energy_inputs(2, 5, 3, 7, 3).items()})
    for inputs in stages:
        answer = call_twice(candidate, inputs)
        hint = "Return one score for each key of each sentence: (batch, src_len)."
        expect_equal(answer, _energies(*inputs.values()), "scores", inputs, _ENERGY_TWINS, hint)
    inputs = {name: x.requires_grad_() for name, x in _energy_inputs(2, 3, 5, 7, 11).items()}
    expect_gradients_through(candidate, inputs, inputs)


# Part 2


def _weights_of(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return weights if mask is None else weights * mask


class _Wrong(nn.Module):
    """Additive attention with one known mistake: a step that is replaced by a wrong one."""

    def __init__(
        self,
        right: additive.AdditiveAttention,
        scores: Callable[[Tensor, Tensor], Tensor] | None = None,
        weigh: Callable[..., Tensor] = _weights_of,
        sum_up: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.right, self.scores, self.weigh, self.sum_up = right, scores, weigh, sum_up

    def weights(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weights only: with a wrong shape, they may allow no context."""
        if self.scores:
            scores = self.scores(query, keys)
        else:
            W, U, v = _matrices(self.right)
            scores = _energies(query, keys, W, U, v)
        return self.weigh(scores, mask)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple:
        """Return the context and the weights, one of them wrong."""
        weights = self.weights(query, keys, mask)
        if self.sum_up:
            return self.sum_up(weights, keys), weights
        return torch.einsum("bs,bsd->bd", weights, keys), weights


def _matrices(module: additive.AdditiveAttention) -> tuple[Tensor, Tensor, Tensor]:
    return (
        module.query_projection.weight.detach(),
        module.key_projection.weight.detach(),
        module.energy.weight.detach().squeeze(0),
    )


def _weight_twins(right: additive.AdditiveAttention) -> list[Twin]:
    W, U, v = _matrices(right)

    def twin(
        diagnosis: str,
        scores: Callable[[Tensor, Tensor], Tensor] | None = None,
        weigh: Callable[..., Tensor] = _weights_of,
    ) -> Twin:
        return Twin(diagnosis, _Wrong(right, scores, weigh).weights)

    return [
        twin(
            "The weights are normalised over the batch instead of over the keys: softmax is "
            "applied along the wrong dimension (dim=0). Use dim=-1.",
            weigh=lambda scores, mask: scores.softmax(dim=0),
        ),
        twin(
            "Every weight is 1: softmax is applied along a dimension of size 1. Remove the last "
            "dimension of the scores with .squeeze(-1) before the softmax.",
            weigh=lambda scores, mask: torch.ones_like(scores),
        ),
        twin(
            ".squeeze() without an argument removes every dimension of size 1: here also the batch "
            "or the keys, of which there is only one. Name the dimension: .squeeze(-1).",
            weigh=lambda scores, mask: scores.squeeze().softmax(dim=-1),
        ),
        twin(
            "The softmax is missing: these values are scores, not attention weights.",
            weigh=lambda scores, mask: scores,
        ),
        twin(
            "The softmax is applied twice. Apply it once, to the scores.",
            weigh=lambda scores, mask: _weights_of(scores, mask).softmax(dim=-1),
        ),
        twin(
            "These values are logarithms of the weights. Use softmax instead of log_softmax.",
            weigh=lambda scores, mask: scores.log_softmax(dim=-1),
        ),
        twin(
            "A sigmoid is applied to each score, so the weights of a sentence do not sum to 1. Use "
            "softmax over the keys.",
            weigh=lambda scores, mask: torch.sigmoid(scores),
        ),
        twin(
            "Every key receives the same weight, whatever its score. Apply the softmax to the "
            "scores.",
            weigh=lambda scores, mask: torch.full_like(scores, 1 / scores.size(1)),
        ),
        twin(
            "The tanh is missing from the scores. Without it the query has no influence on the "
            "weights.",
            lambda s, h: ((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
        ),
        twin(
            "The tanh is applied twice, to W s and to U h separately. Add W s and U h first, then "
            "apply one tanh to the sum.",
            lambda s, h: (torch.tanh(s @ W.T).unsqueeze(1) + torch.tanh(h @ U.T)) @ v,
        ),
        twin(
            "The scores are divided by √hidden_dim. Additive attention does not scale its scores.",
            lambda s, h: _energies(s, h, W, U, v) / W.size(0) ** 0.5,
        ),
        twin(
            "Key j is scored with the query of sentence j instead of the query of its own "
            "sentence: broadcasting aligns the batch dimension of W s with the key dimension "
            "(src_len) of U h. Insert a dimension of size 1 for the keys: .unsqueeze(1).",
            lambda s, h: torch.tanh((s @ W.T) + h @ U.T) @ v,
        ),
    ]


_MASKED_WITH_ZERO = (
    "The scores of masked positions are close to 0 before the softmax (filled with 0 or 1e-9, or "
    "multiplied by the mask). A score of 0 still receives weight, because exp(0) = 1. Replace "
    "these scores by the lowest finite value, torch.finfo(scores.dtype).min."
)
_TOO_HIGH = (
    "The value that replaces the masked scores is not low enough: on this input all other scores "
    "are lower. Use the lowest finite value, torch.finfo(scores.dtype).min. (If you compute the "
    "softmax with exp, subtract the largest score first.)"
)
_SHARED_OUT_LATE = (
    "The weights are masked and normalised again after the softmax. On this input the masked key "
    "has by far the highest score, so the softmax leaves the other keys weights too small to be "
    "normalised again. Mask the scores before the softmax."
)


def _mask_twins(right: additive.AdditiveAttention, weights: object, mask: Tensor) -> list[Twin]:
    """Return the known mistakes with a mask; `weights` are the candidate's, to be quoted."""

    def twin(diagnosis: str, weigh: Callable[[Tensor, Tensor], Tensor]) -> Twin:
        return Twin(diagnosis, _Wrong(right, weigh=weigh).weights)

    return [
        # On ordinary scores the next three are right, so they are compared first on hard ones.
        twin(_TOO_HIGH, lambda scores, mask: scores.masked_fill(~mask, -100).softmax(dim=-1)),
        twin(
            _TOO_HIGH, lambda scores, mask: scores.masked_fill(~mask, -100).softmax(dim=-1) * mask
        ),
        twin(
            _SHARED_OUT_LATE,
            lambda scores, mask: F.normalize(scores.softmax(dim=-1) * mask, 1, -1, eps=1e-9),
        ),
        twin(
            f"The mask is ignored: {_most_masked(weights, mask)}",
            lambda scores, mask: scores.softmax(dim=-1),
        ),
        twin(
            "The masked positions receive all of the weight: the mask is inverted, or the value "
            "that replaces the masked scores is positive. True marks the positions that *may* be "
            "attended to, so fill where ~mask is True, with the lowest finite value.",
            lambda scores, mask: _weights_of(scores, ~mask),
        ),
        twin(
            "The mask is applied after the softmax, so the weights no longer sum to 1: the weight "
            "of the masked positions is lost. Mask the scores before the softmax.",
            lambda scores, mask: scores.softmax(dim=-1) * mask,
        ),
        twin(_MASKED_WITH_ZERO, lambda scores, mask: (scores * mask).softmax(dim=-1)),
        twin(_MASKED_WITH_ZERO, lambda scores, mask: (scores * mask).softmax(dim=-1) * mask),
        twin(
            "The mask is added to the scores as 1 or 0, which does not exclude any position. Use "
            "scores.masked_fill(~mask, ...) or torch.where.",
            lambda scores, mask: (scores + mask.float()).softmax(dim=-1),
        ),
        twin(
            "Every sentence is masked with the mask of the first sentence (index 0).",
            lambda scores, mask: _weights_of(scores, mask[:1].expand_as(mask)),
        ),
    ]


def _context_twins(right: additive.AdditiveAttention) -> list[Twin]:
    U = _matrices(right)[1]

    def twin(diagnosis: str, sum_up: Callable[[Tensor, Tensor], Tensor]) -> Twin:
        wrong = _Wrong(right, sum_up=sum_up)
        return Twin(diagnosis, lambda *inputs: wrong(*inputs)[0])

    return [
        twin(
            "The context is a weighted sum of the projected keys U h. Sum the keys themselves (the "
            "encoder outputs h).",
            lambda weights, keys: torch.einsum("bs,bsd->bd", weights, keys @ U.T),
        ),
        twin(
            "The context is the unweighted sum of the keys. Multiply each key by its weight first.",
            lambda weights, keys: keys.sum(dim=1),
        ),
        twin(
            "The context is the unweighted mean of the keys. Multiply each key by its weight and "
            "sum.",
            lambda weights, keys: keys.mean(dim=1),
        ),
        twin(
            "The context is only the key with the largest weight. Compute the weighted sum of all "
            "keys.",
            lambda weights, keys: keys[torch.arange(len(keys)), weights.argmax(dim=1)],
        ),
        twin(
            "The weighted keys are averaged, so the context is too small by the factor src_len. "
            "The weights already sum to 1: use .sum(dim=1) instead of .mean(dim=1).",
            lambda weights, keys: (weights.unsqueeze(-1) * keys).mean(dim=1),
        ),
        twin(
            "The weighted keys are not summed. The context is one vector for each sentence: sum "
            "over the keys (dim=1).",
            lambda weights, keys: weights.unsqueeze(-1) * keys,
        ),
    ]


# v, and three keys of which the last is masked, for W = 0.5, U = 1 and the query -1. In the first
# case the masked score is about 40 above the others, in the second every score is below -130.
_HARD_TO_MASK = [(20.0, (-1.5, -2.0, 3.0)), (150.0, (-1.5, -1.45, -1.6))]


@_parts.part(
    "AdditiveAttention",
    "AdditiveAttention",
    rebuilds=("attentively.attention.additive:AdditiveAttention",),
)
def attention(candidate: object, thorough: bool = False) -> None:
    """Check a class like `AdditiveAttention`, by itself and inside the trained model."""
    if isinstance(candidate, nn.Module):
        raise CheckFailed(
            "  AdditiveAttention is an instance. Pass the class itself: AdditiveAttention, "
            "without ()."
        )
    check_attention(candidate, thorough)


def check_attention(candidate: object, thorough: bool = False) -> None:
    """Check any attention class, including the package's own."""
    hand, right = _both(candidate, 1, 1, 1)
    with torch.no_grad():
        for parameter, value in zip(right.parameters(), (0.5, 1.0, 2.0), strict=True):
            parameter.fill_(value)
    hand.load_state_dict(right.state_dict())
    inputs: dict[str, Tensor] = {
        "query": torch.tensor([[1.0], [-1.0]]),
        "keys": torch.tensor([[[0.0], [1.0], [-1.5]], [[2.0], [0.5], [0.25]]]),
    }
    _compare(hand, right, inputs)
    inputs["mask"] = torch.tensor([[True, True, False], [False, True, True]])
    _compare(hand, right, inputs)
    _compare(hand, right, {"query": inputs["query"][:1], "keys": inputs["keys"][:1]})
    _compare(hand, right, {"query": inputs["query"], "keys": inputs["keys"][:, :1]})
    for v, keys in _HARD_TO_MASK:
        with torch.no_grad():
            right.energy.weight.fill_(v)
        hand.load_state_dict(right.state_dict())
        hard = {"query": torch.tensor([[-1.0]]), "keys": torch.tensor([[[h] for h in keys]])}
        _compare(hand, right, hard | {"mask": torch.tensor([[True, True, False]])})

    sizes = [(2, 3, 5, 7, 11)]
    if thorough:
        sizes += [(3, 3, 2, 5, 7), (7, 5, 3, 2, 13), (1, 1, 2, 3, 5), (5, 13, 11, 3, 2)]
    for batch, src_len, query_dim, key_dim, hidden in sizes:
        mine, right = _both(candidate, query_dim, key_dim, hidden)
        inputs = {"query": _random(batch, query_dim), "keys": _random(batch, src_len, key_dim)}
        _compare(mine, right, inputs)
        _compare(mine, right, inputs | {"mask": _ragged(batch, src_len)})
        if src_len > 1:
            _compare(mine, right, inputs | {"mask": torch.rand(batch, src_len) < 0.6})
        _expect_zeros_for_nothing(mine, inputs | {"mask": _last_row_empty(batch, src_len)})
        if batch > 1:
            _expect_gradients_of_attention(mine, inputs | {"mask": _last_row_empty(batch, src_len)})
    inputs = {"query": _random(2, 3).requires_grad_(), "keys": _random(2, 4, 2).requires_grad_()}
    asked = {**inputs, "mask": _ragged(2, 4)}
    mine, _ = _both(candidate, 3, 2, 5)
    for index in (0, 1):
        expect_gradients_through(mine, asked, inputs, lambda answer, index=index: answer[index])

    def put_in(model: Seq2Seq) -> None:
        theirs = cast(additive.AdditiveAttention, model.decoder.attention)
        W, U, _ = _matrices(theirs)
        sizes = {"query_dim": W.size(1), "key_dim": U.size(1), "hidden_dim": W.size(0)}
        mine = call(candidate, sizes)
        assert isinstance(mine, nn.Module)  # or an earlier stage would have said so
        mine.load_state_dict(theirs.state_dict())
        model.decoder.attention = mine.eval()

    expect_same_translations(put_in, SENTENCES, "attention")


def _both(
    candidate: object, query_dim: int, key_dim: int, hidden_dim: int
) -> tuple[nn.Module, additive.AdditiveAttention]:
    """Build the candidate and the package's attention with the same parameters."""
    sizes = {"query_dim": query_dim, "key_dim": key_dim, "hidden_dim": hidden_dim}
    mine = call(candidate, sizes)
    if not isinstance(mine, nn.Module):
        raise CheckFailed(
            "  AdditiveAttention must be a subclass of torch.nn.Module, but AdditiveAttention(...) "
            f"returned an instance of {type(mine).__name__}."
        )
    right = additive.AdditiveAttention(query_dim, key_dim, hidden_dim)
    _expect_parameters(mine, right, sizes)
    mine.load_state_dict(right.state_dict())
    return mine, right


def _expect_parameters(mine: nn.Module, right: nn.Module, sizes: Mapping[str, int]) -> None:
    found = {name: tuple(value.shape) for name, value in mine.state_dict().items()}
    wanted = {name: tuple(value.shape) for name, value in right.state_dict().items()}
    if found == wanted:
        return
    biased = sorted(name for name in found if name.endswith(".bias"))
    missing = sorted(set(wanted) - set(found))
    unknown = sorted(set(found) - set(wanted) - set(biased))
    lines = []
    if missing:
        lines.append(f"Your class lacks the parameter(s) {', '.join(missing)}.")
    if biased:
        names = ", ".join(biased)
        lines.append(
            f"Your class has the bias {names}. The equation has no bias: nn.Linear(..., "
            "bias=False)."
        )
    if unknown:
        lines.append(
            f"Your class has parameters that the trained model does not have: {', '.join(unknown)}."
        )
    for name in sorted(set(found) & set(wanted)):
        if found[name] != wanted[name]:
            turned = found[name] == wanted[name][::-1]
            advice = " nn.Linear(in_features, out_features) stores (out_features, in_features)."
            lines.append(
                f"The shape of {name} is {found[name]}, expected {wanted[name]}."
                + (advice if turned else "")
            )
    raise CheckFailed(
        "\n".join(f"  {line}" for line in lines)
        + "\n  The check loads trained parameters into your class, so it needs exactly these "
        f"parameters: {', '.join(f'{n} {s}' for n, s in wanted.items())}.\n" + describe(sizes)
    )


def _compare(mine: nn.Module, right: additive.AdditiveAttention, inputs: Inputs) -> None:
    try:
        with torch.no_grad():
            answer = call_twice(mine, inputs)
    except CheckFailed as failed:
        no_mask = "mask" not in inputs and "NoneType" in str(failed)
        note = "\n  In this call mask is None: no position is masked." if no_mask else ""
        raise CheckFailed(f"{failed}{note}") from None
    with torch.no_grad():
        expected_context, expected_weights = right(*inputs.values())
    context, weights = expect_pair(answer, ("context", "weights"), inputs)
    wanted = {"context": expected_context.shape, "weights": expected_weights.shape}
    _expect_order((context, weights), wanted, inputs)
    twins = _weight_twins(right)
    if "mask" in inputs:
        twins = _mask_twins(right, weights, inputs["mask"]) + twins
        if type(weights) is Tensor and weights.isnan().any() and inputs["mask"].any(1).all():
            raise CheckFailed(
                "  The weights contain NaN although no sentence is fully masked. Possible causes: "
                f"a softmax over -inf only, or a division by a sum of 0.\n{describe(inputs)}"
            )
        if (
            type(weights) is Tensor
            and weights.shape == expected_weights.shape
            and 0 < weights[~inputs["mask"]].abs().sum() < 0.01
        ):
            raise CheckFailed(
                "  The value that replaces the masked scores is not low enough: "
                f"{_most_masked(weights, inputs['mask'])} Use torch.finfo(scores.dtype).min.\n"
                + describe(inputs)
            )
    hint = "Return one weight for each key of each sentence: (batch, src_len)."
    if "mask" in inputs and type(weights) is Tensor and weights.isnan().any():
        _refuse_nan(inputs)
    expect_equal(weights, expected_weights, "weights", inputs, twins, hint)
    hint = "Return one vector for each sentence: (batch, key_dim)."
    expect_equal(context, expected_context, "context", inputs, _context_twins(right), hint)


def _most_masked(weights: object, mask: Tensor) -> str:
    """Name the masked position with the largest weight."""
    if type(weights) is not Tensor or weights.shape != mask.shape or mask.all():
        return "masked positions received weight, but must receive exactly 0."
    masked = weights.abs().masked_fill(mask, -1)
    row, position = divmod(int(masked.argmax()), mask.size(1))
    return (
        f"position {position} of sentence {row} is masked, but received weight "
        f"{weights[row, position]:.2g}. It must receive exactly 0."
    )


def _refuse_nan(inputs: Inputs) -> None:
    """Explain NaN in a fully masked sentence."""
    raise CheckFailed(
        "  A fully masked sentence (its mask is all False) gives NaN; its weights and its context "
        "must be 0. Possible causes: a softmax over -inf only, or a division by a sum of 0.\n"
        + describe(inputs)
    )


def _expect_order(
    answer: tuple[object, object], wanted: Mapping[str, torch.Size], inputs: Inputs
) -> None:
    """Refuse two results in the wrong order, where their shapes show it."""
    first, second = wanted.values()
    shapes = tuple(getattr(value, "shape", None) for value in answer)
    if first != second and shapes == (second, first):
        raise CheckFailed(
            f"  The two results are in the wrong order: return {', '.join(wanted)}.\n"
            + describe(inputs)
        )


def _ragged(batch: int, src_len: int) -> Tensor:
    """Return a padding mask of sentences of different lengths, each of at least one word."""
    lengths = torch.tensor([1 + (3 * row + 1) % src_len for row in range(batch)])
    return torch.arange(src_len) < lengths.unsqueeze(1)


def _last_row_empty(batch: int, src_len: int) -> Tensor:
    mask = _ragged(batch, src_len)
    mask[-1] = False
    return mask


def _expect_zeros_for_nothing(mine: nn.Module, inputs: Inputs) -> None:
    with torch.no_grad():
        answer = call(mine, inputs)
    pair = expect_pair(answer, ("context", "weights"), inputs)
    for what, value in zip(("weights", "context"), reversed(pair), strict=True):
        row = plain_tensor(value, what, inputs)[-1]
        if row.isnan().any():
            _refuse_nan(inputs)
        if row.count_nonzero():
            uniform = what == "weights" and torch.allclose(row, row.mean())
            raise CheckFailed(
                f"  The last sentence is fully masked (its mask is all False), but its {what} "
                f"{'are' if what == 'weights' else 'is'} not 0."
                + (
                    " Its scores are all equal, so the softmax assigns equal weights. Set the "
                    "masked weights to 0 after the softmax as well."
                    if uniform
                    else ""
                )
                + f"\n{describe(inputs)}\n  got         {show(row)}"
            )


def _expect_gradients_of_attention(mine: nn.Module, inputs: Inputs) -> None:
    inputs = {
        name: value if value.dtype == torch.bool else value.clone().requires_grad_()
        for name, value in inputs.items()
    }
    sources: dict[str, Tensor] = dict(mine.named_parameters())
    sources |= {name: inputs[name] for name in ("query", "keys")}
    nan = (
        " One sentence of this input is fully masked. The softmax of a row of -inf is NaN, and "
        "replacing this NaN afterwards does not remove it from the gradient. Use the lowest finite "
        "value, torch.finfo(scores.dtype).min."
    )
    expect_gradients_through(mine, inputs, sources, lambda answer: answer[0], nan)
    try:
        expect_gradients_through(mine, inputs, sources, lambda answer: answer[1], nan)
    except CheckFailed as failed:
        raise CheckFailed(f"  This concerns the returned weights.\n{failed}") from None


# Part 3


def _measure(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Run the package's attention for a whole target, and count.

    Returns the multiplications of each product, with U h at every step, and the number of values
    in all outputs of the tanh.
    """
    module = additive.AdditiveAttention(sizes["query_dim"], sizes["key_dim"], sizes["hidden_dim"])
    kept: list[int] = []
    module.energy.register_forward_hook(lambda _, inputs, output: kept.append(inputs[0].numel()))
    keys = _random(sizes["batch"], sizes["src_len"], sizes["key_dim"])
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        for query in _random(sizes["tgt_len"], sizes["batch"], sizes["query_dim"]):
            module(query, keys)
    name = type(module).__name__
    counts = {
        where: sum(flops.values()) // 2  # a multiplication and an addition each
        for where, flops in counter.get_flop_counts().items()
    }
    products = {
        "W s": counts[f"{name}.query_projection"],
        "U h": counts[f"{name}.key_projection"],
        "the product with v": counts[f"{name}.energy"],
    }
    products["the weighted sum of the keys"] = counts["Global"] - sum(products.values())
    return products, sum(kept)


def _whole_number(what: str, answer: object, inputs: Mapping[str, object]) -> int:
    if answer is None:
        raise CheckFailed(f"  {what} returned None: is there a `return`?\n{describe(inputs)}")
    if type(answer) is not int:
        raise CheckFailed(
            f"  {what} must return an int, but returned {show(answer)}, of type "
            f"{type(answer).__name__}. Multiply and add the sizes, which are "
            f"ints.\n{describe(inputs)}"
        )
    return answer


@_parts.part("cost", "numbers_kept", "multiplications")
def predictions(numbers_kept: object, multiplications: object, thorough: bool = False) -> None:
    """Compare two predicted costs with those measured in a run of the package's attention."""
    names = ("batch", "src_len", "tgt_len", "query_dim", "key_dim", "hidden_dim")
    numbers = [(1, 3, 2, 5, 7, 11), (2, 3, 5, 7, 11, 13)]
    if thorough:
        numbers += [(7, 2, 3, 5, 13, 11), (3, 5, 11, 13, 2, 7), (5, 17, 1, 2, 3, 7)]
    for each in numbers:
        _check_kept(numbers_kept, dict(zip(names, each, strict=True)))
    for each in numbers:
        for keys_once in (False, True):
            sizes = dict(zip(names, each, strict=True))
            _check_count(multiplications, sizes | {"keys_once": keys_once})


def _check_kept(numbers_kept: object, sizes: Mapping[str, int]) -> None:
    got = _whole_number("numbers_kept", call(numbers_kept, sizes), sizes)
    _, expected = _measure(sizes)
    if got != expected:
        diagnosis = " or ".join(_factors(got, expected, sizes))
        if got == 4 * expected:
            diagnosis = "the result is 4 times the measured one. Count values, not bytes"
        diagnosis = diagnosis or (
            "the tanh outputs a different number of values. Write down the shape of its output for "
            "one target position"
        )
        raise CheckFailed(_prediction("numbers_kept", diagnosis, sizes, got, expected))


def _check_count(multiplications: object, inputs: Mapping[str, int]) -> None:
    got = _whole_number("multiplications", call(multiplications, inputs), inputs)
    products, _ = _measure(inputs)
    every_step = sum(products.values())
    saved = products["U h"] - products["U h"] // inputs["tgt_len"]
    expected = every_step - saved if inputs["keys_once"] else every_step
    if got == expected:
        return
    if inputs["keys_once"]:
        products["U h"] -= saved
    off = {count: name for name, count in products.items()}
    diagnosis = ""
    if got == 2 * expected:
        diagnosis = "the result is twice the measured one. Count multiplications only, no additions"
    elif inputs["keys_once"] and got == every_step:
        diagnosis = (
            "U h is counted once per target position, but keys_once=True means once per sentence"
        )
    elif not inputs["keys_once"] and got == every_step - saved:
        diagnosis = (
            "U h is counted once per sentence, but keys_once=False means once per target position"
        )
    elif expected - got in off:
        diagnosis = f"the multiplications of {off[expected - got]} are not counted"
    elif got - expected in off:
        diagnosis = f"the multiplications of {off[got - expected]} are counted twice"
    else:
        diagnosis = " or ".join(
            _factors(got, expected, inputs) or _one_product_off(got - expected, products, inputs)
        )
    diagnosis = diagnosis or (
        "the result is not the number of multiplications of the four products. Write down, for "
        "each of them, its multiplications and how often it is computed"
    )
    raise CheckFailed(_prediction("multiplications", diagnosis, inputs, got, expected))


def _factors(got: int, expected: int, sizes: Mapping[str, int]) -> list[str]:
    """Name the dimensions whose sizes explain a wrong product: a missing, extra or wrong factor."""
    by_name = {name: size for name, size in sizes.items() if size > 1 and name != "keys_once"}
    found = []
    for name, size in by_name.items():
        if got * size == expected:
            found.append(f"the result is too small by the factor {name}")
        if got == expected * size:
            found.append(f"the result is too large by the factor {name}")
    pairs = itertools.permutations(by_name.items(), 2)
    found += [
        f"the result has the factor {other} instead of {name}"
        for (name, size), (other, instead) in pairs
        if expected % size == 0 and got == expected // size * instead
    ]
    return found


def _one_product_off(
    difference: int, products: Mapping[str, int], sizes: Mapping[str, int]
) -> list[str]:
    """Name each product and dimension by which the error of the sum can be explained."""
    return [
        factor.replace("the result", f"the count for {product}")
        for product, count in products.items()
        for factor in _factors(count + difference, count, sizes)
    ]


def _prediction(
    what: str, diagnosis: str, sizes: Mapping[str, int], got: int, expected: int
) -> str:
    return (
        f"  {what}: {diagnosis}.\n{describe(sizes)}\n"
        f"  got         {got:,}\n  measured    {expected:,}"
    )


# Part 4


@_parts.part("debugging", "true_statements", "mended_attention")
def bug_hunt(true_statements: object, candidate: object, thorough: bool = False) -> None:
    """Check the statements about the faulty attention, and each property of the corrected one."""
    _check_statements(true_statements)
    sizes = [(2, 2, 3, 1, 1, 2), (2, 3, 5, 7, 11, 13)]  # the first small enough to be shown
    if thorough:
        sizes += [(3, 3, 2, 5, 7, 11), (5, 2, 7, 3, 11, 2), (1, 7, 3, 2, 5, 3)]
    for each in sizes:
        examined: list[str] = []
        for symptom, examine in _SYMPTOMS.items():
            try:
                examine(candidate, _target_inputs(*each))
            except CheckFailed as failed:
                right = f"  Correct so far: {'; '.join(examined)}.\n" if examined else ""
                raise CheckFailed(f"{failed}\n{right}".rstrip("\n")) from None
            examined.append(symptom)


def _faulty_attention(
    queries: Tensor, keys: Tensor, mask: Tensor, W: Tensor, U: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what the function in the notebook returns; a test compares the two."""
    projected_queries = torch.tanh(queries @ W.T).unsqueeze(2)
    projected_keys = torch.tanh(keys @ U.T).unsqueeze(1)
    weights = torch.softmax((projected_queries + projected_keys) @ v, dim=1) * mask.unsqueeze(1)
    return (weights.detach().unsqueeze(-1) * keys.unsqueeze(1)).mean(dim=2), weights


def _statements_true_of(attention: Callable[..., tuple[Tensor, Tensor]]) -> set[str]:
    """Measure which statements of part 4 are true of an attention function."""
    inputs = _target_inputs(2, 3, 5, 7, 11, 13)
    queries, keys = inputs["queries"].requires_grad_(), inputs["keys"].requires_grad_()
    contexts, weights = attention(*inputs.values())
    mask = _ragged(2, 5)
    masked = attention(*(inputs | {"mask": mask}).values())[1].transpose(1, 2)
    contexts.square().sum().backward()
    sums = weights.sum(dim=2)
    true = {
        "A": torch.allclose(sums, torch.ones_like(sums)),
        "B": torch.allclose(weights, weights[:, :, :1].expand_as(weights)),
        "C": torch.allclose(weights, weights[:, :1].expand_as(weights)),
        "D": not masked[~mask].any(),
        "E": not torch.allclose(masked[mask], weights.transpose(1, 2)[mask]),
        "F": torch.allclose(contexts, weights @ keys, atol=1e-5),
        "G": queries.grad is not None and bool(queries.grad.any()),
        "H": keys.grad is not None and bool(keys.grad.any()),
    }
    return {letter for letter, holds in true.items() if holds}


_STATEMENTS = {
    "ABC": "With a mask that is all True, compare weights.sum(dim=2) with 1, the weights of the "
    "source positions (along dim=2), and those of the target positions (along dim=1). Use "
    "torch.allclose.",
    "DE": "Call faulty_attention twice, with a mask that is all True and with one that is not, and "
    "compare the weights.",
    "FGH": "Compare contexts with weights @ keys. For the gradients, pass queries and keys with "
    "requires_grad=True, call contexts.sum().backward() and look at .grad.",
}


def _check_statements(true_statements: object) -> None:
    answer = call(true_statements, {})
    named = list(answer) if isinstance(answer, set | frozenset | list | tuple | str) else [None]
    got = {each for each in named if type(each) is str}
    if len(got) < len(named) or not got <= set("ABCDEFGH"):
        raise CheckFailed(
            "  true_statements must return a set of letters from A to H, such as "
            f'{{"A", "B"}}, but returned {show(answer)}.'
        )
    expected = _statements_true_of(_faulty_attention)
    if got == set("ADEFGH"):
        raise CheckFailed(
            "  true_statements: these statements are true of a correct attention. Name those that "
            "are true of faulty_attention, before any correction."
        )
    for letters, how in _STATEMENTS.items():
        wrong = len((got ^ expected) & set(letters))
        if wrong:
            raise CheckFailed(
                f"  true_statements: {wrong} of the statements {', '.join(letters)} "
                f"{'is' if wrong == 1 else 'are'} judged wrongly: true but not named, or named but "
                f"false. {how}\n  got         {show(sorted(got))}"
            )


def _target_inputs(
    batch: int, tgt_len: int, src_len: int, query_dim: int, key_dim: int, hidden_dim: int
) -> dict[str, Tensor]:
    inputs = {
        "queries": _random(batch, tgt_len, query_dim),
        "keys": _random(batch, src_len, key_dim),
        "mask": torch.ones(batch, src_len, dtype=torch.bool),
        "W": _random(hidden_dim, query_dim),
        "U": _random(hidden_dim, key_dim),
        "v": _random(hidden_dim),
    }
    return {
        name: value if name == "mask" else value.round(decimals=1) for name, value in inputs.items()
    }


def _ask(candidate: object, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return contexts and weights, if they are tensors of the right shapes."""
    answer = call_twice(candidate, inputs)
    contexts, weights = expect_pair(answer, ("contexts", "weights"), inputs)
    queries, keys = inputs["queries"], inputs["keys"]
    batch, tgt_len = queries.shape[:2]
    wanted = {
        "contexts": torch.Size((batch, tgt_len, keys.size(2))),
        "weights": torch.Size((batch, tgt_len, keys.size(1))),
    }
    _expect_order((contexts, weights), wanted, inputs)
    plain_tensor(contexts, "contexts", inputs)
    weights = plain_tensor(weights, "weights", inputs)
    if weights.isnan().any() and not inputs["mask"].any(dim=1).all():
        _refuse_nan(inputs)
    return (
        expect_tensor(
            contexts,
            wanted["contexts"],
            "contexts",
            inputs,
            "Return one vector for each target position: (batch, tgt_len, key_dim).",
        ),
        expect_tensor(
            weights,
            wanted["weights"],
            "weights",
            inputs,
            "Return one weight for each pair of target and source position: (batch, tgt_len, "
            "src_len).",
        ),
    )


def _one_query_at_a_time(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Apply the package's attention, with one query per sentence, to each target position."""
    W, U, v = inputs["W"], inputs["U"], inputs["v"]
    module = additive.AdditiveAttention(W.size(1), U.size(1), W.size(0))
    for parameter, value in zip(module.parameters(), (W, U, v.unsqueeze(0)), strict=True):
        parameter.data = value
    with torch.no_grad():
        rows = [module(s, inputs["keys"], inputs["mask"]) for s in inputs["queries"].unbind(1)]
    return torch.stack([row[0] for row in rows], 1), torch.stack([row[1] for row in rows], 1)


def _examine_sums(candidate: object, inputs: Inputs) -> None:
    _, weights = _ask(candidate, inputs)
    sums = {dim: weights.sum(dim=dim) for dim in (2, 1, 0)}
    one = {
        dim: torch.allclose(total, torch.ones_like(total), atol=1e-4) for dim, total in sums.items()
    }
    if one[2]:
        return
    if not weights.count_nonzero():
        raise CheckFailed(
            "  All weights are 0, although no position is masked (the mask is all True): the mask "
            f"is inverted. True marks the positions that may be attended to.\n{describe(inputs)}"
        )
    normalised = {1: "target positions", 0: "sentences of the batch"}
    over = "".join(
        f" They sum to 1 over the {what} (dim={dim}): softmax is applied along the wrong dimension."
        for dim, what in normalised.items()
        if one[dim]
    )
    raise CheckFailed(
        "  The weights of a target position do not sum to 1 over the source positions, although no "
        f"position is masked.{over}\n{describe(inputs)}\n  got         sums {show(sums[2][0])} "
        "for the target positions of the first sentence"
    )


def _examine_queries(candidate: object, inputs: Inputs) -> None:
    _, weights = _ask(candidate, inputs)
    src_len = weights.size(2)
    if src_len > 1 and torch.allclose(weights, torch.full_like(weights, 1 / src_len), atol=1e-5):
        raise CheckFailed(
            f"  All weights are equal (1/{src_len}), although no position is masked (the mask is "
            "all True). Possible causes: the mask is inverted, or all scores are equal.\n"
            + describe(inputs)
        )
    if weights.size(1) > 1 and torch.allclose(
        weights, weights[:, :1].expand_as(weights), atol=1e-5
    ):
        raise CheckFailed(
            "  All target positions have the same weights: the weights do not depend on the query. "
            "The softmax cancels every term that is equal for all keys, so look at the line in "
            f"which query and key are combined.\n{describe(inputs)}"
        )


def _examine_weights(candidate: object, inputs: Inputs) -> None:
    _, weights = _ask(candidate, inputs)
    _, expected = _one_query_at_a_time(inputs)
    if torch.allclose(weights, expected, 1e-4, 1e-5):
        return
    arguments = [inputs[name] for name in ("keys", "W", "U", "v")]
    cause = "Check the scores."
    for twin in _ENERGY_TWINS:
        with contextlib.suppress(RuntimeError):  # these sizes may not allow this mistake
            scores = [twin.answer(query, *arguments) for query in inputs["queries"].unbind(1)]
            if torch.allclose(
                weights, torch.stack(cast(list[Tensor], scores), 1).softmax(-1), 1e-4, 1e-5
            ):
                cause = twin.diagnosis
                break
    raise CheckFailed(
        "  The weights sum to 1 and depend on the query, but they are not the softmax of v·tanh(W "
        f"s + U h). {cause}\n{describe(inputs)}\n"
        f"  got         {show(weights[0, 0])} for the first target position of the first sentence\n"
        f"  expected    {show(expected[0, 0])}"
    )


def _examine_mask(candidate: object, inputs: dict[str, Tensor]) -> None:
    batch, src_len = inputs["mask"].shape
    inputs |= {"mask": _ragged(batch, src_len)}
    mask = inputs["mask"].unsqueeze(1)
    _, weights = _ask(candidate, inputs)
    padded = weights.masked_fill(mask, 0).abs().max()
    if padded > 0:
        raise CheckFailed(
            f"  A masked position received weight {padded:.4g}, but must receive exactly 0.\n"
            f"{describe(inputs)}"
        )
    totals = weights.sum(dim=2)
    if not torch.allclose(totals, torch.ones_like(totals), atol=1e-4):
        raise CheckFailed(
            "  Masked positions receive no weight, but the weights of the other positions sum to "
            f"{totals.min():.4g} instead of 1: the weight of the masked positions is lost. Mask "
            "the scores before the softmax.\n"
            f"{describe(inputs)}"
        )
    _, expected = _one_query_at_a_time(inputs)
    if not torch.allclose(weights, expected, 1e-4, 1e-5):
        raise CheckFailed(
            "  With a mask the weights sum to 1, but they are not the softmax of the scores of the "
            f"positions that are not masked.\n{describe(inputs)}"
        )
    inputs |= {"mask": inputs["mask"].flip(1)}
    _, weights = _ask(candidate, inputs)
    _, expected = _one_query_at_a_time(inputs)
    if not torch.allclose(weights, expected, 1e-4, 1e-5):
        raise CheckFailed(
            "  The weights are wrong where the mask is False at the first positions of a sentence. "
            "A mask may exclude any position, not only the last ones: use its entries, not only "
            f"their number.\n{describe(inputs)}"
        )
    for diagnosis, (strength, words) in zip(
        (_SHARED_OUT_LATE, _TOO_HIGH), _HARD_TO_MASK, strict=True
    ):
        hard = {
            "queries": torch.tensor([[[-1.0], [-0.5]]]),
            "keys": torch.tensor([[[h] for h in words]]),
            "mask": torch.tensor([[True, True, False]]),
            "W": torch.tensor([[0.5]]),
            "U": torch.tensor([[1.0]]),
            "v": torch.tensor([strength]),
        }
        _, weights = _ask(candidate, hard)
        _, expected = _one_query_at_a_time(hard)
        if not torch.allclose(weights, expected, 1e-3, 1e-4):
            raise CheckFailed(
                f"  {diagnosis}\n{describe(hard)}\n"
                f"  got         {show(weights)}\n  expected    {show(expected)}"
            )


def _examine_contexts(candidate: object, inputs: dict[str, Tensor]) -> None:
    batch, src_len = inputs["mask"].shape
    inputs |= {"mask": _ragged(batch, src_len)}
    contexts, _ = _ask(candidate, inputs)
    expected, _ = _one_query_at_a_time(inputs)
    if torch.allclose(contexts, expected, 1e-4, 1e-5):
        return
    diagnosis = (
        "The weights are correct, but the contexts are not the sums of the keys with these weights."
    )
    for name, size in (("src_len", src_len), ("tgt_len", contexts.size(1))):
        if size > 1 and torch.allclose(contexts * size, expected, 1e-4, 1e-5):
            diagnosis = (
                f"The contexts are too small by the factor {name}: the weighted keys are averaged "
                "instead of summed."
            )
    raise CheckFailed(
        f"  {diagnosis}\n{describe(inputs)}\n  got         {show(contexts[0, 0][:5])} ...\n"
        f"  expected    {show(expected[0, 0][:5])} ..."
    )


def _examine_nothing(candidate: object, inputs: dict[str, Tensor]) -> None:
    batch, src_len = inputs["mask"].shape
    inputs |= {"mask": _last_row_empty(batch, src_len)}
    for what, value in zip(("contexts", "weights"), _ask(candidate, inputs), strict=True):
        if value[-1].count_nonzero():
            raise CheckFailed(
                f"  The {what} of a fully masked sentence (its mask is all False) are not 0. Set "
                f"the masked weights to 0 after the softmax as well.\n{describe(inputs)}"
            )


def _examine_gradients(candidate: object, inputs: dict[str, Tensor]) -> None:
    inputs = {
        name: value if value.dtype == torch.bool else value.clone().requires_grad_()
        for name, value in inputs.items()
    }
    sources = {name: inputs[name] for name in ("queries", "keys", "W", "U", "v")}
    expect_gradients_through(candidate, inputs, sources, lambda answer: answer[0])
    try:
        expect_gradients_through(candidate, inputs, sources, lambda answer: answer[1])
    except CheckFailed as failed:
        raise CheckFailed(f"  This concerns the returned weights.\n{failed}") from None
    inputs["mask"] = _last_row_empty(*inputs["mask"].shape)
    if len(inputs["mask"]) > 1:
        expect_gradients_through(
            candidate,
            inputs,
            sources,
            lambda answer: answer[0],
            " One sentence of this input is fully masked. The softmax of a row of -inf is NaN, and "
            "replacing this NaN afterwards does not remove it from the gradient. Use the lowest "
            "finite value, torch.finfo(scores.dtype).min.",
        )


_SYMPTOMS: dict[str, Callable[[object, dict[str, Tensor]], None]] = {
    "weights sum to 1 without a mask": _examine_sums,
    "weights depend on the query": _examine_queries,
    "weights without a mask": _examine_weights,
    "weights with a mask": _examine_mask,
    "contexts": _examine_contexts,
    "fully masked sentences": _examine_nothing,
    "gradients": _examine_gradients,
}


# Part 5

_QUERIES = torch.tensor([[1.0], [-1.0]])
_KEYS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
_ENOUGH = 0.9


@_parts.part("role of the tanh", "by_hand", "query_dependence")
def why_tanh(by_hand: object, query_dependence: object, thorough: bool = False) -> None:
    """Check parameters set by hand, and a measure of how strongly weights depend on the query."""
    _check_by_hand(by_hand)
    _check_dependence(query_dependence, thorough)


def _check_by_hand(by_hand: object) -> None:
    answer = call(by_hand, {})
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise CheckFailed(
            f"  by_hand must return three tensors, `return W, U, v`, but returned {show(answer)}."
        )
    shapes = {"W": (2, 1), "U": (2, 2), "v": (2,)}
    matrices = {}
    for (name, shape), value in zip(shapes.items(), answer, strict=True):
        if type(value) is Tensor and not value.is_floating_point():
            raise CheckFailed(
                f"  by_hand: {name} has the dtype {value.dtype}, expected torch.float32. Write the "
                "entries with a decimal point, as in torch.tensor([[1.0], [2.0]])."
            )
        matrices[name] = expect_tensor(in_32_bits(value), shape, f"{name} of by_hand", {})
    W, U, v = matrices.values()
    scores = _energies(_QUERIES, _KEYS.expand(2, 2, 2), W, U, v)
    weights = scores.softmax(dim=-1)
    on_match = weights.diagonal()
    if (on_match >= _ENOUGH).all():
        return
    table = (
        "    weights of    key +1   key -1\n"
        f"    query +1      {weights[0, 0]:6.3f}   {weights[0, 1]:6.3f}\n"
        f"    query -1      {weights[1, 0]:6.3f}   {weights[1, 1]:6.3f}\n"
        f"  expected    at least {_ENOUGH} where query and key have the same sign"
    )
    if torch.allclose(weights[0], weights[1], atol=1e-4):
        diagnosis = (
            "both queries assign the same weights. The sign of W s must decide which key has the "
            "higher score."
        )
        if not W.count_nonzero():
            diagnosis = "W is zero, so the query has no influence on the scores."
        elif not U[:, 1].count_nonzero():
            diagnosis = (
                "both queries assign the same weights. The second column of U is zero, so the "
                "constant 1 of the keys has no influence, and no solution exists. tanh is an odd "
                "function, so e(-s, -h) = -e(s, h). Therefore e(-1, +1) - e(-1, -1) equals "
                "e(+1, +1) - e(+1, -1): both queries prefer the same key, but one difference must "
                "be negative and the other positive. The second column of U acts as a bias: it "
                "moves the point at which the tanh changes its sign, so that this symmetry no "
                "longer holds."
            )
    elif (on_match > 0.5).all():
        diagnosis = (
            f"each query assigns more weight to the correct key, but less than {_ENOUGH}. Scale "
            "the entries of v up."
        )
    elif (on_match < 0.5).all():
        diagnosis = "each query assigns more weight to the wrong key. Reverse the sign of v."
    else:
        wrong = "+1" if on_match[0] <= 0.5 else "-1"
        diagnosis = (
            f"query {wrong} does not assign more weight to its own key; the other query does. "
            "Write down the two tanh values for each of the four pairs of query and key."
        )
    raise CheckFailed(f"  by_hand: {diagnosis}\n{table}")


def _check_dependence(query_dependence: object, thorough: bool) -> None:
    def measured(scores: Tensor) -> tuple[float, dict[str, Tensor]]:
        inputs = {"scores": scores}
        answer = call(query_dependence, inputs)
        number = plain_number(answer)
        if number is None:
            raise CheckFailed(
                f"  query_dependence must return one number (a float or a tensor with one entry), "
                f"but returned {show(answer)}.\n{describe(inputs)}"
            )
        return float(number), inputs

    def expect(scores: Tensor, value: float, mistakes: Mapping[float, str], fallback: str) -> None:
        got, inputs = measured(scores)
        if abs(got - value) < 1e-4:
            return
        named = [text for wrong, text in mistakes.items() if abs(got - wrong) < 1e-3]
        raise CheckFailed(
            f"  query_dependence: {(named or [fallback])[0]}\n{describe(inputs)}\n"
            f"  got         {got:.4g}\n  expected    {value:.4g}"
        )

    # The scores are logarithms of chosen weights, so the expected value is known.
    weights = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]])
    scores_compared = (
        "the result is a change of the scores. Apply the softmax over the keys first: scores may "
        "change while the weights stay the same."
    )
    not_largest = "the result is not the largest change of a weight between two queries."
    mistakes = {
        1.0: "the changes of all keys are summed. Return the largest change only.",
        0.25: "the result is the mean of the changes. Return the largest change.",
        0.35: "a weight may decrease or increase. Take the absolute value of the change.",
        2.079: scores_compared,
        1.609: scores_compared,
        0.45: "the result is the difference between the weights of different keys. Compare the "
        "weights of the same key over the queries (dim=0).",
        0.7778: "the softmax is applied over the queries (dim=0). Apply it over the keys (dim=-1).",
    }
    expect(weights.log(), 0.4, mistakes, not_largest)
    # A linear score is a term of the query plus a term of the key.
    linear = torch.tensor([[0.5], [-2.0], [3.0]]) + torch.tensor([[1.0, 0.0, -1.0, 2.0]])
    fallback = (
        "in this input each query adds the same constant to the scores of all keys, so no weight "
        "changes. Compare the weights instead of the scores."
    )
    expect(linear, 0.0, {}, fallback)
    weights = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4], [0.9, 0.1], [0.75, 0.25]])
    all_pairs = "Compare every pair of queries: the maximum minus the minimum over all queries."
    mistakes = {
        0.4: f"only the first query is compared with the others. {all_pairs}",
        0.25: f"only the first and the last query are compared. {all_pairs}",
        0.3: f"only neighbouring queries are compared. {all_pairs}",
    }
    expect(weights.log() + 7, 0.5, mistakes, f"{not_largest} {all_pairs}")
    if thorough:
        row = torch.tensor([[0.05, 0.25, 0.3, 0.4]])
        expect(row.log(), 0.0, {}, "with a single query no weight changes, so the result is 0.")
        more = torch.cat([row, row.roll(1, 1), row.roll(2, 1)])
        expect(more.log() - 3, 0.35, {}, not_largest)


# Part 6

Example = tuple[Tensor, set[tuple[int, int]]]


def _percents(rows: str) -> Tensor:
    return torch.tensor([[int(number) for number in row.split()] for row in rows.split("/")]) / 100


def _example(weights: str, gold: str) -> Example:
    """Parse rows of weights, one for each target word, in percent, and links as src-tgt."""
    links = (link.split("-") for link in gold.split())
    return _percents(weights), {(int(src), int(tgt)) for src, tgt in links}


_THRESHOLDS = (0.2, 0.4, 0.6, 0.8, 1.0)

# Each row is a target word; the last row and the last column are <end>. Constructed so that every
# plausible mistake in the choice of the threshold leads to a different answer.
_EXPERIMENTS: list[dict[str, Any]] = [
    {
        "validation": [
            _example(
                "2 1 50 45 2 / 12 2 40 2 44 / 2 1 28 40 29 / "
                "40 2 1 20 37 / 40 2 2 36 20 / 35 50 1 1 13",
                "0-3 0-4 2-0 2-1 2-2 3-2 3-4",
            ),
            _example(
                "45 50 5 / 28 40 32",
                "1-0",
            ),
            _example(
                "40 1 20 39 / 15 50 2 33 / 40 1 36 23",
                "0-0 1-1",
            ),
        ],
        "test": [
            _example(
                "25 1 50 24 / 40 28 1 31 / 2 40 20 38 / 2 45 50 3 / 50 1 25 24",
                "0-0 0-1 1-1 1-2 1-3 2-0 2-2 2-3",
            ),
            _example(
                "40 2 2 2 12 42 / 20 40 1 2 2 35 / 1 2 50 1 35 11",
                "0-0 0-1 1-1",
            ),
        ],
        "answer": (0.6, 0.1579),
        "mistakes": {
            (0.4, 0.0): "test",
            (1.0, 0.2941): "mean",
            (0.6, 0.1714): "mean reported",
            (0.6, 0.0909): "validation reported",
            (0.2, 0.0435): "worst",
        },
    },
    {
        "validation": [
            _example(
                "50 35 2 2 11 / 2 25 50 2 21 / 1 45 1 50 3 / "
                "5 2 1 50 42 / 2 1 50 15 32 / 50 35 2 2 11",
                "0-0 1-0 1-2 2-1 2-4 3-2 3-3",
            ),
            _example(
                "28 40 32 / 28 40 32",
                "1-0",
            ),
            _example(
                "50 25 2 23 / 50 1 35 14 / 35 50 2 13",
                "0-0 0-1 2-1",
            ),
        ],
        "test": [
            _example(
                "40 1 20 39 / 20 2 40 38 / 40 12 1 47 / 50 1 15 34 / 36 2 40 22",
                "0-0 0-1 0-2 0-3 1-2 2-0 2-1 2-3",
            ),
            _example(
                "2 2 2 12 40 42 / 2 2 40 28 1 27 / 50 45 2 2 1 0",
                "2-1 3-0 3-1 4-0",
            ),
        ],
        "answer": (0.6, 0.2632),
        "mistakes": {
            (0.2, 0.0): "test",
            (0.8, 0.3333): "mean",
            (0.6, 0.2381): "mean reported",
            (0.6, 0.0435): "validation reported",
            (1.0, 0.3333): "worst",
        },
    },
]

_EXPERIMENT_MISTAKES = {
    "test": "the test sentences took part in the choice of the threshold. Choose it on the "
    "validation sentences only: an error rate on data that took part in the choice is too "
    "optimistic.",
    "mean": "your threshold minimises the mean of the error rates of single sentences. Minimise "
    "the error rate of the whole corpus instead: one call of alignment_error_rate with all "
    "validation sentences.",
    "mean reported": "the threshold is correct, but the rate is the mean of per-sentence error "
    "rates. Compute the rate of the whole corpus: one call of alignment_error_rate with all test "
    "sentences.",
    "validation reported": "the threshold is correct, but the rate is the one of the validation "
    "sentences, on which the threshold was chosen. Return the rate of the test sentences.",
    "worst": "this threshold has the highest error rate on the validation sentences. Choose the "
    "lowest: it is an error rate.",
}


@_parts.part("alignment", "links", "experiment", "least_looked_at")
def alignment(
    links: object, experiment: object, least_looked_at: object, thorough: bool = False
) -> None:
    """Check links from weights, the choice of the threshold, and the least attended word."""
    _check_links(links, thorough)
    for each in _EXPERIMENTS[: 2 if thorough else 1]:
        _check_experiment(experiment, each, _THRESHOLDS, each["answer"])
        # With a single threshold there is no choice; the answer for it is among the mistakes.
        worst = next(answer for answer, name in each["mistakes"].items() if name == "worst")
        _check_experiment(experiment, each, worst[:1], worst)
    _check_least(least_looked_at, thorough)


def _planted(src_len: int, tgt_len: int, threshold: float) -> Example:
    """Choose links, then construct weights from which exactly these links follow."""
    weights = torch.zeros(tgt_len + 1, src_len + 1)
    gold = set()
    for i in range(tgt_len):
        best = (2 * i + 1) % src_len
        for j in range(src_len):
            linked = j == best or (i + j) % 3 == 0
            share = threshold + (1 - threshold) * 0.4 if linked else threshold * 0.6
            weights[i, j] = 1.0 if j == best else share
            if linked:
                gold.add((j, i))
        weights[i, -1] = 1.5  # <end> may receive the most, and is not a word
    weights[-1, 0] = 1.0
    return weights / weights.sum(dim=1, keepdim=True), gold


def _check_links(links: object, thorough: bool) -> None:
    by_hand = torch.tensor([[0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.1, 0.1, 0.1, 0.7]])
    cases = [
        (by_hand, {(0, 0), (1, 0), (1, 1), (2, 1)}, 0.5),
        (by_hand, {(0, 0), (2, 1)}, 1.0),
    ]
    sizes = [(5, 3, 0.5)]
    if thorough:
        sizes += [(2, 7, 0.3), (11, 5, 0.7), (1, 2, 0.9), (3, 3, 1.0)]
    cases += [(*_planted(src, tgt, threshold), threshold) for src, tgt, threshold in sizes]
    for weights, expected, threshold in cases:
        inputs = {"weights": weights, "threshold": threshold}
        got = call(links, inputs)
        if not isinstance(got, set | frozenset):
            raise CheckFailed(
                f"  links must return a set of pairs, but returned {show(got)}.\n{describe(inputs)}"
            )
        if any(
            isinstance(number, Tensor) for link in got if type(link) is tuple for number in link
        ):
            raise CheckFailed(
                "  links: the pairs contain tensors. A set compares tensors by identity, not by "
                "value, so it finds no match. Convert them to int: .tolist() or "
                f"int(...).\n{describe(inputs)}"
            )
        pairs = set()
        for link in got:
            ints = [plain_number(number) for number in link] if type(link) is tuple else []
            if len(ints) == 2 and type(ints[0]) is int and type(ints[1]) is int:
                pairs.add((ints[0], ints[1]))
        if len(pairs) != len(got):
            raise CheckFailed(
                "  links: each link must be a pair of ints (source index, target index), got "
                f"{show(got)}.\n{describe(inputs)}"
            )
        if pairs == expected:
            continue
        raise CheckFailed(
            f"  links: {_links_diagnosis(pairs, expected, weights, threshold)}\n"
            f"{describe(inputs)}\n"
            f"  got         {show(sorted(pairs))}\n  expected    {show(sorted(expected))}"
        )


def _links_diagnosis(
    got: set[tuple[int, int]], expected: set[tuple[int, int]], weights: Tensor, threshold: float
) -> str:
    end_of_src, end_of_tgt = weights.size(1) - 1, weights.size(0) - 1
    if got == {(tgt, src) for src, tgt in expected}:
        return "the order of each pair is reversed: a link is (source index, target index)."
    if any(src == end_of_src or tgt == end_of_tgt for src, tgt in got):
        return (
            "links to or from <end> are included. <end> is not a word: remove the last row and the "
            "last column."
        )
    words = weights[:-1, :-1]

    def above(bound: float | Tensor) -> set[tuple[int, int]]:
        return {(j, i) for i, j in (words >= bound).nonzero().tolist()}

    if got == above(threshold * weights[:-1].max(dim=1, keepdim=True).values):
        return (
            "the largest weight of each row is taken with <end> included. Remove the last row and "
            "the last column first."
        )
    if got == above(threshold * words.max()):
        return (
            "the weights are compared with threshold times the largest of all weights. Take the "
            "largest weight of each row: .max(dim=1, keepdim=True).values."
        )
    if got == above(threshold * words.max(dim=0, keepdim=True).values):
        return (
            "the weights are compared with the largest weight of their column (source word). Take "
            "the largest weight of each row (target word): .max(dim=1, keepdim=True).values."
        )
    if got and got == above(threshold):
        return (
            "the weights are compared with the threshold itself. Compare them with the threshold "
            "times the largest weight of their row."
        )
    if got <= expected and len(got) == weights.size(0) - 1:
        return (
            "for this input only the source word with the largest weight is linked to each target "
            "word. Link every source word whose weight is at least threshold times that weight."
        )
    if expected - got and not got - expected:
        return (
            f"links are missing: {show(sorted(expected - got))}. A source word is linked if its "
            "weight is at least (>=) threshold times the largest weight of the row, also if both "
            "are equal."
        )
    if got - expected and not expected - got:
        return (
            f"these links are too many: {show(sorted(got - expected))}. Their weights are below "
            "threshold times the largest weight of their row."
        )
    return (
        "these are not the links whose weight is at least threshold times the largest weight of "
        "the row."
    )


def _check_experiment(
    experiment: object,
    data: Mapping[str, Any],
    thresholds: tuple[float, ...],
    expected: tuple[float, float],
) -> None:
    inputs = {name: data[name] for name in ("validation", "test")}
    inputs["thresholds"] = thresholds
    answer = call(experiment, inputs)
    answers = answer if isinstance(answer, tuple | list) else ()
    numbers = [number for each in answers if (number := plain_number(each)) is not None]
    if len(answers) != 2 or len(numbers) != 2:
        raise CheckFailed(
            f"  experiment must return two numbers, `return threshold, rate`, but returned "
            f"{show(answer)}."
        )

    def close(other: tuple[float, float]) -> bool:
        return all(abs(one - two) < 1e-3 for one, two in zip(numbers, other, strict=True))

    if close(expected):
        return
    named = [
        _EXPERIMENT_MISTAKES[name]
        for wrong, name in data["mistakes"].items()
        if close(wrong) and len(thresholds) > 1
    ]
    if close((expected[1], expected[0])):
        named = ["the two results are in the wrong order: `return threshold, rate`."]
    elif all(abs(numbers[0] - threshold) > 1e-3 for threshold in thresholds):
        named = [
            "the first result is not one of the given thresholds. Choose one of the entries of the "
            "argument thresholds (not its index, and not a constant in your code)."
        ]
    elif not named and close((numbers[0], expected[1])):
        named = ["the rate is correct, but it belongs to another threshold than the returned one."]
    fallback = (
        "the threshold is not the one with the lowest alignment error rate on the validation "
        "sentences, in one call of alignment_error_rate with all of them."
    )
    if any(
        name == "mean" and abs(numbers[0] - threshold) < 1e-3
        for (threshold, _), name in data["mistakes"].items()
    ):
        fallback = _EXPERIMENT_MISTAKES["mean"]
    if abs(numbers[0] - expected[0]) < 1e-3:
        fallback = (
            "the threshold is correct, but the rate is not the alignment error rate of the test "
            "sentences with it."
        )
    raise CheckFailed(
        f"  experiment: {(named or [fallback])[0]}\n"
        f"  called with {len(data['validation'])} validation sentences, {len(data['test'])} test "
        f"sentences, thresholds = {thresholds}\n"
        f"  got         threshold {numbers[0]:.4g}, rate {numbers[1]:.4g}\n"
        f"  expected    threshold {expected[0]:.4g}, rate {expected[1]:.4g}"
    )


# The sums, the largest and the smallest weights, with and without <end>, each select another word.
_LOOKED_AT = _percents(
    "8 26 2 10 26 4 17 7 / 3 7 32 31 15 3 2 7 / 36 6 3 1 23 4 24 3 / "
    "12 10 4 21 4 36 6 7 / 8 17 28 10 3 8 10 16"
)
_LEAST_MISTAKES = {
    7: "this is the index of <end>, which is not a word: remove the last column.",
    5: "the last row is included. It belongs to <end>, which is not a word: remove it.",
    4: "this source word has the largest total weight. Return the one with the smallest: argmin.",
    0: "the weights are summed over the source words, for each target word. Sum over the target "
    "words, for each source word (dim=0).",
    3: "this source word has the smallest single weight. Sum the weights of each source word "
    "first.",
    6: "this source word has the smallest maximum weight. Sum the weights of each source word "
    "instead, without the last column.",
}


# The first target word assigns most of its weight to <end>, so its other weights are small.
_MOSTLY_END = _percents("2 8 90 / 50 40 10 / 30 30 40")


def _check_least(least_looked_at: object, thorough: bool) -> None:
    cases: list[tuple[Tensor, Mapping[int, str]]] = [(_LOOKED_AT, _LEAST_MISTAKES)]
    for shift in (3, 4, 6) if thorough else (3,):
        turned = _LOOKED_AT[:, :-1].roll(shift, dims=1)
        fixed = {2: "the result does not depend on the weights. Compute it from the argument."}
        cases.append((torch.cat([turned, _LOOKED_AT[:, -1:]], dim=1), fixed))
    renormalised = (
        "the rows are normalised again after <end> is removed. Sum the weights as they are: a "
        "target word that attends mostly to <end> attends little to the words."
    )
    cases.append((_MOSTLY_END, {0: renormalised}))
    for weights, mistakes in cases:
        inputs = {"weights": weights}
        answer = call(least_looked_at, inputs)
        sums = weights[:-1, :-1].sum(0)
        expected = int(sums.argmin())
        got = plain_number(answer)
        if got == expected and type(got) is int:
            continue
        if type(got) is not int:
            diagnosis = "the result must be the index of a source word, an int."
        elif not 0 <= got < weights.size(1):
            diagnosis = (
                f"{got} is not the index of a source word: there are {len(sums)}. Sum over the "
                "target words (dim=0) before you take the argmin."
            )
        else:
            diagnosis = mistakes.get(
                got, "this source word does not have the smallest total weight."
            )
        raise CheckFailed(
            f"  least_looked_at: {diagnosis}\n{describe(inputs)}\n  got         {show(answer)}\n"
            f"  expected    {expected}, from the total weights {show(sums)}"
        )
