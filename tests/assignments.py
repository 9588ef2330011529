"""Every assignment in solutions/, with its checks and its bank of answers: see `answer_bank`.

An answer is what the check is called with; a tuple where it takes several.

To import the checks and banks of all assignments takes seconds, which no process should spend on
collecting tests. What names a test is therefore read from the text of these files.
"""

import ast
import importlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from answer_bank import ANSWERS, FIRST_MISTAKE, Bank, bank_in

from attentively.checks import CheckFailed, Part
from attentively.checks.recordings import QUESTIONS

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "exercises"))  # helpers of its tests

FEWEST_RIGHT, FEWEST_WRONG = 2, 3


@dataclass(frozen=True)
class Assignment:
    """One folder of solutions/: NN_topic."""

    name: str

    def __str__(self):
        return self.name

    @property
    def number(self):
        return self.name.partition("_")[0]

    @property
    def source(self):
        return ROOT / "solutions" / self.name / f"{self.name}.ipynb"

    @property
    def questions(self):
        """The file with the parts as data."""
        return self.source.parent / QUESTIONS

    @property
    def released(self):
        return ROOT / "exercises" / self.name / f"{self.name}.ipynb"

    @property
    def checks(self) -> ModuleType:
        topic = self.name.partition("_")[2]
        return importlib.import_module(f"attentively.checks.{topic}")

    @property
    def parts(self) -> dict[str, Part]:
        """The checks by the names that the bank gives them, in the order of the parts."""
        found = {name: each for name, each in vars(self.checks).items() if isinstance(each, Part)}
        return dict(sorted(found.items(), key=lambda item: item[1].number))

    @property
    def part_names(self) -> list[str]:
        """The keys of `parts`, read from the graded cells, each of which calls its check."""
        cells = json.loads(self.source.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if _is_graded(cell)]
        return [re.match(r"checks\.(\w+)\(", each)[1] for each in sources]

    @property
    def bank(self) -> Bank:
        return bank_in(self.source.parent, self.cells)

    @property
    def cells(self) -> dict[str, tuple[str, str]]:
        """The ids of the answer cell and of the check of each part, by the name of the check."""
        found, answer = {}, ""
        for cell in json.loads(self.source.read_text(encoding="utf-8"))["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution"):
                answer = cell["id"]
            elif _is_graded(cell):
                check = re.match(r"checks\.(\w+)\(", "".join(cell["source"]))[1]
                found[check] = answer, cell["id"]
        return found

    @property
    def students(self) -> list[str]:
        """The keys of `handed_in`, read from the text of the bank."""
        text = (self.source.parent / ANSWERS).read_text(encoding="utf-8")
        (table,) = (
            statement.value
            for statement in ast.parse(text).body
            if isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "HANDED_IN"
        )
        return [*dict.fromkeys([FIRST_MISTAKE, *(ast.literal_eval(key) for key in table.keys)])]

    @property
    def graded_cells(self):
        """The cells that nbgrader gives points to."""
        from attentively_grader.course import notebooks

        cells = notebooks.read(self.source).cells
        return [cell for cell in cells if _is_graded(cell)]

    @property
    def right(self):
        return self.bank.right

    @property
    def wrong(self):
        return self.bank.wrong

    @property
    def handed_in(self):
        return self.bank.handed_in


def _is_graded(cell):
    return bool(cell["metadata"].get("nbgrader", {}).get("grade"))


ASSIGNMENTS = [
    Assignment(name)
    for name in sorted({path.parent.name for path in (ROOT / "solutions").glob("*/*.ipynb")})
]


def each_of(answer):
    """Return what the check is called with, as a tuple."""
    return answer if isinstance(answer, tuple) else (answer,)


def title(answer):
    """Return a short name of an answer, for a test's name."""
    return "-".join(getattr(each, "__name__", type(each).__name__) for each in each_of(answer))


def call(part, answer, **options):
    """Check an answer as a notebook does."""
    part(*each_of(answer), **options)


def message(part, answer):
    """Return what the check says against an answer; one that it lets pass fails the test."""
    with pytest.raises(CheckFailed) as caught:
        call(part, answer)
    return str(caught.value)


def faults_of_message(part, said, words):
    """Return what is wrong with what a check says against an answer."""
    found = []
    flat = " ".join(said.split())
    if not flat.startswith(f"{part.label}: not right yet."):
        found.append(f"it begins {flat[:60]!r}")
    if not words.strip() or words not in flat:
        found.append(f"it lacks {words!r}")
    if max(map(len, said.splitlines())) >= 200:
        found.append("a line is longer than 200 characters")
    return found


def faults_of_bank(parts, right, wrong):
    """Return what a bank lacks, and what it has for no part."""
    found = [f"{name!r} is no check" for name in sorted({*right, *wrong} - {*parts})]
    for name in parts:
        counts = (("right", FEWEST_RIGHT, right), ("wrong", FEWEST_WRONG, wrong))
        for kind, fewest, bank in counts:
            if len(bank.get(name, [])) < fewest:
                there = len(bank.get(name, []))
                found.append(f"{name!r} has {there} {kind} answers, and needs {fewest}")
    return found


def faults_of_scores(scores, lost=()):
    """Return the checks that did not get what they should: nothing if lost, else all points."""
    found = [f"{check!r} is no check" for check in lost if check not in scores.maximum]
    for check, most in scores.maximum.items():
        expected = 0 if check in lost else most
        if scores.points[check] != expected:
            found.append(f"{check!r} got {scores.points[check]:g}, expected {expected:g}")
    if sum(scores.maximum.values()) != 100:
        found.append(f"the points sum to {sum(scores.maximum.values()):g}, not to 100")
    return found
