"""Decoding as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Part 2
and the properties of part 6 are examined by code in `attentively.checks.decoding`.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

from attentively.checks.decoding import NAMES, Sentence, Table, TableStep, on_a_model
from attentively.checks.edits import edited
from attentively.checks.question import Case, Question, cases_of
from attentively.vocabulary import END_ID, START_ID

# Tables. The next token depends on the whole prefix.
ONE_WORD: Table = {"": {"a": 0.7, "END": 0.3}, "a": {"END": 0.8, "b": 0.2}}
TWO_WORDS: Table = {
    "": {"a": 0.6, "b": 0.3, "END": 0.1},
    "a": {"b": 0.7, "END": 0.3},
    "b": {"a": 0.9, "END": 0.1},
    "a b": {"END": 0.9, "a": 0.1},
}
AGAIN: Table = {
    "": {"a": 0.5, "b": 0.4, "END": 0.1},
    "a": {"a": 0.6, "END": 0.4},
    "a a": {"a": 0.5, "b": 0.3, "END": 0.2},
    "a a a": {"END": 0.7, "b": 0.3},
}
NOTHING: Table = {"": {"END": 0.6, "a": 0.4}}
FORK: Table = {
    "": {"a": 0.6, "b": 0.4},
    "a": {"a": 0.4, "b": 0.35, "END": 0.25},
    "b": {"a": 0.9, "END": 0.1},
}
"""Greedy search outputs "a a" with 0.24; "b a" has 0.36."""


LONG: Table = {" ".join("a" * number): {"a": 0.9, "END": 0.1} for number in range(30)}


def random_table(seed: int, depth: int, number: int) -> Table:
    """Return a table with a row for each prefix of up to `depth` words, in hundredths."""
    generator = torch.Generator().manual_seed(seed)
    table = {}
    for length in range(depth + 1):
        for prefix in itertools.product(NAMES[:number], repeat=length):
            shares = torch.rand(number + 1, generator=generator).square()
            hundredths = (shares / shares.sum() * 100).round().tolist()
            hundredths[int(shares.argmax())] += 100 - sum(hundredths)
            row = zip((*NAMES[:number], "END"), hundredths, strict=True)
            table[" ".join(prefix)] = {name: int(n) / 100 for name, n in row if n > 0}
    return table


def on_tables(names: tuple[str, ...], asked: list[tuple[Any, ...]]) -> Iterator[Case]:
    for table, *how in asked:
        given = TableStep(table) if isinstance(table, dict) else table
        title = "table" if isinstance(table, dict) else "sentence"
        yield Case({title: given, **dict(zip(names, how, strict=True))})


# Part 1


def greedy(step, max_len):
    token, state = START_ID, None
    tokens, total = [], 0.0
    for _ in range(max_len):
        log_probabilities, state = step(token, state)
        token = int(log_probabilities.argmax())
        total += float(log_probabilities[token])
        if token == END_ID:
            break
        tokens.append(token)
    return tokens, total


def greedy_cases(thorough: bool) -> Iterator[Case]:
    asked = [(ONE_WORD, 5), (TWO_WORDS, 5), (AGAIN, 7), (NOTHING, 3), (AGAIN, 2), (AGAIN, 4)]
    asked.append((LONG, 60))
    if thorough:
        asked += [(random_table(seed, 3, 3), max_len) for seed in (1, 2, 5) for max_len in (2, 7)]
    return on_tables(("max_len",), asked)


STEP = "log_probabilities, state = step(token, state)"
CHOICE = "int(log_probabilities.argmax())"
PAIR = "return tokens, total"
MAX_LEN = "range(max_len)"

GREEDY = Question(
    greedy,
    {"tokens and log-probability": ""},
    greedy_cases,
    {
        "END is among the returned tokens. It marks the end of the sentence and is not "
        "returned.": "break -> tokens.append(token)\n            break",
        "START is among the returned tokens. It is the input of the first step and is not "
        "returned.": "tokens, total = [] -> tokens, total = [START_ID]",
        "The log-probability of END is missing. The probability of a sentence includes that of its "
        "END.": "total += -> if token != END_ID:\n            total +=",
        "This is the probability, a product. Return its logarithm, the sum of the "
        "log-probabilities.": f"{PAIR} -> return tokens, math.exp(total)",
        "This is the mean over the tokens. The log-probability of a sentence is the sum.": (
            f"{PAIR} -> return tokens, total / (len(tokens) + 1)"
        ),
        "Probabilities are added. The probabilities of the steps are multiplied, so add their "
        "logarithms.": "float(log_probabilities[token]) -> math.exp(log_probabilities[token])",
        "This is the log-probability of the last token alone. Return the sum over all tokens.": (
            "total += -> total ="
        ),
        "The sign is wrong: the logarithm of a probability is never above 0.": (
            f"{PAIR} -> return tokens, -total"
        ),
        "This is a logarithm to base 2. `step` returns natural logarithms: add them unchanged.": (
            f"{PAIR} -> return tokens, total / math.log(2)"
        ),
        "The search continues after END until max_len. It must stop at the first END.": [
            "break -> continue",
            "break -> pass",
        ],
        "The least probable token is chosen. Greedy search chooses the most probable one.": [
            f"{CHOICE} -> int(log_probabilities.nan_to_num(neginf=0.0).argmin())",
            f"{CHOICE} -> int(log_probabilities.argmin())",
        ],
        "END is never chosen. It is a token like the others: the sentence ends where END is the "
        "most probable token.": f"{CHOICE} -> 4 + int(log_probabilities[4:].argmax())",
        "END is not allowed as the first token. It is a token like the others: the sentence is "
        "empty where END is the most probable token at the start.": (
            f"{STEP} -> {STEP}\n        log_probabilities[END_ID] -= 0.0 if tokens else math.inf"
        ),
        "The two results are in the wrong order. Return the tokens first, then the "
        "log-probability.": f"{PAIR} -> return total, tokens",
        "Every step is computed from the state after START. Pass the state that `step` returned "
        "last.": f"{STEP} -> log_probabilities, after = step(token, state)\n"
        "        state = state or after",
        "Every step reads START. From the second step on, it must read the previously chosen "
        "token.": "step(token, state) -> step(START_ID, state)",
        "There is one token too many: max_len counts every step, also that of END.": (
            f"{MAX_LEN} -> range(max_len + 1)"
        ),
        "The search stops one step early: max_len steps are allowed, that of END included.": (
            f"{MAX_LEN} -> range(max_len - 1)"
        ),
        "The search continues until END. It must stop after max_len steps.": (
            f"{MAX_LEN} -> range(99)"
        ),
    },
    tidy=list,
)


# Part 2


def greedy_loses():
    return {"": {"a": 0.51, "b": 0.49}, "a": {"a": 0.34, "b": 0.33, "END": 0.33}}


def beam_loses():
    return {
        "": {"a": 0.4, "b": 0.35, "c": 0.25},
        "a": {"a": 0.4, "b": 0.3, "c": 0.3},
        "b": {"a": 0.4, "b": 0.3, "c": 0.3},
    }


def empty_wins():
    return {"": {"a": 0.6, "END": 0.4}, "a": {"a": 0.8, "b": 0.2}, "a a": {"b": 0.8, "a": 0.2}}


# Part 3


def beam_search(step, beam_size, max_len, alpha):
    partial = [([], 0.0, None)]
    finished = []
    for length in range(1, max_len + 1):
        divisor = length**alpha
        extensions = []
        for tokens, total, state in partial:
            log_probabilities, new_state = step(tokens[-1] if tokens else START_ID, state)
            for token, value in enumerate(log_probabilities.tolist()):
                if value > -math.inf:
                    extensions.append(([*tokens, token], total + value, new_state))
        extensions.sort(key=lambda extension: extension[1], reverse=True)
        best = extensions[:beam_size]
        for tokens, total, _ in best:
            if tokens[-1] == END_ID:
                finished.append((tokens[:-1], total / divisor))
        finished.sort(key=lambda pair: pair[1], reverse=True)
        finished = finished[:beam_size]
        partial = [each for each in extensions if each[0][-1] != END_ID]
        partial = partial[:beam_size]
        if not partial:
            break
        if len(finished) == beam_size and partial[0][1] / divisor <= finished[-1][1]:
            break
    return finished


def beam_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[Any, ...]] = [
        (FORK, 1, 4, 0.0),
        (FORK, 2, 4, 0.0),
        ({"": {"a": 0.6, "b": 0.4}}, 7, 3, 0.0),
        (random_table(31, 1, 2), 3, 3, 1.0),
        (random_table(24, 2, 2), 3, 3, 1.0),
        (random_table(9, 1, 2), 2, 5, 1.0),
        (random_table(9, 2, 2), 3, 5, 0.5),
        (random_table(44, 1, 2), 3, 5, 1.0),
        (random_table(25, 1, 2), 2, 2, 0.0),
        (random_table(2, 1, 2), 2, 4, 0.5),
        (LONG, 2, 60, 1.0),
    ]
    if thorough:
        asked += [
            (random_table(1, 3, 3), 1, 5, 0.7),
            (random_table(2, 3, 3), 2, 5, 0.6),
            (random_table(3, 3, 3), 3, 5, 0.0),
            (random_table(4, 3, 2), 40, 5, 0.3),
        ]
    return on_tables(("beam_size", "max_len", "alpha"), asked)


DIVISOR = "length**alpha"
LOG_PROBABILITIES = "log_probabilities, new_state = step"
TOKENS = "enumerate(log_probabilities.tolist())"
KEPT = "finished[:beam_size]"
NEXT = "partial[:beam_size]"
FULL = "len(finished) == beam_size"
BEST_LIVE = "partial[0][1] / divisor"


def continuing_from(state):
    """Return edits with which all hypotheses that are kept get another state."""
    return (
        "extensions = [] -> extensions, states = [], []",
        "for token, value in -> states.append(new_state)\n            for token, value in",
        f"{NEXT} -> [(t, total, {state}) for i, (t, total, _) in enumerate(partial[:beam_size])]",
    )


BEAM = Question(
    beam_search,
    {"the hypotheses": "Expected is a list of pairs (tokens, score), the best score first."},
    beam_cases,
    {
        "END is among the returned tokens. It marks the end of the sentence and is not "
        "returned.": "tokens[:-1], total / divisor -> tokens, total / divisor",
        "The length is not used. The score is the log-probability divided by length ** alpha.": [
            "tokens[:-1], total / divisor -> tokens[:-1], total",
            f"{DIVISOR} -> 1",
        ],
        "Finished hypotheses are ranked by log-probability. Rank them by score, and keep those "
        "with the best scores.": "pair: pair[1] -> pair: pair[1] * (len(pair[0]) + 1) ** alpha",
        "END is not counted in the length. It is a token, and its log-probability is part of the "
        "sum.": f"{DIVISOR} -> max(1, length - 1) ** alpha",
        "END is not allowed as the first token. It is a token like the others, and the empty "
        "sentence is a hypothesis like the others.": (
            "value > -math.inf -> value > -math.inf and [*tokens, token] != [END_ID]"
        ),
        "The log-probability is multiplied by length ** alpha. Because it is negative, this makes "
        "long hypotheses worse instead of better: divide.": f"{DIVISOR} -> length**-alpha",
        "The length is multiplied by alpha. Alpha is an exponent: length ** alpha.": (
            f"{DIVISOR} -> length * alpha or 1"
        ),
        "The length is too large by 1. END is counted, START is not.": (
            f"{DIVISOR} -> (length + 1) ** alpha"
        ),
        "This is the length penalty of GNMT. Here, the score is the log-probability / "
        "length ** alpha.": f"{DIVISOR} -> ((5 + length) / 6) ** alpha",
        "A partial hypothesis is extended with its score. Keep its log-probability, and divide "
        "only to compare.": (
            f"{NEXT} -> [(t, total / divisor, state) for t, total, state in partial[:beam_size]]"
        ),
        "The worst hypothesis is first. Return the best one first.": (
            "return finished -> return finished[::-1]"
        ),
        "An extension has only the log-probability of its last token. Add that of the partial "
        "hypothesis.": "total + value -> value",
        "Hypotheses of beam search are missing. Extend each partial hypothesis by every token, and "
        "keep the beam_size most probable extensions that do not end.": [
            f"{TOKENS} -> [(int(log_probabilities.argmax()), float(log_probabilities.max()))]",
            f"{NEXT} -> partial[:1]",
        ],
        "The least probable extensions are kept. Sort them with the most probable one first.": (
            "extension[1], reverse=True -> extension[1]"
        ),
        "Too many extensions are kept. Only the beam_size most probable ones that do not end are "
        "extended further.": [f"{NEXT} -> partial", f"{NEXT} -> partial[: beam_size + 1]"],
        "A hypothesis continues from the state of the one that had its index before, instead of "
        "the one that it extends. Store the state with each hypothesis.": (
            continuing_from("states[min(i, len(states) - 1)]")
        ),
        "All hypotheses continue from the state of the most probable one. Store the state with "
        "each hypothesis.": continuing_from("states[0]"),
        "All hypotheses continue from the state that `step` returned last. Store the state with "
        "each hypothesis.": continuing_from("new_state"),
        "An extension that ends is kept although it is not among the beam_size most probable "
        "extensions (rule 3).": "_ in best -> _ in extensions",
        "A finished hypothesis takes the place of a partial one, so the beam becomes smaller. "
        "Rule 4: the beam_size most probable extensions that do not end are kept.": (
            "each in extensions -> each in best"
        ),
        "More than beam_size finished hypotheses are kept. Keep the beam_size with the best "
        "scores.": (
            f"{KEPT} -> finished",
            f"{FULL} -> len(finished) >= beam_size",
            "finished[-1][1] -> finished[beam_size - 1][1]",
        ),
        "The search stops too early. Rule 5: it continues until beam_size hypotheses are kept and "
        "the most probable partial hypothesis, divided by its present length ** alpha, is not "
        "better than the worst of them.": [
            f"{FULL} and {BEST_LIVE} <= finished[-1][1] -> {FULL}",
            f"{FULL} and {BEST_LIVE} <= finished[-1][1] -> finished",
            "finished[-1][1] -> finished[0][1]",
            "partial[0][1] / -> partial[-1][1] /",
            f"{BEST_LIVE} -> partial[0][1]",
        ],
        "The search stops too late, or only at max_len. Rule 5: once beam_size hypotheses are kept "
        "and the most probable partial hypothesis, scored at its present length, is better than "
        "none of them, it stops.": f"{FULL} -> False",
        "Hypotheses without END are returned. Return finished ones only.": (
            "return finished -> finished += [(t, total / divisor) for t, total, _ in partial]\n"
            "    return finished[:beam_size]"
        ),
        "There is one step too many: max_len counts every token, END included.": (
            "max_len + 1 -> max_len + 2"
        ),
        "The search stops one step early: END may be token number max_len.": (
            "max_len + 1 -> max_len"
        ),
    },
    tidy=lambda answer: [[*pair] if isinstance(pair, tuple) else pair for pair in answer],
)


# Part 4


def top_p(scores, temperature, p):
    probabilities = (scores / temperature).softmax(dim=0)
    ordered, order = probabilities.sort(descending=True, stable=True)
    before = ordered.cumsum(0) - ordered
    values = ordered * (before < p)
    values = values / values.sum()
    result = torch.zeros_like(ordered)
    result[order] = values
    return result


def top_p_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (torch.tensor([0.25, 0.08, 0.36, 0.1, 0.21]).log(), 1.0, 0.615),
        (torch.tensor([0.6, 0.3, 0.1]).log(), 1.0, 0.8),
        (torch.tensor([2.0, 0.0, 1.0, -1.0]), 2.0, 0.85),
        (torch.tensor([2.0, 0.0, 1.0, -1.0]), 0.5, 0.93),
        (torch.tensor([1.0, 3.0, 0.0]), 1.0, 0.1),
        (torch.tensor([0.4, 0.2, 0.2, 0.2]).log(), 1.0, 0.5),
        (torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0]), 3.0, 0.5),
        (torch.tensor([0.5, -2.0, 1.5]), 0.7, 1.0),
        (torch.tensor([0.0, -math.inf, 1.0, 2.0]), 1.5, 0.95),
        (torch.zeros(4), 1.0, 0.5),  # two tokens reach p exactly, in floats as well
        (torch.tensor([998.0, 1000.0, 997.0]), 1.0, 0.9),
        (torch.tensor([-998.0, -1000.0, -997.0]), 1.0, 0.9),
    ]
    if thorough:
        generator = torch.Generator().manual_seed(3)
        for size, temperature, p in [(13, 0.7, 0.6), (29, 1.3, 0.85), (2, 1.0, 0.4), (1, 2.0, 0.3)]:
            asked.append((2 * torch.randn(size, generator=generator), temperature, p))
    yield from cases_of(("scores", "temperature", "p"), asked)


SOFTMAX = "(scores / temperature).softmax(dim=0)"
KEEPING = "(before < p)"
SHARES = "values.sum()"
RESULT = "return result"

TOP_P = Question(
    top_p,
    {"the probabilities": "Expected is one probability for each token, 0 for removed ones."},
    top_p_cases,
    {
        "All of several equally probable tokens are kept. Keep as few tokens as reach p; any of "
        "the equal ones will do.": f"{KEEPING} -> (ordered >= ordered[before < p].min())",
        "The exponentials are compared with p before they are normalised, so they need not sum to "
        "1. Apply the softmax first.": f"{SOFTMAX} -> (scores / temperature).exp()",
        "The exponentials overflow, or all become 0, because scores can have any size. Use "
        "`softmax`, or subtract the largest score before exp.": (
            f"{SOFTMAX} -> (scores / temperature).exp() / (scores / temperature).exp().sum()"
        ),
        "Tokens are removed before the temperature is applied. Apply the temperature first: a "
        "higher one keeps more tokens.": (
            f"{SOFTMAX} -> scores.softmax(dim=0)",
            f"{RESULT} -> return (scores / temperature).where(result > 0, -math.inf).softmax(0)",
        ),
        "Scores are multiplied by the temperature. Divide: a high temperature makes probabilities "
        "more equal.": "scores / temperature -> scores * temperature",
        "The temperature has no effect. (If the *probabilities* are divided by it, normalising "
        "undoes the division: divide the scores.)": "scores / temperature -> scores",
        "The number p is used as a fraction of the highest probability. It is the total "
        "probability that the kept tokens must reach.": f"{KEEPING} -> (ordered >= p * ordered[0])",
        "Removed tokens get the score 0, and exp(0) is 1. Their score must be −inf and their "
        "probability 0.": (
            f"{RESULT} -> return (scores / temperature).where(result > 0, 0.0).softmax(dim=0)"
        ),
        "The kept probabilities do not sum to 1. Divide them by their sum.": f"{SHARES} -> 1",
        "The kept probabilities are divided by p. Their sum is at least p and can be larger: "
        "divide by the sum.": f"{SHARES} -> p",
        "The probabilities are in sorted order. Put each one back at the index of its token.": (
            f"{RESULT} -> return values"
        ),
        "The right probabilities are at the wrong indices: `values[order]` sorts a second time. "
        "`order` contains the indices at which the sorted values are put back.": (
            f"{RESULT} -> return values[order]"
        ),
        "The token with which the sum reaches p is removed. Keep it: without it, the sum is below "
        "p.": [
            f"{KEEPING} -> (before + ordered <= p)",
            f"{KEEPING} -> ((before + ordered <= p) | (before == 0))",
        ],
        "One token too many is kept: the sum reaches p without it.": [
            f"{KEEPING} -> (before - ordered.roll(1) < p)",
            f"{KEEPING} -> (before <= p)",
        ],
        "No token is removed; p has no effect.": f"{KEEPING} -> 1",
        "The least probable tokens are kept. Begin with the most probable one.": (
            "descending=True -> descending=False"
        ),
        "The number p is used as the minimum probability of a token. It is the total probability "
        "that the kept tokens must reach.": f"{KEEPING} -> (ordered >= p)",
        "These are log-probabilities. Return probabilities.": f"{RESULT} -> return result.log()",
        "A softmax is applied to probabilities, which gives removed tokens a positive probability. "
        "Divide by the sum instead.": f"{RESULT} -> return result.softmax(dim=0)",
        "All kept tokens are equally probable. They must keep their proportions.": (
            f"ordered * {KEEPING} -> 1.0 * {KEEPING}"
        ),
    },
    either_precision=True,
)


# Part 5


def costs(words, max_len, beam_size):
    prefixes = [words**n for n in range(max_len)]
    texts = sum(prefixes)
    greedy = max_len
    beam = sum(min(beam_size, number) for number in prefixes)
    return {"texts": texts, "greedy": greedy, "beam": beam}


def cost_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(2, 4, 7), (3, 4, 5), (1, 4, 3), (267, 12, 10)]
    sizes += [(5, 3, 7), (2, 6, 11), (4, 1, 3), (3, 91, 4)] * thorough
    yield from cases_of(("words", "max_len", "beam_size"), sizes)


TEXTS = "sum(prefixes)"
CALLS = "sum(min(beam_size, number) for number in prefixes)"
GREEDY_CALLS = "greedy = max_len -> greedy = max_len"
COUNTED = "The expected value is that of a language of this size."
END_TOO = "END is one of the max_len tokens, so a sentence has at most max_len - 1 words."

COSTS = Question(
    costs,
    {"costs, texts": COUNTED, "costs, greedy": COUNTED, "costs, beam": COUNTED},
    cost_cases,
    {
        "costs, texts: the empty sentence is missing.": f"{TEXTS} -> sum(prefixes[1:])",
        f"costs, texts: {END_TOO}": [
            f"{TEXTS} -> sum(prefixes) + words**max_len",
            f"{TEXTS} -> sum(prefixes) + words**max_len - 1",
        ],
        f"costs, texts: {END_TOO} Shorter sentences are missing, too.": (
            f"{TEXTS} -> words**max_len"
        ),
        "costs, texts: shorter sentences are missing.": f"{TEXTS} -> prefixes[-1]",
        "costs, texts: nothing follows END, but these are all sequences of tokens.": (
            f"{TEXTS} -> (words + 1) ** max_len"
        ),
        "costs, texts: the number is not exact. It is too large for integers of 64 bits and for "
        "the 16 digits of a float: use Python's integers.": [
            f"{TEXTS} -> int(torch.tensor(words).pow(torch.arange(max_len)).sum())",
            f"{TEXTS} -> int(sum(map(float, prefixes)))",
            f"{TEXTS} -> int((words**max_len - 1) / (words - 1)) if words > 1 else max_len",
        ],
        "costs, greedy: the last token needs a call as well.": f"{GREEDY_CALLS} - 1",
        "costs, greedy: the call that reads START already predicts the first token.": (
            f"{GREEDY_CALLS} + 1"
        ),
        "costs, greedy: one call returns the log-probabilities of all tokens.": [
            f"{GREEDY_CALLS} * words",
            f"{GREEDY_CALLS} * (words + 1)",
        ],
        "costs, beam: the beam is not full from the start. There is one prefix of no words, then "
        "one for each word, then one for each pair of words, until there are beam_size.": [
            f"{CALLS} -> beam_size * max_len",
            f"{CALLS} -> 1 + beam_size * (max_len - 1)",
            f"{CALLS} -> 1 + words + beam_size * (max_len - 2)",
            f"{CALLS} -> 1 + min(beam_size, words) * (max_len - 1)",
        ],
        "costs, beam: a finished hypothesis is not extended, so a prefix is extended by words "
        "only.": f"{CALLS} -> sum(min(beam_size, (words + 1) ** n) for n in range(max_len))",
        "costs, beam: the tokens of the last step are not read.": (
            f"{CALLS} -> beam_size * (max_len + 1)"
        ),
        "costs, beam: each partial hypothesis needs a call of its own.": f"{CALLS} -> max_len",
        "costs, beam: one call returns the log-probabilities of all tokens.": (
            f"{CALLS} -> beam_size * max_len * words"
        ),
    },
    tidy=lambda answer: [*answer.values()],
)


def alpha(short, long, constant):
    """Return where log-probability / (constant + length) ** alpha is equal."""
    log_short, log_long = (sum(map(math.log, hypothesis)) for hypothesis in (short, long))
    needed = math.log(log_long / log_short)
    growth = math.log((constant + len(long)) / (constant + len(short)))
    return needed / growth


def tipping_alphas(short, long):
    power = alpha(short, long, 0)
    gnmt = alpha(short, long, 5)
    return power, gnmt


def alpha_cases(thorough: bool) -> Iterator[Case]:
    asked = [([0.5, 0.4], [0.8, 0.5, 0.4]), ([0.9, 0.8], [0.25, 0.3, 0.9])]
    if thorough:
        asked.append(([0.7, 0.6, 0.8], [0.9, 0.9, 0.7, 0.8, 0.6, 0.9, 0.8]))
        asked.append(([0.5, 0.3], [0.9, 0.5, 0.4, 0.6]))
    for short, long in asked:
        yield Case({"short": short, "long": long})


RATIO = "needed = math.log(log_long / log_short)"
NEEDED = "needed / growth"
LOGS = "log_short, log_long ="
ALPHAS = {
    said: edited(alpha, edit)
    for said, edit in {
        "the sign is wrong. Which of the two log-probabilities is further from 0?": (
            f"{NEEDED} -> -{NEEDED}"
        ),
        "the probabilities are compared, but a score contains the log-probability.": (
            f"{RATIO} -> needed = log_short - log_long"
        ),
        "the logarithm of a ratio of probabilities is compared. Form the ratio of the two "
        "log-probabilities, then take its logarithm.": f"{RATIO} -> needed = log_long - log_short",
        "END is not counted. Its probability is a factor as well, and it is one of the tokens.": (
            f"{LOGS} -> short, long = short[:-1], long[:-1]\n    {LOGS}"
        ),
        "END is not counted in the lengths.": f"{LOGS} -> constant -= 1\n    {LOGS}",
        "this is the alpha of the other penalty.": f"{LOGS} -> constant = 5 - constant\n    {LOGS}",
        "alpha is an exponent, not a factor. Take logarithms to solve for it.": (
            f"{NEEDED} -> math.exp(needed - growth)"
        ),
        "the logarithm of the ratio of log-probabilities is missing.": (
            f"{RATIO} -> needed = log_long / log_short"
        ),
        "this is the reciprocal of alpha.": f"{NEEDED} -> growth / needed",
    }.items()
}
SAME_SCORE = "At the expected alpha, both hypotheses have the same score."

TIPPING_ALPHAS = Question(
    tipping_alphas,
    {"tipping_alphas, power": SAME_SCORE, "tipping_alphas, gnmt": SAME_SCORE},
    alpha_cases,
    {
        f"tipping_alphas, {name}: {said}": f"{name} = alpha -> {name} = ALPHAS[{said!r}]"
        for said in ALPHAS
        for name in ("power", "gnmt")
    },
)


def tipping_temperature(higher, lower, ratio):
    return math.log(higher / lower) / math.log(ratio)


def temperature_cases(thorough: bool) -> Iterator[Case]:
    asked = [(0.5, 0.1, 3.0), (0.5, 0.2, 10.0), *[(0.9, 0.01, 1.5), (0.3, 0.25, 4.0)] * thorough]
    for higher, lower, ratio in asked:
        right = tipping_temperature(higher, lower, ratio)
        general = (
            f"this is not the expected value. At the temperature {right:.3f}, the two "
            f"probabilities have the ratio {ratio:g}."
        )
        yield Case({"higher": higher, "lower": lower, "ratio": ratio}, general=general)


LOG_RATIO = "math.log(higher / lower) / math.log(ratio)"

TIPPING_TEMPERATURE = Question(
    tipping_temperature,
    {"the temperature": ""},
    temperature_cases,
    {
        "this is the reciprocal. A high temperature makes probabilities more equal.": (
            f"{LOG_RATIO} -> math.log(ratio) / math.log(higher / lower)"
        ),
        "a temperature divides log-probabilities, not probabilities.": [
            f"{LOG_RATIO} -> higher / lower / ratio",
            f"{LOG_RATIO} -> ratio * lower / higher",
        ],
        "the logarithm of `ratio` is missing.": "math.log(ratio) -> ratio",
        "the sign is wrong.": "higher / lower -> lower / higher",
    },
    named=True,
)


# Part 6


def clones(model, src, beam_size, max_len):
    state = model.start(model.encode(src))
    state = state.select(torch.zeros(beam_size, dtype=torch.long))
    token, totals = torch.full((beam_size,), START_ID), torch.full((beam_size,), -torch.inf)
    totals[0] = 0.0
    texts, ended = [[] for _ in range(beam_size)], []
    for _ in range(max_len):
        logits, new_state = model.step(token, state)
        sums = totals.unsqueeze(1) + logits.log_softmax(dim=-1)
        totals, index = sums.flatten().topk(beam_size)
        parent, token = index // sums.shape[1], index % sums.shape[1]
        state = new_state.select(parent)
        texts = [[*texts[row], new] for row, new in zip(parent.tolist(), token.tolist())]  # noqa: B905
        for row, text in enumerate(texts):
            if text[-1] == END_ID and totals[row] > -torch.inf:
                ended.append((text[:-1], totals[row].item()))
                totals[row] = -torch.inf
    return sorted(ended, key=lambda pair: pair[1], reverse=True)[:beam_size]


def clone_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[Any, ...]] = [
        (FORK, 2, 4),
        (random_table(10, 2, 2), 2, 5),
        (random_table(5, 2, 3), 3, 5),
        (random_table(2, 1, 2), 2, 4),
        (random_table(5, 2, 3), 3, 3),
        (AGAIN, 1, 4),
        ({"": {"a": 0.6, "b": 0.4}}, 7, 3),
    ]
    if thorough:
        widths = ((7, 5), (8, 2), (9, 7))
        asked += [(random_table(seed, 3, 3), width, 6) for seed, width in widths]
    asked.append((Sentence("the cat drinks the milk"), 3, 7))
    return on_tables(("beam_size", "max_len"), asked)


CLONES = Question(
    clones,
    {"clones": ""},
    clone_cases,
    runner=on_a_model,
    tidy=lambda answer: [list(pair) for pair in answer],
)


def ranked(ended, alpha):
    def score(pair):
        tokens, log_probability = pair
        length = len(tokens) + 1
        return log_probability / length**alpha

    return [tokens for tokens, _ in sorted(ended, key=score, reverse=True)]


def ranked_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[Any, float]] = [
        ([([4, 5], -1.0), ([4, 5, 6], -1.3), ([4], -1.5), ([4, 5, 6, 4, 5], -2.0)], 1.0),
        ([([4, 5], -2.0), ([4, 5, 4, 5, 4, 5], -2.1), ([6], -1.9), ([5], -2.2)], 0.0),
        ([([], -0.9), ([4, 5], -2.0), ([5, 5, 5, 6], -3.1)], 1.0),
        ([([4], -1.5), ([4, 5, 6, 4, 5], -2.9), ([4, 5], -1.7)], 0.5),
    ]
    if thorough:
        texts = [([4] * n, -0.3 * n**1.2 - 0.5) for n in (7, 2, 11, 3, 5, 1)]
        asked += [(texts, alpha) for alpha in (0.0, 0.4, 0.8, 1.3)]
    for ended, exponent in asked:
        yield Case({"ended": ended, "alpha": exponent})


LENGTH = "len(tokens) + 1"
QUOTIENT = "log_probability / length**alpha"
PRODUCT = f"{QUOTIENT} -> log_probability * length**alpha"

RANKED = Question(
    ranked,
    {
        "the ranking": "Expected are the token lists, the best first, by log-probability / "
        "(number of tokens, END included) ** alpha."
    },
    ranked_cases,
    {
        "the log-probability is still multiplied, and END is still not counted.": (
            f"{LENGTH} -> len(tokens)",
            PRODUCT,
        ),
        "the length makes the score of a long hypothesis worse instead of better. Divide the "
        "log-probability, a negative number, by length ** alpha.": PRODUCT,
        "END is not counted in the length. It is a token, and its log-probability is part of the "
        "sum.": f"{LENGTH} -> len(tokens)",
        "the worst hypothesis is first.": "reverse=True -> reverse=False",
        "alpha has no effect.": f"{QUOTIENT} -> log_probability",
        "the length is multiplied by alpha. Alpha is an exponent: length ** alpha.": (
            f"{QUOTIENT} -> log_probability / (length * alpha or 1)"
        ),
    },
    named=True,
    in_all_cases=True,
)


def sampled(step, max_len, temperature, p, numbers):
    token, state, tokens = START_ID, None, []
    for number in numbers[:max_len]:
        log_probabilities, state = step(token, state)
        probabilities = (log_probabilities / temperature).softmax(dim=0)
        ordered, order = probabilities.sort(descending=True)
        measured = ordered
        before = measured.cumsum(0) - measured
        ordered = ordered * (before < p)
        ordered = ordered / ordered.sum()
        index = int((ordered.cumsum(0) <= number).sum())
        last = int((ordered > 0).sum()) - 1
        token = int(order[min(index, last)])
        if token == END_ID:
            break
        tokens.append(token)
    return tokens


EVER_THE_SAME: Table = {
    prefix: {"a": 0.5, "b": 0.3, "c": 0.15, "END": 0.05}
    for prefix in ("", *NAMES, *map(" ".join, itertools.product(NAMES, repeat=2)))
}


def sampled_cases(thorough: bool) -> Iterator[Case]:
    asked: list[tuple[Any, ...]] = [
        (EVER_THE_SAME, 3, 3.0, 0.7, [0.46, 0.93, 0.57]),
        ({"": {"a": 0.6, "b": 0.3, "END": 0.1}}, 3, 0.3, 0.98, [0.75, 0.5, 0.5]),
        (TWO_WORDS, 5, 1.0, 0.5, [0.99, 0.9, 0.99, 0.9, 0.9]),
        (AGAIN, 3, 2.0, 0.85, [0.2, 0.45, 0.9, 0.5]),
        (EVER_THE_SAME, 2, 3.0, 0.7, [0.65, 0.93]),
        ({"": {"a": 0.5, "b": 0.3, "c": 0.2}}, 1, 1.0, 0.6, [1.0]),
        ({"": {"a": 0.5, "b": 0.3, "c": 0.2}}, 1, 1.0, 1.0, [1.0]),
        (EVER_THE_SAME, 2, 3.0, 0.7, [0.46, 0.93, 0.57]),
        # Halves and quarters, so p is reached without rounding.
        ({"": {"a": 0.5, "b": 0.25, "c": 0.25}}, 1, 1.0, 0.5, [0.75]),
    ]
    if thorough:
        generator = torch.Generator().manual_seed(5)
        for seed, temperature, p in [(1, 0.5, 0.9), (2, 2.0, 0.6), (3, 1.5, 1.0), (4, 1.0, 0.3)]:
            numbers = [round(u, 3) for u in torch.rand(7, generator=generator).tolist()]
            asked.append((random_table(seed, 3, 3), 7, temperature, p, numbers))
    return on_tables(("max_len", "temperature", "p", "numbers"), asked)


PAST = "last = int((ordered > 0).sum()) - 1 -> last = len(order) - 1"
UNSHARED = "ordered / ordered.sum() -> ordered"
# In each group, at most one mistake is made.
SAMPLING_MISTAKES: list[dict[str, tuple[str, ...]]] = [
    {
        "the probabilities are divided by the temperature and then normalised, which undoes the "
        "division": ("log_probabilities / temperature -> log_probabilities",),
        "tokens are removed before the temperature is applied; the temperature comes first": (
            "measured = ordered -> measured = log_probabilities.softmax(dim=0)[order]",
        ),
    },
    {
        "the token with which the sum reaches p is removed, although it must be kept": (
            "before < p -> before + measured <= p",
        ),
        "where the sum reaches p exactly, one token too many is kept": (
            "before < p -> before <= p",
        ),
    },
    {
        "the number 1 selects a token that was removed; it must select the last of the kept ones": (
            PAST,
        ),
        "the kept probabilities do not sum to 1, so a number above their sum selects the least "
        "probable token": (UNSHARED, PAST),
        "the kept probabilities do not sum to 1, so all numbers above their sum select the last "
        "kept token": (UNSHARED,),
    },
    {
        "more than max_len numbers are used; there can be more of them": (
            "numbers[:max_len] -> numbers",
        ),
    },
]


def mistakes_of_sampling() -> dict[str, tuple[str, ...]]:
    """Return up to three mistakes together, as few as give the same samples."""
    choices = itertools.product(*([("", ()), *group.items()] for group in SAMPLING_MISTAKES))
    several = [[each for each in choice if each[0]] for choice in choices]
    found = {}
    for made in sorted(several, key=len):
        edits = tuple(edit for _, each in made for edit in each)
        results = [edited(sampled, edits)(*each.inputs.values()) for each in sampled_cases(False)]
        if len(made) <= 3:
            found.setdefault(str(results), ("; and ".join(said for said, _ in made), edits))
    return {f"{said}.": edits for said, edits in found.values() if said}


SAMPLED = Question(
    sampled,
    {"the sample": "Expected are the tokens, without START and END."},
    sampled_cases,
    mistakes_of_sampling(),
    named=True,
    in_all_cases=True,
)


PARTS = {
    "greedy_loop": [GREEDY],
    "tables": [Question(greedy_loses), Question(beam_loses), Question(empty_wins)],
    "beam": [BEAM],
    "nucleus": [TOP_P],
    "predictions": [COSTS, TIPPING_ALPHAS, TIPPING_TEMPERATURE],
    "bug_hunt": [CLONES, RANKED, SAMPLED],
}
"""The questions of each check, in the order of its arguments."""
