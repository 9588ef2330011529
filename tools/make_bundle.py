"""Pack the archive for a class: released exercises, the package and one set-up command.

    python tools/make_bundle.py                     every assignment
    python tools/make_bundle.py 07_queries_keys_and_values 08_additive_attention

The archive contains no solutions, no hidden tests and no grader. Each assignment is released again,
which fails if a line of a solution would remain. If exercises/ differs from the release, nothing is
packed: run `make release` first.
"""

import argparse
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

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
GRADER = ("__init__.py", "course/__init__.py", "course/notebooks.py")
"""The modules of the grader that read a student's own notebook."""


def contents(root: Path, assignments: Sequence[str]) -> dict[str, bytes]:
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
    found |= {path.name: path.read_bytes() for path in _files(root / "tools" / "bundle")}
    found["tools/lab.py"] = (root / "tools" / "lab.py").read_bytes()
    for path in (*_files(root / "src" / "attentively"), *_files(root / "book" / "results")):
        found[path.relative_to(root).as_posix()] = path.read_bytes()
    for name in GRADER:
        found[f"src/attentively_grader/{name}"] = (
            root / "src" / "attentively_grader" / name
        ).read_bytes()
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(p.startswith((".", "__pycache__")) for p in path.parts[-2:]):
            yield path


def pack(found: dict[str, bytes], target: Path) -> None:
    """Write the archive atomically; the same files always give the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.writing")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(found.items()):
                entry = zipfile.ZipInfo(f"{NAME}/{name}", SAME_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
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
    parser.add_argument(
        "--output", type=Path, default=root / "dist" / f"{NAME}.zip", help="the archive to write"
    )
    options = parser.parse_args(arguments)
    found = contents(root, options.names)
    pack(found, options.output)
    exercises = sorted({name.split("/")[1] for name in found if name.startswith("exercises/")})
    size = options.output.stat().st_size / 2**20
    print(f"{options.output}: {len(found)} files, {size:.1f} MiB")
    print(f"Exercises: {', '.join(exercises)}")
    print("Students unpack it and run: python3 start.py")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CourseError, ValueError, OSError) as error:
        sys.exit(f"error: {error}")
