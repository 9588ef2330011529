"""Learning-rate schedules: constant, one cycle, and inverse square root with warm-up.

A schedule is a function ``(step, steps, warm_up_steps)`` that returns the learning rate at `step`,
counted from 0, of a run of `steps`, as a fraction of the peak learning rate.
"""

import math
from collections.abc import Callable


def constant(step: int, steps: int, warm_up_steps: int) -> float:
    """Return 1: a constant learning rate without a warm-up."""
    _check(step, steps, warm_up_steps)
    return 1.0


def one_cycle(step: int, steps: int, warm_up_steps: int) -> float:
    r"""Rise linearly over `warm_up_steps`, then decay to zero along a half cosine.

    After Smith & Topin (2017), https://arxiv.org/abs/1708.07120, with a cosine decay. Without
    a warm-up the first step has the peak learning rate.
    """
    _check(step, steps, warm_up_steps)
    if step < warm_up_steps:
        return (step + 1) / (warm_up_steps + 1)
    progress = (step - warm_up_steps) / max(1, steps - warm_up_steps)
    return 0.5 * (1 + math.cos(math.pi * progress))


def inverse_square_root(step: int, steps: int, warm_up_steps: int) -> float:
    r"""Rise linearly over `warm_up_steps`, then decay with 1 over the square root.

    .. math:: \text{fraction} = \min\!\left(\frac{n}{w}, \sqrt{\frac{w}{n}}\right)

    with :math:`n` the step, counted from 1, and :math:`w` the number of warm-up steps.
    This is equation (3) of Vaswani et al. (2017), https://arxiv.org/abs/1706.03762,
    section 5.3, divided by its maximum, which is `paper_learning_rate`. It does not
    depend on the number of steps of the run. Without a warm-up the first step has the
    peak learning rate.
    """
    _check(step, steps, warm_up_steps)
    number = step + 1  # the paper counts steps from 1
    peak = max(1, warm_up_steps)
    return min(number / peak, math.sqrt(peak / number))


def paper_learning_rate(d_model: int, warm_up_steps: int) -> float:
    r"""Return the peak learning rate of the Transformer paper.

    .. math:: \frac{1}{\sqrt{d_\text{model} \cdot \text{warm-up steps}}}

    This is the value of equation (3) at the last step of the warm-up; multiplied by
    `inverse_square_root` it is the learning rate of every other step. The paper's base
    model, with a `d_model` of 512 and 4000 `warm_up_steps`, reaches about 0.0007.
    Raises `ValueError` for values below 1.
    """
    for name, value in (("d_model", d_model), ("warm_up_steps", warm_up_steps)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    return 1 / math.sqrt(d_model * warm_up_steps)


def _check(step: int, steps: int, warm_up_steps: int) -> None:
    if not 0 <= step <= steps:
        raise ValueError(f"step={step} must be from 0 to steps={steps}")
    if warm_up_steps < 0:
        raise ValueError(f"warm_up_steps={warm_up_steps} must not be negative")


Schedule = Callable[[int, int, int], float]

SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "one_cycle": one_cycle,
    "inverse_square_root": inverse_square_root,
}
