"""Checks of the assignment on heads: masking, a label, the next word, shapes, leaks, fairness.

Parts 1 to 3 rebuild what the package reads and writes with, from a student's own encoder. The
answers to parts 4 to 6 stand nowhere: how large a head is and where an answer ends, what is wrong
with batches that were made with a fault, and what the rows of many runs say together.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import causal_mask, padding_mask
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
    expect_value,
    in_32_bits,
    known,
    once_solved,
    plain_number,
)
from attentively.checks.heads_for_other_tasks.fair_comparisons import (
    DIFFERENCE_TWINS,
    READING_TWINS,
    Row,
    differences,
    made_up_rows,
    readings,
    recorded_runs,
    results_of,
)
from attentively.checks.heads_for_other_tasks.head_sizes import (
    ADDED_TWINS,
    SHAPE_TWINS,
    SPAN_TWINS,
    TASKS,
    best_of,
    head_of,
)
from attentively.checks.heads_for_other_tasks.masked_tokens import (
    CHOSEN_TWINS,
    READ_TWINS,
    WANTED_TWINS,
    chosen_tokens,
    hidden_tokens,
)
from attentively.checks.heads_for_other_tasks.planted_batches import (
    AUDIT_TWINS,
    FAULTS,
    MASK_ID,
    Rounds,
    batches,
    found_in,
    planted,
    why_wrong,
)
from attentively.checks.named_cases import expect_all, named_cases
from attentively.checks.student_modules import (
    built,
    expect_learned,
    refuse_ours,
    run,
    shaken,
    state_of,
)
from attentively.data import toy
from attentively.data.batches import pad
from attentively.models import plain_transformer
from attentively.models.checkpoints import load_pretrained
from attentively.models.encoder_heads import Classifier, ClassifierConfig
from attentively.models.language_model import LanguageModel, LanguageModelConfig
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, Vocabulary, WordTokenizer
from attentively.training.objectives import LanguageModelling

__all__ = [
    "MASK_ID",
    "audited",
    "batches",
    "belongs",
    "classifier",
    "comparison",
    "language_model",
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

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its sentences and these checks work."""
    _parts.explain_undefined_names()
    print(f"PyTorch {torch.__version__}. The toy language has {len(tokenizer())} English tokens.")
    print(
        f"The ids: PAD {PAD_ID}, START {START_ID}, END {END_ID}; words from {END_ID + 1} on. Ready."
    )


def tokenizer() -> WordTokenizer:
    """Return what turns English sentences of the toy language into ids."""
    return WordTokenizer(Vocabulary(toy.words("src")))


def sentences(split: str, number: int, clauses: tuple[int, ...] = (1, 2)) -> list[str]:
    """Return English sentences of the toy language."""
    return [pair.src_text for pair in toy.load(split, number, clauses=clauses)]


def belongs(text: str) -> bool:
    """Tell whether an English sentence belongs to the toy language."""
    try:
        toy.translate(text)
    except ValueError:
        return False
    return True


# Part 1


def _plain(answer: object, what: str, inputs: Inputs) -> object:
    """Return a tensor or lists of whole numbers, or of True and False, as lists of numbers."""
    if type(answer) is Tensor:
        answer = answer.tolist()
    if isinstance(answer, list | tuple):
        return [_plain(each, what, inputs) for each in answer]
    number = int(answer) if isinstance(answer, bool) else plain_number(answer)
    if number is None:
        kind = "None: is there a `return`?" if answer is None else f"a {type(answer).__name__}"
        raise CheckFailed(f"  Expected {what} as a tensor, got {kind}\n{describe(inputs)}")
    return int(number) if number == int(number) else number


def _equal_lists(got: object, right: object) -> bool:
    return bool(got == _plain(right, "", {}))


def _expect_lists(
    candidate: object, cases: Sequence[Inputs], right: Callable[..., Tensor], what: str,
    twins: Sequence[Twin], pick: Callable[[object, Inputs], object] = lambda answer, _: answer,
) -> None:  # fmt: skip
    expect_all(
        candidate, cases, lambda *given: _plain(right(*given), what, {}), what, twins,
        _equal_lists, pick=lambda answer, inputs: _plain(pick(answer, inputs), what, inputs),
    )  # fmt: skip


def _texts(rows: int, width: int, vocab_size: int) -> Tensor:
    """Return random texts: words, END, padding; in some a START or an unknown word."""
    ids = torch.randint(END_ID + 1, vocab_size, (rows, width))
    ids[:, 0] = torch.randint(1, vocab_size, (rows,))
    for row in range(rows):
        last = int(torch.randint(4, width, ()))
        ids[row, last], ids[row, last + 1 :] = END_ID, PAD_ID
    ids[0, 0], ids[0, 2] = START_ID, 1
    return ids


