"""tools/record_runs.py: the runs that assignment 16 asks to diagnose can be recorded anew."""

import importlib.util
import json

from notebook_tools import ROOT

from attentively.checks.training_the_transformer import recorded_runs
from attentively.data import toy

spec = importlib.util.spec_from_file_location("record_runs", ROOT / "tools" / "record_runs.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_a_quick_recording_looks_like_the_one_that_ships(tmp_path, monkeypatch):
    """On few sentences."""
    load = toy.load
    monkeypatch.setattr(tool.toy, "load", lambda split, n, **how: load(split, min(n, 50), **how))
    path = tmp_path / "runs.json"
    assert tool.main(["--quick", "--target", str(path)]) == 0
    runs = json.loads(path.read_text(encoding="utf-8"))
    assert [run["fault"] for run in runs] == list(recorded_runs.SIGNS) == list(tool.FAULTS)
    shipped = recorded_runs.runs_of(0)
    assert len(shipped) == len(tool.SETTINGS) * len(tool.FAULTS)
    assert {tuple(row) for run in runs for row in run["log"]} == {tuple(shipped[0][1][0])}
    first = {run["fault"]: run["log"][0]["train_loss"] for run in runs}
    assert first["no target shift"] != first["none"] != first["padding in the loss"]


def test_what_the_settings_and_the_logs_say_agrees():
    steps = [log[-1]["step"] for _, log in recorded_runs.runs_of(0)]
    expected = [settings["steps"] for settings in tool.SETTINGS for _ in tool.FAULTS]
    assert steps == expected
