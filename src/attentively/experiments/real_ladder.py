"""The ladder on real sentences: the same models, trained alike on a corpus of sentence pairs.

All models (rungs) have the same subwords, batches, number of updates, optimizer and learning rate;
each shares one embedding matrix between source, target and output, and they have similar numbers of
parameters. The test split is used once, at the end: the checkpoint and the length penalty are
selected on the validation split.
"""

import json
import math
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import attentively
from attentively import device
from attentively.attention.multi_head import MultiHeadAttention
from attentively.data import corpora
from attentively.data.batches import Batch, collate, encode_pairs, shuffled
from attentively.data.pairs import Pair
from attentively.data.subword_dropout import CutAnew
from attentively.experiments.ladder import BEAM_SIZES
from attentively.experiments.rungs import RUNGS
from attentively.experiments.runner import Experiment, Row
from attentively.experiments.scores import seconds_per_step
from attentively.layers.dropout import make_quick
from attentively.layers.feed_forward import FeedForward
from attentively.models import checkpoints
from attentively.models.checkpoints import Checkpoint
from attentively.models.configs import Seq2SeqConfig, TransformerConfig
from attentively.models.interface import EncoderDecoder
from attentively.models.seq2seq import Seq2Seq
from attentively.models.transformer import Transformer
from attentively.scoring import bootstrap
from attentively.scoring.evaluation import Evaluation, evaluate, in_columns
from attentively.scoring.metrics import bleu_counts, bleu_from_counts
from attentively.tokens.vocabulary import BPETokenizer
from attentively.training.objectives import teacher_forced_loss
from attentively.training.trainer import Trainer
from attentively.training.training_config import Precision, TrainingConfig

LENGTH_PENALTIES = (0.6, 1.0, 1.4)
"""Length penalties to select from on the validation split."""
SHAPE = {"d_model": 128, "num_heads": 4, "d_ff": 256, "num_layers": 4}
"""Of the Transformer."""
PREFIX = "ladder"
SHIPPED = {rung: f"{PREFIX}-{rung}" for rung in RUNGS} | {
    "transformer": "tatoeba-en-fr-transformer"
}
"""The pretrained checkpoint of each model, trained on `SHIPPED_DATA`."""
SHIPPED_DATA = "tatoeba-en-fr"


@dataclass(frozen=True)
class Plan:
    """The hyperparameters that all models share on one corpus."""

    vocabulary_size: int = 5_000
    """Size of the subword vocabulary, shared by both sides."""
    steps: int = 7_000
    tokens_per_batch: int = 2_048
    learning_rate: float = 3e-3
    warm_up_steps: int = 1_000
    schedule: str = "inverse_square_root"
    label_smoothing: float = 0.1
    dropout: float = 0.1
    subword_dropout: float = 0.0
    """BPE-dropout: probability of skipping a merge in training."""
    quick_dropout: bool = False
    """Whether dropout uses 16 random bits per element, which is faster on a CPU."""
    inner_dropout: bool = False
    """Whether a Transformer's dropout also acts on attention weights and between the two layers of
    the feed-forward networks."""
    lowercase: bool = False
    """Whether all text is lowercased, the references too: then the cased BLEU is lowercased."""
    accumulate: int = 1
    """Number of parts of a batch whose gradients are added before an update."""
    precision: Precision = "float32"
    """Number format of the matrix products in training, ``float32`` or ``bfloat16``."""
    validate_every: int = 250
    lengths: tuple[int, ...] = (4, 6, 8, 11)
    """Maximum number of source words of each group of sentences except the last."""

    def training(self, seed: int, quick: bool) -> TrainingConfig:
        """Return the training configuration of every model."""
        return TrainingConfig(
            steps=10 if quick else self.steps,
            tokens_per_batch=512 if quick else self.tokens_per_batch,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            warm_up_steps=2 if quick else self.warm_up_steps,
            beta2=0.98,
            epsilon=1e-9,
            label_smoothing=self.label_smoothing,
            average_last=2 if quick else 10,
            accumulate=self.accumulate,
            precision=self.precision,
            validate_every=5 if quick else self.validate_every,
            seed=seed,
        )


_CAPTIONS = Plan(
    steps=12_000,
    schedule="one_cycle",
    dropout=0.3,
    subword_dropout=0.05,
    quick_dropout=True,
    lengths=(8, 11, 14, 18),
)
PLANS = {"multi30k-en-de": _CAPTIONS, "multi30k-de-en": _CAPTIONS}
"""The plans of some corpora; other corpora use the defaults of `Plan`."""
_READERS: dict[type, Callable[[str], Any]] = {
    bool: {"true": True, "false": False}.__getitem__,
    int: int,
    float: float,
    str: str,
}


