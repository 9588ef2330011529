r"""Search among the sections of the book, in place of Sphinx' search among its pages.

The index is a script, `_static/search/index.js`, because a page that was opened from a folder may
load scripts but no other files. It lists the pages and, for each section of a page, its level,
anchor, heading, text, and the names that its code defines. Entries of the glossary, of the API and
of the bibliography are sections too. `_static/search/engine.js` searches it; `search.js`, the one
script that every page loads, fetches both when a reader opens the search field. The reasons are in
docs/decisions/0028-search.md.

Text is that of the prose, with captions and tables. Code, outputs as text, and the answers of a
quiz are left out: a result should not give an answer away.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bs4 import BeautifulSoup
from docutils import nodes
from quiz import option_node
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment

KINDS = ("chapter", "reference", "glossary", "api", "bibliography")
"""What a page is; the search ranks by it."""

DEFINED = re.compile(r"^\s*(?:def|class) (\w+)", re.M)
LEFT_OUT = (nodes.title, nodes.literal_block, nodes.Invisible, addnodes.index, option_node)
APART = (nodes.section, addnodes.desc, addnodes.glossary)
"""What becomes sections of its own."""

SIGNS = {
    "sqrt": "√", "cdot": "·", "times": "×", "odot": "⊙", "pm": "±", "partial": "∂", "nabla": "∇",
    "sum": "∑", "infty": "∞", "ell": "ℓ", "top": "ᵀ", "approx": "≈", "neq": "≠", "le": "≤",
    "leq": "≤", "geq": "≥", "propto": "∝", "in": "∈", "to": "→", "mid": "|", "lvert": "|",
    "rvert": "|", "lVert": "‖", "rVert": "‖", "dots": "…",
}  # fmt: skip
FUNCTIONS = {"arg", "cos", "exp", "ln", "log", "max", "min", "sin", "tanh"}
UNRESOLVED = {"numref": "the figure", "eq": "above"}
"""What stands for a number, which is given only when the page is written."""

FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
COMMAND = re.compile(r"\\([A-Za-z]+)|\\.")


class Section(NamedTuple):
    """What a result leads to."""

    level: int
    anchor: str
    heading: str
    text: str
    names: list[str]
    """Functions and classes that the section's code defines, or authors of a work."""


def plain_formula(latex: str) -> str:
    r"""Return an inline formula as text: ``\sqrt{d_k}`` becomes ``√d_k``."""

    def sign(match: re.Match[str]) -> str:
        name = match[1] or ""
        if name in FUNCTIONS:
            return name
        case = "CAPITAL" if name[:1].isupper() else "SMALL"
        try:
            return unicodedata.lookup(f"GREEK {case} LETTER {name}")
        except KeyError:
            return SIGNS.get(name, "")

    latex = FRACTION.sub(r"\1/\2", latex.replace(r"^\top", r"\top"))
    return re.sub(r"[{}]", "", COMMAND.sub(sign, latex)).strip()


def words_of(node: nodes.Node) -> Iterator[str]:
    """Yield the pieces of text of a node, without those of the sections inside it."""
    if isinstance(node, nodes.math):
        yield plain_formula(node.astext())
    elif isinstance(node, nodes.Text):
        yield node.astext()
    elif isinstance(node, addnodes.pending_xref) and node["reftype"] in UNRESOLVED:
        yield UNRESOLVED[node["reftype"]]
    elif isinstance(node, addnodes.pending_xref) and node["refdomain"] == "cite":
        yield re.sub(r"(\D)(\d{4}\w?)\b,?", r"\1 \2 ", node["reftarget"]).title().strip()
    elif isinstance(node, nodes.raw):
        if "results-table" in node.astext():
            caption = BeautifulSoup(node.astext(), "html.parser").caption
            yield f" {caption.get_text()} " if caption else ""
    elif not isinstance(node, (*LEFT_OUT, *APART, nodes.math_block)):
        for child in node.children:
            yield from words_of(child)
        if not isinstance(node, nodes.Inline):
            yield " "


def text_of(*found: nodes.Node) -> str:
    """Return the text of nodes in one line."""
    joined = "".join(piece for node in found for piece in words_of(node))
    return re.sub(r" ([,.;:)])", r"\1", " ".join(joined.split()))


