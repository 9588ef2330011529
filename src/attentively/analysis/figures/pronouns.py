"""The route of the information that determines a pronoun in a translation model."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import WIDTH, Edge, Node, diagram

USED = {
    ("noun", "before noun"): "cross-attention,\nlayer 1",
    ("adjective", "pronoun"): "cross-attention,\nlayer 1",
    ("before noun", "pronoun"): "self-attention,\nlayer 2",
}
"""Edges that transmit information; the effect of each is measured by activation patching."""
UNUSED = {
    ("adjective", "it"): "encoder",
    ("noun", "pronoun"): "cross-attention,\nlayer 2",
}
"""Edges with large weights; the effect of each is measured by attention knockout."""


def pronoun_route(effects: Mapping[tuple[str, str], float]) -> Figure:
    """Draw which edges between English words and French positions determine a pronoun.

    `effects` gives the share of pronouns that change for each edge of `USED` (by activation
    patching) and of `UNUSED` (by attention knockout). Edges in `UNUSED` are dashed. Raises
    `ValueError` if the edges are others.
    """
    if set(effects) != {*USED, *UNUSED}:
        raise ValueError(
            f"effects has the edges {sorted(effects)}, but expected {sorted([*USED, *UNUSED])}"
        )
    left, right = 48, WIDTH - 48
    nodes = {
        "noun": Node("animal", (left, 190), "encoder"),
        "it": Node("it", (124, 190), "encoder"),
        "adjective": Node("tired", (right, 190), "encoder"),
        "before noun": Node("predicts\nanimal", (left, 26), "decoder", size=(88, 36)),
        "pronoun": Node("predicts\nil", (right, 26), "decoder", size=(88, 36)),
    }
    edges = [
        Edge(
            *ends,
            role="gold" if ends in USED else "neutral",
            label=f"{label}: {100 * effects[ends]:.0f} %",
            bold=ends in USED,
            dashed=ends in UNUSED,
        )
        for ends, label in (USED | UNUSED).items()
    ]
    return diagram(nodes, edges)
