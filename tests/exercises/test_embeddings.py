"""The checks of 01_embeddings, beyond what its bank of answers proves."""

import itertools

import pytest
import torch
from assignments import Assignment
from torch import nn

from attentively.checks import CheckFailed, NotImplementedYet
from attentively.checks import embeddings as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.layers.embedding import TokenEmbedding
from attentively_grader.course import notebooks

ASSIGNMENT = Assignment("01_embeddings")
questions = load_questions(ASSIGNMENT.questions)


def test_its_parts_and_points_are_these():
    points = [each.metadata.nbgrader.points for each in ASSIGNMENT.graded_cells]
    assert points == [14, 18, 18, 14, 16, 20]


def test_ready_translates_and_counts_vectors(capsys):
    checks.ready()
    assert "The set-up is complete." in capsys.readouterr().out


# Part 1


class HalfWritten(questions.Embedding):
    def forward(self, ids):
        raise NotImplementedError


def test_a_class_half_written_is_said_in_one_line():
    with pytest.raises(NotImplementedYet, match="forward is not written"):
        checks.lookup(questions.one_hot, HalfWritten)


def the_packages(vocab_size, embedding_dim):
    return TokenEmbedding(vocab_size, embedding_dim).table


def test_the_package_passes_its_own_check():
    checks.check_embedding(the_packages, thorough=True)


# Part 5: what the messages tell of single questions


def test_what_happens_is_told_as_it_is():
    """Each story names the answers with all words allowed, with three excluded, and by c alone."""
    for case in questions.anatomy_cases(thorough=False):
        (*abc, d), *others = case.inputs["questions"]
        words, vectors = case.inputs["words"], case.inputs["vectors"]
        if others or d not in words or abc[2] not in words:
            continue
        let_in, left_out = (
            questions.analogy(words, vectors, *abc, 1, exclude)[0] for exclude in (False, True)
        )
        ranked = questions.nearest(words, vectors, abc[2], len(words) - 1)
        by_c = next(word for word in ranked if word not in abc)
        first, last = case.general.split("The nearest to " + abc[2])
        assert f" is {let_in}" in first
        assert f" is {left_out}" in first
        assert f" is {by_c}" in last


def test_no_answer_of_the_planted_words_is_a_near_miss():
    """Rounding decides nothing: the best answer leads by a hundredth at least."""
    words = questions.FAMILY
    directions = nn.functional.normalize(questions.FAMILY_VECTORS, dim=1)
    for a, b, c in itertools.permutations(range(len(words)), 3):
        if tuple(words[i] for i in (a, b, c)) not in {q[:3] for q in questions.TOGETHER}:
            continue
        for wanted in (directions[b] - directions[a] + directions[c], directions[c]):
            for left_out in ([], [a, b, c]):
                scores = directions @ wanted
                scores[left_out] = -9
                best = scores.topk(2).values
                assert best[0] - best[1] > 0.01


# Part 6


def faulty(names):
    """Return the step with these of its five faults."""
    edits = (questions.FAULTS[name] for name in names)
    several = [(each,) if isinstance(each, str) else each for each in edits]
    return edited(questions.mended_step, tuple(itertools.chain(*several)))


def test_the_faulty_step_of_the_notebook_has_these_five_faults():
    cells = notebooks.read(ASSIGNMENT.source).cells
    source = next(cell.source for cell in cells if cell.id == "bug-hunt-faulty")
    namespace = {"torch": torch}
    exec(source.partition("faulty_v")[0], namespace)
    inputs = (*questions.loss_inputs(13, 5, 7, 3), 0.2)
    found = namespace["faulty_step"](*inputs), faulty(questions.FAULTS)(*inputs)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


SAID = {
    "labels": "The vector of the negative moves towards that of the centre",
    "order": "the vector of the centre after its own update",
    "table": "the score uses two vectors of v",
    "mean": "The change of u is too large by the factor 2",
    "repeats": "a word is the centre of two pairs, and v is wrong",
}


@pytest.mark.parametrize("first", SAID)
def test_the_first_fault_that_is_left_is_named(first):
    """Whichever of the faults after it are left too."""
    *_, after = "".join(SAID).partition(first)
    later = [name for name in SAID if name in after]
    for number in range(len(later) + 1):
        for others in itertools.combinations(later, number):
            with pytest.raises(CheckFailed) as caught:
                checks.bug_hunt(faulty((first, *others)))
            assert SAID[first] in " ".join(str(caught.value).split())
