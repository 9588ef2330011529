"""What pyproject.toml cannot state: the project's addresses, and a wheel without checkpoints.

The addresses follow from `repository.url` in _config.yml, the one place for it. With
ATTENTIVELY_SMALL_WHEEL=1 the wheel omits the pretrained models, which are then downloaded from the
repository, tag v<version>, at first use.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


def repository(root: str) -> str:
    """Return `repository.url` of _config.yml, without a slash at its end; empty if not set."""
    path = Path(root) / "_config.yml"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(r"""^repository:\n(?:[ ].*\n)*?[ ]+url:[ ]*["']?([^\s"'#]*)""", text, re.M)
    return found[1].rstrip("/") if found else ""


class Addresses(MetadataHookInterface):
    """Set the project's URLs."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the addresses, if the repository has one."""
        url = repository(self.root)
        links = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
        metadata["urls"] = {name: url + path for name, path in links.items()} if url else {}


class SmallWheel(BuildHookInterface[Any]):
    """Omit the pretrained models from the wheel, on request."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Exclude them before files are collected."""
        if os.environ.get("ATTENTIVELY_SMALL_WHEEL") == "1":
            if not repository(self.root):
                raise ValueError(
                    "a wheel without the pretrained models needs an address to download them "
                    "from: set repository.url in _config.yml"
                )
            self.build_config.target_config["exclude"] = [
                "src/attentively/pretrained/**/*.safetensors"
            ]
