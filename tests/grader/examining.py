"""Examine notebooks without a sandbox: a fork for the student's code, a fork for the tests."""

import contextlib
import json
import os
import pickle
import socket
import traceback

from IPython.core.interactiveshell import InteractiveShell

from attentively_grader.course.cell_names import described
from attentively_grader.examination.examiner import examine
from attentively_grader.examination.student_process import serve
from attentively_grader.jobs import Job, Limits


def forget_shell():
    """Forget the shell that another test, or the examiner, has left in this process."""
    if InteractiveShell._instance is not None:
        type(InteractiveShell._instance).clear_instance()


def student_process(others=()):
    """Start a process that serves; return its id and our end of the connection."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        code = 1
        try:
            ours.close()
            for each in others:
                each.close()
            forget_shell()
            serve(theirs)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    theirs.close()
    return child, ours


_returned = {}
"""What the calls of solutions returned, by the text of the solution."""


def examined(notebook, limits=None, key="job", **options):
    """Return the outcome of a merged notebook, examined in a process of its own.

    Its solution runs first. A notebook without one is its own solution.
    """
    solution = notebook["metadata"].get("solution")
    if solution is None:
        options.setdefault("solution", "returned" not in options)
    elif "returned" not in options:
        name = json.dumps(solution, default=str)
        if name not in _returned:
            _returned[name] = examined(solution, limits, "solution", **options).returned
        options["returned"] = _returned[name]
    return _in_a_process(notebook, limits, key, options)


def _in_a_process(notebook, limits, key, options):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            forget_shell()
            outcome = _examined(Job(key, notebook, limits=limits or Limits(), **options))
            content = pickle.dumps(outcome)
        except BaseException:
            content = pickle.dumps(traceback.format_exc())
        with os.fdopen(write, "wb") as file:
            file.write(content)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        content = file.read()
    os.waitpid(child, 0)
    outcome = pickle.loads(content)
    if isinstance(outcome, str):
        raise AssertionError(outcome)
    return outcome


def _examined(job):
    process, connection = student_process()
    processes = [process]

    def end():
        with contextlib.suppress(ProcessLookupError):
            os.kill(processes[-1], 9)
        _, status = os.waitpid(processes[-1], 0)
        return os.waitstatus_to_exitcode(status)

    def renew():
        code = end()
        process, connection = student_process()
        processes.append(process)
        return connection, f"exit {code}" if code >= 0 and code != 0 else ""

    outcome = examine(job, connection, renew)
    end()
    return outcome


def merged(notebook, students=None):
    """Return a source notebook as merged: solution cells are the student's, the rest not.

    With the `students` answers, its metadata contains the source as the solution.
    """
    cells = []
    for cell in notebook.cells:
        cell = dict(cell, metadata=dict(cell.metadata))
        flags = cell["metadata"].get("nbgrader", {})
        author = "student" if flags.get("solution") else "instructor"
        solution = described(cell["source"]) if author == "student" else {}
        cell["metadata"]["attentively"] = {**solution, "author": author}
        if students is not None and author == "student":
            cell["source"] = students.get(cell["id"], cell["source"])
        cells.append(cell)
    metadata = {} if students is None else {"solution": merged(notebook)}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
