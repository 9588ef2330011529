"""Plausible wrong answers to 09_multiplicative_attention, with words of the message of each."""

import math

import torch
import torch.nn.functional as F
from right_answers_09 import (
    concat_scores,
    decode_fed,
    decoder_step,
    dot_scores,
    each_finds_the_next,
    general_scores,
    local_weights,
    multiplications,
    parameters,
    predicted_position,
    symptoms,
)

# Part 1


def dot_scaled(query, keys):
    return dot_scores(query, keys) / math.sqrt(query.size(1))


def dot_softmax(query, keys):
    return dot_scores(query, keys).softmax(-1)


def dot_not_summed(query, keys):
    return query.unsqueeze(1) * keys


def dot_without_unsqueeze(query, keys):
    return (query * keys).sum(-1)


def dot_all_sentences(query, keys):
    return query @ keys.transpose(1, 2)


def dot_cosine(query, keys):
    return F.normalize(keys, dim=-1) @ F.normalize(query, dim=-1).unsqueeze(-1)


def dot_cosine_flat(query, keys):
    return dot_cosine(query, keys).squeeze(-1)


def dot_first_query(query, keys):
    return keys @ query[0]


def dot_last_axis_kept(query, keys):
    return keys @ query.unsqueeze(-1)


def dot_from_numbers(query, keys):
    return torch.tensor(dot_scores(query, keys).tolist())


def general_turned(query, keys, W):
    return dot_scores(query @ W.T, keys)


def general_without_w(query, keys, W):
    return dot_scores(query, keys)


def general_with_tanh(query, keys, W):
    return dot_scores(query, torch.tanh(keys @ W.T))


def general_softmax(query, keys, W):
    return general_scores(query, keys, W).softmax(-1)


def general_not_summed(query, keys, W):
    return query[:, None] * (keys @ W.T)


def general_writes_into_w(query, keys, W):
    W *= 1.0
    W += 0.001
    return general_scores(query, keys, W - 0.001)


def concat_key_first(query, keys, W, v):
    both = torch.cat([keys, query[:, None].expand(-1, keys.size(1), -1)], dim=-1)
    return torch.tanh(both @ W.T) @ v


def concat_without_tanh(query, keys, W, v):
    both = torch.cat([query[:, None].expand(-1, keys.size(1), -1), keys], dim=-1)
    return both @ W.T @ v


def concat_tanh_outside(query, keys, W, v):
    return torch.tanh(concat_without_tanh(query, keys, W, v))


def concat_two_tanh(query, keys, W, v):
    left, right = W.split([query.size(1), keys.size(2)], dim=1)
    return (torch.tanh(query @ left.T)[:, None] + torch.tanh(keys @ right.T)) @ v


def concat_without_v(query, keys, W, v):
    return concat_scores(query, keys, W, torch.ones_like(v))


def concat_softmax(query, keys, W, v):
    return concat_scores(query, keys, W, v).softmax(-1)


def concat_keys_only(query, keys, W, v):
    return torch.tanh(keys @ W[:, query.size(1) :].T) @ v


def dot_averaged(query, keys):
    return (query.unsqueeze(1) * keys).mean(-1)


def concat_tanh_inside(query, keys, W, v):
    both = torch.cat([query[:, None].expand(-1, keys.size(1), -1), keys], dim=-1)
    return torch.tanh(both) @ W.T @ v


def concat_half_a_tanh(query, keys, W, v):
    left, right = W.split([query.size(1), keys.size(2)], dim=1)
    return ((query @ left.T)[:, None] + torch.tanh(keys @ right.T)) @ v


def dots(wrong):
    return wrong, general_scores, concat_scores


def generals(wrong):
    return dot_scores, wrong, concat_scores


def concats(wrong):
    return dot_scores, general_scores, wrong


