"""Plausible wrong answers to 14_multi_head_attention, with words of the message of each."""

import torch
from right_answers_14 import (
    MultiHeadAttention,
    across,
    folded,
    importance,
    in_the_decoder,
    in_the_encoder,
    look_ups,
    merge_heads,
    pruned,
    reordered,
    rows_of,
    split_heads,
)
from torch import nn
from torch.nn import functional as F

from attentively.masks import causal_mask, masked_softmax
from attentively.multi_head import MultiHeadAttention as MultiHeadAttentionOfThePackage

COLUMNS = "these tensors differ: output_projection.weight."
BIASES = "tensors differ: query_projection.bias, key_projection.bias, value_projection.bias."

# Part 1


def split_without_exchange(x, num_heads):
    return x.reshape(len(x), num_heads, x.size(1), -1)


def split_in_strides(x, num_heads):
    return torch.stack([x[..., head::num_heads] for head in range(num_heads)], dim=1)


def split_by_d_head(x, num_heads):
    return x.reshape(len(x), x.size(1), -1, num_heads).transpose(1, 2)


def split_words_first(x, num_heads):
    return x.reshape(len(x), x.size(1), num_heads, -1)


def split_turned(x, num_heads):
    return split_heads(x, num_heads).transpose(2, 3)


def split_heads_first(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1))


def split_into_a_list(x, num_heads):
    return list(x.chunk(num_heads, dim=-1))


def split_cut_off(x, num_heads):
    return torch.tensor(split_heads(x, num_heads).tolist())


def merge_without_exchange(x):
    return x.reshape(len(x), x.size(2), -1)


def merge_in_turn(x):
    return torch.stack(list(x.unbind(dim=1)), dim=-1).flatten(2)


def merge_half_way(x):
    return x.transpose(1, 2)


def merge_by_averaging(x):
    return x.mean(dim=1)


def merge_by_summing(x):
    return x.sum(dim=1)


def merge_words(x):
    return x.flatten(2)


HEADS = [
    (
        (split_without_exchange, merge_heads),
        "split_heads: The tensor is reshaped without exchanging axes",
    ),
    ((split_in_strides, merge_heads), "Each head receives every num_heads-th entry"),
    ((split_by_d_head, merge_heads), "split_heads: num_heads and d_head are exchanged"),
    ((split_words_first, merge_heads), "The axis of the words comes before the axis of the heads"),
    ((split_turned, merge_heads), "The last two axes are exchanged"),
    ((split_heads_first, merge_heads), "The axis of the heads comes before the batch"),
    ((split_into_a_list, merge_heads), "Expected the output of split_heads as a torch.Tensor"),
    ((split_cut_off, merge_heads), "no gradient flows through them"),
    (
        (split_heads, merge_without_exchange),
        "merge_heads: The tensor is reshaped without exchanging axes",
    ),
    ((split_heads, merge_in_turn), "The entries of the heads alternate"),
    ((split_heads, merge_half_way), "The heads are still an axis of their own"),
    ((split_heads, merge_by_averaging), "The heads are averaged or summed"),
    ((split_heads, merge_by_summing), "The heads are averaged or summed"),
    ((split_heads, merge_words), "All words of a head are concatenated"),
]

# Part 2


def softmax_of(scores, mask):
    return masked_softmax(scores, None if mask is None else mask.unsqueeze(1))