def _pick_one(place: int, names: tuple[str, str], answer: object, inputs: Inputs) -> object:
    return expect_pair(answer, names, inputs)[place]


@_parts.part("hide, and ask", "choose", "hide")
def masking(choose: object, hide: object, thorough: bool = False) -> None:
    """Check which tokens are chosen, what is read of them, and what is asked."""
    paper = torch.tensor([[7, 5, 9, 6, END_ID, PAD_ID]])
    dice = torch.tensor([[0.5, 0.2, 0.9, 0.4, 0.1, 0.3]])
    asked: list[tuple[Any, ...]] = [
        (paper, dice, 0.5),
        (torch.tensor([[1, 8, 6, 9, 7, END_ID]]), dice, 0.25),
        (torch.tensor([[9, 8, 7, END_ID], [4, END_ID, 0, 0]]), torch.rand(2, 4), 0.15),
        (_texts(5, 23, 31), torch.rand(5, 23), 0.17),
    ]
    if thorough:
        asked += [
            (_texts(7, 41, 97), torch.rand(7, 41), 0.17),
            (_texts(3, 13, 11), torch.rand(3, 13), 0.83),
        ]
    cases = named_cases(("ids", "lottery", "share"), asked)
    _expect_lists(choose, cases, chosen_tokens, "what choose returns", CHOSEN_TWINS)
    names = ("ids", "chosen", "fate", "others", "mask_id")
    asked = [
        (
            paper[:, :5], torch.tensor([[True, True, False, True, False]]),
            torch.tensor([[0.1, 0.85, 0.3, 0.95, 0.5]]), torch.tensor([[4, 8, 4, 4, 4]]), 10,
        ),
    ]  # fmt: skip
    for rows, width, vocab_size in [(5, 23, 31), *[(7, 41, 97), (2, 11, 13)] * thorough]:
        ids = _texts(rows, width, vocab_size)
        others = torch.randint(END_ID + 1, vocab_size, ids.shape)
        chosen = chosen_tokens(ids, torch.rand(ids.shape), 0.61)
        asked.append((ids, chosen, torch.rand(ids.shape), others, vocab_size))
    cases = named_cases(names, asked)
    for place, twins in ((0, READ_TWINS), (1, WANTED_TWINS)):
        _expect_lists(
            hide, cases, lambda *given, place=place: hidden_tokens(*given)[place],
            ("what is read", "what is wanted")[place], twins,
            partial(_pick_one, place, ("read", "wanted")),
        )  # fmt: skip


# Part 2


