"""Checks of the assignment on embeddings.

Parts 1, 3 and 4 rebuild what the package has, so they are compared with the package, and parts 1
and 3 end inside its models. The answers to parts 2, 5 and 6 stand nowhere here: they are compared
with autograd, or their inputs are made around a known answer.
"""

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
from attentively.layers.embedding import TokenEmbedding
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
"""The word vectors that parts 4 and 5 look at once they are solved."""

SENTENCES = (
    "the cat drinks the milk",
    "the animal did not cross the street because it was too tired",
    "my uncle hears the small dog and the queen opens the door",
)

Inputs = Mapping[str, Tensor]

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its trained translator, its word vectors and these checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    vectors = load_pretrained_vectors(VECTORS)
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"as “{translation.text}”; {len(vectors.words):,} words have a vector. Ready.")


def _named(function: str, twins: Sequence[Twin]) -> list[Twin]:
    """Let each diagnosis begin with the name of the function that it is about."""
    return [
        Twin(f"{function}: {twin.diagnosis[0].lower()}{twin.diagnosis[1:]}", twin.answer)
        for twin in twins
    ]


def _random(*sizes: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*sizes)


# Part 1

_ONE_HOT_TWINS = (
    Twin(
        "The vectors are only as long as the largest id in this call. Every vector needs one "
        "number for each word of the vocabulary: vocab_size.",
        lambda ids, size: F.one_hot(ids).float(),
    ),
    Twin(
        "The 1 stands one place too far left: ids count from 0.",
        lambda ids, size: F.one_hot((ids - 1) % size, size).float(),
    ),
    Twin(
        "The 1 stands one place too far right: ids count from 0.",
        lambda ids, size: F.one_hot((ids + 1) % size, size).float(),
    ),
    Twin(
        "The axis of the vocabulary comes first; it belongs behind the axes of ids.",
        lambda ids, size: F.one_hot(ids, size).float().movedim(-1, 0),
    ),
    Twin(
        "The vectors of several words have been added up, which forgets their order. Keep one "
        "vector for each id.",
        lambda ids, size: F.one_hot(ids, size).float().sum(dim=-2),
    ),
    Twin(
        "The axes of ids are lost: one vector for each id, in the places where the ids stand.",
        lambda ids, size: F.one_hot(ids.flatten(), size).float(),
    ),
    Twin(
        "The vector of id 0 is all zeros. Here padding is a word like others: its vector has its 1 "
        "in the first place. That its row is zero is a matter of the table.",
        lambda ids, size: F.one_hot(ids, size).float() * (ids != PAD_ID).unsqueeze(-1),
    ),
    Twin(
        "0 and 1 have changed places: a one-hot vector is 0 everywhere but at its word.",
        lambda ids, size: 1 - F.one_hot(ids, size).float(),
    ),
    Twin(
        "The id itself stands where a 1 belongs.",
        lambda ids, size: (F.one_hot(ids, size) * ids.unsqueeze(-1)).float(),
    ),
)

_LOOKUP_TWINS = (
    Twin("These are the rows of the ids before: ids count from 0.", lambda ids, E: E[ids - 1]),
    Twin(
        "The axis of the embedding comes first; it belongs behind the axes of ids.",
        lambda ids, E: E[ids].movedim(-1, 0),
    ),
    Twin(
        "The axes of ids are lost: one row for each id, in the places where the ids stand.",
        lambda ids, E: E[ids.flatten()],
    ),
    Twin(
        "The rows of several words have been added up; keep one row for each id.",
        lambda ids, E: E[ids].sum(dim=-2),
    ),
    Twin(
        "The rows of several words have been averaged; keep one row for each id.",
        lambda ids, E: E[ids].mean(dim=-2),
    ),
    Twin(
        "These are one-hot vectors; their product with the table is missing.",
        lambda ids, E: F.one_hot(ids, len(E)).float(),
    ),
    Twin(
        "The rows are multiplied by √embedding_dim. The Transformer will do that; a lookup returns "
        "the rows as they are.",
        lambda ids, E: E[ids] * E.size(1) ** 0.5,
    ),
    Twin(
        "The rows are made of length 1; a lookup returns them as they are.",
        lambda ids, E: F.normalize(E[ids], dim=-1),
    ),
    Twin(
        "Every sentence got the rows of the first one.",
        lambda ids, E: E[ids[:1].expand_as(ids)],
    ),
)


def _random_ids(*shape: int, vocab_size: int) -> Tensor:
    """Draw ids; where there are several, one is padding and one the last of the vocabulary."""
    ids = torch.randint(0, vocab_size, shape)
    if ids.numel() > 1:
        ids.view(-1)[:2] = torch.tensor([PAD_ID, vocab_size - 1])
    return ids


@_parts.part("lookup", "one_hot", "Embedding")
def lookup(one_hot: object, candidate: object, thorough: bool = False) -> None:
    """Check one-hot vectors and a class like `nn.Embedding`, at last inside trained models."""
    _check_one_hot(one_hot, thorough)
    if getattr(candidate, "forward", None) in (nn.Embedding.forward, TokenEmbedding.forward):
        raise CheckFailed("  Embedding: this is the library's own lookup; write yours.")
    if isinstance(candidate, nn.Module):
        raise CheckFailed("  Pass the class, not an object of it: Embedding, without ().")
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
                f"  one_hot: the numbers are {answer.dtype}, and such a vector cannot be multiplied"
                f" with a table of 32-bit numbers: .float().\n{describe(inputs)}"
            )
        expected = torch.eye(vocab_size)[ids]
        hint = "The shape of ids, and behind it one axis more, of vocab_size."
        twins = _named("one_hot", _ONE_HOT_TWINS)
        expect_equal(answer, expected, "one-hot vectors", inputs, twins, hint)


