"""Answers to the parts on heads for other tasks, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
ALLOWED    {function: [names of behaviours that are right here]}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import copy
import itertools
import math
import statistics

import torch
from torch import nn
from torch.nn import functional as F

from attentively.layers import low_rank
from attentively.models import encoder_heads, language_model
from attentively.tokens.vocabulary import END_ID, PAD_ID

# Part 1


def choose_by_rows(ids, lottery, share):
    """Row by row, in lists."""
    chosen = []
    for text, numbers in zip(ids.tolist(), lottery.tolist(), strict=True):
        words = [place for place, token in enumerate(text) if token > END_ID]
        words.sort(key=lambda place, numbers=numbers: numbers[place])
        drawn = set(words[: max(1, round(share * len(words)))])
        chosen.append([place in drawn for place in range(len(text))])
    return torch.tensor(chosen)


def choose_by_threshold(ids, lottery, share):
    """The highest number that still wins is looked up; 0 and 1 come back."""
    chosen = torch.zeros_like(ids)
    for row in range(len(ids)):
        words = ids[row] > END_ID
        number = max(1, int(share * int(words.sum()) + 0.5))
        limit = lottery[row][words].sort().values[number - 1]
        chosen[row, words & (lottery[row] <= limit)] = 1
    return chosen


def hide_token_by_token(ids, chosen, fate, others, mask_id):
    """In a loop over all places; a list comes back."""
    read, wanted = ids.clone(), torch.full_like(ids, PAD_ID)
    for row, place in chosen.nonzero().tolist():
        wanted[row, place] = ids[row, place]
        if fate[row, place].item() < 0.8:
            read[row, place] = mask_id
        elif fate[row, place].item() < 0.9:
            read[row, place] = others[row, place]
    return [read, wanted]


def hide_by_products(ids, chosen, fate, others, mask_id):
    masked, kept = fate < 0.8, fate >= 0.9
    changed = masked * mask_id + kept * ids + ~(masked | kept) * others
    return chosen * changed + ~chosen * ids, chosen * ids


# Part 2


class TextByText(nn.Module):
    """Each text is cut to its length first."""

    def __init__(self, encoder, d_model, num_labels):
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(d_model, num_labels)

    def forward(self, ids, mask):
        vectors = self.encoder(ids, mask)
        means = [each[real[0]].mean(dim=0) for each, real in zip(vectors, mask, strict=True)]
        return self.output(torch.stack(means))


class ScoresFirst(nn.Module):
    """A mean of scores is the score of the mean; 64 bits come back."""

    def __init__(self, encoder, d_model, num_labels):
        super().__init__()
        self.output = nn.Linear(d_model, num_labels)
        self.encoder = encoder

    def forward(self, ids, mask):
        scores = self.output(self.encoder(ids, mask))
        weights = mask.float() / mask.float().sum(dim=2, keepdim=True)
        return (weights @ scores).squeeze(1).double()


class WithDropout(TextByText):
    """Right, because it is examined in evaluation mode."""

    def __init__(self, encoder, d_model, num_labels):
        super().__init__(encoder, d_model, num_labels)
        self.dropout = nn.Dropout(0.5)

    def forward(self, ids, mask):
        return self.dropout(super().forward(ids, mask))


# Part 3


class TiedLanguageModel(nn.Module):
    """With an output layer whose weight is the table."""

    def __init__(self, encoder):
        super().__init__()
        self.reader = encoder
        table = encoder.input.embedding.table.weight
        self.output = nn.Linear(table.size(1), table.size(0), bias=False)
        self.output.weight = table

    def forward(self, ids):
        places = torch.arange(ids.size(1))
        mask = (places.unsqueeze(1) >= places).expand(len(ids), -1, -1)
        return self.output(self.reader(ids, mask))


class ByRows(nn.Module):
    """Each text by itself, under a mask of numbers made True and False; padding is hidden twice."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids):
        triangle = torch.ones(1, ids.size(1), ids.size(1)).tril() > 0
        mask = triangle & (ids != PAD_ID).unsqueeze(1)
        rows = [self.encoder(ids[i : i + 1], mask[i : i + 1]) for i in range(len(ids))]
        return F.linear(torch.cat(rows), self.encoder.input.embedding.table.weight)


