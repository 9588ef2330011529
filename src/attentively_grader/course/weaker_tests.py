"""Decide from a test's text whether it must run next to the student's code.

A test normally runs in a separate process, which receives plain data from the student's code. What
cannot be passed as plain data (figures, fitted models, files) is not visible there. Such a test
runs in the process of the student's code, which could influence it, so it is weaker.
"""

import ast

from attentively_grader.course.cell_names import bound, tree_of, used

_FIGURES = {"gca", "gcf", "get_fignums", "fignum_exists"}
_DRAWING = {"figure", "subplots", "plot", "bar", "hist", "scatter", "imshow"}
_OF_MODELS = {"check_is_fitted", "cross_val_score", "cross_validate"}
_INSPECTING = {"getsource", "getsourcelines", "signature", "getfullargspec", "unwrap"}
_INSIDE = {"__wrapped__", "__closure__", "__code__", "__defaults__", "__globals__"}
_FILES = {"exists", "is_file", "isfile", "is_dir", "isdir", "listdir", "iterdir", "getsize"}
_WRITING = {"open", "write_text", "write_bytes", "mkdir", "makedirs", "TemporaryDirectory"}
_HISTORY = {"In", "Out", "_ih", "_oh"}


def reason_beside(source: str) -> str | None:
    """Return why a test must run next to the student's code; None if nothing suggests it."""
    tree = tree_of(source)
    if tree is None:
        return None
    called: set[str] = set()
    words: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called.add(_last_name(node.func))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            words.add(node.attr)
        elif isinstance(node, ast.Constant) and type(node.value) is str:
            words.add(node.value)
    figures = called & _FIGURES
    inside = (words & _INSIDE) | (called & _INSPECTING)
    files = called & _FILES
    if figures and not called & _DRAWING:
        return f"it looks at figures that the student's code drew ({_first(figures)})"
    if called & _OF_MODELS:
        return f"it passes the student's model to scikit-learn ({_first(called & _OF_MODELS)})"
    if inside:
        return f"it looks inside the student's functions ({_first(inside)})"
    if files and not called & _WRITING:
        return f"it looks at files, and those of the student's code are elsewhere ({_first(files)})"
    if used(source) & _HISTORY - bound(source):
        return "it reads the history of the notebook's cells (In, Out)"
    return None


def _first(names: set[str]) -> str:
    return min(names)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
