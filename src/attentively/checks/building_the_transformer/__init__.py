"""Checks of the assignment on the whole Transformer: its parts, their assembly, its parameters.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. Parts 1 to 4 rebuild code of the package with the same names of parameters, so the recorded
parameters are loaded into the student's module. What dropout does in training is tested by its
properties. Finally the model gets the parameters of the trained Transformer of the package, and
must give the same translations.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from attentively.attention.masks import padding_mask
from attentively.attention.positional import sinusoids
from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_pair,
    expect_tensor,
    expect_value,
    in_32_bits,
    known,
    once_solved,
    open_call,
    plain_tensor,
    show,
)
from attentively.checks.building_the_transformer.pytorch_names import (
    mistaken,
    nearest,
    pytorch_transformer,
)
from attentively.checks.compare import kind_of
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
from attentively.checks.student_modules import (
    NEARLY_ALL,
    Assembled,
    State,
    built,
    expect_all_dropped,
    expect_learned,
    run,
    state_of,
    translator,
)
from attentively.checks.trained_translator import TRANSFORMER, trained
from attentively.data.batches import pad
from attentively.generation.generate import translate
from attentively.layers.feed_forward import FeedForward
from attentively.layers.layer_norm import LayerNorm
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import PAD_ID, target_ids

__all__ = [
    "from_pytorch",
    "layers",
    "norm",
    "once_solved",
    "progress",
    "pytorch_transformer",
    "read_off",
    "ready",
    "residual",
    "transformer",
    "translator",
]

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Say that the package, its trained Transformer and these checks work."""
    _parts.explain_undefined_names()
    count = sum(each.numel() for each in trained(TRANSFORMER).model.parameters())
    print(f"PyTorch {torch.__version__}. The trained Transformer has {count:,} parameters. Ready.")


def _examine(name: str, candidate: object, thorough: bool, **rules: Any) -> list[Recorded]:
    """Compare a module with its recording, and return the recorded cases.

    First its parameters must be those of the recorded module, and its earlier parts must be right:
    in the first case with each position of the normalisation.
    """
    cases = _topic.recording(name, thorough).cases
    first: dict[Any, Recorded] = {}
    for each in cases:
        first.setdefault(each.case.made.get("norm"), each)
    for each in open_call.new_cases(f"parts of {name}", first.values()):
        _expect_earlier_parts(_built(candidate, each))

    def tidy(answer: Any, inputs: Inputs) -> Any:
        if isinstance(answer, tuple):
            raise CheckFailed(
                f"  The output of {name} is a tensor, got a tuple. Is it what an attention "
                f"returns? Then take [0].\n{describe(inputs)}"
            )
        return answer

    _topic.examine(name, candidate, thorough, tidy=tidy, **rules)
    return cases


def _built(candidate: object, recorded: Recorded, **changed: Any) -> nn.Module:
    """Return the student's module of a case with the recorded parameters."""
    return built(candidate, {**recorded.case.made, **changed}, dict(recorded.case.weights))


def _expect_earlier_parts(made: nn.Module) -> None:
    """Name a mistake of part 1 or 2 in a module that is built from those parts.

    One layer normalisation and one feed-forward network of the module are examined.
    """
    examined = set()
    for name, module in made.named_modules():
        kind = name.rpartition(".")[2]
        number = {"layer_norm": 1, "last_norm": 1, "feed_forward": 2}.get(kind)
        if number is None or number in examined or not (state := state_of(module)):
            continue
        examined.add(number)
        right: nn.Module
        if number == 1:
            title, right = "layer normalisation", LayerNorm(len(state["gain"]))
        else:
            d_ff, size = state["inner.weight"].shape
            title, right = "feed-forward network", FeedForward(size, d_ff)
        right.load_state_dict(state)
        size = len(next(reversed(state.values())))
        x = torch.randn(2, 3, size, generator=torch.Generator().manual_seed(0))
        try:
            got = module(x)
        except Exception:
            continue  # the check that calls the whole module reports it
        if type(got) is not Tensor or not torch.allclose(got, right(x), rtol=1e-3, atol=1e-4):
            raise CheckFailed(
                f"  {type(made).__name__}: `{name}`, the {title} of part {number}, gives a wrong "
                f"output. Correct part {number} and run its cell again, then this one."
            )


