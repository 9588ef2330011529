"""Right answers to 02_subwords, each part written in several ways."""

import re
from collections import Counter, defaultdict
from functools import reduce
from itertools import pairwise

from attentively import byte_pair
from attentively.vocabulary import END_ID, PAD_ID, SPECIAL_TOKENS, START_ID, UNK_ID

# Part 1


def count_pairs(words):
    counts = Counter()
    for pieces, count in words:
        for pair in pairwise(pieces):
            counts[pair] += count
    return counts


def count_pairs_by_index(words):
    counts = {}
    for pieces, count in words:
        for i in range(len(pieces) - 1):
            pair = (pieces[i], pieces[i + 1])
            counts[pair] = counts.get(pair, 0) + count
    return counts


def count_pairs_by_enumerating(words):
    counts = defaultdict(int)
    for pieces, count in words:
        for i, right in enumerate(pieces[1:]):
            counts[pieces[i], right] += count
    return counts


def merge_pair(pieces, pair):
    joined = []
    i = 0
    while i < len(pieces):
        if tuple(pieces[i : i + 2]) == pair:
            joined.append(pieces[i] + pieces[i + 1])
            i += 2
        else:
            joined.append(pieces[i])
            i += 1
    return joined


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


def merge_pair_by_recursion(pieces, pair):
    if len(pieces) < 2:
        return list(pieces)
    if (pieces[0], pieces[1]) == pair:
        return ["".join(pair), *merge_pair_by_recursion(pieces[2:], pair)]
    return [pieces[0], *merge_pair_by_recursion(pieces[1:], pair)]


def merge_pair_by_regular_expression(pieces, pair):
    text = "\0".join(["", *pieces, ""])
    left, right = map(re.escape, pair)
    spaced = re.sub(f"(?<=\0){left}\0{right}(?=\0)", lambda _: "".join(pair), text)
    return spaced.split("\0")[1:-1]


# Part 2


def learn_merges(word_counts, num_merges):
    words = [(list(word), count) for word, count in word_counts.items()]
    listed = sorted(set("".join(word_counts)))
    merges = []
    while len(merges) < num_merges:
        counts = count_pairs(words)
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], listed.index(p[0]), listed.index(p[1])))
        merges.append(best)
        listed.append("".join(best))
        words = [(merge_pair(pieces, best), count) for pieces, count in words]
    return merges


def learn_merges_by_ids(word_counts, num_merges):
    """Work on numbers: a piece's place in the list is its id, so ties need no further rule."""
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


def learn_merges_by_sorting(word_counts, num_merges):
    split = {word: list(word) for word in word_counts}
    place = {character: i for i, character in enumerate(sorted({c for w in split for c in w}))}
    merges = []
    while len(merges) < num_merges and any(len(pieces) > 1 for pieces in split.values()):
        counts = count_pairs_by_index([(split[word], count) for word, count in word_counts.items()])
        pairs = sorted(counts, key=lambda pair: (place[pair[0]], place[pair[1]]))
        best = sorted(pairs, key=counts.get, reverse=True)[0]  # sorting keeps the order of equals
        place.setdefault("".join(best), len(place))
        merges += [best]
        split = {word: list(merge_pair_by_stack(p, best)) for word, p in split.items()}
    return merges


# Part 3


def encode_word(word, merges):
    rank = {pair: place for place, pair in enumerate(merges)}
    pieces = list(word)
    while True:
        known = [pair for pair in pairwise(pieces) if pair in rank]
        if not known:
            return pieces
        pieces = merge_pair(pieces, min(known, key=rank.get))


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


def piece_ids(words, merges, ids, unknown_id):
    return [ids.get(piece, unknown_id) for word in words for piece in encode_word(word, merges)]


def piece_ids_by_loops(words, merges, ids, unknown_id):
    found = []
    for word in words:
        for piece in encode_word_merge_by_merge(word, merges):
            if piece in ids:
                found.append(ids[piece])
            else:
                found.append(unknown_id)
    return found


# Part 4


def encode_text(text, merges):
    ids = list(text.encode("utf-8"))
    for new_id, pair in enumerate(merges, start=256):
        joined = []
        for index in ids:
            if joined and (joined[-1], index) == pair:
                joined[-1] = new_id
            else:
                joined.append(index)
        ids = joined
    return ids


def decode_ids(ids, merges):
    table = [bytes([i]) for i in range(256)]
    for left, right in merges:
        table.append(table[left] + table[right])
    for index in ids:
        if not 0 <= index < len(table):
            raise ValueError(f"{index} is not an id")
    return b"".join(table[index] for index in ids).decode("utf-8", errors="replace")


