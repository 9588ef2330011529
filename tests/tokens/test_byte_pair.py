"""Merges are counted as on paper, equal the `tokenizers` library's, and bytes spell any text."""

import json
import random
from collections import Counter
from itertools import pairwise

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers, trainers

from attentively.data import tatoeba, toy
from attentively.models.checkpoints import load_pretrained
from attentively.tokens.byte_pair import from_bytes, join, learn_merges, merge_word, to_bytes
from attentively.tokens.vocabulary import BPETokenizer


def library_merges(word_counts, num_merges):
    """Train the library on the same words; return its merges and the tokenizer."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    alphabet = {character for word in word_counts for character in word}
    trainer = trainers.BpeTrainer(vocab_size=len(alphabet) + num_merges, show_progress=False)
    text = (" ".join([word] * count) for word, count in word_counts.items())
    tokenizer.train_from_iterator(text, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(pair) for pair in merges], tokenizer


def random_corpus(seed):
    chance = random.Random(seed)
    letters = "abcdefgh"[: chance.randint(1, 8)]
    words = ("".join(chance.choices(letters, k=chance.randint(1, 11))) for _ in range(23))
    return {word: chance.randint(1, 7) for word in words}  # few counts, so many ties


def recounted(word_counts, num_merges):
    """The same by counting every word anew at each turn: slow, and plain to see."""
    words = {word: list(word) for word in word_counts}
    listed = sorted({character for word in word_counts for character in word})
    merges = []
    while len(merges) < num_merges:
        seen = Counter()
        for word, pieces in words.items():
            for pair in pairwise(pieces):
                seen[pair] += word_counts[word]
        if not seen:
            break
        best = max(seen, key=lambda p: (seen[p], -listed.index(p[0]), -listed.index(p[1])))
        merges.append(best)
        if "".join(best) not in listed:
            listed.append("".join(best))
        words = {word: join(pieces, best) for word, pieces in words.items()}
    return merges


def test_by_hand():
    """t h is found 7 times, then th e 5 times, then a t 3 times."""
    counts = {"the": 5, "th": 2, "at": 3}
    assert learn_merges(counts, 3) == [("t", "h"), ("th", "e"), ("a", "t")]
    assert learn_merges(counts, 2) == [("t", "h"), ("th", "e")]
    assert learn_merges(counts, 0) == []


def test_of_equal_pairs_the_earlier_listed_comes_first():
    assert learn_merges({"zb": 2, "ay": 2}, 2) == [("a", "y"), ("z", "b")]
    assert learn_merges({"ac": 2, "ab": 2}, 2) == [("a", "b"), ("a", "c")]
    # A joined piece is listed after every character, though "ab" sorts before "z".
    assert learn_merges({"ab": 5, "abx": 3, "zy": 3}, 3) == [("a", "b"), ("z", "y"), ("ab", "x")]


def test_a_word_counts_as_often_as_it_occurs():
    assert learn_merges({"ab": 1, "abc": 1, "xy": 3}, 1) == [("x", "y")]


def test_a_letter_three_times_holds_its_pair_twice_and_joins_once():
    assert join("aaa", ("a", "a")) == ["aa", "a"]
    assert learn_merges({"aaa": 2, "xy": 3}, 2) == [("a", "a"), ("x", "y")]


def test_the_same_letters_in_another_cut_are_another_pair():
    assert join(["a", "bc", "ab", "c"], ("ab", "c")) == ["a", "bc", "abc"]


def test_it_stops_where_every_word_is_one_piece():
    assert learn_merges({"the": 1, "a": 9}, 99) == [("h", "e"), ("t", "he")]


@pytest.mark.parametrize("seed", range(60))
def test_random_corpora_give_the_librarys_merges_and_pieces(seed):
    counts = random_corpus(seed)
    expected, tokenizer = library_merges(counts, 47)
    assert learn_merges(counts, len(expected)) == expected == recounted(counts, len(expected))
    for word in [*counts, *random_corpus(seed + 1000)]:
        known = "".join(letter for letter in word if tokenizer.token_to_id(letter) is not None)
        assert merge_word(known, expected) == tokenizer.encode(known).tokens


def test_merges_in_any_order_are_applied_as_the_library_does():
    """One place at a time: a pair made on the left may come before the same pair on the right."""
    chance = random.Random(0)
    for _ in range(300):
        pieces, merges = list("abc"), []
        for _ in range(13):
            pair = (chance.choice(pieces), chance.choice(pieces))
            if pair not in merges:
                merges.append(pair)
                pieces.append("".join(pair))
        vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
        chance.shuffle(merges)
        library = models.BPE(vocabulary, merges)
        word = "".join(chance.choices("abc", k=19))
        assert merge_word(word, merges) == [token.value for token in library.tokenize(word)]


def test_the_rank_decides_not_the_place_in_the_word():
    merges = [("b", "c"), ("a", "b")]
    assert merge_word("abc", merges) == ["a", "bc"]
    assert merge_word("abc", merges[::-1]) == ["ab", "c"]


def test_ranks_serve_as_well_as_merges():
    merges = [("a", "b"), ("ab", "c")]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    assert merge_word("abcab", ranks) == merge_word("abcab", merges) == ["abc", "ab"]
    backwards = {("a", "b"): 7, ("b", "c"): 3}  # the rank counts, not the place in the mapping
    assert merge_word("abc", backwards) == ["a", "bc"]


def test_a_word_without_merges_stays_in_characters():
    assert merge_word("lait", []) == ["l", "a", "i", "t"]
    assert merge_word("", [("a", "b")]) == []


def counts_and_merges(tokenizer, sentences):
    counts = Counter(word for sentence in sentences for word in tokenizer.words(sentence))
    return counts, tokenizer.merges


def test_the_toy_corpus_gives_the_librarys_merges():
    pairs = toy.load("train", 300)
    sentences = [text for pair in pairs for text in (pair.src_text, pair.tgt_text)]
    counts, merges = counts_and_merges(BPETokenizer.train(sentences, 300), sentences)
    assert len(merges) > 200
    assert learn_merges(counts, len(merges)) == merges


@pytest.mark.slow
@pytest.mark.real_data("tatoeba-en-fr")
def test_two_thousand_merges_of_a_real_corpus_are_the_librarys():
    pairs = tatoeba.load("train")[::5]
    sentences = [text for pair in pairs for text in (pair.src, pair.tgt)]
    counts, merges = counts_and_merges(BPETokenizer.train(sentences, 2_200), sentences)
    assert learn_merges(counts, 2_000) == merges[:2_000]


def test_the_shipped_tokenizers_merges_give_its_pieces():
    tokenizer = load_pretrained("tatoeba-en-fr-additive").src_tokenizer
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    text = "Where’s the old  red car? L'animal n'a pas traversé la rue : 1984, anticonstitutionnel."
    by_hand = [piece for word in tokenizer.words(text) for piece in merge_word(word, ranks)]
    assert by_hand == tokenizer.tokens(tokenizer.encode(text)[:-1])
    assert len(by_hand) > len(text.split())


@pytest.mark.parametrize(
    ("word_counts", "num_merges", "message"),
    [
        ({}, 1, "is the corpus empty"),
        ({"": 2}, 1, "word '' has count 2"),
        ({"the": 0}, 1, "word 'the' has count 0"),
        ({"the": 1}, -1, "num_merges=-1 must not be negative"),
    ],
)
def test_bad_input_is_refused(word_counts, num_merges, message):
    with pytest.raises(ValueError, match=message):
        learn_merges(word_counts, num_merges)


@given(st.text())
def test_bytes_spell_any_text(text):
    symbols = to_bytes(text)
    assert len(symbols) == len(text.encode())
    assert all(ord(symbol) < 256 for symbol in symbols)
    assert from_bytes(symbols) == text


def test_bytes_of_a_known_text():
    assert to_bytes("é") == "Ã©"  # the two bytes C3 A9
    assert from_bytes("Ã") == "�"  # half a character
    with pytest.raises(ValueError, match="latin-1"):
        from_bytes("€")


def test_merges_over_bytes_round_trip():
    word = to_bytes("شکریہ")
    assert from_bytes("".join(merge_word(word, learn_merges({word: 3}, 5)))) == "شکریہ"


# Overlooked merges


def test_without_a_chance_nothing_is_overlooked_and_with_certainty_everything():
    merges = [("a", "b"), ("ab", "c")]
    assert merge_word("abcab", merges, 0.0, random.Random(0)) == ["abc", "ab"]
    assert merge_word("abcab", merges, 1.0, random.Random(0)) == list("abcab")


def test_a_pair_is_overlooked_as_often_as_asked():
    """Of one merge, so that it is overlooked once at most."""
    chance = random.Random(0)
    cuts = Counter(tuple(merge_word("ab", [("a", "b")], 0.3, chance)) for _ in range(5_000))
    assert cuts[("a", "b")] / cuts.total() == pytest.approx(0.3, abs=0.03)


def test_what_was_overlooked_can_be_joined_after_another_join():
    """Chance is asked anew before every join: both orders lead to the whole word."""
    merges = [("a", "b"), ("c", "d"), ("ab", "cd")]
    chance = random.Random(0)
    cuts = Counter("|".join(merge_word("abcd", merges, 0.5, chance)) for _ in range(4_000))
    assert set(cuts) == {"abcd", "ab|cd", "ab|c|d", "a|b|cd", "a|b|c|d"}
    # All at once is the only way to stop: 1/4 at the start, of two pairs.
    assert cuts["a|b|c|d"] / cuts.total() == pytest.approx(0.25, abs=0.03)


def test_the_same_chance_gives_the_same_cut():
    merges = [("a", "b"), ("ab", "c"), ("b", "c")]
    first, second = (
        [merge_word("abcabc", merges, 0.4, random.Random(7)) for _ in range(5)] for _ in range(2)
    )
    assert first == second
    assert all("".join(cut) == "abcabc" for cut in first)


@pytest.mark.parametrize("dropout", [-0.1, 1.1])
def test_a_share_that_is_none_is_refused(dropout):
    with pytest.raises(ValueError, match=r"dropout=.* must be from 0 to 1"):
        merge_word("ab", [("a", "b")], dropout)
