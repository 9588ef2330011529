"""Word vectors in use: nearest neighbours, analogies, similarity scores, and their file.

Which words are near, what completes an analogy, and whether people find the same words alike.
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

from attentively.atomic_files import replacing
from attentively.config import check_at_least_one

Analogy = tuple[str, str, str, str]
"""a is to b as c is to d."""
FORMAT = "attentively word vectors 1"
AT_ONCE = 512
"""Analogies answered in one matrix product."""
_PRETRAINED = Path(__file__).parents[1] / "pretrained" / "vectors"


class Neighbour(NamedTuple):
    """A word, and the cosine of the angle between its vector and what was asked."""

    word: str
    cosine: float


class AnalogyScore(NamedTuple):
    """How many analogies were answered right."""

    correct: int
    asked: int
    skipped: int
    """Questions with a word that has no vector: they are not asked."""
    repeated: int = 0
    """Answers that were one of the question's own three words; none where these are excluded."""
    repeated_c: int = 0
    """Of these, the answers that were c."""

    @property
    def accuracy(self) -> float:
        """The share of right answers among the questions asked."""
        if self.asked == 0:
            raise ValueError(f"none of {self.skipped} questions could be asked")
        return self.correct / self.asked

    @property
    def coverage(self) -> float:
        """The share of the questions that could be asked."""
        if self.asked + self.skipped == 0:
            raise ValueError("there were no questions")
        return self.asked / (self.asked + self.skipped)


class SimilarityScore(NamedTuple):
    """How well cosines rank pairs of words as people do."""

    correlation: float | None
    """Spearman's: 1 where both rank alike, 0 where they have nothing in common. None where there
    is nothing to rank: fewer than two pairs could be asked, or one side finds all alike."""
    asked: int
    skipped: int
    """Pairs with a word that has no vector: they are not asked."""

    @property
    def coverage(self) -> float:
        """The share of the pairs that could be asked."""
        if self.asked + self.skipped == 0:
            raise ValueError("there were no pairs")
        return self.asked / (self.asked + self.skipped)


