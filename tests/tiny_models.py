"""Models small enough to build in every test, and sentences for them."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attentively.attention.masks import padding_mask
from attentively.data.batches import pad
from attentively.models.captioning import Captioner
from attentively.models.configs import STRIDE, CaptionerConfig, Seq2SeqConfig, TransformerConfig
from attentively.models.seq2seq import Seq2Seq
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

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


# Sizes that have to divide each other are no primes, but differ.
STACK_SIZES = {"d_model": 12, "num_heads": 3, "d_ff": 13, "num_layers": 2, "dropout": 0.0}


def transformer(seed: int = 0, kind: type[Transformer] = Transformer, **changes) -> Transformer:
    """Return an untrained Transformer in evaluation mode; `seed` settles its weights."""
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": SRC_VOCAB, "tgt_vocab_size": TGT_VOCAB} | STACK_SIZES | changes
    model = kind(TransformerConfig(**sizes)).eval()
    with torch.no_grad():  # at birth gains are 1 and shifts 0: now every part makes a difference
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def stack_model(kind, config_class, seed: int = 0, **changes):
    """Return an untrained model of one stack in evaluation mode; `seed` settles its weights."""
    torch.manual_seed(seed)
    model = kind(config_class(**{"vocab_size": SRC_VOCAB} | STACK_SIZES | changes)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


# Two places down, three across.
IMAGE_SIZES = {"height": 2 * STRIDE, "width": 3 * STRIDE, "feature_dim": 5, "embedding_dim": 3}


def captioner(seed: int = 0, kind: type[Captioner] = Captioner, **changes) -> Captioner:
    """Return an untrained captioner in evaluation mode; `seed` settles its weights."""
    torch.manual_seed(seed)
    sizes = {"tgt_vocab_size": TGT_VOCAB, "decoder_dim": 7, "attention_dim": 11}
    model = kind(CaptionerConfig(**sizes | IMAGE_SIZES | changes)).eval()
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
    "seq2seq-dot": lambda seed=0: seq2seq(seed, attention="dot", decoder="luong", decoder_dim=6),
    "seq2seq-general": lambda seed=0: seq2seq(seed, attention="general", decoder="luong"),
    "seq2seq-concat": lambda seed=0: seq2seq(seed, attention="concat", decoder="luong"),
    "seq2seq-location": lambda seed=0: seq2seq(
        seed, attention="location", decoder="luong", max_len=13
    ),
    "seq2seq-local-m": lambda seed=0: seq2seq(seed, attention="local-m", decoder="luong", window=2),
    "seq2seq-local-p": lambda seed=0: seq2seq(seed, attention="local-p", decoder="luong", window=2),
    "seq2seq-input-feeding": lambda seed=0: seq2seq(
        seed, attention="general", decoder="luong", input_feeding=True
    ),
    "seq2seq-general-bahdanau": lambda seed=0: seq2seq(seed, attention="general"),
    "seq2seq-fixed-luong": lambda seed=0: seq2seq(seed, attention="fixed", decoder="luong"),
    "transformer-pre": lambda seed=0: transformer(seed),
    "transformer-post": lambda seed=0: transformer(seed, norm="post", activation="gelu"),
    "transformer-shared": lambda seed=0: transformer(
        seed, tgt_vocab_size=SRC_VOCAB, share_embeddings=True
    ),
    "transformer-learned": lambda seed=0: transformer(seed, positions="learned", max_len=11),
    "transformer-relative": lambda seed=0: transformer(seed, positions="relative"),
    "transformer-rotary": lambda seed=0: transformer(seed, positions="rotary"),
    "transformer-alibi": lambda seed=0: transformer(seed, positions="alibi"),
    "transformer-no-positions": lambda seed=0: transformer(seed, positions="none"),
    "transformer-grouped": lambda seed=0: transformer(seed, num_heads=6, num_kv_heads=2),
    "transformer-dropout": lambda seed=0: transformer(seed, dropout=0.3),
    "captioner": lambda seed=0: captioner(seed),
    "captioner-dropout": lambda seed=0: captioner(seed, dropout=0.3),
}


class Sentences(NamedTuple):
    src: Tensor
    src_mask: Tensor
    tgt: Tensor
    src_lengths: tuple[int, ...]
    tgt_lengths: tuple[int, ...]

    def padded(self):
        """Return the same with more padding on both sides."""
        src, tgt = (
            F.pad(ids, (0, more), value=PAD_ID) for ids, more in ((self.src, 3), (self.tgt, 2))
        )
        return self._replace(src=src, src_mask=padding_mask(src, PAD_ID), tgt=tgt)

    def alone(self, row):
        """Return one pair without the others, and without padding."""
        src = self.src[row : row + 1, : self.src_lengths[row]]
        tgt = self.tgt[row : row + 1, : self.tgt_lengths[row]]
        return self._replace(src=src, src_mask=padding_mask(src, PAD_ID), tgt=tgt)

    def without_the_last(self, number):
        """Return the same with padding in place of the last positions of the longest source."""
        src = self.src.clone()
        src[1, -number:] = PAD_ID
        return self._replace(src=src, src_mask=padding_mask(src, PAD_ID))

    def with_another_source(self, row):
        """Return the same with one word changed in one source."""
        src = self.src.clone()
        src[row, 3] = 4 if src[row, 3] != 4 else 5
        return self._replace(src=src)


def sentences(src_lengths=(4, 7, 2), tgt_lengths=(3, 5, 6), seed=0, vocab=SRC_VOCAB) -> Sentences:
    """Return random sentences of the given lengths, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)

    def words(count: int) -> list[int]:
        return torch.randint(END_ID + 1, vocab, (count,), generator=generator).tolist()

    src = pad([[*words(length - 1), END_ID] for length in src_lengths])
    tgt = pad([[START_ID, *words(length - 2), END_ID] for length in tgt_lengths])
    return Sentences(src, padding_mask(src, PAD_ID), tgt, src_lengths, tgt_lengths)


class Scenes(NamedTuple):
    src: Tensor
    src_mask: Tensor
    tgt: Tensor
    tgt_lengths: tuple[int, ...]

    def padded(self):
        """Return the same with more padding of the targets; images have none."""
        return self._replace(tgt=F.pad(self.tgt, (0, 2), value=PAD_ID))

    def alone(self, row):
        """Return one image without the others, and its target without padding."""
        tgt = self.tgt[row : row + 1, : self.tgt_lengths[row]]
        rows = slice(row, row + 1)
        return self._replace(src=self.src[rows], src_mask=self.src_mask[rows], tgt=tgt)

    def with_another_source(self, row):
        """Return the same with one image changed."""
        src = self.src.clone()
        src[row] = 1 - src[row]
        return self._replace(src=src)


def scenes() -> Scenes:
    """Return three random images, and the targets of `sentences`."""
    given = sentences()
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3, 1, IMAGE_SIZES["height"], IMAGE_SIZES["width"], generator=generator)
    return Scenes(images, torch.ones(3, 1, 6, dtype=torch.bool), given.tgt, given.tgt_lengths)


def examples(model) -> Sentences | Scenes:
    """Return what the model can read."""
    return scenes() if isinstance(model, Captioner) else sentences()