def plan_for(data: str, changes: str | None = None) -> Plan:
    """Return the plan of a corpus, with `changes` such as ``steps=24000,dropout=0.1``.

    An unknown name raises `ValueError`.
    """
    plan = PLANS.get(data, Plan())
    return replace(plan, **_read_changes(changes, plan)) if changes else plan


def _read_changes(changes: str, plan: Plan) -> dict[str, Any]:
    """Return the value of each ``name=value``, with the type of this field of the plan."""
    now = {name: value for name, value in asdict(plan).items() if type(value) in _READERS}
    read = {}
    for change in changes.split(","):
        name, _, value = change.partition("=")
        if name not in now:
            raise ValueError(f"{name!r} cannot be changed: choose one of {', '.join(now)}")
        if name in read:
            raise ValueError(f"{name} is changed twice: {changes}")
        try:
            read[name] = _READERS[type(now[name])](value)
        except (KeyError, ValueError):
            raise ValueError(
                f"{change!r} is not a valid value: {name} is now {now[name]!r}"
            ) from None
    return read


@cache
def _pairs(data: str, split: str, quick: bool, lowercase: bool = False) -> list[Pair]:
    found = list(corpora.find(data, "pairs").load(split))
    if lowercase:
        found = [Pair(pair.src.lower(), pair.tgt.lower()) for pair in found]
    return found[: 400 if split == "train" else 5] if quick else found


@cache
def _tokenizer(
    data: str, vocabulary_size: int, quick: bool, lowercase: bool = False
) -> BPETokenizer:
    pairs = _pairs(data, "train", quick, lowercase)
    sides = [[pair.src for pair in pairs], [pair.tgt for pair in pairs]]
    size = 300 if quick else vocabulary_size
    return BPETokenizer.train((text for side in sides for text in side), size)


def new_model(rung: str, vocabulary_size: int, dropout: float, seed: int) -> EncoderDecoder:
    """Return the untrained model of a rung; an unknown rung raises `ValueError`.

    A Luong decoder does not read the context, which saves parameters, so it has wider states.
    """
    torch.manual_seed(seed)
    common: dict[str, Any] = {
        "src_vocab_size": vocabulary_size,
        "tgt_vocab_size": vocabulary_size,
        "dropout": dropout,
        "share_embeddings": True,
    }
    common_recurrent = {**common, "embedding_dim": 128, "attention": rung}
    recurrent: Callable[..., Any] = partial(Seq2SeqConfig, **common_recurrent)
    match rung:
        case "transformer":
            sizes: dict[str, Any] = {**SHAPE, **common}
            return Transformer(TransformerConfig(**sizes))
        case "fixed" | "additive":
            return Seq2Seq(recurrent(encoder_dim=160, decoder_dim=320, attention_dim=160))
        case "dot" | "general" | "concat":
            return Seq2Seq(
                recurrent(decoder="luong", encoder_dim=192, decoder_dim=384, attention_dim=192)
            )
    raise ValueError(f"rung={rung!r} is unknown: choose one of {', '.join(RUNGS)}")


def _attention_kernel(precision: str) -> AbstractContextManager[None]:
    """Return the context of a training: without PyTorch's fused attention where that is slow.

    It is slow in bfloat16 on a CPU, for sequences as short as sentences.
    """
    if precision == "bfloat16" and device.best().type == "cpu":
        return sdpa_kernel(SDPBackend.MATH)
    return nullcontext()