@contextmanager
def _explaining(name: str, words: str, cause: str) -> Iterator[None]:
    """Put the likely cause before an error of the student's code whose message has these words."""
    try:
        yield
    except CheckFailed as failed:
        first = str(failed).strip().split("\n")[0]
        if first.startswith(("Your code raises", "Called twice")) and words in first:
            raise CheckFailed(f"  {name}: {cause}\n{failed}") from None
        raise


# Part 1


@_parts.part(
    "layer normalisation",
    "LayerNorm",
    rebuilds=("attentively.layers.layer_norm:LayerNorm",),
    refuses=(
        "attentively.layers.layer_norm:layer_norm",
        "torch.nn:LayerNorm",
        "torch.nn.functional:layer_norm",
        "torch:layer_norm",
        "torch:native_layer_norm",
    ),
)
def norm(candidate: object, thorough: bool = False) -> None:
    """Check layer normalisation: vectors by hand, other sizes, its initial parameters."""
    cause = "mean and variance need the shape (..., 1). Compute them with keepdim=True."
    with _explaining("LayerNorm", "The size of tensor", cause):
        _examine("LayerNorm", candidate, thorough)
    initial = cast(nn.Module, call(candidate, {"d_model": 3})).state_dict()
    for name, expected in (("gain", torch.ones(3)), ("shift", torch.zeros(3))):
        expect_equal(initial[name], expected, f"the initial {name}", {"d_model": 3})


# Part 2


