"""Checks of the assignment on faster training: memory, accumulation, checkpointing, profiles.

The answers are compared with the recordings in this folder. Further checks measure the memory of
parts 1 and 2, compare the gradients of part 2 with those of plain attention, and record what the
model of part 3 reads. No function here is the answer of a part.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from attentively.attention.scaled_dot_product import scaled_dot_product_attention
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_equal,
    expect_gradients,
    in_32_bits,
    once_solved,
    open_call,
    plain_number,
    self_attention,
    show,
)
from attentively.checks.faster.recorded_profiles import profiles
from attentively.checks.question import Recorded, Results
from attentively.checks.recordings import Topic
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel
from attentively.training.memory_meter import MemoryMeter

__all__ = [
    "MemoryMeter",
    "accumulation",
    "blocks",
    "bottlenecks",
    "budget",
    "merging",
    "once_solved",
    "one_pass_over",
    "profiles",
    "progress",
    "ready",
    "stream",
    "writer",
]

Inputs = Mapping[str, Any]
Chunks = Sequence[tuple[Tensor, Tensor]]
"""The scores and the values of each chunk."""

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Report that the package and these checks work."""
    _parts.explain_undefined_names()
    with MemoryMeter() as meter:
        torch.zeros(1000)
    print(
        f"PyTorch {torch.__version__}. A tensor with 1,000 values takes {meter.peak:,} bytes. "
        f"Ready."
    )


def _named(candidate: object, call_it: Callable[..., object]) -> object:
    """Return a function with the candidate's name that calls it in another way."""
    if callable(candidate):
        call_it.__name__ = getattr(candidate, "__name__", "")
        return call_it
    return candidate


# Part 1


class _Stream:
    """An iterator over chunks, each of which overwrites the one before."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks
        longest = max(len(scores) for scores, _ in chunks)
        self.memory = torch.empty(longest), torch.empty(longest, chunks[0][1].size(1))
        self.given = self.asked_after_the_end = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self

    def __next__(self) -> tuple[Tensor, Tensor]:
        for memory in self.memory:
            memory.fill_(1e4)
        if self.given == len(self.chunks):
            self.asked_after_the_end += 1
            raise StopIteration
        chunk = self.chunks[self.given]
        self.given += 1
        scores, values = (
            memory[: len(part)] for memory, part in zip(self.memory, chunk, strict=True)
        )
        return scores.copy_(chunk[0]), values.copy_(chunk[1])


def stream(scores: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Return an iterator that gives each pair of scores and values once."""
    return _Stream([*zip(scores, values, strict=True)])


@_parts.part(
    "the online softmax",
    "one_pass",
    rebuilds=("attentively.attention.blockwise:blockwise_attention",),
    refuses=(
        "torch.nn.functional:scaled_dot_product_attention",
        "attentively.attention.scaled_dot_product:fused_attention",
    ),
    step=True,
)
def one_pass_over(candidate: object, thorough: bool = False) -> None:
    """Check a weighted mean over chunks that can be read only once."""
    given: list[_Stream] = []

    def from_a_stream(chunks: Chunks) -> object:
        given.append(_Stream(chunks))
        return cast(Callable[..., object], candidate)(given[-1])

    def from_copies(chunks: Chunks) -> object:
        pairs = ((scores.clone(), values.clone()) for scores, values in chunks)
        return cast(Callable[..., object], candidate)(pairs)

    try:
        _topic.examine("one_pass", _named(candidate, from_a_stream), thorough)
    except CheckFailed as failed:
        if given and given[-1].asked_after_the_end > 1:
            raise CheckFailed(
                "  The iterator is read twice, but it gives each chunk only once: the second loop "
                f"gets nothing. Use a chunk when it arrives.\n{failed}"
            ) from None
        try:
            _topic.examine("one_pass", _named(candidate, from_copies), thorough)
        except CheckFailed:
            raise failed from None
        raise CheckFailed(
            "  The result would be right if all chunks stayed in memory, but each chunk overwrites "
            "the one before. Keep the maximum and the two sums, and no chunk or view of one: "
            "scores[0] is a view, scores.max() is not."
        ) from None
    open_call.once(_expect_nothing_kept, candidate)


