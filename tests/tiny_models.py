"""Models small enough to build in every test, and sentences for them."""

from typing import NamedTuple

import torch
from torch import Tensor

from attentively.data.batches import pad
from attentively.masks import padding_mask
from attentively.seq2seq import Seq2Seq, Seq2SeqConfig
from attentively.vocabulary import END_ID, PAD_ID, START_ID

SRC_VOCAB, TGT_VOCAB = 23, 29
# Distinct primes, so that no axis can be taken for another.
SIZES = {"embedding_dim": 5, "encoder_dim": 3, "decoder_dim": 7, "attention_dim": 11}


def seq2seq(seed: int = 0, kind: type[Seq2Seq] = Seq2Seq, **changes) -> Seq2Seq:
    """Return an untrained model in evaluation mode; `seed` settles its weights."""
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": SRC_VOCAB, "tgt_vocab_size": TGT_VOCAB} | SIZES | changes
    model = kind(Seq2SeqConfig(**sizes)).eval()
    with torch.no_grad():  # larger than at birth, so that every part makes a difference
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


# Every model that answers to the protocol stands here, and gets all its tests.
MODELS = {
    "seq2seq-additive": lambda seed=0: seq2seq(seed),
    "seq2seq-fixed": lambda seed=0: seq2seq(seed, attention="fixed"),
    "seq2seq-shared": lambda seed=0: seq2seq(seed, tgt_vocab_size=SRC_VOCAB, share_embeddings=True),
    "seq2seq-dropout": lambda seed=0: seq2seq(seed, dropout=0.3),
}


class Sentences(NamedTuple):
    src: Tensor
    src_mask: Tensor
    tgt: Tensor
    src_lengths: tuple[int, ...]
    tgt_lengths: tuple[int, ...]


def sentences(src_lengths=(4, 7, 2), tgt_lengths=(3, 5, 6), seed=0, vocab=SRC_VOCAB) -> Sentences:
    """Return random sentences of the given lengths, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        return torch.randint(END_ID + 1, vocab, (count,), generator=generator).tolist()

    src = pad([[*words(length - 1), END_ID] for length in src_lengths])
    tgt = pad([[START_ID, *words(length - 2), END_ID] for length in tgt_lengths])
    return Sentences(src, padding_mask(src, PAD_ID), tgt, src_lengths, tgt_lengths)