def check_embedding(candidate: object, thorough: bool = False) -> None:
    """Check any embedding class, the package's own table too."""
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
            "weight is a tensor, but no parameter, so no optimizer would find it: "
            "self.weight = nn.Parameter(...)."
        )
    elif found.get("weight") == shape[::-1]:
        advice = f"weight has the shape {found['weight']}: one row for each word is wanted, {shape}"
    elif "weight" in found and found["weight"] != shape:
        advice = f"weight has the shape {found['weight']}, expected {shape}: a row for each word."
    elif "weight" not in found:
        advice = f"There is no parameter weight, but {sorted(found) or 'none at all'}."
    else:
        others = sorted({*found, *mine.state_dict()} - {"weight"})
        advice = f"Beside weight there is {', '.join(others)}; a table is all that is needed."
    raise CheckFailed(
        f"  Embedding: {advice}\n  Trained tables are to be loaded into your class, so it needs "
        f"the one parameter weight {shape}.\n{describe(sizes)}"
    )


def _expect_good_start(mine: nn.Module, sizes: Mapping[str, int], other: nn.Module) -> None:
    table = cast(Tensor, mine.weight).detach()
    if table[PAD_ID].count_nonzero():
        raise CheckFailed(
            "  Embedding: the row of padding, row 0, is not zero at the start. Padding means "
            f"nothing, so its vector is zero.\n{describe(sizes)}\n  got         {show(table[0])}"
        )
    if not table.isfinite().all():
        raise CheckFailed(
            "  Embedding: some numbers at the start are not finite: torch.empty holds whatever was "
            f"in memory. Draw them: torch.randn(...).\n{describe(sizes)}"
        )
    if torch.equal(table[1], table[2]):
        raise CheckFailed(
            "  Embedding: all words begin with the same vector, so nothing tells them apart. Draw "
            f"the rows by chance: torch.randn(...).\n{describe(sizes)}"
        )
    if torch.equal(table, cast(Tensor, other.weight)):
        raise CheckFailed(
            "  Embedding: two tables, made one after the other, begin with the same numbers. Draw "
            f"the rows by chance, and set no seed.\n{describe(sizes)}\n  got         {show(table)}"
        )


class _Products(TorchFunctionMode):
    """Note whether matrices are multiplied."""

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
            "  Embedding: the vectors come out of a product of matrices, nearly all of it by zero. "
            f"Look the rows up: indexing the table does it.\n{describe({'ids': ids})}"
        )


def _load(mine: nn.Module, table: Tensor) -> None:
    mine.load_state_dict({"weight": table})


def _compare_lookup(mine: nn.Module, ids: Tensor) -> None:
    table = cast(Tensor, mine.weight).detach().clone()
    with torch.no_grad():
        answer = call_twice(mine, {"ids": ids})
    inputs = {"ids": ids, "weight": table}
    hint = "The shape of ids, and behind it one axis more, of embedding_dim."
    twins = _named("Embedding", _LOOKUP_TWINS)
    expect_equal(answer, table[ids], "the vectors", inputs, twins, hint)
    if not torch.equal(cast(Tensor, mine.weight), table):
        raise CheckFailed(f"  Embedding: looking up changes the table.\n{describe(inputs)}")


def _compare_gradients(mine: nn.Module, ids: Tensor) -> None:
    """Let a gradient flow back into the table; only the rows looked up get any of it."""
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
            "  Embedding: the vectors are right, but no gradient reaches weight, so nothing could "
            f"be learned. Is there a copy of it, .detach() or .data?\n{describe(inputs)}"
        )
    got = weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
    if got[PAD_ID].count_nonzero() and not expected[PAD_ID].count_nonzero():
        raise CheckFailed(
            "  Embedding: the row of padding gets a gradient, so after the first step of training "
            "it is no longer zero. Whatever comes out for id 0 must not depend on the table: "
            f"multiply it by 0, for instance.\n{describe(inputs)}\n"
            f"  got         {show(got[PAD_ID])} for row 0\n  expected    zeros"
        )
    expect_equal(got, expected, "the gradient of weight", inputs)


def _by_autograd(
    ids: Tensor, upstream: Tensor, vocab_size: int, padding_idx: int | None = PAD_ID
) -> Tensor:
    """Return the gradient that PyTorch finds for the table of an embedding."""
    table = torch.zeros(vocab_size, upstream.size(-1), requires_grad=True)
    F.embedding(ids, table, padding_idx).backward(upstream)
    return cast(Tensor, table.grad)


def _descend(model: nn.Module, loss: Tensor) -> None:
    """Take one plain step: the optimizers of PyTorch take seconds to be imported."""
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-0.5)


def _expect_same_training(candidate: object) -> None:
    """Train the package's skip-gram with the candidate for its tables, and with its own."""
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
    what = "the package's skip-gram after five steps of training with your tables"
    for (name, expected), got in zip(
        theirs.state_dict().items(), ours.state_dict().values(), strict=True
    ):
        expect_equal(got, expected, f"{name} of {what}", inputs)


# Part 2


def _first_or_last(ids: Tensor, upstream: Tensor, last: bool) -> Tensor:
    """Return what flows back if each word hears only one of its places."""
    words, rows = ids.flatten().tolist(), upstream.reshape(-1, upstream.size(-1)).clone()
    for place, word in enumerate(words):
        others = words[place + 1 :] if last else words[:place]
        if word in others:
            rows[place] = 0
    return rows.view_as(upstream)


def _times_each(ids: Tensor, vocab_size: int) -> Tensor:
    return ids.flatten().bincount(minlength=vocab_size).clamp(min=1).unsqueeze(1)


