"""Explanations against numbers worked by hand, and the searches against what they promise."""

import math

import pytest
import torch

from attentively.analysis import explanations
from attentively.analysis.explanations import (
    adversarial_weights,
    forgery_loss,
    gradient_times_input,
    integrated_gradients,
    jensen_shannon,
    kullback_leibler,
    lime,
    occlusion,
    permuted_weights,
    total_variation,
    weighted_least_squares,
)


def linear(batch):
    """3 a - 2 b + c d over the places (a, b, c, d)."""
    a, b, c, d = batch.unbind(dim=1)
    return 3 * a - 2 * b + c * d


PLACES = torch.tensor([1.0, 2.0, 5.0, 7.0])


def test_occlusion_takes_one_place_at_a_time():
    assert occlusion(linear, PLACES).tolist() == [3, -4, 35, 35]
    assert occlusion(linear, PLACES, blank=1.0).tolist() == [0, -2, 28, 30]
    assert PLACES.tolist() == [1, 2, 5, 7]


def test_occlusion_of_places_with_many_features_and_of_ids():
    places = torch.rand(3, 2, 5)
    blank = torch.rand(2, 5)

    def score(batch):
        return (batch.flatten(2).sum(dim=2) * torch.tensor([1.0, 10, 100])).sum(dim=1)

    lost = (places - blank).sum(dim=(1, 2)) * torch.tensor([1.0, 10, 100])
    torch.testing.assert_close(occlusion(score, places, blank), lost, atol=1e-3, rtol=1e-4)
    ids = torch.tensor([4, 9, 6])
    assert occlusion(lambda batch: batch.sum(dim=1).float(), ids, blank=1).tolist() == [3, 8, 5]


def test_gradient_times_input_is_what_a_straight_line_would_lose():
    assert gradient_times_input(linear, PLACES).tolist() == [3, -4, 35, 35]
    # A square bends: its gradient promises twice what it can lose.
    squared = gradient_times_input(lambda batch: batch.square().sum(dim=1), PLACES)
    assert squared.tolist() == [2, 8, 50, 98]
    places = torch.rand(3, 2, 5)
    slopes = torch.rand(3, 2, 5)
    found = gradient_times_input(lambda batch: (batch * slopes).sum(dim=(1, 2, 3)), places)
    torch.testing.assert_close(found, (places * slopes).sum(dim=(1, 2)))


def either(batch):
    """z1 + z2 - z1 z2: one if either of two is one."""
    first, second = batch.unbind(dim=1)
    return first + second - first * second


def test_integrated_gradients_by_hand():
    """On the way from (0, 0) to (1, 1) each slope falls from 1 to 0: half of the whole each."""
    both = torch.ones(2)
    assert gradient_times_input(either, both).tolist() == [0, 0]
    assert occlusion(either, both).tolist() == [0, 0]
    torch.testing.assert_close(integrated_gradients(either, both), torch.full((2,), 0.5))


def test_integrated_gradients_are_gradient_times_input_on_a_linear_model():
    torch.manual_seed(0)
    places, slopes = torch.randn(3, 2, 5), torch.randn(3, 2, 5)

    def score(batch):
        return (batch * slopes).sum(dim=(1, 2, 3)) + 7

    found = integrated_gradients(score, places, steps=3)
    torch.testing.assert_close(found, gradient_times_input(score, places))
    baseline = torch.randn(2, 5)  # of one position, for all of them
    found = integrated_gradients(score, places, baseline, steps=3)
    torch.testing.assert_close(found, ((places - baseline) * slopes).sum(dim=(1, 2)))


class Curved:
    """A small network whose slope is not the same everywhere."""

    def __init__(self):
        torch.manual_seed(3)
        self.network = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(21, 11), torch.nn.Tanh(), torch.nn.Linear(11, 1)
        )

    def __call__(self, batch):
        return self.network(batch).squeeze(-1)

    def rise(self, places, baseline):
        with torch.no_grad():
            return (self(places[None]) - self(baseline.expand_as(places)[None])).item()


