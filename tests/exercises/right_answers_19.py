"""Right answers to 19_heads_for_other_tasks, each written differently."""

import copy
import itertools
import math
import statistics

import torch
from torch import nn
from torch.nn import functional as F

from attentively.masks import causal_mask
from attentively.vocabulary import END_ID, PAD_ID

# Part 1


def choose(ids, lottery, share):
    ordinary = ids > END_ID
    number = (share * ordinary.sum(dim=1)).round().clamp(min=1)
    rank = lottery.masked_fill(~ordinary, 2.0).argsort(dim=1).argsort(dim=1)
    return rank < number.unsqueeze(1)


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


def hide(ids, chosen, fate, others, mask_id):
    read = ids.clone()
    read[chosen & (fate < 0.8)] = mask_id
    swapped = chosen & (fate >= 0.8) & (fate < 0.9)
    read[swapped] = others[swapped]
    wanted = torch.where(chosen, ids, PAD_ID)
    return read, wanted


def hide_token_by_token(ids, chosen, fate, others, mask_id):
    """In a loop over all places; a list comes back."""
    read, wanted = ids.clone(), torch.full_like(ids, PAD_ID)
    for row, place in chosen.nonzero().tolist():
        wanted[row, place] = ids[row, place]
        if fate[row, place] < 0.8:
            read[row, place] = mask_id
        elif fate[row, place] < 0.9:
            read[row, place] = others[row, place]
    return [read, wanted]


def hide_by_products(ids, chosen, fate, others, mask_id):
    masked, kept = fate < 0.8, fate >= 0.9
    changed = masked * mask_id + kept * ids + ~(masked | kept) * others
    return chosen * changed + ~chosen * ids, chosen * ids


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


# Part 3


class LanguageModel(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids):
        vectors = self.encoder(ids, causal_mask(ids.size(1)))
        table = self.encoder.input.embedding.table.weight
        return vectors @ table.T


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


def next_word_loss(model, texts):
    scores = model(texts[:, :-1])
    return F.cross_entropy(scores.mT, texts[:, 1:], ignore_index=PAD_ID)


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


def write(model, prompt, steps, choose):
    ids = list(prompt)
    for _ in range(steps):
        scores = model(torch.tensor([ids]))[0, -1]
        ids.append(int(choose(scores)))
        if ids[-1] == END_ID:
            break
    return ids


def write_into_a_tensor(model, prompt, steps, choose):
    """A tensor comes back."""
    ids = torch.tensor([prompt])
    while steps and (ids[0, -1] != END_ID or ids.size(1) == len(prompt)):
        word = choose(model(ids).squeeze(0)[-1])
        ids = torch.cat([ids, torch.tensor([[word]])], dim=1)
        steps -= 1
    return ids[0]


# Part 4


def head(task, d_model, vocab_size, kinds, batch, length):
    outputs = {"label": kinds, "pair": kinds, "entities": 2 * kinds + 1, "answer": 2}
    if task in ("masked", "next"):
        return (batch, length, vocab_size), d_model if task == "masked" else 0
    added = (d_model + 1) * outputs[task]
    if task == "pair":
        added += 2 * d_model
    if task in ("label", "pair"):
        return (batch, outputs[task]), added
    return (batch, length, outputs[task]), added


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


def best_span(first, last, allowed, longest):
    best = None
    for i in range(len(first)):
        for j in range(i, min(i + longest, len(first))):
            if allowed[i] and allowed[j]:
                score = first[i] + last[j]
                if best is None or score > best[0]:
                    best = score, i, j
    return best[1], best[2]


