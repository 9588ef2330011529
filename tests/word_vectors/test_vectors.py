"""Word vectors: what they are asked, how they are scored, and their file."""

import itertools
import json
import math
from pathlib import Path

import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from attentively import pretrained_files
from attentively.word_vectors import vectors as word_vectors
from attentively.word_vectors.vectors import (
    AT_ONCE,
    AnalogyScore,
    WordVectors,
    load_pretrained_vectors,
    pretrained_vector_names,
    spearman,
)

WORDS = {
    "king": [0.3, 0.7, 0.4],
    "queen": [0.3, 0.1, 0.9],
    "man": [0.1, 0.8, 0.0],
    "woman": [0.1, 0.2, 0.5],
    "apple": [-0.9, 0.1, 0.1],
}


def royal():
    return WordVectors(list(WORDS), torch.tensor(list(WORDS.values())))


def test_similarity_by_hand():
    vectors = WordVectors(["a", "b", "c", "d"], torch.tensor([[1.0, 0], [5, 0], [3, 4], [-2, 0]]))
    assert vectors.similarity("a", "b") == pytest.approx(1)  # length is not seen
    assert vectors.similarity("a", "c") == pytest.approx(3 / 5)
    assert vectors.similarity("a", "d") == pytest.approx(-1)


def test_similarity_is_the_cosine():
    for one in WORDS:
        for other in WORDS:
            expected = F.cosine_similarity(
                torch.tensor(WORDS[one]), torch.tensor(WORDS[other]), dim=0
            )
            assert royal().similarity(one, other) == pytest.approx(expected.item(), abs=1e-6)


def test_neighbours():
    vectors = royal()
    near = vectors.nearest("king", 3)
    assert [word for word, _ in near] == ["man", "woman", "queen"]
    assert near[0].cosine == pytest.approx(vectors.similarity("king", "man"))
    assert [near.cosine for near in near] == sorted((n.cosine for n in near), reverse=True)
    assert len(vectors.nearest("king")) == len(WORDS) - 1  # no more than there are
    assert "king" not in [word for word, _ in vectors.nearest("king")]


