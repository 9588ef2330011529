"""Translating with a trained Transformer as data: right answers, cases and known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. The
module `attentively.checks.translating_with_it` makes the models and the simulated mechanisms of
part 5, and counts what a search computes.
"""

import itertools  # noqa: F401  for the edits
import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from attentively.attention.masks import masked_softmax, padding_mask
from attentively.checks import translating_with_it as checks
from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question, cases_of
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

SRC = torch.tensor(
    [[3, 4, 5, 2, 0], [4, 6, 3, 5, 2], [6, 2, 0, 0, 0], [5, 5, 2, 0, 0], [6, 4, 2, 0, 0]]
)
SENTENCES = ["the cat drank the milk because it was hungry", "it is red"]  # long and short


def sizes(*given: int | str) -> dict[str, int | str]:
    """Return the arguments of a small model by name."""
    return dict(zip(("d_model", "num_heads", "num_layers", "norm", "seed"), given, strict=True))


def small(*given: int | str) -> Fresh:
    return Fresh(checks.small_model, sizes(*given))


def source(rows: slice) -> dict[str, Tensor]:
    return {"src": SRC[rows], "src_mask": padding_mask(SRC[rows], PAD_ID)}


def trained(sentences: list[str]) -> dict:
    src, src_mask = checks.read(sentences, checks.translator().src_tokenizer)
    return {"model": Fresh(checks.trained_model), "src": src, "src_mask": src_mask}


# Part 1


def greedy(model, src, src_mask, max_len):
    memory = model.encoder(src, src_mask)
    tgt = torch.full((len(src), 1), START_ID)
    for _ in range(max_len):
        outputs = model.decoder(tgt, memory, src_mask)
        scores = model.output(outputs[:, -1])
        tgt = torch.cat([tgt, scores.argmax(dim=-1, keepdim=True)], dim=1)
        if (tgt == END_ID).any(dim=1).all():
            break
    texts = [[*ids, END_ID] for ids in tgt[:, 1:].tolist()]
    return [ids[: ids.index(END_ID)] for ids in texts]


def greedy_cases(thorough: bool) -> Iterator[Case]:
    # All sentences of the second case end before its last step: see `checks._expect_few_runs`.
    models = [(small(4, 1, 1, "post", 98), 4), (small(6, 2, 1, "pre", 357), 7)]
    for model, max_len in models + [(small(4, 4, 1, "pre", 2), 17)] * thorough:
        yield Case({"model": model, **source(slice(None)), "max_len": max_len})
    yield Case(trained(SENTENCES) | {"max_len": 30})


CUT = "[ids[: ids.index(END_ID)] for"
NO_ENCODER_MASK = "model.encoder(src, src_mask) -> model.encoder(src, torch.ones_like(src_mask))"
NO_DECODER_MASK = "memory, src_mask) -> memory, torch.ones_like(src_mask))"

GREEDY = Question(
    greedy,
    {"the output": "A list with a list of whole numbers for each sentence."},
    greedy_cases,
    {
        "END is in the output. It marks the end of the sentence and is not returned.": (
            f"{CUT} -> [ids[: ids.index(END_ID) + 1] if END_ID in ids[:-1] else ids[:-1] for"
        ),
        "END is in the output, also where the model did not generate it. It marks the end of the "
        "sentence and is not returned.": f"{CUT} -> [ids[: ids.index(END_ID) + 1] for",
        "START is in the output. The decoder reads it, but it is not returned.": (
            "tgt[:, 1:].tolist() -> tgt.tolist()"
        ),
        "There are words after END in the output. Remove everything from END on.": (
            f"return {CUT} ids in texts] -> return tgt[:, 1:].tolist()"
        ),
        "All sentences stop when the first one has ended. The others must continue.": (
            ".any(dim=1).all() -> .any(dim=1).any()"
        ),
        "The next word is taken from the first position. The scores of the next word are at the "
        "last position.": "outputs[:, -1] -> outputs[:, 0]",
        "The decoder reads only the last word. It must read all words so far.": (
            "model.decoder(tgt, -> model.decoder(tgt[:, -1:],"
        ),
        "src_mask is ignored: the model attends to padding.": (NO_ENCODER_MASK, NO_DECODER_MASK),
        "The encoder is called without src_mask, so it attends to padding.": NO_ENCODER_MASK,
        "The decoder is called without src_mask, so it attends to padding.": NO_DECODER_MASK,
        "The least probable word is chosen.": ".argmax( -> .argmin(",
        "There is one step too many: max_len counts every word, including END.": (
            "range(max_len) -> range(max_len + 1)"
        ),
        "A sentence without END lacks its last word. max_len steps are allowed, and only END is "
        "removed.": ("range(max_len) -> range(1, max_len)"),
        "END is removed, but not the words after it. Remove everything from END on.": (
            f"{CUT} -> [[word for word in ids if word != END_ID] for"
        ),
        "The decoder input begins with PAD. It must begin with START_ID.": "START_ID) -> 0)",
        "The decoder input begins with END. It must begin with START_ID.": (
            "START_ID) -> END_ID)",
            "(tgt == -> (tgt[:, 1:] ==",
        ),
    },
)


