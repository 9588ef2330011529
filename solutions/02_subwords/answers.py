"""Answers to the parts of subwords, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import re
from collections import Counter, defaultdict
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from attentively import byte_pair
from attentively.checks.edits import edited, edited_source
from attentively.checks.recordings import load_questions
from attentively.vocabulary import END_ID, UNK_ID

questions = load_questions(Path(__file__).with_name("questions.py"))
merge_pair, CorrectedTokenizer = questions.merge_pair, questions.CorrectedTokenizer

# Part 1


def count_pairs_by_index(words):
    counts = {}
    for pieces, count in words:
        for i in range(len(pieces) - 1):
            pair = (pieces[i], pieces[i + 1])
            counts[pair] = counts.get(pair, np.int64(0)) + count
    return counts


def count_pairs_with_zeros(words):
    counts = defaultdict(int)
    for pieces, count in words:
        for i, right in enumerate(pieces[1:]):
            counts[pieces[i], right] += count
            counts[right, pieces[i]] += 0
    return counts


def merge_pair_by_stack(pieces, pair):
    joined, free = [], False
    for piece in pieces:
        if free and joined[-1] == pair[0] and piece == pair[1]:
            joined[-1] += piece
            free = False
        else:
            joined.append(piece)
            free = True
    return tuple(joined)


def merge_pair_by_regular_expression(pieces, pair):
    text = "\0".join(["", *pieces, ""])
    left, right = map(re.escape, pair)
    spaced = re.sub(f"(?<=\0){left}\0{right}(?=\0)", lambda _: "".join(pair), text)
    return spaced.split("\0")[1:-1]


# Part 2


def learn_merges_by_ids(word_counts, num_merges):
    """Work on numbers: the index of a subword in the list is its id, so ties need no rule."""
    listed = sorted(set("".join(word_counts)))
    words = {word: [listed.index(c) for c in word] for word in word_counts}
    merges = []
    for _ in range(num_merges):
        counts = Counter()
        for word, ids in words.items():
            for pair in pairwise(ids):
                counts[pair] += word_counts[word]
        if not counts:
            return merges
        left, right = max(counts, key=lambda pair: (counts[pair], -pair[0], -pair[1]))
        merges.append([listed[left], listed[right]])
        listed.append(listed[left] + listed[right])
        for ids in words.values():
            i = 0
            while i + 1 < len(ids):
                if ids[i : i + 2] == [left, right]:
                    ids[i : i + 2] = [len(listed) - 1]
                i += 1
    return merges


# Part 3


def encode_word_merge_by_merge(word, merges):
    return reduce(merge_pair, merges, list(word))


def encode_word_one_place_at_a_time(word, merges):
    pieces = list(word)
    while True:
        ranked = [(merges.index(p), i) for i, p in enumerate(pairwise(pieces)) if p in merges]
        if not ranked:
            return pieces
        _, i = min(ranked)
        pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]


def piece_ids_by_loops(words, merges, ids, unknown_id):
    found = []
    for word in words:
        for piece in encode_word_merge_by_merge(word, merges):
            if piece in ids:
                found.append(ids[piece])
            else:
                found.append(unknown_id)
    return tuple(found)


# Part 4


def encode_text_merge_by_merge(text, merges):
    ids = [*bytes(text, "utf-8")]
    for new_id, pair in enumerate(merges, start=256):
        joined = []
        for index in ids:
            if joined and (joined[-1], index) == pair:
                joined[-1] = new_id
            else:
                joined.append(index)
        ids = joined
    return ids


def decode_ids_by_recursion(ids, merges):
    def unfold(index):
        if index < 0 or index >= 256 + len(merges):
            raise ValueError("no such id")
        if index < 256:
            return [index]
        left, right = merges[index - 256]
        return unfold(left) + unfold(right)

    return bytes(byte for index in ids for byte in unfold(index)).decode(errors="replace")


# Part 5


def rare_share_by_sets(word_counts, merges, fewest):
    listed = set("".join(word_counts)) | {"".join(pair) for pair in merges}
    text = [p for w, n in word_counts.items() for p in byte_pair.merge_word(w, merges) * n]
    return torch.tensor(len([p for p in listed if text.count(p) < fewest]) / len(listed))


def pieces_per_word(sentences, merges):
    words = [word for sentence in sentences for word in sentence.split()]
    return np.mean([len(byte_pair.merge_word(word, merges)) for word in words])


def choose_size_by_trying(train, validation, test, sizes, limit):
    counts = Counter(word for sentence in train for word in sentence.split())
    for size in sorted(sizes):
        merges = byte_pair.learn_merges(counts, size)
        if pieces_per_word(validation, merges) <= limit:
            return [size, pieces_per_word(test, merges)]
    raise ValueError("no size satisfies the limit")


# Part 6


class CorrectedByFirstPiece:
    """Marks nothing in the text itself, but knows of each subword whether it begins a word."""

    def __init__(self, sentences, num_merges):
        counts = Counter(f"▁{word}" for word in " ".join(sentences).split())
        self.rank = {p: r for r, p in enumerate(byte_pair.learn_merges(counts, num_merges))}
        listed = dict.fromkeys(sorted(set("".join(counts))))
        listed |= dict.fromkeys(left + right for left, right in self.rank)
        self.id_of = {piece: 4 + place for place, piece in enumerate(listed)}
        self.text_of = {index: piece for piece, index in self.id_of.items()} | {UNK_ID: "<unk>"}

    def encode(self, text):
        words = [f"▁{word}" for word in text.split(" ") if word]
        pieces = [piece for word in words for piece in byte_pair.merge_word(word, self.rank)]
        return [self.id_of.get(p, UNK_ID) for p in pieces] + [END_ID]

    def decode(self, ids):
        text = ""
        for index in ids:
            piece = self.text_of.get(index, "")
            text += " " * (piece.startswith("▁") and bool(text)) + piece.removeprefix("▁")
        return text


RIGHT = {
    "count_pairs": [count_pairs_by_index, count_pairs_with_zeros],
    "merge_pair": [merge_pair_by_stack, merge_pair_by_regular_expression],
    "learn_merges": [learn_merges_by_ids],
    "encode_word": [encode_word_merge_by_merge, encode_word_one_place_at_a_time],
    "piece_ids": [piece_ids_by_loops],
    "encode_text": [encode_text_merge_by_merge],
    "decode_ids": [decode_ids_by_recursion],
    "rare_share": [rare_share_by_sets],
    "choose_size": [choose_size_by_trying],
    "CorrectedTokenizer": [
        edited(CorrectedTokenizer, ".strip() -> [1:]"),
        CorrectedByFirstPiece,
    ],
}

KEY = questions.KEY
IN_TRAINING = 'Counter("▁" + word -> Counter(word'
IN_ENCODING = 'merge_word("▁" + word -> merge_word(word'
LEARN = "byte_pair.learn_merges(words, num_merges)"
SPLIT = 'byte_pair.merge_word("▁" + word, self.merges)'
INDEX = "self.ids.get(piece, UNK_ID)"
FROM_FOUR = " if i >= len(SPECIAL_TOKENS)"
SORTED = f"{LEARN} -> sorted({LEARN})"

WRONG = {
    "count_pairs": {"as a dict, got a list": "return counts -> return [*counts.items()]"},
    "merge_pair": {
        "changes its input pieces": "return merged -> pieces[:] = merged\n    return pieces",
        "raises IndexError": (
            f"{questions.SAME} -> pieces[i] == pair[0] and pieces[i + 1] == pair[1]"
        ),
        "not accepted. Your code uses": [
            byte_pair.join,
            lambda pieces, pair: byte_pair.join(pieces, pair),
        ],
    },
    "learn_merges": {
        "If no pair is left, stop": "if not counts: -> if False:",
        "the pair ('a', 'b') does not occur": "words = [(merge_pair -> [(merge_pair",
        "but not their order": "return merges -> return sorted(merges, key=''.join)",
        "as a list, got a dict": "return merges -> return dict.fromkeys(merges, 1)",
        "Each merge must be a pair of strings": (
            "merges.append(best) -> merges.append((best, counts[best]))"
        ),
        "have equal counts": f"{KEY} -> (-counts[pair], max(map(order.get, pair)))",
        "has the count": "-counts[pair], -> -min(counts[pair], 3),",
        "There are more merges than": "return merges -> return merges * 2",
        "not accepted. Your code uses": [
            byte_pair.learn_merges,
            lambda word_counts, num_merges: byte_pair.learn_merges(word_counts, num_merges),
        ],
    },
    "encode_word": {
        "not accepted. Your code uses": [
            byte_pair.merge_word,
            lambda word, merges: byte_pair.merge_word(word, merges),
        ],
    },
    "piece_ids": {
        "raises KeyError": "ids.get(piece, unknown_id) -> ids[piece]",
        "Here the 4,881 merges of the trained model": (
            "encode_word(word, merges) -> encode_word(word, merges[:1000])"
        ),
    },
    "encode_text": {},
    "decode_ids": {
        "a single id can contain part of a character": (
            f'{questions.DECODED} -> return "".join(table[index].decode() for index in ids)'
        ),
        "A model can output ids whose bytes are not valid UTF-8": (
            'errors="replace" -> errors="strict"'
        ),
        "a negative id raises no error by itself": "if not 0 <= index < -> if not index <",
        "must raise ValueError for an invalid id, but it raises IndexError": (
            "if not 0 <= index < len(table): -> if False:"
        ),
        "but it raises KeyError": "raise ValueError( -> raise KeyError(",
        "but it returns": (
            "for index in ids: -> ids = [i for i in ids if 0 <= i < len(table)]\n"
            "    for index in ids:"
        ),
        "as a str, got a bytes": f"{questions.DECODED} -> return data",
    },
    "rare_share": {"as a float, got a str": "return rare / len(vocabulary) -> return str(rare)"},
    "choose_size": {
        "Your code raises ValueError": (f"{questions.ON_VALIDATION} -> {questions.PER_SENTENCE}"),
        questions.PER_WORD: f"{questions.ON_VALIDATION} -> {questions.PER_SENTENCE}",
        "is not one of `sizes`": "return chosen, -> return chosen + len({*''.join(train)}),",
        "the size is correct, but not the subwords per word of the test": [
            f"{questions.REPORTED} -> pieces_per_word(test, max(sizes))",
            "for sentence in sentences -> for sentence in dict.fromkeys(sentences)",
        ],
        "Expected a pair, `return size, pieces_per_word`": (
            f"return chosen, {questions.REPORTED} -> return chosen"
        ),
        "expected `return size, pieces_per_word`, got": "return chosen, -> return str(chosen),",
    },
    "CorrectedTokenizer": {
        "not applied in the order in which they were learned": SORTED,
        "got ['▁', 'aa', 'a']": SORTED,
        "“the” and “The” have the same ids": "text.split() -> text.lower().split()",
        "expected other ids than": "text.split() -> text.lower().split()",
        "missing in training and in encoding": (
            IN_TRAINING,
            IN_ENCODING,
            '"".join(pieces).replace("▁", " ").strip() -> " ".join(pieces)',
        ),
        "it was missing when the merges were learned": [
            IN_TRAINING,
            (IN_TRAINING, "sorted({character -> sorted({'▁'} | {character"),
        ],
        "the mark ▁ is missing in encoding": IN_ENCODING,
        "each word is counted once in training": (
            'words = Counter("▁" + word -> words = dict.fromkeys(["▁" + word',
            "for word in sentence.split()) -> for word in sentence.split()], 1)",
        ),
        "these are not the subwords that the merges give": (
            "for word in sentence.split() -> for word in sentence.lower().split()",
            "return [*ids, END_ID] -> return [START_ID, *ids, END_ID]",
        ),
        "decode omits UNK_ID": "silent = ( -> silent = (UNK_ID, ",
        "spaces between the subwords of a word": (
            '"".join(pieces).replace("▁", " ") -> " ".join(pieces).replace("▁", "")'
        ),
        "spaces are missing in the decoded text": 'replace("▁", " ") -> replace("▁", "")',
        "the decoded text contains the mark ▁": '.replace("▁", " ").strip() -> ',
        "there is a space before or after the text": ".strip() -> ",
        "is encoded as the special token": (
            f"for piece in {SPLIT}: -> for piece in [word] if word in SPECIAL_TOKENS else {SPLIT}:",
            f"{FROM_FOUR} -> ",
        ),
        "has the id of the special token of the same name": [
            f"{INDEX} -> self.pieces.index(piece) if piece in self.pieces else UNK_ID",
            (
                "self.ids = { -> self.pieces = [*dict.fromkeys(self.pieces)]\n        self.ids = {",
                f"{FROM_FOUR} -> ",
            ),
        ],
        "not every subword with the same characters": (
            "if index not in silent -> "
            "if self.pieces[index] not in SPECIAL_TOKENS or index == UNK_ID"
        ),
        "an unknown character is omitted": [
            f"ids.append({INDEX}) -> ids += [self.ids[piece]] if piece in self.ids else []",
            "text.split() -> text.strip('.,?').split()",
        ],
        "the decoded text differs from the text": (
            f"{INDEX} -> {INDEX} if piece.replace('▁', '').isascii() else UNK_ID"
        ),
        "several unknown characters have one UNK_ID": (
            f"for piece in {SPLIT}: -> pieces = {SPLIT}\n"
            "            for piece in pieces if {*pieces} <= {*self.ids} else ['<unk>']:"
        ),
        "the last id must be END_ID": "return [*ids, END_ID] -> return ids",
        "the word is looked up as a whole": (
            f"for piece in {SPLIT}: -> for piece in ['▁' + word]:",
            "[left + right for left, right in self.merges] -> [*words]",
        ),
        "Skip the ids of <pad>": " if index not in silent -> ",
        "A count or an index is exact": (
            "return [*ids, END_ID] -> return [*map(float, ids), END_ID]"
        ),
        "must have the methods encode and decode": lambda sentences, num_merges: None,
    },
}

HANDED_IN = {
    "order_lost": (
        {"bug-hunt": edited_source(CorrectedTokenizer, SORTED)},
        ["bug-hunt-check"],
        "not applied in the order in which they were learned",
    ),
}
