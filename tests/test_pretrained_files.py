"""The files of pretrained models: listed with their checksums, and downloaded where not shipped."""

import hashlib
import http.server
import importlib.metadata
import json
import socket
import threading

import pytest
import ship_checkpoint

from attentively import pretrained_files
from attentively.pretrained_files import DownloadError

CONTENT = b"the parameters of a model" * 10_000  # several blocks of a download


def checksum(content):
    return hashlib.sha256(content).hexdigest()


def test_every_file_is_listed_with_its_checksum():
    folder = pretrained_files.FOLDER
    lines = (folder / "registry.txt").read_text().splitlines()
    listed = dict(line.split() for line in lines)
    found = {
        path.relative_to(folder).as_posix(): checksum(path.read_bytes())
        for path in folder.rglob("*.safetensors")
    }
    assert listed == found
    assert lines == sorted(lines)


def test_the_table_of_models_is_that_of_their_files():
    assert json.loads(pretrained_files.TABLE.read_text()) == [*ship_checkpoint.rows()]


def test_names_are_those_of_one_folder(monkeypatch, tmp_path):
    (tmp_path / "registry.txt").write_text("b.safetensors 0\nv/c.safetensors 0\na.safetensors 0\n")
    monkeypatch.setattr(pretrained_files, "FOLDER", tmp_path)
    assert pretrained_files.names("") == ["a", "b"]
    assert pretrained_files.names("v/") == ["c"]


@pytest.fixture
def small(monkeypatch, tmp_path):
    """An installation without the file; return its folder, and the cache of downloads."""
    folder, cache = tmp_path / "package", tmp_path / "cache"
    folder.mkdir()
    (folder / "registry.txt").write_text(f"v/m.safetensors {checksum(CONTENT)}\n")
    monkeypatch.setattr(pretrained_files, "FOLDER", folder)
    monkeypatch.setattr("pooch.os_cache", lambda _: cache)
    monkeypatch.delenv(pretrained_files.VARIABLE, raising=False)
    return folder, cache


@pytest.fixture
def server(monkeypatch):
    """A repository at an address that the package names.

    Return what was asked, the answer (status, content, number of bytes that never arrive), and
    the header Range of each request.
    """
    asked, answer, ranges = [], [200, CONTENT, 0], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            ranges.append(self.headers["Range"])
            first = int((ranges[-1] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if first else answer[0])
            self.send_header("Content-Length", str(len(answer[1]) - first))
            self.end_headers()
            self.wfile.write(answer[1][first : len(answer[1]) - answer[2]])

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        name_address(monkeypatch, f"http://127.0.0.1:{listening.server_port}/a/b")
        yield asked, answer, ranges
        listening.shutdown()
        thread.join()


def name_address(monkeypatch, *urls):
    about = importlib.metadata.metadata("attentively")
    del about["Project-URL"]
    about["Project-URL"] = "Issues, http://127.0.0.1/issues"
    for url in urls:
        about["Project-URL"] = f"Repository, {url}"
    del about["Version"]
    about["Version"] = "7.5"
    monkeypatch.setattr("importlib.metadata.metadata", lambda _: about)


def test_a_file_of_the_package_is_not_downloaded(small, server):
    (small[0] / "v").mkdir()
    (small[0] / "v" / "m.safetensors").touch()
    assert pretrained_files.find("v/m.safetensors") == small[0] / "v" / "m.safetensors"
    assert server[0] == []


def test_it_is_downloaded_once(small, server):
    found = pretrained_files.find("v/m.safetensors")
    assert found.read_bytes() == CONTENT
    assert found.is_relative_to(small[1] / "pretrained")
    assert pretrained_files.find("v/m.safetensors") == found
    assert server[0] == ["/a/b/raw/v7.5/src/attentively/pretrained/v/m.safetensors"]


def test_a_damaged_copy_is_downloaded_again(small, server):
    found = pretrained_files.find("v/m.safetensors")
    found.write_bytes(CONTENT[:-1])
    assert pretrained_files.find("v/m.safetensors").read_bytes() == CONTENT
    assert len(server[0]) == 2


def test_another_file_is_refused_and_not_kept(small, server):
    server[1][1] = CONTENT[:-1] + b"?"
    message = r"checksum of http://.*m\.safetensors is wrong.*login page.*copy the file to"
    with pytest.raises(DownloadError, match=message):
        pretrained_files.find("v/m.safetensors")
    assert not [path for path in small[1].rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_an_interrupted_download_is_resumed(small, server, capsys):
    server[1][2] = 3
    with pytest.raises(DownloadError, match=r"the connection was interrupted.*try again"):
        pretrained_files.find("v/m.safetensors")
    assert "%" not in capsys.readouterr().err  # no progress bar next to the message
    server[1][2] = 0
    assert pretrained_files.find("v/m.safetensors").read_bytes() == CONTENT
    first, second = server[2]
    assert first is None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) < len(CONTENT)
    assert not [*small[1].rglob("*.part")]


def test_a_server_that_cannot_be_reached_is_named(small, server, monkeypatch):
    with socket.socket() as unused:  # bound and not listening
        unused.bind(("127.0.0.1", 0))
        name_address(monkeypatch, f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(DownloadError, match=r"127\.0\.0\.1.*no connection to the server.*"):
            pretrained_files.find("v/m.safetensors")


def test_an_error_of_the_server_is_explained(small, server):
    server[1][0] = 404
    message = r"cannot download http://.*the server answers 404 Not Found.*ATTENTIVELY_DATA"
    with pytest.raises(DownloadError, match=message):
        pretrained_files.find("v/m.safetensors")


def test_a_folder_of_your_own_replaces_the_network(small, server, monkeypatch, tmp_path):
    own = tmp_path / "data" / "pretrained" / "v" / "m.safetensors"
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT)
    monkeypatch.setenv(pretrained_files.VARIABLE, str(tmp_path / "data"))
    assert pretrained_files.find("v/m.safetensors") == own
    assert server[0] == []


def test_without_an_address_nothing_is_tried(small, monkeypatch):
    name_address(monkeypatch)
    with pytest.raises(
        DownloadError, match=r"not part of this installation, and the package names no"
    ):
        pretrained_files.find("v/m.safetensors")
