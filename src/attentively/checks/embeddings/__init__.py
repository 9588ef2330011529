"""Checks of the assignment on embeddings.

The answers are compared with the recordings in this folder. The other checks test properties: what
a new embedding table contains, which gradients flow, and what the package's models do with the
student's parts. No function here is the answer of a part.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    describe,
    expect_equal,
    expect_gradients,
    expect_gradients_through,
    expect_pair,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.compare import as_plain
from attentively.checks.question import Recorded, Results
from attentively.checks.recordings import Topic
from attentively.checks.trained_translator import MODEL, expect_same_translations
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import PAD_ID
from attentively.word_vectors.skip_gram import SkipGram, context_pairs
from attentively.word_vectors.vectors import load_pretrained_vectors

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

SENTENCES = ("the cat drinks the milk", "two kings sing")

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
progress = _parts.progress


def ready() -> None:
    """Show that the package, its trained model, its word vectors and the checks work."""
    _parts.explain_undefined_names()
    translation = translate(load_pretrained(MODEL), SENTENCES[:1], beam_size=1)[0]
    vectors = load_pretrained_vectors(VECTORS)
    print(f"PyTorch {torch.__version__}. The trained model translates “{SENTENCES[0]}”")
    print(f"to “{translation.text}”. {len(vectors.words):,} English words have a vector.")
    print("The set-up is complete.")


# Part 1


@_parts.part(
    "lookup",
    "one_hot",
    "Embedding",
    rebuilds=("attentively.layers.embedding:TokenEmbedding",),
    refuses=(
        "torch.nn:Embedding",
        "torch.nn.functional:embedding",
        "torch:embedding",
        "torch.nn:EmbeddingBag",
        "torch.nn.functional:embedding_bag",
        "torch.nn.functional:one_hot",
    ),
)
def lookup(one_hot: object, candidate: object, thorough: bool = False) -> None:
    """Check one-hot vectors and a class like `nn.Embedding`, finally inside trained models."""
    _topic.examine("one_hot", one_hot, thorough, properties={"": _expect_floats})
    if isinstance(candidate, nn.Module):
        raise CheckFailed("  Embedding: this is an instance. Pass the class, Embedding without ().")
    check_embedding(candidate, thorough)


def _expect_floats(results: Results, inputs: Inputs) -> None:
    (answer,) = results.values()
    if type(answer) is Tensor and not answer.is_floating_point():
        raise CheckFailed(
            f"  one_hot: the result is {answer.dtype}, which cannot be multiplied by a table "
            f"of 32-bit floats. Convert it with .float().\n{describe(inputs)}"
        )


def check_embedding(candidate: object, thorough: bool = False) -> None:
    """Check any embedding class, including the package's own."""
    sizes = {"vocab_size": 4, "embedding_dim": 2}
    mine, other = _build(candidate, **sizes), _build(candidate, **sizes)
    _expect_good_start(mine, sizes, other)
    _expect_no_product(mine, torch.tensor([[2, 1], [3, 0]]))
    afterwards = partial(_expect_gradient, candidate)
    _topic.examine("Embedding", looked_up(candidate), thorough, afterwards=afterwards)
    open_call.once(_expect_same_training, candidate)

    def put_in(model: Seq2Seq) -> None:
        for role in (model.src_embedding, model.decoder.embedding):
            table = role.table.weight
            sizes = {"vocab_size": table.size(0), "embedding_dim": table.size(1)}
            mine = cast(nn.Module, call(candidate, sizes))
            mine.load_state_dict(role.table.state_dict())
            role.table = cast(nn.Embedding, mine.eval())

    expect_same_translations(put_in, SENTENCES, "embedding")


