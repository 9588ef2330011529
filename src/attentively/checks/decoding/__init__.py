"""Checks of the assignment on decoding: greedy, tables, beam search, top-p, predictions, bugs.

Searches are tried on small tables of probabilities, where every text can be listed, and then on
a trained translator. The answers to parts 2, 5 and 6 stand nowhere here: tables are searched,
predictions measured, and what the mended code finds is held against what the tables say.
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
"""The trained translator: an encoder, one fixed context vector, a decoder."""

Table = Mapping[str, Mapping[str, float]]
"""What may follow each beginning: ``{"": {"a": 0.6, "b": 0.4}, "a b": {"END": 1.0}}``."""

Step = Callable[[Any, Any], tuple[Tensor, Any]]
"""Reads a token in a state; gives the log-probabilities of the next, and the state after it."""

NAMES = ("a", "b", "c")
"""The words of every table; their ids are 4, 5 and 6."""
VOCAB = 7

_parts = Parts()
progress = _parts.progress


def ready() -> None:
    """Say that the package, its trained translator and these checks work."""
    _parts.explain_undefined_names()
    sentence = "the cat drinks the milk"
    text = translate(load_pretrained(MODEL), [sentence], beam_size=1)[0].text
    print(f"PyTorch {torch.__version__}. The trained translator makes “{text}” of “{sentence}”.")
    print(f"The ids: START {START_ID}, END {END_ID}; a, b, c of the tables 4, 5, 6. Ready.")


# What is searched: tables, and the trained translator


class _Read(NamedTuple):
    """The state of a table: the tokens read so far."""

    tokens: tuple[int, ...]


def step_of(table: Table, names: Sequence[str] = NAMES) -> Step:
    """Return the step function of a table; a beginning that the table lacks ends at once."""

    def step(token: Any, state: Any) -> tuple[Tensor, _Read]:
        token = int(token)
        if state is None and token != START_ID:
            raise ValueError(
                f"step({token}, None): a text begins with step(START_ID, None); after that, pass "
                "on the state that step returned"
            )
        if state is not None and not isinstance(state, _Read):
            raise ValueError("the state is what step returned, the second of its two values")
        read = _Read((*(state.tokens if state else ()), token))
        return _following(table, read.tokens, names).log(), read

    return step


def _following(table: Table, read: Sequence[int], names: Sequence[str] = NAMES) -> Tensor:
    """Return the probabilities of what follows; nothing sensible follows what makes no sense."""
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
    """Return the trained model, ready to be asked."""
    return cast(Seq2Seq, load_pretrained(MODEL).model.eval())


def sentences(number: int, clauses: int) -> tuple[Tensor, Tensor]:
    """Return sentences that the translator never saw, of so many clauses: sources and targets."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    pairs = toy.load("validation", number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    batch = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer))
    return batch.src, batch.tgt


def translation_step(src: Tensor, forbidden_ids: Sequence[int] = FORBIDDEN_IDS) -> Step:
    """Return the step function of the translator for one source, of shape (1, src_len)."""
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
    """Return the translator's words of ids, special tokens left out."""
    _, src_tokenizer, tgt_tokenizer = load_pretrained(MODEL).translator()
    return (tgt_tokenizer if side == "tgt" else src_tokenizer).decode(ids)


# Asking


def _ask(
    candidate: object,
    given: Sequence[object],
    shown: Mapping[str, object],
    how: Callable[..., object] = call_twice,
) -> object:
    """Call the candidate with what is given; messages show something that a reader can read."""
    if not callable(candidate):
        return call(candidate, shown)

    def ask(*_: object) -> object:
        return candidate(*given)

    ask.__name__ = getattr(candidate, "__name__", "")
    return _as_lists(how(ask, shown))


def _as_lists(answer: object) -> object:
    """Return tensors and arrays with axes, tuples and named tuples as lists; all else as it is."""
    if type(answer) in (Tensor, np.ndarray) and cast(Tensor, answer).ndim:
        return cast(Tensor, answer).tolist()
    if isinstance(answer, list | tuple):
        return [_as_lists(item) for item in answer]
    return answer


def _rows(table: Table) -> dict[str, object]:
    """Return a table row by row, for messages."""
    return {f"table[{beginning!r}]": dict(row) for beginning, row in table.items()}


