"""Exposure bias: predictions of a decoder after the true prefix and after its own prefix.

In training it reads the true words (teacher forcing); in inference it reads its own predictions
(free running). `compare` evaluates one model in both modes. The experiment also trains a model on
its own predictions, and models on forward and reversed sources, as Sutskever, Vinyals & Le (2014),
https://arxiv.org/abs/1409.3215, section 3.3.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attentively import device
from attentively.data import tatoeba, toy
from attentively.data.batches import Batch, Example, collate, encode_pairs, in_order, pad
from attentively.data.pairs import Pair, translations_by_source
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text, new_checkpoint
from attentively.layers.embedding import TokenEmbedding
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.configs import Seq2SeqConfig
from attentively.models.interface import EncoderDecoder, Memory, evaluating
from attentively.models.seq2seq import AttentiveDecoder, RecurrentModel, Seq2Seq
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID
from attentively.training.losses import cross_entropy
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig

SHIPPED = "tatoeba-en-fr-additive"
"""A pretrained model of real data; the short training runs use its tokenizer."""

LONGEST_DISTANCE = 8
"""Maximum number of words after the first error that are distinguished."""


class FreeRun(NamedTuple):
    """The predictions of a model in free-running mode."""

    logits: Float[Tensor, "batch steps vocab"]
    words: Int[Tensor, "batch steps"]
    """The most probable word of each step, which is the input of the next."""


def run_free(
    model: EncoderDecoder,
    src: Int[Tensor, "batch src_len"],
    steps: int,
) -> FreeRun:
    """Generate exactly `steps` tokens; generation continues after the end token."""
    state = model.start(model.encode(src))
    token = torch.full((len(src),), START_ID, device=src.device)
    logits, tokens = [], []
    for _ in range(steps):
        step_logits, state = model.step(token, state)
        token = step_logits.argmax(dim=-1)
        logits.append(step_logits)
        tokens.append(token)
    return FreeRun(torch.stack(logits, dim=1), torch.stack(tokens, dim=1))


class FreeRunningTrainer(Trainer):
    """Train without teacher forcing: every word is predicted from the model's own prefix."""

    def _loss(self, batch: Batch) -> Tensor:
        targets = batch.tgt[:, 1:]
        logits = run_free(self.model, batch.src, targets.shape[1]).logits  # type: ignore[arg-type]
        return cross_entropy(logits, targets, PAD_ID)


class Positions(NamedTuple):
    """Values for each target token of a batch or, flattened, of a corpus."""

    real: Bool[Tensor, "*shape"]
    alive: Bool[Tensor, "*shape"]
    """True at real tokens, if the model's own sentence has not ended before."""
    slipped: Bool[Tensor, "*shape"]
    """True where `alive`, if one of the model's own previous words differs from the true one."""
    distance: Int[Tensor, "*shape"]
    """Number of words since the first such error."""
    losses: dict[str, Float[Tensor, "*shape"]]
    """Negative log-likelihood of the true token in nats, by kind of prefix."""
    right: dict[str, Bool[Tensor, "*shape"]]
    """Whether the true token is the most probable one, by kind of prefix."""


def look(model: EncoderDecoder, batch: Batch) -> Positions:
    """Predict every token of the targets after three kinds of prefix.

    ``gold``: the true prefix. ``own``: the model's own prefix. ``slip``: the true prefix, but with
    the model's first error.
    """
    src, tgt = batch
    words, targets = tgt[:, :-1], tgt[:, 1:]
    real = targets != PAD_ID
    memory = model.encode(src)
    own = run_free(model, src, targets.shape[1])

    wrong = (own.words != targets) & real
    first_wrong = wrong.long().argmax(dim=1, keepdim=True)
    place = torch.arange(targets.shape[1], device=src.device)
    alive = real & ~_before(own.words == END_ID)
    one_wrong = torch.where(
        wrong.any(dim=1, keepdim=True) & (place == first_wrong + 1), own.words.roll(1, 1), words
    )

    logits = {
        "gold": model.decode(words, memory).logits,
        "slip": model.decode(one_wrong, memory).logits,
        "own": own.logits,
    }
    return Positions(
        real=real,
        alive=alive,
        slipped=alive & _before(wrong),
        distance=place - first_wrong,
        losses={name: surprise(given, targets) for name, given in logits.items()},
        right={name: given.argmax(dim=-1) == targets for name, given in logits.items()},
    )


