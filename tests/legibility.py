"""Whether words and lines can be read: contrast, and colours as colour-blind eyes see them."""

import itertools
import re
from collections.abc import Iterable

import numpy as np
from matplotlib import colors

PAIRS = """svg => [...svg.querySelectorAll('.part')].map(part => {
    const seen = (element, what) => getComputedStyle(element)[what];
    const text = part.querySelector('text'), box = part.querySelector('rect');
    const fill = seen(box, 'fill'), clear = ['rgba(0, 0, 0, 0)', 'transparent', 'none'];
    return [part.dataset.part, seen(text, 'fill'), clear.includes(fill) ? null : fill];
})"""
"""Of each part of a map: its name, the colours of words and box, null for a box that is clear."""


def linear(colour: str) -> np.ndarray:
    """Return red, green and blue of `rgb(...)` or `#rrggbb`, linear in light."""
    if colour.startswith("rgb"):
        shares = [float(c) / 255 for c in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    else:
        shares = colors.to_rgb(colour)
    rgb = np.array(shares)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2, from 1 to 21: 4.5 for text, 3 for lines."""
    low, high = sorted((0.2126, 0.7152, 0.0722) @ linear(colour) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


# How three kinds of colour-blind eyes see linear RGB: Machado, Oliveira & Fernandes (2009).
EYES = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def lab(colour: str, eye: str) -> np.ndarray:
    """Return a colour as an eye sees it, in CIELAB."""
    seen = np.clip(EYES[eye] @ linear(colour), 0, 1)
    x, y, z = np.cbrt(XYZ @ seen / XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def nearest(palette: Iterable[str], eye: str) -> float:
    """Return the smallest distance between two colours, in CIELAB units."""
    return min(
        np.linalg.norm(lab(one, eye) - lab(other, eye))
        for one, other in itertools.combinations(palette, 2)
    )


# Contrast in figures

SEEN_IN_FIGURE = """async (text) => {
    document.body.innerHTML = text;
    const svg = document.querySelector('svg');
    svg.style.cssText = 'position: absolute; left: 0; top: 0';
    const whole = svg.getBoundingClientRect();
    const inside = ({ x, y, width, height }) => [...Array(20 * 20).keys()].map(i =>
        [x + width * (i % 20 + 0.5) / 20, y + height * (Math.floor(i / 20) + 0.5) / 20]);
    const words = [...svg.querySelectorAll('g[id^="text_"]')].map(group => ({
        group, shapes: [...group.querySelectorAll('use')], line: false }));
    const lines = [...svg.querySelectorAll('[id^="axes_"] > g[id^="line2d_"]')].map(group => ({
        group, shapes: [...group.querySelectorAll(':scope > path')], line: true }));
    const parts = [...words, ...lines].filter(({ shapes }) => shapes.length).map(
        ({ group, shapes, line }) => {
            const style = getComputedStyle(shapes.at(-1)), kind = line ? 'stroke' : 'fill';
            const comment = [...group.childNodes].find(e => e.nodeType === Node.COMMENT_NODE);
            return {
                line, shapes, colour: style[kind], name: comment ? comment.data.trim() : group.id,
                opacity: Number(style.opacity) * Number(style[`${kind}Opacity`]),
                points: line ? [] : shapes.flatMap(e => inside(e.getBoundingClientRect())),
            };
        }).filter(({ colour }) => colour !== 'none');
    for (const { shapes } of parts) for (const shape of shapes) shape.remove();
    svg.setAttribute('width', whole.width);
    svg.setAttribute('height', whole.height);
    const picture = new Image(whole.width, whole.height);
    picture.src = 'data:image/svg+xml,' + encodeURIComponent(
        new XMLSerializer().serializeToString(svg));
    await picture.decode();
    const canvas = new OffscreenCanvas(Math.ceil(whole.width), Math.ceil(whole.height));
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.drawImage(picture, 0, 0);
    const { data, width, height } = context.getImageData(0, 0, canvas.width, canvas.height);
    return parts.map(({ line, name, colour, opacity, points }) => {
        const behind = line ? { clear: 1 } : {};
        for (const [x, y] of points) {
            if (x < 0 || y < 0 || x >= width || y >= height) continue;
            const at = 4 * (Math.floor(y) * width + Math.floor(x));
            const seen = data[at + 3] ? `rgb(${data.slice(at, at + 3).join(', ')})` : 'clear';
            behind[seen] = (behind[seen] || 0) + 1;
        }
        return { line, name, colour, opacity, behind };
    });
}"""
"""Of each text and each line of data in a figure: its colour, and the colours behind it."""


def faint(parts: Iterable[dict], page: str) -> list[str]:
    """Return the parts of a figure that are hard to see on a page of this colour.

    Text needs a contrast of 4.5 with three quarters of what is behind it. A line of data needs one
    of 3 with the page.
    """
    found = []
    for part in parts:
        needed = 3 if part["line"] else 4.5
        counts = [
            (contrast(blend(part["colour"], behind, part["opacity"]), behind), count)
            for colour, count in part["behind"].items()
            for behind in [page if colour == "clear" else colour]
        ]
        low = [(ratio, count) for ratio, count in counts if ratio < needed]
        if sum(count for _, count in low) > sum(count for _, count in counts) / 4:
            ratio = max(low, key=lambda each: each[1])[0]
            found.append(f"{part['name']!r} in {part['colour']}: contrast {ratio:.1f} < {needed}")
    return found


def blend(colour: str, behind: str, opacity: float) -> str:
    """Return what a partly transparent colour looks like on another one."""
    if opacity >= 1:
        return colour
    one, other = ([float(c) for c in re.findall(r"[\d.]+", each)[:3]] for each in (colour, behind))
    mixed = [opacity * a + (1 - opacity) * b for a, b in zip(one, other, strict=True)]
    return f"rgb({', '.join(f'{c:.1f}' for c in mixed)})"
