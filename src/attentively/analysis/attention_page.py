"""An interactive page of attention weights: one HTML file that works without a network.

Each map is a table with headers, so it can be read without colours; if a text has several maps, a
list selects one of them. The page follows the user's light or dark setting, or that of the
surrounding page, and loads no other files.
"""

import html
import json
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attentively.models.interface import evaluating
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import START_ID, Tokenizer


class Map(NamedTuple):
    """A matrix of attention weights."""

    name: str
    rows: Sequence[str]
    """Tokens of the queries."""
    columns: Sequence[str]
    """Tokens of the keys."""
    weights: Float[Tensor, "rows columns"]


class Text(NamedTuple):
    """A generated text with its maps; the first map is shown first."""

    source: str
    target: str
    maps: Sequence[Map]
    note: str = ""


def maps_of_heads(
    model: Transformer,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    source: str,
    target: Sequence[int],
) -> list[Map]:
    """Return the attention weights of every layer and head, counted from 1.

    `target` are the ids of a translation with its end token. The row of a target token shows the
    weights with which it is predicted.
    """
    where = next(model.parameters()).device
    src_ids, read_ids = src_tokenizer.encode(source), [START_ID, *target[:-1]]
    src, tgt = (torch.tensor([ids], device=where) for ids in (src_ids, read_ids))
    with evaluating(model):
        maps = model.attention_maps(src, tgt)
    words, written = src_tokenizer.tokens(src_ids), tgt_tokenizer.tokens(list(target))
    sides = {
        "Target to source": (maps.cross, written, words),
        "Source to source": (maps.encoder, words, words),
        "Target to target": (maps.decoder, written, tgt_tokenizer.tokens(read_ids)),
    }
    return [
        Map(f"{side}, layer {layer} head {head}", rows, columns, weights.cpu())
        for side, (layers, rows, columns) in sides.items()
        for layer, heads in enumerate(layers[:, 0], start=1)
        for head, weights in enumerate(heads, start=1)
    ]


def page(title: str, texts: Sequence[Text]) -> str:
    """Return the page, as HTML."""
    sections = "\n".join(_section(number, text) for number, text in enumerate(texts, start=1))
    return _PAGE.format(title=html.escape(title), style=_STYLE, script=_SCRIPT, sections=sections)


def frame(whole_page: str, title: str, height: str = "40rem") -> str:
    """Return an HTML element that embeds a `page`; the title is for screen readers."""
    return (
        f'<iframe title="{html.escape(title)}" srcdoc="{html.escape(whole_page)}" '
        f'style="border: 0; height: {height}; width: 100%"></iframe>'
    )


def _section(number: int, text: Text) -> str:
    heading = f"{number}. {html.escape(text.source)} <span aria-hidden='true'>→</span> "
    parts = [
        f'<section aria-labelledby="text-{number}">',
        f'<h2 id="text-{number}">{heading}<br>{html.escape(text.target)}</h2>',
    ]
    if text.note:
        parts.append(f"<p>Note: {html.escape(text.note)}</p>")
    if not text.maps:
        return "\n".join([*parts, "<p>There are no attention weights.</p>", "</section>"])
    if len(text.maps) > 1:
        options = "".join(
            f'<option value="{index}">{html.escape(each.name)}</option>'
            for index, each in enumerate(text.maps)
        )
        parts.append(
            f'<p><label for="choice-{number}">Show </label>'
            f'<select id="choice-{number}" data-text="{number}">{options}</select></p>'
        )
    parts += [_table(number, text.maps[0])]
    if len(text.maps) > 1:
        data = json.dumps([_plain(each) for each in text.maps], ensure_ascii=False)
        data = data.replace("<", "\\u003c")  # nothing in it can end the element
        parts.append(f'<script type="application/json" id="maps-{number}">{data}</script>')
    return "\n".join([*parts, "</section>"])


