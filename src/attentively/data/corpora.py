"""The sentence-pair corpora that models are trained on, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attentively.data import tatoeba, toy
from attentively.data.download import FILES
from attentively.data.pairs import Pair


@dataclass(frozen=True)
class Corpus:
    """A source of sentence pairs in three splits."""

    name: str
    load: Callable[[str], Sequence[Pair]]
    """Returns the pairs of ``train``, ``validation`` or ``test``."""
    licence: str
    attribution: str


_TOY_PAIRS = {"train": 20_000, "validation": 500, "test": 500}


def _toy(split: str) -> list[Pair]:
    if split not in _TOY_PAIRS:
        raise ValueError(f"split={split!r} is unknown: choose of {', '.join(_TOY_PAIRS)}")
    return [Pair(pair.src_text, pair.tgt_text) for pair in toy.load(split, _TOY_PAIRS[split])]


CORPORA = {
    corpus.name: corpus
    for corpus in [
        Corpus(
            name="toy",
            load=_toy,
            licence="MIT",
            attribution="The Attentively authors",
        ),
        Corpus(
            name=tatoeba.NAME,
            load=tatoeba.load,
            licence=FILES[tatoeba.NAME].licence,
            attribution=FILES[tatoeba.NAME].attribution,
        ),
    ]
}


def find(name: str) -> Corpus:
    """Return the corpus called `name`; an unknown name lists those there are."""
    if name not in CORPORA:
        raise ValueError(f"no corpus is called {name!r}; there are {', '.join(sorted(CORPORA))}")
    return CORPORA[name]