class Words(nn.Module):
    """An encoder that knows words and nothing of their neighbours."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return cast(Tensor, self.table(ids))


def _mean(vectors: Tensor, real: Tensor) -> Tensor:
    return (vectors * real).sum(dim=1) / real.sum(dim=1)


def _judged(
    encoder: nn.Module, state: Mapping[str, Tensor], ids: Tensor, mask: Tensor, *,
    join: Callable[[Tensor, Tensor], Tensor] = _mean, masked: bool = True, bias: bool = True,
    after: Callable[[Tensor], Tensor] = lambda scores: scores, least: int = PAD_ID + 1,
) -> Tensor:  # fmt: skip
    """Return a score for each label; each keyword is what a mistake may change."""
    vectors = encoder(ids, mask if masked else torch.ones_like(mask))
    joined = join(vectors, mask.transpose(1, 2) & (ids >= least).unsqueeze(2))
    return after(F.linear(joined, state["output.weight"], state["output.bias"] if bias else None))


def _last(vectors: Tensor, real: Tensor) -> Tensor:
    return vectors[torch.arange(len(vectors)), real.sum(dim=1).squeeze(1) - 1]


_PADDED = (
    "Padding is averaged too, so that a text is judged by the company that it is batched with."
)
_JUDGED_WAYS: dict[str, list[dict[str, Any]]] = {
    _PADDED: [{"join": lambda vectors, _: vectors.mean(dim=1)}],
    "Padding adds nothing above the line, but is counted below: divide by the number of tokens.":
        [{"join": lambda vectors, real: (vectors * real).mean(dim=1)}],
    "Special tokens are left out. Every token counts that is no padding.": [{"least": END_ID + 1}],
    "Each text is divided by the number of tokens of the whole batch. Divide by its own.":
        [{"join": lambda vectors, real: (vectors * real).sum(dim=1) / real.sum()}],
    "This is the sum of the vectors, which grows with the text. Take the mean.":
        [{"join": lambda vectors, real: (vectors * real).sum(dim=1)}],
    "The first token's vector is classified, as BERT does with a token of its own. Here it is the "
    "mean of all tokens.":
        [{"join": lambda vectors, _: vectors[:, 0]}],
    "The last vector is classified. Here it is the mean of all tokens.":
        [{"join": lambda vectors, _: vectors[:, -1]}, {"join": _last}],
    "The largest number of each component is taken. Here it is the mean.": [
        {"join": lambda vectors, real: vectors.masked_fill(~real, -torch.inf).amax(dim=1)},
        {"join": lambda vectors, _: vectors.amax(dim=1)},
    ],
    "The encoder is not given the mask, so that words look at padding.": [{"masked": False}],
    "The bias is missing: nn.Linear has one.": [{"bias": False}],
    "A softmax is taken. The head returns scores; the loss takes the softmax.":
        [{"after": lambda scores: scores.softmax(dim=-1)},
         {"after": lambda scores: scores.log_softmax(dim=-1)}],
    "A sigmoid is taken. The head returns scores.": [{"after": torch.sigmoid}],
}  # fmt: skip


def _encoder(vocab_size: int, d_model: int, num_layers: int) -> nn.Module:
    return shaken(plain_transformer.Encoder(vocab_size, d_model, 2, 5, num_layers))


@_parts.part("a label for a text", "Classifier")
def classifier(candidate: object, thorough: bool = False) -> None:
    """Check the mean of the words' vectors, and the scores of the labels."""
    refuse_ours(candidate, Classifier)
    words = Words(7, 2)
    with torch.no_grad():
        words.table.weight.copy_(torch.tensor([[90.0, 70]] * 4 + [[1.0, 0], [3, 2], [2, 4]]))
    by_hand = {
        "output.weight": torch.tensor([[1.0, 0], [0, 1], [1, 1]]),
        "output.bias": torch.tensor([0, 0, 0.5]),
    }
    asked: list[tuple[nn.Module, int, dict[str, Tensor], Tensor]]
    asked = [(words, 2, by_hand, torch.tensor([[5, 6, 4, PAD_ID]]))]
    for d_model, labels, layers in [(4, 3, 1), (6, 2, 2), *[(10, 5, 1), (2, 7, 1)] * thorough]:
        state = {"output.weight": torch.randn(labels, d_model), "output.bias": torch.randn(labels)}
        asked.append((_encoder(13, d_model, layers), d_model, state, _texts(3, 7, 13)))
    for encoder, d_model, state, ids in asked:
        sizes = {"encoder": encoder, "d_model": d_model, "num_labels": len(state["output.bias"])}
        whole = {**{f"encoder.{name}": each for name, each in state_of(encoder).items()}, **state}
        made = built(candidate, sizes, whole)
        inputs = {"ids": ids, "mask": padding_mask(ids, PAD_ID)}
        what = "what Classifier returns"
        with torch.no_grad():
            right = _judged(encoder, state, *inputs.values())
            twins = [
                Twin(said, partial(_judged, encoder, state, **way))
                for said, ways in _JUDGED_WAYS.items() for way in ways
            ]  # fmt: skip
            got = run(made, inputs, what.capitalize())
            expect_equal(got, right, what, inputs, twins)
    expect_learned(made, inputs)
    _expect_the_packages_classifier(candidate)


def _expect_the_packages_classifier(candidate: object) -> None:
    """Load the weights of a classifier of the package: the scores are the same."""
    config = ClassifierConfig(
        vocab_size=12, d_model=6, num_heads=2, d_ff=5, num_layers=1, labels=("no", "yes", "maybe")
    )
    ours = shaken(Classifier(config))
    sizes = {"encoder": _encoder(13, 6, 1), "d_model": 6, "num_labels": 3}
    made = built(candidate, sizes, state_of(ours))
    ids = _texts(5, 11, 12)
    inputs = {"ids": ids, "mask": padding_mask(ids, PAD_ID)}
    with torch.no_grad():
        what = "with the weights of the package's classifier, what Classifier returns"
        expect_equal(run(made, inputs, "What Classifier returns"), ours(**inputs), what, inputs)


# Part 3


class Next:
    """A language model that looks at the last word alone."""

    def __init__(self, vocab_size: int) -> None:
        self.table = torch.randn(vocab_size, vocab_size).requires_grad_()

    def __call__(self, ids: Tensor) -> Tensor:
        return self.table[ids]

    def __repr__(self) -> str:
        return f"a model that looks at the last word alone, of {len(self.table)} words"


