"""Answers to the parts of recurrent networks, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attentively import recurrent, recurrent_cells
from attentively.checks.edits import edited_source
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
GRUCell, read_both_ways, clip = questions.GRUCell, questions.read_both_ways, questions.clip
parameters, fixed_encoder = questions.parameters, questions.fixed_encoder

# Part 1


class ByBlocks(GRUCell):
    """Nine products, as the equations stand."""

    def forward(self, x, state):
        W_r, W_z, W_n = self.weight_ih.split(self.hidden_size)
        U_r, U_z, U_n = self.weight_hh.split(self.hidden_size)
        b_r, b_z, b_n = self.bias_ih.split(self.hidden_size)
        c_r, c_z, c_n = self.bias_hh.split(self.hidden_size)
        r = 1 / (1 + torch.exp(-(x @ W_r.T + b_r + state @ U_r.T + c_r)))
        z = 1 / (1 + torch.exp(-(x @ W_z.T + b_z + state @ U_z.T + c_z)))
        n = (x @ W_n.T + b_n + r * (state @ U_n.T + c_n)).tanh()
        return n + z * (state - n)


class ByEinsum(GRUCell):
    """The three blocks as an axis."""

    def forward(self, x, state):
        H = self.hidden_size
        from_x = torch.einsum("bi,khi->bkh", x, self.weight_ih.view(3, H, -1))
        from_x = from_x + self.bias_ih.view(3, H)
        from_h = torch.einsum("bi,khi->bkh", state, self.weight_hh.view(3, H, H))
        from_h = from_h + self.bias_hh.view(3, H)
        gates = (from_x[:, :2] + from_h[:, :2]).sigmoid()
        n = (from_x[:, 2] + gates[:, 0] * from_h[:, 2]).tanh()
        return torch.lerp(n, state, gates[:, 1])


class OneSentenceAtATime(GRUCell):
    def forward(self, x, state):
        rows = []
        for word, h in zip(x, state, strict=True):
            a = self.weight_ih.mv(word) + self.bias_ih
            b = self.weight_hh.mv(h) + self.bias_hh
            size = len(h)
            r, z = (a + b)[: 2 * size].sigmoid().split(size)
            n = torch.tanh(a[2 * size :] + r * b[2 * size :])
            rows.append(h * z + n * (1 - z))
        return torch.stack(rows)


class OtherNames(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)


def not_a_module(input_size, hidden_size):
    return lambda x, state: state


# Part 2


def sentence_by_sentence(forward_cell, backward_cell, embedded, lengths):
    hidden = forward_cell.hidden_size
    annotations = torch.zeros(len(embedded), embedded.size(1), 2 * hidden)
    last = []
    for i, length in enumerate(lengths.tolist()):
        h = torch.zeros(1, hidden)
        for j in range(length):
            h = forward_cell(embedded[i : i + 1, j], h)
            annotations[i, j, :hidden] = h[0]
        h = torch.zeros(1, hidden)
        for j in range(length - 1, -1, -1):
            h = backward_cell(embedded[i : i + 1, j], h)
            annotations[i, j, hidden:] = h[0]
        last.append(h)
    return annotations, torch.cat(last)


def reversed_sentences(forward_cell, backward_cell, embedded, lengths):
    """Reverse the words of each sentence, process them, and reverse the states."""
    annotations, state = not_masked(forward_cell, backward_cell, embedded, lengths)
    mask = torch.arange(embedded.size(1)) < lengths[:, None]
    return annotations.masked_fill(~mask[..., None], 0.0), state


def not_masked(forward_cell, backward_cell, embedded, lengths):
    src_len = embedded.size(1)
    j = torch.arange(src_len)
    order = torch.where(j < lengths[:, None], lengths[:, None] - 1 - j, j)

    def turn(values):
        return values.gather(1, order[..., None].expand_as(values))

    def read(cell, words):
        states = []
        h = torch.zeros(len(words), cell.hidden_size)
        for t in range(src_len):
            h = cell(words[:, t], h)
            states.append(h)
        return torch.stack(states, 1)

    ahead, back = read(forward_cell, embedded), turn(read(backward_cell, turn(embedded)))
    return torch.cat([ahead, back], 2), back[:, 0]


def by_multiplying_the_mask(forward_cell, backward_cell, embedded, lengths):
    batch, src_len, _ = embedded.shape
    ahead, back = [], []
    h = g = torch.zeros(batch, forward_cell.hidden_size)
    for j in range(src_len):
        on = (j < lengths).float()[:, None]
        h = on * forward_cell(embedded[:, j], h)
        ahead.append(h)
    for j in reversed(range(src_len)):
        on = (j < lengths).float()[:, None]
        g = on * backward_cell(embedded[:, j], g)
        back.insert(0, g)
    return torch.stack([torch.cat(pair, -1) for pair in zip(ahead, back, strict=True)], 1), g


def weights_in_a_layer(forward_cell, backward_cell):
    weights = {f"{name}_l0": value for name, value in forward_cell.named_parameters()}
    return weights | {f"{n}_l0_reverse": value for n, value in backward_cell.named_parameters()}


def packed(forward_cell, backward_cell, embedded, lengths):
    """PyTorch's own way, with the weights of the cells."""
    gru = nn.GRU(embedded.size(-1), forward_cell.hidden_size, batch_first=True, bidirectional=True)
    sequence = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    weights = weights_in_a_layer(forward_cell, backward_cell)
    outputs, state = torch.func.functional_call(gru, weights, (sequence,))
    annotations, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.size(1))
    return annotations, state[1]


