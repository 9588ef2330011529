"""A model in a folder comes back as it was, other libraries read it, and no save loses a model."""

import json
import os

import pytest
import safetensors.torch
import tokenizers
import torch
from tiny_models import SRC_VOCAB, TGT_VOCAB, sentences, seq2seq, stack_model, transformer

from attentively.models import checkpoints, pretrained_folder
from attentively.models.checkpoints import Checkpoint, CheckpointError
from attentively.models.configs import ClassifierConfig, LanguageModelConfig
from attentively.models.encoder_heads import Classifier
from attentively.models.language_model import LanguageModel
from attentively.models.pretrained_folder import load_folder, save_folder
from attentively.tokens.vocabulary import CharacterTokenizer, Vocabulary, WordTokenizer


def words(size, prefix="w"):
    return WordTokenizer(Vocabulary(f"{prefix}{index}" for index in range(size - 4)))


def letters(size):
    return CharacterTokenizer(Vocabulary(map(chr, range(97, 97 + size - 4))))


def joint():
    sizes = {"src_vocab_size": SRC_VOCAB, "tgt_vocab_size": SRC_VOCAB, "share_embeddings": True}
    both = words(SRC_VOCAB)
    return Checkpoint(transformer(**sizes), both, both)


MAKE = {
    "two tokenizers": lambda: Checkpoint(
        seq2seq(), words(SRC_VOCAB), words(TGT_VOCAB, "m"), {"seed": 7, "é": [1.5]}
    ),
    "one tokenizer": joint,
    "language model": lambda: Checkpoint(
        stack_model(LanguageModel, LanguageModelConfig), None, letters(SRC_VOCAB)
    ),
    "classifier": lambda: Checkpoint(
        stack_model(Classifier, ClassifierConfig, labels=("no", "yes")), words(SRC_VOCAB), None
    ),
}
FILES = {"config.json", "model.safetensors", "tokenizer.json"}


def outputs(checkpoint):
    given = sentences()
    kinds = (LanguageModel, Classifier)
    with torch.no_grad():
        if isinstance(checkpoint.model, kinds):
            return checkpoint.model(given.src)
        return checkpoint.model(given.src, given.tgt % SRC_VOCAB)


def same(one, other):
    return (
        torch.equal(outputs(one), outputs(other))
        and one.model.config == other.model.config
        and one.provenance == other.provenance
        and all(
            (mine and mine.to_json()) == (its and its.to_json())
            for mine, its in (
                (one.src_tokenizer, other.src_tokenizer),
                (one.tgt_tokenizer, other.tgt_tokenizer),
            )
        )
    )


@pytest.fixture
def folder(tmp_path):
    """A sound folder of a model with two tokenizers."""
    save_folder(MAKE["two tokenizers"](), tmp_path / "model")
    return tmp_path / "model"


def changed(path, **changes):
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value != "gone"}))


@pytest.mark.parametrize("kind", MAKE)
def test_it_comes_back_as_it_was(kind, tmp_path):
    saved = MAKE[kind]()
    save_folder(saved, tmp_path / "new" / "model")
    loaded = load_folder(tmp_path / "new" / "model")
    assert same(loaded, saved)
    assert not loaded.model.training
    assert (loaded.src_tokenizer is loaded.tgt_tokenizer) == (kind == "one tokenizer")
    two = {"target_tokenizer.json"} if kind == "two tokenizers" else set()
    assert {*os.listdir(tmp_path / "new" / "model")} == FILES | two
    with torch.no_grad():
        next(saved.model.parameters()).mul_(1.01)
    assert not same(loaded, saved)


