"""Read docstrings from source files for ``--help``, without importing the files."""

import ast
import dataclasses
import inspect
import re
import textwrap
from itertools import pairwise
from pathlib import Path


def of_file(path: Path, function: str) -> str:
    """Return the docstring of a function in a file, or of the file if it has no such function."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    found: ast.Module | ast.FunctionDef = module
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == function:
            found = statement
    return plain(ast.get_docstring(found) or "")


def of_fields(config: type) -> dict[str, str]:
    """Return the docstring below each field of a dataclass and of its base classes."""
    found: dict[str, str] = {}
    for base in reversed(config.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in pairwise(definition.body):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = plain(inspect.cleandoc(text))
    return found


def plain(text: str) -> str:
    """Return a docstring without its markup, as a terminal should show it."""
    text = re.sub(r":\w+:`([^`]*)`", r"\1", text)
    return text.replace("`", "")
