"""The ladder on real sentences: one plan for all rungs, scores by sacreBLEU, resumed."""

import dataclasses
import json
import math
import mmap
import sys
from pathlib import Path

import pytest
import sacrebleu
import torch

import attentively
from attentively import cli, device, experiments
from attentively.attention.multi_head import MultiHeadAttention
from attentively.data import corpora, toy
from attentively.experiments import real_ladder
from attentively.experiments.ladder import BEAM_SIZES, RUNGS
from attentively.experiments.runner import run
from attentively.layers.feed_forward import FeedForward
from attentively.models import checkpoints
from attentively.models.transformer import Transformer
from attentively.scoring.evaluation import Evaluation

ROOT = Path(__file__).parents[2]
# Shapes are checked where the models, the trainer and the searches are tested.
pytestmark = pytest.mark.usefixtures("unchecked")

RESULTS = ROOT / "book" / "results" / f"ladder-{real_ladder.SHIPPED_DATA}.json"


@pytest.fixture
def corpus(tmp_path):
    """A file of sentence pairs, which is a corpus."""
    path = tmp_path / "some-fr.tsv"
    pairs = toy.load("train", 900, clauses=(1,))
    path.write_text("".join(f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs))
    return str(path)


@pytest.fixture
def capitals(corpus):
    """The file with every sentence in capitals."""
    path = Path(corpus)
    path.write_text(path.read_text().upper())
    return corpus


@pytest.mark.parametrize("data", ["multi30k-en-de", "tatoeba-en-fr"])
def test_rungs_are_of_one_size_and_share_all_but_the_model(data):
    plan = real_ladder.plan_for(data)
    models = {
        rung: real_ladder.new_model(rung, plan.vocabulary_size, plan.dropout, 0) for rung in RUNGS
    }
    sizes = {rung: sum(p.numel() for p in model.parameters()) for rung, model in models.items()}
    assert max(sizes.values()) / min(sizes.values()) < 1.15
    assert max(sizes.values()) <= 2_700_000
    assert isinstance(models.pop("transformer"), Transformer)
    assert {name: model.config.attention for name, model in models.items()} == {
        name: name for name in RUNGS if name != "transformer"
    }
    with pytest.raises(ValueError, match="'lstm' is unknown: choose one of fixed"):
        real_ladder.new_model("lstm", 10, 0.1, 0)


def test_the_captions_are_trained_with_more_that_keeps_from_learning_by_heart():
    plan, other = (real_ladder.plan_for(data) for data in ("multi30k-de-en", "tatoeba-en-fr"))
    assert real_ladder.plan_for("multi30k-en-de") == plan
    assert (plan.dropout, plan.subword_dropout) == (0.3, 0.05)
    assert (other.dropout, other.subword_dropout) == (0.1, 0.0)
    config = plan.training(seed=0, quick=False)
    assert (config.steps, config.schedule, config.average_last) == (12_000, "one_cycle", 10)


def test_the_shipped_models_were_trained_by_the_plan():
    plan = real_ladder.plan_for(real_ladder.SHIPPED_DATA)
    for name in real_ladder.SHIPPED.values():
        checkpoint = checkpoints.load_pretrained(name)
        assert checkpoint.provenance["data"] == real_ladder.SHIPPED_DATA
        assert checkpoint.provenance["training"] == plan.training(0, quick=False).to_dict()
        assert checkpoint.model.config.dropout == plan.dropout
        assert len(checkpoint.translator().src_tokenizer) == plan.vocabulary_size


