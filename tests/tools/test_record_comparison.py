"""tools/record_comparison.py: the runs that assignment 19 compares can be recorded anew."""

import importlib.util

import torch
from notebook_tools import ROOT

from attentively.data import toy
from attentively.data.toy.lexicon import VERBS
from attentively.tokens.vocabulary import Vocabulary, WordTokenizer

PATH = ROOT / "tools" / "record_comparison.py"
spec = importlib.util.spec_from_file_location("record_comparison", PATH)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_the_label_is_the_tense_of_the_first_verb():
    tokenizer = WordTokenizer(Vocabulary(toy.words("src")))
    ids, labels = tool.examples("validation", 60, 0, tokenizer)
    assert 0.2 < labels.float().mean() < 0.8
    for row, label in zip(ids, labels.tolist(), strict=True):
        words = tokenizer.tokens(row.tolist())
        assert any(word in tool.PAST for word in words) or label == 0
        assert any(word in tool.PRESENT for word in words) or label == 1


def test_no_form_is_of_both_tenses():
    assert tool.PAST.isdisjoint(tool.PRESENT)
    assert not [verb.base for verb in VERBS if verb.base in tool.PAST]
    assert {"did", "drank"} <= tool.PAST
    assert {"does", "drinks"} <= tool.PRESENT


def test_a_short_recording_has_all_its_rows(tmp_path, monkeypatch):
    """On few sentences."""
    load = toy.load
    monkeypatch.setattr(toy, "load", lambda split, n, **how: load(split, min(n, 50), **how))
    monkeypatch.setattr(tool, "FILE", tmp_path / "rows.json")
    monkeypatch.setattr(tool, "LABELS", (4,))
    monkeypatch.setattr(tool, "SEEDS", (1,))
    tool.main(2)
    assert (tmp_path / "rows.json").read_text(encoding="utf-8").count("validation") == 2 * 2 * 4
    assert torch.get_num_threads() == 1
