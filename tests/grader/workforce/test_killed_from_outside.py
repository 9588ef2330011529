"""A process that is killed from outside is run again, alone and not endlessly."""

import os
import signal
import textwrap
import threading
import time

import pytest
from grader.stub_pool import HAVE, job, needs_sandbox, pool, texts

from attentively_grader.sandbox.bubblewrap import Sandbox
from attentively_grader.sandbox.watchdog import tree
from attentively_grader.workforce.worker_pool import RUNS_ALONE

pytestmark = needs_sandbox


@pytest.fixture
def workers(tmp_path):
    """Start two workers; some tests count what they start."""
    with pool(tmp_path) as workers:
        yield workers


def marked(workers, mark):
    """Return the processes of jobs that named themselves `mark`."""
    found = []
    for zygote_client in workers.students:
        for process in tree(zygote_client.zygote.pid):
            try:
                with open(f"/proc/{process}/comm") as file:
                    found += [process] if file.read().strip() == mark else []
            except OSError:
                pass
    return found


def name(mark, code):
    """Return code that names its process, so that a test finds it from outside."""
    return f"import ctypes; ctypes.CDLL(None).prctl(15, b'{mark}', 0, 0, 0)\n{code}"


class Killer(threading.Thread):
    """Kills each process with a mark, at most so many."""

    def __init__(self, workers, mark, most):
        super().__init__(daemon=True)
        self.workers, self.mark, self.most = workers, mark, most
        self.killed, self.done = set(), False

    def run(self):
        while not self.done and len(self.killed) < self.most:
            for process in marked(self.workers, self.mark):
                os.kill(process, signal.SIGKILL)
                self.killed.add(process)
            time.sleep(0.02)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.join()


SLEEPS = name("victim", "import time; time.sleep(1); r = 7")


def test_an_honest_job_that_was_killed_runs_again(workers):
    with Killer(workers, "victim", 1) as killer:
        ((_, outcome),) = workers.run([job("honest", SLEEPS, "r = 8")])
    assert len(killer.killed) == 1
    assert outcome.end == "complete"
    assert texts(outcome) == ["7", "8"]


def test_it_runs_again_when_its_neighbours_have_ended(workers):
    with Killer(workers, "victim", 1):
        neighbour = job("neighbour", "import time; time.sleep(2); r = time.time()")
        again = name("victim", "import time; r = time.time(); time.sleep(0.5)")
        both = workers.run([neighbour, job("honest", again)])
        ran = {one.key: outcome for one, outcome in both}
    assert float(texts(ran["honest"])[0]) >= float(texts(ran["neighbour"])[0])


def test_what_is_killed_each_time_is_set_aside_and_nobody_else_is(workers):
    with Killer(workers, "victim", 100) as killer:
        ran = {
            one.key: outcome
            for one, outcome in workers.run([job("honest", SLEEPS), job("other", "r = 1")])
        }
    assert len(killer.killed) == 1 + RUNS_ALONE
    assert ran["honest"].end == "set aside"
    assert ran["honest"].cells == []
    assert "not the student's fault" in ran["honest"].reason
    assert "--memory" in ran["honest"].reason
    assert texts(ran["other"]) == ["1"]


SELF = {
    "kill": "import os; os.kill(os.getpid(), 9)",
    "kill the group": "import os; os.kill(0, 9)",
    "kill its own group": "import os; os.killpg(os.getpgid(0), 9)",
    "raise": "import signal; signal.raise_signal(9)",
    "thread": "import signal, threading; signal.pthread_kill(threading.get_ident(), 9)",
    "queue": "import ctypes, os; ctypes.CDLL(None).sigqueue(os.getpid(), 9, None)",
    "child": "import os, time; t = os.getpid(); os.fork() or os.kill(t, 9); time.sleep(.5); 1 / 0",
    "all": "import os, time; os.fork() or os.kill(-1, 9); time.sleep(0.5); 1 / 0",
    "pidfd": "import os, signal; signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 9)",
    "file": """
        import fcntl, os, time
        ours, theirs = os.pipe()
        fcntl.fcntl(ours, 10, 9)  # F_SETSIG
        fcntl.fcntl(ours, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
        os.write(theirs, b"x")
        time.sleep(1)
        1 / 0
        """,
    "CPU time": """
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
        while True: pass
        """,
    "timer": """
        import ctypes, time
        event, timer = (ctypes.c_int * 16)(0, 0, 9, 0), ctypes.c_void_p()
        libc = ctypes.CDLL(None)
        assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 1000), None)
        time.sleep(1)
        """,
    "child's end": """
        import ctypes, os, time
        clone = 56 if os.uname().machine == "x86_64" else 220
        if ctypes.CDLL(None).syscall(clone, 9, 0, 0, 0, 0) == 0:
            os._exit(0)
        time.sleep(1)
        1 / 0
        """,
    "memory": "kept = []\nwhile True: kept.append(bytearray(1 << 24))",
}


@pytest.mark.parametrize("way", list(SELF))
def test_a_job_that_ends_itself_is_not_run_again(workers, way):
    starts = []
    child = workers.students[0].child

    def counted(*given, **named):
        starts.append(given)
        return child(*given, **named)

    workers.students[0].child = counted
    one = job("ends", textwrap.dedent(SELF[way]), "r = 'goes on'", memory_mib=256)
    ((_, outcome),) = workers.run([one])
    assert outcome.end in ("complete", "memory")
    assert texts(outcome)[1] == "'goes on'"
    assert texts(outcome)[0] != "None"
    # At most one process before and one after the end.
    assert len([given for given in starts if "serve" in given[0]]) <= 2


@pytest.mark.parametrize("shell", ["nested", "single"])
def test_a_job_cannot_have_others_killed_before_it(tmp_path, shell):
    code = """
    import os
    r = []
    for process in ("self", "thread-self", str(os.getpid()), str(os.getppid())):
        for name, value in (("oom_score_adj", "-1000"), ("oom_score_adj", "0"), ("oom_adj", "-17")):
            try:
                with open(f"/proc/{process}/{name}", "w") as file:
                    file.write(value)
            except OSError as error:
                r.append(error.errno)
    child = os.fork()
    if child == 0:
        try:
            open("/proc/self/oom_score_adj", "w").write("0")
        finally:
            os._exit(int(open("/proc/self/oom_score_adj").read()) != 1000)
    r = {*r} - {13, 30}, os.waitpid(child, 0)[1], open("/proc/self/oom_score_adj").read()
    """
    if shell == "nested" and HAVE.shell != "nested":
        pytest.skip("namespaces do not nest here")
    kind = Sandbox(True, shell, (tmp_path / "stub",))
    with pool(tmp_path, workers=1, sandbox=kind) as workers:
        ((_, outcome),) = workers.run([job("protects", textwrap.dedent(code))])
    assert texts(outcome) == ["(set(), 0, '1000\\n')"]
