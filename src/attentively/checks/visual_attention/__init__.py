"""Checks of the assignment on visual attention.

Parts 1, 2 and 3 rebuild code of the package, with the paper's gate, and the student's step is put
into the package's captioner. The solutions of parts 4, 5 and 6 are not given in the book or the
package: receptive fields are computed by passing sets of pixels from layer to layer, shares are
summed pixel by pixel, and drawn attention is examined symptom by symptom.
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
    """Encode three images, to show that the package, its captioner and these checks work."""
    _parts.explain_undefined_names()
    with torch.no_grad():
        model = _captioner()
        memory = model.encode(_IMAGES)
    images, locations, dimension = memory.outputs.shape
    print(f"PyTorch {torch.__version__}. {images} images of 24 × 36 pixels are encoded as")
    print(f"{locations} annotation vectors of dimension {dimension} each. The set-up is complete.")


# The package's captioners


MODEL = "digits-captioner"
"""The name of the trained captioner into which a student's step is put."""


def _trained() -> Captioner:
    return cast(Captioner, load_pretrained(MODEL).model).eval()


def _captioner() -> Captioner:
    """Return a small untrained captioner with large parameters, so that its weights differ."""
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
        "keys_of: reshape alone does not change the order of the values, so each key mixes "
        "locations and channels. Flatten rows and columns first, then transpose.",
        lambda m: m.reshape(len(m), -1, m.size(1)),
    ),
    *known(
        "keys_of: The locations are ordered column by column. Order them row by row, from left to "
        "right: location = row · columns + column.",
        lambda m: m.transpose(2, 3).flatten(2).transpose(1, 2),
    ),
    *known(
        "keys_of: The last two dimensions are exchanged. The keys have one row for each location "
        "and one column for each channel: transpose.",
        lambda m: m.flatten(2),
    ),
    *known(
        "keys_of: Rows and columns are still two dimensions. Attention needs one dimension for all "
        "locations.",
        lambda m: m.permute(0, 2, 3, 1),
        lambda m: m,
    ),
    *known(
        "keys_of: The images of the batch are mixed. Keep the batch as the first dimension.",
        lambda m: m.permute(1, 0, 2, 3).reshape(len(m), -1, m.size(1)),
        lambda m: m.permute(2, 3, 0, 1).reshape(len(m), -1, m.size(1)),
    ),
]

_MAP_TWINS = [
    *known(
        "map_of: The map is filled column by column. The first locations are the first row, from "
        "left to right.",
        lambda w, rows: w.reshape(*w.shape[:2], -1, rows).transpose(2, 3),
    ),
    *known(
        "map_of: Rows and columns are exchanged. `rows` is the size of the second-to-last "
        "dimension.",
        lambda w, rows: w.reshape(*w.shape[:2], -1, rows),
        lambda w, rows: w.reshape(*w.shape[:2], rows, -1).transpose(2, 3),
    ),
    *known(
        "map_of: The order of the rows is reversed. The first row is at the top, as in an image.",
        lambda w, rows: w.reshape(*w.shape[:2], rows, -1).flip(2),
    ),
    *known(
        "map_of: Words and locations are mixed. Each word has a map of its own.",
        lambda w, rows: w.transpose(1, 2).reshape(*w.shape[:2], rows, -1),
    ),
]


@_parts.part(
    "keys and maps",
    "keys_of",
    "map_of",
    rebuilds=("attentively.models.captioning:ImageEncoder",),
    step=True,
)
def keys(keys_of: object, map_of: object, thorough: bool = False) -> None:
    """Check the keys of a feature map, and the maps of attention weights."""
    small = torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[10.0, 20, 30], [40, 50, 60]]]])
    maps = [small, torch.randn(2, 3, 3, 3), torch.randn(2, 5, 3, 7)]
    weight_maps = [(torch.arange(6.0).reshape(1, 1, 6), 2), (torch.randn(2, 3, 9), 3)]
    weight_maps += [(torch.randn(2, 5, 21), 7)]
    if thorough:
        maps += [torch.randn(1, 7, 1, 5), torch.randn(5, 1, 7, 2), torch.randn(3, 2, 1, 1)]
        weight_maps += [(torch.randn(3, 2, 5), 1), (torch.randn(1, 7, 11), 11)]
    inputs: Inputs
    for feature_map in maps:
        inputs = {"feature_map": feature_map}
        expected = feature_map.flatten(2).transpose(1, 2)
        answer = in_32_bits(call_twice(keys_of, inputs))
        expect_equal(answer, expected, "the keys", inputs, _KEYS_TWINS)
    for weights, rows in weight_maps:
        inputs = {"weights": weights, "rows": rows}
        expected = weights.reshape(*weights.shape[:2], rows, -1)
        answer = in_32_bits(call_twice(map_of, inputs))
        expect_equal(answer, expected, "the map of weights", inputs, _MAP_TWINS)
    inputs = {"feature_map": torch.randn(2, 3, 2, 5, requires_grad=True)}
    expect_gradients_through(keys_of, inputs, inputs)
    _expect_same_annotations(keys_of)


def _expect_same_annotations(keys_of: object) -> None:
    """Put the student's keys into the package's image encoder."""
    encoder = _captioner().encoder
    with torch.no_grad():
        seen = encoder.combine(encoder.look(_IMAGES))
        given = cast(Tensor, in_32_bits(call(keys_of, {"feature_map": seen})))
        annotations = encoder.norm(given) + encoder.place
        expected = encoder(_IMAGES)
    expect_equal(
        annotations,
        expected,
        "the annotation vectors inside the package's encoder",
        {"feature_map": seen},
    )


