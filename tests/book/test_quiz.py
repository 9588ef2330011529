"""The quiz directive's own rules."""

import importlib.util
from pathlib import Path

import pytest
from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("quiz", ROOT / "book" / "_ext" / "quiz.py")
quiz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(quiz)

GOOD = """What do the weights
sum to?

- [ ] the number of keys
  That is the sum of scores that are all one.
- [x] one
  The softmax runs over the keys.

  - a list of its own
"""


def test_a_quiz_is_read():
    assert quiz.parse(GOOD) == quiz.Quiz(
        "What do the weights\nsum to?",
        [
            quiz.Option("the number of keys", False, "That is the sum of scores that are all one."),
            quiz.Option("one", True, "The softmax runs over the keys.\n\n- a list of its own"),
        ],
    )


def test_a_notebook_shows_it_folded():
    text = quiz.as_markdown(GOOD)
    assert text.count("<details><summary>") == 2
    assert "**Not so.** That is" in text
    assert "**Right.** The softmax" in text
    assert "[x]" not in text


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            GOOD.replace("  The softmax runs over the keys.\n\n  - a list of its own\n", ""),
            "explain",
        ),
        (GOOD.replace("[x]", "[ ]"), "needs a right option"),
        (GOOD[GOOD.index("- [ ]") :], "begins with its question"),
        ("Why?\n\n- [x] because\n  So it is.\n", "two options or more"),
        (GOOD.replace("  That is", "That is"), "neither an option"),
    ],
)
def test_an_incomplete_quiz_is_refused(broken, message):
    with pytest.raises(ValueError, match=message):
        quiz.parse(broken)


@pytest.mark.parametrize(
    ("children", "named"),
    [
        ([nodes.math("", "x")], True),
        ([nodes.math("", "x"), nodes.Text(" and "), nodes.math("", "y")], False),
        ([nodes.emphasis("", "", nodes.Text("one"))], False),
    ],
)
def test_an_option_of_mathematics_only_has_words_for_screen_readers(children, named):
    writer = type("Writer", (), {"body": []})()
    quiz.visit_option_text(writer, quiz.option_text_node("", "", *children))
    assert ("Answer" in "".join(writer.body)) == named
