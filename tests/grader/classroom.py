"""A small course, submissions of all kinds, and a worker pool that only executes them."""

import contextlib
import io
import json
import shutil

import nbformat
from notebook_tools import ROOT, small_notebook, write

from attentively_grader.coordinator import grade
from attentively_grader.course import notebooks
from attentively_grader.course.course import Course
from attentively_grader.course.release import release
from attentively_grader.intake.tasks import Options
from attentively_grader.jobs import CellOutcome, Outcome

RIGHT_1 = "def part_1():\n    return 41"
RIGHT_2 = "def part_2():\n    return 'another secret'"


class Stub:
    """Runs the merged notebook here and now; knows nothing of hostile code."""

    def __init__(self, outcomes=None):
        self.ran, self.solutions = [], []
        self.outcomes = outcomes or {}

    def __call__(self, course, prepared):
        return contextlib.nullcontext(self)

    def run(self, jobs):
        for job in jobs:
            (self.solutions if job.solution else self.ran).append(job.key)
            student = job.key.partition(", ")[2].partition(":")[0]
            change = self.outcomes.get(student)
            outcome = executed(job.notebook)
            yield job, outcome if change is None else change(outcome)


def executed(notebook):
    """Run the cells one after the other in one namespace."""
    names, cells = {"__name__": "__main__"}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        shown, outputs, failed = io.StringIO(), [], False
        try:
            with contextlib.redirect_stdout(shown):
                exec(compile(cell["source"], cell["id"], "exec"), names)
        except BaseException as error:  # as a student's code raises
            failed = True
            said = {"ename": type(error).__name__, "evalue": str(error)}
            outputs = [{"output_type": "error", **said, "traceback": [str(error)]}]
        if shown.getvalue():
            stream = {"output_type": "stream", "name": "stdout", "text": shown.getvalue()}
            outputs.insert(0, stream)
        cells.append(CellOutcome(cell["id"], outputs, failed))
    return Outcome(cells, seconds=0.1)


class Classroom:
    """A course in a folder, with one small assignment."""

    def __init__(self, root, notebook=None, name="small"):
        self.root, self.name = root, name
        shutil.copy(ROOT / "nbgrader_config.py", root)
        (root / "src").mkdir(exist_ok=True)  # which is named there
        write(notebook or small_notebook(), root / "solutions" / name / f"{name}.ipynb")
        path = root / "released.ipynb"
        path.write_bytes(release(root, name)[f"{name}.ipynb"])
        self.released = notebooks.read(path)
        path.unlink()

    def answered(self, first=RIGHT_1, second=RIGHT_2):
        """Return the release as plain data, with these answers."""
        content = json.loads(nbformat.writes(self.released))
        for cell in content["cells"]:
            source = {"part-1": first, "part-2": second}.get(cell["id"])
            if source is not None:
                cell["source"] = source
        return content

    def folder(self, student):
        return self.root / "submitted" / student / self.name

    def hand_in(self, student, content=None, name=None):
        """Write a submission: plain data, or bytes; without any, right answers of one's own."""
        path = self.folder(student) / (name or f"{self.name}.ipynb")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            own = self.answered(first=f"{RIGHT_1}  # by {student}")
            content = json.dumps(content if content is not None else own).encode()
        path.write_bytes(content)
        return path

    def grade(self, *students, stub=None, **options):
        """Grade with a stub; return the exit status."""
        options = Options(**options)
        return grade(self.root, None, students, options=options, pool_factory=stub or Stub())

    def points(self, student):
        """Return the points by part; None for one who is not in the gradebook."""
        scores = Course(self.root).scores(self.name).get(student)
        return None if scores is None else list(scores.points.values())

    def page(self, student):
        path = self.root / "feedback" / student / self.name / f"{self.name}.html"
        return path.read_text(encoding="utf-8")

    def autograded(self, student):
        path = self.root / "autograded" / student / self.name / f"{self.name}.ipynb"
        return notebooks.read(path)

    def state(self):
        """Return all that a run may change, but for when: grades, notebooks, pages."""
        folders = [self.root / name for name in ("autograded", "feedback")]
        files = {
            str(path.relative_to(self.root)): path.read_bytes()
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.is_file() and ".graded" not in path.parts
        }
        return Course(self.root).scores(self.name), files


def cell(content, name):
    """Return the cell with this id of a notebook as plain data."""
    (found,) = [each for each in content["cells"] if each["id"] == name]
    return found
