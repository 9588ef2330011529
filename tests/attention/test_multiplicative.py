"""Luong's attentions do what their equations say."""

import math

import pytest
import torch

from attentively.attention.additive import AdditiveAttention
from attentively.attention.masks import masked_softmax
from attentively.attention.multiplicative import LocalAttention, LuongAttention

BATCH, SRC_LEN, QUERY_DIM, KEY_DIM, HIDDEN_DIM, MAX_LEN, WINDOW = 3, 5, 7, 11, 13, 17, 2
LENGTHS = (5, 3, 1)
SCORES = ("dot", "general", "concat", "location")
SETTINGS = {"concat": {"hidden_dim": HIDDEN_DIM}, "location": {"max_len": MAX_LEN}}

every_score = pytest.mark.parametrize("score", SCORES)
every_kind = pytest.mark.parametrize("kind", ["local-m", "local-p"])


def random_input(score="general", seed=0):
    """Sizes are distinct primes, so that no axis can be taken for another; dot needs one size."""
    torch.manual_seed(seed)
    key_dim = QUERY_DIM if score == "dot" else KEY_DIM
    query = torch.randn(BATCH, QUERY_DIM)
    keys = torch.randn(BATCH, SRC_LEN, key_dim)
    mask = torch.arange(SRC_LEN) < torch.tensor(LENGTHS).unsqueeze(1)
    return query, keys, mask


def luong(score, kind=LuongAttention):
    torch.manual_seed(1)
    key_dim = QUERY_DIM if score == "dot" else KEY_DIM
    return kind(QUERY_DIM, key_dim, score, **SETTINGS.get(score, {}))


def local(kind, score="general", made=LocalAttention):
    torch.manual_seed(1)
    key_dim = QUERY_DIM if score == "dot" else KEY_DIM
    hidden_dim = HIDDEN_DIM if score == "concat" else None
    return made(QUERY_DIM, key_dim, WINDOW, kind, score, hidden_dim)


def score_by_the_equation(attention, score, query, key, place):
    """One number for one query and one key; `attention` holds the matrices."""
    if score == "dot":
        return sum(q * k for q, k in zip(query, key, strict=True))
    if score == "general":
        W = attention.key_projection.weight
        return sum(query[i] * W[i, j] * key[j] for i in range(len(query)) for j in range(len(key)))
    if score == "location":
        return attention.position_scores.weight[place] @ query
    W = torch.cat([attention.query_projection.weight, attention.key_projection.weight], dim=1)
    return attention.energy.weight[0] @ torch.tanh(W @ torch.cat([query, key]))


def by_the_equation(attention, score, query, keys, spans, factor=lambda row, place: 1.0):
    """One sentence and one key at a time; `spans` are the places that may be looked at."""
    contexts, all_weights = [], []
    for row, places in enumerate(spans):
        exponentials = {
            place: score_by_the_equation(
                attention, score, query[row], keys[row, place], place
            ).exp()
            for place in places
        }
        total = sum(exponentials.values())
        weights = [
            exponentials[place] / total * factor(row, place) if place in exponentials else 0 * total
            for place in range(keys.shape[1])
        ]
        all_weights.append(torch.stack(weights))
        contexts.append(sum(weights[place] * keys[row, place] for place in places))
    return torch.stack(contexts), torch.stack(all_weights)


def agrees(attention, given, expected, wanted, **arguments):
    """Compare values, and gradients with respect to what is wanted."""
    query, keys, mask = given
    direction = torch.randn(BATCH, keys.shape[-1])
    context, weights = attention(query, keys, mask, **arguments)
    expected_context, expected_weights = expected()
    torch.testing.assert_close(weights, expected_weights)
    torch.testing.assert_close(context, expected_context)
    gradients = torch.autograd.grad((context * direction).sum(), wanted)
    expected_gradients = torch.autograd.grad((expected_context * direction).sum(), wanted)
    for one, other in zip(gradients, expected_gradients, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


# Global attention


def test_dot_by_hand():
    """Scores ln 3 and 0, since (1, 2)·(ln 3, 0) = ln 3."""
    query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[[math.log(3), 0.0], [2.0, -1.0]]])
    context, weights = LuongAttention(2, 2, "dot")(query, keys)
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(context, torch.tensor([[0.75 * math.log(3) + 0.5, -0.25]]))


