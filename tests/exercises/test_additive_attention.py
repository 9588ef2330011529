"""The checks of 08_additive_attention, beyond what its bank of answers proves."""

import contextlib
import io
import re

import pytest
import torch
from assignments import Assignment
from torch import nn

from attentively.attention import additive
from attentively.checks import CheckFailed, NotImplementedYet, once_solved
from attentively.checks import additive_attention as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively_grader.course import notebooks

ASSIGNMENT = Assignment("08_additive_attention")
questions = load_questions(ASSIGNMENT.questions)
right = load_questions(ASSIGNMENT.source.with_name("answers.py"))


def test_each_part_has_five_wrong_answers_or_more():
    assert min(len(answers) for answers in ASSIGNMENT.wrong.values()) >= 5


def test_the_package_passes_its_own_check():
    checks.check_attention(additive.AdditiveAttention, thorough=True)


# What is not written yet

without_tanh = edited(questions.energies, "torch.tanh( -> (")


def unwritten(*_):
    raise NotImplementedError


class HalfWritten(right.Base):
    def forward(self, query, keys, mask=None):
        raise NotImplementedError


def test_what_is_not_written_is_said_in_one_line():
    with pytest.raises(NotImplementedYet) as caught:
        checks.energies(unwritten)
    assert str(caught.value).startswith("Part 1 (energies): not implemented yet")
    assert "\n" not in str(caught.value)
    with pytest.raises(NotImplementedYet, match="forward is not written"):
        checks.attention(HalfWritten)


def test_an_error_of_torch_is_not_taken_for_unwritten():
    def answer(s, h, W, U, v):
        raise NotImplementedError("\"softmax\" not implemented for 'Long'")

    with pytest.raises(CheckFailed, match="not implemented for 'Long'"):
        checks.energies(answer)


def test_a_verdict_is_shown_without_a_traceback():
    with pytest.raises(CheckFailed) as caught:
        checks.energies(without_tanh)
    shown = caught.value._render_traceback_()
    assert shown == [str(caught.value)]
    assert caught.value.__suppress_context__


def test_an_error_of_the_students_says_where():
    def energies(query, keys, W, U, v):
        projected = query @ W.T
        return projected @ v + keys  # of other axes

    with pytest.raises(CheckFailed) as caught:
        checks.energies(energies)
    message = str(caught.value)
    assert re.search(r"raises \w+Error|The shape of scores", message)

    def attempts(query, keys, W, U, v):
        return query @ keys @ W

    with pytest.raises(CheckFailed) as caught:
        checks.energies(attempts)
    assert "in attempts, line" in str(caught.value)
    assert "return query @ keys @ W" in str(caught.value)
    assert "called with" in str(caught.value)


@pytest.mark.parametrize("candidate", [None, 3, "energies", right])
def test_what_cannot_be_called_is_refused(candidate):
    with pytest.raises(CheckFailed, match="Expected a function or class"):
        checks.energies(candidate)


def test_an_object_in_place_of_the_class_is_named():
    with pytest.raises(CheckFailed, match="Pass the class itself"):
        checks.attention(right.WithFiniteMinimum(2, 3, 5))


# The student's class inside the trained model


def test_a_class_that_differs_only_inside_the_model_is_caught():
    class Forgetful(right.ByExponentials):
        """Right wherever it is tried alone; on the sizes of the trained model it is not."""

        def forward(self, query, keys, mask=None):
            context, weights = super().forward(query, keys, mask)
            return (context * 0.5 if keys.size(2) > 13 else context), weights

    with pytest.raises(CheckFailed, match="the trained model's"):
        checks.attention(Forgetful)


def test_a_class_with_project_keys_is_called_like_any_other():
    class Keeps(right.Base):
        def project_keys(self, keys):
            return self.key_projection(keys)

        def forward(self, query, keys, mask=None, projected_keys=None):
            assert projected_keys is None
            hidden = torch.tanh(self.query_projection(query)[:, None] + self.project_keys(keys))
            scores = self.energy(hidden).squeeze(-1)
            if mask is not None:
                scores = scores.masked_fill(~mask, -1e30)
            weights = scores.softmax(-1)
            weights = weights if mask is None else weights * mask
            return torch.einsum("bs,bsd->bd", weights, keys), weights

    checks.attention(Keeps)


# Progress


