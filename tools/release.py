"""Generate exercises/ from solutions/, and the recordings of the checks, and check both.

python tools/release.py            release every assignment
python tools/release.py NAME ...   release these assignments
python tools/release.py --check    change nothing; report what is not up to date
python tools/release.py --tidy     in solutions/, link each chapter in the first cell, and remove
                                   outputs, counts and random ids
"""

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import addresses
import lab
from nbformat import NotebookNode

from attentively_grader.course import course, notebooks
from attentively_grader.course.course import CourseError
from attentively_grader.course.release import release

ROOT = Path(__file__).resolve().parents[1]
CHAPTER = "**Chapter:** "
"""The beginning of the line that links the chapter; it is generated."""
HEADING = re.compile(
    r"^## Part (\d+) · .+ \((\d+) points, about (\d+) minutes, (easy|medium|hard)\)$", re.M
)
ORIGINAL = "original"
"""The tag of the check of an original part, whose answer is not in the book or the package."""


def link_chapter(notebook: NotebookNode, root: Path, name: str) -> None:
    """Link the chapter in the first cell, below the heading, if the assignment has a chapter.

    The link leads to the built book in JupyterLab as `make lab` and a class archive start it. For
    other programs, the line also names the file and, with `html.baseurl`, the published page.
    """
    page = root / "book" / f"{name}.md"
    if not page.is_file():
        return
    title = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.M)
    address = addresses.book(root)
    line = f"{CHAPTER}[{title[1] if title else name}](/static/book/{name}.html)"
    line += f" (file `{lab.BOOK}/book/{name}.html`"
    line += f", [online]({address}/book/{name}.html))" if address else ")"
    heading, _, rest = notebook.cells[0].source.partition("\n")
    text = "\n".join(each for each in rest.splitlines() if not each.startswith(CHAPTER))
    notebook.cells[0].source = "\n\n".join([heading, line, text.strip("\n")])


def problems(notebook: NotebookNode) -> list[str]:
    """Return the violations of the rules for source notebooks."""
    found = []
    points = original = 0
    waiting = ""  # the solution that has no check yet
    parts: list[tuple[str, int]] = []
    prose = ""
    ids: list[str] = []
    for cell in notebook.cells:
        flags = cell.metadata.get("nbgrader", {})
        name = flags.get("grade_id", cell.get("id", ""))
        if flags:
            ids.append(name)
        if cell.cell_type == "markdown":
            prose += cell.source + "\n"
        if flags.get("solution"):
            if waiting:
                found.append(f"solution {waiting!r}: there is no check between it and {name!r}")
            waiting = name
            if cell.source.count("### BEGIN SOLUTION") < 1 or cell.source.count(
                "### BEGIN SOLUTION"
            ) != cell.source.count("### END SOLUTION"):
                found.append(
                    f"solution {name!r}: ### BEGIN SOLUTION and ### END SOLUTION do not match"
                )
        elif flags.get("grade"):
            if not waiting:
                found.append(f"check {name!r}: there is no solution before it")
            waiting = ""
            points += flags.get("points", 0)
            original += flags.get("points", 0) * (ORIGINAL in cell.metadata.get("tags", []))
            parts.append((prose, flags.get("points", 0)))
            prose = ""
            found += _problems_of_check(name, cell)
        elif "### BEGIN" in cell.source:
            found.append(
                f"cell {name!r} has a ### BEGIN line, but is neither a solution nor a check"
            )
    if waiting:
        found.append(f"solution {waiting!r}: there is no check after it")
    found += [
        f"several cells have the id {name!r}" for name in sorted(set(ids)) if ids.count(name) > 1
    ]
    for number, (text, worth) in enumerate(parts, start=1):
        found += _problems_of_prose(number, text, worth)
    if points != 100:
        found.append(f"the points sum to {points}, expected 100")
    if original < 40:
        found.append(
            f"{original} points are for original parts, whose answer is not given in the book or "
            f"the package (tag {ORIGINAL!r}); expected at least 40"
        )
    return found


def _problems_of_check(name: str, cell: NotebookNode) -> list[str]:
    found = []
    before, begin, rest = cell.source.partition("### BEGIN HIDDEN TESTS")
    if not before.strip():
        found.append(f"check {name!r}: there is no visible test")
    if not begin or "### END HIDDEN TESTS" not in rest:
        found.append(f"check {name!r}: there are no hidden tests")
    if "raises-exception" not in cell.metadata.get("tags", []):
        found.append(
            f"check {name!r}: the tag raises-exception is missing, so Run All would stop there"
        )
    if not cell.metadata.nbgrader.get("locked"):
        found.append(f"check {name!r}: it is not locked")
    return found


