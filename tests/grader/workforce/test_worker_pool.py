"""Hostile notebooks beside an innocent one: it is unchanged, and no process is left."""

import ast
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from grader.stub_pool import job, needs_sandbox, pool, texts, wait_for_the_end

from attentively_grader.jobs import Outcome
from attentively_grader.sandbox.bubblewrap import python_folders
from attentively_grader.workforce import worker_pool
from attentively_grader.workforce.job_run import describe
from attentively_grader.workforce.worker_pool import WorkerPool

pytestmark = needs_sandbox

MARK = "attentively-test-mark"


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Two warm workers that all the tests here share: each finds them as if they were new."""
    with pool(tmp_path_factory.mktemp("pool")) as workers:
        yield workers


# The stub lies in pytest's folder; Python or the project may lie below /tmp themselves.
KNOWN = [
    path.parts[2]
    for path in [*python_folders(), Path(__file__)]
    if path.is_relative_to("/tmp") and len(path.parts) > 2
]


def innocent(key="innocent"):
    files = (
        "[n for d in ('.', '/tmp', '/dev/shm') for n in os.listdir(d)"
        f" if 'pytest' not in n and n not in {KNOWN}]"
    )
    return job(key, f"import os\nr = {files}", "r = 6 * 7")


def beside_innocent(workers, hostile):
    """Run a hostile job with an innocent one at its side and one after it; return its outcome."""
    ran = {job.key: outcome for job, outcome in workers.run([hostile, innocent(), innocent("2")])}
    for key in ("innocent", "2"):
        assert ran[key].end == "complete"
        assert texts(ran[key]) == ["[]", "42"]
    assert jobs_left(workers) == []
    return ran[hostile.key]


def jobs_left(workers):
    """Return the processes below the zygotes, for which there should be no jobs now."""
    from attentively_grader.sandbox.watchdog import tree

    left = []
    for students, examiners in zip(workers.students, workers.examiners, strict=True):
        # bubblewrap, its process 1 inside, the zygote, and that of the examiners, forked from it
        left += {*[*tree(students.zygote.pid)][3:]} - {examiners.zygote.pid}
        left += [*tree(examiners.zygote.pid)][1:]
    return left


def test_a_notebook_runs_to_its_end(workers):
    outcome = beside_innocent(workers, job("honest", "x = 2", "r = x + 3", ("here", "r = 5")))
    assert outcome.end == "complete"
    assert texts(outcome) == ["None", "5", "5"]
    assert outcome.sandboxed
    assert outcome.seconds > 0


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        """
        import signal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            try:
                while True: pass
            except BaseException:
                pass
        """,
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        """
        open("sleeper.py", "w").write("import time; time.sleep(1000)")
        import sys
        sys.path.insert(0, "")
        import sleeper
        """,
    ],
    ids=["loop", "swallows everything", "stops itself", "hangs while importing"],
)
def test_what_does_not_end_is_ended_and_the_rest_goes_on(workers, code):
    outcome = beside_innocent(
        workers, job("slow", textwrap.dedent(code), "r = 1", cell_seconds=0.5)
    )
    assert [cell.failed for cell in outcome.cells] == [True, False]


def test_the_whole_notebook_has_a_limit_too(workers):
    outcome = beside_innocent(
        workers, job("slow", "while True: pass", "r = 1", seconds=0.7, cell_seconds=60)
    )
    assert outcome.end == "timeout"
    assert "0.7 seconds" in outcome.reason
    assert [cell.failed for cell in outcome.cells] == [True, True]
    assert outcome.seconds < 5


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os._exit(0)", "it ended its own process (exit 0)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it killed its own process"),
        ("import signal; signal.raise_signal(9)", "it killed its own process"),
        ("import ctypes; ctypes.string_at(0)", "segmentation fault"),
        ("import os; os.abort()", "aborted"),
        (
            "import os, signal; signal.pthread_kill(1 and __import__('threading').get_ident(), 9)",
            "it killed",
        ),
    ],
)
def test_a_process_that_ends_itself_has_failed_and_says_how(workers, code, reason):
    outcome = beside_innocent(workers, job("ends", code, "r = 'goes on'"))
    assert [cell.failed for cell in outcome.cells] == [True, False]
    assert reason in texts(outcome)[0]


def test_leaving_python_inside_a_cell_is_an_error(workers):
    outcome = beside_innocent(workers, job("leaves", "import sys; sys.exit()", "r = exit()"))
    assert texts(outcome) == ["SystemExit: ", "SystemExit: None"]


FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
THREAD_BOMB = """
import threading, time
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    except RuntimeError:
        pass
