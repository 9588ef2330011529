"""Decoding with a cache, step by step, and known mistakes in it.

The model has the interface of assignment 15. `fault` names a mistake, so that a check can identify
it; without it, the answer is correct.
"""

import math
from typing import Any

import torch
from torch import Tensor

from attentively.attention.masks import masked_softmax
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

Cache = list[dict[str, Tensor]]

NAMES = ("keys", "values", "memory_keys", "memory_values")


def greedy_texts(
    model: Any, src: Tensor, src_mask: Tensor, max_len: int, fault: str = ""
) -> list[list[int]]:
    """Return the greedy output for each sentence, or that of a mistake."""
    everywhere = torch.ones_like(src_mask)
    unmasked = fault in ("unmasked", "encoder unmasked")
    memory = model.encoder(src, everywhere if unmasked else src_mask)
    seen = everywhere if fault in ("unmasked", "decoder unmasked") else src_mask
    tgt = torch.full((len(src), 1), {"from pad": PAD_ID, "from end": END_ID}.get(fault, START_ID))
    over = torch.zeros(len(src), dtype=torch.bool)
    steps = max_len + (fault == "one more") - (fault == "one fewer")
    for _ in range(steps):
        given = tgt[:, -1:] if fault == "last word" else tgt
        outputs = model.decoder(given, memory, seen)
        scores = model.output(outputs[:, 0] if fault == "first place" else outputs[:, -1])
        word = (-scores if fault == "least" else scores).argmax(dim=-1)
        tgt = torch.cat([tgt, word.unsqueeze(1)], dim=1)
        over |= word == END_ID
        if (over.any() if fault == "first end" else over.all()) and fault != "never":
            break
    texts = (tgt if fault == "start kept" else tgt[:, 1:]).tolist()
    if fault == "never ends":
        return texts
    if fault == "tail kept":
        return [[word for word in ids if word != END_ID] for ids in texts]
    cut = 1 if fault == "end kept" else 0
    texts = [ids[: ids.index(END_ID) + cut] if END_ID in ids else ids for ids in texts]
    return [[*ids, END_ID] for ids in texts] if fault == "end added" else texts


GREEDY_FAULTS = {
    "end kept": "END is in the output. It marks the end of the sentence and is not returned.",
    "end added": "END is in the output, also where the model did not generate it. It marks the end "
    "of the sentence and is not returned.",
    "start kept": "START is in the output. The decoder reads it, but it is not returned.",
    "never ends": "There are words after END in the output. Remove everything from END on.",
    "first end": "All sentences stop when the first one has ended. The others must continue.",
    "first place": "The next word is taken from the first position. The scores of the next word "
    "are at the last position.",
    "last word": "The decoder reads only the last word. It must read all words so far.",
    "unmasked": "src_mask is ignored: the model attends to padding.",
    "encoder unmasked": "The encoder is called without src_mask, so it attends to padding.",
    "decoder unmasked": "The decoder is called without src_mask, so it attends to padding.",
    "least": "The least probable word is chosen.",
    "one more": "There is one step too many: max_len counts every word, including END.",
    "one fewer": "There is one step too few: max_len steps are allowed, and END may come in the "
    "last one.",
    "tail kept": "END is removed, but not the words after it. Remove everything from END on.",
    "from pad": "The decoder input begins with PAD. It must begin with START_ID.",
    "from end": "The decoder input begins with END. It must begin with START_ID.",
}


def _split(x: Tensor, num_heads: int) -> Tensor:
    return x.unflatten(2, (num_heads, -1)).transpose(1, 2)


