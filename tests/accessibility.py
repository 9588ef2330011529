"""Rules of WCAG 2.2, levels A and AA, that axe finds broken on an open page."""

from collections.abc import Iterator

from axe_playwright_python.base import AXE_SCRIPT

LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ALSO = ["aria-deprecated-role", "label-content-name-mismatch", "target-size"]
"""Rules that axe does not count among those levels, or leaves out unless they are named."""
CONTRAST = "color-contrast"
ALL = {
    "runOnly": LEVELS,
    "rules": {rule: {"enabled": rule != CONTRAST} for rule in [*ALSO, CONTRAST]},
}
NARROW = {"runOnly": ["link-in-text-block", "scrollable-region-focusable", "target-size"]}
"""Rules that can be broken in a narrow window and not in a wide one."""
CONDITIONS = {"390 dark": NARROW, "1400 dark": None, "1400 light": ALL}
"""Width of the window and scheme, and the rules examined there, besides contrast."""

PREPARE = """() => {
    for (const details of document.querySelectorAll('details')) details.open = true;
    // A colour that changes slowly is not yet that of the other mode when it is measured.
    const still = new CSSStyleSheet();
    still.replaceSync('*, ::before, ::after { transition: none !important }');
    document.adoptedStyleSheets.push(still);
    // Outlines of equations are hidden from screen readers.
    for (const svg of document.querySelectorAll('mjx-container > svg')) svg.replaceChildren();
    // Most elements colour a word of code or are a part of an equation. One without an attribute of
    // which a rule knows counts only for its contrast: three of those that look the same, since
    // their classes and those of all elements around them are, stay; of the others, the text.
    globalThis.says = element => [...element.childNodes].some(
        node => node.nodeType === Node.TEXT_NODE && node.data.trim().length > 1);
    const known = /^(aria-|on|role$|id$|tabindex$|href$|lang$|title$|contenteditable$)/, seen = {};
    const same = [...document.querySelectorAll('pre span, code span, .sig :is(span, em), math *')]
        .filter(element => {
            if ([...element.attributes].some(({ name }) => known.test(name))) return false;
            if (element.closest('math') || !says(element)) return true;
            let look = '';
            for (let around = element; around; around = around.parentElement)
                look += `${around.localName} ${around.className} ${around.style.cssText}>`;
            seen[look] = (seen[look] || 0) + 1;
            return seen[look] > 3;
        });
    for (const element of same.reverse())
        if (!element.firstElementChild) element.replaceWith(...element.childNodes);
    document.body.normalize();
}"""
# Contrast is measured three times for each combination of colours and size on the page: a chapter
# has thousands of words in code, in a dozen colours. axe does not decide about single characters.
SAMPLE = """condition => {
    const seen = {}, clear = 'rgba(0, 0, 0, 0)';
    for (const element of document.body.querySelectorAll(':not(svg *, math *)')) {
        if (!says(element) || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        let below = element, paper = null;
        while (below && (!paper || paper.backgroundColor === clear)) {
            paper = getComputedStyle(below);
            below = below.parentElement;
        }
        const look = [style.color, style.fontSize, style.fontWeight, style.opacity,
                      paper.backgroundColor, paper.backgroundImage].join();
        seen[look] = (seen[look] || 0) + 1;
        if (seen[look] > 3) continue;
        element.dataset.sample = `${element.dataset.sample || ''} ${condition}`;
    }
}"""
# axe looks for what lies behind a sample among all elements of the page. A table stays whole, since
# its rows may be striped by their number.
REMOVE_THE_REST = """() => {
    const kept = 'style, [data-sample], [data-sample] *, table *, :has([data-sample])';
    for (const element of document.body.querySelectorAll('*'))
        if (!element.matches(kept)) element.remove();
}"""
FIND = """async options => {
    const found = await axe.run(  // `preload` fetches the styles, which browsers refuse in a folder
        document, { resultTypes: ['violations'], preload: false, ...options });
    return found.violations.map(({ id, nodes }) => {
        const [{ html, failureSummary }] = nodes;
        return `${id} (${nodes.length} times): ${html.slice(0, 200)}: ${failureSummary}`;
    });
}"""
CONTRAST_OF = """selector => axe.configure({ rules: [{ id: 'color-contrast', selector }] })"""
# The page hears of a scheme in the next frame. The theme decides 300 ms after a change of size, or
# of the page, which boxes the keyboard reaches.
# The wait ends after five seconds: a browser on a busy machine once drew no further frame.
SETTLE = """wait => new Promise(done => {
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, wait)));
    setTimeout(done, 5000);
})"""


def show(page, condition: str, wait: int) -> None:
    """Set the window's width and the scheme, and wait until the page has followed."""
    width, scheme = condition.split()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": int(width), "height": 900})
    page.evaluate(SETTLE, wait)


def violations(page) -> Iterator[str]:
    """Yield what is wrong with a page: in light and dark, in a wide and a narrow window.

    Opens what is folded, and leaves little of the page.
    """
    page.evaluate(AXE_SCRIPT)
    page.evaluate(PREPARE)
    for condition, rules in CONDITIONS.items():
        show(page, condition, 500 if rules else 0)
        page.evaluate(SAMPLE, condition.replace(" ", "-"))
        for fault in page.evaluate(FIND, rules) if rules else ():
            yield f"{condition} {fault}"
    page.evaluate(REMOVE_THE_REST)
    for condition in reversed(CONDITIONS):
        show(page, condition, 0)
        page.evaluate(CONTRAST_OF, f"[data-sample~='{condition.replace(' ', '-')}']")
        for fault in page.evaluate(FIND, {"runOnly": [CONTRAST]}):
            yield f"{condition} {fault}"