@pytest.mark.parametrize("baseline", [torch.tensor(0.0), torch.linspace(-1, 1, 7)])
def test_integrated_gradients_are_complete(baseline):
    score, places = Curved(), 2 * torch.randn(3, 7)
    found = integrated_gradients(score, places, baseline, steps=200)
    assert found.shape == (3,)
    assert found.sum().item() == pytest.approx(score.rise(places, baseline), abs=1e-3)


def test_completeness_catches_broken_integrated_gradients():
    """Gradient × input, a path that is not averaged to the end, and a forgotten baseline."""
    baseline = torch.linspace(-1, 1, 7)
    score, places = Curved(), 2 * torch.randn(3, 7)
    rise = score.rise(places, baseline)

    def of_half_the_path(score, places):
        middle = baseline + (places - baseline) / 2
        return 2 * integrated_gradients(score, middle, baseline, steps=200)

    def without_the_difference(score, places):
        found = integrated_gradients(score, places - baseline, 0.0, steps=200)
        return found  # as if the path began at zero

    for broken in (gradient_times_input, of_half_the_path, without_the_difference):
        assert abs(broken(score, places).sum().item() - rise) > 0.01


def test_integrated_gradients_refuse_no_steps():
    with pytest.raises(ValueError, match="steps=0"):
        integrated_gradients(linear, PLACES, steps=0)


def test_lime_finds_a_linear_model_exactly():
    def score(batch):
        return 0.5 + 3 * batch[:, 0] - 2 * batch[:, 1]

    found = lime(score, torch.tensor([1.0, 2.0, 5.0]), samples=40)
    torch.testing.assert_close(found.slopes, torch.tensor([3.0, -4.0, 0.0]), atol=1e-5, rtol=0)
    assert found.intercept.item() == pytest.approx(0.5, abs=1e-5)


def test_lime_narrow_is_nearer_to_occlusion_than_lime_wide():
    """One of two places is enough: near the whole, neither matters; far off, either does."""
    places = torch.ones(2)
    assert occlusion(either, places).tolist() == [0, 0]
    slopes = [
        lime(either, places, samples=500, width=width).slopes.mean().item() for width in (0.1, 2.0)
    ]
    assert abs(slopes[0]) < 0.05 < 0.3 < slopes[1]


def test_lime_asks_about_the_whole_and_about_blanks():
    seen = []

    def score(batch):
        seen.append(batch)
        return batch.flatten(1).sum(dim=1)

    lime(score, torch.full((3, 2), 5.0), blank=torch.tensor([1.0, 2.0]), samples=30)
    (batch,) = seen
    assert batch.shape == (30, 3, 2)
    assert (batch[0] == 5).all()
    blanks = (batch == torch.tensor([1.0, 2.0])).all(dim=-1)
    assert (blanks | (batch == 5).all(dim=-1)).all()
    assert 0.3 < blanks.float().mean() < 0.7


def test_weighted_least_squares_by_hand():
    """Through (0, 0), (1, 1) and, with three times the weight, (1, 5): 4 at 1."""
    features = torch.tensor([[0.0], [1.0], [1.0]])
    targets = torch.tensor([0.0, 1.0, 5.0])
    found = weighted_least_squares(features, targets, torch.tensor([1.0, 1.0, 3.0]))
    assert found.slopes.tolist() == pytest.approx([4.0])
    assert found.intercept.item() == pytest.approx(0.0, abs=1e-6)


def test_permuted_weights_are_the_same_weights_elsewhere():
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0, 1, 0]], dtype=torch.bool)
    weights = torch.rand(3, 5) * mask
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(60):
        dealt = permuted_weights(weights, mask, generator)
        assert torch.equal(dealt.sort(dim=-1).values, weights.sort(dim=-1).values)
        assert (dealt[~mask] == 0).all()
        seen.add(tuple(dealt[1].tolist()))
    assert len(seen) == 6  # every order of three real places
    assert (weights[~mask] == 0).all()


