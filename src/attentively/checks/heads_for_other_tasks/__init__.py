"""Checks of the assignment on heads: masking, classification, language models, comparisons.

Parts 1 to 3 rebuild code of the package, on the student's own encoder; part 7 rebuilds a LoRA layer
and plans its memory. Parts 4 to 6 are original problems, whose solution is not given in the book or
the package: the sizes of heads and the best span, faults in batches for a masked language model,
and a comparison of many runs.
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
from attentively.checks.heads_for_other_tasks.low_rank import (
    check_low_rank,
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

_parts = Parts()
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


# Part 1


def _plain(answer: object, what: str, inputs: Inputs) -> object:
    """Return a tensor or lists of integers, or of True and False, as lists of numbers."""
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


@_parts.part(
    "masking tokens",
    "choose",
    "hide",
    rebuilds=("attentively.training.objectives:take_out",),
)
def masking(choose: object, hide: object, thorough: bool = False) -> None:
    """Check which tokens are chosen, and the inputs and targets of the model."""
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
    _expect_lists(choose, cases, chosen_tokens, "the result of choose", CHOSEN_TWINS)
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
            ("the inputs that hide returns", "the targets that hide returns")[place], twins,
            partial(_pick_one, place, ("inputs", "targets")),
        )  # fmt: skip


# Part 2


class Words(nn.Module):
    """An encoder that embeds words without any context."""

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
    "The mean includes padding, so the scores of a text depend on the length of the other "
    "texts in the batch. Average the real tokens only."
)
_JUDGED_WAYS: dict[str, list[dict[str, Any]]] = {
    _PADDED: [{"join": lambda vectors, _: vectors.mean(dim=1)}],
    "The vectors of padding are set to 0, but padding is counted in the divisor. Divide by the "
    "number of real tokens.":
        [{"join": lambda vectors, real: (vectors * real).mean(dim=1)}],
    "The mean leaves out special tokens. It includes every token that is not padding.":
        [{"least": END_ID + 1}],
    "The sum of each text is divided by the number of tokens of the whole batch. Divide it by "
    "the number of tokens of that text.":
        [{"join": lambda vectors, real: (vectors * real).sum(dim=1) / real.sum()}],
    "This is the sum of the vectors, which grows with the length of the text. Use the mean.":
        [{"join": lambda vectors, real: (vectors * real).sum(dim=1)}],
    "The scores are computed from the first token, as BERT does with its token [CLS]. Here "
    "they are computed from the mean of all tokens.":
        [{"join": lambda vectors, _: vectors[:, 0]}],
    "The scores are computed from the last token. Here they are computed from the mean of all "
    "tokens.":
        [{"join": lambda vectors, _: vectors[:, -1]}, {"join": _last}],
    "The maximum of each component is used (max pooling). Here it is the mean.": [
        {"join": lambda vectors, real: vectors.masked_fill(~real, -torch.inf).amax(dim=1)},
        {"join": lambda vectors, _: vectors.amax(dim=1)},
    ],
    "The padding mask is not passed to the encoder, so words attend to padding.":
        [{"masked": False}],
    "The bias of the output layer is missing. nn.Linear has one by default.": [{"bias": False}],
    "A softmax is applied. Return the scores; the loss applies the softmax.":
        [{"after": lambda scores: scores.softmax(dim=-1)},
         {"after": lambda scores: scores.log_softmax(dim=-1)}],
    "A sigmoid is applied. Return the scores.": [{"after": torch.sigmoid}],
}  # fmt: skip


def _encoder(vocab_size: int, d_model: int, num_layers: int) -> nn.Module:
    return shaken(plain_transformer.Encoder(vocab_size, d_model, 2, 5, num_layers))


@_parts.part(
    "classification head",
    "Classifier",
    rebuilds=("attentively.models.encoder_heads:Classifier",),
)
def classifier(candidate: object, thorough: bool = False) -> None:
    """Check the mean of the token vectors, and the scores of the labels."""
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
        what = "the output of Classifier"
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
    """Load the parameters of a classifier of the package: the scores are the same."""
    config = ClassifierConfig(
        vocab_size=12, d_model=6, num_heads=2, d_ff=5, num_layers=1, labels=("no", "yes", "maybe")
    )
    ours = shaken(Classifier(config))
    sizes = {"encoder": _encoder(13, 6, 1), "d_model": 6, "num_labels": 3}
    made = built(candidate, sizes, state_of(ours))
    ids = _texts(5, 11, 12)
    inputs = {"ids": ids, "mask": padding_mask(ids, PAD_ID)}
    with torch.no_grad():
        what = "with the parameters of the package's classifier, the output of Classifier"
        expect_equal(run(made, inputs, "The output of Classifier"), ours(**inputs), what, inputs)


# Part 3


class Next:
    """A language model whose scores depend on the last token only."""

    def __init__(self, vocab_size: int) -> None:
        self.table = torch.randn(vocab_size, vocab_size).requires_grad_()

    def __call__(self, ids: Tensor) -> Tensor:
        return self.table[ids]

    def __repr__(self) -> str:
        return f"a model of {len(self.table)} words whose scores depend on the last word only"


class Ranked:
    """Choose the token with the highest or second highest score, and store what it was given."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.seen: list[Tensor] = []

    def __call__(self, scores: Tensor) -> int:
        self.seen.append(scores.detach().clone())
        return int(scores.flatten().argsort(descending=True)[self.rank]) % scores.size(-1)

    def __repr__(self) -> str:
        return f"a function that returns the token with the {'second ' * self.rank}highest score"


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
    "A position attends to later ones: the causal mask is missing. A model that can read the "
    "next token does not have to predict it.":
        [{"mask": lambda n: torch.ones(1, n, n, dtype=torch.bool)}],
    "The causal mask is transposed: each position attends to later ones and not to earlier "
    "ones.":
        [{"mask": lambda n: causal_mask(n).mT}],
    "A position does not attend to itself. The causal mask allows this, because the prediction "
    "is the next token.":
        [{"mask": lambda n: causal_mask(n).tril(-1)}],
    "A position attends to the next one, which contains the token that it has to predict.":
        [{"mask": lambda n: torch.ones(1, n, n, dtype=torch.bool).tril(1)}],
    "A position attends to itself only, and not to earlier positions.":
        [{"mask": lambda n: torch.eye(n, dtype=torch.bool)[None]}],
    "A softmax is applied. Return the scores; the loss applies the softmax.": [
        {"after": lambda scores: scores.softmax(dim=-1)},
        {"after": lambda scores: scores.log_softmax(dim=-1)},
    ],
    "The scores are divided by the square root of d_model. Here they are plain dot products.":
        [{"table": lambda table: table / table.size(1) ** 0.5}],
    "The scores are multiplied by the square root of d_model, as the embeddings are. Here they "
    "are plain dot products.":
        [{"table": lambda table: table * table.size(1) ** 0.5}],
    "Only the scores of the last position are returned. Return the scores of every position.":
        [{"after": lambda scores: scores[:, -1]}, {"after": lambda scores: scores[:, -1:]}],
}  # fmt: skip


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


