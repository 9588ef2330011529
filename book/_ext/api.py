"""Small corrections to the API pages: say nothing that is only Python's own machinery."""

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

LONGEST_VALUE = 150
"""Characters."""


def skip_machinery(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out named tuples' fields that nobody described; else let Sphinx decide."""
    return True if str(getattr(member, "__doc__", "")).startswith("Alias for field") else None


def readable_signature(
    app: Sphinx, what: str, name: str, member: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """Leave out arguments that say nothing, and what is no expression in the others."""
    if what == "class" and signature in ("(*args, **kwargs)", "(*args: Any, **kwargs: Any)"):
        return "", returns
    if signature and "<factory>" in signature:
        return signature.replace("<factory>", "..."), returns
    return None


def leave_out_long_values(app: Sphinx, doctree: nodes.document) -> None:
    """Show the value of a constant only where it fits its line; a catalogue does not."""
    for annotation in list(doctree.findall(addnodes.desc_annotation)):
        text = annotation.astext().lstrip()
        if text.startswith("=") and len(text) > LONGEST_VALUE:
            annotation.parent.remove(annotation)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", skip_machinery)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("doctree-read", leave_out_long_values)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
