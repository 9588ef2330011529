"""Answers to the parts of what attention explains, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
ALLOWED    {function: [names of behaviours that are right here]}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import itertools
import math
from pathlib import Path
from statistics import fmean, median

import torch
from torch.nn import functional as F

from attentively.analysis import explanations
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
erased, exposed, occlusion = questions.erased, questions.exposed, questions.occlusion
predicted, smallest = questions.predicted, questions.smallest

# Part 1


def occlusion_in_one_batch(model, image, label, cell, fill):
    """All images at once; a square of ones says which pixels are hidden."""
    rows, columns = image.size(1) // cell, image.size(2) // cell
    squares = torch.eye(rows * columns).reshape(-1, 1, rows, columns)
    hidden = squares.repeat_interleave(cell, dim=2).repeat_interleave(cell, dim=3) > 0
    images = torch.where(hidden, fill, image)
    logits = model(torch.cat([image.unsqueeze(0), images])).double()
    probabilities = torch.exp(logits - logits.logsumexp(dim=1, keepdim=True))[:, label]
    return (probabilities[0] - probabilities[1:]).reshape(rows, columns)


def occlusion_as_lists(model, image, label, cell, fill):
    def probability(pixels):
        return F.softmax(model(pixels[None])[0], dim=0)[label].item()

    whole, found = probability(image), []
    for top in range(0, image.shape[1], cell):
        found.append([])
        for left in range(0, image.shape[2], cell):
            hidden = image.detach().clone()
            hidden[0, top : top + cell, left : left + cell] = fill
            found[-1].append(whole - probability(hidden))
    return found


def occlusion_as_an_array(*asked):
    return occlusion(*asked).detach().numpy()


def occlusion_of_the_package(model, image, label, cell, fill):
    def score(pixels):
        return model(pixels.reshape(-1, *image.shape)).softmax(dim=-1)[:, label]

    return explanations.occlusion(score, image.flatten(), fill).reshape(image.shape[1:])


# Part 2


def total_variation_of_gains(p, q):
    """What some classes gain is what others lose."""
    return torch.relu(p.double() - q.double()).sum(-1)


def total_variation_by_loops(p, q):
    return [
        sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
        for one, other in zip(p.tolist(), q.tolist(), strict=True)
    ]


def shuffled_by_loops(weights, mask, order):
    rows = []
    for given, real in zip(weights.tolist(), mask.tolist(), strict=True):
        dealt = iter([given[place] for place in order.tolist() if real[place]])
        rows.append([next(dealt) if there else 0.0 for there in real])
    return rows


def shuffled_by_sorting(weights, mask, order):
    """Two stable sorts put the words, and then the dealt ones, before the padding."""
    words = (~mask).long().argsort(dim=1, stable=True)
    moved = order.expand_as(mask)
    dealt = (~mask.gather(1, moved)).long().argsort(dim=1, stable=True)
    source = moved.gather(1, dealt)
    return torch.zeros_like(weights).scatter(1, words, weights.gather(1, source)) * mask


def permutation_test_by_texts(values, weights, mask, classify, orders):
    found = []
    for text in range(len(values)):
        one = slice(text, text + 1)

        def answer(dealt, vectors=values[text]):
            return F.softmax(classify((dealt @ vectors).reshape(1, -1)), dim=1)

        before = answer(weights[text])
        distances = []
        for order in orders:
            dealt = torch.tensor(shuffled_by_loops(weights[one], mask[one], order))
            distances.append((before - answer(dealt[0])).abs().sum().item() / 2)
        found.append(median(distances))
    return found


# Part 3


def flips_of_what_remains(model, render, options, scenes):
    """The options are lists, and what the scene has is taken out of a copy."""
    shares = {}
    for factor in options:
        flipped = []
        for scene in scenes:
            others = options[factor].copy()
            others.remove(scene[factor])
            own = predicted(model, render, scene)
            flipped += [
                predicted(model, render, {**scene, factor: value}) != own for value in others
            ]
        shares[factor] = fmean(flipped)
    return shares


def flips_in_batches(model, render, options, scenes):
    before = model(torch.stack([render(scene) for scene in scenes])).argmax(dim=1)
    shares = {}
    for factor in options:
        pairs = [
            (place, scene | {factor: value})
            for place, scene in enumerate(scenes)
            for value in options[factor]
            if scene[factor] != value
        ]
        after = model(torch.stack([render(copy) for _, copy in pairs])).argmax(dim=1)
        own = before[torch.tensor([place for place, _ in pairs])]
        shares[factor] = (after != own).double().mean()
    return shares


def flips_against_most(model, render, options, scenes):
    """Compare every copy with the prediction for most scenes."""
    said = [predicted(model, render, scene) for scene in scenes]
    most = max(set(said), key=said.count)
    shares = {}
    for factor in options:
        copies = [c for scene in scenes for c in questions.changed(scene, [factor], options)]
        shares[factor] = fmean(predicted(model, render, copy) != most for copy in copies)
    return shares


def flips_by_majority(model, render, options, scenes):
    """Predict a class only if its probability is more than one half."""

    def certain(images):
        return F.threshold(model(images).softmax(dim=-1), 0.5, 0.0)

    return questions.flips(certain, render, options, scenes)


def flips_by_values(model, render, options, scenes):
    """Keep the images by the values of a scene, whatever their factors."""
    images = {}

    def kept(scene):
        return images.setdefault(frozenset(scene.values()), render(scene))

    return questions.flips(model, kept, options, scenes)


def smallest_of_all_scenes(model, render, options, scene):
    """Predict for every scene, and see in what those with another prediction differ."""
    own, found = predicted(model, render, scene), set()
    for values in itertools.product(*options.values()):
        other = dict(zip(options, values, strict=True))
        if predicted(model, render, other) != own:
            found.add(frozenset(f for f in options if other[f] != scene[f]))
    fewest = min(map(len, found), default=0)
    return {each for each in found if len(each) == fewest}


def smallest_as_tuples(*asked):
    return tuple(tuple(each) for each in smallest(*asked))


def names_alone(*asked):
    return [name for each in smallest(*asked) for name in each]


def sets_in_every_order(*asked):
    return [order for each in smallest(*asked) for order in itertools.permutations(sorted(each))]


# Part 4


def jensen_shannon_by_entropies(p, q):
    middle = (p + q) / 2
    return (torch.xlogy(p, p) + torch.xlogy(q, q) - 2 * torch.xlogy(middle, middle)).sum() / 2


def jensen_shannon_by_loops(p, q):
    def divergence(one, middle):
        return sum(a * math.log(a / b) for a, b in zip(one, middle, strict=True) if a > 0)

    p, q = p.tolist(), q.tolist()
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (divergence(p, middle) + divergence(q, middle)) / 2


def other_weights_by_equations(weights, scores):
    """Each pair of words solves two equations: the sum and the logit."""
    wanted = torch.stack([torch.ones(()), weights @ scores]).double()
    found = []
    for pair in itertools.combinations(range(len(scores)), 2):
        two = list(pair)
        equations = torch.stack([torch.ones(2), scores[two]]).double()
        if scores[two[0]] == scores[two[1]]:
            continue
        solved = torch.linalg.solve(equations, wanted)
        if (solved >= -1e-9).all():
            found.append(torch.zeros(len(scores)).double())
            found[-1][two] = solved
    return max(found, key=lambda each: jensen_shannon_by_loops(weights, each)).tolist()


def nearly_the_farthest(weights, scores):
    """Rounding, or a search that ends close to the farthest weights, is no mistake."""
    return 0.9999 * questions.other_weights(weights, scores) + 0.0001 * weights


def exchanged(weights, scores):
    found = questions.other_weights(weights, scores)
    two = found.nonzero().flatten()
    found[two] = found[two].flip(0)
    return found


def not_normalised(weights, scores):
    """The first word alone is given the weight that reaches the logit."""
    share = (weights @ scores / scores[0]).clamp(min=0)
    return F.one_hot(torch.tensor(0), len(scores)) * share


def by_division(weights, scores):
    """Without a test for equal scores, Python's numbers cannot be divided."""
    s, logit = scores.tolist(), float(weights @ scores)
    found = []
    for a, b in itertools.combinations(range(len(s)), 2):
        share = (logit - s[a]) / (s[b] - s[a])
        if 0 <= share <= 1:
            found.append(torch.zeros(len(s)))
            found[-1][b], found[-1][a] = share, 1 - share
    return max(found, key=lambda each: questions.jensen_shannon(weights, each))


