"""Encoder and decoder as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Part 6 is
examined by code in `attentively.checks.encoder_and_decoder`.
"""

import math  # noqa: F401  for the edits
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from attentively.checks import encoder_and_decoder as checks
from attentively.checks.compare import Fresh
from attentively.checks.edits import Answer, edited, source_of
from attentively.checks.question import Case, Question, cases_of
from attentively.vocabulary import END_ID, PAD_ID, START_ID

ONE = torch.tensor([[2, 4, 5, 6, 7, 3]])
TWO = torch.tensor([[2, 4, 5, 6, 7, 3], [2, 8, 9, 3, 0, 0]])
TRAINED = Fresh(checks.translator, text="the trained model")


def small(seed: int = 1) -> Fresh:
    return Fresh(checks.small_model, {"seed": seed}, "a small untrained model")


# Part 1


def make_targets(sentences, start_id, end_id, pad_id):
    longest = max(len(ids) for ids in sentences)
    rows = []
    for ids in sentences:
        padding = [pad_id] * (longest - len(ids))
        rows.append([start_id, *ids, end_id, *padding])
    return torch.tensor(rows)


def target_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        ([[5, 6]], START_ID, END_ID, PAD_ID),
        ([[5, 6, 7], [8]], START_ID, END_ID, PAD_ID),
        ([[5], [6, 7, 8], []], 1, 2, 9),
    ]
    if thorough:
        asked += [([[3] * n for n in (2, 7, 11, 1, 5)], 0, 2, 1), ([[]], 7, 5, 3)]
    return cases_of(("sentences", "start_id", "end_id", "pad_id"), asked)


ROW = "[start_id, *ids, end_id, *padding]"
ID_NAMES = "Use the arguments start_id, end_id and pad_id: other vocabularies have other ids."

MAKE_TARGETS = Question(
    make_targets,
    {"the targets": ""},
    target_cases,
    {
        "The start token is missing. Without it there is no input for the first word.": (
            f"{ROW} -> [*ids, end_id, *padding]"
        ),
        "The end token is missing. Without it the decoder would not learn to end its output.": [
            f"{ROW} -> [start_id, *ids, *padding]",
            f"{ROW} -> [start_id, *ids, pad_id, *padding]",
        ],
        "Start token and end token are missing: the rows contain only words and padding.": (
            f"{ROW} -> [*ids, *padding]"
        ),
        "The end token is after the padding. It must follow the last word directly.": (
            f"{ROW} -> [start_id, *ids, *padding, end_id]"
        ),
        "The padding is on the left of the sentence. It must be on the right.": [
            f"{ROW} -> [*padding, start_id, *ids, end_id]",
            f"{ROW} -> [start_id, *padding, *ids, end_id]",
        ],
        "Rows are padded with the end token. Pad them with pad_id, which the loss leaves out.": (
            "[pad_id] * -> [end_id] *"
        ),
        "Sentences are cut to the length of the shortest one. Pad all rows to the longest one.": (
            "longest = max(len(ids) for -> longest = min(len(ids) for",
            f"{ROW} -> [start_id, *ids[:longest], end_id]",
        ),
        "Start token and end token are exchanged.": f"{ROW} -> [end_id, *ids, start_id, *padding]",
        f"These are the ids of the package's vocabulary. {ID_NAMES}": [
            ("[pad_id] * -> [PAD_ID] *", f"{ROW} -> [START_ID, *ids, END_ID, *padding]"),
            f"{ROW} -> [START_ID, *ids, END_ID, *padding]",
        ],
        f"Rows are padded with 0. {ID_NAMES}": "[pad_id] * -> [0] *",
        "Rows and columns are exchanged. Each sentence is a row; with pad_sequence, use "
        "batch_first=True.": "torch.tensor(rows) -> torch.tensor(rows).T",
        "A sentence without words is left out. Its row has the start token, the end token and "
        "padding.": "for ids in sentences: -> for ids in filter(None, sentences):",
    },
    named=True,
    tidy=torch.Tensor.tolist,
)


def shift_right(tgt):
    inputs, labels = tgt[:, :-1], tgt[:, 1:]
    return inputs, labels


def shift_cases(thorough: bool) -> Iterator[Case]:
    batches = [
        torch.tensor([[START_ID, 5, 6, END_ID]]),
        torch.tensor([[START_ID, 5, 6, 7, END_ID], [START_ID, 8, END_ID, PAD_ID, PAD_ID]]),
    ]
    if thorough:
        lengths = [(7, 3, 2, 11, 5), (1,), (0, 3)]
        batches += [checks.random_batch((1,), each).tgt for each in lengths]
    return cases_of(("tgt",), ([tgt] for tgt in batches))


PAIR = "return inputs, labels"

