"""Plausible wrong answers to 13_positional_encoding, with words of the message of each."""

import itertools
import math

import torch
from right_answers_13 import (
    add_positions,
    audit,
    mended_picture,
    mended_ring,
    mended_sentence,
    same,
    shift,
    sinusoids,
)

from attentively import positional as package

# Part 1


def matrix_with(exponent=lambda i, d: 2 * i / d, base=10000, first=0, even=torch.sin):
    """The plain way with one thing changed; `exponent` is that of pair i."""

    def make(length, d_model):
        positions = torch.arange(first, first + length).unsqueeze(1)
        angles = positions / base ** exponent(torch.arange((d_model + 1) // 2), d_model)
        codes = torch.zeros(length, d_model)
        odd = torch.cos if even is torch.sin else torch.sin
        codes[:, 0::2] = even(angles)
        codes[:, 1::2] = odd(angles)[:, : d_model // 2]
        return codes

    return make


matrix_of_cosines_first = matrix_with(even=torch.cos)
matrix_with_i = matrix_with(exponent=lambda i, d: i / d)
matrix_with_4i = matrix_with(exponent=lambda i, d: 4 * i / d)
matrix_to_the_last = matrix_with(exponent=lambda i, d: i / max(len(i) - 1, 1))
matrix_rounded_up = matrix_with(exponent=lambda i, d: i / len(i))
matrix_multiplied = matrix_with(exponent=lambda i, d: -2 * i / d)
matrix_with_base_1000 = matrix_with(base=1000)
matrix_from_one = matrix_with(first=1)


def matrix_by_component(length, d_model):
    """Each component has its own number for i."""
    component = torch.arange(d_model)
    angles = torch.arange(length).unsqueeze(1) / 10000 ** (2 * component / d_model)
    codes = angles.sin()
    codes[:, 1::2] = angles[:, 1::2].cos()
    return codes


def matrix_of_halves(length, d_model):
    return torch.cat([sinusoids(length, d_model)[:, ::2], sinusoids(length, d_model)[:, 1::2]], 1)


def matrix_of_sines(length, d_model):
    speeds = 10000 ** (-(torch.arange(d_model) // 2 * 2) / d_model)
    return torch.sin(torch.arange(length).unsqueeze(1) * speeds)


def matrix_of_angles(length, d_model):
    speeds = 10000 ** (-(torch.arange(d_model) // 2 * 2) / d_model)
    return torch.arange(length).unsqueeze(1) * speeds


def matrix_by_product(length, d_model):
    angles = torch.arange(length).unsqueeze(1) / (10000 * torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


def matrix_in_degrees(length, d_model):
    angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    angles = angles * math.pi / 180
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


def matrix_of_whole_turns(length, d_model):
    angles = torch.arange(length).unsqueeze(1) // 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


def matrix_transposed(length, d_model):
    return sinusoids(length, d_model).T


def matrix_for_even_sizes(length, d_model):
    angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    codes = torch.zeros(length, d_model)
    codes[:, 0::2] = angles.sin()
    codes[:, 1::2] = angles.cos()
    return codes


def matrix_without_the_last_sine(length, d_model):
    return sinusoids(length, d_model - d_model % 2)


def matrix_with_a_zero(length, d_model):
    """Odd sizes as the next smaller even one, filled up."""
    codes = torch.zeros(length, d_model)
    codes[:, : d_model // 2 * 2] = sinusoids(length, d_model)[:, : d_model // 2 * 2]
    return codes


def matrix_of_at_most(length, d_model):
    return sinusoids(5000, d_model)[:length]


MATRICES = [
    (matrix_of_at_most, "A sentence may have any length"),
    (matrix_of_cosines_first, "Sine and cosine are exchanged: the even"),
    (matrix_by_component, "Every component has an exponent of its own"),
    (matrix_with_i, "The exponent is i / d, where i is the index of the pair"),
    (matrix_with_4i, "The exponent is 4i / d; it must be 2i / d"),
    (matrix_to_the_last, "The exponents run from 0 to 1"),
    (matrix_rounded_up, "an odd d is rounded to an even number"),
    (matrix_multiplied, "The position is multiplied by 10000^(2i/d)"),
    (matrix_by_product, "it must be divided by 10000 to the power 2i/d"),
    (matrix_with_base_1000, "The base is 1000; it must be 10000"),
    (matrix_from_one, "The positions start at 1"),
    (matrix_of_halves, "All sines come first, then all cosines"),
    (matrix_of_sines, "All components are sines"),
    (matrix_of_angles, "sines and cosines are missing"),
    (matrix_in_degrees, "The angles are converted from degrees"),
    (matrix_of_whole_turns, "write / instead of //"),
    (matrix_transposed, "Rows and columns are exchanged"),
    (matrix_for_even_sizes, "Your code raises RuntimeError"),
    (matrix_without_the_last_sine, "If d_model is odd, the last sine has no cosine"),
    (package.sinusoids, "not accepted. Your code uses"),
    (matrix_with_a_zero, "The values of the encodings are not the expected ones"),
]

# Part 2


def added_by_sentence(x, table, first=0):
    return x + table[: len(x)].unsqueeze(1)


def added_from_zero(x, table, first=0):
    return add_positions(x, table)


def added_one_row(x, table, first=0):
    return x + table[first]


def added_one_too_far(x, table, first=0):
    return add_positions(x, table, first + 1)


def added_beside(x, table, first=0):
    codes = table[first : first + x.shape[1]].expand(len(x), -1, -1)
    return torch.cat([x, codes], dim=-1)


def added_without_words(x, table, first=0):
    return table[first : first + x.shape[1]].repeat(len(x), 1, 1)


def added_without_batch(x, table, first=0):
    return table[first : first + x.shape[1]]


def added_by_product(x, table, first=0):
    return x * table[first : first + x.shape[1]]


def added_at_the_end(x, table, first=0):
    return x + table[-x.shape[1] :]


def added_to_scaled_words(x, table, first=0):
    return add_positions(x * math.sqrt(x.shape[-1]), table, first)


def added_in_place(x, table, first=0):
    x += table[first : first + x.shape[1]]
    return x


def added_to_the_number_of_words(x, table, first=0):
    return x + table[first : x.shape[1]]


def added_unrefused(x, table, first=0):
    return x + table[first : first + x.shape[1]]


def added_by_index_error(x, table, first=0):
    return x + table[torch.arange(first, first + x.shape[1])]


def added_round_and_round(x, table, first=0):
    return x + table[torch.arange(first, first + x.shape[1]) % len(table)]


def added_refusing_too_much(x, table, first=0):
    if first + x.shape[1] >= len(table):
        raise ValueError("too long")
    return add_positions(x, table, first)


def added_refusing_the_start(x, table, first=0):
    if first == 0:
        raise ValueError("first must be positive")
    return add_positions(x, table, first)


def added_without_learning(x, table, first=0):
    return add_positions(x, table.detach(), first)


ADDED = [
    (added_by_sentence, "All words of a sentence receive the same row"),
    (added_from_zero, "`first` is ignored"),
    (added_one_row, "All words receive the encoding of the same position"),
    (added_one_too_far, "The encodings are shifted by one position"),
    (added_beside, "The encodings are concatenated with the words"),
    (added_without_words, "These are the encodings alone"),
    (added_without_batch, "is (2, 2), expected (2, 2, 2)"),
    (added_by_product, "Words and encodings are multiplied"),
    (added_at_the_end, "The encodings are the last rows of the table"),
    (added_to_scaled_words, "The words are multiplied by √d_model"),
    (added_in_place, "Your code changes its input x"),
    (added_to_the_number_of_words, "All words receive the encoding of the same position"),
    (added_unrefused, "Expected a ValueError; your code raises RuntimeError"),
    (added_by_index_error, "Expected a ValueError; your code raises IndexError"),
    (added_round_and_round, "Expected a ValueError; your code returns a tensor"),
    (
        added_refusing_too_much,
        "They are the last rows of the table: is your comparison off by one?",
    ),
    (added_refusing_the_start, "but the table has enough rows"),
    (added_without_learning, "no gradient reaches table"),
]

# Part 3


def shift_with(block=None, exponent=lambda i, d: 2 * i / d, base=10000, steps_of=lambda k: k):
    """The plain way with one thing changed; `block` is of a cosine and a sine."""
    block = block or (lambda cos, sin: [[cos, sin], [-sin, cos]])

    def make(steps, d_model):
        angles = [steps_of(steps) / base ** exponent(i, d_model) for i in range(d_model // 2)]
        return torch.block_diag(*(torch.tensor(block(math.cos(a), math.sin(a))) for a in angles))

    return make


shift_back = shift_with(steps_of=lambda k: -k)
shift_as_for_cosines_first = shift_with(lambda cos, sin: [[cos, -sin], [sin, cos]])
shift_with_sines_on_the_diagonal = shift_with(lambda cos, sin: [[sin, cos], [cos, -sin]])
shift_without_minus = shift_with(lambda cos, sin: [[cos, sin], [sin, cos]])
shift_that_mirrors = shift_with(lambda cos, sin: [[cos, sin], [sin, -cos]])
shift_at_one_speed = shift_with(exponent=lambda i, d: 0)
shift_with_i = shift_with(exponent=lambda i, d: i / d)
shift_with_4i = shift_with(exponent=lambda i, d: 4 * i / d)
shift_multiplied = shift_with(exponent=lambda i, d: -2 * i / d)
shift_with_base_1000 = shift_with(base=1000)
shift_by_one = shift_with(steps_of=lambda k: 1)
shift_one_way = shift_with(steps_of=abs)


def shift_of_halves(steps, d_model):
    angles = steps / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    cos, sin = torch.diag(angles.cos()), torch.diag(angles.sin())
    return torch.cat([torch.cat([cos, sin], 1), torch.cat([-sin, cos], 1)])


def shift_of_nothing(steps, d_model):
    return torch.eye(d_model)


def shift_in_degrees(steps, d_model):
    return shift(math.radians(steps), d_model)


def shift_by_powers_of_numbers(steps, d_model):
    return shift(1, d_model) ** steps


def shift_step_by_step(steps, d_model):
    """No step at all where the steps are negative."""
    moved = torch.eye(d_model)
    for _ in range(steps):
        moved = shift(1, d_model) @ moved
    return moved


def shift_fitted(steps, d_model):
    """Least squares over too few positions: many matrices would do, for these alone."""
    codes = sinusoids(4 + abs(steps), d_model)
    before, after = codes[: len(codes) - abs(steps)], codes[abs(steps) :]
    if steps < 0:
        before, after = after, before
    return torch.linalg.pinv(before).matmul(after).T


def shift_of_one_pair(steps, d_model):
    return shift(steps, 2)


ROTATIONS = [
    (shift_back, "shifts the encodings back instead of forwards"),
    (shift_as_for_cosines_first, "shifts the encodings back instead of forwards"),
    (shift_with_sines_on_the_diagonal, "the cosines must be on the diagonal"),
    (shift_without_minus, "The blocks are not rotations"),
    (shift_that_mirrors, "The blocks are not rotations"),
    (shift_at_one_speed, "Each pair must have its own frequency"),
    (shift_with_i, "The exponent is i / d, where i is the index of the pair"),
    (shift_with_4i, "The exponent is 4i / d; it must be 2i / d"),
    (shift_multiplied, "The steps are multiplied by 10000^(2i/d)"),
    (shift_with_base_1000, "The base is 1000; it must be 10000"),
    (shift_of_halves, "This is the matrix for encodings with all sines first"),
    (shift_by_one, "The matrix shifts by one position, whatever"),
    (shift_one_way, "Negative steps are not handled"),
    (shift_of_nothing, "This is the identity matrix, which shifts nothing"),
    (shift_in_degrees, "The angles are converted from degrees"),
    (shift_by_powers_of_numbers, "The angles must be multiplied by the steps"),
    (shift_step_by_step, "Negative steps are not handled"),
    (shift_fitted, "The values of the matrix are not the expected ones"),
    (shift_of_one_pair, "The shape of the matrix is (2, 2), expected (4, 4)"),
]

# Part 4


def audit_with(orders, alike=same):
    """An audit that tries some orders alone; `orders` are those of so many words."""

    def verdict(layer, x):
        before = layer(x)
        after = [(order, layer(x[order])) for order in orders(len(x))]
        if all(alike(each, before) for _, each in after):
            return "invariant"
        if before.dim() == x.dim() and all(alike(each, before[order]) for order, each in after):
            return "equivariant"
        return "order-sensitive"

    return verdict


def reversed_order(length):
    return [[*range(length)][::-1]]


def rolled(length):
    return [[*range(by, length), *range(by)] for by in range(1, length)]


def first_two(length):
    return [[1, 0, *range(2, length)]]


def neighbours(length):
    return [
        [*range(place), place + 1, place, *range(place + 2, length)] for place in range(length - 1)
    ]


def all_orders(length):
    return [list(order) for order in itertools.permutations(range(length))]


def with_the_first(length):
    """The first word changes places with each other one."""
    return [[other, *range(1, other), 0, *range(other + 1, length)] for other in range(1, length)]


def two_exchanged(length):
    return [
        [{one: other, other: one}.get(place, place) for place in range(length)]
        for one, other in itertools.combinations(range(length), 2)
    ]


def last_two(length):
    return [[*range(length - 2), length - 1, length - 2]]


def first_and_last(length):
    return [[length - 1, *range(1, length - 1), 0]]


def pairs(length):
    """Exchanges within the pairs 0 and 1, 2 and 3, … alone."""
    return neighbours(length)[::2]


audit_backwards = audit_with(reversed_order)
audit_of_a_ring = audit_with(rolled)
audit_backwards_and_round = audit_with(lambda n: reversed_order(n) + rolled(n))
audit_of_first_two = audit_with(first_two)
audit_of_last_two = audit_with(last_two)
audit_of_first_and_last = audit_with(first_and_last)
audit_of_pairs = audit_with(pairs)
audit_of_neighbours = audit_with(neighbours)
audit_with_the_first = audit_with(with_the_first)
audit_of_two = audit_with(two_exchanged)
audit_to_the_last_digit = audit_with(all_orders, alike=lambda a, b: a.equal(b))
audit_too_coarse = audit_with(all_orders, alike=lambda a, b: torch.allclose(a, b, atol=0.5))

audit_to_two_digits = audit_with(all_orders, alike=lambda a, b: torch.allclose(a, b, atol=0.01))
audit_to_eight_digits = audit_with(all_orders, alike=torch.allclose)
audit_to_a_share = audit_with(
    all_orders, alike=lambda a, b: torch.allclose(a, b, rtol=1e-3, atol=1e-4)
)
audit_of_the_mean = audit_with(all_orders, alike=lambda a, b: (a - b).abs().mean() < 1e-4)
audit_of_signed_differences = audit_with(all_orders, alike=lambda a, b: (a - b).max() < 1e-4)


def audit_moving_back(layer, x):
    """The outputs are put back the way they came: with the order, not with its inverse."""
    orders = [order for place in neighbours(len(x)) for order in (place, [*place[1:], place[0]])]
    before = layer(x)
    if all(same(layer(x[order]), before) for order in orders):
        return "invariant"
    moves = before.dim() == x.dim() and all(same(layer(x[o])[o], before) for o in orders)
    return "equivariant" if moves else "order-sensitive"


def audit_in_the_first_round(layer, x):
    """The loop over all orders returns at the first one, which is the original order."""
    before = layer(x)
    for order in all_orders(len(x)):
        after = layer(x[order])
        if same(after, before):
            return "invariant"
        if before.dim() == x.dim() and same(after, before[order]):
            return "equivariant"
        return "order-sensitive"


def audit_at_the_first_difference(layer, x):
    """The loop over all orders returns at the first one that changes the output."""
    before = layer(x)
    for order in all_orders(len(x)):
        after = layer(x[order])
        if not same(after, before):
            moves = before.dim() == x.dim() and same(after, before[order])
            return "equivariant" if moves else "order-sensitive"
    return "invariant"


def audit_without_moving(layer, x):
    """The outputs must be the same, or the order is known."""
    unmoved = all(same(layer(x[order]), layer(x)) for order in neighbours(len(x)))
    return "invariant" if unmoved else "order-sensitive"


def audit_moving_first(layer, x):
    before = layer(x)
    after = [(order, layer(x[order])) for order in neighbours(len(x))]
    if before.dim() == x.dim() and all(same(each, before[order]) for order, each in after):
        return "equivariant"
    return "invariant" if all(same(each, before) for _, each in after) else "order-sensitive"


def audit_of_rows_alone(layer, x):
    before = layer(x)
    moves = all(same(layer(x[order]), before[order]) for order in reversed_order(len(x)))
    return "equivariant" if moves else "order-sensitive"


def audit_of_a_set(layer, x):
    """It asks which numbers come out, and not where."""
    before, orders = layer(x), all_orders(len(x))
    if all(same(layer(x[order]), before) for order in orders):
        return "invariant"
    numbers = before.sort(dim=0).values
    moves = before.dim() == x.dim() and all(
        same(layer(x[order]).sort(dim=0).values, numbers) for order in orders
    )
    return "equivariant" if moves else "order-sensitive"


def audit_that_says_yes(layer, x):
    return audit(layer, x) == "order-sensitive"


def audit_by_shape(layer, x):
    return "equivariant" if layer(x).dim() == x.dim() else "invariant"


ORDERS = [
    (audit_backwards, "If the sentence is reversed, the outputs are reversed too"),
    (audit_of_a_ring, "If the sentence is rotated (torch.roll), the outputs are rotated too"),
    (audit_backwards_and_round, "even distances stay even"),
    (audit_of_first_two, "An order that leaves the last word in position shows nothing"),
    (audit_in_the_first_round, "called the layer only on the original order, [0, 1, 2, 3]"),
    (audit_at_the_first_difference, "called the layer on one other order only, [0, 1, 3, 2]"),
    (audit_of_last_two, "An order that leaves the first word in position shows nothing"),
    (audit_of_first_and_last, "that leaves the first and the last word in position shows"),
    (audit_of_pairs, "An order that leaves the first two words in position shows"),
    (audit_of_neighbours, "No exchange of two words shows the difference"),
    (audit_with_the_first, "No exchange of two words shows the difference"),
    (audit_of_two, "No exchange of two words shows the difference"),
    (audit_to_two_digits, "The outputs differ by little, but by more than 0.0001"),
    (audit_to_eight_digits, "make the outputs differ by about 0.00002, which is rounding"),
    (audit_to_a_share, "as rtol of torch.allclose does"),
    (audit_of_the_mean, "The mean over all of them is smaller"),
    (audit_of_signed_differences, "Does your comparison take the absolute value?"),
    (audit_moving_back, "layer(x[order]) equals layer(x)[order]"),
    (audit_to_the_last_digit, "sums in another order are rounded differently"),
    (audit_too_coarse, "expected “order-sensitive”"),
    (audit_without_moving, "your audit returns “order-sensitive”; expected “equivariant”"),
    (audit_moving_first, "All rows of its output are equal, so it is both equivariant and"),
    (audit_of_rows_alone, "It returns one vector for all words, which is the same"),
    (audit_of_a_set, "The outputs contain the same vectors in every order, but at other"),
    (audit_that_says_yes, "Expected the answer as a str, got a bool"),
    (audit_by_shape, "A word attends to the words before it, so their order matters"),
]

# Part 5


def head_with(factor=100.0, steps_of=lambda k: k):
    def make(steps, d_model):
        return factor * shift(steps_of(steps), d_model), torch.eye(d_model)

    return make


head_not_sharp = head_with(factor=1.0)
head_looking_ahead = head_with(steps_of=lambda k: -k)
head_of_one_step = head_with(steps_of=lambda k: 1)
head_looking_at_itself = head_with(steps_of=lambda k: 0)
head_too_large = head_with(factor=1e38)


def head_turned_twice(steps, d_model):
    return 100 * shift(steps, d_model), shift(steps, d_model)


def head_turned_both_ways(steps, d_model):
    return 100 * shift(steps, d_model), shift(-steps, d_model)


def head_of_noughts(steps, d_model):
    return torch.zeros(d_model, d_model), torch.zeros(d_model, d_model)


def head_of_one_matrix(steps, d_model):
    return 100 * shift(steps, d_model)


def head_of_the_fastest_hand(steps, d_model):
    """Its period is about six words: further on, others look like the right one."""
    only = torch.zeros(d_model, d_model)
    only[0, 0] = only[1, 1] = 1000.0
    return shift(steps, d_model) @ only, torch.eye(d_model)


def head_of_a_small_matrix(steps, d_model):
    return 100 * shift(steps, 2), torch.eye(2)


HEADS = [
    (head_not_sharp, "What makes a softmax more concentrated"),
    (head_looking_ahead, "The head attends 1 word ahead; it should attend 1 word back"),
    (head_of_one_step, "should attend 2 words back"),
    (head_looking_at_itself, "Every word attends to itself"),
    (head_turned_twice, "Every word attends to itself"),
    (head_turned_both_ways, "The word at position 2 has its largest weight at position 0"),
    (head_of_noughts, "All words attend to position 0"),
    (head_of_one_matrix, "Expected a pair, `return w_query, w_key`"),
    (head_of_the_fastest_hand, "Which pairs distinguish these two positions"),
    (head_of_a_small_matrix, "The shape of w_query is (2, 2), expected (64, 64)"),
    (head_too_large, "the scores are too large for 32-bit numbers"),
]

# Part 6


def sentence_with(first=0, speed=lambda i, d: 10000 ** (-2 * i / d)):
    def make(length, d_model):
        positions = torch.arange(first, first + length).unsqueeze(1)
        angles = positions * speed(torch.arange(d_model // 2), d_model)
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    return make


sentence_from_one = sentence_with(first=1)
sentence_too_fast = sentence_with(speed=lambda i, d: 10000 ** (-i / d))
sentence_as_it_was = sentence_with(1, lambda i, d: 10000 ** (-i / d))


def sentence_of_cosines_first(length, d_model):
    return mended_sentence(length, d_model).roll(d_model // 2, dims=1)


def ring_with(steps=lambda size: size, hands=lambda d: torch.arange(1, d // 2 + 1)):
    def make(size, d_model):
        angles = 2 * math.pi * torch.arange(size).unsqueeze(1) / steps(size) * hands(d_model)
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    return make


ring_not_closed = ring_with(steps=lambda size: size + 1)
ring_closed_twice = ring_with(steps=lambda size: max(size - 1, 1))
ring_with_a_still_hand = ring_with(hands=lambda d: torch.arange(d // 2))
ring_as_it_was = ring_with(lambda size: max(size - 1, 1), lambda d: torch.arange(d // 2))
ring_of_doubling_hands = ring_with(hands=lambda d: 2 ** torch.arange(d // 2))


def ring_of_cosines_first(size, d_model):
    return mended_ring(size, d_model).roll(d_model // 2, dims=1)


def ring_in_turn(size, d_model):
    """Sine and cosine side by side, as in part 1."""
    angles = (
        2 * math.pi * torch.arange(size).unsqueeze(1) / size * torch.arange(1, d_model // 2 + 1)
    )
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def picture_as_it_was(rows, columns, d_model, encode):
    return encode(rows, d_model).repeat(columns, 1) + encode(columns, d_model).repeat_interleave(
        rows, 0
    )


def picture_of_a_sum(rows, columns, d_model, encode):
    return encode(rows, d_model).repeat_interleave(columns, 0) + encode(columns, d_model).repeat(
        rows, 1
    )


def picture_of_rows_twice(rows, columns, d_model, encode):
    """Each encoding is repeated in the same way, so that the column is not encoded."""
    down, across = encode(rows, d_model // 2), encode(columns, d_model // 2)
    down, across = down.repeat_interleave(columns, 0), across.repeat_interleave(rows, 0)
    return torch.cat([down, across], dim=1)


def picture_by_columns(rows, columns, d_model, encode):
    down = encode(rows, d_model // 2).repeat(columns, 1)
    return torch.cat([down, encode(columns, d_model // 2).repeat_interleave(rows, dim=0)], dim=1)


def picture_column_first(rows, columns, d_model, encode):
    return mended_picture(rows, columns, d_model, encode).roll(d_model // 2, dims=1)


def picture_too_wide(rows, columns, d_model, encode):
    return mended_picture(rows, columns, 2 * d_model, encode)


def picture_cut(rows, columns, d_model, encode):
    """The first half of long codes: the slow hands are lost."""
    down = encode(rows, d_model)[:, : d_model // 2].repeat_interleave(columns, dim=0)
    return torch.cat([down, encode(columns, d_model)[:, : d_model // 2].repeat(rows, 1)], dim=1)


def picture_of_one_line(rows, columns, d_model, encode):
    return encode(rows * columns, d_model)


def picture_in_turn(rows, columns, d_model, encode):
    whole = mended_picture(rows, columns, d_model, encode)
    return whole.unflatten(1, (2, -1)).transpose(1, 2).flatten(1)


HUNTED = [
    ((sentence_as_it_was, ring_as_it_was, picture_as_it_was), "Do the positions start at 1?"),
    ((sentence_from_one, mended_ring, mended_picture), "Do the positions start at 1?"),
    ((sentence_of_cosines_first, mended_ring, mended_picture), "The cosines come first"),
    (
        (sentence_too_fast, mended_ring, mended_picture),
        "mended_sentence: the frequencies are wrong",
    ),
    ((sinusoids, mended_ring, mended_picture), "Sine and cosine alternate"),
    (
        (mended_sentence, ring_as_it_was, mended_picture),
        "the last position has the same encoding as the first",
    ),
    (
        (mended_sentence, ring_closed_twice, mended_picture),
        "the last position has the same encoding",
    ),
    (
        (mended_sentence, ring_not_closed, mended_picture),
        "not all neighbours have the same distance",
    ),
    (
        (mended_sentence, ring_with_a_still_hand, mended_picture),
        "One pair does not turn, so it distinguishes no",
    ),
    ((mended_sentence, ring_of_doubling_hands, mended_picture), "must make i + 1 full turns"),
    ((mended_sentence, ring_of_cosines_first, mended_picture), "The cosines come first"),
    ((mended_sentence, ring_in_turn, mended_picture), "Sine and cosine alternate"),
    (
        (mended_sentence, mended_ring, picture_as_it_was),
        "A sum does not show which summand is the row",
    ),
    (
        (mended_sentence, mended_ring, picture_of_a_sum),
        "A sum does not show which summand is the row",
    ),
    ((mended_sentence, mended_ring, picture_of_rows_twice), "Their columns are different"),
    (
        (mended_sentence, mended_ring, picture_by_columns),
        "the positions are in the order of the columns",
    ),
    ((mended_sentence, mended_ring, picture_column_first), "row and column are exchanged"),
    ((mended_sentence, mended_ring, picture_in_turn), "row and column alternate"),
    ((mended_sentence, mended_ring, picture_too_wide), "Half of the components encode the row"),
    (
        (mended_sentence, mended_ring, picture_cut),
        "each half is cut from an encoding of dimension d_model",
    ),
    (
        (mended_sentence, mended_ring, picture_of_one_line),
        "the row and the column of a position are wrong",
    ),
]

WRONG = {
    "matrix": MATRICES,
    "added": ADDED,
    "rotation": ROTATIONS,
    "order": ORDERS,
    "looking_back": HEADS,
    "bug_hunt": HUNTED,
}

BACKWARDS = """def audit(layer, x):
    before, after = layer(x), layer(x.flip(0))
    if before.shape == after.shape and torch.allclose(before, after, atol=1e-4):
        return "invariant"
    if before.dim() == x.dim() and torch.allclose(before.flip(0), after, atol=1e-4):
        return "equivariant"
    return "order-sensitive"
"""

BASE_1000 = """def sinusoids(length, d_model):
    angles = torch.arange(length).unsqueeze(1) / 1000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]
"""

HANDED_IN = {
    "backwards": ({"audit": BACKWARDS}, ["audit-check"], "If the sentence is reversed"),
    "base_1000": (
        {"sinusoids": BASE_1000},
        ["sinusoids-check"],
        "The base is 1000; it must be 10000",
    ),
}
