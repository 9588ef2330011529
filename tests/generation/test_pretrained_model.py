"""A model that is ready to use: one text or several, and one way to load it for everyone."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from tiny_models import stack_model

from attentively import cli, device
from attentively.generation import generate, predict, pretrained_model
from attentively.generation.pretrained_model import PretrainedModel, load
from attentively.generation.search import Beam
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint, CheckpointError
from attentively.models.configs import ClassifierConfig, MaskedLanguageModelConfig
from attentively.models.encoder_heads import Classifier, MaskedLanguageModel
from attentively.models.interface import ModelKindError
from attentively.tokens.vocabulary import Vocabulary, WordTokenizer

SENTENCES = ["the girl does not see the dog", "the animal sleeps"]
WORDS = WordTokenizer(Vocabulary(f"w{index}" for index in range(19)))


@pytest.fixture(scope="module")
def toy():
    return load("toy-transformer")


@pytest.fixture(scope="module")
def shakespeare():
    return load("shakespeare-gpt")


def classifier():
    return PretrainedModel(
        stack_model(Classifier, ClassifierConfig, labels=("no", "yes")), WORDS, None
    )


def test_one_sentence_gives_a_text_and_a_list_gives_a_list(toy):
    expected = [one.text for one in generate.translate(toy, SENTENCES)]
    assert toy.translate(SENTENCES[0]) == expected[0] == "la fille ne voit pas le chien"
    assert toy.translate(SENTENCES) == toy.translate(tuple(SENTENCES)) == expected
    assert toy.translate([SENTENCES[1]]) == expected[1:]
    assert toy.translate([]) == []


def test_a_model_is_shown_without_its_provenance(toy):
    shown = repr(toy)
    assert shown.startswith("PretrainedModel(model=Transformer(")
    assert toy.provenance["command"] not in shown


def test_the_settings_of_the_search_are_passed_on(toy, monkeypatch):
    asked = []
    monkeypatch.setattr(generate, "translate", lambda *given, **named: asked.append(given) or [])
    toy.translate([], 1, 0.6)
    assert asked == [(toy, [], 1, 0.6)]
    monkeypatch.undo()
    with pytest.raises(ValueError, match="beam_size=0 must be at least 1"):
        toy.translate(SENTENCES, beam_size=0)


def test_remarks_are_warnings(toy):
    with pytest.warns(UserWarning, match="empty|unknown") as caught:
        assert toy.translate(["", "the zebra sleeps", "the zebra"])[0] == ""
    assert [str(one.message) for one in caught] == ["empty sentence", "unknown words: zebra"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        toy.translate(SENTENCES)


def test_a_warning_names_the_line_of_the_user():
    program = "import attentively; model = attentively.load('toy-fixed')\nmodel.translate('')"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stderr.startswith("<string>:2: UserWarning: empty sentence"), ran.stderr


def test_a_language_model_continues_a_text(shakespeare):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it stops at `max_len` is no remark
        one = shakespeare.generate("ROMEO:", max_len=9, seed=3)
        assert one == shakespeare.generate("ROMEO:", 9, seed=3)
        assert one != shakespeare.generate("ROMEO:", 9, seed=4)
        assert one.startswith("ROMEO:")
        assert len(one) == len("ROMEO:") + 9
        assert len(shakespeare.generate(max_len=5)) == 5
        beam = generate.continue_text(shakespeare, ["A", "B"], 7, Beam(2))
        found = shakespeare.generate(["A", "B"], max_len=7, beam_size=2)
    assert found == [best.text for best, *_ in beam]
    with pytest.warns(UserWarning, match="unknown words: é"):
        shakespeare.generate("é", max_len=1)
    with pytest.raises(ValueError, match="beam_size=2 replaces sampling"):
        shakespeare.generate("A", beam_size=2, temperature=0.5)


def test_a_classifier_classifies():
    model = classifier()
    texts = ["w1 w2", "w3"]
    assert model.classify(texts) == predict.classify(model, texts)
    assert model.classify("w3") == predict.classify(model, ["w3"])[0]
    assert model.classify("w3").label in ("no", "yes")


def test_a_masked_language_model_fills_gaps():
    model = stack_model(MaskedLanguageModel, MaskedLanguageModelConfig)
    model = PretrainedModel(model, WORDS, None)
    assert model.fill("w1 ___", 3) == predict.fill(model, "w1 ___", 3)
    assert [len(one.guesses) for one in model.fill(["___", "w1 ___ ___"])] == [1, 2]


def test_a_captioner_captions():
    model = load("digits-captioner")
    images = torch.rand(2, 1, model.model.config.height, model.model.config.width)
    expected = [one.text for one in generate.caption(model, images)]
    assert model.caption(images) == expected
    assert len(expected) == 2


def test_another_kind_of_model_says_what_it_cannot_do(toy, shakespeare):
    for ask, message in (
        (lambda: shakespeare.translate("a"), "a LanguageModel cannot translate text"),
        (lambda: toy.generate("a"), "a Transformer cannot continue a text"),
        (lambda: toy.classify("a"), "a Transformer cannot classify text"),
        (lambda: toy.fill("___"), "a Transformer cannot fill gaps"),
        (lambda: classifier().translate("a"), "a Classifier cannot translate text"),
    ):
        with pytest.raises(ModelKindError, match=message):
            ask()


@pytest.mark.filterwarnings("ignore:stopped after")  # with the other parameters
def test_a_saved_model_translates_as_before(toy, tmp_path):
    toy.save_pretrained(tmp_path / "model")
    for loaded in (load(tmp_path / "model"), PretrainedModel.from_pretrained(tmp_path / "model")):
        assert type(loaded) is PretrainedModel
        assert loaded.translate(SENTENCES) == toy.translate(SENTENCES)
    with torch.no_grad():
        loaded.model.output.weight.neg_()
    assert loaded.translate(SENTENCES) != toy.translate(SENTENCES)


def test_a_path_is_a_checkpoint_or_the_folder_of_a_run(tmp_path):
    model = classifier()
    for path in (tmp_path / "m.ckpt", tmp_path / "run" / "best.safetensors"):
        path.parent.mkdir(exist_ok=True)
        checkpoints.save(model, path)
    for path in (tmp_path / "m.ckpt", str(tmp_path / "run")):
        assert load(path).classify("w3") == model.classify("w3")
    with pytest.raises(CheckpointError, match="no checkpoint found at"):
        load(tmp_path)


def test_an_unknown_name_is_explained():
    with pytest.raises(CheckpointError, match=r"'toy-transfomer' \(did you mean 'toy-transformer'"):
        load("toy-transfomer")
    with pytest.raises(CheckpointError, match=r"no pretrained model is called 'x': choose one of"):
        load("x")
    with pytest.raises(ValueError, match=r"tatoeba-english are word vectors.*load_pretrained_vec"):
        load("tatoeba-english")


def test_the_device_is_chosen(monkeypatch):
    asked = []

    def pretend(name, where):
        asked.append(where)
        return Checkpoint(classifier().model, WORDS, None)

    monkeypatch.setattr(checkpoints, "load_pretrained", pretend)
    monkeypatch.setattr(device, "best", lambda: torch.device("meta"))
    load("toy-fixed")
    load("toy-fixed", "cpu")
    load("toy-fixed", torch.device("cpu"))
    assert [where.type for where in asked] == ["meta", "cpu", "cpu"]
    with pytest.raises(ValueError, match="device='gpu' is not a device: try cpu, cuda or mps"):
        load("toy-fixed", "gpu")


@pytest.mark.parametrize(
    "command", ["translate", "generate", "classify", "fill", "caption", "evaluate tiny"]
)
def test_the_commands_load_models_in_the_same_way(command, monkeypatch):
    """A model that `load` refuses is refused by every command, with the same words."""

    def refuse(name, device=None):
        raise ValueError(f"refused: {name}")

    name, *data = command.split()
    monkeypatch.setattr(pretrained_model, "load", refuse)
    written = []
    monkeypatch.setattr(sys, "stderr", type("Stderr", (), {"write": written.append, "flush": id})())
    argument = [] if name in ("caption", "evaluate") else ["w1"]
    monkeypatch.setattr(sys, "argv", ["attentively", name, *data, *argument, "--model", "some"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "refused: some" in "".join(map(str, written))


def test_a_model_in_a_folder_is_one_for_the_command_line(toy, tmp_path, monkeypatch, capsys):
    toy.save_pretrained(tmp_path)
    call = ["attentively", "translate", "--model", str(tmp_path), SENTENCES[0]]
    monkeypatch.setattr(sys, "argv", call)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().out == toy.translate(SENTENCES[0]) + "\n"
    assert Path(tmp_path / "config.json").is_file()
