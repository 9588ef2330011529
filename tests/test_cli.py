"""The command line does what it says, and a mistake is one line."""

import dataclasses
import io
import json
import re
import shlex
import subprocess
import sys

import pytest
import torch

from attentively import __version__, checkpoints, cli
from attentively.data import corpora
from attentively.data.corpora import Corpus
from attentively.data.pairs import Pair
from attentively.training import Trainer

NOUNS = {"dog": "chien", "cat": "chat", "bird": "oiseau", "child": "enfant"}
VERBS = {"sleeps": "dort", "eats": "mange", "sings": "chante", "runs": "court"}
PAIRS = [
    Pair(f"a {noun} {verb} .", f"un {le} {fait} .")
    for noun, le in NOUNS.items()
    for verb, fait in VERBS.items()
]
SPLITS = {"train": PAIRS[:13], "validation": PAIRS[13:], "test": PAIRS[13:]}
TRAIN = shlex.split(
    "train tiny --vocabulary-size 61 --steps 6 --validate-every 3"
    " --embedding-dim 11 --encoder-dim 7 --decoder-dim 13 --attention-dim 5"
)

pytestmark = pytest.mark.usefixtures("unchecked", "_corpus")


@pytest.fixture
def _corpus(monkeypatch):
    corpus = Corpus("tiny", SPLITS.__getitem__, licence="CC0", attribution="nobody")
    other = dataclasses.replace(corpus, name="other")
    monkeypatch.setattr(corpora, "CORPORA", {"tiny": corpus, "other": other})


