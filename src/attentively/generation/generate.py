"""Generate text with a trained model: translations, captions, and continuations of a prompt.

`translate`, `caption` and `continue_text` put a tokenizer before and after the searches of
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
    """A text that a model wrote, and what it looked at."""

    text: str
    """The translation, caption or continued text; empty where there is none."""
    src_tokens: list[str]
    """What the model read, ``<end>`` included; none where that was an image."""
    tgt_tokens: list[str]
    """What the model wrote, ``<end>`` included if it came so far."""
    score: float
    """The score of its `Hypothesis`; minus infinity where there is none."""
    weights: Float[Tensor, "tgt_len src_len"] | None
    """Where the model looked at each token that it wrote; None if it does not attend."""
    note: str = ""
    """What a reader should know: an empty sentence, unknown words, ..."""


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
    """Translate text; the translations come in the order of the sentences.

    They are the best of a `beam_search`, or, with `sampling`, one draw of `sample` each.

    A sentence that is empty, has more than `max_src_len` tokens or is refused by the model (as
    too long for its positions) is not translated; its `note` says so. `max_len` is the number
    of tokens after which the search gives up; by default it grows with the source. The weights
    come from reading the finished translation once more. Raises `ModelKindError`, which is a
    `ValueError`, for a model that does not translate text, and `ValueError` for a choice that
    no text can be written with.
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
    waiting.sort(key=length)  # neighbours of like length pad little
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
        except ValueError as error:  # too long for the model's positions, say
            if len(batch) == 1:
                refused[batch[0]] = str(error)
            else:  # only the one at fault is to suffer
                batches += [(limit, [index]) for index in batch]
    translations = []
    for index, sentence in enumerate(sentences):
        nothing = Translation("", [], [], -math.inf, None, refused[index])
        found = written.get(index, nothing)
        src_tokens = src_tokenizer.tokens(sources[index])
        # Without the padding's columns, and a copy, so that the batch's can be forgotten.
        weights = None if found.weights is None else found.weights[:, : len(src_tokens)].clone()
        note = _joined(found.note, note_unknown_words(src_tokenizer, sentence))
        translations.append(found._replace(src_tokens=src_tokens, weights=weights, note=note))
    return translations


def _check(how: Beam | Sampling, longest: int) -> None:
    """Raise `ValueError` for a choice that no text of up to `longest` tokens can be written with.

    Asked before any text is read, so that no text is blamed for it.
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
            f"length_penalty={how.length_penalty} divides the score of {longest} tokens by "
            f"{divisor}: choose a number nearer to 0"
        )


def _why_not(ids: Sequence[int], max_src_len: int) -> str:
    """Return why a source is not translated; nothing where it is."""
    if len(ids) == 1:  # nothing but the end token
        return "empty sentence"
    if len(ids) > max_src_len:
        return f"too long: {len(ids)} tokens, and at most {max_src_len} are translated"
    return ""


def _default_max_len(src_len: int) -> int:
    # A function of this sentence alone: the company it is batched with must not change what
    # it becomes. In steps of 8, so that a batch has room for neighbours in length.
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
    """Search for a text for each source; what was read is left for the caller to say."""
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
    """Return where the model looks as it writes each token of each hypothesis and its end."""
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
        "" if hypothesis.finished else f"given up after {len(tokens)} tokens",
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
    """Describe each image by `beam_search`.

    The weights have a column for each place of the image that the model can look at. The rest
    is as in `translate`. Raises `ModelKindError`, which is a `ValueError`, for a model that
    does not caption images, and `ValueError` for a choice that no text can be written with.
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
    """Let a language model go on with each prompt, which may be empty, as `generate` does.

    Returns, for each prompt, the samples or the hypotheses of the beam. Their text is the
    prompt and what the model wrote after it. Raises `ModelKindError`, which is a `ValueError`,
    for a model that does not go on with a text, and `ValueError` for a choice that no text can be
    written with.
    """
    if isinstance(prompts, str):
        raise ValueError(f"expected a list of prompts, but got one string: {prompts[:40]!r}")
    check_at_least_one(max_len=max_len, batch_size=batch_size)
    _check(how, max_len)
    model, tokenizer = checkpoint.model, checkpoint.tgt_tokenizer
    if not isinstance(model, DecoderOnly) or tokenizer is None:
        raise ModelKindError(model, "go on with a text")
    device = next(model.parameters()).device
    # A prompt begins with the start token, and has no end.
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
