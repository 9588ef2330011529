"""Checks of the assignment on recurrent networks.

Answers are compared with the recordings in this folder. Code examines gradients, clips the
gradients of the trained model, and puts parts into it. No function here is the answer of a part.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_equal,
    expect_gradients,
    expect_gradients_through,
    expect_pair,
    expect_value,
    in_32_bits,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.compare import Fresh, equal, kind_of
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
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

SENTENCES = ("the cat drinks the milk", "two kings sing")

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Translate one sentence, to show that the package, its trained model and the checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"to “{translation.text}”. The set-up is complete.")


# Cells of PyTorch


def cell(kind: str, weights: Mapping[str, Tensor]) -> nn.Module:
    """Return a "GRU" or "LSTM" cell of PyTorch with these weights."""
    made: nn.Module = {"GRU": nn.GRUCell, "LSTM": nn.LSTMCell}[kind](
        weights["weight_ih"].size(1), weights["weight_hh"].size(1)
    )
    made.load_state_dict(weights)
    return made


def random_cells(kind: str, size: int, hidden: int) -> dict[str, Fresh]:
    """Return the cells of a forward and a backward RNN as inputs of a case."""
    shapes = {"weight_ih": (size,), "weight_hh": (hidden,), "bias_ih": (), "bias_hh": ()}
    rows = {"GRU": 3, "LSTM": 4}[kind] * hidden
    return {
        name: Fresh(
            cell,
            {"kind": kind, "weights": {n: torch.randn(rows, *s) for n, s in shapes.items()}},
        )
        for name in ("forward_cell", "backward_cell")
    }


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
    model.decoder.cell = _with_the_weights_of(model.decoder.cell, cell)
    cells = [_with_the_weights_of(each, cell) for each in _cells(model.encoder)]
    model.encoder = _Encoder(read_both_ways, *cells).eval()  # type: ignore[assignment]
    return checkpoint


def _with_the_weights_of(theirs: nn.GRUCell, candidate: object) -> Any:
    """Return an instance of a student's class with the weights of a cell of PyTorch."""
    sizes = {"input_size": theirs.input_size, "hidden_size": theirs.hidden_size}
    mine = cast(nn.Module, call(candidate, sizes))
    mine.load_state_dict(theirs.state_dict())
    return mine.eval()


def _cells(encoder: BidirectionalEncoder) -> list[nn.GRUCell]:
    """Return the encoder's forward and backward GRU as cells, which process one word per call."""
    weights = encoder.gru.state_dict()
    return [
        cast(
            nn.GRUCell,
            cell("GRU", {n.removesuffix(end): weights[n] for n in weights if n.endswith(end)}),
        )
        for end in ("_l0", "_l0_reverse")
    ]


def _expect_gradients(
    candidate: Any, kind: str, embedded: Tensor, real: Tensor, other_cells: Sequence[str]
) -> None:
    """Require gradients to all words and to the cells.

    `real` is the last argument of the candidate. The gradients of its second result must reach
    `other_cells`.
    """
    hidden = 3
    cells = {n: each.make() for n, each in random_cells(kind, embedded.size(2), hidden).items()}
    embedded.requires_grad_()

    def read(embedded: Tensor) -> Any:
        return candidate(*cells.values(), embedded, real)

    ends: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
        "first": (0, lambda annotations: annotations[0, -1, :hidden]),
        "last": (-1, lambda annotations: annotations[0, 0, hidden:]),
    }
    for name, (place, pick) in ends.items():
        found = expect_gradients(pick(read(embedded)[0]), {"embedded": embedded})
        if not found["embedded"][0, place].count_nonzero():
            raise CheckFailed(
                f"  The values are correct, but no gradient reaches the {name} word from the other "
                "end of its sentence: the path through the states is interrupted. Is a state "
                "detached, or copied with torch.tensor(...) or .data, before it is passed on?"
            )
    for place, names in enumerate([[*cells], other_cells]):
        sources = {"embedded": embedded} | {
            f"{which}.{name}": value
            for which in names
            for name, value in cells[which].named_parameters()
        }
        expect_gradients_through(
            read, {"embedded": embedded}, sources, pick=lambda answer, place=place: answer[place]
        )


