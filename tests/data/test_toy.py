"""The toy language: right French, gold alignment, and splits that share nothing."""

import os
import re
import subprocess
import sys
from itertools import pairwise

import pytest

from attentively.data import toy
from attentively.data.toy import corpus, sampling
from attentively.data.toy.lexicon import ADJECTIVES, NOUNS, VERBS
from attentively.data.toy.splits import split_by_words

# English | French | links, all written by hand
GOLD = """
the boy sleeps
le garçon dort
0-0 1-1 2-2

the small black cow drinks the milk
la petite vache noire boit le lait
0-0 1-1 2-3 3-2 4-4 5-5 6-6

an old animal ate this cold egg
un vieil animal a mangé cet œuf froid
0-0 1-1 2-2 3-3 3-4 4-5 5-7 6-6

the cat does not drink the milk
le chat ne boit pas le lait
0-0 1-1 2-3 3-2 3-4 4-3 5-5 6-6

the animal did not cross the street because it was too tired
l' animal n' a pas traversé la rue parce qu' il était trop fatigué
0-0 1-1 2-3 3-2 3-4 4-5 5-6 6-7 7-8 7-9 8-10 9-11 10-12 11-13

the animal did not cross the street because it was too wide
l' animal n' a pas traversé la rue parce qu' elle était trop large
0-0 1-1 2-3 3-2 3-4 4-5 5-6 6-7 7-8 7-9 8-10 9-11 10-12 11-13

the cat drank the milk because it was hungry
le chat a bu le lait parce qu' il était affamé
0-0 1-1 2-2 2-3 3-4 4-5 5-6 5-7 6-8 7-9 8-10

the cow drank the milk because it was hungry
la vache a bu le lait parce qu' elle était affamée
0-0 1-1 2-2 2-3 3-4 4-5 5-6 5-7 6-8 7-9 8-10

the cow drank the milk because it was sweet
la vache a bu le lait parce qu' il était sucré
0-0 1-1 2-2 2-3 3-4 4-5 5-6 5-7 6-8 7-9 8-10

the cat sat on the mat
le chat était assis sur le tapis
0-0 1-1 2-2 2-3 3-4 4-5 5-6

the ball is blue and held by the boy
la balle est bleue et tenue par le garçon
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8

the girls who see a bee do not sit
les filles qui voient une abeille ne sont pas assises
0-0 1-1 2-2 3-3 4-4 5-5 6-7 7-6 7-8 8-9

the milk that an uncle drinks is not hot
le lait qu' un oncle boit n' est pas chaud
0-0 1-1 2-2 3-3 4-4 5-5 6-7 7-6 7-8 8-9

my aunt does not see a beautiful bird
ma tante ne voit pas de bel oiseau
0-0 1-1 2-3 3-2 3-4 4-3 5-5 6-6 7-7

my bees ran but my bee was very hungry
mes abeilles ont couru mais mon abeille était très affamée
0-0 1-1 2-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9

the women welcomed the queen because she was happy
les femmes ont accueilli la reine parce qu' elle était heureuse
0-0 1-1 2-2 2-3 3-4 4-5 5-6 5-7 6-8 7-9 8-10

two kings did not open these old white boxes and a mouse danced
deux rois n' ont pas ouvert ces vieilles boîtes blanches et une souris a dansé
0-0 1-1 2-3 3-2 3-4 4-5 5-6 6-7 7-9 8-8 9-10 10-11 11-12 12-13 12-14

the men did not paint the houses because they were red
les hommes n' ont pas peint les maisons parce qu' elles étaient rouges
0-0 1-1 2-3 3-2 3-4 4-5 5-6 6-7 7-8 7-9 8-10 9-11 10-12
"""

