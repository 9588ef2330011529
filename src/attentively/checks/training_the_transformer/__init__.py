"""Checks of the assignment on training: loss, schedule, batches, training step, and two problems.

Parts 1 to 4 rebuild the training code of the package, and a student's step must train a Transformer
of the package. Parts 5 and 6 are original problems: part 5 asks for the faults of recorded training
runs, part 6 for two values that are known before any training.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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
)
from attentively.checks.named_cases import expect_all, named_cases, near
from attentively.checks.recording_model import (
    RecordingModel,
    RecordingOptimizer,
    examine_number,
    examine_rate,
    examine_reading,
    examine_update,
    refused,
    shortened,
)
from attentively.checks.training_the_transformer.learning_rates import RATE_TWINS, rate
from attentively.checks.training_the_transformer.recorded_runs import (
    CHECKED,
    SHOWN,
    SIGNS,
    fault_of,
    logs,
    runs_of,
    show_log,
    table,
)
from attentively.checks.training_the_transformer.token_limits import (
    CUT_TWINS,
    PADDING_TWINS,
    Sizes,
    cut,
    fixed,
    padding,
)
from attentively.data import toy
from attentively.data.batches import Example, collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.models.interface import evaluating
from attentively.models.transformer import Transformer, TransformerConfig
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary, WordTokenizer
from attentively.training.losses import cross_entropy

__all__ = [
    "batching",
    "diagnosis",
    "fault_of",
    "logs",
    "loss_on_new_sentences",
    "once_solved",
    "prediction",
    "progress",
    "ready",
    "schedule",
    "sentences",
    "show_log",
    "smoothing",
    "training",
    "untrained",
]

Inputs = Mapping[str, Any]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Report that the package, its toy sentences and these checks work."""
    _parts.explain_undefined_names()
    count = sum(each.numel() for each in untrained().parameters())
    print(f"PyTorch {torch.__version__}. The small Transformer has {count:,} parameters.")
    print(f"Ids: <pad> {PAD_ID}, <start> {START_ID}, <end> {END_ID}. Ready.")


@cache
def _tokenizers() -> tuple[WordTokenizer, WordTokenizer]:
    src, tgt = (WordTokenizer(Vocabulary(toy.words(side))) for side in ("src", "tgt"))
    return src, tgt


def sentences(split: str, number: int, clauses: tuple[int, ...] = (1,)) -> list[Example]:
    """Return toy sentence pairs as token ids: `.src` and `.tgt`."""
    pairs = toy.load(split, number, clauses=clauses)
    return encode_pairs([Pair(pair.src_text, pair.tgt_text) for pair in pairs], *_tokenizers())


def untrained(seed: int = 0, d_model: int = 32) -> Transformer:
    """Return a small untrained Transformer with the vocabulary of the toy language."""
    src, tgt = _tokenizers()
    config = TransformerConfig(
        src_vocab_size=len(src), tgt_vocab_size=len(tgt), d_model=d_model, num_heads=4,
        d_ff=2 * d_model, num_layers=1, dropout=0.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)


def loss_on_new_sentences(model: Transformer) -> float:
    """Return the cross-entropy of 200 validation sentences, in nats per token."""
    batch = collate(sentences("validation", 200))
    with evaluating(model):
        logits = model(batch.src, batch.tgt[:, :-1])
    return float(cross_entropy(logits, batch.tgt[:, 1:], PAD_ID))


# Part 1

_OTHERS = (
    "The smoothing is spread over the other tokens only. Spread it over the whole vocabulary, "
    "including the correct token."
)
_WITHOUT_PAD = (
    "The padding token receives no share of the smoothing, as in some implementations. Here it is "
    "an ordinary token: spread the smoothing over the whole vocabulary."
)
_EXCHANGED = "smoothing and 1 - smoothing are exchanged."