SCORES = [
    (dots(dot_scaled), "dot_scores: the scores are divided by √d"),
    (dots(dot_softmax), "dot_scores: these values are attention weights"),
    (dots(dot_not_summed), "dot_scores: the products of the entries are not summed"),
    (dots(dot_without_unsqueeze), "dot_scores: key j is scored with the query of sentence j"),
    (dots(dot_all_sentences), "with the keys of all sentences"),
    (dots(dot_cosine_flat), "these values are cosines"),
    (dots(dot_averaged), "the products of the entries are averaged"),
    (dots(dot_first_query), "the query of the first sentence"),
    (dots(dot_last_axis_kept), "one score for each key of each sentence"),
    (dots(dot_from_numbers), "no gradient flows"),
    (generals(general_turned), "W must be transposed"),
    (generals(general_without_w), "W is missing: these values are the dot scores"),
    (generals(general_with_tanh), "a tanh is applied to W h̄"),
    (generals(general_softmax), "general_scores: these values are attention weights"),
    (generals(general_not_summed), "h and W h̄ are not summed"),
    (generals(general_writes_into_w), "changes its input W"),
    (concats(concat_key_first), "the key comes before the query"),
    (concats(concat_without_tanh), "concat_scores: the tanh is missing"),
    (concats(concat_tanh_outside), "Multiply by v after the tanh"),
    (concats(concat_tanh_inside), "the tanh is applied before the product with W"),
    (concats(concat_half_a_tanh), "applied to only one of the two parts"),
    (concats(concat_two_tanh), "the tanh is applied twice"),
    (concats(concat_without_v), "v is missing"),
    (concats(concat_softmax), "concat_scores: these values are attention weights"),
    (concats(concat_keys_only), "concat_scores: the query is missing"),
]

# Part 2


def step_previous_asks(embedded, state, keys, mask, cell, attention, combine):
    context, weights = attention(state, keys, mask)
    state = cell(embedded, state)
    return state, torch.tanh(combine(torch.cat([context, state], -1))), weights


def step_token_asks(embedded, state, keys, mask, cell, attention, combine):
    new = cell(embedded, state)
    context, weights = attention(embedded, keys, mask)
    return new, torch.tanh(combine(torch.cat([context, new], -1))), weights


def step_without_mask(embedded, state, keys, mask, cell, attention, combine):
    return decoder_step(embedded, state, keys, None, cell, attention, combine)


def step_with_mask_turned(embedded, state, keys, mask, cell, attention, combine):
    return decoder_step(embedded, state, keys, ~mask, cell, attention, combine)


def step_with(make, state_of=lambda new, **_: new):
    def decoder_step(embedded, state, keys, mask, cell, attention, combine):
        new = cell(embedded, state)
        context, weights = attention(new, keys, mask)
        known = {"new": new, "old": state, "context": context, "embedded": embedded}
        vector = make(combine=combine, **known)
        return state_of(vector=vector, **known), vector, weights

    return decoder_step


def joined(*parts):
    return torch.cat(parts, dim=-1)


def vector_of(combine, context, new, **_):
    return torch.tanh(combine(joined(context, new)))


def step_cell_turned(embedded, state, keys, mask, cell, attention, combine):
    return decoder_step(state, embedded, keys, mask, cell, attention, combine)


def step_in_another_order(*inputs):
    state, vector, weights = decoder_step(*inputs)
    return vector, state, weights


def step_of_two(*inputs):
    return decoder_step(*inputs)[1:]


def step_without_gradient(*inputs):
    state, vector, weights = decoder_step(*inputs)
    return state, vector.detach(), weights


def step_on_copies(embedded, state, keys, mask, cell, attention, combine):
    """Right wherever it is tried alone, but the state stays what it was at the first call."""
    new = cell(embedded, state)
    context, weights = attention(new, keys, mask)
    shrunk = new * 0.5 if keys.size(1) == 6 else new
    return shrunk, torch.tanh(combine(joined(context, new))), weights


