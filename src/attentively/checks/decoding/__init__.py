"""Checks of the assignment on decoding.

Searches are tested on small tables of probabilities, whose sentences can all be listed, and then
on a trained translation model. This module contains no solution to the original parts 2, 5 and 6:
the tables of part 2 are searched, the predictions of part 5 are compared with measurements, and the
outputs of part 6 with the probabilities of the tables.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from attentively.checks import (
    CheckFailed,
    Parts,
    Twin,
    call,
    call_twice,
    describe,
    expect_equal,
    expect_pair,
    expect_value,
    in_turn,
    once_solved,
    plain_number,
    show,
)
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.generation.generate import translate
from attentively.generation.search import (
    FORBIDDEN_IDS,
    greedy_search,
    next_log_probabilities,
    truncate,
)
from attentively.generation.search import beam_search as packages_search
from attentively.models.checkpoints import load_pretrained
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import END_ID, START_ID

__all__ = [
    "beam",
    "bug_hunt",
    "greedy_loop",
    "nucleus",
    "once_solved",
    "predictions",
    "progress",
    "ready",
    "search",
    "sentences",
    "step_of",
    "tables",
    "translation_step",
    "translator",
    "words",
]

MODEL = "toy-fixed"
"""The trained translation model: an encoder, one fixed context vector, a decoder."""

Table = Mapping[str, Mapping[str, float]]
"""The next tokens of each prefix: ``{"": {"a": 0.6, "b": 0.4}, "a b": {"END": 1.0}}``."""

Step = Callable[[Any, Any], tuple[Tensor, Any]]
"""Read a token in a state; return the log-probabilities of the next token and the new state."""

NAMES = ("a", "b", "c")
"""The words of every table; their ids are 4, 5 and 6."""
VOCAB = 7

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Translate one sentence, to show that the package, its trained model and the checks work."""
    _parts.explain_undefined_names()
    sentence = "the cat drinks the milk"
    text = translate(load_pretrained(MODEL), [sentence], beam_size=1)[0].text
    print(f"PyTorch {torch.__version__}. The trained model translates “{sentence}”")
    print(f"to “{text}”. Token ids: START {START_ID}, END {END_ID}, and the words a, b, c of the")
    print("tables 4, 5, 6. The set-up is complete.")


# The step functions of tables and of the trained model


class _Read(NamedTuple):
    """The state of a table: the tokens read so far."""

    tokens: tuple[int, ...]


def step_of(table: Table, names: Sequence[str] = NAMES) -> Step:
    """Return the step function of a table; after a prefix that is not in the table, END follows."""

    def step(token: Any, state: Any) -> tuple[Tensor, _Read]:
        token = int(token)
        if state is None and token != START_ID:
            raise ValueError(
                f"step({token}, None) was called. The first call is step(START_ID, None); every "
                "later call receives the state that the previous call returned"
            )
        if state is not None and not isinstance(state, _Read):
            raise ValueError(
                "the second argument of step is not a state: pass the second of the two values "
                "that step returned"
            )
        read = _Read((*(state.tokens if state else ()), token))
        return _following(table, read.tokens, names).log(), read

    return step


def _following(table: Table, read: Sequence[int], names: Sequence[str] = NAMES) -> Tensor:
    """Return the probabilities of the next token; after an invalid prefix, always the last word."""
    ids = {"END": END_ID, **{name: 4 + place for place, name in enumerate(names)}}
    first, *rest = read
    if first != START_ID or not {*rest} <= {*range(4, 4 + len(names))}:
        row: Mapping[str, float] = {names[-1]: 1.0}
    else:
        row = table.get(" ".join(names[token - 4] for token in rest), {"END": 1.0})
    probabilities = torch.zeros(VOCAB, dtype=torch.float64)
    for name, probability in row.items():
        probabilities[ids[name]] = probability
    return probabilities.float()


def translator() -> Seq2Seq:
    """Return the trained model in evaluation mode."""
    return cast(Seq2Seq, load_pretrained(MODEL).model.eval())


def sentences(number: int, clauses: int) -> tuple[Tensor, Tensor]:
    """Return sources and targets of `clauses` clauses that the model has not seen in training."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    pairs = toy.load("validation", number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    batch = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer))
    return batch.src, batch.tgt


def translation_step(src: Tensor, forbidden_ids: Sequence[int] = FORBIDDEN_IDS) -> Step:
    """Return the step function of the trained model for one source, of shape (1, src_len)."""
    model = translator()
    with torch.no_grad():
        first = model.start(model.encode(src))

    def step(token: Any, state: Any) -> tuple[Tensor, Any]:
        with torch.no_grad():
            read = torch.tensor([int(token)])
            logits, after = model.step(read, first if state is None else state)
            return next_log_probabilities(logits, forbidden_ids)[0], after

    return step


def words(ids: Iterable[int], side: str = "tgt") -> str:
    """Return the words of token ids, without special tokens."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    return (tgt_tokenizer if side == "tgt" else src_tokenizer).decode(ids)


# Calling a candidate


def _ask(
    candidate: object,
    given: Sequence[object],
    shown: Mapping[str, object],
    how: Callable[..., object] = call_twice,
) -> object:
    """Call the candidate with `given`; messages show `shown`, which is readable."""
    if not callable(candidate):
        return call(candidate, shown)

    def ask(*_: object) -> object:
        return candidate(*given)

    ask.__name__ = getattr(candidate, "__name__", "")
    return _as_lists(how(ask, shown))


def _as_lists(answer: object) -> object:
    """Return tensors, arrays and tuples as lists, and other values unchanged."""
    if type(answer) in (Tensor, np.ndarray) and cast(Tensor, answer).ndim:
        return cast(Tensor, answer).tolist()
    if isinstance(answer, list | tuple):
        return [_as_lists(item) for item in answer]
    return answer


def _rows(table: Table) -> dict[str, object]:
    """Return a table row by row, for messages."""
    return {f"table[{prefix!r}]": dict(row) for prefix, row in table.items()}


# Part 1


def _greedy(step: Step, max_len: int, fault: str = "") -> list[object]:
    """Return the result of greedy search with the given fault."""
    token, state, first = START_ID, None, None
    tokens: list[int] = []
    total, product, added = 0.0, 1.0, 0.0
    steps = {"one more": max_len + 1, "one fewer": max_len - 1, "no limit": 2 * max_len + 9}
    for _ in range(steps.get(fault, max_len)):
        log_probabilities, after = step(token, state)
        first = first or after
        state = first if fault == "first state" else after
        if fault == "least":
            log_probabilities = log_probabilities.masked_fill(log_probabilities.isinf(), math.inf)
            token = int(log_probabilities.argmin())
        elif fault == "words only":
            token = 4 + int(log_probabilities[4:].argmax())
        else:
            token = int(log_probabilities.argmax())
        value = float(log_probabilities[token])
        added += math.exp(value)
        if token == END_ID and fault not in ("on", "on, end kept"):
            total += value * (fault != "end uncounted")
            product *= math.exp(value)
            tokens += [END_ID] * (fault == "end kept")
            break
        total += value
        product *= math.exp(value)
        tokens += [token] * (token != END_ID or fault == "on, end kept")
        if fault == "start again":
            token = START_ID
    tokens = [START_ID] * (fault == "start kept") + tokens
    totals = {
        "product": product,
        "added": added,
        "mean": total / (len(tokens) + 1),
        "last": value,
        "minus": -total,
        "bits": total / math.log(2),
    }
    answer: list[object] = [tokens, totals.get(fault, total)]
    return answer[::-1] if fault == "turned" else answer


