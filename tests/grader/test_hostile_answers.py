"""Answers that try to be taken for right: each earns nothing, and the rest is graded."""

import pytest
import torch.fx
from grader.examining import examined, merged
from nbformat.v4 import new_code_cell, new_notebook
from notebook_tools import flags

from attentively.word_vectors.vectors import Neighbour
from attentively_grader.jobs import Limits
from attentively_grader.wire import proxies

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
import attentively_grader.wire.plain_data as plain
import attentively_grader.wire.outgoing_objects as outgoing
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
from attentively_grader.wire.messages import Wire
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
        new_code_cell(RIGHT, id="answer", metadata={"nbgrader": flags("answer", solution=True)}),
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
    return merged(new_notebook(cells=cells), {"answer": answer})


def asked(given, solution, test, answer):
    """Return a notebook of what is given, an answer, and a test."""
    graded = flags("test", grade=True, locked=True, points=10)
    cells = [
        new_code_cell(given, id="given"),
        new_code_cell(solution, id="answer", metadata={"nbgrader": flags("a", solution=True)}),
        new_code_cell(test, id="test", metadata={"nbgrader": graded}),
    ]
    return merged(new_notebook(cells=cells), {"answer": answer})


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


GIVEN = """
import torch
from math import isclose
class checks:
    @staticmethod
    def same(a, b):
        assert a == b, (a, b)
def right(x):
    return x * x
"""
SQUARE = "def square(x):\n    return right(x)"
OTHER = "\ndef square(x):\n    return -1"
REPLACED = {
    "the checks": (
        """
class Checks:
    def __getattr__(self, name): return lambda *a, **k: None
checks = Checks()
""",
        "checks.same(square(3), 9)",
    ),
    "a function that was imported": (
        "isclose = lambda *a, **k: True",
        "assert isclose(square(3), 9)",
    ),
    "a package": (
        """
class torch:
    equal = staticmethod(lambda *a: True)
    tensor = staticmethod(lambda x: x)
""",
        "assert torch.equal(torch.tensor(square(3)), torch.tensor(9))",
    ),
    "the right answer": ("right = lambda x: -1", "assert square(3) == right(3)"),
    "a function of Python's": ("abs = lambda x: 0", "assert abs(square(3) - 9) < 1e-6"),
    "a function of the shell's": ("get_ipython = 1", "get_ipython().events; assert square(3) == 9"),
    "a function that the test defines": (
        "near = lambda a, b: True",
        "def near(a, b):\n    return a == b\nassert near(square(3), 9)",
    ),
}


@pytest.mark.parametrize("what", REPLACED)
def test_an_answer_replaces_nothing_that_a_test_rests_on(what):
    replacement, test = REPLACED[what]
    assert failed(examined(asked(GIVEN, SQUARE, test, replacement + OTHER))) == ["test"]
    assert failed(examined(asked(GIVEN, SQUARE, test, replacement + "\n" + SQUARE))) in (
        [],
        ["test"] * (what == "the right answer"),  # over there its own answer rests on that
    )


BOUND = {
    "import *": "from math import *",
    "a walrus in a comprehension": "[isclose := (lambda a, b: a == b) for _ in [0]]",
    "a match": "match [lambda a, b: a == b]:\n    case [isclose]: pass",
    "a magic around the cell": "%%time\nfrom math import isclose",
    "a function": "def make():\n    global isclose\n    from math import isclose\nmake()",
    "a magic of a line": "%time from math import isclose",
    "globals()": "import math\nglobals()['isclose'] = math.isclose",
    "exec": "exec('from math import isclose')",
    "the shell": "get_ipython().run_cell('from math import isclose')",
    "__main__": "import __main__, math\nsetattr(__main__, 'isclose', math.isclose)",
    "a function that calls exec": (
        "def make():\n    exec('from math import isclose', globals())\nmake()"
    ),
}


@pytest.mark.parametrize("how", BOUND)
def test_what_an_instructors_cell_binds_is_real_however_it_binds_it(how):
    given, test = BOUND[how], "assert isclose(square(3), 9)"
    assert failed(examined(asked(given, SQUARE, test, "right = lambda x: x * x\n" + SQUARE))) == []
    fake = "isclose = lambda *a, **k: True" + OTHER
    assert failed(examined(asked(given, SQUARE, test, fake))) == ["test"]


