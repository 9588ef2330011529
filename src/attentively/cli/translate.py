"""``attentively translate``: translate arguments, a file or standard input."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from attentively.atomic_files import check_replaceable, replacing
from attentively.cli import models, sampling
from attentively.data.pairs import tidy
from attentively.data.text import lines_of

if TYPE_CHECKING:
    from attentively.generation.generate import Translation
    from attentively.models.checkpoints import Checkpoint

AT_ONCE = 64
"""Sentences in one batch."""
EPILOG = """Examples:

attentively translate --model tatoeba-en-fr-additive "I do not like milk."

attentively translate --model runs/toy --input english.txt --output french.txt

attentively translate --model runs/toy "the dog sleeps" --attention look.html --attention a.png"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def translate(
    model: models.Model,
    sentences: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences; by default one per line from standard input (UTF-8)."),
    ] = None,
    input: Annotated[
        Path | None,
        typer.Option("--input", help="Read one sentence per line from this file (UTF-8)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write the translations to this file instead of standard output; an interrupted "
            "run leaves it unchanged."
        ),
    ] = None,
    attention: Annotated[
        list[Path] | None,
        typer.Option(
            "--attention",
            "--plot",
            metavar="FILE",
            help="Write the attention weights: an interactive page of all sentences (.html) or a "
            "heat map of the first sentence (.png); repeatable.",
        ),
    ] = None,
    beam_size: Annotated[int, typer.Option(help="Beam size; 1 is greedy search.")] = 5,
    length_penalty: Annotated[
        float,
        typer.Option(
            help="Exponent of the length normalisation in beam search; higher values favour longer "
            "translations."
        ),
    ] = 1.0,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample each translation instead of beam search.")
    ] = False,
    temperature: sampling.Temperature = 1.0,
    top_k: sampling.TopK = None,
    top_p: sampling.TopP = None,
    seed: sampling.Seed = 0,
) -> None:
    """Translate sentences, one per line; notes such as unknown words go to standard error."""
    from attentively.generation import generate
    from attentively.generation.pretrained_model import load
    from attentively.generation.search import Sampling

    pictures = attention or []
    _refuse_unwritable(pictures, output)
    if sentences and input is not None:
        raise ValueError("give either sentences or --input, not both")
    if not sample and (temperature, top_k, top_p, seed) != (1.0, None, None, 0):
        raise ValueError("--temperature, --top-k, --top-p and --seed need --sample")
    checkpoint = load(model)
    checkpoint.translator()  # raises an error for other kinds of models
    how = Sampling.seeded(seed, temperature, top_k, top_p) if sample else None

    def translated(texts: Sequence[str]) -> "list[Translation]":
        return generate.translate(
            checkpoint, texts, beam_size, length_penalty, how, need_weights=bool(pictures)
        )

    kept: list[tuple[str, Translation]] = []
    lines: list[str] = []
    with tqdm(unit="sentence", delay=2, leave=False, disable=None) as bar:
        typed = not sentences and input is None and sys.stdin.isatty()
        for texts in _in_parts(_sentences(sentences, input), 1 if typed else AT_ONCE):
            for text, translation in zip(texts, translated(texts), strict=True):
                if translation.note:
                    tqdm.write(f"note: {translation.note}", file=sys.stderr)
                if output is None:
                    tqdm.write(translation.text, file=sys.stdout)
                else:
                    lines.append(translation.text + "\n")
                if pictures:
                    kept.append((text, translation))
            sys.stdout.flush()
            bar.update(len(texts))
    if output is not None:
        with replacing(output) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
    for path in pictures:
        _show(checkpoint, kept, path)
        print(f"attention weights written to {path}", file=sys.stderr)


def _sentences(given: Sequence[str] | None, file: Path | None) -> Iterator[str]:
    """Yield the sentences to translate, as they come."""
    if given:
        yield from map(tidy, given)
    elif file is not None:
        with file.open("rb") as stream:  # all lines first: an invalid one must not waste work
            lines = list(lines_of(stream, str(file)))
        yield from map(tidy, lines)
    else:
        yield from map(tidy, lines_of(sys.stdin.buffer, "standard input"))


def _in_parts(sentences: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield the sentences in parts of `size`."""
    sentences = iter(sentences)
    while part := list(islice(sentences, size)):
        yield part


# Attention weights


def _refuse_unwritable(pictures: Sequence[Path], output: Path | None) -> None:
    for path in pictures:
        if path.suffix not in (".html", ".png"):
            raise ValueError(
                f"--attention writes an .html page or a .png heat map, but the file is {path}"
            )
    for path in [*pictures, *([] if output is None else [output])]:
        check_replaceable(path)


def _show(checkpoint: "Checkpoint", kept: "Sequence[tuple[str, Translation]]", path: Path) -> None:
    from attentively.analysis import attention_explorer

    if not any(translation.weights is not None for _, translation in kept):
        raise ValueError(
            "there are no attention weights to show: the sentences are empty or the model has no "
            "attention"
        )
    if path.suffix == ".html":
        examples = [attention_explorer.example(checkpoint, *each) for each in kept]
        attention_explorer.Explorer(examples).save(path)
        return
    weights, first = next((each.weights, each) for _, each in kept if each.weights is not None)
    import matplotlib.pyplot as plt  # takes a second, so import it only when it is needed

    from attentively.analysis import plots

    figure, axes = plt.subplots()
    plots.alignment_heat_map(weights, first.src_tokens, first.tgt_tokens, ax=axes)
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", bbox_inches="tight")
    plt.close(figure)
