"""Text files are read as they are, or the byte at fault is named; a text is cut in three."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.data import download, text
from attentively.data.splits import SPLITS
from attentively.data.text import lines_of, part_of, read_lines, read_text


@pytest.fixture
def path(tmp_path):
    return tmp_path / "story.txt"


def test_reading(path):
    path.write_bytes("Été.\n\n  Où ?\n".encode())
    assert read_text(path) == "Été.\n\n  Où ?\n"
    assert read_lines(path) == ["Été.", "", "  Où ?"]


def test_windows_line_ends_and_byte_order_marks(path):
    path.write_bytes("\ufeffÉté.\r\nOù ?\r\n".encode())
    assert read_text(path) == "Été.\nOù ?\n"


def test_carriage_returns_alone_end_lines_too(path):
    path.write_bytes(b"a\tb\rc\td\r\n\re\tf\r")
    assert read_text(path) == "a\tb\nc\td\n\ne\tf\n"
    assert read_lines(path) == ["a\tb", "c\td", "", "e\tf"]


@pytest.mark.parametrize("content", ["a\nb", "a\nb\n"])
def test_the_last_line_may_end_or_not(path, content):
    path.write_text(content)
    assert read_lines(path) == ["a", "b"]


def test_only_a_line_feed_ends_a_line(path):
    path.write_text("a\u0085b\u2028c\x0cd\ne", encoding="utf-8")
    assert read_lines(path) == ["a\u0085b\u2028c\x0cd", "e"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "Où ?\nÉté.".encode("latin-1"),
            r"story\.txt is not UTF-8: byte 0xf9 at offset 1, in line 1",
        ),
        (b"plain\nand\n\xff\xfe", r"byte 0xff at offset 10, in line 3"),
        ("Où ?".encode()[:2], r"byte 0xc3 at offset 1"),
        ("\ufeffÉté\n".encode() + b"\x80", r"byte 0x80 at offset 9, in line 2"),
    ],
)
def test_bytes_that_are_no_utf_8_are_named(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_text(path)


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(path, content):
    path.write_bytes(content)
    for read in (read_text, read_lines):
        with pytest.raises(ValueError, match=r"story\.txt is empty"):
            read(path)


def test_a_missing_file_is_an_error(path):
    with pytest.raises(FileNotFoundError, match=r"story\.txt"):
        read_text(path)


def test_lines_come_as_they_are_read():
    content = "\ufeffÉté\n\ufeffOù\u2028?\n".encode() + b"\xff"
    lines = lines_of(io.BytesIO(content), "it")
    assert next(lines) == "Été\n"
    assert next(lines) == "\ufeffOù\u2028?\n"
    with pytest.raises(ValueError, match="it is not UTF-8: byte 0xff in line 3"):
        next(lines)


def test_by_hand():
    alphabet = "abcdefghijklmnopqrst"
    parts = [part_of(alphabet, split, "the alphabet") for split in SPLITS]
    assert parts == ["abcdefghijklmnopqr", "s", "t"]


@given(st.text(min_size=20))
def test_the_parts_make_the_whole(whole):
    parts = [part_of(whole, split, "it") for split in SPLITS]
    assert "".join(parts) == whole
    assert all(parts)
    assert len(parts[0]) == pytest.approx(0.90 * len(whole), abs=1)
    assert len(parts[1]) == pytest.approx(0.05 * len(whole), abs=1)


@pytest.mark.parametrize("length", range(11))
def test_a_text_too_short_is_refused(length):
    with pytest.raises(ValueError, match=f"the note has {length} characters, too few"):
        part_of("a" * length, "train", "the note")


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split='dev' is unknown"):
        part_of("a" * 100, "dev", "it")


@pytest.mark.real_data("shakespeare")
def test_the_plays_come_whole_and_in_order():
    train, validation, test = (text.shakespeare(split) for split in SPLITS)
    assert train + validation + test == download.read("tinyshakespeare/input.txt")
    assert train.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n")
    assert len(train) == 1_003_854
    assert len(set(train)) == 65  # the characters there are
    assert set(validation) | set(test) <= set(train)
