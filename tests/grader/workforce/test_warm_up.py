"""What the warm process does beforehand, no notebook has to do again."""

import json
import os
import subprocess
import sys

import pytest

from attentively_grader.course.preparation import Prepared
from attentively_grader.sandbox import zygote
from attentively_grader.workforce.local_pool import WARM_OPTIMIZER, preload
from attentively_grader.workforce.worker_pool import WARM

FIRST_STEPS = """
import importlib, io, json, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import matplotlib, torch
import matplotlib.pyplot as plt
left = {
    "figures": plt.get_fignums(),
    "backend": matplotlib.get_backend(auto_select=False),
    "threads": len(os.listdir("/proc/self/task")),
}
before = set(sys.modules)
weight = torch.ones(3, requires_grad=True)
torch.autograd.grad(weight * weight, weight, torch.ones(3))
from IPython.core.ultratb import AutoFormattedTB
try:
    weight / "x"
except TypeError:
    AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())
from matplotlib.backends.backend_agg import FigureCanvasAgg
figure = matplotlib.figure.Figure()
FigureCanvasAgg(figure)
figure.subplots().plot([1, 2])
figure.savefig(io.BytesIO(), format="png")
new = sorted(set(sys.modules) - before)
torch.optim.Adam([weight])
optimizer = sorted(set(sys.modules) - before - {*new})
print(json.dumps({**left, "new": new, "optimizer": optimizer}))
"""


def first_steps(*warm):
    """Return what a notebook's first steps import after these were imported, and what is left."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEPS, *warm],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_first_steps_import_nothing_that_takes_long():
    rehearsed = first_steps(*WARM)
    assert len(rehearsed["new"]) < 5, rehearsed["new"]
    without = first_steps(*WARM[:-1])
    assert {"sympy", "stack_data"} <= set(without["new"])
    # It can be forked, and no notebook finds a trace.
    for key in ("figures", "backend", "threads"):
        assert rehearsed[key] == without[key]
    assert rehearsed["figures"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_where_a_notebook_trains_the_first_optimizer_imports_nothing():
    """Nor where it measures memory, which needs the same modules of PyTorch."""
    without = first_steps(*WARM)
    assert "torch._dynamo" in without["optimizer"]
    for name in (WARM_OPTIMIZER, "attentively.training.memory_meter"):
        warm = first_steps(*WARM, name)
        assert warm["optimizer"] == []
        for key in ("figures", "backend", "threads"):
            assert warm[key] == without[key]


@pytest.mark.parametrize(
    ("tests", "solution", "kind", "warm"),
    [
        ("x = 1", "optimizer = torch.optim.SGD([x], 0.1)", "code", True),
        ("from torch import optim", "x = 1", "code", True),
        ("x = 1", "optimize(x)", "code", False),
        ("x = 1", "Use torch.optim.", "markdown", False),
    ],
)
def test_an_optimizer_is_created_beforehand_where_the_tests_or_the_solution_may(
    tests, solution, kind, warm
):
    cells = [{"cells": [{"cell_type": kind, "source": source}]} for source in (tests, solution)]
    prepared = Prepared({"one": cells[0]}, {"one": cells[1]}, {}, {}, "", "")
    assert (WARM_OPTIMIZER in preload([prepared])) == warm


def test_the_grader_starts_without_the_parser_of_a_format_that_no_notebook_has():
    code = "import sys, attentively_grader.coordinator as _; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_a_notebook_imports_is_imported_beforehand(tmp_path, monkeypatch):
    """As ``from package import name`` does it: a module only where the package has no such name."""
    source = "import json.tool\nfrom package_a import module, name\nfrom package_b import name"
    cells = [{"cells": [{"cell_type": "code", "source": source}]}]
    asked = preload([Prepared({"one": cells[0]}, {}, {}, {}, "", "")])
    assert asked == ["json.tool", "package_a:module", "package_a:name", "package_b:name"]
    for package, names in (
        ("package_a", "name = 1"),
        ("package_b", "def __getattr__(_): return 2"),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(names)
        for module in ("module", "name"):
            (tmp_path / package / f"{module}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    zygote.preload([*asked, "package_b:missing", "missing", "package_a:*"])
    assert "package_a.module" in sys.modules
    assert not {"package_a.name", "package_b.name"} & {*sys.modules}
