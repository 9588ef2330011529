"""Checks of the assignment on translating with a Transformer: cache, beam search, patching.

The functions of parts 1 to 3 receive a model as assignment 15 builds it: small models with random
parameters first, then the trained one. The answers of all parts are compared with the recordings in
this folder. What a search may compute, and how often, is counted here. No function here is the
answer of a part; `start` and `step`, which the parts after part 2 may use, are the package's.
"""

import functools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import padding_mask
from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_pair,
    once_solved,
    open_call,
    show,
)
from attentively.checks.compare import copied
from attentively.checks.given_models import copy_of
from attentively.checks.recordings import Topic
from attentively.checks.student_modules import shaken, sizes_of
from attentively.checks.trained_translator import TRANSFORMER
from attentively.config import Norm
from attentively.data import toy
from attentively.data.batches import pad
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.transformer_layers import DecoderCache
from attentively.models import plain_transformer
from attentively.models.checkpoints import load_pretrained
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import TokenDecoder
from attentively.tokens.vocabulary import PAD_ID, Tokenizer

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
Cache = list[dict[str, Tensor]]
Head = tuple[int, int]
"""The index of a layer and the index of a head in it, both from 0."""

NAMES = ("keys", "values", "memory_keys", "memory_values")

_parts = Parts()
_topic = Topic(__file__)
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


@functools.cache
def small_model(**sizes: Any) -> nn.Module:
    """Return a model with random parameters, large enough that its outputs differ.

    All calls of an answer get the same one, which grading then sends once; see `_with_new_models`.
    """
    return copy_of(_small_model(**sizes))


