"""Checks of the assignment on embeddings.

Parts 1, 3 and 4 rebuild functions of the package and are compared with the package; parts 1 and 3
are also used inside its models. Parts 2, 5 and 6 are original problems, and this module contains no
solution to them: answers are compared with autograd, or the inputs are constructed from a known
answer.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_gradients,
    expect_pair,
    expect_tensor,
    expect_value,
    in_turn,
    once_solved,
    plain_number,
    plain_tensor,
    show,
)
from attentively.checks.trained_translator import MODEL, expect_same_translations
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import PAD_ID
from attentively.word_vectors.skip_gram import SkipGram, context_pairs
from attentively.word_vectors.vectors import WordVectors, load_pretrained_vectors

__all__ = [
    "anatomy",
    "backward",
    "bug_hunt",
    "lookup",
    "neighbours",
    "once_solved",
    "progress",
    "ready",
    "skip_gram",
]

VECTORS = "tatoeba-english"
"""The word vectors that parts 4 and 5 examine when they are solved."""

SENTENCES = (
    "the cat drinks the milk",
    "the animal did not cross the street because it was too tired",
    "my uncle hears the small dog and the queen opens the door",
)

Inputs = Mapping[str, Tensor]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Show that the package, its trained model, its word vectors and the checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    vectors = load_pretrained_vectors(VECTORS)
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"to “{translation.text}”. {len(vectors.words):,} English words have a vector.")
    print("The set-up is complete.")


def _named(function: str, twins: Sequence[Twin]) -> list[Twin]:
    """Put the name of the function in front of each diagnosis."""
    return [
        Twin(f"{function}: {twin.diagnosis[0].lower()}{twin.diagnosis[1:]}", twin.answer)
        for twin in twins
    ]


def _random(*sizes: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*sizes)


# Part 1

_ONE_HOT_TWINS = (
    Twin(
        "The length of the vectors depends on the largest id in this call. Each vector must have "
        "vocab_size entries, one for each word of the vocabulary.",
        lambda ids, size: F.one_hot(ids).float(),
    ),
    Twin(
        "The 1 is one position too far to the left: ids are counted from 0.",
        lambda ids, size: F.one_hot((ids - 1) % size, size).float(),
    ),
    Twin(
        "The 1 is one position too far to the right: ids are counted from 0.",
        lambda ids, size: F.one_hot((ids + 1) % size, size).float(),
    ),
    Twin(
        "The vocabulary is the first axis. It must be the last axis, after the axes of ids.",
        lambda ids, size: F.one_hot(ids, size).float().movedim(-1, 0),
    ),
    Twin(
        "The vectors of several words were added, so the order of the words is lost. Return one "
        "vector for each id.",
        lambda ids, size: F.one_hot(ids, size).float().sum(dim=-2),
    ),
    Twin(
        "The axes of ids are lost. Keep them: one vector for each id, at the same position.",
        lambda ids, size: F.one_hot(ids.flatten(), size).float(),
    ),
    Twin(
        "The vector of id 0 is all zeros. In one_hot, padding is treated like any other word: its "
        "vector has a 1 as its first entry. Only the row of padding in the table is zero.",
        lambda ids, size: F.one_hot(ids, size).float() * (ids != PAD_ID).unsqueeze(-1),
    ),
    Twin(
        "0 and 1 are exchanged. A one-hot vector is 1 at the id and 0 everywhere else.",
        lambda ids, size: 1 - F.one_hot(ids, size).float(),
    ),
    Twin(
        "The entry is the id itself. It must be 1.",
        lambda ids, size: (F.one_hot(ids, size) * ids.unsqueeze(-1)).float(),
    ),
)

_LOOKUP_TWINS = (
    Twin(
        "These are the rows of the ids minus 1: ids are counted from 0.",
        lambda ids, E: E[ids - 1],
    ),
    Twin(
        "The embedding dimension is the first axis. It must be the last, after the axes of ids.",
        lambda ids, E: E[ids].movedim(-1, 0),
    ),
    Twin(
        "The axes of ids are lost. Keep them: one row for each id, at the same position.",
        lambda ids, E: E[ids.flatten()],
    ),
    Twin(
        "The rows of several words were added. Return one row for each id.",
        lambda ids, E: E[ids].sum(dim=-2),
    ),
    Twin(
        "The rows of several words were averaged. Return one row for each id.",
        lambda ids, E: E[ids].mean(dim=-2),
    ),
    Twin(
        "These are one-hot vectors. Return rows of the table.",
        lambda ids, E: F.one_hot(ids, len(E)).float(),
    ),
    Twin(
        "The rows are multiplied by √embedding_dim. The Transformer does this later; a lookup "
        "returns the rows unchanged.",
        lambda ids, E: E[ids] * E.size(1) ** 0.5,
    ),
    Twin(
        "The rows are normalised to length 1. A lookup returns them unchanged.",
        lambda ids, E: F.normalize(E[ids], dim=-1),
    ),
    Twin(
        "Every sentence received the rows of the first sentence.",
        lambda ids, E: E[ids[:1].expand_as(ids)],
    ),
)


def _random_ids(*shape: int, vocab_size: int) -> Tensor:
    """Sample ids; if there are several, one is padding and one the last of the vocabulary."""
    ids = torch.randint(0, vocab_size, shape)
    if ids.numel() > 1:
        ids.view(-1)[:2] = torch.tensor([PAD_ID, vocab_size - 1])
    return ids


@_parts.part(
    "lookup",
    "one_hot",
    "Embedding",
    rebuilds=("attentively.layers.embedding:TokenEmbedding",),
    refuses=(
        "torch.nn:Embedding",
        "torch.nn.functional:embedding",
        "torch:embedding",
        "torch.nn.functional:one_hot",
    ),
)
def lookup(one_hot: object, candidate: object, thorough: bool = False) -> None:
    """Check one-hot vectors and a class like `nn.Embedding`, finally inside trained models."""
    _check_one_hot(one_hot, thorough)
    if isinstance(candidate, nn.Module):
        raise CheckFailed("  Embedding: this is an instance. Pass the class, Embedding without ().")
    check_embedding(candidate, thorough)


def _check_one_hot(one_hot: object, thorough: bool) -> None:
    cases = [
        (torch.tensor([2, 0, 1]), 4),
        (torch.tensor([[1, 1], [0, 2]]), 5),
        (_random_ids(2, 3, 5, vocab_size=7), 7),
    ]
    if thorough:
        shapes: list[tuple[int, ...]] = [(), (7,), (3, 1, 2), (5, 2)]
        cases += [(_random_ids(*shape, vocab_size=11), 11) for shape in shapes]
    for ids, vocab_size in cases:
        inputs: dict[str, object] = {"ids": ids, "vocab_size": vocab_size}
        answer = call_twice(one_hot, inputs)
        if type(answer) is Tensor and not answer.is_floating_point():
            raise CheckFailed(
                f"  one_hot: the result is {answer.dtype}, which cannot be multiplied by a table "
                f"of 32-bit floats. Convert it with .float().\n{describe(inputs)}"
            )
        expected = torch.eye(vocab_size)[ids]
        hint = "Expected the shape of ids, followed by one axis of size vocab_size."
        twins = _named("one_hot", _ONE_HOT_TWINS)
        expect_equal(answer, expected, "one-hot vectors", inputs, twins, hint)


def check_embedding(candidate: object, thorough: bool = False) -> None:
    """Check any embedding class, including the package's own."""
    by_hand = torch.tensor([[0.0, 0.0], [0.5, -1.0], [2.0, 0.25], [-0.75, 3.0]])
    mine = _build(candidate, 4, 2)
    other = _build(candidate, 4, 2)
    _expect_good_start(mine, {"vocab_size": 4, "embedding_dim": 2}, other)
    _load(mine, by_hand)
    _expect_no_product(mine, torch.tensor([[2, 1], [3, 0]]))
    for ids in (torch.tensor([3, 1]), torch.tensor([3, 1, 0, 3]), torch.tensor([[2, 1], [3, 0]])):
        _compare_lookup(mine, ids)
    cases: list[tuple[tuple[int, ...], int, int]] = [((2, 3), 7, 5)]
    if thorough:
        cases += [((), 5, 3), ((7,), 3, 2), ((2, 3, 5), 11, 7), ((3, 1), 13, 1)]
    for shape, vocab_size, embedding_dim in cases:
        mine = _build(candidate, vocab_size, embedding_dim)
        table = _random(vocab_size, embedding_dim)
        table[PAD_ID] = 0
        _load(mine, table)
        ids = _random_ids(*shape, vocab_size=vocab_size)
        _compare_lookup(mine, ids)
        _compare_gradients(mine, ids)
    _expect_same_training(candidate)

    def put_in(model: Seq2Seq) -> None:
        for role in (model.src_embedding, model.decoder.embedding):
            table = role.table.weight
            sizes = {"vocab_size": table.size(0), "embedding_dim": table.size(1)}
            mine = cast(nn.Module, call(candidate, sizes))
            mine.load_state_dict(role.table.state_dict())
            role.table = cast(nn.Embedding, mine.eval())

    expect_same_translations(put_in, SENTENCES, "embedding")


