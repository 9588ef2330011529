"""Multiplicative attention: score a source position by its dot product with the query.

The family of Luong, Pham & Manning (2015), https://arxiv.org/abs/1508.04025: four scores, of
which two multiply (section 3.1), and a window that moves along the source (section 3.2).
"""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.masks import masked_softmax

Score = Literal["dot", "general", "concat", "location"]
LocalKind = Literal["local-m", "local-p"]


class LuongAttention(nn.Module):
    r"""Let a decoder state look at every encoder output, with one of four scores.

    For a decoder state :math:`h_t` and encoder outputs :math:`\bar{h}_1, \dots, \bar{h}_S`,

    .. math::
        \operatorname{score}(h_t, \bar{h}_s) &= \begin{cases}
            h_t^\top \bar{h}_s & \text{dot} \\
            h_t^\top W_a \bar{h}_s & \text{general} \\
            v_a^\top \tanh(W_a [h_t; \bar{h}_s]) & \text{concat}
        \end{cases} \\
        a_t &= \operatorname{softmax}(\operatorname{score}), \qquad c_t = \sum_s a_t(s) \bar{h}_s

    (equation 7), or, without a look at the source, :math:`a_t = \operatorname{softmax}(W_a h_t)`
    (location, equation 8). In the paper :math:`h_t` is the state *after* the decoder has read
    its newest token. The paper's experiments with concat had the identity for the half of
    :math:`W_a` that meets :math:`\bar{h}_s` (its footnote 15); here both halves are learned,
    which makes it `AdditiveAttention`.

    `location` has a score for each of `max_len` positions. A shorter source takes the first of
    them, and its weights sum to one. The paper ignores the words after the last position; here
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
        """`hidden_dim` is for concat, `max_len` for location, and needed there.

        Raises `ValueError` where they are missing, for an unknown score, and for dot where
        `query_dim` and `key_dim` differ.
        """
        super().__init__()
        if score == "dot" and query_dim != key_dim:
            raise ValueError(
                "a dot product needs vectors of one size, but "
                f"query_dim={query_dim} and key_dim={key_dim}: choose general"
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
            raise ValueError(f"score={score!r} is unknown: choose of {', '.join(get_args(Score))}")

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"] | None = None,
        projected_keys: Float[Tensor, "batch src_len hidden_dim"] | None = None,
    ) -> tuple[Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"]]:
        """Return the context vector and the weights that made it.

        `mask` is True where a source position may be attended to; a row with
        nothing to attend to gives zeros. `projected_keys` are those of `project_keys`.
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
        """Score every source position, given its key as `project_keys` returns it."""
        if self.score == "location":
            src_len, max_len = projected_keys.shape[1], self.position_scores.out_features
            if src_len > max_len:
                raise ValueError(
                    f"a source of {src_len} positions is too long for location scores of "
                    f"max_len={max_len}"
                )
            return self.position_scores(query)[:, :src_len]
        if self.score == "concat":
            # One query, every key
            projected_query = self.query_projection(query).unsqueeze(1)
            return self.energy(torch.tanh(projected_query + projected_keys)).squeeze(-1)
        return torch.einsum("bd,bsd->bs", query, projected_keys)

    def project_keys(
        self, keys: Float[Tensor, "batch src_len key_dim"]
    ) -> Float[Tensor, "batch src_len hidden_dim"]:
        r"""Return what the score makes of the keys alone: compute it once a sentence.

        That is :math:`W_a \bar{h}_s`; dot and location leave the keys as they are.
        """
        return self.key_projection(keys) if self.score in ("general", "concat") else keys


class LocalAttention(nn.Module):
    r"""Look only at a window of the source, :math:`[p_t - D, p_t + D]`.

    The window moves with the decoder (local-m), or the decoder says where it stands (local-p):

    .. math::
        p_t = t \quad \text{(local-m)}, \qquad
        p_t = S \cdot \operatorname{sigmoid}(v_p^\top \tanh(W_p h_t)) \quad \text{(local-p)}

    with :math:`S` the length of the sentence itself, without its padding (equation 9);
    positions count from 0. Inside the window the weights are those of `LuongAttention`, with
    the softmax over the window alone; local-p favours its middle,

    .. math::
        a_t(s) = \operatorname{align}(h_t, \bar{h}_s)
            \exp\left(-\frac{(s - p_t)^2}{2 \sigma^2}\right), \qquad \sigma = \frac{D}{2}

    (equation 10), which is also how :math:`W_p` and :math:`v_p` get a gradient. What stands
    outside the sentence is ignored (section 3.2, footnote 8).

    The paper leaves two things open. It speaks of no second normalisation, so there is none:
    the weights of local-p sum to less than one. And where local-m has come to the end of the
    source but the target goes on, :math:`p_t` stays at the last word. Every position is
    scored here before those outside the window are left out: simple, but it saves no time.
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
        """`window` is :math:`D`, at least 1; the score is one that looks at the source.

        Raises `ValueError` for anything else.
        """
        super().__init__()
        if window < 1:
            raise ValueError(f"window={window} must be at least 1: positions on either side")
        if kind not in get_args(LocalKind):
            raise ValueError(f"kind={kind!r} is unknown: choose local-m or local-p")
        if score == "location":
            raise ValueError("score='location' does not look at the source: choose another")
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
        """Return the context vector and the weights that made it, zero outside the window.

        `mask` is True at the words of the sentence, which come before its padding. `step`
        is how many tokens the decoder had read before this one, which local-m goes by.
        """
        if mask is None:
            mask = torch.ones(keys.shape[:2], dtype=torch.bool, device=keys.device)
        if mask.shape != keys.shape[:2]:
            raise ValueError(
                f"a mask of shape {tuple(mask.shape)} does not fit keys of shape "
                f"{tuple(keys.shape)}: give it the first two axes"
            )
        if projected_keys is None:
            projected_keys = self.project_keys(keys)
        position = self.aligned_position(query, mask.sum(dim=1), step)
        distance = torch.arange(keys.shape[1], device=keys.device) - position.unsqueeze(1)
        window = mask & (distance.abs() <= self.window)
        weights = masked_softmax(self.content.scores(query, projected_keys), window)
        if self.kind == "local-p":
            sigma = self.window / 2
            bell = torch.exp(-distance.square() / (2 * sigma**2))
            weights = weights * bell.to(weights.dtype)
        context = torch.einsum("bs,bsd->bd", weights, keys)
        return context, weights

    def aligned_position(
        self,
        query: Float[Tensor, "batch query_dim"],
        lengths: Int[Tensor, " batch"],
        step: int | None,
    ) -> Float[Tensor, " batch"]:
        """Return :math:`p_t`, the middle of the window, in sentences of these `lengths`."""
        if self.kind == "local-p":
            hidden = torch.tanh(self.position_projection(query))
            # In 32 bits: bfloat16 cannot tell word 300 from word 301.
            return lengths * torch.sigmoid(self.position_energy(hidden).float()).squeeze(-1)
        if step is None:
            raise ValueError("local-m goes by the decoder's step, which is missing")
        return (lengths - 1).clamp(max=step).float()

    def project_keys(
        self, keys: Float[Tensor, "batch src_len key_dim"]
    ) -> Float[Tensor, "batch src_len hidden_dim"]:
        """Return what the score makes of the keys alone: compute it once a sentence."""
        return self.content.project_keys(keys)


def _needed(score: Score, **setting: int | None) -> int:
    ((name, value),) = setting.items()
    if value is None or value < 1:
        raise ValueError(f"score={score!r} needs {name} of at least 1, but {name}={value}")
    return value
