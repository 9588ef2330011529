"""Compare an answer with the expected one, and say what differs.

A comparison that fails raises a `CheckFailed`, whose text is the message for the student.
"""

import contextlib
import itertools
import math
import numbers
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
import torch
from torch import Tensor, nn

RTOL, ATOL = 1e-4, 1e-5
"""Tolerances for 32-bit values; they allow for any order of summation."""

FEW = 12
"""Tensors with at most so many entries are shown completely."""
SCALARS = (str, int, float, bool, type(None))
"""Types whose values contain nothing and cannot change."""
_LONG = 160  # plain values with at most so many characters are shown completely
_VALUES = ("  called with", "  got", "  expected", "  measured", "  sentence")


class Verdict(AssertionError):  # noqa: N818  it may also say "not yet"
    """The result of a check that did not pass; notebooks show its text and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class CheckFailed(Verdict):
    """The answer is implemented, but not right."""


class FloatForIntegerError(CheckFailed):
    """The values are right, but a float, such as 3.0, is given for a count or an index."""


class NotImplementedYet(Verdict):
    """The answer is not implemented yet."""


class Twin(NamedTuple):
    """A known mistake: the diagnosis for the student, and a function with this mistake."""

    diagnosis: str
    answer: Callable[..., object]


Diagnose = Callable[[Any], str]
"""Returns the words for the mistake that leads to an answer; "" if it is unknown."""


def known(said: str, *wrong: Callable[..., object]) -> list[Twin]:
    """Return several implementations of one mistake."""
    return [Twin(said, answer) for answer in wrong]


@dataclass(frozen=True)
class Fresh:
    """A value that is made for each call: a small model, or what is too large to be stored."""

    maker: Callable[..., Any]
    """A function or class of the checks, or of PyTorch."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments."""
    text: str = ""
    """What messages show; the representation of the value if it is empty."""

    def make(self) -> Any:
        """Return a new value."""
        return self.maker(**{name: copied(value) for name, value in self.given.items()})

    def __repr__(self) -> str:
        return self.text or show(self.make())


class Renewable:
    """An object of a case that its calls change; each call of an answer receives a new one."""

    def renewed(self) -> object:
        """Return the object for the next call."""
        raise NotImplementedError


class InRows:
    """An object of a case that messages show row by row."""

    rows: Mapping[Any, object]


# Comparing answers


def equal(one: object, other: object, atol: float = ATOL) -> bool:
    """Return whether two answers are equal within the tolerances.

    They are tensors, dicts of tensors or plain values; `atol` is the absolute tolerance of floats.
    """
    if is_dict_of_tensors(one) and is_dict_of_tensors(other):
        return [*one] == [*other] and all(map(equal, one.values(), other.values()))
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return (
            one.shape == other.shape
            and one.dtype == other.dtype
            and torch.allclose(one.detach(), other.detach(), RTOL, ATOL, equal_nan=True)
        )
    return alike(one, other, atol)


def is_dict_of_tensors(value: object) -> TypeGuard[dict[str, Tensor]]:
    return type(value) is dict and any(isinstance(each, Tensor) for each in value.values())


def expect_pair(
    answer: object, names: tuple[str, str], inputs: Mapping[str, object]
) -> tuple[object, object]:
    """Return the answer if it is a tuple or list of two."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise CheckFailed(
            f"  Expected a pair, `return {names[0]}, {names[1]}`; got {kind_of(answer)}\n"
            + describe(inputs)
        )
    return answer[0], answer[1]


def expect_results(
    answer: object, names: tuple[str, ...], inputs: Mapping[str, object]
) -> tuple[object, ...]:
    """Return the answer if it is a tuple or list of as many results as there are names."""
    if len(names) == 2:
        return expect_pair(answer, (names[0], names[1]), inputs)
    if not isinstance(answer, tuple | list) or len(answer) != len(names):
        raise CheckFailed(
            f"  Expected {len(names)} results, `return {', '.join(names)}`; got {kind_of(answer)}\n"
            + describe(inputs)
        )
    return tuple(answer)


def listed(answer: object) -> object:
    """Return several numbers as a list: also a tensor, an array or a column of rows of one."""
    if type(answer) is Tensor or type(answer) is np.ndarray:
        return answer.flatten().tolist()
    rows = answer if isinstance(answer, list | tuple) else []
    if rows and all(isinstance(row, list | tuple) and len(row) == 1 for row in rows):
        return [row[0] for row in rows]
    return answer


def plain_number(value: object) -> int | float | None:
    """Return a number, or a tensor of one entry, as a Python number; None for anything else."""
    if type(value) is Tensor and value.numel() == 1:
        value = value.item()
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else None


def as_plain(answer: object, expected: object) -> object:
    """Return tensors, arrays and NumPy numbers as Python's lists and numbers, as in `expected`."""
    if isinstance(answer, np.generic):
        return answer.item()
    if type(answer) in (Tensor, nn.Parameter, np.ndarray):
        array: Any = answer
        if isinstance(expected, list | tuple):
            return array if getattr(array, "is_sparse", False) else array.tolist()
        is_one = math.prod(array.shape) == 1 and isinstance(expected, numbers.Real | None)
        return array.item() if is_one and not getattr(array, "requires_grad", False) else array
    if type(answer) in (list, tuple, torch.Size):
        several = expected if isinstance(expected, list | tuple) else ()
        last = several[-1] if several else None
        entries = itertools.chain(several, itertools.repeat(last))
        return (list if type(answer) is list else tuple)(map(as_plain, cast(Any, answer), entries))
    if isinstance(answer, dict):
        named = expected if isinstance(expected, dict) else {}
        return {key: as_plain(each, named.get(key)) for key, each in dict.items(answer)}
    return answer