_LAST_WINS = (
    "A word that occurs twice keeps the gradient of its last place only: assigning to a row again "
    "overwrites it. Its places must add up. (So must they with +=, which on repeated indices also "
    "writes once: index_add does not.)"
)
_GRADIENT_TWINS = (
    Twin(
        "The row of padding, row 0, gets a gradient. It must stay zero, so nothing flows into it.",
        lambda ids, G, size: _by_autograd(ids, G, size, padding_idx=None),
    ),
    Twin(_LAST_WINS, lambda ids, G, size: _by_autograd(ids, _first_or_last(ids, G, True), size)),
    Twin(
        "A word that occurs twice keeps the gradient of its first place only; its places add up.",
        lambda ids, G, size: _by_autograd(ids, _first_or_last(ids, G, False), size),
    ),
    Twin(
        "A word that occurs twice gets the mean of its places. The loss depends on the row at each "
        "of them, so their gradients add up.",
        lambda ids, G, size: _by_autograd(ids, G, size) / _times_each(ids, size),
    ),
    Twin(
        "Everything is divided by the number of ids. Whether the loss is a mean was settled before "
        "the gradient came here: add up, do not divide.",
        lambda ids, G, size: _by_autograd(ids, G, size) / ids.numel(),
    ),
    Twin(
        "Everything is divided by the number of sentences; add up, do not divide.",
        lambda ids, G, size: _by_autograd(ids, G, size) / len(ids),
    ),
    Twin(
        "Only the first sentence of the batch is counted.",
        lambda ids, G, size: _by_autograd(ids[0], G[0], size),
    ),
    Twin(
        "The sign is turned. This is the direction of a step downhill; the gradient points uphill.",
        lambda ids, G, size: -_by_autograd(ids, G, size),
    ),
    Twin(
        "This counts how often each word occurs; the upstream gradient does not come in.",
        lambda ids, G, size: _by_autograd(ids, torch.ones_like(G), size),
    ),
    Twin(
        "This has turned axes: one row for each word, one column for each component.",
        lambda ids, G, size: _by_autograd(ids, G, size).T,
    ),
    Twin(
        "Each gradient stands one row too far down: ids count from 0.",
        lambda ids, G, size: _by_autograd(ids, G, size).roll(1, dims=0),
    ),
    Twin(
        "Each gradient stands one row too far up: ids count from 0.",
        lambda ids, G, size: _by_autograd(ids, G, size).roll(-1, dims=0),
    ),
    Twin(
        "This is what comes in, one row for each place in the text. What is wanted is one row for "
        "each word of the vocabulary.",
        lambda ids, G, size: G,
    ),
)


def _upstream(ids: Tensor, dim: int) -> Tensor:
    return _random(*ids.shape, dim).round(decimals=1)


def _call_without_autograd(candidate: object, inputs: Mapping[str, object]) -> object:
    """Call a candidate that is to find a gradient by itself."""
    try:
        with torch.inference_mode():  # unlike no_grad, not undone by enable_grad
            return call_twice(candidate, inputs)
    except CheckFailed as failed:
        if "does not require grad" in str(failed):
            raise CheckFailed(
                "  The gradient is to be found by hand here. The check turns autograd off, so "
                f".backward() and torch.autograd.grad find nothing.\n{failed}"
            ) from None
        raise


@_parts.part("backward", "table_gradient", "touched_rows")
def backward(table_gradient: object, touched_rows: object, thorough: bool = False) -> None:
    """Check the gradient of an embedding's table, whole and by the rows that have any."""
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
        hint = "One row for each word of the vocabulary: (vocab_size, embedding_dim)."
        what = "the table's gradient"
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
    # What comes in for word 2 sums to 0.
    upstream = torch.tensor([[1.0, -2.0], [0.5, 4.0], [-1.0, 2.0]])
    _expect_rows(candidate, torch.tensor([2, 5, 2]), upstream)


def _expect_rows(candidate: object, ids: Tensor, upstream: Tensor) -> None:
    inputs = {"ids": ids, "upstream": upstream}
    try:
        answer = _call_without_autograd(candidate, inputs)
    except CheckFailed as failed:
        if ids.numel() and ids.max() >= _HUGE:
            raise CheckFailed(
                "  touched_rows: ids may be huge here. Something in your code is as long as "
                f"the largest id; only the words that occur may need a row.\n{failed}"
            ) from None
        if not ids.count_nonzero():
            raise CheckFailed(
                "  touched_rows: here all ids are padding. What is wanted is no rows, of shape "
                f"(0,), and no gradients, of shape (0, dim).\n{failed}"
            ) from None
        raise
    _compare_rows(answer, inputs)


