"""Plausible wrong answers to 03_recurrent_networks, each with words of the message it must get."""

import torch
from right_answers_03 import (
    GRUCell,
    clip,
    clip_by_torch,
    fixed_encoder,
    parameters,
    read_both_ways,
    sequential_steps,
)
from torch import nn

from attentively import recurrent_cells

# Part 1: (answer, words of its message)


class _Blocks(GRUCell):
    """What input and state say to the three blocks, and the rest to be written."""

    def forward(self, x, state):
        from_x = (x @ self.weight_ih.T + self.bias_ih).chunk(3, dim=-1)
        from_h = (state @ self.weight_hh.T + self.bias_hh).chunk(3, dim=-1)
        return self.step(*from_x, *from_h, state)

    def step(self, x_r, x_z, x_n, h_r, h_z, h_n, h):
        r = torch.sigmoid(x_r + h_r)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(self.inside(r, x_n, h_n))
        return self.mix(z, n, h)

    def inside(self, r, x_n, h_n):
        return x_n + r * h_n

    def mix(self, z, n, h):
        return (1 - z) * n + z * h


class WrongWayRound(_Blocks):
    def mix(self, z, n, h):
        return z * n + (1 - z) * h


class ResetBefore(GRUCell):
    def forward(self, x, state):
        W_r, W_z, W_n = self.weight_ih.chunk(3)
        U_r, U_z, U_n = self.weight_hh.chunk(3)
        b_r, b_z, b_n = self.bias_ih.chunk(3)
        c_r, c_z, c_n = self.bias_hh.chunk(3)
        r = torch.sigmoid(x @ W_r.T + b_r + state @ U_r.T + c_r)
        z = torch.sigmoid(x @ W_z.T + b_z + state @ U_z.T + c_z)
        n = torch.tanh(x @ W_n.T + b_n + (r * state) @ U_n.T + c_n)
        return (1 - z) * n + z * state


class BiasOutside(GRUCell):
    def forward(self, x, state):
        x_r, x_z, x_n = (x @ self.weight_ih.T + self.bias_ih + self.bias_hh).chunk(3, dim=-1)
        h_r, h_z, h_n = (state @ self.weight_hh.T).chunk(3, dim=-1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * h_n)
        return (1 - z) * n + z * state


class NoBiases(_Blocks):
    def forward(self, x, state):
        from_x = (x @ self.weight_ih.T).chunk(3, dim=-1)
        return self.step(*from_x, *(state @ self.weight_hh.T).chunk(3, dim=-1), state)


class NoInputBias(_Blocks):
    def forward(self, x, state):
        from_x = (x @ self.weight_ih.T).chunk(3, dim=-1)
        from_h = (state @ self.weight_hh.T + self.bias_hh).chunk(3, dim=-1)
        return self.step(*from_x, *from_h, state)


class NoStateBias(_Blocks):
    def forward(self, x, state):
        from_x = (x @ self.weight_ih.T + self.bias_ih).chunk(3, dim=-1)
        return self.step(*from_x, *(state @ self.weight_hh.T).chunk(3, dim=-1), state)


class TanhAndSigmoidSwapped(_Blocks):
    def step(self, x_r, x_z, x_n, h_r, h_z, h_n, h):
        r, z = torch.tanh(x_r + h_r), torch.tanh(x_z + h_z)
        return self.mix(z, torch.sigmoid(x_n + r * h_n), h)


class TanhGates(_Blocks):
    def step(self, x_r, x_z, x_n, h_r, h_z, h_n, h):
        r, z = torch.tanh(x_r + h_r), torch.tanh(x_z + h_z)
        return self.mix(z, torch.tanh(x_n + r * h_n), h)


class SigmoidCandidate(_Blocks):
    def step(self, x_r, x_z, x_n, h_r, h_z, h_n, h):
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        return self.mix(z, torch.sigmoid(x_n + r * h_n), h)


class NoTanh(_Blocks):
    def step(self, x_r, x_z, x_n, h_r, h_z, h_n, h):
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        return self.mix(z, x_n + r * h_n, h)


class GatesSwapped(_Blocks):
    def step(self, x_z, x_r, x_n, h_z, h_r, h_n, h):
        return super().step(x_r, x_z, x_n, h_r, h_z, h_n, h)


