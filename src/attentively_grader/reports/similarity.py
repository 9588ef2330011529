"""Find answers that are alike: hints for a person to check, never a verdict.

Names, strings and remarks are left out of account, so that renaming hides nothing. Of each
answer's runs of tokens a choice is kept that two answers with a long run in common make alike:
winnowing, by Schleimer, Wilkerson & Aiken (2003), https://doi.org/10.1145/872757.872770. What the
assignment itself gives, and what much of the class has, says nothing about anybody and is left out;
only long answers that are the same from beginning to end say something, however many have them.
"""

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

RUN = 12
"""Tokens of a run."""
WINDOW = 8
"""Neighbouring runs of which one is kept: a common stretch of RUN + WINDOW - 1 tokens is found."""
COMMON_SHARE, COMMON = 0.25, 20
"""A run that more than this share of the class has, or more than so many, is common."""
LONGEST = 100_000
"""Characters of an answer that are compared; what comes after them is not."""
FEWEST = 12
"""Runs below which an answer is too short to tell."""
LONG = 60
"""Runs from which on answers that are the same throughout are told, however many have them."""
TOKEN = re.compile(
    # A string that is not closed ends with its line; with *+ it is looked at once.
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?"
    r"|#[^\n]*|[^\W\d]\w*|\d[\w.]*|[^\s\w]",
    re.S,
)


@dataclass(frozen=True)
class Alike:
    """Students whose answers are linked by likeness, and how alike the most alike two are."""

    students: tuple[str, ...]
    most: float
    """From 0 to 1: the share of the shorter answer's runs that the other has too."""


def tokens(code: str) -> Iterator[str]:
    """Yield what code is made of, broken code too: one word for all names, one for strings."""
    for found in TOKEN.finditer(code):
        text = found[0]
        if text.startswith("#"):
            continue
        if text[0] in "\"'":
            yield "string"
        elif text[0].isalpha() or text[0] == "_":
            yield text if keyword.iskeyword(text) else "name"
        else:
            yield text


def fingerprints(code: str) -> set[int]:
    """Return the runs of tokens that are kept, as numbers."""
    found = list(tokens(code))
    runs = [
        int.from_bytes(
            hashlib.blake2b(" ".join(found[i : i + RUN]).encode(), digest_size=8).digest()
        )
        for i in range(len(found) - RUN + 1)
    ]
    if not runs:
        return set()
    return {min(runs[i : i + WINDOW]) for i in range(max(1, len(runs) - WINDOW + 1))}


def alike(answers: Mapping[str, str], given: str = "", least: float = 0.8) -> list[Alike]:
    """Return groups of students whose answers share at least `least` of their runs.

    `answers` maps each student to the text of all that they wrote; `given` is what the
    assignment itself holds. The most alike come first.
    """
    if not 0 < least <= 1:
        raise ValueError(f"least={least} must be above 0 and at most 1")
    theirs = fingerprints(given)
    own = {student: fingerprints(code[:LONGEST]) - theirs for student, code in answers.items()}
    owners: dict[int, list[str]] = {}
    for student, runs in sorted(own.items()):
        for run in runs:
            owners.setdefault(run, []).append(student)
    most = max(2, min(COMMON, int(COMMON_SHARE * len(own))))
    rare = [students for students in owners.values() if len(students) <= most]
    lengths = Counter(student for students in rare for student in students)
    shared = Counter(pair for students in rare for pair in combinations(students, 2))
    pairs = {
        pair: number / shorter
        for pair, number in shared.items()
        if (shorter := min(lengths[student] for student in pair)) >= FEWEST
    }
    found = {pair: share for pair, share in pairs.items() if share >= least}
    return _groups(found | dict.fromkeys(_the_same(own), 1.0))


def _the_same(own: Mapping[str, set[int]]) -> Iterator[tuple[str, str]]:
    """Yield pairs that join those whose long answers are the same from beginning to end."""
    having: dict[frozenset[int], list[str]] = {}
    for student, runs in sorted(own.items()):
        if len(runs) >= LONG:
            having.setdefault(frozenset(runs), []).append(student)
    for students in having.values():
        yield from pairwise(students)


def _groups(pairs: Mapping[tuple[str, str], float]) -> list[Alike]:
    """Join pairs that share a student."""
    groups: list[set[str]] = []
    for pair in pairs:
        touching = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touching]
        groups.append(set(pair).union(*touching))
    found = [Alike(tuple(sorted(group)), max(_within(group, pairs))) for group in groups]
    return sorted(found, key=lambda each: (-each.most, each.students))


def _within(group: set[str], pairs: Mapping[tuple[str, str], float]) -> Sequence[float]:
    return [share for pair, share in pairs.items() if group >= set(pair)]