def _build(candidate: object, vocab_size: int, embedding_dim: int) -> nn.Module:
    sizes = {"vocab_size": vocab_size, "embedding_dim": embedding_dim}
    mine = call(candidate, sizes)
    if not isinstance(mine, nn.Module):
        raise CheckFailed("  Embedding must be a class that derives from torch.nn.Module.")
    shape = (vocab_size, embedding_dim)
    weight = getattr(mine, "weight", None)
    found = {name: tuple(value.shape) for name, value in mine.named_parameters()}
    if found == {"weight": shape} and [*mine.state_dict()] == ["weight"]:
        return mine
    if "weight" not in found and isinstance(weight, Tensor):
        advice = (
            "weight is a tensor but not a parameter, so an optimiser does not find it. Use "
            "self.weight = nn.Parameter(...)."
        )
    elif found.get("weight") == shape[::-1]:
        advice = f"The shape of weight is {found['weight']}, expected a row for each word: {shape}."
    elif "weight" in found and found["weight"] != shape:
        advice = f"The shape of weight is {found['weight']}, expected {shape}: a row for each word."
    elif "weight" not in found:
        advice = f"There is no parameter weight; the parameters are {sorted(found) or 'none'}."
    else:
        others = sorted({*found, *mine.state_dict()} - {"weight"})
        advice = f"The class has more than the parameter weight: {', '.join(others)}."
    raise CheckFailed(
        f"  Embedding: {advice}\n  The check loads trained tables into your class, so it needs "
        f"exactly one parameter, weight, of shape {shape}.\n{describe(sizes)}"
    )


def _expect_good_start(mine: nn.Module, sizes: Mapping[str, int], other: nn.Module) -> None:
    table = cast(Tensor, mine.weight).detach()
    if table[PAD_ID].count_nonzero():
        raise CheckFailed(
            "  Embedding: the row of padding, row 0, is not zero at initialisation. Set it to zero "
            f"in __init__.\n{describe(sizes)}\n  got         {show(table[0])}\n"
            "  expected    zeros"
        )
    if not table.isfinite().all():
        raise CheckFailed(
            "  Embedding: some initial values are not finite. torch.empty does not initialise its "
            f"memory; use random values, torch.randn(...).\n{describe(sizes)}"
        )
    if torch.equal(table[1], table[2]):
        raise CheckFailed(
            "  Embedding: all words have the same initial vector, so a model cannot distinguish "
            f"them. Initialise the rows randomly: torch.randn(...).\n{describe(sizes)}"
        )
    if torch.equal(table, cast(Tensor, other.weight)):
        raise CheckFailed(
            "  Embedding: two instances have the same initial values. Initialise the rows "
            f"randomly, and do not set a seed.\n{describe(sizes)}\n  got         {show(table)}"
        )


class _Products(TorchFunctionMode):
    """Record whether matrices are multiplied."""

    names = frozenset({"matmul", "__matmul__", "__rmatmul__", "mm", "einsum", "linear"})

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.seen |= getattr(func, "__name__", "") in self.names
        return func(*args, **(kwargs or {}))


def _expect_no_product(mine: nn.Module, ids: Tensor) -> None:
    with _Products() as products:
        call(mine, {"ids": ids})
    if products.seen:
        raise CheckFailed(
            "  Embedding: the vectors are computed by a matrix product, and nearly all of its "
            "multiplications are by zero. Look the rows up by indexing the table instead."
            f"\n{describe({'ids': ids})}"
        )


def _load(mine: nn.Module, table: Tensor) -> None:
    mine.load_state_dict({"weight": table})


def _compare_lookup(mine: nn.Module, ids: Tensor) -> None:
    table = cast(Tensor, mine.weight).detach().clone()
    with torch.no_grad():
        answer = call_twice(mine, {"ids": ids})
    inputs = {"ids": ids, "weight": table}
    hint = "Expected the shape of ids, followed by one axis of size embedding_dim."
    twins = _named("Embedding", _LOOKUP_TWINS)
    expect_equal(answer, table[ids], "the vectors", inputs, twins, hint)
    if not torch.equal(cast(Tensor, mine.weight), table):
        raise CheckFailed(f"  Embedding: the lookup changes the table.\n{describe(inputs)}")


def _compare_gradients(mine: nn.Module, ids: Tensor) -> None:
    """Compare the gradient of the table; only rows that are looked up receive one."""
    weight = cast(nn.Parameter, mine.weight)
    mine.zero_grad()
    vectors = cast(Tensor, call(mine, {"ids": ids}))
    inputs = {"ids": ids, "weight": weight.detach()}
    if not vectors.requires_grad:
        expect_gradients(vectors, {"weight": weight})
    upstream = _random(*vectors.shape)
    call(lambda *_: vectors.backward(upstream), inputs)
    expected = _by_autograd(ids, upstream, len(weight))
    if weight.grad is None:
        raise CheckFailed(
            "  Embedding: the vectors are correct, but no gradient reaches weight, so it cannot be "
            "trained. Does your code use a copy of weight, .detach() or .data?"
            f"\n{describe(inputs)}"
        )
    got = weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
    if got[PAD_ID].count_nonzero() and not expected[PAD_ID].count_nonzero():
        raise CheckFailed(
            "  Embedding: the row of padding receives a gradient, so after one training step it is "
            "no longer zero. The result for id 0 must not depend on the table: multiply it by 0, "
            f"for example.\n{describe(inputs)}\n"
            f"  got         {show(got[PAD_ID])} for row 0\n  expected    zeros"
        )
    expect_equal(got, expected, "the gradient of weight", inputs)


def _by_autograd(
    ids: Tensor, upstream: Tensor, vocab_size: int, padding_idx: int | None = PAD_ID
) -> Tensor:
    """Return the gradient of an embedding table, computed by PyTorch."""
    table = torch.zeros(vocab_size, upstream.size(-1), requires_grad=True)
    F.embedding(ids, table, padding_idx).backward(upstream)
    return cast(Tensor, table.grad)


def _descend(model: nn.Module, loss: Tensor) -> None:
    """Take one step of gradient descent: PyTorch's optimisers take seconds to import."""
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-0.5)


def _expect_same_training(candidate: object) -> None:
    """Train the package's skip-gram with the candidate's tables, and with its own."""
    sizes = {"vocab_size": 11, "embedding_dim": 3}
    theirs, ours = SkipGram(**sizes), SkipGram(**sizes)
    nn.init.normal_(theirs.centre.table.weight[1:])
    nn.init.normal_(theirs.context.table.weight[1:])
    for role in (ours.centre, ours.context):
        role.table = cast(nn.Embedding, call(candidate, sizes))
    ours.load_state_dict(theirs.state_dict())
    batch = _random_ids(7, vocab_size=11), _random_ids(7, vocab_size=11)
    negatives = _random_ids(7, 5, vocab_size=11)
    inputs = {"centre": batch[0], "context": batch[1], "negatives": negatives}
    for model in (theirs, ours):

        def loss(*_: Tensor, model: SkipGram = model) -> object:
            return model(*inputs.values())

        for _ in range(5):
            _descend(model, cast(Tensor, call(loss, inputs)))
    what = "the package's skip-gram after five training steps with your class Embedding"
    for (name, expected), got in zip(
        theirs.state_dict().items(), ours.state_dict().values(), strict=True
    ):
        expect_equal(got, expected, f"{name} of {what}", inputs)


# Part 2


def _first_or_last(ids: Tensor, upstream: Tensor, last: bool) -> Tensor:
    """Return the gradients if each word uses only one of its positions."""
    words, rows = ids.flatten().tolist(), upstream.reshape(-1, upstream.size(-1)).clone()
    for place, word in enumerate(words):
        others = words[place + 1 :] if last else words[:place]
        if word in others:
            rows[place] = 0
    return rows.view_as(upstream)


def _times_each(ids: Tensor, vocab_size: int) -> Tensor:
    return ids.flatten().bincount(minlength=vocab_size).clamp(min=1).unsqueeze(1)


_LAST_WINS = (
    "The row of a word that occurs twice has the gradient of its last position only, because a "
    "second assignment to a row overwrites the first. Add the gradients of all positions. (With "
    "repeated indices, += also writes each row once; index_add adds all of them.)"
)
_GRADIENT_TWINS = (
    Twin(
        "The row of padding, row 0, receives a gradient. Its gradient must be zero.",
        lambda ids, G, size: _by_autograd(ids, G, size, padding_idx=None),
    ),
    Twin(_LAST_WINS, lambda ids, G, size: _by_autograd(ids, _first_or_last(ids, G, True), size)),
    Twin(
        "The row of a word that occurs twice has the gradient of its first position only. Add the "
        "gradients of all positions.",
        lambda ids, G, size: _by_autograd(ids, _first_or_last(ids, G, False), size),
    ),
    Twin(
        "The row of a word that occurs twice has the mean of the gradients of its positions. The "
        "loss depends on the row through each position, so the gradients are added.",
        lambda ids, G, size: _by_autograd(ids, G, size) / _times_each(ids, size),
    ),
    Twin(
        "The gradient is divided by the number of ids. The upstream gradient already contains any "
        "mean in the loss: add, do not divide.",
        lambda ids, G, size: _by_autograd(ids, G, size) / ids.numel(),
    ),
    Twin(
        "The gradient is divided by the number of sentences. Add, do not divide.",
        lambda ids, G, size: _by_autograd(ids, G, size) / len(ids),
    ),
    Twin(
        "Only the first sentence of the batch contributes. Add the gradients of all sentences.",
        lambda ids, G, size: _by_autograd(ids[0], G[0], size),
    ),
    Twin(
        "The sign is wrong. This is the direction of a descent step; the gradient points the "
        "opposite way.",
        lambda ids, G, size: -_by_autograd(ids, G, size),
    ),
    Twin(
        "These values count how often each word occurs. The upstream gradient is not used.",
        lambda ids, G, size: _by_autograd(ids, torch.ones_like(G), size),
    ),
    Twin(
        "The axes are exchanged: expected one row for each word, one column for each entry.",
        lambda ids, G, size: _by_autograd(ids, G, size).T,
    ),
    Twin(
        "Each gradient is one row too low: ids are counted from 0.",
        lambda ids, G, size: _by_autograd(ids, G, size).roll(1, dims=0),
    ),
    Twin(
        "Each gradient is one row too high: ids are counted from 0.",
        lambda ids, G, size: _by_autograd(ids, G, size).roll(-1, dims=0),
    ),
    Twin(
        "This is the upstream gradient, with one row for each position of the text. Return one row "
        "for each word of the vocabulary.",
        lambda ids, G, size: G,
    ),
)


