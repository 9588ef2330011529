"""The command line does what it says, and a mistake is one line."""

import dataclasses
import importlib.metadata
import io
import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import torch

from attentively import __version__, cli
from attentively.cli import docstrings, families, settings, train_options
from attentively.cli import train as train_command
from attentively.data import corpora, digits
from attentively.data.corpora import Corpus
from attentively.data.pairs import Pair
from attentively.data.sentiment import Labelled
from attentively.generation import generate as writing
from attentively.generation import predict
from attentively.models import checkpoints
from attentively.models.configs import LanguageModelConfig, Seq2SeqConfig, TransformerConfig
from attentively.training import objectives
from attentively.training.trainer import Trainer
from attentively.training.training_config import TrainingConfig
from attentively_grader import __main__ as grader

NOUNS = {"dog": "chien", "cat": "chat", "bird": "oiseau", "child": "enfant"}
VERBS = {"sleeps": "dort", "eats": "mange", "sings": "chante", "runs": "court"}
PAIRS = [
    Pair(f"a {noun} {verb} .", f"un {le} {fait} .")
    for noun, le in NOUNS.items()
    for verb, fait in VERBS.items()
]


def split(items):
    return {"train": items[:13], "validation": items[13:], "test": items[13:]}.__getitem__


def text(part):
    return "".join(f"{pair.tgt}\n" for pair in split(PAIRS)(part))


CORPORA = {
    "tiny": split(PAIRS),
    "other": split(PAIRS[::-1]),
    "tiny-text": text,
    "tiny-labels": split([Labelled(src, src.split()[2][-2:]) for src, _ in PAIRS]),
    "tiny-scenes": lambda part: digits.load(part, 5),
}
KINDS = {"tiny-text": "text", "tiny-labels": "labels", "tiny-scenes": "scenes"}
SEQ2SEQ = "--embedding-dim 11 --encoder-dim 7 --decoder-dim 13 --attention-dim 5"
STACK = "--d-model 12 --num-heads 2 --d-ff 13 --num-layers 1"
CAPTIONER = "--embedding-dim 11 --feature-dim 6 --decoder-dim 13 --attention-dim 5"
STEPS = "--steps 6 --validate-every 3"
TRAIN = shlex.split(f"train tiny --vocabulary-size 61 {STEPS} {SEQ2SEQ}")
EACH_FAMILY = {
    "seq2seq": f"tiny {SEQ2SEQ}",
    "transformer": f"tiny {STACK}",
    "language-model": f"tiny-text {STACK}",
    "classifier": f"tiny-labels {STACK}",
    "masked-language-model": f"tiny-labels {STACK}",
    "captioner": f"tiny-scenes {CAPTIONER}",
}

pytestmark = pytest.mark.usefixtures("unchecked", "_corpora")


@pytest.fixture
def _corpora(monkeypatch):
    made = {
        name: Corpus(name, load, "CC0", "nobody", KINDS.get(name, "pairs"))
        for name, load in CORPORA.items()
    }
    made["toy"] = corpora.CORPORA["toy"]
    monkeypatch.setattr(corpora, "CORPORA", made)
    monkeypatch.delenv("ATTENTIVELY_DEBUG", raising=False)


@pytest.fixture
def attentively(monkeypatch, capsys):
    """Run a command; return its exit code, and what it wrote to stdout and stderr."""

    def run(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["attentively", *map(str, arguments)])
        typed = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed)))
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
        assert err.count("error: ") == 1
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
    for command in cli.COMMANDS:
        assert command in out + err


def test_the_version_is_that_of_the_package(attentively, monkeypatch):
    assert attentively("--version") == (0, f"attentively {__version__}\n", "")
    assert attentively("--version", "conquer")[0] == 0  # before any command is looked for
    monkeypatch.setattr(importlib.metadata, "version", {"attentively": "7.11"}.__getitem__)
    assert attentively("--version")[1] == "attentively 7.11\n"


def test_the_grader_prints_the_version_of_the_package(capsys, monkeypatch):
    assert grader.main(["--version"]) == 0
    assert capsys.readouterr().out == f"attentively_grader {__version__}\n"
    monkeypatch.setattr(importlib.metadata, "version", {"attentively": "7.11"}.__getitem__)
    assert grader.main(["--version"]) == 0
    assert capsys.readouterr().out == "attentively_grader 7.11\n"


