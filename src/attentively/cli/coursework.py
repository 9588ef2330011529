"""``attentively progress``, ``submit`` and ``grade``: an assignment from both sides."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)
Work = Annotated[
    Path | None, typer.Option(help="The folder with your notebooks: work/, or where you are.")
]


@app.command(
    epilog="Examples:\n\nattentively progress\n\nattentively progress 08_additive_attention"
)
def progress(
    assignment: Annotated[str | None, typer.Argument(help="All in the folder, by default.")] = None,
    work: Work = None,
) -> None:
    """Run your notebook from top to bottom and show which parts pass."""
    coursework = _coursework()
    for path in coursework.find(work or _located(), assignment):
        results = coursework.run(path, show_progress=sys.stderr.isatty())
        print(coursework.report(path.stem, results))


@app.command(epilog="Example:\n\nattentively submit 08_additive_attention --student ada")
def submit(
    assignment: Annotated[str, typer.Argument(help="The name of its folder.")],
    student: Annotated[str, typer.Option(help="Your name, as your instructor lists it.")],
    to: Annotated[
        Path | None, typer.Option(help="The folder to pack into: submitted/, beside work/.")
    ] = None,
    work: Work = None,
) -> None:
    """Pack what your instructor collects; an earlier submission is kept."""
    work = work or _located()
    # Not work.parent: of a path like ".." that is ".".
    to = to or Path(os.path.relpath(work.resolve().parent / "submitted"))
    receipt = _coursework().submit(work, assignment, student, to)
    print(f"packed {receipt.folder}/ at {receipt.timestamp}")
    print(f"  {', '.join(receipt.files)}; {receipt.parts} graded parts")
    if receipt.unwritten:
        are = "is" if receipt.unwritten == 1 else "are"
        print(f"  {receipt.unwritten} of {receipt.parts} parts {are} not implemented yet")
    if receipt.earlier:
        print(f"  your earlier submission is kept as {receipt.earlier}/")
    print("Hand in this folder. `attentively progress` shows which parts pass.")


@app.command(
    epilog="Examples:\n\nattentively grade\n\n"
    "attentively grade 08_additive_attention --student ada --force"
)
def grade(
    assignment: Annotated[str | None, typer.Argument(help="One of them; all by default.")] = None,
    student: Annotated[list[str] | None, typer.Option(help="Only this one; repeatable.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Notebooks at once; one a core, by default.")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of a Dask cluster that is to run the notebooks."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run the I-th of N shares of the class; record nothing."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped: always so.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Run anew what has not changed.")] = False,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="S",
            help="Seconds for one notebook [600]; one cell has what c.Execute.timeout says, or a "
            "fifth of this, and below 600 never more than a fifth.",
        ),
    ] = None,
    memory: Annotated[
        int | None, typer.Option(min=1, metavar="MIB", help="Memory for one notebook [4096].")
    ] = None,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option("--unsafe-no-sandbox", help="Run the students' code with your own rights."),
    ] = False,
    canvas: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write all grades for Canvas.")
    ] = None,
    moodle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write all grades for Moodle.")
    ] = None,
    course: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where nbgrader_config.py is.")
    ] = None,
) -> None:
    """Grade submitted/ into gradebook.db (for instructors)."""
    try:
        from attentively_grader.__main__ import main
    except ModuleNotFoundError as error:
        raise ValueError(_missing(error)) from None

    values = {
        "--workers": workers,
        "--scheduler": scheduler,
        "--shard": shard,
        "--timeout": timeout,
        "--memory": memory,
        "--canvas": canvas,
        "--moodle": moodle,
        "--course": course,
    }
    flags = {"--resume": resume, "--force": force, "--unsafe-no-sandbox": unsafe_no_sandbox}
    arguments = [assignment] if assignment else []
    for name in student or []:
        arguments += ["--student", name]
    for name, value in values.items():
        arguments += [] if value is None else [name, str(value)]
    arguments += [name for name, given in flags.items() if given]
    raise typer.Exit(main(arguments))


def _coursework() -> ModuleType:
    # Notebooks need packages that the library alone does without.
    try:
        import attentively.coursework.submission
    except ModuleNotFoundError as error:
        raise ValueError(_missing(error)) from None
    return attentively.coursework


def _located() -> Path:
    """Return the folder of notebooks, named as short as it can be."""
    found: Path = _coursework().locate(Path.cwd())
    return Path(os.path.relpath(found))


def _missing(error: ModuleNotFoundError) -> str:
    if (error.name or "").startswith("attentively_grader"):
        return "this copy has no grader: grade in a clone of the project"
    return (
        f"this needs {error.name}: run `make setup` in the project's folder, or there "
        "`pip install -e '.[dev]'`; in a class's bundle: `python3 start.py`"
    )
