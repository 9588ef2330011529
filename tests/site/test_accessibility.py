"""Violations of WCAG 2.2 that the tests of the pages look for are found."""

import accessibility
import pytest

ACCESSIBLE = """<!doctype html><html lang="en"><title>A page</title><style>
  html {{ background: #fff; color: #222 }}
  @media (prefers-color-scheme: dark) {{ html {{ background: #111; color: #ddd }} }}
</style><main><h1>A page</h1>{more}</main>"""
WIDE_BOX = f"<div style='overflow: auto; white-space: pre'>{'one line ' * 9}</div>"
CODE = """<style>
  @media (prefers-color-scheme: dark) {{ .k {{ color: #444 }} }} .t .k {{ color: #ccc }}
</style><pre><span>word</span> {words}</pre>"""


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
        (  # of many words with the same classes, three are measured
            CODE.format(words="<span class=k>word</span> " * 9),
            ["1400 dark color-contrast", "390 dark color-contrast"],
        ),
        (
            CODE.format(
                words="<span><span class=k>word</span></span> " * 9
                + "<span class=t><span class=k>word</span></span>"
            ),
            ["1400 light color-contrast", "1400 dark color-contrast", "390 dark color-contrast"],
        ),
        (
            CODE.format(words="<span>word</span> " * 9 + "<span role=button></span>"),
            ["1400 light aria-command-name"],
        ),
        (
            "<style>td { color: #888 } tr:nth-child(even) { background: #777 }</style><table>"
            "<tr><td>x<tr><td>word</table>",
            ["1400 light color-contrast", "1400 dark color-contrast", "390 dark color-contrast"],
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
