"""The objects of pandas as plain data: their parts, and the same objects built from parts.

The parts of an object are nested tuples of plain data: labels, names, and the bytes or elements of
each column. Therefore a column in the examiner cannot be an object of the student's own class. The
student process sends such objects only if the instructor's cells import pandas.
"""

import functools
import importlib
import sys
from typing import Any

import numpy as np

from attentively_grader.wire.messages import WireError
from attentively_grader.wire.plain_data import KINDS, MANY, array_dtype

Parts = tuple[Any, ...]
_LONGEST_FREQUENCY = 40
_NULLABLE = frozenset(
    ["boolean", "Float32", "Float64"]
    + [f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)]
)


def is_pandas(value: Any) -> bool:
    """Return whether a value is a DataFrame, a Series, an index or an array of pandas."""
    return "pandas" in sys.modules and isinstance(value, _kinds())


def mutable() -> tuple[type, ...]:
    """Return the classes whose instances can be changed in place."""
    pd = _pandas()
    return pd.DataFrame, pd.Series


def is_plain(value: Any) -> bool:
    """Return whether an object of pandas has only plain columns and labels."""
    if not is_pandas(value) or type(value).__module__.split(".")[0] != "pandas":
        return False
    if value.ndim == 2:
        dtypes = [*value.dtypes]
        return all(map(_is_plain_dtype, dtypes)) and all(map(_is_plain_index, value.axes))
    index = getattr(value, "index", value)
    return _is_plain_dtype(value.dtype) and (
        not hasattr(index, "nlevels") or _is_plain_index(index)
    )


def without_subclass(value: Any) -> Any:
    """Return a DataFrame or Series of a subclass as one of pandas itself; others as they are."""
    for base in mutable() if is_pandas(value) else ():
        if isinstance(value, base) and type(value) is not base:
            return base(value)
    return value


def parts(value: Any) -> Parts:
    """Return the parts of an object of pandas that `is_plain`."""
    if value.ndim == 2:
        columns = tuple(_values(value.iloc[:, place]) for place in range(value.shape[1]))
        return _index_parts(value.index), _index_parts(value.columns), columns
    if hasattr(value, "index"):
        return _index_parts(value.index), value.name, _values(value)
    return _index_parts(value) if hasattr(value, "nlevels") else ("array", _values(value))


def empty(kind: str) -> Any:
    """Return a new DataFrame or Series, whose content is set later."""
    pd = _pandas()
    return pd.DataFrame() if kind == "DataFrame" else pd.Series(dtype=object)


def fill(value: Any, found: Parts) -> None:
    """Give a DataFrame or Series the content that these parts describe."""
    pd = _pandas()
    if isinstance(value, pd.DataFrame):
        index, labels, columns = found
        rows = index_of(index)
        series = {place: _series(each, rows) for place, each in enumerate(columns)}
        new = pd.DataFrame(series, index=rows)
        new.columns = index_of(labels)
    else:
        index, name, values = found
        new = _series(values, index_of(index))
        new.name = name
    reset(value, new)


def reset(value: Any, new: Any) -> None:
    """Give a DataFrame or Series the content of another one."""
    type(value).__init__(value, new)


def index_of(found: Parts) -> Any:
    """Return the index, or the array, of these parts."""
    pd = _pandas()
    kind, *rest = found
    if kind == "array":
        return _array(*rest)
    if kind == "range":
        start, stop, step, name = rest
        if len(range(start, stop, step)) > MANY:
            raise WireError("an index is too large")
        return pd.RangeIndex(start, stop, step, name=name)
    if kind == "multi":
        levels, codes, names = rest
        return pd.MultiIndex(
            levels=[index_of(each) for each in levels],
            codes=[np.frombuffer(each, np.int64) for each in codes],
            names=names,
        )
    values, name, frequency = rest
    array = _array(values)
    index = pd.Index(array, dtype=array.dtype, name=name)
    if frequency is not None:
        if type(frequency) is not str or len(frequency) > _LONGEST_FREQUENCY:
            raise WireError("a message is malformed")
        index = type(index)(index, freq=frequency)
    return index


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise WireError("a message contains an object of pandas, which is not installed") from None


