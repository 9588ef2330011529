"""``attentively caption``: let a model say what stands where in a scene of digits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from attentively.atomic_files import check_replaceable, replacing
from attentively.cli import models
from attentively.config import check_at_least_one
from attentively.data import digits
from attentively.data.digits import DigitScene
from attentively.generation import generate
from attentively.generation.generate import Translation
from attentively.models.captioning import Captioner

EPILOG = """Examples:

attentively caption --model runs/captioner --scenes 5

attentively caption --model runs/captioner --scenes 2 --plot focus.png"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def caption(
    model: models.Model,
    scenes: Annotated[int, typer.Option(help="How many held-out scenes.")] = 3,
    seed: Annotated[int, typer.Option(help="Settles which ones.")] = 0,
    beam_size: Annotated[int, typer.Option(help="1 is greedy search.")] = 5,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the scenes, and where the model looked at each word (.png)."),
    ] = None,
) -> None:
    """Describe scenes of handwritten digits: what is there, what the model says, if it is true."""
    check_at_least_one(scenes=scenes)
    if plot is not None and plot.suffix != ".png":
        raise ValueError(f"--plot writes a .png picture, not {plot}")
    if plot is not None:
        check_replaceable(plot)
    checkpoint = models.load(model)
    given = digits.load("test", scenes, seed=seed)
    images = torch.stack([scene.image for scene in given])
    found = generate.caption(checkpoint, images, beam_size, need_weights=plot is not None)
    for scene, said in zip(given, found, strict=True):
        true = "true" if digits.is_faithful(scene, said.text.split()) else "not true"
        print(f"{_rows(scene)}\n{said.text} ({true})\n")
    if plot is not None:
        assert isinstance(checkpoint.model, Captioner)  # or `writing.caption` had refused it
        _draw(given, found, checkpoint.model.config.feature_map, plot)
        print(f"plot in {plot}")


def _rows(scene: DigitScene) -> str:
    """Return what stands in the grid, a row a line; a dot is an empty place."""
    places = ["." if cell is None else str(cell) for cell in scene.cells]
    rows = (
        places[first : first + digits.COLUMNS] for first in range(0, len(places), digits.COLUMNS)
    )
    return "\n".join("  ".join(row) for row in rows)


def _draw(
    scenes: Sequence[DigitScene],
    captions: Sequence[Translation],
    feature_map: tuple[int, int],
    path: Path,
) -> None:
    """Draw a row for each scene: the image, then where the model looked at each word."""
    import matplotlib.pyplot as plt  # takes a second, so only where a picture is wanted

    columns = 1 + max(len(caption.tgt_tokens) for caption in captions)
    figure, axes = plt.subplots(
        len(scenes), columns, figsize=(1.2 * columns, 1.2 * len(scenes)), squeeze=False
    )
    for row, scene, caption in zip(axes, scenes, captions, strict=True):
        height, width = scene.image.shape[-2:]
        for ax in row:
            ax.axis("off")
        words = ["", *caption.tgt_tokens]
        weights = [] if caption.weights is None else list(caption.weights)
        for ax, word, looked_at in zip(row, words, [None, *weights], strict=False):
            ax.imshow(scene.image[0].numpy(), cmap="gray_r")
            ax.set_title(word, fontsize=8)
            if looked_at is not None:
                ax.imshow(
                    looked_at.view(feature_map).numpy(),
                    cmap="Blues",
                    alpha=0.6,
                    vmin=0,
                    vmax=1,
                    extent=(-0.5, width - 0.5, height - 0.5, -0.5),
                )
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", bbox_inches="tight")
    plt.close(figure)
