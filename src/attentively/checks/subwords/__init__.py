"""Checks of the assignment on subwords.

Parts 1 to 3 rebuild functions of `attentively.tokens.byte_pair`, so they are compared with it, and
the encoder is put into a trained translation model. Parts 4 to 6 are original: their solutions are
not in the package. Their checks test that an encoded text is restored, that answers agree with
values that are known by construction, and properties one by one.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import tokenizers

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_pair,
    expect_value,
    in_turn,
    once_solved,
    plain_number,
    show,
)
from attentively.data import toy
from attentively.generation.generate import translate
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.tokens import byte_pair
from attentively.tokens.byte_pair import Pair
from attentively.tokens.vocabulary import END_ID, SPECIAL_TOKENS, UNK, UNK_ID, Tokenizer

__all__ = [
    "SENTENCES",
    "bug_hunt",
    "documentation",
    "encoding",
    "merges",
    "once_solved",
    "pairs",
    "progress",
    "ready",
    "round_trip",
    "toy_words",
    "translator",
    "vocabulary_size",
]

MODEL = "tatoeba-en-fr-additive"
"""The trained model that receives the student's subwords."""

SENTENCES = (
    "The cat drank the milk.",
    "They welcomed the Queen of the United Kingdom.",
    "The animal did not cross the street because it was too tired.",
)

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Show that the package, its trained model and these checks work."""
    _parts.explain_undefined_names()
    text = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0].text
    print(f"tokenizers {tokenizers.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"as “{text}” Ready.")


def toy_words() -> Counter[str]:
    """Return the count of each word in 300 English sentences of the toy language."""
    return Counter(word for pair in toy.load("train", 300) for word in pair.src)


def documentation() -> tuple[list[str], list[str], list[str]]:
    """Return lines of real English for training, validation and test, from Python's manual.

    Every Python contains these texts. They differ slightly between versions.
    """
    from pydoc_data.topics import topics  # large, and needed here only

    lines = [
        " ".join("".join(c if c.isalpha() else " " for c in line).split())
        for topic in sorted(topics)
        for line in topics[topic].splitlines()
    ]
    lines = [line for line in lines if line.count(" ") >= 3]
    validation, test = lines[3::10], lines[8::10]
    held_out = {*range(3, len(lines), 10), *range(8, len(lines), 10)}
    train = [line for index, line in enumerate(lines) if index not in held_out]
    return train, validation, test


# Part 1

Split = Sequence[tuple[Sequence[str], int]]
"""Words as lists of subwords, each with its count."""


def _count(words: Split) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for pieces, count in words:
        for pair in pairwise(pieces):
            counts[pair] += count
    return counts


def _count_once_a_word(words: Split) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for pieces, count in words:
        for pair in set(pairwise(pieces)):
            counts[pair] += count
    return counts


def _count_apart(words: Split) -> Counter[Pair]:
    """Count occurrences without those that overlap the previous one."""
    counts: Counter[Pair] = Counter()
    for pieces, count in words:
        for pair in set(pairwise(pieces)):
            joined = byte_pair.join(pieces, pair)
            counts[pair] += count * (len(pieces) - len(joined))
    return counts


def _gathered(found: Iterable[tuple[Any, int]]) -> Counter[Any]:
    counts: Counter[Any] = Counter()
    for key, count in found:
        counts[key] += count
    return counts


_PAIR_TWINS = (
    Twin(
        "Each word is counted once. A word with the count 3 adds 3 to the count of each of its "
        "pairs.",
        lambda words: _count([(pieces, 1) for pieces, _ in words]),
    ),
    Twin(
        "A pair crosses a word boundary: its left subword ends one word and its right subword "
        "starts the next. Count pairs within each word only.",
        lambda words: _count([([piece for pieces, _ in words for piece in pieces], 1)]),
    ),
    Twin(
        "A pair crosses a word boundary: its left subword ends one word and its right subword "
        "starts the next. Count pairs within each word only.",
        lambda words: _count([([p for pieces, n in words for p in [*pieces] * n], 1)]),
    ),
    Twin(
        "Overlapping occurrences are missing. Count them as well: in a·a·a, the pair (a, a) "
        "occurs twice.",
        _count_apart,
    ),
    Twin(
        "A pair that occurs several times in one word is counted once for the word. Count every "
        "occurrence.",
        _count_once_a_word,
    ),
    Twin(
        "The count of a pair is overwritten by each word that contains the pair. Add to the "
        "previous count.",
        lambda words: {pair: n for pieces, n in words for pair in pairwise(pieces)},
    ),
    Twin(
        "The keys are concatenated strings, so that (ab, c) and (a, bc) have one key. The key must "
        "be the pair itself, a tuple of two subwords.",
        lambda words: _gathered((a + b, n) for pieces, n in words for a, b in pairwise(pieces)),
    ),
    Twin(
        "(a, b) and (b, a) are counted as the same pair. A pair is a left and a right subword, in "
        "this order.",
        lambda words: _gathered(
            ((min(pair), max(pair)), n) for pieces, n in words for pair in pairwise(pieces)
        ),
    ),
    Twin(
        "Subwords that are not adjacent are counted as pairs. A pair consists of a subword and the "
        "next one.",
        lambda words: _gathered(
            (pair, n) for pieces, n in words for pair in combinations(pieces, 2)
        ),
    ),
    Twin(
        "Single subwords are counted. Count pairs of adjacent subwords.",
        lambda words: _gathered((piece, n) for pieces, n in words for piece in pieces),
    ),
    Twin(
        "Pairs of characters are counted instead of pairs of subwords: ab is one subword.",
        lambda words: _count([(list("".join(pieces)), n) for pieces, n in words]),
    ),
)


def _joined_once(pieces: list[str], pair: Pair) -> list[str]:
    for i, found in enumerate(pairwise(pieces)):
        if found == tuple(pair):
            return [*pieces[:i], "".join(pair), *pieces[i + 2 :]]
    return pieces


def _joined_from_the_right(pieces: list[str], pair: Pair) -> list[str]:
    backwards = byte_pair.join(pieces[::-1], (pair[1], pair[0]))
    swapped = pair[1] + pair[0]
    return ["".join(pair) if piece == swapped else piece for piece in backwards[::-1]]


def _joined_overlapping(pieces: list[str], pair: Pair) -> list[str]:
    """Merge at every occurrence, including those whose left subword is already used."""
    joined, used = [], False
    for i, piece in enumerate(pieces):
        if tuple(pieces[i : i + 2]) == tuple(pair):
            joined.append("".join(pair))
            used = True
        elif used:
            used = False
        else:
            joined.append(piece)
    return joined


def _joined_by_text(pieces: list[str], pair: Pair) -> list[str]:
    joined, rest = [], list(pieces)
    while rest:
        width = 2 if "".join(rest[:2]) == "".join(pair) and len(rest) > 1 else 1
        joined.append("".join(rest[:width]))
        del rest[:width]
    return joined


_JOIN_TWINS = (
    Twin(
        "No pair is merged: the result equals the input. If a slice, which is a list, is compared "
        "with the pair, a tuple, they are never equal.",
        lambda pieces, pair: pieces,
    ),
    Twin(
        "Only the first occurrence is merged. Continue to the end of the word.",
        _joined_once,
    ),
    Twin(
        "A subword is used twice. After a merge, its right subword cannot be the left subword of "
        "another pair: advance by two.",
        _joined_overlapping,
    ),
    Twin(
        "Pairs are merged from right to left. From left to right, a·a·a becomes aa·a.",
        _joined_from_the_right,
    ),
    Twin(
        "The last subword is missing. It starts no pair, but it belongs to the word.",
        lambda pieces, pair: byte_pair.join(pieces, pair)[:-1],
    ),
    Twin(
        "The last subword is missing. It starts no pair, but it belongs to the word.",
        lambda pieces, pair: (
            byte_pair.join(pieces, pair)
            if tuple(pieces[-2:]) == tuple(pair)
            else byte_pair.join(pieces, pair)[:-1]
        ),
    ),
    Twin(
        "Concatenated strings are compared: a·bc has the same characters as the pair (ab, c), but "
        "it is a different pair. Compare both subwords.",
        _joined_by_text,
    ),
    Twin(
        "Characters are compared instead of subwords: ab·c does not contain the pair (b, c), "
        "although its text contains “bc”.",
        lambda pieces, pair: " ".join(pieces).replace(" ".join(pair), "".join(pair)).split(),
    ),
    Twin(
        "Characters are compared instead of subwords: ab·c does not contain the pair (b, c), "
        "although its text contains “bc”.",
        lambda pieces, pair: _cut_out("".join(pieces), "".join(pair)),
    ),
    Twin(
        "The reversed pair is merged as well: (b, a) is not the pair (a, b).",
        lambda pieces, pair: byte_pair.join(byte_pair.join(pieces, pair), (pair[1], pair[0])),
    ),
    Twin(
        "The result is one string. Return a list of subwords.",
        lambda pieces, pair: "".join(pieces),
    ),
    Twin(
        "The merged subword is added, but its two parts are still in the list. It must replace "
        "them.",
        lambda pieces, pair: [
            each
            for piece in byte_pair.join(pieces, pair)
            for each in ([*pair, piece] if piece == "".join(pair) else [piece])
        ],
    ),
    Twin(
        "The pair is one entry, but still a tuple of two strings. Concatenate them: left + right.",
        lambda pieces, pair: [
            pair if piece == "".join(pair) else piece for piece in byte_pair.join(pieces, pair)
        ],
    ),
)


def _cut_out(text: str, joined: str) -> list[str]:
    parts = text.split(joined)
    pieces = [*parts[0]]
    for part in parts[1:]:
        pieces += [joined, *part]
    return pieces


_WORDS: list[Split] = [
    [(["a", "b", "c"], 1)],
    [(["a", "b"], 3), (["b", "a", "b"], 2)],
    [(["a", "b"], 2), (["b", "a"], 2)],
    [(["a", "b", "a", "b"], 1)],
    [(["a", "a", "a"], 1)],
    [(["a", "a", "a"], 2)],
    [(["ab", "c"], 2), (["a", "bc"], 3)],
    [(["a"], 4), (["b"], 1)],
    [],
]

_TO_JOIN: list[tuple[list[str], Pair]] = [
    (["c", "a", "b"], ("a", "b")),
    (["a", "b", "c"], ("a", "b")),
    (["a", "b", "a", "b"], ("a", "b")),
    (["a", "a", "a"], ("a", "a")),
    (["b", "a"], ("a", "b")),
    (["ab", "c"], ("b", "c")),
    (["a", "bc"], ("a", "b")),
    (["a", "bc"], ("ab", "c")),
    (["x", "ab", "c", "ab", "c", "ab"], ("ab", "c")),
    (["a"], ("a", "b")),
]


@_parts.part(
    "pairs",
    "count_pairs",
    "merge_pair",
    rebuilds=("attentively.tokens.byte_pair:learn_merges",),
    refuses=("attentively.tokens.byte_pair:join",),
    step=True,
)
def pairs(count_pairs: object, merge_pair: object, thorough: bool = False) -> None:
    """Check ``count_pairs(words)`` and ``merge_pair(pieces, pair)``."""
    stages, to_join = list[Split](_WORDS), list(_TO_JOIN)
    if thorough:
        learned = byte_pair.learn_merges(toy_words(), 60)
        split = [
            (byte_pair.merge_word(word, learned[:30]), n) for word, n in sorted(toy_words().items())
        ]
        stages += [split[:40], split[40:]]
        to_join += [(list("aaaaa"), ("a", "a")), (list("aabaaab"), ("a", "a"))]
        to_join += [(pieces, pair) for pieces, _ in split[:50] for pair in learned[30:40]]
    for words in stages:
        inputs: dict[str, object] = {"words": words}
        hint = "Return a dict from each pair of adjacent subwords to its count."
        answer = _without_zeros(call_twice(count_pairs, inputs))
        what = "the counts of count_pairs"
        expect_value(answer, dict(_count(words)), what, inputs, _PAIR_TWINS, hint)
    for pieces, pair in to_join:
        inputs = {"pieces": pieces, "pair": pair}
        expected = byte_pair.join(pieces, pair)
        answer = call_twice(merge_pair, inputs)
        expect_value(answer, expected, "the subwords of merge_pair", inputs, _JOIN_TWINS)


def _without_zeros(answer: object) -> object:
    """Accept pairs with the count 0."""
    if isinstance(answer, dict):
        return {key: count for key, count in answer.items() if plain_number(count) != 0}
    return answer


# Part 2


def _learn(
    word_counts: Mapping[str, int],
    num_merges: int,
    count: Callable[[Split], Counter[Pair]] = _count,
    join: Callable[[list[str], Pair], list[str]] = byte_pair.join,
    choose: Callable[[Counter[Pair], Sequence[str]], Pair] | None = None,
    renew: bool = True,
    fewest: int = 1,
    end: str = "",
) -> list[Pair]:
    """Learn merges step by step, with mistakes in some steps on request."""
    words = [([*word, *([end] if end else [])], n) for word, n in word_counts.items()]
    listed = sorted({piece for pieces, _ in words for piece in pieces})
    learned: list[Pair] = []
    counts = count(words)
    while len(learned) < num_merges:
        if renew:
            counts = count(words)
        counts = Counter({pair: n for pair, n in counts.items() if n >= fewest})
        if not counts:
            break
        best = (choose or _listed_first)(counts, listed)
        learned.append(best)
        listed.append("".join(best))
        words = [(join(list(pieces), best), n) for pieces, n in words]
        if not renew:
            del counts[best]
    return learned


def _most(counts: Counter[Pair]) -> list[Pair]:
    most = max(counts.values())
    return [pair for pair, count in counts.items() if count == most]


def _listed_first(counts: Counter[Pair], listed: Sequence[str]) -> Pair:
    return min(_most(counts), key=lambda pair: tuple(map(listed.index, pair)))


_TIE = (
    "Among pairs with equal counts, take the one whose left subword was created earlier; if the "
    "left subwords are equal, the right ones decide. The characters come first, in Unicode order, "
    "and merged subwords follow in the order in which they are created."
)


def _merge_twin(diagnosis: str, **wrong: Any) -> Twin:
    return Twin(diagnosis, lambda counts, n: _learn(counts, n, **wrong))


def _prefixes(counts: Mapping[str, int], num_merges: int) -> list[str]:
    return ["".join(pair) for pair in byte_pair.learn_merges(counts, num_merges)]


_MERGE_TWINS = (
    Twin(
        "The merges are concatenated strings. Return the pairs, (left, right): “abc” does not show "
        "whether ab·c or a·bc was merged.",
        _prefixes,
    ),
    _merge_twin(
        "Each word is counted once. Add the count of the word to the count of each of its pairs.",
        count=lambda words: _count([(pieces, 1) for pieces, _ in words]),
    ),
    _merge_twin(
        f"In a tie, the pair that is counted first is merged. {_TIE}",
        choose=lambda counts, listed: _most(counts)[0],
    ),
    _merge_twin(
        f"In a tie, the pair that is counted last is merged. {_TIE}",
        choose=lambda counts, listed: _most(counts)[-1],
    ),
    _merge_twin(
        f"In a tie, the pair whose subwords were created last is merged. {_TIE}",
        choose=lambda counts, listed: max(
            _most(counts), key=lambda pair: tuple(map(listed.index, pair))
        ),
    ),
    _merge_twin(
        f"In a tie, only the left subwords are compared. {_TIE}",
        choose=lambda counts, listed: min(_most(counts), key=lambda pair: listed.index(pair[0])),
    ),
    _merge_twin(
        f"In a tie, pairs are ordered by the length of their subwords, then alphabetically. {_TIE}",
        choose=lambda counts, listed: min(
            _most(counts), key=lambda pair: [(len(piece), piece) for piece in pair]
        ),
    ),
    _merge_twin(
        f"In a tie, pairs are ordered alphabetically, so that “ab” comes before “b”. {_TIE}",
        choose=lambda counts, listed: min(_most(counts)),
    ),
    _merge_twin(
        f"In a tie, pairs are ordered alphabetically in reverse. {_TIE}",
        choose=lambda counts, listed: max(_most(counts)),
    ),
    _merge_twin(
        "Pairs across word boundaries are counted. Count pairs within each word only.",
        count=lambda words: _count([([p for pieces, n in words for p in [*pieces] * n], 1)]),
    ),
    _merge_twin(
        "Pairs across word boundaries are counted. Count pairs within each word only.",
        count=lambda words: _count([([p for pieces, n in words for p in pieces], 1)]),
    ),
    _merge_twin(
        "All merges are chosen by the counts of the first step. A merge creates new pairs and "
        "removes others: apply it to all words and count again.",
        renew=False,
    ),
    _merge_twin(
        "Overlapping occurrences are counted once. In a·a·a the pair (a, a) occurs twice, and the "
        "library counts both occurrences.",
        count=_count_apart,
    ),
    _merge_twin(
        "A pair that occurs several times in one word is counted once for the word. Count every "
        "occurrence.",
        count=_count_once_a_word,
    ),
    _merge_twin(
        "In a word that contains the pair twice, only the first occurrence is merged.",
        join=_joined_once,
    ),
    _merge_twin(
        "Pairs with the count 1 are left out. Continue until there are num_merges merges or no "
        "pair is left.",
        fewest=2,
    ),
    _merge_twin(
        "Pairs are merged from right to left. From left to right, a·a·a becomes aa·a.",
        join=_joined_from_the_right,
    ),
    Twin(
        "There is one merge more than num_merges.",
        lambda counts, n: byte_pair.learn_merges(counts, n + 1),
    ),
    Twin(
        "There is one merge fewer than num_merges, although a pair is left.",
        lambda counts, n: byte_pair.learn_merges(counts, n - 1),
    ),
    _merge_twin(
        "A mark for the end is added to each word. Here a word consists of its characters only.",
        end="</w>",
    ),
    _merge_twin(
        "The counts are not used. The most frequent pair is merged first; the order in which "
        "subwords were created matters only in a tie.",
        choose=lambda counts, listed: min(counts, key=lambda pair: tuple(map(listed.index, pair))),
    ),
    _merge_twin(
        "The least frequent pair is merged first. Merge the most frequent pair.",
        choose=lambda counts, listed: min(
            counts, key=lambda pair: (counts[pair], *map(listed.index, pair))
        ),
    ),
)

_CORPORA: list[tuple[dict[str, int], int]] = [
    ({"ab": 2}, 1),
    ({"ab": 4, "cd": 1}, 2),
    ({"ab": 1, "bcbc": 2}, 1),
    ({"ab": 1, "ac": 1, "bc": 3}, 1),
    ({"ca": 3, "cad": 1, "ab": 2}, 2),
    ({"xab": 4, "xac": 2}, 2),
    ({"ba": 3, "cb": 3, "ab": 3}, 1),
    ({"xay": 3, "ay": 1, "xa": 2, "yb": 2}, 2),
    ({"abab": 2, "abc": 1}, 3),
    ({"aaab": 3, "ab": 2}, 1),
    ({"aaaa": 1, "aaa": 2}, 3),
    ({"dc": 2, "ba": 2, "db": 2}, 3),
    ({"bd": 1, "aba": 1, "abc": 1}, 2),
    ({"ac": 1, "ab": 1}, 1),
    ({"cdx": 2, "cd": 1, "abx": 2}, 3),
    ({"abc": 2, "de": 1}, 9),
]


@_parts.part(
    "merges",
    "learn_merges",
    rebuilds=("attentively.tokens.byte_pair:learn_merges",),
)
def merges(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(word_counts, num_merges) -> merges``."""
    for word_counts, num_merges in _CORPORA:
        _check_merges(candidate, word_counts, num_merges)
    some = sorted(toy_words().items())[:: 5 if thorough else 9]
    stages = [(dict(some), 25)]
    if thorough:
        french = Counter(word for pair in toy.load("validation", 60) for word in pair.tgt)
        stages += [
            ({"a": 3, "b": 2}, 4),
            ({"abcabcabc": 1, "cab": 2, "bca": 1}, 6),
            ({"été": 2, "étés": 1, "tête": 2}, 5),
            ({"aaaaaaa": 1, "baaa": 2}, 5),
            (dict(french), 40),
            ({"ab": 2, "cd": 5}, 0),
        ]
    for word_counts, num_merges in stages:
        _check_merges(candidate, word_counts, num_merges)


