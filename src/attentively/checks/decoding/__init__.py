"""Checks of the assignment on decoding.

The answers are compared with the recordings in this folder; no function here is the answer of a
part. The tables of part 2 are searched, and greedy search and beam search are also compared with
the package's on a trained translation model.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from attentively.checks import (
    CheckFailed,
    Parts,
    call,
    call_twice,
    describe,
    expect_pair,
    expect_value,
    in_turn,
    once_solved,
    open_call,
    plain_number,
    show,
)
from attentively.checks.compare import InRows
from attentively.checks.question import Recorded
from attentively.checks.recordings import Topic
from attentively.checks.trained_translator import trained
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.data.pairs import Pair
from attentively.generation.generate import translate
from attentively.generation.search import (
    FORBIDDEN_IDS,
    greedy_search,
    next_log_probabilities,
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
SENTENCE = "the hen is very hungry"
"""What it translates in checks: short, because it answers each call of `step`."""

Table = Mapping[str, Mapping[str, float]]
"""The next tokens of each prefix: ``{"": {"a": 0.6, "b": 0.4}, "a b": {"END": 1.0}}``."""

Step = Callable[[Any, Any], tuple[Tensor, Any]]
"""Read a token in a state; return the log-probabilities of the next token and the new state."""

NAMES = ("a", "b", "c")
"""The words of every table; their ids are 4, 5 and 6."""
VOCAB = 7

Inputs = Mapping[str, Any]

_parts = Parts()
_topic = Topic(__file__)
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


@dataclass(frozen=True)
class TableStep(InRows):
    """The step function of a table; messages show the table row by row."""

    rows: Table

    def __call__(self, token: Any, state: Any) -> tuple[Tensor, _Read]:
        """Return the log-probabilities of the next token, and the new state."""
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
        return _following(self.rows, read.tokens).log(), read


def step_of(table: Table) -> Step:
    """Return the step function of a table; after a prefix that is not in the table, END follows."""
    return TableStep(table)


def _following(table: Table, read: Sequence[int]) -> Tensor:
    """Return the probabilities of the next token; after an invalid prefix, always the last word."""
    ids = {"END": END_ID, **{name: 4 + place for place, name in enumerate(NAMES)}}
    first, *rest = read
    if first != START_ID or not {*rest} <= {*range(4, 4 + len(NAMES))}:
        row: Mapping[str, float] = {NAMES[-1]: 1.0}
    else:
        row = table.get(" ".join(NAMES[token - 4] for token in rest), {"END": 1.0})
    probabilities = torch.zeros(VOCAB, dtype=torch.float64)
    for name, probability in row.items():
        probabilities[ids[name]] = probability
    return probabilities.float()


def translator() -> Seq2Seq:
    """Return the trained model in evaluation mode."""
    return cast(Seq2Seq, load_pretrained(MODEL).model.eval())


def sentences(number: int, clauses: int) -> tuple[Tensor, Tensor]:
    """Return sources and targets of `clauses` clauses that the model has not seen in training."""
    _, src_tokenizer, tgt_tokenizer = trained(MODEL).translator()
    pairs = toy.load("validation", number, clauses=(clauses,))
    texts = [Pair(pair.src_text, pair.tgt_text) for pair in pairs]
    batch = collate(encode_pairs(texts, src_tokenizer, tgt_tokenizer))
    return batch.src, batch.tgt


def _source(sentence: str) -> Tensor:
    """Return the ids of a sentence for the trained model, of shape (1, src_len)."""
    _, src_tokenizer, tgt_tokenizer = trained(MODEL).translator()
    return collate(encode_pairs([Pair(sentence, "")], src_tokenizer, tgt_tokenizer)).src


def translation_step(src: Tensor, forbidden_ids: Sequence[int] = FORBIDDEN_IDS) -> Step:
    """Return the step function of the trained model for one source, of shape (1, src_len)."""
    model = translator()  # its own: a student's code may change what it reaches
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
    _, src_tokenizer, tgt_tokenizer = trained(MODEL).translator()
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


# Part 1


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
    _topic.examine("greedy", candidate, thorough, tidy=_pair)
    open_call.once(_expect_translation, candidate)


def _expect_translation(candidate: object) -> None:
    """Compare a translation and its log-probability with those of the package."""
    src = _source(SENTENCE)
    shown = {"sentence": SENTENCE, "max_len": 60}
    answer = _ask(candidate, (translation_step(src), 60), shown, call)
    (found,) = greedy_search(cast(Seq2Seq, trained(MODEL).model), src, 60)
    expected = [found.ids, found.log_probability]
    hint = "All tables were right. Does your code depend on the vocabulary size?"
    expect_value(answer, expected, "the translation", shown, hint=hint)


def _pair(answer: object, inputs: Inputs) -> object:
    return _as_lists(expect_pair(answer, ("tokens", "log_probability"), inputs))


# Part 2


class Found(NamedTuple):
    """A sentence and its probability."""

    text: str
    probability: float

    def __str__(self) -> str:
        return f"{self.text or 'the empty sentence'!r} ({self.probability:.3g})"


def _texts(table: Table, prefix: str = "", probability: float = 1.0) -> Iterator[Found]:
    """Yield every sentence of a table with its probability."""
    for name, share in table.get(prefix, {"END": 1.0}).items():
        if name == "END":
            yield Found(prefix, probability * share)
        elif share:
            yield from _texts(table, f"{prefix} {name}".strip(), probability * share)


def search(
    table: Table, beam_size: int, alpha: float = 0.0, order: Sequence[str] = ("END", *NAMES)
) -> Found:
    """Return the output of the beam search of part 2 on a table.

    It ends when no partial hypothesis is left; part 3 introduces the earlier stop. Of equally
    probable extensions, the one whose token is first in `order` comes first.
    """
    found: list[Found] = []
    live = [Found("", 1.0)]
    while live:
        extensions = [
            (name, Found(f"{prefix} {name}".strip(), probability * float(row[name])))
            for prefix, probability in live
            for row in [table.get(prefix, {"END": 1.0})]
            for name in order
            if row.get(name)
        ]
        extensions.sort(key=lambda each: (-_rounded(each[1].probability), order.index(each[0])))
        found += [
            Found(text.removesuffix("END").strip(), probability)
            for name, (text, probability) in extensions[:beam_size]
            if name == "END"
        ]
        live = [prefix for name, prefix in extensions if name != "END"][:beam_size]
    return max(found, key=lambda each: _score(each, alpha))


def _rounded(probability: float) -> float:
    """Return a probability without what the order of multiplication changes."""
    return float(f"{probability:.9g}")


def _score(found: Found, alpha: float) -> float:
    return math.log(found.probability) / (len(found.text.split()) + 1) ** alpha


def _written(table: Table, beam_size: int, alpha: float = 0.0) -> list[Found]:
    """Return the output of a search for each order in which it may take equal tokens."""
    orders = [("END", *NAMES), ("END", *NAMES[::-1]), (*NAMES, "END"), (*NAMES[::-1], "END")]
    return [search(table, beam_size, alpha, order) for order in orders]


def _of_ties(found: Sequence[Found]) -> str:
    """Return a remark if the result depends on the order of equally probable tokens."""
    return " A search may take equally probable tokens in either order." * (len({*found}) > 1)


def _most_probable(table: Table) -> Found:
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
                f"{_of_ties(written)}\n{describe({'table': TableStep(table)})}"
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
                f"\n{describe({'table': TableStep(table)})}"
            )
    _expect_finds(table, 3, best, "beam_loses")


def _expect_finds(table: Table, beam_size: int, best: Found, name: str) -> None:
    written = _written(table, beam_size)
    for found in written:
        if found.probability < _NEARLY * best.probability:
            raise CheckFailed(
                f"  {name}: a beam of size {beam_size} misses the most probable sentence: it "
                f"outputs {found} instead of {best}. At every step, the prefix of that sentence "
                f"must be among the {beam_size} most probable ones."
                f"{_of_ties(written)}\n{describe({'table': TableStep(table)})}"
            )


def _examine_empty_wins(table: Table) -> None:
    rows = describe({"table": TableStep(table)})
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
            if _score(normalised, 1.0) < _score(greedy, 1.0):
                why = (
                    "The output of greedy search has the higher mean, but the beam drops one of "
                    "its prefixes."
                )
            raise CheckFailed(
                f"  empty_wins: with alpha = 1, a beam of size 2 outputs {normalised} instead of "
                f"{greedy}, the output of greedy search. With alpha = 1, the log-probability is "
                f"divided by the number of tokens, END included. {why}{ties[2]}\n{rows}"
            )


# Part 3


@_parts.part(
    "beam search",
    "beam_search",
    rebuilds=("attentively.generation.search:beam_search",),
    refuses=("attentively.generation.search:generate",),
)
def beam(candidate: object, thorough: bool = False) -> None:
    """Check all hypotheses and scores of beam search on tables, then on the trained model."""
    _topic.examine("beam_search", candidate, thorough, tidy=_possible)
    for how in open_call.new("searches", [(10, 1.0), *[(4, 0.0)] * thorough]):
        _expect_translations(candidate, *how)


def _possible(answer: object, inputs: Inputs) -> object:
    """Return the hypotheses as lists; refuse those with probability 0."""
    found = _as_lists(answer)
    pairs = found if isinstance(found, list) else []
    if any(isinstance(pair, list) and -math.inf in pair for pair in pairs):
        raise CheckFailed(
            "  Extensions with probability 0 (log-probability −inf) are kept. Leave them out."
            f"\n{describe(inputs)}\n  got         {show(found)}"
        )
    return found


def _expect_translations(candidate: object, beam_size: int, alpha: float) -> None:
    """Compare the best hypothesis and all scores with those of the package."""
    src = _source(SENTENCE)
    shown = {"sentence": SENTENCE, "beam_size": beam_size, "max_len": 60, "alpha": alpha}
    given = (translation_step(src), beam_size, 60, alpha)
    answer = _ask(candidate, given, shown, call)
    (found,) = packages_search(cast(Seq2Seq, trained(MODEL).model), src, 60, beam_size, alpha)
    over = [hypothesis for hypothesis in found if hypothesis.finished]
    expected = [over[0].ids, [hypothesis.score for hypothesis in over]]
    pairs = cast(list[Any], answer)
    got = [pairs[0][0], [pair[1] for pair in pairs]] if pairs else answer
    expect_value(got, expected, "the best translation and all scores", shown)


# Part 4


@_parts.part(
    "top-p",
    "top_p",
    rebuilds=("attentively.generation.search:truncate",),
    step=True,
)
def nucleus(candidate: object, thorough: bool = False) -> None:
    """Check which tokens are kept and with which probabilities, also for ties and single tokens."""
    _topic.examine("top_p", candidate, thorough, tidy=_by_index, explain=_of_the_sum)


def _by_index(answer: object, inputs: Inputs) -> object:
    """Return a tensor in which, of equally probable tokens, those with the first ids are kept."""
    got, scores = _as_floats(answer), inputs["scores"]
    if type(got) is not Tensor or got.layout != torch.strided or got.shape != scores.shape:
        return got
    ordered = got.clone()
    for score in scores.unique():
        ordered[scores == score] = got[scores == score].sort(descending=True).values
    return ordered


def _of_the_sum(got: object, recorded: Recorded) -> str:
    if not isinstance(got, Tensor) or abs(got.sum() - 1) <= 1e-3:
        return ""
    return f"The probabilities sum to {float(got.sum()):.3g}. They must sum to 1."


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
    """Check predicted numbers of calls, alphas and temperatures."""
    _topic.examine("costs", costs, thorough, tidy=_counts)
    _topic.examine("tipping_alphas", tipping_alphas, thorough)
    _topic.examine("tipping_temperature", tipping_temperature, thorough)


def _counts(answer: object, inputs: Inputs) -> object:
    """Return the three counts."""
    if not isinstance(answer, dict):
        raise CheckFailed(f"  costs: expected a dict, got {show(answer)}\n{describe(inputs)}")
    for key in ("texts", "greedy", "beam"):
        if key not in answer:
            raise CheckFailed(f"  costs: the key {key!r} is missing.\n{describe(inputs)}")
    return [answer[key] for key in ("texts", "greedy", "beam")]


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
            "ranked": lambda: _topic.examine("ranked", ranked, thorough),
            "sampled": lambda: _topic.examine("sampled", sampled, thorough),
        }
    )


@dataclass(frozen=True)
class Sentence:
    """A source sentence for the trained model."""

    text: str

    def __repr__(self) -> str:
        return repr(self.text)


def on_a_model(clones: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs an answer on the model of a table, or on the trained model."""

    def run(given: TableStep | Sentence, beam_size: int, max_len: int) -> Any:
        with torch.no_grad():
            return clones(*_model_and_source(given), beam_size, max_len)

    return run


