"""The recurrent encoder–decoder computes its equations, with attention and without."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tiny_models import SIZES, SRC_VOCAB, sentences, seq2seq
from torch import nn

from attentively.attention.additive import AdditiveAttention
from attentively.data.batches import Batch
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import Seq2SeqConfig
from attentively.models.seq2seq import FixedContext, Seq2Seq
from attentively.tokens.vocabulary import PAD_ID, Vocabulary, WordTokenizer
from attentively.training.objectives import teacher_forced_loss


def gru_cell(x, h, weights, suffix=""):
    """One step of a GRU, as in the documentation of `torch.nn.GRUCell`."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    w_ih, w_hh, b_ih, b_hh = (weights[name + suffix] for name in names)
    x_r, x_z, x_n = (w_ih @ x + b_ih).chunk(3)
    h_r, h_z, h_n = (w_hh @ h + b_hh).chunk(3)
    r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
    n = torch.tanh(x_n + r * h_n)
    return (1 - z) * n + z * h


def by_the_equations(model, src, tgt):
    """One sentence pair, one token at a time, from the paper's equations."""
    p = dict(model.named_parameters())
    E_src = p["src_embedding.table.weight"]
    E_tgt = p.get("decoder.embedding.table.weight", E_src)
    gru = {name.removeprefix("encoder.gru."): value for name, value in p.items()}
    nothing = torch.zeros(model.config.encoder_dim)

    forwards, backwards = [], []
    h = nothing
    for word in src:
        h = gru_cell(E_src[word], h, gru, "_l0")
        forwards.append(h)
    h = nothing
    for word in reversed(src):
        h = gru_cell(E_src[word], h, gru, "_l0_reverse")
        backwards.insert(0, h)
    annotations = [torch.cat(both) for both in zip(forwards, backwards, strict=True)]

    def ask(s, step):
        """Return the context and the weights, for the kinds that are tested here."""
        if model.config.attention == "fixed":
            return torch.cat([forwards[-1], backwards[0]]), None
        places = range(len(annotations))
        if model.config.attention == "additive":
            W = p["decoder.attention.query_projection.weight"]
            U = p["decoder.attention.key_projection.weight"]
            v = p["decoder.attention.energy.weight"][0]
            scores = [v @ torch.tanh(W @ s + U @ h) for h in annotations]
        elif model.config.attention == "local-m":
            W = p["decoder.attention.content.key_projection.weight"]
            middle = min(step, len(annotations) - 1)
            places = [j for j in places if abs(j - middle) <= model.config.window]
            scores = [s @ W @ annotations[j] for j in places]
        else:  # general
            scores = [s @ p["decoder.attention.key_projection.weight"] @ h for h in annotations]
        shares = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
        weights = torch.zeros(len(annotations)).index_put((torch.tensor([*places]),), shares)
        return sum(weight * h for weight, h in zip(weights, annotations, strict=True)), weights

    s = torch.tanh(p["decoder.bridge.weight"] @ backwards[0] + p["decoder.bridge.bias"])
    said = torch.zeros(model.config.embedding_dim)
    cell = {name.removeprefix("decoder.cell."): value for name, value in p.items()}
    logits, all_weights = [], []
    for step, word in enumerate(tgt):
        if model.config.decoder == "bahdanau":
            c, weights = ask(s, step)
            s = gru_cell(torch.cat([E_tgt[word], c]), s, cell)
        else:
            read = torch.cat([E_tgt[word], said]) if model.config.input_feeding else E_tgt[word]
            s = gru_cell(read, s, cell)
            c, weights = ask(s, step)
        if weights is not None:
            all_weights.append(weights)
        R, b = p["decoder.readout.weight"], p["decoder.readout.bias"]
        said = torch.tanh(R @ torch.cat([s, c]) + b)
        V = p.get("decoder.output.weight", E_src)
        logits.append(V @ said + p["decoder.output.bias"])
    return torch.stack(logits), torch.stack(all_weights) if all_weights else None


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "additive"},
        {"attention": "fixed"},
        {"attention": "general"},
        {"attention": "additive", "decoder": "luong"},
        {"attention": "fixed", "decoder": "luong"},
        {"attention": "general", "decoder": "luong"},
        {"attention": "general", "decoder": "luong", "input_feeding": True},
        {"attention": "local-m", "decoder": "luong", "window": 1},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
