"""The encoder reads each sentence as if it were alone."""

import pytest
import torch
from torch import nn

from attentively.layers.bidirectional import BidirectionalEncoder

SRC_LEN, EMBEDDING_DIM, ENCODER_DIM = 7, 5, 3
LENGTHS = (4, 7, 1, 2)


class WithoutPacking(BidirectionalEncoder):
    """A broken twin: the backward reader starts in the padding."""

    def forward(self, embedded, mask):
        outputs, (_, backward_state) = self.gru(embedded)
        return outputs * mask.unsqueeze(-1), backward_state


class ForwardState(BidirectionalEncoder):
    """A broken twin: the state of the wrong reader."""

    def forward(self, embedded, mask):
        outputs, _ = super().forward(embedded, mask)
        rows = torch.arange(len(outputs))
        return outputs, outputs[rows, mask.sum(dim=1) - 1, :ENCODER_DIM]


def encoder_and_input(kind=BidirectionalEncoder, padding=0.0):
    torch.manual_seed(0)
    encoder = kind(EMBEDDING_DIM, ENCODER_DIM)
    mask = torch.arange(SRC_LEN) < torch.tensor(LENGTHS).unsqueeze(1)
    embedded = torch.randn(len(LENGTHS), SRC_LEN, EMBEDDING_DIM)
    return encoder, embedded.masked_fill(~mask.unsqueeze(-1), padding), mask


def test_shapes():
    encoder, embedded, mask = encoder_and_input()
    outputs, state = encoder(embedded, mask)
    assert outputs.shape == (4, SRC_LEN, 2 * ENCODER_DIM)
    assert state.shape == (4, ENCODER_DIM)


def equals_the_gru_sentence_by_sentence(kind):
    encoder, embedded, mask = encoder_and_input(kind)
    reference = nn.GRU(EMBEDDING_DIM, ENCODER_DIM, batch_first=True, bidirectional=True)
    reference.load_state_dict(encoder.gru.state_dict())
    outputs, state = encoder(embedded, mask)
    for row, length in enumerate(LENGTHS):
        expected, (_, backwards) = reference(embedded[row : row + 1, :length])
        if not torch.allclose(outputs[row, :length], expected[0], atol=1e-6):
            return False
        if not torch.allclose(state[row], backwards[0], atol=1e-6):
            return False
    return True


def test_equals_the_gru_sentence_by_sentence():
    assert equals_the_gru_sentence_by_sentence(BidirectionalEncoder)
    assert not equals_the_gru_sentence_by_sentence(WithoutPacking)
    assert not equals_the_gru_sentence_by_sentence(ForwardState)


def padding_changes_nothing(kind):
    encoder, embedded, mask = encoder_and_input(kind)
    _, other, _ = encoder_and_input(kind, padding=17.0)
    before, after = encoder(embedded, mask), encoder(other, mask)
    more = (
        torch.cat([embedded, torch.ones(len(LENGTHS), 2, EMBEDDING_DIM)], dim=1),
        torch.cat([mask, torch.zeros(len(LENGTHS), 2, dtype=torch.bool)], dim=1),
    )
    longer = encoder(*more)
    return (
        all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
        and torch.allclose(longer[0][:, :SRC_LEN], before[0], atol=1e-6)
        and torch.allclose(longer[1], before[1], atol=1e-6)
    )


def test_padding_changes_nothing():
    assert padding_changes_nothing(BidirectionalEncoder)
    assert not padding_changes_nothing(WithoutPacking)


def test_outputs_are_zero_at_padding_and_as_long_as_the_input():
    encoder, embedded, mask = encoder_and_input()
    keep = torch.tensor([0, 2, 3])  # without the longest: two columns are all padding
    outputs, _ = encoder(embedded[keep], mask[keep])
    assert outputs.shape[1] == SRC_LEN
    assert (outputs[~mask[keep]] == 0).all()
    assert (outputs[mask[keep]] != 0).all()


def test_the_state_is_the_backward_readers_at_the_first_word():
    encoder, embedded, mask = encoder_and_input()
    outputs, state = encoder(embedded, mask)
    torch.testing.assert_close(state, outputs[:, 0, ENCODER_DIM:])


def test_every_position_knows_what_stands_before_and_after():
    encoder, embedded, mask = encoder_and_input()
    before, _ = encoder(embedded, mask)
    changed = embedded.clone()
    changed[1, 3] += 1
    after, _ = encoder(changed, mask)
    forwards = (after - before)[1, :, :ENCODER_DIM].abs().amax(-1) > 0
    backwards = (after - before)[1, :, ENCODER_DIM:].abs().amax(-1) > 0
    assert forwards.tolist() == [False] * 3 + [True] * 4
    assert backwards.tolist() == [True] * 4 + [False] * 3
    assert torch.equal(after[[0, 2, 3]], before[[0, 2, 3]])  # the other sentences hear nothing


def test_a_sentence_without_words_is_refused():
    encoder, embedded, mask = encoder_and_input()
    mask[[0, 2]] = False
    with pytest.raises(ValueError, match=r"sentences \[0, 2\] of the batch have no token"):
        encoder(embedded, mask)


def test_a_batch_without_sentences_is_refused():
    encoder, embedded, mask = encoder_and_input()
    with pytest.raises(ValueError, match="the batch is empty"):
        encoder(embedded[:0], mask[:0])