def _check_merges(candidate: object, word_counts: dict[str, int], num_merges: int) -> None:
    inputs: dict[str, object] = {"word_counts": word_counts, "num_merges": num_merges}
    expected = byte_pair.learn_merges(word_counts, num_merges)
    try:
        answer = call_twice(candidate, inputs)
    except CheckFailed as failed:
        if len(expected) < num_merges and " raises " in str(failed):
            raise CheckFailed(
                "  On this input every word is a single subword before num_merges is reached. If "
                f"no pair is left, stop and return the merges learned so far.\n{failed}"
            ) from None
        raise
    hint = _why_this_pair(answer, expected, word_counts)
    expect_value(answer, expected, "the merges of learn_merges", inputs, _MERGE_TWINS, hint)


def _why_this_pair(answer: object, expected: Sequence[Pair], word_counts: Mapping[str, int]) -> str:
    """Return the counts of the first wrong pair and of the expected one at this step."""
    if not isinstance(answer, list | tuple):
        return ""
    if len(answer) > len(expected) and list(map(_as_pair, answer[: len(expected)])) == [*expected]:
        return "There are more merges than num_merges, or than pairs to merge."
    found = [_as_pair(each) for each in answer]
    if set(found) == {*expected} and len(found) == len(expected):
        return "The pairs are correct, but not their order. Return them in the order of learning."
    for number, (pair, right) in enumerate(zip(found, expected, strict=False)):
        if pair == right:
            continue
        if pair is None:
            return "Each merge must be a pair of strings."
        words = [
            (byte_pair.merge_word(word, expected[:number]), n) for word, n in word_counts.items()
        ]
        counts = _count(words)
        if not counts[pair]:
            return (
                f"At step {number + 1}, the pair {pair} does not occur. Apply each merge to the "
                "words, keep the result, and count the pairs of the merged words."
            )
        if counts[pair] == counts[right]:
            return f"At step {number + 1}, the pairs {pair} and {right} have equal counts. {_TIE}"
        return (
            f"At step {number + 1}, the pair {pair} has the count {counts[pair]}, and {right} has "
            f"{counts[right]}. Count the pairs after the previous merges."
        )
    return ""