def by_cosines_of_every_word(a, b, c, left_out):
    """3CosAdd written out, word by word."""
    unit = {word: torch.tensor(v) / math.hypot(*v) for word, v in WORDS.items()}
    wanted = unit[b] - unit[a] + unit[c]
    cosines = {
        word: (v @ wanted / wanted.norm()).item()
        for word, v in unit.items()
        if word not in left_out
    }
    return sorted(cosines.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("exclude", [True, False])
def test_analogies_equal_the_equation(exclude):
    for question in [("man", "king", "woman"), ("king", "apple", "queen"), ("man", "man", "king")]:
        expected = by_cosines_of_every_word(*question, question if exclude else ())
        answers = royal().analogy(*question, count=9, exclude=exclude)
        assert [word for word, _ in answers] == [word for word, _ in expected]
        assert [cosine for _, cosine in answers] == pytest.approx(
            [cosine for _, cosine in expected], abs=1e-6
        )


def test_man_is_to_king_as_woman_is_to_queen():
    assert royal().analogy("man", "king", "woman")[0].word == "queen"


def test_leaving_the_question_out_can_make_the_answer():
    """Pairs that hardly differ: b - a + c is c itself, and d is merely the next."""
    words = ["man", "king", "woman", "queen"]
    table = torch.tensor([[1.0, 0, 0.1], [1, 0, 0], [0, 1, 0.1], [0, 0.9, 0.2]])
    vectors = WordVectors(words, table)
    assert vectors.analogy("man", "king", "woman")[0].word == "queen"
    assert vectors.analogy("man", "king", "woman", exclude=False)[0].word == "woman"
    question = [("man", "king", "woman", "queen")]
    assert vectors.score_analogies(question).accuracy == 1
    assert vectors.score_analogies(question, exclude=False).accuracy == 0


def test_a_score_counts_what_was_asked_and_what_was_not():
    questions = [
        ("man", "king", "woman", "queen"),
        ("man", "king", "woman", "apple"),
        ("man", "king", "woman", "duchess"),
    ]
    score = royal().score_analogies(questions)
    assert score == AnalogyScore(correct=1, asked=2, skipped=1)
    assert score.accuracy == 1 / 2
    with pytest.raises(ValueError, match="all 1 questions contain a word without a vector"):
        _ = royal().score_analogies(questions[2:]).accuracy


def test_a_word_without_a_vector_is_named():
    assert "king" in royal()
    assert "duke" not in royal()
    for ask in (royal().nearest, lambda word: royal().similarity("king", word)):
        with pytest.raises(ValueError, match="'duke' is not in the vocabulary of 5 words"):
            ask("duke")


def test_words_and_vectors_must_fit():
    with pytest.raises(ValueError, match="3 vectors for 2 words, 2 of them distinct"):
        WordVectors(["a", "b"], torch.randn(3, 2))
    with pytest.raises(ValueError, match="2 vectors for 2 words, 1 of them distinct"):
        WordVectors(["a", "a"], torch.randn(2, 2))


def test_a_vector_of_zeros_is_near_nothing():
    vectors = WordVectors(["<pad>", "a", "b"], torch.tensor([[0.0, 0], [1, 0], [-1, 1]]))
    assert vectors.similarity("<pad>", "a") == 0
    assert vectors.nearest("a", 1)[0] == ("<pad>", 0)  # for want of a better one


# Many analogies at once


def clustered(words=41, dim=5):
    """Vectors with repetitions near one another, so that every kind of answer occurs."""
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(7, dim, generator=generator)
    table = centres[torch.arange(words) % 7] + 0.4 * torch.randn(words, dim, generator=generator)
    return WordVectors([f"w{index}" for index in range(words)], table)


def questions_of(vectors, count):
    generator = torch.Generator().manual_seed(5)
    drawn = torch.randint(len(vectors.words), (count, 4), generator=generator).tolist()
    return [tuple(vectors.words[index] for index in row) for row in drawn]


def answers_one_by_one(vectors, questions, exclude):
    return [vectors.analogy(*question[:3], exclude=exclude)[0].word for question in questions]


@pytest.mark.parametrize("exclude", [True, False])
def test_many_answers_are_those_of_the_loop(exclude):
    vectors = clustered()
    questions = questions_of(vectors, AT_ONCE + 101)  # more than one product
    expected = answers_one_by_one(vectors, questions, exclude)
    assert vectors.answers(questions, exclude) == expected
    assert vectors.answers(questions, not exclude) != expected  # the custom matters
    assert len(set(expected)) > 20
    turned = [(b, a, c, d) for a, b, c, d in questions]
    assert vectors.answers(turned, exclude) != expected  # and so does the direction


def test_no_questions_have_no_answers():
    assert clustered().answers([]) == []
    with pytest.raises(ValueError, match="'duke' is not in the vocabulary"):
        clustered().answers([("w1", "w2", "duke")])


def test_only_c_is_its_nearest_neighbour_outside_the_question():
    vectors = clustered()
    questions = questions_of(vectors, 60)
    near = {word: [found for found, _ in vectors.nearest(word, 3)] for word in vectors.words}
    expected = [next(n for n in near[c] if n not in (a, b)) for a, b, c, _ in questions]
    assert vectors.answers(questions, only_c=True) == expected
    assert vectors.answers(questions) != expected
    let_in = vectors.answers(questions, exclude=False, only_c=True)
    assert let_in == [c for _, _, c, _ in questions]  # nothing is nearer to c than c


def test_a_score_is_counted_from_the_answers():
    vectors = clustered()
    questions = [*questions_of(vectors, 90), ("w1", "w2", "w3", "duke"), ("duke", "w1", "w2", "w3")]
    for exclude, only_c in itertools.product([True, False], repeat=2):
        answers = vectors.answers(questions[:90], exclude, only_c)
        score = vectors.score_analogies(questions, exclude, only_c)
        assert score.correct == sum(a == q[3] for a, q in zip(answers, questions, strict=False))
        assert score.repeated == sum(a in q[:3] for a, q in zip(answers, questions, strict=False))
        assert (score.asked, score.skipped) == (90, 2)
        assert score.coverage == 90 / 92
    assert vectors.score_analogies(questions).repeated == 0
    assert vectors.score_analogies(questions, exclude=False).repeated > 30


def test_no_questions_have_no_coverage():
    with pytest.raises(ValueError, match="the list of questions is empty"):
        _ = royal().score_analogies([]).coverage


def test_an_answer_may_point_away_from_what_is_wanted():
    """The words of the question are left out, not merely made bad answers."""
    vectors = WordVectors(["up", "ahead", "down"], torch.tensor([[1.0, 0], [1, 0.1], [-1, 0]]))
    question = ("up", "up", "ahead", "down")
    assert vectors.answers([question]) == ["down"]
    assert vectors.analogy(*question[:3])[0].cosine < 0


# As people find them


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1.0, 2.0, 3.0], [10.0, 20.0, 21.0], 1),  # only the order counts
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1),
        ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0], 1 / 2),  # 1 - 6 * (0 + 1 + 1) / (3 * 8)
        ([1.0, 1.0, 2.0], [1.0, 2.0, 3.0], 3 / math.sqrt(12)),  # ranks 1.5, 1.5, 3 against 1, 2, 3
    ],
)
def test_spearman_by_hand(one, other, expected):
    assert spearman(one, other) == pytest.approx(expected)


