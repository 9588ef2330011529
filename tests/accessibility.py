"""Rules of WCAG 2.2, levels A and AA, that axe finds broken on an open page."""

from collections.abc import Iterator

from axe_playwright_python.base import AXE_SCRIPT

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALSO = ["aria-deprecated-role", "label-content-name-mismatch", "target-size"]
"""Rules that axe does not count among those levels, or leaves out unless they are named."""
CONDITIONS = (
    (1400, "light", None),
    (1400, "dark", ["color-contrast"]),
    (390, "dark", ["color-contrast", "link-in-text-block", "scrollable-region-focusable",
                   "target-size"]),
)  # fmt: skip
"""Width of the window, scheme, and the rules that can be broken there and not before; None: all."""

PREPARE = """() => {
    for (const details of document.querySelectorAll('details')) details.open = true;
    // A colour that changes slowly is not yet that of the other mode when it is measured.
    const still = new CSSStyleSheet();
    still.replaceSync('*, ::before, ::after { transition: none !important }');
    document.adoptedStyleSheets.push(still);
    // Outlines of equations are hidden from screen readers; without them, axe takes half the time.
    for (const svg of document.querySelectorAll('mjx-container > svg')) svg.replaceChildren();
}"""
# Contrast is measured three times for each combination of colours and size on the page: a chapter
# has thousands of words in code, in a dozen colours. axe does not decide about single characters.
FIND = """async ([levels, also, only]) => {
    for (const element of document.querySelectorAll('[data-sample]'))
        delete element.dataset.sample;
    const seen = {}, clear = 'rgba(0, 0, 0, 0)';
    for (const element of document.body.querySelectorAll(':not(svg *, math *)')) {
        const says = [...element.childNodes].some(
            node => node.nodeType === Node.TEXT_NODE && node.data.trim().length > 1);
        if (!says || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        let below = element, paper = null;
        while (below && (!paper || paper.backgroundColor === clear)) {
            paper = getComputedStyle(below);
            below = below.parentElement;
        }
        const look = [style.color, style.fontSize, style.fontWeight, style.opacity,
                      paper.backgroundColor, paper.backgroundImage].join();
        seen[look] = (seen[look] || 0) + 1;
        if (seen[look] <= 3) element.dataset.sample = '';
    }
    axe.configure({ rules: [{ id: 'color-contrast', selector: '[data-sample]' }] });
    const rules = Object.fromEntries(also.map(name => [name, { enabled: true }]));
    const found = await axe.run(document, {
        resultTypes: ['violations'],
        ...(only ? { runOnly: { type: 'rule', values: only } } : { runOnly: levels, rules }),
    });
    return found.violations.map(({ id, nodes }) => {
        const [{ html, failureSummary }] = nodes;
        return `${id} (${nodes.length} times): ${html.slice(0, 200)}: ${failureSummary}`;
    });
}"""


# The theme decides 300 ms after a change of size which boxes the keyboard reaches, and hears of the
# scheme a moment after it changed.
SETTLE = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 500)))"


def violations(page) -> Iterator[str]:
    """Yield what is wrong with a page: in light and dark, in a wide and a narrow window.

    Opens what is folded, and leaves the page changed.
    """
    page.evaluate(AXE_SCRIPT)
    page.evaluate(PREPARE)
    for width, scheme, only in CONDITIONS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(SETTLE)
        for fault in page.evaluate(FIND, [LEVELS, ALSO, only]):
            yield f"{width} {scheme} {fault}"