def _expect_nothing_kept(candidate: object) -> None:
    """Check the memory in use at once, for many chunks."""
    scores, values = torch.randn(30, 20), torch.randn(30, 20, 2)
    inputs = {"chunks": [*zip(scores, values, strict=True)]}
    chunks, meter = _Stream(inputs["chunks"]), MemoryMeter()

    def metered(*_: object) -> object:
        with meter:
            return cast(Callable[..., object], candidate)(chunks)

    answer = in_32_bits(call(_named(candidate, metered), inputs))
    expected = scores.flatten().softmax(dim=0) @ values.flatten(0, 1)
    expect_equal(answer, expected, "the mean", inputs)
    if meter.peak > 3600:
        raise CheckFailed(
            f"  The result is right, but {meter.peak:,} bytes are in use at once, for 30 chunks of "
            "240 bytes. Keep the maximum and the two sums, and no copies of the chunks."
        )


# Part 2


@_parts.part(
    "blockwise attention",
    "blockwise_attention",
    rebuilds=("attentively.attention.blockwise:blockwise_attention",),
    refuses=(
        "torch.nn.functional:scaled_dot_product_attention",
        "attentively.attention.scaled_dot_product:fused_attention",
    ),
)
def blocks(candidate: object, thorough: bool = False) -> None:
    """Check blockwise attention: values, gradients, memory, and a trained translator."""
    _topic.examine(
        "blockwise_attention", candidate, thorough, properties={"": _expect_only_the_context}
    )
    open_call.once(_expect_little_held, candidate)
    first_half = torch.tensor([[True, True, False, False], [False, False, True, True]])
    for mask in (first_half, torch.tensor([[False] * 4, [True, True, False, False]])):
        open_call.once(_expect_right_gradients, candidate, _qkv([], 2, 4, 3, 2, mask))
    inputs = _qkv([], 2, 6, 2, 2, None)
    for key in (inputs["key"], inputs["key"].flip(0)):  # the largest score comes early, or late
        open_call.once(_expect_right_gradients, candidate, inputs | {"key": key})

    def inside(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        context = cast(Callable[..., Tensor], candidate)(query, key, value, mask, 4)
        return context, scaled_dot_product_attention(query, key, value, mask)[1]

    sentences = ("the dogs eat the bread", "she sleeps")
    expect_same_translations(partial(_put_in, inside), sentences, "attention", TRANSFORMER)


def _qkv(
    lead: Sequence[int], q: int, k: int, d: int, d_value: int, mask: Tensor | None, block: int = 2
) -> dict[str, Any]:
    shapes = {"query": (q, d), "key": (k, d), "value": (k, d_value)}
    made = {name: torch.randn(*lead, *shape) for name, shape in shapes.items()}
    return {**made, "mask": mask, "block_size": block}


def _expect_only_the_context(results: Results, inputs: Inputs) -> None:
    (answer,) = results.values()
    if isinstance(answer, tuple | list) and any(isinstance(each, Tensor) for each in answer):
        raise CheckFailed(
            f"  Expected only the context, got {len(answer)} results. The weights must not be "
            f"stored.\n{describe(inputs)}"
        )


def _plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, _: int) -> Tensor:
    """Return the context of plain attention, which needs all scores at once."""
    return scaled_dot_product_attention(query, key, value, mask)[0]


def _put_in(attend: object, model: Any) -> None:
    self_attention.put_in(attend, model)


def _expect_little_held(candidate: object) -> None:
    """Check the shapes of all tensors, and the memory in use at once."""
    q, k, d, block = 61, 131, 5, 8
    for mask in (None, torch.rand(1, q, k) < 0.5):
        inputs = _qkv([1], q, k, d, d, mask, block)
        meter = MemoryMeter()

        def metered(*given: object, meter: MemoryMeter = meter) -> object:
            with meter, torch.no_grad():
                return cast(Callable[..., object], candidate)(*given)

        answer = in_32_bits(call(_named(candidate, metered), inputs))
        expect_equal(answer, _plain(*inputs.values()), "the context", inputs)
        for shape, dtype in sorted(meter.made, key=str):
            if math.prod(shape) >= q * k // 2:
                said = (
                    f"a tensor of shape {shape} has an entry for each pair of query and key. Does "
                    f"a line create a tensor from the whole mask, or all scores at once?"
                )
            elif dtype.is_floating_point and shape[-1:] == (k,) and shape[-2:-1] != (d,):
                said = (
                    f"a tensor of shape {shape} holds the scores of all {k} keys. Split the keys "
                    f"into blocks of {block}."
                )
            elif q in shape and max((n for n in shape if n != q), default=0) > 2 * block:
                said = f"a tensor of shape {shape} is created, but the block size is {block} keys."
            else:
                continue
            raise CheckFailed(f"  The result is right, but {said}\n{describe(inputs)}")
        if meter.peak > 3 * q * k:
            raise CheckFailed(
                f"  The result is right, but {meter.peak:,} bytes are in use at once. All scores "
                f"together have {4 * q * k:,} bytes. Are the blocks stored in a list?\n"
                f"{describe(inputs)}"
            )


