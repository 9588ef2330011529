"""Warm up a zygote: take the first steps of a notebook once, when this module is imported.

PyTorch, IPython and matplotlib load much of themselves only when it is needed: the first gradient
brings sympy (half a second), the first error its formatters, the first figure fonts and a backend.
A child that is forked afterwards has all that; without, each one would load it anew.
"""

import contextlib
import io
import sys


def take_a_gradient() -> None:
    """Differentiate a number."""
    import torch

    weight = torch.ones(1, requires_grad=True)
    torch.autograd.grad(2 * weight, weight, torch.ones(1))  # as a gradient that comes from the test
    torch.nn.Linear(1, 1)(torch.randn(1, 1)).sum().backward()


def show_an_error() -> None:
    """Format an error as a notebook does."""
    from IPython.core.ultratb import AutoFormattedTB

    try:
        raise ValueError("warm-up")
    except ValueError:
        AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())


def draw_a_figure() -> None:
    """Draw into memory; pyplot's own figures and settings are left alone."""
    import matplotlib_inline.backend_inline  # noqa: F401
    import numpy.random  # noqa: F401
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1))
    FigureCanvasAgg(figure)
    figure.subplots().set_title("warm-up")
    figure.savefig(io.BytesIO(), format="png")


for step in (take_a_gradient, show_an_error, draw_a_figure):
    with contextlib.suppress(Exception):  # whatever is missing here, a notebook will say
        step()
