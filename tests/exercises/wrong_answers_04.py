"""Plausible wrong answers to 04_encoder_and_decoder, with words of the message that each gets."""

import torch
import torch.nn.functional as F
from right_answers_04 import (
    counts,
    loss_after,
    make_targets,
    mixed_inputs,
    shapes,
    shift_right,
    teacher_forced_loss,
    training_step,
    write,
)
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

from attentively.decoding import greedy_search
from attentively.losses import cross_entropy as cross_entropy_of_the_package
from attentively.vocabulary import END_ID, PAD_ID, START_ID

# Part 1


def stacked(rows, pad_id):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows])


def without_end(sentences, start_id, end_id, pad_id):
    return stacked([[start_id, *ids] for ids in sentences], pad_id)


def without_start(sentences, start_id, end_id, pad_id):
    return stacked([[*ids, end_id] for ids in sentences], pad_id)


def words_only(sentences, start_id, end_id, pad_id):
    return stacked(sentences, pad_id)


def end_after_padding(sentences, start_id, end_id, pad_id):
    rows = stacked(sentences, pad_id).tolist()
    return torch.tensor([[start_id, *row, end_id] for row in rows])


def padding_in_front(sentences, start_id, end_id, pad_id):
    longest = max(map(len, sentences))
    return torch.tensor(
        [[*[pad_id] * (longest - len(ids)), start_id, *ids, end_id] for ids in sentences]
    )


def filled_with_ends(sentences, start_id, end_id, pad_id):
    return stacked([[start_id, *ids, end_id] for ids in sentences], end_id)


def cut_to_the_shortest(sentences, start_id, end_id, pad_id):
    shortest = min(map(len, sentences))
    return torch.tensor([[start_id, *ids[:shortest], end_id] for ids in sentences])


def start_for_end(sentences, start_id, end_id, pad_id):
    return make_targets(sentences, end_id, start_id, pad_id)


def ids_of_the_package(sentences, start_id, end_id, pad_id):
    return make_targets(sentences, START_ID, END_ID, PAD_ID)


def filled_with_zero(sentences, start_id, end_id, pad_id):
    return make_targets(sentences, start_id, end_id, 0)


def not_padded(sentences, start_id, end_id, pad_id):
    return torch.tensor([[start_id, *ids, end_id] for ids in sentences])


def as_lists(sentences, start_id, end_id, pad_id):
    return make_targets(sentences, start_id, end_id, pad_id).tolist()


def as_floats(sentences, start_id, end_id, pad_id):
    return make_targets(sentences, start_id, end_id, pad_id).float()


def shifted_left(tgt):
    return tgt[:, 1:], tgt[:, :-1]


def not_shifted(tgt):
    return tgt[:, :-1], tgt[:, :-1]


def whole_twice(tgt):
    return tgt, tgt


def end_fed_in(tgt):
    return tgt, tgt[:, 1:]


def start_a_label(tgt):
    return tgt[:, :-1], tgt


def answers_fed_in(tgt):
    return tgt[:, 1:], tgt[:, 1:]


def end_cut_off(tgt):
    return tgt[:, :-1], tgt[:, 1:-1]


def rolled_labels(tgt):
    return tgt, tgt.roll(-1, dims=1)


def rolled_inputs(tgt):
    return tgt.roll(1, dims=1), tgt


def by_two(tgt):
    return tgt[:, :-2], tgt[:, 2:]


def rows_cut(tgt):
    return tgt[:-1], tgt[1:]


def start_put_in_front(tgt):
    return torch.cat([torch.full((len(tgt), 1), START_ID), tgt[:, :-1]], dim=1), tgt


def inputs_only(tgt):
    return tgt[:, :-1]


