"""Right answers to 17_translating_with_it, each written differently."""

import copy
import math

import torch
from torch.nn import functional as F

from attentively.masks import masked_softmax
from attentively.vocabulary import END_ID, START_ID

# Part 1


def greedy(model, src, src_mask, max_len):
    memory = model.encoder(src, src_mask)
    tgt = torch.full((len(src), 1), START_ID)
    for _ in range(max_len):
        scores = model.output(model.decoder(tgt, memory, src_mask)[:, -1])
        tgt = torch.cat([tgt, scores.argmax(dim=-1, keepdim=True)], dim=1)
        if (tgt == END_ID).any(dim=1).all():
            break
    texts = [[*ids, END_ID] for ids in tgt[:, 1:].tolist()]
    return [ids[: ids.index(END_ID)] for ids in texts]


def greedy_that_shrinks(model, src, src_mask, max_len):
    """What has ended leaves the batch; tuples come back."""
    memory = model.encoder(src, src_mask)
    texts = [[START_ID] for _ in src]
    live = list(range(len(src)))
    for _ in range(max_len):
        tgt = torch.tensor([texts[i] for i in live])
        outputs = model.decoder(tgt, memory[live], src_mask[live])
        probabilities = model.output(outputs).softmax(dim=-1)[:, -1]
        for i, word in zip(live, probabilities.max(dim=-1).indices, strict=True):
            texts[i].append(int(word))
        live = [i for i in live if texts[i][-1] != END_ID]
        if not live:
            break
    return tuple(tuple(word for word in text[1:] if word != END_ID) for text in texts)


def greedy_into_a_table(model, src, src_mask, max_len):
    """Into a table made beforehand; tensors come back."""
    with torch.no_grad():
        memory = model.encoder(src, src_mask)
        tgt = torch.full((len(src), max_len + 1), END_ID)
        tgt[:, 0] = START_ID
        over = torch.zeros(len(src), dtype=torch.bool)
        for place in range(max_len):
            outputs = model.decoder(tgt[:, : place + 1], memory, src_mask)
            word = torch.topk(model.output(outputs[:, place]), 1).indices[:, 0]
            tgt[:, place + 1] = torch.where(over, END_ID, word)
            over = over | (word == END_ID)
            if over.all():
                break
    return [row[1:][(row[1:] == END_ID).cumsum(0) == 0] for row in tgt]


# Part 2


def project(attention, x, num_heads):
    def split(projected):
        batch, length, d_model = projected.shape
        return projected.reshape(batch, length, num_heads, d_model // num_heads).transpose(1, 2)

    return split(attention.key_projection(x)), split(attention.value_projection(x))


def project_by_heads(attention, x, num_heads):
    """One head after the other; a list comes back."""
    answer = []
    for projection in (attention.key_projection, attention.value_projection):
        projected = F.linear(x, projection.weight, projection.bias)
        answer.append(torch.stack(projected.chunk(num_heads, dim=-1), dim=1))
    return answer


def attend(attention, h, keys, values, mask=None):
    num_heads, d_head = keys.size(1), keys.size(3)
    queries = attention.query_projection(h).unflatten(2, (num_heads, d_head)).transpose(1, 2)
    scores = queries @ keys.transpose(2, 3) / math.sqrt(d_head)
    weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(1))
    context = (weights @ values).transpose(1, 2).flatten(2)
    return attention.output_projection(context)


def attend_fused(attention, h, keys, values, mask=None):
    queries = torch.stack(attention.query_projection(h).chunk(keys.size(1), dim=2), dim=1)
    allowed = None if mask is None else mask[:, None]
    heads = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
    return attention.output_projection(torch.cat(heads.unbind(1), dim=-1))


def attend_by_loops(attention, h, keys, values, mask=None):
    """Head by head, in 64 bits, with -inf where the mask hides."""
    num_heads, d_head = keys.size(1), keys.size(3)
    queries = attention.query_projection(h).double()
    heads = []
    for head in range(num_heads):
        q = queries[:, :, head * d_head : (head + 1) * d_head]
        scores = torch.einsum("bqd,bkd->bqk", q, keys[:, head].double()) * d_head**-0.5
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -math.inf)
        heads.append(torch.bmm(scores.softmax(-1), values[:, head].double()))
    return attention.output_projection(torch.cat(heads, dim=2).float()).double()


