"""Execute the pages of the book whose outputs are not cached, in parallel.

Jupyter Book would execute them one after the other on one core. The outputs are stored in its
cache, where it finds each page by the code of its cells.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import yaml
from jupyter_cache import get_cache  # type: ignore[import-untyped]
from jupyter_cache.base import CacheBundleIn  # type: ignore[import-untyped]
from jupyter_cache.executors.utils import (  # type: ignore[import-untyped]
    ExecutionResult,
    single_nb_execution,
)
from myst_nb.core.read import (  # type: ignore[import-untyped]
    is_myst_markdown_notebook,
    read_myst_markdown_notebook,
)
from nbformat import NotebookNode
from sphinx_external_toc.parsing import parse_toc_yaml

MOST = 4
"""Pages that run in parallel; each needs a core and about 1 GiB of memory."""


def pages_of(root: Path) -> Iterator[tuple[Path, NotebookNode]]:
    """Yield each page in the table of contents that has cells, as a notebook."""
    for name in parse_toc_yaml(root / "_toc.yml"):
        path = root / f"{name}.md"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if is_myst_markdown_notebook(text):
            page = read_myst_markdown_notebook(text, add_source_map=True, path=path)
            if any(cell.cell_type == "code" for cell in page.cells):
                yield path, page


class Execution:
    """The execution of one page."""

    def __init__(self, name: str, page: NotebookNode) -> None:
        self.name = name
        self.page = page
        self.cell = 0

    def run(self, folder: Path, timeout: int) -> ExecutionResult:
        """Execute the page in its own kernel."""
        print(f"{self.name}: executing", flush=True)
        return single_nb_execution(
            self.page, str(folder), timeout, allow_errors=False, on_cell_start=self._start
        )

    def _start(self, cell: Any, cell_index: int) -> None:
        self.cell = cell_index

    def place(self) -> str:
        """Return the location of the cell that started last."""
        code = [n for n, cell in enumerate(self.page.cells) if cell.cell_type == "code"]
        line = self.page.metadata.source_map[self.cell]
        return f"{self.name}, line {line}, code cell {code.index(self.cell) + 1} of {len(code)}"


def execute_pages(root: Path, folder: Path) -> int:
    """Execute the pages that the cache in `folder` lacks; return the number of failures."""
    timeout = yaml.safe_load((root / "_config.yml").read_text())["execute"]["timeout"]
    cache = get_cache(folder)
    failed = 0
    with ThreadPoolExecutor(min(MOST, os.cpu_count() or 1)) as pool:
        running: dict[Future[ExecutionResult], tuple[Path, Execution]] = {}
        for path, page in pages_of(root):
            try:
                cache.match_cache_notebook(page)
            except KeyError:
                execution = Execution(path.relative_to(root).as_posix(), page)
                future = pool.submit(execution.run, path.parent, timeout)
                running[future] = path, execution
        for number, future in enumerate(as_completed(running), start=1):
            path, execution = running[future]
            said = f"[{number}/{len(running)}] {execution.name}"
            try:
                result = future.result()
                if result.err is not None:
                    raise result.err
            except Exception as error:  # of a cell or its kernel; the other pages continue
                failed += 1
                print(f"{said}: FAILED\n\n{execution.place()}:\n{error}", flush=True)
                continue
            bundle = CacheBundleIn(result.nb, str(path), data={"execution_seconds": result.time})
            cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
            print(f"{said}: executed in {result.time:.1f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(bool(execute_pages(Path(sys.argv[1]), Path(sys.argv[2]))))
