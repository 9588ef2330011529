"""Replace the attention modules of the trained Transformer by a student's module.

The checks of multi-head attention load the trained weights into the student's module by their
names, and compare what the model then outputs.
"""

from collections.abc import Callable
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.multi_head import MultiHeadAttention
from attentively.checks.trained_translator import TRANSFORMER
from attentively.data import toy
from attentively.data.batches import pad
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.tokens.vocabulary import PAD_ID, target_ids

State = dict[str, Tensor]
"""The eight tensors of an attention, by their names in `state_dict()`."""


def weights_of(attention: nn.Module) -> State:
    """Return the eight tensors of an attention, by name."""
    return {name: tensor.detach().clone() for name, tensor in attention.state_dict().items()}


def _trained() -> Checkpoint:
    return load_pretrained(TRANSFORMER)


def seats(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Return the attention modules of a model, by their names in it."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }


def attentions() -> dict[str, MultiHeadAttention]:
    """Return the attentions of the trained Transformer."""
    return seats(_trained().model)


class Seat(nn.Module):
    """Adapt an attention that takes only query, key, value and mask to the call of a layer.

    Its cache holds vectors before the projection, so they are projected again at every step.
    """

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> Any:
        if cache is None:
            return self.attention(query, key, value, mask=mask)
        if key is not None and value is not None:
            cache = cache.extend(key.unsqueeze(1), value.unsqueeze(1))
        keys, values = (cast(Tensor, held).squeeze(1) for held in (cache.keys, cache.values))
        return (*self.attention(query, keys, values, mask=mask), cache)

    def remember(self, key: Tensor, value: Tensor) -> KeyValueCache:
        """Return a cache that holds these."""
        return KeyValueCache(key.unsqueeze(1), value.unsqueeze(1))


def put_in(candidate: object, model: nn.Module) -> None:
    """Replace every attention of the model by the student's, with the same weights."""
    for name, attention in seats(model).items():
        state = weights_of(attention)
        d_model = len(state["output_projection.bias"])
        made = cast(Any, candidate)(d_model, d_model // attention.d_head).eval()
        made.load_state_dict(state)
        layer, _, own = name.rpartition(".")
        setattr(model.get_submodule(layer), own, Seat(made))


def with_heads_of(candidate: object) -> Checkpoint:
    """Return the trained Transformer with every attention replaced by the student's."""
    checkpoint = _trained()
    put_in(candidate, checkpoint.model)
    return checkpoint


class Losses:
    """The loss of each example as a function of the gates of the heads."""

    def __init__(self, of: Callable[[Tensor], Tensor], what: str) -> None:
        self.of = of
        self.what = what

    def __call__(self, gates: Tensor) -> Tensor:
        return self.of(gates)

    def __repr__(self) -> str:
        return self.what


def losses_of(place: str, examples: int = 24) -> Losses:
    """Return the trained Transformer's losses as a function of the gates of one attention.

    Each example is a sentence of the toy language that the model was not trained on; its loss is
    the mean over its words.
    """
    model, src_tokenizer, tgt_tokenizer = _trained().translator()
    pairs = toy.load("test", examples, seed=0)
    src = pad([src_tokenizer.encode(pair.src_text) for pair in pairs], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, pair.tgt_text) for pair in pairs], PAD_ID)
    attention = seats(model)[place]

    def losses(gates: Tensor) -> Tensor:
        factors = gates.repeat_interleave(attention.d_head)
        hook = attention.output_projection.register_forward_pre_hook(
            lambda _, joined: (joined[0] * factors,)
        )
        try:
            logits = model(src, tgt[:, :-1])
        finally:
            hook.remove()
        each = F.cross_entropy(
            logits.transpose(1, 2), tgt[:, 1:], ignore_index=PAD_ID, reduction="none"
        )
        return each.sum(dim=1) / (tgt[:, 1:] != PAD_ID).sum(dim=1)

    return Losses(losses, f"the losses of {examples} sentences")
