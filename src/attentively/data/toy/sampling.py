"""Sample sentences of the toy language: random trees with a given number of clauses."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import TypeVar

from attentively.data.toy.grammar import (
    Action,
    Clause,
    Description,
    NounPhrase,
    Pronoun,
    Relative,
    Sentence,
    Statement,
    antecedents,
)
from attentively.data.toy.lexicon import (
    ADJECTIVES,
    PREPOSITIONS,
    VERBS,
    Adjective,
    Noun,
    Verb,
    fits,
    nouns_of,
)

T = TypeVar("T")

_SINGULAR = ("the",) * 6 + ("a",) * 2 + ("my", "this")
_PLURAL = ("the",) * 6 + ("two",) * 2 + ("my", "this")
_MASS = ("the",) * 6 + ("my", "this")
_DEGREES = ("", "", "", "too", "very")

_TRANSITIVE = tuple(verb for verb in VERBS if verb.objects)
_INTRANSITIVE = tuple(verb for verb in VERBS if not verb.objects)
_OF_ANIMALS = tuple(verb for verb in _TRANSITIVE if "animal" in verb.subjects)
_PASSIVE = tuple(verb for verb in VERBS if verb.has_passive)


class Speaker:
    """Sample sentences with one tense each, and without repeated nouns in a clause if possible."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.past = False
        self.used: set[Noun] = set()

    def sentence(self, clauses: int) -> Sentence:
        """Return a sentence with that many clauses, subordinate clauses included."""
        self.past = self._happens(0.5)
        sizes: list[int] = []
        while sum(sizes) < clauses:
            sizes.append(self.random.randint(1, min(3, clauses - sum(sizes))))
        first, *others = [self._clause(size) for size in sizes]
        return Sentence(first, tuple((self._choose(("and", "but")), other) for other in others))

    def twins(self) -> tuple[Sentence, Sentence] | None:
        """Return two sentences whose last word alone determines what "it" refers to, or None.

        In French the two antecedents differ in gender. None means that the sampled clause has no
        such pair.
        """
        self.used = set()
        self.past = self._happens(0.5)
        verb = self._choose(_OF_ANIMALS)
        subject = self._noun_phrase("animal")
        action = Action(verb, self._noun_phrase(verb.objects))
        clause = Clause(subject, Statement(action, self.past, negative=self._happens(0.5)))
        phrases = [p for p in (subject, action.object) if p and Pronoun(p).english == "it"]
        if len({phrase.feminine for phrase in phrases}) < 2:
            return None
        readings = _pronoun_readings(clause)
        if len(readings) < 2:
            return None
        degree = self._choose(_DEGREES)
        one, other = (
            Sentence(replace(clause, because=self._is(phrase, self._choose(adjectives), degree)))
            for phrase, adjectives in readings.items()
        )
        return one, other

    def _choose(self, options: Sequence[T]) -> T:
        return options[int(self.random.random() * len(options))]

    def _happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def _clause(self, size: int) -> Clause:
        """Return a main clause with `size` - 1 subordinate clauses."""
        self.used = set()
        if size == 1:
            return self._simple_clause()
        additions = self.random.sample(("subject", "object", "because"), size - 1)
        subject, action = self._event(transitive="object" in additions)
        negative = self._happens(0.25)
        if "subject" in additions:
            subject = self._with_relative(subject)
        if "object" in additions and action.object:
            phrase = self._with_relative(action.object)
            if negative and phrase.determiner == "a":  # no relative clause after "pas de"
                phrase = replace(phrase, determiner="the")
            action = replace(action, object=phrase)
        clause = Clause(subject, Statement(action, self.past, negative))
        if "because" in additions:
            clause = replace(clause, because=self._reason(clause))
        return clause

    def _simple_clause(self) -> Clause:
        if self._happens(0.2):
            subject = self._noun_phrase("person animal way place thing drink food")
            return Clause(subject, self._description(subject))
        subject, action = self._event()
        return Clause(subject, Statement(action, self.past, negative=self._happens(0.25)))

    def _event(self, transitive: bool = False) -> tuple[NounPhrase, Action]:
        """Return a subject and an action."""
        transitive = transitive or self._happens(0.75)
        verb = self._choose(_TRANSITIVE if transitive else _INTRANSITIVE)
        subject = self._noun_phrase(verb.subjects)
        return subject, self._complete(verb)

    def _complete(self, verb: Verb) -> Action:
        """Add an object to a transitive verb, and perhaps a place to an intransitive one."""
        if verb.objects:
            return Action(verb, self._noun_phrase(verb.objects))
        if self._happens(0.6):
            preposition = self._choose(tuple(PREPOSITIONS))
            return Action(verb, place=(preposition, self._noun_phrase(preposition)))
        return Action(verb)

    def _description(self, subject: NounPhrase) -> Statement:
        adjective = self._choose(_adjectives(subject))
        if fits(subject.noun, "light") and self._happens(0.4):
            agent = self._noun_phrase("person")
            description = Description(adjective, passive=(self._choose(_PASSIVE), agent))
            return Statement(description, self.past)
        description = Description(adjective, self._choose(_DEGREES))
        return Statement(description, self.past, negative=self._happens(0.25))

    def _noun_phrase(self, kinds: str) -> NounPhrase:
        nouns = nouns_of(kinds)
        noun = self._choose([noun for noun in nouns if noun not in self.used] or nouns)
        self.used.add(noun)
        if not noun.countable:
            phrase = NounPhrase(self._choose(_MASS), noun)
        elif self._happens(0.3):
            phrase = NounPhrase(self._choose(_PLURAL), noun, plural=True)
        else:
            phrase = NounPhrase(self._choose(_SINGULAR), noun)
        if self._happens(0.35):
            return replace(phrase, adjectives=self._modifiers(phrase))
        return phrase

    def _modifiers(self, phrase: NounPhrase) -> tuple[Adjective, ...]:
        """Return one adjective, or two on different sides of the French noun."""
        first = self._choose(_adjectives(phrase))
        others = [adjective for adjective in _adjectives(phrase) if not adjective.before_noun]
        if first.before_noun and others and self._happens(0.4):
            return first, self._choose(others)
        return (first,)

    def _with_relative(self, phrase: NounPhrase) -> NounPhrase:
        """Add a relative clause, with the noun as its subject or its object."""
        acting, undergoing = _verbs_with_subject(phrase.noun), _verbs_with_object(phrase.noun)
        way = self._choose(("acts", "undergoes", "is") if acting else ("undergoes", "is"))
        if way == "is":
            return replace(phrase, relative=Relative(self._description(phrase)))
        negative = self._happens(0.25)
        if way == "acts":
            action = self._complete(self._choose(acting))
            return replace(phrase, relative=Relative(Statement(action, self.past, negative)))
        verb = self._choose(undergoing)
        subject = self._noun_phrase(verb.subjects)
        return replace(phrase, relative=Relative(Statement(Action(verb), False, negative), subject))

    def _reason(self, clause: Clause) -> Clause:
        """Return a because-clause: another event, or a description that resolves the pronoun."""
        readings = _pronoun_readings(clause)
        if not readings or self._happens(0.2):
            return self._simple_clause()
        phrase = self._choose(tuple(readings))
        return self._is(phrase, self._choose(readings[phrase]), self._choose(_DEGREES))

    def _is(self, phrase: NounPhrase, adjective: Adjective, degree: str) -> Clause:
        return Clause(Pronoun(phrase), Statement(Description(adjective, degree), self.past))


