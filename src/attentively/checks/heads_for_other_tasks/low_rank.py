"""A low-rank update of a linear layer: its output, its merged weight, and the rank that fits."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.checks import (
    CheckFailed,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    in_32_bits,
    known,
    plain_number,
)
from attentively.checks.named_cases import expect_all, named_cases
from attentively.checks.student_modules import built, run

Inputs = Mapping[str, Any]
Shapes = Sequence[tuple[int, int]]


def updated(
    linear: nn.Linear, down: Tensor, up: Tensor, alpha: float, x: Tensor, *,
    scale: Callable[[float, int], float] = lambda alpha, rank: alpha / rank,
    original: Callable[[Tensor, nn.Linear], Tensor] = lambda x, linear: linear(x),
    after: Callable[[Tensor, Tensor], Tensor] = lambda original, update: original + update,
) -> Tensor:  # fmt: skip
    """Return the output of an updated layer; each keyword is what a mistake may change."""
    update = scale(alpha, len(down)) * F.linear(F.linear(x, down), up)
    return after(original(x, linear), update)


_UPDATED_WAYS: dict[str, list[dict[str, Any]]] = {
    "The factor alpha / rank is missing: the update is B A x alone.":
        [{"scale": lambda alpha, rank: 1.0}],
    "The update is multiplied by alpha. It must be multiplied by alpha / rank.":
        [{"scale": lambda alpha, rank: alpha}],
    "The update is multiplied by rank / alpha. It must be multiplied by alpha / rank.":
        [{"scale": lambda alpha, rank: rank / alpha}],
    "The update is multiplied by 1 / rank. It must be multiplied by alpha / rank.":
        [{"scale": lambda alpha, rank: 1 / rank}],
    "The output of the original layer is missing: add it to the update.":
        [{"after": lambda original, update: update}],
    "The update is missing: this is the output of the original layer.":
        [{"after": lambda original, update: original}],
    "The bias is added twice: self.linear adds it already.":
        [{"original": lambda x, linear: linear(x) + linear.bias}],
    "The bias is missing: self.linear(x) adds it.":
        [{"original": lambda x, linear: F.linear(x, linear.weight)}],
    "The update is subtracted. It must be added.":
        [{"after": lambda original, update: original - update}],
}  # fmt: skip


def merged(
    weight: Tensor, down: Tensor, up: Tensor, alpha: float, *,
    scale: Callable[[float, int], float] = lambda alpha, rank: alpha / rank, keep: float = 1.0,
    product: Callable[[Tensor, Tensor], Tensor] = lambda down, up: up @ down,
) -> Tensor:  # fmt: skip
    """Return the merged weight; each keyword is what a mistake may change."""
    return keep * weight + scale(alpha, len(down)) * product(down, up)


MERGED_TWINS = [
    *known(
        "merged_weight: The factor alpha / rank is missing.",
        partial(merged, scale=lambda alpha, rank: 1.0),
    ),
    *known(
        "merged_weight: The update is multiplied by alpha. Its factor is alpha / rank, and the "
        "rank is the number of rows of `down`.",
        partial(merged, scale=lambda alpha, rank: alpha),
    ),
    *known(
        "merged_weight: This is the update alone. Add it to the original weight.",
        partial(merged, keep=0.0),
    ),
    *known(
        "merged_weight: A and B are exchanged. The update is B A, `up @ down`, of shape "
        "(d_out, d_in).",
        partial(merged, product=lambda down, up: (up @ down).T),
    ),
    *known(
        "merged_weight: Alpha is divided by the number of inputs or outputs. Divide it by the "
        "rank, the number of rows of `down`.",
        lambda weight, down, up, alpha: weight + alpha / down.size(1) * (up @ down),
        lambda weight, down, up, alpha: weight + alpha / up.size(0) * (up @ down),
    ),
]  # fmt: skip


def planned(
    shapes: Shapes, budget: int, *,
    bytes_each: int = 16, cap: Callable[[Shapes], float] = lambda shapes: min(map(min, shapes)),
    size: Callable[[int, int], int] = lambda d_out, d_in: d_in + d_out,
    fits: Callable[[int, int], int] = lambda budget, each: budget // each, once: bool = False,
) -> list[int]:  # fmt: skip
    """Return the largest rank and its trained parameters; keywords make mistakes."""
    per_rank = sum(size(*shape) for shape in (shapes[:1] if once else shapes))
    rank = int(min(fits(budget, bytes_each * per_rank), cap(shapes)))
    return [rank, rank * per_rank]


PLAN_TWINS = [
    *known(
        "plan: Only the parameters are counted, 4 bytes each. Training also needs a gradient and "
        "Adam's two averages for each of them: 16 bytes.",
        partial(planned, bytes_each=4),
    ),
    *known(
        "plan: 8 bytes are counted for each trained parameter. There are four values of 4 "
        "bytes each: parameter, gradient, and Adam's two averages.",
        partial(planned, bytes_each=8),
    ),
    *known(
        "plan: 12 bytes are counted for each trained parameter. There are four values of 4 "
        "bytes each: parameter, gradient, and Adam's two averages.",
        partial(planned, bytes_each=12),
    ),
    *known(
        "plan: The rank has a limit besides the budget. It cannot be larger than the smaller "
        "dimension of a layer.",
        partial(planned, cap=lambda shapes: float("inf")),
    ),
    *known(
        "plan: The limit of the first layer alone is used. Every layer limits the rank.",
        partial(planned, cap=lambda shapes: min(shapes[0])),
    ),
    *known(
        "plan: The limit is the largest dimension, or that of the largest layer. The rank must be "
        "possible in every layer, so the smallest dimension of all limits it.",
        partial(planned, cap=lambda shapes: max(map(max, shapes))),
        partial(planned, cap=lambda shapes: max(map(min, shapes))),
        partial(planned, cap=lambda shapes: min(map(max, shapes))),
    ),
    *known(
        "plan: A whole matrix is counted, d_out · d_in. A and B have rank · (d_in + d_out) "
        "entries.",
        partial(planned, size=lambda d_out, d_in: d_out * d_in),
    ),
    *known(
        "plan: A bias is counted with each update. The biases are frozen.",
        partial(planned, size=lambda d_out, d_in: d_in + 2 * d_out),
    ),
    *known(
        "plan: Only one of the two matrices is counted. A has rank · d_in entries, and B has "
        "d_out · rank.",
        partial(planned, size=lambda d_out, d_in: d_in),
        partial(planned, size=lambda d_out, d_in: d_out),
    ),
    *known(
        "plan: Only the first layer is counted. The budget is for all of them.",
        partial(planned, once=True),
    ),
    *known(
        "plan: The rank is rounded up, so it needs more bytes than the budget has.",
        partial(planned, fits=lambda budget, each: -(-budget // each)),
        partial(planned, fits=lambda budget, each: budget // each + 1),
    ),
    *known(
        "plan: The two results are exchanged. Return rank, parameters.",
        lambda shapes, budget: planned(shapes, budget)[::-1],
    ),
    *known(
        "plan: The second value is in bytes. Return the number of trained parameters.",
        lambda shapes, budget: [planned(shapes, budget)[0], 16 * planned(shapes, budget)[1]],
    ),
]  # fmt: skip


def check_low_rank(
    candidate: object, merged_weight: object, plan: object, thorough: bool = False
) -> None:
    """Check the updated layer, its merged weight, and the largest rank for a budget."""
    sizes = [(2, 3, 2, 6.0), (5, 7, 2, 3.0), *[(11, 3, 3, 0.5), (13, 17, 5, 16.0)] * thorough]
    for d_out, d_in, rank, alpha in sizes:
        _expect_updated(candidate, d_out, d_in, rank, alpha)
    by_hand = {
        "weight": torch.tensor([[1.0, 0], [0, 1]]),
        "down": torch.tensor([[1.0, 2]]),
        "up": torch.tensor([[3.0], [0]]),
        "alpha": 6.0,
    }
    cases: list[Inputs] = [by_hand]
    for d_out, d_in, rank, alpha in [
        (5, 7, 2, 3.0),
        *[(7, 5, 3, 11.0), (13, 13, 2, 0.5)] * thorough,
    ]:
        weight, down, up = (
            torch.randn(d_out, d_in),
            torch.randn(rank, d_in),
            torch.randn(d_out, rank),
        )
        cases.append({"weight": weight, "down": down, "up": up, "alpha": alpha})
    for inputs in cases:
        got = in_32_bits(call_twice(merged_weight, inputs))
        what = "the result of merged_weight"
        expect_equal(got, merged(**inputs), what, inputs, MERGED_TWINS)
    asked: list[tuple[list[tuple[int, int]], int]] = [
        ([(4, 6)], 500),
        ([(4, 6)], 159),
        ([(8, 8), (2, 8)], 100_000),
        ([(8, 8), (3, 9), (16, 16)], 100_000),
        ([(128, 128), (64, 128)], 30_000),
        ([(64, 16), (3, 64), (32, 32)], 10_000),
        ([(128, 128)] * 8, 524_288),
    ]
    asked += [([(512, 512), (2048, 512)], 5_000_000), ([(7, 31), (31, 7)], 99_999)] * thorough
    expect_all(
        plan, named_cases(("shapes", "budget"), asked), planned, "rank, parameters", PLAN_TWINS,
        lambda got, right: got == right,
        pick=lambda answer, inputs: [
            plain_number(each) for each in expect_pair(answer, ("rank", "parameters"), inputs)
        ],
    )  # fmt: skip


def _expect_updated(candidate: object, d_out: int, d_in: int, rank: int, alpha: float) -> None:
    asked = {"linear": nn.Linear(d_in, d_out), "rank": rank, "alpha": alpha}
    down, up = torch.randn(rank, d_in), torch.randn(d_out, rank)
    linear = nn.Linear(d_in, d_out)
    state = {
        **{f"linear.{name}": each.detach().clone() for name, each in linear.named_parameters()},
        "down": down,
        "up": up,
    }
    made = built(candidate, asked, state)
    _expect_a_beginning(candidate, d_out, d_in, rank, alpha)
    inputs = {"x": torch.randn(3, d_in) if d_in == 3 else torch.randn(2, 3, d_in)}
    what = "the output of LowRankLinear"
    with torch.no_grad():
        twins = [
            Twin(f"LowRankLinear: {said}", partial(updated, linear, down, up, alpha, **way))
            for said, ways in _UPDATED_WAYS.items() for way in ways
        ]  # fmt: skip
        right = updated(linear, down, up, alpha, inputs["x"])
        given = {"linear": linear, "rank": rank, "alpha": alpha, **inputs}
        got = run(made, inputs, what.capitalize())
        shown = [Twin(said, lambda *all_given, way=way: way(all_given[-1])) for said, way in twins]
        expect_equal(got, right, what, given, shown)
    trained = {name: each for name, each in made.named_parameters() if each.requires_grad}
    expect_gradients_through(made, inputs, trained, slopes=False)


def _expect_a_beginning(candidate: object, d_out: int, d_in: int, rank: int, alpha: float) -> None:
    """Check what is trained, and how the update begins."""
    linear = nn.Linear(d_in, d_out)
    asked = {"linear": linear, "rank": rank, "alpha": alpha}
    fresh = cast(nn.Module, call(candidate, asked))
    named = dict(fresh.named_parameters())
    said = ""
    if any(named[f"linear.{name}"].requires_grad for name in ("weight", "bias")):
        said = (
            "The original layer is not frozen: its weight or its bias is trained. Call "
            "linear.requires_grad_(False)."
        )
    elif not (named["down"].requires_grad and named["up"].requires_grad):
        said = "`down` or `up` is frozen. Both are trained; only the original layer is frozen."
    elif named["up"].any() and not named["down"].any():
        said = "`down` is zero and `up` is random. It must be the other way round."
    elif named["up"].any():
        share = f"its largest entry is {float(named['up'].detach().abs().max()):.3g}"
        said = f"`up` must be zero at first, so that the output does not change; {share}."
    elif not named["down"].any():
        said = (
            "`down` and `up` are both zero at first. Then neither receives a gradient. `down` must "
            "be random."
        )
    elif not torch.equal(named["linear.weight"], linear.weight):
        said = "self.linear has other weights than the given layer. Store that layer itself."
    if said:
        raise CheckFailed(f"  LowRankLinear: {said}\n{describe(asked)}")
