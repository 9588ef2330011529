"""Run pages, notebooks and commands, one after the other in one process, on the pretend device.

    python tests/pretend_device.py tests/on_pretend_device.py FILE.md "attentively translate …"

prints one line of JSON for each: what was run, the CPU seconds, and what failed. A page or notebook
runs in its folder and a command where this was started. In the cells of pages and notebooks long
training loops are shortened: the code of a step runs, but models stay untrained.
"""

import ast
import contextlib
import io
import json
import linecache
import os
import shlex
import sys
import time
import traceback
from pathlib import Path

SHORT, EVALUATED = 3, 60
"""Steps of a training run, and of one that a cell evaluates every 60 steps."""
FEWEST, TESTED = 50, 250
"""A loop of so many steps, or more, is a training run; on pages, and where steps are tested."""
STEPS_SHOWN = ("00_tools", "04_encoder_and_decoder", "16_training_the_transformer")
"""Pages that show the losses of single steps."""
SENTENCES, TRAINING = 24, 2000
"""At most so many sentences are loaded for an evaluation and for training."""
MADE = 200
"""Sentences and scenes that are made for the training and the evaluation of a command."""
WRITTEN = 8
"""Words of a translation of a command: a model that is hardly trained writes without end."""
LONGEST = 64
"""Of the lengths for which a cell repeats a measurement, longer ones are left out."""
WHOLE = ("06_scoring_and_the_bottleneck",)
"""Pages that compare each sentence of an evaluation with a recorded result."""


class Shortened(ast.NodeTransformer):
    """Let each training run make three steps, and load few sentences.

    A training run is a loop over ``range(300)``, a call or function with ``steps=300``, or what is
    given the ``STEPS`` of an experiment. Of an experiment's ``TEXTS`` the short ones are taken.
    """

    def __init__(self, path):
        self.sentences = sys.maxsize if path.stem in WHOLE else SENTENCES
        tested = path.suffix == ".ipynb" or path.stem in STEPS_SHOWN
        self.fewest = TESTED if tested else FEWEST

    def visit_Call(self, node):
        self.generic_visit(node)
        match node:
            case ast.Call(
                func=ast.Attribute(attr="load"),
                args=[ast.Constant(split), ast.Constant(int(count))],
            ):
                most = TRAINING if split == "train" else self.sentences
                node.args[1] = ast.Constant(min(count, most))
            case ast.Call(
                func=ast.Attribute(attr="pronoun_pairs"), args=[ast.Constant(int(count))]
            ):
                node.args[0] = ast.Constant(min(count, self.sentences))
            case ast.Call(func=ast.Attribute(attr="minimal_pairs"), args=[]):
                node.args = [ast.Constant(self.sentences)]
        return node

    def visit_Attribute(self, node):
        self.generic_visit(node)
        if node.attr == "TEXTS":
            return ast.Attribute(node.value, "QUICK", node.ctx)
        return ast.Constant(SHORT) if node.attr == "STEPS" else node

    def visit_For(self, node):
        self.generic_visit(node)
        match node.iter:
            case ast.Call(func=ast.Name("range"), args=[ast.Constant(int(count))]):
                node.iter.args = [ast.Constant(self._fewer(count))]
        return node

    def visit_ListComp(self, node):
        """Of a list with one result for each step, the last of three is repeated."""
        self.generic_visit(node)
        match node.generators:
            case [ast.comprehension(iter=ast.Call(ast.Name("range"), [ast.Name("steps")]) as loop)]:
                loop.args = [ast.Constant(SHORT)]
                repeat = ast.parse(
                    f"lambda made: made + made[-1:] * (steps - {SHORT})", mode="eval"
                )
                return ast.Call(repeat.body, [node], [])
        return node

    def visit_comprehension(self, node):
        self.generic_visit(node)
        match node:
            case ast.comprehension(target=ast.Name("length"), iter=ast.Tuple(elts)):
                node.iter.elts = [elts[0], *(each for each in elts[1:] if each.value <= LONGEST)]
        return node

    def visit_Assign(self, node):
        """Of a training that a cell evaluates every 60 steps, one evaluation is left."""
        self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Name("steps")], value=ast.Constant(int(count))):
                node.value = ast.Constant(min(count, EVALUATED))
        return node

    def visit_keyword(self, node):
        self.generic_visit(node)
        if node.arg in ("steps", "validate_every"):
            node.value = self._short(node.value)
        return node

    def visit_arguments(self, node):
        self.generic_visit(node)
        named = [*node.posonlyargs, *node.args][-len(node.defaults) or None :]
        node.defaults = [
            self._short(default) if arg.arg == "steps" else default
            for arg, default in zip(named, node.defaults, strict=False)
        ]
        return node

    def _fewer(self, count):
        return SHORT if count >= self.fewest else count

    def _short(self, value):
        if isinstance(value, ast.Constant) and isinstance(value.value, int):
            return ast.Constant(self._fewer(value.value))
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
    shortened = Shortened(path)
    for number, source in enumerate(cells_of(path), start=1):
        name = f"{path.stem}, code cell {number}"
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        tree = ast.fix_missing_locations(shortened.visit(ast.parse(source)))
        shown = [tree.body.pop().value] if isinstance(tree.body[-1], ast.Expr) else []
        exec(compile(tree, name, "exec"), namespace)
        for each in shown:
            value = eval(compile(ast.Expression(each), name, "eval"), namespace)
            getattr(value, "_repr_html_", value.__repr__)()
        plt.close("all")


def run_command(command):
    """Run a command; what it says of an error is the error's."""
    from attentively import cli
    from attentively.data import corpora
    from attentively.generation import generate

    generate._default_max_len = lambda src_len: WRITTEN
    for sizes in (corpora._TOY_PAIRS, corpora._TOY_TWINS, corpora._SCENES):
        sizes.update(dict.fromkeys(sizes, MADE))
    said = io.StringIO()
    arguments = ["--debug", *shlex.split(command, comments=True)[1:]]
    with contextlib.redirect_stderr(said):
        code = cli.app(arguments, standalone_mode=False)
    if code:
        raise RuntimeError(said.getvalue())


def main(wanted):
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the cells and commands print
    start = Path.cwd()
    for each in wanted:
        started, failure = time.process_time(), None
        try:
            if each.startswith("attentively "):
                run_command(each)
            else:
                path = Path(each).resolve()
                os.chdir(path.parent)
                run_cells(path)
        except BaseException:
            failure = traceback.format_exc()
        os.chdir(start)
        seconds = round(time.process_time() - started, 2)
        print(
            json.dumps({"ran": each, "seconds": seconds, "failure": failure}),
            file=results,
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
