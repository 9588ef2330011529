"""Run the cells of a notebook without a kernel, and collect their outputs.

The cells run in IPython, as in a kernel, so magics, `display` and figures work. The outputs have
the notebook format, up to a size limit.
"""

import contextlib
import inspect
import io
import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

Output = dict[str, Any]
_MOST_OUTPUTS = 5000
_OWN = str(Path(__file__).parents[1]) + os.sep


@dataclass
class Ran:
    """The result of one cell."""

    outputs: list[Output] = field(default_factory=list)
    error: BaseException | None = None
    value: Any = None
    """The value of the last expression."""


class Outputs:
    """Collects the outputs of a cell, up to a limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[Output] = []
        self._left = most

    def begin(self) -> None:
        """Clear the outputs for a new cell."""
        self.kept, self._left = [], self.most

    def text(self, name: str, text: str) -> None:
        """Add printed text."""
        if not text or self._left <= 0:
            return
        self._left -= len(text)
        if self._left <= 0:
            text = f"{text[: self._left + len(text)]}\n[the rest of the output is truncated]\n"
        last = self.kept[-1] if self.kept else {}
        if last.get("output_type") == "stream" and last["name"] == name:
            last["parts"].append(text)
        else:
            self._append({"output_type": "stream", "name": name, "parts": [text]})

    def add(self, output: Output, size: int) -> None:
        """Add an image, a table, a value or an error."""
        if output["output_type"] != "error":
            self._left -= size
            if self._left < 0:
                return
        self._append(output)

    def _append(self, output: Output) -> None:
        if len(self.kept) < _MOST_OUTPUTS:
            self.kept.append(output)

    def finished(self) -> list[Output]:
        """Return the outputs in the notebook format."""
        for each in self.kept:
            if "parts" in each:
                each["text"] = "".join(each.pop("parts"))
        return self.kept


class _Stream(io.TextIOBase):
    encoding = "utf-8"

    def __init__(self, write: Callable[[str, str], None], name: str) -> None:
        self._write, self._name = write, name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._write(self._name, text)
        return len(text)


class _Publisher(DisplayPublisher):
    def publish(self, data: Any, metadata: Any = None, **_: Any) -> None:  # type: ignore[override]
        cast(Any, self.shell).collected.add(
            {"output_type": "display_data", "data": data, "metadata": metadata or {}},
            sum(len(str(each)) for each in data.values()) // 8,
        )

    def clear_output(self, wait: bool = False) -> None:
        cast(Any, self.shell).collected.begin()


class _Hook(DisplayHook):
    def __call__(self, result: Any = None) -> None:
        if result is None or self.quiet():
            return
        cast(Any, self.shell).last_value = result
        data, metadata = self.compute_format_data(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        cast(Any, self.shell).collected.add(
            {
                "output_type": "execute_result",
                "execution_count": self.prompt_count,
                "data": data,
                "metadata": metadata,
            },
            sum(len(str(each)) for each in data.values()),
        )


class _Compiler(CachingCompiler):
    cell = "cell"

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        """Return the file name of the cell; tell `inspect` that it belongs to no module.

        For the lines of a traceback, `inspect` would look through all modules several times.
        """
        name = file_of(self.cell)
        for path in (name, os.path.abspath(name)):
            inspect.modulesbyfile[path] = ""
        return name


def file_of(cell: str) -> str:
    """Return the file name of a cell in tracebacks."""
    return f"<cell {cell}>"


class _InteractiveShell(InteractiveShell):
    collected: Outputs
    last_value: Any = None
    compiler_class = _Compiler

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.collected.add(
            {
                "output_type": "error",
                "ename": etype.__name__,
                "evalue": str(evalue)[:20_000],
                "traceback": [str(line)[:20_000] for line in stb[:60]],
            },
            0,
        )

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> list[str]:
        return []  # only for the history, which is disabled; formatting is slow

    def enable_gui(self, gui: Any = None) -> None:
        pass

    def init_sys_modules(self) -> None:
        sys.modules[self.user_module.__name__] = self.user_module

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        kind, error, places = super()._get_exc_info(exc_tuple)
        with contextlib.suppress(Exception):
            places = without_own(places)
            error.__traceback__ = places
        return kind, error, places


def without_own(places: types.TracebackType | None) -> types.TracebackType | None:
    """Return a traceback without the frames of the grader."""
    kept = []
    while places is not None:
        if not places.tb_frame.f_code.co_filename.startswith(_OWN):
            kept.append(places)
        places = places.tb_next
    chain = None
    for each in reversed(kept):
        chain = types.TracebackType(chain, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return chain


class Shell:
    """Runs cells, one after the other, in one namespace."""

    def __init__(self, most_text: int = 2**20, everywhere: bool = False) -> None:
        """Create a shell; with `everywhere`, `get_ipython` returns it in this process."""
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        self.outputs = Outputs(most_text)
        make = _InteractiveShell.instance if everywhere else _InteractiveShell
        self.shell = make(
            config=config, display_pub_class=_Publisher, displayhook_class=_Hook, user_module=None
        )
        self.shell.collected = self.outputs
        self.shell.showing_traceback = False
        if (
            "matplotlib.pyplot" in sys.modules
        ):  # imported in the zygote, before the environment was set
            self.shell.enable_matplotlib("inline")

    @property
    def namespace(self) -> dict[str, Any]:
        """The names that the cells have bound."""
        return self.shell.user_ns

    def hide_lines_of_warnings(self) -> None:
        """Show warnings without the file and the source line, which may be of a hidden test.

        They are shown as standard output, because text of a test on standard error is a failure.
        """

        def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
            text = f"{category.__name__}: {message}\n"
            if self.collects(sys.stderr):
                self.outputs.text("stdout", text)
            else:
                sys.stderr.write(text)

        warnings.showwarning = show

    def collects(self, stream: Any) -> bool:
        """Return whether a stream is that of the cell, and not one to which it redirects text."""
        return isinstance(stream, _Stream)

    def know(self, cell: str, source: str, number: int) -> None:
        """Make the source of a cell that runs elsewhere available to tracebacks."""
        compiler = cast(Any, self.shell.compile)
        compiler.cell = cell
        compiler.cache(source, number)

    def run(self, cell: str, source: str, number: int) -> Ran:
        """Run a cell and return its result; exceptions of the cell are part of the result.

        Tracebacks name the cell by its `number`: ``Cell In[number]``.
        """
        self.shell.execution_count = number
        self.outputs.begin()
        self.shell.last_value = None
        cast(Any, self.shell.compile).cell = cell
        with self.streams():
            try:
                result = self.shell.run_cell(source, store_history=True)
                error = result.error_before_exec or result.error_in_exec
            except BaseException as raised:  # an error in IPython itself
                error = raised
                self.outputs.add(
                    {
                        "output_type": "error",
                        "ename": type(raised).__name__,
                        "evalue": str(raised)[:20_000],
                        "traceback": [f"{type(raised).__name__}: {raised}"[:20_000]],
                    },
                    0,
                )
        return Ran(self.outputs.finished(), error, self.shell.last_value)

    @contextlib.contextmanager
    def streams(self) -> Iterator[None]:
        """Collect printed text."""
        out = _Stream(self.outputs.text, "stdout")
        err = _Stream(self.outputs.text, "stderr")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
