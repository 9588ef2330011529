"""Checks of the assignments: a failed check names the likely mistake.

There is one folder per assignment, named by its topic. A check calls the candidate (the student's
function or class) with plain tensors and examines the result. It never reads the source, so every
correct implementation passes. A check has stages: first inputs that fit on paper, then odd sizes,
one mechanism at a time. It stops at the first stage that fails. If the answer equals that of a
known mistake, the message names the mistake.

A failed check shows one readable message instead of a traceback.
"""

import itertools
import linecache
import math
import numbers
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attentively.checks import given_models, own_functions
from attentively.checks.undefined_names import explain_undefined_names

RTOL, ATOL = 1e-4, 1e-5
"""Tolerances for 32-bit values; they allow for any order of summation."""

_FEW = 12  # tensors with at most so many entries are shown completely
_LONG = 160  # plain values with at most so many characters are shown completely
_VALUES = ("  called with", "  got", "  expected", "  measured", "  sentence")


class Verdict(AssertionError):  # noqa: N818  it may also say "not yet"
    """The result of a check that did not pass; notebooks show its text and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class CheckFailed(Verdict):
    """The answer is implemented, but not right."""


class NotImplementedYet(Verdict):
    """The answer is not implemented yet."""


class Twin(NamedTuple):
    """A known mistake: the diagnosis for the student, and a function with this mistake."""

    diagnosis: str
    answer: Callable[..., object]


def known(said: str, *wrong: Callable[..., object]) -> list[Twin]:
    """Return several implementations of one mistake."""
    return [Twin(said, answer) for answer in wrong]


class Part:
    """One graded part of an assignment: call it with the student's functions or classes.

    With `thorough`, it also checks further inputs of other sizes. It prints one line if the
    answer is right, and raises a `Verdict` otherwise.
    """

    def __init__(
        self,
        number: int,
        title: str,
        names: tuple[str, ...],
        check: Callable[..., None],
        rebuilds: tuple[str, ...] = (),
        refuses: tuple[str, ...] = (),
        step: bool = False,
    ) -> None:
        self.number = number
        self.title = title
        self.names = names
        """The names of the candidates in the notebook, in the order of the arguments."""
        self.rebuilds = rebuilds
        """Import paths of the functions and classes that the part rebuilds."""
        self.refuses = refuses
        """Import paths of others that do the same, which are not accepted either."""
        self.step = step
        """Whether the part rebuilds only a step of what `rebuilds` names."""
        self.check = check
        self.__doc__ = check.__doc__

    @property
    def label(self) -> str:
        return f"Part {self.number} ({self.title})"

    @property
    def policy(self) -> str:
        """What a part that rebuilds a function says of it in the notebook, or ""."""
        return self._policy("`") if self.rebuilds else ""

    def _policy(self, mark: str = "") -> str:
        return own_functions.policy(self.rebuilds, self.refuses, self.step, mark)

    def _examine(self, candidates: tuple[object, ...], thorough: bool) -> None:
        refused = (*self.rebuilds, *self.refuses)
        try:
            # Candidates may use random numbers; later cells must not be affected.
            with torch.random.fork_rng(devices=[]), own_functions.refusing(refused, candidates):
                torch.manual_seed(0)
                self.check(*candidates, thorough=thorough)
        except own_functions.OwnFunctionUsed as error:
            raise CheckFailed(
                f"  {self._policy()} Your code uses "
                f"{str(error).replace(':', '.')}. Write the computation yourself."
            ) from None

    def __call__(self, *candidates: object, thorough: bool = False) -> None:
        """Check the candidates, one for each of `names`."""
        try:
            self._examine(candidates, thorough)
        except NotImplementedYet as verdict:
            raise NotImplementedYet(f"{self.label}: not implemented yet{verdict}") from None
        except CheckFailed as verdict:
            lines = [_wrapped(line) for line in str(verdict).splitlines()]
            raise CheckFailed("\n".join([f"{self.label}: not right yet.", *lines])) from None
        print(f"{self.label}: right{' on further inputs too' * thorough}.")

    def state(self, *candidates: object) -> str:
        """Return the result of the check in one line: solved, not yet, or what is wrong."""
        try:
            self._examine(candidates, thorough=False)
        except NotImplementedYet:
            return "not yet"
        except CheckFailed as verdict:
            return f"wrong: {textwrap.shorten(str(verdict).strip().splitlines()[0], 100)}"
        return "solved"


class Parts:
    """The parts of one assignment, in their order."""

    def __init__(self) -> None:
        self.all: list[Part] = []

    def explain_undefined_names(self) -> None:
        """In a notebook, say which cell to run where a check is called before its answer exists.

        Each `ready()` calls this, so that it holds in the process that runs the notebook.
        """
        explain_undefined_names(self.undefined)

    def undefined(self, name: str) -> Verdict | None:
        """Return what to show if a candidate of this name is not defined; None for other names."""
        labels = [part.label for part in self.all if name in part.names]
        if not labels:
            return None
        return CheckFailed(
            f"{labels[0]}: `{name}` is not defined.\n"
            f"  Run the cell that defines `{name}` first. If that cell shows an error, correct\n"
            "  the error and run the cell again."
        )

    def part(
        self,
        title: str,
        *names: str,
        rebuilds: Iterable[str] = (),
        refuses: Iterable[str] = (),
        step: bool = False,
    ) -> Callable[[Callable[..., None]], Part]:
        """Add the decorated check as the next part; `names` are the names of its candidates.

        What the part `rebuilds`, and what it `refuses` besides, is turned down as an answer. The
        notebook says what it rebuilds, and with `step` that it is only a step of it.
        """

        def add(check: Callable[..., None]) -> Part:
            number = len(self.all) + 1
            refused = tuple(rebuilds), tuple(refuses)
            self.all.append(Part(number, title, names, check, *refused, step))
            return self.all[-1]

        return add

    def progress(self, namespace: Mapping[str, object]) -> None:
        """Check every part again and print a table: solved, not yet, or wrong.

        `namespace` contains the answers: ``globals()`` in a notebook.
        """
        width = max(len(part.label) for part in self.all)
        solved = 0
        for part in self.all:
            missing = [name for name in part.names if name not in namespace]
            if missing:
                state = f"not yet: run the cell that defines {' and '.join(missing)}"
            else:
                state = part.state(*(namespace[name] for name in part.names))
            solved += state == "solved"
            print(f"{part.label:{width}}  {state}")
        print(f"{'':{width}}  {solved} of {len(self.all)} solved")


@contextmanager
def once_solved(what: str) -> Iterator[None]:
    """Run the block; if it raises because `what` is missing or wrong, print one line instead."""
    try:
        yield
    except Exception as error:  # the check of that part explains the error better
        written = not isinstance(error, NotImplementedError) or str(error)
        why = f" ({type(error).__name__}: {error})" if written else ""
        print(f"This runs once {what} is {'right' if written else 'written'}{why}.")


def in_turn(symptoms: Mapping[str, Callable[..., None]], *arguments: object) -> None:
    """Examine one symptom after the other; a failure also lists those that were right."""
    examined: list[str] = []
    for symptom, examine in symptoms.items():
        try:
            examine(*arguments)
        except CheckFailed as failed:
            right = f"\n  Right so far: {', '.join(examined)}." if examined else ""
            raise CheckFailed(f"{failed}{right}") from None
        examined.append(symptom)


# Calling a candidate


def call(candidate: object, inputs: Mapping[str, object], *, trains: bool = False) -> object:
    """Call the candidate with copies of the inputs and return its answer.

    An exception becomes a `CheckFailed` that names the line. A `NotImplementedError` without a
    message, as in a released notebook, becomes `NotImplementedYet`. A candidate that changes its
    inputs is rejected, and so is one that changes the weights of a model, unless it `trains` it.
    """
    if not callable(candidate):
        raise CheckFailed(f"  Expected a function or class, got {_kind(candidate)}")
    given = {name: _copy(value) for name, value in inputs.items()}
    weights = [] if trains else given_models.weights_of(candidate, inputs)
    try:
        answer = candidate(*given.values())
    except KeyboardInterrupt:
        raise
    except NotImplementedError as error:
        if str(error):
            raise _raised(error, inputs) from None
        name = _unwritten(error)
        hint = "" if name in ("", "<module>", _name(candidate)) else f": {name} is not written"
        raise NotImplementedYet(hint) from None
    except BaseException as error:  # sys.exit() in an answer must not end the check
        if own_functions.is_refusal(error):
            raise
        raise _raised(error, inputs) from None
    changed = given_models.changed(weights)
    if changed:
        raise CheckFailed(
            f"  Your code changes {changed}, a tensor of the model that it was given and that the "
            "caller still needs. Compute with the model, and leave its weights as they are."
            f"\n{describe(inputs)}"
        )
    for name, value in inputs.items():
        if not _same(given[name], value):
            advice = (
                "Create a new tensor instead of writing into this one: avoid += and methods whose "
                "name ends in _."
                if isinstance(value, Tensor)
                else "list(...) and dict(...) copy only the container: clone the tensors in it, or "
                "create new ones instead of using += and methods whose name ends in _."
                if _contains_tensors(value)
                else "Change a copy instead: list(...) or dict(...)."
            )
            raise CheckFailed(
                f"  Your code changes its input {name}, which the caller still needs. {advice}"
                f"\n{describe(inputs)}"
            )
    return answer


def call_twice(candidate: object, inputs: Mapping[str, object]) -> object:
    """Call the candidate twice; both calls must return the same tensors and plain values."""
    first, second = call(candidate, inputs), call(candidate, inputs)
    if _is_plain(first) and _is_plain(second) and not _alike(first, second):
        raise CheckFailed(
            "  Called twice with the same inputs, your code gives two different answers. Does a "
            "call change something that the next call uses, or does the result depend on the order "
            "of a set?"
            f"\n{describe(inputs)}"
        )
    for one, other in zip(_tensors(first), _tensors(second), strict=False):
        if one.shape != other.shape or not torch.allclose(one, other, RTOL, ATOL, equal_nan=True):
            raise CheckFailed(
                "  Called twice with the same inputs, your code gives two different answers. Does "
                "it use dropout or other random numbers, or does a call change something that the "
                "next call uses?"
                f"\n{describe(inputs)}"
            )
    return first


def _tensors(answer: object) -> list[Tensor]:
    answers = answer if isinstance(answer, tuple | list) else (answer,)
    return [
        value.detach()
        for value in answers
        if type(value) is Tensor and value.layout == torch.strided
    ]


def _copy(value: object) -> object:
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_copy(item) for item in value)  # type: ignore[call-arg, attr-defined]
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    return set(value) if type(value) is set else value


def _same(one: object, other: object) -> bool:
    """Return whether the copy that the candidate received still equals the original."""
    if isinstance(other, Tensor):
        return isinstance(one, Tensor) and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    return one is other or bool(one == other)


def _contains_tensors(value: object) -> bool:
    """Return whether a value or, in lists, tuples and dicts, any entry of it is a tensor."""
    if isinstance(value, dict):
        return any(map(_contains_tensors, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_contains_tensors, value))
    return isinstance(value, Tensor)


def _raised(error: BaseException, inputs: Mapping[str, object]) -> CheckFailed:
    text = f"  Your code raises {type(error).__name__}: {str(error).strip() or '(no message)'}"
    where = _student_frame(error)
    if where is not None:
        frame, number = where
        linecache.checkcache()
        line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
        text += f"\n  in {frame.f_code.co_name}, line {number}: {line}"
    if "torch.return_types" in str(error):
        text += "\n  With dim, max and min return values and indices: use .values."
    return CheckFailed(f"{text}\n{describe(inputs)}")


def _unwritten(error: BaseException) -> str:
    """Return the name of the student's function that raised the error, with its class."""
    where = _student_frame(error)
    return where[0].f_code.co_qualname.rpartition("<locals>.")[2] if where else ""


