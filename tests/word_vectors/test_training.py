"""Vectors from a whole text: the same pairs as one by one, and words of like company near."""

import math
import random
import sys
from collections import Counter
from dataclasses import replace

import pytest
import torch

from attentively.word_vectors import training
from attentively.word_vectors.skip_gram import SkipGram, context_pairs
from attentively.word_vectors.training import (
    Text,
    VectorConfig,
    as_text,
    batches,
    frequent_words,
    train_vectors,
    window_pairs,
)

CHANCE = random.Random(0)
SENTENCES = [
    [CHANCE.choice("abcdefghijk") for _ in range(CHANCE.choice([0, 1, 2, 3, 7, 13]))]
    for _ in range(60)
]
QUICK = VectorConfig(embedding_dim=5, min_count=1, epochs=1, batch_size=17, threshold=1.0)


# The words


def test_frequent_words_by_hand():
    sentences = [["b", "a", "c"], ["a", "b"], ["d", "a"]]
    assert frequent_words(sentences, 1) == ["a", "b", "c", "d"]  # the most frequent first
    assert frequent_words(sentences, 2) == ["a", "b"]
    assert frequent_words([["c", "b", "a"]], 1) == ["a", "b", "c"]  # then by the alphabet
    with pytest.raises(ValueError, match=r"none of the 4 words of 3 sentences occurs min_count=4"):
        frequent_words(sentences, 4)
    with pytest.raises(ValueError, match="none of the 0 words of 0 sentences"):
        train_vectors([])


def test_rare_words_leave_and_ranks_close():
    text = as_text([["b", "x", "a"], ["x"], [], ["a"]], ["a", "b"])
    assert text.words.tolist() == [2, 1, 1]  # 0 is padding
    assert text.sentences.tolist() == [0, 0, 3]
    assert window_pairs(text, torch.ones(3, dtype=torch.long)).tolist() == [[2, 1], [1, 2]]


# The pairs


def from_the_loop(sentences, window):
    words = frequent_words(sentences, 1)
    ids = [[1 + words.index(word) for word in sentence] for sentence in sentences]
    return Counter(pair for sentence in ids for pair in context_pairs(sentence, window))


def from_tensors(sentences, window, pairs_of=window_pairs):
    text = as_text(sentences, frequent_words(sentences, 1))
    reach = torch.full_like(text.words, window)
    return Counter((centre, context) for centre, context in pairs_of(text, reach).tolist())


def across_sentences(text, reach):
    """A broken twin: the first word of a sentence sees the last of the one before."""
    return window_pairs(Text(text.words, torch.zeros_like(text.sentences)), reach)


@pytest.mark.parametrize("window", [1, 2, 5, 50])
def test_the_pairs_are_those_of_the_loop(window):
    assert from_tensors(SENTENCES, window) == from_the_loop(SENTENCES, window)
    assert from_tensors(SENTENCES, window, across_sentences) != from_the_loop(SENTENCES, window)


def test_every_word_has_a_reach_of_its_own():
    """The centre's reach decides, not that of the word it looks at."""
    text = Text(torch.tensor([1, 2, 3, 4]), torch.zeros(4, dtype=torch.long))
    pairs = window_pairs(text, torch.tensor([3, 1, 1, 2]))
    expected = {(1, 2), (1, 3), (1, 4), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 2)}
    assert Counter(map(tuple, pairs.tolist())) == Counter(expected)


def test_nothing_has_no_pairs():
    nothing = torch.zeros(0, dtype=torch.long)
    assert window_pairs(Text(nothing, nothing), nothing).shape == (0, 2)


def drawn(config, keep, length=101, seed=0):
    """Return the batches over one long sentence of words 1, 2, 3, …"""
    text = Text(torch.arange(1, length + 1), torch.zeros(length, dtype=torch.long))
    generator = torch.Generator().manual_seed(seed)
    return list(batches(text, torch.full((length + 1,), keep), config, generator))


def test_a_drawn_reach_sees_near_words_more_often():
    config = VectorConfig(window=4, epochs=40)
    pairs = torch.cat([batch.pairs for batch in drawn(config, keep=1.0)])
    steps = Counter((pairs[:, 0] - pairs[:, 1]).abs().tolist())
    shares = [steps[distance] / (40 * 2 * (101 - distance)) for distance in (1, 2, 3, 4)]
    assert shares == pytest.approx([1, 3 / 4, 2 / 4, 1 / 4], abs=0.03)
    assert set(steps) == {1, 2, 3, 4}