def _expect_a_learning_head(made: nn.Module, encoder: nn.Module, inputs: Inputs) -> None:
    """Check that gradients reach rows of tokens outside of the input, through the head."""
    table = cast(Any, encoder).input.embedding.table.weight
    (slope,) = torch.autograd.grad(made(inputs["ids"]).sum(), table)
    if not slope[START_ID].any():
        raise CheckFailed(
            "  LanguageModel: The scores are correct, but no gradient reaches the embedding "
            "matrix from the head, so the head is not trained. In forward, use "
            "encoder.input.embedding.table.weight itself, without a copy and without "
            f".detach().\n{describe(inputs)}"
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
    "Targets are not shifted: each token is predicted from itself. The inputs are all tokens "
    "but the last, the targets all tokens but the first.":
        [{"said": lambda scores: scores, "asked": lambda texts: texts}],
    "The shift has the wrong direction: the target is the token *before* the input.":
        [{"said": lambda scores: scores[:, 1:], "asked": lambda texts: texts[:, :-1]}],
    "The shift is applied twice: the target is the token after the next one.":
        [{"said": lambda scores: scores[:, :-2], "asked": lambda texts: texts[:, 2:]}],
    "Inputs and targets are cut at the same end, so they are not shifted against each other.": [
        {"asked": lambda texts: texts[:, :-1]},
        {"said": lambda scores: scores[:, 1:], "asked": lambda texts: texts[:, 1:]},
    ],
    "A softmax is applied twice: F.cross_entropy contains one. Pass it the scores.":
        [{"said": lambda scores: scores[:, :-1].softmax(dim=-1)}],
    "A reshape does not exchange axes. Use .mT to move the vocabulary to axis 1.": [
        {"said": lambda scores: scores[:, :-1].reshape(len(scores), scores.size(2), -1).mT},
    ],
    "Padding is a target. Leave out the positions whose target is PAD_ID.":
        [{"over": lambda losses, _: losses.mean()}],
    "The loss at padding is 0, but padding is counted in the divisor. Divide by the number of "
    "targets that are not padding.":
        [{"over": lambda losses, real: losses[real].sum() / real.numel()}],
    "The loss is a sum. Use the mean over all targets.":
        [{"over": lambda losses, real: losses[real].sum()}],
    "The loss is the mean of one mean per text. Use one mean over all targets of the batch.":
        [{"over": lambda losses, real: ((losses * real).sum(1) / real.sum(1)).mean()}],
    "The sum of the losses is divided by the number of texts. Divide it by the number of "
    "targets.":
        [{"over": lambda losses, real: losses[real].sum() / len(real)}],
    "The sign of the loss is wrong: a negative log-likelihood is positive.":
        [{"over": lambda losses, real: -losses[real].mean()}],
    "END is not a target. The model has to predict it, because a generated text must end.":
        [{"over": lambda losses, real: losses[real & ~_ends(real)].mean()}],
}  # fmt: skip