def _as_pair(value: object) -> Pair | None:
    if isinstance(value, list | tuple) and len(value) == 2:
        left, right = value
        if type(left) is str and type(right) is str:
            return left, right
    return None


# Part 3


def _by_rank(word: str, merges: Sequence[Pair]) -> list[str]:
    return byte_pair.merge_word(word, [tuple(pair) for pair in merges])  # type: ignore[misc]


def _leftmost(word: str, merges: Sequence[Pair]) -> list[str]:
    pieces = list(word)
    while known := [i for i, pair in enumerate(pairwise(pieces)) if pair in merges]:
        pieces[known[0] : known[0] + 2] = ["".join(pieces[known[0] : known[0] + 2])]
    return pieces


def _along(word: str, merges: Sequence[Pair]) -> list[str]:
    """Go through the word once and extend the last subword while it can be merged."""
    pieces: list[str] = []
    for character in word:
        if pieces and (pieces[-1], character) in merges:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def _longest(word: str, merges: Sequence[Pair]) -> list[str]:
    """Take the longest subword of the vocabulary from the left, repeatedly."""
    listed = {"".join(pair) for pair in merges}
    pieces: list[str] = []
    while word:
        best = next(
            part
            for part in (word[:end] for end in range(len(word), 0, -1))
            if part in listed or len(part) == 1
        )
        pieces.append(best)
        word = word[len(best) :]
    return pieces


def _by_text(word: str, merges: Sequence[Pair]) -> list[str]:
    """Merge adjacent subwords whose concatenation is in the vocabulary, whatever the pair."""
    rank = {"".join(pair): place for place, pair in reversed([*enumerate(merges)])}
    pieces = list(word)
    while known := [pair for pair in pairwise(pieces) if "".join(pair) in rank]:
        pieces = byte_pair.join(pieces, min(known, key=lambda pair: rank["".join(pair)]))
    return pieces


def _in_order(
    word: str, merges: Iterable[Pair], join: Callable[[list[str], Pair], list[str]] = byte_pair.join
) -> list[str]:
    pieces = list(word)
    for pair in merges:
        pieces = join(pieces, pair)
    return pieces


def _first_only(word: str, merges: Sequence[Pair]) -> list[str]:
    known = [pair for pair in merges if pair in pairwise(word)]
    return _in_order(word, known[:1])


def _known_characters(word: str, merges: Sequence[Pair]) -> str:
    known = {character for pair in merges for piece in pair for character in piece}
    return "".join(character for character in word if character in known)


_BY_RANK = (
    "Merge the pair that was learned first, wherever it occurs in the word, and repeat until no "
    "merge applies."
)

_ENCODING_TWINS = (
    Twin(
        f"The leftmost pair with a merge is merged first, whatever its rank. {_BY_RANK}",
        _leftmost,
    ),
    Twin("No pair is merged: the result is the characters.", lambda word, merges: list(word)),
    Twin(
        "Only one merge is applied. Repeat: the new subword may be part of another pair.",
        _first_only,
    ),
    Twin(
        "In a word that contains a pair twice, only the first occurrence is merged.",
        lambda word, merges: _in_order(word, merges, _joined_once),
    ),
    Twin(
        "Two subwords are merged because their concatenation is in the vocabulary, but this pair "
        "is not a merge: (ab, c) is not (a, bc).",
        _by_text,
    ),
    Twin(
        "The word is split by longest match, as in WordPiece, which is another algorithm. "
        f"{_BY_RANK}",
        _longest,
    ),
    Twin(
        f"The word is processed once from left to right, whatever the ranks. {_BY_RANK}",
        _along,
    ),
    Twin(
        f"Merges are applied in reverse order, the last learned first. {_BY_RANK}",
        lambda word, merges: _by_rank(word, merges[::-1]),
    ),
    Twin(
        f"Merges are applied in reverse order, the last learned first. {_BY_RANK}",
        lambda word, merges: _in_order(word, merges[::-1]),
    ),
    Twin(
        "Pairs are merged from right to left. From left to right, a·a·a becomes aa·a.",
        lambda word, merges: _in_order(word, merges, _joined_from_the_right),
    ),
    Twin(
        "The word is converted to lower case. A capital letter is a different character.",
        lambda word, merges: _by_rank(word.lower(), merges),
    ),
    Twin(
        "A character that is in no merge is missing. It must remain as a subword of its own.",
        lambda word, merges: _by_rank(_known_characters(word, merges), merges),
    ),
    Twin(
        "A character that is in no merge is replaced by <unk>. encode_word returns it unchanged; "
        "only piece_ids replaces unknown subwords.",
        lambda word, merges: [
            piece if len(piece) > 1 or _known_characters(piece, merges) else UNK
            for piece in _by_rank(word, merges)
        ],
    ),
)

