"""The live Transformer in a browser: equal to PyTorch, by keyboard, from a folder."""

from contextlib import ExitStack

import pytest
import torch
from live_pages import (
    COMPARE,
    SENTENCES,
    differences,
    from_base64,
    wait_until_done,
)
from playwright.sync_api import expect

from attentively.analysis.interventions import knock_out
from attentively.analysis.pruning import Head, silenced
from attentively.models.interface import evaluating
from attentively.tokens.vocabulary import START_ID

NAME = "tatoeba-en-fr-transformer"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("model.config.num_heads = 2", "differ|other hypotheses"),
        ("model.encoderNorm.shift[0] += 0.5", "differ|other hypotheses"),
        ("subwords.ranks.clear()", "ids"),
        ("Attentively.maximumLength = () => 3", "other hypotheses"),
        ("Attentively.SPECIAL.END = 4", "ids"),
    ],
)
def test_a_changed_model_tokenizer_or_search_is_seen(window, translator, change, fault):
    load = f'Attentively.load("live", "{NAME}").then(({{model, subwords}}) => {{ {change}; }})'
    window.page.evaluate(f"() => {load}")
    [got] = window.page.evaluate(COMPARE, [NAME, SENTENCES[:1], 1, 1.0])
    found = differences(translator, SENTENCES[0], got, beam_size=1)
    assert any(name in text for text in found for name in fault.split("|")), found


ATTENTIONS = {
    "encoder": "encoder.layers.{}.self_attention",
    "decoder": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
}


@pytest.mark.parametrize("kind", ATTENTIONS)
@pytest.mark.parametrize("what", ["head", "edge"])
def test_interventions_are_those_of_the_package(computing, translator, kind, what):
    """A head without output is `silenced`, a blocked edge is `cut`; each changes the logits."""
    model, src_tokenizer, tgt_tokenizer = translator
    source = src_tokenizer.encode(SENTENCES[0])
    target = [START_ID, *tgt_tokenizer.encode("Je n'ai jamais vu un jardin.")[:-1]]
    src, tgt = torch.tensor([source]), torch.tensor([target])
    layer, head, query = 0, 2, 4
    with evaluating(model):
        maps = getattr(model.attention_maps(src, tgt), kind)
    key = maps[layer, 0, head, query].argmax().item()
    call = f'Attentively.Interventions.{what}("{kind}", {layer}, {head}, {query}, {key})'
    got = computing.page.evaluate(
        f"""([source, target]) => Attentively.load("live", "{NAME}").then(({{model}}) => {{
          const how = new Attentively.Interventions();
          how.{what}s.add({call});
          const decoded = model.decode(target, model.encode(source, how), how);
          return decoded.map(({{logits}}) => inBase64(logits));
        }})""",
        [source, target],
    )
    one = [Head(ATTENTIONS[kind].format(layer), head)]
    with evaluating(model), ExitStack() as stack:
        without = model(src, tgt)[0]
        if what == "head":
            stack.enter_context(silenced(model, one))
        else:
            queries = source if kind == "encoder" else target
            keys = target if kind == "decoder" else source
            edges = torch.zeros(1, len(queries), len(keys), dtype=torch.bool)
            edges[0, query, key] = True
            stack.enter_context(knock_out(model, one, edges))
        wanted = model(src, tgt)[0]
    assert (wanted - without).abs().max() > 0.01
    torch.testing.assert_close(from_base64(got), wanted, atol=1e-3, rtol=0)


