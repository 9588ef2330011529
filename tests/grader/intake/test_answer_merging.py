"""The instructor's notebook with the student's answers: whatever else was changed is restored."""

import copy
import json
import random

import pytest
from grader.classroom import cell

from attentively_grader.intake.answer_merging import METADATA_KEY, merge
from attentively_grader.intake.submissions import parse


def marks(name, **flags):
    values = {"grade": False, "locked": False, "solution": False, "task": False}
    return {"nbgrader": values | {"grade_id": name, "schema_version": 3} | flags}


def code(name, source, metadata=None):
    return {
        "cell_type": "code", "id": name, "metadata": metadata or {}, "source": source,
        "execution_count": None, "outputs": [],
    }  # fmt: skip


def text(name, source, metadata=None):
    return {"cell_type": "markdown", "id": name, "metadata": metadata or {}, "source": source}


def check(name, source, points):
    metadata = marks(name, grade=True, locked=True, points=points)
    return code(name, source, metadata | {"tags": ["raises-exception"]})


SOURCE = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "cells": [
        text("title", "# Small"),
        code("imports", "import math"),
        code("part-1", "raise NotImplementedError", marks("part-1", solution=True)),
        check("check-1", "assert one() == 1", 60),
        code("data", "LIMIT = 5", marks("data", locked=True)),
        code("part-2", "raise NotImplementedError", marks("part-2", solution=True)),
        check("check-2", "assert two() == 2", 40),
        text("essay", "Why?", marks("essay", grade=True, solution=True, points=10)),
    ],
}
ANSWERS = {"part-1": "def one(): return 1", "part-2": "def two(): return 2", "essay": "Because."}


@pytest.fixture
def work():
    """What an honest student hands in."""
    content = copy.deepcopy(SOURCE)
    for each in content["cells"]:
        each["source"] = ANSWERS.get(each["id"], each["source"])
    return content


def merged(content):
    found = merge(SOURCE, parse(json.dumps(content).encode(), "small"))
    names = [each["id"] for each in found["cells"]]
    assert len({*names}) == len(names)
    return found


def sources(notebook, without_absent=True):
    return [
        each["source"]
        for each in notebook["cells"]
        if not (without_absent and each["metadata"][METADATA_KEY].get("absent"))
    ]


def instructors(notebook):
    """Return the instructor's cells as they must always be."""
    kept = {}
    for each in notebook["cells"]:
        metadata = dict(each["metadata"])
        if metadata.pop(METADATA_KEY)["author"] == "instructor" and metadata:
            kept[each["id"]] = (each["cell_type"], each["source"], metadata)
    return kept


LOCKED = {
    each["id"]: (each["cell_type"], each["source"], each["metadata"])
    for each in SOURCE["cells"]
    if each["id"] in ("check-1", "data", "check-2")
}


def test_honest_work_is_as_it_was_handed_in(work):
    found = merged(work)
    assert sources(found) == [each["source"] for each in work["cells"]]
    assert instructors(found) == LOCKED
    authors = {each["id"]: each["metadata"][METADATA_KEY]["author"] for each in found["cells"]}
    assert {name for name, who in authors.items() if who == "student"} == {*ANSWERS}
    assert found["metadata"]["kernelspec"]["name"] == "python3"


def tag_skip(content):
    for each in content["cells"]:
        each["metadata"]["tags"] = ["skip-execution", "remove-cell"]


def raise_points(content):
    cell(content, "check-1")["metadata"]["nbgrader"]["points"] = 1000


def edit_test(content):
    cell(content, "check-1")["source"] = "pass"


def delete_tests(content):
    content["cells"] = [c for c in content["cells"] if "check" not in c["id"]]


def delete_all_but_answers(content):
    content["cells"] = [c for c in content["cells"] if c["id"] in ANSWERS]


def strip_marks(content):
    for each in content["cells"]:
        each["metadata"] = {}


def rename_marks(content):
    for each in content["cells"]:
        if "check" in each["id"]:
            each["metadata"]["nbgrader"]["grade_id"] = "other-" + each["id"]


def remove_ids(content):
    for each in content["cells"]:
        del each["id"]


def double_test(content):
    again = copy.deepcopy(cell(content, "check-1"))
    content["cells"].insert(0, again | {"source": "pass"})


def flip_flags(content):
    for each in content["cells"]:
        flags = each["metadata"].get("nbgrader", {})
        for name in ("grade", "solution", "locked", "task"):
            if name in flags:
                flags[name] = not flags[name]


def schema_2(content):
    for each in content["cells"]:
        each["metadata"].get("nbgrader", {})["schema_version"] = 2


def schema_99(content):
    for each in content["cells"]:
        each["metadata"].get("nbgrader", {})["schema_version"] = 99


def schema_text(content):
    for each in content["cells"]:
        each["metadata"].get("nbgrader", {})["schema_version"] = "three"


def change_kernel(content):
    content["metadata"] = {"kernelspec": {"name": "bash"}, "widgets": {"state": 1}}


def change_kinds(content):
    for each in content["cells"]:
        each["cell_type"] = "markdown" if each["cell_type"] == "code" else "code"


CASES = [
    tag_skip, raise_points, edit_test, delete_tests, delete_all_but_answers, strip_marks,
    rename_marks, remove_ids, double_test, flip_flags, schema_2, schema_99, schema_text,
    change_kernel, change_kinds,
]  # fmt: skip


