"""``attentively vectors``: train word vectors, query nearest neighbours, and evaluate them."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import attentively
from attentively import pretrained_files
from attentively.atomic_files import check_replaceable, replacing
from attentively.cli import settings
from attentively.cli.settings import Given
from attentively.data import download
from attentively.data.catalogue import SETS
from attentively.data.text import read_lines
from attentively.word_vectors.vector_config import VectorConfig

if TYPE_CHECKING:
    from attentively.word_vectors.vectors import Neighbour, WordVectors

TATOEBA = "tatoeba-english"
CHOICES = {choice.name: choice for choice in settings.choices({"vectors": VectorConfig})}

Vectors = Annotated[
    str,
    typer.Option(
        help="Pretrained vectors of the package "
        f"({', '.join(pretrained_files.names('vectors/'))}), or a file."
    ),
]
Count = Annotated[int, typer.Option(min=1, help="Number of words to list.")]

app = typer.Typer(
    help="Train word vectors, query nearest neighbours, and evaluate them.",
    epilog="Examples:\n\nattentively vectors near cat\n\n"
    "`attentively vectors COMMAND --help` lists the options and examples of a command.",
    no_args_is_help=True,
    add_completion=False,
)


def train(
    output: Annotated[Path, typer.Option(help="Output file, in the safetensors format.")],
    text: Annotated[
        str, typer.Argument(help=f"{TATOEBA}, or your own .txt file with one sentence per line.")
    ] = TATOEBA,
    half_precision: Annotated[
        bool,
        typer.Option("--half-precision", help="Store the vectors in 16 bits instead of 32."),
    ] = False,
    **options: Any,
) -> None:
    """Train word vectors by skip-gram with negative sampling.

    The file records how it was made. It also records the scores of the vectors if the test sets
    are present (`attentively data get analogies` and `attentively data get wordsim353`).
    """
    import torch

    from attentively import device
    from attentively.data import words
    from attentively.experiments.word_vectors import scores
    from attentively.word_vectors.training import train_vectors
    from attentively.word_vectors.vectors import WordVectors

    config = VectorConfig(
        **{
            name: CHOICES[name].check(Given(value, CHOICES[name].flag))
            for name, value in options.items()
            if value is not None
        }
    )
    # Check what can fail before the training, not after it.
    check_replaceable(output)
    questions = (words.analogies(), words.similarities()) if _questions_at_hand() else None
    provenance: dict[str, Any] = {
        "command": shlex.join(["attentively", *sys.argv[1:]]),
        "data": text,
    }
    if text == TATOEBA:
        sentences = words.tatoeba_english()
        source = SETS["tatoeba-en-fr"]
        provenance |= {"data_licence": source.licence, "attribution": source.attribution}
    elif Path(text).exists():
        sentences = [found for line in read_lines(text) if (found := words.split_words(line))]
    else:
        raise FileNotFoundError(f"{text} is not a file; the text that has a name is {TATOEBA}")
    size = sum(len(sentence) for sentence in sentences)
    print(f"{text}: {len(sentences):,} sentences, {size:,} words; {device.describe(device.best())}")
    try:
        trained = train_vectors(sentences, config)
    except KeyboardInterrupt:
        print("interrupted; nothing was written")
        raise typer.Exit(130) from None
    vectors = trained.vectors
    if half_precision:  # evaluate the vectors as they are stored
        vectors = WordVectors(vectors.words, vectors.vectors.half().float())
    provenance |= {
        "sentences": len(sentences),
        "words_of_text": size,
        "seed": config.seed,
        "training": config.to_dict(),
        "train_loss": round(trained.records[-1]["train_loss"], 4),
        "device": device.describe(device.best()),
        "seconds": round(trained.seconds, 1),
        "versions": {"attentively": attentively.__version__, "torch": torch.__version__},
    }
    if questions:
        provenance["evaluation"] = scores(vectors, *questions)
    vectors.save(output, provenance, half_precision)
    print(
        f"{len(vectors.words):,} vectors of dimension {config.embedding_dim} after "
        f"{trained.seconds:.0f} seconds, loss {provenance['train_loss']}; saved in {output}"
    )


app.command(
    "train",
    epilog="Examples:\n\nattentively vectors train --output mine.safetensors\n\n"
    "attentively vectors train story.txt --threshold 1e-3 --epochs 50 --output story.safetensors",
)(settings.with_options(train, [settings.parameter(one, "Training") for one in CHOICES.values()]))


@app.command(
    "near",
    epilog="Examples:\n\nattentively vectors near cat\n\n"
    "attentively vectors near hot --count 5 --vectors mine.safetensors",
)
def near(
    word: Annotated[str, typer.Argument(help="The query word.")],
    count: Count = 10,
    vectors: Vectors = TATOEBA,
) -> None:
    """List the nearest neighbours of a word, with their cosine similarity."""
    asked = load(vectors)
    _print(asked.nearest(_as_written(asked, word), count))


@app.command(
    "analogy",
    epilog="Examples:\n\nattentively vectors analogy go went eat\n\n"
    "attentively vectors analogy go went eat --include-query-words",
)
def analogy(
    a: Annotated[str, typer.Argument(help="First word of the given pair.")],
    b: Annotated[str, typer.Argument(help="Second word of the given pair.")],
    c: Annotated[str, typer.Argument(help="First word of the pair to complete.")],
    include_query_words: Annotated[
        bool,
        typer.Option(
            "--include-query-words",
            help="Allow a, b and c as answers; the usual protocol excludes them.",
        ),
    ] = False,
    count: Count = 5,
    vectors: Vectors = TATOEBA,
) -> None:
    """Complete the analogy "a is to b as c is to …" with the words nearest to b - a + c."""
    asked = load(vectors)
    a, b, c = (_as_written(asked, word) for word in (a, b, c))
    _print(asked.analogy(a, b, c, count, exclude=not include_query_words))


@app.command(
    "score",
    epilog="Examples:\n\nattentively vectors score\n\n"
    "attentively vectors score --vectors mine.safetensors --json scores.json",
)
def score(
    vectors: Vectors = TATOEBA,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the scores as JSON.")
    ] = None,
) -> None:
    """Evaluate vectors on the Google analogies, by section, and on WordSim-353.

    Columns of accuracy: "excluded" excludes a, b and c from the answers (the usual protocol),
    "included" allows them, and "only c" answers with the word nearest to c, whatever a and b are.
    Questions with a word that has no vector are skipped; "used" counts the others.
    """
    if json_file is not None:
        check_replaceable(json_file)
    from attentively.data import words
    from attentively.experiments.word_vectors import scores

    found = scores(load(vectors), words.analogies(), words.similarities())
    print(f"{'analogies':30}{'used':>6} {'of':>6}{'excluded':>9}{'included':>9}{'only c':>9}")
    every = found["analogies"]
    for section, numbers in [*found["analogies_by_section"].items(), ("all", every)]:
        shares = "".join(_percent(numbers[name]) for name in ("excluding", "including", "only_c"))
        print(f"{section:30}{numbers['asked']:6} {numbers['questions']:6}{shares}")
    if every["asked"]:
        print(
            f"With a, b and c included, {every['repeated']:.1%} of the answers repeat a word of "
            f"the question; {every['repeated_c']:.1%} repeat c."
        )
    similar = found["similarities"]
    print(f"WordSim-353: {similar['asked']} of {similar['pairs']} pairs used", end="")
    if similar["spearman"] is not None:
        print(f"; Spearman correlation with human ratings {similar['spearman']:.3f}", end="")
    print()
    if json_file is not None:
        with replacing(json_file) as temporary:
            text = json.dumps({"vectors": vectors, **found}, indent=2)
            temporary.write_text(text + "\n", encoding="utf-8")
        print(f"scores written to {json_file}")


def load(vectors: str) -> "WordVectors":
    """Load the vectors that ``--vectors`` names."""
    from attentively.word_vectors.vectors import WordVectors, load_pretrained_vectors

    path = Path(vectors)
    known = vectors in pretrained_files.names("vectors/")
    if not known and (path.is_file() or path.suffix == ".safetensors"):
        return WordVectors.load(path)
    return load_pretrained_vectors(vectors)  # its error lists the known names


def _as_written(vectors: "WordVectors", word: str) -> str:
    """Return the word as it is spelt in the vocabulary, which may be in lower case."""
    return word if word in vectors else word.lower()


def _print(found: "list[Neighbour]") -> None:
    for word, cosine in found:
        print(f"{cosine:.3f}  {word}")


def _percent(share: float | None) -> str:
    return f"{'-':>9}" if share is None else f"{share:9.1%}"


def _questions_at_hand() -> bool:
    files = [*SETS["analogies"].files, *SETS["wordsim353"].files]
    return all(download.find(file.path) for file in files)
