"""Positions: codes that are added, and positions inside attention."""

import math

import pytest
import torch
import torch.nn.functional as F

from attentively.attention.positional import (
    PRECOMPUTED,
    ALiBi,
    AttentionPosition,
    LearnedPositionalEmbedding,
    RelativePositionalEmbedding,
    RotaryPositionalEmbedding,
    SinusoidalPositionalEncoding,
    alibi_slopes,
    sinusoids,
    steps_to_keys,
)

BATCH, HEADS, LENGTH, D_HEAD = 2, 3, 7, 10


def vectors(length=LENGTH, d_head=D_HEAD, heads=HEADS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, heads, length, d_head, generator=generator)


# Sinusoids


def test_sinusoids_by_hand_for_four_components():
    """The first pair turns by 1 radian a token, the second by 10000^(-2/4) = 1/100."""
    expected = [
        [0.0, 1.0, 0.0, 1.0],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)],
    ]
    torch.testing.assert_close(sinusoids(3, 4), torch.tensor(expected))
    torch.testing.assert_close(
        sinusoids(2, 4)[1], torch.tensor([0.8415, 0.5403, 0.0100, 0.99995]), atol=5e-5, rtol=0
    )


@pytest.mark.parametrize("d_model", [1, 2, 5, 11, 64])
def test_sinusoids_equal_the_equation_one_by_one(d_model):
    codes = sinusoids(LENGTH, d_model)
    assert codes.shape == (LENGTH, d_model)
    for p in range(LENGTH):
        for component in range(d_model):
            angle = p / 10000 ** ((component - component % 2) / d_model)
            expected = math.cos(angle) if component % 2 else math.sin(angle)
            assert codes[p, component].item() == pytest.approx(expected, abs=1e-6)


def one_exponent_for_each_component(length, d_model):
    """A broken twin, often seen: sine and cosine of a pair turn at different speeds."""
    angles = torch.arange(length).unsqueeze(1) / 10000 ** (torch.arange(d_model) / d_model)
    codes = angles.sin()
    codes[:, 1::2] = angles[:, 1::2].cos()
    return codes


def a_shift_is_a_rotation(make) -> bool:
    """P[p + k] = R P[p] with one rotation R of each pair, the same for every p."""
    d_model, shift = 6, 5
    codes = make(50, d_model)
    for pair in range(d_model // 2):
        angle = shift / 10000 ** (2 * pair / d_model)
        # (sin a, cos a) becomes (sin (a + b), cos (a + b)).
        rotation = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        )
        points = codes[:, 2 * pair : 2 * pair + 2]
        if not torch.allclose(points[shift:], points[:-shift] @ rotation.T, atol=1e-5):
            return False
    return True


def test_a_relative_shift_is_a_rotation():
    assert a_shift_is_a_rotation(sinusoids)
    assert not a_shift_is_a_rotation(one_exponent_for_each_component)


def test_codes_have_one_length_and_differ():
    codes = sinusoids(1000, 64)
    torch.testing.assert_close(codes.norm(dim=1), torch.full((1000,), 32**0.5))
    gaps = torch.cdist(codes, codes) + 100 * torch.eye(1000)
    assert gaps.min() > 0.1


def test_why_both_sine_and_cosine():
    """At d = 512, component 100 has a period of about 38; its sine cannot tell 22 from 35."""
    codes = sinusoids(100, 512)
    assert 2 * math.pi * 10000 ** (100 / 512) == pytest.approx(38, abs=0.1)
    assert codes[22, 100].item() == pytest.approx(codes[60, 100].item(), abs=0.01)
    assert codes[22, 100].item() == pytest.approx(codes[35, 100].item(), abs=0.01)
    assert codes[22, 100].item() != pytest.approx(codes[25, 100].item(), abs=0.3)
    assert codes[22, 101].item() == pytest.approx(codes[60, 101].item(), abs=0.01)
    assert abs(codes[22, 101] - codes[35, 101]).item() > 1.5  # the cosine can


def added(kind, d_model=5):
    return kind(d_model) if kind is SinusoidalPositionalEncoding else kind(d_model, 50)


class StartsAgain(SinusoidalPositionalEncoding):
    """A broken twin: every piece begins at position 0."""

    def forward(self, x, first=0):
        return super().forward(x)


def pieces_equal_the_whole(encoding) -> bool:
    x = torch.randn(BATCH, LENGTH, 5)
    whole = encoding(x)
    pieces = [encoding(x[:, :2]), encoding(x[:, 2:6], first=2), encoding(x[:, 6:], first=6)]
    return torch.allclose(torch.cat(pieces, dim=1), whole, atol=1e-6)


