r"""The `widget` directive: an idea of the chapter as a small interactive picture.

In a page::

    ```{widget} temperature
    Double $d_k$ and watch the largest weight: without the division it approaches 1.

    | $d_k$ | largest weight |
    | ----- | -------------- |
    | 8     | 0.62           |
    ```

The argument names a script, `_static/widgets/NAME.js`, which computes and draws in the page;
`common.js` gives it the controls and the axes. The first paragraph of the content says what to try;
it is not shown where scripts do not run. The rest is the static version: it stands in place of the
widget where scripts do not run (and in the downloaded notebook), and can be opened below the widget
where they do. The scripts are loaded only by pages with a widget.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

FOLDER = Path(__file__).parents[1] / "_static" / "widgets"
COMMON = "common.js"


def known() -> list[str]:
    """Return the names of the widgets."""
    return sorted(path.stem for path in FOLDER.glob("*.js") if path.name != COMMON)


class widget_node(nodes.General, nodes.Element):
    """The element in which the script builds: first what to try, then the static version."""


class trial_node(nodes.General, nodes.Element):
    """What to try."""


class static_node(nodes.General, nodes.Element):
    """The static version."""


class Widget(SphinxDirective):
    """Put a widget into the page."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the node; an unknown name or a missing static version is an error of the page."""
        name = self.arguments[0]
        if name not in known():
            raise self.error(f"there is no widget {name!r}; the widgets are {', '.join(known())}")
        content = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, content)
        trial, *static = content.children or [None]
        if not isinstance(trial, nodes.paragraph) or not static:
            raise self.error(
                f"the content of the widget {name!r} must be a paragraph that says what to try, "
                "and then the static version: a table, or a link to a figure"
            )
        names = self.env.metadata[self.env.docname].get("widgets", "").split()
        if name in names:
            raise self.error(f"the page already has the widget {name!r}")
        self.env.metadata[self.env.docname]["widgets"] = " ".join([*names, name])
        return [widget_node("", trial_node("", trial), static_node("", *static), widget=name)]


NOTE = "*The page of the book has a widget here, and this is its static version.*"
"""What a notebook says above the static version."""


def without_script(body: str) -> str:
    """Return the static version from the source of the directive's content."""
    return body.strip().partition("\n\n")[2].strip()


def in_notebook(body: str) -> str:
    """Return what a notebook shows in place of the widget."""
    return f"{NOTE}\n\n{without_script(body)}"


def opening(name: str) -> str:
    """Return the start of the element that the script of this widget looks for."""
    return f'<div class="widget" data-widget="{name}">\n'


TRIAL, STATIC = '<div class="widget-trial">\n', '<div class="widget-static">\n'


def visit_widget(self: HTML5Translator, node: widget_node) -> None:
    """Write the start of the element."""
    self.body.append(opening(node["widget"]))


def visit_trial(self: HTML5Translator, node: trial_node) -> None:
    """Write the start of what to try."""
    self.body.append(TRIAL)


def visit_static(self: HTML5Translator, node: static_node) -> None:
    """Write the start of the static version."""
    self.body.append(STATIC)


def depart(self: HTML5Translator, node: nodes.Element) -> None:
    """Close the element."""
    self.body.append("</div>\n")


def add_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give a page the scripts of its widgets, and their style, and nothing to other pages."""
    names = app.env.metadata.get(pagename, {}).get("widgets", "").split()
    if doctree is None or not names:
        return
    app.add_css_file("widgets/widgets.css")
    for script in (COMMON, *(f"{name}.js" for name in names)):
        app.add_js_file(f"widgets/{script}", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(widget_node, html=(visit_widget, depart))
    app.add_node(trial_node, html=(visit_trial, depart))
    app.add_node(static_node, html=(visit_static, depart))
    app.add_directive("widget", Widget)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
