"""Preference tuning: DPO on synthetic preferences, with two values of beta.

The pretrained language model of Shakespeare's plays continues passages twice, and a rule takes the
part of the person who compares the two continuations: it prefers the one with more line breaks. The
model is then trained by `dpo_loss` on these pairs. The rule is easy to learn, and it can be counted
on new samples, so that the effect of the training is known without a reader.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from attentively.data import text
from attentively.experiments.character_models import surprise
from attentively.experiments.runner import Experiment, Row
from attentively.generation.search import FORBIDDEN_IDS, Sampling, generate
from attentively.models.checkpoints import Checkpoint, load_pretrained
from attentively.models.interface import evaluating
from attentively.models.language_model import LanguageModel
from attentively.tokens.vocabulary import END_ID, START_ID
from attentively.training.preferences import answer_log_probabilities, dpo_loss

PROMPT, ANSWER = 32, 32
"""Lengths of a prompt and of its continuation, in characters."""
BETAS = (0.1, 0.5)
TRAIN_PROMPTS, TEST_PROMPTS = 1000, 400
STEPS, BATCH_SIZE, LEARNING_RATE = 60, 32, 1e-4
CLIP_NORM = 1.0
POINTS = 6
"""Evaluations of a run after its start."""


@dataclass(frozen=True)
class Pairs:
    """Prompts with two answers each, as token ids: one is preferred to the other."""

    chosen: Int[Tensor, "batch len"]
    rejected: Int[Tensor, "batch len"]
    is_answer: Bool[Tensor, "batch len"]

    def select(self, rows: Tensor) -> "Pairs":
        """Return some of the pairs, by their numbers or by a mask."""
        return Pairs(self.chosen[rows], self.rejected[rows], self.is_answer[rows])


def line_breaks(ids: Int[Tensor, "batch len"], checkpoint: Checkpoint) -> Int[Tensor, " batch"]:
    """Return how many line breaks each answer has; the rule prefers more of them."""
    tokenizer = checkpoint.tgt_tokenizer
    assert tokenizer is not None
    return (ids[:, -ANSWER:] == tokenizer.encode("\n")[0]).sum(dim=1)


def prompts(split: str, count: int, seed: int, quick: bool) -> list[str]:
    """Return random passages of a split."""
    plays = "But soft, what light\n" * 99 if quick else text.shakespeare(split)
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(plays) - PROMPT, (count,), generator=generator)
    return [plays[start : start + PROMPT] for start in starts.tolist()]


def continuations(checkpoint: Checkpoint, given: list[str], seed: int) -> Int[Tensor, "batch len"]:
    """Return each prompt with a sampled continuation, as token ids."""
    tokenizer = checkpoint.tgt_tokenizer
    assert tokenizer is not None
    how = Sampling(generator=torch.Generator().manual_seed(seed))
    begun = torch.tensor([[START_ID, *tokenizer.encode(one)[:-1]] for one in given])
    model = cast(LanguageModel, checkpoint.model)
    found = generate(model, begun, ANSWER, how, (*FORBIDDEN_IDS, END_ID))
    return torch.cat([begun, torch.tensor([samples[0].ids for samples in found])], dim=1)


def is_answer(ids: Int[Tensor, "batch len"]) -> Bool[Tensor, "batch len"]:
    """Return True at the continuation, the last characters of each row."""
    mask = torch.zeros_like(ids, dtype=torch.bool)
    mask[:, -ANSWER:] = True
    return mask


def compare(checkpoint: Checkpoint, given: list[str], seed: int) -> Pairs:
    """Sample two continuations of each prompt, and drop the pairs that the rule finds equal."""
    one, other = (continuations(checkpoint, given, 2 * seed + i) for i in (0, 1))
    breaks_one, breaks_other = line_breaks(one, checkpoint), line_breaks(other, checkpoint)
    differ = breaks_one != breaks_other
    first = (breaks_one > breaks_other).unsqueeze(1)
    pairs = Pairs(one.where(first, other), other.where(first, one), is_answer(one))
    return pairs.select(differ)


def both(model: LanguageModel, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the chosen and of the rejected answers."""
    chosen = answer_log_probabilities(model, pairs.chosen, pairs.is_answer)
    rejected = answer_log_probabilities(model, pairs.rejected, pairs.is_answer)
    return chosen, rejected


