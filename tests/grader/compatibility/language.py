"""Themes: classes, generators, decorators, exceptions and other parts of the language."""

from grader.compatibility.theme import answer, check, given, theme

CLASSES = theme(
    "classes",
    answer(
        "vector",
        """
        class Vector:
            dimension = 2
            def __init__(self, x, y):
                self.x = x
                self.y = y
            def __add__(self, other):
                return Vector(self.x + other.x, self.y + other.y)
            def __mul__(self, factor):
                return Vector(self.x * factor, self.y * factor)
            def __rmul__(self, factor):
                return self * factor
            def __eq__(self, other):
                return isinstance(other, Vector) and (self.x, self.y) == (other.x, other.y)
            def __hash__(self):
                return hash((self.x, self.y))
            def __lt__(self, other):
                return self.length < other.length
            def __len__(self):
                return 2
            def __getitem__(self, place):
                return (self.x, self.y)[place]
            def __iter__(self):
                yield self.x
                yield self.y
            def __bool__(self):
                return self.x != 0 or self.y != 0
            def __repr__(self):
                return f"Vector({self.x}, {self.y})"
            def __call__(self):
                return self.x * self.y
            @property
            def length(self):
                return (self.x**2 + self.y**2) ** 0.5
            @classmethod
            def zero(cls):
                return cls(0, 0)
            @staticmethod
            def dot(a, b):
                return a.x * b.x + a.y * b.y
        """,
        variants=[
            """
            from dataclasses import dataclass
            @dataclass(frozen=True)
            class Vector:
                x: float
                y: float
                dimension = 2
                def __add__(self, o):
                    return Vector(self.x + o.x, self.y + o.y)
                def __mul__(self, k):
                    return Vector(k * self.x, k * self.y)
                __rmul__ = __mul__
                def __lt__(self, other):
                    return self.length < other.length
                def __len__(self):
                    return Vector.dimension
                def __getitem__(self, i):
                    return [self.x, self.y][i]
                def __iter__(self):
                    return iter([self.x, self.y])
                def __bool__(self):
                    return any((self.x, self.y))
                def __repr__(self):
                    return "Vector(%s, %s)" % (self.x, self.y)
                def __call__(self):
                    return self.x * self.y
                @property
                def length(self):
                    return abs(complex(self.x, self.y))
                @classmethod
                def zero(cls):
                    return Vector(0, 0)
                @staticmethod
                def dot(a, b):
                    return sum(p * q for p, q in zip(a, b))
            """,
        ],
        wrong=[
            """
            class Vector:
                def __init__(self, x, y):
                    self.x, self.y = x, y
            """,
            """
            class Vector:
                dimension = 3
                def __init__(self, x, y):
                    self.x, self.y = y, x
                def __add__(self, other):
                    self.x += other.x
                    self.y += other.y
                    return self
                def __eq__(self, other):
                    return True
                def __len__(self):
                    return 0
                def __repr__(self):
                    return "<Vector>"
                def length(self):
                    return (self.x**2 + self.y**2) ** 0.5
            """,
        ],
    ),
    check(
        "fields",
        1,
        """
        v = Vector(3, 4)
        assert v.x == 3 and v.y == 4
        assert Vector.dimension == 2
        """,
    ),
    check(
        "add",
        1,
        "assert Vector(1, 2) + Vector(3, 4) == Vector(4, 6)",
    ),
    check(
        "add-fields",
        1,
        """
        s = Vector(1, 2) + Vector(3, 4)
        assert (s.x, s.y) == (4, 6)
        """,
    ),
    check(
        "multiply",
        1,
        """
        assert Vector(1, 2) * 3 == Vector(3, 6)
        assert 3 * Vector(1, 2) == Vector(3, 6)
        """,
    ),
    check(
        "unequal",
        1,
        """
        assert Vector(1, 2) != Vector(2, 1)
        assert not Vector(1, 2) == 5
        """,
    ),
    check(
        "hash",
        1,
        """
        assert len({Vector(1, 2), Vector(1, 2), Vector(0, 0)}) == 2
        assert {Vector(1, 2): 'a'}[Vector(1, 2)] == 'a'
        """,
    ),
    check(
        "order",
        1,
        """
        vs = sorted([Vector(3, 4), Vector(0, 1), Vector(1, 1)])
        assert [v.x for v in vs] == [0, 1, 3]
        assert max(vs) is vs[-1]
        """,
    ),
    check(
        "container",
        1,
        """
        v = Vector(5, 7)
        assert len(v) == 2 and v[0] == 5 and v[-1] == 7
        x, y = v
        assert [*v] == [5, 7] and 7 in v and tuple(v) == (5, 7)
        """,
    ),
    check(
        "truth",
        1,
        """
        assert Vector(0, 1)
        assert not Vector(0, 0)
        assert bool(Vector(2, 0)) is True
        """,
    ),
    check(
        "text",
        1,
        """
        assert repr(Vector(1, 2)) == 'Vector(1, 2)'
        assert str(Vector(1, 2)) == 'Vector(1, 2)'
        assert f'{Vector(0, 1)}' == 'Vector(0, 1)'
        """,
    ),
    check(
        "call",
        1,
        """
        assert Vector(2, 3)() == 6
        assert callable(Vector(2, 3))
        """,
    ),
    check(
        "property",
        2,
        """
        assert Vector(3, 4).length == 5
        assert isinstance(Vector.length, property)
        try:
            Vector(3, 4).length = 2
        except AttributeError:
            pass
        else:
            raise AssertionError('length can be set')
        """,
    ),
    check(
        "class-and-static",
        1,
        """
        assert Vector.zero() == Vector(0, 0)
        assert Vector.dot(Vector(1, 2), Vector(3, 4)) == 11
        """,
    ),
    check(
        "types",
        1,
        """
        v = Vector(1, 2)
        assert isinstance(v, Vector)
        assert type(v) is Vector
        assert type(v + v).__name__ == 'Vector'
        assert isinstance(Vector, type)
        """,
    ),
    check(
        "attributes",
        1,
        """
        v = Vector(1, 2)
        assert hasattr(v, 'length') and not hasattr(v, 'z')
        assert getattr(v, 'x') == 1
        assert vars(v) == {'x': 1, 'y': 2}
        """,
    ),
)