SHIFT_RIGHT = Question(
    shift_right,
    {"the inputs and the labels": ""},
    shift_cases,
    {
        "inputs and labels are exchanged, so that the target is shifted left: each input is the "
        "token that has to be predicted.": f"{PAIR} -> return labels, inputs",
        "the labels equal the inputs, so the decoder would learn to copy its input. The label is "
        "the token one position later.": f"{PAIR} -> return inputs, inputs",
        "the target is not shifted: the start token is a label, and each label is its own input.": (
            f"{PAIR} -> return tgt, tgt"
        ),
        "the inputs have one column too many. Nothing has to be predicted after the end token of "
        "the longest sentence, so this end token is not an input.": f"{PAIR} -> return tgt, labels",
        "the start token is a label. It is never predicted, so the labels begin with the first "
        "word and are one column shorter than the targets.": f"{PAIR} -> return inputs, tgt",
        "the inputs equal the labels, which the decoder has to predict. The inputs begin with the "
        "start token.": f"{PAIR} -> return labels, labels",
        "the labels lack the last column, and with it the end token of the longest sentence. The "
        "decoder must learn to predict it.": f"{PAIR} -> return inputs, labels[:, :-1]",
        "torch.roll moves the tokens that leave on one side to the other side. Remove a column "
        "instead.": [
            f"{PAIR} -> return tgt, tgt.roll(-1, dims=1)",
            f"{PAIR} -> return tgt.roll(1, dims=1), tgt",
        ],
        "a second start token is added. tgt begins with one already: the inputs are tgt without "
        "its last column, and the labels are tgt without its first column.": (
            f"{PAIR} -> return torch.cat([tgt[:, :1], inputs], dim=1), tgt"
        ),
        "a sentence is removed instead of a column. The first axis is the batch, so use tgt[:, "
        "1:].": "tgt[:, :-1], tgt[:, 1:] -> tgt[:-1], tgt[1:]",
        "the columns are shifted by two positions, not by one.": (
            "tgt[:, :-1], tgt[:, 1:] -> tgt[:, :-2], tgt[:, 2:]"
        ),
    },
    named=True,
    tidy=lambda pair: {"inputs": pair[0].tolist(), "labels": pair[1].tolist()},
)


# Part 2


def teacher_forced_loss(model, src, tgt):
    memory = model.encode(src)
    inputs, labels = tgt[:, :-1], tgt[:, 1:]
    logits = model.decode(inputs, memory).logits
    scores = logits.transpose(1, 2)
    losses = F.cross_entropy(scores, labels, reduction="none")
    real = labels != PAD_ID
    loss = losses[real].sum() / real.sum()
    return loss


def logits_of_own_words(model, src, steps):
    """Return the logits of a decoder that reads its own outputs."""
    state, token, columns = model.start(model.encode(src)), torch.full((len(src),), START_ID), []
    for _ in range(steps):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=-1)
        columns.append(logits)
    return torch.stack(columns, dim=1)


def loss_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (small(), *checks.random_batch((2,), (2,))),
        (small(), *checks.random_batch((3, 3), (4, 1))),
        (small(), *checks.random_batch((5, 2), (3, 3))),
    ]
    if thorough:
        asked.append((small(2), *checks.random_batch((7, 1, 3, 2, 5), (3, 5, 2, 1, 7), seed=3)))
    improbable = {"tgt": ONE, "surprises": [[1.0, 110.0, 4.0, 8.0, 3.0]]}
    asked.append((Fresh(checks.PlantedLossModel, improbable), torch.tensor([[11, END_ID]]), ONE))
    asked.append((TRAINED, *checks.sentences(3, 2)))
    return cases_of(("model", "src", "tgt"), asked)


COLUMNS = "tgt[:, :-1], tgt[:, 1:]"
LOGITS = "model.decode(inputs, memory).logits"
LOSSES = 'F.cross_entropy(scores, labels, reduction="none")'
PROBABILITIES = "scores.softmax(dim=1).gather(1, labels.unsqueeze(1))[:, 0]"
LOSS = "losses[real].sum() / real.sum()"
REAL = "real = labels != PAD_ID"
LAST_COLUMN = (
    "last column of the labels is left out, and with it the <end> of the longest sentence. The "
    "labels are tgt without its first column only."
)
READ_ALL = "model.encode(src) -> model.encode(src, torch.ones_like(model.source_mask(src)))"

