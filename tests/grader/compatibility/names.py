"""Themes: the names of the notebook, which tests delete, rebind, read and patch."""

from grader.compatibility.theme import answer, check, given, theme

GLOBALS = theme(
    "globals",
    answer(
        "cubes",
        """
        def cubes(n):
            if n < 0:
                raise ValueError("n is negative")
            return [i**3 for i in range(n)]
        """,
        variants=[
            """
            def cubes(n):
                if n < 0:
                    raise ValueError
                found = []
                for i in range(n):
                    found.append(i * i * i)
                return found
            """,
            """
            def cube(x):
                return x**3
            def cubes(n):
                if not n >= 0:
                    raise ValueError(n)
                return list(map(cube, range(n)))
            """,
        ],
        wrong=[
            """
            def cubes(n):
                return [i**3 for i in range(1, n + 1)]
            """,
            """
            def cubes(n):
                return [i**2 for i in range(n)]
            """,
        ],
    ),
    answer(
        "total",
        """
        def total_of_cubes(n):
            return sum(cubes(n))
        """,
        variants=[
            """
            def total_of_cubes(n):
                result = 0
                for x in cubes(n):
                    result += x
                return result
            """,
            "total_of_cubes = lambda n: sum(cubes(n))",
        ],
        wrong=[
            """
            def total_of_cubes(n):
                return sum(i**3 for i in range(n))
            """,
            """
            def total_of_cubes(n):
                return len(cubes(n))
            """,
        ],
    ),
    check(
        "cubes-check",
        1,
        """
        assert cubes(4) == [0, 1, 8, 27]
        assert cubes(0) == []
        """,
    ),
    check(
        "cubes-error",
        1,
        """
        try:
            cubes(-1)
        except ValueError:
            pass
        else:
            raise AssertionError("no ValueError")
        """,
    ),
    check(
        "total-check",
        1,
        "assert total_of_cubes(4) == 36",
    ),
    check(
        "total-uses-cubes",
        2,
        """
        # hide the first answer for a moment
        kept = cubes
        del cubes
        try:
            total_of_cubes(2)
        except NameError:
            pass
        else:
            raise AssertionError("total_of_cubes does not call cubes")
        finally:
            cubes = kept
        """,
    ),
    check(
        "total-uses-what-is-bound",
        2,
        """
        original = cubes
        calls = []
        def cubes(n):
            calls.append(n)
            return [5, 6]
        assert total_of_cubes(7) == 11, "another cubes is used"
        assert calls == [7]
        cubes = original
        """,
    ),
    check(
        "cubes-restored",
        1,
        """
        assert cubes(3) == [0, 1, 8]
        assert total_of_cubes(3) == 9
        """,
    ),
    check(
        "cubes-in-globals",
        1,
        """
        assert "cubes" in globals() and callable(globals()["total_of_cubes"])
        assert "cubes" in dir()
        """,
    ),
)

VARIABLES = theme(
    "variables",
    given(
        "import",
        "import math",
    ),
    answer(
        "radius",
        """
        radius = 2.5
        area = math.pi * radius**2
        labels = ['a', 'b', 'c']
        lookup = {'x': 1}
        """,
        variants=[
            """
            radius = 5 / 2
            area = radius * radius * math.pi
            labels = list('abc')
            lookup = dict(x=1)
            """,
            """
            from math import pi
            radius, labels = 2.5, [c for c in 'abc']
            area = pi * pow(radius, 2)
            lookup = {}
            lookup['x'] = 1
            """,
        ],
        wrong=[
            """
            radius = 2.5
            area = 2 * math.pi * radius
            labels = ('a', 'b', 'c')
            lookup = {'x': 2}
            """,
            """
            radius = '2.5'
            labels = ['a', 'b']
            lookup = {'x': 1}
            """,
        ],
    ),
    given(
        "derived",
        """
        doubled = [2 * radius]
        names = ', '.join(labels)
        """,
    ),
    answer(
        "circle",
        """
        def scaled(factor):
            global counter
            counter += 1
            return radius * factor
        counter = 0
        """,
        variants=[
            """
            counter = 0
            def scaled(factor):
                globals()['counter'] += 1
                return factor * radius
            """,
            """
            counter = 0
            def scaled(f):
                global counter
                counter = counter + 1
                return f * radius
            """,
        ],
        wrong=[
            """
            counter = 0
            def scaled(factor):
                return radius * factor
            """,
            """
            counter = 0
            def scaled(factor):
                global counter
                counter += 2
                return 2.5 * factor
            """,
        ],
    ),
    check(
        "radius-check",
        1,
        """
        assert radius == 2.5
        assert isinstance(radius, float)
        """,
    ),
    check(
        "area-check",
        1,
        """
        assert math.isclose(area, 19.634954084936208)
        assert type(area) is float
        """,
    ),
    check(
        "labels-check",
        1,
        """
        assert type(labels) is list
        assert labels[0] == 'a' and len(labels) == 3
        assert labels == ['a', 'b', 'c']
        assert 'c' in labels
        assert sorted(labels) == labels
        """,
    ),
    check(
        "lookup-check",
        1,
        """
        assert lookup == {'x': 1}
        assert list(lookup.items()) == [('x', 1)]
        """,
    ),
    check(
        "derived-check",
        1,
        """
        assert doubled == [5.0]
        assert names == 'a, b, c'
        """,
    ),
    check(
        "defined",
        1,
        """
        try:
            area
        except NameError:
            raise AssertionError('no area')
        """,
    ),
    check(
        "by-name",
        1,
        """
        assert all(name in globals() for name in ['radius', 'area', 'labels'])
        assert eval('radius * 2') == 5
        """,
    ),
    check(
        "counter-check",
        2,
        """
        before = counter
        scaled(2); scaled(3)
        assert counter == before + 2
        """,
    ),
    check(
        "rebound",
        2,
        """
        kept = radius
        radius = 10
        assert scaled(3) == 30
        radius = kept
        """,
    ),
    check(
        "changed-in-place",
        1,
        """
        labels.append('d')
        assert labels[-1] == 'd' and len(labels) == 4
        lookup['y'] = 2
        assert sum(lookup.values()) == 3
        """,
    ),
    check(
        "arithmetic",
        1,
        """
        radius += 1
        assert radius == 3.5
        assert scaled(2) == 7
        """,
    ),
)