def start(model, memory, num_heads):
    cache = []
    for layer in model.decoder.layers:
        keys, values = project(layer.cross_attention, memory, num_heads)
        nothing = keys[:, :, :0]
        cache.append(
            {"keys": nothing, "values": nothing, "memory_keys": keys, "memory_values": values}
        )
    return cache


def start_with_zeros(model, memory, num_heads):
    batch, _, d_model = memory.shape
    cache = []
    for layer in model.decoder.layers:
        pair = project_by_heads(layer.cross_attention, memory, num_heads)
        entry = dict(zip(("memory_keys", "memory_values"), pair, strict=True))
        for name in ("keys", "values"):
            entry[name] = torch.zeros(batch, num_heads, 0, d_model // num_heads)
        cache.append(entry)
    return tuple(cache)


def step(model, tgt, cache, src_mask):
    y = model.decoder.input(tgt)[:, -1:]
    after = []
    for layer, old in zip(model.decoder.layers, cache, strict=True):
        new = dict(old)

        def self_attend(h, layer=layer, old=old, new=new):
            keys, values = project(layer.self_attention, h, old["keys"].size(1))
            new["keys"] = torch.cat([old["keys"], keys], dim=2)
            new["values"] = torch.cat([old["values"], values], dim=2)
            return attend(layer.self_attention, h, new["keys"], new["values"])

        def cross_attend(h, layer=layer, old=old):
            return attend(
                layer.cross_attention, h, old["memory_keys"], old["memory_values"], src_mask
            )

        y = layer.around_self_attention(y, self_attend)
        y = layer.around_cross_attention(y, cross_attend)
        y = layer.around_feed_forward(y, layer.feed_forward)
        after.append(new)
    return model.output(model.decoder.last_norm(y))[:, -1], after


class Look:
    """A sub-layer as an object that remembers what it has added."""

    def __init__(self, attention, keys, values):
        self.attention, self.keys, self.values = attention, keys, values

    def __call__(self, h):
        added = project_by_heads(self.attention, h, self.keys.size(1))
        self.keys = torch.cat((self.keys, added[0]), -2)
        self.values = torch.cat((self.values, added[1]), -2)
        return attend_fused(self.attention, h, self.keys, self.values)


def step_with_objects(model, tgt, cache, src_mask):
    place = tgt.size(1) - 1
    y = model.decoder.input(tgt)[:, place].unsqueeze(1)
    after = [entry.copy() for entry in cache]
    for number, layer in enumerate(model.decoder.layers):
        entry = after[number]
        own = Look(layer.self_attention, entry["keys"], entry["values"])
        y = layer.around_self_attention(y, own)
        entry["keys"], entry["values"] = own.keys, own.values
        y = layer.around_cross_attention(
            y,
            lambda h, layer=layer, entry=entry: attend_fused(
                layer.cross_attention, h, entry["memory_keys"], entry["memory_values"], src_mask
            ),
        )
        y = layer.around_feed_forward(y, lambda h, layer=layer: layer.feed_forward(h))
    return [model.output(model.decoder.last_norm(y)).squeeze(1), after]


def step_by_texts(model, tgt, cache, src_mask):
    """One text of the batch after the other."""
    scores, caches = [], []
    for row in range(len(tgt)):
        own = [{name: each[row : row + 1] for name, each in entry.items()} for entry in cache]
        said, own = step(model, tgt[row : row + 1], own, src_mask[row : row + 1])
        scores.append(said)
        caches.append(own)
    joined = [
        {name: torch.cat([each[name] for each in entries]) for name in entries[0]}
        for entries in zip(*caches, strict=True)
    ]
    return torch.cat(scores), joined


# Part 3


def select(cache, rows):
    return [{name: each[rows] for name, each in entry.items()} for entry in cache]


def select_by_index(cache, rows):
    chosen = []
    for entry in cache:
        chosen.append({})
        for name in entry:
            chosen[-1][name] = torch.index_select(entry[name], 0, rows)
    return tuple(chosen)


def select_by_rows(cache, rows):
    return [
        {name: torch.stack([each[int(row)] for row in rows]) for name, each in entry.items()}
        for entry in cache
    ]


def beam_search(model, src, src_mask, num_heads, beam_size, max_len, alpha):
    cache = start(model, model.encoder(src, src_mask), num_heads)
    going, found = [([START_ID], 0.0)], []
    for length in range(1, max_len + 1):
        tgt = torch.tensor([words for words, _ in going])
        scores, cache = step(model, tgt, cache, src_mask.expand(len(going), -1, -1))
        extensions = []
        for row, values in enumerate(scores.log_softmax(dim=-1).tolist()):
            words, total = going[row]
            extensions += [
                ([*words, word], total + value, row) for word, value in enumerate(values)
            ]
        extensions.sort(key=lambda each: each[1], reverse=True)
        for words, total, _ in extensions[:beam_size]:
            if words[-1] == END_ID:
                found.append((words[1:-1], total / length**alpha))
        found = sorted(found, key=lambda pair: pair[1], reverse=True)[:beam_size]
        kept = [each for each in extensions if each[0][-1] != END_ID][:beam_size]
        if not kept:
            break
        if len(found) == beam_size and kept[0][1] / length**alpha <= found[-1][1]:
            break
        cache = select(cache, torch.tensor([row for _, _, row in kept]))
        going = [(words, total) for words, total, _ in kept]
    return found


def beam_search_with_tensors(model, src, src_mask, num_heads, beam_size, max_len, alpha):
    """All k rows from the first step on, all but one of them impossible; topk instead of a sort."""
    memory = model.encoder(src, src_mask)
    rows = torch.zeros(beam_size, dtype=torch.long)
    cache = select_by_index(start_with_zeros(model, memory, num_heads), rows)
    mask = src_mask.repeat(beam_size, 1, 1)
    tgt = torch.full((beam_size, 1), START_ID)
    totals = torch.full((beam_size,), -math.inf)
    totals[0] = 0.0
    found = []
    for length in range(1, max_len + 1):
        scores, cache = step_with_objects(model, tgt, cache, mask)
        sums = totals[:, None] + scores.log_softmax(-1)
        vocab = sums.size(1)
        best, where = sums.flatten().topk(min(2 * beam_size, sums.numel()))
        parents, words = where // vocab, where % vocab
        over = words == END_ID
        for place in range(min(beam_size, len(best))):
            if over[place] and best[place] > -math.inf:
                text = tgt[parents[place], 1:].tolist()
                found.append([text, best[place] / length**alpha])
        found.sort(key=lambda pair: -pair[1])
        del found[beam_size:]
        kept = (~over).nonzero().flatten()[:beam_size]
        totals, rows = best[kept], parents[kept]
        if len(found) == beam_size and totals[0] / length**alpha <= found[-1][1]:
            break
        tgt = torch.cat([tgt[rows], words[kept, None]], dim=1)
        cache = select_by_index(cache, rows)
        mask = mask[: len(rows)]
    return found


# Part 4


def cache_entries(num_layers, d_model, src_len, words, rows):
    return 2 * num_layers * d_model * (src_len + words) * rows


def cache_entries_by_adding(num_layers, d_model, src_len, words, rows):
    held = 0
    for _ in range(num_layers):
        for places in (src_len, src_len, words, words):
            held += rows * places * d_model
    return torch.tensor(held)


def multiplications(words, src_len, d_model, d_ff, num_layers):
    def layer(new, keys):
        projections = 6 * new * d_model * d_model
        looking = 2 * new * keys * d_model + 2 * new * src_len * d_model
        return projections + looking + 2 * new * d_model * d_ff

    memory = 2 * src_len * d_model * d_model
    recomputed = sum(layer(n, n) + memory for n in range(1, words + 1))
    cached = memory + sum(layer(1, n) for n in range(1, words + 1))
    return {"recomputed": num_layers * recomputed, "cached": num_layers * cached}


def multiplications_in_closed_form(words, src_len, d_model, d_ff, num_layers):
    n, s, d = words, src_len, d_model
    sum_1, sum_2 = n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6
    each = 6 * d**2 + 2 * s * d + 2 * d * d_ff
    return {
        "recomputed": num_layers * (each * sum_1 + 2 * d * sum_2 + 2 * n * s * d**2),
        "cached": num_layers * (each * n + 2 * d * sum_1 + 2 * s * d**2),
    }


def length_for_ratio(times, src_len, d_model, d_ff):
    words = 1
    while True:
        found = multiplications(words, src_len, d_model, d_ff, 1)
        if found["recomputed"] >= times * found["cached"]:
            return words
        words += 1


def dearer_by_doubling(times, src_len, d_model, d_ff):
    """The ratio grows with the length, so the length can be halved in on."""

    def enough(words):
        found = multiplications_in_closed_form(words, src_len, d_model, d_ff, 3)
        return found["recomputed"] >= times * found["cached"]

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)


