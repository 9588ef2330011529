"""Turn down the package's own functions in the parts that rebuild them.

A part that rebuilds a function of the package or of PyTorch names it. While the part is examined,
a call of this function by the student's code raises an error whose message says so: in a wrapper,
under another name, as a method of a subclass or inside another module. Calls by the check itself,
and by the package's models when a check runs them, work as usual.

A function is recognised by its code and not by its name: `Watch` replaces the code of a Python
function, so that earlier imports of it are affected too, and sees the built-in functions of PyTorch
as a function mode. As a mode, it also travels with a call to the process that grades a student's
code.
"""

import functools
import inspect
import pkgutil
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode

LIBRARIES = (
    str(Path(__file__).parents[1]),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    str(Path(torch.__file__).parent),
    "<frozen",
    "<string>",  # methods that a dataclass has by default
    "<@beartype",
)
"""Prefixes of the names of files that are not the student's."""
_CHECKS = str(Path(__file__).parent)
_OWNERS = {"attentively": "the package's", "torch": "PyTorch's", "sacrebleu": "sacreBLEU's"}


class OwnFunctionUsed(AssertionError):  # noqa: N818  a verdict on an answer
    """The student's code calls a function that the part rebuilds."""


class Watch(TorchFunctionMode):
    """While this is active, the student's code cannot call these functions and classes.

    `names` are import paths, as in ``"torch.nn.functional:softmax"``.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names

    def __enter__(self) -> Self:
        _watches.append(self)
        for name in self.names:
            for function in _functions(pkgutil.resolve_name(name)):
                _replace_code(function, name)
        self.built_in = _built_in(self.names)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _watches.remove(self)
        if not _watches:
            _restore_codes()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if func in self.built_in:
            _refuse_call(self.built_in[func])
        return func(*args, **(kwargs or {}))


@contextmanager
def refusing(names: tuple[str, ...], candidates: Sequence[object]) -> Iterator[None]:
    """Raise `OwnFunctionUsed` if a candidate is, inherits or calls one of these functions.

    It is raised at the end of the block too, if the student's code or a check has caught it.
    """
    if not names:
        yield
        return
    _used.clear()
    try:
        with Watch(names):
            for candidate in candidates:
                _refuse_candidate(candidate, names)
            # The mode still travels, but is not asked about each operation of ours.
            with torch._C.DisableTorchFunction() if _run_elsewhere(candidates) else nullcontext():
                yield
    except Exception as error:
        if is_refusal(error):
            _used.append(str(error))
        elif not _used:
            raise
    if _used:
        raise OwnFunctionUsed(_used[0])


@contextmanager
def permitting() -> Iterator[None]:
    """Permit these functions while answers of ours run."""
    _permitting.append(True)
    try:
        yield
    finally:
        _permitting.pop()


def is_refusal(error: BaseException) -> bool:
    """Say whether an error is an `OwnFunctionUsed`, also one that was raised in grading."""
    return type(error).__name__ == OwnFunctionUsed.__name__


def policy(
    rebuilds: tuple[str, ...], also: tuple[str, ...], step: bool = False, mark: str = ""
) -> str:
    """Return the sentence that says what a part rebuilds, and what is not accepted."""
    names = list(dict.fromkeys(f"{mark}{each.partition(':')[2]}{mark}" for each in rebuilds))
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    paths = (each.partition(":")[0].partition(".")[0] for each in (*rebuilds, *also))
    owners = list(dict.fromkeys(_OWNERS[each] for each in paths))
    several = len(names) > 1 or len(owners) > 1
    what = "own functions are" if several else "own function is"
    return (
        f"This part rebuilds {'a step of ' * step}{listed}; {' and '.join(owners)} {what} not "
        "accepted."
    )


def _run_elsewhere(candidates: Sequence[object]) -> bool:
    """Return whether the grader stands between this process and the code of every candidate."""
    modules = [type(each).__module__ for each in candidates]
    return bool(modules) and all(each.startswith("attentively_grader.") for each in modules)


def _refuse_candidate(candidate: object, names: tuple[str, ...]) -> None:
    kind = candidate if isinstance(candidate, type) else type(candidate)
    for name in names:
        own = pkgutil.resolve_name(name)
        if candidate is own or (isinstance(own, type) and own in kind.__mro__):
            raise OwnFunctionUsed(name)


_watches: list[Watch] = []
"""The active watches; a call of the student's code may lead to another one."""
_permitting: list[bool] = []
"""Whether answers of ours run."""
_used: list[str] = []
"""What the student's code has called in the running examination."""
_replaced: dict[FunctionType, CodeType] = {}
"""The code of each replaced function."""
_originals: dict[str, Callable[..., object]] = {}
"""Copies of the replaced functions with their code, by keys."""


def _functions(own: object) -> Iterator[FunctionType]:
    """Yield the Python functions that do the work of a function or class."""
    if isinstance(own, type):
        own = vars(own).get("forward") or vars(own).get("__init__")
    inner = inspect.unwrap(own) if callable(own) else None
    if isinstance(inner, FunctionType):
        yield inner


@functools.cache
def _built_in(names: tuple[str, ...]) -> dict[Any, str]:
    """Return those functions that are not written in Python."""
    found = {pkgutil.resolve_name(name): name for name in names}
    return {each: name for each, name in found.items() if not hasattr(each, "__code__")}


def _replace_code(function: FunctionType, name: str) -> None:
    """Let a function ask `_called` before it runs."""
    if function in _replaced:
        return
    code = function.__code__
    copy = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    key = f"{name} {id(function)}"
    _replaced[function], _originals[key] = code, copy
    function.__code__ = _asking(key, code.co_freevars)


@functools.cache  # compiling is slow, and each graded call enters the watch again
def _asking(key: str, free: tuple[str, ...]) -> CodeType:
    """Return code that passes its arguments to `_called`, with these free variables."""
    outer = ", ".join(free)
    keep = f"({outer},)" if free else "()"
    text = (
        f"def make({outer}):\n"
        "    def asking(*args, **kwargs):\n"
        f"        {keep}\n"
        f"        from {__name__} import _called\n"
        f"        return _called({key!r}, args, kwargs)\n"
        "    return asking\n"
    )
    made: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), made)
    return made["make"](*free).__code__


def _restore_codes() -> None:
    for function, code in _replaced.items():
        function.__code__ = code
    _replaced.clear()
    _originals.clear()


def _called(key: str, args: Any, kwargs: Any) -> object:
    original = _originals[key]
    _refuse_call(key.partition(" ")[0])
    return original(*args, **kwargs)


def _refuse_call(name: str) -> None:
    """Raise the error if the innermost caller that is not a library is the student's code."""
    if _permitting:
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file, called = frame.f_code.co_filename, frame.f_code.co_qualname
        if file.startswith(_CHECKS) and file != __file__:
            if called != "call":  # which calls the candidate, so this function is the candidate
                return
            break
        if not file.startswith(LIBRARIES):
            break
        frame = frame.f_back
    _used.append(name)
    raise OwnFunctionUsed(name)
