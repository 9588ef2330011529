"""Plausible wrong answers to 05_decoding, with words of the message that each gets."""

import math

import torch
from right_answers_05 import (
    beam_loses,
    beam_search,
    clones,
    costs,
    empty_wins,
    greedy,
    greedy_loses,
    ranked,
    sampled,
    tipping_alphas,
    tipping_temperature,
    top_p,
)

from attentively.vocabulary import END_ID, START_ID

# Part 1


def greedy_with(*faults):
    def greedy(step, max_len):
        token, state, tokens, total, product = START_ID, None, [], 0.0, 1.0
        first, added = None, 0.0
        if "no limit" in faults:
            max_len = 99
        if "start kept" in faults:
            tokens.append(START_ID)
        for _ in range(max_len + ("one more" in faults) - ("one fewer" in faults)):
            values, after = step(START_ID if "start again" in faults else token, state)
            state = None if "no state" in faults else after
            first = first or after
            state = first if "first state" in faults else state
            token = int(values.exp().argmax() if "least" not in faults else _least(values))
            if "words only" in faults:
                token = 4 + int(values[4:].argmax())
            added += float(values[token].exp())
            if token == END_ID and "end uncounted" in faults:
                break
            total, product = total + float(values[token]), product * float(values[token].exp())
            if token == END_ID and "on" not in faults:
                if "end kept" in faults:
                    tokens.append(token)
                break
            if token != END_ID or "end kept" in faults:
                tokens.append(token)
        if "tokens only" in faults:
            return tokens
        if "turned" in faults:
            return total, tokens
        said = {"product": product, "added": added, "minus": -total, "bits": total / math.log(2)}
        said |= {"mean": total / (len(tokens) + 1), "last": float(values[token])}
        chosen = [said[fault] for fault in faults if fault in said]
        return tokens, chosen[0] if chosen else total

    return greedy


def _least(values):
    return values.masked_fill(values.isinf(), math.inf).argmin()


def greedy_with_state_first(step, max_len):
    return greedy(lambda token, state: step(state, token), max_len)


GREEDIES = [
    (greedy_with("end kept"), "END is among the returned tokens"),
    (greedy_with("start kept"), "START is among the returned tokens"),
    (greedy_with("end uncounted"), "The log-probability of END is missing"),
    (greedy_with("product"), "This is the probability, a product"),
    (greedy_with("added"), "Probabilities are added"),
    (greedy_with("mean"), "the mean over the tokens"),
    (greedy_with("last"), "This is the log-probability of the last token alone"),
    (greedy_with("minus"), "The sign is wrong: the logarithm"),
    (greedy_with("bits"), "This is a logarithm to base 2"),
    (greedy_with("on"), "continues after END until max_len"),
    (greedy_with("on", "end kept"), "continues after END until max_len"),
    (greedy_with("least"), "The least probable token is chosen"),
    (greedy_with("first state"), "computed from the state after START"),
    (greedy_with("no state"), "The first call is step(START_ID, None)"),
    (greedy_with("start again"), "Every step reads START"),
    (greedy_with("one more"), "There is one token too many"),
    (greedy_with("one fewer"), "The search stops one step early"),
    (greedy_with("words only"), "END is never chosen"),
    (greedy_with("no limit"), "It must stop after max_len steps"),
    (greedy_with("turned"), "The two results are in the wrong order"),
    (greedy_with("tokens only"), "Expected a pair, `return tokens, log_probability`"),
    (greedy_with_state_first, "Your code raises TypeError"),
]

# Part 2


def nothing():
    return None


def a_list():
    return [{"a": 0.5, "END": 0.5}]


def without_an_empty_prefix():
    return {"a": {"END": 1.0}}


def with_end_forgotten():
    return {"": {"a": 0.51, "b": 0.49}, "a": {"a": 0.34, "b": 0.33}}


def with_a_negative_share():
    return {"": {"a": 1.1, "b": -0.1}}