def test_general_by_hand():
    """W_a turns the one number of a key into two; the first is asked for."""
    attention = LuongAttention(2, 1, "general")
    with torch.no_grad():
        attention.key_projection.weight.copy_(torch.tensor([[math.log(3)], [5.0]]))
    context, weights = attention(torch.tensor([[1.0, 0.0]]), torch.tensor([[[1.0], [0.0]]]))
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(context, torch.tensor([[0.75]]))


def test_location_by_hand():
    """Three positions score ln 3, 0 and 9; the source has two."""
    attention = LuongAttention(1, 1, "location", max_len=3)
    with torch.no_grad():
        attention.position_scores.weight.copy_(torch.tensor([[math.log(3)], [0.0], [9.0]]))
    _, weights = attention(torch.tensor([[1.0]]), torch.tensor([[[7.0], [-7.0]]]))
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))


@every_score
def test_equals_the_equation_in_value_and_gradient(score):
    attention, (query, keys, mask) = luong(score), random_input(score)
    spans = [range(length) for length in LENGTHS]
    wanted = [query.requires_grad_(), keys.requires_grad_(), *attention.parameters()]
    agrees(
        attention,
        (query, keys, mask),
        lambda: by_the_equation(attention, score, query, keys, spans),
        wanted,
    )


def test_concat_is_additive_attention():
    attention, given = luong("concat"), random_input("concat")
    additive = AdditiveAttention(QUERY_DIM, KEY_DIM, HIDDEN_DIM)
    additive.load_state_dict(attention.state_dict())
    for one, other in zip(attention(*given), additive(*given), strict=True):
        torch.testing.assert_close(one, other)


def test_general_with_the_identity_is_dot():
    given = random_input("dot")
    general = LuongAttention(QUERY_DIM, QUERY_DIM, "general")
    with torch.no_grad():
        general.key_projection.weight.copy_(torch.eye(QUERY_DIM))
    for one, other in zip(general(*given), luong("dot")(*given), strict=True):
        torch.testing.assert_close(one, other)


@every_score
def test_without_a_mask_every_key_may_be_looked_at(score):
    attention, (query, keys, _) = luong(score), random_input(score)
    everywhere = torch.ones(BATCH, SRC_LEN, dtype=torch.bool)
    torch.testing.assert_close(attention(query, keys), attention(query, keys, everywhere))


@every_score
def test_weights_sum_to_one_and_are_zero_under_the_mask(score):
    query, keys, mask = random_input(score)
    _, weights = luong(score)(query, keys, mask)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH))
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


class NoMask(LuongAttention):
    """A broken twin: the mask is forgotten."""

    def forward(self, query, keys, mask=None, projected_keys=None):
        return super().forward(query, keys)


class SoftmaxOverAllPlaces(LuongAttention):
    """A broken twin: softmax over the positions that the source does not have, too."""

    def forward(self, query, keys, mask=None, projected_keys=None):
        weights = self.position_scores(query).softmax(dim=-1)[:, : keys.shape[1]]
        return torch.einsum("bs,bsd->bd", weights, keys), weights


def ignores_masked_keys(score, kind=LuongAttention):
    attention, (query, keys, mask) = luong(score, kind), random_input(score)
    changed = torch.where(mask.unsqueeze(-1), keys, 100 * torch.randn_like(keys))
    before, after = attention(query, keys, mask), attention(query, changed, mask)
    return all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@every_score
def test_masked_keys_have_no_influence(score):
    assert ignores_masked_keys(score)
    assert not ignores_masked_keys(score, NoMask)


def test_a_location_softmax_over_missing_places_would_be_seen():
    query, keys, mask = random_input("location")
    _, weights = luong("location", SoftmaxOverAllPlaces)(query, keys, mask)
    assert (weights.sum(dim=-1) < 0.9).all()
    assert not ignores_masked_keys("location", SoftmaxOverAllPlaces)


