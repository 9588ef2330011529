"""Recurrent cells by hand: one time step of a plain RNN, a GRU and an LSTM.

Elman (1990), https://doi.org/10.1207/s15516709cog1402_1, for the plain RNN; Cho et al. (2014),
https://arxiv.org/abs/1406.1078, section 2.3, for the GRU; Hochreiter & Schmidhuber (1997),
https://doi.org/10.1162/neco.1997.9.8.1735, with the forget gate of Gers et al. (2000) for the LSTM.

These cells are written for readability. The models of the book use `torch.nn.GRU`, which processes
a whole sentence in one call. Parameters have the names and the layout of `torch.nn`, so weights can
be copied in both directions.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class _Cell(nn.Module):
    """The weight matrices and biases of a cell: one block of rows for each gate or candidate."""

    parts: int

    def __init__(self, input_dim: int, hidden_dim: int) -> None:
        super().__init__()
        if input_dim < 1 or hidden_dim < 1:
            raise ValueError(f"input_dim={input_dim} and hidden_dim={hidden_dim} must be positive")
        rows = self.parts * hidden_dim
        self.weight_ih = nn.Parameter(torch.empty(rows, input_dim))  # W
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_dim))  # U
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_dim**-0.5), hidden_dim**-0.5)

    def project(
        self,
        x: Float[Tensor, "batch input_dim"],
        hidden: Float[Tensor, "batch hidden_dim"],
    ) -> tuple[Float[Tensor, "batch rows"], Float[Tensor, "batch rows"]]:
        """Return the projections of the input and of the previous state, for all gates at once."""
        from_input = F.linear(x, self.weight_ih, self.bias_ih)
        from_state = F.linear(hidden, self.weight_hh, self.bias_hh)
        return from_input, from_state


class RNNCell(_Cell):
    r"""A plain (Elman) RNN cell.

    .. math:: h_t = \tanh(W x_t + U h_{t-1} + b)

    where :math:`b` is the sum of two biases, one per matrix, as in `torch.nn.RNNCell`.
    """

    parts = 1

    def forward(
        self,
        x: Float[Tensor, "batch input_dim"],
        hidden: Float[Tensor, "batch hidden_dim"],
    ) -> Float[Tensor, "batch hidden_dim"]:
        """Return the new hidden state."""
        from_input, from_state = self.project(x, hidden)
        return torch.tanh(from_input + from_state)


class GRUCell(_Cell):
    r"""A gated recurrent unit (GRU) cell: a weighted sum of old and candidate state.

    .. math::

        r_t &= \sigma(W_r x_t + U_r h_{t-1} + b_r) \\
        z_t &= \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
        n_t &= \tanh(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + b'_n)) \\
        h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    The reset gate :math:`r_t` controls how much of the previous state enters the
    candidate :math:`n_t`; the update gate :math:`z_t` controls how much of it is kept.
    This is `torch.nn.GRUCell`. In the paper the reset gate acts before the matrix,
    :math:`U_n (r_t \odot h_{t-1})`, and there are no biases.
    """

    parts = 3

    def forward(
        self,
        x: Float[Tensor, "batch input_dim"],
        hidden: Float[Tensor, "batch hidden_dim"],
    ) -> Float[Tensor, "batch hidden_dim"]:
        """Return the new hidden state."""
        from_input, from_state = self.project(x, hidden)
        input_reset, input_update, input_candidate = from_input.chunk(3, dim=-1)
        state_reset, state_update, state_candidate = from_state.chunk(3, dim=-1)
        reset = torch.sigmoid(input_reset + state_reset)  # r
        update = torch.sigmoid(input_update + state_update)  # z
        candidate = torch.tanh(input_candidate + reset * state_candidate)  # n
        return (1 - update) * candidate + update * hidden


class LSTMCell(_Cell):
    r"""A long short-term memory (LSTM) cell: a cell state with three gates.

    .. math::

        i_t, f_t, o_t &= \sigma(W_{i,f,o}\, x_t + U_{i,f,o}\, h_{t-1} + b_{i,f,o}) \\
        g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g) \\
        c_t &= f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)

    The forget gate :math:`f_t` controls how much of the cell state :math:`c_{t-1}` is kept, the
    input gate :math:`i_t` how much of the candidate :math:`g_t` is added to it, and the output
    gate :math:`o_t` how much of it the hidden state :math:`h_t` shows. This is
    `torch.nn.LSTMCell`. The paper of 1997 has no forget gate: :math:`f_t = 1`.
    """

    parts = 4

    def forward(
        self,
        x: Float[Tensor, "batch input_dim"],
        state: tuple[Float[Tensor, "batch hidden_dim"], Float[Tensor, "batch hidden_dim"]],
    ) -> tuple[Float[Tensor, "batch hidden_dim"], Float[Tensor, "batch hidden_dim"]]:
        """Return the new hidden state and the new cell state."""
        hidden, cell_state = state
        from_input, from_state = self.project(x, hidden)
        i, f, g, o = (from_input + from_state).chunk(4, dim=-1)
        input_gate, forget_gate = torch.sigmoid(i), torch.sigmoid(f)
        candidate, output_gate = torch.tanh(g), torch.sigmoid(o)
        cell_state = forget_gate * cell_state + input_gate * candidate  # c
        hidden = output_gate * torch.tanh(cell_state)  # h
        return hidden, cell_state
