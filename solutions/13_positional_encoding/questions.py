"""Positional encoding as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. Parts 4
and 5, and most of part 6, are examined by code in `attentively.checks.positional_encoding`.
"""

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attentively.checks.compare import Fresh
from attentively.checks.positional_encoding import Shares, Sinusoidal
from attentively.checks.question import Case, Question, cases_of

# Part 1


def sinusoids(length, d_model):
    positions = torch.arange(length).unsqueeze(1)
    two_i = torch.arange(0, d_model, 2)
    exponents = two_i / d_model
    angles = positions / 10000**exponents
    sines, cosines = angles.sin(), angles.cos()
    encodings = torch.stack([sines, cosines], dim=-1).flatten(1)[:, :d_model]
    return encodings


def sinusoid_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(2, 2), (2, 6), (3, 4), (7, 64), (3, 5), (2, 1), (11, 7)]
    sizes += [(61, 512), (13, 3), (1, 1), (97, 10), (1, 127)] if thorough else []
    return cases_of(("length", "d_model"), sizes)


PAIRED = "torch.stack([sines, cosines], dim=-1).flatten(1)[:, :d_model]"
OF_A_COMPONENT = f"{PAIRED} -> torch.where(torch.arange(d_model) % 2 == 0, sines, cosines)"
# Mistakes in the angles, which parts 1 and 3 have in common
HALF_THE_EXPONENT = "The exponent is i / d, where i is the index of the pair; it must be 2i / d."
TWICE_THE_EXPONENT = (
    "The exponent is 4i / d; it must be 2i / d. The numbers 0, 2, 4, … are already 2i."
)
BASE = {"The base is 1000; it must be 10000.": "10000** -> 1000.0**"}

SINUSOIDS = Question(
    sinusoids,
    {"the encodings": "If d_model is odd, the last sine has no cosine."},
    sinusoid_cases,
    {
        "Sine and cosine are exchanged: the even components 0, 2, 4, … must be the sines.": (
            "stack([sines, cosines] -> stack([cosines, sines]"
        ),
        "Every component has an exponent of its own. Components 2i and 2i + 1 must be the sine and "
        "the cosine of the same angle.": [
            (f"torch.arange(0, d_model, 2) -> {component}", OF_A_COMPONENT)
            for component in ("torch.arange(d_model)", "2 * torch.arange(d_model)")
        ],
        f"{HALF_THE_EXPONENT} The lowest frequency must be nearly 1 / 10000, and here it is about "
        "1 / 100.": "two_i / d_model -> two_i / 2 / d_model",
        TWICE_THE_EXPONENT: "two_i / d_model -> 2 * two_i / d_model",
        "The exponents run from 0 to 1, and the last one is 1. They must be 2i / d, which is "
        "always below 1.": "two_i / d_model -> two_i / max(two_i[-1].item(), 1)",
        "In the exponent 2i / d, an odd d is rounded to an even number. It must be d_model "
        "itself.": [f"two_i / d_model -> two_i / (d_model {s} d_model % 2)" for s in "+-"],
        "The position is multiplied by 10000^(2i/d); it must be divided by it.": (
            "positions / -> positions *"
        ),
        "The position is divided by 10000 · 2i/d; it must be divided by 10000 to the power 2i/d.": [
            "10000**exponents -> (10000 * exponents)",
            "10000**exponents -> (10000 * exponents).clamp(min=1)",
        ],
        "A division rounds down to an integer: write / instead of //.": [
            "positions / -> positions //",
            "two_i / d_model -> two_i // d_model",
        ],
        **BASE,
        "The positions start at 1. The first row must be that of position 0: sines 0, cosines 1.": (
            "torch.arange(length) -> torch.arange(1, length + 1)"
        ),
        "All sines come first, then all cosines. They must alternate: the sine of pair i is "
        "component 2i, its cosine is component 2i + 1.": (
            f"{PAIRED} -> torch.cat([sines, cosines], dim=1)[:, :d_model]"
        ),
        "All components are sines; the odd components must be cosines.": (
            "stack([sines, cosines] -> stack([sines, sines]"
        ),
        "The angles are converted from degrees. They are in radians already, as torch.sin "
        "expects.": "angles.sin(), angles.cos() -> angles.deg2rad().sin(), angles.deg2rad().cos()",
        "Rows and columns are exchanged: each position must have a row.": (
            "return encodings -> return encodings.T"
        ),
        "These are the angles; their sines and cosines are missing.": (
            "angles.sin(), angles.cos() -> angles, angles"
        ),
    },
    either_precision=True,
)


# Part 2


def add_positions(x, table, first=0):
    end = first + x.shape[1]
    if end > len(table):
        raise ValueError(f"{end} rows are needed, but the table has {len(table)}")
    encodings = table[first:end]
    return x + encodings


