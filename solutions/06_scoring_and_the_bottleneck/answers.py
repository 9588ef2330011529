"""Answers to the parts of scoring and the bottleneck, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import sacrebleu
import torch

from attentively import metrics
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
brevity_penalty, bleu, diagnose = questions.brevity_penalty, questions.bleu, questions.diagnose

# Part 1


def matches_by_removal(hypothesis, reference, n):
    """Each n-gram of the reference can be matched once, and is then removed."""
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
    matches = sum(min(ours.count(g), theirs.count(g)) for g in set(ours))
    return np.int64(matches), torch.tensor(len(ours))


def matches_of_the_package(hypothesis, reference, n):
    ours, theirs = (metrics.count_ngrams(words, n) for words in (hypothesis, reference))
    return (ours & theirs).total(), ours.total()


def matches_of_the_checks(hypothesis, reference, n):
    ((_, _, *counts),) = questions.checks.count([" ".join(hypothesis)], [" ".join(reference)])
    return counts[n - 1], counts[n + 3]


def removed_from_the_input(hypothesis, reference, n):
    matches = 0
    for word in hypothesis:
        if word in reference:
            reference.remove(word)
            matches += 1
    return matches, len(hypothesis)


# Part 2


def penalty_as_a_tensor(c, r):
    return 1 if c >= r else torch.exp(torch.tensor(1 - r / c))


def bleu_by_logarithms(hypotheses, references):
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


def bleu_as_a_tensor(hypotheses, references):
    return torch.tensor(bleu(hypotheses, references))


def by_sacrebleu(hypotheses, references):
    options = {"tokenize": "none", "smooth_method": "none"}
    return sacrebleu.corpus_bleu(hypotheses, [references], **options).score


# Part 3


def interval_by_slices(items, samples, score):
    scores = np.array([score([items[i] for i in sample]) for sample in samples])
    scores.sort()
    left_out = int(0.025 * len(scores))
    kept = scores[left_out : len(scores) - left_out]
    return [torch.tensor(kept[0]), kept[-1]]


def interval_of_other_samples(items, samples, score):
    other = torch.randint(len(items), (len(samples), len(items)))
    return questions.interval(items, other.tolist(), score)


def share_of_a_comparison(a, b, samples, score):
    first, second = (
        np.array([score([items[i] for i in sample]) for sample in samples]) for items in (a, b)
    )
    return (first > second).mean()


# Part 4


def diagnose_by_precisions(report):
    """The length is inferred from other values, the order from how fast the precisions fall."""
    one, *_, four = report["precisions"]
    if report["brevity_penalty"] < 0.9:
        return "omission"
    if four / one > 0.8:
        return "repetition"
    if report["wer"] > 1.5 * (1 - one / 100) + 0.1:
        return "order"
    return "words" if report["chrf"] < one - 1 else "endings"


def by_bleu(report):
    """BLEU shows how much is wrong, but not what."""
    names = ["order", "endings", "words", "omission", "repetition"]
    return names[min(4, int(report["bleu"] // 15))]


def confusing(fault, said):
    """Return an answer that is right except for one fault."""
    return lambda report: said if diagnose(report) == fault else diagnose(report)


def instead_of(said, fault):
    return f"The diagnosis {said!r} is wrong for the report below: the fault is {fault!r}"


# Part 5


def nonsense_by_one_cut(hypothesis, reference):
    """The two sides of the first cut that loses no match are exchanged."""
    for i in range(1, len(hypothesis)):
        pair = hypothesis[i - 1 : i + 1]
        if pair not in [reference[j : j + 2] for j in range(len(reference) - 1)]:
            return (*hypothesis[i:], *hypothesis[:i])
    return hypothesis


def nonsense_by_trying(hypothesis, reference):
    """All cuts are tried; the first that loses no match is used."""

    def kept(words):
        return [questions.clipped_matches(words, reference, n)[0] for n in range(1, 5)]

    before = kept(hypothesis)
    for i in range(1, len(hypothesis)):
        turned = hypothesis[i:] + hypothesis[:i]
        if turned != hypothesis and all(a >= b for a, b in zip(kept(turned), before, strict=True)):
            return turned
    return list(hypothesis)


def reversed_in_place(hypothesis, reference):
    hypothesis.reverse()
    return hypothesis


# Part 6


def probe_by_more_rows(contexts, labels, new, ridge):
    """Ridge regression is least squares with one more row for each weight."""
    x = np.column_stack([np.ones(len(contexts)), contexts.numpy()])
    y = np.eye(int(labels.max()) + 1)[labels.numpy()]
    rows = np.vstack([x, math.sqrt(ridge) * np.eye(x.shape[1])])
    zeros = np.zeros((x.shape[1], y.shape[1]))
    weights = np.linalg.lstsq(rows, np.vstack([y, zeros]), rcond=None)[0]
    return (np.column_stack([np.ones(len(new)), new.numpy()]) @ weights).argmax(axis=1).tolist()


def probe_by_kernel(contexts, labels, new, ridge):
    """The same scores from products of contexts with one another; labels as an array."""
    x, z = (np.column_stack([each.numpy(), np.ones(len(each))]) for each in (contexts, new))
    dual = np.linalg.solve(x @ x.T + ridge * np.eye(len(x)), np.eye(int(labels.max()) + 1)[labels])
    return (z @ x.T @ dual).argmax(axis=1)


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


RIGHT = {
    "clipped_matches": [matches_by_removal, matches_by_zip],
    "brevity_penalty": [penalty_as_a_tensor],
    "bleu": [bleu_by_logarithms, bleu_as_a_tensor],
    "interval": [interval_by_slices],
    "share_of_wins": [share_of_a_comparison],
    "diagnose": [diagnose_by_precisions],
    "nonsense": [nonsense_by_one_cut, nonsense_by_trying],
    "probe": [probe_by_more_rows, probe_by_kernel],
    "evidence": [evidence_by_counting, lambda *data: torch.tensor(questions.evidence(*data))],
}

JOINED = "if i and (hypothesis[i - 1], word) in together:"
ORDER = "order = pieces[1:] + pieces[:1]"
WORDS = "return [word for piece in order for word in piece]"


def together_if(condition, order=ORDER):
    """Return edits that keep a word together with the one before it on another condition."""
    return (f"{JOINED} -> if i and {condition}:", f"{ORDER} -> {order}")


WRONG = {
    "clipped_matches": {
        "Expected a pair": "return matches, total -> return matches / total if total else 0.0",
        "changes its input reference": removed_from_the_input,
        "not accepted. Your code uses": [matches_of_the_package, matches_of_the_checks],
        "the pair. Return the number of clipped matches": [
            "tuple(words[i : i + n]) -> tuple(map(str.lower, words[i : i + n]))",
            "matches = (ours & theirs).total() -> text = ' '.join(['', *reference, ''])\n"
            "    matches = "
            "sum(min(c, text.count(' '.join(['', *g, '']))) for g, c in ours.items())",
        ],
    },
    "brevity_penalty": {
        "the result is above 1": ("if c >= r -> if c <= r",),
    },
    "bleu": {
        "not accepted. Your code uses": [by_sacrebleu, metrics.corpus_bleu],
        "sacreBLEU gives these sentences another score": [
            "matches / total if total else 0 -> (matches + 1) / (total + 1)",
            "(h.split(), r.split()) -> (h.lower().split(), r.lower().split())",
            "zip(hypotheses, references, strict=True) -> dict(zip(hypotheses, references)).items()",
        ],
        "Your code raises ValueError": (
            "math.prod(precisions) ** (1 / len(precisions)) -> "
            "math.exp(sum(map(math.log, precisions)) / 4)"
        ),
        "Your code raises ZeroDivisionError": "matches / total if total else 0 -> matches / total",
        "expected a number": lambda *texts: SimpleNamespace(score=bleu(*texts)),
    },
    "interval": {
        "two different answers": interval_of_other_samples,
        "Expected a pair": "return low, high -> return scores",
        "the interval. Score every sample": [
            "len(samples) // 40 -> round(len(samples) / 40)",
            "scores[-1 - left_out] -> scores[int(0.975 * len(scores))]",
            "for sample in samples) -> for sample in samples)\n    scores = sorted({*scores})",
            "for sample in samples) -> for sample in samples)\n    scores.sort(key=abs)",
        ],
        "Your code raises RuntimeError": (
            "[items[i] for i in sample] -> torch.tensor(items)[torch.tensor(sample)]"
        ),
    },
    "share_of_wins": {
        "share of the samples in which A scores higher": [
            "wins / len(samples) -> wins > len(samples) / 2",
            "zip(first, second -> zip(first, second[::-1]",
            "x > y for -> x > sum(second) / len(second) for",
        ],
    },
    "diagnose": {
        instead_of("omission", "repetition"): lambda report: "omission",
        instead_of("words", "omission"): lambda report: "words",
        "expected one of 'omission'": [
            lambda report: "unknown",
            lambda report: report["precisions"],
        ],
        "got None": lambda report: None,
        "the fault is 'repetition'": 'report["length_ratio"] > 1.05 -> False',
        instead_of("words", "order"): "single_words > 90 -> single_words == 100",
        "is wrong for the report below": by_bleu,
        "The diagnosis 'endings' is wrong": (
            'if single_words > 90 -> if report["chrf"] >= 75:\n        return "endings"\n'
            "    if single_words > 90"
        ),
        instead_of("repetition", "omission"): confusing("omission", "repetition"),
        instead_of("endings", "order"): confusing("order", "endings"),
        instead_of("words", "endings"): confusing("endings", "words"),
        instead_of("words", "repetition"): confusing("repetition", "words"),
        "A system with the fault 'endings' has another report": confusing("words", "endings"),
        "Which values of the two reports differ most?": confusing("order", "words"),
    },
    "nonsense": {
        "The answer is the unchanged hypothesis": [
            f"{ORDER} -> order = pieces",
            together_if("True"),
        ],
        "The words are in reverse order": lambda hypothesis, reference: hypothesis[::-1],
        "The words are sorted": lambda hypothesis, reference: sorted(hypothesis),
        "The sentence is always cut in the middle": (
            lambda h, reference: h[len(h) // 2 :] + h[: len(h) // 2]
        ),
        "The first word is always moved to the end": lambda h, reference: h[1:] + h[:1],
        "For example, which match would be lost by a cut between": (
            together_if("{word, hypothesis[i - 1]} <= {*reference}")
        ),
        "a cut between “oui” and “oui”": f"{ORDER} -> order = pieces[1::-1] + pieces[2:]",
        "a cut between “chat” and “le”": (
            together_if("{(word, hypothesis[i - 1]), (hypothesis[i - 1], word)} & together")
        ),
        "a cut between “le” and “chat”": [
            together_if("' '.join(hypothesis[i - 1 : i + 1]) in ' '.join(reference)"),
            together_if("f'{hypothesis[i - 1]} {word}'.lower() in ' '.join(reference).lower()"),
        ],
        "cut inside an n-gram that occurs in the reference": [
            together_if(
                "hypothesis[i - 1 : i + 2] "
                "in [reference[j : j + 3] for j in range(len(reference))]",
                "order = pieces[::-1]",
            ),
            together_if("hypothesis[i : i + 1] == reference[i : i + 1]", "order = pieces[::-1]"),
            f"{WORDS} -> words = sum(order, [])\n"
            "    return words if len(pieces) > 1 else words[1:] + words[:1]",
            (
                "together = set( -> together = Counter(",
                f"{JOINED} -> if i and (together.subtract([pair := (hypothesis[i - 1], word)]) or "
                "together[pair] >= 0):",
            ),
            together_if("(hypothesis[i - 1], word) in [*pairwise(reference)][:-1]"),
            lambda h, reference: h[1:] + h[:1] if len(h) > 2 else None,
        ],
        "Reversing the order of the pieces gives the same sentence": (
            f"{ORDER} -> order = pieces[::-1]"
        ),
        "A match is lost": f"{ORDER} -> order = [piece[::-1] for piece in pieces]",
        "The answer lacks": f"{ORDER} -> order = sorted(pieces, key=len)[-1:]",
        "too often": f"{ORDER} -> order = [*pieces[::-1], pieces[0]]",
        "Return every word as often as": lambda hypothesis, reference: reference,
        "expected a list of words": [
            f"{WORDS} -> return ' '.join(word for piece in order for word in piece)",
            f"{WORDS} -> return order",
        ],
        "changes its input hypothesis": reversed_in_place,
    },
    "probe": {
        "predicts other labels": [
            "penalty = ridge * -> penalty = 1.0 * ",
            "F.one_hot(labels) -> F.one_hot(labels.unique(return_inverse=True)[1])",
            "torch.linalg.solve(x.T @ x + penalty, x.T @ y) -> x.T @ y",
        ],
        "If these are the scores": "scores.argmax(dim=1) -> scores",
    },
    "evidence": {
        "so each context keeps its label": (
            "predict(contexts, labels[order], new) -> predict(contexts[order], labels[order], new)"
        ),
        "The function predict gives other shares": [
            "def evidence(predict, contexts, labels, new, new_labels, order): -> "
            "def evidence(_, contexts, labels, new, new_labels, order):\n"
            "    def predict(*data):\n"
            "        return probe(*data, 1.0)\n",
            "labels.bincount().argmax() -> labels[0]",
            "labels.bincount().argmax() -> labels.max()",
        ],
        "expected three numbers": (
            "return accuracy, most_frequent, shuffled -> return accuracy, most_frequent"
        ),
    },
}

HANDED_IN = {
    "same_for_all": (
        {"diagnosis": 'def diagnose(report):\n    return "words"\n'},
        ["diagnosis-check"],
        "The diagnosis 'words' is wrong",
    ),
}
