"""``attentively data``: what is here, how large, and whether it is whole."""

import gzip
import hashlib

import pytest
from typer.testing import CliRunner

from attentively.cli import data
from attentively.data import download
from attentively.data.catalogue import SETS, DataFile, DataSet
from attentively.data.download import DataError

TEXTS = {f"tiny/{language}.txt": f"{language}\n" * 1234 for language in ("en", "fr")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of one's own, and a catalogue of one set with two files."""
    files = tuple(
        DataFile(path, hashlib.sha256(text.encode()).hexdigest(), len(text), f"https://x/{path}")
        for path, text in TEXTS.items()
    )
    sets = {"tiny": DataSet("tiny", "two files", files, "CC0", "nobody")}
    monkeypatch.setattr(download, "FILES", {file.path: file for file in files})
    monkeypatch.setattr(download, "SETS", sets)
    monkeypatch.setattr(data, "SETS", sets)
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setenv(download.VARIABLE, str(tmp_path))
    (tmp_path / "tiny").mkdir()
    return tmp_path / "tiny"


@pytest.fixture
def attentively_data():
    """Run a command; return its exit code, and what it wrote to stdout and stderr."""

    def run(*arguments):
        done = CliRunner().invoke(data.app, arguments, catch_exceptions=False)
        return done.exit_code, done.stdout, done.stderr

    return run


def test_listing(attentively_data, folder):
    code, out, _ = attentively_data("list")
    assert code == 0
    for said in (
        "tiny: two files",
        "CC0; nobody",
        "not downloaded: run `attentively data get tiny` (7 kB",
    ):
        assert said in out
    (folder / "en.txt").write_text(TEXTS["tiny/en.txt"])
    _, out, _ = attentively_data("list")
    assert f"1 of 2 files in {folder}, 4 kB; for the others run `attentively data get tiny`" in out
    (folder / "fr.txt.gz").write_bytes(gzip.compress(TEXTS["tiny/fr.txt"].encode()))
    _, out, _ = attentively_data("list")
    assert f"downloaded: 2 files in {folder}, 4 kB" in out
    assert "attentively data get" not in out


def test_listing_everything(attentively_data, monkeypatch):
    monkeypatch.setattr(download, "find", lambda path: None)
    code, out, _ = attentively_data("list")
    assert code == 0
    for name, data_set in SETS.items():
        assert f"`attentively data get {name}` (" in out
        assert data_set.licence in out
        assert data_set.attribution in out


def test_getting(attentively_data, folder):
    for path, text in TEXTS.items():
        (folder.parent / path).write_text(text)
    code, out, _ = attentively_data("get", "tiny")
    assert code == 0
    for path in TEXTS:
        assert f"{path}: 1,234 lines, checksum correct, {folder.parent / path}" in out
    code, out, _ = attentively_data("get", "tiny/fr.txt")
    assert (code, out.count("checksum correct")) == (0, 1)


def test_checking(attentively_data, folder):
    for arguments in ([], ["tiny"]):
        code, out, _ = attentively_data("check", *arguments)
        assert (code, out.splitlines()) == (0, ["missing  tiny/en.txt", "missing  tiny/fr.txt"])
    (folder / "en.txt").write_text(TEXTS["tiny/en.txt"])
    (folder / "fr.txt").write_text("tampered with")
    code, out, err = attentively_data("check")
    assert code == 1
    assert out.splitlines() == [
        f"present  {folder / 'en.txt'}",
        f"damaged  {folder / 'fr.txt'}",
    ]
    assert "damaged: tiny/fr.txt; delete the files, then run `attentively data get`" in err
    code, _, _ = attentively_data("check", "tiny/en.txt")
    assert code == 0


@pytest.mark.parametrize("command", ["get", "check"])
def test_an_unknown_name_lists_what_there_is(attentively_data, command):
    with pytest.raises(
        DataError, match=r"no data set is called 'nope': choose one of .*tatoeba-en"
    ):
        attentively_data(command, "nope")


@pytest.mark.parametrize("command", ["list", "get", "check"])
def test_help_has_an_example(attentively_data, command):
    code, out, _ = attentively_data(command, "--help")
    assert code == 0
    assert f"attentively data {command}" in out
