"""Right answers to 05_decoding, each part written in several ways."""

import functools
import heapq
import math
from fractions import Fraction

import numpy as np
import torch

from attentively.vocabulary import END_ID, START_ID

# Part 1


def greedy(step, max_len):
    log_probabilities, state = step(START_ID, None)
    tokens, total = [], 0.0
    while True:
        token = log_probabilities.argmax()
        total = total + log_probabilities[token]
        if token == END_ID:
            return tokens, total
        tokens.append(token)
        if len(tokens) == max_len:
            return tokens, total
        log_probabilities, state = step(token, state)


def greedy_by_rereading(step, max_len):
    """All that is written so far is read again for each token; a product, its logarithm at last."""
    tokens, probability = [], 1.0
    for _ in range(max_len):
        log_probabilities, state = step(START_ID, None)
        for token in tokens:
            log_probabilities, state = step(token, state)
        likeliest = max(range(len(log_probabilities)), key=lambda i: log_probabilities[i])
        probability *= log_probabilities[likeliest].exp().item()
        if likeliest == END_ID:
            break
        tokens.append(likeliest)
    return [torch.tensor(tokens, dtype=torch.long), math.log(probability)]


# Part 2


def greedy_loses():
    return {"": {"a": 0.51, "b": 0.49}, "a": {"a": 0.34, "b": 0.33, "END": 0.33}}


def greedy_loses_by_thirds():
    third = Fraction(1, 3)
    return {
        "": {"b": 0.5001, "a": 0.4999},
        "b": {"a": third, "b": third, "END": third},
        "a": {"END": 1},
    }


def greedy_loses_late():
    return {
        "": {"a": torch.tensor(0.9), "END": 0.1},
        "a": {"b": 0.55, "a": 0.45},
        "a b": {"a": 0.4, "b": 0.4, "END": 0.2},
        "a a": {"b": 1.0, "a": 0.0},
    }


def beam_loses():
    return {
        "": {"a": 0.4, "b": 0.35, "c": 0.25},
        "a": {"a": 0.4, "b": 0.3, "c": 0.3},
        "b": {"a": 0.4, "b": 0.3, "c": 0.3},
    }


def beam_loses_with_two_words():
    return {
        "": {"a": 0.6, "b": 0.4},
        "a": {"a": 0.5, "b": 0.5},
        "b": {"a": 0.7, "b": 0.3},
        "a a": {"a": 0.5, "b": 0.5},
        "a b": {"a": 0.5, "b": 0.5},
        "b a": {"END": 1.0},
    }


def empty_wins():
    return {"": {"a": 0.6, "END": 0.4}, "a": {"a": 0.8, "b": 0.2}, "a a": {"b": 0.8, "a": 0.2}}


def empty_wins_slowly():
    table = {" ".join("a" * n): {"a": 0.75, "END": 0.25} for n in range(1, 9)}
    return {"": {"a": 0.7, "END": 0.3}, **table, " ".join("a" * 9): {"END": 1.0}}


def empty_wins_till_the_end():
    """The text with the best mean ends after a search could have stopped by the rule of part 3."""
    return {
        "": {"a": 0.55, "END": 0.45},
        "a": {"a": 0.36, "END": 0.34, "b": 0.3},
        "a a": {"a": 0.4, "b": 0.35, "END": 0.25},
        "a b": {"a": 0.34, "b": 0.33, "END": 0.33},
    }


TABLES = [
    (greedy_loses, beam_loses, empty_wins),
    (greedy_loses_by_thirds, beam_loses_with_two_words, empty_wins_slowly),
    (greedy_loses_late, beam_loses, empty_wins_till_the_end),
]

# Part 3


def beam_search(step, beam_size, max_len, alpha):
    going, found = [([], 0.0, None)], []
    for length in range(1, max_len + 1):
        extensions = []
        for tokens, total, state in going:
            log_probabilities, after = step(tokens[-1] if tokens else START_ID, state)
            for token, value in enumerate(log_probabilities.tolist()):
                if value > -math.inf:
                    extensions.append(([*tokens, token], total + value, after))
        extensions.sort(key=lambda extension: extension[1], reverse=True)
        for tokens, total, _ in extensions[:beam_size]:
            if tokens[-1] == END_ID:
                found.append((tokens[:-1], total / length**alpha))
        found = sorted(found, key=lambda pair: pair[1], reverse=True)[:beam_size]
        going = [each for each in extensions if each[0][-1] != END_ID][:beam_size]
        if not going:
            break
        if len(found) == beam_size and going[0][1] / length**alpha <= found[-1][1]:
            break
    return found