# What is right, and one thing wrong in it
BROKEN = {
    "no elision": ("l' animal dort", "le animal dort"),
    "elision before a consonant": ("le chat dort", "l' chat dort"),
    "no elision of ne": ("le chat n' est pas noir", "le chat ne est pas noir"),
    "no elision of que": ("le lait qu' un chat boit est bon", "le lait que un chat boit est bon"),
    "gender of the article": ("la rue est large", "le rue est large"),
    "number of the article": ("les rues sont larges", "la rues sont larges"),
    "gender of the adjective": ("la porte blanche est lourde", "la porte blanc est lourde"),
    "gender of the attribute": ("la porte blanche est lourde", "la porte blanche est lourd"),
    "number of the attribute": ("les portes sont lourdes", "les portes sont lourde"),
    "place of a short adjective": ("le petit chat dort", "le chat petit dort"),
    "place of a colour": ("le chat noir dort", "le noir chat dort"),
    "beau before a vowel": ("le bel oiseau chante", "le beau oiseau chante"),
    "bel after the verb": ("l' oiseau est beau", "l' oiseau est bel"),
    "ma before a vowel": ("mon abeille dort", "ma abeille dort"),
    "half a negation": ("le chat ne dort pas", "le chat ne dort"),
    "the other half": ("le chat ne dort pas", "le chat dort pas"),
    "un for de": ("le roi ne voit pas de chat", "le roi ne voit pas un chat"),
    "de for un": ("le roi voit un chat", "le roi voit de chat"),
    "number of the verb": ("les chats dorment", "les chats dort"),
    "participle without avoir": ("le chat a dormi", "le chat dormi"),
    "participle of a posture": ("la vache est assise", "la vache est assis"),
    "participle after avoir": ("la fille a tenu la balle", "la fille a tenue la balle"),
    "qui for que": ("le lait que le chat boit est bon", "le lait qui le chat boit est bon"),
    "no object": ("le chat boit le lait", "le chat boit"),
    "half a sentence": ("le chat dort et le chien rit", "le chat dort et le chien"),
    "a dangling pronoun": (
        "le chat dort parce qu' il est noir",
        "le chat dort parce qu' elle est noire",
    ),
    "a word of no language": ("le chat dort", "le zèbre dort"),
    "nothing": ("le chat dort", ""),
}


@pytest.fixture(scope="module")
def many() -> list[toy.ToyPair]:
    return toy.generate(3_001, seed=5, clauses=range(1, 9))


def gold() -> list[tuple[str, str, str]]:
    return [tuple(entry.splitlines()) for entry in GOLD.strip().split("\n\n")]


# Right French


@pytest.mark.parametrize(("english", "french", "links"), gold())
def test_translation_and_alignment_are_those_written_by_hand(english, french, links):
    pair = toy.translate(english)
    assert pair.src_text == english
    assert pair.tgt_text == french
    assert pair.alignment == {tuple(map(int, link.split("-"))) for link in links.split()}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_sentence_is_not_well_formed(fault):
    right, wrong = BROKEN[fault]
    assert toy.is_well_formed(right.split())
    assert not toy.is_well_formed(wrong.split())


def test_every_translation_is_well_formed(many):
    assert all(toy.is_well_formed(pair.tgt) for pair in many)


# An independent look at French, which knows nothing of the grammar but these lists

VOWELS = "aeiouéhœ"
FEMININE = """
    fille femme reine princesse tante vache souris chèvre poule abeille eau limonade pomme soupe
    rue rivière maison école cuisine table chaise boîte porte balle fleur
"""
MASCULINE = """
    garçon homme roi prince oncle animal chat chien cheval oiseau ours lait thé pain gâteau œuf
    pont chemin jardin arbre lit tapis livre chapeau
"""
ARTICLES = {
    "masculine": {"le", "l'", "un", "ce", "cet", "mon", "de", "d'"},
    "feminine": {"la", "l'", "une", "cette", "ma", "mon", "de", "d'"},
    "plural": {"les", "ces", "mes", "deux"},
}
ADJECTIVE = re.compile(
    "(petit|grand|bleu|noir|lourd|chaud|froid|étroit|sucré|fatigué|affamé)(e?)(s?)$"
)