TEACHER_FORCED_LOSS = Question(
    teacher_forced_loss,
    {"the loss": "Expected one number: the mean over all labels of the batch, without padding."},
    loss_cases,
    {
        "The logits are compared with the inputs instead of the labels. This loss is small for a "
        "decoder that copies its input.": f"{COLUMNS} -> tgt[:, :-1], tgt[:, :-1]",
        "Inputs and labels are the same columns: <start> is a label, and every label is its own "
        "input. Shift them by one position.": f"{COLUMNS} -> tgt, tgt",
        "The inputs are the labels: at each step the decoder reads the token that it has to "
        "predict, and would learn to copy it.": f"{COLUMNS} -> tgt[:, 1:], tgt[:, 1:]",
        "Inputs and labels are exchanged.": f"{COLUMNS} -> tgt[:, 1:], tgt[:, :-1]",
        "Padding is included in the loss. Leave out the positions where the label is padding.": (
            f"{LOSS} -> losses.mean()"
        ),
        "The positions are selected by the inputs, so a label that is padding is included where "
        "the input is <end>. Leave out the positions where the label is padding.": (
            f"{REAL} -> real = inputs != PAD_ID"
        ),
        "Padding is left out of the sum, but the sum is divided by the number of all positions, "
        "padding included. Divide it by the number of labels without padding.": (
            f"{LOSS} -> losses[real].sum() / real.numel()"
        ),
        "The sum is divided by the number of entries of tgt, with <start> and padding. Divide it "
        "by the number of labels without padding.": f"{LOSS} -> losses[real].sum() / tgt.numel()",
        "The sum is divided by the number of tokens of tgt, <start> included. Divide it by the "
        "number of labels without padding.": (
            f"{LOSS} -> losses[real].sum() / (tgt != PAD_ID).sum()"
        ),
        "This is the mean of the means of the sentences, in which a label of a short sentence has "
        "a larger weight. Sum over the whole batch, then divide once.": (
            f"{LOSS} -> ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()"
        ),
        "This is the mean of the means of the positions. Sum over the whole batch, then divide "
        "once.": f"{LOSS} -> ((losses * real).sum(dim=0) / real.sum(dim=0)).mean()",
        "This is a sum, or a sum divided by the number of sentences. Divide it by the number of "
        "labels without padding.": [
            f"{LOSS} -> losses[real].sum()",
            f"{LOSS} -> losses[real].sum() / len(src)",
        ],
        "The label <end> is left out. Without it the decoder would not learn to end its output.": (
            f"{REAL} -> real = (labels != PAD_ID) & (labels != END_ID)"
        ),
        f"The {LAST_COLUMN}": f"{REAL} -> {REAL}\n    real[:, -1] = False",
        "With this mask the encoder reads padding of the source like words. model.encode(src) uses "
        "the correct mask.": READ_ALL,
        "The softmax is applied twice: cross_entropy expects logits, not probabilities.": (
            "scores = logits. -> scores = logits.softmax(dim=-1)."
        ),
        "The softmax is taken over the positions. It must be taken over the vocabulary, the last "
        "axis of the logits.": (
            f"{LOSSES} -> -scores.log_softmax(dim=2).gather(1, labels.unsqueeze(1))[:, 0]"
        ),
        "The logits are used as log-probabilities: F.nll_loss needs the result of log_softmax.": (
            f"{LOSSES} -> -scores.gather(1, labels.unsqueeze(1))[:, 0]"
        ),
        "reshape mixes the logits of different positions, because it does not exchange axes. "
        "logits.transpose(1, 2) has the shape (batch, vocab, length).": (
            "transpose(1, 2) -> reshape(len(src), -1, labels.size(1))"
        ),
        "The logits are shifted a second time. The logits at a position already belong to the next "
        "token: the first ones predict the first word.": (
            f"{LOGITS} -> model.decode(tgt, memory).logits[:, 1:]"
        ),
        "The decoder reads its own outputs. With teacher forcing it reads the reference tokens, in "
        "one call of decode.": f"{LOGITS} -> logits_of_own_words(model, src, labels.size(1))",
        "Probabilities are computed before their logarithms, so that of an improbable label is "
        "rounded to 0 or limited from below. Use F.cross_entropy or log_softmax.": [
            f"{LOSSES} -> -({PROBABILITIES} + {least}).log()"
            for least in ("0", "1e-6", "1e-8", "1e-9", "1e-10", "1e-12")
        ],
        "This is minus the mean of the probabilities. The loss is the mean of -log p.": (
            f"{LOSS} -> -(-losses[real]).exp().mean()"
        ),
        "This is the perplexity, which is e to the power of the loss.": (
            "return loss -> return loss.exp()"
        ),
        "The sign is wrong: log p is negative, and the loss is minus its mean.": (
            "return loss -> return -loss"
        ),
        "The loss is in bits (log2). Compute it in nats, with the natural logarithm.": (
            "return loss -> return loss / math.log(2)"
        ),
    },
    either_precision=True,
)


# Part 3


def write(model, src, max_len):
    state = model.start(model.encode(src))
    token = torch.full((len(src),), START_ID)
    texts = [[] for _ in src]
    ended = [False] * len(src)
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=-1)
        for row, index in enumerate(token.tolist()):
            ended[row] = ended[row] or index == END_ID
            if not ended[row]:
                texts[row].append(index)
        if all(ended):
            break
    return texts


TEXTS = [[5, 6], [7], [5, 7, 6, 12], [], [8, 8, 5, 5, 8, 5]]