def _expect_right_gradients(candidate: object, inputs: Inputs) -> None:
    sources = {name: inputs[name].clone().requires_grad_() for name in ("query", "key", "value")}
    given = {**inputs, **sources}
    nan = (
        " Where all scores so far are masked, -inf - (-inf) and 0/0 give NaN, also if it is "
        "replaced later."
    )

    def on_the_inputs_themselves(*_: object) -> object:
        return cast(Callable[..., object], candidate)(*given.values())

    answer = cast(Tensor, in_32_bits(call(on_the_inputs_themselves, inputs)))
    found = expect_gradients(answer, sources, nan=nan)
    for name, right in expect_gradients(_plain(*given.values()), sources).items():
        got = found[name]
        if not torch.allclose(got, right, 1e-3, 1e-5):
            raise CheckFailed(
                f"  The context is right, but the gradient of {name} is not. Is something "
                f"detached that depends on it? Only the maxima may be detached.\n"
                f"{describe(inputs)}\n  got         {show(got)}\n  expected    {show(right)}"
            )


# Part 3


class _Opened(torch.autograd.Function):
    """Counts the graphs whose backward pass is still missing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, net: "_Net") -> Tensor:
        ctx.net = net
        net.open += 1
        net.most_open = max(net.most_open, net.open)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.net.open -= 1
        return gradients[0], None


class _Net(nn.Module):
    """A model with 7 tokens that records its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 3)
        self.output = nn.Linear(3, 7)
        self.read: list[Tensor] = []
        self.open = self.most_open = 0

    def __repr__(self) -> str:
        return "a model with 7 tokens"

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of every position."""
        self.read.append(inputs.clone())
        hidden = self.table(inputs).tanh()
        if torch.is_grad_enabled():
            hidden = _Opened.apply(hidden, self)
        return cast(Tensor, self.output(hidden))


class _Writer(nn.Module):
    """The package's language model, which returns only its logits."""

    def __init__(self) -> None:
        super().__init__()
        config = LanguageModelConfig(
            vocab_size=11, d_model=8, num_heads=2, d_ff=13, num_layers=1, dropout=0.0
        )
        self.inside = LanguageModel(config)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.inside(inputs)


def writer() -> nn.Module:
    """Return a small language model with 11 tokens; called with ids, it returns logits."""
    torch.manual_seed(0)
    return _Writer()


MODELS: dict[str, tuple[type[nn.Module], bool]] = {
    "a model with 7 tokens": (_Net, False),
    "a model with 7 tokens, and gradients of an earlier step": (_Net, True),
    "a language model with 11 tokens, and gradients of an earlier step": (_Writer, True),
}
"""How a case describes its model: the class, and whether its parameters have gradients before."""


class _Run(NamedTuple):
    """What is known of a call with a model, besides the loss and the gradients."""

    model: nn.Module
    asked: dict[str, Any]
    changed: bool
    """Whether the parameters have changed."""


def accumulated(candidate: Callable[..., Any], runs: list[_Run] | None = None) -> Any:
    """Return a function that calls the candidate with a model; its results are those of part 3.

    They are the loss, and the gradients of all parameters in one vector. `runs` records the calls.
    """

    def run(
        model: str, inputs: Tensor, targets: Tensor, counted: Tensor, rows: int
    ) -> tuple[Any, Tensor]:
        kind, old = MODELS[model]
        net = kind()
        parameters = [*net.parameters()]
        start = torch.arange(parameters_to_vector(parameters).numel()).sin()
        vector_to_parameters(start.clone(), parameters)
        for parameter in parameters if old else []:
            parameter.grad = torch.ones_like(parameter)
        with torch.enable_grad():
            loss = candidate(net, inputs, targets, counted, rows)
        if runs is not None:
            asked = {"inputs": inputs, "targets": targets, "counted": counted, "rows": rows}
            changed = not torch.equal(parameters_to_vector(net.parameters()), start)
            runs.append(_Run(net, {"model": model, **asked}, changed))
        left = (torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters())
        return loss, parameters_to_vector(left)

    return _named(candidate, run)


