"""Corpora by name."""

import inspect

import pytest

from attentively.data import corpora, download


def test_every_corpus_has_what_a_checkpoint_must_say():
    assert corpora.CORPORA
    for name, corpus in corpora.CORPORA.items():
        assert corpora.find(name) is corpus
        assert corpus.name == name
        assert corpus.licence
        assert corpus.attribution
        assert list(inspect.signature(corpus.load).parameters) == ["split"]


def test_a_downloaded_corpus_goes_by_the_name_of_its_file():
    assert set(download.FILES) <= set(corpora.CORPORA)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(ValueError, match=r"no corpus is called 'klingon'; there are .*tatoeba-en"):
        corpora.find("klingon")


@pytest.mark.parametrize("name", sorted(corpora.CORPORA))
def test_an_unknown_split_is_refused(name):
    with pytest.raises(ValueError, match="split='dev' is unknown: choose"):
        corpora.find(name).load("dev")
