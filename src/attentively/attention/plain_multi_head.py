"""Multi-head attention in a dozen lines, with the shape after each.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.2.2. The full
`multi_head.MultiHeadAttention` computes the same from the same weights, and adds a cache, a
fused kernel, positions and grouped heads.
"""

import math

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.attention.masks import masked_softmax


class MultiHeadAttention(nn.Module):
    r"""Attend with several heads in parallel.

    .. math::
        \operatorname{head}_i &= \operatorname{softmax}\left(
            \frac{(Q W^Q_i)(K W^K_i)^\top}{\sqrt{d_\text{head}}}\right) V W^V_i \\
        \operatorname{MultiHead}(Q, K, V) &=
            [\operatorname{head}_1; \dots; \operatorname{head}_h] W^O

    Each head has the dimension :math:`d_\text{head} = d_\text{model} / h`. One matrix
    contains the projections of all heads. A `d_model` that is not a multiple of
    `num_heads` raises `ValueError`.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(
                f"d_model={d_model} does not split into "
                f"num_heads={num_heads} equal heads"
            )  # fmt: skip
        self.d_head = d_model // num_heads
        self.query_projection = nn.Linear(d_model, d_model)  # every W^Q_i
        self.key_projection = nn.Linear(d_model, d_model)  # every W^K_i
        self.value_projection = nn.Linear(d_model, d_model)  # every W^V_i
        self.output_projection = nn.Linear(d_model, d_model)  # W^O

    def forward(
        self,
        query: Float[Tensor, "batch q d_model"],
        key: Float[Tensor, "batch k d_model"],
        value: Float[Tensor, "batch k d_model"],
        mask: Bool[Tensor, "#batch #q #k"] | None = None,
    ) -> tuple[Float[Tensor, "batch q d_model"], Float[Tensor, "batch heads q k"]]:
        """Return the context of each query, and the weights of each head.

        `mask` is True where a query may attend, the same for every head.
        """
        # (batch, heads, q, d_head), and (batch, heads, k, d_head) for keys and values
        queries = self._split_heads(self.query_projection(query))
        keys = self._split_heads(self.key_projection(key))
        values = self._split_heads(self.value_projection(value))
        # (batch, heads, q, k)
        scores = queries @ keys.transpose(2, 3) / math.sqrt(self.d_head)
        mask = None if mask is None else mask.unsqueeze(1)  # the same for all heads
        weights = masked_softmax(scores, mask)  # (batch, heads, q, k)
        heads = weights @ values  # (batch, heads, q, d_head)
        joined = heads.transpose(1, 2).flatten(start_dim=2)  # (batch, q, d_model)
        return self.output_projection(joined), weights

    def _split_heads(
        self, x: Float[Tensor, "batch len d_model"]
    ) -> Float[Tensor, "batch heads len d_head"]:
        x = x.unflatten(2, (-1, self.d_head))  # (batch, len, heads, d_head)
        return x.transpose(1, 2)  # (batch, heads, len, d_head)