def _compare_rows(answer: object, inputs: Inputs) -> None:
    rows, gradients = expect_pair(answer, ("rows", "gradients"), inputs)
    if type(rows) is not Tensor or rows.dtype != torch.int64 or rows.ndim != 1:
        got = f"{rows.dtype} of shape {tuple(rows.shape)}" if type(rows) is Tensor else show(rows)
        raise CheckFailed(
            "  touched_rows: expected rows as a torch.Tensor of ids, torch.int64, with one axis; "
            f"got {got}.\n{describe(inputs)}"
        )
    ids, upstream = inputs.values()
    wanted = sorted({*ids.flatten().tolist()} - {PAD_ID})
    got_rows = rows.tolist()
    diagnosis = ""
    if PAD_ID in got_rows:
        diagnosis = "padding, id 0, is among the rows. It gets no gradient, so leave it out."
    elif len({*got_rows}) < len(got_rows):
        diagnosis = "a row is named twice. Name each word once, with the sum of its gradients."
    elif got_rows == [word for word in wanted if upstream[ids == word].sum(0).any()] != wanted:
        diagnosis = "a word whose gradients sum to 0 occurs all the same: name it."
    elif PAD_ID not in ids and got_rows == wanted[1:]:
        diagnosis = "the first row is missing. There is no padding here that could be dropped."
    elif sorted(got_rows) != wanted:
        diagnosis = "these are not the words that occur, padding aside."
    elif got_rows != wanted:
        diagnosis = "the rows are not in ascending order."
    if diagnosis:
        raise CheckFailed(
            f"  touched_rows: {diagnosis}\n{describe(inputs)}\n"
            f"  got         rows {show(rows)}\n  expected    rows {wanted}"
        )
    # Autograd finds the gradients in a table that has only these rows.
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
        Twin("Only the first place of a repeated word counts.", only(last=False)),
        Twin(
            "A repeated word gets the mean of its places; add them up.",
            lambda *_: expected / _times_each(places, size)[1:],
        ),
        Twin(
            "The rows are sorted, the gradients are not: each must stand where its row stands.",
            lambda *_: expected[[wanted.index(word) for word in by_first_place]],
        ),
        Twin(
            "This is what comes in, one row for each place in the text; add up the "
            "places of each word.",
            lambda ids, G: G.reshape(-1, G.size(-1)),
        ),
    ]
    hint = "One row for each of rows."
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
            "Only the words after the centre are taken; those before it belong to its company too.",
            lambda i, j, s, w: near(i, j, w) and j > i,
        ),
        twin(
            "Only the words before the centre are taken; those after it belong to its company too.",
            lambda i, j, s, w: near(i, j, w) and j < i,
        ),
        twin(
            "The window ends one word too early on the right: the end of a range or slice is not "
            "part of it.",
            lambda i, j, s, w: near(i, j, w) and j - i < w,
        ),
        twin(
            "The window is one word too small on both sides.",
            lambda i, j, s, w: 0 < abs(i - j) < w,
        ),
        twin(
            "The window is one word too large on both sides.",
            lambda i, j, s, w: 0 < abs(i - j) <= w + 1,
        ),
        twin(
            "window is taken for both sides together; it counts the words on each side.",
            lambda i, j, s, w: 0 < abs(i - j) <= w // 2,
        ),
        twin(
            "At the start of the sentence the words before the centre are lost: place - window is "
            "negative there, and a negative index counts from the end. max(0, place - window).",
            lambda i, j, s, w: near(i, j, w) and (j > i or i >= w),
        ),
        twin(
            "Words whose window would reach over an end of the sentence are left out. They have "
            "company too, only less.",
            lambda i, j, s, w: near(i, j, w) and w <= i < len(s) - w,
        ),
        twin(
            "A window reaches round from one end of the sentence to the other.",
            lambda i, j, s, w: near(i, j, w) or 0 < len(s) - abs(i - j) <= w,
        ),
        twin(
            "The first words are paired with the last ones: place - window is negative there, and "
            "a negative index counts from the end. max(0, place - window).",
            lambda i, j, s, w: near(i, j, w) or 0 < len(s) + i - j <= w,
        ),
        twin(
            "A word that occurs again nearby is left out. What is left out is the centre's own "
            "place, not its word.",
            lambda i, j, s, w: near(i, j, w) and s[i] != s[j],
        ),
        Twin(
            "Pairs that occur again are left out. How often two words meet is what is learned.",
            lambda s, w: [*{*context_pairs(s, w)}],
        ),
        Twin(
            "A word that comes again gets the company of its first place: list.index finds no "
            "other. enumerate goes through all places.",
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
    """Return the known mistakes that answer as the candidate does in every case.

    Lists are short where inputs are small, and one list is soon like another.
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
        "The sign of the negatives: a drawn word is to be refused, so its score comes in as "
        "log σ(−u·v).",
        _from_scores(lambda s, n: (-F.logsigmoid(s) - F.logsigmoid(n).sum(1)).mean()),
    ),
    Twin(
        "The sign of the seen word: its score comes in as log σ(+u·v).",
        _from_scores(lambda s, n: (-F.logsigmoid(-s) - F.logsigmoid(-n).sum(1)).mean()),
    ),
    Twin(
        "Both signs are turned: the seen word comes in as log σ(+u·v), a drawn one as log σ(−u·v).",
        _from_scores(lambda s, n: (-F.logsigmoid(-s) - F.logsigmoid(n).sum(1)).mean()),
    ),
    Twin(
        "This is the logarithm that is to grow; a loss is to fall. Turn its sign.",
        _from_scores(lambda s, n: (F.logsigmoid(s) + F.logsigmoid(-n).sum(1)).mean()),
    ),
    Twin(
        "The negatives are averaged; the formula sums them.",
        _from_scores(lambda s, n: (-F.logsigmoid(s) - F.logsigmoid(-n).mean(1)).mean()),
    ),
    Twin(
        "The loss of a pair is divided by 1 + k, the number of its words (as the mean of a "
        "library's cross-entropy does); the formula sums them.",
        _from_scores(
            lambda s, n: ((-F.logsigmoid(s) - F.logsigmoid(-n).sum(1)) / (1 + n.size(1))).mean()
        ),
    ),
    Twin(
        "The logarithm is missing: these are the numbers of −σ(u·v) − Σ σ(−u·v).",
        _from_scores(lambda s, n: (-s.sigmoid() - (-n).sigmoid().sum(1)).mean()),
    ),
    Twin(
        "The σ is missing: these are plain scores, which could fall without end.",
        _from_scores(lambda s, n: (-s + n.sum(1)).mean()),
    ),
    Twin(
        "This is a softmax over the seen word and the drawn ones. Here each word is a question of "
        "its own, seen or drawn, with a σ of its own.",
        _from_scores(
            lambda s, n: -torch.cat([s.unsqueeze(1), n], 1).log_softmax(dim=1)[:, 0].mean()
        ),
    ),
    Twin("The negatives do not come in.", _from_scores(lambda s, n: -F.logsigmoid(s).mean())),
    Twin(
        "The seen word does not come in.",
        _from_scores(lambda s, n: -F.logsigmoid(-n).sum(1).mean()),
    ),
    Twin(
        "The losses of the pairs are summed; return their mean.",
        _from_scores(lambda s, n: (-F.logsigmoid(s) - F.logsigmoid(-n).sum(1)).sum()),
    ),
    Twin(
        "This is the loss of each pair; return their mean, one number.",
        _from_scores(lambda s, n: -F.logsigmoid(s) - F.logsigmoid(-n).sum(1)),
    ),
    Twin(
        "Every pair got the negatives of the first one.",
        lambda v, u, c, o, n: _loss(v, u, c, o, n[:1].expand_as(n)),
    ),
    Twin(
        "The tables have changed places: v holds the vectors of centres, u those of context words, "
        "drawn ones among them.",
        lambda v, u, c, o, n: _loss(u, v, c, o, n),
    ),
    Twin(
        "The table v serves for both words; context words and negatives have theirs in u.",
        lambda v, u, c, o, n: _loss(v, v, c, o, n),
    ),
    Twin(
        "The table u serves for both words; centres have theirs in v.",
        lambda v, u, c, o, n: _loss(u, u, c, o, n),
    ),
    Twin(
        "The negatives are looked up in v; as context words they have their vectors in u.",
        lambda v, u, c, o, n: (
            -F.logsigmoid(_scores(v, u, c, o, n)[0])
            - F.logsigmoid(-_scores(v, v, c, o, n)[1]).sum(1)
        ).mean(),
    ),
    Twin(
        "The negatives are held against the context word; hold them against the centre.",
        lambda v, u, c, o, n: (
            -F.logsigmoid(_scores(v, u, c, o, n)[0])
            - F.logsigmoid(-_scores(u, u, o, o, n)[1]).sum(1)
        ).mean(),
    ),
    Twin(
        "These are cosines: the vectors have been made of length 1. The formula takes plain dot "
        "products; here lengths may grow.",
        lambda v, u, c, o, n: _loss(F.normalize(v, dim=1), F.normalize(u, dim=1), c, o, n),
    ),
)


@_parts.part("skip-gram", "pairs", "loss")
def skip_gram(pairs: object, loss: object, thorough: bool = False) -> None:
    """Check the pairs of a window and the loss, at last inside the package's model."""
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
    if candidate is context_pairs:
        raise CheckFailed("  pairs: this is the package's own context_pairs; write yours.")
    for sentence, window in cases:
        inputs: dict[str, object] = {"sentence": sentence, "window": window}
        answer = call_twice(candidate, inputs)
        expected = sorted(context_pairs(sentence, window))
        if hasattr(answer, "__next__"):
            raise CheckFailed(
                "  pairs: this is a generator, which can be read only once. Return a list."
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
                f"  pairs: a pair holds ids of words, got {show(answer[0])}.\n{describe(inputs)}"
            )
        # Their order does not matter.
        in_order = sorted(cast(list[tuple[int, int]], got))
        if in_order == expected:
            continue
        places = range(len(sentence))
        by_place = sorted((i, j) for i in places for j in places if 0 < abs(i - j) <= window)
        if in_order == by_place:
            raise CheckFailed(
                f"  pairs: these are places in the sentence; return the words that stand there."
                f"\n{describe(inputs)}"
            )
        what = "the pairs (sorted; their order does not matter)"
        longer: dict[str, object] = {"sentence": [3, 8, 3, 6, 1, 9, 2, 5, 8, 4], "window": 3}
        twins = [
            Twin(each.diagnosis, lambda s, w, each=each: sorted(each.answer(s, w)))
            for each in _agreeing(_PAIR_TWINS, candidate, [inputs, longer], sort=True)
        ]
        expect_value(in_order, expected, what, inputs, _named("pairs", twins))


def _with_kind(value: object) -> str:
    """Show a value; a tensor looks like a list otherwise."""
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
        hint = "One number: the mean over the pairs."
        twins = _named("loss", _LOSS_TWINS)
        expect_equal(answer, _loss(*inputs.values()), "the loss", inputs, twins, hint)
        _compare_loss_gradients(candidate, inputs)
    for seen, drawn in ((-120.0, 0.0), (0.0, 120.0), (-30.0, 30.0)):
        _expect_stable(candidate, seen, drawn)


def _compare_loss_gradients(candidate: object, inputs: Inputs) -> None:
    """Compare the gradients of both tables: a detached word learns nothing."""
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
        diagnosis = f"The loss is right, but its gradient with respect to {name} is not"
        if name == "u" and torch.allclose(one, without_drawn, 1e-3, 1e-5):
            diagnosis = "The loss is right, but the drawn words get no gradient: they never learn"
        raise CheckFailed(
            f"  {diagnosis}. Is something detached, or taken from .data?\n{describe(inputs)}"
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
        "  loss: far from 0, σ is exactly 0 or 1 in 32 bits, and the logarithm of 0 is −∞ (or of "
        "whatever bound was put there). F.logsigmoid takes both steps at once and stays exact; "
        f"1 − σ(x) is σ(−x).\n{describe(inputs)}\n"
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

# In the plane, so that they can be drawn. The longest is one that no answer may be drawn to.
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
            "These are ordered by the dot product, which favours long vectors. Divide by both "
            "lengths: the word's own changes no order, those of the others do.",
            lambda E, x: E @ x,
        ),
        twin(
            "These are ordered by distance; two vectors of one direction and different lengths are "
            "far apart and have the cosine 1.",
            lambda E, x: -(E - x).norm(dim=1),
        ),
        twin("These are the farthest words: the order is turned.", lambda E, x: -cosine(E, x)),
        Twin(
            "The columns of vectors are made of length 1; a word is a row, so take dim=1.",
            by_columns,
        ),
        twin(
            "The sign of the cosine is lost: vectors that point apart count as near.",
            lambda E, x: cosine(E, x).abs(),
        ),
        Twin(
            "There is one word too few: first leave the word out, then count.",
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
            "a − b + c in place of b − a + c: what a lacks to be b is to be added to c.",
            lambda a, b, c: a - b + c,
        ),
        twin("a + b − c in place of b − a + c.", lambda a, b, c: a + b - c),
        twin("a + b + c: nothing is taken away.", lambda a, b, c: a + b + c),
        twin("This is nearest to c alone; a and b have no say.", lambda a, b, c: c),
        twin("This is nearest to b alone; a and c have no say.", lambda a, b, c: b),
        twin("This is nearest to b − a; c is missing.", lambda a, b, c: b - a),
        twin(
            "The vectors are added as they are. Make them of length 1 first, or the longest of the "
            "three has the most say.",
            length_1=False,
        ),
        twin(
            "The answer is looked for by the plain dot product, which favours long vectors.",
            length_1=False,
            score=lambda E, x: E @ x,
        ),
        twin(
            "b − a + c is right, but the answer is then looked for by the plain dot product with "
            "vectors as they are, which favours long ones.",
            length_1=False,
            wanted=lambda a, b, c: (
                F.normalize(b, dim=0) - F.normalize(a, dim=0) + F.normalize(c, dim=0)
            ),
            score=lambda E, x: E @ x,
        ),
        twin(
            "The answer is looked for by distance to the vectors as they are; take the cosine.",
            length_1=False,
            score=lambda E, x: -(E - x).norm(dim=1),
        ),
        twin("These are the farthest words: the order is turned.", score=lambda E, x: -(E @ x)),
        twin(
            "The words of the question are left out although exclude is False.",
            always=True,
        ),
    ]


