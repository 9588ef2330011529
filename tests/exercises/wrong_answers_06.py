"""Plausible wrong answers to 06_scoring_and_the_bottleneck, with words of their messages."""

import math
from collections import Counter

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
    (unclipped, "Nothing is clipped"),
    (kinds, "Each kind of n-gram counts once"),
    (kinds_of_all, "Each kind of n-gram counts once"),
    (recall, "that would be recall"),
    (counts_of_the_reference, "take the smaller of both counts"),
    (same_place, "Only n-grams at the same place"),
    (single_words, "Single words are counted, whatever n is"),
    (side_by_side, "n-grams overlap"),
    (last_forgotten, "The last n-gram is missing"),
    (up_to_n, "All n-grams up to n"),
    (any_order, "are compared in any order"),
    (number_of_words, "The total is the number of words"),
    (less_than_nothing, "Less than nothing"),
    (different_ones, "Each kind of n-gram counts once"),
    (searched_in_the_text, "found inside other words"),
    (run_together, "are run together"),
    (total_first, "The two have changed places"),
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


def whole_division(c, r):
    return 1.0 if c >= r else math.exp(1 - r // c)


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
    return corpus_bleu(hypotheses, references, str.split).score


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
    return sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none")


BLEUS = [
    ((turned, bleu), "r and c have changed places"),
    ((rewarding, bleu), "longer translations are rewarded"),
    ((plain_ratio, bleu), "this is c / r"),
    ((upside_down, bleu), "not 1 − c / r"),
    ((whole_division, bleu), "leaves the fraction out"),
    ((brevity_penalty, bleu_with("fraction")), "from 0 to 100"),
    ((brevity_penalty, mean_of_sentences(bleu)), "the mean of the sentences' scores"),
    ((brevity_penalty, mean_of_sentences(smoothed)), "the mean of the sentences' scores"),
    ((brevity_penalty, mean_of_sentences(bleu_with("skip"))), "the mean of the sentences' scores"),
    ((brevity_penalty, bleu_with("averaged")), "The precisions are means over the sentences"),
    ((brevity_penalty, bleu_with("free")), "The brevity penalty is missing"),
    ((brevity_penalty, bleu_with("each")), "Each sentence has its own brevity penalty"),
    ((brevity_penalty, bleu_with("unclipped")), "Nothing is clipped"),
    ((brevity_penalty, bleu_with("kinds")), "Each kind of n-gram counts once"),
    ((brevity_penalty, bleu_with("pooled")), "Clip sentence by sentence"),
    ((brevity_penalty, bleu_with("one at least")), "has a total of 1 here"),
    ((brevity_penalty, references_first), "have changed places"),
    ((brevity_penalty, smoothed_by_one), "sacreBLEU gives another score"),
    ((brevity_penalty, bleu_with("arithmetic")), "the arithmetic mean"),
    ((brevity_penalty, bleu_with("product")), "the product of the four precisions"),
    ((brevity_penalty, bleu_with("last")), "the precision of 4-grams alone"),
    ((brevity_penalty, bleu_with("three")), "4-grams are missing"),
    ((brevity_penalty, bleu_with("two")), "single words are missing"),
    ((brevity_penalty, bleu_with("joined")), "read as one long sentence"),
    ((brevity_penalty, bleu_with("recall")), "This is recall"),
    ((brevity_penalty, bleu_with("skip")), "An order without any match is left out"),
    ((brevity_penalty, smoothed), "is smoothed here"),
    ((brevity_penalty, bleu_with("letters")), "n-grams of letters"),
    ((brevity_penalty, without_zero), "Your code raises ValueError"),
    ((brevity_penalty, corpus_bleu), "a library's own score"),
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
    ((of_each, share_of_wins), "means of the items' own scores"),
    ((once, share_of_wins), "A sentence that is drawn twice counts once"),
    ((extremes, share_of_wins), "the lowest and the highest of all scores"),
    ((five_a_side, share_of_wins), "10 % in all"),
    ((unsorted, share_of_wins), "the scores are not sorted"),
    ((one_too_many, share_of_wins), "one score too many"),
    ((one_too_few, share_of_wins), "one score too few"),
    ((high_first, share_of_wins), "first the low end"),
    ((two_deviations, share_of_wins), "1.96 standard deviations"),
    ((quantiles, share_of_wins), "a quantile between two scores"),
    ((draws_of_its_own, share_of_wins), "two different answers"),
    ((all_scores, share_of_wins), "Expected a pair"),
    ((rounded, share_of_wins), "leave n // 40 out at each end"),
    ((interval, wins_by(lambda x, y: share(x, y) / (share(x, y) + share(y, x)))), "are left out"),
    ((interval, wins_by(lambda x, y: share(x, y) > 0.5)), "in what share of the draws"),
    ((interval, wins_by(lambda x, y: 1 - share(y, x))), "the same counts as a win"),
    ((interval, wins_by(lambda x, y: (share(x, y) + 1 - share(y, x)) / 2)), "half a win"),
    ((interval, wins_by(lambda x, y: share(y, x))), "these are the wins of B"),
    ((interval, wins_by(lambda x, y: share(x, y) * len(x))), "this is the number of wins"),
    ((interval, wins_by(lambda x, y: 100 * share(x, y))), "no percentage"),
    ((interval, wins_by(lambda x, y: share(x, y[1:] + y[:1]))), "not scored on the same draw"),
    ((interval, wins_by(lambda x, y: share(sorted(x), sorted(y)))), "sorted before they are"),
    ((interval, one_by_one), "the draws are not used"),
    ((interval, wins_by(lambda x, y: sum(x) / len(x) - sum(y) / len(y))), "the mean difference"),
    ((interval, wins_once), "share_of_wins: A sentence that is drawn twice counts once"),
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


DIAGNOSES = [
    (always("omission"), "length ratio is well below 1"),
    (always("words"), "This is no case of words"),
    (always("unknown"), "Expected one of 'omission'"),
    (by_the_penalty_alone, "the system says too much"),
    (exactly, "compare with room to spare"),
    (by_bleu, "This is no case of"),
    (by_letters, "This is no case of endings"),
    (confusing("omission", "repetition"), "length ratio is well above 1"),
    (confusing("order", "endings"), "they stand in the wrong order"),
    (confusing("endings", "words"), "of the wrong words many letters are right"),
    (confusing("words", "endings"), "have little in common with the right ones"),
    (confusing("order", "words"), "This is no case of words"),
    (confusing("repetition", "words"), "what it says twice is matched once"),
    (lambda report: report["precisions"], "Expected one of"),
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
    (as_it_was, "This is the hypothesis as it was"),
    (backwards, "The words stand in the reverse order"),
    (in_order_of_the_alphabet, "The words are sorted"),
    (halves_turned, "The sentence is cut in the middle"),
    (first_word_last, "The first word is moved to the end"),
    (unknown_words, "What would it cost, for example, to cut between"),
    (never, "This is the hypothesis as it was"),
    (either_order, "to cut between “chat” and “le”"),
    (in_the_text, "to cut between “le” and “chat”"),
    (no_trigram, "cut inside a run of words that the reference has"),
    (other_place, "cut inside a run of words that the reference has"),
    (pieces_reversed, "In the reverse order the pieces read as before"),
    (words_turned, "was matched, and is no more"),
    (pieces_lost, "The answer lacks"),
    (said_twice, "too often"),
    (the_reference, "Keep every word"),
    (as_a_text, "Expected a list of words"),
    (pieces_themselves, "Expected a list of words"),
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
    ((standardised, evidence), "brought to one scale first"),
    ((a_ridge_of_its_own, evidence), "chooses others"),
    ((lowest, evidence), "the class with the lowest score"),
    ((of_the_training, evidence), "that the contexts of the training get"),
    ((by_heart, evidence), "the label of the nearest context"),
    ((along_the_wrong_axis, evidence), "argmax runs along dim=1"),
    ((scores_themselves, evidence), "Are these the scores?"),
    (
        (probe, evidence_but(0, lambda f, x, y, n, z, o: right(f(x, y, x), y))),
        "examined on what it was trained on",
    ),
    (
        (probe, evidence_but(0, lambda f, x, y, n, z, o: right(f(n, z, n), z))),
        "trained on the new contexts too",
    ),
    (
        (probe, evidence_but(1, lambda f, x, y, n, z, o: right(z.mode().values, z))),
        "the commonest label is taken from the new labels",
    ),
    (
        (probe, evidence_but(1, lambda f, x, y, n, z, o: 1 / len(y.unique()))),
        "one over the number of classes",
    ),
    (
        (probe, evidence_but(1, lambda f, x, y, n, z, o: right(y.mode().values, y))),
        "how common the commonest label is in training",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x[o], y[o], n), z))),
        "so every pair stays a pair",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x, y, n), z))),
        "nothing is shuffled, or the contexts along with their labels",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x, y[o], x), y[o]))),
        "how well it learns by heart",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x, y[o], x), y))),
        "the contexts of the training are examined",
    ),
    (
        (probe, evidence_but(2, lambda f, x, y, n, z, o: right(f(x[o], y, n), z))),
        "the contexts are rearranged",
    ),
    ((probe, places_changed), "the second and the third have changed places"),
    ((probe, its_own_probe), "the probe that is handed in gives other shares"),
    ((probe, percent), "these are percentages"),
    ((probe, numbers), "these are numbers of right answers"),
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
        "This is the mean of the sentences",
    ),
    "same_for_all": ({"diagnosis": SAME_FOR_ALL}, ["diagnosis-check"], "This is no case of words"),
}
