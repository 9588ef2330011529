"""The trained translator into which a student's part is put: it must translate as before."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from attentively.checks import CheckFailed, call, expect_equal, open_call
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.models.interface import DecoderOutput, EncoderDecoder
from attentively.tokens.vocabulary import PAD_ID, target_ids

MODEL = "toy-additive"
"""The name of its checkpoint: of the toy language, with additive attention."""
TRANSFORMER = "toy-transformer"
"""The name of another: a Transformer of the same language."""


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
    checkpoint = load_pretrained(name)
    model = cast(EncoderDecoder[Any], checkpoint.model)
    before = translate(checkpoint, sentences, beam_size=1)
    _, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    src = pad([src_tokenizer.encode(sentence) for sentence in sentences], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, each.text) for each in before], PAD_ID)

    def inside_the_model(*_: Tensor) -> DecoderOutput:
        with torch.no_grad():
            return model.decode(tgt, model.encode(src), need_weights=True)

    expected = inside_the_model()
    put_in(model)
    where = {"src": src, "tgt": tgt}
    got = cast(DecoderOutput, call(inside_the_model, where))
    assert expected.weights is not None  # the trained model attends
    expect_equal(got.weights, expected.weights, "the trained model's weights", where)
    probabilities = got.logits.softmax(dim=-1), expected.logits.softmax(dim=-1)
    expect_equal(*probabilities, "the trained model's probabilities", where)
    old, sentence = min(
        zip(before, sentences, strict=True), key=lambda pair: len(pair[0].tgt_tokens)
    )
    [new] = translate(checkpoint, [sentence], beam_size=1)
    if old.text != new.text:
        raise CheckFailed(
            f"  With your {what} the trained model translates differently.\n"
            f"  sentence    {sentence}\n  got         {new.text}\n  expected    {old.text}"
        )
    open_call.note(key)