def _student_frame(error: BaseException) -> tuple[FrameType, int] | None:
    """Return the innermost frame that is neither in this package nor in a library, and its line."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if not frame.f_code.co_filename.startswith(own_functions.LIBRARIES):
            return frame, line
    return None


# Comparing answers


def expect_pair(
    answer: object, names: tuple[str, str], inputs: Mapping[str, object]
) -> tuple[object, object]:
    """Return the answer if it is a tuple or list of two."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise CheckFailed(
            f"  Expected a pair, `return {names[0]}, {names[1]}`; got {_kind(answer)}\n"
            + describe(inputs)
        )
    return answer[0], answer[1]


def plain_number(value: object) -> int | float | None:
    """Return a number, or a tensor of one entry, as a Python number; None for anything else."""
    if type(value) is Tensor and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else None


def in_32_bits(answer: object) -> object:
    """Convert float64 to float32, where either precision is right."""
    return answer.float() if type(answer) is Tensor and answer.dtype == torch.float64 else answer


def expect_tensor(
    answer: object, shape: Iterable[int], what: str, inputs: Mapping[str, object], hint: str = ""
) -> Tensor:
    """Return the answer, detached, if it is a plain tensor of that shape with finite values."""
    answer = plain_tensor(answer, what, inputs)
    shape = tuple(shape)
    if tuple(answer.shape) != shape:
        raise CheckFailed(
            f"  The shape of {what} is {tuple(answer.shape)}, expected {shape}."
            + (f" {hint}" if hint else "")
            + f"\n{describe(inputs)}"
        )
    if not answer.isfinite().all():
        value = "NaN" if answer.isnan().any() else "infinity"
        raise CheckFailed(f"  There is {value} in {what}.\n{describe(inputs)}")
    return answer


