"""Plain data by default: what passes for a right answer earns nothing, what is right loses nothing.

Each case has a solution, a test and a student's answer; all cases are cells of one notebook.
"""

import pytest
from grader.examining import examined, merged
from nbformat.v4 import new_code_cell, new_notebook
from notebook_tools import flags

GIVEN = """
import collections
import contextlib
import copy
import dataclasses
import datetime
import enum
import functools
import inspect
import random
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import pandas as pd
import torch
from torch import nn
SHARED = [2, 3, 1]

@dataclasses.dataclass
class P:
    x: int
    y: int
@dataclasses.dataclass
class Fake:
    x: int
class Private:
    def __init__(self, x): self._x = x
    def twice(self): return 2 * self._x
class Plain:
    def __init__(self, x): self.x = [x]
class Colour(enum.Enum):
    RED = 1
    BLUE = 2
Pair = collections.namedtuple('Pair', 'a b')
"""
NUMBERS = "def NAME():\n    return [1, 2, 3, 4]"
EACH = """
got, right = NAME(), [1, 2, 3, 4]
assert len(got) == 4
for a, b in zip(got, right):
    assert a == b
"""
TENSOR = "def NAME(x):\n    return 2 * x"
CLOSE = "x = torch.arange(6.0).reshape(2, 3)\nassert torch.allclose(NAME(x), 2 * x)"
WEIGHTS = """
hidden = nn.Linear(3, 1)
def score(x):
    return hidden(x)
x = torch.randn(4, 3)
assert torch.allclose(NAME(score, x), 2 * score(x))
"""
TWICE = "def NAME(score, x):\n    return 2 * score(x)"
OF_P, AT_P = "def NAME(p): return p.x + 1", "assert NAME(P(1, 2)) == 2"
PAIR = "def NAME(): return (1, 2)"
OWN_PAIR = "Two = collections.namedtuple('Two', 'x y')\ndef NAME(): return Two(1, 2)"
ASSIGNS = "def NAME(f): return f.assign(c=f['a'] + 1)"
FRAME = "f = pd.DataFrame({'a': [1.0, 2.0], 'b': ['x', 'y']})\n"
HOLDER = """
class NAME:
    def __init__(self, x): self.x = list(x)
    def add(self, y): self.x.append(y)
    def items(self): return {}
"""

