"""Answers that try to be taken for right: each earns nothing, and the rest is graded."""

import pytest
from grader.examining import examined, merged
from nbformat.v4 import new_code_cell, new_notebook
from notebook_tools import flags

from attentively_grader.outcome import Limits

TEST = """
import torch
x = torch.arange(6.0).reshape(2, 3)
assert torch.allclose(double(x), 2 * x)
assert double(3) == 6
"""
RIGHT = "def double(x):\n    return 2 * x"
WRONG = "def double(x):\n    return x"
ANYTHING = """
class Anything:
    def __eq__(self, other): return True
    def __bool__(self): return True
    def __float__(self): return 1.0
    def __sub__(self, other): return 0.0
    __hash__ = None
"""
ATTACKS = {
    "equal to anything": f"{ANYTHING}\ndef double(x):\n    return Anything()",
    "a class of its own tensors": """
import torch
class T(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True
    def __eq__(self, other): return True
def double(x):
    return torch.zeros(2, 3).as_subclass(T)
""",
    "torch function without tensors": """
class T:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True
    def __eq__(self, other): return True
def double(x):
    return T()
""",
    "a number of its own class": """
class N(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def double(x):
    return N(1)
""",
    "patched comparison": f"""
import torch
torch.allclose = torch.equal = lambda *a, **k: True
{WRONG}
""",
    "replaced AssertionError": f"import builtins\nbuiltins.AssertionError = Exception\n{WRONG}",
    "patched shell": """
from IPython import get_ipython
ip = get_ipython()
ip.run_cell = lambda *a, **k: None
ip.showtraceback = lambda *a, **k: None
def double(x):
    return x
""",
    "a transformer of code": """
import ast
from IPython import get_ipython
class Gone(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
get_ipython().ast_transformers.append(Gone())
get_ipython().input_transformers_cleanup.append(lambda lines: [])
def double(x):
    return x
""",
    "prints points": """
import sys
sys.displayhook(10)
print(10)
def double(x):
    sys.displayhook(10)
    print(10)
    return x
""",
    "the process ends well": "def double(x):\n    import os\n    os._exit(0)",
    "kills itself": "def double(x):\n    import os\n    os.kill(os.getpid(), 9)",
    "exits": "def double(x):\n    raise SystemExit(0)",
    "interrupts": "def double(x):\n    raise KeyboardInterrupt",
    "raises a test's end": "def double(x):\n    raise GeneratorExit",
    "closes every file": "def double(x):\n    import os\n    os.closerange(3, 256)\n    return x",
    "patches the wire": """
import attentively_grader.plain as plain, attentively_grader.outgoing as outgoing
outgoing.Outgoing.encode = lambda self, encoder, value, depth=0: ["p", 0]
def double(x):
    return object()
""",
    "garbage on the wire": """
import gc, socket
def double(x):
    for each in gc.get_objects():
        if isinstance(each, socket.socket):
            each.sendall(b'att1' + b'\\xff' * 8)
            each.sendall(b'x' * 1000)
    return x
""",
    "an answer of another shape": """
import gc, json, struct
from attentively_grader.wire import Wire
def double(x):
    for each in gc.get_objects():
        if isinstance(each, Wire):
            each.send({'value': ['g', 'os', 'system'], 'define': [['tensor', 0]]})
    return x
""",
    "deep": """
def double(x):
    v = []
    for _ in range(100000):
        v = [v]
    return v
""",
    "contains itself": "def double(x):\n    v = []\n    v.append(v)\n    return v",
    "very large": "import torch\ndef double(x):\n    return torch.zeros(1).expand(10**12)",
    "names a function of the system": "import os\ndouble = os.system",
    "raises what equals anything": f"{ANYTHING}\ndef double(x):\n    raise ValueError(Anything())",
}  # fmt: skip


def notebook(answer):
    cells = [
        new_code_cell(answer, id="answer", metadata={"nbgrader": flags("answer", solution=True)}),
        new_code_cell(
            TEST,
            id="test",
            metadata={"nbgrader": flags("test", grade=True, locked=True, points=10)},
        ),
        new_code_cell(
            "def other():\n    return 1",
            id="other",
            metadata={"nbgrader": flags("other", solution=True)},
        ),
        new_code_cell(
            "assert other() == 1",
            id="other-test",
            metadata={"nbgrader": flags("other-test", grade=True, locked=True, points=5)},
        ),
    ]
    return merged(new_notebook(cells=cells))


def failed(outcome):
    return [cell.id for cell in outcome.cells if cell.failed]


def test_a_right_answer_passes():
    assert failed(examined(notebook(RIGHT))) == []


def test_a_right_answer_with_a_patched_comparison_passes():
    assert failed(examined(notebook(f"import torch\ntorch.allclose = None\n{RIGHT}"))) == []


BREAKS_ITSELF = {"patched shell", "a transformer of code", "patches the wire"}
"""What an answer does to its own process costs its student further parts."""


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in BREAKS_ITSELF])
def test_it_earns_nothing_and_the_rest_is_graded(name):
    outcome = examined(notebook(ATTACKS[name]))
    assert failed(outcome) == ["test"]
    assert not [cell.points for cell in outcome.cells if cell.points]


@pytest.mark.parametrize("name", sorted(BREAKS_ITSELF))
def test_what_it_does_to_its_own_process_earns_nothing(name):
    assert "test" in failed(examined(notebook(ATTACKS[name])))


def test_what_does_not_end_is_ended():
    limits = Limits(cell_seconds=2, seconds=30)
    endless = """
def double(x):
    while True:
        try:
            while True: pass
        except BaseException: pass
"""
    outcome = examined(notebook(endless), limits)
    assert failed(outcome) == ["test"]
    assert "longer than 2 seconds" in str(outcome.cells[1].outputs)


def test_a_cell_that_does_not_end_is_ended():
    outcome = examined(notebook("while True: pass"), Limits(cell_seconds=2, seconds=30))
    assert failed(outcome) == ["answer", "test"]
