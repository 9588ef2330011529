"""Keep the built site off the network: serve MathJax from the site itself.

The file is from the installed package sphinx-mathjax-offline (MathJax 3.2.2, Apache licence). The
SVG version is used because it is one file, without fonts, which browsers may refuse to load from a
folder, and without further components.
"""

from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.fileutil import copy_asset_file

NAME = "tex-svg-full.js"


def copy_mathjax(app: Sphinx) -> None:
    """Copy MathJax to the site's other scripts."""
    if app.builder.format != "html":
        return
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ExtensionError("sphinx-mathjax-offline is not installed: run `make setup`")
    target = Path(app.outdir) / "_static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    copy_asset_file(str(Path(package.origin).parent / "static" / "mathjax" / NAME), str(target))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = f"mathjax/{NAME}"
    # The menu's further tools would be fetched; the hidden MathML that screen readers read stays.
    app.config.mathjax3_config = {
        "options": {"enableMenu": False},
        "svg": {"fontCache": "local"},
        "tex": {"packages": {"[-]": ["autoload", "require"]}},
    }
    # Jupyter Book sets this for its comments extension, which is not loaded.
    app.add_config_value("comments_config", {}, "html")
    app.connect("builder-inited", copy_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
