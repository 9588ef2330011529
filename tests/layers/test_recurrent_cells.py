"""Each cell is PyTorch's own, in value and gradient, and does what its gates say."""

import pytest
import torch
from torch import nn

from attentively.layers.recurrent_cells import GRUCell, LSTMCell, RNNCell

BATCH, INPUT_DIM, HIDDEN_DIM, STEPS = 2, 5, 11, 7
PAIRS = [(RNNCell, nn.RNNCell), (GRUCell, nn.GRUCell), (LSTMCell, nn.LSTMCell)]


class SwappedUpdate(GRUCell):
    """A broken twin: the update gate the other way round."""

    def forward(self, x, hidden):
        a, b = self.project(x, hidden)
        (ar, az, an), (br, bz, bn) = a.chunk(3, dim=-1), b.chunk(3, dim=-1)
        update = torch.sigmoid(az + bz)
        candidate = torch.tanh(an + torch.sigmoid(ar + br) * bn)
        return update * candidate + (1 - update) * hidden


class ResetBefore(GRUCell):
    """The paper's: the reset gate comes before the recurrent matrix."""

    def forward(self, x, hidden):
        a, b = self.project(x, hidden)
        (ar, az, an), (br, bz, _) = a.chunk(3, dim=-1), b.chunk(3, dim=-1)
        reset, update = torch.sigmoid(ar + br), torch.sigmoid(az + bz)
        matrix, bias = self.weight_hh.chunk(3)[2], self.bias_hh.chunk(3)[2]
        candidate = torch.tanh(an + (reset * hidden) @ matrix.T + bias)
        return (1 - update) * candidate + update * hidden


class SwappedGates(LSTMCell):
    """A broken twin: the forget gate writes, and the input gate keeps."""

    def forward(self, x, state):
        hidden, memory = state
        a, b = self.project(x, hidden)
        forget, write, candidate, read = (a + b).chunk(4, dim=-1)
        memory = forget.sigmoid() * memory + write.sigmoid() * candidate.tanh()
        return read.sigmoid() * memory.tanh(), memory


class Detached(RNNCell):
    """A broken twin: the value is right, and the gradient stops at the old state."""

    def forward(self, x, hidden):
        return super().forward(x, hidden.detach())


def start(cell):
    zeros = torch.zeros(BATCH, HIDDEN_DIM)
    return (zeros, zeros) if isinstance(cell, LSTMCell | nn.LSTMCell) else zeros


def read(cell, inputs):
    """Return what is seen outside after each step, `(batch, len, hidden_dim)`."""
    state, seen = start(cell), []
    for x in inputs.unbind(dim=1):
        state = cell(x, state)
        seen.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(seen, dim=1)


def value_and_gradients(cell, inputs):
    inputs = inputs.clone().requires_grad_()
    seen = read(cell, inputs)
    parameters = dict(sorted(cell.named_parameters()))
    return seen, torch.autograd.grad(seen[:, -1].sum(), [inputs, *parameters.values()])


def agrees(kind, torch_kind):
    theirs = torch_kind(INPUT_DIM, HIDDEN_DIM)
    ours = kind(INPUT_DIM, HIDDEN_DIM)
    ours.load_state_dict(theirs.state_dict())
    inputs = torch.randn(BATCH, STEPS, INPUT_DIM)
    one, two = value_and_gradients(ours, inputs), value_and_gradients(theirs, inputs)
    return torch.allclose(one[0], two[0], atol=1e-6) and all(
        torch.allclose(a, b, atol=1e-6) for a, b in zip(one[1], two[1], strict=True)
    )


@pytest.mark.parametrize(("kind", "torch_kind"), PAIRS)
def test_value_and_gradient_are_those_of_torch(kind, torch_kind):
    assert agrees(kind, torch_kind)


