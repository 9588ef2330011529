"""The learning rate of a step: right, and as mistakes would have it."""

from attentively.checks import known


def rate(step: int, d_model: int, warm_up_steps: int) -> float:
    """Return the learning rate of a step, counted from 1."""
    return float(d_model**-0.5 * min(step**-0.5, step * warm_up_steps**-1.5))


RATE_TWINS = [
    *known(
        "The larger of the two is taken. The rate rises, then falls: it is the smaller one.",
        lambda n, d, w: d**-0.5 * max(n**-0.5, n * w**-1.5),
    ),
    *known(
        "The rate only rises: where step^(-0.5) is smaller, that is taken.",
        lambda n, d, w: d**-0.5 * n * w**-1.5,
    ),
    *known(
        "There is no warm-up: in the beginning step * warm_up_steps^(-1.5) is smaller.",
        lambda n, d, w: d**-0.5 * n**-0.5,
    ),
    *known(
        "After the warm-up the rate stays as it is. It falls with the root of the step.",
        lambda n, d, w: d**-0.5 * min(w**-0.5, n * w**-1.5),
    ),
    *known(
        "The factor d_model^(-0.5) is missing.", lambda n, d, w: min(n**-0.5, n * w**-1.5)
    ),
    *known(
        "The factor is the root of d_model, and belongs below the line: d_model^(-0.5).",
        lambda n, d, w: d**0.5 * min(n**-0.5, n * w**-1.5),
    ),
    *known("d_model is taken without a root.", lambda n, d, w: min(n**-0.5, n * w**-1.5) / d),
    *known(
        "The steps are counted from 0 here, and step comes counted from 1: take it as it is.",
        lambda n, d, w: rate(n + 1, d, w),
        lambda n, d, w: rate(n - 1, d, w) if n > 1 else 0.0,
    ),
    *known(
        "The factor d_model^(-0.5) belongs to both sides of the min, not to the first alone.",
        lambda n, d, w: min(d**-0.5 * n**-0.5, n * w**-1.5),
    ),
    *known(
        "After the warm-up the rate falls as one over the step. Take one over its root.",
        lambda n, d, w: (d * w) ** -0.5 * min(n / w, w / n),
        lambda n, d, w: d**-0.5 * (n * w**-1.5 if n < w else 1 / n),
    ),
    *known(
        "In the warm-up this divides by warm_up_steps. The exponent is -1.5, so that the two "
        "sides meet where the warm-up ends.",
        lambda n, d, w: d**-0.5 * min(n**-0.5, n / w),
    ),
    *known(
        "This is the share of the highest rate. Multiply by the highest, which the equation gives.",
        lambda n, d, w: min(n / w, (w / n) ** 0.5),
    ),
    *known(
        "The exponent of warm_up_steps is -0.5. With -1.5 the two sides meet where the warm-up "
        "ends.",
        lambda n, d, w: d**-0.5 * min(n**-0.5, n * w**-0.5),
    ),
]  # fmt: skip
