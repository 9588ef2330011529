"""Send exceptions over the wire: class name, text, and traceback.

An exception of Python or PyTorch arrives with the same class. Any other arrives as a new class with
the same name, derived from the nearest built-in base class, so that ``except ValueError`` catches a
student's subclass of it. The traceback is sent as text, and the revived exception has a traceback
that shows the same locations.
"""

import builtins
import traceback
from collections.abc import Container
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, cast

import torch

from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import Node, plain_text

_MOST_FRAMES = 12
_PLAIN = (str, int, float, bool, type(None))
"""Types of arguments that arrive as they are."""


class StudentError(Exception):
    """An exception of a class that exists only in the student process."""


_TORCH = {
    each.__name__: each
    for each in (*vars(torch).values(), cast(Any, torch.linalg).LinAlgError)
    if isinstance(each, type) and issubclass(each, Exception)
}
_REFUSED = (KeyboardInterrupt, GeneratorExit)
"""Exceptions that would end the examiner."""


def _class_of(name: object) -> type[BaseException] | None:
    found = vars(builtins).get(name, _TORCH.get(name)) if isinstance(name, str) else None
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        return None
    return None if issubclass(found, _REFUSED) else found


def describe_error(error: BaseException, hidden: tuple[str, ...] = ()) -> Node:
    """Return an exception as plain data, without frames of files with a prefix in `hidden`."""
    kind = type(error)
    names = [each.__name__ for each in kind.__mro__]
    arguments: Any = error.args
    if type(arguments) is not tuple or not all(type(each) in _PLAIN for each in arguments):
        arguments = (plain_text(error, 20_000),)
    arguments = [
        each[:20_000] if type(each) is str else str(each) if abs(each or 0) > 2**53 else each
        for each in arguments[:5]
    ]
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(hidden):
            frames.append([code.co_filename[:500], code.co_name[:200], line])
    return {
        "names": [name[:200] for name in names[:20]],
        "args": arguments,
        "text": plain_text(error, 20_000),
        "frames": frames[-_MOST_FRAMES:],
    }


def revive(described: Node, files: Container[str] = ()) -> BaseException:
    """Return an exception like the one described, with a similar traceback.

    Only the source of these files is shown; other file names are shown without source.
    """
    try:
        names, text = described["names"], described["text"]
        if type(text) is not str or not all(type(name) is str for name in names):
            raise WireError("a received exception is malformed")
        error = _made(names, described["args"], text)
        return error.with_traceback(_places(described["frames"], files))
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        raise WireError("a received exception is malformed") from None


def _made(names: list[str], arguments: list[Any], text: str) -> BaseException:
    kind = _class_of(names[0])
    if not all(type(each) in _PLAIN for each in arguments):
        arguments = [text]
    if kind is None:
        near = next((found for name in names if (found := _class_of(name))), Exception)
        bases = (StudentError,) if near is Exception else (StudentError, near)
        try:
            kind = type(names[0], bases, {"__module__": "notebook"})
        except TypeError:
            kind = type(names[0], (StudentError,), {"__module__": "notebook"})
        arguments = [text]
    try:
        error = kind(*arguments)
        str(error)
        return error
    except Exception:
        return StudentError(f"{names[0]}: {text}")


def _places(frames: list[Any], files: Container[str]) -> TracebackType | None:
    """Return a traceback that shows these locations: file, name and line."""
    chain: TracebackType | None = None
    for file, name, line in reversed(frames[-_MOST_FRAMES:]):
        if type(file) is not str or type(name) is not str or type(line) is not int:
            raise WireError("a received traceback is malformed")
        if file not in files:
            name = "?" if file.startswith("<cell") else Path(file).name[:80]
            file = f"<the student's process: {name}>"  # not the name of a file
        line = max(1, min(line, 1_000_000))
        code: CodeType = compile("raise ValueError", file.replace("\0", "?")[:500], "exec")
        code = code.replace(co_name=name[:200], co_qualname=name[:200], co_firstlineno=line)
        try:
            exec(code, {})
        except ValueError as error:
            there = error.__traceback__
            if there is not None and there.tb_next is not None:
                place = there.tb_next
                chain = TracebackType(chain, place.tb_frame, place.tb_lasti, line)
    return chain
