"""On the clean machine a skipped test is a failed one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[1] / ".ci"

TESTS = """
import pytest

def test_skips(): pytest.skip("no browser")

@pytest.mark.browser
def test_skips_marked(): pytest.skip("no browser")

@pytest.mark.skip(reason="no browser")
def test_skips_by_mark(): pass

@pytest.mark.gpu
def test_gpu(): pytest.skip("no GPU")

@pytest.mark.real_data
def test_data(): pytest.skip("no data")

@pytest.mark.xfail
def test_known_fault(): raise ValueError

def test_good(): pass
"""


@pytest.mark.parametrize("data", [None, "data"])
def test_which_skips_fail(tmp_path, data):
    (tmp_path / "test_all.py").write_text(TESTS)
    (tmp_path / "test_module.py").write_text(
        "import pytest\n\npytest.skip('no browser', allow_module_level=True)\n"
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    gpu\n    real_data\n    browser\n"
    )
    variables = {"PYTHONPATH": str(CI), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
    environment = {**os.environ, **variables}
    for name in ["ATTENTIVELY_DATA", "PYTEST_ADDOPTS"]:
        environment.pop(name, None)
    if data:
        environment["ATTENTIVELY_DATA"] = data
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no_skip", "--continue-on-collection-errors"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    failed = set(re.findall(r"^(?:FAILED|ERROR) test_all.py::(\w+)", done.stdout, re.M))
    expected = {"test_skips", "test_skips_marked", "test_skips_by_mark"}
    assert failed == expected | ({"test_data"} if data else set()), done.stdout
    assert "ERROR test_module.py" in done.stdout
    assert "skipped, where nothing may be: Skipped: no browser" in done.stdout