def test_quick_runs_every_step_and_is_resumed(corpus, tmp_path, monkeypatch):
    ladder = experiments.find("ladder", corpus, ["dot", "transformer"])
    output, runs = tmp_path / "rows.json", tmp_path / "runs"
    rows = run(ladder, output, runs, seeds=1, quick=True, progress=False)["rows"]
    assert json.loads(output.read_text()) == rows
    asked = [(row["rung"], row["decoding"]) for row in rows]
    assert asked == [
        (rung, name) for rung in ("dot", "transformer") for name in ("greedy", "beam 5")
    ]
    for row in rows:
        assert row["command"] == (
            f"attentively experiment ladder --data {corpus} --rungs dot,transformer --quick "
            "--seeds 1"
        )
        assert row["quick"] is True
        assert row["training_steps"] == 10
        assert sum(group["sentences"] for group in row["by_length"]) == row["sentences"] > 0
        assert "case:lc" in row["signature_lowercased"]
        assert "tok:none" in row["signature_tokenised"]
        tried = row["validation_bleu"]
        if row["beam_size"] == 1:
            assert tried is row["length_penalty"] is None
        else:
            assert list(tried) == ["0.6", "1", "1.4"]
            assert tried[f"{row['length_penalty']:g}"] == max(tried.values())
        assert [record["step"] for record in row["log"]] == [5, 10, 10]
        assert row["log"][-1]["averaged"] == 2
    assert rows[0]["perplexity"] == rows[1]["perplexity"] != rows[2]["perplexity"]

    # A row that is lost is made again, from the training that is there.
    monkeypatch.setattr(real_ladder.Trainer, "_update", None)
    output.write_text(json.dumps(rows[:3]))
    again = run(ladder, output, runs, seeds=1, quick=True, progress=False)["rows"]
    assert again[3]["bleu"] == rows[3]["bleu"]
    assert again[3]["perplexity"] == rows[3]["perplexity"]


def test_what_does_not_go_together_is_refused(corpus):
    with pytest.raises(ValueError, match="'lstm' is unknown"):
        experiments.find("ladder", corpus, ["lstm"])
    with pytest.raises(ValueError, match="options of the experiment ladder, not of norms"):
        experiments.find("norms", corpus)
    with pytest.raises(ValueError, match="need --data"):
        experiments.find("ladder", rungs=["dot"])
    with pytest.raises(
        ValueError, match="the pretrained models were trained on tatoeba-en-fr, not on"
    ):
        experiments.find("ladder", corpus, shipped=True)
    with pytest.raises(ValueError, match="no corpus is called 'multi40k'"):
        experiments.find("ladder", "multi40k")
    with pytest.raises(ValueError, match="need --data"):
        experiments.find("ladder", changes="steps=20")
    with pytest.raises(ValueError, match="--change needs training"):
        experiments.find("ladder", "tatoeba-en-fr", shipped=True, changes="steps=20")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("step=20", "'step' cannot be changed: choose one of vocabulary_size, steps, "),
        ("steps", "'steps' is not a valid value: steps is now 7000"),
        ("steps=many", "'steps=many' is not a valid value: steps is now 7000"),
        ("steps=0.5", "'steps=0.5' is not a valid value"),
        (
            "quick_dropout=yes",
            "'quick_dropout=yes' is not a valid value: quick_dropout is now False",
        ),
        ("dropout=0.1,", "'' cannot be changed"),
        ("lengths=3", "'lengths' cannot be changed"),
        ("schedule=steep", "schedule='steep' is unknown"),
        ("precision=float8", "precision='float8' is unknown"),
        ("accumulate=0", "accumulate=0 must be at least 1"),
        ("steps=0", "steps=0 must be at least 1"),
        ("steps=20,dropout=0,steps=30", "steps is changed twice"),
    ],
)
def test_a_change_that_the_plan_does_not_know_is_refused(corpus, changes, message):
    with pytest.raises(ValueError, match=message):
        experiments.find("ladder", corpus, changes=changes)


def test_the_plan_is_changed_as_it_is_said(corpus):
    plan = real_ladder.plan_for(corpus)
    changed = real_ladder.plan_for(
        corpus, "steps=20,dropout=0.5,schedule=one_cycle,quick_dropout=true,label_smoothing=0"
    )
    assert changed == dataclasses.replace(
        plan,
        steps=20,
        dropout=0.5,
        schedule="one_cycle",
        quick_dropout=True,
        label_smoothing=0.0,
    )
    config = changed.training(seed=0, quick=False)
    assert (config.steps, config.schedule, config.label_smoothing) == (20, "one_cycle", 0.0)


