"""Figures in dark mode: each SVG output of a cell gets a dark version and a box that scrolls.

The dark version has the same geometry. Each role of `plots.COLOURS` has a lighter colour here. Any
other colour is mixed with the page or with its text until it has the contrast with the dark page
that it had with white paper: what was legible stays so, and a pale grid stays pale. White becomes
the colour of the page, so that a figure has no border. Images inside a figure (heat maps) keep
their colours, because a caption may say that dark cells are large weights; so does all that is
drawn on them.

The theme shows one of the two by its classes `only-light` and `only-dark`, and hides the other
from screen readers too; the hidden version of a light page is not loaded. A figure that is wider
than the page scrolls inside its box, and is never made so small that its text is hard to read.
"""

import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

PAGE = "#121212"
"""The theme's background in dark mode."""
INK = "#ced6dd"
"""The theme's text in dark mode."""
ROLES = {
    "#1562f9": "#8dbcff",  # query
    "#b06107": "#e86306",  # key
    "#09884d": "#3ddfa0",  # value
    "#316781": "#4985a7",  # encoder
    "#b107b5": "#e442f5",  # decoder
    "#b1362e": "#f0836b",  # gold
    "#737373": "#949494",  # neutral
}
"""The roles' colours and what they become: legible as text, and distinct to every eye."""
SMALLEST = 11
"""Pixels of the smallest text of a figure, whatever the width of the page."""

PHONE = 342
"""Width of the text on a phone, in pixels."""

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)

COLOUR = re.compile(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b")
POINT = re.compile(r"(-?[\d.]+)[ ,]+(-?[\d.]+)")


def channels(colour: str) -> list[int]:
    """Return red, green and blue of ``#rrggbb`` or ``#rgb``, from 0 to 255."""
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    return [int(digits[i : i + 2], 16) for i in (0, 2, 4)]


def lightness(colour: str) -> float:
    """Return the relative luminance of a colour and 0.05, as contrast is made of it in WCAG 2."""
    shares = [channel / 255 for channel in channels(colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05


def dark(colour: str) -> str:
    """Return what a colour becomes: another one of the same role, or of the same contrast."""
    if colour in ROLES:
        return ROLES[colour]
    wanted = lightness("#fff") / lightness(colour) * lightness(PAGE)
    other = INK if lightness(colour) < wanted else PAGE
    nearest, farthest = 0.0, 1.0  # shares of the other colour
    mixed = other
    for _ in range(12):
        share = (nearest + farthest) / 2
        pairs = zip(channels(colour), channels(other), strict=True)
        tried = "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)
        if (lightness(tried) < wanted) == (other == INK):
            nearest = share
        else:
            farthest, mixed = share, tried
    return mixed


def dark_svg(svg: str) -> str:
    """Return the dark version of a figure."""
    root = ElementTree.fromstring(svg)
    kept = {element for group in root.iter(f"{{{SVG}}}g") for element in _on_images(group)}
    for element in kept:
        # Outside it, ink is light: what has no colour of its own is black here.
        if element.tag.rpartition("}")[2] == "g" and "fill" not in element.get("style", ""):
            element.set("fill", "#000")
    for element in root.iter():
        if element in kept:
            continue
        for name in ("style", "fill", "stroke", "stop-color"):
            if name in element.attrib:
                element.set(name, COLOUR.sub(lambda m: dark(m[0]), element.attrib[name]))
    root.set("fill", INK)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _on_images(axes: ElementTree.Element) -> set[ElementTree.Element]:
    """Return what is drawn inside the images of some axes, the images' own background included."""
    boxes = [_box(image) for image in axes.findall(f".//{{{SVG}}}image")]
    if not axes.get("id", "").startswith("axes_") or not boxes:
        return set()
    inside = set()
    for group in axes.iter(f"{{{SVG}}}g"):
        point = _centre(group)
        if point and any(
            left - 0.5 <= point[0] <= right + 0.5 and top - 0.5 <= point[1] <= bottom + 0.5
            for left, top, right, bottom in boxes
        ):
            inside |= set(group.iter())
    return inside


def _box(image: ElementTree.Element) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of an image, which Matplotlib draws upside down."""
    x, y, width, height = (float(image.get(name, "0")) for name in ("x", "y", "width", "height"))
    if "scale(1 -1)" in image.get("transform", ""):
        y = -y
    return x, y, x + width, y + height


def _centre(group: ElementTree.Element) -> tuple[float, float] | None:
    """Return the middle of a path or the beginning of a text that is drawn by this group itself."""
    transform = group.get("transform", "")
    if transform.startswith("translate("):
        return _points(transform)[0]
    path = group.find(f"{{{SVG}}}path")
    if path is None or not path.get("d"):
        return None
    xs, ys = zip(*_points(path.get("d", "")), strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


def _points(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in POINT.findall(text)]


def least_width(svg: str) -> int:
    """Return the width, in pixels, at which the smallest text of a figure is `SMALLEST` high.

    Sub- and superscripts do not count. 0 for a figure without text.
    """
    # Matplotlib draws glyphs of 100 units and scales them to the font size.
    sizes = [100 * float(scale) for scale in re.findall(r"scale\(([\d.]+) -\1\)", svg)]
    width = re.search(r'<svg\b[^>]*?\bwidth="([\d.]+)pt"', svg)
    if not sizes or width is None:
        return 0
    return round(float(width[1]) * SMALLEST / min(sizes))


class figure_box(nodes.General, nodes.Element):
    """Both versions of a figure, in a box that scrolls."""


def visit_box(self: HTML5Translator, node: figure_box) -> None:
    """Open the box; the keyboard reaches it where it may scroll."""
    least = node["least_width"]
    scrolls = least > PHONE
    label = ' tabindex="0" role="group" aria-label="Figure, scrolls sideways"' if scrolls else ""
    self.body.append(f'<div class="figure-box" style="--least-width: {least}px"{label}>\n')


def depart_box(self: HTML5Translator, node: figure_box) -> None:
    """Close the box."""
    self.body.append("</div>\n")


def add_twins(app: Sphinx, doctree: nodes.document) -> None:
    """Write the dark version of each figure and put it next to the light one.

    This comes before Sphinx collects the images of the page.
    """
    if app.builder.format != "html":
        return
    for container in list(doctree.findall(nodes.container)):
        if container.get("mime_type") != "image/svg+xml":
            continue
        for image in list(container.findall(nodes.image)):
            light = _file(app, image["uri"])
            svg = light.read_text(encoding="utf-8")
            dark = dark_svg(svg)
            # Named by its content, as the light one is: Sphinx warns where a file changes.
            digest = hashlib.sha256(dark.encode()).hexdigest()[:8]
            twin = light.with_name(f"{light.stem}-dark-{digest}.svg")
            twin.write_text(dark, encoding="utf-8")
            other = image.deepcopy()
            other["uri"] = image["uri"].replace(light.name, twin.name)
            other["loading"] = "lazy"
            image["classes"].append("only-light")
            other["classes"].append("only-dark")
            box = figure_box("", least_width=least_width(svg))
            image.replace_self(box)
            box += [image, other]


def _file(app: Sphinx, uri: str) -> Path:
    """Return the file of an image: MyST-NB's are named from the folder of the sources."""
    return Path(app.srcdir, uri.lstrip("/"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_node(figure_box, html=(visit_box, depart_box))
    app.connect("doctree-read", add_twins, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
