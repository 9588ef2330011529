"""Every data set says what it is, where it is from, and under which licence."""

import re

import pytest

from attentively.data import download
from attentively.data.catalogue import FILES, SETS


def test_every_set_says_what_a_checkpoint_must():
    for name, data_set in SETS.items():
        assert data_set.name == name
        assert data_set.about
        assert data_set.files
        assert data_set.licence
        assert data_set.attribution


def test_every_file_has_an_address_and_a_checksum():
    for path, file in FILES.items():
        assert file.path == path
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.size > 0
        assert file.url.startswith("https://")
        assert bool(file.member) == file.url.endswith((".zip", ".tar.gz"))


def test_an_address_is_of_one_version_for_ever():
    for file in FILES.values():
        assert re.search("/[0-9a-f]{40}/", file.url), file.url


def test_no_two_files_are_one():
    assert len({file.sha256 for file in FILES.values()}) == len(FILES)
    assert len({file.url for file in FILES.values()}) == len(FILES)


def test_a_set_of_two_languages_has_both_sides_of_every_split():
    for name in ("multi30k-en-de", "multi30k-en-fr", "multi30k-de-fr"):
        paths = [file.path for file in SETS[name].files]
        assert len(paths) == 8
        for language in name.split("-")[1:]:
            assert sum(path.endswith(f".{language}") for path in paths) == 4


@pytest.mark.real_data
@pytest.mark.parametrize("name", sorted(SETS))
def test_the_real_files_are_the_ones_meant(name):
    for file, path, state in download.check(name):
        assert state == "present", path
        assert len(download.read(file.path).encode()) == file.size


@pytest.mark.real_data
def test_the_numbers_in_the_descriptions():
    lines = {path: download.read(path).count("\n") for path in FILES}
    assert lines["tatoeba/fra.txt"] == 167_130
    assert lines["tatoeba/spa.txt"] == 118_964
    assert sum(lines[file.path] for file in SETS["multi30k-en-de"].files) == 2 * 32_014
    assert lines["tinyshakespeare/input.txt"] == 40_000
    assert sum(lines[file.path] for file in SETS["sentiment"].files) == 3_000
    assert lines["word_eval/questions-words.txt"] == 19_544 + 14  # and a line for each section
    assert lines["word_eval/wordsim353.tsv"] == 353 + 2  # and two lines of heading
