"""The recordings of a topic: stored in the package, or made from the instructor's questions.

The stored recordings of the open cases lie in the folder of the topic: plain values and text in
recordings.json, tensors in recordings.safetensors. They contain no code. The further cases, with
which work is graded, are in the instructor's folder: solutions/NN_topic/questions.py.
"""

import contextlib
import functools
import io
import json
import linecache
import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from unittest import mock

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from attentively.checks import open_call, own_functions
from attentively.checks.compare import CheckFailed, Fresh, equal
from attentively.checks.question import Case, Question, Recorded, Recording, examine, is_right

TEXT, TENSORS = "recordings.json", "recordings.safetensors"
QUESTIONS = "questions.py"
AUTOGRAD = ("torch.autograd:backward", "torch.autograd:grad", "torch.func:jacfwd", "torch.func:jvp")
"""What all ways to a gradient by PyTorch call."""
VARIABLE = "COURSE_SOLUTIONS"
"""The environment variable that names the folder of the solutions."""


class QuestionsMissingError(Exception):
    """The instructor's questions, which grading needs, were not found."""


class Topic:
    """The questions of one assignment, for the module with its checks."""

    def __init__(self, module: str) -> None:
        """Take the path of the module, ``__file__`` in the ``__init__`` of its folder."""
        self.folder = Path(module).parent

    def examine(self, name: str, candidate: object, thorough: bool, **rules: Any) -> str:
        """Compare a candidate with the recordings of this name: see `question.examine`.

        Return the way that it follows, "" for that of the question's answer.
        """
        ways = self._ways(name, thorough)
        key = open_call.key(self.folder, name)
        known = ways.get(open_call.known(key))
        right = examine(candidate, *ways.values(), known=known, **rules)
        found = next(way for way, each in ways.items() if each is right)
        open_call.note(key, found)
        return found

    def examine_without_autograd(
        self, name: str, candidate: object, thorough: bool, **rules: Any
    ) -> None:
        """Examine a function that must compute a gradient without autograd."""

        def without_autograd(*inputs: Any) -> Any:
            with torch.inference_mode():  # unlike no_grad, not undone by enable_grad
                return cast(Any, candidate)(*inputs)

        without_autograd.__name__ = getattr(candidate, "__name__", "")
        examined = without_autograd if callable(candidate) else candidate
        try:
            with own_functions.refusing(AUTOGRAD, ()):
                self.examine(name, examined, thorough, **rules)
        except own_functions.OwnFunctionUsed:
            raise CheckFailed(
                "  Compute the gradient yourself in this part. The check turns autograd off, so "
                ".backward() and torch.autograd.grad do not work."
            ) from None

    def recording(self, name: str, thorough: bool = False) -> Recording:
        """Return a recording: the stored one, or one of all cases."""
        return self._ways(name, thorough)[""]

    def _ways(self, name: str, thorough: bool) -> dict[str, Recording]:
        if thorough:
            path = find_questions(self.folder.name)
            return _thorough_ways(self.folder, path.read_text(encoding="utf-8"), name)
        return _ways_in(stored(self.folder), name)


def find_questions(topic: str) -> Path:
    """Return the path of the instructor's questions; raise `QuestionsMissingError` without them.

    The folder of the solutions is the one that the environment variable names. Without it, it is
    `solutions` in the current folder or in one of those above it, as in the folder of a course.
    """
    given = os.environ.get(VARIABLE)
    here = Path.cwd()
    places = [Path(given)] if given else [each / "solutions" for each in (here, *here.parents)]
    for place in places:
        for path in sorted(place.glob(f"[0-9][0-9]_{topic}/{QUESTIONS}")):
            return path
    where = f"{VARIABLE}={given}" if given else f"{here} and the folders above it"
    raise QuestionsMissingError(
        f"This check with thorough=True needs the instructor's file solutions/NN_{topic}/"
        f"{QUESTIONS}, but {where} has no such file. Run it in the folder of the course, or set "
        f"{VARIABLE} to the folder of the solutions."
    )


def load_questions(path: Path) -> Any:
    """Return the instructor's module.

    It is not entered in `sys.modules`: the sandboxed process of a student may name classes of
    imported modules, and the answers must not be among them.
    """
    return _module(str(path), path.read_text(encoding="utf-8"))


def _module(name: str, text: str) -> ModuleType:
    """Return a module with this text; edits find its source although no file may have its name."""
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    module = ModuleType(Path(QUESTIONS).stem)
    module.__file__ = name
    exec(compile(text, name, "exec"), vars(module))
    return module


