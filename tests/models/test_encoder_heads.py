"""Heads: one label for a text, or the tokens hidden in it."""

import math

import pytest
import torch
import torch.nn.functional as F
from tiny_models import SRC_VOCAB, STACK_SIZES, stack_model
from torch import nn
from torch_twins import gradients, torch_encoder, torch_names

from attentively.attention.masks import causal_mask, padding_mask
from attentively.config import VocabSizes
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import ClassifierConfig, MaskedLanguageModelConfig
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import Model
from attentively.tokens.vocabulary import PAD_ID, Vocabulary, WordTokenizer

LABELS = ("bad", "so-so", "good", "great", "perfect")
BATCH, LENGTH, LENGTHS = 3, 7, (7, 4, 2)
VARIANTS = {
    "pre": {},
    "post": {"norm": "post", "activation": "gelu"},
    "learned": {"positions": "learned", "max_len": 11},
    "relative": {"positions": "relative"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "grouped": {"num_heads": 6, "num_kv_heads": 2},
    "dropout": {"dropout": 0.3},
}


def classifier(seed=0, kind=Classifier, **changes):
    return stack_model(kind, ClassifierConfig, seed, **{"labels": LABELS} | changes)


def masked(seed=0, kind=MaskedLanguageModel, **changes):
    return stack_model(kind, MaskedLanguageModelConfig, seed, **changes)


HEADS = {"classifier": classifier, "masked": masked}
every_head = pytest.mark.parametrize("make", HEADS.values(), ids=HEADS.keys())
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())


