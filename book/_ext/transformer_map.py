r"""The `transformer-map` directive: the whole Transformer, each part a link to its chapter.

In a page::

    ```{transformer-map}
    :lit: position, embedding
    ```

`:lit:`   the parts to light up, with commas between; none without it
`:open:`  how far the black box is opened: `box`, `stacks`, or `layers`, which is the default
`:name:`  a label, for `{numref}`; it gives the figure its number
content   the caption

The parts, each with the chapter that builds it (chapters that use it again in brackets):

================== =========== ==========================================================
part               chapter     what is drawn
================== =========== ==========================================================
`transformer`      15          the whole, where the box is closed
`subwords`         02          text cut into tokens, on both sides
`embedding`        01          a vector for each token, on both sides
`position`         13          what distinguishes positions, on both sides
`encoder`          15 (04)     the stack of encoder layers
`decoder`          15 (04)     the stack of decoder layers
`self-attention`   12          the encoder's words look at each other
`masked-attention` 12 (14)     the decoder's words look at those before them
`cross-attention`  08 (09, 14) the decoder looks at the encoder's output
`multi-head`       14          all three kinds of attention, several times side by side
`feed-forward`     15          the small network at every position
`residual`         15          the residual connection of each, and the normalisation after it
`output`           15 (00)     linear layer and softmax: a probability for each token
`decoding`         05 (17)     choosing the next word, and feeding it back
================== =========== ==========================================================

`layers` draws all but `transformer`; `stacks` the two stacks and what is before and after them;
`box` only `transformer`. A part that is unknown or not drawn is an error. A
chapter that is not in the book yet gets no link: its number and name are there all the same.

The picture is SVG inside the page, so it needs no script and no file of its own. Its colours are
variables, which `attentively.css` sets for light and dark.
"""

import base64
import re
from collections.abc import Callable, Iterable
from html import escape, unescape
from typing import ClassVar, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

CHAPTERS = (
    "Tools and the map",
    "Embeddings",
    "Subwords",
    "Recurrent networks",
    "Encoder and decoder",
    "Decoding",
    "Scoring, and the bottleneck",
    "Queries, keys and values",
    "Additive attention",
    "Multiplicative attention",
    "Visual attention",
    "What attention explains",
    "Self-attention",
    "Positional encoding",
    "Multi-head attention",
    "Building the Transformer",
    "Training the Transformer",
    "Translating with a trained Transformer",
    "Why attention",
    "Heads for other tasks",
    "Faster training and smaller models",
    "Since 2017",
)


class Part(NamedTuple):
    """What a part is called, the chapter that builds it, and those that come back to it."""

    label: str
    chapter: int
    again: tuple[int, ...] = ()


PARTS = {
    "transformer": Part("Transformer", 15),
    "subwords": Part("subwords", 2),
    "embedding": Part("embedding", 1),
    "position": Part("+ positions", 13),
    "encoder": Part("encoder layer", 15, (4,)),
    "decoder": Part("decoder layer", 15, (4,)),
    "self-attention": Part("self-attention", 12),
    "masked-attention": Part("masked self-attention", 12, (14,)),
    "cross-attention": Part("cross-attention", 8, (9, 14)),
    "multi-head": Part("multi-head", 14),
    "feed-forward": Part("feed-forward", 15),
    "residual": Part("residual, norm", 15),
    "output": Part("linear, softmax", 15, (0,)),
    "decoding": Part("decoding", 5, (17,)),
}

Address = Callable[[int], str | None]
"""Gives the address of a chapter's page, or None where the book has no such page yet.

An empty address makes no link: it is for a picture that stands outside the book."""

