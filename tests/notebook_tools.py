"""Make, change and run notebooks in tests."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attentively_grader.course import notebooks

ROOT = Path(__file__).resolve().parents[1]


def flags(name, *, grade=False, solution=False, locked=False, points=None):
    """Return a cell's nbgrader metadata."""
    values = {"grade": grade, "grade_id": name, "locked": locked, "solution": solution}
    values |= {"schema_version": 3, "task": False}
    return values if points is None else values | {"points": points}


def small_part(number, points, solution, check, hidden, tags=("original", "raises-exception")):
    """Return the cells of a part that needs nothing installed."""
    hints = "\n".join("<details><summary>Hint</summary>\n\nThink.\n</details>" for _ in range(3))
    heading = f"## Part {number} · Number ({points} points, about 1 minutes, easy)"
    body = "\n".join(f"    {line}" for line in solution.splitlines())
    marked = f"    ### BEGIN SOLUTION\n{body}\n    ### END SOLUTION"
    tests = f"{check}\n### BEGIN HIDDEN TESTS\n{hidden}\n### END HIDDEN TESTS"
    return [
        new_markdown_cell(f"{heading}\n\nWrite it.\n\n{hints}", id=f"text-{number}"),
        new_code_cell(
            f"def part_{number}():\n{marked}",
            id=f"part-{number}",
            metadata={"nbgrader": flags(f"part-{number}", solution=True)},
        ),
        new_code_cell(
            tests,
            id=f"check-{number}",
            metadata={
                "nbgrader": flags(f"check-{number}", grade=True, locked=True, points=points),
                "tags": list(tags),
            },
        ),
    ]


def small_notebook():
    """Return a source notebook of two parts, of 60 and 40 points."""
    return new_notebook(
        cells=[
            new_markdown_cell("# Small", id="title"),
            *small_part(1, 60, "secret_answer = 41\nreturn secret_answer", "assert part_1() > 0",
                        "assert part_1() == 41, 'not forty-one'"),
            *small_part(2, 40, "return 'another secret'", "assert part_2()",
                        "assert part_2() == 'another secret'"),
        ],
        metadata=notebooks.KERNEL,
    )  # fmt: skip


def write(notebook, path):
    """Write a notebook, and the folder that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def with_source(notebook, cell_id, source):
    """Return a copy of the notebook in which one cell says something else."""
    copy = nbformat.from_dict(notebook)
    copy = nbformat.reads(nbformat.writes(copy), as_version=4)
    (cell,) = [cell for cell in copy.cells if cell.id == cell_id]
    cell.source = source
    return copy


def execute(path):
    """Run a notebook to its end, whatever fails, and return it with its outputs."""
    notebook = notebooks.read(path)
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        allow_errors=True,
        extra_arguments=["--log-level=40"],
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    return notebook


def outputs(notebook, cell_id):
    """Return a cell's outputs: text of streams, and errors as (name, value, traceback)."""
    (cell,) = [cell for cell in notebook.cells if cell.id == cell_id]
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append(output.text)
        elif output.output_type == "error":
            found.append((output.ename, output.evalue, "\n".join(output.traceback)))
    return found


def faults_of_release(ran):
    """Return what is wrong with a release that was run as it is, with no part solved.

    Each check says in one line that its part is not implemented yet, and no other cell fails.
    """
    found = []
    code = [cell for cell in ran.cells if cell.cell_type == "code"]
    checks = [cell for cell in code if cell.metadata.get("nbgrader", {}).get("grade")]
    found += [f"{cell.id} did not run" for cell in code if not cell.execution_count]
    for number, cell in enumerate(checks, start=1):
        errors = [each for each in outputs(ran, cell.id) if isinstance(each, tuple)]
        if [name for name, _, _ in errors] != ["NotImplementedYet"] or len(cell.outputs) != 1:
            found.append(f"{cell.id} shows {cell.outputs}")
            continue
        ((_, said, shown),) = errors
        for text in (said, shown):
            if not text.startswith(f"Part {number} (") or "not implemented yet" not in text:
                found.append(f"{cell.id} says {text!r}")
            if "\n" in text or "Traceback" in text:
                found.append(f"{cell.id} says more than a line: {text!r}")
    found += [f"{cell.id} fails" for cell in code if cell not in checks and failed(cell)]
    return found + faults_of_progress(ran, 0)


def failed(cell):
    """Tell whether a cell that was run ended in an error."""
    return any(output.output_type == "error" for output in cell.get("outputs", []))


def faults_of_progress(ran, solved):
    """Return what is wrong with the last table of a notebook in which so many parts are solved."""
    parts = sum(bool(c.metadata.get("nbgrader", {}).get("grade")) for c in ran.cells)
    table = "".join(map(str, outputs(ran, "progress-code")))  # a slow cell has several streams
    found = []
    if f"{solved} of {parts} solved" not in table:
        found.append(f"the progress table does not say {solved} of {parts} solved: {table}")
    if table.count("not yet") != parts - solved:
        found.append(f"the progress table does not say 'not yet' {parts - solved} times: {table}")
    return found
