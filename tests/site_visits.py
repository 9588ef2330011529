"""Which pages were visited before without a fault, and are the same since."""

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


class Visits:
    """Pages that were visited without a fault, each with a hash of what a visit can depend on.

    These are the page, the files that it names, what it links to, all scripts and styles of the
    site, the browser, and the code of the tests. The hashes are kept in pytest's cache; without
    it, each page is visited.
    """

    def __init__(self, site: Path, browser: str, cache=None) -> None:
        self.site = site
        self.browser = browser
        self.cache = cache if os.environ.get(VARIABLE) != "0" else None
        static = build_book().files_of(site / "_static")
        self.of_every_page = [
            Path(__file__),
            ROOT / "constraints.txt",
            *(ROOT / "tests" / name for name in CODE),
            *(file for file in static if not file.as_posix().endswith(SEARCHED)),
        ]

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
        files, facts = [page, *self.of_every_page], [self.browser]
        for link in sorted({*LINK.findall(page.read_text(encoding="utf-8"))}):
            target, place = urldefrag(unquote(link))
            file = page.parent / target if target else page
            if ":" in target or "_static" in file.parts:
                continue
            facts += [link, str(file.is_file())]
            if file.suffix == ".html" and file.is_file():
                facts.append(str(not place or place in targets(file)))
            elif file.is_file():  # a picture, or the page as a notebook
                files.append(file)
        return build_book().fingerprint(self.site, files, *facts)
