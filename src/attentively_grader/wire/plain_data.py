"""Plain data: the values that may pass between the student process and the examiner process.

A value is plain if its type is exactly one of those in `encoder`. A subclass of `str` or `Tensor`
is not plain, because it could fake every comparison. `outgoing_objects` and `incoming_objects`
handle values that are not plain. In the encoded form, None, booleans, strings, floats and small
integers represent themselves; everything else is a list that starts with a tag. The values of
tensors and arrays are in separate buffers.

Within one message, identity is preserved: each list, dict, set, array and tensor gets a number, in
the order of encoding. An answer can refer to the objects of its request by these numbers.
"""

from typing import Any

import numpy as np

Node = Any
"""A value that JSON can represent."""

MANY = 2_000_000
"""Maximum number of values in a message."""
KINDS = frozenset("biufcSUMm")
"""The kinds of NumPy dtypes for numbers and text."""
SCALARS = frozenset(
    np.dtype(code).type for code in (*np.typecodes["AllInteger"], *np.typecodes["AllFloat"], "?")
)


def plain_text(value: object, most: int = 2000) -> str:
    """Return text of bounded length, even if the object's own `str` fails."""
    try:
        text = str(value)
    except BaseException as error:
        text = f"<{type(error).__name__} in its own str>"
    text = text if type(text) is str else str.__str__(text)
    return text if len(text) <= most else f"{text[:most]} ..."
