"""Every mistake that the checks know by name is one that an answer of the bank makes.

The checks keep them in tables: `…_TWINS`, what to say and what the mistake answers, and `…_WAYS`
and `…_REPAIRS`, whose keys are what to say. Chapters that keep them otherwise are not listed.
"""

import sys
from types import ModuleType

import pytest
from assignments import ASSIGNMENTS, message

FEWEST = {
    "00": 35, "03": 70, "06": 80, "07": 90, "09": 20, "10": 80, "11": 75, "12": 100, "13": 35,
    "14": 75, "15": 100, "16": 120, "19": 130,
}  # fmt: skip
"""How many mistakes the checks of an assignment know, at least."""


def modules_of(checks):
    """Return the module of an assignment's checks, and those that it is made of."""
    topics = {assignment.checks.__name__ for assignment in ASSIGNMENTS}
    names = {checks.__name__}
    for value in vars(checks).values():
        name = value.__name__ if isinstance(value, ModuleType) else value.__class__.__module__
        origin = getattr(value, "__module__", None)
        names |= {each for each in (name, origin) if isinstance(each, str)} - topics
    return [sys.modules[each] for each in names if each.startswith("attentively.checks.")]


def diagnoses(table):
    """Return what a table of twins says of each, however they are grouped."""
    if isinstance(table, str):
        return {table}
    if isinstance(table, dict):
        table = list(table.values())
    elif isinstance(table, tuple) and isinstance(table[0], str):
        return {table[0]}  # a twin
    return set().union(*map(diagnoses, table))


@pytest.mark.timeout(400)  # it goes through the whole bank
@pytest.mark.parametrize(
    "assignment", [each for each in ASSIGNMENTS if each.number in FEWEST], ids=str
)
def test_every_known_mistake_is_one_that_the_bank_makes(assignment):
    said = " ".join(
        " ".join(message(assignment.parts[name], answer).split())
        for name, answers in assignment.wrong.items()
        for answer, _ in answers
    )
    known = set()
    for module in modules_of(assignment.checks):
        for name, table in vars(module).items():
            if name.endswith("_TWINS"):
                known |= diagnoses(table)
            elif name.endswith(("_WAYS", "_REPAIRS")):
                known |= {key for key in table if isinstance(key, str)}
    assert len(known) >= FEWEST[assignment.number]
    assert [each for each in sorted(known) if each not in said] == []
