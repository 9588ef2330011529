"""Plausible wrong answers to 17_translating_with_it, with words of the message of each."""

import inspect

import right_answers_17 as right
import torch
from answer_sources import source
from right_answers_17 import (
    attend,
    beam_search,
    beam_search_with_tensors,
    cache_entries,
    causes,
    greedy,
    length_for_ratio,
    multiplications,
    patch_cache,
    project,
    select,
    start,
    step,
)

from attentively.checks import translating_with_it as checks
from attentively.vocabulary import END_ID, START_ID


def changed(answer, *pairs):
    """Return a right answer with some words of its source replaced: (old, new), (old, new), ..."""
    text = inspect.getsource(answer)
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    namespace = dict(vars(right))
    exec(compile(text, f"<{answer.__name__}, changed>", "exec"), namespace)
    return namespace[answer.__name__]


# Part 1


def greedy_with(*pairs):
    return changed(greedy, *pairs)


def greedy_without_batch(model, src, src_mask, max_len):
    """It is called for each sentence anew, so the encoder reads each of them by itself."""
    rows = range(len(src))
    return [greedy(model, src[i : i + 1], src_mask[i : i + 1], max_len)[0] for i in rows]


def one_sentence_alone(model, src, src_mask, max_len):
    return greedy(model, src, src_mask, max_len)[0]


def a_table(model, src, src_mask, max_len):
    memory = model.encoder(src, src_mask)
    tgt = torch.full((len(src), 1), START_ID)
    for _ in range(max_len):
        scores = model.output(model.decoder(tgt, memory, src_mask)[:, -1])
        tgt = torch.cat([tgt, scores.argmax(dim=-1, keepdim=True)], dim=1)
        if (tgt == END_ID).any(dim=1).all():
            break
    return tgt[:, 1:]


STOP = "if (tgt == END_ID).any(dim=1).all()"
GREEDY = [
    (greedy_with(("return [ids[: ids.index(END_ID)] for ids in texts]",
                  "return [ids[: ids.index(END_ID) + 1] if END_ID in ids[:-1] else ids[:-1] "
                  "for ids in texts]")),
     "END is in the output. It marks"),
    (greedy_with(("ids.index(END_ID)] for", "ids.index(END_ID) + 1] for")),
     "END is in the output, also where"),
    (greedy_with(("tgt[:, 1:].tolist()", "tgt.tolist()")), "START is in the output"),
    (a_table, "There are words after END"),
    (greedy_with((".any(dim=1).all()", ".any(dim=1).any()")), "All sentences stop when the first"),
    (greedy_with(("src_mask)[:, -1]", "src_mask)[:, 0]")), "taken from the first position"),
    (greedy_with(("model.decoder(tgt, ", "model.decoder(tgt[:, -1:], ")),
     "The decoder reads only the last word"),
    (greedy_with(("model.encoder(src, src_mask)",
                  "model.encoder(src, torch.ones_like(src_mask))")),
     "The encoder is called without src_mask"),
    (greedy_with(("memory, src_mask)", "memory, torch.ones_like(src_mask))")),
     "The decoder is called without src_mask"),
    (greedy_with(("(src, src_mask)", "(src, torch.ones_like(src_mask))"),
                  ("memory, src_mask)", "memory, torch.ones_like(src_mask))")),
     "src_mask is ignored"),
    (greedy_with((".argmax(", ".argmin(")), "The least probable word is chosen"),
    (greedy_with(("range(max_len)", "range(max_len + 1)")), "There is one step too many"),
    (greedy_with(("range(max_len)", "range(1, max_len)")), "There is one step too few"),
    (greedy_with(("    memory = model.encoder(src, src_mask)\n", ""),
                 ("decoder(tgt, memory", "decoder(tgt, model.encoder(src, src_mask)")),
     "the encoder runs"),
    (greedy_without_batch, "the encoder runs 5 times"),
    (greedy_with((STOP, "if False")), "the decoder runs"),
    (greedy_with((STOP, "if (tgt[:, -1] == END_ID).all()")), "the decoder runs"),
    (greedy_with(("[ids[: ids.index(END_ID)] for ids",
                  "[[word for word in ids if word != END_ID] for ids")),
     "END is removed, but not the words after it"),
    (greedy_with(("START_ID)", "END_ID)"), ("(tgt == ", "(tgt[:, 1:] == ")),
     "The decoder input begins with END"),
    (greedy_with(("START_ID)", "0)")), "The decoder input begins with PAD"),
    (one_sentence_alone, "A list with a list of whole numbers for each sentence"),
    (greedy_with(("return [", "[")), "got None: is there a `return`?"),
    (greedy_with(("(len(src), 1)", "(1, 1)")), "Your code raises"),
]  # fmt: skip

