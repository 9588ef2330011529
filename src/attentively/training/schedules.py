"""Learning-rate schedules: constant, one cycle, and inverse square root with warm-up.

A schedule is a function ``(step, steps, warm_up_steps)`` that returns the share of the highest
learning rate to use at `step`, counted from 0, of a run of `steps`.
"""

import math
from collections.abc import Callable


def constant(step: int, steps: int, warm_up_steps: int) -> float:
    """Return 1: the learning rate as it is, from the first step, without a warm-up."""
    _check(step, steps, warm_up_steps)
    return 1.0


def one_cycle(step: int, steps: int, warm_up_steps: int) -> float:
    r"""Rise in a line over `warm_up_steps`, then fall along half a cosine to nothing.

    Large steps where the loss is far from its floor, small ones to settle. After
    Smith & Topin (2017), https://arxiv.org/abs/1708.07120, with a cosine for the way down.
    Without a warm-up the first step has the highest rate.
    """
    _check(step, steps, warm_up_steps)
    if step < warm_up_steps:
        return (step + 1) / (warm_up_steps + 1)
    progress = (step - warm_up_steps) / max(1, steps - warm_up_steps)
    return 0.5 * (1 + math.cos(math.pi * progress))


def inverse_square_root(step: int, steps: int, warm_up_steps: int) -> float:
    r"""Rise linearly over `warm_up_steps`, then fall as one over the square root.

    .. math:: \text{share} = \min\!\left(\frac{n}{w}, \sqrt{\frac{w}{n}}\right)

    with :math:`n` the number of the step, counted from 1, and :math:`w` the steps of
    the warm-up. This is equation (3) of Vaswani et al. (2017),
    https://arxiv.org/abs/1706.03762, section 5.3, divided by its highest value, which
    is `paper_learning_rate`. How long the run is does not matter: a longer one begins
    with the same rates. Without a warm-up the first step has the highest rate.
    """
    _check(step, steps, warm_up_steps)
    number = step + 1  # the paper counts steps from 1
    peak = max(1, warm_up_steps)
    return min(number / peak, math.sqrt(peak / number))


def paper_learning_rate(d_model: int, warm_up_steps: int) -> float:
    r"""Return the highest learning rate of the Transformer's paper.

    .. math:: \frac{1}{\sqrt{d_\text{model} \cdot \text{warm-up steps}}}

    It is what equation (3) gives at the last step of the warm-up; a share of it by
    `inverse_square_root` gives every other step. The paper's base model, with a
    `d_model` of 512 and 4000 `warm_up_steps`, reaches about 0.0007. Raises `ValueError`
    for numbers below 1.
    """
    for name, value in (("d_model", d_model), ("warm_up_steps", warm_up_steps)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    return 1 / math.sqrt(d_model * warm_up_steps)


def _check(step: int, steps: int, warm_up_steps: int) -> None:
    if not 0 <= step <= steps:
        raise ValueError(f"step={step} is not within the {steps} steps of the schedule")
    if warm_up_steps < 0:
        raise ValueError(f"warm_up_steps={warm_up_steps} must be 0 or more")


Schedule = Callable[[int, int, int], float]

SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "one_cycle": one_cycle,
    "inverse_square_root": inverse_square_root,
}
