"""Global state that is sent with a call: random generators, gradient mode, PyTorch modes.

After a test has set a seed, the state of the random generator is sent with the next call in which
the instructor's solution samples from this generator, so that the seed affects the student's code
as in a single process. The state would show what the test samples next. Therefore a generator that
the solution does not use gets a seed that follows from the state, instead of the state. No state is
ever read from the student process: the tests sample from the examiner's own generators.
"""

import contextlib
import functools
import hmac
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from attentively_grader.wire.decoder import Decoder
from attentively_grader.wire.encoder import Encoder
from attentively_grader.wire.plain_data import Node

GENERATORS = ("torch", "numpy", "python")


class RandomState:
    """The random generators at one end."""

    def __init__(self, trusted: bool) -> None:
        if trusted:
            _observe_seeds()
        self.seen = dict(_seeds)
        self.seen_by_others = dict(_seeds)
        """The seeds after which a derived seed was sent."""
        self.states = {} if trusted else {name: _state(name) for name in GENERATORS}

    def changes(self, encoder: Encoder, names: Iterable[str]) -> Node:
        """Return the states of those generators for which a test has set a seed."""
        changed: dict[str, Node] = {}
        for name in names:
            if _seeds[name] == self.seen[name]:
                continue
            self.seen[name] = _seeds[name]
            state = _state(name)
            if name == "torch":
                changed[name] = encoder.buffer(state)
            elif name == "numpy":
                keys, *rest = state
                changed[name] = [encoder.buffer(keys), *rest]
            else:
                changed[name] = state
        return changed

    def derived(self, names: Iterable[str], secret: bytes) -> Node:
        """Return seeds for generators of which the state would show what a test samples next.

        A seed follows from the test's state and a secret, so that the same seed of a test gives the
        same numbers, but no one can compute one from the other.
        """
        changed: dict[str, Node] = {}
        for name in names:
            if _seeds[name] != self.seen_by_others[name]:
                self.seen_by_others[name] = _seeds[name]
                state = repr(_state(name)).encode()
                changed[name] = hmac.digest(secret, name.encode() + state, "sha256").hex()[:8]
        return changed

    def apply(self, changed: Node, decoder: Decoder) -> None:
        """Set the generators of the student process to the states that the test has."""
        is_seeded = "derived" in changed
        for name, seed in changed.pop("derived", {}).items():
            set_seed: Any = {"torch": torch.manual_seed, "numpy": np.random.seed}.get(name)
            (set_seed or random.seed)(int(seed, 16))
        if "torch" in changed:
            state = bytearray(decoder.buffers[changed["torch"]])
            torch.set_rng_state(torch.frombuffer(state, dtype=torch.uint8))
        if "numpy" in changed:
            place, position, has, cached = changed["numpy"]
            keys = np.frombuffer(decoder.buffers[place], np.uint32)
            np.random.set_state(("MT19937", keys, position, has, cached))
        if "python" in changed:
            version, numbers, gauss = changed["python"]
            random.setstate((version, tuple(numbers), gauss))
        if changed or is_seeded:
            self.states = {name: _state(name) for name in GENERATORS}

    def drew(self) -> list[str]:
        """Return the generators that were used since the last answer."""
        now = {name: _state(name) for name in GENERATORS}
        drawn = [name for name in GENERATORS if now[name] != self.states[name]]
        self.states = now
        return drawn


_seeds = dict.fromkeys(GENERATORS, 0)
"""How often each generator was seeded in this process."""


@functools.cache
def _observe_seeds() -> None:
    """Count the seeds that are set from now on."""
    for name, module, functions in (
        ("torch", torch, ("manual_seed", "seed", "set_rng_state")),
        ("torch", torch.random, ("manual_seed", "seed", "set_rng_state")),
        ("numpy", np.random, ("seed", "set_state")),
        ("python", random, ("seed", "setstate")),
    ):
        for function in functions:
            setattr(module, function, _counted(name, getattr(module, function)))


def _counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        _seeds[name] += 1
        return original(*args, **kwargs)

    return seed


def _state(name: str) -> Any:
    if name == "torch":
        return torch.get_rng_state().numpy().tobytes()
    if name == "numpy":
        _, keys, position, has, cached = cast(tuple[Any, ...], np.random.get_state())
        return keys.tobytes(), position, has, cached
    return random.getstate()


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
