"""Memory that no process shows in its resident size is refused, or counts towards the limit."""

import textwrap

import pytest
from grader.stub_pool import job, needs_sandbox, pool, texts

pytestmark = needs_sandbox

LIMIT_MIB = 256
HELD_MIB = 600
"""Each attack holds this much if nothing stops it."""
SLACK_MIB = 64

ANONYMOUS = """
import mmap
total = multiprocessing.Value("q", 0)
for _ in range(HELD >> 26):
    if os.fork() == 0:
        try:
            shared = mmap.mmap(-1, 1 << 26)
            for page in range(0, 1 << 26, 4096):
                shared[page] = 1
            # The pages stay, but the process no longer shows them.
            shared.madvise(mmap.MADV_DONTNEED)
            total.value += 1 << 26
        except OSError:
            pass
        time.sleep(60)
    time.sleep(0.3)
held = total.value
"""
DEV_ZERO = ANONYMOUS.replace(
    "mmap.mmap(-1, 1 << 26)", "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 1 << 26)"
)
SYSTEM_V = """
import ctypes
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(HELD >> 26):
    number = libc.shmget(0, 1 << 26, 0o1600)
    if number < 0:
        break
    at = libc.shmat(number, None, 0)
    ctypes.memset(at, 1, 1 << 26)
    libc.shmdt(ctypes.c_void_p(at))
    held += 1 << 26
"""
SEMAPHORES = """
import ctypes
while held < HELD and ctypes.CDLL(None).semget(0, 32000, 0o1600) >= 0:
    held += 32000 * 64
"""
MESSAGES = """
import ctypes
libc, text = ctypes.CDLL(None), ctypes.create_string_buffer(8200)
while held < HELD:
    queue = libc.msgget(0, 0o1600)
    if queue < 0 or libc.msgsnd(queue, text, 8192, 0o4000) < 0:
        break
    held += 8192
    held += 8192 * (libc.msgsnd(queue, text, 8192, 0o4000) == 0)
"""
FILL = """
def fill(one):
    one.setblocking(False)
    total = 0
    try:
        while total < 8 << 20:
            total += one.send(bytes(1 << 16))
    except OSError:
        pass
    return total
"""
PAIRS = (
    FILL
    + """
for _ in range(8):
    total = multiprocessing.Value("q", 0)
    if os.fork() == 0:
        try:
            while True:
                pair = socket.socketpair()
                kept.append(pair)
                total.value += fill(pair[0]) + fill(pair[1])
        except OSError:
            time.sleep(60)
    time.sleep(0.6)
    held += total.value
    if held > HELD:
        break
"""
)
LARGE_PAIRS = (
    FILL
    + """
while held < HELD:
    pair = socket.socketpair()
    kept.append(pair)
    for one in pair:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        held += fill(one)
    if len(kept) > 200:
        break
"""
)
UNACCEPTED = (
    FILL
    + """
server = socket.socket(socket.AF_UNIX)
server.bind(chr(0) + "held")
server.listen(4096)
while held < HELD:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(chr(0) + "held")
        held += fill(one)
"""
)
IN_FLIGHT = (
    FILL
    + """
carrier = socket.socketpair()
kept.append(carrier)
while held < HELD:
    with contextlib.ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(100)]
        for pair in pairs:
            stack.enter_context(pair[0])
            stack.enter_context(pair[1])
            held += fill(pair[0]) + fill(pair[1])
        socket.send_fds(carrier[0], [b"x"], [one.fileno() for pair in pairs for one in pair])
        carrier = socket.socketpair()
        kept.append(carrier)
"""
)
TCP = """
server = socket.create_server(("127.0.0.1", 0))
while held < HELD and len(kept) < 80:
    one = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    kept.append((one, other))
    one.setblocking(False)
    other.setblocking(False)
    moved = 0
    while moved < 8 << 20:  # a reader that keeps up gets larger buffers
        with contextlib.suppress(OSError):
            moved += one.send(bytes(1 << 20))
        with contextlib.suppress(OSError):
            other.recv(1 << 20)
    for _ in range(50):
        try:
            held += one.send(bytes(1 << 18))
        except OSError:
            time.sleep(0.0005)
"""
PIPES = """
import fcntl
while held < HELD:
    ours, theirs = os.pipe()
    kept.append((ours, theirs))
    fcntl.fcntl(theirs, 1031, 1 << 20)  # F_SETPIPE_SZ
    os.set_blocking(theirs, False)
    held += os.write(theirs, bytes(1 << 20))
"""
DISK = """
for number in range(HELD >> 24):
    with open(f"/dev/shm/{number}", "wb") as file:
        file.write(bytes(1 << 24))
    held += 1 << 24
"""
UNLINKED = """
for number in range(HELD >> 24):
    file = open("/tmp/gone", "wb")
    kept.append(file)
    os.unlink("/tmp/gone")
    held += file.write(bytes(1 << 24))
"""
ATTACKS = {
    "anonymous": ANONYMOUS,
    "/dev/zero": DEV_ZERO,
    "System V memory": SYSTEM_V,
    "System V semaphores": SEMAPHORES,
    "System V messages": MESSAGES,
    "pairs in many processes": PAIRS,
    "pairs with large buffers": LARGE_PAIRS,
    "connections that nobody accepts": UNACCEPTED,
    "sockets inside sockets": IN_FLIGHT,
    "TCP": TCP,
    "pipes": PIPES,
    "files": DISK,
    "unlinked files": UNLINKED,
}


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Start one warm worker for all attacks."""
    with pool(tmp_path_factory.mktemp("pool"), workers=1) as workers:
        yield workers


@pytest.mark.parametrize("attack", list(ATTACKS))
def test_hidden_memory_is_refused_or_counted(workers, attack):
    start = f"""
    import contextlib, multiprocessing, os, socket, time
    HELD, held, kept = {HELD_MIB << 20}, 0, []
    try:
    """
    body = textwrap.indent(textwrap.dedent(ATTACKS[attack]), "    ")
    end = "except (OSError, ValueError):\n    pass\ntime.sleep(0.5)\nr = held >> 20"
    one = job(
        "hides",
        textwrap.dedent(start) + body + end,
        memory_mib=LIMIT_MIB,
        file_mib=HELD_MIB + 100,
        cell_seconds=15.0,
    )
    ((_, outcome),) = workers.run([one])
    if outcome.end != "memory":
        assert outcome.end == "complete"
        assert int(texts(outcome)[0]) <= LIMIT_MIB + SLACK_MIB


def test_ordinary_programs_keep_what_they_need(workers, tmp_path):
    code = """
    import asyncio, concurrent.futures, mmap, multiprocessing, os, shutil, socket, subprocess
    import tempfile
    from multiprocessing import shared_memory

    r = []
    with multiprocessing.get_context("fork").Pool(3) as processes:
        r.append(processes.map(abs, range(-3, 0)))
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        r.append(list(threads.map(abs, [-4])))
    block = shared_memory.SharedMemory(create=True, size=1 << 20)
    block.buf[0] = 5
    r.append(block.buf[0])
    block.close()
    block.unlink()
    with open("file", "w+b") as file:
        file.write(bytes(4096))
        file.flush()
        with mmap.mmap(file.fileno(), 4096) as shared:
            shared[0] = 6
            r.append(shared[0])
    with mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE) as private:
        private[0] = 7
        r.append(private[0])
    shutil.copyfile("file", "copy")
    shell = "cp file other && head -c 1000 /dev/zero | wc -c && timeout 5 true && cat copy | wc -c"
    r.append(subprocess.run(["bash", "-c", shell], capture_output=True, text=True).stdout.split())
    sleeper = subprocess.Popen(["sleep", "100"], start_new_session=True)
    os.killpg(sleeper.pid, 9)
    r.append(sleeper.wait())
    sleeper = subprocess.Popen(["sleep", "100"])
    sleeper.kill()
    r.append(sleeper.wait())

    async def echo():
        async def answer(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"8\\n")
        line = await reader.readline()
        server.close()
        return int(line)

    r.append(asyncio.run(echo()))
    """
    ((_, outcome),) = workers.run([job("honest", textwrap.dedent(code))])
    assert texts(outcome) == [
        "[[3, 2, 1], [4], 5, 6, 7, ['1000', '4096'], -9, -9, 8]",
    ]
