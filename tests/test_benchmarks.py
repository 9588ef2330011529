"""Benchmarks run, compare like with like, and their results are below their targets."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(FOLDER.glob("*.py"))

pytestmark = pytest.mark.usefixtures("unchecked")


def load(path):
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results():
    return {path.name: path.read_bytes() for path in (FOLDER / "results").glob("*")}


def test_there_are_benchmarks():
    assert SCRIPTS


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_quick_form_runs_and_leaves_the_results_alone(path, capsys):
    before = results()
    rows = load(path).main(["--quick"])
    assert rows
    assert f"{rows[0]['ratio']:.3f}" in capsys.readouterr().out
    assert results() == before


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_quick_form_can_be_written_elsewhere(path, tmp_path):
    rows = load(path).main(["--quick", "--output", str(tmp_path / "new" / "result.json")])
    assert json.loads((tmp_path / "new" / "result.json").read_text())["rows"] == rows


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_full_run_was_made_and_met_its_target(path):
    content = json.loads((FOLDER / "results" / f"{path.stem}.json").read_text())
    assert content["rows"]
    for row in content["rows"]:
        assert row["ratio"] < content["target_ratio"], row["size"]["name"]
        assert row["size"]["name"] != "tiny"
    for said in ("command", "device", "versions"):
        assert content[said]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_readme_names_it(path):
    assert f"`python benchmarks/{path.name}`" in (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("part", ["W", "U", "v", "bridge", "readout", "embedding"])
def test_another_network_is_not_timed(part, monkeypatch):
    benchmark = load(FOLDER / "training_step.py")
    original = benchmark.in_plain_code

    def with_another_part(size, like):
        model, step = original(size, like)
        with torch.no_grad():
            getattr(model, part).weight.mul_(1.5)
        return model, step

    monkeypatch.setattr(benchmark, "in_plain_code", with_another_part)
    with pytest.raises(AssertionError, match="not the same network"):
        benchmark.measure(benchmark.TINY, 3)