TARGETS = [
    ((without_end, shift_right), "The end token is missing"),
    ((without_start, shift_right), "The start token is missing"),
    ((words_only, shift_right), "Start token and end token are missing"),
    ((end_after_padding, shift_right), "The end token is after the padding"),
    ((padding_in_front, shift_right), "The padding is on the left"),
    ((filled_with_ends, shift_right), "Rows are padded with the end token"),
    ((cut_to_the_shortest, shift_right), "cut to the length of the shortest"),
    ((start_for_end, shift_right), "Start token and end token are exchanged"),
    ((ids_of_the_package, shift_right), "These are the ids of the package's vocabulary"),
    ((filled_with_zero, shift_right), "Rows are padded with 0"),
    ((not_padded, shift_right), "Your code raises ValueError"),
    ((as_lists, shift_right), "as a torch.Tensor, got a list"),
    ((as_floats, shift_right), "Ids are integers"),
    ((make_targets, shifted_left), "shifted left"),
    ((make_targets, not_shifted), "the labels equal the inputs"),
    ((make_targets, whole_twice), "the target is not shifted"),
    ((make_targets, end_fed_in), "this end token is not an input"),
    ((make_targets, start_a_label), "the start token is a label. It is never predicted"),
    ((make_targets, answers_fed_in), "the inputs equal the labels"),
    ((make_targets, end_cut_off), "the labels lack the last column"),
    ((make_targets, rolled_labels), "torch.roll moves the tokens"),
    ((make_targets, rolled_inputs), "torch.roll moves the tokens"),
    ((make_targets, by_two), "shifted by two positions"),
    ((make_targets, rows_cut), "a sentence is removed instead of a column"),
    ((make_targets, start_put_in_front), "a second start token is added"),
    ((make_targets, inputs_only), "Expected a pair"),
]

# Part 2


def logits_of(model, src, inputs, src_mask=None):
    return model.decode(inputs, model.encode(src, src_mask)).logits


def cross_entropy(logits, labels, pad_id):
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=pad_id)


def loss_by_the_package(model, src, tgt):
    logits = logits_of(model, src, tgt[:, :-1])
    return cross_entropy_of_the_package(logits, tgt[:, 1:], PAD_ID)


def loss_over_inputs(model, src, tgt):
    inputs = tgt[:, :-1]
    return cross_entropy(logits_of(model, src, inputs), inputs, PAD_ID)


def loss_over_the_whole(model, src, tgt):
    return cross_entropy(logits_of(model, src, tgt), tgt, PAD_ID)


def loss_with_leak(model, src, tgt):
    return cross_entropy(logits_of(model, src, tgt[:, 1:]), tgt[:, 1:], PAD_ID)


def loss_exchanged(model, src, tgt):
    return cross_entropy(logits_of(model, src, tgt[:, 1:]), tgt[:, :-1], PAD_ID)


def surprises_of(model, src, tgt):
    logits = logits_of(model, src, tgt[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], reduction="none")


def loss_with_padding(model, src, tgt):
    return surprises_of(model, src, tgt).mean()


def loss_with_padding_below(model, src, tgt):
    real = tgt[:, 1:] != PAD_ID
    return (surprises_of(model, src, tgt) * real).mean()


def loss_over_all_tokens(model, src, tgt):
    return loss_summed(model, src, tgt) / tgt.numel()


def loss_of_sentence_means(model, src, tgt):
    real = (tgt[:, 1:] != PAD_ID).float()
    return ((surprises_of(model, src, tgt) * real).sum(1) / real.sum(1)).mean()


def loss_summed(model, src, tgt):
    return surprises_of(model, src, tgt)[tgt[:, 1:] != PAD_ID].sum()


def loss_a_sentence(model, src, tgt):
    return loss_summed(model, src, tgt) / len(src)


def loss_without_end(model, src, tgt):
    labels = tgt[:, 1:]
    return surprises_of(model, src, tgt)[(labels != PAD_ID) & (labels != END_ID)].mean()


def loss_reading_padding(model, src, tgt):
    everything = torch.ones(len(src), 1, src.size(1), dtype=torch.bool)
    return cross_entropy(logits_of(model, src, tgt[:, :-1], everything), tgt[:, 1:], PAD_ID)


def loss_of_probabilities(model, src, tgt):
    return cross_entropy(logits_of(model, src, tgt[:, :-1]).softmax(-1), tgt[:, 1:], PAD_ID)


def loss_as_perplexity(model, src, tgt):
    return teacher_forced_loss(model, src, tgt).exp()


def loss_negative(model, src, tgt):
    return -teacher_forced_loss(model, src, tgt)


def loss_in_bits(model, src, tgt):
    return teacher_forced_loss(model, src, tgt) / torch.tensor(2.0).log()


def loss_as_a_number(model, src, tgt):
    return teacher_forced_loss(model, src, tgt).item()


def loss_without_gradient(model, src, tgt):
    with torch.no_grad():
        return teacher_forced_loss(model, src, tgt)


def loss_of_each_label(model, src, tgt):
    return surprises_of(model, src, tgt)


def loss_of_the_output(model, src, tgt):
    output = model.decode(tgt[:, :-1], model.encode(src))
    return F.cross_entropy(output, tgt[:, 1:])


