"""Right answers to 04_encoder_and_decoder, each part written in several ways."""

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pad_sequence

from attentively.losses import cross_entropy
from attentively.vocabulary import END_ID, PAD_ID, START_ID

# Part 1


def make_targets(sentences, start_id, end_id, pad_id):
    longest = max(len(ids) for ids in sentences)
    rows = [[start_id, *ids, end_id, *[pad_id] * (longest - len(ids))] for ids in sentences]
    return torch.tensor(rows)


def make_targets_by_filling(sentences, start_id, end_id, pad_id):
    tgt = torch.full((len(sentences), 2 + max(map(len, sentences))), pad_id)
    tgt[:, 0] = start_id
    for row, ids in enumerate(sentences):
        for column, index in enumerate([*ids, end_id], start=1):
            tgt[row, column] = index
    return tgt


def make_targets_by_torch(sentences, start_id, end_id, pad_id):
    rows = [torch.tensor([start_id, *ids, end_id]) for ids in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=pad_id)


def shift_right(tgt):
    return tgt[:, :-1], tgt[:, 1:]


def shift_right_without_ends(tgt):
    """No END is fed in at all."""
    inputs, labels = tgt[:, :-1].clone(), tgt[:, 1:]
    inputs[inputs == END_ID] = PAD_ID
    return [inputs, labels]


def shift_right_by_narrow(tgt):
    length = tgt.size(1) - 1
    return tgt.narrow(1, 0, length), tgt.narrow(1, 1, length)


TARGETS = [
    (make_targets, shift_right),
    (make_targets_by_filling, shift_right_without_ends),
    (make_targets_by_torch, shift_right_by_narrow),
]

# Part 2


def teacher_forced_loss(model, src, tgt):
    logits = model.decode(tgt[:, :-1], model.encode(src)).logits
    return F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], ignore_index=PAD_ID)


def loss_by_cutting_logits(model, src, tgt):
    """The whole target is read, and what follows its last column is thrown away."""
    logits = model.decode(tgt, model.encode(src)).logits[:, :-1]
    labels = tgt[:, 1:]
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=PAD_ID)


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


def loss_by_steps(model, src, tgt):
    state = model.start(model.encode(src))
    surprises = []
    for column in range(tgt.size(1) - 1):
        logits, state = model.step(tgt[:, column], state)
        surprises.append(F.cross_entropy(logits, tgt[:, column + 1], reduction="none"))
    surprises, real = torch.stack(surprises, dim=1), tgt[:, 1:] != PAD_ID
    return (surprises * real).sum() / real.sum()


LOSSES = [teacher_forced_loss, loss_by_cutting_logits, loss_by_hand, loss_by_steps]

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


def write_by_columns(model, src, max_len):
    """Columns of tokens first; each row is cut at its first END."""
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
    """No state: all that is written so far is read anew for each word."""
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
    """What has ended leaves the batch."""
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


WRITERS = [
    write,
    write_by_columns,
    write_by_rereading,
    write_by_leaving,
    write_sentence_by_sentence,
]

# Part 4


def mixed_inputs(tgt, own, k):
    inputs = tgt[:, :-1].clone()
    for row, ids in enumerate(own):
        num_words = int((tgt[row, 1:] != PAD_ID).sum()) - 1
        taken = ids[: min(k, num_words)]
        inputs[row, 1 : 1 + len(taken)] = torch.tensor(taken, dtype=torch.long)
    return inputs


def mixed_by_lists(tgt, own, k):
    rows = []
    for gold, ids in zip(tgt.tolist(), own, strict=True):
        words = [i for i in gold if i not in (START_ID, END_ID, PAD_ID)]
        mixed = [ids[t] if t < k and t < len(ids) else word for t, word in enumerate(words)]
        rows.append(([START_ID, *mixed] + gold[1 + len(words) :])[: tgt.size(1) - 1])
    return torch.tensor(rows)


def mixed_by_where(tgt, own, k):
    """What is read where the label is padding does not matter, so END may be written over."""
    gold = tgt[:, :-1]
    theirs = torch.full_like(gold, PAD_ID)
    for row, ids in enumerate(own):
        for t, index in enumerate(ids[: gold.size(1) - 1]):
            theirs[row, t + 1] = index
    positions = torch.arange(gold.size(1))
    return torch.where((positions <= k) & (theirs != PAD_ID), theirs, gold)


def loss_after(model, src, tgt, own, k):
    memory = model.encode(src)
    labels = tgt[:, 1 + k :]
    losses = []
    for inputs in (tgt[:, :-1], mixed_inputs(tgt, own, k)):
        logits = model.decode(inputs, memory).logits[:, k:]
        losses.append(float(cross_entropy(logits, labels, PAD_ID)))
    return tuple(losses)