def _drop_inside(model: torch.nn.Module, dropout: float) -> None:
    """Apply dropout also to attention weights and inside the feed-forward networks."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.dropout = dropout
        elif isinstance(module, FeedForward):
            module.dropout.p = dropout


def train(
    rung: str,
    data: str,
    seed: int,
    quick: bool,
    directory: Path,
    changes: str | None = None,
    progress: bool = True,
) -> Checkpoint:
    """Return a rung's best model, with parameters rounded to 16 bits as in pretrained models.

    A run in `directory` is resumed, or used as it is if it has ended.
    """
    plan = plan_for(data, changes)
    tokenizer = _tokenizer(data, plan.vocabulary_size, quick, plan.lowercase)
    pairs, validation = (
        _pairs(data, split, quick, plan.lowercase) for split in ("train", "validation")
    )
    examples: Sequence[Any]
    if plan.subword_dropout:
        examples = CutAnew(pairs, tokenizer, plan.subword_dropout)
    else:
        examples = encode_pairs(pairs, tokenizer, tokenizer)
    model = new_model(rung, len(tokenizer), plan.dropout, seed)
    if plan.inner_dropout:
        _drop_inside(model, plan.dropout)
    if plan.quick_dropout:
        make_quick(model)
    config = plan.training(seed, quick)
    corpus = corpora.find(data, "pairs")
    provenance = {
        "command": f"attentively experiment ladder {_options(data, [rung], changes)}",
        "data": corpus.name,
        "data_licence": corpus.licence,
        "attribution": corpus.attribution,
        "training_examples": len(examples),
        "parameters": _count(model),
        "plan": asdict(plan),
        "training": config.to_dict(),
        "device": device.describe(device.best()),
        "versions": {"attentively": attentively.__version__, "torch": torch.__version__},
    }
    checkpoint = Checkpoint(model, tokenizer, tokenizer, provenance)
    trainer = Trainer(
        checkpoint,
        examples,
        encode_pairs(validation, tokenizer, tokenizer),
        config,
        directory,
        progress,
    )
    with _attention_kernel(plan.precision):
        trainer.fit(resume=(directory / "last.safetensors").exists())
    rounded = directory / "rounded.safetensors"
    best = checkpoints.load(directory / "best.safetensors")
    checkpoint = Checkpoint(best.model, tokenizer, tokenizer, best.provenance)
    checkpoints.save(checkpoint, rounded, half_precision=True)
    return checkpoints.load(rounded)


def measure(
    rung: str,
    decoding: str,
    seed: int,
    quick: bool,
    directory: Path,
    data: str,
    changes: str | None = None,
    shipped: bool = False,
) -> Row:
    """Train a model, or reuse a trained or pretrained one; evaluate it on the test split."""
    log = None  # the log of a pretrained model is stored next to it
    if shipped:
        checkpoint = checkpoints.load_pretrained(SHIPPED[rung])
    else:
        label = "-".join(filter(None, [rung, changes, f"seed{seed}"]))
        run = directory.parent / label
        checkpoint = train(rung, data, seed, quick, run, changes)
        log = read_log(run)
    checkpoint.model.to(device.best()).eval()
    beam_size, lowercase = BEAM_SIZES[decoding], plan_for(data, changes).lowercase
    penalty, tried = None, None
    if beam_size > 1:
        tried = bleu_by_penalty(checkpoint, _pairs(data, "validation", quick, lowercase), beam_size)
        penalty = max(tried, key=lambda penalty: tried[penalty])
    pairs = _pairs(data, "test", quick, lowercase)
    found = evaluate(checkpoint, pairs, beam_size, 1.0 if penalty is None else penalty)
    said = checkpoint.provenance
    return {
        "data": data,
        "parameters": _count(checkpoint.model),
        "training_steps": said["training"]["steps"],
        "tokens_per_batch": said["training"]["tokens_per_batch"],
        "training_seconds": round(said["seconds"]),
        "training_device": said["device"],
        "checkpoint": SHIPPED[rung] if shipped else None,
        **_costs_apart(rung, data, changes, quick),
        "beam_size": beam_size,
        "length_penalty": penalty,
        "validation_bleu": tried and {f"{key:g}": round(score, 2) for key, score in tried.items()},
        "perplexity": round(found.perplexity, 3),
        **scores(found.translations, found.references, language=data.rpartition("-")[2]),
        "exact_match": round(found.exact_match, 4),
        "sentences": found.sentences,
        "by_length": by_length(found, plan_for(data).lengths),
        "log": log,
    }


def bleu_by_penalty(
    checkpoint: Checkpoint, pairs: Sequence[Pair], beam_size: int
) -> dict[float, float]:
    """Return the BLEU of beam search on `pairs` for each length penalty."""
    return {
        penalty: evaluate(checkpoint, pairs, beam_size, penalty).sacrebleu
        for penalty in LENGTH_PENALTIES
    }


def read_log(directory: Path) -> list[Row]:
    """Return the losses in the log of a run, in nats per token."""
    records = map(json.loads, (directory / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        {
            name: round(value, 4) if name.endswith("_loss") else value
            for name, value in record.items()
            if name in ("step", "train_loss", "validation_loss", "averaged")
        }
        for record in records
    ]


def scores(translations: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Row:
    """Return three variants of BLEU and chrF, by sacreBLEU, each with its signature.

    BLEU is cased on plain text, lowercased on plain text, and lowercased on text tokenized by
    Moses' rules for `language`, as papers on Multi30k report it. ``bleu_interval`` is the 95 %
    bootstrap interval of the cased score, from 1,000 samples.
    """
    columns = in_columns(references)
    cased, lowercased = sacrebleu.BLEU(), sacrebleu.BLEU(lowercase=True)
    before = sacrebleu.BLEU(tokenize="none", force=True)
    characters = sacrebleu.CHRF()
    cut = partial(_tokenised, language=language)
    found = {
        "bleu": cased.corpus_score(translations, columns).score,
        "bleu_lowercased": lowercased.corpus_score(translations, columns).score,
        "bleu_tokenised": before.corpus_score(
            [cut(text) for text in translations],
            in_columns([[cut(text) for text in row] for row in references]),
        ).score,
        "chrf": characters.corpus_score(translations, columns).score,
    }
    return {name: round(score, 2) for name, score in found.items()} | {
        "bleu_interval": _interval(translations, references),
        "signature": str(cased.get_signature()),
        "signature_lowercased": str(lowercased.get_signature()),
        "signature_tokenised": str(before.get_signature()),
        "chrf_signature": str(characters.get_signature()),
    }


def _interval(translations: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    counts = torch.tensor(list(map(bleu_counts, translations, references)))
    samples = bootstrap.draw(len(counts))
    resampled = bootstrap.resampled_scores(
        counts, lambda sums: bleu_from_counts(list(map(int, sums))).score, samples
    )
    return [round(end, 2) for end in bootstrap.interval(resampled)]


def _tokenised(text: str, language: str) -> str:
    """Lowercase the text and tokenize it by Moses' rules."""
    normalise, cut = _moses(language if language in ("de", "en", "es", "fr") else "en")
    return str(cut.tokenize(normalise.normalize(text.lower()), return_str=True, escape=False))


