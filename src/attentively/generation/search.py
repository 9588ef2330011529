r"""Search: greedy search, beam search and sampling with any autoregressive model.

`greedy_search` chooses the most probable next token, `beam_search` keeps several hypotheses, and
`sample` samples. Each uses only the interface that all models share
(`attentively.models.interface`): the model's state contains everything that a step needs. So each
search is one loop, for translation, for captions and for the continuation of a prompt.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from attentively.config import check_at_least_one, check_seed
from attentively.models.interface import (
    Autoregressive,
    DecoderOnly,
    EncoderDecoder,
    ModelKindError,
    evaluating,
)
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, UNK_ID

# Tokens that must not occur in an output. <pad> and <start> are never targets in training, so
# their predicted probabilities are arbitrary; <unk> represents every rare word at once.
FORBIDDEN_IDS = (PAD_ID, UNK_ID, START_ID)


class Hypothesis(NamedTuple):
    """A candidate output of a search."""

    ids: list[int]
    """Token ids, without start and end."""
    log_probability: float
    """Natural logarithm of the probability of these tokens and, if finished, of the end token."""
    score: float
    """The score by which hypotheses are ranked."""
    finished: bool
    """False if `max_len` was reached before the end token."""


class _Start(NamedTuple):
    """The initial state of a search."""

    state: Any
    """The state of the model (a `DecoderState`)."""
    token: Int[Tensor, " batch"]
    """The token to read next."""


def _begin(model: EncoderDecoder[Any], src: Shaped[Tensor, "batch ..."]) -> _Start:
    """Encode the sources; return the state before the first target token."""
    first = torch.full((len(src),), START_ID, device=src.device)
    return _Start(model.start(model.encode(src)), first)


def greedy_search(
    model: EncoderDecoder[Any],
    src: Shaped[Tensor, "batch ..."],
    max_len: int,
    forbidden_ids: Sequence[int] = FORBIDDEN_IDS,
) -> list[Hypothesis]:
    """Choose the most probable next token at every step, until the end token.

    The search stops after `max_len` tokens, the end token included. Returns one
    hypothesis per source; its score is its log-probability.
    """
    check_at_least_one(max_len=max_len)
    with evaluating(model):
        start = _begin(model, src)
        return _one_by_one(model, start, max_len, _most_probable, forbidden_ids)


def _most_probable(log_probabilities: Float[Tensor, "batch vocab"]) -> Int[Tensor, " batch"]:
    return log_probabilities.argmax(dim=-1)


def _one_by_one(
    model: Autoregressive[Any],
    start: _Start,
    max_len: int,
    choose: Callable[[Tensor], Tensor],
    forbidden_ids: Sequence[int],
) -> list[Hypothesis]:
    """Generate texts until all have ended; `choose` selects the next tokens."""
    state, token = start
    texts: list[list[int]] = [[] for _ in range(len(token))]
    totals = [0.0] * len(token)
    live = list(range(len(token)))  # unfinished texts, in the order of the state's rows
    for _ in range(max_len):
        logits, state = model.step(token, state)
        log_probabilities = next_log_probabilities(logits, forbidden_ids)
        token = choose(log_probabilities)
        chosen = log_probabilities.gather(1, token.unsqueeze(1)).squeeze(1)
        steps = zip(live, token.tolist(), chosen.tolist(), strict=True)
        for text, index, value in steps:
            texts[text].append(index)
            totals[text] += value
        continuing = [row for row, text in enumerate(live) if texts[text][-1] != END_ID]
        if not continuing:
            break
        if len(continuing) < len(live):  # what has ended leaves the batch
            live = [live[row] for row in continuing]
            rows = token.new_tensor(continuing)
            state, token = state.select(rows), token[rows]
    return [_without_end(ids, total) for ids, total in zip(texts, totals, strict=True)]


def _without_end(ids: list[int], log_probability: float) -> Hypothesis:
    finished = ids[-1] == END_ID
    words = ids[:-1] if finished else ids
    return Hypothesis(words, log_probability, score=log_probability, finished=finished)


LengthPenalty = Callable[[int], float]
"""The divisor of a text's log-probability, as a function of its length."""


def power(alpha: float) -> LengthPenalty:
    r"""Divide by :math:`|y|^{\alpha}`.

    :math:`\alpha = 0` ranks by probability, which favours short texts;
    :math:`\alpha = 1` ranks by the mean log-probability per token.
    """
    return lambda length: length**alpha


