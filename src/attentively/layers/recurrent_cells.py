"""Recurrent cells by hand: one time step of a plain RNN, a GRU and an LSTM.

Elman (1990), https://doi.org/10.1207/s15516709cog1402_1, for the plain one; Cho et al. (2014),
https://arxiv.org/abs/1406.1078, section 2.3, for the GRU; Hochreiter & Schmidhuber (1997),
https://doi.org/10.1162/neco.1997.9.8.1735, with the forget gate of Gers et al. (2000) for the LSTM.

Written to be read. The models of this book run `torch.nn.GRU`, which reads a whole sentence in
one call. Parameters are named and stacked as in `torch.nn`, so weights load both ways.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class _Cell(nn.Module):
    """Hold the matrices and biases of a cell: a block of rows for each of its parts."""

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
        """Return what the input says to every part of the cell, and what the old state says."""
        from_input = F.linear(x, self.weight_ih, self.bias_ih)
        from_state = F.linear(hidden, self.weight_hh, self.bias_hh)
        return from_input, from_state


class RNNCell(_Cell):
    r"""Mix the input with the old state.

    .. math:: h_t = \tanh(W x_t + U h_{t-1} + b)

    with :math:`b` in two summands, as in `torch.nn.RNNCell`: one for each matrix.
    """

    parts = 1

    def forward(
        self,
        x: Float[Tensor, "batch input_dim"],
        hidden: Float[Tensor, "batch hidden_dim"],
    ) -> Float[Tensor, "batch hidden_dim"]:
        """Return the new state."""
        from_input, from_state = self.project(x, hidden)
        return torch.tanh(from_input + from_state)


class GRUCell(_Cell):
    r"""Mix a candidate with the old state, number by number, as gates say.

    .. math::

        r_t &= \sigma(W_r x_t + U_r h_{t-1} + b_r) \\
        z_t &= \sigma(W_z x_t + U_z h_{t-1} + b_z) \\
        n_t &= \tanh(W_n x_t + b_n + r_t \odot (U_n h_{t-1} + b'_n)) \\
        h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    This is `torch.nn.GRUCell`. The paper's reset gate comes before the matrix,
    :math:`U_n (r_t \odot h_{t-1})`, and it has no biases; its update gate is the same
    way round.
    """

    parts = 3

    def forward(
        self,
        x: Float[Tensor, "batch input_dim"],
        hidden: Float[Tensor, "batch hidden_dim"],
    ) -> Float[Tensor, "batch hidden_dim"]:
        """Return the new state."""
        from_input, from_state = self.project(x, hidden)
        input_reset, input_update, input_candidate = from_input.chunk(3, dim=-1)
        state_reset, state_update, state_candidate = from_state.chunk(3, dim=-1)
        reset = torch.sigmoid(input_reset + state_reset)  # r
        update = torch.sigmoid(input_update + state_update)  # z: how much stays
        candidate = torch.tanh(input_candidate + reset * state_candidate)  # n
        return (1 - update) * candidate + update * hidden


class LSTMCell(_Cell):
    r"""Keep a memory apart from the state that the outside sees.

    .. math::

        i_t, f_t, o_t &= \sigma(W_{i,f,o}\, x_t + U_{i,f,o}\, h_{t-1} + b_{i,f,o}) \\
        g_t &= \tanh(W_g x_t + U_g h_{t-1} + b_g) \\
        c_t &= f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)

    This is `torch.nn.LSTMCell`. In the paper of 1997 there is no forget gate: :math:`f_t = 1`.
    """

    parts = 4

    def forward(
        self,
        x: Float[Tensor, "batch input_dim"],
        state: tuple[Float[Tensor, "batch hidden_dim"], Float[Tensor, "batch hidden_dim"]],
    ) -> tuple[Float[Tensor, "batch hidden_dim"], Float[Tensor, "batch hidden_dim"]]:
        """Return the new state: what is seen outside, and the memory."""
        hidden, memory = state
        from_input, from_state = self.project(x, hidden)
        parts = from_input + from_state
        # i, f, g, o before they are bent
        write, forget, candidate, read = parts.chunk(4, dim=-1)
        kept = torch.sigmoid(forget) * memory
        memory = kept + torch.sigmoid(write) * torch.tanh(candidate)
        return torch.sigmoid(read) * torch.tanh(memory), memory