def loss_without_the_encoder(model, src, tgt):
    with torch.no_grad():
        memory = model.encode(src)
    return cross_entropy(model.decode(tgt[:, :-1], memory).logits, tgt[:, 1:], PAD_ID)


def loss_reshaped(model, src, tgt):
    logits = logits_of(model, src, tgt[:, :-1])
    batch, length, vocab = logits.shape
    logits = logits.reshape(batch, vocab, length)
    return F.cross_entropy(logits, tgt[:, 1:], ignore_index=PAD_ID)


def loss_shifted_twice(model, src, tgt):
    logits = logits_of(model, src, tgt)[:, 1:]
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD_ID)


def loss_after_own_words(model, src, tgt):
    state = model.start(model.encode(src))
    token, losses = tgt[:, 0], []
    for labels in tgt[:, 1:].unbind(dim=1):
        logits, state = model.step(token, state)
        losses.append(F.cross_entropy(logits, labels, ignore_index=PAD_ID, reduction="sum"))
        token = logits.argmax(dim=-1)
    return sum(losses) / (tgt[:, 1:] != PAD_ID).sum()


def loss_of_the_mean_probability(model, src, tgt):
    return -(-surprises_of(model, src, tgt)[tgt[:, 1:] != PAD_ID]).exp().mean()


def output_returned(model, src, tgt):
    return model.decode(tgt[:, :-1], model.encode(src))


LOSSES = [
    (loss_over_inputs, "compared with the inputs instead of the labels"),
    (loss_over_the_whole, "Inputs and labels are the same columns"),
    (loss_with_leak, "The inputs are the labels"),
    (loss_exchanged, "Inputs and labels are exchanged"),
    (loss_with_padding, "Padding is included in the loss"),
    (loss_with_padding_below, "Padding is left out of the sum, but"),
    (loss_over_all_tokens, "divided by the number of entries of tgt"),
    (loss_of_sentence_means, "mean of the means of the sentences"),
    (loss_summed, "This is a sum"),
    (loss_a_sentence, "divided by the number of sentences"),
    (loss_without_end, "The label <end> is left out"),
    (loss_reading_padding, "the encoder reads padding of the source"),
    (loss_of_probabilities, "The softmax is applied twice"),
    (loss_as_perplexity, "This is the perplexity"),
    (loss_negative, "The sign is wrong"),
    (loss_in_bits, "in bits"),
    (loss_as_a_number, "a plain number, which has no gradient"),
    (loss_without_gradient, "no gradient flows through them"),
    (loss_of_each_label, "the mean over all labels of the batch, without padding"),
    (loss_of_the_output, "Your code raises TypeError"),
    (loss_without_the_encoder, "no gradient reaches the encoder's parameters"),
    (loss_reshaped, "reshape mixes"),
    (loss_shifted_twice, "shifted a second time"),
    (loss_after_own_words, "The decoder reads its own outputs"),
    (loss_of_the_mean_probability, "minus the mean of the probabilities"),
    (output_returned, "got the output of decode"),
    (loss_by_the_package, "not accepted. Your code uses"),
]

# Part 3


def free_run(model, src, max_len, *faults):
    """The plain loop with faults, each by its name."""
    src_mask = torch.ones_like(model.source_mask(src)) if "all read" in faults else None
    state = model.start(model.encode(src, src_mask))
    first = token = torch.full((len(src),), START_ID)
    texts = [[START_ID] if "start" in faults else [] for _ in src]
    ended = [False] * len(src)
    for _ in range(max_len + faults.count("more") - faults.count("fewer")):
        logits, after = model.step(token, state)
        if "state" not in faults:
            state = after
        choice = (-logits if "least" in faults else logits).argmax(-1)
        token = first if "again" in faults else choice
        for row, index in enumerate(choice.tolist()):
            if ended[row]:
                if "babble" in faults:
                    texts[row].append(index)
            elif index == END_ID:
                ended[row] = True
                if "end" in faults:
                    texts[row].append(index)
            else:
                texts[row].append(index)
        if all(ended) or ("first end" in faults and any(ended)):
            break
    return texts


def keeps_start(model, src, max_len):
    return free_run(model, src, max_len, "start")


def keeps_end(model, src, max_len):
    return free_run(model, src, max_len, "end")


def keeps_both(model, src, max_len):
    return free_run(model, src, max_len, "start", "end")


def never_stops(model, src, max_len):
    state = model.start(model.encode(src))
    token, columns = torch.full((len(src),), START_ID), []
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        columns.append(token)
    return torch.stack(columns, dim=1).tolist()