def write_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        ([0], 5),
        ([0], 3),
        ([4], 3),
        ([0, 2], 7),
        ([1, 2, 3], 8),
        ([2, 0, 4, 1], 5),
        ([0, 1], 50),
    ]
    if thorough:
        asked += [([4, 3, 2, 1, 0], 7), ([3], 1)]
    for which, max_len in asked:
        model = Fresh(checks.ScriptedModel, {"texts": [TEXTS[each] for each in which]})
        src = torch.tensor([[11 + row, END_ID] for row in range(len(which))])
        yield Case({"model": model, "src": src, "max_len": max_len})
    src = checks.sentences(12, 1)[0][[8, 11]]  # whoever reads the padding outputs other words
    yield Case({"model": TRAINED, "src": src, "max_len": 60})


LISTS = "[[] for _ in src]"
UNTIL_THE_END = "if not ended[row]:"
STOP = "if all(ended):"
STEPS = "range(max_len)"
START_KEPT = f"{LISTS} -> [[START_ID] for _ in src]"
END_KEPT = f"{UNTIL_THE_END} -> if END_ID not in texts[row]:"
FIRST_END = f"{STOP} -> if any(ended):"
GOES_ON = f"{STOP} -> if False:"

WRITE = Question(
    write,
    {"the outputs": "Expected one list of ids per sentence, without <start> and <end>."},
    write_cases,
    {
        "<start> is included in the output. It is the first input, and not an output.": START_KEPT,
        "<end> is included in the output. Return the words only.": END_KEPT,
        "<start> and <end> are included in the output. Return the words only.": (
            START_KEPT,
            END_KEPT,
        ),
        "The output does not end at <end>: tokens are added until max_len. Ignore all tokens after "
        "the first <end> of a sentence.": (f"{UNTIL_THE_END} -> if True:", GOES_ON),
        "The output does not end at <end>: <end> is left out, but the tokens after it are "
        "included.": (f"{UNTIL_THE_END} -> if index != END_ID:", GOES_ON),
        "The whole batch stops at the first <end>. The other sentences have not ended yet.": (
            FIRST_END
        ),
        "The whole batch stops at the first <end>, and <end> is included in the output.": (
            FIRST_END,
            END_KEPT,
        ),
        "A sentence that has ended receives further tokens while the others continue. Ignore all "
        "tokens after the first <end> of a sentence.": f"{UNTIL_THE_END} -> if index != END_ID:",
        "A sentence that has ended receives further tokens while the others continue, and its "
        "<end> is included.": f"{UNTIL_THE_END} -> if True:",
        "The outputs are padded to one length. Return lists without padding.": [
            "return texts -> "
            "return [[*t, *[PAD_ID] * (max(map(len, texts)) - len(t))] for t in texts]",
            (f"{UNTIL_THE_END} -> if True:", "append(index) -> append(0 if ended[row] else index)"),
        ],
        "The first input is not <start>. Before the first word the decoder reads START_ID.": [
            "START_ID) -> PAD_ID)",
            "START_ID) -> END_ID)",
        ],
        "The state is not updated: each step starts from the first state. Pass the state that step "
        "returns to the next step.": "logits, state = -> logits, _ =",
        "The input of each step is <start>. From step 2 on, the input is the previous output.": (
            "model.step(token, -> model.step(torch.full_like(token, START_ID),"
        ),
        "The argmax is taken over the sentences of the batch, dim=0. Take it over the vocabulary, "
        "the last axis of the logits: dim=-1.": "argmax(dim=-1) -> argmax(dim=0)[: len(src)]",
        "The last token of the vocabulary is never chosen. Take the argmax over all logits.": (
            "logits.argmax -> logits[:, :-1].argmax"
        ),
        "The least probable token is chosen. The most probable one has the largest logit.": (
            "argmax -> argmin"
        ),
        "There is one step too many: max_len is the number of steps, including that of <end>.": (
            f"{STEPS} -> range(max_len + 1)"
        ),
        "There is one step too few: max_len is the number of steps, including that of <end>.": (
            f"{STEPS} -> range(max_len - 1)"
        ),
        "The last token of an output is removed although it is not <end>: after max_len steps, a "
        "sentence may not have ended.": (
            END_KEPT,
            "return texts -> return [text[:-1] for text in texts]",
        ),
        "The loop continues until every sentence has ended. It must stop after max_len steps.": (
            f"{STEPS} -> range(99)"
        ),
        "All sentences share one list: [[]] * n contains the same list n times. Create one list "
        "for each sentence: [[] for _ in range(n)].": [
            f"{LISTS} -> [[]] * len(src)",
            (f"{LISTS} -> [[]] * len(src)", FIRST_END),
        ],
        "With this mask the model reads padding of the source. model.encode(src) uses the right "
        "mask.": READ_ALL,
    },
)


# Part 4


