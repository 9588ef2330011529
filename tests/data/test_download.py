"""Data files come whole and right, or not at all: tried on a server of our own."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field

import pytest

from attentively.data import download
from attentively.data.catalogue import DataFile, DataSet
from attentively.data.download import DataError

# Long enough to travel in several blocks, and stored as it is.
TEXT = "".join(f"{n}\tnuméro {n * n}\n" for n in range(15_000))
MEMBER = "deep/pairs.txt"
PATH = "folder/pairs.txt"


def archive(text=TEXT, member=MEMBER):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("readme.txt", "not this one")
        file.writestr(member, text)
    return stream.getvalue()


GOOD = archive()
BAD = archive(TEXT.replace("1234", "1235"))


@dataclass
class Server:
    """Answers each request with the next of `answers`, the last one again and again."""

    url: str = ""
    answers: list = field(default_factory=lambda: [GOOD])
    ranges: list = field(default_factory=list)
    """The Range header of every request."""
    sent: int = 0
    accepts_ranges: bool = True

    def answer(self, handler):
        self.ranges.append(handler.headers["Range"])
        content = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(content, int):  # a status
            return handler.send_error(content)
        cut = None
        if isinstance(content, tuple):  # a connection that breaks
            content, cut = content
        first = 0
        if self.accepts_ranges and self.ranges[-1]:
            first = int(self.ranges[-1].removeprefix("bytes=").removesuffix("-"))
            if first >= len(content):
                return handler.send_error(416)
        handler.send_response(206 if first else 200)
        handler.send_header("Content-Length", str(len(content) - first))
        handler.end_headers()
        handler.wfile.write(content[first:cut])
        self.sent += len(content[first:cut])


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server of one archive, an empty cache, and no folder of one's own."""
    behaviour = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            behaviour.answer(self)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        behaviour.url = f"http://127.0.0.1:{listening.server_port}/pairs.zip"
        file = DataFile(
            path=PATH,
            sha256=hashlib.sha256(TEXT.encode()).hexdigest(),
            size=len(TEXT.encode()),
            url=behaviour.url,
            member=MEMBER,
        )
        data_set = DataSet("pairs", "numbers", (file,), licence="CC0", attribution="nobody")
        monkeypatch.setattr(download, "FILES", {PATH: file})
        monkeypatch.setattr(download, "SETS", {"pairs": data_set})
        monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
        monkeypatch.delenv(download.VARIABLE, raising=False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield behaviour
        listening.shutdown()
        thread.join()


@pytest.fixture
def cached(tmp_path):
    return tmp_path / "cache" / "folder" / "pairs.txt.gz"


def left_in_the_cache(tmp_path):
    files = (tmp_path / "cache").rglob("*")
    return sorted(path.name for path in files if path.is_file() and path.suffix != ".lock")


def test_it_is_fetched_once(server, tmp_path, cached):
    assert download.find(PATH) is None
    assert download.read(PATH) == TEXT
    assert download.find(PATH) == cached
    assert download.read(PATH) == TEXT
    assert server.ranges == [None]
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


def test_a_corrupted_download_is_fetched_again(server, tmp_path):
    server.answers = [BAD, GOOD]
    assert download.read(PATH) == TEXT
    assert server.ranges == [None, None]  # from the beginning
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


@pytest.mark.parametrize(
    "content",
    [BAD, b"", b"<html>Please log in</html>", GOOD[: len(GOOD) // 2], archive(member="other.txt")],
    ids=["other text", "empty", "a web page", "half", "another member"],
)
def test_always_corrupted_is_refused_and_nothing_is_left(server, tmp_path, content):
    server.answers = [content]
    with pytest.raises(
        DataError, match=r"the checksum of http://.*login page.*to folder/pairs\.txt in a folder"
    ):
        download.read(PATH)
    assert len(server.ranges) == 2
    assert left_in_the_cache(tmp_path) == []
    assert download.find(PATH) is None


def test_an_interrupted_download_goes_on_where_it_stopped(server, tmp_path):
    server.answers = [(GOOD, len(GOOD) // 2), GOOD]
    with pytest.raises(DataError, match=r"the connection was interrupted.*try again"):
        download.read(PATH)
    (part,) = left_in_the_cache(tmp_path)
    have = (tmp_path / "cache" / part).stat().st_size
    assert 0 < have <= len(GOOD) // 2
    assert download.read(PATH) == TEXT
    assert server.ranges == [None, f"bytes={have}-"]
    assert server.sent < 1.5 * len(GOOD)
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


def test_a_server_that_knows_no_ranges_sends_all_again(server, tmp_path):
    server.answers = [(GOOD, len(GOOD) // 2), GOOD]
    server.accepts_ranges = False
    with pytest.raises(DataError):
        download.read(PATH)
    assert download.read(PATH) == TEXT
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


def test_a_part_of_another_file_is_found_out(server, tmp_path):
    server.answers = [(BAD, len(BAD) - 10), GOOD]  # the file changed in between
    with pytest.raises(DataError):
        download.read(PATH)
    assert download.read(PATH) == TEXT
    assert server.ranges[1] is not None
    assert server.ranges[2] is None


def test_a_part_as_long_as_the_file_or_longer_is_thrown_away(server, tmp_path):
    server.answers = [(GOOD + bytes(10**6), len(GOOD) + 10**5), GOOD]
    with pytest.raises(DataError):
        download.read(PATH)
    assert download.read(PATH) == TEXT  # by way of status 416
    assert server.ranges[1] is not None
    assert server.ranges[2] is None
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


@pytest.mark.parametrize("status", [404, 416, 500])
def test_an_error_of_the_server_is_told(server, tmp_path, status):
    server.answers = [status]
    with pytest.raises(DataError, match=rf"cannot download http://.*the server answers {status} "):
        download.read(PATH)
    assert left_in_the_cache(tmp_path) == []


def test_without_a_network_the_message_names_the_way_out(server, tmp_path, monkeypatch):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as closed:
        nobody = f"http://127.0.0.1:{closed.server_port}/pairs.zip"
    file = download.FILES[PATH]
    monkeypatch.setitem(download.FILES, PATH, dataclasses.replace(file, url=nobody))
    with pytest.raises(DataError) as refused:
        download.read(PATH)
    for word in (
        f"cannot download {nobody}: there is no connection",
        f"Without a network, copy {MEMBER} of this archive to folder/pairs.txt",
        "ATTENTIVELY_DATA",
    ):
        assert word in str(refused.value)
    assert left_in_the_cache(tmp_path) == []


@pytest.mark.parametrize("compressed", [False, True])
def test_a_folder_of_your_own_comes_first(server, tmp_path, monkeypatch, compressed):
    path = tmp_path / "mine" / ("folder/pairs.txt" + ".gz" * compressed)
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(TEXT.encode(), mtime=0) if compressed else TEXT.encode())
    monkeypatch.setenv(download.VARIABLE, str(tmp_path / "mine"))
    assert download.find(PATH) == path
    assert download.read(PATH) == TEXT
    assert server.ranges == []


@pytest.mark.parametrize("content", [b"", b"other text", gzip.compress(b"other text", mtime=0)])
def test_a_damaged_file_of_your_own_is_refused_and_left_alone(
    server, tmp_path, monkeypatch, content
):
    path = tmp_path / "mine" / "folder" / "pairs.txt.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    monkeypatch.setenv(download.VARIABLE, str(tmp_path / "mine"))
    with pytest.raises(
        DataError,
        match=r"pairs\.txt\.gz is damaged: its checksum differs from that of folder/pairs",
    ):
        download.read(PATH)
    assert path.read_bytes() == content
    assert server.ranges == []


def test_a_folder_without_the_file_is_passed_over(server, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv(download.VARIABLE, str(tmp_path / "mine"))
    assert download.read(PATH) == TEXT


def test_a_folder_that_is_not_there_is_a_mistake(server, tmp_path, monkeypatch):
    monkeypatch.setenv(download.VARIABLE, str(tmp_path / "nowhere"))
    for use in (download.read, download.find):
        with pytest.raises(DataError, match=r"ATTENTIVELY_DATA=.*nowhere is not a folder"):
            use(PATH)
    assert server.ranges == []


@pytest.mark.parametrize("suffix", [".gz", ""])
@pytest.mark.parametrize(
    "content", [b"", b"other text", gzip.compress(TEXT.encode(), mtime=0)[:-9]]
)
def test_a_damaged_copy_in_the_cache_is_fetched_again(server, cached, content, suffix):
    damaged = cached.with_suffix(suffix)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(content)
    assert download.read(PATH) == TEXT
    assert len(server.ranges) == 1
    assert download.read(PATH) == TEXT
    assert len(server.ranges) == 1


def test_an_archive_left_by_a_killed_process_is_no_trap(server, tmp_path):
    (tmp_path / "cache").mkdir()
    name = hashlib.sha256(server.url.encode()).hexdigest()[:16]
    (tmp_path / "cache" / f"{name}.zip").write_bytes(BAD)
    assert download.read(PATH) == TEXT
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


def test_two_at_once_download_it_once(server, tmp_path):
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(download.read(PATH))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [TEXT] * 3
    assert server.ranges == [None]


def test_damage_anywhere_in_an_archive_is_damage(server, tmp_path):
    file = download.FILES[PATH]
    path = tmp_path / "pairs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(MEMBER, TEXT)
    good = path.read_bytes()
    assert download._unpack(path, file) == TEXT
    places = [*range(80), *range(len(good) // 2, len(good) // 2 + 20), *range(-120, 0)]
    for place in places:
        damaged = bytearray(good)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        assert download._unpack(path, file) in (None, TEXT)
        path.write_bytes(good[:place])
        assert download._unpack(path, file) is None


def packed_as(kind):
    """Return the text as it may stand at an address that ends so."""
    if kind == ".zip":
        return GOOD
    if kind == ".gz":
        return gzip.compress(TEXT.encode(), mtime=0)
    if kind == ".tar.gz":
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w:gz") as file:
            for name, content in [("readme.txt", b"not this one"), (MEMBER, TEXT.encode())]:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                file.addfile(entry, io.BytesIO(content))
        return stream.getvalue()
    return TEXT.encode()


@pytest.mark.parametrize("kind", [".zip", ".gz", ".tar.gz", ".txt", ""])
def test_whatever_it_is_packed_in(server, tmp_path, cached, monkeypatch, kind):
    file = dataclasses.replace(download.FILES[PATH], url=server.url.replace(".zip", kind))
    monkeypatch.setitem(download.FILES, PATH, file)
    good = packed_as(kind)
    server.answers = [good[: len(good) // 2], good]  # a damaged one first
    assert download.read(PATH) == TEXT
    assert len(server.ranges) == 2
    assert gzip.decompress(cached.read_bytes()) == TEXT.encode()
    assert left_in_the_cache(tmp_path) == ["pairs.txt.gz"]


def test_a_folder_in_a_tar_file_is_no_text(server, tmp_path):
    path = tmp_path / "pairs.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        folder = tarfile.TarInfo(MEMBER)
        folder.type = tarfile.DIRTYPE
        file.addfile(folder)
    assert download._unpack(path, download.FILES[PATH]) is None


def test_what_is_here_is_checked(server, tmp_path, monkeypatch):
    mine = tmp_path / "mine" / PATH
    mine.parent.mkdir(parents=True)
    monkeypatch.setenv(download.VARIABLE, str(tmp_path / "mine"))
    file = download.FILES[PATH]
    assert download.check("pairs") == [(file, None, "missing")]
    mine.write_text(TEXT, encoding="utf-8")
    assert download.check("pairs") == [(file, mine, "present")]
    assert download.check(PATH) == [(file, mine, "present")]
    mine.write_text(TEXT[:-1], encoding="utf-8")
    assert download.check("pairs") == [(file, mine, "damaged")]
    assert server.ranges == []


def test_a_name_is_a_sets_or_a_files(server):
    assert download.files_of("pairs") == download.files_of(PATH) == (download.FILES[PATH],)


def test_an_unknown_name_lists_those_there_are(server):
    for function in (download.files_of, download.check):
        with pytest.raises(DataError, match="no data set is called 'nope': choose one of pairs"):
            function("nope")
    for function in (download.find, download.read, download.fetch):
        with pytest.raises(
            DataError, match="no data file is called 'pairs': choose one of folder/pai"
        ):
            function("pairs")