def test_spearman_equals_scipy_ties_and_all():
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        one, other = torch.randint(0, 6, (2, 17), generator=generator).double().tolist()
        assert spearman(one, other) == pytest.approx(scipy.stats.spearmanr(one, other).statistic)


def test_spearman_refuses_what_has_no_order():
    for one, other in ([[1.0], [2.0]], [[], []], [[1.0, 2.0], [1.0]]):
        with pytest.raises(ValueError, match="a correlation needs two lists"):
            spearman(one, other)
    with pytest.raises(ValueError, match="are equal"):
        spearman([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])


def test_similarities_are_compared_pair_by_pair():
    pairs = [
        ("king", "queen", 8.0),
        ("man", "woman", 7.0),
        ("king", "apple", 1.0),
        ("king", "man", 7.5),
        ("duke", "king", 9.0),
        ("king", "duke", 9.0),
    ]
    cosines = [royal().similarity(one, other) for one, other, _ in pairs[:4]]
    score = royal().score_similarities(pairs)
    expected = scipy.stats.spearmanr(cosines, [8, 7, 1, 7.5]).statistic
    assert score.correlation == pytest.approx(expected)
    assert (score.asked, score.skipped, score.coverage) == (4, 2, 4 / 6)


def test_of_too_few_pairs_there_is_no_correlation():
    for pairs in ([("king", "queen", 8.0)], [("duke", "king", 9.0)]):
        score = royal().score_similarities(pairs)
        assert score.correlation is None
        assert score.asked + score.skipped == 1
    pairs = [("king", "queen", 8.0), ("king", "apple", 1.0)]
    assert royal().score_similarities(pairs).correlation == pytest.approx(1)  # two are enough
    with pytest.raises(ValueError, match="the list of pairs is empty"):
        _ = royal().score_similarities([]).coverage


def test_where_all_are_alike_there_is_no_correlation():
    """Of a small text few pairs are known: that these are judged alike must lose no training."""
    pairs = [("king", "queen", 8.0), ("king", "apple", 8.0)]
    score = royal().score_similarities(pairs)
    assert (score.correlation, score.asked) == (None, 2)
    flat = WordVectors(["a", "b", "c"], torch.ones(3, 2))
    assert flat.score_similarities([("a", "b", 1.0), ("b", "c", 2.0)]).correlation is None


def test_at_least_one_word_is_asked_for():
    for count in (-1, 0):
        with pytest.raises(ValueError, match=f"count={count} must be at least 1"):
            royal().nearest("king", count)
        with pytest.raises(ValueError, match=f"count={count} must be at least 1"):
            royal().analogy("man", "woman", "king", count)


# Their file

PROVENANCE = {"command": "attentively vectors train mine.txt", "seed": 7, "licence": "CC BY 2.0"}


@pytest.fixture
def path(tmp_path):
    royal().save(tmp_path / "royal.safetensors", PROVENANCE)
    return tmp_path / "royal.safetensors"


def test_a_file_gives_back_what_was_saved(path):
    loaded = WordVectors.load(path)
    assert loaded.words == royal().words
    assert torch.equal(loaded.vectors, royal().vectors)  # as long as they were
    assert loaded.provenance == PROVENANCE
    assert loaded.nearest("king") == royal().nearest("king")


def test_any_word_can_be_saved(tmp_path):
    words = ["été", "don't", '"', "日本", ""]
    WordVectors(words, torch.randn(5, 3)).save(tmp_path / "w.safetensors", {"by": "Élodie"})
    loaded = WordVectors.load(tmp_path / "w.safetensors")
    assert loaded.words == words
    assert loaded.provenance == {"by": "Élodie"}


def test_half_precision_is_half_as_large_and_about_the_same(tmp_path):
    vectors = WordVectors([f"w{index}" for index in range(601)], torch.randn(601, 31))
    paths = [tmp_path / f"{half}.safetensors" for half in (False, True)]
    for half, path in zip((False, True), paths, strict=True):
        vectors.save(path, {}, half_precision=half)
    whole, half = (path.stat().st_size for path in paths)
    assert whole - half == 601 * 31 * 2
    loaded = WordVectors.load(paths[1])
    assert loaded.vectors.dtype == torch.float32
    assert not torch.equal(loaded.vectors, vectors.vectors)
    torch.testing.assert_close(loaded.vectors, vectors.vectors, atol=1e-3, rtol=1e-3)


def test_a_view_of_a_table_can_be_saved(tmp_path):
    """Every other number, say, of a table that goes on in memory."""
    table = torch.randn(3, 8)
    WordVectors(["a", "b", "c"], table[:, ::2]).save(tmp_path / "w.safetensors", {})
    assert torch.equal(WordVectors.load(tmp_path / "w.safetensors").vectors, table[:, ::2])