# Part 2


def project(attention, x, num_heads):
    def split(projected):
        batch, length, d_model = projected.shape
        heads = projected.reshape(batch, length, num_heads, d_model // num_heads)
        return heads.transpose(1, 2)

    keys = split(attention.key_projection(x))
    values = split(attention.value_projection(x))
    return keys, values


def attend(attention, h, keys, values, mask=None):
    num_heads, d_head = keys.size(1), keys.size(3)
    queries = attention.query_projection(h)
    queries = queries.unflatten(2, (num_heads, d_head)).transpose(1, 2)
    scores = queries @ keys.transpose(2, 3) / math.sqrt(d_head)
    weights = masked_softmax(scores, None if mask is None else mask.unsqueeze(1))
    context = (weights @ values).transpose(1, 2).flatten(2)
    return attention.output_projection(context)


def start(model, memory, num_heads):
    cache = []
    for layer in model.decoder.layers:
        keys, values = project(layer.cross_attention, memory, num_heads)
        nothing = keys[:, :, :0]
        empty = {"keys": nothing, "values": nothing}
        cache.append({**empty, "memory_keys": keys, "memory_values": values})
    return cache


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
            keys, values = old["memory_keys"], old["memory_values"]
            return attend(layer.cross_attention, h, keys, values, src_mask)

        y = layer.around_self_attention(y, self_attend)
        y = layer.around_cross_attention(y, cross_attend)
        y = layer.around_feed_forward(y, layer.feed_forward)
        after.append(new)
    scores = model.output(model.decoder.last_norm(y))[:, -1]
    return scores, after


def models(thorough: bool) -> list[tuple]:
    return [(6, 2, 2, "pre", 1), (6, 3, 1, "post", 2), *[(10, 5, 1, "pre", 3)] * thorough]


def attention_of(layer: str, given: tuple) -> Fresh:
    return Fresh(checks.attention_of, {"layer": layer, **sizes(*given)})


def project_cases(thorough: bool) -> Iterator[Case]:
    for given in models(thorough):
        attention = attention_of("self_attention", given)
        x = torch.randn(2, 3, given[0])
        yield Case({"attention": attention, "x": x, "num_heads": given[1]})


def attend_cases(thorough: bool) -> Iterator[Case]:
    mask = source(slice(2))["src_mask"]
    for given in models(thorough):
        attention = attention_of("cross_attention", given)
        h = torch.randn(2, 3, given[0])
        keys, values = project(attention.make(), torch.randn(2, 5, given[0]), given[1])
        inputs = {"attention": attention, "h": h[:, :1], "keys": keys, "values": values}
        if given[2] > 1:
            yield Case(inputs)
            yield Case(inputs | {"mask": mask})
        yield Case(inputs | {"h": h, "mask": mask})


def start_cases(thorough: bool) -> Iterator[Case]:
    for given in models(thorough):
        memory = small(*given).make().encoder(*source(slice(2)).values())
        yield Case({"model": small(*given), "memory": memory, "num_heads": given[1]})


def step_cases(thorough: bool) -> Iterator[Case]:
    text = torch.tensor([[1, 5, 4, 3], [1, 3, 3, 6]])
    src, src_mask = source(slice(2)).values()
    for given, lengths in zip(models(thorough), ((1, 2, 4), (3,), (2,)), strict=False):
        model = small(*given).make()
        cache = start(model, model.encoder(src, src_mask), given[1])
        for length in range(1, max(lengths) + 1):
            inputs = {"tgt": text[:, :length], "cache": cache, "src_mask": src_mask}
            if length in lengths:
                yield Case({"model": small(*given), **inputs})
            _, cache = step(model, **inputs)


WEIGHTS = "masked_softmax(scores, None if mask is None else mask.unsqueeze(1))"

PROJECT = Question(
    project,
    {"the keys of project": "", "the values of project": ""},
    project_cases,
    {
        "Keys and values are exchanged. Return the keys first.": (
            "return keys, values -> return values, keys"
        ),
        "reshape alone mixes words and heads. Split the last axis into (num_heads, d_head), then "
        "exchange the axes of positions and heads.": (
            "(batch, length, num_heads, -> (batch, num_heads, length,",
            ".transpose(1, 2) -> ",
        ),
        "The last axis is split into (d_head, num_heads). Split it into (num_heads, d_head): "
        "neighbouring entries belong to one head.": (
            "num_heads, d_model // num_heads) -> d_model // num_heads, num_heads)",
            "transpose(1, 2) -> permute(0, 3, 1, 2)",
        ),
        "x itself is split into heads. Split the projections key_projection(x) and "
        "value_projection(x).": (
            "attention.key_projection(x) -> x",
            "attention.value_projection(x) -> x",
        ),
        "The axes of positions and heads are in the wrong order. Expected (batch, num_heads, "
        "length, d_head).": ".transpose(1, 2) -> ",
    },
    named=True,
    either_precision=True,
)
ATTEND = Question(
    attend,
    {"what attend returns": ""},
    attend_cases,
    {
        "The scores are not divided by √d_head.": " / math.sqrt(d_head) -> ",
        "The scores are divided by √d_model. Divide by √d_head.": (
            "math.sqrt(d_head) -> math.sqrt(num_heads * d_head)"
        ),
        "The scores are divided by d_head. Divide by its square root.": (
            "math.sqrt(d_head) -> d_head"
        ),
        "The queries are not projected. Use query_projection(h).": (
            "attention.query_projection(h) -> h"
        ),
        "The mask is ignored.": "None if mask is None else mask.unsqueeze(1) -> None",
        "The mask is applied to the weights, which then no longer sum to 1. Apply it to the "
        "scores.": (
            f"{WEIGHTS} -> scores.softmax(dim=-1) * (1 if mask is None else mask.unsqueeze(1))"
        ),
        "The weights sum to 1 over the queries. The softmax must run over the keys.": (
            f"{WEIGHTS} -> scores.softmax(dim=2)"
        ),
        "reshape alone mixes words and heads. Exchange their axes first, then join the heads.": (
            "values).transpose(1, 2).flatten(2) -> values).reshape(h.shape)"
        ),
        "The output projection is missing. Apply output_projection last.": (
            "attention.output_projection(context) -> context"
        ),
    },
    named=True,
    either_precision=True,
)
START = Question(
    start,
    {"what start returns": ""},
    start_cases,
    {
        "The memory is projected by self_attention. Use cross_attention.": (
            "layer.cross_attention -> layer.self_attention"
        ),
        "All layers have the keys of the first layer. Each layer has its own projections.": (
            "project(layer. -> project(model.decoder.layers[0]."
        ),
        "All layers have the keys of the last layer. Do they share one dict?": (
            "return cache -> return [cache[-1]] * len(cache)"
        ),
        "memory_keys and memory_values are exchanged.": (
            '"memory_keys": keys, "memory_values": values -> '
            '"memory_keys": values, "memory_values": keys'
        ),
        "keys and values must be empty before the first word: (batch, num_heads, 0, d_head).": (
            '"keys": nothing, "values": nothing -> "keys": keys, "values": values'
        ),
    },
    named=True,
    either_precision=True,
    tidy=checks.flattened,
)

OWN = 'attend(layer.self_attention, h, new["keys"], new["values"])'
MEMORY = 'keys, values = old["memory_keys"], old["memory_values"]'

STEP = Question(
    step,
    {"the scores of step": "", "the cache that step returns": ""},
    step_cases,
    {
        "Every word has position 0. The input embedding counts positions from its first word: give "
        "it all of tgt, then take the last vector.": "input(tgt)[:, -1:] -> input(tgt[:, -1:])",
        "The first word is processed. The new word is the last one of tgt.": (
            "input(tgt)[:, -1:] -> input(tgt)[:, :1]"
        ),
        "All words pass through the layers again and are stored twice. Only the last word is "
        "new.": "input(tgt)[:, -1:] -> input(tgt)",
        "Every layer uses the cache of the first layer. Each layer has its own.": (
            "cache, strict=True -> [cache[0]] * len(cache), strict=True"
        ),
        "The new keys and values are computed from the input of the layer. Compute them from h, "
        "the input of the sub-layer, like the queries.": (
            "new = dict(old) -> new, before = dict(old), y",
            "project(layer.self_attention, h, -> project(layer.self_attention, before,",
        ),
        "The last word attends only to itself. It must attend to the cached words and to itself.": (
            f"{OWN} -> attend(layer.self_attention, h, keys, values)"
        ),
        "The last word does not attend to itself. Append its keys and values first, then "
        "attend.": f'return {OWN} -> seen = old if old["keys"].size(2) else new\n'
        '            return attend(layer.self_attention, h, seen["keys"], seen["values"])',
        "memory_keys and memory_values are exchanged.": (
            f"{MEMORY} -> {MEMORY.replace('keys, values', 'values, keys')}"
        ),
        "src_mask is ignored: the model attends to padding of the source.": (
            "keys, values, src_mask) -> keys, values)"
        ),
        "self_attention is applied to the memory. Use cross_attention.": (
            "layer.cross_attention -> layer.self_attention"
        ),
        "The cross-attention is missing.": (
            "        y = layer.around_cross_attention(y, cross_attend)\n -> "
        ),
        "The feed-forward network is missing.": (
            "        y = layer.around_feed_forward(y, layer.feed_forward)\n -> "
        ),
        "decoder.last_norm is missing after the last layer.": "model.decoder.last_norm(y) -> y",
        "These are probabilities. Return the scores of the output layer.": (
            "return scores, -> return scores.softmax(dim=-1),"
        ),
        "These are log-probabilities. Return the scores of the output layer.": (
            "return scores, -> return scores.log_softmax(dim=-1),"
        ),
        "The new keys are placed before the old ones. The scores stay the same, but the order must "
        "be that of the words: append the new ones.": (
            '[old["keys"], keys] -> [keys, old["keys"]]',
            '[old["values"], values] -> [values, old["values"]]',
        ),
        "The new keys and values are missing in the returned cache.": (
            "after.append(new) -> after.append(old)"
        ),
    },
    named=True,
    either_precision=True,
    tidy=lambda answer: (answer[0], checks.flattened(answer[1])),
)


# Part 3


def select(cache, rows):
    return [{name: each[rows] for name, each in entry.items()} for entry in cache]


def beam_search(model, src, src_mask, num_heads, beam_size, max_len, alpha):
    cache = start(model, model.encoder(src, src_mask), num_heads)
    going, found = [([START_ID], 0.0)], []
    for length in range(1, max_len + 1):
        tgt = torch.tensor([words for words, _ in going])
        scores, cache = step(model, tgt, cache, src_mask.expand(len(going), -1, -1))
        penalty = length**alpha
        extensions = []
        for row, values in enumerate(scores.log_softmax(dim=-1).tolist()):
            words, total = going[row]
            extensions += [([*words, word], total + each, row) for word, each in enumerate(values)]
        extensions.sort(key=lambda each: each[1], reverse=True)
        for words, total, _ in extensions[:beam_size]:
            if words[-1] == END_ID:
                found.append((words[1:-1], total / penalty))
        found = sorted(found, key=lambda pair: pair[1], reverse=True)[:beam_size]
        kept = [each for each in extensions if each[0][-1] != END_ID][:beam_size]
        if not kept:
            break
        best = kept[0][1] / penalty
        if len(found) == beam_size and best <= found[-1][1]:
            break
        rows = [row for _, _, row in kept]
        cache = select(cache, torch.tensor(rows))
        going = [(words, total) for words, total, _ in kept]
    return found


def random_cache(num_layers: int, heads: int, batch: int, d_head: int = 2) -> checks.Cache:
    """Return a cache of 2 words and a source of 5."""
    return [
        {n: torch.randn(batch, heads, 5 if "memory" in n else 2, d_head) for n in checks.NAMES}
        for _ in range(num_layers)
    ]


def select_cases(thorough: bool) -> Iterator[Case]:
    further = [(3, 1, [2, 2, 1, 0])] * thorough
    for num_layers, heads, rows in [(2, 3, [2, 0, 0]), (1, 2, [1, 2]), *further]:
        yield Case({"cache": random_cache(num_layers, heads, 3), "rows": torch.tensor(rows)})


def beam_cases(thorough: bool) -> Iterator[Case]:
    searches = [
        ((6, 3, 1, "post", 19), 4, 4, 2.0),
        ((4, 1, 1, "post", 44), 3, 5, 0.7),
        ((6, 2, 1, "pre", 31), 2, 4, 1.0),
        ((4, 2, 1, "pre", 1), 1, 3, 1.0),
    ]
    searches += [((6, 2, 2, "pre", 3), 3, 4, 0.0)] * thorough
    names = ("num_heads", "beam_size", "max_len", "alpha")
    padded = {name: F.pad(each, (0, 2)) for name, each in source(slice(1, 2)).items()}
    for given, *how in searches:
        inputs = {"model": small(*given), **padded}
        yield Case(inputs | dict(zip(names, (given[1], *how), strict=True)))
    how = checks.translator().num_heads, 4, 30, 0.0
    yield Case(trained(SENTENCES[:1]) | dict(zip(names, how, strict=True)))


SELECT = Question(
    select,
    {"what select returns": ""},
    select_cases,
    {
        "The keys and values of the memory are not selected. They have one row per text too.": (
            'each[rows] -> each if "memory" in name else each[rows]'
        ),
        "Rows are selected in the first layer only. Select them in every layer.": (
            "for entry in cache] -> for entry in cache[:1]] + cache[1:]"
        ),
        "Heads are selected. Rows are the first axis.": "each[rows] -> each[:, rows]",
        "A row may be selected twice, because two texts can continue one hypothesis. Keep the "
        "order of `rows`.": "each[rows] -> each[rows.unique()]",
        "The direction is wrong: row i of the new cache is row rows[i] of the old one.": (
            "each[rows] -> each[rows.argsort()]"
        ),
    },
    named=True,
    either_precision=True,
    tidy=checks.flattened,
)

PENALTY = "penalty = length**alpha"
ROWS = "[row for _, _, row in kept]"
STOP = "if len(found) == beam_size and best <= found[-1][1]"

BEAM_SEARCH = Question(
    beam_search,
    {"the hypotheses": "A list of pairs (words, score), the best first."},
    beam_cases,
    {
        "END is among the returned tokens. It marks the end of the sentence and is not "
        "returned.": "words[1:-1] -> words[1:]",
        "START is in the output. The decoder reads it, but it is not returned.": (
            "words[1:-1] -> words[:-1]"
        ),
        "The length is not used. The score is the log-probability divided by length ** alpha.": (
            "total / penalty)) -> total))"
        ),
        "Finished hypotheses are ranked by log-probability. Rank them by score, and keep those "
        "with the best scores.": (
            "total / penalty)) -> total / penalty, total))",
            "lambda pair: pair[1] -> lambda pair: pair[2]",
            "return found -> return [each[:2] for each in found]",
        ),
        "END is not counted in the length. It is a token, and its log-probability is part of the "
        "sum.": f"{PENALTY} -> penalty = max(1, length - 1) ** alpha",
        "The log-probability is multiplied by length ** alpha. Because it is negative, this makes "
        "long hypotheses worse instead of better: divide.": (
            f"{PENALTY} -> penalty = length**-alpha"
        ),
        "The length is multiplied by alpha. Alpha is an exponent: length ** alpha.": (
            f"{PENALTY} -> penalty = length * alpha or 1.0"
        ),
        "The length is too large by 1. END is counted, START is not.": (
            f"{PENALTY} -> penalty = (length + 1) ** alpha"
        ),
        "This is the length penalty of GNMT. Here, the score is the log-probability / length ** "
        "alpha.": f"{PENALTY} -> penalty = ((5 + length) / 6) ** alpha",
        "A partial hypothesis is extended with its score. Keep its log-probability, and divide "
        "only to compare.": "[(words, total) for -> [(words, total / penalty) for",
        "The worst hypothesis is first. Return the best one first.": (
            "return found -> return found[::-1]"
        ),
        "An extension has only the log-probability of its last token. Add that of the partial "
        "hypothesis.": "total + each -> each",
        "Each partial hypothesis is extended by its most probable token only. Extend it by every "
        "token, then compare all extensions.": (
            "in enumerate(values)] -> in [(values.index(max(values)), max(values))]]"
        ),
        "The cache does not follow the hypotheses. After each step, row i must continue the "
        "hypothesis that it extends: select this row in every layer.": [
            f"{ROWS} -> [min(i, len(going) - 1) for i in range(len(kept))]",
            f"{ROWS} -> [0 for _ in kept]",
            f"{ROWS} -> [len(going) - 1 for _ in kept]",
            f"{ROWS} -> [row for _, _, row in extensions[: len(kept)]]",
        ],
        "An extension that ends is kept although it is not among the beam_size most probable "
        "extensions (rule 3).": "in extensions[:beam_size] -> in extensions",
        "A finished hypothesis takes the place of a partial one, so the beam becomes smaller. Rule "
        "4: the beam_size most probable extensions that do not end are kept.": (
            "for each in extensions if -> for each in extensions[:beam_size] if"
        ),
        "More than beam_size finished hypotheses are kept. Keep the beam_size with the best "
        "scores.": (
            "reverse=True)[:beam_size] -> reverse=True)",
            f"{STOP} -> if len(found) >= beam_size and best <= found[beam_size - 1][1]",
        ),
        "The search stops too early. Rule 5: it continues until beam_size hypotheses are kept and "
        "the most probable partial hypothesis, divided by its present length ** alpha, is not "
        "better than the worst of them.": [
            f"{STOP} -> if len(found) == beam_size",
            f"{STOP} -> if found",
            "found[-1][1] -> found[0][1]",
            "best = kept[0] -> best = kept[-1]",
            "kept[0][1] / penalty -> kept[0][1]",
        ],
        "The search stops too late. Rule 5: once beam_size hypotheses are kept and the most "
        "probable partial hypothesis, scored at its present length, is better than none of them, "
        "it stops.": [
            f"{STOP} -> if False",
            "kept[0][1] / penalty -> kept[0][1] / (length + 1) ** alpha",
            "kept[0][1] / penalty -> kept[0][1] / max_len**alpha",
        ],
        "src_mask is ignored: the model attends to padding of the source.": [
            "model.encoder(src, src_mask) -> model.encoder(src, torch.ones_like(src_mask))",
            "src_mask.expand( -> torch.ones_like(src_mask).expand(",
        ],
        "Hypotheses without END are returned. Return finished ones only.": (
            "return found -> "
            "return (found + [(words[1:], total / penalty) for words, total in going])[:beam_size]"
        ),
        "There is one step too many: max_len counts every token, END included.": (
            "max_len + 1 -> max_len + 2"
        ),
        "The search stops one step early: END may be token number max_len.": (
            "max_len + 1 -> max_len"
        ),
        "These are sums of scores. Add log-probabilities: log_softmax.": (
            "scores.log_softmax(dim=-1) -> scores"
        ),
        "These are sums of probabilities. Add their logarithms.": "log_softmax -> softmax",
    },
)


# Part 4


def cache_entries(num_layers, d_model, src_len, words, rows):
    return 2 * num_layers * d_model * (src_len + words) * rows


def multiplications(words, src_len, d_model, d_ff, num_layers):
    def layer(new, keys):
        projections = 6 * new * d_model * d_model
        attention = 2 * new * keys * d_model + 2 * new * src_len * d_model
        network = 2 * new * d_model * d_ff
        return projections + attention + network

    memory = 2 * src_len * d_model * d_model
    steps = range(1, words + 1)
    recomputed = sum(layer(n, n) + memory for n in steps)
    cached = memory + sum(layer(1, n) for n in steps)
    return {"recomputed": num_layers * recomputed, "cached": num_layers * cached}


def length_for_ratio(times, src_len, d_model, d_ff):
    words = 1
    while True:
        found = multiplications(words, src_len, d_model, d_ff, 1)
        if found["recomputed"] >= times * found["cached"]:
            return words
        words += 1


def entries_cases(thorough: bool) -> Iterator[Case]:
    further = [(3, 8, 11, 1, 13)] * thorough
    names = ("num_layers", "d_model", "src_len", "words", "rows")
    yield from cases_of(names, [(1, 4, 5, 3, 1), (3, 6, 5, 7, 5), (6, 512, 40, 60, 4), *further])


def multiplications_cases(thorough: bool) -> Iterator[Case]:
    further = [(40, 25, 64, 256, 2)] * thorough
    names = ("words", "src_len", "d_model", "d_ff", "num_layers")
    yield from cases_of(names, [(1, 3, 5, 7, 1), (3, 2, 4, 6, 2), (11, 7, 6, 13, 3), *further])


def length_cases(thorough: bool) -> Iterator[Case]:
    further = [(700, 30, 16, 8)] * thorough  # a length above 1000
    for times, *given in [(1, 3, 4, 5), (3, 7, 8, 16), (10, 20, 64, 256), *further]:
        right = length_for_ratio(times, *given)
        made = {words: multiplications(words, *given, 1) for words in (right - 1, right) if words}
        said = "This is not the expected value. " + " ".join(
            f"For {words} words: {each['recomputed']:,} recomputed, {each['cached']:,} cached."
            for words, each in made.items()
        )
        inputs = dict(zip(("src_len", "d_model", "d_ff"), given, strict=True))
        yield Case({"times": times, **inputs}, general=said)


ENTRIES = Question(
    cache_entries,
    {"what cache_entries returns": ""},
    entries_cases,
    {
        "Only the keys or only the values are counted. The cache stores both.": (
            "2 * num_layers -> num_layers"
        ),
        "The result is twice too large. The keys of all heads together have d_model entries per "
        "position.": "2 * num_layers -> 4 * num_layers",
        "The keys and values of the memory are missing.": "(src_len + words) -> words",
        "The memory is counted once. Each row has its own copy of its keys and values.": (
            "words) * rows -> words * rows)"
        ),
        "The keys and values of the target words are missing.": "(src_len + words) -> src_len",
        "`rows` is ignored. Each row has a cache of its own.": " * rows -> ",
        "`num_layers` is ignored. Each layer has a cache of its own.": "2 * num_layers -> 2",
        "One target position too many: `words` already includes START.": (
            "+ words) -> + words + 1)"
        ),
        "One target position too few: START is stored as well, and `words` includes it.": (
            "+ words) -> + words - 1)"
        ),
    },
    named=True,
)

OWN_LOOKS, LOOKS = "2 * new * keys * d_model", "2 * new * src_len * d_model"

MULTIPLICATIONS = Question(
    multiplications,
    {"what multiplications returns": ""},
    multiplications_cases,
    {
        '"recomputed" and "cached" are exchanged.': (
            '{"recomputed": -> {"cached":',
            ', "cached": -> , "recomputed":',
        ),
        "This is the result for one layer; there are num_layers.": (
            "num_layers * recomputed -> recomputed",
            "num_layers * cached -> cached",
        ),
        "The numbers of words are off by one: the first step reads one word, START, and the last "
        "step reads `words`.": "range(1, words + 1) -> range(words)",
        "Only the last step is counted. Add up all steps.": "range(1, words + 1) -> (words,)",
        "The output projection is missing. An attention has four projections: of queries, keys, "
        "values and output.": "6 * new -> 4 * new",
        "Besides the projections, an attention computes two products: queries times keys, and "
        "weights times values. One of them is missing.": (
            f"{OWN_LOOKS} + {LOOKS} -> {OWN_LOOKS[4:]} + {LOOKS[4:]}"
        ),
        "The products of queries with keys and of weights with values are missing.": (
            "projections + attention -> projections"
        ),
        "Without a cache, masked scores are computed as well: all of (n, n).": (
            f"{OWN_LOOKS} -> (2 * keys if new == 1 else new * (new + 1)) * d_model"
        ),
        "The cross-attention is missing.": (
            "6 * new -> 4 * new",
            f" + {LOOKS} -> ",
            "memory = 2 * -> memory = 0 *",
        ),
        "The feed-forward network has two layers; only one is counted.": (
            "network = 2 * new -> network = new"
        ),
        "The feed-forward network is missing.": " + network -> ",
        "Without a cache, the keys and values of the memory are computed again in every step.": (
            "sum(layer(n, n) + memory for -> memory + sum(layer(n, n) for"
        ),
        "With a cache, the keys and values of the memory are computed once, before the first "
        "step.": "memory + sum(layer(1, n) for -> sum(memory + layer(1, n) for",
        "With a cache, the keys and values of the memory must be computed once as well.": (
            "cached = memory + -> cached ="
        ),
        "With a cache, the new word still attends to all words so far.": (
            "layer(1, n) -> layer(1, 1)"
        ),
    },
    named=True,
)
FOUND = "multiplications(words, src_len, d_model, d_ff, 1)"
LENGTH = Question(
    length_for_ratio,
    {"what length_for_ratio returns": ""},
    length_cases,
    {
        "Single steps are compared. Compare the totals of all steps up to this length.": (
            f"{FOUND} -> {{name: total - (words > 1) * {FOUND.replace('words', 'words - 1')}[name] "
            f"for name, total in {FOUND}.items()}}"
        ),
        "A ratio of exactly `times` is sufficient. For one word, it is 1.": [
            ">= times -> > times",
            "words = 1 -> words = 2",
        ],
        "This is the last length with a smaller ratio; return the next one.": [
            "return words -> return words - 1",
            "return words -> return max(1, words - 1)",
        ],
    },
    named=True,
)


# Part 5


def patch_cache(cache, donor, layer, head, places):
    new = [dict(entry) for entry in cache]
    for name in ("memory_keys", "memory_values"):
        new[layer][name] = cache[layer][name].clone()
        new[layer][name][:, head, places] = donor[layer][name][:, head, places]
    return new


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
    found = {"damaging": damaging, "sufficient": sufficient, "necessary": necessary}
    return {**found, "conclusion": conclusion}


def patch_cases(thorough: bool) -> Iterator[Case]:
    sites = [(0, 1, [1]), (1, 0, [0, 4]), (1, 1, [])]
    for layer, head, places in sites + [(2, 2, [1, 2, 3])] * thorough:
        caches = {"cache": random_cache(3, 3, 2), "donor": random_cache(3, 3, 2)}
        yield Case({**caches, "layer": layer, "head": head, "places": places})


def causes_cases(thorough: bool) -> Iterator[Case]:
    sites = [(layer, head) for layer in range(2) for head in range(3)]
    # What decides, what does damage, what flips half of the answers, and the shares
    mechanisms = [
        ("(1, 2) alone determines the answer", [[(1, 2)]]),
        (
            "either of (0, 0) and (1, 1) determines the answer, (1, 2) flips half of the answers",
            [[(0, 0)], [(1, 1)]], [], [(1, 2)],
        ),
        (
            "(0, 1) determines the answer, (1, 0) alone flips half of them, (0, 0) does damage",
            [[(0, 1)]], [(0, 0)], [(1, 0)],
        ),
        (
            "(0, 2) and (1, 0) together determine the answer, each alone flips half of the answers",
            [[(0, 2), (1, 0)]], [], [(0, 2), (1, 0)],
        ),
        ("no head determines the answer; (0, 2) and (1, 1) do damage", [], [(0, 2), (1, 1)]),
        (
            "(0, 2) determines the answer, with the shares 0.9 and 0.1",
            [[(0, 2)]], [], [], [], 0.9, 0.1,
        ),
        (
            "(1, 0) together with (1, 2) or (0, 0) determines the answer",
            [[(1, 0), (1, 2)], [(1, 0), (0, 0)]],
        ),
        (
            "(0, 0) alone determines the answer; several heads flip none without (1, 1)",
            [[(0, 0)]], [], [], [(1, 1)],
        ),
        (
            "(0, 0) alone determines the answer, (0, 2) flips half of the answers; several heads "
            "flip none without (1, 1)",
            [[(0, 0)]], [], [(0, 2)], [(1, 1)],
        ),
        (
            "(0, 0) or (0, 1) determines the answer; several heads flip none without (1, 1)",
            [[(0, 0)], [(0, 1)]], [], [], [(1, 1)],
        ),
    ]  # fmt: skip
    if thorough:
        mechanisms += [
            (
                "(0, 0), or (1, 0) and (1, 1) together; (0, 1) and (1, 2) do damage",
                [[(0, 0)], [(1, 0), (1, 1)]], [(0, 1), (1, 2)],
            ),
            (
                "(0, 1), (0, 2) and (1, 2) together determine the answer",
                [[(0, 1), (0, 2), (1, 2)]],
            ),
        ]  # fmt: skip
    names = ("says", "decide", "damaging", "partly", "needed", "high", "low")
    for given in mechanisms:
        flips = Fresh(checks.Flips, dict(zip(names, given, strict=False)))
        yield Case({"flips": flips, "heads": sites})


PATCHED = '("memory_keys", "memory_values")'
MOVE = "new[layer][name][:, head, places] = donor[layer][name][:, head, places]"

PATCH = Question(
    patch_cache,
    {"what patch_cache returns": ""},
    patch_cases,
    {
        "Only the keys are replaced. Replace the values as well.": f'{PATCHED} -> ("memory_keys",)',
        "Only the values are replaced. Replace the keys as well.": (
            f'{PATCHED} -> ("memory_values",)'
        ),
        "The keys and values of the target words are replaced. Replace memory_keys and "
        "memory_values.": f'{PATCHED} -> ("keys", "values")',
        "The entries are replaced in every layer. Replace them in layer `layer` only.": (
            f"for name in {PATCHED} -> "
            f"for layer, name in itertools.product(range(len(cache)), {PATCHED})"
        ),
        "The entries are replaced in every head. Replace them in head `head` only.": (
            f"{MOVE} -> {MOVE.replace('head', ':')}"
        ),
        "The entries are replaced at every position. Replace them at `places` only.": (
            f"{MOVE} -> {MOVE.replace(', places', '')}"
        ),
        "The donor is returned with entries of the cache. Return the cache with entries of the "
        "donor.": "new = [ -> cache, donor = donor, cache\n    new = [",
        "Rows of the batch are replaced. The heads are the second axis.": (
            f"{MOVE} -> {MOVE.replace(':, head, places', 'head')}"
        ),
    },
    named=True,
    either_precision=True,
    tidy=checks.flattened,
)

SOUND = "sound = [head for head in heads if head not in damaging]"
OTHERS = 'flips(others, "partner")'
ONE_HEAD = "if len(sufficient) == 1 and necessary == sufficient"

CAUSES = Question(
    causes,
    {"what causes returns": ""},
    causes_cases,
    {
        "A head that flips more than 0.1 with the control donor does damage, and its effect with "
        "the partner shows nothing. `damaging` lacks such a head.": (
            f"{SOUND} -> sound, damaging = heads, []"
        ),
        'Damage must be measured with the donor "control", with which no answer should flip. With '
        '"partner", a sound head may flip all answers.': '"control") > -> "partner") >',
        "Damaging heads are patched together with the others. Set them aside first; they are used "
        "in nothing that follows.": "other in sound if -> other in heads if",
        "A damaging head must be left out of everything that follows, also of `sufficient` and "
        "`necessary`.": f"{SOUND} -> sound = heads",
        "A share of one half is too low: a head is sufficient from 0.9 on.": ">= 0.9 -> >= 0.5",
        "The limits are not included as stated: at least 0.9, at most 0.1; damage is more than "
        "0.1.": ('"control") > -> "control") >=', ">= 0.9 -> > 0.9", "<= 0.1 -> < 0.1"),
        "A head is necessary if all others flip at most 0.1; here the limit is 0.9.": (
            "<= 0.1 -> < 0.9"
        ),
        "`necessary` contains only heads of `sufficient`. Test every sound head: patch all sound "
        "heads except this one, and see whether the answers stay.": [
            ("for head in sound: -> for head in sufficient:", f"{OTHERS} <= -> 0 <="),
            "for head in sound: -> for head in sufficient:",
        ],
        "`necessary` contains heads that flip answers alone. A head is necessary if all others "
        "together flip at most 0.1.": f'{OTHERS} <= -> flips([head], "partner") >',
        "`sufficient` and `necessary` are exchanged.": (
            '"sufficient": sufficient, "necessary": necessary -> '
            '"sufficient": necessary, "necessary": sufficient'
        ),
        "Every sound head is returned as necessary. Are the others patched from "
        '"partner", and is only one head left out?': f'{OTHERS} -> flips(others, "control")',
        'One sufficient head is not enough for the conclusion "one head": it must also be the only '
        'necessary head. Otherwise, the conclusion is "unclear".': [
            f"{ONE_HEAD} -> if len(sufficient) == 1",
            f"{ONE_HEAD} -> if len(sufficient) == 1 and sufficient[0] in necessary",
            f"{ONE_HEAD} -> if len(sufficient) == len(necessary) == 1",
        ],
        'Where none of the three conclusions holds, the conclusion is "unclear".': [
            '"unclear" -> "one head" if len(sufficient) == 1 else "several together"',
            "len(sufficient) >= 2 and not necessary -> len(sufficient) >= 2",
            "not sufficient and len(necessary) >= 2 -> len(necessary) >= 2",
        ],
    },
    named=True,
)


PARTS = {
    "greedy": [GREEDY],
    "cache": [PROJECT, ATTEND, START, STEP],
    "beam": [SELECT, BEAM_SEARCH],
    "costs": [ENTRIES, MULTIPLICATIONS, LENGTH],
    "causes": [PATCH, CAUSES],
}
"""The questions of each check, in the order of its arguments."""
