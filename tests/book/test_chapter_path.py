"""The chapter-path directive and the table of chapters in the front page, its only source."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

import chapter_path  # noqa: E402

HEAD = ["| | chapter | question |", "|---|---|---|"]
PART = "| | **I · Words** | |"
CHAPTER = "| 01 | [One](one.md) | What is one? |"


def front_page() -> list[chapter_path.Part]:
    return chapter_path.read_table((ROOT / "book" / "index.md").read_text().splitlines())


def test_the_parts_and_chapters_are_those_of_the_table_of_contents():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    listed = {part["caption"]: part["chapters"] for part in toc["parts"]}
    for part in front_page():
        pages = [Path(entry["file"]).name for entry in listed[part.title]]
        assert [each.page for each in part.chapters] == [
            name for name in pages if re.match(r"\d\d_", name)
        ]
    numbers = [each.number for part in front_page() for each in part.chapters]
    assert numbers == [f"{number:02}" for number in range(22)]


def test_each_part_has_a_pictogram():
    found = [chapter_path.NUMERAL.match(part.title) for part in front_page()]
    assert {match["numeral"] if match else "" for match in found} == set(chapter_path.PICTOGRAMS)


def test_a_table_is_read():
    [part] = chapter_path.read_table(["text", *HEAD, PART, CHAPTER, "", "| 02 | more | text |"])
    assert part == ("I · Words", (("01", "One", "one", "What is one?"),))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no table"),
        ([CHAPTER], "expected a part"),
        ([PART, "| 01 | One | What is one? |"], "expected a part"),
        ([PART, "| 01 | [One](one.md) | |"], "expected a part"),
        ([PART, "| 01 |"], "not three cells"),
    ],
)
def test_a_wrong_table_is_an_error(rows, message):
    with pytest.raises(ValueError, match=message):
        chapter_path.read_table([*HEAD, *rows])


def test_the_page_has_links_and_questions(tmp_path):
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(EXTENSIONS)!r})\n"
        "extensions = ['myst_parser', 'chapter_path']\nmyst_enable_extensions = ['colon_fence']\n"
    )
    table = "\n".join([*HEAD, PART, CHAPTER])
    (tmp_path / "index.md").write_text(f"# Index\n\n:::{{chapter-path}}\n{table}\n:::\n")
    (tmp_path / "one.md").write_text("---\norphan: true\n---\n# One\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", tmp_path, tmp_path / "html"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    html = (tmp_path / "html" / "index.html").read_text()
    assert 'href="one.html"' in html
    assert "What is one?" in html
    assert '<span class="path-number">01</span>' in html
    assert "front.css" in html
    assert "front.css" not in (tmp_path / "html" / "one.html").read_text()