"""
SESSION_BOMB = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
    except OSError:
        pass
"""


@pytest.mark.parametrize("code", [FORK_BOMB, THREAD_BOMB, SESSION_BOMB])
def test_a_bomb_is_stopped(workers, code):
    outcome = beside_innocent(workers, job("bomb", code, "r = 1", processes=20))
    assert outcome.end == "processes"
    assert "20 processes and threads" in texts(outcome)[0]
    assert [cell.failed for cell in outcome.cells] == [True, False]


def test_a_hundred_gigabytes_are_refused_at_once(workers):
    outcome = beside_innocent(workers, job("much", "r = len(bytearray(100 << 30))", "r = 1"))
    assert texts(outcome) == ["MemoryError: ", "1"]


def test_a_slow_leak_ends_at_the_limit(workers):
    leak = """
    kept = []
    while True:
        kept.append(bytearray(8 << 20))
    """
    outcome = beside_innocent(workers, job("leak", textwrap.dedent(leak), memory_mib=200))
    assert texts(outcome) == ["MemoryError: "] or outcome.end == "memory"
    assert outcome.peak_memory_mib < 400


def test_many_processes_together_have_one_limit_of_memory(workers):
    code = """
    import os, time
    for _ in range(6):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 20) * 60)
            time.sleep(1000)
    time.sleep(1000)
    """
    outcome = beside_innocent(workers, job("share", textwrap.dedent(code), memory_mib=200))
    assert outcome.end == "memory"
    assert "200 MiB" in outcome.reason


@pytest.mark.parametrize(
    "code",
    [
        "open('large', 'wb').write(bytes(40 << 20))",
        "[open(f'/tmp/{i}', 'wb').write(bytes(8 << 20)) for i in range(6)]",
        "[open(f'/dev/shm/{i}', 'wb').write(bytes(8 << 20)) for i in range(6)]",
        "[open(str(i), 'w') for i in range(10 ** 6)]",
        "import os; os.memfd_create('uncounted')",
    ],
    ids=["one file", "/tmp", "/dev/shm", "open files", "memory outside any process"],
)
def test_the_private_disk_is_small(workers, code):
    outcome = beside_innocent(workers, job("fills", code))
    assert texts(outcome)[0].startswith("OSError")


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('169.254.169.254', 80), 2)",
        "import socket; socket.create_connection(('1.1.1.1', 53), 2)",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import socket; socket.socket(socket.AF_VSOCK)",
        "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "import urllib.request; urllib.request.urlopen('http://example.org', timeout=2)",
    ],
)
def test_there_is_no_network(workers, code):
    outcome = beside_innocent(workers, job("calls", code))
    assert "Errno" in texts(outcome)[0] or "urlopen error" in texts(outcome)[0]


def test_abstract_sockets_of_the_host_are_out_of_reach(workers):
    import socket

    name = f"\0{MARK}-{os.getpid()}"
    code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(name)
        ours.listen()
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(name)  # here it can be reached
        assert "ConnectionRefusedError" in texts(beside_innocent(workers, job("calls", code)))[0]


def test_a_daemon_ends_with_its_notebook(workers):
    code = """
    import os, socket, time
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        held = socket.create_server(("127.0.0.1", 8765))
        abstract = socket.socket(socket.AF_UNIX)
        abstract.bind(chr(0) + "held")
        os.open(os.devnull, os.O_RDONLY)
        time.sleep(1000)
    time.sleep(0.3)
    """
    take = """
    import socket
    socket.create_server(("127.0.0.1", 8765)).close()
    socket.socket(socket.AF_UNIX).bind(chr(0) + "held")
    r = "free"
    """
    beside_innocent(workers, job("daemon", textwrap.dedent(code)))
    for _ in range(2):
        assert texts(beside_innocent(workers, job("next", textwrap.dedent(take)))) == ["'free'"]