def gender_of(noun: str) -> str | None:
    """Return the gender of a noun in either number, None for another word."""
    irregular = {"animaux": "animal", "chevaux": "cheval"}
    for singular in (noun, noun[:-1], irregular.get(noun)):
        if singular in (FEMININE + MASCULINE).split():
            return "feminine" if singular in FEMININE.split() else "masculine"
    return None


def elision_faults(tgt: tuple[str, ...]) -> list[str]:
    """Return each word that does not suit the beginning of the next."""
    long, short = {"le", "la", "de", "ne", "que", "ce", "ma"}, {"l'", "d'", "n'", "qu'", "cet"}
    return [
        f"{word} {following}"
        for word, following in pairwise(tgt)
        if word in (long if following[0] in VOWELS else short)
    ]


def agreement_faults(tgt: tuple[str, ...]) -> list[str]:
    """Return each article and regular adjective that does not suit its noun."""
    faults = []
    for i, noun in enumerate(tgt):
        gender = gender_of(noun)
        start = i - 1
        while start > 0 and tgt[start] not in set().union(*ARTICLES.values()):
            start -= 1  # over the adjectives before the noun
        if gender is None or (noun == "porte" and i - start != 1):  # "porte" also means "carries"
            continue
        plural = tgt[start] in ARTICLES["plural"]
        if not plural and tgt[start] not in ARTICLES[gender]:
            faults.append(f"{tgt[start]} {noun}")
        if plural and noun[-1] not in "sx":
            faults.append(f"{tgt[start]} {noun}")
        for word in (*tgt[start + 1 : i], *tgt[i + 1 : i + 2]):
            match = ADJECTIVE.match(word)
            if match and match.groups()[1:] != ("e" * (gender == "feminine"), "s" * plural):
                faults.append(f"{noun} {word}")
    return faults


def test_elision_and_agreement_hold_by_rules_written_apart(many):
    for pair in many:
        assert not elision_faults(pair.tgt), pair.tgt_text
        assert not agreement_faults(pair.tgt), pair.tgt_text


@pytest.mark.parametrize(
    ("faults", "french"),
    [
        (elision_faults, "le animal dort"),
        (elision_faults, "l' chat dort"),
        (elision_faults, "le chat ne est pas noir"),
        (elision_faults, "ce oiseau dort"),
        (agreement_faults, "le rue est large"),
        (agreement_faults, "les chat dorment"),
        (agreement_faults, "les petites chats dorment"),
        (agreement_faults, "la reine fatigué dort"),
    ],
)
def test_those_rules_can_find_a_fault(faults, french):
    assert faults(tuple(french.split()))


def test_detokenize_joins_what_is_elided():
    pair = toy.translate("the animal did not see the bird because the bee sleeps")
    assert toy.detokenize(pair.tgt) == "l'animal n'a pas vu l'oiseau parce que l'abeille dort"


# The alignment


def test_every_word_of_both_languages_is_aligned(many):
    for pair in many:
        assert {i for i, _ in pair.alignment} == set(range(len(pair.src)))
        assert {j for _, j in pair.alignment} == set(range(len(pair.tgt)))


def test_a_noun_is_aligned_with_its_translation(many):
    """Noun by noun against the lexicon; shifting the links by one must not go unseen."""
    meaning = {
        english: french
        for noun in NOUNS
        for english, french in zip(noun.english.split(), noun.french.split(), strict=True)
    }

    def wrong(pair: toy.ToyPair, shift: int) -> bool:
        linked = {(pair.src[i], pair.tgt[(j + shift) % len(pair.tgt)]) for i, j in pair.alignment}
        return any(word in meaning and meaning[word] != french for word, french in linked)

    assert not any(wrong(pair, shift=0) for pair in many)
    assert all(wrong(pair, shift=1) for pair in many)


def test_order_differs_between_the_languages(many):
    crossing = [
        pair
        for pair in many
        if any(a < c and b > d for (a, b) in pair.alignment for (c, d) in pair.alignment)
    ]
    assert len(crossing) > len(many) / 2


