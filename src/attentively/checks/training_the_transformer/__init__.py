"""Checks of the assignment on training: smoothing, warm-up, batches, the step, runs gone wrong.

Parts 1 to 4 rebuild what the package trains with, and at last a student's step trains a
Transformer of the package. The answers to parts 5 and 6 stand nowhere: part 5 asks what was wrong
with trainings that were recorded with a fault, part 6 for what can be known before any training.
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
    """Say that the package, its sentences and these checks work."""
    _parts.explain_undefined_names()
    count = sum(each.numel() for each in untrained().parameters())
    print(f"PyTorch {torch.__version__}. The Transformer to train has {count:,} parameters.")
    print(f"The ids: PAD {PAD_ID}, START {START_ID}, END {END_ID}. Ready.")


@cache
def _tokenizers() -> tuple[WordTokenizer, WordTokenizer]:
    src, tgt = (WordTokenizer(Vocabulary(toy.words(side))) for side in ("src", "tgt"))
    return src, tgt


def sentences(split: str, number: int, clauses: tuple[int, ...] = (1,)) -> list[Example]:
    """Return toy sentences with their translations, as ids: `.src` and `.tgt`."""
    pairs = toy.load(split, number, clauses=clauses)
    return encode_pairs([Pair(pair.src_text, pair.tgt_text) for pair in pairs], *_tokenizers())


def untrained(seed: int = 0, d_model: int = 32) -> Transformer:
    """Return a small Transformer that knows the words of the toy language, and nothing else."""
    src, tgt = _tokenizers()
    config = TransformerConfig(
        src_vocab_size=len(src), tgt_vocab_size=len(tgt), d_model=d_model, num_heads=4,
        d_ff=2 * d_model, num_layers=1, dropout=0.0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)


def loss_on_new_sentences(model: Transformer) -> float:
    """Return the mean surprise at the true next words of 200 sentences kept apart (nats)."""
    batch = collate(sentences("validation", 200))
    with evaluating(model):
        logits = model(batch.src, batch.tgt[:, :-1]).logits
    return float(cross_entropy(logits, batch.tgt[:, 1:], PAD_ID))


# Part 1

_OTHERS = (
    "The rest is spread over the other words only. It is spread over all of the vocabulary, the "
    "right word included."
)
_WITHOUT_PAD = (
    "The padding token gets nothing of the rest, as in some programs. Here it is a word like the "
    "others: the rest is spread over all of the vocabulary."
)
_EXCHANGED = "smoothing and 1 - smoothing have changed places."


def _taught(
    targets: Tensor, vocab_size: int, smoothing: float, *,
    kept: Callable[[float], float] = lambda s: 1 - s,
    spread: Callable[[float, int], float] = lambda s, k: s / k,
    right_too: bool = True, without: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Return the distribution that is taught; each keyword is what a mistake may change."""
    one_hot = F.one_hot(targets, vocab_size).float()
    rest = torch.full(one_hot.shape, spread(smoothing, vocab_size))
    rest[..., list(without)] = 0.0
    if not right_too:
        rest = rest * (1 - one_hot)
    return kept(smoothing) * one_hot + rest