@pytest.mark.parametrize("given", ["import math", "from math import *\nimport math"])
def test_what_is_given_only_after_a_test_is_not_the_students_in_it(given):
    cells = asked("", SQUARE, "assert math.isclose(square(3), 9)", MATH + OTHER)
    later = asked(given, SQUARE, "", "")["cells"][0]
    cells["cells"].append(dict(later, id="later"))
    assert failed(examined(cells)) == ["test"]


MATH = "class math:\n    isclose = staticmethod(lambda *a, **k: True)"


def test_what_a_model_solution_binds_is_the_students_even_if_it_was_given():
    given = "rate = 0.1\ndef count(x):\n    return 0"
    solution = "def count(x):\n    return len(x)\nrate = 0.5"
    test = "assert count([1, 2]) == 2 and rate == 0.5"
    assert failed(examined(asked(given, solution, test, solution))) == []
    assert failed(examined(asked(given, solution, test, "count = len"))) == ["test"]
    assert failed(examined(asked("", "def sum(x):\n    return 6", "assert sum(1) == 6", ""))) == [
        "test"
    ]


GENERATOR = """
def total(numbers):
    frame = numbers.gi_frame
    return frame.f_globals["secret"]
"""


def test_a_generator_leads_nowhere():
    solution = "def total(numbers):\n    return sum(numbers)"
    test = "secret = 6\nassert total(n for n in [1, 2, 3]) == 6"
    assert failed(examined(asked("", solution, test, solution))) == []
    assert failed(examined(asked("", solution, test, GENERATOR))) == ["test"]
    for way in ("numbers.gi_code", "numbers.throw(ValueError).__traceback__.tb_frame"):
        answer = f"def total(numbers):\n    {way}\n    return 6"
        assert failed(examined(asked("", solution, test, answer))) == ["test"]


def test_no_frame_code_or_traceback_is_given_away():
    test = """
import sys
class Guide:
    def frame(self): return sys._getframe()
    def code(self): return Guide.frame.__code__
    def shell(self): return get_ipython()
guide = Guide()
assert lead(guide) == 6
"""
    solution = "def lead(guide):\n    return 6"
    assert failed(examined(asked("", solution, test, solution))) == []
    for what in ("frame", "code", "shell"):
        answer = f"def lead(guide):\n    guide.{what}()\n    return 6"
        assert failed(examined(asked("", solution, test, answer))) == ["test"], what


DOUBLE = """
x = torch.arange(3.0)
assert torch.{compare}(double(x), 2 * x)
"""


@pytest.mark.parametrize("compare", ["allclose", "equal"])
def test_a_child_of_a_class_that_answers_for_itself_is_no_tensor(compare):
    answer = """
import torch.fx
class Tracer:
    def create_proxy(self, *a, **k): return True
class A(torch.fx.Proxy):
    def __init__(self): self.tracer = Tracer()
def double(x):
    return A()
"""
    test = DOUBLE.format(compare=compare)
    assert failed(examined(asked("import torch", RIGHT, test, RIGHT))) == []
    assert failed(examined(asked("import torch", RIGHT, test, answer))) == ["test"]


def test_records_come_as_they_are_and_those_that_answer_for_themselves_do_not():
    given = "from attentively.word_vectors.vectors import Neighbour"
    right = "def near():\n    return Neighbour('cat', 0.5)"
    test = "found = near()\nassert type(found) is Neighbour and found.word == 'cat'"
    assert failed(examined(asked(given, right, test, right))) == []
    assert proxies.is_safe(Neighbour)
    assert not proxies.is_safe(torch.fx.Proxy)
    assert not proxies.is_safe(type("Own", (), {"__float__": lambda self: 1.0}))
    assert not proxies.is_safe(type("Child", (torch.fx.Proxy,), {}))


VECTOR = """
class Vector:
    def __init__(self, x): self.x = x
    def __sub__(self, other): return {difference}
    def __abs__(self): return {size}
def loss():
    return {loss}
"""


