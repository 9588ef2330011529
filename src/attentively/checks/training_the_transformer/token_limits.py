"""Batches with a token limit and their padding: correct, and with known mistakes."""

from collections.abc import Callable
from functools import partial
from typing import Any

from attentively.checks import Twin, known

Sizes = list[tuple[int, int]]


def cut(
    sizes: Sizes, limit: int, *,
    key: Callable[[tuple[int, int]], Any] | None = max, descending: bool = False,
    length: Callable[[tuple[int, int]], int] = max, strictly: bool = False, padded: bool = True,
    as_sizes: bool = False, newest: bool = False,
) -> list[list[Any]]:  # fmt: skip
    """Return the batches; each keyword is what a mistake may change.

    With `newest`, the pair at hand is taken for the longest one, which holds only if the pairs are
    sorted by their length.
    """
    order = list(range(len(sizes)))
    if key is not None:
        order.sort(key=lambda index: key(sizes[index]), reverse=descending)
    batches: list[list[Any]] = []
    longest = held = 0
    for index in order:
        now = length(sizes[index]) if newest else max(longest, length(sizes[index]))
        needed = now * (len(batches[-1]) + 1) if batches else 0
        needed = needed if padded else held + length(sizes[index])
        if not batches or needed > limit - strictly:
            batches.append([])
            now, held = length(sizes[index]), 0
        longest, held = now, held + length(sizes[index])
        batches[-1].append(sizes[index] if as_sizes else index)
    return batches


_OF_LONGER_SIDE = "The length of a pair is that of its longer side."


def _source(size: tuple[int, int]) -> int:
    return size[0]


def _target(size: tuple[int, int]) -> int:
    return size[1]


def _sorted_by(key: Callable[[tuple[int, int]], Any] | None) -> list[dict[str, Any]]:
    """Return the ways to sort by another key, with either rule for the longest pair of a batch."""
    return [{"key": key}, {"key": key, "newest": True}]


CUT_WAYS: dict[str, list[dict[str, Any]]] = {
    "The pairs are not sorted, so short sentences are padded to the length of long ones.":
        _sorted_by(None),
    "The longest pairs come first. Begin with the shortest.":
        [{"descending": True}, {"descending": True, "newest": True}],
    f"The pairs are sorted by the source length only. {_OF_LONGER_SIDE}": _sorted_by(_source),
    f"The pairs are sorted by the target length only. {_OF_LONGER_SIDE}": _sorted_by(_target),
    f"The pairs are sorted by the sum of both lengths. {_OF_LONGER_SIDE}": _sorted_by(sum),
    f"The pairs are sorted by the length of the shorter side. {_OF_LONGER_SIDE}": _sorted_by(min),
    f"The pairs are sorted by the source length first, then by the target length. {_OF_LONGER_SIDE}"
    " Pairs of equal length keep their order.": _sorted_by(lambda size: size),
    "A batch that reaches the limit exactly is refused. `limit` positions are allowed.":
        [{"strictly": True}],
    "The tokens are counted without padding. A batch needs its number of pairs times its longest "
    "pair.": [{"padded": False}],
    "Both sides are added. The limit applies to the longer side.": [{"length": sum}],
    "Only the source length is counted. The longer side of a pair counts.": [{"length": _source}],
    "Only the target length is counted. The longer side of a pair counts.": [{"length": _target}],
    f"The pairs are sorted and counted by the source length only. {_OF_LONGER_SIDE}":
        [{"key": _source, "length": _source}],
    f"The pairs are sorted and counted by the target length only. {_OF_LONGER_SIDE}":
        [{"key": _target, "length": _target}],
    f"The pairs are sorted and counted by the sum of both lengths. {_OF_LONGER_SIDE}":
        [{"key": sum, "length": sum}],
    "The lengths are returned. A batch is a list of indices into sizes.": [{"as_sizes": True}],
}  # fmt: skip


