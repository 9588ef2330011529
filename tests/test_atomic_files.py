"""A file is replaced whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from attentively.atomic_files import check_replaceable, replacing


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


def test_who_may_read_it_stays_or_is_as_for_any_new_file(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    path.chmod(0o640)
    earlier = os.umask(0o077)
    try:
        for name in ("note.txt", "new.txt"):
            with replacing(tmp_path / name) as temporary:
                temporary.write_text("new")
    finally:
        os.umask(earlier)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path, exists):
    target, link = tmp_path / "deep" / "target.txt", tmp_path / "link.txt"
    target.parent.mkdir()
    if exists:
        target.write_text("old")
    link.symlink_to(target)
    with replacing(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


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


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_stays(tmp_path, make):
    """A folder, or a pipe to another program, in the place of which a file would be a loss."""
    make(tmp_path / "note.txt")
    kind = stat.S_IFMT((tmp_path / "note.txt").stat().st_mode)
    with (
        pytest.raises(OSError, match=r"note\.txt is not a regular file"),
        replacing(tmp_path / "note.txt") as temporary,
    ):
        temporary.write_text("new")
    assert stat.S_IFMT((tmp_path / "note.txt").stat().st_mode) == kind
    assert list(tmp_path.iterdir()) == [tmp_path / "note.txt"]


def test_it_is_known_beforehand_whether_a_file_can_be_written(tmp_path):
    (tmp_path / "note.txt").write_text("old")
    check_replaceable(tmp_path / "note.txt")
    assert (tmp_path / "note.txt").read_text() == "old"
    check_replaceable(tmp_path / "deep" / "down" / "note.txt")
    assert list((tmp_path / "deep" / "down").iterdir()) == []
    with pytest.raises(OSError, match="is not a regular file"):
        check_replaceable(tmp_path / "deep")
    with pytest.raises(OSError, match=r"cannot write to .*note\.txt: (File|Not a)"):
        check_replaceable(tmp_path / "note.txt" / "inside.txt")
