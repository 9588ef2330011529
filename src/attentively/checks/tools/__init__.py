"""Checks of the assignment on the tools: shapes, softmax, its gradient, surprise, perplexity.

What has its answer in PyTorch or in the package is compared with it. The gradient of part 3 is
written nowhere here: autograd finds it, and mistakes are told by what they break.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attentively.checks import (
    ATOL,
    RTOL,
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_tensor,
    expect_value,
    in_32_bits,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.data import toy
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, target_ids

__all__ = [
    "Reading",
    "gradient",
    "once_solved",
    "perplexity",
    "progress",
    "read",
    "readings",
    "ready",
    "shapes",
    "softmax",
    "surprises",
    "write",
]

MODEL = "toy-additive"
"""The trained translator in which the student's functions are put to use."""

SENTENCES = {
    "the cat drinks the milk": "le chat boit le lait",
    "the girl does not see the white horse": "la fille ne voit pas le cheval blanc",
    "my uncle hears the small dog": "mon oncle entend le petit chien",
}

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, PyTorch, a trained model and these checks work."""
    _parts.explain_undefined_names()
    sentence = next(iter(SENTENCES))
    translation = translate(load_pretrained(MODEL), [sentence], beam_size=1)[0]
    print(f"PyTorch {torch.__version__} works: 2 + 3 = {int(torch.tensor(2) + 3)}.")
    print(f"The package works: it translates “{sentence}” as “{translation.text}”.")
    try:
        softmax(lambda scores: scores / scores.sum(dim=-1, keepdim=True))
    except CheckFailed as verdict:
        print("The checks work. Of an answer that lacks the exp one says, for example:\n")
        print(verdict)


# The trained translator


class Reading(NamedTuple):
    """What the translator thinks while it reads translations that are given to it."""

    logits: Tensor
    """For each word, a score of every word that could have come: (batch, len, vocab)."""
    targets: Tensor
    """The ids of the words that did come, ``<end>`` and padding too: (batch, len)."""
    words: list[list[str]]
    """The words of each translation, ``<end>`` included."""
    pad_id: int


def read(sentences: Mapping[str, str] = SENTENCES) -> Reading:
    """Let the translator read sentences, each with a translation of it, word by word."""
    model, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    src = pad([src_tokenizer.encode(sentence) for sentence in sentences], PAD_ID)
    ids = [target_ids(tgt_tokenizer, sentence) for sentence in sentences.values()]
    tgt = pad(ids, PAD_ID)
    with torch.no_grad():
        logits = model(src, tgt[:, :-1]).logits
    words = [tgt_tokenizer.tokens(sentence[1:]) for sentence in ids]
    return Reading(logits, tgt[:, 1:], words, PAD_ID)


def readings(num_pairs: int = 100) -> dict[str, Reading]:
    """Let the translator read sentences that it never saw, each with its translation, then not."""
    pairs = toy.load("validation", num_pairs, clauses=(1, 2))
    sources, targets = [pair.src_text for pair in pairs], [pair.tgt_text for pair in pairs]
    shifted = targets[1:] + targets[:1]
    return {
        "right translations": read(dict(zip(sources, targets, strict=True))),
        "of another sentence": read(dict(zip(sources, shifted, strict=True))),
    }


def write(
    softmax: Callable[[Tensor], Tensor], sentence: str, most: int = 30
) -> list[tuple[str, float]]:
    """Let the translator write; `softmax` makes probabilities of its scores, the largest wins.

    Returns each word with its probability, after `most` words at the latest.
    """
    model, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    src = pad([src_tokenizer.encode(sentence)], PAD_ID)
    written: list[tuple[str, float]] = []
    with torch.no_grad():
        state = model.start(model.encode(src))
        token = torch.tensor([START_ID])
        while len(written) < most and token.item() != END_ID:
            scores, state = model.step(token, state)
            probabilities = softmax(scores)
            token = probabilities.argmax(dim=-1)
            (word,) = tgt_tokenizer.tokens(token.tolist())
            written.append((word, float(probabilities.max())))
    return written


# Part 1

Shape = tuple[int, ...]
Case = tuple[Shape, Shape, Mapping[Shape, str]]
"""Two shapes, and what the shapes that mistakes make of them say of these mistakes."""

_LARGER = "two sizes that differ fit only if one of them is 1; the larger does not simply win."
_ZERO = "a size of 0 is no 1: it fits 0 and 1 only."
_COMMON = "only the axes that both shapes have are here; those of the longer one alone stay."
_FIRST = "the axes in front are those of a alone. Both have a say: they are broadcast as in a sum."
# In an order in which each mistake fails first where it is named.
_SUMS: list[Case] = [
    (
        (2, 3),
        (2, 3),
        {
            (3, 2): "the axes come out in reverse. If you walk from the last, turn them round.",
            (2, 3, 2, 3): "these are the axes of both, one after the other.",
            (4, 6): "the sizes are added; it is the numbers inside that are.",
        },
    ),
    ((2, 3), (5, 3), {(5, 3): _LARGER}),
    ((2, 3), (2, 1), {(2, 1): "an axis of size 1 is stretched; the other one does not shrink."}),
    (
        (2, 3),
        (2,),
        {
            (2, 3): "the shapes are lined up at their first axes. Broadcasting lines them up at "
            "the last: here 3 meets 2."
        },
    ),
    ((2, 3), (3,), {(3,): _COMMON}),
    ((3,), (2, 3), {(3,): _COMMON}),
    (
        (2, 1, 5),
        (3, 1),
        {
            (3, 5): _COMMON,
            (2, 1, 5): "this is the longer shape as it is. Where its size is 1 the other's counts.",
        },
    ),
    ((7, 3, 11), (7, 1, 5), {(7, 3, 11): _LARGER}),
    (
        (0,),
        (1,),
        {(1,): "a size of 1 becomes the other one, here 0; the larger does not simply win."},
    ),
    ((0,), (3,), {(0,): _ZERO, (3,): _ZERO}),
]
_FURTHER_SUMS: list[Case] = [
    ((), (3,), {}),
    ((1,), (1,), {}),
    ((5, 1, 7, 1), (11, 1, 13), {}),
    ((3, 5, 7), (3, 5), {}),
    ((13,), (2, 1, 1, 13), {}),
]
_PRODUCTS: list[Case] = [
    (
        (2, 3),
        (3, 5),
        {
            (2, 3, 5): "the inner axis is still there. The product sums over it: it is gone.",
            (2, 3, 3, 5): "these are the axes of both, one after the other.",
            (5, 2): "the axes have changed places: rows of a come first, then columns of b.",
        },
    ),
    (
        (2, 3),
        (2, 5),
        {
            (2, 5): "rows of a have 3 numbers, columns of b have 2: such a product does not exist, "
            "so None is expected."
        },
    ),
    (
        (2, 3, 4, 5),
        (2, 3, 5, 6),
        {
            (2, 3, 4, 2, 3, 6): "the axes in front come twice. They are shared: matrix i of a "
            "meets matrix i of b only.",
            (4, 6): "the axes in front are lost: there is a product for each pair of matrices.",
        },
    ),
    ((2, 3, 5), (7, 5, 11), {(2, 3, 11): _FIRST, (7, 3, 11): _LARGER}),
    ((7, 2, 3), (3, 5), {(2, 5): "the axis of a in front is lost; it is broadcast as in a sum."}),
    ((2, 3), (7, 3, 5), {(2, 5): _FIRST}),
    ((5, 1, 2, 3), (7, 3, 11), {(5, 1, 2, 11): _FIRST}),
    (
        (2, 1),
        (3, 5),
        {(2, 5): "a size of 1 is stretched in front only. The two inner sizes must be equal."},
    ),
]
_FURTHER_PRODUCTS: list[Case] = [
    ((13, 5, 3), (13, 3, 2), {}),
    ((2, 3, 5, 7), (3, 7, 11), {}),
    ((3, 1, 7), (5, 1, 7, 2), {}),
    ((2, 3, 5), (3, 2, 5, 7), {}),
    ((5, 3), (1, 2), {}),
]


@_parts.part("shapes", "sum_shape", "product_shape", "equation")
def shapes(
    sum_shape: object, product_shape: object, equation: object, thorough: bool = False
) -> None:
    """Check two predictions of shapes against what PyTorch does, and an equation by its use."""
    fits = "they are lined up at their last axes, a missing axis counts as 1, and 1 fits any size"
    for case in _SUMS + _FURTHER_SUMS * thorough:
        _expect_shape(sum_shape, "sum_shape", torch.add, case, f"adds them: {fits}")
    fits = "the last size of a meets the second to last of b, the axes in front are broadcast"
    for case in _PRODUCTS + _FURTHER_PRODUCTS * thorough:
        why = f"multiplies them: {fits}"
        _expect_shape(product_shape, "product_shape", torch.matmul, case, why)
    for sizes in [(2, 3, 7, 5), *[(3, 5, 2, 11), (1, 7, 7, 3)] * thorough]:
        _check_equation(equation, *sizes)


def _expect_shape(
    candidate: object,
    what: str,
    operation: Callable[[Tensor, Tensor], Tensor],
    case: Case,
    why_it_fits: str,
) -> None:
    a, b, mistakes = case
    inputs = {"a": a, "b": b}
    answer = call_twice(candidate, inputs)
    if isinstance(answer, torch.Size):
        answer = tuple(answer)
    known = [Twin(f"{what}: {said}", lambda *_, s=shape: s) for shape, said in mistakes.items()]
    try:
        expected: Shape | None = tuple(operation(torch.zeros(a), torch.zeros(b)).shape)
        said = f"None says that these do not fit, but PyTorch {why_it_fits}."
        known.append(Twin(f"{what}: {said} Or is there no `return`?", lambda *_: None))
    except RuntimeError as error:
        expected = None
        said = f"these do not fit, so None is expected. PyTorch says: {error}."
        known.append(Twin(f"{what}: {said}", lambda *_: answer))
    expect_value(answer, expected, what, inputs, known)


def _check_equation(equation: object, batch: int, a_len: int, b_len: int, size: int) -> None:
    written = call(equation, {})
    if not isinstance(written, str):
        raise CheckFailed(f"  equation: expected a string like 'ij,jk->ik', got {show(written)}.")
    a, b = torch.randn(batch, a_len, size), torch.randn(batch, b_len, size)
    called = describe({"equation": written, "a": a, "b": b})
    try:
        got = torch.einsum(written, a, b)
    except (RuntimeError, ValueError) as error:
        raise CheckFailed(f"  equation: PyTorch does not take it: {error}.\n{called}") from None
    expected = b @ a.transpose(1, 2)
    if got.shape == expected.shape and torch.allclose(got, expected, RTOL, ATOL):
        return
    turned = expected.transpose(1, 2)
    if "->" not in written:
        diagnosis = "there is no arrow. What stands after -> are the axes that are to come out."
    elif got.shape == turned.shape != expected.shape and torch.allclose(got, turned, RTOL, ATOL):
        diagnosis = (
            "the products are right, their axes are not in the order asked for: the letters after "
            "the arrow say it."
        )
    elif got.dim() < expected.dim():
        diagnosis = (
            "an axis is missing. What is not named after the arrow is summed over, and only the "
            "last axis of a and b is to be."
        )
    elif got.dim() > expected.dim():
        diagnosis = "an axis is left that is to be summed over: leave its letter out at the end."
    else:
        diagnosis = (
            "the shape may be right, the numbers are not. An axis that a and b share, walked "
            "through together, has the same letter in both: the batch, and what is summed over."
        )
    raise CheckFailed(
        f"  equation: {diagnosis}\n{called}\n  got         a tensor of shape {tuple(got.shape)}\n"
        f"  expected    (batch, b_len, a_len) = {tuple(expected.shape)}"
    )


# Part 2


def _laid_along_the_columns(scores: Tensor, largest: Tensor) -> Tensor:
    exponentials = (scores - largest).exp()
    return exponentials / exponentials.sum(dim=-1)


_OVERFLOW = (
    "There is NaN: exp(1000) is too large for a number and becomes infinity, exp(-1000) becomes 0, "
    "and neither inf / inf nor 0 / 0 is a number. Subtract each row's largest score before exp; "
    "that changes no weight."
)
_UNDERFLOW = (
    "There is NaN: every exp of a row rounds to 0, and 0 / 0 is no number. Is a fixed number "
    "subtracted? Subtract each row's largest score, which leaves exp(0) = 1 in every row."
)
_SOFTMAX_TWINS = (
    Twin(
        "The exp is missing: a negative score would become a negative weight.",
        lambda s: s / s.sum(dim=-1, keepdim=True),
    ),
    *known(
        "The exponentials are not yet divided by their sum, so the weights do not sum to 1.",
        lambda s: s.exp(),
        lambda s: (s - s.max(dim=-1, keepdim=True).values).exp(),
    ),
    Twin(
        "These are logarithms of the weights, and the weights themselves are meant.",
        lambda s: s.log_softmax(dim=-1),
    ),
    Twin(
        "This is a sigmoid of each score; the weights of a row must share 1 among them.",
        torch.sigmoid,
    ),
    *known(
        "Each row's sum was laid along the columns: column 1 was divided by the sum of row 1 and "
        "so on. Keep the axis that is summed over: keepdim=True.",
        lambda s: _laid_along_the_columns(s, s.max(dim=-1, keepdim=True).values),
        lambda s: _laid_along_the_columns(s, s.max()),
    ),
    *known(
        "Each row's largest score was laid along the columns. Keep the axis that is reduced: "
        "keepdim=True, in max as well as in sum.",
        lambda s: _laid_along_the_columns(s, s.max(dim=-1).values),
        lambda s: (s - s.max(dim=-1).values).softmax(dim=-1),
    ),
    Twin(
        "The weights sum to 1 over the whole tensor. Each row is to share 1 of its own: dim=-1.",
        lambda s: s.flatten().softmax(dim=0).reshape(s.shape),
    ),
    Twin(
        "The weights sum to 1 along the first axis, not along the last: dim=-1.",
        lambda s: s.softmax(dim=0),
    ),
    Twin(
        "The weights sum to 1 along the second axis. That is the last one only of two: dim=-1.",
        lambda s: s.softmax(dim=1),
    ),
    Twin(
        "Large scores are divided or cut off, which changes the differences between them, and "
        "with them the weights. Subtract instead.",
        lambda s: (s / s.max(dim=-1, keepdim=True).values).softmax(dim=-1),
    ),
    Twin(
        "Is NaN hidden afterwards, by nan_to_num? Then the row no longer sums to 1. Let none "
        "arise: subtract each row's largest score before exp.",
        lambda s: (s.exp() / s.exp().sum(dim=-1, keepdim=True)).nan_to_num(0.0),
    ),
    Twin(
        "All weights are equal although the scores are not: are large scores cut off? That "
        "changes the differences between them. Subtract instead.",
        lambda s: torch.full_like(s, 1 / s.size(-1)),
    ),
)
_SOFTMAX_STAGES = [
    (torch.tensor([2.0, 1.0, -1.0]), None),
    (torch.tensor([[0.0, 1.0], [2.0, -1.0]]), None),
    (torch.tensor([[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]]), None),
    (torch.tensor([[1000.0, 1001.0, 1003.0]]), _OVERFLOW),
    (torch.tensor([[-1000.0, -1001.0, -1003.0]]), _OVERFLOW),
    (
        torch.tensor([[1000.0, 999.0], [1.0, 0.0]]),
        "There is NaN in one row: the largest score of the whole tensor was subtracted, and the "
        "row far below it underflows to 0 / 0. Subtract each row's own: dim=-1, keepdim=True.",
    ),
    (
        torch.tensor([[0.0, 0.0, 500.0]]),
        "There is NaN: what was subtracted is not the row's largest score, so exp can still "
        "overflow. The largest must become 0.",
    ),
]


@_parts.part("softmax", "softmax")
def softmax(candidate: object, thorough: bool = False) -> None:
    """Check a softmax along the last axis, at last inside the trained translator."""
    stages = [*_SOFTMAX_STAGES, (torch.randn(2, 3, 5), None), (torch.randn(3, 2, 5, 7), None)]
    if thorough:
        stages += [(torch.randn(shape), None) for shape in ((1,), (13, 1), (7, 11), (5, 2, 3, 1))]
        stages += [(200 * torch.randn(11, 7), _OVERFLOW), (torch.full((3, 5), -900.0), _OVERFLOW)]
    for scores, nan in stages:
        _expect_softmax(candidate, scores, nan)
    inputs = {"scores": torch.randn(2, 3, 5, requires_grad=True)}
    expect_gradients_through(candidate, inputs, inputs)
    large = {"scores": (1000 * torch.tensor([[1.0, 0.999, 0.5]])).requires_grad_()}
    expect_gradients_through(candidate, large, large)

    def inside(scores: Tensor) -> Tensor:
        return _expect_softmax(candidate, scores, None)

    write(inside, next(iter(SENTENCES)))


def _expect_softmax(candidate: object, scores: Tensor, nan: str | None) -> Tensor:
    inputs = {"scores": scores}
    weights = in_32_bits(call_twice(candidate, inputs))
    twins = list(_SOFTMAX_TWINS)
    if type(weights) is Tensor and weights.isnan().any():
        twins = [Twin(nan or _UNDERFLOW, lambda _: weights)]
    hint = "One weight for each score."
    expect_equal(weights, scores.softmax(dim=-1), "the weights", inputs, twins, hint)
    assert isinstance(weights, Tensor)  # or expect_equal would have said so
    return weights


# Part 3


def _by_autograd(scores: Tensor, upstream: Tensor, temperature: float) -> Tensor:
    """Return the gradient with respect to the scores, as autograd finds it."""
    scores = scores.detach().requires_grad_()
    weights = (scores / temperature).softmax(dim=-1)
    return torch.autograd.grad((weights * upstream).sum(), scores)[0]


@_parts.part("gradient of the softmax", "softmax_gradient", "alive")
def gradient(softmax_gradient: object, alive: object, thorough: bool = False) -> None:
    """Check a gradient written by hand, and what it is good for."""
    _check_gradient(softmax_gradient, thorough)
    _check_alive(alive, thorough)


def _check_gradient(candidate: object, thorough: bool) -> None:
    row = torch.tensor([[0.5, 0.25, 0.25]])
    stages = [
        (row, torch.ones(1, 3), 1.0),
        (row, torch.tensor([[4.0, 0.0, 0.0]]), 1.0),
        (row, torch.tensor([[4.0, 0.0, 0.0]]), 2.0),
        (row, torch.tensor([[0.0, 1.0, -3.0]]), 0.5),
        (torch.tensor([[0.5, 0.5], [0.25, 0.75]]), torch.tensor([[4.0, 0.0], [0.0, 8.0]]), 1.0),
        # Saturated: one weight has everything, and nothing moves any more.
        (torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1.0, 2.0, 3.0]]), 1.0),
        _weights_and_upstream(3, 5, 0.7),
    ]
    if thorough:
        sizes = [(7, 2, 1.9), (1, 13, 0.11), (5, 5, 5.0), (2, 1, 3.0)]
        stages += [_weights_and_upstream(*each) for each in sizes]
    for stage in stages:
        _expect_gradient(candidate, *stage)


def _weights_and_upstream(
    batch: int, size: int, temperature: float
) -> tuple[Tensor, Tensor, float]:
    return torch.randn(batch, size).softmax(dim=-1), torch.randn(batch, size), temperature


def _expect_gradient(
    candidate: object, weights: Tensor, upstream: Tensor, temperature: float
) -> None:
    what = "softmax_gradient"
    inputs = {"weights": weights, "upstream": upstream, "temperature": temperature}
    with torch.no_grad():  # the gradient is to be written, not asked for
        answer = in_32_bits(call_twice(candidate, inputs))
    hint = "One number for each score: (batch, n)."
    if type(answer) is Tensor and answer.shape[-2:] == (weights.size(1), weights.size(1)):
        hint = (
            "This looks like the whole Jacobian. Each ∂p_k/∂z_l is still to be multiplied by "
            "upstream_k, and summed over k."
        )
    got = expect_tensor(answer, weights.shape, f"the answer of {what}", inputs, hint)
    expected = _by_autograd(temperature * weights.log(), upstream, temperature)
    if not torch.allclose(got, expected, RTOL, ATOL):
        raise CheckFailed(
            f"  {what}: {_why_not(candidate, got, expected, weights, upstream, temperature)}\n"
            f"{describe(inputs)}\n  got         {show(got)}\n"
            f"  expected    {show(expected.round(decimals=6) + 0.0)}"  # + 0.0: no -0.0
        )


def _why_not(
    candidate: object,
    got: Tensor,
    expected: Tensor,
    weights: Tensor,
    upstream: Tensor,
    temperature: float,
) -> str:
    """Say what a wrong gradient breaks, in the order of the stages."""
    if (upstream == 1).all():
        return (
            "here the loss is the sum of the weights, which is 1 whatever the scores are, so the "
            f"gradient must be 0. {_why_not_zero(got, weights)}"
        )
    for power, said in (
        (
            1,
            "1 / temperature is missing. The softmax reads score / temperature, and that inner "
            "function has a derivative too.",
        ),
        (2, "the gradient is multiplied by the temperature; divide by it."),
        (-1, "the gradient is divided by the temperature twice; once is right."),
    ):
        if torch.allclose(got, expected * temperature**power, RTOL, ATOL):
            return said
    if torch.allclose(got, -expected, RTOL, ATOL):
        return "the sign is turned."
    rows = zip(weights.split(1), upstream.split(1), strict=True)
    alone = [
        in_32_bits(call(candidate, {"weights": w, "upstream": u, "temperature": temperature}))
        for w, u in rows
    ]
    if torch.allclose(torch.cat([each for each in alone if type(each) is Tensor]), expected):
        return (
            "each row alone is right, both together are not: a row must not depend on another "
            "one. Sum along the last axis and keep it: dim=-1, keepdim=True."
        )
    if got.sum().abs() > ATOL:
        return (
            "adding the same number to every score changes no weight, so the entries of the "
            f"gradient sum to 0. Yours sum to {float(got.sum()):.4g}: is a factor p_l missing?"
        )
    return "this is not the gradient that autograd finds."


def _why_not_zero(got: Tensor, weights: Tensor) -> str:
    if torch.allclose(got, weights):
        return "Yours looks at each weight alone; a score also lowers all the other weights."
    if torch.allclose(got, weights - weights.square()):
        return "Yours has ∂p_k/∂z_k, but where k is not l there is ∂p_k/∂z_l too: -p_k p_l."
    if torch.allclose(got, torch.ones_like(got)):
        return "Yours is the upstream gradient, as if scores were weights."
    return "Is upstream summed as it is? It counts in proportion to the weights."


_SAID_OF_ALIVE = {
    "none": "the list is empty, but at some of these temperatures the gradient is alive.",
    "dead": "these are the temperatures at which the gradient is dead. Return the others.",
    "signed": "the sign counts here, but -0.3 is as strong as 0.3: take .abs() before .max().",
    "norm": "several entries are put together, as a norm does; the largest single one is asked "
    "for.",
    "negative": "only entries below 0 are looked at; take .abs() before .max().",
    "summed": "the entries seem to be added up; the largest one is asked for.",
    "mean": "the mean of the entries seems to be taken; the largest one is asked for.",
    "weights at 1": "the softmax that gives the weights is to read scores / temperature.",
    "scores": "these are all the temperatures. Is softmax_gradient given scores? It takes weights, "
    "so make them first: softmax(scores / temperature).",
    "gradient at 1": "the gradient is not told the temperature: pass it on.",
    "every row": "one row is enough: the largest entry of all rows together is asked for.",
    "sorted": "return them in the order in which they came.",
    "multiplied": "the scores are multiplied by the temperature before the softmax; divide them.",
    "above": "at 1 the largest entry is exactly the bound. At least `bound` means >=.",
}
_TEMPERATURES = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
# Scores, upstream, temperatures and bound; the answer, and those of the mistakes.
_ALIVE: list[tuple[dict[str, object], list[float], dict[str, list[float]]]] = [
    (
        {
            "scores": torch.tensor([[2.0, 1.0, 0.0]]),
            "upstream": torch.tensor([[-1.0, 0.0, 0.0]]),
            "temperatures": _TEMPERATURES,
            "bound": 0.03,
        },
        [0.2, 0.5, 1.0, 2.0, 5.0],
        {
            "none": [],
            "dead": [0.05, 0.1, 10.0, 20.0, 50.0],
            "signed": [0.2, 0.5, 1.0, 2.0],
            "summed": [0.2, 0.5, 1.0, 2.0, 5.0, 10.0],
            "mean": [0.5, 1.0, 2.0, 5.0],
            "weights at 1": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0],
            "scores": _TEMPERATURES,
            "gradient at 1": [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
            "multiplied": [0.05, 0.1, 0.2, 0.5, 1.0, 2.0],
        },
    ),
    (
        {
            "scores": torch.tensor([[2.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
            "upstream": torch.tensor([[0.0, 0.0, 0.5], [0.0, -3.0, 0.0]]),
            "temperatures": [10.0, 0.1, 1.0, 0.3, 100.0, 0.05],
            "bound": 0.04,
        },
        [10.0, 1.0, 0.3],
        {"every row": [1.0], "sorted": [0.3, 1.0, 10.0]},
    ),
    (  # Halves and doubles, so the bound is met without rounding.
        {
            "scores": torch.tensor([[0.0, 0.0]]),
            "upstream": torch.tensor([[4.0, 0.0]]),
            "temperatures": [0.5, 1.0, 2.0],
            "bound": 1.0,
        },
        [0.5, 1.0],
        {"above": [0.5]},
    ),
    (  # At 1 the entries of a row are 2/3, -1/3 and -1/3: only together they reach the bound.
        {
            "scores": torch.zeros(2, 3),
            "upstream": torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 0.0]]),
            "temperatures": [0.5, 1.0, 2.0],
            "bound": 0.7,
        },
        [0.5],
        {"summed": [0.5, 1.0, 2.0], "negative": [], "norm": [0.5, 1.0]},
    ),
]
_FURTHER_ALIVE: list[tuple[dict[str, object], list[float], dict[str, list[float]]]] = [
    (_ALIVE[1][0] | {"bound": 5.0}, [], {}),
    (
        {
            "scores": torch.tensor([[5.0, 0.0], [0.0, 0.5], [1.0, 3.0]]),
            "upstream": torch.tensor([[1.0, 0.0], [0.0, 1.0], [-4.0, 1.0]]),
            "temperatures": [0.02, 0.3, 3.0, 30.0, 300.0],
            "bound": 0.06,
        },
        [0.3, 3.0],
        {},
    ),
]


def _check_alive(alive: object, thorough: bool) -> None:
    for inputs, expected, mistakes in _ALIVE + _FURTHER_ALIVE * thorough:
        known = [
            Twin(f"alive: {_SAID_OF_ALIVE[name]}", lambda *_, found=found: found)
            for name, found in mistakes.items()
        ]
        hint = "Return the temperatures themselves, those at which the gradient is alive."
        expect_value(call_twice(alive, inputs), expected, "alive", inputs, known, hint)


# Part 4


def _surprises(logits: Tensor, targets: Tensor) -> Tensor:
    log_probabilities = logits.log_softmax(dim=-1)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _of_the_targets(values: Tensor, targets: Tensor) -> Tensor:
    return values.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


_SURPRISE_TWINS = (
    Twin(
        "The surprise is measured in bits, by log2. Nats are asked for: the natural logarithm.",
        lambda z, y: _surprises(z, y) / math.log(2),
    ),
    Twin(
        "The sign is turned: the logarithm of a probability is negative, the surprise is not.",
        lambda z, y: -_surprises(z, y),
    ),
    Twin(
        "These are the probabilities of the targets; the surprise is -log of it.",
        lambda z, y: (-_surprises(z, y)).exp(),
    ),
    Twin(
        "The logits are taken for logarithms of probabilities. They become so only once the "
        "logarithm of the sum of all exp(logit) is subtracted.",
        lambda z, y: -_of_the_targets(z, y),
    ),
    Twin(
        "The softmax runs over the positions; a position's probabilities are shared among the "
        "words: the last axis.",
        lambda z, y: -_of_the_targets(z.log_softmax(dim=1), y),
    ),
    Twin(
        "This is the surprise at the most probable word; the target's is asked for.",
        lambda z, y: -z.log_softmax(dim=-1).max(dim=-1).values,
    ),
    Twin(
        "This is the mean surprise over all words, the entropy. The surprise at one word, the "
        "target, is asked for.",
        lambda z, y: -(z.softmax(dim=-1) * z.log_softmax(dim=-1)).sum(dim=-1),
    ),
    Twin(
        "Every sentence got the targets of the first one.",
        lambda z, y: _surprises(z, y[:1].expand_as(y)),
    ),
    Twin(
        "The largest logit is subtracted from the other logits, not from the target's. Subtract it "
        "once, from all, and go on with what is left.",
        lambda z, y: _surprises(z, y) - z.max(dim=-1).values,
    ),
    Twin(
        "The largest logit is subtracted from the target's, not inside the exp. Subtract it once, "
        "from all, and go on with what is left.",
        lambda z, y: _surprises(z, y) + z.max(dim=-1).values,
    ),
    Twin(
        "There is infinity: softmax rounds a tiny probability to 0, and log(0) is -infinity. Take "
        "the logarithm by formula: log p = logit - largest - log(sum of exp(logit - largest)).",
        lambda z, y: -_of_the_targets(z.softmax(dim=-1).log(), y),
    ),
    *known(
        "exp(1000) overflows. Subtract the largest logit of each position before exp.",
        lambda z, y: _of_the_targets(z.exp().sum(dim=-1, keepdim=True).log() - z, y),
        lambda z, y: -_of_the_targets((z.exp() / z.exp().sum(dim=-1, keepdim=True)).log(), y),
    ),
)
_CUT_OFF = (
    "An unlikely word's surprise is cut off: is a small number added to the probability, or is it "
    "clamped? Take the logarithm by formula: log p = logit - largest - log(sum of exp(logit - "
    "largest))."
)
# "de rien END" in the vocabulary <pad>, de, rien, merci, END: probabilities 1/2, 1/4 and 1/8.
_DE_RIEN = torch.tensor([[[1, 8, 4, 2, 1], [2, 4, 4, 4, 2], [4, 6, 2, 2, 2]]]).div(16).log() + 3
_DE_RIEN_END = torch.tensor([[1, 2, 4]])


@_parts.part("surprise", "surprises")
def surprises(candidate: object, thorough: bool = False) -> None:
    """Check the surprise at each target, at last on what the trained translator says."""
    stages = [
        (_DE_RIEN[:, :1], _DE_RIEN_END[:, :1]),
        (_DE_RIEN, _DE_RIEN_END),
        (torch.tensor([[[1000.0, 999.0, 998.0]]]), torch.tensor([[1]])),
        (torch.tensor([[[1000.0, 0.0, -1000.0]]]), torch.tensor([[1]])),
        _logits_and_targets(2, 3, 5),
    ]
    if thorough:
        sizes = [(7, 2, 3), (1, 1, 13), (3, 11, 2), (5, 5, 5)]
        stages += [_logits_and_targets(*size) for size in sizes]
        logits, targets = _logits_and_targets(2, 7, 11)
        stages.append((300 * logits, targets))
    reading = read()
    stages.append((reading.logits, reading.targets))
    for logits, targets in stages:
        _expect_surprises(candidate, {"logits": logits, "targets": targets})
    logits, targets = _logits_and_targets(2, 3, 5)
    inputs = {"logits": logits.requires_grad_(), "targets": targets}
    expect_gradients_through(candidate, inputs, {"logits": logits})


def _logits_and_targets(batch: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, length, vocab), torch.randint(vocab, (batch, length))


def _expect_surprises(candidate: object, inputs: Mapping[str, Tensor]) -> None:
    answer = in_32_bits(call_twice(candidate, inputs))
    expected = _surprises(*inputs.values())
    twins = list(_SURPRISE_TWINS)
    if (
        type(answer) is Tensor
        and answer.shape == expected.shape
        and answer.isfinite().all()
        and 0 < answer.max() < 100 < expected.max()
    ):
        twins = [Twin(_CUT_OFF, lambda *_: answer)]
    hint = _of_the_shape(tuple(answer.shape), *inputs.values()) if type(answer) is Tensor else ""
    expect_equal(answer, expected, "the surprises", inputs, twins, hint)


def _of_the_shape(shape: tuple[int, ...], logits: Tensor, targets: Tensor) -> str:
    """Say what may have made a wrong shape of the surprises."""
    one_for_each = "One number for each target, (batch, len)"
    if shape == logits.shape:
        return f"{one_for_each}, not for each word: pick the target's. gather does it."
    if shape == (*targets.shape, 1):
        return f"{one_for_each}: the last axis, which gather needs, is to go: .squeeze(-1)."
    if shape == targets.squeeze().shape:
        return (
            f"{one_for_each}: nothing is averaged yet. Or is it .squeeze()? That takes away every "
            "axis of size 1, squeeze(-1) the last one only."
        )
    return f"{one_for_each}: nothing is averaged yet."


# Part 5


def _mean(surprises: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return surprises[targets != pad_id].mean()


def _sentence_means(surprises: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    rows = zip(surprises, targets, strict=True)
    return torch.stack([_mean(*row, pad_id) for row in rows])


_MEAN_TWINS = (
    Twin("Padding is counted like a word. It is none: leave it out.", lambda s, y, pad: s.mean()),
    Twin(
        "Padding is left out of the sum, but still counted in the number that it is divided by.",
        lambda s, y, pad: (s * (y != pad)).sum() / y.numel(),
    ),
    Twin(
        "Padding is left out of the number that it is divided by, but its surprises are still in "
        "the sum.",
        lambda s, y, pad: s.sum() / (y != pad).sum(),
    ),
    Twin(
        "This is the mean of the sentences' means: a word in a short sentence counts more than one "
        "in a long sentence. Sum over the whole batch, then divide once.",
        lambda s, y, pad: _sentence_means(s, y, pad).mean(),
    ),
    Twin(
        "This is the mean over the padding: the comparison is the wrong way round.",
        lambda s, y, pad: s[y == pad].mean(),
    ),
    Twin(
        "This is the sum, or the sum divided by the number of sentences. Divide it by the number "
        "of real words.",
        lambda s, y, pad: s[y != pad].sum() / len(y),
    ),
    Twin(
        "0 is taken for padding, but here pad_id is another number. Compare with pad_id.",
        lambda s, y, pad: _mean(s, y, 0),
    ),
    Twin(
        "Surprises of 0 are left out. A word that was certain is a word: compare the targets with "
        "pad_id.",
        lambda s, y, pad: s[(s != 0) & (y != pad)].mean(),
    ),
)
_PERPLEXITY_TWINS = (
    Twin(
        "This is e to the sum, not to the mean: it grows with every word.",
        lambda s, y, pad: s[y != pad].sum().exp(),
    ),
    Twin(
        "This is the mean of e to the surprise. First the mean, then exp.",
        lambda s, y, pad: s[y != pad].exp().mean(),
    ),
    Twin(
        "This is 2 to the mean. Surprise in nats comes from the natural logarithm, so take e.",
        lambda s, y, pad: 2 ** _mean(s, y, pad),
    ),
    Twin(
        "This is e to minus the mean: a probability. Perplexity is 1 over it.",
        lambda s, y, pad: (-_mean(s, y, pad)).exp(),
    ),
    Twin("This is the mean surprise; take e to the power of it.", _mean),
    Twin(
        "Padding is counted like a word. It is none: leave it out.",
        lambda s, y, pad: s.mean().exp(),
    ),
    Twin(
        "Padding is left out of the sum, but still counted in the number that it is divided by.",
        lambda s, y, pad: ((s * (y != pad)).sum() / y.numel()).exp(),
    ),
    Twin(
        "Padding is left out of the number that it is divided by, but its surprises are still in "
        "the sum.",
        lambda s, y, pad: (s.sum() / (y != pad).sum()).exp(),
    ),
    Twin(
        "This starts from the mean of the sentences' means. Sum over the whole batch, divide once.",
        lambda s, y, pad: _sentence_means(s, y, pad).mean().exp(),
    ),
    Twin(
        "This is the mean of the sentences' perplexities. Take the mean over all words, then exp.",
        lambda s, y, pad: _sentence_means(s, y, pad).exp().mean(),
    ),
)


_NO_TENSOR = (
    "  mean_surprise: this is a plain number, which carries no gradient, so nothing could be "
    "learned from it. Return the tensor, without .item() or float()."
)


@_parts.part("perplexity", "mean_surprise", "perplexity")
def perplexity(mean_surprise: object, perplexity: object, thorough: bool = False) -> None:
    """Check the mean surprise over real words, and e to the power of it."""
    de_rien = _surprises(_DE_RIEN, _DE_RIEN_END)
    two = torch.cat([de_rien, torch.tensor([[0.5, 3.0, 3.0]])])
    stages: list[tuple[Tensor, Tensor, int]] = [
        (de_rien, _DE_RIEN_END, 0),
        (two, torch.tensor([[1, 2, 4], [4, 0, 0]]), 0),
        (two, torch.tensor([[0, 1, 2], [2, 3, 3]]), 3),
        (torch.tensor([[0.0, 1.0, 2.0, 0.5]]), torch.tensor([[1, 2, 3, 0]]), 0),
        _padded(3, 5, 7),
    ]
    if thorough:
        stages += [_padded(7, 2, 0), _padded(2, 11, 3), _padded(1, 1, 5), _padded(13, 3, 1)]
    for name, candidate, twins in (
        ("mean_surprise", mean_surprise, _MEAN_TWINS),
        ("perplexity", perplexity, _PERPLEXITY_TWINS),
    ):
        for surprises, targets, pad_id in stages:
            inputs = {"surprises": surprises, "targets": targets, "pad_id": pad_id}
            expected = _mean(surprises, targets, pad_id)
            if name == "perplexity":
                expected = expected.exp()
            known = [Twin(f"{name}: {said}", wrong) for said, wrong in twins]
            answer = in_32_bits(call_twice(candidate, inputs))
            if isinstance(answer, np.ndarray) and answer.ndim == 0:
                answer = answer.item()
            what = f"the answer of {name}"
            number = None if isinstance(answer, Tensor) else plain_number(answer)
            if number is not None:
                if name == "mean_surprise":
                    raise CheckFailed(_NO_TENSOR)
                answer = torch.tensor(float(number))
            expect_equal(answer, expected, what, inputs, known, "One number: sum over both axes.")
    surprises, targets, pad_id = _padded(2, 3, 5)
    surprises.requires_grad_()

    def with_pad_id(surprises: Tensor, targets: Tensor) -> object:
        return mean_surprise(surprises, targets, pad_id)  # type: ignore[operator]

    given = {"surprises": surprises, "targets": targets}
    expect_gradients_through(with_pad_id, given, {"surprises": surprises})


def _padded(batch: int, length: int, pad_id: int) -> tuple[Tensor, Tensor, int]:
    """Return surprises and targets of sentences of different lengths, padded with `pad_id`."""
    surprises = torch.rand(batch, length)
    targets = pad_id + 1 + torch.randint(5, (batch, length))
    lengths = torch.tensor([1 + (2 * row + 1) % length for row in range(batch)])
    targets[torch.arange(length) >= lengths.unsqueeze(1)] = pad_id
    return surprises, targets, pad_id