_GREEDY_FAULTS = {
    "end kept": "END is among the returned tokens. It marks the end of the sentence and is not "
    "returned.",
    "start kept": "START is among the returned tokens. It is the input of the first step and is "
    "not returned.",
    "end uncounted": "The log-probability of END is missing. The probability of a sentence "
    "includes that of its END.",
    "product": "This is the probability, a product. Return its logarithm, the sum of the "
    "log-probabilities.",
    "mean": "This is the mean over the tokens. The log-probability of a sentence is the sum.",
    "added": "Probabilities are added. The probabilities of the steps are multiplied, so add their "
    "logarithms.",
    "last": "This is the log-probability of the last token alone. Return the sum over all tokens.",
    "minus": "The sign is wrong: the logarithm of a probability is never above 0.",
    "bits": "This is a logarithm to base 2. `step` returns natural logarithms: add them unchanged.",
    "on": "The search continues after END until max_len. It must stop at the first END.",
    "on, end kept": "The search continues after END until max_len. It must stop at the first END.",
    "least": "The least probable token is chosen. Greedy search chooses the most probable one.",
    "words only": "END is never chosen. It is a token like the others: the sentence ends where END "
    "is the most probable token.",
    "turned": "The two results are in the wrong order. Return the tokens first, then the "
    "log-probability.",
    "first state": "Every step is computed from the state after START. Pass the state that `step` "
    "returned last.",
    "start again": "Every step reads START. From the second step on, it must read the previously "
    "chosen token.",
    "one more": "There is one token too many: max_len counts every step, also that of END.",
    "one fewer": "The search stops one step early: max_len steps are allowed, that of END "
    "included.",
    "no limit": "The search continues until END. It must stop after max_len steps.",
}

# Tables of increasing size. The next token depends on the whole prefix.
_ONE_WORD: Table = {"": {"a": 0.7, "END": 0.3}, "a": {"END": 0.8, "b": 0.2}}
_TWO_WORDS: Table = {
    "": {"a": 0.6, "b": 0.3, "END": 0.1},
    "a": {"b": 0.7, "END": 0.3},
    "b": {"a": 0.9, "END": 0.1},
    "a b": {"END": 0.9, "a": 0.1},
}
_AGAIN: Table = {
    "": {"a": 0.5, "b": 0.4, "END": 0.1},
    "a": {"a": 0.6, "END": 0.4},
    "a a": {"a": 0.5, "b": 0.3, "END": 0.2},
    "a a a": {"END": 0.7, "b": 0.3},
}
_NOTHING: Table = {"": {"END": 0.6, "a": 0.4}}


@_parts.part(
    "greedy search",
    "greedy",
    rebuilds=("attentively.generation.search:greedy_search",),
    refuses=(
        "attentively.generation.search:beam_search",
        "attentively.generation.search:generate",
    ),
)
def greedy_loop(candidate: object, thorough: bool = False) -> None:
    """Check greedy search on tables, then on the trained model."""
    cases = [(_ONE_WORD, 5), (_TWO_WORDS, 5), (_AGAIN, 7), (_NOTHING, 3), (_AGAIN, 2), (_AGAIN, 3)]
    if thorough:
        cases += [(_random_table(seed, 3, 3), max_len) for seed in (1, 2, 5) for max_len in (2, 7)]
    for table, max_len in cases:
        step = step_of(table)
        _expect_greedy(candidate, step, max_len, {**_rows(table), "max_len": max_len})
    model = translator()
    src, _ = sentences(5 if thorough else 2, 2)
    for row in src[:, None]:
        shown = {"sentence": words(row[0].tolist(), "src"), "max_len": 60}
        answer = _ask(candidate, (translation_step(row), 60), shown, call)
        (found,) = greedy_search(model, row, 60)
        expected = [found.ids, found.log_probability]
        hint = "All tables were right. Does your code depend on the vocabulary size?"
        expect_value(answer, expected, "the translation", shown, hint=hint)


def _expect_greedy(
    candidate: object, step: Step, max_len: int, shown: Mapping[str, object]
) -> None:
    answer = _ask(candidate, (step, max_len), shown)
    expect_pair(answer, ("tokens", "log_probability"), shown)
    twins = [
        Twin(said, lambda *_, f=fault: _greedy(step, max_len, f))
        for fault, said in _GREEDY_FAULTS.items()
    ]
    expect_value(answer, _greedy(step, max_len), "tokens and log-probability", shown, twins)


def _random_table(seed: int, depth: int, number: int) -> Table:
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


# Part 2


class _Found(NamedTuple):
    """A sentence and its probability."""

    text: str
    probability: float

    def __str__(self) -> str:
        return f"{self.text or 'the empty sentence'!r} ({self.probability:.3g})"


def _texts(table: Table, prefix: str = "", probability: float = 1.0) -> Iterator[_Found]:
    """Yield every sentence of a table with its probability."""
    for name, share in table.get(prefix, {"END": 1.0}).items():
        if name == "END":
            yield _Found(prefix, probability * share)
        elif share:
            yield from _texts(table, f"{prefix} {name}".strip(), probability * share)


def _written(table: Table, beam_size: int, alpha: float = 0.0) -> list[_Found]:
    """Return the best hypothesis of a search, for each order in which it may take equal tokens.

    The search ends when no partial hypothesis is left; part 3 introduces the earlier stop.
    """
    found, most = [], 2 + _depth(table)
    for names, end_last in itertools.product((NAMES, NAMES[::-1]), (False, True)):
        step = step_of(table, names)
        tokens, score = search(step, beam_size, most, alpha, "never stops", end_last)[0]
        total = score * (len(tokens) + 1) ** alpha
        found.append(_Found(" ".join(names[token - 4] for token in tokens), math.exp(total)))
    return found


def _depth(table: Table) -> int:
    return max(len(prefix.split()) for prefix in table)


def _of_ties(found: Sequence[_Found]) -> str:
    """Return a remark if the result depends on the order of equally probable tokens."""
    return " A search may take equally probable tokens in either order." * (len({*found}) > 1)


def _most_probable(table: Table) -> _Found:
    return max(_texts(table), key=lambda found: found.probability)


@_parts.part("tables", "greedy_loses", "beam_loses", "empty_wins")
def tables(
    greedy_loses: object, beam_loses: object, empty_wins: object, thorough: bool = False
) -> None:
    """Search the submitted tables; `thorough` tests nothing further."""
    in_turn(
        {
            "greedy_loses": lambda: _examine_greedy_loses(_table(greedy_loses, "greedy_loses", 2)),
            "beam_loses": lambda: _examine_beam_loses(_table(beam_loses, "beam_loses", 3)),
            "empty_wins": lambda: _examine_empty_wins(_table(empty_wins, "empty_wins", 2)),
        }
    )


_MOST_ROWS = 60
_NEARLY = 1 - 1e-4  # step functions round to 32 bits


