"""Checks of the assignment on recurrent networks.

Parts 1 to 3 rebuild code of the package and are compared with PyTorch or the package. Parts 4 and
5 are original problems, and this module contains no solution to them: costs are measured, and the
corrected encoder is compared with a loop over the words of one sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from attentively.checks import (
    ATOL,
    RTOL,
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    in_turn,
    known,
    once_solved,
    plain_number,
    plain_tensor,
    show,
)
from attentively.checks.trained_translator import MODEL, expect_same_translations
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import PAD_ID, target_ids
from attentively.training.losses import cross_entropy

__all__ = [
    "bug_hunt",
    "clipping",
    "encoder",
    "gru_step",
    "once_solved",
    "predictions",
    "progress",
    "ready",
    "rebuilt",
]

SENTENCES = (
    "the cat drinks the milk",
    "the girl does not see the white horse",
    "the animal did not cross the street because it was too tired",
    "my uncle hears the small dog and the queen opens the door",
)

Inputs = Mapping[str, Tensor]
Reader = Callable[..., Tensor]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Translate one sentence, to show that the package, its trained model and the checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"to “{translation.text}”. The set-up is complete.")


# The trained translator


class _Encoder(nn.Module):
    """A student's function in place of the package's encoder, with cells that have its weights."""

    def __init__(
        self,
        read_both_ways: Callable[..., tuple[Tensor, Tensor]],
        forward_cell: nn.Module,
        backward_cell: nn.Module,
    ) -> None:
        super().__init__()
        self.read_both_ways = read_both_ways
        self.forward_cell = forward_cell
        self.backward_cell = backward_cell

    def forward(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        lengths = mask.sum(dim=1)
        return self.read_both_ways(self.forward_cell, self.backward_cell, embedded, lengths)


def rebuilt(
    cell: Callable[[int, int], nn.Module], read_both_ways: Callable[..., tuple[Tensor, Tensor]]
) -> Checkpoint:
    """Return the trained translator with all its recurrent parts replaced by these two."""
    checkpoint = load_pretrained(MODEL)
    model = cast(Seq2Seq, checkpoint.model)
    model.decoder.cell = _with_the_weights_of(model.decoder.cell, cell)  # type: ignore[assignment]
    theirs = _cells(model.encoder)
    cells = [_with_the_weights_of(each, cell) for each in theirs]
    model.encoder = _Encoder(read_both_ways, *cells).eval()  # type: ignore[assignment]
    return checkpoint


def _with_the_weights_of(theirs: nn.GRUCell, cell: Callable[[int, int], nn.Module]) -> nn.Module:
    mine = cell(theirs.input_size, theirs.hidden_size)
    mine.load_state_dict(theirs.state_dict())
    return mine


def _cells(encoder: BidirectionalEncoder) -> tuple[nn.GRUCell, nn.GRUCell]:
    """Return the encoder's forward and backward GRU as cells, which process one word per call."""
    cells = []
    for suffix in ("_l0", "_l0_reverse"):
        cell = nn.GRUCell(encoder.gru.input_size, encoder.gru.hidden_size)
        names = cell.state_dict()
        cell.load_state_dict({name: getattr(encoder.gru, name + suffix) for name in names})
        cells.append(cell)
    return cells[0], cells[1]


def _round(*sizes: int) -> Tensor:
    """Return random values with one decimal, which a message shows completely."""
    return torch.randn(sizes).mul(10).round().div(10)


# Part 1


def _gru(
    x: Tensor,
    state: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
    order: str = "rzn",
    gate: Callable[[Tensor], Tensor] = torch.sigmoid,
    squash: Callable[[Tensor], Tensor] = torch.tanh,
    inside: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda r, i, h: i + r * h,
    mix: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda z, n, h: (1 - z) * n + z * h,
) -> Tensor:
    """Compute a GRU step in which one thing can be done differently."""
    from_input = dict(zip(order, (x @ weight_ih.T + bias_ih).chunk(3, dim=-1), strict=True))
    from_state = dict(zip(order, (state @ weight_hh.T + bias_hh).chunk(3, dim=-1), strict=True))
    r, z = (gate(from_input[name] + from_state[name]) for name in "rz")
    n = squash(inside(r, from_input["n"], from_state["n"]))
    return mix(z, n, state)


