"""Checks of the assignment on visual attention: keys, a step, a penalty, pixels, boxes, a bug hunt.

Parts 1, 2 and 3 rebuild what the package has, with the paper's gate, and the step is put into the
package's own captioner. The answers to parts 4, 5 and 6 stand nowhere: the pixels that a place
sees are found by passing sets of pixels on, layer by layer, shares are counted pixel by pixel,
and a drawn focus is examined symptom by symptom.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.additive import AdditiveAttention
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_tensor,
    expect_value,
    in_32_bits,
    in_turn,
    known,
    once_solved,
    plain_number,
    show,
)
from attentively.generation.search import greedy_search
from attentively.models.captioning import Captioner, CaptionerConfig, doubly_stochastic_penalty
from attentively.models.checkpoints import load_pretrained
from attentively.models.interface import DecoderOutput, Memory
from attentively.models.seq2seq import AttentiveDecoder, RecurrentState
from attentively.tokens.vocabulary import START_ID

__all__ = [
    "bug_hunt",
    "described",
    "inside",
    "keys",
    "once_solved",
    "penalty",
    "pixels",
    "progress",
    "ready",
    "steps",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its captioner and these checks work."""
    _parts.explain_undefined_names()
    with torch.no_grad():
        model = _captioner()
        memory = model.encode(_IMAGES)
    images, places, numbers = memory.outputs.shape
    print(f"PyTorch {torch.__version__}. {images} images of 24 × 36 pixels become")
    print(f"{places} annotations each, of {numbers} numbers. Ready.")


# The package's captioners


MODEL = "digits-captioner"
"""The name of the trained captioner into which a student's step is put."""


def _trained() -> Captioner:
    return cast(Captioner, load_pretrained(MODEL).model).eval()


def _captioner() -> Captioner:
    """Return a small untrained captioner whose weights and words are far from equal."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = CaptionerConfig(13, feature_dim=8, embedding_dim=5, decoder_dim=7, attention_dim=3)
        model = Captioner(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0)
    return model


_IMAGES = torch.rand(3, 1, 24, 36, generator=torch.Generator().manual_seed(2))
_CAPTIONS = torch.tensor([[START_ID, 4, 7, 12], [START_ID, 10, 5, 6], [START_ID, 8, 4, 4]])


# Part 1

_KEYS_TWINS = [
    *known(
        "The numbers are cut anew without moving the axes, so that each row mixes places and "
        "channels. Flatten rows and columns first, then exchange the axes.",
        lambda m: m.reshape(len(m), -1, m.size(1)),
    ),
    *known(
        "The places come column by column. The first row of the map comes first, from left to "
        "right: place = row · columns + column.",
        lambda m: m.transpose(2, 3).flatten(2).transpose(1, 2),
    ),
    *known(
        "The axes are exchanged: a row for each place, a column for each channel.",
        lambda m: m.flatten(2),
    ),
    *known(
        "Rows and columns are still two axes; attention wants one list of places.",
        lambda m: m.permute(0, 2, 3, 1),
        lambda m: m,
    ),
    *known(
        "The images of the batch are mixed: each keeps its own places.",
        lambda m: m.permute(1, 0, 2, 3).reshape(len(m), -1, m.size(1)),
        lambda m: m.permute(2, 3, 0, 1).reshape(len(m), -1, m.size(1)),
    ),
]

_MAP_TWINS = [
    *known(
        "The weights are laid out column by column. The first places are the first row, from left "
        "to right.",
        lambda w, rows: w.reshape(*w.shape[:2], -1, rows).transpose(2, 3),
    ),
    *known(
        "Rows and columns are exchanged: `rows` is the size of the axis before the last.",
        lambda w, rows: w.reshape(*w.shape[:2], -1, rows),
        lambda w, rows: w.reshape(*w.shape[:2], rows, -1).transpose(2, 3),
    ),
    *known(
        "The map stands on its head. The first row is at the top, as in an image.",
        lambda w, rows: w.reshape(*w.shape[:2], rows, -1).flip(2),
    ),
    *known(
        "Words and places are mixed: each word has a map of its own.",
        lambda w, rows: w.transpose(1, 2).reshape(*w.shape[:2], rows, -1),
    ),
]


@_parts.part("keys", "keys_of", "map_of")
def keys(keys_of: object, map_of: object, thorough: bool = False) -> None:
    """Check a map that becomes a list of keys, and weights that become a map."""
    small = torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[10.0, 20, 30], [40, 50, 60]]]])
    maps = [small, torch.randn(2, 3, 3, 3), torch.randn(2, 5, 3, 7)]
    focuses = [(torch.arange(6.0).reshape(1, 1, 6), 2), (torch.randn(2, 3, 9), 3)]
    focuses += [(torch.randn(2, 5, 21), 7)]
    if thorough:
        maps += [torch.randn(1, 7, 1, 5), torch.randn(5, 1, 7, 2), torch.randn(3, 2, 1, 1)]
        focuses += [(torch.randn(3, 2, 5), 1), (torch.randn(1, 7, 11), 11)]
    inputs: Inputs
    for feature_map in maps:
        inputs = {"feature_map": feature_map}
        expected = feature_map.flatten(2).transpose(1, 2)
        answer = in_32_bits(call_twice(keys_of, inputs))
        expect_equal(answer, expected, "the keys", inputs, _KEYS_TWINS)
    for weights, rows in focuses:
        inputs = {"weights": weights, "rows": rows}
        expected = weights.reshape(*weights.shape[:2], rows, -1)
        answer = in_32_bits(call_twice(map_of, inputs))
        expect_equal(answer, expected, "the map of weights", inputs, _MAP_TWINS)
    inputs = {"feature_map": torch.randn(2, 3, 2, 5, requires_grad=True)}
    expect_gradients_through(keys_of, inputs, inputs)
    _expect_same_annotations(keys_of)


def _expect_same_annotations(keys_of: object) -> None:
    """Put the student's keys into the package's encoder of images."""
    encoder = _captioner().encoder
    with torch.no_grad():
        seen = encoder.combine(encoder.look(_IMAGES))
        given = cast(Tensor, in_32_bits(call(keys_of, {"feature_map": seen})))
        annotations = encoder.norm(given) + encoder.place
        expected = encoder(_IMAGES)
    expect_equal(annotations, expected, "the package's annotations", {"feature_map": seen})


# Part 2


class _Linear(nn.Linear):
    """A linear layer that a message can show in a line."""

    def __repr__(self) -> str:
        return f"a linear layer from {self.in_features} to {self.out_features} numbers"


class _Cell(nn.GRUCell):
    """A cell that a message can show in a line."""

    def __repr__(self) -> str:
        return f"a GRU cell that reads {self.input_size} numbers"


class _Attention(AdditiveAttention):
    """An attention that a message can show in a line."""

    def __repr__(self) -> str:
        return "additive attention"


class _Layers(NamedTuple):
    """What a step is made of."""

    attention: nn.Module
    gate: nn.Module
    cell: nn.Module


def _layers(key_dim: int, embedding_dim: int, decoder_dim: int) -> _Layers:
    found = _Layers(
        _Attention(decoder_dim, key_dim, 5),
        _Linear(decoder_dim, 1),
        _Cell(embedding_dim + key_dim, decoder_dim),
    )
    with torch.no_grad():
        for layer in found:
            for parameter in layer.parameters():
                parameter.mul_(2.0)
    return found


_FIRST_TWINS = [
    *known(
        "first_state: The tanh is missing.",
        lambda annotations, bridge: bridge(annotations.mean(dim=1)),
    ),
    *known(
        "first_state: This is the sum of the annotations; the mean is wanted.",
        lambda annotations, bridge: torch.tanh(bridge(annotations.sum(dim=1))),
    ),
    *known(
        "first_state: This is the largest of each component over the places; the mean is wanted.",
        lambda annotations, bridge: torch.tanh(bridge(annotations.amax(dim=1))),
    ),
    *known(
        "first_state: This starts from one place alone; the mean of all places is wanted.",
        lambda annotations, bridge: torch.tanh(bridge(annotations[:, 0])),
        lambda annotations, bridge: torch.tanh(bridge(annotations[:, -1])),
    ),
    *known(
        "first_state: The mean is taken of each place's own new vector. The layer comes after the "
        "mean, and so does the tanh.",
        lambda annotations, bridge: torch.tanh(bridge(annotations)).mean(dim=1),
    ),
    *known(
        "first_state: The images of the batch are averaged too: each has a start of its own.",
        lambda annotations, bridge: torch.tanh(bridge(annotations.mean(dim=(0, 1)))).expand(
            len(annotations), -1
        ),
    ),
]

_STEP_INPUTS = ("word", "state", "annotations", "attention", "gate", "cell")
_RESULTS = ("new_state", "context", "weights")
_Three = tuple[Tensor, Tensor, Tensor]


def _step(
    word: Tensor,
    state: Tensor,
    annotations: Tensor,
    attention: nn.Module,
    gate: nn.Module,
    cell: nn.Module,
) -> _Three:
    context, weights = attention(state, annotations)
    context = torch.sigmoid(gate(state)) * context
    return cell(torch.cat([word, context], dim=-1), state), context, weights


def _gated(
    by: Callable[[Tensor, Tensor, nn.Module], Tensor],
) -> Callable[..., _Three]:
    """Return a step with another gate: a function of the state, the word and the gate's layer."""

    def step(
        word: Tensor,
        state: Tensor,
        annotations: Tensor,
        attention: nn.Module,
        gate: nn.Module,
        cell: nn.Module,
    ) -> _Three:
        context, weights = attention(state, annotations)
        context = by(state, context, gate)
        return cell(torch.cat([word, context], dim=-1), state), context, weights

    return step


