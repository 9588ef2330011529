"""Checks of the assignment on the tools: shapes, softmax, gradient, likelihood and perplexity.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. The equation of part 1 is tested by applying it, and the softmax also in a trained model.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from attentively.checks import (
    ATOL,
    RTOL,
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_equal,
    in_32_bits,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
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
_topic = Topic(__file__)
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


@_parts.part("shapes", "sum_shape", "product_shape", "equation")
def shapes(
    sum_shape: object, product_shape: object, equation: object, thorough: bool = False
) -> None:
    """Compare two predictions of shapes with PyTorch's, and test an equation by applying it."""
    _examine_shapes(
        "sum_shape",
        sum_shape,
        thorough,
        torch.add,
        "adds them: they are aligned at the last axis, a missing axis counts as 1, and 1 fits "
        "every size",
    )
    _examine_shapes(
        "product_shape",
        product_shape,
        thorough,
        torch.matmul,
        "multiplies them: the last size of a equals the second to last of b, and the axes before "
        "them are broadcast",
    )
    asked = [(2, 3, 7, 5), *[(3, 5, 2, 11), (1, 7, 7, 3)] * thorough]
    for sizes in open_call.new("equation", asked):
        _check_equation(equation, *sizes)


def _examine_shapes(
    name: str,
    candidate: object,
    thorough: bool,
    operation: Callable[[Tensor, Tensor], Tensor],
    why_it_fits: str,
) -> None:
    def explain(got: object, recorded: Recorded) -> str:
        if got is None:
            return f"you return None, but PyTorch {why_it_fits}. Is there a `return`?"
        try:
            operation(*map(torch.zeros, recorded.case.inputs.values()))
        except RuntimeError as error:
            return (
                f"these shapes do not fit, so the expected answer is None. PyTorch says: {error}."
            )
        return ""

    _topic.examine(name, candidate, thorough, explain=explain)


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
    _topic.examine("softmax", candidate, thorough)

    def inside(scores: Tensor) -> Tensor:
        inputs = {"scores": scores}
        weights: Any = in_32_bits(call_twice(candidate, inputs))
        hint = "Return one weight for each score."
        expect_equal(weights, scores.softmax(dim=-1), "the weights", inputs, hint=hint)
        return weights

    open_call.once(write, inside, next(iter(SENTENCES)))


# Part 3


@_parts.part("gradient of the softmax", "softmax_gradient", "alive")
def gradient(softmax_gradient: object, alive: object, thorough: bool = False) -> None:
    """Check a gradient written by hand, and the temperatures at which it does not vanish."""
    _topic.examine_without_autograd(
        "softmax_gradient", softmax_gradient, thorough, explain=_not_zero_in_sum
    )
    _topic.examine("alive", alive, thorough)


def _not_zero_in_sum(got: object, _: Recorded) -> str:
    if type(got) is not Tensor or got.sum().abs() <= ATOL:
        return ""
    return (
        "adding the same value to every score changes no weight, so the entries of the gradient "
        f"sum to 0. Yours sum to {float(got.sum()):.4g}. Is the factor p_l missing?"
    )


# Part 4


@_parts.part(
    "negative log-likelihood",
    "negative_log_likelihoods",
    rebuilds=("attentively.training.losses:cross_entropy",),
    refuses=("torch.nn.functional:cross_entropy", "attentively.experiments.exposure:surprise"),
    step=True,
)
def nll(candidate: object, thorough: bool = False) -> None:
    """Check the negative log-likelihood of each target, finally with the trained model."""
    _topic.examine("negative_log_likelihoods", candidate, thorough, explain=_cut_off)


def _cut_off(got: object, recorded: Recorded) -> str:
    expected = recorded.expected["the negative log-likelihoods"]
    if expected.max() > 100 and type(got) is Tensor and 0 < got.max() < 100:
        return (
            "The negative log-likelihood of an improbable word is too small. Is the probability "
            "clamped, or is a small constant added to it? Compute the logarithm without the "
            "probability (hint 1)."
        )
    return ""


# Part 5


@_parts.part(
    "perplexity",
    "mean_nll",
    "perplexity",
    rebuilds=("attentively.scoring.metrics:perplexity",),
    refuses=("attentively.training.losses:cross_entropy",),
)
def perplexity(mean_nll: object, perplexity: object, thorough: bool = False) -> None:
    """Check the mean over the real tokens, and the perplexity."""
    _topic.examine("mean_nll", mean_nll, thorough, tidy=_no_number)
    _topic.examine("perplexity", perplexity, thorough, tidy=_as_tensor)


def _no_number(answer: object, _: object) -> object:
    if not isinstance(answer, Tensor) and plain_number(answer) is not None:
        raise CheckFailed(
            "  Expected the answer of mean_nll as a torch.Tensor, got a plain number. It carries "
            "no gradient, so a model could not be trained with it. Return the tensor, without "
            ".item() or float()."
        )
    return answer


def _as_tensor(answer: object, _: object) -> object:
    """Return a number, or an array without axes, as a tensor."""
    if isinstance(answer, np.ndarray) and answer.ndim == 0:
        answer = answer.item()
    number = None if isinstance(answer, Tensor) else plain_number(answer)
    return answer if number is None else torch.tensor(float(number))