# Part 5


def patch_cache(cache, donor, layer, head, places):
    new = [dict(entry) for entry in cache]
    for name in ("memory_keys", "memory_values"):
        new[layer][name] = cache[layer][name].clone()
        new[layer][name][:, head, places] = donor[layer][name][:, head, places]
    return new


def patch_cache_by_where(cache, donor, layer, head, places):
    new = []
    for number, entry in enumerate(cache):
        tensors = {"keys": entry["keys"], "values": entry["values"]}
        for name in ("memory_keys", "memory_values"):
            here = torch.zeros_like(entry[name], dtype=torch.bool)
            if number == layer:
                for place in places:
                    here[:, head, place] = True
            tensors[name] = torch.where(here, donor[number][name], entry[name])
        new.append(tensors)
    return tuple(new)


def causes(flips, heads):
    damaging = [head for head in heads if flips([head], "control") > 0.1]
    sound = [head for head in heads if head not in damaging]
    sufficient = [head for head in sound if flips([head], "partner") >= 0.9]
    necessary = []
    for head in sound:
        others = [other for other in sound if other != head]
        if flips(others, "partner") <= 0.1:
            necessary.append(head)
    if len(sufficient) == 1 and necessary == sufficient:
        conclusion = "one head"
    elif len(sufficient) >= 2 and not necessary:
        conclusion = "any of several"
    elif not sufficient and len(necessary) >= 2:
        conclusion = "several together"
    else:
        conclusion = "unclear"
    return {"damaging": damaging, "sufficient": sufficient, "necessary": necessary,
            "conclusion": conclusion}  # fmt: skip