@pytest.mark.parametrize("kind", [SinusoidalPositionalEncoding, LearnedPositionalEmbedding])
def test_pieces_equal_the_whole(kind):
    assert pieces_equal_the_whole(added(kind))


def test_an_encoding_that_starts_again_would_be_seen():
    assert not pieces_equal_the_whole(StartsAgain(5))


def test_sinusoids_from_a_later_position_are_a_slice():
    torch.testing.assert_close(sinusoids(3, 5, first=4), sinusoids(7, 5)[4:])


def test_beyond_the_precomputed_positions_there_are_more():
    x = torch.zeros(1, PRECOMPUTED + 7, 5)
    codes = sinusoids(PRECOMPUTED + 7, 5)
    encoding = SinusoidalPositionalEncoding(5)
    torch.testing.assert_close(encoding(x)[0], codes)
    for first, end in ((PRECOMPUTED - 2, PRECOMPUTED), (PRECOMPUTED - 2, PRECOMPUTED + 7)):
        torch.testing.assert_close(encoding(x[:, first:end], first)[0], codes[first:end])
    rotary, q = RotaryPositionalEmbedding(D_HEAD), vectors()
    for first in (PRECOMPUTED - LENGTH, PRECOMPUTED - 2, PRECOMPUTED):
        torch.testing.assert_close(
            rotary.turn(q, first), by_complex_numbers(q, first), atol=1e-3, rtol=1e-3
        )


@pytest.mark.parametrize("kind", [SinusoidalPositionalEncoding, LearnedPositionalEmbedding])
def test_what_is_added_depends_on_the_position_alone(kind):
    encoding = added(kind)
    nothing = encoding(torch.zeros(BATCH, LENGTH, 5))
    x = torch.randn(BATCH, LENGTH, 5)
    torch.testing.assert_close(encoding(x) - x, nothing)
    assert torch.equal(nothing[0], nothing[1])
    assert torch.cdist(nothing[0], nothing[0]).add(torch.eye(LENGTH)).min() > 0
    assert encoding(x[:, :0]).shape == (BATCH, 0, 5)


def test_sines_and_cosines_are_not_learned_and_not_stored():
    for module in (SinusoidalPositionalEncoding(5), RotaryPositionalEmbedding(D_HEAD)):
        assert list(module.parameters()) == []
        assert module.state_dict() == {}


def test_learned_positions_are_rows_of_a_table():
    encoding = LearnedPositionalEmbedding(5, max_len=11)
    assert {name: tuple(p.shape) for name, p in encoding.named_parameters()} == {
        "table.weight": (11, 5)
    }
    encoding(torch.zeros(BATCH, 3, 5), first=4).sum().backward()
    rows = encoding.table.weight.grad.abs().sum(dim=1) > 0
    assert rows.tolist() == [False] * 4 + [True] * 3 + [False] * 4


def test_learned_positions_begin_as_in_their_papers():
    gehring = LearnedPositionalEmbedding(31, max_len=499).table.weight
    assert gehring.std().item() == pytest.approx(0.1, rel=0.03)
    lengths = RelativePositionalEmbedding(31, 249).table.weight.norm(dim=1)
    assert lengths.mean().item() == pytest.approx(1, rel=0.03)


def test_learned_positions_end():
    encoding = LearnedPositionalEmbedding(5, max_len=11)
    encoding(torch.zeros(1, 11, 5))
    encoding(torch.zeros(1, 1, 5), first=10)
    with pytest.raises(ValueError, match="a sequence of 12 tokens is longer than max_len=11"):
        encoding(torch.zeros(1, 12, 5))
    with pytest.raises(ValueError, match="a sequence of 12 tokens is longer than max_len=11"):
        encoding(torch.zeros(1, 1, 5), first=11)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_precisions_stay_what_they_are(dtype):
    x = torch.zeros(1, LENGTH, 5, dtype=dtype)
    assert SinusoidalPositionalEncoding(5)(x).dtype == dtype
    q = vectors().to(dtype)
    assert RotaryPositionalEmbedding(D_HEAD).turn(q, 0).dtype == dtype
    assert ALiBi(HEADS).bias(q, LENGTH).dtype == dtype


# Rotary


def by_complex_numbers(x, first=0):
    """The paper's section 3.2.1: a pair is a complex number, times e^(i p theta)."""
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    p = torch.arange(first, first + x.shape[-2], dtype=torch.float64).unsqueeze(1)
    theta = 10000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    return torch.view_as_real(pairs * torch.exp(1j * p * theta)).flatten(-2).to(x.dtype)


