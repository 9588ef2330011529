"""What a test does to the student's names and to modules reaches the student's code."""

import pytest
from grader.examination.test_examiner import failed, text
from grader.examining import examined, merged
from nbformat.v4 import new_code_cell, new_notebook
from notebook_tools import flags

SQUARES = "def squares(n):\n    return [i**2 for i in range(1, n + 1)]"
SUM = "def total(n):\n    return sum(squares(n))"
ASK = "def greet():\n    return 'Hello ' + input('Name? ')"
SHOUT = "def shout(x):\n    print(x)"
PLOT = "import matplotlib.pyplot as plt\ndef draw():\n    plt.plot([1, 2])\n    plt.show()"
DOG = (
    "class Dog:\n    def bark(self):\n        return 'wuff'\n"
    "    def twice(self):\n        return self.bark() + self.bark()"
)
READ = "def read(name):\n    with open(name) as file:\n        return file.read()"


def run(solution, *tests, answer=None):
    """Return what failed of a notebook whose cells are texts: answers, then tests."""
    solutions = [solution] if isinstance(solution, str) else solution
    cells = [
        new_code_cell(each, id=f"answer-{n}", metadata={"nbgrader": flags("a", solution=True)})
        for n, each in enumerate(solutions)
    ]
    cells += [
        new_code_cell(each, id=f"test-{n}", metadata={"nbgrader": flags("t", grade=True, points=1)})
        for n, each in enumerate(tests)
    ]
    students = None if answer is None else {"answer-0": answer}
    return examined(merged(new_notebook(cells=cells), students))