def by_the_package(forward_cell, backward_cell, embedded, lengths):
    encoder = recurrent.BidirectionalEncoder(embedded.size(-1), forward_cell.hidden_size)
    encoder.gru.load_state_dict(weights_in_a_layer(forward_cell, backward_cell))
    return encoder(embedded, torch.arange(embedded.size(1)) < lengths.unsqueeze(1))


def with_copied_weights(forward_cell, backward_cell, embedded, lengths):
    """The values are right, but the copies are trained, and not the cells."""
    copies = []
    for cell in (forward_cell, backward_cell):
        copies.append(nn.GRUCell(cell.input_size, cell.hidden_size))
        copies[-1].load_state_dict(cell.state_dict())
    return read_both_ways(*copies, embedded, lengths)


# Part 3


def clip_as_one_vector(gradients, max_norm):
    total = torch.cat([each.flatten() for each in gradients]).norm()
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    return tuple(each * factor for each in gradients), total.item()


def clip_by_norms_of_norms(gradients, max_norm):
    total = math.hypot(*(float(torch.linalg.vector_norm(each)) for each in gradients))
    if total <= max_norm:
        return list(gradients), total
    return [each / total * max_norm for each in gradients], total


def clip_by_a_norm_in_64_bits(gradients, max_norm):
    """Times this factor a tensor without axes becomes one of 64 bits, and others do not."""
    total = torch.sqrt(sum(gradient.double().square().sum() for gradient in gradients))
    factor = torch.where(total > max_norm, max_norm / total, 1.0)
    return [gradient * factor for gradient in gradients], total


def clip_in_64_bits(gradients, max_norm):
    return clip([gradient.double() for gradient in gradients], max_norm)


def clip_by_torch(gradients, max_norm):
    copies = [nn.Parameter(torch.zeros_like(each)) for each in gradients]
    for copy, each in zip(copies, gradients, strict=True):
        copy.grad = each.clone()
    total = nn.utils.clip_grad_norm_(copies, max_norm)
    return [copy.grad for copy in copies], total


# Part 4


def parameters_at_once(kind, i, h, n, both):
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * h * (1 + both)
    return rows * (i + (n - 1) * h * (1 + both) + n * (h + 2))


def parameters_by_building(kind, *sizes):
    i, h, n, both = sizes
    network = getattr(nn, kind)(i, h, num_layers=n, bidirectional=both, device="meta")
    return sum(math.prod(each.shape) for each in network.parameters())