def _model_and_source(given: TableStep | Sentence) -> tuple[EncoderDecoder[Any], Tensor]:
    if isinstance(given, TableStep):
        return TableModel(given.rows), torch.tensor([[4, END_ID]])
    return translator(), _source(given.text)


def _examine_clones(candidate: object, thorough: bool) -> None:
    cases = open_call.new_cases("clones", _topic.recording("clones", thorough).cases)
    for number, each in enumerate(cases):
        how = call if number else call_twice
        _expect_hypotheses(candidate, each.case.inputs, each.expected["clones"], how)


def _expect_hypotheses(
    candidate: object, shown: Inputs, expected: object, how: Callable[..., object]
) -> None:
    given, *sizes = shown.values()
    model, src = _model_and_source(given)
    with torch.no_grad():
        answer = _ask(candidate, (model, src, *sizes), shown, how)
    hint = (
        "Expected are pairs (tokens, log-probability) of the hypotheses that finish within max_len "
        "steps, the most probable first."
    )
    try:
        expect_value(answer, expected, "clones", shown, hint=f"clones: {hint}")
    except CheckFailed:
        step = given if isinstance(given, TableStep) else translation_step(src, forbidden_ids=())
        _explain_hypotheses(answer, step, shown)
        raise


def _explain_hypotheses(answer: object, step: Step, shown: Inputs) -> None:
    """Raise a `CheckFailed` that names the mistake in wrong hypotheses, if it is a known one."""
    pairs = answer if isinstance(answer, list) else []
    if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        if -math.inf in [said for _, said in pairs]:
            raise CheckFailed(
                "  clones: a hypothesis with the log-probability −inf is returned. A row with this "
                f"log-probability holds no hypothesis.\n{describe(shown)}"
                f"\n  got         {show(answer)}"
            )
        texts = [str(tokens) for tokens, _ in pairs]
        times = max(map(texts.count, texts), default=0)
        if times > 1:
            raise CheckFailed(
                f"  clones: the same hypothesis is returned {times} times. All "
                "rows start with the same prefix, so they have the same extensions. At the first "
                f"step, only one row may count.\n{describe(shown)}\n  got         {show(answer)}"
            )
        for tokens, said in pairs:
            true, number = _log_probability(step, tokens), plain_number(said)
            if number is None or abs(true - number) > 1e-3:
                raise CheckFailed(
                    f"  clones: {show(tokens)} is returned with the log-probability {show(said)}, "
                    f"but the model assigns it {true:.4g}: the sum over its tokens and END, which "
                    "is not returned. Each hypothesis must continue from the state of the one that "
                    f"it extends, which may be in another row.\n{describe(shown)}"
                )


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