@pytest.mark.parametrize("shared", [False, True])
def test_equals_its_equations_in_value_and_gradient(settings, shared):
    sizes = {"tgt_vocab_size": SRC_VOCAB} if shared else {}
    model = seq2seq(share_embeddings=shared, **settings, **sizes)
    given = sentences()
    memory = model.encode(given.src)
    output = model.decode(given.tgt, memory, need_weights=True)
    pieces, expected_pieces = [], []
    for row, (src_len, tgt_len) in enumerate(
        zip(given.src_lengths, given.tgt_lengths, strict=True)
    ):
        logits, weights = by_the_equations(
            model, given.src[row, :src_len].tolist(), given.tgt[row, :tgt_len].tolist()
        )
        torch.testing.assert_close(output.logits[row, :tgt_len], logits, atol=1e-5, rtol=1e-4)
        if weights is None:
            assert output.weights is None
        else:
            torch.testing.assert_close(output.weights[row, :tgt_len, :src_len], weights)
        pieces.append(output.logits[row, :tgt_len])
        expected_pieces.append(logits)
    parameters = list(model.parameters())
    direction = torch.randn(sum(given.tgt_lengths), model.config.tgt_vocab_size)
    gradients, expected = (
        torch.autograd.grad((torch.cat(logits) * direction).sum(), parameters)
        for logits in (pieces, expected_pieces)
    )
    for (name, _), one, other in zip(model.named_parameters(), gradients, expected, strict=True):
        if name == "src_embedding.table.weight" or name == "decoder.embedding.table.weight":
            one, other = one[PAD_ID + 1 :], other[PAD_ID + 1 :]
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3, msg=name)


def test_the_encoder_equals_a_gru_on_each_sentence_alone_in_value_and_gradient():
    model, given = seq2seq(), sentences()
    reference = nn.GRU(SIZES["embedding_dim"], SIZES["encoder_dim"], bidirectional=True)
    reference.load_state_dict(model.encoder.gru.state_dict())
    table = model.src_embedding.table.weight.detach().clone().requires_grad_()
    memory = model.encode(given.src)
    pieces, expected_pieces = [], []
    for row, length in enumerate(given.src_lengths):
        outputs, (_, backward_state) = reference(table[given.src[row, :length]])
        torch.testing.assert_close(memory.outputs[row, :length], outputs)
        torch.testing.assert_close(memory.state[row], backward_state)
        pieces += [memory.outputs[row, :length].flatten(), memory.state[row]]
        expected_pieces += [outputs.flatten(), backward_state]
    direction = torch.randn(sum(piece.numel() for piece in pieces))
    ours = [model.src_embedding.table.weight, *model.encoder.parameters()]
    theirs = [table, *reference.parameters()]
    gradients = torch.autograd.grad(torch.cat(pieces) @ direction, ours)
    expected = torch.autograd.grad(torch.cat(expected_pieces) @ direction, theirs)
    for one, other in zip(gradients, expected, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


class Rewritten(nn.Module):
    """The same attention in other words: no `project_keys`, parameters of the same names."""

    def __init__(self, query_dim, key_dim, hidden_dim):
        super().__init__()
        self.query_projection = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_projection = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query, keys, mask=None):
        hidden = torch.tanh(self.query_projection(query)[:, None] + self.key_projection(keys))
        scores = (hidden * self.energy.weight[0]).sum(-1)
        weights = scores.masked_fill(~mask, -1e9).softmax(-1)
        return (weights[..., None] * keys).sum(1), weights


def test_another_attention_of_the_same_call_can_stand_in():
    model, given = seq2seq(), sentences()

    def run():
        memory = model.encode(given.src)
        output = model.decode(given.tgt, memory, need_weights=True)
        state = model.start(memory).select(torch.tensor([2, 0, 1]))
        return *output, model.step(given.tgt[:, 0], state)[0]

    expected = run()
    config = model.config
    other = Rewritten(config.decoder_dim, 2 * config.encoder_dim, config.attention_dim)
    other.load_state_dict(model.decoder.attention.state_dict())
    model.decoder.attention = other
    for one, two in zip(run(), expected, strict=True):
        torch.testing.assert_close(one, two)


def test_keys_are_projected_once_a_sentence():
    model, given = seq2seq(), sentences()
    calls = []
    model.decoder.attention.key_projection.register_forward_hook(lambda *_: calls.append(1))
    model.decode(given.tgt, model.encode(given.src))
    assert len(calls) == 1
    assert given.tgt.shape[1] > 1


def test_a_fixed_context_does_not_listen_to_the_query():
    keys, mask = torch.randn(3, 5, 6), torch.ones(3, 5, dtype=torch.bool)
    mask[1, 2:] = False
    fixed = FixedContext()
    one, weights = fixed(torch.randn(3, 7), keys, mask)
    other, _ = fixed(torch.randn(3, 7), keys, mask)
    assert weights is None
    assert torch.equal(one, other)
    attention = AdditiveAttention(7, 6, 11)
    assert not torch.equal(
        attention(torch.randn(3, 7), keys, mask)[0], attention(torch.randn(3, 7), keys, mask)[0]
    )


