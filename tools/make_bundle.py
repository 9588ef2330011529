"""Pack the archive for a class: the built book, released exercises, the package and one command.

    python tools/make_bundle.py                     every assignment
    python tools/make_bundle.py 07_queries_keys_and_values 08_additive_attention
    python tools/make_bundle.py --light             for slow networks: see below

The archive contains no solutions, no hidden tests and no grader. Each assignment is released again,
which fails if a line of a solution would remain. If exercises/ differs from the release, nothing is
packed: run `make release` first.

The light archive lacks the pretrained models, which the package downloads at first use, and what
the book needs only for its live models. The package takes the address from `repository.url` in
_config.yml.
"""

import argparse
import json
import sys
import zipfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import addresses
import build_book

from attentively_grader.course import course
from attentively_grader.course.course import CourseError
from attentively_grader.course.release import release

ROOT = Path(__file__).resolve().parents[1]
NAME = "attentively-class"
SAME_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that the same content gives the same archive."""
FILES = (
    *("pyproject.toml", "hatch_build.py", "_config.yml", "constraints.txt"),
    *("LICENSE", "LICENSE-TEXT"),
)
BOOK = "_build/html"
NOT_READ = (".buildinfo", "*.map")
"""Files of the built book that no reader opens."""
BINARIES = ("_static/live/tatoeba-*.js", "pretrained/*.safetensors")
"""What the light archive leaves out, of the book and of the package."""
START_PAGE = '<!DOCTYPE html><meta http-equiv="refresh" content="0; url=_build/html/index.html">\n'
"""The file that a student opens to read the book."""
GRADER = ("__init__.py", "course/__init__.py", "course/notebooks.py")
"""The modules of the grader that read a student's own notebook."""


def contents(
    root: Path, assignments: Sequence[str], *, book: bool = True, light: bool = False
) -> dict[str, bytes]:
    """Return every file of the archive by name; raise `CourseError` for a stale exercise."""
    config = course.load_config(root)
    names = list(assignments) or course.assignments(root, config)
    found: dict[str, bytes] = {}
    for name in names:
        course.check_assignment(root, config, name)
        files = release(root, name)
        folder = root / str(config.CourseDirectory.release_directory) / name
        there = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and ".ipynb_checkpoints" not in path.parts
        }
        if there != files:
            raise CourseError(
                f"exercises/{name} differs from the release of solutions/{name}. Run `make release`"
            )
        found |= {f"exercises/{name}/{file}": content for file, content in files.items()}
    found |= {name: (root / name).read_bytes() for name in FILES}
    found |= {path.name: path.read_bytes() for path in files_in(root / "tools" / "bundle")}
    found["tools/lab.py"] = (root / "tools" / "lab.py").read_bytes()
    for path in (*files_in(root / "src" / "attentively"), *files_in(root / "book" / "results")):
        found[path.relative_to(root).as_posix()] = path.read_bytes()
    for name in GRADER:
        found[f"src/attentively_grader/{name}"] = (
            root / "src" / "attentively_grader" / name
        ).read_bytes()
    if book:
        found |= built_book(root)
    if light:
        found = {name: content for name, content in found.items() if not _is_one_of(name, BINARIES)}
    return found


def built_book(root: Path) -> dict[str, bytes]:
    """Return the files of the built book; raise `CourseError` if it is not built."""
    folder = root / BOOK
    if not (folder / "index.html").is_file():
        raise CourseError(
            f"the book is not built: there is no {BOOK}/index.html. Run `make book` first, or pack "
            "the archive without the book: --no-book"
        )
    found = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _is_one_of(path.relative_to(folder).as_posix(), NOT_READ)
    }
    return found | {"book.html": START_PAGE.encode()}


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(name, f"*/{pattern}") for pattern in patterns)


def sizes(archive: Path) -> dict[str, tuple[int, int]]:
    """Return the number of files and the compressed bytes of each part of the archive."""
    found: dict[str, tuple[int, int]] = {}
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            name = entry.filename.removeprefix(f"{NAME}/")
            starts = {
                "exercises/": "exercises",
                f"{BOOK}/": "book",
                "src/attentively/pretrained/": "pretrained models",
                "src/": "package",
                "book/results/": "results",
            }
            part = next((part for start, part in starts.items() if name.startswith(start)), "other")
            count, size = found.get(part, (0, 0))
            found[part] = (count + 1, size + entry.compress_size)
    return found


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder without hidden ones and caches."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(p.startswith((".", "__pycache__")) for p in path.parts[-2:]):
            yield path


def not_current(root: Path) -> str:
    """Return why the built book may be out of date; empty if it is not."""
    stamp = root / "_build" / build_book.STAMP
    if not stamp.is_file():
        return "its last build did not finish"
    now = build_book.fingerprints(root)
    return "" if json.loads(stamp.read_text()) == now else "files changed after it was built"


def pack(found: dict[str, bytes], target: Path, folder: str = f"{NAME}/") -> None:
    """Write the archive atomically; the same files always give the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.writing")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(found.items()):
                entry = zipfile.ZipInfo(f"{folder}{name}", SAME_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o755 if content.startswith(b"#!") else 0o644) << 16
                archive.writestr(entry, content)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Pack the archive and print its content."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="one or more assignments; all by default"
    )
    parser.add_argument("--light", action="store_true", help="leave out the pretrained models")
    parser.add_argument("--no-book", action="store_true", help="leave out the built book")
    parser.add_argument("--output", type=Path, help="the archive to write; in dist/ by default")
    options = parser.parse_args(arguments)
    output = options.output or root / "dist" / f"{NAME}{'-light' * options.light}.zip"
    found = contents(root, options.names, book=not options.no_book, light=options.light)
    pack(found, output)
    exercises = sorted({name.split("/")[1] for name in found if name.startswith("exercises/")})
    print(f"{output}: {len(found)} files, {output.stat().st_size / 1e6:.1f} MB")
    for part, (count, size) in sorted(sizes(output).items()):
        print(f"  {part:<18}{count:5} files {size / 1e6:6.1f} MB")
    if options.light and not addresses.repository(root):
        print(
            "The package in this archive has no address to download the pretrained models from: "
            "set repository.url in _config.yml"
        )
    if options.no_book:
        print("The archive does not contain the book, so the notebooks' links to it fail.")
    elif reason := not_current(root):
        print(f"The book in the archive may be out of date: {reason}. To build it: make book")
    print(f"Exercises: {', '.join(exercises)}")
    print("Students unpack it and run: python3 start.py (Windows: py start.py)")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CourseError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
