"""Sentiment sentences: reviews of films, telephones and restaurants, positive or negative.

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
"""A small corpus needs a larger held-out fraction than a large one."""


class Labelled(NamedTuple):
    """A sentence and the name of its class."""

    text: str
    label: str


def load(split: str) -> list[Labelled]:
    """Return the sentences of one split, labelled ``positive`` or ``negative``.

    The split depends on the text, ignoring case and punctuation, so that repeated sentences are
    in one split only: 80 % for training, 10 % for validation, 10 % for testing. Raises
    `ValueError` for an unknown split, and `DataError` if the data is not available.
    """
    check_split(split)
    examples = []
    for file in download.files_of(NAME):
        examples += parse_labelled(download.read(file.path).split("\n"), file.path, LABELS)
    return part_of(examples, split)


def read_labelled(path: Path | str) -> list[Labelled]:
    """Read ``text<TAB>label`` lines; a label may be any word.

    Raises `ValueError` for a line without exactly one tab, or with an empty text or label, with its
    number.
    """
    return parse_labelled(read_lines(path), str(path))


def parse_labelled(
    lines: Sequence[str], name: str, meanings: Mapping[str, str] | None = None
) -> list[Labelled]:
    """Parse lines of ``text<TAB>label``; `name` is for messages.

    With `meanings`, labels are replaced by their meanings, and other labels raise `ValueError`.
    """
    examples = []
    for number, line in enumerate(when_slow(lines, name), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise ValueError(
                f"line {number} of {name} has {len(columns)} columns, but expected text<TAB>label"
            )
        example = Labelled(*map(tidy, columns))
        for part, content in example._asdict().items():
            if not content:
                raise ValueError(f"line {number} of {name} has an empty {part}")
        if meanings is not None:
            if example.label not in meanings:
                raise ValueError(
                    f"line {number} of {name} has label {example.label!r}, but expected "
                    f"{' or '.join(meanings)}"
                )
            example = example._replace(label=meanings[example.label])
        examples.append(example)
    return examples


def part_of(examples: Sequence[Labelled], split: str) -> list[Labelled]:
    """Return the examples whose text belongs to `split`."""
    check_split(split)
    return [example for example in examples if split_of(example.text, HELD_OUT_PERCENT) == split]
