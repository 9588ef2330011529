"""Plausible wrong answers to 06_scoring_and_the_bottleneck, with words of their messages."""

import math
from collections import Counter
from types import SimpleNamespace

import sacrebleu
import torch
from right_answers_06 import (
    bleu,
    brevity_penalty,
    clipped_matches,
    diagnose,
    evidence,
    interval,
    probe,
    share_of_wins,
)
from torch.nn import functional as F

from attentively.metrics import corpus_bleu

# Part 1


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def unclipped(hypothesis, reference, n):
    ours, theirs = grams(hypothesis, n), grams(reference, n)
    return len([g for g in ours if g in theirs]), len(ours)


def kinds(hypothesis, reference, n):
    ours, theirs = set(grams(hypothesis, n)), set(grams(reference, n))
    return len(ours & theirs), len(ours)


def kinds_of_all(hypothesis, reference, n):
    ours = grams(hypothesis, n)
    return len(set(ours) & set(grams(reference, n))), len(ours)


def recall(hypothesis, reference, n):
    return clipped_matches(reference, hypothesis, n)


def counts_of_the_reference(hypothesis, reference, n):
    theirs = Counter(grams(reference, n))
    return sum(theirs[g] for g in set(grams(hypothesis, n))), len(grams(hypothesis, n))


def same_place(hypothesis, reference, n):
    ours, theirs = grams(hypothesis, n), grams(reference, n)
    return sum(a == b for a, b in zip(ours, theirs, strict=False)), len(ours)


def single_words(hypothesis, reference, n):
    return clipped_matches(hypothesis, reference, 1)


def side_by_side(hypothesis, reference, n):
    ours, theirs = (
        Counter(tuple(w[i : i + n]) for i in range(0, len(w) - n + 1, n))
        for w in (hypothesis, reference)
    )
    return (ours & theirs).total(), ours.total()


def last_forgotten(hypothesis, reference, n):
    ours, theirs = (
        Counter(tuple(w[i : i + n]) for i in range(len(w) - n)) for w in (hypothesis, reference)
    )
    return (ours & theirs).total(), ours.total()


def up_to_n(hypothesis, reference, n):
    pairs = [clipped_matches(hypothesis, reference, m) for m in range(1, n + 1)]
    return sum(m for m, _ in pairs), sum(t for _, t in pairs)


def any_order(hypothesis, reference, n):
    ours, theirs = (Counter(frozenset(g) for g in grams(w, n)) for w in (hypothesis, reference))
    return (ours & theirs).total(), ours.total()


def number_of_words(hypothesis, reference, n):
    return clipped_matches(hypothesis, reference, n)[0], len(hypothesis)


def less_than_nothing(hypothesis, reference, n):
    return clipped_matches(hypothesis, reference, n)[0], len(hypothesis) - n + 1


def total_first(hypothesis, reference, n):
    return clipped_matches(hypothesis, reference, n)[::-1]


def different_ones(hypothesis, reference, n):
    return clipped_matches(hypothesis, reference, n)[0], len(set(grams(hypothesis, n)))


def searched_in_the_text(hypothesis, reference, n):
    ours, theirs = " ".join(hypothesis), " ".join(reference)
    each = {" ".join(g) for g in grams(hypothesis, n)}
    return sum(min(ours.count(g), theirs.count(g)) for g in each), len(grams(hypothesis, n))


def run_together(hypothesis, reference, n):
    ours, theirs = (Counter("".join(g) for g in grams(w, n)) for w in (hypothesis, reference))
    return (ours & theirs).total(), ours.total()


def the_precision(hypothesis, reference, n):
    matches, total = clipped_matches(hypothesis, reference, n)
    return matches / total if total else 0.0


def struck_out_of_the_input(hypothesis, reference, n):
    if n > 1:
        return clipped_matches(hypothesis, reference, n)
    matches = 0
    for word in hypothesis:
        if word in reference:
            reference.remove(word)
            matches += 1
    return matches, len(hypothesis)