def test_nothing_reaches_the_next_job(workers):
    poison = """
    import os, pathlib, site, sys, builtins
    for place in ("/tmp", "/dev/shm", os.path.expanduser("~"), ".", "/dev", "/", "/etc",
                  site.getsitepackages()[0], sys.prefix, "/var/tmp", "/run"):
        try:
            pathlib.Path(place, "sitecustomize.py").write_text("import os; os._exit(0)")
        except OSError:
            pass
    os.environ["PYTHONPATH"] = "/tmp"
    os.environ["POISON"] = "1"
    os.makedirs(os.path.expanduser("~/.ipython/profile_default/startup"))
    os.chdir("/")
    os.umask(0)
    sys.path.insert(0, "/tmp")
    builtins.len = lambda x: 0
    import json
    json.loads = None
    for other in range(1, 400):
        try:
            os.kill(other, 9)
        except OSError:
            pass
    """
    look = """
    import os, sys, site, subprocess, json
    r = []
    for place in ("/tmp", "/dev/shm", os.path.expanduser("~"), ".", "/dev", "/", "/etc",
                  site.getsitepackages()[0], sys.prefix, "/var/tmp", "/run"):
        if os.path.exists(os.path.join(place, "sitecustomize.py")):
            r.append(place)
    r += [name for name in os.environ if name in ("PYTHONPATH", "POISON")]
    r += [os.getcwd(), "/tmp" in sys.path, len("four"), json.loads("1")]
    r += [os.listdir(os.path.expanduser("~"))]
    """
    expected = repr(["/home/student/work", False, 4, 1, ["work"]])
    assert texts(workers_run(workers, job("look", textwrap.dedent(look)))) == [expected]
    beside_innocent(workers, job("poison", textwrap.dedent(poison)))
    for number in range(4):  # whichever worker takes it
        assert texts(workers_run(workers, job(str(number), textwrap.dedent(look)))) == [expected]


def workers_run(workers, one):
    ((_, outcome),) = workers.run([one])
    return outcome


def test_deleting_everything_deletes_only_the_private_disk(workers, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("here")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "data.csv").write_text("1,2")
    code = """
    import os, shutil
    before = open("data.csv").read()
    for place in ("..", "/tmp", "/dev/shm", "/dev", "/etc", "/home"):
        shutil.rmtree(place, ignore_errors=True)
    r = before
    """
    outcome = beside_innocent(
        workers, job("deletes", textwrap.dedent(code), "r = 'on'", files=tmp_path / "given")
    )
    assert texts(outcome) == ["'1,2'", "'on'"]
    assert kept.read_text() == "here"
    assert (tmp_path / "given" / "data.csv").read_text() == "1,2"
    assert Path(__file__).exists()


def test_the_course_and_other_submissions_are_not_there(workers, tmp_path):
    (tmp_path / "gradebook.db").write_text(MARK)
    repository = Path(__file__).parents[3]
    code = f"""
    import os, pathlib
    r = []
    for place in ({str(tmp_path)!r}, {str(repository / "tests")!r},
                  {str(repository / "solutions")!r}, {str(Path.home() / ".ssh")!r}):
        r += [place] if os.path.exists(place) else []
    for folder, folders, files in os.walk("/"):
        # nbgrader's own tests, in site-packages, have one
        folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/usr")
                      and f != "site-packages"]
        r += [os.path.join(folder, f) for f in files if f == "gradebook.db"]
    for process in os.listdir("/proc"):
        if process.isdigit():
            for name in ("environ", "cmdline"):
                try:
                    content = pathlib.Path("/proc", process, name).read_text()
                except OSError:
                    continue
                r += [content] if {MARK!r} in content or "grade" in content.lower() else []
    """
    # All files of the sandbox are listed: on a busy machine that takes longer than 5 seconds.
    hostile = job("reads", textwrap.dedent(code), cell_seconds=60, seconds=120)
    outcome = beside_innocent(workers, hostile)
    assert texts(outcome) == ["[]"]


def test_the_tests_are_not_in_the_students_process(workers):
    """What the examiner has is neither in memory nor in any file that the student can open."""
    secret = "the expected answer is " + MARK[::-1]
    code = f"""
    import gc, os
    wanted = {MARK!r}[::-1]
    r = [type(o).__name__ for o in gc.get_objects() if type(o) is str and wanted in o]
    for process in os.listdir("/proc"):
        if process.isdigit() and process != str(os.getpid()):
            try:
                r.append(open(f"/proc/{{process}}/mem", "rb"))
            except OSError:
                pass
    r += [n for n in os.listdir("/proc/self/fd") if int(n) > 4]
    """
    outcome = beside_innocent(
        workers, job("looks", textwrap.dedent(code), ("here", f"r = {secret!r}"))
    )
    assert texts(outcome) == ["[]", repr(secret)]


