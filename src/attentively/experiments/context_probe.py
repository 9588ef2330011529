"""What a context vector encodes: a probe for every content word.

A probe is a small model that predicts, from a vector of another model, properties of its input:
here, which content words the source contains. It is trained on the contexts of one set of sentences
and evaluated on others. There are two controls: an untrained encoder, which shows what the
architecture alone preserves, and a sum of random word vectors of the same dimension, which loses no
word and so shows what the probe can find.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attentively import device
from attentively.data import toy
from attentively.data.batches import collate, encode_pairs, in_order
from attentively.experiments.bottleneck import BUDGETS, train_model
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.toy_translation import TRAINED_CLAUSES, as_text, new_checkpoint
from attentively.generation.generate import translate
from attentively.models.checkpoints import Checkpoint
from attentively.models.interface import evaluating
from attentively.models.seq2seq import RecurrentModel

_COMMON = (
    "a an and are because but by did do does he in is it my not on she that the these they this "
    "too two under very was were who"
)
FUNCTION_WORDS = frozenset(_COMMON.split())
"""Function words: half of the words of a sentence, and so few that they are easily guessed."""

CONTENT_WORDS = tuple(word for word in toy.words("src") if word not in FUNCTION_WORDS)
"""Nouns, verbs and adjectives, in all their forms; each has its own probe."""

COLUMN = {word: column for column, word in enumerate(CONTENT_WORDS)}

CONTEXT_DIM = 128
PARTS = 5
"""Number of parts of a sentence: beginning, middle and end are scored separately."""


def contexts(checkpoint: Checkpoint, pairs: Sequence[toy.ToyPair]) -> Float[Tensor, "pairs dim"]:
    """Return the fixed context vector of each source, as the decoder receives it."""
    model, *tokenizers = checkpoint.translator()
    assert isinstance(model, RecurrentModel)
    examples = encode_pairs(as_text(pairs), *tokenizers)
    where = next(model.parameters()).device
    found = []
    with evaluating(model):
        for indices in in_order(len(examples), 256):
            src, _ = collate([examples[index] for index in indices]).to(where)
            memory = model.encode(src)
            mask = memory.mask.squeeze(1)
            context, _ = model.decoder.attention(memory.state, memory.outputs, mask)
            found.append(context.cpu())
    return torch.cat(found)


def presence(pairs: Sequence[toy.ToyPair]) -> Float[Tensor, "pairs words"]:
    """Return 1 for each content word that a source contains, else 0."""
    present = torch.zeros(len(pairs), len(CONTENT_WORDS))
    for row, pair in zip(present, pairs, strict=True):
        row[[COLUMN[word] for word in pair.src if word in COLUMN]] = 1
    return present


class LinearProbe(nn.Module):
    """A linear probe: one score per word, by least squares with a ridge penalty."""

    def __init__(
        self, seen: Float[Tensor, "pairs dim"], present: Float[Tensor, "pairs words"]
    ) -> None:
        super().__init__()
        self.mean = seen.mean(dim=0)
        self.standard_deviation = seen.std(dim=0) + 1e-6  # never zero
        inputs = self._inputs(seen)
        squares = inputs.T @ inputs + torch.eye(inputs.shape[1])  # ridge penalty 1
        self.weight = torch.linalg.solve(squares, inputs.T @ present.double())

    def _inputs(
        self,
        seen: Float[Tensor, "pairs dim"],
    ) -> Float[Tensor, "pairs dim_and_1"]:
        scaled = (seen - self.mean) / self.standard_deviation
        return torch.cat([scaled, torch.ones(len(seen), 1)], dim=1).double()

    def forward(self, seen: Float[Tensor, "pairs dim"]) -> Float[Tensor, "pairs words"]:
        """Return a score for each word."""
        return self._inputs(seen) @ self.weight


def hidden_layer_probe(
    seen: Float[Tensor, "pairs dim"], present: Float[Tensor, "pairs words"], passes: int = 30
) -> nn.Module:
    """Return a nonlinear probe with a hidden layer, trained with cross-entropy."""
    mean, standard_deviation = seen.mean(dim=0), seen.std(dim=0) + 1e-6
    first = nn.Linear(seen.shape[1], 256)
    probe = nn.Sequential(first, nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, present.shape[1]))
    optimizer = torch.optim.AdamW(probe.parameters(), lr=3e-3)
    scaled = (seen - mean) / standard_deviation
    for _ in range(passes):
        for rows in torch.randperm(len(seen)).split(128):
            loss = nn.functional.binary_cross_entropy_with_logits(
                probe(scaled[rows]), present[rows]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():  # take unscaled contexts from here on
        first.weight.div_(standard_deviation)
        first.bias.sub_(first.weight @ mean)
    return probe.eval()


def found_words(
    scores: Float[Tensor, "pairs words"], present: Float[Tensor, "pairs words"]
) -> Bool[Tensor, "pairs words"]:
    """Return the words with the highest scores, as many per sentence as it contains."""
    rank = scores.argsort(dim=1, descending=True).argsort(dim=1)
    return rank < present.sum(dim=1, keepdim=True)


def recall(found: Bool[Tensor, "pairs words"], present: Float[Tensor, "pairs words"]) -> float:
    """Return the fraction of the sentences' content words that were found (recall)."""
    return round(((found & (present > 0)).sum() / present.sum()).item(), 4)