def _reset_before(
    x: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """Compute the step of Cho et al. (2014) as published: the reset gate before the matrix."""
    size = state.size(-1)
    gates = (x @ weight_ih.T + bias_ih + state @ weight_hh.T + bias_hh)[..., : 2 * size]
    r, z = gates.sigmoid().chunk(2, dim=-1)
    recurrent = (r * state) @ weight_hh[2 * size :].T + bias_hh[2 * size :]
    n = (x @ weight_ih[2 * size :].T + bias_ih[2 * size :] + recurrent).tanh()
    return (1 - z) * n + z * state


def _bias_outside(
    x: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """Compute a step in which the candidate's recurrent bias is added after the reset gate."""
    size = state.size(-1)
    b_hn = bias_hh[2 * size :]
    weights = (weight_ih, weight_hh, bias_ih, bias_hh)
    return _gru(x, state, *weights, inside=lambda r, i, h: i + r * (h - b_hn) + b_hn)


def _no_bias(ih: bool, hh: bool) -> Callable[..., Tensor]:
    def step(x: Tensor, h: Tensor, wi: Tensor, wh: Tensor, bi: Tensor, bh: Tensor) -> Tensor:
        return _gru(x, h, wi, wh, 0 * bi if ih else bi, 0 * bh if hh else bh)

    return step


_STEP_TWINS = (
    *known(
        "The shares of the update gate are exchanged: z is the share of the *old* state and 1 - z "
        "that of the candidate, (1 - z) * n + z * h. (Papers differ here; trained weights fit only "
        "one version.)",
        partial(_gru, mix=lambda z, n, h: z * n + (1 - z) * h),
    ),
    Twin(
        "The reset gate is applied before the recurrent matrix, U_n (r * h), as in the published "
        "GRU paper. In PyTorch it is applied after it: r * (U_n h + b'_n).",
        _reset_before,
    ),
    Twin(
        "The bias b'_n is added outside the product with the reset gate. The gate multiplies the "
        "whole term: r * (U_n h + b'_n).",
        _bias_outside,
    ),
    Twin("bias_ih and bias_hh are missing. Add both biases.", _no_bias(True, True)),
    Twin("bias_ih is missing. Add it to x @ weight_ih.T.", _no_bias(True, False)),
    Twin("bias_hh is missing. Add it to state @ weight_hh.T.", _no_bias(False, True)),
    Twin(
        "tanh and sigmoid are exchanged: the gates need the sigmoid (values between 0 and 1), the "
        "candidate needs the tanh (values between -1 and 1).",
        partial(_gru, gate=torch.tanh, squash=torch.sigmoid),
    ),
    Twin(
        "The gates are computed with a tanh. A gate is between 0 and 1: use the sigmoid.",
        partial(_gru, gate=torch.tanh),
    ),
    Twin(
        "The candidate is computed with a sigmoid. It is between -1 and 1: use the tanh.",
        partial(_gru, squash=torch.sigmoid),
    ),
    Twin(
        "The tanh of the candidate is missing, so the hidden state is not bounded.",
        partial(_gru, squash=lambda n: n),
    ),
    Twin(
        "r and z are exchanged. The blocks of rows are in the order r, z, n.",
        partial(_gru, order="zrn"),
    ),
    *known(
        "The blocks of rows are used in the wrong order. It is r, z, n.",
        *(partial(_gru, order=order) for order in ("nrz", "nzr", "rnz", "znr")),
    ),
    Twin(
        "The reset gate multiplies the whole candidate term, W_n x + b_n included. It multiplies "
        "only the part of the state, U_n h + b'_n.",
        partial(_gru, inside=lambda r, i, h: r * (i + h)),
    ),
    Twin(
        "The reset gate multiplies the part of the input, W_n x + b_n. It multiplies the part of "
        "the state, U_n h + b'_n.",
        partial(_gru, inside=lambda r, i, h: r * i + h),
    ),
    Twin(
        "The reset gate is not used. In the candidate it multiplies U_n h + b'_n.",
        partial(_gru, inside=lambda r, i, h: i + h),
    ),
    Twin(
        "These values are the candidate n. The new state is a weighted sum of candidate and old "
        "state: (1 - z) * n + z * h.",
        partial(_gru, mix=lambda z, n, h: n),
    ),
    Twin(
        "The share of the old state is missing: add z * h.",
        partial(_gru, mix=lambda z, n, h: (1 - z) * n),
    ),
    Twin(
        "The candidate is added with weight 1. Its weight is 1 - z, so that the two weights sum to "
        "1.",
        partial(_gru, mix=lambda z, n, h: n + z * h),
    ),
)


@_parts.part(
    "GRU step",
    "GRUCell",
    rebuilds=("attentively.layers.recurrent_cells:GRUCell",),
    refuses=(
        "torch.nn:GRUCell",
        "torch.nn:GRU",
        "torch:gru_cell",
    ),
)
def gru_step(candidate: object, thorough: bool = False) -> None:
    """Check a GRU cell against PyTorch's, then inside the decoder of the trained model."""
    # batch, input_size, hidden_size, and whether the biases are other than zero
    stages = [(1, 1, 1, False), (1, 1, 2, False), (1, 1, 2, True), (3, 5, 7, True)]
    if thorough:
        stages += [(1, 7, 3, True), (11, 2, 5, True), (2, 3, 1, True)]
    for stage in stages:
        _check_step(candidate, *stage)
    mine, _ = _cell_of(candidate, 5, 3)
    inputs = {"x": torch.randn(2, 5).requires_grad_(), "state": torch.randn(2, 3).requires_grad_()}
    parameters = {name: value for name, value in mine.named_parameters() if name in _NAMES}
    expect_gradients_through(mine, inputs, {**inputs, **parameters})

    def replace(model: Seq2Seq) -> None:
        theirs = model.decoder.cell
        mine, _ = _cell_of(candidate, theirs.input_size, theirs.hidden_size)
        mine.load_state_dict(theirs.state_dict())
        model.decoder.cell = mine.eval()  # type: ignore[assignment]

    expect_same_translations(replace, SENTENCES, "cell")


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _cell_of(candidate: object, input_size: int, hidden_size: int) -> tuple[nn.Module, nn.GRUCell]:
    """Build the candidate and PyTorch's cell with the same weights."""
    sizes = {"input_size": input_size, "hidden_size": hidden_size}
    mine = call(candidate, sizes)
    if not isinstance(mine, nn.Module):
        raise CheckFailed("  GRUCell must be a class that derives from torch.nn.Module.")
    theirs = nn.GRUCell(input_size, hidden_size)
    found = {name: tuple(value.shape) for name, value in mine.named_parameters()}
    wanted = {name: tuple(value.shape) for name, value in theirs.named_parameters()}
    if found != wanted:
        raise CheckFailed(
            "  The names or shapes of the parameters of GRUCell have changed. The check loads "
            f"trained weights by name, so they must stay as given.\n{describe(sizes)}\n"
            f"  got         {found}\n  expected    {wanted}"
        )
    mine.load_state_dict(theirs.state_dict(), strict=False)
    return mine, theirs


def _check_step(
    candidate: object, batch: int, input_size: int, hidden_size: int, biases: bool
) -> None:
    mine, theirs = _cell_of(candidate, input_size, hidden_size)
    weights = {name: _round(*value.shape) for name, value in theirs.named_parameters()}
    if not biases:
        weights |= {name: torch.zeros(3 * hidden_size) for name in ("bias_ih", "bias_hh")}
    theirs.load_state_dict(weights)
    mine.load_state_dict(weights, strict=False)
    inputs = {"x": _round(batch, input_size), "state": _round(batch, hidden_size)}
    try:
        answer = call_twice(mine, inputs)
    except CheckFailed as failed:
        if "shapes cannot be multiplied" not in str(failed):
            raise
        shapes = ", ".join(f"{name} {tuple(weights[name].shape)}" for name in _NAMES[:2])
        raise CheckFailed(
            f"{failed}\n  The matrices have one row for each result: {shapes}. Multiply by their "
            "transposes, for example x @ self.weight_ih.T."
        ) from None
    with torch.no_grad():
        expected = theirs(*inputs.values())
    if isinstance(answer, tuple | list):
        raise CheckFailed(
            f"  GRUCell returns {len(answer)} values; it must return one tensor, the new state. "
            f"(An LSTM has two states, a GRU has one.)\n{describe(inputs)}"
        )
    hint = "Return one state for each sentence: (batch, hidden_size)."
    try:
        expect_equal(answer, expected, "the new state", inputs | weights, _STEP_TWINS, hint)
    except CheckFailed as failed:
        if batch > 1 or "not the expected ones" not in str(failed):
            raise
        raise CheckFailed(f"{failed}\n{_on_the_way(**inputs, **weights)}") from None


def _on_the_way(
    x: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> str:
    """Return the correct gates and candidate, for a mistake without a message of its own."""
    x_r, x_z, x_n = (x @ weight_ih.T + bias_ih).chunk(3, dim=-1)
    h_r, h_z, h_n = (state @ weight_hh.T + bias_hh).chunk(3, dim=-1)
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    made = {"r": r, "z": z, "n": (x_n + r * h_n).tanh()}
    return "              from " + ", ".join(f"{name} = {show(v)}" for name, v in made.items())


# Part 2


def _states(cell: nn.Module, embedded: Tensor, state: Tensor | None = None) -> Tensor:
    """Return the cell's state after each position, from left to right; it starts with zeros."""
    if state is None:
        state = embedded.new_zeros(len(embedded), cast(nn.GRUCell, cell).hidden_size)
    states = []
    for word in embedded.unbind(dim=1):
        state = cell(word, state)
        states.append(state)
    return torch.stack(states, dim=1)


def _turned(values: Tensor, lengths: Tensor) -> Tensor:
    """Reverse the words of each sentence; its padding stays at the end."""
    return torch.stack(
        [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(values, lengths, strict=True)]
    )


def _masked(values: Tensor, lengths: Tensor) -> Tensor:
    return values * (torch.arange(values.size(1)) < lengths.unsqueeze(1)).unsqueeze(-1)


def _backwards(cell: nn.Module, embedded: Tensor, lengths: Tensor) -> Tensor:
    return _turned(_states(cell, _turned(embedded, lengths)), lengths)


def _from_padding(cell: nn.Module, embedded: Tensor, lengths: Tensor) -> Tensor:
    return _states(cell, embedded.flip(1)).flip(1)


def _without_state(cell: nn.Module, embedded: Tensor, lengths: Tensor) -> Tensor:
    return torch.cat([_states(cell, word) for word in embedded.split(1, dim=1)], dim=1)


def _from_the_last_sentence(cell: nn.Module, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Process one sentence after another; each starts with the last state of the one before."""
    words = torch.cat([row[:n] for row, n in zip(embedded, lengths, strict=True)])
    rows = _states(cell, words.unsqueeze(0))[0].split(lengths.tolist())
    fillers = embedded.size(1) - lengths
    return torch.stack(
        [nn.functional.pad(row, (0, 0, 0, int(n))) for row, n in zip(rows, fillers, strict=True)]
    )


def _on_from_the_forward_state(f: nn.Module, b: nn.Module, e: Tensor, n: Tensor) -> Tensor:
    ahead = _states(f, e)
    back = _turned(_states(b, _turned(e, n), _at(ahead, n - 1)), n)
    return _masked(torch.cat([ahead, back], dim=-1), n)


def _one_more(e: Tensor, n: Tensor) -> Tensor:
    return (n + 1).clamp(max=e.size(1))


def _at(states: Tensor, positions: Tensor) -> Tensor:
    return states[torch.arange(len(states)), positions]


def _one_late(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the states before each position instead of after it."""
    return torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)


def _held(states: Tensor, lengths: Tensor) -> Tensor:
    """Return states in which the last one is repeated at all padding."""
    return torch.stack(
        [
            torch.cat([row[:n], row[n - 1].expand(len(row) - int(n), -1)])
            for row, n in zip(states, lengths, strict=True)
        ]
    )


def _side_by_side(
    forward: Callable[[nn.Module, Tensor, Tensor], Tensor] = lambda cell, e, n: _states(cell, e),
    backward: Callable[[nn.Module, Tensor, Tensor], Tensor] = _backwards,
    join: Callable[[Tensor, Tensor], Tensor] = lambda f, b: torch.cat([f, b], dim=-1),
    end: Callable[[Tensor, Tensor], Tensor] = _masked,
) -> Reader:
    """Return a bidirectional encoder in which one thing is done differently."""

    def read(f: nn.Module, b: nn.Module, embedded: Tensor, lengths: Tensor) -> Tensor:
        both = join(forward(f, embedded, lengths), backward(b, embedded, lengths))
        return end(both, lengths)

    return read


def _not_zeroed(values: Tensor, lengths: Tensor) -> Tensor:
    return values


_READ_TWINS = (
    *known(
        "The states of the backward RNN are in the order in which it computed them, so the first "
        "one belongs to the last word. Reverse them, so that each is at its own word.",
        _side_by_side(backward=lambda cell, e, n: _states(cell, _turned(e, n))),
        _side_by_side(backward=lambda cell, e, n: _states(cell, e.flip(1))),
        _side_by_side(backward=lambda cell, e, n: _states(cell, e.flip(1)), end=_not_zeroed),
    ),
    *known(
        "The backward RNN processes the sentence from left to right, like the forward RNN. It "
        "starts at the last word.",
        _side_by_side(backward=lambda cell, e, n: _states(cell, e)),
        _side_by_side(backward=lambda cell, e, n: _states(cell, e), end=_not_zeroed),
    ),
    *known(
        "The backward RNN starts in the padding of a short sentence, so its states depend on the "
        "other sentences of the batch. It must start at the last word of each sentence, with "
        "zeros.",
        _side_by_side(backward=_from_padding),
        _side_by_side(backward=_from_padding, end=_not_zeroed),
        _side_by_side(backward=lambda cell, e, n: _from_padding(cell, _masked(e, n), n)),
    ),
    *known(
        "The annotations at padding are not zero. Set them to zero from each sentence's length on.",
        _side_by_side(end=_not_zeroed),
        _side_by_side(
            forward=lambda cell, e, n: _held(_states(cell, e), n),
            backward=lambda cell, e, n: _masked(_backwards(cell, e, n), n),
            end=_not_zeroed,
        ),
        _side_by_side(
            backward=lambda cell, e, n: _masked(_backwards(cell, e, n), n), end=_not_zeroed
        ),
        _side_by_side(forward=lambda cell, e, n: _held(_states(cell, e), n), end=_not_zeroed),
    ),
    Twin(
        "The two halves are exchanged: the state of the forward RNN comes first.",
        _side_by_side(join=lambda f, b: torch.cat([b, f], dim=-1)),
    ),
    Twin(
        "The two states of a word are added. Concatenate them with torch.cat along the last axis.",
        _side_by_side(join=lambda f, b: f + b),
    ),
    Twin(
        "forward_cell is used in both directions. The backward RNN uses backward_cell.",
        lambda f, b, e, n: _side_by_side()(f, f, e, n),
    ),
    Twin(
        "The two cells are exchanged: forward_cell processes the sentence from left to right.",
        lambda f, b, e, n: _side_by_side()(b, f, e, n),
    ),
    Twin(
        "The state is not passed on: each word is processed as if it were the first. Pass the "
        "state that the cell returns to its next call.",
        _side_by_side(forward=_without_state, backward=_without_state),
    ),
    Twin(
        "The last state of one sentence is used as the first state of the next sentence of the "
        "batch. Each sentence starts with zeros.",
        _side_by_side(
            forward=_from_the_last_sentence,
            backward=lambda cell, e, n: _turned(_from_the_last_sentence(cell, _turned(e, n), n), n),
        ),
    ),
    *known(
        "Each annotation contains the state before its word is processed. It must contain the "
        "state after it.",
        _side_by_side(
            forward=lambda cell, e, n: _one_late(_states(cell, e), n),
            backward=lambda cell, e, n: _turned(_one_late(_states(cell, _turned(e, n)), n), n),
        ),
        _side_by_side(forward=lambda cell, e, n: _one_late(_states(cell, e), n)),
    ),
    Twin(
        "The backward RNN starts with the last state of the forward RNN. Both start with zeros.",
        _on_from_the_forward_state,
    ),
    *known(
        "The length is wrong by one: the words of a sentence are at the positions 0 to length - 1.",
        lambda f, b, e, n: _side_by_side()(f, b, e, n - 1),
        lambda f, b, e, n: _side_by_side()(f, b, e, _one_more(e, n)),
        _side_by_side(backward=lambda cell, e, n: _backwards(cell, e, _one_more(e, n))),
    ),
)


_STATE_TWINS = (
    Twin(
        "This is the state of the forward RNN at the last word. Return the state of the backward "
        "RNN at the first word.",
        lambda f, b, e, n: _at(_states(f, e), n - 1),
    ),
    *known(
        "This is the state of the backward RNN at the last word, after one word only. Return its "
        "last state, which is at the first word.",
        lambda f, b, e, n: _at(_backwards(b, e, n), n - 1),
    ),
    Twin(
        "This is the backward state at the last position of the batch, which is padding in a short "
        "sentence. The last state of the backward RNN is at the first word.",
        lambda f, b, e, n: _masked(_backwards(b, e, n), n)[:, -1],
    ),
    Twin(
        "The backward RNN continues from the first word into the padding. Return its state after "
        "the first word.",
        lambda f, b, e, n: _states(b, _turned(e, n))[:, -1],
    ),
    Twin(
        "The backward RNN starts in the padding of a short sentence. It must start at the last "
        "word of each sentence, with zeros.",
        lambda f, b, e, n: _from_padding(b, e, n)[:, 0],
    ),
    Twin(
        "These are both halves of the first word's annotation. Return the backward half only.",
        lambda f, b, e, n: _side_by_side()(f, b, e, n)[:, 0],
    ),
)


@_parts.part(
    "bidirectional encoder",
    "read_both_ways",
    rebuilds=("attentively.layers.bidirectional:BidirectionalEncoder",),
)
def encoder(candidate: object, thorough: bool = False) -> None:
    """Check a bidirectional encoder, then in place of the encoder of the trained model."""
    # The lengths of the sentences, the dimension of a word, the dimension of a state
    # Not 1 first: with states of dimension 1, a word without its batch axis crashes PyTorch.
    stages = [([2], 1, 2), ([3, 1], 1, 1), ([1, 3, 2], 2, 3), ([5, 2, 7], 3, 5)]
    if thorough:
        stages += [([1], 5, 2), ([1, 1], 2, 7), ([11, 11, 4, 1], 7, 3), ([2, 13], 1, 11)]
    for lengths, size, hidden in stages:
        _check_reading(candidate, lengths, size, hidden)
    _check_reading(candidate, [2, 1], 1, 1, more=2)
    _expect_gradients_of_reading(candidate)

    def replace(model: Seq2Seq) -> None:
        cells = _cells(model.encoder)
        read = cast(Callable[..., tuple[Tensor, Tensor]], candidate)
        model.encoder = _Encoder(read, *cells).eval()  # type: ignore[assignment]

    expect_same_translations(replace, SENTENCES, "encoder")


def _reading_inputs(
    lengths: Sequence[int], size: int, hidden: int, more: int = 0
) -> dict[str, object]:
    """Return two cells and sentences, with `more` positions of padding after the longest."""
    cells = [nn.GRUCell(size, hidden) for _ in range(2)]
    for cell in cells:
        for parameter in cell.parameters():
            nn.init.normal_(parameter)
    return {
        "forward_cell": cells[0],
        "backward_cell": cells[1],
        # Padding is not zero here, so that processing it changes the result.
        "embedded": _round(len(lengths), max(lengths) + more, size),
        "lengths": torch.tensor(lengths),
    }


def _check_reading(
    candidate: object, lengths: Sequence[int], size: int, hidden: int, more: int = 0
) -> None:
    inputs = _reading_inputs(lengths, size, hidden, more)
    names = ("annotations", "backward_state")
    with torch.no_grad():
        answer = expect_pair(call_twice(candidate, inputs), names, inputs)
        expected = _by_the_package(inputs)
        hint = (
            "Return two states for each position, padding included: (batch, src_len, "
            "2 * hidden_size). src_len is embedded.size(1), even if every sentence is shorter."
        )
        expect_equal(answer[0], expected[0], "the annotations", inputs, _READ_TWINS, hint)
        hint = "Return one state for each sentence: (batch, hidden_size)."
        expect_equal(answer[1], expected[1], "the backward state", inputs, _STATE_TWINS, hint)


def _by_the_package(inputs: Mapping[str, object]) -> tuple[Tensor, Tensor]:
    """Apply the package's encoder, with the weights of the cells."""
    forward_cell, backward_cell = (cast(nn.GRUCell, each) for each in list(inputs.values())[:2])
    embedded, lengths = (cast(Tensor, each) for each in list(inputs.values())[2:])
    package = BidirectionalEncoder(forward_cell.input_size, forward_cell.hidden_size)
    weights = {f"gru.{name}_l0": value for name, value in forward_cell.state_dict().items()}
    weights |= {
        f"gru.{name}_l0_reverse": value for name, value in backward_cell.state_dict().items()
    }
    package.load_state_dict(weights)
    return package(embedded, torch.arange(embedded.size(1)) < lengths.unsqueeze(1))


def _expect_gradients_of_reading(candidate: object) -> None:
    inputs = _reading_inputs([3, 2], 2, 3)
    first = torch.randn(2, 1, 2, requires_grad=True)
    middle = torch.randn(2, 1, 2)
    last = torch.randn(2, 1, 2, requires_grad=True)
    cells = (inputs["forward_cell"], inputs["backward_cell"])

    def read(first: Tensor, last: Tensor) -> object:
        embedded = torch.cat([first, middle, last], dim=1)
        return candidate(*cells, embedded, inputs["lengths"])  # type: ignore[operator]

    given = {"first": first, "last": last}
    for name, pick in (("first", lambda a: a[0][:1, 2, :3]), ("last", lambda a: a[0][:1, 0, 3:])):
        _expect_way_back(read, given, name, pick)
    embedded = torch.randn(2, 3, 2).requires_grad_()

    def read_all(embedded: Tensor) -> object:
        return candidate(*cells, embedded, inputs["lengths"])  # type: ignore[operator]

    parameters = {
        f"{which}.{name}": value
        for which in ("forward_cell", "backward_cell")
        for name, value in cast(nn.Module, inputs[which]).named_parameters()
    }
    for index in (0, 1):
        sources = {
            name: value
            for name, value in parameters.items()
            if index == 0 or name.startswith("backward")
        }
        expect_gradients_through(
            read_all,
            {"embedded": embedded},
            {"embedded": embedded} | sources,
            pick=lambda answer, index=index: answer[index],
        )


def _expect_way_back(read: object, given: Inputs, name: str, pick: Callable[..., Tensor]) -> None:
    try:
        expect_gradients_through(read, given, {name: given[name]}, pick=pick, slopes=False)
    except CheckFailed as failed:
        if "no gradient" not in str(failed):
            raise
        raise CheckFailed(
            f"  The values are correct, but no gradient reaches the {name} word from the other end "
            "of its sentence: the path through the states is interrupted. Is a state detached, or "
            "copied with torch.tensor(...) or .data, before it is passed on?"
        ) from None


# Part 3


def _norm(gradients: Sequence[Tensor]) -> Tensor:
    return torch.stack([g.square().sum() for g in gradients]).sum().sqrt()


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([g.detach().flatten() for g in gradients])


def _scaled(
    measure: Callable[[Sequence[Tensor]], Tensor], always: bool = False
) -> Callable[..., Tensor]:
    """Return a clipping function that uses another measure of the gradients' size."""

    def clip(gradients: Sequence[Tensor], max_norm: float) -> Tensor:
        size = measure(gradients)
        return _flat(gradients) * (max_norm / size if always or size > max_norm else 1.0)

    return clip


def _sum_of_norms(gradients: Sequence[Tensor]) -> Tensor:
    return torch.stack([g.norm() for g in gradients]).sum()


_SUM_OF_NORMS = (
    "The norms of the tensors are added. The total norm is that of all entries together: the "
    "square root of the sum of all squares."
)
_SQUARED = "The square root is missing: the norm is the square root of the sum of squares."
_ABSOLUTE = "Absolute values are added. The norm is the square root of the sum of squares."
_ONE_ENTRY = "The largest absolute entry is used as the norm. The norm depends on all entries."
_LARGEST = "The largest norm of any tensor is used. All tensors together have one norm."
_MEAN = "The squares are averaged. The norm sums them."
_CLIP_TWINS = (
    *known(
        "Each tensor is clipped by its own norm, which changes the direction of the step. Scale "
        "all tensors by one factor, computed from the norm of all of them together.",
        lambda gs, m: torch.cat([_scaled(_norm)([g], m) for g in gs]),
        lambda gs, m: torch.cat([_scaled(_norm, always=True)([g], m) for g in gs]),
    ),
    Twin(
        "Each entry is limited to max_norm separately, which changes the direction of the step. "
        "Scale all entries by one factor.",
        lambda gs, m: _flat(gs).clamp(-m, m),
    ),
    Twin(
        "Gradients whose norm is below max_norm are scaled up. Leave them unchanged: the factor is "
        "at most 1.",
        _scaled(_norm, always=True),
    ),
    *known(
        _SQUARED,
        _scaled(lambda gs: _norm(gs).square()),
        _scaled(lambda gs: _norm(gs).square(), always=True),
        lambda gs, m: _flat(gs) * (m / _norm(gs).square() if _norm(gs) > m else 1.0),
    ),
    Twin(_SUM_OF_NORMS, _scaled(_sum_of_norms)),
    Twin(_ABSOLUTE, _scaled(lambda gs: _flat(gs).abs().sum())),
    Twin(_ONE_ENTRY, _scaled(lambda gs: _flat(gs).abs().max())),
    Twin(_LARGEST, _scaled(lambda gs: torch.stack([g.norm() for g in gs]).max())),
    Twin(_MEAN, _scaled(lambda gs: _flat(gs).square().mean().sqrt())),
    *known(
        "The gradients are divided by their norm, so the new norm is 1. It must be max_norm.",
        lambda gs, m: _flat(gs) / _norm(gs),
        lambda gs, m: _flat(gs) / _norm(gs) if _norm(gs) > m else _flat(gs),
    ),
    Twin(
        "The factor is inverted: it must be max_norm / total.",
        lambda gs, m: _flat(gs) * _norm(gs) / m if _norm(gs) > m else _flat(gs),
    ),
    Twin(
        "The gradients are divided by max_norm. The factor is max_norm / total.",
        lambda gs, m: _flat(gs) / m if _norm(gs) > m else _flat(gs),
    ),
    Twin(
        "Gradients that are too large are set to 0. Scale them down instead, so that their "
        "direction is kept.",
        lambda gs, m: 0 * _flat(gs) if _norm(gs) > m else _flat(gs),
    ),
    Twin(
        "The gradients are returned unchanged although their norm exceeds max_norm.",
        lambda gs, m: _flat(gs),
    ),
)
_TOTAL_TWINS = (
    Twin(
        "This is the norm after clipping. Return the norm before clipping, which shows whether the "
        "gradients explode.",
        lambda gs, m: min(float(_norm(gs)), m),
    ),
    Twin(_SQUARED, lambda gs, m: float(_norm(gs).square())),
    Twin(_SUM_OF_NORMS, lambda gs, m: float(_sum_of_norms(gs))),
    Twin(_ABSOLUTE, lambda gs, m: float(_flat(gs).abs().sum())),
    Twin(_ONE_ENTRY, lambda gs, m: float(_flat(gs).abs().max())),
    Twin(_LARGEST, lambda gs, m: max(float(g.norm()) for g in gs)),
    Twin(_MEAN, lambda gs, m: float(_flat(gs).square().mean().sqrt())),
    Twin(
        "This is the factor. Return the total norm before clipping.",
        lambda gs, m: min(1.0, m / float(_norm(gs))),
    ),
)


@_parts.part(
    "gradient clipping",
    "clip",
    rebuilds=("torch.nn.utils:clip_grad_norm_",),
)
def clipping(candidate: object, thorough: bool = False) -> None:
    """Check clipping by the total norm, then on the gradients of the trained model."""
    by_hand = [torch.tensor([2.0, -3.0, 6.0]), torch.tensor([[8.0, -16.0, 16.0]])]
    stages: list[tuple[list[Tensor], float]] = [
        (by_hand, 5.0),
        (by_hand, 100.0),
        ([each / 50 for each in by_hand], 1.0),
        ([torch.zeros(2), torch.zeros(1, 2)], 1.0),
        ([_round(1, 3), _round(5), _round()], 0.7),
    ]
    if thorough:
        stages += [
            ([torch.randn(7, 11)], 3.0),
            ([100 * torch.randn(2, 3, 5), 1e-3 * torch.randn(13)], 5.0),
            ([0.1 * torch.randn(3), 0.1 * torch.randn(2)], 0.05),
            ([torch.tensor([3.0]), torch.tensor([4.0])], 5.0),
        ]
    for gradients, max_norm in stages:
        _check_clipping(candidate, gradients, max_norm)
    gradients = _gradients_of_the_translator()
    for max_norm in (1000.0, 0.1):
        _check_clipping(candidate, gradients, max_norm)


def _check_clipping(candidate: object, gradients: list[Tensor], max_norm: float) -> None:
    inputs: dict[str, object] = {"gradients": gradients, "max_norm": max_norm}
    try:
        with torch.no_grad():
            answer = call_twice(candidate, inputs)
    except CheckFailed as failed:
        if "changes its input" not in str(failed):
            raise
        raise CheckFailed(
            "  Your code changes the gradients that it is given. Create new tensors instead: avoid "
            "*=, /= and methods whose name ends in _.\n" + describe(inputs)
        ) from None
    clipped, total = expect_pair(answer, ("clipped", "total"), inputs)
    if not isinstance(clipped, list | tuple) or len(clipped) != len(gradients):
        raise CheckFailed(
            f"  Expected a list of {len(gradients)} clipped tensors, one for each given tensor.\n"
            f"{describe(inputs)}\n  got         {show(clipped)}"
        )
    got = [
        plain_tensor(in_32_bits(each), f"clipped[{index}]", inputs)
        for index, each in enumerate(clipped)
    ]
    for index, (mine, given) in enumerate(zip(got, gradients, strict=True)):
        if mine.isnan().any():
            raise CheckFailed(
                "  The clipped gradients contain NaN: all gradients are 0 here, and 0 / 0 is not a "
                f"number. Divide by the norm only where it exceeds max_norm.\n{describe(inputs)}"
            )
        expect_tensor(mine, given.shape, f"clipped[{index}]", inputs)
    expected, total_norm = _scaled(_norm)(gradients, max_norm), float(_norm(gradients))
    # The model's gradients have many small entries: compare them in units of the largest.
    unit = float(expected.abs().max()) or 1.0
    twins = [
        Twin(said, lambda *given, wrong=wrong: wrong(*given) / unit) for said, wrong in _CLIP_TWINS
    ]
    expect_equal(_flat(got) / unit, expected / unit, "the clipped gradients", inputs, twins)
    expect_value(total, total_norm, "the total norm", inputs, _TOTAL_TWINS)


def _gradients_of_the_translator() -> list[Tensor]:
    """Return the gradients of the trained model on a wrong translation, which are large."""
    model, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    src = pad([src_tokenizer.encode(SENTENCES[0])], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, "la fille ne voit pas le cheval blanc")], PAD_ID)
    model.train()
    logits = model(src, tgt[:, :-1])
    cross_entropy(logits, tgt[:, 1:], PAD_ID).backward()
    return [p.grad.detach() for p in model.parameters() if p.grad is not None]


# Part 4

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_KINDS = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}