def texts(seed=0, lengths=LENGTHS):
    """Return texts of the given lengths, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, SRC_VOCAB, (len(lengths), max(lengths)), generator=generator)
    for row, length in enumerate(lengths):
        ids[row, length:] = PAD_ID
    return ids


def read(model, ids):
    return model(ids, padding_mask(ids, PAD_ID))


def close(one, other):
    return torch.allclose(one, other, atol=1e-5)


# Broken twins


class PoolsThePadding(Classifier):
    def forward(self, ids, mask):
        outputs, _ = self.encoder(ids, mask)
        return self.output(outputs.mean(dim=1))


class TakesTheFirst(Classifier):
    def forward(self, ids, mask):
        outputs, _ = self.encoder(ids, mask)
        return self.output(outputs[:, 0])


class DividesByTheLongest(Classifier):
    def forward(self, ids, mask):
        outputs, _ = self.encoder(ids, mask)
        return self.output((outputs * mask.transpose(1, 2)).sum(dim=1) / mask.shape[2])


class ClassifierLooksAtPadding(Classifier):
    def forward(self, ids, mask):
        outputs, _ = self.encoder(ids)
        real = mask.transpose(1, 2)
        return self.output((outputs * real).sum(dim=1) / real.sum(dim=1))


class MaskedLooksAtPadding(MaskedLanguageModel):
    def forward(self, ids, mask):
        return super().forward(ids, torch.ones_like(mask))


class SeesOneSide(MaskedLanguageModel):
    def forward(self, ids, mask):
        outputs, _ = self.encoder(ids, mask & causal_mask(ids.shape[1]))
        return F.linear(outputs, self.encoder.input.embedding.table.weight[: self.mask_id])


class NormalisesOverTheBatch(Classifier):
    def forward(self, ids, mask):
        logits = super().forward(ids, mask)
        return logits - logits.mean(dim=0)


# What both do


def test_names_and_shapes():
    ids = texts()
    assert isinstance(classifier(), Model)
    assert read(classifier(), ids).shape == (BATCH, len(LABELS))
    assert read(masked(), ids).shape == (BATCH, LENGTH, SRC_VOCAB)
    for make in HEADS.values():
        assert make().config.vocab_sizes == VocabSizes(SRC_VOCAB, None)


def padding_changes_nothing(model):
    """Neither more of it, nor a neighbour that needs none."""
    ids = texts()
    before = read(model, ids)
    after = read(model, F.pad(ids, (0, 3), value=PAD_ID))
    alone = [read(model, ids[row : row + 1, :length])[0] for row, length in enumerate(LENGTHS)]
    if before.dim() == 2:
        return close(after, before) and close(torch.stack(alone), before)
    return close(after[:, :LENGTH], before) and all(
        close(logits, before[row, : len(logits)]) for row, logits in enumerate(alone)
    )


@every_head
@every_variant
def test_padding_changes_nothing(make, changes):
    assert padding_changes_nothing(make(**changes))


@pytest.mark.parametrize(
    "kind",
    [PoolsThePadding, DividesByTheLongest, ClassifierLooksAtPadding, NormalisesOverTheBatch],
)
def test_a_classifier_that_reads_padding_or_its_neighbours_would_be_seen(kind):
    assert not padding_changes_nothing(classifier(kind=kind))


def test_a_masked_model_that_reads_padding_would_be_seen():
    assert not padding_changes_nothing(masked(kind=MaskedLooksAtPadding))


ORDER = torch.tensor([3, 0, 6, 1, 2, 5, 4])


def order_of_words_is_nothing(model):
    """Without positions a text is a bag: a label stays, and logits move with their tokens."""
    ids = texts(lengths=(7, 7))
    before, after = read(model, ids), read(model, ids[:, ORDER])
    return close(after, before if before.dim() == 2 else before[:, ORDER])


@every_head
def test_without_positions_the_order_is_nothing_and_with_them_it_is_not(make):
    assert order_of_words_is_nothing(make(positions="none"))
    for positions in ("sinusoidal", "learned", "relative", "rotary", "alibi"):
        assert not order_of_words_is_nothing(make(positions=positions))


def test_a_classifier_that_takes_the_first_token_would_be_seen():
    assert not order_of_words_is_nothing(classifier(kind=TakesTheFirst, positions="none"))


def test_a_model_that_sees_one_side_would_be_seen():
    assert not order_of_words_is_nothing(masked(kind=SeesOneSide, positions="none"))


@every_head
@every_variant
def test_saved_and_loaded_it_says_the_same(make, changes, tmp_path):
    model = make(**changes)
    tokenizer = WordTokenizer(Vocabulary(f"w{index}" for index in range(SRC_VOCAB - 4)))
    checkpoints.save(Checkpoint(model, tokenizer, None), tmp_path / "model.safetensors")
    loaded = checkpoints.load(tmp_path / "model.safetensors").model
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert torch.equal(read(loaded, texts()), read(model, texts()))


@every_head
def test_seeds_settle_the_weights(make):
    one, same, other = (read(make(seed), texts()) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not close(one, other)


@every_head
def test_dropout_is_off_in_evaluation_and_on_in_training(make):
    model, ids = make(dropout=0.3), texts()
    assert torch.equal(read(model, ids), read(model, ids))
    model.train()
    assert not torch.equal(read(model, ids), read(model, ids))


@every_head
@every_variant
def test_gradients_reach_every_parameter(make, changes):
    model = make(**changes).train()
    ids = texts()
    ids[ids == 5] = SRC_VOCAB  # some are hidden
    read(model, ids).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key_projection.bias"):  # a softmax does not see it
            assert parameter.grad.abs().max() > 0, name


@every_head
def test_a_text_without_a_token_is_refused(make):
    ids = texts()
    ids[1] = PAD_ID
    with pytest.raises(ValueError, match=r"sentences \[1\] of the batch have no token"):
        read(make(), ids)


@every_head
def test_texts_longer_than_learned_positions_are_refused(make):
    model = make(positions="learned", max_len=11)
    read(model, texts(lengths=(11, 3)))
    with pytest.raises(ValueError, match="a sequence of 12 tokens is longer than max_len=11"):
        read(model, texts(lengths=(12, 3)))


@every_head
def test_an_id_that_is_no_token_is_refused(make):
    ids = texts()
    ids[0, 0] = SRC_VOCAB + 1  # the one after the mask
    with pytest.raises(IndexError):
        read(make(), ids)


@pytest.mark.usefixtures("unchecked")
@every_head
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "none"}, "norm='none' is unknown"),
        ({"positions": "where"}, "positions='where' is unknown"),
        ({"num_heads": 5}, "d_model=12 does not split into num_heads=5"),
    ],
)
def test_impossible_choices_are_refused(make, changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


# Classification


def test_a_mean_of_real_tokens_by_hand():
    """An encoder whose vectors are the ids themselves: the mean of 4, 6 and 8 is 6."""

    class IdsAsVectors(nn.Module):
        def forward(self, ids, mask):
            return ids.unsqueeze(2).float().expand(-1, -1, 12), None

    model = classifier(labels=("low", "high"))
    model.encoder = IdsAsVectors()
    with torch.no_grad():
        model.output.weight.copy_(torch.tensor([[0.0], [1 / 12]]).expand(2, 12))
        model.output.bias.copy_(torch.tensor([5.0, 0.0]))
    ids = torch.tensor([[4, 6, 8, PAD_ID], [3, 5, 7, 9]])
    torch.testing.assert_close(read(model, ids), torch.tensor([[5.0, 6.0], [5.0, 6.0]]))
    ids = torch.tensor([[4, PAD_ID, PAD_ID, PAD_ID]])
    torch.testing.assert_close(read(model, ids), torch.tensor([[5.0, 4.0]]))


@pytest.mark.parametrize("labels", [(), ("one",), ("good", "bad", "good")])
def test_labels_must_be_two_or_more_and_differ(labels):
    with pytest.raises(ValueError, match="must contain at least two different labels"):
        ClassifierConfig(vocab_size=SRC_VOCAB, labels=labels)


def test_labels_may_come_in_a_list_as_json_has_them():
    config = ClassifierConfig(vocab_size=SRC_VOCAB, labels=LABELS)
    values = config.to_dict() | {"labels": list(LABELS)}
    assert ClassifierConfig.from_dict(values) == config
    with pytest.raises(ValueError, match=r"needs values for \['labels'\]"):
        ClassifierConfig.from_dict({"vocab_size": SRC_VOCAB})


def test_it_learns_what_a_bag_of_words_cannot_tell():
    """Whether 5 comes before 6: the same words, another order."""
    torch.manual_seed(0)
    ids = texts(lengths=(9,) * 64)
    ids[(ids == 5) | (ids == 6)] = 7
    places = torch.rand(64, 9).argsort(dim=1)[:, :2]
    ids.scatter_(1, places, torch.tensor([[5, 6]]).expand(64, 2))
    wanted = (places[:, 0] < places[:, 1]).long()
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 2, "dropout": 0.0}
    model = Classifier(ClassifierConfig(vocab_size=SRC_VOCAB, labels=("no", "yes"), **sizes))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = F.cross_entropy(read(model, ids), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (read(model, ids).argmax(dim=1) == wanted).all()


# Masked language model


def test_the_mask_is_the_id_after_the_last():
    model = masked()
    assert model.mask_id == SRC_VOCAB
    assert model.encoder.input.embedding.table.num_embeddings == SRC_VOCAB + 1
    ids = texts()
    ids[0, 3] = model.mask_id
    assert read(model, ids).shape == (BATCH, LENGTH, SRC_VOCAB)  # it is never predicted


def test_at_birth_the_table_of_words_suits_an_output_layer():
    config = MaskedLanguageModelConfig(vocab_size=997, d_model=24, d_ff=7, num_layers=1)
    table = MaskedLanguageModel(config).encoder.input.embedding.table.weight
    assert table[PAD_ID + 1 :].std().item() == pytest.approx(24**-0.5, rel=0.03)


def test_a_token_is_scored_by_its_own_row():
    model, ids = masked(), texts()
    outputs, _ = model.encoder(ids, padding_mask(ids, PAD_ID))
    table = model.encoder.input.embedding.table.weight
    expected = torch.stack([outputs @ table[token] for token in range(SRC_VOCAB)], dim=-1)
    torch.testing.assert_close(read(model, ids), expected, atol=1e-5, rtol=1e-5)


def sees_both_sides(model):
    """A changed word is felt at every place, before it and after it."""
    ids = texts()
    before = read(model, ids)
    for place in range(LENGTH):
        changed = ids.clone()
        changed[0, place] = 4 if ids[0, place] != 4 else 5
        moved = (read(model, changed)[0] - before[0]).abs().amax(dim=-1)
        if not (moved > 1e-4).all():
            return False
    return True


@every_variant
def test_both_sides_are_seen(changes):
    assert sees_both_sides(masked(**changes))


def test_a_model_that_sees_one_side_does_not_feel_what_comes_after():
    assert not sees_both_sides(masked(kind=SeesOneSide))


def test_it_learns_to_fill_in_from_before_and_from_after():
    """Words come in pairs, 4 and 5, 6 and 7, …: one of the two is hidden."""
    torch.manual_seed(0)
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 1, "dropout": 0.0}
    model = MaskedLanguageModel(MaskedLanguageModelConfig(vocab_size=SRC_VOCAB, **sizes))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    pairs = torch.arange(4, 22).view(9, 2).repeat(2, 1)  # each once without its first word
    hidden = torch.tensor([[True, False], [False, True]]).repeat_interleave(9, dim=0)
    for _ in range(80):
        logits = read(model, pairs.masked_fill(hidden, model.mask_id))[hidden]
        loss = F.cross_entropy(logits, pairs[hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (logits.argmax(dim=1) == pairs[hidden]).all()


def test_what_one_head_learned_fits_another():
    pretrained, fresh = masked(seed=1), classifier(seed=2)
    fresh.encoder.load_state_dict(pretrained.encoder.state_dict())
    ids = texts()
    mask = padding_mask(ids, PAD_ID)
    assert torch.equal(fresh.encoder(ids, mask)[0], pretrained.encoder(ids, mask)[0])


@every_head
@pytest.mark.parametrize("changes", [{}, {"norm": "post", "activation": "gelu"}])
def test_the_same_model_made_of_pytorchs_layers(make, changes):
    """Its encoder with a padding mask, in value and gradient."""
    model, ids = make(positions="none", **changes), texts()
    twin = torch_encoder(model.encoder, model.config)
    ours_table = model.encoder.input.embedding.table.weight
    table = nn.Parameter(ours_table.detach().clone())

    ours = read(model, ids)
    x = math.sqrt(STACK_SIZES["d_model"]) * F.embedding(ids, table, padding_idx=PAD_ID)
    outputs = twin(x, src_key_padding_mask=ids == PAD_ID)  # True where nothing may look
    if make is masked:
        theirs = outputs @ table[:SRC_VOCAB].T
        direction = torch.randn_like(ours) * (ids != PAD_ID).unsqueeze(2)
    else:
        means = [row[:length].mean(dim=0) for row, length in zip(outputs, LENGTHS, strict=True)]
        theirs = F.linear(torch.stack(means), model.output.weight, model.output.bias)
        direction = torch.randn_like(ours)
    real = direction != 0
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-4, rtol=1e-4)

    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    torch.testing.assert_close(ours_table.grad, table.grad, atol=1e-3, rtol=1e-3)
    found, expected = torch_names(gradients(model.encoder)), gradients(twin)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-3, rtol=1e-3)


@pytest.mark.gpu
@every_head
@every_variant
def test_the_gpu_says_the_same(make, changes):
    model, ids = make(**changes), texts()
    answers = []
    for where in ("cpu", "cuda"):
        model, ids = model.to(where), ids.to(where)
        logits = read(model, ids)
        loss = logits.log_softmax(dim=-1)[..., 1].mean()
        answers.append((logits, *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(other.cpu(), one, atol=1e-4, rtol=1e-3)