@pytest.mark.parametrize("kind", [OSError, SafetensorError])
def test_a_full_disk_leaves_the_earlier_file(path, monkeypatch, kind):
    def full_disk(tensors, where, metadata):
        Path(where).write_bytes(b"half of i")
        raise kind("No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(word_vectors, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        WordVectors(["a"], torch.ones(1, 2)).save(path, {})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path):
    for nothing in (tmp_path / "nowhere.safetensors", tmp_path):
        with pytest.raises(ValueError, match=f"no word vectors found at {nothing}"):
            WordVectors.load(nothing)


@pytest.mark.parametrize("content", [b"", b"short", b"king 0.3 0.7 0.4\n" * 100, bytes(999)])
def test_a_file_of_another_kind_is_named(tmp_path, content):
    (tmp_path / "other.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.bin is damaged or not a file of word vectors"):
        WordVectors.load(tmp_path / "other.bin")


def test_tensors_of_another_program_are_refused(tmp_path):
    save_file({"vectors": torch.ones(3, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"other\.safetensors has format None, but expected"):
        WordVectors.load(tmp_path / "other.safetensors")


def test_a_truncated_file_is_refused(path):
    content = path.read_bytes()
    for length in [*range(0, len(content), 41), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"royal\.safetensors"):
            WordVectors.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"words": None}, "'words'"),
        ({"words": "["}, "Expecting"),
        ({"words": '["a", "b"]'}, "5 vectors for 2 words, 2 of them distinct"),
        ({"words": "[1, 2, 3, 4, 5]"}, "a list of words"),
        ({"words": "7"}, "not iterable"),
        ({"provenance": None}, "'provenance'"),
        ({"provenance": "7"}, "not iterable"),
    ],
)
def test_content_that_is_wrong_is_refused(path, change, message):
    content = {
        "format": word_vectors.FORMAT,
        "words": json.dumps(royal().words),
        "provenance": "{}",
    } | change
    content = {name: text for name, text in content.items() if text is not None}
    save_file(load_file(path), path, metadata=content)
    with pytest.raises(ValueError, match=rf"royal\.safetensors is damaged: .*{message}"):
        WordVectors.load(path)


def test_vectors_that_are_no_table_are_refused(path, unchecked):
    content = {"format": word_vectors.FORMAT, "words": '["a", "b"]', "provenance": "{}"}
    for tensors in (
        {"vectors": torch.ones(2)},
        {"vectors": torch.ones(2, 3, 5)},
        {"table": torch.ones(2, 3)},
    ):
        save_file(tensors, path, metadata=content)
        with pytest.raises(ValueError, match=r"royal\.safetensors is damaged"):
            WordVectors.load(path)


def test_an_unknown_name_lists_those_there_are(tmp_path, monkeypatch):
    (tmp_path / "vectors").mkdir()
    for name in ("one", "another"):
        royal().save(tmp_path / "vectors" / f"{name}.safetensors", {})
    listed = "a-model.safetensors 0\nvectors/one.safetensors 0\nvectors/another.safetensors 0\n"
    (tmp_path / "registry.txt").write_text(listed)
    monkeypatch.setattr(pretrained_files, "FOLDER", tmp_path)
    assert pretrained_vector_names() == ["another", "one"]
    assert load_pretrained_vectors("one").words == royal().words
    for name in ("nope", "../one"):
        with pytest.raises(ValueError, match=r"are called .*: choose one of another, one"):
            load_pretrained_vectors(name)


def test_vectors_ship():
    assert "tatoeba-english" in pretrained_vector_names()


@pytest.mark.parametrize("name", pretrained_vector_names())
def test_every_shipped_file_is_small_and_says_where_it_is_from(name):
    assert pretrained_files.find(f"vectors/{name}.safetensors").stat().st_size < 2e6
    vectors = load_pretrained_vectors(name)
    assert vectors.vectors.isfinite().all()
    assert (vectors.vectors.norm(dim=1) > 0).all()
    for said in (
        *("command", "seed", "device", "seconds", "data", "data_licence", "attribution"),
        *("training", "evaluation"),
    ):
        assert said in vectors.provenance, said
    assert vectors.nearest("two", 1)[0].word == "three"
    assert vectors.analogy("go", "went", "eat")[0].word == "ate"


@pytest.mark.gpu
def test_the_gpu_says_the_same():
    vectors = clustered()
    there = WordVectors(vectors.words, vectors.vectors.cuda())
    assert [word for word, _ in there.nearest("w1")] == [word for word, _ in vectors.nearest("w1")]
    questions = questions_of(vectors, 90)
    assert there.answers(questions) == vectors.answers(questions)