def plain_tensor(answer: object, what: str, inputs: Mapping[str, object]) -> Tensor:
    """Return the answer, detached, if it is a dense tensor of dtype float32."""
    # Exactly a tensor: a subclass could answer every comparison as it likes.
    if type(answer) is not Tensor and type(answer) is not nn.Parameter:
        raise CheckFailed(f"  Expected {what} as a torch.Tensor, got {_kind(answer)}")
    if answer.layout != torch.strided:
        raise CheckFailed(
            f"  {what[0].upper()}{what[1:]}: the layout is {answer.layout}, expected a dense "
            f"tensor. Convert it with .to_dense().\n{describe(inputs)}"
        )
    if answer.dtype != torch.float32:
        raise CheckFailed(
            f"  The dtype of {what} is {answer.dtype}, expected torch.float32 as in the inputs."
            f"\n{describe(inputs)}"
        )
    return answer.detach()


def expect_equal(
    answer: object,
    expected: Tensor,
    what: str,
    inputs: Mapping[str, object],
    twins: Iterable[Twin] = (),
    hint: str = "",
) -> None:
    """Reject an answer other than `expected`; name the first known mistake that equals it."""
    got = plain_tensor(answer, what, inputs)
    if got.shape == expected.shape and torch.allclose(got, expected, RTOL, ATOL):
        return
    diagnosis = _diagnose(got, twins, inputs)
    if not diagnosis:
        expect_tensor(got, expected.shape, what, inputs, hint)
        diagnosis = f"The values of {what} are not the expected ones."
    raise CheckFailed(f"  {diagnosis}\n{describe(inputs)}\n{_difference(got, expected)}")