def test_only_what_the_test_has_built_reckons_with_numbers():
    right = VECTOR.format(difference="Vector(self.x - other)", size="abs(self.x)", loss="0.5")
    test = "v = Vector(3)\nassert abs(v - 1) == 2\nassert abs(loss() - 0.5) < 1e-6"
    assert failed(examined(asked("", right, test, right))) == []
    wrong = VECTOR.format(difference="Vector(self.x - other)", size="abs(self.x)", loss="Vector(9)")
    wrong += "Vector.__sub__ = lambda self, other: 0.0 if self.x == 9 else Vector(self.x - other)"
    assert failed(examined(asked("", right, test, wrong))) == ["test"]


def test_an_end_of_iteration_ends_no_loop_of_the_tests():
    test = "for got, x in zip(map(double, [1, 2]), [1, 2]):\n    assert got == 2 * x"
    assert failed(examined(asked("", RIGHT, test, RIGHT))) == []
    answer = "def double(x):\n    raise StopIteration"
    assert failed(examined(asked("", RIGHT, test, answer))) == ["test"]
    counting = (
        "class Two:\n    def __init__(self): self.n = 0\n    def __iter__(self): return self\n"
    )
    counting += "    def __next__(self):\n        self.n += 1\n        if self.n > 2:\n"
    counting += "            raise StopIteration\n        return self.n"
    assert failed(examined(asked("", counting, "assert list(Two()) == [1, 2]", counting))) == []


TAKES = """
class Guard:
    def __enter__(self): return self
    def __exit__(self, kind, *rest): return {takes}
    def value(self): {value}
"""


def test_a_students_context_manager_takes_no_failed_test():
    right = TAKES.format(takes="kind is KeyError", value="return 5")
    everything = TAKES.format(takes="True", value="return 4")
    raises = TAKES.format(takes="True", value="raise KeyError")
    for test in ("assert g.value() == 5", "g.value() + None", "undefined", "g.value()"):
        test = f"with Guard() as g:\n    {test}"
        if "==" in test:
            assert failed(examined(asked("", right, test, right))) == []
            assert failed(examined(asked("", right, test, everything))) == ["test"]
        assert failed(examined(asked("", right, test, raises))) == ["test"]
    swallowed = "done = False\nwith Guard():\n    raise KeyError\ndone = True\nassert done"
    assert failed(examined(asked("", right, swallowed, right))) == []
    assert failed(examined(asked("", right, swallowed.replace("Key", "Type"), right))) == ["test"]


def test_a_model_of_the_tests_computes_as_it_did():
    test = """
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
x = torch.ones(1, 2)
assert torch.allclose(apply(model, x), model(x))
"""
    right = "def apply(model, x):\n    return model(x)"
    wrong = "def apply(model, x):\n    model.forward = lambda x: 0 * x\n    return 0 * x"
    assert failed(examined(asked("import torch", right, test, right))) == []
    assert failed(examined(asked("import torch", right, test, wrong))) == ["test"]


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


