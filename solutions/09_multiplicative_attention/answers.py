"""Answers to the parts of multiplicative attention, besides those in questions.py.

RIGHT      {function: [other right answers]}
WRONG      {function: {words of the message: edit of the right answer, or an answer, or a list}}
HANDED_IN  {student: ({cell: source}, [lost check cells], words of the feedback)}
"""

import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from attentively.checks.edits import edited_source
from attentively.checks.recordings import load_questions

questions = load_questions(Path(__file__).with_name("questions.py"))
decoder_step, parameters = questions.decoder_step, questions.parameters
each_finds_the_next = questions.each_finds_the_next

# Part 1


def dot_by_product(query, keys):
    return (keys @ query.unsqueeze(-1)).squeeze(-1)


def dot_by_loops(query, keys):
    return torch.stack(
        [torch.stack([(q * k).sum() for k in row]) for q, row in zip(query, keys, strict=True)]
    )


def general_by_keys(query, keys, W):
    return ((keys @ W.T) * query[:, None]).sum(-1)


def general_by_bilinear(query, keys, W):
    queries = query[:, None].expand(-1, keys.size(1), -1).contiguous()
    return F.bilinear(queries, keys, W[None]).squeeze(-1)


def concat_by_halves(query, keys, W, v):
    left, right = W.split([query.size(1), keys.size(2)], dim=1)
    return torch.einsum("h,bsh->bs", v, torch.tanh((query @ left.T)[:, None] + keys @ right.T))


def concat_by_loops(query, keys, W, v):
    rows = []
    for q, row in zip(query, keys, strict=True):
        rows.append(torch.stack([v.dot(torch.tanh(W.mv(torch.cat([q, k])))) for k in row]))
    return torch.stack(rows)


# Part 2


def decoder_step_by_halves(embedded, state, keys, mask, cell, attention, combine):
    """W_c in two halves, and the context computed from the weights."""
    new = cell(embedded, state)
    _, weights = attention(new, keys, mask)
    context = (weights[:, None] @ keys)[:, 0]
    left, right = combine.weight.split([context.size(1), new.size(1)], dim=1)
    inside = context @ left.T + new @ right.T
    if combine.bias is not None:
        inside = inside + combine.bias
    return [new, inside.tanh(), weights]


def decoder_step_by_sentences(embedded, state, keys, mask, cell, attention, combine):
    results = []
    for b in range(len(keys)):
        one = slice(b, b + 1)
        new = cell(embedded[one], state[one])
        context, weights = attention(new, keys[one], mask[one])
        results.append((new, torch.tanh(combine(torch.hstack([context, new]))), weights))
    return tuple(torch.cat(rows) for rows in zip(*results, strict=True))


def right_except_for_six_keys(embedded, state, keys, mask, cell, attention, combine):
    """Right in every case of the recording, but not inside the package's translator."""
    new, vector, weights = decoder_step(embedded, state, keys, mask, cell, attention, combine)
    return new * 0.5 if keys.size(1) == 6 else new, vector, weights


# Part 3


def decode_fed_by_steps(embedded, states, keys, mask, cells, attention, combine):
    """The student's own step of part 2, with the stack as its cell."""
    now = states

    def stack(read, _):
        nonlocal now
        rising = []
        for cell, state in zip(cells, now, strict=True):
            read = cell(read, state)
            rising.append(read)
        now = torch.stack(rising)
        return read

    fed, steps = embedded.new_zeros(embedded.size(0), combine.weight.size(0)), []
    for t in range(embedded.size(1)):
        read = torch.cat([embedded[:, t], fed], dim=1)
        _, fed, weights = decoder_step(read, None, keys, mask, stack, attention, combine)
        steps.append((fed, weights))
    return [torch.stack(results, dim=1) for results in zip(*steps, strict=True)]


def decode_fed_recursively(embedded, states, keys, mask, cells, attention, combine):
    """The past is decoded again for each token: slow, and right."""

    def after(t):
        if t == 0:
            return list(states), torch.zeros(len(keys), combine.out_features), None
        old, fed, _ = after(t - 1)
        rising = [cells[0](torch.cat([embedded[:, t - 1], fed], -1), old[0])]
        for i in range(1, len(cells)):
            rising.append(cells[i](rising[-1], old[i]))
        _, vector, weights = decoder_step(
            None, None, keys, mask, lambda *_: rising[-1], attention, combine
        )
        return rising, vector, weights

    steps = [after(t)[1:] for t in range(1, embedded.size(1) + 1)]
    return tuple(torch.stack(results, dim=1) for results in zip(*steps, strict=True))