STEPS = [
    (step_previous_asks, "the query is the state before the token, as in Bahdanau's decoder"),
    (step_token_asks, "the query is the embedded token"),
    (step_without_mask, "the mask is not passed to the attention"),
    (step_with_mask_turned, "the mask is inverted"),
    (step_with(vector_of, lambda old, **_: old), "this is the state before the token is read"),
    (
        step_with(vector_of, lambda vector, **_: vector),
        "the attentional vector is returned as the state",
    ),
    (
        step_with(vector_of, lambda context, **_: context),
        "the context vector is returned as the state",
    ),
    (step_cell_turned, "the arguments of the cell are exchanged"),
    (
        step_with(lambda combine, context, new, **_: torch.tanh(combine(joined(new, context)))),
        "state and context vector are exchanged",
    ),
    (
        step_with(lambda combine, context, new, **_: combine(joined(context, new))),
        "the tanh is missing",
    ),
    (
        step_with(lambda combine, context, new, **_: combine(joined(context, new).tanh())),
        "the tanh is applied before W_c",
    ),
    (step_with(lambda context, **_: context), "this is the context vector"),
    (step_with(lambda new, **_: new), "also depends on the context vector"),
    (
        step_with(lambda combine, context, old, **_: torch.tanh(combine(joined(context, old)))),
        "concatenated with the state before the token",
    ),
    (
        step_with(
            lambda combine, context, embedded, **_: torch.tanh(combine(joined(context, embedded)))
        ),
        "concatenated with the embedded token",
    ),
    (step_with(lambda context, new, **_: joined(context, new)), "this is [c; h] itself"),
    (step_in_another_order, "The three results are correct, but in the wrong order"),
    (step_of_two, "Expected three results"),
    (step_without_gradient, "no gradient flows"),
    (step_on_copies, "inside the package's translator"),
]

# Part 3


def fed_with(fault):
    def decode_fed(embedded, states, keys, mask, cells, attention, combine):
        given, states = list(states), list(states)
        fed = late = nothing = torch.zeros(len(embedded), combine.out_features)
        if fault == "starts":
            context, _ = attention(states[-1], keys, mask)
            fed = torch.tanh(combine(joined(context, states[-1])))
        vectors, rows = [], []
        for token in embedded.unbind(dim=1):
            old = given if fault == "forgets" else list(states)
            read = late if fault == "late" else fed
            bottom = below = joined(read, token) if fault == "order" else joined(token, read)
            for i, cell in enumerate(cells):
                states[i] = cell(below, states[i - 1] if i and fault == "rise" else old[i])
                below = old[i] if fault == "old rises" else states[i]
                if fault == "all read":
                    below = bottom
            query = {"previous": old[-1], "bottom asks": states[0]}.get(fault, states[-1])
            context, weights = attention(query, keys, None if fault == "no mask" else mask)
            top = states[0] if fault == "bottom predicts" else states[-1]
            pair = (top, context) if fault == "state first" else (context, top)
            bare = combine(joined(*pair))
            vector = bare if fault == "no tanh" else torch.tanh(bare)
            late = fed
            vectors.append(fed if fault == "shown late" else vector)
            fed = {
                "nothing": nothing,
                "context": context,
                "state": states[-1],
                "detached": vector.detach(),
                "bare": bare,
            }.get(fault, vector)
            if fault == "states detached":
                states = [state.detach() for state in states]
            rows.append(weights)
        return torch.stack(vectors, dim=1), torch.stack(rows, dim=1)

    decode_fed.__name__ = f"decode_fed_{fault.replace(' ', '_')}"
    return decode_fed


def fed_time_first(*inputs):
    return tuple(results.transpose(0, 1) for results in decode_fed(*inputs))


def fed_last_only(*inputs):
    return tuple(results[:, -1] for results in decode_fed(*inputs))


def fed_writes_states(embedded, states, keys, mask, cells, attention, combine):
    vectors = decode_fed(embedded, states, keys, mask, cells, attention, combine)
    states[0] = 0.0
    return vectors


def fed_turned(*inputs):
    return decode_fed(*inputs)[::-1]


def fed_vectors_only(*inputs):
    return decode_fed(*inputs)[0]


FED = [
    (fed_with("nothing"), "there is no input feeding"),
    (fed_with("context"), "the context vector is fed to the next step"),
    (fed_with("state"), "the top state is fed to the next step"),
    (fed_with("order"), "the fed vector comes before the token"),
    (fed_with("starts"), "the first step reads an attentional vector"),
    (fed_with("late"), "from two steps before"),
    (fed_with("forgets"), "every step starts from the initial states"),
    (fed_with("previous"), "the query is the top state before the token"),
    (fed_with("state first"), "state and context vector are exchanged"),
    (fed_with("bottom asks"), "the query is the state of the bottom cell"),
    (fed_with("bottom predicts"), "concatenated with the state of the bottom cell"),
    (fed_with("old rises"), "reads the previous state of the cell below it"),
    (fed_with("all read"), "every cell reads the token and the fed vector"),
    (fed_with("detached"), "no gradient flows back through the vectors that are fed"),
    (fed_with("states detached"), "Are the states detached between the steps"),
    (fed_with("no mask"), "the mask is not passed to the attention"),
    (fed_with("no tanh"), "the tanh is missing"),
    (fed_with("bare"), "that is fed to the next step has no tanh"),
    (fed_with("shown late"), "the vector that each step reads"),
    (fed_with("rise"), "continues from the state of the cell below it"),
    (fed_turned, "in the wrong order. Return vectors, weights"),
    (fed_time_first, "stack the steps along dim=1"),
    (fed_last_only, "The dimensions are batch, target position"),
    (fed_writes_states, "changes its input states"),
    (fed_vectors_only, "Expected a pair"),
]

