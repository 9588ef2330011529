"""Plausible wrong answers to 02_subwords, each with words of the message that it must get."""

import unicodedata
from collections import Counter
from itertools import combinations, pairwise

from right_answers_02 import (
    CorrectedTokenizer,
    choose_size,
    count_pairs,
    decode_ids,
    encode_text,
    encode_word,
    learn_merges,
    merge_pair,
    piece_ids,
    pieces_per_word,
    rare_share,
)

from attentively import byte_pair
from attentively.vocabulary import END_ID, PAD_ID, SPECIAL_TOKENS, START_ID, UNK_ID

# Part 1


def each_word_once(words):
    return Counter(pair for pieces, _ in words for pair in pairwise(pieces))


def across_words(words):
    pieces = [piece for pieces, count in words for piece in pieces * count]
    return Counter(pairwise(pieces))


def overwritten(words):
    counts = {}
    for pieces, count in words:
        for pair in pairwise(pieces):
            counts[pair] = count
    return counts


def without_overlaps(words):
    counts = Counter()
    for pieces, count in words:
        i = 0
        while i + 1 < len(pieces):
            pair = (pieces[i], pieces[i + 1])
            counts[pair] += count
            i += 2 if pair[0] == pair[1] else 1
    return counts


def once_a_word(words):
    counts = Counter()
    for pieces, count in words:
        for pair in set(pairwise(pieces)):
            counts[pair] += count
    return counts


def keys_joined(words):
    counts = Counter()
    for pieces, count in words:
        for left, right in pairwise(pieces):
            counts[left + right] += count
    return counts


def in_either_order(words):
    counts = Counter()
    for pieces, count in words:
        for pair in pairwise(pieces):
            counts[tuple(sorted(pair))] += count
    return counts


def every_two(words):
    counts = Counter()
    for pieces, count in words:
        for pair in combinations(pieces, 2):
            counts[pair] += count
    return counts


def pairs_as_list(words):
    return list(count_pairs(words).items())


def first_pair_only(pieces, pair):
    for i, found in enumerate(pairwise(pieces)):
        if found == pair:
            return pieces[:i] + [pieces[i] + pieces[i + 1]] + pieces[i + 2 :]
    return pieces


def slice_against_tuple(pieces, pair):
    joined, i = [], 0
    while i < len(pieces):
        width = 2 if pieces[i : i + 2] == pair else 1
        joined.append("".join(pieces[i : i + width]))
        i += width
    return joined


def from_the_right(pieces, pair):
    pieces, i = list(pieces), len(pieces) - 2
    while i >= 0:
        if (pieces[i], pieces[i + 1]) == pair:
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
            i -= 1
        i -= 1
    return pieces


def last_piece_lost(pieces, pair):
    joined, i = [], 0
    while i < len(pieces) - 1:
        if (pieces[i], pieces[i + 1]) == pair:
            joined.append(pieces[i] + pieces[i + 1])
            i += 2
        else:
            joined.append(pieces[i])
            i += 1
    return joined


def no_step_by_two(pieces, pair):
    joined = []
    for i in range(len(pieces)):
        if i + 1 < len(pieces) and (pieces[i], pieces[i + 1]) == pair:
            joined.append(pieces[i] + pieces[i + 1])
        elif i and (pieces[i - 1], pieces[i]) == pair:
            continue
        else:
            joined.append(pieces[i])
    return joined


def by_replacing_text(pieces, pair):
    return " ".join(pieces).replace(" ".join(pair), "".join(pair)).split()


def in_place(pieces, pair):
    i = 0
    while i + 1 < len(pieces):
        if (pieces[i], pieces[i + 1]) == pair:
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
        i += 1
    return pieces


def beyond_the_end(pieces, pair):
    joined, i = [], 0
    while i < len(pieces):
        if pieces[i] == pair[0] and pieces[i + 1] == pair[1]:
            joined.append(pieces[i] + pieces[i + 1])
            i += 2
        else:
            joined.append(pieces[i])
            i += 1
    return joined


def by_joined_text(pieces, pair):
    joined, i = [], 0
    while i < len(pieces):
        if i + 1 < len(pieces) and pieces[i] + pieces[i + 1] == pair[0] + pair[1]:
            joined.append(pieces[i] + pieces[i + 1])
            i += 2
        else:
            joined.append(pieces[i])
            i += 1
    return joined


def both_ways(pieces, pair):
    return merge_pair(merge_pair(pieces, pair), pair[::-1])


# Part 2