def gnmt(alpha: float) -> LengthPenalty:
    r"""Divide by a power of :math:`5 + |y|`, which is weaker than `power`.

    .. math:: \operatorname{lp}(y) = \left(\frac{5 + |y|}{5 + 1}\right)^{\alpha}

    The length penalty of Wu et al. (2016), https://arxiv.org/abs/1609.08144, section 7,
    equation 14, without the paper's coverage penalty.
    """
    return lambda length: ((5 + length) / 6) ** alpha


class _Partials(NamedTuple):
    """Partial hypotheses: several for each sentence, the most probable first."""

    ids: Int[Tensor, "sentences width length"]
    log_probability: Float[Tensor, "sentences width"]
    """Minus infinity where the beam has no hypothesis."""
    parent: Int[Tensor, "sentences width"]
    """The index, in the previous beam, of the same hypothesis without its last token."""


class Beam(NamedTuple):
    """The settings of `beam_search`, for `generate`."""

    beam_size: int
    length_penalty: float | LengthPenalty = 1.0


def beam_search(
    model: EncoderDecoder[Any],
    src: Shaped[Tensor, "batch ..."],
    max_len: int,
    beam_size: int,
    length_penalty: float | LengthPenalty = 1.0,
    forbidden_ids: Sequence[int] = FORBIDDEN_IDS,
) -> list[list[Hypothesis]]:
    r"""Keep the `beam_size` most probable prefixes at each step; rank complete texts by

    .. math:: \operatorname{score}(y) = \frac{\log p(y)}{\operatorname{lp}(|y|)}

    with :math:`|y|` the number of tokens, the end token included, and
    :math:`\operatorname{lp}` the `length_penalty`: `gnmt`, `power`, or a number
    :math:`\alpha`, which means `power` of it.

    At every step each prefix is extended by every token. Among the `beam_size` most
    probable extensions, those that end become finished hypotheses; the `beam_size` most
    probable ones that do not end are the next prefixes. Of the finished hypotheses, the
    `beam_size` with the best scores are kept. The search of a sentence stops when it
    has that many and no prefix, scored at its present length, is better than the worst
    of them. This criterion is exact for a constant penalty; for one that grows with the
    length it is a heuristic, because the score of a prefix may still rise. A beam of
    size 1 is `greedy_search`; an unlimited beam is exhaustive search. Ties are broken
    arbitrarily. The rules are those of Hugging Face's
    ``generate`` with ``early_stopping=False``.

    Returns up to `beam_size` hypotheses per source, the best first; those that reached
    `max_len` tokens without an end token come after the finished ones.
    """
    check_at_least_one(max_len=max_len)
    with evaluating(model):
        start = _begin(model, src)
        how = Beam(beam_size, length_penalty)
        return _beam_search(model, start, max_len, how, forbidden_ids)


def _beam_search(
    model: Autoregressive[Any],
    start: _Start,
    max_len: int,
    how: Beam,
    forbidden_ids: Sequence[int],
) -> list[list[Hypothesis]]:
    beam_size, length_penalty = how
    check_at_least_one(beam_size=beam_size)
    penalty = length_penalty if callable(length_penalty) else power(length_penalty)
    state, token = start
    found: list[list[Hypothesis]] = [[] for _ in range(len(token))]
    live = list(range(len(token)))  # unfinished sentences, in the beam's order
    beam = _empty_texts(len(token), token.device)
    for length in range(1, max_len + 1):
        logits, state = model.step(token, state)
        log_probabilities = next_log_probabilities(logits, forbidden_ids)
        # At most beam_size of them end, one per prefix, so at least beam_size continue.
        candidates = _extend(beam, log_probabilities, 2 * beam_size)
        for row, hypothesis in _ended(candidates, beam_size, penalty(length)):
            best = sorted([*found[live[row]], hypothesis], key=_score, reverse=True)
            found[live[row]] = best[:beam_size]
        width = beam.ids.shape[1]
        beam = _continuing(candidates, beam_size)
        highest = beam.log_probability[:, 0].tolist()
        searched = [
            row
            for row, sentence in enumerate(live)
            if _may_improve(
                highest[row] / penalty(length),
                found[sentence],
                beam_size,
            )
        ]
        live = [live[row] for row in searched]
        if not live:
            break
        rows = token.new_tensor(searched)
        beam = _Partials(*(part[rows] for part in beam))
        parents = (rows.unsqueeze(1) * width + beam.parent).flatten()
        if parents.tolist() != list(range(len(token))):
            state = state.select(parents)
        token = beam.ids[:, :, -1].flatten()
    for row, sentence in enumerate(live):
        unfinished = _unfinished(beam, row, penalty(max_len))
        found[sentence] = [*found[sentence], *unfinished][:beam_size]
    return found


