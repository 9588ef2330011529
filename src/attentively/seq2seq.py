"""Sequence to sequence: a recurrent encoder, and a decoder that attends to it.

With additive attention this is the model of Bahdanau, Cho & Bengio (2015),
https://arxiv.org/abs/1409.0473, section 3; with a fixed context, that of
Cho et al. (2014), https://arxiv.org/abs/1406.1078, with the same encoder.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, get_args, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively.additive import AdditiveAttention
from attentively.config import ModelConfig, VocabSizes
from attentively.embedding import TokenEmbedding
from attentively.protocol import DecoderOutput, EncoderDecoder, Memory
from attentively.recurrent import BidirectionalEncoder
from attentively.vocabulary import PAD_ID

AttentionKind = Literal["additive", "fixed"]


@dataclass(frozen=True)
class Seq2SeqConfig(ModelConfig):
    """The sizes of a `Seq2Seq`, and how its decoder sees the source."""

    src_vocab_size: int
    tgt_vocab_size: int
    embedding_dim: int = 64
    encoder_dim: int = 64
    decoder_dim: int = 128
    attention_dim: int = 64
    attention: AttentionKind = "additive"
    dropout: float = 0.0
    share_embeddings: bool = False
    """One table for source, target and output layer; needs one joint vocabulary."""

    def __post_init__(self) -> None:
        if self.attention not in get_args(AttentionKind):
            raise ValueError(f"attention={self.attention!r} is unknown: choose additive or fixed")
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                f"share_embeddings needs one vocabulary, but src_vocab_size={self.src_vocab_size} "
                f"and tgt_vocab_size={self.tgt_vocab_size}"
            )

    @property
    def vocab_sizes(self) -> VocabSizes:
        """What its source and its target tokenizer must hold."""
        return VocabSizes(self.src_vocab_size, self.tgt_vocab_size)


class FixedContext(nn.Module):
    """No attention: the same summary of the source at every step, whatever the query.

    The summary is the last state of each reader: the forward one's at the last word,
    the backward one's at the first.
    """

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> tuple[Float[Tensor, "batch key_dim"], None]:
        """Return the summary; there are no weights."""
        forwards, backwards = keys.chunk(2, dim=-1)
        last_word = mask.sum(dim=1) - 1
        rows = torch.arange(len(keys), device=keys.device)
        return torch.cat([forwards[rows, last_word], backwards[:, 0]], dim=-1), None


@runtime_checkable
class KeyProjecting(Protocol):
    """An attention that can do part of its work once a sentence, before any query comes."""

    def project_keys(
        self, keys: Float[Tensor, "batch src_len key_dim"]
    ) -> Float[Tensor, "batch src_len hidden_dim"]:
        """Return what `forward` takes as `projected_keys`."""


@dataclass(frozen=True)
class RecurrentState:
    """Where a recurrent decoder stands, and what it looks at."""

    hidden: Float[Tensor, "batch decoder_dim"]
    encoder_outputs: Float[Tensor, "batch src_len key_dim"]
    src_mask: Bool[Tensor, "batch src_len"]
    precomputed: dict[str, Tensor]
    """What the attention computed of the encoder outputs alone, by argument name."""

    def select(self, rows: Int[Tensor, " chosen"]) -> Self:
        """Return the state of the chosen hypotheses, in that order; a row may repeat."""
        return replace(
            self,
            hidden=self.hidden[rows],
            encoder_outputs=self.encoder_outputs[rows],
            src_mask=self.src_mask[rows],
            precomputed={name: value[rows] for name, value in self.precomputed.items()},
        )


class AttentiveDecoder(nn.Module):
    r"""Write the target token by token, asking the attention for a context at each.

    .. math::
        c_i = \text{attention}(s_{i-1}, h), \qquad
        s_i = \text{GRU}([E y_{i-1}; c_i], s_{i-1}), \qquad
        \text{logits}_i = V \tanh(R [s_i; c_i]).

    The first state is :math:`s_0 = \tanh(W_s \overleftarrow{h}_1)`, from the backward reader's
    state at the first word, as in the paper. The paper's output layer is a maxout over
    :math:`s_{i-1}`, :math:`y_{i-1}` and :math:`c_i`; ours is the simpler one above.

    `attention` is called as ``attention(query, keys, mask)``; one that offers `project_keys`
    also gets its result back as `projected_keys`, so that it is computed once a sentence.
    """

    def __init__(
        self, embedding: TokenEmbedding, attention: nn.Module, config: Seq2SeqConfig
    ) -> None:
        super().__init__()
        key_dim = 2 * config.encoder_dim
        self.embedding = embedding
        self.attention = attention
        self.bridge = nn.Linear(config.encoder_dim, config.decoder_dim)  # W_s
        self.cell = nn.GRUCell(config.embedding_dim + key_dim, config.decoder_dim)
        self.readout = nn.Linear(config.decoder_dim + key_dim, config.embedding_dim)  # R
        self.output = nn.Linear(config.embedding_dim, config.tgt_vocab_size)  # V
        self.dropout = nn.Dropout(config.dropout)

    def start(self, memory: Memory, src_mask: Bool[Tensor, "batch src_len"]) -> RecurrentState:
        """Return :math:`s_0` and what to look at."""
        precomputed: dict[str, Tensor] = {}
        if isinstance(self.attention, KeyProjecting):
            precomputed["projected_keys"] = self.attention.project_keys(memory.outputs)
        hidden = torch.tanh(self.bridge(memory.state))
        return RecurrentState(hidden, memory.outputs, src_mask, precomputed)

    def advance(
        self, embedded: Float[Tensor, "batch embedding_dim"], state: RecurrentState
    ) -> tuple[
        RecurrentState, Float[Tensor, "batch key_dim"], Float[Tensor, "batch src_len"] | None
    ]:
        """Read one embedded token; return the next state, the context and the weights."""
        context, weights = self.attention(
            state.hidden, state.encoder_outputs, state.src_mask, **state.precomputed
        )
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


class Seq2Seq(EncoderDecoder[RecurrentState]):
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
        attention: nn.Module = FixedContext()
        if config.attention == "additive":
            attention = AdditiveAttention(
                config.decoder_dim, 2 * config.encoder_dim, config.attention_dim
            )
        self.decoder = AttentiveDecoder(tgt_embedding, attention, config)
        if config.share_embeddings:
            table = tgt_embedding.table.weight
            # As an output layer, rows of length 1: longer ones would make the first logits wild.
            nn.init.normal_(table, std=config.embedding_dim**-0.5)
            nn.init.zeros_(table[PAD_ID])
            self.decoder.output.weight = table
        self.dropout = nn.Dropout(config.dropout)

    def encode(
        self, src: Int[Tensor, "batch src_len"], src_mask: Bool[Tensor, "batch 1 src_len"]
    ) -> Memory:
        """Return an annotation per source token, and the backward reader's last state."""
        embedded = self.dropout(self.src_embedding(src))
        outputs, backward_state = self.encoder(embedded, src_mask.squeeze(1))
        return Memory(self.dropout(outputs), backward_state)

    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Memory,
        src_mask: Bool[Tensor, "batch 1 src_len"],
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Predict the token after each one of `tgt` (teacher forcing)."""
        state = self.decoder.start(memory, src_mask.squeeze(1))
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

    def start(self, memory: Memory, src_mask: Bool[Tensor, "batch 1 src_len"]) -> RecurrentState:
        """Return the state before the first token."""
        return self.decoder.start(memory, src_mask.squeeze(1))

    def step(
        self, token: Int[Tensor, " batch"], state: RecurrentState
    ) -> tuple[Float[Tensor, "batch vocab"], RecurrentState]:
        """Read one token; return the logits of the next one, and the state after it."""
        embedded = self.dropout(self.decoder.embedding(token))
        state, context, _ = self.decoder.advance(embedded, state)
        return self.decoder.predict(state.hidden, context), state