# One English sentence, one translation


def test_an_english_sentence_has_one_translation():
    pairs = toy.generate(50_021, seed=7, clauses=(1,))
    assert len({pair.src for pair in pairs}) == len(pairs)


def test_the_translation_follows_from_the_english_alone(many):
    assert all(toy.translate(pair.src_text) == pair for pair in many)


def test_that_would_be_noticed_if_a_pronoun_could_stand_for_anything(monkeypatch):
    monkeypatch.setattr(
        sampling, "antecedents", lambda pronoun, adjective, clause: [clause.subject]
    )
    careless = toy.generate(1_009, seed=5)
    with pytest.raises(ValueError, match="is ambiguous"):
        [toy.translate(pair.src_text) for pair in careless]


@pytest.mark.parametrize(
    ("english", "message"),
    [
        ("the zebra sleeps", "expected a noun after 'the', but found 'zebra'"),
        ("the cat", "expected a verb after 'the cat', but found the end"),
        ("the boys drinks the milk", "did you mean 'the boys drink the milk'"),
        ("a old cat sleeps", "did you mean 'an old cat sleeps'"),
        ("two milk sleep", "'two' cannot be combined with 'milk'"),
        ("a cats sleep", "'a' cannot be combined with 'cats'"),
        ("the cow drank the milk because it was old", "'it' is ambiguous: cow or milk"),
        ("the cow drank the milk because he was happy", "'he' has no antecedent"),
        ("the cow drank the milk because it slept", "'it' needs an adjective"),
        ("", "expected a determiner at the start of the sentence, but found the end"),
    ],
)
def test_what_is_not_in_the_language_is_refused_with_the_reason(english, message):
    with pytest.raises(ValueError, match=message):
        toy.translate(english)


def test_a_capital_and_a_full_stop_are_forgiven():
    assert toy.translate("The cat sat on the mat.") == toy.translate("the cat sat on the mat")


# Pronouns


def test_only_the_last_word_of_twins_tells_the_pronoun():
    twins = toy.pronoun_pairs(53)
    for one, other in twins:
        assert one.src[:-1] == other.src[:-1]
        assert one.src[-1] != other.src[-1]
        differing = [words for words in zip(one.tgt, other.tgt, strict=True) if len({*words}) == 2]
        pronouns, adjectives = differing
        assert set(pronouns) == {"il", "elle"}
        assert adjectives == (one.tgt[-1], other.tgt[-1])
    assert len(set(twins)) == 53


@pytest.mark.parametrize("split", toy.SPLITS)
def test_both_twins_belong_to_the_split(split):
    twins = [pair for both in toy.pronoun_pairs(23, split=split) for pair in both]
    for pair in twins:
        if split == "novel":
            assert any(occurs(combination, pair.src_text) for combination in toy.HELD_OUT)
        else:
            assert split_by_words(pair.src) == split


def test_it_is_il_about_as_often_as_elle(many):
    he = sum("il" in pair.tgt for pair in many if "it" in pair.src)
    she = sum("elle" in pair.tgt for pair in many if "it" in pair.src)
    assert 0.5 < he / she < 2


# Splits


@pytest.mark.parametrize("seeds", [(0, 0, 0, 0), (1, 2, 3, 5)])
def test_splits_share_no_english_sentence(seeds):
    short = {"clauses": (1, 2), "lengths": (3, 5)}
    splits = [
        {pair.src for pair in toy.load(split, 101, seed=seed, **short)}
        for split, seed in zip(toy.SPLITS, seeds, strict=True)
    ]
    assert len(set().union(*splits)) == sum(map(len, splits)) == 4 * 101


def test_pairs_of_no_split_in_particular_would_overlap():
    one, other = (toy.generate(1_009, seed=seed, clauses=(1,), lengths=(3, 4)) for seed in (1, 2))
    assert {pair.src for pair in one} & {pair.src for pair in other}


