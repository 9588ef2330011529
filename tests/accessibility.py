"""Rules of WCAG 2.2, levels A and AA, that axe finds broken on an open page."""

from axe_playwright_python.base import AXE_SCRIPT

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALSO = ["aria-deprecated-role", "label-content-name-mismatch", "target-size"]
"""Rules that axe does not count among those levels, or leaves out unless they are named."""
APPEARANCE = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
"""Rules whose result can differ between light and dark, and between a wide and a narrow window."""

PREPARE = """() => {
    for (const details of document.querySelectorAll('details')) {
        if (!details.open) details.dataset.closed = '';
        details.open = true;
    }
    // A colour that changes slowly is not yet that of the other mode when it is measured.
    const still = new CSSStyleSheet();
    still.replaceSync('*, ::before, ::after { transition: none !important }');
    document.adoptedStyleSheets.push(still);
    // Outlines of equations are hidden from screen readers; without them, axe takes half the time.
    for (const svg of document.querySelectorAll('mjx-container > svg')) svg.replaceChildren();
}"""
RESTORE = """() => {
    for (const details of document.querySelectorAll('[data-closed]')) {
        details.open = false;
        delete details.dataset.closed;
    }
}"""

# Contrast is measured three times for each combination of colours and size on the page: a chapter
# has thousands of words in code, in a dozen colours. axe does not decide about single characters.
FIND = """async ([levels, also, only]) => {
    // The theme decides 300 ms after a change of size which boxes the keyboard reaches.
    await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 500)));
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


def prepare(page) -> None:
    """Load axe into an open page and open everything that is folded."""
    page.evaluate(AXE_SCRIPT)
    page.evaluate(PREPARE)


def violations(page, only: list[str] | None = None) -> list[str]:
    """Return the violations in a prepared page: of all rules, or of those that are named."""
    return page.evaluate(FIND, [LEVELS, ALSO, only])


def restore(page) -> None:
    """Fold again what was folded."""
    page.evaluate(RESTORE)
