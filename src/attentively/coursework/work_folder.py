"""Find the folder of a student's notebooks, and a notebook in it by name, number or path."""

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

OPEN = "`make lab` (in a class archive: `python3 start.py`)"
"""The command that copies the exercises to work/."""


def locate(here: Path) -> Path:
    """Return the folder of the student's notebooks, seen from any folder inside the course.

    It is the folder work/ of `here` or of the nearest folder above, else `here` or its parent.
    """
    for folder in (*(above / "work" for above in (here, *here.parents)), here, here.parent):
        if notebooks_in(folder):
            return folder
    return here / "work"


def find(work: Path, assignment: str | None) -> list[Path]:
    """Return all notebooks in `work`, or the one of `assignment`.

    `assignment` is a name such as "12_self_attention", its number, or the path of a folder or
    notebook. Raises `ValueError` if there is none; the message names similar assignments.
    """
    there = notebooks_in(work)
    bare = (assignment or "").rstrip("/\\")  # a shell completes the name of a folder so
    if bare and (bare in (".", "..") or "/" in bare or os.sep in bare or Path(bare).is_file()):
        return [_at(Path(bare), there)]
    if not there:
        raise ValueError(f"no assignment in {work}/. To copy the exercises there, run {OPEN}")
    if assignment is None:
        return there
    name = bare.removesuffix(".ipynb").casefold()
    chosen = [path for path in there if path.stem.casefold() == name]
    if not chosen and re.fullmatch("[0-9]+", name):
        chosen = [path for path in there if _number(path.stem) == int(name)]
    if len(chosen) == 1:
        return chosen
    if chosen:
        names = " and ".join(path.stem for path in chosen)
        raise ValueError(f"{assignment!r} can be {names} in {work}/. Give the whole name")
    names = ", ".join(path.stem for path in there)
    raise ValueError(
        f"no assignment {assignment!r} in {work}/.{_meant(name, there)} Assignments there: {names}"
    )


def notebooks_in(folder: Path) -> list[Path]:
    """Return the notebooks in a folder of assignments, each named like its own folder."""
    return sorted(path for path in folder.glob("*/*.ipynb") if path.stem == path.parent.name)


def _number(name: str) -> int | None:
    """Return the number with which the name of an assignment starts."""
    match = re.match("[0-9]+(?=_)", name)
    return int(match[0]) if match else None


def _at(path: Path, there: Sequence[Path]) -> Path:
    """Return the notebook at a path; an assignment's notebook has the name of its folder."""
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    own = folder / f"{folder.name}.ipynb"
    if path.is_dir() or path.resolve() == own:
        if own.is_file():
            return Path(os.path.relpath(own))
        raise ValueError(f"{path}/ is not the folder of an assignment: it has no {own.name}")
    meant = _meant(path.stem.casefold(), [own] if own.is_file() else there)
    if not path.exists():
        raise ValueError(f"{path} does not exist.{meant}")
    raise ValueError(
        f"{path} is not the notebook of an assignment, which has the name of its folder.{meant}"
    )


def _meant(name: str, there: Sequence[Path]) -> str:
    """Return a question that names the assignment with the most similar name or topic."""
    known = {path.stem.casefold(): path.stem for path in there}
    known |= {path.stem.partition("_")[2].casefold(): path.stem for path in there}
    asked = re.sub(r"[-\s]+", "_", name)
    close = difflib.get_close_matches(asked, [each for each in known if each], 1)
    return f" Did you mean {known[close[0]]}?" if close else ""
