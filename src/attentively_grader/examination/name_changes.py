"""Carry what a test does to names and modules to the student process.

In nbgrader, a test can delete a function of the student, replace a global name that a function
reads, or patch ``input`` and ``plt.show``. Here the test runs in another process. Therefore the
changes that it has made are sent before each request, and undone there when the test undoes them.

A new value of a name is sent only if a function of the instructor's text (a given cell or the model
solution) reads this name. So the student's code does not see the other variables of a test.
"""

import ast
import collections
import contextlib
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

from attentively_grader.course import cell_names
from attentively_grader.wire.endpoint import reset
from attentively_grader.wire.shared_objects import freeze, frozen_same

Key = tuple[str, str]
"""A module and a name in it; the module "" is the notebook."""
Change = tuple[str, str, str, Any, bool]
"""A key, what to do, the new value, and whether it is the first change.

What to do: "set", "delete", "restore", or give the present value its new "content".
"""

ABSENT = object()
"""The value of a name that is not bound."""
_MUTABLE = (list, dict, set, collections.OrderedDict, collections.Counter)
_LOCAL = frozenset({"__main__", "attentively_grader", "IPython", "ipykernel", "unittest", "mock"})
"""Packages whose attributes are never changed in the student process."""
_LOCAL_NAMES = frozenset({("sys", "stdout"), ("sys", "stderr"), ("sys", "modules")})
_PATCHING = frozenset({"patch", "mock", "monkeypatch", "setattr", "delattr", "__builtins__"})
_REFLECTION = frozenset({"globals", "locals", "vars", "eval", "exec", "dir", "get_ipython"})


class NameChanges:
    """The changes of names that a test has made since the student process was told."""

    def __init__(self, space: dict[str, Any], tell: Callable[[Change], Any]) -> None:
        self.space = space
        self.tell = tell
        self._known: dict[Key, Any] = {}
        """What the student process knows: the values at the beginning or at the last message."""
        self._content: dict[Key, Any] = {}
        """The content of mutable values at the last message."""
        self._original: dict[Key, Any] = {}
        """The values before the first change."""
        self._deletable: set[Key] = set()
        """Names whose deletion is sent, but no new value."""

    def begin(self, read: Iterable[str], deletable: Iterable[str], source: str) -> None:
        """Begin a test; `read` are the names whose new values are sent."""
        keys = {("", name) for name in read}
        self._deletable = {("", name) for name in deletable} - keys
        self._known = {key: self._now(key) for key in keys | self._deletable}
        self._known |= {key: self._now(key) for key in _attributes(source)}
        self._content = {
            key: freeze(value)
            for key, value in self._known.items()
            if type(value) in _MUTABLE and key in keys
        }

    def knows(self, name: str, value: Any) -> None:
        """Note that the student process has this value of a name."""
        if ("", name) in self._known:
            self._known["", name] = value
            if ("", name) in self._content:
                self._content["", name] = freeze(value)

    def is_changed(self, name: str) -> bool:
        """Return whether a test has changed a name."""
        key = ("", name)
        return key in self._original or (
            key in self._known and self._known[key] is not self._now(key)
        )

    def forget(self, names: Iterable[str]) -> None:
        """Note that a cell before the next test binds these names again."""
        for name in names:
            self._original.pop(("", name), None)
            self._known.pop(("", name), None)

    def repeat(self) -> None:
        """Send the changes that are not undone again: there is a new student process."""
        for key in self._original:
            now = self._now(key)
            self._send((*key, "delete" if now is ABSENT else "set", now, True))

    def send(self) -> None:
        """Tell the student process what has changed."""
        for key, now in self._changed():
            self._send(self._change(key, now))

    def _send(self, change: Change) -> None:
        try:
            module, name, what, value, first = change
            self.tell((module, name, what, None if value is ABSENT else value, first))
        except TimeoutError:
            raise
        except Exception:  # a value that cannot be sent, or a module that is not there
            return

    def _changed(self) -> list[tuple[Key, Any]]:
        found = []
        for key, before in self._known.items():
            now = self._now(key)
            if now is before:
                frozen = self._content.get(key)
                if frozen is None or frozen_same(frozen, freeze(now)):
                    continue
            elif key in self._deletable and now is not ABSENT and key not in self._original:
                continue
            found.append((key, now))
        return found

    def _change(self, key: Key, now: Any) -> Change:
        first = key not in self._original
        original = self._original.setdefault(key, self._known[key])
        what = "content" if self._known[key] is now else "set"
        self._known[key] = now
        if key in self._content:
            self._content[key] = freeze(now)
        if now is original and key not in self._content:
            del self._original[key]
            return (*key, "restore", None, first)
        return (*key, "delete" if now is ABSENT else what, now, first)

    def _now(self, key: Key) -> Any:
        module, name = key
        if not module:
            return self.space.get(name, ABSENT)
        return vars(sys.modules[module]).get(name, ABSENT) if module in sys.modules else ABSENT


class ChangedNames:
    """At the student's end: apply changes, and keep what was there before."""

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space
        self._before: dict[Key, Any] = {}

    def apply(self, module: str, name: str, what: str, value: Any, first: bool) -> None:
        """Apply a change that a test has made."""
        space = self.space
        if module:
            __import__(module)
            space = vars(sys.modules[module])
        if first or (module, name) not in self._before:
            self._before[module, name] = space.get(name, ABSENT)
        if what == "restore":
            value = self._before.pop((module, name))
        if what == "delete" or value is ABSENT:
            space.pop(name, None)
        elif what != "content" or not _takes(space.get(name), value):
            space[name] = value


def _takes(own: Any, content: Any) -> bool:
    """Give a container new content if possible, also one of a subclass; return whether it is."""
    with contextlib.suppress(Exception):  # a class of the student may refuse
        for kind in (list, dict, set):
            if isinstance(own, kind) and isinstance(content, kind):
                reset(own, content)
                return True
    return False


def words(source: str) -> set[str]:
    """Return the names in the strings of a cell that looks up names by their text."""
    if not any(name in source for name in (*_REFLECTION, *_PATCHING, "__main__", "unittest")):
        return set()
    tree = cell_names.tree_of(source)
    if tree is None:
        return set()
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = cell_names.imported(source) | names
    if not (imported & (_REFLECTION | _PATCHING | {"__main__"})) and "unittest" not in imported:
        return set()
    attributes = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "__main__"
    }
    return _words(tree) | attributes


def _words(tree: ast.AST) -> set[str]:
    return {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) is str and len(node.value) < 200
        for word in node.value.replace(".", " ").split()
        if word.isidentifier()
    }


def _attributes(source: str) -> set[Key]:
    """Return the attributes of modules that a cell may change, directly or with a patch."""
    tree = cell_names.tree_of(source)
    if tree is None:
        return set()
    names = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not isinstance(node.ctx, ast.Load)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if (used | cell_names.imported(source)) & (_PATCHING | {"unittest", "builtins"}):
        names |= _words(tree)
    if not names:
        return set()
    _import(tree)
    return {
        (module, name)
        for module, value in list(sys.modules.items())
        if isinstance(value, types.ModuleType) and module.split(".")[0] not in _LOCAL
        for name in names
        if name in vars(value) and (module, name) not in _LOCAL_NAMES
    }


def _import(tree: ast.AST) -> None:
    """Import the modules that a cell imports, to know their attributes before it runs."""
    for node in ast.walk(tree):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [node.module]
        for module in modules:
            try:
                __import__(module)
            except Exception:  # as the cell itself will report
                continue
