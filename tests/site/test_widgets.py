"""The widgets in a browser: what they compute, by keyboard, in light and dark, on a telephone."""

import math
import re

import pytest
import torch
from widget_pages import ROOT, STATIC, WIDGETS, broken, call, static_rows, status, violations

from attentively.attention.masks import causal_mask, masked_softmax, padding_mask
from attentively.attention.positional import position_angles, sinusoids
from attentively.attention.scaled_dot_product import scaled_dot_product_attention
from attentively.training.schedules import SCHEDULES

# What holds for every widget


@pytest.mark.parametrize("name", WIDGETS)
def test_on_all_screens_and_by_keyboard(show, name):
    """Everything fits, axe finds no fault, each control is reached by Tab, and Reset resets."""
    for width, scheme in ((1000, "light"), (390, "dark")):
        page = show(name, width, scheme)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        cut = page.locator(".widget svg").evaluate_all(
            """(pictures) => pictures.flatMap((picture) => {
              const box = picture.getBoundingClientRect();
              return [...picture.querySelectorAll("text")].filter((text) => {
                const { left, right, height } = text.getBoundingClientRect();
                return left < box.left - 1 || right > box.right + 1 || height < 12;
              }).map((text) => text.textContent);
            })"""
        )
        assert cut == []
    first = status(page)
    assert first.endswith(".")
    stops = page.locator(
        ".widget :is(input, select, textarea, button:not([tabindex='-1']):not(:disabled), summary)"
    )
    page.locator("h1").click()
    seen = set()
    for _ in range(3 * stops.count()):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("() => document.activeElement.outerHTML"))
    assert {each.evaluate("(it) => it.outerHTML") for each in stops.all()} <= seen
    for slider in page.locator(".widget input[type=range]").all():
        slider.focus()
        for key in ("End", "ArrowLeft", "Home", "ArrowRight", "End"):
            page.keyboard.press(key)
    page.get_by_role("button", name="Reset").press("Enter")
    assert status(page) == first
    still = page.locator(".widget-static")
    assert not still.is_visible()
    page.locator(".widget-details summary").press("Enter")
    assert still.inner_text() == STATIC


@pytest.mark.parametrize("name", WIDGETS)
def test_without_scripts_the_static_version_is_read(show, name):
    page = show(name, java_script_enabled=False)
    assert page.locator(".widget-static").is_visible()
    assert not page.locator(".widget-trial").is_visible()
    assert page.locator(".widget-status").count() == 0


# What each widget computes


def compare_temperature(page):
    """The weights are those of the package, the derivatives those of autograd."""
    for dimension, scaled, temperature in ((4, True, 1), (64, True, 2), (64, False, 0.5)):
        torch.manual_seed(dimension)
        example = torch.randn(6, dtype=torch.float64)
        # A query and keys of this dimension with the scores of the example, times √(d_k / 4).
        query = torch.zeros(1, dimension, dtype=torch.float64)
        query[0, 0] = 1 / temperature * (1 if scaled else dimension**0.5)
        keys = torch.zeros(6, dimension, dtype=torch.float64)
        keys[:, 0] = example * (dimension / 4) ** 0.5
        _, [weights] = scaled_dot_product_attention(query, keys, keys)
        entered = (query @ keys.T)[0] / dimension**0.5
        best = int(weights.argmax())
        jacobian = torch.autograd.functional.jacobian(lambda e: e.softmax(dim=-1), entered)
        setting = {"dimension": dimension, "scaled": scaled, "temperature": temperature}
        got = call(page, "temperature", "compute", example.tolist(), setting)
        assert got["best"] == best
        assert got["weights"] == pytest.approx(weights.tolist(), abs=1e-12)
        assert got["derivatives"] == pytest.approx(jacobian[best].tolist(), abs=1e-12)
        assert got["entropy"] == pytest.approx(torch.special.entr(weights).sum().item(), abs=1e-12)


