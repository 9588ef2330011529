"""The live recurrent model in a browser: equal to PyTorch, and one attention to look into."""

from dataclasses import replace

import pytest
import torch
from live_pages import (
    COMPARE,
    IN_BASE64,
    ROOT,
    SENTENCES,
    differences,
    from_base64,
    wait_until_done,
)
from playwright.sync_api import expect

from attentively.models.interface import evaluating
from attentively.tokens.vocabulary import START_ID

NAME = "tatoeba-en-fr-additive"
SCRIPT = ROOT / "book" / "_static" / "live" / "recurrent.js"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(1 - update) * candidate + update * old", "update * candidate + (1 - update) * old"),
        ("fromInput[i] + fromState[i]", "fromInput[d + i] + fromState[d + i]"),
        ("reset * fromState[2 * d + i]", "fromState[2 * d + i]"),
        ("bias: tensors[`${name}.bias_hh${suffix}`]", "bias: undefined"),
        ("bias: tensors[`${name}.bias`]", "bias: undefined"),
        ('bias: tensors["decoder.output.bias"]', "bias: undefined"),
        ("runGru([...xs].reverse(), this.backwardCell", "runGru([...xs], this.backwardCell"),
        ("this.backwardCell, d).reverse()", "this.backwardCell, d)"),
        ("state: backwards[0]", "state: backwards.at(-1)"),
        (
            "concatenate(hidden, context), this.readout",
            "concatenate(context, hidden), this.readout",
        ),
        ("linear(memory.state, this.bridge).map(Math.tanh)", "linear(memory.state, this.bridge)"),
    ],
)
def test_a_changed_forward_pass_is_seen(folder, visit, translator, right, wrong):
    script = SCRIPT.read_text(encoding="utf-8")
    assert script.count(right) == 1
    window = visit()
    window.page.add_init_script(IN_BASE64)
    changed = {"body": script.replace(right, wrong), "content_type": "text/javascript"}
    window.page.route("**/recurrent.js", lambda route: route.fulfill(**changed))
    window.page.goto((folder / "page.html").as_uri())
    (got,) = window.page.evaluate(COMPARE, [NAME, SENTENCES[:1], 1, 1.0])
    assert got["source"]
    assert differences(translator, SENTENCES[0], got, beam_size=1) != []


@pytest.mark.parametrize("blocked", ["largest", "all but one", "all"])
def test_a_blocked_edge_is_a_masked_source_position(computing, translator, blocked):
    """The package's attention hides the position at one step; later steps see it again."""
    model, src_tokenizer, tgt_tokenizer = translator
    source = src_tokenizer.encode(SENTENCES[0])
    target = [START_ID, *tgt_tokenizer.encode("Je n'ai jamais vu un jardin.")[:-1]]
    query = 4
    decoder, tgt = model.decoder, torch.tensor([target])
    with evaluating(model):
        memory = model.encode(torch.tensor([source]))
        without = model.decode(tgt, memory, need_weights=True)
        largest = without.weights[0, query].argmax().item()
        keys = {"largest": [largest], "all": list(range(len(source)))}.get(
            blocked, [key for key in range(len(source)) if key != largest]
        )
        state, logits, rows = decoder.start(memory), [], []
        visible = state.src_mask
        for position, embedded in enumerate(decoder.embedding(tgt).unbind(dim=1)):
            mask = visible.clone()
            if position == query:
                mask[0, keys] = False
            state, context, weights = decoder.advance(embedded, replace(state, src_mask=mask))
            logits.append(decoder.predict(state.hidden, context)[0])
            rows.append(weights[0])
    got, got_weights = computing.page.evaluate(
        f"""([source, target, query, keys]) => Attentively.load("live", "{NAME}")
          .then(({{model}}) => {{
            const how = new Attentively.Interventions();
            for (const key of keys) {{
              how.edges.add(Attentively.Interventions.edge("cross", 0, 0, query, key));
            }}
            const decoded = model.decode(target, model.encode(source), how);
            return [decoded.map(({{logits}}) => inBase64(logits)),
              decoded.map(({{cross}}) => [...cross[0][0]])];
          }})""",
        [source, target, query, keys],
    )
    wanted = torch.stack(logits)
    torch.testing.assert_close(wanted[:query], without.logits[0, :query])
    assert (wanted - without.logits[0]).abs().max() > 0.01
    torch.testing.assert_close(from_base64(got), wanted, atol=1e-3, rtol=0)
    torch.testing.assert_close(torch.tensor(got_weights), torch.stack(rows), atol=1e-5, rtol=0)