@functools.cache
def _small_model(d_model: int, num_heads: int, num_layers: int, norm: str, seed: int) -> nn.Module:
    config = TransformerConfig(
        src_vocab_size=7, tgt_vocab_size=7, d_model=d_model, num_heads=num_heads, d_ff=5,
        num_layers=num_layers, dropout=0.1, norm=cast(Norm, norm),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = _Model(config)
        shaken(model)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                loud = "table" in name or name.startswith("output")
                parameter.normal_(std=1.0 if loud else parameter.size(1) ** -0.5)
            if "output_projection" in name or "outer" in name:
                parameter.mul_(2)
    return model.requires_grad_(False)


@functools.cache
def attention_of(layer: str, **sizes: Any) -> nn.Module:
    """Return the attention of this name in the last decoder layer of a small model."""
    decoder = cast(plain_transformer.Decoder, _small_model(**sizes).decoder)
    return copy_of(getattr(decoder.layers[-1], layer))


def _with_new_models() -> None:
    """Let the check that begins use new models, whatever an earlier answer did to its own."""
    small_model.cache_clear()
    attention_of.cache_clear()


def trained_model() -> nn.Module:
    """Return the trained Transformer."""
    return copy_of(_trained_model())


@functools.cache
def _trained_model() -> nn.Module:
    model: nn.Module = translator().model
    return model.requires_grad_(False)


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


def _counted(candidate: object, inputs: Inputs, *names: str) -> dict[str, list[torch.Size]]:
    """Return the shapes, (batch, length), that run through parts of the model in one call.

    The parts are the first layer of both stacks, the projection of the memory, and the output
    layer. One recorded case is enough, because an answer has the same loops in all cases.
    """
    given = {name: copied(value) for name, value in inputs.items()}
    given["model"] = model = copy_of(cast(nn.Module, given["model"]))  # which gets hooks
    layer = model.decoder.layers[0]
    watched = {
        "encoder": model.encoder.layers[0].feed_forward,
        "decoder": layer.feed_forward,
        "memory": layer.cross_attention.key_projection,
        "output": model.output,
    }
    shapes: dict[str, list[torch.Size]] = {name: [] for name in names}
    for name in names:
        watched[name].register_forward_pre_hook(
            lambda _, args, name=name: shapes[name].append(args[0].shape[:-1])
        )
    call(candidate, given)
    return shapes


# Part 1


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
    _with_new_models()
    _topic.examine("greedy", candidate, thorough)
    open_call.once(_expect_few_runs, candidate)


def _expect_few_runs(candidate: object) -> None:
    """Require one run of the encoder, and no run of the decoder after all sentences have ended."""
    recorded = _topic.recording("greedy").cases[1]
    inputs = recorded.case.inputs
    shapes = _counted(candidate, inputs, "encoder", "decoder")
    encoder, decoder = len(shapes["encoder"]), len(shapes["decoder"])
    (right,) = recorded.expected.values()
    steps = max(len(ids) + (len(ids) < inputs["max_len"]) for ids in right)
    if encoder != 1:
        raise CheckFailed(
            f"  The output is correct, but the encoder runs {encoder} times. Encode all "
            f"sentences in one batch, once, before the loop.\n{describe(inputs)}"
        )
    if decoder > steps:
        raise CheckFailed(
            f"  The output is correct, but the decoder runs {decoder} times; "
            f"{steps} runs are enough. Process all sentences in one batch, and stop when the last "
            f"of them has ended.\n{describe(inputs)}"
        )


# Part 2


def _decoder(model: Any, num_heads: int) -> TokenDecoder:
    """Return the package's decoder with the parameters of a model of assignment 15."""
    state = model.decoder.state_dict()
    vocab_size, d_model = state["input.embedding.table.weight"].shape
    config = TransformerConfig(
        src_vocab_size=vocab_size,
        tgt_vocab_size=vocab_size,
        d_model=d_model,
        num_heads=num_heads,
        d_ff=len(state["layers.0.feed_forward.inner.weight"]),
        num_layers=len(model.decoder.layers),
        norm="pre" if any(name.startswith("last_norm") for name in state) else "post",
    )
    decoder = TokenDecoder(TokenEmbedding(vocab_size, d_model), config).eval()
    decoder.load_state_dict(state)
    return decoder


def _as_dicts(caches: Sequence[DecoderCache]) -> Cache:
    found = []
    for each in caches:
        memory = cast(tuple[Tensor, Tensor], (each.memory.keys, each.memory.values))
        target = [each.target.keys, each.target.values]
        if not each.target.length:
            target = [tensor[:, :, :0] for tensor in memory]
        found.append(dict(zip(NAMES, (*target, *memory), strict=True)))
    return cast(Cache, found)


def start(model: Any, memory: Tensor, num_heads: int) -> Cache:
    """Return the cache before the first word; the package's, for students without part 2."""
    return _as_dicts(_decoder(model, num_heads).start(memory))


def step(model: Any, tgt: Tensor, cache: Cache, src_mask: Tensor) -> tuple[Tensor, Cache]:
    """Return the scores of the next word (batch, vocab), and the cache with the last word."""
    caches = [
        DecoderCache(
            KeyValueCache(each["keys"], each["values"]),
            KeyValueCache(each["memory_keys"], each["memory_values"]),
        )
        for each in cache
    ]
    decoder = _decoder(model, cache[0]["keys"].size(1))
    vectors, _, _, *grown = decoder(tgt[:, -1:], memory_mask=src_mask, caches=caches)
    return model.output(vectors.squeeze(1)), _as_dicts(*grown)


def flattened(cache: Cache) -> dict[str, Tensor]:
    """Return the tensors of a cache by their names."""
    return {
        f"{name} in layer {number}": entry[name]
        for number, entry in enumerate(cache)
        for name in NAMES
    }


def _tidy_cache(answer: object, inputs: Inputs, what: str) -> dict[str, Tensor]:
    """Return the tensors of an answer by their names; refuse what is no cache."""
    layers = len(inputs["cache"]) if "cache" in inputs else inputs["model"].given["num_layers"]
    form = f"{what}: a list with a dict for each layer, with the keys {', '.join(NAMES)}"
    if not isinstance(answer, list | tuple) or not all(isinstance(each, dict) for each in answer):
        raise CheckFailed(f"  Expected {form}.\n{describe(inputs)}\n  got         {show(answer)}")
    if len(answer) != layers:
        raise CheckFailed(
            f"  Expected {form}; there are {layers} layers, got {len(answer)} dicts."
            f"\n{describe(inputs)}"
        )
    for number, got in enumerate(answer):
        for name in NAMES:
            if name not in got:
                raise CheckFailed(
                    f"  Layer {number} of {what} has no key {name!r}.\n{describe(inputs)}"
                )
    return flattened(cast(Cache, answer))


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
    refuses=(
        "attentively.attention.multi_head:MultiHeadAttention",
        "attentively.models.transformer:TokenDecoder",
        f"{__name__}:start",
        f"{__name__}:step",
    ),
)
def cache(
    project: object, attend: object, start: object, step: object, thorough: bool = False
) -> None:
    """Check the cache, from the projections to the decoding of a whole text."""

    def tidy_step(answer: object, inputs: Inputs) -> object:
        scores, grown = expect_pair(answer, ("scores", "cache"), inputs)
        return scores, _tidy_cache(grown, inputs, "the cache that step returns")

    _with_new_models()
    _topic.examine(
        "project",
        project,
        thorough,
        tidy=lambda answer, inputs: expect_pair(answer, ("keys", "values"), inputs),
    )
    _topic.examine("attend", attend, thorough)
    _topic.examine("start", start, thorough, tidy=partial(_tidy_cache, what="what start returns"))
    _topic.examine("step", step, thorough, tidy=tidy_step)
    open_call.once(_expect_one_word, step)


