"""Heads for other tasks as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. All
functions and classes are recorded. Code in `attentively.checks.heads_for_other_tasks` tests the
parameters of the classes, the gradients, and how `write` calls `choose`.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean  # noqa: F401  for the edits
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attentively.attention.masks import causal_mask, padding_mask
from attentively.checks.compare import Fresh
from attentively.checks.heads_for_other_tasks import rows_of
from attentively.checks.heads_for_other_tasks.planted_batches import FAULTS, MASK_ID, planted
from attentively.checks.heads_for_other_tasks.small_models import (
    Ranked,
    TableModel,
    Words,
    small_encoder,
)
from attentively.checks.question import Case, Question, cases_of
from attentively.checks.student_modules import shaken, state_of
from attentively.data.batches import pad
from attentively.models import plain_transformer
from attentively.models.configs import ClassifierConfig
from attentively.models.encoder_heads import Classifier as PackagesClassifier
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

SOFTMAX = "A softmax is applied. Return the scores; the loss applies the softmax."


def texts_of(rows: int, width: int, vocab_size: int) -> Tensor:
    """Return random texts: words, END, padding; in some a START or an unknown word."""
    ids = torch.randint(END_ID + 1, vocab_size, (rows, width))
    ids[:, 0] = torch.randint(1, vocab_size, (rows,))
    for row in range(rows):
        last = int(torch.randint(4, width, ()))
        ids[row, last], ids[row, last + 1 :] = END_ID, PAD_ID
    ids[0, 0], ids[0, 2] = START_ID, 1
    return ids


def named(names: Sequence[str], *values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


# Part 1


def choose(ids, lottery, share):
    words = ids > END_ID
    number = (share * words.sum(dim=1)).round().clamp(min=1)
    lots = lottery.masked_fill(~words, 2.0)
    ranks = lots.argsort(dim=1).argsort(dim=1)
    return ranks < number.unsqueeze(1)


PAPER = torch.tensor([[7, 5, 9, 6, END_ID, PAD_ID]])


def choose_cases(thorough: bool) -> Iterator[Case]:
    names = ("ids", "lottery", "share")
    lots = torch.tensor([[0.5, 0.2, 0.9, 0.4, 0.1, 0.3]])
    yield from (Case(named(names, PAPER, lots, share)) for share in (0.5, 1.0))
    ids = torch.tensor([[START_ID, 1, 8, 9, 7, END_ID], [8, 1, 6, 9, 7, END_ID]])
    lots = torch.tensor([[0.2, 0.3, 0.9, 0.4, 0.6, 0.1], [0.5, 0.2, 0.9, 0.4, 0.3, 0.1]])
    yield Case(named(names, ids, lots, 0.25))
    texts = torch.tensor([[9, 8, 7, END_ID], [4, END_ID, 0, 0]])
    yield Case(named(names, texts, torch.rand(2, 4), 0.3))
    for rows, width, vocab_size, share in [
        (5, 23, 31, 0.17), *[(7, 41, 97, 0.17), (3, 13, 11, 0.83)] * thorough
    ]:  # fmt: skip
        ids = texts_of(rows, width, vocab_size)
        yield Case(named(names, ids, torch.rand(rows, width), share))


RANKED = "ranks < number.unsqueeze(1)"
COUNTED = "words.sum(dim=1)"
CHOOSE = Question(
    choose,
    {"the result of choose": ""},
    choose_cases,
    {
        "Padding or special tokens are chosen. Only the ids above END_ID are words.": (
            "ids > END_ID -> ids >= 0"
        ),
        "START, END or the unknown word is chosen. Only the ids above END_ID are words.": [
            f"ids > END_ID -> {kept}"
            for kept in (
                "ids != PAD_ID",
                "(ids != PAD_ID) & (ids != END_ID)",
                "(ids == 1) | (ids > END_ID)",
                "ids >= END_ID",
            )
        ],
        "One word too many is chosen in each text. Ranks begin with 0, so the chosen "
        "words are those with a rank below the number.": [
            f"{RANKED} -> (ranks <= number.unsqueeze(1)) & words",
            f"{RANKED} -> ranks <= number.unsqueeze(1)",
        ],
        "One word too few is chosen in each text.": f"{RANKED} -> ranks + 1 < number[:, None]",
        "Each word is chosen independently, if its lottery value is below `share`, so "
        "a text may have no chosen word. Choose a fixed number of words: those with the lowest "
        "values.": [
            f"{RANKED} -> (lottery < share) & words",
            f"{RANKED} -> (lottery <= share) & words",
        ],
        "The share is taken of all positions, including padding or special tokens. It "
        "is a share of the words.": [
            (
                f"{COUNTED} -> torch.full((len(ids),), ids.size(1))",
                f"{RANKED} -> ({RANKED}) & words",
            ),
            f"{COUNTED} -> torch.full((len(ids),), ids.size(1))",
            f"{COUNTED} -> (ids != PAD_ID).sum(dim=1)",
        ],
        "The number of chosen words is rounded down. Round it to the nearest integer.": (
            ".round() -> .floor()"
        ),
        "The number of chosen words is rounded up. Round it to the nearest integer.": (
            ".round() -> .ceil()"
        ),
        "No word of a short text is chosen. At least one word of each text is chosen.": (
            ".clamp(min=1) -> "
        ),
        "The words with the highest lottery values are chosen. Choose those with the "
        "lowest.": "lottery.masked_fill -> (1 - lottery).masked_fill",
        "The words are chosen from all texts together. Each row has its own share.": (
            "words = -> whole, ids, lottery = ids, ids.view(1, -1), lottery.view(1, -1)\n"
            "    words =",
            f"{RANKED} -> ({RANKED}).view_as(whole)",
        ),
        "A single argsort gives the position of each rank. You need the rank of each "
        "position, which is the argsort of this result.": "lots.argsort(dim=1) -> lots",
    },
    named=True,
    reads={"the result of choose": "truths"},
)


def hide(ids, chosen, fate, others, mask_id):
    masked = chosen & (fate < 0.8)
    replaced = chosen & (fate >= 0.8) & (fate < 0.9)
    inputs = ids.masked_fill(masked, mask_id)
    inputs = torch.where(replaced, others, inputs)
    targets = torch.where(chosen, ids, PAD_ID)
    return inputs, targets


def hide_cases(thorough: bool) -> Iterator[Case]:
    names = ("ids", "chosen", "fate", "others", "mask_id")
    chosen = torch.tensor([[True, True, False, True, False]])
    others = torch.tensor([[4, 8, 4, 4, 4]])
    fates = torch.tensor([[0.1, 0.85, 0.3, 0.95, 0.5]])
    asked = [(PAPER[:, :5], chosen, fates, others, 10)]
    for rows, width, vocab_size in [(5, 23, 31), *[(7, 41, 97), (2, 11, 13)] * thorough]:
        ids = texts_of(rows, width, vocab_size)
        others = torch.randint(END_ID + 1, vocab_size, ids.shape)
        chosen = choose(ids, torch.rand(ids.shape), 0.61)
        asked.append((ids, chosen, torch.rand(ids.shape), others, vocab_size))
    # In 64 bits, so that .item() returns exactly 0.8 and 0.9
    at_the_limits = torch.tensor([[0.8, 0.9, 0.8, 0.2, 0.1]], dtype=torch.float64)
    asked.append((PAPER[:, :5], asked[0][1], at_the_limits, asked[0][3], 12))
    yield from cases_of(names, asked)


REPLACED = "chosen & (fate >= 0.8) & (fate < 0.9)"
NONE_REPLACED = f"{REPLACED} -> torch.zeros_like(chosen)"
TARGETS = "torch.where(chosen, ids, PAD_ID)"
HIDE = Question(
    hide,
    {"inputs": "", "targets": ""},
    hide_cases,
    {
        "hide, inputs: All chosen tokens are masked. From a fate of 0.8 to below 0.9 a token "
        "is replaced by the one in `others`, and from 0.9 on it stays unchanged.": (
            "chosen & (fate < 0.8) -> chosen",
            NONE_REPLACED,
        ),
        "hide, inputs: No chosen token stays unchanged. From a fate of 0.9 on it does.": (
            " & (fate < 0.9) -> "
        ),
        "hide, inputs: No chosen token is replaced by the one in `others`. From a fate of 0.8 "
        "to below 0.9 it is.": NONE_REPLACED,
        "hide, inputs: The cases 'replaced' and 'unchanged' are exchanged. From a fate of 0.8 "
        "to below 0.9 the token is replaced by the one in `others`; from 0.9 on it stays "
        "unchanged.": f"{REPLACED} -> chosen & (fate >= 0.9)",
        "hide, inputs: Masked tokens are overwritten by those of `others`. With a fate below "
        "0.8 a token stays masked.": f"{REPLACED} -> chosen & (fate < 0.9)",
        "hide, inputs: The mask and the tokens of `others` are exchanged. With a fate below "
        "0.8 a token is masked.": (
            "masked = chosen & (fate < 0.8) -> replaced = chosen & (fate < 0.8)",
            f"replaced = {REPLACED} -> masked = {REPLACED}",
        ),
        "hide, inputs: 10 % of the chosen tokens are masked and 80 % stay unchanged. It must "
        "be the other way round.": [
            ("fate < 0.8 -> fate < 0.1", f"{REPLACED} -> chosen & (fate >= 0.1) & (fate < 0.2)"),
            ("fate < 0.8 -> fate < 0.1", NONE_REPLACED),
        ],
        "hide, inputs: Tokens that are not chosen are changed too. They must stay unchanged.": (
            "masked = chosen & -> masked =",
            "replaced = chosen & -> replaced =",
        ),
        "hide, inputs: A fate of exactly 0.8 is taken to be below 0.8. From 0.8 on the token is "
        "replaced by the one in `others`.": (
            "fate < 0.8 -> fate <= 0.8",
            "fate >= 0.8 -> fate > 0.8",
        ),
        "hide, inputs: A fate of exactly 0.9 is taken to be below 0.9. From 0.9 on the token stays "
        "unchanged.": "fate < 0.9 -> fate <= 0.9",
        "hide, inputs: Nothing is masked, so the model can copy the targets from its inputs.": (
            "return inputs -> return ids"
        ),
        "hide: The two results are exchanged. Return inputs, targets.": (
            "return inputs, targets -> return targets, inputs"
        ),
        "hide, targets: Every token is a target, including those that are visible in the "
        "inputs, so the model learns to copy. Only chosen tokens are targets; all other "
        "positions have PAD_ID.": f"{TARGETS} -> ids",
        "hide, targets: Only masked tokens are targets. Then every word that is visible in the "
        "inputs is correct, and the model never has to check it against its context. All "
        "chosen tokens are targets.": "where(chosen -> where(masked",
        "hide, targets: Chosen tokens that stay unchanged are not targets. All chosen tokens "
        "are.": "where(chosen -> where(chosen & (fate < 0.9)",
        "hide, targets: These are the tokens of the inputs. The target is the original token, "
        "from `ids`.": "where(chosen, ids -> where(chosen, inputs",
        "hide, targets: The tokens that are not chosen are the targets. It must be the chosen "
        "ones.": "where(chosen -> where(~chosen",
        "hide, targets: Positions without a target have -100, PyTorch's default. Here they "
        "have PAD_ID.": "ids, PAD_ID -> ids, -100",
        "hide, targets: This says at which positions there is a target. Return the token "
        "itself.": f"{TARGETS} -> chosen.long()",
    },
    reads={"inputs": "numbers", "targets": "numbers"},
)


# Part 2


class Classifier(nn.Module):
    def __init__(self, encoder, d_model, num_labels):
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(d_model, num_labels)

    def forward(self, ids, mask):
        vectors = self.encoder(ids, mask)
        real = mask.transpose(1, 2)
        mean = (vectors * real).sum(dim=1) / real.sum(dim=1)
        return self.output(mean)


def encoder_of(vocab_size: int, d_model: int, num_layers: int) -> Fresh:
    """Return an encoder whose gains, shifts and biases are not those of the initialisation."""
    sizes = {"vocab_size": vocab_size, "d_model": d_model, "num_layers": num_layers}
    state = state_of(shaken(plain_transformer.Encoder(vocab_size, d_model, 2, 5, num_layers)))
    return Fresh(small_encoder, {**sizes, "state": state})


def classifier_case(encoder: Fresh, output: dict[str, Tensor], ids: Tensor) -> Case:
    num_labels, d_model = output["weight"].shape
    made = {"encoder": encoder, "d_model": d_model, "num_labels": num_labels}
    weights = {f"encoder.{name}": each for name, each in state_of(encoder.make()).items()}
    weights |= {f"output.{name}": each for name, each in output.items()}
    return Case({"ids": ids, "mask": padding_mask(ids, PAD_ID)}, made, weights)


def random_classifier_case(d_model: int, num_labels: int, num_layers: int) -> Case:
    output = {"weight": torch.randn(num_labels, d_model), "bias": torch.randn(num_labels)}
    return classifier_case(encoder_of(13, d_model, num_layers), output, texts_of(3, 7, 13))


def classifier_cases(thorough: bool) -> list[Case]:
    table = torch.tensor([[90.0, 70]] * 4 + [[1.0, 0], [3, 2], [2, 4]])
    output = {
        "weight": torch.tensor([[1.0, 0], [0, 1], [1, 1]]),
        "bias": torch.tensor([0, 0, 0.5]),
    }
    by_hand = classifier_case(
        Fresh(Words, {"vectors": table}), output, torch.tensor([[5, 6, 4, PAD_ID, PAD_ID]])
    )
    random = [random_classifier_case(*sizes) for sizes in ((4, 3, 1), (6, 2, 2))]
    # With the parameters of a classifier of the package
    config = ClassifierConfig(
        vocab_size=12, d_model=6, num_heads=2, d_ff=5, num_layers=1, labels=("no", "yes", "maybe")
    )
    ids = texts_of(5, 11, 12)
    made = {"encoder": encoder_of(13, 6, 1), "d_model": 6, "num_labels": 3}
    packages = Case(
        {"ids": ids, "mask": padding_mask(ids, PAD_ID)},
        made,
        state_of(shaken(PackagesClassifier(config))),
    )
    further = [random_classifier_case(10, 5, 1)] if thorough else []
    return [by_hand, *random, packages, *further]


MEAN = "(vectors * real).sum(dim=1) / real.sum(dim=1)"
CLASSIFIER = Question(
    Classifier,
    {"the output of Classifier": ""},
    classifier_cases,
    {
        "The mean includes padding, so the scores of a text depend on the length of the other "
        "texts in the batch. Average the real tokens only.": f"{MEAN} -> vectors.mean(dim=1)",
        "The vectors of padding are set to 0, but padding is counted in the divisor. Divide by the "
        "number of real tokens.": f"{MEAN} -> (vectors * real).mean(dim=1)",
        "The mean leaves out special tokens. It includes every token that is not padding.": (
            "mask.transpose(1, 2) -> (ids > END_ID).unsqueeze(2)"
        ),
        "The sum of each text is divided by the number of tokens of the whole batch. Divide it by "
        "the number of tokens of that text.": "/ real.sum(dim=1) -> / real.sum()",
        "This is the sum of the vectors, which grows with the length of the text. Use the "
        "mean.": " / real.sum(dim=1) -> ",
        "The scores are computed from the first token, as BERT does with its token [CLS]. Here "
        "they are computed from the mean of all tokens.": f"{MEAN} -> vectors[:, 0]",
        "The scores are computed from the last token. Here they are computed from the mean of all "
        "tokens.": [
            f"{MEAN} -> vectors[:, -1]",
            f"{MEAN} -> vectors[torch.arange(len(ids)), mask.sum(dim=2).squeeze(1) - 1]",
        ],
        "The maximum of each component is used (max pooling). Here it is the mean.": [
            f"{MEAN} -> vectors.masked_fill(~real, -torch.inf).amax(dim=1)",
            f"{MEAN} -> vectors.amax(dim=1)",
        ],
        "The padding mask is not passed to the encoder, so words attend to padding.": (
            "encoder(ids, mask) -> encoder(ids, torch.ones_like(mask))"
        ),
        "The bias of the output layer is missing. nn.Linear has one by default.": (
            "self.output(mean) -> mean @ self.output.weight.T"
        ),
        SOFTMAX: [
            "self.output(mean) -> self.output(mean).softmax(dim=-1)",
            "self.output(mean) -> self.output(mean).log_softmax(dim=-1)",
        ],
        "A sigmoid is applied. Return the scores.": (
            "self.output(mean) -> self.output(mean).sigmoid()"
        ),
    },
    either_precision=True,
)


# Part 3


class LanguageModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids):
        mask = causal_mask(ids.size(1))
        table = self.encoder.input.embedding.table.weight
        scores = self.encoder(ids, mask) @ table.T
        return scores


def language_model_cases(thorough: bool) -> Iterator[Case]:
    sizes = [
        (7, 4, 1, (1, 3)), (11, 6, 2, (2, 5)),
        *[(5, 2, 2, (1, 1)), (13, 8, 1, (2, 131))] * thorough,
    ]  # fmt: skip
    for vocab_size, d_model, num_layers, shape in sizes:
        ids = torch.randint(END_ID + 1, vocab_size, shape)
        yield Case({"ids": ids}, {"encoder": encoder_of(vocab_size, d_model, num_layers)})


LANGUAGE_MODEL = Question(
    LanguageModel,
    {"the scores of LanguageModel": ""},
    language_model_cases,
    {
        "A position attends to later ones: the causal mask is missing. A model that can read the "
        "next token does not have to predict it.": (
            "causal_mask(ids.size(1)) -> torch.ones_like(causal_mask(ids.size(1)))"
        ),
        "The causal mask is transposed: each position attends to later ones and not to earlier "
        "ones.": "causal_mask(ids.size(1)) -> causal_mask(ids.size(1)).mT",
        "A position does not attend to itself. The causal mask allows this, because the prediction "
        "is the next token.": "causal_mask(ids.size(1)) -> causal_mask(ids.size(1)).tril(-1)",
        "A position attends to the next one, which contains the token that it has to predict.": (
            "causal_mask(ids.size(1)) -> "
            "torch.ones(1, ids.size(1), ids.size(1), dtype=torch.bool).tril(1)"
        ),
        "A position attends to itself only, and not to earlier positions.": (
            "causal_mask(ids.size(1)) -> torch.eye(ids.size(1), dtype=torch.bool)[None]"
        ),
        SOFTMAX: [
            "return scores -> return scores.softmax(dim=-1)",
            "return scores -> return scores.log_softmax(dim=-1)",
        ],
        "The scores are divided by the square root of d_model. Here they are plain dot products.": (
            "return scores -> return scores / table.size(1) ** 0.5"
        ),
        "The scores are multiplied by the square root of d_model, as the embeddings are. Here they "
        "are plain dot products.": "return scores -> return scores * table.size(1) ** 0.5",
        "Only the scores of the last position are returned. Return the scores of every position.": [
            "return scores -> return scores[:, -1]",
            "return scores -> return scores[:, -1:]",
        ],
    },
    named=True,
    either_precision=True,
)


def next_word_loss(model, texts):
    scores = model(texts[:, :-1])
    targets = texts[:, 1:]
    losses = F.cross_entropy(scores.mT, targets, reduction="none")
    real = targets != PAD_ID
    return losses[real].mean()


def table_model(vocab_size: int, sums: bool = False, scale: float = 1.0) -> Fresh:
    """Return a language model whose scores depend on the last token only, or on all so far."""
    of = "all words so far" if sums else "the last word only"
    said = f"a model of {vocab_size} words whose scores depend on {of}"
    table = torch.randn(vocab_size, vocab_size) * scale
    return Fresh(TableModel, {"table": table, "sums": sums}, said)


def whole_texts(rows: int, width: int, vocab_size: int) -> Tensor:
    """Return random texts from START to END, padded."""
    lengths = [int(torch.randint(1, width - 1, ())) for _ in range(rows - 1)] + [width - 2]
    words = [torch.randint(END_ID + 1, vocab_size, (length,)).tolist() for length in lengths]
    return pad([[START_ID, *each, END_ID] for each in words])


def loss_cases(thorough: bool) -> Iterator[Case]:
    texts = [torch.tensor([[START_ID, 4, 5, END_ID], [START_ID, 1, END_ID, PAD_ID]])]
    texts += [whole_texts(5, 11, 7), *[whole_texts(3, 17, 13)] * thorough]
    for number, each in enumerate(texts):  # in the second, exp(score) overflows
        yield Case({"model": table_model(13, scale=300.0 if number == 1 else 1.0), "texts": each})


READ = "model(texts[:, :-1])"
OVER = "losses[real].mean()"
NEXT_WORD_LOSS = Question(
    next_word_loss,
    {"the loss of next_word_loss": ""},
    loss_cases,
    {
        "Targets are not shifted: each token is predicted from itself. The inputs are all tokens "
        "but the last, the targets all tokens but the first.": (
            f"{READ} -> model(texts)",
            "texts[:, 1:] -> texts",
        ),
        "The shift has the wrong direction: the target is the token *before* the input.": (
            f"{READ} -> model(texts)[:, 1:]",
            "targets = texts[:, 1:] -> targets = texts[:, :-1]",
        ),
        "The shift is applied twice: the target is the token after the next one.": (
            f"{READ} -> model(texts[:, :-2])",
            "texts[:, 1:] -> texts[:, 2:]",
        ),
        "Inputs and targets are cut at the same end, so they are not shifted against each other.": [
            "targets = texts[:, 1:] -> targets = texts[:, :-1]",
            f"{READ} -> model(texts)[:, 1:]",
        ],
        "A softmax is applied twice: F.cross_entropy contains one. Pass it the scores.": (
            "scores.mT -> scores.softmax(dim=-1).mT"
        ),
        "A reshape does not exchange axes. Use .mT to move the vocabulary to axis 1.": (
            "scores.mT -> scores.reshape(len(scores), scores.size(2), -1)"
        ),
        "Padding is a target. Leave out the positions whose target is PAD_ID.": (
            f"{OVER} -> losses.mean()"
        ),
        "The loss at padding is 0, but padding is counted in the divisor. Divide by the number of "
        "targets that are not padding.": f"{OVER} -> (losses * real).mean()",
        "The loss is a sum. Use the mean over all targets.": f"{OVER} -> losses[real].sum()",
        "The loss is the mean of one mean per text. Use one mean over all targets of the batch.": (
            f"{OVER} -> ((losses * real).sum(1) / real.sum(1)).mean()"
        ),
        "The sum of the losses is divided by the number of texts. Divide it by the number of "
        "targets.": f"{OVER} -> losses[real].sum() / len(real)",
        "The sign of the loss is wrong: a negative log-likelihood is positive.": (
            "return losses -> return -losses"
        ),
        "END is not a target. The model has to predict it, because a generated text must end.": (
            "targets != PAD_ID -> (targets != PAD_ID) & (targets != END_ID)"
        ),
    },
    named=True,
    either_precision=True,
)


def write(model, prompt, steps, choose):
    ids = list(prompt)
    for _ in range(steps):
        scores = model(torch.tensor([ids]))[0, -1]
        ids.append(choose(scores))
        if ids[-1] == END_ID:
            break
    return ids


def write_cases(thorough: bool) -> Iterator[Case]:
    names = ("model", "prompt", "steps", "choose")
    following = {4: 5, 5: START_ID, START_ID: 6, 6: END_ID, PAD_ID: 1}
    table = torch.zeros(7, 7)
    for token in range(7):
        table[token, following.get(token, 4)] = 3.0
    said = "a model that outputs 5 after 4, START (2) after 5, 6 after START, and END (3) after 6"
    ending = Fresh(TableModel, {"table": table}, said)
    yield Case(named(names, ending, [1, 4, 4, 4, 4], 7, Fresh(Ranked, {"rank": 0})))
    for vocab_size, fewest in ((7, 1), (11, 0), *[(13, 1)] * thorough):
        model = table_model(vocab_size, sums=True)
        second = Fresh(Ranked, {"rank": 1})
        yield Case(named(names, model, [START_ID, 5, 4, 6], 9, second))
        yield Case(named(names, model, [START_ID], fewest, Fresh(Ranked, {"rank": 0})))


WRITE = Question(
    write,
    {"the ids that write returns": ""},
    write_cases,
    {
        "One token too few is generated.": "range(steps) -> range(steps - 1)",
        "Generation continues after END.": (
            "        if ids[-1] == END_ID:\n            break\n -> "
        ),
        "Generation stops at a special token other than END.": "== END_ID -> <= END_ID",
        "The token with the highest score is generated. Generate the token that `choose` "
        "returns.": "choose(scores) -> int(scores.argmax())",
        "END is missing. It belongs to the result as its last token.": "break -> return ids[:-1]",
        "The prompt is missing. Return it together with the generated tokens.": (
            "return ids -> return ids[len(prompt) :]"
        ),
        "The model is called with the last token only. Call it with all tokens so far.": (
            "[ids] -> [ids[-1:]]"
        ),
        "The scores of the first position are used. The last position predicts the next "
        "token.": "[0, -1] -> [0, 0]",
        "One token too many is generated.": "range(steps) -> range(steps + 1)",
        "The tokens of the prompt are counted as steps. Up to `steps` tokens are generated "
        "in addition to the prompt.": "range(steps) -> range(steps - len(prompt))",
        "Every step uses the scores after the prompt. Call the model with all tokens so far, and "
        "use the scores of the last position.": "[ids] -> [prompt]",
    },
    named=True,
    reads={"the ids that write returns": "numbers"},
)


# Part 4


def head(task, d_model, vocab_size, kinds, batch, length):
    outputs = {"label": kinds, "pair": kinds, "entities": 2 * kinds + 1, "answer": 2}
    size = outputs.get(task, vocab_size)
    shape = (batch, length, size)
    if task in ("label", "pair"):
        shape = (batch, size)
    added = 0
    if task in outputs:
        added = (d_model + 1) * size
    if task == "pair":
        added += 2 * d_model
    if task == "masked":
        added += d_model
    return shape, added


def head_cases(thorough: bool) -> Iterator[Case]:
    names = ("task", "d_model", "vocab_size", "kinds", "batch", "length")
    sizes = [(4, 11, 3, 2, 5), (768, 30522, 2, 16, 128), *[(64, 509, 5, 3, 17)] * thorough]
    tasks = ("label", "entities", "answer", "pair", "masked", "next")
    for each in sizes:
        for task in tasks:
            yield Case(named(names, task, *each))


BIASED = "(d_model + 1) * size"
WRONG_TAGS = ("kinds", "kinds + 1", "2 * kinds", "kinds + 2")
NO_MASK = "added += d_model\n -> pass\n"
UNTIED = [
    f"added = 0 -> added = {parameters}{only}"
    for parameters in ("d_model * vocab_size", "(d_model + 1) * vocab_size")
    for only in ("", ' if task == "masked" else 0', ' if task == "next" else 0')
]
HEAD = Question(
    head,
    {"shape": "", "added": ""},
    head_cases,
    {
        'The tasks "label" and "pair" have one label for the whole text, so their scores have no '
        "axis for tokens.": "shape = (batch, size) -> pass",
        'The tasks "entities", "answer", "masked" and "next" have scores for every token: '
        "(batch, length, ...).": "(batch, length, size) -> (batch, size)",
        "Entities have two tags for each kind, B and I, and one tag for tokens outside "
        "of a name: 2 · kinds + 1.": [f"2 * kinds + 1 -> {tags}" for tags in WRONG_TAGS],
        "The mask token is an input and never a prediction: there are vocab_size scores.": (
            'vocab_size) -> vocab_size + (task == "masked"))'
        ),
        "An answer needs two scores for every token, one as its start and one as its "
        "end: (batch, length, 2).": [
            '("label", "pair") -> ("label", "pair", "answer")',
            "added = 0 -> shape = (batch, 2, length) if task == 'answer' else shape\n    added = 0",
        ],
        "The two results are exchanged. Return shape, added.": (
            "return shape, added -> return added, shape"
        ),
        "The biases are missing. A linear layer has one bias for each of its outputs.": (
            f"{BIASED} -> d_model * size"
        ),
        **{
            f'The biases of the task "{only}" are missing. Its linear layer has one bias for '
            "each of its outputs.": f'{BIASED} -> (d_model + (task != "{only}")) * size'
            for only in ("label", "pair", "entities", "answer")
        },
        "The number of outputs for entities is wrong. There are two tags for each kind "
        "and one for tokens outside of a name: 2 · kinds + 1 outputs.": [
            f'{BIASED} -> (d_model + 1) * ({tags} if task == "entities" else size)'
            for tags in WRONG_TAGS
        ],
        "The output layer of a language model adds parameters here. Its scores are "
        "products with the rows of the embedding matrix, which exists already.": [
            *UNTIED,
            *((each, NO_MASK) for each in UNTIED),
        ],
        "The scores of a language model have no bias here. They are dot products with the "
        "rows of the embedding matrix.": [
            f"added = 0 -> added = vocab_size{only}"
            for only in ("", ' if task == "masked" else 0', ' if task == "next" else 0')
        ],
        "The embedding of the mask token is missing. It adds a row of d_model parameters.": NO_MASK,
        "The segment embeddings are wrong. There is one vector for the first text and "
        "one for the second: 2 · d_model parameters.": [
            "added += 2 * d_model -> pass",
            "added += 2 * d_model -> added += d_model",
        ],
        "The number of parameters depends on the length of the text. One layer is "
        "applied to all tokens.": (
            f'{BIASED} -> {BIASED} * (length if task in ("entities", "answer") else 1)'
        ),
    },
    named=True,
    reads={"shape": "numbers"},
)


def best_span(first, last, allowed, longest):
    places = range(len(first))
    pairs = [(i, j) for i in places for j in places if allowed[i] and allowed[j]]
    spans = [(i, j) for i, j in pairs if i <= j < i + longest]
    i, j = max(spans, key=lambda span: first[span[0]] + last[span[1]])
    return i, j


def span_cases(thorough: bool) -> Iterator[Case]:
    names = ("first", "last", "allowed", "longest")
    spans: list[tuple[list[float], list[float], str, int]] = [
        ([0.0, 1, 5, 2], [0.0, 6, 1, 3], "1111", 4),
        ([9.0, 1, 2, 0, 4, 1, 9], [9.0, 0, 1, 3, 2, 5, 9], "0111110", 5),
        ([5.0, 4, 3, 0], [0.0, 0, 6, 9], "1111", 2),
        ([0.0, 3, 0, 4, 0], [5.0, 2, 0, 1.5, 0], "11111", 3),
        ([100.0, -200, -300, -150], [-500.0, -100, -200, -400], "0111", 2),
        ([4.0, 0, 0, 3], [0.0, 1, 2, 4.5], "1111", 3),
        ([0.0, 5, 1], [0.0, 7, 1], "111", 2),
        ([5.0, 0, 0, 1], [0.0, 1, 3, 6], "1011", 3),
    ]
    for one, two, able, longest in spans:
        allowed = torch.tensor([c == "1" for c in able])
        yield Case(named(names, torch.tensor(one), torch.tensor(two), allowed, longest))
    for length, longest in [(13, 4), *[(31, 7), (5, 1), (17, 17)] * thorough]:
        allowed = torch.rand(length) < 0.8
        allowed[length // 2] = True
        first, last = torch.randn(length) * 2, torch.randn(length) * 2
        if length == 13:  # the best starts are far from the best ends
            first, last = first.sort(descending=True).values, last.sort().values
        yield Case(named(names, first, last, allowed, longest))


LIMITS = "i <= j < i + longest"
POSSIBLE = "spans = [(i, j) for i, j in pairs if i <= j < i + longest]"
ALLOWED = "if allowed[i] and allowed[j]"
BEST_SPAN = Question(
    best_span,
    {"the span of best_span": ""},
    span_cases,
    {
        "The best start and the best end are chosen independently, so the answer "
        "may end before it starts.": [
            f"{POSSIBLE} -> spans = pairs",
            (f"{POSSIBLE} -> spans = pairs", f" {ALLOWED} -> "),
        ],
        "A start after its end is exchanged with it. Choose the best pair among "
        "those with start <= end.": (
            f"{POSSIBLE} -> spans = pairs",
            "return i, j -> return min(i, j), max(i, j)",
        ),
        "The best start is chosen first, and then an end for it. Another start may "
        "have a higher sum.": (
            f"{LIMITS} -> {LIMITS} and i == max(pairs, key=lambda pair: first[pair[0]])[0]"
        ),
        "The best end is chosen first, and then a start for it. Another end may "
        "have a higher sum.": (
            f"{LIMITS} -> {LIMITS} and j == max(pairs, key=lambda pair: last[pair[1]])[1]"
        ),
        "The limit `longest` is ignored.": f"{LIMITS} -> i <= j",
        "The answer has one token too many. From i to j there are j - i + 1 tokens.": (
            f"{LIMITS} -> i <= j <= i + longest"
        ),
        "An answer of exactly `longest` tokens is excluded. It is allowed.": (
            f"{LIMITS} -> i <= j < i + max(1, longest - 1)"
        ),
        "An answer of one token is excluded. It is allowed.": (f"{LIMITS} -> i < j < i + longest"),
        "The answer may end before it starts. Require i <= j.": (
            f"{LIMITS} -> abs(j - i) < longest"
        ),
        "The argument `allowed` is ignored. The question and the padding contain no "
        "answer.": f" {ALLOWED} -> ",
        "Only the first or only the last token of the answer is required to be allowed. Both "
        "have to be.": [f"{ALLOWED} -> if allowed[i]", f"{ALLOWED} -> if allowed[j]"],
        "All tokens of the answer are required to be allowed. Only its first and "
        "its last token have to be.": f"{ALLOWED} -> if allowed[i : j + 1].all()",
        "The result j is the position after the answer. Return the position of its "
        "last token.": "return i, j -> return i, j + 1",
        "The two scores are multiplied. They are log-probabilities up to a "
        "constant, so add them.": "first[span[0]] + -> first[span[0]] *",
    },
    named=True,
    in_all_cases=True,
)


# Part 5


def audit(rounds, mask_id):
    found = set()
    total = masked = unchanged = 0
    positions = []
    for ids, inputs, targets in rounds:
        predicted = targets != PAD_ID
        positions.append(predicted)
        total += predicted.sum()
        masked += (predicted & (inputs == mask_id)).sum()
        unchanged += (predicted & (inputs == ids)).sum()
        if (predicted & (ids <= END_ID)).any():
            found.add("special token")
        if (predicted & (targets != ids)).any():
            found.add("wrong target")
        if (~predicted & (inputs != ids)).any():
            found.add("corrupted input")
    if unchanged > 0.2 * total:
        found.add("unchanged")
    if masked == total:
        found.add("always masked")
    if all(torch.equal(positions[0], each) for each in positions):
        found.add("same positions")
    return found


def small_rounds() -> Iterator[list[tuple[Tensor, ...]]]:
    """Return rounds of one text, in which the mask has the id 10."""
    text = [7, 15, 9, 8, 6, END_ID, PAD_ID, PAD_ID, PAD_ID]
    words = [10] * 5 + text[5:], text[:5] + [0] * 4
    first, second = ([10, *text[1:]], [7] + [0] * 8), ([7, 10, *text[2:]], [0, 15] + [0] * 7)
    for rounds in (
        [words, words, (text, [0, 15] + [0] * 7)],  # the only target of the last is unchanged
        [first, (text, [0] * 6 + [9, 8, 7]), second],  # padding has targets
        [first, ([10, 10, *text[2:8], 10], [7, 15] + [0] * 7), first],  # padding is masked
    ):
        yield [tuple(torch.tensor([row]) for row in (text, *each)) for each in rounds]


def audit_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[tuple[str, ...], dict[str, Any]]]
    asked = [((), {}), *(((name,), {}) for name in FAULTS), ((), {"everything": True})]
    asked += [(("special token",), {"special": [each]}) for each in (1, START_ID, END_ID)]
    asked += [
        (("same positions", "always masked"), {}),
        (("corrupted input", "unchanged", "special token"), {"ends": True}),
        ((), {"stays": 0.0}),
        ((), {"first": ["unchanged"]}),
        ((), {"first": ["always masked"]}),
        (("same positions", "wrong target"), {}),
    ]
    if thorough:
        asked += [
            ((), {}),
            (("same positions", "corrupted input"), {}),
            (("wrong target", "special token"), {}),
        ]
    for number, (faults, more) in enumerate(asked):
        sizes = {"seed": int(torch.randint(10**6, ())), "rounds": 3 + number % 2}
        if number % 3 == 1 and faults and "same positions" not in faults:
            more = {**more, "first": []}  # the fault comes later
        given = {"faults": [*faults], **sizes, **more}
        if not faults and not more:  # two rounds may agree by themselves
            given["repeat"] = True
        found = audit(planted(**given), MASK_ID)
        names = " and ".join(repr(name) for name in FAULTS if name in found) or "no fault"
        said = f"{len(planted(**given))} rounds with {names}"
        yield Case({"rounds": Fresh(planted, given, said), "mask_id": MASK_ID})
    for rounds in small_rounds():
        yield Case({"rounds": rounds, "mask_id": 10})


WHERE = "predicted = targets != PAD_ID\n        positions.append(predicted)"
APART = "positions.append(targets != PAD_ID)\n        predicted ="
SAME = "all(torch.equal(positions[0], each) for each in positions)"
FIRST_ROUND = "in rounds:\n        predicted -> in rounds[:1]:\n        predicted"
NOT_MASKED = "(inputs == ids)).sum() -> (inputs != mask_id)).sum()"
AUDIT = Question(
    audit,
    {"the faults that audit returns": ""},
    audit_cases,
    {
        "The share of unchanged tokens is computed over all tokens. Compute it over the tokens "
        "with a target.": (
            "0.2 * total -> 0.2 * sum((ids != PAD_ID).sum() for ids, _, _ in rounds)"
        ),
        "10 % of the tokens with a target are unchanged by design. Only a share above 20 % is "
        "a fault.": ["0.2 * total -> 0", "0.2 * total -> 0.1 * total"],
        "Tokens that were replaced by another one are counted as unchanged. An unchanged token "
        "is equal to the one in the text.": [
            NOT_MASKED,
            (NOT_MASKED, "0.2 * total -> 0.1 * total"),
        ],
        "80 % of the tokens with a target are masked by design. The fault is that all of them "
        "are.": [f"masked == total -> masked >= {share} * total" for share in (0.7, 0.75, 0.5)],
        "The positions with a target are searched by the mask. Some of them have another token "
        "or are unchanged; a position has a target where `targets` is not PAD_ID.": [
            f"{WHERE} -> {APART} inputs == mask_id",
            "targets != PAD_ID -> inputs == mask_id",
        ],
        "The positions with a target are taken to be those that were changed. Some stay "
        "unchanged; a position has a target where `targets` is not PAD_ID.": [
            f"{WHERE} -> {APART} inputs != ids",
            "targets != PAD_ID -> inputs != ids",
        ],
        "The inputs are compared with the text at all positions. They may differ at positions "
        "with a target; elsewhere they may not.": "~predicted & (inputs != ids) -> inputs != ids",
        "The targets are compared with the inputs. Compare them with the text.": (
            "targets != ids -> targets != inputs"
        ),
        "Some special tokens are missing: START, END and the unknown word are special, every "
        "id up to END_ID.": [
            f"ids <= END_ID -> {some}"
            for some in (
                "ids == END_ID",
                "ids == START_ID",
                "(ids == START_ID) | (ids == END_ID)",
                "ids < END_ID",
            )
        ],
        "Only two rounds are compared. The fault is that *all* rounds have the same positions.": [
            f"{SAME} -> torch.equal(positions[0], positions[1])",
            f"{SAME} -> torch.equal(positions[0], positions[-1])",
            f"{SAME} -> any(torch.equal(positions[0], each) for each in positions[1:])",
        ],
        "The inputs are compared. They change at random even if the positions with a target stay "
        "the same.": [
            "append(predicted) -> append(inputs == mask_id)",
            "append(predicted) -> append(inputs != ids)",
        ],
        "The targets themselves are compared. Compare their positions: `targets != PAD_ID`.": (
            "append(predicted) -> append(targets)"
        ),
        "Only the first round is examined.": [
            (FIRST_ROUND, f"{SAME} -> all(((t != PAD_ID) == predicted).all() for *_, t in rounds)"),
            (FIRST_ROUND, f"{SAME} -> False"),
            FIRST_ROUND,
        ],
        "Only the first fault is reported. There may be several.": (
            "return found -> return [name for name in FAULTS if name in found][:1]"
        ),
    },
    reads={"the faults that audit returns": "any order"},
    in_all_cases=True,
)


# Part 6


def compare(rows):
    runs = {}
    for row in rows:
        runs.setdefault((row["labels"], row["begins"], row["seed"]), []).append(row)
    answer = {}
    for labels in {row["labels"] for row in rows}:
        its = {key[1:]: run for key, run in runs.items() if key[0] == labels}
        results = {
            key: max(run, key=lambda row: row["validation"])["test"] for key, run in its.items()
        }
        seeds = [seed for begins, seed in its if begins == "random" and ("pretrained", seed) in its]
        differences = [results["pretrained", seed] - results["random", seed] for seed in seeds]
        mean = sum(differences) / len(differences)
        tries = {frozenset((row["rate"], row["epoch"]) for row in run) for run in its.values()}
        if len(tries) > 1:
            reading = "unfair"
        elif len(differences) < 5:
            reading = "open"
        elif min(differences) > 0:
            reading = "helps"
        elif max(differences) < 0:
            reading = "hurts"
        else:
            reading = "open"
        answer[labels] = mean, reading
    return answer


TRIES = [(0.001, 1), (0.001, 2), (0.003, 1), (0.003, 2)]
MORE = {"pretrained": [*TRIES, (0.01, 1)]}


def rows_with(
    labels: int, seeds: Sequence[int], gain: Callable[[int], float], **more: Any
) -> list[list[Any]]:
    """Return made-up rows; `gain` is the advantage of the pre-trained run, by the seed."""
    tries = {"pretrained": TRIES, "random": TRIES, **more.get("tries", {})}
    rows: list[list[Any]] = []
    for begins, given in tries.items():
        for seed in [*seeds, *more.get("alone", {}).get(begins, [])]:
            for number, (rate, epoch) in enumerate(more.get("odd", {}).get((begins, seed), given)):
                base = 60 + 3 * seed + (gain(seed) if begins == "pretrained" else 0)
                best = number == (seed + (begins == "random")) % (len(given) - 1)
                test = base if best else base + (-7, 5, -11)[(number + seed) % 3]
                validation = 80 + seed if best else 80 - 5 * number - seed
                validation += begins == "pretrained"
                rows.append([begins, labels, seed, rate, epoch, validation / 100, test / 100])
        if more.get("tie"):
            run, high = rows[-1][:3], 0.9 if begins == "pretrained" else 0.6
            ties = [(0.02, 9, 0.5), (0.01, 8, high**2), (0.03, 10, high)]
            rows += [[*run, rate, epoch, 0.99, test] for rate, epoch, test in ties]
    return rows


def made_up_rows(thorough: bool) -> Iterator[list[list[Any]]]:
    five = [1, 2, 3, 4, 5]
    yield rows_with(16, [1, 2, 4], lambda seed: 4 + seed)
    yield rows_with(16, five, lambda seed: 2 + seed % 3)
    yield [
        *rows_with(16, five, lambda s: 9 if s > 1 else -1),
        *rows_with(64, five, lambda s: -s),
        *rows_with(256, five, lambda s: -(s % 2)),
    ]
    yield rows_with(32, five, lambda seed: 6 - seed, alone={"random": [7, 9], "pretrained": [0]})
    for tries in (
        MORE, {"random": [*TRIES, (0.003, 3)]},
        {"random": [(0.001, 1), (0.001, 2), (0.01, 1), (0.01, 2)]},
    ):  # fmt: skip
        yield rows_with(8, five, lambda seed: 5 + seed, tries=tries)
    direct, crossed = [(0.001, 1), (0.003, 2)], [(0.001, 2), (0.003, 1)]
    tries = {"pretrained": direct, "random": direct}
    odd = {("pretrained", 3): crossed, ("random", 2): crossed}
    yield rows_with(8, five, lambda seed: 5 + seed, tries=tries, odd=odd)
    alone = {"random": [9]}
    yield [
        *rows_with(4, five[:4], lambda seed: 3.0 * seed, alone=alone),
        *rows_with(128, five, lambda s: s % 2),
        *rows_with(2, five[:4], lambda s: -s, alone=alone),
    ]
    yield rows_with(16, five, lambda seed: 3, tie=True)
    yield rows_with(48, [*five, 6], lambda seed: -20 if seed == 3 else 1)
    yield rows_with(12, five, lambda s: s, alone=alone, odd={("random", 9): MORE["pretrained"]})
    another = rows_with(56, [*five, 6], lambda seed: seed / 10)
    another = [*reversed(another[:4]), *another[4:]]  # the same tries in another order
    few = rows_with(24, five[:3], lambda seed: seed, tries=MORE)
    yield [*another[::2], *another[1::2], *few]  # the rows of a run do not follow each other
    if thorough:
        yield rows_with(
            100, [11, 3, 7, 5, 2, 13], lambda s: -1 - s % 4, alone={"random": [4]}
        ) + rows_with(10, five, lambda seed: -2 if seed == 5 else 1)
        yield rows_with(20, five, lambda seed: seed, tries=MORE)[::-1]


def compare_cases(thorough: bool) -> Iterator[Case]:
    for values in made_up_rows(thorough):
        runs: dict[tuple[str, int, int], list[list[Any]]] = {}
        for row in values:
            runs.setdefault(tuple(row[:3]), []).append(row)
        labels = values[0][1]
        arms = []
        for begins in ("pretrained", "random"):
            its = [
                f"{seed}: {max(run, key=lambda row: row[5])[6]:.2f}"
                for (one, number, seed), run in runs.items()
                if (one, number) == (begins, labels)
            ]
            arms.append(f"{begins} {', '.join(its)}")
        hint = f"With {labels} labels, the test accuracies by seed are: {'; '.join(arms)}."
        said = f"This is not the expected value of the differences and readings, by labels. {hint}"
        rows = Fresh(rows_of, {"values": values}, f"{len(values)} rows of {len(runs)} runs")
        yield Case({"rows": rows}, general=said)


BEST = 'max(run, key=lambda row: row["validation"])["test"]'
AVERAGE = "sum(differences) / len(differences)"
DIFFERENCE = 'results["pretrained", seed] - results["random", seed]'
TRIED = '(row["rate"], row["epoch"])'
UNFAIR = "if len(tries) > 1"
ALL_UP, ALL_DOWN = "min(differences) > 0", "max(differences) < 0"
BY_MEAN = (f"{ALL_UP} -> mean > 0", f"{ALL_DOWN} -> mean < 0")
ARMS = [f"[r for (b, _), r in results.items() if b == '{b}']" for b in ("pretrained", "random")]
UP, DOWN = (f"sum(each {sign} 0 for each in differences)" for sign in "><")
COMPARE = Question(
    compare,
    {"the differences and readings, by labels": ""},
    compare_cases,
    {
        "The row with the best *test* accuracy is chosen. Then the test set takes part in the "
        "choice and is no test set any more. Choose by the validation accuracy.": (
            'max(run, key=lambda row: row["validation"]) -> max(run, key=lambda row: row["test"])'
        ),
        "The validation accuracy is compared. It was used to choose the row, so it is too "
        "optimistic; compare the test accuracy.": '["test"] for key -> ["validation"] for key',
        "The row of the last epoch is chosen. Choose the row with the best validation "
        "accuracy.": 'lambda row: row["validation"] -> lambda row: row["epoch"]',
        "All rows of a run are averaged. Choose the row with the best validation accuracy.": (
            f'{BEST} -> fmean(row["test"] for row in run)'
        ),
        "Among rows with the same validation accuracy, the last one is chosen. Choose the "
        "first.": "max(run, key -> max(run[::-1], key",
        "The results of all seeds are averaged. A run whose seed occurs with one "
        "initialisation only has no partner: leave it out.": (
            f"{AVERAGE} -> fmean({ARMS[0]}) - fmean({ARMS[1]})"
        ),
        "The best seeds are compared. They depend on chance; use the mean over the pairs.": (
            f"{AVERAGE} -> max({ARMS[0]}) - max({ARMS[1]})"
        ),
        "The sign of the difference is wrong. It is pretrained minus random.": [
            f'{DIFFERENCE} -> results["random", seed] - results["pretrained", seed]',
            f"{AVERAGE} -> -{AVERAGE}",
        ],
        "The tried settings are ignored. A run with more tries has a better chance of a good "
        "result.": f"{UNFAIR} -> if False",
        "Only the number of tries is compared. They must be the same pairs of rate and "
        "epoch.": f"frozenset({TRIED} for row in run) -> len(run)",
        "Only the rates are compared. More epochs are more tries too.": f'{TRIED} -> row["rate"]',
        "Only the epochs are compared. Different rates are different tries too.": (
            f'{TRIED} -> row["epoch"]'
        ),
        "The rates and the epochs are compared separately. A try is a pair of both.": (
            f"frozenset({TRIED} for row in run) -> "
            'tuple(frozenset(row[name] for row in run) for name in ("rate", "epoch"))'
        ),
        "The tries of all seeds are pooled. Every single run must have the same ones.": (
            f"{TRIED} for row in run) for run in its.values() -> {TRIED}"
            " for (b, _), run in its.items() if b == one for row in run)"
            ' for one in ("pretrained", "random")'
        ),
        "Only the tries of runs with a partner are compared. Runs without a partner count "
        "too.": "for run in its.values() -> for (_, seed), run in its.items() if seed in seeds",
        "With fewer than five pairs the reading is 'open' although the tries differ. The "
        "reading 'unfair' takes precedence.": f"{UNFAIR} -> {UNFAIR} and len(differences) >= 5",
        "The sign of the mean decides. If one pair has the other sign, the reading is "
        "'open'.": BY_MEAN,
        "The sign of the mean alone decides. The reading is 'unfair' if the runs have different "
        "tries, and 'open' with fewer than five pairs or pairs of both signs.": [
            (*BY_MEAN, f"{UNFAIR} -> if False", "< 5 -> < 1"),
            (*BY_MEAN, f"{UNFAIR} -> if False"),
            (*BY_MEAN, "< 5 -> < 1"),
        ],
        "A single pair or the majority of the pairs decides. All of them must have the same "
        "sign.": [
            (f"{ALL_UP} -> {UP} > {DOWN}", f"{ALL_DOWN} -> {UP} < {DOWN}"),
            (f"{ALL_UP} -> {UP} > 0", f"{ALL_DOWN} -> {DOWN} > 0"),
        ],
        "A small number of pairs is read like a large one. With fewer than five pairs, the "
        "reading is 'open'.": [f"< 5 -> < {number}" for number in (1, 3, 4)],
        "A pair without a difference is read as one with the sign of the others. With such a pair, "
        "the reading is 'open'.": [
            (f"{ALL_UP} -> min(differences) >= 0", f"{ALL_DOWN} -> max(differences) <= 0"),
            f"{ALL_UP} -> min(differences) >= 0",
            f"{ALL_DOWN} -> max(differences) <= 0",
        ],
        "Five pairs are read as too few. They are enough.": "< 5 -> <= 5",
        "The readings 'helps' and 'hurts' are exchanged.": (
            '"helps" -> "hurt" + "s"',
            '"hurts" -> "helps"',
        ),
    },
)


# Part 7


class LowRankLinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        d_out, d_in = linear.weight.shape
        self.linear = linear.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, d_in) / d_in**0.5)
        self.up = nn.Parameter(torch.zeros(d_out, rank))
        self.scale = alpha / rank

    def forward(self, x):
        update = self.scale * (x @ self.down.T @ self.up.T)
        return self.linear(x) + update


def low_rank_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(2, 3, 2, 6.0), (5, 7, 2, 3.0), *[(11, 3, 3, 0.5), (13, 17, 5, 16.0)] * thorough]
    for d_out, d_in, rank, alpha in sizes:
        linear = Fresh(nn.Linear, {"in_features": d_in, "out_features": d_out})
        weights = {f"linear.{name}": each for name, each in state_of(linear.make()).items()}
        weights |= {"down": torch.randn(rank, d_in), "up": torch.randn(d_out, rank)}
        x = torch.randn(3, d_in) if d_in == 3 else torch.randn(2, 3, d_in)
        yield Case({"x": x}, {"linear": linear, "rank": rank, "alpha": alpha}, weights)


ORIGINAL = "return self.linear(x) + update"
LOW_RANK = Question(
    LowRankLinear,
    {"the output of LowRankLinear": ""},
    low_rank_cases,
    {
        "The factor alpha / rank is missing: the update is B A x alone.": "alpha / rank -> 1",
        "The update is multiplied by alpha. It must be multiplied by alpha / rank.": (
            "alpha / rank -> alpha"
        ),
        "The update is multiplied by rank / alpha. It must be multiplied by alpha / rank.": (
            "alpha / rank -> rank / alpha"
        ),
        "The update is multiplied by 1 / rank. It must be multiplied by alpha / rank.": (
            "alpha / rank -> 1 / rank"
        ),
        "The output of the original layer is missing: add it to the update.": (
            f"{ORIGINAL} -> return update"
        ),
        "The update is missing: this is the output of the original layer.": (
            f"{ORIGINAL} -> return self.linear(x) + 0 * update"
        ),
        "The bias is added twice: self.linear adds it already.": (
            f"{ORIGINAL} -> {ORIGINAL} + self.linear.bias"
        ),
        "The bias is missing: self.linear(x) adds it.": (
            f"{ORIGINAL} -> return x @ self.linear.weight.T + update"
        ),
        "The update is subtracted. It must be added.": "self.linear(x) + -> self.linear(x) -",
    },
    named=True,
    either_precision=True,
)


def merged_weight(weight, down, up, alpha):
    update = up @ down
    return weight + alpha / len(down) * update


def merged_cases(thorough: bool) -> Iterator[Case]:
    names = ("weight", "down", "up", "alpha")
    down, up = torch.tensor([[1.0, 2]]), torch.tensor([[3.0], [0]])
    yield Case(named(names, torch.eye(2), down, up, 6.0))
    sizes = [(5, 7, 3, 5.0), *[(7, 5, 3, 11.0), (13, 13, 2, 0.5)] * thorough]
    for d_out, d_in, rank, alpha in sizes:
        weight, down, up = (
            torch.randn(d_out, d_in),
            torch.randn(rank, d_in),
            torch.randn(d_out, rank),
        )
        down[1] = down[0]  # the update has a lower rank than `rank`
        yield Case(named(names, weight, down, up, alpha))


MERGED_WEIGHT = Question(
    merged_weight,
    {"the result of merged_weight": ""},
    merged_cases,
    {
        "The factor alpha / rank is missing.": "alpha / len(down) * -> ",
        "The update is multiplied by alpha. Its factor is alpha / rank, and the "
        "rank is the number of rows of `down`.": "/ len(down) -> ",
        "This is the update alone. Add it to the original weight.": "weight + -> ",
        "The update is transposed. It is B A, `up @ down`, of shape (d_out, d_in).": (
            "up @ down -> (up @ down).T"
        ),
        "Alpha is divided by the number of inputs or outputs. Divide it by the "
        "rank, the number of rows of `down`.": [
            "len(down) -> down.size(1)",
            "len(down) -> len(up)",
        ],
    },
    named=True,
    either_precision=True,
)


def plan(shapes, budget):
    per_rank = sum(d_out + d_in for d_out, d_in in shapes)
    limit = min(min(shape) for shape in shapes)
    rank = min(budget // (16 * per_rank), limit)
    return rank, rank * per_rank


def plan_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[list[tuple[int, int]], int]] = [
        ([(4, 6)], 500),
        ([(4, 6)], 159),
        ([(2, 8), (8, 8)], 100_000),
        ([(8, 8), (9, 3), (16, 16)], 100_000),
        ([(128, 128), (64, 128)], 30_000),
        ([(64, 16), (3, 64), (32, 32)], 10_000),
        ([(128, 128)] * 8, 524_288),
        ([(16, 64), (4, 32), (24, 24)], 100_000),
        ([(1024, 2048)], 10**8),
    ]
    asked += [([(512, 512), (2048, 512)], 5_000_000), ([(7, 31), (31, 7)], 99_999)] * thorough
    for shapes, budget in asked:
        yield Case({"shapes": shapes, "budget": budget})


SMALLEST = "min(min(shape) for shape in shapes)"
FITS = "budget // (16 * per_rank)"
FOUR_VALUES = (
    "bytes are counted for each trained parameter. There are four values of 4 "
    "bytes each: parameter, gradient, and Adam's two averages."
)
PLAN = Question(
    plan,
    {"rank, parameters": ""},
    plan_cases,
    {
        "Only the parameters are counted, 4 bytes each. Training also needs a gradient and "
        "Adam's two averages for each of them: 16 bytes.": "16 * -> 4 *",
        "The budget is taken as a number of parameters. It is in bytes, and each parameter needs "
        "16.": "16 * -> ",
        f"8 {FOUR_VALUES}": "16 * -> 8 *",
        f"12 {FOUR_VALUES}": "16 * -> 12 *",
        "The rank has a limit besides the budget. It cannot be larger than the smaller "
        "dimension of a layer.": f"{SMALLEST} -> budget",
        "The limit of the first layer alone is used. Every layer limits the rank.": (
            f"{SMALLEST} -> min(shapes[0])"
        ),
        "The limit is not the smallest dimension of all layers. The rank must be possible in "
        "every layer, so it cannot exceed any of their dimensions.": [
            f"{SMALLEST} -> {limit}"
            for limit in (
                "max(map(max, shapes))",
                "max(map(min, shapes))",
                "min(map(max, shapes))",
                "min(shape[0] for shape in shapes)",
                "min(shape[1] for shape in shapes)",
            )
        ],
        "A whole matrix is counted, d_out · d_in. A and B have rank · (d_in + d_out) "
        "entries.": "d_out + d_in -> d_out * d_in",
        "A bias is counted with each update. The biases are frozen.": (
            "d_out + d_in -> 2 * d_out + d_in"
        ),
        "Only one of the two matrices is counted. A has rank · d_in entries, and B has "
        "d_out · rank.": ["d_out + d_in -> d_in", "d_out + d_in -> d_out"],
        "Only the first layer is counted. The budget is for all of them.": (
            "d_in in shapes -> d_in in shapes[:1]"
        ),
        "The rank is rounded up, so it needs more bytes than the budget has.": [
            f"{FITS} -> -(-budget // (16 * per_rank))",
            f"{FITS} -> {FITS} + 1",
        ],
        "The two results are exchanged. Return rank, parameters.": (
            "return rank, rank * per_rank -> return rank * per_rank, rank"
        ),
        "The second value is in bytes. Return the number of trained parameters.": (
            "return rank, rank * -> return rank, rank * 16 *"
        ),
    },
    named=True,
)


PARTS = {
    "masking": [CHOOSE, HIDE],
    "classifier": [CLASSIFIER],
    "language_model": [LANGUAGE_MODEL, NEXT_WORD_LOSS, WRITE],
    "shapes": [HEAD, BEST_SPAN],
    "audited": [AUDIT],
    "comparison": [COMPARE],
    "lora": [LOW_RANK, MERGED_WEIGHT, PLAN],
}
