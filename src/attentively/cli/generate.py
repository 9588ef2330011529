"""``attentively generate``: continue a text with a language model."""

import sys
from typing import Annotated

import typer

from attentively.cli import models, sampling

EPILOG = """Examples:

attentively generate --model runs/shakespeare "ROMEO:" --max-len 300 --temperature 0.8

attentively generate --model runs/toy-text --samples 5

attentively generate --model runs/toy-text "le chien" --beam-size 5"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def generate(
    model: models.Model,
    prompt: Annotated[str, typer.Argument(help="Prompt to continue; empty by default.")] = "",
    max_len: Annotated[int, typer.Option(help="Maximum number of generated tokens.")] = 100,
    samples: Annotated[
        int, typer.Option(help="Number of texts to sample, separated by blank lines.")
    ] = 1,
    temperature: sampling.Temperature = 1.0,
    top_k: sampling.TopK = None,
    top_p: sampling.TopP = None,
    seed: sampling.Seed = 0,
    beam_size: Annotated[
        int | None, typer.Option(help="Use beam search with this beam size instead of sampling.")
    ] = None,
) -> None:
    """Continue a text with a language model, by sampling or by beam search."""
    from attentively.generation import generate as writing
    from attentively.generation.pretrained_model import load
    from attentively.generation.search import Beam, Sampling

    drawn = (samples, temperature, top_k, top_p, seed) != (1, 1.0, None, None, 0)
    if beam_size is not None and drawn:
        raise ValueError(
            "--beam-size replaces sampling: it excludes --samples, --temperature, --top-k, "
            "--top-p and --seed"
        )
    checkpoint = load(model)
    how: Sampling | Beam
    if beam_size is None:
        how = Sampling.seeded(seed, temperature, top_k, top_p, samples)
    else:
        how = Beam(beam_size)
    [texts] = writing.continue_text(checkpoint, [prompt], max_len, how)
    found = texts if beam_size is None else texts[:1]
    print("\n\n".join(one.text for one in found))
    for note in dict.fromkeys(one.note for one in found if one.note):
        print(f"note: {note}", file=sys.stderr)
