"""Replace TeX in a rendered page by MathML, which browsers show without a script or a download.

The TeX may be a student's. Therefore its MathML is rebuilt from allowed elements and attributes,
and all text is escaped. A formula that cannot be converted stays as TeX.
"""

import html
import re
from functools import lru_cache
from xml.etree import ElementTree

try:
    from latex2mathml.converter import Converter
except ImportError:  # then pages show TeX
    Converter = None  # type: ignore[assignment,misc]

LONGEST = 2_000
"""Maximum characters of a formula; a longer one stays as TeX."""
ELEMENTS = {"math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mstyle", "mpadded"}
ELEMENTS |= {"mfrac", "msqrt", "mroot", "msub", "msup", "msubsup", "munder", "mover", "munderover"}
ELEMENTS |= {"mtable", "mtr", "mtd", "mphantom", "menclose", "mmultiscripts", "mprescripts", "none"}
ATTRIBUTES = {"accent", "accentunder", "columnalign", "columnspacing", "depth", "display"}
ATTRIBUTES |= {"displaystyle", "fence", "form", "height", "largeop", "linethickness", "lspace"}
ATTRIBUTES |= {"mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowspacing"}
ATTRIBUTES |= {"rspace", "scriptlevel", "separator", "stretchy", "symmetric", "width"}
VALUE = re.compile(r"[a-z-]+(?: [a-z-]+)*|[+-]?[0-9]?(?:\.[0-9]+)?(?:em|ex|pt|px)?")
"""A word, or a length below 10 units: a formula stays where it is."""
DEFINITION = re.compile(r"\\(?:(?:re)?new[a-z]+|provide[a-z]+|Declare[A-Za-z]+|def|let)\b")
"""Not converted, because a few definitions can expand to gigabytes."""

TOKEN = re.compile(
    r"<!--.*?-->|<(?P<verbatim>pre|code|script|style|textarea|title)\b.*?</(?P=verbatim)>"
    r"|<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*+>"
    r"|(?<!\\)\$\$(?P<block>[^<]+?)(?<!\\)\$\$"
    r"|(?<![\\$])\$(?P<inline>[^$<]+?)(?<!\\)\$(?!\$)"
    r"|(?P<environment>\\begin\{(?P<name>[a-z]+\*?)\}[^<]*?\\end\{(?P=name)\})",
    re.DOTALL,
)
"""What is left as it is (comments, code and tags), and formulas."""


def with_mathml(page: str) -> str:
    """Return HTML in which formulas between dollar signs, and TeX environments, are MathML."""
    return TOKEN.sub(_replaced, page) if Converter is not None else page


def _replaced(token: re.Match[str]) -> str:
    block = token["block"] or token["environment"]
    return _mathml(html.unescape(block or token["inline"] or ""), bool(block)) or token[0]


@lru_cache(maxsize=4096)
def _mathml(tex: str, block: bool) -> str:
    """Return the MathML of a formula, or an empty text if it cannot be converted."""
    if not tex.strip() or len(tex) > LONGEST or DEFINITION.search(tex):
        return ""
    try:
        math = Converter(display="block" if block else "inline").convert_to_element(tex)
        return _clean(math)
    except Exception:  # the library raises many kinds of errors at incomplete TeX
        return ""


def _clean(math: ElementTree.Element) -> str:
    """Return a formula as text, with allowed elements and attributes only."""
    for element in math.iter():
        if element.tag not in ELEMENTS:
            raise ValueError(f"<{element.tag}> is not allowed in a formula")
        kept = {name: value for name, value in element.items() if name in ATTRIBUTES}
        element.attrib = {name: each for name, each in kept.items() if VALUE.fullmatch(each)}
        # The library writes characters as references, and leaves "\_" in a text as it is.
        element.text = re.sub(r"\\([_%&#$])", r"\1", html.unescape(element.text or ""))
    return ElementTree.tostring(math, encoding="unicode")