@pytest.mark.parametrize("change", CASES, ids=lambda change: change.__name__)
def test_what_is_the_instructors_is_restored_and_answers_are_kept(work, change):
    """Cases 25 to 31."""
    change(work)
    found = merged(work)
    assert instructors(found) == LOCKED
    assert found["metadata"] == SOURCE["metadata"]
    for name, answer in ANSWERS.items():
        restored = cell(found, name)
        assert restored["source"] == answer
        assert restored["cell_type"] == cell(SOURCE, name)["cell_type"]
        kept = {key: value for key, value in restored["metadata"].items() if key != METADATA_KEY}
        assert kept == cell(SOURCE, name)["metadata"]
    names = [each["id"] for each in found["cells"]]
    assert names.index("part-1") < names.index("check-1") < names.index("check-2")


def test_no_tag_of_a_student_has_effect(work):
    tag_skip(work)
    work["cells"].insert(0, code("mine", "x = 1", {"tags": ["skip-execution"], "nbgrader": 1}))
    tags = [each["metadata"].get("tags", []) for each in merged(work)["cells"]]
    assert {tag for each in tags for tag in each} == {"raises-exception"}


def test_a_students_own_cells_stay_where_they_are(work):
    work["cells"].insert(2, code("helper", "def help(): ..."))
    work["cells"].append(text("", "That was fun."))
    found = merged(work)
    assert sources(found) == [each["source"] for each in work["cells"]]
    assert set(cell(found, "helper")["metadata"]) == {METADATA_KEY}


def ids(notebook):
    return [each["id"] for each in notebook["cells"]]


def test_the_order_of_answers_and_own_cells_is_the_students(work):
    """A helper that part 2 defines may be needed by part 1."""
    work["cells"].insert(2, code("helper", "def help(): ..."))
    work["cells"].append(work["cells"].pop(3))
    assert work["cells"][-1]["id"] == "part-1"
    found = ids(merged(work))
    assert found.index("helper") < found.index("part-2") < found.index("essay")
    assert found.index("essay") < found.index("part-1") < found.index("check-1")


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_the_instructors_cells_is_the_instructors(work, seed):
    """A test that came before the imports would take what it needs from the student."""
    work["cells"].insert(0, code("mine", "math = None"))
    random.Random(seed).shuffle(work["cells"])
    found = ids(merged(work))
    theirs = [name for name in ids(SOURCE) if name not in ANSWERS]
    assert [name for name in found if name in theirs] == theirs
    answers = [name for name in found if name in ANSWERS]
    assert answers == [name for name in ids(work) if name in ANSWERS]
    for number in ("1", "2"):
        assert found.index(f"part-{number}") < found.index(f"check-{number}")
    assert found.count("mine") == 1


def test_what_is_missing_comes_back_in_order_too(work):
    """The title is moved to the end, and the imports, which would follow it, are gone."""
    work["cells"] = [each for each in work["cells"] if each["id"] not in ("title", "imports")]
    work["cells"].append(cell(SOURCE, "title"))
    assert ids(merged(work)) == ids(SOURCE)


def test_a_free_cell_that_is_no_code_any_more_comes_back(work):
    """What it imports is still there for the tests; the text is the student's."""
    cell(work, "imports").update(cell_type="markdown", source="import math")
    found = merged(work)
    again = cell(found, "imports")
    assert again["cell_type"] == "code"
    assert again["metadata"][METADATA_KEY]["original"] == "import math"
    own = [c for c in found["cells"] if c["cell_type"] == "markdown" and c["id"] not in ids(SOURCE)]
    assert [each["source"] for each in own] == ["import math"]


def test_a_copy_in_which_nothing_is_filled_in_does_not_count(work):
    work["cells"].append(copy.deepcopy(cell(SOURCE, "part-1")))
    found = merged(work)
    assert cell(found, "part-1")["source"] == ANSWERS["part-1"]
    names = ids(found)
    assert names.index("part-1") < names.index("check-1") < len(names) - 1
    assert found["cells"][-1]["source"] == "raise NotImplementedError"


def test_of_two_answers_the_last_counts_and_both_run(work):
    first = copy.deepcopy(cell(work, "part-1")) | {"source": "def one(): return 7"}
    work["cells"].insert(0, first)
    found = merged(work)
    assert sources(found) == [each["source"] for each in work["cells"]]
    assert cell(found, "part-1")["source"] == ANSWERS["part-1"]
    assert "nbgrader" not in found["cells"][0]["metadata"]


def test_an_answer_that_is_missing_is_not_implemented(work):
    work["cells"] = [each for each in work["cells"] if each["id"] != "part-2"]
    found = merged(work)
    assert cell(found, "part-2")["source"] == "raise NotImplementedError"
    assert [c["id"] for c in found["cells"]] == [c["id"] for c in SOURCE["cells"]]


def test_what_a_student_changed_in_a_free_cell_is_known(work):
    """Tests may need what it imports, and the student may need what was written."""
    cell(work, "imports")["source"] = "import math, cmath"
    changed = cell(merged(work), "imports")
    assert changed["source"] == "import math, cmath"
    assert changed["metadata"][METADATA_KEY] == {"author": "student", "original": "import math"}
    work["cells"] = [each for each in work["cells"] if each["id"] != "imports"]
    gone = cell(merged(work), "imports")
    assert gone["source"] == ""
    assert gone["metadata"][METADATA_KEY]["original"] == "import math"
    assert gone["metadata"][METADATA_KEY]["absent"]


def test_another_notebook_altogether_is_not_implemented():
    found = merged({"nbformat": 4, "cells": [code("x", "print('hello')")]})
    assert instructors(found) == LOCKED
    assert cell(found, "part-1")["source"] == "raise NotImplementedError"
    assert "print('hello')" in sources(found)


def test_the_source_is_not_touched(work):
    before = copy.deepcopy(SOURCE)
    merged(work)["cells"][2]["metadata"]["nbgrader"]["points"] = 5
    assert before == SOURCE
