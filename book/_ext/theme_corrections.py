"""Correct what the theme and its extensions write: names and roles, line breaks, and icons.

The theme draws its icons with a script of 1.5 MB. Its style sheet can also draw them with a font,
of which this module takes the icons that the theme uses. They are written into a style sheet, since
a browser may refuse to load a font from a folder. An icon that `ICONS` lacks is still shown, from
the theme's own font, but the site tests fail because a page then loads 150 KB more.
"""

import base64
import re
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

import pydata_sphinx_theme
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from sphinx.application import Sphinx
from sphinx.jinja2glue import BuiltinTemplateLoader

ICONS = {
    "angle-left": 0xF104,
    "angle-right": 0xF105,
    "arrow-up": 0xF062,
    "bars": 0xF0C9,
    "bell": 0xF0F3,
    "check-circle": 0xF058,
    "chevron-down": 0xF078,
    "circle-half-stroke": 0xF042,
    "code": 0xF121,
    "download": 0xF019,
    "exclamation-circle": 0xF06A,
    "exclamation-triangle": 0xF071,
    "expand": 0xF065,
    "file": 0xF15B,
    "file-pdf": 0xF1C1,
    "hand-point-left": 0xF0A5,
    "info-circle": 0xF05A,
    "lightbulb": 0xF0EB,
    "list": 0xF03A,
    "magnifying-glass": 0xF002,
    "moon": 0xF186,
    "pencil": 0xF303,
    "play": 0xF04B,
    "rocket": 0xF135,
    "sun": 0xF185,
    "times-circle": 0xF057,
    "xmark": 0xF00D,
}
"""The theme's icons: name and code in its font."""
STYLE = "icons.css"

CORRECTIONS = (
    # The script that draws icons.
    (r'<script [^>]*\bsrc="[^"]*/fontawesome\.js[^"]*"></script>\n?', ""),
    # An icon says nothing, the button or link around it has a name.
    (r'<(i|span)(?= class="[^"]*\bfa-)', r'<\1 aria-hidden="true"'),
    # The visible text, "Show code cell source" or "Hide …", is the name.
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    # The button that unfolds the pages below a page in the side bar.
    (
        r'(>([^<]*)</a><details[^>]*>)<summary>(?=<span class="toctree-toggle")',
        r'\1<summary aria-label="Pages of \2">',
    ),
    # A role that is deprecated, inside a list whose entries must be list items.
    (r'\brole="doc-biblioentry"', 'role="listitem"'),
    # The parameters of a signature, one a line: a list of definitions without terms.
    (r'<dd>(<em class="sig-param">.*)</dd>', r'<span class="sig-line">\1</span>'),
    (r'<dl>\n(?=<span class="sig-line">)', "<span>\n"),
    (r'(<span class="sig-line">.*</span>\n)</dl>', r"\1</span>"),
)
"""What is replaced on every page: a pattern, and by what."""
PARTED = re.compile(r"<pre\b.*?</pre>|(?<=\d)[ \n](?=(?:%|[kMG]B\b|ms\b))", re.S)
"""Code, which stays as it is, or the space between a number and its unit."""


def correct(page: str) -> str:
    """Return a page with the corrections."""
    for pattern, replacement in CORRECTIONS:
        page = re.sub(pattern, replacement, page)
    return PARTED.sub(lambda found: found[0] if found[0][0] == "<" else "\u00a0", page)


class Bridge(BuiltinTemplateLoader):
    """Sphinx's templates, with corrected pages."""

    def render(self, template: str, context: dict) -> str:
        """Return a page, complete and corrected."""
        return correct(super().render(template, context))


def icon_style(codes: Iterable[int]) -> str:
    """Return a style sheet with a font that has these icons only."""
    static = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
    source = static / "vendor/fontawesome/webfonts/fa-solid-900.ttf"
    font = TTFont(source, recalcTimestamp=False)  # the same file in every build
    subsetter = Subsetter(Options(flavor="woff", layout_features=[], name_IDs=[]))
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    font.flavor = "woff"
    file = BytesIO()
    font.save(file)
    data = base64.b64encode(file.getvalue()).decode()
    return (
        "/* Icons of Font Awesome Free 6 (https://fontawesome.com), font licence SIL OFL 1.1. */\n"
        '@font-face { font-family: "Font Awesome 6 Free"; font-weight: 900; '
        f'src: url(data:font/woff;base64,{data}) format("woff"); }}\n'
    )


def write_icons(app: Sphinx) -> None:
    """Write the icons to the site's style sheets."""
    if app.builder.format == "html":
        file = Path(app.outdir) / "_static" / STYLE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(icon_style(ICONS.values()), encoding="utf-8")
        app.add_css_file(STYLE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.config.template_bridge = "theme_corrections.Bridge"
    # Jupyter Book sets this for its comments extension, which is not loaded.
    app.add_config_value("comments_config", {}, "html")
    app.connect("builder-inited", write_icons)
    app.add_js_file("sidebars.js", loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
