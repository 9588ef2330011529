"""Profiles that were recorded: what ran in one training step, from when to when."""

import json
from functools import cache
from pathlib import Path

Event = tuple[str, float, float]
"""A name, and when it began and ended, in milliseconds."""

_RECORDED = Path(__file__).with_name("recorded_profiles.json")
"""Made by tools/record_profiles.py; times there are tenths of microseconds."""


@cache
def profiles() -> dict[str, list[Event]]:
    """Return three training steps, each with what keeps it busy, or does not."""
    recorded = json.loads(_RECORDED.read_text(encoding="utf-8"))
    names = recorded["names"]
    return {
        letter: [(names[number], begin / 1e4, end / 1e4) for number, begin, end in events]
        for letter, events in recorded["profiles"].items()
    }
