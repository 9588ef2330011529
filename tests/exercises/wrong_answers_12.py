"""Plausible wrong answers to 12_self_attention, with words of the message of each."""

import math

import torch
from right_answers_12 import (
    aim,
    blind,
    enough,
    faults,
    leaked,
    look,
    mask_for,
    reached,
    scaled_dot_product_attention,
    scores_of,
)
from torch.nn import functional as F
from torch.nn.functional import normalize

from attentively.scaled_dot_product import scaled_dot_product_attention as the_packages

# Part 1


def scores_unscaled(x, word, w_q, w_k):
    return (x @ w_k) @ (x[word] @ w_q)


def scores_by_d_k(x, word, w_q, w_k):
    return (x @ w_k) @ (x[word] @ w_q) / w_q.size(1)


def scores_by_eight(x, word, w_q, w_k):
    return (x @ w_k) @ (x[word] @ w_q) / 8


def scores_by_two(x, word, w_q, w_k):
    return (x @ w_k) @ (x[word] @ w_q) / 2


def scores_by_d_model(x, word, w_q, w_k):
    return (x @ w_k) @ (x[word] @ w_q) / math.sqrt(x.size(1))


def scores_by_words(x, word, w_q, w_k):
    return (x @ w_k) @ (x[word] @ w_q) / math.sqrt(len(x))


def scores_turned(x, word, w_q, w_k):
    return (x @ w_q) @ (x[word] @ w_k) / math.sqrt(w_q.size(1))


def scores_of_one_matrix(x, word, w_q, w_k):
    return (x @ w_q) @ (x[word] @ w_q) / math.sqrt(w_q.size(1))


def scores_of_the_words(x, word, w_q, w_k):
    return x @ x[word] / math.sqrt(w_q.size(1))


def scores_of_all(x, word, w_q, w_k):
    return (x @ w_q) @ (x @ w_k).T / math.sqrt(w_q.size(1))


def scores_as_weights(x, word, w_q, w_k):
    return scores_of(x, word, w_q, w_k).softmax(dim=-1)


def scores_transposed(x, word, w_q, w_k):
    if w_q.size(0) != w_q.size(1):
        return scores_of(x, word, w_q, w_k)
    return scores_of(x, word, w_q.T, w_k.T)


def scores_without_a_way_back(x, word, w_q, w_k):
    return torch.tensor(scores_of(x, word, w_q, w_k).tolist())


def look_without_softmax(scores, x, w_v):
    return scores, scores @ (x @ w_v)


def look_by_sum(scores, x, w_v):
    weights = scores / scores.sum()
    return weights, weights @ (x @ w_v)


def look_too_loud(scores, x, w_v):
    weights = scores.exp() / scores.exp().sum()
    return weights, weights @ (x @ w_v)


def look_unshared(scores, x, w_v):
    return scores.exp(), scores.exp() @ (x @ w_v)


def look_by_sigmoid(scores, x, w_v):
    return scores.sigmoid(), scores.sigmoid() @ (x @ w_v)


def look_scaled_again(scores, x, w_v):
    return look(scores / math.sqrt(x.size(1)), x, w_v)


def look_hard(scores, x, w_v):
    weights = (scores == scores.max()).float()
    return weights, weights @ (x @ w_v)


def look_turned(scores, x, w_v):
    return look(scores, x, w_v)[::-1]


def look_at_words(scores, x, w_v):
    return scores.softmax(dim=-1), scores.softmax(dim=-1) @ x


def look_by_scores(scores, x, w_v):
    return scores.softmax(dim=-1), scores @ (x @ w_v)


def look_without_sum(scores, x, w_v):
    weights = scores.softmax(dim=-1)
    return weights, weights[:, None] * (x @ w_v)


def look_evenly(scores, x, w_v):
    return scores.softmax(dim=-1), (x @ w_v).mean(dim=0)


def look_averaged(scores, x, w_v):
    weights = scores.softmax(dim=-1)
    return weights, (weights[:, None] * (x @ w_v)).mean(dim=0)


def look_at_the_best(scores, x, w_v):
    return scores.softmax(dim=-1), x[scores.argmax()] @ w_v


def look_summed(scores, x, w_v):
    return scores.softmax(dim=-1), (x @ w_v).sum(dim=0)


def look_for_the_output_alone(scores, x, w_v):
    return look(scores, x, w_v)[1]


