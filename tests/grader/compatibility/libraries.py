"""Themes: NumPy, pandas, scikit-learn, Matplotlib and random numbers."""

from grader.compatibility.theme import answer, check, given, theme

ARRAYS = theme(
    "arrays",
    given(
        "import",
        """
        import numpy as np
        from numpy.testing import assert_allclose, assert_array_equal
        """,
    ),
    answer(
        "arrays",
        """
        matrix = np.arange(6).reshape(2, 3)
        def normalise(x):
            return (x - x.mean(axis=0)) / x.std(axis=0)
        def fill(x):
            x[:] = 7
        def top(x, k):
            return np.argsort(x)[::-1][:k]
        def solve(a, b):
            return np.linalg.solve(a, b)
        def mask(x):
            return x > 0
        def largest(x):
            return x.max()
        """,
        variants=[
            """
            matrix = np.array([[0, 1, 2], [3, 4, 5]])
            def normalise(x):
                means = sum(x) / len(x)
                return (x - means) / np.sqrt(((x - means) ** 2).mean(0))
            def fill(x):
                for i in range(len(x)):
                    x[i] = 7
            def top(x, k):
                return np.argsort(-x)[:k]
            def solve(a, b):
                return np.linalg.inv(a) @ b
            def mask(x):
                return np.where(x > 0, True, False)
            def largest(x):
                best = x[0]
                for v in x:
                    if v > best:
                        best = v
                return best
            """,
            """
            matrix = np.zeros((2, 3), dtype=int)
            for i in range(6):
                matrix[i // 3, i % 3] = i
            def normalise(x):
                result = np.empty(x.shape)
                for j in range(x.shape[1]):
                    result[:, j] = (x[:, j] - np.mean(x[:, j])) / np.std(x[:, j])
                return result
            def fill(x):
                x.fill(7)
            def top(x, k):
                return np.array(sorted(range(len(x)), key=lambda i: -x[i])[:k])
            def solve(a, b):
                return np.linalg.lstsq(a, b, rcond=None)[0]
            def mask(x):
                return np.array([v > 0 for v in x])
            def largest(x):
                return np.max(x)
            """,
        ],
        wrong=[
            """
            matrix = [[0, 1, 2], [3, 4, 5]]
            def normalise(x):
                return x - x.mean()
            def fill(x):
                x = x * 0 + 7
            def top(x, k):
                return np.argsort(x)[:k]
            def solve(a, b):
                return a @ b
            def mask(x):
                return x[x > 0]
            def largest(x):
                return x[-1]
            """,
            """
            matrix = np.arange(6.0).reshape(3, 2)
            def normalise(x):
                return (x - x.mean(0)) / x.std(0, ddof=1)
            def fill(x):
                return np.full_like(x, 7)
            def top(x, k):
                return np.sort(x)[::-1][:k]
            def solve(a, b):
                return np.zeros_like(b)
            def mask(x):
                return [v > 0 for v in x]
            def largest(x):
                return [x.max()]
            """,
        ],
    ),
    check(
        "matrix-check",
        1,
        "assert_array_equal(matrix, [[0, 1, 2], [3, 4, 5]])",
    ),
    check(
        "matrix-type",
        1,
        """
        assert isinstance(matrix, np.ndarray)
        assert type(matrix) is np.ndarray
        assert matrix.shape == (2, 3)
        assert np.issubdtype(matrix.dtype, np.integer)
        """,
    ),
    check(
        "matrix-used",
        1,
        """
        assert matrix.sum() == 15
        assert (matrix[1] == [3, 4, 5]).all()
        assert matrix.T.shape == (3, 2)
        assert len(matrix) == 2 and matrix[0, 2] == 2
        assert np.dot(matrix, matrix.T)[0, 0] == 5
        """,
    ),
    check(
        "normalise-check",
        1,
        """
        x = np.array([[1.0, 2], [3, 8], [5, 5]])
        assert_allclose(normalise(x).mean(axis=0), 0, atol=1e-12)
        assert_allclose(normalise(x).std(axis=0), 1)
        """,
    ),
    check(
        "normalise-almost",
        1,
        """
        np.testing.assert_array_almost_equal(normalise(np.array([[0.0], [2.0]])), [[-1], [1]])
        """,
    ),
    check(
        "input-unchanged",
        1,
        """
        x = np.array([[1.0, 2], [3, 8]])
        kept = x.copy()
        normalise(x)
        assert np.array_equal(x, kept)
        """,
    ),
    check(
        "fill-check",
        1,
        """
        x = np.zeros(4)
        fill(x)
        assert (x == 7).all()
        assert fill(np.ones(2)) is None
        """,
    ),
    check(
        "top-check",
        1,
        """
        assert list(top(np.array([3, 9, 5]), 2)) == [1, 2]
        assert np.array_equal(top(np.array([1, 2]), 1), [1])
        """,
    ),
    check(
        "solve-check",
        1,
        """
        a = np.array([[2.0, 1], [1, 3]])
        b = np.array([3.0, 5])
        assert np.allclose(a @ solve(a, b), b)
        """,
    ),
    check(
        "mask-check",
        1,
        """
        m = mask(np.array([-1, 2, 0]))
        assert m.dtype == bool
        assert m.tolist() == [False, True, False]
        """,
    ),
    check(
        "scalar",
        1,
        """
        assert largest(np.array([1, 5, 2])) == 5
        assert isinstance(largest(np.array([1.5])), (float, np.floating))
        """,
    ),
    check(
        "type-name",
        1,
        "assert type(top(np.array([1, 2, 3]), 2)).__name__ == 'ndarray'",
    ),
)