def best_span_at_once(first, last, allowed, longest):
    """All pairs in a square; a tensor's numbers come back."""
    n = len(first)
    sums = first.unsqueeze(1) + last
    may = torch.ones(n, n, dtype=torch.bool).triu().tril(longest - 1)
    may = may & allowed & allowed.unsqueeze(1)
    place = sums.masked_fill(~may, -torch.inf).argmax()
    return [place // n, place % n]


# Part 5


def audit(rounds, mask_id):
    asked = hidden = in_sight = 0
    found = set()
    for ids, read, wanted in rounds:
        places = wanted != PAD_ID
        asked += places.sum()
        hidden += (places & (read == mask_id)).sum()
        in_sight += (places & (read == ids)).sum()
        if (places & (ids <= END_ID)).any():
            found.add("special token")
        if (places & (wanted != ids)).any():
            found.add("wrong target")
        if (~places & (read != ids)).any():
            found.add("corrupted input")
    if in_sight > 0.2 * asked:
        found.add("unchanged")
    if hidden == asked:
        found.add("always masked")
    first = rounds[0][2] != PAD_ID
    if all(torch.equal(first, wanted != PAD_ID) for _, _, wanted in rounds):
        found.add("same positions")
    return found


def audit_of_lists(rounds, mask_id):
    """Token by token; names may come twice."""
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
    if statistics.mean(i == r for i, r, _ in asked) > 0.2:
        names.append("unchanged")
    if {r for _, r, _ in asked} == {mask_id}:
        names.append("always masked")
    if len({tuple(w != PAD_ID for _, _, w in each) for each in cells}) == 1:
        names.append("same positions")
    return tuple(names)


# Part 6


def compare(rows):
    runs = {}
    for row in rows:
        key = row["labels"], row["begins"], row["seed"]
        runs.setdefault(key, []).append(row)
    answer = {}
    for labels in {row["labels"] for row in rows}:
        its = {key[1:]: run for key, run in runs.items() if key[0] == labels}
        results = {key: max(run, key=lambda row: row["validation"])["test"]
                   for key, run in its.items()}  # fmt: skip
        differences = [
            results["pretrained", seed] - results["random", seed]
            for begins, seed in results
            if begins == "pretrained" and ("random", seed) in results
        ]
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
        answer[labels] = sum(differences) / len(differences), reading
    return answer


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


class LowRankLinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        d_out, d_in = linear.weight.shape
        self.linear = linear.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, d_in) / rank)
        self.up = nn.Parameter(torch.zeros(d_out, rank))
        self.factor = alpha / rank

    def forward(self, x):
        return self.linear(x) + self.factor * (x @ self.down.T @ self.up.T)


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
        weight = merged_weight(self.linear.weight, self.down, self.up, self.alpha)
        return F.linear(x, weight, self.linear.bias)


def merged_weight(weight, down, up, alpha):
    return weight + alpha / len(down) * (up @ down)


def merged_weight_by_outer_products(weight, down, up, alpha):
    """One rank after the other, in 64 bits."""
    total = weight.double()
    for row, column in zip(down, up.T, strict=True):
        total = total + alpha / down.shape[0] * torch.outer(column, row)
    return total


def plan(shapes, budget):
    each = sum(d_out + d_in for d_out, d_in in shapes)
    rank = min(budget // (16 * each), min(min(shape) for shape in shapes))
    return rank, rank * each


def plan_by_search(shapes, budget):
    """Rank after rank until one does not fit."""
    rank = parameters = 0
    while True:
        more = sum(torch.empty(rank + 1, n).numel() for shape in shapes for n in shape)
        if more * 4 * 4 > budget or any(rank + 1 > n for shape in shapes for n in shape):
            return [rank, parameters]
        rank, parameters = rank + 1, more


RIGHT = {
    "masking": [
        (choose, hide),
        (choose_by_rows, hide_token_by_token),
        (choose_by_threshold, hide_by_products),
    ],
    "classifier": [Classifier, TextByText, ScoresFirst],
    "language_model": [
        (LanguageModel, next_word_loss, write),
        (TiedLanguageModel, next_word_loss_by_words, write_into_a_tensor),
        (ByRows, next_word_loss_text_by_text, write),
    ],
    "shapes": [(head, best_span), (head_by_building, best_span_at_once)],
    "audited": [audit, audit_of_lists],
    "comparison": [compare, compare_in_one_pass],
    "lora": [
        (LowRankLinear, merged_weight, plan),
        (MergedEachTime, merged_weight_by_outer_products, plan_by_search),
    ],
}
