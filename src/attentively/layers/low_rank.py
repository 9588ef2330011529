"""Low-rank updates (LoRA): adapt a linear layer by training few new parameters.

Hu et al. (2021), https://arxiv.org/abs/2106.09685, section 4.1.
"""

import math
from collections.abc import Collection

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class LowRankLinear(nn.Module):
    r"""Add a trainable update of low rank to a linear layer, which itself is frozen.

    .. math::
        h = W x + b + \frac{\alpha}{r} B A x, \qquad
        A \in \mathbb{R}^{r \times d_\text{in}}, \quad
        B \in \mathbb{R}^{d_\text{out} \times r}

    :math:`B` is initialised with zeros, so that the layer first computes what `linear`
    computes. :math:`A` is random: uniform between :math:`\pm 1 / \sqrt{d_\text{in}}`,
    as in the authors' code (https://github.com/microsoft/LoRA); the paper has a
    Gaussian. Only :math:`A` and :math:`B` are trained: :math:`r (d_\text{in} +
    d_\text{out})` parameters. A rank below 1 or above :math:`\min(d_\text{in},
    d_\text{out})` raises `ValueError`.

    Source: Hu et al. (2021), https://arxiv.org/abs/2106.09685, section 4.1.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        d_out, d_in = linear.weight.shape
        if not 1 <= rank <= min(d_in, d_out):
            raise ValueError(
                f"{rank=} must be between 1 and {min(d_in, d_out)}, the smaller "
                f"dimension of a weight of shape ({d_out}, {d_in})"
            )
        self.linear = linear.requires_grad_(False)  # W, b
        self.scale = alpha / rank
        self.down = nn.Parameter(linear.weight.new_empty(rank, d_in))  # A
        self.up = nn.Parameter(linear.weight.new_zeros(d_out, rank))  # B
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: Float[Tensor, "*shape d_in"]) -> Float[Tensor, "*shape d_out"]:
        """Return the output of the frozen layer plus the scaled update."""
        update = F.linear(F.linear(x, self.down), self.up)  # B A x
        return self.linear(x) + self.scale * update

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        r"""Return one linear layer of weight :math:`W + \frac{\alpha}{r} B A`.

        It computes the same function, at the cost of the original layer.
        """
        d_out, d_in = self.linear.weight.shape
        has_bias = self.linear.bias is not None
        merged = nn.Linear(d_in, d_out, has_bias).to(self.linear.weight)
        merged.weight.copy_(self.linear.weight + self.scale * self.up @ self.down)
        if has_bias:
            merged.bias.copy_(self.linear.bias)
        return merged


def add_low_rank_updates(
    model: nn.Module,
    rank: int,
    alpha: float,
    where: Collection[str] = ("query_projection", "value_projection"),
) -> list[str]:
    """Freeze `model`, and add low-rank updates to its linear layers called `where`.

    A layer is chosen if its name, such as ``layers.0.self_attention.query_projection``,
    is one of `where` or ends with one of them after a dot. The default, the projections
    of queries and values, is the choice of the paper (section 5.1). Returns the names
    of the chosen layers.

    Raises `ValueError` if no layer is chosen, if the model already has updates, or if a
    chosen weight is shared, as by an embedding and the output layer: merging would
    separate the two.
    """
    modules = dict(model.named_modules())
    if any(isinstance(each, LowRankLinear) for each in modules.values()):
        raise ValueError("the model has low-rank updates already: merge these first")
    linear = {name: each for name, each in modules.items() if type(each) is nn.Linear}
    ends = tuple(f".{end}" for end in where)
    chosen = [name for name in linear if f".{name}".endswith(ends)]
    if not chosen:
        names = sorted({name.rpartition(".")[2] for name in linear})
        raise ValueError(f"no linear layer is called {[*where]}: choose from {names}")
    parameters = [*model.named_parameters(remove_duplicate=False)]
    for name in chosen:
        weight = linear[name].weight
        sharing = [owner for owner, parameter in parameters if parameter is weight]
        if len(sharing) > 1:
            raise ValueError(f"{' and '.join(sharing)} are one tensor: leave it out")
    updated = {name: LowRankLinear(linear[name], rank, alpha) for name in chosen}
    model.requires_grad_(False)
    for name, layer in updated.items():
        model.set_submodule(name, layer)
    return chosen


def merge_low_rank_updates(model: nn.Module) -> list[str]:
    """Replace each updated layer of `model` by its merged layer; return their names.

    The model then has its original structure, and all its parameters can be trained.
    Raises `ValueError` if there is no update.
    """
    merged = {
        name: each.merged()
        for name, each in model.named_modules()
        if isinstance(each, LowRankLinear)
    }
    if not merged:
        raise ValueError("the model has no low-rank updates to merge")
    for name, layer in merged.items():
        model.set_submodule(name, layer)
    model.requires_grad_(True)
    return [*merged]
