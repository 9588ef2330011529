"""Additive attention: score each source position with a small feed-forward network.

Bahdanau, Cho & Bengio (2015), https://arxiv.org/abs/1409.0473, sections 3.1 and A.1.2.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.attention.masks import masked_softmax


class AdditiveAttention(nn.Module):
    r"""Attend to all encoder outputs, with a decoder state as the query.

    For a decoder state :math:`s` and encoder outputs :math:`h_1, \dots, h_n`,

    .. math:: e_j = v^\top \tanh(W s + U h_j), \qquad
              \alpha = \operatorname{softmax}(e), \qquad c = \sum_j \alpha_j h_j.

    In the paper's decoder, :math:`s` is the state before the step, :math:`s_{i-1}`.
    """

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)  # W
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)  # U
        self.energy = nn.Linear(hidden_dim, 1, bias=False)  # v

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"] | None = None,
        projected_keys: Float[Tensor, "batch src_len hidden_dim"] | None = None,
    ) -> tuple[Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"]]:
        """Return the context vector and the attention weights.

        `mask` is True where a source position may be attended to. A sentence that is
        masked completely has zeros as weights and as context. `projected_keys` is the
        output of `project_keys`.
        """
        if projected_keys is None:
            projected_keys = self.project_keys(keys)
        # one query for all keys: (batch, 1, hidden_dim) + (batch, src_len, hidden_dim)
        projected_query = self.query_projection(query).unsqueeze(1)
        hidden = torch.tanh(projected_query + projected_keys)
        scores = self.energy(hidden).squeeze(-1)  # (batch, src_len)
        weights = masked_softmax(scores, mask)
        context = torch.einsum("bs,bsd->bd", weights, keys)  # weighted sum over src_len
        return context, weights

    def project_keys(
        self, keys: Float[Tensor, "batch src_len key_dim"]
    ) -> Float[Tensor, "batch src_len hidden_dim"]:
        """Return :math:`U h_j`, which does not depend on the query."""
        return self.key_projection(keys)
