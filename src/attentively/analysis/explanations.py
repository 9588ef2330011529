r"""Explanations of a prediction, and tests of them: attribution methods, permuted weights.

An attribution method assigns a value to every position of an input: the effect of removing it
(`occlusion`), the sensitivity of the prediction (`gradient_times_input`), that sensitivity
accumulated on the way from a baseline (`integrated_gradients`), or its coefficient in a local
linear model (`lime`). The methods answer different questions and need not agree.

The tests change only the attention weights: `permuted_weights`, and `adversarial_weights`, which
are as different as possible for the same prediction. `forgery_loss` trains a second model with the
same predictions and other weights.

Sources: Jain & Wallace (2019), https://arxiv.org/abs/1902.10186; Wiegreffe & Pinter (2019),
https://arxiv.org/abs/1908.04626; Ribeiro, Singh & Guestrin (2016),
https://arxiv.org/abs/1602.04938; Sundararajan, Taly & Yan (2017),
https://arxiv.org/abs/1703.01365.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from attentively.attention.masks import check_mask, masked_softmax
from attentively.config import check_at_least_one

Score = Callable[[Tensor], Tensor]
"""A function from a batch of inputs to one value each, such as the probability of a label."""


class LinearModel(NamedTuple):
    """A linear model of the predictions near an input."""

    slopes: Float[Tensor, " places"]
    """Contribution of each position to the prediction."""
    intercept: Float[Tensor, ""]
    """Prediction without any position."""


@torch.no_grad()
def occlusion(
    score: Score,
    places: Num[Tensor, "places *features"],
    blank: float | int | Tensor = 0.0,
) -> Float[Tensor, " places"]:
    r"""Return the decrease of the score when each position in turn is set to `blank`.

    .. math:: o_i = f(x) - f(x_1, \dots, x_{i-1}, \text{blank}, x_{i+1}, \dots, x_n)

    It is negative where the score rises. `blank` is one value for all features, or the
    features of a position.
    """
    everywhere = torch.arange(len(places), device=places.device)
    changed = places.repeat(len(places), *[1] * places.dim())  # a copy per position
    changed[everywhere, everywhere] = torch.as_tensor(blank).to(places)
    return score(places.unsqueeze(0)) - score(changed)


def gradient_times_input(
    score: Score, places: Float[Tensor, "places *features"]
) -> Float[Tensor, " places"]:
    r"""Return, for each position, the dot product of its features and the gradient.

    .. math:: g_i = \sum_k x_{ik} \, \frac{\partial f(x)}{\partial x_{ik}}

    In a linear approximation of the score, it is the decrease without the position.
    Token ids have no gradient: use their embeddings.
    """
    inputs = places.detach().unsqueeze(0).requires_grad_()
    (slopes,) = torch.autograd.grad(score(inputs).sum(), inputs)
    return (inputs * slopes).detach().view(len(places), -1).sum(dim=1)


def integrated_gradients(
    score: Score,
    places: Float[Tensor, "places *features"],
    baseline: float | int | Tensor = 0.0,
    steps: int = 50,
) -> Float[Tensor, " places"]:
    r"""Return, for each position, the mean gradient times the change from the baseline.

    .. math:: \operatorname{IG}_i = \sum_k (x_{ik} - x'_{ik}) \int_0^1
              \frac{\partial f(x' + t (x - x'))}{\partial x_{ik}} \, dt

    The gradient is averaged over `steps` points on the line from the `baseline`
    :math:`x'` to the input :math:`x`, each in the middle of its interval. The
    attributions of all positions sum to :math:`f(x) - f(x')` (completeness), up to the
    error of the sum. Sundararajan et al. (2017), section 3.
    """
    check_at_least_one(steps=steps)
    start = torch.as_tensor(baseline).to(places)
    difference = places.detach() - start
    t = (torch.arange(steps, device=places.device) + 0.5) / steps
    inputs = start + t.view(-1, *[1] * places.dim()) * difference  # (steps, ...)
    inputs.requires_grad_()
    (slopes,) = torch.autograd.grad(score(inputs).sum(), inputs)
    return (difference * slopes.mean(dim=0)).view(len(places), -1).sum(dim=1)


def lime(
    score: Score,
    places: Num[Tensor, "places *features"],
    blank: float | int | Tensor = 0.0,
    samples: int = 200,
    width: float = 0.25,
    seed: int = 0,
) -> LinearModel:
    r"""Fit a local linear model to the score of inputs with some positions blank.

    Each sample keeps a position with probability one half: :math:`z_i` is 1 where it is
    kept. The model :math:`\ell(z) = w_0 + \sum_i w_i z_i` minimises

    .. math:: \sum_z \pi(z) \bigl(f(z) - \ell(z)\bigr)^2, \qquad
              \pi(z) = \exp\bigl(-D(z)^2 / \sigma^2\bigr),

    with :math:`D` one minus the cosine of `z` and a vector of ones, and :math:`\sigma`
    the `width`. The whole input is the first sample. Ribeiro et al. (2016), section 3,
    keep only a few coefficients; here every position has one.
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
    cosine = kept.float().mean(dim=1).sqrt()  # of z and a vector of ones
    nearness = torch.exp(-((1 - cosine) ** 2) / width**2)
    return weighted_least_squares(kept.float(), answers, nearness)


