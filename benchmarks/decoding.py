"""How fast a text is written: `attentively.generation.search` beside Hugging Face's ``generate``.

    python benchmarks/decoding.py            # writes benchmarks/results/decoding.json
    python benchmarks/decoding.py --quick    # small, and writes nothing

Both sides have the same Transformer with the same random weights (on the other side it is called
Marian), a cache, and the end token forbidden, so that both write the same number of tokens. Five
comparisons, each a ratio of tokens per second, ours over the other's:

greedy_batch_1, greedy_batch_32    greedy search, for one sentence and for 32 at once
beam_5_batch_1, beam_5_batch_32    beam search of width 5
refeed_length_N                    greedy search beside reading all that is written at every step

The two sides take turns, so that whatever else the machine does slows both; what counts is the
ratio of their medians. Memory is what is taken at the worst moment, beyond what was before: on
the CPU what Linux counts as resident, on CUDA what the allocator counts.
"""

import argparse
import ctypes
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from attentively import device
from attentively.atomic_files import replacing
from attentively.generation import search as decoding
from attentively.models.configs import TransformerConfig
from attentively.models.transformer import Transformer
from attentively.tokens.vocabulary import END_ID, PAD_ID, START_ID

RESULTS = Path(__file__).parent / "results" / "decoding.json"
AT_LEAST = 1.0
FORBIDDEN_IDS = [*decoding.FORBIDDEN_IDS, END_ID]

transformers.logging.set_verbosity_error()


@dataclass(frozen=True)
class Size:
    """The size of a model, and of what it reads and writes."""

    name: str
    vocab_size: int
    d_model: int
    num_heads: int
    d_ff: int
    num_layers: int
    src_len: int
    tgt_len: int
    refeed_lengths: list[int]


TINY = Size("tiny", 53, 12, 3, 13, 2, src_len=5, tgt_len=4, refeed_lengths=[2, 3])
TOY = Size("toy", 211, 64, 4, 256, 2, src_len=16, tgt_len=32, refeed_lengths=[16, 64, 128])
REAL = Size("real", 5000, 256, 8, 1024, 3, src_len=20, tgt_len=32, refeed_lengths=[16, 64, 128])
BASE = Size("base", 37000, 512, 8, 2048, 6, src_len=40, tgt_len=64, refeed_lengths=[32, 128, 512])
SIZES = {"cpu": [TOY, REAL], "cuda": [REAL, BASE], "mps": [TOY, REAL]}


def of_the_package(size: Size) -> Transformer:
    """Return the package's model."""
    config = TransformerConfig(
        src_vocab_size=size.vocab_size,
        tgt_vocab_size=size.vocab_size,
        share_embeddings=True,
        d_model=size.d_model,
        num_heads=size.num_heads,
        d_ff=size.d_ff,
        num_layers=size.num_layers,
        norm="post",
    )
    return Transformer(config).eval()


MARIAN_TO_OURS = {
    "self_attn_layer_norm": "around_self_attention.layer_norm",
    "encoder_attn_layer_norm": "around_cross_attention.layer_norm",
    "final_layer_norm": "around_feed_forward.layer_norm",
    "self_attn": "self_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "query_projection",
    "k_proj": "key_projection",
    "v_proj": "value_projection",
    "out_proj": "output_projection",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.outer",
    "norm.weight": "norm.gain",
    "norm.bias": "norm.shift",
}


def in_ours(name: str) -> str:
    """Return what the package calls a parameter of one of Marian's layers."""
    for theirs, ours in MARIAN_TO_OURS.items():
        name = name.replace(theirs, ours)
    if name.startswith("encoder"):
        name = name.replace("around_self_attention", "around_attention")
    return name