WRONG = {
    "a length of 4 and no elements": (
        NUMBERS,
        EACH,
        """
class Four:
    def __len__(self): return 4
    def __iter__(self): return iter([])
def NAME(): return Four()
""",
    ),
    "an iterator that ends at once": (
        NUMBERS,
        EACH,
        """
class Four:
    def __len__(self): return 4
    def __iter__(self): return self
    def __next__(self): raise StopIteration
def NAME(): return Four()
""",
    ),
    "a list of its own class": (
        NUMBERS,
        EACH,
        """
class Four(list):
    def __len__(self): return 4
    def __iter__(self): return iter([])
    def __eq__(self, other): return True
    def more(self): pass
def NAME(): return Four([0, 0, 0, 0])
""",
    ),
    "an object inside a list": (
        NUMBERS,
        EACH,
        """
class Any:
    def __eq__(self, other): return True
    __hash__ = None
def NAME(): return [Any()] * 4
""",
    ),
    "a function in place of a value": (
        "def NAME(): return {'size': 3}",
        "assert NAME()['size']",
        "def NAME(): return {'size': lambda: 0}",
    ),
    "says that it equals": (
        TENSOR,
        "x = torch.ones(3)\nassert NAME(x).equal(2 * x)",
        """
class Equal:
    def equal(self, other): return True
def NAME(x): return Equal()
""",
    ),
    "a tensor that answers for itself": (
        TENSOR,
        CLOSE,
        """
class T(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None): return True
def NAME(x): return torch.zeros(2, 3).as_subclass(T)
""",
    ),
    "a variable that answers for itself": (
        "NAME = 3",
        "assert not NAME - 3 and NAME == 3",
        """
class Any:
    def __eq__(self, other): return True
    def __sub__(self, other): return 0
NAME = Any()
""",
    ),
    "an attribute of an expected object": (
        "class NAME:\n    def size(self): return 2\n    total = 5",
        "n = NAME()\nassert n.total.equal(5) if hasattr(n.total, 'equal') else n.total == 5",
        """
class Equal:
    def equal(self, other): return True
class NAME:
    def size(self): return 2
    total = Equal()
""",
    ),
    "an empty tensor": (
        TENSOR,
        CLOSE,
        "def NAME(x): return torch.zeros(0, 1, 1)",
    ),
    "an empty tensor in a tuple": (
        "def NAME(x): return 2 * x, 3 * x",
        "x = torch.ones(2, 3)\nassert all(torch.allclose(a, b) for a, b in "
        "zip(NAME(x), (2 * x, 3 * x)))",
        "def NAME(x): return torch.zeros(0, 1), torch.zeros(0, 1)",
    ),
    "an input that is emptied": (
        TENSOR,
        CLOSE,
        "def NAME(x):\n    x.data = torch.zeros(0, 1, 1)\n    return x",
    ),
    "an empty array": (
        "def NAME(x): return 2 * x",
        "x = np.ones((2, 3))\nassert np.allclose(NAME(x), 2 * x)",
        "def NAME(x): return np.zeros((0, 1, 1))",
    ),
    "writes into an input of which the reference is a view": (
        "def NAME(x): return x.T.clone()",
        "x = torch.arange(6.0).reshape(2, 3)\nexpected = x.T\n"
        "assert torch.allclose(NAME(x), expected)",
        "def NAME(x):\n    x.zero_()\n    return torch.zeros(3, 2)",
    ),
    "empties a list of which the test computes the reference": (
        "def NAME(x): return sum(x)",
        "x = [1, 2, 3]\nassert NAME(x) == sum(x)",
        "def NAME(x):\n    x.clear()\n    return 0",
    ),
    "changes a list that must stay as it is": (
        "def NAME(x): return sorted(x)",
        "x = [2, 1]\nassert NAME(x) == [1, 2] and x == [2, 1]",
        "def NAME(x):\n    x.sort()\n    return x",
    ),
    "changes an array that must stay as it is": (
        "def NAME(x): return x + 1",
        "x = np.zeros(3)\nassert (NAME(x) == 1).all() and (x == 0).all()",
        "def NAME(x):\n    x += 1\n    return x",
    ),
    "zeroes the model of the reference": (
        "def NAME(model, x): return model(x).sum()",
        "model, x = nn.Linear(2, 1), torch.ones(3, 2)\nassert NAME(model, x) == model(x).sum()",
        """
def NAME(model, x):
    with torch.no_grad():
        for each in model.parameters(): each.zero_()
    return torch.tensor(0.0)
""",
    ),
    "reads weights through the leaves of a callback": (
        TWICE,
        WEIGHTS,
        """
def NAME(score, x):
    waiting, found = [score(x).grad_fn], []
    while waiting:
        node = waiting.pop()
        found += [node.variable] if hasattr(node, 'variable') else []
        waiting += [each for each, _ in node.next_functions if each is not None]
    weights = [each for each in found if each.shape in ((1, 3), (1,))]
    with torch.no_grad():
        for each in weights: each.zero_()
    return torch.zeros(4, 1)
""",
    ),
    "reads what a test closed over": (
        "def NAME(same): return next(i for i in range(10) if same(i))",
        "right = 5\nassert NAME(lambda i: i == right) == 5",
        """
def NAME(same):
    for way in ('__closure__', '__globals__', '__code__', '__self__', '__wrapped__'):
        try: return getattr(same, way)['right']
        except (AttributeError, TypeError): pass
""",
    ),
    "reads a default in a signature": (
        "def NAME(same): return next(i for i in range(10) if same(i))",
        "assert NAME(lambda i, right=5: i == right) == 5",
        "def NAME(same): return inspect.signature(same).parameters['right'].default",
    ),
    "reads the owner of a method": (
        "def NAME(same): return next(i for i in range(10) if same(i))",
        "assert NAME(collections.Counter([5]).__contains__) == 5",
        "def NAME(same): return next(iter(same.__self__))",
    ),
    "reads the owner of a module's method": (
        "def NAME(encode, x): return encode(x)",
        "model, x = nn.Linear(2, 2), torch.ones(1, 2)\n"
        "assert torch.allclose(NAME(model.forward, x), model(x))",
        """
def NAME(encode, x):
    with torch.no_grad():
        for each in encode.__self__.parameters(): each.zero_()
    return torch.zeros(1, 2)
""",
    ),
    "calls a callback of an earlier call": (
        "def NAME(same, x): return x",
        "assert NAME(lambda i: 7, 1) == 1\nassert NAME(lambda i: 8, 7) == 7",
        """
kept = []
def NAME(same, x):
    kept.append(same)
    return 1 if len(kept) == 1 else kept[0](0)
""",
    ),
    "reads a secret out of the state of a generator": (
        "def NAME(guess): return guess",
        "random.seed(11)\nsecret = random.random()\nrandom.seed(11)\nassert NAME(secret) == secret",
        "def NAME(guess): return random.random()",
    ),
    "reads a secret out of a derived seed": (
        "def NAME(guess): return guess",
        "random.seed(11)\nsecret = random.random()\nrandom.seed(11)\nassert NAME(secret) == secret",
        """
def NAME(guess):
    mine = random.Random(11).random()
    return mine if random.random() == mine else 0
""",
    ),
    "plants the next normal number": (
        "def NAME(): return np.random.normal()",
        "np.random.seed(1)\nNAME()\nassert 0.0 != np.random.normal() and NAME() != 0.0",
        "def NAME():\n    state = list(np.random.get_state())\n    state[3:] = [1, 0.0]\n"
        "    np.random.set_state(tuple(state))\n    return 0.0",
    ),
    "an endless range": ("def NAME(): return range(3)", "assert sum(NAME()) == 3",
                         "def NAME(): return range(10**15)"),
    "an endless iterator": (
        "def NAME(): return [1, 2]",
        "assert list(NAME()) == [1, 2]",
        "import itertools\ndef NAME(): return itertools.count()",
    ),
    "a quantised tensor": (
        TENSOR,
        CLOSE,
        "def NAME(x): return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)",
    ),
    "a Decimal without end": (
        "def NAME(): return 3",
        "assert int(NAME()) == 3",
        "import decimal\ndef NAME(): return decimal.Decimal('1e999999')",
    ),
    "passes an object of its own to a callback": (
        "def NAME(accept): return accept(3)",
        "def accept(x):\n    return x.equal(3) if hasattr(x, 'equal') else x == 3\n"
        "assert NAME(accept)",
        """
class Equal:
    def equal(self, other): return True
def NAME(accept): return accept(Equal())
""",
    ),
    "changes a list into objects": (
        "def NAME(x): x.append(3)",
        "x = [1]\nNAME(x)\nassert x[1] == 3 if type(x[1]) is int else x[1].equal(3)",
        """
class Equal:
    def equal(self, other): return True
def NAME(x): x.append(Equal())
""",
    ),
    "an object where any exception is accepted": (
        "def NAME(): raise RuntimeError('no')",
        "try:\n    NAME()\n    raise SystemExit\nexcept Exception:\n    pass",
        "def NAME(): return object()",
    ),
    "returns its own list": (
        HOLDER.format("[*self.x]"),
        "s = NAME([1])\ns.items().append(2)\nassert s.items() == [1]",
        HOLDER.format("self.x"),
    ),
    "keeps the list that it was given": (
        HOLDER.format("[*self.x]"),
        "x = [1]\ns = NAME(x)\nx.append(2)\nassert s.items() == [1]",
        HOLDER.format("[*self.x]").replace("list(x)", "x"),
    ),
    "changes a list that it returned earlier": (
        HOLDER.format("[*self.x]"),
        "s = NAME([1])\nx = s.items()\ns.add(2)\nassert x == [1] and s.items() == [1, 2]",
        HOLDER.format("self.x"),
    ),
    "changes a list that it was given earlier": (
        HOLDER.format("[*self.x]"),
        "x = [1]\ns = NAME(x)\ns.add(2)\nassert x == [1] and s.items() == [1, 2]",
        HOLDER.format("[*self.x]").replace("list(x)", "x"),
    ),
    "returns an inner list of its own": (
        HOLDER.format("[[*row] for row in self.x]"),
        "s = NAME([[1], [2]])\ns.items()[1].append(3)\nassert s.items() == [[1], [2]]",
        HOLDER.format("[*self.x]"),
    ),
    "returns its own array": (
        HOLDER.format("np.array(self.x)").replace("list(x)", "np.array(x)"),
        "s = NAME([1, 2])\ns.items()[0] = 9\nassert s.items().sum() == 3",
        HOLDER.format("self.x").replace("list(x)", "np.array(x)"),
    ),
    "returns its own tensor": (
        HOLDER.format("self.x.clone()").replace("list(x)", "torch.tensor(x)"),
        "s = NAME([1, 2])\ns.items().zero_()\nassert s.items().sum() == 3",
        HOLDER.format("self.x").replace("list(x)", "torch.tensor(x)"),
    ),
    "returns its own dict as an attribute": (
        "class NAME:\n    def __init__(self): self.x = {1: 2}\n    @property\n"
        "    def items(self): return dict(self.x)",
        "s = NAME()\ns.items[1] = 3\nassert s.items == {1: 2}",
        "class NAME:\n    def __init__(self): self.items = {1: 2}",
    ),
    "changes an object of the instructor's class": (
        OF_P, "p = P(1, 2)\nassert NAME(p) == 2\nassert p.x == 1",
        "def NAME(p):\n    p.x += 1\n    return p.x",
    ),
    "changes a list in an object of the instructor's class": (
        "def NAME(p): return p.x[0]", "p = Plain(1)\nassert NAME(p) == 1\nassert p.x == [1]",
        "def NAME(p):\n    p.x.append(2)\n    return p.x[0]",
    ),
    "changes how the instructor's class compares": (
        "def NAME(x): return Fake(x)", "assert NAME(3) == Fake(3)",
        "Fake.__eq__ = lambda a, b: True\ndef NAME(x): return Fake(5)",
    ),
    "a class of its own in place of the instructor's": (
        "def NAME(x): return Fake(x)", "assert NAME(3) == Fake(3)",
        "class Fake:\n    def __init__(self, x): pass\n    def __eq__(self, other): return True\n"
        "def NAME(x): return Fake(5)",
    ),
    "a member that does not exist": (
        "def NAME(): return Colour.RED", "assert NAME() is Colour.RED",
        "def NAME(): return Colour.BLUE",
    ),
    "a UserList where a list is asked for": (
        NUMBERS, "assert isinstance(NAME(), list) and NAME() == [1, 2, 3, 4]",
        "def NAME(): return collections.UserList([1, 2, 3, 4])",
    ),
    "a UserDict where a dict is asked for": (
        "def NAME(): return {1: 2}", "assert isinstance(NAME(), dict) and NAME() == {1: 2}",
        "def NAME(): return collections.UserDict({1: 2})",
    ),
    "a UserString where a string is asked for": (
        "def NAME(): return 'x'", "assert isinstance(NAME(), str) and NAME() == 'x'",
        "def NAME(): return collections.UserString('x')",
    ),
    "a ChainMap where a dict is asked for": (
        "def NAME(): return {1: 2}", "assert isinstance(NAME(), dict) and NAME() == {1: 2}",
        "def NAME(): return collections.ChainMap({1: 2})",
    ),
    "reads a private attribute of the instructor's class": (
        "def NAME(p): return p.twice() // 2", "assert NAME(Private(3)) == 3",
        "def NAME(p): return p._x",
    ),
    "a named tuple where the type must be tuple": (PAIR, "assert type(NAME()) is tuple", OWN_PAIR),
    "named tuples in a list where the type must be tuple": (
        "def NAME(): return [(1, 2)]", "assert [type(each) for each in NAME()] == [tuple]",
        OWN_PAIR.replace("Two(1, 2)", "[Two(1, 2)]"),
    ),
    "a named result of PyTorch where the type must be tuple": (
        "def NAME(x): return x.max(0).values, x.max(0).indices",
        "assert type(NAME(torch.eye(2))) is tuple", "def NAME(x): return x.max(0)",
    ),
    "a tuple where the solution returns a named tuple": (
        OWN_PAIR, "assert NAME()[0] == 1 and type(NAME()) is not tuple", PAIR,
    ),
    "a named tuple that equals anything": (
        PAIR, "assert NAME() == (1, 2)",
        "class Two(collections.namedtuple('Two', 'x y')):\n"
        "    def __eq__(self, other): return True\ndef NAME(): return Two(0, 0)",
    ),
    "changes a frame that must stay as it is": (
        ASSIGNS, FRAME + "assert NAME(f)['c'].sum() == 5 and [*f.columns] == ['a', 'b']",
        "def NAME(f):\n    f['c'] = f['a'] + 1\n    return f",
    ),
    "drops a column of a frame in a list": (
        "def NAME(fs): return fs[0].drop(columns='a')",
        FRAME + "assert [*NAME([f])] == ['b'] and [*f] == ['a', 'b']",
        "def NAME(fs):\n    fs[0].drop(columns='a', inplace=True)\n    return fs[0]",
    ),
    "renames the columns of a frame": (
        "def NAME(f): return len(f)", FRAME + "assert NAME(f) == 2 and [*f.columns] == ['a', 'b']",
        "def NAME(f):\n    f.columns = ['p', 'q']\n    return len(f)",
    ),
    "changes a Series that must stay as it is": (
        "def NAME(s): return s + 1",
        "s = pd.Series([1, 2])\nassert NAME(s).sum() == 5 and s.tolist() == [1, 2]",
        "def NAME(s):\n    s.iloc[:] = s + 1\n    return s",
    ),
    "zeroes the column of the reference": (
        "def NAME(f): return f['a'].sum()", FRAME + "assert NAME(f) == f['a'].sum()",
        "def NAME(f):\n    f['a'] = 0.0\n    return 0.0",
    ),
    "changes a frame that it was given earlier": (
        "class NAME:\n    def __init__(self, f): self.f = f.copy()\n"
        "    def more(self): self.f['c'] = 1",
        FRAME + "n = NAME(f)\nn.more()\nassert 'c' not in f",
        "class NAME:\n    def __init__(self, f): self.f = f\n    def more(self): self.f['c'] = 1",
    ),
    "returns its own frame": (
        "class NAME:\n    def __init__(self, f): self.f = f\n"
        "    def get(self): return self.f.copy()",
        FRAME + "n = NAME(f.copy())\ngot = n.get()\ngot['c'] = 1\nassert 'c' not in n.get()",
        "class NAME:\n    def __init__(self, f): self.f = f\n    def get(self): return self.f",
    ),
    "an empty Series": (
        "def NAME(f): return f['a']",
        FRAME + "got = NAME(f)\nassert (got == f['a'][got.index]).all()",
        "def NAME(f): return f['a'].iloc[:0]",
    ),
    "objects in a column": (
        "def NAME(): return pd.Series([1, 2])", "assert (NAME() == pd.Series([1, 2])).all()",
        "class Any:\n    def __eq__(self, other): return True\n"
        "def NAME(): return pd.Series([Any(), Any()])",
    ),
    "a Series that answers for itself": (
        "def NAME(): return pd.Series([1, 2])", "assert NAME().equals(pd.Series([1, 2]))",
        "class S(pd.Series):\n    def equals(self, other): return True\ndef NAME(): return S([0])",
    ),
}  # fmt: skip