def surprise(
    logits: Float[Tensor, "batch tgt_len vocab"], targets: Int[Tensor, "batch tgt_len"]
) -> Float[Tensor, "batch tgt_len"]:
    """Return the negative log-likelihood of each target, in nats."""
    chosen = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1))
    return -chosen.squeeze(-1)


def _before(happened: Bool[Tensor, "batch steps"]) -> Bool[Tensor, "batch steps"]:
    """Return whether an event has occurred before each step."""
    return (happened.cumsum(dim=1) - happened.long()) > 0


def compare(model: EncoderDecoder, examples: Sequence[Example], batch_size: int = 256) -> Row:
    """Return losses and accuracies after true and after own prefixes.

    After the end of the model's own sentence there is no loss to compare; for the accuracy, every
    missing token counts as wrong.
    """
    where = next(model.parameters()).device
    ordered = sorted(examples, key=lambda example: len(example.tgt))
    exact, batches = 0, []
    with evaluating(model):
        for indices in in_order(len(ordered), batch_size):
            found = look(model, collate([ordered[index] for index in indices]).to(where))
            exact += int((found.right["gold"] | ~found.real).all(dim=1).sum())
            batches.append(found)
    at = _joined(batches)
    every = len(at.real)
    return {
        "tokens": every,
        "loss_after_gold": _mean(at.losses["gold"]),
        "accuracy_after_gold": _mean(at.right["gold"]),
        "accuracy_after_own": _mean(at.right["own"] & at.alive),
        "exact_match": round(exact / len(examples), 4),
        "alive": _summary(at, at.alive),
        "after_slip": _summary(at, at.slipped),
        "by_distance": [
            {"distance": distance, **_summary(at, at.slipped & (at.distance == distance))}
            for distance in range(1, LONGEST_DISTANCE + 1)
        ],
    }


def _joined(batches: Sequence[Positions]) -> Positions:
    """Return the real positions of all batches, concatenated."""

    def join(parts: Iterable[Tensor]) -> Tensor:
        return torch.cat(
            [part[batch.real].cpu() for part, batch in zip(parts, batches, strict=True)]
        )

    return Positions(
        join(batch.real for batch in batches),
        join(batch.alive for batch in batches),
        join(batch.slipped for batch in batches),
        join(batch.distance for batch in batches),
        {name: join(batch.losses[name] for batch in batches) for name in batches[0].losses},
        {name: join(batch.right[name] for batch in batches) for name in batches[0].right},
    )


def _summary(at: Positions, chosen: Bool[Tensor, " tokens"]) -> Row:
    """Return the number of chosen tokens, and their loss and accuracy by kind of prefix."""
    row: Row = {"tokens": int(chosen.sum())}
    if row["tokens"]:
        for name in at.losses:
            row[name] = {
                "loss": _mean(at.losses[name][chosen]),
                "accuracy": _mean(at.right[name][chosen]),
            }
    return row


def _mean(values: Tensor) -> float:
    return round(float(values.cpu().double().mean()), 4)


def after_another_person(model: EncoderDecoder, examples: Sequence[tuple[Example, Example]]) -> Row:
    """Return the loss of one reference translation after the prefix of another.

    Each item contains two translations of one source. Only words after the first difference count,
    up to the end of the other translation: such prefixes contain no model error.
    """
    where = next(model.parameters()).device
    with evaluating(model):
        src, tgt = collate([one for one, _ in examples]).to(where)
        words, targets = tgt[:, :-1], tgt[:, 1:]
        read = pad([other.tgt[:-1] for _, other in examples]).to(where)
        shared = min(words.shape[1], read.shape[1])
        words, targets, read = words[:, :shared], targets[:, :shared], read[:, :shared]
        chosen = (targets != PAD_ID) & (read != PAD_ID) & ((words != read).cumsum(dim=1) > 0)
        memory = model.encode(src)
        row: Row = {"tokens": int(chosen.sum())}
        for name, given in (("gold", words), ("other", read)):
            logits = model.decode(given, memory).logits
            row[name] = {
                "loss": _mean(surprise(logits, targets)[chosen]),
                "accuracy": _mean((logits.argmax(dim=-1) == targets)[chosen]),
            }
    return row