def _expect_one_word(candidate: object) -> None:
    """Require that only the new one of two words passes through the layers."""
    inputs = _topic.recording("step").cases[1].case.inputs
    shapes, rows = _counted(candidate, inputs, "decoder", "memory"), len(inputs["tgt"])
    words = sum(each.numel() for each in shapes["decoder"])
    if words > rows:
        raise CheckFailed(
            f"  step: The scores are correct, but {words} words passed "
            f"through each layer. Only the last word of each of {rows} rows is new: take "
            f"its vector before the first layer.\n{describe(inputs)}"
        )
    if shapes["memory"]:
        raise CheckFailed(
            "  step: The scores are correct, but the keys of the memory are computed again. "
            f"They are in the cache.\n{describe(inputs)}"
        )


# Part 3


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
    _with_new_models()
    tidy = partial(_tidy_cache, what="what select returns")
    _topic.examine("select", select, thorough, tidy=tidy)
    _topic.examine("beam_search", beam_search, thorough)
    open_call.once(_expect_one_batch, beam_search)


def _expect_one_batch(candidate: object) -> None:
    """Require one run of the encoder, and one run of the decoder for each step of the search."""
    inputs = _topic.recording("beam_search").cases[0].case.inputs
    shapes = _counted(candidate, inputs, "encoder", "decoder", "output")
    encoder = len(shapes["encoder"])
    steps = shapes["decoder"] or shapes["output"]  # the package's step runs no layer of it
    most = max((rows for rows, *_ in steps), default=0)
    why = ""
    if encoder != 1:
        why = f"the encoder runs {encoder} times. The memory does not change: compute it once."
    elif any(words > 1 for _, words in shapes["decoder"]):
        why = "earlier words are processed again in each step. Pass the cache to step."
    elif len(steps) > inputs["max_len"]:
        why = (
            f"the decoder runs {len(steps)} times for at most {inputs['max_len']} words. "
            "All hypotheses are rows of one batch: one call per step is enough."
        )
    elif most > inputs["beam_size"]:
        why = f"{most} rows are processed in a step; only {inputs['beam_size']} continue."
    if why:
        raise CheckFailed(f"  The hypotheses are correct, but {why}\n{describe(inputs)}")


# Part 4


@_parts.part("the cost of a cache", "cache_entries", "multiplications", "length_for_ratio")
def costs(
    cache_entries: object, multiplications: object, length_for_ratio: object, thorough: bool = False
) -> None:
    """Check stored entries, multiplications, and the length for a given ratio of the two costs."""
    _topic.examine("cache_entries", cache_entries, thorough)
    _topic.examine("multiplications", multiplications, thorough)
    _topic.examine("length_for_ratio", length_for_ratio, thorough)


# Part 5


class Flips:
    """A simulated mechanism: the share of answers that flip when heads are patched."""

    def __init__(
        self, says: str, decide: Sequence[Sequence[Head]], damaging: Sequence[Head] = (),
        partly: Sequence[Head] = (), needed: Sequence[Head] = (), high: float = 0.97,
        low: float = 0.03,
    ) -> None:  # fmt: skip
        self.says = says
        self.decide = [set(heads) for heads in decide]
        """Groups of heads; the answer flips if all heads of a group are patched."""
        self.damaging = set(damaging)
        self.partly = set(partly)
        self.needed = set(needed)
        """Two heads or more flip no answer unless these are among them."""
        self.high, self.low = high, low

    def __call__(self, chosen: object, donor: str) -> float:
        if donor not in ("partner", "control"):
            raise ValueError(f"donor={donor!r} is unknown: 'partner' or 'control'")
        if isinstance(chosen, tuple) and len(chosen) == 2 and not isinstance(chosen[0], tuple):
            raise ValueError(f"flips takes a list of heads, got one head: {chosen}")
        heads = {tuple(head) for head in cast(Any, chosen)}
        if heads & self.damaging:
            return 0.94 if donor == "partner" else 0.14
        if donor == "control" or (len(heads) > 1 and not self.needed <= heads):
            return self.low
        if any(group <= heads for group in self.decide):
            return self.high
        return 0.55 if heads & self.partly else self.low

    def __repr__(self) -> str:
        return f"a function; its mechanism: {self.says}"


@_parts.part("activation patching", "patch_cache", "causes")
def causes(patch_cache: object, causes: object, thorough: bool = False) -> None:
    """Check activation patching between two caches, then the conclusions from all heads."""
    tidy = partial(_tidy_cache, what="what patch_cache returns")
    _topic.examine("patch_cache", patch_cache, thorough, tidy=tidy)
    _topic.examine("causes", causes, thorough, tidy=_sorted_heads)


def _sorted_heads(answer: object, inputs: Inputs) -> object:
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