# Part 1


def _greedy(step: Step, max_len: int, fault: str = "") -> list[object]:
    """Write greedily, with the fault named."""
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
    "end kept": "END is kept among the tokens. It says that the words are over, and is none.",
    "start kept": "START is kept among the tokens. It is read to begin with; nobody wrote it.",
    "end uncounted": "The log-probability of END is missing: ending, too, has a probability.",
    "product": "This is the probability, a product. Its logarithm is asked for: add "
    "log-probabilities.",
    "mean": "This is the mean over the tokens. The log-probability of a text is their sum.",
    "added": "Probabilities are added. Those of several steps are multiplied, so their logarithms "
    "are added.",
    "last": "This is the last token's alone. The log-probability of a text is the sum of all.",
    "minus": "The sign is turned. The logarithm of a probability is never above zero.",
    "bits": "This is a logarithm to the base 2; step gives natural logarithms: add them as they "
    "are.",
    "on": "It goes on after END until max_len, and what is said there means nothing.",
    "on, end kept": "It goes on after END until max_len, and what is said there means nothing.",
    "least": "The least likely token is taken.",
    "words only": "END is never taken. It is a token like the others: where it is the likeliest, "
    "the text is over.",
    "turned": "The two stand in the wrong order: first the tokens, then the log-probability.",
    "first state": "Each step is asked in the state after START. Pass on the state that step "
    "returned last.",
    "start again": "Each step reads START again. From the second on it reads the last token "
    "written.",
    "one more": "One token too many: max_len counts every token asked for, END too.",
    "one fewer": "It stops one token early: max_len tokens may be asked for, END among them.",
    "no limit": "It goes on until END comes. After max_len steps it gives up.",
}

# Tables of growing size. "a b" ends surely or nearly so, and what follows depends on all before.
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


@_parts.part("greedy", "greedy")
def greedy_loop(candidate: object, thorough: bool = False) -> None:
    """Check the greedy loop on tables, then on the trained translator."""
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
        hint = "On the tables it was right. Does your loop rely on how many tokens there are?"
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
    """Return a table with a row for each beginning of up to `depth` words, in hundredths."""
    generator = torch.Generator().manual_seed(seed)
    table = {}
    for length in range(depth + 1):
        for beginning in itertools.product(NAMES[:number], repeat=length):
            shares = torch.rand(number + 1, generator=generator).square()
            hundredths = (shares / shares.sum() * 100).round().tolist()
            hundredths[int(shares.argmax())] += 100 - sum(hundredths)
            row = zip((*NAMES[:number], "END"), hundredths, strict=True)
            table[" ".join(beginning)] = {name: int(n) / 100 for name, n in row if n > 0}
    return table


# Part 2


class _Found(NamedTuple):
    """A text and its probability."""

    text: str
    probability: float

    def __str__(self) -> str:
        return f"{self.text or 'the empty text'!r} ({self.probability:.3g})"


def _texts(table: Table, beginning: str = "", probability: float = 1.0) -> Iterator[_Found]:
    """Yield every text of a table with its probability."""
    for name, share in table.get(beginning, {"END": 1.0}).items():
        if name == "END":
            yield _Found(beginning, probability * share)
        elif share:
            yield from _texts(table, f"{beginning} {name}".strip(), probability * share)


def _written(table: Table, beam_size: int, alpha: float = 0.0) -> list[_Found]:
    """Return the best of what a search finds, for each order in which it may take equal tokens.

    It goes on until no beginning is left: no rule to stop sooner is told before part 3.
    """
    found, most = [], 2 + _depth(table)
    for names, end_last in itertools.product((NAMES, NAMES[::-1]), (False, True)):
        step = step_of(table, names)
        tokens, score = search(step, beam_size, most, alpha, "never stops", end_last)[0]
        total = score * (len(tokens) + 1) ** alpha
        found.append(_Found(" ".join(names[token - 4] for token in tokens), math.exp(total)))
    return found


def _depth(table: Table) -> int:
    return max(len(beginning.split()) for beginning in table)


def _of_ties(found: Sequence[_Found]) -> str:
    """Return what to say where equal tokens, taken in another order, make another text."""
    return " Equally likely tokens may be taken in either order." * (len({*found}) > 1)