def tune(
    policy: LanguageModel,
    reference: LanguageModel,
    pairs: Pairs,
    beta: float,
    seed: int,
    steps: int,
) -> Iterator[int]:
    """Train the policy on the pairs; yield the number of steps after each of them."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        rows = torch.randint(len(pairs.chosen), (BATCH_SIZE,), generator=generator)
        batch = pairs.select(rows)
        with torch.no_grad():
            of_reference = both(reference, batch)
        loss = dpo_loss(*both(policy, batch), *of_reference, beta)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), CLIP_NORM)
        optimizer.step()
        yield step


def measure(beta: float, seed: int, quick: bool, directory: Path) -> Row:
    """Train with one beta; every model of a seed has the same pairs in the same order."""
    del directory  # short enough to run at once
    shipped = load_pretrained("shakespeare-gpt")
    reference = cast(LanguageModel, shipped.model).eval()
    policy = copy.deepcopy(reference).eval()  # without dropout, so that both models agree at first
    tuned = Checkpoint(policy, None, shipped.tgt_tokenizer)
    count, test_count, steps = (24, 24, 2) if quick else (TRAIN_PROMPTS, TEST_PROMPTS, STEPS)
    train = compare(shipped, prompts("train", count, seed, quick), seed)
    given = prompts("validation", test_count, 1000 + seed, quick)
    test = compare(shipped, given, 1000 + seed)
    with evaluating(reference):
        reference_chosen, reference_rejected = both(reference, test)

    def point(step: int) -> Row:
        with evaluating(policy):
            chosen, rejected = both(policy, test)
        changes = chosen - reference_chosen, rejected - reference_rejected
        margin = beta * (changes[0] - changes[1])
        return {
            "step": step,
            "chosen": round(changes[0].mean().item(), 3),
            "chosen_rose": round((changes[0] > 0).float().mean().item(), 4),
            "rejected": round(changes[1].mean().item(), 3),
            "margin": round(margin.mean().item(), 3),
            "preferred": round(margin.sigmoid().mean().item(), 4),
            "accuracy": round((margin > 0).float().mean().item(), 4),
            "held_out_loss": round(_held_out_loss(policy, shipped, quick), 4),
        }

    every = max(1, steps // POINTS)
    curve = [point(0)]
    for step in tune(policy, reference, train, beta, seed, steps):
        if step % every == 0:
            curve.append(point(step))
    before, after = (continuations(one, given, 3000 + seed) for one in (shipped, tuned))
    with evaluating(policy), evaluating(reference):
        ratio = [
            answer_log_probabilities(one, after, is_answer(after)) for one in (policy, reference)
        ]

    def breaks(ids: Tensor) -> float:
        return round(line_breaks(ids, shipped).float().mean().item(), 3)

    return {
        "pairs": len(train.chosen),
        "test_pairs": len(test.chosen),
        "breaks_chosen": breaks(train.chosen),
        "breaks_rejected": breaks(train.rejected),
        "breaks_before": breaks(before),
        "breaks_after": breaks(after),
        "divergence": round((ratio[0] - ratio[1]).mean().item(), 3),
        "samples": _texts(after[:4], shipped),
        "samples_before": _texts(before[:4], shipped),
        "curve": curve,
    }


def _texts(ids: Tensor, checkpoint: Checkpoint) -> list[str]:
    assert checkpoint.tgt_tokenizer is not None
    return [checkpoint.tgt_tokenizer.decode(row[1:].tolist()) for row in ids]


def _held_out_loss(model: LanguageModel, checkpoint: Checkpoint, quick: bool) -> float:
    """Return the loss on passages of the plays, in nats per character."""
    tokenizer = checkpoint.tgt_tokenizer
    assert tokenizer is not None
    chunks = [tokenizer.encode(one)[:-1] for one in prompts("validation", 200, 0, quick)]
    with evaluating(model):
        return surprise(model, torch.tensor(chunks)).mean().item()


EXPERIMENT = Experiment(
    name="preference-tuning",
    question="What does DPO change in a small language model, and how far does it move the model?",
    conditions=[{"beta": beta} for beta in BETAS],
    measure=measure,
)
