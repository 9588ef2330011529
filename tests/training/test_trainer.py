"""Training minimises the right loss, keeps the best, and resumes as if never stopped."""

import itertools
import json
import math
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_examples import checkpoint_of, examples_for, one_of_each
from tiny_models import SIZES

from attentively import atomic_files, device
from attentively.data.batches import Example, collate, shuffled
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint, CheckpointError
from attentively.models.configs import Seq2SeqConfig
from attentively.models.seq2seq import Seq2Seq
from attentively.tokens.vocabulary import END_ID, START_ID, Vocabulary, WordTokenizer
from attentively.training import run_folder
from attentively.training import trainer as training
from attentively.training.objectives import Translation, teacher_forced_loss
from attentively.training.trainer import Trainer, validation_loss
from attentively.training.training_config import TrainingConfig

VOCAB = 13
CONFIG = TrainingConfig(
    steps=13, batch_size=7, learning_rate=2e-2, validate_every=3, clip_norm=0.4, seed=3
)
VALIDATIONS = [3, 6, 9, 12, 13]

# Hundreds of steps go by here; other tests check the shapes.
pytestmark = pytest.mark.usefixtures("unchecked")


def copying(count, seed):
    """Sentences to be copied, of 1 to 5 words."""
    generator = random.Random(seed)
    sentences = [
        [generator.randrange(4, VOCAB) for _ in range(generator.randint(1, 5))]
        for _ in range(count)
    ]
    return [Example([*words, END_ID], [START_ID, *words, END_ID]) for words in sentences]


TRAIN, VALIDATION = copying(37, seed=1), copying(11, seed=2)


def fresh(seed=0, dropout=0.3):
    torch.manual_seed(seed)
    model = Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, **SIZES, dropout=dropout))
    words = WordTokenizer(Vocabulary(f"w{index}" for index in range(VOCAB - 4)))
    return Checkpoint(model, words, words, {"data": "copying"})


def trainer(directory=None, config=CONFIG, checkpoint=None, processes=None, **changes):
    checkpoint = checkpoint or fresh()
    checkpoint.model.eval()  # as one comes from a file
    config = TrainingConfig.from_dict(config.to_dict() | changes)
    return Trainer(checkpoint, TRAIN, VALIDATION, config, directory, False, processes)


