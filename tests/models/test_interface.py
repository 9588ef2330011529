"""What every encoder–decoder model must do, whatever it is made of."""

import inspect
from dataclasses import fields, replace

import pytest
import tiny_models
import torch
from tiny_models import MODELS, examples, sentences

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import padding_mask
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.models import checkpoints
from attentively.models.checkpoints import MODELS as KINDS
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import DecoderOutput, DecoderState, EncoderDecoder, Memory
from attentively.models.seq2seq import RecurrentState, Seq2Seq
from attentively.models.transformer import Transformer, TransformerState
from attentively.tokens.vocabulary import END_ID, PAD_ID, Vocabulary, WordTokenizer

pytestmark = pytest.mark.usefixtures("_no_gradients")
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
READERS = {name: make for name, make in MODELS.items() if make().config.vocab_sizes.src is not None}
every_reader = pytest.mark.parametrize("make", READERS.values(), ids=READERS.keys())


@pytest.fixture
def _no_gradients():
    with torch.no_grad():
        yield


def run(model, given, need_weights=True):
    return model.decode(given.tgt, model.encode(given.src), need_weights=need_weights)


def close(one, other):
    return torch.allclose(one, other, atol=1e-5)


# Broken twins: each a model with one mistake that the tests below must see.


class SeesTheFuture(Seq2Seq):
    def decode(self, tgt, memory, need_weights=False):
        return super().decode(tgt.roll(-1, dims=1), memory, need_weights)


class NoPacking(BidirectionalEncoder):
    def forward(self, embedded, mask):
        outputs, (_, backward_state) = self.gru(embedded)
        return outputs, backward_state


class ReadsThePadding(Seq2Seq):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = NoPacking(config.embedding_dim, config.encoder_dim)


class AttendsToPadding(Seq2Seq):
    def decode(self, tgt, memory, need_weights=False):
        memory = memory._replace(mask=torch.ones_like(memory.mask))
        return super().decode(tgt, memory, need_weights)


class NormalisesOverTheBatch(Seq2Seq):
    def encode(self, src, src_mask=None):
        memory = super().encode(src, src_mask)
        return memory._replace(state=memory.state - memory.state.mean(dim=0))


class StepForgets(Seq2Seq):
    def step(self, token, state):
        logits, _ = super().step(token, state)
        return logits, state


class SelectsTheHiddenStateAlone(Seq2Seq):
    """Its hypotheses go on from their own words, and look at another's sentence."""

    def start(self, memory):
        state = super().start(memory)
        return HalfSelected(state.hidden, state.encoder_outputs, state.src_mask)


class HalfSelected(RecurrentState):
    def select(self, rows):
        same = torch.arange(len(rows)) % len(self.hidden)
        return replace(
            self,
            hidden=self.hidden[rows],
            encoder_outputs=self.encoder_outputs[same],
            src_mask=self.src_mask[same],
        )


class KeepsItsPlace(Seq2Seq):
    """What a hypothesis said last is fed to another one."""

    def start(self, memory):
        state = super().start(memory)
        return FeedingNotSelected(*(getattr(state, field.name) for field in fields(state)))


class FeedingNotSelected(RecurrentState):
    def select(self, rows):
        same = self.attentional[torch.arange(len(rows)) % len(self.attentional)]
        return replace(super().select(rows), attentional=same)


class StepForgetsWhatItSaid(Seq2Seq):
    def step(self, token, state):
        logits, after = super().step(token, state)
        return logits, replace(after, attentional=state.attentional)


class StandsStill(Seq2Seq):
    def step(self, token, state):
        logits, after = super().step(token, state)
        return logits, replace(after, step=0)


class NoCausalMask(Transformer):
    def decode(self, tgt, memory, need_weights=False):
        outputs, _, _ = self.decoder(tgt, memory.outputs, None, memory.mask)
        return DecoderOutput(self.output(outputs))


class EncoderReadsPadding(Transformer):
    def encode(self, src, src_mask=None):
        memory = super().encode(src, torch.ones_like(self.source_mask(src)))
        return memory._replace(mask=self.source_mask(src))


class DecoderReadsPadding(Transformer):
    def decode(self, tgt, memory, need_weights=False):
        memory = memory._replace(mask=torch.ones_like(memory.mask))
        return super().decode(tgt, memory, need_weights)


