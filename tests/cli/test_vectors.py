"""``attentively vectors``: train, ask and score, and a mistake is one line."""

import json
import random
import re
import shlex
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from attentively import __version__, cli, pretrained_files
from attentively.cli import models
from attentively.cli import vectors as command
from attentively.data import download, words
from attentively.experiments import word_vectors as evaluation
from attentively.word_vectors import training
from attentively.word_vectors.vector_config import VectorConfig
from attentively.word_vectors.vectors import WordVectors

ROYAL = {
    "man": [1.0, 0.0, 0.1],
    "king": [1.0, 1.0, 0.1],
    "woman": [0.0, 0.1, 1.0],
    "queen": [0.0, 1.1, 1.0],
    "apple": [-1.0, 0.1, -0.3],
    "OPEC": [0.1, -1.0, 0.1],
}
ANALOGIES = {
    "family": [("man", "king", "woman", "queen"), ("man", "king", "woman", "duchess")],
    "capitals": [("paris", "france", "rome", "italy")],
}
SIMILARITIES = [
    ("man", "king", 7.0),
    ("king", "queen", 8.0),
    ("man", "apple", 1.0),
    ("king", "duke", 9.0),
]

pytestmark = pytest.mark.usefixtures("unchecked", "_questions")


@pytest.fixture
def _questions(monkeypatch):
    """A few questions of our own take the place of the real ones, which none has at hand."""
    monkeypatch.setattr(words, "analogies", lambda: ANALOGIES)
    monkeypatch.setattr(words, "similarities", lambda: SIMILARITIES)
    monkeypatch.setattr(download, "find", lambda path: None)
    monkeypatch.delenv("ATTENTIVELY_DEBUG", raising=False)


@pytest.fixture
def royal(tmp_path):
    """The file of six vectors."""
    path = tmp_path / "royal.safetensors"
    WordVectors(list(ROYAL), torch.tensor(list(ROYAL.values()))).save(path, {})
    return path


@pytest.fixture
def story(tmp_path):
    """A text in which cats and dogs do one thing, cars and trains another."""
    chance = random.Random(0)
    lines = [
        f"We {verb} the {chance.choice(nouns)}."
        for verb, nouns in [("fed", ["cat", "dog"]), ("drove", ["car", "train"])] * 40
    ]
    path = tmp_path / "story.txt"
    path.write_text("\n\n".join(lines), encoding="utf-8")  # an empty line is no sentence
    return path