def ends_dropped_only(model, src, max_len):
    return [[i for i in row if i != END_ID] for row in never_stops(model, src, max_len)]


def stops_at_the_first_end(model, src, max_len):
    return free_run(model, src, max_len, "first end")


def writes_on(model, src, max_len):
    return free_run(model, src, max_len, "babble")


def padded_texts(model, src, max_len):
    texts = write(model, src, max_len)
    longest = max(map(len, texts))
    return [[*text, *[PAD_ID] * (longest - len(text))] for text in texts]


def state_not_carried(model, src, max_len):
    return free_run(model, src, max_len, "state")


def start_fed_again(model, src, max_len):
    return free_run(model, src, max_len, "again")


def least_likely(model, src, max_len):
    return free_run(model, src, max_len, "least")


def one_word_more(model, src, max_len):
    return free_run(model, src, max_len, "more")


def one_word_fewer(model, src, max_len):
    return free_run(model, src, max_len, "fewer")


def padding_read(model, src, max_len):
    return free_run(model, src, max_len, "all read")


def ends_together_only(model, src, max_len):
    """It waits for a step at which every sentence says END."""
    state = model.start(model.encode(src))
    token, columns = torch.full((len(src),), START_ID), []
    while len(columns) < max_len:
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        columns.append(token)
        if (token == END_ID).all():
            break
    rows = torch.stack(columns, dim=1).tolist()
    return [row[: row.index(END_ID)] if END_ID in row else row for row in rows]


def a_tensor_of_texts(model, src, max_len):
    return torch.tensor(padded_texts(model, src, max_len))


def one_list_for_all(model, src, max_len, until=all):
    state = model.start(model.encode(src))
    token, texts = torch.full((len(src),), START_ID), [[]] * len(src)
    ended = [False] * len(src)
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        for row, index in enumerate(token.tolist()):
            ended[row] = ended[row] or index == END_ID
            if not ended[row]:
                texts[row].append(index)
        if until(ended):
            break
    return texts


def one_list_and_first_end(model, src, max_len):
    return one_list_for_all(model, src, max_len, until=any)


def tokens_in_columns(model, src, max_len):
    state = model.start(model.encode(src))
    token = torch.full((len(src), 1), START_ID)
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=-1, keepdim=True)
    return token.tolist()


def first_text_only(model, src, max_len):
    return write(model, src, max_len)[0]


def hypotheses(model, src, max_len):
    found = write(model, src, max_len)
    return [(ids, 0.0) for ids in found]


def texts_of_the_package(model, src, max_len):
    return [each.ids for each in greedy_search(model, src, max_len)]


WRITERS = [
    (texts_of_the_package, "not accepted. Your code uses"),
    (keeps_start, "<start> is included in the output"),
    (keeps_end, "<end> is included in the output. Return"),
    (keeps_both, "<start> and <end> are included in the output"),
    (never_stops, "tokens are added until max_len"),
    (ends_dropped_only, "<end> is left out, but the tokens after it are included"),
    (stops_at_the_first_end, "The whole batch stops at the first <end>"),
    (writes_on, "receives further tokens while the others continue"),
    (padded_texts, "padded to one length"),
    (state_not_carried, "The state is not updated"),
    (start_fed_again, "The input of each step is <start>"),
    (least_likely, "The least probable token"),
    (one_word_more, "one step too many"),
    (one_word_fewer, "one step too few"),
    (padding_read, "the model reads padding of the source"),
    (ends_together_only, "does not stop when the last sentence has ended"),
    (a_tensor_of_texts, "got a tensor"),
    (one_list_for_all, "All sentences share one list"),
    (one_list_and_first_end, "All sentences share one list"),
    (tokens_in_columns, "token has the shape (1, 1); expected one token per sentence"),
    (first_text_only, "Expected one list of ids per sentence"),
    (hypotheses, "Expected one list of ids per sentence"),
]

# Part 4


def mixed(tgt, own, k, first_column=1):
    inputs = tgt[:, :-1].clone()
    for row, ids in enumerate(own):
        room = int((tgt[row, 1:] != PAD_ID).sum()) - 1
        taken = ids[: max(0, min(k, room, inputs.size(1) - first_column))]
        inputs[row, first_column : first_column + len(taken)] = torch.tensor(taken).long()
    return inputs


def start_overwritten(tgt, own, k):
    return mixed(tgt, own, k, first_column=0)


def k_ignored(tgt, own, k):
    return mixed(tgt, own, tgt.size(1))


