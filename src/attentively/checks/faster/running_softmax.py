"""The online softmax over blocks of keys, and the known mistakes in it.

`fault` names a mistake; without one, the answer is right.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Blocks = Sequence[tuple[Tensor, Tensor]]
"""The scores (..., q, keys) of each block, -inf where they are masked, and the values."""


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
    """Return the right contexts, but the mean of all values where all keys are masked."""
    right = attend(blocks)
    blind = torch.cat([scores for scores, _ in blocks], dim=-1).isinf().all(dim=-1, keepdim=True)
    mean = torch.cat([values for _, values in blocks], dim=-2).mean(dim=-2, keepdim=True)
    return torch.where(blind, mean, right)


FAULTS = {
    "0/0": "The context of a query that may attend to no key is 0/0. It must be 0.",
    "NaN": "The result is NaN: where all scores so far are masked, -inf is subtracted from -inf. "
    "Replace the maximum by a finite number there.",
    "uniform": "A query that may attend to no key gets the mean of all values: if masked scores "
    "are the lowest finite number, their difference from the maximum is 0 and their exponential 1. "
    "Its context must be 0.",
    "NaN made 0": "Where all scores so far are masked, -inf is subtracted from -inf, and the NaN "
    "is replaced by 0 at the end. This loses all later blocks. Replace the maximum by a finite "
    "number instead.",
    "first alone": "Only the first block contributes to the result.",
    "last alone": "Only the last block contributes to the result. Add each block to the sums of "
    "the blocks before it.",
    "mean of means": "Each block has a softmax of its own, and the results are averaged. A block "
    "with higher scores must count more: keep the sums, and divide only at the end.",
    "sum of means": "Each block has a softmax of its own, and the results are added. Keep the "
    "sums, and divide only at the end.",
    "never shrunk": "When a larger maximum arrives, both sums are still relative to the old "
    "maximum: multiply total and weighted sum by exp(old - new).",
    "own maximum": "Each block subtracts its own maximum, so the sums of different blocks have "
    "different scales. Subtract the largest score so far, and rescale the sums before.",
    "total kept": "When a larger maximum arrives, the weighted sum is rescaled, but the total is "
    "not.",
    "context kept": "When a larger maximum arrives, the total is rescaled, but the weighted sum is "
    "not.",
    "wrong way": "When a larger maximum arrives, both sums must become smaller. Here they grow: "
    "multiply by exp(old - new), which is at most 1.",
    "starts at 0": "The largest score so far starts at 0. If all scores are far below 0, all "
    "exponentials become 0: start at -inf or at the lowest finite number.",
    "no maximum": "The exponential of a large score overflows to infinity, and that of a very low "
    "score is 0. Subtract the largest score so far.",
    "not divided": "The weighted sum is not divided by the total.",
    "divided each time": "The weighted sum is divided after each block, and the next block is "
    "added to the quotient. Divide once, at the end.",
}
"""The mistakes, and the message for each."""