_TAUGHT_WAYS: dict[str, list[dict[str, Any]]] = {
    _OTHERS: [{"spread": lambda s, k: s / (k - 1), "right_too": False}],
    "The numbers do not sum to 1: the right word gets its share of the rest too.":
        [{"right_too": False}],
    "The numbers do not sum to 1: the right word keeps 1 - smoothing, and gets its share.":
        [{"kept": lambda s: 1.0}],
    "Every word gets all of the smoothing. It is shared out: smoothing / vocab_size each.":
        [{"spread": lambda s, k: s}, {"spread": lambda s, k: s, "right_too": False}],
    _EXCHANGED: [{"kept": lambda s: s, "spread": lambda s, k: (1 - s) / k}],
    "Nothing is smoothed: the right word has all of it.":
        [{"kept": lambda s: 1.0, "spread": lambda s, k: 0.0}],
    "The rest is spread over vocab_size - 1 words, and the right word gets of it too.":
        [{"spread": lambda s, k: s / (k - 1)}],
    "The numbers do not sum to 1: what the right word gives away goes to no word.":
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


_PADDING_COUNTED = "Padding is counted like a word. Leave the places out whose target is pad_id."
_NO_TEACHING = "Nothing is smoothed: this is the plain cross-entropy."
_LOSS_WAYS: dict[str, list[dict[str, Any]]] = {
    _PADDING_COUNTED: [{"over": lambda losses, real: losses.mean()}],
    "Padding adds nothing above the line, but is counted below: divide by the number of words.":
        [{"over": lambda losses, real: losses[real].sum() / real.numel()}],
    "This is a sum. Its gradient would grow with the batch; take the mean.":
        [{"over": lambda losses, real: losses[real].sum()}],
    "This is the mean of the sentences' means. Take one mean over all words of the batch.":
        [{"over": lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()}],
    "The sum of a batch is divided by the number of its sentences. Divide by the number of words.":
        [{"over": lambda losses, real: losses[real].sum() / len(real)}],
    f"Padding is looked for under the id {PAD_ID}. It has the id that is given: pad_id.":
        [{"pad": PAD_ID}],
    "The sign is missing: the loss is *minus* the sum, and positive.":
        [{"surprise": lambda logits, _: logits.log_softmax(-1)}],
    "The logarithm is missing: the loss takes it of the probabilities.":
        [{"surprise": lambda logits, _: -logits.softmax(-1)}],
    "The softmax is missing: these are scores, and no logarithms of probabilities.":
        [{"surprise": lambda logits, _: -logits}],
    "The softmax goes over the places. It goes over the vocabulary: dim=-1.": [
        {"surprise": lambda logits, _: -logits.log_softmax(1)},
        {"surprise": lambda logits, _: -logits.log_softmax(0)},
    ],
    "The logarithm is to base 2, so this is in bits. Take the natural one.":
        [{"surprise": lambda logits, _: -logits.log_softmax(-1) / math.log(2)}],
    "The softmax is taken twice.":
        [{"surprise": lambda logits, _: -logits.softmax(-1).log_softmax(-1)}],
    "What the model says is smoothed. What it is taught is: the targets.": [
        {"taught": partial(_taught, kept=lambda s: 1.0, spread=lambda s, k: 0.0),
         "surprise": lambda logits, s:
             -((1 - s) * logits.softmax(-1) + s / logits.size(-1)).log()},
    ],
    "The mean goes over the vocabulary too. Over the words of the vocabulary it is a sum.":
        [{"taught": lambda targets, k, s: _taught(targets, k, s) / k}],
    _NO_TEACHING: [{"taught": partial(_taught, kept=lambda s: 1.0, spread=lambda s, k: 0.0)}],
    **{said: [{"taught": partial(_taught, **way)} for way in ways]
       for said, ways in _TAUGHT_WAYS.items() if not said.startswith("Nothing")},
}  # fmt: skip

_DIVERGENCE = Twin(
    "smoothed_loss: This is F.kl_div: the loss less the lowest it can be. Leave nothing out.",
    lambda logits, *given: _mean_loss(logits, *given) - _best(given[-1], logits.size(-1))[0],
)
_NOTHING_AT_PADDING = Twin(
    "smoothed_targets: At padding nothing is taught. It is a word here; the loss leaves it out.",
    lambda targets, *given: _taught(targets, *given) * (targets != PAD_ID).unsqueeze(-1),
)


@_parts.part("label smoothing", "smoothed_targets", "smoothed_loss")
def smoothing(smoothed_targets: object, smoothed_loss: object, thorough: bool = False) -> None:
    """Check the distribution that is taught, and the loss against it without padding."""
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
            hint="One distribution for each target: a further axis of vocab_size numbers.",
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
                "  smoothed_loss: Of scores far apart softmax gives a 0, whose logarithm is -inf, "
                "and a small number in place of the 0 gives a wrong loss. log_softmax takes both "
                f"steps at once.\n{describe(inputs)}\n  got         {answer}\n  expected    {right}"
            )
        expect_equal(
            answer, right, "the loss", inputs,
            [Twin(f"smoothed_loss: {said}", partial(_mean_loss, **way))
             for said, ways in _LOSS_WAYS.items() for way in ways] + [_DIVERGENCE],
        )  # fmt: skip
    logits.requires_grad_()
    expect_gradients_through(smoothed_loss, inputs, {"logits": logits})


# Part 2


@_parts.part("the warm-up", "learning_rate")
def schedule(learning_rate: object, thorough: bool = False) -> None:
    """Check the learning rate of single steps: by hand, in the warm-up, after it."""
    cases = [(step, 4, 4) for step in (1, 4, 16)]
    cases += [(step, 512, 4000) for step in (1, 100, 3999, 4000, 4001, 100_000)]
    if thorough:
        cases += [(step, 7, w) for w in (1, 11, 300) for step in (1, 5, 11, 299, 1000)]
    asked = named_cases(("step", "d_model", "warm_up_steps"), cases)
    expect_all(learning_rate, asked, rate, "the learning rate", RATE_TWINS, near)


# Part 3


