"""Warm up a zygote: on import, trigger the lazy imports of a typical notebook once.

PyTorch, IPython and matplotlib import many modules lazily: the first gradient imports sympy (half a
second), the first error imports formatters, the first figure imports fonts and a backend. A child
that is forked afterwards has them all; otherwise each child would import them again.
"""

import contextlib
import io
import sys


def take_a_gradient() -> None:
    """Differentiate a number."""
    import torch

    weight = torch.ones(1, requires_grad=True)
    torch.autograd.grad(
        2 * weight, weight, torch.ones(1)
    )  # like a gradient that comes from the test
    torch.nn.Linear(1, 1)(torch.randn(1, 1)).sum().backward()


def show_an_error() -> None:
    """Format an error, as a notebook does."""
    from IPython.core.ultratb import AutoFormattedTB

    try:
        raise ValueError("warm-up")
    except ValueError:
        AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())


def draw_a_figure() -> None:
    """Draw in memory, without changing pyplot's figures and settings."""
    import matplotlib_inline.backend_inline  # noqa: F401
    import numpy.random  # noqa: F401
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.registry import backend_registry
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1))
    FigureCanvasAgg(figure)
    figure.subplots().set_title("warm-up")
    figure.savefig(io.BytesIO(), format="png")
    backend_registry.list_all()  # reads the metadata of all installed packages


for step in (take_a_gradient, show_an_error, draw_a_figure):
    with contextlib.suppress(Exception):  # a notebook will show the error
        step()