# Part 2


class _Linear(nn.Linear):
    """A linear layer that a message can show in a line."""

    def __repr__(self) -> str:
        return f"a linear layer from dimension {self.in_features} to {self.out_features}"


class _Cell(nn.GRUCell):
    """A cell that a message can show in a line."""

    def __repr__(self) -> str:
        return f"a GRU cell with input dimension {self.input_size}"


class _Attention(AdditiveAttention):
    """An attention that a message can show in a line."""

    def __repr__(self) -> str:
        return "additive attention"


class _Layers(NamedTuple):
    """The layers of a step."""

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
        "first_state: The tanh is missing. Apply it to the output of the layer.",
        lambda annotations, bridge: bridge(annotations.mean(dim=1)),
    ),
    *known(
        "first_state: The annotation vectors are summed. Compute their mean.",
        lambda annotations, bridge: torch.tanh(bridge(annotations.sum(dim=1))),
    ),
    *known(
        "first_state: The maximum over the locations is used. Compute the mean.",
        lambda annotations, bridge: torch.tanh(bridge(annotations.amax(dim=1))),
    ),
    *known(
        "first_state: Only one location is used. Compute the mean over all locations.",
        lambda annotations, bridge: torch.tanh(bridge(annotations[:, 0])),
        lambda annotations, bridge: torch.tanh(bridge(annotations[:, -1])),
    ),
    *known(
        "first_state: The mean is computed after the tanh. Compute the mean of the annotation "
        "vectors first, then apply the layer and the tanh.",
        lambda annotations, bridge: torch.tanh(bridge(annotations)).mean(dim=1),
    ),
    *known(
        "first_state: The mean is also computed over the images of the batch. Each image has its "
        "own first state: .mean(dim=1).",
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
        "The gate is missing. Multiply the weighted sum by β.",
        _gated(lambda state, context, gate: context),
    ),
    (
        "The sigmoid of the gate is missing. β is between 0 and 1.",
        _gated(lambda state, context, gate: gate(state) * context),
    ),
    (
        "The gate is computed with a tanh. Use a sigmoid, so that β is between 0 and 1.",
        _gated(lambda state, context, gate: torch.tanh(gate(state)) * context),
    ),
    (
        "The weighted sum is multiplied by 1 - β. Multiply it by β.",
        _gated(lambda state, context, gate: torch.sigmoid(-gate(state)) * context),
    ),
    (
        "The gate of image k multiplies entry k of every context vector: without its last "
        "dimension, β is broadcast over the entries. Keep the shape (batch, 1).",
        _gated(lambda state, context, gate: torch.sigmoid(gate(state)).squeeze(-1) * context),
    ),
    (
        "β is added to the weighted sum. Multiply by β.",
        _gated(lambda state, context, gate: torch.sigmoid(gate(state)) + context),
    ),
    (
        "The cell receives the weighted sum without the gate. Concatenate the embedding of the "
        "word with the context vector after the gate.",
        _reads_ungated,
    ),
    (
        "The returned context vector is the weighted sum without the gate. Return the one that the "
        "cell receives.",
        _returns_ungated,
    ),
    (
        "The gate is computed from the new state. Compute β from the old state, before the cell, "
        "because the cell receives the context vector after the gate.",
        _gate_from_new,
    ),
    (
        "The query of the attention is the new state. The query is the old state, before the word "
        "is processed.",
        _asks_with_new,
    ),
    (
        "The input of the cell is [context; word]. The order is [word; context].",
        _context_first,
    ),
    ("The returned state is the old one. Return the output of the cell.", _stands_still),
    (
        "The cell does not receive the old state, so it uses zeros: cell(inputs, state).",
        _forgets,
    ),
    (
        "The returned weights are multiplied by β. The gate applies to the context vector only; "
        "the weights sum to 1.",
        _gates_weights,
    ),
    (
        "The context vector contains only the location with the largest weight (hard attention). "
        "Soft attention sums over all locations.",
        _hardest,
    ),
]


@_parts.part(
    "captioning step",
    "first_state",
    "step",
    rebuilds=("attentively.models.captioning:Captioner",),
    step=True,
)
def steps(first_state: object, step: object, thorough: bool = False) -> None:
    """Check the first state and one step, by themselves and inside the trained captioner."""
    # Batch, locations, key_dim, embedding_dim, decoder_dim.
    sizes = [(1, 2, 2, 2, 2), (2, 3, 2, 3, 3), (3, 5, 3, 2, 7)]
    if thorough:
        sizes += [(5, 1, 7, 3, 2), (1, 7, 1, 1, 1), (2, 11, 5, 7, 3)]
    for batch, locations, key_dim, embedding_dim, decoder_dim in sizes:
        bridge = _Linear(key_dim, decoder_dim)
        annotations = torch.randn(batch, locations, key_dim)
        inputs = {"annotations": annotations, "bridge": bridge}
        with torch.no_grad():
            expected = torch.tanh(bridge(annotations.mean(dim=1)))
            answer = in_32_bits(call_twice(first_state, inputs))
            expect_equal(answer, expected, "the first state", inputs, _FIRST_TWINS)
        sizes_of = key_dim, embedding_dim, decoder_dim
        _compare_step(step, batch, locations, *sizes_of)
    _expect_gradients(first_state, step)
    _expect_same_captions(first_state, step)


