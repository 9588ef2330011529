"""Write the chapters and exercises as notebooks for Google Colab into _build/colab.

    python tools/make_colab.py

Each begins with a cell that installs the package from the wheel of the release; the pretrained
models and the results that a notebook reads are part of it. An exercise ends with a cell that packs
and downloads the submission. Both cells do nothing outside Colab, so a submission is graded as any
other. The workflow `book` publishes the folder as the branch `colab`, where the buttons of the
book lead. Needs `repository.url` in _config.yml and, for the chapters, the built book.
"""

import shutil
import sys
from pathlib import Path

import addresses
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from attentively_grader.course import notebooks

ROOT = Path(__file__).resolve().parents[1]
INSTALL = """\
# Only in Colab: install the package, with the data of this notebook. This takes about a minute.
import subprocess
import sys

if "google.colab" in sys.modules:
    wheel = "{wheel}"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", wheel], check=True)"""
HAND_IN = """\
# Only in Colab: pack this notebook and download the file to hand in.
import sys

if "google.colab" in sys.modules:
    from attentively.coursework import colab

    colab.hand_in("{name}", student="YOUR-NAME")"""


def with_install(notebook: NotebookNode, wheel: str) -> NotebookNode:
    """Add the first cell, which installs the package."""
    install = new_code_cell(INSTALL.format(wheel=wheel), id="colab-install")
    notebook.cells.insert(0, install)
    return notebook


def with_hand_in(notebook: NotebookNode, name: str) -> NotebookNode:
    """Add the last cell, which packs a submission."""
    notebook.cells.append(new_code_cell(HAND_IN.format(name=name), id="colab-hand-in"))
    return notebook


def write(root: Path) -> list[Path]:
    """Write all notebooks and return their files; there are none without an address."""
    target = root / "_build" / "colab"
    shutil.rmtree(target, ignore_errors=True)
    if not addresses.repository(root):
        return []
    wheel = addresses.wheel(root)
    written = []
    for folder, source in (
        ("exercises", root / "exercises"),
        ("book", root / "_build" / "html" / "_sources" / "book"),
    ):
        for path in sorted(source.rglob("[0-9][0-9]_*.ipynb")):
            notebook = with_install(notebooks.read(path), wheel)
            if folder == "exercises":
                with_hand_in(notebook, path.stem)
            file = target / folder / path.name
            file.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, file)
            written.append(file)
    return written


def main(root: Path = ROOT) -> int:
    """Write the notebooks and print how many there are."""
    written = write(root)
    if not written:
        print("No notebooks for Colab: set repository.url in _config.yml first.")
        return 0
    for folder in ("book", "exercises"):
        count = sum(file.parent.name == folder for file in written)
        print(f"_build/colab/{folder}: {count} notebooks")
        if not count:
            print("The book is not built. Build it first: make book")
    return 0


if __name__ == "__main__":
    sys.exit(main())
