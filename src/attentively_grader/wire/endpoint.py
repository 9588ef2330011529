"""Calls between the examiner process and the student process, in both directions.

The two ends take turns: one sends a request and waits; while it waits, it serves requests of the
other end. Each message contains the objects that it refers to, changes of the objects that both
ends know (see `shared_objects`), and printed text; a request contains the random state too. If a
call changes its arguments (lists, arrays, tensors) in place, they also change at the caller's end,
provided that the instructor's solution changes them too (see `Endpoint.following_changes`). What
either end changes between the calls reaches the other end in the same way (see `copies`).

The examiner accepts only plain data from the student process, and live objects where the solution
had one (see `expectations`). The student's code can only call the examiner's objects that it was
given for the running call, and read their public attributes.
"""

import contextlib
import functools
import io
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from attentively_grader.wire import expectations, global_state, gradients, pandas_data
from attentively_grader.wire.copies import Copies
from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.encoder import Encoder
from attentively_grader.wire.exceptions import describe_error, revive
from attentively_grader.wire.fair_clock import fair_time
from attentively_grader.wire.incoming_objects import Incoming
from attentively_grader.wire.messages import UnexpectedValue, Wire, WireError
from attentively_grader.wire.outgoing_objects import EVERYTHING, Outgoing
from attentively_grader.wire.plain_data import Node
from attentively_grader.wire.shared_objects import Entry, Table, frozen_same, same_numbers

Operation = Callable[..., Any]
_MOST_NESTED = 100
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _unwatched(method: _Method) -> _Method:
    """Hide what a method does with tensors from the function modes of a test.

    A mode of a test is for what the test and the student's code call, and it costs several times
    what a comparison of small tensors costs.
    """

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return method(*args, **kwargs)

    return cast(_Method, run)


