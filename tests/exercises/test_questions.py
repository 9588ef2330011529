"""Questions: what the recordings of every assignment keep, and what the engine sees.

That every right answer passes and every mistake gets its message is in test_answers.py.
"""

import importlib.util
import json
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from assignments import ASSIGNMENTS
from notebook_tools import ROOT

from attentively.checks import (
    CheckFailed,
    Parts,
    open_call,
    positional_encoding,
    recordings,
    trained_translator,
)
from attentively.checks.behaviours import behaviours
from attentively.checks.calls import call_twice
from attentively.checks.compare import READ, copied
from attentively.checks.edits import edited, source_of, variants
from attentively.checks.question import Case, Question, examine, unseen

pytestmark = pytest.mark.usefixtures("unchecked")

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=str)


def folder_of(assignment):
    return ROOT / "src" / "attentively" / "checks" / assignment.name.partition("_")[2]


def lines_of_answers(module):
    """Return the lines that occur in the bodies of right answers, without spaces."""
    lines = (
        line.strip()
        for question in recordings.questions_in(module)
        for line in source_of(question.answer).splitlines()[1:]
    )
    return {line for line in lines if len(line) > 25 and not line.startswith(("def ", '"""', "#"))}


def references(folder, module):
    """Return the lines of right answers that a folder ships."""
    shipped = {
        line.strip()
        for path in folder.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    return lines_of_answers(module) & shipped


def test_prepared_recordings_are_found_from_any_folder(tmp_path, monkeypatch):
    """The right answers run once for a class; a mistake runs when an answer is to be explained.

    The translations that the checks compare with are computed once, too.
    """
    trained_translator._reference.cache_clear()
    assignment = next(each for each in ASSIGNMENTS if each.name.startswith("13_"))
    text = assignment.questions.read_text(encoding="utf-8")
    folders = [tmp_path / name / assignment.name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / recordings.QUESTIONS).write_text(f"{text}\n# {tmp_path}\n", encoding="utf-8")
    recordings.prepare(folders[0].parent)
    shutil.rmtree(folders[0])
    monkeypatch.setenv(recordings.VARIABLE, str(folders[1].parent))
    parts = recordings.load_questions(assignment.questions).PARTS
    (shift,), (sinusoids,) = parts["rotation"], parts["matrix"]
    monkeypatch.delattr(Question, "record")
    monkeypatch.delattr(trained_translator, "load_pretrained")
    positional_encoding.matrix(sinusoids.answer, thorough=True)
    positional_encoding.rotation(shift.answer, thorough=True)
    said, wrong = shift.wrong()[0]
    with pytest.raises(CheckFailed, match=re.escape(said[:20])):
        positional_encoding.rotation(wrong, thorough=True)


@every_assignment
def test_the_recordings_are_what_the_questions_give(assignment):
    made = recordings.record(recordings.load_questions(assignment.questions))
    assert recordings.same(made, recordings.stored(folder_of(assignment)))
    assert {name: unseen(each) for name, each in made.items()} == {name: [] for name in made}


@every_assignment
def test_the_open_cases_are_among_those_of_grading(assignment):
    """Otherwise, grading examines an answer on them and again on similar ones."""
    made = recordings.record(recordings.load_questions(assignment.questions), thorough=True)
    for name, stored in recordings.stored(folder_of(assignment)).items():
        cases = [each.case for each in made[name].cases]
        for each in stored.cases:
            assert any(open_call.identical(each.case, case) for case in cases), name


@every_assignment
def test_no_line_of_a_right_answer_is_shipped(assignment):
    module = recordings.load_questions(assignment.questions)
    assert len(lines_of_answers(module)) >= 3
    assert references(folder_of(assignment), module) == set()


# The engine, with a small question

SMALL = """
import torch
from attentively.checks.question import Case, Question


def double(x):
    result = 2 * x
    return result


def cases(thorough):
    yield Case({"x": torch.tensor([2.0])})
    yield Case({"x": torch.tensor([3.0, 5.0]).requires_grad_()})
    if thorough:
        yield Case({"x": torch.tensor([-1.0])})


DOUBLE = Question(
    double,
    {"result": "Return as many values."},
    cases,
    {
        "This is the square {of}.": "2 * x -> x * x",
        "This is three times x.": "2 * x -> 3 * x",
        "This is x + 4.": "2 * x -> x + 4",
        "This is the sum of three.": ["2 * x -> x + x + x", "2 * x -> x.repeat(3)"],
    },
)
PARTS = {"double": [DOUBLE]}
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return the path of the questions of a small topic, in the current folder's course."""
    path = tmp_path / "solutions" / "01_small" / recordings.QUESTIONS
    path.parent.mkdir(parents=True)
    path.write_text(SMALL)
    monkeypatch.chdir(path.parent)
    monkeypatch.delenv(recordings.VARIABLE, raising=False)
    # Bytecode counts as current if its source has the same size and was written in the same second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return path


@pytest.fixture
def question(small):
    return recordings.load_questions(small).DOUBLE


@pytest.fixture
def topic(small, tmp_path):
    """Return the small topic with its recordings stored."""
    folder = tmp_path / "small"
    folder.mkdir()
    for name, content in recordings.files(made(small)).items():
        (folder / name).write_bytes(content)
    return recordings.Topic(str(folder / "__init__.py"))


def made(path):
    return recordings.record(recordings.load_questions(path))


def said(candidate, recording, **rules):
    with pytest.raises(CheckFailed) as caught:
        examine(candidate, recording, **rules)
    return str(caught.value)


def test_a_stored_recording_and_one_just_made_say_the_same(question, topic):
    for mistake in (lambda x: x * x, lambda x: x + 1, lambda x: x.tolist(), lambda x: x.detach()):
        stored = topic.recording("double")
        assert said(mistake, stored) == said(mistake, question.record())
    examine(lambda x: x + x, topic.recording("double"))


def test_further_cases_are_those_of_the_instructor(topic, tmp_path, monkeypatch):
    def absolute(x):
        return 2 * x.abs()

    topic.examine("double", absolute, thorough=False)
    with pytest.raises(CheckFailed):
        topic.examine("double", absolute, thorough=True)
    monkeypatch.chdir(tmp_path / "small")  # found from a neighbouring folder of the course too
    topic.examine("double", lambda x: 2 * x, thorough=True)
    monkeypatch.setenv(recordings.VARIABLE, str(tmp_path / "small"))  # and nowhere else
    with pytest.raises(recordings.QuestionsMissingError, match="COURSE_SOLUTIONS="):
        topic.examine("double", lambda x: 2 * x, thorough=True)
    monkeypatch.setenv(recordings.VARIABLE, str(tmp_path / "solutions"))
    monkeypatch.chdir("/")
    topic.examine("double", lambda x: 2 * x, thorough=True)
    monkeypatch.delenv(recordings.VARIABLE)
    with pytest.raises(recordings.QuestionsMissingError, match=r"solutions/NN_small/questions\.py"):
        topic.examine("double", lambda x: 2 * x, thorough=True)


def test_questions_are_made_again_when_they_change(topic, small):
    assert len(topic.recording("double", thorough=True).cases) == 3
    small.write_text(SMALL.replace("if thorough:", "if False:"))
    assert len(topic.recording("double", thorough=True).cases) == 2


def test_questions_may_call_what_a_part_refuses(topic, small, capsys):
    """All cases are recorded, and mistakes are run, while an answer is examined."""
    small.write_text(SMALL.replace("= 2 * x", "= torch.mul(2 * x, 1)"))

    def check(candidate, thorough):
        topic.examine("double", candidate, thorough)

    part = Parts().part("double", "double", rebuilds=["torch:mul"])(check)
    part(lambda x: x + x, thorough=True)
    assert "right on further inputs too" in capsys.readouterr().out
    with pytest.raises(CheckFailed, match="This is three times x"):
        part(lambda x: x + x + x, thorough=True)


def test_mistakes_are_run_on_further_cases_only_to_explain_a_wrong_answer(question):
    ran = []

    def wrong(x):
        ran.append(x)
        return 5 * x

    question = replace(question, mistakes={"This is five times x.": wrong})
    recording = question.record(thorough=True)
    examine(lambda x: x + x, recording)
    assert ran == []
    for _ in range(2):
        assert "This is five times x." in said(lambda x: 4 * x + x, recording)
        assert len(ran) == 1
    question.record()
    assert len(ran) == 3


def test_no_loaded_module_can_be_named(small):
    recordings.load_questions(small)
    assert importlib.util.find_spec("questions") is None


# Which mistake is named


def test_a_mistake_is_named_at_the_first_input_that_shows_it(question):
    quotes = {"of": lambda got, recorded: f"of {recorded.case.inputs['x'].tolist()}"}
    message = said(lambda x: x * x, question.record(), quotes=quotes)
    assert message.startswith("  This is the square of [3.0, 5.0].\n  called with x: shape (2,)")


def test_mistakes_that_one_input_confuses_are_told_apart_by_the_next(question):
    """At x = 2, three times x and x + 4 are the same; the message still shows this input."""
    message = said(lambda x: x + 4, question.record())
    assert message.startswith("  This is x + 4.\n  called with x: shape (1,), [2.0]")


def test_mistakes_that_are_always_the_same_are_all_named(question):
    message = said(lambda x: 3 * x, question.record())
    assert message.startswith(
        "  Several mistakes give this result, and yours may be any of them:\n"
        "  - This is three times x.\n  - This is the sum of three.\n  called with"
    )


def test_a_mistake_that_earlier_inputs_exclude_is_not_named(question):
    """Three times x for two values, but right for the first input."""

    def sometimes(x):
        return 2 * x if len(x) == 1 else 3 * x

    message = said(sometimes, question.record())
    assert message.startswith("  The values of result are not the expected ones.")


@pytest.fixture
def pair(small):
    """Return a question with two numbers as results."""
    small.write_text(
        SMALL.replace("return result", "return result, result + 1")
        .replace('many values."', 'many values.", "next": ""')
        .replace("torch.tensor([2.0])", "2.0")
        .replace("torch.tensor([3.0, 5.0]).requires_grad_()", "5.0")
        .replace('"2 * x -> x * x"', '"return result, result + 1 -> return result + 1, result"')
        .replace('"2 * x -> 3 * x"', '"2 * x -> 2 * x + 1"')
        .replace(', "2 * x -> x.repeat(3)"', "")
    )
    return recordings.load_questions(small).DOUBLE


def test_mistakes_that_one_result_confuses_are_told_apart_by_the_others(pair):
    message = said(lambda x: (2 * x + 1, 2 * x), pair.record())
    assert message.startswith("  This is the square")
    assert said(lambda x: (2 * x + 1, 2 * x + 2), pair.record()).startswith("  This is three times")


@pytest.mark.parametrize("kind", [tuple, list, torch.tensor, np.array, lambda x: [[y] for y in x]])
def test_several_numbers_are_accepted_in_any_container(pair, kind):
    examine(lambda x: kind([2 * x, 2 * x + 1]), pair.record())


def test_none_is_a_result_where_a_case_expects_it(small):
    small.write_text(
        SMALL.replace("return result", "return result if x > 1 else None")
        .replace("torch.tensor([2.0])", "2.0")
        .replace("torch.tensor([3.0, 5.0]).requires_grad_()", "0.5")
        .replace("x.repeat(3)", "x / 0")
    )
    recording = recordings.load_questions(small).DOUBLE.record()
    examine(lambda x: 2 * x if x > 1 else None, recording)
    assert "is there a `return`?" in said(lambda x: None, recording)
    for wrong in (lambda x: 2 * x, lambda x: None if x > 1 else 0.0):
        message = said(wrong, recording)
        assert message.startswith("  This is not the expected value of result.")
        assert "None\n" in f"{message}\n"


def test_results_that_are_equal_twice_by_chance_are_random(question):
    results = iter([torch.zeros(1), torch.zeros(1), torch.ones(1)])
    assert "two different answers" in said(lambda x: next(results), question.record())


# Questions of other kinds


def test_results_in_a_dict_are_compared_by_their_names(question):
    def powers(x):
        return {"double": 2 * x, "square": x * x}

    asked = Question(
        powers,
        {"double": "", "square": ""},
        lambda thorough: [Case({"x": 3})],
        {"This is the cube.": lambda x: {**powers(x), "square": x**3}},
        keyed=True,
    )
    recording = asked.record()
    examine(lambda x: {"more": 1, "square": x**2, "double": x + x}, recording)
    assert said(lambda x: {"double": 6, "square": 27}, recording).startswith("  This is the cube.")
    for wrong in (lambda x: [6, 9], lambda x: {"double": 6}):
        expected = "  powers: Expected a dict with the keys double and square, got "
        assert said(wrong, recording).startswith(expected)
    assert "got a dict without the key 'square'\n" in said(lambda x: {"double": 6}, recording)
    for each in behaviours(powers, recording):
        assert each.words in said(each.answer, recording), each.name


def test_either_precision_is_right_where_the_question_allows_it(question):
    recording = replace(question, either_precision=True).record()
    examine(lambda x: 2 * x.double(), recording)
    assert "the square" in said(lambda x: x.double() * x, recording)
    assert "torch.float64" in said(lambda x: 2 * x.double(), question.record())
    assert "float64" not in {each.name for each in behaviours(question.answer, recording)}


def test_a_runner_calls_the_right_answer_and_the_mistakes(question):
    recording = replace(question, runner=lambda answer: lambda x: -answer(x)).record()
    examine(lambda x: -2 * x, recording)
    assert "the square" in said(lambda x: -x * x, recording)


def test_a_mistake_may_have_to_give_the_results_of_all_cases(small):
    """A constant 4 is x + 3 at x = 1 only."""
    text = SMALL.replace("{of}", "").replace("torch.tensor([2.0])", "torch.tensor([1.0])")
    small.write_text(
        text.replace("2 * x -> x + 4", "2 * x -> x + 3").replace("is x + 4", "is x + 3")
    )
    question = recordings.load_questions(small).DOUBLE
    strict = replace(question, in_all_cases=True).record()
    assert said(lambda x: 4 + 0 * x, question.record()).startswith("  This is x + 3.")
    assert said(lambda x: 4 + 0 * x, strict).startswith("  The values of result are not")
    assert said(lambda x: x + 3, strict).startswith("  This is x + 3.")


def test_very_small_results_are_compared_by_their_ratio():
    """The broken variant: with an absolute tolerance, twice 1e-7 is the same and no mistake."""

    def recording(by_ratio):
        return Question(
            very_small,
            {"the rate": ""},
            lambda thorough: [Case({"x": 1e-7}, by_ratio=by_ratio)],
            {"This is twice as much.": "1 * x -> 2 * x"},
        ).record()

    examine(lambda x: x * (1 + 1e-6), recording(True))
    assert said(lambda x: x + x, recording(True)).startswith("  This is twice as much.")
    assert said(lambda x: 0.0, recording(True)).startswith("  This is not the expected value")
    examine(lambda x: 0.0, recording(False))
    assert unseen(recording(True)) == []
    assert unseen(recording(False)) == ["This is twice as much."]


def very_small(x):
    return 1 * x


# Values that are made for each call, and results that have several forms

WITH_LAYER = """
import torch
from torch import nn
from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question


def double(layer, x):
    return 2 * layer(x)


def cases(thorough):
    layer = Fresh(nn.LayerNorm, {"normalized_shape": 2}, "a layer of two")
    yield Case({"layer": layer, "x": torch.tensor([1.0, 3.0])})


DOUBLE = Question(double, {"result": ""}, cases, {"Not doubled.": "2 * -> "})
PARTS = {"double": [DOUBLE]}
"""


WITH_DROPOUT = """
import torch
from torch import nn
from attentively.checks.question import Case, Question


class Dropped(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.dropout = nn.Dropout(rate)

    def forward(self, x):
        return self.dropout(x)


def cases(thorough):
    yield Case({"x": torch.tensor([1.0, 3.0])}, {"rate": 1.0})


DROPPED = Question(Dropped, {"result": ""}, cases, {"Doubled.": "(x)\\n -> (2 * x)\\n"})
PARTS = {"dropped": [DROPPED]}
"""


def test_a_module_is_recorded_in_evaluation_mode(small):
    small.write_text(WITH_DROPOUT)
    recording = made(small)["Dropped"]
    assert recording.cases[0].expected["result"].tolist() == [1, 3]
    assert recording.cases[0].wrong[0]["result"].tolist() == [2, 6]
    examine(recordings.load_questions(small).Dropped, recording)


def test_each_call_receives_a_new_layer(small, topic):
    small.write_text(WITH_LAYER)
    for name, content in recordings.files(made(small)).items():
        (topic.folder / name).write_bytes(content)
    recordings.stored.cache_clear()
    assert recordings.same(recordings.stored(topic.folder), made(small))
    trained = []

    def freezing(layer, x):
        trained.append(layer.weight.requires_grad)
        return 2 * layer.requires_grad_(False)(x)

    def zeroing(layer, x):
        layer.weight.data.zero_()
        return torch.tensor([-2.0, 2.0])

    for candidate in (freezing, freezing):
        topic.examine("double", candidate, thorough=False)
    assert trained == [True] * 4
    assert "changes weight, a tensor of the model" in said(zeroing, topic.recording("double"))
    message = said(lambda layer, x: layer(x), topic.recording("double"))
    assert message.startswith("  Not doubled.\n  called with layer = a layer of two\n")


def test_another_layer_is_another_recording(small):
    small.write_text(WITH_LAYER)
    before = made(small)
    small.write_text(WITH_LAYER.replace('": 2}', '": [2]}'))
    assert not recordings.same(before, made(small))


@pytest.mark.parametrize(
    ("how", "answer", "read"),
    [
        ("numbers", torch.tensor([[True, False]]), [[1, 0]]),
        ("numbers", (torch.tensor(3), [False, 2.0, 2.5]), [3, [0, 2, 2.5]]),
        ("numbers", torch.Size([2, 3]), [2, 3]),
        ("any order", {"b", "a"}, ["a", "b"]),
        ("any order", (2, 1, 2), [1, 2]),
        ("any order", ["a", 1], ["a", 1]),
        ("any order", "ba", "ba"),
    ],
)
def test_a_result_is_read_in_one_form(how, answer, read):
    found = READ[how](answer, "the result", {})
    assert (found, type(found)) == (read, type(read))


def test_what_holds_no_numbers_is_refused():
    for answer in ([1, "one"], None, object()):
        with pytest.raises(CheckFailed, match="Expected the result as a tensor, got"):
            READ["numbers"](answer, "the result", {})


def test_forms_hold_for_the_answer_its_mistakes_and_the_candidate(question):
    numbers = replace(question, reads={"result": "numbers"}).record()
    for candidate in (lambda x: (2 * x).double(), lambda x: 2 * x):
        examine(candidate, numbers)
    assert "This is three times x." in said(lambda x: (3 * x).tolist(), numbers)


def test_a_random_part_of_a_pair_is_seen():
    def drawn():
        return str(torch.rand(()).item()), torch.zeros(2)

    with pytest.raises(CheckFailed, match="two different answers"):
        call_twice(drawn, {})


# Several ways, results that are converted, None and infinity


SIGNED = """
import torch
from attentively.checks.question import Case, Question


def double(x):
    result = 2 * x
    return result


def cases(thorough):
    yield Case({"x": torch.tensor([2.0])})
    yield Case({"x": torch.tensor([3.0, 5.0])})


SQUARE = {"The square is added.": "return result -> return result + x * x"}
WAYS = {"minus": "2 * x -> -2 * x"}
PARTS = {"double": [Question(double, {"result": ""}, cases, SQUARE, ways=WAYS)]}
"""


@pytest.fixture
def signed(small):
    """Return the path of a question with two right answers: all results have either sign."""
    small.write_text(SIGNED)
    return small


def test_every_way_is_right_if_it_is_followed_in_all_cases(signed, topic):
    for name, content in recordings.files(made(signed)).items():
        (topic.folder / name).write_bytes(content)
    recordings.stored.cache_clear()
    assert topic.examine("double", lambda x: x + x, thorough=True) == ""
    assert topic.examine("double", lambda x: -x - x, thorough=True) == "minus"
    with pytest.raises(CheckFailed, match="not the expected ones"):
        topic.examine("double", lambda x: 2 * x if len(x) == 1 else -2 * x, thorough=False)


def test_a_mistake_is_named_in_every_way(signed):
    (question,) = recordings.load_questions(signed).PARTS["double"]
    ways = [question.record(way=way) for way in ("", *question.ways)]
    for factor in (2, -2):
        with pytest.raises(CheckFailed, match="The square is added"):
            examine(lambda x, factor=factor: factor * x + x * x, *ways)


def test_answers_are_tidied_before_they_are_compared(question):
    recording = question.record()
    assert "torch.float64" in said(lambda x: 2 * x.double(), recording)
    examine(lambda x: 2 * x.double(), recording, tidy=lambda answer, inputs: answer.float())


def test_none_may_be_a_right_result(small):
    text = SIGNED.replace("return result\n", "return result.item() if len(x) == 1 else None\n")
    small.write_text(text.replace("SQUARE, ways=WAYS", "{}"))
    recording = made(small)["double"]
    examine(lambda x: None if len(x) == 2 else 2 * x.item(), recording)
    assert "is there a `return`?" in said(lambda x: None, recording)
    assert "not the expected value of result" in said(lambda x: 2.0 * float(x[0]), recording)


def test_an_infinity_that_is_expected_is_no_fault(small):
    text = SIGNED.replace("return result\n", "return result / 0\n")
    small.write_text(text.replace("SQUARE, ways=WAYS", "{}"))
    recording = made(small)["double"]
    examine(lambda x: x / 0, recording)
    assert "NaN in result" in said(lambda x: x / 0 - x / 0, recording)
    assert "not the expected ones" in said(lambda x: torch.where(x == 5, 1.0, x / 0), recording)


# Edits


def test_an_edit_that_does_not_apply_is_an_error(question):
    assert edited(question.answer, "2 * x -> 5 * x")(3) == 15
    for edit in ("3 * x -> x", "result -> x", "2 * x", ("2 * x -> x", "2 * x -> x")):
        with pytest.raises(ValueError, match="must occur once"):
            edited(question.answer, edit)


def test_several_edits_and_several_ways_are_one_mistake(question):
    both = ("2 * x -> 3 * x", "return result -> return -result")
    assert [each(2) for each in variants(question.answer, [both, abs])] == [-6, 2]


def test_an_edit_that_no_case_shows_is_seen(small):
    assert unseen(made(small)["double"]) == []
    small.write_text(SMALL.replace("x * x", "x + x"))
    assert unseen(made(small)["double"]) == ["This is the square {of}."]


# Recordings


def test_a_recording_that_is_out_of_date_is_seen(small, topic):
    stored = recordings.stored(topic.folder)
    assert recordings.same(stored, made(small))
    for old, new, agree in (
        ("3.0, 5.0", "3.0000001, 5.0", True),
        ("3.0, 5.0", "3.1, 5.0", False),
        ("three times", "3 times", False),
        ("2 * x -> 3 * x", "2 * x -> 3.1 * x", False),
        (".requires_grad_()", "", False),
        ("as many values", "all values", False),
    ):
        assert old in SMALL
        small.write_text(SMALL.replace(old, new))
        assert recordings.same(stored, made(small)) == agree, new


def test_values_of_every_kind_are_stored(small, topic):
    kinds = '{"x": (1, [2.5, None], {"a": {3, 1}, 4: "$"}, True, float("inf"), Case({"y": 2}))}'
    text = SMALL.replace('{"x": torch.tensor([-1.0])}', kinds).replace("if thorough", "if True")
    small.write_text(text.replace("2 * x\n", "x if type(x) is tuple else 2 * x\n"))
    for name, content in recordings.files(made(small)).items():
        (topic.folder / name).write_bytes(content)
    recordings.stored.cache_clear()
    assert recordings.same(recordings.stored(topic.folder), made(small))
    json.loads((topic.folder / recordings.TEXT).read_text())
    small.write_text(text.replace("None", "object()"))
    with pytest.raises(TypeError, match="a recording cannot hold"):
        recordings.files(made(small))


def test_a_reference_in_the_shipped_folder_is_seen(small, topic):
    text = SMALL.replace("result = 2 * x", "result_of_doubling = 2 * x  # the answer")
    small.write_text(text.replace("return result", "return result_of_doubling"))
    module = recordings.load_questions(small)
    assert references(topic.folder, module) == set()
    (topic.folder / "checks.py").write_text(source_of(module.double))
    assert len(references(topic.folder, module)) == 1


def test_every_behaviour_gets_its_message(question):
    recording = question.record()
    found = list(behaviours(question.answer, recording))
    names = {each.name for each in found}
    assert {"no return", "a list", "detached", "random", "sparse", "exit", "writes"} <= names
    for each in found:
        assert each.words in said(each.answer, recording), each.name


def test_words_of_quotations_are_replaced(question):
    message = said(lambda x: x * x, question.record(), quotes={"of": lambda *_: "of x"})
    assert not re.search(r"\{\w+\}", message)


# Inputs that are made, and answers of several forms

FURTHER = """
import torch
from torch import nn

from attentively.checks.compare import Fresh
from attentively.checks.question import Case, Question


def size(module):
    return module.in_features


def halves(x):
    return [x[:1], x[1:]]


def size_cases(thorough):
    yield Case({"module": Fresh(nn.Linear, {"in_features": 3, "out_features": 2})})


def halves_cases(thorough):
    yield Case({"x": torch.tensor([1.0, 2.0])})


SIZE = Question(
    size, {"the size": ""}, size_cases, {"This is the other size.": "in_features -> out_features"}
)
HALVES = Question(
    halves,
    {"the result": ""},
    halves_cases,
    {"The halves are exchanged.": "[x[:1], x[1:]] -> [x[1:], x[:1]]"},
    either_precision=True,
    tidy=lambda answer: dict(zip(("first half", "second half"), answer)),
)
PARTS = {"size": [SIZE], "halves": [HALVES]}
"""


@pytest.fixture
def further(small, topic):
    """Return the topic with these questions."""
    small.write_text(FURTHER)
    for name, content in recordings.files(made(small)).items():
        (topic.folder / name).write_bytes(content)
    recordings.stored.cache_clear()
    return topic


def test_a_fresh_input_is_made_for_each_call_and_stored_as_its_maker(small, further):
    def grows(module):
        module.in_features += 1
        return module.in_features - 1

    stored = recordings.stored(further.folder)
    assert recordings.same(stored, made(small))
    examine(grows, stored["size"])
    message = said(lambda module: module.out_features, stored["size"])
    assert "This is the other size." in message
    assert "module = Linear(in_features=3" in message
    small.write_text(FURTHER.replace('"in_features": 3', '"in_features": 4'))
    assert not recordings.same(stored, made(small))


def test_an_answer_is_compared_in_the_form_of_the_recording(small, further):
    def tidy(answer, inputs):
        if len(answer) != 2:
            raise CheckFailed("  Expected two halves.")
        return dict(zip(("first half", "second half"), answer, strict=True))

    recording = further.recording("halves")
    examine(lambda x: x.double().split(1), recording, tidy=tidy)
    assert "two halves" in said(lambda x: [x], recording, tidy=tidy)
    assert "are exchanged" in said(lambda x: x.flip(0).split(1), recording, tidy=tidy)
    unknown = said(lambda x: (x[:1], -x[1:]), recording, tidy=tidy)
    assert "The values of second half of the result are not" in unknown
    answer = recordings.load_questions(small).HALVES.answer
    assert "float64" not in {each.name for each in behaviours(answer, recording)}


def test_how_right_results_are_computed_is_examined_last(further):
    def refuse(candidate, results, inputs):
        raise CheckFailed(f"  {results['the size']} takes too long for {inputs['module'].maker}.")

    recording = further.recording("size")
    assert "3 takes too long" in said(lambda module: 3, recording, afterwards=refuse)
    assert "too long" not in said(lambda module: 2, recording, afterwards=refuse)


class Asked(type):
    """A class whose attributes are asked for in another process, as those of a student's class."""

    def __getattr__(cls, name):
        raise AssertionError(f"asked for {name}")


def test_copies_ask_nothing_of_an_unknown_class():
    value = Asked("Student", (), {})()
    assert copied(value) is value
    with pytest.raises(AssertionError, match="asked for renewed"):
        type(value).renewed  # noqa: B018


def two_results(x):
    return 2 * x, x.detach()


@pytest.mark.parametrize("results", [("double",), None])
def test_gradients_are_examined_of_the_results_that_a_case_names(results):
    """The broken variant: without the names, the constant second result is refused."""
    case = Case({"x": torch.tensor([3.0, 5.0]).requires_grad_()}, results=results)
    recording = Question(two_results, {"double": "", "constant": ""}, lambda _: [case]).record()
    if results:
        examine(two_results, recording)
    else:
        with pytest.raises(CheckFailed, match="no gradient flows"):
            examine(two_results, recording)


class Scaled(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return (self.gain * x).sum()


class NotScaled(Scaled):
    def forward(self, x):
        return self.gain.sum() - x.sum()


@pytest.mark.parametrize("size", [2, 13])
def test_a_message_about_a_class_shows_its_weights_if_all_are_small(size):
    case = Case({"x": torch.ones(size)}, {"size": size}, {"gain": torch.full((size,), 2.0)})
    message = said(NotScaled, Question(Scaled, {"sum": ""}, lambda _: [case]).record())
    assert f"called with module = Scaled({size})" in message
    assert ("gain: shape (2,), [2.0, 2.0]" in message) == (size == 2)
    assert ("gain" in message) == (size == 2)