class Sublayer:
    """A sub-layer that a message can show."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.matrix) + 0.5


def _expect_same_in_training(made: Any, results: Mapping[str, Any], inputs: Inputs) -> None:
    if inputs["x"].requires_grad:  # of few entries a dropout may drop none
        (expected,) = results.values()
        got = in_32_bits(call(made.train(), inputs))
        expect_equal(got, expected, "the output of FeedForward in training", inputs)


@_parts.part(
    "feed-forward and residual",
    "FeedForward",
    "Residual",
    rebuilds=(
        "attentively.layers.feed_forward:FeedForward",
        "attentively.layers.transformer_layers:Residual",
    ),
    refuses=("attentively.models.plain_transformer:Residual",),
)
def residual(feed_forward: object, connection: object, thorough: bool = False) -> None:
    """Check the feed-forward network, and the residual connection with its norm and dropout."""
    _examine("FeedForward", feed_forward, thorough, afterwards=_expect_same_in_training)
    cases = _examine("Residual", connection, thorough)
    for each in open_call.new_cases("dropout", cases[:2]):  # pre- and post-norm
        _expect_dropout(connection, each)
    open_call.once(_expect_some_dropped, connection)


def _expect_some_dropped(connection: object) -> None:
    asked = {"d_model": 20, "dropout": 0.75, "norm": "pre"}
    made = built(connection, asked, {f"layer_norm.{n}": torch.ones(20) for n in _AFFINE})
    inputs = {"x": torch.randn(5, 10, 20), "sublayer": torch.ones_like}
    got = plain_tensor(call(made.train(), inputs), "the output of Residual in training", inputs)
    output = got - cast(Tensor, inputs["x"])
    _expect_entries_dropped(
        "Residual", "the sub-layer's output", output, torch.ones_like(output), 0.75, inputs
    )


_AFFINE = ("gain", "shift")


def _expect_entries_dropped(
    name: str, what: str, got: Tensor, full: Tensor, dropout: float, inputs: Inputs
) -> None:
    """Require that each entry of `full` is dropped by itself, and the others divided by 1 - p."""
    dropped = got.abs() < 0.1 * full.abs()
    share = float(dropped.float().mean())
    shown = f"  {name}: in training with dropout={dropout:g},"
    if any(dropped.equal(dropped.narrow(d, 0, 1).expand_as(dropped)) for d in range(got.dim())):
        raise CheckFailed(
            f"{shown} whole vectors are dropped, or the same entries of all vectors. Each entry "
            f"is dropped independently of the others. nn.Dropout does this.\n{describe(inputs)}"
        )
    if abs(share - dropout) > 0.1:
        raise CheckFailed(
            f"{shown} a share of {share:.2f} of {what} is 0; it should be about {dropout:g}.\n"
            f"{describe(inputs)}"
        )
    factors = (got / full)[~dropped]
    if not torch.allclose(factors, torch.full_like(factors, 1 / (1 - dropout)), 1e-3, 1e-3):
        raise CheckFailed(
            f"{shown} entries that are not dropped are divided by 1 - {dropout:g}, so that the "
            f"mean does not change: 1 becomes {1 / (1 - dropout):g}. nn.Dropout does this.\n"
            f"{describe(inputs)}\n  got         {show(factors[:4])} ..."
        )


def _with_all_dropped(name: str, made: nn.Module, inputs: Inputs, what: str) -> object:
    """Run a module in training with a rate of dropout that leaves nothing."""
    cause = (
        f"in training with dropout={NEARLY_ALL}, some entries are not dropped. Is the rate of "
        "nn.Dropout `dropout`?"
    )
    with _explaining(name, "Called twice", cause):
        return run(made, inputs, what.capitalize())


def _expect_dropout(connection: object, recorded: Recorded) -> None:
    """Drop everything: the sub-layer's output becomes 0, and x stays."""
    made = _built(connection, recorded, dropout=NEARLY_ALL).train()
    layer_norm = LayerNorm(recorded.case.made["d_model"])
    layer_norm.load_state_dict({n: recorded.case.weights[f"layer_norm.{n}"] for n in _AFFINE})
    kept, normed = nn.Identity(), cast(Any, layer_norm.requires_grad_(False))
    norm = recorded.case.made.get("norm", "pre")
    pre = norm == "pre"
    before, after = (normed, kept) if pre else (kept, normed)
    x = recorded.case.inputs["x"].detach()
    (full,) = recorded.expected.values()
    inputs = {"x": x, "sublayer": recorded.case.inputs["sublayer"]}
    output = inputs["sublayer"].make()
    mistakes = (
        known(
            "Residual: dropout is applied to the sum, and therefore to the residual connection "
            "too. Apply it to the output of the sub-layer, before the addition.",
            lambda *_: torch.zeros_like(x),
            lambda *_: after(torch.zeros_like(x)),
        )
        + known(
            "Residual: dropout is applied to the input of the sub-layer. Apply it to its output, "
            "before the addition.",
            lambda *_: after(x + output(torch.zeros_like(x))),
        )
        + known(
            "Residual: dropout is missing in training, or its rate is not `dropout`.",
            lambda *_: full,
        )
    )
    what = f'the output of Residual in training with dropout={NEARLY_ALL} and norm="{norm}"'
    got = _with_all_dropped("Residual", made, inputs, what)
    expect_equal(got, after(x), what, inputs, mistakes)
    read: list[Tensor] = []

    def sublayer(x: Tensor) -> Tensor:
        read.append(x.detach())
        return torch.zeros_like(x)

    call(made, {**inputs, "sublayer": sublayer})
    twice = Twin(
        "Residual: dropout is also applied to the input of the sub-layer.", lambda x, _: 0 * x
    )
    expect_equal(read[-1], before(x), "the input of the sub-layer in training", inputs, [twice])
    if len(read) != 1:
        raise CheckFailed(
            f"  Residual: the sub-layer is called {len(read)} times. Call it once, and use its "
            f"output: each call costs time, and with dropout each has another output.\n"
            f"{describe(inputs)}"
        )


# Part 3