def learn(count=count_pairs, join=merge_pair, tie=None, renew=True, fewest=1, more=0):
    """Make a wrong training: one of its steps is another."""

    def learned(word_counts, num_merges):
        words = [(list(word), n) for word, n in word_counts.items()]
        listed = sorted(set("".join(word_counts)))
        merges, counts = [], count(words)
        while len(merges) < num_merges + more:
            counts = count(words) if renew else counts
            counts = {pair: n for pair, n in counts.items() if n >= fewest}
            if not counts:
                break
            most = max(counts.values())
            tied = [pair for pair, n in counts.items() if n == most]
            best = tie(tied) if tie else min(tied, key=lambda p: [listed.index(x) for x in p])
            merges.append(best)
            listed.append("".join(best))
            words = [(join(pieces, best), n) for pieces, n in words]
            counts = {pair: n for pair, n in counts.items() if pair != best}
        return merges

    return learned


def named(name, function):
    function.__name__ = name
    return function


def by_length(pair):
    return [(len(piece), piece) for piece in pair]


def left_piece_only(word_counts, num_merges):
    words = [(list(word), n) for word, n in word_counts.items()]
    listed = sorted(set("".join(word_counts)))
    merges = []
    while len(merges) < num_merges and (counts := count_pairs(words)):
        merges.append(min(counts, key=lambda pair: (-counts[pair], listed.index(pair[0]))))
        listed.append("".join(merges[-1]))
        words = [(merge_pair(pieces, merges[-1]), n) for pieces, n in words]
    return merges


def counts_not_asked(word_counts, num_merges):
    words = [(list(word), n) for word, n in word_counts.items()]
    listed = sorted(set("".join(word_counts)))
    merges = []
    while len(merges) < num_merges and (counts := count_pairs(words)):
        merges.append(min(counts, key=lambda pair: [listed.index(piece) for piece in pair]))
        listed.append("".join(merges[-1]))
        words = [(merge_pair(pieces, merges[-1]), n) for pieces, n in words]
    return merges


words_counted_once = named("words_counted_once", learn(each_word_once))
pairs_across_words = named("pairs_across_words", learn(across_words))
stale_counts = named("stale_counts", learn(renew=False))
first_met = named("first_met", learn(tie=lambda tied: tied[0]))
last_listed = named("last_listed", learn(tie=max))
alphabetical = named("alphabetical", learn(tie=min))
short_first = named("short_first", learn(tie=lambda tied: min(tied, key=by_length)))
overlaps_left_out = named("overlaps_left_out", learn(without_overlaps))
joined_once_a_word = named("joined_once_a_word", learn(join=first_pair_only))
at_least_twice = named("at_least_twice", learn(fewest=2))
one_too_many = named("one_too_many", learn(more=1))


def pieces_not_pairs(word_counts, num_merges):
    return ["".join(pair) for pair in learn_merges(word_counts, num_merges)]


def never_ends_well(word_counts, num_merges):
    words = [(list(word), n) for word, n in word_counts.items()]
    listed = sorted(set("".join(word_counts)))
    merges = []
    for _ in range(num_merges):
        counts = count_pairs(words)
        best = max(counts, key=lambda p: (counts[p], -listed.index(p[0]), -listed.index(p[1])))
        merges.append(best)
        listed.append("".join(best))
        words = [(merge_pair(pieces, best), n) for pieces, n in words]
    return merges


def words_not_kept(word_counts, num_merges):
    words = [(list(word), n) for word, n in word_counts.items()]
    merges = []
    for _ in range(num_merges):
        counts = count_pairs(words)
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        for pieces, _ in words:
            pieces = merge_pair(pieces, best)
    return merges


def sorted_merges(word_counts, num_merges):
    return sorted(learn_merges(word_counts, num_merges), key=lambda pair: "".join(pair))


def with_counts(word_counts, num_merges):
    return dict.fromkeys(learn_merges(word_counts, num_merges), 1)


def nothing_returned(*arguments):
    learn_merges(*arguments)


# Part 3


def longest_first(word, merges):
    listed = {left + right for left, right in merges}
    pieces = []
    while word:
        end = next(e for e in range(len(word), 0, -1) if e == 1 or word[:e] in listed)
        pieces.append(word[:end])
        word = word[end:]
    return pieces


def left_to_right(word, merges):
    pieces = []
    for character in word:
        if pieces and (pieces[-1], character) in merges:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def leftmost_first(word, merges):
    pieces, i = list(word), 0
    while i + 1 < len(pieces):
        if (pieces[i], pieces[i + 1]) in merges:
            pieces[i : i + 2] = [pieces[i] + pieces[i + 1]]
            i = 0
        else:
            i += 1
    return pieces