def test_case_inner_dropout_parts_and_precision_reach_the_training(capitals, tmp_path, monkeypatch):
    fitted = []

    def untrained(trainer, resume):
        fitted.append((trainer, torch.backends.cuda.flash_sdp_enabled()))
        checkpoints.save(trainer.folder.checkpoint, trainer.folder.directory / "best.safetensors")

    monkeypatch.setattr(real_ladder.Trainer, "fit", untrained)
    changes = "lowercase=true,inner_dropout=true,dropout=0.3,quick_dropout=true,accumulate=2"
    for each in (None, changes + ",precision=bfloat16"):
        real_ladder.train("transformer", capitals, 0, True, tmp_path / f"{each}", each, False)
    (plain, fused), (trainer, fused_in_bfloat16) = fitted
    assert fused
    assert fused_in_bfloat16 is (trainer.device.type != "cpu")
    assert torch.backends.cuda.flash_sdp_enabled()
    assert (plain.config.accumulate, plain.config.precision) == (1, "float32")
    assert (trainer.config.accumulate, trainer.config.precision) == (2, "bfloat16")
    rates = [
        {
            getattr(module.dropout, "p", module.dropout)
            for module in each.model.modules()
            if isinstance(module, MultiHeadAttention | FeedForward)
        }
        for each in (plain, trainer)
    ]
    assert rates == [{0.0}, {0.3}]
    lines = [
        each.folder.checkpoint.tgt_tokenizer.decode(each.train[0].tgt) for each in (plain, trainer)
    ]
    assert [line == line.lower() for line in lines] == [False, True]


def test_lowercased_text_is_lowercased_in_every_split(capitals):
    for split in ("train", "validation", "test"):
        as_written, lowercased = (
            real_ladder._pairs(capitals, split, True, lowercase) for lowercase in (False, True)
        )
        assert as_written != lowercased
        assert [(pair.src.lower(), pair.tgt.lower()) for pair in as_written] == [
            (pair.src, pair.tgt) for pair in lowercased
        ]


def test_a_changed_plan_has_its_own_training_and_rows_beside_the_others(corpus, tmp_path):
    output, runs = tmp_path / "rows.json", tmp_path / "runs"
    changes = "dropout=0.9,vocabulary_size=250"
    plain, changed = (
        experiments.find("ladder", corpus, ["fixed"], changes=said) for said in (None, changes)
    )
    of_changed = run(changed, output, runs, seeds=1, quick=True, progress=False)["rows"]
    rows = run(plain, output, runs, seeds=1, quick=True, progress=False)["rows"]
    assert [row["changes"] for row in rows] == [changes, changes, None, None]
    assert rows[:2] == of_changed
    assert f"--rungs fixed --change {changes} --quick" in rows[0]["command"]
    assert "--change" not in rows[2]["command"]
    models = [
        checkpoints.load(runs / name / "best.safetensors")
        for name in (f"fixed-{changes}-seed0", "fixed-seed0")
    ]
    assert [model.model.config.dropout for model in models] == [0.9, 0.1]
    assert models[0].provenance["plan"]["vocabulary_size"] == 250
    assert f"--change {changes}" in models[0].provenance["command"]
    assert rows[0]["perplexity"] != rows[2]["perplexity"]
    # A row of an older file, which does not name changes, is of the plan as it is.
    for row in rows:
        if row["changes"] is None:
            del row["changes"]
    output.write_text(json.dumps(rows))
    assert run(plain, output, tmp_path / "none", 1, quick=True, progress=False)["rows"] == rows
    shown = real_ladder.table(rows).splitlines()
    assert [line.split()[0] for line in shown[1:-1]] == [
        *["with", "fixed", "fixed"],
        *["default", "fixed", "fixed"],
    ]


def test_two_files_of_one_name_are_two_corpora(tmp_path, monkeypatch, capsys):
    """Each has results and trainings of its own; a file of the other's rows is refused."""
    monkeypatch.chdir(tmp_path)
    for folder, clauses in (("one", (1,)), ("two", (2,))):
        pairs = toy.load("train", 900, clauses=clauses)
        Path(folder).mkdir()
        lines = (f"{pair.src_text}\t{pair.tgt_text}\n" for pair in pairs)
        Path(folder, "news.tsv").write_text("".join(lines))
    command = ["experiment", "ladder", "--rungs", "fixed", "--quick", "--seeds", "1", "--data"]
    for folder in ("one", "two"):
        cli.app([*command, f"{folder}/news.tsv"], standalone_mode=False)
    found = {}
    for folder in ("one", "two"):
        output = Path("runs", f"ladder-{folder}-news-tsv-quick.json")
        found[folder] = json.loads(output.read_text())
        assert {row["data"] for row in found[folder]} == {f"{folder}/news.tsv"}
        assert Path("runs", output.stem, "fixed-seed0", "last.safetensors").exists()
    assert found["one"][0]["perplexity"] != found["two"][0]["perplexity"]
    output = "runs/ladder-one-news-tsv-quick.json"
    with pytest.raises(ValueError, match=r"data='one/news\.tsv', .* data='two/news\.tsv'"):
        run(experiments.find("ladder", "two/news.tsv", ["fixed"]), output, "runs", 1, quick=True)


