"""Write a mistake as an edit of the right answer: "old -> new".

The edit replaces one passage in the source of a function or class, so a mistake is one row of a
table: what to say, and how the mistaken answer differs from the right one.
"""

import ast
import functools
import linecache
from collections.abc import Callable, Iterable
from typing import Any

Answer = Callable[..., Any]
Edits = str | tuple[str, ...]
Mistake = Edits | Answer
"""An edit, several edits of one answer, or a whole answer where an edit cannot express it."""
_ARROW = " -> "


def variants(
    answer: Answer, mistake: Mistake | list[Mistake], after: Iterable[Edits] = ((),)
) -> list[Answer]:
    """Return the mistaken answers of one row; a list holds several ways to make one mistake.

    An edit is made once `after` each of these edits. A whole answer is returned as it is.
    """
    return [make() for make in makers(answer, mistake, after)]


def makers(
    answer: Answer, mistake: Mistake | list[Mistake], after: Iterable[Edits] = ((),)
) -> list[Callable[[], Answer]]:
    """Return a function for each of these `variants` that makes it when it is needed."""
    rows = mistake if isinstance(mistake, list) else [mistake]
    found: list[Callable[[], Answer]] = []
    for each in rows:
        if callable(each):
            found.append(functools.partial(_itself, each))
        else:
            edits = [(*_several(first), *_several(each)) for first in after]
            found += [functools.partial(edited, answer, both) for both in edits]
    return found


def _itself(answer: Answer) -> Answer:
    return answer


def _several(edits: Edits) -> tuple[str, ...]:
    return (edits,) if isinstance(edits, str) else edits


def edited(answer: Answer, edits: Edits) -> Answer:
    """Return the function or class that the edited source defines."""
    text = edited_source(answer, edits)
    namespace = dict(_function(answer).__globals__)
    exec(compile(text, f"<{answer.__name__}: {edits}>", "exec"), namespace)
    made: Answer = namespace[answer.__name__]
    return made


def edited_source(answer: Answer, edits: Edits) -> str:
    """Return the source of an answer with edits; raise `ValueError` for one that does not apply."""
    text = source_of(answer)
    for edit in _several(edits):
        old, arrow, new = edit.partition(_ARROW)
        if not arrow or text.count(old) != 1:
            raise ValueError(
                f"{answer.__name__}, edit {edit!r}: its left side must occur once in the source, "
                f"but occurs {text.count(old)} times"
            )
        text = text.replace(old, new)
    return text


def source_of(answer: Answer) -> str:
    """Return the source of a function or class at the top level of a module.

    `inspect.getsource` needs the module of a class in `sys.modules`, where no module with answers
    may be: see `attentively.checks.recordings`.
    """
    text = "".join(linecache.getlines(_function(answer).__code__.co_filename))
    if answer.__name__ not in _top_level(text):
        raise ValueError(f"{answer.__name__} is not defined at the top level of its module")
    return _top_level(text)[answer.__name__]


@functools.cache
def _top_level(text: str) -> dict[str, str]:
    """Return the source of each function and class at the top level of a module, by name."""
    lines = text.splitlines(keepends=True)
    return {
        node.name: "".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def _function(answer: Answer) -> Any:
    """Return a function, or the first method that a class defines itself."""
    if not isinstance(answer, type):
        return answer
    return next(each for each in vars(answer).values() if hasattr(each, "__code__"))
