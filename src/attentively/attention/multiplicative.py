"""Multiplicative attention: score a source position by its dot product with the query.

Luong, Pham & Manning (2015), https://arxiv.org/abs/1508.04025: four scores, two of them
multiplicative (section 3.1), and local attention in a window of the source (section 3.2).
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.masks import masked_softmax
from attentively.config import LocalKind

Score = Literal["dot", "general", "concat", "location"]


class LuongAttention(nn.Module):
    r"""Attend to all encoder outputs, with one of four scores.

    For a decoder state :math:`h_t` and encoder outputs :math:`\bar{h}_1, \dots, \bar{h}_S`,

    .. math::
        \operatorname{score}(h_t, \bar{h}_s) &= \begin{cases}
            h_t^\top \bar{h}_s & \text{dot} \\
            h_t^\top W_a \bar{h}_s & \text{general} \\
            v_a^\top \tanh(W_a [h_t; \bar{h}_s]) & \text{concat}
        \end{cases} \\
        a_t &= \operatorname{softmax}(\operatorname{score}), \qquad c_t = \sum_s a_t(s) \bar{h}_s

    (equation 7), or, independent of the source, :math:`a_t = \operatorname{softmax}(W_a h_t)`
    (location, equation 8). In the paper :math:`h_t` is the state *after* the decoder has read
    its newest token. In the paper's experiments with concat, the half of :math:`W_a` that
    multiplies :math:`\bar{h}_s` is the identity (footnote 15); here both halves are learned, so
    concat equals `AdditiveAttention`.

    `location` computes a score for each of `max_len` positions. A shorter source uses the first
    of them, and its weights sum to one. The paper ignores the words after the last position; here
    a longer source raises `ValueError`.
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        score: Score = "general",
        hidden_dim: int | None = None,
        max_len: int | None = None,
    ) -> None:
        """`hidden_dim` is required for concat, `max_len` for location.

        Raises `ValueError` if they are missing, for an unknown score, and for dot if `query_dim`
        and `key_dim` differ.
        """
        super().__init__()
        if score == "dot" and query_dim != key_dim:
            raise ValueError(
                "score='dot' needs queries and keys of the same dimension, but "
                f"query_dim={query_dim} and key_dim={key_dim}: use score='general'"
            )
        self.score = score
        if score == "general":
            self.key_projection = nn.Linear(key_dim, query_dim, bias=False)  # W_a
        elif score == "concat":
            hidden_dim = _needed("concat", hidden_dim=hidden_dim)
            self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)  # W_a, left half
            self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)  # W_a, right half
            self.energy = nn.Linear(hidden_dim, 1, bias=False)  # v_a
        elif score == "location":
            max_len = _needed("location", max_len=max_len)
            self.position_scores = nn.Linear(query_dim, max_len, bias=False)  # W_a
        elif score != "dot":
            raise ValueError(
                f"score={score!r} is unknown: choose one of {', '.join(get_args(Score))}"
            )

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"] | None = None,
        projected_keys: Float[Tensor, "batch src_len hidden_dim"] | None = None,
    ) -> tuple[Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"]]:
        """Return the context vector and the attention weights.

        `mask` is True where a source position may be attended to; a row without any
        such position gets weights of zero. `projected_keys` is the output of
        `project_keys`.
        """
        if projected_keys is None:
            projected_keys = self.project_keys(keys)
        weights = masked_softmax(self.scores(query, projected_keys), mask)
        context = torch.einsum("bs,bsd->bd", weights, keys)
        return context, weights

    def scores(
        self,
        query: Float[Tensor, "batch query_dim"],
        projected_keys: Float[Tensor, "batch src_len hidden_dim"],
    ) -> Float[Tensor, "batch src_len"]:
        """Return the score of every source position, from the output of `project_keys`."""
        if self.score == "location":
            src_len, max_len = projected_keys.shape[1], self.position_scores.out_features
            if src_len > max_len:
                raise ValueError(
                    f"a source of {src_len} positions is longer than "
                    f"max_len={max_len} of the location score"
                )
            return self.position_scores(query)[:, :src_len]
        if self.score == "concat":
            projected_query = self.query_projection(query).unsqueeze(1)  # for every key
            return self.energy(torch.tanh(projected_query + projected_keys)).squeeze(-1)
        return torch.einsum("bd,bsd->bs", query, projected_keys)

    def project_keys(
        self, keys: Float[Tensor, "batch src_len key_dim"]
    ) -> Float[Tensor, "batch src_len hidden_dim"]:
        r"""Return the projected keys, computed once per sentence.

        They are :math:`W_a \bar{h}_s` for general. For concat they are
        :math:`U \bar{h}_s`, where :math:`U` contains the columns of :math:`W_a` that
        multiply the keys. Dot and location do not project the keys.
        """
        return self.key_projection(keys) if self.score in ("general", "concat") else keys


class LocalAttention(nn.Module):
    r"""Attend only to a window of the source, :math:`[p_t - D, p_t + D]`.

    The window moves monotonically with the decoder (local-m), or the decoder predicts its centre
    (local-p):

    .. math::
        p_t = t \quad \text{(local-m)}, \qquad
        p_t = S \cdot \operatorname{sigmoid}(v_p^\top \tanh(W_p h_t)) \quad \text{(local-p)}

    with :math:`S` the length of the sentence without padding (equation 9); positions count from
    0. Inside the window the weights are those of `LuongAttention`, with the softmax over the
    window alone; local-p multiplies them by a Gaussian around the centre,

    .. math::
        a_t(s) = \operatorname{align}(h_t, \bar{h}_s)
            \exp\left(-\frac{(s - p_t)^2}{2 \sigma^2}\right), \qquad \sigma = \frac{D}{2}

    (equation 10), through which :math:`W_p` and :math:`v_p` receive a gradient. Positions outside
    the sentence are ignored (section 3.2, footnote 8).

    The paper leaves two points open. It mentions no second normalisation, so there is none: the
    weights of local-p sum to at most one. And if the target is longer than the source,
    :math:`p_t` of local-m stays at the last word. This implementation scores every position
    before it masks those outside the window: simple, but it saves no time.
    """

    def __init__(
        self,
        query_dim: int,
        key_dim: int,
        window: int,
        kind: LocalKind = "local-p",
        score: Score = "general",
        hidden_dim: int | None = None,
    ) -> None:
        """`window` is :math:`D`, at least 1; `score` must depend on the source.

        Raises `ValueError` for anything else.
        """
        super().__init__()
        if window < 1:
            raise ValueError(f"window={window} must be at least 1 (positions on each side)")
        if kind not in get_args(LocalKind):
            raise ValueError(f"kind={kind!r} is unknown: choose local-m or local-p")
        if score == "location":
            raise ValueError(
                "score='location' does not depend on the source: use dot, general or concat"
            )
        self.window = window
        self.kind = kind
        self.content = LuongAttention(query_dim, key_dim, score, hidden_dim)
        if kind == "local-p":
            self.position_projection = nn.Linear(query_dim, query_dim, bias=False)  # W_p
            self.position_energy = nn.Linear(query_dim, 1, bias=False)  # v_p

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"] | None = None,
        projected_keys: Float[Tensor, "batch src_len hidden_dim"] | None = None,
        step: int | None = None,
    ) -> tuple[Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"]]:
        """Return the context vector and the attention weights, zero outside the window.

        `mask` is True at the words of the sentence, which come before its padding.
        `step` is the number of tokens that the decoder had read before this one;
        local-m needs it.
        """
        if mask is None:
            mask = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)
        if mask.shape != keys.shape[:2]:
            raise ValueError(
                f"a mask of shape {tuple(mask.shape)} does not fit keys of shape "
                f"{tuple(keys.shape)}: expected {tuple(keys.shape[:2])}"
            )
        if projected_keys is None:
            projected_keys = self.project_keys(keys)
        position = self.aligned_position(query, mask.sum(dim=1), step)
        distance = torch.arange(keys.shape[1], device=keys.device) - position.unsqueeze(1)
        window = mask & (distance.abs() <= self.window)
        weights = masked_softmax(self.content.scores(query, projected_keys), window)
        if self.kind == "local-p":
            sigma = self.window / 2
            gaussian = torch.exp(-distance.square() / (2 * sigma**2))
            weights = weights * gaussian.to(weights.dtype)
        context = torch.einsum("bs,bsd->bd", weights, keys)
        return context, weights

    def aligned_position(
        self,
        query: Float[Tensor, "batch query_dim"],
        lengths: Int[Tensor, " batch"],
        step: int | None,
    ) -> Float[Tensor, " batch"]:
        """Return :math:`p_t`, the centre of the window, for sentences of `lengths`."""
        if self.kind == "local-p":
            hidden = torch.tanh(self.position_projection(query))
            # In 32 bits: bfloat16 does not distinguish positions 300 and 301.
            return lengths * torch.sigmoid(self.position_energy(hidden).float()).squeeze(-1)
        if step is None:
            raise ValueError("local-m needs the decoder's step, but step=None")
        return (lengths - 1).clamp(max=step).float()

    def project_keys(
        self, keys: Float[Tensor, "batch src_len key_dim"]
    ) -> Float[Tensor, "batch src_len hidden_dim"]:
        """Return the projected keys, computed once per sentence."""
        return self.content.project_keys(keys)


def _needed(score: Score, **setting: int | None) -> int:
    ((name, value),) = setting.items()
    if value is None or value < 1:
        raise ValueError(f"score={score!r} needs {name} of at least 1, but {name}={value}")
    return value