@_parts.part("gradient accumulation", "accumulate", "factor")
def accumulation(accumulate: object, factor: object, thorough: bool = False) -> None:
    """Check gradients that are accumulated over parts, and averaged over workers."""
    runs: list[_Run] = []
    _topic.examine(
        "accumulate",
        accumulated(cast(Callable[..., Any], accumulate), runs),
        thorough,
        properties={"": lambda results, inputs: _examine_run(runs[-1], results)},
        quotes={"which": lambda got, recorded: _which(got)},
        explain=_explain_mean,
    )
    for run in runs:
        if isinstance(run.model, _Net):
            _examine_reading(run.model, run.asked)
    _topic.examine("factor", factor, thorough)


def _which(got: object) -> str:
    return "Gradients" if isinstance(got, Tensor) and got.dim() else "Loss"


def _explain_mean(got: object, recorded: Recorded) -> str:
    if _which(got) == "Loss":
        return "Loss: this is not the mean over all counted tokens."
    return "Gradients: these are not the gradients of the mean over all counted tokens."


def _examine_run(run: _Run, results: Results) -> None:
    """Check that the model is only read, in parts of the right size, and that nothing is NaN."""
    loss, gradients = results.values()
    if run.changed:
        raise CheckFailed(
            "  The parameters have changed. Only compute the gradients; do not update."
        )
    if type(loss) is Tensor and loss.requires_grad:
        raise CheckFailed(
            "  Loss: the returned tensor still holds the graph. Return a Python number, with "
            f".item().\n{describe(run.asked)}"
        )
    largest = max(map(len, run.model.read), default=0) if isinstance(run.model, _Net) else 0
    if largest > run.asked["rows"]:
        raise CheckFailed(
            f"  The model reads {largest} rows at once, but only {run.asked['rows']} are allowed.\n"
            + describe(run.asked)
        )
    number = plain_number(loss)
    if not gradients.isfinite().all() or (number is not None and number != number):
        raise CheckFailed(
            "  The loss or a gradient is NaN. The mean of a part without counted tokens is "
            f"0/0; its sum is 0.\n{describe(run.asked)}"
        )


def _examine_reading(model: _Net, asked: Inputs) -> None:
    """Check that every row is read once, and that only one graph exists at a time."""
    total = sum(map(len, model.read))
    if total > len(asked["inputs"]):
        raise CheckFailed(
            f"  The model reads {total} rows, but the batch has {len(asked['inputs'])}. Read "
            f"each row once.\n{describe(asked)}"
        )
    every_part_counts = all(part.any() for part in asked["counted"].split(asked["rows"]))
    if every_part_counts and model.most_open > 1:
        raise CheckFailed(
            f"  The result is right, but the graphs of {model.most_open} parts exist at once. "
            "Call backward on each part before you read the next one, so that its activations are "
            f"released.\n{describe(asked)}"
        )


# Parts 4 to 6


@_parts.part("merging attention", "mended_part", "mended_merge")
def merging(mended_part: object, mended_merge: object, thorough: bool = False) -> None:
    """Check attention over some of the keys, and the merge of two results."""
    _topic.examine("mended_part", mended_part, thorough)
    _topic.examine("mended_merge", mended_merge, thorough)


@_parts.part("a memory budget", "memory", "largest_batch")
def budget(memory: object, largest_batch: object, thorough: bool = False) -> None:
    """Check the predicted memory of a training step, and the largest batch that fits."""
    _topic.examine("memory", memory, thorough)
    _topic.examine("largest_batch", largest_batch, thorough)


@_parts.part("self times", "own_times", "bottleneck")
def bottlenecks(own_times: object, bottleneck: object, thorough: bool = False) -> None:
    """Check the self times of nested events, and the speed-up of the total."""
    _topic.examine("own_times", own_times, thorough)
    _topic.examine("bottleneck", bottleneck, thorough)
