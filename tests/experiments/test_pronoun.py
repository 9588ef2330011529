"""The experiment on pronouns: the interventions act where they say, and on nothing else."""

import pytest
import torch

from attentively.analysis.interventions import knock_out
from attentively.data import toy
from attentively.experiments import pronoun
from attentively.models import checkpoints


@pytest.fixture(scope="module")
def trained():
    return checkpoints.load_pretrained("toy-transformer")


@pytest.fixture(scope="module")
def pairs():
    return pronoun.minimal_pairs(10)


PAIR = toy.translate("the animal did not cross the street because it was too tired")


def test_positions_of_the_running_example():
    assert [PAIR.src[i] for i in pronoun.nouns(PAIR)] == ["animal", "street"]
    assert PAIR.src[pronoun.adjective(PAIR)] == "tired"
    assert PAIR.src[pronoun.it(PAIR)] == "it"
    assert PAIR.tgt[pronoun.pronoun(PAIR)] == "il"
    before = [pronoun.before_noun(PAIR, noun) for noun in pronoun.nouns(PAIR)]
    assert [PAIR.tgt[i] for i in before] == ["animal", "rue"]  # what these positions predict


def test_the_antecedent_is_the_first_of_the_nouns():
    other = toy.translate("the animal did not cross the street because it was too wide")
    assert pronoun.nouns(other) == pronoun.nouns(PAIR)[::-1]


@pytest.mark.parametrize("other_gender", [True, False])
def test_a_noun_is_swapped_for_one_of_the_wanted_gender(other_gender):
    noun = pronoun.nouns(PAIR)[0]
    found = pronoun.swap_noun(PAIR, noun, other_gender)
    changed = [i for i, (a, b) in enumerate(zip(PAIR.src, found.src, strict=True)) if a != b]
    assert changed == [noun]
    assert ("elle" in found.tgt) is other_gender


def test_a_swapped_adjective_keeps_the_antecedent(pairs):
    found = [(pair, pronoun.swap_adjective(pair)) for pair in pairs]
    assert any(new for _, new in found)
    for old, new in found:
        if new:
            assert new.src[:-1] == old.src[:-1]
            assert new.src[-1] != old.src[-1]
            assert ("il" in new.tgt) == ("il" in old.tgt)


def test_edges_are_those_of_each_sentence(trained, pairs):
    test = pronoun.PronounTest.of(trained, pairs)
    edges = test.edges("cross", lambda pair: [(pronoun.pronoun(pair), pronoun.it(pair))])
    expected = [[i, pronoun.pronoun(pair), pronoun.it(pair)] for i, pair in enumerate(pairs)]
    assert edges.nonzero().tolist() == expected
    assert test.only_at([2] * len(pairs)).nonzero()[:, 1].tolist() == [2] * len(pairs)


def test_the_pretrained_model_depends_on_the_edge_to_the_adjective(trained, pairs):
    rows = {
        (row["attention"], row["layers"][-1], row["edges"], row["heads"]): row
        for row in pronoun.knockout(trained, pairs)
    }
    assert len(rows) == len(pronoun.EDGE_GROUPS)
    decisive = rows["cross", 1, "pronoun → adjective", "strongest"]
    assert decisive["strongest_head"] == 3
    assert decisive["weight"] > 0.9
    assert decisive["accuracy"] < 0.9
    for control in (
        ("cross", 1, "pronoun → adjective", "others"),
        ("cross", 1, "pronoun → it", "all"),
        ("encoder", 2, "all between different positions", "all"),
    ):
        assert rows[control]["changed"] == 0


def test_patching_names_layers_and_heads_from_one(trained, pairs):
    rows = pronoun.patching(trained, pairs)
    assert len(rows) == 4 * (4 + 1)
    assert {row["layer"] for row in rows} == {1, 2}
    assert {row["head"] for row in rows} == {1, 2, 3, 4, "all"}
    best = pronoun.strongest_heads(rows)["adjective"]
    assert best == {"attention": "cross", "layer": 1, "head": 3, "changed": 1.0}


def test_patching_with_its_own_outputs_changes_nothing(trained, pairs):
    test = pronoun.PronounTest.of(trained, pairs)
    own = pronoun.outputs(test)
    at, usual = test.at.tolist(), test.prefers_il()
    assert not pronoun._changed(list(own), test, own, at, usual).any()


def test_a_broken_position_is_seen(trained, pairs, monkeypatch):
    """One position too late, the knockout of the decisive edge has no effect."""
    right = pronoun.pronoun
    test = pronoun.PronounTest.of(trained, pairs)
    heads = pronoun.heads_of(test.model, "cross", 1)
    effects = []
    for shift in (0, 1):
        edges = test.edges(
            "cross", lambda pair, shift=shift: [(right(pair) + shift, pronoun.adjective(pair))]
        )
        with knock_out(test.model, heads, edges):
            effects.append(pronoun.share(test.prefers_il() != test.is_il()))
    assert effects[0] > 0.2
    assert effects[1] == 0


def test_a_run_resumes_in_its_folder(tmp_path):
    first = pronoun.trained_model(1, True, tmp_path)
    again = pronoun.trained_model(1, True, tmp_path)
    assert again.provenance["seconds"] == first.provenance["seconds"]
    for one, other in zip(
        first.model.state_dict().values(), again.model.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)


def test_a_summary_has_one_value_for_each_intervention_and_seed(trained, pairs):
    result = {
        "seed": 0,
        "knockout": pronoun.knockout(trained, pairs),
        "patching": pronoun.patching(trained, pairs),
        "conflicts": pronoun.conflicts(trained, pairs),
    }
    rows = pronoun.summary(result)
    labels = [row["intervention"] for row in rows]
    assert len(set(labels)) == len(labels) == 13
    assert all(0 <= row["value"] <= 1 for row in rows)
