"""The learning rate of a step: correct, and with known mistakes."""

from attentively.checks import known


def rate(step: int, d_model: int, warm_up_steps: int) -> float:
    """Return the learning rate of a step, counted from 1."""
    return float(d_model**-0.5 * min(step**-0.5, step * warm_up_steps**-1.5))


RATE_TWINS = [
    *known(
        "The larger of the two values is taken. The rate rises and then decays: take the smaller "
        "one.",
        lambda n, d, w: d**-0.5 * max(n**-0.5, n * w**-1.5),
    ),
    *known(
        "The rate only rises. After the warm-up, step^(-0.5) is the smaller value.",
        lambda n, d, w: d**-0.5 * n * w**-1.5,
    ),
    *known(
        "There is no warm-up. During it, step * warm_up_steps^(-1.5) is the smaller value.",
        lambda n, d, w: d**-0.5 * n**-0.5,
    ),
    *known(
        "After the warm-up the rate is constant. It must decay with step^(-0.5).",
        lambda n, d, w: d**-0.5 * min(w**-0.5, n * w**-1.5),
    ),
    *known(
        "The factor d_model^(-0.5) is missing.", lambda n, d, w: min(n**-0.5, n * w**-1.5)
    ),
    *known(
        "The factor is the square root of d_model. Its exponent is negative: d_model^(-0.5).",
        lambda n, d, w: d**0.5 * min(n**-0.5, n * w**-1.5),
    ),
    *known(
        "The factor is 1 / d_model. The exponent is -0.5: d_model^(-0.5).",
        lambda n, d, w: min(n**-0.5, n * w**-1.5) / d,
    ),
    *known(
        "The step is shifted by one. Steps are counted from 1: use `step` as it is.",
        lambda n, d, w: rate(n + 1, d, w),
        lambda n, d, w: rate(n - 1, d, w) if n > 1 else 0.0,
    ),
    *known(
        "The factor d_model^(-0.5) multiplies the first value only. It multiplies the minimum.",
        lambda n, d, w: min(d**-0.5 * n**-0.5, n * w**-1.5),
    ),
    *known(
        "After the warm-up the rate decays as 1 / step. It decays as 1 / sqrt(step).",
        lambda n, d, w: (d * w) ** -0.5 * min(n / w, w / n),
        lambda n, d, w: d**-0.5 * (n * w**-1.5 if n < w else 1 / n),
    ),
    *known(
        "During the warm-up, the step is divided by warm_up_steps. The exponent is -1.5, so that "
        "the two values are equal at the end of the warm-up.",
        lambda n, d, w: d**-0.5 * min(n**-0.5, n / w),
    ),
    *known(
        "This is the rate relative to its peak. Multiply it by the peak, the rate at the last step "
        "of the warm-up.",
        lambda n, d, w: min(n / w, (w / n) ** 0.5),
    ),
    *known(
        "The exponent of warm_up_steps is -0.5. It must be -1.5, so that the two values are equal "
        "at the end of the warm-up.",
        lambda n, d, w: d**-0.5 * min(n**-0.5, n * w**-0.5),
    ),
]  # fmt: skip
