"""Sequence-to-sequence models: a recurrent encoder and a recurrent decoder with attention.

With additive attention this is the model of Bahdanau, Cho & Bengio (2015),
https://arxiv.org/abs/1409.0473, section 3; with a fixed context, that of
Cho et al. (2014), https://arxiv.org/abs/1406.1078, with the same encoder; with
``decoder="luong"``, that of Luong, Pham & Manning (2015), https://arxiv.org/abs/1508.04025,
section 3, again with the same encoder.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.attention.additive import AdditiveAttention
from attentively.attention.multiplicative import LocalAttention, LuongAttention
from attentively.layers.bidirectional import BidirectionalEncoder
from attentively.layers.embedding import TokenEmbedding
from attentively.models.configs import Seq2SeqConfig
from attentively.models.interface import DecoderOutput, EncoderDecoder, Memory
from attentively.tokens.vocabulary import PAD_ID


class FixedContext(nn.Module):
    """No attention: the same context vector at every step, whatever the query.

    The context consists of the final states of both encoder RNNs: that of the forward RNN at the
    last word, and that of the backward RNN at the first.
    """

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> tuple[Float[Tensor, "batch key_dim"], None]:
        """Return the context; there are no weights."""
        forwards, backwards = keys.chunk(2, dim=-1)
        last_word = mask.sum(dim=1) - 1
        rows = torch.arange(len(keys), device=keys.device)
        return torch.cat([forwards[rows, last_word], backwards[:, 0]], dim=-1), None


ProjectingAttention = AdditiveAttention | LuongAttention | LocalAttention
"""The attention modules that project the keys of a sentence once, for all queries."""


@dataclass(frozen=True)
class RecurrentState:
    """The hidden state of a recurrent decoder, and the encoder outputs that it attends to."""

    hidden: Float[Tensor, "batch decoder_dim"]
    encoder_outputs: Float[Tensor, "batch src_len key_dim"]
    src_mask: Bool[Tensor, "batch src_len"]
    projected_keys: Float[Tensor, "batch src_len hidden_dim"] | None = None
    """The keys that a `ProjectingAttention` computed from the encoder outputs."""
    step: int = 0
    """Number of tokens that a `LuongDecoder` has read."""
    attentional: Float[Tensor, "batch embedding_dim"] | None = None
    """The attentional vector that a `LuongDecoder` with input feeding reads at the next step."""

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen hypotheses, in that order; a row may repeat."""
        return replace(
            self,
            hidden=self.hidden[rows],
            encoder_outputs=self.encoder_outputs[rows],
            src_mask=self.src_mask[rows],
            projected_keys=None if self.projected_keys is None else self.projected_keys[rows],
            attentional=None if self.attentional is None else self.attentional[rows],
        )


