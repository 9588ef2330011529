"""Give each executed page as a Jupyter notebook that stands alone: "Open as notebook".

MyST-NB already writes each page as a notebook, though without the outputs that it takes from its
cache. Here the notebook is copied into the site with its outputs, and with what a notebook cannot
show replaced by what it stands for: included code, quizzes, maps, boxes, captions, the numbers of
equations and figures, citations. The cited works are listed at the end. References to other pages
become links where ``html.baseurl`` in `_config.yml` states the address of the published book, and
plain text otherwise. Labels, which only a book links to, go.
"""

import re
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import nbformat
import quiz
import transformer_map
import widget
from docutils import nodes
from jupyter_cache import get_cache
from nbformat.v4 import new_markdown_cell
from pybtex.plugin import find_plugin
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.directives.code import LiteralIncludeReader
from sphinx.util.nodes import split_explicit_title

FENCE = re.compile(
    r"^(`{3,}|:{3,})\{(literalinclude|live-model|live-transformer|math|quiz|transformer-map|widget)\}"
    r" *(.*?)\n(.*?)^\1 *$",
    re.M | re.S,
)
BOX = re.compile(
    r"^(:{3,})\{(admonition|dropdown|hint|note|tip|warning)\} *(.*?)\n(.*?)^\1 *$", re.M | re.S
)
OPTION = re.compile(r"^:([\w-]+): *(.*)\n", re.M)
LABEL = re.compile(r"^\([a-z0-9-]+\)=\n", re.M)
EQUATION = re.compile(r"^\$\$ *\(([\w-]+)\)$", re.M)
CODE = re.compile(r"`([^`\n]+)`")
ROLE = re.compile(r"\{(cite:[a-z]+|doc|download|eq|numref|ref)\}`([^`]+)`")
LINK = re.compile(r"\[([^\[\]]+)\]\(([\w./-]+)\.md(#[\w-]+)?\)")
DOMAINS = {"eq": "math"}
"""Of the roles that are not the standard domain's and do not name their own."""
ROUND = str.maketrans("[]", "()")


class References:
    """What a page refers to, as Sphinx resolves it, in the words of a notebook."""

    def __init__(self, app: Sphinx, page: str) -> None:
        self.app = app
        self.page = page
        self.address = app.config.html_baseurl.rstrip("/")
        self.cited: set[str] = set()

    def linked(self, text: str, location: str) -> str:
        """Return the text as a link into the published book, if its address is known."""
        return f"[{text}]({self.address}/{location})" if self.address else text

    def role(self, role: str, content: str) -> str:
        """Return what a role shows; what is on the same page gets no link."""
        explicit, title, target = split_explicit_title(" ".join(content.split()))
        env = self.app.env
        if role == "download":
            file, _ = env.relfn2path(target, self.page)
            return self.linked(title, f"_downloads/{env.dlfiles[file][1]}")
        prefix, _, kind = role.rpartition(":")
        domain = prefix or DOMAINS.get(role, "std")
        node = pending_xref("", refdoc=self.page, refexplicit=explicit)
        found = env.get_domain(domain).resolve_xref(
            env, self.page, self.app.builder, kind, target, node, nodes.inline("", title)
        )
        if found is None:  # Sphinx has warned of it where the page was read
            return title
        if domain == "cite":
            self.cited |= {key.strip() for key in target.split(",")}
            return found.astext().translate(ROUND)
        if "refuri" not in found:
            return found.astext()
        return self.linked(found.astext(), urljoin(self.page, found["refuri"]))

    def numbered(self, caption: str, name: str | None) -> str:
        """Return a figure's caption with the number that the book gives to the figure."""
        number = self.role("numref", name) if name else name
        return caption.strip() if number == name else f"{number}. {caption.strip()}"

    def link(self, text: str, name: str, place: str) -> str:
        """Return what a link to the source of another page shows."""
        location = self.app.builder.get_target_uri(urljoin(self.page, name))
        return self.linked(text, location + place)

    def bibliography(self) -> str:
        """Return the cited works as a list, in the order of the book's bibliography."""
        backend = find_plugin("pybtex.backends", "markdown")()
        entries = {
            citation.key: " ".join(citation.formatted_entry.text.render(backend).split())
            for citation in self.app.env.get_domain("cite").citations
            if citation.key in self.cited
        }
        return "\n".join(f"- {entry}" for entry in entries.values())


