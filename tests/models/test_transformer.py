"""The Transformer equals PyTorch's, and is what the paper describes."""

import math

import pytest
import torch
from tiny_models import SRC_VOCAB, TGT_VOCAB, sentences, transformer
from torch import nn

from attentively.attention.key_value_cache import KeyValueCache
from attentively.attention.masks import causal_mask, padding_mask
from attentively.attention.multi_head import MultiHeadAttention
from attentively.attention.positional import sinusoids
from attentively.layers.embedding import TokenEmbedding
from attentively.layers.transformer_layers import DecoderLayer
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import (
    MAX_DISTANCE,
    TokenEncoder,
    Transformer,
    TransformerState,
    initialise,
    refuse_empty,
)
from attentively.tokens.vocabulary import END_ID, PAD_ID

# PyTorch says which of its own short cuts these sizes do not take.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")

every_position = pytest.mark.parametrize(
    "positions", ["sinusoidal", "learned", "relative", "rotary", "alibi", "none"]
)
both_norms = pytest.mark.parametrize("norm", ["pre", "post"])
both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def in_torch(ours):
    """Return `nn.Transformer` of the same size with the same weights.

    With post-norm, PyTorch normalises once more after the last layer of each stack. The paper
    does not, so those two norms are taken out.
    """
    config = ours.config
    theirs = nn.Transformer(
        config.d_model,
        config.num_heads,
        config.num_layers,
        config.num_layers,
        config.d_ff,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm == "pre",
    )
    if config.norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    names = dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if (place := place_in_torch(name, config.d_model)) is not None:
                names[place[0]][place[1]] = parameter
    return theirs


RENAMED = {
    "self_attention": "self_attn",
    "cross_attention": "multihead_attn",
    "output_projection": "out_proj",
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "last_norm": "norm",
    "gain": "weight",
    "shift": "bias",
}
PROJECTIONS = ["query_projection", "key_projection", "value_projection"]
NORMS = {
    "encoder": ["around_attention", "around_feed_forward"],
    "decoder": ["around_self_attention", "around_cross_attention", "around_feed_forward"],
}


def place_in_torch(name, d_model):
    """Return what PyTorch calls a parameter, and which of its rows it is; None for embeddings."""
    stack = name.partition(".")[0]
    if "embedding" in name or stack == "output":
        return None
    for index, residual in enumerate(NORMS[stack], start=1):
        name = name.replace(f"{residual}.layer_norm", f"norm{index}")
    rows = slice(None)
    for index, projection in enumerate(PROJECTIONS):
        if projection in name:
            name = name.replace(f"{projection}.", "in_proj_")
            rows = slice(index * d_model, (index + 1) * d_model)
    for ours, theirs in RENAMED.items():
        name = name.replace(ours, theirs)
    return name, rows


def masks_of(which, given):
    """Return the masks, as PyTorch wants them: True where one may not look."""
    causal = ~causal_mask(given.tgt.shape[1])[0]
    padding = (given.src == PAD_ID, given.tgt == PAD_ID)
    return {
        "causal": {"tgt_mask": causal},
        "padding of the source": {
            "tgt_mask": causal,
            "src_key_padding_mask": padding[0],
            "memory_key_padding_mask": padding[0],
        },
        "padding of both": {
            "tgt_mask": causal,
            "src_key_padding_mask": padding[0],
            "memory_key_padding_mask": padding[0],
            "tgt_key_padding_mask": padding[1],
        },
    }[which]


@both_norms
@both_activations
@pytest.mark.parametrize("which", ["causal", "padding of the source", "padding of both"])
def test_it_equals_torch_in_values_and_gradients(norm, activation, which):
    ours, given = transformer(norm=norm, activation=activation), sentences()
    theirs = in_torch(ours)
    src_mask = given.src_mask if which != "causal" else torch.ones_like(given.src_mask)
    logits = ours.decode(given.tgt, ours.encode(given.src, src_mask)).logits
    x, y = ours.encoder.input(given.src), ours.decoder.input(given.tgt)
    expected = ours.output(theirs(x, y, **masks_of(which, given)))
    real = given.tgt != PAD_ID  # what padding says is not asked for
    torch.testing.assert_close(logits[real], expected[real], atol=1e-5, rtol=1e-4)

    probe = torch.randn_like(logits[real])
    ours.zero_grad()
    (expected[real] * probe).sum().backward()
    outside = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert len(outside) == 3  # the embeddings and the output layer, which served both
    inside = {name: p.grad for name, p in theirs.named_parameters()}
    ours.zero_grad()
    (logits[real] * probe).sum().backward()
    for name, parameter in ours.named_parameters():
        place = place_in_torch(name, ours.config.d_model)
        gradient = outside[name] if place is None else inside[place[0]][place[1]]
        torch.testing.assert_close(parameter.grad, gradient, atol=1e-4, rtol=1e-4)
    count = sum(p.numel() for name, p in ours.named_parameters() if name not in outside)
    assert count == sum(p.numel() for p in theirs.parameters())


