"""Sentence pairs come out of text files tidy, or the line at fault is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.data.pairs import (
    Pair,
    parse_pairs,
    read_pairs,
    read_parallel,
    tidy,
    translations_by_source,
)


def test_reading(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "Go.\tVa !\nHi.\tSalut !\tCC BY 2.0\n\n  \nWho?\tQui\u202f?\n", encoding="utf-8"
    )
    assert read_pairs(path) == [Pair("Go.", "Va !"), Pair("Hi.", "Salut !"), Pair("Who?", "Qui ?")]


def test_only_a_line_feed_ends_a_line(tmp_path):
    # U+0085 and U+2028 end a line for str.splitlines, not for the file.
    path = tmp_path / "pairs.tsv"
    path.write_text("a\u0085b\tc\u2028d\n", encoding="utf-8")
    assert read_pairs(path) == [Pair("a b", "c d")]


def test_windows_line_ends(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"Go.\tVa !\r\nHi.\tSalut !\r\n")
    assert read_pairs(path) == [Pair("Go.", "Va !"), Pair("Hi.", "Salut !")]


def test_a_line_without_a_tab_is_named(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("Go.\tVa !\n\nHi. Salut !\n")
    with pytest.raises(ValueError, match=r"line 3 of .*pairs\.tsv has no tab"):
        read_pairs(path)


@pytest.mark.parametrize(("line", "side"), [("\tVa !", "source"), ("Go. \t\u00a0\tx", "target")])
def test_a_line_that_lacks_a_side_is_named(line, side):
    with pytest.raises(ValueError, match=f"line 2 of phrases has an empty {side}"):
        parse_pairs(["Hi.\tSalut !", line], "phrases")


@pytest.mark.parametrize("text", ["", "\n\n", " \n\t\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"pairs\.tsv is empty"):
        read_pairs(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_pairs(tmp_path / "nowhere.tsv")


def test_bytes_that_are_no_utf_8_are_named(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes("Go.\tVa !\nSummer.\tÉté.\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"pairs\.tsv is not UTF-8: byte 0xc9 .* in line 2"):
        read_pairs(path)


@pytest.fixture
def parallel(tmp_path):
    """Write two files, and return what they say as pairs."""

    def read(english, french):
        (tmp_path / "a.en").write_bytes(english.encode())
        (tmp_path / "a.fr").write_bytes(french.encode())
        return read_parallel(tmp_path / "a.en", tmp_path / "a.fr")

    return read


def test_two_files_line_by_line(parallel):
    expected = [Pair("Go.", "Va !"), Pair("Who?", "Qui ?")]
    assert parallel("Go.\nWho?\n", "Va !\nQui\u202f?\n") == expected
    assert parallel("Go.\nWho?", "\ufeffVa !\r\n  Qui ?\r\n") == expected


def test_two_files_of_different_length_are_refused_with_both(parallel):
    with pytest.raises(ValueError, match=r"a\.en has 2 lines but \S*a\.fr has 3: line n of one"):
        parallel("Go.\nWho?\n", "Va !\nQui ?\nOù ?\n")


@pytest.mark.parametrize(
    ("english", "french", "file"), [("Go.\n\n", "Va !\nQui ?\n", "en"), ("a\nb", "c\n \n", "fr")]
)
def test_an_empty_line_is_named(parallel, english, french, file):
    with pytest.raises(ValueError, match=rf"line 2 of \S*a\.{file} is empty: remove it from both"):
        parallel(english, french)


def test_an_empty_one_of_two_files_is_refused(parallel):
    with pytest.raises(ValueError, match=r"a\.fr is empty"):
        parallel("Go.\n", "")


def test_parsing_no_lines_gives_no_pairs():
    assert parse_pairs([], "nothing") == []


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "  ", "\u2009", "\n"])
def test_every_space_becomes_a_plain_one(space):
    assert tidy(f" Qui{space}? ") == "Qui ?"


@given(st.text())
def test_tidying_twice_changes_nothing_more(text):
    assert tidy(tidy(text)) == tidy(text)
    assert tidy(text).split() == text.split()


def test_translations_are_gathered_by_source_in_their_order():
    pairs = [
        Pair("Go.", "Va !"),
        Pair("Hi.", "Salut !"),
        Pair("Go.", "Marche."),
        Pair("Go.", "Va !"),
    ]
    found = translations_by_source(pairs)
    assert list(found.items()) == [("Go.", ["Va !", "Marche.", "Va !"]), ("Hi.", ["Salut !"])]
    assert translations_by_source([]) == {}