def with_another_word():
    return {"": {"a": 0.51, "c": 0.49}, "a": {"a": 0.34, "b": 0.33, "END": 0.33}}


def with_a_strange_prefix():
    return {"": {"a": 0.51, "b": 0.49}, ("a",): {"a": 0.34, "b": 0.33, "END": 0.33}}


def with_two_spaces():
    return {"": {"a": 0.51, "b": 0.49}, "a  b": {"a": 0.34, "b": 0.33, "END": 0.33}}


def with_many_rows():
    return {"": {"a": 1.0}, **{" ".join("a" * n): {"a": 1.0} for n in range(1, 90)}}


def greedy_wins():
    return {"": {"a": 0.6, "b": 0.4}, "a": {"a": 0.9, "END": 0.1}}


def loses_by_little():
    return {"": {"a": 0.6, "b": 0.4}, "a": {"a": 0.4, "b": 0.35, "END": 0.25}}


def loses_by_a_tie():
    return {"": {"a": 0.5, "b": 0.5}, "a": {"a": 0.4, "b": 0.3, "END": 0.3}}


def loses_beyond_a_beam_of_two():
    third = {"a": 0.34, "b": 0.33, "END": 0.33}
    return {
        "": {"a": 0.6, "b": 0.4},
        "a": {"a": 0.5, "b": 0.5},
        "b": {"a": 0.7, "b": 0.3},
        "a a": third,
        "a b": third,
    }


def three_miss_it_too():
    return {
        "": {"a": 0.5, "b": 0.2, "c": 0.18, "END": 0.12},
        "a": {"a": 0.4, "b": 0.3, "c": 0.3},
        "b": {"a": 0.4, "b": 0.3, "c": 0.3},
        "c": {"a": 0.55, "b": 0.45},
        "a a": {"a": 0.4, "b": 0.3, "c": 0.3},
        "a b": {"a": 0.4, "b": 0.3, "c": 0.3},
        "a c": {"a": 0.4, "b": 0.3, "c": 0.3},
        "b a": {"a": 0.4, "b": 0.3, "c": 0.3},
    }


def greedy_writes_little():
    return {"": {"a": 0.6, "END": 0.4}, "a": {"b": 0.6, "END": 0.4}}


def empty_is_behind():
    return {"": {"a": 0.8, "END": 0.2}, "a": {"a": 0.9, "b": 0.1}, "a a": {"b": 0.9, "a": 0.1}}


def greedy_writes_nothing():
    return {"": {"a": 0.4, "END": 0.6}, "a": {"a": 0.8, "b": 0.2}, "a a": {"b": 0.8, "a": 0.2}}


def no_penalty_mends_it():
    third = {"a": 0.34, "b": 0.33, "END": 0.33}
    return {"": {"a": 0.51, "END": 0.49}, "a": third, "a a": third, "a a a": third}


def long_text_dropped():
    """Greedy's text has the best mean, and a beam of 2 drops its prefix."""
    third = {"a": 0.34, "b": 0.33, "END": 0.33}
    return {
        "": {"a": 0.38, "END": 0.34, "b": 0.28},
        "a": third,
        "b": {"a": 0.5, "b": 0.5},
        "a a": {"a": 0.95, "b": 0.05},
        "b a": third,
        "b b": third,
    }


def finds_by_a_tie():
    """The empty text is the likeliest; at the first step END and b are equally likely."""
    third = {"a": 0.34, "b": 0.33, "END": 0.33}
    return {"": {"a": 0.4, "b": 0.3, "END": 0.3}, "a": third, "b": third}


def empty_wins_by_a_tie():
    return {
        "": {"a": 0.5, "END": 0.25, "b": 0.25},
        "a": {"a": 0.7, "b": 0.3},
        "a a": {"b": 0.65, "a": 0.35},
        "a a b": {"END": 0.95, "a": 0.05},
    }


def table_set(first=greedy_loses, second=beam_loses, third=empty_wins):
    return first, second, third