@cache
def _moses(language: str) -> tuple[Any, Any]:
    try:
        import sacremoses
    except ModuleNotFoundError:
        raise ValueError(
            "the ladder on real sentences needs sacremoses: pip install sacremoses"
        ) from None
    return sacremoses.MosesPunctNormalizer(language), sacremoses.MosesTokenizer(language)


def by_length(found: Evaluation, lengths: Sequence[int]) -> list[Row]:
    """Return the scores by source length, without empty groups.

    `lengths` are the maximum numbers of source words of all groups except the last.
    """
    groups: list[list[int]] = [[] for _ in [*lengths, math.inf]]
    words = [len(source.split()) for source in found.sources]
    for index, number in enumerate(words):
        groups[next(i for i, most in enumerate([*lengths, math.inf]) if number <= most)].append(
            index
        )
    rows = []
    for group in filter(None, groups):
        said = [found.translations[index] for index in group]
        references = [found.references[index] for index in group]
        columns = in_columns(references)
        rows.append(
            {
                "from_words": min(words[index] for index in group),
                "to_words": max(words[index] for index in group),
                "mean_words": round(sum(words[index] for index in group) / len(group), 1),
                "sentences": len(group),
                "bleu": round(sacrebleu.BLEU().corpus_score(said, columns).score, 2),
                "chrf": round(sacrebleu.CHRF().corpus_score(said, columns).score, 2),
            }
        )
    return rows