def scores_partly_detached(x, word, w_q, w_k):
    return (x.detach() @ w_k) @ (x[word] @ w_q) / w_q.size(1) ** 0.5


def look_at_detached(scores, x, w_v):
    weights = scores.softmax(dim=-1)
    return weights, weights @ (x.detach() @ w_v)


ONE_WORD = [
    ((scores_partly_detached, look), "the gradient of x is not: a part of it is missing"),
    ((scores_of, look_at_detached), "no gradient reaches x"),
    ((scores_unscaled, look), "not divided by √d_k"),
    ((scores_by_d_k, look), "divided by d_k; divide by its square root"),
    ((scores_by_eight, look), "divided by the same value"),
    ((scores_by_two, look), "divided by the same value"),
    ((scores_by_d_model, look), "divided by √d_model"),
    ((scores_by_words, look), "the square root of the number of words"),
    ((scores_turned, look), "Query and keys are exchanged"),
    ((scores_of_one_matrix, look), "computed with the same matrix"),
    ((scores_of_the_words, look), "The vectors in x are compared directly"),
    ((scores_of_all, look), "The scores of all queries are returned"),
    ((scores_as_weights, look), "These are attention weights"),
    ((scores_transposed, look), "The matrices are transposed"),
    ((scores_without_a_way_back, look), "no gradient flows through them"),
    ((scores_of, look_without_softmax), "The softmax is missing"),
    ((scores_of, look_by_sum), "divided by their sum. The weights are the softmax"),
    ((scores_of, look_too_loud), "exp overflows for large scores"),
    ((scores_of, look_unshared), "The exponentials are not divided"),
    ((scores_of, look_by_sigmoid), "A sigmoid is applied to each score separately"),
    ((scores_of, look_scaled_again), "The scores are scaled a second time"),
    ((scores_of, look_hard), "All weight is on the word with the largest score"),
    ((scores_of, look_turned), "Weights and output are exchanged"),
    ((scores_of, look_at_words), "The vectors in x are summed"),
    ((scores_of, look_by_scores), "The values are multiplied by the scores"),
    ((scores_of, look_without_sum), "The weighted values are not summed"),
    ((scores_of, look_evenly), "averaged or summed without the weights"),
    ((scores_of, look_summed), "averaged or summed without the weights"),
    ((scores_of, look_averaged), "The sum is divided by the number of words"),
    ((scores_of, look_at_the_best), "the word with the largest weight alone"),
    ((scores_of, look_for_the_output_alone), "Expected a pair, `return weights, output`"),
]

# Part 2


def lower(ids, last=0):
    size = ids.size(1)
    return torch.ones(size, size, dtype=torch.bool).tril(last).expand(len(ids), -1, -1)


def real(ids, pad_id):
    return (ids != pad_id).unsqueeze(1).expand(-1, ids.size(1), -1)


def mask_inverted(ids, pad_id, causal):
    return ~mask_for(ids, pad_id, causal)


def mask_of_padding(ids, pad_id, causal):
    return real(ids, pad_id)


def mask_of_the_future(ids, pad_id, causal):
    return lower(ids) if causal else torch.ones_like(lower(ids))


def mask_always_causal(ids, pad_id, causal):
    return mask_for(ids, pad_id, True)


def mask_causal_the_wrong_way(ids, pad_id, causal):
    return mask_for(ids, pad_id, not causal)


def mask_of_the_past(ids, pad_id, causal):
    return real(ids, pad_id) & lower(ids).mT if causal else real(ids, pad_id)


def mask_without_itself(ids, pad_id, causal):
    return real(ids, pad_id) & lower(ids, -1) if causal else real(ids, pad_id)


def mask_with_the_next(ids, pad_id, causal):
    return real(ids, pad_id) & lower(ids, 1) if causal else real(ids, pad_id)


def mask_by_or(ids, pad_id, causal):
    return real(ids, pad_id) | lower(ids) if causal else real(ids, pad_id)


def mask_by_rows(ids, pad_id, causal):
    rows = real(ids, pad_id).mT
    return rows & lower(ids) if causal else rows


def mask_by_rows_too(ids, pad_id, causal):
    return mask_for(ids, pad_id, causal) & real(ids, pad_id).mT


def mask_of_zeros(ids, pad_id, causal):
    return mask_for(ids, 0, causal)


