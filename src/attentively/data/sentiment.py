"""Sentiment sentences: opinions on films, telephones and restaurants, positive or negative.

Kotzias et al. (2015), https://doi.org/10.1145/2783258.2783380: 1,000 sentences each from
imdb.com, amazon.com and yelp.com, half of them positive.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from attentively.data import download
from attentively.data.pairs import tidy
from attentively.data.progress_bar import when_slow
from attentively.data.splits import check_split, split_of
from attentively.data.text import read_lines

NAME = "sentiment"
LABELS = {"0": "negative", "1": "positive"}
HELD_OUT_PERCENT = 10
"""Of so few sentences more must be held out than of a large corpus."""


class Labelled(NamedTuple):
    """A sentence, and the name of the class that it belongs to."""

    text: str
    label: str


def load(split: str) -> list[Labelled]:
    """Return the sentences of one split, labelled ``positive`` or ``negative``.

    The text decides, capitals and punctuation aside, so a sentence that occurs twice is in
    one split only: 80 % of sentences are to train on, 10 % to validate with, 10 % to test.
    Raises `ValueError` for an unknown split, and `DataError` where the data cannot be had.
    """
    check_split(split)
    examples = []
    for file in download.files_of(NAME):
        examples += parse_labelled(download.read(file.path).split("\n"), file.path, LABELS)
    return part_of(examples, split)


def read_labelled(path: Path | str) -> list[Labelled]:
    """Read ``text<TAB>label`` lines; any word will do as a label.

    Raises `ValueError` naming the line that has no tab or more than one, or lacks text or label.
    """
    return parse_labelled(read_lines(path), str(path))


def parse_labelled(
    lines: Sequence[str], name: str, meanings: Mapping[str, str] | None = None
) -> list[Labelled]:
    """Read lines of ``text<TAB>label``; `name` is for messages.

    With `meanings`, a label is replaced by what it means, and others are refused.
    """
    examples = []
    for number, line in enumerate(when_slow(lines, name), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(
                f"line {number} of {name} has {len(columns)} columns, not a text, a tab and a label"
            )
        example = Labelled(*map(tidy, columns))
        for part, content in example._asdict().items():
            if not content:
                raise ValueError(f"line {number} of {name} has a tab, but no {part}")
        if meanings is not None:
            if example.label not in meanings:
                raise ValueError(
                    f"line {number} of {name} is labelled {example.label!r}: "
                    f"expected {' or '.join(meanings)}"
                )
            example = example._replace(label=meanings[example.label])
        examples.append(example)
    return examples


def part_of(examples: Sequence[Labelled], split: str) -> list[Labelled]:
    """Return those examples whose text belongs to `split`."""
    check_split(split)
    return [example for example in examples if split_of(example.text, HELD_OUT_PERCENT) == split]