def _upstream(ids: Tensor, dim: int) -> Tensor:
    return _random(*ids.shape, dim).round(decimals=1)


def _call_without_autograd(candidate: object, inputs: Mapping[str, object]) -> object:
    """Call a candidate that must compute a gradient without autograd."""
    try:
        with torch.inference_mode():  # unlike no_grad, not undone by enable_grad
            return call_twice(candidate, inputs)
    except CheckFailed as failed:
        if "does not require grad" in str(failed):
            raise CheckFailed(
                "  Compute the gradient yourself in this part. The check turns autograd off, so "
                f".backward() and torch.autograd.grad do not work.\n{failed}"
            ) from None
        raise


@_parts.part("gradient of a lookup", "table_gradient", "touched_rows")
def backward(table_gradient: object, touched_rows: object, thorough: bool = False) -> None:
    """Check the gradient of an embedding table: the whole table, and only the rows used."""
    _check_table_gradient(table_gradient, thorough)
    _check_touched_rows(touched_rows, thorough)


def _check_table_gradient(candidate: object, thorough: bool) -> None:
    cases = [
        (torch.tensor([1, 3]), torch.tensor([[1.0, -2.0], [0.5, 4.0]]), 5),
        (torch.tensor([2, 1, 2]), torch.tensor([[1.0, -2.0], [0.5, 4.0], [10.0, 20.0]]), 4),
        (torch.tensor([2, 0, 2, 0]), _upstream(torch.zeros(4), 2), 3),
        (torch.tensor([[1, 2, 2], [3, 2, 0]]), _upstream(torch.zeros(2, 3), 2), 5),
    ]
    shapes: list[tuple[int, ...]] = [(2, 3, 5)]
    if thorough:
        shapes += [(), (1,), (7, 11), (2, 3, 2, 2)]
    for shape in shapes:
        ids = _random_ids(*shape, vocab_size=7)
        cases.append((ids, _upstream(ids, 3), 7))
    for ids, upstream, vocab_size in cases:
        inputs: dict[str, object] = {"ids": ids, "upstream": upstream, "vocab_size": vocab_size}
        answer = _call_without_autograd(candidate, inputs)
        expected = _by_autograd(ids, upstream, vocab_size)
        hint = "Expected one row for each word of the vocabulary: (vocab_size, dim)."
        what = "the gradient of the table"
        twins = _named("table_gradient", _GRADIENT_TWINS)
        expect_equal(answer, expected, what, inputs, twins, hint)


_HUGE = 10**15


def _check_touched_rows(candidate: object, thorough: bool) -> None:
    cases = [
        torch.tensor([2, 5]),
        torch.tensor([3, 1, 3]),
        torch.tensor([2, 0, 4, 0, 2]),
        torch.tensor([[4, 0, 2], [2, 7, 4]]),
        torch.tensor([0, 0]),
        torch.tensor([_HUGE, 3, _HUGE]),
    ]
    if thorough:
        shapes: list[tuple[int, ...]] = [(2, 3, 5), (11,), ()]
        cases += [_random_ids(*shape, vocab_size=7) for shape in shapes]
        cases.append(torch.tensor([[_HUGE - 2, 0], [_HUGE, _HUGE - 2]]))
    for ids in cases:
        _expect_rows(candidate, ids, _upstream(ids, 2))
    # The gradients of word 2 sum to 0.
    upstream = torch.tensor([[1.0, -2.0], [0.5, 4.0], [-1.0, 2.0]])
    _expect_rows(candidate, torch.tensor([2, 5, 2]), upstream)


def _expect_rows(candidate: object, ids: Tensor, upstream: Tensor) -> None:
    inputs = {"ids": ids, "upstream": upstream}
    try:
        answer = _call_without_autograd(candidate, inputs)
    except CheckFailed as failed:
        if ids.numel() and ids.max() >= _HUGE:
            told = re.sub(r"\[enforce.*allocate memory\)", "out of memory", str(failed), flags=re.S)
            raise CheckFailed(
                "  touched_rows: ids can be very large here, and a tensor in your code is as long "
                "as the largest id. Only the words that occur may need a row. Your code stopped "
                f"with:\n{told}"
            ) from None
        if not ids.count_nonzero():
            raise CheckFailed(
                "  touched_rows: here all ids are padding. Expected empty rows of shape (0,) and "
                f"empty gradients of shape (0, dim). Your code stopped with:\n{failed}"
            ) from None
        raise
    _compare_rows(answer, inputs)


def _compare_rows(answer: object, inputs: Inputs) -> None:
    rows, gradients = expect_pair(answer, ("rows", "gradients"), inputs)
    if type(rows) is not Tensor or rows.dtype != torch.int64 or rows.ndim != 1:
        got = f"{rows.dtype} of shape {tuple(rows.shape)}" if type(rows) is Tensor else show(rows)
        raise CheckFailed(
            "  touched_rows: expected rows as a torch.Tensor of ids (torch.int64) with one axis, "
            f"got {got}.\n{describe(inputs)}"
        )
    ids, upstream = inputs.values()
    wanted = sorted({*ids.flatten().tolist()} - {PAD_ID})
    got_rows = rows.tolist()
    diagnosis = ""
    if PAD_ID in got_rows:
        diagnosis = "padding, id 0, is among the rows. It receives no gradient; leave it out."
    elif len({*got_rows}) < len(got_rows):
        diagnosis = "a row occurs twice. Return each word once, with the sum of its gradients."
    elif got_rows == [word for word in wanted if upstream[ids == word].sum(0).any()] != wanted:
        diagnosis = "a word is missing whose gradients sum to 0. It occurs, so return it."
    elif PAD_ID not in ids and got_rows == wanted[1:]:
        diagnosis = "the first row is missing. These ids contain no padding to leave out."
    elif sorted(got_rows) != wanted:
        diagnosis = "these are not the words that occur, without padding."
    elif got_rows != wanted:
        diagnosis = "the rows are not in ascending order."
    if diagnosis:
        raise CheckFailed(
            f"  touched_rows: {diagnosis}\n{describe(inputs)}\n"
            f"  got         rows {show(rows)}\n  expected    rows {wanted}"
        )
    # Autograd computes the gradients in a table that has only these rows.
    places = torch.zeros_like(ids)
    for number, word in enumerate(wanted, start=1):
        places[ids == word] = number
    size = len(wanted) + 1
    expected = _by_autograd(places, upstream, size)[1:]
    by_first_place = [*dict.fromkeys(word for word in ids.flatten().tolist() if word != PAD_ID)]

    def only(last: bool) -> Callable[..., Tensor]:
        return lambda *_: _by_autograd(places, _first_or_last(ids, upstream, last), size)[1:]

    twins = [
        Twin(_LAST_WINS, only(last=True)),
        Twin(
            "A repeated word has the gradient of its first position only. Add all positions.",
            only(last=False),
        ),
        Twin(
            "A repeated word has the mean of the gradients of its positions. Add them.",
            lambda *_: expected / _times_each(places, size)[1:],
        ),
        Twin(
            "The rows are sorted, but the gradients are not. Both must have the same order.",
            lambda *_: expected[[wanted.index(word) for word in by_first_place]],
        ),
        Twin(
            "This is the upstream gradient, with one row for each position of the text. Add the "
            "rows of each word.",
            lambda ids, G: G.reshape(-1, G.size(-1)),
        ),
    ]
    hint = "Expected one gradient for each entry of rows."
    twins = _named("touched_rows", twins)
    expect_equal(gradients, expected, "the gradients of the touched rows", inputs, twins, hint)


# Part 3


def _pair_twins() -> list[Twin]:
    def twin(diagnosis: str, keep: Callable[[int, int, list[int], int], bool]) -> Twin:
        def answer(sentence: list[int], window: int) -> list[tuple[int, int]]:
            places = range(len(sentence))
            return [
                (sentence[i], sentence[j])
                for i in places
                for j in places
                if keep(i, j, sentence, window)
            ]

        return Twin(diagnosis, answer)

    def near(i: int, j: int, window: int) -> bool:
        return 0 < abs(i - j) <= window

    return [
        twin("The centre is paired with itself.", lambda i, j, s, w: abs(i - j) <= w),
        twin(
            "Only the words after the centre are used. Those before it are context words too.",
            lambda i, j, s, w: near(i, j, w) and j > i,
        ),
        twin(
            "Only the words before the centre are used. Those after it are context words too.",
            lambda i, j, s, w: near(i, j, w) and j < i,
        ),
        twin(
            "The window ends one position too early on the right. The end of a range or slice is "
            "exclusive.",
            lambda i, j, s, w: near(i, j, w) and j - i < w,
        ),
        twin(
            "The window is one position too small on both sides.",
            lambda i, j, s, w: 0 < abs(i - j) < w,
        ),
        twin(
            "The window is one position too large on both sides.",
            lambda i, j, s, w: 0 < abs(i - j) <= w + 1,
        ),
        twin(
            "window is used for both sides together. It is the number of positions on each side.",
            lambda i, j, s, w: 0 < abs(i - j) <= w // 2,
        ),
        twin(
            "At the start of the sentence, the words before the centre are missing: position - "
            "window is negative there, and a negative index counts from the end. Use max(0, ...).",
            lambda i, j, s, w: near(i, j, w) and (j > i or i >= w),
        ),
        twin(
            "Centre words whose window extends beyond an end of the sentence are missing. They "
            "also have context words, only fewer.",
            lambda i, j, s, w: near(i, j, w) and w <= i < len(s) - w,
        ),
        twin(
            "A window wraps around from one end of the sentence to the other.",
            lambda i, j, s, w: near(i, j, w) or 0 < len(s) - abs(i - j) <= w,
        ),
        twin(
            "The first words are paired with the last ones: position - window is negative there, "
            "and a negative index counts from the end. Use max(0, ...).",
            lambda i, j, s, w: near(i, j, w) or 0 < len(s) + i - j <= w,
        ),
        twin(
            "A context word that equals the centre word is missing. Leave out the position of the "
            "centre, not all occurrences of its word.",
            lambda i, j, s, w: near(i, j, w) and s[i] != s[j],
        ),
        Twin(
            "Repeated pairs are missing. Skip-gram learns from how often two words occur together.",
            lambda s, w: [*{*context_pairs(s, w)}],
        ),
        Twin(
            "A repeated word has the context of its first position, because list.index returns "
            "only the first one. Use enumerate to visit all positions.",
            lambda s, w: [
                (word, s[j]) for word in s for j in range(len(s)) if near(s.index(word), j, w)
            ],
        ),
    ]