@pytest.mark.parametrize("command", ["", "data get", *cli.COMMANDS])
def test_every_command_has_help_that_ends_with_examples(attentively, command):
    code, out, _ = attentively(*command.split(), "--help")
    assert code == 0
    assert "Usage:" in out
    assert "Example" in out or command == "data"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(attentively, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    own = " ".join(attentively(command, "--help")[1].split())
    [line] = [
        line for line in attentively("--help")[1].splitlines() if line.startswith(f"│ {command} ")
    ]
    purpose = line.strip("│ ").removeprefix(command).strip()
    if command != "data":
        assert purpose in own


def test_grade_has_the_options_of_the_grader(attentively, monkeypatch, capsys):
    """The grader's own command line has them too, where it grades a course that is not ours."""
    monkeypatch.setenv("COLUMNS", "250")
    asked = attentively("grade", "--help")[1]
    with pytest.raises(SystemExit):
        grader.main(["--help"])
    own = capsys.readouterr().out
    options = [set(re.findall(r"--[a-z][a-z-]+", text)) for text in (asked, own)]
    assert options[0] >= {"--resume", "--canvas", "--shard"}
    assert options[1] == options[0] | {"--version"}  # which is `attentively --version`


def test_grade_hands_on_what_it_is_given(attentively, monkeypatch):
    handed = []
    monkeypatch.setattr(grader, "main", lambda arguments: handed.extend(arguments) or 0)
    given = ["04", "--student", "ada", "--student", "bob", "--workers", "3", "--timeout", "9"]
    given += ["--canvas", "sheet.csv", "--course", "there", "--resume", "--unsafe-no-sandbox"]
    assert attentively("grade", *given)[0] == 0
    assert handed == given
    handed.clear()
    attentively("grade", "--moodle", "m.csv", "--force")
    assert handed == ["--moodle", "m.csv", "--force"]


def test_a_command_that_there_is_not(attentively):
    code, _, err = attentively("conquer")
    assert code == 2
    assert "conquer" in err
    assert "Traceback" not in err


# In a process of its own

WITHOUT_TORCH = """
import sys
from attentively.cli import main
sys.argv = ["attentively", *sys.argv[1:]]
try:
    main()
except SystemExit as exit:
    assert not exit.code, exit.code
print(sorted({"torch", "sklearn", "matplotlib"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "data list",
        "models",
        *(f"{name} --help" for name in cli.COMMANDS),
        *(f"vectors {name} --help" for name in ("train", "near", "analogy", "score")),
    ],
)
def test_what_needs_no_pytorch_starts_without_it(command):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *command.split()], capture_output=True, text=True
    )
    assert ran.stdout.endswith("\n[]\n"), ran.stdout + ran.stderr


def test_the_graders_help_needs_no_nbgrader():
    code = (
        "import sys\nfrom attentively_grader.__main__ import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    print(sorted({'nbgrader', 'sqlalchemy', 'torch'} & set(sys.modules)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--workers" in ran.stdout
    assert ran.stdout.endswith("\n[]\n")


def test_as_a_module_in_a_process_of_its_own():
    ran = subprocess.run(
        [sys.executable, "-m", "attentively", "data", "get", "nope"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert re.fullmatch(r"error: no data set is called 'nope': choose one of .*\n", ran.stderr)


def test_a_reader_who_has_enough_is_no_error(trained, tmp_path):
    path = tmp_path / "many.txt"
    path.write_text("a dog sleeps .\n" * 3000)
    translate = shlex.join(
        [sys.executable, "-m", "attentively", "translate", "--model", str(trained)]
    )
    script = f"{translate} --beam-size 1 --input {path} | head -n 2; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100)
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 3
    assert lines[-1] == "0"


@pytest.mark.slow
def test_several_processes_train_what_one_trains(attentively, tmp_path):
    data = tmp_path / "pairs.tsv"
    lines = [f"{src} {number}\t{tgt}\n" for number in range(30) for src, tgt in PAIRS]
    data.write_text("".join(lines))
    options = f"--vocabulary-size 90 --batch-size 10 {STEPS} {SEQ2SEQ} --seed 3".split()
    code, _, err = attentively("train", data, *options, "--output", tmp_path / "one")
    assert code == 0, err
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
    ]
    command += [str(20000 + os.getpid() % 20000), "-m", "attentively", "train", data, *options]
    ran = subprocess.run(
        [*map(str, command), "--output", str(tmp_path / "two")],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "OMP_NUM_THREADS": "1", "ATTENTIVELY_DEVICE": "cpu"},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("best validation loss") == 1  # only the first process speaks
    assert "2 processes" in ran.stdout
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "log.jsonl").open()]
        for name in ("one", "two")
    )
    assert len(one) == len(two) == 2
    for alone, together in zip(one, two, strict=True):
        assert together["train_loss"] == pytest.approx(alone["train_loss"], rel=1e-4)
        assert together["validation_loss"] == pytest.approx(alone["validation_loss"], rel=1e-4)
    found = [checkpoints.load(tmp_path / name / "best.safetensors") for name in ("one", "two")]
    assert found[0].src_tokenizer.to_json() == found[1].src_tokenizer.to_json()
    code, _, err = attentively("train", "--resume", "--output", tmp_path / "two")
    assert code == 1
    assert "was trained by 2 processes" in err


# train


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_every_family_is_trained_evaluated_and_resumed(attentively, family, tmp_path):
    data, *options = EACH_FAMILY[family].split()
    train = ["train", data, "--model", family, *STEPS.split(), *options]
    code, out, err = attentively(*train, "--output", tmp_path / "run")
    assert code == 0, err
    assert out.splitlines()[0].startswith(f"{data}: ")
    assert "word tokenizer" in out or "bpe" in out or "character" in out
    assert out.splitlines()[1].startswith(f"{family}: ")
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert [json.loads(line)["step"] for line in log.splitlines()] == [3, 6]

    code, out, err = attentively("train", "--resume", "--output", tmp_path / "run")
    assert code == 0, err
    assert (tmp_path / "run" / "log.jsonl").read_text() == log  # there was nothing left to do

    path = tmp_path / "scores.json"
    code, out, err = attentively("evaluate", data, "--model", tmp_path / "run", "--json", path)
    assert code == 0, err
    numbers = json.loads(path.read_text())
    for name, value in numbers.items():
        if name not in ("model", "data", "split", "confusion"):
            assert name.removesuffix("s") in out
            assert value is not None


def test_nothing_is_said_twice_of_an_option():
    every = [*train_options.MODEL_CHOICES, *train_options.TRAINING_CHOICES, *train_options.TOP]
    assert len(set(every)) == len(every)
    for family in families.FAMILIES.values():
        names = {field.name for field in dataclasses.fields(family.config)}
        assert names - train_options.FROM_DATA <= set(every)


def test_every_option_says_what_it_is_for():
    every = {**train_options.MODEL_CHOICES, **train_options.TRAINING_CHOICES}
    assert [name for name, choice in every.items() if not all(choice.helps.values())] == []


def test_help_is_what_the_source_says(attentively, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = attentively("train", "--help")
    shown = re.sub(r"[│\s]+", " ", out)
    said = docstrings.of_fields(TrainingConfig)
    assert said["accumulate"] == (
        "Gradient accumulation: parts into which a batch is split for the same update in less\n"
        "memory."
    )
    for name in ("accumulate", "clip_norm", "seed"):
        assert said[name].split(":")[0] in shown
    assert "--input-feeding" in out
    assert "--no-input-feeding" in out
    assert "none" in out
    assert docstrings.of_fields(Seq2SeqConfig)["window"].split(":")[0] in shown


def test_training_leaves_a_model_that_says_where_it_is_from(attentively, tmp_path):
    code, out, _ = attentively(*TRAIN, "--output", tmp_path / "run", "--seed", 5)
    assert code == 0
    assert "tiny: sentence pairs, 13 training and 3 validation examples" in out
    assert "bpe tokenizer with" in out
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
    assert said["training_examples"] == 13
    lines = (tmp_path / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 6]


def test_training_on_words_without_attention(attentively, tmp_path):
    code, _, _ = attentively(
        *["train", "tiny", *STEPS.split(), "--output", tmp_path],
        *["--tokenizer", "word", "--attention", "fixed"],
    )
    assert code == 0
    found = checkpoints.load(tmp_path / "best.safetensors")
    assert found.model.config.attention == "fixed"
    assert found.src_tokenizer.tokens(found.src_tokenizer.encode("a dog")) == ["a", "dog", "<end>"]
    assert not found.model.config.share_embeddings


def test_a_vocabulary_can_be_cut_short(attentively, refuses, tmp_path):
    train = ["train", "tiny", *STEPS.split(), "--tokenizer"]
    code, _, _ = attentively(*train, "word", "--vocabulary-size", 7, "--output", tmp_path)
    assert code == 0
    assert checkpoints.load(tmp_path / "best.safetensors").model.config.vocab_sizes == (7, 7)
    for kind, size, message in (
        ("word", 4, "vocabulary_size=4 must exceed the 4 special tokens"),
        ("character", 40, "a character tokenizer lists every character"),
    ):
        options = [*train, kind, "--vocabulary-size", size, "--output", tmp_path / "new"]
        refuses(message, *options)


def test_one_table_for_both_sides_needs_one_vocabulary(refuses, tmp_path):
    refuses(
        "--share-embeddings needs one vocabulary for both sides: use --tokenizer bpe",
        *["train", "tiny", "--steps", 3, "--tokenizer", "word", "--share-embeddings"],
        *["--output", tmp_path],
    )


def test_text_by_characters_is_cut_into_pieces(attentively, tmp_path):
    train = ["train", "tiny-text", "--tokenizer", "character", *STEPS.split(), *STACK.split()]
    code, out, err = attentively(*train, "--piece-length", 20, "--output", tmp_path)
    assert code == 0, err
    assert "character tokenizer" in out
    code, out, _ = attentively("train", "--resume", "--output", tmp_path)
    assert code == 0
    code, _, err = attentively("train", "--resume", "--piece-length", 21, "--output", tmp_path)
    assert "--piece-length is 21, but the run to resume has 20" in err


# Where a choice comes from

RECIPE = """
data = "tiny"
model = "seq2seq"
tokenizer = "bpe"
vocabulary_size = 61

[seq2seq]
embedding_dim = 11
encoder_dim = 7
decoder_dim = 13
attention_dim = 5
dropout = 0

[training]
steps = 6
validate_every = 3
patience = "none"
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_a_file_says_what_options_would(attentively, recipe, trained, tmp_path):
    code, _, err = attentively("train", "--config", recipe, "--output", tmp_path / "from-file")
    assert code == 0, err
    _, one = checkpoints.read(trained / "best.safetensors")
    _, other = checkpoints.read(tmp_path / "from-file" / "best.safetensors")
    assert {name: value.tolist() for name, value in one.items()} == {
        name: value.tolist() for name, value in other.items()
    }


def test_the_command_line_goes_before_the_file(attentively, recipe, tmp_path):
    options = ["--steps", 3, "--embedding-dim", 17, "other", "--patience", 9]
    code, out, err = attentively(
        "train", "--config", recipe, *options, "--output", tmp_path / "run"
    )
    assert code == 0, err
    assert out.startswith("other: ")
    found = checkpoints.load(tmp_path / "run" / "best.safetensors")
    assert found.model.config.embedding_dim == 17
    assert found.provenance["training"]["steps"] == 3
    assert found.provenance["training"]["patience"] == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("steps = 6", "stepps = 6"),
            r"recipe\.toml has an unknown key stepps in \[training\].* steps,",
        ),
        (
            ("data =", "date ="),
            "has an unknown key date before the first table; the keys are data",
        ),
        (
            ("[seq2seq]", "[seq3seq]"),
            r"an unknown table \[seq3seq\]; the tables are \[training\], \[seq2seq\]",
        ),
        (
            ("steps = 6", 'steps = "six"'),
            r"steps in .*recipe\.toml is 'six', but it must be an integer",
        ),
        (("steps = 6", "steps = true"), "is True, but it must be an integer"),
        (('patience = "none"', "steps = 6"), r"recipe\.toml is not valid TOML: .*line 17"),
        (("[seq2seq]", "[seq2seq"), r"recipe\.toml is not valid TOML: .*line 7"),
        (
            ('model = "seq2seq"', 'model = "rnn"'),
            "is 'rnn', which is unknown: choose one of seq2seq",
        ),
        (
            ('model = "seq2seq"', 'model = "transformer"'),
            r"recipe\.toml is an option of --model seq2seq",
        ),
        (("decoder_dim = 13", "tgt_vocab_size = 13"), r"unknown key tgt_vocab_size in \[seq2seq\]"),
    ],
)
def test_a_file_with_a_mistake(refuses, recipe, tmp_path, change, message):
    recipe.write_text(RECIPE.replace(*change))
    refuses(message, "train", "--config", recipe, "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_lists_the_recipes(refuses, tmp_path):
    refuses(
        "nope.toml is neither a file nor a recipe; the recipes are .*tatoeba-en-fr-add",
        *["train", "--config", "nope.toml", "--output", tmp_path],
    )
    (tmp_path / "bytes.toml").write_bytes(b"data = '\xff'")
    refuses(
        "is not valid TOML",
        "train",
        "--config",
        tmp_path / "bytes.toml",
        "--output",
        tmp_path / "run",
    )


def test_every_recipe_can_be_followed():
    assert "tatoeba-en-fr-additive" in settings.recipes()
    for name in settings.recipes():
        given = train_command._given(name, {})
        train_options.refuse_strange(given, given["model"].value)
        TrainingConfig(**train_options.values(given, train_options.TRAINING_CHOICES))


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("tatoeba-en-fr-additive", Seq2SeqConfig),
        ("tatoeba-en-fr-transformer", TransformerConfig),
        ("toy-transformer", TransformerConfig),
        ("shakespeare-gpt", LanguageModelConfig),
    ],
)
def test_the_recipe_of_a_model_that_ships_makes_its_sizes(name, config):
    shipped = checkpoints.load_pretrained(name)
    given = train_command._given(name, {})
    values = train_options.values(given, train_options.MODEL_CHOICES)
    assert type(shipped.model.config) is config
    assert shipped.model.config.to_dict().items() >= values.items()
    if given["tokenizer"].value == "bpe":
        assert given["vocabulary_size"].value == len(shipped.src_tokenizer)
    first = shipped.provenance.get("started_from", shipped.provenance)["training"]
    training = train_options.values(given, train_options.TRAINING_CHOICES)
    assert TrainingConfig(**training).to_dict().items() >= first.items()