def last_learned_first(word, merges):
    return encode_word(word, merges[::-1])


def one_merge_only(word, merges):
    known = [pair for pair in merges if pair in [*pairwise(word)]]
    return merge_pair(list(word), known[0]) if known else list(word)


def one_place_a_merge(word, merges):
    pieces = list(word)
    for pair in merges:
        pieces = first_pair_only(pieces, pair)
    return pieces


def by_text_of_pairs(word, merges):
    listed = [left + right for left, right in merges]
    pieces = list(word)
    while known := [pair for pair in pairwise(pieces) if "".join(pair) in listed]:
        pieces = merge_pair(pieces, min(known, key=lambda pair: listed.index("".join(pair))))
    return pieces


def strangers_lost(word, merges):
    known = {character for pair in merges for piece in pair for character in piece}
    return encode_word("".join(c for c in word if c in known), merges)


def read_from_the_end(word, merges):
    pieces = list(word)
    for pair in merges:
        pieces = from_the_right(pieces, pair)
    return pieces


def without_capitals(word, merges):
    return encode_word(word.lower(), merges)


def zero_is_none(words, merges, ids, unknown_id):
    return [ids.get(p) or unknown_id for word in words for p in encode_word(word, merges)]


def known_words_uncut(words, merges, ids, unknown_id):
    found = []
    for word in words:
        found += [ids[word]] if word in ids else piece_ids([word], merges, ids, unknown_id)
    return found


def marks_added(words, merges, ids, unknown_id):
    return piece_ids(["▁" + word for word in words], merges, ids, unknown_id)


def joined_by_spaces(words, merges, ids, unknown_id):
    return piece_ids([" ".join(words)], merges, ids, unknown_id)


def ids_as_floats(words, merges, ids, unknown_id):
    return [float(i) for i in piece_ids(words, merges, ids, unknown_id)]


def unknown_dropped(words, merges, ids, unknown_id):
    return [ids[p] for word in words for p in encode_word(word, merges) if p in ids]


def unknown_words(words, merges, ids, unknown_id):
    return [ids.get(word, unknown_id) for word in words]


def unknown_not_expected(words, merges, ids, unknown_id):
    return [ids[piece] for word in words for piece in encode_word(word, merges)]


def nested(words, merges, ids, unknown_id):
    return [[ids.get(p, unknown_id) for p in encode_word(word, merges)] for word in words]


def unknown_is_one(words, merges, ids, unknown_id):
    return piece_ids(words, merges, ids, 1)


def words_run_together(words, merges, ids, unknown_id):
    return piece_ids(["".join(words)], merges, ids, unknown_id)


# Part 4


def by_ord(text, merges):
    ids = [ord(character) for character in text]
    return encode_text(text, merges) if max(ids, default=0) < 128 else ids


def stripped(text, merges):
    return encode_text(text.strip(), merges)


def spaces_made_one(text, merges):
    return encode_text(" ".join(text.split()), merges)


def composed(text, merges):
    return encode_text(unicodedata.normalize("NFC", text), merges)


def lower_cased(text, merges):
    return encode_text(text.lower(), merges)


def merges_forgotten(text, merges):
    return list(text.encode())


def leftmost_bytes(text, merges):
    ids, i = list(text.encode()), 0
    while i + 1 < len(ids):
        pair = (ids[i], ids[i + 1])
        if pair in merges:
            ids[i : i + 2] = [256 + merges.index(pair)]
            i = 0
        else:
            i += 1
    return ids


def one_id_too_high(text, merges):
    return [i + 1 if i > 255 else i for i in encode_text(text, merges)]


def table_of(merges):
    table = [bytes([i]) for i in range(256)]
    for left, right in merges:
        table.append(table[left] + table[right])
    return table


def checked(ids, table):
    if not all(0 <= i < len(table) for i in ids):
        raise ValueError("no such id")


def text_ids_as_floats(text, merges):
    return [float(i) for i in encode_text(text, merges)]


def each_piece_alone(ids, merges):
    table = table_of(merges)
    checked(ids, table)
    return "".join(table[i].decode(errors="replace") for i in ids)


def each_piece_alone_strictly(ids, merges):
    table = table_of(merges)
    checked(ids, table)
    return "".join(table[i].decode() for i in ids)


def as_latin_1(ids, merges):
    table = table_of(merges)
    checked(ids, table)
    return b"".join(table[i] for i in ids).decode("latin-1")