def fixed(sizes: Sizes, limit: int) -> list[list[int]]:
    """Return batches with the number of pairs that the longest pair of all allows."""
    order = sorted(range(len(sizes)), key=lambda index: max(sizes[index]))
    number = max(1, limit // max(map(max, sizes)))
    return [order[first : first + number] for first in range(0, len(order), number)]


CUT_TWINS = [
    *(
        Twin(f"token_batches: {said}", partial(cut, **way))
        for said, ways in CUT_WAYS.items()
        for way in ways
    ),
    *known(
        "token_batches: The last batch is missing. The remaining pairs form a batch too.",
        lambda sizes, limit: cut(sizes, limit)[:-1],
    ),
    *known(
        "token_batches: Pairs of equal length are not in their original order. Keep the order in "
        "which they came.",
        partial(cut, key=lambda size: (max(size), size)),
        partial(cut, key=lambda size: (max(size), size[0])),
        lambda sizes, limit: [
            [len(sizes) - 1 - i for i in batch] for batch in cut(sizes[::-1], limit)
        ],
    ),
    *known(
        "token_batches: The first batch is empty.",
        lambda sizes, limit: [[], *cut(sizes, limit)],
    ),
    *known(
        "token_batches: All batches have the same number of pairs. Short pairs need less room.",
        fixed,
    ),
    *known(
        "token_batches: A pair that does not fit is lost. It begins the next batch.",
        lambda sizes, limit: losing(sizes, limit),
    ),
]


def losing(sizes: Sizes, limit: int) -> list[list[int]]:
    """Return batches without the pairs that did not fit into a batch."""
    batches: list[list[int]] = [[]]
    for index in sorted(range(len(sizes)), key=lambda index: max(sizes[index])):
        if (len(batches[-1]) + 1) * max(sizes[index]) > limit:
            batches.append([])
        else:
            batches[-1].append(index)
    return batches


def widest(batch: Sizes, side: int) -> int:
    """Return the width of a batch on one side."""
    return max(size[side] for size in batch)


def padding(
    batches: list[list[int]], sizes: Sizes, *, sides: tuple[int, ...] = (0, 1),
    of: Callable[[int, int], float] = lambda p, n: p / n,
    width: Callable[[Sizes, int], int] = widest,
    weight: Callable[[list[int]], float] | None = None,
) -> float:  # fmt: skip
    """Return the share of padding; each keyword is what a mistake may change.

    With `weight`, it is the mean of the batches' shares with these weights.
    """
    counted = []
    for batch in batches:
        inside = [sizes[index] for index in batch]
        real = sum(size[side] for size in inside for side in sides)
        positions = sum(len(inside) * width(inside, side) for side in sides)
        counted.append((positions - real, positions))
    if weight is not None:
        weights = [weight(batch) for batch in batches]
        shares = [of(*each) for each in counted]
        return sum(w * share for w, share in zip(weights, shares, strict=True)) / sum(weights)
    return float(of(sum(p for p, _ in counted), sum(n for _, n in counted)))


def one(_: list[int]) -> float:
    """Return the weight of a batch that counts like any other."""
    return 1.0


_MEAN_OF_BATCHES = (
    "This is a mean of the batches' shares. Add up padding and positions over all batches, then "
    "divide once."
)
PADDING_WAYS: dict[str, list[dict[str, Any]]] = {
    "Only the sources are counted. The targets are padded too.": [{"sides": (0,)}],
    "Only the targets are counted. The sources are padded too.": [{"sides": (1,)}],
    "This is the share of real tokens. The share of padding is 1 minus it.":
        [{"of": lambda p, n: 1 - p / n}],
    "The padding is divided by the number of real tokens. Divide it by that of all positions.":
        [{"of": lambda p, n: p / (n - p)}],
    "This is the number of padding positions. Divide it by the number of all positions.":
        [{"of": lambda p, n: p}],
    "The result is in percent. Return a share, from 0 to 1.": [{"of": lambda p, n: 100 * p / n}],
    _MEAN_OF_BATCHES: [{"weight": one}, {"weight": len}],
    "Both sides are padded to one length here. Sources and targets are two tensors, each as wide "
    "as its own longest row.": [{"width": lambda batch, side: max(map(max, batch))}],
}  # fmt: skip
PADDING_TWINS = [
    *(
        Twin(f"padding_share: {said}", partial(padding, **way))
        for said, ways in PADDING_WAYS.items()
        for way in ways
    ),
    *known(
        f"padding_share: {_MEAN_OF_BATCHES}",
        lambda *given: (
            (padding(*given, sides=(0,), weight=one) + padding(*given, sides=(1,), weight=one)) / 2
        ),
    ),
    *known(
        "padding_share: This is the mean of the shares of the two sides. Add up the padding and "
        "the positions of both sides, then divide once.",
        lambda *given: (padding(*given, sides=(0,)) + padding(*given, sides=(1,))) / 2,
    ),
    *known(
        "padding_share: The width of a batch is taken from one of its pairs. The longest source "
        "and the longest target can belong to different pairs.",
        partial(padding, width=lambda batch, side: batch[-1][side]),
        partial(padding, width=lambda batch, side: max(batch)[side]),
        partial(padding, width=lambda batch, side: max(batch, key=sum)[side]),
        partial(padding, width=lambda batch, side: max(batch, key=max)[side]),
    ),
    *known(
        "padding_share: All batches are padded to the longest pair of all. A batch is only as wide "
        "as its own longest row.",
        lambda batches, sizes: padding([[i for batch in batches for i in batch]], sizes),
    ),
]
