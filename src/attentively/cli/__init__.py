"""The command line: ``attentively``, also ``python -m attentively``.

A command's module is imported when the command is asked for: PyTorch takes seconds, and most
of what one asks the command line does not need it.
"""

import importlib
import importlib.metadata
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attentively.cli import docstrings

COMMANDS = {
    "train": "train",
    "translate": "translate",
    "generate": "generate",
    "classify": "read",
    "fill": "read",
    "caption": "caption",
    "evaluate": "evaluate",
    "models": "models",
    "vectors": "vectors",
    "data": "data",
    "experiment": "experiment",
    "progress": "coursework",
    "submit": "coursework",
    "grade": "coursework",
}
"""The commands, and the module of this package that each is in."""

EPILOG = """Examples:

attentively train toy --model transformer --steps 1000 --output runs/toy

attentively evaluate toy --model runs/toy/best.safetensors

attentively COMMAND --help shows more of them.

Exit codes: 0 fine; 1 a mistake or bad data, said in one line; 2 a command that is not
understood; 130 interrupted."""


class Commands(TyperGroup):
    """Knows every command's name and purpose, and imports the one that is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        folder = Path(__file__).parent
        for name, module in COMMANDS.items():
            text = docstrings.of_file(folder / f"{module}.py", name).split("\n\n")[0]
            purpose = text.removeprefix(f"attentively {name}: ")
            self.add_command(TyperCommand(name, help=purpose[:1].upper() + purpose[1:]))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that `args` begin with."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = load(name)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong is one line and exit code 1."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:  # who reads the output has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise  # typer's own, which it shows itself
            if ctx.params["debug"]:
                traceback.print_exc()
            print(f"error: {explained(error)}", file=sys.stderr)
            raise typer.Exit(1) from None


def load(name: str) -> Any:
    """Return a command, ready to be invoked, from its module."""
    command: Any = typer.main.get_command(
        importlib.import_module(f"attentively.cli.{COMMANDS[name]}").app
    )
    if isinstance(command, TyperGroup):  # several commands in one module, or `data` itself
        command = command.commands.get(name, command)
    command.name = name
    return command


def explained(error: Exception) -> str:
    """Return what is the matter, in one line."""
    from attentively.data.download import DataError

    text = " ".join(str(error).split())
    if "torch" in sys.modules:
        from attentively import device

        if isinstance(error, RuntimeError) and device.is_out_of_memory(error):
            return f"out of memory: take a smaller model or shorter texts ({text})"
    expected = (ValueError, DataError, FloatingPointError, OSError, MemoryError)
    if isinstance(error, expected):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (attentively --debug … shows where)"


app = typer.Typer(
    cls=Commands,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def print_version(wanted: bool) -> None:
    """Print the version of the package and exit, if that is `wanted`."""
    if wanted:
        typer.echo(f"attentively {importlib.metadata.version('attentively')}")
        raise typer.Exit()


@app.callback()
def before_any_command(
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", envvar="ATTENTIVELY_DEBUG", help="Show where in the program an error arose."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version,
            is_eager=True,
            help="Print the version of the package and exit.",
        ),
    ] = False,
) -> None:
    """Train, use and measure the models of the book."""


def main() -> None:
    """Run the command line."""
    app()
