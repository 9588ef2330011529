"""Checks of the assignment on subwords.

Parts 1 to 3 rebuild what `attentively.tokens.byte_pair` has, so they are compared with it, and the
encoder ends inside a trained translator. The answers to parts 4 to 6 stand nowhere here: what is
encoded must come back, the answers are known from how the inputs were made, or properties are
looked at one by one.
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
"""The trained model that the student's pieces feed."""

SENTENCES = (
    "The cat drank the milk.",
    "They welcomed the Queen of the United Kingdom.",
    "The animal did not cross the street because it was too tired.",
)

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its trained model and these checks work."""
    _parts.explain_undefined_names()
    text = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0].text
    print(f"tokenizers {tokenizers.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"as “{text}” Ready.")


def toy_words() -> Counter[str]:
    """Return how often each word occurs in 300 English sentences of the toy language."""
    return Counter(word for pair in toy.load("train", 300) for word in pair.src)


def documentation() -> tuple[list[str], list[str], list[str]]:
    """Return lines of real English for training, validation and test: Python's own manual.

    Every Python carries these texts; another version's differ a little.
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


def _refuse_the_packages(candidate: object, own: Callable[..., object], name: str) -> None:
    if candidate is own:
        raise CheckFailed(f"  This is the package's own byte_pair.{own.__name__}; write {name}.")


# Part 1

Split = Sequence[tuple[Sequence[str], int]]
"""Words in pieces, each with its count."""


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
    """Count as if an occurrence could not overlap the one before it."""
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
        "The words are counted, not their occurrences: a word that occurs 3 times adds 3 to each "
        "of its pairs.",
        lambda words: _count([(pieces, 1) for pieces, _ in words]),
    ),
    Twin(
        "A pair reaches from the end of one word to the beginning of the next. Words stay apart.",
        lambda words: _count([([piece for pieces, _ in words for piece in pieces], 1)]),
    ),
    Twin(
        "A pair reaches from the end of one word to the beginning of the next. Words stay apart.",
        lambda words: _count([([p for pieces, n in words for p in [*pieces] * n], 1)]),
    ),
    Twin(
        "Occurrences that overlap count too: in a·a·a the pair (a, a) stands at two places.",
        _count_apart,
    ),
    Twin(
        "Each word adds a pair once, however often it holds it. Count every place.",
        _count_once_a_word,
    ),
    Twin(
        "The count of a pair is written anew by each word that has it; add to what is there.",
        lambda words: {pair: n for pieces, n in words for pair in pairwise(pieces)},
    ),
    Twin(
        "The keys are joined strings, so ab·c and a·bc become one. A key is the pair itself, a "
        "tuple of two pieces.",
        lambda words: _gathered((a + b, n) for pieces, n in words for a, b in pairwise(pieces)),
    ),
    Twin(
        "(a, b) and (b, a) are counted as one. A pair is a left and a right piece, in this order.",
        lambda words: _gathered(
            ((min(pair), max(pair)), n) for pieces, n in words for pair in pairwise(pieces)
        ),
    ),
    Twin(
        "Every two pieces of a word are counted; a pair is made of neighbours only.",
        lambda words: _gathered(
            (pair, n) for pieces, n in words for pair in combinations(pieces, 2)
        ),
    ),
    Twin(
        "Single pieces are counted; wanted are pairs of neighbours.",
        lambda words: _gathered((piece, n) for pieces, n in words for piece in pieces),
    ),
    Twin(
        "Characters are counted where pieces are meant: ab is one piece.",
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
    """Look at every place, also at one whose left piece has been used."""
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
        "Nothing is joined: this is what came in. Is a slice, which is a list, compared with the "
        "pair, a tuple? They are never equal.",
        lambda pieces, pair: pieces,
    ),
    Twin(
        "Only the first occurrence is joined. Go on to the end of the word.",
        _joined_once,
    ),
    Twin(
        "A piece is used twice: once joined, the right piece of a pair cannot begin another. "
        "Step on by two.",
        _joined_overlapping,
    ),
    Twin(
        "The word is read from its end. From left to right, a·a·a becomes aa·a.",
        _joined_from_the_right,
    ),
    Twin(
        "The last piece is lost. It has no right neighbour, and belongs to the word all the same.",
        lambda pieces, pair: byte_pair.join(pieces, pair)[:-1],
    ),
    Twin(
        "The last piece is lost. It has no right neighbour, and belongs to the word all the same.",
        lambda pieces, pair: (
            byte_pair.join(pieces, pair)
            if tuple(pieces[-2:]) == tuple(pair)
            else byte_pair.join(pieces, pair)[:-1]
        ),
    ),
    Twin(
        "Joined strings are compared: a·bc spells what the pair (ab, c) spells, and is another "
        "pair. Compare piece by piece.",
        _joined_by_text,
    ),
    Twin(
        "Letters are compared where pieces are meant: ab·c does not hold the pair (b, c), though "
        "its text holds “bc”.",
        lambda pieces, pair: " ".join(pieces).replace(" ".join(pair), "".join(pair)).split(),
    ),
    Twin(
        "Letters are compared where pieces are meant: ab·c does not hold the pair (b, c), though "
        "its text holds “bc”.",
        lambda pieces, pair: _cut_out("".join(pieces), "".join(pair)),
    ),
    Twin(
        "The pair is joined the other way round too: (a, b) is not (b, a).",
        lambda pieces, pair: byte_pair.join(byte_pair.join(pieces, pair), (pair[1], pair[0])),
    ),
    Twin(
        "This is one string; the word stays a list of pieces.",
        lambda pieces, pair: "".join(pieces),
    ),
    Twin(
        "The joined piece stands beside its parts; it takes their place.",
        lambda pieces, pair: [
            each
            for piece in byte_pair.join(pieces, pair)
            for each in ([*pair, piece] if piece == "".join(pair) else [piece])
        ],
    ),
    Twin(
        "The pair stays two pieces, put into one entry. Join the strings: left + right.",
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


@_parts.part("pairs", "count_pairs", "merge_pair")
def pairs(count_pairs: object, merge_pair: object, thorough: bool = False) -> None:
    """Check ``count_pairs(words)`` and ``merge_pair(pieces, pair)``."""
    _refuse_the_packages(merge_pair, byte_pair.join, "merge_pair")
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
        hint = "A dict with the count of each pair of neighbours."
        answer = _without_zeros(call_twice(count_pairs, inputs))
        what = "the pairs of count_pairs"
        expect_value(answer, dict(_count(words)), what, inputs, _PAIR_TWINS, hint)
    for pieces, pair in to_join:
        inputs = {"pieces": pieces, "pair": pair}
        expected = byte_pair.join(pieces, pair)
        answer = call_twice(merge_pair, inputs)
        expect_value(answer, expected, "the pieces of merge_pair", inputs, _JOIN_TWINS)


def _without_zeros(answer: object) -> object:
    """A pair listed as occurring 0 times does no harm."""
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
    """Learn merges, one step at a time, some of the steps wrong on purpose."""
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
    "Of pairs equally frequent take the one whose left piece, then whose right piece, was listed "
    "earlier: first the characters in the order of Unicode, after them the joined pieces as they "
    "are made."
)