INHERITANCE = theme(
    "inheritance",
    given(
        "base",
        """
        from abc import ABC, abstractmethod
        class Shape(ABC):
            count = 0
            def __init__(self):
                Shape.count += 1
            @abstractmethod
            def area(self):
                ...
            def describe(self):
                return f"{type(self).__name__} of area {self.area():.1f}"
        """,
    ),
    answer(
        "shapes",
        """
        class Rectangle(Shape):
            def __init__(self, a, b):
                super().__init__()
                self.a, self.b = a, b
            def area(self):
                return self.a * self.b
        class Square(Rectangle):
            def __init__(self, a):
                super().__init__(a, a)
            def describe(self):
                return super().describe() + "!"
        class Account:
            def __init__(self, balance=0):
                self.balance = balance
                self._history = []
            def deposit(self, amount):
                if amount <= 0:
                    raise ValueError("amount must be positive")
                self.balance += amount
                self._history.append(amount)
                return self
        """,
        variants=[
            """
            class Rectangle(Shape):
                def __init__(self, a, b):
                    Shape.__init__(self)
                    self.sides = (a, b)
                def area(self):
                    a, b = self.sides
                    return a * b
            class Square(Rectangle):
                def __init__(self, a):
                    Rectangle.__init__(self, a, a)
                def describe(self):
                    return Rectangle.describe(self) + "!"
            class Account:
                def __init__(self, balance=0):
                    self._history, self.balance = [], balance
                def deposit(self, amount):
                    if not amount > 0:
                        raise ValueError
                    self._history += [amount]
                    self.balance = self.balance + amount
                    return self
            """,
        ],
        wrong=[
            """
            class Rectangle:
                def __init__(self, a, b):
                    self.a, self.b = a, b
                def area(self):
                    return self.a * self.b
            class Square(Rectangle):
                def __init__(self, a):
                    super().__init__(a, a)
            class Account:
                balance = 0
                def deposit(self, amount):
                    self.balance += amount
            """,
            """
            class Rectangle(Shape):
                def __init__(self, a, b):
                    self.a, self.b = a, b
            class Square(Shape):
                def __init__(self, a):
                    self.a = a
                def area(self):
                    return 4 * self.a
            class Account:
                history = []
                def __init__(self, balance=0):
                    self.balance = 0
            """,
        ],
    ),
    check(
        "areas",
        1,
        """
        assert Rectangle(2, 3).area() == 6
        assert Square(4).area() == 16
        """,
    ),
    check(
        "describe",
        1,
        """
        assert Rectangle(2, 3).describe() == 'Rectangle of area 6.0'
        assert Square(2).describe() == 'Square of area 4.0!'
        """,
    ),
    check(
        "subclasses",
        1,
        """
        assert issubclass(Rectangle, Shape)
        assert issubclass(Square, Rectangle)
        assert isinstance(Square(1), Shape)
        """,
    ),
    check(
        "bases",
        1,
        """
        assert Square.__bases__ == (Rectangle,)
        assert Shape in Square.__mro__
        assert Square.__name__ == 'Square'
        """,
    ),
    check(
        "abstract",
        1,
        """
        try:
            Shape()
        except TypeError:
            pass
        else:
            assert False
        """,
    ),
    check(
        "counted",
        1,
        """
        before = Shape.count
        Rectangle(1, 2); Square(3)
        assert Shape.count == before + 2
        """,
    ),
    check(
        "overridden",
        1,
        """
        assert 'area' in vars(Rectangle)
        assert 'area' not in vars(Square)
        """,
    ),
    check(
        "subclass-in-the-test",
        2,
        """
        class Tall(Rectangle):
            def area(self):
                return 2 * super().area()
        assert Tall(2, 3).area() == 12
        assert Tall(2, 3).describe() == 'Tall of area 12.0'
        """,
    ),
    check(
        "deposit",
        1,
        """
        a = Account(10)
        a.deposit(5)
        assert a.balance == 15
        assert a.deposit(1) is a
        assert Account().balance == 0
        """,
    ),
    check(
        "deposit-error",
        1,
        """
        try:
            Account().deposit(-1)
        except ValueError:
            pass
        else:
            raise AssertionError('no error')
        """,
    ),
    check(
        "set-field",
        1,
        """
        a = Account(1)
        a.balance = 7
        a.deposit(1)
        assert a.balance == 8
        assert a._history == [1]
        """,
    ),
    check(
        "patched-method",
        1,
        """
        from unittest.mock import patch
        with patch.object(Rectangle, 'area', lambda self: 100):
            assert Rectangle(1, 1).describe() == 'Rectangle of area 100.0'
        assert Rectangle(1, 1).area() == 1
        """,
    ),
)

