"""The partial hypotheses of a beam search, step by step."""

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from attentively.analysis.beam_trace import Trace
from attentively.analysis.figures.diagram import Edge, Node, diagram, text_size

_DOWN, _TURN = 53.0, 21.0  # from step to step, and from the middle of a box to where a line turns


def beam(
    trace: Trace,
    name: Callable[[int], str],
    marked: Mapping[str, Sequence[int]] | None = None,
) -> Figure:
    """Draw the hypotheses of each step side by side, with their last tokens and probabilities.

    A line joins each hypothesis to the one that it extends; finished hypotheses are in the
    column on the right. `name` returns the text of a token. `marked` gives complete hypotheses by
    their role: their path is thick and has the colour of the role, of the first one where two
    share it. Raises `ValueError` for a trace without steps.
    """
    if not trace.steps:
        raise ValueError("a beam needs a step, and the trace has none")

    def role_of(ids: Sequence[int]) -> str | None:
        paths = (marked or {}).items()
        return next((role for role, path in paths if list(path[: len(ids)]) == list(ids)), None)

    labels = [
        [
            f"{name(prefix.ids[-1]) if prefix.ids else '<start>'}\n"
            f"{math.exp(prefix.log_probability):.3f}"
            for prefix in step
        ]
        for step in trace.steps
    ]
    width = max(text_size(label)[0] for step in labels for label in step) + 16
    columns = max(map(len, trace.steps))
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []

    def add(key: str, text: str, column: int, row: int, parent: str, role: str | None) -> None:
        nodes[key] = Node(text, (width * column, -_DOWN * row), role or "neutral")
        if not parent:
            return
        (x, y), (above, top) = nodes[key].at, nodes[parent].at
        turns = [] if x == above else [(above, top - _TURN), (x, y + _TURN)]
        thick = 2.6 if role else None
        edges.append(Edge(parent, key, role or "neutral", via=turns, width=thick, head=False))

    for number, step in enumerate(trace.steps):
        for place, prefix in enumerate(step):
            parent = "" if prefix.parent is None else f"{number - 1}.{prefix.parent}"
            label = labels[number][place]
            add(f"{number}.{place}", label, place, number, parent, role_of(prefix.ids))
    for hypothesis in trace.finished:
        number = len(hypothesis.ids)
        ids = [prefix.ids for prefix in trace.steps[number]]
        label = f"<end>\n{math.exp(hypothesis.log_probability):.3f}"
        parent = f"{number}.{ids.index(hypothesis.ids)}"
        role = next((r for r, path in (marked or {}).items() if list(path) == hypothesis.ids), None)
        add(f"end {number}", label, columns, number + 1, parent, role)
    return diagram(nodes, edges)