def strict(ids, merges):
    table = table_of(merges)
    checked(ids, table)
    return b"".join(table[i] for i in ids).decode()


def errors_ignored(ids, merges):
    table = table_of(merges)
    checked(ids, table)
    return b"".join(table[i] for i in ids).decode(errors="ignore")


def negative_ids_pass(ids, merges):
    table = table_of(merges)
    if any(i >= len(table) for i in ids):
        raise ValueError("no such id")
    return b"".join(table[i] for i in ids).decode(errors="replace")


def ids_beyond_the_table(ids, merges):
    table = table_of(merges)
    return b"".join(table[i] for i in ids).decode(errors="replace")


def unknown_ids_left_out(ids, merges):
    return decode_ids([i for i in ids if 0 <= i < 256 + len(merges)], merges)


def spaces_at_the_ends_lost(ids, merges):
    return decode_ids(ids, merges).strip()


# Part 5


def rare(weigh=True, seen=False, characters=True, share=True, fewer=lambda n, fewest: n < fewest):
    def wrong(word_counts, merges, fewest):
        counts = Counter()
        for word, n in word_counts.items():
            for piece in byte_pair.merge_word(word, merges):
                counts[piece] += n if weigh else 1
        listed = {left + right for left, right in merges}
        if characters:
            listed |= set("".join(word_counts))
        if seen:
            listed = set(counts)
        number = sum(fewer(counts[piece], fewest) for piece in listed)
        return number / len(listed) if share else number

    return wrong


rare_words_once = named("rare_words_once", rare(weigh=False))
rare_of_those_seen = named("rare_of_those_seen", rare(seen=True))
rare_joined_only = named("rare_joined_only", rare(characters=False))
rare_at_most = named("rare_at_most", rare(fewer=lambda n, fewest: n <= fewest))
rare_number = named("rare_number", rare(share=False))
frequent_share = named("frequent_share", rare(fewer=lambda n, fewest: n >= fewest))


def rare_with_special_tokens(word_counts, merges, fewest):
    pieces = len(set("".join(word_counts))) + len(merges)
    return (rare_share(word_counts, merges, fewest) * pieces + 4) / (pieces + 4)


def rare_of_a_list(word_counts, merges, fewest):
    listed = [*"".join(word_counts), *("".join(pair) for pair in merges)]
    text = [p for w, n in word_counts.items() for p in byte_pair.merge_word(w, merges) * n]
    return sum(text.count(piece) < fewest for piece in listed) / len(listed)


def rare_by_text(word_counts, merges, fewest):
    listed = set("".join(word_counts)) | {left + right for left, right in merges}
    counts = {p: sum(n * word.count(p) for word, n in word_counts.items()) for p in listed}
    return sum(n < fewest for n in counts.values()) / len(listed)


def merges_of(sentences, size):
    return byte_pair.learn_merges(Counter(" ".join(sentences).split()), size)


def mean_of_sentences(sentences, merges):
    return sum(pieces_per_word([sentence], merges) for sentence in sentences) / len(sentences)


def of_distinct_words(sentences, merges):
    return pieces_per_word([*dict.fromkeys(" ".join(sentences).split())], merges)


def chosen_on_test(train, validation, test, sizes, limit):
    return choose_size(train, test, test, sizes, limit)


def chosen_on_train(train, validation, test, sizes, limit):
    return choose_size(train, train, test, sizes, limit)


def validation_reported(train, validation, test, sizes, limit):
    return choose_size(train, validation, validation, sizes, limit)


def first_that_will_do(train, validation, test, sizes, limit):
    for size in sizes:
        merges = merges_of(train, size)
        if pieces_per_word(validation, merges) <= limit:
            return size, pieces_per_word(test, merges)
    raise ValueError("no size")


def largest(train, validation, test, sizes, limit):
    size = max(s for s in sizes if pieces_per_word(validation, merges_of(train, s)) <= limit)
    return size, pieces_per_word(test, merges_of(train, size))


def nearest(train, validation, test, sizes, limit):
    def distance(size):
        return abs(pieces_per_word(validation, merges_of(train, size)) - limit)

    size = min(sizes, key=distance)
    return size, pieces_per_word(test, merges_of(train, size))


def strictly_below(train, validation, test, sizes, limit):
    return choose_size(train, validation, test, sizes, limit - 1e-9)


def learned_from_all(train, validation, test, sizes, limit):
    return choose_size(train + validation, validation, test, sizes, limit)


