"""Rows of runs with a pre-trained or random initialisation, and mistakes in comparing them."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attentively.checks import known

Row = dict[str, Any]
_RECORDED = Path(__file__).with_name("recorded_comparison.json")
"""Made by tools/record_comparison.py, which describes the runs."""
_FEWEST = 5  # pairs of runs, for a reading


def results_of(
    rows: Sequence[Row], *, by: str = "validation", last: bool = False, mean: bool = False,
    kept: Callable[[Row], bool] = lambda row: True, value: str = "test", latest: bool = False,
) -> dict[tuple[int, str, int], float]:  # fmt: skip
    """Return each run's result by labels, initialisation and seed; keywords make mistakes."""
    found: dict[tuple[int, str, int], list[Row]] = {}
    for row in filter(kept, rows):
        found.setdefault((row["labels"], row["begins"], row["seed"]), []).append(row)
    results = {}
    for run_, its in found.items():
        best = max(its, key=lambda row: row[by])
        if latest:
            best = max(reversed(its), key=lambda row: row[by])
        if last:
            best = max(its, key=lambda row: row["epoch"])
        results[run_] = sum(r[value] for r in its) / len(its) if mean else best[value]
    return results


def _compared(
    rows: Sequence[Row], *, fair: bool = True, paired: bool = True, fewest: int = _FEWEST,
    sign: int = 1, by_mean: bool = False, most: bool = False, best_of_seeds: bool = False,
    tries: Callable[[Row], Any] = lambda row: (row["rate"], row["epoch"]),
    number_of_tries: bool = False, all_together: bool = False, of_pairs: bool = False,
    few_first: bool = False, **how: Any,
) -> dict[int, tuple[float, str]]:  # fmt: skip
    """Return difference and reading for each number of labels; keywords make mistakes."""
    results = results_of(rows, **how)
    found = {}
    for labels in dict.fromkeys(row["labels"] for row in rows):
        its = [row for row in rows if row["labels"] == labels]
        arms = [{s: r for (n, b, s), r in results.items() if n == labels and b == begins}
                for begins in ("pretrained", "random")]  # fmt: skip
        both = [seed for seed in arms[0] if seed in arms[1]]
        pairs = [sign * (arms[0][seed] - arms[1][seed]) for seed in both]
        difference = sum(pairs) / len(pairs)
        if not paired:
            means = [sum(arm.values()) / len(arm) for arm in arms]
            difference = sign * (means[0] - means[1])
        if best_of_seeds:
            difference = sign * (max(arms[0].values()) - max(arms[1].values()))
        if all(pair > 0 for pair in pairs) and len(pairs) >= fewest:
            reading = "helps"
        elif all(pair < 0 for pair in pairs) and len(pairs) >= fewest:
            reading = "hurts"
        else:
            reading = "open"
        if by_mean and len(pairs) >= fewest:
            reading = "helps" if difference > 0 else "hurts" if difference < 0 else "open"
        if most and len(pairs) >= fewest:
            up = sum(pair > 0 for pair in pairs) - sum(pair < 0 for pair in pairs)
            reading = "helps" if up > 0 else "hurts" if up < 0 else "open"
        tried: dict[tuple[str, int], list[Any]] = {}
        for row in its:
            if of_pairs and row["seed"] not in both:
                continue
            tried.setdefault((row["begins"], row["seed"]), []).append(tries(row))
        kinds: set[Any]
        kinds = {len(each) if number_of_tries else frozenset(each) for each in tried.values()}
        if all_together:
            kinds = {frozenset(e for (b, _), each in tried.items() if b == begins for e in each)
                     for begins in ("pretrained", "random")}  # fmt: skip
        if fair and len(kinds) > 1 and not (few_first and len(pairs) < fewest):
            reading = "unfair"
        found[labels] = difference, reading
    return found


def differences(*given: Any, **how: Any) -> dict[int, float]:
    return {labels: pair[0] for labels, pair in _compared(*given, **how).items()}


def readings(*given: Any, **how: Any) -> dict[int, str]:
    return {labels: pair[1] for labels, pair in _compared(*given, **how).items()}


