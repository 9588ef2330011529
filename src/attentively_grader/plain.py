"""Values as plain data, and back: what may pass between the student's process and the examiner's.

A value is plain if its type is exactly one of those below; a child of `str` or `Tensor`, which
could answer every comparison as it likes, is not. What is not plain is left to `other`, which the
peers give. In the plain form None, booleans, strings, floats and small whole numbers stand for
themselves; everything else is a list that begins with a tag. Numbers of tensors and arrays lie in
buffers beside it.

Within one message what is the same object stays the same object: each list, dict, set, array and
tensor gets a number, in the order in which they are met. An answer can refer to the objects of its
question by theirs.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attentively_grader.wire import WireError

Node = Any
"""What JSON can hold."""

_DEEP = 60
_MANY = 2_000_000
_SMALL = 2**53
_KINDS = frozenset("biufcSUMm")
_SCALARS = frozenset(
    np.dtype(code).type for code in (*np.typecodes["AllInteger"], *np.typecodes["AllFloat"], "?")
)
_DTYPES = {str(each): each for each in vars(torch).values() if isinstance(each, torch.dtype)}
_SEQUENCES: dict[str, Callable[..., Any]] = {"t": tuple, "f": frozenset, "size": torch.Size}

Tensors = list[Tensor]


class Encoder:
    """Turns the values of one message into plain data; `buffers` go beside it."""

    def __init__(
        self,
        other: Callable[["Encoder", Any, int], Node] | None = None,
        known: Mapping[int, int] | None = None,
        most_bytes: int = 256 * 2**20,
    ) -> None:
        self.other = other
        self.known = known or {}
        """By `id`, the numbers of the objects of the question."""
        self.objects: list[Any] = []
        self.buffers: list[bytes | memoryview] = []
        self.computed: Tensors = []
        """Tensors of the message that are the outcome of a computation to differentiate."""
        self.computed_nodes: list[Node] = []
        self.definitions: list[Node] = []
        """Objects that the other end does not know yet."""
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()
        self._left = _MANY
        self._bytes_left = most_bytes

    def encode(self, value: Any, depth: int = 0) -> Node:
        """Return the plain form of a value; `WireError` says why there is none."""
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
            raise WireError(f"a value is nested more than {_DEEP} deep")
        if self._left < 0 or self._bytes_left < 0:
            raise WireError("a value is too large")
        encode = _ENCODERS.get(kind)
        if encode is None:
            return self._another(value, depth)
        return encode(self, value, depth)

    def scope(self) -> "Encoder":
        """Return an encoder for the same message with numbers of its own."""
        scope = Encoder(self.other, most_bytes=self._bytes_left)
        scope.buffers, scope.definitions = self.buffers, self.definitions
        scope.computed, scope.computed_nodes = self.computed, self.computed_nodes
        return scope

    def number(self, value: Any) -> Node | None:
        """Return a reference to an object that was met before, or number it and return None."""
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
        """Return the plain forms of several values."""
        return [self.encode(each, depth + 1) for each in values]

    def content(self, value: Any, depth: int = 0) -> list[Node]:
        """Return what a container holds."""
        if isinstance(value, dict):
            pairs = value.items()
            return [[self.encode(k, depth + 1), self.encode(v, depth + 1)] for k, v in pairs]
        return self.items(value, depth)

    def buffer(self, content: bytes | memoryview) -> int:
        """Add raw numbers, return their place."""
        self._bytes_left -= len(content)
        if self._bytes_left < 0:
            raise WireError("a value is too large")
        self.buffers.append(content)
        return len(self.buffers) - 1

    def _another(self, value: Any, depth: int) -> Node:
        if type(value) in _SCALARS:
            return ["n", value.dtype.str, value.tobytes().hex()]
        if self.other is None:
            raise WireError(f"an object of the class {type(value).__name__} is no plain data")
        return self.other(self, value, depth)

    def _container(self, value: Any, depth: int) -> Node:
        seen = self.number(value)
        if seen is not None:
            return seen
        self._open.add(id(value))
        node = [_TAGS[type(value)], self.content(value, depth)]
        self._open.discard(id(value))
        return node

    def _sequence(self, value: Any, depth: int) -> Node:
        return [_TAGS[type(value)], self.items(value, depth)]

    def _array(self, value: np.ndarray, depth: int) -> Node:
        if value.dtype.kind not in _KINDS or value.dtype.hasobject:
            return self._another(value, depth)
        seen = self.number(value)
        return seen or ["a", *self.array_content(value)]

    def array_content(self, value: np.ndarray) -> list[Node]:
        """Return the plain form of an array's numbers."""
        if value.nbytes > self._bytes_left:
            raise WireError("an array is too large")
        return [value.dtype.str, list(value.shape), self.buffer(value.tobytes())]

    def tensor(self, value: Tensor, depth: int) -> Node:
        """Return the plain form of a tensor, whoever else may know it."""
        seen = self.number(value)
        if seen is not None:
            return seen
        if not value.requires_grad or value.is_leaf:
            return ["L" if value.requires_grad else "T", *self.tensor_content(value)]
        return self.computed_tensor(value)

    def computed_tensor(self, value: Tensor) -> Node:
        """Return the plain form of the outcome of a computation to differentiate."""
        self.computed.append(value)
        self.computed_nodes.append(self.tensor_content(value))
        return ["G", len(self.computed) - 1]

    def tensor_content(self, value: Tensor) -> list[Node]:
        """Return the plain form of a tensor's numbers."""
        value = value.detach()
        if value.layout == torch.sparse_coo:
            value = value.coalesce()
            parts = [*self.tensor_content(value.indices()), *self.tensor_content(value.values())]
            return ["sparse", list(value.shape), parts]
        if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise WireError(f"a tensor of layout {value.layout} on {value.device} is not plain")
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
    set: "s",
    frozenset: "f",
    torch.Size: "size",
    collections.OrderedDict: "od",
    collections.Counter: "counter",
}
_ENCODERS: dict[type, Callable[[Encoder, Any, int], Node]] = {
    **dict.fromkeys(
        (list, dict, set, collections.OrderedDict, collections.Counter), Encoder._container
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
    range: lambda encoder, value, depth: ["range", value.start, value.stop, value.step],
    torch.dtype: lambda encoder, value, depth: ["dtype", str(value)],
    torch.device: lambda encoder, value, depth: ["device", str(value)],
    type(Ellipsis): lambda encoder, value, depth: ["..."],
    type(NotImplemented): lambda encoder, value, depth: ["no"],
}


class Decoder:
    """Turns the plain data of one message back; anything unexpected gives a `WireError`."""

    def __init__(
        self,
        buffers: Sequence[bytes | bytearray],
        other: Callable[["Decoder", list[Node]], Any] | None = None,
        known: Sequence[Any] = (),
    ) -> None:
        self.buffers = buffers
        self.other = other
        self.known = known
        self.objects: list[Any] = []
        self.computed: Sequence[Tensor] = []
        """What stands for those tensors that are the outcome of a computation."""
        self.leaves: dict[int, tuple[Tensor, int]] = {}
        self.question: Encoder | None = None
        self.modes: list[Any] = []
        self.made: list[Any] = []
        """New objects, held until the message is taken in whole."""
        self._left = _MANY

    def decode(self, node: Node) -> Any:
        """Return the value that a plain form stands for."""
        try:
            return self._decode(node)
        except WireError:
            raise
        except (RecursionError, MemoryError, *_MALFORMED) as error:
            raise WireError(f"what came is malformed ({type(error).__name__})") from None

    def _decode(self, node: Node) -> Any:
        if not isinstance(node, list):
            if isinstance(node, dict):
                raise WireError("what came is malformed")
            return node
        self._left -= 1
        if self._left < 0:
            raise WireError("a value is too large")
        decode = _DECODERS.get(node[0])
        if decode is not None:
            return decode(self, node)
        if self.other is None:
            raise WireError(f"what came has an unknown tag {node[0]!r:.20}")
        return self.other(self, node)

    def scope(self) -> "Decoder":
        """Return a decoder for the same message with numbers of its own."""
        scope = Decoder(self.buffers, self.other)
        scope.computed = self.computed
        return scope

    def add(self, value: Any) -> Any:
        """Number an object as the encoder did."""
        self.objects.append(value)
        return value

    def fill(self, value: Any, content: list[Node]) -> None:
        """Put decoded content into an empty container."""
        if isinstance(value, list):
            value.extend(map(self._decode, content))
        elif isinstance(value, dict):
            for key, item in content:
                key = self._decode(key)
                value[key] = self._decode(item)
        else:
            value.update(map(self._decode, content))

    def array(self, dtype: str, shape: list[int], place: int) -> np.ndarray:
        """Return an array of its own."""
        kind = np.dtype(dtype)
        if kind.kind not in _KINDS or kind.hasobject:
            raise WireError("an array of objects")
        return np.frombuffer(self._buffer(place), kind).reshape(_shape(shape)).copy()

    def tensor(self, dtype: Any, shape: list[int], place: Any) -> Tensor:
        """Return a tensor of its own."""
        if dtype == "sparse":
            indices, values = self.tensor(*place[:3]), self.tensor(*place[3:])
            size = _shape(shape)
            return torch.sparse_coo_tensor(indices, values, size, check_invariants=True)
        kind, size = _DTYPES[f"torch.{dtype}"], _shape(shape)
        raw = self._buffer(place)
        if not raw:
            return torch.empty(size, dtype=kind)
        return torch.frombuffer(bytearray(raw), dtype=kind).reshape(size)

    def _buffer(self, place: int) -> bytes | bytearray:
        if type(place) is not int or place < 0:
            raise WireError("what came is malformed")
        return self.buffers[place]

    def _back(self, node: list[Node]) -> Any:
        values: Sequence[Any] = self.objects if node[0] == "=" else self.known
        if type(node[1]) is not int or node[1] < 0:
            raise WireError("what came is malformed")
        return values[node[1]]

    def _container(self, node: list[Node]) -> Any:
        value = self.add(_CONTAINERS[node[0]]())
        self.fill(value, node[1])
        return value

    def _sequence(self, node: list[Node]) -> Any:
        return _SEQUENCES[node[0]](map(self._decode, node[1]))

    def _tensor(self, node: list[Node]) -> Tensor:
        if node[0] == "G":
            return self.add(self.computed[node[1]])
        return self.add(self.tensor(*node[1:])).requires_grad_(node[0] == "L")


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError("what came is malformed")
    return tuple(shape)


def _int(node: list[Node]) -> int:
    if len(node[1]) > 1_000_000:
        raise WireError("a number is too large")
    return int(node[1], 16)


_CONTAINERS: dict[str, Callable[[], Any]] = {
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
    "range": lambda decoder, node: range(*node[1:]),
    "dtype": lambda decoder, node: _DTYPES[node[1]],
    "device": lambda decoder, node: torch.device(node[1]),
    "...": lambda decoder, node: ...,
    "no": lambda decoder, node: NotImplemented,
    "n": lambda decoder, node: np.frombuffer(bytes.fromhex(node[2]), _number_type(node[1])).reshape(
        ()
    )[()],
    "a": lambda decoder, node: decoder.add(decoder.array(*node[1:])),
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
    kind = np.dtype(name)
    if kind.type not in _SCALARS:
        raise WireError("what came is malformed")
    return kind


def plain_text(value: object, most: int = 2000) -> str:
    """Return text of bounded length, whatever the object's own `str` does."""
    try:
        text = str(value)
    except BaseException as error:
        text = f"<{type(error).__name__} in its own str>"
    text = text if type(text) is str else str.__str__(text)
    return text if len(text) <= most else f"{text[:most]} ..."