ITERATORS = theme(
    "iterators",
    answer(
        "iterators",
        """
        def countdown(n):
            while n > 0:
                yield n
                n -= 1
        def naturals():
            n = 0
            while True:
                yield n
                n += 1
        class Evens:
            def __init__(self, limit):
                self.limit = limit
            def __iter__(self):
                self.now = 0
                return self
            def __next__(self):
                if self.now >= self.limit:
                    raise StopIteration
                self.now += 2
                return self.now - 2
        def averager():
            total, count, mean = 0, 0, None
            while True:
                x = yield mean
                total += x
                count += 1
                mean = total / count
        def pairs(items):
            return zip(items, items[1:])
        """,
        variants=[
            """
            def countdown(n):
                yield from range(n, 0, -1)
            import itertools
            def naturals():
                yield from itertools.count()
            class Evens:
                def __init__(self, limit):
                    self.rest = iter(range(0, limit, 2))
                def __iter__(self):
                    return self
                def __next__(self):
                    return next(self.rest)
            def averager():
                seen = []
                x = yield None
                while True:
                    seen.append(x)
                    x = yield sum(seen) / len(seen)
            def pairs(items):
                return [(items[i], items[i + 1]) for i in range(len(items) - 1)]
            """,
            """
            def countdown(n):
                return (i for i in range(n, 0, -1))
            def naturals():
                return (i for i in iter(int, 1)) if False else __import__("itertools").count()
            class Evens:
                def __init__(self, limit):
                    self.limit, self.now = limit, -2
                def __iter__(self):
                    return self
                def __next__(self):
                    self.now += 2
                    if self.now < self.limit:
                        return self.now
                    raise StopIteration()
            def averager():
                n = s = 0
                m = None
                while True:
                    s += yield m
                    n += 1
                    m = s / n
            def pairs(items):
                for a, b in zip(items, items[1:]):
                    yield a, b
            """,
        ],
        wrong=[
            """
            def countdown(n):
                return list(range(n, 0, -1))
            def naturals():
                return range(10)
            class Evens(list):
                def __init__(self, limit):
                    super().__init__(range(0, limit, 2))
            def pairs(items):
                return zip(items, items)
            def averager():
                yield 1
            """,
            """
            def countdown(n):
                while n >= 0:
                    yield n
                    n -= 1
            def naturals():
                yield 0
                yield 1
            class Evens:
                def __init__(self, limit):
                    pass
            def averager():
                x = yield
                yield x
            def pairs(items):
                return items
            """,
        ],
    ),
    given(
        "types",
        "import types, itertools, collections.abc",
    ),
    check(
        "countdown-list",
        1,
        """
        assert list(countdown(3)) == [3, 2, 1]
        assert [*countdown(0)] == []
        """,
    ),
    check(
        "countdown-next",
        1,
        """
        c = countdown(2)
        assert next(c) == 2
        assert next(c) == 1
        assert next(c, 'end') == 'end'
        """,
    ),
    check(
        "countdown-stops",
        1,
        """
        c = countdown(1)
        next(c)
        try:
            next(c)
        except StopIteration:
            pass
        else:
            raise AssertionError
        """,
    ),
    check(
        "countdown-type",
        1,
        "assert isinstance(countdown(3), types.GeneratorType)",
    ),
    check(
        "iterator-type",
        1,
        """
        assert iter(countdown(3)) is not None
        assert isinstance(countdown(2), collections.abc.Iterator)
        """,
    ),
    check(
        "infinite",
        1,
        """
        assert list(itertools.islice(naturals(), 4)) == [0, 1, 2, 3]
        assert next(x for x in naturals() if x > 20) == 21
        """,
    ),
    check(
        "evens-for",
        1,
        """
        found = []
        for x in Evens(7):
            found.append(x)
        assert found == [0, 2, 4, 6]
        """,
    ),
    check(
        "evens-next",
        1,
        """
        it = iter(Evens(4))
        assert next(it) == 0 and next(it) == 2
        assert hasattr(Evens(4), '__next__')
        """,
    ),
    check(
        "send",
        2,
        """
        a = averager()
        next(a)
        assert a.send(4) == 4
        assert a.send(2) == 3
        a.close()
        """,
    ),
    check(
        "zip",
        1,
        """
        assert list(zip(countdown(2), naturals())) == [(2, 0), (1, 1)]
        assert sum(countdown(4)) == 10
        """,
    ),
    check(
        "pairs-check",
        1,
        """
        assert list(pairs([1, 2, 3])) == [(1, 2), (2, 3)]
        assert dict(pairs('ab')) == {'a': 'b'}
        """,
    ),
)