def projected(attention: Any, x: Tensor, num_heads: int, fault: str = "") -> tuple[Tensor, Tensor]:
    keys, values = attention.key_projection(x), attention.value_projection(x)
    if fault == "viewed":
        keys, values = (each.reshape(len(x), num_heads, x.size(1), -1) for each in (keys, values))
    elif fault == "interleaved":
        keys, values = (
            each.unflatten(2, (-1, num_heads)).permute(0, 3, 1, 2) for each in (keys, values)
        )
    elif fault == "raw":
        keys, values = _split(x, num_heads), _split(x, num_heads)
    else:
        keys, values = _split(keys, num_heads), _split(values, num_heads)
    if fault == "places first":
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)
    return (values, keys) if fault == "exchanged" else (keys, values)


PROJECT_FAULTS = {
    "exchanged": "project: Keys and values are exchanged. Return the keys first.",
    "viewed": "project: reshape alone mixes words and heads. Split the last axis into (num_heads, "
    "d_head), then exchange the axes of positions and heads.",
    "interleaved": "project: The last axis is split into (d_head, num_heads). Split it into "
    "(num_heads, d_head): neighbouring entries belong to one head.",
    "raw": "project: x itself is split into heads. Split the projections key_projection(x) and "
    "value_projection(x).",
    "places first": "project: The axes of positions and heads are in the wrong order. Expected "
    "(batch, num_heads, length, d_head).",
}


def looked(
    attention: Any, h: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None,
    fault: str = "",
) -> Tensor:  # fmt: skip
    queries = h if fault == "raw" else attention.query_projection(h)
    queries = _split(queries, keys.size(1))
    scores = queries @ keys.transpose(2, 3)
    sizes = {"unscaled": 1.0, "d_model": h.size(2), "squared": keys.size(3) ** 2}
    scores = scores / math.sqrt(sizes.get(fault, keys.size(3)))
    if mask is None or fault in ("unmasked", "masked late"):
        weights = scores.softmax(dim=2 if fault == "queries" else -1)
        if mask is not None and fault == "masked late":
            weights = weights * mask.unsqueeze(1)
    else:
        weights = masked_softmax(scores, mask.unsqueeze(1))
    context = weights @ values
    if fault == "unjoined":
        context = context.reshape(h.shape)
    else:
        context = context.transpose(1, 2).flatten(2)
    return context if fault == "no output" else attention.output_projection(context)


LOOK_FAULTS = {
    "unscaled": "attend: The scores are not divided by √d_head.",
    "d_model": "attend: The scores are divided by √d_model. Divide by √d_head.",
    "squared": "attend: The scores are divided by d_head. Divide by its square root.",
    "raw": "attend: The queries are not projected. Use query_projection(h).",
    "unmasked": "attend: The mask is ignored.",
    "masked late": "attend: The mask is applied to the weights, which then no longer sum to 1. "
    "Apply it to the scores.",
    "queries": "attend: The weights sum to 1 over the queries. The softmax must run over the keys.",
    "unjoined": "attend: reshape alone mixes words and heads. Exchange their axes first, then join "
    "the heads.",
    "no output": "attend: The output projection is missing. Apply output_projection last.",
}


def started(model: Any, memory: Tensor, num_heads: int, fault: str = "") -> Cache:
    cache: Cache = []
    for layer in model.decoder.layers:
        used = model.decoder.layers[0] if fault == "first layer" else layer
        if fault == "one dict":
            used = model.decoder.layers[-1]
        attention = used.self_attention if fault == "self" else used.cross_attention
        keys, values = projected(attention, memory, num_heads)
        if fault == "exchanged":
            keys, values = values, keys
        own = (keys, values) if fault == "full" else (keys[:, :, :0], values[:, :, :0])
        cache.append(dict(zip(NAMES, (*own, keys, values), strict=True)))
    return cache


START_FAULTS = {
    "self": "start: The memory is projected by self_attention. Use cross_attention.",
    "first layer": "start: All layers have the keys of the first layer. Each layer has its own "
    "projections.",
    "one dict": "start: All layers have the keys of the last layer. Do they share one dict?",
    "exchanged": "start: memory_keys and memory_values are exchanged.",
    "full": "start: keys and values must be empty before the first word: (batch, num_heads, 0, "
    "d_head).",
}


