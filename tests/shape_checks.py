"""beartype, for functions that jaxtyping's import hook finds one by one."""

from typing import Any, Self

import beartype


def check(function):
    """Check the arguments and the result of `function` against its annotations.

    beartype understands `Self` only where it decorates the class, so here it goes unchecked.
    """
    hints = getattr(function, "__annotations__", {})
    if Self in hints.values():
        function.__annotations__ = {
            name: Any if hint is Self else hint for name, hint in hints.items()
        }
    return beartype.beartype(function)