def _step_inputs(
    batch: int, locations: int, key_dim: int, embedding_dim: int, decoder_dim: int
) -> dict[str, Any]:
    tensors = (
        torch.randn(batch, embedding_dim),
        torch.randn(batch, decoder_dim),
        torch.randn(batch, locations, key_dim),
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
                    "  step: The three results are right, but in the wrong order: return "
                    f"{', '.join(_RESULTS)}.\n{describe(inputs)}"
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
    """A gate with the value 1, because the package's decoder has none."""

    def forward(self, state: Tensor) -> Tensor:
        """Return a number whose sigmoid is 1."""
        return torch.full((*state.shape[:-1], 1), 100.0)

    def __repr__(self) -> str:
        return "a gate that is always 1"


class _StudentsDecoder(AttentiveDecoder):
    """The package's decoder, with a student's first state and step."""

    def __init__(self, right: AttentiveDecoder, first_state: object, step: object) -> None:
        nn.Module.__init__(self)
        for name, module in right.named_children():
            self.add_module(name, module)
        self.given = (first_state, step)

    def start(self, memory: Memory) -> RecurrentState:
        """Compute the first state with the student's function."""
        first_state = cast(Callable[..., Tensor], self.given[0])
        hidden = cast(Tensor, in_32_bits(first_state(memory.outputs, self.bridge)))
        return RecurrentState(hidden, memory.outputs, memory.mask.squeeze(1))

    def advance(
        self, embedded: Tensor, state: RecurrentState
    ) -> tuple[RecurrentState, Tensor, Tensor | None]:
        """Compute the step with the student's function."""
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
    inside_it = "inside the trained captioner, with a gate that is always 1"
    expect_equal(in_32_bits(got.weights), expected.weights, f"the weights {inside_it}", where)
    expect_equal(in_32_bits(got.logits), expected.logits, f"the logits {inside_it}", where)
    after = cast(list[list[int]], call(lambda *_: written(changed), where))
    expect_value(after, written(right), f"the generated captions {inside_it}", where)


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
        "penalty: The weights of padding are included. Ignore the positions where tgt_mask is "
        "False.",
        _penalised(lambda w, real: w.sum(dim=1)),
    ),
    *known(
        "penalty: The mask is inverted. It is True at words and False at padding.",
        _penalised(lambda w, real: (w * (1 - real)).sum(dim=1)),
    ),
    *known(
        "penalty: The weights are summed over the locations, which gives 1 for every word. Sum "
        "over the words, for each location.",
        lambda w, mask: ((1 - w.sum(dim=-1)).square() * mask).sum(-1).mean(),
        lambda w, mask: (1 - (w * mask.unsqueeze(-1)).sum(dim=-1)).square().sum(-1).mean(),
    ),
    *known(
        "penalty: The differences from 1 are not squared.",
        _penalised(_over_words, error=torch.abs),
        _penalised(_over_words, error=lambda difference: difference),
    ),
    *known(
        "penalty: Each weight is compared with 1 separately. Sum over the words first, then "
        "subtract the sum from 1.",
        lambda w, mask: ((1 - w).square() * mask.unsqueeze(-1)).sum((1, 2)).mean(),
    ),
    *known(
        "penalty: The weights are averaged over the words. Sum them.",
        _penalised(lambda w, real: w.mean(dim=1)),
        _penalised(lambda w, real: (w * real).mean(dim=1)),
        _penalised(lambda w, real: (w * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)),
    ),
    *known(
        "penalty: The squares are averaged over the locations. Sum them, and compute the mean only "
        "over the images of the batch.",
        lambda w, mask: (1 - _over_words(w, mask.unsqueeze(-1))).square().mean(),
    ),
    *known(
        "penalty: The penalties of the images are summed. Compute their mean.",
        lambda w, mask: (1 - _over_words(w, mask.unsqueeze(-1))).square().sum(),
    ),
    *known(
        "penalty: There is one value for each image. Compute their mean.",
        lambda w, mask: (1 - _over_words(w, mask.unsqueeze(-1))).square().sum(-1),
    ),
]

_LEAST_TWINS = [
    *known(
        "least: The penalty can be 0 only if there are as many words as locations. The weights of "
        "all words sum to the number of words, however they are distributed.",
        lambda words, locations: 0,
        lambda words, locations: (locations - words) ** 2 / locations if words < locations else 0,
    ),
    *known(
        "least: Here each word has all of its weight on one location. A word can distribute its "
        "weight over several locations, which gives a smaller penalty.",
        lambda words, locations: max(locations - words, 0),
        lambda words, locations: abs(locations - words),
    ),
    *known(
        "least: This is the contribution of one location. Sum over all locations.",
        lambda words, locations: (1 - words / locations) ** 2,
    ),
    *known(
        "least: This value is too large by the factor `locations`. The total difference from 1 is "
        "locations - words; distribute it over the locations before squaring.",
        lambda words, locations: (locations - words) ** 2,
    ),
]

_MOST_TWINS = [
    *known(
        "most: The other locations are missing. A location without any weight contributes 1.",
        lambda words, locations: (words - 1) ** 2,
    ),
    *known(
        "most: The contribution of the location with all of the weight is missing.",
        lambda words, locations: locations - 1,
    ),
    *known(
        "most: One location too many is counted. There are locations - 1 without any weight.",
        lambda words, locations: (words - 1) ** 2 + locations,
    ),
    *known(
        "most: The sum of the location with all of the weight is the number of words. Subtract 1 "
        "from it before squaring.",
        lambda words, locations: words**2 + locations - 1,
    ),
    *known(
        "most: There are two mistakes. Subtract 1 from the number of words before squaring, and "
        "add 1 for each location without any weight.",
        lambda words, locations: words**2,
    ),
    *known(
        "most: The difference of the location with all of the weight is not squared.",
        lambda words, locations: abs(words - 1) + locations - 1,
    ),
    *known(
        "most: Here every location has a weight of 1 at every word. The weights of a word sum to "
        "1, so only one location can.",
        lambda words, locations: locations * (words - 1) ** 2,
    ),
    *known(
        "most: Here the words have their weight on different locations. The penalty is largest if "
        "all words have all of their weight on the same location.",
        lambda words, locations: abs(locations - words),
        lambda words, locations: max(locations - words, 0),
    ),
]

