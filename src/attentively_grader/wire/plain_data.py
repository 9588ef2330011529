"""Plain data: the values that may pass between the student process and the examiner process.

A value is plain if its type is exactly one of those in `encoder`. A subclass of `str` or `Tensor`
is not plain, because it could fake every comparison. `outgoing_objects` and `incoming_objects`
handle values that are not plain. In the encoded form, None, booleans, strings, floats and small
integers represent themselves; everything else is a list that starts with a tag. The values of
tensors and arrays are in separate buffers.

Within one message, identity is preserved: each list, dict, set, array and tensor gets a number, in
the order of encoding. An answer can refer to the objects of its request by these numbers.
"""

import re
from typing import Any

import numpy as np
import torch

Node = Any
"""A value that JSON can represent."""

MANY = 2_000_000
"""Maximum number of values in a message."""
KINDS = frozenset("biufcSUMm")
"""The kinds of NumPy dtypes for numbers and text."""
_ARRAY_DTYPE = re.compile(
    r"[<>|=]?([?]|b1|[iu][1248]|f(2|4|8|12|16)|c(8|16|24|32)|[SU]\d{1,6}"
    r"|[Mm]8(\[\d{0,6}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)
TENSOR_DTYPES = {
    f"torch.{name}": getattr(torch, name)
    for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64",
        "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
"""The dtypes of tensors in messages."""
SCALARS = frozenset(
    np.dtype(code).type for code in (*np.typecodes["AllInteger"], *np.typecodes["AllFloat"], *"?mM")
)


def array_dtype(name: object) -> np.dtype[Any]:
    """Return the NumPy dtype of this name; raise `ValueError` if messages may not have it."""
    if type(name) is not str or not _ARRAY_DTYPE.fullmatch(name):
        raise ValueError(f"the dtype {name!r:.40} is not allowed")
    return np.dtype(name)


def plain_text(value: object, most: int = 2000) -> str:
    """Return text of bounded length, even if the object's own `str` fails."""
    try:
        text = str(value)
    except BaseException as error:
        text = f"<{type(error).__name__} in its own str>"
    text = text if type(text) is str else str.__str__(text)
    return text if len(text) <= most else f"{text[:most]} ..."