class WordVectors:
    r"""Ask vectors about words.

    Vectors are compared by the cosine of the angle between them,
    :math:`x \cdot y / (\lVert x \rVert \lVert y \rVert)`, which does not see their lengths.

    An analogy, :math:`a` is to :math:`b` as :math:`c` is to what?, is answered by

    .. math:: \operatorname*{argmax}_{d} \; \cos(d, \; b - a + c)

    over vectors made of length 1 (Mikolov, Yih & Zweig 2013, https://aclanthology.org/N13-1090,
    section 5; called 3CosAdd by Levy & Goldberg 2014, https://aclanthology.org/W14-1618).
    By custom :math:`a`, :math:`b` and :math:`c` are no answers. Let in, :math:`c` itself was the
    nearest in 93 cases of 100 (Linzen 2016, https://aclanthology.org/W16-2503, section 4), so a
    score should say whether the custom was kept.
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: Float[Tensor, "words embedding_dim"],
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise `ValueError` unless there is one vector for each word, and each word once."""
        self.words = list(words)
        self.ids = {word: index for index, word in enumerate(self.words)}
        if len(self.words) != len(vectors) or len(self.ids) != len(self.words):
            raise ValueError(
                f"{len(self.words)} words, {len(self.ids)} of them distinct, "
                f"came with {len(vectors)} vectors"
            )
        self.vectors = vectors.detach()
        self.directions = F.normalize(self.vectors, dim=-1)  # of length 1
        self.provenance = dict(provenance or {})

    def __contains__(self, word: str) -> bool:
        return word in self.ids

    # Words

    def similarity(self, one: str, other: str) -> float:
        """Return the cosine between two words; a word without a vector raises `ValueError`."""
        return float(self._direction(one) @ self._direction(other))

    def nearest(self, word: str, count: int = 10) -> list[Neighbour]:
        """Return the words nearest to `word`, itself left out, the nearest first."""
        return self._nearest(self._direction(word), count, left_out=[word])

    def score_similarities(self, pairs: Iterable[tuple[str, str, float]]) -> SimilarityScore:
        """Compare the cosines of pairs with how alike people find them.

        Pairs with a word without a vector are skipped.
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

        With `exclude`, the three words of the question are no answers.
        """
        wanted = self._direction(b) - self._direction(a) + self._direction(c)
        excluded = [a, b, c] if exclude else []
        return self._nearest(F.normalize(wanted, dim=0), count, excluded)

    def answers(
        self, questions: Sequence[Sequence[str]], exclude: bool = True, only_c: bool = False
    ) -> list[str]:
        """Return the best answer to each question, of which a, b and c are read: `analogy` at once.

        With `only_c` it is the word nearest to c, whatever a and b are. It knows nothing of the
        relation, so only what analogies answer beyond that speaks for them (Linzen 2016, who
        writes a : a* = b : b* and calls it Only-b).
        """
        for word in {word for question in questions for word in question[:3]}:
            self._direction(word)  # refuses a word without a vector
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
        """Ask every question (a, b, c, d); right is what answers exactly d."""
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

    # Their file

    def save(
        self, path: Path | str, provenance: Mapping[str, Any], half_precision: bool = False
    ) -> None:
        """Write words, vectors and where they come from to `path`, whole or not at all.

        With `half_precision` the numbers are stored in 16 bits. Raises `OSError` where the file
        cannot be written; what stood there before then still does.
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
                raise OSError(f"{path} could not be written: {error}") from None

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote, in 32 bits and with its provenance.

        Raises `ValueError` for a file that is missing, damaged or of another kind.
        """
        if not Path(path).is_file():
            raise ValueError(f"there are no word vectors at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                content = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is damaged or holds no word vectors: {error}") from None
        if content.get("format") != FORMAT:
            raise ValueError(f"{path} is of format {content.get('format')!r}, not {FORMAT!r}")
        try:
            words, provenance = (json.loads(content[name]) for name in ("words", "provenance"))
            vectors = tensors["vectors"].float()
            if not all(type(word) is str for word in words) or vectors.ndim != 2:
                raise TypeError("it needs a list of words, and a table of vectors")
            return cls(words, vectors, dict(provenance))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None

    # Inside

    def _direction(self, word: str) -> Float[Tensor, " embedding_dim"]:
        if word not in self.ids:
            raise ValueError(f"there is no vector for {word!r} among {len(self.words)} words")
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
        wanted = c if only_c else b - a + c  # its length changes no order
        scores = wanted @ self.directions.T
        if exclude:
            scores.scatter_(1, ids, -torch.inf)
        return scores.argmax(dim=1)


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation: Pearson's, of the ranks; equal values share a rank.

    Raises `ValueError` for lists that differ in length or hold fewer than two values, and for one
    whose values are all equal, which nothing can be correlated with.
    """
    if len(one) != len(other) or len(one) < 2:
        raise ValueError(f"{len(one)} and {len(other)} values have no correlation")
    x, y = (_ranks(torch.tensor(values, dtype=torch.float64)) for values in (one, other))
    x, y = x - x.mean(), y - y.mean()
    if not x.any() or not y.any():
        raise ValueError("values that are all equal are correlated with nothing")
    return float(x @ y / (x.norm() * y.norm()))


def _ranks(values: Float[Tensor, " values"]) -> Float[Tensor, " values"]:
    """Return the place of each value in their order, from 1; equal ones share a mean."""
    _, group, sizes = values.unique(return_inverse=True, return_counts=True)
    last = sizes.cumsum(dim=0)
    return (last - (sizes - 1) / 2).to(values.dtype)[group]


def pretrained_vector_names() -> list[str]:
    """Return the names that `load_pretrained_vectors` knows."""
    return sorted(path.stem for path in _PRETRAINED.glob("*.safetensors"))


def load_pretrained_vectors(name: str) -> WordVectors:
    """Read vectors that ship with the package; an unknown name lists those there are."""
    if name not in pretrained_vector_names():
        raise ValueError(
            f"no pretrained vectors are called {name!r}; there are "
            f"{', '.join(pretrained_vector_names())}"
        )
    return WordVectors.load(_PRETRAINED / f"{name}.safetensors")