_WEIGHTS = torch.tensor([[[0.5, 0.5], [0.0, 1.0], [0.25, 0.75]]])


@_parts.part(
    "penalty and bounds",
    "penalty",
    "least",
    "most",
    rebuilds=("attentively.models.captioning:doubly_stochastic_penalty",),
)
def penalty(candidate: object, least: object, most: object, thorough: bool = False) -> None:
    """Check the doubly stochastic penalty, and its smallest and largest value."""
    shapes = [([3], 2), ([3, 2, 5], 3), ([2, 0], 3)]
    if thorough:
        shapes += [([7, 1, 4, 2, 5], 11), ([1], 1), ([5, 5], 2)]
    asked = [(_WEIGHTS, torch.tensor([[True, True, True]]))]
    asked += [(_WEIGHTS, torch.tensor([[True, True, False]]))]
    for lengths, locations in shapes:
        words = max(lengths)
        mask = torch.arange(words) < torch.tensor(lengths).unsqueeze(1)
        asked.append(((3 * torch.randn(len(lengths), words, locations)).softmax(dim=-1), mask))
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
    for words, locations in pairs:
        counts = {"words": words, "locations": locations}
        smallest = (locations - words) ** 2 / locations
        largest = float((words - 1) ** 2 + locations - 1)
        for name, given, right, twins in (
            ("least", least, smallest, _LEAST_TWINS),
            ("most", most, largest, _MOST_TWINS),
        ):
            found = call_twice(given, counts)
            found = found if plain_number(found) is None else plain_number(found)
            expect_value(found, right, f"the result of {name}", counts, twins)


# Part 4

_Layer = tuple[int, int, int]
_Range = tuple[int, int]


def _seen(layers: Sequence[_Layer], length: int, location: int) -> _Range:
    """Compute the set of pixels in the receptive field of each position, layer by layer."""
    sets: list[set[int]] = [{pixel} for pixel in range(length)]
    for kernel, stride, padding in layers:
        padded = [set[int]()] * padding + sets + [set[int]()] * padding
        starts = range(0, len(padded) - kernel + 1, stride)
        sets = [set().union(*padded[start : start + kernel]) for start in starts]
    return min(sets[location]), max(sets[location])


