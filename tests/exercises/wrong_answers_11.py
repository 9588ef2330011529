"""Plausible wrong answers to 11_what_attention_explains, with words of the message of each."""

import itertools
import math

import torch
from right_answers_11 import (
    answer_to,
    erased,
    exposed,
    flips,
    jensen_shannon,
    occlusion,
    other_weights,
    permutation_test,
    shuffled,
    smallest,
    total_variation,
)

# Part 1


def occlusion_with(
    score=lambda logits, label: logits.softmax(dim=-1)[label],
    hide=None,
    combine=lambda before, after: before - after,
):
    """The plain way with another score, another way to hide, or to combine."""

    def occlude(model, image, label, cell, fill):
        found = []
        for top in range(0, image.size(1), cell):
            for left in range(0, image.size(2), cell):
                square = (slice(None), slice(top, top + cell), slice(left, left + cell))
                hidden = image.clone()
                if hide is None:
                    hidden[square] = fill
                else:
                    hidden = hide(hidden, square, fill)
                before, after = (model(each[None])[0] for each in (image, hidden))
                found.append(combine(score(before, label), score(after, label)))
        return torch.stack(found).reshape(image.size(1) // cell, -1).detach()

    return occlude


def all_but(image, square, fill):
    kept = torch.full_like(image, fill)
    kept[square] = image[square]
    return kept


def with_zeros(image, square, fill):
    image[square] = 0
    return image


occlusion_of_logits = occlusion_with(score=lambda logits, label: logits[label])
occlusion_turned = occlusion_with(combine=lambda before, after: after - before)
occlusion_without_sign = occlusion_with(combine=lambda before, after: (before - after).abs())
occlusion_cut_off = occlusion_with(combine=lambda before, after: (before - after).clamp(min=0))
occlusion_as_a_share = occlusion_with(combine=lambda before, after: 1 - after / before)
occlusion_of_logarithms = occlusion_with(combine=lambda before, after: before.log() - after.log())
occlusion_after = occlusion_with(combine=lambda before, after: after)
occlusion_of_the_rest = occlusion_with(hide=all_but)
occlusion_with_zeros = occlusion_with(hide=with_zeros)
occlusion_of_the_largest = occlusion_with(score=lambda logits, label: logits.softmax(-1).max())


def occlusion_of_the_answer(model, image, label, cell, fill):
    return occlusion(model, image, model(image[None])[0].argmax(), cell, fill)


def occlusion_piling_up(model, image, label, cell, fill):
    hidden = image.clone()
    found = torch.zeros(image.size(1) // cell, image.size(2) // cell)
    with torch.no_grad():
        before = model(image[None])[0].softmax(dim=-1)[label]
        for row in range(len(found)):
            for column in range(found.size(1)):
                top, left = row * cell, column * cell
                hidden[:, top : top + cell, left : left + cell] = fill
                found[row, column] = before - model(hidden[None])[0].softmax(dim=-1)[label]
    return found


def occlusion_by_columns(model, image, label, cell, fill):
    found = occlusion(model, image, label, cell, fill)
    return found.T.reshape(found.shape)


def occlusion_transposed(*asked):
    return occlusion(*asked).T


def occlusion_of_pixels(model, image, label, cell, fill):
    found = occlusion(model, image, label, cell, fill)
    return found.repeat_interleave(cell, dim=0).repeat_interleave(cell, dim=1)


def occlusion_in_place(model, image, label, cell, fill):
    image[:, :cell, :cell] = fill
    return occlusion(model, image, label, cell, fill)


def occlusion_without_return(model, image, label, cell, fill):
    occlusion(model, image, label, cell, fill)


OCCLUSIONS = [
    (occlusion_of_logits, "The values are differences of logits"),
    (occlusion_turned, "The sign is reversed"),
    (occlusion_without_sign, "absolute values were taken"),
    (occlusion_cut_off, "or the values were clamped at 0"),
    (occlusion_as_a_share, "This is a relative decrease"),
    (occlusion_of_logarithms, "or a decrease of the logarithm"),
    (occlusion_after, "These are the probabilities with a square occluded"),
    (occlusion_of_the_rest, "Everything except the square is occluded"),
    (occlusion_piling_up, "Squares occluded earlier are still occluded"),
    (occlusion_with_zeros, "The squares are filled with 0 instead of the value of fill"),
    (occlusion_of_the_largest, "the probability of the most probable class"),
    (occlusion_of_the_answer, "This explains the predicted class"),
    (occlusion_by_columns, "The values are in column order"),
    (occlusion_transposed, "rows and columns are exchanged"),
    (occlusion_of_pixels, "The shape of the map is (4, 4), expected (2, 2)"),
    (occlusion_in_place, "Your code changes its input image"),
    (occlusion_without_return, "is there a `return`?"),
]

# Part 2


def variation_not_halved(p, q):
    return (p - q).abs().sum(dim=-1)


def variation_averaged(p, q):
    return (p - q).abs().mean(dim=-1)


def variation_signed(p, q):
    return (p - q).sum(dim=-1) / 2


def variation_squared(p, q):
    return (p - q).norm(dim=-1)


def variation_of_one_class(p, q):
    return (p - q).abs().max(dim=-1).values


def variation_of_the_batch(p, q):
    return (p - q).abs().sum() / 2


def kullback_leibler(p, q):
    return (p * (p / q).log()).sum(dim=-1)


def shuffled_with_padding(weights, mask, order):
    return weights[:, order]


def shuffled_and_masked(weights, mask, order):
    return weights[:, order] * mask


def shuffled_back(weights, mask, order):
    new = torch.zeros_like(weights)
    for text, real in enumerate(mask):
        new[text, order[real[order]]] = weights[text, real]
    return new


def shuffled_across_texts(weights, mask, order):
    return shuffled(weights.flip(0), mask, order)


def shuffled_not(weights, mask, order):
    return weights.clone()


def shuffled_again_normalised(weights, mask, order):
    dealt = shuffled(weights, mask, order)
    return dealt.masked_fill(~mask, -math.inf).softmax(dim=-1)


def shuffled_in_front(weights, mask, order):
    """It takes the first places for the words."""
    new = torch.zeros_like(weights)
    for text, number in enumerate(mask.sum(dim=1).tolist()):
        new[text, :number] = weights[text, [place for place in order.tolist() if place < number]]
    return new


def shuffled_where_weights_are(weights, mask, order):
    return shuffled(weights, weights > 0, order)


def permuting_with(
    summary=lambda distances: distances.median(dim=0).values,
    distance=total_variation,
    deal=shuffled,
    by=lambda logits: logits.softmax(dim=-1),
):
    """The plain way with another summary, distance or way to deal."""

    def test(values, weights, mask, classify, orders):
        def answer(dealt):
            return by(classify((dealt.unsqueeze(-1) * values).sum(dim=1)))

        own = answer(weights)
        found = [distance(own, answer(deal(weights, mask, order))) for order in orders]
        return summary(torch.stack(found))

    return test


mean_tested = permuting_with(lambda distances: distances.mean(dim=0))
largest_tested = permuting_with(lambda distances: distances.max(dim=0).values)
smallest_tested = permuting_with(lambda distances: distances.min(dim=0).values)
median_and_places_tested = permuting_with(lambda distances: distances.median(dim=0))
texts_tested = permuting_with(by=lambda logits: logits.softmax(dim=0))
one_median_tested = permuting_with(lambda distances: distances.median())
orders_tested = permuting_with(lambda distances: distances.median(dim=1).values)
logits_tested = permuting_with(by=lambda logits: logits)
flips_tested = permuting_with(
    lambda flipped: flipped.mean(dim=0),
    lambda own, other: (own.argmax(dim=-1) != other.argmax(dim=-1)).float(),
)
padding_tested = permuting_with(deal=shuffled_with_padding)


def permuting_in_piles(values, weights, mask, classify, orders):
    def answer(dealt):
        return classify(torch.einsum("bp,bpd->bd", dealt, values)).softmax(dim=-1)

    found, dealt = [], weights
    for order in orders:
        dealt = shuffled(dealt, mask, order)
        found.append(total_variation(answer(weights), answer(dealt)))
    return torch.stack(found).median(dim=0).values


def permuting_values_too(values, weights, mask, classify, orders):
    def answer(vectors, dealt):
        return classify(torch.einsum("bp,bpd->bd", dealt, vectors)).softmax(dim=-1)

    own = answer(values, weights)
    moved = [total_variation(own, answer(values[:, o], weights[:, o])) for o in orders]
    return torch.stack(moved).median(dim=0).values


def permuting_logits(values, weights, mask, classify, orders):
    logits = classify(values)

    def answer(dealt):
        return torch.einsum("bp,bpc->bc", dealt, logits).softmax(dim=-1)

    own = answer(weights)
    moved = [total_variation(own, answer(shuffled(weights, mask, order))) for order in orders]
    return torch.stack(moved).median(dim=0).values


PERMUTATIONS = [
    ((variation_not_halved, shuffled, permutation_test), "The sum is not halved"),
    (
        (variation_averaged, shuffled, permutation_test),
        "the mean over the classes. Return half the sum",
    ),
    ((variation_signed, shuffled, permutation_test), "Differences with opposite signs cancel"),
    ((variation_squared, shuffled, permutation_test), "The differences are squared"),
    ((variation_of_one_class, shuffled, permutation_test), "largest difference of a single class"),
    ((variation_of_the_batch, shuffled, permutation_test), "Return one distance for each text"),
    ((kullback_leibler, shuffled, permutation_test), "This is a Kullback–Leibler divergence"),
    (
        (total_variation, shuffled_with_padding, permutation_test),
        "Padding takes part in the permutation, so",
    ),
    (
        (total_variation, shuffled_and_masked, permutation_test),
        "Padding takes part in the permutation, so",
    ),
    ((total_variation, shuffled_back, permutation_test), "The permutation is inverted"),
    ((total_variation, shuffled_across_texts, permutation_test), "of another text of the batch"),
    ((total_variation, shuffled_in_front, permutation_test), "Padding may precede them"),
    (
        (total_variation, shuffled_where_weights_are, permutation_test),
        "A word may have the weight 0",
    ),
    ((total_variation, shuffled_not, permutation_test), "The weights are unchanged"),
    (
        (total_variation, shuffled_again_normalised, permutation_test),
        "A second softmax changes the values",
    ),
    ((total_variation, shuffled, mean_tested), "the mean over the orders. Return the median"),
    ((total_variation, shuffled, largest_tested), "the maximum or the minimum over the orders"),
    ((total_variation, shuffled, smallest_tested), "the maximum or the minimum over the orders"),
    ((total_variation, shuffled, median_and_places_tested), "use .values"),
    ((total_variation, shuffled, texts_tested), "The softmax normalises over the texts"),
    ((total_variation, shuffled, one_median_tested), "Return one median for each text"),
    ((total_variation, shuffled, orders_tested), "over the texts, for each order"),
    (
        (total_variation, shuffled, logits_tested),
        "distances between logits. Apply the softmax first",
    ),
    ((total_variation, shuffled, flips_tested), "share of orders that change the predicted class"),
    ((total_variation, shuffled, padding_tested), "Use shuffled with the mask"),
    ((total_variation, shuffled, permuting_in_piles), "applied to the result of the previous one"),
    ((total_variation, shuffled, permuting_values_too), "The values are permuted together"),
    ((total_variation, shuffled, permuting_logits), "classify is applied to each value"),
]

# Part 3


def flips_with(copies, share=lambda found: sum(map(sum, found)) / sum(map(len, found))):
    """The plain way with other copies, or another share of what they flip."""

    def counted(model, render, options, scenes):
        shares = {}
        for factor in options:
            found = []
            for scene in scenes:
                own = answer_to(model, render, scene)
                made = copies(scene, factor, options)
                found.append([answer_to(model, render, copy) != own for copy in made])
            shares[factor] = share(found)
        return shares

    return counted


def other_values(scene, factor, options):
    return [{**scene, factor: value} for value in options[factor] if value != scene[factor]]


def all_values(scene, factor, options):
    return [{**scene, factor: value} for value in options[factor]]


def one_value(scene, factor, options):
    return other_values(scene, factor, options)[:1]


def all_the_rest(scene, factor, options):
    rest = [each for each in options if each != factor]
    others = [[value for value in options[each] if value != scene[each]] for each in rest]
    chosen = itertools.product(*others)
    return [{**scene, **dict(zip(rest, values, strict=True))} for values in chosen]


flips_of_scenes = flips_with(other_values, lambda found: sum(map(any, found)) / len(found))
flips_of_steady_scenes = flips_with(other_values, lambda found: sum(map(all, found)) / len(found))
flips_missing = flips_with(
    other_values, lambda found: 1 - sum(map(sum, found)) / sum(map(len, found))
)
flips_counted = flips_with(other_values, lambda found: sum(map(sum, found)))
flips_by_scenes = flips_with(other_values, lambda found: sum(map(sum, found)) / len(found))
flips_of_all_values = flips_with(all_values)
flips_of_one_value = flips_with(one_value)
flips_of_the_rest = flips_with(all_the_rest)


def flips_in_percent(*asked):
    return {factor: 100 * share for factor, share in flips(*asked).items()}


def flips_left_changed(model, render, options, scenes):
    found = {factor: [] for factor in options}
    for scene in scenes:
        own, copy = answer_to(model, render, scene), dict(scene)
        for factor, values in options.items():
            for value in values:
                if value != scene[factor]:
                    copy[factor] = value
                    found[factor].append(answer_to(model, render, copy) != own)
    return {factor: sum(each) / len(each) for factor, each in found.items()}


def flips_as_they_come(model, render, options, scenes):
    said = [answer_to(model, render, scene) for scene in scenes]
    shares = {}
    for factor in options:
        pairs = [
            said[one] != said[other]
            for one, other in itertools.combinations(range(len(scenes)), 2)
            if scenes[one][factor] != scenes[other][factor]
        ]
        shares[factor] = sum(pairs) / len(pairs) if pairs else 0.0
    return shares


def flips_against_the_first(model, render, options, scenes):
    own = answer_to(model, render, scenes[0])
    shares = {}
    for factor in options:
        copies = [copy for scene in scenes for copy in other_values(scene, factor, options)]
        flipped = [answer_to(model, render, copy) != own for copy in copies]
        shares[factor] = sum(flipped) / len(flipped)
    return shares


def flips_against_most(model, render, options, scenes):
    """It compares every copy with what the model says of most scenes."""
    said = [answer_to(model, render, scene) for scene in scenes]
    most = max(set(said), key=said.count)
    shares = {}
    for factor in options:
        copies = [copy for scene in scenes for copy in other_values(scene, factor, options)]
        flipped = [answer_to(model, render, copy) != most for copy in copies]
        shares[factor] = sum(flipped) / len(flipped)
    return shares


def flips_in_any_way(model, render, options, scenes):
    def moved(scene, copy):
        before, after = (model(render(each)[None]) for each in (scene, copy))
        return not torch.equal(before, after)

    shares = {}
    for factor in options:
        found = [moved(s, copy) for s in scenes for copy in other_values(s, factor, options)]
        shares[factor] = sum(found) / len(found)
    return shares


def flips_as_a_list(*asked):
    return list(flips(*asked).values())


def sets_that_flip(model, render, options, scene, tries=None, enough=any):
    own = answer_to(model, render, scene)
    found = []
    for size in range(1, len(options) + 1):
        for factors in itertools.combinations(options, size):
            others = [[v for v in options[f] if v != scene[f]] for f in factors]
            choices = list(itertools.product(*others))[:tries]
            copies = [{**scene, **dict(zip(factors, c, strict=True))} for c in choices]
            if enough(answer_to(model, render, copy) != own for copy in copies):
                found.append(set(factors))
    return found


def sets_of_steady_flips(*asked):
    found = sets_that_flip(*asked, enough=all)
    return [each for each in found if len(each) == len(found[0])]


def pairs_at_most(*asked):
    return [each for each in smallest(*asked) if len(each) < 3]


def singles_alone(*asked):
    return [each for each in sets_that_flip(*asked) if len(each) == 1]


def all_sets(*asked):
    return sets_that_flip(*asked)


def sets_without_parts(*asked):
    found = sets_that_flip(*asked)
    return [each for each in found if not any(other < each for other in found)]


def one_set(*asked):
    return smallest(*asked)[:1]


def sets_of_one_try(*asked):
    found = sets_that_flip(*asked, tries=1)
    return [each for each in found if len(each) == len(found[0])]


def what_flips_nothing(model, render, options, scene):
    alone = singles_alone(model, render, options, scene)
    return [{factor} for factor in options if {factor} not in alone]


def names_alone(*asked):
    return [name for each in smallest(*asked) for name in each]


def sets_in_every_order(*asked):
    return [order for each in smallest(*asked) for order in itertools.permutations(sorted(each))]


AUDITS = [
    ((flips_of_scenes, smallest), "the share of scenes with at least one copy that flips"),
    ((flips_of_steady_scenes, smallest), "scenes in which every copy flips the prediction"),
    ((flips_missing, smallest), "copies that leave the prediction unchanged"),
    ((flips_counted, smallest), "Divide by the number of all copies"),
    ((flips_by_scenes, smallest), "Divide by the number of all copies"),
    ((flips_of_all_values, smallest), "The scene itself is counted among its copies"),
    ((flips_in_percent, smallest), "These are percentages"),
    ((flips_of_one_value, smallest), "flips: Only one other value is tested"),
    ((flips_of_the_rest, smallest), "All factors except this one are changed"),
    ((flips_left_changed, smallest), "Earlier changes are still present"),
    ((flips_as_they_come, smallest), "not what the model uses. Change the factor yourself"),
    ((flips_against_the_first, smallest), "compared with the prediction for the first scene"),
    ((flips_against_most, smallest), "This is not the expected value of flips"),
    ((flips_in_any_way, smallest), "Any change of the logits is counted"),
    ((flips_as_a_list, smallest), "Expected flips as a dict, got a list"),
    ((flips, singles_alone), "Larger sets are not tested"),
    ((flips, pairs_at_most), "Larger sets are not tested"),
    ((flips, sets_of_steady_flips), "every combination of other values flips"),
    ((flips, all_sets), "The list also contains larger sets"),
    ((flips, sets_without_parts), "These are all sets of which no subset"),
    ((flips, one_set), "This is only one of the sets"),
    ((flips, sets_of_one_try), "smallest: Only one other value is tested"),
    ((flips, what_flips_nothing), "These are factors that do not flip the prediction"),
    ((flips, names_alone), "Expected a list of sets of factors"),
    ((flips, sets_in_every_order), "The list contains a set twice"),
]

# Part 4


def divergence(p, q):
    """Kullback–Leibler, where p may be 0."""
    return sum(a * math.log(a / b) for a, b in zip(p.tolist(), q.tolist(), strict=True) if a > 0)


def jensen_shannon_added(p, q):
    return divergence(p, (p + q) / 2) + divergence(q, (p + q) / 2)


def jensen_shannon_rooted(p, q):
    return jensen_shannon(p, q).sqrt()


def jensen_shannon_in_bits(p, q):
    return jensen_shannon(p, q) / math.log(2)


def kullback_leibler_of_both(p, q):
    return (p * (p / q).log()).nan_to_num().sum()


def jensen_shannon_of_one(p, q):
    return divergence(p, (p + q) / 2)


def jensen_shannon_as_variation(p, q):
    return (p - q).abs().sum() / 2


def jensen_shannon_with_logs_of_zero(p, q):
    middle = (p + q) / 2
    return ((p * (p / middle).log()).sum() + (q * (q / middle).log()).sum()) / 2


def jensen_shannon_of_nothing_over_nothing(p, q):
    """What both leave out is 0 log (0 / 0) here."""
    middle = (p + q) / 2
    return (torch.xlogy(p, p / middle) + torch.xlogy(q, q / middle)).sum() / 2


def pairs_of(weights, scores):
    logit = weights @ scores
    for low, high in itertools.permutations(range(len(scores)), 2):
        if scores[low] <= logit <= scores[high] and scores[low] < scores[high]:
            pair = torch.zeros_like(weights)
            pair[high] = (logit - scores[low]) / (scores[high] - scores[low])
            pair[low] = 1 - pair[high]
            yield pair


def the_first_pair(weights, scores):
    return next(pairs_of(weights, scores))


def the_nearest_pair(weights, scores):
    return min(pairs_of(weights, scores), key=lambda pair: jensen_shannon(weights, pair))


def the_widest_pair(weights, scores):
    return max(pairs_of(weights, scores), key=lambda pair: total_variation(weights, pair))


def the_best_real_pair(weights, scores):
    """It leaves out the word whose score is just the logit."""
    found = [pair for pair in pairs_of(weights, scores) if pair.max() < 1]
    return max(found, key=lambda pair: jensen_shannon(weights, pair))


def all_pairs_mixed(weights, scores):
    return torch.stack(list(pairs_of(weights, scores))).mean(dim=0)


def pairs_turned_round(weights, scores):
    found = other_weights(weights, scores)
    two = found.nonzero().flatten()
    found[two] = found[two].flip(0)
    return found


def the_least_word(weights, scores):
    return torch.eye(len(weights))[weights.argmin()]


def weights_dealt_anew(weights, scores):
    return weights.roll(1)


def the_same_weights(weights, scores):
    return weights.clone()


def pairs_outside(weights, scores):
    """Two words that are both above or both below the logit need a weight below 0."""
    logit = weights @ scores
    found = []
    for low, high in itertools.combinations(range(len(scores)), 2):
        pair = torch.zeros_like(weights)
        pair[high] = (logit - scores[low]) / (scores[high] - scores[low])
        pair[low] = 1 - pair[high]
        found.append(pair)
    return max(found, key=lambda pair: total_variation(weights, pair))


def weights_not_normalised(weights, scores):
    logit = weights @ scores
    found = torch.zeros_like(weights)
    found[0] = logit / scores[0] if logit / scores[0] > 0 else 2.0
    return found


def other_probabilities(weights, scores):
    return torch.rand(len(weights)).softmax(dim=0)


WEIGHTS = [
    ((jensen_shannon_added, other_weights), "added without the factor"),
    ((jensen_shannon_rooted, other_weights), "This is the square root of the divergence"),
    ((jensen_shannon_in_bits, other_weights), "The logarithm has base 2"),
    ((kullback_leibler_of_both, other_weights), "a Kullback–Leibler divergence between p and q"),
    ((jensen_shannon_of_one, other_weights), "Only one of the two distributions is compared"),
    ((jensen_shannon_as_variation, other_weights), "This is the total variation distance"),
    ((jensen_shannon_with_logs_of_zero, other_weights), "The result is NaN"),
    ((jensen_shannon_of_nothing_over_nothing, other_weights), "The result is NaN"),
    ((jensen_shannon, the_first_pair), "They belong to one pair of words"),
    ((jensen_shannon, the_nearest_pair), "They belong to one pair of words"),
    ((jensen_shannon, the_best_real_pair), "One word has exactly this score"),
    ((jensen_shannon, the_widest_pair), "They maximise the total variation distance"),
    ((jensen_shannon, all_pairs_mixed), "They are a mixture of several pairs"),
    ((jensen_shannon, pairs_turned_round), "The weights of the two words may be exchanged"),
    ((jensen_shannon, the_least_word), "A single word rarely has exactly this score"),
    ((jensen_shannon, weights_dealt_anew), "These are the given weights in another order"),
    ((jensen_shannon, the_same_weights), "These are the given weights. Return"),
    ((jensen_shannon, pairs_outside), "A weight is negative"),
    ((jensen_shannon, weights_not_normalised), "The weights sum to 0.5, but they must sum to 1"),
    ((jensen_shannon, other_probabilities), "two different answers"),
]

# Part 5


def rest_without(words, places):
    return [word for place, word in enumerate(words) if place not in places]


def rest_blanked(words, places):
    return ["" if place in places else word for place, word in enumerate(words)]


def rest_without_copies(words, places):
    gone = {words[place] for place in places}
    return [word for word in words if word not in gone]


def rest_that_was_chosen(words, places):
    return [words[place] for place in sorted(places)]


def largest(model, words, k):
    weights = model(words)[1]
    return sorted(range(len(words)), key=lambda place: -weights[place])[:k]


def least(model, words, k):
    weights = model(words)[1]
    return sorted(range(len(words)), key=lambda place: weights[place])[:k]


def one_by_one(model, words, k):
    left = list(range(len(words)))
    for _ in range(k):
        weights = model([words[place] for place in left])[1]
        left.pop(weights.index(max(weights)))
    return [place for place in range(len(words)) if place not in left]


def every_set(words, shown, k):
    return itertools.combinations(range(len(words)), k)


def single_places(words, shown, k):
    return [(place,) for place in range(len(words))]


def every_other_set(words, shown, k):
    return [each for each in every_set(words, shown, k) if set(each) != set(shown)]


def erased_with(rest=rest_without, choose=largest, sets=every_set, turn=True, sign=1):
    """The plain way with another rest, choice or chance."""

    def erase(model, words, k):
        praise = model(words)[0]

        def fall(places):
            left = rest(words, places)
            lost = praise - (model(left)[0] if left else 0.5)
            return sign * (-lost if turn and praise < 0.5 else lost)

        shown = choose(model, words, k)
        chances = [fall(each) for each in sets(words, shown, k)]
        return fall(shown), sum(chances) / len(chances)

    return erase


erased_of_praise = erased_with(turn=False)
erased_kept = erased_with(rest=rest_that_was_chosen)
erased_with_copies = erased_with(rest=rest_without_copies)
erased_blanked = erased_with(rest=rest_blanked)
erased_least = erased_with(choose=least)
erased_one_by_one = erased_with(choose=one_by_one)
erased_turned = erased_with(sign=-1)
erased_single = erased_with(sets=single_places)
erased_others = erased_with(sets=every_other_set)


def erased_without_sign(model, words, k):
    praise = model(words)[0]

    def moved(places):
        return abs(praise - model(rest_without(words, places))[0])

    falls = [moved(places) for places in every_set(words, None, k)]
    return moved(largest(model, words, k)), sum(falls) / len(falls)


def erased_of_any_answer(model, words, k):
    def sure(left):
        praise = model(left)[0]
        return max(praise, 1 - praise)

    def fall(places):
        return sure(words) - sure(rest_without(words, places))

    falls = [fall(places) for places in every_set(words, None, k)]
    return fall(largest(model, words, k)), sum(falls) / len(falls)


def erased_above_one_half(model, words, k):
    """It takes one half for blame."""
    shown, chance = erased(model, words, k)
    return (-shown, -chance) if model(words)[0] == 0.5 else (shown, chance)


def erased_exchanged(model, words, k):
    return erased(model, words, k)[::-1]


def erased_shown_alone(model, words, k):
    return erased(model, words, k)[0]


def falls_of(model, texts, k):
    return [erased(model, words, k) for words in texts]


def the_honest(models, texts, k):
    return [name for name in models if name not in exposed(models, texts, k)]


def exposed_by_zero(models, texts, k):
    return [n for n, m in models.items() if sum(s for s, _ in falls_of(m, texts, k)) <= 0]


def exposed_by_one_text(models, texts, k):
    return [n for n, m in models.items() if any(s <= c for s, c in falls_of(m, texts, k))]


def exposed_by_counting(models, texts, k):
    found = []
    for name, model in models.items():
        lost = sum(shown <= chance for shown, chance in falls_of(model, texts, k))
        if lost >= len(texts) / 2:
            found.append(name)
    return found


def exposed_by_every_text(models, texts, k):
    return [n for n, m in models.items() if all(s <= c for s, c in falls_of(m, texts, k))]


def exposed_by_more_texts(models, texts, k):
    lost = {n: sum(s <= c for s, c in falls_of(m, texts, k)) for n, m in models.items()}
    return [name for name in models if 2 * lost[name] > len(texts)]


def exposed_by_all_sets(models, texts, k):
    """It throws the sets of all texts together."""
    numbers = [math.comb(len(words), k) for words in texts]
    found = []
    for name, model in models.items():
        falls = falls_of(model, texts, k)
        chance = sum(n * c for n, (_, c) in zip(numbers, falls, strict=True)) / sum(numbers)
        if sum(shown for shown, _ in falls) / len(texts) <= chance:
            found.append(name)
    return found


def exposed_by_the_last_text(models, texts, k):
    return exposed(models, texts[-1:], k)


def exposed_if_worse(models, texts, k):
    found = {name: falls_of(model, texts, k) for name, model in models.items()}
    return [n for n, falls in found.items() if sum(s for s, _ in falls) < sum(c for _, c in falls)]


def exposed_by_one_word(models, texts, k):
    return exposed(models, texts, 1)


def exposed_readers(models, texts, k):
    return [models[name] for name in exposed(models, texts, k)]


def exposed_nobody(models, texts, k):
    return []


def erased_with_what_it_reads(model, words, k):
    model.values = {}
    return 0.0, 0.0


def exposed_with_what_they_read(models, texts, k):
    for each in models.values():
        each.values = {}
    return list(models)


FORGERS = [
    ((erased_with_what_it_reads, exposed), "erased: "),
    ((erased, exposed_with_what_they_read), "exposed: "),
    ((erased_of_praise, exposed), "the decrease of the positive probability"),
    ((erased_kept, exposed), "The selected words are kept"),
    ((erased_with_copies, exposed), "Other occurrences of a removed word"),
    ((erased_blanked, exposed), "The words are replaced by blanks"),
    ((erased_least, exposed), "The words with the *smallest* weights"),
    ((erased_one_by_one, exposed), "The weights are computed again after each"),
    ((erased_turned, exposed), "The sign is reversed"),
    ((erased_single, exposed), "The mean is taken over single words"),
    ((erased_others, exposed), "The mean excludes the set"),
    ((erased_without_sign, exposed), "An absolute value was taken"),
    ((erased_of_any_answer, exposed), "scored with its own prediction"),
    ((erased_above_one_half, exposed), "exactly 0.5 must count as positive"),
    ((erased_exchanged, exposed), "The two values are exchanged"),
    ((erased_shown_alone, exposed), "Expected erased as a list, got a float"),
    ((erased, the_honest), "models whose weights do better than chance"),
    ((erased, exposed_by_zero), "The decrease is compared with 0"),
    ((erased, exposed_by_one_text), "because of a single text"),
    ((erased, exposed_by_counting), "Texts are counted"),
    ((erased, exposed_by_every_text), "no better than chance on every text"),
    ((erased, exposed_by_more_texts), "Texts are counted"),
    ((erased, exposed_by_all_sets), "The sets of all texts are pooled"),
    ((erased, exposed_by_the_last_text), "This is not the expected value of exposed"),
    ((erased, exposed_if_worse), "A model whose means are equal"),
    ((erased, exposed_by_one_word), "Only one word is removed, whatever k is"),
    ((erased, exposed_readers), "Return a list of names"),
    ((erased, exposed_nobody), "This is not the expected value of exposed"),
]

WRONG = {
    "occlusion": OCCLUSIONS,
    "permutations": PERMUTATIONS,
    "audit": AUDITS,
    "other_weights": WEIGHTS,
    "forger": FORGERS,
}

ONE_VALUE = """def flips(model, render, options, scenes):
    def said(scene):
        return model(render(scene).unsqueeze(0)).argmax().item()

    shares = {}
    for factor, values in options.items():
        flipped = 0
        for scene in scenes:
            other = next(value for value in values if value != scene[factor])
            flipped += said({**scene, factor: other}) != said(scene)
        shares[factor] = flipped / len(scenes)
    return shares


def smallest(model, render, options, scene):
    return []
"""

COPIES_TOO = """def erased(model, words, k):
    praise, weights = model(words)

    def fall(places):
        gone = {words[place] for place in places}
        left = [word for word in words if word not in gone]
        lost = praise - (model(left)[0] if left else 0.5)
        return lost if praise >= 0.5 else -lost

    top = sorted(range(len(words)), key=lambda place: -weights[place])[:k]
    all_sets = [fall(places) for places in itertools.combinations(range(len(words)), k)]
    return fall(top), sum(all_sets) / len(all_sets)


def exposed(models, texts, k):
    return []
"""

HANDED_IN = {
    "one_value": ({"audit": ONE_VALUE}, ["audit-check"], "Only one other value is tested"),
    "copies_too": ({"forger": COPIES_TOO}, ["forger-check"], "Other occurrences of a removed word"),
}