@_parts.part("batches by tokens", "token_batches", "padding_share")
def batching(token_batches: object, padding_share: object, thorough: bool = False) -> None:
    """Check batches that a limit of tokens cuts, and the padding in batches that are given."""
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
    """Let batches pass that come as tuples, arrays or tensors of whole numbers."""
    try:
        return [[_as_index(index) for index in batch] for batch in cast(Any, answer)]
    except TypeError:
        return answer


def _as_index(index: object) -> object:
    number = plain_number(getattr(index, "item", lambda: index)())
    return index if number is None else number


def _what_is_off(answer: object, sizes: Sizes, limit: int) -> str:
    """Say which promise of a batch is broken, if that can be seen without knowing the mistake."""
    try:
        batches = [[int(index) for index in batch] for batch in cast(Any, answer)]
        found = sorted(index for batch in batches for index in batch)
        if found != list(range(len(sizes))):
            return "Each index stands in one batch, once."
        for batch in batches:
            needed = len(batch) * max(max(sizes[index]) for index in batch)
            if needed > limit:
                return f"The batch {batch} takes {needed} positions, more than {limit}."
    except (TypeError, ValueError, IndexError):
        return "Expected a list of lists of indices."
    return "Shortest first; a new batch begins only where the next sentence does not fit."


# Part 4

Pair_ = tuple[Tensor, Tensor]


def _small_model(dropout: float = 0.0) -> Transformer:
    """Return an untrained Transformer of 13 words whose scores are far from equal."""
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
    """Return random sentences of so many words on each side, special tokens added."""
    generator = torch.Generator().manual_seed(seed)

    def row(length: int) -> list[int]:
        return torch.randint(4, 13, (length,), generator=generator).tolist()

    pairs = [Example([*row(s), END_ID], [START_ID, *row(t), END_ID]) for s, t in lengths]
    batch = collate(pairs)
    return batch.src, batch.tgt


def _said(model: Any, parts: Sequence[Pair_]) -> list[tuple[Tensor, Tensor]]:
    """Return scores and labels of every part."""
    found = []
    for src, tgt in parts:
        logits = model(src, tgt[:, :-1]).logits
        found.append((logits, tgt[:, 1:]))
    return found


def _over_parts(
    said: Sequence[tuple[Tensor, Tensor]], smoothing: float, *,
    pad_id: int = PAD_ID, weigh: Callable[[list[int]], list[float]] | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean over all targets of all parts; keywords are what a mistake may change."""
    counts = [int((labels != pad_id).sum()) for _, labels in said]
    weights = weigh(counts) if weigh else [count / sum(counts) for count in counts]
    losses = [cross_entropy(logits, labels, pad_id, smoothing) for logits, labels in said]
    return torch.stack([w * loss for w, loss in zip(weights, losses, strict=True)]).sum()


_STEP_WAYS: dict[str, dict[str, Any]] = {
    "the mean of the parts' means is taken. A part with few words then counts as much as one with "
    "many: weigh each with its share of all words.":
        {"weigh": lambda counts: [1 / len(counts)] * len(counts)},
    "the means of the parts are added up. Weigh each with its share of all words.":
        {"weigh": lambda counts: [1.0] * len(counts)},
    "only the last part is left. Does the loss, or zero_grad, begin anew with every part?":
        {"weigh": lambda counts: [0.0] * (len(counts) - 1) + [1.0]},
    "only the last part is left, with its share. Does the loss, or zero_grad, begin anew with "
    "every part?":
        {"weigh": lambda counts: [0.0] * (len(counts) - 1) + [counts[-1] / sum(counts)]},
    "only the first part is read.": {"weigh": lambda counts: [1.0] + [0.0] * (len(counts) - 1)},
    "this is a sum over all words, not their mean.":
        {"weigh": lambda counts: [float(count) for count in counts]},
    "padding is counted like words.": {"pad_id": -1},
}  # fmt: skip
_IN_TURN = (
    "the gradients are shortened after each part. Add up those of all parts first, then shorten "
    "them once."
)
_LEFT = (
    "the gradients of the step before are still there, or others left by something else, and "
    "backward adds to them. Call optimizer.zero_grad() before backward."
)
_UNSMOOTHED = "nothing is smoothed: the last argument of the loss is `smoothing`."


@_parts.part("the training step", "update", "mean_weights")
def training(update: object, mean_weights: object, thorough: bool = False) -> None:
    """Watch a step of training; let it train a Transformer; check the mean of some weights."""
    cases: list[tuple[list[list[tuple[int, int]]], float, float]] = [
        ([[(2, 3), (3, 1)]], 100.0, 0.1),
        ([[(2, 5)], [(3, 1), (1, 2)]], 0.05, 0.2),
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
            "Loss: what is returned still holds the whole graph of its step, and a log of such "
            "losses fills the memory. Return a number: .item().",
            asked,
        )
    twins = [
        Twin(f"Loss: {said}", lambda *_, loss=loss: float(loss.detach()))
        for said, loss in wrong.items()
    ]
    hint = "Loss: it is not the smoothed mean over all labels: tgt[:, 1:] where it is not PAD_ID."
    number = plain_number(answer)
    expect_value(answer if number is None else number, right, "the loss", asked, twins, hint)


def _own_update(
    model: Any, optimizer: torch.optim.Optimizer, parts: Sequence[Pair_], rate: float,
    clip_norm: float, smoothing: float,
) -> float:  # fmt: skip
    """Make one step of training; a student's are compared with it."""
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
    """Train the package's Transformer on the toy language: the losses fall as they do with ours."""
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
                hint="In a Transformer of the package, trained by Adam, the loss falls otherwise "
                "than by the package's own steps.",
            )  # fmt: skip