class Ranked:
    """Choose the token with the highest score or the second highest, and keep what was asked."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.seen: list[Tensor] = []

    def __call__(self, scores: Tensor) -> int:
        self.seen.append(scores.detach().clone())
        return int(scores.flatten().argsort(descending=True)[self.rank]) % scores.size(-1)

    def __repr__(self) -> str:
        return f"a function that takes the {'second ' * self.rank}highest score"


def _scored(
    encoder: nn.Module, ids: Tensor, *,
    mask: Callable[[int], Tensor] = causal_mask,
    table: Callable[[Tensor], Tensor] = lambda table: table,
    after: Callable[[Tensor], Tensor] = lambda scores: scores,
) -> Tensor:  # fmt: skip
    """Return the scores of a language model; each keyword is what a mistake may change."""
    rows = table(cast(Any, encoder).input.embedding.table.weight)
    return after(encoder(ids, mask(ids.size(1))) @ rows.mT)


_SCORED_WAYS: dict[str, list[dict[str, Any]]] = {
    "No word may look at those after it: the causal mask is missing. Where the next word is read, "
    "it is not predicted.":
        [{"mask": lambda n: torch.ones(1, n, n, dtype=torch.bool)}],
    "The mask is turned round: every word looks at those after it, not at those before.":
        [{"mask": lambda n: causal_mask(n).mT}],
    "A word may not look at itself. The causal mask lets it: what is predicted is the next one.":
        [{"mask": lambda n: causal_mask(n).tril(-1)}],
    "A word looks one further than itself, at the one that it is to predict.":
        [{"mask": lambda n: torch.ones(1, n, n, dtype=torch.bool).tril(1)}],
    "A word looks at itself alone.": [{"mask": lambda n: torch.eye(n, dtype=torch.bool)[None]}],
    "A softmax is taken. The model returns scores; the loss takes the softmax.": [
        {"after": lambda scores: scores.softmax(dim=-1)},
        {"after": lambda scores: scores.log_softmax(dim=-1)},
    ],
    "The scores are divided by the root of d_model. Here they are plain products.":
        [{"table": lambda table: table / table.size(1) ** 0.5}],
    "The scores are multiplied by the root of d_model, as the embeddings are. Here they are plain "
    "products.":
        [{"table": lambda table: table * table.size(1) ** 0.5}],
    "The scores of the last place alone are returned. Every place predicts the word after it.":
        [{"after": lambda scores: scores[:, -1]}, {"after": lambda scores: scores[:, -1:]}],
}  # fmt: skip


def _made(candidate: object, encoder: nn.Module) -> nn.Module:
    """Return the student's language model over this encoder; it adds no parameter."""
    inputs = {"encoder": encoder}
    made = call(candidate, inputs)
    if not isinstance(made, nn.Module) or "_parameters" not in vars(made):
        raise CheckFailed(
            "  LanguageModel should be a class whose parent is nn.Module, and whose __init__ "
            "begins with super().__init__()."
        )
    given = {id(each) for each in encoder.parameters()}
    held = {id(each): name for name, each in made.named_parameters()}
    more = [name for each, name in held.items() if each not in given]
    if more:
        raise CheckFailed(
            f"  LanguageModel has a parameter of its own, {more[0]}. Its head adds none: a token "
            "is scored by its row of the embedding's table, encoder.input.embedding.table.weight."
        )
    if given - set(held):
        raise CheckFailed(
            "  LanguageModel does not hold its encoder: no training would find those weights. Set "
            "self.encoder = encoder."
        )
    return made.eval()


def _expect_a_learning_head(made: nn.Module, encoder: nn.Module, inputs: Inputs) -> None:
    """Let gradients reach the rows of tokens that are not read: only the head leads there."""
    table = cast(Any, encoder).input.embedding.table.weight
    (slope,) = torch.autograd.grad(made(inputs["ids"]).sum(), table)
    if not slope[START_ID].any():
        raise CheckFailed(
            "  LanguageModel: The scores are right, but no gradient reaches the table from the "
            "head, so it does not learn. In forward take encoder.input.embedding.table.weight "
            f"itself: no copy, no .detach().\n{describe(inputs)}"
        )


def _lost(
    model: Callable[[Tensor], Tensor], texts: Tensor, *,
    said: Callable[[Tensor], Tensor] = lambda scores: scores[:, :-1],
    asked: Callable[[Tensor], Tensor] = lambda texts: texts[:, 1:],
    over: Callable[[Tensor, Tensor], Tensor] = lambda losses, real: losses[real].mean(),
) -> Tensor:  # fmt: skip
    """Return the loss of the next word; each keyword is what a mistake may change."""
    targets = asked(texts)
    losses = F.cross_entropy(said(model(texts)).mT, targets, reduction="none")
    return over(losses, targets != PAD_ID)


