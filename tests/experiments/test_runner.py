"""Experiments: every condition with every seed, resumed where they stopped."""

import json
from collections import Counter

import pytest
from experiments.quick_forms import published

from attentively import experiments
from attentively.experiments.runner import Experiment, run

CONDITIONS = [{"kind": "one", "size": 3}, {"kind": "two", "size": 3}]


def counting(calls: Counter, fail_at: int | None = None) -> Experiment:
    """Return an experiment that counts its measurements, and fails at one of them."""

    def measure(kind, size, seed, quick, directory):
        calls[kind, seed] += 1
        if calls.total() == fail_at:
            raise KeyboardInterrupt
        return {"score": size * seed + len(kind), "directory": directory.name}

    return Experiment("counting", "How many?", CONDITIONS, measure)


def test_every_condition_meets_every_seed_once(tmp_path):
    calls = Counter()
    content = run(counting(calls), tmp_path / "r.json", tmp_path, seeds=5, progress=False)
    assert set(calls) == {(kind, seed) for kind in ("one", "two") for seed in range(5)}
    assert set(calls.values()) == {1}
    assert json.loads((tmp_path / "r.json").read_text()) == content
    assert len({row["directory"] for row in content["rows"]}) == 10  # no run writes over another
    assert all(row["score"] == 3 * row["seed"] + 3 for row in content["rows"])


def test_a_stopped_run_goes_on_and_repeats_nothing(tmp_path):
    calls = Counter()
    with pytest.raises(KeyboardInterrupt):
        run(counting(calls, fail_at=4), tmp_path / "r.json", tmp_path, seeds=3, progress=False)
    assert len(json.loads((tmp_path / "r.json").read_text())["rows"]) == 3
    stopped = Counter()
    content = run(counting(stopped), tmp_path / "r.json", tmp_path, seeds=3, progress=False)
    assert stopped.total() == 3
    whole = run(counting(Counter()), tmp_path / "w.json", tmp_path, seeds=3, progress=False)
    assert [row | {"seconds": 0} for row in content["rows"]] == [
        row | {"seconds": 0} for row in whole["rows"]
    ]


def test_a_finished_run_measures_nothing(tmp_path):
    run(counting(Counter()), tmp_path / "r.json", tmp_path, seeds=2, progress=False)
    before = (tmp_path / "r.json").read_bytes()
    calls = Counter()
    run(counting(calls), tmp_path / "r.json", tmp_path, seeds=2, progress=False)
    assert not calls
    assert (tmp_path / "r.json").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quick": True}, "quick=True, .* quick=False"),
        ({"experiment": "other"}, "experiment='other', .* experiment='counting'"),
        ({"versions": {"torch": "0"}}, "versions"),
    ],
)
def test_rows_of_another_run_are_not_mixed_in(tmp_path, change, message):
    content = run(counting(Counter()), tmp_path / "r.json", tmp_path, seeds=1, progress=False)
    (tmp_path / "r.json").write_text(json.dumps(content | change))
    with pytest.raises(ValueError, match=message) as caught:
        run(counting(Counter()), tmp_path / "r.json", tmp_path, seeds=1, progress=False)
    # Otherwise the checkpoints in the folder would be resumed.
    assert f"move the file and the folder {tmp_path}/ away" in str(caught.value)
    assert str(tmp_path / "r.json") in str(caught.value)


def listed(score: int, **said: str) -> Experiment:
    """Return an experiment whose file is a list of rows, which say `said`."""

    def measure(kind, size, seed, quick, directory):
        return {"score": score, **said}

    return Experiment("listed", "How many?", CONDITIONS, measure, listed=True, said=said)


def test_rows_of_other_data_are_not_mixed_in(tmp_path):
    output = tmp_path / "r.json"
    run(listed(3, data="one"), output, tmp_path, seeds=1, progress=False)
    before = output.read_bytes()
    with pytest.raises(
        ValueError, match=r"rows with data='one', .* data='two': to start again, move"
    ):
        run(listed(5, data="two"), output, tmp_path, seeds=1, progress=False)
    assert output.read_bytes() == before
    run(listed(5, data="one"), output, tmp_path, seeds=1, progress=False)  # all is there
    assert output.read_bytes() == before


@pytest.mark.parametrize("content", ["5", "null", "[5]", "{}", '"rows"'])
@pytest.mark.parametrize("experiment", [counting(Counter()), listed(3)])
def test_what_is_no_row_is_refused(tmp_path, experiment, content):
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(
        ValueError, match=r"is not a results file of|contains rows with experiment=None"
    ):
        run(experiment, tmp_path / "r.json", tmp_path, seeds=1, progress=False)


def test_a_file_that_is_no_result_is_refused_and_left(tmp_path):
    (tmp_path / "r.json").write_text("half a fi")
    with pytest.raises(ValueError, match="is not a results file"):
        run(counting(Counter()), tmp_path / "r.json", tmp_path, progress=False)
    assert (tmp_path / "r.json").read_text() == "half a fi"


def test_at_least_one_seed(tmp_path):
    with pytest.raises(ValueError, match="seeds=0"):
        run(counting(Counter()), tmp_path / "r.json", tmp_path, seeds=0)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(
        ValueError, match=r"no experiment is called 'x': choose one of .*bottleneck"
    ):
        experiments.find("x")


@pytest.mark.parametrize("name", sorted(experiments.EXPERIMENTS))
def test_the_published_results_are_of_a_full_run(name):
    kept = published(name)
    experiment = experiments.find(name)
    assert kept["quick"] is False
    assert kept["question"] == experiment.question
    seeds = {row["seed"] for row in kept["rows"]}
    assert len(seeds) >= 3
    asked = [condition | {"seed": seed} for seed in seeds for condition in experiment.conditions]
    for condition in asked:
        assert any(row.items() >= condition.items() for row in kept["rows"]), condition