def test_torch_adds_two_norms_after_post_norm():
    """What PyTorch's own post-norm model has more; at birth both change next to nothing."""
    ours = transformer(norm="post")
    theirs = nn.Transformer(12, 3, 2, 2, 13, batch_first=True)
    extra = [name for name, _ in theirs.named_parameters() if ".norm." in name]
    assert extra == ["encoder.norm.weight", "encoder.norm.bias", "decoder.norm.weight"] + [
        "decoder.norm.bias"
    ]
    assert not [name for name, _ in ours.named_parameters() if "last_norm" in name]
    x = nn.LayerNorm(12)(torch.randn(3, 5, 12))
    torch.testing.assert_close(nn.LayerNorm(12)(x), x, atol=1e-3, rtol=1e-3)


def layer_by_hand(config, cross):
    """The number of parameters of a layer, by the shapes of the paper."""
    d_model, d_ff = config.d_model, config.d_ff
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    attentions = 2 if cross else 1
    return attentions * (attention + 2 * d_model) + feed_forward + 2 * d_model


@pytest.mark.parametrize(
    ("config", "total"),
    [
        (TransformerConfig.base(37_000, 37_000), 63_082_496),
        (TransformerConfig(src_vocab_size=23, tgt_vocab_size=29), None),
        (TransformerConfig(src_vocab_size=23, tgt_vocab_size=29, norm="post", d_ff=31), None),
    ],
)
def test_parameters_by_formula(config, total):
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in Transformer(config).parameters())
    layers = config.num_layers * (layer_by_hand(config, False) + layer_by_hand(config, True))
    tables = [config.src_vocab_size, config.tgt_vocab_size, config.tgt_vocab_size]
    rows = tables[0] if config.share_embeddings else sum(tables)
    last_norms = 4 * config.d_model if config.norm == "pre" else 0
    assert count == layers + rows * config.d_model + last_norms
    assert total is None or count == total  # the paper says 65 million of its base model


def test_the_base_model_is_that_of_the_paper():
    base = TransformerConfig.base(31, 31)
    assert (base.num_layers, base.d_model, base.d_ff, base.num_heads) == (6, 512, 2048, 8)
    assert (base.dropout, base.norm, base.positions) == (0.1, "post", "sinusoidal")
    assert base.share_embeddings
    assert not TransformerConfig.base(23, 29, share_embeddings=False).share_embeddings


def test_no_two_layers_share_weights():
    model = transformer()
    layers = [*model.encoder.layers, *model.decoder.layers]
    addresses = [{p.data_ptr() for p in layer.parameters()} for layer in layers]
    assert not set.intersection(*addresses[:2])
    assert len(set.union(*addresses)) == sum(map(len, addresses))


def test_residual_connections_are_counted():
    """Two a layer in the encoder, three in the decoder: 5 N."""
    model = transformer(num_layers=3)
    residuals = [m for m in model.modules() if type(m).__name__ == "Residual"]
    assert len(residuals) == 5 * 3


def test_the_input_is_the_scaled_embedding_plus_the_position():
    model = transformer()
    ids = torch.tensor([[5, 7, 5]])
    table = model.encoder.input.embedding.table.weight
    expected = math.sqrt(12) * table[ids[0]] + sinusoids(3, 12)
    torch.testing.assert_close(model.encoder.input(ids)[0], expected)
    later = model.encoder.input(ids, first=4)[0]
    torch.testing.assert_close(later, math.sqrt(12) * table[ids[0]] + sinusoids(3, 12, first=4))


def test_at_birth_a_token_is_about_as_loud_as_its_position():
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(src_vocab_size=499, tgt_vocab_size=29, dropout=0.0))
    tokens = model.encoder.input.embedding(torch.arange(4, 499)) * math.sqrt(128)
    assert tokens.square().mean().item() == pytest.approx(1, abs=0.05)
    assert sinusoids(499, 128).square().mean().item() == pytest.approx(0.5, abs=0.01)
    assert (model.encoder.input.embedding.table.weight[PAD_ID] == 0).all()
    logits = model.output(model.decoder.last_norm(torch.randn(7, 128)))
    assert 0.3 < logits.std().item() < 3  # neither sure of anything nor silent


