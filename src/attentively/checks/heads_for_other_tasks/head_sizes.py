"""Sizes of heads, the best span of an answer, and mistakes with both."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attentively.checks import known

TASKS = ("label", "entities", "answer", "pair", "masked", "next")


def head_of(
    task: str, d_model: int, vocab_size: int, kinds: int, batch: int, length: int, *,
    bias: bool = True, tags: Callable[[int], int] = lambda kinds: 2 * kinds + 1,
    tied: bool = True, mask: int = 1, predicted: int = 0, segments: int = 2,
    shape: Callable[[str, tuple[int, ...]], tuple[int, ...]] = lambda task, shape: shape,
) -> tuple[tuple[int, ...], int]:  # fmt: skip
    """Return the shape of the scores and the parameters added; keywords make mistakes."""
    outputs = {"label": kinds, "entities": tags(kinds), "answer": 2, "pair": kinds}
    if task in ("label", "pair"):
        scores: tuple[int, ...] = batch, outputs[task]
    else:
        size = outputs.get(task, vocab_size + (predicted if task == "masked" else 0))
        scores = batch, length, size
    if task in outputs:
        added = (d_model + bias) * outputs[task] + (segments * d_model if task == "pair" else 0)
    else:
        added = 0 if tied else d_model * vocab_size + bias * vocab_size
        added += mask * d_model * (task == "masked")
    return shape(task, scores), added


def _no_length(task: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[-1])


def _length_everywhere(length: int) -> Callable[[str, tuple[int, ...]], tuple[int, ...]]:
    return lambda _, shape: shape if len(shape) == 3 else (shape[0], length, shape[1])


SHAPE_TWINS = [
    *known(
        'head: The tasks "label" and "pair" have one label for the whole text, so their '
        "scores have no axis for tokens.",
        lambda *given: head_of(*given, shape=_length_everywhere(given[-1]))[0],
    ),
    *known(
        'head: The tasks "entities", "answer", "masked" and "next" have scores for '
        "every token: (batch, length, ...).",
        lambda *given: head_of(*given, shape=_no_length)[0],
    ),
    *known(
        "head: Entities have two tags for each kind, B and I, and one tag for tokens outside "
        "of a name: 2 · kinds + 1.",
        *(lambda *given, tags=tags: head_of(*given, tags=tags)[0]
          for tags in (lambda k: k, lambda k: k + 1, lambda k: 2 * k, lambda k: k + 2)),
    ),
    *known(
        "head: The mask token is an input and never a prediction: there are vocab_size scores.",
        lambda *given: head_of(*given, predicted=1)[0],
    ),
    *known(
        "head: An answer needs two scores for every token, one as its start and one as its "
        "end: (batch, length, 2).",
        lambda *given: (
            (given[4], 2) if given[0] == "answer" else head_of(*given)[0]
        ),
        lambda *given: (
            (given[4], 2, given[5]) if given[0] == "answer" else head_of(*given)[0]
        ),
    ),
    *known("head: The two results are exchanged. Return shape, added.",
           lambda *given: head_of(*given)[1]),
]  # fmt: skip
ADDED_TWINS = [
    *known("head: The biases are missing. A linear layer has one bias for each of its outputs.",
           lambda *given: head_of(*given, bias=False)[1]),
    *(twin for only in ("label", "pair", "entities", "answer") for twin in known(
        f'head: The biases of the task "{only}" are missing. Its linear layer has one bias for '
        "each of its outputs.",
        lambda *given, only=only: head_of(*given, bias=given[0] != only)[1],
    )),
    *known(
        "head: The number of outputs for entities is wrong. There are two tags for each kind "
        "and one for tokens outside of a name: 2 · kinds + 1 outputs.",
        *(lambda *given, tags=tags: head_of(*given, tags=tags)[1]
          for tags in (lambda k: k, lambda k: k + 1, lambda k: 2 * k, lambda k: k + 2)),
    ),
    *known(
        "head: The output layer of a language model adds parameters here. Its scores are "
        "products with the rows of the embedding matrix, which exists already.",
        *(lambda *given, bias=bias, mask=mask: head_of(*given, tied=False, bias=bias, mask=mask)[1]
          for bias in (True, False) for mask in (0, 1)),
        *(lambda *given, only=only, bias=bias, mask=mask: (
            head_of(*given, tied=given[0] != only, bias=bias or given[0] != only, mask=mask)[1])
          for only in ("masked", "next") for bias in (True, False) for mask in (0, 1)),
    ),
    *known(
        "head: The scores of a language model have no bias here. They are dot products with the "
        "rows of the embedding matrix.",
        lambda *given: head_of(*given)[1] + given[2] * (given[0] in ("masked", "next")),
        lambda *given: head_of(*given)[1] + given[2] * (given[0] == "masked"),
        lambda *given: head_of(*given)[1] + given[2] * (given[0] == "next"),
    ),
    *known(
        "head: The embedding of the mask token is missing. It adds a row of d_model parameters.",
        lambda *given: head_of(*given, mask=0)[1],
    ),
    *known(
        "head: The segment embeddings are wrong. There is one vector for the first text and "
        "one for the second: 2 · d_model parameters.",
        lambda *given: head_of(*given, segments=0)[1],
        lambda *given: head_of(*given, segments=1)[1],
    ),
    *known(
        "head: The number of parameters depends on the length of the text. One layer is "
        "applied to all tokens.",
        lambda *given: head_of(*given)[1] * (given[5] if given[0] in ("entities", "answer") else 1),
    ),
]  # fmt: skip


def best_of(
    first: Tensor, last: Tensor, allowed: Tensor, longest: int, *,
    lengths: Callable[[int, int, int], bool] = lambda i, j, most: i <= j < i + most,
    masked: bool = True, whole: bool = False,
    join: Callable[[float, float], float] = lambda a, b: a + b,
) -> list[int]:  # fmt: skip
    """Return the best span; each keyword is what a mistake may change."""
    able = allowed.tolist() if masked else [True] * len(first)
    spans = [
        (join(float(first[i]), float(last[j])), i, j)
        for i in range(len(first)) for j in range(len(last))
        if able[i] and able[j] and lengths(i, j, longest) and (not whole or all(able[i : j + 1]))
    ]  # fmt: skip
    return list(max(spans, key=lambda span: span[0])[1:])


def _alone(scores: Tensor, allowed: Tensor) -> int:
    return int(scores.masked_fill(~allowed, -torch.inf).argmax())


def _apart(first: Tensor, last: Tensor, allowed: Tensor, longest: int) -> list[int]:
    return [_alone(first, allowed), _alone(last, allowed)]


def _first_then_last(first: Tensor, last: Tensor, allowed: Tensor, longest: int) -> list[int]:
    begin = _alone(first, allowed)
    near = torch.zeros_like(allowed)
    near[begin : begin + longest] = True
    return [begin, _alone(last, allowed & near)]


def _last_then_first(first: Tensor, last: Tensor, allowed: Tensor, longest: int) -> list[int]:
    end = _alone(last, allowed)
    near = torch.zeros_like(allowed)
    near[max(0, end - longest + 1) : end + 1] = True
    return [_alone(first, allowed & near), end]


SPAN_TWINS = [
    *known(
        "best_span: The best start and the best end are chosen independently, so the answer "
        "may end before it starts.",
        _apart,
        lambda first, last, *_: [int(first.argmax()), int(last.argmax())],
    ),
    *known(
        "best_span: A start after its end is exchanged with it. Choose the best pair among "
        "those with start <= end.",
        lambda *given: sorted(_apart(*given)),
    ),
    *known(
        "best_span: The best start is chosen first, and then an end for it. Another start may "
        "have a higher sum.",
        _first_then_last,
    ),
    *known(
        "best_span: The best end is chosen first, and then a start for it. Another end may "
        "have a higher sum.",
        _last_then_first,
    ),
    *known(
        "best_span: The limit `longest` is ignored.",
        partial(best_of, lengths=lambda i, j, _: i <= j),
    ),
    *known(
        "best_span: The answer has one token too many. From i to j there are j - i + 1 tokens.",
        partial(best_of, lengths=lambda i, j, most: i <= j <= i + most),
    ),
    *known(
        "best_span: An answer of exactly `longest` tokens is excluded. It is allowed.",
        partial(best_of, lengths=lambda i, j, most: i <= j < i + max(1, most - 1)),
    ),
    *known(
        "best_span: An answer of one token is excluded. It is allowed.",
        partial(best_of, lengths=lambda i, j, most: i < j < i + most),
    ),
    *known(
        "best_span: The answer may end before it starts. Require i <= j.",
        partial(best_of, lengths=lambda i, j, most: abs(j - i) < most),
    ),
    *known(
        "best_span: The argument `allowed` is ignored. The question and the padding contain no "
        "answer.",
        partial(best_of, masked=False),
    ),
    *known(
        "best_span: All tokens of the answer are required to be allowed. Only its first and "
        "its last token have to be.",
        partial(best_of, whole=True),
    ),
    *known(
        "best_span: The result j is the position after the answer. Return the position of its "
        "last token.",
        lambda *given: [best_of(*given)[0], best_of(*given)[1] + 1],
    ),
    *known(
        "best_span: The two scores are multiplied. They are log-probabilities up to a "
        "constant, so add them.",
        partial(best_of, join=lambda a, b: a * b),
    ),
]
