"""Checks of the assignment on heads: masking, classification, language models, comparisons.

The answers are compared with the recordings in this folder. Code tests the parameters of the
classes, the gradients, and how `write` calls `choose`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_gradients,
    expect_gradients_through,
    expect_pair,
    in_32_bits,
    once_solved,
    open_call,
)
from attentively.checks.compare import copied, kind_of
from attentively.checks.heads_for_other_tasks.planted_batches import FAULTS, MASK_ID, batches
from attentively.checks.heads_for_other_tasks.small_models import Ranked
from attentively.checks.question import Case, Recorded, Results, learning
from attentively.checks.recordings import Topic
from attentively.checks.student_modules import built, expect_learned
from attentively.data import toy
from attentively.models.checkpoints import load_pretrained
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary, WordTokenizer

__all__ = [
    "MASK_ID",
    "audited",
    "batches",
    "belongs",
    "classifier",
    "comparison",
    "language_model",
    "lora",
    "masking",
    "once_solved",
    "progress",
    "ready",
    "recorded_runs",
    "sentences",
    "shakespeare",
    "shapes",
    "tokenizer",
]

Inputs = Mapping[str, Any]

_RECORDED = Path(__file__).with_name("recorded_comparison.json")
"""Made by tools/record_comparison.py, which describes the runs."""

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Report that the package, its sentences and these checks work."""
    _parts.explain_undefined_names()
    print(f"PyTorch {torch.__version__}. The toy language has {len(tokenizer())} English tokens.")
    print(
        f"The ids: PAD {PAD_ID}, START {START_ID}, END {END_ID}; words from {END_ID + 1} on. Ready."
    )


def tokenizer() -> WordTokenizer:
    """Return the tokenizer of the English sentences of the toy language."""
    return WordTokenizer(Vocabulary(toy.words("src")))


def sentences(split: str, number: int, clauses: tuple[int, ...] = (1, 2)) -> list[str]:
    """Return English sentences of the toy language."""
    return [pair.src_text for pair in toy.load(split, number, clauses=clauses)]


def belongs(text: str) -> bool:
    """Return whether an English sentence belongs to the toy language."""
    try:
        toy.translate(text)
    except ValueError:
        return False
    return True


def _fresh(inputs: Inputs) -> dict[str, Any]:
    """Return new arguments for one call."""
    return {name: copied(value) for name, value in inputs.items()}


# Part 1


@_parts.part(
    "masking tokens",
    "choose",
    "hide",
    rebuilds=("attentively.training.objectives:take_out",),
)
def masking(choose: object, hide: object, thorough: bool = False) -> None:
    """Check which tokens are chosen, and the inputs and targets of the model."""
    _topic.examine("choose", choose, thorough)
    _topic.examine("hide", hide, thorough)


# Part 2


@_parts.part(
    "classification head",
    "Classifier",
    rebuilds=("attentively.models.encoder_heads:Classifier",),
)
def classifier(candidate: object, thorough: bool = False) -> None:
    """Check the mean of the token vectors, and the scores of the labels."""
    cases = _topic.recording("Classifier", thorough).cases
    for each in open_call.new_cases("parameters", cases):
        _classifier(candidate, each.case)
    _topic.examine("Classifier", candidate, thorough)
    open_call.once(_expect_a_learning_classifier, candidate)


def _classifier(candidate: object, case: Case) -> nn.Module:
    return built(candidate, _fresh(case.made), dict(case.weights))


def _expect_a_learning_classifier(candidate: object) -> None:
    case = _topic.recording("Classifier").cases[-1].case
    expect_learned(_classifier(candidate, case), case.inputs)


# Part 3


def _made(candidate: object, encoder: nn.Module) -> nn.Module:
    """Return the student's language model with this encoder; it adds no parameter."""
    inputs = {"encoder": encoder}
    made = call(candidate, inputs)
    if not isinstance(made, nn.Module) or "_parameters" not in vars(made):
        raise CheckFailed(
            "LanguageModel must be a class derived from nn.Module, and its __init__ must begin "
            "with super().__init__()."
        )
    given = {id(each) for each in encoder.parameters()}
    held = {id(each): name for name, each in made.named_parameters()}
    more = [name for each, name in held.items() if each not in given]
    if more:
        raise CheckFailed(
            f"  LanguageModel has a parameter of its own, {more[0]}. Its head adds none: the "
            "score of a token is computed with its row of encoder.input.embedding.table.weight."
        )
    if given - set(held):
        raise CheckFailed(
            "LanguageModel does not store its encoder, so its parameters would not be trained. "
            "Set self.encoder = encoder."
        )
    return made.eval()