def in_32_bits(answer: object) -> object:
    """Convert float64 to float32, where either precision is right."""
    if is_dict_of_tensors(answer):
        return {name: in_32_bits(value) for name, value in answer.items()}
    return answer.float() if type(answer) is Tensor and answer.dtype == torch.float64 else answer


def in_numbers(
    answer: object, what: str, inputs: Mapping[str, object], truths: bool = False
) -> object:
    """Convert a tensor, or nested lists, to nested lists of numbers; True and False to 1 and 0.

    If they stand for `truths`, 1.0 and 0.0 are converted too.
    """
    answer = as_plain(answer, [])
    if isinstance(answer, list | tuple):
        return [in_numbers(each, what, inputs, truths) for each in answer]
    number = int(answer) if isinstance(answer, bool) else plain_number(answer)
    if number is None:
        raise CheckFailed(
            f"  Expected {what} as a tensor, got {kind_of(answer)}\n{describe(inputs)}"
        )
    return int(number) if truths and number in (0, 1) else number


def _sorted(answer: object, what: str, inputs: Mapping[str, object]) -> object:
    """Sort different values that come in any order, some of them perhaps twice."""
    if not isinstance(answer, list | tuple | set | frozenset):
        return answer
    with contextlib.suppress(TypeError):  # values without an order
        return sorted(set(answer))
    return list(answer)


READ: dict[str, Callable[[object, str, Mapping[str, object]], object]] = {
    "numbers": in_numbers,
    "truths": partial(in_numbers, truths=True),
    "any order": _sorted,
}
"""How a result may be read before it is compared, where it may have several forms."""


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
        raise CheckFailed(f"  Expected {what} as a torch.Tensor, got {kind_of(answer)}")
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
    diagnose: Diagnose = lambda got: "",
    general: str = "",
) -> None:
    """Reject an answer other than `expected`; name the first known mistake that equals it.

    `diagnose` names the mistake where `twins` do not, and `general` says what is wrong where no
    known mistake fits.
    """
    got = plain_tensor(answer, what, inputs)
    if got.shape == expected.shape and torch.allclose(got, expected, RTOL, ATOL):
        return

    def same(wrong: object) -> bool:
        return (
            isinstance(wrong, Tensor)
            and got.shape == wrong.shape
            and torch.allclose(got, wrong.detach(), RTOL, ATOL, equal_nan=True)
        )

    errors = (RuntimeError, IndexError, ValueError)
    diagnosis = _known_mistake(twins, inputs, same, errors) or diagnose(got)
    if not diagnosis:
        # An infinity that is expected is no fault.
        faulty = got.masked_fill(got == expected, 0) if got.shape == expected.shape else got
        expect_tensor(faulty, expected.shape, what, inputs, hint)
        diagnosis = general or f"The values of {what} are not the expected ones."
    raise CheckFailed(f"  {diagnosis}\n{describe(inputs)}\n{_difference(got, expected)}")


def _known_mistake(
    twins: Iterable[Twin],
    inputs: Mapping[str, object],
    same: Callable[[object], bool],
    errors: tuple[type[Exception], ...],
) -> str:
    """Return the diagnosis of the first known mistake with the same answer as the candidate.

    A known mistake that raises one of the `errors` does not apply to these inputs.
    """
    for twin in twins:
        try:
            wrong = twin.answer(*(copied(value) for value in inputs.values()))
        except errors:
            continue
        if same(wrong):
            return twin.diagnosis
    return ""


