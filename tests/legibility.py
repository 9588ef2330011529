"""Whether words and lines can be read: contrast, and colours as colour-blind eyes see them."""

import itertools
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