def addition_cases(thorough: bool) -> Iterator[Case]:
    table = torch.tensor([[0.0, 10.0], [0.1, 20.0], [0.2, 30.0], [0.3, 40.0]])
    small = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    yield Case({"x": small, "table": table})
    yield Case({"x": small, "table": table, "first": 1})
    yield Case({"x": small[:1], "table": table, "first": 2})

    def random(sizes: tuple[int, int, int], rows: int) -> dict[str, Tensor]:
        return {"x": torch.randn(sizes), "table": torch.randn(rows, sizes[-1])}

    yield Case(random((2, 2, 3), 7) | {"first": 3})
    yield Case(random((2, 3, 5), 7))
    yield Case(random((3, 2, 5), 7) | {"first": 5})
    yield Case({name: each.requires_grad_() for name, each in random((2, 3, 5), 4).items()})
    if thorough:
        yield Case(random((5, 1, 7), 11) | {"first": 10})
        yield Case(random((1, 11, 3), 11) | {"first": 0})


ADDITION = Question(
    add_positions,
    {"words plus encodings": ""},
    addition_cases,
    {
        "All words of a sentence receive the same row, because the table is cropped to the size of "
        "the batch. The rows of the table belong to the second axis of x, that of the words.": [
            f"table[first:end] -> table[{rows}].unsqueeze(1)"
            for rows in ("first : first + len(x)", ": len(x)")
        ],
        "`first` is ignored: the first word receives row 0 instead of row `first`.": (
            "table[first:end] -> table[: x.shape[1]]"
        ),
        "The slice ends at row x.shape[1]. It must end at row first + x.shape[1], because its end "
        "is a row of the table and not a number of rows.": (
            "table[first:end] -> table[first : x.shape[1]]"
        ),
        "All words receive the encoding of the same position.": [
            "table[first:end] -> table[first]",
            "table[first:end] -> table[end - 1]",
        ],
        "The encodings are shifted by one position: the first word must receive row `first`.": (
            "table[first:end] -> table[first + 1 : end + 1]"
        ),
        "The encodings are concatenated with the words, which doubles the dimension. They must be "
        "added.": "x + encodings -> torch.cat([x, encodings.expand_as(x)], dim=-1)",
        "These are the encodings alone; the words are missing.": (
            "x + encodings -> encodings.expand_as(x)"
        ),
        "Words and encodings are multiplied; they must be added.": "x + encodings -> x * encodings",
        "The encodings are the last rows of the table; the first word must receive row `first`.": (
            "table[first:end] -> table[-x.shape[1] :]"
        ),
        "The words are multiplied by √d_model. A Transformer does that elsewhere; here `x` must be "
        "added as it is.": "x + encodings -> x * x.shape[-1] ** 0.5 + encodings",
    },
    either_precision=True,
)


# Part 3


def shift(steps, d_model):
    exponents = torch.arange(0, d_model, 2) / d_model
    angles = steps / 10000**exponents
    pairs = zip(angles.cos().tolist(), angles.sin().tolist(), strict=True)
    blocks = [torch.tensor([[cos, sin], [-sin, cos]]) for cos, sin in pairs]
    return torch.block_diag(*blocks)


def shift_cases(thorough: bool) -> Iterator[Case]:
    asked = [(1, 2), (1, 4), (3, 4), (0, 2), (-2, 6), (5, 10)]
    asked += [(17, 14), (-11, 64), (0, 6), (40, 2)] if thorough else []
    return cases_of(("steps", "d_model"), asked)


def of_blocks(*blocks: str) -> list[str]:
    return [f"[[cos, sin], [-sin, cos]] -> {block}" for block in blocks]


OF_STEPS = "angles = steps /"
MATRIX = "torch.block_diag(*blocks)"
SINES_FIRST = f"{MATRIX}[pairs][:, pairs]"
REORDERED = (
    f"return {MATRIX} -> pairs = torch.arange(d_model).reshape(-1, 2).T.flatten()\n"
    f"    return {SINES_FIRST}"
)

