"""The checks of 01_embeddings, beyond what its bank of answers proves."""

import itertools

import pytest
import right_answers_01 as right
import torch
import wrong_answers_01 as wrong
from assignments import Assignment
from torch import nn

from attentively.checks import CheckFailed, NotImplementedYet
from attentively.checks import embeddings as checks
from attentively.layers.embedding import TokenEmbedding
from attentively_grader.course import notebooks

ASSIGNMENT = Assignment("01_embeddings")


def cell(cell_id):
    return next(c.source for c in notebooks.read(ASSIGNMENT.source).cells if c.id == cell_id)


def test_its_parts_and_points_are_these():
    points = [each.metadata.nbgrader.points for each in ASSIGNMENT.graded_cells]
    assert points == [14, 18, 18, 14, 16, 20]


def test_each_part_has_twelve_wrong_answers_or_more():
    assert min(len(answers) for answers in wrong.WRONG.values()) >= 12


def test_ready_translates_and_counts_vectors(capsys):
    checks.ready()
    assert "The set-up is complete." in capsys.readouterr().out


# What is not written yet


class HalfWritten(right.Table):
    def forward(self, ids):
        raise NotImplementedError


def test_a_class_half_written_is_said_in_one_line():
    with pytest.raises(NotImplementedYet, match="forward is not written"):
        checks.lookup(right.one_hot_by_loops, HalfWritten)


# Part 1


def the_packages(vocab_size, embedding_dim):
    return TokenEmbedding(vocab_size, embedding_dim).table


def test_the_package_passes_its_own_check():
    checks.check_embedding(the_packages, thorough=True)


def test_a_table_that_forgets_its_padding_after_training_is_caught():
    """Right on its own; inside the package's skip-gram its row 0 begins to mean something."""

    class Late(right.TimesTheMask):
        def forward(self, ids):
            if len(self.weight) == 11 and self.weight.size(1) == 3:
                return self.weight[ids]
            return super().forward(ids)

    with pytest.raises(CheckFailed, match="after five training steps"):
        checks.lookup(right.one_hot_by_loops, Late)


# Part 3


def test_pairs_and_loss_that_fail_only_in_the_package_are_caught():
    def forgets(v, u, centre, context, negatives):
        """Right on every batch of the check, and not on the sentences of the package's model."""
        return right.loss(v, u, centre, context, negatives[:, :2] if len(v) == 11 else negatives)

    with pytest.raises(CheckFailed, match="the package's model, trained for ten steps"):
        checks.skip_gram(right.pairs, forgets)


# Part 4


def test_mistakes_are_told_apart():
    """On two further lexicons no two known mistakes give the same words."""
    torch.manual_seed(0)
    words, vectors = checks._lexicon(13, 3)
    for twins, question in (
        (checks._neighbour_twins(), ("w1", 9)),
        (checks._analogy_twins(), ("w1", "w2", "w3", 9, True)),
    ):
        answers = [tuple(twin.answer(words, vectors, *question)) for twin in twins]
        assert len({*answers}) == len(answers)


# Part 5: the counts that the check takes for known, counted again


@pytest.mark.parametrize("count", [each for _, each in right.ANATOMIES])
def test_the_planted_counts_are_those_of_other_methods(count):
    for words, vectors, question, _, ones, _ in checks._SINGLE:
        found = count([*words], vectors, [question])
        assert {name for name in checks._COUNTS if found[name]} == ones
    words, vectors = [*checks._FAMILY], checks._FAMILY_VECTORS
    for chosen, counts in checks._ASKED_TOGETHER[:3]:
        found = count(words, vectors, [*checks._QUESTIONS[chosen]])
        assert tuple(found[name] for name in checks._COUNTS) == counts


def test_what_happens_is_told_as_it_is():
    """Each story names the answers with all words allowed, with three excluded, and by c alone."""
    for words, vectors, question, story, ones, _ in checks._SINGLE:
        if "asked" not in ones:
            continue
        *abc, _ = question
        let_in, left_out = (
            right.analogy(words, vectors, *abc, 1, exclude)[0] for exclude in (False, True)
        )
        others = right.nearest(words, vectors, abc[2], len(words) - 1)
        by_c = next(word for word in others if word not in abc)
        first, last = story.split("The nearest to " + abc[2])
        assert f" is {let_in}" in first
        assert f" is {left_out}" in first
        assert f" is {by_c}" in last


def test_no_answer_of_the_planted_words_is_a_near_miss():
    """Rounding decides nothing: the best answer leads by a hundredth at least."""
    words = [*checks._FAMILY]
    directions = nn.functional.normalize(checks._FAMILY_VECTORS, dim=1)
    for a, b, c in itertools.permutations(range(len(words)), 3):
        if tuple(words[i] for i in (a, b, c)) not in {q[:3] for q in checks._QUESTIONS}:
            continue
        for wanted in (directions[b] - directions[a] + directions[c], directions[c]):
            for left_out in ([], [a, b, c]):
                scores = directions @ wanted
                scores[left_out] = -9
                best = scores.topk(2).values
                assert best[0] - best[1] > 0.01


# Part 6


def test_the_faulty_step_of_the_notebook_has_these_five_faults():
    namespace = {"torch": torch}
    exec(cell("bug-hunt-faulty").partition("faulty_v")[0], namespace)
    inputs = {**checks._loss_inputs(13, 5, 7, 3), "learning_rate": 0.2}
    for one, other in zip(
        namespace["faulty_step"](*inputs.values()), wrong.faulty()(*inputs.values()), strict=True
    ):
        torch.testing.assert_close(one, other)


FAULTS = ("labels", "order", "table", "mean", "repeats")


def test_mending_all_five_is_enough():
    checks.bug_hunt(wrong.faulty(" ".join(FAULTS)), thorough=True)


@pytest.mark.parametrize("left", FAULTS)
def test_mending_four_of_five_is_not(left):
    mended = " ".join(fault for fault in FAULTS if fault != left)
    with pytest.raises(CheckFailed):
        checks.bug_hunt(wrong.faulty(mended))