def attention_with(
    split=split_heads,
    join=merge_heads,
    weigh=softmax_of,
    root=lambda d_head, d_model: d_head**0.5,
    project=lambda layer, x, num_heads: layer(x),
    take=lambda query, key, value: (query, key, value),
    last=lambda layer, joined: layer(joined),
    give=lambda context, weights: (context, weights),
):
    """The plain way with one step changed."""

    class Attention(MultiHeadAttention):
        def forward(self, query, key, value, mask=None):
            layers = (self.query_projection, self.key_projection, self.value_projection)
            q, k, v = (
                split(project(layer, x, self.num_heads), self.num_heads)
                for layer, x in zip(layers, take(query, key, value), strict=True)
            )
            d_model = query.size(-1)
            scores = q @ k.transpose(2, 3) / root(d_model // self.num_heads, d_model)
            weights = weigh(scores, mask)
            return give(last(self.output_projection, join(weights @ v)), weights)

    return Attention


def of_slices(layer, x, num_heads):
    """Each head projects its own slice of the vectors."""
    blocks = layer.weight.unflatten(0, (num_heads, -1)).unflatten(2, (num_heads, -1))
    found = [part @ blocks[head, :, head].T for head, part in enumerate(x.chunk(num_heads, dim=-1))]
    return torch.cat(found, dim=-1) + layer.bias


def filled(scores, mask, number):
    return (scores if mask is None else scores.masked_fill(~mask.unsqueeze(1), number)).softmax(-1)


class Exchanged(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        self.query_projection, self.key_projection = self.key_projection, self.query_projection
        found = super().forward(query, key, value, mask)
        self.query_projection, self.key_projection = self.key_projection, self.query_projection
        return found


class WithOtherNames(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("unequal heads")
        self.query = nn.Linear(d_model, d_model)


class WithoutBiases(MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.key_projection = nn.Linear(d_model, d_model, bias=False)


class WithSmallLayers(MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.query_projection = nn.Linear(d_model, d_model // num_heads)


class WithMore(MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.scale = nn.Parameter(torch.tensor(1.0))


class Unrefusing(MultiHeadAttention):
    def __init__(self, d_model, num_heads):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        for name in ("query", "key", "value", "output"):
            setattr(self, f"{name}_projection", nn.Linear(d_model, d_model))


class NoModule:
    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads


class WithoutSuper(nn.Module):
    def __init__(self, d_model, num_heads):
        self.query_projection = nn.Linear(d_model, d_model)


class Unnamed(MultiHeadAttention):
    """Its mask has another name, so the model's layers cannot give it one."""

    def forward(self, query, key, value, allowed=None):
        return super().forward(query, key, value, allowed)


def unlearned(layer, x, num_heads):
    return F.linear(x, layer.weight.data, layer.bias)


def one_head(x, num_heads):
    return x.unsqueeze(1)


def split_the_other_way(x, num_heads):
    return split_heads(x, x.size(-1) // num_heads)


def hidden_too_late(scores, mask):
    return scores.softmax(-1) * (1 if mask is None else mask.unsqueeze(1))


def one_more(scores, mask):
    """What may be seen has its score one higher, and nothing is hidden."""
    return (scores if mask is None else scores + mask.unsqueeze(1)).softmax(-1)


class Reusing(MultiHeadAttention):
    """One projection is typed for another, or left out."""

    taken = ("query", "key", "value")

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split_heads(getattr(self, f"{name}_projection")(x) if name else x, self.num_heads)
            for name, x in zip(self.taken, (query, key, value), strict=True)
        )
        weights = softmax_of(q @ k.transpose(2, 3) / q.size(-1) ** 0.5, mask)
        return self.output_projection(merge_heads(weights @ v)), weights


class KeysForValues(Reusing):
    taken = ("query", "key", "key")


class OneForAll(Reusing):
    taken = ("query", "query", "query")


class ValuesAsTheyAre(Reusing):
    taken = ("query", "key", None)


class QueriesAsTheyAre(Reusing):
    taken = (None, "key", "value")


class Asserting(Unrefusing):
    def __init__(self, d_model, num_heads):
        assert d_model % num_heads == 0
        super().__init__(d_model, num_heads)


class KeyCutOff(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key.detach(), value, mask)


class WeightsCutOff(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        context, weights = super().forward(query, key, value, mask)
        return context, weights.detach()


class Dropping(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        context, weights = super().forward(query, key, value, mask)
        return torch.nn.functional.dropout(context, 0.1, self.training), weights


class WithoutSharedMask(MultiHeadAttention):
    def forward(self, query, key, value, mask=None):
        if mask is not None and len(mask) < len(query):
            mask = None
        return super().forward(query, key, value, mask)


MULTI_HEAD = [
    (KeyCutOff, "no gradient reaches key"),
    (WeightsCutOff, "no gradient flows through them"),
    (Dropping, "Does it use dropout or other random numbers"),
    (WithoutSharedMask, "The mask is not used"),
    (attention_with(last=lambda layer, joined: joined), "The output projection W^O is missing"),
    (attention_with(root=lambda _, d_model: d_model**0.5), "The scores are divided by √d_model"),
    (attention_with(root=lambda *_: 1), "The scores are not divided by √d_head"),
    (attention_with(root=lambda d_head, _: d_head), "The scores are divided by d_head instead of"),
    (attention_with(join=merge_without_exchange),
     "The head outputs are merged without exchanging axes"),
    (attention_with(split=split_without_exchange),
     "The projections are reshaped without exchanging axes"),
    (attention_with(split=split_in_strides),
     "The projections are split differently than in part 1"),
    (attention_with(join=merge_in_turn), "The projections are split differently than in part 1"),
    (attention_with(split=one_head, join=merge_heads, root=lambda _, d_model: d_model**0.5),
     "There is only one head"),
    (attention_with(weigh=lambda s, m: softmax_of(s, None if m is None else ~m)),
     "The mask is inverted"),
    (attention_with(weigh=lambda s, m: s.softmax(dim=-1)), "The mask is not used"),
    (attention_with(weigh=lambda s, m: masked_softmax(s, m if m is None else m[None].expand_as(s)
                                                      if len(m) == s.size(1) else m[:, None])),
     "The batch axis of the mask is aligned with the heads"),
    (attention_with(weigh=lambda s, m: filled(s, m, -1e9)), "has equal weights for all keys"),
    (attention_with(weigh=lambda s, m: filled(s, m, -torch.inf)), "has NaN as weights"),
    (attention_with(weigh=lambda s, m: filled(s, m, 0)), "Masked keys have the score 0"),
    (attention_with(weigh=lambda s, m: filled(s, m, -1e-9)), "Masked keys have the score 0"),
    (attention_with(weigh=hidden_too_late), "The mask is applied after the softmax"),
    (attention_with(weigh=one_more), "The values of the context are not the expected ones"),
    (attention_with(split=split_the_other_way, root=lambda d_head, d: (d // d_head) ** 0.5),
     "there are d_head heads of dimension num_heads"),
    (KeysForValues, "One projection is used twice"),
    (OneForAll, "One projection is used twice"),
    (ValuesAsTheyAre, "The value_projection is not used"),
    (QueriesAsTheyAre, "The query_projection is not used"),
    (attention_with(weigh=lambda s, m: s.softmax(dim=-2)), "The softmax is taken over the queries"),
    (attention_with(project=of_slices), "The inputs are split"),
    (attention_with(take=lambda q, k, v: (q, k, k)), "The values are projected from `key`"),
    (attention_with(take=lambda q, k, v: (q, v, k)), "`key` and `value` are exchanged"),
    (attention_with(take=lambda q, k, v: (q, q, q)), "Keys and values are projected from `query`"),
    (Exchanged, "query_projection and key_projection are exchanged"),
    (attention_with(give=lambda c, w: (c, w.mean(dim=1))), "The weights are averaged"),
    (attention_with(give=lambda c, w: (c, w.sum(dim=1))), "The weights are summed"),
    (attention_with(give=lambda c, w: (w, c)), "The weights are returned first"),
    (attention_with(give=lambda c, w: c), "Expected a pair, `return context, weights`"),
    (attention_with(last=lambda layer, joined: joined + layer(joined)),
     "The values of the context are not the expected ones"),
    (WithOtherNames, "There is no parameter query_projection.weight"),
    (WithoutBiases, "There is no parameter key_projection.bias"),
    (WithSmallLayers, "Each layer computes the projections of all heads"),
    (WithMore, "an additional parameter or buffer scale"),
    (Unrefusing, "but __init__ raises no ValueError"),
    (Asserting, "but __init__ raises no ValueError"),
    (NoModule, "must be a subclass of nn.Module"),
    (WithoutSuper, "Your code raises AttributeError"),
    (Unnamed, "unexpected keyword argument 'mask'"),
    (attention_with(project=unlearned), "no gradient reaches query_projection.weight"),
    (MultiHeadAttentionOfThePackage, "not accepted. Your code uses"),
]  # fmt: skip

# Part 3


def encoder_with(mask_of):
    return lambda attention, x, src_mask: attention(x, x, x, mask_of(x, src_mask))


def decoder_with(mask_of):
    return lambda attention, y, tgt_mask: attention(y, y, y, mask_of(y, tgt_mask))


def causal(y):
    return causal_mask(y.size(1))


def across_with(take, mask_of):
    def answer(attention, y, x, tgt_mask, src_mask):
        return attention(*take(y, x), mask_of(y, x, tgt_mask, src_mask))

    return answer


def as_keys(mask):
    return mask.unsqueeze(1)


def encoder_alone(attention, x, src_mask):
    return in_the_encoder(attention, x, src_mask)[0]


def encoder_of_zeros(attention, x, src_mask):
    """Vectors of padding are 0, and they are looked at."""
    words = x * src_mask.unsqueeze(2)
    return attention(words, words, words)


def encoder_flat(attention, x, src_mask):
    return attention(x, x, x, src_mask)


def target_then_source(y, x):
    return y, x, x


USES = [
    ((encoder_with(lambda x, m: None), in_the_decoder, across), "A source word attends to padding"),
    ((encoder_with(lambda x, m: m.unsqueeze(2)), in_the_decoder, across),
     "in_the_encoder: The mask is on the axis of the queries"),
    ((encoder_with(lambda x, m: causal(x)), in_the_decoder, across), "it needs no causal mask"),
    ((encoder_with(lambda x, m: causal(x) & as_keys(m)), in_the_decoder, across),
     "it needs no causal mask"),
    ((encoder_with(lambda x, m: ~as_keys(m)), in_the_decoder, across),
     "in_the_encoder: The mask is inverted"),
    ((encoder_of_zeros, in_the_decoder, across), "A source word attends to padding"),
    ((encoder_alone, in_the_decoder, across), "Expected a pair, `return context, weights`"),
    ((encoder_flat, in_the_decoder, across), "a mask of shape (2, 5) does not fit scores"),
    ((in_the_encoder, decoder_with(lambda y, m: as_keys(m)), across), "A causal mask is needed"),
    ((in_the_encoder, decoder_with(lambda y, m: None), across), "A causal mask is needed"),
    ((in_the_encoder, decoder_with(lambda y, m: causal(y).transpose(1, 2)), across),
     "The causal mask has the wrong direction"),
    ((in_the_encoder, decoder_with(lambda y, m: ~causal(y) & as_keys(m)), across),
     "The causal mask has the wrong direction"),
    ((in_the_encoder, decoder_with(lambda y, m: causal(y).tril(-1)), across),
     "A word cannot attend to itself"),
    ((in_the_encoder, decoder_with(lambda y, m: torch.ones_like(causal(y)).tril(1)), across),
     "A word attends to the next word"),
    ((in_the_encoder, decoder_with(lambda y, m: causal(y) | as_keys(m)), across),
     "A causal mask is needed"),
    ((in_the_encoder, in_the_decoder, across_with(target_then_source, lambda y, x, t, s: None)),
     "across: A target word attends to the padding of the source"),
    ((in_the_encoder, in_the_decoder,
      across_with(target_then_source, lambda y, x, t, s: causal(y))),
     "A causal mask hides later source words"),
    ((in_the_encoder, in_the_decoder,
      across_with(target_then_source, lambda y, x, t, s: as_keys(t))),
     "The mask is that of the target's padding"),
    ((in_the_encoder, in_the_decoder,
      across_with(lambda y, x: (x, y, y), lambda y, x, t, s: as_keys(t))),
     "Source and target are exchanged"),
    ((in_the_encoder, in_the_decoder,
      across_with(lambda y, x: (y, y, y), lambda y, x, t, s: as_keys(t))),
     "The target attends to itself"),
    ((in_the_encoder, in_the_decoder,
      across_with(lambda y, x: (y, x, y), lambda y, x, t, s: as_keys(s))),
     "The values come from the target"),
    ((in_the_encoder, in_the_decoder,
      across_with(lambda y, x: (y, y, x), lambda y, x, t, s: as_keys(s))),
     "The keys come from the target"),
    ((in_the_encoder, in_the_decoder,
      across_with(lambda y, x: (x, x, x), lambda y, x, t, s: as_keys(s))),
     "The source attends to itself"),
    ((in_the_encoder, in_the_decoder, across_with(lambda y, x: (y, y, y), lambda *_: None)),
     "The target attends to itself"),
    ((in_the_encoder, in_the_decoder, across_with(lambda y, x: (x, y, y), lambda *_: None)),
     "Source and target are exchanged"),
    ((in_the_encoder, in_the_decoder,
      across_with(target_then_source, lambda y, x, t, s: ~as_keys(s))),
     "across: The mask is inverted"),
]  # fmt: skip

# Part 4


def look_ups_with(change):
    """The plain way, changed afterwards."""

    def answer(n, steps):
        return change(n, *look_ups(n, steps))

    return answer


def look_ups_going_round(n, steps):
    W_Q, W_K, W_V, W_O = look_ups(n, steps)
    for head, step in enumerate(steps):
        moved = torch.eye(n).roll(step, dims=0)
        W_Q[head * n : (head + 1) * n, n:] = 30 * n**0.5 * moved
    return W_Q, W_K, W_V, W_O


def look_ups_without_ends(n, steps):
    W_Q, W_K, W_V, W_O = look_ups(n, steps)
    for head, step in enumerate(steps):
        moved = torch.diag(torch.ones(n - abs(step)), -step)
        W_Q[head * n : (head + 1) * n, n:] = 30 * n**0.5 * moved
    return W_Q, W_K, W_V, W_O


def look_ups_asking_from_the_other_side(n, steps):
    """A row for each place that asks, a column for each that is asked for."""
    W_Q, W_K, W_V, W_O = look_ups(n, steps)
    for head in range(2):
        block = slice(head * n, (head + 1) * n)
        W_Q[block, n:] = W_Q[block, n:].T.clone()
    return W_Q, W_K, W_V, W_O


def look_ups_backwards(n, steps):
    return look_ups(n, [-step for step in steps])


def look_ups_of_one_step(n, steps):
    return look_ups(n, (steps[0], steps[0]))


def look_ups_without_steps(n, steps):
    return look_ups(n, (0, 0))


def look_ups_exchanged(n, steps):
    return look_ups(n, steps[::-1])


look_ups_of_places = look_ups_with(lambda n, q, k, v, o: (q, k, v.roll(n, dims=1), o))
look_ups_blunt = look_ups_with(lambda n, q, k, v, o: (q / 10, k, v, o))
look_ups_from_the_other_side = look_ups_with(lambda n, *m: tuple(each.T for each in m))
look_ups_key_first = look_ups_with(lambda n, q, k, v, o: (k, q, v, o))
look_ups_even = look_ups_with(lambda n, q, k, v, o: (0 * q, k, v, o))
look_ups_values_turned = look_ups_with(lambda n, q, k, v, o: (q, k, v.T, o))
look_ups_keys_turned = look_ups_with(lambda n, q, k, v, o: (q, k.T, v, o))
look_ups_scores_turned = look_ups_with(lambda n, q, k, v, o: (q.T, k.T, v, o))
look_ups_keys_of_words = look_ups_with(lambda n, q, k, v, o: (q, k.roll(n, dims=1), v, o))
look_ups_by_words = look_ups_with(
    lambda n, q, k, v, o: (q.roll(n, dims=1), k.roll(n, dims=1), v, o)
)  # fmt: skip
look_ups_too_large = look_ups_with(lambda n, q, k, v, o: (1e30 * q, 1e30 * k, v, o))
look_ups_of_nothing = look_ups_with(lambda n, q, k, v, o: (q, k, v, 0 * o))
look_ups_with_half_the_values = look_ups_with(
    lambda n, q, k, v, o: (q, k, torch.cat([v[:n], 0 * v[n:]]), o)
)
look_ups_of_one_head = look_ups_with(lambda n, q, k, v, o: (q, k, v, o[:n]))
look_ups_of_three = look_ups_with(lambda n, q, k, v, o: (q, k, v))
look_ups_of_whole_numbers = look_ups_with(lambda n, *m: tuple(each.long() for each in m))
look_ups_twice_as_large = look_ups_with(lambda n, q, k, v, o: (q, k, v, 2 * o))


def output_turned(n, q, k, v, o):
    """The numbers of each head are in another order, and W_O turns them on instead of back."""
    turn = torch.eye(n).roll(1, dims=0)
    turn = torch.block_diag(turn, turn)
    return q, k, turn @ v, turn


look_ups_output_turned = look_ups_with(output_turned)

look_ups_of_one_strength = look_ups_with(
    lambda n, q, k, v, o: (q / q.max() * 20, k / k.max(), v, o)
)

LOOK_UPS = [
    (look_ups_of_one_strength, "The scores must differ more"),
    (look_ups_going_round, "the look-up continues at the other end"),
    (look_ups_without_ends, "Where a step leads beyond the end, the first or"),
    (look_ups_backwards, "The steps have the wrong sign"),
    (look_ups_exchanged, "The two look-ups are exchanged"),
    (look_ups_of_places, "The output is the *position* that was looked up"),
    (look_ups_blunt, "The scores must differ more"),
    (look_ups_from_the_other_side, "Transposed: W_Q, W_K, W_V."),
    (look_ups_asking_from_the_other_side, "or rows and columns are exchanged in W_Q"),
    (look_ups_key_first, "W_Q and W_K are exchanged"),
    (look_ups_values_turned, "Transposed: W_V."),
    (look_ups_output_turned, "Transposed: W_O."),
    (look_ups_keys_turned, "Transposed: W_K."),
    (look_ups_scores_turned, "Transposed: W_Q, W_K."),
    (look_ups_keys_of_words, "The wrong half of x is read: W_K."),
    (look_ups_by_words, "The wrong half of x is read: W_Q, W_K."),
    (look_ups_too_large, "too large for 32-bit floating-point numbers"),
    (look_ups_of_nothing, "The first n entries of the output are all 0"),
    (look_ups_with_half_the_values, "The last n entries of the output are all 0"),
    (look_ups_of_one_step, "Both heads use the same step"),
    (look_ups_without_steps, "Both heads use the same step"),
    (look_ups_even, "All positions have the same weight"),
    (look_ups_of_one_head, "The shape of W_O is (3, 6), expected (6, 6)"),
    (look_ups_of_three, "Expected four matrices"),
    (look_ups_of_whole_numbers, "The dtype of W_Q is torch.int64"),
    (look_ups_twice_as_large, "at position 0 are not the word at step -1"),
]

# Part 5


def cut(weights, rows, columns):
    found = dict(weights)
    for name in ("query_projection", "key_projection", "value_projection"):
        found[f"{name}.weight"] = weights[f"{name}.weight"][rows]
        found[f"{name}.bias"] = weights[f"{name}.bias"][rows]
    found["output_projection.weight"] = weights["output_projection.weight"][:, columns]
    return found


def pruned_the_others(weights, num_heads, keep):
    return pruned(weights, num_heads, [h for h in range(num_heads) if h not in keep])


def pruned_in_strides(weights, num_heads, keep):
    rows = torch.cat(
        [torch.arange(head, len(weights["output_projection.bias"]), num_heads) for head in keep]
    )
    return cut(weights, rows, rows)


def pruned_with_first_columns(weights, num_heads, keep):
    rows = rows_of(weights, num_heads, keep)
    return cut(weights, rows, slice(0, len(rows)))


def pruned_with_last_columns(weights, num_heads, keep):
    rows = rows_of(weights, num_heads, keep)
    return cut(weights, rows, slice(len(weights["output_projection.bias"]) - len(rows), None))


def pruned_to_the_first(weights, num_heads, keep):
    return pruned(weights, num_heads, list(range(len(keep))))


def pruned_in_order(weights, num_heads, keep):
    return pruned(weights, num_heads, sorted(keep))


def pruned_with_columns_in_order(weights, num_heads, keep):
    rows, columns = (rows_of(weights, num_heads, heads) for heads in (keep, sorted(keep)))
    return cut(weights, rows, columns)


def pruned_with(change):
    def answer(weights, num_heads, keep):
        found = pruned(weights, num_heads, keep)
        return found | change(found, weights, num_heads, keep)

    return answer


THREE = ("query_projection.bias", "key_projection.bias", "value_projection.bias")
pruned_without_output_bias = pruned_with(
    lambda found, *_: {"output_projection.bias": 0 * found["output_projection.bias"]}
)
pruned_without_biases = pruned_with(lambda found, *_: {name: 0 * found[name] for name in THREE})
pruned_with_first_biases = pruned_with(
    lambda found, old, *_: {name: old[name][: len(found[name])] for name in THREE}
)
pruned_with_a_smaller_bias = pruned_with(
    lambda found, _, num_heads, keep: {
        "output_projection.bias": found["output_projection.bias"] * len(keep) / num_heads
    }
)
pruned_and_made_larger = pruned_with(
    lambda found, _, num_heads, keep: {
        "output_projection.weight": found["output_projection.weight"] * num_heads / len(keep)
    }
)
pruned_rows_of_output = pruned_with(
    lambda _, old, num_heads, keep: {
        "output_projection.weight": old["output_projection.weight"][rows_of(old, num_heads, keep)]
    }
)


def pruned_by_zeros(weights, num_heads, keep):
    found = {name: tensor.clone() for name, tensor in weights.items()}
    gone = [head for head in range(num_heads) if head not in keep]
    if gone:
        found["output_projection.weight"][:, rows_of(weights, num_heads, gone)] = 0
    return found


def pruned_in_place(weights, num_heads, keep):
    weights.update(pruned(weights, num_heads, keep))
    return weights


def pruned_without_a_name(weights, num_heads, keep):
    found = pruned(weights, num_heads, keep)
    del found["output_projection.bias"]
    return found


def pruned_to_a_tensor(weights, num_heads, keep):
    return pruned(weights, num_heads, keep)["output_projection.weight"]


def gradients(loss_of, num_heads, at=1.0):
    return torch.autograd.functional.jacobian(loss_of, torch.full((num_heads,), at))


def costs(loss_of, num_heads):
    ones = torch.ones(num_heads)
    with torch.no_grad():
        return torch.stack([loss_of(ones - gate) - loss_of(ones) for gate in torch.eye(num_heads)])


def importance_of_the_mean(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    loss_of(gates).mean().backward()
    return gates.grad.abs()


def importance_with_signs(loss_of, num_heads):
    return gradients(loss_of, num_heads).mean(dim=0)


def importance_summed(loss_of, num_heads):
    return gradients(loss_of, num_heads).abs().sum(dim=0)


def importance_of_the_sum(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    loss_of(gates).sum().backward()
    return gates.grad


def importance_of_shut_gates(loss_of, num_heads):
    return gradients(loss_of, num_heads, at=0.0).abs().mean(dim=0)


def importance_by_shutting(loss_of, num_heads):
    return costs(loss_of, num_heads).mean(dim=1)


def importance_adding_up(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    losses, total = loss_of(gates), torch.zeros(num_heads)
    for loss in losses:
        loss.backward(retain_graph=True)
        total += gates.grad.abs()
    return total / len(losses)


def importance_one_open(loss_of, num_heads):
    found = []
    for head, gates in enumerate(torch.eye(num_heads)):
        gradient = torch.autograd.functional.jacobian(loss_of, gates)[:, head]
        found.append(gradient.abs().mean())
    return torch.stack(found)


def importance_over_heads(loss_of, num_heads):
    return gradients(loss_of, num_heads).abs().sum(dim=0) / num_heads


def importance_squared(loss_of, num_heads):
    return gradients(loss_of, num_heads).square().mean(dim=0)


def importance_as_shares(loss_of, num_heads):
    found = importance(loss_of, num_heads)
    return found / found.sum()


def importance_of_examples(loss_of, num_heads):
    return gradients(loss_of, num_heads).abs()


def importance_halved(loss_of, num_heads):
    return importance(loss_of, num_heads) / 2


PRUNING = [
    ((pruned_the_others, importance), "The heads in `keep` are removed"),
    ((pruned_in_strides, importance), "pruned: Head i consists of every num_heads-th row"),
    ((pruned_with_first_columns, importance), "W^O keeps the wrong columns"),
    ((pruned_with_last_columns, importance), COLUMNS),
    ((pruned_to_the_first, importance), "The first len(keep) heads are kept"),
    ((pruned_in_order, importance), "The heads are in their old order"),
    ((pruned_with_columns_in_order, importance), COLUMNS),
    ((pruned_without_output_bias, importance), "The output bias is set to 0"),
    ((pruned_without_biases, importance), "The biases of the remaining heads are missing"),
    ((pruned_with_first_biases, importance), BIASES),
    ((pruned_with_a_smaller_bias, importance), "The output bias is scaled down"),
    ((pruned_and_made_larger, importance), COLUMNS),
    ((pruned_rows_of_output, importance), "The bias of W^O keeps its shape"),
    ((pruned_by_zeros, importance),
     "The shape of query_projection.weight is (8, 8), expected (4, 8)"),
    ((pruned_in_place, importance), "Your code changes its input weights"),
    ((pruned_without_a_name, importance), "The dict lacks 'output_projection.bias'"),
    ((pruned_to_a_tensor, importance), "Expected a dict with the eight parameter names"),
    ((pruned, importance_of_the_mean), "The absolute value is taken after the mean"),
    ((pruned, importance_with_signs), "The absolute value is missing"),
    ((pruned, importance_summed), "The result is the sum over the examples"),
    ((pruned, importance_of_the_sum), "The result is the sum over the examples"),
    ((pruned, importance_of_shut_gates), "The gradient is computed with all gates at 0"),
    ((pruned, importance_by_shutting), "The result is the increase of the loss"),
    ((pruned, importance_adding_up), "because backward() adds to .grad"),
    ((pruned, importance_one_open), "with the other gates at 0"),
    ((pruned, importance_over_heads), "divided by the number of heads"),
    ((pruned, importance_squared), "The gradients are squared"),
    ((pruned, importance_as_shares), "The values are normalised to sum to 1"),
    ((pruned, importance_of_examples), "The shape of the importance of the heads is (2, 2)"),
    ((pruned, importance_halved), "of the importance of the heads are not the expected ones"),
]  # fmt: skip

# Part 6


def reordered_not_at_all(weights, num_heads, order):
    return dict(weights)


def reordered_but(kept):
    """The plain way, with some of the tensors left as they were."""

    def answer(weights, num_heads, order):
        found = reordered(weights, num_heads, order)
        return found | {name: each for name, each in weights.items() if kept(name)}

    return answer


def reordered_rows_of_output(weights, num_heads, order):
    rows = rows_of(weights, num_heads, order)
    weight = weights["output_projection.weight"][rows]
    return reordered(weights, num_heads, order) | {"output_projection.weight": weight}


def reordered_the_other_way(weights, num_heads, order):
    found = [order.index(head) for head in range(num_heads)]
    return reordered(weights, num_heads, found)


def reordered_with_columns_back(weights, num_heads, order):
    weight = reordered_the_other_way(weights, num_heads, order)["output_projection.weight"]
    return reordered(weights, num_heads, order) | {"output_projection.weight": weight}


def reordered_into_a_list(weights, num_heads, order):
    return list(reordered(weights, num_heads, order).values())


def reordered_with_a_name(weights, num_heads, order):
    return reordered(weights, num_heads, order) | {"order": torch.tensor(order)}


def folded_into(more):
    """The plain way, with something else added to the output bias."""

    def answer(weights):
        bias = weights["output_projection.bias"] + more(weights)
        return folded(weights) | {"output_projection.bias": bias}

    return answer


def said(weights, name):
    return weights["output_projection.weight"] @ weights[f"{name}_projection.bias"]


folded_away = folded_into(lambda w: 0.0)
folded_as_it_is = folded_into(lambda w: w["value_projection.bias"])
folded_turned = folded_into(
    lambda w: w["value_projection.bias"] @ w["output_projection.weight"]
)  # fmt: skip
folded_with_a_minus = folded_into(lambda w: -said(w, "value"))
folded_with_the_key = folded_into(lambda w: said(w, "value") + said(w, "key"))
folded_with_the_old = folded_into(lambda w: said(w, "value") + said(w, "output"))
folded_over = folded_into(lambda w: said(w, "value") - w["output_projection.bias"])


def folded_with_the_query(weights):
    bias = torch.zeros_like(weights["query_projection.bias"])
    return folded(weights) | {"query_projection.bias": bias}


def folded_into_the_query(weights):
    bias = weights["query_projection.bias"] + weights["key_projection.bias"]
    return folded(weights) | {"query_projection.bias": bias}


def folded_values_alone(weights):
    return folded(weights) | {"key_projection.bias": weights["key_projection.bias"]}


def folded_without_biases(weights):
    return {name: each for name, each in folded(weights).items() if "key_projection.b" not in name}


def folded_in_place(weights):
    weights["key_projection.bias"].zero_()
    return folded(weights)


def folded_nothing(weights):
    return dict(weights)


SAME_FUNCTION = [
    ((reordered_not_at_all, folded), "The order of the heads has not changed"),
    ((reordered_but(lambda name: name == "output_projection.weight"), folded),
     "The columns of W^O are not reordered"),
    ((reordered_rows_of_output, folded), "The rows of W^O are reordered"),
    ((reordered_but(lambda name: name.endswith("bias")), folded), BIASES),
    ((reordered_the_other_way, folded), "The permutation is inverted"),
    ((reordered_but(lambda name: "value" in name or "output" in name), folded),
     "differ: value_projection.weight, value_projection.bias, output_projection.weight."),
    ((reordered_but(lambda name: "value" in name), folded),
     "these tensors differ: value_projection.weight, value_projection.bias."),
    ((reordered_with_columns_back, folded), COLUMNS),
    ((pruned_in_strides, folded), "reordered: Head i consists of every num_heads-th row"),
    ((reordered_into_a_list, folded), "Expected a dict with the eight parameter names"),
    ((reordered_with_a_name, folded), "The dict has an unknown name, 'order'"),
    ((reordered, folded_away), "The value bias is removed without a replacement"),
    ((reordered, folded_as_it_is), "The value bias is added to the output bias directly"),
    ((reordered, folded_turned), "The value bias is multiplied by W^O transposed"),
    ((reordered, folded_with_a_minus), "the value bias is subtracted from the output bias"),
    ((reordered, folded_with_the_key), "The key bias is added to the output bias"),
    ((reordered, folded_over), "contains only the contribution of the value bias"),
    ((reordered, folded_with_the_old), "these tensors differ: output_projection.bias."),
    ((reordered, folded_with_the_query), "The query bias is set to 0"),
    ((reordered, folded_into_the_query), "The key bias is moved to the query bias"),
    ((reordered, folded_values_alone), "folded: key_projection.bias is not 0 everywhere"),
    ((reordered, folded_nothing), "folded: key_projection.bias is not 0 everywhere"),
    ((reordered, folded_without_biases), "The dict lacks 'key_projection.bias'"),
    ((reordered, folded_in_place), "Your code changes its input weights"),
]  # fmt: skip

WRONG = {
    "heads": HEADS,
    "multi_head": MULTI_HEAD,
    "uses": USES,
    "look_ups": LOOK_UPS,
    "pruning": PRUNING,
    "same_function": SAME_FUNCTION,
}

OF_THE_MEAN = """def pruned(weights, num_heads, keep):
    d_head = len(weights["output_projection.bias"]) // num_heads
    rows = torch.cat([torch.arange(d_head) + head * d_head for head in keep])
    smaller = dict(weights)
    for name in ("query_projection", "key_projection", "value_projection"):
        smaller[f"{name}.weight"] = weights[f"{name}.weight"][rows]
        smaller[f"{name}.bias"] = weights[f"{name}.bias"][rows]
    smaller["output_projection.weight"] = weights["output_projection.weight"][:, rows]
    return smaller


def importance(loss_of, num_heads):
    gates = torch.ones(num_heads, requires_grad=True)
    loss_of(gates).mean().backward()
    return gates.grad.abs()
"""

WITHOUT_EXCHANGE = """def split_heads(x, num_heads):
    return x.reshape(len(x), num_heads, x.size(1), -1)


def merge_heads(x):
    return x.reshape(len(x), x.size(2), -1)
"""

HANDED_IN = {
    "of_the_mean": (
        {"pruning": OF_THE_MEAN},
        ["pruning-check"],
        "The absolute value is taken after the mean",
    ),
    "without_exchange": (
        {"heads": WITHOUT_EXCHANGE},
        ["heads-check", "multi-head-check"],
        "The tensor is reshaped without exchanging axes",
    ),
}
