"""A class: right, wrong, missing and hostile answers to one real assignment.

One command grades it, is killed halfway, and goes on; every grade is what it should be, and the
grades are exported.
"""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from assignments import ASSIGNMENTS
from grader.stub_pool import needs_sandbox
from notebook_tools import ROOT

from attentively_grader.course import notebooks
from attentively_grader.course.course import Course

pytestmark = [
    pytest.mark.slow,
    pytest.mark.notebook,
    pytest.mark.timeout(1800),
    needs_sandbox,
]

[ASSIGNMENT] = [each for each in ASSIGNMENTS if each.number == "08"]

# Each takes the place of the first part's answer, and earns nothing for it.
HOSTILE = {
    "ends": "def energies(query, keys, W, U, v):\n    import os\n    os._exit(0)",
    "prints": "def energies(query, keys, W, U, v):\n    import sys\n    sys.displayhook(12)\n"
    "    print('Part 1 (energies): right on further inputs too.')\n    return query",
    "equal": "class Equal:\n    def __eq__(self, other):\n        return True\n"
    "    def __getattr__(self, name):\n        return self\n"
    "    def __call__(self, *a, **k):\n        return self\n\n\n"
    "def energies(query, keys, W, U, v):\n    return Equal()",
    "patches": "import torch\ntorch.allclose = lambda *a, **k: True\n"
    "torch.testing.assert_close = lambda *a, **k: None\nAssertionError = ValueError\n\n\n"
    "def energies(query, keys, W, U, v):\n    return keys[..., 0] * 0",
    "reads": "def energies(query, keys, W, U, v):\n    import pathlib\n"
    "    found = [str(p) for p in pathlib.Path('/').rglob('gradebook.db')\n"
    "             if 'nbgrader/tests' not in str(p)]\n"
    "    raise RuntimeError(f'seen: {found}')",
}


def answers_of(kind):
    """Return the changed cells of one kind of student, and the checks that are lost."""
    if kind in HOSTILE:
        return {"energies": HOSTILE[kind]}, ["energies-check"]
    if kind in ASSIGNMENT.handed_in:
        changed, lost, _ = ASSIGNMENT.handed_in[kind]
        return changed, lost
    return {}, []


KINDS = ["right", "missing", *ASSIGNMENT.students, *HOSTILE]
STUDENTS = 2 * len(KINDS)


def kind_of(number):
    return KINDS[number % len(KINDS)]


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """Lay the course out."""
    root = tmp_path_factory.mktemp("course")
    config = (ROOT / "nbgrader_config.py").read_text(encoding="utf-8")
    (root / "nbgrader_config.py").write_text(config, encoding="utf-8")
    (root / "src").symlink_to(ROOT / "src")
    source = root / "solutions" / ASSIGNMENT.name / f"{ASSIGNMENT.name}.ipynb"
    source.parent.mkdir(parents=True)
    source.write_bytes(ASSIGNMENT.source.read_bytes())
    questions = ASSIGNMENT.source.with_name("questions.py")
    (source.parent / questions.name).write_bytes(questions.read_bytes())
    solved = {cell.id: cell.source for cell in notebooks.read(ASSIGNMENT.source).cells}
    released = ASSIGNMENT.released.read_text(encoding="utf-8")
    for number in range(STUDENTS):
        content = json.loads(released)
        kind = kind_of(number)
        changed, _ = answers_of(kind)
        for cell in content["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("solution") and kind != "missing":
                cell["source"] = changed.get(cell["id"], solved[cell["id"]])
                # Else many students would hand in the very same work, which is run once.
                cell["source"] += f"\n# {number}"
        folder = root / "submitted" / f"student-{number:03}" / ASSIGNMENT.name
        folder.mkdir(parents=True)
        (folder / source.name).write_text(json.dumps(content), encoding="utf-8")
    return root


def begin(root, *more):
    return subprocess.Popen(
        [sys.executable, "-m", "attentively_grader", ASSIGNMENT.name, *more],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def children(process):
    """Return the processes below one, as /proc knows them."""
    found, waiting = set(), [process]
    while waiting:
        parent = waiting.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{task}/children") as file:
                    new = {int(each) for each in file.read().split()} - found
                found |= new
                waiting += new
    return found


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def graded(classroom):
    """Kill a run halfway, go on; return the course and what both runs printed."""
    first, printed = begin(classroom), []
    for line in first.stdout:
        printed.append(line)
        if line.startswith(f"[{STUDENTS // 2}/"):
            break
    below = children(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    deadline = time.monotonic() + 30
    while any(map(alive, below)) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [each for each in below if alive(each)]
    second = begin(classroom, "--canvas", str(classroom / "grades.csv"))
    printed_then, _ = second.communicate()
    assert second.returncode == 0, printed_then[-3000:]
    return classroom, "".join(printed), printed_then, left


def test_a_killed_run_leaves_no_process(graded):
    assert graded[3] == []


def test_nothing_is_run_twice_and_all_are_graded(graded):
    _, first, second, _ = graded
    assert first.count(" of 100 (") >= STUDENTS // 2
    assert second.count("already graded") + second.count(" of 100 (") >= STUDENTS
    assert second.count("already graded") >= STUDENTS // 2 - 2
    assert "Set aside" not in second


@pytest.mark.parametrize("kind", KINDS)
def test_every_grade_is_what_it_should_be(graded, kind):
    scores = Course(graded[0]).scores(ASSIGNMENT.name)
    assert len(scores) == STUDENTS
    titles = notebooks.part_titles(notebooks.read(ASSIGNMENT.source))
    lost = {titles[check] for check in answers_of(kind)[1]}
    most = next(iter(scores.values())).maximum
    expected = {part: 0.0 if part in lost or kind == "missing" else most[part] for part in most}
    those = [number for number in range(STUDENTS) if kind_of(number) == kind]
    assert those
    for number in those:
        assert scores[f"student-{number:03}"].points == expected, number


def test_a_third_run_changes_nothing(graded):
    root = graded[0]
    before = Course(root).scores(ASSIGNMENT.name)
    third = begin(root)
    printed, _ = third.communicate()
    assert third.returncode == 0
    assert printed.count("already graded") == STUDENTS
    assert Course(root).scores(ASSIGNMENT.name) == before


def test_the_grades_are_exported(graded):
    with open(graded[0] / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == STUDENTS + 1
    assert rows[0][ASSIGNMENT.name] == "100"
    right = next(row for row in rows if row["SIS Login ID"] == "student-000")
    assert right[ASSIGNMENT.name] == "100"
    page = (graded[0] / "reports" / f"{ASSIGNMENT.name}.html").read_text(encoding="utf-8")
    assert f"Submissions graded: {STUDENTS}." in page


def test_hostile_students_learn_nothing_of_the_course(graded):
    number = next(n for n in range(STUDENTS) if kind_of(n) == "reads")
    folder = graded[0] / "feedback" / f"student-{number:03}" / ASSIGNMENT.name
    assert "seen: []" in (folder / f"{ASSIGNMENT.name}.html").read_text(encoding="utf-8")
