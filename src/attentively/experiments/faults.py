"""Faults: bugs in the training of a Transformer that raise no error, and their learning curves.

Every run has one fault, or none, and is otherwise the same: initialisation, batches, dropout. Its
reported losses are computed by its own faulty code, as for an unknown bug. Its actual performance
is measured afterwards, in free-running generation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attentively.attention.masks import padding_mask
from attentively.data import toy
from attentively.data.batches import Batch, Example, collate, encode_pairs, in_order, shuffled
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import as_text, new_transformer
from attentively.generation.search import next_log_probabilities
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import DecoderOutput, Memory, evaluating
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID
from attentively.training.losses import cross_entropy
from attentively.training.run_folder import Record
from attentively.training.schedules import one_cycle

FAULTS = (
    "none",
    "no causal mask",
    "no target shift",
    "padding in the loss",
    "no positional encoding",
    "learning rate too high",
    "gradients not zeroed",
    "dropout in validation",
)
TRAINED_CLAUSES = (1,)
STEPS = 300
WARM_UP_STEPS = 30
BATCH_SIZE = 32
LEARNING_RATE = 5e-3
TOO_HIGH = 10 * LEARNING_RATE
POINTS = 15
"""Steps between two evaluations of a run."""
MAX_LEN = 40


class Unmasked(Transformer):
    """A Transformer whose decoder attends to the whole target, including later words."""

    def decode(
        self,
        tgt: Int[Tensor, "batch tgt_len"],
        memory: Memory,
        need_weights: bool = False,
    ) -> DecoderOutput:
        """Predict the token after each token of `tgt` from all of them, without padding."""
        outputs, _, _ = self.decoder(
            tgt, memory.outputs, padding_mask(tgt, PAD_ID), memory.mask, need_weights=False
        )
        return DecoderOutput(self.output(outputs), None)


class Foresight(NamedTuple):
    """Scores of next-word prediction with teacher forcing."""

    loss: float
    """Cross-entropy, in nats per word."""
    accuracy: float
    """Fraction of words with the highest probability."""
    confidence: float
    """Mean probability of the most probable word."""


def new_model(fault: str, seed: int) -> Checkpoint:
    """Return an untrained toy Transformer, with the fault if it concerns the model."""
    settings: dict[str, Any] = {"positions": "none"} if fault == "no positional encoding" else {}
    checkpoint = new_transformer(seed, **settings)
    if fault != "no causal mask":
        return checkpoint
    model = cast(Transformer, checkpoint.model)
    unmasked = Unmasked(model.config)
    unmasked.load_state_dict(model.state_dict())
    return replace(checkpoint, model=unmasked)


def predict(
    model: Transformer, batch: Batch, fault: str = "none"
) -> tuple[Float[Tensor, "batch tgt_len vocab"], Int[Tensor, "batch tgt_len"]]:
    """Return the logits at every position of the target, and the tokens to predict."""
    given, wanted = batch.tgt[:, :-1], batch.tgt[:, 1:]
    if fault == "no target shift":
        wanted = given
    return model(batch.src, given), wanted


def loss_of(model: Transformer, batch: Batch, fault: str = "none") -> Float[Tensor, ""]:
    """Return the training loss."""
    logits, wanted = predict(model, batch, fault)
    no_padding = -1 if fault == "padding in the loss" else PAD_ID  # no token has the number -1
    return cross_entropy(logits, wanted, no_padding)


def foresight(
    model: Transformer, examples: Sequence[Example], fault: str = "none", batch_size: int = 128
) -> Foresight:
    """Return the scores of next-word prediction, as reported by code with this fault."""
    where = next(model.parameters()).device
    totals = torch.zeros(4, dtype=torch.float64)
    with evaluating(model):
        if fault == "dropout in validation":
            model.train()
        for indices in in_order(len(examples), batch_size):
            batch = collate([examples[i] for i in indices]).to(where)
            logits, wanted = predict(model, batch, fault)
            counted = (wanted != PAD_ID) | (fault == "padding in the loss")
            log_probabilities = logits.log_softmax(dim=-1)
            best, likeliest = log_probabilities.max(dim=-1)
            surprise = -log_probabilities.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
            values = (surprise, likeliest == wanted, best.exp(), torch.ones_like(best))
            totals += torch.stack([value[counted].cpu().double().sum() for value in values])
    loss, right, confidence, count = totals.tolist()
    return Foresight(loss / count, right / count, confidence / count)


def batches(
    examples: Sequence[Example], seed: int, steps: int, where: torch.device
) -> Iterator[Batch]:
    """Yield a batch for each step, epoch after epoch."""
    sizes = [(len(example.src), len(example.tgt)) for example in examples]
    waiting: list[list[int]] = []
    for step in range(steps):
        if not waiting:
            waiting = shuffled(sizes, seed, step, BATCH_SIZE)
        yield collate([examples[index] for index in waiting.pop()]).to(where)


def train(
    model: Transformer,
    examples: Sequence[Example],
    validation: Sequence[Example],
    steps: int,
    seed: int,
    fault: str = "none",
) -> list[Record]:
    """Train, and return the learning curve that the run reports."""
    torch.manual_seed(seed)
    where = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    highest = TOO_HIGH if fault == "learning rate too high" else LEARNING_RATE
    every = max(1, steps // POINTS)
    curve: list[Record] = []
    losses: list[float] = []
    model.train()
    for step, batch in enumerate(batches(examples, seed, steps, where)):
        optimizer.param_groups[0]["lr"] = highest * one_cycle(step, steps, WARM_UP_STEPS)
        if fault != "gradients not zeroed":
            optimizer.zero_grad()
        loss = loss_of(model, batch, fault)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) == every:
            seen = foresight(model, validation, fault)
            curve.append(
                {
                    "step": step + 1,
                    "train_loss": round(sum(losses) / every, 4),
                    "validation_loss": round(seen.loss, 4),
                    "accuracy": round(seen.accuracy, 4),
                }
            )
            losses = []
    return curve


def write(
    model: Transformer, sources: Sequence[list[int]], max_len: int = MAX_LEN
) -> list[list[int]]:
    """Translate each source greedily.

    Each step encodes the whole prefix again, so that it also works without a causal mask.
    """
    where = next(model.parameters()).device
    src = collate([Example(source, [START_ID]) for source in sources]).src.to(where)
    tgt = torch.full((len(sources), 1), START_ID, device=where)
    with evaluating(model):
        memory = model.encode(src)
        for _ in range(max_len):
            logits = model.decode(tgt, memory).logits[:, -1]
            chosen = next_log_probabilities(logits, (PAD_ID, START_ID)).argmax(dim=-1)
            chosen[(tgt == END_ID).any(dim=1)] = END_ID  # what has ended stays so
            tgt = torch.cat([tgt, chosen.unsqueeze(1)], dim=1)
            if (chosen == END_ID).all():
                break
    texts = [row[1:].tolist() for row in tgt]
    return [text[: text.index(END_ID)] if END_ID in text else text for text in texts]


def judge(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> Row:
    """Return the fractions of correct, well-formed and empty generated sentences."""
    _, src_tokenizer, tgt_tokenizer = checkpoint.translator()
    model = cast(Transformer, checkpoint.model)
    written = write(model, [src_tokenizer.encode(pair.src_text) for pair in pairs])
    texts = [tgt_tokenizer.decode(ids).split() for ids in written]
    right = [text == list(pair.tgt) for text, pair in zip(texts, pairs, strict=True)]
    well_formed = [toy.is_well_formed(text) for text in texts]
    unfaithful = [good and not same for good, same in zip(well_formed, right, strict=True)]
    return {
        "exact_match": sum(right) / len(pairs),
        "well_formed": sum(well_formed) / len(pairs),
        "unfaithful": sum(unfaithful) / len(pairs),
        "empty": sum(not text for text in texts) / len(pairs),
        "mean_words": round(sum(map(len, texts)) / len(pairs), 2),
        "examples": [" ".join(text) for text in texts[:5]],
    }


def measure(fault: str, seed: int, quick: bool, directory: Path) -> Row:
    """Train one model with the fault; return its learning curve and its actual scores."""
    checkpoint = new_model(fault, seed)
    _, *tokenizers = checkpoint.translator()
    examples, validation = (
        encode_pairs(as_text(toy.load(split, number, clauses=TRAINED_CLAUSES)), *tokenizers)
        for split, number in (
            ("train", 80 if quick else 8_000),
            ("validation", 4 if quick else 100),
        )
    )
    model = cast(Transformer, checkpoint.model)
    curve = train(model, examples, validation, 4 if quick else STEPS, seed, fault)
    return {
        "curve": curve,
        **judge(checkpoint, toy.load("test", 4 if quick else 200, clauses=TRAINED_CLAUSES)),
    }


EXPERIMENT = Experiment(
    name="faults",
    question="How can a training bug that raises no error be recognised?",
    conditions=[{"fault": fault} for fault in FAULTS],
    measure=measure,
)