def test_permuted_weights_are_not_one_order_for_all():
    weights = torch.arange(7.0).expand(50, 7)
    dealt = permuted_weights(weights, generator=torch.Generator().manual_seed(0))
    assert len(set(map(tuple, dealt.tolist()))) > 40


def test_distances_by_hand():
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.5])
    assert total_variation(p, q).item() == 0.5
    assert kullback_leibler(p, q).item() == pytest.approx(math.log(2))
    assert total_variation(p, p).item() == jensen_shannon(p, p).item() == 0
    one, other = torch.eye(3)[0], torch.eye(3)[2]
    assert total_variation(one, other).item() == 1
    assert jensen_shannon(one, other).item() == pytest.approx(math.log(2))
    mean = (p + q) / 2
    by_sums = sum(
        (a * math.log(a / m) if a else 0) / 2
        for row in (p, q)
        for a, m in zip(row.tolist(), mean.tolist(), strict=True)
    )
    assert jensen_shannon(p, q).item() == pytest.approx(by_sums)
    assert jensen_shannon(p, q).item() == pytest.approx(jensen_shannon(q, p).item())
    assert jensen_shannon(torch.rand(2, 3, 5), torch.rand(2, 3, 5)).shape == (2, 3)


def flat(weights):
    """Two labels, by two groups of places: only what each group gets counts."""
    first = weights[:, :2].sum(dim=1)
    return torch.stack([first, 1 - first], dim=1)


def test_adversarial_weights_move_where_the_answer_does_not_see_it():
    weights = torch.tensor([[0.6, 0.1, 0.3, 0.0], [0.0, 0.9, 0.1, 0.0]])
    found = adversarial_weights(flat, weights)
    assert (total_variation(flat(found), flat(weights)) <= 0.01).all()
    torch.testing.assert_close(found.sum(dim=1), torch.ones(2))
    assert (found >= 0).all()
    # The farthest: the share of each group on the place that had least of it.
    farthest = jensen_shannon(torch.tensor([[0.0, 0.7, 0.0, 0.3], [0.9, 0.0, 0.0, 0.1]]), weights)
    assert (jensen_shannon(found, weights) > 0.9 * farthest).all()


def test_adversarial_weights_stay_where_every_change_is_seen():
    """Each place has a label of its own, so the answer is the weights."""
    weights = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
    found = adversarial_weights(lambda tried: tried, weights)
    assert (total_variation(found, weights) <= 0.01).all()
    assert (adversarial_weights(lambda tried: tried, weights, allowed=0.0) == weights).all()


def test_adversarial_weights_keep_off_padding():
    weights = torch.tensor([[0.5, 0.5, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False, False]])
    found = adversarial_weights(flat, weights, mask)
    assert (found[~mask] == 0).all()
    assert jensen_shannon(found, weights).item() > 0.1


def test_a_forger_is_paid_for_the_same_answer_and_other_weights():
    answer = torch.tensor([[0.9, 0.1]])
    weights = torch.tensor([[0.8, 0.2]])
    faithful = forgery_loss(answer, weights, answer, weights, divergence_weight=0.5)
    forged = forgery_loss(answer, weights.flip(1), answer, weights, divergence_weight=0.5)
    wrong = forgery_loss(answer.flip(1), weights.flip(1), answer, weights, divergence_weight=0.5)
    assert faithful.item() == 0
    divergence = 0.2 * math.log(0.2 / 0.8) + 0.8 * math.log(0.8 / 0.2)
    assert forged.item() == pytest.approx(-0.5 * divergence)
    assert wrong.item() == pytest.approx(0.8 - 0.5 * divergence)
    # Which of the two comes first matters: the forger's weights lead.
    lopsided = forgery_loss(
        answer, torch.tensor([[1.0, 0.0]]), answer, weights, divergence_weight=1.0
    )
    assert lopsided.item() == pytest.approx(-math.log(1 / 0.8))


def test_gradients_do_not_leak_into_what_is_explained():
    places = PLACES.clone().requires_grad_()
    explanations.gradient_times_input(linear, places)
    explanations.integrated_gradients(linear, places)
    assert places.grad is None
