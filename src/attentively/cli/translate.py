"""``attentively translate`` and ``attentively evaluate``: use a model, and measure it."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from torch import Tensor

from attentively import checkpoints, decoding, device, evaluation
from attentively.checkpoints import Checkpoint
from attentively.data import corpora
from attentively.data.pairs import tidy

Model = Annotated[
    str, typer.Option(help="A shipped model's name (see `attentively models`) or a file.")
]


def models() -> None:
    """List the models that ship with the package, and what each was trained on."""
    for name in checkpoints.pretrained_names():
        provenance = checkpoints.load_pretrained(name).provenance
        print(name)
        for key in ("command", "data", "attribution", "data_licence", "device", "evaluation"):
            if key in provenance:
                print(f"  {key.replace('_', ' ')}: {provenance[key]}")


def translate(
    model: Model,
    sentences: Annotated[
        list[str] | None, typer.Argument(help="Sentences; without any, one a line from stdin.")
    ] = None,
    beam_size: Annotated[int, typer.Option(help="1 is greedy search.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Higher favours longer sentences.")] = 1.0,
    plot: Annotated[
        Path | None, typer.Option(help="Draw where the model looked (first sentence) to this file.")
    ] = None,
) -> None:
    """Translate sentences. The translation goes to stdout; what to know about it, to stderr."""
    checkpoint = _load(model)
    texts = [tidy(text) for text in sentences or [line.rstrip("\n") for line in sys.stdin]]
    found = decoding.translate(
        checkpoint, texts, beam_size, length_penalty, need_weights=plot is not None
    )
    for translation in found:
        print(translation.text)
        if translation.note:
            print(f"note: {translation.note}", file=sys.stderr)
    if plot is not None:
        if not found or found[0].weights is None:
            raise ValueError("there are no weights to plot: nothing was translated with attention")
        _draw(found[0].weights, found[0], plot)


def evaluate(
    data: Annotated[str, typer.Argument(help=f"One of: {', '.join(sorted(corpora.CORPORA))}.")],
    model: Model,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    beam_size: int = 5,
    length_penalty: float = 1.0,
    output: Annotated[
        Path | None, typer.Option(help="Also write the translations, a tab-separated line each.")
    ] = None,
) -> None:
    """Score a model's translations of a split: BLEU, exact match, perplexity."""
    checkpoint = _load(model)
    pairs = corpora.find(data).load(split)
    result = evaluation.evaluate(checkpoint, pairs, beam_size, length_penalty, progress=True)
    print(result.summary())
    if output is not None:
        result.write(output)
        print(f"translations in {output}")


def _load(model: str) -> Checkpoint:
    if model in checkpoints.pretrained_names():
        return checkpoints.load_pretrained(model, device.best())
    if Path(model).suffix == ".safetensors":
        return checkpoints.load(model, device.best())
    return checkpoints.load_pretrained(model)  # which says what names there are


def _draw(weights: Tensor, translation: decoding.Translation, path: Path) -> None:
    import matplotlib.pyplot as plt  # takes a second, so only where a plot is wanted

    from attentively import plots

    figure, axes = plt.subplots()
    plots.alignment_heat_map(weights, translation.src_tokens, translation.tgt_tokens, ax=axes)
    figure.savefig(path, bbox_inches="tight")
    print(f"plot in {path}", file=sys.stderr)