def test_there_are_only_plain_devices(workers):
    """No GPU, no disk, no sound: a submission computes on the processor."""
    outcome = beside_innocent(workers, job("devices", "import os; r = sorted(os.listdir('/dev'))"))
    plain = {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm"}
    plain |= {"stdin", "stdout", "stderr", "fd", "core", "console"}
    found = set(ast.literal_eval(texts(outcome)[0]))
    assert "null" in found
    assert found <= plain


def test_the_environment_shows_no_sign_of_grading(workers):
    code = """
    import getpass, os, platform, pwd, sys, pathlib
    told = [*os.environ, *os.environ.values(), os.getcwd(), *sys.argv, platform.node()]
    told += [getpass.getuser(), pathlib.Path("/proc/self/cmdline").read_text()]
    told += [pathlib.Path("/proc/1/cmdline").read_text(), pathlib.Path("/proc/1/comm").read_text()]
    told += [*os.listdir(os.path.expanduser("~")), *os.listdir("/")]
    told += [name for name in os.listdir("/tmp") if "pytest" not in name]
    signs = ("grad", "sandbox", "test", "exam", "bwrap", "autograd", "submit")
    r = [word for word in told for sign in signs if sign in word.lower()]
    """
    assert texts(beside_innocent(workers, job("asks", textwrap.dedent(code)))) == ["[]"]


@pytest.mark.parametrize(
    "code",
    [
        "import ctypes; r = ctypes.CDLL(None).unshare(0x10000000)",
        "import ctypes; r = ctypes.CDLL(None).ptrace(16, 1, 0, 0)",
        "import ctypes; r = ctypes.CDLL(None).mount(b'', b'/', b'', 32, b'')",
        "import ctypes; r = ctypes.CDLL(None).umount2(b'/tmp', 2)",
        "import ctypes; r = ctypes.CDLL(None).setns(0, 0)",
        "import ctypes; r = ctypes.CDLL(None).setresuid(0, 0, 0)",
        "import ctypes; r = ctypes.CDLL(None).syscall(250, 0, 0)",
    ],
)
def test_doors_of_the_kernel_are_closed(workers, code):
    assert texts(beside_innocent(workers, job("tries", code))) == ["-1"]


def test_hostile_bytes_end_only_their_own_job(workers):
    code = "connection.sendall(bytes(range(256)) * 5000); import os; os._exit(0)"
    outcome = beside_innocent(workers, job("noise", code, "r = 1"))
    assert outcome.cells[0].failed


def test_a_flood_of_prints_goes_nowhere(workers):
    code = """
    import os
    line = b"x" * (1 << 20)
    for _ in range(1024):
        os.write(1, line)
        os.write(2, line)
    r = "written"
    """
    assert texts(beside_innocent(workers, job("floods", textwrap.dedent(code)))) == ["'written'"]


def test_a_crowd_of_busy_processes_leaves_the_others_their_core(workers):
    code = """
    import os
    for _ in range(15):
        if os.fork() == 0:
            os.setsid()
            while True: pass
    while True: pass
    """
    busy = "import time; s = time.process_time(); [i for i in range(10**6)]; r = 1"
    crowd = job("crowd", textwrap.dedent(code), cell_seconds=3.0, processes=40)
    ran = {one.key: outcome for one, outcome in workers.run([crowd, job("busy", *[busy] * 5)])}
    assert ran["crowd"].cells[0].failed
    assert texts(ran["busy"]) == ["1"] * 5
    assert jobs_left(workers) == []


@pytest.mark.parametrize("whose", ["students", "examiners"])
def test_a_killed_zygote_is_replaced_and_its_job_tried_again(workers, whose):
    before = [client.zygote.pid for client in getattr(workers, whose)]
    one = job("retried", "import time; time.sleep(1)", "r = 8")
    ran = workers.run([one])
    import threading

    def kill():
        time.sleep(0.5)
        for zygote_client in getattr(workers, whose):
            zygote_client.zygote.kill()

    threading.Thread(target=kill).start()
    ((_, outcome),) = ran
    assert outcome.end == "complete"
    assert texts(outcome)[1] == "8"
    ((_, outcome),) = workers.run([job("next", "r = 9")])
    assert texts(outcome) == ["9"]
    assert not {client.zygote.pid for client in getattr(workers, whose)} & {*before}


def test_a_job_that_cannot_be_examined_is_reported_after_a_second_try(workers):
    outcome = beside_innocent(workers, job("bug", ("here", "raise RuntimeError('in the tests')")))
    assert outcome.end == "died"
    assert "in the tests" in outcome.reason
    outcome = beside_innocent(workers, job("exit", ("here", "os._exit(3)")))
    assert outcome.end == "died"
    assert "exit 3" in outcome.reason


def test_breaking_off_leaves_no_process(tmp_path):
    """Ctrl-C, and a kill that nothing can handle."""
    for number in (signal.SIGINT, signal.SIGKILL):
        script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[2])!r})
        from grader.stub_pool import pool, job
        with pool({str(tmp_path)!r}) as workers:
            clients = (*workers.students, *workers.examiners)
            print(*(client.zygote.pid for client in clients))
            sys.stdout.flush()
            for _ in workers.run(job(str(n), "while True: pass") for n in range(4)):
                pass
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        zygotes = [int(word) for word in process.stdout.readline().split()]
        assert zygotes
        time.sleep(0.5)
        process.send_signal(number)
        process.wait(20)
        process.stdout.close()
        wait_for_the_end(zygotes)


