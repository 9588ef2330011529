"""Links to the previous and the next page say which question that chapter answers.

The questions stand in the table of chapters in `book/index.md` and nowhere else.
"""

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

ROW = re.compile(r"^\| *\d\d *\| *\[[^]]+\]\((?P<page>\w+)\.md\) *\| *(?P<question>[^|?]+\?)", re.M)
"""A row of the table: number, link to the chapter, question and perhaps more."""


def read_questions(text: str) -> dict[str, str]:
    """Return the question of each chapter, by the name of its page."""
    return {row["page"]: row["question"] for row in ROW.finditer(text)}


def add_questions(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], document: nodes.document
) -> None:
    """Add the questions to the titles that the theme shows in both links."""
    if document is None:
        return
    home = Path(app.srcdir) / f"{app.config.root_doc}.md"
    questions = read_questions(home.read_text(encoding="utf-8")) if home.is_file() else {}
    for side in ("prev", "next"):
        neighbour = context.get(side)
        question = neighbour and questions.get(Path(neighbour["link"]).stem)
        if question:
            said = f'<span class="chapter-question">{html.escape(question)}</span>'
            context[f"{side}_title"] = f"{neighbour['title']} {said}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("html-page-context", add_questions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
