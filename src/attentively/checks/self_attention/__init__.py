"""Checks of the assignment on self-attention.

The answers of parts 1 to 5 are compared with the recordings in this folder. Masks and attention
are also evaluated inside the trained Transformer. In part 6, the check computes the attention
weights that the projections produce. No function here is the answer of a part.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attentively.attention import scaled_dot_product
from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import causal_mask, padding_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_pair,
    in_32_bits,
    once_solved,
    open_call,
    plain_tensor,
    show,
)
from attentively.checks.compare import kind_of
from attentively.checks.recordings import Topic
from attentively.checks.self_attention.black_boxes import FAR, Box, Model, Trigger
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
_topic = Topic(__file__)
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


def _as_precise(answer: Any, inputs: Inputs) -> Any:
    """Refuse what was computed in float32 from inputs of dtype float64."""
    several = answer if isinstance(answer, tuple | list) else [answer]
    if any(isinstance(each, Tensor) and each.dtype == torch.float64 for each in inputs.values()):
        for each in several:
            if type(each) is Tensor and torch.equal(each.double(), each.float().double()):
                raise _computed_in_float32(inputs)
    return answer


def _computed_in_float32(inputs: Inputs) -> CheckFailed:
    return CheckFailed(
        "  The inputs are float64, but a result is computed in float32, which loses half of the "
        "digits. Keep the dtype of the inputs: do not convert to float32 (.float()), and create "
        f"new tensors with dtype=….dtype.\n{describe(inputs)}"
    )


def _truths(what: str) -> Callable[[Any, Inputs], Any]:
    """Return a function that reads a Boolean tensor, or nested lists, as ones and zeros."""

    def read(answer: Any, inputs: Inputs) -> Any:
        if isinstance(answer, list):
            with contextlib.suppress(TypeError, ValueError):  # the next lines say so
                answer = torch.tensor(answer)
        if type(answer) is Tensor and answer.dtype == torch.bool:
            return answer.float()
        got = answer.dtype if type(answer) is Tensor else kind_of(answer)
        raise CheckFailed(
            f"  Expected {what} as a Boolean tensor (torch.bool); got {got}. A comparison returns "
            f"such a tensor, and .bool() converts to it.\n{describe(inputs)}"
        )

    return read


# Part 1


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
    _topic.examine("scores_of", scores_of, thorough, tidy=_as_precise)
    _topic.examine("look", look, thorough, tidy=_as_precise)


# Part 2


_PADDED = torch.tensor([[4, 7, 5, 0, 0], [6, 8, 9, 4, 5]])


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
    _topic.examine("mask_for", mask_for, thorough, tidy=_truths("the mask"))
    _topic.examine("blind", blind, thorough, tidy=_truths("the fully masked queries"))
    open_call.once(_expect_same_memory, mask_for)


def _expect_same_memory(mask_for: object) -> None:
    """Run the trained encoder with the student's mask."""
    model = _trained()
    inputs = {"ids": _PADDED, "pad_id": PAD_ID, "causal": False}
    given = _truths("the mask")(call(mask_for, inputs), inputs).bool()
    with torch.no_grad():
        got, _ = model.encoder(_PADDED, given)
        expected, _ = model.encoder(_PADDED, padding_mask(_PADDED, PAD_ID))
    expect_equal(got, expected, "the output of the trained encoder with your mask", inputs)


# Part 3


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
    _topic.examine("scaled_dot_product_attention", candidate, thorough, tidy=_as_precise)
    _expect_the_same_translator(candidate)


class _StudentsHeads(nn.Module):
    """The package's multi-head attention with a student's function as its attention."""

    def __init__(self, right: MultiHeadAttention, attend: object) -> None:
        super().__init__()
        self.right = right
        self.attend = cast(Callable[..., tuple[Tensor, Tensor]], attend)

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


_SENTENCES = ("two kings sing", "the cat drank the milk")


def _expect_the_same_translator(candidate: object) -> None:
    def replace(model: Transformer) -> None:
        put_in(candidate, model)

    expect_same_translations(replace, _SENTENCES, "attention", TRANSFORMER)


# Part 4