@pytest.mark.parametrize("share", [True, False])
def test_at_birth_every_token_is_about_equally_likely(share):
    torch.manual_seed(0)
    config = TransformerConfig(src_vocab_size=997, tgt_vocab_size=997, share_embeddings=share)
    model, given = Transformer(config).eval(), sentences(vocab=997)
    logits = model.decode(given.tgt, model.encode(given.src)).logits
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    assert (entropy > 0.8 * math.log(997)).all()


def test_one_table_serves_source_target_and_output():
    model = transformer(tgt_vocab_size=SRC_VOCAB, share_embeddings=True)
    table = model.encoder.input.embedding.table.weight
    assert model.decoder.input.embedding.table.weight is table
    assert model.output.weight is table
    apart = transformer(tgt_vocab_size=SRC_VOCAB)
    difference = sum(p.numel() for p in apart.parameters()) - sum(
        p.numel() for p in model.parameters()
    )
    assert difference == 2 * SRC_VOCAB * 12


def test_heads_share_keys_and_values_in_every_attention():
    model = transformer(num_heads=6, num_kv_heads=2)
    attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert len(attentions) == 3 * model.config.num_layers
    assert {attention.group_size for attention in attentions} == {3}


@every_position
@both_norms
@pytest.mark.parametrize("num_kv_heads", [None, 1])
def test_token_by_token_equals_all_at_once(positions, norm, num_kv_heads):
    model = transformer(positions=positions, norm=norm, num_kv_heads=num_kv_heads)
    given = sentences()
    memory = model.encode(given.src)
    expected = model.decode(given.tgt, memory).logits
    state, rows = model.start(memory), []
    for token in given.tgt.unbind(dim=1):
        logits, state = model.step(token, state)
        rows.append(logits)
    assert isinstance(state, TransformerState)
    torch.testing.assert_close(torch.stack(rows, dim=1), expected, atol=1e-5, rtol=1e-4)


@every_position
def test_an_encoder_behind_a_causal_mask_reads_piece_by_piece(positions):
    encoder = transformer(positions=positions).encoder
    ids = sentences().src
    expected, expected_maps = encoder(ids, causal_mask(7), need_weights=True)
    caches = [KeyValueCache() for _ in encoder.layers]
    first, _, caches = encoder(ids[:, :3], causal_mask(3), caches)
    rest, maps, _ = encoder(ids[:, 3:], causal_mask(7)[:, 3:], caches, need_weights=True)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(maps, expected_maps[:, :, :, 3:], atol=1e-5, rtol=1e-4)


def test_a_step_projects_the_memory_no_more():
    model, given = transformer(), sentences()
    state = model.start(model.encode(given.src))
    lengths = []
    for layer in model.decoder.layers:
        for attention in (layer.self_attention, layer.cross_attention):
            attention.key_projection.register_forward_hook(
                lambda _, inputs, __: lengths.append(inputs[0].shape[1])
            )
    for token in given.tgt.unbind(dim=1):
        _, state = model.step(token, state)
    assert lengths == [1] * 2 * given.tgt.shape[1]  # one new token, in each of two layers
    assert state.caches[0].target.length == given.tgt.shape[1]


@every_position
def test_order_matters_to_an_encoder_unless_it_knows_no_positions(positions):
    encoder, ids = transformer(positions=positions).encoder, torch.tensor([[5, 7, 11, 13, 17]])
    order = torch.tensor([3, 0, 4, 1, 2])
    outputs, _ = encoder(ids)
    moved, _ = encoder(ids[:, order])
    assert torch.allclose(moved, outputs[:, order], atol=1e-5) == (positions == "none")


@every_position
def test_what_positions_see_of_a_shift(positions):
    """Relative kinds see the same words the same way wherever they stand; absolute ones do not."""
    encoder, ids = transformer(positions=positions).encoder, torch.tensor([[5, 7, 11]])
    caches = [KeyValueCache() for _ in encoder.layers]
    _, _, caches = encoder(torch.tensor([[19, 17]]), causal_mask(2), caches)
    blind = torch.ones(1, 3, 5).bool().tril(2) & (torch.arange(5) >= 2)
    shifted, _, _ = encoder(ids, blind, caches)
    here, _ = encoder(ids, causal_mask(3))
    same = torch.allclose(shifted, here, atol=1e-5)
    assert same == (positions not in ("sinusoidal", "learned"))


