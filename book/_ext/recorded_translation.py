"""A translation of a shipped model, recorded when the book is built, drawn as lines.

A live model shows it, with its weights as a table, until the reader asks for a translation; pages
without scripts keep it. It is what the live model shows first for the same sentence: beam size 5,
length penalty 1, and the attention of a recurrent model or, of a Transformer, the first head of the
cross-attention of the third layer.
"""

import functools
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

LAYER, HEAD = 2, 0
"""The head that `live.js` chooses first, counted from 0."""
LEAST = 0.05
"""Smaller weights are not drawn."""

ROW, TOP = 27, 42
WIDTH, SOURCE_X, TARGET_X = 340, 125, 215


class Recorded(NamedTuple):
    """A translation with the weights of a model's only attention, or of one head."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    """One row for each target token: the step that outputs it."""
    text: str
    head: str | None = None
    """Such as ``layer 3, head 1``; none where the model has one attention."""


@functools.cache
def record(checkpoint: str, sentence: str) -> Recorded:
    """Translate `sentence` as the live model does."""
    from attentively import checkpoints, writing  # PyTorch: only a page with a live model needs it
    from attentively.analysis.attention_explorer import attentions_of

    loaded = checkpoints.load_pretrained(checkpoint)
    model, *tokenizers = loaded.translator()
    [translation] = writing.translate(loaded, [sentence], beam_size=5, length_penalty=1.0)
    weights, head = translation.weights, None
    if hasattr(model, "attention_maps"):
        ids = tokenizers[1].ids(translation.tgt_tokens)
        cross, *_ = attentions_of(model, *tokenizers, sentence, ids)
        weights, head = cross.weights[LAYER, HEAD], f"layer {LAYER + 1}, head {HEAD + 1}"
    return Recorded(
        tuple(map(shown, translation.src_tokens)),
        tuple(map(shown, translation.tgt_tokens)),
        tuple(tuple(round(weight, 2) for weight in row) for row in weights.tolist()),
        translation.text,
        head,
    )


def shown(token: str) -> str:
    """Return a subword as the live model writes it, without the mark of a word's start."""
    return token.replace("▁", "") or "␣"


def draw(recorded: Recorded) -> str:
    """Return the picture as SVG: source left, target right, a line for each weight."""
    height = TOP + ROW * max(len(recorded.source), len(recorded.target))
    pieces = []
    for row, weights in enumerate(recorded.weights):
        for column, weight in enumerate(weights):
            if weight >= LEAST:
                pieces.append(_line(column, row, weight))
    for name, tokens, x, anchor in [
        ("source", recorded.source, SOURCE_X - 8, "end"),
        ("target", recorded.target, TARGET_X + 8, "start"),
    ]:
        title = {"source": "English", "target": "French"}[name]
        pieces.append(f'<text class="small" x="{x}" y="12" text-anchor="{anchor}">{title}</text>')
        pieces += (
            f'<text class="{name}" x="{x}" y="{_y(place) + 5}" text-anchor="{anchor}">'
            f"{escape(token)}</text>"
            for place, token in enumerate(tokens)
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(described(recorded))}">{"".join(pieces)}</svg>'
    )


def described(recorded: Recorded) -> str:
    """Return what the picture shows in words: for each target token, the largest weight."""
    rows = (
        f"{token}: {recorded.source[(most := _largest(weights))]} {weights[most]:.2f}"
        for token, weights in zip(recorded.target, recorded.weights, strict=True)
    )
    return (
        "Attention weights as lines from each French subword to English subwords. The largest "
        f"weight of each: {'; '.join(rows)}."
    )


def caption(recorded: Recorded) -> str:
    """Return the sentences below the picture."""
    which = (
        f"This is one of several attention heads ({recorded.head}), and its weights are"
        if recorded.head
        else "The weights are"
    )
    return (
        "Recorded with this model when the page was built. A thicker line means that the model "
        f"uses more of the English word when it predicts the French word. {which} no dictionary."
    )


def table(recorded: Recorded) -> str:
    """Return the weights that are drawn as a table: a row for each French subword."""
    rows = (
        f'<tr><th scope="row" lang="fr">{escape(token)}</th>'
        f"<td>{_largest_first(recorded, row)}</td></tr>"
        for token, row in zip(recorded.target, recorded.weights, strict=True)
    )
    return (
        "<details><summary>Attention weights as a table</summary>\n"
        '<table><thead><tr><th scope="col">French</th><th scope="col">Weights of English subwords, '
        f"{LEAST} or more</th></tr></thead>\n<tbody>{''.join(rows)}</tbody></table></details>"
    )


def _largest_first(recorded: Recorded, weights: Sequence[float]) -> str:
    ordered = sorted(zip(weights, recorded.source, strict=True), key=lambda each: -each[0])
    return ", ".join(
        f"<q>{escape(key)}</q> {weight:.2f}" for weight, key in ordered if weight >= LEAST
    )


def _largest(weights: Sequence[float]) -> int:
    return max(range(len(weights)), key=weights.__getitem__)


def _y(place: int) -> float:
    return TOP + ROW * (place - 0.5)


def _line(column: int, row: int, weight: float) -> str:
    middle = (SOURCE_X + TARGET_X) / 2
    left, right = _y(column), _y(row)
    return (
        f'<path d="M{SOURCE_X} {left}C{middle} {left} {middle} {right} {TARGET_X} {right}" '
        f'stroke-width="{1 + 5 * weight:.2f}" stroke-opacity="{0.25 + 0.75 * weight:.2f}"/>'
    )