def test_thinning_brings_far_words_together():
    config = VectorConfig(window=1, epochs=40)
    pairs = torch.cat([batch.pairs for batch in drawn(config, keep=0.5)])
    assert len(pairs) == pytest.approx(40 * 2 * 50, rel=0.05)
    assert (pairs[:, 0] - pairs[:, 1]).abs().max() > 3


def test_each_epoch_is_drawn_anew_and_shuffled():
    config = VectorConfig(window=4, epochs=2, batch_size=9999)
    first, second = drawn(config, keep=1.0)
    assert (first.done, second.done) == (0, 0.5)
    assert Counter(map(tuple, first.pairs.tolist())) != Counter(map(tuple, second.pairs.tolist()))
    centres = first.pairs[:, 0]
    assert not torch.equal(centres, centres.sort().values)


def test_batches_make_the_whole():
    config = VectorConfig(window=4, epochs=1, batch_size=13)
    parts = drawn(config, keep=1.0)
    (whole,) = drawn(VectorConfig(window=4, epochs=1, batch_size=9999), keep=1.0)
    assert torch.equal(torch.cat([part.pairs for part in parts]), whole.pairs)
    assert {len(part.pairs) for part in parts[:-1]} == {13}
    done = [part.done for part in parts]
    assert done == sorted(set(done))
    assert done[-1] == pytest.approx(1 - len(parts[-1].pairs) / len(whole.pairs))


# The training


def company(copies=90):
    """Cats and dogs stand in the same places, cars and trains in others."""
    chance = random.Random(0)
    animals = (["cat", "dog"], ["fed", "furry"])
    vehicles = (["car", "train"], ["drove", "rusty"])
    sentences = []
    for _ in range(copies):
        nouns, (verb, adjective) = chance.choice([animals, vehicles])
        sentences.append(["we", verb, "the", adjective, chance.choice(nouns)])
    return sentences


LEARNING = VectorConfig(
    embedding_dim=11, window=3, epochs=20, batch_size=128, learning_rate=0.05, threshold=0.05
)


def like_company_is_near(vectors) -> bool:
    return (
        vectors.nearest("cat", 1)[0].word == "dog"
        and vectors.nearest("train", 1)[0].word == "car"
        and vectors.similarity("cat", "dog") > vectors.similarity("cat", "car") + 0.3
    )


def test_words_of_like_company_come_near():
    trained = train_vectors(company(), LEARNING)
    assert like_company_is_near(trained.vectors)
    assert trained.records[-1]["train_loss"] < trained.records[0]["train_loss"] - 0.2
    scrambled = company()
    words = [word for sentence in scrambled for word in sentence]
    random.Random(1).shuffle(words)
    scrambled = [words[start : start + 5] for start in range(0, len(words), 5)]
    assert not like_company_is_near(train_vectors(scrambled, LEARNING).vectors)


def test_the_same_seed_gives_the_same_vectors():
    settings = {"embedding_dim": 5, "epochs": 1, "batch_size": 64, "threshold": 1.0}
    one, same, other = (
        train_vectors(company(), VectorConfig(seed=seed, **settings)).vectors for seed in (1, 1, 2)
    )
    assert one.words == same.words == other.words
    assert torch.equal(one.vectors, same.vectors)
    assert not torch.equal(one.vectors, other.vectors)


def test_the_seed_settles_the_first_vectors_too():
    """With steps too small to see, the vectors stay where they began."""
    one, same, other = (
        train_vectors(company(), replace(QUICK, seed=seed, learning_rate=1e-20)).vectors.vectors
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert (one - other).abs().max() > 0.05


@pytest.fixture
def updates(monkeypatch):
    """What each update was given: its pairs and its drawn words."""
    seen = []

    class Kept(SkipGram):
        def forward(self, *given):
            seen.append(given)
            return super().forward(*given)

    monkeypatch.setattr(training, "SkipGram", Kept)
    return seen


def test_updates_are_those_of_adam_with_a_rate_that_falls(updates):
    config = replace(QUICK, learning_rate=0.05, seed=3)
    trained = train_vectors(company(), config)
    torch.manual_seed(3)
    model = SkipGram(1 + len(trained.vectors.words), config.embedding_dim)
    optimizer = torch.optim.Adam(model.parameters())
    pairs, done = sum(len(centre) for centre, _, _ in updates), 0
    for centre, context, negatives in updates:
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - done / pairs)
        optimizer.zero_grad()
        model(centre, context, negatives).backward()
        optimizer.step()
        done += len(centre)
    torch.testing.assert_close(trained.vectors.vectors, model.vectors[1:])