def test_by_keyboard(window):
    """Type, press Enter, read a weight with the arrow keys, block the edge, and undo it."""
    page = window.page
    page.locator(".live-fallback").wait_for(state="hidden")
    page.locator("input[type=text]").focus()
    page.keyboard.press("Enter")
    wait_until_done(window)
    translation = page.locator(".live-translation").inner_text()
    assert translation.strip() == "Je n'ai jamais vu un si beau jardin."
    assert page.locator(".live-small").count() == 4 * (4 + 1)  # the heads, and their means
    page.locator(".live-cell[tabindex='0']").focus()
    assert page.locator(".live-readout").inner_text().startswith("<start> → I: weight 0.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.locator(".live-readout").inner_text().startswith("Je → have: weight 0.")
    page.keyboard.press("Enter")
    page.locator(".live-cell.live-out").wait_for()
    wait_until_done(window)
    assert page.locator(":focus").get_attribute("data-at") == "1,1"
    assert page.locator(":focus").get_attribute("aria-label").endswith("weight 0.000, blocked")
    changes = "The translation is unchanged; its log-probability changes from −"
    assert page.locator(".live-original").inner_text().startswith(changes)
    assert "cross-attention: Je → have blocked in head 3.1" in page.inner_text(".live-original")
    page.locator(".live-undo").focus()
    page.keyboard.press("Enter")
    page.locator(".live-cell.live-out").wait_for(state="detached")
    wait_until_done(window)
    assert page.locator(".live-original").inner_text() == ""
    page.wait_for_function("() => document.activeElement.classList.contains('live-translation')")
    page.locator(".live-small[tabindex='0']").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.locator(".live-view h3").first.inner_text() == "Cross-attention, layer 2, head 1"
    assert window.complaints == []


def test_the_experiment_of_the_front_page(window):
    """Without one head of the decoder, the pronoun is wrong; the change is told where one looks."""
    page = window.page
    page.locator("input[type=text]").fill("The table is heavy because it is old.")
    page.keyboard.press("Enter")
    wait_until_done(window)
    right = "La table est lourde parce qu'elle est vieille."
    assert page.locator(".live-translation").inner_text().strip() == right
    page.get_by_label("Kind of attention").select_option("decoder")
    page.get_by_role("button", name="4.1: layer 4, head 1").click()
    page.get_by_role("button", name="Knock out head 4.1").click()
    page.get_by_role("button", name="Restore head 4.1").wait_for()
    wait_until_done(window)
    wrong = "La table est lourde car c'est vieux."
    assert page.locator(".live-translation").inner_text().strip() == wrong
    assert page.locator(".live-translation mark").all_inner_texts() == ["car", "c'est", "vieux."]
    told = f"The translation changes from “{right}” to “{wrong}”."
    assert page.locator(".live-effect").inner_text() == told
    assert page.locator(".live-status").inner_text() == f"Done. {told}"
    assert f"Without interventions: {right}" in page.locator(".live-original").inner_text()
    assert page.locator(".live-silent").count() == 1
    page.wait_for_function("() => document.activeElement.classList.contains('live-toggle')")


def test_the_mean_of_the_heads_of_a_layer(window):
    """Its rows sum to one, and no intervention is offered on it."""
    page = window.page
    page.locator(".live-main").click()
    wait_until_done(window)
    page.get_by_role("button", name="3 mean").click()
    weights = page.locator(".live-map tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('.live-cell')].map(cell => "
        "Number(cell.style.getPropertyValue('--weight'))))"
    )
    assert all(abs(sum(row) - 1) < 0.01 for row in weights)
    assert page.locator(".live-toggle").is_disabled()
    page.locator(".live-cell").first.click()
    assert page.locator(".live-out").count() == 0


def test_the_other_views(window):
    """The distribution sums to one and follows the temperature; the tree follows its slider."""
    page = window.page
    page.locator(".live-main").click()
    wait_until_done(window)
    page.get_by_role("radio", name="Next token").check()
    page.locator(".live-target").nth(3).click()
    first = page.locator(".live-bars tbody tr").first
    assert first.locator("th").inner_text() == "jamais"
    sharp = float(first.locator(".live-number").inner_text().split()[0])
    page.get_by_role("slider", name="Temperature").fill("3")
    flat = float(first.locator(".live-number").inner_text().split()[0])
    assert 0 < flat < sharp <= 100
    page.get_by_role("radio", name="Beam search").check()
    tree = page.locator(".live-tree text")
    whole = tree.count()
    page.get_by_role("slider", name="Step").fill("1")
    assert tree.count() == 1 + 5 < whole
    page.get_by_role("slider", name="Beam size").fill("2")
    page.wait_for_function("() => document.querySelectorAll('.live-tree').length === 1")
    wait_until_done(window)
    page.get_by_role("slider", name="Step").fill("1")
    assert tree.count() == 1 + 2
    page.get_by_role("radio", name="Embeddings").check()
    assert page.locator(".live-strip").count() == 3
    assert window.complaints == []


def test_bad_input_gets_a_clear_message(window, folder):
    page, status = window.page, window.page.locator(".live-status")
    field = page.locator("input[type=text]")
    field.fill("   ")
    page.keyboard.press("Enter")
    assert status.inner_text() == "Type an English sentence first."
    field.fill("word " * 50)
    page.keyboard.press("Enter")
    page.wait_for_function(  # the message before it was an error, too
        "() => document.querySelector('.live-error')?.textContent.includes('accepts')"
    )
    assert "accepts at most 40" in status.inner_text()
    field.fill("I like 日本.")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.live-translation').textContent")
    page.wait_for_function("() => document.querySelector('.live-status').textContent[0] === '2'")
    assert status.inner_text() == "2 characters are not in the vocabulary and became <unk>."


def test_a_missing_file_is_said_and_can_be_tried_again(window, folder):
    page = window.page
    missing = folder / "live" / f"{NAME}.3.js"
    kept = missing.read_bytes()
    missing.unlink()
    try:
        page.locator(".live-main").click()
        page.wait_for_function("() => document.querySelector('.live-error')")
        text = page.locator(".live-status").inner_text()
        assert (
            text == f"The file live/{NAME}.3.js could not be loaded. Reload the page to try again."
        )
    finally:
        missing.write_bytes(kept)
    page.reload()
    page.locator(".live-main").click()
    wait_until_done(window)


def test_an_earlier_translation_is_pale_until_the_next_one_is_there(window):
    page = window.page
    page.locator("input[type=text]").press("Enter")
    wait_until_done(window)
    output = page.locator(".live-output")
    expect(output).to_have_css("opacity", "1")
    pale = page.evaluate(
        "() => { document.querySelector('.live-transformer form').requestSubmit();"
        " return getComputedStyle(document.querySelector('.live-output')).opacity; }"
    )
    assert pale == "0.3"
    expect(output).to_have_css("opacity", "1")


@pytest.mark.parametrize("page_name", ["index", "08_additive_attention", "17_translating_with_it"])
def test_without_scripts_there_are_a_figure_a_table_and_a_text(site, visit, page_name):
    page = visit(java_script_enabled=False).page
    page.goto((site / "book" / f"{page_name}.html").as_uri())
    recorded = page.locator(".live-recorded")
    assert recorded.get_by_role("img").is_visible()
    recorded.get_by_text("Attention weights as a table").click()
    assert recorded.get_by_role("row").count() > 4
    assert recorded.get_by_role("table").is_visible()
    assert "needs JavaScript" in page.locator(".live-fallback").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_the_front_page(site, visit, scheme):
    """In the built book, on a telephone: nothing is fetched, and only the model scrolls."""
    window = visit(390, scheme)
    window.open((site / "book" / "index.html").as_uri())
    page = window.page
    loaded = "() => performance.getEntriesByType('resource').map((entry) => entry.name)"
    assert not [name for name in page.evaluate(loaded) if NAME in name]
    recorded = page.locator(".live-recorded")
    words = recorded.locator(".live-translation").inner_text()
    assert recorded.get_by_role("img").is_visible()
    places = (
        "() => ['.live-row', '.live-status'].map((each) => document.querySelector(each).offsetTop)"
    )
    before = page.evaluate(places)
    page.locator(".live-main").click()
    wait_until_done(window)
    assert page.evaluate(places) == before  # nothing jumps
    assert recorded.count() == 0
    assert page.locator(".live-translation").inner_text().strip() == words.strip()
    for view in ("attention", "next", "beam", "embeddings"):
        page.locator(f".live-tabs input[value={view}]").check()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert window.complaints == []


def test_pages_without_a_live_model_do_not_load_it(site):
    text = (site / "book" / "00_tools.html").read_text(encoding="utf-8")
    assert "live/transformer.js" not in text
    assert "live/transformer.js" in (site / "book" / "index.html").read_text(encoding="utf-8")
