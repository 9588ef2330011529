"""What a call finds around it: random numbers, whether gradients are kept, and watchers.

With each message travels the state of the generators of random numbers, if it is another than when
the last message passed, so that a seed set in a test means for the student's code what it means in
one process.
"""

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from attentively_grader.decoder import Decoder
from attentively_grader.encoder import Encoder
from attentively_grader.plain import Node
from attentively_grader.wire import WireError


class RandomState:
    """The generators of random numbers, and how they were when a message last passed."""

    def __init__(self) -> None:
        self._torch, self._numpy = b"", b""
        self._python: tuple[Any, ...] = ()

    def changes(self, encoder: Encoder) -> Node:
        """Return what has changed since the last message."""
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
        """Take over what has changed at the other end."""
        try:
            if "torch" in changed:
                self._torch = bytes(decoder.buffers[changed["torch"]])
                torch.set_rng_state(torch.frombuffer(bytearray(self._torch), dtype=torch.uint8))
            if "numpy" in changed:
                place, position, has, cached = changed["numpy"]
                keys = np.frombuffer(decoder.buffers[place], np.uint32)
                np.random.set_state(("MT19937", keys, int(position), int(has), float(cached)))
                self._numpy = keys.tobytes() + bytes(f"{position},{has},{cached!r}", "ascii")
            if "python" in changed:
                version, numbers, gauss = changed["python"]
                self._python = (version, tuple(numbers), gauss)
                random.setstate(self._python)
        except Exception:
            raise WireError("the random state that came is malformed") from None


def watchers() -> list[Any]:
    """Return the modes of PyTorch that look at every operation now."""
    return [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]


@contextlib.contextmanager
def around(grad: bool, modes: Sequence[Any]) -> Iterator[None]:
    """Run what follows as the caller asks."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(bool(grad)))
        for mode in modes:
            stack.enter_context(mode)
        yield