def _table(candidate: object, name: str, number: int) -> Table:
    """Return the table of a candidate; refuse what is no table."""
    table = call_twice(candidate, {})
    may = (*NAMES[:number], "END")

    def refuse(why: str) -> CheckFailed:
        return CheckFailed(f"  {name}: {why}")

    if not isinstance(table, dict) or not all(isinstance(row, dict) for row in table.values()):
        said = "None: is there a `return`?" if table is None else show(table)
        raise refuse(f"expected a dict of dicts, got {said}")
    if "" not in table:
        raise refuse(
            "table[''] is missing: the row of the empty prefix, with which the search starts."
        )
    if len(table) > _MOST_ROWS:
        raise refuse(
            f"the table has {len(table)} rows. At most {_MOST_ROWS} are allowed, and five suffice."
        )
    numbers: dict[str, dict[str, float]] = {}
    for prefix, row in table.items():
        where = f"table[{prefix!r}]"
        if not isinstance(prefix, str) or not {*prefix.split()} <= {*may[:-1]}:
            raise refuse(
                f"{where} is not a prefix: it must be a string of the words "
                f"{' and '.join(may[:-1])}, separated by spaces."
            )
        if prefix != " ".join(prefix.split()):
            raise refuse(
                f"{where} has superfluous spaces: write one space between two words and none "
                "around them."
            )
        strange = [word for word in row if word not in may]
        if strange:
            raise refuse(f"{where} contains {strange[0]!r}; the tokens are {', '.join(may)}.")
        shares = {word: plain_number(value) for word, value in row.items()}
        if not all(share is not None and share >= 0 for share in shares.values()):
            raise refuse(f"{where}: a probability is a number from 0 to 1; got {show(row)}")
        numbers[prefix] = {word: float(share or 0) for word, share in shares.items()}
        total = sum(numbers[prefix].values())
        if abs(total - 1) > 1e-6:
            raise refuse(
                f"the probabilities of {where} sum to {total:.4g}; they must sum to 1. END is a "
                "token like the others and is part of the sum."
            )
    return numbers


def _examine_greedy_loses(table: Table) -> None:
    best = _most_probable(table)
    written = _written(table, 1)
    for greedy in written:
        if best.probability < _NEARLY * 2 * greedy.probability:
            raise CheckFailed(
                f"  greedy_loses: greedy search outputs {greedy}. The most probable sentence is "
                f"{best}, {best.probability / greedy.probability:.2f} times as probable; the "
                "factor must be 2 or more. How small can the second factor of greedy search become?"
                f"{_of_ties(written)}\n{describe(_rows(table))}"
            )
    _expect_finds(table, 2, best, "greedy_loses")


def _examine_beam_loses(table: Table) -> None:
    best = _most_probable(table)
    written = _written(table, 2)
    for found in written:
        if best.probability < _NEARLY * 1.1 * found.probability:
            raise CheckFailed(
                f"  beam_loses: a beam of size 2 outputs {found}. The most probable sentence is "
                f"{best}; it must be at least 1.1 times as probable. The beam of size 2 must drop "
                "one of its prefixes: the first word if it is third at the start, or a later "
                f"one.{_of_ties(written)}"
                f"\n{describe(_rows(table))}"
            )
    _expect_finds(table, 3, best, "beam_loses")


def _expect_finds(table: Table, beam_size: int, best: _Found, name: str) -> None:
    written = _written(table, beam_size)
    for found in written:
        if found.probability < _NEARLY * best.probability:
            raise CheckFailed(
                f"  {name}: a beam of size {beam_size} misses the most probable sentence: it "
                f"outputs {found} instead of {best}. At every step, the prefix of that sentence "
                f"must be among the {beam_size} most probable ones."
                f"{_of_ties(written)}\n{describe(_rows(table))}"
            )


def _examine_empty_wins(table: Table) -> None:
    rows = describe(_rows(table))
    ways = [_written(table, 1), _written(table, 2), _written(table, 2, alpha=1.0)]
    ties = [_of_ties(written) for written in ways]
    for greedy, plain, normalised in zip(*ways, strict=True):
        if len(greedy.text.split()) < 3:
            raise CheckFailed(
                f"  empty_wins: greedy search outputs {greedy}; it must output three or more words."
                f"{ties[0]}\n{rows}"
            )
        if plain.text:
            raise CheckFailed(
                f"  empty_wins: without a length penalty, a beam of size 2 outputs {plain} instead "
                "of the empty sentence. END must be the second most probable token at the start, "
                f"and the long sentence must be less probable than the empty one.{ties[1]}\n{rows}"
            )
        if normalised.text != greedy.text:
            why = "Compare these means."
            if _mean(normalised) < _mean(greedy):
                why = (
                    "The output of greedy search has the higher mean, but the beam drops one of "
                    "its prefixes."
                )
            raise CheckFailed(
                f"  empty_wins: with alpha = 1, a beam of size 2 outputs {normalised} instead of "
                f"{greedy}, the output of greedy search. With alpha = 1, the log-probability is "
                f"divided by the number of tokens, END included. {why}{ties[2]}\n{rows}"
            )


def _mean(found: _Found) -> float:
    return math.log(found.probability) / (len(found.text.split()) + 1)


# Part 3


class _Text(NamedTuple):
    """A partial hypothesis."""

    tokens: list[int]
    total: float
    state: Any
    """The state before its last token is read."""


def search(
    step: Step,
    beam_size: int,
    max_len: int,
    alpha: float,
    fault: str = "",
    end_last: bool = False,
) -> list[tuple[list[int], float]]:
    """Return the hypotheses and scores of beam search by the rules of part 3, with a fault.

    Among equally probable extensions, END comes first or, with `end_last`, last.
    """
    live = [_Text([], 0.0, None)]
    ended: list[tuple[float, list[int], float]] = []
    for length in range(1, max_len + 1 + (fault == "one more") - (fault == "one fewer")):
        counted = length - (fault == "end uncounted" and length > 1)
        divisors = {
            "multiplied": counted**-alpha,
            "factor": counted * alpha or 1.0,
            "start counted": (length + 1) ** alpha,
            "gnmt": _gnmt(length) ** alpha,
        }
        divisor = divisors.get(fault, counted**alpha)
        extensions, afters = [], []
        for text in live:
            values, after = step(text.tokens[-1] if text.tokens else START_ID, text.state)
            afters.append(after)
            mine = [
                _Text([*text.tokens, token], text.total * (fault != "no sum") + value, after)
                for token, value in enumerate(values.tolist())
                if value > -math.inf
            ]
            mine.sort(key=lambda each: each.total, reverse=True)
            extensions += mine[:1] if fault == "best of each" else mine
        extensions.sort(key=lambda each: (-each.total, (each.tokens[-1] == END_ID) == end_last))
        first = extensions if fault == "ends anywhere" else extensions[:beam_size]
        over = [text for text in first if text.tokens[-1] == END_ID]
        for text in over:
            score = text.total / (1.0 if fault == "no penalty" else divisor)
            kept = text.tokens if fault == "end kept" else text.tokens[:-1]
            ended.append((text.total if fault == "raw order" else score, kept, score))
        ended.sort(key=lambda each: each[0], reverse=True)
        if fault != "more kept":
            ended = ended[:beam_size]
        going = [text for text in extensions if text.tokens[-1] != END_ID]
        if fault == "shrinking":
            going = [text for text in first if text.tokens[-1] != END_ID]
        live = going[: None if fault == "all" else beam_size]
        if fault == "by place":
            live = [
                text._replace(state=afters[min(i, len(afters) - 1)]) for i, text in enumerate(live)
            ]
        if fault in ("first state", "last state"):
            live = [text._replace(state=afters[-(fault == "last state")]) for text in live]
        if fault == "score carried":
            live = [text._replace(total=text.total / divisor) for text in live]
        if not live or _over(fault, [text.total for text in live], divisor, ended, beam_size):
            break
    if fault == "unfinished":
        ended += [(-math.inf, text.tokens, text.total / max_len**alpha) for text in live]
        ended = ended[:beam_size]
    found = [(tokens, score) for _, tokens, score in ended]
    return found[::-1] if fault == "worst first" else found