def _wrong_count(
    kind: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
    gates: int = 0,
    biases: int = 2,
    upper: Callable[[int, int, int], int] = lambda i, h, d: d * h,
    directions: int = 0,
    layers: int = 0,
) -> int:
    """Count parameters with something counted differently; without, the count is right."""
    both = 2 if bidirectional else 1
    total = 0
    for layer in range(layers or num_layers):
        reads = input_size if layer == 0 else upper(input_size, hidden_size, both)
        total += (gates or _GATES[kind]) * hidden_size * (reads + hidden_size + biases)
    return total * (directions or both)


_COUNT_TWINS = (
    Twin(
        "one bias per gate is counted. PyTorch has two for each gate or candidate, bias_ih and "
        "bias_hh.",
        partial(_wrong_count, biases=1),
    ),
    Twin("the biases are missing.", partial(_wrong_count, biases=0)),
    Twin(
        "only one direction is counted. The backward RNN has parameters of its own.",
        partial(_wrong_count, directions=1),
    ),
    Twin(
        "both directions are counted although bidirectional is False.",
        lambda k, i, h, n, b: -1 if k == "RNN" else _wrong_count(k, i, h, n, b, directions=2),
    ),
    *known(
        "upper layers are counted as if their input were one state. The input of a layer above a "
        "bidirectional layer is the concatenation of two states.",
        partial(_wrong_count, upper=lambda i, h, d: h),
    ),
    Twin(
        "the input of every layer is counted with input_size. The input of an upper layer is the "
        "output of the layer below.",
        partial(_wrong_count, upper=lambda i, h, d: i),
    ),
    Twin(
        "hidden_size is divided between the two directions. Each direction has a state of this "
        "size.",
        lambda k, i, h, n, b: _wrong_count(k, i, h // 2 if b else h, n, b),
    ),
    Twin("only one layer is counted.", partial(_wrong_count, layers=1)),
    Twin(
        "the input matrices of the upper layers are missing. They multiply the output of the layer "
        "below.",
        partial(_wrong_count, upper=lambda i, h, d: 0),
    ),
    Twin(
        "the recurrent matrices are missing: hidden_size × hidden_size for each gate or candidate.",
        lambda k, i, h, n, b: _wrong_count(k, i, h, n, b) - _GATES[k] * h * h * n * (2 if b else 1),
    ),
)
_GATE_NAMES = {
    "RNN": "An RNN has no gates: it computes one vector, the new state.",
    "GRU": "A GRU computes three vectors: the gates r and z and the candidate n.",
    "LSTM": "An LSTM computes four vectors: input, forget and output gate, and the candidate.",
}


def _steps(lengths: Sequence[int], num_layers: int, bidirectional: bool) -> int:
    """Return the length of the longest chain of dependent steps.

    A step depends on the previous step of its direction, and on its input from the layer below.
    """
    longest = 0
    for length in lengths:
        below = [0] * length
        for _ in range(num_layers):
            readers = []
            for order in [range(length), range(length)[::-1]][: 1 + bidirectional]:
                done = [0] * length
                before = 0
                for position in order:
                    before = done[position] = 1 + max(before, below[position])
                readers.append(done)
            below = [max(each) for each in zip(*readers, strict=True)]
        longest = max(longest, *below)
    return longest


_STEP_COUNT_TWINS = (
    Twin(
        "the lengths of the sentences are added. Sentences do not depend on each other: one step "
        "processes a word of each.",
        lambda n, layers, both: _steps([sum(n)], layers, both),
    ),
    Twin(
        "the length of the shortest sentence is used. The longest sentence determines the result.",
        lambda n, layers, both: _steps([min(n)], layers, both),
    ),
    Twin(
        "the mean length is used. The longest sentence determines the result.",
        lambda n, layers, both: _steps([round(sum(n) / len(n))], layers, both),
    ),
    *known(
        "the first or the last length of the list is used, as if the list were sorted. The longest "
        "sentence determines the result.",
        lambda n, layers, both: _steps(n[:1], layers, both),
        lambda n, layers, both: _steps(n[-1:], layers, both),
    ),
    Twin(
        "the two directions are counted one after another. Within a layer they do not depend on "
        "each other.",
        lambda n, layers, both: 2 * max(n) * layers if both else -1,
    ),
    Twin(
        "the number of layers is ignored. A step of an upper layer depends on the layer below.",
        lambda n, layers, both: max(n),
    ),
    Twin(
        "each layer is counted as if it started after the layer below has processed the whole "
        "sentence. In one direction it can start earlier: layer 2 can process word 1 while layer 1 "
        "processes word 2.",
        lambda n, layers, both: -1 if both else max(n) * layers,
    ),
    Twin(
        "layer 2 is counted as if it could start after one step of layer 1. Its input is both "
        "states of a word, and one of the two directions reaches that word last.",
        lambda n, layers, both: max(n) + layers - 1 if both else -1,
    ),
    Twin(
        "the number of layers is added completely. The steps of the first layer are already "
        "counted, so each further layer adds one.",
        lambda n, layers, both: max(n) + layers,
    ),
)


@_parts.part("cost", "parameters", "sequential_steps")
def predictions(parameters: object, sequential_steps: object, thorough: bool = False) -> None:
    """Check predicted costs against the modules of PyTorch and a graph of dependent steps."""
    sizes = [
        ("GRU", 2, 3, 1, False),  # of an RNN, two directions count as many as two gates
        ("RNN", 2, 3, 1, False),
        ("LSTM", 2, 3, 1, False),
        ("GRU", 2, 3, 2, False),
        ("GRU", 5, 3, 1, True),
        ("LSTM", 5, 7, 3, True),
    ]
    if thorough:
        sizes += [("RNN", 7, 11, 2, True), ("GRU", 13, 5, 5, True), ("LSTM", 3, 2, 3, False)]
    for each in sizes:
        _check_parameters(parameters, *each)
    steps: list[tuple[list[int], int, bool]] = [
        ([5], 1, False),
        ([5, 8, 1, 3], 1, False),  # sum, mean, shortest, first and last all differ
        ([5, 3], 1, True),
        ([4], 3, False),
        ([3, 7], 3, False),
        ([4], 3, True),
        ([3, 7], 3, True),
    ]
    if thorough:
        steps += [([1], 5, False), ([1], 5, True), ([11, 13, 2, 2], 7, True), ([50, 3], 4, False)]
    for lengths, num_layers, bidirectional in steps:
        _check_steps(sequential_steps, lengths, num_layers, bidirectional)


def _whole_number(what: str, answer: object, inputs: Mapping[str, object]) -> int:
    number = plain_number(answer)
    if number is None or int(number) != number:
        raise CheckFailed(
            f"  {what}: expected a whole number, got {show(answer)}."
            + (" Is there a `return`?" if answer is None else "")
            + f"\n{describe(inputs)}"
        )
    if isinstance(number, float):
        raise CheckFailed(
            f"  {what}: expected an int, got {number}, a float. In Python, / returns a float even "
            f"if the result is whole; use // or int(...).\n{describe(inputs)}"
        )
    return number


def _check_parameters(
    candidate: object,
    kind: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
) -> None:
    inputs = {
        "kind": kind,
        "input_size": input_size,
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "bidirectional": bidirectional,
    }
    got = _whole_number("parameters", call(candidate, inputs), inputs)
    network = _KINDS[kind](input_size, hidden_size, num_layers, bidirectional=bidirectional)
    expected = sum(parameter.numel() for parameter in network.parameters())
    if got == expected:
        return
    said = "the module of PyTorch has a different number of parameters."
    sizes = (input_size, hidden_size, num_layers, bidirectional)
    other_gates = [_wrong_count(kind, *sizes, gates=gates) for gates in range(1, 9)]
    named = [twin.diagnosis for twin in _COUNT_TWINS if twin.answer(*inputs.values()) == got]
    if named:
        said = named[0]
    elif got in other_gates:
        said = f"the number of gates is wrong. {_GATE_NAMES[kind]}"
    raise CheckFailed(_prediction("parameters", said, inputs, got, expected))


def _check_steps(
    candidate: object, lengths: list[int], num_layers: int, bidirectional: bool
) -> None:
    inputs: dict[str, object] = {
        "lengths": lengths,
        "num_layers": num_layers,
        "bidirectional": bidirectional,
    }
    got = _whole_number("sequential_steps", call(candidate, inputs), inputs)
    expected = _steps(lengths, num_layers, bidirectional)
    if got == expected:
        return
    said = "the longest chain of dependent steps has a different length."
    for twin in _STEP_COUNT_TWINS:
        if twin.answer(*inputs.values()) == got:
            said = twin.diagnosis
            break
    raise CheckFailed(_prediction("sequential_steps", said, inputs, got, expected))


def _prediction(what: str, said: str, inputs: Mapping[str, object], got: int, expected: int) -> str:
    return (
        f"  {what}: {said}\n{describe(inputs)}\n  got         {got:,}\n  measured    {expected:,}"
    )


# Part 5


class _Example:
    """Sentences for the debugging part, and their annotations, computed word by word."""

    def __init__(self, lengths: Sequence[int], size: int, hidden: int) -> None:
        cells = [nn.LSTMCell(size, hidden) for _ in range(2)]
        for cell in cells:
            for parameter in cell.parameters():
                nn.init.normal_(parameter)
        self.lengths = lengths
        self.hidden = hidden
        self.forward_cell, self.backward_cell = cells
        self.embedded = torch.randn(len(lengths), max(lengths), size)
        self.mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)

    @property
    def inputs(self) -> dict[str, object]:
        return {
            "forward_cell": self.forward_cell,
            "backward_cell": self.backward_cell,
            "embedded": self.embedded,
            "mask": self.mask,
        }

    def ask(self, candidate: object) -> tuple[Tensor, Tensor]:
        """Return the candidate's annotations and summaries, after checking their shapes."""
        with torch.no_grad():
            answer = call_twice(candidate, self.inputs)
        answers = expect_pair(answer, ("annotations", "summaries"), self.inputs)
        batch, length = self.mask.shape
        annotations = expect_tensor(
            answers[0], (batch, length, 2 * self.hidden), "the annotations", self.inputs
        )
        summaries = expect_tensor(
            answers[1], (batch, 2 * self.hidden), "the summaries", self.inputs
        )
        return annotations, summaries

    def right(self, cell_states: bool = False) -> Tensor:
        """Return the correct annotations; with `cell_states`, the cell states instead."""
        rows = []
        for words, length in zip(self.embedded, self.lengths, strict=True):
            left = right = torch.zeros(2, 1, self.hidden).unbind()
            ahead: list[Tensor] = []
            back: list[Tensor] = []
            for word in words[:length]:
                left = self.forward_cell(word.unsqueeze(0), left)
                ahead.append(left[cell_states])
            for word in words[:length].flip(0):
                right = self.backward_cell(word.unsqueeze(0), right)
                back.insert(0, right[cell_states])
            row = torch.cat([torch.cat(ahead), torch.cat(back)], dim=-1)
            rows.append(nn.functional.pad(row, (0, 0, 0, words.size(0) - length)))
        return torch.stack(rows)

    def failed(self, why: str, got: Tensor, expected: Tensor) -> CheckFailed:
        differs = ~torch.isclose(got, expected, RTOL, ATOL)
        place = tuple(differs.nonzero()[0].tolist())
        return CheckFailed(
            f"  {why}\n{describe(self.inputs)}\n"
            f"  got         at {list(place)} {got[place]:.4g}\n"
            f"  expected    at {list(place)} {expected[place]:.4g}"
        )


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, RTOL, ATOL)


