"""Figures of the book, one call each.

Each function returns a Matplotlib figure, which the last line of a cell shows; it is not managed
by `pyplot`, so ``plt.show()`` is not needed. Figures are narrow enough for their text to have 11
pixels or more on a phone.
"""

from attentively.analysis.figures.curves import seed_curves
from attentively.analysis.figures.decoder_steps import attention_step
from attentively.analysis.figures.diagram import Edge, Node, diagram
from attentively.analysis.figures.paths import context_paths

__all__ = ["Edge", "Node", "attention_step", "context_paths", "diagram", "seed_curves"]