def test_an_option_of_another_family_is_refused(refuses, tmp_path):
    train = ["train", "tiny", "--steps", 3, "--output", tmp_path, "--model"]
    refuses(
        "--encoder-dim is an option of --model seq2seq, not of transformer",
        *[*train, "transformer", "--encoder-dim", 7],
    )
    refuses(
        "--d-model is an option of --model transformer.*, not of seq2seq",
        *train,
        "seq2seq",
        *STACK.split(),
    )
    refuses(
        "--attention-penalty is an option of --model captioner, not of seq2seq",
        *[*train, "seq2seq", "--attention-penalty", 0.5],
    )
    refuses("--model is 'rnn', which is unknown: choose one of seq2seq, transformer", *train, "rnn")


def test_data_of_another_kind_is_refused(refuses, trained, tmp_path):
    options = ["--steps", 3, "--output", tmp_path / "new"]
    refuses(
        "tiny-text is a corpus of plain text, but expected sentence pairs",
        *["train", "tiny-text", *options, "--model", "seq2seq"],
    )
    refuses(
        "tiny-text is a corpus of plain text, but expected sentence pairs",
        *["evaluate", "tiny-text", "--model", trained],
    )
    refuses(
        "tiny-scenes contains images with captions, but a masked-language-model needs plain",
        *["train", "tiny-scenes", *options, "--model", "masked-language-model"],
    )


