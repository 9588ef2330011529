"""Right answers to 06_scoring_and_the_bottleneck, each part written in several ways."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import torch
from torch.nn import functional as F

# Part 1


def clipped_matches(hypothesis, reference, n):
    def ngrams(words):
        return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))

    ours = ngrams(hypothesis)
    return (ours & ngrams(reference)).total(), ours.total()


def matches_by_striking_out(hypothesis, reference, n):
    """Each n-gram of the reference can be matched once, then it is gone."""
    left = [reference[i : i + n] for i in range(len(reference) - n + 1)]
    matches = total = 0
    for i in range(len(hypothesis) - n + 1):
        total += 1
        if hypothesis[i : i + n] in left:
            left.remove(hypothesis[i : i + n])
            matches += 1
    return [matches, total]


def matches_by_zip(hypothesis, reference, n):
    ours = list(zip(*(hypothesis[i:] for i in range(n)), strict=False))
    theirs = list(zip(*(reference[i:] for i in range(n)), strict=False))
    return np.int64(sum(min(ours.count(g), theirs.count(g)) for g in set(ours))), float(len(ours))


MATCHES = [clipped_matches, matches_by_striking_out, matches_by_zip]

# Part 2


def brevity_penalty(c, r):
    return min(1.0, math.exp(1 - r / c))


def penalty_by_cases(c, r):
    if c >= r:
        return 1
    return torch.exp(torch.tensor(1 - r / c))


def bleu(hypotheses, references):
    product, c, r = 1.0, 0, 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        c += len(hypothesis.split())
        r += len(reference.split())
    for n in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found, there = clipped_matches(hypothesis.split(), reference.split(), n)
            matches += found
            total += there
        product *= matches / total if total else 0
    return 100 * brevity_penalty(c, r) * product**0.25


def bleu_by_logs(hypotheses, references):
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    lengths = np.array([(len(h), len(r)) for h, r in pairs]).sum(axis=0)
    logs = []
    for n in (1, 2, 3, 4):
        counts = [matches_by_zip(h, r, n) for h, r in pairs]
        matches = sum(m for m, _ in counts)
        if matches == 0:
            return 0
        logs.append(math.log(matches) - math.log(sum(t for _, t in counts)))
    return np.exp(min(0, 1 - lengths[1] / lengths[0]) + np.mean(logs)) * 100


BLEUS = [
    (brevity_penalty, bleu),
    (penalty_by_cases, bleu_by_logs),
    (lambda c, r: brevity_penalty(c, r), lambda h, r: torch.tensor(bleu(h, r))),
]

# Part 3


def interval(items, draws, score):
    scores = sorted(score([items[i] for i in draw]) for draw in draws)
    k = len(scores) // 40
    return scores[k], scores[-1 - k]


def interval_by_cutting(items, draws, score):
    scores = np.array([score([items[i] for i in draw]) for draw in draws])
    scores.sort()
    cut = int(0.025 * len(scores))
    kept = scores[cut : len(scores) - cut]
    return [torch.tensor(kept[0]), kept[-1]]


def share_of_wins(a, b, draws, score):
    wins = 0
    for draw in draws:
        wins += score([a[i] for i in draw]) > score([b[i] for i in draw])
    return wins / len(draws)


def share_by_means(a, b, draws, score):
    first, second = (
        np.array([score([items[i] for i in draw]) for draw in draws]) for items in (a, b)
    )
    return (first > second).mean()


BOOTSTRAPS = [(interval, share_of_wins), (interval_by_cutting, share_by_means)]

# Part 4


def diagnose(report):
    if report["length_ratio"] < 0.95:
        return "omission"
    if report["length_ratio"] > 1.05:
        return "repetition"
    if report["precisions"][0] > 90:
        return "order"
    return "endings" if report["chrf"] > report["precisions"][0] else "words"


def diagnose_by_shape(report):
    """The length is read from other numbers, the order from how fast the precisions fall."""
    one, *_, four = report["precisions"]
    if report["brevity_penalty"] < 0.9:
        return "omission"
    if four / one > 0.8:
        return "repetition"
    if report["wer"] > 1.5 * (1 - one / 100) + 0.1:
        return "order"
    return "words" if report["chrf"] < one - 1 else "endings"


def diagnose_by_points(report):
    one = report["precisions"][0] / 100
    signs = {
        "omission": 1 - report["length_ratio"],
        "repetition": report["length_ratio"] - 1,
        "order": one - 0.8,
        "endings": (report["chrf"] / 100 - one) / 2,
        "words": one - report["chrf"] / 100,
    }
    if abs(signs["omission"]) < 0.1:
        signs["omission"] = signs["repetition"] = -1
        if one < 0.88:
            signs["order"] = -1
        else:
            return "order"
    else:
        return max(("omission", "repetition"), key=signs.get)
    return max(signs, key=signs.get)


DIAGNOSES = [diagnose, diagnose_by_shape, diagnose_by_points]

# Part 5


def pieces_of(hypothesis, reference):
    neighbours = set(pairwise(reference))
    pieces = []
    for i, word in enumerate(hypothesis):
        if i and (hypothesis[i - 1], word) in neighbours:
            pieces[-1].append(word)
        else:
            pieces.append([word])
    return pieces


def nonsense(hypothesis, reference):
    first, *others = pieces_of(hypothesis, reference) or [[]]
    return [word for piece in [*others, first] for word in piece]


def nonsense_by_one_cut(hypothesis, reference):
    """The two sides of the first such place change places."""
    for i in range(1, len(hypothesis)):
        pair = hypothesis[i - 1 : i + 1]
        if pair not in [reference[j : j + 2] for j in range(len(reference) - 1)]:
            return (*hypothesis[i:], *hypothesis[:i])
    return hypothesis


def nonsense_by_sorting(hypothesis, reference):
    pieces = pieces_of(hypothesis, reference)
    ordered = sorted(pieces, key=lambda piece: (-len(piece), piece))
    if ordered == pieces:
        ordered = ordered[1:] + ordered[:1]
    return [word for piece in ordered for word in piece]


def nonsense_by_trying(hypothesis, reference):
    """No thought, all cuts: the first turn that loses no match."""

    def kept(words):
        return [clipped_matches(words, reference, n)[0] for n in range(1, 5)]

    before = kept(hypothesis)
    for i in range(1, len(hypothesis)):
        turned = hypothesis[i:] + hypothesis[:i]
        if turned != hypothesis and all(a >= b for a, b in zip(kept(turned), before, strict=True)):
            return turned
    return list(hypothesis)


NONSENSES = [nonsense, nonsense_by_one_cut, nonsense_by_sorting, nonsense_by_trying]

# Part 6


def probe(contexts, labels, new, ridge):
    x = torch.cat([contexts, torch.ones(len(contexts), 1)], dim=1)
    y = F.one_hot(labels).float()
    weights = torch.linalg.solve(x.T @ x + ridge * torch.eye(x.shape[1]), x.T @ y)
    return (torch.cat([new, torch.ones(len(new), 1)], dim=1) @ weights).argmax(dim=1)


def probe_by_more_rows(contexts, labels, new, ridge):
    """Ridge regression is least squares with one more row for each weight."""
    x = np.column_stack([np.ones(len(contexts)), contexts.numpy()])
    y = np.eye(int(labels.max()) + 1)[labels.numpy()]
    rows = np.vstack([x, math.sqrt(ridge) * np.eye(x.shape[1])])
    zeros = np.zeros((x.shape[1], y.shape[1]))
    weights = np.linalg.lstsq(rows, np.vstack([y, zeros]), rcond=None)[0]
    return (np.column_stack([np.ones(len(new)), new.numpy()]) @ weights).argmax(axis=1).tolist()


def evidence(predict, contexts, labels, new, new_labels, order):
    commonest = labels.mode().values
    return (
        (predict(contexts, labels, new) == new_labels).float().mean(),
        (new_labels == commonest).float().mean(),
        (predict(contexts, labels[order], new) == new_labels).float().mean(),
    )


def evidence_by_counting(predict, contexts, labels, new, new_labels, order):
    truth, known = new_labels.tolist(), labels.tolist()

    def share(answers):
        return sum(a == b for a, b in zip(answers, truth, strict=True)) / len(truth)

    shuffled = torch.tensor([known[i] for i in order.tolist()])
    (most, _), *_ = Counter(known).most_common()
    return [
        share(predict(contexts, labels, new).tolist()),
        share([most] * len(truth)),
        share(predict(contexts, shuffled, new).tolist()),
    ]


def probe_by_kernel(contexts, labels, new, ridge):
    """The same scores from products of contexts with one another; labels as an array."""
    x, z = (np.column_stack([each.numpy(), np.ones(len(each))]) for each in (contexts, new))
    dual = np.linalg.solve(x @ x.T + ridge * np.eye(len(x)), np.eye(len(labels.unique()))[labels])
    return (z @ x.T @ dual).argmax(axis=1)


PROBES = [
    (probe, evidence),
    (probe_by_more_rows, evidence_by_counting),
    (probe_by_kernel, evidence),
]

# Each part's right answers, by the name of its check
RIGHT = {
    "matches": MATCHES,
    "bleu": BLEUS,
    "bootstrap": BOOTSTRAPS,
    "diagnosis": DIAGNOSES,
    "nonsense": NONSENSES,
    "probe": PROBES,
}