_PAIR_TWINS = _pair_twins()


def _agreeing(
    twins: Sequence[Twin],
    candidate: object,
    cases: Sequence[Mapping[str, object]],
    sort: bool = False,
) -> list[Twin]:
    """Return the known mistakes that give the candidate's answer in every case.

    With small inputs, lists are short and several mistakes can give the same one.
    """

    def plain(answer: object) -> object:
        answers = [
            tuple(each) if isinstance(each, list) else each
            for each in cast(Sequence[object], answer)
        ]
        return sorted(cast(list[Any], answers)) if sort else answers

    try:
        given = [plain(call(candidate, case)) for case in cases]
    except (CheckFailed, TypeError):
        return []
    return [
        twin
        for twin in twins
        if all(
            answer == plain(twin.answer(*case.values()))
            for answer, case in zip(given, cases, strict=True)
        )
    ]


def _loss(v: Tensor, u: Tensor, centre: Tensor, context: Tensor, negatives: Tensor) -> Tensor:
    seen, drawn = _scores(v, u, centre, context, negatives)
    return (-F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(dim=1)).mean()


def _scores(
    v: Tensor, u: Tensor, centre: Tensor, context: Tensor, negatives: Tensor
) -> tuple[Tensor, Tensor]:
    seen = torch.einsum("bd,bd->b", v[centre], u[context])
    return seen, torch.einsum("bd,bnd->bn", v[centre], u[negatives])


def _from_scores(formula: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda *inputs: formula(*_scores(*inputs))


_LOSS_TWINS = (
    Twin(
        "The sign of the scores of the negatives is wrong. Their term is log σ(−u·v).",
        _from_scores(lambda s, n: (-F.logsigmoid(s) - F.logsigmoid(n).sum(1)).mean()),
    ),
    Twin(
        "The sign of the score of the context word is wrong. Its term is log σ(+u·v).",
        _from_scores(lambda s, n: (-F.logsigmoid(-s) - F.logsigmoid(-n).sum(1)).mean()),
    ),
    Twin(
        "The signs of both scores are wrong. The term of the context word is log σ(+u·v), that of "
        "a negative is log σ(−u·v).",
        _from_scores(lambda s, n: (-F.logsigmoid(-s) - F.logsigmoid(n).sum(1)).mean()),
    ),
    Twin(
        "The sign of the loss is wrong. This is the log-probability, which training increases; "
        "return minus this value.",
        _from_scores(lambda s, n: (F.logsigmoid(s) + F.logsigmoid(-n).sum(1)).mean()),
    ),
    Twin(
        "The terms of the negatives are averaged. The formula sums them.",
        _from_scores(lambda s, n: (-F.logsigmoid(s) - F.logsigmoid(-n).mean(1)).mean()),
    ),
    Twin(
        "The loss of a pair is divided by 1 + k, the number of its scores (as the mean in a "
        "library's cross-entropy does). The formula sums over them.",
        _from_scores(
            lambda s, n: ((-F.logsigmoid(s) - F.logsigmoid(-n).sum(1)) / (1 + n.size(1))).mean()
        ),
    ),
    Twin(
        "The logarithm is missing: these values are −σ(u·v) − Σ σ(−u·v).",
        _from_scores(lambda s, n: (-s.sigmoid() - (-n).sigmoid().sum(1)).mean()),
    ),
    Twin(
        "The σ is missing: this loss is linear in the scores and has no minimum.",
        _from_scores(lambda s, n: (-s + n.sum(1)).mean()),
    ),
    Twin(
        "This is a softmax over the context word and the negatives. Here each word is a separate "
        "binary classification with its own σ.",
        _from_scores(
            lambda s, n: -torch.cat([s.unsqueeze(1), n], 1).log_softmax(dim=1)[:, 0].mean()
        ),
    ),
    Twin(
        "The terms of the negatives are missing.",
        _from_scores(lambda s, n: -F.logsigmoid(s).mean()),
    ),
    Twin(
        "The term of the context word is missing.",
        _from_scores(lambda s, n: -F.logsigmoid(-n).sum(1).mean()),
    ),
    Twin(
        "The losses of the pairs are summed. Return their mean.",
        _from_scores(lambda s, n: (-F.logsigmoid(s) - F.logsigmoid(-n).sum(1)).sum()),
    ),
    Twin(
        "This is the loss of each pair. Return the mean over the pairs, a tensor of shape ().",
        _from_scores(lambda s, n: -F.logsigmoid(s) - F.logsigmoid(-n).sum(1)),
    ),
    Twin(
        "Every pair uses the negatives of the first pair. Each pair has negatives of its own.",
        lambda v, u, c, o, n: _loss(v, u, c, o, n[:1].expand_as(n)),
    ),
    Twin(
        "v and u are exchanged: v contains the vectors of centre words, u those of context words "
        "and negatives.",
        lambda v, u, c, o, n: _loss(u, v, c, o, n),
    ),
    Twin(
        "All vectors are taken from v. Those of context words and negatives are in u.",
        lambda v, u, c, o, n: _loss(v, v, c, o, n),
    ),
    Twin(
        "All vectors are taken from u. Those of centre words are in v.",
        lambda v, u, c, o, n: _loss(u, u, c, o, n),
    ),
    Twin(
        "The negatives are looked up in v. Their vectors are in u, like those of context words.",
        lambda v, u, c, o, n: (
            -F.logsigmoid(_scores(v, u, c, o, n)[0])
            - F.logsigmoid(-_scores(v, v, c, o, n)[1]).sum(1)
        ).mean(),
    ),
    Twin(
        "The scores of the negatives are computed with the context word. Use the centre word.",
        lambda v, u, c, o, n: (
            -F.logsigmoid(_scores(v, u, c, o, n)[0])
            - F.logsigmoid(-_scores(u, u, o, o, n)[1]).sum(1)
        ).mean(),
    ),
    Twin(
        "The scores are cosines, because the vectors are normalised to length 1. The formula uses "
        "dot products of the vectors as they are.",
        lambda v, u, c, o, n: _loss(F.normalize(v, dim=1), F.normalize(u, dim=1), c, o, n),
    ),
)


@_parts.part(
    "skip-gram",
    "pairs",
    "loss",
    rebuilds=(
        "attentively.word_vectors.skip_gram:context_pairs",
        "attentively.word_vectors.skip_gram:SkipGram.forward",
    ),
    refuses=("attentively.word_vectors.skip_gram:SkipGram",),
)
def skip_gram(pairs: object, loss: object, thorough: bool = False) -> None:
    """Check the pairs of a window and the loss, finally inside the package's model."""
    _check_pairs(pairs, thorough)
    _check_loss(loss, thorough)
    _expect_same_model(pairs, loss)


def _check_pairs(candidate: object, thorough: bool) -> None:
    cases = [
        ([4, 7, 5], 1),
        ([4, 7, 5, 9, 8, 6], 2),
        ([4, 7, 4, 5, 4, 7], 2),
        ([4, 7], 3),
        ([4], 2),
    ]
    if thorough:
        cases += [([], 1), ([*range(1, 12)], 3), ([5, 5, 5], 1), ([3, 1, 4, 1, 5, 9, 2, 6], 7)]
    for sentence, window in cases:
        inputs: dict[str, object] = {"sentence": sentence, "window": window}
        answer = call_twice(candidate, inputs)
        expected = sorted(context_pairs(sentence, window))
        if hasattr(answer, "__next__"):
            raise CheckFailed(
                "  pairs: the result is a generator, which can be read only once. Return a list."
                f"\n{describe(inputs)}"
            )
        if not isinstance(answer, list | tuple):
            raise CheckFailed(
                f"  pairs: expected a list of pairs, got {_with_kind(answer)}.\n{describe(inputs)}"
            )
        for pair in answer:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise CheckFailed(
                    f"  pairs: expected pairs (centre, context), got {_with_kind(pair)}."
                    f"\n{describe(inputs)}"
                )
        got = [tuple(plain_number(word) for word in pair) for pair in answer]
        if not all(type(word) is int for pair in got for word in pair):
            raise CheckFailed(
                f"  pairs: a pair must contain two ids, got {show(answer[0])}.\n{describe(inputs)}"
            )
        # Their order does not matter.
        in_order = sorted(cast(list[tuple[int, int]], got))
        if in_order == expected:
            continue
        places = range(len(sentence))
        by_place = sorted((i, j) for i in places for j in places if 0 < abs(i - j) <= window)
        if in_order == by_place:
            raise CheckFailed(
                f"  pairs: these are positions in the sentence. Return the ids at these positions."
                f"\n{describe(inputs)}"
            )
        what = "the pairs (sorted, since their order does not matter)"
        longer: dict[str, object] = {"sentence": [3, 8, 3, 6, 1, 9, 2, 5, 8, 4], "window": 3}
        twins = [
            Twin(each.diagnosis, lambda s, w, each=each: sorted(each.answer(s, w)))
            for each in _agreeing(_PAIR_TWINS, candidate, [inputs, longer], sort=True)
        ]
        expect_value(in_order, expected, what, inputs, _named("pairs", twins))


def _with_kind(value: object) -> str:
    """Show a value, and name its kind if it is a tensor, which would look like a list."""
    return f"the tensor {show(value)}" if isinstance(value, Tensor) else show(value)


def _loss_inputs(vocab_size: int, dim: int, batch: int, drawn: int) -> Inputs:
    ids = torch.randint(1, vocab_size, (batch, 2 + drawn))
    return {
        "v": _random(vocab_size, dim),
        "u": _random(vocab_size, dim),
        "centre": ids[:, 0],
        "context": ids[:, 1],
        "negatives": ids[:, 2:],
    }


# σ(ln 3) = 3/4, so the first of these has the loss −ln 3/4 − ln 1/4 = 1.674.
_V = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, -1.0], [2.0, 1.0]])
_U = torch.tensor([[0.0, 0.0], [0.3, 0.7], [1.0986, 5.0], [1.0986, -1.0]])