def _expect_a_learning_head(candidate: object) -> None:
    """Check that gradients reach all parameters, and the rows of other tokens through the head."""
    case = _topic.recording("LanguageModel").cases[0].case
    encoder, inputs = _fresh(case.made)["encoder"], case.inputs
    made = _made(candidate, encoder)
    expect_learned(made, inputs)
    table = cast(Any, encoder).input.embedding.table.weight
    (slope,) = torch.autograd.grad(made(inputs["ids"]).sum(), table)
    if not slope[START_ID].any():
        raise CheckFailed(
            "  LanguageModel: The scores are correct, but no gradient reaches the embedding "
            "matrix from the head, so the head is not trained. In forward, use "
            "encoder.input.embedding.table.weight itself, without a copy and without "
            f".detach().\n{describe(inputs)}"
        )


def _expect_choices(write: object, case: Case) -> None:
    """Check what `choose` is called with, and how often."""
    inputs = _fresh(case.inputs)
    answer = cast(Sequence[int], call(write, inputs))
    choose: Ranked = inputs["choose"]
    written = len(answer) - len(inputs["prompt"])
    with torch.no_grad():
        scores = inputs["model"](torch.tensor([inputs["prompt"]]))[0, -1]
    said = ""
    if not choose.seen:
        said = "`choose` is never called."
    elif len(choose.seen) != written:
        said = (
            f"`choose` is called {len(choose.seen)} times for {written} tokens. If it samples, a "
            "second call returns another token: call it once for each token."
        )
    elif choose.seen[0].shape != scores.shape:
        said = (
            f"`choose` gets scores of shape {tuple(choose.seen[0].shape)}, expected "
            f"{tuple(scores.shape)}: the scores of the next token only."
        )
    elif not torch.allclose(choose.seen[0].float(), scores, rtol=1e-3, atol=1e-4):
        said = (
            "`choose` does not get the unchanged scores of the model. If a softmax is needed, "
            "`choose` applies it."
        )
    if said:
        raise CheckFailed(f"  write: {said}\n{describe(case.inputs)}")


@_parts.part(
    "causal language model",
    "LanguageModel",
    "next_word_loss",
    "write",
    rebuilds=("attentively.models.language_model:LanguageModel",),
    refuses=(
        "attentively.training.losses:cross_entropy",
        "attentively.generation.search:generate",
        "attentively.generation.generate:continue_text",
    ),
)
def language_model(
    candidate: object, next_word_loss: object, write: object, thorough: bool = False
) -> None:
    """Check a causal language model, its loss, and the generation of a text."""
    cases = _topic.recording("LanguageModel", thorough).cases
    for each in open_call.new_cases("parameters", cases):
        _made(candidate, _fresh(each.case.made)["encoder"])
    _topic.examine("LanguageModel", candidate, thorough)
    open_call.once(_expect_a_learning_head, candidate)
    _topic.examine("next_word_loss", next_word_loss, thorough)
    cases = _topic.recording("next_word_loss", thorough).cases
    for each in open_call.new_cases("next_word_loss", cases):
        given = _fresh(each.case.inputs)
        answer = cast(Tensor, in_32_bits(call(next_word_loss, given)))
        expect_gradients(answer, {"the weights of the model": given["model"].table})
    _topic.examine("write", write, thorough)
    cases = _topic.recording("write", thorough).cases
    for each in open_call.new_cases("write", cases):
        if each.case.inputs["steps"]:
            _expect_choices(write, each.case)


class _Trained(nn.Module):
    """A trained encoder of the package that returns only its vectors."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.stack = decoder

    @property
    def input(self) -> nn.Module:
        """The layer that embeds the ids."""
        return cast(nn.Module, cast(Any, self.stack).input)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return cast(Tensor, self.stack(ids, mask)[0])


def shakespeare() -> tuple[nn.Module, Any]:
    """Return the encoder of the trained `shakespeare-gpt` and its tokenizer."""
    checkpoint = load_pretrained("shakespeare-gpt")
    model = cast(LanguageModel, checkpoint.model).eval()
    return _Trained(model.decoder), checkpoint.tgt_tokenizer


# Part 4


@_parts.part("heads and spans", "head", "best_span")
def shapes(head: object, best_span: object, thorough: bool = False) -> None:
    """Check the shape of each head's scores, the number of added parameters, and the best span."""
    _topic.examine("head", head, thorough)

    def pair(results: Results, inputs: Inputs) -> None:
        expect_pair(results["the span of best_span"], ("i", "j"), inputs)

    _topic.examine("best_span", best_span, thorough, properties={"": pair})


# Part 5


def _expect_names(results: Results, inputs: Inputs) -> None:
    (answer,) = results.values()
    if not isinstance(answer, list):
        raise CheckFailed(
            f"  Expected a list of names of faults, got {kind_of(answer)}\n{describe(inputs)}"
        )
    for each in answer:
        if not (type(each) is str and each in FAULTS):
            raise CheckFailed(
                f"  {each!r} is not the name of a fault. The names are "
                f"{', '.join(map(repr, FAULTS))}.\n{describe(inputs)}"
            )


