"""Global state that is sent with a call: random generators, gradient mode, PyTorch modes.

Each message contains the states of the random generators if they have changed since the last
message, so that a seed set in a test affects the student's code as in a single process. The
examiner accepts a state only if its own generators can reach it by sampling; otherwise an answer
could choose the random numbers of a test.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.encoder import Encoder
from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import Node

MOST = 500
"""Maximum number of blocks of 624 random words between two messages."""
_WORDS = slice(24, 24 + 8 * 624)
"""The position of the generator's 624 words in PyTorch's state."""


class RandomState:
    """The random generators, and their states at the last message."""

    def __init__(self, trusted: bool) -> None:
        self.trusted = trusted
        self._torch, self._numpy = b"", b""
        self._python: tuple[Any, ...] = ()

    def changes(self, encoder: Encoder) -> Node:
        """Return the states that have changed since the last message."""
        changed: dict[str, Node] = {}
        state = torch.get_rng_state().numpy().tobytes()
        if state != self._torch:
            self._torch = state
            changed["torch"] = encoder.buffer(state)
        _, keys, place, has, cached = cast(tuple[Any, ...], np.random.get_state())
        numbers = keys.tobytes() + bytes(f"{place},{has},{cached!r}", "ascii")
        if numbers != self._numpy:
            self._numpy = numbers
            changed["numpy"] = [encoder.buffer(keys.tobytes()), place, has, cached]
        python = random.getstate()
        if python != self._python:
            self._python = python
            changed["python"] = python
        return changed

    def apply(self, changed: Node, decoder: Decoder) -> None:
        """Apply the states that have changed at the other end."""
        try:
            if "torch" in changed:
                self._take_torch(bytes(decoder.buffers[changed["torch"]]))
            if "numpy" in changed:
                place, *rest = changed["numpy"]
                self._take_numpy(np.frombuffer(decoder.buffers[place], np.uint32), *rest)
            if "python" in changed:
                self._take_python(*changed["python"])
        except Exception:
            raise WireError("a received random state is malformed") from None

    # A rejected state is forgotten, so the next message sends our state to the other end.

    def _take_torch(self, state: bytes) -> None:
        if self.trusted and not _torch_leads_to(state[_WORDS]):
            self._torch = b""
            return
        self._torch = state
        torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    def _take_numpy(self, keys: np.ndarray, position: int, has: int, cached: float) -> None:
        if self.trusted and not _numpy_leads_to(keys.tobytes()):
            self._numpy = b""
            return
        np.random.set_state(("MT19937", keys, int(position), int(has), float(cached)))
        self._numpy = keys.tobytes() + bytes(f"{position},{has},{cached!r}", "ascii")

    def _take_python(self, version: int, numbers: Sequence[int], gauss: float | None) -> None:
        if self.trusted and not _python_leads_to(list(numbers[:-1])):
            self._python = ()
            return
        self._python = (version, tuple(numbers), gauss)
        random.setstate(self._python)


def _torch_leads_to(wanted: bytes) -> bool:
    mine = torch.Generator()
    mine.set_state(torch.get_rng_state())
    return _reached(
        lambda: mine.get_state()[_WORDS].numpy().tobytes(),
        lambda: torch.rand(624, generator=mine),
        wanted,
    )


def _numpy_leads_to(wanted: bytes) -> bool:
    mine = np.random.RandomState()
    mine.set_state(np.random.get_state())
    return _reached(
        lambda: cast(Any, mine.get_state())[1].tobytes(), lambda: mine.bytes(4 * 624), wanted
    )


def _python_leads_to(wanted: list[int]) -> bool:
    mine = random.Random()
    mine.setstate(random.getstate())
    return _reached(
        lambda: list(mine.getstate()[1][:-1]), lambda: mine.getrandbits(32 * 624), wanted
    )


def _reached(words: Callable[[], Any], draw: Callable[[], Any], wanted: Any) -> bool:
    """Return whether sampling reaches the words of a state; `draw` samples one block."""
    for _ in range(MOST):
        if words() == wanted:
            return True
        draw()
    return False


def watchers() -> list[Any]:
    """Return the active function and dispatch modes of PyTorch."""
    return [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]


@contextlib.contextmanager
def around(grad: bool, modes: Sequence[Any]) -> Iterator[None]:
    """Run the block with the caller's gradient mode and PyTorch modes."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(bool(grad)))
        for mode in modes:
            stack.enter_context(mode)
        yield
