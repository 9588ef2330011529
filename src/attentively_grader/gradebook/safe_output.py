"""Make the outputs of students' code safe to display in a browser.

An output keeps only known kinds of content. HTML is parsed and rebuilt from an allow list of tags
and attributes. An SVG drawing becomes an image, in which no script runs. This applies to the
recorded notebook, not only to feedback, because Formgrader shows it in the instructor's session.
"""

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attentively_grader.intake.submissions import without_surrogates

LONGEST_TEXT = 2**20
LONGEST_HTML = 2**18
LARGEST_PICTURE = 8 * 2**20
MOST_CONTENT = 24 * 2**20
"""Total size of the outputs of one cell."""
VOID = {"br", "hr", "img", "col"}
TEXT_TAGS = {"a", "abbr", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "samp"}
TEXT_TAGS |= {"small", "span", "strong", "sub", "sup", "tt", "u", "var"}
BLOCK_TAGS = {"blockquote", "center", "dd", "details", "div", "dl", "dt", "figcaption", "figure"}
BLOCK_TAGS |= {"h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p", "pre", "summary", "ul"}
TABLE_TAGS = {"caption", "colgroup", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
TAGS = VOID | TEXT_TAGS | BLOCK_TAGS | TABLE_TAGS
SILENT = {"script", "style", "title", "iframe", "noscript", "template", "xmp", "textarea"}
"""Tags whose content is removed too."""
DEEPEST = 100
ATTRIBUTES = {"align", "alt", "border", "colspan", "height", "open", "rowspan", "scope", "start"}
ATTRIBUTES |= {"title", "width"}
LONGEST_ATTRIBUTES = 10_000
# *+ avoids backtracking: an unclosed tag is scanned once, not at every length.
TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*+)([^<>]*+)>")
ATTRIBUTE = re.compile(r"([a-zA-Z][-\w]*+)(?:\s*+=\s*+(\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?")
NUMBERED = re.compile(r"&#[0-9]{1000,}+;?")
"""A numeric character reference that is too long for Python to parse."""
CLASS = re.compile(r"dataframe|highlight|rendered_html|[a-z]{1,2}[0-9a-z]?")
"""Classes of pandas and of syntax highlighting, not those of the page itself."""
STYLE = re.compile(r"(color|font-weight|font-style|text-align):\s*[#\w.%]+")
LINK = re.compile(r"https?://|mailto:|#", re.IGNORECASE)
PICTURE = re.compile(r"data:image/(png|jpeg|gif|svg\+xml);base64,[A-Za-z0-9+/=\s]*|https?://.*")
ACTIVE = re.compile(
    r"</?(script|iframe|frame|frameset|object|embed|applet|form|input|button|textarea|select|svg"
    r"|math|style|link|meta|base|template|video|audio|portal|dialog|noscript|xmp|plaintext|body"
    r"|html|head|marquee)\b|<[!?]|&#[0-9]{1000}|[\s/\"']on[a-z]{3,}\s*="
    r"|(javascript|vbscript)\s*:|data\s*:\s*(text|application)/",
    re.IGNORECASE,
)
UNSEEN = re.compile(r"[\x00-\x1f]+")
"""Characters that a browser ignores in a URL, also inside ``javascript:``."""
OPENED = re.compile(r"<[a-zA-Z]")
MOVED = re.compile(
    r"[\s/\"'](ping|srcset|formaction|background)\s*+=|[\s/\"']style\s*+="
    r"(?!\s*+[\"']?+(\s*+(color|font-weight|font-style|text-align)\s*+:\s*+[#\w.%]++\s*+;?+)*+"
    r"\s*+[\"'>])",
    re.IGNORECASE,
)
"""Attributes that send data or cover other elements: all styles but those of text."""


def clean_html(source: str) -> str:
    """Return HTML without scripts, loaded pages and elements that cover others.

    A tag that is not in the allow list becomes text. The time is linear in the length.
    """
    written: list[str] = []
    opened: list[str] = []
    silent: str | None = None
    end = 0
    source = _without_comments(source)
    for found in TAG.finditer(source):
        if silent is None:
            written.append(_escaped(source[end : found.start()]))
        end = found.end()
        closes, tag = bool(found[1]), found[2].lower()
        if silent is not None:
            silent = None if closes and tag == silent else silent
        elif tag in SILENT:
            silent = None if closes else tag
        elif closes and tag in opened:
            while (last := opened.pop()) != tag:
                written.append(f"</{last}>")
            written.append(f"</{tag}>")
        elif not closes and tag in TAGS and len(opened) < DEEPEST:
            written.append(f"<{tag}{''.join(_attributes(tag, found[3]))}>")
            if tag not in VOID:
                opened.append(tag)
    if silent is None:
        written.append(_escaped(source[end:]))
    return "".join([*written, *(f"</{tag}>" for tag in reversed(opened))])


def _escaped(text: str) -> str:
    return html.escape(_unescaped(text), quote=False)


def _unescaped(text: str) -> str:
    return html.unescape(NUMBERED.sub("\N{REPLACEMENT CHARACTER}", text))


def _without_comments(source: str) -> str:
    kept: list[str] = []
    end = 0
    while (start := source.find("<!--", end)) >= 0:
        kept.append(source[end:start])
        end = source.find("-->", start)
        if end < 0:
            return "".join(kept)
        end += len("-->")
    return "".join([*kept, source[end:]])


def _attributes(tag: str, given: str) -> Iterator[str]:
    """Yield the allowed attributes, rewritten."""
    if len(given) > LONGEST_ATTRIBUTES and tag != "img":
        return
    seen: set[str] = set()
    for found in ATTRIBUTE.finditer(given):
        name = found[1].lower()
        value = _unescaped((found[2] or "").strip("\"'")).strip()
        if name not in seen and _allowed(tag, name, value):
            seen.add(name)
            yield f' {name}="{html.escape(value)}"'


def _allowed(tag: str, name: str, value: str) -> bool:
    if name == "href":
        return tag == "a" and bool(LINK.match(value))
    if name == "src":
        return tag == "img" and bool(PICTURE.fullmatch(value))
    if name == "class":
        return all(CLASS.fullmatch(each) for each in value.split())
    if name == "style":
        return all(STYLE.fullmatch(each.strip()) for each in value.split(";") if each.strip())
    return name in ATTRIBUTES


def markdown(source: str) -> str:
    """Return a student's Markdown; text with active HTML becomes a code block."""
    if not any(map(_acts, (source, _unescaped(source), UNSEEN.sub("", _unescaped(source))))):
        return source
    longest = max((len(run) for run in re.findall(r"~+", source)), default=0)
    fence = "~" * max(3, longest + 1)
    note = "*This text contains active HTML, so its source is shown:*"
    return f"{note}\n\n{fence}text\n{source}\n{fence}"


def _acts(source: str) -> bool:
    return bool(ACTIVE.search(source) or (OPENED.search(source) and MOVED.search(source)))


def outputs(shown: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs of a cell in nbformat, without active content."""
    kept: list[dict[str, Any]] = []
    size = 0
    for output in shown:
        harmless = _output(output)
        if harmless is None:
            continue
        size += _size(harmless)
        if size > MOST_CONTENT:
            said = "... further outputs are not shown, because they are too large ...\n"
            return [*kept, {"output_type": "stream", "name": "stdout", "text": said}]
        kept.append(harmless)
    return kept


def _output(output: Mapping[str, Any]) -> dict[str, Any] | None:
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
        data = _data(output.get("data"))
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


def _data(data: object) -> dict[str, str]:
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
        kept["text/markdown"] = markdown(text(data["text/markdown"], LONGEST_HTML))
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
