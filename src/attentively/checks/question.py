"""One answer of a part as data: the right answer, its cases, and the known mistakes.

An instructor writes a `Question`. `Question.record` runs the right answer and every mistake on the
cases; the result is a `Recording`, which holds inputs and outputs and no code. `make release`
stores the recordings of the open cases in the package. For grading, a recording of all cases is
made when it is needed. `examine` compares a candidate with either.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attentively.checks import own_functions
from attentively.checks.calls import call, call_twice, expect_gradients_through, expect_same
from attentively.checks.compare import (
    ATOL,
    FEW,
    READ,
    CheckFailed,
    FloatForIntegerError,
    Fresh,
    Verdict,
    as_plain,
    copied,
    describe,
    equal,
    expect_equal,
    expect_results,
    expect_value,
    in_32_bits,
    is_dict_of_tensors,
    listed,
    show,
    unquoted,
)
from attentively.checks.edits import Answer, Edits, Mistake, edited, makers

Results = dict[str, Any]
"""What a call returned, by name."""


@dataclass(frozen=True)
class Case:
    """One call of the candidate, and what is examined."""

    inputs: Mapping[str, Any]
    """The arguments by name, in order. Gradients must reach a tensor that requires them; a `Fresh`
    value is made for each call."""
    made: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the constructor, if the candidate is a class."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """The parameters to load into the instance; none if its constructor receives them all."""
    stage: str = ""
    """What this case examines; a failed check lists the stages that were right."""
    results: tuple[str, ...] | None = None
    """The results to compare; None for all, in the order of the question. If some are named,
    only their gradients are examined."""
    general: str = ""
    """What to say of a wrong result that is no known mistake's."""
    note: str = ""
    """What to add if the call fails or a gradient is wrong."""
    nan: str = ""
    """What to add if a gradient is NaN; gradients then need not agree with finite differences."""
    by_ratio: bool = False
    """Whether floats are compared by their ratio alone, because they may be very small."""

    @property
    def atol(self) -> float:
        """The absolute tolerance of floats."""
        return 0.0 if self.by_ratio else ATOL


def cases_of(
    names: Sequence[str], calls: Iterable[Sequence[Any]], by_ratio: bool = False
) -> Iterator[Case]:
    """Yield a case for each call, whose arguments have these names."""
    for arguments in calls:
        yield Case(dict(zip(names, arguments, strict=True)), by_ratio=by_ratio)


