"""Right answers to 09_multiplicative_attention, each part written in several ways."""

import math

import numpy as np
import torch
import torch.nn.functional as F

# Part 1


def dot_scores(query, keys):
    return torch.einsum("bd,bsd->bs", query, keys)


def dot_by_product(query, keys):
    return (keys @ query.unsqueeze(-1)).squeeze(-1)


def dot_by_loops(query, keys):
    return torch.stack(
        [torch.stack([(q * k).sum() for k in row]) for q, row in zip(query, keys, strict=True)]
    )


def general_scores(query, keys, W):
    return dot_scores(query @ W, keys)


def general_by_keys(query, keys, W):
    return ((keys @ W.T) * query[:, None]).sum(-1)


def general_by_bilinear(query, keys, W):
    queries = query[:, None].expand(-1, keys.size(1), -1).contiguous()
    return F.bilinear(queries, keys, W[None]).squeeze(-1)


def concat_scores(query, keys, W, v):
    both = torch.cat([query.unsqueeze(1).expand(-1, keys.size(1), -1), keys], dim=-1)
    return torch.tanh(both @ W.T) @ v


def concat_by_halves(query, keys, W, v):
    left, right = W.split([query.size(1), keys.size(2)], dim=1)
    return torch.einsum("h,bsh->bs", v, torch.tanh((query @ left.T)[:, None] + keys @ right.T))


def concat_by_loops(query, keys, W, v):
    rows = []
    for q, row in zip(query, keys, strict=True):
        rows.append(torch.stack([v.dot(torch.tanh(W.mv(torch.cat([q, k])))) for k in row]))
    return torch.stack(rows)


SCORES = [
    (dot_scores, general_scores, concat_scores),
    (dot_by_product, general_by_keys, concat_by_halves),
    (dot_by_loops, general_by_bilinear, concat_by_loops),
]

# Part 2


def decoder_step(embedded, state, keys, mask, cell, attention, combine):
    state = cell(embedded, state)
    context, weights = attention(state, keys, mask)
    return state, torch.tanh(combine(torch.cat([context, state], dim=-1))), weights


def decoder_step_by_halves(embedded, state, keys, mask, cell, attention, combine):
    """W_c in two halves, and the context worked out from the weights."""
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


STEPS = [decoder_step, decoder_step_by_halves, decoder_step_by_sentences]

# Part 3


def decode_fed(embedded, states, keys, mask, cells, attention, combine):
    states = list(states)
    fed = torch.zeros(len(embedded), combine.out_features)
    vectors, rows = [], []
    for token in embedded.unbind(dim=1):
        below = torch.cat([token, fed], dim=-1)
        for i, cell in enumerate(cells):
            states[i] = below = cell(below, states[i])
        context, weights = attention(below, keys, mask)
        fed = torch.tanh(combine(torch.cat([context, below], dim=-1)))
        vectors.append(fed)
        rows.append(weights)
    return torch.stack(vectors, dim=1), torch.stack(rows, dim=1)


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
    """The past is decoded anew for each token: slow, and right."""

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


FED = [decode_fed, decode_fed_by_steps, decode_fed_recursively]

# Part 4


def predicted_position(query, lengths, W_p, v_p):
    return lengths * torch.sigmoid(torch.tanh(query @ W_p.T) @ v_p)


def predicted_by_loops(query, lengths, W_p, v_p):
    found = []
    for h, length in zip(query, lengths, strict=True):
        share = 1 / (1 + torch.exp(-v_p.dot(torch.tanh(W_p.mv(h)))))
        found.append(int(length) * share)
    return torch.stack(found)


def local_weights(scores, position, mask, window):
    distance = torch.arange(scores.size(1)) - position.unsqueeze(1)
    inside = mask & (distance.abs() <= window)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~inside, lowest).softmax(dim=-1).masked_fill(~inside, 0.0)
    return weights * torch.exp(-(distance**2) / (2 * (window / 2) ** 2))


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