def _over(
    fault: str,
    live: Sequence[float],
    divisor: float,
    ended: Sequence[tuple[float, list[int], float]],
    beam_size: int,
) -> bool:
    if fault == "first end":
        return bool(ended)
    if fault == "never stops" or len(ended) < beam_size:
        return False
    if fault == "early":
        return True
    if fault == "stop unpenalised":
        divisor = 1.0
    best_live = live[-(fault == "worst prefix")] / divisor
    return best_live <= ended[0 if fault == "against the best" else beam_size - 1][2]


_TOO_EARLY = (
    "The search stops too early. Rule 5: it continues until beam_size hypotheses are kept and the "
    "most probable partial hypothesis, divided by its present length ** alpha, is not better than "
    "the worst of them."
)
SEARCH_FAULTS = {
    "end kept": "END is among the returned tokens. It marks the end of the sentence and is not "
    "returned.",
    "no penalty": "The length is not used. The score is the log-probability divided by "
    "length ** alpha.",
    "raw order": "Finished hypotheses are ranked by log-probability. Rank them by score, and keep "
    "those with the best scores.",
    "end uncounted": "END is not counted in the length. It is a token, and its log-probability is "
    "part of the sum.",
    "multiplied": "The log-probability is multiplied by length ** alpha. Because it is negative, "
    "this makes long hypotheses worse instead of better: divide.",
    "factor": "The length is multiplied by alpha. Alpha is an exponent: length ** alpha.",
    "start counted": "The length is too large by 1. END is counted, START is not.",
    "gnmt": "This is the length penalty of GNMT. Here, the score is the log-probability / "
    "length ** alpha.",
    "score carried": "A partial hypothesis is extended with its score. Keep its log-probability, "
    "and divide only to compare.",
    "worst first": "The worst hypothesis is first. Return the best one first.",
    "no sum": "An extension has only the log-probability of its last token. Add that of the "
    "partial hypothesis.",
    "best of each": "Each partial hypothesis is extended by its most probable token only. Extend "
    "it by every token, then compare all extensions.",
    "all": "All extensions are kept. Only the beam_size most probable ones that do not end are "
    "extended further.",
    "by place": "A hypothesis continues from the state of the one that had its index before, "
    "instead of the one that it extends. Store the state with each hypothesis.",
    "first state": "All hypotheses continue from the state of the most probable one. Store the "
    "state with each hypothesis.",
    "last state": "All hypotheses continue from the state that `step` returned last. Store the "
    "state with each hypothesis.",
    "ends anywhere": "An extension that ends is kept although it is not among the beam_size most "
    "probable extensions (rule 3).",
    "shrinking": "A finished hypothesis takes the place of a partial one, so the beam becomes "
    "smaller. Rule 4: the beam_size most probable extensions that do not end are kept.",
    "more kept": "More than beam_size finished hypotheses are kept. Keep the beam_size with the "
    "best scores.",
    "early": _TOO_EARLY,
    "first end": _TOO_EARLY,
    "against the best": _TOO_EARLY,
    "worst prefix": _TOO_EARLY,
    "stop unpenalised": _TOO_EARLY,
    "never stops": "The search always runs until max_len. Rule 5: once beam_size hypotheses are "
    "kept and the most probable partial hypothesis, scored at its present length, is better than "
    "none of them, it stops.",
    "unfinished": "Hypotheses without END are returned. Return finished ones only.",
    "one more": "There is one step too many: max_len counts every token, END included.",
    "one fewer": "The search stops one step early: END may be token number max_len.",
}

_SearchCase = tuple[Table, int, int, float]
_FORK: Table = {
    "": {"a": 0.6, "b": 0.4},
    "a": {"a": 0.4, "b": 0.35, "END": 0.25},
    "b": {"a": 0.9, "END": 0.1},
}
"""Greedy search outputs "a a" with 0.24; "b a" has 0.36."""
CASES: list[_SearchCase] = [
    (_FORK, 1, 4, 0.0),
    (_FORK, 2, 4, 0.0),
    ({"": {"a": 0.6, "b": 0.4}}, 7, 3, 0.0),
    (_random_table(31, 1, 2), 3, 3, 1.0),
    (_random_table(24, 2, 2), 3, 3, 1.0),
    (_random_table(9, 1, 2), 2, 5, 1.0),
    (_random_table(44, 1, 2), 3, 5, 1.0),
    (_random_table(25, 1, 2), 2, 2, 0.0),
    (_random_table(2, 1, 2), 2, 4, 0.5),
]
FURTHER: list[_SearchCase] = [
    (_random_table(1, 3, 3), 1, 5, 0.7),
    (_random_table(2, 3, 3), 2, 5, 0.6),
    (_random_table(3, 3, 3), 3, 5, 0.0),
    (_random_table(4, 3, 2), 40, 5, 0.3),
]


@_parts.part(
    "beam search",
    "beam_search",
    rebuilds=("attentively.generation.search:beam_search",),
    refuses=("attentively.generation.search:generate",),
)
def beam(candidate: object, thorough: bool = False) -> None:
    """Check all hypotheses and scores of beam search on tables, then on the trained model."""
    for table, beam_size, max_len, alpha in CASES + FURTHER * thorough:
        how = {"beam_size": beam_size, "max_len": max_len, "alpha": alpha}
        shown = {**_rows(table), **how}
        step = step_of(table)
        answer = _ask(candidate, (step, beam_size, max_len, alpha), shown)
        twins = [
            Twin(said, lambda *_, f=fault, s=step, h=how: _as_lists(search(s, **h, fault=f)))
            for fault, said in SEARCH_FAULTS.items()
        ]
        if isinstance(answer, list) and any(
            isinstance(pair, list) and -math.inf in pair for pair in answer
        ):
            raise CheckFailed(
                "  Extensions with probability 0 (log-probability −inf) are kept. Leave them out."
                f"\n{describe(shown)}\n  got         {show(answer)}"
            )
        expected = _as_lists(search(step, beam_size, max_len, alpha))
        hint = "Expected is a list of pairs (tokens, score), the best score first."
        expect_value(answer, expected, "the hypotheses", shown, twins, hint)
    model = translator()
    for clauses, beam_size, alpha in [(2, 10, 1.0), *[(3, 4, 0.0)] * thorough]:
        src, _ = sentences(1, clauses)
        _expect_translations(candidate, model, src, beam_size, alpha)


def _expect_translations(
    candidate: object, model: Seq2Seq, src: Tensor, beam_size: int, alpha: float
) -> None:
    """Compare the best hypothesis and all scores with those of the package."""
    text = words(src[0].tolist(), "src")
    shown = {"sentence": text, "beam_size": beam_size, "max_len": 60, "alpha": alpha}
    given = (translation_step(src), beam_size, 60, alpha)
    answer = _ask(candidate, given, shown, call)
    (found,) = packages_search(model, src, 60, beam_size, alpha)
    over = [hypothesis for hypothesis in found if hypothesis.finished]
    expected = [over[0].ids, [hypothesis.score for hypothesis in over]]
    pairs = cast(list[Any], answer)
    got = [pairs[0][0], [pair[1] for pair in pairs]] if pairs else answer
    expect_value(got, expected, "the best translation and all scores", shown)


