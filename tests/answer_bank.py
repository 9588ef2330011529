"""The bank of an assignment whose parts are data: questions.py, and answers.py next to it.

answers.py   RIGHT      {function: [other right answers]}
             WRONG      {function: {words of the message: edit, answer, or list of these}}
             ALLOWED    {function: [names of behaviours that are right here]}, if there are any
             HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}

Every other right answer, every mistake, every wrong answer and every behaviour is tried in place of
the right answer to its question; the other functions of the part are right. A behaviour changes the
results that an answer returns, so a question with a runner has none.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentively.checks.behaviours import Behaviour, behaviours
from attentively.checks.edits import edited_source, source_of, variants
from attentively.checks.question import Question
from attentively.checks.recordings import QUESTIONS, load_questions

ANSWERS = "answers.py"
FIRST_MISTAKE = "first_mistake"
"""The student who makes the first mistake of the first question."""


@dataclass(frozen=True)
class Bank:
    right: dict[str, list[Any]]
    """{check: [answers]}; an answer is a tuple where the check takes several."""
    wrong: dict[str, list[tuple[Any, str]]]
    """{check: [(answers, words of the message)]}"""
    handed_in: dict[str, tuple[dict[str, str], list[str], str]]


@functools.cache
def _bank_in(folder: Path, cells: tuple) -> Bank:
    questions, answers = load_questions(folder / QUESTIONS), load_questions(folder / ANSWERS)
    right, wrong = {}, {}
    for check, asked in questions.PARTS.items():
        right[check] = [_together(asked)]
        wrong[check] = []
        for question in asked:
            made = _behaviours(question)
            allowed = getattr(answers, "ALLOWED", {}).get(question.name, [])
            others = answers.RIGHT.get(question.name, []) + [made.pop(n).answer for n in allowed]
            others += [question.right(way) for way in question.ways]
            right[check] += [_together(asked, question, each) for each in others]
            further = wrong_answers(question, answers.WRONG.get(question.name, {}))
            further += [(each.answer, each.words) for each in made.values()]
            wrong[check] += [(_together(asked, question, each), words) for each, words in further]
    handed_in = {FIRST_MISTAKE: _first_mistake(questions.PARTS, dict(cells)), **answers.HANDED_IN}
    return Bank(right, wrong, handed_in)


def bank_in(folder: Path, cells: dict[str, tuple[str, str]]) -> Bank:
    """Return the bank in a folder; `cells` are the answer and check cells by the check."""
    return _bank_in(folder, tuple(cells.items()))


def wrong_answers(question: Question, further: dict) -> list[tuple[Any, str]]:
    """Return the mistaken answers to a question, each with words of its message."""
    more = [(said, e) for said, row in further.items() for e in variants(question.answer, row)]
    return [(answer, words_of(said)) for said, answer in [*question.wrong(), *more]]


def _behaviours(question: Question) -> dict[str, Behaviour]:
    """Return the answers that misbehave, by name."""
    if question.cases is None or question.runner is not None:
        return {}
    return {each.name: each for each in behaviours(question.answer, question.record())}


def words_of(said: str) -> str:
    """Return the longest part of a diagnosis without a quotation such as {missing}."""
    return max(re.split(r"\{[a-z_]+\}", said), key=len).strip()


def _together(asked: list[Question], changed: Question | None = None, answer: Any = None) -> Any:
    """Return the answers to the questions of a part, one of them changed."""
    given = tuple(answer if each is changed else each.answer for each in asked)
    return given if len(given) > 1 else given[0]


def _first_mistake(parts: dict, cells: dict) -> tuple[dict[str, str], list[str], str]:
    """Return the first edit of the first question as a student hands it in."""
    check, asked = next(iter(parts.items()))
    said, edits = next(iter(asked[0].mistakes.items()))
    sources = [edited_source(asked[0].answer, edits), *(source_of(e.answer) for e in asked[1:])]
    answer, graded = cells[check]
    return {answer: "\n\n".join(sources)}, [graded], words_of(said)