MOCKS = theme(
    "mocks",
    answer(
        "greet",
        """
        def greet():
            name = input("Name? ")
            print(f"Hello, {name}!")
        def ask_until_number():
            while True:
                text = input()
                if text.isdigit():
                    return int(text)
        """,
        variants=[
            """
            def greet():
                print("Hello, " + input("Name? ") + "!")
            def ask_until_number():
                text = input()
                while not text.isdigit():
                    text = input()
                return int(text)
            """,
            """
            def greet():
                who = input("Name? ")
                print("Hello, {}!".format(who))
            def ask_until_number():
                try:
                    return int(input())
                except ValueError:
                    return ask_until_number()
            """,
        ],
        wrong=[
            """
            def greet():
                print('Hello, Ada!')

            def ask_until_number():
                return 3
            """,
            """
            def greet():
                return 'Hello, ' + input('Name? ') + '!'

            def ask_until_number():
                return input()
            """,
        ],
    ),
    answer(
        "dice",
        """
        import random
        def roll():
            return random.randint(1, 6) + random.randint(1, 6)
        """,
        variants=[
            """
            import random
            def roll():
                return sum(random.randint(1, 6) for _ in range(2))
            """,
            """
            import random
            def roll():
                first = random.randint(1, 6)
                second = random.randint(1, 6)
                return first + second
            """,
        ],
        wrong=[
            """
            import random
            def roll():
                return random.randint(2, 12)
            """,
            """
            import random
            def roll():
                return 2 * random.randint(1, 6)
            """,
        ],
    ),
    given(
        "imports",
        """
        from unittest import mock
        from unittest.mock import patch, MagicMock
        import builtins, io, contextlib
        """,
    ),
    check(
        "patched-input",
        1,
        """
        with patch("builtins.input", return_value="Ada") as asked, \\
                contextlib.redirect_stdout(io.StringIO()) as shown:
            greet()
        asked.assert_called_once_with("Name? ")
        assert shown.getvalue() == "Hello, Ada!\\n"
        """,
    ),
    check(
        "patched-print",
        1,
        """
        with patch("builtins.input", return_value="Bo"), patch("builtins.print") as printed:
            greet()
        printed.assert_called_once_with("Hello, Bo!")
        """,
    ),
    check(
        "side-effects",
        1,
        """
        with patch("builtins.input", side_effect=["no", "", "42"]) as asked:
            assert ask_until_number() == 42
        assert asked.call_count == 3
        """,
    ),
    check(
        "replaced-input",
        1,
        """
        answers = iter(["x", "7"])
        before = builtins.input
        builtins.input = lambda *prompt: next(answers)
        try:
            assert ask_until_number() == 7
        finally:
            builtins.input = before
        """,
    ),
    check(
        "input-in-the-notebook",
        1,
        """
        lines = []
        def input(prompt=""):
            return "Cy"
        def print(*values):
            lines.append(" ".join(map(str, values)))
        greet()
        del input, print
        assert lines == ["Hello, Cy!"]
        """,
    ),
    check(
        "patched-library",
        1,
        """
        with mock.patch("random.randint", side_effect=[2, 5]) as rolled:
            assert roll() == 7
        assert rolled.call_count == 2
        """,
    ),
    check(
        "patched-object",
        1,
        """
        with patch.object(random, "randint", MagicMock(return_value=4)) as rolled:
            assert roll() == 8
        rolled.assert_called_with(1, 6)
        """,
    ),
    check(
        "patched-decorator",
        1,
        """
        @patch("random.randint", return_value=1)
        def snake_eyes(rolled):
            assert roll() == 2
            assert rolled.called
        snake_eyes()
        """,
    ),
    check(
        "patched-answer",
        1,
        """
        def twice(f):
            return f() + f()
        with patch("__main__.roll", return_value=3):
            assert twice(lambda: roll()) == 6
        """,
    ),
    check(
        "mock-as-argument",
        1,
        "assert all(2 <= roll() <= 12 for _ in range(30))",
    ),
)