class Endpoint:
    """One end of the connection."""

    def __init__(self, wire: Wire, trusted: bool, known_packages: frozenset[str]) -> None:
        self.wire = wire
        self.trusted = trusted
        self.table = Table(trusted)
        self.copies = Copies()
        self.known_packages = known_packages
        self.known_modules: set[str] = set()
        """The modules of these packages that the examiner has said it has imported."""
        self._number_of_modules = 0
        self.own_classes: dict[str, type] = {}
        """The classes that the instructor's cells define in both processes, by name."""
        self.outgoing = Outgoing(self)
        self.incoming = Incoming(self)
        self.secret = b""
        """What the student's code does not know: the text of the tests."""
        self.random = global_state.RandomState(trusted)
        self.operations: dict[str, Operation] = {}
        self.printed: list[tuple[str, str]] = []
        """Text that the code at this end has printed since the last message."""
        self.show: Callable[[str, str], None] = lambda name, text: None
        self.hidden: tuple[str, ...] = ()
        """Path prefixes of files whose frames are removed from tracebacks."""
        self.files: set[str] = set()
        """The names of the cells whose source a traceback from the other end may show."""
        self.expected: Mapping[str, list[str]] = {}
        """The kinds of value that the solution returned, by remote path (see `expectations`)."""
        self.recording = False
        """Whether the notebook is the instructor's solution, which is recorded."""
        self.returned: dict[str, list[str]] = {}
        """The kinds of value that arrived, if they are recorded."""
        self.follows_changes = False
        """Whether all changes in place are taken over, as in a single process."""
        self.ignored: list[str] = []
        """Changes in place that were not taken over, because the solution does not make them."""
        self.refused: list[str] = []
        """Why values were not accepted; a test may have caught the error."""
        self.graphs: list[gradients.Graph] = []
        self.collected: dict[int, Tensor] | None = None
        self._undo: list[Callable[[], None]] = []
        self._calls: list[_Call] = []
        """The running requests of this end, the outermost first."""
        self._raised: dict[int, BaseException] = {}
        self._nested = 0
        """The number of requests that this end is serving."""
        self._turn = threading.RLock()
        self.seconds: float | None = None
        """Time limit for the calls of a cell, from its start."""

    # Requests

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Request an operation of the other end; return its result or raise its error.

        One thread at a time: the others wait for its answer.
        """
        with self._turn:
            if not self.trusted and not self._nested:
                raise RuntimeError("an object of the test is used after the call has ended")
            return self._ask_now(operation, arguments)

    def _ask_now(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        call = _Call(expectations.key_of(operation, arguments) if self.trusted else None, arguments)
        self._calls.append(call)
        try:
            return self._asked(operation, arguments, call)
        except UnexpectedValue as error:
            self.refused.append(str(error))
            raise
        finally:
            self._calls.pop()
            still_given = {id(entry) for other in self._calls for entry in other.given}
            for entry in call.given:
                entry.ended = call.key is not None and id(entry) not in still_given
            if not self._calls:
                self.graphs.clear()

    def _asked(self, operation: str, arguments: tuple[Any, ...], call: "_Call") -> Any:
        encoder = Encoder(self.outgoing.encode, most_bytes=self.wire.most_bytes)
        message: dict[str, Node] = {"do": operation}
        if call.key is not None:
            message["first"] = call.first = self.copies.first()
        if self.trusted and not self.recording:
            message["live"] = self._allowed(operation, arguments, call)
        if self.trusted and (modules := self._new_modules()):
            message["modules"] = modules
        message = self._message(encoder, message, arguments)
        self._send(message, encoder)
        while True:
            answer, decoder = self._receive(encoder)
            if "do" not in answer:
                break
            self._serve(answer, decoder)
        return self._result(answer, decoder, operation, arguments, call, encoder.objects)

    def _new_modules(self) -> list[str]:
        """Return the modules of known packages imported here since the last request."""
        if len(sys.modules) == self._number_of_modules:
            return []
        self._number_of_modules = len(sys.modules)
        imported = {each for each in list(sys.modules) if each.split(".")[0] in self.known_packages}
        new = imported - self.known_modules
        self.known_modules |= new
        return sorted(new)

    @_unwatched
    def _result(
        self,
        answer: Node,
        decoder: Decoder,
        operation: str,
        arguments: tuple[Any, ...],
        call: "_Call",
        sent: list[Any],
    ) -> Any:
        """Return the result in an answer, or raise its error; `sent` are the request's objects."""
        if call.key is not None:
            self.copies.add(call.first, sent)
        if self.trusted:
            self._note_sampling(answer, call)
        if "error" in answer:
            error = self._revived(answer["error"])
            ends = isinstance(error, StopIteration | StopAsyncIteration)
            if self.trusted and ends and arguments[1:2] not in (("__next__",), ("__anext__",)):
                raise RuntimeError(f"{type(error).__name__} was raised") from error
            raise error
        try:
            if self.trusted and operation == "names":
                return self._names(answer["value"], decoder)
            decoder.live.clear()
            decoder.arrays.clear()
            value = decoder.decode(answer["value"])
            if call.key is not None:
                self.copies.add(call.first + len(sent), decoder.objects)
            decoder.arrays += [each for each in decoder.known if each is value and _is_array(each)]
        except (KeyError, TypeError, ValueError, WireError):
            raise self.wire._end(WireError("an answer is malformed")) from None
        if self.trusted and call.violations:
            raise UnexpectedValue(call.violations[0])
        if self.trusted and call.key is not None:
            expectations.check(self, call.key, value, decoder)
        elif self.trusted and decoder.live:
            return None
        return value

    def _allowed(self, operation: str, arguments: tuple[Any, ...], call: "_Call") -> Node:
        if operation == "names":
            return {name: expectations.allowed(self, name) for name in arguments[0]}
        return [False] * 5 if call.key is None else expectations.allowed(self, call.key)

    def _names(self, node: Node, decoder: Decoder) -> dict[str, Any]:
        """Return the values of names; one that is not accepted raises an error when used."""
        found: dict[str, Any] = decoder.add({})
        for name, each in node[1]:
            decoder.live.clear()
            decoder.arrays.clear()
            try:
                value = decoder.decode(each)
                expectations.check(self, name, value, decoder)
            except UnexpectedValue as error:
                value = expectations.Unusable(str(error))
            found[str(name)] = value
        return found

    def _note_sampling(self, answer: Node, call: "_Call") -> None:
        drew = answer.get("drew")
        if self.recording and call.key is not None and isinstance(drew, list):
            for name in global_state.GENERATORS:
                if name in drew:
                    expectations.note(self, call.key, f"draws {name}")

    # What the running call may do

    def lend(self, entry: Entry) -> None:
        """Note that an object is given to the running call."""
        if self.trusted and entry.mine and entry.kind in ("handle", "module") and self._calls:
            call = self._calls[-1]
            entry.key, entry.ended = call.key, False
            call.given.append(entry)

    def outlives(self, entry: Entry) -> bool:
        """Return whether the solution used an object of this call after the call too."""
        return expectations.was_noted(self, entry.key, "keeps what it was given")

    def is_expected(self, target: Any, name: str) -> bool:
        """Return whether the test of the solution used this method too."""
        return self.recording or expectations.key_of("method", (target, name)) in self.expected

    def may_change(self, what: str, undo: Callable[[], None] | None = None) -> bool:
        """Return whether a change in place is taken over: because the solution makes it too.

        With `follows_changes`, other changes are taken over as well if they can be undone.
        """
        key = self._calls[-1].key if self._calls else None
        if expectations.was_noted(self, key, f"changes {what}"):
            return True
        if self.follows_changes and undo is not None:
            self._undo.append(undo)
            return True
        return False

    @contextlib.contextmanager
    def following_changes(self) -> Iterator[None]:
        """Take over all changes in place inside the block, as in one process; then undo them."""
        self.follows_changes = True
        try:
            yield
        finally:
            self.follows_changes = False
            while self._undo:
                self._undo.pop()()

    def ignore(self, what: str) -> None:
        """Note that the running call changed what the solution leaves unchanged."""
        if self._calls:
            self.ignored.append(f"{self._calls[-1].key} changed {what} in place")

    @_unwatched
    def _message(self, encoder: Encoder, message: Node, value: Any) -> Node:
        """Complete a message with changes, definitions, random state and printed text."""
        unused = self.table.unused()
        if unused:
            message["drop"] = unused
        if "do" in message:
            message["grad"] = torch.is_grad_enabled()
            modes = global_state.watchers() if self.trusted else []
            if modes:
                message["modes"] = encoder.encode(modes)
        sync = self.outgoing.changes(encoder)
        if sync:
            message["sync"] = sync
        message |= self._changed_copies(encoder)
        message["value"] = encoder.encode(value)
        message["define"] = encoder.definitions
        message["computed"] = encoder.computed_nodes
        if self.trusted and "do" in message:
            key = self._calls[-1].key
            drawn = [
                name
                for name in global_state.GENERATORS
                if self.recording
                or (key is not None and f"draws {name}" in self.expected.get(key, ()))
            ]
            changed = self.random.changes(encoder, drawn)
            if key is not None:
                others = [name for name in global_state.GENERATORS if name not in drawn]
                derived = self.random.derived(others, self.secret)
                if derived:
                    changed["derived"] = derived
            if changed:
                message["random"] = changed
        if self.printed:
            message["printed"] = self.printed[:]
            self.printed.clear()
        return message

    def _changed_copies(self, encoder: Encoder) -> dict[str, Node]:
        found: dict[str, Node] = {}
        forgotten = self.copies.unused() if self.trusted else []
        if forgotten:
            found["forget"] = forgotten
        changed = [*self.copies.changed()]
        if changed:
            scope = encoder.scope()
            scope.known = {id(value): number for number, value in self.copies.values().items()}
            found["copies"] = [
                [number, _encoded_content(scope, value)] for number, value in changed
            ]
        return found

    def _take_copies(self, message: Node, decoder: Decoder) -> None:
        """Apply the changes of objects of earlier calls, of which each end has a copy."""
        if self.trusted and (not self._calls or self._calls[-1].key is None):
            return  # the answer to a request of the grader itself
        if not self.trusted:
            self.copies.forget(message.get("forget", []))
        changes = message.get("copies", [])
        if not changes:
            return
        scope = decoder.scope()
        scope.known = self.copies.values()
        for number, node in changes:
            if not self.copies.is_known(number):
                continue  # forgotten at this end
            value = scope.known[number]
            changed = self._changed(value, node, scope)
            undo = functools.partial(reset, value, _content(value))
            if not self.trusted or self.may_change("an object of an earlier call", undo):
                reset(value, changed)
                self.copies.knows(number)
            else:
                self.ignore(f"an object of an earlier call ({type(value).__name__})")

    def _send(self, message: Node, encoder: Encoder) -> None:
        self.wire.send(message, encoder.buffers)

    @_unwatched
    def _receive(self, question: Encoder | None) -> tuple[Node, Decoder]:
        """Return the next message; everything but its value is already applied."""
        message, buffers = self.wire.receive()
        decoder = Decoder(buffers, self.incoming.decode)
        try:
            if not isinstance(message, dict):
                raise WireError("the received data is not a message")
            for name, text in message.get("printed", ()):
                self.show(str(name), str(text))
            self.table.drop(message.get("drop", []))
            if not self.trusted:
                self.random.apply(message.get("random", {}), decoder)
            self.decoder = decoder
            computed = [decoder.tensor(*node) for node in message.get("computed", [])]
            waiting = self.incoming.define(message.get("define", []), decoder)
            if "do" in message:
                decoder.leaves, decoder.computed = gradients.as_leaves(computed)
            elif question is not None:
                decoder.known = [*question.objects]
                decoder.question = question
                leaves = [self._leaf(node, decoder) for node in message.get("leaves", [])]
                decoder.computed = gradients.bridge(self, message.get("graph"), computed, leaves)
            self.incoming.fill(waiting, decoder)
            if "modes" in message and not self.trusted:
                decoder.modes = decoder.decode(message["modes"])
            self.incoming.apply(message.get("sync", []), decoder)
            self._take_copies(message, decoder)
            if "do" not in message:
                self._restore(message.get("changes", []), decoder)
        except WireError as error:
            raise self.wire._end(error) from None
        except TimeoutError:
            raise
        except Exception as error:
            raise self.wire._end(
                WireError(f"a message is malformed ({type(error).__name__}: {error})")
            ) from None
        return message, decoder

    def _leaf(self, node: Node, decoder: Decoder) -> Tensor:
        if node[0] == "G" and decoder.question is not None:
            return decoder.question.computed[node[1]]
        value = decoder.decode(node)
        if not isinstance(value, Tensor):
            raise WireError("a leaf of a gradient is not a tensor")
        return value

    def _restore(self, changes: Node, decoder: Decoder) -> None:
        """Apply the changes that the other end made to its arguments in place.

        If a change is not taken over, an answer that is this argument is a changed copy of it.
        """
        for number, node in changes:
            if type(number) is not int or number < 0:
                raise WireError("a message changes an unknown object")
            value = decoder.known[number]
            changed = self._changed(value, node, decoder)
            if self.trusted:
                place = self._calls[-1].place_of(value)
                if not self.may_change(place, functools.partial(reset, value, _content(value))):
                    self.ignore(f"its {place} ({type(value).__name__})")
                    decoder.known[number] = changed
                    continue
            if isinstance(value, Tensor) and node[0] == "G":
                with torch.enable_grad():  # overwritten by a tensor with a computation graph
                    value.copy_(changed)
            elif isinstance(value, Tensor):
                with torch.no_grad():
                    if changed.shape == value.shape and changed.dtype == value.dtype:
                        value.copy_(changed)
                    else:
                        value.data = changed
            else:
                reset(value, changed)

    def _changed(self, value: Any, node: Node, decoder: Decoder) -> Any:
        """Return a copy of an argument with the content that it has at the other end."""
        if isinstance(value, Tensor):
            return decoder.computed[node[1]] if node[0] == "G" else decoder.tensor(*node)
        if isinstance(value, np.ndarray):
            return decoder.array(*node)
        # At the student's end, the class may be the student's own.
        kinds = (type(value),) if self.trusted else (list, dict, set, type(value))
        changed: Any = next(kind() for kind in kinds if isinstance(value, kind))
        decoder.live.clear()
        decoder.fill(changed, node)
        if self.trusted:
            call = self._calls[-1]
            try:
                expectations.check_passed(self, call.key, None, decoder)
            except UnexpectedValue as error:
                call.violations.append(str(error))
        return changed

    def _revived(self, described: Node) -> BaseException:
        origin = described.get("origin") if isinstance(described, dict) else None
        if type(origin) is int and origin in self._raised:
            return self._raised[origin]
        return revive(described, self.files)

    # Answers

    def serve(self) -> None:
        """Serve requests until the other end closes the connection."""
        while True:
            message, decoder = self._receive(None)
            if "do" not in message:
                raise self.wire._end(WireError("an answer without a request"))
            self._serve(message, decoder)

    def _serve(self, message: Node, decoder: Decoder) -> None:
        operation = self.operations.get(str(message["do"]))
        if not self.trusted:
            self.known_modules.update(message.get("modules", ()))
        given: list[Any] = []
        reply: Node
        value: Any = None
        self._nested += 1
        allowed = self.outgoing.allowed
        live = message.get("live", EVERYTHING)
        if not self.trusted and isinstance(live, list):
            self.outgoing.allowed = [live[4]] * 4 + live[4:]
        try:
            if operation is None or self._nested > _MOST_NESTED:
                raise WireError(f"the request {message['do']!r:.40} is not allowed")
            arguments, given = self._arguments(message, decoder)
            with global_state.around(message.get("grad", True), decoder.modes):
                value = operation(*arguments)
            reply = {}
        except WireError as error:
            if self.trusted:
                raise self.wire._end(error) from None
            reply = {"error": describe_error(error, self.hidden)}
        except BaseException as error:
            reply = {"error": self._described(error)}
        finally:
            self._nested -= 1
            self.outgoing.allowed = allowed
        with self._turn:
            try:
                if not self.trusted:
                    self.outgoing.allowed = live if isinstance(live, list) else EVERYTHING
                self._answer(reply, value, decoder, given, live, message.get("first"))
            finally:
                self.outgoing.allowed = allowed

    @_unwatched
    def _arguments(self, message: Node, decoder: Decoder) -> tuple[Any, list[Any]]:
        """Return the arguments of a request, and its objects with their content."""
        decoder.live.clear()
        arguments = decoder.decode(message["value"])
        if self.trusted:
            if not isinstance(arguments, tuple) or not arguments:
                raise WireError("a request is malformed")
            key = self._calls[-1].key if self._calls else None
            if message["do"] != "backward":
                expectations.check_passed(self, key, arguments[0], decoder)
        return arguments, [(each, _content(each)) for each in decoder.objects]

    def _described(self, error: BaseException) -> Node:
        described = describe_error(error, self.hidden)
        if self.trusted:
            number = len(self._raised)
            self._raised[number] = error
            described["raised"] = number
        else:
            described["origin"] = getattr(error, "_raised_there", None)
        return described

    @_unwatched
    def _answer(
        self,
        reply: Node,
        value: Any,
        decoder: Decoder,
        given: list[Any],
        live: Node,
        first: int | None,
    ) -> None:
        known = {id(each): number for number, each in enumerate(decoder.objects)}
        encoder = Encoder(self.outgoing.encode, known, self.wire.most_bytes)
        try:
            if isinstance(live, dict) and isinstance(value, dict):
                message = self._message(encoder, dict(reply), None)
                message["value"] = self._encoded_names(encoder, value, live)
            else:
                message = self._message(encoder, dict(reply), value)
            if live is EVERYTHING and not self.trusted:
                message["drew"] = self.random.drew()
            changes = [
                [number, _encoded_content(encoder, each)]
                for number, (each, before) in enumerate(given)
                if not _same_content(each, before)
            ]
            if changes:
                message["changes"] = changes
            if not self.trusted and type(first) is int:
                self.copies.add(first, [*decoder.objects, *encoder.objects])
            if encoder.computed:
                graph, leaves = gradients.record(self, encoder.computed, decoder.leaves)
                message["graph"] = graph
                message["leaves"] = [
                    node if node is not None else encoder.encode(leaf) for leaf, node in leaves
                ]
            self._send(message, encoder)
        except WireError as error:
            if self.wire.dead:
                raise
            if self.trusted:
                raise self.wire._end(error) from None
            encoder = Encoder(self.outgoing.encode, known, self.wire.most_bytes)
            reply = {"error": describe_error(error, self.hidden)}
            self._send(self._message(encoder, reply, None), encoder)

    def _encoded_names(self, encoder: Encoder, found: dict[str, Any], live: Node) -> Node:
        """Encode the values of names, each with what is allowed for it."""
        encoder.number(found)
        pairs = []
        for name, value in found.items():
            self.outgoing.allowed = live[name]
            pairs.append([name, encoder.encode(value)])
        return ["d", pairs]

    @contextlib.contextmanager
    def within(self, seconds: float, wall: float = math.inf) -> Iterator[None]:
        """Limit the time of all requests inside the block, by `fair_time` and by wall time."""
        before, end = self.wire.deadline, self.wire.end
        self.wire.end = min(end, time.monotonic() + wall)
        until = fair_time() + seconds
        self.wire.deadline = until if before is None else min(before, until)
        try:
            yield
        finally:
            self.wire.deadline, self.wire.end = before, end