class CountsFromTheEnd(Transformer):
    """Sentences stand at the right, so the longest decides where the others begin."""

    def encode(self, src, src_mask=None):
        mask = self.source_mask(src)
        lengths = mask.sum(dim=-1)
        right = (torch.arange(src.shape[1]) + lengths) % src.shape[1]
        memory = super().encode(src.gather(1, right))
        back = (torch.arange(src.shape[1]) - lengths) % src.shape[1]
        return Memory(memory.outputs.gather(1, back.unsqueeze(2).expand_as(memory.outputs)), mask)


class CacheForgets(Transformer):
    def step(self, token, state):
        logits, _ = super().step(token, state)
        return logits, state


class AlwaysTheFirstPosition(Transformer):
    def step(self, token, state):
        embed = self.decoder.input.forward
        self.decoder.input.forward = lambda ids, first: embed(ids)
        logits, state = super().step(token, state)
        del self.decoder.input.forward
        return logits, state


class WritesIntoTheState(Transformer):
    def step(self, token, state):
        logits, after = super().step(token, state)
        object.__setattr__(state, "caches", after.caches)  # a frozen one resists anything less
        return logits, after


class SelectsSome(TransformerState):
    """Of its parts, some are reordered; the others stay where they were."""

    def select(self, rows):
        chosen, same = super().select(rows), super().select(torch.arange(len(rows)) % 3)
        return self.mixed(chosen, same)


class SelectsTheFirstLayer(SelectsSome):
    def mixed(self, chosen, same):
        return replace(chosen, caches=(chosen.caches[0], *same.caches[1:]))


class SelectsTheTarget(SelectsSome):
    def mixed(self, chosen, same):
        pairs = zip(chosen.caches, same.caches, strict=True)
        caches = tuple(one._replace(memory=other.memory) for one, other in pairs)
        return replace(chosen, caches=caches)


class SelectsTheMemory(SelectsSome):
    def mixed(self, chosen, same):
        pairs = zip(chosen.caches, same.caches, strict=True)
        caches = tuple(one._replace(target=other.target) for one, other in pairs)
        return replace(chosen, caches=caches)


class SelectsNoMask(SelectsSome):
    def mixed(self, chosen, same):
        return replace(chosen, src_mask=same.src_mask)


def selecting(state_kind):
    """Return a Transformer whose states are of this kind."""

    class WithThatState(Transformer):
        def start(self, memory):
            state = super().start(memory)
            return state_kind(state.caches, state.src_mask)

    return broken(WithThatState)


def broken(kind, **changes):
    if issubclass(kind, Transformer):
        return lambda seed=0: tiny_models.transformer(seed, kind, **changes)
    return lambda seed=0: tiny_models.seq2seq(seed, kind, **changes)


def feeding(kind):
    return broken(kind, attention="general", decoder="luong", input_feeding=True)


def monotonic(kind):
    return broken(kind, attention="local-m", decoder="luong", window=1)


def test_every_kind_that_checkpoints_know_is_tested():
    tested = {type(make()) for make in MODELS.values()}
    kinds = [model_class for model_class, _ in KINDS.values()]
    assert tested == {kind for kind in kinds if issubclass(kind, EncoderDecoder)}


@every_model
def test_names_and_shapes(make):
    model = make()
    given = examples(model)
    assert isinstance(model, EncoderDecoder)
    memory = model.encode(given.src)
    assert isinstance(memory, Memory)
    assert memory.outputs.shape[:2] == given.src_mask.squeeze(1).shape
    output = model.decode(given.tgt, memory)
    assert isinstance(output, DecoderOutput)
    assert output.weights is None  # nobody asked
    vocab = model.config.tgt_vocab_size
    assert output.logits.shape == (*given.tgt.shape, vocab)
    state = model.start(memory)
    assert isinstance(state, DecoderState)
    logits, state = model.step(given.tgt[:, 0], state)
    assert isinstance(state, DecoderState)
    assert logits.shape == (len(given.tgt), vocab)


@every_model
def test_forward_is_encode_and_decode(make):
    model = make()
    given = examples(model)
    expected = run(model, given, need_weights=False)
    assert torch.equal(model(given.src, given.tgt), expected.logits)


class IgnoresTheMask(Seq2Seq):
    def encode(self, src, src_mask=None):
        return super().encode(src)


