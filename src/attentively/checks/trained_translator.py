"""The trained translator into which a student's part is put: it must translate as before."""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from attentively.checks import CheckFailed, call, expect_equal, open_call
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.interface import DecoderOutput, EncoderDecoder
from attentively.tokens.vocabulary import PAD_ID, target_ids

MODEL = "toy-additive"
"""The name of its checkpoint: of the toy language, with additive attention."""
TRANSFORMER = "toy-transformer"
"""The name of another: a Transformer of the same language."""


@functools.cache
def trained(name: str) -> Checkpoint:
    """Return a trained model for a check, which reads it; students' code must not reach it."""
    return load_pretrained(name)


class _Reference(NamedTuple):
    """What the trained model outputs for some sentences."""

    checkpoint: Checkpoint
    src: Tensor
    tgt: Tensor
    """The translations of the sentences, in one batch."""
    output: DecoderOutput
    shortest: tuple[str, str]
    """The sentence with the shortest translation, and this translation."""


@functools.cache
def _reference(name: str, sentences: tuple[str, ...]) -> _Reference:
    checkpoint = trained(name)
    translations = translate(checkpoint, sentences, beam_size=1)
    model, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    src = pad([src_tokenizer.encode(sentence) for sentence in sentences], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, each.text) for each in translations], PAD_ID)
    pairs = zip(sentences, translations, strict=True)
    sentence, shortest = min(pairs, key=lambda pair: len(pair[1].tgt_tokens))
    output = _attending(model, src, tgt)
    return _Reference(checkpoint, src, tgt, output, (sentence, shortest.text))


@torch.no_grad()
def _attending(model: EncoderDecoder[Any], src: Tensor, tgt: Tensor) -> DecoderOutput:
    return model.decode(tgt, model.encode(src), need_weights=True)


def expect_same_translations(
    put_in: Callable[[Any], None], sentences: Sequence[str], what: str, name: str = MODEL
) -> None:
    """Let `put_in` replace a part of the trained model, called `what`, and translate with it.

    The weights and probabilities of its own translations, all in one batch, must be what they
    were, and then the shortest translation, one word at a time.
    """
    key = open_call.key("translations", what, name, *sentences)
    if open_call.known(key):
        return
    reference = _reference(name, tuple(sentences))
    changed = replace(reference.checkpoint, model=copy.deepcopy(reference.checkpoint.model))
    model = changed.translator().model
    put_in(model)
    where = {"src": reference.src, "tgt": reference.tgt}
    got = cast(DecoderOutput, call(functools.partial(_attending, model), where))
    expected = reference.output
    assert expected.weights is not None  # the trained model attends
    expect_equal(got.weights, expected.weights, "the trained model's weights", where)
    probabilities = got.logits.softmax(dim=-1), expected.logits.softmax(dim=-1)
    expect_equal(*probabilities, "the trained model's probabilities", where)
    sentence, text = reference.shortest
    [new] = translate(changed, [sentence], beam_size=1)
    if new.text != text:
        raise CheckFailed(
            f"  With your {what} the trained model translates differently.\n"
            f"  sentence    {sentence}\n  got         {new.text}\n  expected    {text}"
        )
    open_call.note(key)