def gold_first(tgt, own, k):
    inputs = mixed(tgt, own, tgt.size(1))
    inputs[:, : k + 1] = tgt[:, : k + 1]
    return inputs


def k_counts_start(tgt, own, k):
    return mixed(tgt, own, max(0, k - 1))


def one_more_own(tgt, own, k):
    return mixed(tgt, own, k + 1)


def filled(tgt, own, k, filler):
    inputs = tgt[:, :-1].clone()
    for row, ids in enumerate(own):
        room = int((tgt[row, 1:] != PAD_ID).sum()) - 1
        for t in range(min(k, room)):
            inputs[row, t + 1] = ids[t] if t < len(ids) else filler
    return inputs


def filled_with_padding(tgt, own, k):
    return filled(tgt, own, k, PAD_ID)


def filled_with_end(tgt, own, k):
    return filled(tgt, own, k, END_ID)


def uncut(tgt, own, k):
    return torch.cat([mixed_inputs(tgt, own, k), tgt[:, -1:]], dim=1)


def put_in_before(tgt, own, k):
    rows = [[START_ID, *ids[:k], *gold[1:]] for ids, gold in zip(own, tgt.tolist(), strict=True)]
    return torch.tensor([row[: tgt.size(1) - 1] for row in rows])


def first_row_only(tgt, own, k):
    return mixed_inputs(tgt, [own[0]] * len(own), k)


def stretched(tgt, own, k):
    inputs = tgt[:, :-1].clone()
    for row, ids in enumerate(own):
        inputs[row, 1 : k + 1] = torch.tensor(ids[:k])
    return inputs


def gold_throughout(tgt, own, k):
    return tgt[:, :-1]


def written_into_tgt(tgt, own, k):
    for row, ids in enumerate(own):
        room = int((tgt[row, 1:] != PAD_ID).sum()) - 1
        taken = ids[: min(k, room)]
        tgt[row, 1 : 1 + len(taken)] = torch.tensor(taken).long()
    return tgt[:, :-1]


def mixed_as_lists(tgt, own, k):
    return mixed_inputs(tgt, own, k).tolist()


def after(model, src, tgt, inputs, labels):
    logits = model.decode(inputs, model.encode(src)).logits
    return float(cross_entropy(logits, labels, PAD_ID))


def labels_from(tgt, first):
    labels = tgt[:, 1:].clone()
    labels[:, :first] = PAD_ID
    return labels


def both(model, src, tgt, own, k, labels):
    return tuple(
        after(model, src, tgt, inputs, labels)
        for inputs in (tgt[:, :-1], mixed_inputs(tgt, own, k))
    )


def all_labels(model, src, tgt, own, k):
    return both(model, src, tgt, own, k, tgt[:, 1:])


def too_early(model, src, tgt, own, k):
    return both(model, src, tgt, own, k, labels_from(tgt, max(0, k - 1)))


def too_late(model, src, tgt, own, k):
    labels = labels_from(tgt, k + 1)
    return both(model, src, tgt, own, k, labels if (labels != PAD_ID).any() else tgt[:, 1:])


def before_k(model, src, tgt, own, k):
    labels = tgt[:, 1:].clone()
    labels[:, k:] = PAD_ID
    return both(model, src, tgt, own, k, labels if k else tgt[:, 1:])


def turned_pair(model, src, tgt, own, k):
    return loss_after(model, src, tgt, own, k)[::-1]


def surprises_after(model, src, tgt, inputs):
    logits = model.decode(inputs, model.encode(src)).logits
    return F.cross_entropy(logits.transpose(1, 2), tgt[:, 1:], reduction="none")


def padding_after(model, src, tgt, own, k):
    return tuple(
        float(surprises_after(model, src, tgt, inputs)[:, k:].mean())
        for inputs in (tgt[:, :-1], mixed_inputs(tgt, own, k))
    )


def sentence_means_after(model, src, tgt, own, k):
    real = labels_from(tgt, k) != PAD_ID
    means = []
    for inputs in (tgt[:, :-1], mixed_inputs(tgt, own, k)):
        surprises = surprises_after(model, src, tgt, inputs) * real
        some = real.any(1)
        means.append(float((surprises.sum(1)[some] / real.sum(1)[some]).mean()))
    return tuple(means)


def label_k_only(model, src, tgt, own, k):
    labels = labels_from(tgt, k)
    labels[:, k + 1 :] = PAD_ID
    return both(model, src, tgt, own, k, labels)


