"""Byte-pair encoding by hand: learn merges of neighbouring symbols, and apply them to a word.

Sennrich, Haddow & Birch (2016), https://arxiv.org/abs/1508.07909, section 3.2, after
Gage (1994), who compressed data so. The models of the package use the fast form of the same,
``vocabulary.BPETokenizer``.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

Pair = tuple[str, str]


def learn_merges(word_counts: Mapping[str, int], num_merges: int) -> list[Pair]:
    """Return the pairs of neighbours to join, at each turn the most frequent one left.

    `word_counts` says how often each word occurs; a word starts as its characters, and
    no pair reaches across words. Of pairs equally frequent the one is taken whose first
    piece, then whose second, was listed earlier: characters are listed in the order of
    Unicode, joined pieces after them as they are made. So does the `tokenizers`
    library. Fewer than `num_merges` come back where every word is one piece before.
    Raises `ValueError` where there is no word, an empty one, or a count below 1.
    """
    _check(word_counts, num_merges)
    words = [list(word) for word in word_counts]  # in pieces
    counts = list(word_counts.values())
    characters = sorted({character for word in words for character in word})
    place = {piece: index for index, piece in enumerate(characters)}
    pair_counts: Counter[Pair] = Counter()
    # Where each pair occurs, so that few words are read again
    found_in: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            pair_counts[pair] += counts[index]
            found_in[pair].add(index)

    merges: list[Pair] = []
    while len(merges) < num_merges and pair_counts:
        most = max(pair_counts.values())
        tied = [pair for pair, count in pair_counts.items() if count == most]
        best = min(tied, key=lambda pair: (place[pair[0]], place[pair[1]]))
        merges.append(best)
        place[best[0] + best[1]] = len(place)
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
    """Return `pieces` with each such `pair` joined, from left to right."""
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
    """Return the pieces of `word`: the pair learned first is joined until none is left.

    `merges` are as learned, or the rank of each pair, which saves time over many words.
    With `dropout`, each pair is overlooked with that probability, anew before every
    join, so that a word is cut in many ways: Provilkov, Emelianenko & Voita (2020),
    https://arxiv.org/abs/1910.13267, section 3. The chance is drawn from `generator`.
    """
    if not 0 <= dropout <= 1:
        raise ValueError(f"dropout={dropout} must be from 0 to 1")
    rank = merges
    if not isinstance(rank, Mapping):
        rank = {pair: place for place, pair in enumerate(merges)}
    draw = (generator or random).random
    pieces = list(word)
    while known := [
        (rank[pair], at)
        for at, pair in enumerate(pairwise(pieces))
        if pair in rank and (not dropout or draw() >= dropout)
    ]:
        _, at = min(known)
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
    return pieces


def to_bytes(text: str) -> str:
    """Return a character for each UTF-8 byte of `text`: 256 symbols spell anything."""
    return text.encode("utf-8").decode("latin-1")


def from_bytes(symbols: str) -> str:
    """Return the text whose bytes are `symbols`; invalid bytes become ``�``.

    Raises `ValueError` for a symbol that is no byte.
    """
    return symbols.encode("latin-1").decode("utf-8", errors="replace")


def _check(word_counts: Mapping[str, int], num_merges: int) -> None:
    if num_merges < 0:
        raise ValueError(f"num_merges={num_merges} is below 0")
    if not word_counts:
        raise ValueError("there is no word to learn from: is the corpus empty?")
    for word, count in word_counts.items():
        if not word or count < 1:
            raise ValueError(f"expected words that occur, but {word!r} is counted {count} times")
