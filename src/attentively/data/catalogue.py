"""The catalogue of data sets: files, sources and licences."""

from dataclasses import dataclass

GITHUB = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class DataFile:
    """One text file that can be downloaded."""

    path: str
    """Its name, and its path in a data folder, where it may also be compressed (``.gz``)."""
    sha256: str
    """Checksum of the uncompressed text."""
    size: int
    """Size of the uncompressed text in bytes."""
    url: str
    """Address of the text, compressed or not, or of a zip or tar archive that contains it."""
    member: str = ""
    """Its name inside the archive, if `url` is an archive."""


@dataclass(frozen=True)
class DataSet:
    """Files that belong together."""

    name: str
    about: str
    files: tuple[DataFile, ...]
    licence: str
    attribution: str


_MULTI30K = f"{GITHUB}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
_MULTI30K_FILES = {
    "train.en": ("460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6", 1_801_238),
    "train.de": ("2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72", 2_110_398),
    "train.fr": ("5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d", 2_111_303),
    "val.en": ("1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227", 63_297),
    "val.de": ("660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660", 75_981),
    "val.fr": ("5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc", 73_924),
    "test_2016_flickr.en": (
        "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
        62_076,
    ),
    "test_2016_flickr.de": (
        "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
        70_649,
    ),
    "test_2016_flickr.fr": (
        "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
        72_261,
    ),
    "test_2017_flickr.en": (
        "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
        55_242,
    ),
    "test_2017_flickr.de": (
        "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
        64_059,
    ),
    "test_2017_flickr.fr": (
        "6f3764e31dac41e9455e612958bcfd4e877c5e15cd66df2c2b2be6d9bd83e5b6",
        65_691,
    ),
}
_SENTIMENT = (
    f"{GITHUB}/kvrao/sentiment_analysis/462f7304ab341f1b5014e6eae56100bfe35d703a/"
    "sentiment%20labelled%20sentences"
)


def _multi30k(one: str, other: str, languages: str) -> DataSet:
    return DataSet(
        name=f"multi30k-{one}-{other}",
        about=f"captions of photographs in {languages}, 32,014 pairs",
        files=tuple(
            DataFile(f"multi30k/{name}", sha256, size, f"{_MULTI30K}/{name}.gz")
            for name, (sha256, size) in _MULTI30K_FILES.items()
            if name.rpartition(".")[2] in (one, other)
        ),
        licence="for non-commercial research and education only (the terms of Flickr30K)",
        attribution="Multi30k by Elliott et al. (2016, 2017), https://github.com/multi30k/dataset",
    )


def _tatoeba(other: str, about: str, file: DataFile) -> DataSet:
    return DataSet(
        name=f"tatoeba-en-{other}",
        about=about,
        files=(file,),
        licence="CC BY 2.0",
        attribution="tatoeba.org, by way of www.manythings.org/anki",
    )


SETS = {
    data_set.name: data_set
    for data_set in [
        _tatoeba(
            "fr",
            "everyday sentences in English and French, 167,130 pairs",
            DataFile(
                path="tatoeba/fra.txt",
                sha256="0bb85dbaa1c896844649094d7eaf2e34bee34e84fe362b26ce7e8f2e12aae104",
                size=11_669_748,
                url=f"{GITHUB}/modelexlab/data/adddaf33ac35572bcfeb421efec29435e7ea9332/"
                "fra-eng.zip",
                member="fra-eng/fra.txt",
            ),
        ),
        _tatoeba(
            "es",
            "everyday sentences in English and Spanish, 118,964 pairs",
            DataFile(
                path="tatoeba/spa.txt",
                sha256="6ec60e212f812ee3430f7568ea6f33b6fb080e32193c5952e8da0ee8ba45574c",
                size=8_042_772,
                url=f"{GITHUB}/JEdward7777/Pinokio/8be2e56afcc09e53e5e8ff0bff50ca815cddb5ac/"
                "spa-eng.zip",
                member="spa-eng/spa.txt",
            ),
        ),
        _multi30k("en", "de", "English and German"),
        _multi30k("en", "fr", "English and French"),
        _multi30k("de", "fr", "German and French"),
        DataSet(
            name="shakespeare",
            about="plays of Shakespeare, 40,000 lines",
            files=(
                DataFile(
                    path="tinyshakespeare/input.txt",
                    sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                    size=1_115_394,
                    url=f"{GITHUB}/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/"
                    "data/tinyshakespeare/input.txt",
                ),
            ),
            licence="public domain",
            attribution="William Shakespeare; chosen by https://github.com/karpathy/char-rnn",
        ),
        DataSet(
            name="sentiment",
            about="sentences from reviews, each positive or negative, 3,000 sentences",
            files=tuple(
                DataFile(f"sentiment/{name}", sha256, size, f"{_SENTIMENT}/{name}")
                for name, sha256, size in [
                    (
                        "imdb_labelled.txt",
                        "c662b9360c1652babb990d164835af12aa105db7991f1fdb19038115f0e93de8",
                        85_187,
                    ),
                    (
                        "amazon_cells_labelled.txt",
                        "47003fc0a0d4840b00e96e715b6189bad09e7443a3da41c4cbe12ffc79f86ae3",
                        58_226,
                    ),
                    (
                        "yelp_labelled.txt",
                        "b565b1eeb864d76842588c3a256731b08bcdd9faf6de507bfe211a96f8b81912",
                        61_293,
                    ),
                ]
            ),
            licence="CC BY 4.0 (as stated by the UCI repository)",
            attribution="Kotzias et al. (2015), https://archive.ics.uci.edu/dataset/331",
        ),
        DataSet(
            name="analogies",
            about="analogy questions such as Athens : Greece = Oslo : ?, 19,544 questions",
            files=(
                DataFile(
                    path="word_eval/questions-words.txt",
                    sha256="8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36",
                    size=603_955,
                    url=f"{GITHUB}/tmikolov/word2vec/20c129af10659f7c50e86e3be406df663beff438/"
                    "questions-words.txt",
                ),
            ),
            licence="Apache-2.0",
            attribution="Mikolov et al. (2013), https://github.com/tmikolov/word2vec",
        ),
        DataSet(
            name="wordsim353",
            about="human similarity ratings of word pairs, 353 pairs",
            files=(
                DataFile(
                    path="word_eval/wordsim353.tsv",
                    sha256="f92a022fc2537793a15bc3a8c162ebcd74990e033a228bb6388cb71e4c0b1e1d",
                    size=7_186,
                    url=f"{GITHUB}/piskvorky/gensim/37f90ec121eb7cd401448a947e80953e0c53ccdc/"
                    "gensim/test/test_data/wordsim353.tsv",
                ),
            ),
            licence="CC BY 4.0 (as stated by redistributors)",
            attribution="Finkelstein et al. (2002), "
            "https://gabrilovich.com/resources/data/wordsim353/wordsim353.html",
        ),
    ]
}
"""The data sets by name."""

FILES = {file.path: file for data_set in SETS.values() for file in data_set.files}
"""The files of all sets by path; two sets may share one."""