DECORATORS = theme(
    "decorators",
    answer(
        "decorators",
        """
        import functools
        def logged(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                wrapper.calls += 1
                return f(*args, **kwargs)
            wrapper.calls = 0
            return wrapper
        def repeat(times):
            def decorate(f):
                @functools.wraps(f)
                def wrapper(*args):
                    return [f(*args) for _ in range(times)]
                return wrapper
            return decorate
        @logged
        def square(x):
            "Return the square."
            return x * x
        @functools.lru_cache(maxsize=None)
        def fib(n):
            return n if n < 2 else fib(n - 1) + fib(n - 2)
        """,
        variants=[
            """
            from functools import wraps, cache, update_wrapper
            class logged:
                def __init__(self, f):
                    self.f, self.calls = f, 0
                    update_wrapper(self, f)
                def __call__(self, *a, **k):
                    self.calls += 1
                    return self.f(*a, **k)
            def repeat(times):
                def decorate(f):
                    @wraps(f)
                    def inner(*a, **k):
                        result = []
                        for i in range(times):
                            result.append(f(*a, **k))
                        return result
                    return inner
                return decorate
            @logged
            def square(x):
                "Return the square."
                return x**2
            @cache
            def fib(n):
                if n < 2:
                    return n
                return fib(n - 2) + fib(n - 1)
            """,
        ],
        wrong=[
            """
            def logged(f):
                def wrapper(*args):
                    return f(*args)
                return wrapper
            def repeat(times):
                return lambda f: f
            @logged
            def square(x):
                return x * x
            def fib(n):
                return n if n < 2 else fib(n - 1) + fib(n - 2)
            """,
            """
            def logged(f):
                f.calls = 0
                return f
            def square(x):
                'Return the square.'
                return x * x
            def repeat(times):
                def d(f):
                    return lambda *a: [f(*a)] * times
                return d
            import functools
            @functools.lru_cache
            def fib(n):
                return n
            """,
        ],
    ),
    check(
        "square-check",
        1,
        """
        assert square(3) == 9
        assert square(x=4) == 16
        """,
    ),
    check(
        "name",
        1,
        """
        assert square.__name__ == 'square'
        assert square.__doc__ == 'Return the square.'
        """,
    ),
    check(
        "wrapped",
        2,
        """
        assert hasattr(square, '__wrapped__'), 'square is not decorated'
        assert square.__wrapped__(5) == 25
        """,
    ),
    check(
        "calls",
        1,
        """
        before = square.calls
        square(1); square(2)
        assert square.calls == before + 2
        """,
    ),
    check(
        "decorate-in-the-test",
        2,
        """
        @logged
        def add(a, b=1):
            'Add.'
            return a + b
        assert add(1) == 2 and add(1, b=5) == 6
        assert add.calls == 2
        assert add.__name__ == 'add'
        """,
    ),
    check(
        "repeat-check",
        1,
        """
        seen = []
        @repeat(3)
        def note(x):
            seen.append(x)
            return len(seen)
        assert note('a') == [1, 2, 3]
        assert seen == ['a', 'a', 'a']
        """,
    ),
    check(
        "cache",
        1,
        """
        fib.cache_clear()
        assert fib(30) == 832040
        assert fib.cache_info().misses == 31
        """,
    ),
    check(
        "fast",
        1,
        "assert fib(90) == 2880067194370816120",
    ),
)