def _empty_texts(sentences: int, device: torch.device) -> _Partials:
    """Return one empty prefix of probability 1 for each sentence."""
    first = torch.zeros(sentences, 1, dtype=torch.long, device=device)
    return _Partials(
        first.unsqueeze(-1)[:, :, :0], torch.zeros_like(first, dtype=torch.float), first
    )


def _extend(
    beam: _Partials, log_probabilities: Float[Tensor, "rows vocab"], count: int
) -> _Partials:
    """Extend every prefix by every token; return the `count` best per sentence."""
    sentences, width, length = beam.ids.shape
    vocab = log_probabilities.shape[-1]
    following = log_probabilities.view(sentences, width, vocab)
    totals = (beam.log_probability.unsqueeze(-1) + following).flatten(1)
    best, index = totals.topk(min(count, width * vocab))
    parent, token = index // vocab, index % vocab
    texts = beam.ids.gather(1, parent.unsqueeze(-1).expand(-1, -1, length))
    return _Partials(torch.cat([texts, token.unsqueeze(-1)], dim=-1), best, parent)


def _ended(
    candidates: _Partials, beam_size: int, divisor: float
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield the finished ones among the `beam_size` most probable, with their rows."""
    possible = candidates.log_probability > -math.inf
    ended = possible & (candidates.ids[:, :, -1] == END_ID)
    for row, place in ended[:, :beam_size].nonzero().tolist():
        total = candidates.log_probability[row, place].item()
        ids = candidates.ids[row, place, :-1].tolist()
        yield row, Hypothesis(ids, total, total / divisor, finished=True)


def _continuing(candidates: _Partials, beam_size: int) -> _Partials:
    """Return the `beam_size` most probable prefixes that have not ended."""
    ended = candidates.ids[:, :, -1] == END_ID
    live = candidates.log_probability.masked_fill(ended, -math.inf)
    best, place = live.topk(min(beam_size, live.shape[1]))
    # An empty place repeats the first one, with probability 0.
    place = place.where(best > -math.inf, place[:, :1])
    length = candidates.ids.shape[2]
    ids = candidates.ids.gather(1, place.unsqueeze(-1).expand(-1, -1, length))
    return _Partials(ids, best, candidates.parent.gather(1, place))


def _may_improve(best_live: float, found: Sequence[Hypothesis], beam_size: int) -> bool:
    """Return whether the best prefix would rank among the finished hypotheses."""
    if len(found) < beam_size:
        return best_live > -math.inf
    return best_live > found[-1].score


def _unfinished(beam: _Partials, row: int, divisor: float) -> list[Hypothesis]:
    texts = zip(beam.ids[row].tolist(), beam.log_probability[row].tolist(), strict=True)
    return [
        Hypothesis(ids, total, total / divisor, finished=False)
        for ids, total in texts
        if total > -math.inf
    ]


def _score(hypothesis: Hypothesis) -> float:
    return hypothesis.score


def truncate(
    log_probabilities: Float[Tensor, "*batch vocab"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "*batch vocab"]:
    r"""Return the log-probabilities to sample from, minus infinity if removed.

    In this order: `temperature` :math:`t` changes :math:`p_i` to
    :math:`p_i^{1/t} / \sum_j p_j^{1/t}`; `top_k` keeps the :math:`k` most probable
    tokens (and ties with the last of them); `top_p` keeps the smallest set of most
    probable tokens whose total probability reaches :math:`p` (nucleus sampling:
    Holtzman et al., 2020, https://arxiv.org/abs/1904.09751, section 3.1). At least one
    token is always kept, and the probabilities of the kept tokens are normalised.

    Raises `ValueError` for a `temperature` that is not positive and finite, a `top_k`
    that is not positive, and a `top_p` that is not above 0 and at most 1.
    """
    if not temperature > 0:
        expected = "must be above 0; for 0 use greedy_search"
        raise ValueError(f"temperature={temperature} {expected}")
    least = torch.finfo(torch.float32).tiny
    if not least <= temperature < math.inf:
        raise ValueError(
            f"temperature={temperature} must be a finite number of at least {least:.1e}"
        )
    if top_k is not None:
        check_at_least_one(top_k=top_k)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be above 0 and at most 1")
    # Relative to the most probable token: no overflow, however low the temperature.
    largest = log_probabilities.amax(dim=-1, keepdim=True)
    scores = (log_probabilities - largest) / temperature
    if top_k is not None:
        last_kept = scores.topk(min(top_k, scores.shape[-1])).values[..., -1:]
        scores = scores.masked_fill(scores < last_kept, -math.inf)
    if top_p is not None and top_p < 1:
        probabilities, order = scores.softmax(dim=-1).sort(dim=-1, descending=True)
        likelier = probabilities.cumsum(dim=-1) - probabilities  # sum before a token
        dropped = torch.zeros_like(likelier, dtype=torch.bool)
        dropped = dropped.scatter(-1, order, likelier >= top_p)
        scores = scores.masked_fill(dropped, -math.inf)
    return scores.log_softmax(dim=-1)


class Sampling(NamedTuple):
    """The settings of `sample`, for `generate`."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    samples: int = 1
    generator: torch.Generator | None = None

    @classmethod
    def seeded(
        cls,
        seed: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        samples: int = 1,
    ) -> Self:
        """Return settings with a generator on the CPU, so that every device samples the same."""
        check_seed(seed)
        return cls(temperature, top_k, top_p, samples, torch.Generator().manual_seed(seed))


FREELY = Sampling()
"""Sample once from the model's own distribution."""


def sample(
    model: EncoderDecoder[Any],
    src: Shaped[Tensor, "batch ..."],
    max_len: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    samples: int = 1,
    generator: torch.Generator | None = None,
    forbidden_ids: Sequence[int] = FORBIDDEN_IDS,
) -> list[list[Hypothesis]]:
    """Sample each next token from the model's distribution after `truncate`.

    Returns `samples` hypotheses per source, possibly with repetitions. Their log-probability is
    that of the model, before truncation. A `generator` makes the result reproducible for the same
    sources in the same order; tokens are sampled on its device, so a generator on the CPU gives
    the same samples for a model on any device, up to rounding of the probabilities.
    """
    check_at_least_one(max_len=max_len)
    how = Sampling(temperature, top_k, top_p, samples, generator)
    with evaluating(model):
        start = _begin(model, src)
        return _sample(model, start, max_len, how, forbidden_ids)


def _sample(
    model: Autoregressive[Any],
    start: _Start,
    max_len: int,
    how: Sampling,
    forbidden_ids: Sequence[int],
) -> list[list[Hypothesis]]:
    temperature, top_k, top_p, samples, generator = how
    check_at_least_one(samples=samples)

    def choose(log_probabilities: Float[Tensor, "batch vocab"]) -> Int[Tensor, " batch"]:
        kept = truncate(log_probabilities, temperature, top_k, top_p).exp()
        if generator is not None:
            kept = kept.to(generator.device)
        token = torch.multinomial(kept, 1, generator=generator).squeeze(1)
        return token.to(log_probabilities.device)

    state, token = start
    if samples > 1:
        rows = torch.arange(len(token), device=token.device).repeat_interleave(samples)
        state, token = state.select(rows), token[rows]
    sampled = _one_by_one(model, _Start(state, token), max_len, choose, forbidden_ids)
    return [sampled[first : first + samples] for first in range(0, len(sampled), samples)]


def generate(
    model: Autoregressive[Any],
    prompt: Int[Tensor, "batch prompt_len"],
    max_len: int,
    how: Sampling | Beam = FREELY,
    forbidden_ids: Sequence[int] = FORBIDDEN_IDS,
) -> list[list[Hypothesis]]:
    """Continue each prompt with a language model, for up to `max_len` tokens.

    The prompts of a batch have the same length and at least one token; an empty prompt is
    ``START_ID``. Returns hypotheses of the continuation of each prompt, from `sample` or
    `beam_search`.
    """
    check_at_least_one(max_len=max_len, prompt_len=prompt.shape[1])
    if not isinstance(model, DecoderOnly):
        raise ModelKindError(model, "continue a text")
    with evaluating(model):
        start = _Start(model.start(prompt[:, :-1]), prompt[:, -1])
        if isinstance(how, Beam):
            return _beam_search(model, start, max_len, how, forbidden_ids)
        return _sample(model, start, max_len, how, forbidden_ids)


class NoChoiceError(ValueError):
    """The model assigns a positive probability to no permitted token."""


def next_log_probabilities(
    logits: Float[Tensor, "batch vocab"], forbidden_ids: Sequence[int] = FORBIDDEN_IDS
) -> Float[Tensor, "batch vocab"]:
    """Return the log-probability of every next token, minus infinity for a forbidden one.

    The others keep the model's own probabilities, without renormalisation. Raises
    `NoChoiceError` if no token is left, for example because the logits are NaN.
    """
    log_probabilities = logits.float().log_softmax(dim=-1)
    for forbidden in forbidden_ids:
        log_probabilities[:, forbidden] = -math.inf
    if not log_probabilities.amax(dim=-1).isfinite().all():
        raise NoChoiceError(
            "no next token can be chosen: the logits are not finite, or every token has "
            "probability 0 or is forbidden"
        )
    return log_probabilities
