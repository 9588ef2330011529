"""The interface of an endpoint, as proxies, gradients and object codecs use it."""

from typing import Any, Protocol

from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.shared_objects import Table


class Conversation(Protocol):
    """One end of the connection between the examiner process and the student process."""

    trusted: bool
    """Whether this is the examiner's end."""
    table: Table
    """The objects that both ends know."""
    known_packages: frozenset[str]
    """The packages whose classes the other end may refer to by name."""
    decoder: Decoder
    """The decoder of the message that arrived last."""

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Request an operation of the other end; return its result or raise its error."""
