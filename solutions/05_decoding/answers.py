"""Answers to the parts of decoding, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import functools
import heapq
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch

from attentively.checks.edits import edited_source
from attentively.checks.recordings import load_questions
from attentively.vocabulary import END_ID, START_ID

questions = load_questions(Path(__file__).with_name("questions.py"))

# Part 1


def greedy_until_the_end(step, max_len):
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
    """The whole prefix is read again for each token; the logarithm of the product is taken last."""
    tokens, probability = [], 1.0
    for _ in range(max_len):
        log_probabilities, state = step(START_ID, None)
        for token in tokens:
            log_probabilities, state = step(token, state)
        best = max(range(len(log_probabilities)), key=lambda i: log_probabilities[i])
        probability *= log_probabilities[best].exp().item()
        if best == END_ID:
            break
        tokens.append(best)
    return [torch.tensor(tokens, dtype=torch.long), math.log(probability)]


# Part 2

THIRDS = {"a": 0.34, "b": 0.33, "END": 0.33}
HALVES = {"a": 0.5, "b": 0.5}
OF_C = {"a": 0.4, "b": 0.3, "c": 0.3}


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


def beam_loses_with_two_words():
    return {
        "": {"a": 0.6, "b": 0.4},
        "a": HALVES,
        "b": {"a": 0.7, "b": 0.3},
        "a a": HALVES,
        "a b": HALVES,
        "b a": {"END": 1.0},
    }


def empty_wins_slowly():
    table = {" ".join("a" * n): {"a": 0.75, "END": 0.25} for n in range(1, 9)}
    return {"": {"a": 0.7, "END": 0.3}, **table, " ".join("a" * 9): {"END": 1.0}}


def empty_wins_till_the_end():
    """The sentence with the best mean ends after the rule of part 3 could have stopped a search."""
    return {
        "": {"a": 0.55, "END": 0.45},
        "a": {"a": 0.36, "END": 0.34, "b": 0.3},
        "a a": {"a": 0.4, "b": 0.35, "END": 0.25},
        "a b": {"a": 0.34, "b": 0.33, "END": 0.33},
    }


# Part 3


def beam_search_by_topk(step, beam_size, max_len, alpha):
    """Only extensions that can still count are examined; `step` is called where it is needed."""
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
    """States are cached by prefix, and extensions are compared by score."""

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


def top_p_by_counting(scores, temperature, p):
    """The tokens whose sums are below p, and one more; the result is an array."""
    ordered, order = (scores / temperature).softmax(dim=0).sort(descending=True)
    number = int((ordered.cumsum(0) < p).sum()) + 1
    kept = np.zeros(len(scores))
    kept[order[:number].numpy()] = ordered[:number].numpy()
    return kept / kept.sum()


def top_p_by_hand(scores, temperature, p):
    largest = max(scores.tolist())
    weights = [math.exp((value - largest) / temperature) for value in scores.tolist()]
    shares = [weight / sum(weights) for weight in weights]
    kept = [0.0] * len(shares)
    for index in sorted(range(len(shares)), key=lambda i: shares[i], reverse=True):
        kept[index] = shares[index]
        if sum(kept) >= p:
            break
    return [share / sum(kept) for share in kept]


def top_p_by_masking(scores, temperature, p):
    """In 64 bits, from the least probable token on."""
    scores = scores.double() / temperature
    order = scores.argsort()
    shares = scores.softmax(0)[order]
    before = shares.flip(0).cumsum(0).flip(0) - shares
    return scores.index_fill(0, order[before >= p], -math.inf).softmax(0)


# Part 5


def costs_by_growing(words, max_len, beam_size):
    texts, prefixes, calls, width = 0, 1, 0, 1
    for _ in range(max_len):
        texts, calls = texts + prefixes, calls + width
        prefixes, width = prefixes * words, min(beam_size, width * words)
    return {"texts": texts, "greedy": torch.tensor(max_len), "beam": calls, "more": None}


def tipping_alphas_by_torch(short, long):
    short, long = torch.tensor(short), torch.tensor(long)
    needed = (long.log().sum() / short.log().sum()).log()
    grown = torch.tensor([len(long) / len(short), (5.0 + len(long)) / (5.0 + len(short))])
    return needed / grown.log()


def tipping_temperature_by_search(higher, lower, ratio):
    low, high = 1e-3, 1e3
    for _ in range(100):
        middle = math.sqrt(low * high)
        odds = (math.log(higher) - math.log(lower)) / middle
        low, high = (middle, high) if odds > math.log(ratio) else (low, middle)
    return low


# Part 6


def clones_from_one_row(model, src, beam_size, max_len):
    """The search starts with one row, and finished rows are removed."""
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


def ranked_by_torch(ended, alpha):
    lengths = torch.tensor([1.0 + len(tokens) for tokens, _ in ended])
    scores = torch.tensor([total for _, total in ended]) * lengths**-alpha
    return tuple(tuple(ended[i][0]) for i in scores.argsort(descending=True))


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
    "greedy": [greedy_until_the_end, greedy_by_rereading],
    "greedy_loses": [greedy_loses_by_thirds, greedy_loses_late],
    "beam_loses": [beam_loses_with_two_words],
    "empty_wins": [empty_wins_slowly, empty_wins_till_the_end],
    "beam_search": [beam_search_by_topk, beam_search_by_memory],
    "top_p": [top_p_by_counting, top_p_by_hand, top_p_by_masking],
    "costs": [costs_by_growing],
    "tipping_alphas": [tipping_alphas_by_torch],
    "tipping_temperature": [tipping_temperature_by_search],
    "clones": [clones_from_one_row],
    "ranked": [ranked_by_torch],
    "sampled": [sampled_with_part_4],
}
ALLOWED = {"top_p": ["a list"]}

SOFTMAX, COUNTS = questions.SOFTMAX, 'return {"texts": texts, "greedy": greedy, "beam": beam}'
START = "torch.full((beam_size,), -torch.inf)"
SELECTED = "state = new_state.select(parent)"

WRONG = {
    "greedy": {
        "Expected a pair, `return tokens, log_probability`": f"{questions.PAIR} -> return tokens",
        # END is lost where it is the last token allowed.
        "This is not the expected value": (
            "if token == END_ID: -> if token == END_ID and len(tokens) + 1 == max_len:\n"
            "            total -= float(log_probabilities[token])\n        if token == END_ID:"
        ),
        "The first call is step(START_ID, None)": "step(token, state) -> step(token, None)",
        "Your code raises TypeError": "step(token, state) -> step(state, token)",
    },
    "greedy_loses": {
        "None: is there a `return`?": lambda: None,
        "expected a dict of dicts": lambda: [{"a": 0.5, "END": 0.5}],
        "the row of the empty prefix": lambda: {"a": {"END": 1.0}},
        "sum to 0.67; they must sum to 1. END is a token": ', "END": 0.33 -> ',
        "a probability is a number from 0 to 1": lambda: {"": {"a": 1.1, "b": -0.1}},
        "contains 'c'; the tokens are a, b, END": '"b": 0.49 -> "c": 0.49',
        "must be a string of the words a and b, separated by spaces": '"a": {"a" -> ("a",): {"a"',
        "write one space between two words": '"a": {"a" -> "a  b": {"a"',
        "At most 60 are allowed": lambda: {" ".join("a" * n): {"a": 1.0} for n in range(90)},
        "1.00 times as probable": lambda: {"": {"a": 0.6, "b": 0.4}, "a": {"a": 0.9, "END": 0.1}},
        "1.67 times as probable; the factor must be 2": lambda: {
            "": {"a": 0.6, "b": 0.4},
            "a": {"a": 0.4, "b": 0.35, "END": 0.25},
        },
        "equally probable tokens in either order": [
            lambda: {"": HALVES, "a": {"a": 0.4, "b": 0.3, "END": 0.3}},
            lambda: {"": {"a": 0.4, "b": 0.3, "END": 0.3}, "a": THIRDS, "b": THIRDS},
        ],
        "a beam of size 2 misses the most probable sentence": lambda: {
            "": {"a": 0.6, "b": 0.4},
            "a": HALVES,
            "b": {"a": 0.7, "b": 0.3},
            "a a": THIRDS,
            "a b": THIRDS,
        },
    },
    "beam_loses": {
        "beam_loses: a beam of size 2 outputs 'b' (0.49)": questions.greedy_loses,
        "beam_loses: a beam of size 3 misses the most probable": lambda: {
            "": {"a": 0.5, "b": 0.2, "c": 0.18, "END": 0.12},
            "c": {"a": 0.55, "b": 0.45},
            **dict.fromkeys(["a", "b", "a a", "a b", "a c", "b a"], OF_C),
        },
    },
    "empty_wins": {
        "it must output three or more words": lambda: {
            "": {"a": 0.6, "END": 0.4},
            "a": {"b": 0.6, "END": 0.4},
        },
        "greedy search outputs 'the empty sentence'": (
            '"a": 0.6, "END": 0.4 -> "a": 0.4, "END": 0.6'
        ),
        "END must be the second most probable token at the start": (
            '"a": 0.6, "END": 0.4 -> "a": 0.8, "END": 0.2'
        ),
        "with alpha = 1, a beam of size 2 outputs 'a b' (0.168) instead": lambda: {
            "": {"a": 0.51, "END": 0.49},
            **dict.fromkeys(["a", "a a", "a a a"], THIRDS),
        },
        "but the beam drops one of its prefixes": lambda: {
            "": {"a": 0.38, "END": 0.34, "b": 0.28},
            "b": HALVES,
            "a a": {"a": 0.95, "b": 0.05},
            **dict.fromkeys(["a", "b a", "b b"], THIRDS),
        },
        "equally probable tokens in either order": lambda: {
            "": {"a": 0.5, "END": 0.25, "b": 0.25},
            "a": {"a": 0.7, "b": 0.3},
            "a a": {"b": 0.65, "a": 0.35},
            "a a b": {"END": 0.95, "a": 0.05},
        },
    },
    "beam_search": {
        "Extensions with probability 0": "> -math.inf -> >= -math.inf",
        "Expected is a list of pairs (tokens, score)": [
            "return finished -> return [tokens for tokens, _ in finished]",
            "return finished -> return finished[0]",
            "range(1, max_len + 1) -> range(1, min(max_len, 20) + 1)",
        ],
        "The search stops too late": [
            f"{questions.BEST_LIVE} -> partial[0][1] / max_len**alpha",
            # More than beam_size finished hypotheses count in rule 5.
            (
                f"{questions.KEPT} -> finished",
                f"{questions.FULL} -> len(finished) >= beam_size",
                "return finished -> return finished[:beam_size]",
            ),
            (
                f"{questions.KEPT} -> finished",
                "return finished -> return finished[:beam_size]",
            ),
        ],
    },
    "top_p": {
        "The probabilities sum to 0.61. They must sum to 1.": (
            f"{questions.KEEPING} -> (before + ordered <= p)",
            f"{questions.SHARES} -> 1",
        ),
        "normalising undoes the division": (
            f"{SOFTMAX} -> scores.softmax(dim=0) / temperature\n"
            "    probabilities = probabilities / probabilities.sum()"
        ),
        "Your code raises OverflowError": (
            f"{SOFTMAX} -> torch.tensor([math.exp(each / temperature) for each in scores])\n"
            "    probabilities = probabilities / probabilities.sum()"
        ),
    },
    "costs": {
        "the key 'greedy' is missing": f'{COUNTS} -> return {{"texts": texts}}',
        "costs: expected a dict": f"{COUNTS} -> return texts, greedy, beam",
        "Your code raises ZeroDivisionError": (
            f"{questions.TEXTS} -> (words**max_len - 1) // (words - 1)"
        ),
    },
    "tipping_alphas": {
        "Expected a pair": "return power, gnmt -> return power",
        "tipping_alphas, gnmt. At the expected alpha, both hypotheses have the same score": (
            "return power, gnmt -> return power, 1.0"
        ),
        "tipping_alphas, power. At the expected alpha": (
            "return power, gnmt -> return min(power, 2.0), gnmt"
        ),
    },
    "tipping_temperature": {
        "the two probabilities have the ratio": f"{questions.LOG_RATIO} -> 1.0",
    },
    "clones": {
        "the same hypothesis is returned 2 times": [
            f"{START} -> torch.zeros(beam_size)",
            (f"{START} -> torch.zeros(beam_size)", f"{SELECTED} -> state = new_state"),
        ],
        "must continue from the state of the one that it extends": [
            f"{SELECTED} -> state = new_state",
            f"{SELECTED} -> state = new_state.select(parent.sort().values)",
        ],
        "the sum over its tokens and END, which is not returned": [
            "text[:-1], totals -> text, totals",
            "totals[row].item() -> totals[row].item() / len(text)",
        ],
        "the most probable first": "reverse=True -> reverse=False",
        "clones: Expected are pairs (tokens, log-probability)": "[:beam_size] -> ",
        "that finish within max_len steps": (
            "for row, text in -> if len(ended) >= beam_size:\n"
            "            break\n        for row, text in"
        ),
        "This is not the expected value of clones": [
            "range(max_len) -> range(max_len - 1)",
            "range(max_len) -> range(max_len + 1)",
            "totals[0] = 0.0 -> totals[0] = 0.0 if beam_size > 1 else -torch.inf",
        ],
        "a hypothesis with the log-probability −inf": "and totals[row] > -torch.inf -> ",
    },
    "ranked": {
        "Expected are the token lists, the best first": [
            "[tokens for tokens, _ -> [pair for pair",
            # Of several hypotheses of the same length, only one is returned.
            "sorted(ended -> sorted({len(pair[0]): pair for pair in ended}.values()",
            (questions.PRODUCT, "reverse=True -> reverse=False"),
        ],
        "Divide the log-probability, a negative number": (
            "return log_probability / -> return math.exp(log_probability) /"
        ),
    },
    "sampled": {
        "Expected are the tokens": [
            f"{questions.PAST} if p == 1 else int((ordered > 0).sum()) - 1",
            "min(index, last) -> index % (last + 1)",
        ],
    },
}

HANDED_IN = {
    "no_penalty": (
        {"beam": edited_source(questions.beam_search, f"{questions.DIVISOR} -> 1")},
        ["beam-check"],
        "The length is not used",
    ),
    "a_tie": (
        {
            "tables": 'def greedy_loses():\n    return {"": {"a": 0.5, "b": 0.5}, '
            '"a": {"a": 0.34, "b": 0.33, "END": 0.33}}\n\n\n'
            "def beam_loses():\n    return {}\n\n\ndef empty_wins():\n    return {}\n"
        },
        ["tables-check"],
        "equally probable tokens in either order",
    ),
}
