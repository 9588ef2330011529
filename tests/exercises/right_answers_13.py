"""Right answers to 13_positional_encoding, each written differently."""

import itertools
import math

import torch

# Part 1


def sinusoids(length, d_model):
    positions = torch.arange(length).unsqueeze(1)
    angles = positions / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    codes = torch.zeros(length, d_model)
    codes[:, 0::2] = angles.sin()
    codes[:, 1::2] = angles.cos()[:, : d_model // 2]
    return codes


def sinusoids_one_by_one(length, d_model):
    codes = []
    for p in range(length):
        code = []
        for component in range(d_model):
            angle = p / 10000 ** (2 * (component // 2) / d_model)
            code.append(math.cos(angle) if component % 2 else math.sin(angle))
        codes.append(code)
    return torch.tensor(codes)


def sinusoids_by_logarithm(length, d_model):
    """A cosine is a sine a quarter of a turn later; the speeds by exp, as many programs do."""
    component = torch.arange(d_model, dtype=torch.float64)
    speeds = torch.exp(-math.log(10000) * (component - component % 2) / d_model)
    return torch.sin(
        torch.outer(torch.arange(length).double(), speeds) + component % 2 * math.pi / 2
    )


# Part 2


def add_positions(x, table, first=0):
    end = first + x.shape[1]
    if end > len(table):
        raise ValueError(f"{end} positions are needed, the table has {len(table)}")
    return x + table[first:end]


def add_by_index(x, table, first=0):
    places = torch.arange(first, first + x.size(1))
    if (places >= table.size(0)).any():
        raise ValueError("too long")
    return x + table[places].expand(x.size(0), -1, -1)


def add_word_by_word(x, table, first=0):
    _, length, _ = x.shape
    if first + length - 1 not in range(len(table)):
        raise ValueError("there are not enough rows")
    words = [x[:, place] + table[first + place] for place in range(length)]
    return torch.stack(words, dim=1)


# Part 3


def shift(steps, d_model):
    moved = torch.zeros(d_model, d_model)
    for i in range(0, d_model, 2):
        angle = steps / 10000 ** (i / d_model)
        moved[i, i] = moved[i + 1, i + 1] = math.cos(angle)
        moved[i, i + 1] = math.sin(angle)
        moved[i + 1, i] = -math.sin(angle)
    return moved


def shift_by_exponential(steps, d_model):
    """The generator of a turn, times the angle, through the exponential of a matrix."""
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


# Part 4


def same(one, other):
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-4)


def audit(layer, x):
    before = layer(x)
    unmoved = moves = True
    for order in map(list, itertools.permutations(range(len(x)))):
        after = layer(x[order])
        unmoved = unmoved and same(after, before)
        moves = moves and before.dim() == x.dim() and same(after, before[order])
    if unmoved:
        return "invariant"
    return "equivariant" if moves else "order-sensitive"


def audit_of_all_orders(layer, x):
    before = layer(x)
    orders = [list(each) for each in itertools.permutations(range(len(x)))]
    after = [layer(x[order]) for order in orders]
    if all((a - before).abs().max() < 1e-4 for a in after):
        return "invariant"
    if before.shape[0] != len(x) or before.dim() < 2:
        return "order-sensitive"
    if all((a - before[order]).abs().max() < 1e-4 for a, order in zip(after, orders, strict=True)):
        return "equivariant"
    return "order-sensitive"


def audit_at_random(layer, x):
    before, verdicts = layer(x), set()
    for _ in range(200):
        order = torch.randperm(len(x))
        after = layer(x[order])
        if same(after, before):
            verdicts.add("invariant")
        elif before.dim() == 2 and same(after, before[order]):
            verdicts.add("equivariant")
        else:
            return "order-sensitive"
    return "equivariant" if "equivariant" in verdicts else "invariant"


def audit_word_by_word(layer, x):
    """Orders are built a word at a time; the first that shows a difference ends a question."""

    def orders(left):
        if not left:
            yield torch.tensor([], dtype=torch.long)
        for word in sorted(left):
            for rest in orders(left - {word}):
                yield torch.cat([torch.tensor([word]), rest])

    before = layer(x.clone())
    words = set(range(len(x)))
    if not any(float((layer(x[o]) - before).abs().max()) >= 1e-4 for o in orders(words)):
        return "invariant"
    if before.ndim == 2 and not any(
        float((layer(x[o]) - before[o]).abs().max()) >= 1e-4 for o in orders(words)
    ):
        return "equivariant"
    return "order-sensitive"


# Part 5


def head(steps, d_model):
    return 100 * shift(steps, d_model), torch.eye(d_model)


def head_that_moves_keys(steps, d_model):
    """The key of each word says which word it is for."""
    return 20 * torch.eye(d_model), 20 * shift_by_exponential(-steps, d_model)


def head_that_meets_halfway(steps, d_model):
    return [16 * shift(2 * steps, d_model), 16 * shift(steps, d_model)]


def head_of_fast_hands(steps, d_model):
    """The slow hands say little, and are left out; 64 bits."""
    fast = torch.zeros(d_model, dtype=torch.float64)
    fast[:8] = 1
    return 3000 * shift(steps, d_model).double() * fast, torch.diag(fast)


# Part 6


def mended_sentence(length, d_model):
    positions = torch.arange(length)
    speeds = 10000 ** (-2 * torch.arange(d_model // 2) / d_model)
    angles = positions.unsqueeze(1) * speeds
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def mended_ring(size, d_model):
    share = torch.arange(size).unsqueeze(1) / size
    angles = 2 * math.pi * share * torch.arange(1, d_model // 2 + 1)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def mended_picture(rows, columns, d_model, encode):
    down = encode(rows, d_model // 2).repeat_interleave(columns, dim=0)
    across = encode(columns, d_model // 2).repeat(rows, 1)
    return torch.cat([down, across], dim=1)


def sentence_reordered(length, d_model):
    in_turn = sinusoids(length, d_model)
    return torch.hstack([in_turn[:, ::2], in_turn[:, 1::2]])


def ring_one_by_one(size, d_model):
    hands = range(1, d_model // 2 + 1)
    angles = [[math.tau * p * hand / size for hand in hands] for p in range(size)]
    return torch.tensor([[*map(math.sin, row), *map(math.cos, row)] for row in angles])


def picture_place_by_place(rows, columns, d_model, encode):
    down, across = encode(rows, d_model // 2), encode(columns, d_model // 2)
    places = itertools.product(range(rows), range(columns))
    return torch.stack([torch.cat([down[row], across[column]]) for row, column in places])


def picture_as_a_grid(rows, columns, d_model, encode):
    half = d_model // 2
    down = encode(rows, half).unsqueeze(1).expand(rows, columns, half)
    across = encode(columns, half).unsqueeze(0).expand(rows, columns, half)
    return torch.cat([down, across], dim=-1).flatten(0, 1)


RIGHT = {
    "matrix": [sinusoids, sinusoids_one_by_one, sinusoids_by_logarithm],
    "added": [add_positions, add_by_index, add_word_by_word],
    "rotation": [shift, shift_by_exponential, shift_step_by_step, shift_by_diagonals],
    "order": [audit, audit_of_all_orders, audit_at_random, audit_word_by_word],
    "looking_back": [head, head_that_moves_keys, head_that_meets_halfway, head_of_fast_hands],
    "bug_hunt": [
        (mended_sentence, mended_ring, mended_picture),
        (sentence_reordered, ring_one_by_one, picture_place_by_place),
        (mended_sentence, mended_ring, picture_as_a_grid),
    ],
}
