"""Answers to the parts of encoder and decoder, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence

from attentively.checks.edits import edited_source
from attentively.checks.recordings import load_questions
from attentively.decoding import greedy_search
from attentively.losses import cross_entropy
from attentively.vocabulary import END_ID, PAD_ID, START_ID

questions = load_questions(Path(__file__).with_name("questions.py"))
mixed_inputs, teacher_forced_loss = questions.mixed_inputs, questions.teacher_forced_loss
write = questions.write

# Part 1


def targets_by_filling(sentences, start_id, end_id, pad_id):
    tgt = torch.full((len(sentences), 2 + max(map(len, sentences))), pad_id)
    tgt[:, 0] = start_id
    for row, ids in enumerate(sentences):
        for column, index in enumerate([*ids, end_id], start=1):
            tgt[row, column] = index
    return tgt


def targets_by_torch(sentences, start_id, end_id, pad_id):
    rows = [torch.tensor([start_id, *ids, end_id], dtype=torch.int32) for ids in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=pad_id)


def shift_right_without_ends(tgt):
    """The decoder does not read <end> at all."""
    inputs, labels = tgt[:, :-1].clone(), tgt[:, 1:]
    inputs[inputs == END_ID] = PAD_ID
    return [inputs, labels]


def shift_right_by_narrow(tgt):
    length = tgt.size(1) - 1
    return tgt.narrow(1, 0, length), tgt.narrow(1, 1, length)


# Part 2


def loss_by_cutting_logits(model, src, tgt):
    """The whole target is read, and what follows its last column is discarded."""
    logits = model.decode(tgt, model.encode(src)).logits[:, :-1]
    return F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=PAD_ID)


def loss_by_hand(model, src, tgt):
    logits = model.decode(tgt[:, :-1], model.encode(src)).logits
    log_probabilities = logits - logits.logsumexp(-1, keepdim=True)
    total, count = 0.0, 0
    for row, labels in enumerate(tgt[:, 1:].tolist()):
        for t, label in enumerate(labels):
            if label != PAD_ID:
                total = total - log_probabilities[row, t, label]
                count += 1
    return total / count


def loss_in_float64(model, src, tgt):
    logits = model(src, tgt[:, :-1]).double()
    return F.cross_entropy(logits.mT, tgt[:, 1:], ignore_index=PAD_ID)


def loss_by_steps(model, src, tgt):
    state = model.start(model.encode(src))
    losses = []
    for column in range(tgt.size(1) - 1):
        logits, state = model.step(tgt[:, column], state)
        losses.append(F.cross_entropy(logits, tgt[:, column + 1], reduction="none"))
    losses, real = torch.stack(losses, dim=1), tgt[:, 1:] != PAD_ID
    return (losses * real).sum() / real.sum()


def loss_by_the_package(model, src, tgt):
    logits = model.decode(tgt[:, :-1], model.encode(src)).logits
    return cross_entropy(logits, tgt[:, 1:], PAD_ID)


def loss_without_gradient(model, src, tgt):
    with torch.no_grad():
        return teacher_forced_loss(model, src, tgt)


def loss_without_the_encoder(model, src, tgt):
    with torch.no_grad():
        memory = model.encode(src)
    logits = model.decode(tgt[:, :-1], memory).logits
    return F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=PAD_ID)


# Part 3


def write_by_columns(model, src, max_len):
    """Columns of tokens first; each row is cut at its first <end>."""
    state = model.start(model.encode(src))
    columns = [torch.full((len(src),), START_ID)]
    ended = torch.zeros(len(src), dtype=torch.bool)
    while len(columns) <= max_len and not ended.all():
        logits, state = model.step(columns[-1], state)
        columns.append(logits.argmax(-1))
        ended = ended | (columns[-1] == END_ID)
    rows = torch.stack(columns[1:], dim=1).tolist()
    return [row[: row.index(END_ID)] if END_ID in row else row for row in rows]


def write_by_rereading(model, src, max_len):
    """No state: the whole output so far is read again for each word."""
    memory = model.encode(src)
    read = torch.full((len(src), 1), START_ID)
    for _ in range(max_len):
        following = model.decode(read, memory).logits[:, -1].argmax(-1, keepdim=True)
        read = torch.cat([read, following], dim=1)
        if (read == END_ID).any(dim=1).all():
            break
    texts = []
    for row in read[:, 1:]:
        end = (row == END_ID).nonzero()
        texts.append(row[: int(end[0])] if len(end) else row)
    return texts


def write_by_leaving(model, src, max_len):
    """A sentence that has ended leaves the batch."""
    state = model.start(model.encode(src))
    texts = [[] for _ in range(len(src))]
    live, token = list(range(len(src))), torch.full((len(src),), START_ID)
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        kept = [row for row, index in enumerate(token.tolist()) if index != END_ID]
        live = [live[row] for row in kept]
        if not live:
            break
        state, token = state.select(torch.tensor(kept)), token[kept]
        for row, index in zip(live, token.tolist(), strict=True):
            texts[row].append(index)
    return texts


def write_sentence_by_sentence(model, src, max_len):
    return [write(model, row.unsqueeze(0), max_len)[0] for row in src]


def tokens_in_columns(model, src, max_len):
    state = model.start(model.encode(src))
    token = torch.full((len(src), 1), START_ID)
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=-1, keepdim=True)
    return token.tolist()


def texts_of_the_package(model, src, max_len):
    return [each.ids for each in greedy_search(model, src, max_len)]


# Part 4


def mixed_by_lists(tgt, own, k):
    rows = []
    for gold, ids in zip(tgt.tolist(), own, strict=True):
        words = [i for i in gold if i not in (START_ID, END_ID, PAD_ID)]
        mixed = [ids[t] if t < k and t < len(ids) else word for t, word in enumerate(words)]
        rows.append(([START_ID, *mixed] + gold[1 + len(words) :])[: tgt.size(1) - 1])
    return torch.tensor(rows)


def mixed_by_where(tgt, own, k):
    """What is read where the label is padding does not matter, so <end> may be replaced."""
    gold = tgt[:, :-1]
    theirs = torch.full_like(gold, PAD_ID)
    for row, ids in enumerate(own):
        for t, index in enumerate(ids[: gold.size(1) - 1]):
            theirs[row, t + 1] = index
    positions = torch.arange(gold.size(1))
    return torch.where((positions <= k) & (theirs != PAD_ID), theirs, gold)


def written_into_tgt(tgt, own, k):
    tgt[:, :-1] = mixed_inputs(tgt, own, k)
    return tgt[:, :-1]


def loss_after_by_the_package(model, src, tgt, own, k):
    memory = model.encode(src)
    losses = []
    for inputs in (tgt[:, :-1], mixed_by_where(tgt, own, k)):
        logits = model.decode(inputs, memory).logits[:, k:]
        losses.append(cross_entropy(logits, tgt[:, 1 + k :], PAD_ID))
    return torch.stack(losses)


def loss_after_by_labels(model, src, tgt, own, k):
    labels = tgt[:, 1:].clone()
    labels[:, :k] = PAD_ID

    def mean(inputs):
        logits = model(src, inputs)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD_ID)

    return [mean(tgt[:, :-1]), mean(mixed_by_lists(tgt, own, k))]


def loss_after_by_sentences(model, src, tgt, own, k):
    sums, count = np.zeros(2), 0
    for row in range(len(src)):
        one = slice(row, row + 1)
        memory = model.encode(src[one])
        labels = tgt[row, 1:]
        counted = [t for t in range(k, len(labels)) if labels[t] != PAD_ID]
        count += len(counted)
        for which, inputs in enumerate((tgt[one, :-1], mixed_inputs(tgt[one], own[one], k))):
            scores = model.decode(inputs, memory).logits[0].log_softmax(-1)
            sums[which] -= sum(float(scores[t, labels[t]]) for t in counted)
    return tuple(sums / count)


def loss_after_by_steps(model, src, tgt, own, k):
    found = []
    for inputs in (tgt[:, :-1], mixed_by_where(tgt, own, k)):
        state, losses = model.start(model.encode(src)), []
        for t, token in enumerate(inputs.unbind(1)):
            logits, state = model.step(token, state)
            for scores, label in zip(logits.log_softmax(-1), tgt[:, t + 1], strict=True):
                if t >= k and label != PAD_ID:
                    losses.append(-scores[label])
        found.append(sum(losses) / len(losses))
    return found


# Part 5


def counts_by_loops(lengths, max_len):
    found = dict.fromkeys(("labels", "positions", "cell_runs", "step_calls"), 0)
    for column in range(max(lengths) + 1):
        found["cell_runs"] += 1
        found["step_calls"] += column < max_len
        for length in lengths:
            found["positions"] += 1
            found["labels"] += column <= length
    return found | {"decode_calls": np.int64(1)}


def shapes_by_building(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
    embedded = torch.zeros(batch, src_len, embedding_dim)
    encoder = nn.GRU(embedding_dim, encoder_dim, batch_first=True, bidirectional=True)
    outputs, states = encoder(embedded)
    context = torch.cat([states[0], states[1]], dim=-1)
    step_logits = torch.zeros(batch, vocab)
    return {
        "src_embedded": embedded.shape,
        "encoder_outputs": outputs.shape,
        "context": context.shape,
        "first_state": nn.Linear(encoder_dim, decoder_dim)(states[1]).shape,
        "cell_input": torch.cat([embedded[:, 0], context], dim=-1).shape,
        "logits": list(torch.stack([step_logits] * (tgt_len - 1), dim=1).shape),
        "step_logits": step_logits.shape,
        "something else": None,
    }


# Part 6


def training_step_by_hand(model, optimizer, src, tgt, clip_norm):
    """The gradients are rescaled by hand."""
    model.train()
    loss = loss_by_hand(model, src, tgt)
    optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    for gradient in gradients:
        gradient.mul_((clip_norm / norm).clamp(max=1.0))
    optimizer.step()
    return float(loss.detach())


def training_step_detached(model, optimizer, src, tgt, clip_norm):
    for parameter in model.parameters():
        parameter.grad = None
    loss = teacher_forced_loss(model.train(), src, tgt)
    loss.backward()
    clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.detach()


def training_step_forgetting_afterwards(model, optimizer, src, tgt, clip_norm):
    loss = teacher_forced_loss(model.train(), src, tgt)
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient
    clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    model.zero_grad()
    return loss.item()


RIGHT = {
    "make_targets": [targets_by_filling, targets_by_torch],
    "shift_right": [shift_right_without_ends, shift_right_by_narrow],
    "teacher_forced_loss": [loss_by_cutting_logits, loss_by_hand, loss_in_float64, loss_by_steps],
    "write": [
        write_by_columns,
        write_by_rereading,
        write_by_leaving,
        write_sentence_by_sentence,
    ],
    "mixed_inputs": [mixed_by_lists, mixed_by_where],
    "loss_after": [
        loss_after_by_the_package,
        loss_after_by_labels,
        loss_after_by_sentences,
        loss_after_by_steps,
    ],
    "counts": [counts_by_loops],
    "shapes": [shapes_by_building],
    "training_step": [
        training_step_by_hand,
        training_step_detached,
        training_step_forgetting_afterwards,
    ],
}

CLIP = "nn.utils.clip_grad_norm_(model.parameters(), clip_norm)"
ZERO = "optimizer.zero_grad()"
BACKWARD = "loss.backward()"
STEP = "optimizer.step()"
COLUMNS = questions.COLUMNS
SCALED = """norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
    for each in model.parameters():
        if each.grad is not None:
            each.grad *= clip_norm / norm"""
SEPARATELY = """for each in model.parameters():
        if each.grad is not None:
            nn.utils.clip_grad_norm_([each], clip_norm)"""
FAULTS = {
    "leak": (f"{COLUMNS} -> tgt[:, 1:], tgt[:, 1:]",),
    "mask": (questions.READ_ALL,),
    "mode": ("model.train() -> model.eval()",),
    "padding": (", ignore_index=PAD_ID -> ",),
    "clipping": (f"{CLIP} -> pass", f"{STEP} -> {STEP}\n    {CLIP}"),
    "gradients": (f"{ZERO} -> pass",),
}
"""The six faults of the notebook's step."""
AS_IT_WAS = tuple(edit for each in FAULTS.values() for edit in each)
PAIR = questions.PAIR

