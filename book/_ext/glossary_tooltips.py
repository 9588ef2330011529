"""Link the first occurrence of each glossary term in a chapter to its definition.

The terms and their definitions are those of the glossary page. In each
chapter, the first occurrence of a term becomes a link to its entry, with the definition as a
tooltip. Tooltips are Bootstrap's, which the theme loads on every page from the site itself;
`_static/glossary.js` adds what they lack on touch screens and for the Escape key. Without scripts,
the link and its title remain.

Only running text is marked: no headings, captions, links, code, equations, table headers or
options of a quiz. Words are matched whole, the longest term first, in the forms that `forms_of`
lists.
"""

import itertools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from transformer_map import chapter_of

OTHER_FORMS = {
    "autoregressive": ["auto-regressive"],
    "axis": ["axes"],
    "contextual": ["contextualised"],
    "epoch": ["epochs"],
    "extrapolation": ["extrapolate", "extrapolates"],
    "fine-tuning": ["fine-tune", "fine-tuned"],
    "generalise": ["generalisation", "generalised", "generalising"],
    "initialisation": ["initialise", "initialised", "initialises"],
    "logits": ["logit"],
    "memorise": ["memorised", "memorising", "memorisation"],
    "minimal pairs": ["minimal pair"],
    "optimiser": ["optimizer", "optimizers"],
    "nats": ["nat"],
    "overfitting": ["overfit", "overfits"],
    "permutation equivariant": ["permutation equivariance"],
    "pre-training": ["pre-trained"],
    "regularise": ["regularisation", "regularised"],
    "saturation": ["saturated", "saturates"],
    "sequential operations": ["sequential operation"],
    "sequence to sequence": ["sequence-to-sequence"],
    "tied embeddings": ["tied embedding"],
    "tokenizer": ["tokenise"],
    "unrolling": ["unroll", "unrolled"],
}
AMBIGUOUS = {
    *("bridge", "faithfulness", "frequency", "hypothesis", "merge", "parallel"),
    *("recall", "reference", "sampling", "score", "stack", "value"),
}
"""Terms with another meaning in the book, which their first occurrence may have. Not marked."""

NEVER_INSIDE = (nodes.reference, nodes.literal, nodes.math, nodes.thead, nodes.legend, nodes.raw)
LABEL = re.compile(r"(Symbol|Code|Also):")


class Term(NamedTuple):
    """An entry of the glossary."""

    name: str
    definition: str
    page: str
    anchor: str


class glossary_link(nodes.reference):
    """A word of the text that leads to its entry in the glossary."""


def forms_of(name: str) -> list[str]:
    """Return a term, its regular plural and its other listed forms."""
    if re.search(r"(s|x|ch|sh)$", name):
        plural = f"{name}es"
    elif re.search(r"[^aeiou]y$", name):
        plural = f"{name[:-1]}ies"
    else:
        plural = f"{name}s"
    return [name, plural, *OTHER_FORMS.get(name, [])]


def pattern_of(form: str) -> str:
    """Return a pattern for a form; a lower-case term may begin a sentence."""
    first, *rest = [re.escape(word) for word in form.split()]
    if form == form.lower():
        first = f"[{first[0]}{first[0].upper()}]{first[1:]}"
    return r"\s+".join([first, *rest])


