"""Analyse the text of a cell: the names that it binds and uses."""

import ast
import symtable
from collections.abc import Iterator

_SURE = (
    ast.Assign,
    ast.AnnAssign,
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
"""Statements that bind their names in any case."""
_BINDING = frozenset({"exec", "globals", "locals", "vars"})
_BINDING_METHODS = frozenset({"ex", "push", "run_cell", "user_ns", "user_global_ns", "user_module"})
"""Methods and attributes of IPython's shell by which code binds names."""
_BINDING_MAGICS = frozenset({"run", "store", "pylab", "load", "macro", "cython", "py", "capture"})


def tree_of(source: str) -> ast.Module | None:
    """Return the parsed cell, or None if it is not valid Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def bound(source: str) -> set[str]:
    """Return the names that a cell binds at its top level, except those of `import *`."""
    tree = tree_of(source)
    if tree is None:
        return set()
    found = {name for node in tree.body for name in _bound(node)}
    try:
        return found | set(_assigned(symtable.symtable(source, "cell", "exec")))
    except (SyntaxError, ValueError, RecursionError):  # such as await outside a function
        return found


def _assigned(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield names bound at the top level by any statement, such as match or global."""
    for symbol in table.get_symbols():
        at_the_top = table.get_type() == "module" or symbol.is_declared_global()
        if at_the_top and (symbol.is_assigned() or symbol.is_imported()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _assigned(child)


def binds_unseen(source: str) -> bool:
    """Return whether a cell may bind names that are known only when it runs.

    For example with `import *`, `exec`, `globals()[...]`, or a magic that runs code.
    """
    tree = tree_of(source)
    return tree is not None and any(map(_binds_unseen, ast.walk(tree)))


def _binds_unseen(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == "*" for alias in node.names)
    if isinstance(node, ast.Name):
        return node.id in _BINDING
    if isinstance(node, ast.Constant):
        return node.value == "__main__"
    if isinstance(node, ast.Import):
        return any(alias.name == "__main__" for alias in node.names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        is_magic = node.func.attr in ("run_line_magic", "run_cell_magic")
        name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        return is_magic and name in _BINDING_MAGICS
    return isinstance(node, ast.Attribute) and node.attr in _BINDING_METHODS


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def used(source: str) -> set[str]:
    """Return every global name that a cell reads or deletes, also inside functions."""
    tree = tree_of(source)
    if tree is None:
        return set()
    deleted = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
    }
    try:
        return deleted.union(_read(symtable.symtable(source, "cell", "exec")))
    except (SyntaxError, ValueError, RecursionError):  # such as await outside a function
        return {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }


def _read(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _read(child)


def answered(source: str) -> set[str]:
    """Return the names that a model solution binds or changes, except imports."""
    tree = tree_of(_without_magics(source))
    found: set[str] = set()
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Import | ast.ImportFrom):
            found |= set(_bound(node)) | set(_changed(node))
    return found


def _changed(node: ast.AST) -> Iterator[str]:
    """Yield names whose items or attributes a statement sets, as in ``frame["sum"] = ...``."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
        value: ast.AST = node
        while isinstance(value, ast.Subscript | ast.Attribute):
            value = value.value
        if isinstance(value, ast.Name):
            yield value.id
    for child in ast.iter_child_nodes(node):
        yield from _changed(child)


def described(source: str) -> dict[str, list[str]]:
    """Return what the grader must know of a model solution.

    ``binds`` lists the names that it binds, ``reads`` the global names that its functions read, and
    ``imports`` its import statements.
    """
    plain = _without_magics(source)
    tree = tree_of(plain)
    imports = [
        ast.unparse(node)
        for node in (tree.body if tree else ())
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    found = {
        "binds": sorted(answered(source)),
        "reads": sorted(read_by_functions(plain)),
        "imports": imports,
    }
    return {name: values for name, values in found.items() if values}


def _without_magics(source: str) -> str:
    if source.lstrip().startswith("%%"):  # a magic around the whole cell
        source = source.lstrip().partition("\n")[2]
    return "\n".join(line for line in source.splitlines() if not line.startswith(("%", "!")))


def read_by_functions(source: str) -> set[str]:
    """Return the global names that the functions and methods of a cell read."""
    try:
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return set()
    return {name for child in table.get_children() for name in _read(child)}


def needed(source: str) -> set[str]:
    """Return the global names that a cell reads before it has surely bound them."""
    tree = tree_of(source)
    found: set[str] = set()
    own: set[str] = set()
    for node in tree.body if tree else ():
        found |= used(ast.unparse(node)) - own
        if isinstance(node, _SURE):
            own |= set(_bound(node))
    return found


def surely_bound(source: str) -> set[str]:
    """Return the names that the statements at the top level of a cell bind in any case."""
    tree = tree_of(source)
    return {
        name
        for node in (tree.body if tree else ())
        if isinstance(node, _SURE)
        for name in _bound(node)
    }


def imported(source: str) -> set[str]:
    """Return the top-level packages that a cell imports."""
    tree = tree_of(source)
    packages: set[str] = set()
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.split(".")[0])
    return packages
