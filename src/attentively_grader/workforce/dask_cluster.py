"""Run notebooks on a Dask cluster: `--scheduler tcp://...`.

The course, the gradebook and the results stay on this machine. It sends single jobs to the cluster
as plain data, a few per thread at a time, and receives outcomes. Each worker process of the cluster
keeps its own warm `WorkerPool`, with one worker per thread, and runs each job in a sandbox as on
this machine. If a worker dies, Dask gives its jobs to another worker. A job may thus run twice,
with the same result.

A worker is refused if its Python, packages or import folders differ from those on this machine,
because its results would differ.
"""

import atexit
import base64
import io
import json
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attentively_grader.course.course import Course, CourseError
from attentively_grader.course.preparation import Prepared
from attentively_grader.intake import result_store
from attentively_grader.intake.tasks import PoolFactory
from attentively_grader.jobs import Job, Outcome
from attentively_grader.workforce.job_run import archive
from attentively_grader.workforce.local_pool import create_pool, importable, preload

if TYPE_CHECKING:
    from distributed import Client, Future

    from attentively_grader.workforce.worker_pool import WorkerPool

SECONDS_TO_CONNECT = 10
SECONDS_IDLE = 120.0
"""After so many seconds without a job, a worker ends its warm processes."""
AHEAD = 2
"""Number of waiting jobs per thread of the cluster, besides the running one."""


@dataclass(frozen=True)
class Terms:
    """The requirements for a worker of the cluster, and how it runs jobs."""

    environment: tuple[tuple[str, str], ...]
    """Python's version and a hash of the packages."""
    folders: tuple[tuple[str, str], ...]
    """The folders that notebooks import from, with a hash of each."""
    preload: tuple[str, ...]
    sandboxed: bool


class UnfitError(Exception):
    """A worker of the cluster does not meet the requirements of this course."""


GONE = (
    "the Dask scheduler has ended. All results so far are kept. Start a scheduler and repeat the "
    "command"
)