FUNCTIONS = theme(
    "functions",
    answer(
        "functions",
        """
        def make_counter(start=0):
            count = start
            def step(by=1):
                nonlocal count
                count += by
                return count
            return step
        def compose(f, g):
            return lambda x: f(g(x))
        square = lambda x: x**2
        def apply(f, values):
            return [f(v) for v in values]
        def factorial(n):
            return 1 if n == 0 else n * factorial(n - 1)
        def flatten(nested):
            flat = []
            for item in nested:
                if isinstance(item, list):
                    flat.extend(flatten(item))
                else:
                    flat.append(item)
            return flat
        def stats(*values, digits=2, **labels):
            mean = round(sum(values) / len(values), digits)
            return {"mean": mean, "labels": sorted(labels)}
        def hanoi(n, a="A", b="B", c="C"):
            if n == 0:
                return []
            return hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)
        """,
        variants=[
            """
            class make_counter:
                def __init__(self, start=0):
                    self.count = start
                def __call__(self, by=1):
                    self.count += by
                    return self.count
            def compose(f, g):
                def composed(x):
                    return f(g(x))
                return composed
            def square(x):
                return x * x
            def apply(f, values):
                return list(map(f, values))
            import math
            factorial = math.factorial
            def flatten(nested):
                if not isinstance(nested, list):
                    return [nested]
                return [x for item in nested for x in flatten(item)]
            def stats(*values, digits=2, **labels):
                mean = sum(values) / len(values)
                return dict(labels=sorted(labels.keys()), mean=round(mean, digits))
            def hanoi(n, a="A", b="B", c="C"):
                moves = []
                def move(n, a, b, c):
                    if n:
                        move(n - 1, a, c, b)
                        moves.append((a, c))
                        move(n - 1, b, a, c)
                move(n, a, b, c)
                return moves
            """,
        ],
        wrong=[
            """
            count = 0
            def make_counter(start=0):
                def step(by=1):
                    global count
                    count += by
                    return count
                return step
            def compose(f, g):
                return lambda x: g(f(x))
            square = lambda x: x + x
            def apply(f, values):
                return map(f, values)
            def factorial(n):
                return n * factorial(n - 1)
            def flatten(nested):
                return sum(nested, [])
            def stats(*values):
                return {'mean': sum(values)}
            def hanoi(n):
                return [('A', 'C')] * (2**n - 1)
            """,
            """
            def make_counter(start=0):
                return lambda by=1: start + by
            def compose(f, g):
                return f(g)
            def square(x):
                print(x**2)
            def apply(f, values):
                return (f(v) for v in values)
            def factorial(n):
                result = 0
                for i in range(n):
                    result *= i
                return result
            def flatten(nested):
                return nested
            def stats(*values, digits=2, **labels):
                return sum(values) / len(values)
            def hanoi(n, a='A', b='B', c='C'):
                return []
            """,
        ],
    ),
    check(
        "closure",
        1,
        """
        c, d = make_counter(), make_counter(10)
        assert (c(), c(), d()) == (1, 2, 11)
        assert c(by=5) == 7
        """,
    ),
    check(
        "compose-check",
        1,
        """
        assert compose(square, lambda x: x + 1)(3) == 16
        assert compose(len, str)(1234) == 4
        """,
    ),
    check(
        "lambda",
        1,
        """
        assert square(5) == 25
        assert apply(square, [1, 2]) == [1, 4]
        """,
    ),
    check(
        "callback",
        1,
        """
        calls = []
        assert apply(lambda v: calls.append(v) or v, [3, 4]) == [3, 4]
        assert calls == [3, 4]
        """,
    ),
    check(
        "recursion",
        1,
        """
        assert [factorial(n) for n in range(5)] == [1, 1, 2, 6, 24]
        assert factorial(25) == 15511210043330985984000000
        """,
    ),
    check(
        "flatten-check",
        1,
        """
        assert flatten([1, [2, [3, []]], 4]) == [1, 2, 3, 4]
        assert flatten([]) == []
        """,
    ),
    check(
        "keywords",
        1,
        """
        assert stats(1, 2, 2, digits=1, b=0, a=1) == {'mean': 1.7, 'labels': ['a', 'b']}
        assert stats(*[4, 5]) == {'mean': 4.5, 'labels': []}
        """,
    ),
    check(
        "moves",
        1,
        """
        moves = hanoi(3)
        assert len(moves) == 7
        assert moves[0] == ('A', 'C')
        assert hanoi(2) == [('A', 'B'), ('A', 'C'), ('B', 'C')]
        """,
    ),
    check(
        "too-deep",
        1,
        """
        import inspect
        try:
            hanoi(-1)
        except RecursionError:
            pass
        """,
    ),
    check(
        "callable",
        1,
        """
        assert callable(compose)
        assert all(callable(f) for f in [square, apply, flatten])
        """,
    ),
    check(
        "signature",
        1,
        """
        import inspect
        assert 'n' in inspect.signature(hanoi).parameters
        assert list(inspect.signature(flatten).parameters) == ['nested']
        """,
    ),
    check(
        "source",
        2,
        """
        import inspect
        text = inspect.getsource(flatten)
        assert 'flatten(' in text.split('\\n', 1)[1], 'not recursive'
        """,
    ),
)

