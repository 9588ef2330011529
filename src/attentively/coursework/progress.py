"""Progress: run a student's notebook and list which of its graded parts pass.

A part is a cell with points in nbgrader; the topic of the assignment plays no role. The final
points come from the instructor's grading, which runs the original checks on further inputs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attentively.coursework import progress_cache
from attentively.coursework.part_result import PartResult
from attentively.coursework.work_folder import OPEN

SECONDS_A_CELL = 120


def results(
    path: Path,
    again: bool = False,
    show_progress: bool = False,
    environment: str | None = None,
) -> list[PartResult]:
    """Return the result of each part, from the cache if nothing has changed since the last run.

    With `again`, the notebook runs in any case. For several notebooks, compute the hash
    `environment` once. Raises `ValueError` as `run` does.
    """
    environment = environment or progress_cache.environment()
    kept = None if again else progress_cache.find(path, environment)
    if kept is not None:
        return kept
    before = progress_cache.cells(path)
    found = run(path, show_progress)
    progress_cache.keep(path, before, environment, found)
    return found


def run(path: Path, show_progress: bool = False) -> list[PartResult]:
    """Run a copy of the notebook from top to bottom and return the result of each part.

    Raises `ValueError` if the notebook cannot be read or no Python kernel starts.
    """
    # Imported here, because these packages take longer than to read results from the cache.
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from tqdm.auto import tqdm

    notebook = read(path)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:  # discard the saved outputs of an earlier run
        cell.execution_count, cell.outputs = None, []
    with tqdm(total=len(cells), unit="cell", disable=not show_progress, leave=False) as bar:
        client = NotebookClient(
            notebook,
            timeout=SECONDS_A_CELL,
            interrupt_on_timeout=True,
            kernel_name="python3",
            allow_errors=True,
            extra_arguments=["--log-level=40"],  # log only errors of the kernel
            resources={"metadata": {"path": str(path.parent)}},
            on_cell_complete=lambda cell, cell_index: bar.update(cell.cell_type == "code"),
        )
        stopped = ""
        try:
            client.execute()
        except DeadKernelError:
            stopped = (
                "  The Python kernel died in this part or an earlier one. Does the code end the "
                "process, or need too much memory?"
            )
        except CellTimeoutError:
            stopped = (
                f"  A cell of this part or an earlier one ran longer than {SECONDS_A_CELL} seconds."
            )
        except RuntimeError as error:  # raised by Jupyter if no kernel starts
            reason = (str(error).splitlines() or ["no reason given"])[0]
            raise ValueError(f"no Python kernel starts for {path}: {reason}") from None
    return list(_results(notebook, stopped))


def read(path: Path) -> Any:
    """Read a student's notebook; the error says what to do, not what the parser found."""
    from attentively_grader.course import notebooks

    try:
        return notebooks.read(path)
    except ValueError:
        raise ValueError(
            f"{path} is not a readable notebook. Save it again in JupyterLab. If that does not "
            f"help, move the file away and run {OPEN}, which copies the original"
        ) from None


def _results(notebook: Any, stopped: str) -> Iterator[PartResult]:
    from attentively_grader.course import notebooks

    titles, reported = notebooks.part_titles(notebook), False
    offline = any(
        output.get("ename") == "DownloadError"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
    )
    for cell in notebook.cells:
        flags = cell.metadata.get("nbgrader", {})
        if not flags.get("grade"):
            continue
        points = float(flags.get("points", 0))
        name = titles[notebooks.grade_id(cell)]
        if stopped and not cell.execution_count:
            yield PartResult(name, points, "wrong", "" if reported else stopped, stopped=True)
            reported = True
            continue
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if not errors:
            yield PartResult(name, points, "solved")
        elif errors[0].ename == "NotImplementedYet":
            yield PartResult(name, points, "not yet")
        elif errors[0].ename == "CheckFailed":
            message = errors[0].evalue.partition("\n")[2]
            yield PartResult(name, points, "wrong", message, stopped=offline)
        else:
            message = f"  {errors[0].ename}: {errors[0].evalue}"
            yield PartResult(name, points, "wrong", message, stopped=offline)


def report(assignment: str, results: Sequence[PartResult]) -> str:
    """Return a table of the parts, followed by the messages of the checks."""
    if not results:
        return f"{assignment}: the notebook has no graded parts. Is it the right notebook?"
    width = max(len(result.title) for result in results)
    lines = [assignment, f"  {'':{width}}  {'result':8} {'points':>6}"]
    for result in results:
        points = f"{result.earned:g}/{result.points:g}"
        lines.append(f"  {result.title:{width}}  {result.state:8} {points:>6}")
    total = f"{sum(r.earned for r in results):g}/{sum(r.points for r in results):g}"
    lines.append(f"  {'total':{width}}  {'':8} {total:>6}")
    for result in results:
        if result.message:
            lines += ["", result.title, result.message]
    return "\n".join(lines)


def course_total(reports: Sequence[Sequence[PartResult]]) -> str:
    """Return a line with the points of all assignments together."""
    parts = [result for results in reports for result in results]
    total = f"{sum(part.earned for part in parts):g}/{sum(part.points for part in parts):g}"
    return f"course total: {total} points in {len(reports)} assignments"
