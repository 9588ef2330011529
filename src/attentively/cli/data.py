"""``attentively data``: what data there is, and how to have it."""

from typing import Annotated

import typer

from attentively.data import download

app = typer.Typer(help="List and fetch data sets.", no_args_is_help=True)


@app.command("list")
def list_files() -> None:
    """List the data sets, where they lie, and their licences."""
    for name, file in sorted(download.FILES.items()):
        path = download.find(name)
        print(f"{name}\n  {path or f'not here yet: attentively data get {name}'}")
        print(f"  {file.licence}; {file.attribution}")


@app.command("get")
def get(name: Annotated[str, typer.Argument(help="A name from `attentively data list`.")]) -> None:
    """Fetch a data set unless it is here already, and check it."""
    lines = download.read(name).count("\n")
    print(f"{name}: {lines:,} lines, checksum right, at {download.find(name)}")
