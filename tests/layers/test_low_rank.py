"""A low-rank update starts at nothing, trains A and B alone, and can be merged."""

import copy
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attentively.layers.low_rank import (
    LowRankLinear,
    add_low_rank_updates,
    merge_low_rank_updates,
)
from attentively.models.checkpoints import Checkpoint, load, save
from attentively.models.configs import LanguageModelConfig
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import Vocabulary, WordTokenizer

D_IN, D_OUT, RANK, ALPHA = 7, 5, 3, 13.0
BATCH, LENGTH = 2, 11


def layer_and_input(kind=LowRankLinear, bias=True):
    torch.manual_seed(0)
    linear = nn.Linear(D_IN, D_OUT, bias)
    return linear, kind(linear, RANK, ALPHA), torch.randn(BATCH, LENGTH, D_IN)


def shaken(layer):
    """Give both matrices random values, as after training."""
    with torch.no_grad():
        layer.down.normal_()
        layer.up.normal_()
    return layer


# Properties, each with the broken variants that lack it


def starts_at_nothing(kind):
    linear, layer, x = layer_and_input(kind)
    return torch.equal(layer(x), linear(x))


def trains_the_update_alone(kind):
    _, layer, _ = layer_and_input(kind)
    trained = {name: tuple(p.shape) for name, p in layer.named_parameters() if p.requires_grad}
    return trained == {"down": (RANK, D_IN), "up": (D_OUT, RANK)}


def follows_its_equation(kind):
    linear, layer, x = layer_and_input(kind)
    shaken(layer)
    update = torch.einsum("or,ri,...i->...o", layer.up, layer.down, x)
    return torch.allclose(layer(x), linear(x) + ALPHA / RANK * update, rtol=1e-4, atol=1e-5)


def merges(kind):
    _, layer, x = layer_and_input(kind)
    shaken(layer)
    merged = layer.merged()
    assert type(merged) is nn.Linear
    return torch.allclose(merged(x), layer(x), rtol=1e-4, atol=1e-5)


class WithoutScale(LowRankLinear):
    """Broken: alpha / rank is missing."""

    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, float(rank))


class RandomUp(LowRankLinear):
    """Broken: B is random too."""

    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, alpha)
        nn.init.normal_(self.up)


class TwoBiases(LowRankLinear):
    """Broken: the update has the bias too."""

    def forward(self, x):
        return super().forward(x) + self.linear.bias


class TwoBiasesWhenMerged(LowRankLinear):
    """Broken: merging adds the bias again."""

    def merged(self):
        merged = super().merged()
        merged.bias.data.add_(self.linear.bias)
        return merged


class MergedWithoutScale(LowRankLinear):
    """Broken: merging forgets alpha / rank."""

    @torch.no_grad()
    def merged(self):
        merged = super().merged()
        merged.weight.copy_(self.linear.weight + self.up @ self.down)
        return merged


class NotFrozen(LowRankLinear):
    """Broken: W and b are trained."""

    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, alpha)
        self.linear.requires_grad_()


class Exchanged(LowRankLinear):
    """Broken: A is zero and B random; the function is the same, the gradients are not."""

    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, alpha)
        nn.init.zeros_(self.down)
        nn.init.normal_(self.up)


class Transposed(LowRankLinear):
    """Broken: A has the shape of B, and B that of A."""

    def __init__(self, linear, rank, alpha):
        super().__init__(linear, rank, alpha)
        self.down, self.up = (nn.Parameter(each.T.clone()) for each in (self.up, self.down))

    def forward(self, x):
        return self.linear(x) + self.scale * F.linear(F.linear(x, self.up.T), self.down.T)


def moves_b_first(kind):
    """Return whether at first a gradient reaches B and none A, which multiplies B = 0."""
    _, layer, x = layer_and_input(kind)

    def reached():
        layer.zero_grad()
        layer(x).square().sum().backward()
        return [bool(each.grad.count_nonzero()) for each in (layer.down, layer.up)]

    first = reached()
    with torch.no_grad():
        layer.up -= 0.01 * layer.up.grad
        layer.down -= 0.01 * layer.down.grad
    return first == [False, True] and reached() == [True, True]


PROPERTIES = [
    (starts_at_nothing, [RandomUp, TwoBiases]),
    (trains_the_update_alone, [NotFrozen, Transposed]),
    (follows_its_equation, [WithoutScale, TwoBiases]),
    (merges, [MergedWithoutScale, TwoBiases, TwoBiasesWhenMerged]),
    (moves_b_first, [RandomUp, Exchanged]),
]


