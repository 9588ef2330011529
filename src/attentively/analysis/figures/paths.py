"""The paths of information: from a source word to a target word, and through layers."""

import itertools
import math
from collections.abc import Mapping, Sequence

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


_Position = tuple[int, int]
"""The level, with 0 for the inputs, and the position."""
_Reads = Mapping[_Position, Sequence[_Position]]
"""For each output of a layer, what it is computed from."""


def layer_paths(length: int = 9, kernel_size: int = 3) -> Figure:
    """Draw the shortest path from the first input to the last output of four kinds of layers.

    The panels are self-attention, a recurrent layer, and as many convolutions, plain and dilated,
    as the path needs. The path is bold; everything else that is computed is grey. Raises
    `ValueError` for a length or a kernel size below 2.
    """
    for name, value in (("length", length), ("kernel_size", kernel_size)):
        if value < 2:
            raise ValueError(f"{name}={value} is too small: it must be 2 or more")
    everything = [(0, j) for j in range(length)]
    recurrent = {(1, t): [(0, t), *[(1, t - 1)] * (t > 0)] for t in range(length)}
    depth = math.ceil((length - 1) / (kernel_size - 1))
    dilations = [1]
    while kernel_size ** len(dilations) < length:
        dilations.append(kernel_size ** len(dilations))
    panels: list[tuple[str, _Reads]] = [
        ("self-attention", {(1, t): everything for t in range(length)}),
        ("recurrent layer", recurrent),
        ("dilated convolutions", _convolutions(length, kernel_size, dilations)),
        ("convolutions", _convolutions(length, kernel_size, [1] * depth)),
    ]
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    bottom, column = 0.0, (WIDTH - 8) / length
    for title, reads in reversed(panels):
        top = max(level for level, _ in reads)
        height = 30.0 if top > 2 else 46.0
        path = _shortest(reads, (0, 0), (top, length - 1))
        steps = set(itertools.pairwise(path))
        for level, t in [*everything, *reads]:
            role = "encoder" if level == 0 else "decoder" if level == top else "value"
            at = ((t + 0.5) * column, bottom + level * height)
            nodes[f"{title} {level} {t}"] = Node("", at, role, "circle", True, size=(7, 7))
        for end, starts in reads.items():
            for start in starts:
                on = (start, end) in steps
                edges.append(
                    Edge(
                        f"{title} {start[0]} {start[1]}",
                        f"{title} {end[0]} {end[1]}",
                        "gold" if on else "neutral",
                        bold=on,
                        head=on,
                        width=None if on else 0.5,
                    )
                )
        said = f"{title}: path length {len(path) - 1}"
        middle = (text_size(said, bold=True)[0] / 2, bottom + top * height + 18)
        nodes[title] = Node(said, middle, None, "text", bold=True)
        bottom += top * height + 42
    return diagram(nodes, edges)


def _convolutions(length: int, kernel_size: int, dilations: Sequence[int]) -> _Reads:
    """Return a stack of causal convolutions with these dilations."""
    return {
        (level, t): [(level - 1, t - j * gap) for j in range(kernel_size) if j * gap <= t]
        for level, gap in enumerate(dilations, start=1)
        for t in range(length)
    }


def _shortest(reads: _Reads, start: _Position, end: _Position) -> list[_Position]:
    """Return the shortest path from an input to an output."""
    following: dict[_Position, _Position] = {}
    to_visit = [end]
    for node in to_visit:  # which grows
        for each in reads.get(node, ()):
            if each not in following:
                following[each] = node
                to_visit.append(each)
    path = [start]
    while path[-1] != end:
        path.append(following[path[-1]])
    return path