def by_measure(choose, report):
    def wrong(train, validation, test, sizes, limit):
        size = min(s for s in sizes if choose(validation, merges_of(train, s)) <= limit)
        return size, report(test, merges_of(train, size))

    return wrong


sentences_averaged = named("sentences_averaged", by_measure(mean_of_sentences, mean_of_sentences))
chosen_by_average = named("chosen_by_average", by_measure(mean_of_sentences, pieces_per_word))
reported_average = named("reported_average", by_measure(pieces_per_word, mean_of_sentences))
distinct_words = named("distinct_words", by_measure(of_distinct_words, of_distinct_words))


def pieces_per_sentence(sentences, merges):
    words = " ".join(sentences).split()
    return pieces_per_word(sentences, merges) * len(words) / len(sentences)


chosen_by_sentence = named("chosen_by_sentence", by_measure(pieces_per_sentence, pieces_per_word))


def none_chosen(train, validation, test, sizes, limit):
    for size in sorted(sizes):
        merges = merges_of(train, size)
        if pieces_per_sentence(validation, merges) <= limit:
            return size, pieces_per_word(test, merges)
    return None


def each_word_learned_once(train, validation, test, sizes, limit):
    return choose_size([*dict.fromkeys(" ".join(train).split())], validation, test, sizes, limit)


def swapped(*inputs):
    return choose_size(*inputs)[::-1]


def size_of_vocabulary(train, validation, test, sizes, limit):
    size, pieces = choose_size(train, validation, test, sizes, limit)
    return size + len(set("".join(train)) - {" "}), pieces


# Part 6


class OrderLost(CorrectedTokenizer):
    def __init__(self, sentences, num_merges):
        super().__init__(sentences, num_merges)
        self.merges = sorted(set(self.merges))


class LowerCased(CorrectedTokenizer):
    def encode(self, text):
        return super().encode(text.lower())


class BoundaryLost(CorrectedTokenizer):
    """As the faulty one: words carry no mark, and pieces are joined by spaces."""

    def __init__(self, sentences, num_merges):
        super().__init__(sentences, num_merges)
        words = Counter(word for sentence in sentences for word in sentence.split())
        self.merges = byte_pair.learn_merges(words, num_merges)
        characters = sorted(set("".join(words)))
        self.pieces = [*SPECIAL_TOKENS, *characters, *("".join(pair) for pair in self.merges)]
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    def encode(self, text):
        pieces = [p for word in text.split() for p in byte_pair.merge_word(word, self.merges)]
        return [*(self.ids.get(piece, UNK_ID) for piece in pieces), END_ID]

    def decode(self, ids):
        return " ".join(self.pieces[i] for i in ids if i not in (PAD_ID, START_ID, END_ID))


class MarkedInEncodingOnly(CorrectedTokenizer):
    def __init__(self, sentences, num_merges):
        words = Counter(word for sentence in sentences for word in sentence.split())
        self.merges = byte_pair.learn_merges(words, num_merges)
        characters = sorted({*"".join(words), "▁"})
        self.pieces = [*SPECIAL_TOKENS, *characters, *("".join(pair) for pair in self.merges)]
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}


class UnmarkedInTraining(MarkedInEncodingOnly):
    """As that one, and ▁ is not listed at all."""

    def __init__(self, sentences, num_merges):
        super().__init__(sentences, num_merges)
        del self.ids["▁"]


class UnmarkedInEncoding(CorrectedTokenizer):
    def encode(self, text):
        pieces = [p for word in text.split() for p in byte_pair.merge_word(word, self.merges)]
        return [*(self.ids.get(piece, UNK_ID) for piece in pieces), END_ID]


class UnknownIsSilent(CorrectedTokenizer):
    def decode(self, ids):
        return super().decode([i for i in ids if i != UNK_ID])


class JoinedBySpaces(CorrectedTokenizer):
    def decode(self, ids):
        pieces = [self.pieces[i] for i in ids if i not in (PAD_ID, START_ID, END_ID)]
        return " ".join(pieces).replace("▁", "").strip()


class SpacesLost(CorrectedTokenizer):
    def decode(self, ids):
        return super().decode(ids).replace(" ", "")


class MarkLeft(CorrectedTokenizer):
    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids if i not in (PAD_ID, START_ID, END_ID))


class SpaceInFront(CorrectedTokenizer):
    def decode(self, ids):
        return " " * (len(ids) > 1) + super().decode(ids)