# Part 2


def cache_with(*pairs, of):
    """Return the four functions, one of them changed."""
    made = changed(of, *pairs)
    return tuple(made if each is of else each for each in (project, attend, start, step))


def projected_with(*pairs):
    return cache_with(*pairs, of=project)


def looked_with(*pairs):
    return cache_with(*pairs, of=attend)


def started_with(*pairs):
    return cache_with(*pairs, of=start)


def stepped_with(*pairs):
    return cache_with(*pairs, of=step)


def into_the_old_cache(model, tgt, cache, src_mask):
    scores, after = step(model, tgt, cache, src_mask)
    for old, new in zip(cache, after, strict=True):
        old.update(new)
    return scores, cache


def start_with_one_dict(model, memory, num_heads):
    cache = start(model, memory, num_heads)
    return [cache[-1]] * len(cache)


def masked_late(attention, h, keys, values, mask=None):
    """The mask is multiplied with the weights."""
    queries = attention.query_projection(h).unflatten(2, (keys.size(1), -1)).transpose(1, 2)
    weights = (queries @ keys.mT / keys.size(3) ** 0.5).softmax(dim=-1)
    if mask is not None:
        weights = weights * mask.unsqueeze(1)
    return attention.output_projection((weights @ values).transpose(1, 2).flatten(2))


def from_the_beginning(model, tgt, cache, src_mask):
    """Every word goes through the layers again; the cache is filled anew."""
    after = [
        entry | {name: entry[name][:, :, :0] for name in ("keys", "values")} for entry in cache
    ]
    for length in range(1, tgt.size(1) + 1):
        scores, after = step(model, tgt[:, :length], after, src_mask)
    return scores, after


def with_the_memory_again(model, tgt, cache, src_mask):
    for layer in model.decoder.layers:
        layer.cross_attention.key_projection(torch.zeros(len(tgt), 5, layer_width(layer)))
    return step(model, tgt, cache, src_mask)


def layer_width(layer):
    return layer.cross_attention.key_projection.weight.size(1)


