r"""Explanations of a prediction, and tests of them: occlusion, gradient × input, LIME, permutation.

An explanation gives a number to every place of an input: its weight, what happens when it is made
blank (`occlusion`), how the answer would move with it (`gradient_times_input`), or its slope
in a linear model fitted near by (`lime`). They ask different questions and need not agree.

The others change the weights and leave the rest: `permuted_weights`, and `adversarial_weights`,
which are as different as can be while the answer stays; and `forgery_loss` trains a second model
to answer alike and show other weights.

Sources: Jain & Wallace (2019), https://arxiv.org/abs/1902.10186; Wiegreffe & Pinter (2019),
https://arxiv.org/abs/1908.04626; Ribeiro, Singh & Guestrin (2016),
https://arxiv.org/abs/1602.04938.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from attentively.attention.masks import check_mask, masked_softmax
from attentively.config import check_at_least_one

Score = Callable[[Tensor], Tensor]
"""From a batch of inputs to one number each: the probability of a label, say."""


class LinearModel(NamedTuple):
    """A straight line through the answers near an input."""

    slopes: Float[Tensor, " places"]
    """How much each place adds to the answer by being there."""
    intercept: Float[Tensor, ""]
    """The answer where no place is."""


@torch.no_grad()
def occlusion(
    score: Score,
    places: Num[Tensor, "places *features"],
    blank: float | int | Tensor = 0.0,
) -> Float[Tensor, " places"]:
    r"""Return how far the score falls when each place in turn is made blank.

    .. math:: o_i = f(x) - f(x_1, \dots, x_{i-1}, \text{blank}, x_{i+1}, \dots, x_n)

    Below zero where the score rises. `blank` is a number, or a place of its own.
    """
    everywhere = torch.arange(len(places), device=places.device)
    changed = places.repeat(len(places), *[1] * places.dim())  # a copy for each place
    changed[everywhere, everywhere] = torch.as_tensor(blank).to(places)
    return score(places.unsqueeze(0)) - score(changed)


def gradient_times_input(
    score: Score, places: Float[Tensor, "places *features"]
) -> Float[Tensor, " places"]:
    r"""Return, for each place, its features times the slopes of the score, summed.

    .. math:: g_i = \sum_k x_{ik} \, \frac{\partial f(x)}{\partial x_{ik}}

    That is what a straight line would lose without the place. Token ids have no slope:
    give their embeddings.
    """
    inputs = places.detach().unsqueeze(0).requires_grad_()
    (slopes,) = torch.autograd.grad(score(inputs).sum(), inputs)
    return (inputs * slopes).detach().view(len(places), -1).sum(dim=1)


def lime(
    score: Score,
    places: Num[Tensor, "places *features"],
    blank: float | int | Tensor = 0.0,
    samples: int = 200,
    width: float = 0.25,
    seed: int = 0,
) -> LinearModel:
    r"""Fit a linear model to the score with some positions blank; near ones count more.

    Each sample keeps a place with probability one half: :math:`z_i` is 1 where it is
    kept. The model :math:`\ell(z) = w_0 + \sum_i w_i z_i` minimises

    .. math:: \sum_z \pi(z) \bigl(f(z) - \ell(z)\bigr)^2, \qquad
              \pi(z) = \exp\bigl(-D(z)^2 / \sigma^2\bigr),

    with :math:`D` one less the cosine between `z` and ones, and :math:`\sigma` the
    `width`. The whole input is the first sample. Ribeiro et al. (2016), section 3, keep
    a few places only; here every place keeps its slope.
    """
    check_at_least_one(samples=samples)
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(samples, len(places), generator=generator) < 0.5
    kept[0] = True
    kept = kept.to(places.device)
    shape = kept.shape + (1,) * (places.dim() - 1)
    blanks = torch.as_tensor(blank).to(places)
    with torch.no_grad():
        answers = score(torch.where(kept.view(shape), places, blanks))
    cosine = kept.float().mean(dim=1).sqrt()  # of zeros and ones, with ones
    nearness = torch.exp(-((1 - cosine) ** 2) / width**2)
    return weighted_least_squares(kept.float(), answers, nearness)


def weighted_least_squares(
    features: Float[Tensor, "samples features"],
    targets: Float[Tensor, " samples"],
    weights: Float[Tensor, " samples"],
) -> LinearModel:
    r"""Return the linear model with the least weighted squared error.

    Each row and its target is multiplied by the root of its weight: the rest is
    ordinary least squares. Of several best models it is the one with the smallest
    numbers.
    """
    design = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    root = weights.sqrt().unsqueeze(1)
    inverse = torch.linalg.pinv((root * design).double())
    solution = inverse @ (root[:, 0] * targets).double()
    *_, intercept = found = solution.to(features.dtype)
    return LinearModel(found[:-1], intercept)


def permuted_weights(
    weights: Float[Tensor, "batch places"],
    mask: Bool[Tensor, "batch places"] | None = None,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch places"]:
    """Return the weights of each row dealt anew among its real places, at random.

    `mask` is False at padding, which keeps its zeros.
    """
    mask = _mask_of(weights, mask)
    chance = torch.rand(weights.shape, generator=generator).to(weights.device)
    # Real places first, shuffled
    new_order = chance.masked_fill(~mask, 2).argsort(dim=-1)
    old_order = (~mask).long().argsort(dim=-1, stable=True)  # and as they stand
    reordered = weights.gather(-1, old_order)
    return torch.zeros_like(weights).scatter(-1, new_order, reordered)


def adversarial_weights(
    answer: Callable[[Tensor], Tensor],
    weights: Float[Tensor, "batch places"],
    mask: Bool[Tensor, "batch places"] | None = None,
    allowed: float = 0.01,
    starts: int = 4,
    steps: int = 150,
    learning_rate: float = 0.3,
    strictness: float = 10.0,
    seed: int = 0,
) -> Float[Tensor, "batch places"]:
    r"""Search for weights far from those given that leave the answer as it is.

    `answer` turns weights into probabilities of the labels. Adam climbs

    .. math:: \operatorname{JSD}(\alpha, \hat\alpha)
              - \lambda \max\bigl(0,
              \operatorname{TVD}(f(\alpha), f(\hat\alpha)) - \epsilon\bigr)

    from a few random `starts`, with :math:`\epsilon` what is `allowed` and
    :math:`\lambda` the `strictness`. Returned are, for each row, the farthest weights
    met on the way that keep to :math:`\epsilon`; the weights given, where none did.
    Jain & Wallace (2019), section 4.2.2, search for several at once, far from each
    other too.
    """
    mask = _mask_of(weights, mask)
    weights = weights.detach()
    with torch.no_grad():
        truth = answer(weights)
    generator = torch.Generator().manual_seed(seed)
    best, farthest = weights, torch.zeros_like(weights[:, 0])
    for _ in range(starts):
        scores = torch.randn(weights.shape, generator=generator).to(weights)
        scores.requires_grad_()
        optimiser = torch.optim.Adam([scores], learning_rate)
        for _ in range(steps):
            tried = masked_softmax(scores, mask)
            distance = jensen_shannon(tried, weights)
            moved = total_variation(answer(tried), truth)
            better = (moved <= allowed) & (distance > farthest)
            best = torch.where(better.unsqueeze(-1), tried.detach(), best)
            farthest = torch.where(better, distance.detach(), farthest)
            loss = strictness * (moved - allowed).relu() - distance
            (scores.grad,) = torch.autograd.grad(loss.sum(), scores)
            optimiser.step()
    return best


def forgery_loss(
    probabilities: Float[Tensor, "batch labels"],
    weights: Float[Tensor, "batch places"],
    true_probabilities: Float[Tensor, "batch labels"],
    true_weights: Float[Tensor, "batch places"],
    greed: float,
) -> Float[Tensor, ""]:
    r"""Return how badly a model forges another: the same answers, other weights.

    .. math::

        \operatorname{TVD}(\hat y, y)
        - \lambda \operatorname{KL}(\hat\alpha \Vert \alpha)

    with :math:`\hat y, \hat\alpha` the forger's and :math:`\lambda` the `greed`: the
    mean over the batch. Wiegreffe & Pinter (2019), section 4.
    """
    same = total_variation(probabilities, true_probabilities)
    other = kullback_leibler(weights, true_weights)
    return (same - greed * other).mean()


def total_variation(
    first: Float[Tensor, "*batch outcomes"], second: Float[Tensor, "*batch outcomes"]
) -> Float[Tensor, "*batch"]:
    r"""Return :math:`\frac12 \sum_i |p_i - q_i|`: 0 if equal, 1 if none is shared."""
    return (first - second).abs().sum(dim=-1) / 2


def kullback_leibler(
    first: Float[Tensor, "*batch outcomes"], second: Float[Tensor, "*batch outcomes"]
) -> Float[Tensor, "*batch"]:
    r"""Return :math:`\sum_i p_i \log (p_i / q_i)` in nats; 0 log 0 is 0.

    Where the second has next to nothing its logarithm is cut off, so that the sum stays finite.
    """
    smallest = torch.finfo(first.dtype).tiny
    logs = first.clamp(min=smallest).log() - second.clamp(min=smallest).log()
    return (first * logs).sum(dim=-1)


def jensen_shannon(
    first: Float[Tensor, "*batch outcomes"], second: Float[Tensor, "*batch outcomes"]
) -> Float[Tensor, "*batch"]:
    r"""Return the Jensen–Shannon divergence of two distributions.

    .. math::

        \tfrac12 \operatorname{KL}(p \Vert m)
        + \tfrac12 \operatorname{KL}(q \Vert m)

    :math:`m` is the mean of both. In nats: from 0, equal, to :math:`\log 2 = 0.693`,
    where one is zero wherever the other is not.
    """
    mean = (first + second) / 2
    return (kullback_leibler(first, mean) + kullback_leibler(second, mean)) / 2


def _mask_of(weights: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return torch.ones_like(weights, dtype=torch.bool)
    check_mask(mask, weights.shape)
    return mask.expand_as(weights)