def _check_loss(candidate: object, thorough: bool) -> None:
    def by_hand(centre: list[int], context: list[int], negatives: list[list[int]]) -> Inputs:
        ids = (torch.tensor(each) for each in (centre, context, negatives))
        return dict(zip(("v", "u", "centre", "context", "negatives"), (_V, _U, *ids), strict=True))

    stages = [
        by_hand([1], [2], [[3]]),
        by_hand([2], [3], [[1, 2]]),
        by_hand([3, 2], [1, 1], [[2, 3, 1], [3, 3, 2]]),
        _loss_inputs(13, 5, 7, 3),
    ]
    if thorough:
        sizes = [(11, 3, 5, 5), (7, 2, 1, 1), (5, 11, 3, 13)]
        stages += [_loss_inputs(*each) for each in sizes]
    for inputs in stages:
        answer = call_twice(candidate, inputs)
        hint = "Expected the mean over the pairs, a tensor of shape ()."
        twins = _named("loss", _LOSS_TWINS)
        expect_equal(answer, _loss(*inputs.values()), "the loss", inputs, twins, hint)
        _compare_loss_gradients(candidate, inputs)
    for seen, drawn in ((-120.0, 0.0), (0.0, 120.0), (-30.0, 30.0)):
        _expect_stable(candidate, seen, drawn)


def _compare_loss_gradients(candidate: object, inputs: Inputs) -> None:
    """Compare the gradients of both tables: a detached vector is not trained."""
    v, u = (inputs[name].clone().requires_grad_() for name in "vu")
    rest = [inputs[name] for name in ("centre", "context", "negatives")]

    def on_the_tables_themselves(*_: Tensor) -> object:
        return candidate(v, u, *rest)  # type: ignore[operator]

    def loss() -> Tensor:
        return cast(Tensor, call(on_the_tables_themselves, inputs))

    expect_gradients(loss(), {"v": v, "u": u})
    got = torch.autograd.grad(loss(), [v, u])
    expected = torch.autograd.grad(_loss(v, u, *rest), [v, u])
    seen, _ = _scores(v, u, *rest)
    _, drawn = _scores(v, u.detach(), *rest)
    cut = (-F.logsigmoid(seen) - F.logsigmoid(-drawn).sum(dim=1)).mean()
    (without_drawn,) = torch.autograd.grad(cut, [u])
    for name, one, other in zip("vu", got, expected, strict=True):
        if torch.allclose(one, other, 1e-3, 1e-5):
            continue
        diagnosis = f"The loss is correct, but its gradient with respect to {name} is wrong"
        if name == "u" and torch.allclose(one, without_drawn, 1e-3, 1e-5):
            diagnosis = "The loss is correct, but the vectors of the negatives receive no gradient"
        raise CheckFailed(
            f"  loss: {diagnosis[0].lower()}{diagnosis[1:]}. Does your code use .detach() or .data?"
            f"\n{describe(inputs)}"
        )


def _expect_stable(candidate: object, seen: float, drawn: float) -> None:
    inputs = {
        "v": torch.tensor([[0.0], [1.0]]),
        "u": torch.tensor([[0.0], [seen], [drawn]]),
        "centre": torch.tensor([1]),
        "context": torch.tensor([1]),
        "negatives": torch.tensor([[2]]),
    }
    got = plain_tensor(call(candidate, inputs), "the loss", inputs)
    expected = _loss(*inputs.values())
    if got.shape == expected.shape and torch.allclose(got, expected, 1e-3, 1e-3):
        return
    raise CheckFailed(
        "  loss: the value is wrong for scores far from 0. There, σ is exactly 0 or 1 in 32 bits, "
        "so its logarithm is −∞ or a bound that your code sets. F.logsigmoid computes log σ in "
        f"one step and stays exact; 1 − σ(x) is σ(−x).\n{describe(inputs)}\n"
        f"  got         {show(got)}\n  expected    {show(expected)}"
    )


def _expect_same_model(pairs: object, loss: object) -> None:
    """Train the package's model with the student's pairs and loss, and with its own."""
    sentences = [[4, 7, 5, 9, 4, 6], [5, 8, 4, 7], [9, 5, 5, 1]]

    class WithTheirLoss(SkipGram):
        def forward(self, centre: Tensor, context: Tensor, negatives: Tensor) -> Tensor:
            return cast(Any, loss)(
                self.centre.table.weight, self.context.table.weight, centre, context, negatives
            )

    def trained(kind: type[SkipGram], pairs_of: Callable[..., Any]) -> SkipGram:
        torch.manual_seed(7)
        model = kind(11, 3)
        chosen = torch.tensor([p for each in sentences for p in sorted(pairs_of(each, 2))])
        for _ in range(10):
            negatives = torch.randint(1, 11, (len(chosen), 3))
            _descend(model, model(chosen[:, 0], chosen[:, 1], negatives))
        return model

    expected = trained(SkipGram, context_pairs)
    inputs = {"sentences": sentences}
    got = call(lambda *_: trained(WithTheirLoss, cast(Any, pairs)), inputs)
    what = "the package's model, trained for ten steps with your pairs and your loss"
    expect_equal(cast(SkipGram, got).vectors, expected.vectors, what, inputs)


# Part 4

# Two-dimensional, so that they can be drawn. The longest vector is never a correct answer.
_WORDS = ("man", "woman", "king", "queen", "prince", "apple", "pear", "rock")
_PLANE = torch.tensor(
    [
        [1.0, 0.2],
        [0.9, 1.1],
        [3.0, -0.9],
        [2.2, 0.9],
        [1.5, -0.5],
        [-0.4, 1.0],
        [-1.2, 2.7],
        [-6.0, -3.0],
    ]
)


def _ranking(scores: Tensor, words: Sequence[str], left_out: Sequence[str] = ()) -> list[str]:
    order = scores.argsort(descending=True).tolist()
    return [words[index] for index in order if words[index] not in left_out]


def _neighbour_twins() -> list[Twin]:
    def twin(diagnosis: str, score: Callable[[Tensor, Tensor], Tensor]) -> Twin:
        def answer(words: Sequence[str], vectors: Tensor, word: str, count: int) -> list[str]:
            return _ranking(score(vectors, vectors[words.index(word)]), words, [word])[:count]

        return Twin(diagnosis, answer)

    def cosine(vectors: Tensor, x: Tensor) -> Tensor:
        return F.cosine_similarity(vectors, x.expand_as(vectors))

    def by_columns(words: Sequence[str], vectors: Tensor, word: str, count: int) -> list[str]:
        E = F.normalize(vectors, dim=0)
        return _ranking(E @ E[words.index(word)], words, [word])[:count]

    def one_short(words: Sequence[str], vectors: Tensor, word: str, count: int) -> list[str]:
        return _ranking(cosine(vectors, vectors[words.index(word)]), words, [word])[: count - 1]

    return [
        twin(
            "The words are ordered by the dot product, which favours long vectors. Divide by both "
            "lengths: that of the word itself does not change the order, those of the others do.",
            lambda E, x: E @ x,
        ),
        twin(
            "The words are ordered by distance. Use the cosine: vectors of the same direction but "
            "different lengths have a large distance and the cosine 1.",
            lambda E, x: -(E - x).norm(dim=1),
        ),
        twin(
            "These are the words with the smallest cosine. Start with the largest.",
            lambda E, x: -cosine(E, x),
        ),
        Twin(
            "The columns of vectors are normalised. A word is a row, so use dim=1.",
            by_columns,
        ),
        twin(
            "The sign of the cosine is lost, so opposite directions count as near.",
            lambda E, x: cosine(E, x).abs(),
        ),
        Twin(
            "There is one word too few. Leave the word itself out first, then take count words.",
            one_short,
        ),
    ]