def test_rotary_by_hand():
    """At position 1 of two components, (1, 0) becomes (cos 1, sin 1)."""
    x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]])
    expected = [[1, 0], [math.cos(1), math.sin(1)], [-math.sin(2), math.cos(2)]]
    torch.testing.assert_close(
        RotaryPositionalEmbedding(2).turn(x, 0)[0, 0], torch.tensor(expected)
    )


@pytest.mark.parametrize("first", [0, 13])
def test_rotary_equals_complex_multiplication(first):
    rotary, x = RotaryPositionalEmbedding(D_HEAD), vectors().requires_grad_()
    direction = vectors(seed=1)
    ours, expected = rotary.turn(x, first), by_complex_numbers(x, first)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad((ours * direction).sum(), x)
    (expected_gradient,) = torch.autograd.grad((expected * direction).sum(), x)
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-5, rtol=1e-5)


class TurnsHalfOfAPair(RotaryPositionalEmbedding):
    """A broken twin: the second of a pair turns with the next position's angle."""

    def turn(self, x, first):
        turned, later = super().turn(x, first), super().turn(x, first + 1)
        even = torch.arange(self.d_head) % 2 == 0
        return torch.where(even, turned, later)


class GrowsWithPosition(RotaryPositionalEmbedding):
    """A broken twin: adds the angle's sine where it should turn."""

    def turn(self, x, first):
        return x + sinusoids(x.shape[2], self.d_head, first)


def score_depends_on_the_difference_alone(kind) -> bool:
    rotary = kind(D_HEAD)
    q, k = vectors(length=1), vectors(length=1, seed=1)

    def score(m, n):
        return (rotary.turn(q, m) * rotary.turn(k, n)).sum(dim=-1)

    moved = [(0, 0, 17), (5, 2, 11), (2, 5, 30)]
    same = all(
        torch.allclose(score(m, n), score(m + shift, n + shift), atol=1e-4) for m, n, shift in moved
    )
    assert not torch.allclose(score(5, 2), score(5, 3), atol=1e-3)  # and does depend on it
    assert not torch.allclose(score(5, 2), score(2, 5), atol=1e-3)  # and on its sign
    return same


def test_the_score_of_turned_vectors_depends_on_the_difference_alone():
    assert score_depends_on_the_difference_alone(RotaryPositionalEmbedding)
    assert not score_depends_on_the_difference_alone(GrowsWithPosition)


def keeps_lengths(kind) -> bool:
    x = vectors()
    turned = kind(D_HEAD).turn(x, 3)
    assert not torch.allclose(turned, x, atol=0.1)
    return torch.allclose(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-5)


def test_turning_keeps_lengths():
    assert keeps_lengths(RotaryPositionalEmbedding)
    assert not keeps_lengths(GrowsWithPosition)
    assert not keeps_lengths(TurnsHalfOfAPair)


def test_rotary_in_pieces_equals_the_whole():
    rotary, x = RotaryPositionalEmbedding(D_HEAD), vectors()
    pieces = [rotary.turn(x[:, :, :4], 0), rotary.turn(x[:, :, 4:], 4)]
    torch.testing.assert_close(torch.cat(pieces, dim=2), rotary.turn(x, 0))


def test_llama_pairs_halves_which_is_the_same_in_another_order():
    from transformers.models.llama import modeling_llama

    q, k = vectors(), vectors(seed=1)
    angles = by_complex_numbers(torch.tensor([1.0, 0.0]).repeat(LENGTH, D_HEAD // 2))
    cos, sin = angles[:, 0::2].repeat(1, 2), angles[:, 1::2].repeat(1, 2)
    order = torch.cat([torch.arange(0, D_HEAD, 2), torch.arange(1, D_HEAD, 2)])
    expected, _ = modeling_llama.apply_rotary_pos_emb(
        q[..., order], k[..., order], cos[None], sin[None]
    )
    ours = RotaryPositionalEmbedding(D_HEAD).turn(q, 0)
    torch.testing.assert_close(ours[..., order], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("d_head", [7, 1, 0])
def test_rotary_refuses_what_has_no_pairs(d_head):
    with pytest.raises(ValueError, match=f"d_head={d_head} does not split into pairs"):
        RotaryPositionalEmbedding(d_head)


# ALiBi


def test_slopes_of_powers_of_two():
    assert alibi_slopes(8) == [2**-power for power in range(1, 9)]
    assert alibi_slopes(16) == [2 ** (-power / 2) for power in range(1, 17)]
    assert alibi_slopes(2) == [2**-4, 2**-8]
    assert alibi_slopes(1) == [2**-8]


def test_slopes_of_other_numbers_of_heads():
    """Three heads: those of two, and of the four (1/4, 1/16, 1/64, 1/256) the first."""
    assert alibi_slopes(3) == [2**-4, 2**-8, 2**-2]
    # Six: those of four, and of the eight (1/2, 1/4, 1/8, ...) the first and the third.
    assert alibi_slopes(6) == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 20])
def test_slopes_are_those_of_other_implementations(num_heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    bloom = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), num_heads, torch.float32)
    torch.testing.assert_close(torch.tensor(alibi_slopes(num_heads)), bloom[:, 0, 1])
    assert len(set(alibi_slopes(num_heads))) == num_heads


