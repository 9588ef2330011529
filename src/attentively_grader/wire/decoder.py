"""Decode plain data into values."""

import array
import collections
import datetime
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attentively_grader.wire import pandas_data
from attentively_grader.wire.messages import UnexpectedValue, WireError
from attentively_grader.wire.plain_data import (
    MANY,
    SCALARS,
    TENSOR_DTYPES,
    Node,
    array_dtype,
)

if TYPE_CHECKING:
    from attentively_grader.wire.encoder import Encoder

_NAMED_DTYPES = {str(each): each for each in vars(torch).values() if isinstance(each, torch.dtype)}
_MOST_SPARSE = 2**26
_SEQUENCES: dict[str, Callable[..., Any]] = {"t": tuple, "f": frozenset, "size": torch.Size}


class Decoder:
    """Decodes the plain data of one message; raises `WireError` for anything unexpected."""

    def __init__(
        self,
        buffers: Sequence[bytes | bytearray],
        other: Callable[["Decoder", list[Node]], Any] | None = None,
        known: Iterable[Any] = (),
    ) -> None:
        self.buffers = buffers
        self.other = other
        self.known: Any = [*known]
        """The objects that a message may refer to, by number."""
        self.objects: list[Any] = []
        self.computed: Sequence[Tensor] = []
        """The local tensors for those tensors that have a computation graph at the other end."""
        self.leaves: dict[int, tuple[Tensor, int]] = {}
        self.question: "Encoder | None" = None
        self.modes: list[Any] = []
        self.made: list[Any] = []
        """New objects, kept alive until the whole message is decoded."""
        self.live: list[Any] = []
        """Objects in the value that are not plain data."""
        self.arrays: list[Any] = []
        """Tensors, arrays, DataFrames and Series in the value."""
        self._left = MANY

    def decode(self, node: Node) -> Any:
        """Return the value of an encoded node."""
        try:
            return self._decode(node)
        except WireError:
            raise
        except (RecursionError, MemoryError, *_MALFORMED) as error:
            raise WireError(f"a message is malformed ({type(error).__name__})") from None

    def _decode(self, node: Node) -> Any:
        if not isinstance(node, list):
            if isinstance(node, dict):
                raise WireError("a message is malformed")
            return node
        self._left -= 1
        if self._left < 0:
            raise WireError("a value is too large")
        decode = _DECODERS.get(node[0])
        if decode is not None:
            return decode(self, node)
        if self.other is None:
            raise WireError(f"a message has the unknown tag {node[0]!r:.20}")
        return self.other(self, node)

    def scope(self) -> "Decoder":
        """Return a decoder for the same message with a separate numbering of objects."""
        scope = Decoder(self.buffers, self.other)
        scope.computed = self.computed
        return scope

    def add(self, value: Any) -> Any:
        """Add an object to the numbering, in the same order as the encoder."""
        self.objects.append(value)
        return value

    def fill(self, value: Any, content: list[Node]) -> None:
        """Decode content into an empty container."""
        if pandas_data.is_pandas(value):
            pandas_data.fill(value, tuple(map(self._decode, content)))
            self.arrays.append(value)
        elif isinstance(value, list):
            value.extend(map(self._decode, content))
        elif isinstance(value, dict):
            for key, item in content:
                key = self._decode(key)
                value[key] = self._decode(item)
        else:
            value.update(map(self._decode, content))

    def array(self, dtype: str, shape: list[int], place: int) -> np.ndarray:
        """Decode an array."""
        kind = array_dtype(dtype)
        raw = np.frombuffer(self._buffer(place), kind)
        if kind.kind == "b":
            raw = raw.view(np.uint8) != 0  # another byte than 0 and 1 would be undefined
        return raw.reshape(_shape(shape)).copy()

    def tensor(self, dtype: Any, shape: list[int], place: Any) -> Tensor:
        """Decode a tensor."""
        if dtype == "sparse":
            indices, values = self.tensor(*place[:3]), self.tensor(*place[3:])
            size = _shape(shape)
            if math.prod(size) > _MOST_SPARSE:
                raise WireError("a sparse tensor is too large")
            return torch.sparse_coo_tensor(indices, values, size, check_invariants=True)
        kind, size = TENSOR_DTYPES[f"torch.{dtype}"], _shape(shape)
        raw = self._buffer(place)
        if not raw and 0 in size:
            return torch.empty(size, dtype=kind)
        if kind is torch.bool:  # another byte than 0 and 1 would be undefined
            return (torch.frombuffer(bytearray(raw), dtype=torch.uint8) != 0).reshape(size)
        return torch.frombuffer(bytearray(raw), dtype=kind).reshape(size)

    def _buffer(self, place: int) -> bytes | bytearray:
        return self.buffers[_index(place)]

    def _back(self, node: list[Node]) -> Any:
        values = self.objects if node[0] == "=" else self.known
        return values[_index(node[1])]

    def _container(self, node: list[Node]) -> Any:
        value = self.add(_CONTAINERS[node[0]]())
        self.fill(value, node[1])
        return value

    def _sequence(self, node: list[Node]) -> Any:
        return _SEQUENCES[node[0]](map(self._decode, node[1]))

    def _tensor(self, node: list[Node]) -> Tensor:
        if node[0] == "G":
            value = self.computed[_index(node[1])]
        else:
            value = self.tensor(*node[1:]).requires_grad_(node[0] == "L")
        self.arrays.append(value)
        return self.add(value)

    def _array(self, node: list[Node]) -> np.ndarray:
        value = self.array(*node[1:])
        self.arrays.append(value)
        return self.add(value)

    def _objects(self, node: list[Node]) -> np.ndarray:
        shape, items = _shape(node[1]), node[2]
        if math.prod(shape) != len(items):
            raise WireError("a message is malformed")
        flat = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):
            flat[place] = self._decode(item)
        return flat.reshape(shape)