LOCAL = [
    (predicted_position, local_weights),
    (predicted_by_loops, local_by_loops),
    (predicted_position, local_by_exponentials),
    (predicted_by_loops, local_by_slices),
]

# Part 5


def parameters(score, query_dim, key_dim, hidden_dim):
    if score == "dot":
        return 0
    if score == "general":
        return query_dim * key_dim
    return hidden_dim * (query_dim + key_dim) + hidden_dim


def parameters_by_dict(score, query_dim, key_dim, hidden_dim):
    return {
        "dot": 0,
        "general": torch.empty(query_dim, key_dim).numel(),
        "concat": np.int64(hidden_dim) * (query_dim + key_dim + 1),
    }[score]


def multiplications(score, src_len, tgt_len, query_dim, key_dim, hidden_dim):
    pairs = src_len * tgt_len
    if score == "dot":
        return pairs * query_dim
    if score == "general":
        keys_first = src_len * query_dim * key_dim + pairs * query_dim
        queries_first = tgt_len * query_dim * key_dim + pairs * key_dim
        return min(keys_first, queries_first)
    return hidden_dim * (src_len * key_dim + tgt_len * query_dim + pairs)


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


def each_finds_the_next():
    angles = torch.arange(3) * 2 * math.pi / 3
    X = torch.stack([angles.cos(), angles.sin()], dim=1)
    turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]]) * math.sin(2 * math.pi / 3)
    return X, 5 * (turn - 0.5 * torch.eye(2))


def by_unequal_vectors():
    """No circle: W is solved for, so that the scores are the wanted ones as nearly as can be."""
    X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -2.0]])
    wanted = 20 * torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, -1.0]])
    inverse = torch.linalg.pinv(X)
    return [X, inverse @ wanted @ inverse.T]


def by_small_vectors():
    X, W = each_finds_the_next()
    return (0.1 * X.flip(0)).double(), (100 * W.T).tolist()


WHAT_W_BUYS = [
    (parameters, multiplications, each_finds_the_next),
    (parameters_by_dict, multiplications_by_loops, by_unequal_vectors),
    (parameters, multiplications_by_loops, by_small_vectors),
]

# Part 6


def same(some, others):
    return all(torch.allclose(a, b, atol=1e-5) for a, b in zip(some, others, strict=True))


def symptoms(decode):
    embedded, keys = torch.randn(2, 3, 5), torch.randn(2, 4, 7)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    vectors, weights = decode(embedded, keys, mask)
    found = set()

    other = keys.clone()
    other[~mask] = torch.randn(2, 7)
    if not same(decode(embedded, other, mask), (vectors, weights)):
        found.add("padding")
    if weights.masked_select(~mask.unsqueeze(1)).abs().max() > 1e-6:
        found.add("padding")

    alone = decode(embedded[:1], keys[:1], mask[:1])
    if not same(alone, (vectors[:1], weights[:1])):
        found.add("neighbours")

    begun = decode(embedded[:, :2], keys, mask)
    if not same(begun, (vectors[:, :2], weights[:, :2])):
        found.add("future")

    last = embedded.clone()
    last[:, -1] = torch.randn(2, 5)
    if torch.allclose(decode(last, keys, mask)[1][:, -1], weights[:, -1], atol=1e-5):
        found.add("late")

    if not torch.allclose(weights.sum(dim=-1), torch.ones(2, 3), atol=1e-4):
        found.add("sum")
    return found


def symptoms_by_less(decode):
    """What a symptom is about is left out, not changed."""
    embedded, keys = torch.randn(2, 3, 5), torch.randn(2, 4, 7)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    vectors, weights = decode(embedded, keys, mask)

    def padded(weights):
        return F.pad(weights, (0, 1))

    short = [results[:1] for results in (vectors, weights)]
    cut = decode(embedded[:1], keys[:1, :3], mask[:1, :3])
    alone = decode(embedded[:1], keys[:1], mask[:1])
    begun = decode(embedded[:, :1], keys, mask)
    nothing = decode(embedded * torch.tensor([0.0, 1.0, 1.0])[:, None], keys, mask)[1]
    found = {
        "padding": same((cut[0], padded(cut[1])), alone),
        "neighbours": same(alone, short),
        "future": same(begun, (vectors[:, :1], weights[:, :1])),
        "late": not torch.allclose(nothing[:, 0], weights[:, 0], atol=1e-5),
        "sum": bool(((weights.sum(-1) - 1).abs() < 1e-4).all()),
    }
    return {name for name, well in found.items() if not well}