def _pronoun_readings(clause: Clause) -> dict[NounPhrase, list[Adjective]]:
    """Return the subject and the object, each with the adjectives that identify it uniquely."""
    action = clause.statement.predicate
    arguments = (clause.subject, action.object if isinstance(action, Action) else None)
    readings = {
        phrase: [
            adjective
            for adjective in _adjectives(phrase)
            if antecedents(Pronoun(phrase).english, adjective, clause) == [phrase]
        ]
        for phrase in arguments
        if isinstance(phrase, NounPhrase)
    }
    return {phrase: adjectives for phrase, adjectives in readings.items() if adjectives}


@cache
def _adjectives_for(noun: Noun) -> tuple[Adjective, ...]:
    return tuple(adjective for adjective in ADJECTIVES if fits(noun, adjective.kinds))


def _adjectives(phrase: NounPhrase) -> list[Adjective]:
    """Return the adjectives that fit the noun and describe an aspect not yet described."""
    said = {adjective.tells for adjective in phrase.adjectives}
    if phrase.relative and isinstance(phrase.relative.statement.predicate, Description):
        said.add(phrase.relative.statement.predicate.adjective.tells)
    return [adjective for adjective in _adjectives_for(phrase.noun) if adjective.tells not in said]


@cache
def _verbs_with_subject(noun: Noun) -> tuple[Verb, ...]:
    return tuple(verb for verb in VERBS if fits(noun, verb.subjects))


@cache
def _verbs_with_object(noun: Noun) -> tuple[Verb, ...]:
    return tuple(verb for verb in VERBS if fits(noun, verb.objects))
