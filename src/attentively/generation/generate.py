"""Generate text with a trained model: translations, captions, and continuations of a prompt.

`translate`, `caption` and `continue_text` combine tokenizers with the searches of
`attentively.generation.search`.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from attentively.config import check_at_least_one
from attentively.data.batches import pad
from attentively.generation.search import (
    FREELY,
    Beam,
    Hypothesis,
    LengthPenalty,
    NoChoiceError,
    Sampling,
    beam_search,
    generate,
    power,
    sample,
    truncate,
)
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import DecoderOnly, EncoderDecoder, ModelKindError, evaluating
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Tokenizer, note_unknown_words


class Translation(NamedTuple):
    """A generated text with its attention weights."""

    text: str
    """The translation, caption or continued text; empty if there is none."""
    src_tokens: list[str]
    """The source tokens, ``<end>`` included; empty for an image."""
    tgt_tokens: list[str]
    """The generated tokens, ``<end>`` included if it was generated."""
    score: float
    """The score of its `Hypothesis`; minus infinity if there is none."""
    weights: Float[Tensor, "tgt_len src_len"] | None
    """Attention weights of each generated token; None for a model without attention."""
    note: str = ""
    """A remark such as "empty sentence" or "unknown words: …"."""


def translate(
    checkpoint: Checkpoint,
    sentences: Sequence[str],
    beam_size: int = 5,
    length_penalty: float | LengthPenalty = 1.0,
    sampling: Sampling | None = None,
    max_len: int | None = None,
    max_src_len: int = 256,
    need_weights: bool = True,
    batch_size: int = 64,
) -> list[Translation]:
    """Translate sentences; return the translations in the same order.

    Each is the best hypothesis of `beam_search` or, with `sampling`, one sample.

    A sentence that is empty, has more than `max_src_len` tokens or is rejected by the model (for
    example, as too long for its positions) is not translated; its `note` states the reason.
    `max_len` is the maximum number of generated tokens; by default it grows with the source. The
    weights are computed by decoding the finished translation once more. Raises `ModelKindError`,
    which is a `ValueError`, for a model that cannot translate text, and `ValueError` for invalid
    settings.
    """
    if isinstance(sentences, str):
        raise ValueError(f"expected a list of sentences, but got one string: {sentences[:40]!r}")
    check_at_least_one(
        beam_size=beam_size,
        max_len=1 if max_len is None else max_len,
        max_src_len=max_src_len,
        batch_size=batch_size,
    )
    how = sampling or Beam(beam_size, length_penalty)
    _check(how, max_len or _default_max_len(max_src_len))
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    sources = [src_tokenizer.encode(sentence) for sentence in sentences]
    refused = {index: _why_not(ids, max_src_len) for index, ids in enumerate(sources)}

    def length(index: int) -> int:
        return len(sources[index])

    def give_up_after(index: int) -> int:
        return max_len or _default_max_len(length(index))

    waiting = [index for index in range(len(sources)) if not refused[index]]
    waiting.sort(key=length)  # similar lengths in a batch need less padding
    batches = [
        (limit, batch)
        for limit, group in groupby(waiting, key=give_up_after)
        for batch in _batches(list(group), batch_size)
    ]
    written: dict[int, Translation] = {}
    while batches:
        limit, batch = batches.pop()
        src = pad([sources[index] for index in batch], PAD_ID)
        try:
            texts = _write(model, tgt_tokenizer, src, limit, how, need_weights)
            written.update(zip(batch, texts, strict=True))
        except NoChoiceError:
            raise
        except ValueError as error:  # for example, too long for the model's positions
            if len(batch) == 1:
                refused[batch[0]] = str(error)
            else:  # translate the others without the one that failed
                batches += [(limit, [index]) for index in batch]
    translations = []
    for index, sentence in enumerate(sentences):
        nothing = Translation("", [], [], -math.inf, None, refused[index])
        found = written.get(index, nothing)
        src_tokens = src_tokenizer.tokens(sources[index])
        # Without the columns of padding; a copy, so that the memory of the batch is freed.
        weights = None if found.weights is None else found.weights[:, : len(src_tokens)].clone()
        note = _joined(found.note, note_unknown_words(src_tokenizer, sentence))
        translations.append(found._replace(src_tokens=src_tokens, weights=weights, note=note))
    return translations


def _check(how: Beam | Sampling, longest: int) -> None:
    """Raise `ValueError` for settings that fail for texts of up to `longest` tokens.

    Called before any text is read, so that the error is not attributed to a text.
    """
    if isinstance(how, Sampling):
        check_at_least_one(samples=how.samples)
        truncate(torch.zeros(1), how.temperature, how.top_k, how.top_p)
        return
    penalty = how.length_penalty if callable(how.length_penalty) else power(how.length_penalty)
    try:
        divisor = penalty(longest)
    except OverflowError:
        divisor = math.inf
    if not 0 < divisor < math.inf:
        raise ValueError(
            f"length_penalty={how.length_penalty} would divide the score of {longest} tokens by "
            f"{divisor}: use a value nearer to 0"
        )


def _why_not(ids: Sequence[int], max_src_len: int) -> str:
    """Return the reason why a source cannot be translated; empty if it can."""
    if len(ids) == 1:  # nothing but the end token
        return "empty sentence"
    if len(ids) > max_src_len:
        return f"too long: {len(ids)} tokens, but at most {max_src_len} are translated"
    return ""


def _default_max_len(src_len: int) -> int:
    # A function of this sentence alone: other sentences of a batch must not change the result.
    # In steps of 8, so that a batch can contain sentences of similar lengths.
    return 10 + 2 * 8 * math.ceil(src_len / 8)


def _batches(indices: Sequence[int], batch_size: int) -> list[Sequence[int]]:
    return [indices[first : first + batch_size] for first in range(0, len(indices), batch_size)]


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _write(
    model: EncoderDecoder[Any],
    tokenizer: Tokenizer,
    src: Shaped[Tensor, "batch ..."],
    max_len: int,
    how: Beam | Sampling,
    need_weights: bool,
) -> list[Translation]:
    """Generate a text for each source; the caller fills in the source tokens."""
    src = src.to(next(model.parameters()).device)
    if isinstance(how, Beam):
        found = beam_search(model, src, max_len, *how)
    else:
        found = sample(model, src, max_len, *how)
    best = [hypotheses[0] for hypotheses in found]
    weights = _weights(model, src, best) if need_weights else None
    rows = [None] * len(best) if weights is None else weights
    return [
        _translation(tokenizer, hypothesis, row) for hypothesis, row in zip(best, rows, strict=True)
    ]


def _weights(
    model: EncoderDecoder[Any],
    src: Shaped[Tensor, "batch ..."],
    hypotheses: Sequence[Hypothesis],
) -> Float[Tensor, "batch tgt_len src_len"] | None:
    """Return the attention weights of each token of each hypothesis, the end token included."""
    tgt = pad([[START_ID, *hypothesis.ids] for hypothesis in hypotheses], PAD_ID).to(src.device)
    with evaluating(model):
        weights = model.decode(tgt, model.encode(src), need_weights=True).weights
    return None if weights is None else weights.cpu()


def _translation(
    tokenizer: Tokenizer,
    hypothesis: Hypothesis,
    weights: Float[Tensor, "tgt_len src_len"] | None,
) -> Translation:
    tokens = tokenizer.tokens([*hypothesis.ids, *[END_ID] * hypothesis.finished])
    return Translation(
        tokenizer.decode(hypothesis.ids),
        [],
        tokens,
        hypothesis.score,
        None if weights is None else weights[: len(tokens)],
        "" if hypothesis.finished else f"stopped after {len(tokens)} tokens",
    )


def caption(
    checkpoint: Checkpoint,
    images: Float[Tensor, "batch 1 height width"],
    beam_size: int = 5,
    length_penalty: float | LengthPenalty = 1.0,
    max_len: int = 64,
    need_weights: bool = True,
    batch_size: int = 64,
) -> list[Translation]:
    """Caption each image by `beam_search`.

    The weights have one column per position of the feature map. Everything else is as in
    `translate`. Raises `ModelKindError`, which is a `ValueError`, for a model that cannot caption
    images, and `ValueError` for invalid settings.
    """
    check_at_least_one(beam_size=beam_size, max_len=max_len, batch_size=batch_size)
    how = Beam(beam_size, length_penalty)
    _check(how, max_len)
    model, tokenizer = checkpoint.model, checkpoint.tgt_tokenizer
    if (
        not isinstance(model, EncoderDecoder)
        or checkpoint.src_tokenizer is not None
        or tokenizer is None
    ):
        raise ModelKindError(model, "caption images")
    captions: list[Translation] = []
    for first in range(0, len(images), batch_size):
        batch = images[first : first + batch_size]
        captions += _write(model, tokenizer, batch, max_len, how, need_weights)
    return captions


def continue_text(
    checkpoint: Checkpoint,
    prompts: Sequence[str],
    max_len: int = 100,
    how: Sampling | Beam = FREELY,
    batch_size: int = 64,
) -> list[list[Translation]]:
    """Continue each prompt, which may be empty, with a language model.

    Returns, for each prompt, the samples or the hypotheses of the beam. Their text is the prompt
    and its continuation. Raises `ModelKindError`, which is a `ValueError`, for a model that cannot
    continue a text, and `ValueError` for invalid settings.
    """
    if isinstance(prompts, str):
        raise ValueError(f"expected a list of prompts, but got one string: {prompts[:40]!r}")
    check_at_least_one(max_len=max_len, batch_size=batch_size)
    _check(how, max_len)
    model, tokenizer = checkpoint.model, checkpoint.tgt_tokenizer
    if not isinstance(model, DecoderOnly) or tokenizer is None:
        raise ModelKindError(model, "continue a text")
    device = next(model.parameters()).device
    # A prompt starts with the start token, and has no end token.
    rows = [[START_ID, *tokenizer.encode(prompt)[:-1]] for prompt in prompts]

    def length(index: int) -> int:
        return len(rows[index])

    found: dict[int, list[Hypothesis]] = {}
    for _, group in groupby(sorted(range(len(rows)), key=length), key=length):
        for batch in _batches(list(group), batch_size):
            prompt = torch.tensor([rows[index] for index in batch], device=device)
            found.update(zip(batch, generate(model, prompt, max_len, how), strict=True))
    return [
        [_continued(tokenizer, prompt, hypothesis) for hypothesis in found[index]]
        for index, prompt in enumerate(prompts)
    ]


def _continued(tokenizer: Tokenizer, prompt: str, hypothesis: Hypothesis) -> Translation:
    ids = tokenizer.encode(prompt)[:-1]
    written = _translation(tokenizer, hypothesis, None)
    return written._replace(
        text=tokenizer.decode([*ids, *hypothesis.ids]),
        src_tokens=tokenizer.tokens(ids),
        note=_joined(written.note, note_unknown_words(tokenizer, prompt)),
    )