class SpelledOutIsSpecial(CorrectedTokenizer):
    def encode(self, text):
        ids = []
        for word in text.split():
            if word in SPECIAL_TOKENS:
                ids.append(SPECIAL_TOKENS.index(word))
            else:
                ids += super().encode(word)[:-1]
        return [*ids, END_ID]


class LookedUpInTheList(CorrectedTokenizer):
    """The first place of a piece in the list counts, and that may be a special token's."""

    def encode(self, text):
        words = [f"▁{word}" for word in text.split()]
        pieces = [piece for word in words for piece in byte_pair.merge_word(word, self.merges)]
        return [*(self.pieces.index(p) if p in self.pieces else UNK_ID for p in pieces), END_ID]


class EachPieceListedOnce(CorrectedTokenizer):
    def __init__(self, sentences, num_merges):
        super().__init__(sentences, num_merges)
        self.pieces = list(dict.fromkeys(self.pieces))
        self.ids = {piece: index for index, piece in enumerate(self.pieces)}


class SilentBySpelling(CorrectedTokenizer):
    def decode(self, ids):
        silent = [i for i in ids if self.pieces[i] in SPECIAL_TOKENS and i != UNK_ID]
        return super().decode([i for i in ids if i not in silent])


class UnknownVanishes(CorrectedTokenizer):
    def encode(self, text):
        return [i for i in super().encode(text) if i != UNK_ID]


class UnknownWordIsOne(CorrectedTokenizer):
    def encode(self, text):
        ids = []
        for word in text.split():
            found = super().encode(word)[:-1]
            ids += [UNK_ID] if UNK_ID in found else found
        return [*ids, END_ID]


class NoEnd(CorrectedTokenizer):
    def encode(self, text):
        return super().encode(text)[:-1]


class WholeWordsFirst(CorrectedTokenizer):
    def encode(self, text):
        if not hasattr(self, "words"):
            self.words = {}
        ids = []
        for word in text.split():
            if word not in self.words:
                self.words[word] = len(self.pieces)
                self.pieces.append("▁" + word)
            ids.append(self.words[word])
        return [*ids, END_ID]


class EndIsWritten(CorrectedTokenizer):
    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids).replace("▁", " ").strip()