def _explain_faults(got: Any, recorded: Recorded) -> str:
    """Return the sign of a fault that is missing, or that is reported without being there."""
    (right,) = recorded.expected.values()
    for name, sign in FAULTS.items():
        if name in right and name not in got:
            return f"{name!r} is missing. Its sign: {sign}"
        if name in got and name not in right:
            return f"{name!r} is reported, but these rounds do not show its sign: {sign}"
    return ""


@_parts.part("debugging masked batches", "audit")
def audited(audit: object, thorough: bool = False) -> None:
    """Check which faults are found in batches that have known faults."""
    _topic.examine(
        "audit", audit, thorough, properties={"": _expect_names}, explain=_explain_faults
    )


# Part 6


def recorded_runs() -> list[dict[str, Any]]:
    """Return the rows of recorded runs, four for each rate of each run."""
    return list(json.loads(_RECORDED.read_text(encoding="utf-8")))


def rows_of(values: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return rows of training runs from their values."""
    columns = ("begins", "labels", "seed", "rate", "epoch", "validation", "test")
    return [dict(zip(columns, each, strict=True)) for each in values]


def _expect_readings(results: Results, inputs: Inputs) -> None:
    (answer,) = results.values()
    if not isinstance(answer, dict):
        raise CheckFailed(
            "  Expected a dict, number of labels → (difference, reading), got "
            f"{kind_of(answer)}\n{describe(inputs)}"
        )
    for pair in answer.values():
        expect_pair(pair, ("difference", "reading"), inputs)


@_parts.part("comparing initialisations", "compare")
def comparison(compare: object, thorough: bool = False) -> None:
    """Check the comparison of runs with a pre-trained and a random initialisation."""
    _topic.examine("compare", compare, thorough, properties={"": _expect_readings})


# Part 7


def _expect_a_beginning(candidate: object, asked: Inputs) -> None:
    """Check what is trained, and how the update begins."""
    linear = asked["linear"]
    fresh = cast(nn.Module, call(candidate, asked))
    named = dict(fresh.named_parameters())
    down = named["down"].detach().double().nan_to_num()  # nn.Parameter(torch.empty(...)) has any
    again = cast(Any, call(candidate, asked)).down.double()
    said = ""
    if any(named[f"linear.{name}"].requires_grad for name in ("weight", "bias")):
        said = (
            "The original layer is not frozen: its weight or its bias is trained. Call "
            "linear.requires_grad_(False)."
        )
    elif not (named["down"].requires_grad and named["up"].requires_grad):
        said = "`down` or `up` is frozen. Both are trained; only the original layer is frozen."
    elif named["up"].any() and not named["down"].any():
        said = "`down` is zero and `up` is random. It must be the other way round."
    elif named["up"].any():
        share = f"its largest entry is {float(named['up'].detach().abs().max()):.3g}"
        said = f"`up` must be zero at first, so that the output does not change; {share}."
    elif not named["down"].any():
        said = (
            "`down` and `up` are both zero at first. Then neither receives a gradient. `down` must "
            "be random."
        )
    elif named["linear.weight"] is not linear.weight:
        said = "self.linear is not the given layer. Store that layer itself, without a copy."
    elif torch.equal(down, again) or torch.linalg.matrix_rank(down) < min(down.shape):
        said = (
            "`down` is not random: it is the same in every new layer, or some of its rows depend "
            "on others."
        )
    if said:
        raise CheckFailed(f"  LowRankLinear: {said}\n{describe(asked)}")


@_parts.part(
    "LoRA",
    "LowRankLinear",
    "merged_weight",
    "plan",
    rebuilds=("attentively.layers.low_rank:LowRankLinear",),
    refuses=("attentively.layers.low_rank:merge_low_rank_updates",),
)
def lora(candidate: object, merged_weight: object, plan: object, thorough: bool = False) -> None:
    """Check a low-rank update, its merged weight, and the largest rank for a budget."""
    cases = _topic.recording("LowRankLinear", thorough).cases
    for each in cases:
        built(candidate, _fresh(each.case.made), dict(each.case.weights))
        _expect_a_beginning(candidate, _fresh(each.case.made))
    _topic.examine("LowRankLinear", candidate, thorough)
    for each in cases:
        made = built(candidate, _fresh(each.case.made), dict(each.case.weights))
        trained = {name: each for name, each in made.named_parameters() if each.requires_grad}
        given = learning(each.case.inputs, "x")
        expect_gradients_through(made, given, given | trained)
    _topic.examine("merged_weight", merged_weight, thorough)

    def pair(results: Results, inputs: Inputs) -> None:
        expect_pair(results["rank, parameters"], ("rank", "parameters"), inputs)

    _topic.examine("plan", plan, thorough, properties={"": pair})