def _ends(real: Tensor) -> Tensor:
    """Return the position of the last target of each row."""
    return real & ~F.pad(real[:, 1:], (0, 1))


def _written(
    model: Callable[[Tensor], Tensor], prompt: list[int], steps: int,
    choose: Callable[[Tensor], int], *,
    read: Callable[[list[int]], list[int]] = lambda ids: ids,
    place: int = -1, ends: Sequence[int] = (END_ID,), end: bool = True, whole: bool = True,
    more: int = 0,
) -> list[int]:  # fmt: skip
    """Return the generated ids; each keyword is what a mistake may change."""
    ids = list(prompt)
    for _ in range(steps + more):
        ids.append(choose(model(torch.tensor([read(ids)]))[0, place]))
        if ids[-1] in ends:
            ids = ids if end else ids[:-1]
            break
    return ids if whole else ids[len(prompt) :]


_WRITTEN_TWINS = [
    *known("write: One token too few is generated.", partial(_written, more=-1)),
    *known("write: Generation continues after END.", partial(_written, ends=())),
    *known(
        "write: Generation stops at a special token other than END.",
        partial(_written, ends=range(END_ID + 1)),
    ),
    *known(
        "write: The token with the highest score is generated. Generate the token that "
        "`choose` returns.",
        lambda model, prompt, steps, _: _written(model, prompt, steps, Ranked()),
    ),
    *known(
        "write: END is missing. It belongs to the result as its last token.",
        partial(_written, end=False),
    ),
    *known(
        "write: The prompt is missing. Return it together with the generated tokens.",
        partial(_written, whole=False),
    ),
    *known(
        "write: The model is called with the last token only. Call it with all tokens so far.",
        partial(_written, read=lambda ids: ids[-1:]),
    ),
    *known(
        "write: The scores of the first position are used. The last position predicts the next "
        "token.",
        partial(_written, place=0),
    ),
    *known("write: One token too many is generated.", partial(_written, more=1)),
    *known(
        "write: The tokens of the prompt are counted as steps. Up to `steps` tokens are generated "
        "in addition to the prompt.",
        lambda model, prompt, steps, choose: _written(
            model, prompt, max(0, steps - len(prompt)), choose
        ),
    ),
    *known(
        "write: The model is always called with the prompt only. Append each generated token.",
        lambda model, prompt, *given: _written(
            model, prompt, *given, read=lambda ids: ids[: len(prompt)]
        ),
    ),
]


