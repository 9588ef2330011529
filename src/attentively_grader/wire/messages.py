"""Messages on a socket: a header in JSON, and buffers of raw numbers after it.

Both ends may be hostile to each other. Whatever arrives gives a message or a `WireError`, never an
exception of another kind, and nothing that arrives is ever unpickled or executed.
"""

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

_FRAME = struct.Struct(">4sII")  # a mark, the length of the header, the number of buffers
_MARK = b"att1"
_MOST_BUFFERS = 100_000
_MOST_HEADER = 32 * 2**20

Buffer = bytes | bytearray | memoryview


class WireError(Exception):
    """What came over the wire is no message, or too large, or refers to what is not there."""


class Gone(WireError):  # noqa: N818  it reads as what has happened
    """The other end is not there any more."""


class TooLate(WireError):  # noqa: N818  likewise
    """The other end did not answer in time."""


class Wire:
    """One end of a connection."""

    def __init__(self, connection: socket.socket, most_bytes: int = 256 * 2**20) -> None:
        self.connection = connection
        self.most_bytes = most_bytes
        self.deadline: float | None = None
        """When, by `time.monotonic`, waiting ends with `TooLate`."""
        self.dead: WireError | None = None
        """Why nothing more can be sent or received."""

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message; a `WireError` says that it is too large and leaves the wire intact."""
        header = json.dumps(message, separators=(",", ":")).encode()
        sizes = [len(each) for each in buffers]
        if len(header) > _MOST_HEADER or len(header) + sum(sizes) > self.most_bytes:
            raise WireError(
                f"a message of {(len(header) + sum(sizes)) / 2**20:.0f} MiB is larger than "
                f"{min(self.most_bytes, _MOST_HEADER + sum(sizes)) / 2**20:.0f} MiB"
            )
        if len(buffers) > _MOST_BUFFERS:
            raise WireError(f"a message of {len(buffers)} tensors and arrays is too large")
        start = [_FRAME.pack(_MARK, len(header), len(buffers))]
        start += [struct.pack(f">{len(sizes)}Q", *sizes), header]
        if sum(sizes) < 65536:
            self._send(b"".join([*start, *buffers]))
        else:
            self._send(b"".join(start))
            for each in buffers:
                self._send(each)

    def receive(self) -> tuple[Any, list[bytearray]]:
        """Return the next message and its buffers."""
        mark, length, number = _FRAME.unpack(self._receive(_FRAME.size))
        if mark != _MARK or length > min(_MOST_HEADER, self.most_bytes) or number > _MOST_BUFFERS:
            raise self._end(WireError("what came over the wire is no message"))
        sizes = struct.unpack(f">{number}Q", self._receive(8 * number))
        if length + sum(sizes) > self.most_bytes:
            raise self._end(WireError("a message is larger than is allowed"))
        header = self._receive(length)
        buffers = [self._receive(size) for size in sizes]
        try:
            return json.loads(header), buffers
        except (ValueError, RecursionError):
            raise self._end(WireError("what came over the wire is no message")) from None

    def close(self) -> None:
        """End the connection."""
        self._end(Gone("the connection is closed"))

    def _end(self, why: WireError) -> WireError:
        if self.dead is None:
            self.dead = why
            self.connection.close()
        return why

    def _wait(self) -> None:
        if self.dead is not None:
            raise self.dead
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            raise self._end(TooLate("it took too long"))
        self.connection.settimeout(left)

    def _send(self, content: Buffer) -> None:
        view = memoryview(content)
        while len(view):
            self._wait()
            try:
                view = view[self.connection.send(view) :]
            except TimeoutError:
                raise self._end(TooLate("it took too long")) from None
            except OSError:
                raise self._end(Gone("the process has ended")) from None

    def _receive(self, size: int) -> bytearray:
        content = bytearray()
        if size < 2**20:
            content = bytearray(size)
        view, got = memoryview(content), 0
        while got < size:
            self._wait()
            if got == len(view):  # memory is taken only as the numbers really come
                view.release()
                content.extend(bytes(min(max(2**20, got), size - got)))
                view = memoryview(content)
            try:
                step = self.connection.recv_into(view[got:])
            except TimeoutError:
                raise self._end(TooLate("it took too long")) from None
            except OSError:
                step = 0
            if not step:
                raise self._end(Gone("the process has ended"))
            got += step
        view.release()
        return content
