"""Encode values as plain data."""

import array
import collections
import datetime
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attentively_grader.wire import pandas_data
from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import KINDS, MANY, SCALARS, TENSOR_DTYPES, Node
from attentively_grader.wire.plain_form import Items, with_fixed_offset

_DEEP = 60
_SMALL = 2**53


class Encoder:
    """Encodes the values of one message as plain data and raw `buffers`."""

    def __init__(
        self,
        other: Callable[["Encoder", Any, int], Node] | None = None,
        known: Mapping[int, int] | None = None,
        most_bytes: int = 256 * 2**20,
    ) -> None:
        self.other = other
        self.known = known or {}
        """The numbers of the objects in the request, by `id`."""
        self.objects: list[Any] = []
        self.buffers: list[bytes | memoryview] = []
        self.computed: list[Tensor] = []
        """Tensors of the message that have a computation graph."""
        self.computed_nodes: list[Node] = []
        self.definitions: list[Node] = []
        """Definitions of objects that the other end does not know yet."""
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()
        self._left = MANY
        self._bytes_left = most_bytes

    def encode(self, value: Any, depth: int = 0) -> Node:
        """Return the encoded value; raise `WireError` if it cannot be encoded."""
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is str:
            self._bytes_left -= len(value)
            return value
        if kind is int:
            return value if -_SMALL < value < _SMALL else ["i", hex(value)]
        self._left -= 1
        if depth > _DEEP:
            raise WireError(f"a value is nested more than {_DEEP} levels deep")
        if self._left < 0 or self._bytes_left < 0:
            raise WireError("a value is too large")
        encode = _ENCODERS.get(kind)
        if encode is None:
            return self._another(value, depth)
        return encode(self, value, depth)

    def scope(self) -> "Encoder":
        """Return an encoder for the same message with a separate numbering of objects."""
        scope = Encoder(self.other, most_bytes=self._bytes_left)
        scope.buffers, scope.definitions = self.buffers, self.definitions
        scope.computed, scope.computed_nodes = self.computed, self.computed_nodes
        return scope

    def number(self, value: Any) -> Node | None:
        """Return a reference to an object encoded before; else number it and return None."""
        name = id(value)
        if name in self._open:
            raise WireError("a value contains itself")
        if name in self._numbers:
            return ["=", self._numbers[name]]
        if name in self.known:
            return ["<", self.known[name]]
        self._numbers[name] = len(self.objects)
        self.objects.append(value)
        return None

    def items(self, values: Any, depth: int) -> list[Node]:
        """Return several encoded values."""
        return [self.encode(each, depth + 1) for each in values]

    def content(self, value: Any, depth: int = 0) -> list[Node]:
        """Return the encoded content of a container."""
        if isinstance(value, dict):
            pairs = value.items()
            return [[self.encode(k, depth + 1), self.encode(v, depth + 1)] for k, v in pairs]
        if pandas_data.is_pandas(value):
            return self.items(pandas_data.parts(value), depth)
        # A student's subclass may iterate in another way.
        return self.items(list.__iter__(value) if isinstance(value, list) else value, depth)

    def buffer(self, content: bytes | memoryview) -> int:
        """Add a buffer of raw bytes and return its index."""
        self._bytes_left -= len(content)
        if self._bytes_left < 0:
            raise WireError("a value is too large")
        self.buffers.append(content)
        return len(self.buffers) - 1

    def _another(self, value: Any, depth: int) -> Node:
        if type(value) in SCALARS:
            return ["n", value.dtype.str, value.tobytes().hex()]
        if self.other is None:
            raise WireError(f"an object of the class {type(value).__name__} is not plain data")
        return self.other(self, value, depth)

    def container(self, value: Any, depth: int, original: Any = None) -> Node:
        """Encode a container, or refer to it if it was encoded before.

        `original` is the object whose plain form the container is; changes concern that object.
        """
        known = value if original is None else original
        seen = self.number(known)
        if seen is not None:
            return seen
        self._open.add(id(known))
        tag = _TAGS.get(type(value)) or type(value).__name__
        node = [tag, self.content(value, depth)]
        self._open.discard(id(known))
        return node

    def plain(self, value: Any, original: Any, depth: int) -> Node:
        """Encode the plain form of a value."""
        if _ENCODERS.get(type(value)) is Encoder.container:
            return self.container(value, depth, original)
        return self.encode(value, depth + 1)

    def pandas(self, value: Any, depth: int) -> Node:
        """Encode an object of pandas."""
        if isinstance(value, pandas_data.mutable()):
            return self.container(value, depth)
        return ["index", self.content(value, depth)]

    def named(self, value: Any, fields: Iterable[str], depth: int) -> Node:
        """Encode a named tuple by the names of its class and of its fields."""
        return ["named", type(value).__name__, list(fields), self.items(tuple(value), depth)]

    def _sequence(self, value: Any, depth: int) -> Node:
        return [_TAGS[type(value)], self.items(value, depth)]

    def _array(self, value: np.ndarray, depth: int) -> Node:
        if value.dtype.kind not in KINDS or value.dtype.hasobject:
            return self._another(value, depth)
        seen = self.number(value)
        return seen or ["a", *self.array_content(value)]

    def array_content(self, value: np.ndarray) -> list[Node]:
        """Encode the values of an array."""
        if value.nbytes > self._bytes_left:
            raise WireError("an array is too large")
        return [value.dtype.str, list(value.shape), self.buffer(value.tobytes())]

    def tensor(self, value: Tensor, depth: int) -> Node:
        """Encode a tensor by value."""
        seen = self.number(value)
        if seen is not None:
            return seen
        if not value.requires_grad or value.is_leaf:
            return ["L" if value.requires_grad else "T", *self.tensor_content(value)]
        return self.computed_tensor(value)

    def computed_tensor(self, value: Tensor) -> Node:
        """Encode a tensor that has a computation graph."""
        self.computed.append(value)
        self.computed_nodes.append(self.tensor_content(value))
        return ["G", len(self.computed) - 1]

    def tensor_content(self, value: Tensor) -> list[Node]:
        """Encode the values of a tensor."""
        value = value.detach()
        if value.layout == torch.sparse_coo:
            value = value.coalesce()
            parts = [*self.tensor_content(value.indices()), *self.tensor_content(value.values())]
            return ["sparse", list(value.shape), parts]
        if value.layout != torch.strided or value.device.type != "cpu":
            raise WireError(
                f"a tensor of layout {value.layout} on {value.device} is not plain data"
            )
        if str(value.dtype) not in TENSOR_DTYPES:
            raise WireError(f"a tensor of the dtype {value.dtype} is not plain data")
        if value.numel() * value.element_size() > self._bytes_left:
            raise WireError("a tensor is too large")
        shape = list(value.shape)
        value = value.resolve_conj().resolve_neg().reshape(-1)
        if value.stride(0) != 1:
            value = value.clone(memory_format=torch.contiguous_format)
        raw = value.view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return [str(value.dtype)[6:], shape, self.buffer(raw)]