class _Call:
    """A running request of this end."""

    def __init__(self, key: str | None, arguments: tuple[Any, ...]) -> None:
        self.key = key
        """The remote path of its result."""
        self.arguments = arguments
        self.first = 0
        """The first number of its objects (see `copies`)."""
        self.given: list[Entry] = []
        """The objects that were given to it."""
        self.violations: list[str] = []
        """What was not accepted in the objects that it changed."""

    def place_of(self, value: Any) -> str:
        """Return which argument contains an object."""
        given = next((each for each in self.arguments if isinstance(each, tuple)), ())
        named = next((each for each in self.arguments if isinstance(each, dict)), {})
        for number, each in enumerate(given, start=1):
            if _contains(each, value):
                return f"argument {number}"
        for name, each in named.items():
            if _contains(each, value):
                return f"argument {name}"
        return "other input"


def _contains(container: Any, value: Any, depth: int = 0) -> bool:
    if container is value:
        return True
    if depth > 60 or not isinstance(container, list | tuple | dict | set | frozenset):
        return False
    inside = container.values() if isinstance(container, dict) else container
    return any(_contains(each, value, depth + 1) for each in inside)


class Printed(io.TextIOBase):
    """A stream whose text is sent with the next message."""

    def __init__(self, endpoint: Endpoint, name: str, most: int) -> None:
        self.endpoint = endpoint
        self.stream = name
        self.left = most

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.left > 0:
            kept = text[: self.left]
            self.left -= len(kept)
            if self.left <= 0:
                kept += "\n[the rest of the output is truncated]\n"
            self.endpoint.printed.append((self.stream, kept))
        return len(text)


