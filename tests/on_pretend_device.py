"""Run pages, notebooks and commands on the pretend device, one after the other in one process.

    python tests/on_pretend_device.py FILE.md FILE.ipynb "attentively translate …"

prints one line of JSON for each: what was run, the CPU seconds, and what failed. Loops of many steps
are shortened: the code of each step runs, and models stay untrained.
"""

import ast
import json
import os
import re
import shlex
import sys
import time
import traceback
from pathlib import Path

import pretend_device

ROOT = Path(__file__).resolve().parents[1]
FEWEST = 250
"""A loop of so many steps, or more, is a training run."""
SHORT = 3


class Shortened(ast.NodeTransformer):
    """Let each loop over ``range(300)``, and each training of ``steps=300``, make three steps."""

    def visit_For(self, node):
        self.generic_visit(node)
        match node.iter:
            case ast.Call(func=ast.Name("range"), args=[ast.Constant(int(count))]):
                node.iter.args = [ast.Constant(_fewer(count))]
        return node

    def visit_keyword(self, node):
        self.generic_visit(node)
        if node.arg in ("steps", "validate_every"):
            node.value = _short(node.value)
        return node

    def visit_arguments(self, node):
        self.generic_visit(node)
        named = [*node.posonlyargs, *node.args][-len(node.defaults) or None :]
        node.defaults = [
            _short(default) if arg.arg == "steps" else default
            for arg, default in zip(named, node.defaults, strict=False)
        ]
        return node


def _fewer(count):
    return SHORT if count >= FEWEST else count


def _short(value):
    if isinstance(value, ast.Constant) and isinstance(value.value, int):
        return ast.Constant(_fewer(value.value))
    return value


def cells_of(path):
    """Return the code of each cell of a page or a notebook."""
    if path.suffix == ".ipynb":
        content = json.loads(path.read_text(encoding="utf-8"))
        return ["".join(c["source"]) for c in content["cells"] if c["cell_type"] == "code"]
    from myst_nb.core.read import read_myst_markdown_notebook

    page = read_myst_markdown_notebook(path.read_text(encoding="utf-8"))
    return [cell.source for cell in page.cells if cell.cell_type == "code"]


def run_cells(path):
    """Run a page or a notebook in its folder; what a cell ends with is shown, as Jupyter does."""
    import matplotlib.pyplot as plt

    namespace = {"__name__": "__main__"}
    os.chdir(path.parent)
    for number, source in enumerate(cells_of(path), start=1):
        tree = Shortened().visit(ast.parse(source))
        *statements, last = tree.body or [ast.Pass()]
        if not isinstance(last, ast.Expr):
            statements, last = tree.body, None
        try:
            name = f"{path.stem}, code cell {number}"
            run = ast.fix_missing_locations(ast.Module(statements, []))
            exec(compile(run, name, "exec"), namespace)
            if last is not None:
                shown = ast.fix_missing_locations(ast.Expression(last.value))
                value = eval(compile(shown, name, "eval"), namespace)
                getattr(value, "_repr_html_", lambda value=value: repr(value))()
        except Exception as error:
            frames = traceback.format_exception(error)[-4:]
            raise RuntimeError(f"{name}:\n{source}\n{''.join(frames)}") from None
        plt.close("all")


def main(wanted):
    pretend_device.install()
    os.environ["ATTENTIVELY_DEVICE"] = pretend_device.NAME
    said = os.dup(1)
    os.dup2(2, 1)
    for each in wanted:
        started = time.process_time()
        failure = None
        try:
            run_cells(Path(each).resolve())
        except BaseException:
            failure = traceback.format_exc()
        seconds = round(time.process_time() - started, 2)
        line = json.dumps({"ran": each, "seconds": seconds, "failure": failure})
        os.write(said, (line + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
