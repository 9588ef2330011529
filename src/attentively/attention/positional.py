r"""Positional encodings: sinusoidal, learned, relative, rotary (RoPE) and ALiBi.

Absolute encodings add a vector to each token before the first layer:
:class:`SinusoidalPositionalEncoding` and :class:`LearnedPositionalEmbedding`. Relative encodings
act on queries and keys inside every attention, so that scores depend on their distance: each is an
:class:`AttentionPosition`.

Positions count from 0. ``first`` is the position of the first given token: the number of tokens
before it when a sequence is read in parts.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

PRECOMPUTED = 1024
"""Number of positions whose sines and cosines are precomputed; further ones are computed on use."""


def position_angles(
    length: int, size: int, first: int = 0, device: torch.device | None = None
) -> Float[Tensor, "length pairs"]:
    r"""Return the angle of each pair of components at each position, in radians.

    .. math:: \text{angle}[p, i] = p / 10000^{2i/d}

    The angle of pair 0 grows by one radian per position, that of each later pair more
    slowly. If :math:`d` = `size` is odd, the last angle belongs to a sine alone.
    """
    positions = torch.arange(first, first + length, device=device)
    exponents = torch.arange(0, size, 2, device=device) / size  # 2i / d
    return positions.unsqueeze(1) / 10000**exponents


def sinusoids(
    length: int, d_model: int, first: int = 0, device: torch.device | None = None
) -> Float[Tensor, "length d_model"]:
    r"""Return the sinusoidal encoding of the positions from `first` on, one row each.

    .. math::
        P_{p,\,2i} = \sin(p / 10000^{2i/d}), \qquad
        P_{p,\,2i+1} = \cos(p / 10000^{2i/d})

    The encoding of position :math:`p + k` is that of :math:`p` with every pair (sine,
    cosine) rotated by an angle that depends on :math:`k` alone. If :math:`d` is odd,
    the last sine has no cosine.

    Source: Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.5.
    """
    angles = position_angles(length, d_model, first, device)
    pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return pairs.flatten(start_dim=1)[:, :d_model]


class SinusoidalPositionalEncoding(nn.Module):
    """Add the fixed encoding of `sinusoids` to every token, for any length.

    Source: Vaswani et al. (2017), https://arxiv.org/abs/1706.03762, section 3.5. Learned
    positional embeddings reach nearly the same BLEU there (table 3, row E).
    """

    table: Float[Tensor, "positions d_model"]

    def __init__(self, d_model: int) -> None:
        super().__init__()
        if d_model < 1:
            raise ValueError(f"d_model={d_model} must be positive")
        self.d_model = d_model
        self.register_buffer("table", sinusoids(PRECOMPUTED, d_model), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], first: int = 0
    ) -> Float[Tensor, "batch len d_model"]:
        """Return `x` with each position's encoding added."""
        if x.shape[2] != self.d_model:
            raise ValueError(
                f"the input has dimension {x.shape[2]}, but expected d_model={self.d_model}"
            )
        end = first + x.shape[1]
        if end <= len(self.table):
            encodings = self.table[first:end]
        else:
            encodings = sinusoids(x.shape[1], self.d_model, first, x.device)
        return x + encodings.to(x.dtype)  # the same for every sentence of the batch


class LearnedPositionalEmbedding(nn.Module):
    """Add one learned vector per position, up to `max_len` of them.

    The encoding does not extrapolate: more than `max_len` positions raise `ValueError`, and
    vectors of positions beyond the training sequences stay at their initial values.

    Sources: Gehring et al. (2017), https://arxiv.org/abs/1705.03122, section 3.1; also used in
    BERT, Devlin et al. (2019), https://arxiv.org/abs/1810.04805, section 3.
    """

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        if d_model < 1 or max_len < 1:
            raise ValueError(f"d_model={d_model} and max_len={max_len} must both be positive")
        self.table = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.table.weight, std=0.1)  # as in Gehring et al.

    def forward(
        self, x: Float[Tensor, "batch len d_model"], first: int = 0
    ) -> Float[Tensor, "batch len d_model"]:
        """Return `x` with each position's vector added."""
        d_model = self.table.embedding_dim
        if x.shape[2] != d_model:
            raise ValueError(
                f"the input has dimension {x.shape[2]}, but expected d_model={d_model}"
            )
        end, max_len = first + x.shape[1], self.table.num_embeddings
        if end > max_len:
            raise ValueError(f"a sequence of {end} tokens is longer than max_len={max_len}")
        return x + self.table.weight[first:end]