def end_not_counted(model, src, tgt, own, k):
    labels = labels_from(tgt, k)
    labels[labels == END_ID] = PAD_ID
    return both(model, src, tgt, own, k, labels)


def divided_by_all(model, src, tgt, own, k):
    share = (labels_from(tgt, k) != PAD_ID).sum() / (tgt[:, 1:] != PAD_ID).sum()
    return tuple(loss * float(share) for loss in loss_after(model, src, tgt, own, k))


def own_labels(model, src, tgt, own, k):
    inputs = mixed_inputs(tgt, own, k)
    labels = torch.cat([inputs[:, 1:], tgt[:, -1:]], dim=1)
    return after(model, src, tgt, tgt[:, :-1], tgt[:, 1:]), after(model, src, tgt, inputs, labels)


def unshifted(model, src, tgt, own, k):
    return tuple(
        cross_entropy(
            model.decode(inputs, model.encode(src)).logits[:, k:],
            tgt[:, k:-1],
            PAD_ID,
        ).item()
        for inputs in (tgt[:, :-1], mixed_inputs(tgt, own, k))
    )


def summed_after(model, src, tgt, own, k):
    real = labels_from(tgt, k) != PAD_ID
    return tuple(
        float((surprises_after(model, src, tgt, inputs) * real).sum())
        for inputs in (tgt[:, :-1], mixed_inputs(tgt, own, k))
    )


def own_throughout(model, src, tgt, own, k):
    labels = labels_from(tgt, k)
    return tuple(
        after(model, src, tgt, inputs, labels) for inputs in (tgt[:, :-1], k_ignored(tgt, own, k))
    )


def gold_twice(model, src, tgt, own, k):
    return (loss_after(model, src, tgt, own, k)[0],) * 2


def own_twice(model, src, tgt, own, k):
    return (loss_after(model, src, tgt, own, k)[1],) * 2


def rest_own(model, src, tgt, own, k):
    labels = labels_from(tgt, k)
    return tuple(
        after(model, src, tgt, inputs, labels) for inputs in (tgt[:, :-1], gold_first(tgt, own, k))
    )


def difference_only(model, src, tgt, own, k):
    gold, theirs = loss_after(model, src, tgt, own, k)
    return theirs - gold


EXPOSURES = [
    ((start_overwritten, loss_after), "the first own word replaces <start>"),
    ((k_ignored, loss_after), "all own words are used"),
    ((gold_first, loss_after), "the first k words are the reference"),
    ((k_counts_start, loss_after), "k - 1 words are replaced"),
    ((one_more_own, loss_after), "k + 1 words are replaced"),
    ((filled_with_padding, loss_after), "padding where the own output has no more words"),
    ((filled_with_end, loss_after), "<end> is inserted where the own output has no more words"),
    ((stretched, loss_after), "PyTorch broadcasts its only word"),
    ((put_in_before, loss_after), "inserted before the reference words"),
    ((uncut, loss_after), "The inputs lack its last column"),
    ((first_row_only, loss_after), "the own words of the first sentence"),
    ((gold_throughout, loss_after), "no word is replaced"),
    ((written_into_tgt, loss_after), "changes its input tgt"),
    ((mixed_as_lists, loss_after), "as a torch.Tensor, got a list"),
    ((mixed_inputs, all_labels), "all labels are included"),
    ((mixed_inputs, too_early), "is one too early"),
    ((mixed_inputs, too_late), "is one too late"),
    ((mixed_inputs, before_k), "the labels before index k"),
    ((mixed_inputs, turned_pair), "the two losses are exchanged"),
    ((mixed_inputs, padding_after), "padding is included"),
    ((mixed_inputs, sentence_means_after), "the mean of the means of the sentences"),
    ((mixed_inputs, unshifted), "The label with index k is in column k + 1"),
    ((mixed_inputs, summed_after), "this is a sum. Return the mean"),
    ((mixed_inputs, own_throughout), "all own words are inputs"),
    ((mixed_inputs, gold_twice), "both losses are after reference inputs"),
    ((mixed_inputs, own_twice), "both losses are after mixed inputs"),
    ((mixed_inputs, rest_own), "the first k inputs are the reference"),
    ((mixed_inputs, own_labels), "the labels are own words"),
    ((mixed_inputs, label_k_only), "only the label with index k is included"),
    ((mixed_inputs, end_not_counted), "the label <end> is left out"),
    ((mixed_inputs, divided_by_all), "divided by the number of all labels"),
    ((mixed_inputs, difference_only), "Expected a pair"),
]