def test_what_is_needed_is_asked_for(attentively, tmp_path):
    for arguments, name in ((["tiny"], "--steps"), (["--steps", 3], "DATA")):
        code, _, err = attentively("train", *arguments, "--output", tmp_path)
        assert code == 2
        assert name in err
        assert "--config" in err


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ([], {"--output", "DATA", "--steps"}),
        (["tiny"], {"--output", "--steps"}),
        (["--steps", 3], {"--output", "DATA"}),
        (["--resume"], {"--output"}),
    ],
)
def test_everything_that_is_missing_is_named_at_once(attentively, arguments, missing):
    code, _, err = attentively("train", *arguments)
    assert code == 2
    assert {*re.findall(r"--output|--steps|DATA", err)} == missing
    assert err.count("Error") == 1


@pytest.mark.parametrize(
    ("option", "value"), [("--steps", "six"), ("--patience", "never"), ("--precision", "float8")]
)
def test_a_value_of_the_wrong_kind(attentively, tmp_path, option, value):
    code, _, err = attentively(*TRAIN, "--output", tmp_path, option, value)
    assert code == 2
    assert option in err
    assert "Traceback" not in err


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
        "no corpus is called 'klingon': choose one of .*other, tiny",
        *["train", "klingon", "--steps", 3, "--output"],
        tmp_path,
    )
    refuses("called 'klingon': choose one of", *["evaluate", "klingon", "--model", "toy-fixed"])
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_attention_or_tokenizer(attentively, refuses, tmp_path):
    code, _, err = attentively(*TRAIN, "--output", tmp_path, "--attention", "much")
    assert code == 2
    assert "much" in err
    assert "additive" in err
    assert "fixed" in err
    refuses(
        "--tokenizer is 'letters', which is unknown: choose one of word, character, bpe",
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
        ("--vocabulary-size", 5, "vocabulary_size=5 must be at least"),
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
    out = refuses("already contains a run: resume it", *TRAIN, "--output", trained)
    assert "vocabulary" not in out  # refused before it was learnt
    code, out, _ = attentively(*TRAIN, "--output", trained, "--resume")
    assert code == 0
    assert "best validation loss" in out
    assert (trained / "last.safetensors").read_bytes() == before


def test_a_best_model_is_not_overwritten(refuses, trained):
    (trained / "last.safetensors").unlink()
    before = (trained / "best.safetensors").read_bytes()
    out = refuses("already contains the best.safetensors of a run", *TRAIN, "--output", trained)
    assert "vocabulary" not in out
    assert (trained / "best.safetensors").read_bytes() == before


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
    assert re.search(
        r"interrupted at step 4; `attentively train --resume .*` resumes at step 3\n", out
    )
    assert "Traceback" not in err
    code, _, _ = attentively("train", "--output", tmp_path / "stopped", "--resume")
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
    assert "interrupted at step 2; no checkpoint was written yet, so start again\n" in out
    assert list(tmp_path.iterdir()) == []


def test_another_run_is_not_resumed(refuses, trained, tmp_path):
    resume = ["train", "--resume", "--output", trained]
    for option, value, found in (
        ("--seed", 7, "0"),
        ("--attention", "fixed", "'additive'"),
        ("--embedding-dim", 17, "11"),
        ("--tokenizer", "word", "'bpe'"),
        ("--vocabulary-size", 62, "61"),
        ("--model", "transformer", "'seq2seq'"),
        ("--steps", 12, "6"),
        ("--share-embeddings", "--seed=0", "False"),
    ):
        message = f"{option} is .*, but the run to resume has {found}$"
        refuses(message, *resume, option, value)
    refuses("DATA is 'other', but the run to resume has 'tiny'", *resume, "other")
    refuses("--d-model is an option of --model transformer", *resume, "--d-model", 7)
    refuses("exclude each other", *resume, "--start-from", trained / "best.safetensors")
    refuses("no checkpoint found at", *resume[:-1], tmp_path / "new")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "no-run" / "last.safetensors").write_bytes(
        (trained / "best.safetensors").read_bytes()
    )
    message = (
        r"no-run/last\.safetensors was not written by a training run: there is nothing to resume"
    )
    refuses(message, *resume[:-1], tmp_path / "no-run")
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(corpora.CORPORA, "tiny")
        refuses("no corpus is called 'tiny'", *resume)


