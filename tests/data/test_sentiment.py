"""Labelled sentences fall into three splits by their text, and a faulty line is named."""

from collections import Counter

import pytest

from attentively.data import download, sentiment
from attentively.data.sentiment import LABELS, Labelled, parse_labelled, part_of, read_labelled
from attentively.data.splits import SPLITS


def test_parsing():
    lines = ["Wow\u0085... Loved  this place. \t1", "", "Crust is not good.\t0\r", "  "]
    assert parse_labelled(lines, "f", LABELS) == [
        Labelled("Wow ... Loved this place.", "positive"),
        Labelled("Crust is not good.", "negative"),
    ]
    assert parse_labelled(["a b\tvery good"], "f") == [Labelled("a b", "very good")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no tab 1", "line 3 of reviews has 1 columns, but expected text<TAB>label"),
        ("two\ttabs\t1", "line 3 of reviews has 3 columns"),
        ("\t1", "line 3 of reviews has an empty text"),
        ("Good. \t ", "line 3 of reviews has an empty label"),
        ("Good.\t2", "line 3 of reviews has label '2', but expected 0 or 1"),
    ],
)
def test_a_malformed_line_is_named(line, message):
    with pytest.raises(ValueError, match=message):
        parse_labelled(["Good.\t1", "", line], "reviews", LABELS)


def test_reading_a_file(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("Bien !\tbon\r\nNul.\tmauvais\r\n", encoding="utf-8")
    assert read_labelled(path) == [Labelled("Bien !", "bon"), Labelled("Nul.", "mauvais")]
    path.write_text("")
    with pytest.raises(ValueError, match=r"reviews\.tsv is empty"):
        read_labelled(path)


def test_a_sentence_that_occurs_twice_is_in_one_split():
    examples = [Labelled(f"Sentence {n}.", "a") for n in range(300)]
    again = [Labelled(f"sentence {n}!", "b") for n in range(300)]
    for split in SPLITS:
        texts = Counter(e.text.casefold().rstrip(".!") for e in part_of(examples + again, split))
        assert set(texts.values()) == {2}


def test_the_three_files_come_as_one(monkeypatch):
    texts = {
        file.path: f"{file.path} {n}.\t{n % 2}\n"
        for n, file in enumerate(download.files_of("sentiment"))
    }
    monkeypatch.setattr(download, "read", texts.__getitem__)
    found = [example for split in SPLITS for example in sentiment.load(split)]
    assert Counter(example.label for example in found) == {"negative": 2, "positive": 1}


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split='dev' is unknown"):
        sentiment.load("dev")


@pytest.mark.real_data("sentiment")
def test_the_real_sentences():
    splits = {split: sentiment.load(split) for split in SPLITS}
    every = [example for found in splits.values() for example in found]
    assert Counter(example.label for example in every) == {"positive": 1500, "negative": 1500}
    assert len(splits["validation"]) == pytest.approx(300, rel=0.2)
    assert len(splits["test"]) == pytest.approx(300, rel=0.2)
    texts = {split: {example.text for example in found} for split, found in splits.items()}
    assert not texts["train"] & texts["test"]
    assert not texts["train"] & texts["validation"]
    assert Labelled("Crust is not good.", "negative") in every
    assert all(example.text == " ".join(example.text.split()) for example in every)