def steps_by_walking(lengths, num_layers, bidirectional):
    """The time at which each step is done, a layer after the other."""
    length = max(lengths)
    below = [0] * length
    for _ in range(num_layers):
        ahead, time = [], 0
        for j in range(length):
            time = max(time, below[j]) + 1
            ahead.append(time)
        back, time = [0] * length, 0
        for j in reversed(range(length if bidirectional else 0)):
            time = max(time, below[j]) + 1
            back[j] = time
        below = [max(pair) for pair in zip(ahead, back, strict=True)]
    return max(below)


def steps_as_a_tensor(lengths, num_layers, bidirectional):
    longest = torch.tensor(lengths).max()
    return longest * num_layers if bidirectional else longest - 1 + num_layers


# Part 5


def fixed_as_a_batch(forward_cell, backward_cell, embedded, mask):
    batch, length, _ = embedded.shape

    def read(cell, order):
        h = c = torch.zeros(batch, cell.hidden_size)
        states = [h] * length
        for j in order:
            new_h, new_c = cell(embedded[:, j], (h, c))
            h = torch.where(mask[:, j, None], new_h, h)
            c = torch.where(mask[:, j, None], new_c, c)
            states[j] = h
        return torch.stack(states, 1)

    both = [read(forward_cell, range(length)), read(backward_cell, range(length - 1, -1, -1))]
    annotations = torch.cat(both, -1).masked_fill(~mask[..., None], 0)
    weights = mask / mask.sum(1, keepdim=True)
    return annotations, torch.einsum("bj,bjd->bd", weights, annotations)


def fixed_by_lists(forward_cell, backward_cell, embedded, mask):
    size = forward_cell.hidden_size
    annotations, summaries = [], []
    for words, real in zip(embedded, mask, strict=True):
        n = int(real.sum())
        ahead, back = [], []
        left = right = None  # a cell starts with zeros if it gets no state
        for j in range(n):
            left = forward_cell(words[j : j + 1], left)
            right = backward_cell(words[n - 1 - j : n - j], right)
            ahead.append(left[0])
            back.insert(0, right[0])
        row = torch.cat([torch.cat(ahead), torch.cat(back)], 1)
        summaries.append(row.mean(0))
        annotations.append(torch.cat([row, torch.zeros(len(words) - n, 2 * size)]))
    return torch.stack(annotations), torch.stack(summaries)


def faulty_encoder(forward_cell, backward_cell, embedded, mask):
    """The notebook's, with all five faults."""
    zeros = embedded.new_zeros(1, forward_cell.hidden_size)
    forward_state = backward_state = (zeros, zeros)

    def read(cell, words, state):
        states = []
        for word in words:
            h, c = cell(word.unsqueeze(0), state)
            states.append(h)
            state = h.detach(), c.detach()
        return torch.cat(states), state

    rows = []
    for words in embedded:
        ahead, forward_state = read(forward_cell, words, forward_state)
        back, backward_state = read(backward_cell, words.flip(0), backward_state)
        rows.append(torch.cat([ahead, back], dim=-1))
    annotations = torch.stack(rows) * mask.unsqueeze(-1)
    summaries = annotations.mean(dim=1)
    return annotations, summaries


RIGHT = {
    "GRUCell": [ByBlocks, ByEinsum, OneSentenceAtATime],
    "read_both_ways": [sentence_by_sentence, reversed_sentences, by_multiplying_the_mask, packed],
    "clip": [
        clip_as_one_vector,
        clip_by_norms_of_norms,
        clip_by_a_norm_in_64_bits,
        clip_in_64_bits,
    ],
    "parameters": [parameters_at_once, parameters_by_building],
    "sequential_steps": [steps_by_walking, steps_as_a_tensor],
    "fixed_encoder": [fixed_as_a_batch, fixed_by_lists],
}


# Wrong answers whose message is not a diagnosis of questions.py

DETACHED_H, DETACHED_C = "state[0].detach(), state[1]", "state[0], state[1].detach()"
APPENDED = "states.append(state[0])"