WRONG = {
    "make_targets": {
        "Your code raises ValueError": "end_id, *padding] -> end_id]",
        "as a torch.Tensor, got a list": "torch.tensor(rows) -> rows",
    },
    "shift_right": {
        "Expected a pair, `return inputs, labels`; got a Tensor": f"{PAIR} -> return inputs",
        "Expected the labels as a torch.Tensor": f"{PAIR} -> return inputs, labels.tolist()",
    },
    "teacher_forced_loss": {
        "a plain number, which has no gradient": "return loss -> return loss.item()",
        "no gradient flows through them": loss_without_gradient,
        "no gradient reaches the encoder's parameters": loss_without_the_encoder,
        "the gradient of the decoder's parameters is not: a part of it is missing": (
            "losses[real].sum() -> "
            "torch.cat([losses[:, :1].detach(), losses[:, 1:]], 1)[real].sum()"
        ),
        "the mean over all labels of the batch, without padding": "return loss -> return losses",
        "Your code raises AttributeError": "memory).logits -> memory)",
        "got the output of decode": "return loss -> return model.decode(inputs, memory)",
        "not accepted. Your code uses": loss_by_the_package,
    },
    "write": {
        "not accepted. Your code uses": texts_of_the_package,
        "does not stop when the last sentence has ended": [
            "if all(ended): -> if (token == END_ID).all():",
            "if all(ended): -> if False:",
        ],
        "does not stop after max_len steps": (
            "range(max_len) -> range(max_len + 1)",
            "return texts -> return [ids[:max_len] for ids in texts]",
        ),
        "got a tensor": "return texts -> "
        "return nn.utils.rnn.pad_sequence([torch.tensor(t) for t in texts], batch_first=True)",
        "token has the shape (1, 1); expected one token per sentence": tokens_in_columns,
        "Expected one list of ids per sentence": [
            "return texts -> return texts[0]",
            "return texts -> return [(ids, 0.0) for ids in texts]",
        ],
    },
    "mixed_inputs": {
        "k may be larger than the number of words": f"{questions.NUMBER} -> k",
        "changes its input tgt": written_into_tgt,
        "as a torch.Tensor, got a list": "return inputs -> return inputs.tolist()",
    },
    "loss_after": {
        "Expected a pair": ["return tuple(pair) -> return pair[1] - pair[0]"],
        "both losses must be equal": "return tuple(pair) -> "
        "return tuple(pair) if k != 3 else (pair[0], pair[1] + 0.1)",
        "At k = 0 no word is replaced": "counted[:, :k] = False -> counted[:, : max(1, k)] = False",
    },
    "counts": {
        "Expected a dict with the keys decode_calls, step_calls, cell_runs, positions and labels": (
            "return { -> return {} or [*{",
            '"labels": labels,\n    } -> "labels": labels,\n    }]',
        ),
    },
    "shapes": {
        "Expected a dict with the keys src_embedded, encoder_outputs, context": (
            '        "context": context,\n -> '
        ),
        "A count or an index is exact": "both = 2 * encoder_dim -> both = encoder_dim / 0.5",
    },
    "training_step": {
        "The target leaks": [FAULTS["leak"], AS_IT_WAS],
        "The decoder reads <end>": f"{COLUMNS} -> tgt, tgt",
        "reads padding of the source like tokens": FAULTS["mask"],
        "evaluation mode": FAULTS["mode"],
        "Padding is included in the loss": FAULTS["padding"],
        "compared with the inputs instead of the labels": f"{COLUMNS} -> tgt[:, :-1], tgt[:, :-1]",
        "this is a sum": "ignore_index=PAD_ID -> ignore_index=PAD_ID, reduction='sum'",
        "still refers to the computation graph": "loss.item() -> loss",
        "Clip them after backward and before optimizer.step()": [
            FAULTS["clipping"],
            (f"{CLIP} -> pass", f"{BACKWARD} -> {CLIP}\n    {BACKWARD}"),
        ],
        "clip_norm are enlarged": f"{CLIP} -> {SCALED}",
        "gradients of an earlier step or of other code": FAULTS["gradients"],
        "of other code are still stored": (
            *FAULTS["gradients"],
            f"{STEP} -> {STEP}\n    {ZERO}",
        ),
        "the parameters do not change": f"{BACKWARD} -> {BACKWARD}\n    {ZERO}",
        "each parameter is clipped separately": f"{CLIP} -> {SEPARATELY}",
        "each entry of the gradients is clipped separately": "clip_grad_norm_ -> clip_grad_value_",
        "these are not the gradients of the mean loss": "(), clip_norm) -> (), 1.0)",
        "is called 2 times": f"{STEP} -> {STEP}\n    {STEP}",
        "neither start nor step": (
            "logits = model.decode(inputs, model.encode(src)).logits -> "
            "state = model.start(model.encode(src))\n"
            "    logits, state = model.step(inputs[:, 0], state)"
        ),
        "decode is called 2 times": "loss.item() -> teacher_forced_loss(model, src, tgt).item()",
    },
}

HANDED_IN = {
    "never_stops": (
        {
            "free-running": edited_source(
                write, (f"{questions.UNTIL_THE_END} -> if True:", questions.GOES_ON)
            )
        },
        ["free-running-check"],
        "tokens are added until max_len",
    ),
    "gradients_kept": (
        {"bug-hunt": edited_source(questions.training_step, FAULTS["gradients"])},
        ["bug-hunt-check"],
        "gradients of an earlier step or of other code",
    ),
}
