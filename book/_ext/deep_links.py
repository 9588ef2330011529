"""Links to every heading, numbered equation, figure and table of results.

Sphinx writes such links, but hides them from the keyboard; `attentively.css` shows them on focus.
Their sign is hidden from screen readers, which then read the title, "Link to this heading". The
tables of results are outputs of cells, in HTML: they get an anchor here, made of their caption.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

SIGN = '<span aria-hidden="true">#</span>'
TABLE = re.compile(
    r'<div class="results-table">(?P<before>.*?<caption><span>)(?P<caption>.*?)</span></caption>',
    re.S,
)


class LinkTables(SphinxPostTransform):
    """Give each table of results on a page an anchor and a link to it."""

    default_priority = 700
    formats = ("html",)

    def run(self) -> None:
        """Change the raw HTML of the outputs."""
        used = set(self.document.ids)
        for node in self.document.findall(nodes.raw):
            if "results-table" in node.astext():
                text = TABLE.sub(lambda match: linked(match, used), node.astext())
                node.children.clear()
                node += nodes.Text(text)


def linked(match: re.Match[str], used: set[str]) -> str:
    """Return the beginning of a table with its anchor, one that is not in use, and its link."""
    caption = match["caption"]
    words = nodes.make_id(re.sub(r"<[^>]+>", "", caption))[:60].strip("-")
    anchor = f"table-{words}"
    number = 1
    while anchor in used:
        number += 1
        anchor = f"table-{words}-{number}"
    used.add(anchor)
    link = f'<a class="headerlink" href="#{anchor}" title="Link to this table">{SIGN}</a>'
    start = f'<div class="results-table" id="{anchor}">{match["before"]}'
    return f"{start}{caption}{link}</span></caption>"


def choose_sign(app: Sphinx) -> None:
    """Use the sign for the links that Sphinx writes too, after the theme has chosen its own."""
    app.config.html_permalinks_icon = SIGN


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", choose_sign, priority=900)
    app.add_post_transform(LinkTables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