def passing_on(state):
    return f"{APPENDED} -> {APPENDED}\n            state = {state}"


NO_PATH = passing_on("state[0].detach(), state[1].detach()")
PADDED_MEAN = "mask.sum(dim=1, keepdim=True) -> mask.size(1)"
FROM_SENTENCE_TO_SENTENCE = (
    "    rows = [] ->     rows, kept = [], {}",
    "states, state = [], (zeros, zeros) -> states, state = [], kept.get(cell, (zeros, zeros))",
    "return torch.cat(states) -> kept[cell] = state\n        return torch.cat(states)",
)
RETURN = "return annotations, summaries ->"

WRONG = {
    "GRUCell": {
        "GRUCell returns 2 values": "return new_state -> return new_state, new_state",
        "changes its input state": "new_state = -> state *= 2\n        new_state =",
        "no gradient flows through them": "return new_state -> return new_state.detach()",
        "no gradient reaches state": "x_r, x_z -> state = state.detach()\n        x_r, x_z",
        "Your class lacks the parameter(s) bias_hh, bias_ih, weight_hh, weight_ih": OtherNames,
        "Multiply by their transposes": "self.weight_ih.T -> self.weight_ih",
        "Return one state for each sentence": "return new_state -> return new_state[0]",
        "must be a subclass of torch.nn.Module": not_a_module,
        "are not the expected ones, which follow from r = [[": "x_z + h_z -> x_r + h_r",
        # Only the parts inside the trained model are so large.
        "the trained model's weights": (
            "return new_state -> return new_state * (1 if x.size(-1) < 20 else 0.9)"
        ),
        "an exponential is infinite in 32-bit floats": [
            "torch.sigmoid(x_r + h_r) -> (x_r + h_r).exp() / (1 + (x_r + h_r).exp())",
            "n = torch.tanh(x_n + r * h_n) -> "
            "n = x_n + r * h_n\n        n = (n.exp() - (-n).exp()) / (n.exp() + (-n).exp())",
        ],
        "not accepted. Your code uses": [nn.GRUCell, recurrent_cells.GRUCell],
    },
    "read_both_ways": {
        "The annotations at padding are not zero": [
            " * real.unsqueeze(-1) -> ",
            not_masked,
        ],
        "Expected a pair": "return annotations, last -> return annotations",
        "Return one state for each sentence": (
            "return annotations, last -> return annotations, last.unsqueeze(0)"
        ),
        "the path through the states is interrupted": "[:, j], state) -> [:, j], state.detach())",
        "no gradient flows through them": (
            "return annotations, last -> return annotations.detach(), last"
        ),
        "no gradient reaches forward_cell.weight_ih": with_copied_weights,
        "Return two states for each position": (
            "batch, src_len, _ = embedded.shape -> batch, src_len = len(embedded), min(lengths)"
        ),
        "even if every sentence is shorter": (
            "batch, src_len, _ = embedded.shape -> batch, src_len = len(embedded), max(lengths)"
        ),
        "Your code raises RuntimeError": "cell(embedded[:, j] -> cell(embedded[0, j]",
        "the trained model's weights": (
            "return annotations, last -> "
            "return annotations, last if embedded.size(-1) < 20 else 0 * last"
        ),
        "not accepted. Your code uses": by_the_package,
    },
    "clip": {
        "changes its input gradients": "gradient * factor -> gradient.mul_(factor)",
        "Expected a list of 3 clipped tensors": (
            "return clipped -> return torch.cat([each.flatten() for each in clipped])"
        ),
        "Expected a pair": "return clipped, total -> return clipped",
        "The shape of tensor 0 of clipped": "gradient * factor -> gradient.flatten() * factor",
        "There is NaN in tensor 0 of clipped": (  # infinity divided by infinity
            "max_norm / total if total > max_norm else 1.0 -> max_norm / max(total, max_norm)"
        ),
        "The values of tensor 0 of clipped": (
            "for gradient in gradients)) -> for gradient in gradients if gradient.dim() > 1))"
        ),
        # Only the trained model has so many gradients.
        "The values of the clipped gradients": (
            "else 1.0 -> else 1.0\n    factor = factor if len(gradients) < 10 else 1.0"
        ),
        "not accepted. Your code uses": clip_by_torch,
    },
    "parameters": {
        "the number of gates is wrong. A GRU computes three vectors": [
            '"GRU": 3, "LSTM": 4 -> "GRU": 2, "LSTM": 3',
            '"GRU": 3 -> "GRU": 4',
        ],
        "the number of gates is wrong. An RNN has no gates": '"RNN": 1 -> "RNN": 2',
        "the module of PyTorch has a different number": [
            "total = 0 -> total = 1",
            # One recurrent matrix for all gates
            "gates * hidden_size * (layer_input_dim + hidden_size + 2) -> "
            "hidden_size * (gates * (layer_input_dim + 2) + hidden_size)",
        ],
        "as an int, got a float": "return total -> return total / 4",
    },
    "sequential_steps": {
        "the longest chain of dependent steps has a different length": [
            "longest * num_layers if -> longest + 2 * (num_layers - 1) if",
            "longest + num_layers - 1 -> max(longest, num_layers)",
        ],
    },
    "fixed_encoder": {
        "Order: the backward states are in the order in which they were computed": faulty_encoder,
        "Order: the forward half is wrong": (
            "ahead = read(forward_cell, real_words) -> ahead = read(forward_cell, words).flip(0)"
        ),
        "Order: the annotations differ from those of a loop": (
            "backward_cell, real -> forward_cell, real"
        ),
        "Neighbours: the first sentence is correct": FROM_SENTENCE_TO_SENTENCE,
        "Neighbours: the annotations differ": (
            "annotations = torch.stack(rows) -> annotations = torch.stack(rows).flip(0)"
        ),
        "Padding: the forward half is correct": (
            "back = read(backward_cell, real_words.flip(0)).flip(0) -> "
            "back = read(backward_cell, words.flip(0)).flip(0)[: len(real_words)]"
        ),
        "Padding: the annotations at padding must be zero": (
            "len(words) - len(real_words)) -> len(words) - len(real_words)), value=1.0"
        ),
        "Padding: padding changes the forward states": (
            "ahead = read(forward_cell, real_words) -> "
            "ahead = read(forward_cell, torch.cat([words[~real], real_words]))[sum(~real):]"
        ),
        "The shape of annotations is (2, 3, 6), expected (2, 4, 6)": (
            "rows.append(nn.functional.pad(row, (0, 0, 0, len(words) - len(real_words)))) -> "
            "rows.append(row)",
            "torch.stack(rows) -> nn.utils.rnn.pad_sequence(rows, batch_first=True)",
        ),
        "Summary: the summary of a sentence must be the mean": [
            f"{RETURN} return annotations, annotations.max(dim=1).values",
            f"{RETURN} return annotations, (annotations / mask.sum(dim=0)[:, None]).sum(1)",
        ],
        "Gradients: The values are correct, but no gradient reaches": NO_PATH,
        "Gradients: the values are correct and gradients reach every word, but": [
            passing_on(DETACHED_H),
            passing_on(DETACHED_C),
        ],
        "Correct so far: order.": (*FROM_SENTENCE_TO_SENTENCE, NO_PATH),
        "Correct so far: order; neighbours; padding.": (PADDED_MEAN, NO_PATH),
        "no gradient flows through them": f"{RETURN} return annotations, summaries.detach()",
        "Your code raises RuntimeError": "cell(word.unsqueeze(0), state) -> cell(word, state)",
        "in the wrong order: return annotations, summaries": (
            f"{RETURN} return summaries, annotations"
        ),
        "Expected a pair": f"{RETURN} return annotations",
    },
}


HANDED_IN = {
    "from_the_padding": (
        {"both-directions": edited_source(read_both_ways, questions.INTO_PADDING)},
        ["both-directions-check"],
        "The backward RNN starts in the padding",
    ),
}
