"""Sentence pairs come out of text files tidy, or the line at fault is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentively.data.pairs import Pair, parse_pairs, read_pairs, tidy


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


@pytest.mark.parametrize("text", ["", "\n\n", " \n\t\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"pairs\.tsv holds no sentence pair"):
        read_pairs(path)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_pairs(tmp_path / "nowhere.tsv")


def test_parsing_no_lines_gives_no_pairs():
    assert parse_pairs([], "nothing") == []


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "  ", "\u2009", "\n"])
def test_every_space_becomes_a_plain_one(space):
    assert tidy(f" Qui{space}? ") == "Qui ?"


@given(st.text())
def test_tidying_twice_changes_nothing_more(text):
    assert tidy(tidy(text)) == tidy(text)
    assert tidy(text).split() == text.split()
