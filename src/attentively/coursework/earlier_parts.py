"""Parts of earlier assignments: a later assignment can build on a student's own answers.

.. code-block:: python

    from attentively import earlier_parts
    from attentively.checks import self_attention
    from attentively.attention.scaled_dot_product import scaled_dot_product_attention

    attention = earlier_parts.take(
        "12_self_attention", self_attention.attention, scaled_dot_product_attention
    )

The student's answer is read from the file next to the notebook that `attentively submit` packs. If
there is no such file, it is read from the notebook of that assignment, in the neighbouring folder.
If the answer passes its check, it is returned; otherwise the reference is returned. One printed
line says which of the two it is, and why.
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
from attentively.coursework.work_folder import notebooks_in
from attentively_grader.course import notebooks

FILE = "earlier_parts.json"
"""Part of a submission: maps each earlier assignment to the code of its cells."""


def take(
    assignment: str, part: Part, *references: Any, using: Mapping[str, Any] | None = None
) -> Any:
    """Return the student's answer to `part` of an earlier assignment, or the references.

    Pass one reference for each of the part's names. The result has the same order; for a part with
    one name, it is the object itself. `using` maps names in the student's code to objects that
    replace what the code imported, so that one earlier part can be used inside another.
    """
    if len(references) != len(part.names):
        raise ValueError(f"got {len(references)} references for {', '.join(part.names)}")
    names = " and ".join(part.names)
    found, why = _found(assignment, part, using or {})
    if why:
        print(f"{names}: using the reference, because {why}")
        found = references
    else:
        print(f"{names}: using your answer from {assignment}{_with(using)}")
    return found[0] if len(found) == 1 else tuple(found)


def _with(using: Mapping[str, Any] | None) -> str:
    return f", with {' and '.join(using)} replaced" if using else ""


def _found(assignment: str, part: Part, using: Mapping[str, Any]) -> tuple[Sequence[Any], str]:
    """Return the student's objects, and the reason if they cannot be used."""
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
        return [], f"your answer in {assignment} is not implemented yet"
    return [], f"your answer in {assignment} is {state}"


def _cells(assignment: str) -> list[str]:
    """Return the code cells of an earlier assignment; raise `ValueError` if there are none."""
    packed = Path(FILE)
    if packed.exists():
        try:
            parts = json.loads(packed.read_text(encoding="utf-8"))
            cells = parts.get(assignment)
            if cells is None:
                raise ValueError(f"this submission does not contain {assignment}")
            return [str(cell) for cell in cells]
        except (OSError, AttributeError, TypeError, UnicodeError, json.JSONDecodeError):
            raise ValueError(f"{FILE} cannot be read; pack the submission again") from None
    path = Path("..", assignment, f"{assignment}.ipynb")
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    return own_code(notebooks.read(path))


def own_code(notebook: NotebookNode) -> list[str]:
    """Return the code of the cells without points."""
    return [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade")
    ]


def packed(work: Path, notebook: NotebookNode) -> Mapping[str, list[str]]:
    """Return the code of each assignment in `work` whose name is a string in the notebook."""
    code = "\n".join(own_code(notebook))
    there = notebooks_in(work)
    named = [path for path in there if f'"{path.stem}"' in code or f"'{path.stem}'" in code]
    parts = {}
    for path in named:
        try:
            parts[path.stem] = own_code(notebooks.read(path))
        except ValueError:  # the reference is used instead
            continue
    return parts


def run_definitions(assignment: str, cells: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Run only imports and definitions of the cells; return the names and a text of all errors.

    Other statements, such as plots and training runs, are skipped, so this is fast. An assignment
    of a literal, such as ``EPSILON = 1e-5``, counts as a definition.
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
        except Exception as error:  # as in a notebook, the next cell still runs
            errors += f"; code cell {number} raises {type(error).__name__}: {error}"
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
