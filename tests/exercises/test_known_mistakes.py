"""Every mistake that the checks know by name is one that an answer of the bank makes.

The checks keep them in tables: `…_TWINS`, what to say and what the mistake answers, and `…_WAYS`
and `…_REPAIRS`, whose keys are what to say. Chapters that keep them otherwise are not listed.
"""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from assignments import ASSIGNMENTS
from examination import examined

from attentively.checks import known

pytestmark = pytest.mark.usefixtures("unchecked")

WITH_TABLES = {}


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


def known_to(modules):
    """Return what the tables in some modules say; where there is none, the reader is at fault."""
    found = set()
    for module in modules:
        for name, table in vars(module).items():
            if name.endswith("_TWINS"):
                found |= diagnoses(table)
            elif name.endswith(("_WAYS", "_REPAIRS")):
                found |= {key for key in table if isinstance(key, str)}
    assert found, "no table of mistakes was found"
    return found


def not_said(diagnosed, messages):
    """Return the mistakes that no message names."""
    said = " ".join(" ".join(each.split()) for each in messages)
    return [each for each in sorted(diagnosed) if each not in said]


@pytest.mark.timeout(400)  # by itself, it goes through the whole bank
@pytest.mark.parametrize(
    "assignment", [each for each in ASSIGNMENTS if each.number in WITH_TABLES], ids=str
)
def test_every_known_mistake_is_one_that_the_bank_makes(assignment):
    messages = [said for name in assignment.parts for said in examined(assignment, name).messages]
    assert not_said(known_to(modules_of(assignment.checks)), messages) == []


# Broken twins: what this test must see


def test_a_mistake_that_no_answer_makes_is_seen():
    assert not_said({"The tanh is missing.", "One too many."}, ["The tanh\n  is missing."]) == [
        "One too many."
    ]


def test_tables_of_every_kind_are_read():
    tables = SimpleNamespace(
        A_TWINS=known("a", max, min),
        B_TWINS={"one": known("b", max), "other": [("c", max), ("d", min)]},
        C_WAYS={"e": max, 3: min},
        D_REPAIRS={"f": max},
        OTHERS={"g": max},
    )
    assert known_to([tables]) == {*"abcdef"}


def test_a_reader_that_finds_no_table_is_seen():
    with pytest.raises(AssertionError, match="no table"):
        known_to([SimpleNamespace(OTHERS={"g": max})])


def test_the_tables_of_modules_that_the_checks_import_are_read():
    (assignment,) = [each for each in ASSIGNMENTS if each.number == "15"]
    modules = {each.__name__.rpartition(".")[2] for each in modules_of(assignment.checks)}
    assert modules >= {"building_the_transformer", "pytorch_names"}
