"""Record the training runs that assignment 19 compares (recorded_comparison.json).

A small encoder is pre-trained as a masked language model on 8,000 sentences of the toy language.
Then a classifier is trained on few labels to predict whether the first verb of a sentence is in the
past tense, with a pre-trained and with a randomly initialised encoder. Both use the same five
seeds, two learning rates and four evaluations on the validation set. The runs take about five
minutes on one thread.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attentively.attention.masks import padding_mask
from attentively.data import toy
from attentively.data.batches import pad
from attentively.data.toy.lexicon import VERBS
from attentively.models.configs import ClassifierConfig, MaskedLanguageModelConfig
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.tokens.vocabulary import PAD_ID, Vocabulary, WordTokenizer
from attentively.training.objectives import take_out

FILE = (
    Path(__file__).parents[1]
    / "src/attentively/checks/heads_for_other_tasks/recorded_comparison.json"
)
SIZES: dict[str, Any] = {
    "d_model": 64,
    "num_heads": 4,
    "d_ff": 128,
    "num_layers": 2,
    "dropout": 0.0,
}
LABELS, SEEDS = (4, 16, 64, 256), (1, 2, 3, 4, 5)
PAST = {"was", "were", "did", *(verb.english.split()[2] for verb in VERBS)}
PRESENT = {"is", "are", "do", "does"}
PRESENT |= {form for verb in VERBS for form in verb.english.split()[:2]} - PAST


def examples(split: str, number: int, seed: int, tokenizer: WordTokenizer) -> tuple[Tensor, Tensor]:
    """Return sentences of two clauses as ids; label 1 if the first verb is in the past tense."""
    ids, labels = [], []
    for pair in toy.load(split, number, clauses=(2,), seed=seed):
        first = next(word for word in pair.src if word in PAST | PRESENT)
        ids.append(tokenizer.encode(pair.src_text))
        labels.append(int(first in PAST))
    return pad(ids), torch.tensor(labels)


def pretrained(tokenizer: WordTokenizer, steps: int) -> MaskedLanguageModel:
    torch.manual_seed(0)
    model = MaskedLanguageModel(MaskedLanguageModelConfig(vocab_size=len(tokenizer), **SIZES))
    texts, _ = examples("train", 8000, 0, tokenizer)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(steps):
        ids = texts[torch.randint(len(texts), (48,))]
        read, wanted = take_out(ids, model.mask_id)
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, step / 100) * (1 - step / steps)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(read, padding_mask(ids, PAD_ID)).mT, wanted, ignore_index=0)
        loss.backward()
        optimizer.step()
        if step % 500 == 499:
            print(step + 1, round(loss.item(), 3), flush=True)
    return model


def accuracy(model: Classifier, ids: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        right = model(ids, padding_mask(ids, PAD_ID)).argmax(dim=1) == labels
    return round(right.float().mean().item(), 4)


def main(steps: int) -> None:
    torch.set_num_threads(1)
    tokenizer = WordTokenizer(Vocabulary(toy.words("src")))
    start = pretrained(tokenizer, steps).encoder.state_dict()
    config = ClassifierConfig(vocab_size=len(tokenizer), labels=("present", "past"), **SIZES)
    validation = examples("validation", 200, 0, tokenizer)
    test = examples("test", 500, 0, tokenizer)
    rows = []
    for labels in LABELS:
        for seed in SEEDS:
            ids, answers = examples("train", labels, 100 + seed, tokenizer)
            for begins in ("pretrained", "random"):
                for rate in (0.0005, 0.002):
                    torch.manual_seed(seed)
                    model = Classifier(config)
                    if begins == "pretrained":
                        model.encoder.load_state_dict(start)
                    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
                    for epoch in range(1, 5):
                        for _ in range(12):
                            some = torch.randint(labels, (min(labels, 32),))
                            optimizer.zero_grad()
                            logits = model(ids[some], padding_mask(ids[some], PAD_ID))
                            F.cross_entropy(logits, answers[some]).backward()
                            optimizer.step()
                        rows.append(
                            {
                                "begins": begins,
                                "labels": labels,
                                "seed": seed,
                                "rate": rate,
                                "epoch": epoch,
                                "validation": accuracy(model, *validation),
                                "test": accuracy(model, *test),
                            }
                        )
            print(labels, seed, rows[-9]["test"], rows[-1]["test"], flush=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 3000)
