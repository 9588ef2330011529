"""Each kind of model is taught the right thing."""

import pytest
import tiny_models
import torch
import torch.nn.functional as F
from tiny_examples import (
    HEIGHT,
    PAIRS,
    STACK,
    TEXTS,
    WIDTH,
    captioner,
    checkpoint_of,
    examples_for,
    one_of_each,
    scenes,
)

from attentively.attention.masks import padding_mask
from attentively.data.batches import Batch, LabelledExample, collate
from attentively.models import checkpoints
from attentively.models.captioning import doubly_stochastic_penalty
from attentively.models.configs import (
    ClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
)
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID, UNK_ID
from attentively.training import objectives
from attentively.training.objectives import (
    Captioning,
    Classification,
    LanguageModelling,
    MaskedLanguageModelling,
    Translation,
    take_out,
    teacher_forced_loss,
)
from attentively.training.trainer import Trainer, validation_loss
from attentively.training.training_config import TrainingConfig

# Translation


def padded(batch, src=3, tgt=2):
    return Batch(F.pad(batch.src, (0, src), value=PAD_ID), F.pad(batch.tgt, (0, tgt), value=PAD_ID))


def test_padding_changes_nothing_to_the_loss():
    model, batch = tiny_models.seq2seq(), collate(PAIRS)
    losses, gradients = [], []
    for same in (batch, padded(batch)):
        loss = teacher_forced_loss(model, same)
        losses.append(loss)
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    torch.testing.assert_close(*losses)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_a_loss_that_counts_padding_would_be_seen(monkeypatch):
    def counting_padding(logits, targets, pad_id, label_smoothing):
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    monkeypatch.setattr(objectives, "cross_entropy", counting_padding)
    with pytest.raises(AssertionError):
        test_padding_changes_nothing_to_the_loss()


def test_the_loss_is_of_every_next_token_given_the_true_ones():
    model, example = tiny_models.seq2seq(), PAIRS[0]
    src = torch.tensor([example.src])
    with torch.no_grad():
        state = model.start(model.encode(src))
        surprises = []
        for token, next_token in zip(example.tgt[:-1], example.tgt[1:], strict=True):
            logits, state = model.step(torch.tensor([token]), state)
            surprises.append(-logits.log_softmax(-1)[0, next_token])
        expected = sum(surprises) / len(surprises)
        torch.testing.assert_close(teacher_forced_loss(model, collate([example])), expected)


def test_translation_counts_the_predicted_tokens_and_smooths_in_training_only():
    model, batch = tiny_models.seq2seq(), collate(PAIRS)
    task = Translation(label_smoothing=0.3)
    assert task.count(batch) == sum(len(pair.tgt) - 1 for pair in PAIRS)
    assert task.size(PAIRS[1]) == (8, 3)
    plain = teacher_forced_loss(model, batch)
    assert torch.equal(task.loss(model, batch), plain)
    smoothed = task.training_loss(model, batch)
    logits = model.decode(batch.tgt[:, :-1], model.encode(batch.src)).logits
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.tgt[:, 1:].flatten(), ignore_index=PAD_ID, label_smoothing=0.3
    )
    torch.testing.assert_close(smoothed, expected)
    assert not torch.allclose(smoothed, plain)


# Captions


def test_captions_are_taught_with_a_price_on_uneven_looks():
    model = captioner()
    examples = scenes()
    plain, priced = Captioning(0.2, attention_penalty=0.0), Captioning(0.2, attention_penalty=3.0)
    batch = plain.collate(examples)
    assert batch.src.shape == (3, 1, HEIGHT, WIDTH)
    assert batch.tgt.tolist()[1] == [START_ID, END_ID, PAD_ID, PAD_ID, PAD_ID]
    assert plain.size(examples[2]) == (5,)
    assert plain.count(batch) == 3 + 1 + 4
    assert torch.equal(plain.loss(model, batch), teacher_forced_loss(model, batch))
    memory = model.encode(batch.src)
    weights = model.decode(batch.tgt[:, :-1], memory, need_weights=True).weights
    penalty = doubly_stochastic_penalty(weights, batch.tgt[:, 1:] != PAD_ID)
    assert penalty > 0
    torch.testing.assert_close(
        priced.training_loss(model, batch), plain.training_loss(model, batch) + 3 * penalty
    )
    torch.testing.assert_close(
        plain.training_loss(model, batch), teacher_forced_loss(model, batch, 0.2)
    )


