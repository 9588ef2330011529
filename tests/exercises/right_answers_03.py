"""Right answers to 03_recurrent_networks, each part written in several ways."""

import math

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# Part 1


class GRUCell(nn.Module):
    """The notebook's cell, as a base for all answers: they differ in `forward`."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.weight_ih = nn.Parameter(torch.randn(3 * hidden_size, input_size) / input_size**0.5)
        self.weight_hh = nn.Parameter(torch.randn(3 * hidden_size, hidden_size) / hidden_size**0.5)
        self.bias_ih = nn.Parameter(torch.zeros(3 * hidden_size))
        self.bias_hh = nn.Parameter(torch.zeros(3 * hidden_size))

    def forward(self, x, state):
        x_r, x_z, x_n = (x @ self.weight_ih.T + self.bias_ih).chunk(3, dim=-1)
        h_r, h_z, h_n = (state @ self.weight_hh.T + self.bias_hh).chunk(3, dim=-1)
        r = torch.sigmoid(x_r + h_r)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        return (1 - z) * n + z * state


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
    """A loop over the batch."""

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


GRU_STEPS = [GRUCell, ByBlocks, ByEinsum, OneSentenceAtATime]


# Part 2


def read_both_ways(forward_cell, backward_cell, embedded, lengths):
    batch, src_len, _ = embedded.shape
    real = torch.arange(src_len) < lengths.unsqueeze(1)

    def read(cell, positions):
        state = embedded.new_zeros(batch, cell.hidden_size)
        states = {}
        for j in positions:
            state = torch.where(real[:, j, None], cell(embedded[:, j], state), state)
            states[j] = state
        return torch.stack([states[j] for j in range(src_len)], dim=1), state

    forward_states, _ = read(forward_cell, range(src_len))
    backward_states, last = read(backward_cell, reversed(range(src_len)))
    annotations = torch.cat([forward_states, backward_states], dim=-1) * real.unsqueeze(-1)
    return annotations, last


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


def by_turning(forward_cell, backward_cell, embedded, lengths):
    """Turn each sentence's words round, read, and turn the states back."""
    src_len = embedded.size(1)
    j = torch.arange(src_len)
    mask = (j < lengths[:, None])[..., None]
    turned = torch.where(j < lengths[:, None], lengths[:, None] - 1 - j, j)

    def turn(values):
        return values.gather(1, turned[..., None].expand_as(values))

    def read(cell, words):
        states = []
        h = torch.zeros(len(words), cell.hidden_size)
        for t in range(src_len):
            h = cell(words[:, t], h)
            states.append(h)
        return torch.stack(states, 1)

    ahead, back = read(forward_cell, embedded), turn(read(backward_cell, turn(embedded)))
    return torch.cat([ahead, back], 2).masked_fill(~mask, 0.0), back[:, 0]


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


def packed(forward_cell, backward_cell, embedded, lengths):
    """PyTorch's own way, with the weights of the cells."""
    gru = nn.GRU(embedded.size(-1), forward_cell.hidden_size, batch_first=True, bidirectional=True)
    weights = {f"{name}_l0": value for name, value in forward_cell.named_parameters()}
    weights |= {f"{name}_l0_reverse": value for name, value in backward_cell.named_parameters()}
    sequence = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    outputs, state = torch.func.functional_call(gru, weights, (sequence,))
    annotations, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.size(1))
    return annotations, state[1]


READERS = [read_both_ways, sentence_by_sentence, by_turning, by_multiplying_the_mask, packed]


# Part 3


def clip(gradients, max_norm):
    total = torch.sqrt(sum((gradient**2).sum() for gradient in gradients))
    factor = max_norm / total if total > max_norm else 1.0
    return [gradient * factor for gradient in gradients], total


def clip_as_one_vector(gradients, max_norm):
    total = torch.cat([each.flatten() for each in gradients]).norm()
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    return tuple(each * factor for each in gradients), total.item()


def clip_by_norms_of_norms(gradients, max_norm):
    total = math.hypot(*(float(torch.linalg.vector_norm(each)) for each in gradients))
    if total <= max_norm:
        return list(gradients), total
    return [each / total * max_norm for each in gradients], total


def clip_by_torch(gradients, max_norm):
    parameters = [nn.Parameter(torch.zeros_like(each)) for each in gradients]
    for parameter, each in zip(parameters, gradients, strict=True):
        parameter.grad = each.clone()
    total = nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters], total


def clip_by_a_norm_in_64_bits(gradients, max_norm):
    """Times this factor a tensor without axes becomes one of 64 bits, and others do not."""
    total = torch.sqrt(sum(gradient.double().square().sum() for gradient in gradients))
    factor = torch.where(total > max_norm, max_norm / total, 1.0)
    return [gradient * factor for gradient in gradients], total


def clip_in_64_bits(gradients, max_norm):
    return clip([gradient.double() for gradient in gradients], max_norm)


CLIPPINGS = [
    clip,
    clip_as_one_vector,
    clip_by_norms_of_norms,
    clip_by_a_norm_in_64_bits,
    clip_in_64_bits,
]


# Part 4


def parameters(kind, input_size, hidden_size, num_layers, bidirectional):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 2 if bidirectional else 1
    total = 0
    for layer in range(num_layers):
        reads = input_size if layer == 0 else directions * hidden_size
        total += directions * gates * hidden_size * (reads + hidden_size + 2)
    return total


def parameters_at_once(kind, i, h, n, both):
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind] * h * (1 + both)
    return rows * (i + (n - 1) * h * (1 + both) + n * (h + 2))


def parameters_by_building(kind, *sizes):
    i, h, n, both = sizes
    network = getattr(nn, kind)(i, h, num_layers=n, bidirectional=both, device="meta")
    return sum(math.prod(each.shape) for each in network.parameters())


def sequential_steps(lengths, num_layers, bidirectional):
    longest = max(lengths)
    return longest * num_layers if bidirectional else longest + num_layers - 1


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


PREDICTIONS = [
    (parameters, sequential_steps),
    (parameters_at_once, steps_by_walking),
    (parameters_by_building, steps_as_a_tensor),
]


# Part 5


def fixed_encoder(forward_cell, backward_cell, embedded, mask):
    zeros = embedded.new_zeros(1, forward_cell.hidden_size)

    def read(cell, words):
        states, state = [], (zeros, zeros)
        for word in words:
            state = cell(word.unsqueeze(0), state)
            states.append(state[0])
        return torch.cat(states)

    rows = []
    for words, real in zip(embedded, mask, strict=True):
        spoken = words[real]
        ahead = read(forward_cell, spoken)
        back = read(backward_cell, spoken.flip(0)).flip(0)
        row = torch.cat([ahead, back], dim=-1)
        rows.append(nn.functional.pad(row, (0, 0, 0, len(words) - len(spoken))))
    annotations = torch.stack(rows)
    summaries = annotations.sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return annotations, summaries


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


BUG_HUNTS = [fixed_encoder, fixed_as_a_batch, fixed_by_lists]

# Each part's right answers, by the name of its check
RIGHT = {
    "gru_step": GRU_STEPS,
    "encoder": READERS,
    "clipping": CLIPPINGS,
    "predictions": PREDICTIONS,
    "bug_hunt": BUG_HUNTS,
}
