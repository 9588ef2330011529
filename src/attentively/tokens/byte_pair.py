"""Byte-pair encoding by hand: learn merges of adjacent subwords, and apply them to a word.

Sennrich, Haddow & Birch (2016), https://arxiv.org/abs/1508.07909, section 3.2, after the data
compression of Gage (1994). The models of the package use the fast implementation of the same
algorithm, ``vocabulary.BPETokenizer``.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

Pair = tuple[str, str]


def learn_merges(word_counts: Mapping[str, int], num_merges: int) -> list[Pair]:
    """Learn merges: at each step, merge the most frequent pair of adjacent subwords.

    `word_counts` contains the frequency of each word. A word starts as a sequence of
    characters, and no pair crosses a word boundary. Ties are broken as in the
    `tokenizers` library: by the left subword, then by the right one. Characters come
    first, in Unicode order, and merged subwords follow in the order in which they are
    created. Returns fewer than `num_merges` merges if every word becomes a single
    subword before. Raises `ValueError` for no words, an empty word, or a count below 1.
    """
    _check(word_counts, num_merges)
    words = [list(word) for word in word_counts]  # as lists of subwords
    counts = list(word_counts.values())
    characters = sorted({character for word in words for character in word})
    created = {piece: index for index, piece in enumerate(characters)}
    pair_counts: Counter[Pair] = Counter()
    found_in: defaultdict[Pair, set[int]] = defaultdict(set)  # words with the pair
    for index, word in enumerate(words):
        for pair in pairwise(word):
            pair_counts[pair] += counts[index]
            found_in[pair].add(index)

    merges: list[Pair] = []
    while len(merges) < num_merges and pair_counts:
        most = max(pair_counts.values())
        tied = [pair for pair, count in pair_counts.items() if count == most]
        best = min(tied, key=lambda pair: (created[pair[0]], created[pair[1]]))
        merges.append(best)
        created[best[0] + best[1]] = len(created)
        for index in found_in.pop(best):
            for pair in pairwise(words[index]):
                pair_counts[pair] -= counts[index]
                if pair_counts[pair] == 0:
                    del pair_counts[pair]
            words[index] = join(words[index], best)
            for pair in pairwise(words[index]):
                pair_counts[pair] += counts[index]
                found_in[pair].add(index)
    return merges


def join(pieces: Iterable[str], pair: Pair) -> list[str]:
    """Return `pieces` with each occurrence of `pair` merged, from left to right."""
    rest = list(pieces)
    joined = []
    while rest:
        width = 2 if tuple(rest[:2]) == pair else 1
        joined.append("".join(rest[:width]))
        del rest[:width]
    return joined


def merge_word(
    word: str,
    merges: Iterable[Pair] | Mapping[Pair, int],
    dropout: float = 0.0,
    generator: random.Random | None = None,
) -> list[str]:
    """Return the subwords of `word`: apply the merge learned first, until none applies.

    `merges` is the list from `learn_merges`, or a dict from each pair to its rank,
    which saves time for many words. With `dropout` (BPE-dropout), each possible merge
    is skipped with this probability, sampled again before every merge, so that one word
    has many segmentations: Provilkov, Emelianenko & Voita (2020),
    https://arxiv.org/abs/1910.13267, section 3. `generator` is the source of
    randomness. Raises `ValueError` for a `dropout` outside [0, 1].
    """
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout={dropout} must be from 0 to 1")
    rank = merges
    if not isinstance(rank, Mapping):
        rank = {pair: index for index, pair in enumerate(merges)}
    random_number = (generator or random).random
    pieces = list(word)
    while known := [
        (rank[pair], at)
        for at, pair in enumerate(pairwise(pieces))
        if pair in rank and (not dropout or random_number() >= dropout)
    ]:
        _, at = min(known)
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
    return pieces


def to_bytes(text: str) -> str:
    """Return one character per UTF-8 byte of `text`: 256 characters suffice."""
    return text.encode("utf-8").decode("latin-1")


def from_bytes(symbols: str) -> str:
    """Return the text whose bytes are `symbols`; invalid UTF-8 becomes ``�``.

    Raises `ValueError` for a symbol that is not a byte.
    """
    return symbols.encode("latin-1").decode("utf-8", errors="replace")


def _check(word_counts: Mapping[str, int], num_merges: int) -> None:
    if num_merges < 0:
        raise ValueError(f"num_merges={num_merges} must not be negative")
    if not word_counts:
        raise ValueError("word_counts is empty, so there is nothing to learn: is the corpus empty?")
    for word, count in word_counts.items():
        if not word or count < 1:
            raise ValueError(
                f"expected non-empty words with counts of at least 1, but word {word!r} has "
                f"count {count}"
            )