def mask_from_the_front(ids, pad_id, causal):
    """By the number of words, as if padding stood behind them."""
    lengths = (ids != pad_id).sum(dim=1, keepdim=True)
    words = (torch.arange(ids.size(1)) < lengths).unsqueeze(1).expand(-1, ids.size(1), -1)
    return words & lower(ids) if causal else words


def mask_to_be_stretched(ids, pad_id, causal):
    padding = (ids != pad_id).unsqueeze(1)
    return padding & lower(ids) if causal else padding


def mask_of_numbers(ids, pad_id, causal):
    return mask_for(ids, pad_id, causal).float()


def blind_turned(mask):
    return mask.any(dim=-1)


def blind_keys(mask):
    return ~mask.any(dim=1)


def blind_in_part(mask):
    return ~mask.all(dim=-1)


def blind_to_itself(mask):
    return ~mask.diagonal(dim1=1, dim2=2)


def blind_as_counts(mask):
    return mask.sum(dim=-1)


MASKS = [
    ((mask_inverted, blind), "The mask is inverted"),
    ((mask_of_padding, blind), "Only padding is masked"),
    ((mask_of_the_future, blind), "Only later positions are masked"),
    ((mask_always_causal, blind), "masked although causal is False"),
    ((mask_causal_the_wrong_way, blind), "masked although causal is False"),
    ((mask_of_the_past, blind), "Earlier positions are masked instead of later ones"),
    ((mask_without_itself, blind), "A position cannot attend to itself"),
    ((mask_with_the_next, blind), "Each position can attend to the next one"),
    ((mask_by_or, blind), "A query may attend to a key only if both masks allow it"),
    ((mask_by_rows, blind), "Padding is masked as a query"),
    ((mask_by_rows_too, blind), "The rows of padding are masked too"),
    ((mask_of_zeros, blind), "The padding id is not always 0"),
    ((mask_from_the_front, blind), "Padding can be at the start of a sentence"),
    ((mask_to_be_stretched, blind), "The mask has a single row for all queries"),
    ((mask_of_numbers, blind), "got torch.float32. A comparison returns"),
    ((mask_for, blind_turned), "True for fully masked queries"),
    ((mask_for, blind_keys), "These are the keys that no query may attend to"),
    ((mask_for, blind_in_part), "These queries may not attend to every key"),
    ((mask_for, blind_to_itself), "These queries may not attend to themselves"),
    ((mask_for, blind_as_counts), "got torch.int64. A comparison returns"),
]

# Part 3


def attention_with(scale=lambda q, k, v: q.size(-1) ** 0.5, weigh=None, dim=-1):
    """The plain way, with one thing changed."""

    def attend(query, key, value, mask=None):
        scores = query @ key.transpose(-2, -1) / scale(query, key, value)
        plain = mask is None or weigh is None
        weights = scores.softmax(dim=dim) if plain else weigh(scores, mask)
        return weights @ value, weights

    return attend


def filled(number):
    return attention_with(weigh=lambda s, m: s.masked_fill(~m, number).softmax(dim=-1))


def filled_before_the_division(number, cut=True):
    def attend(query, key, value, mask=None):
        products = query @ key.transpose(-2, -1)
        if mask is None:
            weights = (products / query.size(-1) ** 0.5).softmax(dim=-1)
        else:
            products = products.masked_fill(~mask, number)
            weights = (products / query.size(-1) ** 0.5).softmax(dim=-1) * (mask | (not cut))
        return weights @ value, weights

    return attend


def renormalised(scores, mask):
    weights = scores.softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True)


def attention_of_scores(query, key, value, mask=None):
    context, _ = scaled_dot_product_attention(query, key, value, mask)
    return context, query @ key.mT / query.size(-1) ** 0.5


def attention_too_loud(query, key, value, mask=None):
    powers = (query @ key.transpose(-2, -1) / query.size(-1) ** 0.5).exp()
    powers = powers if mask is None else powers * mask
    weights = powers / powers.sum(dim=-1, keepdim=True)
    return weights @ value, weights


def attention_turned(*asked):
    return scaled_dot_product_attention(*asked)[::-1]


def attention_to_keys(query, key, value, mask=None):
    _, weights = scaled_dot_product_attention(query, key, value, mask)
    if key.size(-1) != value.size(-1):
        return weights @ value, weights
    return weights @ key, weights


def attention_transposed(query, key, value, mask=None):
    context, weights = scaled_dot_product_attention(query, key, value, mask)
    return (weights.mT @ value if query.size(-2) == key.size(-2) else context), weights