def occurs(combination: tuple[str, str], text: str) -> bool:
    """Look for an adjective right before its noun, or a verb and then its object, in English."""
    first, noun = combination
    nouns = "|".join(next(n.english for n in NOUNS if n.name == noun).split())
    verbs = [verb.english.split() for verb in VERBS if verb.base == first]
    if not verbs:
        return re.search(rf"\b{first} (\w+ )?({nouns})\b", text) is not None
    adjectives = "|".join(adjective.english for adjective in ADJECTIVES)
    object_of = (
        rf"\b({'|'.join(verbs[0])}) (the|an?|my|this|these|two) (({adjectives}) )*({nouns})\b"
    )
    return re.search(object_of, text) is not None


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_held_out_combinations_are_in_no_other_split(split):
    text = " . ".join(pair.src_text for pair in toy.load(split, 1_009))
    assert not [combination for combination in toy.HELD_OUT if occurs(combination, text)]


def test_the_novel_split_has_every_held_out_combination():
    text = " . ".join(pair.src_text for pair in toy.load("novel", 3_001))
    assert all(occurs(combination, text) for combination in toy.HELD_OUT)


def test_training_knows_every_word_of_the_novel_split():
    train = toy.load("train", 5_003)
    assert {word for pair in train for word in pair.src} == set(toy.words("src"))
    assert {word for pair in train for word in pair.tgt} == set(toy.words("tgt"))


# Asking for pairs


def test_words_are_exactly_those_in_use(many):
    assert {word for pair in many for word in pair.src} == set(toy.words("src"))
    assert {word for pair in many for word in pair.tgt} == set(toy.words("tgt"))
    with pytest.raises(ValueError, match="'french'"):
        toy.words("french")


def test_fewer_pairs_are_the_first_of_more():
    assert toy.load("train", 101, seed=3) == toy.load("train", 307, seed=3)[:101]
    assert toy.generate(101, seed=3) != toy.generate(101, seed=4)


def test_pairs_are_the_same_in_every_process():
    program = (
        "from attentively.data import toy\n"
        "for pair in toy.load('test', 31, seed=2):\n    print(pair.src_text, pair.tgt_text)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    here = "".join(f"{pair.src_text} {pair.tgt_text}\n" for pair in toy.load("test", 31, seed=2))
    assert said == [here, here]


@pytest.mark.parametrize("length", range(3, 61))
def test_every_length_can_be_reached(length):
    near = max(1, round(length / 6.5))
    (pair,) = toy.generate(1, clauses=(near, near + 1), lengths=(length, length))
    assert len(pair.src) == length


@pytest.mark.parametrize("clauses", range(1, 9))
def test_clauses_are_counted_by_their_verbs(clauses):
    verbs = {form for verb in VERBS for form in verb.english.split()}
    verbs |= {"is", "are", "was", "were"}
    for pair in toy.generate(101, clauses=(clauses,)):
        passives = sum(word == "by" for word in pair.src)
        assert sum(word in verbs for word in pair.src) - passives == clauses


def test_more_pairs_than_there_are_is_an_error(monkeypatch):
    monkeypatch.setattr(corpus, "PATIENCE", 50)
    with pytest.raises(ValueError, match=r"num_pairs=3000 .* then none in 50 further samples"):
        toy.generate(3_000, clauses=(1,), lengths=(3, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "dev"}, "split='dev' is unknown: choose one of train, validation, test, novel"),
        ({"num_pairs": -1}, "num_pairs=-1 must not be negative"),
        ({"clauses": ()}, r"clauses=\(\) must list"),
        ({"clauses": (0, 1)}, r"clauses=\(0, 1\) must list"),
        ({"lengths": (9, 7)}, r"lengths=\(9, 7\)"),
        ({"lengths": (1, 2)}, r"lengths=\(1, 2\)"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        toy.load(**{"split": "train", "num_pairs": 1} | arguments)


def test_an_unknown_split_has_no_twins_either():
    with pytest.raises(ValueError, match="'dev'"):
        toy.pronoun_pairs(1, split="dev")
