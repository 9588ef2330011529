"""Questions: what the recordings of every assignment keep, and what the engine sees.

That every right answer passes and every mistake gets its message is in test_answers.py.
"""

import importlib.util
import json
import re

import pytest
import torch
from assignments import ASSIGNMENTS
from notebook_tools import ROOT

from attentively.checks import CheckFailed, recordings
from attentively.checks.behaviours import behaviours
from attentively.checks.edits import edited, source_of, variants
from attentively.checks.question import examine, unseen

pytestmark = pytest.mark.usefixtures("unchecked")

every_assignment = pytest.mark.parametrize(
    "assignment", [each for each in ASSIGNMENTS if each.questions.exists()], ids=str
)


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


@every_assignment
def test_the_recordings_are_what_the_questions_give(assignment):
    made = recordings.record(recordings.load_questions(assignment.questions))
    assert recordings.same(made, recordings.stored(folder_of(assignment)))
    assert {name: unseen(each) for name, each in made.items()} == {name: [] for name in made}


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


def test_results_that_are_equal_twice_by_chance_are_random(question):
    results = iter([torch.zeros(1), torch.zeros(1), torch.ones(1)])
    assert "two different answers" in said(lambda x: next(results), question.record())


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


def test_results_are_read_before_they_are_compared(question):
    recording = question.record()
    assert "torch.float64" in said(lambda x: 2 * x.double(), recording)
    examine(lambda x: 2 * x.double(), recording, read=lambda result: result.float())


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
    kinds = '{"x": (1, [2.5, None], {"a": {3, 1}, 4: "$"}, True, float("inf"))}'
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
