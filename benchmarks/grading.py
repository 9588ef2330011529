"""How long a class takes to grade: `attentively_grader` beside `nbgrader autograde`.

    python benchmarks/grading.py                     # 100 submissions; writes results/grading.json
    python benchmarks/grading.py --submissions 20
    python benchmarks/grading.py --quick             # small, and writes nothing

Two assignments: *cells*, five small parts with PyTorch, where starting and recording are nearly all
there is to do; and *chapter*, the book's assignment on additive attention, whose own tests compute
for seconds, for a class of a quarter of the size. Both sides grade the same class into a gradebook
of their own, one after the other in one run, each by its command, from its start to its end: the
grader with its sandbox, the tests outside the students' processes, and the feedback written;
nbgrader without feedback, which is a command of its own there. Every grade of every student must be
the same on both sides. At the end the class is recorded once more from the results that are kept,
which is the share of the work that one process does.
"""

import argparse
import json
import math
import os
import platform
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
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
CHAPTER = "08_additive_attention"
TARGET = 0.1
"""Of nbgrader's time, where starting and recording are what takes the time."""
LOOK_EVERY = 0.5
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
    goal: float | None = None
    """How much of nbgrader's time it may take; None where the tests' own time decides."""


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


def make_course(root: Path, given: Class) -> None:
    """Lay out a course with a class of right, missing and wrong answers, always the same."""
    shutil.copy(ROOT / "nbgrader_config.py", root)
    source = root / "solutions" / given.assignment / f"{given.assignment}.ipynb"
    source.parent.mkdir(parents=True)
    if given.assignment == CHAPTER:
        shutil.copytree(ROOT / "solutions" / given.assignment, source.parent, dirs_exist_ok=True)
    else:
        parts = list(PARTS)[:1] if given.name == "tiny" else list(PARTS)
        source.write_text(nbformat.writes(cells_notebook(parts)), encoding="utf-8")
    (root / "src").symlink_to(ROOT / "src")
    solved = {cell.id: cell.source for cell in notebooks.read(source).cells}
    released = json.loads(release(root, given.assignment)[source.name])
    chance = random.Random(0)
    for number in range(given.submissions):
        handed_in = json.loads(json.dumps(released))
        for cell in handed_in["cells"]:
            if not cell["metadata"].get("nbgrader", {}).get("solution"):
                continue
            draw = chance.random()
            if draw < 0.65:
                cell["source"] = solved[cell["id"]]
            elif draw < 0.8:
                text = "".join(cell["source"])
                cell["source"] = text.replace("raise NotImplementedError", WRONG)
        folder = root / "submitted" / f"student-{number:03}" / given.assignment
        folder.mkdir(parents=True)
        (folder / source.name).write_text(json.dumps(handed_in), encoding="utf-8")


def cost_of(command: list[str | Path], folder: Path) -> tuple[float, int]:
    """Return how long a command takes in seconds, and the most memory of all its processes in MiB.

    What several processes share counts once. An error of the command's own ends the benchmark.
    """
    print(f"  {' '.join(map(str, command[1:]))} ...", file=sys.stderr, flush=True)
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    peak = 0
    with tempfile.TemporaryFile("w+") as said:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        while True:
            try:
                status = process.wait(LOOK_EVERY)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, sum(map(proportional, tree(process.pid))))
        taken = time.perf_counter() - started
        if status != 0:
            said.seek(0)
            raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{said.read()[-4000:]}")
    return taken, peak >> 20


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
    """Grade the class on both sides; raise `AssertionError` where a grade differs."""
    with tempfile.TemporaryDirectory(prefix="class-") as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        for side in (ours, theirs):
            side.mkdir()
            make_course(side, given)
        nbgrader = [sys.executable, "-m", "nbgrader"]
        cost_of([*nbgrader, "generate_assignment", given.assignment], theirs)
        costs = {
            "attentively_grader": cost_of(
                [sys.executable, "-m", "attentively_grader", given.assignment], ours
            ),
            "nbgrader": cost_of([*nbgrader, "autograde", given.assignment], theirs),
        }
        found, expected = grades(ours), grades(theirs)
        forget_all_but_results(ours)
        to_record, _ = cost_of([sys.executable, "-m", "attentively_grader", given.assignment], ours)
        if grades(ours) != found:
            raise AssertionError("not the same grades when they are recorded again")
        if found != expected or len({student for student, _ in found}) != given.submissions:
            differ = sorted(key for key in found | expected if found.get(key) != expected.get(key))
            raise AssertionError(f"not the same grades: {differ[:5]}")
    seconds = {side: taken for side, (taken, _) in costs.items()}
    first, second = seconds.values()
    return {
        "name": given.name,
        "size": {"name": given.name, "submissions": given.submissions},
        "assignment": given.assignment,
        "seconds": {side: round(taken, 2) for side, taken in seconds.items()},
        "seconds_a_submission": {
            side: round(taken / given.submissions, 3) for side, taken in seconds.items()
        },
        "seconds_to_record": round(to_record, 2),
        "peak_memory_mib": {side: memory for side, (_, memory) in costs.items()},
        "ratio": round(first / second, 4),
        "goal": given.goal,
        "equal_grades": len(found),
    }


def table(rows: list[dict]) -> str:
    """Return the results as text."""
    lines = [
        f"{'class':10}{'submissions':>12}{'seconds':>10}{'nbgrader':>10}{'ratio':>8}{'times':>7}"
        f"{'MiB':>7}{'nbgrader':>10}"
    ]
    for row in rows:
        first, second = row["seconds"].values()
        lines.append(
            f"{row['size']['name']:10}{row['size']['submissions']:12}{first:10.1f}{second:10.1f}"
            f"{row['ratio']:8.3f}{1 / row['ratio']:7.1f}"
            f"{row['peak_memory_mib']['attentively_grader']:7}{row['peak_memory_mib']['nbgrader']:10}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two submissions, nothing written")
    parser.add_argument("--submissions", type=int, default=100)
    parser.add_argument("--output", type=Path, help=f"results file [{RESULTS.name}]")
    given = parser.parse_args(arguments)
    if given.quick:
        classes = [Class("tiny", "small", 2)]
    else:
        classes = [
            Class("cells", "small", given.submissions, TARGET),
            Class("chapter", CHAPTER, math.ceil(given.submissions / 4)),
        ]
    rows = [measure(each) for each in classes]
    print(table(rows))
    output = given.output or (None if given.quick else RESULTS)
    if output is not None:
        content = {
            "command": f"python benchmarks/grading.py --submissions {given.submissions}",
            "device": f"cpu ({local_pool.cores()} cores)",
            "machine": platform.machine(),
            "versions": {"python": platform.python_version(), "torch": torch.__version__},
            "target_ratio": TARGET,
            "ratio_to_nbgrader": round(1 / rows[0]["ratio"], 2),
            "rows": rows,
        }
        with replacing(output) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