def _diagnose(got: Tensor, twins: Iterable[Twin], inputs: Mapping[str, object]) -> str:
    for twin in twins:
        try:
            wrong = twin.answer(*(_copy(value) for value in inputs.values()))
        except (RuntimeError, IndexError, ValueError):  # it does not apply to these inputs
            continue
        if (
            isinstance(wrong, Tensor)
            and got.shape == wrong.shape
            and torch.allclose(got, wrong.detach(), RTOL, ATOL, equal_nan=True)
        ):
            return twin.diagnosis
    return ""


def expect_value(
    answer: object,
    expected: object,
    what: str,
    inputs: Mapping[str, object],
    twins: Iterable[Twin] = (),
    hint: str = "",
) -> None:
    """Reject a plain value other than `expected`; name the first known mistake that equals it.

    Plain values are strings, numbers, None, and lists, tuples, sets and dicts of these. A tuple is
    accepted for a list and a Counter for a dict. Integers are compared exactly, floats with the
    tolerances of tensors.
    """
    if _alike(answer, expected):
        return
    diagnosis = ""
    for twin in twins:
        try:
            wrong = twin.answer(*(_copy(value) for value in inputs.values()))
        except (ValueError, LookupError, TypeError):  # it does not apply to these inputs
            continue
        if _alike(answer, wrong):
            diagnosis = twin.diagnosis
            break
    if not diagnosis:
        wanted = next((kind for kind in _KINDS if isinstance(expected, kind)), type(expected))
        if not isinstance(answer, _KINDS.get(wanted, wanted)):
            article = "an" if wanted.__name__[0] in "aeiou" else "a"
            raise CheckFailed(
                f"  Expected {what} as {article} {wanted.__name__}, got {_kind(answer)}"
                f"\n{describe(inputs)}"
            )
        diagnosis = f"This is not the expected value of {what}." + (f" {hint}" if hint else "")
    raise CheckFailed(f"  {diagnosis}\n{describe(inputs)}\n{_first_difference(answer, expected)}")


_KINDS: dict[type, tuple[type, ...]] = {
    list: (list, tuple),
    tuple: (list, tuple),
    dict: (dict,),
    set: (set, frozenset),
    bool: (bool,),
    int: (numbers.Integral,),
    float: (numbers.Real,),
}
"""The types that are accepted for a plain value of each type."""