# Part 4


def position_share(query, lengths, W_p, v_p):
    return torch.sigmoid(torch.tanh(query @ W_p.T) @ v_p)


def position_padded(query, lengths, W_p, v_p):
    return int(lengths.max()) * position_share(query, lengths, W_p, v_p)


def position_less_one(query, lengths, W_p, v_p):
    return predicted_position(query, lengths - 1, W_p, v_p)


def position_without_sigmoid(query, lengths, W_p, v_p):
    return lengths * (torch.tanh(query @ W_p.T) @ v_p)


def position_without_tanh(query, lengths, W_p, v_p):
    return lengths * torch.sigmoid(query @ W_p.T @ v_p)


def position_inside(query, lengths, W_p, v_p):
    return torch.sigmoid(lengths * (torch.tanh(query @ W_p.T) @ v_p))


def position_rounded(*inputs):
    return predicted_position(*inputs).round()


def position_floored(*inputs):
    return predicted_position(*inputs).floor()


def position_turned(query, lengths, W_p, v_p):
    return lengths * torch.sigmoid(torch.tanh(query @ W_p) @ v_p)


def position_tanh_around(query, lengths, W_p, v_p):
    return lengths * torch.sigmoid(torch.tanh(query @ W_p.T @ v_p))


def position_held_back(query, lengths, W_p, v_p):
    return torch.minimum(predicted_position(query, lengths, W_p, v_p), lengths - 1.0)


def position_column(*inputs):
    return predicted_position(*inputs).unsqueeze(-1)


def softmax_over(scores, allowed):
    return scores.masked_fill(~allowed, -1e30).softmax(-1) * allowed


def local_with(fault):
    def local_weights(scores, position, mask, window):
        places = torch.arange(scores.size(1)) + (fault == "from one")
        p = position.unsqueeze(1)
        middle = {"rounds": p.round(), "floors": p.floor()}.get(fault, p)
        near = (places - middle).abs() <= window
        if fault == "open":
            near = (places - p).abs() < window
        if fault == "forwards":
            near = near & (places >= p)
        if fault == "half":
            near = (places - p).abs() <= window / 2
        sigma = window if fault == "sigma" else window / 2
        two = 1 if fault == "two" else 2
        squared = sigma if fault == "unsquared" else sigma**2
        gaussian = torch.exp(-((places - p) ** 2) / (two * squared))
        if fault == "density":
            gaussian = torch.distributions.Normal(p, sigma).log_prob(places.float()).exp()
        inside = near & mask
        if fault == "first":
            return softmax_over(scores * gaussian, inside)
        if fault == "cut later":
            return softmax_over(scores, mask) * near * gaussian
        if fault == "mask last":
            return softmax_over(scores, near) * mask * gaussian
        if fault == "zeros":
            return (scores * inside).softmax(-1) * inside * gaussian
        if fault in ("-30", "-100"):
            return scores.masked_fill(~inside, float(fault)).softmax(-1) * inside * gaussian
        if fault == "minus infinity":
            return scores.masked_fill(~inside, -math.inf).softmax(-1) * gaussian
        allowed = {"no mask": near, "no window": mask}.get(fault, inside)
        weights = softmax_over(scores, allowed)
        if fault == "no Gaussian":
            return weights
        weights = weights * (gaussian.detach() if fault == "detached" else gaussian)
        return weights / weights.sum(-1, keepdim=True) if fault == "again" else weights

    local_weights.__name__ = f"local_{fault.replace(' ', '_')}"
    return local_weights


def local_rounded(scores, position, mask, window):
    return local_weights(scores, position.round(), mask, window)


