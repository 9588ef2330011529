"""A progress bar for slow loops, shown in terminals only."""

from collections.abc import Iterable
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def when_slow(items: Iterable[T], name: str, total: int | None = None) -> Iterable[T]:
    """Yield every item, with a progress bar in a terminal after two seconds."""
    return tqdm(items, desc=name, total=total, delay=2, leave=False, disable=None)
