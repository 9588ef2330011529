"""Reading progress, kept in the reader's browser: `_static/reading.js` does the work.

The directive `continue-reading` marks where on the front page a reader who returns finds
the link to the last section, and the button that forgets the progress. It is empty and hidden until
there is progress, so nothing appears without scripts.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class ContinueReading(SphinxDirective):
    """An empty element for the script."""

    def run(self) -> list[nodes.Node]:
        """Return the element."""
        return [nodes.raw("", '<div class="continue-reading" hidden></div>', format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("continue-reading", ContinueReading)
    app.add_js_file("reading.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