def test_relative_positions_are_clipped_at_the_paper_s_distance():
    layer = transformer(positions="relative").encoder.layers[0]
    assert layer.self_attention.position.max_distance == MAX_DISTANCE == 16


def test_attention_between_sequences_knows_no_distance():
    for positions in ("relative", "rotary", "alibi"):
        layer = transformer(positions=positions).decoder.layers[0]
        assert layer.self_attention.position is not None
        assert layer.cross_attention.position is None


def test_attention_maps():
    model, given = transformer(), sentences()
    maps = model.attention_maps(given.src, given.tgt)
    src_len, tgt_len = given.src.shape[1], given.tgt.shape[1]
    assert maps.encoder.shape == (2, 3, 3, src_len, src_len)
    assert maps.decoder.shape == (2, 3, 3, tgt_len, tgt_len)
    assert maps.cross.shape == (2, 3, 3, tgt_len, src_len)
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    for weights in (maps.encoder, maps.cross):
        assert (weights.masked_select(~given.src_mask.unsqueeze(1)) == 0).all()
    assert (maps.decoder.masked_select(~causal_mask(tgt_len)) == 0).all()
    memory = model.encode(given.src)
    weights = model.decode(given.tgt, memory, need_weights=True).weights
    torch.testing.assert_close(weights, maps.cross.mean(dim=(0, 2)))
    by_hand = sum(maps.cross[layer, :, head] for layer in range(2) for head in range(3)) / 6
    torch.testing.assert_close(weights, by_hand)


def test_dropout_stands_on_the_embeddings_and_on_what_sub_layers_say():
    """Section 5.4. With everything dropped nothing is left of a sentence."""
    model, given = transformer(dropout=1.0, norm="post").train(), sentences()
    outputs, _ = model.encoder(given.src, given.src_mask)
    expected = torch.zeros(1, 1, 12)
    for layer in model.encoder.layers:
        for residual in (layer.around_attention, layer.around_feed_forward):
            expected = residual.layer_norm(expected)
    torch.testing.assert_close(outputs, expected.expand_as(outputs))
    # Nowhere else: attention weights and the feed-forward network are left whole.
    rates = {name: m.p for name, m in model.named_modules() if isinstance(m, nn.Dropout)}
    acting = {name.rpartition(".")[0].rpartition(".")[2] for name, p in rates.items() if p > 0}
    assert acting == {
        "input",
        "around_attention",
        "around_self_attention",
        "around_cross_attention",
        "around_feed_forward",
    }
    for layer in model.decoder.layers:
        assert layer.self_attention.dropout == layer.cross_attention.dropout == 0.0


def test_dropout_is_of_training_alone():
    model, given = transformer(dropout=0.5), sentences()
    memory = model.encode(given.src).outputs
    torch.testing.assert_close(memory, model.encode(given.src).outputs)
    assert not torch.allclose(memory, model.train().encode(given.src, given.src_mask).outputs)


def test_what_padding_says_is_not_asked_for():
    """Padding comes last, so a target mask besides the causal one would change no real token."""
    model, given = transformer(), sentences()
    memory = model.encode(given.src)
    both = causal_mask(given.tgt.shape[1]) & padding_mask(given.tgt, PAD_ID)
    outputs, _, _ = model.decoder(given.tgt, memory.outputs, both, given.src_mask)
    real = given.tgt != PAD_ID
    logits = model.decode(given.tgt, memory).logits
    torch.testing.assert_close(logits[real], model.output(outputs)[real])


def test_it_learns_to_turn_a_sentence_round():
    """Positions, both masks and all gradients are needed for this."""
    torch.manual_seed(0)
    config = TransformerConfig(
        src_vocab_size=17, tgt_vocab_size=17, d_model=32, num_heads=4, d_ff=64, num_layers=1
    )
    model = Transformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98))
    for _ in range(250):
        src = torch.randint(END_ID + 1, 17, (32, 5))
        tgt = torch.cat([torch.full((32, 1), 2), src.flip(1)], dim=1)
        logits = model.decode(tgt[:, :-1], model.encode(src)).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    state, token, written = model.start(model.encode(src)), tgt[:, 0], []
    for _ in range(5):
        logits, state = model.step(token, state)
        token = logits.argmax(dim=-1)
        written.append(token)
    assert (torch.stack(written, dim=1) == src.flip(1)).float().mean() > 0.9


