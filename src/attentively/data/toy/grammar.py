"""A sentence of the toy language as a tree, which generates English and French together.

Every French word stores the English words that it translates, so the gold alignment follows from
the generation itself.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from attentively.data.toy.lexicon import (
    BEFORE_VOWEL,
    CONJUNCTIONS,
    DEGREES,
    DETERMINERS,
    PREPOSITIONS,
    Adjective,
    Noun,
    Verb,
    agree,
    fits,
    starts_with_vowel,
)


class ToyPair(NamedTuple):
    """An English sentence, its French translation, and their word alignment.

    A link (i, j) means that French word j translates English word i, both counted from 0.
    """

    src: tuple[str, ...]
    tgt: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]

    @property
    def src_text(self) -> str:
        return " ".join(self.src)

    @property
    def tgt_text(self) -> str:
        return " ".join(self.tgt)


# The tree


@dataclass(frozen=True)
class NounPhrase:
    """A determiner, up to two adjectives, a noun, and perhaps a relative clause."""

    determiner: str
    noun: Noun
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    relative: "Relative | None" = None

    @property
    def feminine(self) -> bool:
        return self.noun.feminine


@dataclass(frozen=True)
class Pronoun:
    """It, he, she or they; in French it has the gender of its antecedent."""

    antecedent: NounPhrase

    @property
    def feminine(self) -> bool:
        return self.antecedent.feminine

    @property
    def plural(self) -> bool:
        return self.antecedent.plural

    @property
    def english(self) -> str:
        if self.plural:
            return "they"
        if not fits(self.antecedent.noun, "person"):
            return "it"
        return "she" if self.feminine else "he"

    @property
    def french(self) -> str:
        return ("elle" if self.feminine else "il") + ("s" if self.plural else "")


Subject = NounPhrase | Pronoun


@dataclass(frozen=True)
class Action:
    """A verb, its object if it takes one, and perhaps a place ("on", the mat)."""

    verb: Verb
    object: NounPhrase | None = None
    place: tuple[str, NounPhrase] | None = None


@dataclass(frozen=True)
class Description:
    """A predicate with "be": "blue", "too tired", "blue and held by the boy"."""

    adjective: Adjective
    degree: str = ""
    passive: tuple[Verb, NounPhrase] | None = None


@dataclass(frozen=True)
class Statement:
    """A predicate in a tense, or its negation."""

    predicate: Action | Description
    past: bool = False
    negative: bool = False


@dataclass(frozen=True)
class Relative:
    """The clause after "that": "drinks the milk" or, with its own subject, "the cat drinks"."""

    statement: Statement
    subject: NounPhrase | None = None


@dataclass(frozen=True)
class Clause:
    """A subject, a statement about it, and perhaps a because-clause."""

    subject: Subject
    statement: Statement
    because: "Clause | None" = None


@dataclass(frozen=True)
class Sentence:
    """Clauses, joined by conjunctions."""

    first: Clause
    more: tuple[tuple[str, Clause], ...] = ()

    @property
    def clauses(self) -> tuple[Clause, ...]:
        return (self.first, *(clause for _, clause in self.more))


def mentions(clause: Clause) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a clause and its relative clauses, without its because-clause."""
    if isinstance(clause.subject, NounPhrase):
        yield from _with_relatives(clause.subject)
    yield from _mentions_of(clause.statement)


def _with_relatives(phrase: NounPhrase) -> Iterator[NounPhrase]:
    yield phrase
    if phrase.relative:
        if phrase.relative.subject:
            yield from _with_relatives(phrase.relative.subject)
        yield from _mentions_of(phrase.relative.statement)


def _mentions_of(statement: Statement) -> Iterator[NounPhrase]:
    match statement.predicate:
        case Action(object=what, place=place):
            if what:
                yield from _with_relatives(what)
            if place:
                yield from _with_relatives(place[1])
        case Description(passive=(_, agent)):
            yield from _with_relatives(agent)


