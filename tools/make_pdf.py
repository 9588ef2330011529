"""Make one PDF of the built book: `make pdf`.

Chromium prints each page of `_toc.yml` from `_build/html`. The pages are joined into
`_build/attentively.pdf` with a title page, a table of contents, page numbers and bookmarks. A link
to another page of the book becomes a link inside the PDF. Names of pages as arguments, such as
`08_additive_attention`, select pages (`make pdf ARGS=08_additive_attention`).

Why so, and why there is no EPUB: docs/decisions/0029-pdf.md.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

import yaml

from attentively.atomic_files import check_replaceable, replacing

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
MISSING_BROWSER = (
    "Printing needs Chromium, and none was found. Install it (Debian and Ubuntu: apt install "
    "chromium), or set ATTENTIVELY_BROWSER to the path of a Chromium or Chrome."
)
HEADINGS = ("h1", "h2")
"""Headings with a bookmark."""
TOP = 0.5
"""Space above the target of a link, in lines of 14 points."""

# What the printed pages share: text and margins are in book/_static/print.css.
FOOTER = """
@page {{
  @bottom-left {{ content: "{title}"; font: 8pt sans-serif; color: #48566b; }}
  @bottom-right {{ content: counter(page); font: 9pt sans-serif; color: #222832; }}
}}
:root {{ counter-reset: page {before}; }}
"""
READY = """async () => {
  for (const image of document.images) image.loading = "eager";
  if (window.MathJax && MathJax.startup) {
    await MathJax.startup.promise;
    await MathJax.startup.document.lazyTypesetAll?.();
  }
  await document.fonts.ready;
  const drawn = [...document.images].filter((image) => !image.matches(".only-dark"));
  await Promise.all(drawn.map((image) => image.decode().catch(() => null)));
}"""
# Chromium names a destination only if a link on the same page leads to it.
NAME_DESTINATIONS = """(ids) => {
  const links = document.createElement("div");
  links.hidden = true;
  for (const id of ids) {
    const link = document.createElement("a");
    link.href = `#${id}`;
    links.append(link);
  }
  document.body.append(links);
}"""


class PdfError(Exception):
    """What prevents a PDF, in a sentence for the terminal."""


class Page(NamedTuple):
    """A page of the book in the order of `_toc.yml`."""

    part: str
    name: str
    """As in `_toc.yml`: ``book/08_additive_attention``."""


class Heading(NamedTuple):
    """A heading of a page; `id` is that of its section."""

    level: int
    text: str
    id: str


class Content(NamedTuple):
    """What the PDF needs to know of a page's HTML."""

    headings: list[Heading]
    links: list[str]


class Printed(NamedTuple):
    """A printed page: its PDF file and its first page number, counted from 1."""

    page: Page
    content: Content
    file: Path
    first: int
    length: int


# Reading the site


def read_toc(path: Path) -> list[Page]:
    """Return the pages that `_toc.yml` lists, the root first."""
    toc = yaml.safe_load(path.read_text(encoding="utf-8"))
    pages = [Page("", toc["root"])]

    def add(part: str, entries: Iterable[dict[str, Any]]) -> None:
        for entry in entries:
            pages.append(Page(part, entry["file"]))
            add(part, entry.get("sections", []))

    for part in toc.get("parts", [{"chapters": toc.get("chapters", [])}]):
        add(part.get("caption", ""), part["chapters"])
    return pages


class _Reader(HTMLParser):
    """Collects the headings and links of the article of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[Heading] = []
        self.links: list[str] = []
        self.section = ""
        self.heading: list[str] | None = None
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "section":
            self.section = found.get("id", "")
        elif tag in HEADINGS and self.section:
            self.heading = []
        elif tag == "a":
            self.links.append(found.get("href", ""))
            self.hidden += "headerlink" in found.get("class", "").split()

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self.hidden = 0
        elif tag in HEADINGS and self.heading is not None:
            text = " ".join("".join(self.heading).split())
            self.headings.append(Heading(HEADINGS.index(tag), text, self.section))
            self.heading, self.section = None, ""

    def handle_data(self, data: str) -> None:
        if self.heading is not None and not self.hidden:
            self.heading.append(data)


def read_page(path: Path) -> Content:
    """Return the headings and links of a page; raise PdfError if it has no title."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    if not reader.headings:
        raise PdfError(f"{path} has no title: expected a section with a heading")
    return Content(reader.headings, reader.links)


def wanted_ids(site: Path, contents: dict[str, Content]) -> dict[str, list[str]]:
    """Return for each page the ids that a bookmark or a link of any page leads to."""
    wanted = {
        name: {heading.id: None for heading in content.headings}
        for name, content in contents.items()
    }
    for name, content in contents.items():
        for link in content.links:
            target, place = resolve(site, (site / f"{name}.html").as_uri(), link)
            if target in wanted and place:
                wanted[target][place] = None
    return {name: list(ids) for name, ids in wanted.items()}


def resolve(site: Path, base: str, link: str) -> tuple[str, str]:
    """Return the page and the id that a link leads to; no page for what is outside the site."""
    address, place = urldefrag(link)
    if not address:
        address = base
    elif "://" not in address:
        address = f"{base.rpartition('/')[0]}/{address}"
    parts = urlsplit(address)
    path = Path(os.path.normpath(unquote(parts.path)))
    if parts.scheme != "file" or not path.is_relative_to(site) or path.suffix != ".html":
        return "", ""
    return path.relative_to(site).with_suffix("").as_posix(), unquote(place)


# Printing


def find_browser() -> str:
    """Return an installed Chromium, or what ATTENTIVELY_BROWSER names; raise PdfError without."""
    named = os.environ.get("ATTENTIVELY_BROWSER")
    found = [named] if named else [*map(shutil.which, BROWSERS), MAC]
    for path in found:
        if path and Path(path).exists():
            return path
    raise PdfError(MISSING_BROWSER)


class Printer:
    """A browser that prints pages into files."""

    def __init__(self, chromium: Any) -> None:
        self.tab = chromium.new_page(viewport={"width": 1200, "height": 1000}, color_scheme="light")
        self.tab.set_default_timeout(300_000)

    def print_page(self, address: str, file: Path, ids: Sequence[str], footer: str) -> None:
        """Print a page of the site."""
        self.tab.goto(address)
        self.tab.evaluate(READY)
        self.tab.evaluate(NAME_DESTINATIONS, list(ids))
        self._write(file, footer)

    def print_html(self, html: str, file: Path) -> None:
        """Print a text in HTML."""
        self.tab.goto("about:blank")
        self.tab.set_content(html)
        self._write(file, "")

    def _write(self, file: Path, style: str) -> None:
        if style:
            self.tab.add_style_tag(content=style)
        self.tab.pdf(path=file, format="A4", prefer_css_page_size=True, print_background=True)


def print_pages(
    printer: Printer, site: Path, pages: Sequence[Page], contents: dict[str, Content], folder: Path
) -> Iterator[Printed]:
    """Print the pages one after the other; yield each, with its page numbers."""
    from pypdf import PdfReader

    ids = wanted_ids(site, contents)
    first = 1
    for number, page in enumerate(pages):
        file = folder / f"{number:03}.pdf"
        title = contents[page.name].headings[0].text
        footer = FOOTER.format(title=_css(title), before=first - 1)
        printer.print_page((site / f"{page.name}.html").as_uri(), file, ids[page.name], footer)
        length = len(PdfReader(file).pages)
        yield Printed(page, contents[page.name], file, first, length)
        first += length


def _css(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# Title page and table of contents

FRONT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>
@page {{ margin: 25mm 22mm; }}
body {{ color: #222832; font: 11pt/1.4 sans-serif; margin: 0; }}
a {{ color: inherit; text-decoration: none; }}
.title {{ break-after: page; padding-top: 60mm; }}
.title h1 {{ font-size: 34pt; font-weight: 500; margin: 0; }}
.title .subtitle {{ font-size: 15pt; margin: 4mm 0 70mm; }}
.title p {{ margin: 0 0 2mm; max-width: 130mm; }}
h2 {{ font-size: 20pt; font-weight: 500; margin: 0 0 6mm; }}
h3 {{ break-after: avoid; font-size: 11pt; margin: 5mm 0 1mm; }}
.line {{ break-inside: avoid; display: flex; gap: 2mm; }}
.line .dots {{ border-bottom: 1px dotted #48566b; flex: 1; margin-bottom: 1.2mm; }}
</style>
<div class="title"><h1>{title}</h1><p class="subtitle">{subtitle}</p>
<p>{author}</p><p>Version {version}, {date}</p><p>{rights}</p></div>
<h2>Contents</h2>
{lines}</html>"""


class About(NamedTuple):
    """What the title page and the metadata state of the book."""

    title: str
    subtitle: str
    author: str
    rights: str
    version: str
    date: datetime


def read_about(root: Path) -> About:
    """Return what `_config.yml` and `pyproject.toml` say; the date is today's.

    SOURCE_DATE_EPOCH replaces the date, so that a build can be repeated exactly.
    """
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return About(
        title=config["title"],
        subtitle=re.split(r"[:.]", project["description"])[0],
        author=config["author"],
        rights=f"© {config['copyright']}",
        version=project["version"],
        date=datetime.fromtimestamp(seconds, UTC),
    )


def front_matter(about: About, printed: Sequence[Printed], site: Path) -> str:
    """Return the title page and the table of contents in HTML."""
    lines = []
    part = ""
    for each in printed:
        if each.page.part != part:
            part = each.page.part
            lines.append(f"<h3>{escape(part)}</h3>")
        address = (site / f"{each.page.name}.html").as_uri()
        lines.append(
            f'<a class="line" href="{escape(address)}">'
            f'<span>{escape(each.content.headings[0].text)}</span><span class="dots"></span>'
            f"<span>{each.first}</span></a>"
        )
    words = {name: escape(str(value)) for name, value in about._asdict().items()}
    words["date"] = f"{about.date.day} {about.date:%B %Y}"
    return FRONT.format(**words, lines="\n".join(lines))


# Joining


def join(front: Path, printed: Sequence[Printed], about: About, site: Path, output: Path) -> None:
    """Join the printed files into one PDF with bookmarks, page labels and links."""
    from pypdf import PdfReader, PdfWriter
    from pypdf.constants import PageLabelStyle
    from pypdf.generic import Fit, NameObject, TextStringObject

    writer = PdfWriter()
    places: dict[tuple[str, str], tuple[int, float]] = {}
    origins: list[str] = []  # of each page: the page of the book that it was printed from
    for name, file in [("", front), *((each.page.name, each.file) for each in printed)]:
        reader = PdfReader(file)
        start = len(writer.pages)
        for page in reader.pages:
            writer.add_page(page)
            origins.append(name)
        if name:
            height = float(reader.pages[0].mediabox.height)
            places[name, ""] = (start, height)
            for place, target in reader.named_destinations.items():
                number = reader.get_destination_page_number(target)
                if number is not None:
                    where = (start + number, float(target.top or height) + 14 * TOP)
                    places[name, unquote(place.lstrip("/"))] = where

    for number, name in enumerate(origins):
        base = (site / f"{name}.html").as_uri()
        _rewrite_links(writer, number, base, site, places)

    part, parent = "", None
    for each in printed:
        start, top = places[each.page.name, ""]
        if each.page.part != part:
            part = each.page.part
            parent = writer.add_outline_item(title=part, page_number=start, is_open=False)
        chapter = None
        for heading in each.content.headings:
            at, top = places.get((each.page.name, heading.id), (start, top))
            above = parent if heading.level == 0 else chapter
            if heading.level == 0:
                at = start
            item = writer.add_outline_item(
                title=heading.text,
                page_number=at,
                parent=above,
                fit=Fit.xyz(top=top),
                is_open=False,
            )
            chapter = item if heading.level == 0 else chapter

    pages_before = origins.count("")
    writer.set_page_label(0, pages_before - 1, style=PageLabelStyle.LOWERCASE_ROMAN)
    last = len(writer.pages) - 1
    writer.set_page_label(pages_before, last, style=PageLabelStyle.DECIMAL, start=1)
    writer.page_mode = "/UseOutlines"
    writer.root_object[NameObject("/Lang")] = TextStringObject("en")
    writer.add_metadata(
        {
            "/Title": about.title,
            "/Subject": about.subtitle,
            "/Author": about.author,
            "/Creator": f"{about.title} {about.version}",
            "/CreationDate": f"D:{about.date:%Y%m%d%H%M%S}Z",
            "/Rights": about.rights,
        }
    )
    writer.compress_identical_objects(remove_duplicates=True, remove_unreferenced=True)
    with replacing(output) as temporary:
        writer.write(temporary)


def _rewrite_links(
    writer: Any,
    number: int,
    base: str,
    site: Path,
    places: dict[tuple[str, str], tuple[int, float]],
) -> None:
    """Make links to pages of the book lead into the PDF; drop those to other files of the site."""
    from pypdf.generic import ArrayObject, FloatObject, NameObject, NullObject

    page = writer.pages[number]
    kept = ArrayObject()
    for reference in page.get("/Annots", ArrayObject()):
        annotation = reference.get_object()
        action = annotation.get("/A", {})
        if "/Dest" in annotation or "/D" in action:
            address = f"#{str(annotation.get('/Dest', action.get('/D'))).lstrip('/')}"
        else:
            address = str(action.get("/URI", ""))
        if not address.startswith(("#", "file:")):
            kept.append(reference)
            continue
        name, place = resolve(site, base, address)
        found = places.get((name, place), places.get((name, "")))
        if found is None:
            continue
        target, top = found
        annotation.pop("/A", None)
        annotation[NameObject("/Dest")] = ArrayObject(
            [
                writer.pages[target].indirect_reference,
                NameObject("/XYZ"),
                NullObject(),
                FloatObject(top),
                NullObject(),
            ]
        )
        kept.append(reference)
    if "/Annots" in page:
        page[NameObject("/Annots")] = kept


# The command


def make_pdf(root: Path, output: Path, selected: Sequence[str] = ()) -> int:
    """Write the PDF of the book built in `root`; return its number of pages.

    Raises PdfError without a browser or a built book, and for a selected page that is unknown.
    """
    site = (root / "_build" / "html").resolve()
    pages = read_toc(root / "_toc.yml")
    names = {page.name.rpartition("/")[2]: page for page in pages}
    if unknown := [name for name in selected if name not in names]:
        raise PdfError(f"_toc.yml lists no page {', '.join(unknown)}; it has: {', '.join(names)}")
    pages = [page for name, page in names.items() if not selected or name in selected]
    if missing := [page.name for page in pages if not (site / f"{page.name}.html").is_file()]:
        raise PdfError(f"The book is not built: {site} lacks {missing[0]}.html. Run `make book`.")
    check_replaceable(output)
    browser = find_browser()
    try:
        import pypdf
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise PdfError(f"{error.name} is not installed. Run `make setup`.") from None

    contents = {page.name: read_page(site / f"{page.name}.html") for page in pages}
    about = read_about(root)
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        folder = Path(temporary)
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        printer = Printer(chromium)
        printed = []
        started = time.monotonic()
        for each in print_pages(printer, site, pages, contents, folder):
            printed.append(each)
            seconds, started = time.monotonic() - started, time.monotonic()
            print(
                f"{len(printed):3} of {len(pages)}  {each.page.name}: {each.length} pages "
                f"({seconds:.0f} s)",
                flush=True,
            )
        front = folder / "front.pdf"
        printer.print_html(front_matter(about, printed, site), front)
        chromium.close()
        print("Joining the pages.", flush=True)
        join(front, printed, about, site, output)
    return len(pypdf.PdfReader(output).pages)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="make pdf", description="Make one PDF of the built book.")
    parser.add_argument(
        "pages", nargs="*", help="pages to include, such as 08_additive_attention; all without it"
    )
    chosen = parser.parse_args(arguments).pages
    output = ROOT / "_build" / "attentively.pdf"
    started = time.monotonic()
    try:
        count = make_pdf(ROOT, output, chosen)
    except (PdfError, OSError) as error:
        print(f"No PDF was made. {error}", file=sys.stderr)
        return 1
    size = output.stat().st_size / 1e6
    print(
        f"{output.relative_to(ROOT)}: {count} pages, {size:.1f} MB "
        f"({time.monotonic() - started:.0f} s)."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