def mixed_inputs(tgt, own, k):
    inputs = tgt[:, :-1].clone()
    for row, (gold, ids) in enumerate(zip(tgt.tolist(), own, strict=True)):
        num_words = gold.index(END_ID) - 1
        taken = ids[: min(k, num_words)]
        inputs[row, 1 : 1 + len(taken)] = torch.tensor(taken, dtype=torch.long)
    return inputs


def mixed_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (ONE, [[8, 9, 8, 9]], 2),
        (TWO, [[4, 9, 9, 7], [9, 4]], 2),
        (torch.tensor([[2, 4, 5, 6, 3], [2, 8, 3, 0, 0]]), [[7, 9, 9], [9, 4, 5]], 2),
        (ONE, [[9]], 3),
        (TWO, [[5, 5, 5, 5, 5, 5], [6]], 4),
    ]
    if thorough:
        three = [[2, 4, 5, 6, 7, 8, 9, 3], [2, 5, 3, 0, 0, 0, 0, 0], [2, 6, 7, 8, 3, 0, 0, 0]]
        asked += [
            (TWO, [[5, 6, 7, 8], [9, 8]], 0),
            (torch.tensor(three), [[10, 11], [12, 12, 12], [10, 11, 12, 10]], 3),
            (torch.tensor([[2, 4, 5, 3], [2, 6, 7, 3]]), [[], [9, 9]], 1),
        ]
    yield from cases_of(("tgt", "own", "k"), asked)
    note = "k may be larger than the number of words of a sentence."
    yield Case({"tgt": TWO, "own": [[5, 5, 5, 5, 5, 5], [6]], "k": 7}, note=note)


TAKEN = "ids[: min(k, num_words)]"
NUMBER = "min(k, num_words)"
REFERENCE_FIRST = f"{TAKEN} -> [*gold[1 : k + 1], *ids[k:]][:num_words]"
LAST_K = (
    f"{TAKEN} -> [*gold[1 : 1 + max(0, num_words - k)], *ids[max(0, num_words - k) :]][:num_words]"
)

MIXED_INPUTS = Question(
    mixed_inputs,
    {"the mixed inputs": ""},
    mixed_cases,
    {
        "the first own word replaces <start>. <start> must stay in column 0.": (
            "1 : 1 + len(taken) -> : len(taken)"
        ),
        "all own words are used. Use the first k of them, and then the reference.": (
            f"{NUMBER} -> num_words"
        ),
        "the first k words are the reference and the others are own words. Exchange the two.": (
            REFERENCE_FIRST
        ),
        "the last k words are replaced instead of the first k.": LAST_K,
        "k - 1 words are replaced instead of k. <start> is not one of the k words.": (
            f"{NUMBER} -> max(0, min(k - 1, num_words))"
        ),
        "k + 1 words are replaced instead of k.": f"{NUMBER} -> min(k + 1, num_words)",
        "there is padding where the own output has no more words. Keep the reference words "
        "there.": f"{TAKEN} -> [*ids, *[PAD_ID] * k][:{NUMBER}]",
        "<end> is inserted where the own output has no more words. Keep the reference words "
        "there.": f"{TAKEN} -> [*ids, *[END_ID] * k][:{NUMBER}]",
        "no word is replaced where the own output has fewer than k words. Replace as many words as "
        "there are, and keep the reference elsewhere.": (
            f"{TAKEN} -> {TAKEN} if len(ids) >= {NUMBER} else []"
        ),
        "the result has as many columns as tgt. The inputs lack its last column.": (
            "tgt[:, :-1].clone() -> tgt.clone()"
        ),
        "every sentence has the own words of the first sentence.": (
            "taken = ids[: -> taken = own[0][:"
        ),
        "the own output has fewer than k words, and PyTorch broadcasts its only word to k "
        "positions. Replace only as many words as there are, and keep the reference elsewhere.": (
            f"1 : 1 + len(taken)] -> 1 : 1 + {NUMBER}]"
        ),
        "no word is replaced: these are the reference inputs.": (
            "return inputs -> return tgt[:, :-1]"
        ),
        "the own words are inserted before the reference words. They must replace them.": (
            "len(taken)] = torch.tensor(taken, "
            "-> inputs.size(1)] = torch.tensor([*taken, *gold[1:]][: inputs.size(1) - 1], "
        ),
    },
    named=True,
    tidy=torch.Tensor.tolist,
)


def loss_after(model, src, tgt, own, k):
    mixed = mixed_inputs(tgt, own, k)
    pair = []
    for inputs in (tgt[:, :-1], mixed):
        labels = tgt[:, 1:]
        logits = model.decode(inputs, model.encode(src)).logits
        losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
        counted = labels != PAD_ID
        counted[:, :k] = False
        loss = losses[counted].mean()
        pair.append(float(loss))
    return tuple(pair)


TWO_LOSSES = [[1.0, 2.0, 4.0, 3.0, 7.0], [6.0, 5.0, 9.0, 12.0, 11.0]]


