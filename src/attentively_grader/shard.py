"""Run a share of a class and keep the results: what one of several machines does.

Each takes the submissions that are its own, by a hash of the student's name, runs what no result
is known of, and records nothing. When all have ended, grading as usual finds the results and only
records. A share may be run twice, or by two at once: a result is a file that is there whole or not
at all, under a name that says what was run.
"""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from attentively_grader.course.course import Course, CourseError, Submission
from attentively_grader.intake.submissions import printable
from attentively_grader.intake.tasks import Options, PoolFactory, TaskPlanner


@dataclass(frozen=True)
class Shard:
    """One of several shares of a class."""

    number: int
    """From 1."""
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``3/8``; `CourseError` says how to write it."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise CourseError(f"--shard {text}: write 1/8 for the first of eight shares, up to 8/8")
        return cls(int(number), int(of))

    def has(self, submission: Submission) -> bool:
        """Tell whether a submission is in this share, the same whoever else hands in."""
        digest = hashlib.sha256(submission.student.encode("utf-8", "surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def run(
    course: Course,
    chosen: Sequence[Submission],
    shard: Shard,
    options: Options,
    pool_factory: PoolFactory,
) -> int:
    """Run a share of the submissions; return the exit status.

    0: all of it has a result. 1: something was set aside, or its result could not be kept.
    """
    own = [submission for submission in chosen if shard.has(submission)]
    failed: dict[Submission, str] = {}

    def put_aside(submission: Submission, why: str) -> None:
        failed[submission] = why
        print(f"{printable(str(submission))}: SET ASIDE: {why}", flush=True)

    planner = TaskPlanner(course, options, put_aside)
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        scratch = Path(folder)
        tasks = [*planner.tasks(own, scratch, gradebook=False)]
        missing = [task for task in tasks if task.missing]
        done = 0
        for task, why in planner.run(missing, pool_factory, scratch):
            if why is not None:
                failed[task.submission] = why
            if not task.missing:
                done += 1
                seconds = sum(outcome.seconds for outcome in task.outcomes.values())
                what = f"NOT KEPT: {why}" if why else f"run ({seconds:.1f} s)"
                name = printable(str(task.submission))
                print(f"[{done}/{len(missing)}] {name}: {what}", flush=True)
    known = len(tasks) - len(missing)
    print(f"share {shard}: {len(own)} of {len(chosen)} submissions")
    print(f"{done} run, {known} known before, {len(failed)} failed")
    print("Nothing is recorded yet: when all shares have run, grade without --shard")
    return 1 if failed else 0