def next_word_loss_by_words(model, texts):
    """All is read, and the last scores are dropped; a loop in 64 bits."""
    logarithms = model(texts).log_softmax(dim=-1).double()
    losses = [
        -logarithms[row, place, texts[row, place + 1]]
        for row in range(texts.size(0))
        for place in range(texts.size(1) - 1)
        if texts[row, place + 1] != PAD_ID
    ]
    return torch.stack(losses).mean()


def next_word_loss_text_by_text(model, texts):
    """Each text without its padding."""
    sums, number = [], 0
    for text in texts:
        real = text[text != PAD_ID]
        sums.append(F.cross_entropy(model(real[None, :-1])[0], real[1:], reduction="sum"))
        number += len(real) - 1
    return sum(sums) / number


def write_into_a_tensor(model, prompt, steps, choose):
    """A tensor comes back."""
    ids = torch.tensor([prompt])
    while steps and (ids[0, -1] != END_ID or ids.size(1) == len(prompt)):
        word = choose(model(ids).squeeze(0)[-1])
        ids = torch.cat([ids, torch.tensor([[word]])], dim=1)
        steps -= 1
    return ids[0]


# Part 4


def head_by_building(task, d_model, vocab_size, kinds, batch, length):
    """Layers are built, and counted."""
    x = torch.empty(batch, length, d_model)
    layers = nn.ModuleDict()
    if task == "pair":
        layers["segments"] = nn.Embedding(2, d_model)
    if task == "masked":
        layers["mask"] = nn.Embedding(1, d_model)
    size = {"label": kinds, "pair": kinds, "entities": 1 + 2 * kinds, "answer": 2}.get(task)
    if size is not None:
        layers["output"] = nn.Linear(d_model, size)
    if task in ("label", "pair"):
        x = x.mean(dim=1)
    shape = (*x.shape[:-1], vocab_size) if size is None else layers["output"](x).shape
    return [shape, sum(each.numel() for each in layers.parameters())]


