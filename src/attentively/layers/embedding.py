"""Token embeddings: one learned vector for each token of the vocabulary."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attentively.tokens.vocabulary import PAD_ID


class TokenEmbedding(nn.Module):
    r"""Look up one vector per token.

    For a matrix :math:`E` with one row per token, :math:`x_t = E_{w_t}`. This equals
    the one-hot vector of :math:`w_t` times :math:`E`, without the multiplications by
    zero. The row of the padding token is zero, and stays zero unless :math:`E` is also
    an output layer.
    """

    def __init__(self, vocab_size: int, embedding_dim: int) -> None:
        super().__init__()
        if vocab_size <= PAD_ID or embedding_dim < 1:
            raise ValueError(
                f"{vocab_size=} and {embedding_dim=} must both be positive",
            )
        self.table = nn.Embedding(vocab_size, embedding_dim, padding_idx=PAD_ID)

    def forward(
        self,
        ids: Int[Tensor, "*shape"],
    ) -> Float[Tensor, "*shape embedding_dim"]:
        """Return the vector of each id."""
        return self.table(ids)