def symptoms_by_gradients(decode):
    """What reaches what is asked of autograd."""
    generator = torch.Generator().manual_seed(3)
    embedded = torch.randn(3, 4, 5, generator=generator, requires_grad=True)
    keys = torch.randn(3, 5, 7, generator=generator, requires_grad=True)
    mask = torch.arange(5) < torch.tensor([[5], [2], [3]])
    vectors, weights = decode(embedded, keys, mask)

    def reached(output, source):
        probe = torch.linspace(-1, 1, output.numel()).reshape(output.shape)
        (gradient,) = torch.autograd.grad(
            (output * probe).sum(), source, retain_graph=True, allow_unused=True
        )
        return torch.zeros_like(source) if gradient is None else gradient.abs()

    found = []
    touched = reached(vectors, keys) + reached(weights, keys)
    if touched[~mask].max() > 1e-6 or (weights[~mask[:, None].expand_as(weights)] != 0).any():
        found.append("padding")
    if (
        max(reached(x[:1], s)[1:].max() for x in (vectors, weights) for s in (embedded, keys))
        > 1e-6
    ):
        found.append("neighbours")
    if max(reached(x[:, 1], embedded)[:, 2:].max() for x in (vectors, weights)) > 1e-6:
        found.append("future")
    if reached(weights[:, 2], embedded)[:, 2].max() < 1e-6:
        found.append("late")
    if (weights.sum(-1) - 1).abs().max() > 1e-3:
        found.append("sum")
    return found


def symptoms_one_by_one(decode):
    """Each symptom in an experiment of its own, the two sentences of one length but for one."""
    torch.manual_seed(5)
    embedded, keys = torch.randn(2, 4, 5), torch.randn(2, 5, 7)
    whole = torch.ones(2, 5, dtype=torch.bool)
    short = whole.clone()
    short[:, 3:] = False
    base = decode(embedded, keys, whole)

    def differs(results, others, rows=slice(None), steps=slice(None)):
        return not same([x[rows, steps] for x in results], [x[rows, steps] for x in others])

    def other_neighbour():
        e, k = embedded.clone(), keys.clone()
        e[1], k[1] = torch.randn(4, 5), torch.randn(5, 7)
        return differs(decode(e, k, whole), base, rows=slice(0, 1))

    def other_end():
        e = embedded.clone()
        e[:, 2:] = torch.randn(2, 2, 5)
        return differs(decode(e, keys, whole), base, steps=slice(0, 2))

    def other_padding():
        k = keys.clone()
        k[:, 3:] += 3.0
        return differs(decode(embedded, keys, short), decode(embedded, k, short))

    def same_weights_after_another_token():
        e = embedded.clone()
        e[:, 1] = torch.randn(2, 5)
        return torch.allclose(decode(e, keys, whole)[1][:, 1], base[1][:, 1], atol=1e-5)

    def unshared():
        return any(
            abs(float(total) - 1) > 1e-3
            for total in decode(embedded, keys, short)[1].sum(-1).flatten()
        )

    experiments = {
        "neighbours": other_neighbour,
        "future": other_end,
        "padding": other_padding,
        "late": same_weights_after_another_token,
        "sum": unshared,
    }
    return frozenset(name for name, shows in experiments.items() if shows())


EXAMINATIONS = [symptoms, symptoms_by_less, symptoms_by_gradients, symptoms_one_by_one]

# Each part's right answers, by the name of its check
RIGHT = {
    "scores": SCORES,
    "attentional": STEPS,
    "input_feeding": FED,
    "local": LOCAL,
    "what_w_buys": WHAT_W_BUYS,
    "examine": EXAMINATIONS,
}