RANDOM = theme(
    "random",
    given(
        "import",
        """
        import random
        import numpy as np
        """,
    ),
    answer(
        "random",
        """
        def rolls(n):
            return [random.randint(1, 6) for _ in range(n)]
        def walk(n):
            return np.cumsum(np.random.choice([-1, 1], size=n))
        def sample(n, seed):
            return np.random.default_rng(seed).normal(size=n)
        np.random.seed(42)
        noise = np.random.rand(3)
        random.seed(1)
        first = random.random()
        def draw(rng):
            return rng.integers(0, 10, size=4)
        """,
        variants=[
            """
            def rolls(n):
                result = []
                while len(result) < n:
                    result.append(random.randint(1, 6))
                return result
            def walk(n):
                return np.add.accumulate(np.random.choice([-1, 1], size=n))
            def sample(n, seed):
                rng = np.random.default_rng(seed)
                return rng.normal(0, 1, n)
            np.random.seed(42)
            noise = np.array([np.random.rand() for _ in range(3)])
            generator = random.Random(1)
            first = generator.random()
            def draw(rng):
                return rng.integers(10, size=4)
            """,
        ],
        wrong=[
            """
            def rolls(n):
                return [4] * n
            def walk(n):
                return np.zeros(n)
            def sample(n, seed):
                return np.random.normal(size=n)
            noise = np.zeros(3)
            first = 0.5
            def draw(rng):
                return [1, 2, 3, 4]
            """,
            """
            def rolls(n):
                random.seed(3)
                return [random.randint(1, 5) for _ in range(n)]
            def walk(n):
                np.random.seed(0)
                return np.cumsum(np.random.choice([-1, 1], size=n))
            def sample(n, seed):
                return np.random.default_rng(seed + 1).normal(size=n)
            np.random.seed(1)
            noise = np.random.rand(3)
            first = random.random()
            def draw(rng):
                return np.random.randint(0, 10, 4)
            """,
        ],
    ),
    check(
        "seeded",
        2,
        """
        random.seed(3)
        expected = [random.randint(1, 6) for _ in range(5)]
        random.seed(3)
        assert rolls(5) == expected
        """,
    ),
    check(
        "seeded-numpy",
        2,
        """
        np.random.seed(7)
        expected = np.cumsum(np.random.choice([-1, 1], size=9))
        np.random.seed(7)
        assert np.array_equal(walk(9), expected)
        """,
    ),
    check(
        "own-generator",
        1,
        "assert np.allclose(sample(4, 5), np.random.default_rng(5).normal(size=4))",
    ),
    check(
        "seeded-by-the-answer",
        1,
        """
        assert np.allclose(noise, [0.3745401188, 0.9507143064, 0.7319939418])
        assert round(first, 6) == 0.134364
        """,
    ),
    check(
        "statistics",
        1,
        """
        many = rolls(600)
        assert set(many) == {1, 2, 3, 4, 5, 6}
        assert 3 < sum(many) / 600 < 4
        """,
    ),
    check(
        "differs",
        1,
        "assert rolls(50) != rolls(50)",
    ),
    check(
        "generator-as-argument",
        2,
        """
        rng = np.random.default_rng(2)
        assert np.array_equal(draw(rng), np.random.default_rng(2).integers(0, 10, size=4))
        """,
    ),
    check(
        "continues",
        1,
        """
        random.seed(5)
        a = rolls(2)
        b = random.random()
        random.seed(5)
        [random.randint(1, 6) for _ in range(2)]
        assert random.random() == b
        """,
    ),
)