def _sizes(layers: Sequence[_Layer], length: int, kernels: bool = True) -> list[int]:
    """Return how many positions there are before each layer; or ignore that kernels need room."""
    sizes = [length]
    for kernel, stride, padding in layers[:-1]:
        sizes.append((sizes[-1] + 2 * padding - (kernel if kernels else stride)) // stride + 1)
    return sizes


def _walk_back(
    layers: Sequence[_Layer],
    length: int,
    location: int,
    *,
    pads: bool = True,
    strides: bool = True,
    kernels: bool = True,
    each_clipped: bool = True,
    clipped: bool = True,
    forwards: bool = False,
    fitted: bool = True,
) -> _Range:
    """Go back from a location to its pixels; the options leave something out."""
    first = last = location
    way = list(zip(layers, _sizes(layers, length, kernels=fitted), strict=True))
    for (kernel, stride, padding), size in way if forwards else reversed(way):
        stride, padding = stride if strides else 1, padding if pads else 0
        first = first * stride - padding
        last = last * stride - padding + (kernel - 1 if kernels else stride - 1)
        if each_clipped:
            first, last = max(first, 0), min(last, size - 1)
    return (max(first, 0), min(last, length - 1)) if clipped else (first, last)


def _padding_not_scaled(layers: Sequence[_Layer], length: int, location: int) -> _Range:
    first, size, jump = 0, 1, 1
    for kernel, stride, padding in layers:
        size += (kernel - 1) * jump
        first -= padding
        jump *= stride
    first += location * jump
    return max(first, 0), min(first + size - 1, length - 1)


_SEEN_TWINS = [
    *known(
        "pixels_seen: The padding is not subtracted. With padding p, the first window starts p "
        "positions before position 0.",
        lambda layers, n, location: _walk_back(layers, n, location, pads=False),
    ),
    *known(
        "pixels_seen: The range contains padding. It must end at the border of the image.",
        lambda layers, n, location: _walk_back(
            layers, n, location, each_clipped=False, clipped=False
        ),
    ),
    *known(
        "pixels_seen: The sizes of the layers are wrong, because the kernel is ignored. For n "
        "positions, a layer has (n + 2 * padding - kernel) // stride + 1 outputs.",
        lambda layers, n, location: _walk_back(layers, n, location, fitted=False),
    ),
    *known(
        "pixels_seen: The range is limited only at the image. Limit it at each layer: positions "
        "outside an inner layer are padding and depend on no pixel, even if the strided layer uses "
        "none of the last pixels of the image.",
        lambda layers, n, location: _walk_back(layers, n, location, each_clipped=False),
    ),
    *known(
        "pixels_seen: The layers are processed from the first to the last. Start with the last "
        "layer, from the location back to the pixels.",
        lambda layers, n, location: _walk_back(
            layers, n, location, each_clipped=False, forwards=True
        ),
        lambda layers, n, location: _walk_back(
            layers, n, location, each_clipped=False, clipped=False, forwards=True
        ),
    ),
    *known(
        "pixels_seen: The strides are ignored. With stride s, window i starts at s · i - padding.",
        lambda layers, n, location: _walk_back(layers, n, location, strides=False),
        lambda layers, n, location: _walk_back(
            layers, n, location, strides=False, each_clipped=False
        ),
    ),
    *known(
        "pixels_seen: Only the strides are used, which give the distance between neighbouring "
        "locations. The receptive field is larger: use the sizes of the kernels.",
        lambda layers, n, location: _walk_back(layers, n, location, pads=False, kernels=False),
        lambda layers, n, location: _walk_back(layers, n, location, kernels=False),
    ),
    *known(
        "pixels_seen: The last pixel is too large by 1. Return the last pixel inside the receptive "
        "field, not the first one after it.",
        lambda layers, n, location: (
            _seen(layers, n, location)[0],
            _seen(layers, n, location)[1] + 1,
        ),
    ),
    *known(
        "pixels_seen: These are the first pixel and the number of pixels. Return the first and the "
        "last pixel.",
        lambda layers, n, location: (
            _seen(layers, n, location)[0],
            _seen(layers, n, location)[1] - _seen(layers, n, location)[0] + 1,
        ),
    ),
    *known(
        "pixels_seen: This is the list of all pixels of the receptive field. Return only the first "
        "and the last.",
        lambda layers, n, location: [
            *range(_seen(layers, n, location)[0], _seen(layers, n, location)[1] + 1)
        ],
    ),
    *known(
        "pixels_seen: The padding of an inner layer is subtracted in pixels. It is counted in "
        "positions of this layer, and the strides before it determine how many pixels a position "
        "is.",
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
    """Two channels: 9 plus a horizontal difference, and 9 minus this difference."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the two channels, neither of which is negative."""
        edge = images[..., 2:] - images[..., :-2]
        return torch.cat([9 + edge, 9 - edge], dim=1)

    def __repr__(self) -> str:
        return "two edge detectors whose outputs have a constant sum"


class _Turn(nn.Module):
    """Two channels: cosine and sine of a difference, so that their squares sum to 1."""

    def forward(self, images: Tensor) -> Tensor:
        """Return the two channels."""
        edge = images[..., 2:] - images[..., :-2]
        return torch.cat([edge.cos(), edge.sin()], dim=1)

    def __repr__(self) -> str:
        return "the cosine and the sine of an edge detector"


class _Absolute(nn.Module):
    """One channel: the absolute sum of two pixels, one below the other."""

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
    location = network(images)[:, :, row, column]
    each = [torch.autograd.grad(c.sum(), images, retain_graph=True)[0] for c in location.unbind(1)]
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
        "reached: The gradients of the channels are summed before they are compared with 0, so "
        "gradients of opposite sign cancel. Test each channel separately.",
        lambda *asked: (_gradients(*asked).sum(0) != 0).any(0).float(),
    ),
    *known(
        "reached: This is the gradient of the sum of the squared channels, in which the channels "
        "can cancel as well. Test each channel separately.",
        _of_squares,
    ),
    *known(
        "reached: Only the first channel is tested. Test all channels.",
        lambda *asked: (_gradients(*asked)[0] != 0).any(0).float(),
    ),
    *known(
        "reached: Only positive gradients are counted. A negative gradient also shows that the "
        "pixel has an influence.",
        lambda *asked: (_gradients(*asked) > 0).any(0).any(0).float(),
        lambda *asked: (_gradients(*asked)[:1] > 0).any(0).any(0).float(),
    ),
    *known(
        "reached: The gradients of the images are summed before they are compared with 0, so they "
        "can cancel. A pixel counts if the gradient for one of the images is not 0.",
        lambda *asked: (_gradients(*asked).sum(1) != 0).any(0).float(),
        lambda *asked: (_gradients(*asked).sum((0, 1)) != 0).float(),
    ),
    *known(
        "reached: Only the first image is tested. Max pooling passes its gradient only to the "
        "position with the maximum, which differs from image to image. Test all images.",
        lambda *asked: (_gradients(*asked)[:, 0] != 0).any(0).float(),
    ),
    *known(
        "reached: A pixel is counted only if its gradient is not 0 for every image. One image is "
        "enough.",
        lambda *asked: (_gradients(*asked) != 0).any(0).all(0).float(),
    ),
    *known(
        "reached: A pixel is counted only if its gradient is not 0 for every channel. One channel "
        "is enough.",
        lambda *asked: (_gradients(*asked) != 0).all(0).any(0).float(),
    ),
    *known(
        "reached: These are the pixels that influence any location. Compute the gradient of one "
        "location, [:, :, row, column].",
        _of_whole_map,
    ),
    *known(
        "reached: Row and column are exchanged.",
        lambda network, images, row, column: (
            (_gradients(network, images, column, row) != 0).any(0).any(0).float()
        ),
    ),
    *known(
        "reached: There is one result for each image. Combine them: True where any of them is "
        "True.",
        lambda *asked: (_gradients(*asked) != 0).any(0).float(),
    ),
    *known(
        "reached: The result is inverted. It is True where the gradient is not 0.",
        lambda *asked: 1 - (_gradients(*asked) != 0).any(0).any(0).float(),
    ),
]


@_parts.part("receptive fields", "pixels_seen", "reached")
def pixels(pixels_seen: object, reached: object, thorough: bool = False) -> None:
    """Check the receptive field of a location, from the layers and from gradients."""
    for layers, length, locations in _STACKS + thorough * _FURTHER_STACKS:
        for location in locations:
            inputs = {"layers": layers, "length": length, "location": location}
            found = call_twice(pixels_seen, inputs)
            found = found.tolist() if isinstance(found, Tensor) else found
            right = _seen(layers, length, location)
            expect_value(found, right, "the first and the last pixel", inputs, _SEEN_TWINS)
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
        expect_equal(answer, expected, "the result of reached", inputs, _REACHED_TWINS)


def _zeros_and_ones(answer: object, inputs: Inputs) -> object:
    """Accept zeros and ones, or a nested list, instead of False and True."""
    if isinstance(answer, list):
        with suppress(TypeError, ValueError):  # an answer that is no tensor is refused later
            answer = torch.tensor(answer)
    if not isinstance(answer, Tensor):
        return answer
    answer = answer.detach().float()
    if not ((answer == 0) | (answer == 1)).all():
        raise CheckFailed(
            "  reached: The result contains values other than True and False. Is it the gradient "
            f"itself? Return where it is != 0.\n{describe(inputs)}"
        )
    return answer


# Part 5

_Box = tuple[int, int, int, int]


def _inside(weights: Tensor, box: _Box, cell: int) -> float:
    """Distribute each weight over its pixels, and sum those of the box."""
    top, left, bottom, right = box
    heat = torch.kron(weights.double(), torch.ones(cell, cell, dtype=torch.float64)) / cell**2
    return float(heat[top:bottom, left:right].sum())


def _overlap(weights: Tensor, box: _Box, cell: int) -> Tensor:
    """Return the number of pixels that each location shares with the box."""
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
        "inside: A location that overlaps the box counts with all of its weight. Count only the "
        "share of its pixels that are inside the box.",
        lambda w, box, cell: float((w * (_overlap(w, box, cell) > 0)).sum()),
    ),
    *known(
        "inside: A location counts only if all of its pixels are inside the box. Count the share "
        "of its pixels that are inside.",
        lambda w, box, cell: float((w * (_overlap(w, box, cell) == cell**2)).sum()),
    ),
    *known(
        "inside: A location counts if its centre is inside the box. Count the share of its pixels "
        "that are inside.",
        _centres_in,
    ),
    *known(
        "inside: Each pixel counts with the whole weight of its location. Divide the weight by the "
        "number of pixels, cell · cell.",
        lambda w, box, cell: _inside(w, box, cell) * cell**2,
    ),
    *known(
        "inside: The weight is divided by cell. A location has cell · cell pixels.",
        lambda w, box, cell: _inside(w, box, cell) * cell,
    ),
    *known(
        "inside: The pixels of the box are averaged. Sum them.",
        lambda w, box, cell: _inside(w, box, cell) * cell**2 / _area(box),
        lambda w, box, cell: _inside(w, box, cell) / _area(box),
    ),
    *known(
        "inside: Rows and columns are exchanged. A box is (top, left, bottom, right).",
        lambda w, box, cell: _inside(w, (box[1], box[0], box[3], box[2]), cell),
    ),
    *known(
        "inside: Row `bottom` and column `right` are included. They are outside the box.",
        lambda w, box, cell: _inside(w, (*box[:2], box[2] + 1, box[3] + 1), cell),
    ),
    *known(
        "inside: This is the share outside the box.",
        lambda w, box, cell: 1 - _inside(w, box, cell),
    ),
    *known(
        "inside: The weights are not used. This is the area of the box divided by that of the "
        "image.",
        lambda w, box, cell: _area(box) / (w.numel() * cell**2),
    ),
]