def with_weights_of(package: Transformer, size: Size) -> MarianMTModel:
    """Return Marian with the package's weights.

    In Marian's positions all sines come first, in the package's sines and cosines take turns;
    so component ``order[i]`` of the package's vectors becomes component i.
    """
    model = MarianMTModel(
        MarianConfig(
            vocab_size=size.vocab_size,
            d_model=size.d_model,
            encoder_layers=size.num_layers,
            decoder_layers=size.num_layers,
            encoder_attention_heads=size.num_heads,
            decoder_attention_heads=size.num_heads,
            encoder_ffn_dim=size.d_ff,
            decoder_ffn_dim=size.d_ff,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=max(size.src_len, size.tgt_len) + 1,
            pad_token_id=PAD_ID,
            eos_token_id=END_ID,
            decoder_start_token_id=START_ID,
            forced_eos_token_id=None,
        )
    )
    order = torch.arange(size.d_model).view(-1, 2).T.flatten()
    ours = package.state_dict()
    with torch.no_grad():
        model.model.shared.weight.copy_(ours["output.weight"][:, order])
        for name, parameter in model.model.named_parameters():
            if ".layers." not in name:
                continue
            value = ours[in_ours(name)]
            if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight", "fc1.weight")):
                value = value[:, order]  # reads a vector
            elif "out_proj" in name or "fc2" in name or "layer_norm" in name:
                value = value[order]  # says a vector
            parameter.copy_(value)
    return model.to(next(package.parameters()).device).eval()


def check_same(package: Transformer, marian: MarianMTModel, src: Tensor) -> None:
    """Raise `AssertionError` where the two differ in the logits of a target."""
    tgt = torch.cat([torch.full_like(src[:, :1], START_ID), src], dim=1)
    src_mask = package.source_mask(src)
    with torch.no_grad():
        ours = package(src, tgt)
        theirs = marian(
            input_ids=src, attention_mask=src_mask.squeeze(1).long(), decoder_input_ids=tgt
        )
    if (ours - theirs.logits).norm() > 1e-3 * ours.norm():
        raise AssertionError("not the same network: the logits differ")


def by_the_package(
    model: Transformer, beam_size: int, max_len: int
) -> Callable[[Tensor], list[list[int]]]:
    """Return the package's search for the best text of each source."""

    def write(src: Tensor) -> list[list[int]]:
        if beam_size == 1:
            found = decoding.greedy_search(model, src, max_len, FORBIDDEN_IDS)
            return [hypothesis.ids for hypothesis in found]
        beams = decoding.beam_search(model, src, max_len, beam_size, forbidden_ids=FORBIDDEN_IDS)
        return [hypotheses[0].ids for hypotheses in beams]

    return write


def by_transformers(
    model: MarianMTModel, beam_size: int, max_len: int
) -> Callable[[Tensor], list[list[int]]]:
    """Return the same search by Hugging Face Transformers."""

    def write(src: Tensor) -> list[list[int]]:
        written = model.generate(
            input_ids=src,
            attention_mask=(src != PAD_ID).long(),
            do_sample=False,
            num_beams=beam_size,
            early_stopping=False,
            max_new_tokens=max_len,
            suppress_tokens=FORBIDDEN_IDS,
        )
        return written[:, 1:].tolist()  # without the start

    return write