def test_a_run_whose_data_has_changed_is_not_resumed(attentively, refuses, trained, monkeypatch):
    resume = ["train", "--resume", "--output", trained]

    def holding(pairs):
        changed = Corpus("tiny", split(pairs), "CC0", "nobody", "pairs")
        monkeypatch.setitem(corpora.CORPORA, "tiny", changed)

    other = [*PAIRS[:5], Pair(PAIRS[5].src, PAIRS[6].tgt), *PAIRS[6:]]
    holding(other)
    refuses("tiny has changed: there are still 13 examples, but not those", *resume)
    holding(PAIRS[:12])
    refuses("tiny has changed: .* started with 13 examples, but now there are 12$", *resume)
    holding(PAIRS)
    assert attentively(*resume)[0] == 0
    checkpoint, extra = checkpoints.load_with_extra(trained / "last.safetensors")
    del checkpoint.provenance["training_checksum"]  # as of an older version
    checkpoints.save(checkpoint, trained / "last.safetensors", extra=extra)
    holding(other)
    assert attentively(*resume)[0] == 0


def test_starting_from_another_run(attentively, refuses, trained, tmp_path):
    start = [*TRAIN, "--output", tmp_path / "next", "--start-from", trained / "best.safetensors"]
    refuses(
        "--embedding-dim is 17, but the checkpoint .*best.safetensors has 11",
        *start,
        "--embedding-dim",
        17,
    )
    refuses("--vocabulary-size is 62, but .* has 61", *start, "--vocabulary-size", 62)
    refuses("--tokenizer is 'word', but .* has 'bpe'", *start, "--tokenizer", "word")
    refuses(
        "--model is 'transformer', but .* has 'seq2seq'",
        "train",
        "tiny",
        *STEPS.split(),
        *start[-4:],
        "--model",
        "transformer",
    )
    refuses("no checkpoint found at", *start[:-1], tmp_path / "nowhere.safetensors")
    start = ["train", "other", *STEPS.split(), *start[-4:-1], trained]  # its folder will do
    code, _, _ = attentively(*start, "--learning-rate", 1e-12)  # next to no learning
    assert code == 0
    one, other = (
        checkpoints.load(folder / "best.safetensors") for folder in (trained, tmp_path / "next")
    )
    assert other.src_tokenizer.to_json() == one.src_tokenizer.to_json()
    assert other.provenance["started_from"]["data"] == "tiny"
    assert other.provenance["data"] == "other"
    for before, after in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(after, before)


def test_a_loss_that_is_no_number_is_one_line(refuses, tmp_path, monkeypatch):
    monkeypatch.setattr(
        objectives,
        "teacher_forced_loss",
        lambda model, *_: next(model.parameters()).sum() * float("nan"),
    )
    refuses("the loss is not finite .* at step", *TRAIN, "--output", tmp_path)


def test_debug_shows_where_an_error_arose(attentively, monkeypatch, tmp_path):
    arguments = [*TRAIN, "--output", tmp_path, "--steps", 0]
    code, _, err = attentively("--debug", *arguments)
    assert code == 1
    assert "Traceback" in err
    assert err.rstrip().endswith("error: steps=0 must be at least 1")
    monkeypatch.setenv("ATTENTIVELY_DEBUG", "1")
    assert "Traceback" in attentively(*arguments)[2]
    monkeypatch.setenv("ATTENTIVELY_DEBUG", "0")
    assert "Traceback" not in attentively(*arguments)[2]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("out of memory at step 3"), "error: out of memory at step 3$"),
        (MemoryError(), "error: MemoryError$"),
        (OSError(28, "No space left on device", "x"), "error: .*No space left on device: 'x'$"),
        (
            KeyError("what"),
            "error: KeyError: 'what' .`attentively --debug …` shows the traceback.$",
        ),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes"),
            "error: out of memory: use a smaller model, smaller batches or shorter texts",
        ),
    ],
)
def test_whatever_happens_is_one_line(refuses, monkeypatch, tmp_path, error, message):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(Trainer, "fit", broken)
    refuses(message, *TRAIN, "--output", tmp_path)