def test_a_fixed_context_is_the_last_state_of_each_reader():
    # Every key holds its own place: forwards in the first half, backwards in the second.
    places = torch.arange(5.0).reshape(1, 5, 1)
    keys = torch.cat([places, 10 + places], dim=-1).expand(3, 5, 2)
    mask = torch.arange(5) < torch.tensor([[5], [2], [1]])
    context, _ = FixedContext()(torch.zeros(3, 7), keys, mask)
    assert context.tolist() == [[4.0, 10.0], [1.0, 10.0], [0.0, 10.0]]


def tied(model):
    table = model.src_embedding.table.weight
    return model.decoder.embedding.table.weight is table and model.decoder.output.weight is table


def test_shared_embeddings_are_one_table_after_loading_too(tmp_path):
    model = seq2seq(tgt_vocab_size=SRC_VOCAB, share_embeddings=True)
    assert tied(model)
    assert not tied(seq2seq(tgt_vocab_size=SRC_VOCAB))
    words = WordTokenizer(Vocabulary(f"w{index}" for index in range(SRC_VOCAB - 4)))
    checkpoints.save(Checkpoint(model, words, words), tmp_path / "tied.safetensors")
    loaded = checkpoints.load(tmp_path / "tied.safetensors").model
    assert tied(loaded)
    before = loaded.src_embedding.table.weight.detach().clone()
    optimizer = torch.optim.SGD(loaded.parameters(), lr=1.0)
    given = sentences()
    teacher_forced_loss(loaded, Batch(given.src, given.tgt)).backward()
    optimizer.step()
    assert tied(loaded)
    assert not torch.equal(loaded.decoder.output.weight, before)


def test_a_shared_table_counts_once():
    apart = seq2seq(tgt_vocab_size=SRC_VOCAB)
    shared = seq2seq(tgt_vocab_size=SRC_VOCAB, share_embeddings=True)
    sizes = [sum(p.numel() for p in model.parameters()) for model in (apart, shared)]
    assert sizes[0] - sizes[1] == 2 * SRC_VOCAB * SIZES["embedding_dim"]


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "additive"},
        {"attention": "fixed"},
        {"attention": "dot", "decoder": "luong"},
        {"attention": "local-p", "decoder": "luong", "input_feeding": True},
    ],
    ids=lambda settings: settings["attention"],
)
def test_it_learns_one_batch_by_heart(settings):
    config = Seq2SeqConfig(SRC_VOCAB, SRC_VOCAB, 31, 19, 38, 29, **settings)
    model, given = Seq2Seq(config), sentences()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(60):
        loss = teacher_forced_loss(model, Batch(given.src, given.tgt))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01
    state = model.start(model.encode(given.src))
    token = given.tgt[:, 0]
    for position in range(1, given.tgt.shape[1]):
        logits, state = model.step(token, state)
        token = logits.argmax(-1)
        real = given.tgt[:, position] != PAD_ID
        assert torch.equal(token[real], given.tgt[real, position])


def test_dropout_is_off_in_evaluation_and_on_in_training():
    model, given = seq2seq(dropout=0.3), sentences()
    memory = model.encode(given.src)
    assert torch.equal(model.encode(given.src).outputs, memory.outputs)
    model.train()
    assert not torch.equal(model.encode(given.src).outputs, memory.outputs)
    torch.manual_seed(3)
    once = model.decode(given.tgt, memory).logits
    torch.manual_seed(3)
    assert torch.equal(model.decode(given.tgt, memory).logits, once)
    assert not torch.equal(model.decode(given.tgt, memory).logits, once)


def test_dropout_is_on_words_annotations_and_readout():
    model, given = seq2seq(dropout=0.5).train(), sentences()
    one, other = (model.encode(given.src) for _ in range(2))
    assert not torch.equal(one.state, other.state)  # source words
    dropped = one.outputs.masked_select(given.src_mask.transpose(1, 2)) == 0
    assert 0.3 < dropped.float().mean() < 0.7  # annotations

    def decoding_varies():
        one, other = (model.decode(given.tgt, memory).logits for _ in range(2))
        return not torch.equal(one, other)

    memory = model.eval().encode(given.src, given.src_mask)
    model.train().decoder.dropout.p = 0.0
    assert decoding_varies()  # target words
    model.dropout.p, model.decoder.dropout.p = 0.0, 0.5
    assert decoding_varies()  # readout
    model.decoder.dropout.p = 0.0
    assert not decoding_varies()