TABLES = [
    (table_set(nothing), "None: is there a `return`?"),
    (table_set(a_list), "expected a dict of dicts"),
    (table_set(without_an_empty_prefix), "the row of the empty prefix"),
    (table_set(with_end_forgotten), "sum to 0.67; they must sum to 1. END is a token"),
    (table_set(with_a_negative_share), "a probability is a number from 0 to 1"),
    (table_set(with_another_word), "contains 'c'; the tokens are a, b, END"),
    (
        table_set(with_a_strange_prefix),
        "must be a string of the words a and b, separated by spaces",
    ),
    (table_set(with_two_spaces), "write one space between two words"),
    (table_set(with_many_rows), "At most 60 are allowed"),
    (table_set(greedy_wins), "1.00 times as probable"),
    (table_set(loses_by_little), "1.67 times as probable; the factor must be 2"),
    (table_set(loses_by_a_tie), "equally probable tokens in either order"),
    (table_set(loses_beyond_a_beam_of_two), "a beam of size 2 misses the most probable sentence"),
    (table_set(second=greedy_loses), "beam_loses: a beam of size 2 outputs 'b' (0.49)"),
    (table_set(second=three_miss_it_too), "beam_loses: a beam of size 3 misses the most probable"),
    (table_set(third=greedy_writes_little), "it must output three or more words"),
    (table_set(third=greedy_writes_nothing), "greedy search outputs 'the empty sentence'"),
    (table_set(third=empty_is_behind), "END must be the second most probable token at the start"),
    (
        table_set(third=no_penalty_mends_it),
        "with alpha = 1, a beam of size 2 outputs 'a b' (0.168) instead",
    ),
    (table_set(third=no_penalty_mends_it), "Compare these means"),
    (table_set(third=long_text_dropped), "but the beam drops one of its prefixes"),
    (table_set(finds_by_a_tie), "equally probable tokens in either order"),
    (table_set(third=empty_wins_by_a_tie), "equally probable tokens in either order"),
]

# Part 3


def beam_with(*faults):
    """The search of part 3 with faults, on purpose written unlike the one that the checks use."""

    def beam_search(step, beam_size, max_len, alpha):
        def score(total, length):
            length -= "end uncounted" in faults and length > 1
            if "no penalty" in faults:
                return total
            if "factor" in faults:
                return total / (length * alpha) if alpha else total
            if "gnmt" in faults:
                return total * (6 / (5 + length)) ** alpha
            length += "start counted" in faults
            return total * length**alpha if "multiplied" in faults else total / length**alpha

        values, state = step(START_ID, None)
        going, found = [((), 0.0, values, state)], []
        steps = max_len + ("one more" in faults) - ("one fewer" in faults)
        for length in range(1, steps + 1):
            extensions = []
            for tokens, total, values, state in going:
                kept = values.topk(1 if "best of each" in faults else len(values))
                for value, token in zip(*map(torch.Tensor.tolist, kept), strict=True):
                    sum_ = value if "no sum" in faults else total + value
                    if value > -math.inf or "impossible" in faults:
                        extensions.append((sum_, (*tokens, token), state))
            extensions.sort(key=lambda each: -each[0])
            first = extensions[:beam_size]
            for total, tokens, _ in extensions if "ends anywhere" in faults else first:
                if tokens[-1] == END_ID:
                    kept = tokens if "end kept" in faults else tokens[:-1]
                    order = total if "raw order" in faults else score(total, length)
                    found.append((order, score(total, length), kept))
            found.sort(key=lambda each: -each[0])
            if "more kept" not in faults:
                found = found[:beam_size]
            ahead = first if "shrinking" in faults else extensions
            ahead = [each for each in ahead if each[1][-1] != END_ID]
            if "all" not in faults:
                ahead = ahead[:beam_size]
            if not ahead:
                break
            full, best = len(found) >= beam_size, ahead[0][0] / length**alpha
            if "stop unpenalised" in faults:
                best = ahead[0][0]
            if "worst prefix" in faults:
                best = ahead[-1][0] / length**alpha
            worst = found[0 if "against the best" in faults else beam_size - 1] if full else None
            if full and "never stops" not in faults and ("early" in faults or best <= worst[1]):
                break
            if found and "first end" in faults:
                break
            states = [state for _, _, state in ahead]
            if "by place" in faults:
                states = [going[min(i, len(going) - 1)][3] for i in range(len(ahead))]
            if "first state" in faults:
                states = [going[0][3]] * len(ahead)
            if "last state" in faults:
                states = [going[-1][3]] * len(ahead)
            if "score carried" in faults:
                ahead = [(total / length**alpha, *rest) for total, *rest in ahead]
            if length == steps:
                break
            going = [
                (tokens, total, *step(tokens[-1], state))
                for (total, tokens, _), state in zip(ahead, states, strict=True)
            ]
        if "unfinished" in faults:
            found += [(0, score(total, max_len), tokens) for total, tokens, _ in ahead]
        answer = [(list(tokens), score) for _, score, tokens in found]
        answer = answer if "more kept" in faults else answer[:beam_size]
        if "texts only" in faults:
            return [tokens for tokens, _ in answer]
        return answer[::-1] if "worst first" in faults else answer

    return beam_search