_LOST_WAYS: dict[str, list[dict[str, Any]]] = {
    "Nothing is shifted: each word is to be predicted from itself. Read all but the last, predict "
    "all but the first.":
        [{"said": lambda scores: scores, "asked": lambda texts: texts}],
    "The shift goes the wrong way: the word *before* is asked for.":
        [{"said": lambda scores: scores[:, 1:], "asked": lambda texts: texts[:, :-1]}],
    "The shift is made twice: the word after the next one is asked for.":
        [{"said": lambda scores: scores[:, :-2], "asked": lambda texts: texts[:, 2:]}],
    "Both are cut at the same end, so nothing is shifted.": [
        {"asked": lambda texts: texts[:, :-1]},
        {"said": lambda scores: scores[:, 1:], "asked": lambda texts: texts[:, 1:]},
    ],
    "F.cross_entropy takes a softmax itself: give it the scores.":
        [{"said": lambda scores: scores[:, :-1].softmax(dim=-1)}],
    "A view or a reshape does not exchange axes: use .mT.": [
        {"said": lambda scores: scores[:, :-1].reshape(len(scores), scores.size(2), -1).mT},
    ],
    "Padding is counted like a word. Leave the places out whose target is PAD_ID.":
        [{"over": lambda losses, _: losses.mean()}],
    "Padding adds nothing above the line, but is counted below.":
        [{"over": lambda losses, real: losses[real].sum() / real.numel()}],
    "This is a sum. Take the mean over the words that are predicted.":
        [{"over": lambda losses, real: losses[real].sum()}],
    "This is the mean of the texts' means. Take one mean over all words of the batch.":
        [{"over": lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()}],
    "The sum is divided by the number of texts. Divide by the number of words.":
        [{"over": lambda losses, real: losses[real].sum() / len(real)}],
    "The sign is turned: a surprise is positive.":
        [{"over": lambda losses, real: -losses[real].mean()}],
    "The end of a text is not predicted. Whoever writes must know where to stop.":
        [{"over": lambda losses, real: losses[real & ~_ends(real)].mean()}],
}  # fmt: skip


def _ends(real: Tensor) -> Tensor:
    """Return where the last target of each row stands."""
    return real & ~F.pad(real[:, 1:], (0, 1))


def _written(
    model: Callable[[Tensor], Tensor], prompt: list[int], steps: int,
    choose: Callable[[Tensor], int], *,
    read: Callable[[list[int]], list[int]] = lambda ids: ids,
    place: int = -1, ends: Sequence[int] = (END_ID,), end: bool = True, whole: bool = True,
    more: int = 0,
) -> list[int]:  # fmt: skip
    """Return what is written; each keyword is what a mistake may change."""
    ids = list(prompt)
    for _ in range(steps + more):
        ids.append(choose(model(torch.tensor([read(ids)]))[0, place]))
        if ids[-1] in ends:
            ids = ids if end else ids[:-1]
            break
    return ids if whole else ids[len(prompt) :]


_WRITTEN_TWINS = [
    *known("write: One token too few is written.", partial(_written, more=-1)),
    *known("write: It goes on after END.", partial(_written, ends=())),
    *known(
        "write: It stops at another special token. END alone is the end.",
        partial(_written, ends=range(END_ID + 1)),
    ),
    *known(
        "write: The highest score is taken, whatever `choose` says.",
        lambda model, prompt, steps, _: _written(model, prompt, steps, Ranked()),
    ),
    *known(
        "write: END is left out. It is written like any other token, and is the last one.",
        partial(_written, end=False),
    ),
    *known(
        "write: The prompt is missing: return it with what was written after it.",
        partial(_written, whole=False),
    ),
    *known(
        "write: The model reads the last token only. It reads all that is written so far.",
        partial(_written, read=lambda ids: ids[-1:]),
    ),
    *known(
        "write: What comes next is read off at the first place. The last one tells it.",
        partial(_written, place=0),
    ),
    *known("write: One token too many is written.", partial(_written, more=1)),
    *known(
        "write: The model always reads the prompt alone. What was written joins it.",
        lambda model, prompt, *given: _written(
            model, prompt, *given, read=lambda ids: ids[: len(prompt)]
        ),
    ),
]


def _expect_written(candidate: object, thorough: bool) -> None:
    cases: list[tuple[Any, list[int], int]] = [(_Ending(), [START_ID, 4], 6)]
    for number, (vocab_size, d_model) in enumerate([(7, 4), (11, 6), *[(13, 8)] * thorough]):
        model = _Scored(_encoder(vocab_size, d_model, 1 + number))
        cases += [(model, [START_ID, 5, 4, 6], 9), (model, [START_ID], 1)]
    for number, (model, prompt, steps) in enumerate(cases):
        choose = Ranked(number % 2)
        inputs = {"model": model, "prompt": prompt, "steps": steps, "choose": choose}
        answer = call(candidate, inputs)
        seen = choose.seen
        with torch.no_grad():
            got = _plain(answer, "what write returns", inputs)
            right = _written(model, prompt, steps, Ranked(number % 2))
            expect_value(got, right, "what write returns", inputs, _WRITTEN_TWINS)
            scores = model(torch.tensor([prompt]))[0, -1]
        if not seen:
            raise CheckFailed(f"  write: `choose` is never called.\n{describe(inputs)}")
        if len(seen) != len(right) - len(prompt):
            raise CheckFailed(
                f"  write: `choose` is called {len(seen)} times for {len(right) - len(prompt)} "
                "tokens. One that draws would say something else the second time: call it once "
                f"for each.\n{describe(inputs)}"
            )
        if seen[0].shape != scores.shape:
            raise CheckFailed(
                f"  write: `choose` gets scores of shape {tuple(seen[0].shape)}, expected "
                f"{tuple(scores.shape)}: those of the one next token.\n{describe(inputs)}"
            )
        if not torch.allclose(seen[0].float(), scores, rtol=1e-3, atol=1e-4):
            raise CheckFailed(
                "  write: What `choose` gets are not the scores as the model gives them. The "
                f"softmax, if one is wanted, is its business.\n{describe(inputs)}"
            )


