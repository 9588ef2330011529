"""Which pages were visited before without a fault, and are the same since."""

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import unquote, urldefrag

from stamps import VARIABLE, build_book

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r'\b(?:href|src)="([^"]+)"')
CODE = ("accessibility.py", "site/conftest.py", "site/test_site.py")
SEARCHED = "search/index.js"
"""What the search loads when it is used, and no page that is only opened."""


@build_book().looked_up
def targets(file: Path) -> set[str]:
    """Return the ids of a page, to which a link can lead."""
    return set(re.findall(r'\b(?:id|name)="([^"]+)"', file.read_text(encoding="utf-8")))


def digest(*parts: str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return found.hexdigest()


def named(file: Path) -> list[str | bytes]:
    """Return the name of a file and its content."""
    return [file.name, file.read_bytes()]


class Visits:
    """Keeps in pytest's cache a hash of all that a visit of a page can depend on.

    These are the page, the files that it names, what it links to, all scripts and styles of the
    site, the browser, and the code of the tests. Without the cache, each page is visited.
    """

    def __init__(self, site: Path, browser: str, cache=None) -> None:
        self.site = site
        self.cache = cache if os.environ.get(VARIABLE) != "0" else None
        files = [Path(__file__), *(ROOT / "tests" / name for name in CODE)]
        files.append(ROOT / "constraints.txt")
        static = build_book().files_of(site / "_static")
        files += [file for file in static if not file.as_posix().endswith(SEARCHED)]
        self._shared = digest(browser, *(part for file in files for part in named(file)))

    def is_same(self, page: Path) -> bool:
        """Tell whether a page was visited before and would be the same now."""
        return self.cache is not None and self.cache.get(self._key(page), "") == self._hash(page)

    def keep(self, page: Path) -> None:
        """Note that a page was visited and is without a fault."""
        if self.cache is not None:
            self.cache.set(self._key(page), self._hash(page))

    def _key(self, page: Path) -> str:
        return f"visits/{page.relative_to(self.site).as_posix()}"

    def _hash(self, page: Path) -> str:
        text = page.read_text(encoding="utf-8")
        parts: list[str | bytes] = [self._shared, text]
        for link in sorted({*LINK.findall(text)}):
            target, place = urldefrag(unquote(link))
            file = page.parent / target if target else page
            if ":" in target or "_static" in file.parts:
                continue
            parts += [link, str(file.is_file())]
            if file.suffix == ".html" and file.is_file():
                parts.append(str(not place or place in targets(file)))
            elif file.is_file():  # a picture, or the page as a notebook
                parts += named(file)
        return digest(*parts)