def follows_the_keys(score):
    attention, (query, keys, _) = luong(score), random_input(score)
    order = torch.tensor([3, 0, 4, 1, 2])
    context, weights = attention(query, keys)
    moved_context, moved_weights = attention(query, keys[:, order])
    return torch.allclose(moved_weights, weights[:, order], atol=1e-6) and torch.allclose(
        moved_context, context, atol=1e-6
    )


@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_permuting_the_keys_permutes_the_weights_and_keeps_the_context(score):
    assert follows_the_keys(score)


def test_location_goes_by_the_place_alone():
    assert not follows_the_keys("location")
    attention, (query, keys, mask) = luong("location"), random_input()
    _, before = attention(query, keys, mask)
    _, after = attention(query, torch.randn_like(keys), mask)
    assert torch.equal(before, after)


@every_score
def test_the_query_matters(score):
    attention, (query, keys, mask) = luong(score), random_input(score)
    _, before = attention(query, keys, mask)
    _, after = attention(query + 1, keys, mask)
    assert not torch.allclose(before, after)


@every_score
def test_keys_projected_once_give_the_same(score):
    attention, (query, keys, mask) = luong(score), random_input(score)
    projected_keys = attention.project_keys(keys)
    torch.testing.assert_close(
        attention(query, keys, mask, projected_keys), attention(query, keys, mask)
    )


@pytest.mark.parametrize("score", ["general", "concat"])
def test_keys_projected_once_are_used(score):
    attention, (query, keys, mask) = luong(score), random_input(score)
    calls = []
    attention.key_projection.register_forward_hook(lambda *_: calls.append(1))
    projected_keys = attention.project_keys(keys)
    for _ in range(3):
        attention(query, keys, mask, projected_keys)
    assert len(calls) == 1


@every_score
def test_a_sentence_with_nothing_to_attend_to_gives_zeros(score):
    attention, (query, keys, mask) = luong(score), random_input(score)
    mask[1] = False
    context, weights = attention(query, keys, mask)
    assert (weights[1] == 0).all()
    assert (context[1] == 0).all()
    assert context[0].abs().max() > 0


def test_parameters_keep_their_names_and_have_no_bias():
    shapes = {
        score: {name: tuple(p.shape) for name, p in luong(score).named_parameters()}
        for score in SCORES
    }
    assert shapes == {
        "dot": {},
        "general": {"key_projection.weight": (QUERY_DIM, KEY_DIM)},
        "concat": {
            "query_projection.weight": (HIDDEN_DIM, QUERY_DIM),
            "key_projection.weight": (HIDDEN_DIM, KEY_DIM),
            "energy.weight": (1, HIDDEN_DIM),
        },
        "location": {"position_scores.weight": (MAX_LEN, QUERY_DIM)},
    }