@pytest.mark.parametrize(
    ("holds", "broken"), PROPERTIES, ids=lambda each: getattr(each, "__name__", "")
)
def test_property_of_the_layer_and_of_no_broken_variant(holds, broken):
    assert holds(LowRankLinear)
    for variant in broken:
        assert not holds(variant), variant.__name__


def test_by_hand():
    linear = nn.Linear(2, 3)
    layer = LowRankLinear(linear, rank=1, alpha=4.0)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        linear.bias.copy_(torch.tensor([0.0, 0.0, 10.0]))
        layer.down.copy_(torch.tensor([[1.0, 2.0]]))
        layer.up.copy_(torch.tensor([[1.0], [0.0], [-1.0]]))
    # x = (3, 1): W x + b = (3, 1, 14); A x = 5, B A x = (5, 0, -5), times 4.
    torch.testing.assert_close(layer(torch.tensor([3.0, 1.0])), torch.tensor([23.0, 1.0, -6.0]))
    expected = torch.tensor([[5.0, 8.0], [0.0, 1.0], [-3.0, -7.0]])
    torch.testing.assert_close(layer.merged().weight, expected)


def test_a_is_uniform_within_one_over_the_root_of_its_inputs():
    torch.manual_seed(0)
    layer = LowRankLinear(nn.Linear(100, 60), rank=50, alpha=1.0)
    assert 0.099 < layer.down.abs().max() <= 0.1
    assert layer.down.var().item() == pytest.approx(1 / 300, rel=0.05)


def test_without_a_bias_none_appears():
    linear, layer, x = layer_and_input(bias=False)
    shaken(layer)
    assert layer.merged().bias is None
    torch.testing.assert_close(layer.merged()(x), layer(x))
    torch.testing.assert_close(linear(x), F.linear(x, linear.weight))


def test_the_original_weight_is_neither_moved_nor_copied():
    linear, layer, _ = layer_and_input()
    before = copy.deepcopy(linear.state_dict())
    shaken(layer).merged()
    assert layer.linear is linear
    for name, value in linear.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("rank", [0, -1, 6])
def test_an_impossible_rank_is_refused(rank):
    message = rf"rank={rank} must be between 1 and 5, .* of shape \(5, 7\)"
    with pytest.raises(ValueError, match=message):
        LowRankLinear(nn.Linear(D_IN, D_OUT), rank, ALPHA)


# In a model

LAYERS, D_MODEL, D_FF = 2, 8, 12


def language_model():
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocab_size=17, d_model=D_MODEL, num_heads=2, num_kv_heads=1, d_ff=D_FF, num_layers=LAYERS
    )
    return LanguageModel(config).eval(), torch.randint(4, 17, (3, 5))


def trained(model):
    return {name for name, each in model.named_parameters() if each.requires_grad}