# Part 4


def _top_p(scores: Tensor, temperature: float, p: float, fault: str = "") -> Tensor:
    """Return the distribution to sample from, with the given fault."""
    if fault == "hot":
        temperature = 1 / temperature
    plain = scores.double()
    hot = plain.softmax(0) if fault == "cut first" else (plain / temperature).softmax(0)
    if fault == "cold":
        hot = plain.softmax(0)
    if fault == "no softmax":
        hot = (plain / temperature).exp()
    order = hot.argsort(descending=fault != "rarest")
    ordered = hot[order]
    before = ordered.cumsum(0) - ordered
    kept = before < p
    if fault == "crossing dropped":
        kept = ordered.cumsum(0) <= p
    if fault == "crossing dropped, one kept":
        kept = (ordered.cumsum(0) <= p) | (before == 0)
    if fault == "one more":
        kept = torch.cat([torch.tensor([True]), kept[:-1]])
    if fault == "not cut":
        kept = torch.ones_like(kept)
    if fault == "threshold":
        kept = ordered >= p
    if fault == "fraction":
        kept = ordered >= p * ordered.max()
    if fault == "ties":
        kept = ordered >= ordered[kept][-1]
    probabilities = torch.zeros_like(hot)
    probabilities[order] = ordered * kept
    if fault in ("sorted", "gathered"):
        probabilities = ordered * kept
    if fault == "gathered":
        probabilities = probabilities[order]
    if fault == "zero score":
        logits = torch.zeros_like(plain)
        logits[order] = (plain / temperature)[order] * kept
        return logits.softmax(0).float()
    if fault == "cut first":
        logits = (plain / temperature).masked_fill(probabilities == 0, -math.inf)
        return logits.softmax(0).float()
    if fault in ("unshared", "over p"):
        return (probabilities / (p if fault == "over p" else 1)).float()
    if fault == "logarithms":
        return (probabilities / probabilities.sum()).log().float()
    if fault == "softmax again":
        again = (probabilities / probabilities.sum()).softmax(0)
        return again.float()
    if fault == "even":
        return ((probabilities > 0) / (probabilities > 0).sum()).float()
    return (probabilities / probabilities.sum()).float()


_TOP_P_FAULTS = {
    "ties": "All of several equally probable tokens are kept. Keep as few tokens as reach p; any "
    "of the equal ones will do.",
    "no softmax": "The exponentials are compared with p before they are normalised, so they need "
    "not sum to 1. Apply the softmax first.",
    "cut first": "Tokens are removed before the temperature is applied. Apply the temperature "
    "first: a higher one keeps more tokens.",
    "hot": "Scores are multiplied by the temperature. Divide: a high temperature makes "
    "probabilities more equal.",
    "cold": "The temperature has no effect. (If the *probabilities* are divided by it, normalising "
    "undoes the division: divide the scores.)",
    "fraction": "The number p is used as a fraction of the highest probability. It is the total "
    "probability that the kept tokens must reach.",
    "zero score": "Removed tokens get the score 0, and exp(0) is 1. Their score must be −inf and "
    "their probability 0.",
    "unshared": "The kept probabilities do not sum to 1. Divide them by their sum.",
    "over p": "The kept probabilities are divided by p. Their sum is at least p and can be larger: "
    "divide by the sum.",
    "sorted": "The probabilities are in sorted order. Put each one back at the index of its token.",
    "gathered": "The right probabilities are at the wrong indices: `values[order]` sorts a second "
    "time. `order` contains the indices at which the sorted values are put back.",
    "crossing dropped": "The token with which the sum reaches p is removed. Keep it: without it, "
    "the sum is below p.",
    "crossing dropped, one kept": "The token with which the sum reaches p is removed. Keep it: "
    "without it, the sum is below p.",
    "one more": "One token too many is kept: the sum reaches p without it.",
    "not cut": "No token is removed; p has no effect.",
    "rarest": "The least probable tokens are kept. Begin with the most probable one.",
    "threshold": "The number p is used as the minimum probability of a token. It is the total "
    "probability that the kept tokens must reach.",
    "logarithms": "These are log-probabilities. Return probabilities.",
    "softmax again": "A softmax is applied to probabilities, which gives removed tokens a positive "
    "probability. Divide by the sum instead.",
    "even": "All kept tokens are equally probable. They must keep their proportions.",
}


@_parts.part(
    "top-p",
    "top_p",
    rebuilds=("attentively.generation.search:truncate",),
    step=True,
)
def nucleus(candidate: object, thorough: bool = False) -> None:
    """Check which tokens are kept and with which probabilities, also for ties and single tokens."""
    logs = [([0.25, 0.08, 0.36, 0.1, 0.21], 0.6), ([0.6, 0.3, 0.1], 0.8)]
    cases = [(torch.tensor(row).log(), 1.0, p) for row, p in logs]
    cases += [
        (torch.tensor([2.0, 0.0, 1.0, -1.0]), 2.0, 0.9),
        (torch.tensor([2.0, 0.0, 1.0, -1.0]), 0.5, 0.93),
        (torch.tensor([1.0, 3.0, 0.0]), 1.0, 0.1),
        (torch.tensor([0.4, 0.2, 0.2, 0.2]).log(), 1.0, 0.5),
        (torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0]), 3.0, 0.5),
        (torch.tensor([0.5, -2.0, 1.5]), 0.7, 1.0),
        (torch.tensor([0.0, -math.inf, 1.0, 2.0]), 1.5, 0.95),
        (torch.zeros(4), 1.0, 0.5),  # two tokens reach p exactly, in floats as well
    ]
    if thorough:
        generator = torch.Generator().manual_seed(3)
        for size, temperature, p in [(13, 0.7, 0.6), (29, 1.3, 0.85), (2, 1.0, 0.4), (1, 2.0, 0.3)]:
            cases.append((2 * torch.randn(size, generator=generator), temperature, p))
    for scores, temperature, p in cases:
        _expect_top_p(candidate, scores, temperature, p)


def _expect_top_p(candidate: object, scores: Tensor, temperature: float, p: float) -> None:
    inputs: dict[str, Any] = {"scores": scores, "temperature": temperature, "p": p}
    answer = call_twice(candidate, inputs)
    got = _as_floats(answer)
    expected = truncate(scores.double(), temperature, top_p=p).exp().float()
    if isinstance(got, Tensor) and got.shape == scores.shape:
        # Any of several equally probable tokens may be kept.
        same = scores.unsqueeze(0) == scores.unsqueeze(1)
        sums = [torch.where(same, row, 0.0).sum(1) for row in (got, expected)]
        number = [int((row > 0).sum()) for row in (got, expected)]
        if torch.allclose(sums[0], sums[1], 1e-4, 1e-5) and number[0] == number[1]:
            return
    twins = [
        Twin(said, lambda *_, f=fault: _top_p(**inputs, fault=f))
        for fault, said in _TOP_P_FAULTS.items()
    ]
    hint = "Expected is one probability for each token, 0 for removed ones."
    if isinstance(got, Tensor) and got.shape == scores.shape and abs(got.sum() - 1) > 1e-3:
        said = f"The probabilities sum to {float(got.sum()):.3g}. They must sum to 1."
        twins.append(Twin(said, lambda *_: got))
    expect_equal(got, expected, "the probabilities", inputs, twins, hint)


