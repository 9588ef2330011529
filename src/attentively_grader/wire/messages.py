"""Messages on a socket: a header in JSON, followed by buffers of raw bytes.

The other end may be hostile. Received data results in a message or a `WireError`, never in another
exception, and it is never unpickled or executed.
"""

import json
import math
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from attentively_grader.wire import fair_clock

_FRAME = struct.Struct(">4sII")  # magic number, length of the header, number of buffers
_MARK = b"att1"
_MOST_BUFFERS = 100_000
_MOST_HEADER = 32 * 2**20

Buffer = bytes | bytearray | memoryview


class WireError(Exception):
    """Received data is not a message, is too large, or refers to an unknown object."""


class UnexpectedValue(Exception):  # noqa: N818  the name states what arrived
    """A student's value is not of the kind that the test expects."""


class Gone(WireError):  # noqa: N818  the name states what has happened
    """The other end has closed the connection."""


class TooLate(WireError):  # noqa: N818  likewise
    """The other end did not answer in time."""


class Wire:
    """One end of a connection."""

    def __init__(self, connection: socket.socket, most_bytes: int = 256 * 2**20) -> None:
        self.connection = connection
        self.most_bytes = most_bytes
        self.deadline: float | None = None
        """The time, by `fair_time`, at which waiting ends with `TooLate`."""
        self.end = math.inf
        """The time, by `time.monotonic`, at which waiting ends in any case."""
        self.dead: WireError | None = None
        """Why nothing more can be sent or received."""

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message; raise `WireError` if it is too large, and keep the connection open."""
        header = json.dumps(message, separators=(",", ":")).encode()
        sizes = [len(each) for each in buffers]
        if len(header) > _MOST_HEADER or len(header) + sum(sizes) > self.most_bytes:
            raise WireError(
                f"a message of {(len(header) + sum(sizes)) / 2**20:.0f} MiB exceeds the limit of "
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
            raise self._end(WireError("the received data is not a message"))
        sizes = struct.unpack(f">{number}Q", self._receive(8 * number))
        if length + sum(sizes) > self.most_bytes:
            raise self._end(WireError("a message exceeds the size limit"))
        header = self._receive(length)
        buffers = [self._receive(size) for size in sizes]
        try:
            return json.loads(header), buffers
        except (ValueError, RecursionError):
            raise self._end(WireError("the received data is not a message")) from None

    def close(self) -> None:
        """Close the connection."""
        self._end(Gone("the connection is closed"))

    def _end(self, why: WireError) -> WireError:
        if self.dead is None:
            self.dead = why
            self.connection.close()
        return why

    def _wait(self) -> None:
        if self.dead is not None:
            raise self.dead
        left = None
        if self.deadline is not None:
            left = min(fair_clock.left(self.deadline), self.end - time.monotonic())
        if left is not None and left <= 0:
            raise self._end(TooLate("it exceeded its time limit"))
        self.connection.settimeout(left)

    def _send(self, content: Buffer) -> None:
        view = memoryview(content)
        while len(view):
            self._wait()
            try:
                view = view[self.connection.send(view) :]
            except TimeoutError:
                continue
            except OSError:
                raise self._end(Gone("the process has ended")) from None

    def _receive(self, size: int) -> bytearray:
        content = bytearray()
        if size < 2**20:
            content = bytearray(size)
        view, got = memoryview(content), 0
        while got < size:
            self._wait()
            if got == len(view):  # memory is allocated only as the data arrives
                view.release()
                content.extend(bytes(min(max(2**20, got), size - got)))
                view = memoryview(content)
            try:
                step = self.connection.recv_into(view[got:])
            except TimeoutError:
                continue
            except OSError:
                step = 0
            if not step:
                raise self._end(Gone("the process has ended"))
            got += step
        view.release()
        return content
