"""Build the book into _build/html without stale outputs.

Jupyter Book executes a chapter again when its own cells change. It does not notice a change in the
package that those cells import, and Sphinx does not read an unchanged page again. Therefore
fingerprints (hashes) are stored in _build:

- If the inputs of a page's outputs have changed, this page is executed again.
- If only what a page shows has changed, it is read again with its stored outputs.
- If a file that affects the look of all pages has changed, all pages are read again.
- After any change, all HTML files are written again. Without one, a book that is built stays.

The inputs of a page are determined from its text, without running it. If that is not possible, all
files in src count as inputs.
"""

import argparse
import ast
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from jupyter_cache import get_cache  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
STAMP = ".fingerprints.json"
BUILT = ".built"
"""Marks that the last build succeeded."""
LARGE = 100_000
"""Bytes from which a file is read again only if its size or its time has changed."""
EVERY_PAGE = ["constraints.txt", "tools/build_book.py", "tools/execute_pages.py"]
LOOK = [*EVERY_PAGE, "_config.yml", "_toc.yml", "book/_ext", "book/_static", "book/references.bib"]
CELL = re.compile(r"^(`{3,}|:{3,})\{code-cell\}.*?\n(.*?)^\1", re.M | re.S)
OPTIONS = re.compile(r"\A(---\n.*?^---$|(:[^\n]*\n)+)", re.M | re.S)
DOCSTRINGS = re.compile(r"^\.\. auto\w+:: *(\w+)", re.M)
"""The package or module whose docstrings a page shows."""
EXERCISES = re.compile(r"^`{3,}\{exercise-", re.M)
INCLUDED = re.compile(r"\{literalinclude\}[ \t]*(\S+)")
COMPUTED = re.compile(r"import_module|__import__")
"""If code matches, its imports cannot be determined from the text."""
BY_NAME = re.compile(r"\bEXPERIMENTS\b|\bexperiments\.find\b|experiments import .*\bfind\b")
"""In a page, experiments that are imported by a name; other pages import their module."""
PROGRAMS = re.compile(r"subprocess|os\.system|get_ipython")
"""Likewise, but only in a page; a module that starts a program starts itself."""
SHORT_NAMES, EXPORTS = "SHORT_NAMES", "EXPORTS"
"""The package's table of short module names, which this tool resolves too."""
LOOKED_AT = re.compile(r"raises-exception|\btraceback\b|\binspect\b|getsource|__doc__|\bhelp\(")
"""If code matches, comments, docstrings and line numbers can affect the outputs."""


# Files are looked up once for all fingerprints that are computed together.
P = ParamSpec("P")
R = TypeVar("R")
_looked_up: list[Callable[[], None]] = []


def look_again() -> None:
    """Forget what has been looked up on disk: files may have changed since."""
    for forget in _looked_up:
        forget()


def looked_up(function: Callable[P, R]) -> Callable[P, R]:
    """Cache what a function finds on disk until `look_again`."""
    cached = functools.cache(function)
    _looked_up.append(cached.cache_clear)
    return cast(Callable[P, R], cached)


@looked_up
def files_of(folder: Path) -> list[Path]:
    """Return the files in a folder, or the file itself, without caches."""
    if folder.is_file():
        return [folder]
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def fingerprint(root: Path, files: Iterable[Path], *facts: str) -> str:
    """Return one hash of the names and contents of the files, and of further facts."""
    digest = hashlib.sha256()
    for fact in [sys.version, _torch(), *facts]:
        digest.update(f"{fact}\0".encode())
    digest.update(b"".join(sorted(_hash_of_file(root, file) for file in {*files})))
    return digest.hexdigest()


@looked_up
def text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@functools.cache
def _torch() -> str:
    return version("torch")


@looked_up
def _hash_of_file(root: Path, file: Path) -> bytes:
    """Return a hash of the name and content of a file."""
    found = file.stat()
    if found.st_size < LARGE:
        content = hashlib.sha256(file.read_bytes()).digest()
    else:
        content = _hash_of_large(file, found.st_size, found.st_mtime_ns)
    return hashlib.sha256(f"{os.path.relpath(file, root)}\0".encode() + content).digest()


@functools.cache
def _hash_of_large(file: Path, size: int, time: int) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


# Inputs of a page


def cells(text: str) -> str:
    """Return the code of a page's cells without their options."""
    return "\n".join(OPTIONS.sub("", match[2]) for match in CELL.finditer(text))