def encode_text_by_rank(text, merges):
    rank = {tuple(pair): 256 + place for place, pair in enumerate(merges)}
    ids = [*bytes(text, "utf-8")]
    while ids:
        new_id = min(rank.get(pair, 10**9) for pair in [*pairwise(ids), (None, None)])
        if new_id == 10**9:
            break
        i = 0
        while i < len(ids) - 1:
            if rank.get((ids[i], ids[i + 1])) == new_id:
                ids[i : i + 2] = [new_id]
            i += 1
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


def rare_share(word_counts, merges, fewest):
    occurs = Counter({character: 0 for word in word_counts for character in word})
    occurs.update({left + right: 0 for left, right in merges})
    for word, count in word_counts.items():
        for piece in byte_pair.merge_word(word, merges):
            occurs[piece] += count
    return sum(n < fewest for n in occurs.values()) / len(occurs)


def rare_share_by_sets(word_counts, merges, fewest):
    listed = set("".join(word_counts)) | {"".join(pair) for pair in merges}
    text = [p for w, n in word_counts.items() for p in byte_pair.merge_word(w, merges) * n]
    return len([piece for piece in listed if text.count(piece) < fewest]) / len(listed)


def pieces_per_word(sentences, merges):
    words = [word for sentence in sentences for word in sentence.split()]
    return sum(len(byte_pair.merge_word(word, merges)) for word in words) / len(words)


def choose_size(train, validation, test, sizes, limit):
    counts = Counter(word for sentence in train for word in sentence.split())
    for size in sorted(sizes):
        merges = byte_pair.learn_merges(counts, size)
        if pieces_per_word(validation, merges) <= limit:
            return size, pieces_per_word(test, merges)
    raise ValueError("no size reaches the limit")


def choose_size_by_prefixes(train, validation, test, sizes, limit):
    """The merges of a short training are the first of a long one."""
    learned = byte_pair.learn_merges(Counter(" ".join(train).split()), max(sizes))
    size = min(n for n in sizes if pieces_per_word(validation, learned[:n]) <= limit)
    return [size, pieces_per_word(test, learned[:size])]


# Part 6


class CorrectedTokenizer:
    def __init__(self, sentences, num_merges):
        words = Counter("▁" + word for sentence in sentences for word in sentence.split())
        self.merges = byte_pair.learn_merges(words, num_merges)
        characters = sorted({character for word in words for character in word})
        joined = [left + right for left, right in self.merges]
        self.pieces = [*SPECIAL_TOKENS, *characters, *joined]
        self.ids = {p: i for i, p in enumerate(self.pieces) if i >= len(SPECIAL_TOKENS)}

    def encode(self, text):
        ids = []
        for word in text.split():
            for piece in byte_pair.merge_word("▁" + word, self.merges):
                ids.append(self.ids.get(piece, UNK_ID))
        return [*ids, END_ID]

    def decode(self, ids):
        pieces = [self.pieces[i] for i in ids if i not in (PAD_ID, START_ID, END_ID)]
        return "".join(pieces).replace("▁", " ").strip()


class CorrectedBySlice(CorrectedTokenizer):
    """Cuts the space of the first ▁ off, whatever the first character is."""

    def decode(self, ids):
        pieces = [self.pieces[i] for i in ids if i not in (PAD_ID, START_ID, END_ID)]
        return "".join(pieces).replace("▁", " ")[1:]


class CorrectedByFirstPiece:
    """Marks nothing in the text itself, but knows of each piece whether it begins a word."""

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
    "pairs": [
        (count_pairs, merge_pair),
        (count_pairs_by_index, merge_pair_by_stack),
        (count_pairs_by_enumerating, merge_pair_by_recursion),
        (count_pairs, merge_pair_by_regular_expression),
    ],
    "merges": [learn_merges, learn_merges_by_ids, learn_merges_by_sorting],
    "encoding": [
        (encode_word, piece_ids),
        (encode_word_merge_by_merge, piece_ids_by_loops),
        (encode_word_one_place_at_a_time, piece_ids),
    ],
    "round_trip": [(encode_text, decode_ids), (encode_text_by_rank, decode_ids_by_recursion)],
    "vocabulary_size": [
        (rare_share, choose_size),
        (rare_share_by_sets, choose_size_by_prefixes),
    ],
    "bug_hunt": [CorrectedTokenizer, CorrectedBySlice, CorrectedByFirstPiece],
}