class StepsWithoutTheMask(Transformer):
    def start(self, memory):
        return super().start(memory._replace(mask=torch.ones_like(memory.mask)))


def encode_obeys_another_mask(make):
    """Return whether positions that only the given mask hides are as good as absent."""
    model = make()
    given = examples(model)
    mask = given.src_mask.clone()
    mask[1, 0, -2:] = False
    expected = run(model, given.without_the_last(2)) if hasattr(given, "src_lengths") else None
    memory = model.encode(given.src, mask)
    output = model.decode(given.tgt, memory, need_weights=True)
    if output.weights is not None and bool(output.weights.masked_select(~mask).any()):
        return False
    first, _ = model.step(given.tgt[:, 0], model.start(memory))
    if not close(first, output.logits[:, 0]):
        return False
    return expected is None or close(expected.logits, output.logits)


@every_model
def test_encode_obeys_another_mask(make):
    assert encode_obeys_another_mask(make)


@pytest.mark.parametrize("kind", [IgnoresTheMask, StepsWithoutTheMask])
def test_a_model_with_a_mask_of_its_own_would_be_seen(kind):
    assert not encode_obeys_another_mask(broken(kind))


@every_model
def test_the_signatures_are_those_of_the_protocol(make):
    for name in ("encode", "decode", "start", "step"):
        ours = inspect.signature(getattr(type(make()), name)).parameters
        assert list(ours) == list(inspect.signature(getattr(EncoderDecoder, name)).parameters)


def future_leaves_the_past_alone(make):
    model = make()
    given = examples(model)
    before = run(model, given).logits
    for position in range(1, given.tgt.shape[1]):
        changed = given.tgt.clone()
        changed[:, position:] = (changed[:, position:] + 7) % tiny_models.SRC_VOCAB
        after = run(model, given._replace(tgt=changed)).logits
        if not torch.equal(before[:, :position], after[:, :position]):
            return False
        if close(before[:, position:], after[:, position:]):
            raise AssertionError("the past leaves the future alone")
    return True


@every_model
def test_the_future_leaves_the_past_alone(make):
    assert future_leaves_the_past_alone(make)


@pytest.mark.parametrize("kind", [SeesTheFuture, NoCausalMask])
def test_a_model_that_sees_the_future_would_be_seen(kind):
    assert not future_leaves_the_past_alone(broken(kind))


def padding_changes_nothing(make):
    model = make()
    given = examples(model)
    before = run(model, given)
    after = run(model, given.padded())
    if not close(before.logits, after.logits[:, : given.tgt.shape[1]]):
        return False
    if before.weights is None:
        return True
    weights = after.weights[:, : given.tgt.shape[1]]
    src_len = given.src_mask.shape[-1]
    return close(before.weights, weights[:, :, :src_len]) and bool(
        (weights[:, :, src_len:] == 0).all()
    )


@every_model
def test_padding_changes_nothing(make):
    assert padding_changes_nothing(make)


@pytest.mark.parametrize(
    "kind", [ReadsThePadding, AttendsToPadding, EncoderReadsPadding, DecoderReadsPadding]
)
def test_a_model_that_reads_padding_would_be_seen(kind):
    assert not padding_changes_nothing(broken(kind))


def one_alone_equals_one_of_many(make):
    model = make()
    given = examples(model)
    together = run(model, given)
    for row, tgt_len in enumerate(given.tgt_lengths):
        alone = run(model, given.alone(row))
        if not close(alone.logits[0], together.logits[row, :tgt_len]):
            return False
        if alone.weights is not None:
            src_len = alone.weights.shape[-1]
            if not close(alone.weights[0], together.weights[row, :tgt_len, :src_len]):
                return False
    return True


@every_model
def test_one_alone_equals_one_of_many(make):
    assert one_alone_equals_one_of_many(make)


@pytest.mark.parametrize(
    "kind", [ReadsThePadding, NormalisesOverTheBatch, EncoderReadsPadding, CountsFromTheEnd]
)
def test_a_model_whose_sentences_meet_would_be_seen(kind):
    assert not one_alone_equals_one_of_many(broken(kind))


def all_at_once_equals_step_by_step(make):
    model = make()
    given = examples(model)
    expected = run(model, given, need_weights=False).logits
    state = model.start(model.encode(given.src))
    rows = []
    for token in given.tgt.unbind(dim=1):
        logits, state = model.step(token, state)
        rows.append(logits)
    return close(torch.stack(rows, dim=1), expected)


