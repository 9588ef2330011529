"""Subwords: the effect of the kind and the size of a vocabulary, measured on real text.

Each seed omits another tenth of the training sentences; sentence statistics are computed on the
validation split. The sides of a pair are ``src``, English, and ``tgt``, French.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from attentively.data import tatoeba, toy
from attentively.data.pairs import Pair
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text
from attentively.tokens.byte_pair import learn_merges, merge_word
from attentively.tokens.unigram import best_segmentation, learn_unigram
from attentively.tokens.vocabulary import SPECIAL_TOKENS, UNK, BPETokenizer

KINDS = ("corpus", "characters", "words", "joint", "separate", "wordpiece", "unigram")
SIZES = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)
COMPARED_SIZE = 8_000
"""Vocabulary size for which byte-pair encoding, WordPiece and the unigram model are compared."""

EXAMPLES = ("welcomed", "milking", "unfriendly", "unhappiness", "queens", "maisons", "wombat")
"""Words whose segmentations are compared."""

SIDES = ("src", "tgt")
RARE = 10
"""A subword with a lower training frequency is called rare."""

OWN_MERGES = 5_000
"""Number of merges that are compared with those of `byte_pair.learn_merges`."""


class Vocabulary(NamedTuple):
    """The subwords of a vocabulary, and the segmentation of words into them."""

    pieces: frozenset[str]
    cut: Callable[[str], list[str]]


def measure(kind: str, size: int, seed: int, quick: bool, directory: Path) -> Row:
    """Count tokens, unknown tokens and rare tokens with a joint or with separate vocabularies.

    `size` is the total size of all vocabularies, special tokens included; character vocabularies
    contain every character. The kind ``corpus`` counts the words themselves. Subwords are those of
    byte-pair encoding, except for the kinds ``wordpiece`` and ``unigram``.
    """
    del directory  # no training run to resume
    if kind == "corpus":
        return _words_of(seed, quick)
    counts = _train_counts(seed, quick)
    vocabularies = _vocabularies(kind, size, seed, quick)
    seen = {side: _pieces(counts[side], vocabularies[side]) for side in SIDES}
    if kind == "separate":
        lists = [(vocabularies[side], seen[side]) for side in SIDES]
    else:
        lists = [(vocabularies["src"], seen["src"] + seen["tgt"])]
    times = [seen_in[piece] for listed, seen_in in lists for piece in listed.pieces]
    pairs = _validation_words(seed, quick)
    cut = {
        side: [[vocabularies[side].cut(word) for word in pair[side]] for pair in pairs]
        for side in SIDES
    }
    words = [word for side in SIDES for sentence in cut[side] for word in sentence]
    tokens = [piece for word in words for piece in word]
    strange = sum(
        not seen[side][piece] for side in SIDES for s in cut[side] for word in s for piece in word
    )
    row: Row = {
        "vocabulary": len(times) + len(SPECIAL_TOKENS) * len(lists),
        "src_tokens": round(fmean(sum(map(len, sentence)) for sentence in cut["src"]), 2),
        "tgt_tokens": round(fmean(sum(map(len, sentence)) for sentence in cut["tgt"]), 2),
        "unknown_tokens": round(tokens.count(UNK) / len(tokens), 5),
        "pairs_with_unknown": round(
            fmean(
                any(UNK in word for side in SIDES for word in cut[side][i])
                for i in range(len(pairs))
            ),
            4,
        ),
        "whole_words": round(fmean(len(word) == 1 and word[0] != UNK for word in words), 4),
        "rare_pieces": round(fmean(count < RARE for count in times), 4),
        "median_times_seen": median(times),
        "pieces_of_both_languages": len((seen["src"].keys() & seen["tgt"].keys()) - {UNK}),
        "tokens_unseen_on_their_side": round(strange / len(tokens), 5),
        "names_cut_alike": _names_cut_alike(pairs, vocabularies),
    }
    if kind == "joint":
        merges = _merges(size, _tokenizer("both", seed, quick))[:OWN_MERGES]
        own = _own_merges(seed, quick)[: len(merges)]
        row["merges_compared"] = len(merges)
        row["merges_equal_to_own"] = sum(a == b for a, b in zip(merges, own, strict=True))
    if kind in ("joint", "wordpiece", "unigram") and size == COMPARED_SIZE:
        row["examples"] = {word: vocabularies["src"].cut(f"▁{word}") for word in EXAMPLES}
    return row


def _vocabularies(kind: str, size: int, seed: int, quick: bool) -> dict[str, Vocabulary]:
    counts = _train_counts(seed, quick)
    both = counts["src"] + counts["tgt"]
    if kind == "separate":
        return {
            side: _subwords(counts[side], _merges(size // 2, _tokenizer(side, seed, quick)))
            for side in SIDES
        }
    if kind == "joint":
        listed = _subwords(both, _merges(size, _tokenizer("both", seed, quick)))
    elif kind == "characters":
        listed = _subwords(both, [])
    elif kind == "words":
        frequent = frozenset(word for word, _ in both.most_common(size - len(SPECIAL_TOKENS)))
        listed = Vocabulary(frequent, lambda word: [word if word in frequent else UNK])
    elif kind == "wordpiece":
        listed = _wordpiece(both, size)
    elif kind == "unigram":
        listed = _unigram(both, size)
    else:
        raise ValueError(f"kind={kind!r} is unknown: choose one of {', '.join(KINDS)}")
    return dict.fromkeys(SIDES, listed)


def _subwords(counts: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> Vocabulary:
    characters = {character for word in counts for character in word}
    pieces = frozenset(characters | {first + second for first, second in merges})
    rank = {pair: place for place, pair in enumerate(merges)}
    return Vocabulary(
        pieces, lambda word: [p if p in pieces else UNK for p in merge_word(word, rank)]
    )


def _wordpiece(counts: Mapping[str, int], size: int) -> Vocabulary:
    """Return a WordPiece vocabulary, by the `tokenizers` library.

    It marks the subwords that continue a word, by ``##``, and not those that start one. The library
    learns it from pair counts, as in byte-pair encoding; only the segmentation differs.
    """
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    repeated = (" ".join([word.removeprefix("▁")] * count) for word, count in counts.items())
    tokenizer.train_from_iterator(repeated, trainer)

    def cut(word: str) -> list[str]:
        return [token.value for token in tokenizer.model.tokenize(word.removeprefix("▁"))]

    return Vocabulary(frozenset(tokenizer.get_vocab()) - {*SPECIAL_TOKENS}, cut)


def _unigram(counts: Mapping[str, int], size: int) -> Vocabulary:
    """Return a vocabulary of the unigram language model."""
    probabilities = learn_unigram(counts, size - len(SPECIAL_TOKENS))

    def cut(word: str) -> list[str]:
        found: list[str] = []
        for known, characters in groupby(word, key=probabilities.__contains__):
            run = "".join(characters)
            found += best_segmentation(run, probabilities) if known else [UNK] * len(run)
        return found

    return Vocabulary(frozenset(probabilities), cut)


def _merges(size: int, tokenizer: BPETokenizer) -> list[tuple[str, str]]:
    """Return the first merges, as many as a vocabulary of `size` contains."""
    room = size - (len(tokenizer) - len({a + b for a, b in tokenizer.merges}))
    made: set[str] = set()
    kept = []
    for first, second in tokenizer.merges:
        made.add(first + second)
        if len(made) > room:
            break
        kept.append((first, second))
    return kept


def _pieces(counts: Mapping[str, int], vocabulary: Vocabulary) -> Counter[str]:
    """Return the frequency of each subword, from the frequencies of the words."""
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        for piece in vocabulary.cut(word):
            seen[piece] += count
    return seen


def _names_cut_alike(
    pairs: Sequence[Mapping[str, list[str]]], vocabularies: Mapping[str, Vocabulary]
) -> float:
    """Return how many names and numbers, equal in both languages, have equal segmentations."""
    alike = [
        vocabularies["src"].cut(word) == vocabularies["tgt"].cut(word)
        for pair in pairs
        for word in sorted(set(pair["src"]) & set(pair["tgt"]))
        if word.startswith("▁") and (word[1:2].isupper() or word[1:2].isdigit())
    ]
    return round(fmean(alike), 4) if alike else 1.0


def _words_of(seed: int, quick: bool) -> Row:
    counts = _train_counts(seed, quick)
    row: Row = {"training_pairs": len(_train_pairs(seed, quick))}
    for side in SIDES:
        ranked = sorted(counts[side].values(), reverse=True)
        ranks = [step * 10**power for power in range(6) for step in (1, 2, 5)]
        ranks = [*(rank for rank in ranks if rank <= len(ranked)), len(ranked)]
        row[side] = {
            "running_words": sum(ranked),
            "distinct_words": len(ranked),
            "seen_once": round(ranked.count(1) / len(ranked), 4),
            "zipf": [[r, ranked[r - 1]] for r in ranks],
            "rank_times_count_ratio": _rank_times_count_ratio(ranked),
            "unknown_after": _unknown_after(side, seed, quick),
        }
    return row


def _rank_times_count_ratio(ranked: Sequence[int]) -> float | None:
    """Return the largest rank × count divided by the smallest, from rank 10 to rank 1,000."""
    products = [rank * count for rank, count in enumerate(ranked[:1_000], start=1)][9:]
    return round(max(products) / min(products), 2) if products else None


def _unknown_after(side: str, seed: int, quick: bool) -> list[tuple[int, float]]:
    """Return the fraction of unseen validation words by the number of training sentences."""
    tokenizer = _tokenizer("both", seed, quick)
    asked = [word for pair in _validation_words(seed, quick) for word in pair[side]]
    met: set[str] = set()
    found: list[tuple[int, float]] = []
    train = _train_pairs(seed, quick)
    stops = {min(len(train), 1_000 * 2**power) for power in range(9)}
    for number, pair in enumerate(train, start=1):
        met.update(tokenizer.words(getattr(pair, side)))
        if number in stops:
            found.append((number, round(fmean(word not in met for word in asked), 4)))
    return found


@cache
def _train_pairs(seed: int, quick: bool) -> list[Pair]:
    """Return nine tenths of the training pairs, in random order."""
    pairs = as_text(toy.load("train", 300)) if quick else tatoeba.load("train")
    return random.Random(seed).sample(pairs, len(pairs) * 9 // 10)


@cache
def _tokenizer(side: str, seed: int, quick: bool) -> BPETokenizer:
    """Return the largest vocabulary: the merges of a smaller one are a prefix of its merges."""
    pairs = _train_pairs(seed, quick)
    sides = SIDES if side == "both" else (side,)
    sentences = (getattr(pair, name) for pair in pairs for name in sides)
    return BPETokenizer.train(sentences, SIZES[-1] if side == "both" else SIZES[-1] // 2)


@cache
def _train_counts(seed: int, quick: bool) -> dict[str, Counter[str]]:
    words = _tokenizer("both", seed, quick).words
    pairs = _train_pairs(seed, quick)
    return {
        side: Counter(word for pair in pairs for word in words(getattr(pair, side)))
        for side in SIDES
    }


@cache
def _validation_words(seed: int, quick: bool) -> list[dict[str, list[str]]]:
    pairs = as_text(toy.load("validation", 60)) if quick else tatoeba.load("validation")
    words = _tokenizer("both", seed, quick).words
    return [{side: words(getattr(pair, side)) for side in SIDES} for pair in pairs]


@cache
def _own_merges(seed: int, quick: bool) -> list[tuple[str, str]]:
    counts = _train_counts(seed, quick)
    return learn_merges(counts["src"] + counts["tgt"], OWN_MERGES)


EXPERIMENT = Experiment(
    name="subwords",
    question="How do the kind and the size of a vocabulary affect sentences?",
    conditions=[
        {"kind": "corpus", "size": 0},
        {"kind": "characters", "size": 0},
        *({"kind": kind, "size": size} for kind in KINDS[2:5] for size in SIZES),
        *({"kind": kind, "size": COMPARED_SIZE} for kind in KINDS[5:]),
    ],
    measure=measure,
)