def _plain(one: Map) -> dict[str, object]:
    percent = (one.weights * 100).round().int().tolist()
    return {"name": one.name, "rows": one.rows, "columns": one.columns, "percent": percent}


def _table(number: int, one: Map) -> str:
    head = "".join(f'<th scope="col">{html.escape(token)}</th>' for token in one.columns)
    lines = []
    for token, weights in zip(one.rows, (one.weights * 100).round().int().tolist(), strict=True):
        largest = max(weights, default=0)
        cells = "".join(
            f'<td style="--weight:{weight}"{_MOST if weight == largest else ""}>{weight}</td>'
            for weight in weights
        )
        lines.append(f'<tr><th scope="row">{html.escape(token)}</th>{cells}</tr>')
    body = "\n".join(lines)
    return (
        f'<div class="map" role="region" tabindex="0" aria-labelledby="name-{number}">'
        f'<table id="table-{number}"><caption id="name-{number}" aria-live="polite">'
        f"{html.escape(one.name)}</caption>\n"
        f'<thead><tr><td class="corner">query ↓ key →</td>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


_MOST = ' class="most"'
_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1a1a1a; --line: #c8c8c8;
  --weight-colour: #1562f9; }
@media (prefers-color-scheme: dark) {
  :root:not([data-theme="light"]) { --paper: #14161a; --ink: #f0f0f0; --line: #4a4a4a; }
}
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; --paper: #14161a; --ink: #f0f0f0; --line: #4a4a4a; }
body { background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
h2 { font-size: 1.1rem; margin-top: 2.5rem; }
.map { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: start; padding: .3rem 0; }
th, td { border: 1px solid var(--line); padding: .25rem .4rem; }
thead th { writing-mode: vertical-rl; text-align: end; }
tbody th { text-align: end; white-space: nowrap; }
tbody td { min-width: 2rem; text-align: center; font-variant-numeric: tabular-nums;
  background: color-mix(in srgb, var(--weight-colour) calc(var(--weight) * .6%), var(--paper)); }
tbody td.most { font-weight: bold; text-decoration: underline; }
.corner { font-size: .8rem; }
select { font: inherit; padding: .2rem; }
:focus-visible { outline: 3px solid var(--weight-colour); outline-offset: 2px; }
"""
_SCRIPT = """
if (window.frameElement) {  // shown inside another page, whose theme may change
  const around = frameElement.ownerDocument.documentElement;
  const follow = () => { document.documentElement.dataset.theme = around.dataset.theme ?? ""; };
  new MutationObserver(follow).observe(around, { attributeFilter: ["data-theme"] });
  follow();
}
for (const choice of document.querySelectorAll("select[data-text]")) {
  const number = choice.dataset.text;
  const maps = JSON.parse(document.getElementById("maps-" + number).textContent);
  choice.addEventListener("change", () => show(number, maps[choice.value]));
}
function cell(name, text, scope) {
  const made = document.createElement(name);
  made.textContent = text;
  if (scope) made.scope = scope;
  return made;
}
function show(number, map) {
  const table = document.getElementById("table-" + number);
  const head = table.tHead.rows[0];
  while (head.cells.length > 1) head.deleteCell(1);
  for (const token of map.columns) head.append(cell("th", token, "col"));
  const rows = map.rows.map((token, index) => {
    const row = document.createElement("tr");
    row.append(cell("th", token, "row"));
    const most = Math.max(...map.percent[index]);
    for (const weight of map.percent[index]) {
      const made = cell("td", weight);
      made.style.setProperty("--weight", weight);
      if (weight === most) made.className = "most";
      row.append(made);
    }
    return row;
  });
  table.tBodies[0].replaceChildren(...rows);
  table.caption.textContent = map.name;
}
"""
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
<p>Each row contains the attention weights of one token (the query) on the tokens of the columns
(the keys), in percent. The largest weight of a row is bold and underlined.</p>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""
