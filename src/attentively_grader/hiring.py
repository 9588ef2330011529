"""Which workforce grades a course: how many workers, what they may import, what they know."""

import ast
import os
import site
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attentively_grader.course import Course, CourseError
from attentively_grader.outcome import Job, Outcome
from attentively_grader.preparing import Prepared

if TYPE_CHECKING:
    from attentively_grader.workforce import Workforce


class Runs(Protocol):
    """Whatever runs jobs."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, in the order in which they end."""


Hire = Callable[[Course, Sequence[Prepared]], AbstractContextManager[Runs]]
"""Gives a workforce for a course; called only where there is something to run."""


def hiring(workers: int | None, sandboxed: bool) -> Hire:
    """Return what hires the real workforce. Where there is no sandbox, it refuses."""

    @contextmanager
    def hire(course: Course, prepared: Sequence[Prepared]) -> Iterator[Runs]:
        with workforce(
            workers or cores(), sandboxed, importable(course), preload(prepared)
        ) as force:
            yield force

    return hire


def workforce(
    workers: int, sandboxed: bool, folders: Sequence[Path], modules: Sequence[str]
) -> "Workforce":
    """Return a workforce, not yet begun; `CourseError` says why there can be no sandbox."""
    # Here, because other systems than Linux lack what a workforce is made of.
    from attentively_grader.sandbox import NO_SANDBOX, NoSandboxError
    from attentively_grader.workforce import Workforce

    try:
        return Workforce(
            workers,
            sandbox=None if sandboxed else replace(NO_SANDBOX, folders=tuple(folders)),
            importable=folders,
            preload=modules,
        )
    except NoSandboxError as error:
        raise CourseError(str(error)) from None


def preload(prepared: Sequence[Prepared]) -> list[str]:
    """Return the modules that assignments import, to be imported beforehand."""
    return sorted({name for each in prepared for name in imported(each)})


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def importable(course: Course) -> list[Path]:
    """Return the folders that notebooks import from besides Python's own.

    They are those that the course's configuration names, as ``Grading.importable`` or as
    ``Grading.depends_on``, and those of packages that are installed from a working copy.
    """
    folders = [*course.named("importable").values(), *course.named("depends_on").values()]
    for packages in map(Path, site.getsitepackages()):
        for listing in sorted(packages.glob("*.pth")):
            lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
            folders += [Path(line) for line in lines if line.startswith("/")]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def imported(prepared: Prepared) -> set[str]:
    """Return the modules that the instructor's cells import, to be imported beforehand."""
    found: set[str] = set()
    for notebook in prepared.notebooks.values():
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            try:
                body = ast.parse(cell["source"]).body
            except (SyntaxError, ValueError):  # magics, and what is not Python
                continue
            for node in body:
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module)
    return found
