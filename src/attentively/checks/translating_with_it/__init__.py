"""Checks of the assignment on translating with a Transformer: cache, beam search, patching.

The functions of parts 1 to 3 receive a model as assignment 15 builds it. They are tested on small
models with random parameters, where each cached step must agree with the whole model without a
cache, and then on the trained model. Parts 4 and 5 are original problems.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attentively.attention.masks import padding_mask
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_pair,
    expect_value,
    in_32_bits,
    once_solved,
    plain_number,
    show,
)
from attentively.checks.decoding import SEARCH_FAULTS, search
from attentively.checks.student_modules import shaken, sizes_of
from attentively.checks.trained_translator import TRANSFORMER
from attentively.checks.translating_with_it.cache_costs import (
    DEARER_FAULTS,
    HELD_FAULTS,
    MULTIPLIED_FAULTS,
    dearer,
    held,
    multiplied,
)
from attentively.checks.translating_with_it.cached_steps import (
    GREEDY_FAULTS,
    GROWTH_FAULTS,
    LOOK_FAULTS,
    NAMES,
    PROJECT_FAULTS,
    START_FAULTS,
    STEP_FAULTS,
    Cache,
    greedy_texts,
    looked,
    projected,
    started,
    stepped,
)
from attentively.data import toy
from attentively.data.batches import pad
from attentively.layers.transformer_layers import Norm
from attentively.models import plain_transformer
from attentively.models.checkpoints import load_pretrained
from attentively.models.transformer import TransformerConfig
from attentively.tokens.vocabulary import PAD_ID, START_ID, Tokenizer

__all__ = [
    "Head",
    "MinimalPair",
    "Translator",
    "beam",
    "cache",
    "causes",
    "costs",
    "greedy",
    "minimal_pairs",
    "once_solved",
    "progress",
    "read",
    "ready",
    "start",
    "step",
    "translator",
]

Inputs = Mapping[str, Any]
Head = tuple[int, int]
"""The index of a layer and the index of a head in it, both from 0."""

_parts = Parts()
progress = _parts.progress


# The models


class _Model(plain_transformer.Transformer):
    """A Transformer with a short description for messages."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(*sizes_of(config).values())
        self.config = config

    def __repr__(self) -> str:
        config = self.config
        layers = f"{config.num_layers} layer{'s' * (config.num_layers > 1)}"
        return f"a {config.norm}-norm Transformer of {layers} with {config.num_heads} heads in each"


_Size = tuple[int, int, int, str, int]
"""d_model, heads, layers, position of the normalisation, and the seed of the parameters."""