def _likeliest(table: Table) -> _Found:
    return max(_texts(table), key=lambda found: found.probability)


@_parts.part("tables", "greedy_loses", "beam_loses", "empty_wins")
def tables(
    greedy_loses: object, beam_loses: object, empty_wins: object, thorough: bool = False
) -> None:
    """Search the tables handed in, in every way; there is nothing further to try."""
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
    """Return the table of a candidate, if it is one."""
    table = call_twice(candidate, {})
    may = (*NAMES[:number], "END")

    def refuse(why: str) -> CheckFailed:
        return CheckFailed(f"  {name}: {why}")

    if not isinstance(table, dict) or not all(isinstance(row, dict) for row in table.values()):
        said = "None: is there a `return`?" if table is None else show(table)
        raise refuse(f"expected a dict of dicts, got {said}")
    if "" not in table:
        raise refuse("the row of the empty beginning, table[''], is missing: there all begins.")
    if len(table) > _MOST_ROWS:
        raise refuse(f"{len(table)} rows; at most {_MOST_ROWS}, and a handful will do.")
    numbers: dict[str, dict[str, float]] = {}
    for beginning, row in table.items():
        where = f"table[{beginning!r}]"
        if not isinstance(beginning, str) or not {*beginning.split()} <= {*may[:-1]}:
            raise refuse(f"{where}: a beginning is made of {' and '.join(may[:-1])}, with spaces.")
        if beginning != " ".join(beginning.split()):
            raise refuse(f"{where}: one space between two words, and none around them.")
        strange = [word for word in row if word not in may]
        if strange:
            raise refuse(f"{where} has {strange[0]!r}; the tokens are {', '.join(may)}.")
        shares = {word: plain_number(value) for word, value in row.items()}
        if not all(share is not None and share >= 0 for share in shares.values()):
            raise refuse(f"{where}: a probability is a number from 0 to 1. Got {show(row)}")
        numbers[beginning] = {word: float(share or 0) for word, share in shares.items()}
        total = sum(numbers[beginning].values())
        if abs(total - 1) > 1e-6:
            raise refuse(
                f"the probabilities of {where} sum to {total:.4g}, not to 1. END takes part: it is "
                "a token like the others."
            )
    return numbers


def _examine_greedy_loses(table: Table) -> None:
    best = _likeliest(table)
    written = _written(table, 1)
    for greedy in written:
        if best.probability < _NEARLY * 2 * greedy.probability:
            raise CheckFailed(
                f"  greedy_loses: greedy writes {greedy}, and the likeliest is {best}: "
                f"{best.probability / greedy.probability:.2f} times as likely. It should be twice "
                "as likely or more. How small can greedy's second factor become?"
                f"{_of_ties(written)}\n{describe(_rows(table))}"
            )
    _expect_finds(table, 2, best, "greedy_loses")


def _examine_beam_loses(table: Table) -> None:
    best = _likeliest(table)
    written = _written(table, 2)
    for found in written:
        if best.probability < _NEARLY * 1.1 * found.probability:
            raise CheckFailed(
                f"  beam_loses: a beam of 2 writes {found}, and the likeliest is {best}: hardly "
                "more, and 1.1 times as much is asked for. Its first word has to be the third at "
                f"the start, or the path is dropped later.{_of_ties(written)}"
                f"\n{describe(_rows(table))}"
            )
    _expect_finds(table, 3, best, "beam_loses")


def _expect_finds(table: Table, beam_size: int, best: _Found, name: str) -> None:
    written = _written(table, beam_size)
    for found in written:
        if found.probability < _NEARLY * best.probability:
            raise CheckFailed(
                f"  {name}: a beam of {beam_size} misses the likeliest text: it writes {found}, "
                f"not {best}. Its beginning must be among the {beam_size} likeliest all the way."
                f"{_of_ties(written)}\n{describe(_rows(table))}"
            )


