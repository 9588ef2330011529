"""The built site and a browser to read it with."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from live_pages import IN_BASE64, write_page

from attentively.models import checkpoints

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; the first may have to build the book on a busy machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            item.add_marker(pytest.mark.timeout(3000))


def find_browser() -> str | None:
    """Return the path of an installed Chromium, or of what ATTENTIVELY_BROWSER names."""
    named = os.environ.get("ATTENTIVELY_BROWSER")
    found = [named] if named else [shutil.which(name) for name in BROWSERS]
    return next((path for path in [*found, MAC] if path and Path(path).exists()), None)


@pytest.fixture(scope="session")
def browser():
    """Open Chromium."""
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium: apt install chromium, or name one in ATTENTIVELY_BROWSER")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def site(browser, tmp_path_factory, testrun_uid) -> Path:
    """Return the folder of the built book, built now if it is not, or no longer, current.

    The first process of a test run builds it: even a build without a change writes files again,
    which must not happen while another process reads them.
    """
    done = tmp_path_factory.getbasetemp().parent / f"book-{testrun_uid}"
    with FileLock(f"{done}.lock"):
        if not done.exists():
            built = subprocess.run(
                [sys.executable, ROOT / "tools" / "build_book.py"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if built.returncode:
                pytest.fail(f"the book does not build:\n{built.stdout[-6000:]}", pytrace=False)
            done.touch()
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def pages(site: Path) -> list[Path]:
    """Return every page of the book, the search page and the index among them."""
    found = {path for path in site.rglob("*.html") if "_static" not in path.parts}
    return sorted(found - {site / "index.html"})  # that one only leads to the preface


class Visit:
    """One window, and everything that went wrong in it."""

    def __init__(self, page) -> None:
        self.page = page
        page.set_default_timeout(120_000)  # a busy machine is not a fault of the page
        self.complaints: list[str] = []
        self.requested: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._response)
        page.on("request", self._request)

    def open(self, url: str) -> None:
        """Go to `url` and wait until all of it is loaded."""
        self.page.goto(url)
        self.page.wait_for_load_state("load")

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console {message.type}: {message.text}")

    def _failed(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # given up by the browser, on leaving the page
            self.complaints.append(f"failed: {request.url}: {request.failure}")

    def _response(self, response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.url}")

    def _request(self, request) -> None:
        self.requested.append(request.url)
        if not request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:")):
            self.complaints.append(f"asks the network for {request.url}")


@pytest.fixture
def visit(browser) -> Iterator:
    """Return a function that opens a window: visit(width=1400, scheme="light")."""
    contexts = []

    def new(width: int = 1400, scheme: str = "light", **options) -> Visit:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, **options))
        return Visit(contexts[-1].new_page())

    yield new
    for context in contexts:
        context.close()


# A page with nothing but a live model


@pytest.fixture(scope="module")
def name(request) -> str:
    """Return the checkpoint of the live model, which the test module names."""
    return request.module.NAME


@pytest.fixture(scope="module")
def translator(name):
    """Return the model in PyTorch, with its tokenizers."""
    return checkpoints.load_pretrained(name).translator()


@pytest.fixture(scope="module")
def folder(name, tmp_path_factory) -> Path:
    """Return the folder of the page."""
    folder = tmp_path_factory.mktemp("page")
    write_page(folder, name)
    return folder


def opened(window: Visit, folder: Path) -> Visit:
    window.page.add_init_script(IN_BASE64)
    window.page.goto((folder / "page.html").as_uri())
    return window


@pytest.fixture
def window(folder, visit) -> Visit:
    """Open the page."""
    return opened(visit(), folder)


@pytest.fixture(scope="module")
def computing(folder, browser) -> Iterator[Visit]:
    """Open the page once for all tests that compute in it and change nothing."""
    context = browser.new_context()
    yield opened(Visit(context.new_page()), folder)
    context.close()


# A page with nothing but one widget


@pytest.fixture
def show(visit, tmp_path):
    """Return a function that opens a widget; whatever is complained of fails the test."""
    from widget_pages import write_page  # it needs axe, which other tests do not

    windows = []

    def opened(name, width=1000, scheme="light", replaced=None, **options):
        windows.append(visit(width, scheme, **options))
        windows[-1].page.goto(write_page(tmp_path, name, scheme, replaced).as_uri())
        return windows[-1].page

    yield opened
    assert [window.complaints for window in windows] == [[]] * len(windows)
