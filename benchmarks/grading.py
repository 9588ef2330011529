"""Time to grade a class with feedback: `attentively_grader` against nbgrader's own commands.

    python benchmarks/grading.py                     # all assignments; writes results/grading.json
    python benchmarks/grading.py --assignments 03_recurrent_networks 08_additive_attention
    python benchmarks/grading.py --quick             # small, and writes nothing

One row for each assignment of the book, and one for *cells*: five small parts with PyTorch, for a
class of 1,000. Both sides grade the first students of the same class into a gradebook of their own
and write their feedback, one side after the other: the grader in one command, with its sandbox;
nbgrader with `autograde` and `generate_feedback`. Every grade of every student that both sides
graded must be the same.

A ratio compares seconds per submission. Start-up is left out on both sides: the clock starts when
the first submissions are done, one for each core, and stops when the command ends. nbgrader grades
only three submissions of each class, because it takes the same time for each; its time for the
class of 1,000 is extrapolated from them. At the end the class of 1,000 is recorded again from the
stored results, which measures the share of the work that one process does.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import nbformat
import torch
from nbgrader.api import Grade, Gradebook

from attentively.atomic_files import replacing
from attentively_grader.course import notebooks
from attentively_grader.course.release import release
from attentively_grader.sandbox.watchdog import proportional, tree
from attentively_grader.workforce import local_pool

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results" / "grading.json"
ASSIGNMENTS = sorted(path.name for path in (ROOT / "solutions").iterdir() if path.is_dir())
CELLS = "small"
TARGET = 0.1
"""Maximum time per submission for small parts, as a share of nbgrader's."""
LOOK_EVERY = 2.0
"""Seconds between two looks at the memory, which slow the processes down."""
DONE = re.compile(r"^\[\d+/\d+\] ")
"""A line of the grader after a submission."""
BEGUN = re.compile(r"Creating/updating student with ID '[^']*'")
"""A line of `nbgrader autograde` before a submission."""
PAGE_BEGUN = re.compile(r"Converting notebook \S+")
"""A line of `nbgrader generate_feedback` before the page of a submission."""
WRONG = "raise ValueError('I do not know')"
PARTS = {
    "softmax": (
        "def softmax(scores):",
        "weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)\n"
        "return weights / weights.sum(dim=-1, keepdim=True)",
        "x = torch.randn(3, 5)\nassert torch.allclose(softmax(x), x.softmax(dim=-1))",
        "assert torch.isfinite(softmax(torch.tensor([1000.0, 0.0]))).all()",
    ),
    "attention": (
        "def attention(query, key, value):",
        "scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5\n"
        "return scores.softmax(dim=-1) @ value",
        "q, k, v = torch.randn(3, 2, 4, 8)\n"
        "expected = nn.functional.scaled_dot_product_attention(q, k, v)\n"
        "assert torch.allclose(attention(q, k, v), expected, atol=1e-6)",
        "assert attention(q[:, :1], k, v).shape == (2, 1, 8)",
    ),
    "mean": (
        "def mean(states, mask):",
        "weights = mask.unsqueeze(-1).to(states.dtype)\n"
        "return (states * weights).sum(dim=1) / weights.sum(dim=1)",
        "states, mask = torch.ones(2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 0]]).bool()\n"
        "assert torch.equal(mean(states, mask), torch.ones(2, 4))",
        "assert torch.equal(mean(states.cumsum(1), mask)[0], torch.full((4,), 1.5))",
    ),
    "positions": (
        "def positions(length, dimension):",
        "angles = torch.arange(length).unsqueeze(1) / 10_000 ** (\n"
        "    torch.arange(0, dimension, 2) / dimension)\n"
        "return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)",
        "assert positions(7, 8).shape == (7, 8)",
        "assert torch.allclose(positions(2, 4)[1, :2], torch.tensor([1.0]).sin().new_tensor("
        "[0.8415, 0.5403]), atol=1e-4)",
    ),
    "layer": (
        "class Layer(nn.Module):",
        "def __init__(self, inputs, outputs):\n"
        "    super().__init__()\n"
        "    self.weight = nn.Parameter(torch.randn(outputs, inputs))\n"
        "    self.bias = nn.Parameter(torch.zeros(outputs))\n"
        "def forward(self, x):\n"
        "    return x @ self.weight.T + self.bias",
        "layer, like = Layer(4, 3), nn.Linear(4, 3)\n"
        "layer.load_state_dict(like.state_dict())\n"
        "x = torch.randn(5, 4)\n"
        "assert torch.allclose(layer(x), like(x), atol=1e-6)",
        "layer(x).sum().backward()\nassert torch.allclose(layer.bias.grad, torch.full((3,), 5.0))",
    ),
}
"""The parts of *cells*: how an answer begins, a right one, a test and a hidden one."""