def finder(names: list[str]) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return a pattern for all forms, the longest first, and the term of each form."""
    of = {form.lower(): name for name in names for form in forms_of(name)}
    forms = [form for name in names for form in forms_of(name)]
    longest_first = sorted(forms, key=len, reverse=True)
    anything = "|".join(pattern_of(form) for form in longest_first)
    return re.compile(rf"(?<![\w\-–])(?:{anything})(?![\w\-–])"), of


def definition_of(entry: nodes.definition_list_item) -> str:
    """Return the text before the first label, such as *Symbol:* or *Also:*, or the last link."""
    words = []
    for node in entry[-1][0].children:
        label = isinstance(node, nodes.emphasis) and LABEL.fullmatch(node.astext())
        if label or isinstance(node, (nodes.reference, addnodes.pending_xref)):
            break
        words.append(node.astext())
    return " ".join("".join(words).split())


def terms_of(env: BuildEnvironment) -> dict[str, Term]:
    """Return the terms of every glossary of the book."""
    pages = {
        page for (kind, _), (page, _) in env.get_domain("std").objects.items() if kind == "term"
    }
    found = {}
    for page in sorted(pages):
        for entry in env.get_doctree(page).findall(nodes.definition_list_item):
            for term in entry.findall(nodes.term):
                if any(anchor.startswith("term-") for anchor in term["ids"]):
                    name = term.astext()
                    found[name] = Term(name, definition_of(entry), page, term["ids"][0])
    return found


def join_lines(document: nodes.document) -> None:
    """Join neighbouring pieces of text: MyST makes one of each line."""
    for paragraph in document.findall(nodes.TextElement):
        groups = itertools.groupby(paragraph.children, lambda node: type(node) is nodes.Text)
        paragraph.children = [
            node
            for is_text, pieces in groups
            for node in ([nodes.Text("".join(pieces))] if is_text else pieces)
        ]
        for node in paragraph.children:
            node.parent = paragraph


def running_text(document: nodes.document) -> Iterator[nodes.Text]:
    """Yield the pieces of text in which terms may be marked."""
    for text in list(document.findall(nodes.Text)):
        above = list(parents(text))
        outputs = [node for node in above if "cell_output" in node.get("classes", ())]
        if (
            any(isinstance(node, nodes.paragraph) for node in above)
            and not any(isinstance(node, NEVER_INSIDE) for node in above)
            and not outputs
        ):
            yield text


def parents(node: nodes.Node) -> Iterator[nodes.Element]:
    """Yield everything that a node is inside of."""
    while (node := node.parent) is not None:
        yield node


class MarkTerms(SphinxPostTransform):
    """Replace the first occurrence of each term by a link to its entry."""

    default_priority = 500  # links are resolved then
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Mark the terms of one chapter."""
        if chapter_of(self.env.docname) is None:
            return
        terms = {name: term for name, term in terms_of(self.env).items() if name not in AMBIGUOUS}
        if not terms:
            return
        pattern, of = finder(list(terms))
        seen: set[str] = set()
        join_lines(self.document)
        for text in running_text(self.document):
            pieces: list[nodes.Node] = []
            end = 0
            for match in pattern.finditer(text):
                name = of[" ".join(match[0].lower().split())]
                if name in seen:
                    continue
                seen.add(name)
                pieces += [nodes.Text(text[end : match.start()]), self.link(match[0], terms[name])]
                end = match.end()
            if pieces:
                text.parent.replace(text, [*pieces, nodes.Text(text[end:])])

    def link(self, words: str, term: Term) -> glossary_link:
        """Return the words as a link."""
        page = self.app.builder.get_relative_uri(self.env.docname, term.page)
        return glossary_link(
            *("", words), refuri=f"{page}#{term.anchor}", definition=term.definition, internal=True
        )


def visit_link(self: HTML5Translator, node: glossary_link) -> None:
    """Open the link; the theme's script turns its title into a tooltip."""
    attributes = {
        "href": node["refuri"],
        "title": node["definition"],
        "data-bs-toggle": "tooltip",
        "data-bs-custom-class": "glossary-tooltip",
    }
    self.body.append(self.starttag(node, "a", "", CLASS="glossary-term", **attributes))


def depart_link(self: HTML5Translator, node: glossary_link) -> None:
    """Close the link."""
    self.body.append("</a>")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(glossary_link, html=(visit_link, depart_link))
    app.add_post_transform(MarkTerms)
    app.add_css_file("glossary.css")
    app.add_js_file("glossary.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
