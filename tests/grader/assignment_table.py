"""Examine every assignment: the solution, the empty release and each wrong notebook.

Run as a script: ``python tests/grader/assignment_table.py [NUMBER ...] [--verbose] [--only WHO]``.
"""

import argparse
import json
import multiprocessing
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "exercises")]

import torch  # noqa: E402
from assignments import ASSIGNMENTS  # noqa: E402
from grader.examining import examined, merged  # noqa: E402

from attentively_grader.course import notebooks  # noqa: E402

torch.set_num_threads(1)


def students_of(assignment):
    """Yield each notebook: its name, the changed cells, what it should lose, and words."""
    source, released = (notebooks.read(p) for p in (assignment.source, assignment.released))
    answers = {
        cell.id: cell.source
        for cell in source.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    tests = [cell.id for cell in assignment.graded_cells]
    empty = {cell.id: cell.source for cell in released.cells if cell.id in answers}
    yield "solution", merged(source, answers), [], ""
    yield "empty", merged(source, empty), tests, "not implemented yet"
    for student, (cells, lost, words) in assignment.handed_in.items():
        yield student, merged(source, {**answers, **cells}), lost, words


def faults(outcome, assignment, lost, words):
    """Return what is not as it should be."""
    found = []
    cells = {cell.id: cell for cell in outcome.cells}
    text = json.dumps([cell.outputs for cell in outcome.cells], ensure_ascii=False)
    for test in assignment.graded_cells:
        if cells[test.id].failed != (test.id in lost):
            found.append(f"{test.id} {'fails' if cells[test.id].failed else 'passes'}")
    shown = " ".join(text.replace("\\n", " ").split())
    if words and words not in shown and " ".join(words.split()) not in shown:
        found.append(f"the words {words!r} are missing")
    return found


def shown(outcome, ids):
    for cell in outcome.cells:
        if cell.id in ids:
            print(f"--- {cell.id}")
            for output in cell.outputs:
                text = output.get("text") or "\n".join(output.get("traceback", []))
                print(str(text)[-3000:])


def only_shows(cell):
    """Tell whether a cell shows what answers do, and no other cell needs it."""
    return cell.endswith("-use") or cell == "progress-code"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", nargs="*")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--wrong", action="store_true", help="leave out the solutions")
    parser.add_argument("--quick", action="store_true", help="leave out cells that only show")
    options = parser.parse_args()
    for assignment in ASSIGNMENTS:
        if options.numbers and assignment.number not in options.numbers:
            continue
        _ = assignment.checks  # imported once, before the forks
        for student, notebook, lost, words in students_of(assignment):
            if options.wrong and student == "solution":
                continue
            if options.only and student != options.only:
                continue
            if options.quick:
                notebook["cells"] = [c for c in notebook["cells"] if not only_shows(c["id"])]
            started = time.monotonic()
            try:
                outcome = examined(notebook)
            except AssertionError as error:
                print(f"{assignment.name:32} {student:24} BROKE {str(error)[-2000:]}", flush=True)
                continue
            seconds = time.monotonic() - started
            tests = {cell.id for cell in assignment.graded_cells}
            testing = sum(cell.seconds for cell in outcome.cells if cell.id in tests)
            wrong = faults(outcome, assignment, lost, words)
            said = "ok" if not wrong else "; ".join(wrong)
            print(
                f"{assignment.name:32} {student:24} {seconds:6.2f} s "
                f"(tests {testing:5.2f})  {said}",
                flush=True,
            )
            if outcome.reason:
                print(f"     {outcome.end}: {outcome.reason}")
            if options.verbose:
                shown(outcome, {cell.id for cell in outcome.cells if cell.failed} - set(lost))


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