CACHE = [
    (projected_with(("return split(attention.key_projection(x)), split(attention.value_",
                     "return split(attention.value_projection(x)), split(attention.key_")),
     "Keys and values are exchanged"),
    (projected_with(("reshape(batch, length, num_heads, d_model // num_heads).transpose(1, 2)",
                     "reshape(batch, num_heads, length, d_model // num_heads)")),
     "project: reshape alone mixes words and heads"),
    (projected_with(("num_heads, d_model // num_heads).transpose(1, 2)",
                     "d_model // num_heads, num_heads).permute(0, 3, 1, 2)")),
     "neighbouring entries belong to one head"),
    (projected_with(("attention.key_projection(x)", "x"), ("attention.value_projection(x)", "x")),
     "x itself is split into heads"),
    (projected_with((".transpose(1, 2)", "")),
     "The axes of positions and heads are in the wrong order"),
    (projected_with(("split(attention.key_projection(x)), ", "")), "Expected a pair"),
    (looked_with((" / math.sqrt(d_head)", "")), "The scores are not divided by √d_head"),
    (looked_with(("math.sqrt(d_head)", "math.sqrt(num_heads * d_head)")), "divided by √d_model"),
    (looked_with(("math.sqrt(d_head)", "d_head")), "The scores are divided by d_head."),
    (looked_with(("attention.query_projection(h)", "h")), "The queries are not projected"),
    (looked_with(("None if mask is None else mask.unsqueeze(1)", "None")),
     "attend: The mask is ignored"),
    (looked_with(("weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(1))",
                  "weights = scores.softmax(2)")), "The weights sum to 1 over the queries"),
    (looked_with((".transpose(1, 2).flatten(2)\n    return", ".reshape(h.shape)\n    return")),
     "attend: reshape alone mixes words and heads"),
    (looked_with(("attention.output_projection(context)", "context")),
     "The output projection is missing"),
    (looked_with(("mask.unsqueeze(1)", "mask")), "Your code raises"),
    ((project, masked_late, start, step), "The mask is applied to the weights"),
    ((project, attend, start_with_one_dict, step), "Do they share one dict?"),
    ((project, attend, checks.start, checks.step),
     "These are the reference functions start and step"),
    (stepped_with(("layer.cross_attention, h, old", "layer.self_attention, h, old")),
     "self_attention is applied to the memory"),
    (stepped_with(("input(tgt)[:, -1:]", "input(tgt)")), "All words pass through the layers again"),
    (stepped_with(("model.decoder.last_norm(y))[:, -1]",
                   "model.decoder.last_norm(y))[:, -1].log_softmax(dim=-1)")),
     "These are log-probabilities"),
    (started_with(("layer.cross_attention", "layer.self_attention")),
     "The memory is projected by self_attention"),
    (started_with(("project(layer.", "project(model.decoder.layers[0].")),
     "All layers have the keys of the first layer"),
    (started_with(('"memory_keys": keys, "memory_values": values',
                   '"memory_keys": values, "memory_values": keys')),
     "start: memory_keys and memory_values are exchanged"),
    (started_with(('"keys": nothing, "values": nothing', '"keys": keys, "values": values')),
     "must be empty before the first word"),
    (started_with(('"keys": nothing, "values": nothing', '"keys": None, "values": None')),
     "as a torch.Tensor, got None"),
    (started_with(('"keys": nothing, "values": nothing, ', "")), "has no key 'keys'"),
    (started_with(("return cache", "return cache[0]")), "a list with a dict for each layer"),
    (started_with(("return cache", "return cache[:1]")), "there are 2 layers, got 1 dicts"),
    (stepped_with(("input(tgt)[:, -1:]", "input(tgt[:, -1:])")), "Every word has position 0"),
    (stepped_with(("input(tgt)[:, -1:]", "input(tgt)[:, :1]")), "The first word is processed"),
    (stepped_with(("model.decoder.layers, cache, strict=True",
                   "model.decoder.layers, [cache[0]] * len(cache), strict=True")),
     "Every layer uses the cache of the first layer"),
    (stepped_with(("        def self_attend(h, ",
                   "        before = y\n\n        def self_attend(h, "),
                  ("project(layer.self_attention, h,", "project(layer.self_attention, before,")),
     "computed from the input of the layer"),
    (stepped_with(('return attend(layer.self_attention, h, new["keys"], new["values"])',
                   "return attend(layer.self_attention, h, keys, values)")),
     "The last word attends only to itself"),
    (stepped_with(('return attend(layer.self_attention, h, new["keys"], new["values"])',
                   'seen = old if old["keys"].size(2) else new\n'
                   '            return attend(layer.self_attention, h, seen["keys"], '
                   'seen["values"])')),
     "The last word does not attend to itself"),
    (stepped_with(('h, old["memory_keys"], old["memory_values"], src_mask',
                   'h, old["memory_values"], old["memory_keys"], src_mask')),
     "step: memory_keys and memory_values are exchanged"),
    (stepped_with(('old["memory_values"], src_mask', 'old["memory_values"]')),
     "step: src_mask is ignored"),
    (stepped_with(("        y = layer.around_cross_attention(y, cross_attend)\n", "")),
     "The cross-attention is missing"),
    (stepped_with(("        y = layer.around_feed_forward(y, layer.feed_forward)\n", "")),
     "The feed-forward network is missing"),
    (stepped_with(("model.decoder.last_norm(y)", "y")), "decoder.last_norm is missing"),
    (stepped_with(("model.decoder.last_norm(y))[:, -1]",
                   "model.decoder.last_norm(y))[:, -1].softmax(dim=-1)")),
     "These are probabilities"),
    (stepped_with(('torch.cat([old["keys"], keys]', 'torch.cat([keys, old["keys"]]'),
                  ('torch.cat([old["values"], values]', 'torch.cat([values, old["values"]]')),
     "The new keys are placed before the old ones"),
    (stepped_with(("after.append(new)", "after.append(old)")),
     "are missing in the returned cache"),
    (stepped_with(("[:, -1], after", "[:, -1]")), "Expected a pair"),
    ((project, attend, start, into_the_old_cache), "Your code changes its input cache"),
    ((project, attend, start, from_the_beginning), "4 words passed through each layer"),
    ((project, attend, start, with_the_memory_again), "the keys of the memory are computed again"),
]  # fmt: skip