def _taught(
    targets: Tensor, vocab_size: int, smoothing: float, *,
    kept: Callable[[float], float] = lambda s: 1 - s,
    spread: Callable[[float, int], float] = lambda s, k: s / k,
    right_too: bool = True, without: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Return the smoothed target distribution; each keyword is what a mistake may change."""
    one_hot = F.one_hot(targets, vocab_size).float()
    rest = torch.full(one_hot.shape, spread(smoothing, vocab_size))
    rest[..., list(without)] = 0.0
    if not right_too:
        rest = rest * (1 - one_hot)
    return kept(smoothing) * one_hot + rest


_TAUGHT_WAYS: dict[str, list[dict[str, Any]]] = {
    _OTHERS: [{"spread": lambda s, k: s / (k - 1), "right_too": False}],
    "The probabilities do not sum to 1: the correct token receives no share of the smoothing.":
        [{"right_too": False}],
    "The probabilities do not sum to 1: the correct token keeps 1. It keeps 1 - smoothing, and "
    "receives its share of the smoothing.":
        [{"kept": lambda s: 1.0}],
    "Every token receives the whole smoothing. Divide it: smoothing / vocab_size for each token.":
        [{"spread": lambda s, k: s}, {"spread": lambda s, k: s, "right_too": False}],
    _EXCHANGED: [{"kept": lambda s: s, "spread": lambda s, k: (1 - s) / k}],
    "Nothing is smoothed: the correct token has the probability 1.":
        [{"kept": lambda s: 1.0, "spread": lambda s, k: 0.0}],
    "The smoothing is divided by vocab_size - 1, but all vocab_size tokens receive a share.":
        [{"spread": lambda s, k: s / (k - 1)}],
    "The probabilities do not sum to 1: the smoothing that the correct token loses is given to no "
    "token.":
        [{"spread": lambda s, k: 0.0}],
    _WITHOUT_PAD: [
        {"spread": lambda s, k: s / (k - 2), "right_too": False, "without": [PAD_ID]},
        {"spread": lambda s, k: s / (k - 1), "without": [PAD_ID]},
        {"without": [PAD_ID]},
    ],
}  # fmt: skip


def _mean_loss(
    logits: Tensor, targets: Tensor, pad_id: int, smoothing: float, *,
    taught: Callable[[Tensor, int, float], Tensor] = _taught,
    surprise: Callable[[Tensor, float], Tensor] = lambda logits, _: -logits.log_softmax(-1),
    over: Callable[[Tensor, Tensor], Tensor] = lambda losses, real: losses[real].mean(),
    pad: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the smoothed loss; each keyword is what a mistake may change."""
    vocab_size = logits.size(-1)
    losses = (taught(targets, vocab_size, smoothing) * surprise(logits, smoothing)).sum(dim=-1)
    return over(losses, targets != (pad_id if pad is None else pad))


_PADDING_COUNTED = "Padding is included in the mean. Exclude the positions whose target is pad_id."
_NO_TEACHING = "Nothing is smoothed: this is the cross-entropy without label smoothing."
_LOSS_WAYS: dict[str, list[dict[str, Any]]] = {
    _PADDING_COUNTED: [{"over": lambda losses, real: losses.mean()}],
    "Padding is excluded from the sum, but included in the divisor. Divide by the number of "
    "targets that are not padding.":
        [{"over": lambda losses, real: losses[real].sum() / real.numel()}],
    "This is a sum, so its gradient would grow with the batch. Return the mean.":
        [{"over": lambda losses, real: losses[real].sum()}],
    "This is the mean of the sentences' means. Take one mean over all targets of the batch.":
        [{"over": lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()}],
    "The sum is divided by the number of sentences. Divide by the number of targets that are not "
    "padding.":
        [{"over": lambda losses, real: losses[real].sum() / len(real)}],
    f"Padding is recognised by the id {PAD_ID}. Use the id that is given: pad_id.":
        [{"pad": PAD_ID}],
    "The sign is missing: the loss is *minus* the sum, and positive.":
        [{"surprise": lambda logits, _: logits.log_softmax(-1)}],
    "The logarithm is missing: the loss contains the logarithms of the probabilities.":
        [{"surprise": lambda logits, _: -logits.softmax(-1)}],
    "The softmax is missing: these are logits, not log-probabilities.":
        [{"surprise": lambda logits, _: -logits}],
    "The softmax is taken over the positions. Take it over the vocabulary: dim=-1.": [
        {"surprise": lambda logits, _: -logits.log_softmax(1)},
        {"surprise": lambda logits, _: -logits.log_softmax(0)},
    ],
    "The logarithm has base 2, so the loss is in bits. Use the natural logarithm.":
        [{"surprise": lambda logits, _: -logits.log_softmax(-1) / math.log(2)}],
    "The softmax is applied twice.":
        [{"surprise": lambda logits, _: -logits.softmax(-1).log_softmax(-1)}],
    "The predicted distribution is smoothed. Smooth the target distribution instead.": [
        {"taught": partial(_taught, kept=lambda s: 1.0, spread=lambda s, k: 0.0),
         "surprise": lambda logits, s:
             -((1 - s) * logits.softmax(-1) + s / logits.size(-1)).log()},
    ],
    "The mean is taken over the vocabulary too. Sum over the vocabulary, then take the mean over "
    "the targets.":
        [{"taught": lambda targets, k, s: _taught(targets, k, s) / k}],
    _NO_TEACHING: [{"taught": partial(_taught, kept=lambda s: 1.0, spread=lambda s, k: 0.0)}],
    **{said: [{"taught": partial(_taught, **way)} for way in ways]
       for said, ways in _TAUGHT_WAYS.items() if not said.startswith("Nothing")},
}  # fmt: skip

_DIVERGENCE = Twin(
    "smoothed_loss: This is F.kl_div, the Kullback-Leibler divergence, which subtracts a constant "
    "from the cross-entropy. Return the cross-entropy.",
    lambda logits, *given: _mean_loss(logits, *given) - _best(given[-1], logits.size(-1))[0],
)
_NOTHING_AT_PADDING = Twin(
    "smoothed_targets: The distribution at padding is 0. Padding is an ordinary token here; "
    "smoothed_loss excludes it.",
    lambda targets, *given: _taught(targets, *given) * (targets != PAD_ID).unsqueeze(-1),
)


@_parts.part(
    "label smoothing",
    "smoothed_targets",
    "smoothed_loss",
    rebuilds=("attentively.training.losses:cross_entropy",),
    refuses=("torch.nn.functional:cross_entropy",),
)
def smoothing(smoothed_targets: object, smoothed_loss: object, thorough: bool = False) -> None:
    """Check the smoothed target distribution, and the smoothed loss without padding."""
    asked = [(torch.tensor([2]), 4, 0.2), (torch.tensor([[4, 1, 0], [3, 3, 2]]), 5, 0.1)]
    asked += [(torch.tensor([[1]]), 3, 0.0)]
    if thorough:
        asked += [(torch.randint(11, (3, 7)), 11, 0.3), (torch.randint(5, (2, 2, 2)), 7, 0.05)]
    for case in asked:
        inputs: dict[str, Any] = dict(
            zip(("targets", "vocab_size", "smoothing"), case, strict=True)
        )
        expect_equal(
            in_32_bits(call_twice(smoothed_targets, inputs)), _taught(*case),
            "the distributions", inputs,
            [Twin(f"smoothed_targets: {said}", partial(_taught, **way))
             for said, ways in _TAUGHT_WAYS.items() for way in ways] + [_NOTHING_AT_PADDING],
            hint="Return a distribution for each target: a last axis of size vocab_size.",
        )  # fmt: skip
    by_hand = torch.tensor([[[1 / 8, 1 / 2, 1 / 4, 1 / 8]]]).log()
    batches = [
        (by_hand, torch.tensor([[1]]), 3, 0.2),
        (2 * torch.randn(2, 3, 5), torch.tensor([[4, 1, 2], [3, 0, 0]]), 0, 0.1),
        (2 * torch.randn(2, 3, 5), torch.tensor([[4, 2, 2], [0, 1, 2]]), 2, 0.4),
        (2 * torch.randn(1, 2, 5), torch.tensor([[4, 1]]), 0, 0.0),
        (400 * torch.randn(1, 2, 5), torch.tensor([[4, 1]]), 0, 0.1),
    ]
    if thorough:
        targets = torch.randint(1, 5, (3, 7)) * (torch.arange(7) < torch.tensor([[7], [2], [4]]))
        batches += [(torch.randn(3, 7, 5), targets, 0, 0.2)]
    for logits, targets, pad_id, share in batches:
        inputs = {"logits": logits, "targets": targets, "pad_id": pad_id, "smoothing": share}
        answer = in_32_bits(call_twice(smoothed_loss, inputs))
        right = _mean_loss(*inputs.values())
        far = type(answer) is Tensor and answer.shape == right.shape and logits.abs().max() > 100
        if far and not torch.allclose(cast(Tensor, answer).float(), right, 1e-4):
            raise CheckFailed(
                "  smoothed_loss: For logits that are far apart, softmax returns 0, whose "
                "logarithm is -inf; adding a small constant gives a wrong loss. log_softmax "
                f"computes both at once.\n{describe(inputs)}\n  got         {answer}\n"
                f"  expected    {right}"
            )
        expect_equal(
            answer, right, "the loss", inputs,
            [Twin(f"smoothed_loss: {said}", partial(_mean_loss, **way))
             for said, ways in _LOSS_WAYS.items() for way in ways] + [_DIVERGENCE],
        )  # fmt: skip
    logits.requires_grad_()
    expect_gradients_through(smoothed_loss, inputs, {"logits": logits})


# Part 2


@_parts.part(
    "learning-rate schedule",
    "learning_rate",
    rebuilds=(
        "attentively.training.schedules:inverse_square_root",
        "attentively.training.schedules:paper_learning_rate",
    ),
)
def schedule(learning_rate: object, thorough: bool = False) -> None:
    """Check the learning rate of single steps: worked by hand, during the warm-up and after it."""
    cases = [(step, 4, 4) for step in (1, 4, 16)]
    cases += [(step, 512, 4000) for step in (1, 100, 3999, 4000, 4001, 100_000)]
    if thorough:
        cases += [(step, 7, w) for w in (1, 11, 300) for step in (1, 5, 11, 299, 1000)]
    asked = named_cases(("step", "d_model", "warm_up_steps"), cases)
    expect_all(learning_rate, asked, rate, "the learning rate", RATE_TWINS, near)


# Part 3


@_parts.part(
    "batches by tokens",
    "token_batches",
    "padding_share",
    rebuilds=("attentively.data.batches:shuffled",),
    step=True,
)
def batching(token_batches: object, padding_share: object, thorough: bool = False) -> None:
    """Check batches with a token limit, and the share of padding in given batches."""
    generator = torch.Generator().manual_seed(3)

    def drawn(number: int, longest: int) -> Sizes:
        pairs = torch.randint(1, longest + 1, (number, 2), generator=generator).tolist()
        return [(src, tgt) for src, tgt in pairs]

    cases: list[tuple[Sizes, int]] = [
        ([(2, 3), (5, 4), (3, 2)], 6),
        ([(3, 3), (3, 3), (3, 3)], 6),
        ([(2, 7), (6, 3), (4, 4), (1, 2), (5, 5), (2, 2)], 14),
        (drawn(13, 9), 20),
        ([(9, 9), (1, 1)], 9),
        ([(1, 4), (1, 4), (4, 1), (4, 1)], 4),
    ]
    if thorough:
        cases += [(drawn(101, 30), limit) for limit in (30, 97, 10_000)]
        cases += [([(4, 1)], 4)]
    expect_all(
        token_batches, named_cases(("sizes", "limit"), cases), cut, "the batches", CUT_TWINS,
        lambda got, right: _as_batches(got) == right, _what_is_off,
    )  # fmt: skip
    given: list[tuple[list[list[int]], Sizes]] = [
        ([[0, 2], [1]], [(2, 3), (5, 4), (3, 2)]),
        ([[0, 1, 2], [3]], [(2, 7), (6, 3), (4, 4), (1, 2)]),
        ([[2, 0], [3, 1]], [(1, 9), (8, 2), (3, 3), (2, 6)]),
    ]
    if thorough:
        sizes = drawn(40, 17)
        given += [(cut(sizes, 60), sizes), (fixed(sizes, 60), sizes), ([[0], [1]], sizes)]
    asked = named_cases(("batches", "sizes"), given)
    expect_all(padding_share, asked, padding, "the share", PADDING_TWINS, near)


def _as_batches(answer: object) -> object:
    """Accept batches that are tuples, arrays or tensors of whole numbers."""
    try:
        return [[_as_index(index) for index in batch] for batch in cast(Any, answer)]
    except TypeError:
        return answer


def _as_index(index: object) -> object:
    number = plain_number(getattr(index, "item", lambda: index)())
    return index if number is None else number


def _what_is_off(answer: object, sizes: Sizes, limit: int) -> str:
    """Return which property of the batches is violated, if no known mistake explains them."""
    try:
        batches = [[int(index) for index in batch] for batch in cast(Any, answer)]
        found = sorted(index for batch in batches for index in batch)
        if found != list(range(len(sizes))):
            return "Each index must be in exactly one batch."
        for batch in batches:
            needed = len(batch) * max(max(sizes[index]) for index in batch)
            if needed > limit:
                return f"The batch {batch} needs {needed} positions; the limit is {limit}."
    except (TypeError, ValueError, IndexError):
        return "Expected a list of lists of indices."
    return "Begin with the shortest pair; a new batch begins only if the next pair does not fit."


# Part 4

Pair_ = tuple[Tensor, Tensor]


def _small_model(dropout: float = 0.0) -> Transformer:
    """Return an untrained Transformer of 13 tokens whose logits are far from equal."""
    config = TransformerConfig(
        src_vocab_size=13, tgt_vocab_size=13, d_model=8, num_heads=2, d_ff=11, num_layers=1,
        dropout=dropout,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Transformer(config).eval()
        with torch.no_grad():
            model.output.weight.mul_(3.0)
    return model


def _part(lengths: Sequence[tuple[int, int]], seed: int) -> Pair_:
    """Return random sentences with these numbers of words on each side, plus special tokens."""
    generator = torch.Generator().manual_seed(seed)

    def row(length: int) -> list[int]:
        return torch.randint(4, 13, (length,), generator=generator).tolist()

    pairs = [Example([*row(s), END_ID], [START_ID, *row(t), END_ID]) for s, t in lengths]
    batch = collate(pairs)
    return batch.src, batch.tgt


def _said(model: Any, parts: Sequence[Pair_]) -> list[tuple[Tensor, Tensor]]:
    """Return the logits and labels of every part."""
    found = []
    for src, tgt in parts:
        logits = model(src, tgt[:, :-1])
        found.append((logits, tgt[:, 1:]))
    return found


def _over_parts(
    said: Sequence[tuple[Tensor, Tensor]], smoothing: float, *,
    pad_id: int = PAD_ID, weigh: Callable[[list[int]], list[float]] | None = None,
    count: Callable[[Tensor], int] | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean over all labels of all parts; keywords are what a mistake may change."""
    counts = [count(labels) if count else int((labels != pad_id).sum()) for _, labels in said]
    weights = weigh(counts) if weigh else [each / sum(counts) for each in counts]
    losses = [cross_entropy(logits, labels, pad_id, smoothing) for logits, labels in said]
    return torch.stack([w * loss for w, loss in zip(weights, losses, strict=True)]).sum()


_STEP_WAYS: dict[str, dict[str, Any]] = {
    "the mean of the parts' means is taken, so a part with few labels counts as much as one with "
    "many. Weight each part by its share of all labels.":
        {"weigh": lambda counts: [1 / len(counts)] * len(counts)},
    "the parts are weighted by their numbers of sentences. Weight each part by its share of all "
    "labels that are not padding.": {"count": len},
    "the parts are weighted by their numbers of positions, padding included. Weight each part by "
    "its share of all labels that are not padding.": {"count": torch.numel},
    "the means of the parts are added. Weight each part by its share of all labels.":
        {"weigh": lambda counts: [1.0] * len(counts)},
    "only the last part counts. Is the loss reset, or zero_grad called, for every part?":
        {"weigh": lambda counts: [0.0] * (len(counts) - 1) + [1.0]},
    "only the last part counts, with its share. Is the loss reset, or zero_grad called, for every "
    "part?":
        {"weigh": lambda counts: [0.0] * (len(counts) - 1) + [counts[-1] / sum(counts)]},
    "only the first part counts.": {"weigh": lambda counts: [1.0] + [0.0] * (len(counts) - 1)},
    "this is the sum over all labels, not their mean.":
        {"weigh": lambda counts: [float(count) for count in counts]},
    "padding is included like real tokens.": {"pad_id": -1},
}  # fmt: skip
_IN_TURN = (
    "the gradients are clipped after each part. Accumulate the gradients of all parts first, then "
    "clip them once."
)
_LEFT = (
    "gradients of the previous step or of other code are still stored, and backward adds the new "
    "ones to them. Call optimizer.zero_grad() before backward."
)
_UNSMOOTHED = "the loss is not smoothed. Pass `smoothing` as the last argument of the loss."


@_parts.part(
    "training step",
    "update",
    "mean_weights",
    rebuilds=("attentively.models.checkpoints:mean_weights",),
    refuses=("attentively.training.trainer:Trainer",),
)
def training(update: object, mean_weights: object, thorough: bool = False) -> None:
    """Record a training step, train a Transformer with it, and check an average of states."""
    cases: list[tuple[list[list[tuple[int, int]]], float, float]] = [
        ([[(2, 3), (3, 1)]], 100.0, 0.1),
        ([[(2, 5)], [(3, 1), (1, 2), (2, 2)]], 0.05, 0.2),
    ]
    if thorough:
        cases += [([[(5, 2)], [(2, 5), (1, 1)], [(7, 3)]], 0.3, 0.0), ([[(1, 1)]], 0.01, 0.4)]
    for lengths, clip_norm, share in cases:
        _watch(update, lengths, clip_norm, share)
    _expect_same_training(update, 12 if thorough else 5)
    _expect_mean(mean_weights, thorough)


_UPDATE = ("parts", "rate", "clip_norm", "smoothing")


def _asked(candidate: object, model: object, optimizer: object) -> object:
    """Return a function that calls the candidate with model and optimizer before the rest."""
    if not callable(candidate):
        return candidate

    def step(*inputs: object) -> object:
        return candidate(model, optimizer, *inputs)

    step.__name__ = getattr(candidate, "__name__", "")
    return step


def _watch(
    candidate: object, lengths: list[list[tuple[int, int]]], clip_norm: float, share: float
) -> None:
    inside = _small_model()
    model = RecordingModel(inside)
    first, *others = inside.parameters()
    optimizer = RecordingOptimizer([[first], others], 0.5)  # two groups
    model.eval()  # as a validation leaves it
    left = [torch.randn_like(parameter) for parameter in inside.parameters()]
    for parameter, gradient in zip(inside.parameters(), left, strict=True):
        parameter.grad = gradient.clone()  # of something that came before the first step
    before: list[Tensor] = []
    for number in (1, 2):
        parts = [_part(each, 10 * number + place) for place, each in enumerate(lengths)]
        asked: dict[str, Any]
        asked = dict(zip(_UPDATE, (parts, 0.25 / number, clip_norm, share), strict=True))
        twin = _small_model()
        twin.load_state_dict(inside.state_dict())
        said = _said(twin, parts)
        right = _over_parts(said, share)
        wrong = {text: _over_parts(said, share, **way) for text, way in _STEP_WAYS.items()}
        wrong[_UNSMOOTHED] = _over_parts(said, 0.0)
        weights = list(twin.parameters())
        gradients = _gradients(right, weights)
        model.forget()
        optimizer.seen.clear()
        optimizer.rates.clear()
        answer = call(_asked(candidate, model, optimizer), asked, trains=True)
        examine_reading(model, parts, asked)
        examine_number(optimizer, asked)
        _examine_loss(answer, float(right.detach()), wrong, asked)
        mistaken = {text: _gradients(loss, weights) for text, loss in wrong.items()}
        shares = [_gradients(_over_parts(said, share, weigh=only), weights) for only in _each(said)]
        in_turn = [torch.zeros_like(gradient) for gradient in gradients]
        for piece in shares:
            added = [a + b for a, b in zip(in_turn, piece, strict=True)]
            in_turn = shortened(added, clip_norm)
        mistaken[_IN_TURN] = in_turn
        if number == 1:
            mistaken[_LEFT] = [a + b for a, b in zip(gradients, left, strict=True)]
        examine_rate(optimizer, asked["rate"], asked)
        examine_update(optimizer, gradients, before, clip_norm, asked, mistaken)
        before = optimizer.seen[0]


def _each(said: Sequence[tuple[Tensor, Tensor]]) -> list[Callable[[list[int]], list[float]]]:
    """Return, for each part, the weights that keep its share of the mean and nothing else."""

    def only(place: int, counts: list[int]) -> list[float]:
        return [count / sum(counts) * (i == place) for i, count in enumerate(counts)]

    return [partial(only, place) for place in range(len(said))]


def _gradients(loss: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(loss, list(weights), retain_graph=True, allow_unused=True)
    return [
        torch.zeros_like(weight) if gradient is None else gradient
        for weight, gradient in zip(weights, found, strict=True)
    ]


def _examine_loss(answer: object, right: float, wrong: Mapping[str, Tensor], asked: Inputs) -> None:
    if type(answer) is Tensor and answer.requires_grad:
        raise refused(
            "Loss: the returned tensor still holds the computation graph of the step, so a list of "
            "such losses would fill the memory. Return a number: .item().",
            asked,
        )
    twins = [
        Twin(f"Loss: {said}", lambda *_, loss=loss: float(loss.detach()))
        for said, loss in wrong.items()
    ]
    hint = "Loss: this is not the mean smoothed loss over all labels, tgt[:, 1:] without PAD_ID."
    number = plain_number(answer)
    expect_value(answer if number is None else number, right, "the loss", asked, twins, hint)


def _own_update(
    model: Any, optimizer: torch.optim.Optimizer, parts: Sequence[Pair_], rate: float,
    clip_norm: float, smoothing: float,
) -> float:  # fmt: skip
    """Perform the reference training step."""
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = _over_parts(_said(model, parts), smoothing)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
    optimizer.step()
    return loss.item()


def _expect_same_training(candidate: object, steps: int) -> None:
    """Train the package's Transformer on the toy language, and compare the losses of each step."""
    models = [untrained(d_model=16) for _ in range(2)]
    optimizers = [torch.optim.Adam(model.parameters(), betas=(0.9, 0.98)) for model in models]
    examples = sentences("train", 12 * steps)
    for step in range(1, steps + 1):
        batch = [collate(examples[12 * step - 12 + 6 * half :][:6]) for half in (0, 1)]
        parts = [(each.src, each.tgt) for each in batch]
        asked: dict[str, Any]
        asked = dict(zip(_UPDATE, (parts, 0.01 * step / steps, 1.0, 0.1), strict=True))
        expected = _own_update(models[1], optimizers[1], *asked.values())
        answer = call(_asked(candidate, models[0], optimizers[0]), asked, trains=True)
        got = plain_number(answer)
        if got is None or not math.isclose(got, expected, rel_tol=2e-3):
            expect_value(
                got, expected, f"the loss of step {step}", asked,
                hint="With your steps and Adam, the loss of a Transformer of the package differs "
                "from its loss with the package's own steps.",
            )  # fmt: skip


_MEAN_WAYS: dict[str, Callable[[Sequence[dict[str, Tensor]]], dict[str, Tensor]]] = {
    "This is the sum, not the mean.": lambda states: _mixed(states, lambda each: each.sum(0)),
    "These are the parameters of the last state only.": lambda states: dict(states[-1]),
    "These are the parameters of the first state only.": lambda states: dict(states[0]),
    "Each state is averaged with the mean so far, so the last one counts most. Add all states, "
    "then divide by their number.": lambda states: _halved(states),
    "One value is returned for a whole tensor. Average the states entry by entry: dim=0 of the "
    "stack.": lambda states: _mixed(states, lambda each: each.mean()),
    "The divisor is too small by one.":
        lambda states: _mixed(states, lambda each: each.sum(0) / (len(each) - 1)),
    "The sum is divided by 5. Divide it by the number of states.":
        lambda states: _mixed(states, lambda each: each.sum(0) / 5),
    "Only the first two states are averaged.": lambda states: _mixed(states[:2], _mean),
    "This is the median, not the mean.":
        lambda states: _mixed(states, lambda each: each.median(0).values),
}  # fmt: skip


def _mean(stacked: Tensor) -> Tensor:
    return stacked.mean(dim=0)


def _mixed(
    states: Sequence[dict[str, Tensor]], how: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    return {name: how(torch.stack([state[name] for state in states])) for name in states[0]}


def _halved(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    found = dict(states[0])
    for state in states[1:]:
        found = {name: (found[name] + state[name]) / 2 for name in found}
    return found


def _expect_mean(candidate: object, thorough: bool) -> None:
    paper = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 8.0]), torch.tensor([5.0, 2.0])]
    cases = [[{"scale": each} for each in paper]]
    names = {"output.weight": (3, 2), "layers.0.bias": (5,), "scale": ()}
    for number in (4, *([1, 7] if thorough else [])):
        cases.append([{n: torch.randn(s) for n, s in names.items()} for _ in range(number)])
    for states in cases:
        inputs = {"states": states}
        answer = call_twice(candidate, inputs)
        if not isinstance(answer, dict):
            raise CheckFailed(
                f"  mean_weights: Expected a dict from names to tensors, got "
                f"{type(answer).__name__}\n{describe(inputs)}"
            )
        if set(answer) != set(states[0]):
            raise CheckFailed(
                "  mean_weights: The names differ from those of the states.\n"
                f"{describe(inputs)}\n  got         {list(answer)}\n  expected    {list(states[0])}"
            )
        for name, right in _mixed(states, _mean).items():
            twins = [
                Twin(f"mean_weights: {said}", lambda states, way=way, name=name: way(states)[name])
                for said, way in _MEAN_WAYS.items()
            ]
            expect_equal(in_32_bits(answer[name]), right, f"{name!r}", inputs, twins)


# Part 5


@_parts.part("diagnosing training faults", "diagnose")
def diagnosis(diagnose: object, thorough: bool = False) -> None:
    """Check the diagnosis of recorded runs, with other seeds and sizes than those shown."""
    for fault, log in runs_of(SHOWN if thorough else CHECKED):
        answer = call_twice(diagnose, {"log": log})
        if answer == fault and isinstance(answer, str):
            continue
        if not isinstance(answer, str) or answer not in SIGNS:
            names = ", ".join(map(repr, SIGNS))
            raise CheckFailed(f"  diagnose: Expected one of {names}; got {answer!r}")
        lines = [
            f"  diagnose returns {answer!r} for a run whose fault is {fault!r}. In its log, "
            f"{SIGNS[fault]}",
            *table(log)[:: 1 if len(log) < 6 else 3],
        ]
        raise CheckFailed("\n".join(lines))


# Part 6


def _best(smoothing: float, vocab_size: int) -> tuple[float, float]:
    """Return the lowest smoothed loss, and the perplexity of a model that reaches it."""
    right, other = 1 - smoothing + smoothing / vocab_size, smoothing / vocab_size
    loss = -right * math.log(right)
    if other:
        loss -= (vocab_size - 1) * other * math.log(other)
    return loss, 1 / right


def _right(s: float, k: int) -> float:
    return 1 - s + s / k


_LOWEST_TWINS = [
    *known(
        "at_best: The loss cannot fall to 0. With the probability 1 for the correct token, the "
        "other tokens have 0, and each of them has a positive target probability.",
        lambda s, k: 0.0,
    ),
    *known(
        "at_best: Only the correct token is counted. Each other token has the target probability "
        "smoothing / vocab_size and contributes to the loss too.",
        lambda s, k: -math.log(_right(s, k)),
        lambda s, k: -_right(s, k) * math.log(_right(s, k)),
        lambda s, k: -math.log(1 - s),
    ),
    *known(
        "at_best: The correct token has the probability 1 - smoothing here, and the others share "
        "the rest. The smoothing is spread over all tokens, including the correct one.",
        lambda s, k: -(1 - s) * math.log(1 - s) - s * math.log(s / (k - 1)),
    ),
    *known(
        "at_best: This is the loss of a model for which all tokens are equally probable. The best "
        "model predicts the target distribution.",
        lambda s, k: math.log(k),
    ),
    *known(
        "at_best: Only one other token is counted. There are vocab_size - 1 of them.",
        lambda s, k: -_right(s, k) * math.log(_right(s, k)) - s / k * math.log(s / k),
    ),
    *known(
        "at_best: vocab_size other tokens are counted. There are vocab_size - 1 of them.",
        lambda s, k: -_right(s, k) * math.log(_right(s, k)) - s * math.log(s / k),
    ),
    *known(
        "at_best: The logarithm has base 2, so the loss is in bits. Return nats.",
        lambda s, k: _best(s, k)[0] / math.log(2),
    ),
    *known("at_best: The sign of the loss is wrong.", lambda s, k: -_best(s, k)[0]),
    *known("at_best: The two results are exchanged.", lambda s, k: _best(s, k)[1]),
]
_PERPLEXITY_TWINS = [
    *known(
        "at_best: This is e to the smoothed loss. The perplexity is measured without smoothing: it "
        "depends on the probability of the correct token only.",
        lambda s, k: math.exp(_best(s, k)[0]),
    ),
    *known(
        "at_best: A perplexity of 1 requires the probability 1 for the correct token, and this "
        "model predicts less.",
        lambda s, k: 1.0,
    ),
    *known(
        "at_best: The correct token receives a share of the smoothing too: 1 - smoothing + "
        "smoothing / vocab_size.",
        lambda s, k: 1 / (1 - s),
    ),
    *known(
        "at_best: This is the probability of the correct token. The perplexity is its inverse.",
        lambda s, k: _right(s, k),
    ),
    *known(
        "at_best: This is the negative log-probability of the correct token. The perplexity is e "
        "to this value.",
        lambda s, k: -math.log(_right(s, k)),
    ),
]


def _kept(
    rate: float, d_model: int, warm_up_steps: int, *,
    first: Callable[[float], float] = math.ceil, last: Callable[[float], float] = math.floor,
    more: int = 1, scale: Callable[[int], float] = lambda d: d**0.5, least: int | None = 0,
    whole: Callable[[float], int] = int,
) -> int:  # fmt: skip
    """Return how many steps have this rate or more; keywords are what a mistake may change."""
    rises = first(rate * scale(d_model) * warm_up_steps**1.5)
    falls = last((rate * scale(d_model)) ** -2)
    found = whole(falls - rises + more)
    return found if least is None else max(least, found)


_KEPT_TWINS = [
    *known(
        "steps_at: All steps of the warm-up are counted. The first ones have a lower learning "
        "rate.",
        lambda r, d, w: _kept(r, d, w, first=lambda _: 1),
        lambda r, d, w: math.floor((r * d**0.5) ** -2),
    ),
    *known(
        "steps_at: Only steps of the warm-up are counted. After the warm-up, the learning rate "
        "decays and is still high enough for some steps.",
        lambda r, d, w: w - math.ceil(r * d**0.5 * w**1.5) + 1,
        lambda r, d, w: w - math.ceil(r * d**0.5 * w**1.5),
    ),
    *known(
        "steps_at: Only the steps after the warm-up are counted. The last steps of the warm-up "
        "have a sufficient learning rate too.",
        lambda r, d, w: math.floor((r * d**0.5) ** -2) - w,
        lambda r, d, w: math.floor((r * d**0.5) ** -2) - w + 1,
    ),
    *known(
        "steps_at: This is one step too few: from step 3 to step 5 there are three steps.",
        lambda r, d, w: _kept(r, d, w, more=0),
        lambda r, d, w: _kept(r, d, w, first=math.floor, more=0),
    ),
    *known(
        "steps_at: This is one step too many. A step with a lower learning rate does not count: "
        "round up where the rate rises and down where it falls.",
        lambda r, d, w: _kept(r, d, w, first=math.floor),
        lambda r, d, w: _kept(r, d, w, last=math.ceil),
        lambda r, d, w: _kept(r, d, w, more=2),
    ),
    *known(
        "steps_at: The length of the interval is rounded. Round each of its ends: up where the "
        "rate rises, down where it falls.",
        *(partial(_kept, first=float, last=float, more=0, whole=each) for each in (round, int)),
    ),
    *known(
        "steps_at: d_model is ignored. It multiplies every learning rate by d_model^(-0.5).",
        lambda r, d, w: _kept(r, d, w, scale=lambda d: 1.0),
    ),
    *known(
        "steps_at: d_model is used without its square root.",
        lambda r, d, w: _kept(r, d, w, scale=float),
    ),
    *known(
        "steps_at: The learning rate never reaches `rate`, so there are 0 such steps.",
        lambda r, d, w: _kept(r, d, w, least=None),
    ),
]


def _one_of_best(place: int, smoothing: float, vocab_size: int) -> float:
    return _best(smoothing, vocab_size)[place]


def _one_of_pair(place: int, answer: object, inputs: Inputs) -> object:
    return expect_pair(answer, ("loss", "perplexity"), inputs)[place]


@_parts.part("predictions before training", "at_best", "steps_at")
def prediction(at_best: object, steps_at: object, thorough: bool = False) -> None:
    """Check the lowest smoothed loss, its perplexity, and the steps above a learning rate."""
    shares = [(0.5, 2), (0.1, 5000), (0.1, 37000), (0.0, 7)]
    shares += [(0.9, 11), (0.3, 3), (0.01, 10**6)] if thorough else []
    asked = named_cases(("smoothing", "vocab_size"), shares)
    for place, what, twins in (
        (0, "the lowest loss", _LOWEST_TWINS),
        (1, "the perplexity", _PERPLEXITY_TWINS),
    ):
        expect_all(
            at_best, asked, partial(_one_of_best, place), what, twins, near,
            pick=partial(_one_of_pair, place),
        )  # fmt: skip
    rates = named_cases(
        ("rate", "d_model", "warm_up_steps"), _ASKED_RATES + _FURTHER_RATES * thorough
    )
    expect_all(
        steps_at, rates, _kept, "the number of steps", _KEPT_TWINS,
        lambda got, right: plain_number(got) == right,
    )  # fmt: skip


_ASKED_RATES = [
    (0.2, 4, 4),
    (0.3, 4, 4),
    (5e-4, 512, 4000),
    (2e-4, 512, 4000),
    (7.1e-4, 512, 4000),
    (0.011, 7, 300),
]
_FURTHER_RATES = [(2e-3, 128, 1000), (2e-4, 1024, 8000), (0.4, 1, 3), (1.0, 2, 5)]
_FURTHER_RATES += [(1e-4, 512, 4000)]  # long after the hundred thousandth step
"""None of these rates is that of a step itself, but for rounding."""
