"""A language model: every token is predicted from those before it alone."""

import math

import pytest
import torch
import torch.nn.functional as F
from tiny_models import SRC_VOCAB, STACK_SIZES, stack_model
from torch import nn
from torch_twins import gradients, torch_encoder, torch_names

from attentively.attention.masks import causal_mask
from attentively.attention.positional import SinusoidalPositionalEncoding
from attentively.config import VocabSizes
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import LanguageModelConfig
from attentively.models.interface import DecoderOnly, DecoderOutput, DecoderState
from attentively.models.language_model import LanguageModel, LanguageModelState
from attentively.tokens.vocabulary import PAD_ID, Vocabulary, WordTokenizer

BATCH, LENGTH, MAX_LEN = 3, 7, 11
VARIANTS = {
    "pre": {},
    "post": {"norm": "post", "activation": "gelu"},
    "learned": {"positions": "learned", "max_len": MAX_LEN},
    "relative": {"positions": "relative"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "grouped": {"num_heads": 6, "num_kv_heads": 2},
    "dropout": {"dropout": 0.3},
}
every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())


def language_model(seed=0, kind=LanguageModel, **changes):
    return stack_model(kind, LanguageModelConfig, seed, **changes)


def texts(seed=0, length=LENGTH):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, SRC_VOCAB, (BATCH, length), generator=generator)


def close(one, other):
    return torch.allclose(one, other, atol=1e-5)


# Broken twins


class SeesTheFuture(LanguageModel):
    def decode(self, ids, need_weights=False):
        outputs, _ = self.decoder(ids)
        return DecoderOutput(self.output(outputs))


class StepForgets(LanguageModel):
    def step(self, token, state):
        logits, _ = super().step(token, state)
        return logits, state


class StepWritesIntoTheState(LanguageModel):
    def step(self, token, state):
        logits, after = super().step(token, state)
        object.__setattr__(state, "caches", after.caches)  # a frozen one resists anything less
        return logits, after


class StartsAgain(SinusoidalPositionalEncoding):
    def forward(self, x, first=0):
        return super().forward(x)


class EveryStepIsTheFirst(LanguageModel):
    def __init__(self, config):
        super().__init__(config)
        self.decoder.input.positions = StartsAgain(config.d_model)


class NothingSelected(LanguageModel):
    def start(self, prompt):
        return KeepsItsPlace(super().start(prompt).caches)

    def step(self, token, state):
        logits, after = super().step(token, state)
        return logits, KeepsItsPlace(after.caches)


class KeepsItsPlace(LanguageModelState):
    def select(self, rows):
        return super().select(torch.arange(len(rows)) % len(self.caches[0].keys))


class NormalisesOverTheBatch(LanguageModel):
    def decode(self, ids, need_weights=False):
        logits, weights = super().decode(ids, need_weights)
        return DecoderOutput(logits - logits.mean(dim=0), weights)


def test_names_and_shapes():
    model, ids = language_model(), texts()
    assert isinstance(model, DecoderOnly)
    assert model.config.vocab_sizes == VocabSizes(None, SRC_VOCAB)
    output = model.decode(ids)
    assert output.logits.shape == (BATCH, LENGTH, SRC_VOCAB)
    assert output.weights is None  # nobody asked
    state = model.start(ids)
    assert isinstance(state, DecoderState)
    logits, state = model.step(ids[:, 0], state)
    assert logits.shape == (BATCH, SRC_VOCAB)


def future_leaves_the_past_alone(model):
    ids = texts()
    before = model(ids)
    for position in range(1, LENGTH):
        changed = ids.clone()
        changed[:, position:] = 4 + (changed[:, position:] + 3) % (SRC_VOCAB - 4)
        after = model(changed)
        if not torch.equal(before[:, :position], after[:, :position]):
            return False
        if close(before[:, position:], after[:, position:]):
            raise AssertionError("the past leaves the future alone")
    return True


@every_variant
def test_the_future_leaves_the_past_alone(changes):
    assert future_leaves_the_past_alone(language_model(**changes))


def test_a_model_that_sees_the_future_would_be_seen():
    assert not future_leaves_the_past_alone(language_model(kind=SeesTheFuture))


def cached_equals_uncached(model, prompt_len=0):
    ids = texts()
    expected = model(ids)[:, prompt_len:]
    state, rows = model.start(ids[:, :prompt_len]), []
    for token in ids[:, prompt_len:].unbind(dim=1):
        logits, state = model.step(token, state)
        rows.append(logits)
    return close(torch.stack(rows, dim=1), expected)


