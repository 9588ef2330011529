"""Attention over blocks that come one after another, and the mistakes made in it.

`fault` names what a mistake has changed; without one the answer is right.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Blocks = Sequence[tuple[Tensor, Tensor]]
"""Of each block the scores (..., q, keys), -inf where they are hidden, and the values."""


def attend(blocks: Blocks, fault: str = "") -> Tensor:
    """Return the context of each query, (..., q, d)."""
    if fault == "first alone":
        blocks = blocks[:1]
    if fault == "last alone":
        blocks = blocks[-1:]
    if fault in ("mean of means", "sum of means"):
        means = [attend([block]) for block in blocks]
        return torch.stack(means).sum(0) / (len(means) if fault == "mean of means" else 1)
    if fault == "uniform":
        return _uniform(blocks)
    if fault == "NaN made 0":
        return attend(blocks, "NaN").nan_to_num(0.0)
    first, values = blocks[0]
    start = 0.0 if fault == "starts at 0" else -math.inf
    largest = torch.full_like(first[..., :1], start)
    total = torch.zeros_like(largest)
    context = torch.zeros(*first.shape[:-1], values.shape[-1], dtype=values.dtype)
    for scores, values in blocks:
        top = scores.amax(dim=-1, keepdim=True)
        new = torch.maximum(largest, top)
        if fault == "own maximum":
            new = top
        if fault == "no maximum":
            new = torch.zeros_like(top)
        # The lowest finite number: -inf would make NaN of -inf minus -inf.
        safe = new if fault == "NaN" else new.clamp(min=torch.finfo(new.dtype).min)
        shrink = torch.exp(largest - safe)
        if fault == "wrong way":
            shrink = torch.exp(safe - largest).nan_to_num(posinf=0.0)
        if fault in ("own maximum", "never shrunk", "no maximum"):
            shrink = torch.ones_like(shrink)
        powers = torch.exp(scores - safe)
        total = (1 if fault == "total kept" else shrink) * total + powers.sum(-1, keepdim=True)
        context = (1 if fault == "context kept" else shrink) * context + powers @ values
        largest = new
        if fault == "divided each time":
            context = context / torch.where(total == 0, 1.0, total)
    if fault in ("not divided", "divided each time"):
        return context
    if fault in ("0/0", "NaN", "no maximum"):
        return context / total
    return context / torch.where(total == 0, 1.0, total)


def _uniform(blocks: Blocks) -> Tensor:
    """Return the right contexts, but a mean of all values where nothing is to be seen."""
    right = attend(blocks)
    blind = torch.cat([scores for scores, _ in blocks], dim=-1).isinf().all(dim=-1, keepdim=True)
    mean = torch.cat([values for _, values in blocks], dim=-2).mean(dim=-2, keepdim=True)
    return torch.where(blind, mean, right)


FAULTS = {
    "0/0": "A query that may look at nothing gets 0/0. Its context is 0.",
    "NaN": "NaN: where nothing could be seen yet, -inf is subtracted from -inf. Replace the "
    "maximum by a finite number there.",
    "uniform": "A query that may look at nothing gets the mean of all values, as if it saw them "
    "all alike: hidden scores of the lowest finite number, less that number, are 0. Its context "
    "is 0.",
    "NaN made 0": "Where nothing can be seen yet, -inf is subtracted from -inf, and NaN is made "
    "0 in the end: what comes in later blocks is lost. Replace the maximum by a finite number.",
    "first alone": "Only the first block is left in the answer.",
    "last alone": "Only the last block is left in the answer. Add each block to what the blocks "
    "before it gave.",
    "mean of means": "Each block has a softmax of its own, and the answers are averaged. A block "
    "of higher scores weighs more: keep the sums before they are divided.",
    "sum of means": "Each block has a softmax of its own, and the answers are added up. Keep the "
    "sums before they are divided.",
    "never shrunk": "When a larger maximum comes, what was summed before is still on the scale of "
    "the old one: shrink total and weighted sum by e to the power of (old - new).",
    "own maximum": "Each block is scaled by its own maximum, and then blocks on different scales "
    "are added up. Take the largest score so far, and shrink what was summed before.",
    "total kept": "The weighted sum is shrunk when a larger maximum comes, the total is not.",
    "context kept": "The total is shrunk when a larger maximum comes, the weighted sum is not.",
    "wrong way": "What was summed before is to shrink when a larger maximum comes; here it grows: "
    "e to the power of (old - new), which is at most 1.",
    "starts at 0": "The largest score so far begins at 0. Where all scores lie far below, every "
    "power of e is 0 then: begin at -inf, or at the lowest finite number.",
    "no maximum": "e to the power of a large score is infinite for the computer, and of a very "
    "low one 0. Subtract the largest score so far.",
    "not divided": "The weighted sum is not divided by the total.",
    "divided each time": "The weighted sum is divided after each block, and the next block is "
    "added to it as if it were not. Divide once, in the end.",
}
"""The mistakes, and what to say of each."""
