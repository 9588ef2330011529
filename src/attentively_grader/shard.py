"""Run a share of a class on one of several machines, and keep the results.

A hash of the student's name assigns each submission to one share. A share runs the submissions
without a known result and records nothing. After all shares have ended, an ordinary run finds the
results and records them. A share may run twice, or on two machines at once, because each result is
a file that is written atomically under a name that identifies its input.
"""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from attentively_grader.course.course import Course, CourseError, Submission
from attentively_grader.intake import result_store
from attentively_grader.intake.self_test import report_lines
from attentively_grader.intake.submissions import printable
from attentively_grader.intake.tasks import Options, PoolFactory, TaskPlanner


@dataclass(frozen=True)
class Shard:
    """One of several shares of a class."""

    number: int
    """The number of this share, starting at 1."""
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text such as ``3/8``; raise `CourseError` if it is malformed."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise CourseError(f"--shard {text}: expected I/N with 1 ≤ I ≤ N, for example 1/8")
        return cls(int(number), int(of))

    def has(self, submission: Submission) -> bool:
        """Return whether a submission belongs to this share, whatever the other submissions."""
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

    0: every submission has a result. 1: one was set aside, or its result could not be stored.
    """
    own = [submission for submission in chosen if shard.has(submission)]
    failed: dict[Submission, str] = {}

    def put_aside(submission: Submission, why: str) -> None:
        failed[submission] = why
        print(f"{printable(str(submission))}: SET ASIDE: {why}", flush=True)

    planner = TaskPlanner(course, options, put_aside)
    with ExitStack() as stack:
        scratch = stack.enter_context(result_store.scratch_folder(course.kept))
        planner.prepare(own, scratch, gradebook=False)
        pool = stack.enter_context(planner.pool(pool_factory))
        for test in planner.self_tests(pool, scratch):
            print(*report_lines(test, options.even_so), sep="\n", flush=True)
        stopped = [each for each in own if each.assignment in planner.stopped]
        tasks = [*planner.tasks(own)]
        missing = [task for task in tasks if task.missing]
        done = 0
        for task, why in planner.run(missing, pool, scratch, put_aside):
            if why is not None:
                failed[task.submission] = why
            if not task.missing:
                done += 1
                seconds = sum(outcome.seconds for outcome in task.outcomes.values())
                what = f"NOT STORED: {why}" if why else f"run ({seconds:.1f} s)"
                name = printable(str(task.submission))
                print(f"[{done}/{len(missing)}] {name}: {what}", flush=True)
    known = len(tasks) - len(missing)
    print(f"Share {shard}: {len(own)} of {len(chosen)} submissions")
    print(f"{done} run, {known} with a known result, {len(failed)} failed")
    if stopped:
        print(f"{len(stopped)} not run, because the solution does not earn every point")
    print("Nothing is recorded yet. After all shares have run, grade without --shard.")
    return 1 if failed or stopped else 0