def by_reading_again(model: Transformer, max_len: int) -> Callable[[Tensor], list[list[int]]]:
    """Return greedy search without a cache: at each step the model reads all that it wrote."""

    @torch.no_grad()
    def write(src: Tensor) -> list[list[int]]:
        memory = model.encode(src)
        tgt = torch.full_like(src[:, :1], START_ID)
        for _ in range(max_len):
            logits = model.decode(tgt, memory).logits[:, -1]
            logits[:, FORBIDDEN_IDS] = -torch.inf
            tgt = torch.cat([tgt, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return tgt[:, 1:].tolist()

    return write


def resident_megabytes(name: str) -> float:
    """Return a size that Linux tells of this process: VmRSS now, VmHWM at its highest."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def peak_megabytes(run: Callable[[Tensor], object], src: Tensor) -> float | None:
    """Return the memory that `run` needs at its worst moment; None where nobody counts it."""
    if src.device.type == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        run(src)
        return round((torch.cuda.max_memory_allocated() - before) / 2**20, 2)
    if src.device.type != "cpu" or sys.platform != "linux":
        return None
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not to be used again unseen
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest so far
    before = resident_megabytes("VmRSS")
    run(src)
    return round(resident_megabytes("VmHWM") - before, 2)


def compare(
    name: str,
    size: Size,
    writers: dict[str, Callable[[Tensor], list[list[int]]]],
    max_len: int,
    sources: list[Tensor],
) -> dict:
    """Time two sides, turn by turn on the same sources; the ratio is of their speeds."""
    times: dict[str, list[float]] = {side: [] for side in writers}
    for turn, src in enumerate(sources):
        sides = list(writers.items())
        if turn % 2:
            sides.reverse()  # neither always goes first
        for side, write in sides:
            started = time.perf_counter()
            texts = write(src)
            taken = time.perf_counter() - started
            if [len(text) for text in texts] != [max_len] * len(src):
                raise AssertionError(f"{side} wrote fewer tokens than {max_len}")
            if turn > 0:  # the first warms up
                times[side].append(taken)
    tokens = max_len * len(sources[0])
    speeds = {side: tokens / statistics.median(taken) for side, taken in times.items()}
    ours, theirs = speeds.values()
    low, _, high = statistics.quantiles(
        (other / one for one, other in zip(*times.values(), strict=True)), n=4
    )
    return {
        "name": name,
        "size": asdict(size),
        "device": device.describe(sources[0].device),
        "repetitions": len(sources) - 1,
        "tokens_per_second": {side: round(speed, 1) for side, speed in speeds.items()},
        "ratio": round(ours / theirs, 3),
        "ratio_of_a_turn_quartiles": [round(low, 3), round(high, 3)],
        "peak_megabytes": {side: peak_megabytes(run, sources[0]) for side, run in writers.items()},
    }


def measure(size: Size, repetitions: int, where: torch.device) -> list[dict]:
    """Return all comparisons at one size."""
    torch.manual_seed(0)
    package = of_the_package(size)
    marian = with_weights_of(package, size)
    package.to(where), marian.to(where)

    def random_sources(batch_size: int) -> list[Tensor]:
        turns = 1 + repetitions * (3 if batch_size == 1 else 1)  # short turns vary more
        shape = (turns, batch_size, size.src_len)
        return list(torch.randint(END_ID + 1, size.vocab_size, shape).to(where))

    check_same(package, marian, random_sources(7)[0])
    rows = []
    for search, beam_size in (("greedy", 1), ("beam_5", 5)):
        for batch_size in (1, 32):
            writers = {
                "package": by_the_package(package, beam_size, size.tgt_len),
                "generate": by_transformers(marian, beam_size, size.tgt_len),
            }
            name, sources = f"{search}_batch_{batch_size}", random_sources(batch_size)
            row = compare(name, size, writers, size.tgt_len, sources)
            rows.append({**row, "at_least": AT_LEAST})
            print(f"{size.name} {name}: done", file=sys.stderr)
    for length in size.refeed_lengths:
        writers = {
            "package": by_the_package(package, 1, length),
            "reading again": by_reading_again(package, length),
        }
        sources = random_sources(1)
        rows.append(compare(f"refeed_length_{length}", size, writers, length, sources))
        print(f"{size.name} refeed_length_{length}: done", file=sys.stderr)
    return rows


def table(rows: list[dict]) -> str:
    """Return the results as text."""
    lines = [
        f"{'size':6}{'what':20}{'tokens/s':>10}{'beside':>10}{'ratio':>8}   half of the turns"
        f"   {'MiB':>9}{'beside':>9}"
    ]
    for row in rows:
        ours, theirs = row["tokens_per_second"].values()
        low, high = row["ratio_of_a_turn_quartiles"]
        memory = "".join(
            f"{'?' if peak is None else peak:>9}" for peak in row["peak_megabytes"].values()
        )
        lines.append(
            f"{row['size']['name']:6}{row['name']:20}{ours:10.0f}{theirs:10.0f}"
            f"{row['ratio']:8.3f}   {low:6.3f} to {high:6.3f}   {memory}"
        )
    return "\n".join(lines)


def ratios(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Return the ratios by name, then by device and size."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        place = f"{row['device']}, {row['size']['name']}"
        found.setdefault(row["name"], {})[place] = row["ratio"]
    return found


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small model, and nothing written")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--output", type=Path, help=f"results file [{RESULTS.name}]")
    given = parser.parse_args(arguments)
    best = device.best()
    places = [torch.device("cpu")] + [best] * (best.type != "cpu")
    rows = []
    for where in places:
        for size in [TINY] if given.quick else SIZES[where.type]:
            rows += measure(size, 3 if given.quick else given.repetitions, where)
    print(table(rows))
    print(f"on {' and '.join(device.describe(where) for where in places)}")
    output = given.output or (None if given.quick else RESULTS)
    if output is not None:
        content = {
            "command": "python benchmarks/decoding.py",
            "device": [device.describe(where) for where in places],
            "machine": platform.machine(),
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "transformers": transformers.__version__,
            },
            "at_least": AT_LEAST,
            "ratios": ratios(rows),
            "rows": rows,
        }
        with replacing(output) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
