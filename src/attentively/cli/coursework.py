"""``attentively progress``, ``submit`` and ``grade``: commands for students and instructors."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)
Work = Annotated[
    Path | None,
    typer.Option(help="Folder with your notebooks; by default work/ or the current folder."),
]


@app.command(
    epilog="Examples:\n\nattentively progress\n\nattentively progress 08_additive_attention"
)
def progress(
    assignment: Annotated[
        str | None, typer.Argument(help="Name of an assignment; by default all in the folder.")
    ] = None,
    work: Work = None,
) -> None:
    """Run your notebooks from top to bottom and show which parts pass."""
    coursework = _coursework()
    for path in coursework.find(work or _located(), assignment):
        results = coursework.run(path, show_progress=sys.stderr.isatty())
        print(coursework.report(path.stem, results))


@app.command(epilog="Example:\n\nattentively submit 08_additive_attention --student ada")
def submit(
    assignment: Annotated[
        str, typer.Argument(help="Name of the assignment, such as 08_additive_attention.")
    ],
    student: Annotated[str, typer.Option(help="Your name in your instructor's class list.")],
    to: Annotated[
        Path | None, typer.Option(help="Output folder; by default submitted/, next to work/.")
    ] = None,
    work: Work = None,
) -> None:
    """Pack an assignment into the folder that your instructor collects.

    An earlier submission is kept under another name.
    """
    work = work or _located()
    # Not work.parent: the parent of a path like ".." would be ".".
    to = to or Path(os.path.relpath(work.resolve().parent / "submitted"))
    receipt = _coursework().submit(work, assignment, student, to)
    print(f"Packed {receipt.folder}/ at {receipt.timestamp}")
    print(f"  files: {', '.join(receipt.files)}")
    if receipt.unwritten:
        are = "is" if receipt.unwritten == 1 else "are"
        print(f"  {receipt.unwritten} of {receipt.parts} parts {are} not implemented yet")
    if receipt.earlier:
        print(f"  your earlier submission is kept in {receipt.earlier}/")
    print("Hand in this folder. To see which parts pass, run `attentively progress`.")


@app.command(
    epilog="Examples:\n\nattentively grade\n\n"
    "attentively grade 08_additive_attention --student ada --force"
)
def grade(
    assignment: Annotated[
        str | None, typer.Argument(help="Name of an assignment; by default all of them.")
    ] = None,
    student: Annotated[
        list[str] | None, typer.Option(help="Grade only this student; repeatable.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of notebooks graded in parallel; by default one per core."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run the notebooks on this Dask cluster."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Run the I-th of N parts of the class, without recording grades."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Resume an interrupted run. This is the default; the option is for scripts.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Grade unchanged submissions again.")
    ] = False,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="S",
            help="Time limit of a notebook in seconds; by default 600. The limit of a cell is "
            "c.Execute.timeout if it is set, else a fifth of this; with a limit below 600 it is "
            "never more than a fifth.",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MIB", help="Memory limit of a notebook in MiB; by default 4096."
        ),
    ] = None,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option(
            "--unsafe-no-sandbox",
            help="Run the students' code without a sandbox, with your own permissions.",
        ),
    ] = False,
    canvas: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also export all grades for Canvas.")
    ] = None,
    moodle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also export all grades for Moodle.")
    ] = None,
    course: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Course folder, which contains nbgrader_config.py; by default the current one.",
        ),
    ] = None,
) -> None:
    """Grade all submissions in submitted/ (for instructors)."""
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
    # Notebooks need packages that the library alone does not need.
    try:
        import attentively.coursework.submission
    except ModuleNotFoundError as error:
        raise ValueError(_missing(error)) from None
    return attentively.coursework


def _located() -> Path:
    """Return the folder of notebooks, as a path relative to the current folder."""
    found: Path = _coursework().locate(Path.cwd())
    return Path(os.path.relpath(found))


def _missing(error: ModuleNotFoundError) -> str:
    if (error.name or "").startswith("attentively_grader"):
        return "this copy does not contain the grader: grade in a clone of the project"
    return (
        f"the package {error.name} is not installed. Run `make setup` in the project's folder, or "
        "`pip install -e '.[dev]'` there. In a class archive, run `python3 start.py`"
    )