class CandidateFirst(_Blocks):
    def step(self, x_n, x_r, x_z, h_n, h_r, h_z, h):
        return super().step(x_r, x_z, x_n, h_r, h_z, h_n, h)


class ResetOfAll(_Blocks):
    def inside(self, r, x_n, h_n):
        return r * (x_n + h_n)


class ResetOfTheInput(_Blocks):
    def inside(self, r, x_n, h_n):
        return r * x_n + h_n


class NoReset(_Blocks):
    def inside(self, r, x_n, h_n):
        return x_n + h_n


class CandidateOnly(_Blocks):
    def mix(self, z, n, h):
        return n


class OldStateForgotten(_Blocks):
    def mix(self, z, n, h):
        return (1 - z) * n


class CandidateWhole(_Blocks):
    def mix(self, z, n, h):
        return n + z * h


class TwoStates(_Blocks):
    def mix(self, z, n, h):
        new = (1 - z) * n + z * h
        return new, new


class InPlace(_Blocks):
    def mix(self, z, n, h):
        h *= z
        h += (1 - z) * n
        return h


class Detached(_Blocks):
    def mix(self, z, n, h):
        return (1 - z.detach()) * n.detach() + z.detach() * h.detach()


class StateDetached(_Blocks):
    def forward(self, x, state):
        return super().forward(x, state.detach())