def plain_markdown(text: str, page: Path, app: Sphinx, references: References) -> str:
    """Return the Markdown of a cell with what a notebook cannot show spelled out."""

    def spell_out(match: re.Match[str]) -> str:
        _, directive, argument, body = match.groups()
        options = dict(OPTION.findall(body))
        if directive == "quiz":
            return quiz.as_markdown(body)
        if directive == "math":
            label = f" ({options['label']})" * ("label" in options)
            return f"$$\n{OPTION.sub('', argument + body).strip()}\n$${label}"
        if directive in ("live-model", "live-transformer"):  # a notebook runs no scripts
            return OPTION.sub("", body).strip()
        if directive == "widget":
            return widget.in_notebook(body)
        if directive == "transformer-map":
            caption = references.numbered(OPTION.sub("", body), options.get("name"))
            return transformer_map.as_markdown(options, caption)
        wanted = {name: options[name] for name in ("pyobject", "lines") if name in options}
        reader = LiteralIncludeReader(str(page.parent / argument), wanted, app.config)
        try:
            code, _ = reader.read()
        except (OSError, ValueError):  # Sphinx has warned of it where the page was read
            return match[0]
        if "dedent" in options:
            code = textwrap.dedent(code)
        return f"```{options.get('language', 'python')}\n{code.rstrip()}\n```"

    def unbox(match: re.Match[str]) -> str:
        _, directive, title, body = match.groups()
        body = OPTION.sub("", body).strip()
        if directive == "dropdown":
            title = CODE.sub(r"<code>\1</code>", title)  # inside HTML, Markdown is not read
            return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        return f"**{title or directive.capitalize()}**\n\n{body}"

    def number(match: re.Match[str]) -> str:
        return f"\\tag{{{references.role('eq', match[1]).strip('()')}}}\n$$"

    text = BOX.sub(unbox, FENCE.sub(spell_out, LABEL.sub("", text)))
    text = LINK.sub(lambda match: references.link(match[1], match[2], match[3] or ""), text)
    return ROLE.sub(lambda match: references.role(*match.groups()), EQUATION.sub(number, text))


def with_outputs(source: Path, app: Sphinx) -> nbformat.NotebookNode:
    """Return the notebook that MyST-NB wrote of a page, with the outputs of its execution."""
    notebook = nbformat.read(source, as_version=4)
    config = app.env.mystnb_config
    if config.execution_mode == "cache":
        _, executed = get_cache(config.execution_cache_path).merge_match_into_notebook(notebook)
        for cell, ran in zip(notebook.cells, executed.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
    return notebook


def as_notebook(source: Path, app: Sphinx, page: str) -> nbformat.NotebookNode:
    """Return an executed page as a notebook that needs no more than the package."""
    notebook = with_outputs(source, app)
    notebook.metadata.pop("source_map", None)
    references = References(app, page)
    place = Path(app.env.doc2path(page))

    def plain(text: str) -> str:
        return plain_markdown(text, place, app, references)

    book = references.linked(app.config.html_title, app.builder.get_target_uri(page))
    needed = f"*A page of {book}. It needs the Python package `attentively`, version "
    cells = [new_markdown_cell(f"{needed}{version('attentively')}.*", id="package")]
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)
            continue
        if "hide-input" in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True}
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        if "caption" in figure:
            caption = references.numbered(plain(figure["caption"]), figure.get("name"))
            cells.append(new_markdown_cell(f"*{caption}*", id=f"caption-{len(cells)}"))
    if references.cited:
        listed = f"## References\n\n{references.bibliography()}"
        cells.append(new_markdown_cell(listed, id="references"))
    notebook.cells = cells
    return notebook


def add_notebook(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Write the page's notebook into the site and add a button for it."""
    source = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if "kernelspec" not in app.env.metadata.get(page, {}) or not source.exists():
        return
    target = Path(app.outdir) / "_sources" / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(as_notebook(source, app, page), target)
    context["header_buttons"].insert(
        0,
        {
            "type": "link",
            "url": f"{context['pathto']('_sources', 1)}/{page}.ipynb",
            "text": "Open as notebook",
            "tooltip": "Download this page as a Jupyter notebook",
            "icon": "fas fa-code",
            "label": "open-as-notebook",
        },
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx, after the theme has begun its list of buttons."""
    app.connect("html-page-context", add_notebook, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