def test_one_table_needs_one_vocabulary():
    with pytest.raises(ValueError, match="src_vocab_size=23 and tgt_vocab_size=29"):
        Seq2SeqConfig(23, 29, share_embeddings=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "much"}, "attention='much' is unknown: choose one of additive, fixed, dot"),
        ({"decoder": "cho"}, "decoder='cho' is unknown: choose one of bahdanau, luong"),
        ({"input_feeding": True}, "input_feeding=True needs decoder='luong'"),
        ({"attention": "local-m"}, "attention='local-m' needs decoder='luong'"),
        ({"attention": "local-p"}, "attention='local-p' needs decoder='luong'"),
        ({"attention": "dot", "encoder_dim": 63}, "decoder_dim=128 to be twice encoder_dim=63"),
        ({"attention": "location"}, "attention='location' needs max_len"),
        ({"attention": "location", "max_len": 0}, "max_len=0"),
        ({"attention": "local-p", "decoder": "luong", "window": 0}, "window=0 must be at least 1"),
        ({"embedding_dim": 0}, "embedding_dim=0 must be at least 1"),
        ({"encoder_dim": 0}, "encoder_dim=0 must be at least 1"),
        ({"decoder_dim": -1}, "decoder_dim=-1 must be at least 1"),
        ({"attention_dim": 0}, "attention_dim=0 must be at least 1"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Seq2Seq(Seq2SeqConfig(23, 29, **settings))


def test_both_decoders_have_the_same_parameters_but_for_what_they_read():
    shapes = [
        {name: value.shape for name, value in seq2seq(decoder=decoder).named_parameters()}
        for decoder in ("bahdanau", "luong")
    ]
    assert {name for name, _ in shapes[0].items() ^ shapes[1].items()} == {"decoder.cell.weight_ih"}


def asks_with_the_newest_state(decoder):
    """Whether the token that is read changes where the same step looks."""
    model, given = seq2seq(decoder=decoder), sentences()
    memory = model.encode(given.src)
    rows = [
        model.decode(tgt[:, :1], memory, need_weights=True).weights
        for tgt in (given.tgt, given.tgt + 1)
    ]
    return not torch.allclose(*rows)


def test_luong_asks_with_the_current_state_and_bahdanau_with_the_previous_one():
    assert asks_with_the_newest_state("luong")
    assert not asks_with_the_newest_state("bahdanau")


def hears_where_it_looked(**settings):
    """Whether what the first step saw changes the state after the second."""
    model, given = seq2seq(attention="general", decoder="luong", **settings), sentences()
    state = model.start(model.encode(given.src))
    elsewhere = replace(state, encoder_outputs=state.encoder_outputs + 1)
    hiddens = []
    for start in (state, elsewhere):
        _, after = model.step(given.tgt[:, 0], start)
        _, after = model.step(given.tgt[:, 1], after)
        hiddens.append(after.hidden)
    return not torch.allclose(*hiddens)


def test_only_input_feeding_tells_the_next_step_what_was_seen():
    assert hears_where_it_looked(input_feeding=True)
    assert not hears_where_it_looked()


def test_the_loss_is_that_of_the_next_token():
    model, given = seq2seq(), sentences(tgt_lengths=(5, 5, 5))
    memory = model.encode(given.src)
    logits = model.decode(given.tgt, memory).logits
    expected = F.cross_entropy(logits[:, :-1].flatten(0, 1), given.tgt[:, 1:].flatten())
    torch.testing.assert_close(teacher_forced_loss(model, Batch(given.src, given.tgt)), expected)


def test_a_shared_table_begins_small_enough_to_be_an_output_layer():
    """Twin: the embedding's own scale, rows as long as the root of their size."""
    shared, apart = (
        Seq2Seq(
            Seq2SeqConfig(1009, 1009, embedding_dim=61, share_embeddings=share)
        ).src_embedding.table.weight
        for share in (True, False)
    )
    assert shared[1:].norm(dim=-1).mean().item() == pytest.approx(1, abs=0.05)
    assert apart[1:].norm(dim=-1).mean().item() == pytest.approx(61**0.5, abs=0.3)
    assert (shared[PAD_ID] == 0).all()
    assert (apart[PAD_ID] == 0).all()


@pytest.mark.gpu
@pytest.mark.parametrize("attention", ["additive", "fixed"])
def test_the_gpu_says_the_same(attention):
    given, answers = sentences(), []
    for where in ("cpu", "cuda"):
        model = seq2seq(attention=attention).to(where)
        batch = Batch(given.src, given.tgt).to(where)
        loss = teacher_forced_loss(model, batch)
        answers.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(other.cpu(), one, atol=1e-4, rtol=1e-3)
