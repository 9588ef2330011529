"""The attention explorer in a browser: pointer, keyboard, table, export, theme, small screens."""

import json
import re

import pytest
import torch

from attentively.analysis.attention_explorer import Attention, Example, Explorer

PAPER = 657  # pixels between the margins of A4
WORDS = ["The", "ani", "mal", "sleeps", "▁", "<end>"]
MARKS = ["L'", "ani", "mal", "dort", "<end>"]


def random_weights(layers, heads, queries, keys, causal=False):
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(layers, heads, queries, keys, generator=generator)
    if causal:
        scores.masked_fill_(torch.ones(queries, keys, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(dim=-1)


CROSS = Attention("Cross-attention", "cross", MARKS, WORDS, random_weights(2, 3, 5, 6))
DECODER = Attention(
    "Decoder", "decoder", MARKS, ["<start>", *MARKS[:-1]], random_weights(2, 3, 5, 5, causal=True)
)
EXPLORER = Explorer([Example("The animal sleeps", "L'animal dort", [CROSS, DECODER])])


@pytest.fixture
def show(visit, tmp_path):
    """Return a function that opens the page; whatever is complained of fails the test."""
    path, windows = tmp_path / "page.html", []

    def opened(width=900, text=None, **options):
        path.write_text(text or EXPLORER.page(), encoding="utf-8")
        windows.append(visit(width, **options))
        windows[-1].page.goto(path.as_uri())
        return windows[-1].page

    yield opened
    assert [window.complaints for window in windows] == [[]] * len(windows)


def readout(page) -> str:
    return page.locator(".readout").inner_text()


def percentages(page) -> list[float]:
    """Return the percentages next to the tokens, from top to bottom."""
    texts = page.locator(".percent").all_text_contents()
    return [float(text.removesuffix(" %")) for text in texts if text]


def test_a_head_and_a_token_show_their_weights(show):
    page = show()
    mean = CROSS.weights.mean(dim=(0, 1))
    page.locator(".token").nth(3).hover()
    assert percentages(page) == pytest.approx((100 * mean[3]).tolist(), abs=0.56)
    page.get_by_role("button", name="2.3: layer 2, head 3").click()
    query = page.get_by_role("button", name="query 4: dort")
    query.click()
    expected = CROSS.weights[1, 2, 3]
    assert percentages(page) == pytest.approx((100 * expected).tolist(), abs=0.56)
    best = WORDS[int(expected.argmax())].replace("▁", "␣")
    assert f"layer 2, head 3. The query “dort” attends to: {best}" in readout(page)
    assert query.get_attribute("aria-pressed") == "true"
    page.mouse.move(0, 0)  # pinned: it stays
    assert "“dort”" in readout(page)
    page.get_by_role("button", name="key 2: ani").hover()  # shown as long as it is pointed at
    column = CROSS.weights[1, 2, :, 1]
    assert percentages(page) == pytest.approx((100 * column).tolist(), abs=0.56)
    page.mouse.move(0, 0)
    assert "“dort”" in readout(page)
    page.keyboard.press("Escape")
    assert "Point at a token" in readout(page)
    assert percentages(page) == []


def test_by_keyboard(show):
    page = show()
    tile = page.get_by_role("button", name="1.1: layer 1, head 1")
    tile.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")  # there is no third layer
    assert "layer 2, head 2" in readout(page)
    assert page.evaluate("() => document.activeElement.ariaLabel").startswith(
        "2.2: layer 2, head 2"
    )
    page.keyboard.press("Tab")  # one stop for all heads; then the tokens
    assert page.evaluate("() => document.activeElement.ariaLabel") == "query 1: L'"
    assert "“L'” attends to" in readout(page)
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert page.locator('.token[aria-pressed="true"]').count() == 1


def test_another_attention_and_a_table(show):
    page = show()
    page.get_by_label("Decoder").check()
    page.get_by_role("button", name="1.2: layer 1, head 2").click()
    page.get_by_role("button", name="Show as a table").click()
    cells = page.locator(".figure tbody td").all_text_contents()
    expected = (100 * DECODER.weights[0, 1]).flatten().tolist()
    assert [float(cell) for cell in cells] == pytest.approx(expected, abs=0.56)
    assert page.locator("caption").inner_text() == "Decoder, layer 1, head 2, in percent"
    page.get_by_role("button", name="Show as a table").click()
    assert page.locator(".figure path").count() > 5


def test_the_figure_is_saved_as_it_looks(show):
    page = show()
    page.get_by_role("button", name="2.1: layer 2, head 1").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as SVG").click()
    download = waiting.value
    assert download.suggested_filename == "cross-attention-layer-2-head-1.svg"
    text = download.path().read_text(encoding="utf-8")
    assert text.count("<path") == int((CROSS.weights[1, 0] * 1000 >= 4.5).sum())
    assert "sleeps" in text
    assert "rgb(156, 86, 0)" in text  # the colour of cross-attention
    assert "class=" not in text
    page.goto(download.path().as_uri())  # it is well-formed


@pytest.mark.parametrize("width", [390, 900])
def test_nothing_is_cut_off_and_all_types_are_legible(show, width):
    page = show(width)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(
        "() => [...document.querySelectorAll('.figure text')].filter((e) => e.textContent)"
        ".map((e) => e.getBoundingClientRect().height)"
    )
    assert min(sizes) > 13
    right = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('.figure text')]"
        ".map((e) => e.getBoundingClientRect().right))"
    )
    assert right <= width