# Part 3


def select_with(new, old="each[rows]"):
    return changed(select, (old, new)), beam_search


def search_with(*pairs):
    return select, changed(beam_search, *pairs)


def by_feeding_back(model, src, src_mask, num_heads, beam_size, max_len, alpha):
    """Every beginning is read anew in each step."""

    def read(model, tgt, cache, mask):
        memory = cache[0].expand(len(tgt), -1, -1)
        return model.output(model.decoder(tgt, memory, mask)[:, -1]), cache

    names = dict(vars(right)) | {
        "start": lambda model, memory, num_heads: [memory],
        "step": read,
        "select": lambda cache, rows: cache,
    }
    exec(inspect.getsource(beam_search), names)
    return names["beam_search"](model, src, src_mask, num_heads, beam_size, max_len, alpha)


def one_call_for_each(model, src, src_mask, num_heads, beam_size, max_len, alpha):
    names = dict(vars(right)) | {"step": right.step_by_texts}
    exec(inspect.getsource(beam_search), names)
    return names["beam_search"](model, src, src_mask, num_heads, beam_size, max_len, alpha)


SELECT_LINE = "cache = select(cache, torch.tensor([row for _, _, row in kept]))"
BEAM = [
    (select_with('each if "memory" in name else each[rows]'),
     "The keys and values of the memory are not selected"),
    ((changed(select, ("for entry in cache]", "for entry in cache[:1]] + cache[1:]")),
      beam_search), "Rows are selected in the first layer only"),
    (select_with("each[:, rows]"), "Heads are selected"),
    (select_with("each[rows.unique()]"), "A row may be selected twice"),
    (select_with("each[rows.argsort()]"), "The direction is wrong"),
    (select_with("each.index_copy_(0, torch.arange(len(rows)), each[rows])"),
     "Your code changes its input cache"),
    (search_with((SELECT_LINE,
                  "rows = torch.tensor([min(i, len(going) - 1) for i in range(len(kept))])\n"
                  "        cache = select(cache, rows)")),
     "The cache does not follow the hypotheses"),
    (search_with((SELECT_LINE, "cache = select(cache, torch.tensor([0 for _ in kept]))")),
     "The cache does not follow the hypotheses"),
    (search_with((SELECT_LINE,
                  "rows = [row for _, _, row in extensions[: len(kept)]]\n"
                  "        cache = select(cache, torch.tensor(rows))")),
     "The cache does not follow the hypotheses"),
    (search_with(("scores.log_softmax(dim=-1).tolist()", "scores.tolist()")),
     "These are sums of scores"),
    (search_with(("scores.log_softmax(dim=-1).tolist()", "scores.softmax(dim=-1).tolist()")),
     "These are sums of probabilities"),
    (search_with(("words[1:-1]", "words[:-1]")), "START is in the output"),
    (search_with(("words[1:-1]", "words[1:]")), "END is among the returned tokens"),
    (search_with(("(words[1:-1], total / length**alpha)", "(words[1:-1], total)")),
     "The length is not used"),
    (search_with(("found.append((words[1:-1], total / length**alpha))",
                  "found.append((words[1:-1], total / max(1, length - 1)**alpha))")),
     "END is not counted in the length"),
    (search_with(("total / length**alpha))", "total * length**alpha))")),
     "is multiplied by length ** alpha"),
    (search_with(("return found", "return found[::-1]")), "The worst hypothesis is first"),
    (search_with(("total + value, row", "value, row")),
     "An extension has only the log-probability of its last token"),
    (search_with(("in extensions[:beam_size]", "in extensions")),
     "although it is not among the beam_size most probable"),
    (search_with(("[each for each in extensions if each[0][-1] != END_ID][:beam_size]",
                  "[each for each in extensions[:beam_size] if each[0][-1] != END_ID]")),
     "the beam becomes smaller"),
    (search_with((" and kept[0][1] / length**alpha <= found[-1][1]", "")),
     "The search stops too early"),
    (search_with(("if len(found) == beam_size and", "if False and")),
     "The search always runs until max_len"),
    (search_with(("range(1, max_len + 1)", "range(1, max_len)")),
     "The search stops one step early"),
    (search_with(("range(1, max_len + 1)", "range(1, max_len + 2)")),
     "There is one step too many"),
    (search_with(("    cache = start(model, model.encoder(src, src_mask), num_heads)\n", ""),
                 ("        scores, cache = step(", "        cache = start(model, model.encoder("
                  "src, src_mask), num_heads) if length == 1 else cache\n"
                  "        model.encoder(src, src_mask)\n        scores, cache = step(")),
     "the encoder runs"),
    ((select, by_feeding_back), "earlier words are processed again in each step"),
    ((select, one_call_for_each), "All hypotheses are rows of one batch"),
    ((select, changed(beam_search_with_tensors, ("beam_size, dtype", "2 * beam_size, dtype"),
                      ("src_mask.repeat(beam_size,", "src_mask.repeat(2 * beam_size,"),
                      ("torch.full((beam_size", "torch.full((2 * beam_size"),
                      ("topk(min(2 * beam_size", "topk(min(3 * beam_size"),
                      ("nonzero().flatten()[:beam_size]", "nonzero().flatten()[:beam_size]"))),
     "rows are processed in a step"),
    (search_with(("return found", "return found[0]")), "not the expected value of the hypotheses"),
    (search_with((", src_mask.expand(len(going), -1, -1)", ", src_mask[:0]")), "Your code raises"),
]  # fmt: skip