def test_one_attention_and_no_view_that_the_model_lacks(window):
    page = window.page
    assert (
        page.locator(".live-status")
        .inner_text()
        .startswith("The model loads at the first translation: 4.6 MB")
    )
    page.locator(".live-main").click()
    wait_until_done(window)
    views = ["Attention", "Next token", "Beam search"]
    assert page.locator(".live-tabs label").all_inner_texts() == views
    for lacking in (".live-small", ".live-toggle", "select", ".live-strip"):
        assert page.locator(lacking).count() == 0
    weights = page.locator(".live-map tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('.live-cell')].map(cell => "
        "Number(cell.style.getPropertyValue('--weight'))))"
    )
    assert len(weights) == page.locator(".live-target").count()
    assert {len(row) for row in weights} == {page.locator(".live-source").count()}
    assert all(abs(sum(row) - 1) < 0.01 for row in weights)
    page.get_by_role("radio", name="Next token").check()
    assert page.locator(".live-bars tbody tr").count() == 10
    page.get_by_role("radio", name="Beam search").check()
    page.get_by_role("slider", name="Step").fill("1")
    assert page.locator(".live-tree text").count() == 1 + 5
    assert window.complaints == []


def test_the_experiments_of_chapter_08(window):
    """By keyboard, lait → milk, which changes the noun; by click, sœur → sister, which does not."""
    page = window.page
    page.locator("input[type=text]").fill("I do not like milk.")
    page.keyboard.press("Enter")
    wait_until_done(window)
    right, wrong = "Je n'aime pas le lait.", "Je n'aime pas le temps."
    assert page.locator(".live-translation").inner_text().strip() == right
    page.locator(".live-cell[tabindex='0']").focus()
    for key in ["ArrowDown"] * 5 + ["ArrowRight"] * 4:
        page.keyboard.press(key)
    assert page.locator(".live-readout").inner_text() == "lait → milk: weight 0.776"
    page.keyboard.press("Enter")
    page.locator(".live-cell.live-out").wait_for()
    wait_until_done(window)
    told = f"The translation changes from “{right}” to “{wrong}”."
    assert page.locator(".live-effect").inner_text() == told
    assert page.locator(".live-translation mark").all_inner_texts() == ["temps."]
    assert "Interventions: step 6 → milk blocked." in page.inner_text(".live-original")
    assert page.locator(":focus").get_attribute("data-at") == "5,4"
    assert page.locator(":focus").get_attribute("aria-label").endswith("weight 0.000, blocked")
    page.locator(".live-undo").focus()
    page.keyboard.press("Enter")
    page.locator(".live-cell.live-out").wait_for(state="detached")
    wait_until_done(window)
    assert page.locator(".live-translation").inner_text().strip() == right
    expect(page.locator(".live-translation")).to_be_focused()
    page.locator("input[type=text]").fill("My sister is a doctor.")
    page.locator(".live-main").click()
    page.get_by_role("button", name="sœur → sister: weight 0.94").click()
    page.get_by_role("button", name="sœur → sister: weight 0.000, blocked").wait_for()
    wait_until_done(window)
    unchanged = "The translation is unchanged; its log-probability changes from "
    assert page.locator(".live-effect").inner_text().startswith(unchanged)
    assert window.complaints == []