def test_an_interruption_has_a_code_of_its_own(attentively, monkeypatch, trained):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "translate", interrupted)
    code, _, err = attentively("translate", "--model", trained, "a dog")
    assert code == 130
    assert "Traceback" not in err


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


def test_a_file_goes_in_and_a_file_comes_out(attentively, refuses, trained, tmp_path):
    english, french = tmp_path / "english.txt", tmp_path / "french.txt"
    english.write_text("a dog sleeps .\na cat eats .\n" * 70)  # more than are done at once
    translate = ["translate", "--model", trained, "--input", english]
    code, out, _ = attentively(*translate)
    assert code == 0
    assert out.count("\n") == 140
    assert out.splitlines()[0] == out.splitlines()[138]
    code, nothing, _ = attentively(*translate, "--output", french)
    assert (code, nothing) == (0, "")
    assert french.read_text() == out
    refuses("No such file.*nowhere.txt", *translate[:-1], tmp_path / "nowhere.txt")
    refuses("not both", *translate, "a dog")


def test_a_translation_is_drawn_again_from_the_same_seed(attentively, refuses, trained):
    translate = ["translate", "--model", trained, "a dog sleeps .", "a cat eats ."]
    one, same, other = (
        attentively(*translate, "--sample", "--seed", seed, "--top-k", 20)[1] for seed in (5, 5, 6)
    )
    assert one == same
    assert one != other
    assert one.count("\n") == 2
    refuses("need --sample", *translate, "--top-k", 3)
    code, out, err = attentively("translate", "--model", trained, "--sample", "")
    assert (code, out) == (0, "\n")
    assert "empty sentence" in err


def test_a_choice_that_makes_no_sense_is_no_sentences_fault(refuses, trained):
    translate = ["translate", "--model", trained, "a dog sleeps ."]
    for option, value, message in (
        ("--temperature", 0, "temperature=0.0 must be above 0"),
        ("--top-k", 0, "top_k=0 must be at least 1"),
        ("--top-p", 2, "top_p=2.0 must be above 0 and at most 1"),
    ):
        assert refuses(message, *translate, "--sample", option, value) == ""
    for value in ("nan", "inf", "2000"):
        assert refuses("length_penalty=", *translate, "--length-penalty", value) == ""


def test_what_cannot_be_written_is_refused_before_the_model_is_loaded(refuses, tmp_path):
    (tmp_path / "folder.png").mkdir()
    message = r"folder\.png is not a regular file"
    for command in (
        ["translate", "--model", "nope", "a dog", "--output"],
        ["translate", "--model", "nope", "a dog", "--attention"],
        ["evaluate", "tiny", "--model", "nope", "--output"],
        ["evaluate", "tiny", "--model", "nope", "--json"],
        ["caption", "--model", "nope", "--plot"],
        ["vectors", "score", "--vectors", "nope", "--json"],
        ["experiment", "bottleneck", "--quick", "--output"],
    ):
        refuses(message, *command, tmp_path / "folder.png")


def test_a_byte_order_mark_changes_no_translation(attentively, trained, tmp_path):
    plain, marked = b"a dog sleeps .\n", b"\xef\xbb\xbfa dog sleeps .\r\n"
    (tmp_path / "marked.txt").write_bytes(marked)
    translate = ["translate", "--model", trained]
    expected = attentively(*translate, stdin=plain)
    assert expected[0] == 0
    assert attentively(*translate, stdin=marked) == expected
    assert attentively(*translate, "--input", tmp_path / "marked.txt") == expected


def test_a_line_that_is_not_utf_8_is_named(refuses, trained, tmp_path):
    latin = b"a dog sleeps .\n" * 70 + "où ?\n".encode("latin-1")
    (tmp_path / "latin.txt").write_bytes(latin)
    message = "is not UTF-8: byte 0xf9 in line 71$"
    translate = ["translate", "--model", trained]
    assert refuses(f"latin.txt {message}", *translate, "--input", tmp_path / "latin.txt") == ""
    refuses(f"standard input {message}", *translate, stdin=latin)