def best_only(step, beam_size, max_len, alpha):
    return beam_search(step, beam_size, max_len, alpha)[0]


TOO_EARLY = "The search stops too early"
BEAMS = [
    (beam_with("end kept"), "END is among the returned tokens"),
    (beam_with("no penalty"), "The length is not used"),
    (beam_with("raw order"), "Finished hypotheses are ranked by log-probability"),
    (beam_with("end uncounted"), "END is not counted in the length"),
    (beam_with("multiplied"), "is multiplied by length ** alpha"),
    (beam_with("worst first"), "The worst hypothesis is first"),
    (beam_with("no sum"), "Add that of the partial hypothesis"),
    (beam_with("best of each"), "Extend it by every token"),
    (beam_with("all"), "All extensions are kept"),
    (beam_with("by place"), "the one that had its index before"),
    (beam_with("first state"), "continue from the state of the most probable one"),
    (beam_with("last state"), "from the state that `step` returned last"),
    (beam_with("factor"), "Alpha is an exponent: length ** alpha"),
    (beam_with("gnmt"), "This is the length penalty of GNMT"),
    (beam_with("start counted"), "END is counted, START is not"),
    (beam_with("score carried"), "A partial hypothesis is extended with its score"),
    (beam_with("ends anywhere"), "is kept although it is not among the beam_size most probable"),
    (beam_with("shrinking"), "the beam becomes smaller"),
    (beam_with("more kept"), "More than beam_size finished hypotheses are kept"),
    (beam_with("early"), TOO_EARLY),
    (beam_with("first end"), TOO_EARLY),
    (beam_with("against the best"), TOO_EARLY),
    (beam_with("stop unpenalised"), TOO_EARLY),
    (beam_with("worst prefix"), TOO_EARLY),
    (beam_with("never stops"), "The search always runs until max_len"),
    (beam_with("unfinished"), "Hypotheses without END are returned"),
    (beam_with("impossible"), "Extensions with probability 0"),
    (beam_with("one more"), "There is one step too many"),
    (beam_with("one fewer"), "stops one step early"),
    (beam_with("texts only"), "a list of pairs (tokens, score)"),
    (best_only, "a list of pairs (tokens, score)"),
    (greedy_with(), "Your code raises TypeError"),
]

# Part 4


