"""Whether words on a map can be read: the colours of its parts as a browser has them."""

PAIRS = """svg => [...svg.querySelectorAll('.part')].map(part => {
    const seen = (element, what) => getComputedStyle(element)[what];
    const text = part.querySelector('text'), box = part.querySelector('rect');
    const fill = seen(box, 'fill'), clear = ['rgba(0, 0, 0, 0)', 'transparent', 'none'];
    return [part.dataset.part, seen(text, 'fill'), clear.includes(fill) ? null : fill];
})"""
"""Of each part of a map: its name, the colours of words and box, null for a box that is clear."""


def luminance(colour: str) -> float:
    """Return the relative luminance of `rgb(...)`, as the accessibility guidelines define it."""
    channels = [float(c) / 255 for c in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return how many times as light the lighter of two colours is, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