def test_the_seed_settles_what_is_drawn(updates):
    found = []
    for seed in (1, 1, 2):
        updates.clear()
        train_vectors(company(), replace(QUICK, seed=seed))
        found.append([torch.cat(rows).tolist() for rows in zip(*updates, strict=True)])
    one, same, other = found
    assert one == same
    assert all(ours != theirs for ours, theirs in zip(one, other, strict=True))


def test_negatives_are_drawn_by_the_power_of_their_counts(updates):
    """Of 41 words a thousand times, and 81 words 16 times as seldom: 41 * 8 to 81, not 41 * 16."""
    often, seldom = [f"often{index}" for index in range(41)], [f"s{index}" for index in range(81)]
    sentences = [often] * 16 + [seldom]
    train_vectors(sentences, replace(QUICK, negatives=3, batch_size=4096))
    drawn = torch.cat([negatives for _, _, negatives in updates])
    assert drawn.shape[1] == 3
    assert not (drawn == 0).any()  # padding is no word
    share = (drawn <= 41).double().mean().item()
    assert share == pytest.approx(41 * 8 / (41 * 8 + 81), abs=0.02)


def test_the_device_is_the_one_that_is_asked_for(monkeypatch):
    monkeypatch.setenv("ATTENTIVELY_DEVICE", "abacus")
    with pytest.raises(ValueError, match="abacus"):
        train_vectors(company(), QUICK)


def test_progress_is_shown_to_those_who_want_it(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert not training._bar(progress=True).disable
    assert training._bar(progress=False).disable


def test_the_text_may_be_changed_without_harm():
    sentences = company()
    before = [list(sentence) for sentence in sentences]
    train_vectors(sentences, QUICK)
    assert sentences == before


def test_rare_words_get_no_vector():
    sentences = [*company(), ["we", "fed", "the", "axolotl"]]
    vectors = train_vectors(sentences, replace(QUICK, min_count=5)).vectors
    assert "axolotl" not in vectors
    assert vectors.words[0] in ("we", "the")
    assert vectors.vectors.shape == (10, 5)
    assert not vectors.vectors.requires_grad


def test_the_log_sums_up_every_step(monkeypatch):
    monkeypatch.setattr(training, "RECORDED_EVERY", 7)
    losses = []

    class Kept(SkipGram):
        def forward(self, *given):
            losses.append(super().forward(*given))
            return losses[-1]

    monkeypatch.setattr(training, "SkipGram", Kept)
    config = replace(QUICK, epochs=2, batch_size=97, learning_rate=0.01)
    trained = train_vectors(company(), config)
    steps = [record["step"] for record in trained.records]
    assert steps == [*range(7, len(losses) + 1, 7), *([len(losses)] if len(losses) % 7 else [])]
    assert len(losses) % 7  # the last record sums up fewer
    for start, record in zip([0, *steps], trained.records, strict=False):
        mean = torch.stack(losses[start : record["step"]]).mean().item()
        assert record["train_loss"] == pytest.approx(mean)
    for record in trained.records:  # the rate falls in a line, to nothing after the last step
        left = 1 - (record["step"] - 1) / len(losses)
        assert record["learning_rate"] == pytest.approx(0.01 * left, rel=0.1)
    assert trained.seconds >= trained.records[-1]["seconds"] - 0.01
    assert losses[0].item() == pytest.approx(6 * math.log(2))  # nothing is known


@pytest.mark.parametrize(
    ("sentences", "config"),
    [
        ([["alone"]] * 9, QUICK),
        (company(), replace(QUICK, threshold=1e-12)),
    ],
)
def test_a_text_without_neighbours_is_refused(sentences, config):
    with pytest.raises(ValueError, match=r"no word has a neighbour: .* threshold="):
        train_vectors(sentences, config)


def test_a_loss_that_is_no_number_is_named():
    config = replace(QUICK, epochs=30, batch_size=64, learning_rate=1e30)
    with pytest.raises(FloatingPointError, match=r"at step \d+: use a learning rate below 1e\+30"):
        train_vectors(company(), config)


@pytest.mark.parametrize(
    "name", ["embedding_dim", "window", "negatives", "min_count", "epochs", "batch_size"]
)
def test_numbers_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        VectorConfig(**{name: 0})


def test_a_seed_that_pytorch_does_not_take_is_refused():
    with pytest.raises(ValueError, match=f"seed={10**23} must be from"):
        VectorConfig(seed=10**23)
    assert VectorConfig(seed=-1).seed == -1


@pytest.mark.parametrize("name", ["threshold", "learning_rate"])
@pytest.mark.parametrize("value", [0.0, -0.1, float("nan")])
def test_rates_that_are_not_positive_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}={value} must be positive"):
        VectorConfig(**{name: value})


def test_any_seed_will_do():
    assert VectorConfig(seed=0).seed == 0