# Part 5


def erased_by_keeping(model, words, k):
    """Sets of words that stay are sets of words that go."""
    probability, weights = model(words)
    sign = 1 if probability >= 0.5 else -1
    gone = torch.tensor(weights).topk(k).indices.tolist()
    stay = [word for place, word in enumerate(words) if place not in gone]
    every = [list(rest) for rest in itertools.combinations(words, len(words) - k)]
    falls = [sign * (probability - model(rest)[0]) for rest in [stay, *every]]
    return torch.tensor(falls[0]), fmean(falls[1:])


def erased_as_a_tensor(*asked):
    return torch.tensor(erased(*asked))


def erased_with_changed_models(model, words, k):
    model.values = {}
    return 0.0, 0.0


def exposed_by_means(models, texts, k):
    means = {}
    for name in models:
        drops = torch.tensor([erased(models[name], words, k) for words in texts])
        means[name] = drops.double().mean(dim=0)
    return {name for name, (shown, chance) in means.items() if not shown > chance}


def exposed_with_changed_models(models, texts, k):
    for each in models.values():
        each.values = {}
    return list(models)


RIGHT = {
    "occlusion": [occlusion_in_one_batch, occlusion_as_lists, occlusion_as_an_array],
    "total_variation": [total_variation_of_gains, total_variation_by_loops],
    "shuffled": [shuffled_by_loops, shuffled_by_sorting],
    "permutation_test": [permutation_test_by_texts],
    "flips": [flips_of_what_remains, flips_in_batches],
    "smallest": [smallest_of_all_scenes, smallest_as_tuples],
    "jensen_shannon": [jensen_shannon_by_entropies, jensen_shannon_by_loops],
    "other_weights": [other_weights_by_equations, nearly_the_farthest],
    "erased": [erased_by_keeping, erased_as_a_tensor],
    "exposed": [exposed_by_means, lambda *asked: tuple(exposed(*asked))],
}
ALLOWED = {
    name: ["a list", "float64"]
    for name in ("occlusion", "total_variation", "shuffled", "permutation_test", "other_weights")
}

