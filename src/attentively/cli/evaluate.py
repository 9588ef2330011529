"""``attentively evaluate``: evaluate a model on held-out sentences or scenes."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from attentively.atomic_files import check_replaceable, replacing
from attentively.cli import models

EPILOG = """Examples:

attentively evaluate toy --model toy-additive

attentively evaluate tatoeba-en-fr --model tatoeba-en-fr-additive --beam-size 1 --json scores.json

attentively evaluate shakespeare --model runs/shakespeare"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def evaluate(
    data: Annotated[
        str,
        typer.Argument(help="Name of a corpus, or your own files, as for `attentively train`."),
    ],
    model: models.Model,
    split: Annotated[
        str, typer.Option(help="Split of the corpus: train, validation or test.")
    ] = "test",
    beam_size: Annotated[
        int, typer.Option(help="Beam size for translations and captions; 1 is greedy search.")
    ] = 5,
    length_penalty: Annotated[
        float,
        typer.Option(
            help="Exponent of the length normalisation in beam search; higher values favour longer "
            "outputs."
        ),
    ] = 1.0,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Also write the outputs of the model (translations, labels or captions), one "
            "tab-separated line each. Not for language models and masked language models."
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the scores as JSON.")
    ] = None,
) -> None:
    """Evaluate a model on a split of a corpus, with the metrics of its task.

    Translation: BLEU and chrF with sacreBLEU's signatures, exact match, perplexity. Language
    models: perplexity per token and per character. Classifiers: accuracy and confusion matrix.
    Masked language models: accuracy and cross-entropy on the masked tokens. Captioners: share of
    correct captions.
    """
    from attentively.cli import families
    from attentively.cli.families import Content
    from attentively.cli.train_options import PIECE_LENGTH
    from attentively.data import corpora
    from attentively.generation.pretrained_model import load
    from attentively.generation.search import Beam

    for path in (output, json_file):
        if path is not None:  # before the evaluation, not after it
            check_replaceable(path)
    checkpoint = load(model)
    family = families.of(checkpoint.model)
    if output is not None and not family.says_texts:
        raise ValueError(f"a {family.name} has no outputs to write: leave out --output")
    corpus = corpora.find(data, family.kind)
    families.refuse_other_data(family, corpus)
    piece_length = checkpoint.provenance.get("piece_length", PIECE_LENGTH)
    content = Content(corpus.load(split), corpus.kind, piece_length)
    progress = sys.stderr.isatty()
    result = family.evaluate(checkpoint, content, Beam(beam_size, length_penalty), progress)
    print(result.summary())
    if output is not None:
        result.write(output)
        print(f"outputs written to {output}")
    if json_file is not None:
        numbers = {"model": model, "data": corpus.name, "split": split, **result.scores()}
        with replacing(json_file) as temporary:
            temporary.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")
        print(f"scores written to {json_file}")