def _content(value: Any) -> Any:
    """Return a copy of an object's content, to detect changes in place later."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if pandas_data.is_pandas(value):
        return value.copy(deep=True)
    if isinstance(value, dict):
        return list(dict.items(value))
    return list(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, Tensor | np.ndarray) or pandas_data.is_pandas(value)


def reset(value: Any, content: Any) -> None:
    """Give an object its earlier content again."""
    if isinstance(value, Tensor):
        value.data = content
    elif isinstance(value, np.ndarray):
        value[...] = content
    elif pandas_data.is_pandas(value):
        pandas_data.reset(value, content)
    elif isinstance(value, list):
        value[:] = content
    else:
        value.clear()
        value.update(content)


def _same_content(value: Any, before: Any) -> bool:
    if isinstance(value, Tensor):
        return value.layout != torch.strided or same_numbers(value.detach(), before)
    if isinstance(value, np.ndarray):
        return value.shape == before.shape and value.tobytes() == before.tobytes()
    if pandas_data.is_pandas(value):
        return frozen_same(pandas_data.parts(value), pandas_data.parts(before))
    now = _content(value)
    return len(now) == len(before) and all(
        map(frozen_same, now, before)
        if not isinstance(value, dict)
        else (a[0] is b[0] and a[1] is b[1] for a, b in zip(now, before, strict=True))
    )


def _encoded_content(encoder: Encoder, value: Any) -> Node:
    if isinstance(value, Tensor):
        if value.requires_grad and not value.is_leaf:
            return encoder.computed_tensor(value)
        return encoder.tensor_content(value)
    if isinstance(value, np.ndarray):
        return encoder.array_content(value)
    return encoder.content(value)