# Part 4


def predicted_by_loops(query, lengths, W_p, v_p):
    found = []
    for h, length in zip(query, lengths, strict=True):
        share = 1 / (1 + torch.exp(-v_p.dot(torch.tanh(W_p.mv(h)))))
        found.append(int(length) * share)
    return torch.stack(found)


def local_by_loops(scores, position, mask, window):
    rows = []
    for row, p, allowed in zip(scores, position, mask, strict=True):
        places = [s for s in range(len(row)) if allowed[s] and p - window <= s <= p + window]
        weights = torch.zeros(len(row))
        if places:
            shares = row[places].softmax(0)
            near = torch.stack([torch.exp(-2 * ((s - p) / window) ** 2) for s in places])
            weights = weights.index_put((torch.tensor(places),), shares * near)
        rows.append(weights)
    return torch.stack(rows)


def local_by_exponentials(scores, position, mask, window):
    places = torch.arange(scores.size(1)).float()[None]
    outside = ~mask | ((places - position[:, None]).abs() > window)
    largest = scores.masked_fill(outside, -math.inf).amax(1, keepdim=True).detach()
    e = torch.exp((scores - largest.nan_to_num(neginf=0.0)).masked_fill(outside, -math.inf))
    gauss = torch.exp(-0.5 * ((places - position[:, None]) / (window / 2)).square())
    return e / e.sum(1, keepdim=True).clamp_min(1e-30) * gauss


def local_by_slices(scores, position, mask, window):
    weights = torch.zeros_like(scores)
    for row, p in enumerate(position):
        first = max(0, math.ceil(float(p.detach()) - window))
        last = min(int(mask[row].sum()) - 1, math.floor(float(p.detach()) + window))
        if first <= last:
            near = torch.arange(first, last + 1) - p
            weights[row, first : last + 1] = scores[row, first : last + 1].softmax(0) * torch.exp(
                -(near**2) / (2 * (window / 2) ** 2)
            )
    return weights


# Part 5


def parameters_by_shapes(score, query_dim, key_dim, hidden_dim):
    return {
        "dot": 0,
        "general": torch.empty(query_dim, key_dim).numel(),
        "concat": np.int64(hidden_dim) * (query_dim + key_dim + 1),
    }[score]


def multiplications_by_loops(score, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    def general(once, other, once_dim, other_dim):
        return sum(once_dim * other_dim + other * once_dim for _ in range(once))

    if score == "general":
        orders = (
            general(src_len, tgt_len, query_dim, key_dim),
            general(tgt_len, src_len, key_dim, query_dim),
        )
        return min(orders)
    total = 0
    if score == "concat":
        total = src_len * key_dim * hidden_dim + tgt_len * query_dim * hidden_dim
    for _ in range(src_len):
        for _ in range(tgt_len):
            total += query_dim if score == "dot" else hidden_dim
    return total


def by_angles():
    angles = torch.arange(3) * 2 * math.pi / 3
    X = torch.stack([angles.cos(), angles.sin()], dim=1)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]]) * math.sin(2 * math.pi / 3)
    return X, 5 * (turn - 0.5 * torch.eye(2))


def by_unequal_vectors():
    """No circle: W is fitted to the wanted scores."""
    X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -2.0]])
    wanted = 20 * torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, -1.0]])
    inverse = torch.linalg.pinv(X)
    return [X, inverse @ wanted @ inverse.T]


def by_small_vectors():
    X, W = each_finds_the_next()
    return (0.1 * X.flip(0)).double(), (100 * W.T).tolist()


def by_arrays():
    X, W = each_finds_the_next()
    return X.numpy(), W.double().numpy()


def by_rows():
    X, W = each_finds_the_next()
    return [*X], tuple(W)


# Part 6


def same(some, others):
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(some, others, strict=True))