EXCEPTIONS = theme(
    "exceptions",
    given(
        "imports",
        """
        import pytest
        from numpy.testing import assert_raises
        """,
    ),
    answer(
        "errors",
        """
        class TooSmallError(ValueError):
            def __init__(self, value, least):
                super().__init__(f"{value} is less than {least}")
                self.value = value
        def checked_root(x):
            if not isinstance(x, (int, float)):
                raise TypeError("expected a number")
            if x < 0:
                raise TooSmallError(x, 0)
            return x**0.5
        def safe_divide(a, b):
            try:
                return a / b
            except ZeroDivisionError:
                return None
        class Timer:
            def __enter__(self):
                self.open = True
                return self
            def __exit__(self, kind, error, trace):
                self.open = False
                return kind is KeyError
        def chained():
            try:
                {}["a"]
            except KeyError as error:
                raise RuntimeError("no a") from error
        """,
        variants=[
            """
            import math, contextlib
            class TooSmallError(ValueError):
                def __init__(self, value, least):
                    ValueError.__init__(self, "%s is less than %s" % (value, least))
                    self.value = value
            def checked_root(x):
                if type(x) not in (int, float):
                    raise TypeError
                if x >= 0:
                    return math.sqrt(x)
                raise TooSmallError(x, 0)
            def safe_divide(a, b):
                return a / b if b != 0 else None
            class Timer:
                def __init__(self):
                    self.open = None
                def __enter__(self):
                    self.open = True
                    return self
                def __exit__(self, *error):
                    self.open = False
                    if error[0] is not None and issubclass(error[0], KeyError):
                        return True
            def chained():
                try:
                    dict()["a"]
                except KeyError as e:
                    raise RuntimeError("no a") from e
            """,
        ],
        wrong=[
            """
            class TooSmallError(Exception):
                pass
            def checked_root(x):
                return abs(x)**0.5
            def safe_divide(a, b):
                return a / b
            class Timer:
                def __enter__(self):
                    return None
                def __exit__(self, *e):
                    return True
            def chained():
                raise RuntimeError('no a')
            """,
            """
            def checked_root(x):
                if x < 0:
                    return 'error'
                return x**0.5
            def safe_divide(a, b):
                try:
                    return a / b
                except:
                    print('error')
                    raise ValueError
            class TooSmallError(ValueError):
                pass
            class Timer:
                pass
            def chained():
                return {}['a']
            """,
        ],
    ),
    check(
        "try",
        1,
        """
        try:
            checked_root(-1)
        except ValueError:
            pass
        else:
            raise AssertionError('no error')
        """,
    ),
    check(
        "pytest-raises",
        1,
        """
        with pytest.raises(TypeError):
            checked_root('4')
        assert checked_root(9) == 3
        """,
    ),
    check(
        "own-class",
        2,
        """
        with pytest.raises(TooSmallError, match='-4 is less than 0') as caught:
            checked_root(-4)
        assert caught.value.value == -4
        """,
    ),
    check(
        "except-own-class",
        1,
        """
        try:
            checked_root(-2)
        except TooSmallError as error:
            assert '-2' in str(error)
            assert error.value == -2
        else:
            raise AssertionError
        """,
    ),
    check(
        "assert-raises",
        1,
        "assert_raises(ValueError, checked_root, -1)",
    ),
    check(
        "unittest",
        1,
        """
        import unittest
        case = unittest.TestCase()
        with case.assertRaises(TypeError):
            checked_root([])
        case.assertAlmostEqual(checked_root(2), 1.41421356, places=6)
        """,
    ),
    check(
        "subclass",
        1,
        "assert issubclass(TooSmallError, ValueError)",
    ),
    check(
        "divide",
        1,
        """
        assert safe_divide(1, 0) is None
        assert safe_divide(6, 3) == 2
        """,
    ),
    check(
        "context",
        1,
        """
        with Timer() as t:
            assert t.open is True
        assert t.open is False
        """,
    ),
    check(
        "context-suppresses",
        1,
        """
        with Timer():
            raise KeyError('x')
        """,
    ),
    check(
        "context-passes-on",
        1,
        """
        try:
            with Timer():
                raise IndexError
        except IndexError:
            pass
        else:
            raise AssertionError('swallowed')
        """,
    ),
    check(
        "cause",
        1,
        """
        with pytest.raises(RuntimeError) as caught:
            chained()
        assert isinstance(caught.value.__cause__, KeyError)
        """,
    ),
    check(
        "raise-own-class",
        1,
        """
        with pytest.raises(TooSmallError):
            raise TooSmallError(1, 2)
        """,
    ),
)