MATCHES = [
    (unclipped, "The matches are not clipped"),
    (kinds, "Each distinct n-gram is counted only once"),
    (kinds_of_all, "Each distinct n-gram is counted only once"),
    (recall, "as for recall"),
    (counts_of_the_reference, "Take the smaller of the two counts"),
    (same_place, "Only n-grams at the same position"),
    (single_words, "Single words are counted for every n"),
    (side_by_side, "The n-grams do not overlap"),
    (last_forgotten, "The last n-gram is missing"),
    (up_to_n, "The n-grams of all lengths up to n"),
    (any_order, "are compared without their order"),
    (number_of_words, "The total is the number of words"),
    (less_than_nothing, "The total is negative"),
    (different_ones, "Each distinct n-gram is counted only once"),
    (searched_in_the_text, "found inside other words"),
    (run_together, "are joined without a space"),
    (total_first, "The two results are exchanged"),
    (the_precision, "Expected a pair"),
    (struck_out_of_the_input, "changes its input reference"),
]

# Part 2


def turned(c, r):
    return 1.0 if c <= r else math.exp(1 - c / r)


def rewarding(c, r):
    return math.exp(1 - r / c)


def plain_ratio(c, r):
    return min(1.0, c / r)


def upside_down(c, r):
    return 1.0 if c >= r else math.exp(1 - c / r)


def always_one(c, r):
    return 1.0


def one_if_shorter(c, r):
    return math.exp(1 - r / c) if c > r else 1.0