# Every colour has a value of its own, for a notebook, where no style sheet of the book's reaches.
STYLE = """
.transformer-map text { font: 14px sans-serif; fill: var(--map-ink, #222832); }
.transformer-map .small { font-size: 13px; fill: var(--map-muted, #48566b); }
.transformer-map .number { font-size: 13px; fill: var(--map-muted, #48566b); }
.transformer-map .encoder { --role: var(--map-encoder, #316781); }
.transformer-map .decoder { --role: var(--map-decoder, #b107b5); }
.transformer-map .whole { --role: var(--map-ink, #222832); }
.transformer-map .shape { fill: var(--map-paper, #fff); stroke: var(--role); stroke-width: 1.6; }
.transformer-map .frame { fill: var(--role); fill-opacity: .09; stroke: var(--role);
  stroke-width: 1.2; }
.transformer-map .lit.frame { fill-opacity: .3; stroke-width: 4; }
.transformer-map .lit .shape { fill: var(--role); stroke-width: 2; }
.transformer-map .lit .title { fill: var(--role); }
.transformer-map .lit text { fill: var(--map-paper, #fff); }
.transformer-map .title { fill: transparent; }
.transformer-map .way { fill: none; stroke: var(--map-muted, #48566b); stroke-width: 1.5; }
.transformer-map .back { stroke-dasharray: 5 4; }
.transformer-map .tip { fill: var(--map-muted, #48566b); }
.transformer-map a { text-decoration: none; }
.transformer-map a text:not(.number) { text-decoration: underline; }
.transformer-map a:hover .shape { stroke-width: 3; }
.transformer-map a:focus { outline: none; }
.transformer-map a:focus-visible .ring { stroke: var(--map-focus, #b06107); stroke-width: 4; }
.transformer-map .ring { fill: none; stroke: none; }
"""

WIDTH, COLUMN = 464, 206
GAP = 14  # between a box and the next
INNER, OUTER = 6, 12  # from a frame to its sub-layers; residual connections are on the outer side
ENCODER_X, DECODER_X = 8, 240


class Canvas:
    """Where a view is drawn: from the bottom up, so y falls from 0."""

    def __init__(self, lit: Iterable[str], address: Address, here: int | None) -> None:
        self.lit = set(lit)
        self.address = address
        self.here = here
        self.pieces: list[str] = []
        self.drawn: set[str] = set()

    def part(
        self, name: str, role: str, x: float, y: float, width: float, height: float, label: str = ""
    ) -> None:
        """Draw a box whose upper left corner is at (`x`, `y`)."""
        self._link(name, role, "shape", x, y, width, height, label)

    def frame(
        self,
        name: str,
        role: str,
        x: float,
        y: float,
        width: float,
        height: float,
        label: str,
        behind: int,
    ) -> None:
        """Draw a frame behind all pieces from `behind` on; its title is the link."""
        lit = " lit" * (name in self.lit)
        rectangle = _rectangle(f"frame {role}{lit}", x, y, width, height, 10)
        self.pieces.insert(behind, rectangle)
        self._link(name, role, "title", x + 6, y + 5, width - 12, 24, label)

    def way(self, *points: tuple[float, float], back: bool = False) -> None:
        """Draw an arrow through the points."""
        (x0, y0), (x1, y1) = points[-2:]
        across, down = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        line = [*points[:-1], (x1 - 5 * across, y1 - 5 * down)]
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in line)
        self.pieces.append(f'<path class="way{" back" * back}" d="{path}"/>')
        base = (x1 - 8 * across, y1 - 8 * down)
        tip = [
            (x1, y1),
            (base[0] + 4.5 * down, base[1] + 4.5 * across),
            (base[0] - 4.5 * down, base[1] - 4.5 * across),
        ]
        corners = " ".join(f"{x:g},{y:g}" for x, y in tip)
        self.pieces.append(f'<polygon class="tip" points="{corners}"/>')

    def say(self, text: str, x: float, y: float, anchor: str = "middle") -> None:
        """Write a few words that are no part."""
        self.pieces.append(
            f'<text class="small" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def _link(
        self,
        name: str,
        role: str,
        shape: str,
        x: float,
        y: float,
        width: float,
        height: float,
        label: str,
    ) -> None:
        part = PARTS[name]
        label = label or part.label
        self.drawn.add(name)
        middle = y + height / 2 + 5
        inside = (
            f"<title>{escape(self._said(label, part))}</title>"
            + _rectangle(shape, x, y, width, height, 6)
            + f'<text x="{x + 7:g}" y="{middle:g}">{escape(label)}</text> '
            + f'<text class="number" x="{x + width - 7:g}" y="{middle:g}" text-anchor="end">'
            + f"{part.chapter:02}</text>"
            + _rectangle("ring", x, y, width, height, 6)
        )
        attributes = f'class="part {role}{" lit" * (name in self.lit)}" data-part="{name}"'
        where = None if part.chapter == self.here else self.address(part.chapter)
        if not where:
            self.pieces.append(f'<g {attributes} role="img">{inside}</g>')
        else:
            self.pieces.append(f'<a {attributes} href="{escape(where)}">{inside}</a>')

    def _said(self, label: str, part: Part) -> str:
        """Return the name of a part, which begins with the words that are seen."""
        said = f"{label} {part.chapter:02}: "
        if part.chapter == self.here:
            said += "this chapter"
        else:
            said += CHAPTERS[part.chapter]
            said += ", not in the book yet" * (self.address(part.chapter) is None)
        again = " and ".join(f"{number:02}" for number in part.again)
        return said + f" (see also {again})" * bool(again)