# Part 5


def counts_with(**changes):
    def changed(lengths, max_len):
        wrong = {key: answer(lengths, max_len) for key, answer in changes.items()}
        return counts(lengths, max_len) | wrong

    return changed


def shapes_with(**changes):
    def changed(**sizes):
        wrong = {key: answer(**sizes) for key, answer in changes.items()}
        return shapes(**sizes) | wrong

    def in_order(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
        return changed(
            batch=batch,
            src_len=src_len,
            tgt_len=tgt_len,
            embedding_dim=embedding_dim,
            encoder_dim=encoder_dim,
            decoder_dim=decoder_dim,
            vocab=vocab,
        )

    return in_order


def shapes_not_all(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab):
    found = shapes(batch, src_len, tgt_len, embedding_dim, encoder_dim, decoder_dim, vocab)
    del found["context"]
    return found


def counts_as_a_list(lengths, max_len):
    return [*counts(lengths, max_len).values()]


def counts_wrong(words, **changes):
    return (counts_with(**changes), shapes), words


def shapes_wrong(words, **changes):
    return (counts, shapes_with(**changes)), words


PREDICTIONS = [
    counts_wrong("one call decodes all positions", decode_calls=lambda n, m: max(n) + 1),
    counts_wrong("the loop stops after max_len calls", step_calls=lambda n, m: max(n) + 1),
    counts_wrong("the output <end> also needs a call", step_calls=lambda n, m: min(max(n), m)),
    counts_wrong("when the last sentence has ended, before max_len", step_calls=lambda n, m: m),
    counts_wrong("processed together", step_calls=lambda n, m: sum(n) + len(n)),
    counts_wrong("processed together", step_calls=lambda n, m: len(n) * (max(n) + 1)),
    counts_wrong("each input is the previous output", step_calls=lambda n, m: 1),
    counts_wrong("still needs as many steps", cell_runs=lambda n, m: 1),
    counts_wrong("the last word must be read", cell_runs=lambda n, m: max(n)),
    counts_wrong("one run per column of the inputs", cell_runs=lambda n, m: max(n) + 2),
    counts_wrong("logits are also computed at padding", positions=lambda n, m: sum(n) + len(n)),
    counts_wrong("one column is missing", positions=lambda n, m: len(n) * max(n)),
    counts_wrong("the label <end> of each sentence is missing", labels=lambda n, m: sum(n)),
    counts_wrong(
        "The loss leaves out labels that are padding", labels=lambda n, m: len(n) * (max(n) + 1)
    ),
    counts_wrong("<start> is never a label", labels=lambda n, m: sum(n) + 2 * len(n)),
    shapes_wrong(
        "the last axis is embedding_dim",
        src_embedded=lambda batch, src_len, **_: (batch, src_len),
    ),
    shapes_wrong(
        "the forward and the backward GRU are concatenated",
        encoder_outputs=lambda batch, src_len, encoder_dim, **_: (batch, src_len, encoder_dim),
    ),
    shapes_wrong(
        "one vector for the whole source",
        context=lambda batch, src_len, encoder_dim, **_: (batch, src_len, 2 * encoder_dim),
    ),
    shapes_wrong(
        "no layer maps it to decoder_dim",
        context=lambda batch, decoder_dim, **_: (batch, decoder_dim),
    ),
    shapes_wrong(
        "the bridge maps the last backward state to decoder_dim",
        first_state=lambda batch, encoder_dim, **_: (batch, encoder_dim),
    ),
    shapes_wrong(
        "the cell also reads the context",
        cell_input=lambda batch, embedding_dim, **_: (batch, embedding_dim),
    ),
    shapes_wrong(
        "the context contains the states of both GRUs",
        cell_input=lambda batch, embedding_dim, encoder_dim, **_: (
            batch,
            embedding_dim + encoder_dim,
        ),
    ),
    shapes_wrong(
        "tgt_len includes <start> and <end>",
        logits=lambda batch, tgt_len, vocab, **_: (batch, tgt_len, vocab),
    ),
    shapes_wrong(
        "one column shorter than the targets, not two",
        logits=lambda batch, tgt_len, vocab, **_: (batch, tgt_len - 2, vocab),
    ),
    shapes_wrong(
        "there is no axis of positions",
        step_logits=lambda batch, vocab, **_: (batch, 1, vocab),
    ),
    ((counts, shapes_not_all), "the dict has no key 'context'"),
    ((counts_as_a_list, shapes), "expected a dict"),
]

# Part 6


def step_with(*faults):
    def training_step(model, optimizer, src, tgt, clip_norm):
        model.eval() if "eval" in faults else model.train()
        src_mask = torch.ones_like(model.source_mask(src)) if "mask" in faults else None
        inputs, labels = tgt[:, :-1], tgt[:, 1:]
        if "leak" in faults:
            inputs = labels
        if "whole" in faults:
            inputs = labels = tgt
        if "inputs" in faults:
            labels = inputs
        logits = model.decode(inputs, model.encode(src, src_mask)).logits
        how = {} if "padding" in faults else {"ignore_index": PAD_ID}
        if "sum" in faults:
            how["reduction"] = "sum"
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **how)
        if not {"keep", "forget last"} & set(faults):
            optimizer.zero_grad()
        if "clip first" in faults:
            clip_grad_norm_(model.parameters(), clip_norm)
        loss.backward()
        if "zero late" in faults:
            optimizer.zero_grad()
        if "always" in faults:
            norm = clip_grad_norm_(model.parameters(), float("inf"))
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad *= clip_norm / norm
        elif not {"clip", "clip first"} & set(faults):
            if "each" in faults:
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        clip_grad_norm_([parameter], clip_norm)
            else:
                clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        if "clip" in faults:
            clip_grad_norm_(model.parameters(), clip_norm)
        if "forget last" in faults:
            optimizer.zero_grad()
        if "twice" in faults:
            optimizer.step()
        return loss if "graph" in faults else loss.item()

    return training_step


