"""Themes: printed text, files, magics, partial credit, asynchronous code."""

from grader.compatibility.theme import answer, check, given, theme

PRINTED = theme(
    "printed",
    answer(
        "printing",
        """
        def stars(n):
            for i in range(1, n + 1):
                print("*" * i)
        def report(items):
            for name, price in items.items():
                print(f"{name}: {price:.2f}")
            return len(items)
        def warn(text):
            import sys
            print("warning:", text, file=sys.stderr)
        """,
        variants=[
            """
            def stars(n):
                print("\\n".join("*" * i for i in range(1, n + 1)))
            def report(items):
                for name in items:
                    print(name, ": ", "%.2f" % items[name], sep="")
                return len(items)
            import sys
            def warn(text):
                sys.stderr.write(f"warning: {text}\\n")
            """,
            """
            import sys
            def stars(n):
                i = 1
                while i <= n:
                    for j in range(i):
                        print("*", end="")
                    print()
                    i += 1
            def report(items):
                sys.stdout.write("".join(f"{k}: {v:.2f}\\n" for k, v in items.items()))
                return len(items)
            def warn(text):
                print(f"warning: {text}", file=sys.stderr, flush=True)
            """,
        ],
        wrong=[
            """
            def stars(n):
                return '*' * n
            def report(items):
                print(items)
                return len(items)
            def warn(text):
                print('warning:', text)
            """,
            """
            def stars(n):
                for i in range(n):
                    print('*' * i)
            def report(items):
                for k, v in items.items():
                    print(f'{k}: {v}')
            def warn(text):
                pass
            """,
        ],
    ),
    given(
        "imports",
        """
        import io
        from contextlib import redirect_stdout, redirect_stderr
        import sys
        """,
    ),
    check(
        "redirected",
        1,
        """
        out = io.StringIO()
        with redirect_stdout(out):
            stars(3)
        assert out.getvalue() == '*\\n**\\n***\\n'
        """,
    ),
    check(
        "redirected-lines",
        1,
        """
        with redirect_stdout(io.StringIO()) as out:
            n = report({'tea': 1.5, 'bun': 2})
        assert out.getvalue().splitlines() == ['tea: 1.50', 'bun: 2.00']
        assert n == 2
        """,
    ),
    check(
        "replaced-stdout",
        1,
        """
        kept = sys.stdout
        sys.stdout = io.StringIO()
        try:
            stars(2)
            text = sys.stdout.getvalue()
        finally:
            sys.stdout = kept
        assert text.strip().split('\\n') == ['*', '**']
        """,
    ),
    check(
        "redirected-stderr",
        1,
        """
        err = io.StringIO()
        with redirect_stderr(err):
            warn('hot')
        assert err.getvalue() == 'warning: hot\\n'
        """,
    ),
    check(
        "captured-by-magic",
        1,
        """
        %%capture captured
        stars(1)
        """,
    ),
    check(
        "captured-text",
        1,
        "assert captured.stdout == '*\\n'",
    ),
    check(
        "capture-output",
        1,
        """
        from IPython.utils.capture import capture_output
        with capture_output() as seen:
            stars(2)
        assert seen.stdout == '*\\n**\\n'
        """,
    ),
    check(
        "nothing-printed",
        1,
        """
        with redirect_stdout(io.StringIO()) as out:
            stars(0)
        assert out.getvalue().strip() == ''
        """,
    ),
    check(
        "prints-itself",
        1,
        """
        print('the test prints')
        report({'tea': 1})
        """,
    ),
)

