"""The interface of an endpoint, as proxies, gradients and object codecs use it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from torch import Tensor

from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.shared_objects import Entry, Table


class Conversation(Protocol):
    """One end of the connection between the examiner process and the student process."""

    trusted: bool
    """Whether this is the examiner's end."""
    table: Table
    """The objects that both ends know."""
    own_classes: dict[str, type]
    """The classes that the instructor's cells define in both processes, by name."""
    known_packages: frozenset[str]
    """The packages whose classes the other end may refer to by name."""
    known_modules: set[str]
    """The modules of these packages that the examiner has said it has imported."""
    decoder: Decoder
    """The decoder of the message that arrived last."""
    expected: Mapping[str, list[str]]
    """The kinds of value that the solution returned, by remote path."""
    returned: dict[str, list[str]]
    """The kinds of value that arrived, if they are recorded."""
    recording: bool
    """Whether the notebook is the instructor's solution."""
    graphs: list[Any]
    """The graphs of the answers given during the running call."""
    collected: dict[int, Tensor] | None
    """Gradients of tensors that only this end has, during a backward pass."""

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Request an operation of the other end; return its result or raise its error."""

    def lend(self, entry: Entry) -> None:
        """Note that an object is given to the running call."""

    def outlives(self, entry: Entry) -> bool:
        """Return whether the solution used an object of this call after the call too."""

    def is_expected(self, target: Any, name: str) -> bool:
        """Return whether the test of the solution used this method too."""

    def may_change(self, what: str, undo: Callable[[], None] | None = None) -> bool:
        """Return whether a change in place is taken over."""

    def ignore(self, what: str) -> None:
        """Note that the running call changed what the solution leaves unchanged."""