def _examine_order(candidate: object, thorough: bool) -> None:
    # Not 1: with states of dimension 1, a word without its batch axis crashes PyTorch.
    for length, size, hidden in [(3, 1, 2), (5, 2, 3)][: 1 + thorough]:
        example = _Example([length], size, hidden)
        got, _ = example.ask(candidate)
        expected = example.right()
        if _close(got, expected):
            continue
        ahead, back = got.split(hidden, dim=-1)
        right_ahead, right_back = expected.split(hidden, dim=-1)
        why = "the annotations differ from those of a loop over the words."
        if _close(got, example.right(cell_states=True)):
            why = (
                "these are the cell states c of the LSTM. Annotations consist of the hidden states "
                "h, which the cell returns first."
            )
        elif _close(torch.cat([back, ahead], dim=-1), expected):
            why = "the two halves are exchanged: the state of the forward RNN comes first."
        elif not _close(ahead, right_ahead):
            why = "the forward half is wrong; in faulty_encoder it is correct."
        elif _close(back, right_back.flip(1)):
            why = (
                "the backward states are in the order in which they were computed: that of the "
                "last word comes first. Reverse them before the concatenation."
            )
        raise example.failed(f"Order: {why}", got, expected)


def _examine_neighbours(candidate: object, thorough: bool) -> None:
    for batch, length in [(2, 2), (5, 3)][: 1 + thorough]:
        example = _Example([length] * batch, 2, 3)
        got, _ = example.ask(candidate)
        expected = example.right()
        if _close(got, expected):
            continue
        why = "the annotations differ from those of each sentence alone."
        if _close(got[:1], expected[:1]):
            why = (
                "the first sentence is correct, the others are not: the last state of one sentence "
                "is used as the first state of the next. Each sentence starts with zeros."
            )
        raise example.failed(f"Neighbours: {why}", got, expected)


