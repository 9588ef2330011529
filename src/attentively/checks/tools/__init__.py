"""Checks of the assignment on the tools: shapes, softmax, gradient, likelihood and perplexity.

Parts 2, 4 and 5 are compared with PyTorch. Parts 1 and 3 are original problems, and this module
contains no solution to them: the expected shapes and gradients are computed by PyTorch, and a
mistake is recognised by the property that it violates.
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
    "nll",
    "once_solved",
    "perplexity",
    "progress",
    "read",
    "readings",
    "ready",
    "shapes",
    "softmax",
    "write",
]

MODEL = "toy-additive"
"""The trained translation model in which the student's functions are used."""

SENTENCES = {
    "the cat drinks the milk": "le chat boit le lait",
    "the girl does not see the white horse": "la fille ne voit pas le cheval blanc",
    "my uncle hears the small dog": "mon oncle entend le petit chien",
}

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Show that PyTorch, the package, a trained model and these checks work."""
    _parts.explain_undefined_names()
    sentence = next(iter(SENTENCES))
    translation = translate(load_pretrained(MODEL), [sentence], beam_size=1)[0]
    print(f"PyTorch {torch.__version__} works: 2 + 3 = {int(torch.tensor(2) + 3)}.")
    print(f"The package works: it translates “{sentence}” as “{translation.text}”.")
    try:
        softmax(lambda scores: scores / scores.sum(dim=-1, keepdim=True))
    except CheckFailed as verdict:
        print("The checks work. Example of a failed check (not of your work): for an answer")
        print("without exp, the check of part 2 says:\n")
        print(verdict)


# The trained translation model


class Reading(NamedTuple):
    """What the translation model outputs when it reads given translations."""

    logits: Tensor
    """For each position, a score of every word of the vocabulary: (batch, len, vocab)."""
    targets: Tensor
    """The ids of the words of the translations, ``<end>`` and padding included: (batch, len)."""
    words: list[list[str]]
    """The words of each translation, ``<end>`` included."""
    pad_id: int


def read(sentences: Mapping[str, str] = SENTENCES) -> Reading:
    """Return the logits of the translation model for sentences and given translations of them."""
    model, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    src = pad([src_tokenizer.encode(sentence) for sentence in sentences], PAD_ID)
    ids = [target_ids(tgt_tokenizer, sentence) for sentence in sentences.values()]
    tgt = pad(ids, PAD_ID)
    with torch.no_grad():
        logits = model(src, tgt[:, :-1])
    words = [tgt_tokenizer.tokens(sentence[1:]) for sentence in ids]
    return Reading(logits, tgt[:, 1:], words, PAD_ID)


def readings(num_pairs: int = 100) -> dict[str, Reading]:
    """Return the logits for unseen sentences, with their own and with other translations."""
    pairs = toy.load("validation", num_pairs, clauses=(1, 2))
    sources, targets = [pair.src_text for pair in pairs], [pair.tgt_text for pair in pairs]
    shifted = targets[1:] + targets[:1]
    return {
        "correct translations": read(dict(zip(sources, targets, strict=True))),
        "wrong translations": read(dict(zip(sources, shifted, strict=True))),
    }


def write(
    softmax: Callable[[Tensor], Tensor], sentence: str, most: int = 30
) -> list[tuple[str, float]]:
    """Translate by greedy search, where `softmax` computes the probabilities from the scores.

    Returns each word with its probability, and stops after `most` words at the latest.
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
"""Two shapes, and for each wrong result that a known mistake gives, the diagnosis."""