_TO_ENCODE: list[tuple[str, list[Pair]]] = [
    ("ab", [("a", "b")]),
    ("abc", [("a", "b"), ("b", "c")]),
    ("abab", [("a", "b")]),
    ("abcd", [("a", "b"), ("c", "d"), ("b", "c"), ("a", "bc")]),
    ("abc", [("a", "b"), ("b", "c"), ("a", "bc")]),
    ("abcd", [("a", "b"), ("c", "d"), ("ab", "cd")]),
    ("abc", [("b", "c"), ("a", "b")]),
    ("abc", [("b", "c"), ("a", "b"), ("ab", "c")]),
    ("xyab", [("a", "b")]),
    ("aaa", [("a", "a")]),
    ("Aab", [("a", "b")]),
    ("a", [("a", "b")]),
    ("", [("a", "b")]),
]


def _ids(
    words: Sequence[str],
    merges: Sequence[Pair],
    ids: Mapping[str, int],
    unknown_id: int,
    drop: bool = False,
    whole: bool = False,
    unknown: Callable[[int], int] = lambda unknown_id: unknown_id,
) -> list[int]:
    """Return the expected ids, or those of a known mistake."""
    found: list[int] = []
    for word in words:
        pieces = _by_rank(word, merges)
        if whole and any(piece not in ids for piece in pieces):
            found.append(unknown_id)
            continue
        for piece in pieces:
            if piece in ids or not drop:
                found.append(ids.get(piece, unknown(unknown_id)))
    return found


_ID_TWINS = (
    Twin(
        "A subword that is not in `ids` is omitted. It must receive unknown_id, so that the model "
        "sees that there is a subword.",
        partial(_ids, drop=True),
    ),
    Twin(
        "The whole word receives unknown_id because one of its subwords is unknown. Only this "
        "subword must receive it.",
        partial(_ids, whole=True),
    ),
    Twin(
        "A word is looked up as a whole before it is split into subwords. Therefore the text <end> "
        "receives the id of the special token. Split every word.",
        lambda words, merges, ids, unknown_id: [
            index
            for word in words
            for index in ([ids[word]] if word in ids else _ids([word], merges, ids, unknown_id))
        ],
    ),
    Twin(
        "Whole words are looked up. Split each word into subwords first.",
        lambda words, merges, ids, unknown_id: [ids.get(word, unknown_id) for word in words],
    ),
    Twin(
        "The id 0 is treated as missing, as in `ids.get(piece) or unknown_id`. Use "
        "ids.get(piece, unknown_id).",
        lambda words, merges, ids, unknown_id: [
            index or unknown_id for index in _ids(words, merges, ids, unknown_id)
        ],
    ),
    Twin(
        "▁ is added to the words. They already have ▁ where it is needed.",
        lambda words, *rest: _ids([f"▁{word}" for word in words], *rest),
    ),
    Twin(
        "The words are joined with spaces before they are split. A space is not a subword here.",
        lambda words, *rest: _ids([" ".join(words)], *rest),
    ),
    Twin(
        "The result has one list for each word. Return one flat list of ids for all words.",
        lambda words, merges, ids, unknown_id: [
            _ids([word], merges, ids, unknown_id) for word in words
        ],
    ),
    Twin(
        "These are subwords. Return their ids.",
        lambda words, merges, ids, unknown_id: [
            piece for word in words for piece in _by_rank(word, merges)
        ],
    ),
    Twin(
        "An unknown subword receives an id other than unknown_id, the last argument.",
        partial(_ids, unknown=lambda unknown_id: 0),
    ),
    Twin(
        "An unknown subword receives an id other than unknown_id, the last argument.",
        partial(_ids, unknown=lambda unknown_id: UNK_ID),
    ),
    Twin(
        "The words are concatenated before they are split, so that a subword crosses a word "
        "boundary.",
        lambda words, *rest: _ids(["".join(words)], *rest),
    ),
    Twin(
        "Each id occurs once. A subword that occurs twice must have its id twice.",
        lambda *inputs: list(dict.fromkeys(_ids(*inputs))),
    ),
    Twin(
        "The id of <end> is appended. piece_ids returns the ids of the subwords only.",
        lambda *inputs: [*_ids(*inputs), END_ID],
    ),
)


class _Pieces:
    """A tokenizer with the library's normalisation and pre-tokenizer, and the student's merges."""

    def __init__(self, library_tokenizer: Tokenizer, piece_ids: object) -> None:
        self.inside = library_tokenizer
        described = json.loads(library_tokenizer.to_json())["library"]
        self.library = tokenizers.Tokenizer.from_str(json.dumps(described))
        self.merges = [tuple(pair) for pair in described["model"]["merges"]]
        self.ids: dict[str, int] = described["model"]["vocab"]
        self.piece_ids = piece_ids

    def words(self, text: str) -> list[str]:
        normal = self.library.normalizer.normalize_str(text)
        return [word for word, _ in self.library.pre_tokenizer.pre_tokenize_str(normal)]

    def encode(self, text: str) -> list[int]:
        ids = self.piece_ids(self.words(text), self.merges, self.ids, UNK_ID)  # type: ignore[operator]
        return [*ids, END_ID]

    def __len__(self) -> int:
        return len(self.inside)

    def decode(self, ids: Iterable[int]) -> str:
        return self.inside.decode(ids)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return self.inside.tokens(ids)

    def to_json(self) -> str:
        return self.inside.to_json()


def translator(piece_ids: object) -> tuple[Checkpoint, Callable[[str], list[str]]]:
    """Return the trained model with the student's `piece_ids`, and its segmentation of a text."""
    checkpoint = load_pretrained(MODEL)
    pieces = _Pieces(checkpoint.translator().src_tokenizer, piece_ids)
    fed = replace(checkpoint, src_tokenizer=pieces)
    return fed, lambda text: pieces.tokens(pieces.encode(text)[:-1])


@_parts.part(
    "encoding",
    "encode_word",
    "piece_ids",
    rebuilds=("attentively.tokens.byte_pair:merge_word",),
)
def encoding(encode_word: object, piece_ids: object, thorough: bool = False) -> None:
    """Check ``encode_word(word, merges)`` and ``piece_ids``, finally inside a trained model."""
    for word, known in _TO_ENCODE:
        _check_pieces(encode_word, word, known)
    learned = byte_pair.learn_merges(toy_words(), 80)
    words = ["the", "cat", "queen", "strongest", "hippo", "drinks", "théâtre"]
    if thorough:
        words = [*sorted(toy_words())[::9], "zzz", "été", "unbelievable", "milkmilk", "thethe"]
    for word in words:
        _check_pieces(encode_word, word, learned, "The small examples are correct.")
    listed = {"a": 0, "b": 5, "ab": 6, "c": 7, "<end>": 3}
    lists = [["ab", "c"], ["abc", "ab"], ["axb"], ["xa", "b"], ["b", "ab"], ["ab", "", "?"], []]
    lists.append(["<end>"])
    for each in lists:
        inputs: dict[str, object] = {
            "words": each,
            "merges": [("a", "b")],
            "ids": listed,
            "unknown_id": 9,
        }
        expected_ids = _ids(each, [("a", "b")], listed, 9)
        answer = call_twice(piece_ids, inputs)
        expect_value(answer, expected_ids, "the ids of piece_ids", inputs, _ID_TWINS)
        _expect_whole_numbers(answer, "piece_ids", inputs)
    _expect_same_translations(piece_ids, thorough)


def _expect_whole_numbers(ids: object, name: str, inputs: Mapping[str, object]) -> None:
    """Reject ids that are not integers, although their values are correct."""
    if isinstance(ids, list | tuple) and any(type(plain_number(i)) is float for i in ids):
        raise CheckFailed(
            f"  The ids of {name} are floats. An id is an index and must be an int.\n"
            f"{describe(inputs)}\n  got         {show(ids)}"
        )


