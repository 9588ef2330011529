"""``attentively classify`` and ``attentively fill``: predictions of encoder models."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from attentively.cli import models
from attentively.data.pairs import tidy
from attentively.data.text import lines_of
from attentively.tokens.vocabulary import GAP

CLASSIFY_EPILOG = """Examples:

attentively classify --model runs/sentiment "I would go there again ."

attentively classify --model runs/sentiment < opinions.txt"""
FILL_EPILOG = """Examples:

attentively fill --model runs/masked "the ___ sleeps"

attentively fill --guesses 10 --model runs/masked < gaps.txt"""

app = typer.Typer(add_completion=False)


@app.command(epilog=CLASSIFY_EPILOG)
def classify(
    model: models.Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts; by default one per line from standard input (UTF-8)."),
    ] = None,
) -> None:
    """Predict the label of each text; print label, probability and text, separated by tabs."""
    from attentively.generation import predict
    from attentively.generation.pretrained_model import load

    given = [tidy(text) for text in texts or _stdin()]
    for text, judgement in zip(given, predict.classify(load(model), given), strict=True):
        print(f"{judgement.label}\t{judgement.probabilities[judgement.label]:.3f}\t{text}")
        if judgement.note:
            print(f"note: {judgement.note}", file=sys.stderr)


@app.command(epilog=FILL_EPILOG)
def fill(
    model: models.Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Texts with {GAP} in place of a masked word; by default one per line "
            "from standard input (UTF-8)."
        ),
    ] = None,
    guesses: Annotated[
        int, typer.Option(help="Number of most probable tokens to show for each gap.")
    ] = 5,
) -> None:
    """Predict the masked words of a text; print the filled text and the most probable tokens."""
    from attentively.generation import predict
    from attentively.generation.pretrained_model import load

    checkpoint = load(model)
    for text in map(tidy, texts or _stdin()):
        if not text:
            print()
            print("note: empty sentence", file=sys.stderr)
            continue
        filled = predict.fill(checkpoint, text, guesses)
        print(filled.text)
        for gap in filled.guesses:
            print("  " + ", ".join(f"{token} {100 * value:.1f} %" for token, value in gap.items()))
        if filled.note:
            print(f"note: {filled.note}", file=sys.stderr)


def _stdin() -> Iterator[str]:
    return lines_of(sys.stdin.buffer, "standard input")
