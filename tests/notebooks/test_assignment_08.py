"""08_additive_attention through nbgrader itself: release, submit, grade, feedback."""

import ast
import shutil
import subprocess
import sys

import nbformat
import pytest
from notebook_tools import ROOT, execute, outputs, with_source, write

from attentively import coursework
from attentively_grader import notebooks
from attentively_grader.grading import Course, grade
from attentively_grader.release import generate, release, secret_lines

pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]

NAME = "08_additive_attention"
SOURCE = ROOT / "solutions" / NAME / f"{NAME}.ipynb"
RELEASED = ROOT / "exercises" / NAME / f"{NAME}.ipynb"

WITHOUT_TANH = """
def energies(query, keys, W, U, v):
    return ((query @ W.T).unsqueeze(1) + keys @ U.T) @ v
"""
MASK_IGNORED = """
import warnings


class AdditiveAttention(nn.Module):
    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, keys, mask=None):
        inside = self.query_projection(query).unsqueeze(1) + self.key_projection(keys)
        weights = self.energy(torch.tanh(inside)).squeeze(-1).softmax(dim=-1)
        return (weights.unsqueeze(-1) * keys).sum(dim=1), weights
"""
# Right, and with a warning on stderr, which must cost nothing.
WARNED = """
def energies(query, keys, W, U, v):
    import warnings
    warnings.warn("this is only a warning")
    return torch.tanh((query @ W.T).unsqueeze(1) + keys @ U.T) @ v
"""
CHOSEN_ON_TEST = """
from attentively.metrics import alignment_error_rate


def links(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(dim=1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def experiment(validation, test, thresholds):
    def rate(threshold):
        predicted = [links(weights, threshold) for weights, _ in test]
        return alignment_error_rate(predicted, [gold for _, gold in test])

    return min((rate(threshold), threshold) for threshold in thresholds)[::-1]


def least_looked_at(weights):
    return int(weights[:-1, :-1].sum(dim=0).argmin())
"""