def test_a_corpus_with_a_name_keeps_it_in_the_name_of_its_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []

    def noted(experiment, output, runs, **_):
        asked.append((str(output), str(runs)))
        return {"rows": []}

    monkeypatch.setattr(experiments, "run", noted)
    for data in ("multi30k-de-en", "tatoeba-en-fr"):
        cli.app(["experiment", "ladder", "--data", data], standalone_mode=False)
    assert asked == [
        (f"book/results/ladder-{data}.json", f"runs/ladder-{data}")
        for data in ("multi30k-de-en", "tatoeba-en-fr")
    ]


def test_options_that_are_given_twice_add_up(monkeypatch):
    asked = []

    def noted(*chosen):
        asked.append(chosen)
        raise ValueError("noted")

    monkeypatch.setattr(experiments, "find", noted)
    command = "experiment ladder --data toy --rungs dot,concat --rungs transformer "
    for given in (command + "--change steps=20 --change dropout=0", "experiment ladder"):
        cli.app(given.split(), standalone_mode=False)
    assert asked == [
        ("ladder", "toy", ["dot", "concat", "transformer"], False, "steps=20,dropout=0"),
        ("ladder", None, None, False, None),
    ]


def test_what_scores_in_the_end_is_missed_before_the_training(corpus, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    real_ladder._moses.cache_clear()
    with pytest.raises(ValueError, match="needs sacremoses: pip install sacremoses"):
        experiments.find("ladder", corpus)


# Scores


def test_scores_are_sacrebleus_in_three_ways():
    said = ["A man-made Dog runs, fast.", "Two people walk."]
    right = [["a man-made dog runs, fast.", "The dog runs."], ["Two people walk ."]]
    columns = [["a man-made dog runs, fast.", "Two people walk ."], ["The dog runs.", None]]
    found = real_ladder.scores(said, right, "en")
    cased = sacrebleu.corpus_bleu(said, columns).score
    lowercased = sacrebleu.corpus_bleu(said, columns, lowercase=True).score
    assert found["bleu"] == round(cased, 2) < found["bleu_lowercased"] == round(lowercased, 2)
    # Of four draws of two sentences the worst has the first twice, the best the second.
    worst = sacrebleu.corpus_bleu(said[:1] * 2, [[text] * 2 for text in right[0]]).score
    assert found["bleu_interval"] == [round(worst, 2), 100]
    assert found["bleu_tokenised"] == 100  # a space before the full stop is of no account
    assert found["chrf"] == round(sacrebleu.corpus_chrf(said, columns).score, 2)


def test_sentences_are_grouped_by_the_words_of_their_source():
    sources = ["one", "one two three", "one two", "one two three four five", "one two three"]
    nothing = dict.fromkeys(
        ["bleu", "sacrebleu", "chrf", "sacrebleu_chrf", "exact_match", "perplexity"], 0.0
    )
    found = Evaluation(
        sentences=5,
        signature="",
        chrf_signature="",
        sources=sources,
        translations=["a b c d e"] * 4 + ["f"],
        references=[["a b c d e"]] * 5,
        **nothing,
    )
    groups = real_ladder.by_length(found, (2, 4, 9, 30))
    assert [(row["from_words"], row["to_words"], row["sentences"]) for row in groups] == [
        (1, 2, 2),
        (3, 3, 2),
        (5, 5, 1),
    ]
    assert [row["mean_words"] for row in groups] == [1.5, 3.0, 5.0]
    assert groups[0]["bleu"] == pytest.approx(100)
    assert groups[1]["bleu"] < 80  # of its two, one is wrong


def test_each_penalty_is_tried_with_the_beam(monkeypatch):
    tried = {0.6: 11.0, 1.0: 13.0, 1.4: 12.0}

    class Found:
        def __init__(self, penalty):
            self.sacrebleu = tried[penalty]

    monkeypatch.setattr(
        real_ladder, "evaluate", lambda checkpoint, pairs, beam_size, penalty: Found(penalty)
    )
    checkpoint = checkpoints.load_pretrained("toy-fixed")
    assert real_ladder.bleu_by_penalty(checkpoint, [], 5) == tried


def test_the_table_shows_means_over_the_seeds(corpus, tmp_path):
    ladder = experiments.find("ladder", corpus, ["fixed"])
    rows = run(ladder, tmp_path / "r.json", tmp_path / "runs", 1, quick=True, progress=False)
    row = rows["rows"][0] | {"bleu": 10.0, "chrf": 50.0}
    shown = real_ladder.table([row, row | {"bleu": 20.0, "seed": 1}])
    assert "15.00" in shown
    assert "50.00" in shown
    assert shown.count("fixed") == 1


# The published rows

LONGER = "steps=32000,subword_dropout=0"
PUBLISHED = (
    "steps=7000,tokens_per_batch=8192,accumulate=4,precision=bfloat16,learning_rate=0.005,"
    "warm_up_steps=2000,schedule=inverse_square_root,vocabulary_size=10000,subword_dropout=0,"
    "lowercase=true,validate_every=100"
)


def published(seed=0):
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    return [row for row in rows if row["seed"] == seed]


def test_the_second_seeds_are_of_the_same_plan():
    rows = published(seed=1)
    assert {row["rung"] for row in rows} == {"additive", "transformer"}
    first = {(row["rung"], row["decoding"]): row for row in published()}
    for row in rows:
        same = ("parameters", "training_steps", "tokens_per_batch", "signature", "sentences")
        of_first = first[row["rung"], row["decoding"]]
        assert [row[key] for key in same] == [of_first[key] for key in same]
        assert row["changes"] is row["checkpoint"] is None
        assert row["command"].endswith(f"--rungs {row['rung']} --seeds 2")
        assert row["log"][-1]["averaged"] == 10
        assert row["bleu"] != of_first["bleu"]


def test_the_published_rows_are_of_the_shipped_models():
    rows = published()
    asked = [(row["rung"], row["decoding"]) for row in rows]
    assert asked == [(rung, decoding) for rung in RUNGS for decoding in BEAM_SIZES]
    for row in rows:
        assert row["quick"] is False
        assert row["checkpoint"] == real_ladder.SHIPPED[row["rung"]]
        said = checkpoints.load_pretrained(row["checkpoint"]).provenance
        assert row["perplexity"] == pytest.approx(said["evaluation"]["perplexity"], abs=0.002)
        if row["length_penalty"] == 1.0:  # as when it was shipped
            assert row["bleu"] == pytest.approx(said["evaluation"]["sacrebleu"], abs=0.1)
        low, high = row["bleu_interval"]
        assert low < row["bleu"] < high


@pytest.mark.parametrize("data", [real_ladder.SHIPPED_DATA, *real_ladder.PLANS])
def test_the_published_rows_say_what_goes_on_with_them(data, tmp_path):
    """Moved to this machine's version of PyTorch, they are taken as they are."""
    rows = json.loads((RESULTS.parent / f"ladder-{data}.json").read_text(encoding="utf-8"))
    ladder = experiments.find("ladder", data, ["transformer"])
    versions = {"attentively": attentively.__version__, "torch": torch.__version__}
    output = tmp_path / "rows.json"
    output.write_text(json.dumps([row | {"versions": versions} for row in rows]))
    never = dataclasses.replace(ladder, measure=lambda **_: pytest.fail("it is measured again"))
    assert len(run(never, output, tmp_path, seeds=1, progress=False)["rows"]) == len(rows)


@pytest.mark.parametrize("data", real_ladder.PLANS)
def test_the_rows_of_the_captions_are_of_their_plan(data):
    """What they learned from may not be handed on: no model of theirs ships."""
    rows = json.loads((RESULTS.parent / f"ladder-{data}.json").read_text(encoding="utf-8"))
    assert [row["decoding"] for row in rows] == list(BEAM_SIZES) * (len(rows) // 2)
    for row in rows:
        plan = real_ladder.plan_for(data, row["changes"])
        assert (row["data"], row["quick"], row["checkpoint"]) == (data, False, None)
        assert f"--data {data} --rungs " in row["command"]
        assert (row["changes"] is None) == ("--change" not in row["command"])
        assert row["parameters"] <= 2_700_000
        assert row["training_steps"] == plan.steps == row["log"][-1]["step"]
        assert row["tokens_per_batch"] == plan.tokens_per_batch
        assert row["log"][-1]["averaged"] == 10
        best = min(record["validation_loss"] for record in row["log"])
        assert row["perplexity"] == pytest.approx(math.exp(best), rel=0.1)  # of the test split
        tried = row["validation_bleu"]
        if row["beam_size"] == 1:
            assert tried is row["length_penalty"] is None
        else:
            assert tried[f"{row['length_penalty']:g}"] == max(tried.values())
        assert sum(group["sentences"] for group in row["by_length"]) == row["sentences"] == 1_000


@pytest.mark.real_data("multi30k-en-de")
def test_cut_by_our_rules_the_german_references_have_as_many_words_as_wu_et_als():
    """Their log tells a length of the references of 12,103 tokens: so the scores are alike."""
    references = [pair.tgt for pair in corpora.find("multi30k-en-de", "pairs").load("test")]
    cut = [real_ladder._tokenised(text, "de") for text in references]
    assert sum(len(text.split()) for text in cut) == 12_103


def test_the_readme_tells_the_published_scores():
    said = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    rows = {(row["rung"], row["decoding"]): row for row in published()}
    for rung in RUNGS:
        greedy, beam = rows[rung, "greedy"], rows[rung, "beam 5"]
        assert (
            f"| `{beam['checkpoint']}` | {beam['parameters'] / 1e6:.1f} | {beam['perplexity']:.2f} "
            f"| {greedy['bleu']:.1f} | {beam['bleu']:.1f} | {beam['chrf']:.1f} "
            f"| {beam['length_penalty']:g} | {beam['training_seconds'] / 3_600:.1f} |"
        ) in said


@pytest.mark.parametrize(
    ("task", "rung", "decoding", "changes", "training"),
    [
        ("German to English", "transformer", "greedy", None, ""),
        ("German to English", "additive", "greedy", None, ""),
        ("English to German", "transformer", "beam 5", None, ""),
        ("English to German", "transformer", "beam 5", LONGER, f", `--change {LONGER}`"),
        ("English to German", "transformer", "beam 5", PUBLISHED, ", published settings"),
    ],
)
def test_the_readme_tells_the_scores_of_the_captions(task, rung, decoding, changes, training):
    data = {"German to English": "multi30k-de-en", "English to German": "multi30k-en-de"}[task]
    rows = json.loads((RESULTS.parent / f"ladder-{data}.json").read_text(encoding="utf-8"))
    asked = {"rung": rung, "decoding": decoding, "changes": changes}
    [row] = [row for row in rows if row.items() >= asked.items()]
    model = {"transformer": "Transformer", "additive": "additive attention"}[rung]
    model += f" ({row['parameters'] / 1e6:.1f}){training}"
    said = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"| {task} | {decoding} | {model} | {row['bleu_lowercased']:.1f} |" in said
    assert rung != "transformer" or row["training_seconds"] < 2.5 * 3_600


@pytest.mark.slow
@pytest.mark.real_data(real_ladder.SHIPPED_DATA)
@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("decoding", BEAM_SIZES)
def test_evaluating_a_shipped_model_gives_its_row(rung, decoding, tmp_path):
    """What differs between machines is the last digits, which turn few choices of a word."""
    [row] = [r for r in published() if (r["rung"], r["decoding"]) == (rung, decoding)]
    command = ["evaluate", row["data"], "--model", row["checkpoint"]]
    command += ["--beam-size", str(row["beam_size"]), "--json", str(tmp_path / "scores.json")]
    if row["length_penalty"] is not None:
        command += ["--length-penalty", str(row["length_penalty"])]
    cli.app(command, standalone_mode=False)
    found = json.loads((tmp_path / "scores.json").read_text())
    assert found["sentences"] == row["sentences"]
    assert found["signature"] == row["signature"]
    assert found["perplexity"] == pytest.approx(row["perplexity"], abs=0.002)
    assert found["sacrebleu"] == pytest.approx(row["bleu"], abs=0.1)
    assert found["sacrebleu_chrf"] == pytest.approx(row["chrf"], abs=0.1)
    assert found["exact_match"] == pytest.approx(row["exact_match"], abs=0.002)


# Memory


def test_the_peak_is_of_what_came_after_it_was_reset():
    where = torch.device("cpu")
    if device.peak_memory_mib(where) is None:
        assert not device._STATUS.exists()
        return
    device.reset_peak_memory(where)
    before = device.peak_memory_mib(where)
    # Pages of the system's own: a tensor may receive memory that the process already holds.
    with mmap.mmap(-1, 64 * 2**20) as block:
        block.write(b"\1" * len(block))
        assert 50 < device.peak_memory_mib(where) - before < 160
    assert device.peak_memory_mib(where) - before > 50  # it was held, and is a peak
    device.reset_peak_memory(where)
    assert device.peak_memory_mib(where) - before < 40
