"""Draw the figure of README.md: the attention weights of a shipped model on one sentence.

python tools/draw_readme_figure.py                  write book/_static/readme/attention.svg
python tools/draw_readme_figure.py --target FILE    write FILE instead

The model is `toy-additive`: a recurrent encoder and decoder with additive attention.
"""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from attentively.analysis import plots
from attentively.generation import generate
from attentively.models import checkpoints

TARGET = Path(__file__).resolve().parents[1] / "book/_static/readme/attention.svg"
SENTENCE = "the happy woman does not see the red house"


def main(arguments: Sequence[str] | None = None) -> int:
    """Translate the sentence and write the heat map of its attention weights as SVG."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Path, default=TARGET, metavar="FILE")
    target = parser.parse_args(arguments).target
    model = checkpoints.load_pretrained("toy-additive")
    [translation] = generate.translate(model, [SENTENCE], beam_size=1)
    if translation.weights is None:
        raise TypeError(
            "toy-additive returned no attention weights; expected a model with attention"
        )
    drawn = io.StringIO()
    with mpl.rc_context():
        plots.use_book_style()
        plots.alignment_heat_map(
            translation.weights, translation.src_tokens, translation.tgt_tokens
        )
        plt.savefig(drawn, format="svg", metadata={"Date": None})
        plt.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = (line.rstrip() for line in drawn.getvalue().splitlines())
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
