"""Record the profiles for assignment 20, each of one training step on one thread.

python tools/record_profiles.py                  record all profiles (one minute)
python tools/record_profiles.py --target FILE    write them into another file

The default target is `src/attentively/checks/faster/recorded_profiles.json`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import PAD_ID
from attentively.training.losses import cross_entropy

TARGET = (
    Path(__file__).resolve().parents[1] / "src/attentively/checks/faster/recorded_profiles.json"
)
SETTINGS: dict[str, dict[str, int]] = {
    "A": {"words": 512, "rows": 1, "vocab_size": 50, "d_model": 64, "num_layers": 1},
    "B": {"words": 12, "rows": 2, "vocab_size": 20_000, "d_model": 64, "num_layers": 1},
    "C": {"words": 12, "rows": 8, "vocab_size": 50, "d_model": 32, "num_layers": 1, "wait": 20},
}
"""A: long sentences. B: a large vocabulary. C: batches that arrive `wait` milliseconds late."""
WARM_UP = 3  # steps before the recorded one
TAKES = 12
SHORTEST = 10  # microseconds; shorter events are merged into the enclosing one


def steps(
    words: int, rows: int, vocab_size: int, d_model: int, num_layers: int, wait: int = 0
) -> Callable[[], None]:
    """Return a function that performs one training step and waits for the next batch."""
    torch.manual_seed(0)
    config = TransformerConfig(
        src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, d_model=d_model, num_heads=4,
        d_ff=2 * d_model, num_layers=num_layers,
    )  # fmt: skip
    model = Transformer(config).train()
    optimizer = torch.optim.Adam(model.parameters())
    src, tgt = torch.randint(4, vocab_size, (2, rows, words))

    def step() -> None:
        optimizer.zero_grad()
        logits = model.decode(tgt[:, :-1], model.encode(src), need_weights=True).logits
        cross_entropy(logits, tgt[:, 1:], PAD_ID).backward()
        time.sleep(wait / 1000)
        optimizer.step()

    return step


def borders(step: Callable[[], None]) -> list[tuple[float, str]]:
    """Profile a step; return the times of all starts (with names) and ends (with "") in order."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    found: list[tuple[float, str]] = []
    around: list[float] = []
    for event in sorted(profiler.events(), key=lambda e: (e.time_range.start, -e.time_range.end)):
        while around and around[-1] <= event.time_range.start:
            found.append((around.pop(), ""))
        found.append((event.time_range.start, event.name))
        around.append(event.time_range.end)
    return found + [(end, "") for end in reversed(around)]


def recorded(step: Callable[[], None]) -> list[list[Any]]:
    """Return events as name, start and end, in tenths of microseconds.

    All takes have the same events. The time between two borders is the shortest of all takes.
    """
    for _ in range(WARM_UP):
        step()
    takes = [borders(step) for _ in range(TAKES)]
    order = [name for _, name in takes[-1]]
    alike = [take for take in takes if [name for _, name in take] == order]
    now, around = 0.0, []
    spans: dict[tuple[int, int], str] = {}
    for place, name in enumerate(order):
        if place:
            now += max(0.0, min(take[place][0] - take[place - 1][0] for take in alike))
        if name:
            around.append((name, now))
            continue
        inner, begin = around.pop()
        if now - begin >= SHORTEST:  # of two events with equal times, the inner one is kept
            spans.setdefault((round(10 * begin), round(10 * now)), inner)
    print(f"{len(alike)} of {TAKES} takes have the same events", file=sys.stderr)
    return [[name, *span] for span, name in sorted(spans.items())]


def main(arguments: Sequence[str]) -> int:
    """Record the profiles and write the file; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--target", type=Path, default=TARGET)
    target = parser.parse_args(arguments).target
    torch.set_num_threads(1)
    profiles = {name: recorded(steps(**settings)) for name, settings in SETTINGS.items()}
    names = sorted({event[0] for events in profiles.values() for event in events})
    number = {name: place for place, name in enumerate(names)}
    lines = [
        f'  "{name}": {json.dumps([[number[n], *at] for n, *at in events], separators=(",", ":"))}'
        for name, events in profiles.items()
    ]
    text = f'{{"names": {json.dumps(names)},\n "profiles": {{\n' + ",\n".join(lines) + "\n}}\n"
    target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
