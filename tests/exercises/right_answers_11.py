"""Right answers to 11_what_attention_explains, each written differently."""

import itertools
import math
from statistics import fmean, median

import torch
from torch.nn import functional as F

# Part 1


def occlusion(model, image, label, cell, fill):
    _, height, width = image.shape
    with torch.no_grad():
        before = model(image.unsqueeze(0)).softmax(dim=-1)[0, label]
        found = torch.zeros(height // cell, width // cell)
        for row in range(height // cell):
            for column in range(width // cell):
                hidden = image.clone()
                top, left = row * cell, column * cell
                hidden[:, top : top + cell, left : left + cell] = fill
                after = model(hidden.unsqueeze(0)).softmax(dim=-1)[0, label]
                found[row, column] = before - after
    return found


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
    return occlusion(*asked).numpy()


OCCLUSIONS = [occlusion, occlusion_in_one_batch, occlusion_as_lists, occlusion_as_an_array]

# Part 2


def total_variation(p, q):
    return (p - q).abs().sum(dim=-1) / 2


def total_variation_of_gains(p, q):
    """What some classes gain is what others lose."""
    return torch.relu(p.double() - q.double()).sum(-1)


def total_variation_by_loops(p, q):
    return [
        sum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2
        for one, other in zip(p.tolist(), q.tolist(), strict=True)
    ]


def shuffled(weights, mask, order):
    new = torch.zeros_like(weights)
    for text in range(len(weights)):
        real = mask[text]
        new[text, real] = weights[text, order[real[order]]]
    return new


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


def permutation_test(values, weights, mask, classify, orders):
    def answer(dealt):
        context = torch.einsum("bs,bsd->bd", dealt, values)
        return classify(context).softmax(dim=-1)

    before = answer(weights)
    distances = [
        total_variation(before, answer(shuffled(weights, mask, order))) for order in orders
    ]
    return torch.stack(distances).median(dim=0).values


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


PERMUTATIONS = [
    (total_variation, shuffled, permutation_test),
    (total_variation_by_loops, shuffled_by_loops, permutation_test_by_texts),
    (total_variation_of_gains, shuffled_by_sorting, permutation_test),
]

# Part 3


def answer_to(model, render, scene):
    return model(render(scene).unsqueeze(0)).argmax().item()


def flips(model, render, options, scenes):
    shares = {}
    for factor, values in options.items():
        flipped = []
        for scene in scenes:
            own = answer_to(model, render, scene)
            for value in values:
                if value != scene[factor]:
                    flipped.append(answer_to(model, render, {**scene, factor: value}) != own)
        shares[factor] = sum(flipped) / len(flipped)
    return shares


def flips_of_what_remains(model, render, options, scenes):
    """The options are lists, and what the scene has is taken out of a copy."""
    shares = {}
    for factor in options:
        flipped = []
        for scene in scenes:
            others = options[factor].copy()
            others.remove(scene[factor])
            own = answer_to(model, render, scene)
            flipped += [answer_to(model, render, {**scene, factor: v}) != own for v in others]
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


def smallest(model, render, options, scene):
    own = answer_to(model, render, scene)
    for size in range(1, len(options) + 1):
        found = []
        for factors in itertools.combinations(options, size):
            others = [[v for v in options[f] if v != scene[f]] for f in factors]
            for values in itertools.product(*others):
                changed = {**scene, **dict(zip(factors, values, strict=True))}
                if answer_to(model, render, changed) != own:
                    found.append(set(factors))
                    break
        if found:
            return found
    return []


def smallest_of_all_scenes(model, render, options, scene):
    """Ask about every scene there is, and see in what those with another answer differ."""
    own, found = answer_to(model, render, scene), set()
    for values in itertools.product(*options.values()):
        other = dict(zip(options, values, strict=True))
        if answer_to(model, render, other) != own:
            found.add(frozenset(f for f in options if other[f] != scene[f]))
    fewest = min(map(len, found), default=0)
    return {each for each in found if len(each) == fewest}


AUDITS = [
    (flips, smallest),
    (flips_in_batches, smallest_of_all_scenes),
    (flips_of_what_remains, smallest),
]

# Part 4


def jensen_shannon(p, q):
    middle = (p + q) / 2
    return (torch.xlogy(p, p) + torch.xlogy(q, q) - 2 * torch.xlogy(middle, middle)).sum() / 2


def jensen_shannon_by_loops(p, q):
    def divergence(one, middle):
        return sum(a * math.log(a / b) for a, b in zip(one, middle, strict=True) if a > 0)

    p, q = p.tolist(), q.tolist()
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (divergence(p, middle) + divergence(q, middle)) / 2


def other_weights(weights, scores):
    logit = weights @ scores
    best, farthest = None, -1.0
    for low in range(len(scores)):
        for high in range(len(scores)):
            if scores[low] <= logit <= scores[high] and scores[low] < scores[high]:
                found = torch.zeros_like(weights)
                found[high] = (logit - scores[low]) / (scores[high] - scores[low])
                found[low] = 1 - found[high]
                distance = float(jensen_shannon(weights, found))
                if distance > farthest:
                    best, farthest = found, distance
    return best


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


WEIGHTS = [(jensen_shannon, other_weights), (jensen_shannon_by_loops, other_weights_by_equations)]

# Part 5


def erased(model, words, k):
    praise, weights = model(words)

    def drop(places):
        rest = [word for place, word in enumerate(words) if place not in places]
        fall = praise - model(rest)[0]
        return fall if praise >= 0.5 else -fall

    top = sorted(range(len(words)), key=lambda place: weights[place], reverse=True)[:k]
    chances = [drop(places) for places in itertools.combinations(range(len(words)), k)]
    return drop(top), sum(chances) / len(chances)


def erased_by_keeping(model, words, k):
    """Sets of words that stay are sets of words that go."""
    probability, weights = model(words)
    sign = 1 if probability >= 0.5 else -1
    gone = torch.tensor(weights).topk(k).indices.tolist()
    stay = [word for place, word in enumerate(words) if place not in gone]
    every = [list(rest) for rest in itertools.combinations(words, len(words) - k)]
    falls = [sign * (probability - model(rest)[0]) for rest in [stay, *every]]
    return [torch.tensor(falls[0]), fmean(falls[1:])]


def erased_as_a_tensor(*asked):
    return torch.tensor(erased(*asked))


def exposed(models, texts, k):
    found = []
    for name, model in models.items():
        both = [erased(model, words, k) for words in texts]
        if sum(shown for shown, _ in both) <= sum(chance for _, chance in both):
            found.append(name)
    return found


def exposed_by_means(models, texts, k):
    means = {}
    for name in models:
        drops = torch.tensor([erased(models[name], words, k) for words in texts])
        means[name] = drops.double().mean(dim=0)
    return {name for name, (shown, chance) in means.items() if not shown > chance}


FORGERS = [
    (erased, exposed),
    (erased_by_keeping, exposed_by_means),
    (erased_as_a_tensor, exposed),
]

RIGHT = {
    "occlusion": OCCLUSIONS,
    "permutations": PERMUTATIONS,
    "audit": AUDITS,
    "other_weights": WEIGHTS,
    "forger": FORGERS,
}
