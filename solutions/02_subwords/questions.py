"""Subwords as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Part 6,
and invalid ids in part 4, are examined by code in `attentively.checks.subwords`.
"""

import re  # noqa: F401  for the edits
import statistics  # noqa: F401  for the edits
import unicodedata  # noqa: F401  for the edits
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, pairwise  # noqa: F401  for the edits
from typing import Any

from attentively import byte_pair
from attentively.checks import subwords as checks
from attentively.checks.edits import edited
from attentively.checks.question import Case, Question, cases_of
from attentively.data import toy
from attentively.vocabulary import END_ID, PAD_ID, SPECIAL_TOKENS, START_ID, UNK_ID

# Part 1


def count_pairs(words):
    counts = Counter()
    for pieces, count in words:
        for pair in pairwise(pieces):
            counts[pair] += count
    return counts


def merge_pair(pieces, pair):
    merged = []
    i = 0
    while i < len(pieces):
        if tuple(pieces[i : i + 2]) == pair:
            merged.append(pieces[i] + pieces[i + 1])
            i += 2
        else:
            merged.append(pieces[i])
            i += 1
    return merged


WORDS = [
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
TO_MERGE = [
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


def toy_split() -> list[tuple[list[str], int]]:
    """Return the words of the toy language after thirty merges, with their counts."""
    return [(encode_word(word, TOY_MERGES[:30]), n) for word, n in TOY_WORDS.items()]


def count_cases(thorough: bool) -> Iterator[Case]:
    split = toy_split() if thorough else []
    asked = [*WORDS, *[split[:40], split[40:]] * thorough]
    return cases_of(("words",), ((words,) for words in asked))


def merge_cases(thorough: bool) -> Iterator[Case]:
    asked = [*TO_MERGE]
    if thorough:
        asked += [([*"aaaaa"], ("a", "a")), ([*"aabaaab"], ("a", "a"))]
        pairs = [(pieces, pair) for pieces, _ in toy_split() for pair in TOY_MERGES[30:60]]
        asked += [each for each in pairs if each[1] in pairwise(each[0])]
    return cases_of(("pieces", "pair"), asked)


def skipping(pieces):
    """Yield the pairs; after two equal subwords, continue behind both."""
    i = 0
    while i + 1 < len(pieces):
        yield pieces[i], pieces[i + 1]
        i += 2 if pieces[i] == pieces[i + 1] else 1


ADD = "+= count"
PAIRS = "pairwise(pieces)"
EACH_WORD = "in words:"
SAME = "tuple(pieces[i : i + 2]) == pair"
MERGED = "merged.append(pieces[i] + pieces[i + 1])"
RESULT = "return merged"
STEP = "i += 2"

EACH_WORD_ONCE = f"{ADD} -> += 1"
ACROSS_WORDS = [
    f"{EACH_WORD} -> in [([p for pieces, _ in words for p in pieces], 1)]:",
    f"{EACH_WORD} -> in [([p for pieces, n in words for p in [*pieces] * n], 1)]:",
]
ONCE_A_WORD = f"{PAIRS} -> dict.fromkeys({PAIRS})"
WITHOUT_OVERLAPS = [
    f"{PAIRS} -> [p for p in dict.fromkeys({PAIRS}) "
    "for _ in range(len(pieces) - len(merge_pair(pieces, p)))]",
    f"{PAIRS} -> skipping(pieces)",
]
FIRST_ONLY = f"if {SAME} -> if len(merged) == i and {SAME}"
FROM_THE_RIGHT = (
    "merged = [] -> merged, pieces, pair = [], pieces[::-1], pair[::-1]",
    f"{MERGED} -> merged.append(pieces[i + 1] + pieces[i])",
    f"{RESULT} -> return merged[::-1]",
)
RIGHT_TO_LEFT = "Pairs are merged from right to left. From left to right, a·a·a becomes aa·a."

COUNT_PAIRS = Question(
    count_pairs,
    {
        "the counts of count_pairs": "Return a dict from each pair of adjacent subwords to its "
        "count."
    },
    count_cases,
    {
        "Each word is counted once. A word with the count 3 adds 3 to the count of each of its "
        "pairs.": EACH_WORD_ONCE,
        "A pair crosses a word boundary: its left subword ends one word and its right subword "
        "starts the next. Count pairs within each word only.": ACROSS_WORDS,
        "Overlapping occurrences are missing. Count them as well: in a·a·a, the pair (a, a) "
        "occurs twice.": WITHOUT_OVERLAPS,
        "A pair that occurs several times in one word is counted once for the word. Count every "
        "occurrence.": ONCE_A_WORD,
        "The count of a pair is overwritten by each word that contains the pair. Add to the "
        "previous count.": f"{ADD} -> = count",
        "The keys are concatenated strings, so that (ab, c) and (a, bc) have one key. The key must "
        "be the pair itself, a tuple of two subwords.": "counts[pair] -> counts[pair[0] + pair[1]]",
        "(a, b) and (b, a) are counted as the same pair. A pair is a left and a right subword, in "
        "this order.": "counts[pair] -> counts[min(pair), max(pair)]",
        "Subwords that are not adjacent are counted as pairs. A pair consists of a subword and the "
        "next one.": f"{PAIRS} -> combinations(pieces, 2)",
        "Single subwords are counted. Count pairs of adjacent subwords.": f"{PAIRS} -> pieces",
        "Pairs of characters are counted instead of pairs of subwords: ab is one subword.": (
            f"{PAIRS} -> pairwise(''.join(pieces))"
        ),
    },
)

MERGE_PAIR = Question(
    merge_pair,
    {"the subwords of merge_pair": ""},
    merge_cases,
    {
        "No pair is merged: the result equals the input. If a slice, which is a list, is compared "
        "with the pair, a tuple, they are never equal.": f"{SAME} -> pieces[i : i + 2] == pair",
        "Only the first occurrence is merged. Continue to the end of the word.": FIRST_ONLY,
        "A subword is used twice. After a merge, its right subword cannot be the left subword of "
        "another pair: advance by two.": [
            f"{STEP} -> i += 1",
            f"{STEP} -> i += 1 if tuple(pieces[i + 1 : i + 3]) == pair else 2",
        ],
        RIGHT_TO_LEFT: FROM_THE_RIGHT,
        "The last subword is missing. It starts no pair, but it belongs to the word.": [
            f"{RESULT} -> return merged[:-1]",
            "while i < len(pieces): -> while i < len(pieces) - 1:",
        ],
        "A pair at the end of the word is not merged. The last subword can be the right one of a "
        "pair.": f"if {SAME} -> if i + 2 < len(pieces) and {SAME}",
        "Concatenated strings are compared: a·bc has the same characters as the pair (ab, c), but "
        "it is a different pair. Compare both subwords.": (
            f"{SAME} -> i + 1 < len(pieces) and pieces[i] + pieces[i + 1] == ''.join(pair)"
        ),
        "Characters are compared instead of subwords: ab·c does not contain the pair (b, c), "
        "although its text contains “bc”.": [
            f"{RESULT} -> return ' '.join(pieces).replace(' '.join(pair), ''.join(pair)).split()",
            f"{RESULT} -> return re.findall(re.escape(''.join(pair)) + '|.', ''.join(pieces))",
        ],
        "The reversed pair is merged as well: (b, a) is not the pair (a, b).": (
            f"{SAME} -> tuple(pieces[i : i + 2]) in (pair, pair[::-1])"
        ),
        "The result is one string. Return a list of subwords.": (
            f"{RESULT} -> return ''.join(pieces)"
        ),
        "The merged subword is added, but its two parts are still in the list. It must replace "
        "them.": f"{MERGED} -> merged.extend((*pair, ''.join(pair)))",
        "The pair is one entry, but still a tuple of two strings. Concatenate them: left + "
        "right.": f"{MERGED} -> merged.append(pair)",
    },
    in_all_cases=True,
)


# Part 2


def learn_merges(word_counts, num_merges):
    words = [(list(word), count) for word, count in word_counts.items()]
    created = sorted(set("".join(word_counts)))
    merges = []
    while len(merges) < num_merges:
        counts = count_pairs(words)
        if not counts:
            break
        order = {piece: number for number, piece in enumerate(created)}
        best = min(counts, key=lambda pair: (-counts[pair], order[pair[0]], order[pair[1]]))
        merges.append(best)
        created.append(best[0] + best[1])
        words = [(merge_pair(pieces, best), count) for pieces, count in words]
    return merges


TOY_WORDS = dict(sorted(checks.toy_words().items()))
TOY_MERGES = learn_merges(TOY_WORDS, 80)
CORPORA: list[tuple[dict[str, int], int]] = [
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
    ({"xab": 2, "ab": 2, "xc": 2}, 2),
    ({"ax": 2, "Bx": 2}, 2),
    ({"ab": 2, "cd": 5}, 0),
]
FURTHER_CORPORA: list[tuple[dict[str, int], int]] = [
    ({"a": 3, "b": 2}, 4),
    ({"abcabcabc": 1, "cab": 2, "bca": 1}, 6),
    ({"été": 2, "étés": 1, "tête": 2}, 5),
    ({"aaaaaaa": 1, "baaa": 2}, 5),
]
NO_PAIR_LEFT = (
    "On this input every word is a single subword before num_merges is reached. If no pair is "
    "left, stop and return the merges learned so far."
)


def learning_cases(thorough: bool) -> Iterator[Case]:
    asked = [*CORPORA, (dict([*TOY_WORDS.items()][::9]), 25)]
    if thorough:
        french = Counter(word for pair in toy.load("validation", 60) for word in pair.tgt)
        asked += [*FURTHER_CORPORA, (dict([*TOY_WORDS.items()][::5]), 25), (dict(french), 40)]
    for word_counts, num_merges in asked:
        ends = len(learn_merges(word_counts, num_merges)) < num_merges
        note = NO_PAIR_LEFT if ends else ""
        yield Case({"word_counts": word_counts, "num_merges": num_merges}, note=note)


COUNTED = "count_pairs(words)"
KEY = "(-counts[pair], order[pair[0]], order[pair[1]])"
CREATED = 'sorted(set("".join(word_counts)))'
JOIN = "merge_pair(pieces, best)"
COUNT_ACROSS, COUNT_ACROSS_REPEATED = (edited(count_pairs, edit) for edit in ACROSS_WORDS)
COUNT_APART, COUNT_SKIPPING = (edited(count_pairs, edit) for edit in WITHOUT_OVERLAPS)
COUNT_EACH_WORD_ONCE = edited(count_pairs, EACH_WORD_ONCE)
COUNT_ONCE_A_WORD = edited(count_pairs, ONCE_A_WORD)
MERGE_FIRST = edited(merge_pair, FIRST_ONLY)
MERGE_FROM_THE_RIGHT = edited(merge_pair, FROM_THE_RIGHT)
TIE = checks.TIE

LEARN_MERGES = Question(
    learn_merges,
    {"the merges of learn_merges": ""},
    learning_cases,
    {
        "The merges are concatenated strings. Return the pairs, (left, right): “abc” does not show "
        "whether ab·c or a·bc was merged.": "merges.append(best) -> merges.append(''.join(best))",
        "Each word is counted once. Add the count of the word to the count of each of its "
        "pairs.": f"{COUNTED} -> COUNT_EACH_WORD_ONCE(words)",
        f"In a tie, the pair that is counted first is merged. {TIE}": f"{KEY} -> -counts[pair]",
        f"In a tie, the pair that is counted last is merged. {TIE}": (
            f"min(counts, key=lambda pair: {KEY}) -> min([*counts][::-1], key=lambda p: -counts[p])"
        ),
        f"In a tie, the pair whose subwords were created last is merged. {TIE}": (
            f"{KEY} -> (-counts[pair], -order[pair[0]], -order[pair[1]])"
        ),
        f"In a tie, only the left subwords are compared. {TIE}": (
            f"{KEY} -> (-counts[pair], order[pair[0]])"
        ),
        f"In a tie, the right subwords are compared first. {TIE}": (
            f"{KEY} -> (-counts[pair], order[pair[1]], order[pair[0]])"
        ),
        "In a tie, pairs are ordered by the length of their subwords, then alphabetically. "
        f"{TIE}": f"{KEY} -> (-counts[pair], [(len(piece), piece) for piece in pair])",
        f"In a tie, pairs are ordered alphabetically, so that “ab” comes before “b”. {TIE}": (
            f"{KEY} -> (-counts[pair], pair)"
        ),
        f"In a tie, the right subwords are ordered alphabetically. {TIE}": (
            f"{KEY} -> (-counts[pair], order[pair[0]], pair[1])"
        ),
        f"In a tie, pairs are ordered alphabetically in reverse. {TIE}": (
            f"min(counts, key=lambda pair: {KEY}) -> max(counts, key=lambda p: (counts[p], p))"
        ),
        f"In a tie, characters are ordered by their first occurrence in the words. {TIE}": (
            f"{CREATED} -> list(dict.fromkeys(''.join(word_counts)))"
        ),
        f"In a tie, capital letters are ordered like small ones. {TIE}": (
            f"{CREATED} -> sorted(set(''.join(word_counts)), key=str.lower)"
        ),
        "Words are converted to lower case. A capital letter is a different character.": (
            "[(list(word), count) -> [(list(word.lower()), count)",
            f"{CREATED} -> sorted(set(''.join(word_counts).lower()))",
        ),
        "Pairs across word boundaries are counted. Count pairs within each word only.": [
            f"{COUNTED} -> COUNT_ACROSS(words)",
            f"{COUNTED} -> COUNT_ACROSS_REPEATED(words)",
        ],
        "All merges are chosen by the counts of the first step. A merge creates new pairs and "
        "removes others: apply it to all words and count again.": (
            f"{COUNTED} -> counts if merges else {COUNTED}\n"
            "        counts = {pair: n for pair, n in counts.items() if pair not in merges}"
        ),
        "Overlapping occurrences are counted once. In a·a·a the pair (a, a) occurs twice, and the "
        "library counts both occurrences.": [
            f"{COUNTED} -> COUNT_APART(words)",
            f"{COUNTED} -> COUNT_SKIPPING(words)",
        ],
        "A pair that occurs several times in one word is counted once for the word. Count every "
        "occurrence.": f"{COUNTED} -> COUNT_ONCE_A_WORD(words)",
        "In a word that contains the pair twice, only the first occurrence is merged.": (
            f"{JOIN} -> MERGE_FIRST(pieces, best)"
        ),
        "Pairs with the count 1 are left out. Continue until there are num_merges merges or no "
        "pair is left.": "if not counts -> if max(counts.values(), default=0) < 2",
        RIGHT_TO_LEFT: f"{JOIN} -> MERGE_FROM_THE_RIGHT(pieces, best)",
        "There is one merge more than num_merges.": "< num_merges -> < num_merges + 1",
        "There is one merge fewer than num_merges, although a pair is left.": (
            "< num_merges -> < num_merges - 1"
        ),
        "A mark for the end is added to each word. Here a word consists of its characters only.": (
            "[(list(word), count) -> [([*word, '</w>'], count)",
            f"{CREATED} -> sorted({{*''.join(word_counts), '</w>'}})",
        ),
        "The counts are not used. The most frequent pair is merged first; the order in which "
        "subwords were created matters only in a tie.": "-counts[pair], -> ",
        "The least frequent pair is merged first. Merge the most frequent pair.": (
            "-counts[pair], -> counts[pair],"
        ),
    },
    in_all_cases=True,
)


# Part 3


def encode_word(word, merges):
    rank = {pair: index for index, pair in enumerate(merges)}
    pieces = list(word)
    while known := [pair for pair in pairwise(pieces) if pair in rank]:
        best = min(known, key=rank.get)
        pieces = merge_pair(pieces, best)
    return pieces


TO_ENCODE = [
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
    ("▁ab", [("▁", "a"), ("▁a", "b")]),
]


def encoding_cases(thorough: bool) -> Iterator[Case]:
    words = ["the", "cat", "queen", "strongest", "hippo", "drinks", "théâtre"]
    if thorough:
        words += [*[*TOY_WORDS][::23], "zzz", "été", "unbelievable", "milkmilk", "thethe"]
    asked = [*TO_ENCODE, *((word, TOY_MERGES) for word in words)]
    return cases_of(("word", "merges"), asked)


def longest_match(word, merges):
    listed = {*word, *("".join(pair) for pair in merges)}
    pieces = []
    while word:
        end = next(end for end in range(len(word), 0, -1) if word[:end] in listed)
        pieces.append(word[:end])
        word = word[end:]
    return pieces


def once_from_left_to_right(word, merges):
    pieces = []
    for character in word:
        if pieces and (pieces[-1], character) in merges:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


KNOWN = "while known := [pair for pair in pairwise(pieces) if pair in rank]:"
BEST = "best = min(known, key=rank.get)"
CHARACTERS = "list(word)"
PIECES = "return pieces"
IN_MERGES = "''.join(map(''.join, merges))"
BY_RANK = (
    "Merge the pair that was learned first, wherever it occurs in the word, and repeat until no "
    "merge applies."
)

ENCODE_WORD = Question(
    encode_word,
    {"the subwords of encode_word": ""},
    encoding_cases,
    {
        f"The leftmost pair with a merge is merged first, whatever its rank. {BY_RANK}": [
            (f"{BEST} -> best = known[0]", f"{JOIN} -> MERGE_FIRST(pieces, best)"),
            f"{BEST} -> best = known[0]",
        ],
        "No pair is merged: the result is the characters.": f"{PIECES} -> return list(word)",
        "Only one merge is applied. Repeat: the new subword may be part of another pair.": (
            "while known -> if known"
        ),
        "In a word that contains a pair twice, only the first occurrence is merged.": (
            f"{KNOWN} -> for best in merges:",
            f"{BEST} -> pass",
            f"{JOIN} -> MERGE_FIRST(pieces, best)",
        ),
        "Two subwords are merged because their concatenation is in the vocabulary, but this pair "
        "is not a merge: (ab, c) is not (a, bc).": (
            "{pair: index -> {''.join(pair): index",
            "if pair in rank -> if ''.join(pair) in rank",
            "key=rank.get -> key=lambda pair: rank[''.join(pair)]",
        ),
        "The word is split by longest match, as in WordPiece, which is another algorithm. "
        f"{BY_RANK}": longest_match,
        f"The word is processed once from left to right, whatever the ranks. {BY_RANK}": (
            once_from_left_to_right
        ),
        f"Merges are applied in reverse order, the last learned first. {BY_RANK}": [
            "enumerate(merges) -> enumerate(merges[::-1])",
            (f"{KNOWN} -> for best in merges[::-1]:", f"{BEST} -> pass"),
        ],
        RIGHT_TO_LEFT: f"{JOIN} -> MERGE_FROM_THE_RIGHT(pieces, best)",
        "The word is converted to lower case. A capital letter is a different character.": (
            f"{CHARACTERS} -> list(word.lower())"
        ),
        "A character that is in no merge is missing. It must remain as a subword of its own.": (
            f"{CHARACTERS} -> [c for c in word if c in {IN_MERGES}]"
        ),
        "A character that is in no merge is replaced by <unk>. encode_word returns it unchanged; "
        "only piece_ids replaces unknown subwords.": (
            f"{PIECES} -> return [p if p[0] in {IN_MERGES} else '<unk>' for p in pieces]"
        ),
    },
    in_all_cases=True,
)


def piece_ids(words, merges, ids, unknown_id):
    return [ids.get(piece, unknown_id) for word in words for piece in encode_word(word, merges)]


def id_cases(thorough: bool) -> Iterator[Case]:
    ids = {"a": 0, "b": 5, "ab": 6, "c": 7, "<end>": 3}
    lists = ["ab c", "abc ab", "axb", "xa b", "b ab b", "ab  ?", "<end>"]
    for words in [*(each.split(" ") for each in lists), []]:
        yield Case({"words": words, "merges": [("a", "b")], "ids": ids, "unknown_id": 9})


INDEX = "ids.get(piece, unknown_id)"
EACH = "for word in words"
SPLIT = "encode_word(word, merges)"

PIECE_IDS = Question(
    piece_ids,
    {"the ids of piece_ids": ""},
    id_cases,
    {
        "A subword that is not in `ids` is omitted. It must receive unknown_id, so that the model "
        "sees that there is a subword.": f"{SPLIT} -> {SPLIT} if piece in ids",
        "The whole word receives unknown_id because one of its subwords is unknown. Only this "
        "subword must receive it.": (
            f"{SPLIT} -> ([None] if {{*{SPLIT}}} - {{*ids}} else {SPLIT})"
        ),
        "A word is looked up as a whole before it is split into subwords. Therefore the text <end> "
        "receives the id of the special token. Split every word.": (
            f"{SPLIT} -> ([word] if word in ids else {SPLIT})"
        ),
        "Whole words are looked up. Split each word into subwords first.": f"{SPLIT} -> [word]",
        "The id 0 is treated as missing, as in `ids.get(piece) or unknown_id`. Use "
        "ids.get(piece, unknown_id).": f"{INDEX} -> (ids.get(piece) or unknown_id)",
        "▁ is added to the words. They already have ▁ where it is needed.": (
            f"{SPLIT} -> encode_word('▁' + word, merges)"
        ),
        "The words are joined with spaces before they are split. A space is not a subword here.": (
            f"{EACH} -> for word in [' '.join(words)]"
        ),
        "The result has one list for each word. Return one flat list of ids for all words.": (
            f"{INDEX} {EACH} for piece in {SPLIT} -> [{INDEX} for piece in {SPLIT}] {EACH}"
        ),
        "These are subwords. Return their ids.": f"{INDEX} -> piece",
        "An unknown subword receives an id other than unknown_id, the last argument.": [
            f"{INDEX} -> ids.get(piece, 0)",
            f"{INDEX} -> ids.get(piece, UNK_ID)",
        ],
        "The words are concatenated before they are split, so that a subword crosses a word "
        "boundary.": f"{EACH} -> for word in [''.join(words)]",
        "Each id occurs once. A subword that occurs twice must have its id twice.": [
            (f"return [{INDEX} -> return [*dict.fromkeys([{INDEX}", f"{SPLIT} -> {SPLIT}])"),
            f"{EACH} -> for word in dict.fromkeys(words)",
        ],
        "The id of <end> is appended. piece_ids returns the ids of the subwords only.": (
            "return [ -> return [*[",
            f"{SPLIT} -> {SPLIT}], END_ID",
        ),
    },
)


# Part 4


def encode_text(text, merges):
    ids = list(text.encode("utf-8"))
    new_ids = {pair: 256 + index for index, pair in enumerate(merges)}
    while known := [pair for pair in pairwise(ids) if pair in new_ids]:
        best = min(known, key=new_ids.get)
        i = 0
        while i + 1 < len(ids):
            if (ids[i], ids[i + 1]) == best:
                ids[i : i + 2] = [new_ids[best]]
            i += 1
    return ids


def decode_ids(ids, merges):
    table = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        table.append(table[left] + table[right])
    for index in ids:
        if not 0 <= index < len(table):
            raise ValueError(f"id {index} is outside a vocabulary of {len(table)}")
    data = b"".join(table[index] for index in ids)
    return data.decode("utf-8", errors="replace")


TEXTS = (
    "ab",
    "é",
    " a  b ",
    "Ab",
    "e\u0301",
    "a\r\nb\n\tc\n",
    "",
    "The  cat, the Cat,\tdrank ½ l of milk. ",
    "Où est l’été ? E\u0301te\u0301 !",
    "بلی نے دودھ پیا\u200c۔",
    "\ufeff🐈‍⬛ + 🥛 = 🙂🏽🙂🏽",
    "<pad> <end> ▁ � \x00 ﬁ Å",
)


def byte_merges(texts: tuple[str, ...], num_merges: int) -> list[tuple[int, int]]:
    """Learn merges on whole texts, and return them as pairs of ids."""
    words = {byte_pair.to_bytes(text): 1 for text in texts if text}
    table = [chr(byte) for byte in range(256)]
    found = []
    for left, right in learn_merges(words, num_merges):
        if left + right not in table:  # otherwise one subword would have two ids
            found.append((table.index(left), table.index(right)))
            table.append(left + right)
    return found


TEXT_MERGES = byte_merges((*TEXTS, *checks.SENTENCES), 60)
TO_IDS: list[tuple[str, list[tuple[int, int]]]] = [
    *((text, []) for text in TEXTS[:7]),
    ("aab", [(97, 97)]),
    ("aab", [(97, 97), (256, 98)]),
    ("abc", [(98, 99), (97, 98)]),
    ("aaa", [(97, 97)]),
    ("aaaaa", [(97, 97), (256, 256)]),
    ("a b a b", [(97, 32), (256, 98)]),
    ("éè", [(169, 195)]),
    *((text, TEXT_MERGES) for text in TEXTS),
]
TO_TEXT: list[tuple[list[int], list[tuple[int, int]]]] = [
    ([97, 98], []),
    ([32, 97, 32, 32], []),
    ([256, 98], [(97, 97)]),
    ([257], [(97, 97), (256, 98)]),
    ([195, 169], []),
    ([195, 256, 168], [(169, 195)]),
    ([97, 195], []),
    ([240, 159, 98], []),
    ([101, 204, 129, 13, 10], []),
    ([239, 187, 191, 97], []),
    ([], []),
]
CONCATENATE_FIRST = (
    "All bytes together are valid UTF-8, but a single id can contain part of a character. "
    "Concatenate all bytes first, then decode once."
)
INVALID_BYTES = (
    "A model can output ids whose bytes are not valid UTF-8. Decode with errors='replace', which "
    "returns � for invalid bytes."
)


def texts_of(thorough: bool) -> list[str]:
    return [*(a + b for a, b in pairwise(TEXTS)), "".join(TEXTS) * 2] if thorough else []


def text_cases(thorough: bool) -> Iterator[Case]:
    further = [(text, merges) for text in texts_of(thorough) for merges in ([], TEXT_MERGES)]
    return cases_of(("text", "merges"), [*TO_IDS, *further])


def decoding_cases(thorough: bool) -> Iterator[Case]:
    for ids, merges in TO_TEXT:
        text = decode_ids(ids, merges)
        note = INVALID_BYTES if "�" in text else CONCATENATE_FIRST * (not text.isascii())
        yield Case({"ids": ids, "merges": merges}, note=note)
    texts = [*TEXTS, *texts_of(thorough)]
    whole = [(encode_text(text, m), m) for text in texts for m in ([], TEXT_MERGES)]
    yield from cases_of(("ids", "merges"), whole)


BYTES = 'text.encode("utf-8")'
IDS = "return ids"
LOWEST = "min(known, key=new_ids.get)"
DECODED = 'return data.decode("utf-8", errors="replace")'
NEW_IDS = (
    "The ids of merged pairs do not start at 256. The first merge creates id 256, the second 257."
)
LINE_ENDS = "Line ends are changed: \\r\\n becomes \\n. Encode the text unchanged."


def of_text(changed: str) -> str:
    """Return the edit with which another text is encoded."""
    return f"{BYTES} -> ({changed}).encode()"


ENCODE_TEXT = Question(
    encode_text,
    {"the ids of encode_text": ""},
    text_cases,
    {
        "No pair is merged: the ids are the bytes. If a slice, which is a list, is compared with a "
        "pair, a tuple, they are never equal.": f"{IDS} -> return list({BYTES})",
        "The ids are the code points of the characters, as returned by ord. An id below 256 must "
        "be a byte of text.encode('utf-8').": f"{BYTES} -> map(ord, text)",
        NEW_IDS: [
            f"{IDS} -> return [i + (i > 255) for i in ids]",
            f"{IDS} -> return [i - 256 * (i > 255) for i in ids]",
        ],
        "Only one merge is applied. Repeat: the new id may be part of another pair.": (
            "while known -> if known"
        ),
        "The leftmost pair with a merge is merged first. As in part 3, the pair that was learned "
        "first must be merged first.": [
            (f"{LOWEST} -> known[0]", "[new_ids[best]] -> [new_ids[best]]; break"),
            f"{LOWEST} -> known[0]",
        ],
        "Pairs are merged from right to left. From left to right, 97·97·97 becomes 256·97 if "
        "(97, 97) is the first merge.": (
            "i = 0 -> i = len(ids) - 2",
            "while i + 1 < len(ids) -> while i >= 0",
            "i += 1 -> i -= 1",
        ),
        "White space at the start and at the end is removed. It is part of the text and must be "
        "restored.": of_text("text.strip()"),
        "The text is split into words and joined again, so that two spaces become one. Encode the "
        "text unchanged.": of_text("' '.join(text.split())"),
        "The spaces are missing, because the text is split into words. Encode the text "
        "unchanged.": of_text("''.join(text.split())"),
        "The text is converted to lower case, which cannot be undone.": of_text("text.lower()"),
        "The text is normalised to NFC: e and a combining accent become the one character é. The "
        "restored text looks the same, but it is different.": (
            of_text("unicodedata.normalize('NFC', text)")
        ),
        "The text is normalised to NFD: é becomes e and a combining accent. The restored text "
        "looks the same, but it is different.": of_text("unicodedata.normalize('NFD', text)"),
        LINE_ENDS: [
            of_text(r"'\n'.join(text.splitlines()) + '\n' * text.endswith('\n')"),
            of_text(r"text.replace('\r\n', '\n')"),
        ],
        "The id of <end> is appended. Return the ids of the text only.": (
            f"{IDS} -> return [*ids, END_ID]"
        ),
        "Characters outside ASCII are missing. UTF-8 has bytes for every character.": (
            f"{BYTES} -> text.encode('ascii', 'ignore')"
        ),
        "Characters outside ASCII become question marks. UTF-8 has bytes for every character.": (
            f"{BYTES} -> text.encode('ascii', 'replace')"
        ),
    },
)

DECODE_IDS = Question(
    decode_ids,
    {"the text of decode_ids": ""},
    decoding_cases,
    {
        "Invalid bytes are omitted. They must become �, as with errors='replace', so that the "
        "error is visible.": 'errors="replace" -> errors="ignore"',
        "Each id is decoded separately, so that a character whose bytes are in two ids becomes �. "
        "Concatenate all bytes first, then decode once.": (
            f'{DECODED} -> return "".join(table[index].decode(errors="replace") for index in ids)'
        ),
        "Each id is decoded separately, so that a character whose bytes are in two ids is missing. "
        "Concatenate all bytes first, then decode once.": (
            f'{DECODED} -> return "".join(table[index].decode(errors="ignore") for index in ids)'
        ),
        "Each byte is decoded as a character (chr, or latin-1). In UTF-8, one character can have "
        "several bytes.": f'{DECODED} -> return data.decode("latin-1")',
        "White space at the start and at the end is removed. It is part of the text.": (
            f"{DECODED} -> {DECODED}.strip()"
        ),
        "There are additional spaces between the subwords. A space of the text is a byte of its "
        "own.": (
            f'{DECODED} -> return " ".join(table[index].decode(errors="replace") for index in ids)'
        ),
        "The text is normalised to NFC. The encoded text must be restored exactly.": (
            "return data -> return unicodedata.normalize('NFC', data",
            'errors="replace") -> errors="replace"))',
        ),
        "Line ends are changed. The encoded text must be restored exactly.": (
            f"{DECODED} -> {DECODED}.replace('\\r\\n', '\\n')"
        ),
        "The character U+FEFF at the start of the text is missing. Decode as “utf-8”, without "
        "“-sig”.": '"utf-8" -> "utf-8-sig"',
    },
)


# Part 5


def rare_share(word_counts, merges, fewest):
    characters = set("".join(word_counts))
    merged = {left + right for left, right in merges}
    vocabulary = characters | merged
    occurrences = Counter()
    for word, count in word_counts.items():
        for piece in encode_word(word, merges):
            occurrences[piece] += count
    rare = sum(occurrences[piece] < fewest for piece in vocabulary)
    return rare / len(vocabulary)


SHARES: list[tuple[dict[str, int], list[tuple[str, str]], int]] = [
    ({"c": 1, "ab": 2, "cba": 4}, [("b", "a"), ("c", "ba")], 2),
    ({"a": 3, "cc": 3, "ccb": 2, "cddb": 3}, [("c", "c"), ("c", "d"), ("d", "b"), ("cd", "db")], 3),
    ({"abb": 3, "aaba": 1, "a": 4, "d": 3}, [("a", "b"), ("ab", "b")], 3),
]
FURTHER_SHARES: list[tuple[dict[str, int], list[tuple[str, str]], int]] = [
    ({"ccd": 3, "dbcc": 3, "ddd": 1, "aba": 4}, [("c", "c"), ("a", "b"), ("ab", "a")], 4),
    ({"ab": 5, "b": 1}, [], 6),
    ({"ab": 5, "b": 1}, [("a", "b")], 1),
    ({"ab": 5, "b": 1}, [("a", "b")], 100),
]


def share_cases(thorough: bool) -> Iterator[Case]:
    return cases_of(("word_counts", "merges", "fewest"), [*SHARES, *FURTHER_SHARES * thorough])


VOCABULARY = "characters | merged"
SHARE = "rare / len(vocabulary)"
RARE = "rare = sum("

RARE_SHARE = Question(
    rare_share,
    {"the share of rare subwords": ""},
    share_cases,
    {
        "each word is counted once. A subword occurs as often as the words that contain it: add "
        "the count of the word.": f"{ADD} -> += 1",
        "subwords that do not occur in the split words are missing from the vocabulary. Later "
        "merges have absorbed all their occurrences; they occur 0 times and are rare as well.": (
            f"{RARE} -> vocabulary = [*occurrences]\n    {RARE}"
        ),
        "the characters are missing from the vocabulary. It contains the characters and the merged "
        "subwords.": f"{VOCABULARY} -> merged",
        "the vocabulary contains the characters only. Each merge adds one subword.": (
            f"{VOCABULARY} -> characters"
        ),
        "subwords that occur exactly `fewest` times are counted. Count those that occur fewer "
        "times.": "< fewest -> <= fewest",
        "this is the share of the subwords that are not rare.": "< fewest -> >= fewest",
        "this is a share of the occurrences. Return a share of the vocabulary.": (
            f"{SHARE} -> sum(n for n in occurrences.values() if n < fewest) / occurrences.total()"
        ),
        "a subword is counted wherever its characters occur, also inside longer subwords. Count it "
        "only where it is a subword of a split word.": (
            f"{RARE} -> occurrences = {{p: sum(n * word.count(p) for word, n in "
            f"word_counts.items()) for p in vocabulary}}\n    {RARE}"
        ),
        "this is a number of subwords. Divide it by the size of the vocabulary.": (
            f"{SHARE} -> rare"
        ),
        "this is a percentage. Return a share between 0 and 1.": f"{SHARE} -> 100 * {SHARE}",
        "the four special tokens are in the vocabulary. Here it contains only the characters and "
        "the merged subwords.": f"{SHARE} -> (rare + 4) / (len(vocabulary) + 4)",
        "a character is in the vocabulary several times, once for each occurrence in a word. Use a "
        "set, so that it is there once.": (
            "set( -> list(",
            f"{VOCABULARY} -> [*characters, *merged]",
        ),
    },
    named=True,
)


def choose_size(train, validation, test, sizes, limit):
    def pieces_per_word(sentences, size):
        words = [word for sentence in sentences for word in sentence.split()]
        number = sum(len(encode_word(word, merges[:size])) for word in words)
        return number / len(words)

    word_counts = Counter(word for sentence in train for word in sentence.split())
    merges = learn_merges(word_counts, max(sizes))
    chosen = min(size for size in sizes if pieces_per_word(validation, size) <= limit)
    return chosen, pieces_per_word(test, chosen)


def corpus(train: str, validation: str, test: str, sizes: list[int]) -> dict[str, Any]:
    """Return the first arguments of choose_size; sentences are separated by commas."""
    texts = {"train": train, "validation": validation, "test": test}
    return {name: text.split(", ") for name, text in texts.items()} | {"sizes": sizes}


CORPUS = corpus(
    "popona po la tetana, la lala la la, nita nita popona ni, tetana la po ponala",
    "ni soni sonani, po nipo la solani, soteta",
    "ponala popona niso la tatena, nita tetana so po na la, ponala la",
    [10, 0, 8, 4, 12, 2, 6],
)
"""Made so that every plausible mistake in choosing the size leads to another answer."""
OTHER_CORPUS = corpus(
    "ni ni ni, lanila tenaso tenaso late tenaso, ni tenaso late, late teta ni ni ta",
    "nisota, tenaso ni tateni, ta napota poni so tenaso ni",
    "sotete tateta late, naso tataso ta pososo teso tenaso, teni tenaso nipola tenaso tenaso",
    [10, 12, 4, 2, 6, 0, 8],
)
CAPITALS = corpus(
    "Ni nita ni, nita Nita lani, La lani la",
    "Nita nila, Lani la",
    "Lani nita la, Ni la Nilani, Ni la Nilani",
    [5, 1, 3],
)


def choice_cases(thorough: bool) -> Iterator[Case]:
    asked = [(CORPUS, limit) for limit in (2.83, 2.6, 2.625, 12.0)] + [(CAPITALS, 2.5)]
    if thorough:
        asked += [(OTHER_CORPUS, 3.27), (CORPUS, 4.0), (CORPUS | {"sizes": [12, 8]}, 2.4)]
    for texts, limit in asked:
        yield Case(texts | {"limit": limit}, note=f"choose_size: {PER_WORD}")


PER_WORD = (
    "one of the sizes satisfies the limit. If yours finds none, divide the number of all subwords "
    "of the validation sentences by the number of all their words."
)
MEAN = (
    "the mean over sentences is used, in which short sentences count as much as long ones. Divide "
    "the number of all subwords by the number of all words."
)
LEARNED = "sentence in train for word in sentence.split()"
CHOICE = "min(size for size in sizes if pieces_per_word(validation, size) <= limit)"
ON_VALIDATION = "pieces_per_word(validation, size)"
REPORTED = "pieces_per_word(test, chosen)"
ALL_WORDS = "[word for sentence in sentences for word in sentence.split()]"
MEAN_CHOICE = (
    f"{ON_VALIDATION} -> statistics.mean(pieces_per_word([each], size) for each in validation)"
)
MEAN_REPORTED = f"{REPORTED} -> statistics.mean(pieces_per_word([each], chosen) for each in test)"
PER_SENTENCE = f"{ON_VALIDATION} * len(' '.join(validation).split()) / len(validation)"

CHOOSE_SIZE = Question(
    choose_size,
    {"the size and the subwords per word": ""},
    choice_cases,
    {
        "the size is chosen on the test sentences. Choose it on the validation sentences, so that "
        "the test result is an estimate for new sentences.": (
            f"{ON_VALIDATION} -> pieces_per_word(test, size)"
        ),
        "the size is chosen on the training sentences, from which the merges are learned. Choose "
        "it on the validation sentences, which are new.": (
            f"{ON_VALIDATION} -> pieces_per_word(train, size)"
        ),
        "the size is correct, but the subwords per word are those of the validation sentences, on "
        "which it was chosen. Report those of the test sentences.": (
            f"{REPORTED} -> pieces_per_word(validation, chosen)"
        ),
        "the size is correct, but the subwords per word are those of the training sentences. "
        "Report those of the test sentences.": f"{REPORTED} -> pieces_per_word(train, chosen)",
        MEAN: [(MEAN_CHOICE, MEAN_REPORTED), MEAN_CHOICE],
        "the size is correct, but the subwords per word are averaged over sentences. Divide the "
        "number of all subwords by the number of all words.": MEAN_REPORTED,
        "this is the first of the sizes that satisfies the limit, but the sizes are not sorted. "
        "Return the smallest one that satisfies it.": "min(size -> next(size",
        "this is the largest size. Return the smallest one that satisfies the limit; more merges "
        "only add rare subwords.": "min(size -> max(size",
        "this size is the one nearest to the limit, but it exceeds the limit. Return the smallest "
        "size that satisfies it.": (
            f"{CHOICE} -> min(sizes, key=lambda size: abs({ON_VALIDATION} - limit))"
        ),
        "a size with exactly `limit` subwords per word satisfies the limit: use <=.": (
            "<= limit -> < limit"
        ),
        "each distinct word is counted once. Count every occurrence of a word.": (
            f"{ALL_WORDS} -> {{{ALL_WORDS[1:-1]}}}"
        ),
        "the merges are learned from other counts. Learn from the training sentences only, because "
        "the validation sentences must be new, and add one for each occurrence of a word.": [
            f"Counter(word for {LEARNED}) -> Counter({{word for {LEARNED}}})",
            f"{LEARNED} -> sentence in train + validation for word in sentence.split()",
        ],
        "the words are converted to lower case. A capital letter is a different character.": (
            f"{LEARNED} -> {LEARNED.replace('split', 'lower().split')}",
            f"{ALL_WORDS} -> {ALL_WORDS.replace('split', 'lower().split')}",
        ),
        "words that do not occur in the training sentences are left out. Split every word.": (
            f"{ALL_WORDS} -> [word for word in {ALL_WORDS} if word in word_counts]"
        ),
        "the results are in the wrong order. Return the size first, then the subwords per word.": (
            f"chosen, {REPORTED} -> {REPORTED}, chosen"
        ),
        f"{PER_WORD} Your function returns None.": (
            f"{CHOICE} -> min((size for size in sizes if {PER_SENTENCE} <= limit), default=None)",
            f"return chosen, {REPORTED} -> return None if chosen is None else (chosen, {REPORTED})",
        ),
    },
    named=True,
    tidy=lambda pair: pair and (pair[0], round(pair[1], 4)),
)


# Part 6


class CorrectedTokenizer:
    def __init__(self, sentences, num_merges):
        words = Counter("▁" + word for sentence in sentences for word in sentence.split())
        self.merges = byte_pair.learn_merges(words, num_merges)
        characters = sorted({character for word in words for character in word})
        self.pieces = [*SPECIAL_TOKENS, *characters]
        self.pieces += [left + right for left, right in self.merges]
        self.ids = {piece: i for i, piece in enumerate(self.pieces) if i >= len(SPECIAL_TOKENS)}

    def encode(self, text):
        ids = []
        for word in text.split():
            for piece in byte_pair.merge_word("▁" + word, self.merges):
                ids.append(self.ids.get(piece, UNK_ID))
        return [*ids, END_ID]

    def decode(self, ids):
        silent = (PAD_ID, START_ID, END_ID)
        pieces = [self.pieces[index] for index in ids if index not in silent]
        return "".join(pieces).replace("▁", " ").strip()


PARTS = {
    "round_trip": [ENCODE_TEXT, DECODE_IDS],
    "pairs": [COUNT_PAIRS, MERGE_PAIR],
    "merges": [LEARN_MERGES],
    "encoding": [ENCODE_WORD, PIECE_IDS],
    "vocabulary_size": [RARE_SHARE, CHOOSE_SIZE],
    "bug_hunt": [Question(CorrectedTokenizer)],
}
"""The questions of each check, in the order of its arguments.

The first is not part 1, on which parts 2 and 3 depend in the notebook: the test of grading hands in
the first mistake of the first question, and only its part may lose points.
"""
