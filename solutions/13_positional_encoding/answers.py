"""Answers to the parts of positional encoding, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import itertools
import math
from pathlib import Path

import torch

from attentively import positional
from attentively.checks.edits import edited_source
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
sinusoids, add_positions, shift = questions.sinusoids, questions.add_positions, questions.shift

# Part 1


def sinusoids_one_by_one(length, d_model):
    rows = []
    for position in range(length):
        row = []
        for component in range(d_model):
            angle = position / 10000 ** (2 * (component // 2) / d_model)
            row.append(math.cos(angle) if component % 2 else math.sin(angle))
        rows.append(row)
    return torch.tensor(rows)


def sinusoids_by_logarithm(length, d_model):
    """A cosine is a sine a quarter of a turn later; the frequencies by exp, in 64 bits."""
    component = torch.arange(d_model, dtype=torch.float64)
    frequencies = torch.exp(-math.log(10000) * (component - component % 2) / d_model)
    angles = torch.outer(torch.arange(length).double(), frequencies)
    return torch.sin(angles + component % 2 * math.pi / 2)


# Part 2


def add_by_index(x, table, first=0):
    positions = torch.arange(first, first + x.size(1))
    if (positions >= table.size(0)).any():
        raise ValueError("too long")
    return x + table[positions].expand(x.size(0), -1, -1)


def add_word_by_word(x, table, first=0):
    _, length, _ = x.shape
    if first + length - 1 not in range(len(table)):
        raise ValueError("there are not enough rows")
    return torch.stack([x[:, p] + table[first + p] for p in range(length)], dim=1)


# Part 3


def shift_by_exponential(steps, d_model):
    """The generator of a rotation, times the angle, through the exponential of a matrix."""
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    angles = [steps / 10000 ** (i / d_model) for i in range(0, d_model, 2)]
    return torch.linalg.matrix_exp(torch.block_diag(*(angle * turn for angle in angles)))


def shift_step_by_step(steps, d_model):
    return torch.linalg.matrix_power(shift(1, d_model).double(), steps)


def shift_by_diagonals(steps, d_model):
    angles = steps / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    off = torch.zeros(d_model - 1)
    off[::2] = angles.sin()
    return torch.diag(angles.cos().repeat_interleave(2)) + torch.diag(off, 1) - torch.diag(off, -1)


def shift_only_forwards(steps, d_model):
    matrix = torch.eye(d_model)
    for _ in range(steps):
        matrix = shift(1, d_model) @ matrix
    return matrix


def shift_fitted(steps, d_model):
    """Least squares on too few positions, which many matrices fit."""
    encodings = sinusoids(4 + abs(steps), d_model)
    before, after = encodings[: len(encodings) - abs(steps)], encodings[abs(steps) :]
    if steps < 0:
        before, after = after, before
    return torch.linalg.pinv(before).matmul(after).T


# Part 4


def same(one, other):
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=1e-4)


def audit_by_matrices(layer, x):
    """An order is a matrix that is multiplied from the left; both questions in one loop."""
    before, kinds = layer(x), ["invariant", "equivariant"]
    for order in itertools.permutations(range(len(x))):
        matrix = torch.eye(len(x))[list(order)]
        after = layer(matrix @ x)
        if not same(after, before) and "invariant" in kinds:
            kinds.remove("invariant")
        moves = before.dim() == 2 and same(after, matrix @ before)
        if not moves and "equivariant" in kinds:
            kinds.remove("equivariant")
    return (*kinds, "order-sensitive")[0]


def audit_order_by_order(layer, x):
    """Each order may be of either kind, instead of one kind for all orders."""
    before, kinds = layer(x), set()
    for order in map(list, itertools.permutations(range(len(x)))):
        after = layer(x[order])
        if same(after, before):
            kinds.add("invariant")
        elif before.dim() == 2 and same(after, before[order]):
            kinds.add("equivariant")
        else:
            return "order-sensitive"
    return min(kinds)


def audit_until_a_difference(layer, x):
    """Each of the two questions ends at the first order that shows a difference."""
    before, orders = layer(x.clone()), [*map(list, itertools.permutations(range(len(x))))]
    if not any(float((layer(x[o]) - before).abs().max()) >= 1e-4 for o in orders):
        return "invariant"
    if before.ndim == 2 and not any(
        float((layer(x[o]) - before[o]).abs().max()) >= 1e-4 for o in orders
    ):
        return "equivariant"
    return "order-sensitive"


def audit_in_the_first_round(layer, x):
    """The loop over all orders returns at the first one, which is the original order."""
    before = layer(x)
    for order in map(list, itertools.permutations(range(len(x)))):
        after = layer(x[order])
        if same(after, before):
            return "invariant"
        if before.dim() == x.dim() and same(after, before[order]):
            return "equivariant"
        return "order-sensitive"


def audit_at_the_first_difference(layer, x):
    """The loop over all orders returns at the first one that changes the output."""
    before = layer(x)
    for order in map(list, itertools.permutations(range(len(x)))):
        after = layer(x[order])
        if not same(after, before):
            moves = before.dim() == x.dim() and same(after, before[order])
            return "equivariant" if moves else "order-sensitive"
    return "invariant"


ORDERS = "[list(order) for order in itertools.permutations(range(len(x)))]"
ALIKE = "torch.allclose(one, other, rtol=0, atol=1e-4)"
UNCHANGED = "all(alike(each, before) for _, each in after)"
MOVED = "alike(each, before[order])"


def exchanges(pairs):
    """Return the edit that tests exchanges of two words; `pairs` is an expression of `n` words."""
    order = "[*range(one), other, *range(one + 1, other), one, *range(other + 1, n)]"
    return f"{ORDERS} -> [{order} for n in [len(x)] for one, other in {pairs}]"


# Part 5


def head_that_moves_keys(steps, d_model):
    """The key of each word encodes for which query it is."""
    return 20 * torch.eye(d_model), 20 * shift_by_exponential(-steps, d_model)


def head_that_meets_halfway(steps, d_model):
    return [16 * shift(2 * steps, d_model), 16 * shift(steps, d_model)]


def head_of_high_frequencies(steps, d_model):
    """Low frequencies hardly distinguish positions, and are left out; 64 bits."""
    high = torch.zeros(d_model, dtype=torch.float64)
    high[:8] = 1
    return 3000 * shift(steps, d_model).double() * high, torch.diag(high)


# Part 6


def sentence_reordered(length, d_model):
    encodings = sinusoids(length, d_model)
    return torch.hstack([encodings[:, ::2], encodings[:, 1::2]])


def ring_one_by_one(size, d_model):
    pairs = range(1, d_model // 2 + 1)
    angles = [[math.tau * p * pair / size for pair in pairs] for p in range(size)]
    return torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in angles])


def picture_by_position(rows, columns, d_model, encode):
    down, across = encode(rows, d_model // 2), encode(columns, d_model // 2)
    positions = itertools.product(range(rows), range(columns))
    return torch.stack([torch.cat([down[row], across[column]]) for row, column in positions])


def picture_as_a_grid(rows, columns, d_model, encode):
    half = d_model // 2
    down = encode(rows, half).unsqueeze(1).expand(rows, columns, half)
    across = encode(columns, half).unsqueeze(0).expand(rows, columns, half)
    return torch.cat([down, across], dim=-1).flatten(0, 1)


RIGHT = {
    "sinusoids": [sinusoids_one_by_one, sinusoids_by_logarithm],
    "add_positions": [add_by_index, add_word_by_word],
    "shift": [shift_by_exponential, shift_step_by_step, shift_by_diagonals],
    "audit": [audit_by_matrices, audit_until_a_difference],
    "head": [head_that_moves_keys, head_that_meets_halfway, head_of_high_frequencies],
    "mended_sentence": [sentence_reordered],
    "mended_ring": [ring_one_by_one],
    "mended_picture": [picture_by_position, picture_as_a_grid],
}

TOO_SHORT = "if end > len(table): -> if False:"
ROWS = "encodings = table[first:end]"
SINES_FIRST = "[angles.sin(), angles.cos()]"
COSINES_FIRST = f"{SINES_FIRST} -> [angles.cos(), angles.sin()]"
ALTERNATING = f"torch.cat({SINES_FIRST}, dim=1) -> torch.stack({SINES_FIRST}, dim=-1).flatten(1)"
FROM_ONE = "torch.arange(length) -> torch.arange(1, length + 1)"
OTHER_FREQUENCIES = "torch.arange(0, d_model, 2) -> torch.arange(d_model // 2)"
TURNS = "torch.arange(1, d_model // 2 + 1)"
CLOSED_TWICE = "/ size -> / max(size - 1, 1)"
DOWN, ACROSS = "encode(rows, half)", "encode(columns, half)"
DOWN_BY_ROW, ACROSS_BY_ROW = ".repeat_interleave(columns, dim=0)", ".repeat(rows, 1)"
BY_COLUMN = (
    f"{DOWN_BY_ROW} -> .repeat(columns, 1)",
    f"{ACROSS_BY_ROW} -> .repeat_interleave(rows, dim=0)",
)
SUM = (
    f"{DOWN} -> encode(rows, d_model)",
    f"{ACROSS} -> encode(columns, d_model)",
    "torch.cat([down, across], dim=1) -> down + across",
)
JOINED = "torch.cat([down, across], dim=1)"

WRONG = {
    "sinusoids": {
        "A sentence may have any length": (
            "torch.arange(length) -> torch.arange(min(length, 5000))"
        ),
        "If d_model is odd, the last sine has no cosine": (
            "[:, :d_model] -> [:, : d_model - d_model % 2]"
        ),
        "The values of the encodings are not the expected ones": (
            "return encodings -> encodings[:, d_model - d_model % 2 :] = 0\n    return encodings"
        ),
        "not accepted. Your code uses": positional.sinusoids,
    },
    "add_positions": {
        "is (2, 2), expected (2, 2, 2)": "x + encodings -> encodings",
        "Your code changes its input x": "return x + encodings -> x += encodings\n    return x",
        "Expected a ValueError; your code raises RuntimeError": TOO_SHORT,
        "Expected a ValueError; your code raises IndexError": (
            TOO_SHORT,
            f"{ROWS} -> encodings = table[torch.arange(first, end)]",
        ),
        "Expected a ValueError; your code returns a tensor": (
            TOO_SHORT,
            f"{ROWS} -> encodings = table[torch.arange(first, end) % len(table)]",
        ),
        "They are the last rows of the table: is your comparison off by one?": (
            "end > len(table) -> end >= len(table)"
        ),
        "but the table has enough rows": "end > len(table) -> first == 0",
        "no gradient reaches table": f"{ROWS} -> encodings = table.detach()[first:end]",
    },
    "shift": {
        "Negative steps are not handled": shift_only_forwards,
        "The values of the matrix are not the expected ones": shift_fitted,
        "The shape of the matrix is (2, 2), expected (4, 4)": (
            "torch.block_diag(*blocks) -> blocks[0]"
        ),
    },
    "audit": {
        "If the sentence is reversed, the outputs are reversed too": (
            f"{ORDERS} -> [[*range(len(x))][::-1]]"
        ),
        "If the sentence is rotated (torch.roll), the outputs are rotated too": (
            f"{ORDERS} -> [[*range(k, len(x)), *range(k)] for k in range(len(x))]"
        ),
        "even distances stay even": (
            f"{ORDERS} -> [[*range(k, len(x)), *range(k)][::s] for k in range(4) for s in (1, -1)]"
        ),
        "An order that leaves the last word in position shows nothing": exchanges("[(0, 1)]"),
        "An order that leaves the first word in position shows nothing": (
            exchanges("[(n - 2, n - 1)]")
        ),
        "that leaves the first and the last word in position shows": exchanges("[(0, n - 1)]"),
        "An order that leaves the first two words in position shows": (
            exchanges("[(k, k + 1) for k in range(0, n - 1, 2)]")
        ),
        "No exchange of two words shows the difference": [
            exchanges("[(k, k + 1) for k in range(n - 1)]"),
            exchanges("[(0, k) for k in range(1, n)]"),
            exchanges("itertools.combinations(range(n), 2)"),
        ],
        "called the layer only on the original order, [0, 1, 2, 3]": audit_in_the_first_round,
        "called the layer on one other order only, [0, 1, 3, 2]": audit_at_the_first_difference,
        "A single word has one order only": f"{UNCHANGED} -> len(x) > 1 and {UNCHANGED}",
        "The outputs differ by little, but by more than 0.0001": "atol=1e-4 -> atol=0.01",
        "make the outputs differ by about 0.00002, which is rounding": (", rtol=0, atol=1e-4 -> "),
        "as rtol of torch.allclose does": ["rtol=0 -> rtol=1e-3", "rtol=0, -> "],
        "Does your comparison add the differences": f"{ALIKE} -> (one - other).norm() < 1e-4",
        "Neither a mean over all components nor a larger tolerance": [
            f"{ALIKE} -> (one - other).abs().mean() < 1e-4",
            "atol=1e-4 -> atol=2e-4",
        ],
        "One single order of the words shows the difference": [
            f"{ORDERS} -> {ORDERS}[:-1]",
            f"{ORDERS} -> {ORDERS}[:9] + {ORDERS}[10:]",
        ],
        "Neither of the two holds for every order": audit_order_by_order,
        "which cannot be reordered, although d_model": (
            "before.dim() == x.dim() -> len(before) == len(x)"
        ),
        "in which a word occurs twice": (
            "permutations(range(len(x))) -> product(range(len(x)), repeat=len(x))"
        ),
        "Does your comparison take the absolute value?": f"{ALIKE} -> (one - other).max() < 1e-4",
        "layer(x[order]) equals layer(x)[order]": f"{MOVED} -> alike(each[order], before)",
        "sums in another order are rounded differently": f"{ALIKE} -> one.equal(other)",
        "expected “order-sensitive”": "atol=1e-4 -> atol=0.5",
        "your audit returns “order-sensitive”; expected “equivariant”": (
            "if for_each_word and -> if False and"
        ),
        "All rows of its output are equal, so it is both equivariant and": (
            f"if {UNCHANGED} -> if not for_each_word and {UNCHANGED}"
        ),
        "It returns one vector for all words, which is the same": f"if {UNCHANGED} -> if False",
        "The outputs contain the same vectors in every order, but at other": (
            f"{MOVED} -> alike(each.sort(dim=0).values, before.sort(dim=0).values)"
        ),
        "Expected the answer as a str, got a bool": 'return "equivariant" -> return True',
        "A word attends to the words before it, so their order matters": (
            f"if {UNCHANGED} -> if not for_each_word",
            f" and all({MOVED} for order, each in after) -> ",
        ),
    },
    "head": {
        "What makes a softmax more concentrated": "100 * -> ",
        "The head attends 1 word ahead; it should attend 1 word back": (
            "shift(steps -> shift(-steps"
        ),
        "should attend 2 words back": "shift(steps -> shift(1",
        "Every word attends to itself": [
            "shift(steps -> shift(0",
            "torch.eye(d_model) -> shift(steps, d_model)",
        ],
        "The word at position 2 has its largest weight at position 0": (
            "torch.eye(d_model) -> shift(-steps, d_model)"
        ),
        "All words attend to position 0": "100 * -> 0 *",
        "Expected a pair, `return w_query, w_key`": "return w_query, w_key -> return w_query",
        "Which pairs distinguish these two positions": (
            "torch.eye(d_model) -> 1000.0 * torch.diag((torch.arange(d_model) < 2).float())"
        ),
        "The shape of w_query is (2, 2), expected (64, 64)": (
            "shift(steps, d_model -> shift(steps, 2"
        ),
        "the scores are too large for 32-bit numbers": "100 * -> 1e38 *",
    },
    "mended_sentence": {
        "Do the positions start at 1?": [FROM_ONE, (FROM_ONE, OTHER_FREQUENCIES)],
        "The cosines come first": COSINES_FIRST,
        "mended_sentence: the frequencies are wrong": OTHER_FREQUENCIES,
        "Sine and cosine alternate": ALTERNATING,
    },
    "mended_ring": {
        "the last position has the same encoding as the first": [
            CLOSED_TWICE,
            (CLOSED_TWICE, f"{TURNS} -> torch.arange(d_model // 2)"),
        ],
        "not all neighbours have the same distance": "/ size -> / (size + 1)",
        "One pair does not turn, so it distinguishes no": f"{TURNS} -> torch.arange(d_model // 2)",
        "must make i + 1 full turns": f"{TURNS} -> 2 ** torch.arange(d_model // 2)",
        "The cosines come first": COSINES_FIRST,
        "Sine and cosine alternate": ALTERNATING,
    },
    "mended_picture": {
        "A sum does not show which summand is the row": [SUM, (*SUM, *BY_COLUMN)],
        "Their columns are different": f"{ACROSS_BY_ROW} -> .repeat_interleave(rows, dim=0)",
        "the positions are in the order of the columns": BY_COLUMN,
        "row and column are exchanged": "[down, across] -> [across, down]",
        "row and column alternate": (f"{JOINED} -> torch.stack([down, across], dim=-1).flatten(1)"),
        "Half of the components encode the row": "half = d_model // 2 -> half = d_model",
        "the row and the column of a position are wrong": (
            f"return {JOINED} -> return encode(rows * columns, d_model)"
        ),
    },
}

HANDED_IN = {
    "backwards": (
        {"audit": edited_source(questions.audit, f"{ORDERS} -> [[*range(len(x))][::-1]]")},
        ["audit-check"],
        "If the sentence is reversed",
    ),
}