def _expect_written(candidate: object, thorough: bool) -> None:
    cases: list[tuple[Any, list[int], int]] = [(_Ending(), [START_ID, 4, 4, 4, 4], 6)]
    for number, (vocab_size, d_model) in enumerate([(7, 4), (11, 6), *[(13, 8)] * thorough]):
        model = _Scored(_encoder(vocab_size, d_model, 1 + number))
        cases += [(model, [START_ID, 5, 4, 6], 9), (model, [START_ID], 1)]
    for number, (model, prompt, steps) in enumerate(cases):
        choose = Ranked(number % 2)
        inputs = {"model": model, "prompt": prompt, "steps": steps, "choose": choose}
        answer = call(candidate, inputs)
        seen = choose.seen
        with torch.no_grad():
            got = _plain(answer, "the ids that write returns", inputs)
            right = _written(model, prompt, steps, Ranked(number % 2))
            expect_value(got, right, "the ids that write returns", inputs, _WRITTEN_TWINS)
            scores = model(torch.tensor([prompt]))[0, -1]
        if not seen:
            raise CheckFailed(f"  write: `choose` is never called.\n{describe(inputs)}")
        if len(seen) != len(right) - len(prompt):
            raise CheckFailed(
                f"  write: `choose` is called {len(seen)} times for {len(right) - len(prompt)} "
                "tokens. If it samples, a second call returns another token: call it once "
                f"for each token.\n{describe(inputs)}"
            )
        if seen[0].shape != scores.shape:
            raise CheckFailed(
                f"  write: `choose` gets scores of shape {tuple(seen[0].shape)}, expected "
                f"{tuple(scores.shape)}: the scores of the next token only.\n{describe(inputs)}"
            )
        if not torch.allclose(seen[0].float(), scores, rtol=1e-3, atol=1e-4):
            raise CheckFailed(
                "  write: `choose` does not get the unchanged scores of the model. If a softmax "
                f"is needed, `choose` applies it.\n{describe(inputs)}"
            )


class _Scored:
    """A language model built from an encoder, as a function."""

    def __init__(self, encoder: nn.Module) -> None:
        self.encoder = encoder

    def __call__(self, ids: Tensor) -> Tensor:
        with torch.no_grad():
            return _scored(self.encoder, ids)

    def __repr__(self) -> str:
        size = len(cast(Any, self.encoder).input.embedding.table.weight)
        return f"a small language model of {size} words"


class _Ending:
    """A language model that generates 5, START, 6 and then END after the token 4."""

    def __call__(self, ids: Tensor) -> Tensor:
        following = {4: 5, 5: START_ID, START_ID: 6, 6: END_ID, END_ID: 4}
        scores = torch.zeros(*ids.shape, 7)
        for row, text in enumerate(ids.tolist()):
            for place, token in enumerate(text):
                scores[row, place, following.get(token, 5)] = 3.0
        return scores

    def __repr__(self) -> str:
        return (
            "a model that outputs 5 after 4, START (2) after 5, 6 after START, and END (3) after 6"
        )


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
        what = "the loss of next_word_loss"
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
    """Load the parameters of a language model of the package: the loss is the same."""
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
        what = "with the parameters of the package's language model, the loss"
        expect_equal(in_32_bits(call(next_word_loss, given)), right, what, given)


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


def _whole(shape: object) -> object:
    """Return a shape as a list of integers, or another answer as it is."""
    return list(map(plain_number, shape)) if isinstance(shape, tuple | list) else shape


def _same_value(got: object, right: object) -> bool:
    """Compare plain values as the kit does."""
    try:
        expect_value(got, right, "", {})
    except CheckFailed:
        return False
    return True


@_parts.part("heads and spans", "head", "best_span")
def shapes(head: object, best_span: object, thorough: bool = False) -> None:
    """Check the shape of each head's scores, the number of added parameters, and the best span."""
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
        head, cases, lambda *given: head_of(*given)[1], "the number of added parameters",
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
        best_span, span_cases, best_of, "the span of best_span", SPAN_TWINS, _same_value,
        pick=lambda answer, inputs: list(
            map(plain_number, expect_pair(answer, ("i", "j"), inputs))
        ),
    )  # fmt: skip