def top_p_with(*faults):
    def top_p(scores, temperature, p):
        if "hot" in faults:
            temperature = 1 / temperature
        if "cold" in faults:
            temperature = 1.0
        if "shares" in faults:
            probabilities = scores.softmax(0) / temperature
            probabilities = probabilities / probabilities.sum()
        else:
            probabilities = (scores / temperature).softmax(0)
        if "no softmax" in faults:
            probabilities = (scores / temperature).exp()
        deciding = scores.softmax(0) if "cut first" in faults else probabilities
        values, order = deciding.sort(descending="rarest" not in faults)
        running = values.cumsum(0)
        kept = running - values < p
        if "crossing" in faults:
            kept = running <= p
        if "at the edge" in faults:
            kept = running - values <= p
        if "first kept" in faults:
            kept[0] = True
        if "one more" in faults:
            kept = kept.roll(1)
            kept[0] = True
        if "not cut" in faults:
            kept[:] = True
        if "threshold" in faults:
            kept = values >= p
        if "fraction" in faults:
            kept = values >= p * values[0]
        if "ties" in faults:
            kept = values >= values[kept].min()
        if "sorted" in faults or "gathered" in faults:
            cut = values * kept
            return (cut[order] if "gathered" in faults else cut) / cut.sum()
        mask = torch.zeros_like(kept)
        mask[order] = kept
        if "zero score" in faults:
            return (scores / temperature).where(mask, 0.0).softmax(0)
        cut = probabilities * mask
        if "unshared" in faults or "over p" in faults:
            return cut / p if "over p" in faults else cut
        cut = mask / mask.sum() if "even" in faults else cut / cut.sum()
        if "logarithms" in faults:
            return cut.log()
        return cut.softmax(0) if "softmax again" in faults else cut

    return top_p


def nothing_returned(scores, temperature, p):
    top_p(scores, temperature, p)


NUCLEI = [
    (top_p_with("unshared"), "The kept probabilities do not sum to 1"),
    (top_p_with("over p"), "The kept probabilities are divided by p"),
    (top_p_with("no softmax"), "The exponentials are compared with p"),
    (top_p_with("sorted"), "The probabilities are in sorted order"),
    (top_p_with("gathered"), "at the wrong indices"),
    (top_p_with("crossing", "unshared"), "The probabilities sum to 0.36. They must sum to 1."),
    (top_p_with("crossing"), "The token with which the sum reaches p is removed"),
    (top_p_with("crossing", "first kept"), "The token with which the sum reaches p is removed"),
    (top_p_with("one more"), "One token too many is kept"),
    (top_p_with("at the edge"), "One token too many is kept"),
    (top_p_with("cold"), "The temperature has no effect"),
    (top_p_with("cut first"), "Tokens are removed before the temperature"),
    (top_p_with("hot"), "multiplied by the temperature"),
    (top_p_with("shares"), "normalising undoes the division"),
    (top_p_with("not cut"), "No token is removed"),
    (top_p_with("rarest"), "The least probable tokens are kept"),
    (top_p_with("threshold"), "p is used as the minimum probability"),
    (top_p_with("fraction"), "as a fraction of the highest probability"),
    (top_p_with("ties"), "All of several equally probable tokens are kept"),
    (top_p_with("zero score"), "and exp(0) is 1"),
    (top_p_with("logarithms"), "These are log-probabilities"),
    (top_p_with("softmax again"), "A softmax is applied to probabilities"),
    (top_p_with("even"), "All kept tokens are equally probable"),
    (nothing_returned, "None: is there a `return`?"),
]

# Part 5


def costs_with(**changes):
    def costs_changed(words, max_len, beam_size):
        answer = costs(words, max_len, beam_size)
        return answer | {key: change(words, max_len, beam_size) for key, change in changes.items()}

    return costs_changed, tipping_alphas, tipping_temperature


def alphas_with(name, change):
    def tipping_changed(short, long):
        power, gnmt = tipping_alphas(short, long)
        wrong = change(short, long)
        return (wrong, gnmt) if name == "power" else (power, wrong)

    return costs, tipping_changed, tipping_temperature


def temperature_with(change):
    return costs, tipping_alphas, change


def summed(text):
    return math.log(math.prod(text))


def without_a_key(words, max_len, beam_size):
    return {"texts": costs(words, max_len, beam_size)["texts"]}


def one_alpha(short, long):
    return tipping_alphas(short, long)[0]