@pytest.fixture
def attentively(monkeypatch, capsys):
    """Run a command; return its exit code, and what it wrote to stdout and stderr."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["attentively", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
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

    def run(pattern, *arguments, **given):
        code, out, err = attentively(*arguments, **given)
        assert code == 1, (code, out, err)
        last = err.rstrip("\n").split("\n")[-1]
        assert last.startswith("error: ")
        assert re.search(pattern, last), last
        assert "Traceback" not in err
        return out

    return run


@pytest.fixture
def trained(attentively, tmp_path):
    """The folder of a finished run."""
    code, _, _ = attentively(*TRAIN, "--output", tmp_path / "run")
    assert code == 0
    return tmp_path / "run"


def test_without_arguments_it_explains_itself(attentively):
    _, out, err = attentively()
    for command in ("data", "train", "translate", "evaluate", "models", "experiment"):
        assert command in out + err


@pytest.mark.parametrize(
    "command", ["", "data", "data get", "train", "translate", "evaluate", "experiment"]
)
def test_every_command_has_help(attentively, command):
    code, out, _ = attentively(*command.split(), "--help")
    assert code == 0
    assert "Usage:" in out


def test_a_command_that_there_is_not(attentively):
    code, _, err = attentively("conquer")
    assert code == 2
    assert "conquer" in err
    assert "Traceback" not in err


def test_as_a_module_in_a_process_of_its_own():
    ran = subprocess.run(
        [sys.executable, "-m", "attentively", "translate", "--model", "nope", "Hello."],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert re.fullmatch(r"error: no pretrained model is called 'nope'; there are .*\n", ran.stderr)


# train


def test_training_leaves_a_model_that_says_where_it_is_from(attentively, tmp_path):
    code, out, _ = attentively(*TRAIN, "--output", tmp_path / "run", "--seed", 5)
    assert code == 0
    assert "13 training pairs" in out
    assert "best validation loss" in out
    assert str(tmp_path / "run" / "best.safetensors") in out
    found = checkpoints.load(tmp_path / "run" / "best.safetensors")
    said = found.provenance
    assert said["command"].startswith("attentively train tiny --vocabulary-size 61")
    assert said["command"].endswith("--seed 5")
    assert (said["data"], said["data_licence"], said["attribution"]) == ("tiny", "CC0", "nobody")
    assert said["training"]["seed"] == 5
    assert said["versions"]["attentively"] == __version__
    assert said["device"].startswith("cpu")
    assert said["seconds"] > 0
    assert said["parameters"] == sum(p.numel() for p in found.model.parameters())
    assert found.src_tokenizer is found.tgt_tokenizer
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 6]


def test_training_on_words_without_attention(attentively, tmp_path):
    code, _, _ = attentively(
        *TRAIN, "--output", tmp_path, "--tokenizer", "word", "--attention", "fixed"
    )
    assert code == 0
    found = checkpoints.load(tmp_path / "best.safetensors")
    assert found.model.config.attention == "fixed"
    assert found.src_tokenizer.tokens(found.src_tokenizer.encode("a dog")) == ["a", "dog", "<end>"]
    assert not found.model.config.share_embeddings


def test_the_seed_settles_the_model(attentively, tmp_path):
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        attentively(*TRAIN, "--output", tmp_path / name, "--seed", seed)
    one, same, other = (
        [json.loads(line)["train_loss"] for line in (tmp_path / name / "log.jsonl").open()]
        for name in ("one", "same", "other")
    )
    assert one == same
    assert one != other


def test_an_unknown_corpus_lists_those_there_are(refuses, tmp_path):
    refuses(
        "no corpus is called 'klingon'; there are other, tiny",
        *["train", "klingon", "--output"],
        tmp_path,
    )
    refuses("called 'klingon'; there are", *["evaluate", "klingon", "--model", "toy-fixed"])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_attention_or_tokenizer(attentively, refuses, tmp_path):
    code, _, err = attentively(*TRAIN, "--output", tmp_path, "--attention", "much")
    assert code == 2
    assert "much" in err
    assert "additive" in err
    assert "fixed" in err
    refuses(
        "tokenizer='letters' is unknown: choose bpe or word",
        *TRAIN,
        "--output",
        tmp_path,
        "--tokenizer",
        "letters",
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--steps", 0, "steps=0 must be at least 1"),
        ("--learning-rate", -1, r"learning_rate=-1\.0 must be positive"),
        ("--vocabulary-size", 5, "vocabulary_size=5 has no room"),
        ("--patience", 0, "patience=0 must be at least 1"),
    ],
)
def test_settings_that_make_no_sense(refuses, tmp_path, option, value, message):
    refuses(message, *TRAIN, "--output", tmp_path, option, value)


def test_output_is_asked_for(attentively):
    code, _, err = attentively(*TRAIN)
    assert code == 2
    assert "--output" in err


def test_a_finished_run_is_not_overwritten_and_can_be_resumed(attentively, refuses, trained):
    before = (trained / "last.safetensors").read_bytes()
    out = refuses("already holds a run: resume it", *TRAIN, "--output", trained)
    assert "vocabulary" not in out  # refused before it was learnt
    code, out, _ = attentively(*TRAIN, "--output", trained, "--resume")
    assert code == 0
    assert "best validation loss" in out
    assert (trained / "last.safetensors").read_bytes() == before


def test_a_stopped_run_resumes_to_the_same_end(attentively, trained, tmp_path, monkeypatch):
    original, steps = Trainer._update, []

    def interrupted(self, batch):
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return original(self, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", interrupted)
        code, out, err = attentively(*TRAIN, "--output", tmp_path / "stopped")
    assert code == 130
    assert "stopped at step 4; --resume goes on from step 3\n" in out
    assert "Traceback" not in err
    code, _, _ = attentively(*TRAIN, "--output", tmp_path / "stopped", "--resume")
    assert code == 0
    ends = []
    for folder in (trained, tmp_path / "stopped"):
        _, tensors = checkpoints.read(folder / "last.safetensors")
        ends.append({name: value.tolist() for name, value in tensors.items()})
    assert ends[0] == ends[1]


def test_a_run_stopped_before_its_first_validation_says_so(attentively, tmp_path, monkeypatch):
    original, steps = Trainer._update, []

    def interrupted(self, batch):
        steps.append(1)
        if len(steps) == 3:
            raise KeyboardInterrupt
        return original(self, batch)

    monkeypatch.setattr(Trainer, "_update", interrupted)
    code, out, _ = attentively(*TRAIN, "--output", tmp_path)
    assert code == 130
    assert "stopped at step 2; nothing was saved yet: start again\n" in out
    assert list(tmp_path.iterdir()) == []


def test_another_run_is_not_resumed(refuses, trained, tmp_path):
    resume = [*TRAIN, "--output", trained, "--resume"]
    refuses("cannot be resumed", *resume, "--seed", 7)
    refuses("the run to resume has .*additive.*, not .*fixed", *resume, "--attention", "fixed")
    refuses("the run to resume has .*11.*, not .*17", *resume, "--embedding-dim", 17)
    refuses("the run to resume has .*'tiny'.*, not .*'other'", *["train", "other", *resume[2:]])
    refuses("there is no checkpoint at", *TRAIN, "--output", tmp_path / "new", "--resume")


def test_starting_from_another_run(attentively, refuses, trained, tmp_path):
    start = [*TRAIN, "--output", tmp_path / "next", "--start-from", trained / "best.safetensors"]
    refuses("the run to start from.*11.*, not .*17", *start, "--embedding-dim", 17)
    refuses("there is no checkpoint at", *start[:-1], tmp_path / "nowhere.safetensors")
    code, _, _ = attentively(*start, "--learning-rate", 1e-12)  # next to no learning
    assert code == 0
    one, other = (
        checkpoints.load(folder / "best.safetensors") for folder in (trained, tmp_path / "next")
    )
    assert other.src_tokenizer.to_json() == one.src_tokenizer.to_json()
    for before, after in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(after, before)


def test_a_loss_that_is_no_number_is_one_line(refuses, tmp_path, monkeypatch):
    from attentively import training

    monkeypatch.setattr(
        training,
        "teacher_forced_loss",
        lambda model, _: next(model.parameters()).sum() * float("nan"),
    )
    refuses("the loss is no longer a number at step 3", *TRAIN, "--output", tmp_path)


# translate, evaluate, models


def test_translating(attentively, trained):
    model = trained / "best.safetensors"
    code, out, _ = attentively("translate", "--model", model, "a dog sleeps .", "a cat eats .")
    assert code == 0
    assert out.count("\n") == 2
    for beam_size in (1, 3):
        one = attentively("translate", "--model", model, "--beam-size", beam_size, "a dog sleeps .")
        assert one[0] == 0
    _, same, _ = attentively("translate", "--model", model, stdin="a dog sleeps .\na cat eats .\n")
    assert same == out


@pytest.mark.parametrize("sentence", ["", "   ", "猫", "a " * 400, "<end>", "a <pad> dog"])
def test_every_sentence_gets_one_line_whatever_it_is(attentively, trained, sentence):
    code, out, err = attentively(
        "translate", "--model", trained / "best.safetensors", stdin=f"{sentence}\na dog sleeps .\n"
    )
    assert code == 0
    assert out.count("\n") == 2
    assert "Traceback" not in err
    if "a dog" not in sentence and "<" not in sentence:
        assert "note: " in err  # and what was the matter


def test_nothing_to_translate(attentively, trained):
    code, out, _ = attentively("translate", "--model", trained / "best.safetensors")
    assert (code, out) == (0, "")


def test_a_plot_of_where_the_model_looked(attentively, refuses, trained, tmp_path):
    model = trained / "best.safetensors"
    path = tmp_path / "plot.png"
    code, out, err = attentively("translate", "--model", model, "a dog sleeps .", "--plot", path)
    assert code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in err
    assert str(path) not in out


def test_an_unknown_model_lists_those_there_are(refuses, tmp_path):
    names = ", ".join(checkpoints.pretrained_names())
    for command in (["translate", "a dog"], ["evaluate", "tiny"]):
        refuses(
            f"no pretrained model is called 'nope'; there are {names}$", *command, "--model", "nope"
        )
        refuses("there is no checkpoint at", *command, "--model", tmp_path / "nope.safetensors")
        (tmp_path / "bad.safetensors").write_bytes(b"nothing good")
        refuses("is damaged or no checkpoint", *command, "--model", tmp_path / "bad.safetensors")


def test_evaluating(attentively, refuses, trained, tmp_path):
    model = trained / "best.safetensors"
    code, out, _ = attentively("evaluate", "tiny", "--model", model, "--output", tmp_path / "o.tsv")
    assert code == 0
    for line in ("sentences +3", "bleu +", "exact_match +", "perplexity +"):
        assert re.search(line, out), out
    assert len((tmp_path / "o.tsv").read_text().splitlines()) >= len(SPLITS["test"])


def test_the_models_that_ship(attentively):
    code, out, _ = attentively("models")
    assert code == 0
    for name in checkpoints.pretrained_names():
        assert name in out


# data and experiments


def test_unknown_data_lists_what_there_is(refuses):
    refuses("no data set is called 'nope'; there are .*tatoeba-en-fr", "data", "get", "nope")


def test_an_unknown_experiment_lists_what_there_is(refuses):
    refuses("'nope'.*there are .*bottleneck", "experiment", "nope")
