"""The command line: ``attentively``, also ``python -m attentively``.

The module of a command is imported only when the command is called: importing PyTorch takes
seconds, and most calls do not need it.
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
    "collect": "coursework",
    "grade": "coursework",
}
"""The commands, and the module of this package that implements each."""

EPILOG = """Examples:

attentively train toy --model transformer --steps 1000 --output runs/toy

attentively evaluate toy --model runs/toy/best.safetensors

`attentively COMMAND --help` lists the options and examples of a command.

Exit codes: 0 success; 1 error, explained in one line; 2 unknown command or option; 130
interrupted."""


class Commands(TyperGroup):
    """List every command with its summary, and import only the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        folder = Path(__file__).parent
        for name, module in COMMANDS.items():
            text = docstrings.of_file(folder / f"{module}.py", name).split("\n\n")[0]
            purpose = text.removeprefix(f"attentively {name}: ")
            self.add_command(TyperCommand(name, help=purpose[:1].upper() + purpose[1:]))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import the command that `args` start with."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None:
            command = load(name)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report an error in one line, with exit code 1."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:  # the program that reads the output has stopped
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise  # typer's own errors, which typer reports
            if ctx.params["debug"]:
                traceback.print_exc()
            print(f"error: {explained(error)}", file=sys.stderr)
            raise typer.Exit(1) from None


def load(name: str) -> Any:
    """Return a command, ready to be invoked, from its module."""
    command: Any = typer.main.get_command(
        importlib.import_module(f"attentively.cli.{COMMANDS[name]}").app
    )
    if isinstance(command, TyperGroup):  # several commands in one module, or a group itself
        command = command.commands.get(name, command)
    command.name = name
    return command


def explained(error: Exception) -> str:
    """Return the error message in one line."""
    from attentively.data.download import DataError

    text = " ".join(str(error).split())
    if "torch" in sys.modules:
        from attentively import device

        if isinstance(error, RuntimeError) and device.is_out_of_memory(error):
            return f"out of memory: use a smaller model, smaller batches or shorter texts ({text})"
    expected = (ValueError, DataError, FloatingPointError, OSError, MemoryError)
    if isinstance(error, expected):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (`attentively --debug …` shows the traceback)"


app = typer.Typer(
    cls=Commands,
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def print_version(wanted: bool) -> None:
    """Print the version of the package and exit, if `wanted`."""
    if wanted:
        typer.echo(f"attentively {importlib.metadata.version('attentively')}")
        raise typer.Exit()


@app.callback()
def before_any_command(
    debug: Annotated[
        bool,
        typer.Option("--debug", envvar="ATTENTIVELY_DEBUG", help="Show the traceback of an error."),
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
    """Train, use and evaluate the models of the book."""


def main() -> None:
    """Run the command line."""
    app()
