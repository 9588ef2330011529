"""The bibliography: every entry is cited and complete, every citation has its entry."""

import re
import unicodedata
from pathlib import Path

import pytest
from pybtex.database import BibliographyData, Entry, parse_string

BOOK = Path(__file__).resolve().parents[2] / "book"
CITATION = re.compile(r"\{cite(?::\w+)?\}`([^`]+)`")
VENUE = {
    "article": "journal",
    "inproceedings": "booktitle",
    "book": "publisher",
    "techreport": "institution",
    "misc": "url",
}


def cited(text: str) -> set[str]:
    """Return the keys that a page cites."""
    return {key.strip() for match in CITATION.finditer(text) for key in match[1].split(",")}


def lacks(entry: Entry) -> list[str]:
    """Return what an entry should say and does not."""
    wanted = ["title", "year", VENUE.get(entry.type, "a known type")]
    found = [name for name in wanted if not entry.fields.get(name, "").strip()]
    if not entry.persons.get("author"):
        found.append("author")
    printed_only = entry.type == "article" and {"volume", "pages"} <= set(entry.fields)
    if not {"url", "doi"} & set(entry.fields) and not printed_only:
        found.append("url or doi")
    return found


def loses_case(title: str) -> list[str]:
    """Return the words that the style would write small: names and acronyms want braces.

    Titles are set in lower case after their first word, except what stands in braces.
    """
    plain = title
    while (bare := re.sub(r"\{[^{}]*\}", "", plain)) != plain:
        plain = bare
    return re.findall(r"(?<=\W)(?:I|\w*[A-Z]\w*[A-Z]\w*|Transformers?)\b", plain)


def misnamed(key: str, entry: Entry) -> bool:
    """Say whether a key is not the first author's family name and the year."""
    family = "".join(entry.persons["author"][0].last_names)
    plain = unicodedata.normalize("NFKD", family).encode("ascii", "ignore").decode().lower()
    name = f"{re.sub('[^a-z]', '', plain)}{entry.fields['year']}"
    return not re.fullmatch(rf"{name}[a-z]*", key)


def poorly_annotated(entry: Entry) -> str:
    """Say what is wrong with the sentence on what the work is for; nothing if all is well."""
    annotation = " ".join(entry.fields.get("annotation", "").split())
    count = len(annotation.split())
    if not annotation:
        return "no annotation"
    if not 4 <= count <= 25:
        return f"an annotation of {count} words instead of 4 to 25"
    if not re.fullmatch(r"[A-Z].*[^.]\.", annotation):
        return "an annotation that is not a sentence: a capital letter first, a full stop last"
    return ""


@pytest.fixture(scope="module")
def entries() -> BibliographyData:
    text = (BOOK / "references.bib").read_text(encoding="utf-8")
    return parse_string(text, "bibtex").entries


def test_every_entry_is_cited_and_every_citation_has_an_entry(entries):
    pages = sorted(BOOK.glob("*.md"))
    keys = set().union(*(cited(page.read_text(encoding="utf-8")) for page in pages))
    assert len(keys) > 60
    assert set(entries) - keys == set(), "no page cites these"
    assert keys - set(entries) == set(), "references.bib lacks these"


def test_every_entry_is_complete(entries):
    assert {key: what for key, entry in entries.items() if (what := lacks(entry))} == {}


def test_every_entry_says_what_the_work_is_for(entries):
    faults = {key: fault for key, entry in entries.items() if (fault := poorly_annotated(entry))}
    listed = "\n".join(f"  {key}: {fault}" for key, fault in faults.items())
    assert not faults, (
        f"{len(faults)} entries of references.bib have a faulty annotation:\n{listed}"
    )


def test_no_two_works_have_one_annotation(entries):
    said = [entry.fields.get("annotation", key) for key, entry in entries.items()]
    assert sorted(said) == sorted(set(said))


def test_titles_keep_their_names_and_acronyms(entries):
    titles = {key: loses_case(entry.fields["title"]) for key, entry in entries.items()}
    assert {key: words for key, words in titles.items() if words} == {}


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("On NMT Search Errors", ["NMT"]),
        ("Why Should I Trust {You}", ["I"]),
        ("The {\\'E}cole of the Transformer and {BERT}", ["Transformer"]),
        ("Understanding PaLM and its {BLEU}", ["PaLM"]),
        ("Attention Is All You Need", []),
        ("{BLEU}: a Method", []),
    ],
)
def test_a_word_that_the_style_writes_small_is_seen(title, words):
    assert loses_case(title) == words


def test_every_key_is_a_name_and_a_year(entries):
    assert [key for key, entry in entries.items() if misnamed(key, entry)] == []


def test_no_address_stands_twice(entries):
    """Two entries with one address are one paper, or one of them has the wrong address."""
    addresses = [entry.fields["url"] for entry in entries.values() if "url" in entry.fields]
    assert sorted(addresses) == sorted(set(addresses))
    assert [address for address in addresses if not address.startswith("https://")] == []


def test_citations_are_read_as_the_pages_write_them():
    text = "See {cite:t}`hahn2020` and {cite:p}`he2016, ba2016`; {cite}`post2018`, not `vig2020`."
    assert cited(text) == {"hahn2020", "he2016", "ba2016", "post2018"}


COMPLETE = """@inproceedings{doe2020,
  author = {Doe, Ann and Roe, Bo},
  title = {A Title},
  booktitle = {Proceedings},
  year = {2020},
  url = {https://arxiv.org/abs/2001.00001}
}"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("  author = {Doe, Ann and Roe, Bo},\n", ["author"]),
        ("  title = {A Title},\n", ["title"]),
        ("  booktitle = {Proceedings},\n", ["booktitle"]),
        ("  year = {2020},\n", ["year"]),
        (",\n  url = {https://arxiv.org/abs/2001.00001}", ["url or doi"]),
    ],
)
def test_what_an_entry_lacks_is_named(line, said):
    def only(text):
        return parse_string(text, "bibtex").entries["doe2020"]

    assert lacks(only(COMPLETE)) == []
    assert line in COMPLETE
    assert lacks(only(COMPLETE.replace(line, ""))) == said


@pytest.mark.parametrize(
    ("annotation", "fault"),
    [
        ("", "no annotation"),
        ("Introduces additive attention.", "3 words"),
        (f"Introduces {'very ' * 24}much.", "26 words"),
        ("Introduces additive attention for translation", "full stop"),
        ("Introduces additive attention for translation...", "full stop"),
        ("introduces additive attention for translation.", "capital letter"),
        ("Introduces additive attention for translation.", ""),
    ],
)
def test_a_poor_annotation_is_named(annotation, fault):
    line = f"  annotation = {{{annotation}}},\n" if annotation else ""
    text = COMPLETE.replace("  url =", f"{line}  url =")
    found = poorly_annotated(parse_string(text, "bibtex").entries["doe2020"])
    assert fault in found
    assert bool(found) == bool(fault)


@pytest.mark.parametrize("key", ["roe2020", "doe2021", "doe20", "doe"])
def test_a_wrong_key_is_seen(key):
    entry = parse_string(COMPLETE, "bibtex").entries["doe2020"]
    assert not misnamed("doe2020", entry)
    assert not misnamed("doe2020title", entry)
    assert misnamed(key, entry)