def _examine_empty_wins(table: Table) -> None:
    rows = describe(_rows(table))
    ways = [_written(table, 1), _written(table, 2), _written(table, 2, alpha=1.0)]
    ties = [_of_ties(written) for written in ways]
    for greedy, plain, mended in zip(*ways, strict=True):
        if len(greedy.text.split()) < 3:
            raise CheckFailed(
                f"  empty_wins: greedy writes {greedy}; three words or more are asked for."
                f"{ties[0]}\n{rows}"
            )
        if plain.text:
            raise CheckFailed(
                f"  empty_wins: without a penalty a beam of 2 writes {plain}, not the empty text. "
                "END must be second at the start, and the long text in the end less likely than "
                f"that.{ties[1]}\n{rows}"
            )
        if mended.text != greedy.text:
            why = "compare those means."
            if _mean(mended) < _mean(greedy):
                why = (
                    "that mean is better for greedy's, but the beam drops its beginning on the way."
                )
            raise CheckFailed(
                f"  empty_wins: with alpha = 1 a beam of 2 writes {mended}, not greedy's {greedy}. "
                "Then log-probabilities are divided by the number of tokens, END counted: "
                f"{why}{ties[2]}\n{rows}"
            )


def _mean(found: _Found) -> float:
    return math.log(found.probability) / (len(found.text.split()) + 1)


# Part 3


class _Text(NamedTuple):
    """A text that a search follows."""

    tokens: list[int]
    total: float
    state: Any
    """The state in which its last token is still to be read."""


