"""The `chapter-path` directive: the table of chapters drawn as a path.

In a page::

    :::{chapter-path}
    | | chapter | question |
    |---|---|---|
    | | **I · Words become vectors** | |
    | 01 | [Embeddings](01_embeddings.md) | How can a word be represented by a vector? |
    :::

The content is a Markdown table: a row without a number names a part, a row with one is a chapter
with the question that it answers. The table in ``book/index.md`` is the only list of the questions;
`read_table` reads it for everything else that shows them. Each part has a pictogram of the model at
that point of the book; the part's numeral chooses it.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

ROW = re.compile(r"^\| *(?P<number>\d\d)? *\| *(?P<name>.+?) *\| *(?P<question>.*?) *\|$")
LINK = re.compile(r"^\[(?P<title>.+)\]\((?P<page>[\w./-]+)\.md\)$")
NUMERAL = re.compile(r"^(?P<numeral>[IVX]+) · ")


class Chapter(NamedTuple):
    """A chapter as the table lists it; the question is Markdown."""

    number: str
    title: str
    page: str
    question: str


class Part(NamedTuple):
    """A part of the book with its chapters."""

    title: str
    chapters: tuple[Chapter, ...]


def read_table(lines: Iterable[str]) -> list[Part]:
    """Return the parts of the first such table; raise ValueError for a row that is neither kind."""
    parts: list[Part] = []
    begun = False
    for line in lines:
        if re.match(r"^\|[ |:-]*-[ |:-]*\|$", line):
            begun = True
        elif begun and not line.startswith("|"):
            break
        elif begun:
            row = ROW.match(line)
            if row is None:
                raise ValueError(f"this row has not three cells: {line!r}")
            link = LINK.match(row["name"])
            if row["number"] is None and row["name"].startswith("**"):
                parts.append(Part(row["name"].strip("*"), ()))
            elif row["number"] and link and row["question"] and parts:
                chapter = Chapter(row["number"], link["title"], link["page"], row["question"])
                parts[-1] = parts[-1]._replace(chapters=(*parts[-1].chapters, chapter))
            else:
                raise ValueError(
                    "expected a part, '| | **I · Title** | |', or under one a chapter, "
                    f"'| 01 | [Title](page.md) | question |', but got {line!r}"
                )
    if not parts:
        raise ValueError("there is no table of chapters")
    return parts


# The model at each point of the book, 72 × 48. The classes are roles, as in the other maps.
_ENCODER = '<path class="encoder" d="M8 38h12M26 38h6M38 38h6"/>' + "".join(
    f'<circle class="encoder" cx="{x}" cy="38" r="4"/>' for x in (8, 23, 38)
)
_DECODER = "".join(f'<circle class="decoder" cx="{x}" cy="10" r="4"/>' for x in (34, 49, 64))
_STACK = "".join(
    f'<rect class="{role}" x="{x}" y="{y}" width="20" height="8" rx="2"/>'
    for role, x in (("encoder", 10), ("decoder", 42))
    for y in (8, 20, 32)
)
PICTOGRAMS = {
    "": '<rect class="ink" x="24" y="12" width="24" height="24" rx="4"/>'
    '<path class="ink" d="M6 24h16m-4-4 4 4-4 4M50 24h16m-4-4 4 4-4 4"/>',
    "I": '<path class="encoder" d="M16 40 28 8m-5 4 5-4 2 6M16 40 54 18m-6 0 6 0-3 5"/>'
    '<path class="decoder" d="M16 40 62 36m-5-3 5 3-5 4"/>',
    "II": f'{_ENCODER}<path class="ink" d="M42 36 34 14"/>{_DECODER}'
    '<path class="decoder" d="M38 10h7M53 10h7"/>',
    "III": f'{_ENCODER}{_DECODER}<path class="decoder" d="M38 10h7M53 10h7"/>'
    '<path class="cross" stroke-opacity=".5" d="M49 14 8 34"/>'
    '<path class="cross wide" d="M49 14 23 34"/>'
    '<path class="cross" stroke-opacity=".5" d="M49 14 38 34"/>',
    "IV": "".join(f'<circle class="encoder" cx="{x}" cy="38" r="4"/>' for x in (9, 27, 45, 63))
    + '<path class="encoder" d="M9 34C13 22 23 22 27 34M27 34C31 22 41 22 45 34M45 34C49 22 59 22 '
    '63 34M9 34C15 12 39 12 45 34M27 34C33 12 57 12 63 34M9 34C19 2 53 2 63 34"/>',
    "V": f'{_STACK}<path class="cross" d="M30 12h8v12h4M38 12h4M38 24v12h4"/>',
    "VI": '<rect class="encoder" x="6" y="20" width="20" height="8" rx="2"/>'
    '<path class="ink" d="M26 24C36 24 34 8 44 8M26 24h18M26 24C36 24 34 40 44 40"/>'
    '<circle class="decoder" cx="50" cy="8" r="4"/><circle class="encoder" cx="50" cy="24" r="4"/>'
    '<circle class="cross" cx="50" cy="40" r="4"/>',
}


class path_node(nodes.General, nodes.Element):
    """The path: a list of parts."""


class part_node(nodes.General, nodes.Element):
    """A part: its pictogram and its chapters."""


class chapter_node(nodes.General, nodes.Element):
    """A chapter: a paragraph with its link, then one with its question."""


class ChapterPath(SphinxDirective):
    """Turn the table into nodes."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the path as one node."""
        try:
            parts = read_table(self.content)
        except ValueError as problem:
            raise self.error(str(problem)) from None
        path = path_node()
        for part in parts:
            node = part_node("", title=part.title)
            for each in part.chapters:
                chapter = chapter_node("", number=each.number)
                chapter += self._parsed(f"[{each.title}]({each.page}.md)")
                chapter += self._parsed(each.question)
                node += chapter
            path += node
        self.env.metadata[self.env.docname]["chapter_path"] = True
        return [path]

    def _parsed(self, text: str) -> list[nodes.Node]:
        node = nodes.container()
        lines = StringList([text], source=self.get_source_info()[0])
        self.state.nested_parse(lines, self.content_offset, node)
        return node.children


