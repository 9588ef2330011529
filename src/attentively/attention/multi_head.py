"""Multi-head attention: attention in several subspaces in parallel.

Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.2.2. Grouped-query attention,
in which groups of heads share keys and values, is by Ainslie et al. (2023),
https://arxiv.org/abs/2305.13245.
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import check_mask
from attentively.attention.positional import AttentionPosition
from attentively.attention.scaled_dot_product import fused_attention, scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    r"""Attend in `num_heads` subspaces in parallel.

    .. math::
        \operatorname{head}_i &= \operatorname{Attention}(Q W^Q_i, K W^K_i, V W^V_i) \\
        \operatorname{MultiHead}(Q, K, V) &=
            [\operatorname{head}_1; \dots; \operatorname{head}_h] W^O

    Each head projects the whole vector to :math:`d_\text{head} = d_\text{model} / h` dimensions.
    One matrix holds the projections of all heads, so one product computes them all, and its
    result is split into heads.

    With `num_kv_heads` below `num_heads`, neighbouring heads share keys and values
    (grouped-query attention), which makes the cache smaller. `position` adds a positional
    encoding inside the attention; it is for self-attention, where queries and keys belong to one
    sequence. `dropout` acts on the weights.

    Numbers of heads that do not divide evenly raise `ValueError`.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dropout: float = 0.0,
        num_kv_heads: int | None = None,
        position: AttentionPosition | None = None,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(
                f"d_model={d_model} does not split into num_heads={num_heads} equal heads"
            )
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(
                f"num_heads={num_heads} does not split into "
                f"num_kv_heads={num_kv_heads} equal groups"
            )
        self.d_head = d_model // num_heads
        self.group_size = num_heads // num_kv_heads
        kv_dim = num_kv_heads * self.d_head
        self.query_projection = nn.Linear(d_model, d_model)  # every W^Q_i
        self.key_projection = nn.Linear(d_model, kv_dim)  # every W^K_i
        self.value_projection = nn.Linear(d_model, kv_dim)  # every W^V_i
        self.output_projection = nn.Linear(d_model, d_model)  # W^O
        self.dropout = dropout
        self.position = position

    def forward(
        self,
        query: Float[Tensor, "batch q d_model"],
        key: Float[Tensor, "batch k d_model"] | None = None,
        value: Float[Tensor, "batch k d_model"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = True,
    ) -> (
        tuple[Float[Tensor, "batch q d_model"], Float[Tensor, "batch heads q keys"] | None]
        | tuple[
            Float[Tensor, "batch q d_model"],
            Float[Tensor, "batch heads q keys"] | None,
            KeyValueCache,
        ]
    ):
        """Return the context of each query, and the weights of each head on request.

        With a `cache`, `key` and `value` belong to the positions after the cached ones.
        The queries attend to all of them, and the new cache, which contains them all,
        is returned as well. Without `key` and `value` they attend to the cache alone;
        `remember` fills one.

        `mask` of shape (batch, q, keys) is True where a query may attend, the same for
        every head; an axis of size 1 is broadcast. Without weights, the fused attention
        is used. Shapes that do not match raise `ValueError`.
        """
        held = KeyValueCache() if cache is None else cache
        first = held.length  # position of the first query
        if (key is None) != (value is None):
            raise ValueError("give both key and value, or neither")
        if mask is not None:
            length = first + (0 if key is None else key.shape[1])
            check_mask(mask, (len(query), query.shape[1], length))
            mask = mask.unsqueeze(1)  # the same for every head
        if key is not None and value is not None:
            held = self.remember(key, value, held)
        if held.keys is None or held.values is None:
            raise ValueError("there are no keys: give key and value, or a filled cache")
        queries = self._split_heads(self.query_projection(query))
        bias = None
        if self.position is not None:
            queries = self.position.turn(queries, first)
            bias = self.position.bias(queries, held.length)
        keys, values = self._for_every_head(held.keys), self._for_every_head(held.values)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            context, weights = scaled_dot_product_attention(
                queries, keys, values, mask, bias, dropout
            )
        else:
            context = fused_attention(queries, keys, values, mask, bias, dropout)
        context = self.output_projection(self._join_heads(context))
        return (context, weights) if cache is None else (context, weights, held)

    def remember(
        self,
        key: Float[Tensor, "batch k d_model"],
        value: Float[Tensor, "batch k d_model"],
        cache: KeyValueCache | None = None,
    ) -> KeyValueCache:
        """Project `key` and `value`; return a cache with them appended to `cache`.

        Keys and values that are the same for all queries, such as the encoder's output in
        cross-attention, are projected here once.
        """
        cache = KeyValueCache() if cache is None else cache
        keys = self._split_heads(self.key_projection(key))
        if self.position is not None:
            keys = self.position.turn(keys, cache.length)
        return cache.extend(keys, self._split_heads(self.value_projection(value)))

    def _split_heads(
        self, x: Float[Tensor, "batch len projected"]
    ) -> Float[Tensor, "batch heads len d_head"]:
        return x.unflatten(2, (-1, self.d_head)).transpose(1, 2)

    def _join_heads(
        self, x: Float[Tensor, "batch heads len d_head"]
    ) -> Float[Tensor, "batch len d_model"]:
        return x.transpose(1, 2).flatten(start_dim=2)

    def _for_every_head(
        self, x: Float[Tensor, "batch kv_heads len d_head"]
    ) -> Float[Tensor, "batch heads len d_head"]:
        return x if self.group_size == 1 else x.repeat_interleave(self.group_size, dim=1)
