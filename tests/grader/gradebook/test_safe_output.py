"""What a student's code shows can do nothing in a browser, and honest outputs look as before."""

import base64
import time

import nbformat
import pytest

from attentively_grader.gradebook import safe_output

HARMFUL = {
    "script": "<script>alert(1)</script>",
    "upper case": "<SCRIPT SRC=//x></SCRIPT>",
    "unclosed script": "<script>alert(1)",
    "event": "<img src=x onerror=alert(1)>",
    "event behind a slash": "<img/src=x/onerror=alert(1)>",
    "event in quotes": "<b title='x'onclick=alert(1)>b</b>",
    "frame": "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "link": "<a href='javascript:alert(1)'>x</a>",
    "link in pieces": "<a href='java\tscript:alert(1)'>x</a>",
    "link in entities": "<a href='&#106;avascript:alert(1)'>x</a>",
    "page as data": "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
    "picture as page": "<img src='data:text/html;base64,AAAA'>",
    "drawing": "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "mathematics": "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "style": "<style>body {display: none}</style>",
    "style of a tag": "<div style='position:fixed;top:0'>x</div>",
    "style from the net": "<div style='color: url(//x)'>x</div>",
    "class of the page": "<div class='panel-heading'>Score 100</div>",
    "form": "<form action=//x><input name=password></form>",
    "base": "<base href=//x>",
    "refresh": "<meta http-equiv=refresh content='0;url=//x'>",
    "object": "<object data=//x></object><embed src=//x>",
    "comment": "<!--[if IE]><script>alert(1)</script><![endif]-->",
    "template": "<template><img src=x onerror=alert(1)></template>",
    "noscript": "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "closes the page": "</div></div></body></html><script>alert(1)</script>",
    "id": "<a name=top id=notebook>x</a>",
}
FORBIDDEN = ("<script", "onerror", "onclick", "onload", "javascript:", "<iframe", "<svg", "<form")
FORBIDDEN += ("<style", "<base", "<meta", "<object", "<embed", "data:text", "position", "url(")
FORBIDDEN += ("panel-heading", "<math", "<template", "<noscript", "<!--", "</body", "id=", "name=")


def without_text(html):
    """Return the tags alone."""
    return "".join(f"<{each.split('>')[0]}>" for each in html.split("<")[1:])


@pytest.mark.parametrize("html", HARMFUL.values(), ids=HARMFUL)
def test_html_that_acts_is_taken_out(html):
    """Case 35."""
    tags = without_text(safe_output.clean_html(f"<p>before</p>{html}<p>after</p>")).lower()
    assert not [word for word in FORBIDDEN if word in tags]
    assert "<p>" in tags


def test_a_table_stays_a_table():
    table = (
        '<table border="1" class="dataframe"><thead><tr style="text-align: right"><th>a &lt; b</th>'
        "</tr></thead><tbody><tr><td>1</td></tr></tbody></table>"
    )
    assert safe_output.clean_html(table) == table
    assert (
        safe_output.clean_html("<div><style scoped>.a {}</style>1 < 2</div>")
        == "<div>1 &lt; 2</div>"
    )


def test_what_is_opened_is_closed_and_no_more():
    assert safe_output.clean_html("<b><i>x") == "<b><i>x</i></b>"
    assert safe_output.clean_html("</div></div>x<br>") == "x<br>"
    assert safe_output.clean_html("<b>" * 1000).count("<b>") == safe_output.DEEPEST


@pytest.mark.parametrize(
    "bomb",
    [
        "<b>" * 80_000,
        "<" * 250_000,
        "<a " * 80_000,
        "<!--" * 60_000,
        "&" * 250_000,
        "<a x='" * 40_000,
        "<" + "a" * 250_000,
        "<a" * 120_000,
        "<a " + "a" * 250_000,
        "<img " + "a " * 120_000 + ">",
        "<img a" + " " * 250_000 + ">",
        "<img " + "a=" * 120_000 + ">",
        "<img a" + " =" * 120_000 + ">",
        "<img " + "a='" * 80_001 + ">",
        " on" + "a" * 250_000,
        "data:" + " " * 250_000,
        "&#" + "9" * 250_000,
        "<a style=" + " " * 250_000,
        "<a style='" + "color:a;" * 30_000,
        "<a" + " style=" * 40_000,
        "<a style='color:" + "a" * 250_000,
        "<img alt='&#" + "9" * 250_000 + "'>",
    ],
    ids=lambda bomb: f"{bomb[:8]}-{len(bomb)}",
)
def test_no_text_takes_for_ever(bomb):
    """A tenth of a second each; were it quadratic, minutes. The time of other processes is not
    counted."""
    started = time.process_time()
    safe_output.clean_html(bomb)
    safe_output.markdown(bomb)
    assert time.process_time() - started < 5


