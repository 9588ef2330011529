"""Losses: cross-entropy without padding, with label smoothing."""

from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "batch tgt_len vocab"],
    targets: Int[Tensor, "batch tgt_len"],
    pad_id: int,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    r"""Return the mean cross-entropy of the targets, in nats per token.

    .. math:: L = -\frac{1}{N} \sum_{t \,:\, y_t \neq \text{pad}} \log p(y_t),
        \qquad p = \operatorname{softmax}(\text{logits})

    over the :math:`N` real tokens of the batch; padding is excluded from the sum and
    from :math:`N`. Label smoothing multiplies the one-hot target by
    :math:`1 - \varepsilon` and spreads :math:`\varepsilon` evenly over all :math:`K`
    tokens of the vocabulary, including the true token, so that :math:`\log p(y_t)`
    above becomes

    .. math::

        (1 - \varepsilon) \log p(y_t) + \frac{\varepsilon}{K} \sum_{k=1}^{K} \log p(k).

    Szegedy et al. (2016), https://arxiv.org/abs/1512.00567, section 7; the Transformer
    paper uses :math:`\varepsilon = 0.1` (https://arxiv.org/abs/1706.03762, section
    5.4).

    Raises `ValueError` if all targets are padding, and for a `label_smoothing` outside
    [0, 1).
    """
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"{label_smoothing=} must be at least 0 and below 1")
    real = targets != pad_id
    if not real.any():
        raise ValueError(f"all {targets.numel()} targets are padding (pad_id={pad_id})")
    log_probabilities = logits.log_softmax(dim=-1)
    right = targets.where(real, 0)  # at padding any id works: it is excluded below
    log_likelihoods = log_probabilities.gather(-1, right.unsqueeze(-1)).squeeze(-1)
    if label_smoothing > 0:
        evenly_spread = label_smoothing * log_probabilities.mean(dim=-1)
        log_likelihoods = (1 - label_smoothing) * log_likelihoods + evenly_spread
    return -log_likelihoods[real].mean()
