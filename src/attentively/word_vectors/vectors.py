"""Applications of word vectors: nearest neighbours, analogies, and similarity scores.

Also the file format in which vectors are stored.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from attentively import pretrained_files
from attentively.atomic_files import replacing
from attentively.config import check_at_least_one

Analogy = tuple[str, str, str, str]
"""a is to b as c is to d."""
FORMAT = "attentively word vectors 1"
AT_ONCE = 512
"""Analogies answered in one matrix product."""


class Neighbour(NamedTuple):
    """A word and the cosine similarity between its vector and the query."""

    word: str
    cosine: float


class AnalogyScore(NamedTuple):
    """The number of analogies that were answered correctly."""

    correct: int
    asked: int
    skipped: int
    """Questions that contain a word without a vector."""
    repeated: int = 0
    """Answers that repeat one of the question's three words; 0 if these are excluded."""
    repeated_c: int = 0
    """Answers that repeat c."""

    @property
    def accuracy(self) -> float:
        """The fraction of correct answers among the questions asked."""
        if self.asked == 0:
            raise ValueError(
                f"no accuracy: all {self.skipped} questions contain a word without a vector"
            )
        return self.correct / self.asked

    @property
    def coverage(self) -> float:
        """The fraction of questions whose words all have vectors."""
        if self.asked + self.skipped == 0:
            raise ValueError("no coverage: the list of questions is empty")
        return self.asked / (self.asked + self.skipped)


class SimilarityScore(NamedTuple):
    """The agreement of cosine similarities with human ratings of word pairs."""

    correlation: float | None
    """Spearman's rank correlation: 1 for the same ranking, 0 for unrelated rankings. None if it is
    undefined: fewer than two pairs, or all values of one side equal."""
    asked: int
    skipped: int
    """Pairs that contain a word without a vector."""

    @property
    def coverage(self) -> float:
        """The fraction of pairs whose words both have vectors."""
        if self.asked + self.skipped == 0:
            raise ValueError("no coverage: the list of pairs is empty")
        return self.asked / (self.asked + self.skipped)


