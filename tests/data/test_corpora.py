"""Corpora by name and by kind, ours and yours."""

import pytest

from attentively.data import corpora, download, toy
from attentively.data.corpora import CORPORA, KINDS
from attentively.data.pairs import Pair
from attentively.data.sentiment import Labelled
from attentively.data.splits import SPLITS, split_of

# What each corpus asks of a folder of data; the others are made on the spot.
SETS = {
    "tatoeba-en-fr": "tatoeba-en-fr",
    "tatoeba-fr-en": "tatoeba-en-fr",
    "tatoeba-en-es": "tatoeba-en-es",
    "tatoeba-es-en": "tatoeba-en-es",
    "multi30k-en-de": "multi30k-en-de",
    "multi30k-de-en": "multi30k-en-de",
    "multi30k-en-fr": "multi30k-en-fr",
    "multi30k-fr-en": "multi30k-en-fr",
    "multi30k-de-fr": "multi30k-de-fr",
    "multi30k-fr-de": "multi30k-de-fr",
    "shakespeare": "shakespeare",
    "sentiment": "sentiment",
}
MADE = ["digit-scenes", "toy", "toy-fr-en", "toy-pronouns", "toy-text", "toy-with-twins"]


def test_every_corpus_has_what_a_checkpoint_must_say():
    assert sorted(CORPORA) == sorted([*SETS, *MADE])
    for name, corpus in CORPORA.items():
        assert corpora.find(name) is corpora.find(name, corpus.kind) is corpus
        assert corpus.name == name
        assert corpus.licence
        assert corpus.attribution
        assert corpus.kind in KINDS


@pytest.mark.parametrize(("name", "data_set"), SETS.items())
def test_a_downloaded_corpus_has_the_licence_of_its_set(name, data_set):
    assert CORPORA[name].licence == download.SETS[data_set].licence
    assert CORPORA[name].attribution == download.SETS[data_set].attribution


def test_names_by_kind():
    assert corpora.names("text") == ["shakespeare", "toy-text"]
    assert corpora.names("labels") == ["sentiment", "toy-pronouns"]
    assert corpora.names("scenes") == ["digit-scenes"]
    assert len(corpora.names("pairs")) == 13


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(
        ValueError, match=r"no corpus is called 'klingon': choose one of .*tatoeba-en"
    ):
        corpora.find("klingon")
    with pytest.raises(ValueError) as refused:
        corpora.find("klingon", "text")
    assert "plain text (shakespeare, toy-text)" in str(refused.value)
    assert "sentence pairs" not in str(refused.value)
    assert ".txt" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (
            "toy",
            "text",
            "toy is a corpus of sentence pairs, but expected plain text: choose one of shake",
        ),
        ("sentiment", "pairs", "labelled sentences, but expected sentence pairs: .*multi30k-de-en"),
        ("toy", "scenes", "but expected images with captions: choose one of digit-scenes"),
    ],
)
def test_a_corpus_of_another_kind_is_refused(name, kind, message):
    with pytest.raises(ValueError, match=message):
        corpora.find(name, kind)


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_an_unknown_split_is_refused(name):
    with pytest.raises(ValueError, match="split='dev' is unknown: choose"):
        corpora.find(name).load("dev")


# what is made on the spot


def test_toy_is_the_toy_language():
    expected = [Pair(pair.src_text, pair.tgt_text) for pair in toy.load("test", 500)]
    assert corpora.find("toy").load("test") == expected
    back = corpora.find("toy-fr-en").load("test")
    assert back == [Pair(tgt, src) for src, tgt in expected]
    assert corpora.find("toy-text").load("test") == "".join(f"{tgt}\n" for _, tgt in expected)


def test_twins_are_added_and_no_split_shares_a_sentence():
    corpus, seen = corpora.find("toy-with-twins"), set()
    for split in ("train", "validation", "test"):
        pairs = corpus.load(split)
        plain = [Pair(pair.src_text, pair.tgt_text) for pair in toy.load(split, 100)]
        assert pairs[: len(plain)] == plain
        assert len(pairs) == corpora._TOY_PAIRS[split] + 2 * corpora._TOY_TWINS[split]
        last = [pair.src.split()[:-1] for pair in pairs[-2:]]
        assert last[0] == last[1]  # twins
        assert not seen & {pair.src for pair in pairs}
        seen |= {pair.src for pair in pairs}


def test_pronouns_are_labelled_by_what_french_says():
    examples = corpora.find("toy-pronouns", "labels").load("test")
    assert len(examples) == 300
    for one, other in zip(examples[::2], examples[1::2], strict=True):
        assert one.text.split()[:-1] == other.text.split()[:-1]  # the last word decides
        assert {one.label, other.label} == {"masculine", "feminine"}
        for example in (one, other):
            pronoun = {"masculine": "il", "feminine": "elle"}[example.label]
            french = toy.translate(example.text)
            assert "it" in french.src
            it = french.src.index("it")
            assert {french.tgt[j] for i, j in french.alignment if i == it} == {pronoun}