class _Scored:
    """A language model made of an encoder, as a function."""

    def __init__(self, encoder: nn.Module) -> None:
        self.encoder = encoder

    def __call__(self, ids: Tensor) -> Tensor:
        with torch.no_grad():
            return _scored(self.encoder, ids)

    def __repr__(self) -> str:
        size = len(cast(Any, self.encoder).input.embedding.table.weight)
        return f"a small language model of {size} words"


class _Ending:
    """A language model that writes 5, START, 6 and then END after the token 4."""

    def __call__(self, ids: Tensor) -> Tensor:
        following = {4: 5, 5: START_ID, START_ID: 6, 6: END_ID, END_ID: 4}
        scores = torch.zeros(*ids.shape, 7)
        for row, text in enumerate(ids.tolist()):
            for place, token in enumerate(text):
                scores[row, place, following.get(token, 5)] = 3.0
        return scores

    def __repr__(self) -> str:
        return "a model that writes 5 after 4, START (2) after 5, 6 after it, and END (3) after 6"


@_parts.part("what comes next", "LanguageModel", "next_word_loss", "write")
def language_model(
    candidate: object, next_word_loss: object, write: object, thorough: bool = False
) -> None:
    """Check a causal language model, the loss that it is taught by, and a loop that writes."""
    refuse_ours(candidate, LanguageModel)
    sizes = [
        (7, 4, 1, (1, 3)),
        (11, 6, 2, (2, 5)),
        *[(5, 2, 2, (1, 1)), (13, 8, 1, (3, 7))] * thorough,
    ]
    for vocab_size, d_model, layers, shape in sizes:
        encoder = _encoder(vocab_size, d_model, layers)
        made = _made(candidate, encoder)
        inputs = {"ids": torch.randint(END_ID + 1, vocab_size, shape)}
        what = "the scores of LanguageModel"
        with torch.no_grad():
            twins = [
                Twin(f"LanguageModel: {said}", partial(_scored, encoder, **way))
                for said, ways in _SCORED_WAYS.items() for way in ways
            ]  # fmt: skip
            got = run(made, inputs, what.capitalize())
            expect_equal(got, _scored(encoder, inputs["ids"]), what, inputs, twins)
    expect_learned(made, inputs)
    _expect_a_learning_head(made, encoder, inputs)
    texts = [torch.tensor([[START_ID, 4, 5, END_ID], [START_ID, 5, END_ID, PAD_ID]])]
    texts += [_whole_texts(5, 11, 7), *[_whole_texts(3, 17, 13)] * thorough]
    for each in texts:
        model = Next(13)
        given = {"model": model, "texts": each}
        what = "what next_word_loss returns"
        twins = [
            Twin(f"next_word_loss: {said}", partial(_lost, **way))
            for said, ways in _LOST_WAYS.items() for way in ways
        ]  # fmt: skip
        answer = in_32_bits(call_twice(next_word_loss, given))
        expect_equal(answer, _lost(model, each).detach(), what, given, twins)
        expect_gradients(cast(Tensor, answer), {"the weights of the model": model.table})
    _expect_written(write, thorough)
    _expect_the_packages_language_model(candidate, next_word_loss)


def _whole_texts(rows: int, width: int, vocab_size: int) -> Tensor:
    """Return random texts from START to END, padded."""
    lengths = [int(torch.randint(1, width - 1, ())) for _ in range(rows - 1)] + [width - 2]
    words = [torch.randint(END_ID + 1, vocab_size, (length,)).tolist() for length in lengths]
    return pad([[START_ID, *each, END_ID] for each in words])


def _expect_the_packages_language_model(candidate: object, next_word_loss: object) -> None:
    """Give the weights of a language model of the package: its loss is the same."""
    config = LanguageModelConfig(vocab_size=11, d_model=6, num_heads=2, d_ff=5, num_layers=2)
    ours = cast(LanguageModel, shaken(LanguageModel(config)))
    encoder = _encoder(11, 6, 2)
    encoder.load_state_dict(ours.decoder.state_dict())
    made = _made(candidate, encoder)
    texts = _whole_texts(5, 7, 11)
    task = LanguageModelling()
    given = {"model": made, "texts": texts}
    with torch.no_grad():
        right = task.loss(ours, task.collate([[i for i in text if i] for text in texts.tolist()]))
        what = "with the weights of the package's language model, the loss"
        expect_equal(in_32_bits(call(next_word_loss, given)), right, what, given)


