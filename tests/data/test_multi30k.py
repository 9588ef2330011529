"""Captions in two of three languages, whole and tidy."""

import pytest

from attentively.data import download, multi30k
from attentively.data.pairs import Pair

SETS = ["multi30k-en-de", "multi30k-en-fr", "multi30k-de-fr"]
TEXTS = {
    "multi30k/val.en": "Two dogs run.\nA man.\n",
    "multi30k/val.de": " Zwei Hunde\u00a0laufen. \nEin Mann.\n",
    "multi30k/val.fr": "Deux chiens courent.\n",
    "multi30k/test_2016_flickr.en": "A cat.\n",
    "multi30k/test_2016_flickr.fr": "\n",
}


@pytest.fixture
def _texts(monkeypatch):
    monkeypatch.setattr(download, "read", TEXTS.__getitem__)


@pytest.mark.usefixtures("_texts")
def test_both_directions_and_tidy():
    there = multi30k.load("validation", "en", "de")
    assert there == [Pair("Two dogs run.", "Zwei Hunde laufen."), Pair("A man.", "Ein Mann.")]
    assert multi30k.load("validation", "de", "en") == [Pair(tgt, src) for src, tgt in there]


@pytest.mark.usefixtures("_texts")
def test_files_that_do_not_fit_are_told():
    with pytest.raises(
        ValueError, match=r"multi30k/val\.en has 2 lines but multi30k/val\.fr has 1"
    ):
        multi30k.load("validation", "en", "fr")
    with pytest.raises(ValueError, match=r"line 1 of multi30k/test_2016_flickr\.fr is empty"):
        multi30k.load("test", "en", "fr")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("dev", "en", "de"),
            "split='dev' is unknown: choose train, validation, test or test_2017",
        ),
        (("test", "en", "cs"), "language 'cs' is unknown: choose en, de or fr"),
        (("test", "EN", "de"), "language 'EN' is unknown"),
        (("test", "de", "de"), "src and tgt are both 'de'"),
    ],
)
def test_what_is_not_there_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        multi30k.load(*arguments)


@pytest.mark.real_data(*SETS)
@pytest.mark.parametrize(("src", "tgt"), [("en", "de"), ("fr", "en"), ("de", "fr")])
def test_counts_and_no_stray_space(src, tgt):
    pairs = {split: multi30k.load(split, src, tgt) for split in multi30k.FILES}
    counts = {split: len(found) for split, found in pairs.items()}
    assert counts == {"train": 29_000, "validation": 1_014, "test": 1_000, "test_2017": 1_000}
    for found in pairs.values():
        for text in (text for pair in found for text in pair):
            assert text == " ".join(text.split())
            assert text


@pytest.mark.real_data("multi30k-en-de", "multi30k-en-fr")
def test_the_languages_tell_of_the_same_photographs():
    german, french = multi30k.load("test", "en", "de"), multi30k.load("test", "en", "fr")
    assert [pair.src for pair in german] == [pair.src for pair in french]
    assert german[0].src == "A man in an orange hat starring at something."
    assert german[0].tgt == "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt."


@pytest.mark.real_data("multi30k-en-de")
def test_no_test_caption_was_trained_on():
    train = {pair.src for pair in multi30k.load("train", "en", "de")}
    for split in ("test", "test_2017"):
        assert not train & {pair.src for pair in multi30k.load(split, "en", "de")}
    assert len(train & {pair.src for pair in multi30k.load("validation", "en", "de")}) == 1