SHIFT = Question(
    shift,
    {"the matrix": ""},
    shift_cases,
    {
        "Negative steps are not handled: they must shift the encodings back.": [
            f"{OF_STEPS} -> angles = abs(steps) /",
            f"{OF_STEPS} -> angles = max(steps, 0) /",
        ],
        "The matrix shifts the encodings back instead of forwards: the minus sign is at the wrong "
        "sine. The first row of a block follows from sin(a + b), the second from cos(a + b).": (
            f"{OF_STEPS} -> angles = -steps /"
        ),
        "Sine and cosine are exchanged in each block: the cosines must be on the diagonal.": (
            of_blocks("[[sin, cos], [cos, -sin]]", "[[sin, cos], [-cos, sin]]")
            + of_blocks("[[sin, -cos], [cos, sin]]")
        ),
        "The blocks are not rotations: exactly one of the two sines of a block must be negative, "
        "and neither of the cosines.": (
            of_blocks("[[cos, sin], [sin, cos]]", "[[cos, sin], [sin, -cos]]")
            + of_blocks("[[cos, -sin], [-sin, cos]]")
        ),
        "All pairs turn by the same angle. Each pair must have its own frequency.": (
            "10000**exponents -> torch.ones_like(exponents)"
        ),
        HALF_THE_EXPONENT: "2) / d_model -> 2) / 2 / d_model",
        TWICE_THE_EXPONENT: "2) / d_model -> 2) * 2 / d_model",
        "The steps are multiplied by 10000^(2i/d); they must be divided by it.": (
            f"{OF_STEPS} -> angles = steps *"
        ),
        **BASE,
        "The angles are converted from degrees; they are in radians already.": (
            f"{OF_STEPS} -> angles = math.radians(steps) /"
        ),
        "The entries of the matrix for one step are multiplied by the steps, or raised to their "
        "power. The angles must be multiplied by the steps instead.": [
            (f"{OF_STEPS} -> angles = 1 /", f"{MATRIX} -> {MATRIX} * steps"),
            (f"{OF_STEPS} -> angles = 1 /", f"{MATRIX} -> {MATRIX} ** steps"),
        ],
        "This is the matrix for encodings with all sines first. Here sine and cosine alternate, so "
        "the blocks of size 2 × 2 must be on the diagonal.": [
            REORDERED,
            (f"{OF_STEPS} -> angles = -steps /", REORDERED),
        ],
        "The matrix shifts by one position, whatever `steps` is.": f"{OF_STEPS} -> angles = 1 /",
        "This is the identity matrix, which shifts nothing.": f"{MATRIX} -> torch.eye(d_model)",
    },
    either_precision=True,
)


# Part 4


def audit(layer, x):
    def alike(one, other):
        return torch.allclose(one, other, rtol=0, atol=1e-4)

    orders = [list(order) for order in itertools.permutations(range(len(x)))]
    before = layer(x)
    after = [(order, layer(x[order])) for order in orders]
    for_each_word = before.dim() == x.dim()
    if all(alike(each, before) for _, each in after):
        return "invariant"
    if for_each_word and all(alike(each, before[order]) for order, each in after):
        return "equivariant"
    return "order-sensitive"


# Part 5


def head(steps, d_model):
    w_query = 100 * shift(steps, d_model)
    w_key = torch.eye(d_model)
    return w_query, w_key


# Part 6


def mended_sentence(length, d_model):
    positions = torch.arange(length).unsqueeze(1)
    angles = positions / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def sentence_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(7, 6), (13, 22)] + ([(53, 64), (1, 2)] if thorough else [])
    return cases_of(("length", "d_model"), sizes)


def mended_ring(size, d_model):
    share = torch.arange(size).unsqueeze(1) / size
    angles = 2 * math.pi * share * torch.arange(1, d_model // 2 + 1)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def ring_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(7, 4), (12, 10)] + ([(5, 14), (2, 2), (1, 2)] if thorough else [])
    return cases_of(("size", "d_model"), sizes)


def mended_picture(rows, columns, d_model, encode):
    half = d_model // 2
    down = encode(rows, half).repeat_interleave(columns, dim=0)
    across = encode(columns, half).repeat(rows, 1)
    return torch.cat([down, across], dim=1)


def picture_cases(thorough: bool) -> Iterator[Case]:
    sizes = [(2, 3, 8, Sinusoidal), (5, 2, 14, Sinusoidal), (2, 3, 6, Shares)]
    if thorough:
        sizes += [(3, 7, 22, Sinusoidal), (1, 3, 4, Shares), (6, 6, 64, Sinusoidal)]
    names = ("rows", "columns", "d_model", "encode")
    return cases_of(names, ((*each, Fresh(encode)) for *each, encode in sizes))


PICTURE = Question(
    mended_picture,
    {
        "the encodings of an image": "Half of the components encode the row, the other half the "
        "column."
    },
    picture_cases,
    {
        "mended_picture: each half is cut from an encoding of dimension d_model. It must be a "
        "complete encoding of dimension d_model / 2.": (
            "encode(rows, half) -> encode(rows, d_model)[:, :half]",
            "encode(columns, half) -> encode(columns, d_model)[:, :half]",
        ),
        "mended_picture: the encodings of more positions are computed and then cropped. Here they "
        "depend on the number of positions: call encode(rows, …) and encode(columns, …).": [
            (
                f"encode(rows, half) -> encode({number}, half)[:rows]",
                f"encode(columns, half) -> encode({number}, half)[:columns]",
            )
            for number in ("max(rows, columns)", "rows * columns")
        ],
    },
    either_precision=True,
)


PARTS = {
    "matrix": [SINUSOIDS],
    "added": [ADDITION],
    "rotation": [SHIFT],
    "order": [Question(audit)],
    "looking_back": [Question(head)],
    "bug_hunt": [
        Question(
            mended_sentence,
            {"the encodings of a sentence": ""},
            sentence_cases,
            either_precision=True,
        ),
        Question(mended_ring, {"the encodings of a ring": ""}, ring_cases, either_precision=True),
        PICTURE,
    ],
}
"""The questions of each check, in the order of its arguments."""