def local_held_back(scores, position, mask, window):
    return local_weights(scores, position.clamp(max=mask.sum(1) - 1), mask, window)


def uniform_for_nothing(scores, position, mask, window):
    weights = local_weights(scores, position, mask, window)
    return torch.where(mask.any(1, keepdim=True), weights, torch.full_like(weights, 0.2))


def positions(wrong):
    return wrong, local_weights


def windows(wrong):
    return predicted_position, wrong


LOCAL = [
    (positions(position_share), "the length is missing"),
    (positions(position_padded), "as long as the longest one"),
    (positions(position_less_one), "the length minus 1 is used"),
    (positions(position_without_sigmoid), "the sigmoid is missing"),
    (positions(position_without_tanh), "the tanh is missing"),
    (positions(position_tanh_around), "the tanh is applied to the whole expression"),
    (positions(position_held_back), "limited to the last word"),
    (positions(position_inside), "the length is inside the sigmoid"),
    (positions(position_rounded), "the position is rounded"),
    (positions(position_floored), "the position is rounded down"),
    (positions(position_turned), "W_p must be transposed"),
    (positions(position_column), "one position for each sentence"),
    (windows(local_with("again")), "normalised again after the Gaussian"),
    (windows(local_with("first")), "the Gaussian multiplies the scores"),
    (windows(local_with("no Gaussian")), "the Gaussian is missing"),
    (windows(local_with("no window")), "the window is missing"),
    (windows(local_with("cut later")), "the softmax is computed over the whole sentence"),
    (windows(local_with("no mask")), "padding inside the window receives weight"),
    (windows(local_with("mask last")), "only removed afterwards"),
    (windows(local_with("zeros")), "0 is an ordinary score"),
    (windows(local_with("-30")), "is not low enough"),
    (windows(local_with("-100")), "is not low enough"),
    (windows(local_with("open")), "a distance of exactly D is excluded"),
    (windows(local_with("sigma")), "the Gaussian is too wide"),
    (windows(local_with("two")), "the Gaussian is too narrow"),
    (windows(local_with("unsquared")), "σ is not squared"),
    (windows(local_with("density")), "the Gaussian is divided by σ√(2π)"),
    (windows(local_held_back), "limited to the last word"),
    (windows(local_with("rounds")), "the centre of the window is rounded. "),
    (windows(local_rounded), "the position is rounded, for the window and for the Gaussian"),
    (windows(local_with("floors")), "the centre of the window is rounded down"),
    (windows(local_with("from one")), "counted from 1"),
    (windows(local_with("forwards")), "the window starts at p"),
    (windows(local_with("half")), "half as wide"),
    (windows(local_with("detached")), "no gradient reaches position"),
    (windows(local_with("minus infinity")), "has no words"),
    (windows(uniform_for_nothing), "weights must be 0"),
]

# Part 5


def parameters_with(**wrong):
    def changed(score, *sizes):
        return wrong.get(score, lambda *sizes: parameters(score, *sizes))(*sizes)

    return changed, multiplications, each_finds_the_next


def costs_with(**wrong):
    def changed(score, *sizes):
        return wrong.get(score, lambda *sizes: multiplications(score, *sizes))(*sizes)

    return parameters, changed, each_finds_the_next


def designed(change):
    def changed():
        return change(*each_finds_the_next())

    return parameters, multiplications, changed