def _check_pieces(encode_word: object, word: str, merges: Sequence[Pair], hint: str = "") -> None:
    inputs: dict[str, object] = {"word": word, "merges": merges}
    answer = call_twice(encode_word, inputs)
    expected = _by_rank(word, merges)
    what = "the subwords of encode_word"
    expect_value(answer, expected, what, inputs, _ENCODING_TWINS, hint)


def _expect_same_translations(piece_ids: object, thorough: bool) -> None:
    """Put the candidate into the trained model, whose translations must stay the same."""
    checkpoint = load_pretrained(MODEL)
    library = checkpoint.translator().src_tokenizer
    mine = _Pieces(library, piece_ids)
    sentences = [*SENTENCES, "Is 1 < 2, <end>?", "The 猫 drank."]
    if thorough:
        sentences += ["", "Unbelievably, nobody’s naïveté surprised Hyderabad.", "ÉTÉ 2024"]
    for sentence in sentences:
        inputs: dict[str, object] = {
            "words": mine.words(sentence),
            "merges": mine.merges,
            "ids": mine.ids,
            "unknown_id": UNK_ID,
        }
        answer = call(piece_ids, inputs)
        expected = library.encode(sentence)[:-1]
        hint = (
            "The small examples are correct. Here the 4,881 merges of the trained model are used."
        )
        expect_value(answer, expected, "the ids of piece_ids", inputs, _ID_TWINS, hint)
    fed = replace(checkpoint, src_tokenizer=mine)
    texts = SENTENCES[1:] if thorough else SENTENCES[:1]
    before = translate(checkpoint, texts, beam_size=1)
    for sentence, old, new in zip(texts, before, translate(fed, texts, beam_size=1), strict=True):
        if old.text != new.text:
            raise CheckFailed(
                "  With your subwords, the trained model outputs a different translation.\n"
                f"  sentence    {sentence}\n  got         {new.text}\n  expected    {old.text}"
            )


# Part 4

IdPair = tuple[int, int]

_DRANK = "بلی نے دودھ پیا"
_TEXTS = (
    "ab",
    "é",
    " a  b ",
    "Ab",
    "e\u0301",
    "a\r\nb\n\tc\n",
    "",
    "The  cat, the Cat,\tdrank ½ l of milk. ",
    "Où est l’été ? E\u0301te\u0301 !",
    f"{_DRANK}\u200c۔",
    "\ufeff🐈‍⬛ + 🥛 = 🙂🏽🙂🏽",
    "<pad> <end> ▁ � \x00 ﬁ Å",
)


def _symbols(merges: Sequence[IdPair]) -> list[str]:
    """Return the bytes of each id, as one character per byte."""
    table = [chr(byte) for byte in range(256)]
    for left, right in merges:
        table.append(table[left] + table[right])
    return table


def _text_ids(text: str, merges: Sequence[IdPair]) -> list[int]:
    """Return the ids of a text, by the package's `merge_word` on bytes."""
    table = _symbols(merges)
    joined = byte_pair.merge_word(
        byte_pair.to_bytes(text), [(table[left], table[right]) for left, right in merges]
    )
    return [table.index(piece) for piece in joined]


def _byte_merges(texts: Sequence[str], num_merges: int) -> list[IdPair]:
    """Learn merges on whole texts, and return them as pairs of ids."""
    words = {byte_pair.to_bytes(text): 1 for text in texts if text}
    table = [chr(byte) for byte in range(256)]
    found = []
    for left, right in byte_pair.learn_merges(words, num_merges):
        if left + right not in table:  # otherwise one subword would have two ids
            found.append((table.index(left), table.index(right)))
            table.append(left + right)
    return found


def _leftmost_ids(text: str, merges: Sequence[IdPair]) -> list[int]:
    table = _symbols(merges)
    known = [(table[left], table[right]) for left, right in merges]
    return [table.index(piece) for piece in _leftmost(byte_pair.to_bytes(text), known)]


def _of_another(change: Callable[[str], str]) -> Callable[..., list[int]]:
    return lambda text, merges: _text_ids(change(text), merges)


_TEXT_TWINS = (
    Twin(
        "No pair is merged: the ids are the bytes. If a slice, which is a list, is compared with a "
        "pair, a tuple, they are never equal.",
        lambda text, merges: list(text.encode("utf-8")),
    ),
    Twin(
        "The ids are the code points of the characters, as returned by ord. An id below 256 must "
        "be a byte of text.encode('utf-8').",
        lambda text, merges: [ord(character) for character in text],
    ),
    Twin(
        "The ids of merged pairs do not start at 256. The first merge creates id 256, the second "
        "257.",
        lambda text, merges: [i + (i > 255) for i in _text_ids(text, merges)],
    ),
    Twin(
        "The ids of merged pairs do not start at 256. The first merge creates id 256, the second "
        "257.",
        lambda text, merges: [i - 256 * (i > 255) for i in _text_ids(text, merges)],
    ),
    Twin(
        "Only one merge is applied. Repeat: the new id may be part of another pair.",
        lambda text, merges: _text_ids(text, merges[:1]),
    ),
    Twin(
        "The leftmost pair with a merge is merged first. As in part 3, the pair that was learned "
        "first must be merged first.",
        _leftmost_ids,
    ),
    Twin(
        "White space at the start and at the end is removed. It is part of the text and must be "
        "restored.",
        _of_another(str.strip),
    ),
    Twin(
        "The text is split into words and joined again, so that two spaces become one. Encode the "
        "text unchanged.",
        _of_another(lambda text: " ".join(text.split())),
    ),
    Twin(
        "The spaces are missing, because the text is split into words. Encode the text unchanged.",
        _of_another(lambda text: "".join(text.split())),
    ),
    Twin("The text is converted to lower case, which cannot be undone.", _of_another(str.lower)),
    Twin(
        "The text is normalised to NFC: e and a combining accent become the one character é. The "
        "restored text looks the same, but it is different.",
        _of_another(lambda text: unicodedata.normalize("NFC", text)),
    ),
    Twin(
        "The text is normalised to NFD: é becomes e and a combining accent. The restored text "
        "looks the same, but it is different.",
        _of_another(lambda text: unicodedata.normalize("NFD", text)),
    ),
    Twin(
        "Line ends are changed: \\r\\n becomes \\n. Encode the text unchanged.",
        _of_another(lambda text: "\n".join(text.splitlines()) + "\n" * text.endswith("\n")),
    ),
    Twin(
        "Line ends are changed: \\r\\n becomes \\n. Encode the text unchanged.",
        _of_another(lambda text: text.replace("\r\n", "\n")),
    ),
    Twin(
        "The id of <end> is appended. Return the ids of the text only.",
        lambda text, merges: [*_text_ids(text, merges), END_ID],
    ),
    Twin(
        "Characters outside ASCII are missing. UTF-8 has bytes for every character.",
        _of_another(lambda text: text.encode("ascii", "ignore").decode()),
    ),
    Twin(
        "Characters outside ASCII become question marks. UTF-8 has bytes for every character.",
        _of_another(lambda text: text.encode("ascii", "replace").decode()),
    ),
)


def _bytes_of(ids: Sequence[int], merges: Sequence[IdPair]) -> bytes:
    return "".join(_symbols(merges)[index] for index in ids).encode("latin-1")


_DECODING_TWINS = (
    Twin(
        "Invalid bytes are omitted. They must become �, as with errors='replace', so that the "
        "error is visible.",
        lambda ids, merges: _bytes_of(ids, merges).decode(errors="ignore"),
    ),
    Twin(
        "Each id is decoded separately, so that a character whose bytes are in two ids becomes �. "
        "Concatenate all bytes first, then decode once.",
        lambda ids, merges: "".join(_bytes_of([i], merges).decode(errors="replace") for i in ids),
    ),
    Twin(
        "Each id is decoded separately, so that a character whose bytes are in two ids is missing. "
        "Concatenate all bytes first, then decode once.",
        lambda ids, merges: "".join(_bytes_of([i], merges).decode(errors="ignore") for i in ids),
    ),
    Twin(
        "Each byte is decoded as a character (chr, or latin-1). In UTF-8, one character can have "
        "several bytes.",
        lambda ids, merges: _bytes_of(ids, merges).decode("latin-1"),
    ),
    Twin(
        "White space at the start and at the end is removed. It is part of the text.",
        lambda ids, merges: _bytes_of(ids, merges).decode(errors="replace").strip(),
    ),
    Twin(
        "There are additional spaces between the subwords. A space of the text is a byte of its "
        "own.",
        lambda ids, merges: " ".join(_bytes_of([i], merges).decode(errors="replace") for i in ids),
    ),
    Twin(
        "The result is bytes. Return the decoded text, a str.",
        _bytes_of,
    ),
    Twin(
        "The text is normalised to NFC. The encoded text must be restored exactly.",
        lambda ids, merges: unicodedata.normalize(
            "NFC", _bytes_of(ids, merges).decode(errors="replace")
        ),
    ),
    Twin(
        "Line ends are changed. The encoded text must be restored exactly.",
        lambda ids, merges: _bytes_of(ids, merges).decode(errors="replace").replace("\r\n", "\n"),
    ),
)

