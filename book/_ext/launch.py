"""Buttons that open a chapter or its exercise in Google Colab or Binder.

They appear where ``repository.url`` in `_config.yml` is the address of a GitHub repository. Colab
opens the notebooks of the branch ``colab``, which `tools/make_colab.py` writes; Binder builds the
environment of the folder ``.binder`` and opens the exercise.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

COLAB = "https://colab.research.google.com/github"
BINDER = "https://mybinder.org/v2/gh"


def links(repository: str, branch: str, name: str, exercise: bool) -> dict[str, str]:
    """Return the text and the address of each button of a chapter."""
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", repository)
    if not match:
        return {}
    found = {"Chapter in Colab": f"{COLAB}/{match[1]}/blob/colab/book/{name}.ipynb"}
    if exercise:
        notebook = f"work/{name}/{name}.ipynb"
        found["Exercise in Colab"] = f"{COLAB}/{match[1]}/blob/colab/exercises/{name}.ipynb"
        found["Exercise in Binder"] = f"{BINDER}/{match[1]}/{branch}?urlpath=lab/tree/{notebook}"
    return found


def add_buttons(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Add the buttons to a chapter's page."""
    name = Path(page).name
    if not re.match(r"\d\d_", name):
        return
    options = app.config.html_theme_options
    exercise = (Path(app.srcdir) / "exercises" / name).is_dir()
    found = links(
        options.get("repository_url") or "",
        options.get("repository_branch") or "main",
        name,
        exercise,
    )
    buttons = [
        {"type": "link", "url": url, "text": text, "tooltip": text, "icon": "fas fa-rocket"}
        for text, url in found.items()
    ]
    if buttons:
        context["header_buttons"].append(
            {
                "type": "group",
                "tooltip": "Open in a browser",
                "icon": "fas fa-rocket",
                "buttons": buttons,
                "label": "launch-buttons",
            }
        )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx, after the theme has begun its list of buttons."""
    app.connect("html-page-context", add_buttons, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