WRONG = {
    "pairs": [
        ((each_word_once, merge_pair), "A word with the count 3 adds 3"),
        ((across_words, merge_pair), "A pair crosses a word boundary"),
        ((overwritten, merge_pair), "overwritten by each word that contains the pair"),
        ((without_overlaps, merge_pair), "Overlapping occurrences are missing"),
        ((once_a_word, merge_pair), "occurs several times in one word is counted once"),
        ((keys_joined, merge_pair), "The keys are concatenated strings"),
        ((in_either_order, merge_pair), "(a, b) and (b, a) are counted as the same pair"),
        ((every_two, merge_pair), "Subwords that are not adjacent are counted"),
        ((pairs_as_list, merge_pair), "as a dict, got a list"),
        ((count_pairs, first_pair_only), "Only the first occurrence is merged"),
        ((count_pairs, slice_against_tuple), "a list, is compared with the pair, a tuple"),
        ((count_pairs, from_the_right), "Pairs are merged from right to left"),
        ((count_pairs, last_piece_lost), "The last subword is missing"),
        ((count_pairs, no_step_by_two), "A subword is used twice"),
        ((count_pairs, by_replacing_text), "Characters are compared instead of subwords"),
        ((count_pairs, in_place), "changes its input pieces"),
        ((count_pairs, beyond_the_end), "raises IndexError"),
        ((count_pairs, both_ways), "The reversed pair is merged as well"),
        ((count_pairs, by_joined_text), "Concatenated strings are compared"),
        ((count_pairs, byte_pair.join), "not accepted. Your code uses"),
    ],
    "merges": [
        (counts_not_asked, "The counts are not used"),
        (words_counted_once, "Each word is counted once"),
        (pairs_across_words, "Pairs across word boundaries are counted"),
        (stale_counts, "All merges are chosen by the counts of the first step"),
        (first_met, "In a tie, the pair that is counted first is merged"),
        (last_listed, "In a tie, the pair whose subwords were created last"),
        (alphabetical, "In a tie, pairs are ordered alphabetically, so that"),
        (left_piece_only, "In a tie, only the left subwords are compared"),
        (short_first, "In a tie, pairs are ordered by the length"),
        (overlaps_left_out, "Overlapping occurrences are counted once"),
        (joined_once_a_word, "only the first occurrence is merged"),
        (at_least_twice, "Pairs with the count 1 are left out"),
        (one_too_many, "There is one merge more than num_merges"),
        (pieces_not_pairs, "The merges are concatenated strings"),
        (never_ends_well, "If no pair is left, stop"),
        (words_not_kept, "the pair ('a', 'b') does not occur"),
        (sorted_merges, "but not their order"),
        (with_counts, "as a list, got a dict"),
        (nothing_returned, "is there a `return`?"),
        (byte_pair.learn_merges, "not accepted. Your code uses"),
    ],
    "encoding": [
        ((longest_first, piece_ids), "split by longest match"),
        ((left_to_right, piece_ids), "processed once from left to right"),
        ((leftmost_first, piece_ids), "The leftmost pair with a merge is merged first, whatever"),
        ((last_learned_first, piece_ids), "applied in reverse order"),
        ((one_merge_only, piece_ids), "Only one merge is applied"),
        ((one_place_a_merge, piece_ids), "only the first occurrence is merged"),
        ((by_text_of_pairs, piece_ids), "but this pair is not a merge"),
        ((strangers_lost, piece_ids), "in no merge is missing"),
        ((read_from_the_end, piece_ids), "Pairs are merged from right to left"),
        ((without_capitals, piece_ids), "The word is converted to lower case"),
        ((byte_pair.merge_word, piece_ids), "not accepted. Your code uses"),
        ((encode_word, unknown_dropped), "A subword that is not in `ids` is omitted"),
        ((encode_word, unknown_words), "Whole words are looked up"),
        ((encode_word, unknown_not_expected), "raises KeyError"),
        ((encode_word, nested), "The result has one list for each word"),
        ((encode_word, unknown_is_one), "an id other than unknown_id"),
        ((encode_word, words_run_together), "The words are concatenated before they are split"),
        ((encode_word, zero_is_none), "The id 0 is treated as missing"),
        ((encode_word, known_words_uncut), "A word is looked up as a whole before it is split"),
        ((encode_word, marks_added), "▁ is added to the words"),
        ((encode_word, joined_by_spaces), "The words are joined with spaces"),
        ((encode_word, ids_as_floats), "are floats"),
    ],
    "round_trip": [
        ((by_ord, decode_ids), "The ids are the code points of the characters"),
        ((stripped, decode_ids), "White space at the start and at the end is removed"),
        ((spaces_made_one, decode_ids), "so that two spaces become one"),
        ((composed, decode_ids), "normalised to NFC: e and a combining accent"),
        ((lower_cased, decode_ids), "The text is converted to lower case"),
        ((merges_forgotten, decode_ids), "No pair is merged"),
        ((leftmost_bytes, decode_ids), "The leftmost pair with a merge is merged first"),
        ((one_id_too_high, decode_ids), "do not start at 256"),
        ((text_ids_as_floats, decode_ids), "are floats"),
        ((encode_text, each_piece_alone), "Each id is decoded separately"),
        ((encode_text, each_piece_alone_strictly), "a single id can contain part of a character"),
        ((encode_text, as_latin_1), "Each byte is decoded as a character"),
        ((encode_text, strict), "A model can output ids whose bytes are not valid UTF-8"),
        ((encode_text, errors_ignored), "Invalid bytes are omitted"),
        ((encode_text, negative_ids_pass), "a negative id raises no error by itself"),
        ((encode_text, ids_beyond_the_table), "must raise ValueError"),
        ((encode_text, unknown_ids_left_out), "must raise ValueError"),
        (
            (encode_text, spaces_at_the_ends_lost),
            "White space at the start and at the end is removed",
        ),
    ],
    "vocabulary_size": [
        ((rare_words_once, choose_size), "each word is counted once"),
        (
            (rare_of_those_seen, choose_size),
            "subwords that do not occur in the split words are missing",
        ),
        ((rare_joined_only, choose_size), "the characters are missing from the vocabulary"),
        ((rare_at_most, choose_size), "exactly `fewest` times"),
        ((rare_number, choose_size), "this is a number of subwords"),
        ((frequent_share, choose_size), "the share of the subwords that are not rare"),
        ((rare_by_text, choose_size), "a subword is counted wherever its characters occur"),
        ((rare_with_special_tokens, choose_size), "the four special tokens are in the vocabulary"),
        ((rare_of_a_list, choose_size), "a character is in the vocabulary several times"),
        ((rare_share, chosen_on_test), "is chosen on the test sentences"),
        ((rare_share, chosen_on_train), "is chosen on the training sentences"),
        (
            (rare_share, validation_reported),
            "the subwords per word are those of the validation sentences",
        ),
        ((rare_share, first_that_will_do), "the sizes are not sorted"),
        ((rare_share, largest), "this is the largest size"),
        ((rare_share, nearest), "the one nearest to the limit"),
        ((rare_share, strictly_below), "with exactly `limit` subwords per word"),
        ((rare_share, learned_from_all), "the validation sentences must be new"),
        ((rare_share, each_word_learned_once), "add one for each occurrence"),
        ((rare_share, chosen_by_sentence), "by the number of all their words"),
        ((rare_share, none_chosen), "Your function returns None"),
        ((rare_share, swapped), "in the wrong order"),
        ((rare_share, sentences_averaged), "the mean over sentences is used"),
        ((rare_share, chosen_by_average), "the mean over sentences is used"),
        ((rare_share, reported_average), "averaged over sentences"),
        ((rare_share, distinct_words), "each distinct word is counted once"),
        ((rare_share, size_of_vocabulary), "is not one of `sizes`"),
    ],
    "bug_hunt": [
        (OrderLost, "not applied in the order in which they were learned"),
        (OrderLost, "got ['▁', 'aa', 'a']"),
        (LowerCased, "“the” and “The” have the same ids"),
        (LowerCased, "expected other ids than"),
        (BoundaryLost, "missing in training and in encoding"),
        (MarkedInEncodingOnly, "it was missing when the merges were learned"),
        (UnmarkedInTraining, "it was missing when the merges were learned"),
        (UnmarkedInEncoding, "the mark ▁ is missing in encoding"),
        (UnknownIsSilent, "decode omits UNK_ID"),
        (JoinedBySpaces, "spaces between the subwords of a word"),
        (SpacesLost, "spaces are missing in the decoded text"),
        (MarkLeft, "the decoded text contains the mark ▁"),
        (SpaceInFront, "there is a space before or after the text"),
        (SpelledOutIsSpecial, "is encoded as the special token"),
        (LookedUpInTheList, "has the id of the special token of the same name"),
        (EachPieceListedOnce, "has the id of the special token of the same name"),
        (SilentBySpelling, "not every subword with the same characters"),
        (UnknownVanishes, "an unknown character is omitted"),
        (UnknownWordIsOne, "several unknown characters have one UNK_ID"),
        (NoEnd, "the last id must be END_ID"),
        (WholeWordsFirst, "the word is looked up as a whole"),
        (EndIsWritten, "Skip the ids of <pad>"),
        (CorrectedTokenizer(["a"], 1), "Expected a function or class"),
    ],
}

