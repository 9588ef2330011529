"""A checkpoint comes back as it was, or is refused."""

import json
import struct
from dataclasses import dataclass

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_models import SRC_VOCAB, TGT_VOCAB, sentences, seq2seq

from attentively import pretrained_files
from attentively.config import VocabSizes
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint, CheckpointError
from attentively.models.configs import Seq2SeqConfig
from attentively.models.interface import ModelKindError
from attentively.models.language_model import LanguageModel
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import UNK_ID, BPETokenizer, Vocabulary, WordTokenizer


def words(size, prefix="w"):
    return WordTokenizer(Vocabulary(f"{prefix}{index}" for index in range(size - 4)))


def checkpoint(**changes):
    model = seq2seq(**changes)
    src, tgt = words(SRC_VOCAB), words(model.config.tgt_vocab_size, "m")
    return Checkpoint(model, src, tgt, {"command": "attentively train", "seed": 7, "é": [1.5]})


@pytest.fixture
def path(tmp_path):
    """A sound checkpoint."""
    checkpoints.save(checkpoint(), tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def logits(model, given=None):
    given = given or sentences()
    with torch.no_grad():
        memory = model.encode(given.src, given.src_mask)
        return model.decode(given.tgt, memory).logits


def header_of(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write(path, header, tensors):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + tensors)


def test_it_comes_back_as_it_was(path):
    saved, loaded = checkpoint(), checkpoints.load(path)
    assert torch.equal(logits(loaded.model), logits(saved.model))
    assert loaded.model.config == saved.model.config
    assert not loaded.model.training
    assert loaded.provenance == saved.provenance
    for name in ("src_tokenizer", "tgt_tokenizer"):
        assert getattr(loaded, name).to_json() == getattr(saved, name).to_json()
    assert loaded.src_tokenizer.encode("w3 m3") == [7, UNK_ID, 3]


def test_one_joint_tokenizer_is_written_once_and_is_one_again(tmp_path):
    joint = BPETokenizer.train(["the animal crossed the street"], SRC_VOCAB)
    model = seq2seq(src_vocab_size=len(joint), tgt_vocab_size=len(joint), share_embeddings=True)
    checkpoints.save(Checkpoint(model, joint, joint), tmp_path / "joint.safetensors")
    loaded = checkpoints.load(tmp_path / "joint.safetensors")
    assert loaded.src_tokenizer is loaded.tgt_tokenizer
    assert loaded.tgt_tokenizer.to_json() == joint.to_json()
    content, _ = checkpoints.read(tmp_path / "joint.safetensors")
    assert content["tgt_tokenizer"] == ""


def test_half_precision_is_about_half_as_large_and_about_the_same(tmp_path):
    saved = checkpoint(encoder_dim=61, decoder_dim=67)
    for half in (False, True):
        checkpoints.save(saved, tmp_path / f"{half}.safetensors", half_precision=half)
    sizes = [(tmp_path / f"{half}.safetensors").stat().st_size for half in (False, True)]
    assert sizes[1] < 0.6 * sizes[0]
    loaded = checkpoints.load(tmp_path / "True.safetensors").model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    assert not torch.equal(logits(loaded), logits(saved.model))
    torch.testing.assert_close(logits(loaded), logits(saved.model), atol=0.05, rtol=0.05)


def test_saving_leaves_the_model_as_it_was(tmp_path):
    saved = checkpoint()
    saved.model.train()
    checkpoints.save(saved, tmp_path / "half.safetensors", half_precision=True)
    assert saved.model.training
    assert {parameter.dtype for parameter in saved.model.parameters()} == {torch.float32}


def test_extra_tensors_stand_beside_the_model(tmp_path):
    extra = {"optimizer.0.step": torch.tensor(7.0), "random.cpu": torch.get_rng_state()}
    checkpoints.save(checkpoint(), tmp_path / "run.safetensors", extra=extra)
    _, tensors = checkpoints.read(tmp_path / "run.safetensors")
    for name, value in extra.items():
        assert torch.equal(tensors[name], value)
    assert torch.equal(
        logits(checkpoints.load(tmp_path / "run.safetensors").model), logits(checkpoint().model)
    )


def test_extra_tensors_come_back_beside_the_checkpoint(tmp_path):
    extra = {"optimizer.0.step": torch.tensor(3.0), "random.cpu.0": torch.get_rng_state()}
    checkpoints.save(checkpoint(), tmp_path / "m.safetensors", extra=extra)
    loaded, found = checkpoints.load_with_extra(tmp_path / "m.safetensors")
    assert found.keys() == extra.keys()
    assert all(torch.equal(found[name], extra[name]) for name in extra)
    assert loaded.provenance == checkpoint().provenance


class Normalised(Seq2Seq):
    """A model with buffers: one that is learnt, with whole numbers beside it, and one that is
    made anew.
    """

    def __init__(self, config):
        super().__init__(config)
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("table", torch.arange(5.0), persistent=False)


@pytest.mark.parametrize("half_precision", [False, True])
def test_buffers_come_back_too(tmp_path, monkeypatch, half_precision):
    monkeypatch.setitem(checkpoints.MODELS, "Normalised", (Normalised, Seq2SeqConfig))
    whole = checkpoint()
    whole.model = Normalised(whole.model.config)
    whole.model.norm(torch.randn(7, 3))  # moves its running mean, and counts
    checkpoints.save(whole, tmp_path / "m.safetensors", half_precision)
    _, tensors = checkpoints.read(tmp_path / "m.safetensors")
    assert "model.table" not in tensors
    norm = checkpoints.load(tmp_path / "m.safetensors").model.norm
    assert norm.num_batches_tracked == 1
    assert norm.running_mean.abs().max() > 0
    torch.testing.assert_close(norm.running_mean, whole.model.norm.running_mean, atol=1e-3, rtol=0)


def test_a_model_that_reads_or_writes_no_text_has_no_tokenizer_there(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class WritesOnlyConfig(Seq2SeqConfig):
        @property
        def vocab_sizes(self):
            return VocabSizes(None, self.tgt_vocab_size)

    monkeypatch.setitem(checkpoints.MODELS, "Seq2Seq", (Seq2Seq, WritesOnlyConfig))
    whole = checkpoint()
    model = Seq2Seq(WritesOnlyConfig(**whole.model.config.to_dict()))
    path = tmp_path / "m.safetensors"
    checkpoints.save(Checkpoint(model, None, whole.tgt_tokenizer), path)
    loaded = checkpoints.load(path)
    assert loaded.src_tokenizer is None
    assert loaded.tgt_tokenizer.to_json() == whole.tgt_tokenizer.to_json()
    with pytest.raises(ModelKindError, match="a Seq2Seq cannot translate text"):
        loaded.translator()
    checkpoints.save(whole, path)
    with pytest.raises(CheckpointError, match=r"the model needs VocabSizes"):
        checkpoints.load(path)


def test_the_mean_of_weights_is_taken_number_by_number():
    states = [
        {"w": torch.tensor([1.0, 4.0]), "count": torch.tensor(3)},
        {"w": torch.tensor([2.0, 8.0]), "count": torch.tensor(5)},
        {"w": torch.tensor([6.0, 0.0]), "count": torch.tensor(7)},
    ]
    mean = checkpoints.mean_weights(states)
    assert mean["w"].tolist() == [3.0, 4.0]
    assert mean["count"] == 7  # what is counted is the last's
    with pytest.raises(ValueError, match="cannot average checkpoints"):
        checkpoints.mean_weights([])
    with pytest.raises(ValueError, match="cannot average checkpoints: their parameter names"):
        checkpoints.mean_weights([states[0], {"v": torch.zeros(1)}])


def test_a_file_can_be_saved_over_itself(path):
    loaded = checkpoints.load(path)
    loaded.provenance["seed"] = 11
    checkpoints.save(loaded, path)
    assert checkpoints.load(path).provenance["seed"] == 11


def full_disk(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_earlier_checkpoint(path, monkeypatch):
    before = path.read_bytes()
    other = checkpoint(seed=1)
    monkeypatch.setattr(checkpoints, "save_file", full_disk)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(other, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_may_not_grow_is_an_os_error(path):
    """The system itself refuses to write on, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits on file sizes are Unix's")
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(OSError, match=r"cannot write .*model\.safetensors"):
            checkpoints.save(checkpoint(seed=1), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"no checkpoint found at .*nowhere\.safetensors"):
        checkpoints.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(CheckpointError, match="no checkpoint found at"):
        checkpoints.load(tmp_path)  # a folder


@pytest.mark.parametrize("content", [b"", b"short", b"not a checkpoint at all\n" * 100, bytes(999)])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    (tmp_path / "other.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"other\.safetensors is damaged or not a checkpoint"):
        checkpoints.load(tmp_path / "other.safetensors")


def test_tensors_of_another_program_are_refused(tmp_path):
    save_file({"weight": torch.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(
        CheckpointError, match="has format None, but expected 'attentively checkpoint 1'"
    ):
        checkpoints.load(tmp_path / "other.safetensors")


def test_a_truncated_file_is_refused(path):
    content = path.read_bytes()
    for length in [*range(0, len(content), 997), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            checkpoints.load(path)


def test_damage_anywhere_in_the_header_is_refused_or_harmless(path):
    """Whatever happens to a byte, the only error is ours."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    given, expected = sentences(), logits(checkpoint().model)
    refused = 0
    places = [*range(8), *range(8, 8 + length, 13)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= (0x01, 0x20, 0x80)[place % 3]
        path.write_bytes(damaged)
        try:
            loaded = checkpoints.load(path)
        except CheckpointError:
            refused += 1
        else:  # a letter of a word, or of the provenance
            assert logits(loaded.model, given).shape == expected.shape
    assert refused > len(places) / 3


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("format", "attentively checkpoint 7", "has format 'attentively checkpoint 7'"),
        ("model", "Perceiver", r"of kind 'Perceiver'; known kinds are \['Captioner', .*'Seq2Seq'"),
        ("config", "{}", r"needs values for \['src_vocab_size', 'tgt_vocab_size'\]"),
        ("config", '{"wings": 2}', r"has no field \['wings'\]"),
        ("config", "[", "damaged"),
        ("config", "7", "damaged"),
        ("src_tokenizer", "{}", "expected a tokenizer of kind 'word'"),
        ("provenance", "", "damaged"),
    ],
)
def test_a_field_that_is_wrong_is_refused(path, field, value, message):
    header, tensors = header_of(path)
    header["__metadata__"][field] = value
    write(path, header, tensors)
    with pytest.raises(CheckpointError, match=message):
        checkpoints.load(path)


@pytest.mark.parametrize(
    "field", ["format", "model", "config", "src_tokenizer", "tgt_tokenizer", "provenance"]
)
def test_a_field_that_is_missing_is_refused(path, field):
    header, tensors = header_of(path)
    del header["__metadata__"][field]
    write(path, header, tensors)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        checkpoints.load(path)


def test_tensors_that_do_not_fit_the_configuration_are_named(path):
    header, tensors = header_of(path)
    config = json.loads(header["__metadata__"]["config"]) | {"attention_dim": 13}
    header["__metadata__"]["config"] = json.dumps(config)
    write(path, header, tensors)
    with pytest.raises(CheckpointError, match=r"do not match .*decoder\.attention\.energy\.weight"):
        checkpoints.load(path)


@pytest.mark.parametrize("change", ["missing", "surplus"])
def test_a_tensor_too_few_or_too_many_is_refused(path, change):
    content, tensors = checkpoints.read(path)
    if change == "missing":
        del tensors["model.decoder.bridge.bias"]
    else:
        tensors["model.decoder.bridge.bias2"] = torch.ones(3)
    save_file(tensors, path, metadata=content)
    with pytest.raises(CheckpointError, match=r"do not match .*decoder\.bridge\.bias"):
        checkpoints.load(path)


def test_a_tokenizer_that_does_not_fit_the_model_is_refused(path):
    header, tensors = header_of(path)
    header["__metadata__"]["src_tokenizer"] = words(SRC_VOCAB + 1).to_json()
    write(path, header, tensors)
    with pytest.raises(CheckpointError, match=rf"\({SRC_VOCAB + 1}, {TGT_VOCAB}\) tokens"):
        checkpoints.load(path)


def test_the_file_can_be_read_without_this_package(path):
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["provenance"])["seed"] == 7
        assert file.get_tensor("model.decoder.output.bias").shape == (TGT_VOCAB,)


def test_an_unknown_pretrained_name_lists_those_there_are(monkeypatch, tmp_path):
    for name in ("toy-additive", "another"):
        checkpoints.save(checkpoint(), tmp_path / f"{name}.safetensors")
    (tmp_path / "registry.txt").write_text("toy-additive.safetensors 0\nanother.safetensors 0\n")
    monkeypatch.setattr(pretrained_files, "FOLDER", tmp_path)
    assert checkpoints.pretrained_names() == ["another", "toy-additive"]
    with pytest.raises(CheckpointError, match="called 'nope': choose one of another, toy-additive"):
        checkpoints.load_pretrained("nope")
    with pytest.raises(CheckpointError, match="no pretrained model is called"):
        checkpoints.load_pretrained("../another")
    with pytest.raises(CheckpointError, match=r"'anothr' \(did you mean 'another'\?\): choose"):
        checkpoints.load_pretrained("anothr")
    assert torch.equal(
        logits(checkpoints.load_pretrained("another").model), logits(checkpoint().model)
    )


def test_checkpoints_ship():
    ours = {"toy-additive", "toy-fixed", "toy-transformer", "shakespeare-gpt"}
    ours |= {"tatoeba-en-fr-additive", "tatoeba-en-fr-transformer", "digits-captioner"}
    ours |= {f"ladder-{rung}" for rung in ("fixed", "additive", "dot", "general", "concat")}
    assert ours <= set(checkpoints.pretrained_names())


@pytest.mark.parametrize("name", checkpoints.pretrained_names())
def test_every_shipped_checkpoint_loads_and_says_where_it_is_from(name):
    shipped = checkpoints.load_pretrained(name)
    for said in ("command", "data", "data_licence", "attribution", "device", "seconds"):
        assert shipped.provenance.get(said), said
    if isinstance(shipped.model, LanguageModel):
        logits = shipped.model(torch.tensor([shipped.tgt_tokenizer.encode("the animal")]))
        assert logits.shape == (1, len("the animal") + 1, len(shipped.tgt_tokenizer))
        assert logits.isfinite().all()
        return
    if shipped.src_tokenizer is None:  # it reads images
        src = torch.rand(1, 1, shipped.model.config.height, shipped.model.config.width)
    else:
        ids = shipped.src_tokenizer.encode("the animal")
        assert UNK_ID not in ids
        src = torch.tensor([ids])
    with torch.inference_mode():
        memory = shipped.model.encode(src)
        output = shipped.model.decode(torch.tensor([[2]]), memory)
    assert output.logits.shape == (1, 1, len(shipped.tgt_tokenizer))
    assert output.logits.isfinite().all()


def test_an_unknown_device_is_not_blamed_on_the_file():
    with pytest.raises(RuntimeError) as caught:
        checkpoints.load_pretrained("toy-additive", "gpu")
    assert "gpu" in str(caught.value)
    assert "damaged" not in str(caught.value)
