"""Answers to the parts of translating with a Transformer, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import copy
import math
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from attentively.checks import translating_with_it as checks
from attentively.checks.edits import edited, edited_source, source_of
from attentively.checks.recordings import QUESTIONS, load_questions
from attentively.generation import search
from attentively.vocabulary import END_ID, START_ID

questions = load_questions(Path(__file__).with_name(QUESTIONS))

# Part 1


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


def greedy_with_lists(model, src, src_mask, max_len):
    """Lists of numbers, made a tensor in each step; what has ended is fed padding."""
    memory = model.encoder(src, src_mask)
    texts, over = [[START_ID] for _ in src], [False for _ in src]
    while not all(over) and len(texts[0]) <= max_len:
        vectors = model.decoder(torch.tensor(texts), memory, src_mask)
        for row, scores in enumerate(model.output(vectors[:, -1])):
            texts[row].append(0 if over[row] else int(scores.numpy().argmax()))
            over[row] = over[row] or texts[row][-1] == END_ID
    return [text[1 : text.index(END_ID) if END_ID in text else None] for text in texts]


def greedy_without_batch(model, src, src_mask, max_len):
    """The encoder runs once for each sentence."""
    rows = range(len(src))
    return [questions.greedy(model, src[i : i + 1], src_mask[i : i + 1], max_len)[0] for i in rows]


# Part 2


def project_by_heads(attention, x, num_heads):
    """One head after the other; a list comes back."""
    answer = []
    for projection in (attention.key_projection, attention.value_projection):
        projected = F.linear(x, projection.weight, projection.bias)
        answer.append(torch.stack(projected.chunk(num_heads, dim=-1), dim=1))
    return answer


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


def start_with_zeros(model, memory, num_heads):
    """In 64 bits, and in a tuple."""
    batch, _, d_model = memory.shape
    cache = []
    for layer in model.decoder.layers:
        pair = project_by_heads(layer.cross_attention, memory, num_heads)
        entry = dict(zip(("memory_keys", "memory_values"), pair, strict=True))
        for name in ("keys", "values"):
            entry[name] = torch.zeros(batch, num_heads, 0, d_model // num_heads)
        cache.append({name: each.double() for name, each in entry.items()})
    return tuple(cache)


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


def step_by_texts(model, tgt, cache, src_mask, step=questions.step):
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


def step_from_the_beginning(model, tgt, cache, src_mask):
    """Every word passes through the layers again; the cache is filled from scratch."""
    after = [
        entry | {name: entry[name][:, :, :0] for name in ("keys", "values")} for entry in cache
    ]
    for length in range(1, tgt.size(1) + 1):
        scores, after = questions.step(model, tgt[:, :length], after, src_mask)
    return scores, after


def start_in_disguise(*inputs):
    return checks.start(*inputs)


def step_in_disguise(*inputs):
    return checks.step(*inputs)


# Part 3


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


def beam_search_with_tensors(model, src, src_mask, num_heads, beam_size, max_len, alpha):
    """All k rows from the first step on, all but one of them impossible; topk instead of a sort."""
    memory = model.encoder(src, src_mask)
    rows = torch.zeros(beam_size, dtype=torch.long)
    cache = select_by_index(questions.start(model, memory, num_heads), rows)
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


def beam_search_with(step, start=questions.start):
    """Return the right search with other functions of part 2."""
    searched = edited(questions.beam_search, ())
    searched.__globals__.update(step=step, start=start)
    return searched


# Part 4


def cache_entries_by_adding(num_layers, d_model, src_len, words, rows):
    held = 0
    for _ in range(num_layers):
        for places in (src_len, src_len, words, words):
            held += rows * places * d_model
    return torch.tensor(held)


def multiplications_in_closed_form(words, src_len, d_model, d_ff, num_layers):
    n, s, d = words, src_len, d_model
    sum_1, sum_2 = n * (n + 1) // 2, n * (n + 1) * (2 * n + 1) // 6
    each = 6 * d**2 + 2 * s * d + 2 * d * d_ff
    return {
        "recomputed": num_layers * (each * sum_1 + 2 * d * sum_2 + 2 * n * s * d**2),
        "cached": num_layers * (each * n + 2 * d * sum_1 + 2 * s * d**2),
    }


def length_by_doubling(times, src_len, d_model, d_ff):
    """The ratio grows with the length, so bisection finds the length."""

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
    return np.int64(high)


def length_by_division(times, src_len, d_model, d_ff):
    """The ratio without its fraction; a tensor comes back."""
    words = torch.tensor(1)
    while True:
        found = questions.multiplications(int(words), src_len, d_model, d_ff, 2)
        if found["recomputed"] // found["cached"] >= times:
            return words
        words = words + 1


# Part 5


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


def patch_cache_into_a_copy(cache, donor, layer, head, places):
    """Place by place, into a deep copy."""
    new = copy.deepcopy(cache)
    for place in places:
        for name in ("memory_keys", "memory_values"):
            new[layer][name][:, head, place] = donor[layer][name][:, head, place]
    return new


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


RIGHT = {
    "greedy": [greedy_that_shrinks, greedy_into_a_table, greedy_with_lists],
    "project": [project_by_heads],
    "attend": [attend_fused, attend_by_loops],
    "start": [start_with_zeros],
    "step": [step_with_objects, step_by_texts],
    "select": [select_by_index, select_by_rows],
    "beam_search": [
        beam_search_with_tensors,
        beam_search_with(checks.step, checks.start),  # which parts 3 and 5 may use
    ],
    "cache_entries": [cache_entries_by_adding],
    "multiplications": [multiplications_in_closed_form],
    "length_for_ratio": [length_by_doubling, length_by_division],
    "patch_cache": [patch_cache_by_where, patch_cache_into_a_copy],
    "causes": [causes_with_sets],
}

OWN = "not accepted. Your code uses"
STOP = "if (tgt == END_ID).any(dim=1).all()"
MASK = "src_mask.expand(len(going), -1, -1)"
START = "cache = start(model, model.encoder(src, src_mask), num_heads)"
PLACE = "input(tgt)[:, -1:] -> input(tgt[:, -1:])"
SOUND = "sound = [head for head in heads if head not in damaging] -> sound = heads"

WRONG = {
    "greedy": {
        "the encoder runs 5 times": greedy_without_batch,
        "the encoder runs": (
            "    memory = model.encoder(src, src_mask)\n -> ",
            "decoder(tgt, memory, -> decoder(tgt, model.encoder(src, src_mask),",
        ),
        "the decoder runs": [
            f"{STOP} -> if False",
            f"{STOP} -> if (tgt[:, -1] == END_ID).all()",
        ],
        "A list with a list of whole numbers for each sentence": "in texts] -> in texts][0]",
        "Your code raises": "(len(src), 1) -> (1, 1)",
        OWN: search.greedy_search,
    },
    "project": {"Expected a pair": "return keys, values -> return values"},
    "attend": {"Your code raises": "mask.unsqueeze(1)) -> mask)"},
    "start": {
        "as a torch.Tensor, got None": (
            '"keys": nothing, "values": nothing -> "keys": None, "values": None'
        ),
        "has no key 'keys'": '{"keys": nothing, "values": nothing} -> {}',
        "a list with a dict for each layer": "return cache -> return cache[0]",
        "there are 2 layers, got 1 dicts": "return cache -> return cache[:1]",
        OWN: [checks.start, start_in_disguise],
    },
    "step": {
        "Expected a pair": "return scores, after -> return scores",
        "Your code changes its input cache": "new = dict(old) -> new = old",
        "4 words passed through each layer": step_from_the_beginning,
        "the keys of the memory are computed again": (
            'keys, values = old["memory_keys"] -> layer.cross_attention.key_projection(h)\n'
            '            keys, values = old["memory_keys"]'
        ),
        OWN: [checks.step, step_in_disguise],
    },
    "select": {
        "Your code changes its input cache": (
            "each[rows] -> each.index_copy_(0, torch.arange(len(rows)), each[rows])"
        ),
    },
    "beam_search": {
        "the encoder runs": f"{START} -> {START}\n    model.encoder(src, src_mask)",
        "earlier words are processed again in each step": (
            f"{START} -> cache = model.encoder(src, src_mask)",
            f"scores, cache = step(model, tgt, cache, {MASK}) -> memory = cache.expand(len(tgt), "
            f"-1, -1)\n        scores = model.output(model.decoder(tgt, memory, {MASK})[:, -1])",
            "cache = select(cache, torch.tensor(rows)) -> pass",
        ),
        "All hypotheses are rows of one batch": [
            beam_search_with(step_by_texts),
            beam_search_with(partial(step_by_texts, step=checks.step), checks.start),
        ],
        "rows are processed in a step": (
            f"{START} -> {START}\n"
            "    cache = select(cache, torch.zeros(2 * beam_size, dtype=torch.long))",
            "[([START_ID], 0.0)] -> [([START_ID], 0.0), "
            "*[([START_ID], -math.inf)] * (2 * beam_size - 1)]",
        ),
        "not the expected value of the hypotheses": "return found -> return found[0]",
        "Your code raises": f"{MASK} -> src_mask[:0]",
        OWN: search.beam_search,
    },
    "cache_entries": {
        "This is not the expected value of what cache_entries returns": (
            "(src_len + words) -> src_len * words"
        ),
    },
    "multiplications": {
        "Expected what": (
            'return {"recomputed": num_layers * recomputed, "cached": num_layers * cached} -> '
            "return num_layers * recomputed, num_layers * cached"
        ),
        "This is not the expected value": '"cached": -> "with a cache":',
    },
    "length_for_ratio": {"recomputed, ": "return words -> return words + 2"},
    "patch_cache": {
        "Your code changes its input cache": [
            "[dict(entry) for entry in cache] -> cache",
            "cache[layer][name].clone() -> cache[layer][name]",
        ],
        "a list with a dict for each layer": "return new -> return new[layer]",
    },
    "causes": {
        "A share of one half is too low": ">= 0.9 -> > 0.5",
        "`damaging` lacks such a head": (
            'flips([head], "control") > -> round(flips([head], "control"), 1) >'
        ),
        "flips takes a list of heads": 'flips([head], "control") -> flips(head, "control")',
        "is unknown: 'partner' or 'control'": '"control") -> "a control")',
        "A head is a pair (layer, head); 'sufficient' contains [2]": (
            "{**found, -> {**{name: [head for _, head in found[name]] for name in found},"
        ),
        "This is not the expected value of what causes": [
            ', "conclusion": conclusion} -> }',
            'flips([head], "control") > -> flips(heads, "control") - flips([other for other in '
            'heads if other != head], "control") >',
        ],
        "Expected what causes returns as a dict": (
            'return {**found, "conclusion": conclusion} -> return [found, conclusion]'
        ),
    },
}

HANDED_IN = {
    "two_mistakes": (
        {
            "cache": "\n\n".join(
                [
                    *map(source_of, (questions.project, questions.attend, questions.start)),
                    edited_source(questions.step, PLACE),
                ]
            ),
            "causes": "\n\n".join(
                [source_of(questions.patch_cache), edited_source(questions.causes, SOUND)]
            ),
        },
        ["cache-check", "beam-check", "causes-check"],
        "Every word has position 0",
    ),
}