_Named = list[tuple[Tensor, _Box]]


def _pairs(named: _Named, same: bool = False) -> list[tuple[Tensor, _Box]]:
    """Return each word's weights with the box of each other word, unless it is the same box."""
    return [
        (weights, other)
        for i, (weights, box) in enumerate(named)
        for j, (_, other) in enumerate(named)
        if i != j and (same or box != other)
    ]


def _one_way(named: _Named, cell: int) -> float | None:
    """Return the mean if each pair of words is taken once, with the earlier word's weights."""
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
    """Return for each key the results of known mistakes."""
    right, named = _chances(weights, boxes, cell), _naming(weights, boxes)
    own, chance = (cast(float, right[key]) for key in ("inside", "chance"))
    number, words = len(named), len(boxes)
    everyone = "Words without a box are counted as 0. Ignore them."
    even = (
        "Chance is the result for equal weights: the area of the box divided by that of the image."
    )
    with_own = [(w, box) for w, _ in named for _, box in named]
    return {
        "inside": [
            (everyone, own * number / words),
            ("The words are summed. Compute their mean.", own * number),
            (
                "This is how often the location with the largest weight overlaps the box. Compute "
                "the share of the weight inside the box.",
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
            (f"This is 1 divided by the number of locations. {even}", 1 / weights[0].numel()),
            (f"This is 1 divided by the number of boxes. {even}", 1 / number),
            (f"This is the area of the boxes in pixels. {even}",
             _mean([float(_area(box)) for _, box in named])),
        ],
        "other": [
            (
                "Pairs of words with the same box are included. Ignore them, because the second "
                "word's box is then also the first word's own box.",
                _mean([_inside(w, box, cell) for w, box in _pairs(named, same=True)]),
            ),
            (
                "Each word is also paired with its own box. Use only the boxes of other words.",
                _mean([_inside(w, box, cell) for w, box in with_own]),
            ),
            (
                "This is a mean over words of means over boxes. Compute one mean over all pairs.",
                _mean_of_means(named, cell),
            ),
            ("This is all of the weight outside the word's own box, including empty parts of the "
             "image. Use the boxes of the other words.", 1 - own),
            ("Each pair is counted in one direction only. Count both: the weight of the first word "
             "in the box of the second, and the reverse.", _one_way(named, cell)),
            ("The pairs are summed. Compute their mean.",
             sum(_inside(w, box, cell) for w, box in _pairs(named))),
        ] if _pairs(named) else [("There is no such pair. The value is then None.", 0.0)],
    }  # fmt: skip


_CELL = 4
_BOXES: list[list[_Box | None]] = [
    [None, (0, 0, 4, 4), None, (3, 5, 7, 10)],
    [(1, 1, 7, 3), (1, 1, 7, 3), (4, 6, 8, 12), None, (2, 8, 3, 11)],
    [None, (0, 2, 8, 6)],
    [(2, 2, 6, 6), (2, 2, 6, 6), None],
]


@_parts.part("attention in a box", "inside", "pointing")
def inside(candidate: object, pointing: object, thorough: bool = False) -> None:
    """Check the share of the weight inside a box, and the comparison with other boxes."""
    by_hand = torch.tensor([[0.5, 0.25], [0.25, 0.0]])
    asked: list[tuple[Tensor, _Box, int]] = [
        (by_hand, (0, 0, 2, 2), 2),
        (torch.tensor([[0.1, 0.6, 0.3]]), (1, 2, 4, 11), 4),
        (by_hand, (0, 1, 1, 4), 2),
        (by_hand, (1, 1, 4, 3), 2),
        (_random_weights(2, 3), (2, 3, 7, 12), 4),
    ]
    if thorough:
        asked += [
            (_random_weights(3, 5), (1, 0, 2, 35), 7),
            (_random_weights(5, 2), (0, 0, 15, 6), 3),
        ]
        asked += [
            (_random_weights(1, 1), (2, 1, 3, 4), 5),
            (_random_weights(7, 3), (4, 2, 5, 3), 1),
        ]
    for weights, box, cell in asked:
        inputs = {"weights": weights, "box": box, "cell": cell}
        found = call_twice(candidate, inputs)
        found = found if plain_number(found) is None else plain_number(found)
        right = _inside(weights, box, cell)
        expect_value(found, right, "the result of inside", inputs, _INSIDE_TWINS)
    for boxes in _BOXES:
        _compare_pointing(pointing, _random_weights(2, 3, len(boxes)), boxes, _CELL)
    if thorough:
        _compare_pointing(pointing, _random_weights(3, 2, 5), [None, *_BOXES[0]], 5)
        _compare_pointing(pointing, *described()[0][1:], 12)


def _random_weights(rows: int, columns: int, *words: int) -> Tensor:
    """Return weights that sum to 1 over the locations."""
    scores = 2 * torch.randn(*words, rows * columns)
    return scores.softmax(dim=-1).reshape(*words, rows, columns)


def _compare_pointing(
    pointing: object, weights: Tensor, boxes: Sequence[_Box | None], cell: int
) -> None:
    inputs = {"weights": weights, "boxes": list(boxes), "cell": cell}
    found = call_twice(pointing, inputs)
    if not isinstance(found, dict):
        expect_value(found, {}, "the result of pointing", inputs)
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


# Recorded from the shipped model for three test scenes of 24 × 36 pixels: for each word the
# weights of the 2 × 3 locations in hundredths, and the box of the digit that it names.
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
        placed = [boxes.get(location) for location in range(len(words))]
        found.append((words, weights / weights.sum(dim=(1, 2), keepdim=True), placed))
    return found


# Part 6


@_parts.part("debugging", "mended_heat")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Examine a function that draws attention weights on an image."""
    sizes = [(3, 3, 2), (3, 5, 3)]
    if thorough:
        sizes += [(5, 3, 4), (3, 4, 1), (4, 3, 5)]
    for size in sizes:
        in_turn(_SYMPTOMS, candidate, size)


_Size = tuple[int, int, int]


def _heat(weights: Tensor, mask: Tensor, rows: int, cell: int) -> Tensor:
    """Return the heat, with PyTorch's interpolation."""
    maps = weights.reshape(*weights.shape[:2], rows, -1)
    heat = F.interpolate(maps, scale_factor=cell, mode="bilinear", align_corners=False)
    return heat * mask[..., None, None] / cell**2


def _drawn(candidate: object, maps: Tensor, cell: int, mask: Tensor | None = None) -> Inputs:
    """Return the inputs for maps of weights (batch, words, rows, columns)."""
    mask = torch.ones(maps.shape[:2], dtype=torch.bool) if mask is None else mask
    return {"weights": maps.flatten(2), "mask": mask, "rows": maps.size(2), "cell": cell}


def _heat_of(candidate: object, asked: Inputs) -> Tensor:
    answer = in_32_bits(call_twice(candidate, asked))
    heat = expect_tensor(answer, _heat(**asked).shape, "the heat", asked)
    if not (heat.sum(dim=(2, 3))[asked["mask"]] > 0).all():
        raise CheckFailed(
            "  The heat of a word that is not padding is 0. Is the mask inverted? It is True at "
            f"words.\n{describe(asked)}"
        )
    return heat


def _profile(heat: Tensor, axis: int) -> Tensor:
    """Return how the heat of the first word goes down (0) or across (1), with the sum 1."""
    along = heat[0, 0].sum(dim=1 - axis)
    return along / along.sum()


def _line(size: int, location: int, axis: int, other: int) -> Tensor:
    """Return one map whose weights lie evenly on one row (axis 0) or one column (axis 1)."""
    line = torch.zeros(size)
    line[location] = 1 / other
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
            "  The weight is distributed equally over the first two rows of the map, but the heat "
            "is not constant from left to right. Are the locations ordered column by column? Order "
            "them row by row.\n" + describe(asked)
        )