@every_variant
@pytest.mark.parametrize("prompt_len", [0, 1, 5])
def test_cached_equals_uncached_after_any_prompt(changes, prompt_len):
    assert cached_equals_uncached(language_model(**changes), prompt_len)


@pytest.mark.parametrize("kind", [StepForgets, EveryStepIsTheFirst])
def test_a_cache_that_is_not_used_well_would_be_seen(kind):
    assert not cached_equals_uncached(language_model(kind=kind))


def state_stays(model):
    ids = texts()
    state = model.start(ids[:, :2])
    first, _ = model.step(ids[:, 2], state)
    model.step(ids[:, 3], state)
    again, _ = model.step(ids[:, 2], state)
    return torch.equal(first, again)


def test_a_step_leaves_the_state_before_it_as_it_was():
    assert state_stays(language_model())
    assert not state_stays(language_model(kind=StepWritesIntoTheState))


def select_reorders(model):
    ids = texts()
    state = model.start(ids[:, :2])
    expected, after = model.step(ids[:, 2], state)
    expected_later, _ = model.step(ids[:, 3], after)
    rows = torch.tensor([2, 0, 2, 1, 1])  # another order; two live on twice
    chosen, state = model.step(ids[rows, 2], state.select(rows))
    later, _ = model.step(ids[rows, 3], state)
    return close(chosen, expected[rows]) and close(later, expected_later[rows])


@every_variant
def test_select_reorders_and_repeats(changes):
    assert select_reorders(language_model(**changes))


def test_a_state_that_does_not_reorder_would_be_seen():
    assert not select_reorders(language_model(kind=NothingSelected))


def test_select_before_any_token_and_of_none():
    model, ids = language_model(), texts()
    state = model.start(ids[:, :0]).select(torch.tensor([1, 1]))
    logits, _ = model.step(ids[[1, 1], 0], state)
    assert close(logits, model(ids)[[1, 1], 0])
    none = torch.tensor([], dtype=torch.long)
    logits, _ = model.step(none, model.start(ids).select(none))
    assert logits.shape == (0, SRC_VOCAB)


def one_alone_equals_one_of_many(model):
    ids = texts()
    ids[1, 4:] = PAD_ID  # a shorter one: padding comes last
    together = model.decode(ids, need_weights=True)
    for row, length in enumerate((LENGTH, 4, LENGTH)):
        alone = model.decode(ids[row : row + 1, :length], need_weights=True)
        if not close(alone.logits[0], together.logits[row, :length]):
            return False
        if alone.weights is not None and not close(
            alone.weights[0], together.weights[row, :length, :length]
        ):
            return False
    return True


@every_variant
def test_one_alone_equals_one_of_many(changes):
    assert one_alone_equals_one_of_many(language_model(**changes))


@pytest.mark.parametrize("kind", [NormalisesOverTheBatch, SeesTheFuture])
def test_a_model_whose_texts_meet_or_that_reads_padding_would_be_seen(kind):
    assert not one_alone_equals_one_of_many(language_model(kind=kind))


def test_weights_are_those_of_the_past():
    model, ids = language_model(), texts()
    asked = model.decode(ids, need_weights=True)
    torch.testing.assert_close(asked.logits, model(ids))
    assert asked.weights.shape == (BATCH, LENGTH, LENGTH)
    torch.testing.assert_close(asked.weights.sum(dim=-1), torch.ones(BATCH, LENGTH))
    assert (asked.weights.triu(diagonal=1) == 0).all()
    assert (asked.weights.tril()[:, -1] > 0).all()
    _, maps = model.decoder(ids, causal_mask(LENGTH), need_weights=True)
    every = [head for layer in maps.unbind() for head in layer.unbind(dim=1)]
    assert len(every) == model.config.num_layers * model.config.num_heads > 1
    torch.testing.assert_close(asked.weights, sum(every) / len(every))


@pytest.mark.parametrize("changes", [{}, {"norm": "post", "activation": "gelu"}])
def test_the_same_model_made_of_pytorchs_layers(changes):
    """Its encoder with a causal mask, in value and gradient."""
    model, ids = language_model(positions="none", **changes), texts()
    config = model.config
    twin = torch_encoder(model.decoder, config)
    table = nn.Parameter(model.output.weight.detach().clone())
    hidden = nn.Transformer.generate_square_subsequent_mask(LENGTH)

    ours = model(ids)
    x = math.sqrt(config.d_model) * F.embedding(ids, table)
    theirs = twin(x, mask=hidden, is_causal=True) @ table.T
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)

    direction = torch.randn_like(ours)
    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    torch.testing.assert_close(model.output.weight.grad, table.grad, atol=1e-3, rtol=1e-3)
    found = torch_names(gradients(model.decoder))
    expected = gradients(twin)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-3, rtol=1e-3)