def questions_in(module: Any) -> list[Question]:
    """Return the questions of an instructor's module, in the order of the parts."""
    return [each for questions in module.PARTS.values() for each in questions]


def prepare(folder: Path) -> None:
    """Make all recordings of the instructor's questions in a folder, before students are graded.

    They are kept by the text of the questions, so that they are found from any other folder. Then
    each check examines the instructor's answers, so that what it keeps for later calls is there.
    """
    for path in sorted(folder.glob(f"[0-9][0-9]_*/{QUESTIONS}")):
        topic = pkgutil.resolve_name(f"{__package__}.{path.parent.name[3:]}")
        text = path.read_text(encoding="utf-8")
        module = _instructors(text)
        for question in questions_in(module):
            if question.cases is not None:
                _thorough_ways(Path(topic.__file__).parent, text, question.name)
        with mock.patch.dict(os.environ, {VARIABLE: str(folder)}):
            _examine_answers(topic, module.PARTS)


def _examine_answers(topic: Any, parts: Mapping[str, list[Question]]) -> None:
    """Let each check of a topic examine the instructor's answers, whatever it says of them."""
    for name, questions in parts.items():
        with (
            own_functions.permitting(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.suppress(Exception),
        ):
            getattr(topic, name)(*(each.answer for each in questions), thorough=True)


@functools.cache
def _instructors(text: str) -> Any:
    """Return the instructor's module with this text."""
    with own_functions.permitting():
        return _module(f"the instructor's {QUESTIONS}, {hash(text)}", text)


@functools.cache
def _thorough_ways(folder: Path, text: str, name: str) -> dict[str, Recording]:
    """Return recordings of all cases of one question, by their ways.

    Only this question runs, because a wrong answer ends the grading of a part before the others.
    """
    known = _ways_in(stored(folder), name)
    with own_functions.permitting():
        questions = [each for each in questions_in(_instructors(text)) if each.name == name]
        recordings = _ways_in(_record(questions, thorough=True), name)
    return {way: _marked(each, known.get(way)) for way, each in recordings.items()}


def _marked(recording: Recording, known: Recording | None) -> Recording:
    """Return a recording of all cases that says which of them are stored."""
    cases = [] if known is None else [each.case for each in known.cases]
    marked = [
        replace(each, is_open=any(open_call.identical(each.case, case) for case in cases))
        for each in recording.cases
    ]
    return replace(recording, cases=marked)


_WAY = ", "
"""Between the name of a question and one of its ways, in the title of a recording."""


def record(module: Any, thorough: bool = False) -> dict[str, Recording]:
    """Return the recordings of an instructor's questions, by name and way."""
    return _record(questions_in(module), thorough)


def _record(questions: Iterable[Question], thorough: bool) -> dict[str, Recording]:
    return {
        f"{each.name}{_WAY * bool(way)}{way}": each.record(thorough, way)
        for each in questions
        if each.cases is not None
        for way in ("", *each.ways)
    }


def _ways_in(recordings: Mapping[str, Recording], name: str) -> dict[str, Recording]:
    """Return the recordings of a question by their ways."""
    titles = (title.partition(_WAY) for title in recordings)
    return {way: recordings[f"{n}{mark}{way}"] for n, mark, way in titles if n == name}


# Files


@functools.cache
def stored(folder: Path) -> dict[str, Recording]:
    """Return the recordings in the folder of a topic, by name."""
    text = json.loads((folder / TEXT).read_text(encoding="utf-8"))
    tensors = load_file(folder / TENSORS)
    return {name: _recording(_decoded(each, tensors)) for name, each in text.items()}


def files(recordings: Mapping[str, Recording]) -> dict[str, bytes]:
    """Return the content of the two files of a topic; the text has one line for each case."""
    tensors: dict[str, Tensor] = {}
    parts = []
    for name, recording in recordings.items():
        content = _as_dict(recording)
        cases = ",\n".join(_json(each, tensors) for each in content.pop("cases"))
        head = _json(content, tensors)[1:-1]
        parts.append(f'{json.dumps(name)}: {{{head}, "cases": [\n{cases}\n]}}')
    text = ",\n".join(parts)
    return {TEXT: f"{{\n{text}\n}}\n".encode(), TENSORS: save(tensors)}


def same(one: Mapping[str, Recording], other: Mapping[str, Recording]) -> bool:
    """Return whether recordings agree: text exactly, values within the tolerances."""
    return _alike(
        {n: _as_dict(r) for n, r in one.items()}, {n: _as_dict(r) for n, r in other.items()}
    )


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(map(_alike, one.values(), other.values()))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, Fresh) and isinstance(other, Fresh):
        return _alike([*vars(one).values()], [*vars(other).values()])
    if is_dataclass(one) and type(one) is type(other):
        return _alike(_arguments(one), _arguments(other))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.requires_grad == other.requires_grad and equal(one, other)
    return one is other or (type(one) is type(other) and equal(one, other))


