"""The bibliography says under each entry what the work is for, and which pages cite it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
CONF = """
import sys
sys.path.insert(0, {extensions!r})
extensions = ["myst_parser", "sphinxcontrib.bibtex", "annotated_bibliography"]
bibtex_bibfiles = ["references.bib"]
bibtex_reference_style = "author_year"
bibtex_default_style = "plain"
"""
ENTRIES = r"""
@misc{doe2019,
  author = {Doe, Ann}, title = {First}, year = {2019},
  annotation = {Introduces the {GRU} of Elman--Doe \& Roe.},
  url = {https://arxiv.org/abs/1901.00001}
}
@misc{roe2020,
  author = {Roe, Bo}, title = {Second}, year = {2020},
  annotation = {Compares it with others.},
  url = {https://arxiv.org/abs/2001.00001}
}
@misc{poe2021, author = {Poe, Cy}, title = {Third}, year = {2021}, note = {Uncited}}
"""
PAGES = {
    "index.md": "# Book\n\n```{toctree}\n09_last\n08_first\nextra\nbibliography\n```\n",
    "08_first.md": "# First chapter\n\n{cite:t}`doe2019`, and again {cite:p}`doe2019`.\n",
    "09_last.md": "# Last chapter\n\nSee {cite:p}`roe2020, doe2019`.\n",
    "extra.md": "# Extra page\n\n| a table |\n|---|\n| {cite:t}`roe2020` |\n",
    "bibliography.md": "# Bibliography\n\n```{bibliography}\n:all:\n```\n",
}


def build(folder: Path, extensions: Path = EXTENSIONS, **changed: str) -> dict[str, BeautifulSoup]:
    """Build a small book, or build it again with changed pages; return its pages."""
    (folder / "conf.py").write_text(CONF.format(extensions=str(extensions)), encoding="utf-8")
    for name, text in {"references.bib": ENTRIES, **PAGES}.items():
        text = changed.get(name.removesuffix(".md"), text)
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", ".", "html"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert built.returncode == 0, built.stdout + built.stderr
    return {
        page.stem: BeautifulSoup(page.read_text(encoding="utf-8"), "lxml")
        for page in (folder / "html").glob("*.html")
    }


def entries(pages: dict[str, BeautifulSoup]) -> dict[str, list[str]]:
    """Return the paragraphs under each entry after the entry itself."""
    return {
        entry["id"]: [" ".join(p.get_text().split()) for p in entry.find_all("p")[1:]]
        for entry in pages["bibliography"].select("div.citation")
    }


EXPECTED = [
    ["Introduces the GRU of Elman–Doe & Roe.", "Cited in 09, 08."],  # as in the table of contents
    [],
    ["Compares it with others.", "Cited in 09, Extra page."],
]


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> dict[str, BeautifulSoup]:
    return build(tmp_path_factory.mktemp("book"))


def test_each_entry_has_its_annotation_and_the_pages_that_cite_it(book):
    assert list(entries(book).values()) == EXPECTED


def test_each_link_leads_to_the_first_citation_of_the_work_on_its_page(book):
    links = book["bibliography"].select("p.cited-in a")
    assert [link["title"] for link in links] == [
        *("Last chapter", "First chapter"),
        *("Last chapter", "Extra page"),
    ]
    for link in links:
        name, anchor = re.fullmatch(r"(\w+)\.html#(.+)", link["href"]).groups()
        entry = link.find_parent(class_="citation")
        first = book[name].select_one(f'a[href="bibliography.html#{entry["id"]}"]')
        assert first.find_parent(id=anchor) is not None


def test_citations_are_unchanged(book):
    for name in ("08_first", "09_last", "extra", "bibliography"):
        for link in book[name].select('a[href*="bibliography.html#"]'):
            assert "Introduces" not in str(link)
            assert "Compares" not in str(link)
    assert book["08_first"].select_one("p").get_text() == "Doe [2019], and again [Doe, 2019]."


def broken_extensions(folder: Path, broken: str, by: str) -> Path:
    """Return a copy of the extensions in which a part of this one is replaced."""
    copy = folder / "_ext"
    shutil.copytree(EXTENSIONS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = copy / "annotated_bibliography.py"
    source = file.read_text(encoding="utf-8")
    assert broken in source
    file.write_text(source.replace(broken, by), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("broken", "by"),
    [
        ("default_priority = 6", "default_priority = 4"),
        ("Text.from_latex(annotation)", "Text(annotation)"),
        ("setdefault(citation.docname, citation.citation_ref_id)", "pop(citation.docname, None)"),
        ("order[each.docname]", "each.docname"),
        ("if chapter is None else", "if True else"),
        ('classes=["annotation"]', 'classes=["other"]'),
    ],
)
def test_a_broken_extension_is_seen(tmp_path, broken, by):
    copy = broken_extensions(tmp_path, broken, by)
    folder = tmp_path / "book"
    folder.mkdir()
    pages = build(folder, copy)
    with_class = len(pages["bibliography"].select("p.annotation")) == 2
    assert list(entries(pages).values()) != EXPECTED or not with_class


@pytest.mark.parametrize("works", [True, False])
def test_a_change_on_a_chapter_reaches_the_bibliography(tmp_path, works):
    line = '    app.connect("env-updated", outdated)\n'
    copy = broken_extensions(tmp_path, line, line if works else "")
    folder = tmp_path / "book"
    folder.mkdir()
    build(folder, copy)
    changed = build(folder, copy, extra="# Extra page\n\nNothing is cited here.\n")
    assert (entries(changed).popitem()[1][-1] == "Cited in 09.") is works
