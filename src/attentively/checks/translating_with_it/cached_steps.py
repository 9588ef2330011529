"""Writing with a cache as functions, one step after the other, and the mistakes made in them.

The model is one of assignment 15, or what stands in for it. `fault` names a step that a mistake
has changed, so that a check can tell which it was; without one the answer is right.
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
    """Write for each sentence the likeliest word after the likeliest word; or with a fault."""
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
    return [ids[: ids.index(END_ID) + cut] if END_ID in ids else ids for ids in texts]


GREEDY_FAULTS = {
    "end kept": "END is kept among the words. It says that the sentence is over, and is no word.",
    "start kept": "START is kept among the words. It is read, never written.",
    "never ends": "Words stand after END. What a sentence becomes after its end is thrown away.",
    "first end": "All sentences stop when the first of them has ended. The others go on.",
    "first place": "The next word is read off the first place. The scores of the word after the "
    "last one stand at the last place.",
    "last word": "The decoder reads the last word alone. It must read all that is written so far.",
    "unmasked": "src_mask is not used: padding is looked at.",
    "encoder unmasked": "The encoder does not get src_mask: padding is looked at.",
    "decoder unmasked": "The decoder does not get src_mask: padding is looked at.",
    "least": "The least likely word is taken.",
    "one more": "One step too many: max_len counts every word, END too.",
    "one fewer": "It stops one step early: there are max_len steps, the END may come in the last.",
    "tail kept": "Words stand after the place where END was. All that comes after it goes too.",
    "from pad": "The texts begin with PAD. What the decoder reads first is START_ID.",
    "from end": "The texts begin with END. What the decoder reads first is START_ID.",
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
    "exchanged": "project: Keys and values have changed places. First the keys.",
    "viewed": "project: A reshape alone mixes words and heads. Cut the last axis into "
    "(num_heads, d_head), then exchange the axes of places and heads.",
    "interleaved": "project: Neighbouring numbers belong to one head: the last axis is cut into "
    "(num_heads, d_head), in this order.",
    "raw": "project: What is cut into heads is the projections, key_projection(x) and "
    "value_projection(x).",
    "places first": "project: The axis of the heads stands before that of the places: "
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
    "unscaled": "look: The scores are not divided by √d_head.",
    "d_model": "look: The scores are divided by √d_model. A head has d_head numbers.",
    "squared": "look: The scores are divided by d_head; its root is wanted.",
    "raw": "look: The queries are not projected: query_projection(h).",
    "unmasked": "look: The mask is not used.",
    "masked late": "look: The mask is put on the weights, which no longer sum to 1. It is for the "
    "scores.",
    "queries": "look: The weights sum to 1 over the queries. The softmax runs over the keys.",
    "unjoined": "look: A reshape alone mixes words and heads. Exchange their axes first, then join "
    "the heads.",
    "no output": "look: The heads are not mixed: output_projection comes last.",
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
    "self": "start: The memory is looked at by cross_attention; these are keys of self_attention.",
    "first layer": "start: Every layer has projections of its own; these are the first layer's.",
    "one dict": "start: All layers have the last layer's keys. Is it one dict for all of them?",
    "exchanged": "start: memory_keys and memory_values have changed places.",
    "full": "start: Nothing is written yet: keys and values have no places, "
    "(batch, num_heads, 0, d_head).",
}


def stepped(
    model: Any, tgt: Tensor, cache: Cache, src_mask: Tensor, fault: str = ""
) -> tuple[Tensor, Cache]:
    """Return the scores of the next word, and the cache with the last one; or with a fault."""
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

        def look_back(
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

        def look_over(h: Tensor, layer: Any = layer, old: dict[str, Tensor] = old) -> Tensor:
            keys, values = old["memory_keys"], old["memory_values"]
            if fault == "memory exchanged":
                keys, values = values, keys
            mask = None if fault == "unmasked" else src_mask
            attention = layer.self_attention if fault == "self over" else layer.cross_attention
            return looked(attention, h, keys, values, mask)

        y = layer.around_self_attention(y, look_back)
        if fault != "no source":
            y = layer.around_cross_attention(y, look_over)
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
    "place 0": "step: Every word stands at place 0. The input embedding counts from the first "
    "word that it gets: give it all of tgt, then take the last vector.",
    "first word": "step: The first word is read; the last one of tgt is new.",
    "all words": "step: All words go through the layers again, and stand in the cache twice. Only "
    "the last word is new.",
    "first cache": "step: Every layer looks at the first layer's cache; each has its own.",
    "not normed": "step: The new keys and values are made of the signal as it comes to the layer. "
    "They are made of what the way around hands to the sub-layer, as the queries are.",
    "alone": "step: The last word looks at itself alone. It looks at all that is in the cache, and "
    "at itself.",
    "without itself": "step: The last word does not look at itself. Its keys and values are added "
    "first, then it looks.",
    "memory exchanged": "step: memory_keys and memory_values have changed places.",
    "unmasked": "step: src_mask is not used: padding of the source is looked at.",
    "self over": "step: The memory is looked at with self_attention; it has cross_attention.",
    "no source": "step: The cross-attention is missing.",
    "no network": "step: The feed-forward network is missing.",
    "no last norm": "step: decoder.last_norm is missing after the last layer.",
    "probabilities": "step: These are probabilities. Return the scores as the output layer gives "
    "them.",
    "logarithms": "step: These are log-probabilities. Return the scores as the output layer gives "
    "them.",
}
GROWTH_FAULTS = {
    "in front": "step: The new keys stand before the old ones. The scores do not notice it, but "
    "the order is that of the words: the new one comes last.",
    "forgets": "step: The new keys and values are not in the cache that is returned.",
}
