"""Worker pools for tests: the stub notebook's functions, and few imports."""

import shutil
import time
from pathlib import Path

import pytest

from attentively_grader.jobs import Job, Limits
from attentively_grader.sandbox import bubblewrap
from attentively_grader.workforce import worker_pool

try:
    HAVE = bubblewrap.find_sandbox()
    REASON = ""
except bubblewrap.NoSandboxError as error:
    HAVE, REASON = None, str(error)

needs_sandbox = pytest.mark.skipif(HAVE is None, reason=REASON)


def pool(folder, workers=2, **options):
    """Return a worker pool that runs stub notebooks."""
    stub = Path(folder) / "stub"
    stub.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("stub_notebook.py"), stub)
    options = {"warm": (), "importable": [stub]} | options
    return worker_pool.WorkerPool(
        workers, student="stub_notebook:serve", examiner="stub_notebook:examine", **options
    )


def job(key, *cells, files=None, **limits):
    """Return a job of cells: text runs in the student's process, ("here", text) in the other."""
    content = [
        {"id": str(number), "source": cell}
        if isinstance(cell, str)
        else {"id": str(number), "source": cell[1], "here": True}
        for number, cell in enumerate(cells)
    ]
    limits = {"seconds": 20.0, "cell_seconds": 5.0, "memory_mib": 512, "file_mib": 32} | limits
    return Job(key, {"cells": content}, files=files, limits=Limits(**limits))


def texts(outcome):
    """Return what each cell showed."""
    return [cell.outputs[0]["text"] for cell in outcome.cells]


def wait_for_the_end(processes):
    """Refuse processes that are still there after five seconds."""
    for _ in range(100):
        if not any(Path(f"/proc/{process}").exists() for process in processes):
            return
        time.sleep(0.05)
    raise AssertionError(f"still there: {processes}")
