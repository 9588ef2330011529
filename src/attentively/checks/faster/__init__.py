"""Checks of the assignment on faster training: memory, accumulation, checkpointing, profiles.

Parts 1 to 3 compute known results in less memory, which a meter checks. Parts 4 to 6 are original:
a faulty merge, a memory budget, and a profile.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attentively.attention.scaled_dot_product import scaled_dot_product_attention
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    expect_pair,
    expect_value,
    in_32_bits,
    known,
    once_solved,
    plain_number,
    self_attention,
    show,
)
from attentively.checks.faster import memory_budgets, merged_parts, nested_events
from attentively.checks.faster.recorded_profiles import Event, profiles
from attentively.checks.faster.running_softmax import FAULTS, Blocks, attend
from attentively.checks.named_cases import expect_all, named_cases
from attentively.checks.recording_model import close
from attentively.checks.trained_translator import TRANSFORMER, expect_same_translations
from attentively.models.language_model import LanguageModel, LanguageModelConfig
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

_parts = Parts()
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

    def __init__(self, chunks: Blocks) -> None:
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


def _rows(scores: Sequence[Tensor], values: Sequence[Tensor]) -> Blocks:
    return [(part.unsqueeze(0), value) for part, value in zip(scores, values, strict=True)]


def _of_chunks(fault: str = "") -> Callable[..., Tensor]:
    return lambda scores, values: attend(_rows(scores, values), fault).squeeze(0)


def _kept(scores: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """Return the result of storing the chunks in a list."""
    return _of_chunks()(*zip(*stream(scores, values), strict=True))


_STREAM_TWINS = [
    *known(
        "The chunks are stored in a list, but each chunk overwrites the one before in memory. "
        "Keep the maximum and the two sums, not the chunks.",
        _kept,
    ),
    *(Twin(said, _of_chunks(fault)) for fault, said in FAULTS.items()),
]  # fmt: skip
_HIDDEN = -math.inf


def _chunks(*scores: Sequence[float], d: int = 2) -> dict[str, list[Tensor]]:
    chunks = [torch.tensor(part) for part in scores]
    return {"scores": chunks, "values": [torch.randn(len(part), d) for part in scores]}


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
    by_hand = {"scores": [torch.tensor([3.0, 1.0]).log(), torch.tensor([6.0]).log()]}
    by_hand["values"] = [torch.tensor([[10.0], [30.0]]), torch.tensor([[4.0]])]
    cases = [
        _chunks([1.0, 3.0, 2.0], d=1),
        _chunks([2.0, 1.0], [0.0], d=1),
        by_hand,
        _chunks([2.0, -1.0], [0.5, 1.0]),
        _chunks([0.5, 1.0], [2.0, -1.0], [1.5, 4.0]),
        _chunks([3.0, 1.0, 2.0], [2.0, 0.0, 1.0], [4.0]),
        _chunks([3.0, _HIDDEN], [1.0, _HIDDEN, 2.0]),
        _chunks([-500.0, -501.0], [-502.0]),
        _chunks([900.0, 901.0], [-1000.0, 902.0]),
        _chunks([_HIDDEN, _HIDDEN], [1.0, 2.0]),
        _chunks([1.0, 2.0], [_HIDDEN, _HIDDEN], [0.0]),
        _chunks([_HIDDEN, _HIDDEN], [_HIDDEN]),
    ]
    if thorough:
        cases += [
            _chunks(*((30 * torch.randn(n)).tolist() for n in (5, 3, 7, 1)), d=5),
            _chunks(*((300 * torch.randn(n)).tolist() for n in (2, 11)), d=3),
            _chunks([5.0], [_HIDDEN], [-7.0], d=1),
        ]
    for inputs in cases:
        given: list[_Stream] = []

        def from_a_stream(
            scores: list[Tensor], values: list[Tensor], given: list[_Stream] = given
        ) -> object:
            given.append(cast(_Stream, stream(scores, values)))
            return cast(Callable[..., object], candidate)(given[-1])

        answer = in_32_bits(call_twice(_named(candidate, from_a_stream), inputs))
        twins = _STREAM_TWINS
        if given[-1].asked_after_the_end > 1:
            said = (
                "The iterator is read twice, but it gives each chunk only once: the second loop "
                "gets nothing. Use a chunk when it arrives."
            )
            twins = [Twin(said, lambda *_, answer=answer: answer)]
        expected = _of_chunks()(*inputs.values())
        expect_equal(answer, expected, "the mean", inputs, twins, "One value for each column.")
    inputs = _chunks(*torch.randn(30, 20).tolist())
    chunks, meter = stream(**inputs), MemoryMeter()

    def metered(*_: object) -> object:
        with meter:
            return cast(Callable[..., object], candidate)(chunks)

    answer = in_32_bits(call(_named(candidate, metered), inputs))
    expect_equal(answer, _of_chunks()(*inputs.values()), "the mean", inputs, _STREAM_TWINS)
    if meter.peak > 3600:
        raise CheckFailed(
            f"  The result is right, but {meter.peak:,} bytes are in use at once, for 30 chunks of "
            "240 bytes. Keep the maximum and the two sums, and no copies of the chunks."
        )


# Part 2


def _blocks_of(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, block_size: int,
    hide: Callable[[Tensor, Tensor], Tensor] = lambda s, mask: s.masked_fill(~mask, _HIDDEN),
    scale: Callable[[Tensor], float] = lambda query: math.sqrt(query.size(-1)),
) -> Blocks:  # fmt: skip
    scores = query @ key.transpose(-2, -1) / scale(query)
    if mask is not None:
        scores = hide(scores, mask)
    return [*zip(scores.split(block_size, -1), value.split(block_size, -2), strict=True)]


def _blockwise(fault: str = "", **mistake: Any) -> Callable[..., Tensor]:
    def answer(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, block_size: int
    ) -> Tensor:
        return attend(_blocks_of(query, key, value, mask, block_size, **mistake), fault)

    return answer


def _only_whole(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, block_size: int
) -> Tensor:
    whole = key.size(-2) // block_size
    if whole == 0:
        return torch.zeros(*query.shape[:-1], value.size(-1))
    return attend(_blocks_of(query, key, value, mask, block_size)[:whole])


def _first_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, block_size: int
) -> Tensor:
    """Return the context if every block uses the mask of the first."""
    if mask is not None and mask.size(-1) > 1:
        first = mask[..., :block_size]
        blocks = math.ceil(key.size(-2) / block_size)
        mask = first.repeat(*[1] * (mask.dim() - 1), blocks)[..., : key.size(-2)]
    return _blockwise()(query, key, value, mask, block_size)


_BLOCK_TWINS = [
    *known("The scores are not divided by √d.", _blockwise(scale=lambda query: 1.0)),
    *known(
        "The scores are divided by d. Divide by its square root.",
        _blockwise(scale=lambda query: float(query.size(-1))),
    ),
    *known("The mask is ignored.", _blockwise(hide=lambda scores, mask: scores)),
    *known(
        "The mask is inverted: True means that the query may attend.",
        _blockwise(hide=lambda scores, mask: scores.masked_fill(mask, _HIDDEN)),
    ),
    *known(
        "The last keys are missing if they do not fill a block.",
        _only_whole,
    ),
    *known(
        "Every block uses the mask of the first block. Split the mask as the keys are split.",
        _first_mask,
    ),
    *(Twin(said, _blockwise(fault)) for fault, said in FAULTS.items()),
    *known(
        "Masked scores are set to 0, and exp(0) is 1, so the key still gets a weight.",
        _blockwise(hide=lambda scores, mask: scores * mask),
    ),
]


def _qkv(lead: Sequence[int], q: int, k: int, d: int, d_value: int, **more: Any) -> dict[str, Any]:
    shapes = {"query": (q, d), "key": (k, d), "value": (k, d_value)}
    made = {name: torch.randn(*lead, *shape) for name, shape in shapes.items()}
    return {**made, "mask": None, "block_size": 2, **more}


def _some(*shape: int) -> Tensor:
    """Return a mask that is False at about half of its entries."""
    return torch.rand(shape) < 0.5


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
    by_hand = {
        "query": torch.tensor([[1.0, 0.0, 0.0, 1.0]]),
        "key": torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0], [2.0, 1.0, 1.0, 4.0]]),
        "value": torch.tensor([[10.0], [20.0], [30.0]]),
        "mask": None,
        "block_size": 3,
    }
    rising = _qkv([], 1, 4, 1, 1, query=torch.ones(1, 1), key=torch.tensor([[0.0], [1], [2], [3]]))
    first_half = torch.tensor([[True, True, False, False], [False, False, True, True]])
    cases = [
        by_hand,
        {**by_hand, "block_size": 2},
        rising,
        _qkv([], 3, 4, 5, 2),
        _qkv([], 3, 5, 2, 3),
        _qkv([], 2, 3, 2, 5, block_size=7),
        _qkv([2, 3], 5, 7, 2, 3, block_size=3),
        _qkv([], 2, 4, 3, 2, mask=_some(2, 4) | torch.eye(2, 4).bool()),
        _qkv([], 2, 4, 3, 2, mask=first_half),
        # An axis of 1 serves all: one sentence's padding every query, one triangle every head.
        _qkv([2], 3, 5, 7, 2, mask=_some(2, 1, 5) | torch.eye(5)[:1].bool()),
        _qkv([2, 3], 5, 5, 2, 3, mask=torch.ones(1, 1, 5, 5).tril().bool()),
        _qkv([2], 3, 5, 2, 2, mask=torch.tensor([[[True]], [[False]]])),
        _qkv([], 2, 3, 2, 2, mask=torch.tensor([[False] * 3, [True, False, True]])),
        {**_qkv([2], 3, 5, 2, 3), "query": 300 * torch.randn(2, 3, 2)},
        {**_qkv([2], 3, 5, 2, 3, mask=_some(2, 3, 5)), "query": 300 * torch.randn(2, 3, 2)},
        _qkv([], 1, 3, 1, 2, query=torch.tensor([[-500.0]]), key=torch.tensor([[1.0], [2], [3]])),
    ]
    if thorough:
        cases += [
            _qkv([5, 2], 3, 11, 2, 5, mask=_some(5, 1, 3, 11), block_size=4),
            _qkv([3], 7, 13, 5, 2, mask=_some(3, 7, 13), block_size=5),
            _qkv([1], 1, 1, 1, 1),
            _qkv([2], 3, 5, 2, 2, mask=torch.tensor([[[True], [False], [True]]]), block_size=1),
        ]
    for inputs in cases:
        try:
            answer = in_32_bits(call_twice(candidate, inputs))
        except CheckFailed as failed:
            if inputs["mask"] is None or inputs["mask"].size(-1) > 1 or "size" not in str(failed):
                raise
            said = "The mask's key axis has the size 1 here and serves all keys: do not slice it."
            raise CheckFailed(f"  {said}\n{failed}") from None
        if isinstance(answer, tuple | list):
            raise CheckFailed(
                f"  Expected only the context, got {len(answer)} results. The weights must not be "
                f"stored.\n{describe(inputs)}"
            )
        expect_equal(answer, _blockwise()(*inputs.values()), "the context", inputs, _BLOCK_TWINS)
    _expect_little_held(candidate)
    for mask in (None, first_half, torch.tensor([[False] * 4, [True, True, False, False]])):
        _expect_right_gradients(candidate, _qkv([], 2, 4, 3, 2, mask=mask))

    def inside(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        context = cast(Callable[..., Tensor], candidate)(query, key, value, mask, 4)
        return context, scaled_dot_product_attention(query, key, value, mask)[1]

    put_in, sentences = lambda model: _put_in(inside, model), self_attention._SENTENCES
    expect_same_translations(put_in, sentences, "attention", TRANSFORMER)


def _put_in(attend: object, model: Any) -> None:
    self_attention.put_in(attend, model)


def _expect_little_held(candidate: object) -> None:
    """Check the shapes of all tensors, and the memory in use at once."""
    q, k, d, block = 121, 251, 5, 8
    for mask in (None, _some(1, q, k)):
        inputs = _qkv([1], q, k, d, d, mask=mask, block_size=block)
        meter = MemoryMeter()

        def metered(*given: object, meter: MemoryMeter = meter) -> object:
            with meter, torch.no_grad():
                return cast(Callable[..., object], candidate)(*given)

        answer = in_32_bits(call(_named(candidate, metered), inputs))
        expect_equal(answer, _blockwise()(*inputs.values()), "the context", inputs, _BLOCK_TWINS)
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
        " Where all scores so far are masked, -inf - (-inf) gives NaN, also if it is replaced "
        "later."
    )
    expect_gradients_through(
        candidate, given, sources, lambda answer: cast(Tensor, in_32_bits(answer)), nan=nan
    )
    goal = torch.linspace(-1, 1, 4).reshape(2, 2)

    def gradients(of: Callable[..., Any]) -> tuple[Tensor, ...]:
        answer = of(*given.values())
        return torch.autograd.grad((answer * goal).sum(), list(sources.values()))

    def of_plain(query: Tensor, key: Tensor, value: Tensor, mask: Any, _: int) -> Tensor:
        return scaled_dot_product_attention(query, key, value, mask)[0]

    found = gradients(cast(Callable[..., Any], candidate))
    for name, got, right in zip(sources, found, gradients(of_plain), strict=True):
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
        return cast(Tensor, self.inside(inputs).logits)


def writer() -> nn.Module:
    """Return a small language model with 11 tokens; called with ids, it returns logits."""
    torch.manual_seed(0)
    return _Writer()


_Way = Callable[[list[tuple[Tensor, Tensor, Tensor]]], Tensor]
"""A loss, computed from the logits, the targets and the counted tokens of each part."""


def _surprises(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")


def _over_all(parts: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    number = sum(int(counted.sum()) for *_, counted in parts)
    return torch.stack([(_surprises(o, t) * c).sum() for o, t, c in parts]).sum() / number


def _weighed(weigh: Callable[[list[int]], list[float]]) -> _Way:
    """Return the weighted sum of the means of the parts."""

    def loss(parts: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        counts = [int(counted.sum()) for *_, counted in parts]
        means = [_over_all([part]) for part in parts]
        return torch.stack([w * m for w, m in zip(weigh(counts), means, strict=True) if w]).sum()

    return loss


def _everything(parts: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    return _over_all([(o, t, torch.ones_like(c)) for o, t, c in parts])


_LOSS_WAYS: dict[str, _Way] = {
    "this is the mean of the means of the parts. A part with few counted tokens then has the same "
    "weight as a part with many. Add the sums, and divide by the number of all counted tokens.":
        _weighed(lambda counts: [1 / len(counts)] * len(counts)),
    "this is the mean of the means of all parts with counted tokens, and each has the same "
    "weight. Add the sums, and divide by the number of all counted tokens.":
        _weighed(lambda counts: [(c > 0) / sum(map(bool, counts)) for c in counts]),
    "the means of the parts are added. Add the sums, and divide by the number of all counted "
    "tokens.": _weighed(lambda counts: [float(c > 0) for c in counts]),
    "the parts are weighted by their rows. Weight them by tokens: add the sums, and divide by the "
    "number of all counted tokens.":
        lambda parts: _weighed(
            lambda counts: [len(t) / sum(len(t) for _, t, _ in parts) for _, t, _ in parts]
        )(parts),
    "all tokens are counted. Count only those where `counted` is True.": _everything,
    "this is the sum over the counted tokens, not their mean.":
        lambda parts: _over_all(parts) * sum(int(c.sum()) for *_, c in parts),
    "the sum is divided by the number of all tokens, not of the counted ones.":
        lambda parts: _over_all(parts) * sum(int(c.sum()) for *_, c in parts)
        / sum(c.numel() for *_, c in parts),
    "only the last part contributes. Is the loss, or the gradient, reset in every part?":
        lambda parts: _over_all(parts[-1:]),
    "only the share of the last part contributes. Is the loss, or the gradient, reset in "
    "every part?":
        lambda parts: _over_all(parts[-1:]) * int(parts[-1][2].sum())
        / sum(int(c.sum()) for *_, c in parts),
    "the rows that do not fill a part are missing.":
        lambda parts: _over_all([part for part in parts if len(part[1]) == len(parts[0][1])]),
}  # fmt: skip


def _gradients(loss: Tensor, model: nn.Module) -> list[Tensor]:
    weights = [*model.parameters()]
    found = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
    return [
        torch.zeros_like(weight) if gradient is None else gradient
        for weight, gradient in zip(weights, found, strict=True)
    ]


def _left(model: nn.Module) -> list[Tensor]:
    return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def _factor(counts: Sequence[int], worker: int) -> float:
    return len(counts) * counts[worker] / sum(counts)


_FACTOR_TWINS = [
    *known(
        "factor: This is the worker's share of all counted tokens. It would be right if the "
        "gradients were added, but they are averaged, which divides by the number of workers.",
        lambda counts, worker: counts[worker] / sum(counts),
    ),
    *known(
        "factor: This gives all workers the same weight. It is right only if all have the same "
        "number of counted tokens.",
        lambda counts, worker: 1.0,
        lambda counts, worker: 1 / len(counts),
    ),
    *known(
        "factor: Multiply by the number of workers, and do not divide by it: averaging already "
        "divides.",
        lambda counts, worker: counts[worker] / sum(counts) / len(counts),
    ),
    *known(
        "factor: The fraction is inverted. A worker with more counted tokens needs a larger "
        "factor.",
        lambda counts, worker: sum(counts) / len(counts) / counts[worker],
        lambda counts, worker: sum(counts) / counts[worker],
    ),
    *known(
        "factor: This is the number of tokens, which turns the mean into a sum.",
        lambda counts, worker: float(counts[worker]),
    ),
    *known(
        "factor: A worker without counted tokens has the factor 0.",
        lambda counts, worker: _factor(counts, worker) or 1.0,
        lambda counts, worker: len(counts) * max(1, counts[worker]) / sum(counts),
    ),
]


@_parts.part("gradient accumulation", "accumulate", "factor")
def accumulation(accumulate: object, factor: object, thorough: bool = False) -> None:
    """Check gradients that are accumulated over parts, and averaged over workers."""
    some = torch.tensor([[1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 1, 0, 1, 1]]).bool()
    cases = [
        (some, 3),
        (some[[0, 1, 0, 2, 1]], 2),
        (some, 1),
        (torch.cat([some[:2], torch.zeros(2, 5).bool(), some[2:]]), 2),
    ]
    if thorough:
        cases += [(torch.rand(7, 3) < 0.4, 2), (torch.rand(11, 2) < 0.2, 1), (some, 5)]
    torch.manual_seed(0)
    for number, (counted, rows) in enumerate(cases):
        model = _Net()
        inputs, targets = torch.randint(0, 7, (2, *counted.shape))
        asked = {"inputs": inputs, "targets": targets, "counted": counted, "rows": rows}
        _expect_accumulated(accumulate, model, asked, old=number > 0)
        _examine_reading(model, asked)
    inputs, targets = torch.randint(0, 11, (2, 5, 7))
    counted = torch.rand(5, 7) < 0.3
    asked = {"inputs": inputs, "targets": targets, "counted": counted, "rows": 2}
    _expect_accumulated(accumulate, _Writer(), asked, old=True)
    shares = [([3, 1], 0), ([3, 1], 1), ([4, 4, 4], 2), ([10, 0, 20, 6], 2), ([5], 0), ([5, 0], 1)]
    if thorough:
        shares += [([17, 31, 2, 0, 7, 300], place) for place in range(6)]
    workers = named_cases(("counts", "worker"), shares)
    expect_all(factor, workers, _factor, "the factor", _FACTOR_TWINS, _same, pick=_number)


def _expect_accumulated(
    candidate: object, model: nn.Module, asked: dict[str, Any], old: bool
) -> None:
    before = []
    if old:  # of the previous step
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        before = _left(model)
    rows = asked["rows"]
    cut = zip(*(asked[name].split(rows) for name in ("inputs", "targets", "counted")), strict=True)
    parts = [(model(read), targets, counted) for read, targets, counted in cut]
    right = _over_all(parts)
    wrong = {f"{said}": way(parts) for said, way in _LOSS_WAYS.items()}
    expected = _gradients(right, model)
    mistaken = {said: _gradients(loss, model) for said, loss in wrong.items() if loss.requires_grad}
    if isinstance(model, _Net):
        model.read, model.open, model.most_open = [], 0, 0

    def of_the_model(*given: object) -> object:
        return cast(Callable[..., object], candidate)(model, *given)

    weights = [parameter.detach().clone() for parameter in model.parameters()]
    answer = call(_named(candidate, of_the_model), asked, trains=True)
    if not close([*model.parameters()], weights):
        raise CheckFailed(
            "  The parameters have changed. Only compute the gradients; do not update."
        )
    if type(answer) is Tensor and answer.requires_grad:
        raise CheckFailed(
            "  Loss: the returned tensor still holds the graph. Return a Python number, with "
            ".item().\n" + describe(asked)
        )
    seen = _left(model)
    _examine_size(model, asked)
    number = plain_number(answer)
    if any(not each.isfinite().all() for each in seen) or (number is not None and number != number):
        raise CheckFailed(
            "  The loss or a gradient is NaN. The mean of a part without counted tokens is "
            f"0/0; its sum is 0.\n{describe(asked)}"
        )
    twins = [
        Twin(f"Loss: {said}", lambda *_, loss=loss: float(loss.detach()))
        for said, loss in wrong.items()
    ]
    hint = "Loss: this is not the mean over all counted tokens."
    found = answer if number is None else number
    expect_value(found, float(right.detach()), "the loss", asked, twins, hint)
    if close(seen, expected):
        return
    why = "these are not the gradients of the mean over all counted tokens."
    named = [said for said, gradients in mistaken.items() if close(seen, gradients)]
    if before and close(seen, [a + b for a, b in zip(before, expected, strict=True)]):
        why = (
            "the gradients of the previous step are still included, because backward adds to them."
        )
    elif not any(each.count_nonzero() for each in seen):
        why = "they are all zero. Is backward called, and zero_grad before it and not after it?"
    elif named:
        why = named[0]
    raise CheckFailed(f"  Gradients: {why}\n{describe(asked)}")


def _examine_size(model: nn.Module, asked: Inputs) -> None:
    """Check that no part has more rows than allowed."""
    if not isinstance(model, _Net):
        return
    largest = max(map(len, model.read), default=0)
    if largest > asked["rows"]:
        raise CheckFailed(
            f"  The model reads {largest} rows at once, but only {asked['rows']} are allowed.\n"
            + describe(asked)
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


def _same(one: object, other: object) -> bool:
    try:
        expect_value(one, other, "", {})
    except CheckFailed:
        return False
    return True


def _number(answer: object, _: Inputs) -> object:
    number = plain_number(answer)
    return answer if number is None else number


# Part 4


def _parts_of(
    q: int, k: int, d: int, d_value: int, mask: Tensor | None = None, factor: float = 1.0,
    lower: float = 0.0,
) -> dict[str, Tensor]:  # fmt: skip
    query, key = factor * torch.randn(q, d), torch.randn(k, d)
    if lower:  # all scores are about as far below 0
        query, key = torch.full((q, d), -lower), 1 + 0.001 * torch.randn(k, d)
    mask = torch.ones(q, k, dtype=torch.bool) if mask is None else mask
    return {"query": query, "key": key, "value": torch.randn(k, d_value), "mask": mask}


@_parts.part("merging attention", "mended_part", "mended_merge")
def merging(mended_part: object, mended_merge: object, thorough: bool = False) -> None:
    """Check attention over some of the keys, and the merge of two results."""
    nothing = torch.tensor([[False] * 3, [True, False, True]])
    large_masked = _parts_of(1, 2, 1, 2, torch.tensor([[True, False]]))
    large_masked |= {"query": torch.ones(1, 1), "key": torch.tensor([[1.0], [300.0]])}
    asked = [
        _parts_of(2, 3, 2, 2),
        _parts_of(2, 3, 5, 2, _some(2, 3) | torch.eye(2, 3).bool()),
        _parts_of(2, 3, 2, 2, factor=300.0),
        _parts_of(2, 3, 2, 2, lower=200.0),
        large_masked,
        _parts_of(2, 3, 2, 2, nothing),
    ]
    if thorough:
        asked += [
            _parts_of(5, 7, 3, 2, _some(5, 7), factor=30.0),
            _parts_of(3, 11, 2, 5, lower=90.0),
        ]
    for inputs in asked:
        pair = expect_pair(call_twice(mended_part, inputs), ("context", "logs"), inputs)
        context, logs = map(in_32_bits, pair)
        query, key, value, mask = inputs.values()
        right = merged_parts.part_of(query, key, value, mask)
        expect_equal(context, right[0], "the context", inputs, merged_parts.PART_CONTEXT_TWINS)
        expect_equal(logs, right[1], "the logs", inputs, merged_parts.PART_LOG_TWINS)

    def pairs(*logs: Sequence[float]) -> dict[str, merged_parts.Pair]:
        def contexts(of: Sequence[float]) -> Tensor:  # zeros where there is no key
            return torch.randn(len(of), 2) * (torch.tensor(of) > _HIDDEN).unsqueeze(-1)

        made = [(contexts(each), torch.tensor(each)) for each in logs]
        return dict(zip(("one", "other"), made, strict=True))

    merged = [
        pairs([1.0], [0.5]),
        pairs([2.0, -1.0, 0.0], [1.0, 3.0, 0.0]),
        pairs([900.0, -400.0], [901.0, -401.0]),
        pairs([500.0, -500.0], [-500.0, 500.0]),
        pairs([_HIDDEN, 1.0], [2.0, _HIDDEN]),
        pairs([_HIDDEN], [_HIDDEN]),
    ]
    if thorough:
        merged += [pairs((50 * torch.randn(7)).tolist(), (50 * torch.randn(7)).tolist())]
    for two in merged:
        pair = expect_pair(call_twice(mended_merge, two), ("context", "logs"), two)
        context, logs = map(in_32_bits, pair)
        right = merged_parts.merge(**two)
        expect_equal(context, right[0], "the merged context", two, merged_parts.MERGE_CONTEXT_TWINS)
        expect_equal(logs, right[1], "the merged logs", two, merged_parts.MERGE_LOG_TWINS)


# Part 5


@_parts.part("a memory budget", "memory", "largest_batch")
def budget(memory: object, largest_batch: object, thorough: bool = False) -> None:
    """Check the predicted memory of a training step, and the largest batch that fits."""
    sizes: list[tuple[int, int, int, int, int, int | None]] = [
        (10, 4, 5, 2, 1, None),
        (10, 4, 5, 2, 3, 2),
        (1000, 12, 32, 8, 7, None),
        (1000, 12, 32, 8, 7, 1),
        (1000, 12, 32, 8, 7, 3),
        (1000, 12, 32, 8, 7, 12),
        (77, 7, 30, 4, 2, 3),
        (77, 9, 5, 20, 2, 4),
        (5, 11, 13, 3, 2, 5),
        (5, 3, 13, 3, 2, 8),
    ]
    if thorough:
        sizes += [(999, n, 17, 5, 3, every) for n in (6, 7, 13) for every in (2, 4, 5, 6)]
        sizes += [(10**7, 48, 10**6, 10**5, 64, 7), (3, 1, 2, 1, 1, 1)]
    cases = named_cases(memory_budgets.MEMORY_INPUTS, sizes)
    for name in ("weights", "gradients", "moments", "activations"):

        def of_the_name(answer: object, inputs: Inputs, name: str = name) -> object:
            if not isinstance(answer, Mapping) or name not in answer:
                raise CheckFailed(
                    "  memory: Expected a dict with the keys weights, gradients, moments and "
                    f"activations, got {show(answer)}\n{describe(inputs)}"
                )
            return _number(answer[name], inputs)

        expect_all(
            memory, cases, lambda *asked, name=name: memory_budgets.memory(*asked)[name],
            f"{name}, in bytes,",
            memory_budgets.MEMORY_TWINS[name], _same, pick=of_the_name,
        )  # fmt: skip
    asked: list[tuple[int, int, int, int, int | None, int]] = [
        (10, 4, 5, 2, None, 160 + 4 * 28 * 3),
        (10, 4, 5, 2, None, 160 + 4 * 28 * 3 - 1),
        (10, 4, 5, 2, 2, 1000),
        (1000, 12, 32, 8, None, 50_000),
        (1000, 12, 32, 8, 3, 50_000),
        (1000, 12, 32, 8, 3, 16_000),
        (1000, 12, 32, 8, 3, 9_000),
        (77, 7, 30, 4, 3, 4_000),
    ]
    if thorough:
        asked += [(999, 13, 17, 5, every, 10**6) for every in (None, 1, 4, 6, 20)]
    expect_all(
        largest_batch, named_cases(memory_budgets.LARGEST_INPUTS, asked), memory_budgets.largest,
        "the largest batch",
        memory_budgets.LARGEST_TWINS, _same, pick=_number,
    )  # fmt: skip


# Part 6


@_parts.part("self times", "own_times", "bottleneck")
def bottlenecks(own_times: object, bottleneck: object, thorough: bool = False) -> None:
    """Check the self times of nested events, and the speed-up of the total."""
    traces: list[list[Event]] = [
        [("attend", 2.0, 9.0), ("multiply", 3.0, 5.0)],
        [
            ("attend", 0.0, 7.0),
            ("multiply", 1.0, 3.0),
            ("softmax", 3.0, 4.0),
            ("multiply", 4.0, 6.0),
        ],
        [("load", 1.0, 3.0), ("step", 8.0, 12.0), ("load", 12.0, 13.0)],
        [("step", 0.0, 10.0), ("layer", 1.0, 8.0), ("attend", 2.0, 5.0), ("copy", 3.0, 4.0)],
        [("layer", 1.0, 8.0), ("copy", 0.0, 1.0), ("layer", 0.0, 9.0), ("layer", 8.0, 9.0)],
        [("copy", 3.0, 4.0), ("attend", 2.0, 5.0), ("layer", 1.0, 8.0), ("step", 0.0, 10.0)],
        nested_events.drawn(12, 3),
        profiles()["C"][:60],
    ]
    if thorough:
        traces += [nested_events.drawn(40, seed) for seed in (5, 6, 7)] + [*profiles().values()]
    hint = "All self times and the idle time sum to the time from the first begin to the last end."
    expect_all(
        own_times, named_cases(("events",), [(trace,) for trace in traces]),
        nested_events.own_times, "the self times",
        nested_events.OWN_TWINS, _same, lambda *_: hint, pick=_numbers,
    )  # fmt: skip
    factors = (2.0, 4.0, 10.0, 1.5, 3.0, 2.0, 8.0, 2.0, 2.0, 5.0, 3.0, 2.0, 2.0, 2.0)
    many = [("copy", n / 2, n / 2 + 0.25) for n in range(8)]
    rare = [("load", 0.0, 5.0), ("add", 5.0, 8.0), ("add", 8.0, 11.0)]
    traces = [trace for trace in traces if _clear(trace)] + [many + [("step", 5.0, 9.0)], rare]
    asked = named_cases(("events", "factor"), [*zip(traces, factors, strict=False)])
    for place, (what, twins) in enumerate(
        (("the name", nested_events.NAME_TWINS), ("the speed-up", nested_events.GAIN_TWINS))
    ):

        def of_the_place(answer: object, inputs: Inputs, place: int = place) -> object:
            return _number(expect_pair(answer, ("name", "speedup"), inputs)[place], inputs)

        expect_all(
            bottleneck, asked, lambda *of, place=place: nested_events.bottleneck(*of)[place],
            what, twins, _same,
            pick=of_the_place,
        )  # fmt: skip


def _clear(events: nested_events.Trace) -> bool:
    """Return whether one self time is larger than every other."""
    *_, second, first = sorted([0.0, *nested_events.own_times(events).values()])
    return first > 1.001 * second


def _numbers(answer: object, inputs: Inputs) -> object:
    if not isinstance(answer, Mapping):
        return answer
    return {name: _number(time, inputs) for name, time in answer.items()}
