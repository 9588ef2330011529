"""tools/record_profiles.py: the profiles that assignment 20 reads can be recorded anew."""

import importlib.util
import time

import torch
from assignments import Assignment
from notebook_tools import ROOT

from attentively.checks.faster import recorded_profiles
from attentively.checks.recordings import load_questions

own_times = load_questions(Assignment("20_faster").questions).own_times
spec = importlib.util.spec_from_file_location("record_profiles", ROOT / "tools/record_profiles.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def test_what_is_recorded_is_nested_and_as_long_as_it_takes():
    a = torch.randn(300, 300)

    def step():
        torch.softmax(a @ a, dim=-1)
        time.sleep(0.01)
        a.exp()

    events = [(name, float(begin), float(end)) for name, begin, end in tool.recorded(step)]
    assert {"aten::matmul", "aten::mm", "aten::softmax", "aten::exp"} <= {e[0] for e in events}
    times = own_times(events)
    assert min(times.values()) >= 0
    assert 100_000 <= times["idle"] < 1_000_000  # tenths of microseconds
    assert times["aten::mm"] > times["aten::matmul"]


def test_the_profiles_that_ship_differ_in_their_bottlenecks():
    own = {k: own_times(v) for k, v in recorded_profiles.profiles().items()}
    most = {letter: max(times, key=times.get) for letter, times in own.items()}
    assert list(own) == list(tool.SETTINGS)
    assert most == {"A": "aten::bmm", "B": "aten::sqrt", "C": "idle"}
    assert own["C"]["idle"] > tool.SETTINGS["C"]["wait"]