# student: the cells that differ from the solution, the points, and words of the feedback
CLASS = {
    "solution": ({}, 100, "right on further inputs too"),
    "without_tanh": ({"energies": WITHOUT_TANH}, 88, "The tanh is missing"),
    "mask_ignored": (
        {"energies": WARNED, "attention": MASK_IGNORED},
        76,
        "The mask is ignored",
    ),
    "chosen_on_test": (
        {"alignment": CHOSEN_ON_TEST},
        82,
        "the threshold was chosen on the test sentences",
    ),
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Grade the whole class once."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    shutil.copytree(SOURCE.parent, root / "solutions" / NAME)
    solution, released = notebooks.read(SOURCE), notebooks.read(RELEASED)
    answers = {cell.id: cell.source for cell in solution.cells}
    for student, (changed, _, _) in CLASS.items():
        notebook = released
        for cell in released.cells:
            if cell.metadata.get("nbgrader", {}).get("solution"):
                source = changed.get(cell.id, answers[cell.id])
                notebook = with_source(notebook, cell.id, source)
        write(notebook, root / "submitted" / student / NAME / f"{NAME}.ipynb")
    write(released, root / "submitted" / "untouched" / NAME / f"{NAME}.ipynb")
    assert grade(root) == 0
    return Course(root)


def scores(course, student):
    (submission,) = course.submissions(NAME, [student])
    return course.scores(submission)


@pytest.mark.parametrize("student", CLASS)
def test_a_wrong_part_loses_its_points_and_no_others(graded, student):
    _, points, words = CLASS[student]
    assert scores(graded, student).total == points
    page = (graded.root / "feedback" / student / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert words in page
    assert f"{points:.1f} / 100.0" in page


def test_the_untouched_release_scores_nothing(graded):
    found = scores(graded, "untouched")
    assert found.total == 0
    assert sum(found.maximum.values()) == 100
    assert len(found.maximum) == 6


def test_the_points_are_those_of_the_checks(graded):
    assert scores(graded, "without_tanh").points["energies-check"] == 0
    assert scores(graded, "mask_ignored").points["attention-check"] == 0
    assert scores(graded, "mask_ignored").points["energies-check"] == 12
    assert scores(graded, "chosen_on_test").points["alignment-check"] == 0


# The release


def test_the_release_is_what_the_solutions_give():
    first, second = release(ROOT, NAME), release(ROOT, NAME)
    assert first == second
    folder = ROOT / "exercises" / NAME
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert there == first


def test_nbgraders_own_command_gives_the_same(tmp_path):
    shutil.copy(ROOT / "nbgrader_config.py", tmp_path)
    shutil.copytree(SOURCE.parent, tmp_path / "solutions" / NAME)
    (tmp_path / "solutions" / NAME / "solution.md").write_text("return batch * tgt_len\n")
    generate(tmp_path, NAME)
    folder = tmp_path / "exercises" / NAME
    assert [path.name for path in folder.iterdir()] == [RELEASED.name]
    assert (folder / RELEASED.name).read_bytes() == RELEASED.read_bytes()


def test_no_line_of_a_solution_is_released():
    secrets = secret_lines(notebooks.read(SOURCE))
    assert len(secrets) > 25
    lines = [line.strip() for c in notebooks.read(RELEASED).cells for line in c.source.splitlines()]
    assert not secrets & set(lines)
    # The broken twin: one line too many is found.
    assert secrets & {
        *lines,
        "of_the_keys = batch * src_len * hidden_dim * key_dim * (1 if keys_once else tgt_len)",
    }


# The student's side


@pytest.fixture(scope="module")
def unsolved(tmp_path_factory):
    path = tmp_path_factory.mktemp("work") / NAME / RELEASED.name
    path.parent.mkdir()
    shutil.copy(RELEASED, path)
    return execute(path)


def test_the_release_runs_to_its_end_and_each_part_says_one_line(unsolved):
    checks = [c for c in unsolved.cells if c.metadata.get("nbgrader", {}).get("grade")]
    assert len(checks) == 6
    for number, cell in enumerate(checks, start=1):
        ((name, _, shown),) = outputs(unsolved, cell.id)
        assert name == "NotImplementedYet"
        assert shown.startswith(f"Part {number} (")
        assert "not implemented yet" in shown
        assert "\n" not in shown
        assert "Traceback" not in shown
    code = [cell for cell in unsolved.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    others = [cell for cell in code if cell not in checks]
    assert not [cell.id for cell in others for o in cell.outputs if o.output_type == "error"]
    (table,) = outputs(unsolved, "progress-code")
    assert table.count("not yet") == 6
    assert "0 of 6 solved" in table


RATE_OUTSIDE = """
def rate(examples, threshold):
    predicted = [links(weights, threshold) for weights, _ in examples]
    return alignment_error_rate(predicted, [gold for _, gold in examples])


def links(weights, threshold):
    words = weights[:-1, :-1]
    linked = words >= threshold * words.max(dim=1, keepdim=True).values
    return {(j, i) for i, j in linked.nonzero().tolist()}


def experiment(validation, test, thresholds):
    best = min(thresholds, key=lambda threshold: rate(validation, threshold))
    return best, rate(test, best)


def least_looked_at(weights):
    return int(weights[:-1, :-1].sum(dim=0).argmin())
"""


def test_no_cell_takes_a_name_that_an_answer_uses(tmp_path):
    """Hint 3 of part 6 suggests the name `rate`; the progress cell calls it once more."""
    solved = with_source(notebooks.read(SOURCE), "alignment", RATE_OUTSIDE)
    ran = execute(write(solved, tmp_path / RELEASED.name))
    shown = "".join(outputs(ran, "alignment-use"))
    assert "chosen threshold" in shown
    assert "This runs once" not in shown
    table = "".join(outputs(ran, "progress-code"))
    assert "6 of 6 solved" in table


def test_locked_cells_bind_no_common_names():
    taken = set()
    for cell in notebooks.read(SOURCE).cells:
        if cell.cell_type == "code" and cell.metadata.nbgrader.get("locked"):
            for node in ast.parse(cell.source).body:
                # What a function binds inside stays there.
                inner = [node] if isinstance(node, ast.FunctionDef) else list(ast.walk(node))
                taken |= {n.name for n in inner if isinstance(n, ast.FunctionDef)}
                taken |= {
                    n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
    assert {name.split("_")[0] for name in taken} == {"faulty", "show"}


def test_progress_reads_the_same_from_its_outputs(unsolved):
    results = list(coursework._results(unsolved, ""))
    assert [result.state for result in results] == ["not yet"] * 6
    assert sum(result.points for result in results) == 100
    assert results[0].title == "Part 1 · Energies"


# nbval ignores errors in cells tagged raises-exception, so it reads copies without the tag


def nbval(notebook, folder):
    for cell in notebook.cells:
        cell.metadata.pop("tags", None)
    path = write(notebook, folder / "solution.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", folder, "-c", "/dev/null", path],
        capture_output=True,
        text=True,
        cwd=folder,
    )


def test_nbval_is_green_over_the_solution_and_red_over_a_broken_one(tmp_path):
    solution = notebooks.read(SOURCE)
    good = nbval(solution, tmp_path / "good")
    assert good.returncode == 0, good.stdout[-3000:]
    broken = with_source(notebooks.read(SOURCE), "energies", WITHOUT_TANH)
    place = [cell.id for cell in broken.cells].index("energies-check")
    broken.cells = broken.cells[: place + 1]
    bad = nbval(nbformat.from_dict(broken), tmp_path / "bad")
    assert bad.returncode == 1
    assert "The tanh is missing" in bad.stdout