def symptoms_by_less(decode):
    """What a symptom is about is left out, not changed."""
    embedded, keys = torch.randn(2, 3, 5), torch.randn(2, 4, 7)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    vectors, weights = decode(embedded, keys, mask)

    def alone(i):
        return decode(embedded[i, None], keys[i, None], mask[i, None])

    begun = decode(embedded[:, :2], keys, mask)
    nothing = decode(embedded * torch.tensor([0.0, 1.0, 1.0])[:, None], keys, mask)[1]
    found = {
        "padding": same(decode(embedded, keys * mask[:, :, None], mask), (vectors, weights)),
        "neighbours": all(same(alone(i), (vectors[i, None], weights[i, None])) for i in (0, 1)),
        "future": same(begun, (vectors[:, :2], weights[:, :2])),
        "late": not torch.allclose(nothing[:, 0], weights[:, 0], atol=1e-5),
        "sum": bool(((weights.sum(-1) - 1).abs() < 1e-4).all()),
    }
    return {name for name, well in found.items() if not well}


def symptoms_by_gradients(decode):
    """Whether something affects a result is what its gradient says."""
    generator = torch.Generator().manual_seed(3)
    embedded = torch.randn(3, 4, 5, generator=generator, requires_grad=True)
    keys = torch.randn(3, 5, 7, generator=generator, requires_grad=True)
    mask = torch.arange(5) < torch.tensor([[5], [2], [3]])
    results = vectors, weights = decode(embedded, keys, mask)

    def reached(output, source):
        probe = torch.linspace(-1, 1, output.numel()).reshape(output.shape)
        (gradient,) = torch.autograd.grad(
            (output * probe).sum(), source, retain_graph=True, allow_unused=True
        )
        return torch.zeros_like(source) if gradient is None else gradient.abs()

    touched = reached(vectors, keys) + reached(weights, keys)
    at_padding = weights[~mask[:, None].expand_as(weights)]
    others = [
        reached(x[i], s)[torch.arange(3) != i].max()
        for x in results
        for s in (embedded, keys)
        for i in range(3)
    ]
    later = [reached(x[:, 1], embedded)[:, 2:].max() for x in results]
    found = {
        "padding": touched[~mask].max() > 1e-6 or bool((at_padding != 0).any()),
        "neighbours": max(others) > 1e-6,
        "future": max(later) > 1e-6,
        "late": reached(weights[:, 2], embedded)[:, 2].max() < 1e-6,
        "sum": (weights.sum(-1) - 1).abs().max() > 1e-3,
    }
    return [name for name, shown in found.items() if shown]


def symptoms_one_by_one(decode):
    """Each symptom in an experiment of its own."""
    torch.manual_seed(5)
    embedded, keys = torch.randn(2, 4, 5), torch.randn(2, 5, 7)
    mask = torch.arange(5) < torch.tensor([[3], [5]])
    base = decode(embedded, keys, mask)

    def differs(results, others, rows=slice(None), steps=slice(None)):
        return not same([x[rows, steps] for x in results], [x[rows, steps] for x in others])

    other_embedded, other_keys = torch.randn(2, 4, 5), torch.randn(2, 5, 7)

    def with_another(row):
        kept = (torch.arange(2) == row)[:, None, None]
        return embedded.where(kept, other_embedded), keys.where(kept, other_keys), mask

    end = torch.cat([embedded[:, :2], other_embedded[:, 2:]], dim=1)
    padding = keys.where(mask[:, :, None], other_keys)
    token = torch.cat([embedded[:, :1], other_embedded[:, 1:2], embedded[:, 2:]], dim=1)
    experiments = {
        "neighbours": any(differs(decode(*with_another(i)), base, rows=i) for i in (0, 1)),
        "future": differs(decode(end, keys, mask), base, steps=slice(0, 2)),
        "padding": differs(base, decode(embedded, padding, mask)),
        "late": same([decode(token, keys, mask)[1][:, 1]], [base[1][:, 1]]),
        "sum": any(abs(float(total) - 1) > 1e-3 for total in base[1].sum(-1).flatten()),
    }
    return frozenset(name for name, shows in experiments.items() if shows)


RIGHT = {
    "dot_scores": [dot_by_product, dot_by_loops],
    "general_scores": [general_by_keys, general_by_bilinear],
    "concat_scores": [concat_by_halves, concat_by_loops],
    "decoder_step": [decoder_step_by_halves, decoder_step_by_sentences],
    "decode_fed": [decode_fed_by_steps, decode_fed_recursively],
    "predicted_position": [predicted_by_loops],
    "local_weights": [local_by_loops, local_by_exponentials, local_by_slices],
    "parameters": [parameters_by_shapes],
    "multiplications": [multiplications_by_loops],
    "each_finds_the_next": [
        by_angles,
        by_unequal_vectors,
        by_small_vectors,
        by_arrays,
        by_rows,
    ],
    "symptoms": [symptoms_by_less, symptoms_by_gradients, symptoms_one_by_one],
}


