"""The examiner's line to the workforce: a fresh student's process, and why the last one ended."""

import importlib
import inspect
import socket
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attentively_grader.outcome import End, Job, Limits, Outcome
from attentively_grader.passing import receive, send

EXAMINE = "attentively_grader.examiner:examine"


class Desk:
    """What the examiner of one job may ask of the workforce."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line

    def student(self) -> socket.socket:
        """Return a connection to a new student's process; the one before is ended."""
        send(self.line, {"ask": "student"})
        answer, files = receive(self.line)
        if not files:
            raise RuntimeError(answer["failed"])
        return socket.socket(fileno=files[0])

    def why(self) -> tuple[End, str]:
        """Return how the student's process ended, and a sentence for the student."""
        send(self.line, {"ask": "why"})
        answer, _ = receive(self.line)
        return answer["end"], answer["reason"]


def examine(line: socket.socket) -> None:
    """In the examiner's process: take the job, examine it, hand the outcome back."""
    message, _ = receive(line)
    try:
        job = job_from(message["job"])
        desk = Desk(line)
        module, _, name = message["examine"].partition(":")
        function = getattr(importlib.import_module(module), name)
        more = {"desk": desk} if "desk" in inspect.signature(function).parameters else {}
        outcome: Outcome = function(job, desk.student(), **more)
        send(line, {"outcome": outcome.to_dict()})
    except Exception:
        send(line, {"failed": traceback.format_exc()[-4000:]})


def job_to(job: Job) -> dict[str, Any]:
    """Return a job as plain data, without its files."""
    return {"key": job.key, "notebook": job.notebook, "limits": asdict(job.limits)}


def job_from(content: dict[str, Any]) -> Job:
    """Return the job; its files lie in the working folder."""
    limits = Limits(**content["limits"])
    return Job(content["key"], content["notebook"], files=Path.cwd(), limits=limits)