def expect_value(
    answer: object,
    expected: object,
    what: str,
    inputs: Mapping[str, object],
    twins: Iterable[Twin] = (),
    hint: str = "",
    diagnose: Diagnose = lambda got: "",
    general: str = "",
    atol: float = ATOL,
) -> None:
    """Reject a plain value other than `expected`; name the first known mistake that equals it.

    Plain values are strings, numbers, None, and lists, tuples, sets and dicts of these. A tuple is
    accepted for a list, a Counter for a dict, and a tensor or an array for a number or a list of
    numbers. Integers are compared exactly, and no float is accepted for them. Floats are compared
    with the relative tolerance of tensors and the absolute tolerance `atol`.
    """
    answer = as_plain(answer, expected)
    if alike(answer, expected, atol):
        refuse_floats(answer, expected, what, inputs)
        return
    errors = (ValueError, LookupError, TypeError)
    diagnosis = _known_mistake(
        twins, inputs, partial(alike, answer, atol=atol), errors
    ) or diagnose(answer)
    if not diagnosis:
        wanted = next((kind for kind in _KINDS if isinstance(expected, kind)), type(expected))
        if expected is not None and not isinstance(answer, _KINDS.get(wanted, wanted)):
            article = "an" if wanted.__name__[0] in "aeiou" else "a"
            raise CheckFailed(
                f"  Expected {what} as {article} {wanted.__name__}, got {kind_of(answer)}"
                f"\n{describe(inputs)}"
            )
        usual = f"This is not the expected value of {what}." + (f" {hint}" if hint else "")
        diagnosis = general or usual
    raise CheckFailed(f"  {diagnosis}\n{describe(inputs)}\n{_first_difference(answer, expected)}")


def refuse_floats(
    answer: object, expected: object, what: str, inputs: Mapping[str, object]
) -> None:
    """Refuse a float, such as 3.0, where an integer is expected."""
    for at, value in _floats(answer, expected):
        form = f"with integers, got {value!r} at {at}" if at else f"as an int, got {value!r}"
        raise FloatForIntegerError(
            f"  Expected {what} {form}, a float. A count or an index is exact: / returns a float "
            f"even if the result is whole; use // or int(...).\n{describe(inputs)}"
        )


def _floats(answer: object, expected: object, at: str = "") -> Iterator[tuple[str, float]]:
    """Yield the floats of an answer where an integer is expected, and their positions."""
    if isinstance(answer, float) and type(expected) is int:
        yield at, answer
    elif isinstance(answer, list | tuple) and isinstance(expected, list | tuple):
        for index, pair in enumerate(zip(answer, expected, strict=False)):
            yield from _floats(*pair, f"{at}[{index}]")
    elif isinstance(answer, dict) and isinstance(expected, dict):
        for key in filter(expected.__contains__, answer):
            yield from _floats(answer[key], expected[key], f"{at}[{key!r}]")
    elif isinstance(answer, set | frozenset) and isinstance(expected, set | frozenset):
        for each in answer:
            yield from _floats(each, next(iter(expected), None), f"{at}{each!r}")


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


def is_plain(value: object) -> bool:
    """Return whether a value consists of exactly these types; a subclass could fake equality.

    A set with tensors does not, because it compares them by identity.
    """
    if isinstance(value, set | frozenset) and any(map(contains_tensors, value)):
        return False
    if type(value) in (list, tuple, set, frozenset):
        return all(map(is_plain, value))  # type: ignore[call-overload]
    if isinstance(value, dict):
        return all(map(is_plain, dict.keys(value))) and all(map(is_plain, dict.values(value)))
    return value is None or type(value) in (str, bytes, bool) or plain_number(value) is not None