FILES = theme(
    "files",
    given(
        "made",
        """
        with open('numbers.txt', 'w') as file:
            file.write('3\\n4\\n5\\n')
        """,
    ),
    answer(
        "files",
        """
        import csv, json
        def total(path):
            with open(path) as file:
                return sum(int(line) for line in file)
        def save(path, values):
            with open(path, "w") as file:
                for value in values:
                    file.write(f"{value}\\n")
        def to_csv(path, rows):
            with open(path, "w", newline="") as file:
                csv.writer(file).writerows(rows)
        with open("result.json", "w") as file:
            json.dump({"sum": total("numbers.txt")}, file)
        def count_lines(file):
            return len(file.readlines())
        """,
        variants=[
            """
            import json
            from pathlib import Path
            def total(path):
                return sum(map(int, Path(path).read_text().split()))
            def save(path, values):
                Path(path).write_text("".join(str(v) + "\\n" for v in values))
            def to_csv(path, rows):
                with open(path, "w") as file:
                    for row in rows:
                        print(*row, sep=",", file=file)
            Path("result.json").write_text(json.dumps({"sum": total("numbers.txt")}))
            def count_lines(file):
                return sum(1 for line in file)
            """,
        ],
        wrong=[
            """
            def total(path):
                return 12
            def save(path, values):
                print(values)
            def to_csv(path, rows):
                open(path, 'w').close()
            def count_lines(file):
                return 0
            """,
            """
            def total(path):
                return open(path).read()
            def save(path, values):
                with open(path, 'w') as f:
                    f.write(str(values))
            def to_csv(path, rows):
                with open(path, 'w') as f:
                    f.write(';'.join(map(str, rows)))
            with open('result.json', 'w') as f:
                f.write('{"sum": 13}')
            def count_lines(file):
                return len(file.read())
            """,
        ],
    ),
    given(
        "imports",
        """
        import os, io, json, csv, tempfile
        from pathlib import Path
        """,
    ),
    check(
        "total-check",
        1,
        "assert total('numbers.txt') == 12",
    ),
    check(
        "file-of-the-answer",
        2,
        """
        assert os.path.exists('result.json')
        assert json.load(open('result.json')) == {'sum': 12}
        """,
    ),
    check(
        "file-of-a-call",
        2,
        """
        save('saved.txt', [1, 2])
        with open('saved.txt') as file:
            assert file.read() == '1\\n2\\n'
        """,
    ),
    check(
        "file-of-the-test",
        2,
        """
        Path('more.txt').write_text('10\\n20\\n')
        assert total('more.txt') == 30
        """,
    ),
    check(
        "csv",
        1,
        """
        to_csv('t.csv', [['a', 1], ['b', 2]])
        with open('t.csv', newline='') as f:
            assert list(csv.reader(f)) == [['a', '1'], ['b', '2']]
        """,
    ),
    check(
        "temporary",
        1,
        """
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'x.txt')
            save(path, 'ab')
            assert Path(path).read_text() == 'a\\nb\\n'
        """,
    ),
    check(
        "file-object",
        1,
        "assert count_lines(io.StringIO('a\\nb\\n')) == 2",
    ),
    check(
        "deleted",
        1,
        """
        if os.path.exists('saved.txt'):
            os.remove('saved.txt')
        save('saved.txt', [])
        assert os.path.getsize('saved.txt') == 0
        """,
    ),
    check(
        "patched-open",
        1,
        """
        from unittest.mock import mock_open, patch
        with patch('__main__.open', mock_open(read_data='1\\n2\\n'), create=True):
            with open('no-file') as f:
                assert f.read() == '1\\n2\\n'
        """,
    ),
)

MAGICS = theme(
    "magics",
    given(
        "inline",
        """
        %matplotlib inline
        %config InlineBackend.figure_format = 'png'
        import math
        """,
    ),
    answer(
        "answer",
        """
        %%time
        def primes(n):
            return [p for p in range(2, n) if all(p % q for q in range(2, p))]
        """,
        variants=[
            """
            def primes(n):
                found = []
                for p in range(2, n):
                    if not any(p % q == 0 for q in found):
                        found.append(p)
                return found
            """,
            """
            %time import math
            !echo hello
            def primes(n):
                sieve = [True] * n
                for p in range(2, n):
                    for q in range(p * p, n, p):
                        sieve[q] = False
                return [p for p in range(2, n) if sieve[p]]
            primes?
            """,
        ],
        wrong=[
            """
            %%time
            def primes(n):
                return list(range(2, n))
            """,
            """
            !echo no answer
            %timeit -n1 -r1 1 + 1
            """,
        ],
    ),
    check(
        "primes-check",
        1,
        "assert primes(12) == [2, 3, 5, 7, 11]",
    ),
    check(
        "timed-line",
        1,
        """
        %time result = primes(10)
        assert result == [2, 3, 5, 7]
        """,
    ),
    check(
        "timed-cell",
        1,
        """
        %%time
        assert primes(3) == [2]
        """,
    ),
    check(
        "timeit",
        1,
        """
        took = %timeit -o -q -n1 -r1 primes(50)
        assert took.best < 5
        """,
    ),
    check(
        "shell",
        1,
        """
        lines = !echo one
        assert lines == ['one']
        assert primes(4) == [2, 3]
        """,
    ),
    check(
        "get-ipython",
        1,
        """
        shell = get_ipython()
        assert 'primes' in shell.user_ns
        assert primes(5)[-1] == 3
        """,
    ),
    check(
        "history",
        1,
        "assert any('primes' in str(cell) for cell in In)",
    ),
    check(
        "expression",
        1,
        "primes(6) == [2, 3, 5]",
    ),
    check(
        "displayed",
        1,
        """
        from IPython.display import display, Markdown
        display(Markdown('**ok**'))
        assert len(primes(100)) == 25
        """,
    ),
    check(
        "semicolon",
        1,
        "assert primes(8)[3] == 7;",
    ),
)