def cluster_factory(scheduler: str, sandboxed: bool) -> PoolFactory:
    """Return the factory of a job runner on the cluster of this scheduler."""

    @contextmanager
    def create(course: Course, prepared: Sequence[Prepared]) -> Iterator["Cluster"]:
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise CourseError(
                "--scheduler needs dask.distributed. Run `pip install 'attentively[cluster]'`"
            ) from None
        try:
            client = Client(scheduler, timeout=SECONDS_TO_CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise CourseError(
                f"no Dask scheduler answers at {scheduler} ({error}). Start one with `dask "
                "scheduler`, which prints its address"
            ) from None
        folders = [(str(folder), result_store.fingerprint(folder)) for folder in importable(course)]
        terms = Terms(
            tuple(sorted(result_store.environment().items())),
            tuple(folders),
            tuple(preload(prepared)),
            sandboxed,
        )
        try:
            yield Cluster(client, terms)
        finally:
            with suppress(Exception):  # the scheduler may have ended
                if client.status == "running":
                    client.run(dismiss, terms)
            client.close()

    return create


class Cluster:
    """Runs jobs on the workers of a Dask scheduler."""

    def __init__(self, client: "Client", terms: Terms) -> None:
        self.client = client
        self.terms = terms

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome, in order of completion.

        Raises `CourseError` if the scheduler has ended or a worker does not meet the requirements.
        """
        from distributed import as_completed

        rest = iter(jobs)
        running: dict[Any, Job] = {}
        ended = as_completed(loop=self.client.loop)
        self._submit(rest, running, ended)
        while running:
            future = next(ended)
            job = running.pop(future.key)
            with _while_it_is_there():
                outcome = self._outcome(future)
                future.release()
            self._submit(rest, running, ended)
            yield job, outcome

    def _submit(self, rest: Iterator[Job], running: dict[Any, Job], ended: Any) -> None:
        """Keep every thread of the cluster busy."""
        with _while_it_is_there():
            threads = sum(self.client.nthreads().values())
        for job in rest:
            text = packed(job)
            with _while_it_is_there():
                # Unique keys, because Dask would reuse the result of a known key.
                future = self.client.submit(run_job, self.terms, text, pure=False)
            running[future.key] = job
            ended.add(future)
            if len(running) >= (1 + AHEAD) * max(threads, 1):
                break

    def _outcome(self, future: "Future") -> Outcome:
        from distributed import KilledWorker

        if future.status == "finished":
            return Outcome.from_dict(json.loads(future.result()))
        error = future.exception() if future.status == "error" else None
        if isinstance(error, UnfitError):
            raise CourseError(str(error))
        if error is None or isinstance(error, CancelledError):
            raise CourseError(GONE)
        if isinstance(error, KilledWorker):
            reason = "every worker of the cluster that ran it has died"
        else:
            reason = f"{type(error).__name__}: {error}"
        return Outcome([], "died", f"the grader could not run this notebook: {reason}")


@contextmanager
def _while_it_is_there() -> Iterator[None]:
    """Raise a `CourseError` if the scheduler ends during a request."""
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CommClosedError, ClosedClientError, CancelledError, TimeoutError):
        raise CourseError(GONE) from None


def packed(job: Job) -> str:
    """Return a job as text, including the files next to its notebook."""
    files = base64.b64encode(archive(job.files)).decode()
    return json.dumps(job.to_dict() | {"files": files})


@contextmanager
def unpacked(text: str) -> Iterator[Job]:
    """Restore a packed job, with its files in a temporary folder."""
    content = json.loads(text)
    files = base64.b64decode(content["files"])
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        if files:
            with tarfile.open(fileobj=io.BytesIO(files)) as tar:
                # Python 3.11.3 and earlier have no filters.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(folder)
        yield Job.from_dict(content, files=Path(folder))


# On a worker of the cluster


class _Kept:
    """A worker pool that stays warm between jobs."""

    def __init__(self, pool: "WorkerPool") -> None:
        self.pool = pool
        self.jobs = 0
        self.last = time.monotonic()


_kept: dict[Terms, _Kept] = {}
_lock = threading.Lock()


def run_job(terms: Terms, text: str) -> str:
    """Run a job on this worker and return its outcome, both as text.

    Raises `UnfitError` if this worker does not meet the terms.
    """
    with _lock:
        kept = _kept.get(terms)
        if kept is None:
            kept = _kept[terms] = _Kept(_create_pool(terms))
            threading.Thread(target=_watch, args=(terms,), daemon=True).start()
        kept.jobs += 1
    try:
        with unpacked(text) as job:
            ((_, outcome),) = kept.pool.run([job])
        return json.dumps(outcome.to_dict())
    finally:
        with _lock:
            kept.jobs -= 1
            kept.last = time.monotonic()


def _create_pool(terms: Terms) -> "WorkerPool":
    from distributed import get_worker

    where = f"the worker at {get_worker().address}"
    here = result_store.environment()
    for name, expected in terms.environment:
        if here[name] != expected:
            what = f"Python {here[name]}" if name == "python" else "other versions of packages"
            raise UnfitError(
                f"{where} has {what}. Install the same versions there as on this machine"
            )
    folders = []
    for name, expected in terms.folders:
        folders.append(Path(name))
        if not Path(name).is_dir() or result_store.fingerprint(Path(name)) != expected:
            raise UnfitError(f"{where} has no folder {name} with the same files as on this machine")
    try:
        threads = get_worker().state.nthreads
        pool = create_pool(threads, terms.sandboxed, folders, terms.preload)
    except CourseError as error:
        raise UnfitError(f"{where}: {error}") from None
    atexit.register(pool.close)
    return pool.__enter__()


def _watch(terms: Terms) -> None:
    """End the warm processes after a while without jobs."""
    while True:
        time.sleep(1)
        with _lock:
            kept = _kept[terms]
            if kept.jobs == 0 and time.monotonic() - kept.last > SECONDS_IDLE:
                del _kept[terms]
                break
    kept.pool.close()
    atexit.unregister(kept.pool.close)


def dismiss(terms: Terms) -> None:
    """End the warm processes as soon as no job is running."""
    with _lock:
        if terms in _kept:
            _kept[terms].last = -SECONDS_IDLE
