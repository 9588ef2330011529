"""Report a student's points to GitHub Actions.

The points appear as a notice and as a table in the summary of the run. They come from the open
checks in the student's own repository, so they are information for the student, not a grade.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tabulate import tabulate

from attentively.coursework.part_result import PartResult


def report_to_github(reports: Mapping[str, Sequence[PartResult]]) -> bool:
    """Report the parts of each assignment; return whether every part passes.

    Outside GitHub Actions, without the variable ``GITHUB_STEP_SUMMARY``, only the notices are
    printed.
    """
    for assignment, parts in reports.items():
        total = f"{sum(p.earned for p in parts):g}/{sum(p.points for p in parts):g}"
        print(f"::notice title={assignment}::{total} points of the open checks")
        if target := os.environ.get("GITHUB_STEP_SUMMARY"):
            rows = [(part.title, part.state, f"{part.earned:g}/{part.points:g}") for part in parts]
            table = tabulate(
                [*rows, ("total", "", total)], (assignment, "result", "points"), "pipe"
            )
            with Path(target).open("a", encoding="utf-8") as file:
                file.write(f"{table}\n\n")
    return all(parts and all(p.state == "solved" for p in parts) for parts in reports.values())
