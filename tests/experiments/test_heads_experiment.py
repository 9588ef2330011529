"""The experiment on heads: what a head is worth, and what it looks at."""

import pytest
import torch

from attentively.analysis.pruning import Head, find_heads, silenced
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs
from attentively.experiments import heads, toy_translation
from attentively.generation.generate import translate
from attentively.models.checkpoints import load_pretrained
from attentively.scoring.metrics import exact_match
from attentively.training.trainer import validation_loss


@pytest.fixture(scope="module")
def pairs():
    return toy.load("test", 7, clauses=(1,))


@pytest.fixture(scope="module")
def checkpoint():
    return toy_translation.new_transformer(0, num_heads=2, num_layers=1)


@pytest.fixture(scope="module")
def examples(checkpoint, pairs):
    _, *tokenizers = checkpoint.translator()
    return encode_pairs(toy_translation.as_text(pairs), *tokenizers)


def test_one_reading_tells_the_exact_match_of_greedy_search(pairs):
    """Some of these sentences come out right and some wrong, and both ways count the same."""

    checkpoint = load_pretrained("toy-transformer")
    model, *tokenizers = checkpoint.translator()
    some = [*pairs, *toy.load("test", 13, clauses=(3,))]
    batch = collate(encode_pairs(toy_translation.as_text(some), *tokenizers))
    with silenced(model, heads.by_attention(find_heads(model))["decoder.layers.0.self_attention"]):
        found = translate(checkpoint, [pair.src_text for pair in some], beam_size=1)
        read = heads.read(model, batch)
    right = exact_match([one.text for one in found], [pair.tgt_text for pair in some])
    assert 0 < right < 1
    assert read.exact_match == pytest.approx(right)


def test_a_reading_has_the_loss_of_the_trainer(checkpoint, examples):

    model = checkpoint.model
    assert heads.read(model, collate(examples)).loss == pytest.approx(
        validation_loss(model, examples), rel=1e-5
    )


def test_heads_are_removed_least_missed_first_and_none_twice(checkpoint, examples):
    batch, model = collate(examples), checkpoint.model
    losses = {
        head: heads.without(model, batch, [head])["loss_without"] for head in find_heads(model)
    }
    gone = list(heads.remove_one_by_one(model, batch))
    assert losses[gone[0][0]] == min(losses.values())
    assert sorted(head for head, _ in gone) == sorted(find_heads(model))
    with silenced(model, find_heads(model)):
        assert gone[-1][1] == heads.read(model, batch)
    assert len(list(heads.remove_one_by_one(model, batch, limit=2))) == 2


def places(pair, kind, role):
    found = heads.wanted_places(pair, kind)[role]
    return {(query, key) for query, key in found.nonzero().tolist()}


def test_the_places_in_a_sentence_worked_by_hand():
    pair = toy.translate("the cat drank the milk")  # le chat a bu le lait
    assert pair.tgt == ("le", "chat", "a", "bu", "le", "lait")
    neighbours = {(i, i - 1) for i in range(1, 6)}
    assert places(pair, "encoder", "itself") == {(i, i) for i in range(6)}
    assert places(pair, "encoder", "previous") == neighbours
    assert places(pair, "encoder", "next") == {(key, query) for query, key in neighbours}
    assert places(pair, "encoder", "end token") == {(i, 5) for i in range(5)}
    assert places(pair, "decoder", "previous") == {(i, i - 1) for i in range(1, 7)}
    assert places(pair, "decoder", "start token") == {(i, 0) for i in range(1, 7)}
    say = {(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (5, 4)}
    assert places(pair, "cross", "word to say") == say
    assert places(pair, "cross", "word just said") == {(query + 1, key) for query, key in say}
    assert places(pair, "cross", "end token") == {(i, 5) for i in range(7)}


def test_looks_are_counted_by_hand():
    """Two heads over three words; what is wanted is the word before, which the first lacks."""
    wanted = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0]]).bool()
    may_see = torch.ones(3, 3).tril()
    sure = torch.tensor([[1.0, 0, 0], [0.9, 0.1, 0], [0.2, 0.7, 0.1]])
    unsure = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0.1, 0.5, 0.4]])
    found = heads.count_looks(torch.stack([sure, unsure]), wanted, may_see)
    chance = 1 / 2 + 1 / 3
    expected = torch.tensor([[2, 1.6, chance, 2], [1, 0.9, chance, 2]])
    torch.testing.assert_close(found, expected)


def test_a_head_that_looks_at_the_gold_link_always_points_at_it(
    checkpoint, pairs, examples, monkeypatch
):
    """Maps that are the wanted places themselves, in head 1, and the place after, in head 0."""
    given = {tuple(one.src): pair for one, pair in zip(examples, pairs, strict=True)}

    def perfect(model, example):
        gold = heads.wanted_places(given[tuple(example.src)], "cross")["word to say"].float()
        return {"decoder.layers.0.cross_attention": torch.stack([gold.roll(1, dims=1), gold])}

    monkeypatch.setattr(heads, "maps_of", perfect)
    looks = heads.find_looks(checkpoint, pairs)
    wrong, right = (looks[Head("decoder.layers.0.cross_attention", n)] for n in (0, 1))
    assert right["word to say"].pointing == 1
    assert wrong["word to say"].pointing < 0.3
    assert right["word to say"].queries == sum(len(pair.tgt) for pair in pairs)
    lengths = [(len(pair.tgt), len({tgt for _, tgt in pair.alignment})) for pair in pairs]
    assert all(words == linked for words, linked in lengths)  # every French word has its link
    assert 0 < right["word to say"].chance < 0.5


def test_every_head_of_a_model_is_looked_at(checkpoint, pairs):
    looks = heads.find_looks(checkpoint, pairs[:2])
    assert set(looks) == set(find_heads(checkpoint.model))
    for head, roles in looks.items():
        assert len(roles) == {"encoder": 4, "decoder": 3, "cross": 3}[heads.kind_of(head.attention)]
        assert all(0 <= look.pointing <= 1 and look.weight <= 1.0001 for look in roles.values())


def test_the_maps_are_those_of_the_model(checkpoint, examples):
    found = heads.maps_of(checkpoint.model, examples[0])
    src, tgt = (torch.tensor([ids]) for ids in (examples[0].src, examples[0].tgt[:-1]))
    checkpoint.model.eval()
    maps = checkpoint.model.attention_maps(src, tgt)
    torch.testing.assert_close(found["encoder.layers.0.self_attention"], maps.encoder[0, 0])
    torch.testing.assert_close(found["decoder.layers.0.self_attention"], maps.decoder[0, 0])
    torch.testing.assert_close(found["decoder.layers.0.cross_attention"], maps.cross[0, 0])


def test_the_conditions_differ_in_nothing_but_heads():
    sizes = {
        sum(p.numel() for p in toy_translation.new_transformer(0, **row).model.parameters())
        for row in heads.EXPERIMENT.conditions
    }
    assert len(sizes) == 1