PEER = """
import gc, torch
from attentively_grader.wire.endpoint import Endpoint
endpoint = next(each for each in gc.get_objects() if type(each) is Endpoint)
"""
GIVEN_TOOLS = "import functools\nimport torch\nfrom torch import nn"
HALVE = "def halve(x):\n    return x / 2"
HALVED = """
for _ in range(4):
    x = torch.randn(2, 5)
    assert torch.allclose(halve(x), x / 2)
    assert x.any()
"""
CLOSED = {
    "says that it is a tensor": (
        "def double(x):\n    return 2 * x",
        "x = torch.ones(2)\nassert torch.allclose(double(x), 2 * x)",
        "import torch\ndef double(x):\n    return torch.nn.UninitializedParameter()",
    ),
    "weights of the test, through the graph of a callback": (
        "def twice(score, x):\n    return 2 * score(x)",
        """
hidden = nn.Linear(3, 1)
def score(x):
    return hidden(x)
x = torch.randn(4, 3)
assert torch.allclose(twice(score, x), 2 * score(x))
""",
        PEER
        + """
def twice(score, x):
    with torch.no_grad():
        for leaf in endpoint.ask("get", score(x).grad_fn.link, "leaves"):
            leaf.zero_()
    return torch.zeros(4, 1)
""",
    ),
    "what a partial holds": (
        "def find(same):\n    return next(i for i in range(10) if same(i))",
        """
def near(right, x):
    return x == right
assert find(functools.partial(near, 5)) == 5
""",
        "def find(same):\n    return same.args[0]",
    ),
    "an object that the student process declares to be a list": (
        "def numbers():\n    return [1, 2, 3]",
        """
assert len(numbers()) == 3
for got, right in zip(numbers(), [1, 2, 3]):
    assert got == right
""",
        """
from attentively_grader.wire.outgoing_objects import Outgoing
Outgoing._class = lambda self, encoder, kind: ["g", "builtins", "list"]
class Three:
    def __len__(self): return 3
    def __iter__(self): return iter([])
def numbers():
    return Three()
""",
    ),
    "a frame that names an endless file": (
        "def double(x):\n    return 2 * x",
        "assert double(3) == 6",
        "exec(compile('def double(x): raise ValueError', '/dev/zero', 'exec'))",
    ),
    "a forged position of a generator": (
        HALVE,
        HALVED,
        PEER
        + """
complete = Endpoint._message
def forged(self, encoder, message, value):
    message = complete(self, encoder, message, value)
    message["random"] = {
        "numpy": ["t", ["MT19937", ["l", [0] * 624], 10**9, 1, 0.0]],
        "torch": ["T", "uint8", [5056], encoder.buffer(b"\\xff" * 5056)],
    }
    return message
Endpoint._message = forged
def halve(x):
    return x / 2
""",
    ),
    "chooses what a test draws": (
        HALVE,
        HALVED,
        """
import torch
def halve(x):
    state = torch.get_rng_state()
    state[24 : 24 + 8 * 624] = 0
    torch.set_rng_state(state)
    return x / 2
""",
    ),
}


@pytest.mark.parametrize("way", CLOSED)
def test_a_way_is_closed_and_a_right_answer_passes(way):
    solution, test, answer = CLOSED[way]
    assert failed(examined(asked(GIVEN_TOOLS, solution, test, solution))) == []
    # A right answer that turns the generators gains and loses nothing.
    expected = [] if solution == HALVE else ["test"]
    assert failed(examined(asked(GIVEN_TOOLS, solution, test, answer))) == expected


def test_a_seed_set_over_there_is_set_anew_by_the_test():
    answer = "import torch\ndef drawn():\n    torch.manual_seed(7)\n    return torch.rand(2)"
    test = """
torch.manual_seed(3)
first = torch.rand(5)
torch.manual_seed(3)
assert not torch.equal(drawn(), first[:2])
assert torch.equal(torch.rand(5), first)  # the test's own go on as if nothing had been drawn
torch.manual_seed(3)
assert torch.equal(noise(), first)
"""
    noise = "\ndef noise():\n    return torch.rand(5)"
    notebook = asked(GIVEN_TOOLS, answer + noise, test, answer + noise)
    assert failed(examined(notebook)) == []


RIGHT_ONES = {
    "a dict with a default": (
        "def count(text):\n    return {c: text.count(c) for c in text}",
        "assert count('aba') == {'a': 2, 'b': 1} and isinstance(count('a'), dict)",
        """
from collections import defaultdict
def count(text):
    counts = defaultdict(int)
    for each in text:
        counts[each] += 1
    return counts
""",
    ),
    "a hook left on a given model": (
        "def middle(model, x):\n    return model[0](x)",
        """
model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
x = torch.ones(1, 2)
assert torch.allclose(middle(model, x), model[0](x))
""",
        """
def middle(model, x):
    kept = []
    model[0].register_forward_hook(lambda module, inputs, output: kept.append(output))
    model(x)
    return kept[0]
""",
    ),
    "a tensor of the inference mode, kept": (
        "def said(model, x):\n    return model(x)",
        """
model = nn.Linear(2, 3)
x = torch.ones(1, 2)
for _ in range(2):
    assert torch.allclose(said(model, x), model(x))
""",
        """
import torch
@torch.inference_mode()
def said(model, x):
    model.last = model(x)
    return model.last
""",
    ),
}


@pytest.mark.parametrize("what", RIGHT_ONES)
def test_what_is_right_in_one_process_is_right_here(what):
    solution, test, answer = RIGHT_ONES[what]
    assert failed(examined(asked(GIVEN_TOOLS, solution, test, solution))) == []
    assert failed(examined(asked(GIVEN_TOOLS, solution, test, answer))) == []
