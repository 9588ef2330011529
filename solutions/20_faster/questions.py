"""Faster training as data: the right answers, their cases and the known mistakes.

Each mistake is an edit of the right answer, "old -> new": see `attentively.checks.edits`. The
memory of parts 1 and 2, the gradients of part 2 and the use of the model in part 3 are examined by
code in `attentively.checks.faster`.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from attentively.checks.faster import (
    MODELS,
    accumulated,
    profiles,
)
from attentively.checks.question import Case, Question, cases_of

HIDDEN = -math.inf
LOWEST = torch.finfo(torch.float32).min


def random(*sizes: int) -> Tensor:
    return torch.randn(*sizes).round(decimals=1) + 0.0  # not -0.0


# Part 1


def one_pass(chunks):
    start = torch.finfo(torch.float32).min
    largest, total, weighted = torch.tensor([start]), torch.zeros(1), 0.0
    for scores, values in chunks:
        new = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(largest - new)
        powers = torch.exp(scores - new)
        total = shrink * total + powers.sum(dim=-1, keepdim=True)
        weighted = shrink * weighted + powers @ values
        largest = new
    mean = weighted / torch.where(total == 0, 1.0, total)
    return mean


def chunks_of(*scores: Sequence[float], d: int = 2) -> dict[str, list[tuple[Tensor, Tensor]]]:
    return {"chunks": [(torch.tensor(part), random(len(part), d)) for part in scores]}


def one_pass_cases(thorough: bool) -> Iterator[Case]:
    by_hand = [
        (torch.tensor([3.0, 1.0]).log(), torch.tensor([[10.0], [30.0]])),
        (torch.tensor([6.0]).log(), torch.tensor([[4.0]])),
    ]
    yield Case(chunks_of([1.0, 3.0, 2.0], d=1))
    yield Case(chunks_of([2.0, 1.0], [0.0], d=1))
    yield Case({"chunks": by_hand})
    yield Case(chunks_of([2.0, -1.0], [0.5, 1.0]))
    yield Case(chunks_of([0.5, 1.0], [2.0, -1.0], [1.5, 4.0]))
    yield Case(chunks_of([3.0, 1.0, 2.0], [2.0, 0.0, 1.0], [4.0]))
    yield Case(chunks_of([3.0, HIDDEN], [1.0, HIDDEN, 2.0]))
    yield Case(chunks_of([-1000.0, -999.0, HIDDEN], [-998.0]))
    yield Case(chunks_of([900.0, 901.0], [-1000.0]))
    yield Case(chunks_of([-1000.0, -999.0], [999.0, 1000.0]))
    yield Case(chunks_of([HIDDEN, HIDDEN], [1.0, 2.0]))
    yield Case(chunks_of([1.0, 2.0], [HIDDEN, HIDDEN], [0.0]))
    yield Case(chunks_of([HIDDEN, HIDDEN], [HIDDEN]))
    if thorough:
        yield Case(chunks_of(*((30 * torch.randn(n)).tolist() for n in (5, 3, 7, 1)), d=5))
        yield Case(chunks_of(*((300 * torch.randn(n)).tolist() for n in (2, 11)), d=3))
        yield Case(chunks_of([5.0], [HIDDEN], [-7.0], d=1))


# Mistakes in the online softmax, which parts 1 and 2 have in common
OF_BLOCK = "scores.amax(dim=-1, keepdim=True)"
MAXIMUM = f"torch.maximum(largest, {OF_BLOCK})"
OWN_MAXIMUM = f"torch.where({OF_BLOCK} < start, largest, {OF_BLOCK})"
SHRINK = "torch.exp(largest - new)"
POWERS = "torch.exp(scores - new)"
ADDED = "powers.sum(dim=-1, keepdim=True)"
NOT_SHRUNK = f"{SHRINK} -> torch.ones_like(new)"
OF_EACH_BLOCK = (NOT_SHRUNK, f"{POWERS} -> scores.softmax(dim=-1).nan_to_num(0.0)")
SAFE = "torch.where(total == 0, 1.0, total)"
NOT_DIVIDED = f" / {SAFE} -> "
NOT_SAFE = f"{SAFE} -> total"
FROM_INFINITY = "start = torch.finfo(torch.float32).min -> start = -math.inf"
NO_MAXIMUM = (f"{MAXIMUM} -> torch.zeros_like(scores[..., :1])", NOT_SHRUNK)
UNIFORM = (
    "If all scores are masked, the result is the mean of all values, and must be 0. If masked "
    "scores are the lowest finite number, their difference from the maximum is 0 and their "
    "exponential 1."
)
NOT_LOW = (
    "The value that replaces the masked scores is not low enough: on this input other scores are "
    "as low. Use -inf."
)
FIRST_BLOCK = "Only the first block contributes to the result."
ONLINE = {
    "If all scores are masked, the result is 0/0. It must be 0.": NOT_SAFE,
    "The result is NaN: where all scores so far are masked, -inf is subtracted from -inf. "
    "Replace the maximum by a finite number there.": FROM_INFINITY,
    "All scores so far are masked, and the later blocks are lost: the loop stops here, or the NaN "
    "of -inf - (-inf) is replaced by 0 at the end. Start at the lowest finite number.": (
        FROM_INFINITY,
        f"weighted / {SAFE} -> (weighted / {SAFE}).nan_to_num(0.0)",
    ),
    "Only the last block contributes to the result. Add each block to the sums of the blocks "
    "before it.": (
        f"{MAXIMUM} -> {OWN_MAXIMUM}",
        f"{SHRINK} -> torch.zeros_like(new)",
    ),
    "Each block has a softmax of its own, and the results are averaged. A block with higher "
    "scores must count more: keep the sums, and divide only at the end.": (
        *OF_EACH_BLOCK,
        f"{ADDED} -> 1.0",
    ),
    "Each block has a softmax of its own, and the results are added. Keep the sums, and divide "
    "only at the end.": (*OF_EACH_BLOCK, NOT_DIVIDED),
    "When a larger maximum arrives, both sums are still relative to the old maximum: multiply "
    "total and weighted sum by exp(old - new).": NOT_SHRUNK,
    "Each block subtracts its own maximum, so the sums of different blocks have different scales. "
    "Subtract the largest score so far, and rescale the sums before.": (
        f"{MAXIMUM} -> {OWN_MAXIMUM}",
        NOT_SHRUNK,
    ),
    "The maximum of the block replaces the largest score so far even if it is lower. Then "
    "exp(old - new) overflows: take the larger of the two.": f"{MAXIMUM} -> {OWN_MAXIMUM}",
    "When a larger maximum arrives, the weighted sum is rescaled, but the total is not.": (
        "shrink * total -> total"
    ),
    "When a larger maximum arrives, the total is rescaled, but the weighted sum is not.": (
        "shrink * weighted -> weighted"
    ),
    "When a larger maximum arrives, both sums must become smaller. Here they grow: multiply by "
    "exp(old - new), which is at most 1.": [
        f"{SHRINK} -> torch.exp(new - largest).nan_to_num(posinf=0.0)",
        f"{SHRINK} -> torch.exp(new - largest)",
    ],
    "The largest score so far starts at 0. If all scores are far below 0, all exponentials become "
    "0: start at -inf or at the lowest finite number.": (
        "start = torch.finfo(torch.float32).min -> start = 0.0"
    ),
    "The exponential of a large score overflows to infinity, and that of a very low score is 0. "
    "Subtract the largest score so far.": [
        NO_MAXIMUM,
        (*NO_MAXIMUM, NOT_SAFE),
        f"{MAXIMUM} -> torch.where(total == 0, {OWN_MAXIMUM}, largest)",
    ],
    "The weighted sum is not divided by the total.": NOT_DIVIDED,
    "The weighted sum is divided after each block, and the next block is added to the quotient. "
    "Divide once, at the end.": (
        NOT_DIVIDED,
        f"largest = new -> largest = new\n        weighted = weighted / {SAFE}",
    ),
}

ONE_PASS = Question(
    one_pass,
    {"the mean": "One value for each column."},
    one_pass_cases,
    {
        **ONLINE,
        FIRST_BLOCK: "in chunks -> in [next(iter(chunks))]",
        UNIFORM: "        new = -> \n        scores = scores.clamp(min=start)\n        new =",
        NOT_LOW: "        new = -> \n        scores = scores.clamp(min=-1000.0)\n        new =",
    },
    either_precision=True,
)


# Part 2


def blockwise_attention(query, key, value, mask=None, block_size=128):
    start = torch.finfo(torch.float32).min
    largest = torch.full((*query.shape[:-1], 1), start)
    total, weighted = torch.zeros_like(largest), 0.0
    for first in range(0, key.shape[-2], block_size):
        block = slice(first, first + block_size)
        scores = query @ key[..., block, :].mT / math.sqrt(query.shape[-1])
        if mask is not None:
            seen = mask if mask.shape[-1] == 1 else mask[..., block]
            scores = scores.masked_fill(~seen, -math.inf)
        new = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        shrink = torch.exp(largest - new)
        powers = torch.exp(scores - new)
        total = shrink * total + powers.sum(dim=-1, keepdim=True)
        weighted = shrink * weighted + powers @ value[..., block, :]
        largest = new
    context = weighted / torch.where(total == 0, 1.0, total)
    return context


def qkv(lead: Sequence[int], q: int, k: int, d: int, d_value: int, **more: object) -> dict:
    shapes = {"query": (q, d), "key": (k, d), "value": (k, d_value)}
    made = {name: random(*lead, *shape) for name, shape in shapes.items()}
    return {**made, "mask": None, "block_size": 2, **more}


def some(*shape: int) -> Tensor:
    """Return a mask that is False at about half of its entries."""
    return torch.rand(shape) < 0.5


def block_cases(thorough: bool) -> Iterator[Case]:
    by_hand = {
        "query": torch.tensor([[1.0, 0.0, 0.0, 1.0]]),
        "key": torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 4.0], [2.0, 1.0, 1.0, 4.0]]),
        "value": torch.tensor([[10.0], [20.0], [30.0]]),
        "mask": None,
        "block_size": 3,
    }
    rising = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
    yield Case(by_hand)
    yield Case(by_hand | {"block_size": 2})
    yield Case(qkv([], 1, 4, 1, 1, query=torch.ones(1, 1), key=rising))
    yield Case(qkv([], 3, 4, 5, 2))
    yield Case(qkv([], 3, 5, 2, 3))
    yield Case(qkv([], 2, 3, 2, 5, block_size=7))
    yield Case(qkv([2, 3], 5, 7, 2, 3, block_size=3))
    yield Case(qkv([], 2, 4, 3, 2, mask=some(2, 4) | torch.eye(2, 4).bool()))
    first_half = torch.tensor([[True, True, False, False], [False, False, True, True]])
    yield Case(qkv([], 2, 4, 3, 2, mask=first_half))
    # An axis of 1 serves all: one sentence's padding every query, one triangle every head.
    yield Case(qkv([2], 3, 5, 7, 2, mask=some(2, 1, 5) | torch.eye(5)[:1].bool()))
    yield Case(qkv([2, 3], 5, 5, 2, 3, mask=torch.ones(1, 1, 5, 5).tril().bool()))
    sliced = "The mask's key axis has the size 1 here and serves all keys: do not slice it."
    whole = torch.tensor([[[True]], [[False]]])
    yield Case(qkv([2], 3, 5, 2, 2, mask=whole), note=sliced)
    nothing = torch.tensor([[False] * 3, [True, False, True]])
    yield Case(qkv([], 2, 3, 2, 2, mask=nothing))
    for mask in (None, some(2, 3, 5)):
        yield Case(qkv([2], 3, 5, 2, 3, mask=mask, query=300 * torch.randn(2, 3, 2)))
    low = {"query": torch.tensor([[-500.0]]), "key": torch.tensor([[1.0], [2.0], [3.0]])}
    yield Case(qkv([], 1, 3, 1, 2, **low))
    lower = {"query": torch.tensor([[-5e4]]), "mask": torch.tensor([[True, False, True]])}
    yield Case(qkv([], 1, 3, 1, 2, **low | lower))
    if thorough:
        yield Case(qkv([5, 2], 3, 11, 2, 5, mask=some(5, 1, 3, 11), block_size=4))
        yield Case(qkv([3], 7, 13, 5, 2, mask=some(3, 7, 13), block_size=5))
        yield Case(qkv([1], 1, 1, 1, 1))
        rows = torch.tensor([[[True], [False], [True]]])
        yield Case(qkv([2], 3, 5, 2, 2, mask=rows, block_size=1), note=sliced)


OF_EACH_QUERY = (
    "If the scores of another query are far lower, all their exponentials become 0. Subtract the "
    "maximum of each query."
)
MASKED = "masked_fill(~seen, -math.inf)"
BLOCKS = Question(
    blockwise_attention,
    {"the context": ""},
    block_cases,
    {
        "The scores are not divided by √d.": " / math.sqrt(query.shape[-1]) -> ",
        "The scores are divided by d. Divide by its square root.": (
            "math.sqrt(query.shape[-1]) -> query.shape[-1]"
        ),
        "The scores are divided by the square root of d_value. Divide by that of d, the size of "
        "queries and keys.": "math.sqrt(query.shape[-1]) -> math.sqrt(value.shape[-1])",
        f"One maximum of all queries is subtracted. {OF_EACH_QUERY}": (
            f"{MAXIMUM} -> torch.maximum(largest, scores.amax())"
        ),
        "The mask is ignored.": "if mask is not None -> if False",
        "The mask is inverted: True means that the query may attend.": (
            f"{MASKED} -> masked_fill(seen, -math.inf)"
        ),
        "The last keys are missing if they do not fill a block.": (
            "key.shape[-2], block_size) -> key.shape[-2] - block_size + 1, block_size)"
        ),
        "Every block uses the mask of the first block. Split the mask as the keys are split.": (
            "mask[..., block] -> mask[..., : scores.shape[-1]]"
        ),
        **ONLINE,
        FIRST_BLOCK: "key.shape[-2], block_size) -> 1, block_size)",
        UNIFORM: f"{MASKED} -> masked_fill(~seen, -1e9)",
        "Masked scores are set to 0, and exp(0) is 1, so the key still gets a weight.": (
            f"{MASKED} -> mul(seen)"
        ),
        NOT_LOW: (
            f"{MASKED} -> masked_fill(~seen, -1e4)",
            "return context -> "
            "return context if mask is None else context * mask.any(dim=-1, keepdim=True)",
        ),
    },
    either_precision=True,
)


# Part 3


def accumulate(model, inputs, targets, counted, rows):
    model.zero_grad()
    number = counted.sum()
    mean = 0.0
    for first in range(0, len(inputs), rows):
        part = slice(first, first + rows)
        seen = counted[part]
        logits = model(inputs[part]).transpose(1, 2)
        losses = F.cross_entropy(logits, targets[part], reduction="none")
        loss = (losses * seen).sum() / number
        loss.backward()
        mean += loss.item()
    return mean


def accumulate_cases(thorough: bool) -> Iterator[Case]:
    bare, model, writer = MODELS
    counted = torch.tensor([[1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 1, 0, 1, 1]]).bool()
    none = torch.zeros(2, 5).bool()
    asked = [
        (bare, counted, 3),
        (model, counted[[0, 1, 0, 2, 1]], 2),
        (model, counted, 1),
        (model, torch.cat([counted[:2], none, counted[2:]]), 2),
        (writer, torch.rand(5, 7) < 0.3, 2),
    ]

    def reading(name: str, counted: Tensor, rows: int) -> Case:
        inputs, targets = torch.randint(0, 7, (2, *counted.shape))
        read = {"inputs": inputs, "targets": targets, "counted": counted, "rows": rows}
        return Case({"model": name, **read})

    yield from [reading(*each) for each in asked]
    if thorough:
        yield reading(model, torch.rand(5, 3) < 0.4, 3)
        yield reading(model, counted, 5)


COUNTED = "number = counted.sum()"
SHARE = "(losses * seen).sum() / number"
OF_A_PART = "(losses * seen).sum() / seen.sum().clamp(min=1)"
FORGOTTEN = (
    "part = slice(first -> model.zero_grad()\n        mean = 0.0\n        part = slice(first"
)
ALL_TOKENS = "Add the sums, and divide by the number of all counted tokens."
LATE = "they are all zero. Is backward called, and zero_grad before it and not after it?"
ACCUMULATE = Question(
    accumulate,
    {"the loss": "", "the gradients": ""},
    accumulate_cases,
    {
        "{which}: this is the mean of the means of the parts. A part with few counted tokens then "
        f"has the same weight as a part with many. {ALL_TOKENS}": (
            f"{SHARE} -> {OF_A_PART} / len(range(0, len(inputs), rows))"
        ),
        "{which}: this is the mean of the means of all parts with counted tokens, and each has the "
        f"same weight. {ALL_TOKENS}": (
            f"{SHARE} -> {OF_A_PART} / sum(each.any() for each in counted.split(rows))"
        ),
        "{which}: the means of the parts are added. Add the sums, and divide by the number of all "
        "counted tokens.": f"{SHARE} -> {OF_A_PART}",
        "{which}: the parts are weighted by their rows. Weight them by tokens: add the sums, and "
        "divide by the number of all counted tokens.": (
            f"{SHARE} -> {OF_A_PART} * len(seen) / len(inputs)"
        ),
        "{which}: all tokens are counted. Count only those where `counted` is True.": (
            f"{COUNTED} -> number = counted.numel()",
            f"{SHARE} -> losses.sum() / number",
        ),
        "{which}: this is the sum over the counted tokens, not their mean.": (
            f"{SHARE} -> (losses * seen).sum()"
        ),
        "{which}: the sum is divided by the number of all tokens, not of the counted ones.": (
            f"{COUNTED} -> number = counted.numel()"
        ),
        "{which}: only the last part contributes. Is the loss, or the gradient, reset in every "
        "part?": (FORGOTTEN, f"{SHARE} -> {OF_A_PART}"),
        "{which}: only the share of the last part contributes. Is the loss, or the gradient, reset "
        "in every part?": [FORGOTTEN, FORGOTTEN.replace("\n        mean = 0.0", "")],
        "{which}: the rows that do not fill a part are missing.": [
            "len(inputs), rows) -> len(inputs) - rows + 1, rows)",
            (
                "len(inputs), rows) -> len(inputs) - rows + 1, rows)",
                f"{COUNTED} -> number = counted[: len(inputs) // rows * rows].sum()",
            ),
        ],
        "{which}: the gradients of the previous step are still included, because backward adds to "
        "them.": "model.zero_grad() -> pass",
        f"{{which}}: {LATE}": [
            "return mean -> model.zero_grad()\n    return mean",
            "loss.backward() -> pass",
        ],
    },
    runner=accumulated,
)


def factor(counts, worker):
    share = counts[worker] / sum(counts)
    return len(counts) * share


def factor_cases(thorough: bool) -> Iterator[Case]:
    asked = [([3, 1], 0), ([3, 1], 1), ([4, 4, 4], 2), ([10, 0, 20, 6], 2), ([5], 0), ([5, 0], 1)]
    if thorough:
        asked += [([17, 31, 2, 0, 7, 300], worker) for worker in range(6)]
    for counts, worker in asked:
        yield Case({"counts": counts, "worker": worker})


RESULT = "len(counts) * share"
FACTOR = Question(
    factor,
    {"the factor": ""},
    factor_cases,
    {
        "This is the worker's share of all counted tokens. It would be right if the gradients were "
        "added, but they are averaged, which divides by the number of workers.": (
            f"{RESULT} -> share"
        ),
        "This gives all workers the same weight. It is right only if all have the same number of "
        "counted tokens.": [f"{RESULT} -> 1.0", f"{RESULT} -> 1 / len(counts)"],
        "Multiply by the number of workers, and do not divide by it: averaging already divides.": (
            f"{RESULT} -> share / len(counts)"
        ),
        "The fraction is inverted. A worker with more counted tokens needs a larger factor.": [
            f"{RESULT} -> 1 / (len(counts) * share) if share else 0.0",
            f"{RESULT} -> 1 / share if share else 0.0",
        ],
        "This is the number of tokens, which turns the mean into a sum.": (
            f"{RESULT} -> counts[worker]"
        ),
        "A worker without counted tokens has the factor 0.": [
            f"{RESULT} -> {RESULT} or 1.0",
            "counts[worker] / -> max(1, counts[worker]) /",
        ],
    },
    named=True,
    in_all_cases=True,
)


# Part 4


def faulty_part(query, key, value, mask):
    powers = (query @ key.mT / math.sqrt(query.shape[-1])).exp() * mask
    total = powers.sum(dim=-1)
    return powers @ value / total.unsqueeze(-1), total.log()


def faulty_merge(one, other):
    (first, first_log), (second, second_log) = one, other
    total = first_log.exp() + second_log.exp()
    share = (first_log.exp() / total).unsqueeze(-1)
    return share * first + (1 - share) * second, total.log()


def mended_part(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~mask, -math.inf)
    largest = scores.amax(dim=-1).clamp(min=torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - largest.unsqueeze(-1))
    total = powers.sum(dim=-1)
    safe = torch.where(total == 0, 1.0, total)
    context = powers @ value / safe.unsqueeze(-1)
    logs = largest + total.log()
    return context, logs


def keys_of(q: int, k: int, d: int, d_value: int, **more: Tensor) -> dict[str, Tensor]:
    made = {"query": random(q, d), "key": random(k, d), "value": random(k, d_value)}
    return made | {"mask": torch.ones(q, k, dtype=torch.bool)} | more


def part_cases(thorough: bool) -> Iterator[Case]:
    yield Case(keys_of(2, 3, 2, 2))
    yield Case(keys_of(2, 3, 5, 2, mask=some(2, 3) | torch.eye(2, 3).bool()))
    yield Case(keys_of(2, 3, 2, 2, query=300 * torch.randn(2, 2)))
    low = {"key": torch.tensor([[1000.0], [999.0], [998.0]]), "query": -torch.ones(1, 1)}
    yield Case(keys_of(1, 3, 1, 2, **low, mask=torch.tensor([[True, False, True]])))
    masked = {"key": torch.tensor([[1.0], [300.0]]), "mask": torch.tensor([[True, False]])}
    yield Case(keys_of(1, 2, 1, 2, query=torch.ones(1, 1), **masked))
    nothing = torch.tensor([[False] * 3, [True, False, True]])
    yield Case(keys_of(2, 3, 2, 2, mask=nothing))
    if thorough:
        yield Case(keys_of(5, 7, 3, 2, mask=some(5, 7), query=30 * torch.randn(5, 3)))
        close = {"query": torch.full((3, 2), -90.0), "key": 1 + 0.001 * torch.randn(11, 2)}
        yield Case(keys_of(3, 11, 2, 5, **close))


FILLED = "scores.masked_fill(~mask, -math.inf)"
ALLOWED = f"scores = {FILLED} -> pass"
LATE_MASK = "largest.unsqueeze(-1)) -> largest.unsqueeze(-1)) * mask"
OF_ZERO = "torch.where(total == 0, 1.0, total)"
NO_KEY = ["0.0", "math.nan", "-1e9", "LOWEST", "LOWEST + math.log(len(key))", "math.log(len(key))"]
BOTH = {"context": "", "logs": ""}
PART = Question(
    mended_part,
    BOTH,
    part_cases,
    {
        "The context of a query that may attend to no key of this part is 0/0. It must be 0.": (
            f"{OF_ZERO} -> total"
        ),
        "The context is NaN or infinite: the exponential of a large score overflows, and infinity "
        "times a masked 0 is NaN. Subtract the largest allowed score.": faulty_part,
        "The maximum includes masked scores. If a masked score is far higher, all other "
        "exponentials become 0. Mask the scores before you take the maximum.": [
            (ALLOWED, LATE_MASK),
            (ALLOWED, LATE_MASK, f"{OF_ZERO} -> total"),
        ],
        f"One maximum of all queries is subtracted. {OF_EACH_QUERY}": (
            "scores.amax(dim=-1) -> scores.amax().expand(len(query))"
        ),
        "A query that may attend to no key of this part gets the mean of all values. Its context "
        "must be 0.": f"{FILLED} -> scores.masked_fill(~mask, LOWEST)",
        NOT_LOW: f"{FILLED} -> scores.masked_fill(~mask, -1000.0)",
        "The scores are not divided by √d.": " / math.sqrt(query.shape[-1]) -> ",
        "Masked scores are set to 0, and exp(0) is 1, so the key still gets a weight.": (
            f"{FILLED} -> scores.masked_fill(~mask, 0.0)"
        ),
        "The sum overflows or becomes 0 before the log is taken. Use ln Σ e^s = m + ln Σ e^(s - "
        "m), where m is the largest allowed score.": (
            "largest + total.log() -> scores.exp().sum(dim=-1).log()"
        ),
        "The largest score was subtracted, and is missing in the log: ln Σ e^s = m + ln Σ e^(s - "
        "m).": "largest + total.log() -> total.log()",
        "This is the sum, which can overflow. Return its logarithm.": (
            "largest + total.log() -> largest.exp() * total"
        ),
        "A query that may attend to no key has the sum 0, whose log is -inf. This tells the merge "
        "that the part has the weight 0.": [
            f"return context, logs -> return context, torch.where(total == 0, {each}, logs)"
            for each in NO_KEY
        ],
        "This is the largest score, not the log of the sum.": "largest + total.log() -> largest",
    },
    named=True,
    either_precision=True,
)


def mended_merge(one, other):
    (first, first_log), (second, second_log) = one, other
    largest = torch.maximum(first_log, second_log)
    largest = largest.clamp(min=torch.finfo(largest.dtype).min)
    first_sum, second_sum = torch.exp(first_log - largest), torch.exp(second_log - largest)
    total = first_sum + second_sum
    shares = torch.where(total == 0, 0.0, first_sum / total)
    share = shares.unsqueeze(-1)
    context = share * first + (1 - share) * second
    logs = largest + total.log()
    return context, logs


def merge_cases(thorough: bool) -> Iterator[Case]:
    def pairs(*logs: Sequence[float]) -> Case:
        def contexts(of: Sequence[float]) -> Tensor:  # zeros where there is no key
            return random(len(of), 2) * (torch.tensor(of) > HIDDEN).unsqueeze(-1)

        made = [(contexts(each), torch.tensor(each)) for each in logs]
        return Case(dict(zip(("one", "other"), made, strict=True)))

    yield pairs([1.0, 0.0], [0.5, 2.0])
    yield pairs([2.0, -1.0, 0.0], [1.0, 5.0, 0.0])
    yield pairs([900.0, -400.0], [901.0, -401.0])
    yield pairs([500.0, -500.0], [-500.0, 500.0])
    yield pairs([HIDDEN, 1.0], [2.0, HIDDEN])
    yield pairs([HIDDEN], [HIDDEN])
    if thorough:
        yield pairs((50 * torch.randn(7)).tolist(), (50 * torch.randn(7)).tolist())


SHARES = "torch.where(total == 0, 0.0, first_sum / total)"
SUM_OF_LOGS = "largest + total.log()"
MERGE = Question(
    mended_merge,
    BOTH,
    merge_cases,
    {
        "Where both logs are -inf, -inf is subtracted from -inf. The context must be 0 there.": [
            f"{SHARES} -> first_sum / total",
            "largest = largest.clamp(min=torch.finfo(largest.dtype).min) -> pass",
        ],
        "The context is NaN: the exponential of a large log overflows and that of a low log is 0, "
        "so a share is infinity/infinity or 0/0. The shares depend only on the difference of the "
        "two logs.": faulty_merge,
        "The logs or their exponentials are limited, so the difference of two large logs is lost. "
        "The shares depend on this difference: subtract the maximum instead.": (
            f"{SHARES} -> (first_log.clamp(-80, 80) - second_log.clamp(-80, 80)).sigmoid()"
        ),
        "The contexts are averaged. Weight each by its sum of exponentials.": (
            f"{SHARES} -> torch.full_like(total, 0.5)"
        ),
        "Where only one of the logs is -inf, the result is the other pair.": (
            "return context, -> "
            "return context * ((first_log > HIDDEN) & (second_log > HIDDEN)).unsqueeze(-1),"
        ),
        "The contexts are added, but they are already divided by their totals. Multiply each by "
        "its share; the two shares sum to 1.": (
            "share * first + (1 - share) * second -> first + second"
        ),
        "The two shares are swapped.": (
            "share * first + (1 - share) * second -> (1 - share) * first + share * second"
        ),
        "The logs are used in place of the sums.": (
            f"{SHARES} -> first_log / (first_log + second_log)"
        ),
        "The log of the sum is infinite or NaN, because the exponential of a log overflows or "
        "becomes 0. Use torch.logaddexp, or subtract the maximum first.": (
            f"{SUM_OF_LOGS} -> (first_log.exp() + second_log.exp()).log()"
        ),
        "Add the sums, not their logs: ln(a + b) is not ln a + ln b.": (
            f"{SUM_OF_LOGS} -> first_log + second_log"
        ),
        "The larger log was subtracted, and is missing in the log of the sum.": (
            f"{SUM_OF_LOGS} -> total.log()"
        ),
        "This is the larger of the two logs, not the log of the sum.": (
            f"{SUM_OF_LOGS} -> torch.maximum(first_log, second_log)"
        ),
        "Where both logs are -inf, the log of the sum must be -inf again.": [
            f"{SUM_OF_LOGS} -> torch.where(total == 0, {each}, {SUM_OF_LOGS})"
            for each in ("0.0", "math.nan")
        ],
    },
    named=True,
    either_precision=True,
)


# Part 5


def memory(parameters, layers, inside, edge, batch, every=None):
    if every is None:
        most = layers * (inside + edge)
    else:
        lengths = [min(every, layers - first) for first in range(0, layers, every)]
        peaks = [
            number * edge + length * inside + (length - 1) * edge
            for number, length in enumerate(lengths, start=1)
        ]
        most = max(peaks)
    return {
        "weights": 4 * parameters,
        "gradients": 4 * parameters,
        "moments": 8 * parameters,
        "activations": 4 * batch * most,
    }


def memory_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (10, 4, 5, 2, 1, None),
        (10, 4, 5, 2, 3, 2),
        (1000, 12, 32, 8, 7, None),
        (1000, 12, 32, 8, 7, 1),
        (1000, 12, 32, 8, 7, 3),
        (1000, 12, 32, 8, 7, 12),
        (77, 7, 30, 4, 2, 3),
        (77, 9, 5, 20, 2, 4),
        (5, 11, 13, 3, 2, 5),
        (5, 3, 13, 3, 2, 8),
    ]
    if thorough:
        asked += [(999, n, 17, 5, 3, every) for n in (6, 7, 13) for every in (2, 4, 5, 6)]
        asked += [(10**7, 48, 10**6, 10**5, 64, 7), (3, 1, 2, 1, 1, 1)]
    names = ("parameters", "layers", "inside", "edge", "batch", "every")
    yield from cases_of(names, asked)


SIZES = {
    "weights": '"weights": 4 * parameters',
    "gradients": '"gradients": 4 * parameters',
    "activations": "4 * batch * most",
}
ADAM = '"moments": 8 * parameters'
IN_VALUES = "The result is in values. Return bytes: each value has four."
EVERY = {  # activations with checkpoints
    "The checkpoint of the segment in its backward pass is still stored.": (
        "number * edge + -> (number - 1) * edge +"
    ),
    "This is the memory without checkpointing: `every` is ignored, or the segments are added up. "
    "Each releases its values before the next: take the maximum.": "if every is None -> if True",
    "A recomputed segment also stores the `inside` values of its layers during its backward "
    "pass.": "max(peaks) -> len(lengths) * edge",
    "The recomputed segment has several layers, and the values of all of them are stored during "
    "its backward pass.": "max(peaks) -> len(lengths) * edge + inside",
    "In the recomputed segment the inputs of the layers are stored too, except the first, which is "
    "the checkpoint.": " + (length - 1) * edge -> ",
    "The input of the segment's first layer is counted twice: it is the checkpoint, which is "
    "already stored.": "(length - 1) * edge -> length * edge",
    "Only the inputs of segments are stored, not those of all layers.": (
        "max(peaks) -> layers * edge + min(every, layers) * inside"
    ),
    "The number of segments is rounded up: the last one can be shorter.": (
        "[min(every, layers - first) for first in range(0, layers, every)] -> "
        "[every] * max(1, layers // every)"
    ),
    "The last segment can have fewer than `every` layers.": "min(every, layers - first) -> every",
    "In the backward pass of an earlier segment, the checkpoints after it are already released. "
    "Which segment needs most, and with how many checkpoints? Only the last one can be shorter.": (
        "number * edge + -> len(lengths) * edge +"
    ),
    "The number of segments is an integer: the last one has a checkpoint too, even if it is "
    "shorter.": "max(peaks) -> layers / every * edge + every * inside + (every - 1) * edge",
    "This is the memory of the first segment, which has the fewest checkpoints. Which segment "
    "needs most?": "max(peaks) -> peaks[0]",
    "This is the memory of the last segment. It can be so short that the one before it needs "
    "more.": "max(peaks) -> peaks[-1]",
    "The segments have their backward passes one after another: take the maximum, not the sum.": (
        "max(peaks) -> sum(peaks)"
    ),
}
MEMORY = Question(
    memory,
    dict.fromkeys(["weights", "gradients", "moments", "activations"], ""),
    memory_cases,
    {
        **{
            f"{name}: {IN_VALUES}": f"{size} -> {size.replace('4 * ', '')}"
            for name, size in SIZES.items()
        },
        **{
            f"{name}: A value of 32 bits has four bytes.": [
                f"{size} -> {size.replace('4', number)}" for number in ("8", "32")
            ]
            for name, size in SIZES.items()
        },
        "moments: Adam stores two values for each parameter: averages of its gradient and of the "
        "squared gradient.": f"{ADAM} -> {ADAM.replace('8', '4')}",
        f"moments: {IN_VALUES}": [f"{ADAM} -> {ADAM.replace('8', each)}" for each in "21"],
        "activations: They are proportional to the batch: each sentence has its own.": (
            "4 * batch * most -> 4 * most"
        ),
        "activations: Without checkpointing, each layer stores its input too (`edge` values).": (
            "layers * (inside + edge) -> layers * inside"
        ),
        "activations: Every layer stores its input, not only the first one.": (
            "layers * (inside + edge) -> layers * inside + edge"
        ),
        **{f"activations: {said}": edit for said, edit in EVERY.items()},
    },
    keyed=True,
)


def largest_batch(parameters, layers, inside, edge, every, budget):
    one = memory(parameters, layers, inside, edge, 1, every)["activations"]
    left = budget - 16 * parameters
    return max(0, left // one)


def batch_cases(thorough: bool) -> Iterator[Case]:
    asked = [
        (10, 4, 5, 2, None, 160 + 4 * 28 * 7),
        (10, 4, 5, 2, None, 160 + 4 * 28 * 7 - 1),
        (10, 4, 5, 2, 2, 100_000),
        (1000, 12, 32, 8, None, 50_000),
        (1000, 12, 32, 8, 3, 50_000),
        (1000, 12, 32, 8, 3, 16_000),
        (1000, 12, 32, 8, 3, 9_000),
        (77, 7, 30, 4, 3, 4_000),
    ]
    if thorough:
        asked += [(999, 13, 17, 5, every, 10**6) for every in (None, 1, 4, 6, 20)]
    names = ("parameters", "layers", "inside", "edge", "every", "budget")
    yield from cases_of(names, asked)


FIXED = "budget - 16 * parameters"
LARGEST = Question(
    largest_batch,
    {"the largest batch": ""},
    batch_cases,
    {
        "Round down to an integer: a sentence must fit completely.": [
            f"left // one -> {each}"
            for each in (
                "math.ceil(left / one)",
                "round(left / one)",
                "left / one",
                "left // one + 1",
            )
        ],
        "A sum of exactly `budget` bytes is allowed.": f"{FIXED} -> {FIXED} - 1",
        "Weights, gradients and moments need memory too: 16 bytes per parameter.": (
            f"{FIXED} -> budget"
        ),
        "Weights, gradients and both moments together need 16 bytes per parameter.": [
            f"{FIXED} -> budget - {each} * parameters" for each in (4, 8, 12)
        ],
        "Weights, gradients and moments are stored once, whatever the size of the batch.": (
            "left // one -> budget // (16 * parameters + one)"
        ),
        "If not even one sentence fits, return 0.": [
            "max(0, left // one) -> left // one",
            "max(0, -> max(1,",
        ],
        "`every` is ignored.": "1, every) -> 1, None)",
    },
    named=True,
)


# Part 6


def own_times(events):
    inside, outside, around = {event: [] for event in events}, [], []
    for event in sorted(events, key=lambda event: (event[1], -event[2])):
        while around and around[-1][2] <= event[1]:
            around.pop()
        (inside[around[-1]] if around else outside).append(event[2] - event[1])
        around.append(event)
    times = {}
    for event in events:
        own = event[2] - event[1] - sum(inside[event])
        times[event[0]] = times.get(event[0], 0.0) + own
    whole = max(event[2] for event in events) - min(event[1] for event in events)
    times["idle"] = whole - sum(outside)
    return times


def drawn(number: int, seed: int) -> list[tuple[str, float, float]]:
    """Return random nested events, in random order."""
    generator = torch.Generator().manual_seed(seed)
    names = ["load", "attend", "copy", "update"]

    def draw(high: int) -> int:
        return int(torch.randint(high, (), generator=generator))

    found: list[tuple[str, float, float]] = []

    def fill(begin: int, end: int, depth: int) -> None:
        at = begin + draw(4)
        while at + 2 < end and len(found) < number:
            until = min(end - 1, at + 2 + draw(max(1, (end - begin) // 2)))
            found.append((names[draw(len(names))], float(at), float(until)))
            if depth < 4:
                fill(at, until, depth + 1)
            at = until + draw(5)

    fill(3, 300, 0)
    return [found[place] for place in torch.randperm(len(found), generator=generator).tolist()]


def traces(thorough: bool) -> list[list[tuple[str, float, float]]]:
    nested = [("step", 0.0, 10.0), ("layer", 1.0, 8.0), ("attend", 2.0, 5.0), ("copy", 3.0, 4.0)]
    made = [
        [("attend", 2.0, 9.0), ("multiply", 3.0, 5.0)],
        [
            ("attend", 0.0, 7.0),
            ("multiply", 1.0, 3.0),
            ("softmax", 3.0, 4.0),
            ("multiply", 4.0, 6.0),
        ],
        [("load", 1.0, 3.0), ("step", 8.0, 12.0), ("load", 12.0, 13.0)],
        nested,
        [("layer", 1.0, 8.0), ("copy", 0.0, 1.0), ("layer", 0.0, 9.0), ("layer", 8.0, 9.0)],
        nested[::-1],
        drawn(12, 3),
        profiles()["C"][:60],
    ]
    return made + further_traces() * thorough


def further_traces() -> list[list[tuple[str, float, float]]]:
    return [drawn(40, seed) for seed in (5, 6, 7)] + [*profiles().values()]


ORDERED = "sorted(events, key=lambda event: (event[1], -event[2]))"
DIRECTLY = "(inside[around[-1]] if around else outside).append("
OWN = "own = event[2] - event[1] - sum(inside[event])"
IN_A_NAME = "times.get(event[0], 0.0) + own"
LONGER_FIRST = "If two events begin together, the longer one contains the other: sort it first."
OWN_TIMES = Question(
    own_times,
    {
        "the self times": "All self times and the idle time sum to the time from the first begin "
        "to the last end."
    },
    lambda thorough: (Case({"events": trace}) for trace in traces(thorough)),
    {
        "Time is counted twice: the duration of an event includes the events inside it. Subtract "
        "their durations.": f"{OWN} -> own = event[2] - event[1]",
        "Too much is subtracted: only the events directly inside count. An event further inside is "
        "already part of the duration of one of these.": (
            f"{DIRECTLY} -> for outer in [inside[each] for each in around] or [outside]:\n"
            "            outer.append("
        ),
        "The events can be in any order: sort them by begin.": f"{ORDERED} -> events",
        LONGER_FIRST: "-event[2]) -> event[2])",
        f"{LONGER_FIRST} Here only the begins are compared.": "(event[1], -event[2]) -> event[1]",
        "An event that begins exactly when another ends is not inside it.": "<= -> <",
        "When an event begins, several earlier events can have ended: remove all of them.": (
            "while around -> if around"
        ),
        "Several events can run directly inside one event; only the first is subtracted.": (
            f"{OWN} -> own = event[2] - event[1] - sum(inside[event][:1])"
        ),
        "Several events can run directly inside one event; only the longest is subtracted.": (
            f"{OWN} -> own = event[2] - event[1] - max(inside[event], default=0.0)"
        ),
        "An event that contains others has a self time too: the rest of its duration.": (
            f"{OWN} -> own = 0.0 if inside[event] else event[2] - event[1]"
        ),
        "A name can occur several times; only its last event is counted. Add them.": (
            f"{IN_A_NAME} -> own"
        ),
        "A name can occur several times; only its longest event is counted. Add them.": (
            f"{IN_A_NAME} -> max(times.get(event[0], 0.0), own)"
        ),
        "This is the mean over the events of a name. Return the sum.": (
            f"{IN_A_NAME} -> {IN_A_NAME} / [each[0] for each in events].count(event[0])"
        ),
        "The total time starts at the first begin, not at time 0.": (
            " - min(event[1] for event in events) -> "
        ),
        'The time in which nothing runs is missing under the key "idle".': (
            "return times -> del times['idle']\n    return times"
        ),
        "The idle time is what no event covers. Do not subtract nested events twice.": (
            "sum(outside) -> sum(event[2] - event[1] for event in events)"
        ),
        "The time between two events in which nothing runs is idle time.": (
            "whole - sum(outside) -> 0.0"
        ),
    },
    named=True,
)


def bottleneck(events, factor):
    times = own_times(events)
    name = max(times, key=times.get)
    whole = sum(times.values())
    share = times[name] / whole
    speedup = 1 / (1 - share + share / factor)
    return name, speedup


def durations(events):
    """Return the duration of each name, with the events inside it, and the idle time."""
    found = {"idle": own_times(events)["idle"]}
    for name, begin, end in events:
        found[name] = found.get(name, 0.0) + end - begin
    return found


def means(events):
    """Return the mean self time of the events of each name, and the idle time."""
    names = [event[0] for event in events] + ["idle"]
    return {name: time / names.count(name) for name, time in own_times(events).items()}


def bottleneck_cases(thorough: bool) -> Iterator[Case]:
    many = [("copy", n / 2, n / 2 + 0.25) for n in range(8)]
    rare = [("load", 0.0, 5.0), ("add", 5.0, 8.0), ("add", 8.0, 11.0)]
    factors = (2.0, 4.0, 10.0, 1.5, 3.0, 2.0, 8.0, 2.0, 2.0, 5.0, 3.0, 2.0, 2.0, 2.0)
    asked = [trace for trace in traces(False) if is_clear(trace)]
    asked += [[*many, ("step", 5.0, 9.0)], rare]
    asked += [trace for trace in further_traces() if is_clear(trace)] * thorough
    for events, factor in zip(asked, factors, strict=False):
        yield Case({"events": events, "factor": factor})


def is_clear(events: list[tuple[str, float, float]]) -> bool:
    """Return whether one self time is larger than every other."""
    *_, second, first = sorted([0.0, *own_times(events).values()])
    return first > 1.001 * second


LONGEST = "max(times, key=times.get)"
GAIN = "1 / (1 - share + share / factor)"
BOTTLENECK = Question(
    bottleneck,
    {"name": "", "speedup": ""},
    bottleneck_cases,
    {
        "This is the name with the longest duration, which includes other events. Return the name "
        "with the largest self time.": [
            f"{LONGEST} -> max(times, key=durations(events).get)",
            f"{LONGEST} -> max((event[0] for event in events), key=durations(events).get)",
            f"{LONGEST} -> max(events, key=lambda event: event[2] - event[1])[0]",
        ],
        "The idle time can be the largest. Then return 'idle'.": (
            f"{LONGEST} -> max((event[0] for event in events), key=times.get)"
        ),
        "This is the most frequent name, not the one with the largest self time.": (
            f"{LONGEST} -> "
            "max((event[0] for event in events), key=[event[0] for event in events].count)"
        ),
        "This is the name with the largest mean. Use the sum over its events.": (
            f"{LONGEST} -> max(times, key=means(events).get)"
        ),
        "Only the self time of the bottleneck is divided by the factor; the rest takes as long as "
        "before.": [f"{GAIN} -> {each}" for each in ("factor", "factor / share", "share * factor")],
        "This is the speed-up if the bottleneck took no time at all.": f"{GAIN} -> 1 / (1 - share)",
        "This is the new total time as a share of the old one. The speed-up is its inverse.": (
            f"{GAIN} -> 1 - share + share / factor"
        ),
        "This averages the speed-ups 1 and `factor`. Add times instead: times add, speeds do "
        "not.": f"{GAIN} -> 1 - share + share * factor",
        "This is the time that is saved, or its share. Return the old total time divided by the "
        "new one.": [
            f"{GAIN} -> share - share / factor",
            f"{GAIN} -> whole * (share - share / factor)",
        ],
    },
    named=True,
)


PARTS = {
    "one_pass_over": [ONE_PASS],
    "blocks": [BLOCKS],
    "accumulation": [ACCUMULATE, FACTOR],
    "merging": [PART, MERGE],
    "budget": [MEMORY, LARGEST],
    "bottlenecks": [OWN_TIMES, BOTTLENECK],
}
"""The questions of each check, in the order of its arguments."""
