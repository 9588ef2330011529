"""The pretend device computes as the CPU does, and refuses what a GPU refuses.

A device stays registered with PyTorch for as long as the process, so the tests of
`pretend_device_properties` and of `test_other_devices` run in a process that has it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PRETEND = ROOT / "tests" / "pretend_device.py"


def on_the_device(*arguments):
    """Run tests in a process with the device; return the last line of what pytest says."""
    wanted = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    ended = subprocess.run(
        [sys.executable, str(PRETEND), *wanted],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
    return ended.stdout.splitlines()[-1]


def test_the_device_has_the_properties_of_a_gpu():
    assert " passed" in on_the_device("tests/pretend_device_properties.py")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_models_say_and_learn_the_same_on_the_device():
    said = on_the_device("tests/test_other_devices.py", "-k", "accelerator")
    assert "skipped" not in said


def test_elsewhere_the_device_is_unknown():
    ended = subprocess.run(
        [sys.executable, "-c", "from attentively import device; device.best()"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "ATTENTIVELY_DEVICE": "pretend"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ATTENTIVELY_DEVICE='pretend' is not a device" in ended.stderr
