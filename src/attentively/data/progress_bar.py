"""A progress bar for slow loops in a terminal; pages and files do not show it."""

from collections.abc import Iterable
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")


def when_slow(items: Iterable[T], name: str, total: int | None = None) -> Iterable[T]:
    """Yield every item; a terminal shows how far that is once it has taken two seconds."""
    return tqdm(items, desc=name, total=total, delay=2, leave=False, disable=None)
