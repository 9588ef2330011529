"""Parse a sentence of the toy language, in English or in French, into its tree.

The parsers are lenient: they ignore agreement, elision and the position of adjectives. A sentence
is correct if its tree generates the same sentence again.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
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
    ToyPair,
    antecedents,
    mentions,
    say,
)
from attentively.data.toy.lexicon import (
    ADJECTIVES,
    CONJUNCTIONS,
    DEGREES,
    DETERMINERS,
    NOUNS,
    PREPOSITIONS,
    VERBS,
    Adjective,
    Noun,
    Verb,
)

T = TypeVar("T")


def translate(text: str) -> ToyPair:
    """Return the pair of an English sentence; case and a final full stop are ignored.

    Raises `ValueError` with the reason if the sentence does not belong to the toy language.
    """
    words = text.lower().rstrip(" .").split()
    pair = say(_EnglishReader(words).sentence())
    if list(pair.src) != words:
        raise ValueError(
            f"{text!r} is not a sentence of the toy language; did you mean {pair.src_text!r}?"
        )
    return pair


def is_well_formed(tgt: Sequence[str]) -> bool:
    """Return whether the tokens are a French sentence of the toy language."""
    try:
        return list(say(_FrenchReader(tgt).sentence()).tgt) == list(tgt)
    except ValueError:
        return False


@dataclass(frozen=True)
class _Words:
    """The lexicon of a language, by word form."""

    determiners: Mapping[str, str]
    plural_determiners: Collection[str]
    nouns: Mapping[str, Noun]
    plural_nouns: Collection[str]
    adjectives: Mapping[str, Adjective]
    verbs: Mapping[str, Verb]
    participles: Mapping[str, Verb]
    degrees: Mapping[str, str]
    prepositions: Mapping[str, str]
    conjunctions: Mapping[str, str]
    relatives: Collection[str]
    because: Sequence[str]
    by: str
    pronouns: Collection[str]


_ENGLISH = _Words(
    determiners={f: name for name, forms in DETERMINERS.items() for f in forms[:2] if f}
    | {"an": "a"},
    plural_determiners=("these", "two"),
    nouns={form: noun for noun in NOUNS for form in noun.english.split()},
    plural_nouns=[noun.english.split()[1] for noun in NOUNS if noun.countable],
    adjectives={adjective.english: adjective for adjective in ADJECTIVES},
    verbs={form: verb for verb in VERBS for form in verb.english.split()},
    participles={verb.english.split()[2]: verb for verb in VERBS},
    degrees={english: english for english in DEGREES},
    prepositions={english: english for english in PREPOSITIONS},
    conjunctions={english: english for english in CONJUNCTIONS},
    relatives=("who", "that"),
    because=("because",),
    by="by",
    pronouns=("it", "he", "she", "they"),
)

_FRENCH = _Words(
    determiners={f: name for name, forms in DETERMINERS.items() for f in forms[2:] if f}
    | {"l'": "the", "de": "a", "d'": "a", "cet": "this"},
    plural_determiners=("les", "mes", "ces", "deux"),
    nouns={form: noun for noun in NOUNS for form in noun.french.split()},
    plural_nouns=(),  # the determiner marks the plural
    adjectives={
        form: adjective
        for adjective in ADJECTIVES
        for form in f"{adjective.french} {adjective.before_vowel}".split()
    },
    verbs={form: verb for verb in VERBS for form in verb.french.split()},
    participles={form: verb for verb in VERBS for form in verb.participle.split()},
    degrees={french: english for english, french in DEGREES.items()},
    prepositions={french: english for english, french in PREPOSITIONS.items()},
    conjunctions={french: english for english, french in CONJUNCTIONS.items()},
    relatives=("qui", "que"),
    because=("parce", "que"),
    by="par",
    pronouns=("il", "elle", "ils", "elles"),
)


class _Reader(ABC):
    """A recursive-descent parser of the grammar that both languages share."""

    language: _Words

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self.position = 0

    def sentence(self) -> Sentence:
        first = self.clause()
        more = []
        while self.position < len(self.words):
            conjunction = self.take(self.language.conjunctions, "a conjunction")
            more.append((conjunction, self.clause()))
        return Sentence(first, tuple(more))

    def clause(self) -> Clause:
        clause = Clause(self.noun_phrase(), self.statement())
        if self.peek() != self.language.because[0]:
            return clause
        for word in self.language.because:
            self.skip(word)
        return replace(clause, because=self.reason(clause))

    def reason(self, clause: Clause) -> Clause:
        if self.peek() not in self.language.pronouns:
            return Clause(self.noun_phrase(), self.statement())
        pronoun = self.next()
        statement = self.statement()
        if not isinstance(statement.predicate, Description):
            raise ValueError(f"{pronoun!r} needs an adjective that determines what it refers to")
        phrases = self.antecedents(pronoun, statement.predicate.adjective, clause)
        if len({phrase.feminine for phrase in phrases}) != 1:
            names = " or ".join(phrase.noun.name for phrase in phrases)
            problem = f"is ambiguous: {names}" if names else "has no antecedent"
            raise ValueError(f"{pronoun!r} {problem}")
        return Clause(Pronoun(phrases[0]), statement)

    def noun_phrase(self) -> NounPhrase:
        plural = self.peek() in self.language.plural_determiners
        determiner = self.take(self.language.determiners, "a determiner")
        adjectives = self.adjectives()
        plural = plural or self.peek() in self.language.plural_nouns
        noun = self.take(self.language.nouns, "a noun")
        if (determiner == "a" and plural) or (not noun.countable and (plural or determiner == "a")):
            raise ValueError(f"{determiner!r} cannot be combined with {self.peek(-1)!r}")
        adjectives += self.adjectives()
        return NounPhrase(determiner, noun, plural, tuple(adjectives), self.relative())

    def adjectives(self) -> list[Adjective]:
        found = []
        while self.peek() in self.language.adjectives:
            found.append(self.language.adjectives[self.next()])
        return found

    def relative(self) -> Relative | None:
        if self.peek() not in self.language.relatives:
            return None
        self.next()
        if self.peek() not in self.language.determiners:
            return Relative(self.statement())
        subject = self.noun_phrase()
        return Relative(self.statement(with_object=False), subject)

    def statement(self, with_object: bool = True) -> Statement:
        verb, past, negative = self.verb()
        predicate = self.action(verb, with_object) if verb else self.description()
        return Statement(predicate, past, negative)

    def action(self, verb: Verb, with_object: bool) -> Action:
        what = self.noun_phrase() if verb.objects and with_object else None
        if self.peek() not in self.language.prepositions:
            return Action(verb, what)
        preposition = self.language.prepositions[self.next()]
        return Action(verb, what, (preposition, self.noun_phrase()))

    def description(self) -> Description:
        degree = ""
        if self.peek() in self.language.degrees:
            degree = self.language.degrees[self.next()]
        adjective = self.take(self.language.adjectives, "an adjective")
        if self.peek(2) != self.language.by:
            return Description(adjective, degree)
        self.next()  # and
        verb = self.take(self.language.participles, "a participle")
        self.skip(self.language.by)
        return Description(adjective, degree, (verb, self.noun_phrase()))

    @abstractmethod
    def verb(self) -> tuple[Verb | None, bool, bool]:
        """Parse a verb (None for "is"); return it, whether it is past, and whether negated."""

    @abstractmethod
    def antecedents(self, pronoun: str, adjective: Adjective, clause: Clause) -> list[NounPhrase]:
        """Return the possible antecedents of the pronoun."""

    def peek(self, ahead: int = 0) -> str:
        position = self.position + ahead
        return self.words[position] if position < len(self.words) else ""

    def next(self) -> str:
        self.position += 1
        return self.peek(-1)

    def take(self, table: Mapping[str, T], expected: str) -> T:
        return self.find(self.next(), table, expected)

    def find(self, word: str, table: Mapping[str, T], expected: str) -> T:
        if word not in table:
            found = repr(word) if word else "the end"
            before = " ".join(self.words[: self.position - 1])
            where = f"after {before!r}" if before else "at the start of the sentence"
            raise ValueError(f"expected {expected} {where}, but found {found}")
        return table[word]

    def skip(self, word: str) -> None:
        self.take({word: word}, repr(word))

    def skips(self, word: str) -> bool:
        """Skip the word if it comes next; return whether it did."""
        found = self.peek() == word
        self.position += found
        return found


class _EnglishReader(_Reader):
    language = _ENGLISH

    def verb(self) -> tuple[Verb | None, bool, bool]:
        word = self.peek()
        if word in ("is", "are", "was", "were"):
            self.next()
            return None, word in ("was", "were"), self.skips("not")
        if word in ("do", "does", "did"):
            self.next()
            self.skip("not")
            return self.take(_ENGLISH.verbs, "a verb"), word == "did", True
        return self.take(_ENGLISH.verbs, "a verb"), word in _ENGLISH.participles, False

    def antecedents(self, pronoun: str, adjective: Adjective, clause: Clause) -> list[NounPhrase]:
        return antecedents(pronoun, adjective, clause)


class _FrenchReader(_Reader):
    language = _FRENCH

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__([{"n'": "ne", "qu'": "que"}.get(word, word) for word in words])

    def verb(self) -> tuple[Verb | None, bool, bool]:
        negative = self.skips("ne")
        word = self.next()
        if negative:
            self.skip("pas")
        past = word in ("a", "ont", "était", "étaient")
        is_be = word in ("est", "sont", "était", "étaient")
        if word in ("a", "ont") or (is_be and self.peek() in _FRENCH.participles):
            return self.take(_FRENCH.participles, "a participle"), past, negative
        return None if is_be else self.find(word, _FRENCH.verbs, "a verb"), past, negative

    def antecedents(self, pronoun: str, adjective: Adjective, clause: Clause) -> list[NounPhrase]:
        return [phrase for phrase in mentions(clause) if Pronoun(phrase).french == pronoun]