def test_temperature(show):
    page = show("temperature")
    compare_temperature(page)
    by_hand = "The largest weight is 0.890, on “cat”; the entropy of the weights is 0.510 nats"
    assert status(page).startswith(by_hand)
    dimension = page.get_by_role("slider", name="Dimension")
    dimension.press("End")
    assert dimension.get_attribute("aria-valuetext") == "1024"
    assert status(page).startswith(by_hand)  # with the division, the dimension changes nothing
    page.get_by_label("Divide by").press("Space")
    assert "is 1.000" in status(page)
    assert status(page).endswith("the softmax is saturated.")
    page.get_by_role("slider", name="Temperature").press("End")
    assert "is 1.000" in status(page)
    dimension.press("Home")
    assert "saturated" not in status(page)
    for dimension, *static in static_rows("12_self_attention", "temperature"):
        found = []
        for scaled in (True, False):
            setting = {"dimension": int(dimension), "scaled": scaled, "temperature": 1}
            got = call(page, "temperature", "compute", [0, 8, 0, 0, 0, 2], setting)
            found += [got["weights"][1], got["derivatives"][1]]
        assert [float(each) for each in static] == pytest.approx(found, rel=0.06, abs=1e-12)


@broken(
    "temperature",
    ("Math.sqrt(dimension / 4)", "dimension / 4"),
    ("(j === k) - w", "(j === k) + w"),
    ("/ temperature)", "* temperature)"),
)
def test_a_wrong_temperature_is_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_temperature(show("temperature", replaced=replaced))


