"""The site in a stock Firefox: what it computes and shows is what Chromium and PyTorch do."""

import re
import shutil
from pathlib import Path

import firefox as remote
import pytest
from live_pages import COMPARE, IN_BASE64, differences, expected
from widget_pages import WIDGETS, write_page

CHAPTER = "book/08_additive_attention.html"
FRAME = "document.querySelector('iframe[srcdoc]')"
PROGRESS = "JSON.parse(localStorage.getItem('attentively.reading'))"


@pytest.fixture(scope="module")
def firefox():
    """Open Firefox."""
    path = remote.find()
    if path is None:
        pytest.skip("no Firefox: apt install firefox-esr")
    browser = remote.Firefox(path)
    yield browser
    browser.close()


@pytest.fixture(autouse=True)
def _no_complaints(firefox):
    """Fail a test in which the console reported an error or a warning."""
    firefox.complaints.clear()
    yield
    assert firefox.complaints == []


class InChromium(remote.Firefox):
    """The same commands in Chromium."""

    def __init__(self, page) -> None:
        self.page = page

    def open(self, url: str) -> None:
        self.page.goto(url)

    def evaluate(self, expression: str):
        return self.page.evaluate(f"async () => ({expression})")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


INTERACTIONS = {
    "beam": (".widget-control button", ["Enter"]),
    "bleu": ("input[type=text]", list("le chat")),
    "gates": ("select", ["ArrowDown"]),
    "masks": (".widget-cell", ["ArrowDown", "ArrowRight", "ArrowDown", "Enter"]),
    "merges": (".widget-control button", ["Enter"]),
    "positions": ("input[type=range]", ["ArrowRight"]),
    "schedules": ("input[type=range]", ["ArrowLeft"]),
    "temperature": ("input[type=checkbox]", [" "]),
}
BODY = "document.querySelector('.widget-body')"


def widget_after(browser, url: str, name: str) -> list[str]:
    """Operate a widget by keyboard; return its status before and after, and its pictures."""
    selector, keys = INTERACTIONS[name]
    browser.open(url)
    before = browser.text(".widget-status")
    browser.focus(f".widget {selector}")
    browser.press(*keys)
    labels = f"[...{BODY}.querySelectorAll('[aria-label]')].map(each => each.ariaLabel)"
    return [before, browser.text(".widget-status"), *browser.evaluate(labels)]


@pytest.mark.parametrize("name", WIDGETS)
def test_widgets(firefox, visit, tmp_path, name):
    url = write_page(tmp_path, name).as_uri()
    found = widget_after(firefox, url, name)
    assert found[0] != found[1]
    assert found == widget_after(InChromium(visit(1000).page), url, name)


def test_a_changed_widget_is_seen(firefox, visit, tmp_path):
    url = write_page(tmp_path, "temperature").as_uri()
    right = widget_after(InChromium(visit(1000).page), url, "temperature")
    replaced = {"Math.sqrt(dimension / 4)": "dimension / 4", "/ temperature)": "/ temperature / 2)"}
    write_page(tmp_path, "temperature", replaced=replaced)
    assert widget_after(firefox, url, "temperature") != right