def _tensor(encoder: Encoder, value: Tensor, depth: int) -> Node:
    if encoder.other is None:
        return encoder.tensor(value, depth)
    return encoder.other(encoder, value, depth)


_TAGS: dict[type, str] = {
    list: "l",
    tuple: "t",
    dict: "d",
    collections.defaultdict: "d",
    set: "s",
    frozenset: "f",
    torch.Size: "size",
    collections.OrderedDict: "od",
    collections.Counter: "counter",
}
_ENCODERS: dict[type, Callable[[Encoder, Any, int], Node]] = {
    **dict.fromkeys(
        (list, dict, set, collections.OrderedDict, collections.Counter), Encoder.container
    ),
    **dict.fromkeys((tuple, frozenset, torch.Size), Encoder._sequence),
    np.ndarray: Encoder._array,
    Tensor: _tensor,
    nn.Parameter: _tensor,
    complex: lambda encoder, value, depth: ["c", value.real, value.imag],
    bytes: lambda encoder, value, depth: ["b", encoder.buffer(value)],
    bytearray: lambda encoder, value, depth: ["ba", encoder.buffer(bytes(value))],
    slice: lambda encoder, value, depth: [
        "slice",
        encoder.items((value.start, value.stop, value.step), depth),
    ],
    Items: lambda encoder, value, depth: ["iterator", encoder.items(value, depth)],
    collections.deque: lambda encoder, value, depth: [
        "deque",
        encoder.items(value, depth),
        value.maxlen,
    ],
    type({}.keys()): lambda encoder, value, depth: ["keys", encoder.items(value, depth)],
    type({}.values()): lambda encoder, value, depth: ["values", encoder.items(value, depth)],
    type({}.items()): lambda encoder, value, depth: ["items", encoder.items(value, depth)],
    **dict.fromkeys(
        (collections.UserDict, collections.UserList, collections.UserString),
        lambda encoder, value, depth: [
            type(value).__name__,
            encoder.encode(value.data, depth + 1),
        ],
    ),
    memoryview: lambda encoder, value, depth: [
        "memoryview",
        encoder.buffer(value.tobytes()),
        value.format,
    ],
    array.array: lambda encoder, value, depth: [
        "array",
        encoder.buffer(value.tobytes()),
        value.typecode,
    ],
    Fraction: lambda encoder, value, depth: [
        "fraction",
        encoder.items((value.numerator, value.denominator), depth),
    ],
    Decimal: lambda encoder, value, depth: ["decimal", str(value)],
    datetime.date: lambda encoder, value, depth: ["date", value.isoformat()],
    datetime.time: lambda encoder, value, depth: ["time", with_fixed_offset(value).isoformat()],
    datetime.datetime: lambda encoder, value, depth: [
        "datetime",
        with_fixed_offset(value).isoformat(),
    ],
    datetime.timedelta: lambda encoder, value, depth: [
        "timedelta",
        value.days,
        value.seconds,
        value.microseconds,
    ],
    range: lambda encoder, value, depth: ["range", value.start, value.stop, value.step],
    torch.dtype: lambda encoder, value, depth: ["dtype", str(value)],
    torch.device: lambda encoder, value, depth: ["device", str(value)],
    type(Ellipsis): lambda encoder, value, depth: ["..."],
    type(NotImplemented): lambda encoder, value, depth: ["no"],
}