def test_other_libraries_read_it(folder):
    saved = MAKE["two tokenizers"]()
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    assert tensors.keys() == saved.model.state_dict().keys()
    for name, value in saved.model.state_dict().items():
        assert torch.equal(tensors[name], value)
    for name, ours in (
        ("tokenizer.json", saved.src_tokenizer),
        ("target_tokenizer.json", saved.tgt_tokenizer),
    ):
        theirs = tokenizers.Tokenizer.from_file(str(folder / name))
        assert theirs.encode("w3 m2 ?").ids == ours.encode("w3 m2 ?")
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["Seq2Seq"]
    assert config["encoder_dim"] == saved.model.config.encoder_dim


@pytest.mark.parametrize("name", [*sorted(FILES), "target_tokenizer.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"is not a complete model: it has no {name}"):
        load_folder(folder)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"nothing is not a complete model.*config\.json"):
        load_folder(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "target_tokenizer.json"])
def test_damage_is_found(folder, name):
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} is damaged, or belongs to another save"):
        load_folder(folder)


def test_files_of_two_saves_do_not_mix(folder, tmp_path):
    """The same sizes, other weights: only the checksum differs."""
    other = MAKE["two tokenizers"]()
    with torch.no_grad():
        next(other.model.parameters()).add_(1)
    save_folder(other, tmp_path / "other")
    (tmp_path / "other" / "model.safetensors").replace(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged, or belongs to"):
        load_folder(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["BertModel"]}, "a model of kind 'BertModel'; known kinds are"),
        ({"architectures": "gone"}, "was not written by save_pretrained"),
        ({"sha256": "gone"}, "was not written by save_pretrained"),
        ({"encoder_dim": 5}, "do not match the configuration"),
        ({"encoder_dim": "gone"}, "do not match the configuration"),
        ({"src_vocab_size": "gone"}, "needs values for .'src_vocab_size'"),
        ({"dim": 5}, "has no field .'dim'"),
        ({"tokenizers": ["tokenizer.json", "tokenizer.json"]}, "the tokenizers have"),
        ({"tokenizers": [None, "x.json"]}, "is damaged: 'x.json'"),
    ],
)
def test_a_wrong_configuration_is_refused(folder, change, message):
    changed(folder / "config.json", **change)
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "é"])
def test_a_configuration_that_is_no_json_object_is_refused(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"config\.json was not written by save_pretrained"):
        load_folder(folder)


def other_model():
    other = MAKE["two tokenizers"]()
    other.provenance["seed"] = 8
    return other


def test_a_new_save_replaces_the_model_and_keeps_other_files(folder):
    (folder / "README.md").write_text("mine")
    save_folder(other_model(), folder)
    assert load_folder(folder).provenance["seed"] == 8
    assert (folder / "README.md").read_text() == "mine"
    save_folder(MAKE["language model"](), folder)
    assert same(load_folder(folder), MAKE["language model"]())


@pytest.mark.parametrize("written", range(4))
def test_a_save_that_fails_loses_nothing(folder, monkeypatch, written):
    """The disk is full after some files: the earlier model is still there, and nothing else."""
    files = sorted(os.listdir(folder))
    left = iter([*range(written), None])
    write = pretrained_folder.Path.write_bytes

    def full(path, content):
        if next(left) is None:
            write(path, content[: len(content) // 2])
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(pretrained_folder.Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        save_folder(other_model(), folder)
    monkeypatch.undo()
    assert same(load_folder(folder), MAKE["two tokenizers"]())
    assert sorted(os.listdir(folder)) == files


def test_a_save_in_place_would_lose_a_model(folder, monkeypatch):
    """Broken twin: files that are replaced one by one as they are written."""
    monkeypatch.setattr(pretrained_folder, "replacing", lambda path: _InPlace(path))
    with pytest.raises(CheckpointError, match="belongs to another save"):
        test_a_save_that_fails_loses_nothing(folder, monkeypatch, 2)


class _InPlace:
    def __init__(self, path):
        self.path = path

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        return None


def test_a_shipped_model_comes_back(tmp_path):
    shipped = checkpoints.load_pretrained("toy-transformer")
    save_folder(shipped, tmp_path)
    assert same(load_folder(tmp_path), shipped)
