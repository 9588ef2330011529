"""The command line: ``attentively``, also ``python -m attentively``."""

import sys

import typer

from attentively.cli import coursework, data, experiment, train, translate
from attentively.data.download import DataError

app = typer.Typer(
    help="Train, use and measure the models of the book.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(data.app, name="data")
app.command("train")(train.train)
app.command("translate")(translate.translate)
app.command("evaluate")(translate.evaluate)
app.command("models")(translate.models)
app.command("experiment")(experiment.experiment)
app.command("progress")(coursework.progress)
app.command("submit")(coursework.submit)
app.command("grade")(coursework.grade)


def main() -> None:
    """Run the command line; a mistake of the user's is one line, not a traceback."""
    try:
        app()
    except (ValueError, DataError, FloatingPointError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