_SIDES = ("from row to row", "from column to column")


def _examine_centres(candidate: object, size: _Size) -> None:
    _examine_profile(candidate, size, 0)


def _examine_across(candidate: object, size: _Size) -> None:
    _examine_profile(candidate, size, 1)


def _hat(size: int, cell: int) -> Tensor:
    """Return the heat of the middle location, if its centre were the first pixel."""
    distance = (torch.arange(size * cell) / cell - size // 2).abs()
    return (1 - distance).clamp(min=0)


def _examine_profile(candidate: object, size: _Size, axis: int) -> None:
    locations, cell = size[axis], size[2]
    middle = locations // 2
    asked = _drawn(candidate, _line(locations, middle, axis, size[1 - axis]), cell)
    got = _profile(_heat_of(candidate, asked), axis)
    right = _profile(_heat(**asked), axis)
    which = ("row", "column")[axis]
    said = f"  All weight is on {which} {middle} of the {locations} {which}s (counted from 0)"
    if not torch.allclose(got, right, 1e-4, 1e-5):
        shift = float((got - right) @ torch.arange(float(len(got))))
        sides = (("too high", "too low"), ("too far to the left", "too far to the right"))
        side = sides[axis][shift > 0]
        if torch.allclose(got, _scaled(_hat(locations, cell)), 1e-4, 1e-5):
            why = (
                f", but the heat is drawn {abs(shift):.2f} pixels {side}. Does the weight belong "
                "to the first pixel of the square? It belongs to the centre, (cell - 1) / 2 pixels "
                "further: the position of pixel p, in locations, is (p - (cell - 1) / 2) / cell."
            )
        elif any(_as_mirrored(got, locations, cell, at) for at in (0.5 - cell / 2, 0.0)):
            why = (
                f", but the two neighbours of a pixel are exchanged {_SIDES[axis]}. The nearer "
                "centre has the larger share."
            )
        elif abs(shift) > 1e-3:
            why = f", but the heat is drawn {abs(shift):.2f} pixels {side}."
        else:
            why = f", but the heat is not interpolated linearly between centres {_SIDES[axis]}."
        raise CheckFailed(f"{said}{why}\n{describe(asked)}")


def _as_mirrored(got: Tensor, size: int, cell: int, shift: float) -> bool:
    """Return whether the nearer and the farther neighbour are exchanged."""
    at = (torch.arange(size * cell) + shift) / cell
    between = (at >= 0) & (at <= size - 1)
    distance = (at - size // 2).abs()
    far = torch.where(distance.ceil() == 1, distance, 0.0)
    return torch.allclose(_scaled(got[between]), _scaled(far[between]), 1e-4, 1e-5)


def _scaled(profile: Tensor) -> Tensor:
    return profile / profile.sum()


def _examine_borders(candidate: object, size: _Size) -> None:
    for axis in (0, 1):
        for location in (0, size[axis] - 1):
            asked = _drawn(candidate, _line(size[axis], location, axis, size[1 - axis]), size[2])
            got = _profile(_heat_of(candidate, asked), axis)
            right = _profile(_heat(**asked), axis)
            which = ("row", "column")[axis]
            said = f"  All weight is on {which} {location}, at the border of the map"
            far = right == 0
            if (got[far].abs() > 1e-5).any():
                raise CheckFailed(
                    f"{said}, but there is heat at the opposite border. The first {which} does not "
                    f"follow the last one: between the last centre and the border, the heat is "
                    f"constant.\n{describe(asked)}"
                )
            if not torch.allclose(got, right, 1e-4, 1e-5):
                raise CheckFailed(
                    f"{said}, but the heat is not constant between the centres of its squares and "
                    f"the border of the image.\n{describe(asked)}"
                )


def _maps(size: _Size, batch: int = 2, words: int = 3) -> Tensor:
    rows, columns, _ = size
    return _random_weights(rows, columns, batch, words)


def _examine_sums(candidate: object, size: _Size) -> None:
    asked = _drawn(candidate, _maps(size), size[2])
    sums = _heat_of(candidate, asked).sum(dim=(2, 3))
    if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        biggest = _heat_of(candidate, asked).amax(dim=(2, 3))
        why = ""
        if torch.allclose(biggest, torch.ones_like(biggest), atol=1e-3):
            why = (
                " It is divided by the largest heat of the word, so equal weights look like "
                "concentrated ones. Divide by cell · cell."
            )
        elif torch.allclose(sums, torch.full_like(sums, float(size[2] ** 2)), atol=1e-2):
            why = " The weight of a location is distributed over cell · cell pixels: divide by it."
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
            "  The heat of padding is not 0. Where the mask is False, it must be 0 everywhere."
            f"\n{describe(asked)}"
        )


def _examine_all(candidate: object, size: _Size) -> None:
    mask = torch.tensor([[True, True, True], [True, True, False]])
    asked = _drawn(candidate, _maps(size), size[2], mask)
    expect_equal(_heat_of(candidate, asked), _heat(**asked), "the heat", asked)


_SYMPTOMS: dict[str, Callable[[object, _Size], None]] = {
    "the order of the locations": _examine_order,
    "the interpolation between rows": _examine_centres,
    "the interpolation between columns": _examine_across,
    "the borders": _examine_borders,
    "the sums": _examine_sums,
    "padding": _examine_padding,
    "all values": _examine_all,
}