def after_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        ([[1.0, 2.0, 4.0, 8.0, 3.0]], ONE, [[4, 9, 9, 7]], 2),
        (
            [[1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 9.0, 12.0]],
            torch.tensor([[2, 4, 5, 6, 3], [2, 8, 9, 3, 0]]),
            [[9, 9, 6], [8, 4]],
            1,
        ),
        (TWO_LOSSES, TWO, [[9, 9, 6, 9, 9], [4, 9]], 2),
    ]
    if thorough:
        three = [[2, 4, 5, 6, 7, 8, 3], [2, 9, 3, 0, 0, 0, 0], [2, 10, 11, 12, 3, 0, 0]]
        losses = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0] * 6, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]]
        asked += [
            (losses, torch.tensor(three), [[4, 10, 6, 7, 8], [12], [9, 9]], 3),
            (TWO_LOSSES, TWO, [[9, 9, 9, 9], [9, 9]], 4),
        ]
    for surprises, tgt, own, k in asked:
        model = Fresh(checks.PlantedLossModel, {"tgt": tgt, "surprises": surprises})
        src = torch.tensor([[11 + row, END_ID] for row in range(len(tgt))])
        yield Case({"model": model, "src": src, "tgt": tgt, "own": own, "k": k})
    src, tgt = checks.sentences(3, 2)
    gold = [[i for i in row if i not in (PAD_ID, START_ID, END_ID)] for row in tgt.tolist()]
    on_sentences = {"model": TRAINED, "src": src, "tgt": tgt}
    yield Case(
        {**on_sentences, "own": checks.own_words(src), "k": 0},
        general="At k = 0 no word is replaced, so both losses are that of teacher forcing.",
    )
    yield Case(
        {**on_sentences, "own": gold, "k": 3},
        general="The own words equal the reference here, so both losses must be equal.",
    )


BOTH = "(tgt[:, :-1], mixed)"
MIXED = "mixed = mixed_inputs(tgt, own, k)"
LABELS = "labels = tgt[:, 1:]"
COUNTED = "counted = labels != PAD_ID"
FROM_K = "counted[:, :k] = False"
MEAN = "losses[counted].mean()"
reference_first = edited(mixed_inputs, REFERENCE_FIRST)

LOSS_AFTER = Question(
    loss_after,
    {"the two losses": ""},
    after_cases,
    {
        "all labels are included. Include only those from index k on.": f"{FROM_K} -> pass",
        "the first label that is included is one too early. The label with index k, counted from "
        "0, is the first one that is predicted after all k words.": (
            "counted[:, :k] -> counted[:, : max(0, k - 1)]"
        ),
        "the first label that is included is one too late. The label with index k, counted from 0, "
        "is the first one that is predicted after all k words.": (
            "counted[:, :k] -> counted[:, : k + 1]"
        ),
        "these are the labels before index k. Include the labels from index k on.": (
            "counted[:, :k] -> counted[:, k:]"
        ),
        "the two losses are exchanged. Return the loss after reference inputs first.": (
            "tuple(pair) -> tuple(reversed(pair))"
        ),
        "padding is included. Leave out the positions where the label is padding.": (
            f"{COUNTED} -> counted = torch.ones_like(labels, dtype=torch.bool)"
        ),
        "this is the mean of the means of the sentences. Take one mean over all labels.": (
            f"{MEAN} -> sum(a[b].mean() for a, b in zip(losses, counted) if b.any())"
            " / sum(counted.any(1))"
        ),
        "the labels are own words. The labels are always the reference, whatever the inputs are.": (
            f"{LABELS} -> labels = torch.cat([inputs[:, 1:], tgt[:, -1:]], dim=1)",
            f"{FROM_K} -> pass",
        ),
        "the logits are compared with the inputs. The label with index k is in column k + 1 of "
        "tgt.": f"{LABELS} -> labels = tgt[:, :-1]",
        "this is a sum. Return the mean.": f"{MEAN} -> losses[counted].sum()",
        "all own words are inputs. Use only the first k of them, and then the reference.": (
            f"{MIXED} -> mixed = mixed_inputs(tgt, own, tgt.size(1))"
        ),
        "both losses are after reference inputs: the mixed inputs are not used.": (
            f"{BOTH} -> (tgt[:, :-1], tgt[:, :-1])"
        ),
        "both losses are after mixed inputs. The first one is after reference inputs.": (
            f"{BOTH} -> (mixed, mixed)"
        ),
        "the first k inputs are the reference and the others are own words. Exchange the two.": (
            f"{MIXED} -> mixed = reference_first(tgt, own, k)"
        ),
        "only the label with index k is included. Include all labels from index k on.": (
            f"{FROM_K} -> counted[:, :k] = counted[:, k + 1 :] = False"
        ),
        f"the {LAST_COLUMN}": f"{FROM_K} -> counted[:, :k] = counted[:, -1:] = False",
        "the label <end> is left out. It is a label like a word.": (
            f"{COUNTED} -> counted = (labels != PAD_ID) & (labels != END_ID)"
        ),
        "the sum is divided by the number of all labels. Divide it by the number of the labels "
        "from index k on.": f"{MEAN} -> losses[counted].sum() / (labels != PAD_ID).sum()",
        "the second result is the difference of the losses. Return the loss after mixed inputs.": (
            "tuple(pair) -> pair[0], pair[1] - pair[0]"
        ),
        "these are perplexities. The loss is the mean negative log-likelihood.": (
            "float(loss) -> float(loss.exp())"
        ),
        "with this mask the encoder reads padding of the source like words. model.encode(src) uses "
        "the correct mask.": READ_ALL,
    },
    named=True,
    tidy=checks.rounded,
)


