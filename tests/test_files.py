"""A file is replaced whole or not at all."""

import stat

import pytest

from attentively.files import replacing


def test_a_new_file_in_a_new_folder(tmp_path):
    path = tmp_path / "deep" / "down" / "note.txt"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()  # not before all is written
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


def test_others_may_read_it(tmp_path):
    with replacing(tmp_path / "note.txt") as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE((tmp_path / "note.txt").stat().st_mode) == 0o644


@pytest.mark.parametrize("failure", [OSError, ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_stood_there(tmp_path, failure):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(failure), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise failure
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_the_old_text_or_the_new(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "note.txt"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the one that ended last


def test_a_folder_in_the_way_is_an_error(tmp_path):
    (tmp_path / "note.txt").mkdir()
    with pytest.raises(OSError), replacing(tmp_path / "note.txt") as temporary:
        temporary.write_text("new")
    assert list(tmp_path.iterdir()) == [tmp_path / "note.txt"]