def _merge_twin(diagnosis: str, **wrong: Any) -> Twin:
    return Twin(diagnosis, lambda counts, n: _learn(counts, n, **wrong))


def _prefixes(counts: Mapping[str, int], num_merges: int) -> list[str]:
    return ["".join(pair) for pair in byte_pair.learn_merges(counts, num_merges)]


_MERGE_TWINS = (
    Twin(
        "These are joined pieces; wanted are the pairs, (left, right): from “abc” alone no one can "
        "tell whether ab·c or a·bc was joined.",
        _prefixes,
    ),
    _merge_twin(
        "Each word is counted once. A pair occurs as often as the words that hold it: multiply by "
        "the word's count.",
        count=lambda words: _count([(pieces, 1) for pieces, _ in words]),
    ),
    _merge_twin(
        f"On a tie the pair that was met first is taken. {_TIE}",
        choose=lambda counts, listed: _most(counts)[0],
    ),
    _merge_twin(
        f"On a tie the pair that was met last is taken. {_TIE}",
        choose=lambda counts, listed: _most(counts)[-1],
    ),
    _merge_twin(
        f"On a tie the pair that comes last is taken. {_TIE}",
        choose=lambda counts, listed: max(
            _most(counts), key=lambda pair: tuple(map(listed.index, pair))
        ),
    ),
    _merge_twin(
        f"On a tie only the left pieces are compared; where these are equal, the right one "
        f"decides. {_TIE}",
        choose=lambda counts, listed: min(_most(counts), key=lambda pair: listed.index(pair[0])),
    ),
    _merge_twin(
        f"On a tie short pieces come first, then the alphabet decides. {_TIE}",
        choose=lambda counts, listed: min(
            _most(counts), key=lambda pair: [(len(piece), piece) for piece in pair]
        ),
    ),
    _merge_twin(
        f"On a tie the alphabet decides, in which “ab” comes before “b”. {_TIE}",
        choose=lambda counts, listed: min(_most(counts)),
    ),
    _merge_twin(
        f"On a tie the alphabet decides, from its end. {_TIE}",
        choose=lambda counts, listed: max(_most(counts)),
    ),
    _merge_twin(
        "Pairs are counted across words, from the end of one to the beginning of the next.",
        count=lambda words: _count([([p for pieces, n in words for p in [*pieces] * n], 1)]),
    ),
    _merge_twin(
        "Pairs are counted across words, from the end of one to the beginning of the next.",
        count=lambda words: _count([([p for pieces, n in words for p in pieces], 1)]),
    ),
    _merge_twin(
        "The counts are those of the beginning. Each merge makes new pairs and ends others: join "
        "it in the words and count anew.",
        renew=False,
    ),
    _merge_twin(
        "Occurrences that overlap are counted once: in a·a·a the pair (a, a) stands at two places, "
        "and the library counts both.",
        count=_count_apart,
    ),
    _merge_twin(
        "A pair counts once a word, however often the word holds it. Count every place.",
        count=_count_once_a_word,
    ),
    _merge_twin(
        "In a word that holds the pair twice only the first occurrence is joined.",
        join=_joined_once,
    ),
    _merge_twin(
        "Pairs that occur once are left out. Go on until no pair is left or num_merges is reached.",
        fewest=2,
    ),
    _merge_twin(
        "Words are read from their end when a pair is joined: a·a·a must become aa·a.",
        join=_joined_from_the_right,
    ),
    Twin(
        "There is one merge more than num_merges.",
        lambda counts, n: byte_pair.learn_merges(counts, n + 1),
    ),
    Twin(
        "There is one merge less than num_merges, though a pair is left.",
        lambda counts, n: byte_pair.learn_merges(counts, n - 1),
    ),
    _merge_twin(
        "A mark for the end was added to each word. Here a word is its characters and no more.",
        end="</w>",
    ),
    _merge_twin(
        "The counts are not asked: the most frequent pair comes first, and the order of listing "
        "decides only on a tie.",
        choose=lambda counts, listed: min(counts, key=lambda pair: tuple(map(listed.index, pair))),
    ),
    _merge_twin(
        "The least frequent pair is taken first; wanted is the most frequent.",
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


@_parts.part("merges", "learn_merges")
def merges(candidate: object, thorough: bool = False) -> None:
    """Check a function ``(word_counts, num_merges) -> merges``."""
    _refuse_the_packages(candidate, byte_pair.learn_merges, "learn_merges")
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
                "  Here every word is one piece before num_merges is reached. With no pair left, "
                f"stop and return what there is.\n{failed}"
            ) from None
        raise
    hint = _why_this_pair(answer, expected, word_counts)
    expect_value(answer, expected, "the merges of learn_merges", inputs, _MERGE_TWINS, hint)


def _why_this_pair(answer: object, expected: Sequence[Pair], word_counts: Mapping[str, int]) -> str:
    """Say how often the first wrong pair occurs when it is taken, and how often the right one."""
    if not isinstance(answer, list | tuple):
        return ""
    if len(answer) > len(expected) and list(map(_as_pair, answer[: len(expected)])) == [*expected]:
        return "There are more merges than asked for, or than there are pairs."
    found = [_as_pair(each) for each in answer]
    if set(found) == {*expected} and len(found) == len(expected):
        return "The pairs are right, their order is not: they come as they were learned."
    for number, (pair, right) in enumerate(zip(found, expected, strict=False)):
        if pair == right:
            continue
        if pair is None:
            return "Each merge is a pair of strings."
        words = [
            (byte_pair.merge_word(word, expected[:number]), n) for word, n in word_counts.items()
        ]
        counts = _count(words)
        if not counts[pair]:
            return (
                f"At turn {number + 1} the pair {pair} occurs nowhere any more. Keep the words "
                "with their pieces joined, and count in these."
            )
        if counts[pair] == counts[right]:
            return f"At turn {number + 1} the pairs {pair} and {right} are equally frequent. {_TIE}"
        return (
            f"At turn {number + 1} the pair {pair} has the count {counts[pair]}, {right} has "
            f"{counts[right]}. Are your counts those after the merges before?"
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
    """Go along the word once and let the last piece grow while it can."""
    pieces: list[str] = []
    for character in word:
        if pieces and (pieces[-1], character) in merges:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def _longest(word: str, merges: Sequence[Pair]) -> list[str]:
    """Cut off the longest listed piece at the beginning, again and again."""
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
    """Join neighbours whose text is listed, whatever pair made it."""
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


_BY_RANK = "Join the pair that was learned first, wherever it stands, and look again."

_ENCODING_TWINS = (
    Twin(
        f"Any known pair is joined, the leftmost first, whatever its rank. {_BY_RANK}",
        _leftmost,
    ),
    Twin("Nothing is joined: these are the characters.", lambda word, merges: list(word)),
    Twin(
        "Only one merge is done. After it look again: the new piece may be half of another pair.",
        _first_only,
    ),
    Twin(
        "In a word that holds a pair twice only the first occurrence is joined.",
        lambda word, merges: _in_order(word, merges, _joined_once),
    ),
    Twin(
        "Two pieces are joined because their text is listed, but this pair was never learned: "
        "(ab, c) is not (a, bc).",
        _by_text,
    ),
    Twin(
        "The word is cut from its beginning into the longest pieces listed. That is another "
        f"tokenizer (WordPiece works so). {_BY_RANK}",
        _longest,
    ),
    Twin(
        f"The word is read from left to right once, whatever the ranks. {_BY_RANK}",
        _along,
    ),
    Twin(
        f"Pairs are joined from the last learned to the first. {_BY_RANK}",
        lambda word, merges: _by_rank(word, merges[::-1]),
    ),
    Twin(
        f"Pairs are joined from the last learned to the first. {_BY_RANK}",
        lambda word, merges: _in_order(word, merges[::-1]),
    ),
    Twin(
        "The word is read from its end when a pair is joined: a·a·a must become aa·a.",
        lambda word, merges: _in_order(word, merges, _joined_from_the_right),
    ),
    Twin(
        "The word is lower-cased. A capital is a character of its own.",
        lambda word, merges: _by_rank(word.lower(), merges),
    ),
    Twin(
        "A character that is in no merge is lost. It stays, as a piece of its own.",
        lambda word, merges: _by_rank(_known_characters(word, merges), merges),
    ),
    Twin(
        "A character that is in no merge became <unk>. encode_word leaves it as it is; only "
        "piece_ids asks what is listed.",
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
    """Return ids as wanted, or with one of the usual mistakes."""
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
        "A piece that is not listed is left out. It gets unknown_id, so that the model sees that "
        "something was there.",
        partial(_ids, drop=True),
    ),
    Twin(
        "The whole word got unknown_id for the sake of one piece. Only the piece is unknown.",
        partial(_ids, whole=True),
    ),
    Twin(
        "A word is looked up before it is cut. So whoever writes <end> in a text gets the id of "
        "the special token: cut every word.",
        lambda words, merges, ids, unknown_id: [
            index
            for word in words
            for index in ([ids[word]] if word in ids else _ids([word], merges, ids, unknown_id))
        ],
    ),
    Twin(
        "Whole words are looked up. Cut each into its pieces first.",
        lambda words, merges, ids, unknown_id: [ids.get(word, unknown_id) for word in words],
    ),
    Twin(
        "The id 0 is taken for none, as `ids.get(piece) or unknown_id` does. Ask with "
        "ids.get(piece, unknown_id).",
        lambda words, merges, ids, unknown_id: [
            index or unknown_id for index in _ids(words, merges, ids, unknown_id)
        ],
    ),
    Twin(
        "▁ is put before the words. They come as they are to be cut, with ▁ where it belongs.",
        lambda words, *rest: _ids([f"▁{word}" for word in words], *rest),
    ),
    Twin(
        "The words are joined by spaces before they are cut; the spaces are no pieces.",
        lambda words, *rest: _ids([" ".join(words)], *rest),
    ),
    Twin(
        "Each word has a list of its own. Wanted is one list for all pieces, in their order.",
        lambda words, merges, ids, unknown_id: [
            _ids([word], merges, ids, unknown_id) for word in words
        ],
    ),
    Twin(
        "These are pieces; wanted are their ids.",
        lambda words, merges, ids, unknown_id: [
            piece for word in words for piece in _by_rank(word, merges)
        ],
    ),
    Twin(
        "Unknown pieces got another number than unknown_id, the last argument.",
        partial(_ids, unknown=lambda unknown_id: 0),
    ),
    Twin(
        "Unknown pieces got another number than unknown_id, the last argument.",
        partial(_ids, unknown=lambda unknown_id: UNK_ID),
    ),
    Twin(
        "The words are put together before they are cut, so a piece reaches across two words.",
        lambda words, *rest: _ids(["".join(words)], *rest),
    ),
    Twin(
        "Each id is there once. A piece that occurs twice has its id twice, in its places.",
        lambda *inputs: list(dict.fromkeys(_ids(*inputs))),
    ),
    Twin(
        "An id for the end is added. piece_ids gives the pieces' ids and no more.",
        lambda *inputs: [*_ids(*inputs), END_ID],
    ),
)


class _Pieces:
    """A tokenizer that prepares a text as the library does and leaves the rest to the student."""

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
    """Return the trained model fed by `piece_ids`, and a function from a text to its pieces."""
    checkpoint = load_pretrained(MODEL)
    pieces = _Pieces(checkpoint.translator().src_tokenizer, piece_ids)
    fed = replace(checkpoint, src_tokenizer=pieces)
    return fed, lambda text: pieces.tokens(pieces.encode(text)[:-1])


@_parts.part("encoding", "encode_word", "piece_ids")
def encoding(encode_word: object, piece_ids: object, thorough: bool = False) -> None:
    """Check ``encode_word(word, merges)`` and ``piece_ids``, at last inside a trained model."""
    _refuse_the_packages(encode_word, byte_pair.merge_word, "encode_word")
    for word, known in _TO_ENCODE:
        _check_pieces(encode_word, word, known)
    learned = byte_pair.learn_merges(toy_words(), 80)
    words = ["the", "cat", "queen", "strongest", "hippo", "drinks", "théâtre"]
    if thorough:
        words = [*sorted(toy_words())[::9], "zzz", "été", "unbelievable", "milkmilk", "thethe"]
    for word in words:
        _check_pieces(encode_word, word, learned, "The small examples were right.")
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
    """Refuse ids of the right value that no table can be asked for."""
    if isinstance(ids, list | tuple) and any(type(plain_number(i)) is float for i in ids):
        raise CheckFailed(
            f"  The ids of {name} are floats. An id is a place in a list: an int.\n"
            f"{describe(inputs)}\n  got         {show(ids)}"
        )


def _check_pieces(encode_word: object, word: str, merges: Sequence[Pair], hint: str = "") -> None:
    inputs: dict[str, object] = {"word": word, "merges": merges}
    answer = call_twice(encode_word, inputs)
    expected = _by_rank(word, merges)
    what = "the pieces of encode_word"
    expect_value(answer, expected, what, inputs, _ENCODING_TWINS, hint)


def _expect_same_translations(piece_ids: object, thorough: bool) -> None:
    """Feed the trained model with the candidate's pieces; it must translate as before."""
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
        hint = "The small examples were right; these words meet the trained model's 4,881 merges."
        expect_value(answer, expected, "the ids of piece_ids", inputs, _ID_TWINS, hint)
    fed = replace(checkpoint, src_tokenizer=mine)
    texts = SENTENCES[1:] if thorough else SENTENCES[:1]
    before = translate(checkpoint, texts, beam_size=1)
    for sentence, old, new in zip(texts, before, translate(fed, texts, beam_size=1), strict=True):
        if old.text != new.text:
            raise CheckFailed(
                "  With your pieces the trained model translates differently.\n"
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
    """Return what each id stands for, one character a byte."""
    table = [chr(byte) for byte in range(256)]
    for left, right in merges:
        table.append(table[left] + table[right])
    return table


def _text_ids(text: str, merges: Sequence[IdPair]) -> list[int]:
    """Let the package join the symbols of the bytes, and number what comes out."""
    table = _symbols(merges)
    joined = byte_pair.merge_word(
        byte_pair.to_bytes(text), [(table[left], table[right]) for left, right in merges]
    )
    return [table.index(piece) for piece in joined]


def _byte_merges(texts: Sequence[str], num_merges: int) -> list[IdPair]:
    """Learn merges on whole texts, and write them as pairs of ids."""
    words = {byte_pair.to_bytes(text): 1 for text in texts if text}
    table = [chr(byte) for byte in range(256)]
    found = []
    for left, right in byte_pair.learn_merges(words, num_merges):
        if left + right not in table:  # two ways to one piece would be two ids
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
        "No pair is joined: these are the bytes. Is a slice, which is a list, compared with a "
        "pair, a tuple? They are never equal.",
        lambda text, merges: list(text.encode("utf-8")),
    ),
    Twin(
        "These are the numbers of characters, as ord gives them. An id below 256 is a byte: "
        "text.encode('utf-8').",
        lambda text, merges: [ord(character) for character in text],
    ),
    Twin(
        "The ids of joined pieces do not begin at 256: the first merge makes 256, the next 257.",
        lambda text, merges: [i + (i > 255) for i in _text_ids(text, merges)],
    ),
    Twin(
        "The ids of joined pieces do not begin at 256: the first merge makes 256, the next 257.",
        lambda text, merges: [i - 256 * (i > 255) for i in _text_ids(text, merges)],
    ),
    Twin(
        "Only one merge is done; after it the new id may be half of another pair.",
        lambda text, merges: _text_ids(text, merges[:1]),
    ),
    Twin(
        "Any known pair is joined, the leftmost first. As in part 3, the pair learned first has "
        "precedence.",
        _leftmost_ids,
    ),
    Twin(
        "Spaces at the ends are stripped. They are text too, and must come back.",
        _of_another(str.strip),
    ),
    Twin(
        "The text is split into words and put together again, so two spaces become one. Encode "
        "it as it is.",
        _of_another(lambda text: " ".join(text.split())),
    ),
    Twin(
        "The spaces are lost: the text was split into words. Encode it as it is.",
        _of_another(lambda text: "".join(text.split())),
    ),
    Twin("The text is lower-cased, and no one can undo that.", _of_another(str.lower)),
    Twin(
        "The text is normalised: e and a combining accent (NFD) became one character é (NFC). "
        "Another text comes back, though it looks the same.",
        _of_another(lambda text: unicodedata.normalize("NFC", text)),
    ),
    Twin(
        "The text is normalised: é (NFC) became e and a combining accent (NFD). Another text "
        "comes back, though it looks the same.",
        _of_another(lambda text: unicodedata.normalize("NFD", text)),
    ),
    Twin(
        "Line ends are changed: \\r\\n became \\n.",
        _of_another(lambda text: "\n".join(text.splitlines()) + "\n" * text.endswith("\n")),
    ),
    Twin(
        "Line ends are changed: \\r\\n became \\n.",
        _of_another(lambda text: text.replace("\r\n", "\n")),
    ),
    Twin(
        "An id for the end is added; wanted are the ids of the text and no more.",
        lambda text, merges: [*_text_ids(text, merges), END_ID],
    ),
    Twin(
        "Characters outside ASCII are lost. UTF-8 has bytes for each.",
        _of_another(lambda text: text.encode("ascii", "ignore").decode()),
    ),
    Twin(
        "Characters outside ASCII became question marks. UTF-8 has bytes for each.",
        _of_another(lambda text: text.encode("ascii", "replace").decode()),
    ),
)


def _bytes_of(ids: Sequence[int], merges: Sequence[IdPair]) -> bytes:
    return "".join(_symbols(merges)[index] for index in ids).encode("latin-1")


_DECODING_TWINS = (
    Twin(
        "Bytes that spell no character vanish. Show that something was there: "
        "errors='replace' writes �.",
        lambda ids, merges: _bytes_of(ids, merges).decode(errors="ignore"),
    ),
    Twin(
        "Each piece is decoded alone, and a character that two pieces share breaks. First put "
        "all bytes together, then decode once.",
        lambda ids, merges: "".join(_bytes_of([i], merges).decode(errors="replace") for i in ids),
    ),
    Twin(
        "Each piece is decoded alone, and a character that two pieces share is lost. First put "
        "all bytes together, then decode once.",
        lambda ids, merges: "".join(_bytes_of([i], merges).decode(errors="ignore") for i in ids),
    ),
    Twin(
        "Each byte became a character of its own (chr, or latin-1). In UTF-8 several bytes may "
        "spell one character.",
        lambda ids, merges: _bytes_of(ids, merges).decode("latin-1"),
    ),
    Twin(
        "Spaces at the ends are stripped. They are text too.",
        lambda ids, merges: _bytes_of(ids, merges).decode(errors="replace").strip(),
    ),
    Twin(
        "Spaces stand between the pieces. A space that belongs to the text is a byte of its own.",
        lambda ids, merges: " ".join(_bytes_of([i], merges).decode(errors="replace") for i in ids),
    ),
    Twin(
        "These are bytes; wanted is the text that they spell.",
        _bytes_of,
    ),
    Twin(
        "The text is normalised (NFC). What was encoded must come back as it was.",
        lambda ids, merges: unicodedata.normalize(
            "NFC", _bytes_of(ids, merges).decode(errors="replace")
        ),
    ),
    Twin(
        "Line ends are changed. What was encoded must come back as it was.",
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
    ([256], [], "Without merges the ids end at 255."),
    ([97, 257], [(97, 97)], "With one merge the ids end at 256."),
    (
        [97, -1],
        [(97, 97)],
        "In Python table[-1] is the last entry, so a negative id goes unnoticed.",
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
                "These bytes spell a text, but only together: a piece alone may hold half a "
                "character."
                if whole
                else "A model may write ids that spell no character. Decode with "
                "errors='replace', which writes � for them."
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
    """Refuse a candidate that does not raise `ValueError`."""

    def outcome(*given: object) -> str:
        try:
            answer = candidate(*given)  # type: ignore[operator]
        except NotImplementedError:
            raise
        except Exception as error:  # which one, is the question
            return "" if isinstance(error, ValueError) else f"raises {type(error).__name__}"
        return f"gives {show(answer)}"

    found = call(outcome, inputs)
    if found:
        raise CheckFailed(
            f"  decode_ids must raise ValueError for an id that is none; yours {found}. {why}\n"
            + describe(inputs)
        )


def _expect_back(
    encode_text: object, decode_ids: object, text: str, merges: Sequence[IdPair]
) -> None:
    """Refuse a text that does not come back exactly."""
    inputs: dict[str, object] = {"text": text, "merges": merges}
    ids = call(encode_text, inputs)
    back = call(decode_ids, {"ids": ids, "merges": merges})
    if back == text and type(back) is str:
        return
    same = isinstance(back, str) and unicodedata.normalize("NFC", back) == unicodedata.normalize(
        "NFC", text
    )
    why = " It looks the same and is not: one of the two is normalised." if same else ""
    raise CheckFailed(
        f"  Encoded and decoded, another text comes back.{why}\n{describe(inputs)}\n"
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
    "unweighted": "each word is counted once. Its pieces occur as often as the word does.",
    "seen": "only pieces that occur are listed. Some are used up by later merges and occur nowhere "
    "any more: they are the rarest of all, and each has its place in the vocabulary.",
    "joined only": "the characters are left out; they are listed too.",
    "characters only": "only the characters are listed; each merge lists one piece more.",
    "at most": "pieces that occur exactly `fewest` times are counted; wanted are those that occur "
    "fewer times.",
    "frequent": "this is the share of the others, those that occur often enough.",
    "of the text": "this is a share of the occurrences; wanted is a share of the listed pieces.",
    "before": "a piece is counted wherever its letters stand, also inside longer pieces. It occurs "
    "where the split words hold it as a piece.",
    "count": "this is a number of pieces; divide it by the number of all listed pieces.",
    "percent": "this is in percent; return a share, between 0 and 1.",
    "special": "the four special tokens are counted; here the list is made of characters and "
    "joined pieces.",
    "twice": "a character is listed once for each time that it stands in a word. The vocabulary "
    "lists each once: a set.",
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
    "test": "the size was chosen on the test sentences. They must not take part in any choice, or "
    "the result says little about sentences that come later.",
    "training": "the size was chosen on the training sentences, whose words the merges know. How "
    "new sentences fare, only others can say: those for validation.",
    "validation reported": "the size is right; the pieces a word are those of the validation "
    "sentences, which helped to choose it. Report those of the test sentences.",
    "training reported": "the size is right; the pieces a word are those of the training "
    "sentences. Report those of the test sentences.",
    "mean": "sentences are averaged, the short ones counting as much as the long. Count over the "
    "whole corpus: all its pieces divided by all its words.",
    "mean reported": "the size is right; the pieces a word are averaged over sentences. Divide all "
    "pieces by all words.",
    "first listed": "this is the first of the sizes that keeps to the limit; they are in no order. "
    "Wanted is the smallest.",
    "largest": "this is the largest size. Wanted is the smallest that keeps to the limit: merges "
    "beyond it make rare pieces.",
    "nearest": "this size comes nearest to the limit, and is beyond it. Wanted is the smallest "
    "that keeps to it.",
    "below": "a size that meets the limit exactly keeps to it: at most, <=.",
    "distinct words": "each distinct word is counted once. A word counts as often as it occurs.",
    "learned from all": "the merges were learned from other counts. Learn from the training "
    "sentences only (the validation sentences are to be new), and count each word as often as it "
    "occurs there.",
}


@_parts.part("vocabulary size", "rare_share", "choose_size")
def vocabulary_size(rare_share: object, choose_size: object, thorough: bool = False) -> None:
    """Check the share of rare pieces, and the choice of a number of merges."""
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
    why = "this is not the share of rare pieces."
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
        f"  choose_size: size {expected[0]} keeps to the limit: all pieces of the validation "
        "sentences, divided by all their words."
    )
    try:
        answer = call_twice(choose_size, inputs)
    except CheckFailed as failed:
        if "raises ValueError: min()" not in str(failed):  # of no size at all
            raise
        raise CheckFailed(f"{fits}\n{failed}") from None
    if answer is None:
        raise CheckFailed(f"{fits} You return None.\n{describe(inputs)}")
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
    why = "neither the choice nor one of the usual mistakes leads to this answer."
    named = [name for wrong, name in mistakes.items() if close(wrong)]
    if named:
        why = _CHOICE_MISTAKES[named[0]]
    elif numbers[1] == expected[0] and abs(numbers[0] - expected[1]) < 1e-3:
        why = "the two stand in the wrong order: first the size, then the pieces a word."
    elif numbers[0] not in inputs["sizes"]:
        why = (
            "the first result is none of the sizes to choose from. A size is a number of merges; "
            "the sizes are the fourth argument and differ from call to call."
        )
    elif numbers[0] == expected[0]:
        why = "the size is right, the pieces a word on the test sentences are not."
    raise CheckFailed(
        f"  choose_size: {why}\n{describe(inputs)}\n"
        f"  got         size {numbers[0]:.4g}, {numbers[1]:.4g} pieces a word\n"
        f"  expected    size {expected[0]}, {expected[1]:.4g} pieces a word"
    )


# Part 6


class _Reading:
    """What a candidate tokenizer does with texts, and what the package's merges do with words."""

    def __init__(self, candidate: object, sentences: Sequence[str], num_merges: int) -> None:
        self.inputs: dict[str, object] = {"sentences": list(sentences), "num_merges": num_merges}
        self.tokenizer: Any = call(candidate, self.inputs)
        for method in ("encode", "decode"):
            if not callable(getattr(self.tokenizer, method, None)):
                raise CheckFailed(
                    "  Pass a class that has the methods encode and decode: MendedTokenizer, "
                    "without ()."
                )
        words = Counter(f"▁{word}" for sentence in sentences for word in sentence.split())
        self.merges = byte_pair.learn_merges(words, num_merges)

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, if they are whole numbers and the last is that of the end."""
        answer = call_twice(self._encode, {"text": text})
        numbers = [plain_number(i) for i in answer] if isinstance(answer, list | tuple) else [None]
        if any(type(number) is not int for number in numbers):
            raise self.failed("encode: expected a list of ids, whole numbers.", text, answer)
        ids = [number for number in numbers if isinstance(number, int)]
        if ids[-1:] != [END_ID]:
            raise self.failed(f"encode: the last id must be END_ID, {END_ID}.", text, ids)
        return ids

    def _encode(self, text: str) -> object:
        return self.tokenizer.encode(text)

    def back(self, ids: Sequence[int]) -> object:
        return call(lambda ids: self.tokenizer.decode(ids), {"ids": list(ids)})

    def pieces(self, ids: Sequence[int]) -> list[object]:
        """Return what each id adds to the decoded text, marks and that of the end left out."""
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
        why = "these are not the pieces to which the merges lead."
        unmarked = byte_pair.learn_merges(Counter(text.split()), num_merges)
        if got == _cut(words, sorted(reading.merges)):
            why = (
                "the merges are not done in the order in which they were learned. A set "
                "forgets it, and sorting puts the alphabet's in its place."
            )
        elif got == _cut(words, unmarked, mark=""):
            why = (
                "the word is cut as if it had no beginning. Put ▁ before each word, when the "
                "merges are learned and when a text is encoded."
            )
        elif got == _cut(words, reading.merges, mark=""):
            why = (
                "the merges begin words with ▁, and the word that is encoded has none. Put it "
                "before each word there, too."
            )
        elif got[word][:1] in ([""], [UNK]) and expected[word][0]:
            why = (
                "▁ stays a piece of its own, listed or not: it was not there when the merges "
                "were learned. Put it before each word then, too."
            )
        elif got[word] == [word]:
            why = "the word was looked up whole. Pieces come from merges, in their order."
        why += " (Pieces are shown as decode writes them, without ▁.)"
        raise reading.failed(f"Pieces: {why}", word, got[word], expected[word])


def _cut(words: Sequence[str], merges: Sequence[Pair], mark: str = "▁") -> dict[str, list[str]]:
    """Return the pieces of each word, without the mark of its beginning."""
    return {
        word: [piece.removeprefix("▁") for piece in byte_pair.merge_word(mark + word, merges)]
        for word in words
    }


def _examine_capitals(candidate: object, thorough: bool) -> None:
    reading = _Reading(candidate, _APART, 12)
    for lower, upper in [("the", "The"), ("cat", "Cat")]:
        if reading.ids(lower) == reading.ids(upper):
            raise reading.failed(
                f"Capitals: “{lower}” and “{upper}” get the same ids, so no decoder can tell them "
                "apart. Leave capitals as they are.",
                upper,
                reading.ids(upper),
            )


def _examine_boundaries(candidate: object, thorough: bool) -> None:
    reading = _Reading(candidate, _APART, 12)
    for text in ("a part", "apart", "the cats", "cat a", *_APART[: 3 if thorough else 1]):
        ids = reading.ids(text)
        together = text.replace(" ", "")
        if together != text and ids == reading.ids(together):
            raise reading.failed(
                f"Boundaries: “{text}” and “{together}” get the same ids: where a word begins is "
                "lost. Put ▁ before each word.",
                text,
                ids,
            )
        got = reading.back(ids)
        if got == text:
            continue
        why = "another text comes back."
        if isinstance(got, str) and got.replace(" ", "") == together:
            why = "spaces are lost."
            if got.strip() == text:
                why = "a space stands before or after the text. That of the first ▁ goes."
            elif got.count(" ") > text.count(" "):
                why = "a space stands between the pieces of a word. Only ▁ becomes a space."
        elif isinstance(got, str) and "▁" in got:
            why = "the mark ▁ is left in the text. It becomes a space."
        elif isinstance(got, str) and any(special in got for special in SPECIAL_TOKENS):
            why = "decode leaves out the ids of <pad>, <start> and <end>."
        raise reading.failed(f"Boundaries: {why}", text, got, text)


def _examine_spelled_out(candidate: object, thorough: bool) -> None:
    sentences = [*_APART, "pad or end or start or unk"]
    reading = _Reading(candidate, sentences, 5)
    specials = SPECIAL_TOKENS if thorough else SPECIAL_TOKENS[::-1][:2]
    for special in specials:
        for text in (special, f"the {special} cat"):
            ids = reading.ids(text)
            if set(ids[:-1]) & {*range(len(SPECIAL_TOKENS))}:
                raise reading.failed(
                    f"Special tokens: {special} spelled out in a text is text, and here it became "
                    "the special token: whoever writes it could end a sentence. All its "
                    "characters are listed, so it can be spelled.",
                    text,
                    ids,
                )
            if (got := reading.back(ids)) != text:
                raise reading.failed("Special tokens: another text comes back.", text, got, text)
    ids = [*reading.ids("the cat"), 0, 0]
    if (got := reading.back([2, *ids])) != "the cat":
        raise reading.failed(
            "Special tokens: decode leaves out the ids of <pad>, <start> and <end>.",
            f"the ids {[2, *ids]}",
            got,
            "the cat",
        )
    for special in specials:  # It occurs so often that the merges make one piece of it.
        reading = _Reading(candidate, [f"a{special} b{special} c{special}"], len(special) - 1)
        ids = reading.ids(text := f"a{special}")
        if set(ids[:-1]) & {*range(len(SPECIAL_TOKENS))}:
            raise reading.failed(
                f"Special tokens: here the merges lead to the piece {special}. It is text, and it "
                "got the id of the special token of the same name: it needs one of its own.",
                text,
                ids,
            )
        if (got := reading.back(ids)) != text:
            raise reading.failed(
                f"Special tokens: here the merges lead to the piece {special}, which is text. "
                "decode leaves out the ids of special tokens, not what is spelled as they are.",
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
        why = f"{unknown} of the characters are not listed, but UNK_ID stands there {found} times."
        if not found:
            why = "a character that is not listed vanishes. It gets UNK_ID, so that a hole shows."
        elif found < unknown:
            why = "two characters that are not listed became one. Each gets UNK_ID."
        elif not unknown:
            why = "all characters are listed, and yet there is UNK_ID."
        raise reading.failed(f"Unknown: {why}", text, ids)
    ids = reading.ids("cät")
    if (got := reading.back(ids)) == "ct":
        why = "decode leaves UNK_ID out, and nobody sees that something was there."
        raise reading.failed(f"Unknown: {why}", "cät", got)


def _examine_all(candidate: object, thorough: bool) -> None:
    corpora = [(_APART, 0), (_APART, 12)]
    if thorough:
        corpora.append(([pair.src_text for pair in toy.load("test", 50)], 50))
    for sentences, num_merges in corpora:
        reading = _Reading(candidate, sentences, num_merges)
        for text in (*sentences, ""):
            if (got := reading.back(reading.ids(text))) != text:
                raise reading.failed("Round trip: another text comes back.", text, got, text)


_SYMPTOMS = {
    "pieces": _examine_order,
    "capitals": _examine_capitals,
    "boundaries": _examine_boundaries,
    "special tokens": _examine_spelled_out,
    "unknown characters": _examine_unknown,
    "round trip": _examine_all,
}


@_parts.part("bug hunt", "MendedTokenizer")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the mended tokenizer, one symptom after the other."""
    in_turn(_SYMPTOMS, candidate, thorough)