CARRIED = {
    "delete, then restore": (
        [SQUARES, SUM],
        "saved = squares\ndel squares\ntry:\n    total(2)\nexcept NameError:\n    pass\n"
        "else:\n    raise AssertionError('no NameError')\nfinally:\n    squares = saved",
        "assert total(3) == 14 and squares(2) == [1, 4]",
    ),
    "delete for good": (
        [SQUARES, SUM],
        "del squares",
        "try:\n    total(2)\nexcept NameError:\n    pass\nelse:\n    raise AssertionError",
    ),
    "replace a function": (
        [SQUARES, SUM],
        "saved = squares\nsquares = lambda n: [100]\nassert total(2) == 100\nsquares = saved\n"
        "assert total(2) == 5",
        "assert total(2) == 5",
    ),
    "globals()": (
        [SQUARES, SUM],
        "globals()['squares'] = lambda n: [100]\nassert total(2) == 100",
    ),
    "mock.patch of a name": (
        [SQUARES, SUM],
        "from unittest import mock\nwith mock.patch('__main__.squares') as fake:\n"
        "    fake.return_value = [7]\n    assert total(2) == 7\n"
        "fake.assert_called_once_with(2)\nassert total(2) == 5",
    ),
    "a global that only the test binds": (
        "def area(r):\n    return PI * r * r",
        "PI = 3\nassert area(2) == 12\nPI = 4\nassert area(1) == 4",
    ),
    "input": (
        ASK,
        "import builtins\nsaved = builtins.input\nbuiltins.input = lambda prompt='': 'Ada'\n"
        "try:\n    assert greet() == 'Hello Ada'\nfinally:\n    builtins.input = saved",
        "try:\n    greet()\nexcept Exception as error:\n    assert 'Ada' not in str(error)\n"
        "else:\n    raise AssertionError('input is still replaced')",
    ),
    "input as a name": (ASK, "input = lambda prompt='': 'Ada'\nassert greet() == 'Hello Ada'"),
    "mock.patch of input": (
        ASK,
        "from unittest.mock import patch\nwith patch('builtins.input', side_effect=['A', 'B']):\n"
        "    assert greet() == 'Hello A' and greet() == 'Hello B'",
    ),
    "stdin": (
        ASK,
        "import io, sys\nsys.stdin = io.StringIO('Ada\\n')\nassert greet() == 'Hello Ada'\n"
        "sys.stdin = sys.__stdin__",
    ),
    "mock.patch of print": (
        SHOUT,
        "from unittest.mock import patch\nwith patch('builtins.print') as fake:\n    shout('hi')\n"
        "fake.assert_called_with('hi')",
    ),
    "mock_open": (
        READ,
        "from unittest.mock import patch, mock_open\n"
        "with patch('__main__.open', mock_open(read_data='text')):\n"
        "    assert read('x') == 'text'",
    ),
    "plt.show": (
        PLOT,
        "import matplotlib.pyplot as plt\ncalls = []\nsaved = plt.show\n"
        "plt.show = lambda *a, **k: calls.append(1)\ndraw()\nplt.show = saved\nassert calls == [1]",
    ),
    "patch.object of a module": (
        "import random\ndef roll():\n    return random.randint(1, 6)",
        "import random\nfrom unittest.mock import patch\n"
        "with patch.object(random, 'randint', return_value=9):\n    assert roll() == 9\n"
        "assert roll() < 7",
    ),
    "patch.object of a class": (
        DOG,
        "from unittest.mock import patch\nwith patch.object(Dog, 'bark', return_value='meow'):\n"
        "    assert Dog().twice() == 'meowmeow'\nassert Dog().twice() == 'wuffwuff'",
    ),
    "patch.object of an object": (
        DOG,
        "from unittest.mock import patch\ndog = Dog()\n"
        "with patch.object(dog, 'bark', return_value='meow'):\n"
        "    assert dog.twice() == 'meowmeow'\nassert dog.twice() == 'wuffwuff'",
    ),
    "printed text": (
        SHOUT,
        "import io\nfrom contextlib import redirect_stdout\n"
        "with redirect_stdout(io.StringIO()) as s:\n    shout('hi')\n"
        "assert s.getvalue() == 'hi\\n'",
    ),
    "sys.stdout": (
        SHOUT,
        "import io, sys\nsaved, sys.stdout = sys.stdout, io.StringIO()\nshout('hi')\n"
        "text, sys.stdout = sys.stdout.getvalue(), saved\nassert text == 'hi\\n'",
    ),
    "capture_output": (
        SHOUT,
        "from IPython.utils.capture import capture_output\nwith capture_output() as s:\n"
        "    shout('hi')\nassert s.stdout == 'hi\\n'",
    ),
    "a global that a call changes": (
        "count = 0\ndef step():\n    global count\n    count += 1",
        "step()\nstep()\nassert count == 2",
    ),
    "a global list that a call changes": (
        "log = []\ndef step(x):\n    log.append(x)",
        "step(1)\nassert log == [1]\nstep(2)\nassert log == [1, 2]",
    ),
    "a global that the test clears": (
        "memo = {}\ndef f(n):\n    memo[n] = n\n    return sorted(memo)",
        "f(1)\nmemo.clear()\nassert f(2) == [2]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CARRIED)
def test_what_a_test_does_to_names_reaches_the_answer(what):
    solution, *tests = CARRIED[what]
    outcome = run(solution, *tests)
    assert failed(outcome) == [], [text(cell) for cell in outcome.cells]


def test_a_new_process_is_told_again():
    outcome = run(
        [SQUARES, SUM, "def end():\n    import os\n    os._exit(1)"],
        "squares = lambda n: [100]",
        "end()",
        "assert total(1) == 100",
    )
    assert failed(outcome) == ["test-1"]


def test_other_names_of_a_test_stay_here():
    """A name that no function of the solution reads is not sent, even if the student binds it."""
    spy = "def f(x):\n    return globals().get('expected')\nexpected = result = None\n"
    test = "expected = 42\nassert f(1) == 42"
    solution = "def f(x):\n    return 42\nresult = f(1)"
    assert failed(run(solution, test)) == []
    assert failed(run(solution, test, answer=spy)) == ["test-0"]
    test = "result = 42\nassert f(1) == 42"
    assert failed(run(solution, test, answer=spy.replace("expected", "result"))) == ["test-0"]