_MEAN_WAYS: dict[str, Callable[[Sequence[dict[str, Tensor]]], dict[str, Tensor]]] = {
    "This is the sum, not the mean.": lambda states: _mixed(states, lambda each: each.sum(0)),
    "These are the last weights alone.": lambda states: dict(states[-1]),
    "These are the first weights alone.": lambda states: dict(states[0]),
    "Each state halves what came before, so the last one counts most. All count alike: add them "
    "up, then divide by their number.": lambda states: _halved(states),
    "One number is returned for all of a tensor. Take the mean place by place, dim=0 of the stack.":
        lambda states: _mixed(states, lambda each: each.mean()),
    "The divisor is too small by one.":
        lambda states: _mixed(states, lambda each: each.sum(0) / (len(each) - 1)),
    "The sum is divided by 5. Divide it by the number of the states.":
        lambda states: _mixed(states, lambda each: each.sum(0) / 5),
    "The first two weights alone have entered.": lambda states: _mixed(states[:2], _mean),
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
                "  mean_weights: The names are not those of the states.\n"
                f"{describe(inputs)}\n  got         {list(answer)}\n  expected    {list(states[0])}"
            )
        for name, right in _mixed(states, _mean).items():
            twins = [
                Twin(f"mean_weights: {said}", lambda states, way=way, name=name: way(states)[name])
                for said, way in _MEAN_WAYS.items()
            ]
            expect_equal(in_32_bits(answer[name]), right, f"{name!r}", inputs, twins)


# Part 5


@_parts.part("runs gone wrong", "diagnose")
def diagnosis(diagnose: object, thorough: bool = False) -> None:
    """Ask for the fault of recorded runs, of other seeds and sizes than those shown."""
    for fault, log in runs_of(SHOWN if thorough else CHECKED):
        answer = call_twice(diagnose, {"log": log})
        if answer == fault and isinstance(answer, str):
            continue
        if not isinstance(answer, str) or answer not in SIGNS:
            names = ", ".join(map(repr, SIGNS))
            raise CheckFailed(f"  Expected one of {names}; got {answer!r}")
        lines = [
            f"  A run that you call {answer!r} is {fault!r}. In its log {SIGNS[fault]}",
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
        "at_best: The loss cannot fall to 0: a model that is certain pays dearly for every other "
        "word, each of which is taught a little.",
        lambda s, k: 0.0,
    ),
    *known(
        "at_best: Only the right word is counted. Each other word is taught smoothing / vocab_size "
        "too, and has its surprise.",
        lambda s, k: -math.log(_right(s, k)),
        lambda s, k: -_right(s, k) * math.log(_right(s, k)),
        lambda s, k: -math.log(1 - s),
    ),
    *known(
        "at_best: Here the model gives the right word 1 - smoothing, and the others the rest "
        "among them. The rest is spread over all words, the right one too.",
        lambda s, k: -(1 - s) * math.log(1 - s) - s * math.log(s / (k - 1)),
    ),
    *known(
        "at_best: This is the loss of a model that finds all words alike. The best one says what "
        "is taught.",
        lambda s, k: math.log(k),
    ),
    *known(
        "at_best: One other word is counted. There are vocab_size - 1 of them.",
        lambda s, k: -_right(s, k) * math.log(_right(s, k)) - s / k * math.log(s / k),
    ),
    *known(
        "at_best: vocab_size other words are counted beside the right one; there is one less.",
        lambda s, k: -_right(s, k) * math.log(_right(s, k)) - s * math.log(s / k),
    ),
    *known(
        "at_best: The logarithm is to base 2, so this is in bits. Nats are asked for.",
        lambda s, k: _best(s, k)[0] / math.log(2),
    ),
    *known("at_best: The sign is turned.", lambda s, k: -_best(s, k)[0]),
    *known("at_best: The two numbers have changed places.", lambda s, k: _best(s, k)[1]),
]
_PERPLEXITY_TWINS = [
    *known(
        "at_best: This is e to the smoothed loss. A perplexity is measured without smoothing: it "
        "asks for the true word alone.",
        lambda s, k: math.exp(_best(s, k)[0]),
    ),
    *known(
        "at_best: A perplexity of 1 would take certainty, and this model is not certain.",
        lambda s, k: 1.0,
    ),
    *known(
        "at_best: The right word gets its share of the rest too: 1 - smoothing + smoothing / "
        "vocab_size.",
        lambda s, k: 1 / (1 - s),
    ),
    *known(
        "at_best: This is the probability of the true word. The perplexity is one over it.",
        lambda s, k: _right(s, k),
    ),
    *known(
        "at_best: This is the surprise at the true word. The perplexity is e to that.",
        lambda s, k: -math.log(_right(s, k)),
    ),
]