def weighted_least_squares(
    features: Float[Tensor, "samples features"],
    targets: Float[Tensor, " samples"],
    weights: Float[Tensor, " samples"],
) -> LinearModel:
    r"""Return the linear model with the least weighted squared error.

    Each row and its target are multiplied by the square root of its weight, which
    reduces the problem to ordinary least squares. Of several solutions, that of minimum
    norm is returned.
    """
    design = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    root = weights.sqrt().unsqueeze(1)
    inverse = torch.linalg.pinv((root * design).cpu().double())
    solution = inverse @ (root[:, 0] * targets).cpu().double()
    *_, intercept = found = solution.to(features)
    return LinearModel(found[:-1], intercept)


def permuted_weights(
    weights: Float[Tensor, "batch places"],
    mask: Bool[Tensor, "batch places"] | None = None,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "batch places"]:
    """Permute the weights of each row at random among its real positions.

    `mask` is False at padding, which keeps weights of zero.
    """
    mask = _mask_of(weights, mask)
    chance = torch.rand(weights.shape, generator=generator).to(weights.device)
    # Real positions first: shuffled, and in their order.
    new_order = chance.masked_fill(~mask, 2).argsort(dim=-1)
    old_order = (~mask).long().argsort(dim=-1, stable=True)
    moved = weights.gather(-1, old_order)
    return torch.zeros_like(weights).scatter(-1, new_order, moved)


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
    r"""Search for weights far from the given ones that leave the prediction unchanged.

    `answer` maps weights to probabilities of the labels. Adam maximises

    .. math:: \operatorname{JSD}(\alpha, \hat\alpha)
              - \lambda \max\bigl(0,
              \operatorname{TVD}(f(\alpha), f(\hat\alpha)) - \epsilon\bigr)

    from a few random `starts`, with :math:`\epsilon` the `allowed` change and
    :math:`\lambda` the `strictness`. Returns, for each row, the most distant weights
    found within :math:`\epsilon`, or the given weights if there are none. Jain &
    Wallace (2019), section 4.2.2, search for several weights at once, which are also
    far from each other.
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
    divergence_weight: float,
) -> Float[Tensor, ""]:
    r"""Return the loss of a model trained to predict as another with other weights.

    .. math:: \operatorname{TVD}(\hat y, y)
              - \lambda \operatorname{KL}(\hat\alpha \Vert \alpha)

    averaged over the batch, with :math:`\hat y, \hat\alpha` the predictions and weights
    of the trained model and :math:`\lambda` the `divergence_weight`. Wiegreffe & Pinter
    (2019), section 4.
    """
    same = total_variation(probabilities, true_probabilities)
    other = kullback_leibler(weights, true_weights)
    return (same - divergence_weight * other).mean()


def total_variation(
    first: Float[Tensor, "*batch outcomes"], second: Float[Tensor, "*batch outcomes"]
) -> Float[Tensor, "*batch"]:
    r"""Return :math:`\frac12 \sum_i |p_i - q_i|`: from 0 (equal) to 1 (disjoint)."""
    return (first - second).abs().sum(dim=-1) / 2


def kullback_leibler(
    first: Float[Tensor, "*batch outcomes"], second: Float[Tensor, "*batch outcomes"]
) -> Float[Tensor, "*batch"]:
    r"""Return :math:`\sum_i p_i \log (p_i / q_i)` in nats; 0 log 0 is 0.

    Probabilities are clamped at the smallest normal number, so that the sum stays finite.
    """
    smallest = torch.finfo(first.dtype).tiny
    logs = first.clamp(min=smallest).log() - second.clamp(min=smallest).log()
    return (first * logs).sum(dim=-1)


def jensen_shannon(
    first: Float[Tensor, "*batch outcomes"], second: Float[Tensor, "*batch outcomes"]
) -> Float[Tensor, "*batch"]:
    r"""Return the Jensen–Shannon divergence.

    .. math:: \frac12 \operatorname{KL}(p \Vert m)
              + \frac12 \operatorname{KL}(q \Vert m)

    :math:`m` is the mean of both. In nats, from 0 (equal) to :math:`\log 2 = 0.693`
    (disjoint supports).
    """
    mean = (first + second) / 2
    return (kullback_leibler(first, mean) + kullback_leibler(second, mean)) / 2


def _mask_of(weights: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return torch.ones_like(weights, dtype=torch.bool)
    check_mask(mask, weights.shape)
    return mask.expand_as(weights)
