"""Answers to the part on low-rank updates of 19_heads_for_other_tasks, right and wrong."""

import math

import right_answers_19 as right
import torch
from torch import nn
from torch.nn import functional as F
from wrong_answers_19 import changed as changed_of_module

from attentively.layers import low_rank


class LowRankLinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        d_out, d_in = linear.weight.shape
        self.linear = linear.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, d_in) / rank)
        self.up = nn.Parameter(torch.zeros(d_out, rank))
        self.factor = alpha / rank

    def forward(self, x):
        return self.linear(x) + self.factor * (x @ self.down.T @ self.up.T)


class MergedEachTime(nn.Module):
    """The small product is added to the weight, in every call."""

    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.alpha = alpha
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.linear = linear
        for parameter in self.linear.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        weight = merged_weight(self.linear.weight, self.down, self.up, self.alpha)
        return F.linear(x, weight, self.linear.bias)


def merged_weight(weight, down, up, alpha):
    return weight + alpha / len(down) * (up @ down)


def merged_weight_by_outer_products(weight, down, up, alpha):
    """One rank after the other, in 64 bits."""
    total = weight.double()
    for row, column in zip(down, up.T, strict=True):
        total = total + alpha / down.shape[0] * torch.outer(column, row)
    return total


def plan(shapes, budget):
    each = sum(d_out + d_in for d_out, d_in in shapes)
    rank = min(budget // (16 * each), min(min(shape) for shape in shapes))
    return rank, rank * each


def plan_by_search(shapes, budget):
    """Rank after rank until one does not fit."""
    rank = parameters = 0
    while True:
        more = sum(torch.empty(rank + 1, n).numel() for shape in shapes for n in shape)
        if more * 4 * 4 > budget or any(rank + 1 > n for shape in shapes for n in shape):
            return [rank, parameters]
        rank, parameters = rank + 1, more


RIGHT = [
    (LowRankLinear, merged_weight, plan),
    (MergedEachTime, merged_weight_by_outer_products, plan_by_search),
]


def changed(answer, *pairs):
    """Return a right answer with words of its source replaced."""
    vars(right).setdefault("merged_weight", merged_weight)
    return changed_of_module(answer, *pairs)


def layer_with(*pairs):
    return changed(LowRankLinear, *pairs), merged_weight, plan


def merged_with(*pairs):
    return LowRankLinear, changed(merged_weight, *pairs), plan


def planned_with(*pairs):
    return LowRankLinear, merged_weight, changed(plan, *pairs)


class Child(low_rank.LowRankLinear):
    pass


class NoModule:
    def __init__(self, linear, rank, alpha):
        self.linear = linear


class OtherShapes(LowRankLinear):
    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, alpha)
        self.down, self.up = self.up, self.down


class OtherLayer(LowRankLinear):
    def __init__(self, linear, rank, alpha):
        super().__init__(nn.Linear(linear.in_features, linear.out_features), rank, alpha)


def merge_in_place(weight, down, up, alpha):
    weight += alpha / len(down) * (up @ down)
    return weight


FROZEN = "linear.requires_grad_(False)"
DOWN = "nn.Parameter(torch.randn(rank, d_in) / rank)"
UP = "nn.Parameter(torch.zeros(d_out, rank))"
FORWARD = "self.linear(x) + self.factor"
LIMIT = "min(min(shape) for shape in shapes)"
EACH = "sum(d_out + d_in for d_out, d_in in shapes)"

WRONG = [
    ((low_rank.LowRankLinear, merged_weight, plan), "This is the package's own class"),
    ((Child, merged_weight, plan), "This is the package's own class"),
    ((NoModule, merged_weight, plan), "should be a class whose parent is nn.Module"),
    ((OtherShapes, merged_weight, plan), "the shape of down is (2, 2), expected (2, 3)"),
    (layer_with((DOWN, DOWN.replace("randn", "zeros")), (UP, UP.replace("zeros", "randn"))),
     "down is zero and up is random"),
    ((OtherLayer, merged_weight, plan), "has other weights than the layer that was given"),
    (layer_with((FROZEN, "linear")), "the original layer is not frozen"),
    (layer_with((DOWN, f"{DOWN}.requires_grad_(False)")), "down or up is frozen"),
    (layer_with((UP, UP.replace("zeros", "ones"))), "up must begin at zero, so that at first"),
    (layer_with((DOWN, DOWN.replace("randn", "zeros"))), "down and up both begin at zero"),
    (layer_with(("alpha / rank", "1")), "the factor alpha / rank is missing"),
    (layer_with(("alpha / rank", "alpha")), "the update is multiplied by alpha."),
    (layer_with(("alpha / rank", "rank / alpha")), "the update is multiplied by rank / alpha"),
    (layer_with(("alpha / rank", "1 / rank")), "the update is multiplied by 1 / rank"),
    (layer_with((FORWARD, "self.factor")), "the output of the original layer is missing"),
    (layer_with((FORWARD, f"{FORWARD} * 0")), "the update is missing"),
    (layer_with((FORWARD, f"self.linear.bias + {FORWARD}")), "the bias is added twice"),
    (layer_with(("self.linear(x)", "x @ self.linear.weight.T")), "the bias is missing"),
    (layer_with((FORWARD, "self.linear(x) - self.factor")), "the update is subtracted"),
    (layer_with(("@ self.up.T)", "@ self.up.T).detach()")), "no gradient flows through them"),
    (merged_with(("alpha / len(down) * ", "")), "merged_weight: the factor alpha / rank is"),
    (merged_with((" / len(down)", "")), "merged_weight: the update is multiplied by alpha."),
    (merged_with(("weight + ", "")), "this is the update alone"),
    (merged_with(("(up @ down)", "(up @ down).T")), "A and B are exchanged"),
    (merged_with(("len(down)", "len(up)")), "by the number of inputs or outputs"),
    ((LowRankLinear, merge_in_place, plan), "changes its input weight"),
    (planned_with(("16 * each", "4 * each")), "only the parameters are counted"),
    (planned_with(("16 * each", "8 * each")), "8 bytes are counted"),
    (planned_with(("16 * each", "12 * each")), "12 bytes are counted"),
    (planned_with((f"min(budget // (16 * each), {LIMIT})", "budget // (16 * each)")),
     "the rank has a limit besides the budget"),
    (planned_with((LIMIT, "max(map(max, shapes))")), "the limit is the largest dimension"),
    (planned_with((LIMIT, "min(shapes[0])")), "the limit of the first layer alone"),
    (planned_with((EACH, EACH.replace("+", "*"))), "a whole matrix is counted"),
    (planned_with((EACH, EACH.replace("d_out + d_in", "2 * d_out + d_in"))),
     "a bias is counted"),
    (planned_with((EACH, EACH.replace("d_out + ", ""))), "only one of the two matrices"),
    (planned_with((EACH, "sum(shapes[0])")), "only the first layer is counted"),
    (planned_with(("budget // (16 * each)", "-(-budget // (16 * each))")), "rounded up"),
    (planned_with(("return rank, rank * each", "return rank * each, rank")), "changed places"),
    (planned_with(("return rank, rank * each", "return rank, rank * each * 16")), "is in bytes"),
    (planned_with((", rank * each", "")), "Expected a pair"),
]  # fmt: skip