HELPERS = theme(
    "helpers",
    given(
        "helpers",
        """
        def make_grid(rows, columns, value=0):
            return [[value] * columns for _ in range(rows)]
        def show(grid):
            return "\\n".join("".join("#" if x else "." for x in row) for row in grid)
        class Point:
            def __init__(self, x, y):
                self.x, self.y = x, y
            def __eq__(self, other):
                return (self.x, self.y) == (other.x, other.y)
            def __repr__(self):
                return f"Point({self.x}, {self.y})"
        LIMIT = 3
        """,
    ),
    answer(
        "grid",
        """
        def border(rows, columns):
            grid = make_grid(rows, columns)
            for r in range(rows):
                for c in range(columns):
                    if r in (0, rows - 1) or c in (0, columns - 1):
                        grid[r][c] = 1
            return grid
        def middle(p, q):
            return Point((p.x + q.x) / 2, (p.y + q.y) / 2)
        def clipped(values):
            return [min(v, LIMIT) for v in values]
        """,
        variants=[
            """
            def border(rows, columns):
                return [[int(r in (0, rows - 1) or c in (0, columns - 1)) for c in range(columns)]
                        for r in range(rows)]
            def middle(p, q):
                return Point(0.5 * (p.x + q.x), 0.5 * (p.y + q.y))
            def clipped(values):
                return [LIMIT if v > LIMIT else v for v in values]
            """,
            """
            def border(rows, columns):
                grid = make_grid(rows, columns, 1)
                for row in grid[1:-1]:
                    row[1:-1] = [0] * (columns - 2)
                return grid
            def middle(a, b):
                result = Point(a.x, a.y)
                result.x = (result.x + b.x) / 2
                result.y = (result.y + b.y) / 2
                return result
            def clipped(values):
                return list(map(lambda v: min(LIMIT, v), values))
            """,
        ],
        wrong=[
            """
            def border(rows, columns):
                return make_grid(rows, columns, 1)

            def middle(p, q):
                return Point(p.x + q.x, p.y + q.y)

            def clipped(values):
                return [min(v, 3) for v in values]
            """,
            """
            def border(rows, columns):
                return make_grid(columns, rows)

            def middle(p, q):
                p.x = (p.x + q.x) / 2
                return p

            def clipped(values):
                return values
            """,
        ],
    ),
    check(
        "border-check",
        1,
        "assert border(3, 4) == [[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]",
    ),
    check(
        "border-shown",
        1,
        "assert show(border(3, 3)) == '###\\n#.#\\n###'",
    ),
    check(
        "middle-check",
        1,
        "assert middle(Point(0, 0), Point(2, 4)) == Point(1, 2)",
    ),
    check(
        "middle-fields",
        1,
        """
        m = middle(Point(0, 2), Point(1, 2))
        assert m.x == 0.5
        assert isinstance(m, Point)
        assert repr(m) == 'Point(0.5, 2.0)'
        """,
    ),
    check(
        "middle-changes-nothing",
        1,
        """
        p, q = Point(0, 0), Point(2, 4)
        middle(p, q)
        assert (p.x, p.y) == (0, 0)
        assert q == Point(2, 4)
        """,
    ),
    check(
        "clipped-check",
        1,
        "assert clipped([1, 5, 3]) == [1, 3, 3]",
    ),
    check(
        "limit-changed",
        2,
        """
        LIMIT = 2
        assert clipped([1, 5, 3]) == [1, 2, 2]
        LIMIT = 3
        """,
    ),
    check(
        "redefined-helper",
        1,
        """
        kept = make_grid
        def make_grid(*sizes):
            raise KeyError
        make_grid = kept
        assert len(border(5, 2)) == 5
        """,
    ),
)

THEMES = [GLOBALS, VARIABLES, MOCKS, HELPERS]
