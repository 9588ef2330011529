"""Find the names that a cell binds and uses."""

import ast
import symtable
from collections.abc import Iterator


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
    """Return whether a cell has an `import *`, whose names are known only when it runs."""
    tree = tree_of(source)
    return tree is not None and any(
        alias.name == "*"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


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
    """Return every global name that a cell reads, also inside functions."""
    tree = tree_of(source)
    if tree is None:
        return set()
    try:
        return set(_read(symtable.symtable(source, "cell", "exec")))
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
    """Return the names that a model solution binds, except imports."""
    if source.lstrip().startswith("%%"):  # a magic around the whole cell
        source = source.lstrip().partition("\n")[2]
    lines = [line for line in source.splitlines() if not line.startswith(("%", "!"))]
    tree = tree_of("\n".join(lines))
    found: set[str] = set()
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Import | ast.ImportFrom):
            found |= set(_bound(node))
    return found


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