def test_a_force_of_none_is_refused():
    with pytest.raises(ValueError, match="workers=0"):
        WorkerPool(0)


def test_how_a_process_ended_is_said_in_words():
    assert describe(3 << 8) == "it ended its own process (exit 3)"
    assert describe(11) == "its process was killed by signal 11 (segmentation fault)"
    assert describe(None) == "its process was killed"
    assert isinstance(Outcome([]).end, str)


def test_what_one_test_imports_is_there_for_the_next(tmp_path):
    """So that a class pays once for what its tests import on their way."""
    late = ("here", "import sys; r = 'xmlrpc.client' in sys.modules; import xmlrpc.client")
    with pool(tmp_path, workers=1) as workers:
        ran = [outcome for _, outcome in workers.run([job("first", late), job("second", late)])]
        assert [texts(outcome) for outcome in ran] == [["False"], ["True"]]


def test_what_a_student_imports_is_not(tmp_path):
    late = "import sys; r = 'xmlrpc.client' in sys.modules; import xmlrpc.client"
    with pool(tmp_path, workers=1) as workers:
        ran = [outcome for _, outcome in workers.run([job("first", late), job("second", late)])]
        assert [texts(outcome) for outcome in ran] == [["False"], ["False"]]


def test_an_import_that_starts_a_thread_costs_a_zygote_and_no_job(tmp_path):
    """With threads a process cannot fork; a new one takes its place, and is not told again."""
    with pool(tmp_path, workers=1) as workers:
        busy = tmp_path / "stub" / "busy_module.py"
        busy.write_text(
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        )
        late = ("here", "import busy_module; r = 1")
        zygotes = []
        for number in range(4):
            ((_, outcome),) = workers.run([job(str(number), late)])
            assert outcome.end == "complete"
            assert texts(outcome) == ["1"]
            time.sleep(0.3)
            zygotes.append(workers.examiners[0].zygote.pid)
        assert zygotes[0] != zygotes[1]
        assert len(set(zygotes[1:])) == 1


def test_more_workers_have_more_zygotes_of_both_kinds(tmp_path, monkeypatch):
    """One zygote forks about forty times per second, so many workers would wait for it."""
    monkeypatch.setattr(worker_pool, "SHARE", 1)
    used = set()
    with pool(tmp_path, workers=2) as workers:
        for client in (*workers.students, *workers.examiners):

            def child(*given, of=client, start=client.child, **named):
                used.add(of)
                return start(*given, **named)

            client.child = child
        jobs = [
            job(str(number), "r = 1", ("here", "import time; time.sleep(0.3)")) for number in "abcd"
        ]
        assert all(outcome.end == "complete" for _, outcome in workers.run(jobs))
        assert used == {*workers.students, *workers.examiners}
        assert len(used) == 4