def _examine_padding(candidate: object, thorough: bool) -> None:
    for lengths in [[1, 3], [2, 5, 1], [7, 7, 3, 1]][: 2 + thorough]:
        example = _Example(lengths, 2, 3)
        got, _ = example.ask(candidate)
        expected = example.right()
        if _close(got, expected):
            continue
        real = example.mask.unsqueeze(-1)
        ahead, _ = (got * real).split(3, dim=-1)
        why = "the annotations of a sentence change when it is padded."
        if _close(got * real, expected):
            why = "the annotations at padding must be zero."
        elif _close(ahead, expected.split(3, dim=-1)[0]):
            why = (
                "the forward half is correct, but the backward half depends on the padding: does "
                "the backward RNN start there? It must start at the last word of the sentence."
            )
        elif not _close((got * real)[:, 0, :3], expected[:, 0, :3]):
            why = "padding changes the forward states: does the forward RNN start there?"
        raise example.failed(f"Padding: {why}", got, expected)


def _examine_summaries(candidate: object, thorough: bool) -> None:
    for lengths in [[3, 3], [1, 3], [7, 2, 5]][: 2 + thorough]:
        example = _Example(lengths, 2, 3)
        annotations, got = example.ask(candidate)
        numbers = torch.tensor(lengths).unsqueeze(1)
        expected = annotations.sum(dim=1) / numbers
        if _close(got, expected):
            continue
        why = "the summary of a sentence must be the mean of the annotations of its words."
        if _close(got, annotations.mean(dim=1)):
            why = (
                "padding is counted in the mean: its zeros do not change the sum, but the sum is "
                "divided by the padded length. Divide by the number of real words."
            )
        elif _close(got, annotations.sum(dim=1)):
            why = "this is the sum. Divide it by the number of real words."
        elif _close(got, annotations.sum(dim=1) / len(lengths)):
            why = "the sum is divided by the number of sentences. Divide by the number of words."
        elif _close(got, annotations.sum(dim=1) / sum(lengths)):
            why = (
                "the sum is divided by the number of words of all sentences. Divide by the number "
                "of words of this sentence."
            )
        raise example.failed(f"Summary: {why}", got, expected)