_TEXTS_TO_ENCODE: list[tuple[str, list[IdPair]]] = [
    *((text, []) for text in _TEXTS[:7]),
    ("aab", [(97, 97)]),
    ("aab", [(97, 97), (256, 98)]),
    ("abc", [(98, 99), (97, 98)]),
    ("aaaaa", [(97, 97), (256, 256)]),
    ("a b a b", [(97, 32), (256, 98)]),
    ("éè", [(169, 195)]),
]

_IDS_TO_DECODE: list[tuple[list[int], list[IdPair]]] = [
    ([97, 98], []),
    ([32, 97, 32, 32], []),
    ([256, 98], [(97, 97)]),
    ([257], [(97, 97), (256, 98)]),
    ([195, 169], []),
    ([195, 256, 168], [(169, 195)]),
    ([97, 195], []),
    ([240, 159, 98], []),
    ([101, 204, 129, 13, 10], []),
    ([], []),
]

_NO_IDS: list[tuple[list[int], list[IdPair], str]] = [
    ([256], [], "Without merges, the largest id is 255."),
    ([97, 257], [(97, 97)], "With one merge, the largest id is 256."),
    (
        [97, -1],
        [(97, 97)],
        "In Python, table[-1] is the last entry, so a negative id raises no error by itself.",
    ),
]


@_parts.part("round trip", "encode_text", "decode_ids")
def round_trip(encode_text: object, decode_ids: object, thorough: bool = False) -> None:
    """Check ``encode_text(text, merges)`` and ``decode_ids(ids, merges)``."""
    for text, merges in _TEXTS_TO_ENCODE:
        _check_ids(encode_text, text, merges)
    learned = _byte_merges([*_TEXTS, *SENTENCES], 60)
    for text in _TEXTS:
        _check_ids(encode_text, text, learned)
    for ids, merges in _IDS_TO_DECODE:
        inputs: dict[str, object] = {"ids": ids, "merges": merges}
        try:
            answer = call_twice(decode_ids, inputs)
        except CheckFailed as failed:
            if "UnicodeDecodeError" not in str(failed):
                raise
            whole = "�" not in _bytes_of(ids, merges).decode(errors="replace")
            why = (
                "All bytes together are valid UTF-8, but a single id can contain part of a "
                "character. Concatenate all bytes first, then decode once."
                if whole
                else "A model can output ids whose bytes are not valid UTF-8. Decode with "
                "errors='replace', which returns � for invalid bytes."
            )
            raise CheckFailed(f"  {why}\n{failed}") from None
        text = _bytes_of(ids, merges).decode("utf-8", errors="replace")
        expect_value(answer, text, "the text of decode_ids", inputs, _DECODING_TWINS)
    for ids, merges, why in _NO_IDS:
        _expect_refusal(decode_ids, {"ids": ids, "merges": merges}, why)
    texts: tuple[str, ...] = _TEXTS
    if thorough:
        texts = (*(a + b for a, b in pairwise(_TEXTS)), "".join(_TEXTS) * 2)
    for text in texts:
        for merges in ([], learned[:7], learned):
            _expect_back(encode_text, decode_ids, text, merges)


def _check_ids(encode_text: object, text: str, merges: Sequence[IdPair]) -> None:
    inputs: dict[str, object] = {"text": text, "merges": merges}
    answer = call_twice(encode_text, inputs)
    expected = _text_ids(text, merges)
    expect_value(answer, expected, "the ids of encode_text", inputs, _TEXT_TWINS)
    _expect_whole_numbers(answer, "encode_text", inputs)


def _expect_refusal(candidate: object, inputs: Mapping[str, object], why: str) -> None:
    """Reject a candidate that does not raise `ValueError`."""

    def outcome(*given: object) -> str:
        try:
            answer = candidate(*given)  # type: ignore[operator]
        except NotImplementedError:
            raise
        except Exception as error:  # its type is the question
            return "" if isinstance(error, ValueError) else f"raises {type(error).__name__}"
        return f"returns {show(answer)}"

    found = call(outcome, inputs)
    if found:
        raise CheckFailed(
            f"  decode_ids must raise ValueError for an invalid id, but it {found}. {why}\n"
            + describe(inputs)
        )


def _expect_back(
    encode_text: object, decode_ids: object, text: str, merges: Sequence[IdPair]
) -> None:
    """Reject a text that is not restored exactly."""
    inputs: dict[str, object] = {"text": text, "merges": merges}
    ids = call(encode_text, inputs)
    back = call(decode_ids, {"ids": ids, "merges": merges})
    if back == text and type(back) is str:
        return
    same = isinstance(back, str) and unicodedata.normalize("NFC", back) == unicodedata.normalize(
        "NFC", text
    )
    why = " It looks the same but is different: one of the two is normalised." if same else ""
    raise CheckFailed(
        f"  decode_ids(encode_text(text, merges), merges) is not the text.{why}\n"
        f"{describe(inputs)}\n"
        f"  got         {show(back)}\n  expected    {show(text)}"
    )


# Part 5

# Words with their counts, merges, the fewest occurrences, the share, and that of each mistake.
_SHARES: list[tuple[dict[str, int], list[Pair], int, float, dict[str, float]]] = [
    (
        {"c": 1, "ab": 2, "cba": 4},
        [("b", "a"), ("c", "ba")],
        2,
        2 / 5,
        {
            "unweighted": 1.0,
            "seen": 1 / 4,
            "joined only": 1 / 2,
            "characters only": 1 / 3,
            "at most": 4 / 5,
            "frequent": 3 / 5,
            "of the text": 1 / 9,
            "before": 0.0,
            "count": 2.0,
            "percent": 40.0,
            "special": 6 / 9,
            "twice": 3 / 8,
        },
    ),
    (
        {"a": 3, "cc": 3, "ccb": 2, "cddb": 3},
        [("c", "c"), ("c", "d"), ("d", "b"), ("cd", "db")],
        3,
        5 / 8,
        {
            "unweighted": 1.0,
            "seen": 1 / 4,
            "joined only": 1 / 2,
            "characters only": 3 / 4,
            "at most": 7 / 8,
            "frequent": 3 / 8,
            "of the text": 2 / 13,
            "before": 0.0,
            "count": 5.0,
            "percent": 62.5,
        },
    ),
    ({"abb": 3, "aaba": 1, "a": 4, "d": 3}, [("a", "b"), ("ab", "b")], 3, 2 / 5, {}),
]
_MORE_SHARES: list[tuple[dict[str, int], list[Pair], int, float, dict[str, float]]] = [
    (
        {"ccd": 3, "dbcc": 3, "ddd": 1, "aba": 4},
        [("c", "c"), ("a", "b"), ("ab", "a")],
        4,
        4 / 7,
        {},
    ),
    ({"ab": 5, "b": 1}, [], 6, 1 / 2, {}),
    ({"ab": 5, "b": 1}, [("a", "b")], 1, 1 / 3, {}),
    ({"ab": 5, "b": 1}, [("a", "b")], 100, 1.0, {}),
]
_SHARE_MISTAKES = {
    "unweighted": "each word is counted once. A subword occurs as often as the words that contain "
    "it: add the count of the word.",
    "seen": "subwords that do not occur in the split words are missing from the vocabulary. Later "
    "merges have absorbed all their occurrences; they occur 0 times and are rare as well.",
    "joined only": "the characters are missing from the vocabulary. It contains the characters and "
    "the merged subwords.",
    "characters only": "the vocabulary contains the characters only. Each merge adds one subword.",
    "at most": "subwords that occur exactly `fewest` times are counted. Count those that occur "
    "fewer times.",
    "frequent": "this is the share of the subwords that are not rare.",
    "of the text": "this is a share of the occurrences. Return a share of the vocabulary.",
    "before": "a subword is counted wherever its characters occur, also inside longer subwords. "
    "Count it only where it is a subword of a split word.",
    "count": "this is a number of subwords. Divide it by the size of the vocabulary.",
    "percent": "this is a percentage. Return a share between 0 and 1.",
    "special": "the four special tokens are in the vocabulary. Here it contains only the "
    "characters and the merged subwords.",
    "twice": "a character is in the vocabulary several times, once for each occurrence in a word. "
    "Use a set, so that it is there once.",
}