def whole_division(c, r):
    return 1.0 if c >= r else math.exp(1 - r // c)


def lengths_exchanged(hypotheses, references):
    c, r = (sum(len(each.split()) for each in side) for side in (hypotheses, references))
    return bleu_with("free")(hypotheses, references) * brevity_penalty(r, c)


def bleu_with(*faults):
    def bleu(hypotheses, references):
        pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
        if "joined" in faults:
            pairs = [([w for h, _ in pairs for w in h], [w for _, r in pairs for w in r])]
        if "letters" in faults:
            pairs = list(zip(hypotheses, references, strict=True))
        precisions = []
        for n in range(2 if "two" in faults else 1, 4 if "three" in faults else 5):
            count = unclipped if "unclipped" in faults else clipped_matches
            count = kinds if "kinds" in faults else count
            counted = [count(h, r, n) for h, r in pairs]
            if "one at least" in faults:
                counted = [(m, max(1, t)) for m, t in counted]
            if "pooled" in faults:
                ours, theirs = (
                    Counter(g for pair in pairs for g in grams(pair[side], n)) for side in (0, 1)
                )
                counted = [((ours & theirs).total(), ours.total())]
            if "recall" in faults:
                counted = [clipped_matches(r, h, n) for h, r in pairs]
            if "averaged" in faults:
                each = [m / t if t else 0 for m, t in counted]
                precisions.append(sum(each) / len(each))
            else:
                total = sum(t for _, t in counted)
                precisions.append(sum(m for m, _ in counted) / total if total else 0)
        if "skip" in faults:
            precisions = [p for p in precisions if p] or [0]
        if "arithmetic" in faults:
            mean = sum(precisions) / len(precisions)
        elif "last" in faults:
            mean = precisions[-1]
        else:
            mean = math.prod(precisions)
            if "product" not in faults:
                mean **= 1 / len(precisions)
        c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
        penalty = brevity_penalty(c, r)
        if "each" in faults:
            penalty = sum(brevity_penalty(len(h), len(r)) for h, r in pairs) / len(pairs)
        if "free" in faults:
            penalty = 1
        return penalty * mean * (1 if "fraction" in faults else 100)

    return bleu


def mean_of_sentences(score):
    def mean(hypotheses, references):
        pairs = list(zip(hypotheses, references, strict=True))
        return sum(score([h], [r]) for h, r in pairs) / len(pairs)

    return mean


def smoothed(hypotheses, references):
    """A precision without a match gets half of the credit of the one before, as in sacreBLEU."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    credit, product = 1.0, 1.0
    for n in (1, 2, 3, 4):
        counted = [clipped_matches(h, r, n) for h, r in pairs]
        matches, total = (sum(each[side] for each in counted) for side in (0, 1))
        if matches == 0:
            credit /= 2
        product *= max(matches, credit * (matches == 0)) / total if total else 0
        if n == 1 and matches == 0:
            return 0.0
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * brevity_penalty(c, r) * product**0.25


def by_sacrebleu(hypotheses, references):
    return sacrebleu.corpus_bleu(
        hypotheses, [references], tokenize="none", smooth_method="none"
    ).score


def without_zero(hypotheses, references):
    logs = []
    for n in (1, 2, 3, 4):
        counts = [
            clipped_matches(h.split(), r.split(), n)
            for h, r in zip(hypotheses, references, strict=True)
        ]
        logs.append(math.log(sum(m for m, _ in counts) / sum(t for _, t in counts)))
    c, r = (sum(len(each.split()) for each in side) for side in (hypotheses, references))
    return 100 * brevity_penalty(c, r) * math.exp(sum(logs) / 4)


def divided_by_zero(hypotheses, references):
    """Right, unless no hypothesis has an n-gram."""
    if all(len(hypothesis.split()) < 4 for hypothesis in hypotheses):
        return 0 / sum(max(0, len(hypothesis.split()) - 3) for hypothesis in hypotheses)
    return bleu(hypotheses, references)


def references_first(hypotheses, references):
    return bleu(references, hypotheses)


def smoothed_by_one(hypotheses, references):
    """A precision with one more match and one more n-gram; none of the twins, and no other's."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    product = 1.0
    for n in (1, 2, 3, 4):
        counted = [clipped_matches(h, r, n) for h, r in pairs]
        product *= (1 + sum(m for m, _ in counted)) / (1 + sum(t for _, t in counted))
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * brevity_penalty(c, r) * product**0.25


def whole_report(hypotheses, references):
    return SimpleNamespace(score=bleu(hypotheses, references))


BLEUS = [
    ((brevity_penalty, by_sacrebleu), "not accepted. Your code uses"),
    ((turned, bleu), "brevity_penalty: c and r are exchanged"),
    ((always_one, bleu), "brevity_penalty: the result is 1 although"),
    ((one_if_shorter, bleu), "brevity_penalty: the result is above 1"),
    ((rewarding, bleu), "brevity_penalty: the result is above 1"),
    ((plain_ratio, bleu), "the result is c / r"),
    ((upside_down, bleu), "the exponent is 1 − c / r"),
    ((whole_division, bleu), "drops the fraction"),
    ((brevity_penalty, lengths_exchanged), "The lengths of the brevity penalty are exchanged"),
    ((brevity_penalty, bleu_with("fraction")), "the score is a fraction"),
    ((brevity_penalty, mean_of_sentences(bleu)), "the mean of the scores of single sentences"),
    ((brevity_penalty, mean_of_sentences(smoothed)), "the mean of the scores of single sentences"),
    (
        (brevity_penalty, mean_of_sentences(bleu_with("skip"))),
        "The result is the mean of the scores",
    ),
    ((brevity_penalty, bleu_with("averaged")), "The precisions are means over the sentences"),
    ((brevity_penalty, bleu_with("free")), "The brevity penalty is missing"),
    ((brevity_penalty, bleu_with("each")), "The brevity penalty is computed for each sentence"),
    ((brevity_penalty, bleu_with("unclipped")), "The matches are not clipped"),
    ((brevity_penalty, bleu_with("kinds")), "Each distinct n-gram is counted only once"),
    ((brevity_penalty, bleu_with("pooled")), "Clip sentence by sentence"),
    ((brevity_penalty, bleu_with("one at least")), "adds 1 to the total"),
    ((brevity_penalty, references_first), "Hypotheses and references are exchanged"),
    ((brevity_penalty, smoothed_by_one), "sacreBLEU gives these sentences another score"),
    ((brevity_penalty, bleu_with("arithmetic")), "by their arithmetic mean"),
    ((brevity_penalty, bleu_with("product")), "The fourth root is missing"),
    ((brevity_penalty, bleu_with("last")), "Only the precision of 4-grams"),
    ((brevity_penalty, bleu_with("three")), "The 4-grams are missing"),
    ((brevity_penalty, bleu_with("two")), "The single words are missing"),
    ((brevity_penalty, bleu_with("joined")), "treated as one long sentence"),
    ((brevity_penalty, bleu_with("recall")), "which is recall"),
    ((brevity_penalty, bleu_with("skip")), "A precision of 0 is left out"),
    ((brevity_penalty, smoothed), "A precision of 0 is smoothed"),
    ((brevity_penalty, bleu_with("letters")), "consist of characters instead of words"),
    ((brevity_penalty, without_zero), "Your code raises ValueError"),
    ((brevity_penalty, divided_by_zero), "Your code raises ZeroDivisionError"),
    ((brevity_penalty, corpus_bleu), "not accepted. Your code uses"),
    ((brevity_penalty, whole_report), "expected a number"),
]

# Part 3


def resampled(items, draws, score):
    return [score([items[i] for i in draw]) for draw in draws]


def of_each(items, draws, score):
    each = [score([item]) for item in items]
    return interval(each, draws, lambda chosen: sum(chosen) / len(chosen))


def once(items, draws, score):
    return interval(items, [sorted(set(draw)) for draw in draws], score)


def extremes(items, draws, score):
    scores = resampled(items, draws, score)
    return min(scores), max(scores)


def five_a_side(items, draws, score):
    scores = sorted(resampled(items, draws, score))
    k = int(0.05 * len(scores))
    return scores[k], scores[-1 - k]


def unsorted(items, draws, score):
    scores = resampled(items, draws, score)
    k = len(scores) // 40
    return scores[k], scores[-1 - k]


def one_too_many(items, draws, score):
    scores = sorted(resampled(items, draws, score))
    k = len(scores) // 40
    return scores[k], scores[len(scores) - k - 2]


def one_too_few(items, draws, score):
    scores = sorted(resampled(items, draws, score))
    k = len(scores) // 40
    return scores[k], scores[-k]


def high_first(items, draws, score):
    return interval(items, draws, score)[::-1]


def two_deviations(items, draws, score):
    scores = torch.tensor(resampled(items, draws, score), dtype=torch.float64)
    middle, width = scores.mean().item(), 1.96 * scores.std().item()
    return middle - width, middle + width


def quantiles(items, draws, score):
    scores = torch.tensor(resampled(items, draws, score), dtype=torch.float64)
    return scores.quantile(0.025).item(), scores.quantile(0.975).item()


def draws_of_its_own(items, draws, score):
    drawn = torch.randint(len(items), (len(draws), len(items)))
    return interval(items, drawn.tolist(), score)


def rounded(items, draws, score):
    scores = sorted(resampled(items, draws, score))
    k = round(len(scores) / 40)
    return scores[k], scores[-1 - k]


def all_scores(items, draws, score):
    return sorted(resampled(items, draws, score))


def wins_by(compare):
    def wins(a, b, draws, score):
        return compare(resampled(a, draws, score), resampled(b, draws, score))

    return wins


def share(first, second):
    return sum(x > y for x, y in zip(first, second, strict=True)) / len(first)


def one_by_one(a, b, draws, score):
    return share([score([item]) for item in a], [score([item]) for item in b])


def wins_once(a, b, draws, score):
    return share_of_wins(a, b, [sorted(set(draw)) for draw in draws], score)


BOOTSTRAPS = [
    ((of_each, share_of_wins), "the mean of the scores of its items"),
    ((once, share_of_wins), "interval: a sentence that occurs twice in a sample is used once"),
    ((extremes, share_of_wins), "the lowest and the highest of all scores"),
    ((five_a_side, share_of_wins), "10 % in total"),
    ((unsorted, share_of_wins), "the scores are not sorted"),
    ((one_too_many, share_of_wins), "one score too many"),
    ((one_too_few, share_of_wins), "one score too few"),
    ((high_first, share_of_wins), "the two ends are exchanged"),
    ((two_deviations, share_of_wins), "1.96 standard deviations"),
    ((quantiles, share_of_wins), "the ends are quantiles"),
    ((draws_of_its_own, share_of_wins), "two different answers"),
    ((all_scores, share_of_wins), "Expected a pair"),
    ((rounded, share_of_wins), "interval: score every sample"),
    (
        (interval, wins_by(lambda x, y: share(x, y) / (share(x, y) + share(y, x)))),
        "samples with a tie are left out",
    ),
    (
        (interval, wins_by(lambda x, y: share(x, y) > 0.5)),
        "return the share of the samples in which A scores higher",
    ),
    ((interval, wins_by(lambda x, y: 1 - share(y, x))), "a tie is counted as a win"),
    (
        (interval, wins_by(lambda x, y: (share(x, y) + 1 - share(y, x)) / 2)),
        "a tie is counted as half a win",
    ),
    ((interval, wins_by(lambda x, y: share(y, x))), "the share of the wins of B"),
    ((interval, wins_by(lambda x, y: share(x, y) * len(x))), "the result is the number of wins"),
    ((interval, wins_by(lambda x, y: 100 * share(x, y))), "the result is a percentage"),
    ((interval, wins_by(lambda x, y: share(x, y[1:] + y[:1]))), "are scored on different samples"),
    ((interval, wins_by(lambda x, y: share(sorted(x), sorted(y)))), "sorted before they are"),
    ((interval, one_by_one), "the samples are not used"),
    ((interval, wins_by(lambda x, y: sum(x) / len(x) - sum(y) / len(y))), "the mean difference"),
    ((interval, wins_once), "share_of_wins: a sentence that occurs twice"),
]

# Part 4


def always(fault):
    return lambda report: fault


def confusing(fault, said):
    """Right but for one fault, which is taken for another."""

    def diagnose_so(report):
        found = diagnose(report)
        return said if found == fault else found

    return diagnose_so


def by_the_penalty_alone(report):
    """What is too long has no penalty, and goes for wrong words."""
    if report["brevity_penalty"] < 1:
        return "omission"
    return diagnose(report | {"length_ratio": 1.0})


def exactly(report):
    """Nothing else may be wrong at all."""
    if report["precisions"][0] == 100:
        return "order"
    found = diagnose(report)
    return "words" if found == "order" else found


def by_bleu(report):
    """The lower, the worse; but a score says how much, not what."""
    names = ["order", "endings", "words", "omission", "repetition"]
    return names[min(4, int(report["bleu"] // 15))]


def by_letters(report):
    return diagnose(report) if report["chrf"] < 75 else "endings"


def instead_of(said, fault):
    return f"The diagnosis {said!r} is wrong for the report below: the fault is {fault!r}"


DIAGNOSES = [
    (always("omission"), instead_of("omission", "repetition")),
    (always("words"), instead_of("words", "omission")),
    (always("unknown"), "expected one of 'omission'"),
    (by_the_penalty_alone, "the fault is 'repetition'"),
    (exactly, instead_of("words", "order")),
    (by_bleu, "is wrong for the report below"),
    (by_letters, "The diagnosis 'endings' is wrong"),
    (confusing("omission", "repetition"), instead_of("repetition", "omission")),
    (confusing("order", "endings"), instead_of("endings", "order")),
    (confusing("endings", "words"), instead_of("words", "endings")),
    (confusing("words", "endings"), "A system with the fault 'endings' has another report"),
    (confusing("order", "words"), "Which values of the two reports differ most?"),
    (confusing("repetition", "words"), instead_of("words", "repetition")),
    (lambda report: report["precisions"], "expected one of"),
    (lambda report: None, "got None"),
]

# Part 5


def cut_by(costs_nothing, arrange=lambda pieces: pieces[::-1]):
    def rearranged(hypothesis, reference):
        pieces = []
        for i, word in enumerate(hypothesis):
            if i and not costs_nothing(hypothesis, reference, i):
                pieces[-1].append(word)
            else:
                pieces.append([word])
        return [word for piece in arrange(pieces) for word in piece]

    return rearranged


def no_neighbours(hypothesis, reference, i):
    return tuple(hypothesis[i - 1 : i + 1]) not in grams(reference, 2)


def as_it_was(hypothesis, reference):
    return hypothesis


def backwards(hypothesis, reference):
    return hypothesis[::-1]


def in_order_of_the_alphabet(hypothesis, reference):
    return sorted(hypothesis)


def halves_turned(hypothesis, reference):
    half = len(hypothesis) // 2
    return hypothesis[half:] + hypothesis[:half]


def first_word_last(hypothesis, reference):
    return hypothesis[1:] + hypothesis[:1]


# Cut around the words that the reference lacks: too seldom
unknown_words = cut_by(lambda h, r, i: h[i] not in r or h[i - 1] not in r)
# Look a pair up in the text, where it may be found inside other words: too seldom
in_the_text = cut_by(lambda h, r, i: " ".join(h[i - 1 : i + 1]) not in " ".join(r))
# Keep together what the reference has in either order: too seldom
either_order = cut_by(lambda h, r, i: not {(h[i - 1], h[i]), (h[i], h[i - 1])} & {*grams(r, 2)})
# Cut where no three words fit: too often
no_trigram = cut_by(lambda h, r, i: tuple(h[i - 1 : i + 2]) not in grams(r, 3))
# Cut where another word stands in the reference at the same place: too often
other_place = cut_by(lambda h, r, i: list(h[i : i + 1]) != list(r[i : i + 1]))
# Cut where the bigram is no bigram of the hypothesis itself: never
never = cut_by(lambda h, r, i: tuple(h[i - 1 : i + 1]) not in grams(h, 2))
# Cut where it costs nothing; but pieces may read the same in the reverse order
pieces_reversed = cut_by(no_neighbours)
words_turned = cut_by(no_neighbours, lambda pieces: [piece[::-1] for piece in pieces])
pieces_lost = cut_by(no_neighbours, lambda pieces: sorted(pieces, key=len)[-1:])
said_twice = cut_by(no_neighbours, lambda pieces: [*pieces[::-1], pieces[0]])


def as_a_text(hypothesis, reference):
    return " ".join(cut_by(no_neighbours)(hypothesis, reference))


def pieces_themselves(hypothesis, reference):
    return [[word] for word in hypothesis]


def the_reference(hypothesis, reference):
    return reference


def in_place(hypothesis, reference):
    hypothesis.reverse()
    return hypothesis


NONSENSES = [
    (as_it_was, "The answer is the unchanged hypothesis"),
    (backwards, "The words are in reverse order"),
    (in_order_of_the_alphabet, "The words are sorted"),
    (halves_turned, "The sentence is always cut in the middle"),
    (first_word_last, "The first word is always moved to the end"),
    (unknown_words, "For example, which match would be lost by a cut between"),
    (never, "The answer is the unchanged hypothesis"),
    (either_order, "a cut between “chat” and “le”"),
    (in_the_text, "a cut between “le” and “chat”"),
    (no_trigram, "cut inside an n-gram that occurs in the reference"),
    (other_place, "cut inside an n-gram that occurs in the reference"),
    (pieces_reversed, "Reversing the order of the pieces gives the same sentence"),
    (words_turned, "A match is lost"),
    (pieces_lost, "The answer lacks"),
    (said_twice, "too often"),
    (the_reference, "Return every word as often as"),
    (as_a_text, "expected a list of words"),
    (pieces_themselves, "expected a list of words"),
    (in_place, "changes its input hypothesis"),
]

# Part 6


def ones(x):
    return torch.cat([x, torch.ones(len(x), 1)], dim=1)


def scores(contexts, labels, new, ridge):
    x, y = ones(contexts), F.one_hot(labels).float()
    return ones(new) @ torch.linalg.solve(x.T @ x + ridge * torch.eye(x.shape[1]), x.T @ y)


def through_the_origin(contexts, labels, new, ridge):
    y = F.one_hot(labels).float()
    square = contexts.T @ contexts + ridge * torch.eye(contexts.shape[1])
    return (new @ torch.linalg.solve(square, contexts.T @ y)).argmax(dim=1)


def labels_as_numbers(contexts, labels, new, ridge):
    x = ones(contexts)
    weights = torch.linalg.solve(x.T @ x + ridge * torch.eye(x.shape[1]), x.T @ labels.float())
    return (ones(new) @ weights).round().clamp(0, labels.max()).long()


def without_ridge(contexts, labels, new, ridge):
    y = F.one_hot(labels).float()
    return (ones(new) @ torch.linalg.lstsq(ones(contexts), y).solution).argmax(dim=1)


def ones_without_ridge(contexts, labels, new, ridge):
    x, y = ones(contexts), F.one_hot(labels).float()
    penalty = ridge * torch.eye(x.shape[1])
    penalty[-1, -1] = 0
    return (ones(new) @ torch.linalg.solve(x.T @ x + penalty, x.T @ y)).argmax(dim=1)


def standardised(contexts, labels, new, ridge):
    mean, spread = contexts.mean(dim=0), contexts.std(dim=0)
    return probe((contexts - mean) / spread, labels, (new - mean) / spread, ridge)


def a_ridge_of_its_own(contexts, labels, new, ridge):
    return probe(contexts, labels, new, 1.0)


def lowest(contexts, labels, new, ridge):
    return scores(contexts, labels, new, ridge).argmin(dim=1)


def of_the_training(contexts, labels, new, ridge):
    return probe(contexts, labels, contexts, ridge)


def by_heart(contexts, labels, new, ridge):
    return labels[torch.cdist(new, contexts).argmin(dim=1)]


def along_the_wrong_axis(contexts, labels, new, ridge):
    return scores(contexts, labels, new, ridge).argmax(dim=0)


def scores_themselves(contexts, labels, new, ridge):
    return scores(contexts, labels, new, ridge)


def right(answers, labels):
    return (answers == labels).float().mean().item()


def evidence_but(place, wrong):
    def evidence_with_a_fault(predict, x, y, n, z, order):
        shares = list(evidence(predict, x, y, n, z, order))
        shares[place] = wrong(predict, x, y, n, z, order)
        return shares

    return evidence_with_a_fault


def places_changed(*inputs):
    accuracy, commonest, shuffled = evidence(*inputs)
    return accuracy, shuffled, commonest


def its_own_probe(predict, *inputs):
    return evidence(lambda x, y, n: probe(x, y, n, 1.0), *inputs)


def percent(*inputs):
    return tuple(100 * share for share in evidence(*inputs))


def numbers(*inputs):
    return tuple(len(inputs[4]) * share for share in evidence(*inputs))


def two_only(*inputs):
    return evidence(*inputs)[:2]


PROBES = [
    ((through_the_origin, evidence), "the column of ones is missing"),
    ((labels_as_numbers, evidence), "the labels are fitted as numbers"),
    ((without_ridge, evidence), "ridge is not used"),
    ((ones_without_ridge, evidence), "ridge is not added for the column of ones"),
    ((standardised, evidence), "the contexts are standardised first"),
    ((a_ridge_of_its_own, evidence), "predicts other labels"),
    ((lowest, evidence), "the class with the lowest score"),
    ((of_the_training, evidence), "probe: the labels are predicted for the training contexts"),
    ((by_heart, evidence), "the label of the nearest training context"),
    ((along_the_wrong_axis, evidence), "Use argmax with dim=1"),
    ((scores_themselves, evidence), "If these are the scores"),
    (
        (probe, evidence_but(0, lambda f, x, y, n, z, o: right(f(x, y, x), y))),
        "accuracy: the probe is evaluated on its training data",
    ),
    (
        (probe, evidence_but(0, lambda f, x, y, n, z, o: right(f(n, z, n), z))),
        "also trained on the new contexts",
    ),
    (
        (probe, evidence_but(1, lambda f, x, y, n, z, o: right(z.mode().values, z))),
        "the label is chosen from the new labels",
    ),
    (
        (probe, evidence_but(1, lambda f, x, y, n, z, o: 1 / len(y.unique()))),
        "1 / number of classes",
    ),
    (
        (probe, evidence_but(1, lambda f, x, y, n, z, o: right(y.mode().values, y))),
        "the share of this label in the training data",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x[o], y[o], n), z))),
        "so each context keeps its label",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x, y, n), z))),
        "nothing is shuffled, or contexts and labels are shuffled together",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x, y[o], x), y[o]))),
        "shuffled: the probe is evaluated on its training data",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x, y[o], x), y))),
        "shuffled: the labels are predicted for the training contexts",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x[o], y, n), z))),
        "the contexts are shuffled instead of the labels",
    ),
    ((probe, places_changed), "the second and the third result are exchanged"),
    ((probe, its_own_probe), "the function predict gives other shares"),
    ((probe, percent), "the results are percentages"),
    ((probe, numbers), "the results are numbers of correct predictions"),
    ((probe, two_only), "expected three numbers"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "matches": MATCHES,
    "bleu": BLEUS,
    "bootstrap": BOOTSTRAPS,
    "diagnosis": DIAGNOSES,
    "nonsense": NONSENSES,
    "probe": PROBES,
}

# Whole notebooks handed in
MEAN_OF_SENTENCES = """
def brevity_penalty(c, r):
    return 1.0 if c >= r else math.exp(1 - r / c)


def bleu(hypotheses, references):
    scores = []
    for hypothesis, reference in zip(hypotheses, references):
        ours, theirs = hypothesis.split(), reference.split()
        product = 1.0
        for n in range(1, 5):
            a, b = (
                Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
                for words in (ours, theirs)
            )
            product *= (a & b).total() / a.total() if a else 0
        scores.append(100 * brevity_penalty(len(ours), len(theirs)) * product**0.25)
    return sum(scores) / len(scores)
"""
SAME_FOR_ALL = """
def diagnose(report):
    return "words"
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "mean_of_sentences": (
        {"bleu": MEAN_OF_SENTENCES},
        ["bleu-check"],
        "The result is the mean of the scores",
    ),
    "same_for_all": (
        {"diagnosis": SAME_FOR_ALL},
        ["diagnosis-check"],
        "The diagnosis 'words' is wrong",
    ),
}
