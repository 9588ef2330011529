"""Build the book in less time, with the same result.

Trees of pages are large and live long, so Python looks for garbage among them less often. pybtex
reads the entry points of all installed packages for each citation; here it reads them once.
"""

import functools
import gc

import pybtex.plugin
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    gc.set_threshold(200_000, 20, 100)
    pybtex.plugin.entry_points = functools.cache(pybtex.plugin.entry_points)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
