"""Answers as a student would hand them in: as text."""

import inspect


def source(*answers, **changes):
    """Return the source of right answers, with some words replaced."""
    text = "\n\n".join(inspect.getsource(each) for each in answers)
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    return text