class RecurrentDecoder(nn.Module, ABC):
    r"""Generate the target token by token, with a context vector from the attention at each step.

    The initial state is :math:`s_0 = \tanh(W_s m)`, with :math:`m` the `state` of the memory.

    `attention` is any module that can be called as ``attention(query, keys, mask)``; `attend`
    lists the further arguments of the package's own attention modules.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attention: nn.Module,
        input_dim: int,
        start_dim: int,
        key_dim: int,
        decoder_dim: int,
        dropout: float = 0.0,
    ) -> None:
        """`input_dim` is the input size of a step, `start_dim` the size of the memory's state."""
        super().__init__()
        vocab_size, embedding_dim = embedding.table.weight.shape
        self.embedding = embedding
        self.attention = attention
        self.bridge = nn.Linear(start_dim, decoder_dim)  # W_s
        self.cell = nn.GRUCell(input_dim, decoder_dim)
        self.readout = nn.Linear(decoder_dim + key_dim, embedding_dim)  # R, or Luong's W_c
        self.output = nn.Linear(embedding_dim, vocab_size)  # V
        self.dropout = nn.Dropout(dropout)

    def start(self, memory: Memory) -> RecurrentState:
        """Return the initial state :math:`s_0`, with the encoder outputs."""
        hidden = torch.tanh(self.bridge(memory.state))
        state = RecurrentState(hidden, memory.outputs, memory.mask.squeeze(1))
        if isinstance(self.attention, ProjectingAttention):
            keys = self.attention.project_keys(memory.outputs)
            state = replace(state, projected_keys=keys)
        return state

    def attend(
        self, query: Float[Tensor, "batch decoder_dim"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"] | None]:
        """Return the context and the attention weights of one query.

        A `ProjectingAttention` also receives its projected keys, and a `LocalAttention` the step,
        from which local-m computes its window.
        """
        more: list[Any] = []
        if isinstance(self.attention, ProjectingAttention):
            more.append(state.projected_keys)
        if isinstance(self.attention, LocalAttention):
            more.append(state.step)
        context, weights = self.attention(query, state.encoder_outputs, state.src_mask, *more)
        return context, weights

    @abstractmethod
    def advance(
        self, embedded: Float[Tensor, "batch embedding_dim"], state: RecurrentState
    ) -> tuple[
        RecurrentState,
        Float[Tensor, "batch key_dim"],
        Float[Tensor, "batch src_len"] | None,
    ]:
        """Read one embedded token; return the next state, the context, the weights."""

    @abstractmethod
    def predict(
        self,
        hidden: Float[Tensor, "*shape decoder_dim"],
        context: Float[Tensor, "*shape key_dim"],
    ) -> Float[Tensor, "*shape vocab"]:
        """Return the logits of the next token."""


class AttentiveDecoder(RecurrentDecoder):
    r"""Bahdanau's decoder: the query is the state *before* a token is read.

    .. math::
        c_i &= \text{attention}(s_{i-1}, h) \\
        s_i &= \text{GRU}([E y_{i-1}; c_i], s_{i-1}) \\
        \text{logits}_i &= V \tanh(R [s_i; c_i])

    In a `Seq2Seq` the initial state is :math:`s_0 = \tanh(W_s \overleftarrow{h}_1)`, computed
    from the backward RNN's state at the first word, as in the paper. The paper's output layer is
    a maxout over :math:`s_{i-1}`, :math:`y_{i-1}` and :math:`c_i`; ours is simpler.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attention: nn.Module,
        start_dim: int,
        key_dim: int,
        decoder_dim: int,
        dropout: float = 0.0,
    ) -> None:
        input_dim = embedding.table.embedding_dim + key_dim
        super().__init__(embedding, attention, input_dim, start_dim, key_dim, decoder_dim, dropout)

    def advance(
        self, embedded: Float[Tensor, "batch embedding_dim"], state: RecurrentState
    ) -> tuple[
        RecurrentState,
        Float[Tensor, "batch key_dim"],
        Float[Tensor, "batch src_len"] | None,
    ]:
        """Read one embedded token; return the next state, the context, the weights."""
        context, weights = self.attend(state.hidden, state)
        hidden = self.cell(torch.cat([embedded, context], dim=-1), state.hidden)
        return replace(state, hidden=hidden), context, weights

    def predict(
        self,
        hidden: Float[Tensor, "*shape decoder_dim"],
        context: Float[Tensor, "*shape key_dim"],
    ) -> Float[Tensor, "*shape vocab"]:
        """Return the logits of the next token."""
        readout = torch.tanh(self.readout(torch.cat([hidden, context], dim=-1)))
        return self.output(self.dropout(readout))


class LuongDecoder(RecurrentDecoder):
    r"""Luong's decoder: the query is the state *after* a token is read.

    .. math::
        s_t &= \text{GRU}(E y_{t-1}, s_{t-1}) \\
        c_t &= \text{attention}(s_t, h) \\
        \tilde{h}_t &= \tanh(W_c [c_t; s_t]) \\
        \text{logits}_t &= V \tilde{h}_t

    (equations 5 and 6; in `readout` the columns of :math:`W_c` that multiply the state come
    first). The context enters the prediction but not the next state. With `input_feeding`
    (section 3.3) the input of the next step is its token and the attentional vector
    :math:`\tilde{h}_t`, which informs it about past alignments; the first step reads zeros. The
    paper uses a stack of LSTMs; ours is one GRU with the initial state of `AttentiveDecoder`.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        attention: nn.Module,
        start_dim: int,
        key_dim: int,
        decoder_dim: int,
        dropout: float = 0.0,
        input_feeding: bool = False,
    ) -> None:
        input_dim = embedding.table.embedding_dim * (2 if input_feeding else 1)
        super().__init__(embedding, attention, input_dim, start_dim, key_dim, decoder_dim, dropout)
        self.input_feeding = input_feeding

    def start(self, memory: Memory) -> RecurrentState:
        """Return the initial state; with input feeding, its attentional vector is zero."""
        state = super().start(memory)
        if not self.input_feeding:
            return state
        nothing = state.hidden.new_zeros(len(state.hidden), self.readout.out_features)
        return replace(state, attentional=nothing)

    def advance(
        self, embedded: Float[Tensor, "batch embedding_dim"], state: RecurrentState
    ) -> tuple[
        RecurrentState,
        Float[Tensor, "batch key_dim"],
        Float[Tensor, "batch src_len"] | None,
    ]:
        """Read one embedded token; return the next state, the context, the weights."""
        if state.attentional is not None:
            embedded = torch.cat([embedded, state.attentional], dim=-1)
        hidden = self.cell(embedded, state.hidden)
        context, weights = self.attend(hidden, state)
        state = replace(state, hidden=hidden, step=state.step + 1)
        if self.input_feeding:
            state = replace(state, attentional=self.attentional(hidden, context))
        return state, context, weights

    def attentional(
        self,
        hidden: Float[Tensor, "*shape decoder_dim"],
        context: Float[Tensor, "*shape key_dim"],
    ) -> Float[Tensor, "*shape embedding_dim"]:
        r"""Return the attentional vector :math:`\tilde{h}_t`; `readout` is :math:`W_c`."""
        return torch.tanh(self.readout(torch.cat([hidden, context], dim=-1)))

    def predict(
        self,
        hidden: Float[Tensor, "*shape decoder_dim"],
        context: Float[Tensor, "*shape key_dim"],
    ) -> Float[Tensor, "*shape vocab"]:
        """Return the logits of the next token."""
        return self.output(self.dropout(self.attentional(hidden, context)))


class RecurrentModel(EncoderDecoder[RecurrentState]):
    """A model that generates with a `RecurrentDecoder`, whatever its encoder."""

    decoder: RecurrentDecoder
    dropout: nn.Dropout

    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Memory,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Predict the token after each one of `tgt` (teacher forcing)."""
        state = self.decoder.start(memory)
        embedded = self.dropout(self.decoder.embedding(tgt))
        hiddens, contexts, rows = [], [], []
        for embedded_token in embedded.unbind(dim=1):
            state, context, weights = self.decoder.advance(embedded_token, state)
            hiddens.append(state.hidden)
            contexts.append(context)
            if weights is not None:
                rows.append(weights)
        logits = self.decoder.predict(torch.stack(hiddens, dim=1), torch.stack(contexts, dim=1))
        all_weights = torch.stack(rows, dim=1) if need_weights and rows else None
        return DecoderOutput(logits, all_weights)

    def start(self, memory: Memory) -> RecurrentState:
        """Return the state before the first token."""
        return self.decoder.start(memory)

    def step(
        self, token: Int[Tensor, " batch"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch vocab"], RecurrentState]:
        """Read one token; return the logits of the next one, and the new state."""
        embedded = self.dropout(self.decoder.embedding(token))
        state, context, _ = self.decoder.advance(embedded, state)
        return self.decoder.predict(state.hidden, context), state


class Seq2Seq(RecurrentModel):
    """A bidirectional recurrent encoder and an attentive recurrent decoder."""

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        self.src_embedding = TokenEmbedding(config.src_vocab_size, config.embedding_dim)
        self.encoder = BidirectionalEncoder(config.embedding_dim, config.encoder_dim)
        if config.share_embeddings:
            tgt_embedding = self.src_embedding
        else:
            tgt_embedding = TokenEmbedding(config.tgt_vocab_size, config.embedding_dim)
        self.decoder = _decoder(config, tgt_embedding)
        if config.share_embeddings:
            table = tgt_embedding.table.weight
            # Rows of length about 1: as an output layer, longer rows give very large first logits.
            nn.init.normal_(table, std=config.embedding_dim**-0.5)
            nn.init.zeros_(table[PAD_ID])
            self.decoder.output.weight = table
        self.dropout = nn.Dropout(config.dropout)

    def encode(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "batch 1 src_len"] | None = None,
    ) -> Memory:
        """Return one output per source token, and the last state of the backward RNN."""
        src_mask = self.source_mask(src) if src_mask is None else src_mask
        embedded = self.dropout(self.src_embedding(src))
        outputs, backward_state = self.encoder(embedded, src_mask.squeeze(1))
        return Memory(self.dropout(outputs), src_mask, backward_state)


def _decoder(config: Seq2SeqConfig, embedding: TokenEmbedding) -> RecurrentDecoder:
    sizes = (config.encoder_dim, 2 * config.encoder_dim, config.decoder_dim, config.dropout)
    if config.decoder == "luong":
        return LuongDecoder(embedding, _attention(config), *sizes, config.input_feeding)
    return AttentiveDecoder(embedding, _attention(config), *sizes)


def _attention(config: Seq2SeqConfig) -> nn.Module:
    query_dim, key_dim = config.decoder_dim, 2 * config.encoder_dim
    if config.attention == "additive":
        return AdditiveAttention(query_dim, key_dim, config.attention_dim)
    if config.attention == "fixed":
        return FixedContext()
    if config.attention == "local-m" or config.attention == "local-p":
        return LocalAttention(query_dim, key_dim, config.window, config.attention)
    return LuongAttention(
        query_dim, key_dim, config.attention, config.attention_dim, config.max_len
    )