@_parts.part(
    "encoder and decoder layer",
    "EncoderLayer",
    "DecoderLayer",
    rebuilds=(
        "attentively.layers.transformer_layers:EncoderLayer",
        "attentively.layers.transformer_layers:DecoderLayer",
    ),
    refuses=(
        "attentively.models.plain_transformer:EncoderLayer",
        "attentively.models.plain_transformer:DecoderLayer",
        "torch.nn:TransformerEncoderLayer",
        "torch.nn:TransformerDecoderLayer",
    ),
)
def layers(encoder_layer: object, decoder_layer: object, thorough: bool = False) -> None:
    """Check an encoder and a decoder layer, pre- and post-norm, with and without masks."""
    _examine_layer("EncoderLayer", encoder_layer, thorough)
    _examine_layer("DecoderLayer", decoder_layer, thorough)


def _expect_gradients_of_layer(made: Any, results: Mapping[str, Any], inputs: Inputs) -> None:
    masks = [name for name in inputs if "mask" in name]
    if masks:
        expect_learned(made, inputs, [name for name in inputs if name not in masks])


def _examine_layer(name: str, candidate: object, thorough: bool) -> None:
    """Check a layer, the gradients of its inputs, and its dropout; the first input is left."""

    cause = (
        "an attention returns a tuple, (context, weights), and the sub-layer must return only the "
        "context: take [0]."
    )
    with _explaining(name, "tuple", cause):
        cases = _examine(name, candidate, thorough, afterwards=_expect_gradients_of_layer)
    for pre in open_call.new_cases(f"dropout of {name}", cases[:1]):
        dropped = _built(candidate, pre, dropout=NEARLY_ALL)
        _expect_no_other_dropout(name, dropped, pre)
        inputs = pre.case.inputs
        expect_all_dropped(name, dropped, inputs, next(iter(inputs.values())))


def _expect_no_other_dropout(name: str, made: nn.Module, recorded: Recorded) -> None:
    """Turn off the dropout of residual connections and input embeddings; there is no other."""
    for path, module in made.train().named_modules():
        if path.rpartition(".")[2].startswith(("around_", "input")):
            module.eval()
    inputs, (full,) = recorded.case.inputs, recorded.expected.values()
    what = f"the output of {name} in training, without dropout in its residual connections"
    got = in_32_bits(call(made, inputs))
    said = (
        f"{name}: dropout is applied too often. Apply it only to the output of each "
        "sub-layer and to the sum of embedding and positional encoding."
    )
    expect_equal(got, full.detach(), what, inputs, known(said, lambda *_: got))


# Part 4

TRANSLATIONS = {
    "the dogs eat the bread": "les chiens mangent le pain",
    "the cat sleeps": "le chat dort",
    "the dog eats": "le chien mange",
}
"""What the trained Transformer outputs, by the sentence that it reads."""


@_parts.part(
    "the whole Transformer",
    "InputEmbedding",
    "Transformer",
    rebuilds=(
        "attentively.models.plain_transformer:InputEmbedding",
        "attentively.models.plain_transformer:Encoder",
        "attentively.models.plain_transformer:Decoder",
        "attentively.models.plain_transformer:Transformer",
    ),
    refuses=(
        "attentively.models.transformer:InputEmbedding",
        "attentively.models.transformer:TokenEncoder",
        "attentively.models.transformer:TokenDecoder",
        "attentively.models.transformer:Transformer",
        "torch.nn:Transformer",
    ),
)
def transformer(input_embedding: object, candidate: object, thorough: bool = False) -> None:
    """Check the input embedding, the whole model, and its translations."""
    cases = _examine("InputEmbedding", input_embedding, thorough)
    for each in open_call.new_cases("input dropout", cases[1:2]):
        _expect_input_dropout(input_embedding, each)

    def expect_gradients(made: Any, results: Mapping[str, Any], inputs: Inputs) -> None:
        expect_learned(made, inputs)

    cases = _examine("Transformer", candidate, thorough, afterwards=expect_gradients)
    for pre in open_call.new_cases("dropout", cases[:1]):
        _expect_model_dropped(candidate, pre)
    open_call.once(_expect_same_translations, candidate)