class AttentionPosition(nn.Module):
    """Base class of encodings that act inside an attention; this one changes nothing."""

    def turn(
        self, x: Float[Tensor, "batch heads len d_head"], first: int
    ) -> Float[Tensor, "batch heads len d_head"]:
        """Return transformed queries or keys, the first of them at position `first`."""
        return x

    def bias(
        self, query: Float[Tensor, "batch heads q d_head"], key_len: int
    ) -> Float[Tensor, "#batch heads q key_len"] | None:
        """Return the bias that is added to the scaled scores, or None.

        The queries are at the last of the `key_len` positions.
        """
        return None


class RotaryPositionalEmbedding(AttentionPosition):
    r"""Rotate queries and keys by an angle that is proportional to their position.

    A pair of components is a point in the plane; at position :math:`p` pair :math:`i` becomes

    .. math::
        \begin{pmatrix} x'_{2i} \\ x'_{2i+1} \end{pmatrix} =
        \begin{pmatrix} \cos p\theta_i & -\sin p\theta_i \\
                        \sin p\theta_i & \cos p\theta_i \end{pmatrix}
        \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix}, \qquad
        \theta_i = 10000^{-2i/d}.

    The dot product of a query rotated at :math:`m` and a key rotated at :math:`n` then depends
    on positions only through :math:`m - n`. Norms do not change, and values are not rotated.

    Neighbouring components form a pair, as in the paper. GPT-NeoX and Llama pair component
    :math:`i` with :math:`i + d/2` instead: the same with the components in another order, so
    weights must be reordered to convert between the two.

    Source: Su et al. (2021), https://arxiv.org/abs/2104.09864, sections 3.2.2 and 3.4.2.
    """

    cos: Float[Tensor, "positions pairs"]
    sin: Float[Tensor, "positions pairs"]

    def __init__(self, d_head: int) -> None:
        super().__init__()
        if d_head < 2 or d_head % 2 == 1:
            raise ValueError(f"d_head={d_head} does not split into pairs: it must be even")
        self.d_head = d_head
        angles = position_angles(PRECOMPUTED, d_head)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turn(
        self, x: Float[Tensor, "batch heads len d_head"], first: int
    ) -> Float[Tensor, "batch heads len d_head"]:
        """Return each vector rotated by the angles of its position."""
        if x.shape[3] != self.d_head:
            raise ValueError(
                f"the input has dimension {x.shape[3]}, but expected d_head={self.d_head}"
            )
        end = first + x.shape[2]
        if end <= len(self.cos):
            cos, sin = self.cos[first:end], self.sin[first:end]
        else:
            angles = position_angles(x.shape[2], self.d_head, first, x.device)
            cos, sin = angles.cos(), angles.sin()
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return turned.flatten(start_dim=-2)  # pairs in their original order


