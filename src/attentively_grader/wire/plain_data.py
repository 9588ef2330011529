"""Values as plain data, and back: what may pass between the student's process and the examiner's.

A value is plain if its type is exactly one of those that `encoder` lists; a child of `str` or
`Tensor`, which could answer every comparison as it likes, is not. What is not plain is left to
`outgoing` and `incoming`. In the plain form None, booleans, strings, floats and small whole numbers
stand for themselves; everything else is a list that begins with a tag. Numbers of tensors and
arrays lie in buffers beside it.

Within one message what is the same object stays the same object: each list, dict, set, array and
tensor gets a number, in the order in which they are met. An answer can refer to the objects of its
question by theirs.
"""

from typing import Any

import numpy as np

Node = Any
"""What JSON can hold."""

MANY = 2_000_000
"""The most values in a message."""
KINDS = frozenset("biufcSUMm")
"""Of NumPy's arrays, those that hold numbers or text."""
SCALARS = frozenset(
    np.dtype(code).type for code in (*np.typecodes["AllInteger"], *np.typecodes["AllFloat"], "?")
)


def plain_text(value: object, most: int = 2000) -> str:
    """Return text of bounded length, whatever the object's own `str` does."""
    try:
        text = str(value)
    except BaseException as error:
        text = f"<{type(error).__name__} in its own str>"
    text = text if type(text) is str else str.__str__(text)
    return text if len(text) <= most else f"{text[:most]} ..."
