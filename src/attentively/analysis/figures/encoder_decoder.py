"""An encoder–decoder with a fixed context vector, with teacher forcing and running freely."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import WIDTH, Edge, Node, diagram, text_size

_HEIGHT = 222.0  # from one panel to the next
_START = "<start>"


def encoder_decoder(
    src_words: Sequence[str], tgt_words: Sequence[str], own_words: Sequence[str] = ()
) -> Figure:
    """Draw an encoder–decoder: encoder states, context vector, and one decoder step per token.

    With teacher forcing, the decoder reads the target, shifted right by one position, and
    `tgt_words` are the labels above the steps. With `own_words`, a second panel shows the decoder
    as it runs freely: each of these words is the output of one step and the input of the next. The
    context vector consists of the last state of the forward and of the backward RNN, and is an
    input of every step. Raises `ValueError` where there are no source or no target words.
    """
    for side, words in (("source", src_words), ("target", tgt_words)):
        if not words:
            raise ValueError(f"encoder_decoder needs a {side} word, and got none")
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    panels = [("forced", "teacher forcing: inputs are the reference", tgt_words)]
    if own_words:
        panels.append(("free", "free running: inputs are earlier outputs", own_words))
    column = max(text_size(word)[0] for word in [_START, *tgt_words, *own_words]) + 36
    column = max(column, (WIDTH - 58) / len(tgt_words))
    across = max(WIDTH - 8, 36 + column * len(tgt_words))
    for number, (name, title, words) in enumerate(panels):
        top = -_HEIGHT * number
        free = name == "free"
        found = {
            "title": Node(title, (text_size(title, bold=True)[0] / 2, top + 186), None, "text",
                          bold=True),
            "c": Node("context $c$", (across / 2, top + 56), "value", bold=True),
            "s0": Node("$s_0$", (_place(src_words, 0, across), top + 118), "decoder", "circle"),
        }  # fmt: skip
        for j, word in enumerate(src_words):
            x = _place(src_words, j, across)
            found[f"x{j}"] = Node(word, (x, top - 6), None, "text")
            found[f"h{j}"] = Node("", (x, top + 22), "encoder", "circle", filled=True)
            edges.append(Edge(f"{name} x{j}", f"{name} h{j}"))
            if j:
                edges.append(Edge(f"{name} h{j - 1}", f"{name} h{j}", "encoder", both=True))
        for j in dict.fromkeys((0, len(src_words) - 1)):
            edges.append(Edge(f"{name} h{j}", f"{name} c", "value"))
        edges.append(Edge(f"{name} h0", f"{name} s0", "encoder"))
        for i, word in enumerate(words, start=1):
            x = found["s0"].at[0] + column * i
            read = _START if i == 1 else words[i - 2]
            found[f"in{i}"] = Node(read, (x - 10 - text_size(read)[0] / 2, top + 92),
                                   "decoder" if free else "gold", "text")  # fmt: skip
            found[f"s{i}"] = Node("", (x, top + 118), "decoder", "circle", filled=True)
            found[f"out{i}"] = Node(word, (x, top + 158), "decoder" if free else "gold", "text",
                                    bold=True)  # fmt: skip
            edges += [
                Edge(f"{name} s{i - 1}", f"{name} s{i}", "decoder"),
                Edge(f"{name} in{i}", f"{name} s{i}", "decoder" if free else "gold"),
                Edge(f"{name} s{i}", f"{name} out{i}", "decoder"),
                Edge(f"{name} c", f"{name} s{i}", "value",
                     via=[(across / 2, top + 74), (x, top + 74)]),
            ]  # fmt: skip
            if free and i > 1:
                edges.append(Edge(f"{name} out{i - 1}", f"{name} in{i}", "decoder", dashed=True))
        said = "output" if free else "label"
        found["said"] = Node(said, (text_size(said)[0] / 2, top + 158), None, "text")
        found["read"] = Node("input", (text_size("input")[0] / 2, top + 92), None, "text")
        nodes |= {f"{name} {key}": node for key, node in found.items()}
    return diagram(nodes, edges)


def _place(words: Sequence[str], j: int, across: float) -> float:
    """Return the centre of a source word."""
    return (j + 0.5) * across / len(words)
