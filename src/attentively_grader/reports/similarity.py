"""Find similar answers: hints for an instructor to check, never a verdict.

Identifiers, strings and comments are ignored, so that renaming hides nothing. Each answer is
represented by fingerprints: hashes of token n-grams, selected by winnowing (Schleimer, Wilkerson &
Aiken, 2003, https://doi.org/10.1145/872757.872770), so that a long common sequence always yields a
common fingerprint. Fingerprints of the release and of a large share of the class are ignored. Long
answers that are identical from beginning to end always form a group.
"""

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

RUN = 12
"""Length of a token n-gram (a run), in tokens."""
WINDOW = 8
"""One of so many neighbouring runs is kept; RUN + WINDOW - 1 common tokens are always found."""
COMMON_SHARE, COMMON = 0.25, 20
"""A run is common if more than this share of the class, or more than so many students, have it."""
LONGEST = 100_000
"""Characters of an answer that are compared; the rest is ignored."""
FEWEST = 12
"""Minimum number of runs of an answer that is compared."""
LONG = 60
"""Minimum number of runs of identical answers that form a group of any size."""
TOKEN = re.compile(
    # An unclosed string ends with its line; *+ avoids backtracking.
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?"
    r"|#[^\n]*|[^\W\d]\w*|\d[\w.]*|[^\s\w]",
    re.S,
)


@dataclass(frozen=True)
class Alike:
    """A group of students with similar answers, and the similarity of the two most similar ones."""

    students: tuple[str, ...]
    most: float
    """Share of the shorter answer's runs that the longer one contains too, from 0 to 1."""


def tokens(code: str) -> Iterator[str]:
    """Yield the tokens of code, valid or not; all names become one token, all strings another."""
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
    """Return the hashes of the selected runs of tokens."""
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

    `answers` maps each student to their code; `given` is the code of the release. The most similar
    groups come first.
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
    """Yield pairs of students whose long answers are identical from beginning to end."""
    having: dict[frozenset[int], list[str]] = {}
    for student, runs in sorted(own.items()):
        if len(runs) >= LONG:
            having.setdefault(frozenset(runs), []).append(student)
    for students in having.values():
        yield from pairwise(students)


def _groups(pairs: Mapping[tuple[str, str], float]) -> list[Alike]:
    """Merge pairs that share a student into groups."""
    groups: list[set[str]] = []
    for pair in pairs:
        touching = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touching]
        groups.append(set(pair).union(*touching))
    found = [Alike(tuple(sorted(group)), max(_within(group, pairs))) for group in groups]
    return sorted(found, key=lambda each: (-each.most, each.students))


def _within(group: set[str], pairs: Mapping[tuple[str, str], float]) -> Sequence[float]:
    return [share for pair, share in pairs.items() if group >= set(pair)]