def _rectangle(kind: str, x: float, y: float, width: float, height: float, round_by: int) -> str:
    return (
        f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'rx="{round_by}"/>'
    )


class Column:
    """One of the two sides, growing upwards."""

    def __init__(self, canvas: Canvas, role: str, x: float) -> None:
        self.canvas, self.role, self.x = canvas, role, x
        self.middle = x + COLUMN / 2
        self.top = 0.0

    def step(self) -> None:
        """Draw an arrow up from what was drawn last."""
        self.canvas.way((self.middle, self.top), (self.middle, self.top - GAP))
        self.top -= GAP

    def words(self, text: str) -> None:
        """Write what goes in or comes out."""
        self.top -= 8
        self.canvas.say(text, self.middle, self.top)
        self.top -= 16

    def part(
        self, name: str, label: str = "", height: float = 28, insets: tuple[int, int] = (0, 0)
    ) -> float:
        """Draw a box on top; return the height of its middle."""
        self.top -= height
        left, right = insets
        self.canvas.part(
            name, self.role, self.x + left, self.top, COLUMN - left - right, height, label
        )
        return self.top + height / 2

    def sublayer(self, *rows: str, skip_x: float) -> float:
        """Draw a sub-layer and its residual; return the height of its first row's middle."""
        on_left = skip_x < self.middle
        insets = (OUTER, INNER) if on_left else (INNER, OUTER)
        below = self.top - GAP / 2
        self.step()
        for row in reversed(rows):
            entry = self.part(row, insets=insets)
            self.top -= 3
        self.top += 3
        self.step()
        norm = self.part("residual", height=26, insets=insets)
        side = self.x + OUTER if on_left else self.x + COLUMN - OUTER
        self.canvas.way((self.middle, below), (skip_x, below), (skip_x, norm), (side, norm))
        return entry


def draw_box(canvas: Canvas) -> None:
    """One closed box: a sentence goes in, another comes out."""
    middle = WIDTH / 2
    canvas.say("the cat drank the milk", middle, -6)
    canvas.way((middle, -24), (middle, -46))
    canvas.part("transformer", "whole", middle - 90, -102, 180, 56)
    canvas.way((middle, -102), (middle, -124))
    canvas.say("le chat a bu le lait", middle, -132)


def _ends(canvas: Canvas) -> tuple[Column, Column]:
    """Draw what is before both stacks."""
    encoder = Column(canvas, "encoder", ENCODER_X)
    decoder = Column(canvas, "decoder", DECODER_X)
    for column, words, label in [
        (encoder, "the cat drank the milk", "input embedding"),
        (decoder, "<start> le chat a", "output embedding"),
    ]:
        column.words(words)
        column.step()
        column.part("subwords")
        column.step()
        column.part("embedding", label)
        column.step()
        column.part("position")
    return encoder, decoder


def _memory(canvas: Canvas, encoder: Column, entries: Iterable[float], inset: int) -> None:
    """Lead the encoder's output to boxes at these heights, `inset` from the decoder's frame."""
    between, above = (ENCODER_X + COLUMN + DECODER_X) / 2, encoder.top - 16
    for entry in entries:
        canvas.way(
            (encoder.middle, encoder.top),
            (encoder.middle, above),
            (between, above),
            (between, entry),
            (DECODER_X + inset, entry),
        )
    canvas.say("memory: the output", ENCODER_X, above - 26, "start")
    canvas.say("of the encoder", ENCODER_X, above - 10, "start")