class WordVectors:
    r"""Word vectors with nearest neighbours, analogies and similarity scores.

    Vectors are compared by cosine similarity,
    :math:`x \cdot y / (\lVert x \rVert \lVert y \rVert)`, which ignores their lengths.

    An analogy, :math:`a` is to :math:`b` as :math:`c` is to what?, is answered by

    .. math:: \operatorname*{argmax}_{d} \; \cos(d, \; b - a + c)

    over normalised vectors (Mikolov, Yih & Zweig 2013, https://aclanthology.org/N13-1090,
    section 5; called 3CosAdd by Levy & Goldberg 2014, https://aclanthology.org/W14-1618).
    The usual protocol excludes :math:`a`, :math:`b` and :math:`c` as answers. If they are allowed,
    :math:`c` itself is the nearest in 93 of 100 cases (Linzen 2016,
    https://aclanthology.org/W16-2503, section 4), so a score should state the protocol.
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: Float[Tensor, "words embedding_dim"],
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise `ValueError` unless the words are distinct and have one vector each."""
        self.words = list(words)
        self.ids = {word: index for index, word in enumerate(self.words)}
        if len(self.words) != len(vectors) or len(self.ids) != len(self.words):
            raise ValueError(
                f"expected one vector per distinct word, but got {len(vectors)} vectors for "
                f"{len(self.words)} words, {len(self.ids)} of them distinct"
            )
        self.vectors = vectors.detach()
        self.directions = F.normalize(self.vectors, dim=-1)  # of length 1
        self.provenance = dict(provenance or {})

    def __contains__(self, word: str) -> bool:
        return word in self.ids

    # Words

    def similarity(self, one: str, other: str) -> float:
        """Return the cosine of two words; a word without a vector raises `ValueError`."""
        return float(self._direction(one) @ self._direction(other))

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """Return the nearest neighbours of `word`, without itself, the nearest first."""
        return self._nearest(self._direction(word), count, left_out=[word])

    def score_similarities(self, pairs: Iterable[tuple[str, str, float]]) -> SimilarityScore:
        """Compare the cosines of word pairs with human similarity ratings.

        Pairs that contain a word without a vector are skipped.
        """
        pairs = list(pairs)
        known = [pair for pair in pairs if pair[0] in self and pair[1] in self]
        cosines = [self.similarity(one, other) for one, other, _ in known]
        by_people = [judged for _, _, judged in known]
        ranked = min(len(set(cosines)), len(set(by_people))) > 1
        correlation = spearman(cosines, by_people) if ranked else None
        return SimilarityScore(correlation, len(known), len(pairs) - len(known))

    # Analogies

    def analogy(
        self, a: str, b: str, c: str, count: int = 1, exclude: bool = True
    ) -> list[Neighbour]:
        """Answer "`a` is to `b` as `c` is to …", the best answer first.

        With `exclude`, the three words of the question are excluded as answers.
        """
        wanted = self._direction(b) - self._direction(a) + self._direction(c)
        excluded = [a, b, c] if exclude else []
        return self._nearest(F.normalize(wanted, dim=0), count, excluded)

    def answers(
        self, questions: Sequence[Sequence[str]], exclude: bool = True, only_c: bool = False
    ) -> list[str]:
        """Return the best answer to each question (a, b, c, ...): `analogy` for many questions.

        With `only_c` it is the word nearest to c, whatever a and b are: a baseline without the
        relation, with which analogy scores should be compared (Linzen 2016, who writes
        a : a* = b : b* and calls it Only-b).
        """
        for word in {word for question in questions for word in question[:3]}:
            self._direction(word)  # raises ValueError for a word without a vector
        found: list[str] = []
        for start in range(0, len(questions), AT_ONCE):
            chosen = questions[start : start + AT_ONCE]
            ids = torch.tensor([[self.ids[word] for word in question[:3]] for question in chosen])
            best = self._best(ids.to(self.directions.device), exclude, only_c)
            found += [self.words[index] for index in best.tolist()]
        return found

    def score_analogies(
        self, questions: Iterable[Analogy], exclude: bool = True, only_c: bool = False
    ) -> AnalogyScore:
        """Answer every question (a, b, c, d); an answer is correct if it is exactly d."""
        questions = list(questions)
        known = [question for question in questions if all(word in self for word in question)]
        answers = self.answers(known, exclude, only_c)
        return AnalogyScore(
            correct=sum(answer == d for answer, (*_, d) in zip(answers, known, strict=True)),
            asked=len(known),
            skipped=len(questions) - len(known),
            repeated=sum(
                answer in given for answer, (*given, _) in zip(answers, known, strict=True)
            ),
            repeated_c=sum(
                answer == c for answer, (_, _, c, _) in zip(answers, known, strict=True)
            ),
        )

    # File format

    def save(
        self, path: Path | str, provenance: Mapping[str, Any], half_precision: bool = False
    ) -> None:
        """Write words, vectors and provenance to `path`, completely or not at all.

        With `half_precision` the vectors are stored in 16 bits. Raises `OSError` if the file
        cannot be written; an earlier file is then unchanged.
        """
        dtype = torch.float16 if half_precision else torch.float32
        content = {
            "format": FORMAT,
            "words": json.dumps(self.words, ensure_ascii=False),
            "provenance": json.dumps(dict(provenance), ensure_ascii=False),
        }
        tensors = {"vectors": self.vectors.to("cpu", dtype).contiguous()}
        with replacing(path) as temporary:
            try:
                save_file(tensors, temporary, metadata=content)
            except SafetensorError as error:
                raise OSError(f"cannot write {path}: {error}") from None

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a file that `save` wrote, in 32 bits and with its provenance.

        Raises `ValueError` for a file that is missing, damaged or of another kind.
        """
        if not Path(path).is_file():
            raise ValueError(f"no word vectors found at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                content = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is damaged or not a file of word vectors: {error}") from None
        if content.get("format") != FORMAT:
            raise ValueError(
                f"{path} has format {content.get('format')!r}, but expected {FORMAT!r}"
            )
        try:
            words, provenance = (json.loads(content[name]) for name in ("words", "provenance"))
            vectors = tensors["vectors"].float()
            if not all(type(word) is str for word in words) or vectors.ndim != 2:
                raise TypeError("expected a list of words and a matrix of vectors")
            return cls(words, vectors, dict(provenance))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None

    # Internals

    def _direction(self, word: str) -> Float[Tensor, " embedding_dim"]:
        if word not in self.ids:
            raise ValueError(f"{word!r} is not in the vocabulary of {len(self.words)} words")
        return self.directions[self.ids[word]]

    def _nearest(
        self, wanted: Float[Tensor, " embedding_dim"], count: int, left_out: Sequence[str]
    ) -> list[Neighbour]:
        check_at_least_one(count=count)
        cosines = self.directions @ wanted
        cosines[[self.ids[word] for word in left_out]] = -torch.inf
        count = min(count, len(self.words) - len(set(left_out)))
        best = cosines.topk(count)
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Neighbour(self.words[index], cosine) for index, cosine in found]

    def _best(
        self, ids: Int[Tensor, "questions 3"], exclude: bool, only_c: bool
    ) -> Int[Tensor, " questions"]:
        a, b, c = self.directions[ids].unbind(dim=1)
        wanted = c if only_c else b - a + c  # its length does not change the ranking
        scores = wanted @ self.directions.T
        if exclude:
            scores.scatter_(1, ids, -torch.inf)
        return scores.argmax(dim=1)


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation: Pearson's correlation of the ranks, with ties averaged.

    Raises `ValueError` for lists of different lengths, of fewer than two values, or of equal values
    only, for which the correlation is undefined.
    """
    if len(one) != len(other) or len(one) < 2:
        raise ValueError(
            "a correlation needs two lists of the same length with at least 2 values, but got "
            f"{len(one)} and {len(other)} values"
        )
    x, y = (_ranks(torch.tensor(values, dtype=torch.float64)) for values in (one, other))
    x, y = x - x.mean(), y - y.mean()
    if not x.any() or not y.any():
        raise ValueError("the correlation is undefined: all values of one list are equal")
    return float(x @ y / (x.norm() * y.norm()))


def _ranks(values: Float[Tensor, " values"]) -> Float[Tensor, " values"]:
    """Return the rank of each value, from 1; equal values share their mean rank."""
    _, group, sizes = values.unique(return_inverse=True, return_counts=True)
    last = sizes.cumsum(dim=0)
    return (last - (sizes - 1) / 2).to(values.dtype)[group]


def pretrained_vector_names() -> list[str]:
    """Return the names that `load_pretrained_vectors` knows."""
    return pretrained_files.names("vectors/")


def load_pretrained_vectors(name: str) -> WordVectors:
    """Load pretrained vectors of the package; the error for an unknown name lists the names."""
    if name not in pretrained_vector_names():
        raise ValueError(
            f"no pretrained vectors are called {name!r}: choose one of "
            f"{', '.join(pretrained_vector_names())}"
        )
    return WordVectors.load(pretrained_files.find(f"vectors/{name}.safetensors"))
