"""The project's addresses, all from two settings in _config.yml.

`repository.url` is the repository; it gives the releases, and the buttons for Colab and Binder.
`html.baseurl` is where the book is published.
"""

import tomllib
from pathlib import Path
from typing import Any

import yaml


def _config(root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return loaded


def book(root: Path) -> str:
    """Return the address of the published book, without a slash at its end; empty if unknown."""
    return str(_config(root)["html"]["baseurl"]).rstrip("/")


def repository(root: Path) -> str:
    """Return the address of the repository, without a slash at its end; empty if unknown."""
    return str(_config(root)["repository"]["url"]).rstrip("/")


def wheel(root: Path) -> str:
    """Return the address of the package's wheel in the release of this version."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    name = f"{project['name']}-{version}-py3-none-any.whl"
    return f"{repository(root)}/releases/download/v{version}/{name}"