WHAT_W_BUYS = [
    (parameters_with(dot=lambda q, k, h: q * k), "dot has no parameters"),
    (parameters_with(dot=lambda q, k, h: q), "dot has no parameters"),
    (parameters_with(dot=lambda q, k, h: q + k), "dot has no parameters"),
    (parameters_with(dot=lambda q, k, h: 1), "dot has no parameters"),
    (parameters_with(general=lambda q, k, h: h * k), "W of general multiplies h from one side"),
    (parameters_with(general=lambda q, k, h: q + k), "W of general multiplies h from one side"),
    (
        parameters_with(general=lambda q, k, h: h * (q + k)),
        "W of general multiplies h from one side",
    ),
    (parameters_with(concat=lambda q, k, h: h), "W of concat is missing"),
    (parameters_with(general=lambda q, k, h: q * k + q), "a bias is counted"),
    (parameters_with(concat=lambda q, k, h: h * (q + k)), "v of concat is missing"),
    (parameters_with(concat=lambda q, k, h: h * q * k + h), "query_dim + key_dim entries"),
    (parameters_with(concat=lambda q, k, h: h * (q + k) + 2 * h), "a bias is counted"),
    (parameters_with(general=lambda q, k, h: None), "Expected the number of parameters"),
    (costs_with(dot=lambda S, T, q, k, h: S * q), "this is the number for one target position"),
    (costs_with(dot=lambda S, T, q, k, h: S * T), "of dimension d takes d multiplications"),
    (
        costs_with(dot=lambda S, T, q, k, h: S * T * (2 * q - 1)),
        "of dimension d takes d multiplications",
    ),
    (costs_with(dot=lambda S, T, q, k, h: (S + T) * q), "the lengths are added"),
    (
        costs_with(general=lambda S, T, q, k, h: (S + T) * q * k + S * T * q),
        "W is applied to both vectors",
    ),
    (  # the cheaper order is not always that of the shorter side
        costs_with(
            general=lambda S, T, q, k, h: S * q * k + S * T * q if S <= T else T * q * k + S * T * k
        ),
        "fewer multiplications are possible",
    ),
    (
        costs_with(general=lambda S, T, q, k, h: S * T * (q * k + q)),
        "W is applied again for each pair",
    ),
    (
        costs_with(general=lambda S, T, q, k, h: S * q * k + S * T * q),
        "fewer multiplications are possible",
    ),
    (
        costs_with(general=lambda S, T, q, k, h: T * q * k + S * T * k),
        "fewer multiplications are possible",
    ),
    (costs_with(general=lambda S, T, q, k, h: T * q * k), "these are only the products with W"),
    (
        costs_with(general=lambda S, T, q, k, h: min(S, T) * q * k + S * T * q),
        "after hᵀ W the vectors have dimension key_dim",
    ),
    (
        costs_with(concat=lambda S, T, q, k, h: S * T * h * (q + k) + S * T * h),
        "compute each part once per position",
    ),
    (
        costs_with(concat=lambda S, T, q, k, h: h * (T * q + S * k)),
        "the product with v is missing",
    ),
    (
        costs_with(concat=lambda S, T, q, k, h: h * (S * k + S * T * q + S * T)),
        "compute each part once per position",
    ),
    (
        costs_with(concat=lambda S, T, q, k, h: h * (T * q + S * k + S)),
        "the product with v is missing",
    ),
    (costs_with(concat=lambda S, T, q, k, h: S * T * h), "these are only the products with v"),
    (
        costs_with(concat=lambda S, T, q, k, h: h * (S * q + T * k + S * T)),
        "the dimensions are exchanged",
    ),
    (
        costs_with(general=lambda S, T, q, k, h: S * T * q * k + 1),
        "needs a different number when it runs",
    ),
    (designed(lambda X, W: (X, 9 * torch.eye(2).flip(0))), "W is symmetric"),
    (designed(lambda X, W: (X, 10 * torch.eye(2))), "each vector finds itself"),
    (designed(lambda X, W: (X, W.T)), "each vector finds the previous one"),
    (designed(lambda X, W: (X, 0.1 * W)), "the scores are too close together"),
    (designed(lambda X, W: (torch.ones(3, 2), W)), "finds vector 0, not vector"),
    (designed(lambda X, W: W), "expected `return X, W`"),
    (designed(lambda X, W: (W, X)), "three vectors of dimension 2"),
    (designed(lambda X, W: ("X", W)), "Expected X as a torch.Tensor"),
]

# Part 6


def setting():
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    return torch.randn(2, 3, 5), torch.randn(2, 4, 7), mask


def changed_by(*changes):
    """Return the right examination, but for what some of the symptoms are decided by."""

    def symptoms_changed(decode):
        found = set(symptoms(decode))
        for name, shows in changes:
            found.discard(name)
            if shows(decode):
                found.add(name)
        return found

    return symptoms_changed


def weights_at_padding(decode):
    embedded, keys, mask = setting()
    weights = decode(embedded, keys, mask)[1]
    return bool((weights[1, :, 2:] > 0).any())


VECTORS, WEIGHTS = 0, 1  # what a decoder returns: an examination that looks at one of them alone