@dataclass(frozen=True)
class Class:
    """What is graded."""

    name: str
    assignment: str
    submissions: int
    with_nbgrader: int = 3
    """Number of submissions that nbgrader grades."""
    again: bool = False
    """Whether the class is recorded again from the stored results."""
    goal: float | None = None
    """Maximum ratio; None where the time of the tests themselves decides."""


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    memory_mib: int
    """Maximum memory of all its processes together."""
    times: list[float]
    """When each submission was done, or begun, in seconds from the start."""

    def after(self, done: int) -> float:
        """Return the seconds per submission from the time when so many were done."""
        return (self.seconds - self.times[done - 1]) / (len(self.times) - done)

    def from_the_first(self) -> float:
        """Return the seconds per submission from the time when the first one began."""
        return (self.seconds - self.times[0]) / len(self.times)


def cells_notebook(parts: list[str]) -> nbformat.NotebookNode:
    """Return the source of an assignment of small parts."""

    def marked(name: str, source: str, **flags: object) -> nbformat.NotebookNode:
        given = {"schema_version": 3, "grade_id": name, "task": False, **flags}
        return nbformat.v4.new_code_cell(source, id=name, metadata={"nbgrader": given})

    set_up = "import torch\nfrom torch import nn\n\ntorch.manual_seed(0)"
    cells = [marked("set-up", set_up, solution=False, grade=False, locked=True)]
    for name in parts:
        begin, answer, test, hidden = PARTS[name]
        answer = f"### BEGIN SOLUTION\n{answer}\n### END SOLUTION"
        source = f"{begin}\n" + textwrap.indent(answer, "    ")
        cells.append(marked(name, source, solution=True, grade=False, locked=False))
        source = f"{test}\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"
        flags = {"solution": False, "grade": True, "locked": True, "points": 20}
        cells.append(marked(f"{name}-check", source, **flags))
    return nbformat.v4.new_notebook(cells=cells, metadata=notebooks.KERNEL)


def make_course(root: Path, given: Class, submissions: int) -> None:
    """Create a course with the first submissions of the class.

    Of six answers of a student, four are the solution, one is missing and one is wrong.
    """
    shutil.copy(ROOT / "nbgrader_config.py", root)
    source = root / "solutions" / given.assignment / f"{given.assignment}.ipynb"
    source.parent.mkdir(parents=True)
    if given.assignment == CELLS:
        parts = list(PARTS)[:1] if given.name == "tiny" else list(PARTS)
        source.write_text(nbformat.writes(cells_notebook(parts)), encoding="utf-8")
    else:
        shutil.copytree(ROOT / "solutions" / given.assignment, source.parent, dirs_exist_ok=True)
    (root / "src").symlink_to(ROOT / "src")
    solved = {cell.id: cell.source for cell in notebooks.read(source).cells}
    released = json.loads(release(root, given.assignment)[source.name])
    for number in range(submissions):
        handed_in = json.loads(json.dumps(released))
        answers = [
            c for c in handed_in["cells"] if c["metadata"].get("nbgrader", {}).get("solution")
        ]
        for place, cell in enumerate(answers, start=number):
            if place % 6 < 4:
                cell["source"] = solved[cell["id"]]
            elif place % 6 == 4:
                text = "".join(cell["source"])
                cell["source"] = text.replace("raise NotImplementedError", WRONG)
        folder = root / "submitted" / f"student-{number:03}" / given.assignment
        folder.mkdir(parents=True)
        (folder / source.name).write_text(json.dumps(handed_in), encoding="utf-8")


def cost_of(command: list[str | Path], folder: Path, line: re.Pattern[str] = DONE) -> Cost:
    """Return what a command takes, and when it printed the lines of submissions.

    Memory that several processes share counts once. An error of the command ends the benchmark.
    """
    print(f"  {' '.join(map(str, command[1:]))} ...", file=sys.stderr, flush=True)
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    peak = 0
    told: list[str] = []
    times: dict[str, float] = {}
    started = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip

        def read() -> None:
            for text in process.stdout or ():
                told.append(text)
                if found := line.search(text):
                    times.setdefault(found[0], time.perf_counter() - started)

        reader = threading.Thread(target=read)
        reader.start()
        while True:
            try:
                status = process.wait(LOOK_EVERY)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, sum(map(proportional, tree(process.pid))))
        seconds = time.perf_counter() - started
        reader.join()
    if status != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{''.join(told)[-4000:]}")
    return Cost(seconds, peak >> 20, [*times.values()])


def grades(folder: Path) -> dict[tuple[str, str], float]:
    """Return what a gradebook says: the points of every part of every student."""
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as gradebook:
        return {
            (grade.notebook.assignment.student.id, grade.name): float(grade.score or 0)
            for grade in gradebook.db.query(Grade)
        }


def forget_all_but_results(course: Path) -> None:
    """Leave a course as it would be if all notebooks had been run and none recorded."""
    (course / "gradebook.db").unlink()
    shutil.rmtree(course / "feedback")
    kept = course / "autograded" / ".graded"
    for path in [*(course / "autograded").iterdir(), *kept.iterdir()]:
        if path.is_dir() and path not in (kept, kept / "results"):
            shutil.rmtree(path)