def compare_positions(page):
    """Encodings, wavelengths and dot products are those of the package."""
    for d in (4, 16, 64):
        encodings = sinusoids(100, d).double()
        for p in (0, 1, 37):
            found = call(page, "positions", "encoding", p, d)
            assert found == pytest.approx(encodings[p].tolist(), abs=1e-5)
            products = call(page, "positions", "dotProducts", p, d, 100)
            assert products == pytest.approx((encodings @ encodings[p]).tolist(), abs=1e-3)
        wavelengths = 2 * torch.pi / position_angles(2, d)[1]
        found = [call(page, "positions", "wavelength", pair, d) for pair in range(d // 2)]
        assert found == pytest.approx(wavelengths.tolist(), rel=1e-5)


def test_positions(show):
    page = show("positions")
    compare_positions(page)
    assert status(page) == (
        "Pair 0 of 2 has the wavelength 6.28 positions. The encoding of position 1 is "
        "(0.841, 0.540, 0.010, 1.000). Position 1 has the dot product 2 with itself and 1.540 "
        "with position 2."
    )
    pair = page.get_by_role("slider", name="Pair i")
    pair.press("End")
    assert status(page).startswith("Pair 1 of 2 has the wavelength 628 positions.")
    page.get_by_role("slider", name="Dimension d").press("End")
    assert status(page).startswith("Pair 1 of 32 has the wavelength 8.38 positions. Position 1")
    pair.press("End")
    position = page.get_by_role("slider", name="Position p")
    before = status(page).partition("with itself")[2]
    position.press("ArrowRight")
    assert status(page).partition("with itself")[2].split()[:2] == before.split()[:2]
    page.get_by_role("slider", name="Dimension d").press("Home")
    assert status(page).startswith("Pair 1 of 2 ")  # there is no pair 31 any more
    for d, *static in static_rows("13_positional_encoding", "positions"):
        pairs = [each.replace(",", "") for each in static if each]
        found = [call(page, "positions", "wavelength", i, int(d)) for i in range(len(pairs))]
        assert [float(each) for each in pairs] == pytest.approx(found, rel=1e-3)
        assert len(pairs) == int(d) // 2
    products = call(page, "positions", "dotProducts", 0, 4, 7)
    text = (ROOT / "book" / "13_positional_encoding.md").read_text(encoding="utf-8")
    written = re.findall(r"(\d\.\d{3}) with \$p \\pm (\d)\$", " ".join(text.split()))
    assert written == [(f"{products[n]:.3f}", str(n)) for n in (1, 2, 3, 6)]


@broken(
    "positions",
    ("10000 ** ((2 * pair) / d)", "10000 ** (pair / d)"),
    ("component % 2 ? Math.cos(angle) : Math.sin(angle)", "Math.sin(angle)"),
    ("sum + each * own[component]", "sum + each"),
)
def test_wrong_positions_are_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_positions(show("positions", replaced=replaced))


PADDED = torch.tensor([[5, 6, 7, 8, 5, 9, 0, 0]])
ALLOWED = {
    "No mask": torch.ones(1, 8, 8, dtype=torch.bool),
    "Padding": padding_mask(PADDED, 0).expand(1, 8, 8),
    "Causal": causal_mask(8),
    "Causal and padding": causal_mask(8) & padding_mask(PADDED, 0),
    "Causal window of 3": causal_mask(8).triu(-2),
}


def depends(mask, layers):
    """Return on which inputs the outputs of these layers depend, by the gradients."""
    torch.manual_seed(0)
    x = torch.randn(8, 5, dtype=torch.float64)
    matrices = [torch.randn(3, 5, 5, dtype=torch.float64) for _ in range(layers)]

    def outputs(x):
        for to_query, to_key, to_value in matrices:
            weights = masked_softmax((x @ to_query) @ (x @ to_key).T, mask)
            x = x + weights @ (x @ to_value)
        return x

    jacobian = torch.autograd.functional.jacobian(outputs, x)  # (8, 5, 8, 5)
    return jacobian.abs().amax(dim=(1, 3)) > 0


def compare_masks(page):
    """The masks are those of the package; an input reaches an output if its gradient is not 0."""
    for name, [allowed] in ALLOWED.items():
        found = call(page, "masks", "mask", name, (PADDED[0] == 0).tolist())
        assert found == allowed.tolist(), name
    without_diagonal = ALLOWED["Causal window of 3"][0] & ~torch.eye(8, dtype=torch.bool)
    for allowed in (ALLOWED["Padding"][0], ALLOWED["Causal window of 3"][0], without_diagonal):
        needed = torch.tensor(call(page, "masks", "layersNeeded", allowed.tolist(), 4))
        for layers in range(1, 5):
            reached = (needed > 0) & (needed <= layers)
            assert torch.equal(reached, depends(allowed, layers)), layers


def test_masks(show):
    page = show("masks")
    compare_masks(page)
    assert status(page) == (
        "Query on (3) attends to 4 keys: the (0), cat (1), sat (2), on (3). Through 1 layer, its "
        "output depends on 4 inputs: the (0), cat (1), sat (2), on (3)."
    )
    page.get_by_role("button", name="Causal window of 3").press("Enter")
    assert "attends to 3 keys: cat (1), sat (2), on (3)." in status(page)
    page.get_by_role("slider", name="Layers").press("End")
    assert "Through 4 layers, its output depends on 4 inputs" in status(page)
    page.get_by_role("button", name="query 0 the, key 0 the: may attend").focus()
    for key in ("ArrowUp", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    label = "() => document.activeElement.ariaLabel"
    assert page.evaluate(label) == "query 1 cat, key 2 sat: may attend"
    assert status(page).startswith("Query cat (1) attends to 3 keys: the (0), cat (1), sat (2).")
    page.keyboard.press("ArrowUp")
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    assert status(page).startswith("Query the (0) attends to 0 keys. Through 4 layers, its output")
    assert status(page).endswith("Without any key: the (0); all weights are 0 there.")
    page.get_by_role("button", name="Padding", exact=True).click()
    assert "Without" not in status(page)
    words = ["the", "cat", "sat", "on", "the", "mat", "<pad>", "<pad>"]
    for [allowed], row in zip(
        ALLOWED.values(), static_rows("12_self_attention", "masks"), strict=True
    ):
        for reached, static in zip((allowed[3], depends(allowed, 3)[3]), row[1:], strict=True):
            found = [word for word, one in zip(words, reached, strict=True) if one]
            assert static == ("all 8 positions" if len(found) == 8 else ", ".join(found)), row


@broken(
    "masks",
    ('"Causal": (i, j) => j <= i', '"Causal": (i, j) => j < i'),
    ("(i === j ? 1 : 0)", "0"),
    ("allowed[i][k] && before[k][j]", "allowed[k][i] && before[k][j]"),
)
def test_wrong_masks_are_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_masks(show("masks", replaced=replaced))


def expected_share(name, step, steps, warm_up):
    """Return the share of the peak: the package's schedules, PyTorch's linear and cosine decay."""
    if name in SCHEDULES:
        return SCHEDULES[name](step, steps, warm_up)
    if name == "linear" and step < warm_up:
        return SCHEDULES["one_cycle"](step, steps, warm_up)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    if name == "linear":
        step, steps = step - warm_up, steps - warm_up
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    else:
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(step):
        optimizer.step()
        schedule.step()
    return schedule.get_last_lr()[0]


def evaluated(equation):
    """Return the value of an equation as the widget writes it."""
    for written, in_python in ((",", ""), ("−", "-"), ("√", "sqrt"), ("½", "0.5 *"), ("·", "*")):
        equation = equation.replace(written, in_python)
    return eval(equation, {"cos": math.cos, "π": math.pi, "sqrt": math.sqrt})


def compare_schedules(page):
    """The shares are those of the package and of PyTorch, and the equations have their values."""
    names = page.evaluate("() => Attentively.widgets.schedules.names")
    assert set(SCHEDULES) < set(names)
    for name in names:
        for step, warm_up in ((0, 0), (0, 5), (4, 5), (5, 5), (7, 3), (22, 5)):
            found = call(page, "schedules", "share", name, step, 23, warm_up)
            assert found == pytest.approx(expected_share(name, step, 23, warm_up), abs=1e-9)
            written = call(page, "schedules", "equation", name, step + 1, 23, warm_up)
            assert evaluated(written) == pytest.approx(found, abs=1e-12), written


def test_schedules(show):
    page = show("schedules")
    compare_schedules(page)
    start = "Inverse square root, step 16,000 of 100,000: 0.0007 · √(4,000 / 16,000) = "
    assert status(page) == f"{start}0.0007 · 0.5 = 0.00035."
    page.get_by_role("slider", name="Step n").fill("64000")
    assert status(page).endswith("0.0007 · 0.25 = 0.000175.")
    page.get_by_label("Schedule", exact=True).select_option("cosine")
    assert "step 64,000 of 100,000: 0.0007 · ½ (1 + cos(π · 63,999 / 100,000))" in status(page)
    steps = page.get_by_role("slider", name="Steps of the run")
    steps.press("Home")
    assert status(page).startswith("Cosine, step 10,000 of 10,000: ")  # the run has no later step
    page.get_by_label("Schedule", exact=True).select_option("one_cycle")
    page.get_by_role("slider", name="Warm-up").press("End")
    assert status(page).startswith(
        "One cycle, step 10,000 of 10,000: 0.0007 · 10,000 / (10,000 + 1)"
    )
    names = page.evaluate("() => Attentively.widgets.schedules.names")
    for n, *static in static_rows("16_training_the_transformer", "schedules"):
        step = int(n.replace(",", "")) - 1
        found = [call(page, "schedules", "share", name, step, 100_000, 4000) for name in names]
        assert [float(each) for each in static] == pytest.approx(found, abs=0.0006), n


@broken(
    "schedules",
    ("(step + 1) / (warmUp + 1)", "step / warmUp"),
    ("Math.sqrt(peak / number)", "peak / number"),
    ("warmUp) : 1 - progress", "warmUp) : progress"),
)
def test_wrong_schedules_are_seen(show, replaced):
    with pytest.raises(AssertionError):
        compare_schedules(show("schedules", replaced=replaced))