def _problems_of_prose(number: int, text: str, worth: int) -> list[str]:
    headings = HEADING.findall(text)
    if len(headings) != 1:
        return [
            f"part {number}: found {len(headings)} headings, expected one such as "
            f"“## Part {number} · Name ({worth} points, about 10 minutes, easy)”"
        ]
    found = []
    if headings[0][:2] != (str(number), str(worth)):
        found.append(
            f"part {number}: the heading says part {headings[0][0]} and {headings[0][1]} points, "
            f"expected part {number} and {worth} points"
        )
    hints = text.count("<details><summary>Hint")  # an answer to a question is not a hint
    if hints != 3:
        found.append(f"part {number}: found {hints} hints, expected 3")
    return found


def write(files: dict[str, bytes], target: Path) -> None:
    """Replace the content of `target` by these files."""
    fresh = target.with_name(f".{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for name, content in files.items():
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        (fresh / name).write_bytes(content)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)


def differs(files: dict[str, bytes], target: Path) -> bool:
    """Return whether the content of `target` differs from these files."""
    there = {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file() and ".ipynb_checkpoints" not in path.parts
    }
    return there != files


def _recordings(root: Path, name: str, *, check: bool) -> list[str]:
    """Store the recordings of an assignment's questions if they have changed; return problems."""
    from attentively.checks import recordings
    from attentively.checks.question import unseen

    folder = root / "src" / "attentively" / "checks" / name.partition("_")[2]
    module = recordings.load_questions(root / "solutions" / name / recordings.QUESTIONS)
    made = recordings.record(module)
    found = [
        f"{each.name}: no open case shows the mistake {said!r}"
        for each in made.values()
        for said in unseen(each)
    ]
    try:
        if recordings.same(made, recordings.stored(folder)):
            return found
    except (OSError, ValueError, KeyError, TypeError):
        pass  # missing, or written in another format
    if check:
        return [*found, f"the recordings of {name} are not up to date. Run `make release`"]
    if not found:
        for file, content in recordings.files(made).items():
            (folder / file).write_bytes(content)
        print(f"{name}: recordings written to {folder.relative_to(root)}/")
    return found


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Release, check or tidy; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="one or more assignments; all by default"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="change nothing; report problems")
    mode.add_argument("--tidy", action="store_true", help="tidy the sources; release nothing")
    options = parser.parse_args(arguments)
    config = course.load_config(root)
    names = options.names or course.assignments(root, config)
    if not names:
        raise CourseError(f"no assignment in {config.CourseDirectory.source_directory}/")
    bad = 0
    for name in names:
        course.check_assignment(root, config, name)
        bad += not _one(root, config, name, options)
    return 1 if bad else 0


def _one(root: Path, config: object, name: str, options: argparse.Namespace) -> bool:
    """Release, check or tidy one assignment; return whether there was no problem."""
    folder = root / str(config.CourseDirectory.source_directory) / name  # type: ignore[attr-defined]
    found = []
    for path in sorted(folder.glob("*.ipynb")):
        notebook = notebooks.read(path)
        link_chapter(notebook, root, name)
        text = notebooks.tidy(notebook)
        if text != path.read_text(encoding="utf-8"):
            if options.check:
                found.append(f"{path.name} is not tidy. Run `python tools/release.py --tidy`")
            elif options.tidy:
                path.write_text(text, encoding="utf-8")
                print(f"{name}: {path.name} tidied")
        found += problems(notebook)
    if options.tidy:
        return True
    target = root / str(config.CourseDirectory.release_directory) / name  # type: ignore[attr-defined]
    if (folder / "questions.py").exists():
        found += _recordings(root, name, check=options.check)
    if not found:
        files = release(root, name)
        if not differs(files, target):
            print(f"{name}: up to date")
        elif options.check:
            found.append(f"{target.relative_to(root)} is not up to date. Run `make release`")
        else:
            write(files, target)
            print(f"{name}: released to {target.relative_to(root)}/ ({', '.join(files)})")
    for problem in found:
        print(f"{name}: {problem}", file=sys.stderr)
    return not found


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CourseError, ValueError) as error:
        sys.exit(f"error: {error}")
