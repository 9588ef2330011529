"""Recorded profiles of training steps."""

import json
from functools import cache
from pathlib import Path

Event = tuple[str, float, float]
"""A name, and its begin and end in milliseconds."""

_RECORDED = Path(__file__).with_name("recorded_profiles.json")
"""Made by tools/record_profiles.py; its times are in tenths of microseconds."""


@cache
def profiles() -> dict[str, list[Event]]:
    """Return the events of three training steps, each with another bottleneck."""
    recorded = json.loads(_RECORDED.read_text(encoding="utf-8"))
    names = recorded["names"]
    return {
        letter: [(names[number], begin / 1e4, end / 1e4) for number, begin, end in events]
        for letter, events in recorded["profiles"].items()
    }