def loss_after_by_labels(model, src, tgt, own, k):
    labels = tgt[:, 1:].clone()
    labels[:, :k] = PAD_ID

    def mean(inputs):
        logits = model(src, inputs)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD_ID)

    return [mean(tgt[:, :-1]), mean(mixed_by_lists(tgt, own, k))]


def loss_after_by_sentences(model, src, tgt, own, k):
    sums, count = [0.0, 0.0], 0
    for row in range(len(src)):
        one = slice(row, row + 1)
        memory = model.encode(src[one])
        labels = tgt[row, 1:]
        counted = [t for t in range(k, len(labels)) if labels[t] != PAD_ID]
        count += len(counted)
        for which, inputs in enumerate((tgt[one, :-1], mixed_inputs(tgt[one], own[one], k))):
            scores = model.decode(inputs, memory).logits[0].log_softmax(-1)
            sums[which] -= sum(float(scores[t, labels[t]]) for t in counted)
    return sums[0] / count, sums[1] / count


def loss_after_by_steps(model, src, tgt, own, k):
    found = []
    for inputs in (tgt[:, :-1], mixed_by_where(tgt, own, k)):
        state, surprises = model.start(model.encode(src)), []
        for t, token in enumerate(inputs.unbind(1)):
            logits, state = model.step(token, state)
            for scores, label in zip(logits.log_softmax(-1), tgt[:, t + 1], strict=True):
                if t >= k and label != PAD_ID:
                    surprises.append(-scores[label])
        found.append(sum(surprises) / len(surprises))
    return found


EXPOSURES = [
    (mixed_inputs, loss_after),
    (mixed_by_lists, loss_after_by_labels),
    (mixed_by_where, loss_after_by_sentences),
    (mixed_inputs, loss_after_by_steps),
]

# Part 5


def counts(lengths, max_len):
    columns = max(lengths) + 1
    return {
        "decode_calls": 1,
        "step_calls": min(columns, max_len),
        "cell_runs": columns,
        "positions": len(lengths) * columns,
        "labels": sum(lengths) + len(lengths),
    }


def counts_by_loops(lengths, max_len):
    found = dict.fromkeys(("labels", "positions", "cell_runs", "step_calls"), 0)
    for column in range(max(lengths) + 1):
        found["cell_runs"] += 1
        found["step_calls"] += column < max_len
        for length in lengths:
            found["positions"] += 1
            found["labels"] += column <= length
    return found | {"decode_calls": 1}


def shapes(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
    return {
        "src_embedded": (batch, src_len, embedding_dim),
        "encoder_outputs": (batch, src_len, 2 * encoder_dim),
        "context": (batch, 2 * encoder_dim),
        "first_state": (batch, decoder_dim),
        "cell_input": (batch, embedding_dim + 2 * encoder_dim),
        "logits": (batch, tgt_len - 1, vocab),
        "step_logits": (batch, vocab),
    }


def shapes_by_building(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
    embedded = torch.zeros(batch, src_len, embedding_dim)
    reader = torch.nn.GRU(embedding_dim, encoder_dim, batch_first=True, bidirectional=True)
    outputs, states = reader(embedded)
    context = torch.cat([states[0], states[1]], dim=-1)
    step_logits = torch.zeros(batch, vocab)
    return {
        "src_embedded": embedded.shape,
        "encoder_outputs": outputs.shape,
        "context": context.shape,
        "first_state": torch.nn.Linear(encoder_dim, decoder_dim)(states[1]).shape,
        "cell_input": torch.cat([embedded[:, 0], context], dim=-1).shape,
        "logits": list(torch.stack([step_logits] * (tgt_len - 1), dim=1).shape),
        "step_logits": step_logits.shape,
        "something else": None,
    }


PREDICTIONS = [(counts, shapes), (counts_by_loops, shapes_by_building)]

# Part 6


def training_step(model, optimizer, src, tgt, clip_norm):
    model.train()
    inputs, labels = tgt[:, :-1], tgt[:, 1:]
    logits = model(src, inputs)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD_ID)
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


def training_step_by_hand(model, optimizer, src, tgt, clip_norm):
    """The gradients are shortened by hand."""
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
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
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


STEPS = [
    training_step,
    training_step_by_hand,
    training_step_detached,
    training_step_forgetting_afterwards,
]

# Each part's right answers, by the name of its check
RIGHT = {
    "targets": TARGETS,
    "loss": LOSSES,
    "free_running": WRITERS,
    "exposure": EXPOSURES,
    "predictions": PREDICTIONS,
    "bug_hunt": STEPS,
}
