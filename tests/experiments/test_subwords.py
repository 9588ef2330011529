"""What the experiment counts is what a pencil counts, on a corpus of a few words."""

from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from attentively.experiments import subwords
from attentively.experiments.subwords import SIDES, Vocabulary
from attentively.experiments.toy_translation import as_text
from attentively.tokens.vocabulary import SPECIAL_TOKENS, UNK

TRAIN = {
    "src": Counter({"▁Tom": 20, "▁sat": 9, ".": 25}),
    "tgt": Counter({"▁Tom": 11, "▁lu": 3, ".": 11}),
}
VALIDATION = [
    {"src": ["▁Tom", "▁sat", "."], "tgt": ["▁Tom", "▁lut", "."]},
    {"src": ["▁Kim", "."], "tgt": ["▁Kim", "▁lu", "."]},
]


@pytest.fixture
def by_hand(monkeypatch):
    monkeypatch.setattr(subwords, "_train_counts", lambda seed, quick: TRAIN)
    monkeypatch.setattr(subwords, "_validation_words", lambda seed, quick: VALIDATION)

    def measure(kind, size=0):
        return subwords.measure(kind, size, seed=0, quick=True, directory=Path())

    return measure


def test_words(by_hand):
    """Tom and the full stop are listed, "▁sat" too; of eleven words the rest is unknown."""
    row = by_hand("words", len(SPECIAL_TOKENS) + 3)
    assert row["vocabulary"] == 7
    assert (row["src_tokens"], row["tgt_tokens"]) == (2.5, 3)
    assert row["unknown_tokens"] == pytest.approx(4 / 11, abs=1e-5)  # lut, lu, Kim twice
    assert row["pairs_with_unknown"] == 1
    assert row["whole_words"] == pytest.approx(7 / 11, abs=1e-4)
    assert row["rare_pieces"] == pytest.approx(1 / 3, abs=1e-4)  # sat, 9 times
    assert row["median_times_seen"] == 31  # Tom, on both sides
    assert row["pieces_of_both_languages"] == 2
    # "▁Kim" is unknown in the source, where training had no unknown word.
    assert row["tokens_unseen_on_their_side"] == pytest.approx(1 / 11, abs=1e-5)


def test_characters(by_hand):
    row = by_hand("characters")
    assert row["vocabulary"] == len(set("▁Tomsat.lu")) + len(SPECIAL_TOKENS)
    assert row["src_tokens"] == fmean([4 + 4 + 1, 4 + 1])
    assert row["unknown_tokens"] == pytest.approx(4 / 31, abs=1e-5)  # K and i, twice
    # Those, and the t of "lut", which French never had.
    assert row["tokens_unseen_on_their_side"] == pytest.approx(5 / 31, abs=1e-5)
    assert row["whole_words"] == pytest.approx(4 / 11, abs=1e-4)  # the full stops


def test_ten_times_is_not_rare_and_unknown_is_no_piece(by_hand, monkeypatch):
    counts = {"src": Counter({"a": 9, "b": 10}), "tgt": Counter({"c": 11, "d": 8})}
    monkeypatch.setattr(subwords, "_train_counts", lambda seed, quick: counts)
    assert by_hand("words", len(SPECIAL_TOKENS) + 4)["rare_pieces"] == 1 / 2  # a and d
    row = by_hand("words", len(SPECIAL_TOKENS) + 2)  # a and d are unknown, one on each side
    assert (row["rare_pieces"], row["pieces_of_both_languages"]) == (0, 0)


def test_names_count_as_alike_only_where_their_pieces_are():
    def vocabulary(*names):
        return Vocabulary(frozenset(), lambda word: [word] if word in names else list(word))

    pairs = [
        {"src": ["▁Tom", "▁on", "-A"], "tgt": ["▁Tom", "▁on", "-A"]},  # "on" and "-A" are no names
        {"src": ["▁1984", "▁Kim"], "tgt": ["▁1984", "▁Jim"]},  # nor is Kim on both sides
    ]
    both = {"src": vocabulary("▁Tom"), "tgt": vocabulary("▁Tom")}
    one = {"src": vocabulary("▁Tom"), "tgt": vocabulary()}
    assert subwords._names_cut_alike(pairs, both) == 1
    assert subwords._names_cut_alike(pairs, one) == 0.5


def test_subwords_fill_the_vocabulary_and_shorten_the_sentences():
    sizes = (60, 120, 240)
    rows = [subwords.measure("joint", size, 0, quick=True, directory=Path()) for size in sizes]
    assert [row["vocabulary"] for row in rows] == list(sizes)
    assert sorted((row["tgt_tokens"] for row in rows), reverse=True) == [
        row["tgt_tokens"] for row in rows
    ]
    assert all(row["merges_equal_to_own"] == row["merges_compared"] > 0 for row in rows)
    assert all(row["unknown_tokens"] == 0 and row["names_cut_alike"] == 1 for row in rows)


@pytest.mark.parametrize("kind", ["wordpiece", "unigram"])
def test_other_algorithms_segment_all_known_characters(kind, monkeypatch):
    monkeypatch.setattr(subwords, "COMPARED_SIZE", 240)
    monkeypatch.setattr(subwords, "EXAMPLES", ("cat", "queens", "π"))
    row = subwords.measure(kind, 240, 0, quick=True, directory=Path())
    assert row["vocabulary"] <= 240
    assert row["unknown_tokens"] == 0
    assert row["src_tokens"] < subwords.measure("characters", 0, 0, True, Path())["src_tokens"]
    for word, found in row["examples"].items():
        joined = "".join(found).removeprefix("▁").replace("##", "")
        assert joined == (UNK if word == "π" else word)


