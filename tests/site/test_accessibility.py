"""axe finds no violation of WCAG 2.2 on any page."""

import accessibility
import pytest


@pytest.mark.parametrize("part", range(4))
def test_every_page_is_accessible(pages, visit, part):
    """The pages are examined in four parts, since axe takes several seconds for each."""
    window = visit()
    faults = []
    for page in pages[part::4]:
        window.open(page.as_uri())
        faults += [f"{page.name}: {fault}" for fault in accessibility.violations(window.page)]
    assert not faults, "\n".join(faults)


ACCESSIBLE = """<!doctype html><html lang="en"><title>A page</title><style>
  html {{ background: #fff; color: #222 }}
  @media (prefers-color-scheme: dark) {{ html {{ background: #111; color: #ddd }} }}
</style><main><h1>A page</h1>{more}</main>"""
WIDE_BOX = f"<div style='overflow: auto; white-space: pre'>{'one line ' * 9}</div>"


@pytest.mark.parametrize(
    ("more", "faults"),
    [
        ("<details><summary>Open</summary>This.</details>", []),
        ("<button aria-label='Colour'>Light</button>", ["1400 light label-content-name-mismatch"]),
        (
            "<details><summary><math aria-hidden='true'><mi>x</mi></math></summary>x</details>",
            ["1400 light summary-name"],
        ),
        (
            "<div role='list'><div role='doc-biblioentry'>x</div></div>",
            ["1400 light aria-deprecated-role", "1400 light aria-required-children"],
        ),
        (
            WIDE_BOX,
            ["390 dark scrollable-region-focusable"],
        ),
        (WIDE_BOX.replace("<div", "<div tabindex=0"), []),
        (
            "<p style='color: #666'>Words</p>",
            ["1400 dark color-contrast", "390 dark color-contrast"],
        ),
        (
            "<details><summary>Open</summary><p style='color: #bbb'>Words</p></details>",
            ["1400 light color-contrast"],
        ),
        (
            "<style>@media (max-width: 500px) { button { float: left; width: 16px } }</style>"
            "<button aria-label=a></button><button aria-label=b></button>",
            ["390 dark target-size"],
        ),
    ],
)
def test_each_violation_is_found(visit, tmp_path, more, faults):
    page = tmp_path / "page.html"
    page.write_text(ACCESSIBLE.format(more=more))
    window = visit()
    window.open(page.as_uri())
    found = accessibility.violations(window.page)
    assert [" ".join(fault.split(" ")[:3]) for fault in found] == faults