_LARGER = "two different sizes fit only if one of them is 1. The larger size is not enough."
_ZERO = "a size of 0 is not 1: it fits only 0 and 1."
_COMMON = "only the axes that both shapes have are here. The other axes of the longer shape stay."
_FIRST = (
    "the axes before the last two are those of a alone. They are broadcast as in a sum, so those "
    "of b count as well."
)
# In an order in which each mistake fails first where it is named.
_SUMS: list[Case] = [
    (
        (2, 3),
        (2, 3),
        {
            (3, 2): "the axes are in reverse order. If you start from the last axis, reverse the "
            "result at the end.",
            (2, 3, 2, 3): "these are the axes of a followed by those of b.",
            (4, 6): "the sizes are added. A sum adds the values; its shape stays the same.",
        },
    ),
    ((2, 3), (5, 3), {(5, 3): _LARGER}),
    (
        (2, 3),
        (2, 1),
        {(2, 1): "the axis of size 1 is expanded to the other size; the other one stays as it is."},
    ),
    (
        (2, 3),
        (2,),
        {
            (2, 3): "the shapes are aligned at their first axes. Broadcasting aligns them at the "
            "last: here 3 is compared with 2."
        },
    ),
    ((2, 3), (3,), {(3,): _COMMON}),
    ((3,), (2, 3), {(3,): _COMMON}),
    (
        (2, 1, 5),
        (3, 1),
        {
            (3, 5): _COMMON,
            (2, 1, 5): "this is the longer shape unchanged. Where its size is 1, the size of the "
            "other shape is used.",
        },
    ),
    ((7, 3, 11), (7, 1, 5), {(7, 3, 11): _LARGER}),
    (
        (0,),
        (1,),
        {(1,): "a size of 1 is expanded to the other size, here 0. The larger size is not enough."},
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
            (2, 3, 5): "the inner axis is still there. The product sums over it, so it disappears.",
            (2, 3, 3, 5): "these are the axes of a followed by those of b.",
            (5, 2): "the last two axes are exchanged: first the rows of a, then the columns of b.",
        },
    ),
    (
        (2, 3),
        (2, 5),
        {
            (2, 5): "the rows of a have 3 entries, but the columns of b have 2. This product does "
            "not exist, so the expected answer is None."
        },
    ),
    (
        (2, 3, 4, 5),
        (2, 3, 5, 6),
        {
            (2, 3, 4, 2, 3, 6): "the axes before the last two appear twice. They are shared: "
            "matrix i of a is multiplied by matrix i of b only.",
            (4, 6): "the axes before the last two are missing. The result contains one product for "
            "each pair of matrices.",
        },
    ),
    ((2, 3, 5), (7, 5, 11), {(2, 3, 11): _FIRST, (7, 3, 11): _LARGER}),
    (
        (7, 2, 3),
        (3, 5),
        {(2, 5): "the first axis of a is missing. The axes before the last two are broadcast."},
    ),
    ((2, 3), (7, 3, 5), {(2, 5): _FIRST}),
    ((5, 1, 2, 3), (7, 3, 11), {(5, 1, 2, 11): _FIRST}),
    (
        (2, 1),
        (3, 5),
        {
            (2, 5): "only the axes before the last two are broadcast. The two inner sizes must be "
            "equal."
        },
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
    """Compare two predictions of shapes with PyTorch, and test an equation by applying it."""
    fits = "they are aligned at the last axis, a missing axis counts as 1, and 1 fits every size"
    for case in _SUMS + _FURTHER_SUMS * thorough:
        _expect_shape(sum_shape, "sum_shape", torch.add, case, f"adds them: {fits}")
    fits = (
        "the last size of a equals the second to last of b, and the axes before them are broadcast"
    )
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
        said = f"you return None, but PyTorch {why_it_fits}."
        known.append(Twin(f"{what}: {said} Is there a `return`?", lambda *_: None))
    except RuntimeError as error:
        expected = None
        said = f"these shapes do not fit, so the expected answer is None. PyTorch says: {error}."
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
        letters = [part.replace(" ", "") for part in written.split("->")[0].split(",")]
        said = f"PyTorch rejects it: {error}."
        if len(letters) == 2 and any(len(each) != 3 and each.isalpha() for each in letters):
            said = (
                "a and b have three axes each, so each needs three letters before the arrow. You "
                f"wrote {letters[0]!r} for a and {letters[1]!r} for b."
            )
        raise CheckFailed(f"  equation: {said}\n{called}") from None
    expected = b @ a.transpose(1, 2)
    if got.shape == expected.shape and torch.allclose(got, expected, RTOL, ATOL):
        return
    turned = expected.transpose(1, 2)
    if "->" not in written:
        diagnosis = "there is no arrow. The letters after -> name the axes of the result."
    elif got.shape == turned.shape != expected.shape and torch.allclose(got, turned, RTOL, ATOL):
        diagnosis = (
            "the products are right, but the axes of the result are in another order. The order "
            "of the letters after the arrow determines it."
        )
    elif got.dim() < expected.dim():
        diagnosis = (
            "an axis is missing. einsum sums over every letter that is missing after the arrow, "
            "and here only the last axis of a and b must be summed over."
        )
    elif got.dim() > expected.dim():
        diagnosis = (
            "the result has one axis too many. Omit the letter of the axis that must be summed "
            "over after the arrow."
        )
    else:
        diagnosis = (
            "the values are wrong, even if the shape is right. An axis that a and b share has the "
            "same letter in both: the batch, and the axis that is summed over."
        )
    raise CheckFailed(
        f"  equation: {diagnosis}\n{called}\n  got         a tensor of shape {tuple(got.shape)}\n"
        f"  expected    (batch, b_len, a_len) = {tuple(expected.shape)}"
    )


# Part 2


def _divided_by_column(scores: Tensor, largest: Tensor) -> Tensor:
    exponentials = (scores - largest).exp()
    return exponentials / exponentials.sum(dim=-1)


_OVERFLOW = (
    "The weights contain NaN: exp(1000) overflows to infinity, exp(-1000) is rounded to 0, and "
    "both inf / inf and 0 / 0 give NaN. Subtract the largest score of each row before exp. This "
    "changes no weight."
)
_UNDERFLOW = (
    "The weights contain NaN: every exp of a row is rounded to 0, and 0 / 0 gives NaN. Do you "
    "subtract a constant? Subtract the largest score of each row, so that each row contains "
    "exp(0) = 1."
)
_SOFTMAX_TWINS = (
    Twin(
        "The exp is missing: a negative score gives a negative weight.",
        lambda s: s / s.sum(dim=-1, keepdim=True),
    ),
    *known(
        "The exponentials are not divided by their sum, so the weights do not sum to 1.",
        lambda s: s.exp(),
        lambda s: (s - s.max(dim=-1, keepdim=True).values).exp(),
    ),
    Twin(
        "These are the logarithms of the weights. Return the weights themselves.",
        lambda s: s.log_softmax(dim=-1),
    ),
    Twin(
        "This is the sigmoid of each score. The weights of each row must sum to 1.",
        torch.sigmoid,
    ),
    *known(
        "The sums of the rows are broadcast along the wrong axis: column 1 is divided by the sum "
        "of row 1, and so on. Keep the axis that is summed over: keepdim=True.",
        lambda s: _divided_by_column(s, s.max(dim=-1, keepdim=True).values),
        lambda s: _divided_by_column(s, s.max()),
    ),
    *known(
        "The largest scores of the rows are broadcast along the wrong axis. Keep the axis that is "
        "reduced: keepdim=True, in max as well as in sum.",
        lambda s: _divided_by_column(s, s.max(dim=-1).values),
        lambda s: (s - s.max(dim=-1).values).softmax(dim=-1),
    ),
    Twin(
        "The weights sum to 1 over the whole tensor. Each row must sum to 1: dim=-1.",
        lambda s: s.flatten().softmax(dim=0).reshape(s.shape),
    ),
    Twin(
        "The weights sum to 1 over the first axis. They must sum to 1 over the last: dim=-1.",
        lambda s: s.softmax(dim=0),
    ),
    Twin(
        "The weights sum to 1 over the second axis, which is the last one only if there are two. "
        "Use dim=-1.",
        lambda s: s.softmax(dim=1),
    ),
    Twin(
        "The scores are divided by the largest score. This changes their differences, and "
        "therefore the weights. Subtract the largest score instead.",
        lambda s: (s / s.max(dim=-1, keepdim=True).values).softmax(dim=-1),
    ),
    Twin(
        "NaN seems to be replaced afterwards, as by nan_to_num, so the row no longer sums to 1. "
        "Avoid NaN: subtract the largest score of each row before exp.",
        lambda s: (s.exp() / s.exp().sum(dim=-1, keepdim=True)).nan_to_num(0.0),
    ),
    Twin(
        "All weights are equal although the scores are not. Are large scores clamped? This changes "
        "their differences. Subtract the largest score instead.",
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
        "One row contains NaN: the largest score of the whole tensor is subtracted, so every exp "
        "of a row with much lower scores is rounded to 0. Subtract the largest score of each row "
        "(hint 2).",
    ),
    (
        torch.tensor([[0.0, 0.0, 500.0]]),
        "The weights contain NaN: the value that is subtracted is not the largest score of the "
        "row, so exp can still overflow. After the subtraction, the largest score must be 0.",
    ),
]


@_parts.part(
    "softmax",
    "softmax",
    rebuilds=("torch:softmax",),
    refuses=(
        "torch.nn.functional:softmax",
        "torch:Tensor.softmax",
        "torch.special:softmax",
        "torch.nn:Softmax",
    ),
)
def softmax(candidate: object, thorough: bool = False) -> None:
    """Check a softmax over the last axis, finally inside the trained translation model."""
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
    hint = "Return one weight for each score."
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
    """Check a gradient written by hand, and the temperatures at which it does not vanish."""
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
        # Saturated: one weight is 1, and the gradient is 0.
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
    with torch.no_grad():  # the gradient must be computed without autograd
        answer = in_32_bits(call_twice(candidate, inputs))
    hint = "Return one value for each score: (batch, n)."
    if type(answer) is Tensor and answer.shape[-2:] == (weights.size(1), weights.size(1)):
        hint = (
            "This looks like the whole Jacobian. Multiply each ∂p_k/∂z_l by upstream_k, and sum "
            "over k."
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
    """Return which property a wrong gradient violates, in the order of the stages."""
    if (upstream == 1).all():
        return (
            "here the loss is the sum of the weights, which is 1 for all scores, so the gradient "
            f"must be 0. {_why_not_zero(got, weights)}"
        )
    for power, said in (
        (
            1,
            "the factor 1 / temperature is missing. The softmax is applied to score / temperature, "
            "and this inner function has a derivative, too.",
        ),
        (2, "the gradient is multiplied by the temperature. Divide by it instead."),
        (-1, "the gradient is divided by the temperature twice. Divide once."),
    ):
        if torch.allclose(got, expected * temperature**power, RTOL, ATOL):
            return said
    if torch.allclose(got, -expected, RTOL, ATOL):
        return "the sign is wrong."
    rows = zip(weights.split(1), upstream.split(1), strict=True)
    alone = [
        in_32_bits(call(candidate, {"weights": w, "upstream": u, "temperature": temperature}))
        for w, u in rows
    ]
    if torch.allclose(torch.cat([each for each in alone if type(each) is Tensor]), expected):
        return (
            "each row alone is right, but both together are not. No row may depend on another row. "
            "Sum over the last axis and keep it: dim=-1, keepdim=True."
        )
    if got.sum().abs() > ATOL:
        return (
            "adding the same value to every score changes no weight, so the entries of the "
            f"gradient sum to 0. Yours sum to {float(got.sum()):.4g}. Is the factor p_l missing?"
        )
    return "this is not the gradient that autograd computes."


def _why_not_zero(got: Tensor, weights: Tensor) -> str:
    if torch.allclose(got, weights):
        return "Yours is p_l alone. A higher score also lowers all other weights."
    if torch.allclose(got, weights - weights.square()):
        return "Yours contains only ∂p_k/∂z_k. For k ≠ l, ∂p_k/∂z_l is -p_k p_l."
    if torch.allclose(got, torch.ones_like(got)):
        return "Yours is the upstream gradient itself, so the softmax is ignored."
    return "Is upstream summed without the weights? Multiply it by the weights first."


_SAID_OF_ALIVE = {
    "none": "the list is empty, but at some of these temperatures the gradient does not vanish.",
    "dead": "these are the temperatures at which the gradient vanishes. Return the others.",
    "signed": "negative entries are ignored, but -0.3 is as large as 0.3 here. Use .abs() before "
    ".max().",
    "norm": "several entries seem to be combined, as in a norm. Use the largest single entry.",
    "negative": "only negative entries are used. Use .abs() before .max().",
    "summed": "the entries seem to be summed. Use the largest entry.",
    "mean": "the mean of the entries seems to be used. Use the largest entry.",
    "weights at 1": "the weights are those of temperature 1. Compute softmax(scores / "
    "temperature).",
    "scores": "these are all the temperatures. Does softmax_gradient receive scores? It needs "
    "weights: softmax(scores / temperature).",
    "gradient at 1": "softmax_gradient does not receive the temperature. Pass it as the third "
    "argument.",
    "every row": "every row seems to need a large entry. Use the largest entry of all rows.",
    "sorted": "the temperatures are sorted. Return them in the given order.",
    "multiplied": "the scores are multiplied by the temperature before the softmax. Divide them.",
    "above": "at temperature 1 the largest entry equals the bound. At least `bound` means >=.",
}
_TEMPERATURES = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
# Scores, upstream, temperatures and bound; the right answer, and those of the mistakes.
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
    (  # Halves and doubles, so that the entry equals the bound without rounding.
        {
            "scores": torch.tensor([[0.0, 0.0]]),
            "upstream": torch.tensor([[4.0, 0.0]]),
            "temperatures": [0.5, 1.0, 2.0],
            "bound": 1.0,
        },
        [0.5, 1.0],
        {"above": [0.5]},
    ),
    (  # At 1 the entries of a row are 2/3, -1/3 and -1/3: only their sum reaches the bound.
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
        hint = "Return the temperatures themselves at which the gradient does not vanish."
        expect_value(call_twice(alive, inputs), expected, "alive", inputs, known, hint)


# Part 4


def _nll(logits: Tensor, targets: Tensor) -> Tensor:
    log_probabilities = logits.log_softmax(dim=-1)
    return -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _of_the_targets(values: Tensor, targets: Tensor) -> Tensor:
    return values.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


_NLL_TWINS = (
    Twin(
        "The result is in bits (log2). Use the natural logarithm, so that it is in nats.",
        lambda z, y: _nll(z, y) / math.log(2),
    ),
    Twin(
        "The sign is wrong: these are log-likelihoods. Return minus the logarithm.",
        lambda z, y: -_nll(z, y),
    ),
    Twin(
        "These are the probabilities of the targets. Return minus the logarithm of them.",
        lambda z, y: (-_nll(z, y)).exp(),
    ),
    Twin(
        "The logits are used as if they were log-probabilities. Subtract the logarithm of the sum "
        "of all exp(logit) from them first.",
        lambda z, y: -_of_the_targets(z, y),
    ),
    Twin(
        "The softmax runs over the positions. It must run over the words of the vocabulary, the "
        "last axis.",
        lambda z, y: -_of_the_targets(z.log_softmax(dim=1), y),
    ),
    Twin(
        "This is the negative log-likelihood of the most probable word. Use the target.",
        lambda z, y: -z.log_softmax(dim=-1).max(dim=-1).values,
    ),
    Twin(
        "This is the entropy, an average over all words of the vocabulary. Use only the target.",
        lambda z, y: -(z.softmax(dim=-1) * z.log_softmax(dim=-1)).sum(dim=-1),
    ),
    Twin(
        "The targets of the first sentence are used for every sentence.",
        lambda z, y: _nll(z, y[:1].expand_as(y)),
    ),
    Twin(
        "The largest logit is subtracted inside the exp, but not from the logit of the target. "
        "Subtract it from all logits once, and use the result in both terms.",
        lambda z, y: _nll(z, y) - z.max(dim=-1).values,
    ),
    Twin(
        "The largest logit is subtracted from the logit of the target, but not inside the exp. "
        "Subtract it from all logits once, and use the result in both terms.",
        lambda z, y: _nll(z, y) + z.max(dim=-1).values,
    ),
    Twin(
        "The result contains infinity: the softmax rounds a small probability to 0, and log(0) is "
        "-infinity. Compute the logarithm without the probability (hint 1).",
        lambda z, y: -_of_the_targets(z.softmax(dim=-1).log(), y),
    ),
    *known(
        "exp(1000) overflows to infinity. Subtract the largest logit of each position before exp.",
        lambda z, y: _of_the_targets(z.exp().sum(dim=-1, keepdim=True).log() - z, y),
        lambda z, y: -_of_the_targets((z.exp() / z.exp().sum(dim=-1, keepdim=True)).log(), y),
    ),
)
_CUT_OFF = (
    "The negative log-likelihood of an improbable word is too small. Is the probability clamped, "
    "or is a small constant added to it? Compute the logarithm without the probability (hint 1)."
)
# "de rien <end>" in the vocabulary <pad>, de, rien, merci, <end>: probabilities 1/2, 1/4, 1/8.
_DE_RIEN = torch.tensor([[[1, 8, 4, 2, 1], [2, 4, 4, 4, 2], [4, 6, 2, 2, 2]]]).div(16).log() + 3
_DE_RIEN_END = torch.tensor([[1, 2, 4]])


@_parts.part(
    "negative log-likelihood",
    "negative_log_likelihoods",
    rebuilds=("attentively.training.losses:cross_entropy",),
    refuses=("torch.nn.functional:cross_entropy",),
    step=True,
)
def nll(candidate: object, thorough: bool = False) -> None:
    """Check the negative log-likelihood of each target, finally with the trained model."""
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
        _expect_nll(candidate, {"logits": logits, "targets": targets})
    logits, targets = _logits_and_targets(2, 3, 5)
    inputs = {"logits": logits.requires_grad_(), "targets": targets}
    expect_gradients_through(candidate, inputs, {"logits": logits})


def _logits_and_targets(batch: int, length: int, vocab: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, length, vocab), torch.randint(vocab, (batch, length))


def _expect_nll(candidate: object, inputs: Mapping[str, Tensor]) -> None:
    answer = in_32_bits(call_twice(candidate, inputs))
    expected = _nll(*inputs.values())
    twins = list(_NLL_TWINS)
    if (
        type(answer) is Tensor
        and answer.shape == expected.shape
        and answer.isfinite().all()
        and 0 < answer.max() < 100 < expected.max()
    ):
        twins = [Twin(_CUT_OFF, lambda *_: answer)]
    hint = _of_the_shape(tuple(answer.shape), *inputs.values()) if type(answer) is Tensor else ""
    expect_equal(answer, expected, "the negative log-likelihoods", inputs, twins, hint)


def _of_the_shape(shape: tuple[int, ...], logits: Tensor, targets: Tensor) -> str:
    """Return a hint on a wrong shape of the negative log-likelihoods."""
    one_for_each = "Return one value for each target, (batch, len)"
    if shape == logits.shape:
        return f"{one_for_each}, not one for each word: select the target with gather."
    if shape == (*targets.shape, 1):
        return f"{one_for_each}: remove the last axis, which gather needs, with .squeeze(-1)."
    if shape == targets.squeeze().shape:
        return (
            f"{one_for_each}, without a mean. Or is it .squeeze()? It removes every axis of size "
            "1, whereas squeeze(-1) removes only the last one."
        )
    return f"{one_for_each}, without a mean."


# Part 5


def _mean(nll: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    return nll[targets != pad_id].mean()


def _sentence_means(nll: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    rows = zip(nll, targets, strict=True)
    return torch.stack([_mean(*row, pad_id) for row in rows])


_PADDING_COUNTED = "Padding is included in the mean. Exclude it."
_PADDING_BELOW = (
    "Padding is excluded from the sum, but not from the number of tokens by which it is divided."
)
_PADDING_ABOVE = "Padding is excluded from the number of tokens, but not from the sum above it."
_MEAN_TWINS = (
    Twin(_PADDING_COUNTED, lambda s, y, pad: s.mean()),
    Twin(_PADDING_BELOW, lambda s, y, pad: (s * (y != pad)).sum() / y.numel()),
    Twin(_PADDING_ABOVE, lambda s, y, pad: s.sum() / (y != pad).sum()),
    Twin(
        "This is the mean of the sentence means, in which a token of a short sentence has a larger "
        "weight. Sum over the whole batch, then divide once.",
        lambda s, y, pad: _sentence_means(s, y, pad).mean(),
    ),
    Twin(
        "This is the mean over the padding. The comparison must be !=.",
        lambda s, y, pad: s[y == pad].mean(),
    ),
    Twin(
        "This is the sum, or the sum divided by the number of sentences. Divide it by the number "
        "of real tokens.",
        lambda s, y, pad: s[y != pad].sum() / len(y),
    ),
    Twin(
        "The id 0 is treated as padding, but here pad_id has another value. Compare with pad_id.",
        lambda s, y, pad: _mean(s, y, 0),
    ),
    Twin(
        "Tokens with the value 0 are excluded. The value of a real token is 0 if its probability "
        "is 1. Compare the targets with pad_id instead.",
        lambda s, y, pad: s[(s != 0) & (y != pad)].mean(),
    ),
)
_PERPLEXITY_TWINS = (
    Twin(
        "This is e to the power of the sum. Use the mean, so that the length does not matter.",
        lambda s, y, pad: s[y != pad].sum().exp(),
    ),
    Twin(
        "This is the mean of the exponentials. Compute the mean first, then exp.",
        lambda s, y, pad: s[y != pad].exp().mean(),
    ),
    Twin(
        "This is 2 to the power of the mean. The values are in nats, so the base is e.",
        lambda s, y, pad: 2 ** _mean(s, y, pad),
    ),
    Twin(
        "This is e to the power of minus the mean, a probability. The perplexity is 1 divided by "
        "it.",
        lambda s, y, pad: (-_mean(s, y, pad)).exp(),
    ),
    Twin("This is the mean itself. The perplexity is e to the power of it.", _mean),
    Twin(_PADDING_COUNTED, lambda s, y, pad: s.mean().exp()),
    Twin(_PADDING_BELOW, lambda s, y, pad: ((s * (y != pad)).sum() / y.numel()).exp()),
    Twin(_PADDING_ABOVE, lambda s, y, pad: (s.sum() / (y != pad).sum()).exp()),
    Twin(
        "This uses the mean of the sentence means. Sum over the whole batch, then divide once.",
        lambda s, y, pad: _sentence_means(s, y, pad).mean().exp(),
    ),
    Twin(
        "This is the mean of the perplexities of the sentences. Compute the mean over all tokens, "
        "then exp.",
        lambda s, y, pad: _sentence_means(s, y, pad).exp().mean(),
    ),
)


_NO_TENSOR = (
    "  mean_nll: the result is a plain number, which carries no gradient, so a model could not be "
    "trained with it. Return the tensor, without .item() or float()."
)


@_parts.part(
    "perplexity",
    "mean_nll",
    "perplexity",
    rebuilds=("attentively.scoring.metrics:perplexity",),
    refuses=("attentively.training.losses:cross_entropy",),
)
def perplexity(mean_nll: object, perplexity: object, thorough: bool = False) -> None:
    """Check the mean over the real tokens, and the perplexity."""
    de_rien = _nll(_DE_RIEN, _DE_RIEN_END)
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
        ("mean_nll", mean_nll, _MEAN_TWINS),
        ("perplexity", perplexity, _PERPLEXITY_TWINS),
    ):
        for nll, targets, pad_id in stages:
            inputs = {"nll": nll, "targets": targets, "pad_id": pad_id}
            expected = _mean(nll, targets, pad_id)
            if name == "perplexity":
                expected = expected.exp()
            known = [Twin(f"{name}: {said}", wrong) for said, wrong in twins]
            answer = in_32_bits(call_twice(candidate, inputs))
            if isinstance(answer, np.ndarray) and answer.ndim == 0:
                answer = answer.item()
            what = f"the answer of {name}"
            number = None if isinstance(answer, Tensor) else plain_number(answer)
            if number is not None:
                if name == "mean_nll":
                    raise CheckFailed(_NO_TENSOR)
                answer = torch.tensor(float(number))
            expect_equal(
                answer, expected, what, inputs, known, "Return one value: sum over both axes."
            )
    nll, targets, pad_id = _padded(2, 3, 5)
    nll.requires_grad_()

    def with_pad_id(nll: Tensor, targets: Tensor) -> object:
        return mean_nll(nll, targets, pad_id)  # type: ignore[operator]

    given = {"nll": nll, "targets": targets}
    expect_gradients_through(with_pad_id, given, {"nll": nll})


def _padded(batch: int, length: int, pad_id: int) -> tuple[Tensor, Tensor, int]:
    """Return values and targets of sentences of different lengths, padded with `pad_id`."""
    nll = torch.rand(batch, length)
    targets = pad_id + 1 + torch.randint(5, (batch, length))
    lengths = torch.tensor([1 + (2 * row + 1) % length for row in range(batch)])
    targets[torch.arange(length) >= lengths.unsqueeze(1)] = pad_id
    return nll, targets, pad_id