# Part 1


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
    """Check a GRU cell, by itself and inside the decoder of the trained model."""
    try:
        _topic.examine("GRUCell", candidate, thorough, tidy=_one_state)
    except CheckFailed as failed:
        if "shapes cannot be multiplied" not in str(failed):
            raise
        raise CheckFailed(
            f"{failed}\n  The matrices have one row for each result: weight_ih (3 * hidden_size, "
            "input_size), weight_hh (3 * hidden_size, hidden_size). Multiply by their transposes, "
            "for example x @ self.weight_ih.T."
        ) from None

    def put_in(model: Seq2Seq) -> None:
        model.decoder.cell = _with_the_weights_of(model.decoder.cell, candidate)

    expect_same_translations(put_in, SENTENCES, "cell")


def _one_state(answer: object, inputs: Inputs) -> object:
    if isinstance(answer, tuple | list) and any(isinstance(each, Tensor) for each in answer):
        raise CheckFailed(
            f"  GRUCell returns {len(answer)} values; it must return one tensor, the new state. "
            f"(An LSTM has two states, a GRU has one.)\n{describe(inputs)}"
        )
    return answer


# Part 2


@_parts.part(
    "bidirectional encoder",
    "read_both_ways",
    rebuilds=("attentively.layers.bidirectional:BidirectionalEncoder",),
)
def encoder(candidate: object, thorough: bool = False) -> None:
    """Check a bidirectional encoder, then in place of the encoder of the trained model."""
    _topic.examine("read_both_ways", candidate, thorough, explain=_explain_padding)
    words, lengths = torch.randn(2, 3, 2), torch.tensor([3, 2])
    open_call.once(_expect_gradients, candidate, "GRU", words, lengths, ["backward_cell"])

    def put_in(model: Seq2Seq) -> None:
        read = cast(Callable[..., tuple[Tensor, Tensor]], candidate)
        model.encoder = _Encoder(read, *_cells(model.encoder)).eval()  # type: ignore[assignment]

    expect_same_translations(put_in, SENTENCES, "encoder")


def _explain_padding(got: Any, recorded: Recorded) -> str:
    expected, lengths = recorded.expected["annotations"], recorded.case.inputs["lengths"]
    real = torch.arange(expected.size(1)) < lengths.unsqueeze(1)
    if not _is_like(expected, got) or not equal(got * real.unsqueeze(-1), expected):
        return ""
    return (
        "The annotations at padding are not zero. Set them to zero from each sentence's length on."
    )


def _is_like(expected: Tensor, got: Any) -> bool:
    return type(got) is Tensor and got.layout == torch.strided and got.shape == expected.shape


# Part 3


@_parts.part(
    "gradient clipping",
    "clip",
    rebuilds=("torch.nn.utils:clip_grad_norm_",),
)
def clipping(candidate: object, thorough: bool = False) -> None:
    """Check clipping by the total norm, then on the gradients of the trained model."""
    _topic.examine("clip", candidate, thorough, tidy=_clipped_and_total)
    open_call.once(_expect_clipped_model, candidate)


def _expect_clipped_model(candidate: object) -> None:
    gradients = _gradients_of_the_translator()
    for max_norm in (1000.0, 0.1):
        inputs = {"gradients": gradients, "max_norm": max_norm}
        clipped, total = _clipped_and_total(call(candidate, inputs), inputs)
        expected = nn.Parameter(_one_vector(gradients))
        expected.grad = expected.detach().clone()
        norm = nn.utils.clip_grad_norm_(expected, max_norm)
        # Many entries are small: compare them in units of the largest.
        unit = expected.grad.abs().max()
        got = _one_vector(cast(Tensor, in_32_bits(each)) for each in clipped.values())
        expect_equal(got / unit, expected.grad / unit, "the clipped gradients", inputs)
        expect_value(total, float(norm), "the total norm", inputs)