def _kept(
    rate: float, d_model: int, warm_up_steps: int, *,
    first: Callable[[float], float] = math.ceil, last: Callable[[float], float] = math.floor,
    more: int = 1, scale: Callable[[int], float] = lambda d: d**0.5, least: int | None = 0,
    whole: Callable[[float], int] = int,
) -> int:  # fmt: skip
    """Return how many steps have such a rate or more; keywords are what a mistake may change."""
    rises = first(rate * scale(d_model) * warm_up_steps**1.5)
    falls = last((rate * scale(d_model)) ** -2)
    found = whole(falls - rises + more)
    return found if least is None else max(least, found)


_KEPT_TWINS = [
    *known(
        "steps_at: The steps of the rise are counted from the first on. In the beginning the rate "
        "is still lower.",
        lambda r, d, w: _kept(r, d, w, first=lambda _: 1),
        lambda r, d, w: math.floor((r * d**0.5) ** -2),
    ),
    *known(
        "steps_at: Only the steps of the warm-up are counted. After it the rate falls, and is high "
        "enough for a while yet.",
        lambda r, d, w: w - math.ceil(r * d**0.5 * w**1.5) + 1,
        lambda r, d, w: w - math.ceil(r * d**0.5 * w**1.5),
    ),
    *known(
        "steps_at: Only the steps after the warm-up are counted. At its end the rate is high "
        "enough already.",
        lambda r, d, w: math.floor((r * d**0.5) ** -2) - w,
        lambda r, d, w: math.floor((r * d**0.5) ** -2) - w + 1,
    ),
    *known(
        "steps_at: This is one step too few: from step 3 to step 5 there are three of them.",
        lambda r, d, w: _kept(r, d, w, more=0),
        lambda r, d, w: _kept(r, d, w, first=math.floor, more=0),
    ),
    *known(
        "steps_at: This is one step too many. A step whose rate is lower does not count: round up "
        "where the rate rises and down where it falls.",
        lambda r, d, w: _kept(r, d, w, first=math.floor),
        lambda r, d, w: _kept(r, d, w, last=math.ceil),
        lambda r, d, w: _kept(r, d, w, more=2),
    ),
    *known(
        "steps_at: The length of the span is rounded. Round each of its ends: up where the rate "
        "rises, down where it falls.",
        *(partial(_kept, first=float, last=float, more=0, whole=each) for each in (round, int)),
    ),
    *known(
        "steps_at: d_model is forgotten. The whole curve is lower by its root.",
        lambda r, d, w: _kept(r, d, w, scale=lambda d: 1.0),
    ),
    *known(
        "steps_at: d_model is taken without its root.",
        lambda r, d, w: _kept(r, d, w, scale=float),
    ),
    *known(
        "steps_at: The rate never gets so high, so there are 0 such steps.",
        lambda r, d, w: _kept(r, d, w, least=None),
    ),
]


def _one_of_best(place: int, smoothing: float, vocab_size: int) -> float:
    return _best(smoothing, vocab_size)[place]


def _one_of_pair(place: int, answer: object, inputs: Inputs) -> object:
    return expect_pair(answer, ("loss", "perplexity"), inputs)[place]


@_parts.part("predict", "at_best", "steps_at")
def prediction(at_best: object, steps_at: object, thorough: bool = False) -> None:
    """Check what is known before any training: a floor of the loss, the length of a schedule."""
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
