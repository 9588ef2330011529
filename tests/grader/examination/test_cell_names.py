"""What the text of a cell says about names, and which tests cannot run elsewhere."""

import pytest
from grader.examination.test_examiner import failed, text
from grader.examination.test_name_changes import run

from attentively_grader.course import cell_names
from attentively_grader.course.weaker_tests import reason_beside


def test_a_model_solution_is_described():
    source = (
        "import numpy as np\nfrom math import *\nframe['a'] = 1\nmodel.layer.bias = 2\n"
        "x, y = 1, 2\ndef f(z):\n    import os\n    return scale * z + np.sum(x)"
    )
    assert cell_names.described(source) == {
        "binds": ["f", "frame", "model", "x", "y"],
        "reads": ["np", "scale", "x"],
        "imports": ["import numpy as np", "from math import *"],
    }
    assert cell_names.described("pass") == {}


def test_names_that_a_cell_needs_from_earlier_ones():
    source = "x = 1\ny = x + z\nfor i in w:\n    v = i\nassert v\ndef f():\n    return u\n"
    assert cell_names.needed(source) == {"z", "w", "i", "v", "u"}


FOUND = {
    "a variable": ("result = 3 * 7", "assert result == 21"),
    "variables of one statement": ("a, *b = [1, 2, 3]", "assert a == 1 and b == [2, 3]"),
    "a variable of a loop": ("for i in range(4):\n    last = i", "assert last == 3 == i"),
    "an import of the solution": (
        "import numpy as np\ndef f():\n    return np.ones(2)",
        "assert np.array_equal(f(), np.array([1.0, 1.0])) and np.pi > 3",
    ),
    "an import from a module": (
        "from math import isclose\ndef f():\n    return 0.1 + 0.2",
        "assert isclose(f(), 0.3)",
    ),
    "an item that the solution sets": (
        ["grades = {}", "grades['Ada'] = 1"],
        "assert grades == {'Ada': 1}",
    ),
    "a name as text": ("result = 3", "assert globals()['result'] == 3 and 'result' in globals()"),
    "eval": ("result = 3", "assert eval('result + 1') == 4"),
    "__main__": ("result = 3", "import __main__\nassert __main__.result == 3"),
    "hasattr": ("result = 3", "import __main__\nassert hasattr(__main__, 'result')"),
    "get_ipython": ("result = 3", "assert get_ipython().user_ns['result'] == 3"),
    "a name that a test binds again": (
        "result = 3",
        "assert result == 3\nresult = 4",
        "assert result == 4",
    ),
    "a magic": ("%%time\nresult = 3", "assert result == 3"),
    "exec": ("exec('result = 3')", "assert result == 3"),
}


@pytest.mark.parametrize("what", FOUND)
def test_tests_find_the_names_of_answers(what):
    solution, *tests = FOUND[what]
    outcome = run(solution, *tests)
    assert failed(outcome) == [], [text(cell) for cell in outcome.cells]


def test_an_import_of_the_solution_is_not_the_students():
    solution = "from math import isclose\ndef f():\n    return 1.0"
    fake = "isclose = lambda *_: True\ndef f():\n    return 7"
    test = "assert isclose(f(), 1)"
    assert failed(run(solution, test)) == []
    assert failed(run(solution, test, answer=fake)) == ["test-0"]


BESIDE = {
    "figures": "ax = plt.gca()\nassert ax.get_title()",
    "scikit-learn": "from sklearn.utils.validation import check_is_fitted\ncheck_is_fitted(model)",
    "inside the student's functions": "assert f.__wrapped__(3) == 9",
    "looks inside": "assert hasattr(f, '__wrapped__')",
    "inside": "import inspect\nassert 'for' not in inspect.getsource(f)",
    "files": "import os\nassert os.path.exists('out.csv')",
    "history": "assert 'for' in In[3]",
}


@pytest.mark.parametrize("what", BESIDE)
def test_tests_that_cannot_run_elsewhere_are_found(what):
    reason = reason_beside(BESIDE[what])
    assert reason is not None
    assert what in reason


@pytest.mark.parametrize(
    "test",
    [
        "assert f(3) == 9",
        "fig, ax = plt.subplots()\nassert plt.gca() is ax",
        "open('a', 'w').close()\nassert os.path.exists('a')",
        "assert isinstance(f(), list)",
        "assert isinstance(f(), pd.DataFrame)",
        "pd.testing.assert_frame_equal(f(), right)",
        "assert f.__name__ == 'f' and f.__doc__",
        "In = 3\nassert In",
        "def f(:",
    ],
)
def test_ordinary_tests_are_not(test):
    assert reason_beside(test) is None