def visit_path(self: HTML5Translator, node: path_node) -> None:
    """Open the list of parts."""
    self.body.append('<ol class="chapter-path" role="list">\n')


def visit_part(self: HTML5Translator, node: part_node) -> None:
    """Open a part with its pictogram and title."""
    numeral = NUMERAL.match(node["title"])
    drawn = PICTOGRAMS.get(numeral["numeral"] if numeral else "", "")
    self.body.append(
        '<li class="path-part">\n<div class="path-head">'
        f'<svg viewBox="0 0 72 48" aria-hidden="true">{drawn}</svg>'
        f'<p>{self.encode(node["title"])}</p></div>\n<ol class="path-chapters" role="list">\n'
    )


def visit_chapter(self: HTML5Translator, node: chapter_node) -> None:
    """Open a chapter with its number."""
    self.body.append(f'<li><span class="path-number">{node["number"]}</span><div>\n')


def depart_path(self: HTML5Translator, node: path_node) -> None:
    """Close the list of parts."""
    self.body.append("</ol>\n")


def depart_part(self: HTML5Translator, node: part_node) -> None:
    """Close a part."""
    self.body.append("</ol>\n</li>\n")


def depart_chapter(self: HTML5Translator, node: chapter_node) -> None:
    """Close a chapter."""
    self.body.append("</div></li>\n")


def add_style(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, object], doctree: object
) -> None:
    """Give the style to a page with the path, and to no other."""
    if doctree is not None and app.env.metadata.get(pagename, {}).get("chapter_path"):
        app.add_css_file("front.css")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(path_node, html=(visit_path, depart_path))
    app.add_node(part_node, html=(visit_part, depart_part))
    app.add_node(chapter_node, html=(visit_chapter, depart_chapter))
    app.add_directive("chapter-path", ChapterPath)
    app.connect("html-page-context", add_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