def _analogy_twins() -> list[Twin]:
    def twin(
        diagnosis: str,
        wanted: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda a, b, c: b - a + c,
        length_1: bool = True,
        score: Callable[[Tensor, Tensor], Tensor] = lambda E, x: F.normalize(E, dim=1) @ x,
        always: bool = False,
    ) -> Twin:
        def answer(
            words: Sequence[str],
            vectors: Tensor,
            a: str,
            b: str,
            c: str,
            count: int,
            exclude: bool,
        ) -> list[str]:
            E = F.normalize(vectors, dim=1) if length_1 else vectors
            target = wanted(*(E[words.index(word)] for word in (a, b, c)))
            return _ranking(score(E, target), words, [a, b, c] * (exclude or always))[:count]

        return Twin(diagnosis, answer)

    return [
        twin(
            "This is the answer for a − b + c. Use b − a + c.",
            lambda a, b, c: a - b + c,
        ),
        twin("This is the answer for a + b − c. Use b − a + c.", lambda a, b, c: a + b - c),
        twin("This is the answer for a + b + c. Use b − a + c.", lambda a, b, c: a + b + c),
        twin("This is the word nearest to c alone. Use b − a + c.", lambda a, b, c: c),
        twin("This is the word nearest to b alone. Use b − a + c.", lambda a, b, c: b),
        twin("This is the word nearest to b − a. Use b − a + c.", lambda a, b, c: b - a),
        twin(
            "b − a + c is computed from vectors of different lengths. Normalise them to length 1 "
            "first; otherwise the longest of the three dominates the sum.",
            length_1=False,
        ),
        twin(
            "The vectors are not normalised, and the answer is chosen by the dot product, which "
            "favours long vectors.",
            length_1=False,
            score=lambda E, x: E @ x,
        ),
        twin(
            "b − a + c is correct, but the answer is chosen by the dot product with vectors that "
            "are not normalised, which favours long ones.",
            length_1=False,
            wanted=lambda a, b, c: (
                F.normalize(b, dim=0) - F.normalize(a, dim=0) + F.normalize(c, dim=0)
            ),
            score=lambda E, x: E @ x,
        ),
        twin(
            "The answer is chosen by the distance between vectors that are not normalised. Use the "
            "cosine.",
            length_1=False,
            score=lambda E, x: -(E - x).norm(dim=1),
        ),
        twin(
            "These are the words with the smallest cosine. Start with the largest.",
            score=lambda E, x: -(E @ x),
        ),
        twin(
            "The words of the question are excluded although exclude is False.",
            always=True,
        ),
    ]


@_parts.part(
    "neighbours",
    "nearest",
    "analogy",
    rebuilds=(
        "attentively.word_vectors.vectors:WordVectors.nearest",
        "attentively.word_vectors.vectors:WordVectors.analogy",
    ),
    refuses=("attentively.word_vectors.vectors:WordVectors",),
)
def neighbours(nearest: object, analogy: object, thorough: bool = False) -> None:
    """Check the nearest words and the answers to analogies."""
    _check_nearest(nearest, thorough)
    _check_analogy(analogy, thorough)


def _lexicon(num_words: int, dim: int) -> tuple[list[str], Tensor]:
    """Return invented words, and random vectors whose lengths differ widely."""
    lengths = torch.linspace(0.3, 4, num_words)[torch.randperm(num_words)]
    vectors = F.normalize(torch.randn(num_words, dim), dim=1) * lengths.unsqueeze(1)
    return [f"w{number}" for number in range(num_words)], vectors


# Two words of the same direction and different lengths: either can be first by cosine.
_ALIKE = ["kat", "cat", "dog"], torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.5, 0.5]])


def _expect_words(
    answer: object,
    expected: list[str],
    what: str,
    inputs: Mapping[str, object],
    candidate: object,
    twins: Sequence[Twin],
) -> None:
    """Compare lists of words; a tuple will do."""
    given = answer if isinstance(answer, list | tuple) else None
    diagnosis = ""
    if isinstance(answer, str) and len(expected) == 1:
        diagnosis = "expected a list of words, even if it contains only one word."
    elif given and all(type(each) is tuple for each in given):
        diagnosis = "expected the words only, without their cosines."
    elif isinstance(answer, Tensor) or (
        given and all(plain_number(each) is not None for each in given)
    ):
        diagnosis = "these are indices or other numbers. Return the words."
    if diagnosis:
        raise CheckFailed(
            f"  {what}: {diagnosis}\n{describe(inputs)}\n  got         {show(answer)}"
        )
    if answer != expected:
        cases = [inputs]
        for names in (("w1", "w2", "w3"), ("w5", "w4", "w0")):
            words, vectors = _lexicon(13, 3)
            asked: dict[str, object] = {"words": words, "vectors": vectors}
            asked |= dict(zip(("word",) if "word" in inputs else "abc", names, strict=False))
            cases.append({**inputs, **asked, "count": 9})
        twins = _agreeing(twins, candidate, cases)
    expect_value(answer, expected, f"the answer of {what}", inputs, _named(what, twins))


def _check_nearest(candidate: object, thorough: bool) -> None:
    cases = [
        ([*_WORDS], _PLANE, "king", 3),
        ([*_WORDS], _PLANE, "man", 2),
        ([*_WORDS], _PLANE, "apple", len(_WORDS) - 1),
        (*_ALIKE, "cat", 2),
        (*_ALIKE, "kat", 2),
        (*_lexicon(13, 5), "w7", 5),
    ]
    if thorough:
        cases += [(*_lexicon(*sizes), "w2", 3) for sizes in ((5, 2), (17, 3), (7, 11))]
    for words, vectors, word, count in cases:
        inputs: dict[str, object] = {
            "words": words,
            "vectors": vectors,
            "word": word,
            "count": count,
        }
        answer = call_twice(candidate, inputs)
        if isinstance(answer, list | tuple) and word in answer:
            diagnosis = (
                "the word itself is in the result. Another word has exactly the same direction "
                "here, so the word need not come first. Exclude it by its index, not as the first."
                if words == _ALIKE[0]
                else "the word itself is among its neighbours. Leave it out."
            )
            raise CheckFailed(
                f"  nearest: {diagnosis}\n{describe(inputs)}\n  got         {show(answer)}"
            )
        expected = [each.word for each in WordVectors(words, vectors).nearest(word, count)]
        _expect_words(answer, expected, "nearest", inputs, candidate, _neighbour_twins())


def _check_analogy(candidate: object, thorough: bool) -> None:
    cases = [
        ([*_WORDS], _PLANE, ("man", "king", "woman"), 1),
        ([*_WORDS], _PLANE, ("apple", "man", "pear"), 3),
        (*_lexicon(13, 5), ("w1", "w2", "w3"), 3),
        (*_lexicon(13, 5), ("w5", "w9", "w7"), 10),
    ]
    if thorough:
        cases += [(*_lexicon(*sizes), ("w0", "w4", "w2"), 2) for sizes in ((5, 2), (17, 3))]
    for words, vectors, (a, b, c), count in cases:
        for exclude in (True, False):
            inputs: dict[str, object] = {
                "words": words,
                "vectors": vectors,
                "a": a,
                "b": b,
                "c": c,
                "count": count,
                "exclude": exclude,
            }
            answer = call_twice(candidate, inputs)
            given = answer if isinstance(answer, list | tuple) else ()
            asked = [name for name in "abc" if inputs[name] in given]
            if exclude and asked:
                raise CheckFailed(
                    f"  analogy: {' and '.join(asked)} of the question is among the answers "
                    "although exclude is True. Exclude all three words.\n"
                    f"{describe(inputs)}\n  got         {show(answer)}"
                )
            right = WordVectors(words, vectors).analogy(a, b, c, count, exclude)
            expected = [each.word for each in right]
            _expect_words(answer, expected, "analogy", inputs, candidate, _analogy_twins())


# Part 5

_FAMILY = ("man", "woman", "king", "queen", "boy", "girl", "dog", "puppy")
_FAMILY_VECTORS = torch.tensor(
    [
        [1.0, -0.2],
        [-1.2, -2.2],
        [1.8, 3.0],
        [0.1, 0.8],
        [1.8, -1.7],
        [0.2, -1.4],
        [-2.2, -0.4],
        [-2.9, 0.7],
    ]
)
_COUNTS = ("asked", "skipped", "right", "right_let_in", "said_c", "right_by_c", "earned")