@_parts.part("neighbours", "nearest", "analogy")
def neighbours(nearest: object, analogy: object, thorough: bool = False) -> None:
    """Check the nearest words and the answers to analogies."""
    _check_nearest(nearest, thorough)
    _check_analogy(analogy, thorough)


def _lexicon(num_words: int, dim: int) -> tuple[list[str], Tensor]:
    """Make up words and vectors whose lengths differ widely."""
    lengths = torch.linspace(0.3, 4, num_words)[torch.randperm(num_words)]
    vectors = F.normalize(torch.randn(num_words, dim), dim=1) * lengths.unsqueeze(1)
    return [f"w{number}" for number in range(num_words)], vectors


# Two words of one direction and two lengths: either may stand first in an order by cosine.
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
        diagnosis = "a list of words is wanted, also where it holds only one."
    elif given and all(type(each) is tuple for each in given):
        diagnosis = "words alone are wanted, without their cosines."
    elif isinstance(answer, Tensor) or (
        given and all(plain_number(each) is not None for each in given)
    ):
        diagnosis = "these are indices or numbers; return the words."
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
                "another word has exactly the same direction here, so the word itself need not "
                "come first: leave it out by its name, not by its place."
                if words == _ALIKE[0]
                else "the word itself is among its neighbours: leave it out."
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
                    f"  analogy: {' and '.join(asked)} of the question is among the answers, "
                    "although exclude is True: leave out all three words.\n"
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