def beside_other_padding(which):
    def changes(decode):
        embedded, keys, mask = setting()
        other = keys.masked_fill(~mask.unsqueeze(-1), 9.0)
        some, others = decode(embedded, keys, mask)[which], decode(embedded, other, mask)[which]
        return not torch.allclose(some, others, atol=1e-5)

    return changes


def alone(which):
    def changes(decode):
        embedded, keys, mask = setting()
        beside = decode(embedded, keys, mask)[which][:1]
        by_itself = decode(embedded[:1], keys[:1], mask[:1])[which]
        return not torch.allclose(by_itself, beside, atol=1e-5)

    return changes


def before_another_end(which):
    def changes(decode):
        embedded, keys, mask = setting()
        whole = decode(embedded, keys, mask)[which][:, :2]
        return not torch.allclose(decode(embedded[:, :2], keys, mask)[which], whole, atol=1e-5)

    return changes


def infinite_padding(decode):
    embedded, keys, mask = setting()
    other = keys.masked_fill(~mask.unsqueeze(-1), math.inf)
    return not torch.allclose(decode(embedded, keys, mask)[0], decode(embedded, other, mask)[0])


def turned_round_and_not_back(decode):
    inputs = setting()
    together, turned = decode(*inputs), decode(*(each.flip(0) for each in inputs))
    return not torch.allclose(together[0], turned[0], atol=1e-5)


def anything_changes(decode):
    embedded, keys, mask = setting()
    other = embedded.clone()
    other[:, -1] = 0.0
    return not torch.allclose(decode(other, keys, mask)[0], decode(embedded, keys, mask)[0])


def next_weights_stay(decode):
    embedded, keys, mask = setting()
    other = embedded.clone()
    other[:, 0] = 3.0
    some, others = decode(embedded, keys, mask)[1], decode(other, keys, mask)[1]
    return torch.allclose(some[:, 1], others[:, 1], atol=1e-5)


def one_word_to_look_at(decode):
    embedded, keys = torch.randn(2, 3, 5), torch.randn(2, 1, 7)
    mask = torch.ones(2, 1, dtype=torch.bool)
    weights = decode(embedded, keys, mask)[1]
    return torch.allclose(decode(2 * embedded, keys, mask)[1], weights)


def sum_over_the_target(decode):
    weights = decode(*setting())[1]
    return not torch.allclose(weights.sum(dim=1), torch.ones(2, 4))


def sum_to_the_last_digit(decode):
    embedded, keys = torch.randn(9, 7, 5), torch.randn(9, 13, 7)
    weights = decode(embedded, keys, torch.ones(9, 13, dtype=torch.bool))[1]
    return bool((weights.sum(-1) != 1).any())


def sum_without_padding(decode):
    embedded, keys, mask = setting()
    weights = decode(embedded, keys, torch.ones_like(mask))[1]
    return not torch.allclose(weights.sum(dim=-1), torch.ones(2, 3))


def sum_of_the_first_step(decode):
    return not torch.allclose(decode(*setting())[1][:, 0].sum(dim=-1), torch.ones(2))


def sum_below_one(decode):
    return bool((decode(*setting())[1].sum(dim=-1) < 0.999).any())


def sum_of_an_empty_sentence(decode):
    embedded, keys, mask = setting()
    mask[1] = False
    return not torch.allclose(decode(embedded, keys, mask)[1].sum(dim=-1), torch.ones(2, 3))


def all_tokens_changed(decode):
    embedded, keys, mask = setting()
    some, others = decode(embedded, keys, mask)[1], decode(-embedded, keys, mask)[1]
    return torch.allclose(some[:, -1], others[:, -1], atol=1e-5)


def hardly_changed(decode):
    embedded, keys, mask = setting()
    some, others = decode(embedded, keys, mask)[1], decode(embedded + 1e-6, keys, mask)[1]
    return torch.allclose(some, others, atol=1e-4)


def beside_itself(decode):
    embedded, keys, mask = (each[:1] for each in setting())
    alone = decode(embedded, keys, mask)[0]
    twice = decode(*(torch.cat([each, each]) for each in (embedded, keys, mask)))[0]
    return not torch.allclose(alone, twice[:1], atol=1e-5)


def no_symptoms(decode):
    return set()