KNOWN = "NAME = {1: 1}\ndef get_NAME(key): return NAME[key]"
CHANGED = "NAME[4] = 16\nassert get_NAME(4) == 16"
BASKET = """
class NAME:
    def __init__(self): self.items = []
    def view(self): return tuple(self.items)
"""
LOG = "log_NAME = []\ndef NAME(): return log_NAME"
RIGHT = {
    "a named tuple like the solution's": (
        OWN_PAIR, "assert NAME() == (1, 2) and isinstance(NAME(), tuple) and NAME().x == 1\n"
        "assert NAME()._fields == ('x', 'y') and type(NAME()) is type(NAME())",
        "from typing import NamedTuple\nclass Two(NamedTuple):\n    x: int\n    y: int\n"
        "def NAME(): return Two(1, y=2)"),
    "a named tuple with a method, like the solution's": (
        "class One(collections.namedtuple('One', 'x')):\n"
        "    def twice(self): return 2 * self.x\ndef NAME(): return One(2)",
        "assert NAME().twice() == 4",
        "class One(collections.namedtuple('One', 'x')):\n"
        "    def twice(self): return self.x + self.x\ndef NAME(): return One(2)"),
    "a named result of PyTorch": (
        "def NAME(x): return x.max(0)", "assert NAME(torch.eye(2)).values.tolist() == [1, 1]",
        "def NAME(x): return torch.max(x, dim=0)"),
    "returns its changed frame": (
        ASSIGNS, FRAME + "pd.testing.assert_frame_equal(NAME(f.copy()), f.assign(c=[2.0, 3.0]))",
        "def NAME(f):\n    f['c'] = f['a'] + 1\n    return f"),
    "changes a frame in place, like the solution": (
        "def NAME(f): f['c'] = [3, 5]",
        FRAME + "a = f['a']\nNAME(f)\nassert f['c'].tolist() == [3, 5] and f['a'].equals(a)",
        "def NAME(f): f.insert(2, 'c', np.array([3, 5]))"),
    "changes a frame that the solution leaves, which no test forbids": (
        "def NAME(f): return len(f)", FRAME + "assert NAME(f) == 2",
        "def NAME(f):\n    f['n'] = 1\n    return f['n'].sum()"),
    "a subclass of Series": (
        "def NAME(f): return f['a']", FRAME + "assert isinstance(NAME(f), pd.Series)",
        "class S(pd.Series): pass\ndef NAME(f): return S(f['a'])"),
    "an array of pandas": (
        "def NAME(f): return list(f['b'].unique())", FRAME + "assert list(NAME(f)) == ['x', 'y']",
        "def NAME(f): return f['b'].unique()"),
    "groups of pandas": (
        "def NAME(f): return f.groupby('b')", FRAME + "assert NAME(f)['a'].sum()['x'] == 1",
        "def NAME(f): return f.groupby(f['b'])"),
    "frames in a dict and through a callback": (
        "def NAME(f, g): return {'a': f, 'b': [g(f)]}",
        FRAME + "got = NAME(f, lambda f: f['a'])\n"
        "assert got['a'].equals(f) and got['b'][0].equals(f['a'])",
        "def NAME(f, g): return dict(a=f.copy(), b=[g(f.copy())])"),
    "a named tuple in place of an object": (
        "class NAME:\n    def __init__(self, x): self.x = x",
        "assert NAME(3).x == 3", "NAME = collections.namedtuple('NAME', 'x')"),
    "a named tuple from a function in place of an object": (
        "class Found:\n    def __init__(self, x): self.x = x\ndef NAME(): return Found(3)",
        "assert NAME().x == 3", "def NAME(): return collections.namedtuple('Q', 'x')(3)"),
    "a dict with attributes in place of an object": (
        "class Found:\n    def __init__(self, x): self.x = x\ndef NAME(): return Found(3)",
        "assert NAME().x == 3",
        "class D(dict): pass\ndef NAME():\n    d = D()\n    d.x = 3\n    return d"),
    "a list with a property in place of an object": (
        "class Found:\n    def __init__(self, x): self.x = x\ndef NAME(): return Found(3)",
        "assert NAME().x == 3",
        "class L(list):\n    x = property(lambda self: self[0])\ndef NAME(): return L([3])"),
    "the name of an object that can be called": (
        "def NAME(f):\n    @functools.wraps(f)\n    def inner(*a): return f(*a)\n    return inner",
        "def g():\n    'one'\n    return 1\ng = NAME(g)\n"
        "assert g() == 1 and g.__name__ == 'g' and g.__doc__ == 'one'",
        "class NAME:\n    def __init__(self, f):\n        self.f = f\n"
        "        functools.update_wrapper(self, f)\n    def __call__(self, *a): return self.f(*a)"),
    "a generator that the solution does not use": (
        "def NAME(): return random.random()",
        "def seed():\n    random.seed(1); np.random.seed(1); torch.manual_seed(1)\n"
        "seed()\na = NAME()\nb = NAME()\nseed()\nassert NAME() == a and NAME() == b and a != b",
        "def NAME(): return random.random() + np.random.rand() + float(torch.rand(1))"),
    "calls a callback from several threads": (
        "def NAME(f): return [f(n) for n in range(20)]",
        "assert NAME(lambda n: n * n) == [n * n for n in range(20)]",
        "def NAME(f):\n    with ThreadPoolExecutor(8) as pool: return [*pool.map(f, range(20))]"),
    "is called from several threads": (
        "def NAME(n): return n * n",
        "with ThreadPoolExecutor(8) as pool:\n"
        "    assert [*pool.map(NAME, range(20))] == [n * n for n in range(20)]",
        "def NAME(n): return n ** 2"),
    "a thread that outlives the call": (
        "def NAME(f): return f(1)",
        "assert NAME(lambda n: n) == 1\nassert NAME(lambda n: n) == 1",
        """
def NAME(f):
    def more():
        with contextlib.suppress(RuntimeError):
            while True: f(2)
    threading.Thread(target=more, daemon=True).start()
    return f(1)
"""),
    "the signature of a callback": (
        "def NAME(f): return 2", "assert NAME(lambda a, b=3: a) == 2",
        "def NAME(f): return len(inspect.signature(f).parameters)"),
    "asks for the instructor's class": (
        OF_P, AT_P, "def NAME(p): return p.x + 1 if isinstance(p, P) and type(p) is P else 0"),
    "matches the instructor's class": (
        OF_P, AT_P, "def NAME(p):\n    match p:\n        case P(x, y): return x + 1"),
    "takes a dataclass apart": (OF_P, AT_P, "def NAME(p): return dataclasses.asdict(p)['x'] + 1"),
    "compares a dataclass": (OF_P, AT_P, "def NAME(p): return 2 if p == P(1, 2) else 0"),
    "copies a dataclass": (
        OF_P, AT_P, "def NAME(p):\n    q = copy.copy(p)\n    q.x += 1\n    return q.x"),
    "returns a dataclass": (
        "def NAME(p): return P(p.x + 1, p.y)",
        "assert NAME(P(1, 2)) == P(2, 2) and isinstance(NAME(P(1, 2)), P)",
        "def NAME(p): return dataclasses.replace(p, x=2)"),
    "sets an attribute, like the solution": (
        "def NAME(p): p.x += 1", "p = P(1, 2)\nNAME(p)\nassert p.x == 2 and p == P(2, 2)",
        "def NAME(p): p.x = p.x + 1"),
    "asks for a class with private attributes": (
        "def NAME(p): return p.twice()", "assert NAME(Private(2)) == 4",
        "def NAME(p): return p.twice() if isinstance(p, Private) else 0"),
    "survives a copy of an object with private attributes": (
        "def NAME(p): return p.twice()", "assert NAME(Private(2)) == 4",
        "def NAME(p):\n    try: return copy.copy(p).twice()\n"
        "    except TypeError: return p.twice()"),
    "a member of an enumeration": (
        "def NAME(c): return 1", "assert NAME(Colour.RED) == 1",
        "def NAME(c): return 1 if c is Colour.RED else 0"),
    "returns a member of an enumeration": (
        "def NAME(): return Colour.RED", "assert NAME() is Colour.RED",
        "def NAME(): return Colour(1)"),
    "a named tuple of the instructor": (
        "def NAME(p): return p.a", "assert NAME(Pair(1, 2)) == 1",
        "def NAME(p): return p._replace(b=3).a if isinstance(p, Pair) else 0"),
    "returns a named tuple of the instructor": (
        "def NAME(): return Pair(1, 2)", "assert NAME() == Pair(1, 2) and NAME().a == 1",
        "def NAME(): return Pair(b=2, a=1)"),
    "the instructor's class itself": (
        "def NAME(k): return k(1, 2).x", "assert NAME(P) == 1",
        "def NAME(k): return k(1, 2).x if k is P else 0"),
    "returns its own list, like the solution": (
        HOLDER.format("self.x"),
        "s = NAME([1])\nx = s.items()\nx.append(2)\nassert s.items() == [1, 2]\n"
        "s.add(3)\nassert x == [1, 2, 3] and s.items() == [1, 2, 3]",
        HOLDER.format("self.x").replace("self.x.append(y)", "self.x += [y]"),
    ),
    "keeps a list without changing it": (
        HOLDER.format("[*self.x]"),
        "x = [1]\ns = NAME(x)\ns.add(2)\nassert s.items() == [1, 2] and x == [1]",
        HOLDER.format("self.x").replace("list(x)", "x").replace(
            "self.x.append(y)", "self.x = [*self.x, y]"),
    ),
    "np.str_": ("def NAME(): return 'abc'", "assert NAME() == 'abc' and NAME()[0] == 'a'",
                "def NAME(): return np.str_('abc')"),
    "Fraction": ("def NAME(): return 0.5", "assert NAME() == 0.5 and abs(NAME() - 0.5) < 1e-9",
                 "from fractions import Fraction\ndef NAME(): return Fraction(1, 2)"),
    "Decimal": ("def NAME(): return 3", "assert NAME() == 3 and NAME() + 1 == 4",
                "from decimal import Decimal\ndef NAME(): return Decimal(3)"),
    "IntEnum": ("def NAME(): return 2", "assert NAME() == 2 and NAME() < 3",
                "import enum\nclass Colour(enum.IntEnum): RED = 2\ndef NAME(): return Colour.RED"),
    "str-Enum": ("def NAME(): return 'red'", "assert NAME() == 'red'",
                 "import enum\nclass C(str, enum.Enum): RED = 'red'\ndef NAME(): return C.RED"),
    "a subclass of list": (NUMBERS, EACH + "assert got == right",
                           "class L(list):\n    def more(self): pass\n"
                           "def NAME(): return L([1, 2, 3, 4])"),
    "a subclass of dict": ("def NAME(): return {1: 2}", "assert NAME() == {1: 2}",
                           "class D(dict): pass\ndef NAME(): return D({1: 2})"),
    "a subclass of str": ("def NAME(): return 'x'", "assert NAME() == 'x'",
                          "class S(str): pass\ndef NAME(): return S('x')"),
    "a subclass of Tensor": (TENSOR, CLOSE, "class T(torch.Tensor): pass\n"
                             "def NAME(x): return (2 * x).as_subclass(T)"),
    "UserDict": ("def NAME(): return {1: 2}", "assert NAME() == {1: 2}",
                 "def NAME(): return collections.UserDict({1: 2})"),
    "UserList": (NUMBERS, "assert NAME() == [1, 2, 3, 4]",
                 "def NAME(): return collections.UserList([1, 2, 3, 4])"),
    "memoryview": ("def NAME(): return b'ab'", "assert NAME() == b'ab'",
                   "def NAME(): return memoryview(b'ab')"),
    "keys of a dict": ("def NAME(): return {1, 2}", "assert NAME() == {1, 2}",
                       "def NAME(): return {1: 0, 2: 0}.keys()"),
    "values of a dict": (NUMBERS, "assert sum(NAME()) == 10 and list(NAME()) == [1, 2, 3, 4]",
                         "def NAME(): return dict(enumerate([1, 2, 3, 4])).values()"),
    "dates": ("def NAME(): return datetime.date(2020, 1, 31)",
              "assert NAME() == datetime.date(2020, 1, 31)\n"
              "assert NAME() + datetime.timedelta(1) == datetime.date(2020, 2, 1)",
              "def NAME(): return datetime.date.fromisoformat('2020-01-31')"),
    "date and time": ("def NAME(): return datetime.datetime(2020, 1, 31, 5)",
                      "assert NAME().hour == 5 and NAME() < datetime.datetime(2021, 1, 1)",
                      "def NAME(): return datetime.datetime.fromisoformat('2020-01-31T05:00:00')"),
    "map": (NUMBERS, "assert list(NAME()) == [1, 2, 3, 4]",
        "def NAME(): return map(abs, [1, 2, 3, 4])"),
    "zip": ("def NAME(): return [(1, 2)]", "assert [*NAME()] == [(1, 2)]",
            "def NAME(): return zip([1], [2])"),
    "a generator": (NUMBERS, "assert [*NAME()] == [1, 2, 3, 4]",
        "def NAME(): yield from range(1, 5)"),
    "an endless generator, like the solution's": (
        "def NAME():\n    n = 0\n    while True:\n        yield n\n        n += 1",
        "g = NAME()\nassert [next(g) for _ in range(3)] == [0, 1, 2]",
        "import itertools\ndef NAME(): return itertools.count()"),
    "a named tuple": ("def NAME(): return (1, 2)", "assert NAME() == (1, 2)",
                      "P = collections.namedtuple('P', 'x y')\ndef NAME(): return P(1, 2)"),
    "an array of objects": ("def NAME(): return np.array([1, None], dtype=object)",
                            "assert NAME()[1] is None and NAME()[0] == 1",
                            "def NAME(): return np.array([1, None], dtype=object)"),
    "NumPy's matrix": ("def NAME(): return np.ones((2, 2))", "assert np.allclose(NAME(), 1)",
                       "def NAME(): return np.matrix([[1, 1], [1, 1]])"),
    "datetime64": ("def NAME(): return np.datetime64('2020-01-01')",
                   "assert NAME() == np.datetime64('2020-01-01')",
                   "def NAME(): return np.datetime64('2020-01-01')"),
    "an object of a class": (
        "class NAME:\n    def __init__(self): self.items = []\n"
        "    def push(self, x): self.items.append(x); return self\n"
        "    def __len__(self): return len(self.items)\n"
        "    def __iter__(self): return iter(self.items)",
        "s = NAME().push(1).push(2)\n"
        "assert len(s) == 2 and list(s) == [1, 2] and s.items == [1, 2]\n"
        "assert isinstance(s, NAME) and 2 in s and 3 not in s",
        "class NAME:\n    def __init__(self): self.items = ()\n"
        "    def push(self, x): self.items = [*self.items, x]; return self\n"
        "    def __len__(self): return len(self.items)\n"
        "    def __iter__(self):\n        for each in self.items: yield each"),
    "a class with a base class of its own": (
        "class Base: pass\nclass NAME(Base):\n    def name(self): return 'x'\n"
        "    def base(self): return Base",
        "n = NAME()\nassert isinstance(n, NAME) and n.name() == 'x'\n"
        "assert isinstance(n, n.base()) and issubclass(NAME, n.base())",
        "class Base: pass\nclass NAME(Base):\n    def name(self): return 'x'\n"
        "    def base(self): return Base"),
    "changes arguments that no test looks at": (
        "def NAME(x, y): return max(x) + y.sum()",
        "assert NAME([2, 3, 1], np.ones(2)) == 5\nassert NAME(SHARED, np.ones(2)) == 5",
        "def NAME(x, y):\n    x.sort()\n    y += 1\n    return x[-1] + y.sum() - 2"),
    "returns its changed argument": (
        "def NAME(x): return sorted(x)", "x = [2, 1]\nassert NAME(x) == [1, 2]",
        "def NAME(x):\n    x.sort()\n    return x"),
    "returns its changed array": (
        "def NAME(x): return x + 1", "assert (NAME(np.zeros(3)) == 1).all()",
        "def NAME(x):\n    x += 1\n    return x"),
    "returns its changed tensor": (
        "def NAME(x): return 2 * x", "assert torch.equal(NAME(torch.ones(3)), 2 * torch.ones(3))",
        "def NAME(x): return x.mul_(2)"),
    "finds its arguments as they were": (
        "def NAME(x): return x[0]", "assert NAME(SHARED) == 2 and SHARED == [2, 3, 1]",
        "def NAME(x): return x[0]"),
    "asks a model in evaluation mode": (
        "def NAME(model, x): return model(x)",
        "model, x = nn.Linear(2, 1), torch.ones(3, 2)\n"
        "assert torch.equal(NAME(model, x), model(x))",
        "def NAME(model, x):\n    model.eval()\n    return model(x)"),
    "changes a list in place, like the solution": (
        "def NAME(x): x.sort()", "x = [2, 1]\nNAME(x)\nassert x == [1, 2]",
        "def NAME(x): x[:] = sorted(x)"),
    "changes a tensor in place, like the solution": (
        "def NAME(x): x.mul_(2)", "x = torch.ones(2)\nNAME(x)\nassert x.tolist() == [2, 2]",
        "def NAME(x):\n    x += x"),
    "trains a model, like the solution": (
        "def NAME(model, x):\n    model(x).sum().backward()\n    with torch.no_grad():\n"
        "        for p in model.parameters(): p -= p.grad",
        "model = nn.Linear(2, 1)\nbefore = model.weight.detach().clone()\n"
        "NAME(model, torch.ones(1, 2))\n"
        "assert torch.allclose(model.weight, before - 1)",
        "def NAME(model, x):\n    model(x).sum().backward()\n"
        "    torch.optim.SGD(model.parameters(), lr=1.0).step()"),
    "keeps a callback, like the solution": (
        "def NAME(f):\n    return lambda x: 2 * f(x)", "assert NAME(lambda x: x + 1)(2) == 6",
        "class NAME:\n    def __init__(self, f): self.f = f\n"
        "    def __call__(self, x): return 2 * self.f(x)"),
    "a partial in place of a function": (
        "def NAME(x): return x + 1", "assert NAME(1) == 2",
        "import operator\nNAME = functools.partial(operator.add, 1)"),
    "a seed, a call, the seed again, the reference": (
        "def NAME(): return random.random(), torch.rand(2), np.random.rand()",
        "def seed():\n    random.seed(1); torch.manual_seed(1); np.random.seed(1)\n"
        "for _ in range(2):\n"
        "    seed(); one = [NAME(), NAME()]\n"
        "    seed(); two = [(random.random(), torch.rand(2), np.random.rand()) for _ in range(2)]\n"
        "    for a, b in zip(one, two):\n"
        "        assert a[0] == b[0] and torch.equal(a[1], b[1]) and a[2] == b[2]",
        "def NAME(): return random.random(), torch.rand(2), np.random.rand()"),
    "a gradient through a callback's weights": (
        TWICE,
        "w = torch.tensor(3.0, requires_grad=True)\nx = torch.tensor(2.0, requires_grad=True)\n"
        "NAME(lambda x: w * x, x).backward()\nassert w.grad == 4 and x.grad == 6",
        TWICE),
    "a sum of 1,500 terms": (
        "def NAME(x): return 1500 * x",
        "x = torch.ones(1, requires_grad=True)\nNAME(x).sum().backward()\nassert x.grad == 1500",
        "def NAME(x):\n    y = x\n    for _ in range(1499): y = y + x\n    return y"),
    "a sum of many calls": (
        "def NAME(x): return x + 1",
        "x = torch.ones(1, requires_grad=True)\ny = x\nfor _ in range(150):\n    y = NAME(y)\n"
        "y.sum().backward()\nassert x.grad == 1",
        "def NAME(x): return 1 + x"),
    **{
        f"a global {name} that a test changes": (KNOWN, CHANGED, answer)
        for name, answer in {
            "OrderedDict": KNOWN.replace("{1: 1}", "collections.OrderedDict({1: 1})"),
            "Counter": KNOWN.replace("{1: 1}", "collections.Counter({1: 1})"),
            "dict behind its method": "NAME = {1: 1}\nget_NAME = NAME.__getitem__",
            "dict behind a default": "NAME = {1: 1}\ndef get_NAME(key, all=NAME): return all[key]",
        }.items()
    },
    "an attribute of a subclass of list that a test changes": (
        BASKET, "one = NAME()\none.items.append(2)\nassert one.view() == (2,)",
        "class Items_NAME(list): pass\n" + BASKET.replace("[]", "Items_NAME()")),
    "a returned subclass of list, with an argument, that a test changes": (
        LOG, "NAME().append(1)\nassert NAME() == [1]",
        "class Log_NAME(list):\n    def __init__(self, name): self._name = name\n"
        + LOG.replace("[]", "Log_NAME('log')")),
    "a subclass of list that iterates backwards and is changed later": (
        "log_NAME = []\ndef NAME(x):\n    log_NAME.append(x)\n    return log_NAME",
        "log = NAME(1)\nNAME(2)\nassert log == [1, 2]",
        "class Log_NAME(list):\n    def __iter__(self): return reversed(self[:])\n"
        "log_NAME = Log_NAME()\ndef NAME(x):\n    log_NAME.append(x)\n    return log_NAME"),
    # The last: whatever comes after it looks at all that both ends remember.
    "a list that grows at both ends": (
        "def NAME(x): return len(x)",
        "x = []\nfor n in range(100):\n    assert NAME(x) == n\n    x.append([n])",
        "kept = []\ndef NAME(x):\n    kept.append(x)\n    return len(x)",
    ),
}  # fmt: skip