TYPES = theme(
    "types",
    answer(
        "values",
        """
        def unique(items):
            return sorted(set(items))
        def invert(d):
            return {v: k for k, v in d.items()}
        def minmax(values):
            return min(values), max(values)
        def words(text):
            return set(text.lower().split())
        def count(text):
            counts = {}
            for c in text:
                counts[c] = counts.get(c, 0) + 1
            return counts
        def is_even(n):
            return n % 2 == 0
        def table(rows):
            return "\\n".join(f"{name:<6}|{value:>8.2f}" for name, value in rows)
        """,
        variants=[
            """
            def unique(items):
                found = []
                for x in items:
                    if x not in found:
                        found.append(x)
                found.sort()
                return found
            def invert(d):
                return dict(zip(d.values(), d.keys()))
            def minmax(values):
                ordered = sorted(values)
                return (ordered[0], ordered[-1])
            def words(text):
                return {w for w in text.lower().split()}
            from collections import Counter
            def count(text):
                return dict(Counter(text))
            def is_even(n):
                return not n % 2
            def table(rows):
                return "\\n".join("{:6}|{:8.2f}".format(*row) for row in rows)
            """,
            """
            from collections import Counter, defaultdict
            def unique(items):
                return list(dict.fromkeys(sorted(items)))
            def invert(d):
                result = {}
                for k in d:
                    result[d[k]] = k
                return result
            def minmax(values):
                return (min(values), max(values))
            def words(text):
                return set(map(str.lower, text.split()))
            def count(text):
                return Counter(text)
            def is_even(n):
                return bool(1 - n % 2)
            def table(rows):
                return "\\n".join(["%-6s|%8.2f" % row for row in rows])
            """,
        ],
        wrong=[
            """
            def unique(items):
                return set(items)
            def invert(d):
                return d
            def minmax(values):
                return [min(values), max(values)]
            def words(text):
                return text.split()
            def count(text):
                return len(text)
            def is_even(n):
                return n % 2
            def table(rows):
                return str(rows)
            """,
            """
            def unique(items):
                return tuple(sorted(set(items)))
            def invert(d):
                return list(d.items())
            def minmax(values):
                return max(values), min(values)
            def words(text):
                return frozenset(text.split())
            def count(text):
                return {c: 1 for c in text}
            def is_even(n):
                return 'True'
            def table(rows):
                for name, value in rows:
                    print(f'{name:<6}|{value:>8.2f}')
            """,
        ],
    ),
    check(
        "unique-check",
        1,
        "assert unique([3, 1, 3, 2]) == [1, 2, 3]",
    ),
    check(
        "unique-type",
        1,
        """
        assert type(unique([1])) is list
        assert isinstance(unique([]), list)
        """,
    ),
    check(
        "invert-check",
        1,
        """
        assert invert({'a': 1, 'b': 2}) == {1: 'a', 2: 'b'}
        assert type(invert({})) == dict
        """,
    ),
    check(
        "minmax-check",
        1,
        """
        assert minmax([3, 1, 2]) == (1, 3)
        low, high = minmax([5])
        assert low == high == 5
        assert isinstance(minmax([1]), tuple)
        """,
    ),
    check(
        "words-check",
        1,
        """
        assert words('The cat the hat') == {'the', 'cat', 'hat'}
        assert 'cat' in words('Cat')
        assert isinstance(words(''), set)
        """,
    ),
    check(
        "count-check",
        1,
        """
        assert count('abca') == {'a': 2, 'b': 1, 'c': 1}
        assert count('') == {}
        assert count('zz')['z'] == 2
        """,
    ),
    check(
        "count-type",
        1,
        "assert type(count('a')) is dict",
    ),
    check(
        "even",
        1,
        """
        assert is_even(4) is True
        assert is_even(3) is False
        """,
    ),
    check(
        "even-loose",
        1,
        """
        assert is_even(0)
        assert not is_even(7)
        """,
    ),
    check(
        "table-check",
        1,
        """
        assert table([('pi', 3.14159), ('e', 2.71828)]) == 'pi    |    3.14\\ne     |    2.72'
        """,
    ),
    check(
        "table-lines",
        1,
        """
        lines = table([('a', 1.0)]).splitlines()
        assert len(lines) == 1 and lines[0].endswith('1.00')
        """,
    ),
)

