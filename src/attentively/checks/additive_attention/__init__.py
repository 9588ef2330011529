"""Checks of the assignment on additive attention.

Parts 1 and 2 rebuild what the package has, so they are compared with the package. The answers to
parts 3 to 6 stand nowhere here: their inputs are made around a known answer, or the answer is
measured, or its properties are looked at one by one.
"""

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
    """Say that the package, its trained model and these checks work."""
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"as “{translation.text}”. Ready.")


def examples(split: str, num_pairs: int) -> list[tuple[Tensor, set[tuple[int, int]]]]:
    """Return what the trained model looks at in toy sentences, each with its gold links.

    The model reads the gold translation word by word, so that row i of the weights belongs to
    word i. Sentences have one clause or two.
    """
    return [
        (weights, set(pair.alignment))
        for pair, weights in _read(toy.load(split, num_pairs, clauses=(1, 2)))
    ]


def an_example() -> tuple[toy.ToyPair, Tensor]:
    """Return one toy pair and what the trained model looks at in it."""
    return _read([toy.translate(SENTENCES[2])])[0]


def _read(pairs: Sequence[toy.ToyPair]) -> list[tuple[toy.ToyPair, Tensor]]:
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
        "The tanh is missing: these are the numbers of v·(W s + U h).",
        lambda s, h, W, U, v: ((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
    ),
    Twin(
        "The tanh stands around everything; v belongs outside it: v·tanh(W s + U h).",
        lambda s, h, W, U, v: torch.tanh(((s @ W.T).unsqueeze(1) + h @ U.T) @ v),
    ),
    Twin(
        "There are two tanh, one around W s and one around U h. First add, then take one tanh.",
        lambda s, h, W, U, v: (torch.tanh(s @ W.T).unsqueeze(1) + torch.tanh(h @ U.T)) @ v,
    ),
    Twin(
        "These are weights: the softmax has been taken already. Return the energies before it.",
        _softmaxed,
    ),
    Twin(
        "W s and U h are multiplied; the formula adds them.",
        lambda s, h, W, U, v: torch.tanh((s @ W.T).unsqueeze(1) * (h @ U.T)) @ v,
    ),
    Twin(
        "This is a sigmoid where the formula has a tanh.",
        lambda s, h, W, U, v: torch.sigmoid((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
    ),
    Twin(
        "This is a ReLU where the formula has a tanh.",
        lambda s, h, W, U, v: torch.relu((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
    ),
    Twin(
        "v is missing: these are the sums of tanh(W s + U h), each component counted once.",
        lambda s, h, W, U, v: _energies(s, h, W, U, torch.ones_like(v)),
    ),
    Twin(
        "W and U have changed places: W belongs to the query s, U to the keys h.",
        lambda s, h, W, U, v: _energies(s, h, U, W, v),
    ),
    Twin(
        "W is used the wrong way round. Its shape is (hidden_dim, query_dim), so row k of W "
        "makes component k: W s is `query @ W.T`.",
        lambda s, h, W, U, v: _energies(s, h, W.T, U, v),
    ),
    Twin(
        "U is used the wrong way round. Its shape is (hidden_dim, key_dim), so row k of U "
        "makes component k: U h is `keys @ U.T`.",
        lambda s, h, W, U, v: _energies(s, h, W, U.T, v),
    ),
    Twin(
        "W and U are both used the wrong way round. Row k of each makes component k: "
        "`query @ W.T` and `keys @ U.T`.",
        lambda s, h, W, U, v: _energies(s, h, W.T, U.T, v),
    ),
    Twin(
        "Key j got the query of sentence j instead of its own sentence's: broadcasting lined up "
        "the batch with the keys. Give the projected query an axis for the keys: .unsqueeze(1).",
        lambda s, h, W, U, v: torch.tanh((s @ W.T) + h @ U.T) @ v,
    ),
    Twin(
        "Every sentence got the query of the first one.",
        lambda s, h, W, U, v: _energies(s[:1].expand_as(s), h, W, U, v),
    ),
    Twin(
        "The energies are divided by √hidden_dim; additive attention does not scale.",
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


@_parts.part("energies", "energies")
def energies(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(query, keys, W, U, v) -> energies``."""
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
        hint = "One number for each key of each sentence: (batch, src_len)."
        expect_equal(answer, _energies(*inputs.values()), "energies", inputs, _ENERGY_TWINS, hint)
    inputs = {name: x.requires_grad_() for name, x in _energy_inputs(2, 3, 5, 7, 11).items()}
    expect_gradients_through(candidate, inputs, inputs)


# Part 2


def _weights_of(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return weights if mask is None else weights * mask


class _Wrong(nn.Module):
    """Additive attention with one known mistake, given as other ways to do a step."""

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
        """Return the weights alone; wrong ones may have a shape that leads to no context."""
        if self.scores:
            scores = self.scores(query, keys)
        else:
            W, U, v = _matrices(self.right)
            scores = _energies(query, keys, W, U, v)
        return self.weigh(scores, mask)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple:
        """Return context and weights, one of them wrong."""
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
            "Your weights sum to 1 over the sentences of the batch, not over the keys: the "
            "softmax runs along the wrong axis.",
            weigh=lambda scores, mask: scores.softmax(dim=0),
        ),
        twin(
            "Every weight is 1: the softmax runs along an axis that has one entry. Take away "
            "the last axis of the energies, .squeeze(-1), before the softmax.",
            weigh=lambda scores, mask: torch.ones_like(scores),
        ),
        twin(
            "squeeze() without an axis takes away every axis of one entry, the batch or the keys "
            "too where there is one. Say which: .squeeze(-1).",
            weigh=lambda scores, mask: scores.squeeze().softmax(dim=-1),
        ),
        twin(
            "These are energies: the softmax that makes weights of them is missing.",
            weigh=lambda scores, mask: scores,
        ),
        twin(
            "These are logarithms of weights: log_softmax where softmax is meant.",
            weigh=lambda scores, mask: scores.log_softmax(dim=-1),
        ),
        twin(
            "This is a sigmoid of each energy; the weights of a sentence must share 1 among "
            "them: softmax.",
            weigh=lambda scores, mask: torch.sigmoid(scores),
        ),
        twin(
            "Every key has the same weight whatever its energy: this is an average, not attention.",
            weigh=lambda scores, mask: torch.full_like(scores, 1 / scores.size(1)),
        ),
        twin(
            "The tanh is missing from the energies. The query then has no influence at all.",
            lambda s, h: ((s @ W.T).unsqueeze(1) + h @ U.T) @ v,
        ),
        twin(
            "There are two tanh, one around W s and one around U h. First add, then take one tanh.",
            lambda s, h: (torch.tanh(s @ W.T).unsqueeze(1) + torch.tanh(h @ U.T)) @ v,
        ),
        twin(
            "The energies are divided by √hidden_dim; additive attention does not scale.",
            lambda s, h: _energies(s, h, W, U, v) / W.size(0) ** 0.5,
        ),
        twin(
            "Key j got the query of sentence j instead of its own sentence's: give the projected "
            "query an axis for the keys, .unsqueeze(1).",
            lambda s, h: torch.tanh((s @ W.T) + h @ U.T) @ v,
        ),
    ]


_MASKED_WITH_ZERO = (
    "Masked energies are multiplied by the mask or set to 0 before the softmax, and 0 is an energy "
    "like others. Use one so low that nothing is left of it."
)
_TOO_HIGH = (
    "The number that replaces masked energies is not low enough: here every other energy is lower "
    "still. Use torch.finfo(...).min, the lowest of all. (Is exp written by hand? Then subtract "
    "the largest energy first.)"
)
_SHARED_OUT_LATE = (
    "A masked key with a high energy takes nearly all in the softmax, and too little is left for "
    "the others to be shared out afterwards. Mask the energies, before the softmax."
)


def _mask_twins(right: additive.AdditiveAttention) -> list[Twin]:
    def twin(diagnosis: str, weigh: Callable[[Tensor, Tensor], Tensor]) -> Twin:
        return Twin(diagnosis, _Wrong(right, weigh=weigh).weights)

    return [
        # On ordinary energies the next three are right; so they are asked first on hard ones.
        twin(_TOO_HIGH, lambda scores, mask: scores.masked_fill(~mask, -100).softmax(dim=-1)),
        twin(
            _TOO_HIGH, lambda scores, mask: scores.masked_fill(~mask, -100).softmax(dim=-1) * mask
        ),
        twin(
            _SHARED_OUT_LATE,
            lambda scores, mask: F.normalize(scores.softmax(dim=-1) * mask, 1, -1, eps=1e-9),
        ),
        twin("The mask is ignored.", lambda scores, mask: scores.softmax(dim=-1)),
        twin(
            "The mask is used the wrong way round: True means *may* be attended to.",
            lambda scores, mask: _weights_of(scores, ~mask),
        ),
        twin(
            "The mask is applied after the softmax, so what padding had taken is lost: the "
            "weights no longer sum to 1. Mask the energies, before the softmax.",
            lambda scores, mask: scores.softmax(dim=-1) * mask,
        ),
        twin(_MASKED_WITH_ZERO, lambda scores, mask: (scores * mask).softmax(dim=-1)),
        twin(_MASKED_WITH_ZERO, lambda scores, mask: (scores * mask).softmax(dim=-1) * mask),
        twin(
            "The mask was added to the energies as the number 1 or 0. It must rule positions "
            "out: use masked_fill or where.",
            lambda scores, mask: (scores + mask.float()).softmax(dim=-1),
        ),
        twin(
            "Every sentence got the mask of the first one.",
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
            "The context sums the projected keys U h; the encoder outputs themselves are meant.",
            lambda weights, keys: torch.einsum("bs,bsd->bd", weights, keys @ U.T),
        ),
        twin(
            "The context is the plain sum of the keys: the weights are not used.",
            lambda weights, keys: keys.sum(dim=1),
        ),
        twin(
            "The context is the plain mean of the keys: the weights are not used.",
            lambda weights, keys: keys.mean(dim=1),
        ),
        twin(
            "The context is the key with the largest weight; a weighted sum of all is meant.",
            lambda weights, keys: keys[torch.arange(len(keys)), weights.argmax(dim=1)],
        ),
        twin(
            "The weighted keys are averaged; their weights have been shared out already, so sum.",
            lambda weights, keys: (weights.unsqueeze(-1) * keys).mean(dim=1),
        ),
        twin(
            "The weighted keys are not summed yet: the context is one vector a sentence.",
            lambda weights, keys: weights.unsqueeze(-1) * keys,
        ),
    ]


# v, and three keys of which the last is masked, for W = 0.5, U = 1 and the query -1. In the first
# the masked energy is about 40 above the others, in the second every energy is below -130.
_HARD_TO_MASK = [(20.0, (-1.5, -2.0, 3.0)), (150.0, (-1.5, -1.45, -1.6))]


@_parts.part("AdditiveAttention", "AdditiveAttention")
def attention(candidate: object, thorough: bool = False) -> None:
    """Check a class like `AdditiveAttention`, at last inside the trained model."""
    own = additive.AdditiveAttention
    if candidate is own or getattr(candidate, "forward", None) is own.forward:
        raise CheckFailed("  This is the package's own AdditiveAttention; write yours.")
    if isinstance(candidate, nn.Module):
        raise CheckFailed("  Pass the class, not an object of it: AdditiveAttention, without ().")
    check_attention(candidate, thorough)


def check_attention(candidate: object, thorough: bool = False) -> None:
    """Check any attention class, the package's own too."""
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
    """Build the candidate and the package's attention with the same weights."""
    sizes = {"query_dim": query_dim, "key_dim": key_dim, "hidden_dim": hidden_dim}
    mine = call(candidate, sizes)
    if not isinstance(mine, nn.Module):
        raise CheckFailed("  AdditiveAttention must be a class that derives from torch.nn.Module.")
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
        lines.append(f"There is no parameter {', '.join(missing)}.")
    if biased:
        names = ", ".join(biased)
        lines.append(f"{names}: W, U and v have no bias, so write nn.Linear(..., bias=False).")
    if unknown:
        lines.append(f"There is also {', '.join(unknown)}, which the trained model does not have.")
    for name in sorted(set(found) & set(wanted)):
        if found[name] != wanted[name]:
            turned = found[name] == wanted[name][::-1]
            advice = " nn.Linear(inputs, outputs) keeps its weight as (outputs, inputs)."
            lines.append(
                f"{name} has the shape {found[name]}, expected {wanted[name]}."
                + (advice if turned else "")
            )
    raise CheckFailed(
        "\n".join(f"  {line}" for line in lines)
        + "\n  The trained model's weights are to be loaded into your class, so its parameters "
        f"need these names and shapes: {', '.join(f'{n} {s}' for n, s in wanted.items())}.\n"
        + describe(sizes)
    )


def _compare(mine: nn.Module, right: additive.AdditiveAttention, inputs: Inputs) -> None:
    with torch.no_grad():
        answer = call_twice(mine, inputs)
        expected_context, expected_weights = right(*inputs.values())
    context, weights = expect_pair(answer, ("context", "weights"), inputs)
    wanted = {"context": expected_context.shape, "weights": expected_weights.shape}
    _expect_order((context, weights), wanted, inputs)
    twins = _weight_twins(right)
    if "mask" in inputs:
        twins = _mask_twins(right) + twins
        if type(weights) is Tensor and weights.isnan().any() and inputs["mask"].any(1).all():
            raise CheckFailed(
                "  There is NaN in weights although every sentence has a word: a softmax over only "
                f"-inf, or a division by a sum of 0.\n{describe(inputs)}"
            )
        if (
            type(weights) is Tensor
            and weights.shape == expected_weights.shape
            and 0 < weights[~inputs["mask"]].abs().sum() < 0.01
        ):
            raise CheckFailed(
                "  Masked positions get little weight, but not exactly none: the number that "
                f"replaces their energies is not low enough.\n{describe(inputs)}"
            )
    hint = "One weight for each key of each sentence: (batch, src_len)."
    if "mask" in inputs and type(weights) is Tensor and weights.isnan().any():
        _refuse_nan(inputs)
    expect_equal(weights, expected_weights, "weights", inputs, twins, hint)
    hint = "One vector for each sentence: (batch, key_dim)."
    expect_equal(context, expected_context, "context", inputs, _context_twins(right), hint)


def _refuse_nan(inputs: Inputs) -> None:
    """Say why there is NaN where a sentence has nothing to attend to."""
    raise CheckFailed(
        "  A sentence with nothing to attend to gives NaN; zeros are expected. NaN: a softmax over "
        f"only -inf, or a division by a sum of 0.\n{describe(inputs)}"
    )


def _expect_order(
    answer: tuple[object, object], wanted: Mapping[str, torch.Size], inputs: Inputs
) -> None:
    """Refuse two results that have changed places, where their shapes tell."""
    first, second = wanted.values()
    shapes = tuple(getattr(value, "shape", None) for value in answer)
    if first != second and shapes == (second, first):
        raise CheckFailed(
            f"  The two results have changed places: return {', '.join(wanted)}, in this order.\n"
            + describe(inputs)
        )


def _ragged(batch: int, src_len: int) -> Tensor:
    """A padding mask: sentences of different lengths, each of at least one word."""
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
                f"  The last sentence has nothing to attend to (its mask is all False), yet not "
                f"all of its {what} is zero"
                + (
                    ": equal scores share the weight equally. Set masked weights to 0 after the "
                    "softmax as well."
                    if uniform
                    else "."
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
        " One sentence here has nothing to attend to. A row of -inf has no softmax, and "
        "hiding its NaN afterwards does not hide its gradient: use a finite lowest number, as "
        "torch.finfo(...).min."
    )
    expect_gradients_through(mine, inputs, sources, lambda answer: answer[0], nan)
    try:
        expect_gradients_through(mine, inputs, sources, lambda answer: answer[1], nan)
    except CheckFailed as failed:
        raise CheckFailed(f"  This is about the weights that are returned.\n{failed}") from None


# Part 3


def _measure(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Let the package's attention write a whole target, and count.

    Returns the multiplications of each product, with U h at every step, and how many numbers
    the tanh has put out.
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
        raise CheckFailed(f"  {what}: got None; is there a `return`?\n{describe(inputs)}")
    if type(answer) is not int:
        raise CheckFailed(
            f"  {what}: expected a whole number (int), got {show(answer)}, {type(answer).__name__}."
            f" Products of ints need no division.\n{describe(inputs)}"
        )
    return answer


@_parts.part("predictions", "numbers_kept", "multiplications")
def predictions(numbers_kept: object, multiplications: object, thorough: bool = False) -> None:
    """Check two predictions against what the package's attention does when it runs."""
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
        diagnosis = _factor(got, expected, sizes) or "the package, as it runs, keeps another number"
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
        diagnosis = "this is twice the number: additions are not to be counted"
    elif inputs["keys_once"] and got == every_step:
        diagnosis = "U h is computed anew for every target word here, but keys_once is True"
    elif not inputs["keys_once"] and got == every_step - saved:
        diagnosis = "U h is counted once a sentence here, but keys_once is False"
    elif expected - got in off:
        diagnosis = f"exactly {off[expected - got]} is missing from the count"
    elif got - expected in off:
        diagnosis = f"exactly {off[got - expected]} is counted once too often"
    else:
        diagnosis = _factor(got, expected, inputs) or _one_product_off(
            got - expected, products, inputs
        )
    raise CheckFailed(_prediction("multiplications", diagnosis, inputs, got, expected))


def _factor(got: int, expected: int, sizes: Mapping[str, int]) -> str:
    """Name the size by which a number is too small or too large, if it is one."""
    for name, size in sizes.items():
        if size > 1 and got * size == expected:
            return f"the number is too small by the factor {name}"
        if size > 1 and got == expected * size:
            return f"the number is too large by the factor {name}"
    return ""


def _one_product_off(difference: int, products: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """Name the product and the size by which the rest of the count is explained."""
    for product, count in products.items():
        factor = _factor(count + difference, count, sizes)
        if factor:
            return factor.replace("the number", f"of the parts, {product}")
    return "the package, counted as it runs, makes another number"


def _prediction(
    what: str, diagnosis: str, sizes: Mapping[str, int], got: int, expected: int
) -> str:
    return (
        f"  {what}: {diagnosis}.\n{describe(sizes)}\n"
        f"  got         {got:,}\n  measured    {expected:,}"
    )


# Part 4


@_parts.part("bug hunt", "mended_attention")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the mended attention of a whole target, one symptom after the other."""
    sizes = [(2, 2, 3, 1, 1, 2), (2, 3, 5, 7, 11, 13)]  # the first small enough to be shown
    if thorough:
        sizes += [(3, 3, 2, 5, 7, 11), (5, 2, 7, 3, 11, 2), (1, 7, 3, 2, 5, 3)]
    for each in sizes:
        examined: list[str] = []
        for symptom, examine in _SYMPTOMS.items():
            try:
                examine(candidate, _target_inputs(*each))
            except CheckFailed as failed:
                right = f"  Right so far: {'; '.join(examined)}.\n" if examined else ""
                raise CheckFailed(f"{failed}\n{right}".rstrip("\n")) from None
            examined.append(symptom)


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
        raise CheckFailed(
            "  A sentence whose mask is all False gets NaN; zeros are expected, for its weights "
            f"and contexts.\n{describe(inputs)}"
        )
    return (
        expect_tensor(contexts, wanted["contexts"], "contexts", inputs),
        expect_tensor(weights, wanted["weights"], "weights", inputs),
    )


def _one_query_at_a_time(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Ask the package's attention, which takes one query a sentence, for each target word."""
    W, U, v = inputs["W"], inputs["U"], inputs["v"]
    module = additive.AdditiveAttention(W.size(1), U.size(1), W.size(0))
    for parameter, value in zip(module.parameters(), (W, U, v.unsqueeze(0)), strict=True):
        parameter.data = value
    with torch.no_grad():
        rows = [module(s, inputs["keys"], inputs["mask"]) for s in inputs["queries"].unbind(1)]
    return torch.stack([row[0] for row in rows], 1), torch.stack([row[1] for row in rows], 1)


def _examine_sums(candidate: object, inputs: Inputs) -> None:
    _, weights = _ask(candidate, inputs)
    sums = {axis: weights.sum(dim=axis) for axis in (2, 1, 0)}
    one = {
        axis: torch.allclose(total, torch.ones_like(total), atol=1e-4)
        for axis, total in sums.items()
    }
    if one[2]:
        return
    over = " They do sum to 1 over the target words." if one[1] else ""
    over = over or (" They do sum to 1 over the sentences of the batch." if one[0] else "")
    raise CheckFailed(
        "  The weights of a target word do not sum to 1 over the source words, even where nothing "
        f"is masked.{over}\n{describe(inputs)}\n  got sums    {show(sums[2][0])} (first sentence)"
    )


def _examine_queries(candidate: object, inputs: Inputs) -> None:
    _, weights = _ask(candidate, inputs)
    if weights.size(1) > 1 and torch.allclose(
        weights, weights[:, :1].expand_as(weights), atol=1e-5
    ):
        raise CheckFailed(
            "  Every target word looks at the same places: the weights do not depend on the query. "
            "Softmax cancels whatever is the same for every key, so look at where query and key "
            f"meet.\n{describe(inputs)}"
        )


def _examine_weights(candidate: object, inputs: Inputs) -> None:
    _, weights = _ask(candidate, inputs)
    _, expected = _one_query_at_a_time(inputs)
    hint = "Asked one query at a time, the package's attention gives other weights."
    if not torch.allclose(weights, expected, 1e-4, 1e-5):
        raise CheckFailed(
            f"  The weights sum to 1 and depend on the query, but are not the softmax of "
            f"v·tanh(W s + U h). {hint}\n{describe(inputs)}"
        )


def _examine_mask(candidate: object, inputs: dict[str, Tensor]) -> None:
    batch, src_len = inputs["mask"].shape
    inputs |= {"mask": _ragged(batch, src_len)}
    mask = inputs["mask"].unsqueeze(1)
    _, weights = _ask(candidate, inputs)
    padded = weights.masked_fill(mask, 0).abs().max()
    if padded > 0:
        raise CheckFailed(
            f"  A masked position gets the weight {padded:.4g}; exactly 0 is expected.\n"
            f"{describe(inputs)}"
        )
    totals = weights.sum(dim=2)
    if not torch.allclose(totals, torch.ones_like(totals), atol=1e-4):
        raise CheckFailed(
            "  Masked positions get no weight, but then the weights of the others sum to "
            f"{totals.min():.4g}, not to 1: the share of the masked ones is lost.\n"
            f"{describe(inputs)}"
        )
    _, expected = _one_query_at_a_time(inputs)
    if not torch.allclose(weights, expected, 1e-4, 1e-5):
        raise CheckFailed(
            "  Under a mask the weights sum to 1, but the words that are left share it in other "
            f"proportions than before.\n{describe(inputs)}"
        )
    inputs |= {"mask": inputs["mask"].flip(1)}
    _, weights = _ask(candidate, inputs)
    _, expected = _one_query_at_a_time(inputs)
    if not torch.allclose(weights, expected, 1e-4, 1e-5):
        raise CheckFailed(
            "  A mask may hide any words, not only the last: here it hides the first, and the "
            f"weights are others than they should be.\n{describe(inputs)}"
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
    diagnosis = "The weights are right, but the contexts are not the keys weighed with them."
    for name, size in (("src_len", src_len), ("tgt_len", contexts.size(1))):
        if size > 1 and torch.allclose(contexts * size, expected, 1e-4, 1e-5):
            diagnosis = f"The contexts are too small by the factor {name}: is something averaged?"
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
                f"  A sentence whose mask is all False gets {what} that are not 0.\n"
                + describe(inputs)
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
        raise CheckFailed(f"  This is about the weights that are returned.\n{failed}") from None
    inputs["mask"] = _last_row_empty(*inputs["mask"].shape)
    if len(inputs["mask"]) > 1:
        expect_gradients_through(
            candidate,
            inputs,
            sources,
            lambda answer: answer[0],
            " One sentence here has nothing to attend to: a row of -inf has no softmax, and "
            "hiding its NaN does not hide its gradient.",
        )


_SYMPTOMS: dict[str, Callable[[object, dict[str, Tensor]], None]] = {
    "weights sum to 1": _examine_sums,
    "the query matters": _examine_queries,
    "the weights": _examine_weights,
    "the mask": _examine_mask,
    "the contexts": _examine_contexts,
    "nothing to attend to": _examine_nothing,
    "gradients": _examine_gradients,
}


# Part 5

_QUERIES = torch.tensor([[1.0], [-1.0]])
_KEYS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
_ENOUGH = 0.9


@_parts.part("why tanh", "by_hand", "query_dependence")
def why_tanh(by_hand: object, query_dependence: object, thorough: bool = False) -> None:
    """Check weights chosen by hand, and a measure of how much the query matters."""
    _check_by_hand(by_hand)
    _check_dependence(query_dependence, thorough)


def _check_by_hand(by_hand: object) -> None:
    answer = call(by_hand, {})
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise CheckFailed(f"  by_hand: expected `return W, U, v`, got {show(answer)}.")
    shapes = {"W": (2, 1), "U": (2, 2), "v": (2,)}
    matrices = {}
    for (name, shape), value in zip(shapes.items(), answer, strict=True):
        hint = "Write the numbers with a point, as in torch.tensor([[1.0], [2.0]])."
        if type(value) is Tensor and not value.is_floating_point():
            raise CheckFailed(f"  by_hand: {name} holds whole numbers, {value.dtype}. {hint}")
        matrices[name] = expect_tensor(in_32_bits(value), shape, f"{name} of by_hand", {})
    W, U, v = matrices.values()
    scores = _energies(_QUERIES, _KEYS.expand(2, 2, 2), W, U, v)
    weights = scores.softmax(dim=-1)
    on_match = weights.diagonal()
    if (on_match >= _ENOUGH).all():
        return
    table = (
        "              key +1   key -1\n"
        f"  query +1    {weights[0, 0]:6.3f}   {weights[0, 1]:6.3f}\n"
        f"  query -1    {weights[1, 0]:6.3f}   {weights[1, 1]:6.3f}\n"
        f"  wanted      at least {_ENOUGH} where query and key agree"
    )
    if torch.allclose(weights[0], weights[1], atol=1e-4):
        diagnosis = "both queries look at the same key: W s must change which key wins."
        if not W.count_nonzero():
            diagnosis = "W is zero, so no query can matter."
        elif not U[:, 1].count_nonzero():
            diagnosis = (
                "both queries look at the same key. The keys' constant 1 has no influence (the "
                "second column of U is zero), and without it they always do: tanh is odd, so "
                "turning every sign only turns the sign of the energy."
            )
    elif (on_match > 0.5).all():
        diagnosis = "each query prefers the right key, but not by enough. Larger numbers, anywhere?"
    elif (on_match < 0.5).all():
        diagnosis = "each query prefers the other key: turn a sign."
    else:
        diagnosis = "one query prefers the right key, the other does not."
    raise CheckFailed(f"  by_hand: {diagnosis}\n{table}")


def _check_dependence(query_dependence: object, thorough: bool) -> None:
    def measured(scores: Tensor) -> tuple[float, dict[str, Tensor]]:
        inputs = {"scores": scores}
        answer = call(query_dependence, inputs)
        number = plain_number(answer)
        if number is None:
            raise CheckFailed(
                f"  query_dependence: expected one number, got {show(answer)}.\n{describe(inputs)}"
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

    # The scores are logarithms of weights that were chosen first, so the answer is known.
    weights = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]])
    mistakes = {
        1.0: "this adds up the changes of all keys; the largest one is asked for.",
        0.25: "this is the mean change; the largest one is asked for.",
        0.35: "the change of a weight may go down as well as up; its size is asked for.",
        2.079: "these are changes of the scores. Softmax first: a score may change and no weight.",
        1.609: "these are changes of the scores. Softmax first: a score may change and no weight.",
        0.45: "this is the range of the weights within a query; compare the queries, key by key.",
        0.7778: "the softmax ran over the queries; weights share 1 among the keys.",
    }
    expect(weights.log(), 0.4, mistakes, "this is not the largest change of a weight.")
    # A linear score is a share of the query plus a share of the key.
    linear = torch.tensor([[0.5], [-2.0], [3.0]]) + torch.tensor([[1.0, 0.0, -1.0, 2.0]])
    fallback = (
        "here each query adds one number to the scores of all keys, so no weight changes. "
        "Compare weights, not scores."
    )
    expect(linear, 0.0, {}, fallback)
    weights = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4], [0.9, 0.1], [0.75, 0.25]])
    mistakes = {
        0.4: "only the first query is compared with the others; every pair of queries counts.",
        0.25: "only the first and the last query are compared; every pair counts.",
        0.3: "only neighbouring queries are compared; every pair counts.",
    }
    expect(weights.log() + 7, 0.5, mistakes, "every pair of queries counts.")
    if thorough:
        row = torch.tensor([[0.05, 0.25, 0.3, 0.4]])
        expect(row.log(), 0.0, {}, "a single query changes nothing.")
        more = torch.cat([row, row.roll(1, 1), row.roll(2, 1)])
        expect(more.log() - 3, 0.35, {}, "this is not the largest change of a weight.")


# Part 6

Example = tuple[Tensor, set[tuple[int, int]]]


def _percents(rows: str) -> Tensor:
    return torch.tensor([[int(number) for number in row.split()] for row in rows.split("/")]) / 100


def _example(weights: str, gold: str) -> Example:
    """Read a row of weights for each target word, in percent, and links as src-tgt."""
    links = (link.split("-") for link in gold.split())
    return _percents(weights), {(int(src), int(tgt)) for src, tgt in links}


_THRESHOLDS = (0.2, 0.4, 0.6, 0.8, 1.0)

# Each row is a target word, the last row and the last column are <end>. Made so that every
# plausible mistake in choosing the threshold leads to another answer.
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
    "test": "the threshold was chosen on the test sentences. They must not take part in any "
    "choice, or the rate says little about sentences that come later.",
    "mean": "the threshold with the lowest mean of sentence rates was chosen. Count over the whole "
    "corpus: one call of alignment_error_rate with all sentences.",
    "mean reported": "the threshold is right; the rate is the mean of sentence rates. One call of "
    "alignment_error_rate with all test sentences gives that of the corpus.",
    "validation reported": "the threshold is right; the rate is that of the validation sentences, "
    "which helped to choose it. Report that of the test sentences.",
    "worst": "this threshold has the highest rate. It is an error rate: lower is better.",
}


@_parts.part("alignment", "links", "experiment", "least_looked_at")
def alignment(
    links: object, experiment: object, least_looked_at: object, thorough: bool = False
) -> None:
    """Check links from weights, the threshold's choice, and the word least looked at."""
    _check_links(links, thorough)
    for each in _EXPERIMENTS[: 2 if thorough else 1]:
        _check_experiment(experiment, each, _THRESHOLDS, each["answer"])
        # With a single threshold there is no choice; the answer for one is among the mistakes.
        worst = next(answer for answer, name in each["mistakes"].items() if name == "worst")
        _check_experiment(experiment, each, worst[:1], worst)
    _check_least(least_looked_at, thorough)


def _planted(src_len: int, tgt_len: int, threshold: float) -> Example:
    """Choose links, then weights to which exactly these belong."""
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
        weights[i, -1] = 1.5  # <end> may get the most, and is no word
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
                f"  links: expected a set of pairs, got {show(got)}.\n{describe(inputs)}"
            )
        if any(
            isinstance(number, Tensor) for link in got if type(link) is tuple for number in link
        ):
            raise CheckFailed(
                "  links: the pairs hold tensors, and a set never finds a tensor again. Make ints "
                f"of them: .tolist() or int(...).\n{describe(inputs)}"
            )
        pairs = set()
        for link in got:
            ints = [plain_number(number) for number in link] if type(link) is tuple else []
            if len(ints) == 2 and type(ints[0]) is int and type(ints[1]) is int:
                pairs.add((ints[0], ints[1]))
        if len(pairs) != len(got):
            raise CheckFailed(
                f"  links: expected pairs of ints (src, tgt), got {show(got)}.\n{describe(inputs)}"
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
        return "the numbers of each pair have changed places: a link is (source word, target word)."
    if any(src == end_of_src or tgt == end_of_tgt for src, tgt in got):
        return "the last row and the last column are <end>, which is no word: leave both out."
    absolute = {(j, i) for i, j in (weights[:-1, :-1] >= threshold).nonzero().tolist()}
    if got and got == absolute:
        return (
            "the weights are compared with the threshold itself; a word is linked from threshold "
            "times the largest weight of its row."
        )
    if got <= expected and len(got) == weights.size(0) - 1:
        return "only the largest weight of each target word is linked; several may be."
    if expected - got and not got - expected:
        return (
            "links are missing. Is the largest weight looked for among the words only, <end> left "
            "out? And a weight that equals the bound counts: >=."
        )
    return "these are not the links of the words whose weight is large enough."


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
        raise CheckFailed(f"  experiment: expected `return threshold, rate`, got {show(answer)}.")

    def close(other: tuple[float, float]) -> bool:
        return all(abs(one - two) < 1e-3 for one, two in zip(numbers, other, strict=True))

    if close(expected):
        return
    named = [
        _EXPERIMENT_MISTAKES[name]
        for wrong, name in data["mistakes"].items()
        if close(wrong) and len(thresholds) > 1
    ]
    if all(abs(numbers[0] - threshold) > 1e-3 for threshold in thresholds):
        named = [
            "the first result is none of the thresholds to choose from. They are the third "
            "argument and differ from call to call; do not write them into your code."
        ]
    elif not named and close((numbers[0], expected[1])):
        named = ["the rate is right for another threshold than the one returned."]
    fallback = "neither the choice nor one of the usual mistakes leads to this answer."
    if numbers[0] == expected[0]:
        fallback = "the threshold is right, the rate of the test sentences is not."
    raise CheckFailed(
        f"  experiment: {(named or [fallback])[0]}\n"
        f"              on {len(data['validation'])} validation and {len(data['test'])} test "
        f"sentences, thresholds {thresholds}\n"
        f"  got         threshold {numbers[0]:.4g}, rate {numbers[1]:.4g}\n"
        f"  expected    threshold {expected[0]:.4g}, rate {expected[1]:.4g}"
    )


# Sums, largest and smallest weights, with and without <end>, each point at another word.
_LOOKED_AT = _percents(
    "8 26 2 10 26 4 17 7 / 3 7 32 31 15 3 2 7 / 36 6 3 1 23 4 24 3 / "
    "12 10 4 21 4 36 6 7 / 8 17 28 10 3 8 10 16"
)
_LEAST_MISTAKES = {
    7: "this is <end>, which is no word: leave the last column out.",
    5: "the last row is <end>'s; only target words count.",
    4: "this word is looked at most.",
    0: "this is a target word: sum over the target words, for each source word.",
    3: "this word has the smallest single weight; add up each word's weights first.",
    6: "this word has the smallest largest weight; add up each word's weights instead.",
}


# The first target word spends most on <end>, so it counts little.
_MOSTLY_END = _percents("2 8 90 / 50 40 10 / 30 30 40")


def _check_least(least_looked_at: object, thorough: bool) -> None:
    cases: list[tuple[Tensor, Mapping[int, str]]] = [(_LOOKED_AT, _LEAST_MISTAKES)]
    for shift in (3, 4, 6) if thorough else (3,):
        turned = _LOOKED_AT[:, :-1].roll(shift, dims=1)
        fixed = {2: "this was right for other weights; these have another answer."}
        cases.append((torch.cat([turned, _LOOKED_AT[:, -1:]], dim=1), fixed))
    shared_anew = (
        "the rows seem to be shared out anew once <end> is left out. Add up the weights as they "
        "are: a target word that looks mostly at <end> looks little at the words."
    )
    cases.append((_MOSTLY_END, {0: shared_anew}))
    for weights, mistakes in cases:
        inputs = {"weights": weights}
        answer = call(least_looked_at, inputs)
        sums = weights[:-1, :-1].sum(0)
        expected = int(sums.argmin())
        got = plain_number(answer)
        if got == expected and type(got) is int:
            continue
        if type(got) is not int:
            diagnosis = "expected the index of a source word, an int."
        else:
            diagnosis = mistakes.get(got, "this is not the word least looked at.")
        raise CheckFailed(
            f"  least_looked_at: {diagnosis}\n{describe(inputs)}\n  got         {show(answer)}\n"
            f"  expected    {expected}, of the sums {show(sums)}"
        )
