"""The site in a stock Firefox: what it computes and shows is what Chromium and PyTorch do."""

import json
import os
import shutil

import firefox as remote
import pytest
from live_pages import COMPARE, IN_BASE64, differences, expected
from widget_pages import WIDGETS, write_page

from attentively.models import checkpoints

CHAPTER = "book/08_additive_attention.html"


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
    "gates": ("input[type=text]", list("the cat sees")),
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


# The built book


def translated(browser, sentence: str) -> str:
    """Type a sentence into the live model; return its translation."""
    browser.focus(".live-row input")
    browser.press(sentence, "Enter")
    browser.wait("document.querySelector('.live-status').textContent.startsWith('Done')")
    return browser.text(".live-translation").strip()


@pytest.mark.parametrize("page", ["index", "08_additive_attention"])
def test_live_models(firefox, site, page):
    """The Transformer of the front page and the recurrent model compute what PyTorch computes."""
    firefox.open((site / f"book/{page}.html").as_uri())
    name = firefox.evaluate("document.querySelector('.live-transformer').dataset.checkpoint")
    translator = checkpoints.load_pretrained(name).translator()
    sentence = "My sister is a doctor."
    assert translated(firefox, sentence) == expected(translator, sentence)[2]
    firefox.evaluate(IN_BASE64.strip().removesuffix(";"))
    compare = COMPARE.replace('"live"', '"../_static/live"')
    [got] = firefox.evaluate(f"({compare})({json.dumps([name, [sentence], 5, 1.0])})")
    assert differences(translator, sentence, got) == []


def first_result(browser) -> str:
    """Search by keyboard; return the first result."""
    browser.press("/")
    browser.press(*"residual connection")
    browser.wait("document.querySelector('.search-status')?.textContent")
    found = browser.text("#search-option-0 .search-heading")
    browser.press("Escape", "Escape")  # the first one empties the field
    return found


def score(browser) -> str:
    """Open the first and the third option of a question; return what the score says."""
    browser.evaluate("localStorage.clear()")
    browser.focus(".quiz summary")
    browser.press("Enter", "Tab", "Tab", "Enter")
    browser.wait("document.querySelectorAll('.quiz-option[open]').length === 2")
    return browser.wait("document.querySelector('.quiz-score p').innerText.match(/^Your.*first/)")[
        0
    ]


def larger_figure(browser) -> list:
    """Open a figure by keyboard, and close it; return what was open, and where the focus is."""
    browser.focus(".enlarge-frame > .figure-box[tabindex='0']")
    browser.press("Enter")
    opened = "document.querySelectorAll('dialog.enlarged[open] .figure-box').length"
    found = [browser.evaluate(opened)]
    browser.press("Escape")
    focused = "document.activeElement.matches('.figure-box')"
    return [*found, browser.evaluate(opened), browser.evaluate(focused)]


def explored(browser) -> str:
    """Point at the first token of the attention explorer, in its frame; return what it says."""
    inside = "document.querySelector('iframe[srcdoc]').contentDocument.querySelector"
    browser.wait(f"!!{inside}('.token')")
    browser.evaluate(f"{inside}('.token').focus()")
    return browser.evaluate(f"{inside}('.readout').innerText")


SIGHTS = {
    first_result: "Residual connections",
    score: "Your score: 0 of 1 right at the first",
    larger_figure: [1, 0, True],
}


def test_a_chapter(firefox, site, visit):
    """Search, quiz, larger figure, attention explorer, and where the reading stopped."""
    url = (site / CHAPTER).as_uri()
    firefox.open(url)
    for see, right in SIGHTS.items():
        assert see(firefox) == right
    chromium = InChromium(visit(1000).page)
    chromium.open(url)
    assert explored(firefox) == explored(chromium) != ""
    firefox.evaluate("document.querySelector('#check-yourself').scrollIntoView()")
    firefox.wait("localStorage.getItem('attentively.reading')?.includes('check-yourself')")
    firefox.open((site / "book/index.html").as_uri())
    progress = "Continue where you stopped: 08 Additive attention: Check yourself"
    assert firefox.text(".continue-reading").startswith(progress)


@pytest.mark.parametrize(
    ("script", "old", "new", "see"),
    [
        ("search/engine.js", "y.score - x.score", "x.score - y.score", first_result),
        ("quiz.js", "if (here[id]?.question === text) return;", "", score),
        ("enlarge.js", '[" ", "Enter"]', '[" "]', larger_figure),
    ],
)
def test_a_changed_script_is_seen(firefox, site, tmp_path, script, old, new, see):
    page = tmp_path / CHAPTER
    page.parent.mkdir()
    shutil.copy(site / CHAPTER, page)
    shutil.copytree(site / "_static", tmp_path / "_static", copy_function=os.symlink)
    changed = tmp_path / "_static" / script
    text = changed.read_text(encoding="utf-8")
    assert old in text
    changed.unlink()
    changed.write_text(text.replace(old, new), encoding="utf-8")
    firefox.open(page.as_uri())
    assert see(firefox) != SIGHTS[see]
