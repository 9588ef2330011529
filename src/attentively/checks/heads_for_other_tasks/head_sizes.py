"""How large heads are, where an answer begins and ends, and mistakes with both."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attentively.checks import known

TASKS = ("label", "entities", "answer", "pair", "hidden", "next")


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
        size = outputs.get(task, vocab_size + (predicted if task == "hidden" else 0))
        scores = batch, length, size
    if task in outputs:
        added = (d_model + bias) * outputs[task] + (segments * d_model if task == "pair" else 0)
    else:
        added = 0 if tied else d_model * vocab_size + bias * vocab_size
        added += mask * d_model * (task == "hidden")
    return shape(task, scores), added


def _no_length(task: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[-1])


def _length_everywhere(length: int) -> Callable[[str, tuple[int, ...]], tuple[int, ...]]:
    return lambda _, shape: shape if len(shape) == 3 else (shape[0], length, shape[1])


SHAPE_TWINS = [
    *known(
        'head: A single label is for a whole text, and "label" and "pair" have no axis of tokens.',
        lambda *given: head_of(*given, shape=_length_everywhere(given[-1]))[0],
    ),
    *known(
        "head: A tag, a place and a word are told for every token: (batch, length, ...).",
        lambda *given: head_of(*given, shape=_no_length)[0],
    ),
    *known(
        "head: Entities have two tags for each kind, one for its first token and one for the "
        "others, and one more for tokens outside: 2 · kinds + 1.",
        *(lambda *given, tags=tags: head_of(*given, tags=tags)[0]
          for tags in (lambda k: k, lambda k: k + 1, lambda k: 2 * k, lambda k: k + 2)),
    ),
    *known(
        "head: The mask is read and never predicted: there are vocab_size scores.",
        lambda *given: head_of(*given, predicted=1)[0],
    ),
    *known(
        "head: Of an answer, two scores are told for every token, (batch, length, 2): may it begin "
        "here, may it end here?",
        lambda *given: (
            (given[4], 2) if given[0] == "answer" else head_of(*given)[0]
        ),
        lambda *given: (
            (given[4], 2, given[5]) if given[0] == "answer" else head_of(*given)[0]
        ),
    ),
    *known("head: The two have changed places: shape, added.", lambda *given: head_of(*given)[1]),
]  # fmt: skip
ADDED_TWINS = [
    *known("head: A linear layer has a bias: one number more for each of its outputs.",
           lambda *given: head_of(*given, bias=False)[1]),
    *known(
        "head: Entities have two tags for each kind, and one more for tokens outside: 2 · kinds + "
        "1 outputs.",
        *(lambda *given, tags=tags: head_of(*given, tags=tags)[1]
          for tags in (lambda k: k, lambda k: k + 1, lambda k: 2 * k, lambda k: k + 2)),
    ),
    *known(
        "head: A language model's scores are products with the rows of the table, which are there "
        "already. Nothing is added for them.",
        *(lambda *given, bias=bias, mask=mask: head_of(*given, tied=False, bias=bias, mask=mask)[1]
          for bias in (True, False) for mask in (0, 1)),
    ),
    *known(
        "head: The mask is a new token, and has a row in the table: d_model numbers.",
        lambda *given: head_of(*given, mask=0)[1],
    ),
    *known(
        "head: Two texts in one need a vector for 'first' and one for 'second': 2 · d_model.",
        lambda *given: head_of(*given, segments=0)[1],
        lambda *given: head_of(*given, segments=1)[1],
    ),
    *known(
        "head: The number of parameters does not grow with the text: one layer serves all tokens.",
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
        "best_span: The best beginning and the best end are looked for apart, so that an answer "
        "may end before it begins.",
        _apart,
    ),
    *known(
        "best_span: Where the end came before the beginning, the two were exchanged. Look for the "
        "best pair among those in order.",
        lambda *given: sorted(_apart(*given)),
    ),
    *known(
        "best_span: First the best beginning is fixed, then an end is looked for. Another "
        "beginning may have a better sum.",
        _first_then_last,
    ),
    *known(
        "best_span: First the best end is fixed, then a beginning is looked for. Another end may "
        "have a better sum.",
        _last_then_first,
    ),
    *known(
        "best_span: `longest` is not looked at.",
        partial(best_of, lengths=lambda i, j, _: i <= j),
    ),
    *known(
        "best_span: This answer has one token too many: from i to j there are j - i + 1.",
        partial(best_of, lengths=lambda i, j, most: i <= j <= i + most),
    ),
    *known(
        "best_span: An answer of exactly `longest` tokens may be given.",
        partial(best_of, lengths=lambda i, j, most: i <= j < i + max(1, most - 1)),
    ),
    *known(
        "best_span: An answer may be one token, which is its first and its last.",
        partial(best_of, lengths=lambda i, j, most: i < j < i + most),
    ),
    *known(
        "best_span: An answer may end before it begins.",
        partial(best_of, lengths=lambda i, j, most: abs(j - i) < most),
    ),
    *known(
        "best_span: `allowed` is not looked at: the question and the padding hold no answer.",
        partial(best_of, masked=False),
    ),
    *known(
        "best_span: All tokens of the answer have to be allowed here. Asked is that its first and "
        "its last one are.",
        partial(best_of, whole=True),
    ),
    *known(
        "best_span: This j is the token after the answer. Return the last one of the answer.",
        lambda *given: [best_of(*given)[0], best_of(*given)[1] + 1],
    ),
    *known(
        "best_span: The scores are multiplied. They are logarithms of probabilities, but for a "
        "constant: add them.",
        partial(best_of, join=lambda a, b: a * b),
    ),
]