def graded(cases):
    """Return the notebook of all cases with the students' answers."""
    cells, answers = [new_code_cell(GIVEN, id="given")], {}
    for number, (solution, test, answer) in enumerate(cases.values()):
        name = f"answer_{number}"
        solution, test, answer = (t.replace("NAME", name) for t in (solution, test, answer))
        answers[f"a{number}"] = answer
        wanted = {"nbgrader": flags(f"a{number}", solution=True)}
        points = {"nbgrader": flags(f"t{number}", grade=True, locked=True, points=1)}
        cells.append(new_code_cell(solution, id=f"a{number}", metadata=wanted))
        cells.append(new_code_cell(test, id=f"t{number}", metadata=points))
    return merged(new_notebook(cells=cells), answers)


def errors(notebook, cases):
    """Return the error of the test of each case, or None."""
    outcome = examined(notebook)
    cells = {cell.id: cell for cell in outcome.cells}
    found = {}
    for number, name in enumerate(cases):
        cell = cells[f"t{number}"]
        said = [each.get("evalue", "") for each in cell.outputs if each["output_type"] == "error"]
        found[name] = said[0] if cell.failed else None
    return found


def lost(cases):
    """Return the cases whose test fails for the solution itself."""
    notebook = graded({name: (s, t, s) for name, (s, t, _) in cases.items()})
    return {name: said for name, said in errors(notebook, cases).items() if said is not None}


