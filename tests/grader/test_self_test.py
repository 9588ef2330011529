"""The instructor's solution is graded before any student, and decides how each test runs."""

from dataclasses import replace

import pytest
from grader.classroom import Classroom, Stub, executed
from notebook_tools import small_notebook, with_source, write

from attentively_grader import shard
from attentively_grader.__main__ import main
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course
from attentively_grader.intake.tasks import Options
from attentively_grader.jobs import Outcome
from attentively_grader.shard import Shard

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(300)]

SECRET = "AssertionError: a hidden test says 1729"


class Separate(Stub):
    """Fails some tests unless they run next to the code, and reports what the solution returned."""

    def __init__(self, only_beside=(), returned=None):
        super().__init__()
        self.only_beside = only_beside
        self.returned = returned or {}
        self.jobs = []

    def run(self, jobs):
        for job in jobs:
            self.jobs.append(job)
            (self.solutions if job.solution else self.ran).append(job.key)
            cells = [self._seen(job, cell) for cell in executed(job.notebook).cells]
            returned = self.returned if job.solution else {}
            yield job, Outcome(cells, seconds=0.1, returned=returned)

    def _seen(self, job, cell):
        if cell.id in job.beside:
            return replace(cell, weaker=True)
        if cell.id in self.only_beside:
            name, _, said = SECRET.partition(": ")
            error = {"output_type": "error", "ename": name, "evalue": said, "traceback": [said]}
            return replace(cell, failed=True, outputs=[error])
        return cell


def source(room):
    return room.root / "solutions" / room.name / f"{room.name}.ipynb"


def solve(room, second):
    """Replace the solution of part 2."""
    body = f"    ### BEGIN SOLUTION\n    {second}\n    ### END SOLUTION"
    write(with_source(small_notebook(), "part-2", f"def part_2():\n{body}"), source(room))


def report(room):
    return (room.root / "reports" / f"{room.name}.html").read_text(encoding="utf-8")


def test_a_solution_that_misses_points_stops_its_own_assignment_only(tmp_path, capsys):
    room, other = Classroom(tmp_path), Classroom(tmp_path, name="other")
    for each in (room, other):
        each.hand_in("anna")
    solve(room, "return 'wrong'")
    stub = Stub()
    assert room.grade(stub=stub) == 1
    assert stub.ran == ["other, anna: other"]
    assert room.points("anna") is None
    assert other.points("anna") == [60, 40]
    printed = capsys.readouterr().out
    assert "small: the solution earns 60 of 100 points (0.1 s). NO STUDENT IS GRADED\n" in printed
    assert (
        "small.ipynb, Part 2 · Number (cell check-2): 0 of 40 points. AssertionError. " in printed
    )
    for remedy in ("Correct the solution or the test", "beside-the-student", "--even-so"):
        assert remedy in printed
    assert "Part 2 · Number (cell check-2): 0 of 40 points" in report(room)
    # Corrected, the same command grades it.
    solve(room, "return 'another secret'")
    stub = Stub()
    assert room.grade(stub=stub) == 0
    assert stub.ran == ["small, anna: small"]
    assert room.points("anna") == [60, 40]
    assert "NO STUDENT IS GRADED" not in capsys.readouterr().out + report(room)