# Made so that every plausible mistake in choosing the size leads to another answer.
_CORPUS = {
    "train": [
        "popona po la tetana",
        "la lala la la",
        "nita nita popona ni",
        "tetana la po ponala",
    ],
    "validation": ["ni soni sonani", "po nipo la solani", "soteta"],
    "test": ["ponala popona niso la tatena", "nita tetana so po na la", "ponala la"],
    "sizes": [10, 0, 8, 4, 12, 2, 6],
}
_OTHER_CORPUS = {
    "train": [
        "ni ni ni",
        "lanila tenaso tenaso late tenaso",
        "ni tenaso late",
        "late teta ni ni ta",
    ],
    "validation": ["nisota", "tenaso ni tateni", "ta napota poni so tenaso ni"],
    "test": [
        "sotete tateta late",
        "naso tataso ta pososo teso tenaso",
        "teni tenaso nipola tenaso tenaso",
    ],
    "sizes": [10, 12, 4, 2, 6, 0, 8],
}
_CHOICES: list[tuple[dict[str, Any], tuple[int, float], dict[tuple[int, float], str]]] = [
    (
        _CORPUS | {"limit": 2.83},
        (6, 2.0),
        {
            (6, 2.625): "validation reported",
            (6, 1.75): "training reported",
            (6, 1.9111): "mean reported",
            (4, 2.3846): "test",
            (2, 3.0769): "training",
            (8, 1.8462): "mean",
            (8, 1.8): "mean",
            (10, 1.6923): "first listed",
            (12, 1.6154): "largest",
            (6, 2.2): "distinct words",
            (4, 2.4615): "learned from all",
        },
    ),
    (_CORPUS | {"limit": 2.55}, (8, 1.8462), {(6, 2.0): "nearest"}),
    (_CORPUS | {"limit": 2.625}, (6, 2.0), {(8, 1.8462): "below"}),
]
_MORE_CHOICES: list[tuple[dict[str, Any], tuple[int, float], dict[tuple[int, float], str]]] = [
    (_OTHER_CORPUS | {"limit": 3.27}, (4, 3.7143), {}),
    (_CORPUS | {"limit": 4.0}, (0, 3.8462), {}),
    (_CORPUS | {"limit": 2.4, "sizes": [12, 8]}, (8, 1.8462), {}),
]
_CHOICE_MISTAKES = {
    "test": "the size is chosen on the test sentences. Choose it on the validation sentences, so "
    "that the test result is an estimate for new sentences.",
    "training": "the size is chosen on the training sentences, from which the merges are learned. "
    "Choose it on the validation sentences, which are new.",
    "validation reported": "the size is correct, but the subwords per word are those of the "
    "validation sentences, on which it was chosen. Report those of the test sentences.",
    "training reported": "the size is correct, but the subwords per word are those of the training "
    "sentences. Report those of the test sentences.",
    "mean": "the mean over sentences is used, in which short sentences count as much as long ones. "
    "Divide the number of all subwords by the number of all words.",
    "mean reported": "the size is correct, but the subwords per word are averaged over sentences. "
    "Divide the number of all subwords by the number of all words.",
    "first listed": "this is the first of the sizes that satisfies the limit, but the sizes are "
    "not sorted. Return the smallest one that satisfies it.",
    "largest": "this is the largest size. Return the smallest one that satisfies the limit; more "
    "merges only add rare subwords.",
    "nearest": "this size is the one nearest to the limit, but it exceeds the limit. Return the "
    "smallest size that satisfies it.",
    "below": "a size with exactly `limit` subwords per word satisfies the limit: use <=.",
    "distinct words": "each distinct word is counted once. Count every occurrence of a word.",
    "learned from all": "the merges are learned from other counts. Learn from the training "
    "sentences only, because the validation sentences must be new, and add one for each occurrence "
    "of a word.",
}


@_parts.part("vocabulary size", "rare_share", "choose_size")
def vocabulary_size(rare_share: object, choose_size: object, thorough: bool = False) -> None:
    """Check the share of rare subwords, and the choice of a number of merges."""
    for case in [*_SHARES, *(_MORE_SHARES if thorough else [])]:
        _check_share(rare_share, *case)
    for inputs, expected, mistakes in [*_CHOICES, *(_MORE_CHOICES if thorough else [])]:
        _check_choice(choose_size, inputs, expected, mistakes)


def _check_share(
    rare_share: object,
    word_counts: dict[str, int],
    merges: list[Pair],
    fewest: int,
    expected: float,
    mistakes: Mapping[str, float],
) -> None:
    inputs: dict[str, object] = {"word_counts": word_counts, "merges": merges, "fewest": fewest}
    answer = call_twice(rare_share, inputs)
    got = plain_number(answer)
    if got is not None and abs(got - expected) < 1e-4:
        return
    why = "this is not the share of rare subwords."
    if got is None:
        why = "expected a number between 0 and 1."
    else:
        for name, wrong in mistakes.items():
            if abs(got - wrong) < 1e-4:
                why = _SHARE_MISTAKES[name]
    raise CheckFailed(
        f"  rare_share: {why}\n{describe(inputs)}\n"
        f"  got         {show(answer)}\n  expected    {expected:.4g}"
    )


def _check_choice(
    choose_size: object,
    inputs: Mapping[str, Any],
    expected: tuple[int, float],
    mistakes: Mapping[tuple[int, float], str],
) -> None:
    fits = (
        f"  choose_size: size {expected[0]} satisfies the limit. Divide the number of all subwords "
        "of the validation sentences by the number of all their words."
    )
    try:
        answer = call_twice(choose_size, inputs)
    except CheckFailed as failed:
        if "raises ValueError: min()" not in str(failed):  # of no size at all
            raise
        raise CheckFailed(f"{fits}\n{failed}") from None
    if answer is None:
        raise CheckFailed(f"{fits} Your function returns None.\n{describe(inputs)}")
    pair = expect_pair(answer, ("size", "pieces_per_word"), {})
    numbers = [number for each in pair if (number := plain_number(each)) is not None]
    if len(numbers) != 2:
        raise CheckFailed(
            f"  choose_size: expected `return size, pieces_per_word`, got {show(answer)}."
        )

    def close(other: tuple[int, float]) -> bool:
        return all(abs(one - two) < 1e-3 for one, two in zip(numbers, other, strict=True))

    if close(expected):
        return
    why = "the result is wrong, and it is not that of a known mistake."
    named = [name for wrong, name in mistakes.items() if close(wrong)]
    if named:
        why = _CHOICE_MISTAKES[named[0]]
    elif numbers[1] == expected[0] and abs(numbers[0] - expected[1]) < 1e-3:
        why = (
            "the results are in the wrong order. Return the size first, then the subwords per word."
        )
    elif numbers[0] not in inputs["sizes"]:
        why = (
            "the first result is not one of `sizes`, the fourth argument. A size is a number of "
            "merges."
        )
    elif numbers[0] == expected[0]:
        why = "the size is correct, but not the subwords per word of the test sentences."
    raise CheckFailed(
        f"  choose_size: {why}\n{describe(inputs)}\n"
        f"  got         size {numbers[0]:.4g}, {numbers[1]:.4g} subwords per word\n"
        f"  expected    size {expected[0]}, {expected[1]:.4g} subwords per word"
    )


# Part 6