# Part 4


def numbers_with(*pairs):
    return changed(cache_entries, *pairs), multiplications, length_for_ratio


def products_with(*pairs):
    return cache_entries, changed(multiplications, *pairs), length_for_ratio


def dearer_with(*pairs):
    return cache_entries, multiplications, changed(length_for_ratio, *pairs)


def by_steps(times, src_len, d_model, d_ff):
    """Each step by itself, not all of them together."""

    def cost(words):
        return multiplications(words, src_len, d_model, d_ff, 1)

    words = 1
    while True:
        now, before = cost(words), cost(words - 1)
        if words == 1:
            before = dict.fromkeys(now, 0)
        step = {name: now[name] - before[name] for name in now}
        if step["recomputed"] >= times * step["cached"]:
            return words
        words += 1


COSTS = [
    (numbers_with(("2 * num_layers", "num_layers")),
     "Only the keys or only the values are counted"),
    (numbers_with(("2 * num_layers", "4 * num_layers")), "The result is twice too large"),
    (numbers_with(("(src_len + words)", "words")), "The keys and values of the memory are missing"),
    (numbers_with(("(src_len + words) * rows", "(src_len + words * rows)")),
     "The memory is counted once"),
    (numbers_with(("(src_len + words)", "src_len")), "of the target words are missing"),
    (numbers_with((" * rows", "")), "`rows` is ignored"),
    (numbers_with(("num_layers * d_model", "d_model")), "`num_layers` is ignored"),
    (numbers_with(("src_len + words", "src_len + words + 1")), "One target position too many"),
    (numbers_with(("src_len + words", "src_len + words - 1")), "One target position too few"),
    (numbers_with(("(src_len + words)", "src_len * words")),
     "This is not the expected value of what cache_entries returns"),
    (products_with(('{"recomputed": num_layers * recomputed, "cached": num_layers * cached}',
                    '{"recomputed": num_layers * cached, "cached": num_layers * recomputed}')),
     'recomputed" and "cached" are exchanged'),
    (products_with(("num_layers * recomputed", "recomputed"), ("num_layers * cached", "cached")),
     "This is the result for one layer"),
    (products_with(("range(1, words + 1)", "range(words)")), "the first step reads one word"),
    (products_with(("range(1, words + 1)", "(words,)")), "Only the last step is counted"),
    (products_with(("6 * new", "4 * new")), "The output projection is missing"),
    (products_with(("2 * new * keys * d_model + 2 * new * src_len",
                    "new * keys * d_model + new * src_len")), "an attention computes two products"),
    (products_with(("looking + ", "")),
     "The products of queries with keys and of weights with values are missing"),
    (products_with(("2 * new * keys * d_model",
                    "(2 * keys if new == 1 else new * (new + 1)) * d_model")),
     "masked scores are computed as well"),
    (products_with(("6 * new", "4 * new"), (" + 2 * new * src_len * d_model", ""),
                   ("2 * src_len * d_model * d_model", "0")),
     "multiplications: The cross-attention is missing"),
    (products_with(("+ 2 * new * d_model * d_ff", "+ new * d_model * d_ff")),
     "The feed-forward network has two layers"),
    (products_with((" + 2 * new * d_model * d_ff", "")), "The feed-forward network is missing"),
    (products_with(("sum(layer(n, n) + memory for", "memory + sum(layer(n, n) for")),
     "Without a cache, the keys and values of the memory"),
    (products_with(("cached = memory + sum(layer(1, n) for",
                    "cached = sum(memory + layer(1, n) for")),
     "of the memory are computed once, before the first step"),
    (products_with(("cached = memory + ", "cached = ")),
     "must be computed once as well"),
    (products_with(("layer(1, n)", "layer(1, 1)")), "still attends to all words so far"),
    (products_with(('return {"recomputed": num_layers * recomputed, "cached": num_layers * cached}',
                    "return num_layers * recomputed, num_layers * cached")), "Expected what"),
    (products_with(('"cached": ', '"with a cache": ')), "This is not the expected value"),
    ((cache_entries, multiplications, by_steps), "Single steps are compared"),
    (dearer_with(("return words", "return max(1, words - 1)")),
     "the last length with a smaller ratio"),
    (dearer_with((">= times", "> times")), "A ratio of exactly `times` is sufficient"),
    (dearer_with(("return words", "return words - 1")), "the last length with a smaller ratio"),
    (dearer_with(("return words", "return words + 2")),
     "recomputed, "),
]  # fmt: skip