def measure(given: Class) -> dict:
    """Grade the class on both sides; raise `AssertionError` if a grade differs."""
    with tempfile.TemporaryDirectory(prefix="class-") as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        for side, submissions in ((ours, given.submissions), (theirs, given.with_nbgrader)):
            side.mkdir()
            make_course(side, given, submissions)
        nbgrader = [sys.executable, "-m", "nbgrader"]
        grader = [sys.executable, "-m", "attentively_grader", given.assignment]
        cost_of([*nbgrader, "generate_assignment", given.assignment], theirs)
        first = cost_of(grader, ours)
        second = cost_of([*nbgrader, "autograde", given.assignment], theirs, BEGUN)
        pages = cost_of([*nbgrader, "generate_feedback", given.assignment], theirs, PAGE_BEGUN)
        found, expected = grades(ours), grades(theirs)
        to_record = None
        if given.again:
            forget_all_but_results(ours)
            to_record = round(cost_of(grader, ours).after(1), 4)
            if grades(ours) != found:
                raise AssertionError("not the same grades when they are recorded again")
    counts = len({student for student, _ in found}), len({student for student, _ in expected})
    differ = [key for key in expected if found.get(key) != expected[key]]
    if differ or counts != (given.submissions, given.with_nbgrader):
        raise AssertionError(f"not the same grades: {sorted(differ)[:5]}")
    theirs_each = {"autograde": second.from_the_first(), "feedback": pages.from_the_first()}
    each = {
        "attentively_grader": first.after(local_pool.cores()),
        "nbgrader": sum(theirs_each.values()),
    }
    return {
        "name": given.name,
        "size": {"name": given.name, "submissions": given.submissions},
        "assignment": given.assignment,
        "submissions_with_nbgrader": given.with_nbgrader,
        "seconds_a_submission": {side: round(seconds, 4) for side, seconds in each.items()},
        "seconds_of_nbgrader": {step: round(took, 4) for step, took in theirs_each.items()},
        "seconds": {
            "attentively_grader": round(first.seconds, 2),
            "nbgrader": round(
                second.seconds
                + pages.seconds
                + each["nbgrader"] * (given.submissions - given.with_nbgrader),
                2,
            ),
        },
        "nbgrader_is_extrapolated": given.submissions > given.with_nbgrader,
        "seconds_to_record_a_submission": to_record,
        "peak_memory_mib": {
            "attentively_grader": first.memory_mib,
            "nbgrader": max(second.memory_mib, pages.memory_mib),
        },
        "ratio": round(each["attentively_grader"] / each["nbgrader"], 4),
        "goal": given.goal,
        "equal_grades": len(expected),
    }


def table(rows: list[dict]) -> str:
    """Return the results as text."""
    lines = [
        f"{'':34}{'submissions':>12}{'s each':>9}{'nbgrader':>10}{'ratio':>8}{'times':>7}"
        f"{'record':>8}{'MiB':>6}{'nbgrader':>10}"
    ]
    for row in rows:
        first, second = row["seconds_a_submission"].values()
        memory, other = row["peak_memory_mib"].values()
        record = row["seconds_to_record_a_submission"]
        lines.append(
            f"{row['name']:34}{row['size']['submissions']:12}{first:9.2f}{second:10.2f}"
            f"{row['ratio']:8.3f}{1 / row['ratio']:7.1f}"
            f"{'' if record is None else f'{record:.3f}':>8}{memory:6}{other:10}"
        )
    last = rows[-1]
    if last["nbgrader_is_extrapolated"]:
        ours, theirs = last["seconds"].values()
        lines.append(
            f"{last['name']}, {last['size']['submissions']} submissions: {ours / 60:.0f} minutes; "
            f"nbgrader {theirs / 60:.0f} minutes, extrapolated from "
            f"{last['submissions_with_nbgrader']} submissions"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five submissions, nothing written")
    parser.add_argument("--submissions", type=int, default=1000, help="size of the large class")
    parser.add_argument(
        "--assignments", nargs="*", choices=ASSIGNMENTS, default=ASSIGNMENTS, metavar="NAME",
        help="only these assignments [all]",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, help=f"results file [{RESULTS.name}]")
    given = parser.parse_args(arguments)
    if given.quick:
        classes = [Class("tiny", CELLS, 5, again=True)]
    else:
        classes = [Class(name, name, 10) for name in given.assignments]
        classes.append(Class("cells", CELLS, given.submissions, again=True, goal=TARGET))
    rows = [measure(each) for each in classes]
    print(table(rows))
    complete = given.assignments == ASSIGNMENTS and not given.quick
    output = given.output or (RESULTS if complete else None)
    if output is not None:
        content = {
            "command": " ".join(["python benchmarks/grading.py", *(arguments or sys.argv[1:])]),
            "device": f"cpu ({local_pool.cores()} cores)",
            "machine": platform.machine(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "target_ratio": TARGET,
            "ratio_to_nbgrader": round(1 / rows[-1]["ratio"], 2),
            "rows": rows,
        }
        with replacing(output) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