def test_progress_tells_solved_from_wrong_from_unwritten(capsys):
    namespace = {
        "energies": right.energies_by_loops,
        "AdditiveAttention": edited(
            questions.AdditiveAttention, (questions.NOT_FILLED, questions.NOT_MULTIPLIED)
        ),
        "numbers_kept": unwritten,
        "multiplications": unwritten,
        "by_hand": questions.by_hand,
    }
    checks.progress(namespace)
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"Part 1 \(energies\) +solved", lines[0])
    assert re.search(r"Part 2 \(AdditiveAttention\) +wrong: The mask is ignored", lines[1])
    assert re.search(r"Part 3 \(cost\) +not yet$", lines[2])
    assert "not yet: run the cell that defines true_statements and mended_attention" in lines[3]
    assert "not yet: run the cell that defines query_dependence" in lines[4]
    assert lines[-1].strip() == "1 of 6 solved"


def test_what_waits_for_a_part_says_so(capsys):
    with once_solved("Part 6"):
        unwritten()
    assert capsys.readouterr().out == "This runs once Part 6 is written.\n"
    with once_solved("Part 6"):
        _ = 1 / 0
    assert "once Part 6 is right (ZeroDivisionError: division by zero)" in capsys.readouterr().out


def test_ready_translates(capsys):
    checks.ready()
    assert "The set-up is complete." in capsys.readouterr().out


# The answers that the checks take for known, worked out again


def notebooks_faulty_attention():
    """Return the function of the cell that the student examines in part 4."""
    (cell,) = [
        each for each in notebooks.read(ASSIGNMENT.source).cells if each.id == "bug-hunt-faulty"
    ]
    namespace = {"torch": torch}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(cell.source, namespace)
    return namespace["faulty_attention"]


def test_the_statements_are_measured_on_the_function_of_the_notebook():
    inputs = questions.target_inputs(2, 3, 5, 7, 11, 13)
    inputs["mask"] = questions.last_row_empty(2, 5)
    shown = notebooks_faulty_attention()(**inputs)
    torch.testing.assert_close(checks._faulty_attention(**inputs), shown)
    # two slips that the comparison must see: one fault corrected, and all of them
    for other in (
        edited(checks._faulty_attention, ".mean(dim=2) -> .sum(dim=2)"),
        questions.mended_attention,
    ):
        with pytest.raises(AssertionError):
            torch.testing.assert_close(other(**inputs), shown)


@pytest.mark.parametrize("seed", range(5))
def test_the_true_statements_do_not_depend_on_the_random_inputs(seed):
    torch.manual_seed(seed)
    faulty = notebooks_faulty_attention()
    assert checks._statements_true_of(faulty) == questions.true_statements()
    assert checks._statements_true_of(questions.mended_attention) == CORRECTED


CORRECTED = set("ADEFGH")


@pytest.mark.parametrize(
    ("faults", "changed"),
    [
        (["softmax(dim=-1) -> softmax(dim=1)"], {"A", "E"}),
        ([right.TWO_TANH], {"C"}),
        ([right.TWO_TANH, "softmax(dim=-1) -> softmax(dim=1)"], {"A", "B", "E"}),
        ([questions.NOT_FILLED], {"E"}),
        (["weights @ keys -> weights @ keys / keys.size(1)"], {"F"}),
        ([right.DETACHED], {"G"}),
    ],
)
def test_each_fault_changes_the_statements_that_it_should(faults, changed):
    found = checks._statements_true_of(edited(questions.mended_attention, tuple(faults)))
    assert found ^ CORRECTED == changed


def test_the_known_mistakes_of_the_experiment_lead_to_other_results():
    """Most of them in the first case, in which the data was constructed for this."""
    first, *_ = questions.EXPERIMENT.record().cases
    results = [str(each) for each in first.wrong if each is not None]
    assert len({*results, str(first.expected)}) >= 10


def test_linear_scores_ignore_the_query():
    """Why part 5 needs the tanh: a share of the query is the same for every key."""
    scores = torch.tensor([[0.3], [-4.0]]) + torch.tensor([[1.0, 2.0, -1.0]])
    assert questions.query_dependence(scores) < 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_without_a_constant_no_weights_can_solve_part_5(seed):
    """Why the keys carry a constant 1: turning every sign turns the energy's sign."""
    torch.manual_seed(seed)
    W, U, v = 5 * torch.randn(2, 1), 5 * torch.randn(2, 2), 5 * torch.randn(2)
    U[:, 1] = 0
    weights = checks._weights_with(W, U, v)
    assert weights.diagonal().min() <= 0.5 + 1e-6


def test_a_module_given_for_a_function_is_no_trouble():
    with contextlib.suppress(CheckFailed, NotImplementedYet):
        checks.energies(nn.Linear(2, 3))
