"""beartype, for functions that jaxtyping's import hook finds one by one."""

import functools
from typing import Any, Self

import beartype


def check(function):
    """Check the arguments and the result of `function` against its annotations.

    The check is made at the first call: to make all of them takes seconds in each test process.
    beartype understands `Self` only where it decorates the class, so here it goes unchecked.
    """
    hints = getattr(function, "__annotations__", {})
    if Self in hints.values():
        function.__annotations__ = {
            name: Any if hint is Self else hint for name, hint in hints.items()
        }
    made = functools.cache(lambda: beartype.beartype(function))

    @functools.wraps(function)
    def checked(*args, **kwargs):
        return made()(*args, **kwargs)

    return checked
