"""The words of the toy language, each with every form it takes in English and in French.

Two words can be combined if their *kinds* match: the object of "drink" is a ``drink``, and only a
``person`` or an ``animal`` can be tired. So the last word of a sentence can determine what "it"
refers to.
"""

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun, singular and plural; uncountable nouns have no plural."""

    english: str
    french: str
    gender: str
    kinds: str

    @property
    def name(self) -> str:
        return self.english.split()[0]

    @property
    def countable(self) -> bool:
        return " " in self.english

    @property
    def feminine(self) -> bool:
        return self.gender == "f"


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective, its four French forms, its aspect (`tells`), and the kinds of noun it fits.

    Most French adjectives follow the noun. `before_vowel` is the masculine singular of those that
    change before a vowel: *un bel animal*. A `selective` adjective describes only its kinds: a
    street is never tired, but may be old.
    """

    english: str
    french: str
    tells: str
    kinds: str
    before_noun: bool = False
    before_vowel: str = ""
    selective: bool = False


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb, with the kinds of its subject and of its object; without objects it is intransitive.

    The English forms are base, third person and past; the French forms are the third person
    singular and plural of the present. The participle has four forms if it agrees, else one.
    """

    english: str
    french: str
    participle: str
    subjects: str
    objects: str = ""

    @property
    def base(self) -> str:
        return self.english.split()[0]

    @property
    def is_posture(self) -> bool:
        """Whether French uses *être* and a participle: "sits", *est assise*."""
        return not self.french

    @property
    def has_passive(self) -> bool:
        """Whether it has a passive: "held by the boy"."""
        return " " in self.participle and not self.is_posture


NOUNS = (
    Noun("boy boys", "garçon garçons", "m", "person"),
    Noun("girl girls", "fille filles", "f", "person"),
    Noun("man men", "homme hommes", "m", "person"),
    Noun("woman women", "femme femmes", "f", "person"),
    Noun("king kings", "roi rois", "m", "person"),
    Noun("queen queens", "reine reines", "f", "person"),
    Noun("prince princes", "prince princes", "m", "person"),
    Noun("princess princesses", "princesse princesses", "f", "person"),
    Noun("uncle uncles", "oncle oncles", "m", "person"),
    Noun("aunt aunts", "tante tantes", "f", "person"),
    Noun("animal animals", "animal animaux", "m", "animal"),
    Noun("cat cats", "chat chats", "m", "animal"),
    Noun("dog dogs", "chien chiens", "m", "animal"),
    Noun("horse horses", "cheval chevaux", "m", "animal"),
    Noun("bird birds", "oiseau oiseaux", "m", "animal"),
    Noun("bear bears", "ours ours", "m", "animal"),
    Noun("cow cows", "vache vaches", "f", "animal"),
    Noun("mouse mice", "souris souris", "f", "animal"),
    Noun("goat goats", "chèvre chèvres", "f", "animal"),
    Noun("hen hens", "poule poules", "f", "animal"),
    Noun("bee bees", "abeille abeilles", "f", "animal"),
    Noun("milk", "lait", "m", "drink"),
    Noun("tea", "thé", "m", "drink"),
    Noun("water", "eau", "f", "drink"),
    Noun("lemonade", "limonade", "f", "drink"),
    Noun("bread", "pain", "m", "food"),
    Noun("cake cakes", "gâteau gâteaux", "m", "food"),
    Noun("egg eggs", "œuf œufs", "m", "food"),
    Noun("apple apples", "pomme pommes", "f", "food"),
    Noun("soup soups", "soupe soupes", "f", "food"),
    Noun("street streets", "rue rues", "f", "way in"),
    Noun("river rivers", "rivière rivières", "f", "way"),
    Noun("bridge bridges", "pont ponts", "m", "way on under built"),
    Noun("path paths", "chemin chemins", "m", "way on"),
    Noun("house houses", "maison maisons", "f", "place in built"),
    Noun("school schools", "école écoles", "f", "place in built"),
    Noun("kitchen kitchens", "cuisine cuisines", "f", "place in"),
    Noun("garden gardens", "jardin jardins", "m", "place in"),
    Noun("tree trees", "arbre arbres", "m", "thing under"),
    Noun("table tables", "table tables", "f", "thing on under"),
    Noun("chair chairs", "chaise chaises", "f", "thing on under light"),
    Noun("bed beds", "lit lits", "m", "thing on under"),
    Noun("mat mats", "tapis tapis", "m", "thing on light"),
    Noun("box boxes", "boîte boîtes", "f", "thing in light opens"),
    Noun("door doors", "porte portes", "f", "thing opens"),
    Noun("book books", "livre livres", "m", "thing light opens"),
    Noun("ball balls", "balle balles", "f", "thing light"),
    Noun("hat hats", "chapeau chapeaux", "m", "thing light"),
    Noun("flower flowers", "fleur fleurs", "f", "thing light"),
)

_SIZED = "person animal way place thing"

ADJECTIVES = (
    Adjective("small", "petit petite petits petites", "size", _SIZED, True),
    Adjective("big", "grand grande grands grandes", "size", _SIZED, True),
    Adjective("old", "vieux vieille vieux vieilles", "age", _SIZED, True, before_vowel="vieil"),
    Adjective("beautiful", "beau belle beaux belles", "beauty", _SIZED, True, before_vowel="bel"),
    Adjective("young", "jeune jeune jeunes jeunes", "age", "person animal", True),
    Adjective("good", "bon bonne bons bonnes", "quality", "drink food", True),
    Adjective(
        "tired", "fatigué fatiguée fatigués fatiguées", "mood", "person animal", selective=True
    ),
    Adjective(
        "hungry", "affamé affamée affamés affamées", "hunger", "person animal", selective=True
    ),
    Adjective(
        "happy", "heureux heureuse heureux heureuses", "mood", "person animal", selective=True
    ),
    Adjective("wide", "large large larges larges", "width", "way", selective=True),
    Adjective("narrow", "étroit étroite étroits étroites", "width", "way", selective=True),
    Adjective("sweet", "sucré sucrée sucrés sucrées", "taste", "drink food", selective=True),
    Adjective("hot", "chaud chaude chauds chaudes", "warmth", "drink food"),
    Adjective("cold", "froid froide froids froides", "warmth", "drink food"),
    Adjective("heavy", "lourd lourde lourds lourdes", "weight", "thing"),
    Adjective("blue", "bleu bleue bleus bleues", "colour", "place thing", selective=True),
    Adjective("red", "rouge rouge rouges rouges", "colour", "place thing", selective=True),
    Adjective("black", "noir noire noirs noires", "colour", "animal thing"),
    Adjective("white", "blanc blanche blancs blanches", "colour", "animal thing"),
)

_ANIMATE = "person animal"
_ANYTHING = "person animal drink food way place thing"

VERBS = (
    Verb("drink drinks drank", "boit boivent", "bu", _ANIMATE, "drink"),
    Verb("eat eats ate", "mange mangent", "mangé", _ANIMATE, "food"),
    Verb("cross crosses crossed", "traverse traversent", "traversé", _ANIMATE, "way"),
    Verb("see sees saw", "voit voient", "vu", _ANIMATE, _ANYTHING),
    Verb("find finds found", "trouve trouvent", "trouvé", _ANIMATE, _ANYTHING),
    Verb("take takes took", "prend prennent", "pris", _ANIMATE, "food light"),
    Verb("chase chases chased", "poursuit poursuivent", "poursuivi", "animal", _ANIMATE),
    Verb("hear hears heard", "entend entendent", "entendu", _ANIMATE, _ANIMATE),
    Verb("help helps helped", "aide aident", "aidé", "person", _ANIMATE),
    Verb("welcome welcomes welcomed", "accueille accueillent", "accueilli", "person", "person"),
    Verb("buy buys bought", "achète achètent", "acheté", "person", "food drink light"),
    Verb("open opens opened", "ouvre ouvrent", "ouvert", "person", "opens"),
    Verb("paint paints painted", "peint peignent", "peint", "person", "thing place"),
    Verb("build builds built", "construit construisent", "construit", "person", "built"),
    Verb("hold holds held", "tient tiennent", "tenu tenue tenus tenues", "person", "light"),
    Verb(
        "carry carries carried",
        "porte portent",
        "porté",
        "person",
        "light food",
    ),
    Verb("sit sits sat", "", "assis assise assis assises", _ANIMATE),
    Verb("sleep sleeps slept", "dort dorment", "dormi", _ANIMATE),
    Verb("sing sings sang", "chante chantent", "chanté", _ANIMATE),
    Verb("dance dances danced", "danse dansent", "dansé", _ANIMATE),
    Verb("run runs ran", "court courent", "couru", _ANIMATE),
    Verb("laugh laughs laughed", "rit rient", "ri", "person"),
)

PREPOSITIONS = {"on": "sur", "under": "sous", "in": "dans"}
DEGREES = {"too": "trop", "very": "très"}
CONJUNCTIONS = {"and": "et", "but": "mais"}

# English determiners, singular then plural, and the French masculine, feminine and plural.
DETERMINERS = {
    "the": ("the", "the", "le", "la", "les"),
    "a": ("a", "", "un", "une", ""),
    "my": ("my", "my", "mon", "ma", "mes"),
    "this": ("this", "these", "ce", "cette", "ces"),
    "two": ("", "two", "", "", "deux"),
}

BEFORE_VOWEL = {
    "le": "l'",
    "la": "l'",
    "de": "d'",
    "ne": "n'",
    "que": "qu'",
    "ce": "cet",
    "ma": "mon",
}


def starts_with_vowel(french: str) -> bool:
    """Return whether a French word causes elision; every *h* of the toy language is mute."""
    return french[0] in "aeiouhéœ"


def agree(forms: str, feminine: bool, plural: bool) -> str:
    """Return the masculine, feminine, masculine plural or feminine plural of `forms`."""
    return forms.split()[2 * plural + feminine]


@cache
def fits(noun: Noun, kinds: str) -> bool:
    """Return whether the noun is of one of those kinds."""
    return not set(noun.kinds.split()).isdisjoint(kinds.split())


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """Return the nouns of one of those kinds."""
    return tuple(noun for noun in NOUNS if fits(noun, kinds))