def weights(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def equal(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def timeless(records):
    """Records without the seconds, which no two runs share."""
    return [{key: record[key] for key in record if key != "seconds"} for record in records]


# Validation


@pytest.mark.parametrize("batch_size", [1, 3, 11, 256])
def test_the_validation_loss_is_the_mean_over_tokens(batch_size):
    model = fresh().model.eval()
    total, tokens, means = 0.0, 0, []
    for example in VALIDATION:
        loss = teacher_forced_loss(model, collate([example])).item()
        total += loss * (len(example.tgt) - 1)
        tokens += len(example.tgt) - 1
        means.append(loss)
    expected = pytest.approx(total / tokens, rel=1e-5)
    assert validation_loss(model, VALIDATION, batch_size) == expected
    assert sum(means) / len(means) != expected  # the mean over sentences is another number


@pytest.mark.parametrize("mode", [True, False])
def test_validating_is_without_dropout_and_leaves_the_mode_as_it_was(mode):
    model = fresh().model.train(mode)
    assert validation_loss(model, VALIDATION) == validation_loss(model, VALIDATION)
    assert model.training is mode


def test_nothing_to_validate_with_is_refused():
    with pytest.raises(ValueError, match="there is no validation example"):
        validation_loss(fresh().model, [])


# The loop


def plain_loop(clip=True, schedule=True):
    """The same training without the trainer."""
    checkpoint = fresh()
    model = checkpoint.model
    optimizer = torch.optim.Adam(model.parameters(), lr=CONFIG.learning_rate)
    torch.manual_seed(CONFIG.seed)
    step = 0
    norms = []
    sizes = [(len(example.src), len(example.tgt)) for example in TRAIN]
    for epoch in range(4):
        for batch in shuffled(sizes, CONFIG.seed, epoch, CONFIG.batch_size):
            if step == CONFIG.steps:
                break
            batch = collate([TRAIN[index] for index in batch])
            warm_up = 1  # a tenth of 13 steps
            if step < warm_up:
                share = (step + 1) / (warm_up + 1)
            else:
                progress = (step - warm_up) / (CONFIG.steps - warm_up)
                share = 0.5 * (1 + math.cos(math.pi * progress))
            for group in optimizer.param_groups:
                group["lr"] = CONFIG.learning_rate * (share if schedule else 1)
            loss = teacher_forced_loss(model.train(), batch)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
            norms.append(norm.item())
            factor = CONFIG.clip_norm / norm if clip and norm > CONFIG.clip_norm else 1.0
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient * factor
            optimizer.step()
            step += 1
    return weights(model), norms


def test_it_equals_a_plain_loop(tmp_path):
    trainer(tmp_path).fit()
    trained = checkpoints.load(tmp_path / "last.safetensors").model.state_dict()

    def differs_from(other):
        return any(not torch.allclose(trained[name], other[name], atol=1e-3) for name in trained)

    expected, norms = plain_loop()
    assert any(norm > CONFIG.clip_norm for norm in norms)
    assert any(norm < CONFIG.clip_norm for norm in norms)
    assert not differs_from(expected)
    assert differs_from(plain_loop(clip=False)[0])
    assert differs_from(plain_loop(schedule=False)[0])


def longest_gradient(monkeypatch):
    """Train with a short clip norm; return the length of the longest gradient that is used."""
    seen = []
    run = trainer(clip_norm=0.25)
    step = run.optimizer.step

    def watched(*given):
        gradients = [parameter.grad.flatten() for parameter in run.model.parameters()]
        seen.append(torch.cat(gradients).norm().item())
        return step(*given)

    monkeypatch.setattr(run.optimizer, "step", watched)
    run.fit()
    assert len(seen) == CONFIG.steps
    return max(seen)


def test_no_gradient_is_longer_than_the_clip_norm(monkeypatch):
    assert longest_gradient(monkeypatch) == pytest.approx(0.25, rel=1e-3)
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: None)  # the broken twin
    assert longest_gradient(monkeypatch) > 0.5


def test_it_learns(tmp_path):
    run = trainer(checkpoint=fresh(dropout=0.0), steps=100, validate_every=50)
    before = validation_loss(run.model, VALIDATION)
    records = run.fit()
    assert records[-1]["validation_loss"] < 0.75 * before
    assert records[-1]["train_loss"] < records[0]["train_loss"]
    assert validation_loss(run.model, VALIDATION) == pytest.approx(
        min(record["validation_loss"] for record in records)
    )


def test_the_seed_settles_a_run():
    def run(**changes):
        torch.manual_seed(random.randrange(1000))  # what was drawn before does not matter
        one = trainer(**changes)
        torch.rand(5)
        one.fit()
        return weights(one.model)

    assert equal(run(), run())
    assert not equal(run(), run(seed=4))


@pytest.mark.parametrize(
    "setting",
    [
        {"batch_size": 5},
        {"tokens_per_batch": 31},
        {"learning_rate": 1e-2},
        {"schedule": "constant"},
        {"warm_up_steps": 7},
        {"beta2": 0.9},
        {"epsilon": 0.1},
        {"clip_norm": 0.1},
        {"label_smoothing": 0.3},
    ],
    ids=str,
)
def test_no_setting_is_ignored(setting):
    def trained(**changes):
        run = trainer(checkpoint=fresh(dropout=0.0), steps=4, **changes)
        run.fit()
        return weights(run.model)

    assert not same_up_to_rounding(trained(**setting), trained())


# Larger batches than fit, and several processes


def updated(model_seed=0, **changes):
    """Return the weights after one run of three steps without dropout."""
    run = trainer(
        checkpoint=fresh(model_seed, dropout=0.0), steps=3, schedule="constant", **changes
    )
    run.fit()
    return weights(run.model)


def same_up_to_rounding(one, other):
    return all(torch.allclose(one[name], other[name], atol=1e-4) for name in one)


@pytest.mark.parametrize("parts", [2, 3, 7, 20])
def test_accumulated_gradients_equal_those_of_the_whole_batch(parts):
    assert same_up_to_rounding(updated(accumulate=parts), updated())


def test_a_mean_of_means_would_be_seen(monkeypatch):
    """Parts with few targets must not count as much as parts with many."""
    expected = updated()
    monkeypatch.setattr(Translation, "count", lambda *_: 1)
    assert not same_up_to_rounding(updated(accumulate=3), expected)


def test_batches_by_tokens_reach_the_model():
    seen = []
    run = trainer(tokens_per_batch=31, accumulate=2)
    original = run._update

    def watched(parts):
        seen.append(sum(len(part.tgt) for part in parts) * max(part.tgt.size(1) for part in parts))
        assert len(parts) <= 2
        return original(parts)

    run._update = watched
    run.fit()
    assert len(seen) == CONFIG.steps
    assert max(seen) <= 31
    assert max(seen) > 20
    with pytest.raises(ValueError, match="more than tokens_per_batch=3"):
        trainer(tokens_per_batch=3).fit()


def test_a_validation_takes_no_more_tokens_at_a_time_than_an_update(monkeypatch):
    original, seen = Translation.loss, []

    def watched(task, model, batch):
        seen.append(batch.tgt.numel())
        return original(task, model, batch)

    monkeypatch.setattr(Translation, "loss", watched)
    trainer(tokens_per_batch=31, batch_size=64, steps=1).fit()
    assert 20 < max(seen) <= 31


ALONE = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/training"]
import json, torch
from pathlib import Path
from test_trainer import fresh, timeless, trainer, weights
from attentively.training.data_parallel import Processes, processes
from attentively.training.trainer import Trainer, validation_loss
from attentively.training.training_config import TrainingConfig

torch.set_num_threads(1)
directory = Path({directory!r})
with processes() as us:
    def run(name, dropout=0.0, **changes):
        checkpoint = fresh(us.rank, dropout)
        return trainer(directory / name, checkpoint=checkpoint, processes=us, **changes)
    one = run("whole")
    records = one.fit()
    assert one.processes.count == 2
    twin = run("twin")
    Processes.sum_gradients, kept = lambda *_: None, Processes.sum_gradients
    twin.fit()
    Processes.sum_gradients = kept
    noisy = run("noisy", dropout=0.3)
    states, noisy_update = [], noisy._update
    def watched(parts):
        states.append(torch.get_rng_state())
        return noisy_update(parts)
    noisy._update = watched
    noisy.fit()
    chances = us.gather(states[0])
    stopped = run("stopped", dropout=0.3)
    original, calls = stopped._update, []
    def update(parts):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return original(parts)
    stopped._update = update
    try:
        stopped.fit()
    except KeyboardInterrupt:
        pass
    resumed = run("stopped", dropout=0.3)
    resumed.fit(resume=True)
    few = run("few", batch_size=1)
    few.fit()
    sums = us.gather(torch.stack([value.double().sum() for value in weights(one.model).values()]))
    same = all(torch.equal(part, sums[0]) for part in sums)
    if us.first:
        told = {{"same weights": same, "same chance": torch.equal(*chances)}}
        (directory / "told.json").write_text(json.dumps(told))
"""


def test_two_processes_train_as_one(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(ALONE.format(tests=str(Path(__file__).parents[1]), directory=str(tmp_path)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ATTENTIVELY_DEVICE": "cpu"}
    done = subprocess.run([*command, "2", str(script)], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    alone = trainer(checkpoint=fresh(dropout=0.0))
    expected = alone.fit()

    def losses(name):
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [
            (record["train_loss"], record["validation_loss"]) for record in map(json.loads, lines)
        ]

    together, twin = losses("whole"), losses("twin")
    curve = [(record["train_loss"], record["validation_loss"]) for record in expected]
    torch.testing.assert_close(torch.tensor(together), torch.tensor(curve), atol=1e-3, rtol=1e-3)
    assert not torch.allclose(torch.tensor(twin), torch.tensor(curve), atol=1e-3, rtol=1e-3)
    assert losses("stopped") == losses("noisy")  # resumed, bit for bit, dropout and all
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == {"same weights": True, "same chance": False}
    assert len(losses("few")) == len(VALIDATIONS)  # one of two has nothing to do
    with pytest.raises(ValueError, match="trained by 2 processes, so it cannot be resumed by 1"):
        trainer(tmp_path / "whole", checkpoint=fresh(dropout=0.0)).fit(resume=True)


# Averaging, precision, compiling


def test_the_mean_of_the_last_checkpoints_is_kept_if_it_is_better(tmp_path, scripted):
    seen = scripted([3.0, 2.5, 2.0, 2.2, 2.1, 1.5])
    run = trainer(tmp_path, average_last=3)
    records = run.fit()
    assert records[-1]["averaged"] == 3
    assert [record["validation_loss"] for record in records] == [3.0, 2.5, 2.0, 2.2, 2.1, 1.5]
    for name, value in weights(run.model).items():
        torch.testing.assert_close(value, torch.stack([each[name] for each in seen[2:5]]).mean(0))
    names = {path.name for path in tmp_path.glob("step-*")}
    assert names == {f"step-{step:07}.safetensors" for step in (9, 12, 13)}
    last = checkpoints.load(tmp_path / "last.safetensors").model.state_dict()
    assert equal(last, seen[4])  # from which training would go on


def test_a_mean_that_is_no_better_is_left(scripted):
    seen = scripted([3.0, 2.5, 2.0, 2.2, 2.1, 2.05])
    run = trainer(average_last=2)
    assert run.fit()[-1]["averaged"] == 2
    assert equal(weights(run.model), seen[2])


@pytest.mark.parametrize("count", [5, 10, 13])
def test_a_killed_run_averages_as_if_never_stopped(tmp_path, count):
    expected = trainer(tmp_path / "whole", average_last=3).fit()
    with pytest.MonkeyPatch.context() as patch:
        Moment().update(patch, count)
        with pytest.raises(Killed):
            trainer(tmp_path / "killed", average_last=3).fit()
    resumed = trainer(tmp_path / "killed", average_last=3)
    assert timeless(resumed.fit(resume=True)) == timeless(expected)
    again = trainer(tmp_path / "killed", average_last=3)
    assert timeless(again.fit(resume=True)) == timeless(expected)  # nothing left to do
    assert equal(weights(again.model), weights(resumed.model))


def test_a_run_killed_before_the_last_checkpoint_is_replaced_has_all_that_the_old_one_needs(
    tmp_path,
):
    expected = trainer(tmp_path / "whole", average_last=2).fit()
    with pytest.MonkeyPatch.context() as patch:
        Moment().save(patch, 3, "last")
        with pytest.raises(Killed):
            trainer(tmp_path / "killed", average_last=2).fit()
    resumed = trainer(tmp_path / "killed", average_last=2)
    assert timeless(resumed.fit(resume=True)) == timeless(expected)
    names = {path.name for path in (tmp_path / "killed").glob("step-*")}
    assert names == {f"step-{step:07}.safetensors" for step in (12, 13)}


def test_a_run_in_sixteen_bits_learns_the_same_and_keeps_its_weights_in_thirty_two():
    precise, rough = (
        trainer(checkpoint=fresh(dropout=0.0), precision=p) for p in ("float32", "bfloat16")
    )
    losses = [[record["train_loss"] for record in run.fit()] for run in (precise, rough)]
    torch.testing.assert_close(*map(torch.tensor, losses), atol=0.05, rtol=0.05)
    assert losses[0] != losses[1]  # it did compute in fewer bits
    assert {parameter.dtype for parameter in rough.model.parameters()} == {torch.float32}


def test_a_device_without_sixteen_bits_is_named(monkeypatch):
    monkeypatch.setattr(device, "has_bfloat16", lambda _: False)
    with pytest.raises(ValueError, match=r"cpu \(1 thread\) does not support bfloat16"):
        trainer(precision="bfloat16")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler: apt install g++")
def test_a_compiled_run_learns_the_same(tmp_path):
    """In a process of its own, where no shape is checked: the compiler would read the checks."""
    script = tmp_path / "script.py"
    script.write_text(COMPILED.format(tests=str(Path(__file__).parents[1])))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ATTENTIVELY_DEVICE": "cpu"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "continuing without torch.compile" not in done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["graphs"] > 0  # it was compiled
    assert told["compiled"] == pytest.approx(told["plain"], rel=1e-4)


COMPILED = """
import sys
sys.path[:0] = [{tests!r}, {tests!r} + "/training"]
import json, torch
from test_trainer import VOCAB, trainer
from tiny_examples import checkpoint_of
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer

def losses(**changes):
    torch.manual_seed(0)
    sizes = dict(d_model=16, num_heads=2, d_ff=32, num_layers=1, dropout=0.0)
    config = TransformerConfig(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, **sizes)
    run = trainer(checkpoint=checkpoint_of(Transformer(config)), steps=6, **changes)
    return [record["train_loss"] for record in run.fit()]

told = dict(plain=losses(), compiled=losses(compile=True))
told["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
print(json.dumps(told))
"""


def test_without_a_compiler_training_goes_on(monkeypatch, capsys):
    def no_compiler(function, **_):
        def fails(*given):
            raise torch._dynamo.exc.InternalTorchDynamoError("no working C++ compiler found")

        return fails

    monkeypatch.setattr(torch, "compile", no_compiler)
    compiled = trainer(compile=True).fit()
    assert timeless(compiled) == timeless(trainer().fit())
    assert "continuing without torch.compile: no working C++" in capsys.readouterr().err


def test_an_error_of_our_own_is_not_taken_for_a_compilers(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)

    def wrong(*_):
        raise ValueError("ours")

    monkeypatch.setattr(Translation, "training_loss", wrong)
    with pytest.raises(ValueError, match="ours"):
        trainer(compile=True).fit()


@pytest.mark.parametrize(
    ("changes", "rows", "advice"),
    [
        ({}, "7", "decrease batch_size=7, or increase accumulate=1"),
        (
            {"accumulate": 2},
            "4",
            "decrease batch_size=7, or increase accumulate=2",
        ),  # the larger part
        ({"tokens_per_batch": 31}, r"\d+", "decrease tokens_per_batch=31"),
    ],
)
def test_out_of_memory_says_what_to_lower(monkeypatch, changes, rows, advice):
    def too_large(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(Translation, "training_loss", too_large)
    with pytest.raises(MemoryError, match=rf"at step 1, with {rows} examples of up to .*{advice}"):
        trainer(**changes).fit()


@pytest.mark.parametrize(
    ("name", "longest"), [("Seq2Seq", 8), ("Captioner", 5), ("LanguageModel", 7), ("Classifier", 7)]
)
def test_a_lack_of_memory_counts_tokens_whatever_the_task(monkeypatch, name, longest):
    def too_large(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    examples = examples_for(name)
    run = Trainer(checkpoint_of(one_of_each()[name]), examples, examples, CONFIG, progress=False)
    monkeypatch.setattr(run, "_training_loss", too_large)
    with pytest.raises(MemoryError, match=f"with 3 examples of up to {longest} tokens"):
        run.fit()


def test_another_error_is_not_taken_for_a_lack_of_memory(monkeypatch):
    def wrong(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Translation, "training_loss", wrong)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        trainer().fit()


# What it leaves behind


def test_the_records_and_the_log_agree(tmp_path):
    records = trainer(tmp_path).fit()
    assert [record["step"] for record in records] == VALIDATIONS
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records
    for record in records:
        assert set(record) == {"step", "train_loss", "validation_loss", "learning_rate", "seconds"}
        assert all(math.isfinite(value) for value in record.values())
    seconds = [record["seconds"] for record in records]
    assert seconds == sorted(seconds)
    assert records[-1]["learning_rate"] < records[0]["learning_rate"]


def test_the_folder_holds_what_it_should(tmp_path):
    trainer(tmp_path / "new" / "run").fit()
    names = {path.name for path in (tmp_path / "new" / "run").iterdir()}
    assert names == {"best.safetensors", "last.safetensors", "log.jsonl"}
    for name in ("best", "last"):
        provenance = checkpoints.load(tmp_path / "new" / "run" / f"{name}.safetensors").provenance
        assert provenance["data"] == "copying"
        assert provenance["seconds"] > 0


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(trainer().fit()) == len(VALIDATIONS)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def scripted(monkeypatch):
    """Let validation losses be those of a script; returns the weights at each validation."""

    def script(losses):
        losses, seen = iter(losses), []

        def validation(model, *_):
            seen.append(weights(model))
            return next(losses)

        monkeypatch.setattr(training, "validation_loss", validation)
        return seen

    return script


@pytest.mark.parametrize("in_a_folder", [False, True])
def test_the_best_weights_are_left_not_the_last(scripted, tmp_path, in_a_folder):
    seen = scripted([3.0, 1.0, 2.0, 1.5, 1.2])
    run = trainer(tmp_path if in_a_folder else None)
    run.fit()
    assert equal(weights(run.model), seen[1])
    assert not equal(weights(run.model), seen[-1])
    assert not run.model.training
    if in_a_folder:
        best, last = (
            checkpoints.load(tmp_path / f"{name}.safetensors").model.state_dict()
            for name in ("best", "last")
        )
        assert equal(best, seen[1])
        assert equal(last, seen[-1])


@pytest.mark.parametrize(
    ("patience", "losses", "stops_at"),
    [
        (None, [3.0, 1.0, 2.0, 2.0, 2.0], 13),
        (1, [3.0, 2.0, 2.5], 9),
        (2, [3.0, 2.0, 2.5, 2.4], 12),
        (2, [3.0, 3.5, 2.9, 3.1, 2.8], 13),
        (1, [3.0, 2.0, 1.0, 0.9, 0.8], 13),
        (2, [3.0, 3.0, 3.0], 9),  # as good as the best is no new best
    ],
)
def test_it_stops_when_patience_is_at_an_end(scripted, patience, losses, stops_at):
    scripted(losses)
    run = trainer(patience=patience)
    records = run.fit()
    assert run.step == records[-1]["step"] == stops_at
    assert [record["validation_loss"] for record in records] == losses


def test_of_losses_as_low_the_first_is_the_best(scripted, tmp_path):
    seen = scripted([3.0, 1.0, 1.0, 2.0, 1.0])
    run = trainer(tmp_path)
    assert training.best_record(run.fit())["step"] == 6
    assert equal(checkpoints.load(tmp_path / "best.safetensors").model.state_dict(), seen[1])
    assert equal(weights(run.model), seen[1])


# Resuming


class Killed(BaseException):
    """As good as a power cut: nothing but the test catches it."""


class Moment:
    """Moments at which a run is killed, by the function that does not come back."""

    def before(self, monkeypatch, where, name, count, when=lambda *_: True):
        original, calls = getattr(where, name), []

        def killing(*given, **named):
            if when(*given):
                calls.append(1)
                if len(calls) == count:
                    raise Killed
            return original(*given, **named)

        monkeypatch.setattr(where, name, killing)

    def update(self, monkeypatch, count):
        self.before(monkeypatch, Trainer, "_update", count)

    def log(self, monkeypatch, count):
        self.before(monkeypatch, run_folder, "replacing", count)

    def save(self, monkeypatch, count, name):
        def is_it(_, path, *__):
            return path.name.startswith(name)

        self.before(monkeypatch, checkpoints, "save", count, is_it)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uninterrupted")
    run = trainer(directory)
    records = run.fit()
    _, last = checkpoints.read(directory / "last.safetensors")
    return records, weights(run.model), last


def assert_same_end(run, records, directory, uninterrupted):
    expected_records, expected_weights, expected_last = uninterrupted
    assert timeless(records) == timeless(expected_records)
    assert equal(weights(run.model), expected_weights)
    _, last = checkpoints.read(directory / "last.safetensors")
    assert any(name.startswith("optimizer.") for name in last)
    assert equal(last, expected_last)  # weights, moments and random state, bit for bit
    lines = (directory / "log.jsonl").read_text().splitlines()
    assert timeless(map(json.loads, lines)) == timeless(expected_records)


KILLS = {
    "in the first stretch": lambda m, patch: m.update(patch, 5),
    "right after a validation": lambda m, patch: m.update(patch, 7),
    "in a later epoch": lambda m, patch: m.update(patch, 11),
    "at the last step": lambda m, patch: m.update(patch, 13),
    "before the log is written": lambda m, patch: m.log(patch, 3),
    "after the log, before the best": lambda m, patch: m.save(patch, 2, "best"),
    "after the best, before the last": lambda m, patch: m.save(patch, 3, "last"),
    "at the very end": lambda m, patch: m.save(patch, 5, "last"),
}


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS.keys())
def test_a_killed_run_resumes_as_if_never_stopped(tmp_path, kill, uninterrupted):
    with pytest.MonkeyPatch.context() as patch:
        kill(Moment(), patch)
        with pytest.raises(Killed):
            trainer(tmp_path).fit()
    resumed = trainer(tmp_path, checkpoint=fresh(seed=99))  # what it begins with does not matter
    assert_same_end(resumed, resumed.fit(resume=True), tmp_path, uninterrupted)


def test_a_run_killed_again_and_again_gets_there(tmp_path, uninterrupted):
    resume = False
    for count in (5, 4, 3, 5):
        with pytest.MonkeyPatch.context() as patch:
            Moment().update(patch, count)
            with pytest.raises(Killed):
                trainer(tmp_path).fit(resume=resume)
        resume = True
    resumed = trainer(tmp_path)
    assert_same_end(resumed, resumed.fit(resume=True), tmp_path, uninterrupted)


class Longer(list):
    """Examples whose sentences have other lengths in every epoch."""

    def __init__(self):
        super().__init__(TRAIN)
        self.seeds = []

    def renew(self, seed):
        self.seeds.append(seed)
        generator = random.Random(seed)
        self[:] = [
            Example(src[:-1] * more + src[-1:], tgt)
            for src, tgt in TRAIN
            for more in [generator.randint(1, 3)]
        ]


def changing(directory, checkpoint=None):
    """A trainer of such examples, of few tokens a batch: epochs differ in batches."""
    run = trainer(directory, steps=40, tokens_per_batch=30, checkpoint=checkpoint)
    run.train = Longer()
    return run


def test_examples_that_change_are_renewed_before_each_epoch_and_batches_planned_anew(tmp_path):
    run = changing(tmp_path)
    seen = []
    run.task.collate = lambda examples, generator=None: (
        seen.append(list(examples)) or collate(examples)
    )
    run.fit()
    assert run.train.seeds == [f"{CONFIG.seed}/{epoch}" for epoch in range(len(run.train.seeds))]
    assert len(run.train.seeds) >= 2
    longest = [
        max(len(side) for example in batch for side in example) * len(batch)
        for batch in seen
        if len(batch) < len(VALIDATION)
    ]
    assert max(longest) <= 30  # by the lengths of before, they would not fit


def test_a_killed_run_of_examples_that_change_resumes_as_if_never_stopped(tmp_path):
    expected = changing(tmp_path / "whole")
    records = expected.fit()
    with pytest.MonkeyPatch.context() as patch:
        Moment().update(patch, 35)
        with pytest.raises(Killed):
            changing(tmp_path / "killed").fit()
    resumed = changing(tmp_path / "killed", checkpoint=fresh(seed=99))
    assert timeless(resumed.fit(resume=True)) == timeless(records)
    assert equal(weights(resumed.model), weights(expected.model))


@pytest.mark.parametrize("forgotten", ["random state", "optimizer", "place in the data"])
def test_a_resumption_that_forgets_would_be_seen(tmp_path, forgotten, uninterrupted):
    with pytest.MonkeyPatch.context() as patch:
        Moment().update(patch, 5)
        with pytest.raises(Killed):
            trainer(tmp_path).fit()
    resumed = trainer(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        if forgotten == "random state":
            patch.setattr(torch, "set_rng_state", lambda _: None)
        elif forgotten == "optimizer":
            patch.setattr(resumed.optimizer, "load_state_dict", lambda _: None)
        else:
            original = training.shuffled
            patch.setattr(training, "shuffled", lambda *given: [[0], *original(*given)])
        records = resumed.fit(resume=True)
    with pytest.raises(AssertionError):
        assert_same_end(resumed, records, tmp_path, uninterrupted)


def test_resuming_a_finished_run_changes_nothing(tmp_path, uninterrupted):
    trainer(tmp_path).fit()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    resumed = trainer(tmp_path, checkpoint=fresh(seed=99))
    assert_same_end(resumed, resumed.fit(resume=True), tmp_path, uninterrupted)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_resuming_a_run_that_stopped_early_does_not_go_on(tmp_path, scripted):
    scripted([3.0, 2.0, 2.5])
    records = trainer(tmp_path, patience=1).fit()
    scripted([])  # one more validation would be an error
    resumed = trainer(tmp_path, patience=1)
    assert resumed.fit(resume=True) == records
    assert resumed.step == 9


def test_the_log_is_cut_to_where_the_run_resumes(tmp_path, uninterrupted):
    with pytest.MonkeyPatch.context() as patch:
        Moment().save(patch, 3, "last")  # the log has a third line, the checkpoint two
        with pytest.raises(Killed):
            trainer(tmp_path).fit()
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3
    with pytest.MonkeyPatch.context() as patch:
        Moment().update(patch, 4)
        with pytest.raises(Killed):
            trainer(tmp_path).fit(resume=True)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 6, 9]


def test_a_full_disk_leaves_a_run_that_can_be_resumed(tmp_path, uninterrupted):
    original, saves = checkpoints.save_file, []

    def disk_fills_up(tensors, path, metadata):
        saves.append(path)
        if len(saves) == 4:
            path.write_bytes(b"half of")
            raise OSError(28, "No space left on device")
        original(tensors, path, metadata)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "save_file", disk_fills_up)
        with pytest.raises(OSError, match="No space left"):
            trainer(tmp_path).fit()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"best.safetensors", "last.safetensors", "log.jsonl"}
    resumed = trainer(tmp_path)
    assert_same_end(resumed, resumed.fit(resume=True), tmp_path, uninterrupted)


def test_seconds_add_up(tmp_path, monkeypatch):
    ticks = itertools.count(start=50)  # a clock that is a second further each time it is read
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    with pytest.MonkeyPatch.context() as patch:
        Moment().update(patch, 7)
        with pytest.raises(Killed):
            trainer(tmp_path).fit()
    next(ticks)  # what passes in between does not count
    records = trainer(tmp_path).fit(resume=True)
    assert [record["seconds"] for record in records] == [1, 2, 3, 4, 5]


# What it refuses


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path):
    trainer(tmp_path).fit()
    before = (tmp_path / "last.safetensors").read_bytes()
    with pytest.raises(ValueError, match="already contains a run: resume it, or choose another"):
        trainer(tmp_path, seed=4).fit()
    assert (tmp_path / "last.safetensors").read_bytes() == before


@pytest.mark.parametrize("name", ["best.safetensors", "log.jsonl"])
def test_what_is_left_of_a_run_is_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("precious")
    with pytest.raises(ValueError, match=f"contains the {name} of a run, but no last.safetensors"):
        trainer(tmp_path).fit()
    assert (tmp_path / name).read_text() == "precious"


@pytest.mark.parametrize("obstacle", ["a file", "no right"])
def test_a_folder_that_cannot_be_written_to_is_refused_at_once(tmp_path, monkeypatch, obstacle):
    folder = tmp_path / "run"
    if obstacle == "a file":
        folder.write_text("in the way")
    else:

        def denied(dir):
            raise PermissionError(13, "Permission denied", str(dir / "tmp"))

        monkeypatch.setattr(atomic_files.tempfile, "TemporaryFile", denied)
    run = trainer(folder)
    with pytest.raises(OSError, match=r"cannot write to .*run: (File|Permission)"):
        run.fit()
    assert run.step == 0


def test_a_run_of_other_settings_is_not_resumed(tmp_path):
    trainer(tmp_path).fit()
    with pytest.raises(ValueError, match=r"'batch_size': 7.*cannot be resumed.*'batch_size': 5"):
        trainer(tmp_path, batch_size=5).fit(resume=True)


def of_tokens(tokens, **sizes):
    model = Seq2Seq(Seq2SeqConfig(VOCAB, VOCAB, **SIZES | sizes))
    words = WordTokenizer(Vocabulary(tokens))
    return Checkpoint(model, words, words)


@pytest.mark.parametrize(
    ("first", "sizes"), [("v", {"dropout": 0.3}), ("w", {"dropout": 0.1}), ("w", {"window": 3})]
)
def test_a_run_of_another_model_is_not_resumed(tmp_path, first, sizes):
    trainer(tmp_path).fit()
    before = (tmp_path / "last.safetensors").read_bytes()
    other = of_tokens([f"{first}{index}" for index in range(VOCAB - 4)], **sizes)
    message = r"last\.safetensors contains a model with another configuration or other tokenizers"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, checkpoint=other).fit(resume=True)
    assert (tmp_path / "last.safetensors").read_bytes() == before
    same = of_tokens([f"w{index}" for index in range(VOCAB - 4)], dropout=0.3)
    trainer(tmp_path, checkpoint=same).fit(resume=True)


def test_a_run_of_wider_states_is_not_resumed(tmp_path):
    trainer(tmp_path).fit()
    other = of_tokens([f"w{index}" for index in range(VOCAB - 4)], dropout=0.3, decoder_dim=29)
    with pytest.raises(ValueError, match="another configuration or other tokenizers"):
        trainer(tmp_path, checkpoint=other).fit(resume=True)


def test_a_seed_that_pytorch_does_not_take_is_refused():
    for seed in (10**23, -(10**23), 2**63):
        with pytest.raises(ValueError, match=rf"seed={seed} must be from -2\*\*63 to"):
            TrainingConfig(steps=1, seed=seed)
    for seed in (-(2**63), 2**63 - 1):
        torch.manual_seed(TrainingConfig(steps=1, seed=seed).seed)


def test_nothing_to_resume_from(tmp_path):
    with pytest.raises(CheckpointError, match=r"no checkpoint found at .*last\.safetensors"):
        trainer(tmp_path).fit(resume=True)
    with pytest.raises(ValueError, match="cannot resume without a directory"):
        trainer().fit(resume=True)


def test_a_checkpoint_that_is_no_run_is_not_resumed(tmp_path):
    checkpoints.save(fresh(), tmp_path / "last.safetensors")
    with pytest.raises(ValueError, match="cannot be resumed"):
        trainer(tmp_path).fit(resume=True)


def explode_at_step_8(monkeypatch, value):
    original, calls = Translation.training_loss, []

    def exploding(task, model, batch):
        calls.append(batch)
        loss = original(task, model, batch)
        return loss * value if len(calls) > 7 else loss

    monkeypatch.setattr(Translation, "training_loss", exploding)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run(tmp_path, monkeypatch, value):
    explode_at_step_8(monkeypatch, value)
    advice = r"at step 8: use a learning rate below 0\.02; .* contains the model of step 6"
    with pytest.raises(FloatingPointError, match=advice):
        trainer(tmp_path).fit()
    last = checkpoints.load(tmp_path / "last.safetensors")
    assert [record["step"] for record in last.provenance["run"]["records"]] == [3, 6]
    assert all(value.isfinite().all() for value in last.model.state_dict().values())


def test_a_loss_that_is_no_number_is_seen_long_before_a_late_validation(monkeypatch):
    explode_at_step_8(monkeypatch, math.nan)
    run = trainer(steps=100, validate_every=100)
    with pytest.raises(FloatingPointError, match=r"at step 8: .* below 0\.02$"):
        run.fit()
    assert run.step == training.CHECKED_EVERY < 100


def test_a_validation_loss_that_is_no_number_stops_the_run(tmp_path, scripted):
    scripted([3.0, math.nan])
    with pytest.raises(FloatingPointError, match=r"at step 6: .* contains the model of step 3"):
        trainer(tmp_path).fit()
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(("train", "validation"), [([], VALIDATION), (TRAIN, [])])
def test_no_examples_are_refused(train, validation):
    with pytest.raises(
        ValueError, match=f"there are {len(train)} training and {len(validation)} validation"
    ):
        Trainer(fresh(), train, validation, CONFIG)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("batch_size", 0),
        ("validate_every", -1),
        ("patience", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("clip_norm", -1.0),
        ("schedule", "sometimes"),
        ("tokens_per_batch", 0),
        ("accumulate", 0),
        ("warm_up_steps", 0),
        ("beta2", 1.0),
        ("epsilon", 0.0),
        ("label_smoothing", 1.0),
        ("attention_penalty", -1.0),
        ("precision", "float16"),
        ("average_last", 0),
    ],
)
def test_settings_that_make_no_sense_are_refused(field, value):
    with pytest.raises(ValueError, match=f"{field}={value!r}"):
        TrainingConfig(**{"steps": 5, field: value})


@pytest.mark.parametrize("progress", [False, True])
def test_the_progress_bar_can_be_off(capsys, progress):
    Trainer(fresh(), TRAIN, VALIDATION, CONFIG, progress=progress).fit()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("13/13" in captured.err) is progress
    assert bool(captured.err) is progress
