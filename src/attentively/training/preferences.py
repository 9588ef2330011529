r"""Preference optimisation: train a language model on pairs of answers, one of them preferred.

Source: Rafailov et al. (2023), https://arxiv.org/abs/2305.18290, sections 3 and 4.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from attentively.models.language_model import LanguageModel


def answer_log_probabilities(
    model: LanguageModel,
    ids: Int[Tensor, "batch len"],
    is_answer: Bool[Tensor, "batch len"],
) -> Float[Tensor, " batch"]:
    r"""Return the log-probability of each answer, given the prompt before it.

    .. math:: \log \pi(y \mid x) = \sum_{t \in \text{answer}} \log p(w_t \mid w_{<t})

    `ids` are prompts with their answers. `is_answer` is True at the tokens of the
    answers, and False at prompts and padding, which the sum leaves out. Raises
    `ValueError` if the first token of a row belongs to the answer, because no token
    predicts it.
    """
    if is_answer[:, 0].any():
        raise ValueError("the first token belongs to an answer: nothing predicts it")
    log_probabilities = model(ids[:, :-1]).log_softmax(dim=-1)
    of_next = log_probabilities.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return of_next.where(is_answer[:, 1:], 0.0).sum(dim=-1)


def preference_rewards(
    policy: Float[Tensor, " batch"], reference: Float[Tensor, " batch"], beta: float
) -> Float[Tensor, " batch"]:
    r"""Return the implicit reward of each answer, its log-probability ratio times beta.

    .. math:: r(x, y) = \beta \log \frac{\pi_\theta(y \mid x)}{\pi_\text{ref}(y \mid x)}
    """
    return beta * (policy - reference)


def dpo_loss(
    policy_chosen: Float[Tensor, " batch"],
    policy_rejected: Float[Tensor, " batch"],
    reference_chosen: Float[Tensor, " batch"],
    reference_rejected: Float[Tensor, " batch"],
    beta: float,
) -> Float[Tensor, ""]:
    r"""Return the loss of direct preference optimisation, the mean over the pairs.

    .. math:: L = -\log \sigma \big( r(x, y_w) - r(x, y_l) \big)

    with the rewards of `preference_rewards` for the chosen answer :math:`y_w` and the
    rejected answer :math:`y_l`. The arguments are log-probabilities of whole answers,
    and no gradient should flow into those of the reference. Equation 7 of Rafailov et
    al. (2023). Raises `ValueError` if `beta` is not positive.
    """
    if beta <= 0:
        raise ValueError(f"{beta=} must be positive")
    chosen = preference_rewards(policy_chosen, reference_chosen, beta)
    rejected = preference_rewards(policy_rejected, reference_rejected, beta)
    return -logsigmoid(chosen - rejected).mean()
