"""The classifier that looks once: padding, places that keep to themselves, other weights."""

import pytest
import torch

from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.layers.embedding import TokenEmbedding
from attentively.models.attentive_classifier import AttentiveClassifier, SquareEncoder

IDS = torch.tensor([[5, 6, 7, 8, 4], [9, 4, 5, 0, 0], [7, 0, 0, 0, 0]])
MASK = IDS != 0


@pytest.fixture(params=[False, True], ids=["alone", "read"])
def classifier(request):
    torch.manual_seed(0)
    reader = BidirectionalEncoder(7, 5) if request.param else None
    return AttentiveClassifier(TokenEmbedding(11, 7), 10 if reader else 7, 3, 13, reader)


def test_it_is_the_equation(classifier):
    logits, weights = classifier(IDS, MASK)
    keys = classifier.read(classifier.embedding(IDS), MASK)
    attention = classifier.attention
    for row, length in enumerate(MASK.sum(dim=1)):
        hidden = torch.tanh(
            attention.query_projection(classifier.query) + attention.key_projection(keys[row])
        )
        scores = attention.energy(hidden[:length]).squeeze(-1)
        expected = scores.softmax(dim=0)
        torch.testing.assert_close(weights[row, :length], expected)
        context = sum(weight * key for weight, key in zip(expected, keys[row], strict=False))
        torch.testing.assert_close(logits[row], classifier.output(context))


def test_padding_changes_nothing(classifier):
    logits, weights = classifier(IDS, MASK)
    alone, alone_weights = classifier(IDS[1:2, :3], MASK[1:2, :3])
    torch.testing.assert_close(alone, logits[1:2])
    torch.testing.assert_close(alone_weights, weights[1:2, :3])
    assert (weights[~MASK] == 0).all()
    assert (weights[2, 0] - 1).abs() < 1e-6  # a single word gets all


def test_its_own_weights_give_its_own_answer_and_others_another(classifier):
    logits, weights = classifier(IDS, MASK)
    keys = classifier.read(classifier.embedding(IDS), MASK)
    torch.testing.assert_close(classifier.judge(keys, weights), logits)
    one = torch.zeros_like(weights)
    one[:, 0] = 1
    torch.testing.assert_close(classifier.judge(keys, one), classifier.output(keys[:, 0]))


def test_without_a_reader_a_word_does_not_know_its_neighbours():
    torch.manual_seed(0)
    changed = IDS.clone()
    changed[0, 4] = 10
    for reader, key_dim, alike in ((None, 7, True), (BidirectionalEncoder(7, 5), 10, False)):
        made = AttentiveClassifier(TokenEmbedding(11, 7), key_dim, 3, 13, reader)
        keys, others = (made.read(made.embedding(ids), MASK) for ids in (IDS, changed))
        assert torch.equal(keys[0, :4], others[0, :4]) is alike
        assert not torch.equal(keys[0, 4], others[0, 4])


def test_a_gradient_may_stop_at_the_embedded_places(classifier):
    embedded = classifier.embedding(IDS).detach().requires_grad_()
    classifier.answer(embedded, MASK).logits.sum().backward()
    assert (embedded.grad[MASK].abs().sum(dim=-1) > 0).all()
    assert (embedded.grad[~MASK] == 0).all()


def test_a_square_is_seen_by_its_own_place_alone():
    torch.manual_seed(0)
    encoder = SquareEncoder(feature_dim=17, hidden_dim=3)
    squares = torch.rand(2, 5, 11, 11)
    vectors = encoder(squares)
    assert vectors.shape == (2, 5, 17)
    for row in range(2):
        for place in range(5):
            torch.testing.assert_close(
                encoder(squares[row : row + 1, place : place + 1])[0, 0], vectors[row, place]
            )
    changed = squares.clone()
    changed[1, 3] = torch.rand(11, 11)
    different = (encoder(changed) != vectors).any(dim=-1)
    assert different.nonzero().tolist() == [[1, 3]]