def test_the_librarys_wordpiece_vocabulary_is_learned_from_pair_counts():
    counts = Counter({"▁the": 4, "▁cat": 3, "▁at": 2, "▁hat": 1, "▁that": 1})
    settings = {"vocab_size": 18, "special_tokens": list(SPECIAL_TOKENS), "show_progress": False}
    bpe = tokenizers.Tokenizer(models.BPE(unk_token=UNK, continuing_subword_prefix="##"))
    bpe.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(continuing_subword_prefix="##", **settings)
    lines = [" ".join([word[1:]] * count) for word, count in counts.items()]
    bpe.train_from_iterator(lines, trainer)
    listed = subwords._wordpiece(counts, 18)
    assert listed.pieces == set(bpe.get_vocab()) - {*SPECIAL_TOKENS}


def test_rank_times_count_is_compared_from_rank_10_to_1000():
    zipf = [3600 // rank for rank in range(1, 1002)]
    zipf[9], zipf[0], zipf[1000] = 720, 10**6, 0
    assert subwords._rank_times_count_ratio(zipf) == round(7200 / 2703, 2)
    assert subwords._rank_times_count_ratio([5, 4]) is None


def test_merges_are_compared_with_those_by_hand(monkeypatch):
    own = subwords._own_merges(0, True)
    monkeypatch.setattr(subwords, "_own_merges", lambda *_: [own[1], own[0], *own[2:]])
    row = subwords.measure("joint", 120, 0, quick=True, directory=Path())
    assert row["merges_equal_to_own"] == row["merges_compared"] - 2


def test_separate_vocabularies_share_the_rows():
    row = subwords.measure("separate", 240, 0, quick=True, directory=Path())
    assert row["vocabulary"] == 240
    lists = subwords._vocabularies("separate", 240, 0, True)
    assert all(len(lists[side].pieces) == 120 - len(SPECIAL_TOKENS) for side in SIDES)
    assert lists["src"].pieces != lists["tgt"].pieces


def test_a_smaller_vocabulary_is_the_beginning_of_a_larger_one():
    tokenizer = subwords._tokenizer("both", 0, True)
    few, more = subwords._merges(100, tokenizer), subwords._merges(200, tokenizer)
    assert 0 < len(few) < len(more)
    assert more[: len(few)] == few
    assert subwords._merges(10**6, tokenizer) == tokenizer.merges


def test_an_unknown_character_stays_unknown_and_costs_one_token():
    listed = subwords._subwords({"ab": 1}, [("a", "b")])
    assert listed.cut("abcab") == ["ab", UNK, "ab"]


def test_each_seed_leaves_other_sentences_away():
    one, other = (subwords._train_pairs(seed, True) for seed in (0, 1))
    assert len(one) == len(other) == 270
    assert set(one) != set(other)


@pytest.mark.parametrize("quick", [True, False])
def test_merges_are_learned_from_one_split_and_measured_on_another(monkeypatch, quick):
    asked = []

    def load(split, *_):
        asked.append(split)
        return toy_load(split, 9) if quick else as_text(toy_load(split, 9))

    toy_load = subwords.toy.load
    monkeypatch.setattr(subwords.toy if quick else subwords.tatoeba, "load", load)
    monkeypatch.setattr(subwords, "_train_pairs", subwords._train_pairs.__wrapped__)
    subwords._train_pairs(0, quick)
    assert asked == ["train"]
    monkeypatch.setattr(subwords, "_tokenizer", lambda *_: subwords.BPETokenizer.train(["a b"], 50))
    subwords._validation_words.__wrapped__(0, quick)
    assert asked == ["train", "validation"]


def test_the_share_seen_once_is_of_distinct_words(monkeypatch):
    counts = {"src": Counter(["the", "cat", "drank", "the", "milk"]), "tgt": Counter("aabb")}
    monkeypatch.setattr(subwords, "_train_counts", lambda seed, quick: counts)
    row = subwords.measure("corpus", 0, 0, quick=True, directory=Path())
    assert (row["src"]["seen_once"], row["tgt"]["seen_once"]) == (3 / 4, 0)
    assert row["src"]["zipf"] == [[1, 2], [2, 1], [4, 1]]
    assert row["tgt"]["zipf"] == [[1, 2], [2, 2], [2, 2]]


def test_new_words_become_fewer_the_more_is_read():
    row = subwords.measure("corpus", 0, 0, quick=True, directory=Path())
    for side in SIDES:
        counts = [count for _, count in row[side]["zipf"]]
        assert counts == sorted(counts, reverse=True)
        assert row[side]["zipf"][-1] == [row[side]["distinct_words"], 1]
        shares = [share for _, share in row[side]["unknown_after"]]
        assert shares == sorted(shares, reverse=True)
        met = subwords._train_counts(0, True)[side]
        asked = [word for pair in subwords._validation_words(0, True) for word in pair[side]]
        unmet = fmean(word not in met for word in asked)
        assert row[side]["unknown_after"][-1] == (row["training_pairs"], round(unmet, 4))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind='syllables' is unknown: choose one of corpus"):
        subwords.measure("syllables", 500, 0, quick=True, directory=Path())
