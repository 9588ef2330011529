"""Recurrent networks: unrolled, in both directions, and what is inside a GRU and an LSTM cell."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from attentively.analysis.figures.diagram import WIDTH, Edge, Node, diagram, text_size


def unrolled_network(words: Sequence[str]) -> Figure:
    """Draw a recurrent network and the same network unrolled over the words of a sentence.

    Raises `ValueError` where there are no words.
    """
    if not words:
        raise ValueError("an unrolled network needs a word, and got none")
    column = max(44.0, *(text_size(word)[0] + 10 for word in words))
    first = 100.0
    nodes = {
        "cell": Node("RNN", (26, 60), "encoder"),
        "x": Node("$x_t$", (26, 10), None, "text"),
        "h": Node("$h_t$", (26, 104), None, "text"),
        "=": Node("=", (78, 60), None, "text"),
    }
    edges = [
        Edge("x", "cell"),
        Edge("cell", "h", "encoder"),
        Edge("cell", "cell", "encoder", via=[(58, 66), (58, 54)]),
    ]
    for i, word in enumerate(words):
        x = first + 14 + column * i
        nodes[f"cell {i}"] = Node("RNN", (x, 60), "encoder")
        nodes[f"x {i}"] = Node(word, (x, 10), None, "text")
        nodes[f"h {i}"] = Node(f"$h_{{{i + 1}}}$", (x, 104), None, "text")
        edges += [Edge(f"x {i}", f"cell {i}"), Edge(f"cell {i}", f"h {i}", "encoder")]
        if i:
            edges.append(Edge(f"cell {i - 1}", f"cell {i}", "encoder"))
    return diagram(nodes, edges)


def bidirectional_batch(sentences: Sequence[Sequence[str]]) -> Figure:
    """Draw a forward and a backward RNN over a batch of sentences, the short ones padded.

    The backward RNN starts at the last word of each sentence; padding has no state. The two states
    at a word are its annotation. Raises `ValueError` where a sentence has no word.
    """
    if not sentences or not all(len(words) for words in sentences):
        raise ValueError("bidirectional_batch needs sentences of one word or more")
    length = max(map(len, sentences))
    widest = max(text_size(word)[0] for words in sentences for word in words)
    column = max(widest + 8, (WIDTH - 60) / length)
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for number, words in enumerate(sentences):
        top, name = -136.0 * number, f"{number}: "
        last = len(words) - 1
        for i in range(length):
            x = 46 + column * i
            if i > last:
                nodes[f"{name}pad {i}"] = Node("<pad>", (x, top), "neutral", "text")
                continue
            nodes[f"{name}word {i}"] = Node(words[i], (x, top), None, "text")
            nodes[f"{name}f{i}"] = Node("", (x, top + 34), "encoder", "circle", filled=True)
            nodes[f"{name}b{i}"] = Node("", (x, top + 70), "encoder", "circle")
            size = (min(column - 6, 34.0), 80.0)
            nodes[f"{name}h{i}"] = Node("", (x, top + 52), "neutral", "frame", size=size)
            nodes[f"{name}h{i} name"] = Node(f"$h_{{{i + 1}}}$", (x, top + 101), None, "text")
            edges.append(Edge(f"{name}word {i}", f"{name}f{i}"))
            if i:
                edges.append(Edge(f"{name}f{i - 1}", f"{name}f{i}", "encoder"))
                edges.append(Edge(f"{name}b{i}", f"{name}b{i - 1}", "encoder"))
        nodes[f"{name}start"] = Node("0", (8, top + 34), "encoder", "text")
        nodes[f"{name}end"] = Node("0", (46 + column * last + 38, top + 70), "encoder", "text")
        edges.append(Edge(f"{name}start", f"{name}f0", "encoder", dashed=True))
        edges.append(Edge(f"{name}end", f"{name}b{last}", "encoder", dashed=True))
    bottom = -136.0 * (len(sentences) - 1) - 26
    for name, x, filled in (("forward RNN", 46, True), ("backward RNN", 166, False)):
        nodes[name] = Node("", (x, bottom), "encoder", "circle", filled=filled)
        at = (x + 14 + text_size(name)[0] / 2, bottom)
        nodes[f"{name} name"] = Node(name, at, "encoder", "text")
    return diagram(nodes, edges)


def gru_cell() -> Figure:
    """Draw a GRU cell: what its gates read, and what they are multiplied with."""
    nodes = {
        "h": Node("$h_{t-1}$", (20, 176), "encoder"),
        "x": Node("$x_t$", (112, 0), None),
        "reset": Node("reset gate\n$r_t$", (52, 112), "query"),
        "update": Node("update gate\n$z_t$", (134, 112), "query"),
        "candidate": Node("candidate\n$n_t$", (232, 48), "value"),
        "forgotten": Node("×", (52, 48), None, "circle"),
        "kept": Node("×", (134, 176), None, "circle"),
        "mixed": Node("×", (232, 112), None, "circle"),
        "sum": Node("+", (232, 176), None, "circle"),
        "new": Node("$h_t$", (276, 176), "encoder"),
    }
    edges = [
        Edge("h", "kept", "encoder"),
        Edge("kept", "sum", "encoder"),
        Edge("sum", "new", "encoder"),
        Edge("h", "forgotten", "encoder", via=[(10, 48)]),
        Edge("h", "reset", "encoder"),
        Edge("h", "update", "encoder"),
        Edge("reset", "forgotten", "query"),
        Edge("forgotten", "candidate", "encoder"),
        Edge("update", "kept", "query"),
        Edge("update", "mixed", "query", label="$1 - z_t$"),
        Edge("candidate", "mixed", "value"),
        Edge("mixed", "sum", "value"),
        Edge("x", "reset"),
        Edge("x", "update"),
        Edge("x", "candidate"),
    ]
    return diagram(nodes, edges)


def lstm_cell() -> Figure:
    """Draw an LSTM cell: its memory above, its gates, and the state that it shows."""
    nodes = {
        "c": Node("$c_{t-1}$", (20, 196), "value"),
        "kept": Node("×", (76, 196), None, "circle"),
        "sum": Node("+", (152, 196), None, "circle"),
        "memory": Node("$c_t$", (280, 196), "value"),
        "written": Node("×", (152, 156), None, "circle"),
        "tanh": Node("tanh", (206, 156), None),
        "read": Node("×", (248, 156), None, "circle"),
        "new": Node("$h_t$", (280, 156), "encoder"),
        "forget": Node("forget\ngate $f_t$", (48, 104), "query"),
        "input": Node("input\ngate $i_t$", (114, 104), "query"),
        "candidate": Node("candidate\n$g_t$", (181, 104), "value"),
        "output": Node("output\ngate $o_t$", (248, 104), "query"),
        "both": Node("$[h_{t-1};\\, x_t]$", (148, 50), "encoder", size=(270, 20)),
        "h": Node("$h_{t-1}$", (60, 6), "encoder"),
        "x": Node("$x_t$", (220, 6), None),
    }
    edges = [
        Edge("c", "kept", "value"),
        Edge("kept", "sum", "value"),
        Edge("sum", "memory", "value"),
        Edge("forget", "kept", "query"),
        Edge("input", "written", "query"),
        Edge("candidate", "written", "value"),
        Edge("written", "sum", "value"),
        Edge("sum", "tanh", "value", via=[(206, 196)]),
        Edge("tanh", "read", "value"),
        Edge("output", "read", "query"),
        Edge("read", "new", "encoder"),
        *(Edge("both", gate, "encoder") for gate in ("forget", "input", "candidate", "output")),
        Edge("h", "both", "encoder"),
        Edge("x", "both"),
    ]
    return diagram(nodes, edges)
