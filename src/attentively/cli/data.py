"""``attentively data``: list, download and verify data sets."""

import sys
from typing import Annotated

import typer
from tqdm.auto import tqdm

from attentively.data import download
from attentively.data.catalogue import SETS

app = typer.Typer(
    help="List, download and verify data sets.",
    epilog="To use your own copies, set the environment variable ATTENTIVELY_DATA to their "
    "folder.\n\nExamples:\n\nattentively data list\n\nattentively data get shakespeare",
    no_args_is_help=True,
    add_completion=False,
)
Name = Annotated[
    str, typer.Argument(help="Name of a data set (`attentively data list` lists them).")
]


@app.command("list", epilog="Example:\n\nattentively data list")
def list_sets() -> None:
    """List the data sets with their location, size and licence."""
    for name, data_set in SETS.items():
        print(f"{name}: {data_set.about}")
        print(f"  {_whereabouts(name)}")
        print(f"  {data_set.licence}; {data_set.attribution}")


@app.command(
    "get",
    epilog="Examples:\n\nattentively data get shakespeare\n\nattentively data get multi30k-en-de",
)
def get(name: Name) -> None:
    """Download the missing files of a data set, and verify the checksums of all its files."""
    for file in tqdm(download.files_of(name), desc=name, unit="file", disable=None):
        lines = download.read(file.path).count("\n")
        tqdm.write(f"{file.path}: {lines:,} lines, checksum correct, {download.find(file.path)}")


@app.command(
    "check",
    epilog="Examples:\n\nattentively data check\n\nattentively data check multi30k-en-de\n\n"
    "Exit codes: 0 all files correct or not downloaded; 1 at least one damaged file.",
)
def check(
    name: Annotated[
        str | None, typer.Argument(help="Name of a data set; by default all of them.")
    ] = None,
) -> None:
    """Verify the checksum of every downloaded file; exit with code 1 if one is damaged."""
    names = list(SETS) if name is None else [name]
    found = {one.file.path: one for each in names for one in download.check(each)}
    for path, one in found.items():
        print(f"{one.state:8} {one.path or path}")
    damaged = [path for path, one in found.items() if one.state == "damaged"]
    if damaged:
        print(
            f"damaged: {', '.join(damaged)}; delete the files, then run `attentively data get`",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def _whereabouts(name: str) -> str:
    """Return where the files of a data set are, or how to download them."""
    files = download.files_of(name)
    paths = [path for file in files if (path := download.find(file.path))]
    if not paths:
        whole = _megabytes(sum(file.size for file in files))
        return f"not downloaded: run `attentively data get {name}` ({whole} of text)"
    size = _megabytes(sum(path.stat().st_size for path in paths))
    if len(files) == 1:
        return f"downloaded: {paths[0]}, {size}"
    if len(paths) == len(files):
        return f"downloaded: {len(files)} files in {paths[0].parent}, {size}"
    return (
        f"downloaded: {len(paths)} of {len(files)} files in {paths[0].parent}, {size}; "
        f"for the others run `attentively data get {name}`"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB"
