"""Keep the results of a notebook until something that they depend on changes.

They depend on the cells of the notebook and of the earlier assignments that it names, on the other
files in its folder, on this package, and on the installed packages. Saved outputs do not matter. A
notebook has one file of results, work/.progress/NAME.json.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import attentively
from attentively.atomic_files import replacing
from attentively.coursework.part_result import PartResult
from attentively.coursework.work_folder import notebooks_in

FOLDER = ".progress"


def cells(path: Path) -> str | None:
    """Return a hash of the cells of a notebook and of the earlier assignments that it names.

    Returns None if the notebook cannot be read.
    """
    digest = hashlib.sha256()
    there = notebooks_in(path.parent.parent)
    waiting, seen = [path], {path}
    while waiting:
        current = waiting.pop()
        sources = _sources(current)
        if sources is None and current == path:
            return None
        digest.update(f"{current.stem}\0{json.dumps(sources)}\0".encode())
        code = "\n".join(text for kind, text, _ in sources or [] if kind == "code")
        named = {each for each in there if re.search(f"([\"']){re.escape(each.stem)}\\1", code)}
        waiting += sorted(named - seen)
        seen |= named
    return digest.hexdigest()


def _sources(path: Path) -> list[tuple[str, str, Any]] | None:
    """Return what an execution depends on: kind, text and nbgrader metadata of each cell."""
    try:
        return [
            (cell["cell_type"], "".join(cell["source"]), cell["metadata"].get("nbgrader"))
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def environment() -> str:
    """Return a hash of this package, the installed packages and the settings."""
    everything = [
        *_files(Path(attentively.__file__).parent),
        *sorted(_installed()),
        platform.python_version(),
        *sorted(pair for pair in os.environ.items() if pair[0].startswith("ATTENTIVELY_")),
    ]
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()


def _files(folder: Path, without: Path | None = None) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of the last change of each file; hidden ones are skipped."""
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith((".", "__pycache__")))
        for path in sorted(Path(current, name) for name in names if not name.startswith(".")):
            if path != without and path.is_file():
                status = path.stat()
                yield path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns


def _installed() -> Iterator[str]:
    for folder in {each for each in sys.path if os.path.isdir(each)}:
        yield from (name for name in os.listdir(folder) if name.endswith(".dist-info"))


def find(path: Path, environment: str) -> list[PartResult] | None:
    """Return the results that are kept for the notebook in its present state."""
    try:
        kept = json.loads(_file(path).read_text(encoding="utf-8"))
        if kept["state"] == _state(path, cells(path), environment):
            return [PartResult(**result) for result in kept["results"]]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def keep(path: Path, before: str | None, environment: str, results: list[PartResult]) -> None:
    """Keep the results of a run; `before` was the notebook's hash (`cells`) at its start.

    Results of a run that was cut short, or that lacked a download, are not kept. A notebook that
    was changed during the run has another hash, so it runs again. Files that the run itself wrote
    do not make it run again.
    """
    if before is None or any(result.stopped for result in results):
        return
    content = {
        "state": _state(path, before, environment),
        "results": [asdict(result) for result in results],
    }
    try:
        with replacing(_file(path)) as temporary:
            temporary.write_text(json.dumps(content), encoding="utf-8")
    except OSError:  # a folder that is not writable only costs time
        return


def _state(path: Path, code: str | None, environment: str) -> list[object]:
    return [code, environment, *map(list, _files(path.parent, without=path))]


def _file(path: Path) -> Path:
    return path.parent.parent / FOLDER / f"{path.stem}.json"
