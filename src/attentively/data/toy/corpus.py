"""Sentence pairs of the toy language: distinct, reproducible, and in disjoint splits."""

from collections.abc import Collection, Hashable, Iterator
from random import Random
from typing import Literal, TypeVar

from attentively.data.toy.grammar import ToyPair, say
from attentively.data.toy.lexicon import (
    ADJECTIVES,
    BEFORE_VOWEL,
    CONJUNCTIONS,
    DEGREES,
    DETERMINERS,
    NOUNS,
    PREPOSITIONS,
    VERBS,
)
from attentively.data.toy.sampling import Speaker
from attentively.data.toy.splits import SPLITS, is_novel, split_by_words

T = TypeVar("T", bound=Hashable)

SHORTEST, LONGEST = 3, 60  # English words
PATIENCE = 20_000  # consecutive samples without a new pair


def generate(
    num_pairs: int,
    *,
    seed: int = 0,
    clauses: Collection[int] = (1, 2, 3),
    lengths: tuple[int, int] = (SHORTEST, LONGEST),
) -> list[ToyPair]:
    """Return `num_pairs` distinct pairs of any split.

    `clauses` lists the permitted numbers of clauses, subordinate clauses included; `lengths` is the
    minimum and the maximum number of English words. The result is reproducible, and a smaller
    `num_pairs` returns a prefix of a larger one.

    Raises `ValueError` for an argument out of range, or if there are not enough distinct pairs.
    """
    return _distinct(num_pairs, _pairs(None, seed, clauses, lengths))


def load(
    split: str,
    num_pairs: int,
    *,
    seed: int = 0,
    clauses: Collection[int] = (1, 2, 3),
    lengths: tuple[int, int] = (SHORTEST, LONGEST),
) -> list[ToyPair]:
    """Return `num_pairs` distinct pairs of the "train", "validation", "test" or "novel" split.

    No two splits share an English sentence, for all sizes and seeds. Every "novel" sentence
    contains a combination of :data:`HELD_OUT`, which no other split contains. The other arguments
    are those of :func:`generate`.

    Raises `ValueError` for an argument out of range, or if there are not enough distinct pairs.
    """
    _check_split(split)
    return _distinct(num_pairs, _pairs(split, seed, clauses, lengths))


def pronoun_pairs(
    num_pairs: int, *, split: str = "test", seed: int = 0
) -> list[tuple[ToyPair, ToyPair]]:
    """Return minimal pairs of sentences whose last word determines what "it" refers to.

    "The animal did not cross the street because it was too tired" has *il* in French; with "wide"
    instead of "tired" it has *elle*.

    Raises `ValueError` for an unknown split, or if there are not enough distinct minimal pairs.
    """
    _check_split(split)
    return _distinct(num_pairs, _twins(split, seed))


def _pairs(
    split: str | None, seed: int, clauses: Collection[int], lengths: tuple[int, int]
) -> Iterator[ToyPair | None]:
    """Check the arguments and return an iterator of samples; a rejected sample is None."""
    sizes = tuple(clauses)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"clauses={clauses!r} must list numbers of clauses of at least 1")
    fewest, most = lengths
    if fewest > most or most < SHORTEST:
        raise ValueError(
            f"lengths={lengths!r} must be (minimum, maximum), with a maximum of at least "
            f"{SHORTEST} words"
        )

    def draw() -> Iterator[ToyPair | None]:
        random = Random(seed)
        speaker = Speaker(random)
        while True:
            sentence = speaker.sentence(random.choice(sizes))
            if split and is_novel(sentence) != (split == "novel"):
                yield None
                continue
            pair = say(sentence)
            belongs = split in (None, "novel", split_by_words(pair.src))
            yield pair if belongs and fewest <= len(pair.src) <= most else None

    return draw()


def _twins(split: str, seed: int) -> Iterator[tuple[ToyPair, ToyPair] | None]:
    speaker = Speaker(Random(seed))
    while True:
        sentences = speaker.twins()
        if sentences is None or {is_novel(one) for one in sentences} != {split == "novel"}:
            yield None
            continue
        one = say(sentences[0])
        belongs = split in ("novel", split_by_words(one.src))  # the other's is the same
        yield (one, say(sentences[1])) if belongs else None


def _distinct(number: int, draws: Iterator[T | None]) -> list[T]:
    if number < 0:
        raise ValueError(f"num_pairs={number} must not be negative")
    found: dict[T, None] = {}
    idle = 0
    while len(found) < number:
        drawn = next(draws)
        if drawn is None or drawn in found:
            idle += 1
        else:
            found[drawn] = None
            idle = 0
        if idle == PATIENCE:
            raise ValueError(
                f"num_pairs={number} is too large: {len(found)} distinct pairs were found, then "
                f"none in {PATIENCE} further samples"
            )
    return list(found)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is unknown: choose one of {', '.join(SPLITS)}")


def words(side: Literal["src", "tgt"]) -> list[str]:
    """Return every word of English ("src") or of French ("tgt"), in alphabetical order."""
    if side == "src":
        content = [entry.english for entry in (*NOUNS, *ADJECTIVES, *VERBS)]
        determiners = [form for one, many, *_ in DETERMINERS.values() for form in (one, many)]
        grammar = [*PREPOSITIONS, *DEGREES, *CONJUNCTIONS, *determiners]
        grammar.append("an is are was were do does did not because by who that it he she they")
    elif side == "tgt":
        content = [entry.french for entry in (*NOUNS, *ADJECTIVES, *VERBS)]
        content += [adjective.before_vowel for adjective in ADJECTIVES]
        content += [verb.participle for verb in VERBS]
        determiners = [form for _, _, *forms in DETERMINERS.values() for form in forms]
        translated = (PREPOSITIONS, DEGREES, CONJUNCTIONS)
        grammar = [*determiners, *BEFORE_VOWEL, *BEFORE_VOWEL.values()]
        grammar += [french for table in translated for french in table.values()]
        grammar.append("est sont était étaient a ont pas parce par qui il elle ils elles")
    else:
        raise ValueError(f"side={side!r} is unknown: choose 'src' or 'tgt'")
    return sorted({word for entry in (*content, *grammar) for word in entry.split()})


def detokenize(tokens: Collection[str]) -> str:
    """Return French tokens as text, with elided words joined to the next word: "l'animal"."""
    return " ".join(tokens).replace("' ", "'")
