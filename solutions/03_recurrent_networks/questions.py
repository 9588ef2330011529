"""Recurrent networks as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from attentively.checks import recurrent_networks as checks
from attentively.checks import show
from attentively.checks.edits import edited
from attentively.checks.question import Case, Question, cases_of


def rounded(*sizes: int) -> Tensor:
    """Return random values with one decimal, which a message shows completely."""
    return torch.randn(sizes).mul(10).round().div(10)


# Part 1


class GRUCell(nn.Module):
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
        new_state = (1 - z) * n + z * state
        return new_state


CANDIDATE, NEW_STATE = "torch.tanh(x_n + r * h_n)", "(1 - z) * n + z * state"
ON_THE_WAY = edited(GRUCell, "return new_state -> return r, z, n")


def step(batch: int, input_size: int, hidden_size: int, biased: bool = True) -> Case:
    made = {"input_size": input_size, "hidden_size": hidden_size}
    weights = {
        name: rounded(*each.shape) if biased or each.dim() > 1 else torch.zeros(each.shape)
        for name, each in GRUCell(*made.values()).named_parameters()
    }
    inputs = {"x": rounded(batch, input_size), "state": rounded(batch, hidden_size)}
    return Case(inputs, made, weights)


def with_gates(case: Case) -> Case:
    """Return the case with the correct gates and candidate, for a mistake that is not known."""
    cell = ON_THE_WAY(*case.made.values())
    cell.load_state_dict(case.weights)
    gates = zip("rzn", cell(*case.inputs.values()), strict=True)
    said = ", ".join(f"{name} = {show(value)}" for name, value in gates)
    general = "The values of the new state are not the expected ones, which follow from"
    return replace(case, general=f"{general} {said}.")


def step_cases(thorough: bool) -> list[Case]:
    cases = [with_gates(step(*s)) for s in [(1, 1, 1, False), (1, 1, 2, False), (1, 1, 2)]]
    large = {"x": torch.ones(1, 1), "state": torch.ones(1, 1)}
    case = step(1, 1, 1)
    weights = {n: torch.full_like(w, 100) for n, w in case.weights.items()}
    cases.append(replace(case, inputs=large, weights=weights))
    case = step(3, 5, 7)
    learned = {n: value.requires_grad_() for n, value in case.inputs.items()}
    cases.append(replace(case, inputs=learned))
    return cases + [step(*sizes) for sizes in [(11, 2, 5), (2, 3, 1)] * thorough]


def in_the_order(r: str, z: str, n: str) -> tuple[str, ...]:
    return tuple(f"{s}_r, {s}_z, {s}_n = -> {s}_{r}, {s}_{z}, {s}_{n} =" for s in "xh")


GATES = ("torch.sigmoid(x_r -> torch.tanh(x_r", "torch.sigmoid(x_z -> torch.tanh(x_z")
SIGMOID = "torch.tanh(x_n -> torch.sigmoid(x_n"
B_HN = "self.bias_hh.chunk(3)[2]"

STEP = Question(
    GRUCell,
    {"the new state": "Return one state for each sentence: (batch, hidden_size)."},
    step_cases,
    {
        "The shares of the update gate are exchanged: z is the share of the *old* state and 1 - z "
        "that of the candidate, (1 - z) * n + z * h. (Papers differ here; trained weights fit only "
        "one version.)": f"{NEW_STATE} -> z * n + (1 - z) * state",
        "The reset gate is applied before the recurrent matrix, U_n (r * h), as in the published "
        "GRU paper. In PyTorch it is applied after it: r * (U_n h + b'_n).": (
            f"{CANDIDATE} -> torch.tanh(x_n + (r * state) @ self.weight_hh.chunk(3)[2].T + {B_HN})"
        ),
        "The bias b'_n is added outside the product with the reset gate. The gate multiplies the "
        "whole term: r * (U_n h + b'_n).": f"r * h_n -> r * (h_n - {B_HN}) + {B_HN}",
        "bias_ih and bias_hh are missing. Add both biases.": (
            " + self.bias_ih -> ",
            " + self.bias_hh -> ",
        ),
        "bias_ih is missing. Add it to x @ weight_ih.T.": " + self.bias_ih -> ",
        "bias_hh is missing. Add it to state @ weight_hh.T.": " + self.bias_hh -> ",
        "tanh and sigmoid are exchanged: the gates need the sigmoid (values between 0 and 1), the "
        "candidate needs the tanh (values between -1 and 1).": (*GATES, SIGMOID),
        "The gates are computed with a tanh. A gate is between 0 and 1: use the sigmoid.": GATES,
        "The candidate is computed with a sigmoid. It is between -1 and 1: use the tanh.": SIGMOID,
        "The tanh of the candidate is missing, so the hidden state is not bounded.": (
            "torch.tanh(x_n -> (x_n"
        ),
        "r and z are exchanged. The blocks of rows are in the order r, z, n.": in_the_order(*"zrn"),
        "r and z are exchanged in one of the two matrices. In both, the blocks of rows are in the "
        "order r, z, n.": [*in_the_order(*"zrn")],
        "The candidate uses the update gate z. It uses the reset gate: r * (U_n h + b'_n).": (
            "r * h_n -> z * h_n"
        ),
        "The blocks of rows are used in the wrong order. It is r, z, n.": [
            in_the_order(*order) for order in ("nrz", "nzr", "rnz", "znr")
        ],
        "The reset gate multiplies the whole candidate term, W_n x + b_n included. It multiplies "
        "only the part of the state, U_n h + b'_n.": "x_n + r * h_n -> r * (x_n + h_n)",
        "The reset gate multiplies the part of the input, W_n x + b_n. It multiplies the part of "
        "the state, U_n h + b'_n.": "x_n + r * h_n -> r * x_n + h_n",
        "The reset gate is not used. In the candidate it multiplies U_n h + b'_n.": (
            "r * h_n -> h_n"
        ),
        "These values are the candidate n. The new state is a weighted sum of candidate and old "
        "state: (1 - z) * n + z * h.": f"{NEW_STATE} -> n",
        "The share of the old state is missing: add z * h.": f"{NEW_STATE} -> (1 - z) * n",
        "The candidate is added with weight 1. Its weight is 1 - z, so that the two weights sum to "
        "1.": f"{NEW_STATE} -> n + z * state",
        "On this input, an exponential is infinite in 32-bit floats, and infinity divided by "
        "infinity is NaN. Use torch.sigmoid and torch.tanh.": (
            "torch.sigmoid(x_z + h_z) -> (x_z + h_z).exp() / (1 + (x_z + h_z).exp())"
        ),
    },
)


# Part 2


def read_both_ways(forward_cell, backward_cell, embedded, lengths):
    batch, src_len, _ = embedded.shape
    real = torch.arange(src_len) < lengths.unsqueeze(1)

    def read(cell, positions):
        state = embedded.new_zeros(batch, cell.hidden_size)
        states = {}
        for j in positions:
            new_state = cell(embedded[:, j], state)
            state = torch.where(real[:, j, None], new_state, state)
            states[j] = state
        return torch.stack([states[j] for j in range(src_len)], dim=1), state

    forward_states, _ = read(forward_cell, range(src_len))
    backward_states, last = read(backward_cell, reversed(range(src_len)))
    annotations = torch.cat([forward_states, backward_states], dim=-1) * real.unsqueeze(-1)
    return annotations, last


def reading(lengths: Sequence[int], size: int, hidden: int, more: int = 0) -> Case:
    """Return two cells and sentences, with `more` positions of padding after the longest."""
    embedded = rounded(len(lengths), max(lengths) + more, size)  # not zero at padding
    cells = checks.random_cells("GRU", size, hidden)
    return Case({**cells, "embedded": embedded, "lengths": torch.tensor(lengths)})


def reading_cases(thorough: bool) -> list[Case]:
    # Not 1 first: with states of dimension 1, a word without its batch axis crashes PyTorch.
    cases = [reading(*case) for case in [([2], 1, 2), ([3, 1], 1, 1), ([1, 3, 2], 2, 3)]]
    cases.append(reading([2, 1], 1, 1, more=2))
    return cases + [reading(*case) for case in [([1], 5, 2), ([5, 5, 2, 1], 7, 3)] * thorough]


def from_sentence_to_sentence(forward_cell, backward_cell, embedded, lengths):
    hidden = forward_cell.hidden_size
    annotations, last = embedded.new_zeros(*embedded.shape[:2], 2 * hidden), []
    ahead = back = embedded.new_zeros(1, hidden)
    for i, length in enumerate(lengths.tolist()):
        for j in range(length):
            ahead = forward_cell(embedded[i : i + 1, j], ahead)
            annotations[i, j, :hidden] = ahead[0]
        for j in reversed(range(length)):
            back = backward_cell(embedded[i : i + 1, j], back)
            annotations[i, j, hidden:] = back[0]
        last.append(back)
    return annotations, torch.cat(last)


FORWARD_FIRST, NOT_ZEROED = (
    "torch.cat([forward_states, backward_states], dim=-1)",
    " * real.unsqueeze(-1) -> ",
)
REAL, RETURN = "torch.arange(src_len) < lengths.unsqueeze(1)", "return annotations, last"
INTO_PADDING = "torch.where(real[:, j, None], new_state, state) -> new_state"
AT_LAST_WORD = "_states[torch.arange(batch), lengths - 1]"

READING = Question(
    read_both_ways,
    {
        "annotations": "Return two states for each position, padding included: (batch, src_len, "
        "2 * hidden_size). src_len is embedded.size(1), even if every sentence is shorter.",
        "backward_state": "Return one state for each sentence: (batch, hidden_size).",
    },
    reading_cases,
    {
        "The states of the backward RNN are in the order in which it computed them, so the first "
        "one belongs to the last word. Reverse them, so that each is at its own word.": (
            "[states[j] for j in range(src_len)] -> [*states.values()]"
        ),
        "The backward RNN processes the sentence from left to right, like the forward RNN. It "
        "starts at the last word.": "reversed(range(src_len)) -> range(src_len)",
        "The backward RNN starts in the padding of a short sentence, so its states depend on the "
        "other sentences of the batch. It must start at the last word of each sentence, with "
        "zeros.": [
            INTO_PADDING,
            (INTO_PADDING, NOT_ZEROED),
            (INTO_PADDING, "cell(embedded[:, j] -> cell(embedded[:, j] * real[:, j, None]"),
        ],
        "The two halves are exchanged: the state of the forward RNN comes first.": (
            f"{FORWARD_FIRST} -> torch.cat([backward_states, forward_states], dim=-1)"
        ),
        "The two states of a word are added. Concatenate them with torch.cat along the last "
        "axis.": (f"{FORWARD_FIRST} -> (forward_states + backward_states)"),
        "forward_cell is used in both directions. The backward RNN uses backward_cell.": (
            "read(backward_cell -> read(forward_cell"
        ),
        "The two cells are exchanged: forward_cell processes the sentence from left to right.": (
            "(forward_cell, backward_cell, embedded -> (backward_cell, forward_cell, embedded"
        ),
        "The state is not passed on: each word is processed as if it were the first. Pass the "
        "state that the cell returns to its next call.": "[:, j], state) -> [:, j], 0 * state)",
        "The last state of one sentence is used as the first state of the next sentence of the "
        "batch. Each sentence starts with zeros.": from_sentence_to_sentence,
        "Each annotation contains the state before its word is processed. It must contain the "
        "state after it.": (
            "states[j] = state -> pass",
            "new_state = cell -> states[j] = state\n            new_state = cell",
        ),
        "One half of each annotation contains the state before its word is processed. Both must "
        "contain the state after it.": [
            f"{FORWARD_FIRST} -> torch.cat([forward_states.roll(1, 1) * "
            "(torch.arange(src_len) > 0)[:, None], backward_states], dim=-1)",
            f"{FORWARD_FIRST} -> torch.cat([forward_states, backward_states.roll(-1, 1) * "
            "(torch.arange(src_len) < src_len - 1)[:, None]], dim=-1)",
        ],
        "The backward RNN starts with the last state of the forward RNN. Both start with zeros.": (
            "state = embedded.new_zeros(batch, cell.hidden_size) -> nonlocal state",
            "    def read -> "
            "    state = embedded.new_zeros(batch, forward_cell.hidden_size)\n\n    def read",
        ),
        "The length is wrong by one: the words of a sentence are at the positions 0 to length - "
        "1.": [f"{REAL} -> {REAL} - 1", f"{REAL} -> {REAL} + 1"],
        "The backward RNN processes one position of padding before the last word of a short "
        "sentence. It must start at position length - 1, with zeros.": (
            f"{REAL} -> {REAL} + 1",
            f" * real.unsqueeze(-1) -> * ({REAL}).unsqueeze(-1)",
        ),
        "This is the state of the forward RNN at the last word. Return the state of the backward "
        "RNN at the first word.": f"{RETURN} -> return annotations, forward{AT_LAST_WORD}",
        "This is the state of the backward RNN at the last word, after one word only. Return its "
        "last state, which is at the first word.": (
            f"{RETURN} -> return annotations, backward{AT_LAST_WORD}"
        ),
        "This is the backward state at the last position of the batch, which is padding in a short "
        "sentence. The last state of the backward RNN is at the first word.": (
            f"{RETURN} -> return annotations, backward_states[:, -1]"
        ),
        "The backward RNN continues from the first word into the padding. Return its state after "
        "the first word.": (
            f"{RETURN} -> for j in range(src_len):\n"
            "        new_state = backward_cell(embedded[:, j], last)\n"
            f"        last = torch.where(real[:, j, None], last, new_state)\n    {RETURN}"
        ),
        "The backward RNN starts in the padding of a short sentence. It must start at the last "
        "word of each sentence, with zeros.": (
            f"{RETURN} -> last = 0 * last\n    for j in reversed(range(src_len)):\n"
            f"        last = backward_cell(embedded[:, j], last)\n    {RETURN}"
        ),
        "These are both halves of the first word's annotation. Return the backward half only.": (
            f"{RETURN} -> return annotations, annotations[:, 0]"
        ),
    },
)


# Part 3


def clip(gradients, max_norm):
    total = torch.sqrt(sum((gradient**2).sum() for gradient in gradients))
    factor = max_norm / total if total > max_norm else 1.0
    clipped = [gradient * factor for gradient in gradients]
    return clipped, total


def clipping_cases(thorough: bool) -> Iterator[Case]:
    # Their norms are 3, 6 and 2; that of all is 7. The largest is neither first nor last.
    by_hand = [
        torch.tensor([[1.0, 2.0, 2.0]]),
        torch.tensor([2.0, -4.0, 4.0]),
        torch.tensor([[0.0, -2.0]]),
    ]
    calls = [
        (by_hand, 1.75),
        (by_hand, 100.0),
        ([each / 50 for each in by_hand], 1.0),
        ([torch.zeros(2), torch.zeros(1, 2)], 1.0),
        ([rounded(1, 3), rounded(5), rounded()], 0.7),
        (by_hand, math.inf),
    ]
    if thorough:
        calls += [
            ([torch.randn(7, 11)], 3.0),
            ([100 * torch.randn(2, 3, 5), 1e-3 * torch.randn(13)], 5.0),
            ([0.1 * torch.randn(3), 0.1 * torch.randn(2)], 0.05),
            ([torch.tensor([3.0]), torch.tensor([4.0])], 5.0),
        ]
    yield from cases_of(("gradients", "max_norm"), calls)


TOTAL, FACTOR = (
    "torch.sqrt(sum((gradient**2).sum() for gradient in gradients))",
    "max_norm / total if",
)
ONE_BY_ONE = "gradient * factor for"


def measured(other: str) -> list[str]:
    """Return edits that use another measure than the total norm, or only return it."""
    return [f"{TOTAL} -> {other}", f"return clipped, total -> return clipped, {other}"]


CLIP = Question(
    clip,
    {"clipped": "", "the total norm": ""},
    clipping_cases,
    {
        "Each tensor is clipped by its own norm, which changes the direction of the step. Scale "
        "all tensors by one factor, computed from the norm of all of them together.": (
            f"{ONE_BY_ONE} -> gradient * min(1.0, max_norm / gradient.norm()) for"
        ),
        "Each entry is limited to max_norm separately, which changes the direction of the step. "
        "Scale all entries by one factor.": (
            f"{ONE_BY_ONE} -> gradient.clamp(-max_norm, max_norm) for"
        ),
        "Gradients whose norm is below max_norm are scaled up. Leave them unchanged: the factor is "
        "at most 1.": f"{FACTOR} total > max_norm else 1.0 -> max_norm / total",
        "The square root is missing: the norm is the square root of the sum of squares.": [
            f"{FACTOR} -> max_norm / total**2 if",
            "torch.sqrt( -> (",
            "return clipped, total -> return clipped, total**2",
        ],
        "The norms of the tensors are added. The total norm is that of all entries together: the "
        "square root of the sum of all squares.": measured("sum(g.norm() for g in gradients)"),
        "Absolute values are added. The norm is the square root of the sum of squares.": measured(
            "sum(g.abs().sum() for g in gradients)"
        ),
        "The largest absolute entry is used as the norm. The norm depends on all entries.": (
            measured("max(g.abs().max() for g in gradients)")
        ),
        "The largest norm of any tensor is used. All tensors together have one norm.": measured(
            "max(g.norm() for g in gradients)"
        ),
        "The squares are averaged. The norm sums them.": [
            *measured("torch.cat([g.flatten() for g in gradients]).square().mean().sqrt()"),
            "(gradient**2).sum() -> (gradient**2).mean()",
        ],
        "Only the first tensor is used for the norm. All tensors together have one norm.": (
            measured("gradients[0].norm()")
        ),
        "Only the last tensor is used for the norm. All tensors together have one norm.": (
            measured("gradients[-1].norm()")
        ),
        "The norm is computed in the same loop as the clipped tensors, so that of a tensor does "
        "not include the tensors after it. Compute the total norm first.": (
            f"{ONE_BY_ONE} gradient in gradients] -> gradient * min(1.0, max_norm / norm) for "
            "gradient, norm in zip(gradients, torch.stack([(g**2).sum() for g in gradients])"
            ".cumsum(dim=0).sqrt())]"
        ),
        "The gradients are divided by their norm, so the new norm is 1. It must be max_norm.": (
            f"{FACTOR} -> 1 / total if"
        ),
        "The factor is inverted: it must be max_norm / total.": f"{FACTOR} -> total / max_norm if",
        "The gradients are divided by max_norm. The factor is max_norm / total.": (
            f"{FACTOR} -> 1 / max_norm if"
        ),
        "Gradients that are too large are set to 0. Scale them down instead, so that their "
        "direction is kept.": f"{FACTOR} -> 0.0 if",
        "The gradients are returned unchanged although their norm exceeds max_norm.": (
            f"{FACTOR} -> 1.0 if"
        ),
        "The clipped gradients contain NaN: all gradients are 0 here, and 0 / 0 is not a number. "
        "Divide by the norm only where it exceeds max_norm.": (
            f"{ONE_BY_ONE} -> gradient / total * min(total, max_norm) for"
        ),
        "This is the norm after clipping. Return the norm before clipping, which shows whether the "
        "gradients explode.": "return clipped, total -> return clipped, total * factor",
        "This is the factor. Return the total norm before clipping.": (
            "return clipped, total -> return clipped, factor"
        ),
    },
    either_precision=True,
    tidy=lambda results: (checks.by_number(results[0]), float(results[1])),
)


# Part 4


def parameters(kind, input_size, hidden_size, num_layers, bidirectional):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    directions = 2 if bidirectional else 1
    total = 0
    for layer in range(num_layers):
        layer_input_dim = input_size if layer == 0 else directions * hidden_size
        total += directions * gates * hidden_size * (layer_input_dim + hidden_size + 2)
    return total


def parameter_cases(thorough: bool) -> Iterator[Case]:
    calls = [
        ("GRU", 2, 7, 1, False),  # of an RNN, two directions count as many as two gates
        ("RNN", 2, 3, 1, False),
        ("LSTM", 2, 3, 1, False),
        ("GRU", 2, 3, 2, False),
        ("GRU", 5, 3, 1, True),
        ("LSTM", 5, 7, 3, True),
    ]
    if thorough:
        calls += [("RNN", 7, 11, 2, True), ("GRU", 13, 5, 5, True), ("LSTM", 3, 2, 3, False)]
    names = ("kind", "input_size", "hidden_size", "num_layers", "bidirectional")
    yield from cases_of(names, calls)


UPPER = "else directions * hidden_size -> else"

PARAMETERS = Question(
    parameters,
    {"the number of parameters": "The module of PyTorch has a different number."},
    parameter_cases,
    {
        "one bias per gate is counted. PyTorch has two for each gate or candidate, bias_ih and "
        "bias_hh.": "+ 2) -> + 1)",
        "the biases are missing.": "+ 2) -> )",
        "the biases are counted once. Each gate or candidate has its own.": (
            "gates * hidden_size * (layer_input_dim + hidden_size + 2) -> "
            "hidden_size * (gates * (layer_input_dim + hidden_size) + 2)"
        ),
        "the recurrent matrices are counted as if they multiplied the states of both directions. "
        "Each direction reads only its own state.": (
            "layer_input_dim + hidden_size + 2 -> layer_input_dim + directions * hidden_size + 2"
        ),
        "only one direction is counted. The backward RNN has parameters of its own.": (
            "total += directions * -> total += "
        ),
        "both directions are counted although bidirectional is False.": (
            "if bidirectional else 1 -> "
        ),
        "upper layers are counted as if their input were one state. The input of a layer above a "
        "bidirectional layer is the concatenation of two states.": f"{UPPER} hidden_size",
        "the input of every layer is counted with input_size. The input of an upper layer is the "
        "output of the layer below.": f"{UPPER} input_size",
        "hidden_size is divided between the two directions. Each direction has a state of this "
        "size.": "total = 0 -> total = 0\n    hidden_size //= directions",
        "only one layer is counted.": "range(num_layers) -> range(1)",
        "the input matrices of the upper layers are missing. They multiply the output of the layer "
        "below.": f"{UPPER} 0",
        "the recurrent matrices are missing: hidden_size × hidden_size for each gate or "
        "candidate.": ("layer_input_dim + hidden_size + 2 -> layer_input_dim + 2"),
    },
    named=True,
)


def sequential_steps(lengths, num_layers, bidirectional):
    longest = max(lengths)
    return longest * num_layers if bidirectional else longest + num_layers - 1


def steps_cases(thorough: bool) -> Iterator[Case]:
    calls = [
        ([5], 1, False),
        ([5, 8, 1, 3], 1, False),  # sum, mean, shortest, first and last all differ
        ([5, 3], 1, True),
        ([2], 5, False),
        ([3, 7], 3, False),
        ([4], 3, True),
        ([3, 7], 3, True),
    ]
    if thorough:
        calls += [([1], 5, False), ([1], 5, True), ([11, 13, 2, 2], 7, True), ([50, 3], 4, False)]
    yield from cases_of(("lengths", "num_layers", "bidirectional"), calls)


LONGEST, STEPS = (
    "max(lengths)",
    "longest * num_layers if bidirectional else longest + num_layers - 1",
)

SEQUENTIAL_STEPS = Question(
    sequential_steps,
    {"the number of sequential steps": ""},
    steps_cases,
    {
        "the lengths of the sentences are added. Sentences do not depend on each other: one step "
        "processes a word of each.": f"{LONGEST} -> sum(lengths)",
        "the length of the shortest sentence is used. The longest sentence determines the "
        "result.": (f"{LONGEST} -> min(lengths)"),
        "the mean length is used. The longest sentence determines the result.": (
            f"{LONGEST} -> round(sum(lengths) / len(lengths))"
        ),
        "the first or the last length of the list is used, as if the list were sorted. The longest "
        "sentence determines the result.": [f"{LONGEST} -> lengths[{i}]" for i in (0, -1)],
        "the two directions are counted one after another. Within a layer they do not depend on "
        "each other.": "longest * num_layers if -> 2 * longest * num_layers if",
        "the number of layers is ignored. A step of an upper layer depends on the layer below.": (
            f"{STEPS} -> longest"
        ),
        "each layer is counted as if it started after the layer below has processed the whole "
        "sentence. In one direction it can start earlier: layer 2 can process word 1 while layer 1 "
        "processes word 2.": f"{STEPS} -> longest * num_layers",
        "layer 2 is counted as if it could start after one step of layer 1. Its input is both "
        "states of a word, and one of the two directions reaches that word last.": (
            f"{STEPS} -> longest + num_layers - 1"
        ),
        "the number of layers is added completely. The steps of the first layer are already "
        "counted, so each further layer adds one.": [
            "+ num_layers - 1 -> + num_layers",
            "+ num_layers - 1 -> + num_layers * (num_layers > 1)",
        ],
    },
    named=True,
)


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
        real_words = words[real]
        ahead = read(forward_cell, real_words)
        back = read(backward_cell, real_words.flip(0)).flip(0)
        row = torch.cat([ahead, back], dim=-1)
        rows.append(nn.functional.pad(row, (0, 0, 0, len(words) - len(real_words))))
    annotations = torch.stack(rows)
    summaries = annotations.sum(dim=1) / mask.sum(dim=1, keepdim=True)
    return annotations, summaries


GENERAL = {
    "order": "the annotations differ from those of a loop over the words.",
    "neighbours": "the annotations differ from those of each sentence alone.",
    "padding": "the annotations of a sentence change when it is padded.",
    "summary": "the summary of a sentence must be the mean of the annotations of its words.",
}


def hunted(stage: str, lengths: Sequence[int], size: int = 2, hidden: int = 3) -> Case:
    result = "summaries" if stage == "summary" else "annotations"
    src_len = max(lengths) + (stage == "padding")  # the longest sentence is padded, too
    embedded = torch.randn(len(lengths), src_len, size)
    mask = torch.arange(src_len) < torch.tensor(lengths).unsqueeze(1)
    inputs = {**checks.random_cells("LSTM", size, hidden), "embedded": embedded, "mask": mask}
    general = f"{stage.capitalize()}: {GENERAL[stage]}"
    return Case(inputs, stage=stage, results=(result,), general=general)


def hunted_cases(thorough: bool) -> list[Case]:
    # Not 1: with states of dimension 1, a word without its batch axis crashes PyTorch.
    cases = [hunted("order", [3], 1, 2), hunted("neighbours", [2, 2, 2])]
    cases += [hunted("padding", [1, 3]), hunted("summary", [1, 4])]
    further = [("padding", [4, 4, 1]), ("summary", [2, 5])]
    return cases + [hunted(*each) for each in further * thorough]


DIVISOR = "mask.sum(dim=1, keepdim=True)"

FIXED_ENCODER = Question(
    fixed_encoder,
    {"annotations": "", "summaries": ""},
    hunted_cases,
    {
        "Order: these are the cell states c of the LSTM. Annotations consist of the hidden states "
        "h, which the cell returns first.": "state[0] -> state[1]",
        "Order: the backward RNN starts with the last state of the forward RNN. Both start with "
        "zeros.": (
            "def read(cell, words): -> def read(cell, words, state=(zeros, zeros)):",
            "states, state = [], (zeros, zeros) -> states = []",
            "return torch.cat(states) -> return torch.cat(states), state",
            "ahead = read(forward_cell, real_words) -> "
            "ahead, last = read(forward_cell, real_words)",
            "back = read(backward_cell, real_words.flip(0)).flip(0) -> "
            "back = read(backward_cell, real_words.flip(0), last)[0].flip(0)",
        ),
        "Padding: the annotations of a short sentence stand at the last positions. Padding comes "
        "after the words.": (
            "(0, 0, 0, len(words) - len(real_words)) -> (0, 0, len(words) - len(real_words), 0)"
        ),
        "Padding: the backward states are at the wrong words: they are reversed together with the "
        "padding behind them. Reverse the states of the words only.": (
            ".flip(0)).flip(0) -> .flip(0))\n        back = nn.functional.pad(back, (0, 0, 0, "
            "len(words) - len(back))).flip(0)[: len(back)]"
        ),
        "Order: the two halves are exchanged: the state of the forward RNN comes first.": (
            "[ahead, back] -> [back, ahead]"
        ),
        "Order: the backward states are in the order in which they were computed: that of the last "
        "word comes first. Reverse them before the concatenation.": (
            ".flip(0)).flip(0) -> .flip(0))"
        ),
        "Summary: padding is counted in the mean: its zeros do not change the sum, but the sum is "
        "divided by the padded length. Divide by the number of real words.": (
            f"{DIVISOR} -> mask.size(1)"
        ),
        "Summary: this is the sum. Divide it by the number of real words.": f" / {DIVISOR} -> ",
        "Summary: the sum is divided by the number of sentences. Divide by the number of words.": (
            f"{DIVISOR} -> len(mask)"
        ),
        "Summary: the sum is divided by the number of words of all sentences. Divide by the number "
        "of words of this sentence.": f"{DIVISOR} -> mask.sum()",
    },
)


PARTS = {
    "gru_step": [STEP],
    "encoder": [READING],
    "clipping": [CLIP],
    "predictions": [PARAMETERS, SEQUENTIAL_STEPS],
    "bug_hunt": [FIXED_ENCODER],
}
