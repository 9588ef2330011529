"""Figures of the book, one call each.

Each function returns a Matplotlib figure, which the last line of a cell shows; it is not managed
by `pyplot`, so ``plt.show()`` is not needed. Figures are narrow enough for their text to have 11
pixels or more on a phone.
"""

from attentively.analysis.figures.attention_heads import multi_head_steps, removal_curve
from attentively.analysis.figures.attributions import attribution_maps
from attentively.analysis.figures.bars import probability_bars
from attentively.analysis.figures.beams import beam
from attentively.analysis.figures.curves import run_points, seed_curves, seed_dots
from attentively.analysis.figures.decoder_steps import attention_step, query_states
from attentively.analysis.figures.diagram import Edge, Node, diagram
from attentively.analysis.figures.distributions import bootstrap_distributions
from attentively.analysis.figures.encoder_decoder import encoder_decoder
from attentively.analysis.figures.flow import attention_flow
from attentively.analysis.figures.heat_maps import heat_maps
from attentively.analysis.figures.images import attention_on_image, captioner, image_panels
from attentively.analysis.figures.lookups import attention_lookup
from attentively.analysis.figures.memory import memory_curves
from attentively.analysis.figures.paths import context_paths, layer_paths
from attentively.analysis.figures.pooling import convex_combinations, kernel_regression
from attentively.analysis.figures.positional_encodings import (
    clock_hands,
    encoding_heat_map,
    position_curves,
)
from attentively.analysis.figures.pronouns import pronoun_route
from attentively.analysis.figures.recurrent import (
    bidirectional_batch,
    gru_cell,
    lstm_cell,
    unrolled_network,
)
from attentively.analysis.figures.segmentations import segmentations
from attentively.analysis.figures.task_heads import task_heads
from attentively.analysis.figures.timelines import timeline
from attentively.analysis.figures.training import batch_padding, loss_panels
from attentively.analysis.figures.transformer_layers import transformer, transformer_layers
from attentively.analysis.figures.trees import Branch, tree
from attentively.analysis.figures.windows import attention_windows
from attentively.analysis.figures.word_vectors import embedding_lookup, skip_gram_window, word_map

__all__ = [
    "Branch",
    "Edge",
    "Node",
    "attention_flow",
    "attention_lookup",
    "attention_on_image",
    "attention_step",
    "attention_windows",
    "attribution_maps",
    "batch_padding",
    "beam",
    "bidirectional_batch",
    "bootstrap_distributions",
    "captioner",
    "clock_hands",
    "context_paths",
    "convex_combinations",
    "diagram",
    "embedding_lookup",
    "encoder_decoder",
    "encoding_heat_map",
    "gru_cell",
    "heat_maps",
    "image_panels",
    "kernel_regression",
    "layer_paths",
    "loss_panels",
    "lstm_cell",
    "memory_curves",
    "multi_head_steps",
    "position_curves",
    "probability_bars",
    "pronoun_route",
    "query_states",
    "removal_curve",
    "run_points",
    "seed_curves",
    "seed_dots",
    "segmentations",
    "skip_gram_window",
    "task_heads",
    "timeline",
    "transformer",
    "transformer_layers",
    "tree",
    "unrolled_network",
    "word_map",
]
