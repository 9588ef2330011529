"""Say under each entry of the bibliography what the work is for, and link the pages that cite it.

The sentence is the field `annotation` of the entry in references.bib. The pages are those whose
citations Sphinx has read, in the order of the book; a link leads to the first citation on the page.
Both are added to the bibliography page only: citations, their tooltips and the references of
downloaded notebooks show the entry without them.
"""

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from pybtex.plugin import find_plugin
from pybtex.richtext import Text
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinxcontrib.bibtex.domain import get_docnames
from transformer_map import chapter_of


def first_citations(env: BuildEnvironment) -> dict[str, dict[str, str]]:
    """Return for each key the pages that cite it, in order, with the id of the first citation."""
    order = {page: position for position, page in enumerate(get_docnames(env))}
    found: dict[str, dict[str, str]] = {}
    for citation in sorted(
        env.get_domain("cite").citation_refs, key=lambda each: order[each.docname]
    ):
        for target in citation.targets:
            pages = found.setdefault(target.key, {})
            pages.setdefault(citation.docname, citation.citation_ref_id)
    return found


class Annotate(SphinxPostTransform):
    """Add the annotation and the links to each entry of a bibliography on a page."""

    default_priority = 6  # entries are made at 5
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Annotate the entries of one page."""
        citations = {
            citation.citation_id: citation
            for citation in self.env.get_domain("cite").citations
            if citation.bibliography_key.docname == self.env.docname
        }
        if not citations:
            return
        backend = find_plugin("pybtex.backends", "docutils")()
        pages = first_citations(self.env)
        for node in self.document.findall(nodes.citation):
            citation = citations[node["ids"][0]]
            if annotation := citation.entry.fields.get("annotation"):
                words = Text.from_latex(annotation).render(backend)
                node += nodes.paragraph("", "", *words, classes=["annotation"])
            if citation.key in pages:
                links = list(self.links(pages[citation.key]))
                node += nodes.paragraph("", "", *links, classes=["cited-in"])

    def links(self, pages: dict[str, str]) -> Iterator[nodes.Node]:
        """Yield the words "Cited in" and a link to each page."""
        yield nodes.Text("Cited in ")
        for position, (page, anchor) in enumerate(pages.items()):
            if position:
                yield nodes.Text(", ")
            title = self.env.titles[page].astext()
            chapter = chapter_of(page)
            words = title if chapter is None else f"{chapter:02}"
            uri = f"{self.app.builder.get_relative_uri(self.env.docname, page)}#{anchor}"
            yield nodes.reference("", words, refuri=uri, reftitle=title, internal=True)
        yield nodes.Text(".")


def outdated(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages with a bibliography: a change on any page can change their links."""
    return sorted({key.docname for key in env.get_domain("cite").bibliographies})


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(Annotate)
    app.connect("env-updated", outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