DOCTEST = theme(
    "doctest",
    answer(
        "documented",
        '''
        def clamp(x, low, high):
            """Limit x to an interval.

            >>> clamp(5, 0, 3)
            3
            >>> clamp(-1, 0, 3)
            0
            >>> clamp(2, 0, 3)
            2
            """
            return max(low, min(x, high))
        ''',
        variants=[
            '''
            def clamp(x, low, high):
                """Return x, limited.

                >>> clamp(5, 0, 3)
                3
                """
                if x < low:
                    return low
                return high if x > high else x
            ''',
        ],
        wrong=[
            '''
            def clamp(x, low, high):
                """
                >>> clamp(5, 0, 3)
                3
                """
                return max(low, x)
            ''',
            """
            def clamp(x, low, high):
                return min(high, max(low, x))
            """,
        ],
    ),
    check(
        "clamp-check",
        1,
        """
        assert clamp(5, 0, 3) == 3
        assert clamp(-5, 0, 3) == 0
        """,
    ),
    check(
        "has-docstring",
        1,
        "assert clamp.__doc__ and '>>>' in clamp.__doc__",
    ),
    check(
        "examples",
        2,
        """
        import doctest
        finder = doctest.DocTestFinder()
        runner = doctest.DocTestRunner(verbose=False)
        for each in finder.find(clamp, 'clamp', globs={'clamp': clamp}):
            runner.run(each)
        assert runner.tries > 0
        assert runner.failures == 0
        """,
    ),
    check(
        "run-examples",
        1,
        """
        import doctest, io, contextlib
        with contextlib.redirect_stdout(io.StringIO()) as out:
            doctest.run_docstring_examples(clamp, {'clamp': clamp})
        assert out.getvalue() == ''
        """,
    ),
)

THEMES = [CLASSES, INHERITANCE, ITERATORS, DECORATORS, FUNCTIONS, EXCEPTIONS, TYPES, DOCTEST]