@every_model
def test_all_at_once_equals_step_by_step(make):
    assert all_at_once_equals_step_by_step(make)


@pytest.mark.parametrize(
    "make",
    [
        broken(StepForgets),
        feeding(StepForgetsWhatItSaid),
        monotonic(StandsStill),
        broken(CacheForgets),
        broken(AlwaysTheFirstPosition),
        broken(AlwaysTheFirstPosition, positions="learned"),
    ],
    ids=["state", "feeding", "local", "cache", "sinusoidal", "learned"],
)
def test_a_model_that_forgets_would_be_seen(make):
    assert not all_at_once_equals_step_by_step(make)


def step_leaves_the_state(make):
    model = make()
    given = examples(model)
    state = model.start(model.encode(given.src))
    first, _ = model.step(given.tgt[:, 0], state)
    model.step(given.tgt[:, 1], state)
    again, _ = model.step(given.tgt[:, 0], state)
    return torch.equal(first, again)


@every_model
def test_a_step_leaves_the_state_before_it_as_it_was(make):
    assert step_leaves_the_state(make)


def test_a_step_that_writes_into_the_state_would_be_seen():
    assert not step_leaves_the_state(broken(WritesIntoTheState))


def select_reorders(make):
    model = make()
    given = examples(model)
    state = model.start(model.encode(given.src))
    _, state = model.step(given.tgt[:, 0], state)
    expected, after = model.step(given.tgt[:, 1], state)
    expected_later, _ = model.step(given.tgt[:, 2], after)
    rows = torch.tensor([2, 0, 2, 1, 1])  # another order; two live on twice
    chosen, state = model.step(given.tgt[rows, 1], state.select(rows))
    later, _ = model.step(given.tgt[rows, 2], state)
    return close(chosen, expected[rows]) and close(later, expected_later[rows])


@every_model
def test_select_reorders_and_repeats(make):
    assert select_reorders(make)


@pytest.mark.parametrize(
    "make",
    [
        broken(SelectsTheHiddenStateAlone),
        feeding(KeepsItsPlace),
        selecting(SelectsTheFirstLayer),
        selecting(SelectsTheTarget),
        selecting(SelectsTheMemory),
        selecting(SelectsNoMask),
    ],
    ids=["source", "feeding", "layers", "memory", "target", "mask"],
)
def test_a_state_that_reorders_by_half_would_be_seen(make):
    assert not select_reorders(make)


def selects_like_beam_search(make):
    """Compare every row with its own text: beams are made, reordered, dropped and taken apart."""
    model = make()
    given = examples(model)
    tgt = torch.cat([given.tgt, given.tgt], dim=1)
    state, row_of = model.start(model.encode(given.src)), torch.arange(3)
    steps = [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 4], [4, 5, 0, 1], [1, 1, 3, 2], [3, 0, 1]]
    for length, rows in enumerate(steps, start=1):
        _, state = model.step(tgt[row_of, length - 1], state)
        state, row_of = state.select(torch.tensor(rows)), row_of[rows]
        expected = model.decode(tgt[:, : length + 1], model.encode(given.src)).logits[:, -1]
        if not close(model.step(tgt[row_of, length], state)[0], expected[row_of]):
            return False
    return True


@every_model
def test_select_makes_reorders_and_drops_beams(make):
    assert selects_like_beam_search(make)


class KeepsTheMemory(TransformerState):
    """The memory of the first sentences, whichever are chosen."""

    def select(self, rows):
        chosen = super().select(rows)
        if chosen.width == 1:
            return chosen
        kept = slice(len(chosen.src_mask))
        caches = tuple(
            new._replace(memory=KeyValueCache(old.memory.keys[kept], old.memory.values[kept]))
            for old, new in zip(self.caches, chosen.caches, strict=True)
        )
        return replace(chosen, caches=caches)


def test_a_memory_of_other_sentences_would_be_seen():
    assert not selects_like_beam_search(selecting(KeepsTheMemory))