NEEDED = """() => [document.body.scrollHeight, Math.max(
    ...[...document.querySelectorAll('text')].map((e) => e.getBoundingClientRect().right))]"""
"""Height of the page, and right end of its words."""


@pytest.mark.parametrize(
    ("rule", "fault"),
    [("", None), ("  .columns { flex-wrap: nowrap; }\n", "high"), (" max-width: 100%;", "wide")],
)
def test_on_paper_it_fits_the_frame_that_it_has_on_the_screen(show, rule, fault):
    """A browser prints a frame at its height on the screen and cuts off the rest.

    It does not redraw the figure for the width of the paper.
    """
    cross = Attention("Cross", "cross", MARKS, WORDS, random_weights(2, 4, 5, 6))
    text = Explorer([Example("The animal sleeps", "L'animal dort", [cross])]).page()
    before, at, after = text.partition("@media print")
    assert rule in after
    assert after.count("new ResizeObserver(") == 2
    after = after.replace(rule, "", 1).replace("new ResizeObserver(", "new Unchanged(")
    still = "<script>class Unchanged { observe() {} }</script>"
    page = show(text=before.replace("<style>", f"{still}<style>", 1) + at + after)
    screen, _ = page.evaluate(NEEDED)
    page.set_viewport_size({"width": PAPER, "height": 900})
    page.emulate_media(media="print")
    height, width = page.evaluate(NEEDED)
    assert {"high": height > screen, "wide": width > PAPER} == {
        kind: kind == fault for kind in ("high", "wide")
    }


def test_without_scripts_a_table(show):
    page = show(java_script_enabled=False)
    cells = page.locator("tbody td").all_text_contents()
    expected = (100 * CROSS.weights.mean(dim=(0, 1))).flatten().tolist()
    assert [float(cell) for cell in cells] == pytest.approx(expected, abs=0.56)


@pytest.mark.parametrize(
    ("outside", "scheme", "dark"),
    [
        ('<html data-theme="dark"><body>', "light", True),
        ('<html data-theme="light"><body>', "dark", False),
        ('<html><body data-jp-theme-light="false">', "light", True),
        ('<html><body data-jp-theme-light="true">', "dark", False),
        ("<html><body>", "dark", True),
    ],
)
def test_in_a_frame_it_takes_the_theme_and_its_full_height(show, outside, scheme, dark):
    text = f"<!DOCTYPE html>{outside}{EXPLORER._repr_html_()}"
    page = show(text=text, scheme=scheme)
    frame = page.frames[1]
    frame.locator(".figure svg").wait_for()
    page.wait_for_function(
        "() => { const frame = document.querySelector('iframe'); return Math.abs("
        "frame.clientHeight - frame.contentDocument.body.scrollHeight - 8) < 2; }"
    )
    paper = frame.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 22, 26)" if dark else "rgb(255, 255, 255)")
    shades = [int(part) for part in re.findall(r"\d+", frame.evaluate(
        "() => getComputedStyle(document.querySelector('.figure path')).stroke"
    ))]  # fmt: skip
    assert (sum(shades) > 382) == dark


def test_the_data_is_that_of_the_package():
    [text] = re.findall(r'<script type="application/json">(.*?)</script>', EXPLORER.page())
    for plain, attention in zip(json.loads(text), (CROSS, DECODER), strict=True):
        torch.testing.assert_close(
            torch.tensor(plain["weights"]) / 1000, attention.weights, atol=6e-4, rtol=0
        )