def _is_plain(value: object) -> bool:
    """Return whether a value consists of exactly these types; a subclass could fake equality."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_plain, value))  # type: ignore[call-overload]
    if isinstance(value, dict):
        return all(map(_is_plain, dict.keys(value))) and all(map(_is_plain, dict.values(value)))
    return value is None or type(value) in (str, bytes, bool) or plain_number(value) is not None


def _alike(one: object, other: object) -> bool:
    if not (_is_plain(one) and _is_plain(other)):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            dict.__contains__(one, key) and _alike(dict.__getitem__(one, key), value)
            for key, value in dict.items(other)
        )
    first, second = plain_number(one), plain_number(other)
    if first is not None and second is not None:
        if first == second or (first != first and second != second):  # infinity; NaN twice
            return True
        if isinstance(first, int) and isinstance(second, int):
            return False
        if math.isinf(second):  # every number is within a relative tolerance of infinity
            return False
        return bool(abs(first - second) <= ATOL + RTOL * abs(second))
    if isinstance(one, set | frozenset) and isinstance(other, set | frozenset):
        return one == other
    return type(one) is type(other) and one == other


def _first_difference(got: object, expected: object) -> str:
    """Show two plain values: small ones completely, large ones at the first difference."""
    place = ""
    while max(len(repr(got)), len(repr(expected))) > _LONG:
        steps: list[tuple[object, object, object]] = []
        if isinstance(got, list | tuple) and isinstance(expected, list | tuple):
            absent = _Words("nothing (the end is reached)")
            pairs = enumerate(itertools.zip_longest(got, expected, fillvalue=absent))
            steps = [(index, *pair) for index, pair in pairs]
        elif isinstance(got, dict) and isinstance(expected, dict):
            absent = _Words("nothing (the key is missing)")
            steps = [(k, got.get(k, absent), expected.get(k, absent)) for k in {**expected, **got}]
        steps = [step for step in steps if not _alike(step[1], step[2])]
        if not steps:
            break
        step, got, expected = steps[0]
        place += f"[{step!r}]"
    place = f"at {place} " if place else ""
    return f"  got         {place}{show(got)}\n  expected    {place}{show(expected)}"


class _Words(str):
    """Text that a message shows without quotation marks."""

    __repr__ = str.__str__


def expect_gradients(
    output: Tensor, sources: Mapping[str, Tensor], nan: str = ""
) -> dict[str, Tensor]:
    """Return the gradients of the output with respect to the sources, by name.

    Rejects the output unless a finite, nonzero gradient reaches each source.
    """
    if not output.requires_grad:
        raise CheckFailed(
            "  The values are right, but no gradient flows through them, so nothing could be "
            "learned. Does your code use .item(), .detach(), .data, torch.tensor(...) or "
            "torch.no_grad()?"
        )
    try:
        gradients = torch.autograd.grad(_goal(output), list(sources.values()), allow_unused=True)
    except RuntimeError as error:
        raise CheckFailed(
            "  The values are right, but the backward pass through them fails. Does your code "
            "overwrite a tensor that the gradient needs, with +=, /= or a method whose name ends "
            f"in _? PyTorch says: {str(error).partition(':')[0]}."
        ) from None
    for name, gradient in zip(sources, gradients, strict=True):
        if gradient is None or not gradient.count_nonzero():
            raise CheckFailed(
                f"  The values are right, but no gradient reaches {name}, so nothing before it "
                "can be trained. Does .item(), .detach(), .data or torch.tensor(...) interrupt the "
                "computation graph?"
            )
        if not gradient.isfinite().all():
            raise CheckFailed(
                f"  The values are right, but the gradient of {name} contains NaN or infinity.{nan}"
            )
    return dict(zip(sources, gradients, strict=True))


def expect_gradients_through(
    candidate: object,
    inputs: Mapping[str, Tensor],
    sources: Mapping[str, Tensor],
    pick: Callable[..., Tensor] = lambda answer: answer,
    nan: str = "",
    slopes: bool = True,
) -> None:
    """Call the candidate on the inputs themselves and check the gradients of one output.

    The gradient of a source that is an input must also agree with finite differences. This is
    skipped if `nan`, a hint for difficult inputs, is given, because the output may have no slope
    there. A check that itself names the missing part of a gradient passes ``slopes=False``.
    """

    def on_the_inputs_themselves(*_: Tensor) -> object:
        return candidate(*inputs.values())  # type: ignore[operator]

    answer = call(on_the_inputs_themselves, inputs)
    gradients = expect_gradients(pick(answer), sources, nan=nan)
    for name, source in sources.items():
        if slopes and not nan and any(value is source for value in inputs.values()):
            _expect_slope(candidate, inputs, name, source, gradients[name], pick)


def _goal(output: Tensor) -> Tensor:
    """Return a weighted sum of an output; a plain sum of attention weights is constant."""
    return (output * torch.linspace(-1, 1, output.numel()).reshape(output.shape)).sum()


def _expect_slope(
    candidate: object,
    inputs: Mapping[str, object],
    name: str,
    source: Tensor,
    gradient: Tensor,
    pick: Callable[..., Tensor],
) -> None:
    """Reject a gradient that disagrees with central differences in a random direction.

    A slope that seems to disagree is measured again with another step size. If the two slopes
    differ, as at a kink or a jump, or if rounding dominates, the gradient is accepted.
    """
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        direction = torch.randn(source.shape, generator=generator).to(source.dtype)

        def moved(by: float, along: Tensor = direction) -> float:
            there = source.detach() + by * along
            given = {n: there if value is source else value for n, value in inputs.items()}
            return float(_goal(pick(call(candidate, given)).detach().double()))

        def slope(step: float, at: Callable[[float], float] = moved) -> float:
            return (at(step) - at(-step)) / (2 * step)

        said = float((gradient * direction).sum())
        measured = slope(1e-2)
        if abs(said - measured) <= 0.1 * max(abs(said), abs(measured)):
            continue
        again = slope(2e-2)
        size = max(abs(said), abs(measured), abs(again))
        if abs(again - measured) > 0.02 * size or size < 1e-3 * (1 + abs(moved(0.0))):
            continue
        if abs(said - measured) > 0.1 * size:
            raise CheckFailed(
                f"  The values are right, but the gradient of {name} is not: a part of it is "
                f"missing. Is one of the paths from {name} to the answer interrupted by .detach(), "
                f".data, .item() or torch.no_grad()?\n  measured    slope by finite differences "
                f"{measured:.4g}, slope by the gradient {said:.4g}"
            )


# Messages


def describe(inputs: Mapping[str, object]) -> str:
    """Return the inputs, one per line: small tensors completely, large ones by their shape."""
    lines = []
    for name, value in inputs.items():
        if not isinstance(value, Tensor):
            lines.append(f"{name} = {show(value)}")
        elif value.numel() > _FEW:
            lines.append(f"{name}: shape {tuple(value.shape)}")
        else:
            lines.append(f"{name}: shape {tuple(value.shape)}, {show(value)}")
    return "\n".join(
        f"  {'called with' if not i else '':11} {line}" for i, line in enumerate(lines)
    )


def show(value: object, nested: bool = False) -> str:
    """Return a value as a message shows it; `nested` is for an entry of a list or tuple."""
    if isinstance(value, Tensor):
        if value.numel() > _FEW:
            return f"a tensor of shape {tuple(value.shape)}"
        return str(_rounded(value.detach().tolist()))
    if isinstance(value, float):
        return f"{value:.4g}"
    text = repr(value)
    if isinstance(value, list | tuple) and ("\n" in text or (nested and _contains_tensors(value))):
        items = ", ".join(show(item, nested=True) for item in value)
        text = f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if "\n" in text and isinstance(value, dict):
        text = f"{{{', '.join(f'{key!r}: {show(each)}' for key, each in value.items())}}}"
    if "\n" in text and isinstance(value, nn.Module):
        text = f"a module of the class {type(value).__name__}"
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def _wrapped(line: str) -> str:
    """Wrap a long line of prose; tables and values are not changed."""
    if len(line) <= 96 or line.startswith("    ") or line.startswith(_VALUES):
        return line
    return textwrap.fill(
        line.strip(),
        96,
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,  # "Post-norm" stays on one line
    )


def _rounded(value: object) -> object:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _difference(got: Tensor, expected: Tensor) -> str:
    if got.shape == expected.shape and got.numel() > _FEW:
        differs = ~torch.isclose(got, expected, RTOL, ATOL)
        index = tuple(differs.nonzero()[0].tolist())
        place = f"at {list(index)} "
        return f"  got         {place}{got[index]:.4g}\n  expected    {place}{expected[index]:.4g}"
    return f"  got         {show(got)}\n  expected    {show(expected)}"


def _kind(value: object) -> str:
    if value is None:
        return "None: is there a `return`?"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{'an' if type(value).__name__[0].lower() in 'aeiou' else 'a'} {type(value).__name__}"


def _name(candidate: object) -> str:
    return getattr(candidate, "__name__", "")