def all_symptoms(decode):
    return {"future", "late", "neighbours", "padding", "sum"}


def one_symptom(decode):
    return set(sorted(symptoms(decode))[:1])


def a_word(decode):
    return "late"


def other_names(decode):
    return {name.upper() for name in symptoms(decode)}


def nothing(decode):
    symptoms(decode)


def wrong_axes(decode):
    embedded, keys, mask = setting()
    decode(embedded.transpose(0, 1), keys, mask)
    return set()


EXAMINATIONS = [
    (changed_by(("padding", weights_at_padding)), "“padding” is missing"),
    (changed_by(("padding", beside_other_padding(WEIGHTS))), "“padding” is missing"),
    (changed_by(("padding", beside_other_padding(VECTORS))), "weights that ignore the mask"),
    (changed_by(("future", before_another_end(VECTORS))), "the weights of the next step"),
    (
        changed_by(("neighbours", alone(VECTORS))),
        "a query to which the mean over the batch is added",
    ),
    (changed_by(("padding", infinite_padding)), "0 times infinity is NaN"),
    (changed_by(("neighbours", alone(WEIGHTS))), "“neighbours” is missing"),
    (
        changed_by(("neighbours", turned_round_and_not_back)),
        "“neighbours” is in your result, but",
    ),
    (changed_by(("future", before_another_end(WEIGHTS))), "“future” is missing"),
    (changed_by(("future", anything_changes)), "“future” is in your result, but"),
    (changed_by(("late", next_weights_stay)), "“late” is missing"),
    (changed_by(("late", one_word_to_look_at)), "Does the source have at least two words"),
    (changed_by(("sum", sum_over_the_target)), "Sum over the last dimension"),
    (changed_by(("sum", sum_to_the_last_digit)), "up to rounding"),
    (changed_by(("sum", sum_without_padding)), "also in sentences with padding"),
    (changed_by(("sum", sum_of_the_first_step)), "The weights of every step must sum to 1"),
    (changed_by(("sum", sum_below_one)), "no less and no more"),
    (changed_by(("sum", sum_of_an_empty_sentence)), "In a sentence without any words"),
    (changed_by(("late", all_tokens_changed)), "the earlier tokens stay the same"),
    (changed_by(("late", hardly_changed)), "is the token changed clearly"),
    (changed_by(("neighbours", beside_itself)), "“neighbours” is missing"),
    (no_symptoms, "“late” is missing"),
    (all_symptoms, "“future” is in your result, but"),
    (one_symptom, "“sum” is missing"),
    (a_word, "Expected a set of symptoms"),
    (other_names, "'LATE' is not the name of a symptom"),
    (nothing, "is there a `return`?"),
    (wrong_axes, "decode expects (batch, tgt_len, 5)"),
]

# Each part's wrong answers, by the name of its check
WRONG = {
    "scores": SCORES,
    "attentional": STEPS,
    "input_feeding": FED,
    "local": LOCAL,
    "what_w_buys": WHAT_W_BUYS,
    "examine": EXAMINATIONS,
}

# Whole notebooks handed in
BAHDANAUS_QUERY = """
def decoder_step(embedded, state, keys, mask, cell, attention, combine):
    context, weights = attention(state, keys, mask)
    state = cell(embedded, state)
    return state, torch.tanh(combine(torch.cat([context, state], dim=-1))), weights
"""
NORMALISED_AGAIN = """
def predicted_position(query, lengths, W_p, v_p):
    return lengths * torch.sigmoid(torch.tanh(query @ W_p.T) @ v_p)


def local_weights(scores, position, mask, window):
    distance = torch.arange(scores.size(1)) - position.unsqueeze(1)
    inside = mask & (distance.abs() <= window)
    gaussian = torch.exp(-2 * (distance / window) ** 2)
    weights = scores.masked_fill(~inside, -1e30).softmax(dim=-1) * inside * gaussian
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)
"""

# Student: the cells that differ from the solution's, the checks lost by it, words of the feedback
HANDED_IN = {
    "bahdanaus_query": (
        {"attentional": BAHDANAUS_QUERY},
        ["attentional-check"],
        "the query is the state before the token",
    ),
    "normalised_again": (
        {"local": NORMALISED_AGAIN},
        ["local-check"],
        "normalised again after the Gaussian",
    ),
}