def by_number(tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return tensors by their names in a message."""
    return {f"tensor {number}": each for number, each in enumerate(tensors)}


def _clipped_and_total(answer: object, inputs: Inputs) -> tuple[dict[str, Tensor], object]:
    clipped, total = expect_pair(answer, ("clipped", "total"), inputs)
    if not isinstance(clipped, list | tuple) or len(clipped) != len(inputs["gradients"]):
        raise CheckFailed(
            f"  Expected a list of {len(inputs['gradients'])} clipped tensors, one for each given "
            f"tensor, got {kind_of(clipped)}.\n{describe(inputs)}\n  got         {show(clipped)}"
        )
    return by_number(clipped), total


def _one_vector(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([each.flatten() for each in tensors])


@functools.cache
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
_GATE_NAMES = {
    "RNN": "An RNN has no gates: it computes one vector, the new state.",
    "GRU": "A GRU computes three vectors: the gates r and z and the candidate n.",
    "LSTM": "An LSTM computes four vectors: input, forget and output gate, and the candidate.",
}


@_parts.part("cost", "parameters", "sequential_steps")
def predictions(parameters: object, sequential_steps: object, thorough: bool = False) -> None:
    """Check predicted numbers of parameters and of dependent steps."""
    _topic.examine("parameters", parameters, thorough, explain=_explain_gates)
    _topic.examine(
        "sequential_steps",
        sequential_steps,
        thorough,
        explain=lambda got, recorded: (
            "the longest chain of dependent steps has a different length."
        ),
    )


def _explain_gates(got: Any, recorded: Recorded) -> str:
    (expected,) = recorded.expected.values()
    kind = recorded.case.inputs["kind"]
    number = plain_number(got) or 0
    if any(number * _GATES[kind] == expected * gates for gates in range(1, 9)):
        return f"the number of gates is wrong. {_GATE_NAMES[kind]}"
    return "the module of PyTorch has a different number of parameters."


# Part 5


@_parts.part("debugging", "fixed_encoder")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the corrected encoder, one property after another."""
    _topic.examine("fixed_encoder", candidate, thorough, explain=_explain_fault)
    open_call.once(_expect_whole_gradients, candidate)


def _expect_whole_gradients(candidate: object) -> None:
    words, mask = torch.randn(1, 3, 2), torch.ones(1, 3, dtype=torch.bool)
    try:
        _expect_gradients(candidate, "LSTM", words, mask, ["forward_cell", "backward_cell"])
    except CheckFailed as failed:
        said = str(failed).strip()
        if "a part of it is missing" in said:
            said = (
                "the values are correct and gradients reach every word, but not along every path. "
                "An LSTM passes on h and c; detach neither of them."
            )
        raise CheckFailed(
            f"  Gradients: {said}\n  Correct so far: order; neighbours; padding; summary."
        ) from None


def _explain_fault(got: Any, recorded: Recorded) -> str:
    """Return words about wrong annotations that are no known mistake's."""
    expected, mask = recorded.expected["annotations"], recorded.case.inputs["mask"]
    if not _is_like(expected, got):
        return ""
    stage, at_words = recorded.case.stage, got * mask.unsqueeze(-1)
    ahead, right = (each.chunk(2, dim=-1)[0] for each in (at_words, expected))
    if stage == "order" and not equal(ahead, right):
        return "Order: the forward half is wrong; in faulty_encoder it is correct."
    if stage == "neighbours" and equal(got[:1], expected[:1]):
        return (
            "Neighbours: the first sentence is correct, the others are not: the last state of one "
            "sentence is used as the first state of the next. Each sentence starts with zeros."
        )
    if stage != "padding":
        return ""
    if equal(at_words, expected):
        return "Padding: the annotations at padding must be zero."
    if equal(ahead, right):
        return (
            "Padding: the forward half is correct, but the backward half depends on the padding: "
            "does the backward RNN start there? It must start at the last word of the sentence."
        )
    if not equal(ahead[:, 0], right[:, 0]):
        return "Padding: padding changes the forward states: does the forward RNN start there?"
    return ""