def _index(place: Any) -> int:
    if type(place) is not int or place < 0:
        raise WireError("a message is malformed")
    return place


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError("a message is malformed")
    return tuple(shape)


def _int(node: list[Node]) -> int:
    if type(node[1]) is not str or len(node[1]) > 1_000_000:
        raise WireError("a number is too large")
    return int(node[1], 16)


def _range(node: list[Node]) -> range:
    if not all(type(each) is int for each in node[1:]):
        raise WireError("a message is malformed")
    value = range(*node[1:])
    if len(value) > MANY:
        raise UnexpectedValue(f"a range of {len(value)} elements is too large; most is {MANY}")
    return value


def _decimal(node: list[Node]) -> Decimal:
    if type(node[1]) is not str or len(node[1]) > 10_000:
        raise WireError("a number is too large")
    try:
        value = Decimal(node[1])
    except ArithmeticError:
        raise WireError("a message is malformed") from None
    if value.is_finite() and abs(value.adjusted()) > 10_000:
        raise UnexpectedValue("a Decimal with an exponent above 10,000 is too large")
    return value


def _fraction(decoder: Decoder, node: list[Node]) -> Fraction:
    numerator, denominator = map(decoder._decode, node[1])
    if type(numerator) is not int or type(denominator) is not int or denominator == 0:
        raise WireError("a message is malformed")
    return Fraction(numerator, denominator)


def _memoryview(decoder: Decoder, node: list[Node]) -> Any:
    if node[2] not in [*"bBhHiIlLqQfd?c"]:
        raise WireError("a message is malformed")
    return memoryview(bytes(decoder._buffer(node[1]))).cast(node[2])


def _typed_array(decoder: Decoder, node: list[Node]) -> Any:
    if node[2] not in [*"bBhHiIlLqQfd"]:
        raise WireError("a message is malformed")
    return array.array(node[2], bytes(decoder._buffer(node[1])))


def _around(decoder: Decoder, node: list[Node], around: Any, kind: type) -> Any:
    """Return an object of `collections` around a value, which is no dict, list or string."""
    around.data = decoder._decode(node[1])
    if type(around.data) is not kind:
        raise WireError("a message is malformed")
    return around


@functools.lru_cache(maxsize=1000)
def _named(name: Any, *fields: Any) -> Any:
    """Return a class of named tuples, the same for the same names."""
    return collections.namedtuple(name, fields)


def _deque(decoder: Decoder, node: list[Node]) -> Any:
    return collections.deque(map(decoder._decode, node[1]), node[2])


_CONTAINERS: dict[str, Callable[[], Any]] = {
    "DataFrame": functools.partial(pandas_data.empty, "DataFrame"),
    "Series": functools.partial(pandas_data.empty, "Series"),
    "l": list,
    "d": dict,
    "s": set,
    "od": collections.OrderedDict,
    "counter": collections.Counter,
}
_DECODERS: dict[Any, Callable[[Decoder, list[Node]], Any]] = {
    **dict.fromkeys(_CONTAINERS, Decoder._container),
    **dict.fromkeys(_SEQUENCES, Decoder._sequence),
    **dict.fromkeys("=<", Decoder._back),
    **dict.fromkeys("TLG", Decoder._tensor),
    "i": lambda decoder, node: _int(node),
    "c": lambda decoder, node: complex(node[1], node[2]),
    "b": lambda decoder, node: bytes(decoder._buffer(node[1])),
    "ba": lambda decoder, node: bytearray(decoder._buffer(node[1])),
    "slice": lambda decoder, node: slice(*map(decoder._decode, node[1])),
    "range": lambda decoder, node: _range(node),
    "iterator": lambda decoder, node: iter([*map(decoder._decode, node[1])]),
    "deque": _deque,
    "keys": lambda decoder, node: dict.fromkeys(map(decoder._decode, node[1])).keys(),
    "values": lambda decoder, node: dict(enumerate(map(decoder._decode, node[1]))).values(),
    "items": lambda decoder, node: dict(map(decoder._decode, node[1])).items(),
    "memoryview": _memoryview,
    "array": _typed_array,
    "index": lambda decoder, node: pandas_data.index_of((*map(decoder._decode, node[1]),)),
    "named": lambda decoder, node: _named(node[1], *node[2])(*map(decoder._decode, node[3])),
    "UserDict": lambda decoder, node: _around(decoder, node, collections.UserDict(), dict),
    "UserList": lambda decoder, node: _around(decoder, node, collections.UserList(), list),
    "UserString": lambda decoder, node: _around(decoder, node, collections.UserString(""), str),
    "objects": Decoder._objects,
    "fraction": _fraction,
    "decimal": lambda decoder, node: _decimal(node),
    "date": lambda decoder, node: datetime.date.fromisoformat(node[1]),
    "time": lambda decoder, node: datetime.time.fromisoformat(node[1]),
    "datetime": lambda decoder, node: datetime.datetime.fromisoformat(node[1]),
    "timedelta": lambda decoder, node: datetime.timedelta(*node[1:]),
    "dtype": lambda decoder, node: _NAMED_DTYPES[node[1]],
    "device": lambda decoder, node: torch.device(str(node[1])),
    "...": lambda decoder, node: ...,
    "no": lambda decoder, node: NotImplemented,
    "n": lambda decoder, node: np.frombuffer(bytes.fromhex(node[2]), _number_type(node[1])).reshape(
        ()
    )[()],
    "a": Decoder._array,
}
_MALFORMED = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    RuntimeError,
    OverflowError,
)


def _number_type(name: str) -> np.dtype:
    kind = array_dtype(name)
    if kind.type not in SCALARS:
        raise WireError("a message is malformed")
    return kind