# Single questions: the answers, the counts that are 1, and the cause of another count.
_Single = tuple[tuple[str, str, str, str], str, set[str], dict[str, str]]
_OF_THE_FAMILY: list[_Single] = [
    (
        ("king", "queen", "boy", "girl"),
        "The nearest to queen − king + boy is boy; with the three words excluded it is girl, which "
        "is correct. The nearest to boy alone, the three excluded, is man, which is wrong.",
        {"asked", "right", "said_c", "earned"},
        {
            "right": "exclude the words of the question here; the answer is then girl",
            "right_let_in": "all words are allowed as answers here, also those of the question",
            "said_c": "if all words are allowed, the answer is boy, which is c. This count is "
            "about that answer, not about the one with the words excluded",
            "right_by_c": "the nearest word to c alone is man, which is wrong",
            "earned": "the analogy is correct and c alone is wrong, so this question counts",
        },
    ),
    (
        ("man", "woman", "dog", "puppy"),
        "The nearest to woman − man + dog is dog; with the three words excluded it is puppy, which "
        "is correct. The nearest to dog alone, the three excluded, is puppy too.",
        {"asked", "right", "said_c", "right_by_c"},
        {
            "right_by_c": "without exclusion, the nearest word to c alone is always c itself. "
            "Exclude the words of the question for c alone too",
            "earned": "c alone gives the correct word here, so this question does not count",
        },
    ),
    (
        ("boy", "girl", "man", "woman"),
        "The nearest to girl − boy + man is boy, which is a; with the three words excluded it is "
        "woman, which is correct. The nearest to man alone, the three excluded, is king.",
        {"asked", "right", "earned"},
        {
            "right": "only c is excluded, so the answer is a. Exclude all three words",
            "said_c": "if all words are allowed, the answer is boy, which is a and not c",
        },
    ),
    (
        ("dog", "puppy", "man", "woman"),
        "The nearest to puppy − dog + man is man; with the three words excluded it is king, which "
        "is wrong. The nearest to man alone, the three excluded, is boy, which is wrong too.",
        {"asked", "said_c"},
        {
            "right": "the answer king is wrong, and man is excluded as an answer",
            "earned": "c alone is wrong here, but so is the analogy. This question does not count",
        },
    ),
    (
        ("man", "woman", "boy", "girl"),
        "The nearest to woman − man + boy is woman, which is b; with the three words excluded it "
        "is girl, which is correct. The nearest to boy alone, the three excluded, is girl too.",
        {"asked", "right", "right_by_c"},
        {
            "right": "only c is excluded, so the answer is b. Exclude all three words",
            "right_by_c": "only c is excluded, so the answer is man, which is a. Exclude the same "
            "three words as for the analogy; otherwise the two cannot be compared",
            "earned": "c alone gives the correct word here, so this question does not count",
        },
    ),
    (
        ("man", "woman", "king", "queen"),
        "The nearest to woman − man + king is puppy, allowed or not. The nearest to king alone, "
        "the three words excluded, is queen.",
        {"asked", "right_by_c"},
        {
            "earned": "earned counts the questions that the analogy answers correctly and c alone "
            "does not. It is not a difference of two counts: here only c alone is correct",
            "said_c": "if all words are allowed, the answer is puppy, which is wrong but not c",
        },
    ),
    (
        ("boy", "girl", "king", "queen"),
        "The nearest to girl − boy + king is queen, allowed or not. The nearest to king alone, the "
        "three words left out, is queen too.",
        {"asked", "right", "right_let_in", "right_by_c"},
        {
            "right_let_in": "the answer is queen although all words are allowed",
            "earned": "c alone gives the correct word here, so this question does not count",
        },
    ),
    (
        ("man", "woman", "duke", "duchess"),
        "duke and duchess have no vector.",
        {"skipped"},
        {
            "asked": "a question that contains a word without a vector is skipped, not asked",
            "skipped": "a question that contains a word without a vector counts as skipped",
        },
    ),
    (
        ("man", "woman", "boy", "lass"),
        "lass has no vector, so the correct answer cannot be given.",
        {"skipped"},
        {
            "asked": "the correct answer d has no vector, so the question cannot be answered "
            "correctly. Skip it too",
            "skipped": "the correct answer d has no vector. Such a question is skipped too",
        },
    ),
]
_OF_LETTERS: _Single = (
    ("a", "b", "c", "d"),
    "The nearest to b − a + c is c; with the three words excluded it is d, which is correct. The "
    "nearest to c alone, the three excluded, is d too; b is nearer, and is one of them.",
    {"asked", "right", "said_c", "right_by_c"},
    {
        "right_by_c": "b is not excluded, and it is the nearest word to c alone. Exclude all three "
        "words of the question",
    },
)
_LETTER_VECTORS = torch.tensor([[0.0, 1.0], [1.0, 0.1], [1.0, 0.0], [1.0, 0.3]])
# Each single question, with its words and vectors in front.
_SINGLE = [
    *((_FAMILY, _FAMILY_VECTORS, *each) for each in _OF_THE_FAMILY),
    (("a", "b", "c", "d"), _LETTER_VECTORS, *_OF_LETTERS),
]
_QUESTIONS = (
    ("king", "queen", "horse", "foal"),
    ("dog", "puppy", "man", "woman"),
    ("dog", "puppy", "king", "queen"),
    ("man", "woman", "boy", "girl"),
    ("man", "woman", "dog", "puppy"),
    ("man", "woman", "duke", "duchess"),
    ("king", "queen", "man", "woman"),
    ("man", "woman", "boy", "lass"),
    ("king", "queen", "boy", "girl"),
    ("boy", "girl", "man", "woman"),
    ("man", "woman", "king", "queen"),
    ("boy", "girl", "king", "queen"),
)
# Selections of _QUESTIONS, and their counts in the order of _COUNTS.
_ASKED_TOGETHER = [
    (slice(None), (9, 3, 6, 1, 5, 5, 2)),
    (slice(3, None), (7, 2, 5, 1, 3, 4, 2)),
    (slice(None, None, 2), (5, 1, 3, 0, 4, 3, 1)),
    (slice(0, 0), (0, 0, 0, 0, 0, 0, 0)),
]
# The counts over all questions with other ways of answering.
_OTHER_WAYS: dict[tuple[int, ...], str] = {
    (9, 3, 3, 0, 6, 5, 0): "the counts are those of a − b + c. Use b − a + c",
    (9, 3, 7, 6, 1, 5, 2): "b − a + c is computed from vectors of different lengths. Normalise all "
    "vectors to length 1 before they are added, as in part 4",
    (9, 3, 5, 2, 3, 6, 1): "the vectors are not normalised before they are added or compared. "
    "Normalise them to length 1 first, as in part 4",
    (9, 3, 6, 2, 3, 6, 1): "words are compared by distance, or the vectors are not normalised. Use "
    "the cosine, as in part 4",
}


@_parts.part("protocol and baseline", "questions_from", "anatomy")
def anatomy(questions_from: object, candidate: object, thorough: bool = False) -> None:
    """Check the questions made of pairs, and the counts of their answers."""
    _check_questions(questions_from, thorough)
    for words, vectors, question, story, ones, mistakes in _SINGLE:
        expected = {name: int(name in ones) for name in _COUNTS}
        inputs = {"words": [*words], "vectors": vectors, "questions": [question]}
        _compare_counts(candidate, inputs, expected, mistakes, story)
    for chosen, counts in _ASKED_TOGETHER[: None if thorough else 1]:
        questions = [*_QUESTIONS[chosen]]
        inputs = {"words": [*_FAMILY], "vectors": _FAMILY_VECTORS, "questions": questions}
        _compare_counts(candidate, inputs, dict(zip(_COUNTS, counts, strict=True)), {}, "")


def _check_questions(candidate: object, thorough: bool) -> None:
    # The third shares a word with each of the first two, but is a pair of its own.
    pairs = [("go", "went"), ("begin", "gone"), ("go", "gone"), ("dog", "dogs"), ("map", "maps")]
    for number in (2, 3, 5, 1, 0) if thorough else (2, 3):
        inputs: dict[str, object] = {"pairs": pairs[:number]}
        answer = call_twice(candidate, inputs)
        if hasattr(answer, "__next__"):
            raise CheckFailed("  questions_from: the result can be read only once. Return a list.")
        if not isinstance(answer, list | tuple) or not all(
            isinstance(each, list | tuple) and len(each) == 4 for each in answer
        ):
            raise CheckFailed(
                f"  questions_from: expected a list of questions (a, b, c, d), got {show(answer)}."
                f"\n{describe(inputs)}"
            )
        got = Counter((tuple(each[:2]), tuple(each[2:])) for each in answer)
        diagnosis = ""
        if any(one not in pairs or other not in pairs for one, other in got):
            diagnosis = "a question must join two pairs: (a, b) is one of them, (c, d) another"
        elif any(one == other for one, other in got):
            diagnosis = "a question combines a pair with itself, so it contains its own answer"
        elif got.total() > len(got):
            diagnosis = "a question occurs twice"
        elif len(got) < number * (number - 1):
            diagnosis = "questions are missing. Two pairs give two questions, one in each order"
            asked = {frozenset(each) for each in got}
            others = [each for each in combinations(pairs[:number], 2) if {*each} not in asked]
            if others and all({*one} & {*other} for one, other in others):
                diagnosis = "questions are missing for two pairs that share a word"
        if diagnosis:
            raise CheckFailed(
                f"  questions_from: {diagnosis}.\n{describe(inputs)}\n  got         {show(answer)}"
                f"\n  expected    {number * (number - 1)} questions (a, b, c, d)"
            )


def _compare_counts(
    candidate: object,
    inputs: Mapping[str, object],
    expected: Mapping[str, int],
    mistakes: Mapping[str, str],
    story: str,
) -> None:
    got = _counts_of(candidate, inputs)
    wrong = [name for name in _COUNTS if got[name] != expected[name]]
    if not wrong:
        return
    everything = {**inputs, "questions": [*_QUESTIONS]}
    name = wrong[0]
    diagnosis = mistakes.get(name, "")
    if name in ("right", "right_let_in", "said_c", "right_by_c"):
        try:
            together = tuple(_counts_of(candidate, everything).values())
        except CheckFailed:
            together = ()
        diagnosis = _OTHER_WAYS.get(together, diagnosis)
    diagnosis = diagnosis or "the count is wrong"
    told = f"  Explanation: {story}\n" if story else ""
    raise CheckFailed(
        f"  anatomy, {name!r}: {diagnosis}.\n{told}{describe(inputs)}\n"
        f"  got         {name}: {got[name]}\n  expected    {name}: {expected[name]}"
    )


def _counts_of(candidate: object, inputs: Mapping[str, object]) -> dict[str, int]:
    answer = call_twice(candidate, inputs)
    if not isinstance(answer, dict):
        raise CheckFailed(
            f"  anatomy: expected a dict of counts, got {show(answer)}.\n{describe(inputs)}"
        )
    missing = [name for name in _COUNTS if name not in answer]
    if missing:
        raise CheckFailed(
            f"  anatomy: the dict lacks the counts {', '.join(missing)}.\n{describe(inputs)}\n"
            f"  got         {show(answer)}"
        )
    counts = {name: plain_number(answer[name]) for name in _COUNTS}
    for name, count in counts.items():
        if type(count) is not int:
            raise CheckFailed(
                f"  anatomy, {name!r}: expected a count, which is an integer and not a share, got "
                f"{answer[name]!r}.\n{describe(inputs)}"
            )
    return cast(dict[str, int], counts)


# Part 6

_STEP = ("v", "u", "centre", "context", "negatives", "learning_rate")


def _step_inputs(
    v: Tensor,
    u: Tensor,
    centre: Sequence[int],
    context: Sequence[int],
    negatives: Sequence[Sequence[int]],
    learning_rate: float = 0.5,
) -> dict[str, Any]:
    ids = (torch.tensor(each) for each in (centre, context, negatives))
    return dict(zip(_STEP, (v, u, *ids, learning_rate), strict=True))


def _one_pair() -> dict[str, Any]:
    """Return one pair with one negative and no repeated word: small enough for paper."""
    v = torch.tensor([[0.0, 0.0], [1.0, 0.5], [-1.5, 1.0], [0.5, -1.5]])
    u = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, -1.0], [0.5, 1.5]])
    return _step_inputs(v, u, [1], [2], [[3]], learning_rate=0.25)