def search(
    step: Step,
    beam_size: int,
    max_len: int,
    alpha: float,
    fault: str = "",
    end_last: bool = False,
) -> list[tuple[list[int], float]]:
    """Search with a beam by the rules of part 3; return texts and scores, with the fault named.

    Among extensions that are equally likely END comes first or, if `end_last`, last.
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
    best_live = live[-(fault == "worst beginning")] / divisor
    return best_live <= ended[0 if fault == "against the best" else beam_size - 1][2]


_TOO_EARLY = (
    "It stops too early. Rule 5: it goes on until beam_size texts are kept and the likeliest "
    "beginning, divided by its own length ** alpha, does not beat the worst of them."
)
SEARCH_FAULTS = {
    "end kept": "END is kept among the tokens. It says that the words are over, and is none.",
    "no penalty": "The length has no part in it. The score is the log-probability divided by "
    "length ** alpha.",
    "raw order": "Texts are ranked by log-probability. The score decides which come first and "
    "which are kept.",
    "end uncounted": "END is not counted in the length. It is a token, and its log-probability is "
    "in the sum.",
    "multiplied": "The log-probability is multiplied by length ** alpha. It is negative: what "
    "should favour long texts punishes them.",
    "factor": "The length is multiplied by alpha. Alpha is an exponent: length ** alpha.",
    "start counted": "The length is one too great: END is counted, START is not.",
    "gnmt": "This is GNMT's penalty. Here the score is the log-probability / length ** alpha.",
    "score carried": "A beginning goes on with its score. Keep its log-probability; divide only to "
    "compare.",
    "worst first": "The worst stands first. Return the best first.",
    "no sum": "Each extension has its last token's log-probability only. Add that of its "
    "beginning.",
    "best of each": "Each beginning is extended by its likeliest token alone, so a beam never "
    "forks. Extend by every token, then compare all.",
    "all": "All extensions are followed; only the beam_size likeliest go on.",
    "by place": "A text goes on in the state of the one that stood at its place, not of its own "
    "beginning. Carry the state with the text.",
    "first state": "All texts go on in the state of the likeliest one. Carry each text's state "
    "with it.",
    "last state": "All texts go on in the state that step returned last. Carry each text's state "
    "with it.",
    "ends anywhere": "An extension that ends is kept although it is not among the beam_size "
    "likeliest extensions.",
    "shrinking": "Texts that end take the place of beginnings: the beam becomes narrower. The "
    "beam_size likeliest that do not end go on.",
    "more kept": "More than beam_size texts are kept. Of those that ended, the beam_size with the "
    "best scores.",
    "early": _TOO_EARLY,
    "first end": _TOO_EARLY,
    "against the best": _TOO_EARLY,
    "worst beginning": _TOO_EARLY,
    "stop unpenalised": _TOO_EARLY,
    "never stops": "It goes on to max_len. Rule 5: once beam_size texts are kept and the likeliest "
    "beginning, scored at its present length, beats none of them, it stops.",
    "unfinished": "Texts without END are returned. Only those that ended count.",
    "one more": "One step too many: max_len counts every token, END too.",
    "one fewer": "It stops one step early: the END may be token number max_len.",
}

_SearchCase = tuple[Table, int, int, float]
_FORK: Table = {
    "": {"a": 0.6, "b": 0.4},
    "a": {"a": 0.4, "b": 0.35, "END": 0.25},
    "b": {"a": 0.9, "END": 0.1},
}
"""Greedy writes "a a" with 0.24; "b a" has 0.36."""
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


@_parts.part("beam search", "beam_search")
def beam(candidate: object, thorough: bool = False) -> None:
    """Check beam search on tables, every text and score of it, then on the trained translator."""
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
                "  Extensions of probability 0, −inf, are kept. Leave them out."
                f"\n{describe(shown)}\n  got         {show(answer)}"
            )
        expected = _as_lists(search(step, beam_size, max_len, alpha))
        hint = "A list of pairs (tokens, score), the best first."
        expect_value(answer, expected, "the texts", shown, twins, hint)
    model = translator()
    for clauses, beam_size, alpha in [(2, 10, 1.0), *[(3, 4, 0.0)] * thorough]:
        src, _ = sentences(1, clauses)
        _expect_translations(candidate, model, src, beam_size, alpha)


def _expect_translations(
    candidate: object, model: Seq2Seq, src: Tensor, beam_size: int, alpha: float
) -> None:
    """Hold the best text and all scores against what the package finds."""
    text = words(src[0].tolist(), "src")
    shown = {"sentence": text, "beam_size": beam_size, "max_len": 60, "alpha": alpha}
    given = (translation_step(src), beam_size, 60, alpha)
    answer = _ask(candidate, given, shown, call)
    (found,) = packages_search(model, src, 60, beam_size, alpha)
    over = [hypothesis for hypothesis in found if hypothesis.finished]
    expected = [over[0].ids, [hypothesis.score for hypothesis in over]]
    pairs = cast(list[Any], answer)
    got = [pairs[0][0], [pair[1] for pair in pairs]] if pairs else answer
    expect_value(got, expected, "the best translation and the scores of all", shown)


# Part 4


def _top_p(scores: Tensor, temperature: float, p: float, fault: str = "") -> Tensor:
    """Return what is drawn from, with the fault named."""
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
    if fault == "sorted":
        probabilities = ordered * kept
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
    "ties": "Of tokens that are equally likely all are kept. As few as reach p: which of them is "
    "left to you.",
    "no softmax": "The exponentials are held against p before they are shared out. First the "
    "softmax: they need not sum to 1.",
    "cut first": "The cut comes before the temperature. First the temperature, then the cut: a "
    "higher one keeps more tokens.",
    "hot": "Scores are multiplied by the temperature. Divide: a high one makes tokens more alike.",
    "cold": "The temperature has no part in it. (If probabilities are divided by it, sharing out "
    "again undoes that: divide the scores.)",
    "fraction": "The number p is used as a share of the likeliest token's probability. It is what "
    "those kept reach together.",
    "zero score": "What is cut off gets the score 0, and exp(0) is 1. Its score is −inf, its "
    "probability 0.",
    "unshared": "What is left does not sum to 1. Divide by its sum: those kept share out the rest.",
    "over p": "What is left is divided by p. It reaches p, and may be more: divide by its sum.",
    "sorted": "The probabilities stand in the order of their size. Each belongs to its own token: "
    "put them back.",
    "crossing dropped": "The token with which p is reached is dropped. It is kept: without it the "
    "sum stays below p.",
    "crossing dropped, one kept": "The token with which p is reached is dropped. It is kept: "
    "without it the sum stays below p.",
    "one more": "One token too many: with the one before it p was reached already.",
    "not cut": "Nothing is cut off; p has no part in it.",
    "rarest": "The rarest tokens are kept. Begin with the likeliest.",
    "threshold": "The number p is used as the least probability of a token. It is what those kept "
    "reach together.",
    "logarithms": "These are log-probabilities. Probabilities are asked for.",
    "softmax again": "A softmax is taken of probabilities, which gives what was cut off a share. "
    "Divide by the sum.",
    "even": "Those kept are made equally likely. They keep their proportions.",
}


@_parts.part("top-p", "top_p")
def nucleus(candidate: object, thorough: bool = False) -> None:
    """Check what is kept and how it is shared out, ties and single tokens too."""
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
        # Tokens that are equally likely may stand for each other.
        same = scores.unsqueeze(0) == scores.unsqueeze(1)
        sums = [torch.where(same, row, 0.0).sum(1) for row in (got, expected)]
        number = [int((row > 0).sum()) for row in (got, expected)]
        if torch.allclose(sums[0], sums[1], 1e-4, 1e-5) and number[0] == number[1]:
            return
    twins = [
        Twin(said, lambda *_, f=fault: _top_p(**inputs, fault=f))
        for fault, said in _TOP_P_FAULTS.items()
    ]
    hint = "One probability for each token, those cut off 0."
    expect_equal(got, expected, "the probabilities", inputs, twins, hint)


def _as_floats(answer: object) -> object:
    """Return lists of numbers and tensors of 64 bits as tensors of 32."""
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
    """Hold what is foretold against what is counted and found by trying."""
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
    for likelier, other, times in [
        (0.5, 0.1, 3.0),
        (0.5, 0.2, 10.0),
        *[(0.9, 0.01, 1.5), (0.3, 0.25, 4.0)] * thorough,
    ]:
        asked = {"likelier": likelier, "other": other, "times": times}
        _expect_temperature(tipping_temperature, asked)


def _expect_costs(candidate: object, asked: Mapping[str, int]) -> None:
    answer = call_twice(candidate, asked)
    if not isinstance(answer, dict):
        said = "None: is there a `return`?" if answer is None else show(answer)
        raise CheckFailed(f"  costs: expected a dict, got {said}")
    for key, counted in _counted(**asked).items():
        if key not in answer:
            raise CheckFailed(f"  costs: the dict lacks {key!r}.\n{describe(asked)}")
        twins = [
            Twin(f"costs, {key}: {said}", lambda *_, w=wrong: w)
            for said, wrong in _miscounted(**asked)[key]
        ]
        hint = "It was counted on a language of that size."
        expect_value(answer[key], counted, f"costs, {key}", asked, twins, hint)


def _counted(words: int, max_len: int, beam_size: int) -> dict[str, int]:
    """List the texts of a language in which END is never likely, and search it."""
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

    end_too = "END is one of the max_len tokens, so a text has at most max_len - 1 words."
    full = (
        "the beam is not full from the start: there is one beginning, then one for each word, then "
        "for each two words, until there are beam_size."
    )
    return {
        "texts": [
            ("the empty text is one of them.", sizes(range(1, max_len))),
            (end_too, sizes(range(max_len + 1))),
            (end_too, sizes(range(1, max_len + 1))),
            (end_too, words**max_len),
            ("shorter texts count too.", words ** (max_len - 1)),
            ("after END nothing follows: these are rows of any tokens.", (words + 1) ** max_len),
        ],
        "greedy": [
            ("the last token, too, is asked for.", max_len - 1),
            ("START is read by the first call, which gives the first token.", max_len + 1),
            ("one call gives the log-probabilities of all tokens.", max_len * words),
            ("one call gives the log-probabilities of all tokens.", max_len * (words + 1)),
        ],
        "beam": [
            (full, beam_size * max_len),
            (full, 1 + beam_size * (max_len - 1)),
            (full, 1 + words + beam_size * (max_len - 2)),
            (full, 1 + min(beam_size, words) * (max_len - 1)),
            (
                "a text that has ended does not go on: there are only the words to extend by.",
                sum(min(beam_size, (words + 1) ** n) for n in range(max_len)),
            ),
            ("what comes out of the last call is not read any more.", beam_size * (max_len + 1)),
            ("each beginning needs a call of its own.", max_len),
            ("one call gives the log-probabilities of all tokens.", beam_size * max_len * words),
        ],
    }


def _found_by_trying(rises: Callable[[float], float], least: float, most: float) -> float:
    """Return where a function that goes from below zero to above crosses it."""
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
    """See that both texts score the same at the alpha foretold."""
    sums = [sum(map(math.log, text)) for text in asked.values()]
    lengths = [len(text) for text in asked.values()]

    def ahead(alpha: float) -> float:
        return sums[1] / base(lengths[1]) ** alpha - sums[0] / base(lengths[0]) ** alpha

    def growth(base: Callable[[int], float], minus: int = 0) -> float:
        return math.log(base(lengths[1] - minus) / base(lengths[0] - minus))

    right, ratio = _found_by_trying(ahead, 0.0, 100.0), sums[1] / sums[0]
    wrong: list[tuple[str, Callable[[], float]]] = [
        ("the sign is turned: which of the two sums is farther from 0?", lambda: -right),
        (
            "probabilities are compared; scores are made of log-probabilities.",
            lambda: (sums[0] - sums[1]) / growth(base),
        ),
        ("END is left out of the lengths.", lambda: math.log(ratio) / growth(base, minus=1)),
        ("this is the alpha of the other penalty.", lambda: math.log(ratio) / growth(other)),
        (
            "alpha is an exponent, not a factor: solve by logarithms.",
            lambda: ratio / math.exp(growth(base)),
        ),
        ("of the ratio of the sums, too, the logarithm is needed.", lambda: ratio / growth(base)),
        ("this is its inverse.", lambda: 1 / right),
    ]
    twins = [
        Twin(f"tipping_alphas, {name}: {said}", lambda *_, w=answer: w()) for said, answer in wrong
    ]
    score = sums[0] / base(lengths[0]) ** right
    hint = f"At the expected alpha the score of both is {score:.3f}."
    expect_value(got, right, f"tipping_alphas, {name}", asked, twins, hint)


def _expect_temperature(candidate: object, asked: Mapping[str, float]) -> None:
    scores = torch.tensor([asked["likelier"], asked["other"]], dtype=torch.float64).log()
    times = asked["times"]

    def too_even(temperature: float) -> float:
        first, second = (scores / temperature).softmax(0).tolist()
        return times - first / second

    right = _found_by_trying(too_even, 0.01, 1000.0)
    odds = asked["likelier"] / asked["other"]
    wrong = [
        ("this is its inverse: a high temperature makes tokens more alike.", 1 / right),
        ("temperature divides the scores, logarithms; not the probabilities.", odds / times),
        ("temperature divides the scores, logarithms; not the probabilities.", times / odds),
        ("of `times` the logarithm is needed as well.", math.log(odds) / times),
        ("the sign is turned.", -right),
    ]
    twins = [Twin(f"tipping_temperature: {said}", lambda *_, w=number: w) for said, number in wrong]
    hint = f"At {right:.3f} the softmax of the scores divided by it makes them {times:g} to 1."
    answer = call_twice(candidate, asked)
    expect_value(answer, right, "tipping_temperature", asked, twins, hint)


# Part 6


@dataclass(frozen=True)
class _Reads:
    """Where the rows of a `TableModel` stand."""

    reads: list[tuple[int, ...]]

    def select(self, rows: Tensor) -> Self:
        """Return the state of the chosen rows."""
        return replace(self, reads=[self.reads[row] for row in rows.tolist()])


class TableModel(EncoderDecoder[_Reads]):
    """A model of the package that says what a table says, whatever the source."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Memory:
        """Return the sources themselves."""
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory: Memory) -> _Reads:
        """Return the state in which nothing is read yet."""
        return _Reads([() for _ in memory.outputs])

    def step(self, token: Tensor, state: _Reads) -> tuple[Tensor, _Reads]:
        """Read one token for each row."""
        if token.shape != (len(state.reads),):
            raise ValueError(
                f"token has the shape {tuple(token.shape)}; the state has {len(state.reads)} rows, "
                "and wants one token for each"
            )
        reads = [(*row, new) for row, new in zip(state.reads, token.tolist(), strict=True)]
        logits = torch.stack([_following(self.table, row).log() for row in reads])
        return logits, _Reads(reads)

    def decode(self, tgt: Tensor, memory: Memory, need_weights: bool = False) -> DecoderOutput:
        """Read a whole target."""
        state, columns = self.start(memory), []
        for token in tgt.unbind(dim=1):
            logits, state = self.step(token, state)
            columns.append(logits)
        return DecoderOutput(torch.stack(columns, dim=1))