def _after(canvas: Canvas, decoder: Column) -> None:
    """Draw what is after the decoder, and how its word comes back."""
    for name in ("output", "decoding"):
        decoder.step()
        chosen = decoder.part(name)
    decoder.step()
    decoder.words("bu")
    right, edge = DECODER_X + COLUMN, WIDTH - 6
    canvas.way((right, chosen), (edge, chosen), (edge, -13), (right - 38, -13), back=True)
    canvas.say("numbers: the chapter", ENCODER_X, decoder.top + 12, "start")
    canvas.say("that builds the part", ENCODER_X, decoder.top + 28, "start")


def draw_stacks(canvas: Canvas) -> None:
    """Two stacks, what is before them, and what is after."""
    encoder, decoder = _ends(canvas)
    layers, plate = ("layer 1", "…", "layer N"), 24
    entries = []
    for column, name in [(encoder, "encoder"), (decoder, "decoder")]:
        column.step()
        behind, bottom = len(canvas.pieces), column.top
        for layer in layers:
            column.step()
            column.top -= plate
            rectangle = _rectangle(
                "shape", column.x + OUTER, column.top, COLUMN - 2 * OUTER, plate, 6
            )
            canvas.pieces.append(f'<g class="{column.role}">{rectangle}</g>')
            canvas.say(layer, column.middle, column.top + 16)
            entries.append(column.top + plate / 2)
        column.top -= 38
        canvas.frame(
            name,
            column.role,
            column.x,
            column.top,
            COLUMN,
            bottom - column.top,
            f"{name} stack",
            behind,
        )
    _memory(canvas, encoder, entries[len(layers) :], OUTER)
    _after(canvas, decoder)


def draw_layers(canvas: Canvas) -> None:
    """One layer of each stack, opened."""
    encoder, decoder = _ends(canvas)
    outside_left, outside_right = ENCODER_X + 7, DECODER_X + COLUMN - 7

    encoder.step()
    behind, bottom = len(canvas.pieces), encoder.top
    encoder.sublayer("self-attention", "multi-head", skip_x=outside_left)
    encoder.sublayer("feed-forward", skip_x=outside_left)
    encoder.top -= 38
    height = bottom - encoder.top
    canvas.frame(
        "encoder", "encoder", ENCODER_X, encoder.top, COLUMN, height, "encoder layer × N", behind
    )

    decoder.step()
    behind = len(canvas.pieces)
    decoder.sublayer("masked-attention", "multi-head", skip_x=outside_right)
    asked = decoder.sublayer("cross-attention", "multi-head", skip_x=outside_right)
    decoder.sublayer("feed-forward", skip_x=outside_right)
    decoder.top -= 38
    height = bottom - decoder.top
    canvas.frame(
        "decoder", "decoder", DECODER_X, decoder.top, COLUMN, height, "decoder layer × N", behind
    )

    _memory(canvas, encoder, [asked], INNER)
    _after(canvas, decoder)


VIEWS = {
    "box": (draw_box, "The Transformer as one closed box: a sentence goes in, another comes out."),
    "stacks": (
        draw_stacks,
        "The Transformer opened once. Left, the source is cut into subwords, embedded, given "
        "positions, and encoded by the encoder stack. Right, the target so far goes the same way "
        "into the decoder stack, whose every layer also attends to the encoder's output. A "
        "linear layer with a softmax and decoding give the next word, which is fed back.",
    ),
    "layers": (
        draw_layers,
        "The Transformer opened down to its layers. An encoder layer has multi-head "
        "self-attention and a feed-forward network; a decoder layer has masked multi-head "
        "self-attention, multi-head cross-attention to the encoder's output, and a "
        "feed-forward network. Around each goes a residual connection. Below are positions, "
        "embeddings and subwords; above the decoder, a linear layer with a softmax, and decoding, "
        "whose word is fed back.",
    ),
}