def _expect_input_dropout(input_embedding: object, recorded: Recorded) -> None:
    """Drop everything, then some entries."""
    inputs, (full,) = recorded.case.inputs, recorded.expected.values()
    made = _built(input_embedding, recorded, dropout=NEARLY_ALL).train()
    what = f"the output of InputEmbedding in training with dropout={NEARLY_ALL}"
    left = _with_all_dropped("InputEmbedding", made, inputs, what)
    expect_equal(
        left, torch.zeros_like(full), what, inputs,
        [Twin("InputEmbedding: dropout is missing in training.", lambda ids: full),
         Twin("InputEmbedding: dropout is applied to the embeddings only. Apply it to the sum.",
              lambda ids: sinusoids(*full.shape[1:]).expand_as(full))],
    )  # fmt: skip
    made = _built(input_embedding, recorded, dropout=0.5).train()
    ids = inputs["ids"].repeat(8, 1)
    got = plain_tensor(call(made, {"ids": ids}), "the output of InputEmbedding in training", inputs)
    full = full.repeat(8, 1, 1)
    _expect_entries_dropped("InputEmbedding", "the output", got, full, 0.5, {"ids": ids})


def _expect_model_dropped(candidate: object, recorded: Recorded) -> None:
    dropped = _built(candidate, recorded, dropout=NEARLY_ALL)
    _expect_no_other_dropout("Transformer", dropped, recorded)
    src, src_mask, tgt = recorded.case.inputs.values()
    memory = torch.randn(*src.shape, recorded.case.made["d_model"])
    given = {
        "encoder": {"src": src, "src_mask": src_mask},
        "decoder": {"tgt": tgt, "memory": memory, "src_mask": src_mask},
    }
    for stack, inputs in given.items():
        shift = recorded.case.weights[f"{stack}.last_norm.shift"]
        left = shift.expand(*next(iter(inputs.values())).shape, -1)
        expect_all_dropped(stack, dropped.get_submodule(stack), inputs, left)
    left = recorded.case.weights["output.weight"] @ shift
    expect_all_dropped("Transformer", dropped, recorded.case.inputs, left.expand(*tgt.shape, -1))


def _expect_same_translations(candidate: object) -> None:
    sentences, expected = [*TRANSLATIONS], [*TRANSLATIONS.values()]
    model, src_tokenizer, tgt_tokenizer = trained(TRANSFORMER).translator()
    src = pad([src_tokenizer.encode(each) for each in sentences], PAD_ID)
    tgt = pad([target_ids(tgt_tokenizer, each) for each in expected], PAD_ID)
    given = {"src": src, "src_mask": padding_mask(src, PAD_ID), "tgt": tgt}
    own = cast(Checkpoint, call(translator, {"Transformer": candidate}))
    with torch.no_grad():
        right = model(src, tgt).softmax(dim=-1)
        answer = in_32_bits(call(cast(Assembled, own.model).made, given))
    got = expect_tensor(answer, right.shape, "the output of Transformer", given).softmax(dim=-1)
    expect_equal(got, right, "the probabilities with the trained parameters", given)

    def translates(sentences: list[str]) -> list[str]:
        with torch.no_grad():
            found = translate(own, sentences, beam_size=1, need_weights=False)
        return [each.text for each in found]

    expect_value(
        call(translates, {"sentences": sentences}),
        expected,
        "the translations with the trained parameters",
        {"sentences": sentences},
        hint="Here encoder(src, src_mask) and decoder(tgt, memory, src_mask) of the model are "
        "called separately, the decoder with one more token at each step.",
    )


# Part 5

_STACKS = ("encoder", "decoder")