def test_queries_and_values_of_every_layer_are_updated():
    model, ids = language_model()
    before = model(ids)
    names = add_low_rank_updates(model, rank=RANK, alpha=ALPHA)
    assert names == [
        f"decoder.layers.{layer}.self_attention.{kind}_projection"
        for layer in range(LAYERS)
        for kind in ("query", "value")
    ]
    assert torch.equal(model(ids), before)
    assert trained(model) == {f"{name}.{each}" for name in names for each in ("down", "up")}
    number = sum(each.numel() for each in model.parameters() if each.requires_grad)
    # The value projection of grouped queries has half as many outputs.
    assert number == LAYERS * RANK * ((D_MODEL + D_MODEL) + (D_MODEL + D_MODEL // 2))


@pytest.mark.parametrize(
    ("where", "number"),
    [
        (("inner", "outer"), 2 * LAYERS),
        (("0.self_attention.query_projection",), 1),
        (("decoder.layers.1.feed_forward.inner",), 1),
        (("projection",), 0),  # no part of a name
    ],
)
def test_layers_are_chosen_by_the_end_of_their_names(where, number):
    model, _ = language_model()
    if number:
        assert len(add_low_rank_updates(model, 2, ALPHA, where)) == number
    else:
        with pytest.raises(ValueError, match=r"no linear layer is called .*: choose from .*inner"):
            add_low_rank_updates(model, 2, ALPHA, where)
        assert len(trained(model)) == len([*model.parameters()])


def test_merging_keeps_the_function_and_restores_the_structure(tmp_path):
    model, ids = language_model()
    names = [*model.state_dict()]
    original = copy.deepcopy(model.state_dict())
    chosen = add_low_rank_updates(model, RANK, ALPHA, ("value_projection", "outer"))
    for module in model.modules():
        if isinstance(module, LowRankLinear):
            shaken(module)
    adapted = model(ids)
    assert merge_low_rank_updates(model) == chosen
    torch.testing.assert_close(model(ids), adapted, rtol=1e-4, atol=1e-4)
    assert [*model.state_dict()] == names
    assert len(trained(model)) == len([*model.parameters()])
    changed = {n for n, each in model.state_dict().items() if not torch.equal(each, original[n])}
    assert changed == {f"{name}.weight" for name in chosen}
    words = WordTokenizer(Vocabulary([f"w{i}" for i in range(13)]))
    save(Checkpoint(model, None, words), tmp_path / "merged.safetensors")
    again = load(tmp_path / "merged.safetensors").model
    torch.testing.assert_close(again(ids), model(ids))


def test_after_merging_updates_can_be_added_again():
    model, _ = language_model()
    add_low_rank_updates(model, RANK, ALPHA)
    with pytest.raises(ValueError, match="has low-rank updates already: merge these first"):
        add_low_rank_updates(model, RANK, ALPHA)
    merge_low_rank_updates(model)
    assert add_low_rank_updates(model, RANK, ALPHA)


def test_a_model_without_updates_cannot_be_merged():
    model, _ = language_model()
    with pytest.raises(ValueError, match="no low-rank updates to merge"):
        merge_low_rank_updates(model)


def test_a_shared_weight_is_refused():
    model, _ = language_model()
    message = r"decoder\.input\.embedding\.table\.weight and output\.weight are one tensor"
    with pytest.raises(ValueError, match=message):
        add_low_rank_updates(model, RANK, ALPHA, ("output",))
    assert len(trained(model)) == len([*model.parameters()])


def test_an_impossible_rank_leaves_the_model_as_it_was():
    model, _ = language_model()
    with pytest.raises(ValueError, match=r"rank=5 must be between 1 and 4, .*\(4, 8\)"):
        add_low_rank_updates(model, rank=5, alpha=ALPHA)
    assert not any(isinstance(module, LowRankLinear) for module in model.modules())


def entries(*shape):
    """Return different values that need no random numbers."""
    number = torch.Size(shape).numel()
    return torch.arange(1.0, number + 1).sin().reshape(shape)


def test_agrees_with_recorded_values_of_peft():
    """The values are those of peft 0.21.2: the output, and the weight after its merge()."""
    layer = LowRankLinear(nn.Linear(3, 2), rank=2, alpha=5.0)
    with torch.no_grad():
        layer.linear.weight.copy_(entries(2, 3))
        layer.linear.bias.copy_(entries(2))
        layer.down.copy_(entries(2, 3).cos())
        layer.up.copy_(entries(2, 2).exp())
    output = torch.tensor([[46.6822815, 11.6709461], [11.9514198, 4.1250439]])
    torch.testing.assert_close(layer(entries(2, 3) + 1), output)
    weight = torch.tensor([[9.2183285, 8.0368824, 11.8486471], [2.0143528, 1.4833097, 3.6982937]])
    torch.testing.assert_close(layer.merged().weight, weight)


if find_spec("peft"):  # not a requirement; a skipped test counts as failed in .ci/run

    def test_in_a_model_agrees_with_peft():
        """Output, number of trained parameters, and merged weights, for the same A and B."""
        import peft

        model, ids = language_model()
        theirs = copy.deepcopy(model)
        config = peft.LoraConfig(
            r=RANK,
            lora_alpha=ALPHA,
            lora_dropout=0.0,
            target_modules=["query_projection", "value_projection"],
        )
        theirs = peft.inject_adapter_in_model(config, theirs)
        names = add_low_rank_updates(model, RANK, ALPHA)
        assert {name.split(".lora_")[0] for name in trained(theirs)} == {*names}
        for name in names:
            ours, other = shaken(model.get_submodule(name)), theirs.get_submodule(name)
            assert other.lora_A["default"].weight.shape == ours.down.shape
            assert other.lora_B["default"].weight.shape == ours.up.shape
            assert not other.lora_B["default"].weight.any()
            assert other.lora_A["default"].weight.abs().max() <= D_MODEL**-0.5
            with torch.no_grad():
                other.lora_A["default"].weight.copy_(ours.down)
                other.lora_B["default"].weight.copy_(ours.up)
        torch.testing.assert_close(model(ids), theirs(ids))
        for name in names:
            other = theirs.get_submodule(name)
            other.merge()
            merged = model.get_submodule(name).merged()
            torch.testing.assert_close(merged.weight, other.base_layer.weight)