class OtherNames(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.cell = nn.GRUCell(input_size, hidden_size)

    def forward(self, x, state):
        return self.cell(x, state)


class NotTransposed(_Blocks):
    def forward(self, x, state):
        return x @ self.weight_ih + state @ self.weight_hh


class OneStateForAll(_Blocks):
    def forward(self, x, state):
        return super().forward(x, state)[0]


def not_a_module(input_size, hidden_size):
    return lambda x, state: state


class OneGateForBoth(_Blocks):
    def step(self, x_r, x_z, x_n, h_r, h_z, h_n, h):
        return super().step(x_r, x_r, x_n, h_r, h_r, h_n, h)


class NoReturn(_Blocks):
    def mix(self, z, n, h):
        h = (1 - z) * n + z * h


GRU_STEPS = [
    (WrongWayRound, "The shares of the update gate are exchanged"),
    (ResetBefore, "The reset gate is applied before the recurrent matrix"),
    (BiasOutside, "The bias b'_n is added outside"),
    (NoBiases, "bias_ih and bias_hh are missing"),
    (NoInputBias, "bias_ih is missing"),
    (NoStateBias, "bias_hh is missing"),
    (TanhAndSigmoidSwapped, "tanh and sigmoid are exchanged"),
    (TanhGates, "The gates are computed with a tanh"),
    (SigmoidCandidate, "The candidate is computed with a sigmoid"),
    (NoTanh, "The tanh of the candidate is missing"),
    (GatesSwapped, "r and z are exchanged"),
    (CandidateFirst, "The blocks of rows are used in the wrong order"),
    (ResetOfAll, "The reset gate multiplies the whole candidate term"),
    (ResetOfTheInput, "The reset gate multiplies the part of the input"),
    (NoReset, "The reset gate is not used"),
    (CandidateOnly, "These values are the candidate n"),
    (OldStateForgotten, "The share of the old state is missing"),
    (CandidateWhole, "The candidate is added with weight 1"),
    (TwoStates, "GRUCell returns 2 values"),
    (InPlace, "changes its input state"),
    (Detached, "no gradient flows through them"),
    (StateDetached, "no gradient reaches state"),
    (OtherNames, "The names or shapes of the parameters of GRUCell have changed"),
    (NotTransposed, "Multiply by their transposes"),
    (OneStateForAll, "Return one state for each sentence"),
    (not_a_module, "must be a class that derives from torch.nn.Module"),
    (NoReturn, "is there a `return`?"),
    (OneGateForBoth, "from r = [["),
    (nn.GRUCell, "not accepted. Your code uses"),
    (recurrent_cells.GRUCell, "not accepted. Your code uses"),
]


# Part 2


def run(cell, words, state=None):
    """The states after each of the words, (batch, len, hidden)."""
    states = []
    h = torch.zeros(len(words), cell.hidden_size) if state is None else state
    for word in words.unbind(dim=1):
        h = cell(word, h)
        states.append(h)
    return torch.stack(states, dim=1)


def masked(values, n):
    return values * (torch.arange(values.size(1)) < n[:, None])[..., None]


def from_the_padding(f, b, e, n):
    back = run(b, e.flip(1)).flip(1)
    return masked(torch.cat([run(f, e), back], -1), n), back[:, 0]


def from_the_padding_not_zeroed(f, b, e, n):
    back = run(b, e.flip(1)).flip(1)
    return torch.cat([run(f, e), back], -1), back[:, 0]


def from_masked_padding(f, b, e, n):
    """The padding is made zero first, and read all the same: its biases move the state."""
    return from_the_padding(f, b, masked(e, n), n)


def in_reading_order(f, b, e, n):
    back = run(b, e.flip(1))
    return masked(torch.cat([run(f, e), back], -1), n), back[:, -1]


def both_from_the_left(f, b, e, n):
    back = run(b, e)
    return masked(torch.cat([run(f, e), back], -1), n), back[:, -1]


def padding_not_zero(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    hidden = f.hidden_size
    return torch.cat([run(f, e), right[..., hidden:]], -1), last


def states_kept_at_padding(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    hidden = f.hidden_size
    h, ahead = torch.zeros(len(e), hidden), []
    for j in range(e.size(1)):
        h = torch.where((j < n)[:, None], f(e[:, j], h), h)
        ahead.append(h)
    return torch.cat([torch.stack(ahead, 1), right[..., hidden:]], -1), last


def halves_swapped(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    return torch.cat(right.chunk(2, -1)[::-1], -1), last


def added(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    return sum(right.chunk(2, -1)), last


def one_cell(f, b, e, n):
    return read_both_ways(f, f, e, n)


def cells_swapped(f, b, e, n):
    return read_both_ways(b, f, e, n)


def state_not_carried(f, b, e, n):
    words = e.unbind(dim=1)
    zeros = torch.zeros(len(e), f.hidden_size)
    ahead = torch.stack([f(word, zeros) for word in words], 1)
    back = torch.stack([b(word, zeros) for word in words], 1)
    return masked(torch.cat([ahead, back], -1), n), back[:, 0]


def state_before_the_word(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    ahead, back = right.chunk(2, -1)
    zeros = torch.zeros_like(ahead[:, :1])
    shifted = [torch.cat([zeros, ahead[:, :-1]], 1), torch.cat([back[:, 1:], zeros], 1)]
    return masked(torch.cat(shifted, -1), n), last


def state_left_for_the_next_sentence(f, b, e, n):
    hidden = f.hidden_size
    annotations, last = torch.zeros(*e.shape[:2], 2 * hidden), []
    h = g = torch.zeros(1, hidden)
    for i, length in enumerate(n.tolist()):
        for j in range(length):
            h = f(e[i : i + 1, j], h)
            annotations[i, j, :hidden] = h[0]
        for j in reversed(range(length)):
            g = b(e[i : i + 1, j], g)
            annotations[i, j, hidden:] = g[0]
        last.append(g)
    return annotations, torch.cat(last)


def forward_state_returned(f, b, e, n):
    right, _ = read_both_ways(f, b, e, n)
    return right, right[torch.arange(len(e)), n - 1, : f.hidden_size]


def backward_state_at_the_last_word(f, b, e, n):
    right, _ = read_both_ways(f, b, e, n)
    return right, right[torch.arange(len(e)), n - 1, f.hidden_size :]


def state_at_the_end_of_the_batch(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    at_the_end = right[:, -1, f.hidden_size :]
    return right, torch.where((n > 1)[:, None] & (len(n) == 1), last, at_the_end)


def on_into_the_padding(f, b, e, n):
    right, _ = read_both_ways(f, b, e, n)
    turned = torch.stack(
        [torch.cat([row[:k].flip(0), row[k:]]) for row, k in zip(e, n, strict=True)]
    )
    return right, run(b, turned)[:, -1]


def state_from_the_padding(f, b, e, n):
    right, _ = read_both_ways(f, b, e, n)
    return right, run(b, e.flip(1))[:, -1]


def whole_annotation_as_state(f, b, e, n):
    right, _ = read_both_ways(f, b, e, n)
    return right, right[:, 0]


def annotations_only(f, b, e, n):
    return read_both_ways(f, b, e, n)[0]


def all_states(f, b, e, n):
    right, last = read_both_ways(f, b, e, n)
    return right, last.unsqueeze(0)


def detached_in_the_loop(f, b, e, n):
    return read_both_ways(Detaching(f), Detaching(b), e, n)


class Detaching(nn.Module):
    """A cell that cuts the way back through the state."""

    def __init__(self, cell):
        super().__init__()
        self.cell, self.hidden_size = cell, cell.hidden_size

    def forward(self, x, state):
        return self.cell(x, state.detach())


def no_gradient(f, b, e, n):
    with torch.no_grad():
        return read_both_ways(f, b, e, n)


def written_over(f, b, e, n):
    e *= (torch.arange(e.size(1)) < n[:, None])[..., None]
    return read_both_ways(f, b, e, n)


def shortest_length_only(f, b, e, n):
    return read_both_ways(f, b, e[:, : int(n.min())], n.clamp(max=int(n.min())))


def longest_length_only(f, b, e, n):
    return read_both_ways(f, b, e[:, : int(n.max())], n)


def on_from_the_forward_state(f, b, e, n):
    """One state for both loops, as when the second begins without new zeros."""
    state, ahead, back = torch.zeros(len(e), f.hidden_size), [], []
    for j in range(e.size(1)):
        state = torch.where((j < n)[:, None], f(e[:, j], state), state)
        ahead.append(state)
    for j in reversed(range(e.size(1))):
        state = torch.where((j < n)[:, None], b(e[:, j], state), state)
        back.insert(0, state)
    return masked(torch.cat([torch.stack(ahead, 1), torch.stack(back, 1)], -1), n), state


def without_the_last_word(f, b, e, n):
    return read_both_ways(f, b, e, n - 1)


def one_word_more(f, b, e, n):
    return read_both_ways(f, b, e, (n + 1).clamp(max=e.size(1)))


def one_word_more_backwards(f, b, e, n):
    annotations, state = one_word_more(f, b, e, n)
    return masked(annotations, n), state


def word_without_its_batch_axis(f, b, e, n):
    hidden = f.hidden_size
    annotations, last = torch.zeros(*e.shape[:2], 2 * hidden), []
    for i, length in enumerate(n.tolist()):
        h = g = torch.zeros(1, hidden)
        for j in range(length):
            h = f(e[i, j], h)
            annotations[i, j, :hidden] = h[0]
        for j in reversed(range(length)):
            g = b(e[i, j], g)
            annotations[i, j, hidden:] = g[0]
        last.append(g)
    return annotations, torch.cat(last)


READERS = [
    (from_the_padding, "The backward RNN starts in the padding of a short sentence, so"),
    (from_the_padding_not_zeroed, "The backward RNN starts in the padding of a short sentence, so"),
    (in_reading_order, "in the order in which it computed them"),
    (both_from_the_left, "The backward RNN processes the sentence from left to right"),
    (padding_not_zero, "The annotations at padding are not zero"),
    (states_kept_at_padding, "The annotations at padding are not zero"),
    (halves_swapped, "The two halves are exchanged"),
    (added, "The two states of a word are added"),
    (one_cell, "forward_cell is used in both directions"),
    (cells_swapped, "The two cells are exchanged"),
    (state_not_carried, "The state is not passed on"),
    (state_before_the_word, "contains the state before its word is processed"),
    (state_left_for_the_next_sentence, "is used as the first state of the next sentence"),
    (forward_state_returned, "This is the state of the forward RNN at the last word"),
    (backward_state_at_the_last_word, "This is the state of the backward RNN at the last word"),
    (state_at_the_end_of_the_batch, "This is the backward state at the last position of the batch"),
    (on_into_the_padding, "continues from the first word into the padding"),
    (state_from_the_padding, "starts in the padding of a short sentence. It must start"),
    (whole_annotation_as_state, "These are both halves of the first word's annotation"),
    (from_masked_padding, "The backward RNN starts in the padding of a short sentence, so"),
    (annotations_only, "Expected a pair"),
    (all_states, "Return one state for each sentence"),
    (detached_in_the_loop, "the path through the states is interrupted"),
    (no_gradient, "the path through the states is interrupted"),
    (written_over, "changes its input embedded"),
    (shortest_length_only, "Return two states for each position"),
    (longest_length_only, "even if every sentence is shorter"),
    (on_from_the_forward_state, "with the last state of the forward RNN"),
    (without_the_last_word, "The length is wrong by one"),
    (one_word_more, "The length is wrong by one"),
    (one_word_more_backwards, "The length is wrong by one"),
    (word_without_its_batch_axis, "Your code raises RuntimeError"),
]


# Part 3


def norm(gradients):
    return torch.sqrt(sum((each**2).sum() for each in gradients))


def scaled(gradients, factor):
    return [each * factor for each in gradients]


def each_by_its_own(gs, m):
    return [clip([each], m)[0][0] for each in gs], norm(gs)


def each_number_cut_off(gs, m):
    return [each.clamp(-m, m) for each in gs], norm(gs)


def scaled_up_too(gs, m):
    return scaled(gs, m / (norm(gs) + 1e-12)), norm(gs)


def divided_by_the_square(gs, m):
    total = norm(gs)
    return scaled(gs, m / total**2 if total > m else 1.0), total


def squared_norm(gs, m):
    total = sum((each**2).sum() for each in gs)
    return scaled(gs, m / total if total > m else 1.0), total


def norms_added(gs, m):
    total = sum(each.norm() for each in gs)
    return scaled(gs, min(1.0, m / total) if total else 1.0), total


def absolute_values(gs, m):
    total = sum(each.abs().sum() for each in gs)
    return scaled(gs, min(1.0, m / total) if total else 1.0), total


def largest_number(gs, m):
    total = max(each.abs().max() for each in gs)
    return scaled(gs, min(1.0, m / total) if total else 1.0), total


def largest_tensor(gs, m):
    total = max(each.norm() for each in gs)
    return scaled(gs, min(1.0, m / total) if total else 1.0), total


def averaged(gs, m):
    total = torch.cat([each.flatten() for each in gs]).square().mean().sqrt()
    return scaled(gs, min(1.0, m / total) if total else 1.0), total


def to_length_one(gs, m):
    total = norm(gs)
    return scaled(gs, 1 / total if total > m else 1.0), total


def upside_down(gs, m):
    total = norm(gs)
    return scaled(gs, total / m if total > m else 1.0), total


def divided_by_the_limit(gs, m):
    total = norm(gs)
    return scaled(gs, 1 / m if total > m else 1.0), total


def thrown_away(gs, m):
    total = norm(gs)
    return scaled(gs, 0.0 if total > m else 1.0), total


def not_clipped(gs, m):
    return list(gs), norm(gs)


def zero_by_zero(gs, m):
    total = norm(gs)
    return [each / total * torch.minimum(total, torch.tensor(m)) for each in gs], total


def in_place(gs, m):
    total = norm(gs)
    for each in gs:
        each.mul_(min(1.0, m / float(total)) if total else 1.0)
    return gs, total


def norm_afterwards(gs, m):
    clipped, _ = clip(gs, m)
    return clipped, norm(clipped)


def squared_norm_returned(gs, m):
    clipped, total = clip(gs, m)
    return clipped, total**2


def factor_returned(gs, m):
    clipped, total = clip(gs, m)
    return clipped, min(1.0, m / float(total)) if total else 1.0


def sum_of_norms_returned(gs, m):
    return clip(gs, m)[0], sum(float(each.norm()) for each in gs)


def as_one_vector(gs, m):
    clipped, total = clip(gs, m)
    return torch.cat([each.flatten() for each in clipped]), total


def without_the_total(gs, m):
    return clip(gs, m)[0]


def flattened(gs, m):
    clipped, total = clip(gs, m)
    return [each.flatten() for each in clipped], total


CLIPPINGS = [
    (each_by_its_own, "Each tensor is clipped by its own norm"),
    (each_number_cut_off, "Each entry is limited to max_norm separately"),
    (scaled_up_too, "Gradients whose norm is below max_norm are scaled up"),
    (divided_by_the_square, "The square root is missing"),
    (squared_norm, "The square root is missing"),
    (norms_added, "The norms of the tensors are added"),
    (absolute_values, "Absolute values are added"),
    (largest_number, "The largest absolute entry is used"),
    (largest_tensor, "The largest norm of any tensor is used"),
    (averaged, "The squares are averaged"),
    (to_length_one, "so the new norm is 1"),
    (upside_down, "The factor is inverted"),
    (divided_by_the_limit, "The gradients are divided by max_norm"),
    (thrown_away, "Gradients that are too large are set to 0"),
    (not_clipped, "The gradients are returned unchanged"),
    (zero_by_zero, "0 / 0 is not a number"),
    (in_place, "changes the gradients that it is given"),
    (norm_afterwards, "This is the norm after clipping"),
    (squared_norm_returned, "The square root is missing"),
    (factor_returned, "This is the factor"),
    (sum_of_norms_returned, "The norms of the tensors are added"),
    (as_one_vector, "Expected a list of 2 clipped tensors"),
    (without_the_total, "Expected a list of 2 clipped tensors"),
    (flattened, "The shape of clipped[1]"),
    (clip_by_torch, "not accepted. Your code uses"),
]


# Part 4


def count(kind, i, h, n, both, gates=None, biases=2, upper=None, state=True):
    gates = gates or {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 1 + both
    upper = directions * h if upper is None else upper
    reads = [i, *[upper] * (n - 1)]
    return sum(gates * h * (each + h * state + biases) for each in reads) * directions


def one_bias(*given):
    return count(*given, biases=1)


def no_bias(*given):
    return count(*given, biases=0)


def one_direction(kind, i, h, n, both):
    return count(kind, i, h, n, both) // (1 + both)


def always_both_directions(kind, i, h, n, both):
    return 2 * count(kind, i, h, n, both) // (1 + both)


def upper_reads_one_state(kind, i, h, n, both):
    return count(kind, i, h, n, both, upper=h)


def upper_reads_words(kind, i, h, n, both):
    return count(kind, i, h, n, both, upper=i)


def first_layer_only(kind, i, h, n, both):
    return count(kind, i, h, 1, both)


def upper_reads_nothing(kind, i, h, n, both):
    return count(kind, i, h, n, both, upper=0)


def no_recurrence(*given):
    return count(*given, state=False)


def two_gates(kind, *given):
    return count(kind, *given, gates={"RNN": 1, "GRU": 2, "LSTM": 3}[kind])


def gru_as_lstm(kind, *given):
    return count("LSTM" if kind == "GRU" else kind, *given)


def rnn_with_a_gate(kind, *given):
    return count(kind, *given, gates=2 if kind == "RNN" else None)


def shared_out(kind, i, h, n, both):
    return parameters(kind, i, h // 2 if both else h, n, both)


def a_float(*given):
    return parameters(*given) / 4


def whole_as_a_float(*given):
    return parameters(*given) / 1


def steps_as_a_float(*given):
    return float(sequential_steps(*given))


def added_up(lengths, layers, both):
    return sequential_steps([sum(lengths)], layers, both)


def shortest(lengths, layers, both):
    return sequential_steps([min(lengths)], layers, both)


def mean_length(lengths, layers, both):
    return sequential_steps([round(sum(lengths) / len(lengths))], layers, both)


def one_direction_after_the_other(lengths, layers, both):
    return sequential_steps(lengths, layers, both) * (1 + both)


def without_layers(lengths, layers, both):
    return max(lengths)


def layer_after_layer(lengths, layers, both):
    return max(lengths) * layers


def always_a_wave(lengths, layers, both):
    return max(lengths) + layers - 1


def one_too_many(lengths, layers, both):
    return max(lengths) * layers if both else max(lengths) + layers * (layers > 1)


def first_of_the_list(lengths, layers, both):
    return sequential_steps(lengths[:1], layers, both)


def last_of_the_list(lengths, layers, both):
    return sequential_steps(lengths[-1:], layers, both)


def two_more_a_layer(lengths, layers, both):
    return max(lengths) + 2 * (layers - 1) if both else sequential_steps(lengths, layers, both)


def every_step(lengths, layers, both):
    return sum(lengths) * layers * (1 + both)


def nothing_returned(lengths, layers, both):
    sequential_steps(lengths, layers, both)


PREDICTIONS = [
    ((one_bias, sequential_steps), "one bias per gate is counted"),
    ((no_bias, sequential_steps), "the biases are missing"),
    ((one_direction, sequential_steps), "only one direction is counted"),
    ((always_both_directions, sequential_steps), "both directions are counted although"),
    (
        (upper_reads_one_state, sequential_steps),
        "upper layers are counted as if their input were one state",
    ),
    ((upper_reads_words, sequential_steps), "the input of every layer is counted with input_size"),
    ((first_layer_only, sequential_steps), "only one layer is counted"),
    ((upper_reads_nothing, sequential_steps), "the input matrices of the upper layers are missing"),
    ((no_recurrence, sequential_steps), "the recurrent matrices are missing"),
    ((two_gates, sequential_steps), "A GRU computes three vectors"),
    ((gru_as_lstm, sequential_steps), "A GRU computes three vectors"),
    ((rnn_with_a_gate, sequential_steps), "An RNN has no gates"),
    ((shared_out, sequential_steps), "hidden_size is divided between the two directions"),
    ((a_float, sequential_steps), "expected a whole number"),
    ((whole_as_a_float, sequential_steps), "parameters: expected an int, got 63.0, a float"),
    ((parameters, steps_as_a_float), "sequential_steps: expected an int, got 5.0, a float"),
    ((parameters, added_up), "the lengths of the sentences are added"),
    ((parameters, shortest), "the length of the shortest sentence is used"),
    ((parameters, mean_length), "the mean length is used"),
    (
        (parameters, one_direction_after_the_other),
        "the two directions are counted one after another",
    ),
    ((parameters, without_layers), "the number of layers is ignored"),
    ((parameters, layer_after_layer), "In one direction it can start earlier"),
    ((parameters, always_a_wave), "one of the two directions reaches that word last"),
    ((parameters, one_too_many), "the number of layers is added completely"),
    ((parameters, first_of_the_list), "the first or the last length of the list is used"),
    ((parameters, last_of_the_list), "the first or the last length of the list is used"),
    ((parameters, two_more_a_layer), "the longest chain of dependent steps has a different length"),
    ((parameters, every_step), "the lengths of the sentences are added"),
    ((parameters, nothing_returned), "Is there a `return`?"),
]


# Part 5


def hunted(
    detached="",
    shared=False,
    padded=False,
    not_turned=False,
    divisor="words",
    memory=False,
    zeroed=True,
):
    """An encoder with some of the faults left in it."""

    def encoder(forward_cell, backward_cell, embedded, mask):
        zeros = embedded.new_zeros(1, forward_cell.hidden_size)
        forward_state = backward_state = (zeros, zeros)

        def read(cell, words, state):
            states = []
            for word in words:
                h, c = cell(word.unsqueeze(0), state)
                states.append(c if memory else h)
                h = h.detach() if "h" in detached else h
                state = h, c.detach() if "c" in detached else c
            return torch.cat(states), state

        rows = []
        for words, real in zip(embedded, mask, strict=True):
            n = int(real.sum())
            if not shared:
                forward_state = backward_state = (zeros, zeros)
            ahead, forward_state = read(forward_cell, words[:n], forward_state)
            heard = words if padded else words[:n]
            back, backward_state = read(backward_cell, heard.flip(0), backward_state)
            back = (back if not_turned else back.flip(0))[:n]
            row = torch.cat([ahead, back], dim=-1)
            filler = torch.zeros if zeroed else torch.ones
            rows.append(torch.cat([row, filler(len(words) - n, row.size(1))]))
        annotations = torch.stack(rows)
        total = annotations.sum(dim=1)
        divide_by = {
            "words": mask.sum(dim=1, keepdim=True),
            "positions": mask.size(1),
            "nothing": 1,
            "sentences": len(mask),
            "all words": mask.sum(),
        }
        return annotations, total / divide_by[divisor]

    return encoder


def faulty_encoder(forward_cell, backward_cell, embedded, mask):
    """The notebook's, with all five."""
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
    return annotations, annotations.mean(dim=1)


def unsqueeze_forgotten(forward_cell, backward_cell, embedded, mask):
    zeros = embedded.new_zeros(1, forward_cell.hidden_size)

    def read(cell, words):
        states, state = [], (zeros, zeros)
        for word in words:
            state = cell(word, state)
            states.append(state[0])
        return torch.cat(states)

    rows = []
    for words, real in zip(embedded, mask, strict=True):
        n = int(real.sum())
        ahead, back = read(forward_cell, words[:n]), read(backward_cell, words[:n].flip(0)).flip(0)
        row = torch.cat([ahead, back], dim=-1)
        rows.append(nn.functional.pad(row, (0, 0, 0, len(words) - n)))
    annotations = torch.stack(rows)
    return annotations, annotations.sum(dim=1) / mask.sum(dim=1, keepdim=True)


def two_results_swapped(*given):
    return fixed_encoder(*given)[::-1]


def annotations_alone(*given):
    return fixed_encoder(*given)[0]


def backward_first(*given):
    annotations, _ = fixed_encoder(*given)
    swapped = torch.cat(annotations.chunk(2, -1)[::-1], -1)
    return swapped, swapped.sum(1) / given[-1].sum(1, keepdim=True)


def forward_turned_too(*given):
    annotations, summaries = fixed_encoder(*given)
    ahead, back = annotations.chunk(2, -1)
    return torch.cat([ahead.flip(1), back], -1), summaries


def largest_as_summary(*given):
    annotations, _ = fixed_encoder(*given)
    return annotations, annotations.max(dim=1).values


def summary_cut_off(*given):
    annotations, summaries = fixed_encoder(*given)
    return annotations, summaries.detach()


BUG_HUNTS = [
    (faulty_encoder, "Order: the backward states are in the order in which they were computed"),
    (
        hunted(not_turned=True),
        "Order: the backward states are in the order in which they were computed",
    ),
    (hunted(memory=True), "Order: these are the cell states c of the LSTM"),
    (backward_first, "Order: the two halves are exchanged"),
    (forward_turned_too, "Order: the forward half is wrong"),
    (hunted(shared=True), "Neighbours: the first sentence is correct"),
    (hunted(padded=True), "Padding: the forward half is correct"),
    (hunted(zeroed=False), "Padding: the annotations at padding must be zero"),
    (hunted(divisor="positions"), "Summary: padding is counted in the mean"),
    (hunted(divisor="nothing"), "Summary: this is the sum"),
    (hunted(divisor="sentences"), "Summary: the sum is divided by the number of sentences"),
    (
        hunted(divisor="all words"),
        "Summary: the sum is divided by the number of words of all sentences",
    ),
    (largest_as_summary, "Summary: the summary of a sentence must be the mean"),
    (hunted(detached="hc"), "Gradients: The values are correct, but no gradient reaches"),
    (hunted(detached="h"), "Gradients: the values are correct and gradients reach every word, but"),
    (hunted(detached="c"), "Gradients: the values are correct and gradients reach every word, but"),
    (hunted(shared=True, detached="hc"), "Right so far: order."),
    (hunted(divisor="positions", detached="hc"), "Right so far: order, neighbours, padding."),
    (summary_cut_off, "no gradient flows through them"),
    (unsqueeze_forgotten, "Your code raises RuntimeError"),
    (two_results_swapped, "The shape of the annotations"),
    (annotations_alone, "Expected a pair"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "gru_step": GRU_STEPS,
    "encoder": READERS,
    "clipping": CLIPPINGS,
    "predictions": PREDICTIONS,
    "bug_hunt": BUG_HUNTS,
}

# Whole notebooks handed in
FROM_THE_PADDING = """
def read_both_ways(forward_cell, backward_cell, embedded, lengths):
    batch, src_len, _ = embedded.shape
    h = g = embedded.new_zeros(batch, forward_cell.hidden_size)
    ahead, back = [], []
    for j in range(src_len):
        h = forward_cell(embedded[:, j], h)
        ahead.append(h)
    for j in reversed(range(src_len)):
        g = backward_cell(embedded[:, j], g)
        back.insert(0, g)
    annotations = torch.cat([torch.stack(ahead, 1), torch.stack(back, 1)], dim=-1)
    real = torch.arange(src_len) < lengths.unsqueeze(1)
    return annotations * real.unsqueeze(-1), g
"""
ONE_BIAS = """
def parameters(kind, input_size, hidden_size, num_layers, bidirectional):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 2 if bidirectional else 1
    total = 0
    for layer in range(num_layers):
        reads = input_size if layer == 0 else directions * hidden_size
        total += directions * gates * hidden_size * (reads + hidden_size + 1)
    return total


def sequential_steps(lengths, num_layers, bidirectional):
    return max(lengths) * num_layers if bidirectional else max(lengths) + num_layers - 1
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "from_the_padding": (
        {"both-directions": FROM_THE_PADDING},
        ["both-directions-check"],
        "The backward RNN starts in the padding",
    ),
    "one_bias": ({"predictions": ONE_BIAS}, ["predictions-check"], "one bias per gate is counted"),
}
