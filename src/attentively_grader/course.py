"""A course: a folder with an nbgrader_config.py, and the folders that it names."""

import logging
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgrader.converters.base import BaseConverter
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

CONFIG = "nbgrader_config.py"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""What an assignment or a student may be called; the name becomes a folder and a pattern."""


class CourseError(Exception):
    """Something in the course's folders is not as it should be; the message says what."""


def load_config(root: Path) -> Config:
    """Read the course's nbgrader_config.py, as nbgrader itself does."""
    if not (root / CONFIG).is_file():
        raise CourseError(f"{root} is not a course: it has no {CONFIG}")
    return PyFileConfigLoader(CONFIG, path=str(root)).load_config()


def course_directory(root: Path, config: Config) -> CourseDirectory:
    """Return nbgrader's view of the course."""
    return CourseDirectory(config=config, root=str(root.resolve()))


def assignments(root: Path, config: Config) -> list[str]:
    """Return the names of the assignments that have a source notebook."""
    source = root / str(config.CourseDirectory.source_directory)
    return sorted({path.parent.name for path in source.glob("*/*.ipynb")})


def check_assignment(root: Path, config: Config, name: str) -> None:
    """Refuse the name of an assignment that is not there, and list those that are."""
    known = assignments(root, config)
    if name not in known:
        there_are = ", ".join(known) or "none at all"
        folder = config.CourseDirectory.source_directory
        raise CourseError(f"there is no assignment {name!r} in {folder}/; there are: {there_are}")


def check_name(name: str, what: str) -> None:
    """Refuse a name that would be a path or a pattern."""
    if not NAME.fullmatch(name):
        raise CourseError(
            f"{what} {name!r}: use letters without accents, digits, _ . and -, and start with a "
            "letter, a digit or _"
        )


@contextmanager
def converting(converter: BaseConverter) -> Iterator[list[str]]:
    """Run a converter inside: what it logs is kept from the terminal and given as a list."""
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Keep(logging.WARNING)
    log = converter.log
    before = log.handlers[:], log.propagate
    log.handlers[:], log.propagate = [handler], False
    # nbgrader starts `alembic` by its name, and .venv/bin need not be on the path.
    path = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), path])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of SQLAlchemy, about how nbgrader uses it
            yield messages
    finally:
        os.environ["PATH"] = path
        log.handlers[:], log.propagate = before


def reason(messages: list[str], error: Exception) -> str:
    """Return the line of nbgrader's log that says why a conversion failed."""
    for message in messages:
        if message.startswith("Traceback"):
            return message.strip().splitlines()[-1]
    return messages[0].strip().splitlines()[0] if messages else str(error)