def causes_with_sets(flips, heads):
    everything = set(heads)
    damaging = {head for head in everything if flips({head}, donor="control") > 0.1}
    everything -= damaging
    sufficient = {head for head in everything if flips({head}, donor="partner") >= 0.9}
    necessary = {head for head in everything if flips(everything - {head}, donor="partner") <= 0.1}
    kinds = {(1, 1): "one head", (2, 0): "any of several", (0, 2): "several together"}
    conclusion = kinds.get((min(len(sufficient), 2), min(len(necessary), 2)), "unclear")
    if conclusion == "one head" and sufficient != necessary:
        conclusion = "unclear"
    return {
        "conclusion": conclusion,
        "necessary": necessary,
        "sufficient": sufficient,
        "damaging": damaging,
    }


def greedy_with_lists(model, src, src_mask, max_len):
    """Lists of numbers, made a tensor in each step; what has ended is fed padding."""
    memory = model.encoder(src, src_mask)
    texts, over = [[START_ID] for _ in src], [False for _ in src]
    while not all(over) and len(texts[0]) <= max_len:
        vectors = model.decoder(torch.tensor(texts), memory, src_mask)
        for row, scores in enumerate(model.output(vectors[:, -1])):
            texts[row].append(0 if over[row] else int(scores.argmax()))
            over[row] = over[row] or texts[row][-1] == END_ID
    return [text[1 : text.index(END_ID) if END_ID in text else None] for text in texts]


def dearer_by_division(times, src_len, d_model, d_ff):
    """The ratio without its fraction; floats come back."""
    words = 1.0
    while True:
        found = multiplications(int(words), src_len, d_model, d_ff, 2)
        if found["recomputed"] // found["cached"] >= times:
            return words
        words += 1


def patch_cache_into_a_copy(cache, donor, layer, head, places):
    """Place by place, into a deep copy."""
    new = copy.deepcopy(cache)
    for place in places:
        for name in ("memory_keys", "memory_values"):
            new[layer][name][:, head, place] = donor[layer][name][:, head, place]
    return new


RIGHT = {
    "greedy": [greedy, greedy_that_shrinks, greedy_into_a_table, greedy_with_lists],
    "cache": [
        (project, attend, start, step),
        (project_by_heads, attend_fused, start_with_zeros, step_with_objects),
        (project, attend_by_loops, start, step_by_texts),
    ],
    "beam": [
        (select, beam_search),
        (select_by_index, beam_search_with_tensors),
        (select_by_rows, beam_search),
    ],
    "costs": [
        (cache_entries, multiplications, length_for_ratio),
        (cache_entries_by_adding, multiplications_in_closed_form, dearer_by_doubling),
        (cache_entries, multiplications, dearer_by_division),
    ],
    "causes": [
        (patch_cache, causes),
        (patch_cache_by_where, causes_with_sets),
        (patch_cache_into_a_copy, causes),
    ],
}
