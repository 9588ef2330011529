"""Create the worker pool of this machine: the number of workers and the preloaded modules."""

import ast
import os
import re
import site
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attentively_grader.course.course import Course, CourseError
from attentively_grader.course.preparation import Prepared
from attentively_grader.intake.tasks import JobRunner, PoolFactory

if TYPE_CHECKING:
    from attentively_grader.workforce.worker_pool import WorkerPool

OPTIMIZERS = re.compile(r"\boptim\b")
"""The name of PyTorch's module of optimizers in a notebook."""
WARM_OPTIMIZER = "attentively_grader.workforce.warm_up_optimizer"


def pool_factory(workers: int | None, sandboxed: bool) -> PoolFactory:
    """Return the factory of the local pool; it raises `CourseError` without a sandbox."""

    @contextmanager
    def create(course: Course, prepared: Sequence[Prepared]) -> Iterator[JobRunner]:
        with create_pool(
            workers or cores(), sandboxed, importable(course), preload(prepared)
        ) as pool:
            yield pool

    return create


def create_pool(
    workers: int, sandboxed: bool, folders: Sequence[Path], modules: Sequence[str]
) -> "WorkerPool":
    """Return a worker pool, not yet started; raise `CourseError` if there is no sandbox."""
    # Imported here, because systems other than Linux lack what a worker pool needs.
    from attentively_grader.sandbox.bubblewrap import NO_SANDBOX, NoSandboxError
    from attentively_grader.workforce.worker_pool import WorkerPool

    try:
        return WorkerPool(
            workers,
            sandbox=None if sandboxed else replace(NO_SANDBOX, folders=tuple(folders)),
            importable=folders,
            preload=modules,
        )
    except NoSandboxError as error:
        raise CourseError(str(error)) from None


def preload(prepared: Sequence[Prepared]) -> list[str]:
    """Return the modules to import beforehand: those of the assignments, and what warms up."""
    return sorted({name for each in prepared for name in (*imported(each), *_warming(each))})


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def importable(course: Course) -> list[Path]:
    """Return the folders that notebooks import from, besides those of Python itself.

    They are the folders in ``c.Grading.importable`` and ``c.Grading.depends_on``, and those of
    packages in editable installs.
    """
    folders = [*course.named("importable").values(), *course.named("depends_on").values()]
    for packages in map(Path, site.getsitepackages()):
        for listing in sorted(packages.glob("*.pth")):
            lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
            folders += [Path(line) for line in lines if line.startswith("/")]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _warming(prepared: Prepared) -> list[str]:
    """Return the module that warms up an optimizer if the tests or the solution may create one."""
    found = any(
        OPTIMIZERS.search(cell["source"])
        for notebook in (*prepared.notebooks.values(), *prepared.solutions.values())
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    )
    return [WARM_OPTIMIZER] * found


def imported(prepared: Prepared) -> set[str]:
    """Return what the instructor's cells import, for preloading.

    ``from a import b`` is ``a:b``, because ``b`` may be a module.
    """
    found: set[str] = set()
    for notebook in prepared.notebooks.values():
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            try:
                body = ast.parse(cell["source"]).body
            except (SyntaxError, ValueError):  # magics and invalid Python
                continue
            for node in body:
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found |= {f"{node.module}:{alias.name}" for alias in node.names}
    return found