# Language models


def test_a_language_model_is_taught_every_next_token():
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(vocab_size=13, **STACK))
    task = LanguageModelling(label_smoothing=0.3)
    batch = task.collate(TEXTS)
    assert batch.src.tolist()[1] == [START_ID, 8, END_ID, 0, 0, 0, 0]
    assert batch.tgt.tolist()[1] == [8, END_ID, 0, 0, 0, 0, 0]
    assert task.count(batch) == 4 + 2 + 7
    assert task.size(TEXTS[2]) == (8,)
    surprises = []
    for text in TEXTS:  # each alone: no padding
        rows = model(torch.tensor([text[:-1]]))[0].log_softmax(-1)
        surprises += [-rows[place, token] for place, token in enumerate(text[1:])]
    torch.testing.assert_close(task.loss(model, batch), torch.stack(surprises).mean())
    expected = F.cross_entropy(
        model(batch.src).flatten(0, 1),
        batch.tgt.flatten(),
        ignore_index=PAD_ID,
        label_smoothing=0.3,
    )
    torch.testing.assert_close(task.training_loss(model, batch), expected)


# Masked language models

MASK_ID = 101


def test_by_hand_what_is_taken_out():
    ids = torch.tensor(
        [[5, 6, END_ID, PAD_ID], [UNK_ID, 9, END_ID, PAD_ID], [UNK_ID, UNK_ID, 9, END_ID]]
    )
    read, said = take_out(ids, MASK_ID, torch.Generator().manual_seed(0))
    assert (said != PAD_ID).sum(dim=1).tolist() == [1, 1, 1]  # one at least
    # never what is no ordinary token
    assert said[1:].tolist() == [[PAD_ID, 9, PAD_ID, PAD_ID], [PAD_ID, PAD_ID, 9, PAD_ID]]
    untouched = said == PAD_ID
    assert torch.equal(read[untouched], ids[untouched])
    assert torch.equal(said[~untouched], ids[~untouched])