LOWER = "scores[low] < scores[high]"
FARTHEST = "return max(vertices, key=lambda vertex: jensen_shannon(weights, vertex))"
DIVERGENCES = "first, second = kullback_leibler(p, mean), kullback_leibler(q, mean)"

WRONG = {
    "occlusion": {
        "The shape of the map is (4, 4), expected (2, 2)": (
            "return found -> return found.repeat_interleave(cell, 0).repeat_interleave(cell, 1)"
        ),
        "not accepted. Your code uses": occlusion_of_the_package,
    },
    "total_variation": {
        "not accepted. Your code uses": explanations.total_variation,
        "The values of the total variation": "differences.sum(dim=-1) / 2 -> differences[:, -1]",
    },
    "shuffled": {
        "not accepted. Your code uses": (
            lambda weights, mask, order: explanations.permuted_weights(weights, mask)
        )
    },
    "permutation_test": {
        "use .values": "distances.median(dim=0).values -> distances.median(dim=0)",
        "The values of the medians are not": (
            "median(dim=0).values -> sort(dim=0).values[max(0, len(orders) // 2 - 1)]"
        ),
    },
    "flips": {
        "This is not the expected value of flips": [
            flips_against_most,
            flips_by_majority,
            flips_by_values,
        ],
        "Expected flips as a dict, got a list": "return shares -> return list(shares.values())",
    },
    "smallest": {
        "Expected a list of sets of factors": [
            names_alone,
            lambda *asked: [[each] for each in smallest(*asked)],
        ],
        "The list contains a set twice": sets_in_every_order,
    },
    "jensen_shannon": {
        "The result is NaN": [
            f"{DIVERGENCES} -> first, second = ({sum_of}.sum().item() for w in (p, q))"
            for sum_of in ("(w * (w / mean).log())", "torch.xlogy(w, w / mean)")
        ],
        "not accepted. Your code uses": explanations.jensen_shannon,
    },
    "other_weights": {
        "They belong to one pair of words": [
            f"{FARTHEST} -> return vertices[0]",
            "max(vertices -> min(vertices",
            f"{LOWER} -> {LOWER} and weights[low] * weights[high] > 0",
            f"{LOWER} -> {LOWER} and high == scores.argmax()",
        ],
        "Your code raises ValueError": [
            "<= logit <= scores[high] -> < logit <= scores[high]",
            "<= logit <= scores[high] -> <= logit < scores[high]",
        ],
        "The weights sum to 0, but": (
            "max(vertices, key=lambda vertex: -> "
            "max([0 * weights, *vertices], key=lambda vertex: vertex.sum() *"
        ),
        "One word has exactly this score": (
            "max(vertices -> max([each for each in vertices if each.max() < 1]"
        ),
        "They are a mixture of several pairs": (
            f"{FARTHEST} -> return torch.stack(vertices).mean(dim=0)"
        ),
        "The weights of the two words may be exchanged": exchanged,
        "A single word rarely has exactly this score": (
            lambda weights, scores: torch.eye(len(weights))[weights.argmin()]
        ),
        "These are the given weights in another order": lambda weights, scores: weights.roll(1),
        "These are the given weights. Return": lambda weights, scores: weights.clone(),
        "A weight is negative": "scores[low] <= logit <= scores[high] and -> ",
        "The weights sum to 0.5, but they must sum to 1": not_normalised,
        "two different answers": lambda weights, scores: torch.rand(len(weights)).softmax(dim=0),
        "Your code raises ZeroDivisionError": by_division,
    },
    "erased": {
        "This is not the expected value of erased": erased_with_changed_models,
        "Expected erased as a list, got a float": "return [first, second] -> return first",
    },
    "exposed": {
        "This is not the expected value of exposed": [
            exposed_with_changed_models,
            lambda models, texts, k: [],
            *[
                f"if first <= second: -> if first <= {level}:"
                for level in (
                    "second + 0.05",
                    "fmean(erased(m, words, k)[0] for m in models.values() for words in texts)",
                    "fmean(erased([*models.values()][0], words, k)[1] for words in texts)",
                )
            ],
            "for words in texts] -> for words in texts if model(words)[0] >= 0.5]",
        ],
        "Return a list of names": (
            lambda models, texts, k: [models[name] for name in exposed(models, texts, k)]
        ),
    },
}

CHANCE = """def erased(model, words, k):
    return [model(words)[0], 0.0]


def exposed(models, texts, k):
    return []
"""

HANDED_IN = {
    "no_chance_level": ({"forger": CHANCE}, ["forger-check"], "not the expected value of erased"),
}