def looked_up(candidate: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that looks ids up with an instance of a class, in a given table."""

    def vectors(ids: Tensor, weight: Tensor) -> Tensor:
        mine = candidate(*weight.shape)
        mine.load_state_dict({"weight": weight})
        with torch.no_grad():
            found: Tensor = mine(ids)
        return found

    vectors.__name__ = getattr(candidate, "__name__", "")
    return vectors


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


def _expect_gradient(candidate: object, _: object, results: Results, inputs: Inputs) -> None:
    """Check the gradient of the table; only rows that are looked up receive one.

    The vectors are linear in the table, so the gradient is known by the vectors of another table.
    The two cases with four ids contain padding, and one of them contains a word twice.
    """
    ids, table = inputs["ids"], inputs["weight"]
    if ids.numel() != 4:
        return
    mine = _build(candidate, *table.shape)
    mine.load_state_dict({"weight": table})
    weight = cast(nn.Parameter, mine.weight)
    vectors = cast(Tensor, call(mine, {"ids": ids}))
    if not torch.equal(weight, table):
        raise CheckFailed(f"  Embedding: the lookup changes the table.\n{describe(inputs)}")
    if not vectors.requires_grad:
        expect_gradients(vectors, {"weight": weight})
    upstream = torch.randn(vectors.shape)
    call(lambda *_: vectors.backward(upstream), inputs)
    if weight.grad is None:
        raise CheckFailed(
            "  Embedding: the vectors are correct, but no gradient reaches weight, so it cannot be "
            "trained. Does your code use a copy of weight, .detach() or .data?"
            f"\n{describe(inputs)}"
        )
    got = weight.grad.to_dense() if weight.grad.is_sparse else weight.grad
    if got[PAD_ID].count_nonzero():
        raise CheckFailed(
            "  Embedding: the row of padding receives a gradient, so after one training step it is "
            "no longer zero. The result for id 0 must not depend on the table: multiply it by 0, "
            f"for example.\n{describe(inputs)}\n"
            f"  got         {show(got[PAD_ID])} for row 0\n  expected    zeros"
        )
    direction = torch.randn(table.shape)
    direction[PAD_ID] = 0
    measured = (looked_up(candidate)(ids, direction) * upstream).sum()
    slope = (got * direction).sum()
    if not torch.isclose(slope, measured, 1e-3, 1e-3):
        raise CheckFailed(
            "  Embedding: the vectors are correct, but the gradient of weight is not. Does your "
            f"code use .detach() or .data in a part of the lookup?\n{describe(inputs)}\n"
            f"  measured    slope by two tables {measured:.4g}, slope by the gradient {slope:.4g}"
        )


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
    centre, context = (torch.randint(0, 11, (7,)) for _ in range(2))
    negatives = torch.randint(0, 11, (7, 5))
    negatives[0, 0] = PAD_ID
    inputs = {"centre": centre, "context": context, "negatives": negatives}
    for model in (theirs, ours):

        def loss(*_: Tensor, model: SkipGram = model) -> object:
            return model(*inputs.values())

        for _ in range(2):
            _descend(model, cast(Tensor, call(loss, inputs)))
    what = "the package's skip-gram after two training steps with your class Embedding"
    for (name, expected), got in zip(
        theirs.state_dict().items(), ours.state_dict().values(), strict=True
    ):
        expect_equal(got, expected, f"{name} of {what}", inputs)


# Part 2


@_parts.part("gradient of a lookup", "table_gradient", "touched_rows")
def backward(table_gradient: object, touched_rows: object, thorough: bool = False) -> None:
    """Check the gradient of an embedding table: the whole table, and only the rows used."""
    _topic.examine_without_autograd("table_gradient", table_gradient, thorough)
    try:
        _topic.examine_without_autograd(
            "touched_rows", touched_rows, thorough, tidy=_rows, explain=_of_rows
        )
    except CheckFailed as failed:
        brief = re.sub(r"\[enforce.*allocate memory\)", "out of memory", str(failed), flags=re.S)
        raise CheckFailed(brief) from None


def _rows(answer: object, inputs: Inputs) -> tuple[object, object]:
    """Return the rows as a list, and the gradients."""
    rows, gradients = expect_pair(answer, ("rows", "gradients"), inputs)
    if type(rows) is not Tensor or rows.ndim != 1:
        got = f"{rows.dtype} of shape {tuple(rows.shape)}" if type(rows) is Tensor else show(rows)
        raise CheckFailed(
            "  touched_rows: expected rows as a torch.Tensor of ids (torch.int64) with one axis, "
            f"got {got}.\n{describe(inputs)}"
        )
    return rows.tolist(), gradients


def _of_rows(got: object, recorded: Recorded) -> str:
    """Return what is wrong with the list of rows."""
    if not isinstance(got, list):
        return ""
    wanted = recorded.expected["rows"]
    ids, upstream = recorded.case.inputs.values()
    if PAD_ID in got:
        return "padding, id 0, is among the rows. It receives no gradient; leave it out."
    if len({*got}) < len(got):
        return "a row occurs twice. Return each word once, with the sum of its gradients."
    if got == [word for word in wanted if upstream[ids == word].sum(0).any()]:
        return "a word is missing whose gradients sum to 0. It occurs, so return it."
    if PAD_ID not in ids and got == wanted[1:]:
        return "the first row is missing. These ids contain no padding to leave out."
    if sorted(got) != wanted:
        return "these are not the words that occur, without padding."
    return "the rows are not in ascending order."


# Part 3


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
    _topic.examine("pairs", pairs, thorough, tidy=_pairs)
    _topic.examine("loss", loss, thorough, afterwards=_expect_trained)
    open_call.once(_expect_same_model, pairs, loss)


def _pairs(answer: object, inputs: Inputs) -> list[tuple[int, int]]:
    """Return the pairs of ids, sorted."""
    if hasattr(answer, "__next__"):
        raise CheckFailed(
            "  pairs: the result is a generator, which can be read only once. Return a list."
            f"\n{describe(inputs)}"
        )
    answer = as_plain(answer, [()])
    if not isinstance(answer, list | tuple):
        raise CheckFailed(
            f"  pairs: expected a list of pairs, got {show(answer)}.\n{describe(inputs)}"
        )
    for pair in answer:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise CheckFailed(
                f"  pairs: expected pairs (centre, context), got {show(pair)}.\n{describe(inputs)}"
            )
    found = [tuple(plain_number(word) for word in pair) for pair in answer]
    if any(None in pair for pair in found):
        raise CheckFailed(
            f"  pairs: a pair must contain two ids, got {show(answer[0])}.\n{describe(inputs)}"
        )
    return sorted(cast(list[tuple[int, int]], found))


def _expect_trained(candidate: object, results: Results, inputs: Inputs) -> None:
    """Check the gradients of both tables: a detached vector is not trained."""
    if len(inputs["v"]) != 13:  # one case suffices
        return
    v, u = (inputs[name].clone().requires_grad_() for name in "vu")
    given = {**inputs, "v": v, "u": u}
    answer = cast(Tensor, call(lambda *_: cast(Any, candidate)(*given.values()), inputs))
    gradients = expect_gradients(answer, {"v": v, "u": u})
    if not gradients["u"][inputs["negatives"]].any(dim=-1).all():
        raise CheckFailed(
            "  loss: the loss is correct, but the vectors of the negatives receive no gradient. "
            f"Does your code use .detach() or .data?\n{describe(inputs)}"
        )
    expect_gradients_through(candidate, given, {"v": v, "u": u})


_TEXT = [[4, 7, 5, 9, 4, 6], [5, 8, 4, 7], [9, 5, 5, 1]]


def _trained(kind: type[SkipGram], pairs_of: Callable[..., Any]) -> Tensor:
    """Return the vectors of a model after three steps of training."""
    torch.manual_seed(7)
    model = kind(11, 3)
    found = [cast(Any, as_plain(pairs_of(each, 2), [()])) for each in _TEXT]
    chosen = torch.tensor([pair for each in found for pair in sorted(each)])
    for _ in range(3):
        negatives = torch.randint(1, 11, (len(chosen), 3))
        _descend(model, model(chosen[:, 0], chosen[:, 1], negatives))
    return model.vectors


def _expect_same_model(pairs: object, loss: object) -> None:
    """Train the package's model with the student's pairs and loss, and with its own."""

    class WithTheirLoss(SkipGram):
        def forward(self, centre: Tensor, context: Tensor, negatives: Tensor) -> Tensor:
            return cast(Any, loss)(
                self.centre.table.weight, self.context.table.weight, centre, context, negatives
            )

    expected = _trained(SkipGram, context_pairs)
    inputs = {"sentences": _TEXT}
    got = call(lambda *_: _trained(WithTheirLoss, cast(Any, pairs)), inputs)
    what = "the package's model, trained for three steps from scores of 0 with your pairs and loss"
    expect_equal(got, expected, what, inputs)


# Part 4


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
    for name, candidate in (("nearest", nearest), ("analogy", analogy)):
        tidy = partial(_words, name)
        _topic.examine(name, candidate, thorough, tidy=tidy, explain=_of_question)


def _words(name: str, answer: object, inputs: Inputs) -> object:
    """Return a list of words as plain strings."""
    given = answer if isinstance(answer, list | tuple) else None
    diagnosis = ""
    if isinstance(answer, str) and inputs["count"] == 1:
        diagnosis = "expected a list of words, even if it contains only one word."
    elif given and all(type(each) is tuple for each in given):
        diagnosis = "expected the words only, without their cosines."
    elif isinstance(answer, Tensor) or (
        given and all(plain_number(each) is not None for each in given)
    ):
        diagnosis = "these are indices or other numbers. Return the words."
    if diagnosis:
        raise CheckFailed(
            f"  {name}: {diagnosis}\n{describe(inputs)}\n  got         {show(answer)}"
        )
    if given is None:
        return answer
    return [str(each) if isinstance(each, str) else each for each in given]


def _of_question(got: object, recorded: Recorded) -> str:
    """Return which words of the question are among the answers, but must not be."""
    asked = recorded.case.inputs
    given = got if isinstance(got, list) else []
    if "word" in asked:
        itself = "the word itself is among its neighbours. Leave it out."
        return itself if asked["word"] in given else ""
    found = [name for name in "abc" if asked[name] in given]
    if not asked["exclude"] or not found:
        return ""
    return (
        f"{' and '.join(found)} of the question is among the answers although exclude is True. "
        "Exclude all three words."
    )


# Part 5

COUNTS = ("asked", "skipped", "right", "right_let_in", "said_c", "right_by_c", "earned")


@_parts.part("protocol and baseline", "questions_from", "anatomy")
def anatomy(questions_from: object, candidate: object, thorough: bool = False) -> None:
    """Check the questions made of pairs, and the counts of their answers."""
    _topic.examine("questions_from", questions_from, thorough, tidy=_questions)
    quotes = {"count": _wrong_count, "story": lambda got, recorded: _story(recorded)}
    _topic.examine("anatomy", candidate, thorough, tidy=_counts, quotes=quotes, explain=_unknown)


def _questions(answer: object, inputs: Inputs) -> list[tuple[object, ...]]:
    """Return the questions, sorted."""
    if hasattr(answer, "__next__"):
        raise CheckFailed("  questions_from: the result can be read only once. Return a list.")
    if not isinstance(answer, list | tuple) or not all(
        isinstance(each, list | tuple) and len(each) == 4 for each in answer
    ):
        raise CheckFailed(
            f"  questions_from: expected a list of questions (a, b, c, d), got {show(answer)}."
            f"\n{describe(inputs)}"
        )
    return sorted(map(tuple, answer), key=repr)


def _wrong_count(got: Mapping[str, int], recorded: Recorded) -> str:
    """Return the name of the first count that is wrong."""
    expected = recorded.expected["the counts"]
    return repr(next((name for name in expected if got[name] != expected[name]), ""))


def _story(recorded: Recorded) -> str:
    told = recorded.case.general
    return f"\n  Explanation: {told}" if told else ""


def _unknown(got: Mapping[str, int], recorded: Recorded) -> str:
    return f"anatomy, {_wrong_count(got, recorded)}: the count is wrong.{_story(recorded)}"


def _counts(answer: object, inputs: Inputs) -> dict[str, int]:
    """Return the counts by their names."""
    if not isinstance(answer, dict):
        raise CheckFailed(
            f"  anatomy: expected a dict of counts, got {show(answer)}.\n{describe(inputs)}"
        )
    missing = [name for name in COUNTS if name not in answer]
    if missing:
        raise CheckFailed(
            f"  anatomy: the dict lacks the counts {', '.join(missing)}.\n{describe(inputs)}\n"
            f"  got         {show(answer)}"
        )
    return {name: answer[name] for name in COUNTS}


# Part 6


@_parts.part("debugging", "mended_step")
def bug_hunt(candidate: object, thorough: bool = False) -> None:
    """Check the corrected training step, one symptom after the other."""
    _topic.examine_without_autograd("mended_step", candidate, thorough)
