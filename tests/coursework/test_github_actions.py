"""The workflow for students' repositories: its command on solved and unsolved notebooks."""

import shlex

import pytest
import yaml
from notebook_tools import ROOT, small_notebook, with_source, write

from attentively.cli import main

WORKFLOW = ROOT / "tools" / "github" / "points.yml"
UNSOLVED = "def part_2():\n    raise NotImplementedError"


def last_command():
    """Return the workflow's last command, for the small assignment."""
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    python, script, *arguments = shlex.split(job["steps"][-1]["run"])
    assert (python, script) == ("python", "start.py")  # which runs `attentively` in .venv
    assert (ROOT / "solutions" / arguments[1]).is_dir()
    return [arguments[0], "small", *arguments[2:]]


@pytest.mark.notebook
@pytest.mark.parametrize(("second", "points", "status"), [(None, 100, 0), (UNSOLVED, 60, 1)])
def test_the_workflow_reports_the_points(tmp_path, monkeypatch, capsys, second, points, status):
    notebook = small_notebook()
    if second:
        notebook = with_source(notebook, "part-2", second)
    write(notebook, tmp_path / "work" / "small" / "small.ipynb")
    summary = tmp_path / "summary.md"
    summary.write_text("of an earlier step\n\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setattr("sys.argv", ["attentively", *last_command()])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code or 0) == status
    assert f"::notice title=small::{points}/100 points" in capsys.readouterr().out.splitlines()[-1]
    table = [line.strip("| ").split(" | ") for line in summary.read_text().splitlines()[2:]]
    cells = [[cell.strip() for cell in row] for row in table]
    assert cells[0] == ["small", "result", "points"]
    assert cells[3] == ["Part 2 · Number", "wrong" if status else "solved", f"{points - 60}/40"]
    assert cells[4][-1] == f"{points}/100"


@pytest.mark.notebook
def test_without_the_option_the_exit_status_is_0(tmp_path, monkeypatch, capsys):
    unsolved = with_source(small_notebook(), "part-2", UNSOLVED)
    write(unsolved, tmp_path / "work" / "small" / "small.ipynb")
    monkeypatch.setattr("sys.argv", ["attentively", "progress", "small"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert "::notice" not in capsys.readouterr().out
