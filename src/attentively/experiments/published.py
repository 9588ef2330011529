"""How pages tell published results."""

from collections.abc import Iterable


def spread(values: Iterable[float], form: str = "{:.2f}") -> str:
    """Return the mean of a few numbers, and in brackets the lowest and the highest.

    With three seeds these tell more than a deviation would: ``spread([0.5, 0.75, 0.7])`` is
    ``0.65 (0.50–0.75)``. Every number is written in the given `form`. Raises `ValueError` where
    there is none.
    """
    numbers = list(values)
    if not numbers:
        raise ValueError("there are no numbers to tell the spread of")
    told = (sum(numbers) / len(numbers), min(numbers), max(numbers))
    mean, lowest, highest = (form.format(number) for number in told)
    return f"{mean} ({lowest}–{highest})"