def parse_lit(text: str) -> list[str]:
    """Return the parts of a comma-separated list; raise ValueError for an unknown one."""
    lit = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in lit if name not in PARTS]:
        raise ValueError(
            f"the map has no part {', '.join(map(repr, unknown))}; it has: {', '.join(PARTS)}"
        )
    return lit


def draw(
    view: str = "layers",
    lit: Iterable[str] = (),
    address: Address = lambda chapter: None,
    here: int | None = None,
) -> str:
    """Return the map as SVG; raise ValueError for a view, or a lit part, that is not there."""
    if view not in VIEWS:
        raise ValueError(f"the map opens as one of {', '.join(VIEWS)}, not as {view!r}")
    lit = parse_lit(", ".join(lit))
    canvas = Canvas(lit, address, here)
    painter, description = VIEWS[view]
    painter(canvas)
    if hidden := [name for name in lit if name not in canvas.drawn]:
        drawn = ", ".join(name for name in PARTS if name in canvas.drawn)
        raise ValueError(f"open as {view!r}, the map draws no {', '.join(hidden)}; it has: {drawn}")
    said = description + f" Lit: {', '.join(PARTS[name].label for name in lit)}." * bool(lit)
    heights = [float(y) for piece in canvas.pieces for y in re.findall(r' y="(-?[\d.]+)"', piece)]
    top = min(heights) - 16
    return (
        f'<svg class="transformer-map" xmlns="http://www.w3.org/2000/svg" role="group" '
        f'viewBox="0 {top:g} {WIDTH} {-top:g}" aria-label="{escape(said)}">'
        f"<style>{STYLE}</style>{''.join(canvas.pieces)}</svg>"
    )


def description(svg: str) -> str:
    """Return what is said of a drawn map to those who do not see it."""
    found = re.search(r'<svg [^>]*aria-label="([^"]*)"', svg)
    return found[1] if found else ""


def as_markdown(options: dict[str, str], caption: str) -> str:
    """Return the map as Markdown that notebooks show: a picture, without links."""
    lit = parse_lit(options.get("lit", ""))
    svg = draw(options.get("open", "layers"), lit, address=lambda chapter: "")
    on_white = svg.replace("<svg ", '<svg style="background: #fff" width="464" ', 1)
    data = base64.b64encode(on_white.encode()).decode()
    picture = f"![{unescape(description(svg))}](data:image/svg+xml;base64,{data})"
    return f"{picture}\n\n*{caption}*" if caption else picture


class map_node(nodes.General, nodes.Element):
    """The picture."""


class TransformerMapDirective(SphinxDirective):
    """Make a figure of the picture and its caption."""

    has_content = True
    option_spec: ClassVar = {
        "lit": directives.unchanged,
        "open": directives.unchanged,
        "name": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return one figure."""
        view = self.options.get("open", "layers")
        try:
            lit = parse_lit(self.options.get("lit", ""))
            draw(view, lit)
        except ValueError as problem:
            raise self.error(str(problem)) from None
        figure = nodes.figure("", map_node("", view=view, lit=lit), classes=["transformer-map"])
        self.set_source_info(figure)
        if self.content:
            words, messages = self.parse_inline(" ".join(self.content))
            figure += [nodes.caption("", "", *words), *messages]
        self.add_name(figure)
        return [figure]


def chapter_of(page: str) -> int | None:
    """Return the number of a chapter's page, such as book/08_additive_attention."""
    found = re.fullmatch(r"(?:.*/)?(\d\d)_\w+", page)
    return int(found[1]) if found else None


def visit_map(self: HTML5Translator, node: map_node) -> None:
    """Draw the map with links to the pages that the book has."""
    page = self.builder.current_docname
    pages = {chapter_of(name): name for name in self.builder.env.found_docs}

    def address(chapter: int) -> str | None:
        if chapter not in pages:
            return None
        return self.builder.get_relative_uri(page, pages[chapter])

    self.body.append(draw(node["view"], node["lit"], address, chapter_of(page)))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(map_node, html=(visit_map, None))
    app.add_directive("transformer-map", TransformerMapDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
