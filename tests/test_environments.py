"""The files for Binder, Codespaces, containers and workflows: valid, and of one mind.

None of these services can be reached by a test. What can be checked is that each file can be read,
and that the commands, paths, extras and versions in it exist.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DOCKERFILE = ROOT / ".devcontainer" / "Dockerfile"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def lines(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def extras(requirement):
    found = re.search(r"\[([\w,-]+)\]", requirement)
    return set(found[1].split(",")) if found else set()


def test_the_student_extra_needs_no_builder_of_books():
    wanted = PYPROJECT["project"]["optional-dependencies"]
    assert {"jupyterlab", "nbclient", "nbformat", "ipykernel"} <= set(wanted["student"])
    assert not [name for name in wanted["student"] if re.match("sphinx|jupyter-book|attent", name)]
    assert "attentively[student]" in wanted["book"]  # the tests run what a student runs


def test_binder_installs_the_student_extra_at_the_pinned_versions():
    options, constraints, package = lines(".binder/requirements.txt")
    assert options.startswith("--extra-index-url https://")
    assert (ROOT / ".binder" / constraints.removeprefix("-c ")).resolve() == (
        ROOT / "constraints.txt"
    )
    assert package.startswith("-e .[")  # repo2docker installs in the repository's root
    assert extras(package) <= set(PYPROJECT["project"]["optional-dependencies"])


def supported():
    return {
        name.rpartition(" :: ")[2]
        for name in PYPROJECT["project"]["classifiers"]
        if re.search(r"Python :: 3\.\d+$", name)
    }


def test_every_python_is_supported():
    [binder] = lines(".binder/runtime.txt")
    [image] = re.findall(r"^FROM python:(3\.\d+)-", DOCKERFILE.read_text(), re.M)
    used = {binder.removeprefix("python-"), image}
    for path in WORKFLOWS:
        used |= set(re.findall(r'"(3\.\d+)"', path.read_text(encoding="utf-8")))
    assert used <= supported()
    assert "3.10" not in supported()


def test_what_binder_runs_after_the_installation(tmp_path):
    script = ROOT / ".binder" / "postBuild"
    assert script.stat().st_mode & 0o111, "repo2docker runs an executable file"
    for name in (".binder", "tools", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name)
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin"}
    subprocess.run([tmp_path / ".binder" / "postBuild"], cwd=tmp_path, env=environment, check=True)
    there = sorted(path.name for path in (tmp_path / "work").iterdir())
    assert there == sorted(path.name for path in (ROOT / "exercises").iterdir())


def apt_packages(text):
    """Return the packages that a Dockerfile installs."""
    [found] = re.findall(r"apt-get install -y --no-install-recommends \\?\s+([\w+ -]+)", text)
    return set(found.split())


def test_the_container_has_what_the_clean_machine_installs():
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    installed = {
        name for found in re.findall(r"missing\+=\(([^)]+)\)", run) for name in found.split()
    }
    assert len(installed) > 6
    assert apt_packages(DOCKERFILE.read_text()) == installed - {"python3", "python3-venv"}


def test_a_package_that_the_container_lacks_is_seen():
    text = DOCKERFILE.read_text()
    assert "make" not in apt_packages(text.replace(" git make", " git", 1))


def test_the_devcontainer_builds_that_image_and_its_commands_exist():
    content = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / content["build"]["dockerfile"]).is_file()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", content["postCreateCommand"]):
        assert re.search(rf"^{target}:", makefile, re.M)
    for script in re.findall(r"tools/\w+\.py", content["postCreateCommand"]):
        assert (ROOT / script).is_file()


def used(workflow):
    """Yield the commands of a workflow, line by line."""
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            yield from step.get("run", "").splitlines()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    text = "\n".join(used(workflow))
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", text):
        assert re.search(rf"^{target}:", makefile, re.M), target
    for script in re.findall(r"\btools/\w+\.py", text):
        assert (ROOT / script).is_file(), script
    needed = {each for job in workflow["jobs"].values() for each in [job.get("needs")] if each}
    assert needed <= set(workflow["jobs"])


def test_the_students_part_runs_on_the_three_systems():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    student = workflow["jobs"]["student"]
    systems = {name.partition("-")[0] for name in student["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "macos", "windows"}
    commands = "\n".join(step.get("run", "") for step in student["steps"])
    for command in ["start.py --only-set-up", "start.py progress", "start.py submit"]:
        assert command in commands


def test_a_release_has_the_file_that_colab_installs():
    commands = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "hatchling build -t wheel" in commands
    assert "gh release create" in commands


def test_the_readme_has_one_line_for_each_installer():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ["uv pip install", "pixi exec"]:
        assert command in readme
