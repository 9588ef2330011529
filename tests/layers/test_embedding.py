"""An embedding is a row of a table."""

import pytest
import torch
import torch.nn.functional as F

from attentively.layers.embedding import TokenEmbedding
from attentively.tokens.vocabulary import PAD_ID


def test_a_token_gets_its_row():
    embedding = TokenEmbedding(11, 7)
    ids = torch.tensor([[4, 5, 4], [10, 3, PAD_ID]])
    vectors = embedding(ids)
    assert vectors.shape == (2, 3, 7)
    assert torch.equal(vectors[1, 0], embedding.table.weight[10])
    assert torch.equal(vectors[0, 0], vectors[0, 2])


def test_it_equals_one_hot_times_table():
    embedding = TokenEmbedding(11, 7)
    ids = torch.randint(0, 11, (3, 5))
    one_hot = F.one_hot(ids, 11).float()
    torch.testing.assert_close(embedding(ids), one_hot @ embedding.table.weight)


@pytest.mark.parametrize("shape", [(), (5,), (3, 5), (2, 3, 5)])
def test_any_number_of_axes(shape):
    assert TokenEmbedding(11, 7)(torch.randint(0, 11, shape)).shape == (*shape, 7)


def test_padding_is_zero_and_stays_zero():
    embedding = TokenEmbedding(11, 7)
    optimizer = torch.optim.Adam(embedding.parameters(), lr=0.1)
    before = embedding.table.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        (embedding(torch.tensor([[4, PAD_ID, PAD_ID]])) - 1).square().sum().backward()
        optimizer.step()
    after = embedding.table.weight
    assert (after[PAD_ID] == 0).all()
    assert not torch.equal(after[4], before[4])  # the token that was there has learned
    assert torch.equal(after[5:], before[5:])


@pytest.mark.parametrize(("vocab_size", "embedding_dim"), [(0, 7), (-3, 7), (11, 0), (11, -1)])
def test_sizes_that_are_none_are_refused(vocab_size, embedding_dim):
    with pytest.raises(ValueError, match=f"vocab_size={vocab_size} and embedding_dim="):
        TokenEmbedding(vocab_size, embedding_dim)