def _small(d_model: int, num_heads: int, num_layers: int, norm: str, seed: int) -> _Model:
    """Return a model with random parameters, large enough that its outputs differ."""
    config = TransformerConfig(
        src_vocab_size=7, tgt_vocab_size=7, d_model=d_model, num_heads=num_heads, d_ff=5,
        num_layers=num_layers, dropout=0.1, norm=cast(Norm, norm),
    )  # fmt: skip
    torch.manual_seed(seed)
    model = _Model(config)
    shaken(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                loud = "table" in name or name.startswith("output")
                parameter.normal_(std=1.0 if loud else parameter.size(1) ** -0.5)
            if "output_projection" in name or "outer" in name:
                parameter.mul_(2)
    return model


class Translator(NamedTuple):
    """A trained Transformer as assignment 15 builds it, with its tokenizers."""

    model: Any
    num_heads: int
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer


def translator(candidate: object = None, name: str = TRANSFORMER) -> Translator:
    """Return the pretrained Transformer of that name, with its parameters in the given class.

    By default, it is the package's class with the interface of assignment 15.
    """
    model, src_tokenizer, tgt_tokenizer = load_pretrained(name).translator()
    config = cast(TransformerConfig, model.config)
    made = _Model(config) if candidate is None else cast(Any, candidate)(*sizes_of(config).values())
    made.load_state_dict(model.state_dict())
    return Translator(made.eval(), config.num_heads, src_tokenizer, tgt_tokenizer)


def read(sentences: Sequence[str], tokenizer: Tokenizer) -> tuple[Tensor, Tensor]:
    """Return the ids of the words, one row per sentence, and the padding mask."""
    src = pad([tokenizer.encode(sentence) for sentence in sentences], PAD_ID)
    return src, padding_mask(src, PAD_ID)


def ready() -> None:
    """Print that the package, its trained Transformer and these checks work."""
    _parts.explain_undefined_names()
    count = sum(each.numel() for each in load_pretrained(TRANSFORMER).model.parameters())
    print(f"PyTorch {torch.__version__}. The trained Transformer has {count:,} parameters. Ready.")


class _Counts:
    """How often the stacks of a model run, and over how many words."""

    def __init__(self) -> None:
        self.encoder = 0
        self.rows: list[int] = []
        """For each run of the decoder's first layer, the texts in the batch."""
        self.words: list[int] = []
        """And the words, over all texts."""
        self.memory = 0


@contextmanager
def _counting(model: _Model) -> Iterator[_Counts]:
    counts = _Counts()

    def encoded(*_: object) -> None:
        counts.encoder += 1

    def remembered(*_: object) -> None:
        counts.memory += 1

    def decoded(_: object, given: tuple[Tensor, ...]) -> None:
        counts.rows.append(len(given[0]))
        counts.words.append(given[0].shape[:-1].numel())

    first_encoder, first = model.encoder.layers[0], cast(Any, model.decoder.layers[0])
    handles = [
        cast(Any, first_encoder).feed_forward.register_forward_pre_hook(encoded),
        first.feed_forward.register_forward_pre_hook(decoded),
        first.cross_attention.key_projection.register_forward_pre_hook(remembered),
    ]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()


def _quietly(candidate: object) -> object:
    """Return the candidate, called without gradients."""
    if not callable(candidate):
        return candidate

    def ask(*given: object) -> object:
        with torch.no_grad():
            return candidate(*given)

    ask.__name__ = getattr(candidate, "__name__", "")
    return ask


def _same(answer: Any) -> Any:
    return answer


def _twins(
    right: Callable[..., Any],
    faults: Mapping[str, str],
    pick: Callable[[Any], object] = _same,
) -> list[Twin]:
    """Return the known mistakes of a function that makes them as its `fault`."""

    def answer(fault: str) -> Callable[..., object]:
        return lambda *given: pick(right(*given, fault=fault))

    return [Twin(said, answer(fault)) for fault, said in faults.items()]


def _wrong(
    right: Callable[..., Any],
    faults: Mapping[str, str],
    inputs: Inputs,
    pick: Callable[[Any], Cache] = _same,
) -> dict[str, Cache]:
    """Return the caches that known mistakes make, where they can be made."""
    caches = {}
    for fault, said in faults.items():
        with suppress(IndexError):
            caches[said] = pick(right(*inputs.values(), fault=fault))
    return caches


def _numbers(answer: object) -> object:
    """Return tensors as lists and numbers of one entry as Python's, within lists and pairs too."""
    if type(answer) is Tensor and answer.dim():
        return answer.tolist()
    if isinstance(answer, list | tuple):
        return [_numbers(item) for item in answer]
    number = plain_number(answer)
    return answer if number is None else number


# Part 1


_SRC = torch.tensor(
    [[3, 4, 5, 2, 0], [4, 6, 3, 5, 2], [6, 2, 0, 0, 0], [5, 5, 2, 0, 0], [6, 4, 2, 0, 0]]
)
SENTENCES = [
    "the dogs eat the bread",
    "the cat drank the milk because it was hungry",
    "the animal did not cross the street because it was too tired",
]


@_parts.part(
    "greedy decoding",
    "greedy",
    rebuilds=("attentively.generation.search:greedy_search",),
    refuses=(
        "attentively.generation.search:beam_search",
        "attentively.generation.search:generate",
        "attentively.generation.generate:translate",
    ),
)
def greedy(candidate: object, thorough: bool = False) -> None:
    """Check greedy decoding of whole batches: on small models, then on the trained one."""
    sizes: list[tuple[_Size, int]] = [((6, 2, 2, "pre", 12), 5), ((4, 1, 1, "post", 98), 4)]
    sizes += [((8, 2, 3, "post", 1), 9), ((4, 4, 1, "pre", 2), 11)] * thorough
    src_mask = padding_mask(_SRC, PAD_ID)
    for size, max_len in sizes:
        _expect_greedy(candidate, _small(*size), _SRC, src_mask, max_len)
    trained = translator()
    sentences = SENTENCES + thorough * ["the old woman sings", "it is red"]
    src, src_mask = read(sentences, trained.src_tokenizer)
    _expect_greedy(candidate, trained.model, src, src_mask, 30)


def _expect_greedy(
    candidate: object, model: _Model, src: Tensor, src_mask: Tensor, max_len: int
) -> None:
    inputs = {"model": model, "src": src, "src_mask": src_mask, "max_len": max_len}
    with torch.no_grad():
        right = greedy_texts(model, src, src_mask, max_len)
        twins = _twins(greedy_texts, GREEDY_FAULTS)
        with _counting(model) as counts:
            answer = _numbers(call(_quietly(candidate), inputs))
        hint = "A list with a list of whole numbers for each sentence."
        expect_value(answer, right, "the output", inputs, twins, hint)
    steps = max(len(ids) + (len(ids) < max_len) for ids in right)
    if counts.encoder != 1:
        raise CheckFailed(
            f"  The output is correct, but the encoder runs {counts.encoder} times. The memory "
            f"does not change: compute it once, before the loop.\n{describe(inputs)}"
        )
    if len(counts.rows) > steps:
        raise CheckFailed(
            f"  The output is correct, but the decoder runs {len(counts.rows)} times; "
            f"{steps} runs are enough. Process all sentences in one batch, and stop when the last "
            f"of them has ended.\n{describe(inputs)}"
        )


# Part 2


def start(model: Any, memory: Tensor, num_heads: int) -> Cache:
    """Return the cache before the first word; a reference for students without part 2."""
    return started(model, memory, num_heads)


def step(model: Any, tgt: Tensor, cache: Cache, src_mask: Tensor) -> tuple[Tensor, Cache]:
    """Return the scores of the next word (batch, vocab), and the cache with the last word."""
    return stepped(model, tgt, cache, src_mask)


_STAND_IN = start, step


def _expect_cache(
    answer: object, right: Cache, what: str, inputs: Inputs, wrong: Mapping[str, Cache]
) -> None:
    """Refuse a cache unlike the right one; name the mistake of the first wrong one like it."""
    form = f"{what}: a list with a dict for each layer, with the keys {', '.join(NAMES)}"
    if not isinstance(answer, list | tuple) or not all(isinstance(each, dict) for each in answer):
        raise CheckFailed(f"  Expected {form}.\n{describe(inputs)}\n  got         {show(answer)}")
    if len(answer) != len(right):
        raise CheckFailed(
            f"  Expected {form}; there are {len(right)} layers, got {len(answer)} dicts."
            f"\n{describe(inputs)}"
        )
    for number, (got, expected) in enumerate(zip(answer, right, strict=True)):
        for name in NAMES:
            if name not in got:
                raise CheckFailed(
                    f"  Layer {number} of {what} has no key {name!r}.\n{describe(inputs)}"
                )
            twins = []
            for said, cache in wrong.items():
                unlike = any(  # the mistake is the one only if all that it says is so
                    type(ours.get(each)) is not Tensor
                    or ours[each].shape != theirs[each].shape
                    or not torch.allclose(ours[each].float(), theirs[each], 1e-4, 1e-5)
                    for ours, theirs in zip(answer, cache, strict=True)
                    for each in NAMES
                )
                if not unlike:
                    twins.append(Twin(said, lambda *_, cached=cache[number][name]: cached))
            where = f"{name} in layer {number} of {what}"
            expect_equal(in_32_bits(got[name]), expected[name], where, inputs, twins)


@_parts.part(
    "the cache",
    "project",
    "attend",
    "start",
    "step",
    rebuilds=(
        "attentively.models.transformer:Transformer.start",
        "attentively.models.transformer:Transformer.step",
    ),
)
def cache(
    project: object, attend: object, start: object, step: object, thorough: bool = False
) -> None:
    """Check the cache, from the projections to the decoding of a whole text."""
    if any(each is mine for each in (start, step) for mine in _STAND_IN):
        raise CheckFailed(
            "  These are the reference functions start and step. The other parts may use them; "
            "part 2 checks your own."
        )
    sizes: list[_Size] = [(6, 2, 2, "pre", 1), (6, 3, 1, "post", 2)]
    sizes += [(10, 5, 3, "pre", 3), (4, 1, 2, "post", 4)] * thorough
    src = _SRC[:2]
    src_mask = padding_mask(src, PAD_ID)
    inputs: dict[str, Any]
    with torch.no_grad():
        for size in sizes:
            model = _small(*size)
            heads = model.config.num_heads
            layer = cast(Any, model.decoder.layers[-1])
            x = torch.randn(2, 3, size[0])
            _expect_projected(project, layer.self_attention, x, heads)
            _expect_looked(attend, layer.cross_attention, x, src_mask)
            memory = model.encoder(src, src_mask)
            inputs = {"model": model, "memory": memory, "num_heads": heads}
            wrong = _wrong(started, START_FAULTS, inputs)
            right = started(*inputs.values())
            answer = call_twice(_quietly(start), inputs)
            _expect_cache(answer, right, "what start returns", inputs, wrong)
            _expect_steps(step, model, right, src, src_mask)


def _expect_projected(candidate: object, attention: nn.Module, x: Tensor, heads: int) -> None:
    inputs = {"attention": attention, "x": x, "num_heads": heads}
    answer = call_twice(_quietly(candidate), inputs)
    pair = expect_pair(answer, ("keys", "values"), inputs)
    right = projected(attention, x, heads)
    for place, what in enumerate(("the keys of project", "the values of project")):
        twins = _twins(projected, PROJECT_FAULTS, operator.itemgetter(place))
        expect_equal(in_32_bits(pair[place]), right[place], what, inputs, twins)


def _expect_looked(candidate: object, attention: Any, x: Tensor, src_mask: Tensor) -> None:
    h = x[:, :1]
    source = torch.randn(2, src_mask.size(2), x.size(2))
    heads = attention.query_projection.out_features // attention.d_head
    keys, values = projected(attention, source, heads)
    inputs: dict[str, Any] = {"attention": attention, "h": h, "keys": keys, "values": values}
    for given in (inputs, inputs | {"mask": src_mask}, inputs | {"h": x, "mask": src_mask}):
        twins = _twins(looked, LOOK_FAULTS)
        answer = call_twice(_quietly(candidate), given)
        expect_equal(in_32_bits(answer), looked(*given.values()), "what attend returns", given,
                     twins)  # fmt: skip


def _expect_steps(
    candidate: object, model: _Model, cache: Cache, src: Tensor, src_mask: Tensor
) -> None:
    text = torch.tensor([[1, 5, 4, 3], [1, 3, 3, 6]])
    for length in range(1, text.size(1) + 1):
        tgt = text[:, :length]
        inputs: dict[str, Any] = {
            "model": model, "tgt": tgt, "cache": cache, "src_mask": src_mask,
        }  # fmt: skip
        answer = call_twice(_quietly(candidate), inputs)
        pair = expect_pair(answer, ("scores", "cache"), inputs)
        right = model(src, src_mask, tgt)[:, -1]  # without a cache
        twins = _twins(stepped, STEP_FAULTS, operator.itemgetter(0))
        what = f"the scores of step after {length} word{'s' * (length > 1)}"
        expect_equal(in_32_bits(pair[0]), right, what, inputs, twins)
        grown = _wrong(stepped, GROWTH_FAULTS, inputs, operator.itemgetter(1))
        expected = stepped(*inputs.values())[1]
        _expect_cache(pair[1], expected, "the cache that step returns", inputs, grown)
        with _counting(model) as counts:
            call(_quietly(candidate), inputs)
        if sum(counts.words) > len(tgt):
            raise CheckFailed(
                f"  step: The scores are correct, but {sum(counts.words)} words passed "
                f"through each layer. Only the last word of each of {len(tgt)} rows is new: take "
                f"its vector before the first layer.\n{describe(inputs)}"
            )
        if counts.memory:
            raise CheckFailed(
                "  step: The scores are correct, but the keys of the memory are computed again. "
                f"They are in the cache.\n{describe(inputs)}"
            )
        cache = expected


# Part 3


def _steps_of(
    model: Any, src: Tensor, src_mask: Tensor, num_heads: int, fault: str = ""
) -> Callable[[int, Any], tuple[Tensor, Any]]:
    """Return a step function: it reads a word in a state, and gives log-probabilities.

    A state is what has been read; what was computed once is kept.
    """
    memory = model.encoder(src, src_mask)
    known: dict[tuple[int, ...], tuple[Tensor, Cache]] = {
        (): (memory, started(model, memory, num_heads))
    }

    def read(token: int, state: tuple[int, ...] | None) -> tuple[Tensor, tuple[int, ...]]:
        before = state or ()
        written = (*before, token)
        if written not in known:
            tgt = torch.tensor([written])
            scores, cache = stepped(model, tgt, known[before][1], src_mask)
            known[written] = scores[0], cache
        scores = known[written][0]
        wrong = {"scores": scores, "probabilities": scores.softmax(dim=-1)}
        return wrong.get(fault, scores.log_softmax(dim=-1)), written

    return read


def _selected(cache: Cache, rows: Tensor, fault: str = "") -> Cache:
    if fault == "heads":
        return [{name: each[:, rows] for name, each in layer.items()} for layer in cache]
    if fault == "first layer":
        return [
            {name: each[rows] if not number else each for name, each in layer.items()}
            for number, layer in enumerate(cache)
        ]
    if fault == "own":
        return [
            {name: each if "memory" in name else each[rows] for name, each in layer.items()}
            for layer in cache
        ]
    kept = rows.unique() if fault == "no repeats" else rows
    inverse = kept.argsort() if fault == "inverse" else kept
    return [{name: each[inverse] for name, each in layer.items()} for layer in cache]


_SELECT_FAULTS = {
    "own": "select: The keys and values of the memory are not selected. They have one row per text "
    "too.",
    "first layer": "select: Rows are selected in the first layer only. Select them in every layer.",
    "heads": "select: Heads are selected. Rows are the first axis.",
    "no repeats": "select: A row may be selected twice, because two texts can continue one "
    "hypothesis. Keep the order of `rows`.",
    "inverse": "select: The direction is wrong: row i of the new cache is row rows[i] of the old "
    "one.",
}


@_parts.part(
    "beam search",
    "select",
    "beam_search",
    rebuilds=("attentively.generation.search:beam_search",),
    refuses=(
        "attentively.generation.search:generate",
        "attentively.generation.generate:translate",
    ),
)
def beam(select: object, beam_search: object, thorough: bool = False) -> None:
    """Check the rows of a cache, then the search: on small models, then on the trained one."""
    with torch.no_grad():
        chosen = [((2, 3), [2, 0, 0]), ((1, 2), [1, 2]), *[((3, 1), [2, 2, 1, 0])] * thorough]
        for (num_layers, heads), rows in chosen:
            cache = _random_cache(num_layers, heads, batch=3)
            inputs: dict[str, Any] = {"cache": cache, "rows": torch.tensor(rows)}
            right = _selected(*inputs.values())
            wrong = _wrong(_selected, _SELECT_FAULTS, inputs)
            answer = call_twice(select, inputs)
            _expect_cache(answer, right, "what select returns", inputs, wrong)
        sizes: list[tuple[_Size, int, int, float]] = [
            ((6, 3, 2, "post", 19), 4, 5, 2.0), ((6, 2, 2, "pre", 5), 2, 5, 1.0),
            ((4, 1, 1, "post", 24), 3, 6, 0.7), ((6, 2, 2, "pre", 12), 2, 4, 0.0),
            ((4, 2, 1, "pre", 1), 1, 4, 1.0), ((6, 2, 2, "pre", 3), 2, 5, 1.0),
            *[((8, 2, 2, "pre", 3), 5, 5, 0.6), ((6, 2, 1, "post", 4), 2, 9, 1.0)] * thorough,
        ]  # fmt: skip
        for size, beam_size, max_len, alpha in sizes:
            src = _SRC[1:2]
            how = beam_size, max_len, alpha
            _expect_found(beam_search, _small(*size), src, *how, _SEARCH_FAULTS)
        trained = translator()
        for sentence, beam_size, alpha in [(SENTENCES[1], 4, 1.0), *[(SENTENCES[2], 7, 0.0)] *
                                           thorough]:  # fmt: skip
            src, _ = read([sentence], trained.src_tokenizer)
            _expect_found(beam_search, trained.model, src, beam_size, 30, alpha, {})


def _random_cache(num_layers: int, heads: int, batch: int, d_head: int = 2) -> Cache:
    """Return a cache of 2 words and a source of 5."""
    return [
        {name: torch.randn(batch, heads, 5 if "memory" in name else 2, d_head) for name in NAMES}
        for _ in range(num_layers)
    ]


_FOLLOW = (
    "The cache does not follow the hypotheses. After each step, row i must continue the hypothesis "
    "that it extends: select this row in every layer."
)
_SUM_FAULTS = {
    "scores": "These are sums of scores. Add log-probabilities: log_softmax.",
    "probabilities": "These are sums of probabilities. Add their logarithms.",
}
_START = "START is in the output. The decoder reads it, but it is not returned."
_SEARCH_FAULTS = {
    fault: _FOLLOW if fault in ("by place", "first state", "last state") else said
    for fault, said in SEARCH_FAULTS.items()
    if fault != "all"  # which takes too long here
}


def _expect_found(
    candidate: object, model: _Model, src: Tensor, beam_size: int, max_len: int, alpha: float,
    faults: Mapping[str, str],
) -> None:  # fmt: skip
    src_mask = padding_mask(src, PAD_ID)
    heads = model.config.num_heads
    inputs = {
        "model": model, "src": src, "src_mask": src_mask, "num_heads": heads,
        "beam_size": beam_size, "max_len": max_len, "alpha": alpha,
    }  # fmt: skip
    how = beam_size, max_len, alpha
    steps = _steps_of(model, src, src_mask, heads)
    found = search(steps, *how)
    right = _numbers(found)
    twins = _twins(lambda *_, fault: search(steps, *how, fault), faults, _numbers)
    twins.append(Twin(_START, lambda *_: [[[START_ID, *words], score] for words, score in found]))
    for fault, said in _SUM_FAULTS.items():
        added = partial(_steps_of, model, src, src_mask, heads, fault)
        twins.append(Twin(said, lambda *_, added=added: _numbers(search(added(), *how))))
    with _counting(model) as counts:
        answer = _numbers(call(_quietly(candidate), inputs))
    hint = "A list of pairs (words, score), the best first."
    expect_value(answer, right, "the hypotheses", inputs, twins, hint)
    why = ""
    if counts.encoder != 1:
        why = (
            f"the encoder runs {counts.encoder} times. The memory does not change: compute it once."
        )
    elif counts.words != counts.rows:
        why = "earlier words are processed again in each step. Pass the cache to step."
    elif len(counts.rows) > max_len:
        why = (
            f"the decoder runs {len(counts.rows)} times for at most {max_len} words. "
            "All hypotheses are rows of one batch: one call per step is enough."
        )
    elif max(counts.rows) > beam_size:
        why = f"{max(counts.rows)} rows are processed in a step; only {beam_size} continue."
    if why:
        raise CheckFailed(f"  The hypotheses are correct, but {why}\n{describe(inputs)}")


# Part 4


@_parts.part("the cost of a cache", "cache_entries", "multiplications", "length_for_ratio")
def costs(
    cache_entries: object, multiplications: object, length_for_ratio: object, thorough: bool = False
) -> None:
    """Check stored entries, multiplications, and the length for a given ratio of the two costs."""
    inputs: dict[str, Any]
    kept = [(1, 4, 5, 3, 1), (3, 6, 5, 7, 5), (6, 512, 40, 60, 4), *[(3, 8, 11, 1, 13)] * thorough]
    for case in kept:
        inputs = dict(zip(("num_layers", "d_model", "src_len", "words", "rows"), case, strict=True))
        mistakes = _twins(held, HELD_FAULTS)
        answer = _whole(call_twice(cache_entries, inputs))
        expect_value(answer, held(*case), "what cache_entries returns", inputs, mistakes)
    work: list[tuple[int, ...]]
    work = [(1, 3, 5, 7, 1), (3, 2, 4, 6, 2), (11, 7, 6, 13, 3), *[(40, 25, 64, 256, 2)] * thorough]
    for task in work:
        names = ("words", "src_len", "d_model", "d_ff", "num_layers")
        inputs = dict(zip(names, task, strict=True))
        twins = _twins(multiplied, MULTIPLIED_FAULTS)
        answer = call_twice(multiplications, inputs)
        if isinstance(answer, dict):
            answer = {name: _whole(value) for name, value in answer.items()}
        what = "what multiplications returns"
        expect_value(answer, multiplied(*task), what, inputs, twins)
    lengths = [(1, 3, 4, 5), (3, 7, 8, 16), (10, 20, 64, 256), *[(3, 2, 2, 3)] * thorough]
    for times, src_len, d_model, d_ff in lengths:
        inputs = {"times": times, "src_len": src_len, "d_model": d_model, "d_ff": d_ff}
        twins = _twins(dearer, DEARER_FAULTS)
        right = dearer(times, src_len, d_model, d_ff)
        made = [multiplied(words, src_len, d_model, d_ff, 1) for words in (right - 1, right)]
        hint = " ".join(
            f"For {words} words: {each['recomputed']:,} recomputed, {each['cached']:,} cached."
            for words, each in zip((right - 1, right), made, strict=True)
            if words
        )
        answer = _whole(call_twice(length_for_ratio, inputs))
        expect_value(answer, right, "what length_for_ratio returns", inputs, twins, hint)


def _whole(answer: object) -> object:
    """Return a float without a fraction as the whole number that it is."""
    number = plain_number(answer)
    if number is None:
        return answer
    return int(number) if math.isfinite(number) and number == int(number) else number


# Part 5


def _moved(
    cache: Cache, donor: Cache, layer: int, head: int, places: list[int], fault: str = ""
) -> Cache:
    if fault == "other way":
        cache, donor = donor, cache
    names = {"keys only": NAMES[2:3], "values only": NAMES[3:], "words": NAMES[:2]}
    new = [{name: each.clone() for name, each in old.items()} for old in cache]
    for number in range(len(new)) if fault == "every layer" else [layer]:
        for name in names.get(fault, NAMES[2:]):
            to, of = new[number][name], donor[number][name]
            heads = slice(None) if fault == "every head" else head
            if fault == "every place":
                to[:, heads] = of[:, heads]
            else:
                for place in places:
                    to[:, heads, place] = of[:, heads, place]
            if fault == "rows":
                to = new[number][name] = cache[number][name].clone()
                to[head % len(to)] = of[head % len(to)]
    return new


_MOVED_FAULTS = {
    "keys only": "patch_cache: Only the keys are replaced. Replace the values as well.",
    "values only": "patch_cache: Only the values are replaced. Replace the keys as well.",
    "words": "patch_cache: The keys and values of the target words are replaced. Replace "
    "memory_keys and memory_values.",
    "every layer": "patch_cache: The entries are replaced in every layer. Replace them in layer "
    "`layer` only.",
    "every head": "patch_cache: The entries are replaced in every head. Replace them in head "
    "`head` only.",
    "every place": "patch_cache: The entries are replaced at every position. Replace them at "
    "`places` only.",
    "other way": "patch_cache: The donor is returned with entries of the cache. Return the cache "
    "with entries of the donor.",
    "rows": "patch_cache: Rows of the batch are replaced. The heads are the second axis.",
}


class Flips:
    """A simulated mechanism: the share of answers that flip when heads are patched."""

    def __init__(
        self, says: str, twin: Callable[[set[Head]], bool], damaging: Sequence[Head] = (),
        partly: Sequence[Head] = (), high: float = 0.97, low: float = 0.03,
    ) -> None:  # fmt: skip
        self.says = says
        self.twin = twin
        self.damaging = set(damaging)
        self.partly = set(partly)
        self.high, self.low = high, low

    def __call__(self, chosen: object, donor: str) -> float:
        if donor not in ("partner", "control"):
            raise ValueError(f"donor={donor!r} is unknown: 'partner' or 'control'")
        if isinstance(chosen, tuple) and len(chosen) == 2 and not isinstance(chosen[0], tuple):
            raise ValueError(f"flips takes a list of heads, got one head: {chosen}")
        heads = {tuple(head) for head in cast(Any, chosen)}
        if heads & self.damaging:
            return 0.94
        if donor == "control":
            return self.low
        if self.twin(heads):
            return self.high
        return 0.55 if heads & self.partly else self.low

    def __repr__(self) -> str:
        return f"a function; its mechanism: {self.says}"


def _found(flips: Callable[..., float], heads: list[Head], fault: str = "") -> dict[str, object]:
    high = 0.5 if fault == "half" else 0.9
    damaging = [head for head in heads if flips([head], "control") > 0.1]
    if fault == "twin control":
        damaging = [head for head in heads if flips([head], "partner") > 0.1]
    if fault == "strict":
        damaging = [head for head in heads if flips([head], "control") >= 0.1]
    sound = [head for head in heads if head not in damaging]
    tried = heads if fault in ("not set aside", "no control") else sound

    def alone(head: Head) -> bool:
        share = flips([head], "partner")
        return share > high if fault == "strict" else share >= high

    def left_out(head: Head) -> bool:
        among = heads if fault in ("damaging too", "not set aside", "no control") else sound
        others = [each for each in among if each != head]
        share = flips(others, "control" if fault == "control" else "partner")
        if fault == "not high":
            return share < 0.9
        return share < 0.1 if fault == "strict" else share <= 0.1

    sufficient = [head for head in tried if alone(head)]
    necessary = [head for head in tried if left_out(head)]
    if fault == "the same":
        necessary = sufficient
    elif fault == "moves":
        necessary = [head for head in tried if flips([head], "partner") > 0.1]
    conclusion = "unclear"
    if len(sufficient) == 1 and (necessary == sufficient or fault == "not necessary"):
        conclusion = "one head"
    elif len(sufficient) > 1 and not necessary:
        conclusion = "any of several"
    elif not sufficient and len(necessary) > 1:
        conclusion = "several together"
    if fault == "never unclear" and conclusion == "unclear":
        conclusion = "one head" if len(sufficient) == 1 else "several together"
    if fault == "no control":
        damaging = []
    elif fault == "exchanged":
        sufficient, necessary = necessary, sufficient
    return {
        "damaging": damaging,
        "sufficient": sufficient,
        "necessary": necessary,
        "conclusion": conclusion,
    }


_FOUND_FAULTS = {
    "no control": "causes: The control is missing. A head that flips the answer with the control "
    "donor does damage, and its effect with the partner shows nothing.",
    "twin control": 'causes: Damage must be measured with the donor "control", with which no '
    'answer should flip. With "partner", a sound head may flip all answers.',
    "damaging too": "causes: Damaging heads are patched together with the others. Set them aside "
    "first; they are used in nothing that follows.",
    "not set aside": "causes: A damaging head must be left out of everything that follows, also of "
    "`sufficient` and `necessary`.",
    "half": "causes: A share of one half is too low: a head is sufficient from 0.9 on.",
    "strict": "causes: The limits are not included as stated: at least 0.9, at most 0.1; damage is "
    "more than 0.1.",
    "not high": "causes: A head is necessary if all others flip at most 0.1; here the limit is "
    "0.9.",
    "the same": "causes: `necessary` repeats `sufficient`. Patch all sound heads except one, and "
    "test whether the answers stay.",
    "moves": "causes: `necessary` contains heads that flip answers alone. A head is necessary if "
    "all others together flip at most 0.1.",
    "exchanged": "causes: `sufficient` and `necessary` are exchanged.",
    "control": "causes: Every sound head is returned as necessary. Are the others patched from "
    '"partner", and is only one head left out?',
    "not necessary": 'causes: One sufficient head is not enough for the conclusion "one head": it '
    'must also be the only necessary head. Otherwise, the conclusion is "unclear".',
    "never unclear": "causes: Where none of the three conclusions holds, the conclusion is "
    '"unclear".',
}

_SITES: list[Head] = [(layer, head) for layer in range(2) for head in range(3)]
_PLANTED = [
    Flips("(1, 2) alone determines the answer", lambda chosen: (1, 2) in chosen),
    Flips("either of (0, 0) and (1, 1) determines the answer, (1, 2) flips half of the answers",
          lambda chosen: bool({(0, 0), (1, 1)} & chosen), [], [(1, 2)]),
    Flips("(0, 1) determines the answer, (1, 0) alone flips half of them, (0, 0) does damage",
          lambda chosen: (0, 1) in chosen, [(0, 0)], [(1, 0)]),
    Flips("(0, 2) and (1, 0) together determine the answer, each alone flips half of the answers",
          lambda chosen: {(0, 2), (1, 0)} <= chosen, [], [(0, 2), (1, 0)]),
    Flips("no head determines the answer; (1, 1) does damage", lambda chosen: False, [(1, 1)]),
    Flips("(0, 2) determines the answer, with the shares 0.9 and 0.1",
          lambda chosen: (0, 2) in chosen, high=0.9, low=0.1),
    Flips("(1, 0) together with (1, 2) or (0, 0) determines the answer",
          lambda chosen: (1, 0) in chosen and bool({(1, 2), (0, 0)} & chosen)),
]  # fmt: skip
_FURTHER = [
    Flips("(0, 0), or (1, 0) and (1, 1) together; (0, 1) and (1, 2) do damage",
          lambda chosen: (0, 0) in chosen or {(1, 0), (1, 1)} <= chosen, [(0, 1), (1, 2)]),
    Flips("(0, 1), (0, 2) and (1, 2) together determine the answer",
          lambda chosen: {(0, 1), (0, 2), (1, 2)} <= chosen),
]  # fmt: skip


@_parts.part("activation patching", "patch_cache", "causes")
def causes(patch_cache: object, causes: object, thorough: bool = False) -> None:
    """Check activation patching between two caches, then the conclusions from all heads."""
    inputs: dict[str, Any]
    sites: list[tuple[int, int, list[int]]] = [(0, 1, [1]), (1, 0, [0, 4]), (1, 1, [])]
    for layer, head, places in [*sites, *[(2, 2, [1, 2, 3])] * thorough]:
        cache, donor = _random_cache(3, 3, batch=2), _random_cache(3, 3, batch=2)
        inputs = {"cache": cache, "donor": donor, "layer": layer, "head": head, "places": places}
        wrong = _wrong(_moved, _MOVED_FAULTS, inputs)
        right = _moved(*inputs.values())
        answer = call_twice(patch_cache, inputs)
        _expect_cache(answer, right, "what patch_cache returns", inputs, wrong)
    for flips in [*_PLANTED, *_FURTHER * thorough]:
        inputs = {"flips": flips, "heads": _SITES}
        twins = _twins(_found, _FOUND_FAULTS, _shape)
        answer = _shape(call_twice(causes, inputs))
        expect_value(answer, _shape(_found(flips, _SITES)), "what causes returns", inputs, twins)


def _shape(answer: object) -> object:
    """Return the heads of an answer sorted and as tuples, however they came."""
    if not isinstance(answer, dict):
        return answer
    tidy: dict[object, object] = {}
    for name, value in answer.items():
        heads = [*value] if isinstance(value, set | frozenset) else value
        is_heads = isinstance(heads, list | tuple)
        if is_heads and not all(isinstance(each, list | tuple) for each in cast(Any, heads)):
            raise CheckFailed(
                f"  causes: A head is a pair (layer, head); {name!r} contains {show(heads)}."
            )
        tidy[name] = sorted(tuple(each) for each in cast(Any, heads)) if is_heads else value
    return tidy


class MinimalPair(NamedTuple):
    """A minimal pair: "it" refers to the first noun in one sentence, to the second in the other."""

    sentences: tuple[str, str]
    pronouns: tuple[str, str]
    written: str
    """The French prefix up to the pronoun, which both have in common."""
    place: int
    """The position at which the English sentences differ."""


def minimal_pairs(number: int) -> list[MinimalPair]:
    """Return minimal pairs of the toy language."""
    found = []
    for pair in toy.pronoun_pairs(number):
        src, tgt = [each.src for each in pair], [each.tgt for each in pair]
        at, place = (
            next(i for i, words in enumerate(zip(*texts, strict=False)) if words[0] != words[1])
            for texts in (tgt, src)
        )
        sentences = cast(tuple[str, str], tuple(" ".join(words) for words in src))
        pronouns = cast(tuple[str, str], tuple(words[at] for words in tgt))
        found.append(MinimalPair(sentences, pronouns, " ".join(tgt[0][:at]), place))
    return found