def values_cut_off(model, optimizer, src, tgt, clip_norm):
    loss = teacher_forced_loss(model.train(), src, tgt)
    optimizer.zero_grad()
    loss.backward()
    clip_grad_value_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


def after_the_step(model, optimizer, src, tgt, clip_norm):
    training_step(model, optimizer, src, tgt, clip_norm)
    with torch.no_grad():
        return teacher_forced_loss(model, src, tgt).item()


def as_it_was(model, optimizer, src, tgt, clip_norm):
    model.eval()
    src_mask = torch.ones_like(model.source_mask(src))
    labels = tgt[:, 1:]
    logits = model.decode(labels, model.encode(src, src_mask)).logits
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    optimizer.step()
    clip_grad_norm_(model.parameters(), clip_norm)
    return loss.item()


STEPS = [
    (as_it_was, "The target leaks"),
    (step_with("leak"), "The target leaks"),
    (step_with("whole"), "The decoder reads <end>"),
    (step_with("mask"), "reads padding of the source like tokens"),
    (step_with("eval"), "evaluation mode"),
    (step_with("padding"), "Padding is included in the loss"),
    (step_with("inputs"), "compared with the inputs instead of the labels"),
    (step_with("sum"), "this is a sum"),
    (step_with("graph"), "still refers to the computation graph"),
    (step_with("clip"), "Clip them after backward and before optimizer.step()"),
    (step_with("clip first"), "Clip them after backward and before optimizer.step()"),
    (step_with("always"), "clip_norm are enlarged"),
    (step_with("keep"), "gradients of an earlier step or of other code"),
    (step_with("forget last"), "of other code are still stored"),
    (step_with("zero late"), "the parameters do not change"),
    (step_with("each"), "each parameter is clipped separately"),
    (step_with("twice"), "is called 2 times"),
    (values_cut_off, "each entry of the gradients is clipped separately"),
    (after_the_step, "decode is called 2 times"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "targets": TARGETS,
    "loss": LOSSES,
    "free_running": WRITERS,
    "exposure": EXPOSURES,
    "predictions": PREDICTIONS,
    "bug_hunt": STEPS,
}

# Whole notebooks handed in
NEVER_STOPS = """
def write(model, src, max_len):
    state = model.start(model.encode(src))
    token, texts = torch.full((len(src),), START_ID), [[] for _ in src]
    for _ in range(max_len):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=-1)
        for text, index in zip(texts, token.tolist()):
            text.append(index)
    return texts
"""
GRADIENTS_KEPT = """
def training_step(model, optimizer, src, tgt, clip_norm):
    model.train()
    logits = model.decode(tgt[:, :-1], model.encode(src)).logits
    loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD_ID)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "never_stops": (
        {"free-running": NEVER_STOPS},
        ["free-running-check"],
        "tokens are added until max_len",
    ),
    "gradients_kept": (
        {"bug-hunt": GRADIENTS_KEPT},
        ["bug-hunt-check"],
        "gradients of an earlier step or of other code",
    ),
}