@functools.cache
def _kinds() -> tuple[Any, ...]:
    pd = _pandas()
    return pd.DataFrame, pd.Series, pd.Index, pd.api.extensions.ExtensionArray


def _is_plain_dtype(dtype: Any) -> bool:
    pd = _pandas()
    if isinstance(dtype, np.dtype):
        return dtype.kind == "O" or (dtype.kind in KINDS and not dtype.hasobject)
    if isinstance(dtype, pd.CategoricalDtype):
        return dtype.categories is not None and _is_plain_index(dtype.categories)
    return isinstance(dtype, pd.StringDtype) or str(dtype) in _NULLABLE


def _is_plain_index(index: Any) -> bool:
    return all(map(_is_plain_dtype, index.dtypes if index.nlevels > 1 else [index.dtype]))


def _index_parts(index: Any) -> Parts:
    pd = _pandas()
    if isinstance(index, pd.RangeIndex):
        return "range", index.start, index.stop, index.step, index.name
    if isinstance(index, pd.MultiIndex):
        codes = tuple(np.asarray(each, np.int64).tobytes() for each in index.codes)
        return "multi", tuple(map(_index_parts, index.levels)), codes, tuple(index.names)
    return "index", _values(index), index.name, getattr(index, "freqstr", None)


def _values(value: Any) -> Parts:
    """Return the parts of the values of a column or an index."""
    dtype = value.dtype
    if isinstance(dtype, np.dtype):
        values = value.to_numpy()
        if dtype.kind == "O":
            return "objects", tuple(values)
        return "numbers", dtype.str, values.tobytes()
    if isinstance(dtype, _pandas().CategoricalDtype):
        codes = np.asarray(getattr(value, "array", value).codes, np.int64).tobytes()
        return "categories", _index_parts(dtype.categories), bool(dtype.ordered), codes
    missing = value.isna()
    mask = np.asarray(missing, bool).tobytes()
    if isinstance(dtype, _pandas().StringDtype):
        elements = value.to_numpy(dtype=object, na_value="")
        return "text", str(dtype), tuple(map(str, elements)), mask
    values = value.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
    return "nullable", values.dtype.str, values.tobytes(), mask


def _series(found: Parts, index: Any) -> Any:
    array = _array(found)
    return _pandas().Series(array, index=index, dtype=array.dtype)


def _array(found: Parts) -> Any:
    """Return the values of a column or an index from their parts."""
    pd = _pandas()
    kind, *rest = found
    if kind == "objects":
        objects = np.empty(len(rest[0]), dtype=object)
        for place, each in enumerate(rest[0]):
            objects[place] = each
        return objects
    if kind == "numbers":
        return _numbers(*rest)
    if kind == "categories":
        categories, ordered, codes = rest
        return pd.Categorical.from_codes(
            np.frombuffer(codes, np.int64), index_of(categories), ordered=bool(ordered)
        )
    *rest, mask = rest
    missing = np.frombuffer(mask, np.uint8) != 0
    if kind == "text":
        dtype, elements = rest
        if dtype not in ("str", "string") or not all(type(each) is str for each in elements):
            raise WireError("a message is malformed")
        made = pd.array(list(elements), dtype=dtype)
        made[missing] = None
        return made
    values = _numbers(*rest)
    arrays = pd.arrays
    kinds = {"b": arrays.BooleanArray, "f": arrays.FloatingArray}
    return kinds.get(values.dtype.kind, arrays.IntegerArray)(values, missing)


def _numbers(dtype: Any, raw: Any) -> np.ndarray:
    kind = array_dtype(dtype)
    if kind.kind == "b":
        return np.frombuffer(raw, np.uint8) != 0
    return np.frombuffer(raw, kind).copy()