# Part 5

MEASURED = "The expected value was measured with a model of the package."


def other_values(answer: Answer, table: dict[str, str]) -> dict[str, list[str]]:
    """Return the mistakes of a table as edits: what to say of a variable, and its wrong values."""
    lines = {each.split()[0]: each.strip() for each in source_of(answer).splitlines()}
    return {
        f"{answer.__name__}, {said}": [
            f"{lines[name]} -> {name} = {value}" for value in values.split(" | ")
        ]
        for said, values in table.items()
        for name in [said.partition(":")[0]]
    }


def counts(lengths, max_len):
    longest, total, batch = max(lengths), sum(lengths), len(lengths)
    decode_calls = 1
    step_calls = min(longest + 1, max_len)
    cell_runs = longest + 1
    positions = batch * (longest + 1)
    labels = total + batch
    return {
        "decode_calls": decode_calls,
        "step_calls": step_calls,
        "cell_runs": cell_runs,
        "positions": positions,
        "labels": labels,
    }


def count_cases(thorough: bool) -> Iterator[Case]:
    asked = [([2], 10), ([2, 5, 3], 10), ([7, 1, 2, 4], 5), ([3, 0], 10)]
    if thorough:
        asked += [([0], 3), ([11, 13, 3, 2, 5, 1], 20), ([3] * 7, 4), ([1], 1)]
    return cases_of(("lengths", "max_len"), asked)


TOGETHER = "the sentences of a batch are processed together, so the longest sentence determines it."
OF_ONE = "this is the number for one sentence. Count all sentences of the batch."

COUNT_MISTAKES = {
    "decode_calls: one call decodes all positions of all sentences.": "longest | longest + 1",
    "decode_calls: one call decodes the whole batch.": "batch",
    "step_calls: the loop stops after max_len calls, however long the outputs would "
    "be.": "longest + 1 | min(longest, max_len) + 1",
    "step_calls: one call is missing: the output <end> also needs a call of "
    "step.": "longest | min(longest, max_len)",
    "step_calls: the loop stops when the last sentence has ended, before max_len.": "max_len",
    f"step_calls: {TOGETHER}": "total + batch | batch * (longest + 1) | total | "
    "min(lengths[0] + 1, max_len) | min(lengths[-1] + 1, max_len)",
    "step_calls: each input is the previous output, so one call cannot decode all positions.": "1",
    "step_calls: the first call already reads <start> and predicts the first "
    "word.": "longest + 2 | min(longest + 2, max_len)",
    "cell_runs: decode is called once, but inside it each state needs the previous state, so the "
    "cell runs once per column. With teacher forcing, a recurrent decoder still needs as many "
    "steps.": "1",
    "cell_runs: one run is missing: the last word must be read in order to predict "
    "<end>.": "longest",
    "cell_runs: there is one run per column of the inputs, which contain <start> but not the last "
    "<end>.": "longest + 2",
    f"cell_runs: {TOGETHER}": "total + batch | batch * (longest + 1)",
    "cell_runs: max_len limits free running only. With teacher forcing the whole target is "
    "read.": "max_len | min(longest + 1, max_len)",
    "positions: logits are also computed at padding: the batch is a rectangular "
    "tensor.": "total + batch",
    "positions: one column is missing: <end> is predicted as well.": "batch * longest",
    "positions: there is one column too many: the inputs are one column shorter than the "
    "targets.": "batch * (longest + 2)",
    f"positions: {OF_ONE}": "longest + 1",
    "labels: the label <end> of each sentence is missing. It is predicted after the last "
    "word.": "total",
    "labels: a target without words has the label <end>.": "sum(n + 1 for n in lengths if n)",
    "labels: max_len limits free running only.": "sum(min(n + 1, max_len) for n in lengths)",
    "labels: padding is included. The loss leaves out labels that are "
    "padding.": "batch * (longest + 1)",
    "labels: <start> is never a label: the labels of a sentence are its words and "
    "<end>.": "total + 2 * batch",
    f"labels: {OF_ONE}": "longest + 1",
}
COUNTS = Question(
    counts,
    dict.fromkeys(counts([1], 1), MEASURED),
    count_cases,
    other_values(counts, COUNT_MISTAKES),
    keyed=True,
)