def definitions_in(node: nodes.Node) -> Iterator[str]:
    """Yield the names that visible code defines, without the sections inside the node."""
    if isinstance(node, nodes.literal_block):
        yield from DEFINED.findall(node.astext())
    elif isinstance(node, APART) or not isinstance(node, nodes.Element):
        return
    elif "cell_output" not in node["classes"]:
        for child in node.children:
            yield from definitions_in(child)


def sections_of(node: nodes.Element, level: int = 1) -> Iterator[Section]:
    """Yield the sections inside a node, from the first to the last."""
    for child in node.children:
        if isinstance(child, nodes.section):
            title = next(iter(child.findall(nodes.title)))
            names = [name for each in child.children for name in definitions_in(each)]
            yield Section(
                level,
                anchor_of(child),
                text_of(*title.children),
                text_of(*child.children),
                list(dict.fromkeys(names)),
            )
            yield from sections_of(child, level + 1)
        elif isinstance(child, addnodes.desc):
            signature, content = child[0], child[-1]
            if signature.get("ids"):
                title = signature.get("fullname") or text_of(signature)
                text = text_of(content)
                yield Section(level, signature["ids"][0], title, text, [])
            yield from sections_of(content, level + 1)
        elif isinstance(child, nodes.definition_list_item) and child[0].get("ids"):
            text = text_of(*child.findall(nodes.definition))
            yield Section(level, child[0]["ids"][0], text_of(*child[0].children), text, [])
        elif isinstance(child, nodes.Element):
            yield from sections_of(child, level)


def anchor_of(section: nodes.section) -> str:
    """Return the id in the section's link to itself, which Sphinx takes from its heading."""
    return str(section["ids"][0])


def works_of(env: BuildEnvironment, docname: str) -> Iterator[Section]:
    """Yield the entries of a bibliography."""
    for work in env.domaindata.get("cite", {}).get("citations", []):
        if work.bibliography_key.docname == docname:
            text = work.formatted_entry.text.render_as("text")
            title = re.sub(r"[{}]", "", work.entry.fields["title"])
            people = [name for each in work.entry.persons["author"] for name in each.last_names]
            yield Section(2, work.citation_id, title, text, people)


def kind_of(docname: str, document: nodes.document) -> str:
    """Return which of `KINDS` a page is."""
    for kind in ("glossary", "api", "bibliography"):
        if kind in docname.split("/"):
            return kind
    executed = any("cell" in node["classes"] for node in document.findall(nodes.container))
    return "chapter" if executed else "reference"


def index_of(env: BuildEnvironment, address: Any) -> dict[str, list[list[Any]]]:
    """Return the pages, in the order of the book, and their sections; `address` gives URLs."""
    pages: list[list[Any]] = []
    found: list[list[Any]] = []
    order = [env.config.root_doc, *toc_order(env)]
    for docname in [name for name in dict.fromkeys(order) if name in env.all_docs]:
        document = env.get_doctree(docname)
        sections = [*sections_of(document), *works_of(env, docname)]
        if sections:
            pages.append([address(docname), sections[0].heading, kind_of(docname, document)])
            found += [[len(pages) - 1, *section] for section in sections]
    return {"pages": pages, "sections": found}


def toc_order(env: BuildEnvironment, docname: str = "") -> Iterator[str]:
    """Yield the pages below a page of the table of contents, in its order."""
    for child in env.toctree_includes.get(docname or env.config.root_doc, []):
        yield child
        yield from toc_order(env, child)


def write_index(app: Sphinx, error: Exception | None) -> None:
    """Write the index as a script that gives it to the engine."""
    if error is not None or app.builder.format != "html":
        return
    index = index_of(app.env, app.builder.get_target_uri)
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    target = Path(app.outdir) / "_static" / "search" / "index.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"BookSearch.receive({text});\n", encoding="utf-8")


def use_templates(app: Sphinx, config: Config) -> None:
    """Add the templates that replace the theme's page of results."""
    config.templates_path.append(str(Path(__file__).parent / "templates"))


def omit_own_index(app: Sphinx) -> None:
    """Leave Sphinx' own index out; `search_page` adds a page of results instead."""
    if app.builder.format == "html":
        app.builder.search = False


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page of results, which the search field leads to."""
    yield "search", {}, "search.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("config-inited", use_templates)
    app.connect("builder-inited", omit_own_index)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", write_index)
    app.add_js_file("search/search.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
