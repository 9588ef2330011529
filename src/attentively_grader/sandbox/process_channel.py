"""Messages between the grader's own processes: JSON with a length prefix, and file descriptors.

The student process never has an end of these sockets; the `wire` package communicates with it.
"""

import json
import socket
import struct
from collections.abc import Sequence
from typing import Any

LENGTH = struct.Struct("!Q")
MOST_FILES = 8
MOST_BYTES = 1 << 30


class GoneError(Exception):
    """The other end closed the socket, or its process ended."""


def send(channel: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """Send one message; the receiver gets copies of the file descriptors `files`."""
    body = json.dumps(message).encode()
    header = LENGTH.pack(len(body))
    try:
        sent = socket.send_fds(channel, [header], list(files)) if files else channel.send(header)
        channel.sendall(header[sent:] + body)
    except OSError as error:
        raise GoneError(str(error)) from error


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for one message; return it and its file descriptors."""
    header, files = b"", []
    try:
        while len(header) < LENGTH.size:
            part, more, _, _ = socket.recv_fds(channel, LENGTH.size - len(header), MOST_FILES)
            files += more
            if not part:
                raise GoneError("closed")
            header += part
        (length,) = LENGTH.unpack(header)
        if length > MOST_BYTES:
            raise GoneError(f"a message of {length} bytes")
        body = bytearray()
        while len(body) < length:
            part = channel.recv(min(1 << 20, length - len(body)))
            if not part:
                raise GoneError("closed in the middle of a message")
            body += part
    except OSError as error:
        raise GoneError(str(error)) from error
    return json.loads(body), files