def test_the_output_layer_is_the_table():
    model = language_model()
    assert model.output.weight is model.decoder.input.embedding.table.weight
    d, ff = STACK_SIZES["d_model"], STACK_SIZES["d_ff"]
    attention, thinking, norms = 4 * (d * d + d), 2 * d * ff + ff + d, 4 * d
    layers = STACK_SIZES["num_layers"] * (attention + thinking + norms)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == SRC_VOCAB * d + layers + 2 * d


def test_at_birth_no_token_is_favoured():
    """With 1,009 tokens, a loss near ln 1009, not above it by a wild first guess."""
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(vocab_size=1009, d_model=60, dropout=0.0))
    ids = torch.randint(4, 1009, (7, 31))
    loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(1009), abs=0.8)


@every_variant
def test_gradients_reach_every_parameter(changes):
    model, ids = language_model(**changes).train(), texts()
    model(ids).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key_projection.bias"):  # a softmax does not see it
            assert parameter.grad.abs().max() > 0, name


def test_it_learns_texts_by_heart_and_says_them_again():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_layers": 2, "dropout": 0.0}
    model, ids = LanguageModel(LanguageModelConfig(vocab_size=SRC_VOCAB, **sizes)), texts(length=13)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(120):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits[:, 3:].flatten(0, 1), ids[:, 4:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    with torch.no_grad():
        state, token = model.start(ids[:, :3]), ids[:, 3]
        for position in range(4, 13):
            logits, state = model.step(token, state)
            token = logits.argmax(dim=-1)
            assert torch.equal(token, ids[:, position])


def test_dropout_is_off_in_evaluation_and_on_in_training():
    model, ids = language_model(dropout=0.3), texts()
    assert torch.equal(model(ids), model(ids))
    model.train()
    assert not torch.equal(model(ids), model(ids))
    torch.manual_seed(3)
    once = model(ids)
    torch.manual_seed(3)
    assert torch.equal(model(ids), once)


def test_seeds_settle_the_weights():
    one, same, other = (language_model(seed)(texts()) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not close(one, other)


@every_variant
def test_saved_and_loaded_it_says_the_same(changes, tmp_path):
    model = language_model(**changes)
    tokenizer = WordTokenizer(Vocabulary(f"w{index}" for index in range(SRC_VOCAB - 4)))
    checkpoints.save(Checkpoint(model, None, tokenizer), tmp_path / "model.safetensors")
    loaded = checkpoints.load(tmp_path / "model.safetensors")
    assert type(loaded.model) is LanguageModel
    assert loaded.model.config == model.config
    assert loaded.src_tokenizer is None
    assert loaded.model.output.weight is loaded.model.decoder.input.embedding.table.weight
    assert torch.equal(loaded.model(texts()), model(texts()))


def test_texts_longer_than_learned_positions_are_refused():
    model = language_model(**VARIANTS["learned"])
    model(texts(length=MAX_LEN))
    state = model.start(texts(length=MAX_LEN))
    message = f"a sequence of {MAX_LEN + 1} tokens is longer than max_len={MAX_LEN}"
    for ask in (
        lambda: model(texts(length=MAX_LEN + 1)),
        lambda: model.start(texts(length=MAX_LEN + 1)),
        lambda: model.step(texts()[:, 0], state),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.mark.parametrize("positions", ["sinusoidal", "relative", "rotary", "alibi", "none"])
def test_other_positions_reach_further(positions):
    model = language_model(positions=positions, max_len=MAX_LEN)
    assert model(texts(length=3 * MAX_LEN)).isfinite().all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "none"}, "norm='none' is unknown"),
        ({"positions": "where"}, "positions='where' is unknown"),
        ({"activation": "tanh"}, "activation='tanh' is unknown"),
        ({"num_heads": 5}, "d_model=12 does not split into num_heads=5"),
        ({"vocab_size": 0}, "vocab_size=0"),
        ({"num_layers": 0}, "num_layers=0 must be at least 1"),
    ],
)
def test_impossible_choices_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        language_model(**changes)


@pytest.mark.gpu
@every_variant
def test_the_gpu_says_the_same(changes):
    model, ids = language_model(**changes), texts()
    answers = []
    for where in ("cpu", "cuda"):
        model, ids = model.to(where), ids.to(where)
        logits = model(ids)
        stepped = torch.stack(
            [model.step(ids[:, n], model.start(ids[:, :n]))[0] for n in (0, 1, 5)]
        )
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        answers.append((logits, stepped, *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(other.cpu(), one, atol=1e-4, rtol=1e-3)
