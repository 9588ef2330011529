"""The corpora that models are trained on, by name, each in three splits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, TypeVar

from attentively.data import multi30k, sentiment, tatoeba, text, toy
from attentively.data.catalogue import SETS, DataSet
from attentively.data.pairs import Pair, read_pairs, read_parallel
from attentively.data.sentiment import Labelled
from attentively.data.splits import check_split, split_of

T = TypeVar("T")
Kind = Literal["pairs", "text", "labels", "scenes"]

KINDS: dict[Kind, str] = {
    "pairs": "sentence pairs",
    "text": "plain text",
    "labels": "labelled sentences",
    "scenes": "images with captions",
}
"""The kinds of corpora, in words."""

_SUFFIXES: dict[str, Kind] = {".tsv": "pairs", ".txt": "text"}


@dataclass(frozen=True)
class Corpus:
    """A source of examples in three splits."""

    name: str
    load: Callable[[str], Sequence[Any]]
    """Return the split ``train``, ``validation`` or ``test``: a list of `Pair` for sentence pairs,
    one string for plain text, a list of `Labelled` for labelled sentences, and a list of
    `DigitScene` for images with captions.
    """
    licence: str
    attribution: str
    kind: Kind = "pairs"


_TOY_PAIRS = {"train": 20_000, "validation": 500, "test": 500}
_TOY_TWINS = {"train": 2_000, "validation": 150, "test": 150}
_SCENES = {"train": 10_000, "validation": 500, "test": 500}


def _toy(split: str) -> list[Pair]:
    check_split(split)
    return [Pair(pair.src_text, pair.tgt_text) for pair in toy.load(split, _TOY_PAIRS[split])]


def _twins(split: str) -> list[toy.ToyPair]:
    check_split(split)
    return [pair for twins in toy.pronoun_pairs(_TOY_TWINS[split], split=split) for pair in twins]


def _toy_with_twins(split: str) -> list[Pair]:
    return _toy(split) + [Pair(pair.src_text, pair.tgt_text) for pair in _twins(split)]


def _toy_text(split: str) -> str:
    return "".join(pair.tgt + "\n" for pair in _toy(split))


def _toy_pronouns(split: str) -> list[Labelled]:
    return [
        Labelled(pair.src_text, "feminine" if "elle" in pair.tgt else "masculine")
        for pair in _twins(split)
    ]


def _digit_scenes(split: str) -> Sequence[Any]:
    from attentively.data import digits  # scikit-learn takes a while to import

    check_split(split)
    return digits.load(split, _SCENES[split])


def _reversed(load: Callable[[str], Sequence[Pair]], split: str) -> list[Pair]:
    return [Pair(tgt, src) for src, tgt in load(split)]


def _of_set(
    data_set: DataSet, load: Callable[[str], Sequence[Any]], kind: Kind, name: str | None = None
) -> Corpus:
    return Corpus(name or data_set.name, load, data_set.licence, data_set.attribution, kind)


def _built_in() -> list[Corpus]:
    ours = partial(Corpus, licence="MIT", attribution="The Attentively authors")
    found = [
        ours("toy", _toy),
        ours("toy-with-twins", _toy_with_twins),
        ours("toy-fr-en", partial(_reversed, _toy)),
        ours("toy-text", _toy_text, kind="text"),
        ours("toy-pronouns", _toy_pronouns, kind="labels"),
        Corpus(
            name="digit-scenes",
            load=_digit_scenes,
            licence="CC BY 4.0",
            attribution="digits by Alpaydin & Kaynak (1998), "
            "https://archive.ics.uci.edu/dataset/80, by way of scikit-learn",
            kind="scenes",
        ),
        _of_set(SETS["shakespeare"], text.shakespeare, "text"),
        _of_set(SETS["sentiment"], sentiment.load, "labels"),
    ]
    for other in ("fr", "es"):
        data_set = SETS[f"tatoeba-en-{other}"]
        load = partial(tatoeba.load, name=data_set.name)
        found.append(_of_set(data_set, load, "pairs"))
        back = partial(_reversed, load)
        found.append(_of_set(data_set, back, "pairs", f"tatoeba-{other}-en"))
    for src, tgt in permutations(multi30k.LANGUAGES, 2):
        name = f"multi30k-{src}-{tgt}"
        data_set = SETS[name] if name in SETS else SETS[f"multi30k-{tgt}-{src}"]
        load = partial(multi30k.load, src=src, tgt=tgt)
        found.append(_of_set(data_set, load, "pairs", name))
    return found


CORPORA = {corpus.name: corpus for corpus in _built_in()}


def find(name: str, kind: Kind | None = None) -> Corpus:
    """Return the corpus called `name`, or the corpus in your own files.

    Two file names separated by a comma, ``news.en,news.fr``, are parallel texts, line by line. The
    content of a single file is given by `kind`: pairs as ``source<TAB>target`` lines, labelled
    sentences as ``text<TAB>label`` lines, or plain text. Without a `kind`, ``.tsv`` files contain
    pairs and ``.txt`` files text. The split of a sentence depends on its text: 1 % are for
    validation and 1 % for testing (10 % each for labelled sentences). Of plain text, the last 5 %
    are for testing and the 5 % before for validation.

    Raises `ValueError` for an unknown name and for a corpus of another kind than `kind`, with the
    list of names; `FileNotFoundError` for a missing file.
    """
    corpus = CORPORA.get(name) or _from_files(name, kind)
    if corpus is None:
        raise ValueError(
            f"no corpus is called {name!r}: choose one of {_listed(kind)}; or name your own "
            "files, one that ends in .tsv or .txt, or two separated by a comma"
        )
    if kind is not None and corpus.kind != kind:
        raise ValueError(
            f"{name} is a corpus of {KINDS[corpus.kind]}, but expected {KINDS[kind]}: choose one "
            f"of {', '.join(names(kind))}"
        )
    return corpus


def names(kind: Kind) -> list[str]:
    """Return the names of the corpora of one kind."""
    return sorted(corpus.name for corpus in CORPORA.values() if corpus.kind == kind)


def _listed(kind: Kind | None) -> str:
    """Return the names of all corpora by kind, or those of the given kind."""
    kinds = [one for one in KINDS if names(one) and kind in (None, one)]
    return ", ".join(f"{KINDS[one]} ({', '.join(names(one))})" for one in kinds)


def _from_files(name: str, kind: Kind | None) -> Corpus | None:
    """Return the corpus in the user's files, or None if `name` does not name files."""
    paths = [Path(part.strip()) for part in name.split(",")]
    if len(paths) > 2:
        raise ValueError(f"{name} names {len(paths)} files, but expected two: source,target")
    if len(paths) == 2:
        kind = "pairs"
    elif paths[0].suffix in _SUFFIXES or paths[0].is_file():
        kind = kind or _SUFFIXES.get(paths[0].suffix)
    else:
        return None
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"no such file: {path}")
    if kind is None:
        return None
    readers: dict[Kind, Callable[[Sequence[Path], str], Sequence[Any]]] = {
        "pairs": _pairs,
        "text": _text,
        "labels": _labels,
    }
    if kind not in readers:
        raise ValueError(f"{name} is a file, but {KINDS[kind]} cannot be read from a file")
    load = partial(readers[kind], paths)
    return Corpus(name, load, "that of your own files", f"your own files {name}", kind)


def _pairs(paths: Sequence[Path], split: str) -> list[Pair]:
    check_split(split)
    pairs = read_pairs(paths[0]) if len(paths) == 1 else read_parallel(*paths)
    chosen = [pair for pair in pairs if split_of(pair.src) == split]
    return _not_empty(chosen, len(pairs), split, paths)


def _text(paths: Sequence[Path], split: str) -> str:
    return text.part_of(text.read_text(paths[0]), split, str(paths[0]))


def _labels(paths: Sequence[Path], split: str) -> list[Labelled]:
    examples = sentiment.read_labelled(paths[0])
    return _not_empty(sentiment.part_of(examples, split), len(examples), split, paths)


def _not_empty(chosen: list[T], number: int, split: str, paths: Sequence[Path]) -> list[T]:
    if not chosen:
        raise ValueError(
            f"{', '.join(map(str, paths))}: none of the {number} examples falls into the {split} "
            "split: add more examples"
        )
    return chosen
