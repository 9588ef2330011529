"""The published results: where they are, and how pages state them."""

import json
from pathlib import Path

import pytest

from attentively.experiments import published
from attentively.experiments.published import spread

RESULTS = Path(__file__).parents[2] / "book" / "results"


def test_every_file_of_the_book_is_found_by_its_name():
    names = {path.stem for path in RESULTS.glob("*.json")}
    assert {"bottleneck", "word-vectors", "ladder-multi30k-de-en"} <= names
    for name in names:
        file = RESULTS / f"{name}.json"
        assert published.load(name) == json.loads(file.read_text(encoding="utf-8"))


def test_an_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"'bottlneck'; there are .*bottleneck, .*word-vectors"):
        published.load("bottlneck")


def test_an_installed_package_has_them_inside(tmp_path, monkeypatch):
    """The folder that is found first wins; where there is none, both are named."""
    monkeypatch.setattr(published, "FOLDERS", (tmp_path / "in_the_package", tmp_path / "book"))
    with pytest.raises(ValueError, match=r"neither \S+in_the_package nor \S+book exists"):
        published.load("small")
    for folder, content in zip(published.FOLDERS, ("1", "2"), strict=True):
        folder.mkdir()
        (folder / "small.json").write_text(content)
    assert published.load("small") == 1


def test_mean_lowest_and_highest_in_the_wanted_form():
    assert spread([0.5, 0.75, 0.7]) == "0.65 (0.50–0.75)"
    assert spread((number for number in (3, 1, 8)), "{:.0f}") == "4 (1–8)"
    assert spread([0.8], "{:.0%}") == "80% (80%–80%)"


def test_no_numbers_are_refused():
    with pytest.raises(ValueError, match="at least one value"):
        spread([])
