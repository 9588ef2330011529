"""Pages, solutions, experiments, benchmarks and commands of the README run where there is a GPU.

The pretend device stands in for it (`pretend_device`): it refuses tensors of two devices as a GPU
does. Long training loops are shortened, so the results mean nothing here.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from experiments import quick_forms
from test_told_commands import calls

from attentively.data import toy
from attentively.experiments import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
DEVICE = ROOT / "tests" / "pretend_device.py"
RUNNER = ROOT / "tests" / "on_pretend_device.py"
PAGES = sorted(map(str, (ROOT / "book").glob("*.md")))
SOLUTIONS = sorted(map(str, (ROOT / "solutions").glob("*/*.ipynb")))
README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALL = "--steps 2 --batch-size 4 --validate-every 2"
NOT_HERE = re.compile(
    r"attentively (collect|data|experiment|models|progress|submit)|--help|--install|DATA|NAME|news"
)
"""Commands of the README that compute nothing, or need what the reader has; and experiments."""
SHIPPED = {"runs/transformer": "toy-transformer", "runs/seq2seq": "toy-additive"}
"""What is scored in the place of a model that writes without end, as it is hardly trained."""


def on_data(folder):
    """Return what runs on a small stand-in for downloaded data, in its format, made in `folder`.

    A first cell states the stand-in's checksum in the place of the real one.
    """
    lines = [(pair.src_text, pair.tgt_text) for pair in toy.load("train", 600, clauses=(1,))]
    text = "".join(f"{src}\t{tgt}\tCC-BY 2.0\n" for src, tgt in lines)
    (folder / "tatoeba").mkdir()
    (folder / "tatoeba" / "fra.txt").write_text(text, encoding="utf-8")
    cell = STAND_IN.format(folder=str(folder), sha256=hashlib.sha256(text.encode()).hexdigest())
    for name, column in (("news.en", 0), ("news.fr", 1)):
        (folder / name).write_text("".join(f"{line[column]}\n" for line in lines), encoding="utf-8")
    made = folder / "stand_in.ipynb"
    made.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [cell]}]}))
    return [
        str(made),
        f"attentively train tatoeba-en-fr --model seq2seq {SMALL} --output runs/en-fr",
        "attentively evaluate tatoeba-en-fr --model toy-additive --beam-size 1",
        "attentively train --resume --output runs/en-fr",
        *(f"{call.partition('#')[0]} {SMALL}" for call in calls(README) if "train news" in call),
        "attentively train --resume --output runs/news",
    ]


STAND_IN = """
import dataclasses, os
from attentively.data import download
os.environ["ATTENTIVELY_DATA"] = {folder!r}
path = "tatoeba/fra.txt"
download.FILES[path] = dataclasses.replace(download.FILES[path], sha256={sha256!r})
"""


def commands():
    """Yield the commands of the README, each training short, and then used, scored and resumed."""
    found = calls(README)
    found = [call for call in found if not NOT_HERE.search(call) and "--resume" not in call]
    for call in found:
        trained = re.match(r"attentively train (\S+) .*--output (\S+)", call)
        yield f"{call.partition('#')[0]} {SMALL}" if trained else call
        if trained:
            model = SHIPPED.get(trained[2], trained[2])
            yield f"attentively evaluate {trained[1]} --model {model} --beam-size 1"
    yield "attentively train --resume --output runs/pronouns"
    yield f"attentively vectors train {ROOT / 'README.md'} --output v --epochs 1"


def environment(package=ROOT / "src"):
    """Return the variables of a process that runs on the device."""
    paths = os.pathsep.join(map(str, [package, ROOT / "tests"]))
    return {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}


def failures(wanted, folder, **options):
    """Run all that is wanted on the pretend device; return what failed."""
    ended = subprocess.run(
        [sys.executable, str(DEVICE), str(RUNNER), *wanted],
        cwd=folder,
        env=os.environ | environment(**options),
        capture_output=True,
        text=True,
        check=False,
    )
    results = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [each["ran"] for each in results] == list(wanted), ended.stderr[-3000:]
    return {each["ran"]: each["failure"] for each in results if each["failure"]}


def parts(kind, items, count):
    """Return the items in so many parts, which run side by side."""
    return [pytest.param(items[n::count], id=f"{kind}-{n + 1}") for n in range(count)]


def failures_alone(pages, folder, installed):
    """Run each page with the installed package, in a folder that holds nothing else."""
    first = folder / "where.ipynb"
    cell = f"import attentively\nassert attentively.__file__.startswith({str(installed)!r})"
    first.write_text(json.dumps({"cells": [{"cell_type": "code", "source": [cell]}]}))
    wanted = [str(first)]
    for page in map(Path, pages):
        (folder / page.stem).mkdir()
        wanted.append(str(shutil.copy(page, folder / page.stem / page.name)))
    found = failures(wanted, folder, package=installed)
    left = {path.name for path in folder.glob("*/*")} - {Path(page).name for page in pages}
    return {Path(each).name: failure for each, failure in found.items()} | dict.fromkeys(
        left, "is left"
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("pages", parts("pages", PAGES, 4))
def test_pages_run_alone_on_a_device(pages, installed, tmp_path):
    """As for a reader who has downloaded the notebook and installed the package."""
    assert failures_alone(pages, tmp_path, installed) == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "wanted", [*parts("solutions", SOLUTIONS, 2), *parts("commands", [*commands()], 1)]
)
def test_solutions_and_commands_run_on_a_device(wanted, tmp_path):
    assert failures(wanted, tmp_path) == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", parts("experiments", sorted(EXPERIMENTS), 2))
def test_the_quick_forms_of_experiments_run_on_a_device(names, tmp_path):
    told = "attentively experiment {0} --quick --seeds 1 --output {0}.json"
    assert failures([told.format(name) for name in names], tmp_path) == {}
    for name in names:
        quick_forms.see(name, json.loads((tmp_path / f"{name}.json").read_text()))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_commands_on_data_run_on_a_device(tmp_path):
    assert failures(on_data(tmp_path), tmp_path) == {}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [1, 2])
def test_torchrun_runs_on_a_device(tmp_path, count):
    """Two processes exchange their gradients through gloo, as CPU processes do."""
    told = f"train toy --model transformer {SMALL} --d-model 8 --num-heads 2 --output run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(count), str(DEVICE), "-m", "attentively", *told.split()]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert f"on pretend{', 2 processes' if count == 2 else ''}" in ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["decoding", "training_step", "transformer_step"])
def test_benchmarks_run_on_a_device(name, tmp_path):
    ended = subprocess.run(
        [sys.executable, str(DEVICE), str(ROOT / "benchmarks" / f"{name}.py"), "--quick"],
        cwd=tmp_path,
        env=os.environ | environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert "pretend" in ended.stdout.splitlines()[-1]


def test_every_command_of_every_kind_is_run():
    kinds = ["train", "evaluate", "translate", "generate", "classify", "fill", "caption", "vectors"]
    assert {call.split()[1] for call in commands()} == {*kinds}


PAGE = "---\nkernelspec:\n  name: python3\n---\n\n# A page\n\n```{{code-cell}} ipython3\n{}\n```\n"


def test_a_page_that_needs_or_leaves_a_file_is_found(tmp_path, installed):
    codes = {
        "reads.md": "open('results/scores.json')",
        "writes.md": "open('made.txt', 'w').close()",
    }
    pages = tmp_path / "pages"
    pages.mkdir()
    (tmp_path / "runs").mkdir()
    for name, code in codes.items():
        (pages / name).write_text(PAGE.format(code))
    found = failures_alone([pages / name for name in codes], tmp_path / "runs", installed)
    assert "FileNotFoundError" in found.pop("reads.md")
    assert found == {"made.txt": "is left"}


MIXED = """
import torch
from attentively import checkpoints, device
model = checkpoints.load_pretrained("toy-additive", device.best()).model
model.encode(torch.tensor([[5, 6]]){moved})
"""


COMPARED = """
import torch
x = torch.arange(6.0).view(2, 3)
there = x.to("pretend")
assert torch.equal((there @ there.T).cpu(), x @ x.T)
"""


def test_what_would_fail_on_a_gpu_is_found(tmp_path):
    """Tensors of the CPU that meet a model of the device; values compared for exact equality."""
    made = {
        "mixed": MIXED.format(moved=""),
        "moved": MIXED.format(moved=".to(device.best())"),
        "compared": COMPARED,
        "as an array": "import torch\ntorch.zeros(2, device='pretend').numpy()",
    }
    for name, cell in made.items():
        cells = {"cells": [{"cell_type": "code", "source": [cell]}]}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps(cells))
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(MIXED.format(moved="")))
    files = [*(str(tmp_path / f"{name}.ipynb") for name in made), str(page)]
    found = failures([*files, "attentively translate --model none hello"], tmp_path)
    assert "Expected all tensors to be on the same device" in found.pop(files[0])
    assert "Expected all tensors to be on the same device" in found.pop(files[4])
    assert "AssertionError" in found.pop(files[2])
    assert "can't convert pretend:0 device type tensor to numpy" in found.pop(files[3])
    assert "none" in found.pop("attentively translate --model none hello")
    assert not found