CREDIT = theme(
    "credit",
    answer(
        "answer",
        """
        def f(x):
            return 2 * x
        def g(x):
            return x + 1
        """,
        variants=[
            """
            f = lambda x: x + x
            g = lambda x: 1 + x
            """,
        ],
        wrong=[
            """
            def f(x):
                return 2 * x if x < 3 else 0
            def g(x):
                return x
            """,
            """
            def g(x):
                return x + 1.0
            """,
        ],
    ),
    check(
        "share",
        4,
        """
        score = 0
        for x in range(4):
            if f(x) == 2 * x:
                score += 1
        score
        """,
    ),
    check(
        "share-or-zero",
        3,
        """
        points = 0.0
        try:
            points += 1.5 * (f(2) == 4)
            points += 1.5 * (f(5) == 10)
        except Exception:
            pass
        points
        """,
    ),
    check(
        "share-of-zero",
        2,
        "0 if g(1) != 2 else 2",
    ),
    check(
        "integer",
        2,
        "int(g(1) == 2) + int(g(4) == 5)",
    ),
    check(
        "numpy-share",
        2,
        """
        import numpy as np
        np.mean([g(1) == 2, g(2) == 3]) * 2
        """,
    ),
    check(
        "true",
        2,
        "g(1) == 2",
    ),
    check(
        "text",
        2,
        """
        assert g(3) == 4
        'well done'
        """,
    ),
    check(
        "none",
        2,
        """
        assert f(1) == 2
        None
        """,
    ),
    check(
        "fraction-of-the-answer",
        1,
        "min(1, g(0))",
    ),
    check(
        "answer-value",
        1,
        "f(0) + 1",
    ),
    check(
        "share-as-a-number",
        1.5,
        """
        assert g(0) == 1
        1.5
        """,
    ),
    check(
        "zero-points",
        0,
        "assert f(1) == 2",
    ),
    check(
        "printed-number",
        2,
        """
        print(0)
        assert g(0) == 1
        """,
    ),
)

COROUTINES = theme(
    "coroutines",
    given(
        "import",
        "import asyncio",
    ),
    answer(
        "answer",
        """
        async def fetch(x):
            await asyncio.sleep(0)
            return 2 * x
        async def gather_all(values):
            return await asyncio.gather(*(fetch(v) for v in values))
        async def ticks(n):
            for i in range(n):
                await asyncio.sleep(0)
                yield i
        value = await fetch(4)
        """,
        variants=[
            """
            async def fetch(x):
                return x + x
            async def gather_all(values):
                return [await fetch(v) for v in values]
            async def ticks(n):
                i = 0
                while i < n:
                    yield i
                    i += 1
            value = await asyncio.create_task(fetch(4))
            """,
        ],
        wrong=[
            """
            def fetch(x):
                return 2 * x
            def gather_all(values):
                return [fetch(v) for v in values]
            def ticks(n):
                return range(n)
            value = 7
            """,
            """
            async def fetch(x):
                return x
            async def gather_all(values):
                return values
            async def ticks(n):
                yield n
            value = fetch(4)
            """,
        ],
    ),
    check(
        "value-check",
        1,
        "assert value == 8",
    ),
    check(
        "awaited",
        1,
        """
        result = await fetch(3)
        assert result == 6
        """,
    ),
    check(
        "gathered",
        1,
        "assert list(await gather_all([1, 2])) == [2, 4]",
    ),
    check(
        "iterated",
        1,
        "assert [i async for i in ticks(3)] == [0, 1, 2]",
    ),
    check(
        "is-coroutine",
        1,
        """
        import inspect
        assert inspect.iscoroutinefunction(fetch)
        """,
    ),
    check(
        "in-a-function",
        1,
        """
        async def test():
            assert await fetch(1) == 2
        await test()
        """,
    ),
)

