"""Search: from a model's probabilities for the next token to a whole sentence.

The searches ask a model only for what every model answers (`attentively.protocol`). All that
a model remembers from one token to the next is in its state.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.checkpoints import Checkpoint
from attentively.data.batches import pad
from attentively.masks import padding_mask
from attentively.protocol import EncoderDecoder
from attentively.vocabulary import END_ID, PAD_ID, START_ID, UNK_ID, unknown_words

# No reader wants these in a sentence. <pad> and <start> are never a target in training, so
# what a model says of them is noise; <unk> stands for every rare word at once.
FORBIDDEN_IDS = (PAD_ID, UNK_ID, START_ID)


class Hypothesis(NamedTuple):
    """A sentence that a search proposes."""

    ids: list[int]
    """Its tokens, without start and end."""
    log_probability: float
    """Natural logarithm of the model's probability of these tokens and, if finished, the end."""
    score: float
    """What hypotheses are ranked by."""
    finished: bool
    """False where the search gave up before the end token."""


def greedy_search(
    model: EncoderDecoder,
    src: Int[Tensor, "batch src_len"],
    src_mask: Bool[Tensor, "batch 1 src_len"],
    max_len: int,
    forbidden_ids: Sequence[int] = FORBIDDEN_IDS,
) -> list[Hypothesis]:
    """Take the likeliest next token, again and again, until the end token.

    The search gives up after `max_len` tokens, the end token counted. Returns one hypothesis
    for each source sentence; its score is its log-probability.
    """
    _check_at_least_one(max_len=max_len)
    with evaluating(model):
        state = model.start(model.encode(src, src_mask), src_mask)
        token = src.new_full((len(src),), START_ID)
        ended = torch.zeros_like(token, dtype=torch.bool)
        tokens, log_probabilities = [], []
        for _ in range(max_len):
            logits, state = model.step(token, state)
            log_probability, token = next_log_probabilities(logits, forbidden_ids).max(dim=-1)
            tokens.append(token)
            log_probabilities.append(log_probability)
            ended |= token == END_ID
            if ended.all():
                break
        rows = torch.stack(tokens, dim=1).tolist()
        values = torch.stack(log_probabilities, dim=1).tolist()
    return [_cut_at_end(*row) for row in zip(rows, values, strict=True)]


def _cut_at_end(ids: list[int], log_probabilities: list[float]) -> Hypothesis:
    """Drop what a sentence went on to say after its end, while others were not done."""
    finished = END_ID in ids
    length = ids.index(END_ID) if finished else len(ids)
    log_probability = sum(log_probabilities[: length + 1])
    return Hypothesis(ids[:length], log_probability, score=log_probability, finished=finished)


class _Partial(NamedTuple):
    """The first tokens of a translation."""

    sentence: int
    """The row of the source sentence that it translates."""
    parent: int
    """The row, in the state, of the same tokens without the last."""
    ids: list[int]
    log_probability: float

    @property
    def ended(self) -> bool:
        return self.ids[-1:] == [END_ID]


def beam_search(
    model: EncoderDecoder,
    src: Int[Tensor, "batch src_len"],
    src_mask: Bool[Tensor, "batch 1 src_len"],
    max_len: int,
    beam_size: int,
    length_penalty: float = 1.0,
    forbidden_ids: Sequence[int] = FORBIDDEN_IDS,
) -> list[list[Hypothesis]]:
    r"""Keep the `beam_size` likeliest beginnings at every step; rank whole sentences by

    .. math:: \operatorname{score}(y) = \frac{\log p(y)}{|y|^{\alpha}}

    with :math:`\alpha` the `length_penalty` and :math:`|y|` the number of tokens, the end
    token counted. :math:`\alpha = 0` ranks by probability, which favours short sentences;
    :math:`\alpha = 1` ranks by the mean log-probability of a token.

    A sentence that ends is set aside and keeps its place, so the beam narrows. The search is
    over when every place holds an ended sentence, not at the first one, which a longer one may
    still overtake. Width 1 is `greedy_search`; a width that is never filled is exhaustive search.
    Equally likely tokens are taken in no particular order.

    Returns up to `beam_size` hypotheses for each source sentence, the best first. Those
    given up after `max_len` tokens, the end token counted, stand after those that ended.
    """
    _check_at_least_one(max_len=max_len, beam_size=beam_size)
    ended: list[list[_Partial]] = [[] for _ in range(len(src))]
    with evaluating(model):
        state = model.start(model.encode(src, src_mask), src_mask)
        live = [_Partial(sentence, sentence, [], 0.0) for sentence in range(len(src))]
        token = src.new_full((len(src),), START_ID)
        for _ in range(max_len):
            logits, state = model.step(token, state)
            log_probabilities = next_log_probabilities(logits, forbidden_ids)
            candidates = _extend(live, log_probabilities, beam_size)
            live = []
            for sentence, proposals in groupby(candidates, key=lambda c: c.sentence):
                places = beam_size - len(ended[sentence])
                for candidate in sorted(proposals, key=_likeliest_first)[:places]:
                    if candidate.ended:
                        ended[sentence].append(candidate)
                    else:
                        live.append(candidate)
            if not live:
                break
            state = state.select(src.new_tensor([partial.parent for partial in live]))
            token = src.new_tensor([partial.ids[-1] for partial in live])
    for partial in live:
        ended[partial.sentence].append(partial)
    return [
        sorted(
            (_hypothesis(partial, length_penalty) for partial in found),
            key=lambda hypothesis: (hypothesis.finished, hypothesis.score),
            reverse=True,
        )
        for found in ended
    ]