def shares(take=take_out):
    """Return the share chosen, and of those the shares masked, changed and left."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(END_ID + 1, MASK_ID, (200, 40), generator=generator)
    read, said = take(ids, MASK_ID, generator)
    chosen = said != PAD_ID
    assert chosen.sum(dim=1).tolist() == [6] * 200  # 15 % of 40
    masked = (read == MASK_ID)[chosen].float().mean().item()
    left = (read == ids)[chosen].float().mean().item()
    assert read.max() <= MASK_ID
    assert read.min() > END_ID
    return masked, 1 - masked - left, left


def test_four_in_five_are_masked_one_in_ten_changed_one_in_ten_left():
    # Of 1,200 the standard error is at most 0.012.
    assert shares() == pytest.approx((0.8, 0.1, 0.1), abs=0.04)


def test_masking_all_that_is_chosen_would_be_seen():
    def all_masked(ids, mask_id, generator):
        _, said = take_out(ids, mask_id, generator)
        return ids.where(said == PAD_ID, mask_id), said

    assert shares(all_masked) != pytest.approx((0.8, 0.1, 0.1), abs=0.04)


def test_every_place_is_taken_out_now_and_then():
    ids = torch.arange(4, 13).expand(500, -1)
    _, said = take_out(ids, MASK_ID, torch.Generator().manual_seed(1))
    assert (said != PAD_ID).float().mean(dim=0).tolist() == pytest.approx([1 / 9] * 9, abs=0.06)


def test_nothing_to_take_out_is_refused():
    with pytest.raises(ValueError, match="no token to mask"):
        take_out(torch.tensor([[5, END_ID], [UNK_ID, END_ID]]), MASK_ID)


def test_a_masked_language_model_is_taught_what_was_taken_out():
    torch.manual_seed(0)
    model = MaskedLanguageModel(MaskedLanguageModelConfig(vocab_size=13, **STACK))
    task = MaskedLanguageModelling(model.mask_id)
    texts = [text[1:] for text in TEXTS]
    batch = task.collate(texts, torch.Generator().manual_seed(2))
    again = task.collate(texts, torch.Generator().manual_seed(2))
    assert torch.equal(batch.src, again.src)
    assert torch.equal(batch.tgt, again.tgt)
    others = {str(task.collate(texts).src.tolist()) for _ in range(9)}
    assert len(others) > 1  # each time something else
    logits = model(batch.src, padding_mask(batch.src, PAD_ID))
    expected = F.cross_entropy(logits.flatten(0, 1), batch.tgt.flatten(), ignore_index=PAD_ID)
    torch.testing.assert_close(task.loss(model, batch), expected)
    assert torch.equal(task.training_loss(model, batch), task.loss(model, batch))
    smoothing = MaskedLanguageModelling(model.mask_id, label_smoothing=0.3)
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.tgt.flatten(), ignore_index=PAD_ID, label_smoothing=0.3
    )
    torch.testing.assert_close(smoothing.training_loss(model, batch), expected)
    assert torch.equal(smoothing.loss(model, batch), task.loss(model, batch))
    assert task.count(batch) == 3
    assert task.size(texts[0]) == (4,)


def test_validation_takes_the_same_out_each_time():
    torch.manual_seed(0)
    model = MaskedLanguageModel(MaskedLanguageModelConfig(vocab_size=13, **STACK))
    texts = [text[1:] for text in TEXTS]
    assert validation_loss(model, texts) == validation_loss(model, texts)


# Classifiers


def test_a_classifier_is_taught_the_label():
    torch.manual_seed(0)
    model = Classifier(ClassifierConfig(vocab_size=13, labels=("no", "maybe", "yes"), **STACK))
    task = Classification(label_smoothing=0.3)
    examples = [
        LabelledExample(text[1:], label) for text, label in zip(TEXTS, (2, 0, 1), strict=True)
    ]
    batch = task.collate(examples)
    logits = model(batch.src, padding_mask(batch.src, PAD_ID))
    labels = torch.tensor([2, 0, 1])  # the first label is not taken for padding
    torch.testing.assert_close(task.loss(model, batch), F.cross_entropy(logits, labels))
    torch.testing.assert_close(
        task.training_loss(model, batch), F.cross_entropy(logits, labels, label_smoothing=0.3)
    )
    assert task.count(batch) == 3
    assert task.size(examples[1]) == (2,)


# Which task


def test_each_kind_of_model_has_its_task():
    found = {name: type(objectives.find(model)) for name, model in one_of_each().items()}
    assert found == {
        "Seq2Seq": Translation,
        "Transformer": Translation,
        "Captioner": Captioning,
        "LanguageModel": LanguageModelling,
        "MaskedLanguageModel": MaskedLanguageModelling,
        "Classifier": Classification,
    }
    assert found.keys() == checkpoints.MODELS.keys()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", sorted(checkpoints.MODELS.keys() - {"MaskedLanguageModel"}))
def test_the_settings_of_a_run_reach_its_task(name):
    examples = examples_for(name)
    config = TrainingConfig(steps=1, label_smoothing=0.3, attention_penalty=2.0)
    checkpoint = checkpoint_of(one_of_each()[name])
    task = Trainer(checkpoint, examples, examples, config, progress=False).task
    assert task.label_smoothing == 0.3
    if name == "Captioner":
        assert task.attention_penalty == 2.0


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_model_has_none():
    with pytest.raises(TypeError, match="no training objective is known for a Linear"):
        objectives.find(torch.nn.Linear(2, 3))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", sorted(checkpoints.MODELS))
def test_one_trainer_teaches_them_all(name):
    examples, model = examples_for(name), one_of_each()[name].train()
    before = validation_loss(model, examples)
    config = TrainingConfig(
        steps=60, batch_size=3, learning_rate=2e-2, validate_every=30, attention_penalty=0.1
    )
    run = Trainer(checkpoint_of(model), examples, examples, config, progress=False)
    assert run.fit()[-1]["validation_loss"] < 0.6 * before