UNFINISHED = theme(
    "unfinished",
    answer(
        "first",
        """
        def a(x):
            return x + 1
        """,
        variants=[
            """
            def a(x):
                y = 1 + x
                return y
            """,
        ],
        wrong=[
            """
            def a(x):
                return x +
            """,
            "raise NotImplementedError()",
        ],
    ),
    answer(
        "second",
        """
        def b(x):
            return a(x) + a(x)
        """,
        variants=[
            """
            def b(x):
                return 2 * a(x)
            """,
        ],
        wrong=[
            "b = a(",
            """
            def b(x):
                return undefined_name + x
            """,
        ],
    ),
    answer(
        "third",
        """
        import sys
        result = b(4)
        assert result == 10
        """,
        variants=[
            """
            result = b(4)
            result
            """,
        ],
        wrong=[
            """
            result = 0
            1 / 0
            """,
            """
            result = 10
            import sys
            sys.exit(0)
            """,
        ],
    ),
    check(
        "a-check",
        1,
        "assert a(1) == 2",
    ),
    check(
        "b-check",
        1,
        "assert b(1) == 4",
    ),
    check(
        "third-check",
        1,
        "assert result == 10",
    ),
    check(
        "message",
        1,
        "assert b(2) == 6, f'b(2) is {b(2)}'",
    ),
    check(
        "no-test",
        1,
        """
        # the tests of this cell are hidden
        ### BEGIN HIDDEN TESTS
        assert a(5) == 6
        ### END HIDDEN TESTS
        """,
    ),
    check(
        "last",
        1,
        "print('end')",
    ),
)

STANDARD_ERROR = theme(
    "standard-error",
    answer(
        "answer",
        """
        def double(x):
            return 2 * x
        def halve(x):
            return x / 2
        """,
        variants=[
            """
            def double(x):
                return x + x
            def halve(x):
                return 0.5 * x
            """,
        ],
        wrong=[
            """
            def double(x):
                return x**2
            def halve(x):
                return x // 2
            """,
            """
            import warnings
            def double(x):
                warnings.warn("slow")
                return 2 * x
            def halve(x):
                return 0
            """,
        ],
    ),
    given(
        "imports",
        """
        import io
        import sys
        import unittest
        class Tests(unittest.TestCase):
            def test_two(self):
                self.assertEqual(double(2), 4)
            def test_three(self):
                self.assertEqual(double(3), 6)
                with self.subTest("half"):
                    self.assertAlmostEqual(halve(3), 1.5)
        def run():
            suite = unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
            text = io.StringIO()
            return unittest.TextTestRunner(stream=text).run(suite), text.getvalue()
        """,
    ),
    check(
        "unittest",
        2,
        """
        result, text = run()
        assert result.wasSuccessful(), text
        """,
    ),
    check(
        "share-of-the-tests",
        2,
        """
        result, text = run()
        2 * (result.testsRun - len(result.failures)) / result.testsRun
        """,
    ),
    check(
        "failures-on-standard-error",
        2,
        """
        result, text = run()
        if not result.wasSuccessful():
            print(text, file=sys.stderr)
        """,
    ),
    check(
        "main",
        1,
        """
        program = unittest.main(argv=["x"], exit=False, testRunner=unittest.TextTestRunner(
            stream=io.StringIO()))
        assert program.result.wasSuccessful()
        """,
    ),
)

THEMES = [STANDARD_ERROR, PRINTED, FILES, MAGICS, CREDIT, COROUTINES, UNFINISHED]