def test_initialise():
    torch.manual_seed(0)
    embedding = TokenEmbedding(401, 64)
    config = TransformerConfig(src_vocab_size=401, tgt_vocab_size=2, d_model=64)
    encoder = TokenEncoder(embedding, config)
    initialise(encoder)
    weight = encoder.layers[0].feed_forward.inner.weight
    bound = math.sqrt(6 / (64 + 512))
    assert 0.99 * bound < weight.abs().max().item() <= bound
    assert (encoder.layers[0].feed_forward.inner.bias == 0).all()
    assert embedding.table.weight[1:].std().item() == pytest.approx(1 / 8, rel=0.02)
    assert (embedding.table.weight[PAD_ID] == 0).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "cosine"}, "positions='cosine' is unknown: choose one of sinusoidal, le"),
        ({"norm": "between"}, "norm='between' is unknown: choose pre or post"),
        ({"activation": "swish"}, "activation='swish' is unknown: choose relu or gelu"),
        ({"num_heads": 5}, "d_model=12 does not split into num_heads=5 equal heads"),
        (
            {"d_model": 2, "num_heads": 4, "positions": "relative"},
            "d_model=2 does not split into num_heads=4 equal heads",
        ),
        ({"num_kv_heads": 2}, "num_heads=3 does not split into num_kv_heads=2 equal groups"),
        ({"num_heads": 4, "positions": "rotary"}, "d_head=3 does not split into pairs"),
        ({"num_layers": 0}, "num_layers=0 must be at least 1"),
        ({"num_heads": 0}, "num_heads=0 must be at least 1"),
        ({"d_ff": 0}, "d_ff=0 must be at least 1"),
        ({"share_embeddings": True}, "needs one vocabulary, but src_vocab_size=23 and tgt_voc"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        transformer(**changes)


def test_a_target_longer_than_learned_positions_is_refused():
    model, given = transformer(positions="learned", max_len=7), sentences()
    memory = model.encode(given.src)
    longer = given.tgt.repeat(1, 2)
    with pytest.raises(ValueError, match="a sequence of 12 tokens is longer than max_len=7"):
        model.decode(longer, memory)
    state = model.start(memory)
    for token in longer.unbind(dim=1)[:7]:
        _, state = model.step(token, state)
    with pytest.raises(ValueError, match="a sequence of 8 tokens is longer than max_len=7"):
        model.step(longer[:, 7], state)
    with pytest.raises(ValueError, match="a sequence of 8 tokens is longer than max_len=7"):
        model.encode(torch.full((1, 8), 5), torch.ones(1, 1, 8).bool())


def test_a_source_without_tokens_is_refused():
    model, given = transformer(), sentences()
    src = given.src.clone()
    src[[0, 2]] = PAD_ID
    for read in (
        lambda: model.encode(src),
        lambda: model.attention_maps(src, given.tgt),
    ):
        with pytest.raises(ValueError, match=r"sentences \[0, 2\] of the batch have no token"):
            read()
    refuse_empty(given.src_mask)  # says nothing


@pytest.mark.usefixtures("unchecked")
def test_a_source_mask_of_another_shape_is_refused():
    model, given = transformer(), sentences()
    memory = model.encode(given.src)
    with pytest.raises(ValueError, match=r"\(3, 1, 6\).*\(3, 7, 7\)"):
        model.encode(given.src, given.src_mask[:, :, :6])
    with pytest.raises(ValueError, match=r"\(3, 7\).*\(3, 6, 7\)"):
        model.decode(given.tgt, memory._replace(mask=given.src_mask.squeeze(1)))


def test_a_state_of_another_batch_size_is_refused():
    model, given = transformer(), sentences()
    state = model.start(model.encode(given.src))
    _, state = model.step(given.tgt[:, 0], state)
    with pytest.raises(
        ValueError, match=r"\(3, 3, 1, 4\).*\(2, 3, 1, 4\).*batch sizes .* must be equal"
    ):
        model.step(given.tgt[:2, 1], state)


def test_layers_take_their_attention_as_an_argument():
    """A student's class stands in for the package's."""
    model, given = transformer(), sentences()

    class Theirs(type(model.encoder.layers[0].self_attention)):
        pass

    before = model.encode(given.src).outputs
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        names = ["self_attention"] + ["cross_attention"] * isinstance(layer, DecoderLayer)
        for name in names:
            other = Theirs(12, 3)
            other.load_state_dict(getattr(layer, name).state_dict())
            setattr(layer, name, other)
    torch.testing.assert_close(model.encode(given.src).outputs, before)


def test_the_vocabularies_it_needs():
    assert transformer().config.vocab_sizes == (SRC_VOCAB, TGT_VOCAB)