def attention_evenly(query, key, value, mask=None):
    context, weights = scaled_dot_product_attention(query, key, value, mask)
    return value.mean(dim=-2, keepdim=True).expand_as(context), weights


def attention_averaged(query, key, value, mask=None):
    context, weights = scaled_dot_product_attention(query, key, value, mask)
    return context / key.size(-2), weights


def attention_of_a_batch(query, key, value, mask=None):
    scores = query @ key.transpose(1, 2) / query.size(-1) ** 0.5
    return scores.softmax(dim=-1) @ value, scores.softmax(dim=-1)


def attention_that_writes(query, key, value, mask=None):
    query /= query.size(-1) ** 0.5
    return scaled_dot_product_attention(query * query.size(-1) ** 0.5, key, value, mask)


def attention_by_addition(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        low = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        weights = (scores + low).softmax(dim=-1).nan_to_num(0.0)
    return weights @ value, weights


def attention_without_a_way_back(*asked):
    context, weights = scaled_dot_product_attention(*asked)
    return context.detach(), weights


def attention_that_drops(query, key, value, mask=None):
    context, weights = scaled_dot_product_attention(query, key, value, mask)
    return torch.nn.functional.dropout(context, 0.5), weights


def attention_for_long_sentences_only(query, key, value, mask=None):
    """What only the trained model asks for: four axes and more than ten keys."""
    context, weights = scaled_dot_product_attention(query, key, value, mask)
    return (context.flip(-1) if query.dim() == 4 and key.size(-2) > 10 else context), weights


def attention_fused(query, key, value, mask=None):
    """The weights are what attention makes of values with a single one each."""
    size = key.shape[-2]
    ones = torch.eye(size).expand(*key.shape[:-1], size)
    sees = None if mask is None else mask.any(-1, keepdim=True)
    allowed = None if mask is None else mask | ~sees
    both = F.scaled_dot_product_attention(query, key, torch.cat([value, ones], -1), allowed)
    both = both if sees is None else both * sees
    return both[..., :-size], both[..., -size:]


ATTENTION = [
    (attention_with(scale=lambda q, k, v: 1.0), "not divided by √d_k"),
    (attention_with(scale=lambda q, k, v: q.size(-1)), "divided by d_k; divide by its square root"),
    (
        attention_with(scale=lambda q, k, v: v.size(-1) ** 0.5),
        "divided by the square root of another size",
    ),
    (
        attention_with(scale=lambda q, k, v: k.size(-2) ** 0.5),
        "divided by the square root of another size",
    ),
    (attention_with(scale=lambda q, k, v: 8.0), "divided by the square root of another size"),
    (attention_with(scale=lambda q, k, v: q.size(-1) ** -0.5), "multiplied by √d_k"),
    (attention_of_scores, "The scores are returned instead of the weights"),
    (attention_with(dim=-2), "The weights sum to 1 over the queries"),
    (attention_with(weigh=lambda s, m: s.softmax(dim=-1)), "The mask is not used"),
    (
        attention_with(weigh=lambda s, m: s.masked_fill(m, -1e9).softmax(dim=-1)),
        "The mask is inverted",
    ),
    (
        attention_with(weigh=lambda s, m: s.softmax(dim=-1) * m),
        "The mask is applied after the softmax, so",
    ),
    (attention_with(weigh=lambda s, m: (s * m).softmax(dim=-1)), "Masked scores are set to 0"),
    (attention_with(weigh=lambda s, m: (s + m).softmax(dim=-1)), "The mask is added to the scores"),
    (filled(-100.0), "The value for masked scores is not low enough"),
    *(
        (filled_before_the_division(number, cut), "before the division is divided by √d_k too")
        for number in (-1e3, -1e4)
        for cut in (True, False)
    ),
    (
        attention_with(weigh=lambda s, m: s.masked_fill(~m, -20.0).softmax(dim=-1) * m),
        "The value for masked scores is not low enough",
    ),
    (
        attention_with(weigh=lambda s, m: normalize(s.softmax(dim=-1) * m, p=1, dim=-1)),
        "the remaining weights are divided by their sum",
    ),
    (filled(-math.inf), "A fully masked query receives NaN"),
    (attention_with(weigh=renormalised), "A fully masked query receives NaN"),
    (filled(-1e9), "A fully masked query receives weights on masked keys"),
    (attention_too_loud, "exp overflows for large scores"),
    (attention_turned, "Context and weights are exchanged"),
    (attention_to_keys, "The weights are multiplied by the keys"),
    (attention_transposed, "The weights are transposed"),
    (attention_evenly, "averaged without the weights"),
    (attention_averaged, "The sum is divided by the number of keys"),
    (attention_of_a_batch, "Your code raises IndexError"),
    (attention_that_writes, "Your code changes its input query"),
    (attention_by_addition, "the gradient of query contains NaN or infinity. A softmax over a row"),
    (attention_without_a_way_back, "no gradient flows through them"),
    (attention_that_drops, "two different answers"),
    (attention_for_long_sentences_only, "the trained model's"),
    (the_packages, "not accepted. Your code uses"),
    (attention_fused, "not accepted. Your code uses"),
]

# Part 4


def leaked_with(root=lambda d_k: math.sqrt(d_k), sign=1.0, inverted=False, result=lambda w: w):
    """The plain way, with one thing changed."""

    def leaked(scores, mask, d_k, fill, before):
        low = sign * fill * (mask if inverted else ~mask)
        scores = (scores - low) / root(d_k) if before else scores / root(d_k) - low
        hidden = mask if inverted else ~mask
        return result((scores.softmax(dim=-1) * hidden).sum(dim=-1))

    return leaked


def leaked_turned(scores, mask, d_k, fill, before):
    return leaked(scores, mask, d_k, fill, not before)


def leaked_always_after(scores, mask, d_k, fill, before):
    return leaked(scores, mask, d_k, fill, False)


def leaked_replaced(scores, mask, d_k, fill, before):
    if before:
        scores = scores.masked_fill(~mask, -fill) / math.sqrt(d_k)
    else:
        scores = (scores / math.sqrt(d_k)).masked_fill(~mask, -fill)
    return (scores.softmax(dim=-1) * ~mask).sum(dim=-1)


def leaked_averaged(scores, mask, d_k, fill, before):
    return leaked(scores, mask, d_k, fill, before) / (~mask).sum(dim=-1)


def leaked_too_loud(scores, mask, d_k, fill, before):
    low = fill / math.sqrt(d_k) if before else fill
    powers = (scores / math.sqrt(d_k) - low * ~mask).exp()
    return (powers * ~mask).sum(dim=-1) / powers.sum(dim=-1)


def enough_with(gaps=2.0, odds=lambda share: (1 - share) / share, keys=lambda s, h: h / s, low=0.0):
    """The plain way, with one thing changed."""

    def enough(bound, d_k, seen, hidden, share, before):
        number = gaps * bound / math.sqrt(d_k) + math.log(keys(seen, hidden) * odds(share))
        return max(low, number * math.sqrt(d_k) if before else number)

    return enough


def enough_unscaled(bound, d_k, seen, hidden, share, before):
    number = 2 * bound + math.log(hidden * (1 - share) / (seen * share))
    return max(0.0, number * math.sqrt(d_k) if before else number)


def enough_partly_scaled(bound, d_k, seen, hidden, share, before):
    number = math.log(hidden * (1 - share) / (seen * share))
    return max(0.0, number + 2 * bound / (1 if before else math.sqrt(d_k)))


def enough_turned(bound, d_k, seen, hidden, share, before):
    return enough(bound, d_k, seen, hidden, share, not before)


def enough_after(bound, d_k, seen, hidden, share, before):
    return enough(bound, d_k, seen, hidden, share, False)


def enough_for_each(bound, d_k, seen, hidden, share, before):
    """With which each hidden key gets the share."""
    number = 2 * bound / math.sqrt(d_k) + math.log((1 - hidden * share) / (seen * share))
    return max(0.0, number * math.sqrt(d_k) if before else number)


def enough_divided(bound, d_k, seen, hidden, share, before):
    return enough(bound, d_k, seen, hidden, share, False) / (math.sqrt(d_k) if before else 1)


def enough_for_the_decimal_system(bound, d_k, seen, hidden, share, before):
    number = 2 * bound / math.sqrt(d_k) + math.log10(hidden * (1 - share) / (seen * share))
    return max(0.0, number * math.sqrt(d_k) if before else number)


FINITE = [
    ((leaked_turned, enough), "leaked: `before` is ignored or inverted"),
    ((leaked_always_after, enough), "leaked: `before` is ignored or inverted"),
    ((leaked_replaced, enough), "The masked scores are replaced by -fill"),
    ((leaked_with(root=lambda d_k: 1.0), enough), "leaked: The scores are not divided"),
    ((leaked_with(root=lambda d_k: d_k), enough), "leaked: The scores are divided by d_k"),
    ((leaked_with(inverted=True), enough), "leaked: The mask is inverted"),
    ((leaked_with(result=lambda w: 1 - w), enough), "the weight of the allowed keys"),
    ((leaked_with(sign=-1.0), enough), "fill is added"),
    ((leaked_with(result=lambda w: w.sum(-1)), enough), "the sum over all queries"),
    ((leaked_averaged, enough), "the mean over the masked keys"),
    ((leaked_too_loud, enough), "leaked: exp overflows for large scores"),
    ((leaked, enough_with(gaps=1.0)), "A score can lie on either side of 0"),
    ((leaked, enough_with(gaps=0.0)), "The scores are not considered"),
    ((leaked, enough_with(keys=lambda s, h: 1)), "The numbers of keys are not used"),
    ((leaked, enough_with(keys=lambda s, h: h)), "the number of allowed keys is not"),
    ((leaked, enough_with(keys=lambda s, h: 1 / s)), "the number of masked keys is not"),
    ((leaked, enough_with(keys=lambda s, h: s / h)), "seen and hidden are exchanged"),
    ((leaked, enough_with(odds=lambda share: 1 / share)), "The share is relative to all weight"),
    ((leaked, enough_with(odds=lambda share: share / (1 - share))), "The odds are inverted"),
    ((leaked, enough_with(low=-math.inf)), "The result is negative"),
    ((leaked, enough_unscaled), "The bound is that of the scores before the scaling"),
    ((leaked, enough_partly_scaled), "The whole value must be √d_k times as large"),
    ((leaked, enough_for_each), "This gives each masked key the share"),
    ((leaked, enough_divided), "√d_k times as large, not smaller"),
    ((leaked, enough_turned), "enough: `before` is ignored or inverted"),
    ((leaked, enough_after), "enough: `before` is ignored or inverted"),
    ((leaked, enough_for_the_decimal_system), "This is not the expected value of the smallest"),
]

# Part 5


def outputs_apart(model, ids, real, tokens_for):
    """Return the changes of all outputs for each place, (tokens, output, component)."""
    before = model(ids.unsqueeze(0), real.unsqueeze(0))
    for place in range(len(ids)):
        tokens = tokens_for(ids[place].item())
        changed = ids.repeat(len(tokens), 1)
        changed[:, place] = torch.tensor(tokens)
        yield place, model(changed, real.repeat(len(tokens), 1)) - before


def detector(measure=torch.abs, tokens_for=None, threshold=1e-4):
    """The plain way, with one thing changed."""

    def reached(model, ids, real, vocab_size):
        found = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        tokens = tokens_for or (lambda token: [*range(vocab_size)])
        for place, apart in outputs_apart(model, ids, real, tokens):
            found[:, place] = (measure(apart) > threshold).any(dim=-1).any(dim=0)
        return found

    return reached


def reached_piling_up(model, ids, real, vocab_size):
    found = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    before = model(ids.unsqueeze(0), real.unsqueeze(0))[0]
    changed = ids.clone()
    for place in range(len(ids)):
        for token in range(vocab_size):
            changed[place] = token
            apart = (model(changed.unsqueeze(0), real.unsqueeze(0))[0] - before).abs()
            found[:, place] |= (apart > 1e-4).any(dim=-1)
    return found


def reached_turned(*asked):
    return reached(*asked).T


def reached_inverted(*asked):
    return ~reached(*asked)


def reached_as_expected(*asked):
    return reached(*asked).tril()


def reached_without_padding(model, ids, real, vocab_size):
    return reached(model, ids, real, vocab_size) & real


def reached_all_real(model, ids, real, vocab_size):
    return reached(model, ids, torch.ones_like(real), vocab_size)


def reached_that_writes(model, ids, real, vocab_size):
    found = reached(model, ids, real, vocab_size)
    ids[0] = 0
    return found


def reached_as_numbers(*asked):
    return reached(*asked).int()


def faults_with(itself=0, padding_asks=False, padding_leaks=True):
    """The plain way, with one thing changed."""

    def faults(reached, real):
        may = torch.ones_like(reached).tril(itself) & real
        asked = torch.ones_like(reached) if padding_asks else real.unsqueeze(1)
        leaks = reached & ~may & asked
        leaks = leaks if padding_leaks else leaks & real
        missing = ~reached & may & asked
        return {"leaks": leaks.nonzero().tolist(), "missing": missing.nonzero().tolist()}

    return faults


def faults_turned(reached, real):
    found = faults(reached, real)
    return {name: [pair[::-1] for pair in pairs] for name, pairs in found.items()}


def faults_exchanged(reached, real):
    found = faults(reached, real)
    return {"leaks": found["missing"], "missing": found["leaks"]}


def faults_that_miss_padding(reached, real):
    missing = ~reached & torch.ones_like(reached).tril() & real.unsqueeze(1)
    return faults(reached, real) | {"missing": missing.nonzero().tolist()}


def faults_of_the_future(reached, real):
    """As if nothing that stands before a word could be hidden from it."""
    return faults(reached, real) | {"leaks": faults(reached.triu(1), real)["leaks"]}


def faults_as_a_pair(reached, real):
    return tuple(faults(reached, real).values())


LEAKS = [
    ((reached_turned, faults), "Rows and columns are exchanged"),
    ((reached_inverted, faults), "reached: The result is inverted"),
    ((detector(tokens_for=lambda token: [0]), faults), "Only one other token is tried"),
    (
        (detector(tokens_for=lambda token: [(token + 1) % 7]), faults),
        "Only one other token is tried",
    ),
    (
        (detector(lambda d: d.sum(-1, keepdim=True).abs()), faults),
        "The components of an output are summed",
    ),
    ((detector(lambda d: d.abs().mean(-1, keepdim=True)), faults), "The mean, the sum or the norm"),
    ((detector(lambda d: d.norm(dim=-1, keepdim=True)), faults), "The mean, the sum or the norm"),
    ((detector(lambda d: d[..., :1].abs()), faults), "Only the first component"),
    ((detector(lambda d: d), faults), "Only increases are counted"),
    ((detector(threshold=0.0), faults), "The threshold is not 0.0001"),
    ((detector(threshold=1e-5), faults), "The threshold is not 0.0001"),
    ((detector(threshold=0.1), faults), "The threshold is not 0.0001"),
    ((detector(lambda d: d.square().mean(-1, keepdim=True)), faults), "For squared differences"),
    (
        (detector(tokens_for=lambda token: [*range(1, 7)]), faults),
        "One of the tokens is never tried",
    ),
    ((detector(tokens_for=lambda token: [*range(6)]), faults), "One of the tokens is never tried"),
    ((reached_piling_up, faults), "Positions that were tried before are still changed"),
    ((reached_as_expected, faults), "Later positions are assumed to have no influence"),
    ((reached_without_padding, faults), "Padding positions are left out"),
    ((reached_all_real, faults), "`real` is replaced by True everywhere"),
    ((reached_that_writes, faults), "Your code changes its input ids"),
    ((reached_as_numbers, faults), "got torch.int32. A comparison returns"),
    ((reached, faults_with(padding_asks=True)), "The outputs at padding positions are judged"),
    ((reached, faults_with(padding_leaks=False)), "Padding that influences an output"),
    ((reached, faults_of_the_future), "Padding that influences an output"),
    ((reached, faults_with(itself=-1)), "A position may influence its own output"),
    ((reached, faults_with(itself=1)), "The next position is allowed"),
    ((reached, faults_turned), "The pairs are inverted"),
    ((reached, faults_exchanged), "Leaks and missing pairs are exchanged"),
    ((reached, faults_that_miss_padding), "so it is never missing"),
    ((reached, faults_as_a_pair), "Expected the faults as a dict"),
]

# Part 6


def aim_with(strength, scaled=True, inverse=torch.linalg.pinv):
    """The plain way, with one thing changed."""

    def aim(x, target, share):
        words = len(target)
        aimed = strength(words, share) * torch.eye(words)[target]
        return inverse(x) @ aimed * (math.sqrt(words) if scaled else 1.0), inverse(x)

    return aim


def right_strength(words, share):
    return math.log((words - 1) * share / (1 - share))


def aim_turned(x, target, share):
    return aim(x, target, share)[::-1]


def aim_too_sharply(x, target, share):
    w_q, w_k = aim(x, target, share)
    return 10 * w_q, w_k


def aim_at_itself(x, target, share):
    return aim(x, [*range(len(target))], share)


def aim_unevenly(x, target, share):
    words = len(target)
    weights = torch.full((words, words), (1 - share) / (words - 1))
    weights[range(words), target] = share
    other = [each for each in range(words) if each != target[0]]
    if words > 2:
        weights[0, other[0]] /= 2
        weights[0, other[1]] += weights[0, other[0]]
    turn = torch.linalg.pinv(x)
    return turn @ weights.log() * math.sqrt(words), turn


def aim_for_queries(x, target, share):
    """The queries and keys themselves, not the matrices that make them."""
    words = len(target)
    queries = torch.eye(words)[target] * right_strength(words, share) * math.sqrt(words)
    return queries, torch.eye(words)


def aim_by_rows(x, target, share):
    """The matrices of nn.Linear, which stand the other way."""
    w_q, w_k = aim(x, target, share)
    return (w_q, w_k) if x.size(0) == x.size(1) else (w_q.T, w_k.T)


def aim_with_unlike_sizes(x, target, share):
    w_q, w_k = aim(x, target, share)
    return w_q, w_k[:, :-1]


def aim_into_infinity(x, target, share):
    w_q, w_k = aim(x, target, share)
    return w_q / 0, w_k


def aim_at_once(x, target, share):
    w_q, w_k = aim(x, target, share)
    return w_q @ w_k.T


def aim_with_root(root):
    def aim(x, target, share):
        words = len(target)
        turn = torch.linalg.pinv(x)
        return turn @ torch.eye(words)[target] * right_strength(words, share) * root(x), turn

    return aim


AIMS = [
    (aim_with(right_strength, scaled=False), "The attention divides the scores by √d_k"),
    (aim_turned, "Queries and keys are exchanged"),
    (aim_with_root(len), "The attention divides the scores by √d_k"),
    (aim_with_root(lambda x: x.size(1) ** 0.5), "the number of columns that you chose"),
    (aim_with(lambda words, share: math.log(share / (1 - share))), "than for two words"),
    (aim_with(lambda words, share: math.log(words * share / (1 - share))), "than for two words"),
    (aim_with(lambda words, share: share), "The shares are used as scores"),
    (
        aim_with(lambda words, share: math.log(share)),
        "The logarithm of the share is its score here",
    ),
    (aim_with(right_strength, inverse=lambda x: x.T), "not its transpose"),
    (aim_too_sharply, "gives its target the weight"),
    (aim_at_itself, "Word 0 attends most to word 0; expected word 1"),
    (aim_unevenly, "those of the other words are not equal"),
    (aim_for_queries, "These are queries and keys. Return the projections"),
    (aim_by_rows, "expected (d_model, d_k), where d_model"),
    (aim_with_unlike_sizes, "cannot be compared with keys of"),
    (aim_into_infinity, "w_q contains NaN or infinity"),
    (aim_at_once, "Expected a pair, `return w_q, w_k`"),
]

WRONG = {
    "one_word": ONE_WORD,
    "masks": MASKS,
    "attention": ATTENTION,
    "finite": FINITE,
    "leaks": LEAKS,
    "aim": AIMS,
}

MASKED_LATE = """def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ value, weights
"""

ONE_TOKEN = """def reached(model, ids, real, vocab_size):
    size = len(ids)
    before = model(ids.unsqueeze(0), real.unsqueeze(0))[0]
    found = torch.zeros(size, size, dtype=torch.bool)
    for place in range(size):
        changed = ids.clone()
        changed[place] = (ids[place] + 1) % vocab_size
        after = model(changed.unsqueeze(0), real.unsqueeze(0))[0]
        found[:, place] = ((after - before).abs() > 1e-4).any(dim=-1)
    return found


def faults(reached, real):
    may = torch.ones_like(reached).tril() & real
    leaks = reached & ~may & real.unsqueeze(1)
    missing = ~reached & may & real.unsqueeze(1)
    return {"leaks": leaks.nonzero().tolist(), "missing": missing.nonzero().tolist()}
"""

HANDED_IN = {
    "masked_late": (
        {"attention": MASKED_LATE},
        ["attention-check"],
        "The mask is applied after the softmax",
    ),
    "one_token": (
        {"leaks": ONE_TOKEN},
        ["leaks-check"],
        "Only one other token is tried",
    ),
}
