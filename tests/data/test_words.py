"""Text to learn vectors from, and the questions that they are asked."""

import dataclasses
import hashlib

import pytest

from attentively.data import catalogue, download, words
from attentively.data.words import parse_analogies, parse_similarities, split_words

FRENCH = "Go.\tVa !\nDon’t go!\tNe va pas !\nGo!\tMarche.\n...\t…\nA café.\tUn café.\n"
SPANISH = "Go.\tVe.\nDon't go.\tNo vayas.\nTom is 30.\tTom tiene 30 años.\n"
ANALOGIES = ": capitals\nParis France Rome Italy\n: gram1-verbs\ngo went eat ate\nsee saw go went\n"
SIMILARITIES = "# Word 1\tWord 2\ttiger\n# and people\t\n\nCat\ttiger\t7.35\nstock\tegg\t1.81\n"
MADE_UP = {
    "tatoeba/fra.txt": FRENCH,
    "tatoeba/spa.txt": SPANISH,
    "word_eval/questions-words.txt": ANALOGIES,
    "word_eval/wordsim353.tsv": SIMILARITIES,
}


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A data folder of our own, with files of a few lines instead of the real ones."""
    files = dict(catalogue.FILES)
    for path, text in MADE_UP.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        checksum = hashlib.sha256(text.encode()).hexdigest()
        files[path] = dataclasses.replace(files[path], sha256=checksum)
    monkeypatch.setattr(download, "FILES", files)
    monkeypatch.setenv(download.VARIABLE, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("They welcomed the Queen!", ["they", "welcomed", "the", "queen"]),
        ("I don't, I can\u2019t.", ["i", "don't", "i", "can't"]),
        ("'Tis the dogs' well-known 'café'", ["tis", "the", "dogs", "well", "known", "café"]),
        ("It's 2:30, 25_000 km.", ["it's", "2", "30", "25", "000", "km"]),
        ("Où est-elle ?", ["où", "est", "elle"]),
        (" ... ?!", []),
    ],
)
def test_words_by_hand(text, expected):
    assert split_words(text) == expected


def test_each_sentence_comes_once_and_without_punctuation(made_up):
    assert words.tatoeba_english() == [
        ["go"],
        ["don't", "go"],
        ["a", "café"],
        ["tom", "is", "30"],
    ]


def test_analogies_come_by_section(made_up):
    assert words.analogies() == {
        "capitals": [("paris", "france", "rome", "italy")],
        "gram1-verbs": [("go", "went", "eat", "ate"), ("see", "saw", "go", "went")],
    }


def test_similarities_have_their_judgement(made_up):
    assert words.similarities() == [("cat", "tiger", 7.35), ("stock", "egg", 1.81)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["paris france rome italy"], "line 1 of questions must be ': section'"),
        ([": capitals", "", "paris france rome"], "line 3 of questions"),
        ([": capitals", "paris france rome italy berlin"], "line 2 of questions"),
    ],
)
def test_a_faulty_question_is_named(lines, message):
    with pytest.raises(ValueError, match=message):
        parse_analogies(lines, "questions")


@pytest.mark.parametrize("line", ["cat tiger 7.35", "cat\ttiger", "cat\ttiger\tvery", "a\tb\t1\t2"])
def test_a_faulty_judgement_is_named(line):
    with pytest.raises(ValueError, match="line 2 of judged must be two words and a number"):
        parse_similarities(["# a remark", line], "judged")


def test_data_that_is_not_there_is_an_error(made_up, monkeypatch):
    (made_up / "word_eval/wordsim353.tsv").write_text("cat\ttiger\t1\n")
    with pytest.raises(download.DataError, match=r"wordsim353\.tsv is damaged"):
        words.similarities()


# The real ones


@pytest.mark.real_data("analogies")
def test_the_google_set():
    sections = words.analogies()
    assert len(sections) == 14
    assert sum(len(questions) for questions in sections.values()) == 19_544
    assert sections["family"][0] == ("boy", "girl", "brother", "sister")
    assert len(sections["gram7-past-tense"]) == 1560


@pytest.mark.real_data("wordsim353")
def test_wordsim():
    pairs = words.similarities()
    assert len(pairs) == 353
    assert ("tiger", "cat", 7.35) in pairs
    assert all(0 <= judged <= 10 for _, _, judged in pairs)


@pytest.mark.real_data("tatoeba-en-fr", "tatoeba-en-es")
def test_the_sentences_of_tatoeba():
    sentences = words.tatoeba_english()
    assert len({tuple(sentence) for sentence in sentences}) == len(sentences)
    assert all(sentences)
    assert len(sentences) == 178_234
    assert sum(len(sentence) for sentence in sentences) == 1_149_506