class LastState(nn.Module):
    """A fixed context: the encoder state at the last token of each source."""

    def forward(
        self,
        query: Float[Tensor, "batch query_dim"],
        keys: Float[Tensor, "batch src_len key_dim"],
        mask: Bool[Tensor, "batch src_len"],
    ) -> tuple[Float[Tensor, "batch key_dim"], None]:
        """Return this state; there are no weights."""
        last_word = mask.sum(dim=1) - 1
        return keys[torch.arange(len(keys), device=keys.device), last_word], None


class OneWaySeq2Seq(RecurrentModel):
    """A `Seq2Seq` with a fixed context and a unidirectional encoder of the same total size.

    The order of the source matters only for a unidirectional encoder.
    """

    config: Seq2SeqConfig

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        size = 2 * config.encoder_dim
        self.src_embedding = TokenEmbedding(config.src_vocab_size, config.embedding_dim)
        self.reader = nn.GRU(config.embedding_dim, size, batch_first=True)
        self.last_state = LastState()
        tgt_embedding = TokenEmbedding(config.tgt_vocab_size, config.embedding_dim)
        self.decoder = AttentiveDecoder(
            tgt_embedding, self.last_state, size, size, config.decoder_dim
        )
        self.dropout = nn.Dropout(config.dropout)

    def encode(
        self,
        src: Int[Tensor, "batch src_len"],
        src_mask: Bool[Tensor, "batch 1 src_len"] | None = None,
    ) -> Memory:
        """Return the encoder states; padding comes last, so no state of a token depends on it."""
        src_mask = self.source_mask(src) if src_mask is None else src_mask
        outputs, _ = self.reader(self.dropout(self.src_embedding(src)))
        last, _ = self.last_state(outputs[:, 0], outputs, src_mask.squeeze(1))
        return Memory(outputs, src_mask, last)


def reversed_source(example: Example) -> Example:
    """Return the example with a reversed source; the end token stays last."""
    return Example([*example.src[-2::-1], example.src[-1]], example.tgt)


