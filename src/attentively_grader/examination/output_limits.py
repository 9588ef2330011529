"""Limits of the outputs, applied by the examiner to whatever the student process sends.

The outputs of a cell are rebuilt here. What is not an output in notebook format 4 is dropped; what
exceeds a limit is cut, with a note.
"""

import json
from typing import Any

from attentively_grader.jobs import Limits

Output = dict[str, Any]

CUT = "\n[the rest of the output is truncated]\n"
_IMAGES = 8
"""Size of images and tables in a cell, as a multiple of the limit of its text."""
_ERROR_CHARACTERS = 65_536
_ERROR_LINES = 60
_METADATA_CHARACTERS = 4096
_DEPTH = 20
_MIME_TYPES = 20


class OutputLimits:
    """What the outputs of one notebook may still take."""

    def __init__(self, limits: Limits) -> None:
        self._text = limits.output_kib * 1024
        self._most = limits.outputs
        self._left = limits.notebook_output_kib * 1024
        self._left_outputs = limits.notebook_outputs

    def allowed(self, outputs: Any) -> list[Output]:
        """Return the well-formed outputs of a cell, up to the limits."""
        kept: list[Output] = []
        text = self._text
        images = self._text * _IMAGES
        cut = False
        has_error = False
        for each in outputs if isinstance(outputs, list) else ():
            clean = _well_formed(each)
            if clean is None:
                continue
            if clean["output_type"] == "error":
                if not has_error:  # the first one is kept in any case, because it is short
                    kept.append(clean)
                has_error = True
                continue
            if clean["output_type"] == "stream":
                room = min(text, self._left)
                cut = cut or len(clean["text"]) > room
                clean["text"] = clean["text"][: max(room, 0)]
                text -= len(clean["text"])
                self._left -= len(clean["text"])
                if not clean["text"]:
                    continue
                if kept and kept[-1].get("name") == clean["name"]:
                    kept[-1]["text"] += clean["text"]
                    continue
            else:
                size = len(json.dumps(clean["data"]))
                if size > min(images, self._left):
                    cut = True
                    continue
                images -= size
                self._left -= size
            if len(kept) >= min(self._most, self._left_outputs):
                cut = True
                break
            kept.append(clean)
        self._left_outputs -= len(kept)
        if cut:
            kept.append({"output_type": "stream", "name": "stdout", "text": CUT})
        return kept


def _well_formed(output: Any) -> Output | None:
    """Return a copy of an output with known keys only; None if it is malformed or empty."""
    if not isinstance(output, dict):
        return None
    kind = output.get("output_type")
    if kind == "stream":
        name, text = output.get("name"), output.get("text")
        if name not in ("stdout", "stderr") or type(text) is not str or not text:
            return None
        return {"output_type": kind, "name": name, "text": text}
    if kind == "error":
        return _error(output)
    if kind not in ("display_data", "execute_result"):
        return None
    data = _data(output.get("data"))
    if not data:
        return None
    metadata = output.get("metadata")
    if not isinstance(metadata, dict) or _size(metadata) > _METADATA_CHARACTERS:
        metadata = {}
    made = {"output_type": kind, "data": data, "metadata": metadata}
    if kind == "execute_result":
        count = output.get("execution_count")
        made["execution_count"] = count if type(count) is int and 0 <= count < 10**6 else None
    return made


def _error(output: Output) -> Output | None:
    name, value, lines = (output.get(key) for key in ("ename", "evalue", "traceback"))
    if type(name) is not str or type(value) is not str or not isinstance(lines, list):
        return None
    kept: list[str] = []
    left = _ERROR_CHARACTERS
    for line in lines[:_ERROR_LINES]:
        if type(line) is not str:
            return None
        kept.append(line[:left])
        left -= len(kept[-1])
    return {
        "output_type": "error",
        "ename": name[:200],
        "evalue": value[:20_000],
        "traceback": kept,
    }


def _data(data: Any) -> dict[str, Any]:
    """Return the representations of a value that are text, or JSON of limited depth."""
    found: dict[str, Any] = {}
    for kind, value in list(data.items())[:_MIME_TYPES] if isinstance(data, dict) else ():
        if type(kind) is not str or len(kind) > 200:
            continue
        if isinstance(value, list) and all(type(line) is str for line in value):
            value = "".join(value)
        is_json = kind == "application/json" or kind.endswith("+json")
        if type(value) is str or (is_json and _is_json(value)):
            found[kind] = value
    return found


def _size(value: Any) -> float:
    """Return the length of a value as JSON; infinite if it is nested too deeply."""
    try:
        return len(json.dumps(value)) if _is_json(value) else float("inf")
    except ValueError:  # an integer with too many digits
        return float("inf")


def _is_json(value: Any, depth: int = 0) -> bool:
    if depth > _DEPTH:
        return False
    if isinstance(value, dict):
        return all(type(key) is str and _is_json(each, depth + 1) for key, each in value.items())
    if isinstance(value, list):
        return all(_is_json(each, depth + 1) for each in value)
    if type(value) is int:
        return abs(value) < 2**63
    return value is None or type(value) in (str, float, bool)