class Tables(HTMLParser):
    """Collects what a page holds."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scopes, self.options, self.linked, self.cells = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append(tag)
        self.scopes.append(attributes.get("scope"))
        self.linked += [value for name, value in attributes.items() if name in ("src", "href")]

    def handle_data(self, data):
        if self.tags[-1:] == ["td"] and data.strip().isdigit():
            self.cells.append(int(data))
        elif self.tags[-1:] == ["option"] and data.strip():
            self.options.append(data)


def test_where_the_model_looked_as_picture_and_page(attentively, refuses, trained, tmp_path):
    translate = ["translate", "--model", trained, "a dog sleeps .", "a <cat> eats ."]
    picture, written = tmp_path / "plot.png", tmp_path / "page.html"
    code, out, err = attentively(*translate, "--attention", picture, "--attention", written)
    assert code == 0
    assert out.count("\n") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in err
    found = Tables(written.read_text())
    assert found.tags.count("table") == found.tags.count("caption") == 2
    assert found.scopes.count("col") > 4
    assert found.scopes.count("row") > 2
    assert found.linked == []  # nothing is loaded
    assert "select" not in found.tags  # there is nothing to choose
    assert "&lt;cat&gt;" in written.read_text()
    rows = written.read_text().count('<tr><th scope="row">')
    assert sum(found.cells) == pytest.approx(100 * rows, abs=3 * rows)
    refuses(
        r"an \.html page or a \.png heat map, but the file is look\.pdf",
        *translate,
        "--attention",
        "look.pdf",
    )


def test_a_transformer_shows_each_head(attentively, tmp_path):
    train = f"train tiny --model transformer {STEPS} {STACK} --num-layers 2 --tokenizer bpe"
    code, _, err = attentively(
        *train.split(), "--vocabulary-size", 61, "--output", tmp_path / "run"
    )
    assert code == 0, err
    page = tmp_path / "page.html"
    for options in ([], ["--sample"]):
        code, _, err = attentively(
            "translate", "--model", tmp_path / "run", "a dog .", "", *options, "--attention", page
        )
        assert code == 0, err
        [text] = re.findall(
            r'<script type="application/json"[^>]*>(.*?)</script>', page.read_text()
        )
        attentions = json.loads(text)
        assert [one["role"] for one in attentions] == ["cross", "encoder", "decoder"]
        for one in attentions:
            weights = torch.tensor(one["weights"])  # per mille
            assert weights.shape == (2, 2, len(one["queries"]), len(one["keys"]))
            sums = weights.sum(dim=-1).float()
            torch.testing.assert_close(sums, torch.full_like(sums, 1000), atol=9, rtol=0)


def test_a_model_without_attention_has_nothing_to_show(attentively, refuses, tmp_path):
    code, _, _ = attentively(*TRAIN, "--attention", "fixed", "--output", tmp_path / "run")
    assert code == 0
    translate = ["translate", "--model", tmp_path / "run", "a dog", "--attention"]
    refuses("there are no attention weights to show", *translate, tmp_path / "page.html")
    refuses("there are no attention weights to show", *translate, tmp_path / "plot.png")


def test_an_unknown_model_lists_those_there_are(refuses, tmp_path):
    names = ", ".join(checkpoints.pretrained_names())
    for command in (["translate", "a dog"], ["evaluate", "tiny"]):
        refuses(
            f"no pretrained model is called 'nope': choose one of {names}$",
            *command,
            "--model",
            "nope",
        )
        refuses("no checkpoint found at", *command, "--model", tmp_path / "nope.safetensors")
        (tmp_path / "bad.safetensors").write_bytes(b"nothing good")
        refuses("is damaged or not a checkpoint", *command, "--model", tmp_path / "bad.safetensors")


def test_evaluating(attentively, refuses, trained, tmp_path):
    texts, numbers = tmp_path / "o.tsv", tmp_path / "scores.json"
    code, out, _ = attentively(
        *["evaluate", "tiny", "--model", trained, "--beam-size", 1],
        *["--output", texts, "--json", numbers],
    )
    assert code == 0
    for line in ("sentences +3", "bleu +", "chrf +", "exact_match +", "perplexity +"):
        assert re.search(line, out), out
    assert "nrefs:1|case:mixed" in out  # sacreBLEU's signature
    found = json.loads(numbers.read_text())
    assert (found["data"], found["split"], found["sentences"]) == ("tiny", "test", 3)
    assert len(texts.read_text().splitlines()) == 3
    refuses("split='all' is unknown", "evaluate", "toy", "--model", trained, "--split", "all")


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_texts_are_written_by_models_that_say_some(
    attentively, refuses, trained_as, family, tmp_path
):
    kept = tmp_path / "keep.tsv"
    kept.write_text("precious")
    evaluate = ["evaluate", EACH_FAMILY[family].split()[0], "--model", trained_as(family)]
    if "language-model" in family:
        out = refuses(
            f"a {family} has no outputs to write: leave out --output", *evaluate, "--output", kept
        )
        assert "perplexity" not in out  # refused before the work
        assert kept.read_text() == "precious"
    else:
        assert attentively(*evaluate, "--output", kept)[0] == 0
        assert "\t" in kept.read_text()


def test_a_model_is_a_file_of_any_name(attentively, trained, tmp_path):
    (trained / "best.safetensors").rename(tmp_path / "m.ckpt")
    code, out, err = attentively("translate", "--model", tmp_path / "m.ckpt", "a dog sleeps .")
    assert (code, out.count("\n")) == (0, 1), err


def test_the_models_that_ship(attentively):
    code, out, _ = attentively("models")
    assert code == 0
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in out.splitlines() if line}
    for name in checkpoints.pretrained_names():
        assert type(checkpoints.load_pretrained(name).model).__name__ in rows[name]
    assert re.search(r"Seq2Seq +toy +MIT +BLEU 64\.6, perplexity 1\.62$", rows["toy-fixed"])
    assert rows["digits-captioner"].endswith("perplexity 1.19, correct captions 73%")
    code, out, _ = attentively("models", "shakespeare-gpt")
    assert "attribution: William Shakespeare" in out
    assert "command: attentively train --config shakespeare-gpt" in out


def test_an_unknown_model_has_no_description(refuses):
    refuses(r"called 'toy-fixd' \(did you mean 'toy-fixed'\?\)", "models", "toy-fixd")


# generate, classify, fill, caption


@pytest.fixture
def trained_as(attentively, tmp_path):
    """Train a model of a family for a few steps; return its folder."""

    def train(family):
        data, *options = EACH_FAMILY[family].split()
        arguments = ["train", data, "--model", family, *STEPS.split(), *options]
        code, _, err = attentively(*arguments, "--output", tmp_path / family)
        assert code == 0, err
        return tmp_path / family

    return train


def test_writing_on(attentively, refuses, trained_as, trained):
    generate = ["generate", "--model", trained_as("language-model"), "--max-len", 5]
    code, out, _ = attentively(*generate, "un chien", "--samples", 3)
    assert code == 0
    assert len(out.split("\n\n")) == 3
    assert all(text.startswith("un chien") for text in out.split("\n\n"))
    assert attentively(*generate, "un chien", "--samples", 3)[1] == out
    assert attentively(*generate, "un chien", "--samples", 3, "--seed", 1)[1] != out
    code, out, _ = attentively(*generate, "--beam-size", 2)
    assert (code, out.count("\n")) == (0, 1)
    code, out, err = attentively(*generate, "zebra")
    assert code == 0
    assert "note: " in err
    assert "unknown words: zebra" in err
    refuses("--beam-size replaces sampling", *generate, "--beam-size", 2, "--seed", 3)
    refuses("max_len=0 must be at least 1", *generate[:3], "--max-len", 0)
    refuses("temperature=0.0", *generate, "--temperature", 0)
    refuses(f"seed={10**23} must be from", *generate, "--seed", 10**23)
    assert "unknown white space" in attentively(*generate, "un\tchien")[2]
    refuses("a Seq2Seq cannot continue a text", "generate", "--model", trained)


def test_labelling(attentively, refuses, trained_as, trained):
    model = trained_as("classifier")
    code, out, err = attentively("classify", "--model", model, "a dog sleeps .", "a zebra .")
    assert code == 0
    for line, text in zip(out.splitlines(), ["a dog sleeps .", "a zebra ."], strict=True):
        label, probability, said = line.split("\t")
        assert label in ("ps", "ts", "gs", "ns")
        assert 0.25 <= float(probability) <= 1
        assert said == text
    assert "unknown words: zebra" in err
    code, _, err = attentively("classify", "--model", model, "", "a dog sleeps .")
    assert (code, err) == (0, "note: empty sentence\n")
    stdin = "a dog sleeps .\na zebra .\n"
    assert attentively("classify", "--model", model, stdin=stdin)[1] == out
    marked = b"\xef\xbb\xbf" + stdin.encode()
    assert attentively("classify", "--model", model, stdin=marked)[1] == out
    refuses("standard input is not UTF-8", "classify", "--model", model, stdin=b"\xff")
    refuses("a Seq2Seq cannot classify text", "classify", "--model", trained, "a dog")
    refuses("a Classifier cannot translate text", "translate", "--model", model, "a dog")


def test_filling_gaps(attentively, refuses, trained_as, trained):
    fill = ["fill", "--model", trained_as("masked-language-model")]
    code, out, _ = attentively(*fill, f"a {predict.GAP} {predict.GAP} .", "--guesses", 2)
    assert code == 0
    assert len(out.splitlines()) == 3
    assert out.splitlines()[1].count("%") == 2
    assert attentively(*fill, "--guesses", 2, stdin="a ___ ___ .\n")[1] == out
    marked = b"\xef\xbb\xbfa ___ ___ .\n"
    assert attentively(*fill, "--guesses", 2, stdin=marked)[1] == out
    code, again, err = attentively(*fill, "--guesses", 2, stdin="\na ___ ___ .\n \na ___ ___ .\n")
    assert (code, again) == (0, f"\n{out}\n{out}")  # a line for each, as `translate` has it
    assert err == "note: empty sentence\n" * 2
    refuses("standard input is not UTF-8", *fill, stdin=b"\xff")
    refuses("'a dog' has no gap: write ___", *fill, "a dog")
    refuses("guesses=0 must be at least 1", *fill, "a ___", "--guesses", 0)
    refuses("a Seq2Seq cannot fill gaps", "fill", "--model", trained, "a ___")


def test_describing_scenes(attentively, refuses, trained_as, trained, tmp_path):
    caption = ["caption", "--model", trained_as("captioner"), "--scenes", 2]
    code, out, _ = attentively(*caption, "--plot", tmp_path / "focus.png")
    assert code == 0
    assert out.count("correct)") == 2
    assert (tmp_path / "focus.png").read_bytes().startswith(b"\x89PNG")
    refuses("scenes=0 must be at least 1", *caption[:-1], 0)
    refuses(r"--plot writes a \.png image", *caption, "--plot", tmp_path / "focus.svg")
    refuses("a Seq2Seq cannot caption images", "caption", "--model", trained)


# data and experiments


def test_unknown_data_lists_what_there_is(refuses):
    refuses("no data set is called 'nope': choose one of .*tatoeba-en-fr", "data", "get", "nope")


def test_an_unknown_experiment_lists_what_there_is(refuses):
    refuses("'nope'.*choose one of .*bottleneck", "experiment", "nope")


def test_the_help_of_an_experiment_says_where_its_results_go(attentively, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    said = attentively("experiment", "--help")[1]
    assert "book/results/NAME.json, or runs/NAME-quick.json with --quick" in said


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_only_the_program_itself_offers_to_complete_the_shell(command):
    """Its commands are no programs of their own."""
    assert cli.app._add_completion
    module = importlib.import_module(f"attentively.cli.{cli.COMMANDS[command]}")
    assert not module.app._add_completion


@pytest.mark.parametrize("size", [0, -1, 4])
def test_a_vocabulary_without_room_is_refused(refuses, tmp_path, size):
    train = [*TRAIN, "--output", tmp_path / "run", "--vocabulary-size", size]
    for kind in ("bpe", "word"):
        refuses(f"vocabulary_size={size} must exceed", *train, "--tokenizer", kind)


def test_a_seed_that_pytorch_does_not_take_is_refused(refuses, tmp_path):
    refuses(f"seed={10**23} must be from", *TRAIN, "--output", tmp_path, "--seed", 10**23)
