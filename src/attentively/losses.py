"""What training makes small."""

from jaxtyping import Float, Int
from torch import Tensor


def cross_entropy(
    logits: Float[Tensor, "batch tgt_len vocab"],
    targets: Int[Tensor, "batch tgt_len"],
    pad_id: int,
) -> Float[Tensor, ""]:
    r"""Return the mean surprise, in nats per token, at the tokens that should have come.

    .. math:: L = -\frac{1}{N} \sum_{t \,:\, y_t \neq \text{pad}} \log p(y_t),
        \qquad p = \operatorname{softmax}(\text{logits})

    over the :math:`N` real tokens of the batch; padding counts neither above nor below the
    line. Raises `ValueError` where there is nothing but padding.
    """
    real = targets != pad_id
    if not real.any():
        raise ValueError(f"all {targets.numel()} targets are padding (pad_id={pad_id})")
    log_probabilities = logits.log_softmax(dim=-1)
    log_likelihoods = log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return -log_likelihoods[real].mean()
