"""Make the outputs of students' code safe to display in a browser.

An output keeps only known kinds of content. HTML is parsed and reduced to allowed tags and
attributes by the library nh3. Markdown is rendered and reduced in the same way. An SVG drawing
becomes an image, in which no script runs. This applies to the recorded notebook, not only to
feedback, because Formgrader shows it in the instructor's session.
"""

import base64
import binascii
import html
import re
from collections.abc import Collection, Iterable, Mapping
from html.parser import HTMLParser
from itertools import islice
from typing import Any

import nh3
from mistune import HTMLRenderer
from nbconvert.filters.markdown_mistune import (
    InvalidNotebook,
    IPythonRenderer,
    MarkdownWithMath,
)
from pygments.token import STANDARD_TYPES  # type: ignore[import-untyped]

from attentively_grader.intake.submissions import without_surrogates

LONGEST_TEXT = 2**20
LONGEST_HTML = 2**18
LARGEST_PICTURE = 8 * 2**20
MOST_CONTENT = 24 * 2**20
"""Total size of the outputs of one cell."""
MOST_OUTPUTS = 1_000
"""Maximum number of outputs of one cell, including those that are not kept."""
LONGEST_MARKDOWN = 20_000
"""Maximum characters of Markdown that are rendered; a longer text is shown as plain text."""
MOST_TAGS = 20_000
DEEPEST = 100
"""Maximum depth of HTML; the time of cleaning is quadratic in it."""
VOID = {"br", "hr", "img", "col"}
TEXT_TAGS = {"a", "abbr", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "samp"}
TEXT_TAGS |= {"small", "span", "strong", "sub", "sup", "tt", "u", "var"}
BLOCK_TAGS = {"blockquote", "center", "dd", "details", "div", "dl", "dt", "figcaption", "figure"}
BLOCK_TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p", "pre", "summary", "ul"}
TABLE_TAGS = {"caption", "colgroup", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
TAGS = VOID | TEXT_TAGS | BLOCK_TAGS | TABLE_TAGS
SILENT = {"iframe", "math", "noscript", "script", "style", "svg", "template", "textarea", "title"}
SILENT |= {"noembed", "noframes", "select", "xmp"}
"""Tags whose content is removed too."""
ATTRIBUTES = {"align", "alt", "border", "colspan", "height", "open", "rowspan", "scope", "start"}
ATTRIBUTES |= {"style", "title", "width"}
STYLES = {"color", "font-style", "font-weight", "text-align"}
CLASSES = {"*": {"dataframe", "highlight"}, "span": {*STANDARD_TYPES.values()} - {""}}
"""Classes of pandas and of syntax highlighting, not those of the page itself."""
PICTURE = re.compile(r"data:image/(png|jpeg|gif|svg\+xml);base64,[A-Za-z0-9+/=\s]*")
NUMBERED = re.compile(r"&#[0-9]{1000,}+;?")
"""A numeric character reference that is too long for Python to parse."""
PAGE_IDS = frozenset({"notebook", "notebook-container", "statusmessage"})
"""Ids of Formgrader's own page."""


def clean_html(source: str) -> str:
    """Return HTML reduced to the allowed tags and attributes, without controls of the page."""
    if source.count("<") > MOST_TAGS or _Tags(source).depth > DEEPEST:
        return _as_text(source)
    clean = nh3.clean(
        source,
        tags=TAGS,
        clean_content_tags=SILENT,
        attributes={"*": ATTRIBUTES, "a": {"href"}, "img": {"src"}},
        attribute_filter=_attribute,
        allowed_classes={tag: CLASSES["*"] | CLASSES.get(tag, set()) for tag in TAGS},
        filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
    )
    return re.sub(r"<pre>\n+", "<pre>", clean.replace("\r", "\n"))


def _attribute(tag: str, name: str, value: str) -> str | None:
    """Return an attribute's value, or None to remove it; only pictures may be data."""
    if name in ("href", "src") and re.match(r"[\x00-\x20]*d\s*a\s*t\s*a\s*:", value, re.IGNORECASE):
        return value if tag == "img" and PICTURE.fullmatch(value) else None
    if name == "style" and ("\\" in value or "url" in value.lower()):
        return None
    return value


class _Tags(HTMLParser):
    """The tags, attributes and text of HTML, and an upper bound of its depth."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.seen: list[object] = []
        self.depth = 0
        self.silent = False
        self._opened: list[str] = []
        self.feed(NUMBERED.sub("\N{REPLACEMENT CHARACTER}", source))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {(name, _plain(name, value)) for name, value in attrs}
        self.seen.append((tag, known - {("class", "")}))
        self.silent |= tag in SILENT
        if tag not in VOID:
            self._opened.append(tag)
            self.depth = max(self.depth, len(self._opened))

    def handle_endtag(self, tag: str) -> None:
        self.seen.append(tag)
        if self._opened and self._opened[-1] == tag:
            self._opened.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        if self.seen and isinstance(self.seen[-1], list):
            self.seen[-1].append(data)
        else:
            self.seen.append([data])

    def text(self) -> list[object]:
        """Return everything in order, with adjacent text joined."""
        return ["".join(each) if isinstance(each, list) else each for each in self.seen]


def _plain(name: str, value: str | None) -> str:
    value = value or ""
    if name == "style":
        return re.sub(r"\s|;$", "", value)
    # The language of a code block without a lexer.
    return "" if name == "class" and value.startswith("language-") else value


class _Renderer(IPythonRenderer):
    """Formgrader's renderer of Markdown; notes what is more than plain Markdown."""

    def __init__(self, attachments: Mapping[str, Any]) -> None:
        super().__init__(escape=False, attachments=dict(attachments))
        self.active = False
        self.ids: set[str] = set()

    def block_html(self, html: str) -> str:
        self.active = True
        return super().block_html(html)

    def inline_html(self, html: str) -> str:
        self.active = True
        return super().inline_html(html)

    def block_mermaidjs(self, code: str) -> str:
        self.active = True  # a script draws it
        return f"<pre>{html.escape(code)}</pre>"

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        anchored = super().heading(text, level, **attrs)
        self.ids.update(html.unescape(each) for each in re.findall(r' id="([^"]*)"', anchored))
        return HTMLRenderer.heading(self, text, level)

    def task_list_item(self, text: str, checked: bool = False) -> str:
        return f"<li>{'☑' if checked else '☐'} {text}</li>\n"

    def _embed_image_or_attachment(self, src: str) -> str:
        try:
            return super()._embed_image_or_attachment(src)
        except (InvalidNotebook, StopIteration):  # Formgrader would show no page at all
            self.active = True
            return ""


def markdown(
    source: str, attachments: Mapping[str, Any] | None = None, reserved: Collection[str] = ()
) -> str:
    """Return a student's Markdown in a form that is inert where Formgrader renders it.

    Plain Markdown is returned unchanged. Otherwise the result is one block of clean HTML, which has
    the same look. `reserved` are the ids of the page, which no heading may have.
    """
    if len(source) > LONGEST_MARKDOWN:
        return plain_block(source)
    renderer = _Renderer(attachments or {})
    try:
        page = _rendered(source, renderer)
        clean = clean_html(page)
    except (ValueError, RecursionError):
        return plain_block(source)
    found = _Tags(page)
    if found.silent:
        return plain_block(source)  # the reader would miss what is removed with these tags
    taken = renderer.ids & {*reserved, *PAGE_IDS}
    if not renderer.active and not taken and found.text() == _Tags(clean).text():
        return source
    return _block(clean)


def _rendered(source: str, renderer: IPythonRenderer) -> str:
    return MarkdownWithMath(renderer=renderer).render(source)


def _block(clean: str) -> str:
    """Return clean HTML as one line, which Markdown leaves as it is."""
    line = clean.strip().replace("\r", "\n").replace("\n", "&#10;")
    return line if line.startswith("<div>") else f"<div>{line}</div>"


def _as_text(source: str) -> str:
    return f"<pre>{html.escape(source, quote=False)}</pre>"


def plain_block(source: str) -> str:
    """Return text as Markdown that shows it as it is."""
    return _block(_as_text(source))


def raw(source: str) -> str:
    """Return the text of a raw cell; Formgrader would show it as HTML."""
    return source.replace("<", "&lt;")


def outputs(
    shown: Iterable[Mapping[str, Any]], reserved: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return the outputs of a cell in nbformat, without active content.

    `reserved` are the ids of the page, which no heading in an output may have.
    """
    kept: list[dict[str, Any]] = []
    size = 0
    for number, output in enumerate(islice(shown, MOST_OUTPUTS + 1)):
        if number == MOST_OUTPUTS:
            said = f"... further outputs are not shown, because there are over {MOST_OUTPUTS} ...\n"
            return [*kept, {"output_type": "stream", "name": "stdout", "text": said}]
        harmless = _output(output, reserved)
        if harmless is None:
            continue
        size += _size(harmless)
        if size > MOST_CONTENT:
            said = "... further outputs are not shown, because they are too large ...\n"
            return [*kept, {"output_type": "stream", "name": "stdout", "text": said}]
        kept.append(harmless)
    return kept


def _output(output: Mapping[str, Any], reserved: Collection[str]) -> dict[str, Any] | None:
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return {"output_type": kind, "name": name, "text": text(output.get("text"))}
    if kind == "error":
        lines = output.get("traceback")
        return {
            "output_type": kind,
            "ename": text(output.get("ename"), 200),
            "evalue": text(output.get("evalue")),
            "traceback": [text(line) for line in lines[:1000]] if isinstance(lines, list) else [],
        }
    if kind in ("display_data", "execute_result"):
        data = _data(output.get("data"), reserved)
        if data:
            harmless: dict[str, Any] = {"output_type": kind, "data": data, "metadata": {}}
            return harmless | ({"execution_count": None} if kind == "execute_result" else {})
    return None


def text(value: object, most: int = LONGEST_TEXT) -> str:
    """Return valid, displayable text, truncated to `most` characters."""
    if isinstance(value, list):
        value = "".join(each for each in value if isinstance(each, str))
    clean = without_surrogates(value if isinstance(value, str) else str(value)[:most])
    clean = clean.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return clean if len(clean) <= most else f"{clean[:most]}\n... truncated here ..."


def _data(data: object, reserved: Collection[str]) -> dict[str, str]:
    """Return the safe contents of an output by MIME type."""
    if not isinstance(data, Mapping):
        return {}
    kept: dict[str, str] = {}
    if "text/plain" in data:
        kept["text/plain"] = text(data["text/plain"])
    page, drawing = text(data.get("text/html", "")), data.get("image/svg+xml")
    if page and len(page) <= LONGEST_HTML:
        kept["text/html"] = clean_html(page)
    elif drawing:
        kept["text/html"] = _drawing(text(drawing, LARGEST_PICTURE))
    if "text/markdown" in data:
        kept["text/markdown"] = markdown(
            text(data["text/markdown"], LONGEST_HTML), reserved=reserved
        )
    if "text/latex" in data:
        latex = text(data["text/latex"])
        kept["text/latex"] = latex.replace("<", r"\lt ").replace(">", r"\gt ")
    for kind in ("image/png", "image/jpeg"):
        picture = _picture(data.get(kind))
        if picture:
            kept[kind] = picture
    return kept


def _picture(data: object) -> str | None:
    if not isinstance(data, str) or len(data) > LARGEST_PICTURE:
        return None
    try:
        base64.b64decode("".join(data.split()), validate=True)
    except (ValueError, binascii.Error):
        return None
    return data


def _drawing(svg: str) -> str:
    encoded = base64.b64encode(svg.encode()).decode()
    return f'<img alt="a drawing" src="data:image/svg+xml;base64,{encoded}">'


def _size(output: Mapping[str, Any]) -> int:
    data = output.get("data", {})
    lines = output.get("traceback", [])
    return len(output.get("text", "")) + sum(map(len, data.values())) + sum(map(len, lines))
