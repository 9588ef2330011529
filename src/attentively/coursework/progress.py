"""Progress: run a student's notebook and list which of its graded parts pass.

A part is a cell that nbgrader gives points to; the contents of the assignment play no role. The
instructor's grading decides the final points: it has further inputs and the original checks.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from tqdm.auto import tqdm

from attentively_grader.course import notebooks

SECONDS_A_CELL = 120
_OPEN = "`make lab` (in a class's bundle: `python3 start.py`)"


@dataclass(frozen=True)
class PartResult:
    """What became of one graded part."""

    title: str
    points: float
    state: str
    """One of solved, not yet, wrong."""
    message: str = ""

    @property
    def earned(self) -> float:
        return self.points if self.state == "solved" else 0.0


def locate(here: Path) -> Path:
    """Return the folder of the student's notebooks: `here`/work, or one that `here` lies in.

    The terminal of JupyterLab opens in the folder itself.
    """
    for folder in (here / "work", here, here.parent):
        if any(path.stem == path.parent.name for path in folder.glob("*/*.ipynb")):
            return folder
    return here / "work"


def find(work: Path, assignment: str | None) -> list[Path]:
    """Return the notebooks in `work`, or that of one assignment.

    Raises `ValueError`, which lists what there is.
    """
    there = sorted(path for path in work.glob("*/*.ipynb") if path.stem == path.parent.name)
    names = ", ".join(path.stem for path in there) or f"nothing yet: {_OPEN} copies them there"
    if assignment is None:
        if not there:
            raise ValueError(f"there is no assignment in {work}/; it holds {names}")
        return there
    assignment = assignment.rstrip("/\\")  # as a shell completes a folder's name
    chosen = [path for path in there if path.stem == assignment]
    if not chosen:
        raise ValueError(f"there is no assignment {assignment!r} in {work}/; it holds {names}")
    return chosen


def run(path: Path, show_progress: bool = False) -> list[PartResult]:
    """Run a copy of the notebook from top to bottom and tell what became of each part.

    Raises `ValueError` if the notebook cannot be read, or Python cannot be started.
    """
    notebook = read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:  # what was saved with the notebook is of an earlier run
        cell.execution_count, cell.outputs = None, []
    with tqdm(total=len(cells), unit="cell", disable=not show_progress, leave=False) as bar:
        client = NotebookClient(
            notebook,
            timeout=SECONDS_A_CELL,
            interrupt_on_timeout=True,
            kernel_name="python3",
            allow_errors=True,
            extra_arguments=["--log-level=40"],  # the kernel's errors only
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_complete=lambda cell, cell_index: bar.update(cell.cell_type == "code"),
        )
        stopped = ""
        try:
            client.execute()
        except DeadKernelError:
            stopped = "Python stopped while it ran this part or one before it (out of memory?)"
        except CellTimeoutError:
            stopped = f"this part, or one before it, took longer than {SECONDS_A_CELL} seconds"
        except RuntimeError as error:  # what Jupyter raises where a kernel does not come up
            reason = (str(error).splitlines() or ["no reason given"])[0]
            raise ValueError(f"Python could not be started for {path}: {reason}") from None
    return list(_results(notebook, stopped))


def read(path: Path) -> NotebookNode:
    """Read a student's notebook; the error says what to do, not what the parser met."""
    try:
        return notebooks.read(path)
    except ValueError:
        raise ValueError(
            f"{path} is not a readable notebook: save it again in JupyterLab, or move it away: "
            f"{_OPEN} copies a fresh one"
        ) from None


def _results(notebook: NotebookNode, stopped: str) -> Iterator[PartResult]:
    title, told = "", False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^## +(.+?)(?: \([^()]*points[^()]*\))?$", cell.source, re.M)
            title = headings[-1] if headings else title
        flags = cell.metadata.get("nbgrader", {})
        if not flags.get("grade"):
            continue
        points = float(flags.get("points", 0))
        name = title or flags.get("grade_id", "")
        if stopped and not cell.execution_count:
            yield PartResult(name, points, "wrong", "" if told else stopped)
            told = True
            continue
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if not errors:
            yield PartResult(name, points, "solved")
        elif errors[0].ename == "NotImplementedYet":
            yield PartResult(name, points, "not yet")
        elif errors[0].ename == "CheckFailed":
            yield PartResult(name, points, "wrong", errors[0].evalue.partition("\n")[2])
        else:
            yield PartResult(name, points, "wrong", f"  {errors[0].ename}: {errors[0].evalue}")


def report(assignment: str, results: Sequence[PartResult]) -> str:
    """Return a table of the parts, and under it what the checks say."""
    if not results:
        return f"{assignment}: the notebook has no graded part; is it the right one?"
    width = max(len(result.title) for result in results)
    lines = [assignment]
    for result in results:
        points = f"{result.earned:g}/{result.points:g}"
        lines.append(f"  {result.title:{width}}  {result.state:8} {points:>6}")
    total = f"{sum(r.earned for r in results):g}/{sum(r.points for r in results):g}"
    lines.append(f"  {'':{width}}  {'':8} {total:>6}")
    for result in results:
        if result.message:
            lines += ["", result.title, result.message]
    return "\n".join(lines)