def test_scenes_have_captions():
    scenes = corpora.find("digit-scenes", "scenes").load("validation")
    assert len(scenes) == 500
    assert scenes[0].image.shape[0] == 1
    assert len(scenes[0].caption) == len(scenes[0].focus)


# your own files


@pytest.fixture
def _here(tmp_path, monkeypatch):
    """A folder with a corpus of each kind: 700 lines in each file."""
    monkeypatch.chdir(tmp_path)
    english = [f"Sentence number {n}." for n in range(700)]
    french = [f"Phrase numéro {n}." for n in range(700)]
    label = ["odd" if n % 2 else "even" for n in range(700)]
    for name, lines in {
        "a.en": english,
        "a.fr": french,
        "pairs.tsv": map("\t".join, zip(english, french, strict=True)),
        "labelled.tsv": map("\t".join, zip(english, label, strict=True)),
        "story.txt": english,
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("name", ["a.en,a.fr", "a.en, a.fr", "pairs.tsv"])
def test_your_own_pairs(name):
    corpus = corpora.find(name)
    assert (corpus.name, corpus.kind) == (name, "pairs")
    assert corpus.licence
    assert name in corpus.attribution
    splits = {split: corpus.load(split) for split in SPLITS}
    assert sum(map(len, splits.values())) == 700
    for split, pairs in splits.items():
        assert all(split_of(pair.src) == split for pair in pairs)
    assert Pair("Sentence number 7.", "Phrase numéro 7.") in splits["train"]


@pytest.mark.usefixtures("_here")
def test_your_own_text():
    corpus = corpora.find("story.txt", "text")
    whole = "".join(corpus.load(split) for split in SPLITS)
    assert whole.startswith("Sentence number 0.\nSentence number 1.\n")
    assert whole.endswith("Sentence number 699.\n")
    assert corpora.find("story.txt").kind == "text"


@pytest.mark.usefixtures("_here")
def test_your_own_labelled_sentences():
    corpus = corpora.find("labelled.tsv", "labels")
    splits = {split: corpus.load(split) for split in SPLITS}
    assert sum(map(len, splits.values())) == 700
    assert len(splits["test"]) == pytest.approx(70, rel=0.4)
    assert Labelled("Sentence number 7.", "odd") in [e for found in splits.values() for e in found]


@pytest.mark.usefixtures("_here")
def test_the_kind_says_how_a_file_is_read():
    assert corpora.find("pairs.tsv", "text").load("train").startswith("Sentence number 0.\tPhrase")
    assert corpora.find("a.en", "text").load("train").startswith("Sentence number 0.\n")


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("name", "kind", "error", "message"),
    [
        ("a.en,b.fr", None, FileNotFoundError, r"no such file: b\.fr"),
        ("b.tsv", None, FileNotFoundError, r"no such file: b\.tsv"),
        ("b.txt", "text", FileNotFoundError, r"no such file: b\.txt"),
        ("a.en,a.fr,a.de", None, ValueError, "names 3 files, but expected two"),
        (
            "a.en",
            None,
            ValueError,
            r"no corpus is called 'a\.en'.*your own files, one that ends in",
        ),
        ("a.en,a.fr", "text", ValueError, "is a corpus of sentence pairs, but expected plain text"),
        ("story.txt", "scenes", ValueError, "images with captions cannot be read from a file"),
    ],
)
def test_what_no_file_is_for(name, kind, error, message):
    with pytest.raises(error, match=message):
        corpora.find(name, kind)


@pytest.mark.usefixtures("_here")
def test_a_faulty_line_is_named_when_it_is_read(tmp_path):
    with pytest.raises(ValueError, match=r"line 1 of story\.txt has no tab"):
        corpora.find("story.txt", "pairs").load("train")
    (tmp_path / "a.fr").write_text("Va !\n")
    with pytest.raises(ValueError, match=r"a\.en has 700 lines but a\.fr has 1"):
        corpora.find("a.en,a.fr").load("train")


def test_too_few_examples_for_a_split_are_told(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("Go.\tVa !\nMilk.\tLait.\n")
    assert len(corpora.find(str(path)).load("train")) == 2
    with pytest.raises(
        ValueError, match=r"pairs\.tsv: none of the 2 examples falls into the test sp"
    ):
        corpora.find(str(path)).load("test")


# the real ones


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.real_data(data)) for name, data in SETS.items()]
)
def test_the_real_corpora_load(name):
    corpus = corpora.find(name)
    found = corpus.load("validation")
    assert len(found) > 200
    if corpus.kind == "pairs":
        assert all(pair.src and pair.tgt for pair in found)
    if name.endswith("-en") and corpus.kind == "pairs":
        first, second = name.split("-")[1:]
        other = corpora.find(name.replace(f"{first}-{second}", f"{second}-{first}"))
        assert [Pair(tgt, src) for src, tgt in found] == other.load("validation")