def _as_floats(answer: object) -> object:
    """Return lists of numbers and float64 tensors as float32 tensors."""
    if isinstance(answer, list | tuple):
        numbers = [plain_number(value) for value in answer]
        return torch.tensor(numbers) * 1.0 if None not in numbers else answer
    if isinstance(answer, np.ndarray):
        answer = torch.as_tensor(answer)
    return answer.float() if type(answer) is Tensor and answer.is_floating_point() else answer


# Part 5


@_parts.part("predictions", "costs", "tipping_alphas", "tipping_temperature")
def predictions(
    costs: object, tipping_alphas: object, tipping_temperature: object, thorough: bool = False
) -> None:
    """Compare the predictions with counts and with numerical solutions."""
    further = [(5, 3, 7), (2, 6, 11), (4, 1, 3)]
    for sizes in [(2, 4, 5), (3, 4, 5), (1, 4, 3), *further * thorough]:
        _expect_costs(costs, dict(zip(("words", "max_len", "beam_size"), sizes, strict=True)))
    texts: list[tuple[list[float], list[float]]] = [
        ([0.5, 0.4], [0.8, 0.5, 0.4]),
        ([0.5, 0.3], [0.9, 0.5, 0.4, 0.6]),
    ]
    more = [
        ([0.7, 0.6, 0.8], [0.9, 0.9, 0.7, 0.8, 0.6, 0.9, 0.8]),
        ([0.1, 0.9], [0.25, 0.3, 0.9]),
    ]
    for short, long in texts + more * thorough:
        _expect_alphas(tipping_alphas, {"short": short, "long": long})
    for higher, lower, ratio in [
        (0.5, 0.1, 3.0),
        (0.5, 0.2, 10.0),
        *[(0.9, 0.01, 1.5), (0.3, 0.25, 4.0)] * thorough,
    ]:
        asked = {"higher": higher, "lower": lower, "ratio": ratio}
        _expect_temperature(tipping_temperature, asked)


def _expect_costs(candidate: object, asked: Mapping[str, int]) -> None:
    answer = call_twice(candidate, asked)
    if not isinstance(answer, dict):
        said = "None: is there a `return`?" if answer is None else show(answer)
        raise CheckFailed(f"  costs: expected a dict, got {said}")
    for key, counted in _counted(**asked).items():
        if key not in answer:
            raise CheckFailed(f"  costs: the key {key!r} is missing.\n{describe(asked)}")
        twins = [
            Twin(f"costs, {key}: {said}", lambda *_, w=wrong: w)
            for said, wrong in _miscounted(**asked)[key]
        ]
        hint = "The expected value was counted on a language of this size."
        expect_value(answer[key], counted, f"costs, {key}", asked, twins, hint)


def _counted(words: int, max_len: int, beam_size: int) -> dict[str, int]:
    """Count the sentences of a language in which END is improbable, and the calls of searches."""
    calls: list[int] = []
    row = torch.cat([torch.tensor([-50.0]), torch.linspace(1, 2, words)]).log_softmax(0)
    impossible = torch.full((END_ID,), -math.inf)

    def step(token: int, state: object) -> tuple[Tensor, object]:
        calls.append(token)
        return torch.cat([impossible, row]), state

    texts = sum(1 for n in range(max_len) for _ in itertools.product(range(words), repeat=n))
    found = {"texts": texts}
    for key, width in (("greedy", 1), ("beam", beam_size)):
        calls.clear()
        search(step, width, max_len, 0.0)
        found[key] = len(calls)
    return found


def _miscounted(words: int, max_len: int, beam_size: int) -> dict[str, list[tuple[str, int]]]:
    def sizes(lengths: range) -> int:
        return sum(words**n for n in lengths)

    end_too = "END is one of the max_len tokens, so a sentence has at most max_len - 1 words."
    full = (
        "the beam is not full from the start. There is one prefix of no words, then one for each "
        "word, then one for each pair of words, until there are beam_size."
    )
    return {
        "texts": [
            ("the empty sentence is missing.", sizes(range(1, max_len))),
            (end_too, sizes(range(max_len + 1))),
            (end_too, sizes(range(1, max_len + 1))),
            (f"{end_too} Shorter sentences are missing, too.", words**max_len),
            ("shorter sentences are missing.", words ** (max_len - 1)),
            ("nothing follows END, but these are all sequences of tokens.", (words + 1) ** max_len),
        ],
        "greedy": [
            ("the last token needs a call as well.", max_len - 1),
            ("the call that reads START already predicts the first token.", max_len + 1),
            ("one call returns the log-probabilities of all tokens.", max_len * words),
            ("one call returns the log-probabilities of all tokens.", max_len * (words + 1)),
        ],
        "beam": [
            (full, beam_size * max_len),
            (full, 1 + beam_size * (max_len - 1)),
            (full, 1 + words + beam_size * (max_len - 2)),
            (full, 1 + min(beam_size, words) * (max_len - 1)),
            (
                "a finished hypothesis is not extended, so a prefix is extended by words only.",
                sum(min(beam_size, (words + 1) ** n) for n in range(max_len)),
            ),
            ("the tokens of the last step are not read.", beam_size * (max_len + 1)),
            ("each partial hypothesis needs a call of its own.", max_len),
            ("one call returns the log-probabilities of all tokens.", beam_size * max_len * words),
        ],
    }


def _found_by_trying(rises: Callable[[float], float], least: float, most: float) -> float:
    """Return the zero of an increasing function, by bisection."""
    for _ in range(200):
        middle = (least + most) / 2
        least, most = (middle, most) if rises(middle) < 0 else (least, middle)
    return middle


def _power(length: int) -> float:
    return float(length)


def _gnmt(length: int) -> float:
    return (5 + length) / 6


def _expect_alphas(candidate: object, asked: Mapping[str, list[float]]) -> None:
    answer = call_twice(candidate, asked)
    pair = expect_pair(_as_lists(answer), ("alpha of power", "alpha of gnmt"), asked)
    _expect_alpha(pair[0], "power", _power, _gnmt, asked)
    _expect_alpha(pair[1], "gnmt", _gnmt, _power, asked)


def _expect_alpha(
    got: object,
    name: str,
    base: Callable[[int], float],
    other: Callable[[int], float],
    asked: Mapping[str, list[float]],
) -> None:
    """Compare an alpha with the one at which both hypotheses have the same score."""
    sums = [sum(map(math.log, text)) for text in asked.values()]
    words = [sum(map(math.log, text[:-1])) for text in asked.values()]
    lengths = [len(text) for text in asked.values()]

    def ahead(alpha: float) -> float:
        return sums[1] / base(lengths[1]) ** alpha - sums[0] / base(lengths[0]) ** alpha

    def growth(base: Callable[[int], float], minus: int = 0) -> float:
        return math.log(base(lengths[1] - minus) / base(lengths[0] - minus))

    right, ratio = _found_by_trying(ahead, 0.0, 100.0), sums[1] / sums[0]
    wrong: list[tuple[str, Callable[[], float]]] = [
        (
            "the sign is wrong. Which of the two log-probabilities is further from 0?",
            lambda: -right,
        ),
        (
            "the probabilities are compared, but a score contains the log-probability.",
            lambda: (sums[0] - sums[1]) / growth(base),
        ),
        (
            "the logarithm of a ratio of probabilities is compared. Form the ratio of the two "
            "log-probabilities, then take its logarithm.",
            lambda: (sums[1] - sums[0]) / growth(base),
        ),
        (
            "END is not counted. Its probability is a factor as well, and it is one of the tokens.",
            lambda: math.log(words[1] / words[0]) / growth(base, minus=1),
        ),
        ("END is not counted in the lengths.", lambda: math.log(ratio) / growth(base, minus=1)),
        ("this is the alpha of the other penalty.", lambda: math.log(ratio) / growth(other)),
        (
            "alpha is an exponent, not a factor. Take logarithms to solve for it.",
            lambda: ratio / math.exp(growth(base)),
        ),
        (
            "the logarithm of the ratio of log-probabilities is missing.",
            lambda: ratio / growth(base),
        ),
        ("this is the reciprocal of alpha.", lambda: 1 / right),
    ]
    twins = [
        Twin(f"tipping_alphas, {name}: {said}", lambda *_, w=answer: w()) for said, answer in wrong
    ]
    score = sums[0] / base(lengths[0]) ** right
    hint = f"At the expected alpha, both hypotheses have the score {score:.3f}."
    expect_value(got, right, f"tipping_alphas, {name}", asked, twins, hint)


