"""The API pages: no word on Python's own machinery, and for each folder what its modules are."""

import re
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


def add_overviews(app: Sphinx, doctree: nodes.document) -> None:
    """Put before the modules of a folder, and before the folders, a list of what each is for."""
    for section in list(doctree.findall(nodes.section)):
        modules = [
            part
            for part in section.children
            if isinstance(part, nodes.section) and (_is_module(part) and _first_line(part))
        ]
        if len(modules) < 2:
            continue
        overview = nodes.bullet_list(classes=["api-overview"])
        for module in modules:
            name, line = module.next_node(nodes.title).astext(), _first_line(module)
            label = (
                nodes.Text(name) if " " in name else nodes.literal("", name)
            )  # a folder's, or code
            link = nodes.reference("", "", label, refid=module["ids"][0])
            entry = nodes.paragraph("", "", link, nodes.Text(f" · {line}"))
            overview += nodes.list_item("", entry)
        section.insert(section.index(modules[0]), overview)


def _is_module(section: nodes.section) -> bool:
    targets = section.findall(lambda node: isinstance(node, nodes.Element) and "ids" in node)
    return any(name.startswith("module-") for node in targets for name in node["ids"])


def _first_line(section: nodes.section) -> str:
    """Return the first sentence of the first paragraph."""
    paragraph = section.next_node(nodes.paragraph)
    said = " ".join(paragraph.astext().split()) if paragraph else ""
    return re.split(r"(?<=\.) ", said)[0].rstrip(".")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", skip_machinery)
    app.connect("autodoc-process-signature", readable_signature)
    app.connect("doctree-read", leave_out_long_values)
    app.connect("doctree-read", add_overviews)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