def _examine_gradients(candidate: object, thorough: bool) -> None:
    for length in [2, 5][: 1 + thorough]:
        example = _Example([length], 2, 3)
        cells = (example.forward_cell, example.backward_cell)
        given = {name: torch.randn(1, 1, 2, requires_grad=True) for name in ("first", "last")}

        def read(first: Tensor, last: Tensor, e: _Example = example, c: tuple = cells) -> object:
            embedded = torch.cat([first, e.embedded[:, 1:-1], last], dim=1)
            return candidate(*c, embedded, e.mask)  # type: ignore[operator]

        for name, pick in (
            ("first", lambda a: a[0][:, -1, :3]),
            ("last", lambda a: a[0][:, 0, 3:]),
        ):
            try:
                _expect_way_back(read, given, name, pick)
            except CheckFailed as failed:
                raise CheckFailed(f"  Gradients: {str(failed).strip()}") from None
        embedded = example.embedded.requires_grad_()
        goal = torch.randn(1, length, 6)

        def gradient(annotations: Tensor, goal: Tensor = goal, e: Tensor = embedded) -> Tensor:
            return torch.autograd.grad((annotations * goal).sum(), e)[0]

        def read_all(embedded: Tensor, e: _Example = example, c: tuple = cells) -> object:
            return candidate(*c, embedded, e.mask)  # type: ignore[operator]

        sources = {"embedded": embedded} | {
            f"{which}.{name}": value
            for which, cell in zip(("forward_cell", "backward_cell"), cells, strict=True)
            for name, value in cell.named_parameters()
        }
        for index in (0, 1):
            expect_gradients_through(
                read_all,
                {"embedded": embedded},
                sources,
                pick=lambda answer, index=index: answer[index],
                slopes=False,
            )
        annotations = candidate(*cells, embedded, example.mask)[0]  # type: ignore[operator]
        if not _close(gradient(annotations), gradient(example.right())):
            raise CheckFailed(
                "  Gradients: the values are correct and gradients reach every word, but not along "
                "every path. An LSTM passes on h and c; detach neither of them."
            )


_SYMPTOMS = {
    "order": _examine_order,
    "neighbours": _examine_neighbours,
    "padding": _examine_padding,
    "summary": _examine_summaries,
    "gradients": _examine_gradients,
}


@_parts.part("debugging", "fixed_encoder")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the corrected encoder, one property after another."""
    in_turn(_SYMPTOMS, candidate, thorough)