def beam_search_by_topk(step, beam_size, max_len, alpha):
    """Only what can still count is looked at; states are asked for where they are needed."""
    beam, found = [(0.0, [], step(START_ID, None))], []
    for length in range(1, max_len + 1):
        totals = torch.stack([total + following for total, _, (following, _) in beam])
        vocab = totals.shape[1]
        best, place = totals.flatten().topk(min(2 * beam_size, totals.numel()))
        ahead = []
        for rank, (total, index) in enumerate(zip(best.tolist(), place.tolist(), strict=True)):
            if total == -math.inf:
                break
            _, tokens, (_, state) = beam[index // vocab]
            if index % vocab != END_ID:
                ahead.append((total, [*tokens, index % vocab], state))
            elif rank < beam_size:
                found.append((tokens, total / length**alpha))
        found = heapq.nlargest(beam_size, found, key=lambda pair: pair[1])
        ahead = ahead[:beam_size]
        hopeless = ahead and len(found) == beam_size and ahead[0][0] / length**alpha <= found[-1][1]
        if not ahead or hopeless or length == max_len:
            break
        beam = [(total, tokens, step(tokens[-1], state)) for total, tokens, state in ahead]
    return [(torch.tensor(tokens), torch.tensor(score)) for tokens, score in found]


def beam_search_by_memory(step, beam_size, max_len, alpha):
    """States belong to what was read. Scores decide everywhere: at one length the same order."""

    @functools.cache
    def read(tokens):
        if not tokens:
            return step(START_ID, None)
        return step(tokens[-1], read(tokens[:-1])[1])

    going, found, length = [((), 0.0)], [], 0
    while going and length < max_len:
        length += 1
        extensions = [
            ((*tokens, token), total + float(value))
            for tokens, total in going
            for token, value in enumerate(read(tokens)[0])
            if value.isfinite()
        ]
        extensions = sorted(extensions, key=lambda each: -each[1] / length**alpha)
        ends = [each for each in extensions[:beam_size] if each[0][-1] == END_ID]
        found += [[total / length**alpha, tokens[:-1]] for tokens, total in ends]
        found = sorted(found, reverse=True)[:beam_size]
        going = [each for each in extensions if each[0][-1] != END_ID][:beam_size]
        if len(found) == beam_size and all(t / length**alpha <= found[-1][0] for _, t in going):
            break
    return [[np.array(tokens), score] for score, tokens in found]


# Part 4


def top_p(scores, temperature, p):
    ordered, order = (scores / temperature).softmax(dim=0).sort(descending=True)
    before = ordered.cumsum(0) - ordered
    kept = ordered.masked_fill(before >= p, 0.0)
    probabilities = torch.zeros_like(ordered)
    probabilities[order] = kept / kept.sum()
    return probabilities


def top_p_by_counting(scores, temperature, p):
    """As many tokens as stay below p, and one; an array is returned."""
    ordered, order = (scores / temperature).softmax(dim=0).sort(descending=True)
    number = int((ordered.cumsum(0) < p).sum()) + 1
    kept = np.zeros(len(scores))
    kept[order[:number].numpy()] = ordered[:number].numpy()
    return kept / kept.sum()


def top_p_by_hand(scores, temperature, p):
    weights = [math.exp(value / temperature) for value in scores.tolist()]
    shares = [weight / sum(weights) for weight in weights]
    kept = [0.0] * len(shares)
    for index in sorted(range(len(shares)), key=lambda i: shares[i], reverse=True):
        kept[index] = shares[index]
        if sum(kept) >= p:
            break
    return [share / sum(kept) for share in kept]


def top_p_by_masking(scores, temperature, p):
    """In 64 bits, from the rarest on: a token goes if those that are likelier reach p."""
    scores = scores.double() / temperature
    order = scores.argsort()
    shares = scores.softmax(0)[order]
    likelier = shares.flip(0).cumsum(0).flip(0) - shares
    return scores.index_fill(0, order[likelier >= p], -math.inf).softmax(0)


# Part 5


def costs(words, max_len, beam_size):
    prefixes = [words**n for n in range(max_len)]
    return {
        "texts": sum(prefixes),
        "greedy": max_len,
        "beam": sum(min(beam_size, number) for number in prefixes),
    }


def costs_by_growing(words, max_len, beam_size):
    texts, prefixes, calls, width = 0, 1, 0, 1
    for _ in range(max_len):
        texts, calls = texts + prefixes, calls + width
        prefixes, width = prefixes * words, min(beam_size, width * words)
    return {"texts": texts, "greedy": torch.tensor(max_len), "beam": calls, "more": None}


def tipping_alphas(short, long):
    log_short, log_long = (sum(map(math.log, text)) for text in (short, long))
    needed = math.log(log_long / log_short)
    power = math.log(len(long) / len(short))
    gnmt = math.log((5 + len(long)) / (5 + len(short)))
    return needed / power, needed / gnmt


def tipping_alphas_by_torch(short, long):
    short, long = torch.tensor(short), torch.tensor(long)
    needed = (long.log().sum() / short.log().sum()).log()
    grown = torch.tensor([len(long) / len(short), (5.0 + len(long)) / (5.0 + len(short))])
    return needed / grown.log()


def tipping_temperature(likelier, other, times):
    return math.log(likelier / other) / math.log(times)


def tipping_temperature_by_search(likelier, other, times):
    low, high = 1e-3, 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        odds = (math.log(likelier) - math.log(other)) / middle
        low, high = (middle, high) if odds > math.log(times) else (low, middle)
    return low


# Part 6


def clones(model, src, beam_size, max_len):
    state = model.start(model.encode(src))
    state = state.select(torch.zeros(beam_size, dtype=torch.long))
    token, totals = torch.full((beam_size,), START_ID), torch.full((beam_size,), -torch.inf)
    totals[0] = 0.0
    texts, ended = [[] for _ in range(beam_size)], []
    for _ in range(max_len):
        logits, after = model.step(token, state)
        sums = totals.unsqueeze(1) + logits.log_softmax(dim=-1)
        totals, index = sums.flatten().topk(beam_size)
        parent, token = index // sums.shape[1], index % sums.shape[1]
        state = after.select(parent)
        texts = [[*texts[row], new] for row, new in zip(parent.tolist(), token.tolist())]  # noqa: B905
        for place, text in enumerate(texts):
            if text[-1] == END_ID and totals[place] > -torch.inf:
                ended.append((text[:-1], totals[place].item()))
                totals[place] = -torch.inf
    return sorted(ended, key=lambda pair: pair[1], reverse=True)[:beam_size]


def clones_from_one_row(model, src, beam_size, max_len):
    """One row at first; the places are filled by what comes out of it, and the dead leave."""
    state = model.start(model.encode(src))
    token, totals, texts, ended = torch.tensor([START_ID]), torch.zeros(1), [()], []
    for _ in range(max_len):
        logits, state = model.step(token, state)
        sums = totals[:, None] + logits - logits.logsumexp(dim=-1, keepdim=True)
        best, index = sums.flatten().topk(beam_size)
        parent, token = index // logits.shape[1], index % logits.shape[1]
        texts = [(*texts[row], int(new)) for row, new in zip(parent, token, strict=True)]
        over = token == END_ID
        ended += [(-float(best[i]), texts[i][:-1]) for i in (over & best.isfinite()).nonzero()]
        alive = (~over & best.isfinite()).nonzero().flatten()
        if not len(alive):
            break
        state, token, totals = state.select(parent[alive]), token[alive], best[alive]
        texts = [texts[i] for i in alive]
    return [[list(text), -minus] for minus, text in sorted(ended)][:beam_size]


def ranked(ended, alpha):
    def score(pair):
        tokens, log_probability = pair
        return log_probability / (len(tokens) + 1) ** alpha

    return [tokens for tokens, _ in sorted(ended, key=score, reverse=True)]


def ranked_by_torch(ended, alpha):
    lengths = torch.tensor([1.0 + len(tokens) for tokens, _ in ended])
    scores = torch.tensor([total for _, total in ended]) * lengths**-alpha
    return tuple(tuple(ended[i][0]) for i in scores.argsort(descending=True))


def sampled(step, max_len, temperature, p, numbers):
    token, state, tokens = START_ID, None, []
    for number in numbers[:max_len]:
        log_probabilities, state = step(token, state)
        ordered, order = (log_probabilities / temperature).softmax(dim=0).sort(descending=True)
        ordered[ordered.cumsum(0) - ordered >= p] = 0.0
        ordered = ordered / ordered.sum()
        place = int((ordered.cumsum(0) <= number).sum())
        token = int(order[min(place, int((ordered > 0).sum()) - 1)])
        if token == END_ID:
            break
        tokens.append(token)
    return tokens


def sampled_with_part_4(step, max_len, temperature, p, numbers):
    tokens, numbers = [], iter(numbers)
    values, state = step(START_ID, None)
    while len(tokens) < max_len:
        shares = top_p_by_hand(values, temperature, p)
        number = next(numbers)
        kept = [token for token, share in enumerate(shares) if share]
        for token in sorted(kept, key=lambda i: -shares[i]):
            number -= shares[token]
            if number < 0:
                break
        if token == END_ID:
            break
        tokens.append(token)
        values, state = step(token, state)
    return torch.tensor(tokens)


RIGHT = {
    "greedy_loop": [greedy, greedy_by_rereading],
    "tables": TABLES,
    "beam": [beam_search, beam_search_by_topk, beam_search_by_memory],
    "nucleus": [top_p, top_p_by_counting, top_p_by_hand, top_p_by_masking],
    "predictions": [
        (costs, tipping_alphas, tipping_temperature),
        (costs_by_growing, tipping_alphas_by_torch, tipping_temperature_by_search),
    ],
    "bug_hunt": [
        (clones, ranked, sampled),
        (clones_from_one_row, ranked_by_torch, sampled_with_part_4),
    ],
}