# Single questions: what happens, the counts that are 1, and what another count tells.
_Single = tuple[tuple[str, str, str, str], str, set[str], dict[str, str]]
_OF_THE_FAMILY: list[_Single] = [
    (
        ("king", "queen", "boy", "girl"),
        "The nearest to queen − king + boy is boy; with the three words left out it is girl, which "
        "is right. The nearest to boy alone, the three left out, is man, which is wrong.",
        {"asked", "right", "said_c", "earned"},
        {
            "right": "the words of the question are no answers here: with them left out it is girl",
            "right_let_in": "let in means that the question's own words may answer",
            "said_c": "let in, the answer is boy, which is c. With the words left out it never is",
            "right_by_c": "nearest to c alone is man, which is wrong",
            "earned": "right where c alone is wrong: this one was earned",
        },
    ),
    (
        ("man", "woman", "dog", "puppy"),
        "The nearest to woman − man + dog is dog; with the three words left out it is puppy, which "
        "is right. The nearest to dog alone, the three left out, is puppy too.",
        {"asked", "right", "said_c", "right_by_c"},
        {
            "right_by_c": "the nearest to c alone would be c itself, always. Leave the words of "
            "the question out there too",
            "earned": "c alone leads to the right word here, so a and b have earned nothing",
        },
    ),
    (
        ("boy", "girl", "man", "woman"),
        "The nearest to girl − boy + man is boy, which is a; with the three words left out it is "
        "woman, which is right. The nearest to man alone, the three left out, is king.",
        {"asked", "right", "earned"},
        {
            "right": "only c is left out; a is the answer then. Leave out all three",
            "said_c": "let in, the answer is boy: a, not c",
        },
    ),
    (
        ("dog", "puppy", "man", "woman"),
        "The nearest to puppy − dog + man is man; with the three words left out it is king, which "
        "is wrong. The nearest to man alone, the three left out, is boy, which is wrong too.",
        {"asked", "said_c"},
        {
            "right": "king is wrong, and man, let in, is no answer here",
            "earned": "c alone is wrong here, and so is the analogy: nothing was earned",
        },
    ),
    (
        ("man", "woman", "boy", "girl"),
        "The nearest to woman − man + boy is woman, which is b; with the three words left out it "
        "is girl, which is right. The nearest to boy alone, the three left out, is girl too.",
        {"asked", "right", "right_by_c"},
        {
            "right": "only c is left out; b is the answer then. Leave out all three",
            "right_by_c": "only c is left out, and man, which is a, is nearer. Leave out the same "
            "three words as for the analogy, or the two cannot be compared",
            "earned": "c alone leads to the right word here, so a and b have earned nothing",
        },
    ),
    (
        ("man", "woman", "king", "queen"),
        "The nearest to woman − man + king is puppy, let in or not. The nearest to king alone, "
        "the three words left out, is queen.",
        {"asked", "right_by_c"},
        {
            "earned": "earned counts questions that are right where c alone is wrong. It is no "
            "difference of two counts: here a and b have lost what c alone had",
            "said_c": "let in, the answer is puppy, which is wrong but not c",
        },
    ),
    (
        ("boy", "girl", "king", "queen"),
        "The nearest to girl − boy + king is queen, let in or not. The nearest to king alone, the "
        "three words left out, is queen too.",
        {"asked", "right", "right_let_in", "right_by_c"},
        {
            "right_let_in": "queen comes first although all words may answer",
            "earned": "c alone leads to the right word here, so a and b have earned nothing",
        },
    ),
    (
        ("man", "woman", "duke", "duchess"),
        "duke and duchess have no vector.",
        {"skipped"},
        {
            "asked": "a question with a word that has no vector is not asked: it is skipped",
            "skipped": "a question with a word that has no vector is skipped, and counted so",
        },
    ),
    (
        ("man", "woman", "boy", "lass"),
        "lass has no vector, so the right answer cannot be given.",
        {"skipped"},
        {
            "asked": "the right answer has no vector. Such a question cannot be answered right, "
            "and says nothing about the vectors: skip it too",
            "skipped": "the right answer has no vector: such a question is skipped too",
        },
    ),
]
_OF_LETTERS: _Single = (
    ("a", "b", "c", "d"),
    "The nearest to b − a + c is c; with the three words left out it is d, which is right. The "
    "nearest to c alone, the three left out, is d too; b is nearer, and is one of them.",
    {"asked", "right", "said_c", "right_by_c"},
    {
        "right_by_c": "b is left in, and is nearest to c alone. Leave out all three words of the "
        "question there too",
    },
)
_LETTER_VECTORS = torch.tensor([[0.0, 1.0], [1.0, 0.1], [1.0, 0.0], [1.0, 0.3]])
# The words and vectors of each single question go before it.
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
# What to ask of _QUESTIONS, and the counts in the order of _COUNTS.
_ASKED_TOGETHER = [
    (slice(None), (9, 3, 6, 1, 5, 5, 2)),
    (slice(3, None), (7, 2, 5, 1, 3, 4, 2)),
    (slice(None, None, 2), (5, 1, 3, 0, 4, 3, 1)),
    (slice(0, 0), (0, 0, 0, 0, 0, 0, 0)),
]
# What comes out of all questions by other ways of answering.
_OTHER_WAYS: dict[tuple[int, ...], str] = {
    (9, 3, 3, 0, 6, 5, 0): "the counts are those of a − b + c; wanted is b − a + c",
    (9, 3, 5, 2, 3, 6, 1): "the vectors are added, or compared, as they are; make them of length 1 "
    "first, as in part 4",
    (9, 3, 6, 2, 3, 6, 1): "words are compared by distance or by vectors that are not of length 1; "
    "take the cosine, as in part 4",
}