def stepped(
    model: Any, tgt: Tensor, cache: Cache, src_mask: Tensor, fault: str = ""
) -> tuple[Tensor, Cache]:
    """Return the scores of the next word and the new cache, or those of a mistake."""
    y = model.decoder.input(tgt)[:, -1:]
    if fault == "place 0":
        y = model.decoder.input(tgt[:, -1:])
    elif fault == "first word":
        y = model.decoder.input(tgt)[:, :1]
    elif fault == "all words":
        y = model.decoder.input(tgt)
    after: Cache = []
    for number, layer in enumerate(model.decoder.layers):
        old = cache[0 if fault == "first cache" else number]
        new = dict(old)
        before = y

        def self_attend(
            h: Tensor, layer: Any = layer, old: dict[str, Tensor] = old,
            new: dict[str, Tensor] = new, before: Tensor = before,
        ) -> Tensor:  # fmt: skip
            read = before if fault == "not normed" else h
            added = projected(layer.self_attention, read, old["keys"].size(1))
            for name, more in zip(NAMES, added, strict=False):
                pieces = [old[name], more]
                new[name] = torch.cat(pieces[::-1] if fault == "in front" else pieces, dim=2)
            keys, values = new["keys"], new["values"]
            if fault == "alone":
                keys, values = added
            elif fault == "without itself" and old["keys"].size(2):
                keys, values = old["keys"], old["values"]
            return looked(layer.self_attention, h, keys, values)

        def cross_attend(h: Tensor, layer: Any = layer, old: dict[str, Tensor] = old) -> Tensor:
            keys, values = old["memory_keys"], old["memory_values"]
            if fault == "memory exchanged":
                keys, values = values, keys
            mask = None if fault == "unmasked" else src_mask
            attention = layer.self_attention if fault == "self over" else layer.cross_attention
            return looked(attention, h, keys, values, mask)

        y = layer.around_self_attention(y, self_attend)
        if fault != "no source":
            y = layer.around_cross_attention(y, cross_attend)
        if fault != "no network":
            y = layer.around_feed_forward(y, layer.feed_forward)
        after.append(old if fault == "forgets" else new)
    if fault != "no last norm":
        y = model.decoder.last_norm(y)
    scores = model.output(y[:, -1])
    if fault in ("probabilities", "logarithms"):
        scores = scores.softmax(dim=-1)
    return scores.log() if fault == "logarithms" else scores, after


STEP_FAULTS = {
    "place 0": "step: Every word has position 0. The input embedding counts positions from its "
    "first word: give it all of tgt, then take the last vector.",
    "first word": "step: The first word is processed. The new word is the last one of tgt.",
    "all words": "step: All words pass through the layers again and are stored twice. Only the "
    "last word is new.",
    "first cache": "step: Every layer uses the cache of the first layer. Each layer has its own.",
    "not normed": "step: The new keys and values are computed from the input of the layer. Compute "
    "them from h, the input of the sub-layer, like the queries.",
    "alone": "step: The last word attends only to itself. It must attend to the cached words and "
    "to itself.",
    "without itself": "step: The last word does not attend to itself. Append its keys and values "
    "first, then attend.",
    "memory exchanged": "step: memory_keys and memory_values are exchanged.",
    "unmasked": "step: src_mask is ignored: the model attends to padding of the source.",
    "self over": "step: self_attention is applied to the memory. Use cross_attention.",
    "no source": "step: The cross-attention is missing.",
    "no network": "step: The feed-forward network is missing.",
    "no last norm": "step: decoder.last_norm is missing after the last layer.",
    "probabilities": "step: These are probabilities. Return the scores of the output layer.",
    "logarithms": "step: These are log-probabilities. Return the scores of the output layer.",
}
GROWTH_FAULTS = {
    "in front": "step: The new keys are placed before the old ones. The scores stay the same, but "
    "the order must be that of the words: append the new ones.",
    "forgets": "step: The new keys and values are missing in the returned cache.",
}