MODELS = theme(
    "models",
    given(
        "import",
        """
        import numpy as np
        from sklearn.linear_model import LinearRegression, LogisticRegression
        from sklearn.tree import DecisionTreeClassifier
        from sklearn.pipeline import Pipeline, make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.model_selection import train_test_split
        x = np.arange(20.0).reshape(-1, 1)
        y = 3 * x[:, 0] + 1
        labels = (x[:, 0] > 9).astype(int)
        """,
    ),
    answer(
        "models",
        """
        model = LinearRegression().fit(x, y)
        predictions = model.predict(x)
        def train(x, labels):
            pipeline = make_pipeline(StandardScaler(), LogisticRegression())
            pipeline.fit(x, labels)
            return pipeline
        tree = DecisionTreeClassifier(max_depth=2, random_state=0)
        tree.fit(x, labels)
        x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=1)
        """,
        variants=[
            """
            model = LinearRegression()
            model.fit(x, y)
            predictions = x @ model.coef_ + model.intercept_
            def train(x, labels):
                steps = [("scale", StandardScaler()), ("model", LogisticRegression())]
                return Pipeline(steps).fit(x, labels)
            tree = DecisionTreeClassifier(random_state=0, max_depth=2).fit(x, labels)
            parts = train_test_split(x, y, test_size=0.25, random_state=1)
            x_train, x_test, y_train, y_test = parts
            """,
        ],
        wrong=[
            """
            model = LinearRegression()
            predictions = y + 1
            def train(x, labels):
                return LogisticRegression().fit(x, labels)
            tree = DecisionTreeClassifier()
            x_train, x_test, y_train, y_test = x, x, y, y
            """,
            """
            model = LinearRegression(fit_intercept=False).fit(x, y)
            predictions = model.predict(x)
            def train(x, labels):
                return None
            tree = DecisionTreeClassifier(max_depth=3).fit(x, 1 - labels)
            x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, random_state=1)
            """,
        ],
    ),
    check(
        "predictions-check",
        1,
        """
        assert np.allclose(predictions, y)
        assert predictions.shape == (20,)
        """,
    ),
    check(
        "model-type",
        1,
        "assert isinstance(model, LinearRegression)",
    ),
    check(
        "coefficients",
        1,
        "assert np.isclose(model.coef_[0], 3) and np.isclose(model.intercept_, 1)",
    ),
    check(
        "predicts",
        1,
        "assert np.allclose(model.predict(np.array([[100.0]])), 301)",
    ),
    check(
        "score",
        1,
        "assert model.score(x, y) > 0.99",
    ),
    check(
        "parameters",
        1,
        """
        assert tree.get_params()['max_depth'] == 2
        assert tree.get_depth() <= 2
        assert tree.max_depth == 2
        """,
    ),
    check(
        "tree-predicts",
        1,
        """
        from sklearn.metrics import accuracy_score
        assert accuracy_score(labels, tree.predict(x)) == 1.0
        """,
    ),
    check(
        "fitted",
        1,
        """
        from sklearn.utils.validation import check_is_fitted
        check_is_fitted(tree)
        """,
    ),
    check(
        "pipeline",
        1,
        """
        p = train(x, labels)
        assert isinstance(p, Pipeline)
        assert p.score(x, labels) == 1
        """,
    ),
    check(
        "steps",
        1,
        """
        p = train(x, labels)
        kinds = [type(step).__name__ for name, step in p.steps]
        assert kinds == ['StandardScaler', 'LogisticRegression']
        """,
    ),
    check(
        "split",
        1,
        "assert x_train.shape == (15, 1) and len(y_test) == 5",
    ),
    check(
        "cross-validation",
        1,
        """
        from sklearn.model_selection import cross_val_score
        assert cross_val_score(tree, x, labels, cv=2).mean() >= 0.5
        """,
    ),
    check(
        "cloned",
        1,
        """
        from sklearn.base import clone
        assert clone(model).fit(x, 2 * y).coef_[0].round(6) == 6
        """,
    ),
)