def measure(kind: str, steps: int, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model, and compare its predictions after true and own prefixes.

    ``toy`` and ``tatoeba`` are trained with teacher forcing, ``toy-own-words`` on its own
    predictions; ``shipped`` is pretrained. ``forwards`` and ``reversed`` differ in the order of the
    source.
    """
    del directory  # a training run takes at most two minutes, so it is restarted
    steps = min(steps, 4) if quick else steps
    if kind in ("tatoeba", "shipped"):
        return _on_real_data(kind, steps, seed, quick)
    if kind in ("forwards", "reversed"):
        return _in_order(kind, steps, seed, quick)
    checkpoint = new_checkpoint("fixed", seed)
    _, *tokenizers = checkpoint.translator()

    def examples(split: str, number: int) -> list[Example]:
        pairs = toy.load(split, 100 if quick else number, clauses=(1,))
        return encode_pairs(as_text(pairs), *tokenizers)

    trainer = FreeRunningTrainer if kind == "toy-own-words" else Trainer
    seconds = _train(checkpoint, examples("train", 20_000), examples("validation", 200), steps,
                     6e-3, seed, trainer)  # fmt: skip
    return {
        "training_seconds": seconds,
        **compare(checkpoint.translator().model, examples("test", 1_000)),
    }


def _train(
    checkpoint: Checkpoint,
    examples: Sequence[Example],
    validation: Sequence[Example],
    steps: int,
    learning_rate: float,
    seed: int,
    kind: type[Trainer] = Trainer,
) -> float:
    """Train; return the training time in seconds."""
    config = TrainingConfig(
        steps=steps, learning_rate=learning_rate, validate_every=steps, seed=seed
    )
    trainer = kind(checkpoint, examples, validation, config, progress=False)
    trainer.fit()
    return round(trainer.seconds, 1)


def _on_real_data(kind: str, steps: int, seed: int, quick: bool) -> Row:
    shipped = load_pretrained(SHIPPED, device.best())
    model, *tokenizers = shipped.translator()
    src_tokenizer, tgt_tokenizer = tokenizers
    row: Row = {}
    if kind == "tatoeba":
        torch.manual_seed(seed)
        config = Seq2SeqConfig(
            len(src_tokenizer),
            len(tgt_tokenizer),
            embedding_dim=96,
            encoder_dim=96,
            decoder_dim=192,
            attention="fixed",
            share_embeddings=True,
        )
        model = Seq2Seq(config)
        pairs = _real_pairs("train", quick)
        chosen = random.Random(seed).sample(pairs, min(len(pairs), 64 * steps))
        validation = encode_pairs(_real_pairs("validation", quick)[:200], *tokenizers)
        checkpoint = Checkpoint(model, src_tokenizer, tgt_tokenizer)
        examples = encode_pairs(chosen, *tokenizers)
        row["training_seconds"] = _train(checkpoint, examples, validation, steps, 4e-3, seed)
    tests = _real_pairs("test", quick)
    if kind == "shipped":  # each seed tries it on another half
        tests = random.Random(seed).sample(tests, len(tests) // 2)
    row |= compare(model, encode_pairs(tests, *tokenizers))
    twice = [encode_pairs(pair, *tokenizers) for pair in two_translations(tests)]
    row["another_person"] = after_another_person(model, [(one, two) for one, two in twice])
    return row


def _real_pairs(split: str, quick: bool) -> list[Pair]:
    if quick:  # no real ones, and each source with a second translation, its neighbour's
        pairs = as_text(toy.load("train", 40, clauses=(1,)))
        neighbours = [*pairs[1:], pairs[0]]
        return [*pairs, *(Pair(p.src, q.tgt) for p, q in zip(pairs, neighbours, strict=True))]
    return tatoeba.load(split)


def two_translations(pairs: Sequence[Pair]) -> list[tuple[Pair, Pair]]:
    """Return the first two translations of every source with at least two."""
    return [
        (Pair(src, several[0]), Pair(src, several[1]))
        for src, several in translations_by_source(pairs).items()
        if len(several) > 1
    ]


def _in_order(kind: str, steps: int, seed: int, quick: bool) -> Row:
    known = new_checkpoint("fixed", seed)
    _, *tokenizers = known.translator()
    config = known.model.config
    assert isinstance(config, Seq2SeqConfig)  # new_checkpoint makes no other
    torch.manual_seed(seed)
    model = OneWaySeq2Seq(config)

    def examples(split: str, number: int, clauses: Sequence[int]) -> list[Example]:
        pairs = toy.load(split, 40 if quick else number, clauses=clauses)
        found = encode_pairs(as_text(pairs), *tokenizers)
        return [reversed_source(example) for example in found] if kind == "reversed" else found

    both = (1, 2)
    seconds = _train(
        replace(known, model=model), examples("train", 20_000, both),
        examples("validation", 200, both), steps, 6e-3, seed,
    )  # fmt: skip
    compared = {clauses: compare(model, examples("test", 400, (clauses,))) for clauses in both}
    return {
        "training_seconds": seconds,
        "by_clauses": [
            {"clauses": clauses} | {name: row[name] for name in ("loss_after_gold", "exact_match")}
            for clauses, row in compared.items()
        ],
        "loss_by_third": loss_by_third(model, examples("test", 400, both)),
    }


def loss_by_third(model: EncoderDecoder, examples: Sequence[Example]) -> list[float]:
    """Return the teacher-forced loss in the first, the middle and the last third of a target."""
    where = next(model.parameters()).device
    thirds: list[list[Tensor]] = [[], [], []]
    with evaluating(model):
        for indices in in_order(len(examples), 256):
            batch = collate([examples[index] for index in indices]).to(where)
            losses = look(model, batch).losses["gold"]
            for row, index in zip(losses, indices, strict=True):
                length = len(examples[index].tgt) - 1
                for third, part in enumerate(row[:length].tensor_split(3)):
                    thirds[third].append(part)
    return [_mean(torch.cat(parts)) for parts in thirds]


EXPERIMENT = Experiment(
    name="exposure",
    question="How do predictions after the model's own prefix differ from teacher forcing?",
    conditions=[
        *({"kind": "toy", "steps": steps} for steps in (100, 200, 400, 800, 1600)),
        {"kind": "toy-own-words", "steps": 800},
        {"kind": "tatoeba", "steps": 400},
        {"kind": "shipped", "steps": 13_000},
        *({"kind": kind, "steps": 600} for kind in ("forwards", "reversed")),
    ],
    measure=measure,
)