@_parts.part("honest score", "questions_from", "anatomy")
def anatomy(questions_from: object, candidate: object, thorough: bool = False) -> None:
    """Check questions made of pairs, and what their answers consist of."""
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
    # The third shares a word with each of the first two, and is a pair of its own all the same.
    pairs = [("go", "went"), ("begin", "gone"), ("go", "gone"), ("dog", "dogs"), ("map", "maps")]
    for number in (2, 3, 5, 1, 0) if thorough else (2, 3):
        inputs: dict[str, object] = {"pairs": pairs[:number]}
        answer = call_twice(candidate, inputs)
        if hasattr(answer, "__next__"):
            raise CheckFailed("  questions_from: this can be read only once. Return a list.")
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
            diagnosis = "a question joins two pairs as they are: a and b of one, c and d of another"
        elif any(one == other for one, other in got):
            diagnosis = "a question about a pair and itself has its answer in it"
        elif got.total() > len(got):
            diagnosis = "a question is asked twice"
        elif len(got) < number * (number - 1):
            diagnosis = "questions are missing: each two pairs give two, either may come first"
            asked = {frozenset(each) for each in got}
            others = [each for each in combinations(pairs[:number], 2) if {*each} not in asked]
            if others and all({*one} & {*other} for one, other in others):
                diagnosis = "two pairs may share a word; they are two pairs all the same"
        if diagnosis:
            raise CheckFailed(
                f"  questions_from: {diagnosis}.\n{describe(inputs)}\n  got         {show(answer)}"
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
    diagnosis = diagnosis or "this is another number than it should be"
    told = f"  What happens here: {story}\n" if story else ""
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
            f"  anatomy: the counts lack {', '.join(missing)}.\n{describe(inputs)}\n"
            f"  got         {show(answer)}"
        )
    counts = {name: plain_number(answer[name]) for name in _COUNTS}
    for name, count in counts.items():
        if type(count) is not int:
            raise CheckFailed(
                f"  anatomy, {name!r}: expected a count, a whole number, got "
                f"{answer[name]!r}. Shares can be made of counts later.\n{describe(inputs)}"
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
    """One pair and one negative, no word twice: small enough for paper."""
    v = torch.tensor([[0.0, 0.0], [1.0, 0.5], [-1.5, 1.0], [0.5, -1.5]])
    u = torch.tensor([[0.0, 0.0], [0.5, 1.0], [1.0, -1.0], [0.5, 1.5]])
    return _step_inputs(v, u, [1], [2], [[3]], learning_rate=0.25)


def _by_descent(inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Let autograd find the gradients of the loss, and take the step."""
    v, u = (inputs[name].clone().requires_grad_() for name in "vu")
    loss = _loss(v, u, inputs["centre"], inputs["context"], inputs["negatives"])
    rate = inputs["learning_rate"]
    return tuple(
        (table - rate * gradient).detach()
        for table, gradient in zip((v, u), torch.autograd.grad(loss, [v, u]), strict=True)
    )


def _take(candidate: object, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Return by how much the candidate changes both tables."""
    pair = expect_pair(_call_without_autograd(candidate, inputs), ("v", "u"), inputs)
    return cast(
        tuple[Tensor, Tensor],
        tuple(
            expect_tensor(table, inputs[name].shape, f"the new {name}", inputs) - inputs[name]
            for name, table in zip("vu", pair, strict=True)
        ),
    )


@_parts.part("bug hunt", "mended_step")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the mended step of training, one symptom after the other."""
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
            f"  The two tables have changed places: return v, u, in this order.\n{describe(inputs)}"
        )
    centre = v[1]
    seen, drawn = float(change[2] @ centre), float(change[3] @ centre)
    if seen > 0 > drawn:
        return
    if seen == 0 and drawn == 0:
        diagnosis = "The vectors of the context words do not move."
    elif seen > 0:
        diagnosis = (
            "The drawn word is not pushed away from the centre but pulled towards it, as the seen "
            "word is. Which words does the step take for seen?"
            if drawn > 0
            else "The drawn word does not move."
        )
    elif drawn > 0:
        diagnosis = (
            "The step climbs: the seen word is pushed away from the centre, the drawn word pulled "
            "towards it. Turn the sign."
        )
    else:
        diagnosis = (
            "The seen word is pushed away from the centre, as the drawn word is. Which words does "
            "the step take for seen?"
        )
    raise CheckFailed(
        f"  {diagnosis}\n{describe(inputs)}\n"
        f"  got         u of the seen word moves by {show(change[2])}, "
        f"of the drawn word by {show(change[3])}"
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
            "The context words move along the centre's vector as it is after its own step. Both "
            "gradients belong to the tables as they came in: take both, then move."
        )
    else:
        diagnosis = (
            "The seen word does not move along the centre's vector. The gradient of u·v with "
            "respect to u is v."
        )
    raise CheckFailed(
        f"  {diagnosis}\n{describe(inputs)}\n"
        f"  got         u of the seen word moves by {show(change[2])}, the centre was {show(old)}"
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
        which = "seen" if wanted else "drawn"
        others = {
            float(wanted - torch.sigmoid(v[word] @ old)): "the score is made of two vectors of v; "
            "context words, drawn ones too, have theirs in u",
            float(wanted - torch.sigmoid(u[word] @ u[1])): "the score is made of two vectors of u; "
            "the centre has its own in v",
            float(wanted - u[word] @ old): "the σ is missing",
            expected / 2: "it is divided by the number of words of a pair; the formula sums them",
            expected / rate: "the learning rate does not come in",
            expected * rate: "the learning rate comes in twice",
        }
        why = next((text for value, text in others.items() if abs(got - value) < 1e-4), "")
        raise CheckFailed(
            f"  The {which} word moves along the centre, by the wrong amount"
            f"{': ' + why if why else ''}.\n{describe(inputs)}\n"
            f"  got         {got:.4g} times learning_rate times the centre's vector\n"
            f"  expected    {expected:.4g} times, {wanted:.0f} − σ(u·v)"
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
            "it moves along context words that have "
            "moved already. Take both gradients first, then move",
        ),
        (
            rate * (seen * v[2] + drawn * v[3]),
            "it moves along vectors of v; the gradient of u·v with respect to v is u",
        ),
        (rate * seen * u[2], "the drawn words do not move it"),
        (rate * drawn * u[3], "the seen word does not move it"),
        (-expected, "the sign is turned"),
        (torch.zeros(2), "it does not move at all"),
        (expected / 2, "it is divided by the number of words of a pair; the formula sums them"),
    ]
    why = next((text for value, text in others if torch.allclose(got, value, 1e-3, 1e-5)), "")
    raise CheckFailed(
        f"  The centre's own vector moves wrongly{': ' + why if why else ''}.\n"
        f"{describe(inputs)}\n  got         {show(got)}\n  expected    {show(expected)}"
    )


def _examine_mean(candidate: object) -> None:
    """Two pairs that share no word: each moves by half of what it would alone."""
    generator = torch.Generator().manual_seed(3)
    v, u = (torch.randn(7, 2, generator=generator).round(decimals=1) for _ in range(2))
    inputs = _step_inputs(v, u, [1, 2], [3, 4], [[5], [6]])
    _compare_tables(
        candidate,
        inputs,
        {
            2.0: "{name} moves too far by the factor 2, the number of pairs: the loss is their "
            "mean",
            0.5: "{name} moves too little by the factor 2: is something divided by the number of "
            "pairs twice?",
        },
        "Right for a single pair, wrong for two that share no word: {name} moves to other places.",
    )


def _examine_repeats(candidate: object) -> None:
    """One word is the centre of two pairs, another is seen once and drawn twice."""
    generator = torch.Generator().manual_seed(5)
    v, u = (torch.randn(6, 2, generator=generator).round(decimals=1) for _ in range(2))
    for centre, context, negatives, what in (
        ([1, 1], [2, 3], [[4], [5]], "a word is the centre of two pairs"),
        ([1, 2], [3, 3], [[4], [5]], "a word is seen in two pairs"),
        ([1], [2], [[3, 3]], "a word is drawn twice for one pair"),
        ([1, 2], [3, 4], [[4, 5], [3, 3]], "a word is seen in one pair and drawn in another"),
    ):
        inputs = _step_inputs(v, u, centre, context, negatives)
        _compare_tables(
            candidate,
            inputs,
            {},
            f"Right where no word comes twice. Here {what}, and {{name}} is wrong: all that moves "
            "one row must add up. Writing to a row twice, by = or -=, keeps the last only.",
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
                diagnosis = f"{text}."
        row = int((got - expected).abs().sum(dim=1).argmax())
        raise CheckFailed(
            f"  {diagnosis.format(name=name)}\n{describe(inputs)}\n"
            f"  got         {name}[{row}] moves by {show(got[row])}\n"
            f"  expected    {show(expected[row])}"
        )


_SYMPTOMS: dict[str, Callable[[object], None]] = {
    "who is pulled and who is pushed": _examine_directions,
    "what context words move along": _examine_order,
    "how far they move": _examine_errors,
    "how the centre moves": _examine_centre,
    "the mean over pairs": _examine_mean,
    "words that come twice": _examine_repeats,
}
