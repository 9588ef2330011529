"""``attentively progress`` and ``submit`` for students, ``attentively grade`` for instructors."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)
Work = Annotated[
    Path | None,
    typer.Option(help="Folder that contains your notebooks; work/ or the current one by default."),
]
Course = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder that contains nbgrader_config.py.")
]


@app.command(
    epilog="Examples:\n\nattentively progress\n\nattentively progress 8\n\n"
    "attentively progress work/08_additive_attention"
)
def progress(
    assignment: Annotated[
        str | None, typer.Argument(help="Name, number or path of one assignment; all by default.")
    ] = None,
    work: Work = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also run what has not changed since the last run.")
    ] = False,
    github: Annotated[
        bool,
        typer.Option(
            "--github",
            help="Report the points to GitHub Actions; exit status 1 unless every part passes.",
        ),
    ] = False,
) -> None:
    """Run your notebooks from top to bottom and show which parts pass.

    The results are kept until the notebook, an earlier part that it uses or the package changes.
    """
    coursework = _coursework("nbformat", "nbclient")
    reports, unreadable = {}, []
    environment = coursework.environment()
    for path in coursework.find(work or _located(), assignment):
        try:
            results = coursework.results(path, again, sys.stderr.isatty(), environment)
        except ValueError as error:
            if assignment is not None:
                raise
            unreadable.append(f"{error}")
            continue
        print(coursework.report(path.stem, results), flush=True)
        reports[path.stem] = results
    if assignment is None:
        print(f"\n{coursework.course_total([*reports.values()])}")
    passed = not github or coursework.report_to_github(reports)
    if unreadable:
        raise ValueError("; ".join(unreadable))
    if not passed:
        raise typer.Exit(1)


@app.command(
    epilog="Examples:\n\nattentively submit 08_additive_attention --student ada\n\n"
    "attentively submit 8 --student ada --zip\n\nattentively submit . --student ada"
)
def submit(
    assignment: Annotated[
        str, typer.Argument(help="Name or number of the assignment, or path of its folder.")
    ],
    student: Annotated[str, typer.Option(help="The name that your instructor gave you.")],
    archive: Annotated[
        bool, typer.Option("--zip", help="Also write one zip file, to upload it.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a notebook without answers is packed.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the submission; by default submitted/ next to work/, or inside it "
            "where the folder around it is not writable."
        ),
    ] = None,
    work: Work = None,
) -> None:
    """Pack an assignment for your instructor. Earlier submissions are kept."""
    coursework = _coursework("nbformat", "IPython")
    (path,) = coursework.find(work or _located(), assignment)
    if not yes and coursework.is_blank(coursework.read(path)):
        _confirm_blank(path)
    # Not the parents of `path` itself: those of a path like "../x.ipynb" are "." and "..".
    folder = path.resolve().parents[1]
    if to is None:  # a home folder may hold the assignments themselves
        outside = folder.parent if os.access(folder.parent, os.W_OK) else folder
        to = Path(os.path.relpath(outside / "submitted"))
    receipt = coursework.submit(folder, path.stem, student, to, archive=archive)
    print(f"Packed {receipt.folder}/ at {receipt.timestamp}")
    print(f"  files: {', '.join(receipt.files)}")
    if receipt.unwritten:
        are = "is" if receipt.unwritten == 1 else "are"
        print(f"  {receipt.unwritten} of {receipt.parts} parts {are} not implemented yet")
    if receipt.earlier:
        print(f"  your earlier submission is kept in {receipt.earlier}/")
    what = f"Upload this file: {receipt.archive}" if archive else "Hand in this folder."
    print(f"{what}\nTo see which parts pass, run `attentively progress {path.stem}`.")


def _confirm_blank(path: Path) -> None:
    """Ask whether to pack a notebook without answers; without a terminal, refuse."""
    found = f"{path} contains no answer: every part is as it was handed out"
    if not sys.stdin.isatty():
        raise ValueError(f"{found}. Did you save it? To pack it all the same, add --yes")
    typer.confirm(f"{found}. Pack it all the same?", abort=True)


@app.command(
    epilog="Examples:\n\nattentively collect downloads.zip --assignment 08_additive_attention\n\n"
    "attentively collect downloads.zip --dry-run"
)
def collect(
    archives: Annotated[
        list[Path],
        typer.Argument(metavar="ARCHIVE...", help="Zip archives or folders with submissions."),
    ],
    assignment: Annotated[
        str | None,
        typer.Option(help="The assignment of all notebooks; each is recognised by default."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be collected.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also replace submissions that are not older.")
    ] = False,
    course: Course = None,
) -> None:
    """Collect submissions from a download of Moodle or Canvas (for instructors).

    Also takes folders of nbgrader's exchange, plain folders and what `attentively submit` packs.
    Submissions go to submitted/; students.csv lists the name and the id of each student.
    """
    try:
        from attentively_grader.collect import collect
    except ModuleNotFoundError as error:
        raise ValueError(_missing(error, "grading")) from None
    from attentively_grader.course.course import CourseError

    try:
        status = collect(course or Path(), archives, assignment, dry_run=dry_run, force=force)
    except CourseError as error:
        raise ValueError(str(error)) from None
    raise typer.Exit(status)


@app.command(
    epilog="Examples:\n\nattentively grade\n\n"
    "attentively grade 08_additive_attention --student ada --force"
)
def grade(
    assignment: Annotated[
        str | None, typer.Argument(help="One assignment; all by default.")
    ] = None,
    student: Annotated[
        list[str] | None, typer.Option(help="Grade only this student; repeatable.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Notebooks that run in parallel; one per CPU core by default."),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run the notebooks on the Dask cluster at this address."
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run share I of N of the class; record nothing."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Accepted for convenience; every run resumes.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Run again what has not changed.")] = False,
    even_so: Annotated[
        bool,
        typer.Option(
            "--even-so",
            help="Grade an assignment although its solution does not earn every automatic point.",
        ),
    ] = False,
    timeout: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="S",
            help="Time limit of one notebook in seconds [600]. The limit of one cell is "
            "c.Execute.timeout or, if that is not set, a fifth of S. Below 600 seconds, it is at "
            "most a fifth of S.",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MIB", help="Memory limit of one notebook in MiB, at least 256 [4096]."
        ),
    ] = None,
    unsafe_no_sandbox: Annotated[
        bool,
        typer.Option("--unsafe-no-sandbox", help="Run students' code with your own rights."),
    ] = False,
    canvas: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write all grades in the format of Canvas."),
    ] = None,
    moodle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write all grades in the format of Moodle."),
    ] = None,
    feedback_zip: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also pack all feedback pages, under the names that Moodle or Canvas gave the "
            "students, to upload them there.",
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Grade with nbgrader's autograde too, print every difference in points, and "
            "record nothing. nbgrader runs students' code WITHOUT isolation, with your rights; "
            "this option confirms that you want that.",
        ),
    ] = False,
    compare_report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --compare: also write the comparison as JSON."),
    ] = None,
    course: Course = None,
) -> None:
    """Grade all submissions in submitted/ (for instructors)."""
    try:
        import attentively_grader.course.course  # noqa: F401  it needs nbgrader
        from attentively_grader.__main__ import main
    except ModuleNotFoundError as error:
        raise ValueError(_missing(error, "grading")) from None

    values = {
        "--workers": workers,
        "--scheduler": scheduler,
        "--shard": shard,
        "--timeout": timeout,
        "--memory": memory,
        "--canvas": canvas,
        "--moodle": moodle,
        "--feedback-zip": feedback_zip,
        "--compare-report": compare_report,
        "--course": course,
    }
    flags = {
        "--resume": resume,
        "--force": force,
        "--even-so": even_so,
        "--unsafe-no-sandbox": unsafe_no_sandbox,
        "--compare": compare,
    }
    arguments = [assignment] if assignment else []
    for name in student or []:
        arguments += ["--student", name]
    for name, value in values.items():
        arguments += [] if value is None else [name, str(value)]
    arguments += [name for name, given in flags.items() if given]
    raise typer.Exit(main(arguments))


def _coursework(*packages: str) -> ModuleType:
    """Return the package for coursework; it needs packages that the library itself does not."""
    for name in packages:
        if importlib.util.find_spec(name) is None:
            raise ValueError(_missing(ModuleNotFoundError(name=name)))
    from attentively import coursework

    return coursework


def _located() -> Path:
    """Return the folder of notebooks, relative to the current one."""
    found: Path = _coursework().locate(Path.cwd())
    return Path(os.path.relpath(found))


def _missing(error: ModuleNotFoundError, extra: str = "student") -> str:
    if (error.name or "").startswith("attentively_grader"):
        return "this archive does not contain the grader. Grade in a clone of the project"
    return (
        f"the package {error.name} is not installed. In a class archive, run `python3 start.py`; "
        f"in the project's folder, `make setup`; elsewhere, install the wheel with its "
        f"extra {extra}"
    )
