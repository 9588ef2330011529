"""The checks of 21_since_2017: what they expect is what the package does."""

import math

import pytest
import torch
from assignments import Assignment

from attentively.attention.masks import causal_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import ALiBi, RotaryPositionalEmbedding, alibi_slopes
from attentively.checks import since_2017 as checks
from attentively.checks.recordings import load_questions
from attentively.checks.since_2017.score_encodings import DISTANCE, NOTHING, encodings
from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel

questions = load_questions(Assignment("21_since_2017").questions)

LONGEST = 300


def test_neighbours_turn_as_in_the_package():
    x = torch.randn(2, 3, 5, 8)
    assert torch.allclose(
        questions.rotate(x, 7), RotaryPositionalEmbedding(8).turn(x, 7), atol=1e-5
    )


@pytest.mark.parametrize("turn", [questions.rotate, questions.rotate_halves])
def test_either_pairing_gives_scores_of_the_distance(turn):
    q, k = torch.randn(2, 1, 1, 1, 6)
    one, other = ((turn(q, m) * turn(k, n)).sum() for m, n in ((3, 1), (90, 88)))
    assert torch.isclose(one, other.to(one.dtype), atol=1e-4)


def test_the_bias_is_the_packages_behind_a_causal_mask():
    assert questions.slopes(8).tolist() == pytest.approx(alibi_slopes(8))
    query = torch.zeros(1, 4, 3, 2)
    bias = ALiBi(4).bias(query, 5)[0].masked_fill(~causal_mask(5)[0, 2:], -math.inf)
    assert torch.equal(questions.alibi(4, 3, 5), bias)


def test_equal_heads_are_averaged_to_themselves(monkeypatch):
    checkpoint = checks.load_pretrained(checks.TRANSFORMER)
    for attention in checks.seats(checkpoint.model).values():
        for layer in (attention.key_projection, attention.value_projection):
            for each in (layer.weight, layer.bias):
                heads = each.data.unflatten(0, (2, 2, attention.d_head))
                heads[:, 1] = heads[:, 0]
    ids = torch.randint(4, 20, (1, 5))
    seen = torch.ones(1, 1, 5, dtype=torch.bool)
    expected = checkpoint.model.encode(ids, seen).outputs
    monkeypatch.setattr(checks, "load_pretrained", lambda _: checkpoint)
    grouped = checks.in_groups(questions.GroupedQueryAttention, 2)
    assert not [*checks.seats(grouped.model)]
    assert torch.allclose(grouped.model.encode(ids, seen).outputs, expected, atol=1e-5)


def deviation(scores, q, k):
    """Return how far scores of one distance are apart, also from list to list."""
    places = torch.arange(LONGEST)
    table = scores(q, k, places)
    first = torch.cat([table[0].flip(0), table[1:, 0]])
    apart = table - first[places.unsqueeze(1) - places + LONGEST - 1]
    half = table[:150, :150] - scores(q, k, places[:150])
    gaps = table[::3, ::3] - scores(q, k, places[::3])
    others = max(each.abs().max() for each in (apart, half, gaps))
    return others, max(others, (table - table[0, 0]).abs().max())


@pytest.mark.parametrize(("scores", "right"), [each[:2] for each in encodings()], ids=str)
def test_encodings_are_far_from_the_line_between_rounding_and_fault(scores, right):
    torch.manual_seed(3)
    for _ in range(20):
        apart, spread = deviation(scores, *torch.randn(2, 8))
        assert (apart < 1e-3) if right in (DISTANCE, NOTHING) else (apart > 0.02)
        assert (spread < 1e-3) if right == NOTHING else (spread > 0.02)


def test_bytes_are_those_of_a_cache():
    config = LanguageModelConfig(
        vocab_size=7, d_model=24, num_heads=6, num_kv_heads=2, num_layers=3
    )
    caches = LanguageModel(config).start(torch.zeros(5, 11, dtype=torch.long)).caches
    held = sum(t.nbytes for cache in caches for t in (cache.keys, cache.values))
    assert (
        questions.cache_bytes(questions.cache_model(3, 6, 2, 4, bytes_per_number=4), 11, 5) == held
    )


MODELS = [questions.SMALL, questions.WINDOWED, questions.MIXED, questions.WITHOUT]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_longest_text_fits_and_a_longer_one_does_not(model, rows):
    for memory in range(0, 6000, 97):
        found = questions.longest_text(model, memory, rows)
        if found is None:
            assert questions.cache_bytes(model, 10**9, rows) <= memory
        else:
            assert (
                questions.cache_bytes(model, found, rows)
                <= memory
                < questions.cache_bytes(model, found + 1, rows)
            )


def test_grouped_queries_are_multi_head_and_multi_query_attention_at_the_ends():
    x = torch.randn(2, 5, 12)
    for kv_heads in (6, 1):
        ours = MultiHeadAttention(12, 6, num_kv_heads=kv_heads)
        theirs = questions.GroupedQueryAttention(12, 6, kv_heads)
        theirs.load_state_dict(ours.state_dict())
        assert torch.allclose(theirs(x, x, x)[0], ours(x, x, x)[0], atol=1e-6)
    whole = torch.nn.MultiheadAttention(12, 6, batch_first=True)
    own = questions.GroupedQueryAttention(12, 6, 6)
    own.load_state_dict(
        dict(
            zip(
                [f"{n}_projection.weight" for n in ("query", "key", "value")],
                whole.in_proj_weight.chunk(3),
                strict=True,
            )
        )
        | dict(
            zip(
                [f"{n}_projection.bias" for n in ("query", "key", "value")],
                whole.in_proj_bias.chunk(3),
                strict=True,
            )
        )
        | {f"output_projection.{n}": t for n, t in whole.out_proj.state_dict().items()}
    )
    assert torch.allclose(own(x, x, x)[0], whole(x, x, x)[0], atol=1e-6)
