"""The experiment on fine-tuning: what each method trains, and that its texts are comparable."""

import pytest
import torch

from attentively.experiments import fine_tuning
from attentively.experiments.fine_tuning import (
    METHODS,
    characters,
    evaluate,
    fine_tuned,
    prepared,
    trained_parameters,
)

D_MODEL, LAYERS, VOCABULARY = 128, 4, 69
BLOCK = 4 * 2 * D_MODEL + 2 * 5 * D_MODEL  # rows and columns of the six matrices of a block


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("none", 0),
        ("output layer", VOCABULARY * D_MODEL),
        ("LoRA, rank 1", LAYERS * 2 * 1 * 2 * D_MODEL),
        ("LoRA, rank 4", LAYERS * 2 * 4 * 2 * D_MODEL),
        ("LoRA, rank 16", LAYERS * 2 * 16 * 2 * D_MODEL),
        ("LoRA, rank 4, every layer", LAYERS * 4 * BLOCK),
        ("all parameters", 802_176),
    ],
)
def test_what_each_method_trains_and_that_it_begins_with_the_pretrained_model(method, number):
    model = prepared(method)
    assert trained_parameters(model) == number
    begun = evaluate(model, "new", "validation", quick=True)
    assert begun == evaluate(prepared("none"), "new", "validation", quick=True)


def test_every_method_is_a_condition():
    assert [row["method"] for row in fine_tuning.EXPERIMENT.conditions] == [*METHODS]


def test_fine_tuning_changes_the_trained_parameters_alone():
    before = dict(prepared("LoRA, rank 4").named_parameters())
    model = fine_tuned("LoRA, rank 4", 1e-2, seed=0, quick=True)
    for name, value in model.named_parameters():
        if value.requires_grad:
            assert not torch.equal(value, before[name])
        else:
            assert torch.equal(value, before[name])


def test_the_output_layer_leaves_the_embedding_as_it_was():
    model = fine_tuned("output layer", 1e-2, seed=0, quick=True)
    table = model.decoder.input.embedding.table.weight
    assert torch.equal(table, prepared("none").output.weight)
    assert not torch.equal(model.output.weight, table)


def test_adam_keeps_two_averages_of_what_is_trained(tmp_path):
    row = fine_tuning.measure("LoRA, rank 1", seed=0, quick=True, directory=tmp_path)
    model = prepared("LoRA, rank 1")
    optimizer = torch.optim.Adam(model.parameters())
    model(characters("new", "test", quick=True)[None, :5]).sum().backward()
    optimizer.step()
    averages = [
        value
        for state in optimizer.state.values()
        for name, value in state.items()
        if name != "step"
    ]
    assert sum(each.numel() * each.element_size() for each in averages) == row["optimizer_bytes"]


def test_the_method_is_tested_at_the_rate_of_its_best_validation_loss(tmp_path):
    row = fine_tuning.measure("output layer", seed=0, quick=True, directory=tmp_path)
    best = min(row["by_learning_rate"], key=lambda each: each["validation_loss"])
    assert row["learning_rate"] == best["learning_rate"]
    model = fine_tuned("output layer", best["learning_rate"], seed=0, quick=True)
    assert row["new_loss"] == round(evaluate(model, "new", "test", quick=True)[0], 4)
    assert row["old_loss"] == round(evaluate(model, "old", "test", quick=True)[0], 4)


@pytest.mark.real_data("shakespeare", "tatoeba-en-fr")
def test_the_new_sentences_differ_and_consist_of_known_characters():
    texts = {split: fine_tuning.everyday_lines(split) for split in ("train", "validation", "test")}
    lines = {split: set(text.split("\n")) for split, text in texts.items()}
    assert not lines["train"] & lines["test"]
    assert not lines["train"] & lines["validation"]
    for split in texts:
        assert int((characters("new", split, quick=False) == 1).sum()) == 0  # unknown characters