# Wrong answers whose message is not a diagnosis of questions.py, or that make its mistake otherwise

STEP = "return new, vector, weights -> return"
FED = "return torch.stack(vectors, dim=1), torch.stack(rows, dim=1) -> return"
LOWEST = "torch.finfo(scores.dtype).min"
FUTURE = "differ([x[:, :-1] for x in usual], [x[:, :-1] for x in after]) ->"
LATE = "differ([usual[1][:, -1]], [after[1][:, -1]]) ->"
PADDING = "differ(usual, padded) ->"
NEIGHBOURS = "differ(usual, alone) ->"
SUM = "differ([usual[1].sum(dim=-1)], [torch.ones(2, 3)]) ->"
NAMES = "{name for name, shown in found.items() if shown}"
ONE_WORD = "keys[:, :1], mask[:, :1])[1:]"

WRONG = {
    "dot_scores": {
        "one score for each key of each sentence": "return scores -> return scores.unsqueeze(-1)",
    },
    "decoder_step": {
        "Expected 3 results, `return state, vector, weights`; got a tuple of 2": (
            f"{STEP} vector, weights"
        ),
        "This concerns the returned vector": f"{STEP} new, vector.detach(), weights",
        "This concerns the returned weights": f"{STEP} new, vector, weights.detach()",
        "the weights inside the package's translator": right_except_for_six_keys,
    },
    "decode_fed": {
        "stack the steps along dim=1": [
            f"{FED} torch.stack(vectors), torch.stack(rows)",
            f"{FED} vectors[-1], rows[-1]",
        ],
        "Your code changes its input states": "list(states) -> states",
        "Expected a pair": f"{FED} torch.stack(vectors, dim=1)",
        "only through the vectors that are passed on to it. Are they detached?": (
            "fed = vector\n -> fed = vector.detach()\n"
        ),
        "only through the states that are passed on to it. Are they detached?": (
            "fed = vector\n -> fed, now = vector, [state.detach() for state in now]\n"
        ),
    },
    "local_weights": {
        "the scores inside are even lower": f"{LOWEST} -> -100.0",
        "(its mask is all False), so its weights must be 0": [
            f"{LOWEST} -> -float('inf')",
            "return weights -> return weights + 0.2 * ~mask.any(dim=1, keepdim=True)",
        ],
        "no gradient reaches position": "align * gaussian -> align * gaussian.detach()",
    },
    "parameters": {
        "parameters returned None: is there a `return`?": (
            '"general": query_dim * key_dim -> "general": None'
        ),
    },
    "multiplications": {
        "The package needs a different number when it runs": (
            "min(keys_first, queries_first) -> pairs * query_dim * key_dim + 1"
        ),
    },
    "each_finds_the_next": {
        "so the weights are NaN": "return X, W -> return 1e20 * X, W",
    },
    "symptoms": {
        "“padding” is missing": [
            f"{PADDING} bool((usual[1][1, :, 2:] > 0).any())",
            f"{PADDING} differ(usual[1:], padded[1:])",
        ],
        "weights that ignore the mask": f"{PADDING} differ(usual[:1], padded[:1])",
        "0 times infinity is NaN": "(-1), 3.0) -> (-1), torch.inf)",
        "“future” is missing": f"{FUTURE} differ([usual[1][:, :-1]], [after[1][:, :-1]])",
        "the weights of the next step": f"{FUTURE} differ([usual[0][:, :-1]], [after[0][:, :-1]])",
        "“future” is in your result, but": [
            f"{FUTURE} differ(usual, after)",
            f"{NAMES} -> set(found)",
        ],
        "“neighbours” is missing": [
            f"{NEIGHBOURS} differ(usual[1:], alone[1:])",
            f"{NEIGHBOURS} differ([x[:1] for x in decode(*(torch.cat([x[:1], x[:1]]) "
            "for x in (embedded, keys, mask)))], [x[:1] for x in alone])",
        ],
        "adds the mean of the words of all sentences": (
            f"{NEIGHBOURS} differ([x[:1] for x in usual], [x[:1] for x in "
            "decode(torch.cat([embedded[:1], -embedded[1:]]), keys, mask)])"
        ),
        "a query to which the mean over the batch is added": (
            f"{NEIGHBOURS} differ(usual[:1], alone[:1])"
        ),
        "adds the first state of a sentence to all states": (
            f"{NEIGHBOURS} differ([x[:1] for x in usual], [x[:1] for x in alone])"
        ),
        "but only in sentences with padding": (
            f"{FUTURE} differ([x[:1, :-1] for x in usual], [x[:1, :-1] for x in after])"
        ),
        "but only in sentences without padding": [
            f"{FUTURE} differ([x[1:, :-1] for x in usual], [x[1:, :-1] for x in after])",
            f"{SUM} differ([usual[1][1:].sum(dim=-1)], [torch.ones(1, 3)])",
        ],
        "“neighbours” is in your result, but": (
            f"{NEIGHBOURS} differ(usual, decode(embedded.flip(0), keys.flip(0), mask.flip(0)))"
        ),
        "“late” is missing": [
            f"{LATE} differ([usual[1][:, 1]], [decode(torch.cat([-embedded[:, :1], "
            "embedded[:, 1:]], dim=1), keys, mask)[1][:, 1]])",
            f"{NAMES} -> set()",
        ],
        "Does the source have at least two words": (
            f"{LATE} differ(decode(embedded, {ONE_WORD}, decode(-embedded, {ONE_WORD})"
        ),
        "from the next token alone": f"{LATE} differ(usual[1:], after[1:])",
        "the earlier tokens stay the same": (
            f"{LATE} differ([usual[1][:, -1]], [decode(-embedded, keys, mask)[1][:, -1]])"
        ),
        "is the token changed clearly": (
            f"{LATE} differ(usual[1:], decode(embedded + 1e-7, keys, mask)[1:])"
        ),
        "Sum over the last dimension": f"{SUM} differ([usual[1].sum(dim=1)], [torch.ones(2, 4)])",
        "up to rounding": (
            f"{SUM} bool((decode(torch.randn(9, 7, 5), torch.randn(9, 13, 7), "
            "torch.ones(9, 13, dtype=torch.bool))[1].sum(dim=-1) != 1).any())"
        ),
        "also in sentences with padding": (
            f"{SUM} differ([decode(embedded, keys, mask | True)[1].sum(dim=2)], [torch.ones(2, 3)])"
        ),
        "doubles the weights of the first step": (
            f"{SUM} differ([usual[1][:, -1].sum(dim=-1)], [torch.ones(2)])"
        ),
        "attends to the first key after the words too": (
            "(-1), 3.0) -> (-1), 3.0)\n    other_padding[:, :-1] = keys[:, :-1]"
        ),
        "except at the first step": (
            f"{FUTURE} differ([x[:, :1] for x in usual], [x[:, :1] for x in "
            "decode(torch.cat([embedded[:, :1], -embedded[:, 1:]], dim=1), keys, mask)])"
        ),
        "The weights of every step must sum to 1": (
            f"{SUM} differ([usual[1][:, 0].sum(dim=-1)], [torch.ones(2)])"
        ),
        "one softmax over all source positions": (
            f"{SUM} differ([usual[1].sum(dim=(1, 2))], [torch.tensor([3.0, 3.0])])"
        ),
        "reduces every weight by 2 %": (
            f"{SUM} bool(((usual[1].sum(dim=-1) - 1).abs() > 0.03).any())"
        ),
        "adds 1 % of the mean over the batch": (
            f"{NEIGHBOURS} any(((x - y).abs() > 0.03).any() for x, y in zip(usual, alone))"
        ),
        "no less and no more": f"{SUM} bool((usual[1].sum(dim=-1) < 0.999).any())",
        "In a sentence without any words": (
            f"{SUM} differ([decode(embedded, keys, mask & mask[:, 3:])[1].sum(dim=-1)], "
            "[torch.ones(2, 3)])"
        ),
        "“sum” is missing": f"{NAMES} -> set(sorted({NAMES})[:1])",
        "Expected a set of symptoms": f"{NAMES} -> 'late'",
        "'LATE' is not the name of a symptom": "{name for -> {name.upper() for",
        "is there a `return`?": "return {name -> {name",
        "decode expects (batch, tgt_len, 5)": (
            "decode(embedded, other -> decode(embedded.transpose(0, 1), other"
        ),
    },
}


HANDED_IN = {
    "bahdanaus_query": (
        {"attentional": edited_source(decoder_step, "attention(new -> attention(state")},
        ["attentional-check"],
        "the query is the state before the token",
    ),
}
