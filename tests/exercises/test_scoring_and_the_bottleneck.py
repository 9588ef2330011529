"""The checks of 06_scoring_and_the_bottleneck, beyond what its bank of answers proves."""

import itertools
import random

import pytest
import torch
from assignments import Assignment

from attentively.checks import scoring_and_the_bottleneck as checks
from attentively.checks.edits import edited
from attentively.checks.recordings import load_questions
from attentively.scoring import bootstrap
from attentively.scoring.metrics import bleu_from_counts

questions = load_questions(Assignment("06_scoring_and_the_bottleneck").questions)


def test_ready_scores(capsys):
    checks.ready()
    assert "against itself: 100" in capsys.readouterr().out


def test_the_score_is_sacrebleus_in_all_cases_and_on_a_hundred_real_outputs():
    texts = [[*case.inputs.values()] for case in questions.bleu_cases(thorough=True)]
    texts += [checks.outputs(100, 3, model) for model in ("toy-fixed", "toy-additive")]
    for each in texts:
        assert questions.bleu(*each) == pytest.approx(checks.sacrebleu_score(*each), abs=1e-3)


def test_the_bootstrap_is_the_packages_on_the_same_samples():
    counts = [checks.count(*checks.outputs(40, 1, m)) for m in ("toy-fixed", "toy-additive")]
    indices = checks.bootstrap_samples(80, 40)

    def score(sums):
        return bleu_from_counts([int(each) for each in sums]).score

    samples, tensors = torch.tensor(indices), [torch.tensor(each) for each in counts]
    for each, tensor in zip(counts, tensors, strict=True):
        scores = bootstrap.resampled_scores(tensor, score, samples)
        found = questions.interval(each, indices, checks.bleu_of_counts)
        assert found == pytest.approx(bootstrap.interval(scores), rel=1e-5)
    wins = bootstrap.compare(*reversed(tensors), score, samples).wins
    assert questions.share_of_wins(*reversed(counts), indices, checks.bleu_of_counts) == wins


# What the checks plant


@pytest.mark.parametrize("system", [*checks._PLANTED, *checks._FURTHER_PLANTED])
def test_a_fault_shows_with_room_to_spare(system):
    """So that any sensible threshold passes, wherever between the two sides it lies."""
    found = {fault: checks._report(fault, *system) for fault in checks.FAULTS}
    assert found["omission"]["length_ratio"] < 0.8
    assert found["repetition"]["length_ratio"] > 1.2
    for fault in ("order", "endings", "words"):
        assert found[fault]["length_ratio"] == 1
    single = {fault: report["precisions"][0] for fault, report in found.items()}
    assert max(single["endings"], single["words"]) < 85 < 97 < single["order"]
    assert found["endings"]["chrf"] - single["endings"] > 5
    assert found["words"]["chrf"] - single["words"] < -5
    assert all(report["bleu"] < 85 for report in found.values())
    # Nothing is exactly right: the other small errors are there.
    assert single["order"] < 100
    assert 97 < single["omission"] < 100


def test_the_table_in_the_notebook_shows_the_faults_as_they_are_planted():
    words = ["deux", "filles", "voient", "la", "grande", "maison", "rouge"]
    dice = random.Random(0)
    made = {fault: " ".join(checks._spoil(words, fault, words, dice)) for fault in checks.FAULTS}
    assert made["omission"] == "deux filles voient"
    assert made["repetition"] == " ".join(words) + " la grande maison rouge"
    assert made["endings"] == "deuxe fille voiente la grand maisone roug"
    assert sorted(made["order"].split()) == sorted(words)
    assert made["words"].split()[3] == "la"


def test_the_three_systems_have_three_faults():
    assert [questions.diagnose(report) for report in checks.reports().values()] == [
        fault for fault, _ in checks._SYSTEMS.values()
    ]
    assert len({fault for fault, _ in checks._SYSTEMS.values()}) == 3
    for name in checks._SYSTEMS:
        wrote, true = checks.sentence_of(name)
        assert wrote != true


def kept(order, reference):
    return [questions.clipped_matches(order, reference, n)[0] for n in (1, 2, 3, 4)]


@pytest.mark.parametrize(("hypothesis", "reference"), checks._NONSENSE_CASES)
def test_a_free_cut_costs_nothing_and_without_one_there_is_no_other_order(hypothesis, reference):
    hypothesis, reference = hypothesis.split(), reference.split()
    before = kept(hypothesis, reference)
    cuts = checks._free_cuts(hypothesis, reference)
    for place in cuts:
        turned = hypothesis[place:] + hypothesis[:place]
        assert all(map(int.__ge__, kept(turned, reference), before))
    if not cuts:
        for order in itertools.permutations(hypothesis):
            if list(order) != hypothesis:
                assert not all(map(int.__ge__, kept(list(order), reference), before))


def test_nonsense_scores_as_well_as_the_translation():
    texts, references = checks.outputs(100, 3)
    pairs = zip(texts, references, strict=True)
    turned = [" ".join(questions.nonsense(h.split(), r.split())) for h, r in pairs]
    assert sum(a != b for a, b in zip(turned, texts, strict=True)) > 90
    scores = [checks.sacrebleu_score(each, references) for each in (texts, turned)]
    assert scores[1] >= scores[0]


SCORES = edited(questions.probe, "scores.argmax(dim=1) -> scores")


@pytest.mark.parametrize("case", [*questions.probe_cases(thorough=True)])
def test_no_label_of_a_probe_is_a_near_tie(case):
    """So that 32 bits, and any order of summation, give the same labels."""
    best = SCORES(*case.inputs.values()).topk(2, dim=1).values
    assert float((best[:, 0] - best[:, 1]).min()) > 1e-3


def test_the_vector_holds_the_first_noun_and_loses_those_behind():
    def share_of(clauses, place):
        x, nouns = checks.contexts(500, clauses)
        rows = [i for i, found in enumerate(nouns) if len(found) > 1]
        labels = torch.tensor([nouns[i][place] for i in rows])
        x, half = x[rows], len(rows) // 2
        order = torch.randperm(half, generator=torch.Generator().manual_seed(0))

        def predict(x, labels, new):
            return questions.probe(x, labels, new, 1.0)

        parts = (x[:half], labels[:half], x[half:], labels[half:])
        return [float(share) for share in questions.evidence(predict, *parts, order)]

    short, long = share_of(1, 0), share_of(3, 0)
    between = share_of(3, 1)
    assert short[0] > long[0] > between[0] > 2 * max(between[1:])
