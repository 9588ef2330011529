"""Attention explorer: the attention weights of any model, to look at in a browser or in JupyterLab.

`explore` translates sentences and shows every layer and head. `Explorer` shows any weights. Both
give one HTML page that loads no other files, follows the light or dark setting, works by keyboard,
and without scripts contains a table.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attentively.atomic_files import replacing
from attentively.generation.generate import Translation, translate
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import evaluating
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import START_ID, Tokenizer

Role = Literal["encoder", "decoder", "cross"]
"""The use of an attention, which decides its colour."""


class Attention(NamedTuple):
    """The weights of one attention: of each layer and head, from each query to each key."""

    name: str
    role: Role
    queries: Sequence[str]
    """Tokens of the queries."""
    keys: Sequence[str]
    """Tokens of the keys."""
    weights: Float[Tensor, "layers heads queries keys"]


class Example(NamedTuple):
    """A text with its attentions; the first is shown first."""

    source: str
    target: str
    """The generated text; empty for a model that generates none."""
    attentions: Sequence[Attention]
    note: str = ""


@dataclass(frozen=True, repr=False)
class Explorer:
    """An interactive page of attention weights; a notebook shows it as the output of a cell.

    Names of tokens that do not fit the weights raise `ValueError`.
    """

    examples: Sequence[Example]
    title: str = "Attention weights"

    def __post_init__(self) -> None:
        for attention in (each for example in self.examples for each in example.attentions):
            shape, names = tuple(attention.weights.shape), (attention.queries, attention.keys)
            if len(shape) != 4 or shape[2:] != tuple(map(len, names)):
                raise ValueError(
                    f"{attention.name}: weights have shape {shape}, but expected (layers, heads, "
                    f"{len(names[0])}, {len(names[1])}): one row per query and one column per key"
                )

    def page(self) -> str:
        """Return the page, as HTML."""
        assets = files("attentively.analysis")
        script, style = (
            assets.joinpath(f"attention_explorer.{kind}").read_text(encoding="utf-8")
            for kind in ("js", "css")
        )
        sections = "\n".join(_section(each) for each in self.examples)
        title = html.escape(self.title)
        return _PAGE.format(title=title, style=style, script=script, sections=sections)

    def save(self, path: Path) -> None:
        """Write the page to a file."""
        with replacing(path) as temporary:
            temporary.write_text(self.page(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<attention explorer: {'; '.join(each.source for each in self.examples)}>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{html.escape(self.title)}" srcdoc="{html.escape(self.page())}" '
            'style="border: 0; height: 46rem; width: 100%"></iframe>'
        )


def explore(
    checkpoint: Checkpoint,
    sentences: str | Sequence[str],
    beam_size: int = 5,
    title: str = "Attention weights",
) -> Explorer:
    """Translate one or more sentences; return an explorer of every layer and head."""
    texts = [sentences] if isinstance(sentences, str) else sentences
    translations = translate(checkpoint, texts, beam_size, need_weights=True)
    return Explorer(
        [example(checkpoint, *each) for each in zip(texts, translations, strict=True)], title
    )


def example(checkpoint: Checkpoint, source: str, translation: Translation) -> Example:
    """Return a translation with all attentions of the model; none if the model has none."""
    attentions = _attentions(checkpoint, source, translation)
    return Example(source, translation.text, attentions, translation.note)


def attentions_of(
    model: Transformer,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    source: str,
    target: Sequence[int],
) -> list[Attention]:
    """Return the three attentions of a Transformer for a source and a translation.

    `target` are the ids of a translation, its end token included. The row of a target token holds
    the weights with which the model predicts it.
    """
    src_ids, before = src_tokenizer.encode(source), [START_ID, *target[:-1]]
    where = next(model.parameters()).device
    src, tgt = (torch.tensor([ids], device=where) for ids in (src_ids, before))
    with evaluating(model):
        maps = model.attention_maps(src, tgt)
    queries, keys = tgt_tokenizer.tokens(list(target)), src_tokenizer.tokens(src_ids)
    cross, encoder, decoder = (
        weights[:, 0].cpu() for weights in (maps.cross, maps.encoder, maps.decoder)
    )
    return [
        Attention("Cross-attention", "cross", queries, keys, cross),
        Attention("Encoder self-attention", "encoder", keys, keys, encoder),
        Attention(
            "Masked decoder self-attention",
            "decoder",
            queries,
            tgt_tokenizer.tokens(before),
            decoder,
        ),
    ]


def _attentions(checkpoint: Checkpoint, source: str, translation: Translation) -> list[Attention]:
    if translation.weights is None:
        return []
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    queries, keys = translation.tgt_tokens, translation.src_tokens
    if not isinstance(model, Transformer):
        return [
            Attention("Target to source", "cross", queries, keys, translation.weights[None, None])
        ]
    number = {tgt_tokenizer.tokens([index])[0]: index for index in range(len(tgt_tokenizer))}
    target = [number[token] for token in queries]
    return attentions_of(model, src_tokenizer, tgt_tokenizer, source, target)


def _section(one: Example) -> str:
    target = f' <span aria-hidden="true">→</span> {html.escape(one.target)}' if one.target else ""
    parts = ['<section class="explorer">', f"<h2>{html.escape(one.source)}{target}</h2>"]
    if one.note:
        parts.append(f"<p>Note: {html.escape(one.note)}</p>")
    if one.attentions:
        data = json.dumps([_plain(each) for each in one.attentions], ensure_ascii=False)
        data = data.replace("<", "\\u003c")  # nothing in it can end the element
        parts.append(f'<script type="application/json">{data}</script>')
        parts.append(f'<div class="without-script">{_table(one.attentions[0])}</div>')
    else:
        parts.append("<p>There are no attention weights.</p>")
    return "\n".join([*parts, "</section>"])


def _plain(one: Attention) -> dict[str, object]:
    per_mille = (one.weights * 1000).round().int().tolist()
    return {**one._asdict(), "weights": per_mille}


def _table(one: Attention) -> str:
    """Return the mean of all layers and heads, as a table in percent."""
    layers, heads = one.weights.shape[:2]
    mean = ", mean of all layers and heads" if layers * heads > 1 else ""
    percent = (one.weights.mean(dim=(0, 1)) * 100).round().int().tolist()
    head = "".join(f'<th scope="col">{html.escape(key)}</th>' for key in one.keys)
    body = "\n".join(
        f'<tr><th scope="row">{html.escape(query)}</th>'
        + "".join(f"<td>{weight}</td>" for weight in row)
        + "</tr>"
        for query, row in zip(one.queries, percent, strict=True)
    )
    return (
        f"<table><caption>{html.escape(one.name)}{mean}, in percent</caption>\n"
        f"<thead><tr><td>query ↓ key →</td>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""