class _Reading:
    """A candidate tokenizer, trained on sentences, with the merges that it should have learned."""

    def __init__(self, candidate: object, sentences: Sequence[str], num_merges: int) -> None:
        self.inputs: dict[str, object] = {"sentences": list(sentences), "num_merges": num_merges}
        self.tokenizer: Any = call(candidate, self.inputs)
        for method in ("encode", "decode"):
            if not callable(getattr(self.tokenizer, method, None)):
                raise CheckFailed(
                    "  The tokenizer must have the methods encode and decode. Pass the class "
                    "CorrectedTokenizer itself, without ()."
                )
        words = Counter(f"▁{word}" for sentence in sentences for word in sentence.split())
        self.merges = byte_pair.learn_merges(words, num_merges)

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text; they must be integers and end with END_ID."""
        answer = call_twice(self._encode, {"text": text})
        numbers = [plain_number(i) for i in answer] if isinstance(answer, list | tuple) else [None]
        if any(type(number) is not int for number in numbers):
            raise self.failed("encode: expected a list of ids, all of them integers.", text, answer)
        ids = [number for number in numbers if isinstance(number, int)]
        if ids[-1:] != [END_ID]:
            raise self.failed(f"encode: the last id must be END_ID, {END_ID}.", text, ids)
        return ids

    def _encode(self, text: str) -> object:
        return self.tokenizer.encode(text)

    def back(self, ids: Sequence[int]) -> object:
        return call(lambda ids: self.tokenizer.decode(ids), {"ids": list(ids)})

    def pieces(self, ids: Sequence[int]) -> list[object]:
        """Return the text that each id adds when decoded, without ▁, spaces and the end token."""
        texts = [""]
        for end in range(1, len(ids)):
            text = self.back(ids[:end])
            if not isinstance(text, str):
                return [text]
            texts.append(text.replace("▁", "").replace(" ", ""))
        return [text[len(before) :] for before, text in pairwise(texts)]

    def failed(
        self, why: str, text: str, got: object, expected: object = None, what: str = ""
    ) -> CheckFailed:
        lines = [f"  {why}", describe(self.inputs | {"text": text}), f"  got         {show(got)}"]
        if expected is not None:
            lines.append(f"  expected    {what}{show(expected)}")
        return CheckFailed("\n".join(lines))


_APART = ["a part of the cat", "the Cat sat apart", "The cats part < a > b"]


def _examine_order(candidate: object, thorough: bool) -> None:
    corpora = [(["aaa ad ac"], 3), (_APART, 12)]
    if thorough:
        corpora.append(([" ".join(pair.src) for pair in toy.load("train", 60)], 60))
    for sentences, num_merges in corpora:
        reading = _Reading(candidate, sentences, num_merges)
        text = " ".join(sentences)
        words = [word for word in dict.fromkeys(text.split()) if word == word.lower()]
        got = {word: reading.pieces(reading.ids(word)) for word in words}
        expected = _cut(words, reading.merges)
        wrong = [word for word in words if got[word] != expected[word]]
        if not wrong:
            continue
        word = wrong[0]
        why = "these are not the subwords that the merges give."
        shown = got[word], expected[word]
        unmarked = byte_pair.learn_merges(Counter(text.split()), num_merges)
        if got == _cut(words, sorted(reading.merges)):
            why = (
                "the merges are not applied in the order in which they were learned. A set does "
                "not keep this order, and sorting replaces it by alphabetical order."
            )
            orders = sorted(reading.merges), reading.merges
            by_name, by_rank = (byte_pair.merge_word(f"▁{word}", order) for order in orders)
            shown = [*by_name], by_rank
        elif got == _cut(words, unmarked, mark=""):
            why = (
                "the mark ▁ is missing in training and in encoding. Put ▁ before each word, both "
                "when the merges are learned and when a text is encoded."
            )
        elif got == _cut(words, reading.merges, mark=""):
            why = (
                "the mark ▁ is missing in encoding. The merges were learned from words with ▁: put "
                "it before each word of a text as well."
            )
        elif got[word][:1] in ([""], [UNK]) and expected[word][0]:
            why = (
                "▁ remains a separate subword, because it was missing when the merges were "
                "learned. Put ▁ before each word in training as well."
            )
        elif got[word] == [word]:
            why = "the word is looked up as a whole. Split it by the merges, in their order."
        if shown[0] is got[word]:
            why += " (The subwords are shown as decoded, without ▁.)"
        raise reading.failed(f"Subwords: {why}", word, *shown)


def _cut(words: Sequence[str], merges: Sequence[Pair], mark: str = "▁") -> dict[str, list[str]]:
    """Return the subwords of each word, without the mark of its start."""
    return {
        word: [piece.removeprefix("▁") for piece in byte_pair.merge_word(mark + word, merges)]
        for word in words
    }


def _examine_capitals(candidate: object, thorough: bool) -> None:
    reading = _Reading(candidate, _APART, 12)
    for lower, upper in [("the", "The"), ("cat", "Cat")]:
        if reading.ids(lower) == reading.ids(upper):
            raise reading.failed(
                f"Capital letters: “{lower}” and “{upper}” have the same ids, so that decode "
                "cannot distinguish them. Do not change capital letters.",
                upper,
                reading.ids(upper),
                reading.ids(lower),
                "other ids than ",
            )


def _examine_boundaries(candidate: object, thorough: bool) -> None:
    reading = _Reading(candidate, _APART, 12)
    for text in ("a part", "apart", "the cats", "cat a", *_APART[: 3 if thorough else 1]):
        ids = reading.ids(text)
        together = text.replace(" ", "")
        if together != text and ids == reading.ids(together):
            raise reading.failed(
                f"Word boundaries: “{text}” and “{together}” have the same ids, so that decode "
                "cannot restore the space. Put ▁ before each word.",
                text,
                ids,
            )
        got = reading.back(ids)
        if got == text:
            continue
        why = "the decoded text differs from the text."
        if isinstance(got, str) and got.replace(" ", "") == together:
            why = "spaces are missing in the decoded text."
            if got.strip() == text:
                why = "there is a space before or after the text. Remove that of the first ▁."
            elif got.count(" ") > text.count(" "):
                why = "there are spaces between the subwords of a word. Only ▁ becomes a space."
        elif isinstance(got, str) and "▁" in got:
            why = "the decoded text contains the mark ▁. Replace it by a space."
        elif isinstance(got, str) and any(special in got for special in SPECIAL_TOKENS):
            why = (
                "the decoded text contains special tokens. Skip the ids of <pad>, <start> and "
                "<end>."
            )
        raise reading.failed(f"Word boundaries: {why}", text, got, text)


def _examine_spelled_out(candidate: object, thorough: bool) -> None:
    sentences = [*_APART, "pad or end or start or unk"]
    reading = _Reading(candidate, sentences, 5)
    specials = SPECIAL_TOKENS if thorough else SPECIAL_TOKENS[::-1][:2]
    for special in specials:
        for text in (special, f"the {special} cat"):
            ids = reading.ids(text)
            if set(ids[:-1]) & {*range(len(SPECIAL_TOKENS))}:
                raise reading.failed(
                    f"Special tokens: the text {special} is encoded as the special token. A text "
                    "must not produce special tokens: encode its characters, which are all in the "
                    "vocabulary.",
                    text,
                    ids,
                )
            if (got := reading.back(ids)) != text:
                raise reading.failed(
                    "Special tokens: the decoded text differs from the text.", text, got, text
                )
    ids = [*reading.ids("the cat"), 0, 0]
    if (got := reading.back([2, *ids])) != "the cat":
        raise reading.failed(
            "Special tokens: the decoded text is wrong. Skip the ids of <pad>, <start> and <end>.",
            f"the ids {[2, *ids]}",
            got,
            "the cat",
        )
    for special in specials:  # So frequent that the merges make it one subword.
        reading = _Reading(candidate, [f"a{special} b{special} c{special}"], len(special) - 1)
        ids = reading.ids(text := f"a{special}")
        if set(ids[:-1]) & {*range(len(SPECIAL_TOKENS))}:
            raise reading.failed(
                f"Special tokens: here the merges create the subword {special}, which is text. It "
                "has the id of the special token of the same name, but it must have its own id.",
                text,
                ids,
            )
        if (got := reading.back(ids)) != text:
            raise reading.failed(
                f"Special tokens: here the merges create the subword {special}, which is text, and "
                "decode omits it. Skip the ids of special tokens, not every subword with the same "
                "characters.",
                text,
                got,
                text,
            )


def _examine_unknown(candidate: object, thorough: bool) -> None:
    reading = _Reading(candidate, _APART, 12)
    texts = {"cät": 1, "the 猫": 1, "ççc": 2, "cat": 0}
    if thorough:
        texts |= {"zzz cat zzz": 6, "?": 1}
    for text, unknown in texts.items():
        ids = reading.ids(text)
        found = ids.count(UNK_ID)
        if found == unknown:
            continue
        why = f"{unknown} characters are not in the vocabulary, but UNK_ID occurs {found} times."
        if not found:
            why = "an unknown character is omitted. It must receive UNK_ID, so that it is visible."
        elif found < unknown:
            why = "several unknown characters have one UNK_ID. Each of them must receive UNK_ID."
        elif not unknown:
            why = "all characters are in the vocabulary, but UNK_ID occurs."
        raise reading.failed(f"Unknown characters: {why}", text, ids)
    ids = reading.ids("cät")
    if (got := reading.back(ids)) == "ct":
        why = "decode omits UNK_ID, so that an unknown character is invisible. Decode it as <unk>."
        raise reading.failed(f"Unknown characters: {why}", "cät", got)


def _examine_all(candidate: object, thorough: bool) -> None:
    corpora = [(_APART, 0), (_APART, 12)]
    if thorough:
        corpora.append(([pair.src_text for pair in toy.load("test", 50)], 50))
    for sentences, num_merges in corpora:
        reading = _Reading(candidate, sentences, num_merges)
        for text in (*sentences, ""):
            if (got := reading.back(reading.ids(text))) != text:
                raise reading.failed(
                    "Round trip: the decoded text differs from the text.", text, got, text
                )


_SYMPTOMS = {
    "subwords": _examine_order,
    "capital letters": _examine_capitals,
    "word boundaries": _examine_boundaries,
    "special tokens": _examine_spelled_out,
    "unknown characters": _examine_unknown,
    "round trip": _examine_all,
}


@_parts.part("bug hunt", "CorrectedTokenizer")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the corrected tokenizer, one property after the other."""
    in_turn(_SYMPTOMS, candidate, thorough)