def _reads_ungated(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    context, weights = attention(s, a)
    new_state = cell(torch.cat([w, context], dim=-1), s)
    return new_state, torch.sigmoid(gate(s)) * context, weights


def _returns_ungated(
    w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any
) -> _Three:
    new_state, _, weights = _step(w, s, a, attention, gate, cell)
    return new_state, attention(s, a)[0], weights


def _gate_from_new(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    context, weights = attention(s, a)
    new_state = cell(torch.cat([w, context], dim=-1), s)
    return new_state, torch.sigmoid(gate(new_state)) * context, weights


def _asks_with_new(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    new_state, _, _ = _step(w, s, a, attention, gate, cell)
    context, weights = attention(new_state, a)
    return new_state, torch.sigmoid(gate(s)) * context, weights


def _context_first(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    _, context, weights = _step(w, s, a, attention, gate, cell)
    return cell(torch.cat([context, w], dim=-1), s), context, weights


def _stands_still(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    _, context, weights = _step(w, s, a, attention, gate, cell)
    return s, context, weights


def _forgets(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    _, context, weights = _step(w, s, a, attention, gate, cell)
    return cell(torch.cat([w, context], dim=-1)), context, weights


def _gates_weights(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    new_state, context, weights = _step(w, s, a, attention, gate, cell)
    return new_state, context, torch.sigmoid(gate(s)) * weights


def _hardest(w: Tensor, s: Tensor, a: Tensor, attention: Any, gate: Any, cell: Any) -> _Three:
    _, weights = attention(s, a)
    context = torch.sigmoid(gate(s)) * a[torch.arange(len(a)), weights.argmax(dim=1)]
    return cell(torch.cat([w, context], dim=-1), s), context, weights


_STEP_TWINS: list[tuple[str, Callable[..., _Three]]] = [
    (
        "The gate is missing: the context is multiplied by β.",
        _gated(lambda state, context, gate: context),
    ),
    (
        "The gate has no sigmoid: β lies between 0 and 1.",
        _gated(lambda state, context, gate: gate(state) * context),
    ),
    (
        "The gate is a tanh; β lies between 0 and 1, as a sigmoid does.",
        _gated(lambda state, context, gate: torch.tanh(gate(state)) * context),
    ),
    (
        "The gate is turned round: the context is multiplied by β, not by 1 - β.",
        _gated(lambda state, context, gate: torch.sigmoid(-gate(state)) * context),
    ),
    (
        "The gate of one image is multiplied into one component of every context: β must keep its "
        "last axis, (batch, 1).",
        _gated(lambda state, context, gate: torch.sigmoid(gate(state)).squeeze(-1) * context),
    ),
    (
        "β is added to the context; it is multiplied with it.",
        _gated(lambda state, context, gate: torch.sigmoid(gate(state)) + context),
    ),
    (
        "The cell reads the context as it was before the gate.",
        _reads_ungated,
    ),
    (
        "The context that is returned is not the gated one that the cell reads.",
        _returns_ungated,
    ),
    (
        "The gate asks the new state. β comes from the state before the word is read, as the "
        "weights do, and the cell reads what it lets through.",
        _gate_from_new,
    ),
    (
        "The new state has asked where to look; here it is the state before the word is read.",
        _asks_with_new,
    ),
    (
        "The cell reads context and word in the other order: [word; context].",
        _context_first,
    ),
    ("The state that is returned is the old one.", _stands_still),
    (
        "The cell does not get the old state, so it begins each step with zeros.",
        _forgets,
    ),
    (
        "The weights that are returned are gated. They say where the model looks, and sum to 1; "
        "how much of it is let through is the context's business.",
        _gates_weights,
    ),
    (
        "The context is that of the place with the largest weight alone. Soft attention sums them "
        "all.",
        _hardest,
    ),
]


@_parts.part("the captioning step", "first_state", "step")
def steps(first_state: object, step: object, thorough: bool = False) -> None:
    """Check the start of a caption, and one step of it; then describe images with them."""
    # Batch, places, key_dim, embedding_dim, decoder_dim.
    sizes = [(1, 2, 2, 2, 2), (2, 3, 2, 3, 3), (3, 5, 3, 2, 7)]
    if thorough:
        sizes += [(5, 1, 7, 3, 2), (1, 7, 1, 1, 1), (2, 11, 5, 7, 3)]
    for batch, places, key_dim, embedding_dim, decoder_dim in sizes:
        bridge = _Linear(key_dim, decoder_dim)
        annotations = torch.randn(batch, places, key_dim)
        inputs = {"annotations": annotations, "bridge": bridge}
        with torch.no_grad():
            expected = torch.tanh(bridge(annotations.mean(dim=1)))
            answer = in_32_bits(call_twice(first_state, inputs))
            expect_equal(answer, expected, "the first state", inputs, _FIRST_TWINS)
        sizes_of = key_dim, embedding_dim, decoder_dim
        _compare_step(step, batch, places, *sizes_of)
    _expect_gradients(first_state, step)
    _expect_same_captions(first_state, step)


def _step_inputs(
    batch: int, places: int, key_dim: int, embedding_dim: int, decoder_dim: int
) -> dict[str, Any]:
    tensors = (
        torch.randn(batch, embedding_dim),
        torch.randn(batch, decoder_dim),
        torch.randn(batch, places, key_dim),
    )
    layers = _layers(key_dim, embedding_dim, decoder_dim)
    return dict(zip(_STEP_INPUTS, (*tensors, *layers), strict=True))


def _compare_step(step: object, *sizes: int) -> None:
    inputs = _step_inputs(*sizes)
    with torch.no_grad():
        answer = call_twice(step, inputs)
        expected = _step(*inputs.values())
        given = _three(answer, inputs)
        if not all(map(_close, given, expected)):
            for said, wrong in _STEP_TWINS:
                try:
                    made = wrong(*inputs.values())
                except RuntimeError:  # this mistake cannot be made with these sizes
                    continue
                if all(map(_close, given, made)):
                    raise CheckFailed(f"  step: {said}\n{_shown(inputs, given, expected)}")
            if all(any(map(_close, given, [each] * 3)) for each in expected):
                raise CheckFailed(
                    "  step: The three results are right, but they have changed places: return "
                    f"{', '.join(_RESULTS)}, in this order.\n{describe(inputs)}"
                )
    for name, got, right in [*zip(_RESULTS, given, expected, strict=True)][::-1]:
        expect_equal(got, right, name, inputs)


def _shown(inputs: Inputs, given: Sequence[object], expected: Sequence[Tensor]) -> str:
    """Return the inputs, and the results that are not the expected ones."""
    lines = [describe(inputs)]
    for name, got, right in zip(_RESULTS, given, expected, strict=True):
        if not _close(got, right):
            lines.append(f"  got         {name} {show(got)}\n  expected    {name} {show(right)}")
    return "\n".join(lines)


def _three(answer: object, inputs: Inputs) -> list[object]:
    if not isinstance(answer, tuple | list) or len(answer) != len(_RESULTS):
        many = f"{len(answer)} results" if isinstance(answer, tuple | list) else "one result"
        raise CheckFailed(
            f"  step: Expected three results, `return {', '.join(_RESULTS)}`; got "
            f"{'None: is there a `return`?' if answer is None else many}\n{describe(inputs)}"
        )
    return [in_32_bits(each) for each in answer]


def _close(one: object, other: Tensor) -> bool:
    return (
        isinstance(one, Tensor)
        and one.shape == other.shape
        and one.dtype == other.dtype
        and torch.allclose(one, other, 1e-4, 1e-5)
    )


def _expect_gradients(first_state: object, step: object) -> None:
    bridge = _Linear(3, 5)
    annotations = torch.randn(2, 4, 3, requires_grad=True)
    start: Inputs = {"annotations": annotations, "bridge": bridge}
    expect_gradients_through(first_state, start, {"annotations": annotations})
    inputs = _step_inputs(2, 4, 3, 2, 5)
    sources = {name: inputs[name].requires_grad_() for name in _STEP_INPUTS[:3]}
    sources["the gate's layer"] = inputs["gate"].weight
    expect_gradients_through(step, inputs, sources, lambda answer: answer[0])


class _OpenGate(nn.Module):
    """A gate that lets everything through: the package's decoder has none."""

    def forward(self, state: Tensor) -> Tensor:
        """Return a number whose sigmoid is 1."""
        return torch.full((*state.shape[:-1], 1), 100.0)

    def __repr__(self) -> str:
        return "a gate that is always open"


class _StudentsDecoder(AttentiveDecoder):
    """The package's decoder, with a student's start and step."""

    def __init__(self, right: AttentiveDecoder, first_state: object, step: object) -> None:
        nn.Module.__init__(self)
        for name, module in right.named_children():
            self.add_module(name, module)
        self.given = (first_state, step)

    def start(self, memory: Memory) -> RecurrentState:
        """Let the student's function make the first state."""
        first_state = cast(Callable[..., Tensor], self.given[0])
        hidden = cast(Tensor, in_32_bits(first_state(memory.outputs, self.bridge)))
        return RecurrentState(hidden, memory.outputs, memory.mask.squeeze(1))

    def advance(
        self, embedded: Tensor, state: RecurrentState
    ) -> tuple[RecurrentState, Tensor, Tensor | None]:
        """Let the student's function take the step."""
        step = cast(Callable[..., _Three], self.given[1])
        layers = (self.attention, _OpenGate(), self.cell)
        results = step(embedded, state.hidden, state.encoder_outputs, *layers)
        hidden, context, weights = (cast(Tensor, in_32_bits(each)) for each in results)
        return replace(state, hidden=hidden), context, weights


def _expect_same_captions(first_state: object, step: object) -> None:
    right, changed = _trained(), _trained()
    changed.decoder = _StudentsDecoder(cast(AttentiveDecoder, changed.decoder), first_state, step)
    where = {"images": _IMAGES, "captions": _CAPTIONS}

    def read(model: Captioner) -> DecoderOutput:
        with torch.no_grad():
            return model.decode(_CAPTIONS, model.encode(_IMAGES), need_weights=True)

    def written(model: Captioner) -> list[list[int]]:
        with torch.no_grad():
            found = greedy_search(model, _IMAGES, 8)
        return [hypothesis.ids for hypothesis in found]

    expected, got = read(right), cast(DecoderOutput, call(lambda *_: read(changed), where))
    assert expected.weights is not None  # a captioner attends
    inside_it = "inside the trained captioner, whose gate is always open"
    expect_equal(in_32_bits(got.weights), expected.weights, f"the weights {inside_it}", where)
    expect_equal(in_32_bits(got.logits), expected.logits, f"the logits {inside_it}", where)
    after = cast(list[list[int]], call(lambda *_: written(changed), where))
    expect_value(after, written(right), f"the words written {inside_it}", where)


# Part 3


def _penalised(
    looked_at: Callable[[Tensor, Tensor], Tensor],
    error: Callable[[Tensor], Tensor] = torch.square,
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda w, mask: error(1 - looked_at(w, mask.unsqueeze(-1).float())).sum(-1).mean()


def _over_words(weights: Tensor, real: Tensor) -> Tensor:
    return (weights * real).sum(dim=1)


_PENALTY_TWINS = [
    *known(
        "penalty: Padding is counted: its weights are made by a softmax too, and mean nothing. "
        "Leave out the words where tgt_mask is False.",
        _penalised(lambda w, real: w.sum(dim=1)),
    ),
    *known(
        "penalty: The mask is the wrong way round: True stands at words, False at padding.",
        _penalised(lambda w, real: (w * (1 - real)).sum(dim=1)),
    ),
    *known(
        "penalty: The weights are summed over the places, which gives 1 for every word. What is "
        "wanted is how much each place gets over all words.",
        lambda w, mask: ((1 - w.sum(dim=-1)).square() * mask).sum(-1).mean(),
        lambda w, mask: (1 - (w * mask.unsqueeze(-1)).sum(dim=-1)).square().sum(-1).mean(),
    ),
    *known(
        "penalty: The differences are not squared.",
        _penalised(_over_words, error=torch.abs),
        _penalised(_over_words, error=lambda difference: difference),
    ),
    *known(
        "penalty: Each weight is compared with 1 by itself. First sum over the words, then "
        "subtract.",
        lambda w, mask: ((1 - w).square() * mask.unsqueeze(-1)).sum((1, 2)).mean(),
    ),
    *known(
        "penalty: This is the mean over the words, and a place that is looked at once in three "
        "words has 1/3. The sum is wanted.",
        _penalised(lambda w, real: w.mean(dim=1)),
        _penalised(lambda w, real: (w * real).mean(dim=1)),
        _penalised(lambda w, real: (w * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)),
    ),
    *known(
        "penalty: This is the mean over the places; their sum is wanted. The mean is for the "
        "images of the batch.",
        lambda w, mask: (1 - _over_words(w, mask.unsqueeze(-1))).square().mean(),
    ),
    *known(
        "penalty: The images of the batch are summed; their mean is wanted.",
        lambda w, mask: (1 - _over_words(w, mask.unsqueeze(-1))).square().sum(),
    ),
    *known(
        "penalty: There is one number for each image; their mean is wanted.",
        lambda w, mask: (1 - _over_words(w, mask.unsqueeze(-1))).square().sum(-1),
    ),
]

_LEAST_TWINS = [
    *known(
        "least: 0 needs exactly as many words as places. The weights of all words sum to the "
        "number of words, however they are spread.",
        lambda words, places: 0,
        lambda words, places: (places - words) ** 2 / places if words < places else 0,
    ),
    *known(
        "least: This lets each word look at one place alone. Soft weights can share a word out "
        "over several places.",
        lambda words, places: max(places - words, 0),
        lambda words, places: abs(places - words),
    ),
    *known(
        "least: This is what one place adds; there are more.",
        lambda words, places: (1 - words / places) ** 2,
    ),
    *known(
        "least: This is not shared out: (places - words) is what all places lack together.",
        lambda words, places: (places - words) ** 2,
    ),
]

_MOST_TWINS = [
    *known(
        "most: The other places are forgotten: one that nobody looks at adds 1.",
        lambda words, places: (words - 1) ** 2,
    ),
    *known(
        "most: The place that all look at is forgotten.",
        lambda words, places: places - 1,
    ),
    *known(
        "most: The other places are one fewer: one of them is looked at.",
        lambda words, places: (words - 1) ** 2 + places,
    ),
    *known(
        "most: The place that all look at gets as many as there are words, and 1 is subtracted "
        "from it before it is squared.",
        lambda words, places: words**2 + places - 1,
    ),
    *known(
        "most: Two things are forgotten: 1 is subtracted before it is squared, and a place that "
        "nobody looks at adds 1.",
        lambda words, places: words**2,
    ),
    *known(
        "most: The difference of the place that all look at is not squared.",
        lambda words, places: abs(words - 1) + places - 1,
    ),
    *known(
        "most: Not every place can be looked at by every word: the weights of a word sum to 1.",
        lambda words, places: places * (words - 1) ** 2,
    ),
]

_WEIGHTS = torch.tensor([[[0.5, 0.5], [0.0, 1.0], [0.25, 0.75]]])


@_parts.part("the penalty", "penalty", "least", "most")
def penalty(candidate: object, least: object, most: object, thorough: bool = False) -> None:
    """Check how unequally places are looked at, and how little and how much that can be."""
    shapes = [([3], 2), ([3, 2, 5], 3), ([2, 0], 3)]
    if thorough:
        shapes += [([7, 1, 4, 2, 5], 11), ([1], 1), ([5, 5], 2)]
    asked = [(_WEIGHTS, torch.tensor([[True, True, True]]))]
    asked += [(_WEIGHTS, torch.tensor([[True, True, False]]))]
    for lengths, places in shapes:
        words = max(lengths)
        mask = torch.arange(words) < torch.tensor(lengths).unsqueeze(1)
        asked.append(((3 * torch.randn(len(lengths), words, places)).softmax(dim=-1), mask))
    for weights, mask in asked:
        inputs = {"weights": weights, "tgt_mask": mask}
        answer = in_32_bits(call_twice(candidate, inputs))
        if type(answer) is Tensor and answer.shape == (1,):
            answer = answer.reshape(())
        expected = doubly_stochastic_penalty(weights, mask)
        expect_equal(answer, expected, "the penalty", inputs, _PENALTY_TWINS)
    weights, mask = asked[3]
    inputs = {"weights": weights.clone().requires_grad_(), "tgt_mask": mask}
    expect_gradients_through(candidate, inputs, {"weights": inputs["weights"]})
    pairs = [(4, 4), (2, 6), (6, 2), (1, 5), (7, 1)] + thorough * [(14, 6), (3, 196), (7, 7)]
    for words, places in pairs:
        counts = {"words": words, "places": places}
        smallest = (places - words) ** 2 / places
        largest = float((words - 1) ** 2 + places - 1)
        for name, given, right, twins in (
            ("least", least, smallest, _LEAST_TWINS),
            ("most", most, largest, _MOST_TWINS),
        ):
            found = call_twice(given, counts)
            found = found if plain_number(found) is None else plain_number(found)
            expect_value(found, right, f"what {name} returns", counts, twins)


# Part 4

_Layer = tuple[int, int, int]
_Range = tuple[int, int]


def _seen(layers: Sequence[_Layer], length: int, place: int) -> _Range:
    """Pass on, layer by layer, the set of pixels that each position sees."""
    sets: list[set[int]] = [{pixel} for pixel in range(length)]
    for kernel, stride, padding in layers:
        padded = [set[int]()] * padding + sets + [set[int]()] * padding
        starts = range(0, len(padded) - kernel + 1, stride)
        sets = [set().union(*padded[start : start + kernel]) for start in starts]
    return min(sets[place]), max(sets[place])


def _sizes(layers: Sequence[_Layer], length: int, kernels: bool = True) -> list[int]:
    """Return how many positions there are before each layer; or forget that kernels take some."""
    sizes = [length]
    for kernel, stride, padding in layers[:-1]:
        sizes.append((sizes[-1] + 2 * padding - (kernel if kernels else stride)) // stride + 1)
    return sizes


def _walk_back(
    layers: Sequence[_Layer],
    length: int,
    place: int,
    *,
    pads: bool = True,
    strides: bool = True,
    kernels: bool = True,
    each_clipped: bool = True,
    clipped: bool = True,
    forwards: bool = False,
    fitted: bool = True,
) -> _Range:
    """Walk from a place to its pixels; the options leave something out."""
    first = last = place
    way = list(zip(layers, _sizes(layers, length, kernels=fitted), strict=True))
    for (kernel, stride, padding), size in way if forwards else reversed(way):
        stride, padding = stride if strides else 1, padding if pads else 0
        first = first * stride - padding
        last = last * stride - padding + (kernel - 1 if kernels else stride - 1)
        if each_clipped:
            first, last = max(first, 0), min(last, size - 1)
    return (max(first, 0), min(last, length - 1)) if clipped else (first, last)


def _padding_not_scaled(layers: Sequence[_Layer], length: int, place: int) -> _Range:
    first, size, jump = 0, 1, 1
    for kernel, stride, padding in layers:
        size += (kernel - 1) * jump
        first -= padding
        jump *= stride
    first += place * jump
    return max(first, 0), min(first + size - 1, length - 1)


_SEEN_TWINS = [
    *known(
        "pixels_seen: The padding is not subtracted: with padding p the first window begins p "
        "positions before the first.",
        lambda layers, n, place: _walk_back(layers, n, place, pads=False),
    ),
    *known(
        "pixels_seen: Padding is no pixel: the range ends at the border of the image.",
        lambda layers, n, place: _walk_back(layers, n, place, each_clipped=False, clipped=False),
    ),
    *known(
        "pixels_seen: A layer has places only where its whole kernel fits: of n positions it makes "
        "(n + 2 * padding - kernel) // stride + 1.",
        lambda layers, n, place: _walk_back(layers, n, place, fitted=False),
    ),
    *known(
        "pixels_seen: What is no position of a layer is cut off at the image only, at the end. An "
        "inner layer has borders of its own: where a stride leaves pixels over, what lies beyond "
        "its last position is padding and sees none of them.",
        lambda layers, n, place: _walk_back(layers, n, place, each_clipped=False),
    ),
    *known(
        "pixels_seen: The layers are walked in the order in which the image goes through them. "
        "From a place back to its pixels, the last comes first.",
        lambda layers, n, place: _walk_back(layers, n, place, each_clipped=False, forwards=True),
        lambda layers, n, place: _walk_back(
            layers, n, place, each_clipped=False, clipped=False, forwards=True
        ),
    ),
    *known(
        "pixels_seen: The strides are not used: with stride s, window i begins at s · i.",
        lambda layers, n, place: _walk_back(layers, n, place, strides=False),
        lambda layers, n, place: _walk_back(layers, n, place, strides=False, each_clipped=False),
    ),
    *known(
        "pixels_seen: These are the pixels between one place and the next. A place sees more: each "
        "kernel reaches over its neighbours.",
        lambda layers, n, place: _walk_back(layers, n, place, pads=False, kernels=False),
        lambda layers, n, place: _walk_back(layers, n, place, kernels=False),
    ),
    *known(
        "pixels_seen: The last pixel is one too far: the last that is seen is wanted, not the "
        "first that is not.",
        lambda layers, n, place: (_seen(layers, n, place)[0], _seen(layers, n, place)[1] + 1),
    ),
    *known(
        "pixels_seen: The first pixel and the number of pixels are given; first and last are "
        "wanted.",
        lambda layers, n, place: (
            _seen(layers, n, place)[0],
            _seen(layers, n, place)[1] - _seen(layers, n, place)[0] + 1,
        ),
    ),
    *known(
        "pixels_seen: These are all pixels that are seen; the first and the last of them are "
        "wanted.",
        lambda layers, n, place: [
            *range(_seen(layers, n, place)[0], _seen(layers, n, place)[1] + 1)
        ],
    ),
    *known(
        "pixels_seen: The padding of an inner layer is subtracted as if it were pixels. One "
        "position there is as many pixels as the strides before it say.",
        _padding_not_scaled,
    ),
]

_CONVOLUTION, _POOL = (3, 1, 1), (2, 2, 0)
_PACKAGE: list[_Layer] = [_CONVOLUTION, _POOL, _CONVOLUTION, (6, 6, 0)]
"""Those of the package's encoder of images: (kernel, stride, padding)."""
_STACKS: list[tuple[list[_Layer], int, list[int]]] = [
    ([(3, 1, 0)], 5, [2]),
    ([(3, 2, 0)], 7, [1]),
    ([_CONVOLUTION], 4, [0, 2, 3]),
    ([(3, 1, 0), (2, 2, 0)], 8, [1]),
    ([(2, 2, 0), (3, 1, 0)], 8, [1]),
    ([_CONVOLUTION, _POOL, _CONVOLUTION], 8, [2, 1]),
    ([_POOL, _CONVOLUTION], 5, [1]),
    ([(3, 2, 0), _CONVOLUTION], 6, [1]),
    (_PACKAGE, 36, [1]),
    (_PACKAGE, 36, [0, 2]),
]
_FURTHER_STACKS: list[tuple[list[_Layer], int, list[int]]] = [
    ([], 3, [2]),
    ([(1, 1, 0)], 3, [1]),
    ([(5, 3, 2), (3, 2, 1), _CONVOLUTION], 29, [0, 2, 4]),
    ([(3, 3, 0), (5, 1, 2)], 11, [0, 1, 2]),
    ([(7, 2, 3), (3, 2, 1), *[_CONVOLUTION] * 4], 56, [0, 6, 13]),
    ([(2, 2, 0), (2, 2, 0), _CONVOLUTION], 15, [1, 2]),
]


class _Edges(nn.Module):
    """Two channels: 9 and an edge from left to right, and 9 without it."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the two channels, neither of which is negative."""
        edge = images[..., 2:] - images[..., :-2]
        return torch.cat([9 + edge, 9 - edge], dim=1)

    def __repr__(self) -> str:
        return "two edge detectors, where one grows the other shrinks"


class _Turn(nn.Module):
    """Two channels: an edge as an angle, so that their squares always sum to 1."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the two channels."""
        edge = images[..., 2:] - images[..., :-2]
        return torch.cat([edge.cos(), edge.sin()], dim=1)

    def __repr__(self) -> str:
        return "an edge detector as an angle: its cosine, and its sine"


class _Absolute(nn.Module):
    """One channel: how far the sum of two pixels, one below the other, is from 0."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the channel."""
        return (images[..., 1:, :] + images[..., :-1, :]).abs()

    def __repr__(self) -> str:
        return "the absolute sum of each pixel and the one below"


class _Network(nn.Sequential):
    """A small network that a message can show in a line."""

    def __repr__(self) -> str:
        return " → ".join(type(layer).__name__ for layer in self)


def _convolutions(channels: int = 3) -> nn.Module:
    return _Network(nn.Conv2d(1, channels, 3, padding=1), nn.MaxPool2d(2))


def _package_network() -> nn.Module:
    encoder = _captioner().encoder
    return _Network(*encoder.look, encoder.combine)


def _gradients(network: nn.Module, images: Tensor, row: int, column: int) -> Tensor:
    """Return the gradients (channels, images, height, width)."""
    images = images.detach().clone().requires_grad_()
    place = network(images)[:, :, row, column]
    each = [torch.autograd.grad(c.sum(), images, retain_graph=True)[0] for c in place.unbind(1)]
    return torch.stack(each)[:, :, 0]


def _of_whole_map(network: nn.Module, images: Tensor, row: int, column: int) -> Tensor:
    images = images.detach().clone().requires_grad_()
    each = [
        torch.autograd.grad(channel.sum(), images, retain_graph=True)[0]
        for channel in network(images).unbind(1)
    ]
    return (torch.stack(each)[:, :, 0] != 0).any(dim=0).any(dim=0).float()


def _of_squares(network: nn.Module, images: Tensor, row: int, column: int) -> Tensor:
    images = images.detach().clone().requires_grad_()
    network(images)[:, :, row, column].square().sum().backward()
    return (cast(Tensor, images.grad) != 0).any(dim=0)[0].float()


_REACHED_TWINS = [
    *known(
        "reached: The gradients of the channels are summed before you look whether they are 0, and "
        "where one channel grows as another shrinks they cancel. Look at each channel by itself.",
        lambda *asked: (_gradients(*asked).sum(0) != 0).any(0).float(),
    ),
    *known(
        "reached: This is the gradient of the place's length, the squares of its numbers summed, "
        "in which channels can cancel as well. Look at each channel by itself.",
        _of_squares,
    ),
    *known(
        "reached: Only the first channel is looked at.",
        lambda *asked: (_gradients(*asked)[0] != 0).any(0).float(),
    ),
    *known(
        "reached: Only gradients above 0 count here. A pixel that makes the place smaller reaches "
        "it too.",
        lambda *asked: (_gradients(*asked) > 0).any(0).any(0).float(),
        lambda *asked: (_gradients(*asked)[:1] > 0).any(0).any(0).float(),
    ),
    *known(
        "reached: The gradients of the images are summed before you look whether they are 0, and "
        "they can cancel. A pixel counts if the gradient of one image is not 0.",
        lambda *asked: (_gradients(*asked).sum(1) != 0).any(0).float(),
        lambda *asked: (_gradients(*asked).sum((0, 1)) != 0).float(),
    ),
    *known(
        "reached: Only the first image is looked at. A maximum hands its gradient to the winner "
        "alone, and which pixel wins differs from image to image.",
        lambda *asked: (_gradients(*asked)[:, 0] != 0).any(0).float(),
    ),
    *known(
        "reached: A pixel counts here only if it reaches the place in every image; one is enough.",
        lambda *asked: (_gradients(*asked) != 0).any(0).all(0).float(),
    ),
    *known(
        "reached: A pixel counts here only if it reaches every channel; one is enough.",
        lambda *asked: (_gradients(*asked) != 0).all(0).any(0).float(),
    ),
    *known(
        "reached: This is what reaches the whole map. Take the gradient of the one place, "
        "[:, :, row, column].",
        _of_whole_map,
    ),
    *known(
        "reached: Row and column are exchanged.",
        lambda network, images, row, column: (
            (_gradients(network, images, column, row) != 0).any(0).any(0).float()
        ),
    ),
    *known(
        "reached: There is a map for each image; one map is wanted, True where any of them is.",
        lambda *asked: (_gradients(*asked) != 0).any(0).float(),
    ),
    *known(
        "reached: It is the wrong way round: True where the gradient is not 0.",
        lambda *asked: 1 - (_gradients(*asked) != 0).any(0).any(0).float(),
    ),
]


@_parts.part("pixels", "pixels_seen", "reached")
def pixels(pixels_seen: object, reached: object, thorough: bool = False) -> None:
    """Check which pixels a place sees, from the layers and from gradients."""
    for layers, length, places in _STACKS + thorough * _FURTHER_STACKS:
        for place in places:
            inputs = {"layers": layers, "length": length, "place": place}
            found = call_twice(pixels_seen, inputs)
            found = found.tolist() if isinstance(found, Tensor) else found
            right = _seen(layers, length, place)
            expect_value(found, right, "the first and last pixel", inputs, _SEEN_TWINS)
    mirrored = torch.randn(1, 1, 4, 3)
    asked: list[tuple[nn.Module, Tensor, int, int]] = [
        (_Edges(), torch.rand(1, 1, 2, 4), 0, 1),
        (_Absolute(), torch.cat([mirrored, -mirrored]), 2, 1),
        (_Turn(), torch.rand(1, 1, 2, 4), 1, 0),
        (_convolutions(), torch.rand(1, 1, 6, 6), 1, 2),
        (_convolutions(), torch.randn(5, 1, 6, 8), 0, 2),
    ]
    if thorough:
        deep = _Network(_convolutions(), nn.ReLU(), nn.Conv2d(3, 2, 3, padding=1))
        asked += [
            (deep, torch.randn(7, 1, 8, 10), 2, 1),
            (_package_network(), torch.rand(5, 1, 24, 36), 1, 0),
            (_package_network(), torch.rand(2, 1, 24, 36), 0, 2),
        ]
    for network, images, row, column in asked:
        inputs = {"network": network, "images": images, "row": row, "column": column}
        expected = (_gradients(network, images, row, column) != 0).any(dim=0).any(dim=0).float()
        answer = _zeros_and_ones(call_twice(reached, inputs), inputs)
        expect_equal(answer, expected, "the map of pixels", inputs, _REACHED_TWINS)


def _zeros_and_ones(answer: object, inputs: Inputs) -> object:
    """Let a map of zeros and ones, or a nested list, pass for one of False and True."""
    if isinstance(answer, list):
        with suppress(TypeError, ValueError):  # what makes no tensor is refused as it is
            answer = torch.tensor(answer)
    if not isinstance(answer, Tensor):
        return answer
    answer = answer.detach().float()
    if not ((answer == 0) | (answer == 1)).all():
        raise CheckFailed(
            "  reached: Expected True and False; these are other numbers. Is it the gradient "
            f"itself? Ask where it is != 0.\n{describe(inputs)}"
        )
    return answer


# Part 5

_Box = tuple[int, int, int, int]


def _inside(weights: Tensor, box: _Box, cell: int) -> float:
    """Spread each weight over its pixels, and count those of the box."""
    top, left, bottom, right = box
    heat = torch.kron(weights.double(), torch.ones(cell, cell, dtype=torch.float64)) / cell**2
    return float(heat[top:bottom, left:right].sum())


def _overlap(weights: Tensor, box: _Box, cell: int) -> Tensor:
    """Return the number of pixels that each place shares with the box."""
    return torch.tensor(
        [
            [
                float(_inside(_one_hot(weights, row, column), box, cell)) * cell**2
                for column in range(weights.size(1))
            ]
            for row in range(weights.size(0))
        ]
    )


def _one_hot(weights: Tensor, row: int, column: int) -> Tensor:
    found = torch.zeros_like(weights)
    found[row, column] = 1.0
    return found


def _area(box: _Box) -> int:
    top, left, bottom, right = box
    return (bottom - top) * (right - left)


def _centres_in(weights: Tensor, box: _Box, cell: int) -> float:
    top, left, bottom, right = box
    down, across = ((torch.arange(n) + 0.5) * cell for n in weights.shape)
    rows, columns = (down > top) & (down < bottom), (across > left) & (across < right)
    return float(weights[rows][:, columns].sum())


_INSIDE_TWINS = [
    *known(
        "inside: A place that the box only touches counts whole. It counts by the share of its "
        "pixels that lie in the box.",
        lambda w, box, cell: float((w * (_overlap(w, box, cell) > 0)).sum()),
    ),
    *known(
        "inside: A place counts only if it lies in the box altogether. It counts by the share of "
        "its pixels that do.",
        lambda w, box, cell: float((w * (_overlap(w, box, cell) == cell**2)).sum()),
    ),
    *known(
        "inside: A place counts if its centre lies in the box. It counts by the share of its "
        "pixels that do.",
        _centres_in,
    ),
    *known(
        "inside: Each pixel counts with the whole weight of its place. The weight is spread over "
        "cell · cell pixels.",
        lambda w, box, cell: _inside(w, box, cell) * cell**2,
    ),
    *known(
        "inside: The weight of a place is spread over its pixels: there are cell · cell of them, "
        "not cell.",
        lambda w, box, cell: _inside(w, box, cell) * cell,
    ),
    *known(
        "inside: This is the mean over the pixels of the box; the sum is wanted.",
        lambda w, box, cell: _inside(w, box, cell) * cell**2 / _area(box),
        lambda w, box, cell: _inside(w, box, cell) / _area(box),
    ),
    *known(
        "inside: Across and down are exchanged: a box is top, left, bottom, right.",
        lambda w, box, cell: _inside(w, (box[1], box[0], box[3], box[2]), cell),
    ),
    *known(
        "inside: Row `bottom` and column `right` are no longer part of the box.",
        lambda w, box, cell: _inside(w, (*box[:2], box[2] + 1, box[3] + 1), cell),
    ),
    *known(
        "inside: This is the share that lies outside.",
        lambda w, box, cell: 1 - _inside(w, box, cell),
    ),
    *known(
        "inside: The weights are not used: this is the box's share of the image.",
        lambda w, box, cell: _area(box) / (w.numel() * cell**2),
    ),
]

_Named = list[tuple[Tensor, _Box]]


def _pairs(named: _Named, same: bool = False) -> list[tuple[Tensor, _Box]]:
    """Return each word's focus with the box of each other word, the same box left out."""
    return [
        (weights, other)
        for i, (weights, box) in enumerate(named)
        for j, (_, other) in enumerate(named)
        if i != j and (same or box != other)
    ]


def _one_way(named: _Named, cell: int) -> float | None:
    """Return the mean for those who take each pair of words once, the earlier word's focus."""
    return _mean([
        _inside(weights, other, cell)
        for i, (weights, box) in enumerate(named)
        for _, other in named[i + 1 :]
        if box != other
    ])  # fmt: skip


def _mean(shares: Sequence[float]) -> float | None:
    return sum(shares) / len(shares) if shares else None


def _naming(weights: Tensor, boxes: Sequence[_Box | None]) -> _Named:
    return [(w, box) for w, box in zip(weights, boxes, strict=True) if box is not None]


def _chances(weights: Tensor, boxes: Sequence[_Box | None], cell: int) -> dict[str, float | None]:
    named = _naming(weights, boxes)
    even = torch.full_like(weights[0], 1 / weights[0].numel())
    return {
        "inside": _mean([_inside(w, box, cell) for w, box in named]),
        "chance": _mean([_inside(even, box, cell) for _, box in named]),
        "other": _mean([_inside(w, box, cell) for w, box in _pairs(named)]),
    }


def _mean_of_means(named: _Named, cell: int) -> float | None:
    means = []
    for weights, box in named:
        others = [other for _, other in named if other != box]
        if others:
            means.append(sum(_inside(weights, other, cell) for other in others) / len(others))
    return _mean(means)


def _pointing_twins(
    weights: Tensor, boxes: Sequence[_Box | None], cell: int
) -> dict[str, list[tuple[str, float | None]]]:
    """Return for each key what those get who make a known mistake."""
    right, named = _chances(weights, boxes, cell), _naming(weights, boxes)
    own, chance = (cast(float, right[key]) for key in ("inside", "chance"))
    number, words = len(named), len(boxes)
    everyone = "Words without a box count as if they had missed one: they are not to be counted."
    even = "Chance is an even focus: the box's share of the image, the mean over the naming words."
    with_own = [(w, box) for w, _ in named for _, box in named]
    return {
        "inside": [
            (everyone, own * number / words),
            ("This is the sum over the words; the mean is wanted.", own * number),
            (
                "This is how often the place with the largest weight touches the box; the share of "
                "the weight is wanted.",
                _mean(
                    [
                        float(_overlap(w, box, cell).flatten()[w.argmax()] > 0)
                        for w, box in named
                    ]
                ),
            ),
        ],
        "chance": [
            (everyone, chance * number / words),
            (f"This is one place of the map. {even}", 1 / weights[0].numel()),
            (f"This is one box of those there are. {even}", 1 / number),
            (f"The number of pixels of the boxes is not divided by the image's. {even}",
             _mean([float(_area(box)) for _, box in named])),
        ],
        "other": [
            (
                "Pairs of words with the same box are among them: such a word is on its own box.",
                _mean([_inside(w, box, cell) for w, box in _pairs(named, same=True)]),
            ),
            (
                "Each word is measured with its own box too; only other boxes are wanted.",
                _mean([_inside(w, box, cell) for w, box in with_own]),
            ),
            (
                "This is the mean over the words of a mean over boxes. All pairs count the same.",
                _mean_of_means(named, cell),
            ),
            ("This is all that lies outside the own box, empty paper too.", 1 - own),
            ("Each pair is taken one way only. It counts both ways: the first word's focus in the "
             "other's box, and the other's in the first's.", _one_way(named, cell)),
            ("This is the sum over the pairs; the mean is wanted.",
             sum(_inside(w, box, cell) for w, box in _pairs(named))),
        ] if _pairs(named) else [("Where there is no such pair, None is wanted.", 0.0)],
    }  # fmt: skip


_CELL = 4
_BOXES: list[list[_Box | None]] = [
    [None, (0, 0, 4, 4), None, (3, 5, 7, 10)],
    [(1, 1, 7, 3), (1, 1, 7, 3), (4, 6, 8, 12), None, (2, 8, 3, 11)],
    [None, (0, 2, 8, 6)],
    [(2, 2, 6, 6), (2, 2, 6, 6), None],
]


@_parts.part("inside the box", "inside", "pointing")
def inside(candidate: object, pointing: object, thorough: bool = False) -> None:
    """Check how much of a focus lies in a box, and whether it lies in the right one."""
    by_hand = torch.tensor([[0.5, 0.25], [0.25, 0.0]])
    asked: list[tuple[Tensor, _Box, int]] = [
        (by_hand, (0, 0, 2, 2), 2),
        (torch.tensor([[0.1, 0.6, 0.3]]), (1, 2, 4, 11), 4),
        (by_hand, (0, 1, 1, 4), 2),
        (by_hand, (1, 1, 4, 3), 2),
        (_focus(2, 3), (2, 3, 7, 12), 4),
    ]
    if thorough:
        asked += [(_focus(3, 5), (1, 0, 2, 35), 7), (_focus(5, 2), (0, 0, 15, 6), 3)]
        asked += [(_focus(1, 1), (2, 1, 3, 4), 5), (_focus(7, 3), (4, 2, 5, 3), 1)]
    for weights, box, cell in asked:
        inputs = {"weights": weights, "box": box, "cell": cell}
        found = call_twice(candidate, inputs)
        found = found if plain_number(found) is None else plain_number(found)
        right = _inside(weights, box, cell)
        expect_value(found, right, "the share inside", inputs, _INSIDE_TWINS)
    for boxes in _BOXES:
        _compare_pointing(pointing, _focus(2, 3, len(boxes)), boxes, _CELL)
    if thorough:
        _compare_pointing(pointing, _focus(3, 2, 5), [None, *_BOXES[0]], 5)
        _compare_pointing(pointing, *described()[0][1:], 12)


def _focus(rows: int, columns: int, *words: int) -> Tensor:
    """Return weights that sum to 1 over the places."""
    scores = 2 * torch.randn(*words, rows * columns)
    return scores.softmax(dim=-1).reshape(*words, rows, columns)


def _compare_pointing(
    pointing: object, weights: Tensor, boxes: Sequence[_Box | None], cell: int
) -> None:
    inputs = {"weights": weights, "boxes": list(boxes), "cell": cell}
    found = call_twice(pointing, inputs)
    if not isinstance(found, dict):
        expect_value(found, {}, "what pointing returns", inputs)
    found = cast(dict[str, object], found)
    wrong = _pointing_twins(weights, boxes, cell)
    for key, right in _chances(weights, boxes, cell).items():
        if key not in found:
            raise CheckFailed(f"  pointing: The key {key!r} is missing.\n{describe(inputs)}")
        got = found[key]
        got = got if plain_number(got) is None else plain_number(got)
        twins = [
            Twin(f"pointing, {key}: {text}", lambda *_, made=made: made)
            for text, made in wrong[key]
        ]
        expect_value(got, right, f"{key!r}", inputs, twins)


# Recorded of the model that ships, which describes three held-out scenes of 24 × 36 pixels: for
# each word the weights of the 2 × 3 places in hundredths, and the box of the digit it names.
_RECORDED: list[tuple[str, list[list[int]], dict[int, _Box]]] = [
    (
        "a one right of a seven and a seven below an eight <end>",
        [
            [5, 1, 1, 6, 1, 85],
            [1, 0, 0, 1, 0, 98],
            [13, 2, 2, 76, 2, 5],
            [18, 7, 6, 54, 6, 10],
            [20, 5, 4, 53, 3, 15],
            [1, 1, 0, 92, 0, 5],
            [63, 8, 8, 12, 7, 2],
            [29, 13, 12, 20, 14, 12],
            [2, 1, 1, 95, 1, 2],
            [79, 3, 3, 9, 3, 2],
            [81, 4, 4, 5, 4, 2],
            [49, 15, 13, 9, 12, 3],
            [30, 20, 20, 10, 18, 3],
        ],
        {1: (15, 29, 23, 35), 5: (13, 3, 21, 9), 8: (13, 3, 21, 9), 11: (2, 2, 10, 8)},
    ),
    (
        "a three left of a four <end>",
        [
            [5, 7, 6, 45, 32, 5],
            [1, 1, 1, 76, 22, 1],
            [7, 6, 5, 17, 59, 5],
            [20, 15, 12, 20, 22, 10],
            [9, 8, 8, 30, 38, 7],
            [0, 0, 0, 25, 74, 0],
            [27, 23, 22, 5, 4, 18],
        ],
        {1: (13, 2, 21, 9), 5: (14, 15, 22, 21)},
    ),
    (
        "a nine left of a nine <end>",
        [
            [56, 6, 7, 6, 5, 20],
            [67, 3, 3, 2, 3, 22],
            [45, 7, 7, 7, 5, 28],
            [40, 6, 5, 6, 6, 36],
            [46, 4, 4, 6, 5, 35],
            [51, 8, 6, 6, 6, 23],
            [20, 16, 17, 16, 15, 16],
        ],
        {1: (1, 5, 9, 11), 5: (12, 27, 20, 33)},
    ),
]


def described() -> list[tuple[list[str], Tensor, list[_Box | None]]]:
    """Return three captions: words, weights (words, 2, 3), and the box of each word's digit."""
    found = []
    for said, hundredths, boxes in _RECORDED:
        weights = torch.tensor(hundredths, dtype=torch.float32).reshape(-1, 2, 3)
        words = said.split()
        placed = [boxes.get(place) for place in range(len(words))]
        found.append((words, weights / weights.sum(dim=(1, 2), keepdim=True), placed))
    return found


# Part 6


@_parts.part("bug hunt", "mended_heat")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Examine the drawing of a focus on an image."""
    sizes = [(3, 3, 2), (3, 5, 3)]
    if thorough:
        sizes += [(5, 3, 4), (3, 4, 1), (4, 3, 5)]
    for size in sizes:
        in_turn(_SYMPTOMS, candidate, size)


_Size = tuple[int, int, int]


def _heat(weights: Tensor, mask: Tensor, rows: int, cell: int) -> Tensor:
    """Return the heat, with what PyTorch has for it."""
    maps = weights.reshape(*weights.shape[:2], rows, -1)
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear", align_corners=False)
    return heat * mask[..., None, None] / cell**2


def _drawn(candidate: object, maps: Tensor, cell: int, mask: Tensor | None = None) -> Inputs:
    """Return what to ask for maps of weights (batch, words, rows, columns)."""
    mask = torch.ones(maps.shape[:2], dtype=torch.bool) if mask is None else mask
    return {"weights": maps.flatten(2), "mask": mask, "rows": maps.size(2), "cell": cell}


def _heat_of(candidate: object, asked: Inputs) -> Tensor:
    answer = in_32_bits(call_twice(candidate, asked))
    heat = expect_tensor(answer, _heat(**asked).shape, "the heat", asked)
    if not (heat.sum(dim=(2, 3))[asked["mask"]] > 0).all():
        raise CheckFailed(
            "  A word that is no padding has no heat. Is the mask the wrong way round? True stands "
            f"at words.\n{describe(asked)}"
        )
    return heat


def _profile(heat: Tensor, axis: int) -> Tensor:
    """Return how the heat of the first word goes down (0) or across (1), with the sum 1."""
    along = heat[0, 0].sum(dim=1 - axis)
    return along / along.sum()


def _line(size: int, place: int, axis: int, other: int) -> Tensor:
    """Return one map whose weights lie evenly on one row (axis 0) or one column (axis 1)."""
    line = torch.zeros(size)
    line[place] = 1 / other
    lines = line.unsqueeze(1).expand(size, other)
    return (lines if axis == 0 else lines.T).unsqueeze(0).unsqueeze(0)


def _examine_order(candidate: object, size: _Size) -> None:
    rows, columns, cell = size
    maps = _line(rows, 0, 0, columns) + _line(rows, 1, 0, columns)
    asked = _drawn(candidate, maps / 2, cell)
    across = _heat_of(candidate, asked)[0, 0].sum(dim=0)
    across = across[cell // 2 : len(across) - cell // 2]  # borders are a symptom of their own
    if not torch.allclose(across, across.mean().expand_as(across), 1e-4, 1e-6):
        raise CheckFailed(
            "  All weight lies evenly on the first two rows of the map, and the heat is not even "
            "from left to right. Are the places read column by column? They come row by row.\n"
            + describe(asked)
        )


_SIDES = ("down", "across")


def _examine_centres(candidate: object, size: _Size) -> None:
    _examine_profile(candidate, size, 0)


def _examine_across(candidate: object, size: _Size) -> None:
    _examine_profile(candidate, size, 1)


def _hat(size: int, cell: int) -> Tensor:
    """Return the heat of the place in the middle, put at the first pixel of its square."""
    distance = (torch.arange(size * cell) / cell - size // 2).abs()
    return (1 - distance).clamp(min=0)


def _examine_profile(candidate: object, size: _Size, axis: int) -> None:
    places, cell = size[axis], size[2]
    middle = places // 2
    asked = _drawn(candidate, _line(places, middle, axis, size[1 - axis]), cell)
    got = _profile(_heat_of(candidate, asked), axis)
    right = _profile(_heat(**asked), axis)
    which = ("row", "column")[axis]
    said = f"  All weight lies on {which} {middle} of {places}, counted from 0"
    if not torch.allclose(got, right, 1e-4, 1e-5):
        shift = float((got - right) @ torch.arange(float(len(got))))
        sides = (("too high", "too low"), ("too far to the left", "too far to the right"))
        side = sides[axis][shift > 0]
        if torch.allclose(got, _scaled(_hat(places, cell)), 1e-4, 1e-5):
            why = (
                f", and the heat is drawn {abs(shift):.2f} pixels {side}. Is the place's weight "
                "put at the first pixel of its square? It belongs to the middle, (cell - 1) / 2 "
                "pixels further on: pixel p lies at place (p - (cell - 1) / 2) / cell."
            )
        elif any(_as_mirrored(got, places, cell, at) for at in (0.5 - cell / 2, 0.0)):
            why = (
                f". Going {_SIDES[axis]}, the two neighbours of a pixel have changed places: the "
                "one that is nearer counts more."
            )
        elif abs(shift) > 1e-3:
            why = f", and the heat is drawn {abs(shift):.2f} pixels {side}."
        else:
            why = f", and the heat is not that of straight lines between centres, {_SIDES[axis]}."
        raise CheckFailed(f"{said}{why}\n{describe(asked)}")


def _as_mirrored(got: Tensor, size: int, cell: int, shift: float) -> bool:
    """Tell whether the nearer and the farther neighbour are exchanged, between the borders."""
    at = (torch.arange(size * cell) + shift) / cell
    between = (at >= 0) & (at <= size - 1)
    distance = (at - size // 2).abs()
    far = torch.where(distance.ceil() == 1, distance, 0.0)
    return torch.allclose(_scaled(got[between]), _scaled(far[between]), 1e-4, 1e-5)


def _scaled(profile: Tensor) -> Tensor:
    return profile / profile.sum()


def _examine_borders(candidate: object, size: _Size) -> None:
    for axis in (0, 1):
        for place in (0, size[axis] - 1):
            asked = _drawn(candidate, _line(size[axis], place, axis, size[1 - axis]), size[2])
            got = _profile(_heat_of(candidate, asked), axis)
            right = _profile(_heat(**asked), axis)
            which = ("row", "column")[axis]
            said = f"  All weight lies on {which} {place}, at the border of the map"
            far = right == 0
            if (got[far].abs() > 1e-5).any():
                raise CheckFailed(
                    f"{said}, and there is heat at the opposite border. Beyond the last {which} "
                    f"comes no first one: from the last centre to the border the heat stays as it "
                    f"is.\n{describe(asked)}"
                )
            if not torch.allclose(got, right, 1e-4, 1e-5):
                raise CheckFailed(
                    f"{said}. Between the centre of its squares and the border of the image the "
                    f"heat stays as it is at the centre.\n{describe(asked)}"
                )


def _maps(size: _Size, batch: int = 2, words: int = 3) -> Tensor:
    rows, columns, _ = size
    return _focus(rows, columns, batch, words)


def _examine_sums(candidate: object, size: _Size) -> None:
    asked = _drawn(candidate, _maps(size), size[2])
    sums = _heat_of(candidate, asked).sum(dim=(2, 3))
    if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        biggest = _heat_of(candidate, asked).amax(dim=(2, 3))
        why = ""
        if torch.allclose(biggest, torch.ones_like(biggest), atol=1e-3):
            why = (
                " Every word's largest heat is 1, so that a word that looks everywhere seems as "
                "sure as one that looks at one place."
            )
        elif torch.allclose(sums, torch.full_like(sums, float(size[2] ** 2)), atol=1e-2):
            why = " Each place's weight is spread over cell · cell pixels: divide by their number."
        raise CheckFailed(
            f"  The heat of a word does not sum to 1 over the image.{why}\n{describe(asked)}\n"
            f"  got sums    {[round(each, 3) for each in sums[0].tolist()]} (first of the batch)"
        )


def _examine_padding(candidate: object, size: _Size) -> None:
    mask = torch.tensor([[True, True, True], [True, False, False]])
    asked = _drawn(candidate, _maps(size), size[2], mask)
    heat = _heat_of(candidate, asked)
    if heat[~mask].count_nonzero():
        raise CheckFailed(
            "  Padding has heat. Where the mask is False there is no word, and zeros are expected."
            f"\n{describe(asked)}"
        )


def _examine_all(candidate: object, size: _Size) -> None:
    mask = torch.tensor([[True, True, True], [True, True, False]])
    asked = _drawn(candidate, _maps(size), size[2], mask)
    expect_equal(_heat_of(candidate, asked), _heat(**asked), "the heat", asked)


_SYMPTOMS: dict[str, Callable[[object, _Size], None]] = {
    "the order of the places": _examine_order,
    "the centres down": _examine_centres,
    "the centres across": _examine_across,
    "the borders": _examine_borders,
    "the sums": _examine_sums,
    "padding": _examine_padding,
    "all of it": _examine_all,
}