def test_alibi_by_hand():
    """Two queries, the last of four positions; slopes 1/16 and 1/256."""
    (bias,) = ALiBi(2).bias(vectors(length=2, heads=2), 4)
    distances = torch.tensor([[2.0, 1, 0, 1], [3, 2, 1, 0]])
    torch.testing.assert_close(bias, torch.stack([-distances / 16, -distances / 256]))


def test_alibi_learns_and_stores_nothing():
    alibi = ALiBi(5)
    assert list(alibi.parameters()) == []
    assert alibi.state_dict() == {}


def test_alibi_refuses_other_heads():
    with pytest.raises(ValueError, match="the queries have 3 heads, but expected num_heads=5"):
        ALiBi(5).bias(vectors(), LENGTH)
    with pytest.raises(ValueError, match="num_heads=0 must be positive"):
        ALiBi(0)


# Relative positions


def relative_by_the_equation(position, query, key):
    """Equation 4 of Shaw et al., pair by pair, without the term of the key alone."""
    k, d_head = position.max_distance, query.shape[-1]
    scores = query.new_zeros(*query.shape[:3], key.shape[2])
    offset = key.shape[2] - query.shape[2]
    for i in range(query.shape[2]):
        for j in range(key.shape[2]):
            step = max(-k, min(k, j - (i + offset)))
            a = position.table.weight[step + k]
            scores[:, :, i, j] = (query[:, :, i] * (key[:, :, j] + a)).sum(-1) / math.sqrt(d_head)
    return scores


