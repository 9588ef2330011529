"""Who waits at a terminal sees how far it is; a file or a page is spared it."""

import io
import itertools

import pytest

from attentively.data import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def written(monkeypatch):
    """Count things that take so many seconds each, and return what was written meanwhile."""

    def run(stream, seconds):
        monkeypatch.setattr("sys.stderr", stream)
        clock = itertools.count(step=seconds)
        monkeypatch.setattr("tqdm.std.time", lambda: next(clock))
        assert list(progress_bar.when_slow(range(2000), "counting")) == list(range(2000))
        return stream.getvalue()

    return run


def test_nothing_is_written_to_a_file(written):
    assert written(io.StringIO(), 1.0) == ""


def test_a_terminal_is_told_once_it_takes_long(written):
    assert "counting" in written(Terminal(), 1.0)


def test_a_terminal_is_not_bothered_before(written):
    assert "counting" not in written(Terminal(), 1e-6)


def test_every_item_comes():
    assert list(progress_bar.when_slow(iter("abc"), "letters", total=3)) == ["a", "b", "c"]