def _by_descent(inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Compute the gradients of the loss by autograd, and take the step."""
    v, u = (inputs[name].clone().requires_grad_() for name in "vu")
    loss = _loss(v, u, inputs["centre"], inputs["context"], inputs["negatives"])
    rate = inputs["learning_rate"]
    return tuple(
        (table - rate * gradient).detach()
        for table, gradient in zip((v, u), torch.autograd.grad(loss, [v, u]), strict=True)
    )


def _take(candidate: object, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return the changes that the candidate makes to both tables."""
    pair = expect_pair(_call_without_autograd(candidate, inputs), ("v", "u"), inputs)
    return cast(
        tuple[Tensor, Tensor],
        tuple(
            expect_tensor(table, inputs[name].shape, f"the new {name}", inputs) - inputs[name]
            for name, table in zip("vu", pair, strict=True)
        ),
    )


@_parts.part("debugging", "mended_step")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the corrected training step, one symptom after the other."""
    in_turn(_SYMPTOMS, candidate)
    sizes = [(13, 5, 7, 3)]
    if thorough:
        sizes += [(5, 3, 11, 2), (7, 2, 1, 1), (3, 11, 5, 7)]
    for number, each in enumerate(sizes):
        inputs: dict[str, Any] = {**_loss_inputs(*each), "learning_rate": 0.1 + 0.3 * number}
        changes, tables = _take(candidate, inputs), _by_descent(inputs)
        for name, got, new in zip("vu", changes, tables, strict=True):
            expect_equal(got, new - inputs[name], f"the change of {name}", inputs)


def _examine_directions(candidate: object) -> None:
    inputs = _one_pair()
    moved, change = _take(candidate, inputs)
    v, u = inputs["v"], inputs["u"]
    if torch.equal((v + moved)[1], u[1]) and torch.equal((u + change)[2:], v[2:]):
        raise CheckFailed(
            f"  v and u are exchanged in the result. Return v, u in this order.\n{describe(inputs)}"
        )
    centre = v[1]
    seen, drawn = float(change[2] @ centre), float(change[3] @ centre)
    if seen > 0 > drawn:
        return
    if seen == 0 and drawn == 0:
        diagnosis = "The vectors u of the context word and the negative do not change."
    elif seen > 0:
        diagnosis = (
            "The vector of the negative moves towards that of the centre, as the context word's "
            "does. It must move away. Which words have y = 1 in the step?"
            if drawn > 0
            else "The vector of the negative does not change."
        )
    elif drawn > 0:
        diagnosis = (
            "The sign of the step is wrong: the context word moves away from the centre, and the "
            "negative towards it, so the loss increases."
        )
    else:
        diagnosis = (
            "The vector of the context word moves away from that of the centre, as the negative's "
            "does. It must move towards it. Which words have y = 1 in the step?"
        )
    raise CheckFailed(
        f"  {diagnosis}\n{describe(inputs)}\n"
        f"  got         u of the context word changes by {show(change[2])}, "
        f"that of the negative by {show(change[3])}"
    )


def _parallel(one: Tensor, other: Tensor) -> bool:
    return bool((F.cosine_similarity(one, other, dim=0) - 1).abs() < 1e-5)


def _examine_order(candidate: object) -> None:
    inputs = _one_pair()
    moved, change = _take(candidate, inputs)
    old = inputs["v"][1]
    if _parallel(change[2], old):
        return
    if _parallel(change[2], old + moved[1]):
        diagnosis = (
            "The gradient of u is computed with the vector of the centre after its own update. "
            "Compute both gradients from the tables as they were passed in, then update."
        )
    else:
        diagnosis = (
            "The vector u of the context word does not move along v of the centre. The gradient of "
            "u·v with respect to u is v."
        )
    raise CheckFailed(
        f"  {diagnosis}\n{describe(inputs)}\n"
        f"  got         u of the context word changes by {show(change[2])}; v is {show(old)}"
    )


def _examine_errors(candidate: object) -> None:
    inputs = _one_pair()
    v, u, rate = inputs["v"], inputs["u"], inputs["learning_rate"]
    _, change = _take(candidate, inputs)
    old = v[1]
    errors = (change @ old / (old @ old) / rate).tolist()
    for word, wanted in ((2, 1.0), (3, 0.0)):
        got, expected = errors[word], float(wanted - torch.sigmoid(u[word] @ old))
        if abs(got - expected) < 1e-4:
            continue
        which = "context word" if wanted else "negative"
        others = {
            float(wanted - torch.sigmoid(v[word] @ old)): "the score uses two vectors of v. "
            "Those of the context word and the negatives are in u",
            float(wanted - torch.sigmoid(u[word] @ u[1])): "the score uses two vectors of u. "
            "That of the centre is in v",
            float(wanted - u[word] @ old): "the σ is missing",
            expected / 2: "it is divided by the number of scores of a pair. The formula sums them",
            expected / rate: "the learning rate is not used",
            expected * rate: "the learning rate is used twice",
        }
        why = next((text for value, text in others.items() if abs(got - value) < 1e-4), "")
        raise CheckFailed(
            f"  The vector u of the {which} has the right direction of change, but the wrong size"
            f"{': ' + why if why else ''}.\n{describe(inputs)}\n"
            f"  got         {got:.4g} times learning_rate times v of the centre\n"
            f"  expected    {expected:.4g} times learning_rate times v, from {wanted:.0f} − σ(u·v)"
        )


def _examine_centre(candidate: object) -> None:
    inputs = _one_pair()
    v, u, rate = inputs["v"], inputs["u"], inputs["learning_rate"]
    moved, _ = _take(candidate, inputs)
    new_v, new_u = _by_descent(inputs)
    expected = (new_v - v)[1]
    got = moved[1]
    if torch.allclose(got, expected, 1e-3, 1e-5):
        return
    seen, drawn = (1 - torch.sigmoid(u[2] @ v[1])), -torch.sigmoid(u[3] @ v[1])
    others = [
        (
            rate * (seen * new_u[2] + drawn * new_u[3]),
            "its gradient is computed with vectors u "
            "that are already updated. Compute both gradients first, then update",
        ),
        (
            rate * (seen * v[2] + drawn * v[3]),
            "it moves along vectors of v. The gradient of u·v with respect to v is u",
        ),
        (rate * seen * u[2], "the negatives do not contribute to it"),
        (rate * drawn * u[3], "the context word does not contribute to it"),
        (-expected, "the sign is wrong"),
        (torch.zeros(2), "it does not change at all"),
        (expected / 2, "it is divided by the number of scores of a pair. The formula sums them"),
    ]
    why = next((text for value, text in others if torch.allclose(got, value, 1e-3, 1e-5)), "")
    raise CheckFailed(
        f"  The change of v of the centre is wrong{': ' + why if why else ''}.\n"
        f"{describe(inputs)}\n  got         {show(got)}\n  expected    {show(expected)}"
    )


def _examine_mean(candidate: object) -> None:
    """Check two pairs that share no word: each change is half of that for one pair."""
    generator = torch.Generator().manual_seed(3)
    v, u = (torch.randn(7, 2, generator=generator).round(decimals=1) for _ in range(2))
    inputs = _step_inputs(v, u, [1, 2], [3, 4], [[5], [6]])
    _compare_tables(
        candidate,
        inputs,
        {
            2.0: "the change of {name} is too large by the factor 2, the number of pairs. The loss "
            "is the mean over the pairs",
            0.5: "the change of {name} is too small by the factor 2. Does your code divide by the "
            "number of pairs twice?",
        },
        "The step is correct for a single pair, but for two pairs without a common word the change "
        "of {name} is wrong.",
    )


def _examine_repeats(candidate: object) -> None:
    """Check words that occur twice in a batch, in several roles."""
    generator = torch.Generator().manual_seed(5)
    v, u = (torch.randn(6, 2, generator=generator).round(decimals=1) for _ in range(2))
    for centre, context, negatives, what in (
        ([1, 1], [2, 3], [[4], [5]], "a word is the centre of two pairs"),
        ([1, 2], [3, 3], [[4], [5]], "a word is the context word of two pairs"),
        ([1], [2], [[3, 3]], "a word is a negative of one pair twice"),
        ([1, 2], [3, 4], [[4, 5], [3, 3]], "a word is a context word and also a negative"),
    ):
        inputs = _step_inputs(v, u, centre, context, negatives)
        _compare_tables(
            candidate,
            inputs,
            {},
            f"The step is correct if no word occurs twice. Here {what}, and {{name}} is wrong. Add "
            "all changes of a row: if = or -= writes to a row twice, only the last one counts.",
        )


def _compare_tables(
    candidate: object, inputs: Mapping[str, Any], factors: Mapping[float, str], otherwise: str
) -> None:
    for name, got, new in zip("vu", _take(candidate, inputs), _by_descent(inputs), strict=True):
        expected = new - inputs[name]
        if torch.allclose(got, expected, 1e-3, 1e-5):
            continue
        diagnosis = otherwise
        for factor, text in factors.items():
            if torch.allclose(got, factor * expected, 1e-3, 1e-5):
                diagnosis = text if text.endswith("?") else f"{text}."
        row = int((got - expected).abs().sum(dim=1).argmax())
        raise CheckFailed(
            f"  {diagnosis[0].upper()}{diagnosis[1:].format(name=name)}\n{describe(inputs)}\n"
            f"  got         {name}[{row}] changes by {show(got[row])}\n"
            f"  expected    {show(expected[row])}"
        )


_SYMPTOMS: dict[str, Callable[[object], None]] = {
    "the signs of the changes": _examine_directions,
    "the direction of the changes of u": _examine_order,
    "their size": _examine_errors,
    "the change of v": _examine_centre,
    "the mean over the pairs": _examine_mean,
    "words that occur twice": _examine_repeats,
}