STALE = """
def learn_merges(word_counts, num_merges):
    words = [(list(word), count) for word, count in word_counts.items()]
    return [pair for pair, _ in count_pairs(words).most_common(num_merges)]
"""

LEFT_TO_RIGHT = """
def encode_word(word, merges):
    pieces = []
    for character in word:
        if pieces and (pieces[-1], character) in merges:
            pieces[-1] += character
        else:
            pieces.append(character)
    return pieces


def piece_ids(words, merges, ids, unknown_id):
    return [ids.get(piece, unknown_id) for word in words for piece in encode_word(word, merges)]
"""

SORTED = """
class CorrectedTokenizer:
    def __init__(self, sentences, num_merges):
        words = Counter("▁" + word for sentence in sentences for word in sentence.split())
        self.merges = sorted(byte_pair.learn_merges(words, num_merges))
        characters = sorted({character for word in words for character in word})
        self.pieces = [*SPECIAL_TOKENS, *characters, *("".join(pair) for pair in self.merges)]
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    def encode(self, text):
        words = ["▁" + word for word in text.split()]
        pieces = [piece for word in words for piece in byte_pair.merge_word(word, self.merges)]
        return [*(self.ids.get(piece, UNK_ID) for piece in pieces), END_ID]

    def decode(self, ids):
        pieces = [self.pieces[i] for i in ids if i not in (PAD_ID, START_ID, END_ID)]
        return "".join(pieces).replace("▁", " ").strip()
"""

HANDED_IN = {
    "left_to_right": (
        {"encoding": LEFT_TO_RIGHT},
        ["encoding-check"],
        "processed once from left to right",
    ),
    "stale_counts": (
        {"merges": STALE},
        ["merges-check"],
        "All merges are chosen by the counts of the first step",
    ),
    "order_lost": (
        {"bug-hunt": SORTED},
        ["bug-hunt-check"],
        "not applied in the order in which they were learned",
    ),
}
