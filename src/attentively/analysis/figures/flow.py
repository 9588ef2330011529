"""Attention as a flow between two rows of words."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from attentively.analysis.figures.diagram import WIDTH, Edge, Node, diagram, text_size


def attention_flow(
    weights: Float[Tensor, "tgt_len src_len"],
    src_words: Sequence[str],
    tgt_words: Sequence[str],
    least: float = 0.05,
) -> Figure:
    """Draw a line from each source word to each target word, as wide as its weight is large.

    Weights below `least` have no line. Raises `ValueError` where words and weights differ in
    number.
    """
    expected = (len(tgt_words), len(src_words))
    if tuple(weights.shape) != expected:
        raise ValueError(
            f"weights of shape {tuple(weights.shape)} do not fit {expected[0]} target and "
            f"{expected[1]} source words, which need {expected}"
        )
    column = max(text_size(word)[0] for word in [*src_words, *tgt_words]) + 8
    width = max(WIDTH - 8, column * max(expected))
    nodes = {}
    for name, words, y, role in (
        ("src", src_words, 0.0, "encoder"),
        ("tgt", tgt_words, 96.0, "decoder"),
    ):
        for i, word in enumerate(words):
            at = ((i + 0.5) * width / len(words), y)
            nodes[f"{name} word {i}"] = Node(word, at, role, "text")
            end = (at[0], 96.0 - 12.0 if y else 12.0)
            nodes[f"{name} {i}"] = Node("", end, role, "text", size=(0.0, 0.0))
    edges = [
        Edge(f"src {j}", f"tgt {i}", "key", width=0.5 + 4 * weight, head=False)
        for i, row in enumerate(weights.detach().cpu().double().tolist())
        for j, weight in enumerate(row)
        if weight >= least
    ]
    return diagram(nodes, edges)
