"""``attentively data``: what data there is, how to have it, and whether it is whole."""

import sys
from typing import Annotated

import typer
from tqdm.auto import tqdm

from attentively.data import download
from attentively.data.catalogue import SETS

app = typer.Typer(
    help="List, fetch and check data sets.",
    epilog="Your own copies are used where ATTENTIVELY_DATA names their folder.",
    no_args_is_help=True,
    add_completion=False,
)
Name = Annotated[str, typer.Argument(help="A name from `attentively data list`.")]


@app.command("list", epilog="Example:\n\nattentively data list")
def list_sets() -> None:
    """List the data sets: where they lie, how large they are, and their licences."""
    for name, data_set in SETS.items():
        print(f"{name}: {data_set.about}")
        print(f"  {_whereabouts(name)}")
        print(f"  {data_set.licence}; {data_set.attribution}")


@app.command(
    "get",
    epilog="Examples:\n\nattentively data get shakespeare\n\nattentively data get multi30k-en-de",
)
def get(name: Name) -> None:
    """Fetch what is not here yet of a data set, and check all of it."""
    for file in tqdm(download.files_of(name), desc=name, unit="file", disable=None):
        lines = download.read(file.path).count("\n")
        tqdm.write(f"{file.path}: {lines:,} lines, checksum right, at {download.find(file.path)}")


@app.command(
    "check",
    epilog="Examples:\n\nattentively data check\n\nattentively data check multi30k-en-de\n\n"
    "Exit codes: 0 fine, or not here; 1 damaged.",
)
def check(
    name: Annotated[str | None, typer.Argument(help="A data set; all of them by default.")] = None,
) -> None:
    """Read every file that is here, and compare its checksum; exit with 1 if one is damaged."""
    names = list(SETS) if name is None else [name]
    found = {one.file.path: one for each in names for one in download.check(each)}
    for path, one in found.items():
        print(f"{one.state:8} {one.path or path}")
    damaged = [path for path, one in found.items() if one.state == "damaged"]
    if damaged:
        print(f"damaged: {', '.join(damaged)}; take them away and get them again", file=sys.stderr)
        raise typer.Exit(1)


def _whereabouts(name: str) -> str:
    """Say how much of a data set is here, or how to get it."""
    files = download.files_of(name)
    paths = [path for file in files if (path := download.find(file.path))]
    if not paths:
        whole = _megabytes(sum(file.size for file in files))
        return f"not here yet: attentively data get {name} ({whole} of text)"
    size = _megabytes(sum(path.stat().st_size for path in paths))
    if len(files) == 1:
        return f"here: {paths[0]}, {size}"
    if len(paths) == len(files):
        return f"here: {len(files)} files in {paths[0].parent}, {size}"
    return (
        f"{len(paths)} of {len(files)} files here, in {paths[0].parent}, {size}; "
        f"the others: attentively data get {name}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"
