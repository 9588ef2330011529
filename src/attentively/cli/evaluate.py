"""``attentively evaluate``: how good a model is, on sentences or scenes that it has not seen."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from attentively.atomic_files import check_replaceable, replacing
from attentively.cli import families, models
from attentively.cli.families import Content
from attentively.data import corpora
from attentively.generation.search import Beam

EPILOG = """Examples:

attentively evaluate toy --model toy-additive

attentively evaluate tatoeba-en-fr --model tatoeba-en-fr-additive --beam-size 1 --json scores.json

attentively evaluate shakespeare --model runs/shakespeare"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def evaluate(
    data: Annotated[
        str, typer.Argument(help="A corpus's name, or files of yours, as for `attentively train`.")
    ],
    model: models.Model,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    beam_size: Annotated[
        int, typer.Option(help="For translations and captions; 1 is greedy search.")
    ] = 5,
    length_penalty: Annotated[
        float, typer.Option(help="For translations and captions; higher favours longer ones.")
    ] = 1.0,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Also write what the model said, a tab-separated line each: translations, labels "
            "or captions. Language models, masked or not, say nothing."
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the numbers as JSON.")
    ] = None,
) -> None:
    """Score a model on a split of a corpus, in the ways of its kind.

    Translations: BLEU and chrF with sacreBLEU's signatures, exact match, perplexity. Language
    models: perplexity of a token and of a character. Classifiers: accuracy and confusions.
    Masked language models: accuracy and surprise at what was taken out. Captioners: how many
    captions are true.
    """
    for path in (output, json_file):
        if path is not None:  # tried before the work, not after it
            check_replaceable(path)
    checkpoint = models.load(model)
    family = families.of(checkpoint.model)
    if output is not None and not family.says_texts:
        raise ValueError(f"a {family.name} says nothing that --output could write: leave it out")
    corpus = corpora.find(data, family.kind)
    families.refuse_other_data(family, corpus)
    piece_length = checkpoint.provenance.get("piece_length", families.PIECE_LENGTH)
    content = Content(corpus.load(split), corpus.kind, piece_length)
    progress = sys.stderr.isatty()
    result = family.evaluate(checkpoint, content, Beam(beam_size, length_penalty), progress)
    print(result.summary())
    if output is not None:
        result.write(output)
        print(f"texts in {output}")
    if json_file is not None:
        numbers = {"model": model, "data": corpus.name, "split": split, **result.scores()}
        with replacing(json_file) as temporary:
            temporary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
        print(f"numbers in {json_file}")