def _expect_temperature(candidate: object, asked: Mapping[str, float]) -> None:
    scores = torch.tensor([asked["higher"], asked["lower"]], dtype=torch.float64).log()
    ratio = asked["ratio"]

    def too_even(temperature: float) -> float:
        first, second = (scores / temperature).softmax(0).tolist()
        return ratio - first / second

    right = _found_by_trying(too_even, 0.01, 1000.0)
    odds = asked["higher"] / asked["lower"]
    wrong = [
        ("this is the reciprocal. A high temperature makes probabilities more equal.", 1 / right),
        ("a temperature divides log-probabilities, not probabilities.", odds / ratio),
        ("a temperature divides log-probabilities, not probabilities.", ratio / odds),
        ("the logarithm of `ratio` is missing.", math.log(odds) / ratio),
        ("the sign is wrong.", -right),
    ]
    twins = [Twin(f"tipping_temperature: {said}", lambda *_, w=number: w) for said, number in wrong]
    hint = f"At the temperature {right:.3f}, the two probabilities have the ratio {ratio:g}."
    answer = call_twice(candidate, asked)
    expect_value(answer, right, "tipping_temperature", asked, twins, hint)


# Part 6


@dataclass(frozen=True)
class _Reads:
    """The state of a `TableModel`: the tokens that each row has read."""

    reads: list[tuple[int, ...]]

    def select(self, rows: Tensor) -> Self:
        """Return the state of the chosen rows."""
        return replace(self, reads=[self.reads[row] for row in rows.tolist()])


class TableModel(EncoderDecoder[_Reads]):
    """A model that reads its probabilities from a table, whatever the source."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> _Reads:
        """Return the state before the first token."""
        return _Reads([() for _ in memory.outputs])

    def step(self, token: Tensor, state: _Reads) -> tuple[Tensor, _Reads]:
        """Read one token for each row; return the logits of the next tokens and the new state."""
        if token.shape != (len(state.reads),):
            raise ValueError(
                f"token has the shape {tuple(token.shape)}, but the state has {len(state.reads)} "
                "rows: pass one token for each row"
            )
        reads = [(*row, new) for row, new in zip(state.reads, token.tolist(), strict=True)]
        logits = torch.stack([_following(self.table, row).log() for row in reads])
        return logits, _Reads(reads)

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Return the logits at every position of a known target."""
        state, columns = self.start(memory), []
        for token in tgt.unbind(dim=1):
            logits, state = self.step(token, state)
            columns.append(logits)
        return DecoderOutput(torch.stack(columns, dim=1))


@_parts.part("debugging", "clones", "ranked", "sampled")
def bug_hunt(clones: object, ranked: object, sampled: object, thorough: bool = False) -> None:
    """Examine the three corrected functions one after the other."""
    in_turn(
        {
            "clones": lambda: _examine_clones(clones, thorough),
            "ranked": lambda: _examine_ranked(ranked, thorough),
            "sampled": lambda: _examine_sampled(sampled, thorough),
        }
    )


def _examine_clones(candidate: object, thorough: bool) -> None:
    cases = [(_FORK, 2, 4), (_random_table(10, 2, 2), 2, 5), (_random_table(5, 2, 3), 3, 5)]
    cases.append((_random_table(2, 1, 2), 2, 4))
    if thorough:
        cases += [(_random_table(seed, 3, 3), width, 6) for seed, width in ((7, 5), (8, 2), (9, 7))]
    for table, beam_size, max_len in cases:
        shown = {**_rows(table), "beam_size": beam_size, "max_len": max_len}
        given = (TableModel(table), torch.tensor([[4, END_ID]]), beam_size, max_len)
        step = step_of(table)
        _examine_clones_on(candidate, step, given, beam_size, max_len, shown)
    src, _ = sentences(1, 1)
    shown = {"sentence": words(src[0].tolist(), "src"), "beam_size": 4, "max_len": 12}
    step, model = translation_step(src, forbidden_ids=()), translator()
    _examine_clones_on(candidate, step, (model, src, 4, 12), 4, 12, shown)


def _examine_clones_on(
    candidate: object,
    step: Step,
    given: tuple[object, ...],
    beam_size: int,
    max_len: int,
    shown: Mapping[str, object],
) -> None:
    with torch.no_grad():
        answer = _ask(candidate, given, shown)
    # A finished hypothesis occupies a row; without a penalty, rule 5 loses no better hypothesis.
    expected = _as_lists(search(step, beam_size, max_len, 0.0, "shrinking"))
    pairs = answer if isinstance(answer, list) else []
    if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        texts = [str(tokens) for tokens, _ in pairs]
        if len({*texts}) < len(texts):
            raise CheckFailed(
                f"  clones: the same hypothesis is returned {texts.count(texts[0])} times. All "
                "rows start with the same prefix, so they have the same extensions. At the first "
                f"step, only one row may count.\n{describe(shown)}\n  got         {show(answer)}"
            )
        for tokens, said in pairs:
            true, number = _log_probability(step, tokens), plain_number(said)
            if number is None or abs(true - number) > 1e-3:
                raise CheckFailed(
                    f"  clones: {show(tokens)} is returned with the log-probability {show(said)}, "
                    f"but the model assigns it {true:.4g}. Each hypothesis must continue from the "
                    f"state of the one that it extends, which may be in another "
                    f"row.\n{describe(shown)}"
                )
    hint = (
        "Expected are pairs (tokens, log-probability) of the hypotheses that finish within max_len "
        "steps, the most probable first."
    )
    expect_value(answer, expected, "clones", shown, hint=f"clones: {hint}")


def _log_probability(step: Step, tokens: object) -> float:
    """Return the log-probability of a sentence with its END; of anything else, minus infinity."""
    total, read, state = 0.0, START_ID, None
    for token in [*cast(list[int], tokens), END_ID] if isinstance(tokens, list) else []:
        number = plain_number(token)
        if not isinstance(number, int):
            return -math.inf
        values, state = step(read, state)
        total, read = total + float(values[number]), number
    return total


_Ended = list[tuple[list[int], float]]