def recall_by_part(
    found: Bool[Tensor, "pairs words"], pairs: Sequence[toy.ToyPair], parts: int = PARTS
) -> list[float]:
    """Return the recall for each part of the sentences, from beginning to end."""
    hits, words = [0] * parts, [0] * parts
    for row, pair in zip(found, pairs, strict=True):
        for place, word in enumerate(pair.src):
            if word in COLUMN:
                part = place * parts // len(pair.src)
                hits[part] += bool(row[COLUMN[word]])
                words[part] += 1
    return [round(hit / max(1, word), 4) for hit, word in zip(hits, words, strict=True)]


def said(
    checkpoint: Checkpoint, found: Bool[Tensor, "pairs words"], pairs: Sequence[toy.ToyPair]
) -> Row:
    """Return how often a word is translated, if the probe finds it and if not."""
    texts = [made.text for made in translate(checkpoint, [p.src_text for p in pairs], beam_size=1)]
    counted = {True: [0, 0], False: [0, 0]}
    for row, pair, text in zip(found, pairs, texts, strict=True):
        written = text.split()
        for place, word in enumerate(pair.src):
            if word in COLUMN:
                french = [pair.tgt[j] for i, j in pair.alignment if i == place]
                group = counted[bool(row[COLUMN[word]])]
                group[0] += all(word in written for word in french)
                group[1] += 1
    return {
        name: round(counted[key][0] / max(1, counted[key][1]), 4)
        for name, key in (("found", True), ("not_found", False))
    }


@cache
def _sentences(clauses: int, quick: bool) -> tuple[list[toy.ToyPair], list[toy.ToyPair]]:
    """Return training and test sentences for the probe."""
    return (
        toy.load("train", 60 if quick else 6000, clauses=(clauses,)),
        toy.load("test", 20 if quick else 400, clauses=(clauses,)),
    )


def measure(context: str, steps: int, seed: int, quick: bool, directory: Path) -> Row:
    """Probe one kind of context vector, at each number of clauses."""
    checkpoint: Checkpoint | None = None
    row: Row = {}
    if context == "trained":
        checkpoint, trainer = train_model("fixed", steps, seed, quick, directory)
        row["training_seconds"] = round(trainer.seconds, 1)
    elif context == "untrained":
        checkpoint = new_checkpoint("fixed", seed)
        checkpoint.model.to(device.best())
    torch.manual_seed(seed)
    vectors = torch.randn(len(CONTENT_WORDS), CONTEXT_DIM)  # of the sum
    row["by_clauses"] = []
    for clauses in TRAINED_CLAUSES:
        train, test = _sentences(clauses, quick)
        known, present = presence(train), presence(test)
        seen, new = (
            (words @ vectors for words in (known, present))
            if checkpoint is None
            else (contexts(checkpoint, pairs) for pairs in (train, test))
        )
        found = found_words(LinearProbe(seen, known)(new), present)
        guess = found_words(known.mean(dim=0).expand_as(present), present)  # the commonest words
        group: Row = {
            "clauses": clauses,
            "content_words": round(present.sum(dim=1).mean().item(), 1),
            "recall": recall(found, present),
            "recall_of_guess": recall(guess, present),
            "recall_by_part": recall_by_part(found, test),
            "guess_by_part": recall_by_part(guess, test),
        }
        if context == "trained":
            assert checkpoint is not None
            group["french_written"] = said(checkpoint, found, test)
        if steps == max(BUDGETS):
            deeper = hidden_layer_probe(seen, known, 1 if quick else 30)(new).detach()
            group["recall_of_hidden_layer"] = recall(found_words(deeper, present), present)
        row["by_clauses"].append(group)
    return row


EXPERIMENT = Experiment(
    name="context-probe",
    question="Which of the source's words can be decoded from the context vector?",
    conditions=[
        {"context": "trained", "steps": 2000},
        {"context": "trained", "steps": 600},
        {"context": "untrained", "steps": 0},
        {"context": "sum", "steps": 0},
    ],
    measure=measure,
)