class ALiBi(AttentionPosition):
    r"""Attention with linear biases: the further a key is from the query, the lower its score.

    .. math:: e_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}} - m \, |i - j|

    with a fixed slope :math:`m` for each head: for :math:`n` heads
    :math:`2^{-8/n}, 2^{-16/n}, \dots, 2^{-8}`. If the number of heads is not a power of two,
    the authors' code uses the slopes of the next lower power of two and, for the remaining heads,
    every other slope of the next higher one. The bias is not divided by :math:`\sqrt{d}`.

    The paper is about causal language models, where keys have :math:`j \le i`. Without a causal
    mask, this bias is symmetric, so it does not encode the direction.

    Source: Press, Smith & Lewis (2022), https://arxiv.org/abs/2108.12409, section 3.
    """

    slopes: Float[Tensor, " heads"]

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ValueError(f"num_heads={num_heads} must be positive")
        self.register_buffer("slopes", torch.tensor(alibi_slopes(num_heads)), persistent=False)

    def bias(
        self, query: Float[Tensor, "batch heads q d_head"], key_len: int
    ) -> Float[Tensor, "1 heads q key_len"]:
        """Return minus slope times distance, for every head, query and key."""
        if query.shape[1] != len(self.slopes):
            raise ValueError(
                f"the queries have {query.shape[1]} heads, but expected "
                f"num_heads={len(self.slopes)}"
            )
        distances = steps_to_keys(query.shape[2], key_len, query.device).abs()
        biases = -self.slopes.view(-1, 1, 1) * distances
        return biases.unsqueeze(0).to(query.dtype)  # the same for the whole batch


def alibi_slopes(num_heads: int) -> list[float]:
    """Return the slope of each head for `ALiBi`."""
    below = 2 ** math.floor(math.log2(num_heads))  # the power of two at or below
    slopes = [2 ** (-8 * head / below) for head in range(1, below + 1)]
    between = [2 ** (-8 * head / (2 * below)) for head in range(1, 2 * below, 2)]
    return slopes + between[: num_heads - below]


class RelativePositionalEmbedding(AttentionPosition):
    r"""Add a learned vector for the relative position of query and key to each key.

    .. math::
        e_{ij} = \frac{q_i \cdot (k_j + a_{j-i})}{\sqrt{d}}, \qquad
        a_s = w_{\max(-k, \min(k, s))}

    Distances are clipped at `max_distance` :math:`= k`, so that any length is possible. All heads
    share one table. The paper also adds such vectors to the values, which does not help: keys
    alone reach 25.8 BLEU, both 25.8, values alone 25.3, neither 12.5 (table 3). So only keys have
    them here.

    Source: Shaw, Uszkoreit & Vaswani (2018), https://arxiv.org/abs/1803.02155, sections 3.2,
    3.3 and 4.3.
    """

    def __init__(self, d_head: int, max_distance: int) -> None:
        super().__init__()
        if d_head < 1 or max_distance < 0:
            raise ValueError(
                f"d_head={d_head} must be positive and max_distance={max_distance} not negative"
            )
        self.max_distance = max_distance
        self.table = nn.Embedding(2 * max_distance + 1, d_head)  # w, from -k to k
        nn.init.normal_(self.table.weight, std=d_head**-0.5)  # vectors of length about 1

    def bias(
        self, query: Float[Tensor, "batch heads q d_head"], key_len: int
    ) -> Float[Tensor, "batch heads q key_len"]:
        r"""Return :math:`q_i \cdot a_{j-i} / \sqrt{d}` for every query and key."""
        steps = steps_to_keys(query.shape[2], key_len, query.device)
        rows = steps.clamp(-self.max_distance, self.max_distance) + self.max_distance
        # One product with each of the 2k + 1 vectors; then select one for every key.
        products = query @ self.table.weight.T / math.sqrt(query.shape[-1])
        return products.gather(-1, rows.expand(*query.shape[:2], -1, -1))


def steps_to_keys(
    query_len: int, key_len: int, device: torch.device | None = None
) -> Int[Tensor, "q key_len"]:
    r"""Return :math:`j - i`, the relative position of each key and query.

    The queries are the last `query_len` of `key_len` positions; fewer raise `ValueError`.
    """
    if query_len > key_len:
        raise ValueError(
            f"query_len={query_len} queries cannot be the last of key_len={key_len} positions"
        )
    keys = torch.arange(key_len, device=device)
    queries = keys[key_len - query_len :]
    return keys - queries.unsqueeze(1)
