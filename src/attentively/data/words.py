"""English text for training word vectors, and the test sets for their evaluation.

The sentences are by the contributors of tatoeba.org (CC BY 2.0); the analogies are those of
Mikolov, Chen, Corrado & Dean (2013), https://arxiv.org/abs/1301.3781, section 4.1; the rated
pairs are those of Finkelstein et al. (2002), https://doi.org/10.1145/503104.503110.
"""

import re
from collections.abc import Iterable

from attentively.data import download
from attentively.data.pairs import parse_pairs
from attentively.word_vectors.vectors import Analogy

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+")
"""Letters, with apostrophes between them; or digits."""


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation; ``don't`` is one word."""
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def tatoeba_english() -> list[list[str]]:
    """Return the words of every distinct English sentence of the two Tatoeba corpora.

    Sentences that differ only in case and punctuation count once. Raises `DataError` if the data
    is not available.
    """
    found: dict[tuple[str, ...], None] = {}
    for name in ("tatoeba-en-fr", "tatoeba-en-es"):
        (file,) = download.files_of(name)
        for pair in parse_pairs(download.read(file.path).split("\n"), name):
            found[tuple(split_words(pair.src))] = None
    return [list(sentence) for sentence in found if sentence]


def analogies() -> dict[str, list[Analogy]]:
    """Return the questions a : b = c : d of the Google analogies by section, in lower case.

    Raises `DataError` if the data is not available.
    """
    (file,) = download.files_of("analogies")
    return parse_analogies(download.read(file.path).split("\n"), file.path)


def parse_analogies(lines: Iterable[str], name: str) -> dict[str, list[Analogy]]:
    """Parse lines of four words under headings ``: section``; `name` is for messages."""
    sections: dict[str, list[Analogy]] = {}
    section = None
    for number, line in enumerate(lines, start=1):
        words = line.lower().split()
        if line.startswith(":"):
            section = sections.setdefault(line[1:].strip(), [])
        elif words:
            if section is None or len(words) != 4:
                raise ValueError(
                    f"line {number} of {name} must be ': section' or four words below a section"
                )
            a, b, c, d = words
            section.append((a, b, c, d))
    return sections


def similarities() -> list[tuple[str, str, float]]:
    """Return the pairs of WordSim-353, in lower case, with human similarity ratings (0 to 10).

    Raises `DataError` if the data is not available.
    """
    (file,) = download.files_of("wordsim353")
    return parse_similarities(download.read(file.path).split("\n"), file.path)


def parse_similarities(lines: Iterable[str], name: str) -> list[tuple[str, str, float]]:
    """Parse tab-separated lines of two words and a number; ``#`` starts a comment line."""
    pairs = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            one, other, judged = line.lower().split("\t")
            pairs.append((one.strip(), other.strip(), float(judged)))
        except ValueError:
            raise ValueError(
                f"line {number} of {name} must be two words and a number, separated by tabs"
            ) from None
    return pairs
