"""The path of information from a source word to a target word."""

import itertools
from collections.abc import Sequence

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import WIDTH, Edge, Node, diagram, text_size


def context_paths(
    src_words: Sequence[str], tgt_words: Sequence[str], source: int = 4, target: int = 5
) -> Figure:
    """Draw how one source word reaches one target word, with a fixed context and with attention.

    The path from source word `source` to target word `target`, both counted from 0, is bold. With
    a fixed context it leads through the encoder states after the source word; with attention, the
    context of the target word is made of the encoder states themselves. Raises `ValueError` for a
    position outside the sentences.
    """
    for side, words, place in (("source", src_words, source), ("target", tgt_words, target)):
        if not 0 <= place < len(words):
            raise ValueError(f"{side}={place} lies outside the {len(words)} {side} words")
    last = len(src_words) - 1
    encoder = [Edge(f"h{j}", f"h{j + 1}", both=True) for j in range(last)]
    decoder = [Edge(f"s{i}", f"s{i + 1}") for i in range(len(tgt_words) - 1)]
    path = [f"h{j}" for j in range(source, last + 1)] + ["c", f"s{target}"]
    fixed = encoder + decoder + [Edge("h0", "c"), Edge(f"h{last}", "c")]
    fixed += [Edge("c", f"s{i}") for i in range(len(tgt_words))]
    attention = encoder + decoder + [Edge(f"h{j}", "c") for j in range(len(src_words))]
    attention += [Edge("c", f"s{target}")]

    column = max(text_size(word, bold=True)[0] for word in [*src_words, *tgt_words]) + 8
    width = max(WIDTH - 8, column * max(len(src_words), len(tgt_words)))
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for top, title, arrows, way in (
        (182.0, "fixed context", fixed, path),
        (0.0, "attention", attention, [f"h{source}", "c", f"s{target}"]),
    ):
        found = {
            **_row(src_words, "h", "encoder", 22 + top, 2 + top, width, source),
            **_row(tgt_words, "s", "decoder", 112 + top, 132 + top, width, target),
        }
        own = title == "attention"
        x = found[f"s{target}"].at[0] if own else width / 2
        label = f"context $c_{{{target + 1}}}$" if own else "context $c$"
        half = text_size(label)[0] / 2 + 8
        at = (min(max(x, half), width - half), 67 + top)
        found["c"] = Node(label, at, "value", bold=True)
        found["title"] = Node(title, (text_size(title, bold=True)[0] / 2, 154 + top), None,
                              "text", bold=True)  # fmt: skip
        steps = set(itertools.pairwise(way))
        nodes |= {f"{title}: {name}": node for name, node in found.items()}
        for edge in arrows:
            on = (edge.start, edge.end) in steps
            edges.append(
                Edge(
                    f"{title}: {edge.start}",
                    f"{title}: {edge.end}",
                    "gold" if on else "neutral",
                    bold=on,
                    both=edge.both and not on,
                )
            )
    return diagram(nodes, edges)


def _row(
    words: Sequence[str],
    letter: str,
    role: str,
    y: float,
    y_words: float,
    width: float,
    marked: int,
) -> dict[str, Node]:
    """Return a row of states and the words under or above them."""
    column = width / len(words)
    nodes = {}
    for i, word in enumerate(words):
        x = (i + 0.5) * column
        nodes[f"{letter}{i}"] = Node("", (x, y), role, "circle", filled=True)
        nodes[f"{letter}{i} word"] = Node(word, (x, y_words), None, "text", bold=i == marked)
    return nodes