@_parts.part("finite masks", "leaked", "enough")
def finite(leaked: object, enough: object, thorough: bool = False) -> None:
    """Check how much weight a finite mask leaks, and which value is sufficient."""
    _topic.examine("leaked", leaked, thorough, tidy=_as_precise)
    _topic.examine("enough", enough, thorough)


# Part 5


def suspects() -> dict[str, Model]:
    """Return five models with unknown masks, for the tokens 0 to 6."""
    return {
        "A": Box(),
        "B": Box(((FAR, 0), (FAR, 1))),
        "C": Box(((FAR, -1),)),
        "D": Box(sees_padding=True),
        "E": Trigger(heard=5),
    }


def decoder() -> Model:
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


@_parts.part("a test for leaks", "reached", "faults")
def leaks(reached: object, faults: object, thorough: bool = False) -> None:
    """Check which positions influence which outputs, and the faults that follow."""
    matrix = _truths("the matrix of influences")
    _topic.examine("reached", reached, thorough, tidy=matrix)
    _topic.examine("faults", faults, thorough)


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
        _Aim(torch.tensor([[2.0, 1.0], [2.0, 1.01]], dtype=torch.float64), [1, 0], 0.75),
        _Aim(words(5, 7), [1, 1, 0, 4, 2], 0.9),
        _Aim(words(5, 5), [0, 1, 2, 3, 4], 0.05),
    ]
    if thorough:
        found += [_Aim(words(7, 11), [3] * 7, 0.6), _Aim(words(2, 13), [0, 0], 0.999)]
        found += [_Aim(words(11, 17), [*range(1, 11), 0], 0.7)]
    return found


@_parts.part("projections for given weights", "aim")
def aim(candidate: object, thorough: bool = False) -> None:
    """Check that two projections produce the given attention weights."""
    for wanted in open_call.new("aims", _aims(thorough)):
        inputs = {"x": wanted.x, "target": wanted.target, "share": wanted.share}
        pair = expect_pair(call_twice(candidate, inputs), ("w_q", "w_k"), inputs)
        w_q, w_k = (
            _matrix(each, name, wanted, inputs)
            for each, name in zip(pair, ("w_q", "w_k"), strict=True)
        )
        if w_q.shape != w_k.shape:
            raise CheckFailed(
                f"  Queries of dimension {w_q.size(1)} cannot be compared with keys of dimension "
                f"{w_k.size(1)}.\n{describe(inputs)}"
            )
        _expect_aim(w_q, w_k, wanted, inputs)


def _matrix(answer: object, name: str, wanted: _Aim, inputs: Inputs) -> Tensor:
    matrix = plain_tensor(in_32_bits(answer), name, inputs)
    if matrix.dim() != 2 or len(matrix) != wanted.x.size(1) or not matrix.size(1):
        raise CheckFailed(
            f"  {name} has the shape {tuple(matrix.shape)}; expected (d_model, d_k), where d_model "
            f"is {wanted.x.size(1)} and d_k is your choice.\n{describe(inputs)}"
        )
    if not matrix.isfinite().all():
        raise CheckFailed(f"  {name} contains NaN or infinity.\n{describe(inputs)}")
    precise = cast(Tensor, answer).detach()
    if precise.dtype != wanted.x.dtype and wanted.x.dtype == torch.float64:
        raise _computed_in_float32(inputs)
    return precise.double()


def _expect_aim(w_q: Tensor, w_k: Tensor, wanted: _Aim, inputs: Inputs) -> None:
    x, words = wanted.x.double(), len(wanted.target)
    right = wanted.weights
    _, weights = scaled_dot_product.scaled_dot_product_attention(x @ w_q, x @ w_k, x)
    scores = (x @ w_q) @ (x @ w_k).T

    def alike(one: Tensor, other: Tensor = right) -> bool:
        return torch.allclose(one, other, 1e-3, 1e-5)

    if alike(weights):
        if wanted.x.dtype == torch.float64 and not torch.allclose(weights, right, 0, 1e-7):
            raise _computed_in_float32(inputs)
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
        said = (
            "Queries and keys are exchanged, or a matrix is transposed: word i must attend to "
            "target[i]."
        )
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
