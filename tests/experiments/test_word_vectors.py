"""The numbers of the word vectors' experiment, against vectors whose answers are known."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from attentively.data import words
from attentively.experiments import word_vectors
from attentively.experiments.word_vectors import SHARES, analogy_numbers, measure, scores
from attentively.word_vectors.vector_config import VectorConfig
from attentively.word_vectors.vectors import WordVectors, load_pretrained_vectors

RESULTS = Path(__file__).parents[2] / "book" / "results" / "word-vectors.json"


def plurals():
    """A cat's plural hardly differs from it, a dog's does."""
    table = {
        "cat": [1.0, 0.1, 0.0],
        "cats": [1.0, 0.0, 0.1],
        "dog": [0.0, 1.0, 0.0],
        "dogs": [0.0, 1.0, 0.6],
        "pup": [0.0, 1.0, -0.5],
    }
    return WordVectors(list(table), torch.tensor(list(table.values())))


QUESTIONS = [
    ("cat", "cats", "dog", "dogs"),
    ("dog", "dogs", "cat", "cats"),
    ("cats", "cat", "dogs", "dog"),
    ("cat", "cats", "dog", "dogs"),
    ("pup", "dogs", "dog", "cats"),
    ("cat", "cats", "emu", "emus"),
]


def test_numbers_by_hand():
    vectors = plurals()
    known = QUESTIONS[:5]
    assert vectors.answers(known) == ["dogs", "cats", "dog", "dogs", "cat"]
    assert vectors.answers(known, exclude=False) == ["dog", "cats", "dogs", "dog", "dogs"]
    assert vectors.answers(known, only_c=True) == ["pup", "cats", "dog", "pup", "cat"]
    assert analogy_numbers(vectors, QUESTIONS) == {
        "questions": 6,
        "asked": 5,
        "coverage": 0.8333,
        "excluding": 4 / 5,
        "including": 1 / 5,
        "only_c": 2 / 5,
        "repeated": 4 / 5,
        "repeated_c": 3 / 5,
    }


def test_a_section_that_cannot_be_asked_has_no_shares():
    numbers = analogy_numbers(plurals(), QUESTIONS[5:])
    assert (numbers["asked"], numbers["coverage"], numbers["excluding"]) == (0, 0.0, None)
    assert analogy_numbers(plurals(), [])["coverage"] is None


def test_sections_are_scored_apart_and_together():
    judged = [("cat", "cats", 9.0), ("cat", "dog", 1.0), ("dog", "pup", 8.0), ("emu", "cat", 1.0)]
    found = scores(plurals(), {"one": QUESTIONS[:2], "two": QUESTIONS[2:]}, judged)
    assert found["analogies"] == analogy_numbers(plurals(), QUESTIONS)
    assert found["analogies_by_section"] == {
        "one": analogy_numbers(plurals(), QUESTIONS[:2]),
        "two": analogy_numbers(plurals(), QUESTIONS[2:]),
    }
    similarities = found["similarities"]
    assert (similarities["pairs"], similarities["asked"]) == (4, 3)
    assert similarities["coverage"] == 0.75


def test_texts_of_one_seed_hold_one_another(monkeypatch, tmp_path):
    """And the questions common to all are those of the smallest, so shares can be compared."""
    seen, train_vectors = [], word_vectors.train_vectors

    def kept(sentences, config, progress):
        seen.append(sentences)
        return train_vectors(sentences, config, progress)

    monkeypatch.setattr(word_vectors, "train_vectors", kept)
    rows = [measure(share, seed=3, quick=True, directory=tmp_path) for share in SHARES]
    whole = word_vectors.toy_sentences()
    assert [len(sentences) for sentences in seen] == [100, 200, 400, 800]
    assert seen[-1] == whole  # in the order of the text
    for smaller, larger in pairwise(seen):
        assert {tuple(one) for one in smaller} <= {tuple(one) for one in larger}
    assert [row["words_of_text"] for row in rows] == [sum(map(len, one)) for one in seen]
    assert len({row["analogies_common"]["asked"] for row in rows}) == 1
    assert rows[0]["analogies_common"]["asked"] == rows[0]["analogies"]["asked"]
    assert {row["config"]["seed"] for row in rows} == {3}  # the vectors begin with it too
    assert rows[-1]["training_steps"] > rows[0]["training_steps"]
    measure(SHARES[0], seed=4, quick=True, directory=tmp_path)
    assert seen[-1] != seen[0]


def published():
    return json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]


def test_the_shipped_vectors_are_a_run_of_the_experiment():
    """The plot of the chapter and the vectors that it asks agree, but for rounding to 16 bits."""
    said = load_pretrained_vectors("tatoeba-english").provenance
    [row] = [row for row in published() if (row["share"], row["seed"]) == (1.0, said["seed"])]
    assert row["config"] == said["training"] == VectorConfig(seed=said["seed"]).to_dict()
    assert row["words_of_text"] == said["words_of_text"]
    for custom in ("excluding", "including", "only_c", "repeated"):
        found = said["evaluation"]["analogies"][custom]
        assert found == pytest.approx(row["analogies"][custom], abs=0.003)
    spearman = said["evaluation"]["similarities"]["spearman"]
    assert spearman == pytest.approx(row["similarities"]["spearman"], abs=0.002)


@pytest.mark.real_data("analogies", "wordsim353")
def test_the_shipped_vectors_score_what_their_provenance_says():
    vectors = load_pretrained_vectors("tatoeba-english")
    found = scores(vectors, words.analogies(), words.similarities())
    for custom, share in vectors.provenance["evaluation"]["analogies"].items():
        assert found["analogies"][custom] == pytest.approx(share, abs=0.0005), custom
    assert found["similarities"] == vectors.provenance["evaluation"]["similarities"]
