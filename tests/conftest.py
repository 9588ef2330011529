"""What every test gets: shapes checked at run time, fixed seeds, one thread, the CPU."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import torch

import attentively_grader  # noqa: F401  first: it makes the import of nbformat a second shorter

# Before anything imports the package: from here on a wrong shape anywhere is an error. The toy
# language has no tensors, and makes so many small calls that checking them takes minutes. The
# checks of the exercises annotate no shapes, and their import would take four times as long.
PACKAGE = Path(importlib.util.find_spec("attentively").origin).parent
WITHOUT_SHAPES = (PACKAGE / "data" / "toy", PACKAGE / "checks")
jaxtyping.install_import_hook(
    [
        ".".join(["attentively", *path.relative_to(PACKAGE).with_suffix("").parts])
        for path in PACKAGE.rglob("*.py")
        if not any(map(path.is_relative_to, WITHOUT_SHAPES))
    ],
    "shape_checks.check",
)

# Notebooks run in temporary folders, from which no course is found.
os.environ["COURSE_SOLUTIONS"] = str(Path(__file__).parents[1] / "solutions")

# The same run on every machine; a test of another device asks for it.
os.environ["ATTENTIVELY_DEVICE"] = "cpu"

from attentively.data import download  # noqa: E402

# The models here are so small that a second thread only gets in the way, in notebooks too.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

hypothesis.settings.register_profile("attentively", deadline=None, derandomize=True)
hypothesis.settings.load_profile("attentively")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """Return the package, built as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    built = subprocess.run(command, cwd=PACKAGE.parents[1], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """Return the folder into which the wheel is installed; its libraries are this environment's."""
    folder = tmp_path_factory.mktemp("installed")
    command = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder]
    subprocess.run([sys.executable, *command, wheel], check=True, capture_output=True)
    return folder


@pytest.fixture
def unchecked():
    """Switch the shape checks off, where our own message for the same mistake is tested."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_configure(config):
    from stamps import Stamps

    if hasattr(config, "cache"):
        config.pluginmanager.register(Stamps(config), "stamps")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep together, where tests run side by side, those that share what takes long to make."""
    from side_by_side import Sharing

    return Sharing(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Run one test more than there are cores: the grader's tests often wait for other programs."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


def pytest_runtest_setup(item):
    marker = item.get_closest_marker("real_data")
    missing = [] if marker is None else _missing_from_the_folder(marker.args or download.SETS)
    if missing:
        pytest.skip(
            f"needs real data: set {download.VARIABLE} to a folder that holds {', '.join(missing)}"
        )
    accelerator = torch.cuda.is_available() or hasattr(torch, "pretend")
    if item.get_closest_marker("gpu") is not None and not accelerator:
        pytest.skip("needs a GPU that PyTorch can use: none is here")


def _missing_from_the_folder(names):
    """Return the files of these data sets that do not lie in one's own folder."""
    folder = os.environ.get(download.VARIABLE)
    paths = {file.path for name in names for file in download.files_of(name)}
    found = {path: download.find(path) if folder else None for path in paths}
    return sorted(
        path for path, where in found.items() if where is None or not where.is_relative_to(folder)
    )