@pytest.mark.parametrize(("queries", "max_distance"), [(LENGTH, 2), (2, 3), (1, 100), (LENGTH, 0)])
def test_relative_positions_equal_the_equation(queries, max_distance):
    position = RelativePositionalEmbedding(D_HEAD, max_distance)
    query, key = vectors(length=queries).requires_grad_(), vectors(seed=1)
    wanted, direction = [query, position.table.weight], torch.randn(queries, LENGTH)
    scores = query @ key.mT / math.sqrt(D_HEAD) + position.bias(query, LENGTH)
    expected = relative_by_the_equation(position, query, key)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(
        torch.autograd.grad((scores * direction).sum(), wanted),
        torch.autograd.grad((expected * direction).sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_relative_positions_clip():
    position = RelativePositionalEmbedding(D_HEAD, 2)
    bias = position.bias(vectors(), LENGTH)
    # From the last query, positions 0 to 4 are two steps back or more.
    torch.testing.assert_close(bias[:, :, -1, :5], bias[:, :, -1, :1].expand(-1, -1, 5))
    assert not torch.allclose(bias[:, :, -1, 4], bias[:, :, -1, 5])


def test_without_any_distance_softmax_sees_no_positions():
    """The paper's k = 0: one vector for all keys, which cancels."""
    bias = RelativePositionalEmbedding(D_HEAD, 0).bias(vectors(), LENGTH)
    torch.testing.assert_close(
        F.softmax(bias, dim=-1), torch.full((BATCH, HEADS, LENGTH, LENGTH), 1 / LENGTH)
    )


def test_relative_positions_have_one_table():
    position = RelativePositionalEmbedding(D_HEAD, 3)
    assert {name: tuple(p.shape) for name, p in position.named_parameters()} == {
        "table.weight": (7, D_HEAD)
    }


# All of them


POSITIONS = {
    "rotary": lambda: RotaryPositionalEmbedding(D_HEAD),
    "alibi": lambda: ALiBi(HEADS),
    "relative": lambda: RelativePositionalEmbedding(D_HEAD, 2),
}


class CountsFromTheFirst(ALiBi):
    """A broken twin: takes the queries for the first positions, wrong where a cache came before."""

    def bias(self, query, key_len):
        whole = query.new_zeros(*query.shape[:2], key_len, query.shape[-1])
        return super().bias(whole, key_len)[:, :, : query.shape[2]]


def scores(position, query, key, first):
    """Return the scores of queries that are the last positions."""
    turned = position.turn(query, first + key.shape[2] - query.shape[2])
    turned_key = position.turn(key, first)
    bias = position.bias(turned, key.shape[2])
    return turned @ turned_key.mT / math.sqrt(D_HEAD) + (0 if bias is None else bias)


def last_queries_alone_score_the_same(position) -> bool:
    query, key = vectors(), vectors(seed=1)
    whole = scores(position, query, key, 0)
    last = scores(position, query[:, :, -2:], key, 0)
    return torch.allclose(last, whole[:, :, -2:], atol=1e-5)


@pytest.mark.parametrize("make", POSITIONS.values(), ids=POSITIONS.keys())
def test_the_last_queries_alone_score_the_same(make):
    assert last_queries_alone_score_the_same(make())


def test_a_position_that_counts_from_the_first_would_be_seen():
    assert not last_queries_alone_score_the_same(CountsFromTheFirst(HEADS))


@pytest.mark.parametrize("make", POSITIONS.values(), ids=POSITIONS.keys())
def test_scores_depend_on_the_difference_alone_and_do_depend_on_it(make):
    """The same query and the same key everywhere: a score for every number of steps."""
    position = make()
    query = vectors(length=1).expand(-1, -1, LENGTH, -1)
    key = vectors(length=1, seed=1).expand(-1, -1, LENGTH, -1)
    table = scores(position, query, key, 3)
    torch.testing.assert_close(table[..., 1:, 1:], table[..., :-1, :-1], atol=1e-5, rtol=1e-5)
    assert (table[..., -1, -1] - table[..., -1, -2]).abs().min() > 1e-4


def test_an_attention_position_by_itself_changes_nothing():
    position, x = AttentionPosition(), vectors()
    assert torch.equal(position.turn(x, 5), x)
    assert position.bias(x, LENGTH) is None
    assert ALiBi(HEADS).turn(x, 5) is x
    assert RelativePositionalEmbedding(D_HEAD, 2).turn(x, 5) is x
    assert RotaryPositionalEmbedding(D_HEAD).bias(x, LENGTH) is None


def test_steps_to_keys():
    assert steps_to_keys(2, 4).tolist() == [[-2, -1, 0, 1], [-3, -2, -1, 0]]
    assert steps_to_keys(0, 2).shape == (0, 2)
    with pytest.raises(
        ValueError, match="query_len=5 queries cannot be the last of key_len=4 positions"
    ):
        steps_to_keys(5, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SinusoidalPositionalEncoding(0), "d_model=0 must be positive"),
        (lambda: LearnedPositionalEmbedding(5, 0), "d_model=5 and max_len=0 must both be positive"),
        (lambda: RelativePositionalEmbedding(5, -1), "max_distance=-1 not negative"),
        (lambda: RelativePositionalEmbedding(0, 1), "d_head=0 must be positive"),
    ],
)
def test_impossible_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("given_to", "numbers", "message"),
    [
        (SinusoidalPositionalEncoding(1), 5, "the input has dimension 5, but expected d_model=1"),
        (SinusoidalPositionalEncoding(5), 1, "the input has dimension 1, but expected d_model=5"),
        (LearnedPositionalEmbedding(1, 7), 5, "the input has dimension 5, but expected d_model=1"),
        (lambda x: RotaryPositionalEmbedding(2).turn(x.unsqueeze(1), 0), 6, "expected d_head=2"),
        (lambda x: RotaryPositionalEmbedding(6).turn(x.unsqueeze(1), 0), 2, "expected d_head=6"),
    ],
)
def test_vectors_of_another_size_are_refused(given_to, numbers, message):
    """PyTorch would stretch an axis of 1, silently."""
    with pytest.raises(ValueError, match=message):
        given_to(torch.zeros(BATCH, LENGTH, numbers))


@pytest.mark.gpu
@pytest.mark.parametrize("make", POSITIONS.values(), ids=POSITIONS.keys())
def test_the_gpu_says_the_same(make):
    position, query, key = make(), vectors(), vectors(seed=1)
    expected = scores(position, query, key, 3)
    there = scores(position.to("cuda"), query.cuda(), key.cuda(), 3)
    torch.testing.assert_close(there.cpu(), expected, atol=1e-4, rtol=1e-3)
    x = torch.randn(BATCH, LENGTH, 5)
    for encoding in (SinusoidalPositionalEncoding(5), LearnedPositionalEmbedding(5, 11)):
        torch.testing.assert_close(
            encoding.to("cuda")(x.cuda(), 2).cpu(), encoding.to("cpu")(x, 2), atol=1e-5, rtol=1e-5
        )