@functools.cache
def imported(code: str) -> list[str]:
    """Return each module, or name in a module, that the code imports, also inside functions.

    Imports for type checkers do not count: they are not executed.
    """
    found: list[str] = []
    waiting: list[ast.AST] = [ast.parse(code)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
        elif not isinstance(node, ast.expr):
            waiting += ast.iter_child_nodes(node)
    return found


@looked_up
def short_names(src: Path) -> dict[str, str]:
    """Return the package's table of short names: short name to module."""
    file = src / "attentively" / "__init__.py"
    return _table(text_of(file), SHORT_NAMES) if file.is_file() else {}


@looked_up
def package_names(src: Path) -> dict[str, str]:
    """Map each name that the package itself exports to its module."""
    file = src / "attentively" / "__init__.py"
    table = _table(text_of(file), EXPORTS) if file.is_file() else {}
    return {name: module for module, names in table.items() for name in names}


@looked_up
def exported_names(file: Path) -> dict[str, str]:
    """Map each name that a folder's ``__init__`` exports lazily to its module."""
    for node in ast.walk(ast.parse(text_of(file))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "exporter":
            table = ast.literal_eval(node.args[1])
            return {name: module for module, names in table.items() for name in names}
    return {}


def _table(text: str, name: str) -> dict[str, Any]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            found: dict[str, Any] = ast.literal_eval(node.value)
            return found
    return {}


@looked_up
def full_name(src: Path, name: str) -> str:
    """Return the full name of an import, with short names of modules and folders resolved."""
    parts = name.split(".")
    if parts[0] != "attentively" or len(parts) < 2:
        return name
    if parts[1] in short_names(src):
        parts[1:2] = short_names(src)[parts[1]].split(".")
    elif parts[1] in package_names(src):
        parts[1:1] = package_names(src)[parts[1]].split(".")
    file = src.joinpath(*parts[:2], "__init__.py")
    if len(parts) == 3 and file.is_file() and parts[2] in exported_names(file):
        parts.insert(2, exported_names(file)[parts[2]])
    return ".".join(parts)


@looked_up
def modules(src: Path, code: str) -> dict[Path, str]:
    """Return the files in `src` that the code imports, directly or not, with their text.

    Raises `SyntaxError` for code that is not plain Python, and `LookupError` if imports are
    computed or relative, or the code itself starts programs, because the imports are then unknown.
    A module that starts a program starts itself, which is already included.
    """
    if PROGRAMS.search(code) or BY_NAME.search(code) or _is_computed(code):
        raise LookupError("the imports are known only at run time")
    found: dict[Path, str] = {}
    # The package's own finder of short names is known: `full_name` does what it does. The grader
    # imports by name only what a notebook imports.
    package, grader = src / "attentively", src / "attentively_grader"
    known = (package / "__init__.py", package / "experiments" / "__init__.py")
    waiting = [code]
    while waiting:
        for file in _imported_files(src, waiting.pop()):
            if file not in found:
                found[file] = text_of(file)
                waiting.append(found[file])
                if _is_computed(found[file]) and file not in known and grader not in file.parents:
                    raise LookupError(f"the imports of {file} are known only at run time")
    return found


@looked_up
def _imported_files(src: Path, code: str) -> list[Path]:
    """Return the files in `src` that the code itself imports, with the packages around them."""
    names = imported(code)
    if "attentively" in names:
        names = [*names, *(f"attentively.{each}" for each in _used_of_package(src, code))]
    found: dict[Path, None] = {}
    for name in names:
        if name.startswith("."):
            raise LookupError(f"{name} is a relative import")
        parts = full_name(src, name).split(".")
        if parts[0] not in _top_names(src):
            continue
        for length in range(1, len(parts) + 1):  # the __init__ of a package runs too
            place = src.joinpath(*parts[:length])
            found |= {
                file: None
                for file in (place / "__init__.py", place.with_suffix(".py"))
                if file.is_file()
            }
    return [*found]


@looked_up
def _top_names(src: Path) -> set[str]:
    return {path.stem for path in src.iterdir()}


def _used_of_package(src: Path, code: str) -> set[str]:
    """Return the names that code reads from the package; all that it exports if it may read any."""
    nodes = [*ast.walk(ast.parse(code))]
    read = {
        node.value: node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "attentively"
    }
    names = {node for node in nodes if isinstance(node, ast.Name) and node.id == "attentively"}
    renamed = [
        node
        for node in nodes
        if isinstance(node, ast.alias) and node.name == "attentively" and node.asname
    ]
    may_read_any = renamed or names - {*read}
    return {*read.values(), *(package_names(src) if may_read_any else ())}


@functools.cache
def _is_computed(code: str) -> bool:
    return COMPUTED.search(code) is not None


@functools.cache
def _is_looked_at(text: str) -> bool:
    return LOOKED_AT.search(text) is not None


@functools.cache
def meaning(text: str) -> str:
    """Return Python code without comments, docstrings and layout, as a dump of its syntax tree."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, field, None), list):
                kept = [each for each in statements if not _says_only(each)]
                setattr(node, field, kept)
    return ast.dump(tree)


def _says_only(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def data_files(src: Path, texts: Iterable[str]) -> Iterator[Path]:
    """Yield the data files in `src` that code may read: its text names the file or its folder.

    Only named checkpoints count if every call of `load_pretrained` has a literal name.
    """
    texts = [*texts]
    names_known = all(_loads_by_name(text) for text in texts)
    files, names = _data(src)
    mentioned = {name for text in texts for name in _mentioned(names, text)}
    for file, stem in files.items():
        folder_counts = file.parent.name != "pretrained" or not names_known
        if stem in mentioned or (folder_counts and file.parent.name in mentioned):
            yield file


@looked_up
def _data(src: Path) -> tuple[dict[Path, str], frozenset[str]]:
    """Return the data files with their stems, and the names of the files and their folders."""
    files = {file: file.name.split(".")[0] for file in files_of(src) if file.suffix != ".py"}
    return files, frozenset({*files.values(), *(file.parent.name for file in files)})


@functools.cache
def _mentioned(names: frozenset[str], text: str) -> list[str]:
    return [name for name in names if name in text]


@functools.cache
def _loads_by_name(code: str) -> bool:
    if "load_pretrained" not in code:
        return True
    tree = ast.parse(code)
    by_name = {
        node.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
    }
    return all(
        node in by_name
        for node in ast.walk(tree)
        if getattr(node, "attr", getattr(node, "id", "")) == "load_pretrained"
    )


def results_files(book: Path, text: str, codes: Iterable[str]) -> list[Path]:
    """Return the results that a page or its modules name; all if a name is computed."""
    files = files_of(book / "results")
    named: set[str] = set()
    for code in codes:
        for name in _published_names(code):
            if name is None:
                return files
            named.add(name)
    stems = {file: file.name.split(".")[0] for file in files}
    return [file for file in files if stems[file] in named or stems[file] in text]


@functools.cache
def _published_names(code: str) -> set[str | None]:
    """Return the names that the code gives to ``published.load``; None for one that is computed."""
    if "published" not in code:
        return set()
    nodes = [*ast.walk(ast.parse(code))]
    given = {node.func: node.args for node in nodes if isinstance(node, ast.Call)}
    first = [
        next(iter(given.get(node, [])), None)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr == "load"
        and getattr(node.value, "id", "") == "published"
    ]
    return {str(arg.value) if isinstance(arg, ast.Constant) else None for arg in first}


def included(page: Path) -> list[Path]:
    """Return the files of which a page includes parts."""
    names = INCLUDED.findall(page.read_text(encoding="utf-8"))
    files = [(page.parent / name).resolve() for name in names]
    return [file for file in files if file.is_file()]


def outputs_of(root: Path, page: Path) -> str:
    """Return a hash of all inputs of a page's outputs; an empty text if it has no cells."""
    src, book = root / "src", root / "book"
    text = page.read_text(encoding="utf-8")
    if not (code := cells(text)):
        return ""
    facts = [code]
    files = [root / path for path in EVERY_PAGE]
    files += [  # all other files next to the pages
        file
        for file in files_of(book)
        if file.suffix not in (".md", ".bib")
        and file.relative_to(book).parts[0] not in ("results", "_ext", "_static")
    ]
    try:
        needed = modules(src, code)
        files += data_files(src, [code, *needed.values()])
        files += results_files(book, text, [code, *needed.values()])
        shown = {file: text_of(file) for file in included(page) if file.suffix == ".py"}
        needed = needed | shown
        if any(map(_is_looked_at, [text, *needed.values()])):
            files += needed
        else:
            for file in sorted(needed):
                facts += [os.path.relpath(file, root), meaning(needed[file])]
    except (SyntaxError, LookupError):
        files += files_of(src) + files_of(book / "results")
    return fingerprint(root, files, *facts)


def shown_by(root: Path, page: Path) -> str:
    """Return a hash of what a page shows besides its outputs."""
    files = [page, *included(page)]
    text = page.read_text(encoding="utf-8")
    if EXERCISES.search(text):
        files += [file for file in files_of(root / "solutions") if file.suffix == ".ipynb"]
        files += [f for f in files_of(root / "src/attentively/checks") if f.suffix == ".py"]
    # A chapter says how long its assignment takes.
    files += files_of(root / "solutions" / page.stem / f"{page.stem}.ipynb")
    for name in sorted(set(DOCSTRINGS.findall(text))):
        files += sorted((root / "src").glob(f"{name}/**/*.py"))
        files += (root / "src").glob(f"{name}.py")
    return fingerprint(root, files)


# Stale pages


def fingerprints(root: Path) -> dict[str, list[str]]:
    """Return the fingerprints of each page (inputs, content), and under "" that of the look."""
    look_again()
    look = fingerprint(root, [file for path in LOOK for file in files_of(root / path)])
    pages = [file for file in files_of(root / "book") if file.suffix == ".md"]
    return {"": [look]} | {
        page.relative_to(root).as_posix(): [outputs_of(root, page), shown_by(root, page)]
        for page in pages
    }


def drop_stale(root: Path, build: Path) -> str:
    """Remove from `build` what no longer matches the sources; return a note, or an empty text.

    The remaining files are consistent, so an interrupted build needs no repair.
    """
    stamp = build / STAMP
    new = fingerprints(root)
    old = json.loads(stamp.read_text()) if stamp.exists() else {}
    if old == new:
        return ""
    stamp.unlink(missing_ok=True)
    pages = [name for name in new if name]
    executed = [name for name in pages if new[name][0] != old.get(name, [""])[0]]
    forget_executions(
        build / ".jupyter_cache",
        {(root / name).resolve() for name in pages if old and name not in executed},
    )
    shutil.rmtree(build / "html", ignore_errors=True)
    if new[""] != old.get(""):
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
        shutil.rmtree(build / "jupyter_execute", ignore_errors=True)
    for name in pages:
        if new[name] != old.get(name):
            (build / ".doctrees" / name).with_suffix(".doctree").unlink(missing_ok=True)
    build.mkdir(exist_ok=True)
    stamp.write_text(json.dumps(new, indent=1) + "\n")
    return (
        f"pages to execute again because their inputs have changed: {', '.join(executed) or 'none'}"
    )


def forget_executions(folder: Path, kept: set[Path]) -> None:
    """Remove all executions from Jupyter Book's cache except those of the `kept` pages."""
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    elif folder.exists():
        cache = get_cache(folder)
        for record in cache.list_cache_records():
            if Path(record.uri).resolve() not in kept:
                cache.remove_cache(record.pk)


def own_kernel_settings(build: Path) -> Path:
    """Write the kernel settings of the book, independent of the user's own; return their folder.

    Figures are SVG, which is sharp at any size. Log messages of the kernel are suppressed.
    """
    profile = build / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(
        'c = get_config()\nc.IPKernelApp.log_level = 40\nc.InlineBackend.figure_formats = {"svg"}\n'
    )
    return profile.parent


def build_book(root: Path) -> int:
    """Execute stale pages, run Jupyter Book with warnings as errors; return the exit status."""
    started = time.monotonic()
    build = root / "_build"
    index, built = build / "html" / "index.html", build / BUILT
    if reason := drop_stale(root, build):
        print(f"Note: {reason}.", flush=True)
    elif built.exists() and index.exists():
        return _book_is_there(root, index, "Nothing has changed since the last build.")
    built.unlink(missing_ok=True)
    environment = os.environ | {
        "IPYTHONDIR": str(own_kernel_settings(build)),
        "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not the user's own
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    execute = Path(__file__).with_name("execute_pages.py")
    command = [sys.executable, str(execute), str(root), str(build / ".jupyter_cache")]
    executed = subprocess.run(command, env=environment).returncode == 0
    status = 1
    if executed:
        jupyter_book = Path(sys.executable).parent / "jupyter-book"
        command = [str(jupyter_book), "build", ".", "-W", "--keep-going"]
        status = subprocess.run(command, cwd=root, env=environment).returncode
    stamp = build / STAMP
    if json.loads(stamp.read_text()) != fingerprints(root):
        stamp.unlink()  # a file was edited during the build; some pages may not include it
    seconds = time.monotonic() - started
    if not executed:
        print(f"\nThe book was not built. See the failing cells above ({seconds:.0f} s).")
        return 1
    if status:
        # Sphinx would not read an unchanged page again, so its warning would not appear again.
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
        print(f"\nThe book was not built. See the warnings above ({seconds:.0f} s).")
        return 1
    built.touch()
    return _book_is_there(root, index, f"The book is built ({seconds:.0f} s).")


def _book_is_there(root: Path, index: Path, said: str) -> int:
    print(f"\n{said} Open {index.relative_to(root)}")
    print(f"or paste this into a browser: {index.as_uri()}")
    return 0


if __name__ == "__main__":
    about = "Build the book into _build/html without stale outputs."
    argparse.ArgumentParser(description=about).parse_args()
    sys.exit(build_book(ROOT))