def test_hypotheses_of_a_sentence_share_its_memory():
    model = tiny_models.transformer()
    given = examples(model)
    state = model.start(model.encode(given.src))
    for rows in ([0] * 5 + [1] * 5 + [2] * 5, [4, 0, 0, 1, 2, 5, 7, 9, 9, 6, 11, 10, 12, 13, 14]):
        state = state.select(torch.tensor(rows))
        _, state = model.step(given.tgt[:1, 0].expand(15), state)
        assert [len(cache.memory.keys) for cache in state.caches] == [3, 3]
        assert [len(cache.target.keys) for cache in state.caches] == [15, 15]


@every_model
def test_select_of_one_and_of_none(make):
    model = make()
    given = examples(model)
    state = model.start(model.encode(given.src))
    logits, _ = model.step(given.tgt[1:2, 0], state.select(torch.tensor([1])))
    assert logits.shape[0] == 1
    logits, _ = model.step(given.tgt[:0, 0], state.select(torch.tensor([], dtype=torch.long)))
    assert logits.shape[0] == 0


@every_model
def test_weights_sum_to_one_and_are_zero_at_padding(make):
    model = make()
    given = examples(model)
    weights = run(model, given).weights
    if weights is None:
        assert model.config.attention == "fixed"  # the one that does not attend
        return
    assert weights.shape == (*given.tgt.shape, given.src_mask.shape[-1])
    if getattr(model.config, "attention", None) == "local-p":  # its weights fall off
        assert ((weights.sum(dim=-1) > 0) & (weights.sum(dim=-1) < 1)).all()
    else:
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(given.tgt.shape))
    assert (weights.masked_select(~given.src_mask) == 0).all()


@every_model
def test_asking_for_weights_changes_nothing_else(make):
    model = make()
    given = examples(model)
    asked, not_asked = run(model, given, True), run(model, given, False)
    torch.testing.assert_close(asked.logits, not_asked.logits)
    assert not_asked.weights is None


@every_model
def test_the_source_matters(make):
    model = make()
    given = examples(model)
    before = run(model, given).logits
    after = run(model, given.with_another_source(1)).logits
    assert not close(before[1], after[1])
    assert close(before[[0, 2]], after[[0, 2]])


@every_model
def test_seeds_settle_the_weights(make):
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    given = examples(one)
    assert torch.equal(run(one, given).logits, run(same, given).logits)
    assert not close(run(one, given).logits, run(other, given).logits)


@every_model
def test_saved_and_loaded_it_says_the_same(make, tmp_path):
    model = make()
    given = examples(model)
    src, tgt = (
        None if size is None else WordTokenizer(Vocabulary(f"w{i}" for i in range(size - 4)))
        for size in model.config.vocab_sizes
    )
    checkpoints.save(Checkpoint(model, src, tgt), tmp_path / "model.safetensors")
    loaded = checkpoints.load(tmp_path / "model.safetensors").model
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert not loaded.training
    expected, output = run(model, given), run(loaded, given)
    assert torch.equal(output.logits, expected.logits)
    if expected.weights is not None:
        assert torch.equal(output.weights, expected.weights)


@every_model
def test_gradients_reach_every_parameter(make):
    model = make().train()
    given = examples(model)
    with torch.enable_grad():
        run(model, given).logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not adds_the_same_to_every_score(name, model):
            assert parameter.grad.abs().max() > 1e-6, name


def adds_the_same_to_every_score(name, model):
    """What is added to every key adds the same to all scores of a query, and softmax does not
    mind; a rotation makes it differ from key to key.
    """
    rotates = getattr(model.config, "positions", None) == "rotary"
    return name.endswith("key_projection.bias") and not ("self_attention" in name and rotates)


@every_model
def test_the_mask_is_the_models_own(make):
    model = make()
    given = examples(model)
    assert torch.equal(model.source_mask(given.src), given.src_mask)


@every_reader
def test_the_shortest_sentences(make):
    model = make()
    src, tgt = torch.tensor([[END_ID]]), torch.tensor([[2]])
    given = sentences()._replace(src=src, src_mask=padding_mask(src, PAD_ID), tgt=tgt)
    assert run(model, given).logits.isfinite().all()


@every_reader
def test_a_sentence_of_padding_alone_is_refused(make):
    model = make()
    src = torch.tensor([[4, END_ID], [PAD_ID, PAD_ID]])
    with pytest.raises(ValueError, match=r"sentences \[1\] of the batch have no token"):
        model.encode(src, padding_mask(src, PAD_ID))