def _as_dict(recording: Recording) -> dict[str, Any]:
    """Return a recording as plain data.

    Fields of a case with their default are left out, and so are a mistake's right results.
    """
    content = {each.name: getattr(recording, each.name) for each in fields(recording)}
    content["cases"] = [
        {
            "case": {n: getattr(each.case, n) for n in _changed(each.case)},
            "expected": each.expected,
            "wrong": [
                _RIGHT if is_right(each, mistake) else each.wrong[mistake]
                for mistake in range(len(each.wrong))
            ],
        }
        for each in recording.cases
    ]
    return content


_RIGHT = "right"


def _changed(case: Case) -> list[str]:
    usual = asdict(Case({}))
    return [n for n in usual if n == "inputs" or getattr(case, n) not in (None, usual[n])]


def _recording(content: dict[str, Any]) -> Recording:
    cases = [
        Recorded(
            Case(**each["case"]),
            each["expected"],
            [each["expected"] if wrong == _RIGHT else wrong for wrong in each["wrong"]],
        )
        for each in content["cases"]
    ]
    return Recording(**{**content, "cases": cases})


def _json(value: Any, tensors: dict[str, Tensor]) -> str:
    return json.dumps(_encoded(value, tensors), ensure_ascii=False)


def _encoded(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON represents it; equal tensors are stored once.

    What JSON cannot represent becomes an object whose first key begins with $: also an instance of
    a dataclass of the package.
    """
    if isinstance(value, Tensor):
        return {"$learned" if value.requires_grad else "$tensor": _stored_as(value, tensors)}
    if isinstance(value, Fresh):
        maker = f"{value.maker.__module__}:{value.maker.__qualname__}"
        return {"$fresh": _encoded([maker, value.given, value.text], tensors)}
    if isinstance(value, tuple):
        return {"$tuple": [_encoded(each, tensors) for each in value]}
    if isinstance(value, set | frozenset):
        return {"$set": [_encoded(each, tensors) for each in sorted(value)]}
    if isinstance(value, list):
        return [_encoded(each, tensors) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _encoded(each, tensors) for key, each in value.items()}
    if isinstance(value, Mapping):
        return {"$pairs": [_encoded([*pair], tensors) for pair in value.items()]}
    if value is None or type(value) in (str, bool, int, float):
        return value
    if is_dataclass(value) and type(value).__module__.startswith("attentively."):
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"$object": kind, "arguments": _encoded(_arguments(value), tensors)}
    raise TypeError(f"a recording cannot hold {value!r}, of type {type(value).__name__}")


def _arguments(value: Any) -> dict[str, Any]:
    """Return the arguments of the constructor of a dataclass."""
    return {each.name: getattr(value, each.name) for each in fields(value) if each.init}


def _stored_as(value: Tensor, tensors: dict[str, Tensor]) -> str:
    """Return the name of a tensor in the file."""
    value = value.detach()
    for name, known in tensors.items():
        if known.dtype == value.dtype and known.shape == value.shape and known.equal(value):
            return name
    tensors[str(len(tensors))] = value.contiguous().clone()
    return str(len(tensors) - 1)


def _decoded(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_decoded(each, tensors) for each in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if tag in ("$tensor", "$learned"):
        return tensors[value[tag]].clone().requires_grad_(tag == "$learned")
    if tag == "$object":
        return pkgutil.resolve_name(value[tag])(**_decoded(value["arguments"], tensors))
    if tag in _DECODED:
        return _DECODED[tag](_decoded(each, tensors) for each in value[tag])
    return {key: _decoded(each, tensors) for key, each in value.items()}


def _fresh(content: Iterable[Any]) -> Fresh:
    maker, *rest = content
    return Fresh(pkgutil.resolve_name(maker), *rest)


_DECODED: dict[str, Callable[[Iterable[Any]], Any]] = {
    "$tuple": tuple,
    "$set": set,
    "$pairs": dict,
    "$fresh": _fresh,
}