def learning(inputs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the inputs, with gradients required of those that are named."""
    return {**inputs, **{name: inputs[name].clone().requires_grad_() for name in names}}


@dataclass(frozen=True)
class Recorded:
    """A case with the results of the right answer and of each mistake, by their names."""

    case: Case
    expected: Results
    wrong: Sequence[Results | None]
    """None where a mistake raises an error."""
    is_open: bool = False
    """Whether it is an open case, with the same inputs, in a recording of all cases."""


@dataclass(frozen=True)
class Recording:
    """What a candidate is compared with."""

    name: str
    """The name of the function or class."""
    results: Mapping[str, str]
    """The names of the results, in the order in which they are returned, each with a hint."""
    look: tuple[str, ...]
    """The order in which they are compared."""
    named: bool
    """Whether messages begin with the name, as in a part of several functions."""
    diagnoses: list[str]
    """What to say of each mistake; `{name}` stands for a quotation of the candidate's result."""
    cases: list[Recorded]
    keyed: bool = False
    """Whether the results are returned as a dict, by their names."""
    either_precision: bool = False
    """Whether tensors of dtype float64 are right too."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """How results are read that may have several forms, by their names: see `compare.READ`."""
    in_all_cases: bool = False
    """Whether a mistake is named only if it gives the candidate's results in all cases, because
    results have few possible values."""


@dataclass(frozen=True)
class Question:
    """One function or class that students write."""

    answer: Answer
    results: Mapping[str, str] = field(default_factory=dict)
    """See `Recording.results`."""
    cases: Callable[[bool], Iterable[Case]] | None = None
    """Yield the cases, with `thorough` further ones; None if a part is examined by code alone.

    Random numbers of the further ones are sampled after those of the open ones, which are therefore
    the same in grading and are not examined again.
    """
    mistakes: Mapping[str, Mistake | list[Mistake]] = field(default_factory=dict)
    """What to say of each mistake, and the mistake: see `edits`."""
    look: tuple[str, ...] = ()
    """The order in which the results are compared, if not that in which they are returned."""
    named: bool = False
    """See `Recording.named`."""
    keyed: bool = False
    """See `Recording.keyed`."""
    either_precision: bool = False
    """See `Recording.either_precision`."""
    runner: Callable[[Answer], Answer] | None = None
    """Return what the cases call and the check examines, if that is not the answer itself: a
    function that runs the answer, for example on a model, and returns the results."""
    tidy: Callable[[Any], Any] = lambda answer: answer
    """Returns the results to record in what the answer returns: tensors, dicts of tensors by name,
    or plain values."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """See `Recording.reads`."""
    in_all_cases: bool = False
    """See `Recording.in_all_cases`."""
    ways: Mapping[str, Edits] = field(default_factory=dict)
    """Edits that are right too, but give other results: an answer follows one way in all cases."""

    @property
    def name(self) -> str:
        """The name of the function or class."""
        return self.answer.__name__

    def right(self, way: str = "") -> Answer:
        """Return the right answer that follows one of the `ways`; without a name, the answer."""
        return edited(self.answer, self.ways[way]) if way else self.answer

    def wrong(self) -> list[tuple[str, Answer]]:
        """Return what to say of each mistake, and the mistaken answers, in each of the `ways`."""
        return [(said, make()) for said, make in self._wrong()]

    def _wrong(self) -> list[tuple[str, Callable[[], Answer]]]:
        """Return what to say of each mistake, and what returns the mistaken answer."""
        return [
            (said, functools.cache(make))
            for said, mistake in self.mistakes.items()
            for make in makers(self.answer, mistake, ((), *self.ways.values()))
        ]

    def record(self, thorough: bool = False, way: str = "") -> Recording:
        """Run the right answer and the mistakes on the cases.

        The cases are made first, so that no input depends on random numbers that an answer samples,
        as in building an instance. With `thorough`, a mistake runs when its results are first read:
        to explain a wrong answer.
        """
        assert self.cases is not None
        right, wrong = self.right(way), self._wrong()
        with _seeded():
            recorded = []
            for case in [*self.cases(thorough)]:
                ready = _with_fresh_inputs(case)
                results = [partial(self._outputs_or_none, make, ready) for _, make in wrong]
                recorded.append(
                    Recorded(
                        case,
                        self._outputs(right, ready),
                        _WhenRead(results) if thorough else [each() for each in results],
                    )
                )
        return Recording(
            self.name,
            self.results,
            self.look or tuple(self.results),
            self.named,
            [said for said, _ in wrong],
            recorded,
            self.keyed,
            self.either_precision,
            self.reads,
            self.in_all_cases,
        )

    def _outputs(self, answer: Answer, case: Case) -> Results:
        """Return the results of an answer of ours."""
        with torch.no_grad():
            if case.made:
                answer = answer(*(copied(value) for value in case.made.values()))
                if case.weights:
                    answer.load_state_dict(case.weights)  # type: ignore[attr-defined]
                if isinstance(answer, nn.Module):
                    answer.eval()
            called = self.runner(answer) if self.runner else answer
            values = self.tidy(called(*(copied(value) for value in case.inputs.values())))
        if self.keyed:
            results = {name: values[name] for name in self.results}
        else:
            several = values if len(self.results) > 1 else (values,)
            results = dict(zip(self.results, several, strict=True))
        return _read(results, self.reads, case)

    def _outputs_or_none(self, make: Callable[[], Answer], case: Case) -> Results | None:
        try:
            return self._outputs(make(), case)
        except Exception:  # a mistake may raise any error
            return None


class _WhenRead(Sequence[Results | None]):
    """The results of mistakes, each computed when it is first read."""

    def __init__(self, results: Iterable[Callable[[], Results | None]]) -> None:
        self._results = [functools.cache(partial(_permitted, each)) for each in results]

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, mistake: Any) -> Any:
        return self._results[mistake]()


def _permitted(result: Callable[[], Results | None]) -> Results | None:
    with own_functions.permitting(), _seeded():
        return result()


@contextlib.contextmanager
def _seeded() -> Iterator[None]:
    """Seed the random numbers of the CPU in the block; afterwards, they continue as before it.

    `torch.manual_seed` also notes the seed for each kind of accelerator, which takes a millisecond.
    """
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(0)
    try:
        yield
    finally:
        generator.set_state(before)


def _with_fresh_inputs(case: Case) -> Case:
    """Return a case whose `Fresh` inputs are made; answers of ours leave them as they are."""
    inputs = {
        n: copied(each) if isinstance(each, Fresh) else each for n, each in case.inputs.items()
    }
    return replace(case, inputs=inputs)


def _read(results: Results, reads: Mapping[str, str], case: Case) -> Results:
    """Return the results in the form in which they are compared."""
    return results | {n: READ[how](results[n], n, case.inputs) for n, how in reads.items()}


def unseen(recording: Recording) -> list[str]:
    """Return the diagnoses of the mistakes that give the right results in every case."""
    return [
        said
        for mistake, said in enumerate(recording.diagnoses)
        if all(is_right(each, mistake) for each in recording.cases)
    ]


def is_right(recorded: Recorded, mistake: int) -> bool:
    """Return whether a mistake gives the right results in a case."""
    return all(_gives(recorded, mistake, n, each) for n, each in recorded.expected.items())


# Examination

Property = Callable[[Results, Mapping[str, Any]], None]
"""Called with the results and the inputs; raises a `CheckFailed` if a property does not hold."""
Words = Callable[[Any, Recorded], str]
"""Called with a wrong result and what was recorded; returns words about it."""
Tidy = Callable[[Any, Mapping[str, Any]], Any]
"""Called with an answer and the inputs; returns the results in the form in which they are recorded,
and raises a `CheckFailed` for an answer of another form."""
Afterwards = Callable[[Any, Results, Mapping[str, Any]], None]
"""Called with the candidate, the right results and the inputs of a case; raises a `CheckFailed` if
the candidate computes them in a wrong way."""


def examine(
    candidate: object,
    *ways: Recording,
    known: Recording | None = None,
    properties: Mapping[str, Property] | None = None,
    quotes: Mapping[str, Words] | None = None,
    explain: Words = lambda got, recorded: "",
    tidy: Tidy = lambda answer, inputs: answer,
    afterwards: Afterwards = lambda candidate, results, inputs: None,
) -> Recording:
    """Compare a candidate with a recording, case by case; raise a `CheckFailed` where it differs.

    Where several `ways` are right, return the recording that it agrees with in all cases; a
    `CheckFailed` compares it with the one that it agrees with for longest. With the `known` one,
    the candidate has agreed in the open cases, which are not examined again.

    `properties`, by stage, are tested before the results are compared. `quotes` are what the names
    in the diagnoses stand for. `explain` describes a result that is no known mistake's. `tidy`
    converts what the candidate returns, and `afterwards` is called after each case.
    """
    failures = []
    for recording in ways:
        rules = properties or {}, quotes or {}, explain, tidy, afterwards
        examination = _Examination(candidate, recording, *rules)
        floats: list[FloatForIntegerError] = []
        try:
            for number, recorded in enumerate(recording.cases):
                try:
                    if recording is known and recorded.is_open:
                        examination.note_right(recorded)
                    else:
                        examination.examine(number)
                except FloatForIntegerError as failed:  # wrong values say more about the mistake
                    floats.append(failed)
            if floats:
                raise floats[0]
        except CheckFailed as failed:
            failures.append((len(examination.right), failed))
        else:
            return recording
    raise max(failures, key=lambda failure: failure[0])[1]


class _Examination:
    def __init__(
        self,
        candidate: object,
        recording: Recording,
        properties: Mapping[str, Property],
        quotes: Mapping[str, Words],
        explain: Words,
        tidy: Tidy,
        afterwards: Afterwards,
    ) -> None:
        self.candidate = candidate
        self.recording = recording
        self.properties = properties
        self.quotes = quotes
        self.explain = explain
        self.tidy = tidy
        self.afterwards = afterwards
        self.right: list[tuple[Recorded, str]] = []
        """The results that were right so far."""
        self.stages: list[str] = []

    def examine(self, number: int) -> None:
        """Examine one case."""
        recorded = self.recording.cases[number]
        case = recorded.case
        try:
            # If a later result depends on an earlier call, it is not the expected one.
            called, results = self._call(recorded, call if self.right else call_twice)
            if case.stage in self.properties:
                self.properties[case.stage](results, case.inputs)
            for name in self._compared(case):
                self._compare(number, name, results[name])
                self.right.append((recorded, name))
            self._expect_gradients(called, case)
            self.afterwards(called, results, case.inputs)
        except CheckFailed as failed:
            before = [stage for stage in self.stages if stage != case.stage]
            right = f"\n  Correct so far: {'; '.join(before)}." if before else ""
            raise type(failed)(f"{failed}{right}") from None
        self._note_stage(case)

    def note_right(self, recorded: Recorded) -> None:
        """Note that a case was right when it was examined before."""
        self.right += [(recorded, name) for name in self._compared(recorded.case)]
        self._note_stage(recorded.case)

    def _note_stage(self, case: Case) -> None:
        if case.stage and case.stage not in self.stages:
            self.stages.append(case.stage)

    def _compared(self, case: Case) -> list[str]:
        """Return the names of the results to compare in a case, in their order."""
        return [n for n in self.recording.look if case.results is None or n in case.results]

    def _call(
        self, recorded: Recorded, how: Callable[..., Any] = call_twice
    ) -> tuple[Any, Results]:
        """Return what was called, the candidate or its instance, and the results by name."""
        case, names = recorded.case, tuple(self.recording.results)
        called: Any = self.candidate
        if case.made:
            called = built(self.candidate, case, self.recording.name)
        try:
            with torch.no_grad() if case.made else contextlib.nullcontext():
                answer = how(called, case.inputs)
        except CheckFailed as failed:
            note = f"\n  {case.note}" if case.note else ""
            raise CheckFailed(f"{failed}{note}") from None
        expected = [*recorded.expected.values()]
        if answer is None and not isinstance(expected[0], Tensor) and not self._none_is_meant():
            raise CheckFailed(
                f"  {self.recording.name} returned None: is there a `return`?\n"
                + describe(case.inputs)
            )
        answer = self.tidy(answer, case.inputs)
        if self.recording.keyed:
            results = _expect_keys(answer, self.recording, case.inputs)
        else:
            if len(names) > 1 and not any(isinstance(each, Tensor) for each in expected):
                answer = listed(answer)
            values = (answer,) if len(names) == 1 else expect_results(answer, names, case.inputs)
            results = dict(zip(names, values, strict=True))
        results = _read(results, self.recording.reads, case)
        _expect_order(results, recorded)
        if self.recording.either_precision:
            results = {name: in_32_bits(value) for name, value in results.items()}
        return called, {n: as_plain(each, recorded.expected[n]) for n, each in results.items()}

    def _none_is_meant(self) -> bool:
        """Return whether None is a result in some case, and not all that the candidate returns."""
        cases = self.recording.cases
        return self._may_be_none() and any(
            call(self.candidate, each.case.inputs) is not None for each in cases
        )

    def _may_be_none(self) -> bool:
        """Return whether None is a result of the right answer or of a mistake."""
        cases = self.recording.cases
        expected = (case.expected for case in cases)
        wrong = (each for case in cases for each in case.wrong if each)
        known = itertools.chain(expected, wrong)
        return any(value is None for each in known for value in each.values())

    def _compare(self, number: int, name: str, got: Any) -> None:
        recorded = self.recording.cases[number]
        expected = recorded.expected[name]

        case = recorded.case
        inputs = dict(case.inputs)
        if case.made:
            arguments = ", ".join(map(str, case.made.values()))
            inputs = {"module": unquoted(f"{self.recording.name}({arguments})")} | inputs
            if all(each.numel() <= FEW for each in case.weights.values()):
                inputs |= case.weights

        def compare(got: Any, expected: Any, what: str, whole: Any = None) -> None:
            result = got if whole is None else whole
            missing = expected is None or (got is None and self._may_be_none())
            hint = self.recording.results[name]
            general = self.explain(result, recorded) or recorded.case.general
            if not general and missing:
                general = f"This is not the expected value of {name}. {hint}".rstrip()

            def diagnose(got: Any) -> str:
                said = self._diagnosis(number, name, got if whole is None else whole)
                return self._say(said or general if missing else said)

            rule: Callable[..., None] = (
                expect_equal
                if isinstance(expected, Tensor)
                else partial(expect_value, atol=recorded.case.atol)
            )
            rule(
                got,
                expected,
                what,
                inputs,
                hint=hint,
                diagnose=diagnose,
                general=self._say(general),
            )

        if is_dict_of_tensors(expected):
            for key, value in expected.items():
                compare(got[key], value, f"{key} of {name}", whole=got)
        else:
            compare(got, expected, name)

    def _say(self, words: str) -> str:
        return f"{self.recording.name}: {words}" if words and self.recording.named else words

    def _diagnosis(self, number: int, name: str, got: Any) -> str:
        """Return the words for the mistakes that give this result and were right before.

        Where several do, the other results and the next cases distinguish them.
        """
        recorded = self.recording.cases[number]
        # Random results may have been equal twice by chance.
        again = self._call(recorded)[1]
        expect_same(got, again[name], recorded.case.inputs)
        suspects = [
            each
            for each in range(len(self.recording.diagnoses))
            if _gives(recorded, each, name, got)
            and all(_gives(r, each, n, r.expected[n]) for r, n in self.right)
        ]
        wholly = [
            each for each in suspects if all(_gives(recorded, each, n, again[n]) for n in again)
        ]
        suspects = wholly or suspects
        for later in self.recording.cases[number + 1 :]:
            different = {self.recording.diagnoses[each] for each in suspects}
            if len(different) < (1 if self.recording.in_all_cases else 2):
                break
            with contextlib.suppress(Verdict):
                found = self._call(later)[1][name]
                left = [each for each in suspects if _gives(later, each, name, found)]
                suspects = left if self.recording.in_all_cases else left or suspects
        said = dict.fromkeys(self.recording.diagnoses[each] for each in suspects)
        texts = [self._with_quotes(each, got, recorded) for each in said]
        if len(texts) < 2:
            return "".join(texts)
        which = "Several mistakes give this result, and yours may be any of them:"
        return "\n  - ".join([which, *texts])

    def _with_quotes(self, text: str, got: Any, recorded: Recorded) -> str:
        for name, words in self.quotes.items():
            if f"{{{name}}}" in text:
                text = text.replace(f"{{{name}}}", words(got, recorded))
        return text

    def _expect_gradients(self, called: Any, case: Case) -> None:
        """Require the gradients of every result, where an input requires them."""
        names = [
            name
            for name, value in case.inputs.items()
            if isinstance(value, Tensor) and value.requires_grad
        ]
        if not names:
            return
        inputs: dict[str, Any] = {name: copied(value) for name, value in case.inputs.items()}
        learned = {name: inputs[name] for name in names}
        parameters = dict(called.named_parameters()) if case.made else {}
        for place, name in enumerate(self.recording.results):
            if case.results and name not in case.results:
                continue

            def pick(answer: Any, place: int = place) -> Tensor:
                result: Tensor = answer[place] if len(self.recording.results) > 1 else answer
                return result

            try:
                expect_gradients_through(called, inputs, parameters | learned, pick, case.nan)
            except CheckFailed as failed:
                where = f"  This concerns the returned {name}.\n" if place else ""
                note = f"\n  {case.note}" if case.note else ""
                raise CheckFailed(f"{where}{failed}{note}") from None


def _gives(recorded: Recorded, mistake: int, name: str, result: Any) -> bool:
    """Return whether a mistake gives this result in a case."""
    wrong = recorded.wrong[mistake]
    return wrong is not None and equal(result, wrong[name], recorded.case.atol)


def _expect_keys(answer: object, recording: Recording, inputs: Mapping[str, Any]) -> Results:
    """Return the results in a dict by their names; refuse an answer without one of them."""
    if isinstance(answer, Mapping) and set(recording.results) <= set(answer):
        return {name: answer[name] for name in recording.results}
    *names, last = recording.results
    got = show(answer)
    if isinstance(answer, Mapping):
        missing = next(name for name in recording.results if name not in answer)
        got = f"a dict without the key {missing!r}"
    raise CheckFailed(
        f"  {recording.name}: Expected a dict with the keys {', '.join(names)} and {last}, got "
        f"{got}\n{describe(inputs)}"
    )


def _expect_order(results: Results, recorded: Recorded) -> None:
    """Refuse two results in the wrong order, where their shapes show it."""
    wanted = [getattr(value, "shape", None) for value in recorded.expected.values()]
    got = [getattr(value, "shape", None) for value in results.values()]
    if len(got) == 2 and got == wanted[::-1] and got != wanted:
        raise CheckFailed(
            f"  The two results are in the wrong order: return {', '.join(results)}.\n"
            + describe(recorded.case.inputs)
        )


# Classes


def built(candidate: object, case: Case, name: str) -> nn.Module:
    """Return an instance of the candidate, the class `name`, with the weights of a case."""
    instance = call(candidate, case.made)
    if not isinstance(instance, nn.Module):
        raise CheckFailed(
            f"  {name} must be a subclass of torch.nn.Module, but {name}(...) "
            f"returned an instance of {type(instance).__name__}."
        )
    if case.weights:
        _expect_parameters(instance, case)
        instance.load_state_dict(case.weights)
    return instance.eval()


def _expect_parameters(instance: nn.Module, case: Case) -> None:
    """Require the parameters of the case, by name and shape."""
    found = {name: tuple(value.shape) for name, value in instance.state_dict().items()}
    wanted = {name: tuple(value.shape) for name, value in case.weights.items()}
    if found == wanted:
        return
    biased = sorted(name for name in set(found) - set(wanted) if name.endswith(".bias"))
    missing = sorted(set(wanted) - set(found))
    unknown = sorted(set(found) - set(wanted) - set(biased))
    lines = []
    if missing:
        lines.append(f"Your class lacks the parameter(s) {', '.join(missing)}.")
    if biased:
        names = ", ".join(biased)
        lines.append(
            f"Your class has the bias {names}. The equation has no bias: nn.Linear(..., "
            "bias=False)."
        )
    if unknown:
        lines.append(
            f"Your class has parameters that the trained model does not have: {', '.join(unknown)}."
        )
    for name in sorted(set(found) & set(wanted)):
        if found[name] != wanted[name]:
            turned = found[name] == wanted[name][::-1]
            advice = " nn.Linear(in_features, out_features) stores (out_features, in_features)."
            lines.append(
                f"The shape of {name} is {found[name]}, expected {wanted[name]}."
                + (advice if turned else "")
            )
    raise CheckFailed(
        "\n".join(f"  {line}" for line in lines)
        + "\n  The check loads trained parameters into your class, so it needs exactly these "
        f"parameters: {', '.join(f'{n} {s}' for n, s in wanted.items())}.\n" + describe(case.made)
    )
