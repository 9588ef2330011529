"""``attentively caption``: describe scenes of handwritten digits."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentively.atomic_files import check_replaceable, replacing
from attentively.cli import models
from attentively.config import check_at_least_one

if TYPE_CHECKING:
    from attentively.data.digits import DigitScene
    from attentively.generation.generate import Translation

EPILOG = """Examples:

attentively caption --model runs/captioner --scenes 5

attentively caption --model runs/captioner --scenes 2 --plot focus.png"""

app = typer.Typer(add_completion=False)


@app.command(epilog=EPILOG)
def caption(
    model: models.Model,
    scenes: Annotated[int, typer.Option(help="Number of test scenes.")] = 3,
    seed: Annotated[int, typer.Option(help="Random seed of the scenes.")] = 0,
    beam_size: Annotated[int, typer.Option(help="Beam size; 1 is greedy search.")] = 5,
    plot: Annotated[
        Path | None,
        typer.Option(help="Plot the scenes and the attention weights of each word (.png)."),
    ] = None,
) -> None:
    """Caption test scenes of handwritten digits, and check each caption against the scene."""
    import torch

    from attentively.data import digits
    from attentively.generation import generate
    from attentively.generation.pretrained_model import load
    from attentively.models.captioning import Captioner

    check_at_least_one(scenes=scenes)
    if plot is not None and plot.suffix != ".png":
        raise ValueError(f"--plot writes a .png image, but the file is {plot}")
    if plot is not None:
        check_replaceable(plot)
    checkpoint = load(model)
    given = digits.load("test", scenes, seed=seed)
    images = torch.stack([scene.image for scene in given])
    found = generate.caption(checkpoint, images, beam_size, need_weights=plot is not None)
    for scene, said in zip(given, found, strict=True):
        verdict = "correct" if digits.is_faithful(scene, said.text.split()) else "incorrect"
        print(f"{_rows(scene)}\n{said.text} ({verdict})\n")
    if plot is not None:
        assert isinstance(checkpoint.model, Captioner)  # else `generate.caption` had raised
        _draw(given, found, checkpoint.model.config.feature_map, plot)
        print(f"plot written to {plot}")


def _rows(scene: "DigitScene") -> str:
    """Return the grid of digits, one row per line; a dot is an empty cell."""
    from attentively.data import digits

    cells = ["." if cell is None else str(cell) for cell in scene.cells]
    rows = (cells[first : first + digits.COLUMNS] for first in range(0, len(cells), digits.COLUMNS))
    return "\n".join("  ".join(row) for row in rows)


def _draw(
    scenes: "Sequence[DigitScene]",
    captions: "Sequence[Translation]",
    feature_map: tuple[int, int],
    path: Path,
) -> None:
    """Plot a row for each scene: the image, then the attention weights of each word."""
    import matplotlib.pyplot as plt  # takes a second, so import it only when it is needed

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