def alike(one: object, other: object, atol: float = ATOL) -> bool:
    same = partial(alike, atol=atol)
    if not (is_plain(one) and is_plain(other)):
        return False
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(
            dict.__contains__(one, key) and same(dict.__getitem__(one, key), value)
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
        return bool(abs(first - second) <= atol + RTOL * abs(second))
    if isinstance(one, set | frozenset) and isinstance(other, set | frozenset):
        return one == other
    return type(one) is type(other) and one == other


def _first_difference(got: object, expected: object) -> str:
    """Show two plain values: small ones completely, large ones at the first difference."""
    place = ""
    while max(len(repr(got)), len(repr(expected))) > _LONG:
        steps: list[tuple[object, object, object]] = []
        if isinstance(got, list | tuple) and isinstance(expected, list | tuple):
            absent = unquoted("nothing (the end is reached)")
            pairs = enumerate(itertools.zip_longest(got, expected, fillvalue=absent))
            steps = [(index, *pair) for index, pair in pairs]
        elif isinstance(got, dict) and isinstance(expected, dict):
            absent = unquoted("nothing (the key is missing)")
            steps = [(k, got.get(k, absent), expected.get(k, absent)) for k in {**expected, **got}]
        steps = [step for step in steps if not alike(step[1], step[2])]
        if not steps:
            break
        step, got, expected = steps[0]
        place += f"[{step!r}]"
    place = f"at {place} " if place else ""
    shown = show(got), show(expected)
    if shown[0] == shown[1] and isinstance(got, float) and isinstance(expected, float):
        shown = f"{got:.8g}", f"{expected:.8g}"
    return f"  got         {place}{shown[0]}\n  expected    {place}{shown[1]}"


class unquoted(str):  # noqa: N801  it is called as a function
    """Text that a message shows without quotation marks."""

    __repr__ = str.__str__


def copied(value: object) -> object:
    """Return a copy for one call."""
    if type(value) in SCALARS:
        return value
    if isinstance(value, Fresh):
        return value.make()
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        items = (each if type(each) in SCALARS else copied(each) for each in value)  # type: ignore[attr-defined]
        return type(value)(items)  # type: ignore[call-arg]
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    if type(value) is set:
        return set(value)
    return value.renewed() if isinstance(value, Renewable) else value


def unchanged(one: object, other: object) -> bool:
    """Return whether the copy that the candidate received still equals the original."""
    if one is other or isinstance(other, Fresh):  # nobody else needs what was made for this call
        return True
    if isinstance(other, Tensor):
        return isinstance(one, Tensor) and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(unchanged, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(unchanged, one.values(), other.values()))
    return bool(one == other)


def contains_tensors(value: object) -> bool:
    """Return whether a value or, in lists, tuples and dicts, any entry of it is a tensor."""
    if isinstance(value, dict):
        return any(map(contains_tensors, value.values()))
    if isinstance(value, list | tuple):
        return any(map(contains_tensors, value))
    return isinstance(value, Tensor)


# Messages


def describe(inputs: Mapping[str, object]) -> str:
    """Return the inputs, one per line: small tensors completely, large ones by their shape."""
    lines = []
    for name, value in inputs.items():
        if isinstance(value, InRows):
            lines += [f"{name}[{key!r}] = {show(row)}" for key, row in value.rows.items()]
        elif not isinstance(value, Tensor):
            lines.append(f"{name} = {show(value)}")
        elif value.numel() > FEW:
            lines.append(f"{name}: shape {tuple(value.shape)}")
        else:
            lines.append(f"{name}: shape {tuple(value.shape)}, {show(value)}")
    return "\n".join(
        f"  {'called with' if not i else '':11} {line}" for i, line in enumerate(lines)
    )


def show(value: object, nested: bool = False) -> str:
    """Return a value as a message shows it; `nested` is for an entry of a list or tuple."""
    if isinstance(value, Tensor):
        if value.numel() > FEW:
            return f"a tensor of shape {tuple(value.shape)}"
        return str(_rounded(value.detach().tolist()))
    if isinstance(value, float):
        return f"{value:.4g}"
    text = repr(value)
    if isinstance(value, set | frozenset) and value:
        with contextlib.suppress(TypeError):  # values without an order
            text = f"{{{', '.join(map(show, sorted(value)))}}}"
    if isinstance(value, list | tuple) and ("\n" in text or (nested and contains_tensors(value))):
        items = ", ".join(show(item, nested=True) for item in value)
        text = f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if "\n" in text and isinstance(value, dict):
        text = f"{{{', '.join(f'{key!r}: {show(each)}' for key, each in value.items())}}}"
    if "\n" in text and isinstance(value, nn.Module):
        text = f"a module of the class {type(value).__name__}"
    return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."


def wrapped(line: str) -> str:
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
    if got.shape == expected.shape and got.numel() > FEW:
        differs = ~torch.isclose(got, expected, RTOL, ATOL)
        index = tuple(differs.nonzero()[0].tolist())
        place = f"at {list(index)} "
        return f"  got         {place}{got[index]:.4g}\n  expected    {place}{expected[index]:.4g}"
    return f"  got         {show(got)}\n  expected    {show(expected)}"


def kind_of(value: object) -> str:
    if value is None:
        return "None: is there a `return`?"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{'an' if type(value).__name__[0].lower() in 'aeiou' else 'a'} {type(value).__name__}"