def test_a_source_may_be_as_long_as_the_locations_but_no_longer():
    attention, query = luong("location"), torch.randn(BATCH, QUERY_DIM)
    _, weights = attention(query, torch.randn(BATCH, MAX_LEN, KEY_DIM))
    assert weights.shape == (BATCH, MAX_LEN)
    with pytest.raises(ValueError, match=r"source of 18 positions is longer than max_len=17"):
        attention(query, torch.randn(BATCH, MAX_LEN + 1, KEY_DIM))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dot",), "query_dim=7 and key_dim=11: use score='general'"),
        (("concat",), "score='concat' needs hidden_dim of at least 1, but hidden_dim=None"),
        (("concat", 0), "hidden_dim=0"),
        (("location",), "score='location' needs max_len of at least 1, but max_len=None"),
        (("cosine",), "score='cosine' is unknown: choose one of dot, general, concat, location"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LuongAttention(QUERY_DIM, KEY_DIM, *arguments)


@every_score
@pytest.mark.usefixtures("unchecked")
def test_a_mask_of_the_wrong_shape_is_refused_with_both_shapes(score):
    query, keys, mask = random_input(score)
    with pytest.raises(ValueError, match=r"\(3, 1, 5\).*\(3, 5\)"):
        luong(score)(query, keys, mask.unsqueeze(1))


# Local attention


def test_local_p_by_hand():
    """Equal scores, four words, D = 2: p_t = 4·sigmoid(0) = 2, so σ = 1 and the weights are
    a quarter of exp(-2), exp(-1/2), 1 and exp(-1/2)."""
    attention = LocalAttention(1, 1, 2, "local-p")
    with torch.no_grad():
        attention.content.key_projection.weight.fill_(0.0)
        attention.position_energy.weight.fill_(0.0)
    keys = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    context, weights = attention(torch.ones(1, 1), keys)
    expected = torch.tensor([[-2.0, -0.5, 0.0, -0.5]]).exp() / 4
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(
        context, (expected * torch.tensor([[1.0, 2.0, 3.0, 4.0]])).sum(1, True)
    )


def test_local_m_by_hand():
    """Equal scores, D = 1: a third each around the step, a half each at the ends."""
    attention = LocalAttention(1, 1, 1, "local-m")
    with torch.no_grad():
        attention.content.key_projection.weight.fill_(0.0)
    keys = torch.ones(1, 4, 1)
    third, half = 1 / 3, 1 / 2
    for step, expected in enumerate(
        [
            [half, half, 0, 0],
            [third, third, third, 0],
            [0, third, third, third],
            [0, 0, half, half],
            [0, 0, half, half],  # the source is over: the window stays
            [0, 0, half, half],
        ]
    ):
        _, weights = attention(torch.ones(1, 1), keys, step=step)
        torch.testing.assert_close(weights, torch.tensor([expected]))


@every_kind
@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_local_equals_the_equation_in_value_and_gradient(kind, score):
    attention, (query, keys, mask) = local(kind, score), random_input(score)
    wanted = [query.requires_grad_(), keys.requires_grad_(), *attention.parameters()]
    step, sigma = 3, WINDOW / 2

    def position(row):
        if kind == "local-m":
            return min(step, LENGTHS[row] - 1)
        W, v = attention.position_projection.weight, attention.position_energy.weight[0]
        return LENGTHS[row] * torch.sigmoid(v @ torch.tanh(W @ query[row]))

    def factor(row, place):
        if kind == "local-m":
            return 1.0
        return torch.exp(-((place - position(row)) ** 2) / (2 * sigma**2))

    spans = [
        [place for place in range(length) if abs(place - position(row)) <= WINDOW]
        for row, length in enumerate(LENGTHS)
    ]
    assert len(spans[0]) < LENGTHS[0]
    agrees(
        attention,
        (query, keys, mask),
        lambda: by_the_equation(attention.content, score, query, keys, spans, factor),
        wanted,
        step=step,
    )


def test_the_window_of_local_p_is_learned_through_the_gaussian_alone():
    attention, given = local("local-p"), random_input()
    attention(*given)[0].sum().backward()
    assert attention.position_projection.weight.grad.abs().max() > 0
    assert attention.position_energy.weight.grad.abs().max() > 0


@every_kind
def test_what_is_outside_the_window_has_no_influence(kind):
    attention, (query, keys, mask) = local(kind), random_input()
    context, weights = attention(query, keys, mask, step=0)
    outside = weights == 0
    assert (~outside).any(dim=1).all()
    if kind == "local-m":  # step 0 and two places on
        assert outside[0].tolist() == [False, False, False, True, True]
    changed = torch.where(outside.unsqueeze(-1), 100 * torch.randn_like(keys), keys)
    assert torch.equal(attention(query, changed, mask, step=0)[0], context)


class PaddedLength(LocalAttention):
    """A broken twin: S is the length of the batch, not of the sentence."""

    def aligned_position(self, query, lengths, step):
        return super().aligned_position(query, torch.full_like(lengths, self.longest), step)

    def forward(self, query, keys, mask=None, projected_keys=None, step=None):
        self.longest = keys.shape[1]
        return super().forward(query, keys, mask, projected_keys, step)


def padding_changes_nothing(kind, made=LocalAttention):
    attention, (query, keys, mask) = local(kind, made=made), random_input()
    context, weights = attention(query, keys, mask, step=4)
    for row, length in enumerate(LENGTHS):
        alone = attention(query[row : row + 1], keys[row : row + 1, :length], step=4)
        if not torch.allclose(alone[0][0], context[row], atol=1e-6):
            return False
        if not torch.allclose(alone[1][0], weights[row, :length], atol=1e-6):
            return False
    return True


@every_kind
def test_the_length_is_the_sentences_own(kind):
    assert padding_changes_nothing(kind)
    assert not padding_changes_nothing(kind, PaddedLength)


def test_local_m_needs_the_step_and_local_p_does_not():
    given = random_input()
    local("local-p")(*given)
    with pytest.raises(ValueError, match="local-m needs the decoder's step"):
        local("local-m")(*given)


def test_local_p_finds_its_place_from_the_query():
    attention, (query, _, mask) = local("local-p"), random_input()
    lengths = mask.sum(dim=1)
    before = attention.aligned_position(query, lengths, None)
    after = attention.aligned_position(query + 1, lengths, None)
    assert ((before > 0) & (before < lengths)).all()
    assert not torch.allclose(before, after)


class Renormalised(LocalAttention):
    """A broken twin: what the Gaussian took away is shared out again."""

    def forward(self, query, keys, mask=None, projected_keys=None, step=None):
        _, weights = super().forward(query, keys, mask, projected_keys, step)
        weights = masked_softmax(weights.log(), weights > 0)
        return torch.einsum("bs,bsd->bd", weights, keys), weights


def test_the_weights_of_local_p_are_not_normalised_again():
    given = random_input()
    for made, less_than_one in ((LocalAttention, True), (Renormalised, False)):
        _, weights = local("local-p", made=made)(*given)
        assert (weights.sum(dim=-1) < 0.999).all().item() is less_than_one


@every_kind
def test_a_local_sentence_with_nothing_to_attend_to_gives_zeros(kind):
    attention, (query, keys, mask) = local(kind), random_input()
    mask[1] = False
    context, weights = attention(query, keys, mask, step=1)
    assert (weights[1] == 0).all()
    assert (context[1] == 0).all()
    assert context[0].abs().max() > 0


@every_kind
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_local_attention_in_other_precisions(kind, dtype):
    attention, (query, keys, mask) = local(kind), random_input()
    expected, _ = attention(query, keys, mask, step=2)
    context, weights = attention.to(dtype)(query.to(dtype), keys.to(dtype), mask, step=2)
    assert context.dtype == weights.dtype == dtype
    torch.testing.assert_close(context.float(), expected, atol=0.05, rtol=0)


@every_kind
def test_local_keys_projected_once_give_the_same(kind):
    attention, (query, keys, mask) = local(kind), random_input()
    projected_keys = attention.project_keys(keys)
    torch.testing.assert_close(
        attention(query, keys, mask, projected_keys, step=2), attention(query, keys, mask, step=2)
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 0}, "window=0 must be at least 1"),
        ({"kind": "local-q"}, "kind='local-q' is unknown: choose local-m or local-p"),
        ({"score": "location"}, "score='location' does not depend on the source"),
        ({"score": "dot"}, "query_dim=7 and key_dim=11"),
        ({"score": "concat"}, "hidden_dim=None"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_local_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        LocalAttention(**{"query_dim": QUERY_DIM, "key_dim": KEY_DIM, "window": 2} | settings)


@every_kind
@pytest.mark.usefixtures("unchecked")
def test_a_local_mask_of_the_wrong_shape_is_refused_with_both_shapes(kind):
    query, keys, mask = random_input()
    with pytest.raises(ValueError, match=r"\(3, 1, 5\).*\(3, 5, 11\)"):
        local(kind)(query, keys, mask.unsqueeze(1), step=1)