def best_span_at_once(first, last, allowed, longest):
    """All pairs in a square; a tensor's numbers come back."""
    n = len(first)
    sums = first.unsqueeze(1) + last
    may = torch.ones(n, n, dtype=torch.bool).triu().tril(longest - 1)
    may = may & allowed & allowed.unsqueeze(1)
    place = sums.masked_fill(~may, -torch.inf).argmax()
    return [place // n, place % n]


# Part 5


def audit_of_lists(rounds, mask_id):
    """Token by token; names may come twice, and 20 % would be too many."""
    cells = [
        [(i, r, w) for row in zip(*map(torch.Tensor.tolist, three), strict=True)
         for i, r, w in zip(*row, strict=True)]
        for three in rounds
    ]  # fmt: skip
    every = list(itertools.chain(*cells))
    asked = [cell for cell in every if cell[2] != PAD_ID]
    names = ["special token" for i, _, _ in asked if i in range(END_ID + 1)]
    names += ["wrong target" for i, _, w in asked if i != w]
    names += ["corrupted input" for i, r, w in every if w == PAD_ID and i != r]
    if statistics.mean(i == r for i, r, _ in asked) >= 0.2:
        names.append("unchanged")
    if {r for _, r, _ in asked} == {mask_id}:
        names.append("always masked")
    if len({tuple(w != PAD_ID for _, _, w in each) for each in cells}) == 1:
        names.append("same positions")
    return tuple(names)


# Part 6


def compare_in_one_pass(rows):
    """The best row so far is kept; pairs are lists, differences tensors."""
    best, tried = {}, {}
    for row in copy.deepcopy(rows):
        at = best.setdefault(row["labels"], {}).setdefault(row["seed"], {})
        if row["validation"] > at.get(row["begins"], {"validation": -1})["validation"]:
            at[row["begins"]] = row
        run = tried.setdefault(row["labels"], {}).setdefault((row["begins"], row["seed"]), [])
        run.append((row["rate"], row["epoch"]))
    answer = {}
    for labels, seeds in best.items():
        pairs = [each for each in seeds.values() if len(each) == 2]
        gains = torch.tensor([p["pretrained"]["test"] - p["random"]["test"] for p in pairs])
        one, *others = map(sorted, tried[labels].values())
        same = all(other == one for other in others)
        signs = set(gains.sign().tolist())
        enough = len(gains) >= 5 and len(signs) == 1
        reading = {1.0: "helps", -1.0: "hurts", 0.0: "open"}[signs.pop()] if enough else "open"
        answer[labels] = [gains.mean(), reading if same else "unfair"]
    return answer


# Part 7


class MergedEachTime(nn.Module):
    """The small product is added to the weight, in every call."""

    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.alpha = alpha
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.linear = linear
        for parameter in self.linear.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        update = self.alpha / len(self.down) * (self.up @ self.down)
        weight = self.linear.weight + update
        return F.linear(x, weight, self.linear.bias)


def merged_weight_by_outer_products(weight, down, up, alpha):
    """One rank after the other, in 64 bits."""
    total = weight.double()
    for row, column in zip(down, up.T, strict=True):
        total = total + alpha / down.shape[0] * torch.outer(column, row)
    return total


def plan_by_search(shapes, budget):
    """Rank after rank until one does not fit."""
    rank = parameters = 0
    while True:
        more = sum(torch.empty(rank + 1, n).numel() for shape in shapes for n in shape)
        if more * 4 * 4 > budget or any(rank + 1 > n for shape in shapes for n in shape):
            return [rank, parameters]
        rank, parameters = rank + 1, more


RIGHT = {
    "choose": [choose_by_rows, choose_by_threshold],
    "hide": [hide_token_by_token, hide_by_products],
    "Classifier": [TextByText, ScoresFirst, WithDropout],
    "LanguageModel": [TiedLanguageModel, ByRows],
    "next_word_loss": [next_word_loss_by_words, next_word_loss_text_by_text],
    "write": [write_into_a_tensor],
    "head": [head_by_building],
    "best_span": [best_span_at_once],
    "audit": [audit_of_lists],
    "compare": [compare_in_one_pass],
    "LowRankLinear": [MergedEachTime],
    "merged_weight": [merged_weight_by_outer_products],
    "plan": [plan_by_search],
}


# Wrong answers whose message is not a diagnosis of questions.py, or that make its mistake otherwise


class ThePackagesInDisguise(low_rank.LowRankLinear):
    pass


class NotAModule:
    def __init__(self, linear, rank, alpha):
        self.linear = linear


MEAN = "(vectors * real).sum(dim=1) / real.sum(dim=1)"
OWN_OUTPUT = (
    "self.encoder = encoder -> self.encoder = encoder\n"
    "        rows, columns = encoder.input.embedding.table.weight.shape\n"
    "        self.output = nn.Linear(columns, rows, bias=False)"
)
CROSS_ENTROPY = 'F.cross_entropy(scores.mT, targets, reduction="none")'
OF_TARGETS = ".gather(2, targets.unsqueeze(2)).squeeze(2)"
DETACHED_TABLE = "table.weight -> table.weight.detach()"
ADDED = 'runs.setdefault((row["labels"], row["begins"], row["seed"]), []).append(row)'
DOWN, UP = "torch.randn(rank, d_in) -> ", "torch.zeros(d_out, rank) -> "
NO_TARGET = "(~predicted & (inputs != ids)) -> "

ALLOWED = {"choose": ["floats"]}

WRONG = {
    "choose": {
        "not the expected value of the result": [
            "ranks < number.unsqueeze(1) -> ranks < 0",
            "(~words, 2.0) -> (~words, 0.5)",
            ".clamp(min=1) -> .minimum(words.sum(dim=1) - 1).clamp(min=1)",
        ],
        "No word of a short text is chosen": (
            ".clamp(min=1) -> \n    number = number + (number.sum() == 0)"
        ),
        "Your code changes its input ids": "words = -> ids[ids == END_ID] = PAD_ID\n    words =",
    },
    "hide": {
        "not the expected value of inputs": "(masked, mask_id) -> (masked, int(ids.max()) + 1)",
        "Expected a pair": "return inputs, targets -> return inputs",
        "Your code changes its input ids": "ids.masked_fill(masked -> ids.masked_fill_(masked",
    },
    "Classifier": {
        "The mean includes padding, so the scores of a": (
            "encoder(ids, mask) -> encoder(ids, torch.ones_like(mask))",
            f"{MEAN} -> vectors.mean(dim=1)",
        ),
        "has no parameter output.bias": "num_labels)\n\n -> num_labels, bias=False)\n\n",
        "has no parameter output.weight": (
            "self.output = -> self.head =",
            "self.output(mean) -> self.head(mean)",
        ),
        "the shape of output.weight": "(d_model, num_labels)\n -> (num_labels, d_model)\n",
        "Your code raises": f"{MEAN} -> (vectors * real).sum(dim=2) / real.sum(dim=1)",
        "has no parameter encoder.": "self.encoder = encoder -> self.encoder = [encoder]",
        "no gradient reaches encoder.": "vectors = self.encoder(ids, mask) -> "
        "vectors = self.encoder(ids, mask).detach()",
        "not accepted. Your code uses": encoder_heads.Classifier,
    },
    "LanguageModel": {
        "The shape of the scores": "return scores -> return scores[..., 1:]",
        "has a parameter of its own, output.weight": OWN_OUTPUT,
        "does not store its encoder": [
            "self.encoder = encoder -> self.encoder, self.kept = nn.Identity(), [encoder]",
            lambda encoder: encoder.layers,
        ],
        "must be a class derived from nn.Module": lambda encoder: None,
        "not accepted. Your code uses": language_model.LanguageModel,
        "no gradient flows through them": (
            DETACHED_TABLE,
            "return scores -> return scores.detach()",
        ),
        "no gradient reaches the embedding": [
            DETACHED_TABLE,
            "table.weight -> table.weight.detach().clone()",
        ],
    },
    "next_word_loss": {
        "The values of the loss of next_word_loss": [
            "return losses -> return 2 * losses",
            "targets != PAD_ID -> targets > 1",
            f"{CROSS_ENTROPY} -> -(scores.softmax(dim=-1) + 1e-8).log(){OF_TARGETS}",
        ],
        "There is infinity in the loss": (
            f"{CROSS_ENTROPY} -> -scores.softmax(dim=-1).log(){OF_TARGETS}"
        ),
    },
    "write": {
        "times for": "ids.append(choose(scores)) -> ids.append([choose(scores) for _ in '12'][1])",
        "`choose` gets scores of shape": ["[0, -1] -> [0, -1:]", "[0, -1] -> [0]"],
        "expected ids of shape (batch, length)": "([ids]))[0, -1] -> (ids))[-1]",
        "not the expected value of the ids": "range(steps) -> range(max(steps, 1))",
        "uses the scores after the prompt": "[0, -1] -> [0, len(prompt) - 1]",
        "does not get the unchanged scores": "[0, -1] -> [0, -1].softmax(dim=-1)",
        "The token with the highest score is generated": (
            "ids.append(choose(scores)) -> choose(scores)\n        ids.append(int(scores.argmax()))"
        ),
        "Your code changes its input prompt": "list(prompt) -> prompt",
    },
    "head": {
        "Expected a pair": "return shape, added -> return added",
        "not the expected value of shape": (
            "shape = (batch, size) -> shape = (batch, 1 if kinds == 2 else size)"
        ),
    },
    "best_span": {
        "not the expected value": [
            "return i, j -> return first[i] + last[j], i",
            "max(spans -> max([s for s in spans if first[s[0]] + last[s[1]] > -100] or [(0, 0)]",
            "i <= j < i + longest -> i <= j and allowed[i : j + 1].sum() <= longest",
            "max(spans -> max([(i, j) for i, j in spans if (first > first[i]).sum() < 5 "
            "and (last > last[j]).sum() < 5] or [(0, 0)]",
            "range(len(first)) -> range(len(first) - 1)",
        ],
        "Expected a pair": "return i, j -> return first[i] + last[j], i, j",
    },
    "audit": {
        "'unchanged' is missing. Its sign": [
            "unchanged > 0.2 * total -> unchanged < 0",
            "unchanged > 0.2 * total -> unchanged > 0.3 * total",
            "unchanged > 0.2 * total -> unchanged > 0.5 * total",
            "(inputs == ids)).sum() -> (inputs == ids) & (targets == ids)).sum()",
        ],
        "'corrupted input' is missing. Its": [
            f"{NO_TARGET}(~predicted & (inputs == mask_id))",
            f"{NO_TARGET}(~predicted & (inputs != ids) & (ids > END_ID))",
            f"{NO_TARGET}(~predicted & (inputs != ids) & (ids != PAD_ID))",
        ],
        "'always masked' is missing. Its": "predicted & (inputs == mask_id) -> inputs == mask_id",
        "'special token' is missing. Its": [
            "ids <= END_ID -> targets <= END_ID",
            "ids <= END_ID -> (ids <= END_ID) & (ids != PAD_ID)",
            "ids <= END_ID -> (ids <= END_ID) & (inputs == mask_id)",
            "predicted = -> found.clear()\n        predicted =",
        ],
        "'wrong target' is missing. Its": [
            "targets != ids -> (targets != ids) & (ids > END_ID)",
            "targets != ids -> (targets != ids) & (inputs == mask_id)",
        ],
        "is not the name of a fault": '"same positions" -> "the same positions"',
        "'unchanged' is reported, but": [
            "if (predicted & (ids <= END_ID)).any(): -> "
            "if (predicted & (inputs == ids)).sum() > 0.2 * predicted.sum():\n"
            '            found.add("unchanged")\n'
            "        if (predicted & (ids <= END_ID)).any():",
            "unchanged > 0.2 * total -> sum((i == d)[t != PAD_ID].float().mean() "
            "for d, i, t in rounds) > 0.2 * len(rounds)",
        ],
        "'always masked' is reported, but": [
            "if (predicted & (ids <= END_ID)).any(): -> "
            "if (inputs == mask_id)[predicted].all():\n"
            '            found.add("always masked")\n'
            "        if (predicted & (ids <= END_ID)).any():",
            "masked == total -> unchanged == 0",
            "masked == total -> masked > 0.9 * total",
        ],
        "'same positions' is reported, but": [
            "torch.equal(positions[0], each) -> positions[0].sum() == each.sum()",
            "torch.equal(positions[0], each) -> torch.equal(positions[0][0], each[0])",
            "torch.equal(positions[0], each) -> torch.equal(positions[0].any(0), each.any(0))",
            "torch.equal(positions[0], each) -> (positions[0] <= each).all()",
        ],
        "Expected a list of names of faults, got a str": 'return found -> return "unchanged"',
        "Your code raises": "in rounds: -> in rounds[0]:",
    },
    "compare": {
        "the differences and readings, by labels": [
            "for run in its.values() -> for run in runs.values()",
            'frozenset((row["rate"], row["epoch"]) -> tuple((row["rate"], row["epoch"])',
            'else:\n            reading = "open" -> else:\n            reading = "unclear"',
            "    answer = {}\n ->     answer = {}\n    rows = rows[:1]\n",
            'lambda row: row["validation"] -> lambda row: (row["validation"], -row["epoch"])',
            'lambda row: row["validation"] -> lambda row: (row["validation"], -row["rate"])',
            f"{ADDED} -> key = tuple(row[name] for name in ('labels', 'begins', 'seed'))\n"
            "        runs[key] = [*([*runs][-1:] == [key]) * runs.pop(key, []), row]",
            'max(run, key=lambda row: row["validation"])["test"] -> run[0]["test"]',
            "sum(differences) / len(differences) -> sum(differences)",
            "sum(differences) / len(differences) -> sorted(differences)[len(differences) // 2]",
            "len(differences) < 5 -> len(differences) != 5",
            "len(differences) < 5 -> len(differences) < 5 and max(differences) >= 0",
            "min(differences) > 0 -> sum(each > 0 for each in differences) >= 5",
            "min(differences) > 0 -> min(differences) > 0.01",
        ],
        "A small number of pairs is read like a large one": (
            "len(differences) < 5 -> len({seed for _, seed in its}) < 5"
        ),
        "The rates and the epochs are compared separately": (
            'frozenset((row["rate"], row["epoch"]) for row in run) -> '
            'tuple(tuple(sorted(row[name] for row in run)) for name in ("rate", "epoch"))'
        ),
        "The row with the best *test* accuracy is chosen": (
            'max(run, key=lambda row: row["validation"])["test"] -> max(row["test"] for row in run)'
        ),
        "Expected a dict": "return answer -> return list(answer.values())",
        "Expected a pair": "= mean, reading -> = mean",
    },
    "LowRankLinear": {
        "not accepted. Your code uses": [low_rank.LowRankLinear, ThePackagesInDisguise],
        "should be a class whose parent is nn.Module": NotAModule,
        "the shape of down is (2, 2), expected (2, 3)": (
            "self.down = -> self.up =",
            "self.up = nn.Parameter(torch.zeros -> self.down = nn.Parameter(torch.zeros",
        ),
        "`down` is zero and `up` is random": (
            f"{DOWN}torch.zeros(rank, d_in)",
            f"{UP}torch.randn(d_out, rank)",
        ),
        "self.linear is not the given layer": [
            "= linear.requires -> = nn.Linear(d_in, d_out).requires",
            "self.linear = linear. -> import copy\n        self.linear = copy.deepcopy(linear).",
        ],
        "The original layer is not frozen": "linear.requires_grad_(False) -> linear",
        "`down` or `up` is frozen": "/ d_in**0.5) -> / d_in**0.5, requires_grad=False)",
        "`up` must be zero at first": f"{UP}torch.ones(d_out, rank)",
        "`down` is not random": [
            f"{DOWN}torch.ones(rank, d_in)",
            f"{DOWN}torch.eye(rank, d_in)",
            f"{DOWN}torch.randn(1, d_in).repeat(rank, 1)",
        ],
        "`down` and `up` are both zero": f"{DOWN}torch.zeros(rank, d_in)",
        "no gradient reaches down": "self.up.T) -> self.up.T).detach()",
        "the gradient of x is not": "return self.linear(x) -> return self.linear(x).detach()",
    },
    "merged_weight": {
        "The values of the result": "len(down) -> torch.linalg.matrix_rank(down)",
    },
    "plan": {
        "Expected a pair": "return rank, rank * per_rank -> return rank",
        "not the expected value of rank, parameters": [
            "per_rank), limit) -> per_rank), limit, 256)",
            "sum(d_out + d_in for -> max(d_out + d_in for",
        ],
    },
}

HANDED_IN = {}