def antecedents(pronoun: str, adjective: Adjective, clause: Clause) -> list[NounPhrase]:
    """Return the possible antecedents in "`clause` because `pronoun` is `adjective`"."""
    return [
        phrase
        for phrase in mentions(clause)
        if Pronoun(phrase).english == pronoun
        and (fits(phrase.noun, adjective.kinds) or not adjective.selective)
    ]


# Generation in both languages


@dataclass(frozen=True, eq=False)
class English:
    """One occurrence of an English word: two occurrences of "the" are different objects."""

    text: str


class French(NamedTuple):
    """A French word and the English words it translates."""

    text: str
    says: tuple[English, ...]


class Phrase(NamedTuple):
    """A phrase in both languages, each in its own word order."""

    english: list[English]
    french: list[French]


def gloss(english: str, *french: str) -> Phrase:
    """Return one English word and the French words that all translate it."""
    word = English(english)
    return Phrase([word], [French(text, (word,)) for text in french])


def join(phrases: Iterable[Phrase]) -> Phrase:
    """Return the phrases one after another, in the same order in both languages."""
    english: list[English] = []
    french: list[French] = []
    for phrase in phrases:
        english += phrase.english
        french += phrase.french
    return Phrase(english, french)


def say(sentence: Sentence) -> ToyPair:
    """Generate the sentence in both languages, with the word alignment."""
    english, french = join(_sentence(sentence))
    position = {word: i for i, word in enumerate(english)}
    return ToyPair(
        src=tuple(word.text for word in english),
        tgt=tuple(_elide([word.text for word in french])),
        alignment=frozenset((position[w], j) for j, word in enumerate(french) for w in word.says),
    )


def _elide(words: list[str]) -> Iterator[str]:
    for word, following in zip(words, [*words[1:], "."], strict=True):
        yield BEFORE_VOWEL.get(word, word) if starts_with_vowel(following) else word


def _sentence(sentence: Sentence) -> Iterator[Phrase]:
    yield _clause(sentence.first)
    for conjunction, clause in sentence.more:
        yield gloss(conjunction, CONJUNCTIONS[conjunction])
        yield _clause(clause)


def _clause(clause: Clause) -> Phrase:
    parts = [_subject(clause.subject), _statement(clause.statement, clause.subject)]
    if clause.because:
        parts += [gloss("because", "parce", "que"), _clause(clause.because)]
    return join(parts)


def _subject(subject: Subject) -> Phrase:
    if isinstance(subject, Pronoun):
        return gloss(subject.english, subject.french)
    return _noun_phrase(subject)


def _noun_phrase(phrase: NounPhrase, negated: bool = False) -> Phrase:
    """Generate a noun phrase; in the object of a negated verb, "a" becomes *de*."""
    noun = English(phrase.noun.english.split()[phrase.plural])
    adjectives = [English(adjective.english) for adjective in phrase.adjectives]
    determiner = English(_determiner(phrase, following=[*adjectives, noun][0].text))

    article = "de" if phrase.determiner == "a" and negated else _article(phrase)
    before: list[French] = [French(article, (determiner,))]
    after: list[French] = []
    for adjective, word in zip(phrase.adjectives, adjectives, strict=True):
        side = before if adjective.before_noun else after
        side.append(French(_form(adjective, phrase), (word,)))
    noun_in_french = French(phrase.noun.french.split()[phrase.plural], (noun,))
    said = Phrase([determiner, *adjectives, noun], [*before, noun_in_french, *after])
    if phrase.relative is None:
        return said
    return join([said, _relative(phrase.relative, phrase)])


def _determiner(phrase: NounPhrase, following: str) -> str:
    determiner = DETERMINERS[phrase.determiner][phrase.plural]
    return "an" if determiner == "a" and following[0] in "aeiou" else determiner