# Part 5


def _with_copies(audit: object) -> object:
    """Return the candidate, called with copies of the rounds' tensors."""
    if not callable(audit):
        return audit

    def called(rounds: Rounds, mask_id: int) -> object:
        return audit([tuple(each.clone() for each in three) for three in rounds.rounds], mask_id)

    called.__name__ = getattr(audit, "__name__", "")
    return called


def _on_rounds(answer: Callable[..., object]) -> Callable[..., object]:
    return lambda rounds, mask_id: answer(rounds.rounds, mask_id)


def _named(answer: object, inputs: Inputs) -> list[str]:
    """Return the names of faults in a fixed order; refuse other answers."""
    if isinstance(answer, str) or not isinstance(answer, list | tuple | set | frozenset):
        kind = "None: is there a `return`?" if answer is None else f"a {type(answer).__name__}"
        raise CheckFailed(f"  Expected a list of names of faults, got {kind}\n{describe(inputs)}")
    strange = [each for each in answer if not (isinstance(each, str) and each in FAULTS)]
    if strange:
        raise CheckFailed(
            f"  {strange[0]!r} is not the name of a fault. The names are "
            f"{', '.join(map(repr, FAULTS))}.\n{describe(inputs)}"
        )
    return [name for name in FAULTS if name in answer]


@_parts.part("debugging masked batches", "audit")
def audited(audit: object, thorough: bool = False) -> None:
    """Check which faults are found in batches that have known faults."""
    asked: list[tuple[tuple[str, ...], dict[str, Any]]]
    asked = [((), {}), *(((name,), {}) for name in FAULTS), ((), {"everything": True})]
    asked += [(("special token",), {"special": [each]}) for each in (1, START_ID, END_ID)]
    asked += [
        (("same positions", "always masked"), {}),
        (("corrupted input", "unchanged", "special token"), {"ends": True}),
        ((), {"stays": 0.0}),
        ((), {"first": ("unchanged",)}),
        ((), {"first": ("always masked",)}),
        (("same positions", "wrong target"), {}),
    ]
    if thorough:
        asked += [
            ((), {}),
            (("same positions", "corrupted input"), {}),
            (("wrong target", "special token"), {}),
        ]
    cases = []
    for number, (faults, more) in enumerate(asked):
        seed = int(torch.randint(10**6, ()))
        later = number % 3 == 1 and faults and "same positions" not in faults
        first = more.pop("first", () if later else None)
        rounds = planted(faults, seed, rounds=3 + number % 2, **more)
        if not faults and not more and first is None:  # two rounds may agree by themselves
            rounds.insert(0, rounds[0])
        elif first is not None:  # the fault comes later, or is only that of one round
            rounds[0] = planted(first, seed, rounds=1)[0]
        cases.append({"rounds": Rounds(rounds), "mask_id": MASK_ID})
    twins = [Twin(said, _on_rounds(way)) for said, way in AUDIT_TWINS]
    expect_all(
        _with_copies(audit), cases, _on_rounds(found_in), "the faults that audit returns", twins,
        lambda got, right: bool(got == right), why_wrong, cast(Any, _named),
    )  # fmt: skip


# Part 6


class Rows:
    """Rows of training runs, with a short name in messages."""

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
    """Return the results of the runs with the first number of labels."""
    results = results_of(rows.rows)
    labels = rows.rows[0]["labels"]
    arms = []
    for begins in ("pretrained", "random"):
        its = [f"{s}: {r:.2f}" for (n, b, s), r in results.items() if (n, b) == (labels, begins)]
        arms.append(f"{begins} {', '.join(its)}")
    return f"With {labels} labels, the test accuracies by seed are: {'; '.join(arms)}."


@_parts.part("comparing initialisations", "compare")
def comparison(compare: object, thorough: bool = False) -> None:
    """Check the comparison of runs with a pre-trained and a random initialisation."""
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


# Part 7


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
    check_low_rank(candidate, merged_weight, plan, thorough)
