"""Load reference weights into a student's module, and use it inside the trained translator.

The checks of the whole Transformer load the weights by the names of the parameters, and compare
what the student's module then outputs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from attentively.checks import (
    CheckFailed,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients_through,
    in_32_bits,
    known,
)
from attentively.checks.trained_translator import TRANSFORMER, trained
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import TransformerConfig
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory

Inputs = Mapping[str, Any]
State = dict[str, Tensor]

NEARLY_ALL = 0.9999999
"""A rate with which dropout leaves nothing; with a rate of 1, its formula divides 0 by 0."""


def shaken(module: nn.Module) -> nn.Module:
    """Change every parameter: at birth gains are 1, shifts and biases 0, and hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.eval()


def state_of(module: nn.Module) -> State:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def part_of(state: State, name: str) -> State:
    """Return the weights of one part of a module."""
    whole = f"{name}."
    return {key.removeprefix(whole): each for key, each in state.items() if key.startswith(whole)}


def built(candidate: object, asked: Inputs, state: State) -> nn.Module:
    """Return the student's module, made as `asked`, with these weights; it must have them all."""
    made = call(candidate, asked)
    name = getattr(candidate, "__name__", "this")
    if not isinstance(made, nn.Module):
        raise CheckFailed(
            f"  {name} should be a class whose parent is nn.Module, so that its weights are found."
            f"\n{describe(asked)}"
        )
    if "_parameters" not in vars(made):
        raise CheckFailed(
            f"  {name}: super().__init__() comes first in __init__.\n{describe(asked)}"
        )
    found = {key: tuple(tensor.shape) for key, tensor in made.state_dict().items()}
    for key, tensor in state.items():
        if key not in found:
            if _holds_plain_tensor(made, key):
                raise CheckFailed(
                    f"  {name}: {key} is a tensor, not a parameter, so it is neither found nor "
                    f"learned. Wrap it in nn.Parameter(...).\n{describe(asked)}"
                )
            there = ", ".join(found) or "none"
            there = there if len(there) < 200 else f"{there[:200]} ..."
            raise CheckFailed(
                f"  {name} has no parameter {key}. Those that it has: {there}. The name "
                "of a module in `self` is the first word of the names of its parameters."
                f"\n{describe(asked)}"
            )
        if found[key] != tensor.shape:
            raise CheckFailed(
                f"  {name}: the shape of {key} is {found[key]}, expected {tuple(tensor.shape)}."
                f"\n{describe(asked)}"
            )
    more = [key for key in found if key not in state]
    if more:
        post = "last_norm." in more[0] and asked.get("norm") == "post"
        why = " With post-norm, nothing follows the last layer of a stack." if post else ""
        raise CheckFailed(
            f"  {name} has a parameter or buffer {more[0]} that the package's {name} does not "
            f"have.{why}\n{describe(asked)}"
        )
    named = dict(made.named_parameters(remove_duplicate=False))
    for key in state:
        if key not in named:
            raise CheckFailed(
                f"  {name}: {key} is a buffer, which no training changes. What is learned is an "
                f"nn.Parameter.\n{describe(asked)}"
            )
        twin = next((k for k in named if k != key and named[k] is named[key]), "")
        if twin:
            why = "Here each has its own parameters."
            if ".layers." in key:
                why += (
                    " Make a new layer for each, as a list comprehension does; [layer] * n holds "
                    "one layer n times."
                )
            raise CheckFailed(
                f"  {name}: {twin} and {key} are one and the same tensor. {why}\n{describe(asked)}"
            )
    made.load_state_dict(state)
    return made.eval()


def _holds_plain_tensor(made: nn.Module, key: str) -> bool:
    """Say whether the attribute of this name is a tensor that is not registered."""
    owner, _, last = key.rpartition(".")
    try:
        return isinstance(getattr(made.get_submodule(owner), last, None), Tensor)
    except AttributeError:
        return False


def run(made: nn.Module, inputs: Inputs, what: str) -> object:
    """Return what a module answers, in 32 bits, if that is no pair."""
    answer = call_twice(made, inputs)
    if isinstance(answer, tuple | list):
        raise CheckFailed(
            f"  {what} is a tensor, got a tuple. Is it what an attention returns? Then take [0]."
        )
    return in_32_bits(answer)


def expect_learned(
    made: nn.Module, inputs: Inputs, sources: Iterable[str] = (), slopes: bool = True
) -> None:
    """Let gradients reach every parameter but those that no gradient can reach, and the inputs."""
    learned = {
        name: each
        for name, each in made.named_parameters()
        if not name.endswith("key_projection.bias")  # a softmax does not notice it
    }
    given = {
        name: value.clone().requires_grad_() if name in sources else value
        for name, value in inputs.items()
    }
    asked = {**{name: given[name] for name in sources}, **learned}
    expect_gradients_through(made, given, asked, slopes=slopes)


def expect_all_dropped(name: str, made: nn.Module, inputs: Inputs, left: Tensor) -> None:
    """Require the output `left` of a layer or a stack in training, if each dropout drops it all."""
    what = f"what {name} returns in training with dropout={NEARLY_ALL}"
    got = in_32_bits(call(made.train(), inputs))
    said = f"{name}: A dropout is missing in training. Does each of its parts get `dropout`?"
    # An output of zeros means too much dropout; then the message would be wrong.
    missing = known(said, lambda *_: got) if isinstance(got, Tensor) and got.any() else []
    expect_equal(got, left, what, inputs, missing)


# In the trained translator


@dataclass(frozen=True)
class _Written:
    """The source and the prefix so far; the whole prefix is decoded again at every step."""

    ids: Tensor
    memory: Memory

    def select(self, rows: Tensor) -> Self:
        """Return the state of the chosen hypotheses."""
        memory = Memory(self.memory.outputs[rows], self.memory.mask[rows])
        return replace(self, ids=self.ids[rows], memory=memory)


class Assembled(EncoderDecoder[_Written]):
    """A student's Transformer, as what the package's searches work with."""

    def __init__(self, made: nn.Module, config: TransformerConfig) -> None:
        super().__init__()
        self.made = cast(Any, made)
        self.config = config

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        src_mask = self.source_mask(src) if src_mask is None else src_mask
        return Memory(cast(Tensor, self.made.encoder(src, src_mask)), src_mask)

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        outputs = self.made.decoder(tgt, memory.outputs, memory.mask)
        return DecoderOutput(self.made.output(outputs))

    def start(self, memory: Memory) -> _Written:
        return _Written(torch.zeros(len(memory.mask), 0, dtype=torch.long), memory)

    def step(self, token: Tensor, state: _Written) -> tuple[Tensor, _Written]:
        ids = torch.cat([state.ids, token.unsqueeze(1)], dim=1)
        logits = self.decode(ids, state.memory).logits
        return logits[:, -1], replace(state, ids=ids)


def sizes_of(config: TransformerConfig) -> dict[str, Any]:
    return {
        "src_vocab_size": config.src_vocab_size,
        "tgt_vocab_size": config.tgt_vocab_size,
        "d_model": config.d_model,
        "num_heads": config.num_heads,
        "d_ff": config.d_ff,
        "num_layers": config.num_layers,
        "dropout": config.dropout,
        "norm": config.norm,
    }


def translator(candidate: object) -> Checkpoint:
    """Return the trained Transformer's translator, its weights in the student's model."""
    checkpoint = trained(TRANSFORMER)
    config = cast(TransformerConfig, checkpoint.model.config)
    made = cast(Any, candidate)(*sizes_of(config).values()).eval()
    made.load_state_dict(checkpoint.model.state_dict())
    return replace(checkpoint, model=Assembled(made, config))