DIFFERENCE_TWINS = [
    *known(
        "The row with the best *test* accuracy is chosen. Then the test set takes part in the "
        "choice and is no test set any more. Choose by the validation accuracy.",
        partial(differences, by="test"),
    ),
    *known(
        "The validation accuracy is compared. It was used to choose the row, so it is too "
        "optimistic; compare the test accuracy.",
        partial(differences, value="validation"),
    ),
    *known(
        "The row of the last epoch is chosen. Choose the row with the best validation accuracy.",
        partial(differences, last=True),
    ),
    *known(
        "All rows of a run are averaged. Choose the row with the best validation accuracy.",
        partial(differences, mean=True),
    ),
    *known(
        "Among rows with the same validation accuracy, the last one is chosen. Choose the first.",
        partial(differences, latest=True),
    ),
    *known(
        "The results of all seeds are averaged. A run whose seed occurs with one "
        "initialisation only has no partner: leave it out.",
        partial(differences, paired=False),
    ),
    *known(
        "The best seeds are compared. They depend on chance; use the mean over the pairs.",
        partial(differences, best_of_seeds=True),
    ),
    *known(
        "The sign of the difference is wrong. It is pretrained minus random.",
        partial(differences, sign=-1),
    ),
]
READING_TWINS = [
    *known(
        "The tried settings are ignored. A run with more tries has a better chance of a good "
        "result.",
        partial(readings, fair=False),
    ),
    *known(
        "Only the number of tries is compared. They must be the same pairs of rate and epoch.",
        partial(readings, number_of_tries=True),
    ),
    *known(
        "Only the rates are compared. More epochs are more tries too.",
        partial(readings, tries=lambda row: row["rate"]),
    ),
    *known(
        "Only the epochs are compared. Different rates are different tries too.",
        partial(readings, tries=lambda row: row["epoch"]),
    ),
    *known(
        "The tries of all seeds are pooled. Every single run must have the same ones.",
        partial(readings, all_together=True),
    ),
    *known(
        "Only the tries of runs with a partner are compared. Runs without a partner count too.",
        partial(readings, of_pairs=True),
    ),
    *known(
        "With fewer than five pairs the reading is 'open' although the tries differ. The "
        "reading 'unfair' takes precedence.",
        partial(readings, few_first=True),
    ),
    *known(
        "The sign of the mean decides. If one pair has the other sign, the reading is 'open'.",
        partial(readings, by_mean=True),
    ),
    *known(
        "The sign of the mean alone decides. The reading is 'unfair' if the runs have different "
        "tries, and 'open' with fewer than five pairs or pairs of both signs.",
        partial(readings, by_mean=True, fair=False, fewest=1),
        partial(readings, by_mean=True, fair=False),
        partial(readings, by_mean=True, fewest=1),
    ),
    *known(
        "The majority of the pairs decides. All of them must have the same sign.",
        partial(readings, most=True),
    ),
    *known(
        "A small number of pairs is read like a large one. With fewer than five pairs, the "
        "reading is 'open'.",
        partial(readings, fewest=1), partial(readings, fewest=3), partial(readings, fewest=4),
    ),
    *known(
        "Five pairs are read as too few. They are enough.",
        partial(readings, fewest=6),
    ),
    *known(
        "The readings 'helps' and 'hurts' are exchanged.",
        partial(readings, sign=-1),
    ),
]  # fmt: skip


def _rows(
    labels: int, seeds: Sequence[int], gain: Callable[[int], float], **more: Any
) -> list[Row]:
    """Return made-up rows; `gain` is the advantage of the pre-trained run, by the seed."""
    tries = {"pretrained": [(0.001, 1), (0.001, 2), (0.003, 1), (0.003, 2)]}
    tries["random"] = tries["pretrained"]
    tries.update(more.get("tries", {}))
    rows = []
    for begins, given in tries.items():
        for seed in [*seeds, *more.get("alone", {}).get(begins, [])]:
            for number, (rate, epoch) in enumerate(more.get("odd", {}).get((begins, seed), given)):
                base = 60 + 3 * seed + (gain(seed) if begins == "pretrained" else 0)
                best = number == (seed + (begins == "random")) % (len(given) - 1)
                test = base if best else base + (-7, 5, -11)[(number + seed) % 3]
                validation = 80 + seed if best else 80 - 5 * number - seed
                rows.append(
                    {"begins": begins, "labels": labels, "seed": seed, "rate": rate,
                     "epoch": epoch, "validation": validation / 100, "test": test / 100}
                )  # fmt: skip
        if more.get("tie"):
            later = 0.9 if begins == "pretrained" else 0.6
            rows.append({**rows[-1], "epoch": 9, "validation": 0.99, "test": 0.5})
            rows.append({**rows[-1], "epoch": 10, "test": later})
    return rows


def made_up_rows(thorough: bool) -> list[list[Row]]:
    five = [1, 2, 3, 4, 5]
    more = {"pretrained": [(0.001, 1), (0.001, 2), (0.003, 1), (0.003, 2), (0.01, 1)]}
    longer = {"random": [(0.001, 1), (0.001, 2), (0.003, 1), (0.003, 2), (0.003, 3)]}
    others = {"random": [(0.001, 1), (0.001, 2), (0.01, 1), (0.01, 2)]}
    odd = {("random", 2): [(0.001, 1), (0.001, 2), (0.003, 1)]}
    another = _rows(56, five, lambda seed: seed)
    cases = [
        _rows(16, [1, 2], lambda seed: 4 + seed),
        _rows(16, five, lambda seed: 2 + seed % 3),
        _rows(16, five, lambda seed: 9 if seed > 1 else -1) + _rows(64, five, lambda s: -s),
        _rows(32, five, lambda seed: 6 - seed, alone={"random": [7, 9], "pretrained": [0]}),
        _rows(8, five, lambda seed: 5 + seed, tries=more),
        _rows(8, five, lambda seed: 5 + seed, tries=longer),
        _rows(8, five, lambda seed: 5 + seed, tries=others),
        _rows(8, five, lambda seed: 5 + seed, odd=odd),
        _rows(4, [1, 2, 3, 4], lambda seed: 3.0 * seed) + _rows(128, five, lambda s: s % 2),
        _rows(16, five, lambda seed: 3, tie=True),
        _rows(48, five, lambda seed: -20 if seed == 3 else 1),
        _rows(
            12, five, lambda s: s, alone={"random": [9]}, odd={("random", 9): more["pretrained"]}
        ),
        [*reversed(another[:4]), *another[4:]]  # the same tries in another order
        + _rows(24, [1, 2, 3], lambda seed: seed, tries=more),
    ]
    if thorough:
        cases += [
            _rows(100, [11, 3, 7, 5, 2, 13], lambda s: -1 - s % 4, alone={"random": [4]})
            + _rows(10, five, lambda seed: -2 if seed == 5 else 1),
            _rows(20, five, lambda seed: seed, tries=more)[::-1],
        ]
    return cases


def recorded_runs() -> list[Row]:
    """Return the rows of recorded runs, four for each rate of each run."""
    return list(json.loads(_RECORDED.read_text(encoding="utf-8")))
