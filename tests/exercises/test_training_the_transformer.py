"""The checks of 16_training_the_transformer, beyond what its bank of answers proves."""

import pytest
import torch
from assignments import ASSIGNMENTS

from attentively.checks import CheckFailed
from attentively.checks import training_the_transformer as checks
from attentively.checks.recording_model import RecordingModel, RecordingOptimizer
from attentively.checks.recordings import load_questions
from attentively.checks.training_the_transformer import recorded_runs
from attentively.data.batches import Batch
from attentively.models.checkpoints import Checkpoint
from attentively.training.losses import cross_entropy
from attentively.training.schedules import paper_learning_rate
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig


@pytest.fixture(scope="module")
def right():
    """Return the module with the right answers."""
    (assignment,) = (each for each in ASSIGNMENTS if each.number == "16")
    return load_questions(assignment.questions)


def test_ready_says_so(capsys):
    checks.ready()
    assert capsys.readouterr().out.endswith("Ids: <pad> 0, <start> 2, <end> 3. Ready.\n")


# The right answers do what the package does


def test_the_steps_are_those_of_the_packages_trainer(right, monkeypatch):
    """Gradients that are zero but for rounding must be the same: Adam divides by their size."""
    monkeypatch.setattr(right, "smoothed_loss", cross_entropy)
    examples = checks.sentences("train", 24)
    model, twin = (checks.untrained(d_model=16) for _ in range(2))
    peak = paper_learning_rate(16, 3)
    config = TrainingConfig(
        steps=4, learning_rate=peak, schedule="inverse_square_root", warm_up_steps=3,
        beta2=0.98, epsilon=1e-9, clip_norm=0.7, label_smoothing=0.1, accumulate=2,
    )  # fmt: skip
    trainer = Trainer(Checkpoint(twin, None, None), examples, examples[:2], config, progress=False)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 5):
        parts: list[Batch] = trainer._parts(range(6 * step - 6, 6 * step))
        assert len(parts) == 2
        expected = trainer._update(parts)
        trainer.step += 1
        rate = right.learning_rate(step, 16, 3)
        said = right.update(model, optimizer, parts, rate, 0.7, 0.1)
        assert said == pytest.approx(expected.item(), rel=1e-4)
    for one, other in zip(model.parameters(), twin.cpu().parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_the_loss_of_part_1_is_the_packages(right):
    logits = torch.randn(3, 5, 7)
    targets = torch.tensor([[3, 4, 5, 6, 1], [2, 2, 0, 0, 0], [6, 0, 0, 0, 0]])
    expected = cross_entropy(logits, targets, 0, 0.2)
    torch.testing.assert_close(right.smoothed_loss(logits, targets, 0, 0.2), expected)


@pytest.mark.parametrize(("smoothing", "size"), [(0.1, 5), (0.7, 3), (0.0, 4)])
def test_no_logits_have_a_lower_smoothed_loss_than_the_best(right, smoothing, size):
    loss, perplexity = right.at_best(smoothing, size)
    target = torch.tensor([[1]])
    distribution = right.smoothed_targets(target, size, smoothing)
    found = cross_entropy(distribution.clamp(min=1e-30).log(), target, -1, smoothing).item()
    assert found == pytest.approx(loss, abs=1e-5)
    assert distribution[0, 0, 1].item() == pytest.approx(1 / perplexity)
    for seed in range(20):
        torch.manual_seed(seed)
        other = distribution.clamp(min=1e-9).log() + 0.3 * torch.randn(size)
        assert cross_entropy(other, target, -1, smoothing).item() >= loss - 1e-6


# The recorded runs


def test_each_fault_is_there_in_every_setting():
    runs = recorded_runs.runs_of(0)
    faults = [fault for fault, _ in runs]
    number = len(recorded_runs.SIGNS)
    assert len(runs) == 3 * number
    for first in range(0, len(runs), number):
        assert faults[first : first + number] == list(recorded_runs.SIGNS)
    assert {len(log) for _, log in runs} == {10}


def test_what_is_shown_is_not_what_the_visible_check_uses():
    shown = checks.logs()
    assert sorted(shown) == list("ABCDEFG")
    assert {checks.fault_of(letter) for letter in shown} == set(recorded_runs.SIGNS)
    assert all(log not in shown.values() for _, log in recorded_runs.runs_of(recorded_runs.CHECKED))


def test_grading_uses_the_logs_that_are_shown_too():
    seen = []
    faults = {str(log): fault for fault, log in recorded_runs.runs_of(0)}

    def diagnose(log):
        seen.append(log)
        return faults[str(log)]

    checks.diagnosis(diagnose, thorough=True)
    assert all(log in seen for log in checks.logs().values())


def test_an_answer_learned_from_the_logs_that_are_shown_does_not_pass():
    by_heart = {str(log): checks.fault_of(letter) for letter, log in checks.logs().items()}
    with pytest.raises(CheckFailed, match="returns 'none' for a run"):
        checks.diagnosis(lambda log: by_heart.get(str(log), "none"))


# The recording model


def test_a_recording_model_answers_as_the_model_inside():
    inside = checks.untrained()
    model = RecordingModel(inside)
    optimizer = RecordingOptimizer([inside.parameters()], 0.1)
    src, tgt = torch.tensor([[5, 6, 3]]), torch.tensor([[2, 5, 6, 3]])
    found = model(src, tgt)
    expected = inside(src, tgt)
    torch.testing.assert_close(found, expected)
    assert [each.tolist() for each in model.read] == [tgt.tolist()]
    found.sum().backward()
    optimizer.step()
    assert optimizer.rates == [[0.1]]
    assert len(optimizer.seen[0]) == len(list(inside.parameters()))
    model.forget()
    assert model.read == model.masks == model.trained == []