def _extend(
    live: Sequence[_Partial],
    log_probabilities: Float[Tensor, "live vocab"],
    beam_size: int,
) -> list[_Partial]:
    """Return every live beginning with each token that may follow, sentence by sentence."""
    # A sentence keeps at most beam_size candidates, so no parent needs to offer more.
    width = min(beam_size, log_probabilities.size(-1))
    best, tokens = (rows.tolist() for rows in log_probabilities.topk(width, dim=-1))
    return [
        _Partial(old.sentence, parent, [*old.ids, token], old.log_probability + log_probability)
        for parent, old in enumerate(live)
        for log_probability, token in zip(best[parent], tokens[parent], strict=True)
        if log_probability > -math.inf
    ]


def _likeliest_first(partial: _Partial) -> float:
    return -partial.log_probability


def _hypothesis(partial: _Partial, length_penalty: float) -> Hypothesis:
    score = partial.log_probability / len(partial.ids) ** length_penalty
    ids = partial.ids[:-1] if partial.ended else partial.ids
    return Hypothesis(ids, partial.log_probability, score, partial.ended)


def next_log_probabilities(
    logits: Float[Tensor, "batch vocab"], forbidden_ids: Sequence[int] = FORBIDDEN_IDS
) -> Float[Tensor, "batch vocab"]:
    """Return the log-probability of every next token, minus infinity for a forbidden one.

    The others keep the model's own probabilities: what is forbidden is not shared out among
    them. Raises `ValueError` where no token is left, as with logits that are not numbers.
    """
    log_probabilities = logits.float().log_softmax(dim=-1)
    log_probabilities[:, list(forbidden_ids)] = -math.inf
    if not log_probabilities.amax(dim=-1).isfinite().all():
        raise ValueError(
            "the model leaves no next token to choose: its logits are not numbers, or every "
            "token is impossible or forbidden"
        )
    return log_probabilities


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients for a while; then every part is as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in modes:
            module.training = training


class Translation(NamedTuple):
    """A translated sentence, and what the model looked at."""

    text: str
    """The translation; empty where there is none."""
    src_tokens: list[str]
    """What the model read, ``<end>`` included."""
    tgt_tokens: list[str]
    """What the model wrote, ``<end>`` included if it came so far."""
    score: float
    """The score of `beam_search`; minus infinity where there is no translation."""
    weights: Float[Tensor, "tgt_len src_len"] | None
    """Where the model looked at each token that it wrote; None if it does not attend."""
    note: str = ""
    """What a reader should know: an empty sentence, unknown words, ..."""