def _expect_three_compared(sizes: object) -> None:
    """Let two of the three matrices be one, and the third differ from it in one entry."""
    config = TransformerConfig(
        src_vocab_size=7, tgt_vocab_size=7, d_model=4, num_heads=2, d_ff=6, num_layers=1,
        share_embeddings=True,
    )  # fmt: skip
    state = state_of(Transformer(config))
    for name in ("output.weight", *(f"{each}.input.embedding.table.weight" for each in _STACKS)):
        changed = state[name].clone()
        changed[-1, -1] += 0.01
        inputs = {"state": state | {name: changed}}
        said = call_twice(sizes, inputs)
        shared = said.get("shared") if isinstance(said, dict) else None
        if bool(shared.all() if isinstance(shared, Tensor) else shared):
            raise CheckFailed(
                f"  sizes: here {name} differs from the two other matrices, by 0.01 in its last "
                "entry. `shared` is True only if all three are equal, in all entries.\n"
                f"{describe(inputs)}"
            )


@_parts.part("state dict and depth", "sizes", "deepest")
def read_off(sizes: object, deepest: object, thorough: bool = False) -> None:
    """Check the hyperparameters from a state dict, and the number of layers for a budget."""
    _topic.examine("sizes", sizes, thorough)
    open_call.once(_expect_three_compared, sizes)
    _topic.examine("deepest", deepest, thorough)


# Part 6


def _of_truth_values(answer: Any, inputs: Inputs) -> Any:
    """Return the two masks as tensors of 1 and 0, if they are tensors of True and False."""
    names = ("tgt_mask", "src_key_padding_mask")
    found = []
    for name, mask in zip(names, expect_pair(answer, names, inputs), strict=True):
        if type(mask) is not Tensor or mask.dtype == torch.bool:
            found.append(mask.float() if type(mask) is Tensor else mask)
            continue
        why = " PyTorch adds a floating-point mask to the scores." * mask.is_floating_point()
        raise CheckFailed(
            f"  Expected {name} as a tensor of True and False, got {mask.dtype}.{why}\n"
            f"{describe(inputs)}"
        )
    return found


def _of_hidden(got: Any, recorded: Recorded) -> str:
    return "a mask hides other positions than it should. Below, 1 is True (hidden) and 0 is False."


@_parts.part("parameters of nn.Transformer", "from_pytorch", "masks_for_pytorch")
def from_pytorch(converted: object, masks_for_pytorch: object, thorough: bool = False) -> None:
    """Check parameters converted from PyTorch's Transformer, and masks for it."""
    cases = _topic.recording("from_pytorch", thorough).cases
    for each in open_call.new_cases("from_pytorch", cases):
        (right,) = each.expected.values()
        _expect_converted(converted, right, each.case.inputs)
    # Of the last model, with more layers: an index may have two digits.
    state = each.case.inputs["state"]
    _expect_converted(converted, _with_eleven_layers(right), {"state": _with_eleven_layers(state)})
    rules: dict[str, Any] = {"tidy": _of_truth_values, "explain": _of_hidden}
    _topic.examine("masks_for_pytorch", masks_for_pytorch, thorough, **rules)


def _with_eleven_layers(state: State) -> State:
    """Return a state with eleven layers in each stack; those added have the values of the first."""
    return state | {
        name.replace(".0.", f".{number}."): tensor
        for name, tensor in state.items()
        for number in range(1, 11)
    }


def _expect_converted(converted: object, right: State, inputs: Inputs) -> None:
    answer = call_twice(converted, inputs)
    if not isinstance(answer, dict):
        raise CheckFailed(
            f"  from_pytorch: expected a dict of tensors, got {kind_of(answer)}\n{describe(inputs)}"
        )
    for name in answer:
        if name not in right:
            raise CheckFailed(
                f"  from_pytorch: our stacks have no parameter {name!r}. The most similar name "
                f"is {nearest(str(name), right)!r}.\n{describe(inputs)}"
            )
    for name in right:
        if name not in answer:
            raise CheckFailed(f"  from_pytorch: {name!r} is missing.\n{describe(inputs)}")
    for name, tensor in right.items():
        got = in_32_bits(answer[name])
        if isinstance(got, Tensor) and not torch.equal(got, tensor):
            why = mistaken(name, got, right, inputs["state"])
            if why:
                raise CheckFailed(f"  from_pytorch: {why}\n{describe(inputs)}")
        expect_equal(got, tensor, name, inputs)