@pytest.fixture
def attentively(monkeypatch, capsys):
    """Run ``attentively vectors …``; return its exit code, and what it wrote."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["attentively", "vectors", *map(str, arguments)])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as exit:
            code = exit.code
        else:
            code = 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refuses(attentively):
    """Run a command that must fail with one line that matches."""

    def run(pattern, *arguments):
        code, _, err = attentively(*arguments)
        assert code == 1
        (line,) = err.splitlines()
        assert re.fullmatch(f"error: .*{pattern}.*", line), line

    return run


# near and analogy


def test_near(attentively, royal):
    code, out, _ = attentively("near", "king", "--vectors", royal, "--count", 2)
    assert code == 0
    expected = WordVectors.load(royal).nearest("king", 2)
    assert out == "".join(f"{cosine:.3f}  {word}\n" for word, cosine in expected)
    assert expected[0].word == "queen" or expected[0].word == "man"


def test_capitals_are_no_matter_where_there_are_none(attentively, refuses, royal):
    assert attentively("near", "King", "--vectors", royal) == attentively(
        "near", "king", "--vectors", royal
    )
    assert attentively("near", "OPEC", "--vectors", royal)[0] == 0
    refuses("'opec' is not in the vocabulary of 6 words", "near", "opec", "--vectors", royal)


def test_an_analogy(attentively, royal):
    code, out, _ = attentively("analogy", "man", "king", "woman", "--vectors", royal)
    assert code == 0
    answers = [line.split()[1] for line in out.splitlines()]
    assert answers[0] == "queen"
    assert not {"man", "king", "woman"} & set(answers)
    assert len(answers) == 3  # all that there are
    asked = ("analogy", "King", "king", "Woman", "--vectors", royal, "--count", 1)
    assert re.fullmatch(r"0\.\d+  queen\n", attentively(*asked)[1])
    assert attentively(*asked, "--include-query-words")[1] == "1.000  woman\n"


@pytest.mark.parametrize("name", ["nope", "../royal", "royal.txt"])
def test_vectors_of_an_unknown_name_list_those_there_are(refuses, name, monkeypatch, tmp_path):
    (tmp_path / "registry.txt").write_text("vectors/mine.safetensors 0\n")
    monkeypatch.setattr(pretrained_files, "FOLDER", tmp_path)
    refuses(
        f"no pretrained vectors are called '{re.escape(name)}': choose one of mine",
        *("near", "cat", "--vectors", name),
    )


def test_a_file_that_holds_no_vectors_is_named(refuses, tmp_path):
    path = tmp_path / "no.safetensors"
    refuses(r"no word vectors found at \S*no\.safetensors", "near", "cat", "--vectors", path)
    path.write_text("cat 0.1 0.2")
    refuses(
        r"no\.safetensors is damaged or not a file of word vectors",
        "near",
        "cat",
        "--vectors",
        path,
    )
    path = path.rename(tmp_path / "cat.txt")
    refuses(r"cat\.txt is damaged or not a file of word vectors", "near", "cat", "--vectors", path)
    save_file({"a": torch.ones(1)}, path, metadata={"format": "attentively checkpoint 1"})
    refuses("has format 'attentively checkpoint 1', but expected", "near", "cat", "--vectors", path)


def test_vectors_are_found_by_the_name_they_were_given(attentively, story, tmp_path):
    assert attentively("train", story, "--output", tmp_path / "mine", *SMALL)[0] == 0
    assert attentively("near", "cat", "--vectors", tmp_path / "mine")[0] == 0


def test_vectors_that_ship_are_listed_after_the_models(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attentively", "models"])
    with pytest.raises(SystemExit):
        cli.main()
    *_, row, empty, hint = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"tatoeba-english +word vectors +tatoeba-english +CC BY 2\.0 *", row)
    assert (empty, hint) == ("", models.MORE)
    monkeypatch.setattr(sys, "argv", ["attentively", "models", "tatoeba-english"])
    with pytest.raises(SystemExit):
        cli.main()
    listed = capsys.readouterr().out
    for said in ("command: attentively vectors train", "data licence: CC BY 2.0", "tatoeba.org"):
        assert said in listed


# score


def test_a_score_says_what_was_asked_and_by_which_custom(attentively, royal):
    code, out, _ = attentively("score", "--vectors", royal)
    assert code == 0
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert lines["analogies"] == ["used", "of", "excluded", "included", "only", "c"]
    vectors = WordVectors.load(royal)
    question = ANALOGIES["family"][:1]
    shares = [
        f"{vectors.score_analogies(question, **custom).accuracy:.1%}"
        for custom in ({}, {"exclude": False}, {"only_c": True})
    ]
    assert lines["family"] == ["1", "2", *shares]
    assert lines["capitals"] == ["0", "1", "-", "-", "-"]
    assert lines["all"] == ["1", "3", *shares]
    assert "3 of 4 pairs used" in out
    expected = vectors.score_similarities(SIMILARITIES).correlation
    assert f"Spearman correlation with human ratings {expected:.3f}\n" in out


def test_every_share_stands_under_its_name(attentively, royal, monkeypatch):
    numbers = {
        **{"questions": 9, "asked": 7, "excluding": 0.1, "including": 0.2, "only_c": 0.3},
        **{"repeated": 0.4, "repeated_c": 0.5},
    }
    found = {
        "analogies": numbers,
        "analogies_by_section": {},
        "similarities": {"pairs": 5, "asked": 3, "spearman": 0.0},
    }
    monkeypatch.setattr(evaluation, "scores", lambda *_: found)
    _, out, _ = attentively("score", "--vectors", royal)
    assert re.search(r"\nall +7 +9 +10\.0% +20\.0% +30\.0%\n", out)
    assert "40.0% of the answers repeat a word of the question; 50.0% repeat c." in out
    assert "3 of 5 pairs used; Spearman correlation with human ratings 0.000\n" in out


def test_a_score_as_json(attentively, royal, tmp_path):
    code, out, _ = attentively("score", "--vectors", royal, "--json", tmp_path / "new" / "s.json")
    assert code == 0
    assert f"scores written to {tmp_path / 'new' / 's.json'}" in out
    numbers = json.loads((tmp_path / "new" / "s.json").read_text())
    vectors = WordVectors.load(royal)
    assert numbers["vectors"] == str(royal)
    assert numbers["analogies_by_section"]["family"] == evaluation.analogy_numbers(
        vectors, ANALOGIES["family"]
    )
    assert numbers["similarities"]["coverage"] == 0.75


def test_vectors_that_know_none_of_the_questions(attentively, tmp_path):
    path = tmp_path / "other.safetensors"
    WordVectors(["un", "deux"], torch.ones(2, 3)).save(path, {})
    code, out, _ = attentively("score", "--vectors", path)
    assert code == 0
    assert "0 of 4 pairs used\n" in out
    assert re.search(r"all +0 +3 +- +- +-\n", out)


# train

SMALL = shlex.split(
    "--embedding-dim 5 --epochs 2 --batch-size 50 --min-count 3 --seed 7 --threshold 1"
)


def test_training_writes_vectors_and_where_they_come_from(
    attentively, story, tmp_path, monkeypatch
):
    monkeypatch.setattr(training, "RECORDED_EVERY", 3)
    trained, train_vectors = [], training.train_vectors
    monkeypatch.setattr(
        training,
        "train_vectors",
        lambda *given: trained.append(train_vectors(*given)) or trained[0],
    )
    output = tmp_path / "new" / "story.safetensors"
    code, out, err = attentively("train", story, "--output", output, *SMALL)
    assert (code, err) == (0, "")
    assert f"{story}: 80 sentences, 320 words; cpu (1 thread)" in out
    assert "8 vectors of dimension 5" in out
    vectors = WordVectors.load(output)
    assert set(vectors.words) == {"we", "fed", "drove", "the", "cat", "dog", "car", "train"}
    said = vectors.provenance
    assert shlex.split(said["command"])[:3] == ["attentively", "vectors", "train"]
    assert (said["data"], said["sentences"], said["words_of_text"]) == (str(story), 80, 320)
    assert said["training"] == {
        **VectorConfig().to_dict(),
        **{
            "embedding_dim": 5,
            "epochs": 2,
            "batch_size": 50,
            "min_count": 3,
            "seed": 7,
            "threshold": 1.0,
        },
    }
    assert (said["seed"], said["device"]) == (7, "cpu (1 thread)")
    [(_, records, seconds)] = trained
    assert said["train_loss"] == round(records[-1]["train_loss"], 4) != records[0]["train_loss"]
    assert said["seconds"] == round(seconds, 1)
    assert said["versions"]["attentively"] == __version__
    assert "evaluation" not in said  # the questions are not at hand
    assert "attribution" not in said  # whose text it is we cannot know


def test_the_same_command_gives_the_same_file(attentively, story, tmp_path):
    found = []
    for name in ("one", "two"):
        attentively("train", story, "--output", tmp_path / name, *SMALL)
        found.append(WordVectors.load(tmp_path / name).vectors)
    assert torch.equal(*found)


def test_what_is_scored_is_what_is_written(attentively, tmp_path, monkeypatch):
    """Tatoeba by default, with its licence; in half precision the rounded vectors are scored."""
    sentences = [["man", "king", "woman", "queen", "apple"] for _ in range(60)]
    monkeypatch.setattr(words, "tatoeba_english", lambda: sentences)
    monkeypatch.setattr(download, "find", lambda path: tmp_path)
    scored, scores = [], evaluation.scores
    monkeypatch.setattr(evaluation, "scores", lambda *of: scored.append(of[0]) or scores(*of))
    output = tmp_path / "half.safetensors"
    assert attentively("train", "--output", output, "--half-precision", *SMALL)[0] == 0
    vectors = WordVectors.load(output)
    said = vectors.provenance
    assert (said["data"], said["data_licence"]) == ("tatoeba-english", "CC BY 2.0")
    assert "tatoeba.org" in said["attribution"]
    assert torch.equal(vectors.vectors, vectors.vectors.half().float())
    assert said["evaluation"]["similarities"]["asked"] == 3
    assert said["evaluation"]["analogies"] == evaluation.analogy_numbers(
        vectors, [question for section in ANALOGIES.values() for question in section]
    )
    assert load_file(output)["vectors"].dtype == torch.float16
    (rounded,) = scored
    assert torch.equal(rounded.vectors, vectors.vectors)
    assert attentively("train", "--output", output, *SMALL)[0] == 0
    assert load_file(output)["vectors"].dtype == torch.float32
    whole = WordVectors.load(output).vectors
    assert not torch.equal(whole, vectors.vectors)
    torch.testing.assert_close(whole, vectors.vectors, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("epochs=0 must be at least 1", "--epochs 0"),
        ("learning_rate=-1.0 must be positive", "--learning-rate -1"),
        ("none of the 8 words of 80 sentences occurs min_count=999 times", "--min-count 999"),
        ("not finite .* learning rate below", "--learning-rate 1e30 --threshold 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(refuses, story, tmp_path, pattern, options):
    output = tmp_path / "out.safetensors"
    refuses(pattern, "train", story, "--output", output, *shlex.split(options))
    assert not output.exists()


@pytest.fixture
def trains(monkeypatch):
    """Tell how often a training began; what is not called lasts no five minutes."""
    began = []
    original = training.train_vectors
    monkeypatch.setattr(
        training, "train_vectors", lambda *given: began.append(1) or original(*given)
    )
    return began


def test_what_would_lose_a_training_is_found_before_it(
    refuses, trains, story, tmp_path, monkeypatch
):
    refuses("is not a regular file", "train", story, "--output", tmp_path, *SMALL)
    inside = story / "out.safetensors"
    refuses(r"cannot write to .*story\.txt", "train", story, "--output", inside, *SMALL)

    def damaged():
        raise download.DataError("wordsim353.tsv is damaged")

    monkeypatch.setattr(download, "find", lambda path: tmp_path)
    monkeypatch.setattr(words, "similarities", damaged)
    refuses("is damaged", "train", story, "--output", tmp_path / "out", *SMALL)
    assert trains == []


def test_questions_of_which_one_file_is_missing_are_not_asked(
    attentively, story, tmp_path, monkeypatch
):
    monkeypatch.setattr(download, "find", lambda path: "questions" in path or None)
    assert attentively("train", story, "--output", tmp_path / "out", *SMALL)[0] == 0
    assert "evaluation" not in WordVectors.load(tmp_path / "out").provenance


def test_a_training_that_is_stopped_leaves_what_was_there(
    attentively, story, tmp_path, monkeypatch
):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    output = tmp_path / "out.safetensors"
    output.write_text("earlier")
    monkeypatch.setattr(training, "train_vectors", stopped)
    code, out, err = attentively("train", story, "--output", output, *SMALL)
    assert (code, err) == (130, "")
    assert out.endswith("\ninterrupted; nothing was written\n")
    assert output.read_text() == "earlier"


def test_a_text_that_is_not_there_is_one_line(refuses, tmp_path):
    refuses(
        "tatoeba is not a file; .* tatoeba-english",
        "train",
        "tatoeba",
        "--output",
        tmp_path / "out",
    )
    refuses(r"nowhere\.txt", "train", tmp_path / "nowhere.txt", "--output", tmp_path / "out")
    (tmp_path / "empty.txt").write_text("")
    refuses("is empty", "train", tmp_path / "empty.txt", "--output", tmp_path / "out")


# Help


def test_every_setting_is_an_option(attentively):
    code, out, _ = attentively("train", "--help")
    assert code == 0
    for name in VectorConfig().to_dict():
        assert f"--{name.replace('_', '-')}" in out


@pytest.mark.parametrize("name", ["train", "near", "analogy", "score"])
def test_each_command_has_examples_that_it_understands(attentively, name):
    _, out, _ = attentively(name, "--help")
    assert f"attentively vectors {name}" in out.split("Examples")[1]


def test_the_help_of_all_commands_names_this_one(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attentively", "--help"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "vectors" in capsys.readouterr().out
    assert command.app.info.help.startswith("Train word vectors")
