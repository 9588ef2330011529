"""The splits of the toy language.

The split depends only on the sentence, so that two splits never share one. A sentence with a
held-out combination is "novel". The split of the others depends on all words except the last, so
that minimal pairs, whose last word determines what "it" refers to, are in the same split.
"""

from collections.abc import Iterator
from hashlib import blake2b

from attentively.data.toy.grammar import (
    Action,
    Clause,
    Description,
    NounPhrase,
    Sentence,
    Statement,
    mentions,
)
from attentively.data.toy.lexicon import Noun

SPLITS = ("train", "validation", "test", "novel")

HELD_OUT = frozenset(
    {
        # an adjective and the noun it describes
        ("small", "bird"),
        ("big", "dog"),
        ("old", "king"),
        ("young", "man"),
        ("beautiful", "flower"),
        ("good", "bread"),
        ("tired", "queen"),
        ("hungry", "bear"),
        ("happy", "girl"),
        ("narrow", "bridge"),
        ("hot", "soup"),
        ("cold", "water"),
        ("heavy", "box"),
        ("blue", "door"),
        ("red", "house"),
        ("black", "cat"),
        ("white", "horse"),
        # a verb and its object
        ("drink", "tea"),
        ("eat", "apple"),
        ("cross", "river"),
        ("see", "cow"),
        ("find", "hat"),
        ("take", "cake"),
        ("chase", "mouse"),
        ("hear", "uncle"),
        ("help", "aunt"),
        ("welcome", "princess"),
        ("buy", "egg"),
        ("open", "book"),
        ("paint", "table"),
        ("build", "school"),
        ("hold", "mat"),
        ("carry", "chair"),
    }
)


def is_novel(sentence: Sentence) -> bool:
    """Return whether the sentence contains a held-out combination."""
    return not HELD_OUT.isdisjoint(combinations(sentence))


def split_by_words(src: tuple[str, ...]) -> str:
    """Return the split of an English sentence that is not novel."""
    digest = blake2b(" ".join(src[:-1]).encode(), digest_size=8).digest()
    tenth = int.from_bytes(digest, "big") % 10
    return {0: "validation", 1: "test"}.get(tenth, "train")


def combinations(sentence: Sentence) -> Iterator[tuple[str, str]]:
    """Yield every (adjective, noun) and every (verb, object) of a sentence, as English words."""
    for clause in sentence.clauses:
        yield from _combinations_in(clause)
        if clause.because:
            yield from _combinations_in(clause.because)


def _combinations_in(clause: Clause) -> Iterator[tuple[str, str]]:
    subject = clause.subject
    noun = subject.noun if isinstance(subject, NounPhrase) else subject.antecedent.noun
    yield from _said_of(noun, clause.statement)
    for phrase in mentions(clause):
        for adjective in phrase.adjectives:
            yield adjective.english, phrase.noun.name
        if phrase.relative:
            yield from _said_of(phrase.noun, phrase.relative.statement)


def _said_of(noun: Noun, statement: Statement) -> Iterator[tuple[str, str]]:
    match statement.predicate:
        case Action(verb=verb, object=what):
            if verb.objects:  # in "the milk that the cat drinks" the object is the noun itself
                yield verb.base, (what.noun if what else noun).name
        case Description(adjective=adjective, passive=passive):
            yield adjective.english, noun.name
            if passive:
                yield passive[0].base, noun.name