PLOTS = theme(
    "plots",
    given(
        "import",
        """
        %matplotlib inline
        import matplotlib.pyplot as plt
        import numpy as np
        """,
    ),
    answer(
        "line",
        """
        t = np.linspace(0, 1, 11)
        plt.plot(t, t**2, "r--", label="square")
        plt.xlabel("time")
        plt.ylabel("height")
        plt.title("A fall")
        plt.legend()
        axes = plt.gca()
        """,
        variants=[
            """
            t = np.linspace(0, 1, 11)
            figure, axes = plt.subplots()
            axes.plot(t, t * t, color="red", linestyle="--", label="square")
            axes.set(xlabel="time", ylabel="height", title="A fall")
            axes.legend()
            """,
            """
            t = np.arange(11) / 10
            figure = plt.figure(figsize=(4, 3))
            axes = figure.add_subplot(111)
            axes.plot(t, t**2, "r--")
            axes.set_xlabel("time")
            axes.set_ylabel("height")
            axes.set_title("A fall")
            axes.legend(["square"])
            """,
        ],
        wrong=[
            """
            t = np.linspace(0, 1, 11)
            plt.plot(t, t)
            axes = plt.gca()
            """,
            """
            t = np.linspace(0, 1, 11)
            plt.scatter(t, t**2)
            plt.xlabel('Time')
            plt.title('A fall')
            axes = None
            """,
        ],
    ),
    check(
        "axes-of-the-answer",
        1,
        """
        assert axes.get_title() == 'A fall'
        assert axes.get_xlabel() == 'time'
        """,
    ),
    check(
        "line-data",
        1,
        """
        line = axes.get_lines()[0]
        assert np.allclose(line.get_ydata(), t**2)
        assert len(axes.lines) == 1
        """,
    ),
    check(
        "line-style",
        1,
        """
        import matplotlib.colors as colors
        line = axes.lines[0]
        assert colors.to_rgb(line.get_color()) == (1, 0, 0)
        assert line.get_linestyle() == '--'
        """,
    ),
    check(
        "legend",
        1,
        "assert [text.get_text() for text in axes.get_legend().get_texts()] == ['square']",
    ),
    check(
        "axes-type",
        1,
        """
        import matplotlib
        assert isinstance(axes, matplotlib.axes.Axes)
        """,
    ),
    answer(
        "functions",
        """
        def bar_chart(names, values):
            fig, ax = plt.subplots()
            ax.bar(names, values)
            ax.set_ylabel("count")
            return ax
        def draw(values):
            plt.hist(values, bins=4)
            plt.title("Histogram")
            plt.show()
        def panels():
            fig, axs = plt.subplots(1, 2, figsize=(6, 3))
            axs[0].plot([1, 2])
            axs[1].scatter([1, 2], [3, 4])
            return fig, axs
        """,
        variants=[
            """
            def bar_chart(names, values):
                plt.figure()
                plt.bar(names, values)
                plt.ylabel("count")
                return plt.gca()
            def draw(values):
                plt.gca().hist(values, 4)
                plt.gca().set_title("Histogram")
                plt.show()
            def panels():
                fig = plt.figure(figsize=(6, 3))
                left, right = fig.add_subplot(121), fig.add_subplot(122)
                left.plot([0, 1], [1, 2])
                right.scatter(x=[1, 2], y=[3, 4])
                return fig, [left, right]
            """,
        ],
        wrong=[
            """
            def bar_chart(names, values):
                plt.plot(names, values)
                return plt.gca()
            def draw(values):
                plt.hist(values)
            def panels():
                return plt.subplots(2, 1)
            """,
            """
            def bar_chart(names, values):
                plt.bar(names, values)
            def draw(values):
                plt.title('Histogram')
                plt.show()
            def panels():
                return None
            """,
        ],
    ),
    check(
        "bars",
        1,
        """
        plt.close('all')
        ax = bar_chart(['a', 'b'], [3, 5])
        assert [bar.get_height() for bar in ax.patches] == [3, 5]
        assert ax.get_ylabel() == 'count'
        """,
    ),
    check(
        "current-axes",
        2,
        """
        plt.close('all')
        kept = plt.show
        plt.show = lambda *a, **k: None
        try:
            draw([1, 1, 2, 4])
        finally:
            plt.show = kept
        assert plt.gca().get_title() == 'Histogram'
        assert len(plt.gca().patches) == 4
        """,
    ),
    check(
        "show-is-called",
        1,
        """
        from unittest.mock import patch
        with patch('matplotlib.pyplot.show') as shown:
            draw([1, 2])
        assert shown.called
        """,
    ),
    check(
        "figure",
        1,
        """
        fig, axs = panels()
        assert len(fig.axes) == 2
        assert tuple(fig.get_size_inches()) == (6, 3)
        assert len(axs[1].collections) == 1
        """,
    ),
    check(
        "number-of-figures",
        1,
        """
        plt.close('all')
        bar_chart(['a'], [1])
        assert plt.get_fignums() == [1]
        plt.close('all')
        """,
    ),
    check(
        "offsets",
        1,
        """
        fig, axs = panels()
        assert axs[1].collections[0].get_offsets().tolist() == [[1, 3], [2, 4]]
        """,
    ),
)

