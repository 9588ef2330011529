"""The layers of a Transformer as functions of their parameters, step by step.

Each keyword is a step that a mistake may have changed, so that a check can name the mistake.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attentively.checks.multi_head_attention import attend
from attentively.checks.student_modules import State, part_of
from attentively.layers.transformer_layers import Norm

Sublayer = Callable[[Tensor], Tensor]


def feed(
    state: State,
    x: Tensor,
    before: Sublayer = lambda x: x,
    between: Sublayer = torch.relu,
    after: Sublayer = lambda x: x,
) -> Tensor:
    inner = between(F.linear(before(x), state["inner.weight"], state["inner.bias"]))
    return after(F.linear(inner, state["outer.weight"], state["outer.bias"]))


Step = Callable[[Sublayer, Sublayer, Norm, Tensor], Tensor]


def right_step(normed: Sublayer, say: Sublayer, norm: Norm, x: Tensor) -> Tensor:
    return x + say(normed(x)) if norm == "pre" else normed(x + say(x))


def no_residual(normed: Sublayer, say: Sublayer, norm: Norm, x: Tensor) -> Tensor:
    return say(normed(x)) if norm == "pre" else normed(say(x))


def on_the_other_side(normed: Sublayer, say: Sublayer, norm: Norm, x: Tensor) -> Tensor:
    return right_step(normed, say, "post" if norm == "pre" else "pre", x)


def stepped(step: Step, state: State, norm: Norm, x: Tensor, sublayer: Sublayer) -> Tensor:
    def normed(x: Tensor) -> Tensor:
        gain, shift = state["layer_norm.gain"], state["layer_norm.shift"]
        return F.layer_norm(x, gain.shape, gain, shift)

    return step(normed, sublayer, norm, x)


def attended_by(
    state: State, name: str, heads: int, query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None,
) -> Tensor:  # fmt: skip
    try:
        return attend(part_of(state, name), heads, query, key, value, mask)[0]
    except ValueError as error:  # a mask of another shape: this mistake cannot be made here
        raise RuntimeError from error


def encoded(
    state: State, heads: int, norm: Norm, x: Tensor, mask: Tensor | None = None, *,
    step: Step = right_step, names: tuple[str, str] = ("around_attention", "around_feed_forward"),
    masked: bool = True, keys: str = "normed", order: str = "af",
) -> Tensor:  # fmt: skip
    """Return the output of an encoder layer; the keywords make mistakes."""
    for letter in order:
        before = x

        def look(h: Tensor, before: Tensor = before) -> Tensor:
            q = before if keys == "all plain" else h
            k = h if keys == "normed" else before
            seen = mask if masked else None
            return attended_by(state, "self_attention", heads, q, k, k, seen)

        say = look if letter == "a" else partial(feed, part_of(state, "feed_forward"))
        x = stepped(step, part_of(state, names["af".index(letter)]), norm, x, say)
    return x


def decoded(
    state: State, heads: int, norm: Norm, y: Tensor, memory: Tensor,
    tgt_mask: Tensor | None = None, src_mask: Tensor | None = None, *,
    step: Step = right_step, order: str = "scf", look: str = "memory",
    masks: str = "both", swapped: bool = False, deaf: str = "",
) -> Tensor:  # fmt: skip
    """Return the output of a decoder layer; the keywords make mistakes."""
    attentions = {"s": "self_attention", "c": "cross_attention"}
    ways = {"s": "around_self_attention", "c": "around_cross_attention", "f": "around_feed_forward"}
    own = None if masks in ("source", "none") else tgt_mask
    other = None if masks in ("target", "none") else src_mask
    if masks == "exchanged":
        own, other = src_mask, tgt_mask
    elif masks == "target twice":
        other = tgt_mask
    if swapped:
        attentions = {"s": "cross_attention", "c": "self_attention"}

    def say(letter: str, h: Tensor) -> Tensor:
        if letter in deaf:
            h = y
        if letter == "f":
            return feed(part_of(state, "feed_forward"), h)
        attended = partial(attended_by, state, attentions[letter], heads)
        if letter == "s":
            return attended(h, h, h, own)
        if look == "exchanged":
            return attended(memory, h, h, other)
        gain, shift = part_of(state, f"{ways['c']}.layer_norm").values()
        looked = {
            "memory": (memory, memory),
            "itself": (h, h),
            "keys": (memory, h),
            "values": (h, memory),
            "normed": 2 * (F.layer_norm(memory, gain.shape, gain, shift),),
        }[look]
        return attended(h, *looked, other)

    for letter in order:
        y = stepped(step, part_of(state, ways[letter]), norm, y, partial(say, letter))
    return y