def costs(rung: str, data: str, changes: str | None, quick: bool) -> Row:
    """Return the time of a training step, also that of *dot*, and its memory.

    Whatever the plan says, the step is in float32, on a batch in one part, with PyTorch's dropout
    and none inside the sub-layers.
    """
    plan = plan_for(data, changes)
    tokenizer = _tokenizer(data, plan.vocabulary_size, quick, plan.lowercase)
    examples = encode_pairs(_pairs(data, "train", quick, plan.lowercase), tokenizer, tokenizer)
    sizes = [(len(example.src), len(example.tgt)) for example in examples]
    tokens = 512 if quick else plan.tokens_per_batch
    batches = shuffled(sizes, seed=0, epoch=0, batch_size=1, tokens_per_batch=tokens)
    usual = sorted(batches, key=lambda batch: max(sizes[index] for index in batch))
    batch = collate([examples[index] for index in usual[len(usual) // 2]])
    model, dot = (new_model(name, len(tokenizer), plan.dropout, seed=0) for name in (rung, "dot"))
    peak = _peak_memory(model, batch)
    seconds, of_dot = seconds_per_step([model, dot], batch, repeats=1 if quick else 9)
    return {
        "seconds_per_step": round(seconds, 4),
        "seconds_per_step_of_dot": round(of_dot, 4),
        "peak_memory_mib": peak,
    }


def _peak_memory(model: EncoderDecoder, batch: Batch) -> int | None:
    """Return the peak memory of the process in two updates."""
    where = device.best()
    model.to(where).train()
    optimizer = torch.optim.Adam(model.parameters())
    device.reset_peak_memory(where)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        teacher_forced_loss(model, batch.to(where), label_smoothing=0.1).backward()
        optimizer.step()
    return device.peak_memory_mib(where)


@cache
def _costs_apart(rung: str, data: str, changes: str | None, quick: bool) -> Row:
    """Return the costs as measured in a separate process."""
    if quick:
        return costs(rung, data, changes, quick)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(costs, rung, data, changes, quick).result()


def _count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def experiment(
    data: str,
    rungs: Sequence[str] = RUNGS,
    shipped: bool = False,
    changes: str | None = None,
) -> Experiment:
    """Return the ladder on a corpus of sentence pairs; `shipped` evaluates the pretrained models.

    `changes` such as ``steps=24000,dropout=0.1`` modify the plan of the corpus. Raises
    `ValueError` for an unknown corpus, rung or change, for `shipped` with another corpus or with
    changes, and if sacremoses, which the scores need, is missing.
    """
    _moses("en")
    corpora.find(data, "pairs")
    plan_for(data, changes).training(seed=0, quick=False)  # raises ValueError for invalid changes
    for rung in rungs:
        if rung not in RUNGS:
            raise ValueError(f"rung={rung!r} is unknown: choose one of {', '.join(RUNGS)}")
    if shipped and data != SHIPPED_DATA:
        raise ValueError(f"the pretrained models were trained on {SHIPPED_DATA}, not on {data}")
    if shipped and changes:
        raise ValueError("--change needs training, but --shipped evaluates pretrained models")
    return Experiment(
        name="ladder",
        question=f"What does each model of the ladder improve on {data}?",
        conditions=[
            {"rung": rung, "decoding": decoding, "changes": changes}
            for rung in rungs
            for decoding in BEAM_SIZES
        ],
        measure=partial(measure, data=data, shipped=shipped),
        options=_options(data, rungs, changes) + " --shipped" * shipped,
        listed=True,
        said={"data": data},
    )


def _options(data: str, rungs: Sequence[str], changes: str | None) -> str:
    """Return the options of the command after the experiment's name."""
    options = [f"--data {data}"]
    if tuple(rungs) != tuple(RUNGS):
        options.append(f"--rungs {','.join(rungs)}")
    return " ".join([*options, f"--change {changes}"] if changes else options)


def table(rows: Sequence[Row]) -> str:
    """Return a table of the main results, averaged over the seeds."""
    lines = [
        f"{'model':12}{'decoding':10}{'parameters':>12}{'perplexity':>12}{'BLEU':>7}{'lowercased':>12}{'chrF':>7}"
        f"{'minutes':>9}{'step':>7}{'MiB':>7}"
    ]
    keys = ("changes", "rung", "decoding")
    groups: dict[tuple[str | None, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    heading = None
    for (changes, rung, decoding), of_all in groups.items():
        if changes != heading:
            lines.append(f"with {changes}" if changes else "default hyperparameters")
            heading = changes
        mean = partial(_mean, of_all)
        memory = of_all[0]["peak_memory_mib"]
        lines.append(
            f"{rung:12}{decoding:10}{of_all[0]['parameters']:12,}{mean('perplexity'):12.3f}"
            f"{mean('bleu'):7.2f}{mean('bleu_lowercased'):12.2f}{mean('chrf'):7.2f}"
            f"{mean('training_seconds') / 60:9.1f}"
            f"{mean('seconds_per_step') / mean('seconds_per_step_of_dot'):7.2f}"
            f"{'-' if memory is None else memory:>7}"
        )
    return "\n".join(
        [
            *lines,
            "lowercased: BLEU of lowercased text; step: time of a training step relative to dot",
        ]
    )


def _mean(rows: Sequence[Row], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)
