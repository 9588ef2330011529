"""The interface of an endpoint that proxies, gradients and object codecs use."""

from typing import Any, Protocol

from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.shared_objects import Table


class Conversation(Protocol):
    """One end of the conversation between the examiner's process and the student's."""

    trusted: bool
    """Whether this is the examiner's end."""
    table: Table
    """The objects that both ends know."""
    known_packages: frozenset[str]
    """The packages whose classes may be named by the other end."""
    decoder: Decoder
    """The decoder of the message that arrived last."""

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Let the other end perform an operation; return its result or raise its error."""