@pytest.mark.parametrize(
    ("kind", "torch_kind"),
    [
        (SwappedUpdate, nn.GRUCell),
        (ResetBefore, nn.GRUCell),
        (SwappedGates, nn.LSTMCell),
        (Detached, nn.RNNCell),
    ],
)
def test_a_broken_twin_is_told(kind, torch_kind):
    assert not agrees(kind, torch_kind)


@pytest.mark.parametrize(("kind", "torch_kind"), PAIRS)
def test_weights_load_both_ways(kind, torch_kind):
    ours, theirs = kind(INPUT_DIM, HIDDEN_DIM), torch_kind(INPUT_DIM, HIDDEN_DIM)
    theirs.load_state_dict(ours.state_dict())
    inputs = torch.randn(BATCH, STEPS, INPUT_DIM)
    torch.testing.assert_close(read(ours, inputs), read(theirs, inputs))


@pytest.mark.parametrize(("kind", "torch_kind"), PAIRS)
def test_a_new_cell_starts_as_one_of_torch_does(kind, torch_kind):
    torch.manual_seed(3)
    ours = kind(INPUT_DIM, HIDDEN_DIM).state_dict()
    torch.manual_seed(3)
    theirs = torch_kind(INPUT_DIM, HIDDEN_DIM).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_gru_by_hand():
    """One number: r = 1/2, z = 3/4, n = tanh(ln 2) = 3/5, h = 1/4 · 3/5 + 3/4 · 1 = 9/10."""
    cell = GRUCell(1, 1)
    log2, log3 = torch.tensor([2.0, 3.0]).log()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.stack([torch.tensor(0.0), log3, log2]).view(3, 1))
        cell.weight_hh.copy_(torch.tensor([[0.0], [0.0], [2.0]]))
        cell.bias_ih.zero_()
        cell.bias_hh.copy_(torch.tensor([0.0, 0.0, -2.0]))
    hidden = cell(torch.ones(1, 1), torch.ones(1, 1))
    torch.testing.assert_close(hidden, torch.tensor([[0.9]]))


def set_bias(cell, part, value):
    with torch.no_grad():
        cell.bias_ih.chunk(cell.parts)[part].fill_(value)


def test_an_open_update_gate_keeps_the_state_and_its_gradient():
    cell = GRUCell(INPUT_DIM, HIDDEN_DIM)
    set_bias(cell, 1, 1e3)
    hidden = torch.randn(BATCH, HIDDEN_DIM, requires_grad=True)
    after = hidden
    for x in torch.randn(STEPS, BATCH, INPUT_DIM):
        after = cell(x, after)
    torch.testing.assert_close(after, hidden)
    (gradient,) = torch.autograd.grad(after.sum(), hidden)
    torch.testing.assert_close(gradient, torch.ones(BATCH, HIDDEN_DIM))


def test_a_closed_reset_gate_keeps_the_state_out_of_the_candidate():
    cell = GRUCell(INPUT_DIM, HIDDEN_DIM)
    set_bias(cell, 0, -1e3)
    set_bias(cell, 1, -1e3)  # nothing of the old state stays, so the candidate is seen
    x = torch.randn(BATCH, INPUT_DIM)
    one, other = (cell(x, torch.randn(BATCH, HIDDEN_DIM)) for _ in range(2))
    torch.testing.assert_close(one, other)


def test_an_lstm_that_forgets_nothing_and_writes_nothing_keeps_its_memory():
    cell = LSTMCell(INPUT_DIM, HIDDEN_DIM)
    set_bias(cell, 0, -1e3)
    set_bias(cell, 1, 1e3)
    hidden, memory = torch.randn(2, BATCH, HIDDEN_DIM)
    after, kept = cell(torch.randn(BATCH, INPUT_DIM), (hidden, memory))
    torch.testing.assert_close(kept, memory)
    assert not torch.allclose(after, hidden)


@pytest.mark.parametrize("kind", [RNNCell, GRUCell, LSTMCell])
def test_sizes_that_cannot_be_are_refused(kind):
    with pytest.raises(ValueError, match="input_dim=0 and hidden_dim=3 must be positive"):
        kind(0, 3)