def _ranked(ended: _Ended, alpha: float, fault: str = "") -> list[list[int]]:
    def score(pair: tuple[list[int], float]) -> float:
        length = len(pair[0]) + (fault not in ("as it was", "end"))
        if fault in ("as it was", "multiplied"):
            return pair[1] * length**alpha
        if fault == "factor":
            return pair[1] / (length * alpha or 1)
        return pair[1] / length ** (0 if fault == "alpha" else alpha)

    return [tokens for tokens, _ in sorted(ended, key=score, reverse=fault != "turned")]


_RANKED_FAULTS = {
    "as it was": "the log-probability is still multiplied, and END is still not counted.",
    "multiplied": "the log-probability is multiplied by length ** alpha. Because it is negative, "
    "the score of a long hypothesis becomes worse: divide.",
    "end": "END is not counted in the length. It is a token, and its log-probability is part of "
    "the sum.",
    "turned": "the worst hypothesis is first.",
    "alpha": "alpha has no effect.",
    "factor": "the length is multiplied by alpha. Alpha is an exponent: length ** alpha.",
}


def _examine_ranked(candidate: object, thorough: bool) -> None:
    cases: list[tuple[_Ended, float]] = [
        ([([4, 5], -1.0), ([4, 5, 6], -1.3), ([4], -1.5), ([4, 5, 6, 4, 5], -2.0)], 1.0),
        ([([4, 5], -2.0), ([4, 5, 4, 5, 4, 5], -2.1), ([6], -1.9)], 0.0),
        ([([], -0.9), ([4, 5], -2.0), ([5, 5, 5, 6], -3.1)], 1.0),
        ([([4], -1.5), ([4, 5, 6, 4, 5], -2.9), ([4, 5], -1.7)], 0.5),
    ]
    if thorough:
        texts = [([4] * n, -0.3 * n**1.2 - 0.5) for n in (7, 2, 11, 3, 5, 1)]
        cases += [(texts, alpha) for alpha in (0.0, 0.4, 0.8, 1.3)]
    for ended, alpha in cases:
        asked = {"ended": ended, "alpha": alpha}
        twins = [
            Twin(f"ranked: {said}", lambda ended, alpha, f=fault: _ranked(ended, alpha, f))
            for fault, said in _RANKED_FAULTS.items()
        ]
        hint = (
            "ranked: expected are the token lists, the best first, by log-probability / "
            "(number of tokens, END included) ** alpha."
        )
        answer = _as_lists(call_twice(candidate, asked))
        expect_value(answer, _ranked(ended, alpha), "ranked", asked, twins, hint)


_SAMPLED_FAULTS = {
    "past": "the number 1 selects a token that was removed; it must select the last of the kept "
    "ones",
    "temperature": "the probabilities are divided by the temperature and then normalised, which "
    "undoes the division",
    "cut first": "tokens are removed before the temperature is applied; the temperature comes "
    "first",
    "crossing": "the token with which the sum reaches p is removed, although it must be kept",
    "one more": "where the sum reaches p exactly, one token too many is kept",
    "endless": "max_len has no effect, although there can be more numbers than that",
    "unshared": "the kept probabilities do not sum to 1, so a number above their sum selects the "
    "least probable token",
    "clamped": "the kept probabilities do not sum to 1, so all numbers above their sum select the "
    "last kept token",
}


def _sampled(
    step: Step,
    max_len: int,
    temperature: float,
    p: float,
    numbers: Sequence[float],
    faults: Sequence[str] = (),
) -> list[int]:
    tokens: list[int] = []
    token, state = START_ID, None
    for number in numbers if "endless" in faults else numbers[:max_len]:
        scores, state = step(token, state)
        if "temperature" in faults:
            probabilities = scores.softmax(0)
        else:
            probabilities = (scores / temperature).softmax(0)
        ordered, order = probabilities.sort(descending=True)
        measured = scores.softmax(0)[order] if "cut first" in faults else ordered
        running = measured.cumsum(0)
        before = running - measured
        kept = before <= p if "one more" in faults else before < p
        ordered = ordered * (running <= p if "crossing" in faults else kept)
        if not {"unshared", "clamped"} & {*faults} and ordered.any():
            ordered = ordered / ordered.sum()
        place = int((ordered.cumsum(0) <= number).sum())
        past = {"unshared", "past"} & {*faults} and "clamped" not in faults
        last = len(order) if past else int((ordered > 0).sum())
        token = int(order[min(place, last - 1)])
        if token == END_ID:
            break
        tokens.append(token)
    return tokens


_EVER_THE_SAME: Table = {
    prefix: {"a": 0.5, "b": 0.3, "c": 0.15, "END": 0.05}
    for prefix in ("", *NAMES, *map(" ".join, itertools.product(NAMES, repeat=2)))
}
_SAMPLES: list[tuple[Table, int, float, float, list[float]]] = [
    (_EVER_THE_SAME, 3, 3.0, 0.7, [0.46, 0.93, 0.57]),
    ({"": {"a": 0.6, "b": 0.3, "END": 0.1}}, 3, 0.3, 0.98, [0.75, 0.5, 0.5]),
    (_TWO_WORDS, 5, 1.0, 0.5, [0.99, 0.9, 0.99, 0.9, 0.9]),
    (_AGAIN, 3, 2.0, 0.85, [0.2, 0.45, 0.9, 0.5]),
    (_EVER_THE_SAME, 2, 3.0, 0.7, [0.65, 0.93]),
    ({"": {"a": 0.5, "b": 0.3, "c": 0.2}}, 1, 1.0, 0.6, [1.0]),
    (_EVER_THE_SAME, 2, 3.0, 0.7, [0.46, 0.93, 0.57]),
    # Halves and quarters, so p is reached without rounding.
    ({"": {"a": 0.5, "b": 0.25, "c": 0.25}}, 1, 1.0, 0.5, [0.75]),
]


def _examine_sampled(candidate: object, thorough: bool) -> None:
    cases = [*_SAMPLES]
    if thorough:
        generator = torch.Generator().manual_seed(5)
        for seed, temperature, p in [(1, 0.5, 0.9), (2, 2.0, 0.6), (3, 1.5, 1.0), (4, 1.0, 0.3)]:
            numbers = [round(u, 3) for u in torch.rand(7, generator=generator).tolist()]
            cases.append((_random_table(seed, 3, 3), 7, temperature, p, numbers))
    for table, max_len, temperature, p, numbers in cases:
        how: dict[str, Any] = {
            "max_len": max_len,
            "temperature": temperature,
            "p": p,
            "numbers": numbers,
        }
        step = step_of(table)
        shown = {**_rows(table), **how}
        answer = _ask(candidate, (step, *how.values()), shown)
        twins = (Twin(said, lambda *_, a=answer: a) for said in _left_undone(candidate))
        hint = "sampled: expected are the tokens, without START and END."
        expect_value(answer, _sampled(step, **how), "sampled", shown, twins, hint)


def _left_undone(candidate: object) -> Iterator[str]:
    """Yield the faults that explain the answers to all of `_SAMPLES`, as few as possible."""
    pairs = []
    for table, max_len, temperature, p, numbers in _SAMPLES:
        step, how = step_of(table), (max_len, temperature, p, numbers)
        with suppress(CheckFailed):
            pairs.append((step, how, _ask(candidate, (step, *how), {})))
    for number in (1, 2, 3):
        for faults in itertools.combinations(_SAMPLED_FAULTS, number):
            if all(_sampled(step, *how, faults=faults) == answer for step, how, answer in pairs):
                yield f"sampled: {'; and '.join(_SAMPLED_FAULTS[each] for each in faults)}."
