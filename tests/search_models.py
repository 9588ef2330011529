"""Small models with opinions of their own, for searches to find something."""

import dataclasses

import torch

from attentively.data.batches import pad
from attentively.models.configs import Seq2SeqConfig, TransformerConfig
from attentively.models.interface import DecoderOnly, DecoderOutput, EncoderDecoder, Memory
from attentively.models.seq2seq import Seq2Seq
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import END_ID, START_ID


def row_tensors(cls):
    """Give a frozen dataclass of tensors the `select` of a decoder state."""

    def select(self, rows):
        fields = dataclasses.fields(self)
        return cls(**{field.name: getattr(self, field.name)[rows] for field in fields})

    cls.select = select
    return dataclasses.dataclass(frozen=True)(cls)


WORDS = (4, 5, 6)
VOCAB = 7


@row_tensors
class MarkovState:
    language: torch.Tensor
    previous: torch.Tensor


class Markov(EncoderDecoder):
    """The next token depends on the last two, and on which language the source asks for.

    The two tokens make the state of two hypotheses differ where their last tokens agree.
    """

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(logits)  # language, previous, token, next

    def encode(self, src, src_mask=None):
        return Memory(src.unsqueeze(-1).float(), self.source_mask(src))

    def start(self, memory):
        language = memory.outputs[:, 0, 0].long() % len(self.logits)
        return MarkovState(language, torch.full_like(language, START_ID))

    def step(self, token, state):
        logits = self.logits[state.language, state.previous, token]
        return logits, dataclasses.replace(state, previous=token)

    def decode(self, tgt, memory, need_weights=False):
        state, logits = self.start(memory), []
        for token in tgt.unbind(dim=1):
            now, state = self.step(token, state)
            logits.append(now)
        return DecoderOutput(torch.stack(logits, dim=1))


class Counting(Markov):
    """Keeps a record of how many rows each step reads, and of how often rows are chosen."""

    def __init__(self, logits):
        super().__init__(logits)
        self.rows, self.selected = [], 0

    def start(self, memory):
        counting = self

        class State(MarkovState):
            def select(self, rows):
                counting.selected += 1
                return State(self.language[rows], self.previous[rows])

        state = super().start(memory)
        return State(state.language, state.previous)

    def step(self, token, state):
        self.rows.append(len(token))
        assert set(token.tolist()) <= {START_ID, *WORDS}, "a model is never asked what follows that"
        return super().step(token, state)


class MarkovText(DecoderOnly):
    """The first language of `Markov`, without a source: the prompt is the source."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(logits)

    def start(self, prompt):
        first = torch.full((len(prompt),), START_ID)
        state = MarkovState(torch.zeros_like(first), first)
        for token in prompt.unbind(dim=1):
            _, state = self.step(token, state)
        return state

    def step(self, token, state):
        return Markov.step(self, token, state)


def random_markov(seed):
    generator = torch.Generator().manual_seed(seed)
    return Markov(torch.randn(3, VOCAB, VOCAB, VOCAB, generator=generator, dtype=torch.float64) * 2)


def markov(tree):
    """A language given by the probabilities of what follows each beginning of one or two words.

    `tree` maps (previous, token) to {next: probability}; all else ends at once.
    """
    probabilities = torch.zeros(1, VOCAB, VOCAB, VOCAB)
    probabilities[..., END_ID] = 1.0
    for (previous, token), following in tree.items():
        probabilities[0, previous, token] = 0.0
        for index, probability in following.items():
            probabilities[0, previous, token, index] = probability
    return Markov(probabilities.log())


def counting(tree):
    return Counting(markov(tree).logits.detach())


def source(*rows):
    return pad([[*row, END_ID] for row in rows or [(4,)]])


A, B, C = WORDS


def opinionated_seq2seq(attention):
    torch.manual_seed(5)
    config = Seq2SeqConfig(
        src_vocab_size=13,
        tgt_vocab_size=11,
        embedding_dim=5,
        encoder_dim=7,
        decoder_dim=3,
        attention_dim=2,
        attention=attention,
        dropout=0.5,
    )
    model = Seq2Seq(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)  # decided opinions, so that ties and ends occur
    return model


def decided(model):
    """Give a model opinions of its own, so that ends occur and texts differ."""
    torch.manual_seed(3)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model.eval()


def transformer(**choices):
    config = TransformerConfig(
        src_vocab_size=13,
        tgt_vocab_size=11,
        d_model=8,
        num_heads=2,
        d_ff=5,
        num_layers=2,
        **choices,
    )
    return decided(Transformer(config))