PREDICTIONS = [
    ((nothing_returned, tipping_alphas, tipping_temperature), "Your code raises"),
    ((without_a_key, tipping_alphas, tipping_temperature), "the key 'greedy' is missing"),
    (
        costs_with(texts=lambda w, n, k: sum(w**i for i in range(1, n))),
        "the empty sentence is missing",
    ),
    (
        costs_with(texts=lambda w, n, k: sum(w**i for i in range(n + 1))),
        "END is one of the max_len tokens",
    ),
    (
        costs_with(texts=lambda w, n, k: (w**n - 1) // (w - 1)),
        "Your code raises ZeroDivisionError",
    ),
    (costs_with(texts=lambda w, n, k: w**n), "Shorter sentences are missing, too"),
    (costs_with(texts=lambda w, n, k: w ** (n - 1)), "shorter sentences are missing"),
    (costs_with(texts=lambda w, n, k: (w + 1) ** n), "nothing follows END"),
    (costs_with(greedy=lambda w, n, k: n - 1), "the last token needs a call as well"),
    (costs_with(greedy=lambda w, n, k: n + 1), "the call that reads START already predicts"),
    (costs_with(greedy=lambda w, n, k: n * w), "one call returns the log-probabilities of all"),
    (costs_with(beam=lambda w, n, k: n * k), "the beam is not full from the start"),
    (costs_with(beam=lambda w, n, k: 1 + (n - 1) * k), "the beam is not full from the start"),
    (costs_with(beam=lambda w, n, k: 1 + w + (n - 2) * k), "then one for each pair of words"),
    (
        costs_with(beam=lambda w, n, k: sum(min(k, (w + 1) ** i) for i in range(n))),
        "a finished hypothesis is not extended",
    ),
    (costs_with(beam=lambda w, n, k: n), "each partial hypothesis needs a call of its own"),
    (costs_with(beam=lambda w, n, k: n * k * w), "one call returns the log-probabilities of all"),
    ((costs, one_alpha, tipping_temperature), "Expected a pair"),
    (
        alphas_with("power", lambda s, l: -tipping_alphas(s, l)[0]),
        "tipping_alphas, power: the sign is wrong",
    ),
    (
        alphas_with(
            "power", lambda s, l: math.log(math.prod(s) / math.prod(l)) / math.log(len(l) / len(s))
        ),
        "the probabilities are compared",
    ),
    (
        alphas_with(
            "gnmt",
            lambda s, l: math.log(summed(l) / summed(s)) / math.log((4 + len(l)) / (4 + len(s))),
        ),
        "tipping_alphas, gnmt: END is not counted in the lengths",
    ),
    (
        alphas_with(
            "power", lambda s, l: math.log(math.prod(l) / math.prod(s)) / math.log(len(l) / len(s))
        ),
        "the logarithm of a ratio of probabilities is compared",
    ),
    (
        alphas_with("power", lambda s, l: tipping_alphas(s[:-1], l[:-1])[0]),
        "tipping_alphas, power: END is not counted. Its probability",
    ),
    (
        alphas_with("gnmt", lambda s, l: tipping_alphas(s[:-1], l[:-1])[1]),
        "tipping_alphas, gnmt: END is not counted. Its probability",
    ),
    (
        alphas_with("gnmt", lambda s, l: tipping_alphas(s, l)[0]),
        "this is the alpha of the other penalty",
    ),
    (
        alphas_with("power", lambda s, l: summed(l) / summed(s) / (len(l) / len(s))),
        "alpha is an exponent, not a factor",
    ),
    (
        alphas_with("power", lambda s, l: summed(l) / summed(s) / math.log(len(l) / len(s))),
        "the logarithm of the ratio of log-probabilities is missing",
    ),
    (
        alphas_with("gnmt", lambda s, l: 1 / tipping_alphas(s, l)[1]),
        "this is the reciprocal of alpha",
    ),
    (
        alphas_with("gnmt", lambda s, l: 1.0),
        "At the expected alpha, both hypotheses have the score",
    ),
    (
        temperature_with(lambda a, b, n: math.log(n) / math.log(a / b)),
        "tipping_temperature: this is the reciprocal",
    ),
    (temperature_with(lambda a, b, n: a / b / n), "divides log-probabilities, not probabilities"),
    (temperature_with(lambda a, b, n: n * b / a), "divides log-probabilities, not probabilities"),
    (temperature_with(lambda a, b, n: math.log(a / b) / n), "the logarithm of `ratio` is missing"),
    (
        temperature_with(lambda a, b, n: math.log(b / a) / math.log(n)),
        "tipping_temperature: the sign is wrong",
    ),
    (temperature_with(lambda a, b, n: 1.0), "the two probabilities have the ratio"),
]

# Part 6


def clones_with(*faults):
    def clones(model, src, beam_size, max_len):
        state = model.start(model.encode(src))
        state = state.select(torch.zeros(beam_size, dtype=torch.long))
        token, totals = torch.full((beam_size,), START_ID), torch.zeros(beam_size)
        if "alike" not in faults:
            totals[1:] = -torch.inf
        texts, ended = [[] for _ in range(beam_size)], []
        for _ in range(max_len):
            logits, state = model.step(token, state)
            sums = totals.unsqueeze(1) + logits.log_softmax(dim=-1)
            totals, index = sums.flatten().topk(beam_size)
            parent, token = index // sums.shape[1], index % sums.shape[1]
            texts = [[*texts[row], new] for row, new in zip(parent.tolist(), token.tolist())]  # noqa: B905
            if "states" not in faults:
                state = state.select(parent.sort().values if "sorted" in faults else parent)
            for place, text in enumerate(texts):
                if text[-1] == END_ID and totals[place] > -torch.inf:
                    kept = text if "end kept" in faults else text[:-1]
                    ended.append((kept, totals[place].item()))
                    if "go on" not in faults:
                        totals[place] = -torch.inf
            if "early" in faults and len(ended) >= beam_size:
                break
        ended.sort(key=lambda pair: pair[1], reverse="worst first" not in faults)
        return ended if "all" in faults else ended[:beam_size]

    return clones


def ranked_with(*faults):
    def ranked(ended, alpha):
        def score(pair):
            length = len(pair[0]) + ("end" not in faults)
            if "factor" in faults:
                return pair[1] / (length * alpha) if alpha else pair[1]
            return pair[1] * length**alpha if "times" in faults else pair[1] / length**alpha

        order = sorted(ended, key=score, reverse="turned" not in faults)
        return order if "pairs" in faults else [tokens for tokens, _ in order]

    return ranked


def by_log_probability(ended, alpha):
    return ranked(ended, 0.0)


def sampled_with(*faults):
    def sampled(step, max_len, temperature, p, numbers):
        token, state, tokens = START_ID, None, []
        for number in numbers if "endless" in faults else numbers[:max_len]:
            values, state = step(token, state)
            if "shares" in faults:
                shares = values.exp() / temperature
                shares = shares / shares.sum()
            else:
                shares = (values / temperature).softmax(0)
            ordered, order = shares.sort(descending=True)
            if "cut first" in faults:
                cut = values.softmax(0)[order]
                ordered[cut.cumsum(0) - cut >= p] = 0.0
            elif "crossing" in faults:
                ordered[ordered.cumsum(0) > p] = 0.0
            elif "one more" in faults:
                ordered[ordered.cumsum(0) - ordered > p] = 0.0
            else:
                ordered[ordered.cumsum(0) - ordered >= p] = 0.0
            past = {"past", "unshared"} & {*faults} and "clamped" not in faults
            last = len(order) if past else int((ordered > 0).sum())
            if "unshared" not in faults and ordered.any():
                ordered = ordered / ordered.sum()
            place = int((ordered.cumsum(0) <= number).sum())
            token = int(order[min(place, last - 1)])
            if token == END_ID:
                break
            tokens.append(token)
        return tokens

    return sampled


def hunted(first=clones, second=ranked, third=sampled):
    return first, second, third


HUNTS = [
    (hunted(clones_with("alike", "states")), "the same hypothesis is returned 2 times"),
    (hunted(clones_with("alike")), "the same hypothesis is returned 2 times"),
    (hunted(clones_with("states")), "must continue from the state of the one that it extends"),
    (hunted(clones_with("sorted")), "must continue from the state of the one that it extends"),
    (hunted(clones_with("end kept")), "is returned with the log-probability"),
    (hunted(clones_with("worst first")), "the most probable first"),
    (hunted(clones_with("all")), "clones: Expected are pairs (tokens, log-probability)"),
    (hunted(clones_with("early")), "that finish within max_len steps"),
    (hunted(second=ranked_with("times", "end")), "still multiplied, and END is still not counted"),
    (hunted(second=ranked_with("times")), "the score of a long hypothesis becomes worse"),
    (hunted(second=ranked_with("end")), "END is not counted in the length"),
    (hunted(second=ranked_with("factor")), "Alpha is an exponent: length ** alpha"),
    (hunted(second=ranked_with("turned")), "ranked: the worst hypothesis is first"),
    (hunted(second=ranked_with("pairs")), "ranked: expected are the token lists, the best first"),
    (hunted(second=by_log_probability), "ranked: alpha has no effect"),
    (
        hunted(third=sampled_with("shares", "crossing", "unshared")),
        "which undoes the division; and the token",
    ),
    (hunted(third=sampled_with("shares")), "which undoes the division"),
    (hunted(third=sampled_with("crossing")), "the token with which the sum reaches p is removed"),
    (hunted(third=sampled_with("unshared")), "a number above their sum selects the least probable"),
    (
        hunted(third=sampled_with("unshared", "clamped")),
        "all numbers above their sum select the last kept token",
    ),
    (
        hunted(third=sampled_with("crossing", "unshared")),
        "must be kept; and the kept probabilities",
    ),
    (hunted(third=sampled_with("past")), "sampled: the number 1 selects a token that was removed"),
    (hunted(third=sampled_with("endless")), "sampled: max_len has no effect"),
    (hunted(third=sampled_with("one more")), "sampled: where the sum reaches p exactly"),
    (hunted(third=sampled_with("cut first")), "sampled: tokens are removed before the temperature"),
    (
        hunted(third=sampled_with("cut first", "past")),
        "the last of the kept ones; and tokens are removed",
    ),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "greedy_loop": GREEDIES,
    "tables": TABLES,
    "beam": BEAMS,
    "nucleus": NUCLEI,
    "predictions": PREDICTIONS,
    "bug_hunt": HUNTS,
}

# Whole notebooks handed in
RANKED_BY_LOG_PROBABILITY = """
def beam_search(step, beam_size, max_len, alpha):
    going, found = [([], 0.0, None)], []
    for length in range(1, max_len + 1):
        extensions = []
        for tokens, total, state in going:
            values, after = step(tokens[-1] if tokens else START_ID, state)
            for token, value in enumerate(values.tolist()):
                if value > -math.inf:
                    extensions.append(([*tokens, token], total + value, after))
        extensions.sort(key=lambda extension: extension[1], reverse=True)
        found += [(t[:-1], total) for t, total, _ in extensions[:beam_size] if t[-1] == END_ID]
        found = sorted(found, key=lambda pair: pair[1], reverse=True)[:beam_size]
        going = [each for each in extensions if each[0][-1] != END_ID][:beam_size]
        if not going or len(found) == beam_size and going[0][1] <= found[-1][1]:
            break
    return found
"""
A_TIE = """
def greedy_loses():
    return {"": {"a": 0.5, "b": 0.5}, "a": {"a": 0.34, "b": 0.33, "END": 0.33}}


def beam_loses():
    return {}


def empty_wins():
    return {}
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "no_penalty": (
        {"beam": RANKED_BY_LOG_PROBABILITY},
        ["beam-check"],
        "The length is not used",
    ),
    "a_tie": ({"tables": A_TIE}, ["tables-check"], "equally probable tokens in either order"),
}
