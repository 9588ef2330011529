"""Stands in for a notebook in the tests of processes: cells are executed, their `r` is shown.

A test copies this file into a folder of its own, from which sandboxed processes import it.
"""

import json
import os
import sys

from attentively_grader.jobs import CellOutcome, Outcome


def serve(connection):
    """Execute the source on each line; answer with the text of `r`, or of the error."""
    lines = connection.makefile("rwb")
    space = {"connection": connection}
    for line in lines:
        space["r"] = None
        try:
            exec(json.loads(line), space)
            answer = repr(space["r"])
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        lines.write(json.dumps(answer[:10_000]).encode() + b"\n")
        lines.flush()


def examine(job, connection, renew, report):
    """Send each cell; a cell during which the process ends has failed, and a new one goes on.

    Cells of the instructor are executed here.
    """
    outcomes = []
    lines = connection.makefile("rwb")
    for cell in job.notebook["cells"]:
        if cell.get("here"):
            space = {"sys": sys, "os": os}
            exec(cell["source"], space)
            outcomes.append(CellOutcome(cell["id"], [{"text": repr(space.get("r"))}]))
            continue
        if lines is None:
            outcomes.append(CellOutcome(cell["id"], [{"text": "not run"}], failed=True))
            continue
        try:
            connection.settimeout(job.limits.cell_seconds)
            lines.write(json.dumps(cell["source"]).encode() + b"\n")
            lines.flush()
            text = json.loads(lines.readline())
            outcomes.append(CellOutcome(cell["id"], [{"text": text}]))
        except (ValueError, OSError):  # nothing came, or not in time
            connection, why = renew()
            lines = connection.makefile("rwb") if connection is not None else None
            outcomes.append(CellOutcome(cell["id"], [{"text": why}], failed=True))
    return Outcome(outcomes)