def shapes(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
    both = 2 * encoder_dim
    src_embedded = (batch, src_len, embedding_dim)
    encoder_outputs = (batch, src_len, both)
    context = (batch, both)
    first_state = (batch, decoder_dim)
    cell_input = (batch, embedding_dim + both)
    logits = (batch, tgt_len - 1, vocab)
    step_logits = (batch, vocab)
    return {
        "src_embedded": src_embedded,
        "encoder_outputs": encoder_outputs,
        "context": context,
        "first_state": first_state,
        "cell_input": cell_input,
        "logits": logits,
        "step_logits": step_logits,
    }


def shape_cases(thorough: bool) -> Iterator[Case]:
    asked = [(3, 2, 7, 5, 11, 13, 17)]
    if thorough:
        asked += [(7, 2, 3, 5, 4, 19, 23), (1, 1, 2, 3, 6, 5, 11)]
    names = ("batch", "src_len", "tgt_len", "embedding_dim", "encoder_dim", "decoder_dim", "vocab")
    return cases_of(names, asked)


OF_BOTH = "the outputs of the forward and the backward GRU are concatenated."
EVERY_TOKEN = "there is one vector for each token of the source."

SHAPE_MISTAKES = {
    "src_embedded: each token has a vector, so the last axis is embedding_dim.": "(batch, src_len)",
    "src_embedded: <end> is embedded too, and src_len includes it.": (
        "(batch, src_len - 1, embedding_dim)"
    ),
    "src_embedded: the batch is the first axis.": "(src_len, batch, embedding_dim)",
    "src_embedded: an embedding looks up one vector per token; its result has no vocabulary "
    "axis.": "(batch, src_len, vocab)",
    f"encoder_outputs: {OF_BOTH}": "(batch, src_len, encoder_dim)",
    "encoder_outputs: <end> is a token of the source, and src_len includes it.": (
        "(batch, src_len - 1, both)"
    ),
    f"encoder_outputs: {EVERY_TOKEN} The single vector is the context.": "(batch, both)",
    f"encoder_outputs: {EVERY_TOKEN} {OF_BOTH}": "(batch, encoder_dim)",
    "context: it is one vector for the whole source, so there is no axis "
    "src_len.": "(batch, src_len, both)",
    "context: it contains the last states of both GRUs.": "(batch, encoder_dim)",
    "context: no layer maps it to decoder_dim: it consists of the last states of both "
    "GRUs.": "(batch, decoder_dim)",
    "first_state: the bridge maps the last backward state to "
    "decoder_dim.": "(batch, encoder_dim) | (batch, both)",
    "first_state: it is a single state, before the first input is "
    "read.": "(batch, tgt_len - 1, decoder_dim)",
    "cell_input: the cell also reads the context, at every step.": "(batch, embedding_dim)",
    "cell_input: the context contains the states of both "
    "GRUs.": "(batch, embedding_dim + encoder_dim)",
    "cell_input: the cell reads one token per sentence at a "
    "time.": "(batch, tgt_len - 1, embedding_dim + both)",
    "cell_input: the state is a separate argument of the cell, not a part of its "
    "input.": "(batch, embedding_dim + both + decoder_dim) | (batch, embedding_dim + decoder_dim)",
    "logits: tgt_len includes <start> and <end>; the inputs are one column "
    "shorter.": "(batch, tgt_len, vocab)",
    "logits: the inputs are only one column shorter than the targets, not two: <end> is "
    "predicted.": "(batch, tgt_len - 2, vocab)",
    "logits: there is one logit for each token of the vocabulary, so the last axis is "
    "vocab.": "(batch, tgt_len - 1) | (batch, tgt_len - 1, decoder_dim)",
    "logits: there is one position for each target token; the length of the source has no "
    "influence.": "(batch, src_len, vocab)",
    "step_logits: step predicts one token per sentence, so there is no axis of "
    "positions.": "(batch, 1, vocab) | (batch, tgt_len - 1, vocab)",
    "step_logits: step returns logits, not the chosen token.": "(batch,)",
}
SHAPES = Question(
    shapes,
    dict.fromkeys(shapes(*range(7)), MEASURED),
    shape_cases,
    other_values(shapes, SHAPE_MISTAKES),
    keyed=True,
)


# Part 6


def training_step(model, optimizer, src, tgt, clip_norm):
    model.train()
    inputs, labels = tgt[:, :-1], tgt[:, 1:]
    logits = model.decode(inputs, model.encode(src)).logits
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD_ID)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


PARTS = {
    "targets": [MAKE_TARGETS, SHIFT_RIGHT],
    "loss": [TEACHER_FORCED_LOSS],
    "free_running": [WRITE],
    "exposure": [MIXED_INPUTS, LOSS_AFTER],
    "predictions": [COUNTS, SHAPES],
    "bug_hunt": [Question(training_step)],
}
"""The questions of each check, in the order of its arguments."""