@_parts.part("bug hunt", "clones", "ranked", "drawn")
def bug_hunt(clones: object, ranked: object, drawn: object, thorough: bool = False) -> None:
    """Examine one mended search after the other."""
    in_turn(
        {
            "clones": lambda: _examine_clones(clones, thorough),
            "ranked": lambda: _examine_ranked(ranked, thorough),
            "drawn": lambda: _examine_drawn(drawn, thorough),
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
    # Places, not beginnings, are filled; and without a penalty nothing better comes after rule 5.
    expected = _as_lists(search(step, beam_size, max_len, 0.0, "shrinking"))
    pairs = answer if isinstance(answer, list) else []
    if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        texts = [str(tokens) for tokens, _ in pairs]
        if len({*texts}) < len(texts):
            raise CheckFailed(
                f"  clones: the same text stands there {texts.count(texts[0])} times. All places "
                "begin alike, so the likeliest extension of one is that of each. At the first "
                f"step only one place may count.\n{describe(shown)}\n  got         {show(answer)}"
            )
        for tokens, said in pairs:
            true, number = _log_probability(step, tokens), plain_number(said)
            if number is None or abs(true - number) > 1e-3:
                raise CheckFailed(
                    f"  clones: {show(tokens)} is said to have the log-probability {show(said)}; "
                    f"the model gives it {true:.4g}. A text must go on in the state of its parent, "
                    f"whose place it may have left.\n{describe(shown)}"
                )
    hint = "Pairs (tokens, log-probability) of what ended in max_len steps, the likeliest first."
    expect_value(answer, expected, "clones", shown, hint=f"clones: {hint}")


def _log_probability(step: Step, tokens: object) -> float:
    """Return the log-probability of a text with its END; of what is no text, minus infinity."""
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
    "as it was": "the log-probability is still multiplied, and END is not counted.",
    "multiplied": "the log-probability is multiplied by length ** alpha. It is negative: the "
    "longer a text, the worse its score.",
    "end": "END is not counted in the length. It is a token, and its log-probability is in the "
    "sum.",
    "turned": "the worst stands first.",
    "alpha": "alpha has no part in it.",
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
        hint = "ranked: the texts, best first, by log-probability / (tokens, END counted) ** alpha."
        answer = _as_lists(call_twice(candidate, asked))
        expect_value(answer, _ranked(ended, alpha), "ranked", asked, twins, hint)


_DRAWN_FAULTS = {
    "past": "the number 1 points past the tokens kept, at one that was cut off; it is the end of "
    "the row, the last of those kept",
    "temperature": "probabilities are divided by the temperature and shared out again, which "
    "undoes it",
    "cut first": "the cut comes before the temperature; first the temperature, then the cut",
    "crossing": "the token with which p is reached is dropped, though it is to be kept",
    "one more": "where p is reached exactly, one token too many is kept",
    "endless": "max_len has no part in it, and there may be more numbers than that",
    "unshared": "what is kept does not sum to 1, so a number above the sum draws the rarest token",
    "clamped": "what is kept does not sum to 1, and its last token takes all numbers above the sum",
}


def _drawn(
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
    beginning: {"a": 0.5, "b": 0.3, "c": 0.15, "END": 0.05}
    for beginning in ("", *NAMES, *map(" ".join, itertools.product(NAMES, repeat=2)))
}
_DRAWS: list[tuple[Table, int, float, float, list[float]]] = [
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


def _examine_drawn(candidate: object, thorough: bool) -> None:
    cases = [*_DRAWS]
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
        hint = "drawn: the tokens, without START and END."
        expect_value(answer, _drawn(step, **how), "drawn", shown, twins, hint)


def _left_undone(candidate: object) -> Iterator[str]:
    """Say what explains the answers to all of `_DRAWS`: one fault, or as few as possible."""
    pairs = []
    for table, max_len, temperature, p, numbers in _DRAWS:
        step, how = step_of(table), (max_len, temperature, p, numbers)
        with suppress(CheckFailed):
            pairs.append((step, how, _ask(candidate, (step, *how), {})))
    for number in (1, 2, 3):
        for faults in itertools.combinations(_DRAWN_FAULTS, number):
            if all(_drawn(step, *how, faults=faults) == answer for step, how, answer in pairs):
                yield f"drawn: {'; and '.join(_DRAWN_FAULTS[each] for each in faults)}."