def test_a_number_of_any_length_may_stand_for_a_character():
    """Python reads no number of more than 4,300 digits."""
    assert safe_output.clean_html(f"a&#{'9' * 5000};b") == "a\N{REPLACEMENT CHARACTER}b"
    hidden = f"[x](&#{'0' * 5000}106;avascript:alert(1))"
    assert safe_output.markdown(hidden).startswith("*This text contains active HTML")


@pytest.mark.parametrize(
    "name", ["script", "event", "frame", "link", "drawing", "form", "page as data"]
)
def test_markdown_with_active_html_is_shown_as_text(name):
    shown = safe_output.markdown(f"My answer\n\n{HARMFUL[name]}\n\n~~~~\ncode\n~~~~")
    assert shown.startswith("*This text contains active HTML")
    assert "~~~~~text\nMy answer" in shown


@pytest.mark.parametrize(
    "html",
    [
        '<a href="java&Tab;script:alert(1)">x</a>',
        '<a href="java\tscript:alert(1)">x</a>',
        '<a href="java\nscript:alert(1)">x</a>',
        '<a href="&#1;javascript&NewLine;:alert(1)">x</a>',
        "[x](<java&NewLine;script:alert(1)>)",
        '<a href="vbscript&Tab;:x">x</a>',
        '<a href="da&Tab;ta:text/html,x">x</a>',
        '<div style="position:fixed;inset:0">cover</div>',
        '<div title=">" style="color: red; position: fixed">cover</div>',
        "<div style='color:red;background:url(//x)'>x</div>",
        '<a ping="http://x" href="http://y">x</a>',
        '<img srcset="http://x 2x">',
    ],
)
def test_markdown_that_hides_what_it_does_is_shown_as_text(html):
    """A browser leaves tabs and ends of lines out of an address."""
    assert safe_output.markdown(f"My answer: {html}").startswith("*This text contains active HTML")


@pytest.mark.parametrize(
    "source",
    [
        "Because $a < b$ and *c* > d.",
        '<span style="color: red; font-weight: bold">red</span>',
        "<span style='color:#f00'>red</span> and <b style=color:red>bold</b>",
        "`plot(x, style='--')`",
        "In Java\na script",
        "a <b>bold</b> word<br>",
        "<details>x</details>",
        "on = 1, a<b",
    ],
)
def test_plain_markdown_stays(source):
    assert safe_output.markdown(source) == source


PNG = base64.b64encode(b"\x89PNG").decode()


def shown(**data):
    return {"output_type": "display_data", "data": data, "metadata": {"x": "<script>"}}


def test_known_kinds_of_output_stay_and_others_go():
    data = {
        "text/plain": "plain",
        "text/html": "<b onclick=x>bold</b>",
        "image/png": PNG,
        "text/latex": "$a < b$",
        "application/javascript": "alert(1)",
        "application/vnd.jupyter.widget-view+json": {"a": 1},
    }
    (kept,) = safe_output.outputs([shown(**data)])
    assert kept["metadata"] == {}
    assert kept["data"] == {
        "text/plain": "plain",
        "text/html": "<b>bold</b>",
        "image/png": PNG,
        "text/latex": r"$a \lt  b$",
    }


def test_a_picture_is_a_picture():
    assert safe_output.outputs([shown(**{"image/png": '"><script>alert(1)</script>'})]) == []
    svg = "<svg onload=alert(1)></svg>"
    (kept,) = safe_output.outputs([shown(**{"image/svg+xml": svg})])
    assert kept["data"]["text/html"].startswith(
        '<img alt="a drawing" src="data:image/svg+xml;base64'
    )
    assert "onload" not in kept["data"]["text/html"]


ODD = [
    {}, {"output_type": "stream"}, {"output_type": "stream", "text": 1, "name": "<b>"},
    {"output_type": "error", "ename": None, "evalue": [1], "traceback": "x"},
    {"output_type": "display_data", "data": []}, {"output_type": "update"},
    {"output_type": "stream", "name": "stdout", "text": "\ud800\0\x1b[31m\u202e"},
]  # fmt: skip


def test_odd_outputs_become_valid_ones():
    """Case 36: halves of characters, NUL, marks of direction."""
    kept = safe_output.outputs(ODD)
    cell = nbformat.v4.new_code_cell(outputs=nbformat.from_dict(kept))
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    assert nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).encode()


def test_endless_output_is_cut():
    """Case 34."""
    (kept,) = safe_output.outputs(
        [{"output_type": "stream", "name": "stdout", "text": "a" * 30_000_000}]
    )
    assert len(kept["text"]) < 2**20 + 100
    assert kept["text"].endswith("... truncated here ...")
    many = [{"output_type": "stream", "name": "stdout", "text": "a" * 2**20}] * 100
    kept = safe_output.outputs(many)
    assert len(kept) == 25
    assert "too large" in kept[-1]["text"]