FRAMES = theme(
    "frames",
    given(
        "import",
        """
        import numpy as np
        import pandas as pd
        df = pd.DataFrame({'city': ['Rome', 'Oslo', 'Rome'], 'heat': [30.0, 12.0, 32.0]})
        """,
    ),
    answer(
        "frames",
        """
        warm = df[df["heat"] > 20]
        means = df.groupby("city")["heat"].mean()
        def add_kelvin(frame):
            result = frame.copy()
            result["kelvin"] = result["heat"] + 273
            return result
        def longest(series):
            return series.loc[series.str.len().idxmax()]
        count = df["city"].value_counts()
        def number(frame):
            frame["number"] = range(len(frame))
        """,
        variants=[
            """
            warm = df.query("heat > 20")
            means = df.pivot_table(index="city", values="heat", aggfunc="mean")["heat"]
            def add_kelvin(frame):
                return frame.assign(kelvin=frame.heat + 273)
            def longest(series):
                return max(series, key=len)
            count = df.groupby("city").size().sort_values(ascending=False)
            def number(frame):
                frame.insert(len(frame.columns), "number", np.arange(len(frame)))
            """,
        ],
        wrong=[
            """
            warm = df[df['heat'] > 31]
            means = df.groupby('city')['heat'].sum()
            def add_kelvin(frame):
                frame['kelvin'] = frame['heat'] + 273
                return frame
            def longest(series):
                return series.max()
            count = 3
            def number(frame):
                frame = frame.assign(number=range(len(frame)))
            """,
            """
            warm = df['heat'] > 20
            means = {'Oslo': 12.0, 'Rome': 31.0}
            def add_kelvin(frame):
                return frame['heat'] + 273
            def longest(series):
                return len(series)
            count = df['city'].unique()
            def number(frame):
                return list(range(len(frame)))
            """,
        ],
    ),
    check(
        "warm-check",
        1,
        """
        assert isinstance(warm, pd.DataFrame)
        assert len(warm) == 2 and warm.shape == (2, 2)
        assert set(warm.columns) == {'city', 'heat'}
        """,
    ),
    check(
        "warm-values",
        1,
        """
        assert warm['heat'].tolist() == [30, 32]
        assert (warm.city == 'Rome').all()
        assert warm.iloc[0]['heat'] == 30
        """,
    ),
    check(
        "means-check",
        1,
        """
        assert isinstance(means, pd.Series)
        assert means['Rome'] == 31 and means.loc['Oslo'] == 12
        """,
    ),
    check(
        "series-equal",
        1,
        """
        expected = pd.Series([12.0, 31.0], index=['Oslo', 'Rome'])
        pd.testing.assert_series_equal(means, expected, check_names=False)
        """,
    ),
    check(
        "means-index",
        1,
        """
        assert means.index.tolist() == ['Oslo', 'Rome']
        assert means.idxmax() == 'Rome'
        """,
    ),
    check(
        "frame-equal",
        1,
        """
        expected = pd.DataFrame({'heat': [0.0], 'kelvin': [273.0]})
        pd.testing.assert_frame_equal(add_kelvin(pd.DataFrame({'heat': [0.0]})), expected)
        """,
    ),
    check(
        "frame-column",
        1,
        """
        result = add_kelvin(df)
        assert 'kelvin' in result.columns
        assert result['kelvin'].max() == 305
        """,
    ),
    check(
        "input-unchanged",
        1,
        """
        before = pd.DataFrame({'heat': [1.0, 2.0]})
        add_kelvin(before)
        assert list(before.columns) == ['heat']
        """,
    ),
    check(
        "equals",
        1,
        "assert add_kelvin(df).drop(columns='kelvin').equals(df)",
    ),
    check(
        "text",
        1,
        "assert longest(pd.Series(['a', 'abc', 'ab'])) == 'abc'",
    ),
    check(
        "counts",
        1,
        """
        assert count['Rome'] == 2
        assert dict(count) == {'Rome': 2, 'Oslo': 1}
        """,
    ),
    check(
        "in-place",
        1,
        """
        frame = pd.DataFrame({'a': [5.0, 7.0]})
        number(frame)
        assert frame['number'].tolist() == [0, 1]
        """,
    ),
    needs=("pandas",),
)

THEMES = [ARRAYS, RANDOM, MODELS, PLOTS, FRAMES]