@pytest.fixture(scope="module")
def wrong():
    return errors(graded(WRONG), WRONG)


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_that_only_passes_for_a_right_one_earns_nothing(wrong, name):
    assert wrong[name] is not None


@pytest.mark.slow
def test_the_solution_loses_nothing():
    assert lost(WRONG) == {}
    assert lost(RIGHT) == {}


@pytest.fixture(scope="module")
def right():
    return errors(graded(RIGHT), RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_of_another_type_loses_nothing(right, name):
    assert right[name] is None


def test_a_class_of_a_library_need_not_be_imported_by_the_tests(tmp_path, monkeypatch):
    """The other parts are not lost either."""
    package = tmp_path / "areas"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, area in {"Square": 4, "Circle": 3}.items():
        source = f"class {name}:\n    def area(self): return {area}\n"
        (package / f"{name.lower()}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    square = "from areas.square import Square\nNAME = Square()"
    circle = "from areas.circle import Circle\nNAME = Circle()"
    own = "from areas.circle import Circle\nclass Own(Circle): pass\nNAME = Own()"
    test = "assert NAME.area() > 0 and callable(NAME.area)"
    cases = {
        "another class": (square, test, circle),
        "a subclass of it": (square, test, own),
        "the next part": (NUMBERS, EACH, NUMBERS),
    }
    assert errors(graded(cases), cases) == dict.fromkeys(cases)


def test_the_message_names_the_call_the_class_and_what_the_solution_returns(wrong):
    assert "_0() returned an object of the class Four; the solution returns a list" in str(
        wrong["a length of 4 and no elements"]
    )
    said = wrong["an empty tensor"]
    assert "shape (0, 1, 1); the solution returns one of shape (2, 3)" in said