def test_an_earlier_grade_stays_when_the_solution_misses_points(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.grade()
    solve(room, "return 'wrong'")
    stub = Stub()
    assert room.grade(stub=stub) == 1
    assert stub.ran == []
    assert room.points("anna") == [60, 40]


def test_even_so_goes_on_and_says_so(tmp_path, capsys, monkeypatch):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    solve(room, "return 'wrong'")
    stub = Separate()
    monkeypatch.setattr("attentively_grader.workforce.local_pool.pool_factory", lambda *_: stub)
    assert main(["--course", str(tmp_path), "--even-so"]) == 0
    assert room.points("anna") == [60, 40]
    printed = capsys.readouterr().out
    assert "the solution earns 60 of 100 points (0.1 s). GRADED EVEN SO\n" in printed
    assert "*: weaker" in printed
    assert "GRADED EVEN SO" in report(room)
    assert "does not earn its points in any way" in report(room)
    assert stub.jobs[-1].beside == ("check-2",)  # so that no point is lost by the way of grading


def test_every_solution_runs_before_any_student(tmp_path):
    rooms = [Classroom(tmp_path, name=name) for name in ("small", "other")]
    for room in rooms:
        room.hand_in("anna")
    stub = Separate(returned={"part_1()": ["plain"]})
    assert rooms[0].grade(stub=stub) == 0
    assert [job.solution for job in stub.jobs] == [True, True, False, False]
    assert [job.returned for job in stub.jobs] == [{}, {}, *[{"part_1()": ["plain"]}] * 2]
    assert [job.beside for job in stub.jobs] == [()] * 4


def test_the_solution_is_in_no_gradebook_and_on_no_page(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.grade()
    assert list(Course(room.root).scores("small")) == ["anna"]
    for folder in ("autograded", "feedback"):
        found = {path.name for path in (tmp_path / folder).iterdir()} - {".graded"}
        assert found == {"anna"}


def test_a_test_that_passes_only_beside_is_marked_everywhere(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.hand_in("bert", room.answered(second="def part_2():\n    return 'wrong'"))
    stub = Separate(only_beside=["check-2"])
    assert room.grade(stub=stub) == 0
    assert [job.beside for job in stub.jobs] == [(), *[("check-2",)] * 3]
    assert room.points("anna") == [60, 40]
    assert room.points("bert") == [60, 0]
    printed = capsys.readouterr().out
    assert "small: the solution earns 100 of 100 points (0.1 s)\n" in printed
    why = "the instructor's solution passes it only there"
    (line,) = [line for line in printed.splitlines() if line.startswith("small  ")]
    assert line.split() == [
        "small",
        "Part",
        "1",
        "·",
        "Number",
        "Part",
        "2",
        "·",
        "Number*",
        "total",
    ]
    assert f"   Part 2 · Number: {why} (elsewhere: {SECRET})\n" in printed
    assert "Part 2 · Number*</th>" in report(room)
    assert SECRET in report(room)
    for student in ("anna", "bert"):
        assert "Weaker test" in room.page(student)
        assert "passes it only there" in room.page(student)
        assert "1729" not in room.page(student)
        (cell,) = [c for c in room.autograded(student).cells if c.id == "check-2"]
        assert cell.metadata.attentively.weaker == why
    again = Separate(only_beside=["check-2"])
    assert room.grade(stub=again) == 0  # nothing runs, and the marks stay
    assert again.jobs == []
    assert "Number*" in capsys.readouterr().out


def test_a_tagged_test_is_marked_with_the_reason(tmp_path, capsys):
    notebook = small_notebook()
    notebook.cells[-1].metadata.tags.append("beside-the-student")
    room = Classroom(tmp_path, notebook)
    room.hand_in("anna")
    stub = Separate(only_beside=["check-2"])
    assert room.grade(stub=stub) == 0
    assert [job.beside for job in stub.jobs] == [("check-2",)] * 2
    title = notebooks.part_titles(notebook)["check-2"]
    said = capsys.readouterr().out
    assert f"{title}: the instructor gave it the tag beside-the-student" in said


def test_the_parser_adds_tests_when_one_fails(tmp_path, monkeypatch):
    """A test that an earlier one would change too runs next to the code from the first repeat."""
    said = {"check-1": "it deletes a name"}
    monkeypatch.setattr(
        "attentively_grader.intake.self_test.reason_beside",
        lambda text: said["check-1"] if "part_1() > 0" in text else None,
    )
    room = Classroom(tmp_path)
    room.hand_in("anna")
    stub = Separate(only_beside=["check-2"])
    assert room.grade(stub=stub) == 0
    assert {job.beside for job in stub.jobs[1:]} == {("check-2", "check-1")}
    stub = Separate()
    assert room.grade(stub=stub, force=True) == 0
    assert {job.beside for job in stub.jobs} == {()}


def test_the_self_test_is_stored(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    first = Stub()
    room.grade(stub=first)
    assert first.solutions == ["small, the solution: small"]
    room.hand_in("bert")
    second = Stub()
    room.grade(stub=second)
    assert second.solutions == []
    assert second.ran == ["small, bert: small"]
    assert "points (known from an earlier run)" in capsys.readouterr().out
    third = Stub()
    room.grade(stub=third, force=True)
    assert len(third.solutions) == 1


def test_what_the_solution_returns_decides_whether_students_run_again(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    room.grade(stub=Separate(returned={"part_2()": ["plain"]}))
    solve(room, "return 'another ' + 'secret'")
    same = Separate(returned={"part_2()": ["plain"]})
    room.grade(stub=same)
    assert (len(same.solutions), same.ran) == (1, [])
    solve(room, "return ''.join(['another', ' secret'])")
    changed = Separate(returned={"part_2()": ["iterator"]})
    room.grade(stub=changed)
    assert (len(changed.solutions), changed.ran) == (1, ["small, anna: small"])


def test_a_run_that_is_killed_after_the_self_test_resumes(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")

    class Killed(Stub):
        def run(self, jobs):
            for job in jobs:
                if not job.solution:
                    raise KeyboardInterrupt
                yield from super().run([job])

    with pytest.raises(KeyboardInterrupt):
        room.grade(stub=Killed())
    stub = Stub()
    assert room.grade(stub=stub) == 0
    assert (stub.solutions, stub.ran) == ([], ["small, anna: small"])


def test_shares_use_one_self_test(tmp_path, capsys):
    room = Classroom(tmp_path)
    for name in "abcdefgh":
        room.hand_in(name)

    def run(number, stub):
        course = Course(room.root)
        return shard.run(course, course.submissions(), Shard(number, 2), Options(), stub)

    stubs = [Stub(), Stub(), Stub()]
    assert run(1, stubs[0]) == run(2, stubs[1]) == 0
    assert room.grade(stub=stubs[2]) == 0
    assert [len(stub.solutions) for stub in stubs] == [1, 0, 0]
    assert stubs[2].ran == []
    solve(room, "return 'wrong'")
    capsys.readouterr()
    stub = Stub()
    assert run(1, stub) == 1
    assert stub.ran == []
    assert "NO STUDENT IS GRADED" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "# YOUR CODE HERE\nraise NotImplementedError()",
                                  "def part_2():\n    raise NotImplementedError"])  # fmt: skip
def test_a_source_without_a_solution_is_said(tmp_path, capsys, text):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    write(with_source(small_notebook(), "part-2", text), source(room))
    assert room.grade() == 1
    printed = capsys.readouterr().out
    assert "The source contains no solution of: Part 2 · Number (cell part-2)\n" in printed
    assert "Write the solutions into the source notebook" in printed
    assert "--even-so" in printed
    assert room.grade(even_so=True) == 0
    assert room.points("anna") == [60, 40]


def test_a_number_that_ends_a_test_is_said(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("anna")

    class Partial(Stub):
        def run(self, jobs):
            for job, outcome in super().run(jobs):
                cells = [replace(c, points=30.0) if c.id == "check-2" else c for c in outcome.cells]
                yield job, replace(outcome, cells=cells)

    assert room.grade(stub=Partial()) == 1
    printed = capsys.readouterr().out
    assert "(cell check-2): 30 of 40 points. It returned 30 points. Likely cause: " in printed
    assert "partial credit" in printed


def test_a_failure_of_the_grader_stops_the_assignment_and_is_not_stored(tmp_path, capsys):
    room = Classroom(tmp_path)
    room.hand_in("anna")

    class Broken(Stub):
        def run(self, jobs):
            for job in jobs:
                yield job, Outcome([], "died", "the grader could not run this notebook: no memory")

    assert room.grade(stub=Broken()) == 1
    assert "could not run this notebook: no memory" in capsys.readouterr().out
    assert room.grade() == 0
