"""tools/make_pdf.py: bookmarks, page numbers and links of the PDF, and what prevents one."""

import importlib.util
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pypdf import PdfReader

ROOT = Path(__file__).resolve().parents[2]

spec = importlib.util.spec_from_file_location("make_pdf", ROOT / "tools" / "make_pdf.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

TOC = """
format: jb-book
root: book/index
parts:
  - caption: I · First
    chapters:
      - file: book/one
        sections:
          - file: book/more
  - caption: II · Second
    chapters:
      - file: book/two
"""
CONFIG = 'title: "A book"\nauthor: Ada\ncopyright: "2026, Ada. CC BY 4.0"\n'
PROJECT = '[project]\nversion = "1.2"\ndescription = "Of pages: and more."\n'
PAGE = """<!doctype html><html lang="en"><title>x</title><style>
@page {{ margin: 20mm }} h2 {{ break-before: page }}
.headerlink {{ display: none }}</style>
<article class="bd-article"><section id="title"><h1>{title}<a class="headerlink" href="#title">#</a>
</h1>{body}</section></article></html>"""
BODIES = {
    "index": ("Preface", '<p>See <a href="two.html#deep">deep</a>.</p>'),
    "one": (
        "One",
        '<p><a href="https://example.org/paper">paper</a> <a href="#second">below</a> '
        '<a href="../_sources/one.ipynb">notebook</a> <a href="../search.html">search</a></p>'
        '<section id="first"><h2>First <code>f</code></h2><p>x</p></section>'
        '<section id="second"><h2>Second</h2><p>y</p></section>',
    ),
    "more": ("More", "<p>z</p>"),
    "two": (
        "Two",
        '<p><a href="one.html">one</a> <a href="index.html#gone">lost</a></p>'
        '<section id="last"><h2>Last</h2><p>a</p>'
        '<p id="deep" style="break-before: page">here</p></section>',
    ),
}
OUTLINE = [
    ("Preface", 1),
    ("I · First", 2),
    ("I · First / One", 2),
    ("I · First / One / First f", 3),
    ("I · First / One / Second", 4),
    ("I · First / More", 5),
    ("II · Second", 6),
    ("II · Second / Two", 6),
    ("II · Second / Two / Last", 7),
]
LINKS = [
    *[("ii", 1), ("ii", 2), ("ii", 5), ("ii", 6)],  # the table of contents
    *[("1", 8), ("2", "https://example.org/paper"), ("2", 4), ("6", 2), ("6", 1)],
]
"""The page label of each link, and the number of the page, or the address, that it leads to."""


def browser_or_skip() -> None:
    try:
        tool.find_browser()
    except tool.PdfError as error:
        pytest.skip(str(error))


def make_pdf(*arguments) -> int:
    """Make the PDF in a thread of its own: other tests keep an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(tool.make_pdf, *arguments).result()


def write_book(root: Path) -> Path:
    """Write a small built book; return the path of its PDF."""
    folder = root / "_build" / "html" / "book"
    folder.mkdir(parents=True)
    for name, (title, body) in BODIES.items():
        (folder / f"{name}.html").write_text(PAGE.format(title=title, body=body), encoding="utf-8")
    (root / "_toc.yml").write_text(TOC, encoding="utf-8")
    (root / "_config.yml").write_text(CONFIG, encoding="utf-8")
    (root / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    return root / "_build" / "book.pdf"


def outline_of(pdf: PdfReader) -> list[tuple[str, int]]:
    """Return the bookmarks with the names of those above them, and their page numbers."""
    front = sum(not label.isdigit() for label in pdf.page_labels)

    def walk(items, above):
        title = ""
        for item in items:
            if isinstance(item, list):
                yield from walk(item, f"{title} / ")
            else:
                title = above + item.title
                yield title, pdf.get_destination_page_number(item) + 1 - front

    return list(walk(pdf.outline, ""))


def links_of(pdf: PdfReader) -> list[tuple[str, int | str]]:
    """Return where each link is, and where it leads."""
    front = sum(not label.isdigit() for label in pdf.page_labels)
    numbers = {page.indirect_reference.idnum: i for i, page in enumerate(pdf.pages)}
    found: list[tuple[str, int | str]] = []
    for label, page in zip(pdf.page_labels, pdf.pages, strict=True):
        for reference in page.get("/Annots", []):
            annotation = reference.get_object()
            if "/Dest" in annotation:
                target = list.__getitem__(annotation["/Dest"], 0)  # the reference itself
                found.append((label, numbers[target.idnum] + 1 - front))
            else:
                found.append((label, str(annotation["/A"]["/URI"])))
    return found


def faults_of(path: Path) -> list[str]:
    """Return what is wrong with the PDF of the small book."""
    pdf = PdfReader(path)
    faults = []
    if (found := outline_of(pdf)) != OUTLINE:
        faults.append(f"bookmarks: {found}")
    if (found := links_of(pdf)) != LINKS:
        faults.append(f"links: {found}")
    for label, page in zip(pdf.page_labels, pdf.pages, strict=True):
        number = re.match(r"\d*", page.extract_text())[0]  # the foot of a page comes first
        if label.isdigit() and number != label:
            faults.append(f"numbers: page {label} says {number}")
    return faults


def restart(monkeypatch) -> None:
    monkeypatch.setattr(tool, "FOOTER", tool.FOOTER.replace("{before}", "0"))


def no_destinations(monkeypatch) -> None:
    monkeypatch.setattr(tool, "NAME_DESTINATIONS", "() => 0")


def no_sections(monkeypatch) -> None:
    monkeypatch.setattr(tool, "HEADINGS", ("h1",))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (None, ""),
        (restart, "numbers"),
        (no_destinations, "links"),
        (no_sections, "bookmarks"),
    ],
)
def test_bookmarks_links_and_page_numbers(monkeypatch, tmp_path, change, fault):
    browser_or_skip()
    output = write_book(tmp_path)
    if change is not None:
        change(monkeypatch)
    count = make_pdf(tmp_path, output)
    faults = faults_of(output)
    assert count == len(PdfReader(output).pages)
    assert bool(faults) == bool(fault), faults
    assert any(each.startswith(fault) for each in faults) or not fault
    if not fault:
        assert {path.name for path in output.parent.iterdir()} == {"html", "book.pdf"}


@pytest.mark.browser
def test_title_page_metadata_and_a_selection(monkeypatch, tmp_path):
    browser_or_skip()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    output = write_book(tmp_path)
    make_pdf(tmp_path, output, ["two"])
    pdf = PdfReader(output)
    title = pdf.pages[0].extract_text()
    for said in ["A book", "Of pages", "Ada", "Version 1.2", "2 January 1970", "CC BY 4.0"]:
        assert said in title
    assert pdf.metadata.title == "A book"
    assert pdf.metadata.author == "Ada"
    assert pdf.metadata.creation_date_raw.startswith("D:19700102")
    # Links to pages that are not in this PDF are gone; no link leads to a file.
    assert links_of(pdf) == [("ii", 1)]


def test_without_a_browser(monkeypatch, tmp_path, capsys):
    output = write_book(tmp_path)
    output.write_text("the PDF of yesterday")
    monkeypatch.setenv("ATTENTIVELY_BROWSER", str(tmp_path / "none"))
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.main([]) == 1
    said = capsys.readouterr().err
    assert "apt install chromium" in said
    assert "ATTENTIVELY_BROWSER" in said
    assert output.read_text() == "the PDF of yesterday"


def test_without_the_built_book(tmp_path):
    output = write_book(tmp_path)
    (tmp_path / "_build" / "html" / "book" / "more.html").unlink()
    with pytest.raises(tool.PdfError, match=r"lacks book/more\.html\. Run `make book`"):
        make_pdf(tmp_path, output)


def test_a_page_that_is_not_listed(tmp_path):
    with pytest.raises(tool.PdfError, match="no page three; it has: index, one, more, two"):
        make_pdf(tmp_path, write_book(tmp_path), ["three"])


@pytest.mark.browser
def test_an_interrupted_run_leaves_the_earlier_pdf(monkeypatch, tmp_path):
    browser_or_skip()
    output = write_book(tmp_path)
    output.write_text("the PDF of yesterday")

    def full_disk(self, stream):
        Path(stream).write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr("pypdf.PdfWriter.write", full_disk)
    with pytest.raises(OSError, match="no space left"):
        make_pdf(tmp_path, output, ["one"])
    assert output.read_text() == "the PDF of yesterday"
    assert {path.name for path in output.parent.iterdir()} == {"html", "book.pdf"}


@pytest.mark.slow
@pytest.mark.browser
def test_two_pages_of_the_book(tmp_path):
    """No link to a file remains, and the answers of the quiz come after everything else."""
    browser_or_skip()
    if not (ROOT / "_build" / "html" / "book" / "18_why_it_wins.html").is_file():
        pytest.skip("the book is not built: make book")
    output = tmp_path / "book.pdf"
    make_pdf(ROOT, output, ["18_why_it_wins", "models_compared"])
    pdf = PdfReader(output)
    titles = [title for title, _ in outline_of(pdf)]
    assert any(title.endswith("/ Check yourself") for title in titles)
    leads = [target for _, target in links_of(pdf)]
    assert sum(isinstance(target, int) for target in leads) > 10
    assert not [target for target in leads if str(target).startswith("file:")]
    text = "\n".join(page.extract_text() for page in pdf.pages)
    answers = text.index("\nAnswers\n")
    assert text.index("Further reading") < answers < text.index("Not so.")
