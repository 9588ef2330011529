"""How the learning rate changes while a model trains."""

import math


def constant(step: int, steps: int) -> float:
    """Return 1: the learning rate as it is."""
    return 1.0


def one_cycle(step: int, steps: int, warm_up: float = 0.1) -> float:
    r"""Return the share of the learning rate to use at `step` (from 0) of `steps`.

    It rises in a line over the first tenth, then falls along half a cosine to nothing:
    large steps where the loss is far from its floor, small ones to settle. After
    Smith & Topin (2017), https://arxiv.org/abs/1708.07120, with a cosine for the way down.
    """
    if not 0 <= step <= steps:
        raise ValueError(f"step={step} is not within the {steps} steps of the schedule")
    rising = max(1.0, warm_up * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    progress = (step - rising) / max(1.0, steps - rising)
    return 0.5 * (1 + math.cos(math.pi * progress))


SCHEDULES = {"constant": constant, "one_cycle": one_cycle}
