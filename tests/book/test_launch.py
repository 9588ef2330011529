"""The buttons for Colab and Binder follow from the address of the repository."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
import launch  # noqa: E402

NAME = "08_additive_attention"


def shown(address, page=f"book/{NAME}"):
    """Return the buttons of a page as addresses by text."""
    options = {"repository_url": address, "repository_branch": "main"}
    app = SimpleNamespace(srcdir=ROOT, config=SimpleNamespace(html_theme_options=options))
    context = {"header_buttons": []}
    launch.add_buttons(app, page, "page.html", context, None)
    return {
        each["text"]: each["url"]
        for group in context["header_buttons"]
        for each in group["buttons"]
    }


@pytest.mark.parametrize("end", ["", "/", ".git"])
def test_a_chapter_has_three_buttons(end):
    assert shown(f"https://github.com/ada/attentively{end}") == {
        "Chapter in Colab": "https://colab.research.google.com/github/ada/attentively/blob/colab/"
        f"book/{NAME}.ipynb",
        "Exercise in Colab": "https://colab.research.google.com/github/ada/attentively/blob/colab/"
        f"exercises/{NAME}.ipynb",
        "Exercise in Binder": "https://mybinder.org/v2/gh/ada/attentively/main"
        f"?urlpath=lab/tree/work/{NAME}/{NAME}.ipynb",
    }


def test_without_an_address_or_elsewhere_than_on_github_there_is_none():
    assert shown("") == shown(None) == shown("https://gitlab.com/ada/attentively") == {}


def test_only_chapters_have_buttons():
    address = "https://github.com/ada/attentively"
    assert shown(address, "book/glossary") == {}
    assert list(shown(address, "book/99_unknown")) == ["Chapter in Colab"]
