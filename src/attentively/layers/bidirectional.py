"""A bidirectional recurrent encoder: a forward RNN and a backward RNN.

Bahdanau, Cho & Bengio (2015), https://arxiv.org/abs/1409.0473, sections 3.2 and A.2.1.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BidirectionalEncoder(nn.Module):
    r"""Encode each word together with its left and right context.

    The annotation of word :math:`j` concatenates the hidden states of a forward and a
    backward GRU: :math:`h_j = [\overrightarrow{h}_j; \overleftarrow{h}_j]`. Padding is
    not processed: the backward GRU starts at the last word of each sentence.
    """

    def __init__(self, embedding_dim: int, encoder_dim: int) -> None:
        """`encoder_dim` is the dimension of the hidden state in each direction."""
        super().__init__()
        self.gru = nn.GRU(
            embedding_dim,
            encoder_dim,
            batch_first=True,
            bidirectional=True,
        )

    def forward(
        self,
        embedded: Float[Tensor, "batch src_len embedding_dim"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> tuple[
        Float[Tensor, "batch src_len key_dim"],
        Float[Tensor, "batch encoder_dim"],
    ]:
        """Return the annotations, zero at padding, and the last backward state.

        The backward GRU computes its last state at the first word, after the whole
        sentence. `mask` is True at real tokens, which come before the padding.

        Raises `ValueError` if the batch is empty or a sentence has no token.
        """
        lengths = mask.sum(dim=1).cpu()
        if len(lengths) == 0:
            raise ValueError("the batch is empty: there is no sentence to encode")
        if int(lengths.min()) == 0:
            empty = (lengths == 0).nonzero().flatten().tolist()
            raise ValueError(f"sentences {empty} of the batch have no token to encode")
        packed = pack_padded_sequence(
            embedded,
            lengths,
            batch_first=True,
            enforce_sorted=False,
        )
        packed_outputs, (_, backward_state) = self.gru(packed)
        outputs, _ = pad_packed_sequence(
            packed_outputs, batch_first=True, total_length=embedded.shape[1]
        )
        return outputs, backward_state
