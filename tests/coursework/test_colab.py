"""Handing in from Google Colab, which is simulated here: its modules are replaced."""

import json
import sys
import types
import zipfile

import pytest
from notebook_tools import small_notebook, with_source

from attentively.coursework import colab


@pytest.fixture
def google(monkeypatch):
    """Simulate Colab; `answer` is its answer, `downloads` are the files that it was given."""
    answer, downloads = {}, []
    here = types.ModuleType("google.colab")
    here._message = types.SimpleNamespace(blocking_request=lambda name, timeout_sec: answer[name])
    here.files = types.SimpleNamespace(download=downloads.append)
    monkeypatch.setitem(sys.modules, "google", types.ModuleType("google"))
    monkeypatch.setitem(sys.modules, "google.colab", here)
    return types.SimpleNamespace(answer=answer, downloads=downloads)


def test_the_open_notebook_is_packed_and_downloaded(google, tmp_path, capsys):
    notebook = with_source(small_notebook(), "part-1", "def part_1():\n    return 41")
    google.answer["get_ipynb"] = {"ipynb": json.loads(json.dumps(notebook))}
    packed = colab.hand_in("small", "ada", tmp_path)
    assert google.downloads == [str(packed)]
    assert packed.name == "small-ada.zip"
    with zipfile.ZipFile(packed) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        sent = json.loads(archive.read("ada/small/small.ipynb"))
    assert names == {"ada/small/small.ipynb", "ada/small/timestamp.txt"}
    assert "return 41" in json.dumps([cell["source"] for cell in sent["cells"]])
    assert "Packed small-ada.zip" in capsys.readouterr().out


def test_a_second_submission_replaces_the_first(google, tmp_path):
    google.answer["get_ipynb"] = {"ipynb": small_notebook()}
    colab.hand_in("small", "ada", tmp_path)
    changed = with_source(small_notebook(), "part-1", "def part_1():\n    return 42")
    google.answer["get_ipynb"] = {"ipynb": changed}
    packed = colab.hand_in("small", "ada", tmp_path)
    with zipfile.ZipFile(packed) as archive:
        assert b"return 42" in archive.read("ada/small/small.ipynb")


def test_an_invalid_name_is_refused_before_the_download(google, tmp_path):
    google.answer["get_ipynb"] = {"ipynb": small_notebook()}
    with pytest.raises(ValueError, match="YOUR NAME"):
        colab.hand_in("small", "YOUR NAME", tmp_path)
    assert google.downloads == []


def test_without_an_answer_of_colab_the_menu_is_named(google, tmp_path):
    google.answer["get_ipynb"] = None
    with pytest.raises(RuntimeError, match=r"Download \.ipynb"):
        colab.hand_in("small", "ada", tmp_path)


def test_elsewhere_the_command_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="attentively submit"):
        colab.hand_in("small", "ada", tmp_path)
