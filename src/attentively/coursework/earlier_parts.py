"""Parts of earlier assignments, so that a later one can be built from a student's own work.

.. code-block:: python

    from attentively import earlier_parts
    from attentively.checks import self_attention
    from attentively.attention.scaled_dot_product import scaled_dot_product_attention

    attention = earlier_parts.take(
        "12_self_attention", self_attention.attention, scaled_dot_product_attention
    )

What the student wrote there is looked for beside the notebook, in the file that `attentively
submit` packs, and else in the notebook of that assignment, one folder over. It is taken if its
check says that it is right; if not, the reference stands in. One printed line says which.
"""

import ast
import json
import linecache
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from attentively.checks import Part
from attentively_grader.course import notebooks

FILE = "earlier_parts.json"
"""Packed with a submission: for each earlier assignment the code of its cells."""


def take(
    assignment: str, part: Part, *references: Any, using: Mapping[str, Any] | None = None
) -> Any:
    """Return what the student made for `part` of an earlier assignment, or the references.

    There is one reference for each of the part's names, and the answer has the same order; of
    one name it is the object itself. `using` are objects that the student's code then finds by
    these names instead of what it imported: a part that was taken before works inside this one.
    """
    if len(references) != len(part.names):
        raise ValueError(f"got {len(references)} references for {', '.join(part.names)}")
    names = " and ".join(part.names)
    found, why = _found(assignment, part, using or {})
    if why:
        print(f"{names}: the reference stands in; {why}")
        found = references
    else:
        print(f"{names}: yours, from {assignment}{_with(using)}")
    return found[0] if len(found) == 1 else tuple(found)


def _with(using: Mapping[str, Any] | None) -> str:
    return f", with this {' and '.join(using)} in it" if using else ""


def _found(assignment: str, part: Part, using: Mapping[str, Any]) -> tuple[Sequence[Any], str]:
    """Return the student's objects, and why they cannot be used, if so."""
    try:
        cells = _cells(assignment)
    except ValueError as error:
        return [], str(error)
    namespace, errors = run_definitions(assignment, cells)
    namespace.update(using)
    missing = [name for name in part.names if name not in namespace]
    if missing:
        return [], f"{assignment} does not define {' and '.join(missing)}{errors}"
    candidates = [namespace[name] for name in part.names]
    state = part.state(*candidates)
    if state == "solved":
        return candidates, ""
    if state == "not yet":
        return [], f"yours, in {assignment}, is not written yet"
    return [], f"yours, in {assignment}, is {state}"


def _cells(assignment: str) -> list[str]:
    """Return the code of an earlier assignment; `ValueError` says why there is none."""
    packed = Path(FILE)
    if packed.exists():
        try:
            parts = json.loads(packed.read_text(encoding="utf-8"))
            cells = parts.get(assignment)
            if cells is None:
                raise ValueError(f"{assignment} was not handed in with this notebook")
            return [str(cell) for cell in cells]
        except (OSError, AttributeError, TypeError, UnicodeError, json.JSONDecodeError):
            raise ValueError(f"{FILE} cannot be read: submit again") from None
    path = Path("..", assignment, f"{assignment}.ipynb")
    if not path.exists():
        raise ValueError(f"there is no {assignment} beside this folder")
    return own_code(notebooks.read(path))


def own_code(notebook: NotebookNode) -> list[str]:
    """Return the code cells of a notebook that no points are given to."""
    return [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade")
    ]


def packed(work: Path, notebook: NotebookNode) -> Mapping[str, list[str]]:
    """Return the code of each assignment in `work` that the notebook's code names in quotes."""
    code = "\n".join(own_code(notebook))
    there = sorted(path for path in work.glob("*/*.ipynb") if path.stem == path.parent.name)
    named = [path for path in there if f'"{path.stem}"' in code or f"'{path.stem}'" in code]
    parts = {}
    for path in named:
        try:
            parts[path.stem] = own_code(notebooks.read(path))
        except ValueError:  # the reference stands in
            continue
    return parts


def run_definitions(assignment: str, cells: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Run what the cells import and define, and nothing else; return it, and what went wrong.

    Plots, trainings and other statements are left out, so this is quick. A constant is kept
    where its value is written out, as in ``EPSILON = 1e-5``.
    """
    namespace: dict[str, Any] = {"__name__": assignment}
    errors = ""
    for number, cell in enumerate(cells, start=1):
        name = f"<{assignment}, code cell {number}>"
        try:
            source = TransformerManager().transform_cell(cell)
            kept = list(_definitions(ast.parse(source, name)))
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            exec(compile(ast.Module(kept, type_ignores=[]), name, "exec"), namespace)
        except Exception as error:  # as in the notebook, the next cell is run all the same
            errors += f"; its code cell {number} raises {type(error).__name__}: {error}"
    return namespace, errors


def _definitions(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in tree.body:
        if isinstance(
            node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
        ) or _is_constant(node):
            yield node


def _is_constant(node: ast.stmt) -> bool:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True