def _article(phrase: NounPhrase) -> str:
    _, _, masculine, feminine, plural = DETERMINERS[phrase.determiner]
    return plural if phrase.plural else feminine if phrase.feminine else masculine


def _form(adjective: Adjective, phrase: NounPhrase) -> str:
    is_masculine_singular = not phrase.feminine and not phrase.plural
    if adjective.before_vowel and is_masculine_singular and starts_with_vowel(phrase.noun.french):
        return adjective.before_vowel
    return agree(adjective.french, phrase.feminine, phrase.plural)


def _relative(relative: Relative, antecedent: NounPhrase) -> Phrase:
    pronoun = "who" if fits(antecedent.noun, "person") else "that"
    if relative.subject is None:
        return join([gloss(pronoun, "qui"), _statement(relative.statement, antecedent)])
    subject = _noun_phrase(relative.subject)
    statement = _statement(relative.statement, relative.subject)
    return join([gloss(pronoun, "que"), subject, statement])


def _statement(statement: Statement, subject: Subject) -> Phrase:
    if isinstance(statement.predicate, Description):
        return _description(statement.predicate, statement, subject)
    return _action(statement.predicate, statement, subject)


def _description(description: Description, statement: Statement, subject: Subject) -> Phrase:
    parts = [_be(statement, subject)]
    if description.degree:
        parts.append(gloss(description.degree, DEGREES[description.degree]))
    adjective = description.adjective
    form = agree(adjective.french, subject.feminine, subject.plural)
    parts.append(gloss(adjective.english, form))
    if description.passive:
        verb, agent = description.passive
        participle = agree(verb.participle, subject.feminine, subject.plural)
        parts += [gloss("and", "et"), gloss(verb.english.split()[2], participle)]
        parts += [gloss("by", "par"), _noun_phrase(agent)]
    return join(parts)


def _action(action: Action, statement: Statement, subject: Subject) -> Phrase:
    parts = [_verb(action.verb, statement, subject)]
    if action.object:
        parts.append(_noun_phrase(action.object, negated=statement.negative))
    if action.place:
        preposition, place = action.place
        parts += [gloss(preposition, PREPOSITIONS[preposition]), _noun_phrase(place)]
    return join(parts)


def _verb(verb: Verb, statement: Statement, subject: Subject) -> Phrase:
    """Generate a verb; if it is negated, "do" carries the tense."""
    base, singular, past = verb.english.split()
    finite, *participle = _conjugate(verb, statement.past, subject)
    if statement.negative:
        do = English("did" if statement.past else "do" if subject.plural else "does")
        no, meaning = English("not"), English(base)
        english = [do, no, meaning]
        french = _negate(French(finite, (do,) if participle else (do, meaning)), no)
    else:
        meaning = English(past if statement.past else base if subject.plural else singular)
        english = [meaning]
        french = [French(finite, (meaning,))]
    return Phrase(english, [*french, *(French(form, (meaning,)) for form in participle)])


def _be(statement: Statement, subject: Subject) -> Phrase:
    be = English((("is", "are"), ("was", "were"))[statement.past][subject.plural])
    finite = French(_etre(statement.past, subject), (be,))
    if statement.negative:
        no = English("not")
        return Phrase([be, no], _negate(finite, no))
    return Phrase([be], [finite])


def _negate(finite: French, no: English) -> list[French]:
    return [French("ne", (no,)), finite, French("pas", (no,))]


def _conjugate(verb: Verb, past: bool, subject: Subject) -> tuple[str, ...]:
    if verb.is_posture:
        participle = agree(verb.participle, subject.feminine, subject.plural)
        return _etre(past, subject), participle
    if past:
        return "ont" if subject.plural else "a", verb.participle.split()[0]
    return (verb.french.split()[subject.plural],)


def _etre(past: bool, subject: Subject) -> str:
    return (("est", "sont"), ("était", "étaient"))[past][subject.plural]
