"""A class is graded by a Dask cluster of several workers, whatever dies on the way.

Scheduler and workers are started by their own commands, as an instructor or SLURM starts them.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import time

import distributed
import pytest
from distributed.comm import CommClosedError
from grader.classroom import RIGHT_1, Classroom, Stub
from grader.stub_pool import needs_sandbox

from attentively_grader.course.course import Course, CourseError
from attentively_grader.jobs import Job, Outcome
from attentively_grader.workforce import dask_cluster as clusters

pytestmark = [
    pytest.mark.notebook,
    pytest.mark.timeout(600),
    needs_sandbox,
]

SLOWLY = "import time\ntime.sleep(1)\n\n\n"
ENDS = f"{RIGHT_1}\n\n\nimport os\nos._exit(3)"
WORKERS = 2


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.file = folder / "scheduler.json"

    def start(self, program, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *options]
        log = open(self.folder / f"{program}-{len(self.processes)}.log", "w")  # noqa: SIM115
        with log:
            process = subprocess.Popen(
                [*command, "--no-dashboard"],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        self.processes.append(process)
        return process

    def __enter__(self):
        self.start("scheduler", "--port", "0", "--scheduler-file", str(self.file))
        deadline = time.monotonic() + 60
        while not self.file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.address = json.loads(self.file.read_text())["address"]
        for _ in range(WORKERS):
            self.start("worker", self.address, "--nthreads", "1", "--memory-limit", "0")
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def inside(self, code):
        """Run code with a `client` in a process of its own; return what it prints."""
        program = f"""
        from distributed import Client
        client = Client({self.address!r}, timeout=30)
        client.wait_for_workers({WORKERS}, timeout=60)
        """
        program = textwrap.dedent(program) + textwrap.dedent(code)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


KINDS = ("right", "wrong", "ends", "missing")


def classroom(folder, kinds=KINDS):
    """Return a class in which there are two students of each kind."""
    room = Classroom(folder)
    for number, kind in enumerate(kinds * 2):
        first = SLOWLY + RIGHT_1 + f"  # {number}"
        second = "def part_2():\n    return 'wrong'"
        answers = {
            "right": room.answered(first),
            "wrong": room.answered(first, second),
            "ends": room.answered(SLOWLY + ENDS + f"  # {number}"),
            "missing": room.answered(SLOWLY + f"# {number}"),
        }
        room.hand_in(f"{kind}-{number}", answers[kind])
    return room


def command(room, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "attentively_grader", "small", *options],
        cwd=room.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def points(room):
    scores = Course(room.root).scores("small")
    return {student: list(each.points.values()) for student, each in scores.items()}


EXPECTED = {"right": [60, 40], "wrong": [60, 0], "ends": [0, 40], "missing": [0, 40]}


@pytest.fixture(scope="module")
def graded(cluster, tmp_path_factory):
    """Return a class that the cluster has graded while one of its workers died."""
    room = classroom(tmp_path_factory.mktemp("course"))
    grading = command(room, "--scheduler", cluster.address)
    assert "the solution earns 100 of 100 points" in grading.stdout.readline()
    first = grading.stdout.readline()
    assert first.startswith("[1/8] small, "), first + grading.stderr.read()
    print_pid = "print(list(client.run(__import__('os').getpid).values())[0])"
    os.kill(int(cluster.inside(print_pid)), signal.SIGKILL)
    printed, errors = grading.communicate()
    assert grading.returncode == 0, printed + errors
    return room


@pytest.mark.slow
def test_a_worker_dies_and_the_class_is_graded(graded):
    found = points(graded)
    assert len(found) == 8
    assert found == {student: EXPECTED[student.partition("-")[0]] for student in found}
    stub = Stub()
    assert graded.grade(stub=stub) == 0
    assert stub.ran == []


@pytest.mark.slow
def test_the_workers_let_go_of_what_they_kept_warm(cluster, graded):
    kept = """
    import time
    def kept():
        from attentively_grader.workforce import dask_cluster
        return len(dask_cluster._kept)
    deadline = time.monotonic() + 20
    while any(client.run(kept).values()) and time.monotonic() < deadline:
        time.sleep(0.5)
    print(sum(client.run(kept).values()))
    """
    assert cluster.inside(kept) == "0"


def test_a_worker_that_would_grade_otherwise_is_refused(cluster):
    changes = {
        "environment=(('python', '2.7.18'),)": "has Python 3",
        "environment=(('packages', 'others'),)": "has other versions of packages",
        "folders=(('/nowhere', 'hash'),)": "has no folder /nowhere with the same files",
    }
    code = f"""
    from dataclasses import replace
    from attentively_grader.workforce.dask_cluster import Cluster, Terms
    from attentively_grader.course.course import CourseError
    from attentively_grader.jobs import Job
    for changed in {", ".join(f"dict({change})" for change in changes)}:
        terms = replace(Terms((), (), (), True), **changed)
        try:
            print(list(Cluster(client, terms).run([Job("one", {{"cells": []}})])))
        except CourseError as error:
            print("refused:", error)
    """
    printed = cluster.inside(code).splitlines()
    for line, said in zip(printed, changes.values(), strict=True):
        assert line.startswith("refused: the worker at tcp://")
        assert said in line


def test_files_beside_a_notebook_travel_along(tmp_path):
    from attentively_grader.jobs import Job
    from attentively_grader.workforce.dask_cluster import packed, unpacked

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("one two")
    with unpacked(packed(Job("key", {"cells": []}, files=tmp_path))) as job:
        assert (job.key, job.notebook) == ("key", {"cells": []})
        assert (job.files / "data" / "words.txt").read_text() == "one two"
        place = job.files
    assert not place.exists()
    with unpacked(packed(Job("key", {"cells": []}))) as job:
        assert list(job.files.iterdir()) == []


def test_files_travel_to_a_python_without_filters_of_archives(tmp_path, monkeypatch):
    """Python 3.11.3 and earlier have neither `tarfile.data_filter` nor the argument `filter`."""
    from attentively_grader.workforce.dask_cluster import packed, unpacked

    extract = tarfile.TarFile.extractall
    monkeypatch.setattr(tarfile.TarFile, "extractall", lambda tar, path: extract(tar, path))
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "words.txt").write_text("one two")
    with unpacked(packed(Job("key", {"cells": []}, files=tmp_path))) as job:
        assert (job.files / "words.txt").read_text() == "one two"


def test_without_a_scheduler_it_says_how_to_start_one(tmp_path):
    room = Classroom(tmp_path)
    room.hand_in("anna")
    grading = command(room, "--scheduler", "tcp://127.0.0.1:9")
    _, errors = grading.communicate()
    assert grading.returncode == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in errors
    assert "Start one with `dask scheduler`" in errors


class Vanishing:
    """A client, or a future of one, whose scheduler goes when it is asked for one thing."""

    loop = status = key = None

    def __init__(self, at):
        self.at = at

    def _asked(self, what, answer):
        if what == self.at:
            raise CommClosedError("in <TCP (closed)>: Connection reset by endpoint")
        return answer

    def nthreads(self):
        return self._asked("threads", {"one": 1})

    def submit(self, *_, **__):
        future = self._asked("submit", Vanishing(self.at))
        future.status = "error" if self.at == "exception" else "finished"
        return future

    def result(self):
        return self._asked("result", json.dumps(Outcome([]).to_dict()))

    def exception(self):
        return self._asked("exception", None)

    def release(self):
        pass


@pytest.mark.parametrize("moment", ["threads", "submit", "result", "exception"])
def test_at_whatever_moment_the_scheduler_goes_it_is_said(moment, monkeypatch):
    class Ended(list):
        def __init__(self, loop):
            super().__init__()

        add = list.append

        def __next__(self):
            return self.pop()

    monkeypatch.setattr(distributed, "as_completed", Ended)
    jobs = [Job("small, ada", {"cells": []})]
    terms = clusters.Terms((), (), (), sandboxed=True)
    with pytest.raises(
        CourseError, match=r"the Dask scheduler has ended\. All results so far are kept"
    ):
        list(clusters.Cluster(Vanishing(moment), terms).run(jobs))
    ((job, outcome),) = clusters.Cluster(Vanishing("never"), terms).run(jobs)
    assert (job.key, outcome.end) == ("small, ada", "complete")


@pytest.mark.slow
def test_when_the_scheduler_dies_what_was_run_is_kept(cluster, tmp_path):
    """A later run continues; here it has no cluster, which ends with this, the last test."""
    room = classroom(tmp_path, ("right", "wrong", "missing"))  # the stub runs them in this process
    grading = command(room, "--scheduler", cluster.address)
    assert "the solution earns 100 of 100 points" in grading.stdout.readline()
    assert grading.stdout.readline().startswith("[1/6] small, ")
    os.killpg(cluster.processes[0].pid, signal.SIGKILL)
    printed, errors = grading.communicate(timeout=120)
    assert grading.returncode == 2, printed + errors
    assert "the Dask scheduler has ended. All results so far are kept" in errors
    stub = Stub()
    assert room.grade(stub=stub) == 0
    assert stub.solutions == []
    assert 0 < len(stub.ran) < 6
    found = points(room)
    assert found == {student: EXPECTED[student.partition("-")[0]] for student in found}
    assert len(found) == 6
