"""Batches cut by a limit of tokens, and their padding: right, and as mistakes would have them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from attentively.checks import Twin, known

Sizes = list[tuple[int, int]]


def cut(
    sizes: Sizes, limit: int, *,
    key: Callable[[tuple[int, int]], Any] | None = max, descending: bool = False,
    length: Callable[[tuple[int, int]], int] = max, strictly: bool = False, padded: bool = True,
    as_sizes: bool = False,
) -> list[list[Any]]:  # fmt: skip
    """Return the batches; each keyword is what a mistake may change."""
    order = list(range(len(sizes)))
    if key is not None:
        order.sort(key=lambda index: key(sizes[index]), reverse=descending)
    batches: list[list[Any]] = []
    longest = held = 0
    for index in order:
        now = max(longest, length(sizes[index]))
        needed = now * (len(batches[-1]) + 1) if batches else 0
        needed = needed if padded else held + length(sizes[index])
        if not batches or needed > limit - strictly:
            batches.append([])
            now, held = length(sizes[index]), 0
        longest, held = now, held + length(sizes[index])
        batches[-1].append(sizes[index] if as_sizes else index)
    return batches


CUT_WAYS: dict[str, dict[str, Any]] = {
    "The sentences are not sorted, so short ones are padded to the length of long ones.":
        {"key": None},
    "The longest come first. Begin with the shortest.": {"descending": True},
    "They are sorted by the source alone. The length of a pair is that of its longer side.":
        {"key": lambda size: size[0]},
    "They are sorted by the target alone. The length of a pair is that of its longer side.":
        {"key": lambda size: size[1]},
    "They are sorted by both sides together. The length of a pair is that of its longer side.":
        {"key": sum},
    "They are sorted by the source first, then the target. The length of a pair is that of its "
    "longer side, and equals stay in the order in which they came.": {"key": lambda size: size},
    "A batch that is just full may stay: `limit` positions are allowed.": {"strictly": True},
    "The tokens are counted without padding. A batch holds its number of sentences times its "
    "longest.": {"padded": False},
    "Both sides are added up. The limit is for the longer side.": {"length": sum},
    "Only the source is counted. The longer side of a pair counts.":
        {"length": lambda size: size[0]},
    "Only the target is counted. The longer side of a pair counts.":
        {"length": lambda size: size[1]},
    "The lengths are returned. A batch is a list of indices into sizes.": {"as_sizes": True},
}  # fmt: skip


def fixed(sizes: Sizes, limit: int) -> list[list[int]]:
    """Return batches of as many sentences each as the longest of all allows."""
    order = sorted(range(len(sizes)), key=lambda index: max(sizes[index]))
    number = max(1, limit // max(map(max, sizes)))
    return [order[first : first + number] for first in range(0, len(order), number)]


CUT_TWINS = [
    *(Twin(f"token_batches: {said}", partial(cut, **way)) for said, way in CUT_WAYS.items()),
    *known(
        "token_batches: The last batch is missing. What is left at the end is a batch too.",
        lambda sizes, limit: cut(sizes, limit)[:-1],
    ),
    *known(
        "token_batches: Pairs of equal length have changed places. They stay in the order in which "
        "they came.",
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
        "token_batches: Each batch has as many sentences. Short sentences leave room for more.",
        fixed,
    ),
    *known(
        "token_batches: A sentence that does not fit is lost. It begins the next batch.",
        lambda sizes, limit: losing(sizes, limit),
    ),
]


def losing(sizes: Sizes, limit: int) -> list[list[int]]:
    """Return batches in which a sentence that does not fit is forgotten."""
    batches: list[list[int]] = [[]]
    for index in sorted(range(len(sizes)), key=lambda index: max(sizes[index])):
        if (len(batches[-1]) + 1) * max(sizes[index]) > limit:
            batches.append([])
        else:
            batches[-1].append(index)
    return batches


def widest(batch: Sizes, side: int) -> int:
    """Return how wide a batch is on one side."""
    return max(size[side] for size in batch)


def padding(
    batches: list[list[int]], sizes: Sizes, *, sides: tuple[int, ...] = (0, 1),
    of: Callable[[int, int], float] = lambda p, n: p / n,
    width: Callable[[Sizes, int], int] = widest,
    mean_of_batches: bool = False,
) -> float:  # fmt: skip
    """Return the share of padding; each keyword is what a mistake may change."""
    counted = []
    for batch in batches:
        inside = [sizes[index] for index in batch]
        real = sum(size[side] for size in inside for side in sides)
        positions = sum(len(inside) * width(inside, side) for side in sides)
        counted.append((positions - real, positions))
    if mean_of_batches:
        return float(sum(of(*each) for each in counted) / len(counted))
    return float(of(sum(p for p, _ in counted), sum(n for _, n in counted)))


PADDING_WAYS: dict[str, dict[str, Any]] = {
    "Only the sources are counted; the targets are padded too.": {"sides": (0,)},
    "Only the targets are counted; the sources are padded too.": {"sides": (1,)},
    "This is the share of the words. Padding is the rest.": {"of": lambda p, n: 1 - p / n},
    "The padding is divided by the words. Divide by all positions.":
        {"of": lambda p, n: p / (n - p)},
    "This is how much padding there is. Divide by all positions.": {"of": lambda p, n: p},
    "It comes in percent. Return a share, from 0 to 1.": {"of": lambda p, n: 100 * p / n},
    "This is the mean of the batches' shares. Count over all batches, then divide once.":
        {"mean_of_batches": True},
    "Both sides are padded to one length here. Sources and targets are two tensors, each as wide "
    "as its own longest row.": {"width": lambda batch, side: max(map(max, batch))},
}  # fmt: skip
PADDING_TWINS = [
    *(Twin(f"padding_share: {said}", partial(padding, **w)) for said, w in PADDING_WAYS.items()),
    *known(
        "padding_share: This is the mean of the shares of the two sides. Count both, then divide.",
        lambda *given: (padding(*given, sides=(0,)) + padding(*given, sides=(1,))) / 2,
    ),
    *known(
        "padding_share: The width of a batch is taken from one of its pairs. The longest source "
        "and the longest target may stand in two.",
        partial(padding, width=lambda batch, side: batch[-1][side]),
        partial(padding, width=lambda batch, side: max(batch)[side]),
        partial(padding, width=lambda batch, side: max(batch, key=sum)[side]),
        partial(padding, width=lambda batch, side: max(batch, key=max)[side]),
    ),
    *known(
        "padding_share: Everything is padded to the longest sentence of all. A batch is as wide as "
        "its own longest.",
        lambda batches, sizes: padding([[i for batch in batches for i in batch]], sizes),
    ),
]