class _Trained(nn.Module):
    """A trained encoder of the package, that returns its vectors alone."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.stack = decoder

    @property
    def input(self) -> nn.Module:
        """What makes vectors of the ids."""
        return cast(nn.Module, cast(Any, self.stack).input)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return cast(Tensor, self.stack(ids, mask)[0])


def shakespeare() -> tuple[nn.Module, Any]:
    """Return the encoder of the trained `shakespeare-gpt` and what makes characters of ids."""
    checkpoint = load_pretrained("shakespeare-gpt")
    model = cast(LanguageModel, checkpoint.model).eval()
    return _Trained(model.decoder), checkpoint.tgt_tokenizer


# Part 4


def _whole(shape: object) -> object:
    """Return a shape as a list of whole numbers, or another answer as it is."""
    return list(map(plain_number, shape)) if isinstance(shape, tuple | list) else shape


def _same_value(got: object, right: object) -> bool:
    """Compare plain values as the kit does."""
    try:
        expect_value(got, right, "", {})
    except CheckFailed:
        return False
    return True


@_parts.part("which head", "head", "best_span")
def shapes(head: object, best_span: object, thorough: bool = False) -> None:
    """Check the shape of each head's scores, what it adds, and the best span of an answer."""
    sizes = [(4, 11, 3, 2, 5), (768, 30522, 7, 16, 128), *[(64, 509, 5, 3, 17)] * thorough]
    asked = [(task, *each) for each in sizes for task in TASKS]
    cases = named_cases(("task", "d_model", "vocab_size", "kinds", "batch", "length"), asked)
    names = "shape", "added"
    expect_all(
        head, cases, lambda *given: list(head_of(*given)[0]), "the shape", [
            Twin(said, lambda *given, way=way: _whole(way(*given)))
            for said, way in SHAPE_TWINS
        ], _same_value, pick=lambda answer, inputs: _whole(expect_pair(answer, names, inputs)[0]),
    )  # fmt: skip
    expect_all(
        head, cases, lambda *given: head_of(*given)[1], "the number of parameters added",
        ADDED_TWINS, _same_value, pick=lambda a, i: plain_number(expect_pair(a, names, i)[1]),
    )  # fmt: skip
    spans: list[tuple[list[float], list[float], str, int]] = [
        ([0.0, 1, 5, 2], [0.0, 6, 1, 3], "1111", 4),
        ([9.0, 1, 2, 0, 4, 1, 9], [9.0, 0, 1, 3, 2, 5, 9], "0111110", 5),
        ([5.0, 4, 3, 0], [0.0, 0, 6, 9], "1111", 2),
        ([0.0, 3, 0, 4, 0], [5.0, 2, 0, 1.5, 0], "11111", 3),
        ([1.0, -2, -3, -1], [-5.0, -1, -2, -4], "0111", 2),
        ([4.0, 0, 0, 3], [0.0, 1, 2, 4.5], "1111", 3),
        ([0.0, 5, 1], [0.0, 7, 1], "111", 2),
        ([5.0, 0, 0, 1], [0.0, 1, 2, 6], "1011", 4),
    ]
    named = [
        (torch.tensor(one), torch.tensor(two), torch.tensor([c == "1" for c in able]), longest)
        for one, two, able, longest in spans
    ]
    for length, longest in [(13, 4), *[(31, 7), (5, 1), (17, 17)] * thorough]:
        able = torch.rand(length) < 0.8
        able[length // 2] = True
        named.append((torch.randn(length) * 2, torch.randn(length) * 2, able, longest))
    span_cases = named_cases(("first", "last", "allowed", "longest"), named)
    expect_all(
        best_span, span_cases, best_of, "what best_span returns", SPAN_TWINS, _same_value,
        pick=lambda answer, inputs: list(
            map(plain_number, expect_pair(answer, ("i", "j"), inputs))
        ),
    )  # fmt: skip


# Part 5


def _with_copies(audit: object) -> object:
    """Return the candidate as it is called with copies of the rounds' tensors."""
    if not callable(audit):
        return audit

    def called(rounds: Rounds, mask_id: int) -> object:
        return audit([tuple(each.clone() for each in three) for three in rounds.rounds], mask_id)

    called.__name__ = getattr(audit, "__name__", "")
    return called


def _on_rounds(answer: Callable[..., object]) -> Callable[..., object]:
    return lambda rounds, mask_id: answer(rounds.rounds, mask_id)


def _named(answer: object, inputs: Inputs) -> list[str]:
    """Return the names in a fixed order, if they are names of faults."""
    if isinstance(answer, str) or not isinstance(answer, list | tuple | set | frozenset):
        kind = "None: is there a `return`?" if answer is None else f"a {type(answer).__name__}"
        raise CheckFailed(f"  Expected a list of names of faults, got {kind}\n{describe(inputs)}")
    strange = [each for each in answer if not (isinstance(each, str) and each in FAULTS)]
    if strange:
        raise CheckFailed(
            f"  {strange[0]!r} is no name of a fault. They are {', '.join(map(repr, FAULTS))}."
            f"\n{describe(inputs)}"
        )
    return [name for name in FAULTS if name in answer]


@_parts.part("an audit", "audit")
def audited(audit: object, thorough: bool = False) -> None:
    """Ask which faults were planted in what pipelines made."""
    asked: list[tuple[tuple[str, ...], dict[str, Any]]]
    asked = [((), {}), *(((name,), {}) for name in FAULTS), ((), {"everything": True})]
    asked += [(("special asked",), {"special": [each]}) for each in (1, START_ID, END_ID)]
    asked += [
        (("same places", "always hidden"), {}),
        (("damaged", "in sight", "special asked"), {"ends": True}),
        ((), {"stays": 0.0}),
        ((), {"first": ("in sight",)}),
        ((), {"first": ("always hidden",)}),
        (("same places", "wrong answer"), {}),
    ]
    if thorough:
        asked += [
            ((), {}),
            (("same places", "damaged"), {}),
            (("wrong answer", "special asked"), {}),
        ]
    cases = []
    for number, (faults, more) in enumerate(asked):
        seed = int(torch.randint(10**6, ()))
        later = number % 3 == 1 and faults and "same places" not in faults
        first = more.pop("first", () if later else None)
        rounds = planted(faults, seed, rounds=3 + number % 2, **more)
        if not faults and not more and first is None:  # two rounds may agree by themselves
            rounds.insert(0, rounds[0])
        elif first is not None:  # the fault comes later, or is only that of one round
            rounds[0] = planted(first, seed, rounds=1)[0]
        cases.append({"rounds": Rounds(rounds), "mask_id": MASK_ID})
    twins = [Twin(said, _on_rounds(way)) for said, way in AUDIT_TWINS]
    expect_all(
        _with_copies(audit), cases, _on_rounds(found_in), "what audit returns", twins,
        lambda got, right: bool(got == right), why_wrong, cast(Any, _named),
    )  # fmt: skip


# Part 6


class Rows:
    """Rows of runs, by a short name in messages."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        runs = {(row["labels"], row["begins"], row["seed"]) for row in self.rows}
        return f"{len(self.rows)} rows of {len(runs)} runs"


def _unwrapped(compare: object) -> object:
    if not callable(compare):
        return compare

    def called(rows: Rows) -> object:
        return compare([dict(row) for row in rows.rows])

    called.__name__ = getattr(compare, "__name__", "")
    return called


def _column(place: int, answer: object, inputs: Inputs) -> dict[Any, object]:
    if not isinstance(answer, dict):
        kind = "None: is there a `return`?" if answer is None else f"a {type(answer).__name__}"
        raise CheckFailed(
            f"  Expected a dict, number of labels → (difference, reading), got {kind}"
            f"\n{describe(inputs)}"
        )
    names = "difference", "reading"
    picked = {key: expect_pair(pair, names, inputs)[place] for key, pair in answer.items()}
    return {key: plain_number(each) if place == 0 else each for key, each in picked.items()}


def _pairs_of(_: object, rows: Rows) -> str:
    """Return the results of the first number of labels, run by run."""
    results = results_of(rows.rows)
    labels = rows.rows[0]["labels"]
    arms = []
    for begins in ("pretrained", "random"):
        its = [f"{s}: {r:.2f}" for (n, b, s), r in results.items() if (n, b) == (labels, begins)]
        arms.append(f"{begins} {', '.join(its)}")
    return f"With {labels} labels, the results by seed: {'; '.join(arms)}."


@_parts.part("a fair comparison", "compare")
def comparison(compare: object, thorough: bool = False) -> None:
    """Check what is read from the rows of runs that begin pretrained and at random."""
    cases = [{"rows": Rows(rows)} for rows in made_up_rows(thorough)]
    columns: list[tuple[Callable[..., Any], list[Twin], str]] = [
        (differences, DIFFERENCE_TWINS, "the differences, by labels"),
        (readings, READING_TWINS, "the readings, by labels"),
    ]
    for place, (right, twins, what) in enumerate(columns):
        expect_all(
            _unwrapped(compare), cases, lambda rows, right=right: right(rows.rows), what,
            [Twin(said, lambda rows, way=way: way(rows.rows)) for said, way in twins],
            _same_value, _pairs_of, partial(_column, place),
        )  # fmt: skip