# Part 5


def moved_with(*pairs):
    return changed(patch_cache, *pairs), causes


def read_with(*pairs):
    return patch_cache, changed(causes, *pairs)


def into_the_cache(cache, donor, layer, head, places):
    for name in ("memory_keys", "memory_values"):
        cache[layer][name][:, head, places] = donor[layer][name][:, head, places]
    return cache


def in_every_layer(cache, donor, layer, head, places):
    for number in range(len(cache)):
        cache = patch_cache(cache, donor, number, head, places)
    return cache


def in_every_head(cache, donor, layer, head, places):
    for number in range(cache[0]["keys"].size(1)):
        cache = patch_cache(cache, donor, layer, number, places)
    return cache


def causes_by_numbers(flips, heads):
    """It calls a head by its number in its layer."""
    return {
        name: value if name == "conclusion" else [head for _, head in value]
        for name, value in causes(flips, heads).items()
    }


NAMES = '("memory_keys", "memory_values")'
SOUND = "sound = [head for head in heads if head not in damaging]"
CAUSES = [
    (moved_with((NAMES, '("memory_keys",)')), "Only the keys are replaced"),
    (moved_with((NAMES, '("memory_values",)')), "Only the values are replaced"),
    (moved_with((NAMES, '("keys", "values")')), "of the target words are replaced"),
    ((in_every_layer, causes), "replaced in every layer"),
    ((in_every_head, causes), "replaced in every head"),
    (moved_with((":, head, places]", ":, head]")), "replaced at every position"),
    ((lambda cache, donor, *where: patch_cache(donor, cache, *where), causes),
     "The donor is returned"),
    (moved_with(("[:, head, places]", "[head]")), "Rows of the batch are replaced"),
    ((into_the_cache, causes), "Your code changes its input cache"),
    (moved_with(("return new", "return new[layer]")), "a list with a dict for each layer"),
    (read_with((SOUND, "sound = heads\n    damaging = []")), "The control is missing"),
    (read_with((SOUND, "sound = heads")), "A damaging head must be left out of everything"),
    (read_with(('sufficient = [head for head in sound', 'sufficient = [head for head in heads')),
     "also of `sufficient`"),
    (read_with(('flips([head], "control") > 0.1', 'flips([head], "partner") > 0.1')),
     "Damage must be measured with"),
    (read_with(("len(necessary) >= 2", "necessary")),
     'Where none of the three conclusions holds'),
    (read_with(("others = [other for other in sound if other != head]",
                "others = [other for other in sound if other < head]")),
     "Every sound head is returned as necessary"),
    (read_with(("others = [other for other in sound", "others = [other for other in heads")),
     "Damaging heads are patched together with the others"),
    (read_with((">= 0.9", "> 0.5")), "A share of one half is too low"),
    (read_with((">= 0.9", "> 0.9"), ("<= 0.1", "< 0.1"), ("> 0.1", ">= 0.1")),
     "The limits are not included as stated"),
    (read_with(("    for head in sound:\n", "    for head in sufficient:\n"),
               ('flips(others, "partner") <= 0.1', "True")), "`necessary` repeats `sufficient`"),
    (read_with(('flips(others, "partner") <= 0.1', 'flips([head], "partner") > 0.1')),
     "`necessary` contains heads that flip answers alone"),
    (read_with(('"sufficient": sufficient, "necessary": necessary',
                '"sufficient": necessary, "necessary": sufficient')),
     "`sufficient` and `necessary` are exchanged"),
    (read_with(('flips(others, "partner")', 'flips(others, "control")')),
     "Are the others patched from"),
    (read_with(('flips(others, "partner") <= 0.1', 'flips(others, "partner") < 0.9')),
     "here the limit is 0.9"),
    (read_with(("len(sufficient) == 1 and necessary == sufficient", "len(sufficient) == 1"),
               ("elif not sufficient and len(necessary) >= 2", "else"),
               ('\n    else:\n        conclusion = "unclear"', "")),
     'must also be the only necessary head'),
    (read_with(("len(sufficient) == 1 and necessary == sufficient", "len(sufficient) == 1")),
     "must also be the only necessary head"),
    (read_with(("flips([head], ", "flips(head, ")), "flips takes a list of heads"),
    (read_with(('"control")', '"a control")')), "is unknown: 'partner' or 'control'"),
    ((patch_cache, causes_by_numbers), "A head is a pair (layer, head); 'sufficient' contains [2]"),
    (read_with(('"conclusion": conclusion', "")),
     "This is not the expected value of what causes"),
    ((patch_cache, lambda flips, heads: [flips([head], "partner") for head in heads]),
     "Expected what causes returns as a dict"),
]  # fmt: skip

WRONG = {
    "greedy": GREEDY,
    "cache": CACHE,
    "beam": BEAM,
    "costs": COSTS,
    "causes": CAUSES,
}


HANDED_IN = {
    "counted_from_place_0": (
        {
            "cache": source(
                project, attend, start, step, place=("input(tgt)[:, -1:]", "input(tgt[:, -1:])")
            )
        },
        ["cache-check", "beam-check"],
        "Every word has position 0",
    ),
    "without_control": (
        {
            "causes": source(
                patch_cache, causes, control=(SOUND, "sound = heads"),
            )
        },
        ["causes-check"],
        "A damaging head must be left out",
    ),
}  # fmt: skip
