"""Give each executed page as a Jupyter notebook, outputs included: "Open as notebook".

MyST-NB already writes the notebook that it executed. Here it is copied into the site, with what a
notebook cannot show replaced by what it stands for: included code, equations, quizzes, maps, boxes,
roles. Labels, which only a book links to, go.
"""

import re
from pathlib import Path
from typing import Any

import nbformat
import quiz
import transformer_map
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.directives.code import LiteralIncludeReader

FENCE = re.compile(
    r"^(`{3,}|:{3,})\{(literalinclude|math|quiz|transformer-map)\} *(.*?)\n(.*?)^\1 *$", re.M | re.S
)
BOX = re.compile(r"^(:{3,})\{(admonition|dropdown)\} *(.*?)\n(.*?)^\1 *$", re.M | re.S)
OPTION = re.compile(r"^:([\w-]+): *(.*)\n", re.M)
LABEL = re.compile(r"^\([a-z0-9-]+\)=\n", re.M)
CODE = re.compile(r"`([^`\n]+)`")
ROLE = re.compile(r"\{[a-z][a-z:]*\}(`[^`\n]+`)")


def plain_markdown(text: str, page: Path, app: Sphinx) -> str:
    """Return the Markdown of a cell with what a notebook cannot show spelled out."""

    def spell_out(match: re.Match[str]) -> str:
        _, directive, argument, body = match.groups()
        if directive == "quiz":
            return quiz.as_markdown(body)
        if directive == "math":
            return f"$$\n{OPTION.sub('', argument + body).strip()}\n$$"
        options = dict(OPTION.findall(body))
        if directive == "transformer-map":
            return transformer_map.as_markdown(options, OPTION.sub("", body).strip())
        wanted = {name: options[name] for name in ("pyobject", "lines") if name in options}
        reader = LiteralIncludeReader(str(page.parent / argument), wanted, app.config)
        try:
            code, _ = reader.read()
        except (OSError, ValueError):  # Sphinx has warned of it where the page was read
            return match[0]
        return f"```{options.get('language', 'python')}\n{code.rstrip()}\n```"

    def unbox(match: re.Match[str]) -> str:
        _, directive, title, body = match.groups()
        body = OPTION.sub("", body).strip()
        if directive == "dropdown":
            title = CODE.sub(r"<code>\1</code>", title)  # inside HTML, Markdown is not read
            return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
        return f"**{title}**\n\n{body}"

    return ROLE.sub(r"\1", BOX.sub(unbox, FENCE.sub(spell_out, LABEL.sub("", text))))


def add_notebook(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Copy the page's executed notebook into the site and add a button for it."""
    source = Path(app.outdir).parent / "jupyter_execute" / f"{page}.ipynb"
    if "kernelspec" not in app.env.metadata.get(page, {}) or not source.exists():
        return
    notebook = nbformat.read(source, as_version=4)
    notebook.metadata.pop("source_map", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = plain_markdown(cell.source, Path(app.env.doc2path(page)), app)
    target = Path(app.outdir) / "_sources" / f"{page}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
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