def translate(
    checkpoint: Checkpoint,
    sentences: Sequence[str],
    beam_size: int = 5,
    length_penalty: float = 1.0,
    max_len: int | None = None,
    max_src_len: int = 256,
    need_weights: bool = True,
    batch_size: int = 64,
) -> list[Translation]:
    """Translate text; the translations come in the order of the sentences.

    A sentence that is empty or has more than `max_src_len` tokens is not translated; its
    `note` says so. `max_len` is the number of tokens after which the search gives up; by
    default it grows with the source. The weights come from reading the finished translation
    once more.
    """
    if isinstance(sentences, str):
        raise ValueError(f"expected a list of sentences, but got one string: {sentences[:40]!r}")
    _check_at_least_one(
        beam_size=beam_size,
        max_len=1 if max_len is None else max_len,
        max_src_len=max_src_len,
        batch_size=batch_size,
    )
    sources = [checkpoint.src_tokenizer.encode(sentence) for sentence in sentences]
    translations: dict[int, Translation] = {}
    for index, ids in enumerate(sources):
        reason = _why_not(ids, max_src_len)
        if reason:
            src_tokens = checkpoint.src_tokenizer.tokens(ids)
            translations[index] = Translation("", src_tokens, [], -math.inf, None, reason)

    def give_up_after(index: int) -> int:
        return max_len or _default_max_len(len(sources[index]))

    waiting = [index for index in range(len(sources)) if index not in translations]
    waiting.sort(key=lambda index: len(sources[index]))  # neighbours of like length pad little
    for limit, group in groupby(waiting, key=give_up_after):
        indices = list(group)
        for first in range(0, len(indices), batch_size):
            batch = indices[first : first + batch_size]
            found = _translate_batch(
                checkpoint,
                [sources[index] for index in batch],
                beam_size,
                length_penalty,
                limit,
                need_weights,
            )
            translations.update(zip(batch, found, strict=True))
    for index, sentence in enumerate(sentences):
        if UNK_ID in sources[index]:
            unknown = dict.fromkeys(unknown_words(checkpoint.src_tokenizer, sentence))
            note = f"unknown words: {', '.join(unknown)}"
            translations[index] = _noted(translations[index], note)
    return [translations[index] for index in range(len(sentences))]


def _why_not(ids: Sequence[int], max_src_len: int) -> str:
    """Return why a source is not translated; nothing where it is."""
    if len(ids) == 1:  # nothing but the end token
        return "empty sentence"
    if len(ids) > max_src_len:
        return f"too long: {len(ids)} tokens, and at most {max_src_len} are translated"
    return ""


def _noted(translation: Translation, note: str) -> Translation:
    return translation._replace(note="; ".join(filter(None, [translation.note, note])))


def _default_max_len(src_len: int) -> int:
    # A function of this sentence alone: the company it is batched with must not change what
    # it becomes. In steps of 8, so that a batch has room for neighbours in length.
    return 10 + 2 * 8 * math.ceil(src_len / 8)


def _translate_batch(
    checkpoint: Checkpoint,
    sources: Sequence[list[int]],
    beam_size: int,
    length_penalty: float,
    max_len: int,
    need_weights: bool,
) -> list[Translation]:
    model, tokenizer = checkpoint.model, checkpoint.tgt_tokenizer
    device = next(model.parameters()).device
    src = pad(sources, PAD_ID).to(device)
    src_mask = padding_mask(src, PAD_ID)
    found = beam_search(model, src, src_mask, max_len, beam_size, length_penalty)
    best = [hypotheses[0] for hypotheses in found]
    weights = _weights(model, src, src_mask, best) if need_weights else None
    translations = []
    for row, (ids, hypothesis) in enumerate(zip(sources, best, strict=True)):
        tgt_tokens = tokenizer.tokens([*hypothesis.ids, *[END_ID] * hypothesis.finished])
        translations.append(
            Translation(
                tokenizer.decode(hypothesis.ids),
                checkpoint.src_tokenizer.tokens(ids),
                tgt_tokens,
                hypothesis.score,
                None if weights is None else weights[row, : len(tgt_tokens), : len(ids)].clone(),
                "" if hypothesis.finished else f"given up after {max_len} tokens",
            )
        )
    return translations


def _weights(
    model: EncoderDecoder,
    src: Int[Tensor, "batch src_len"],
    src_mask: Bool[Tensor, "batch 1 src_len"],
    hypotheses: Sequence[Hypothesis],
) -> Float[Tensor, "batch tgt_len src_len"] | None:
    """Return where the model looks as it writes each token of each hypothesis and its end."""
    tgt = pad([[START_ID, *hypothesis.ids] for hypothesis in hypotheses], PAD_ID).to(src.device)
    with evaluating(model):
        memory = model.encode(src, src_mask)
        weights = model.decode(tgt, memory, src_mask, need_weights=True).weights
    return None if weights is None else weights.cpu()


def _check_at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name}={number} must be at least 1")
