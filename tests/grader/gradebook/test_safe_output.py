"""What a student's code shows can do nothing in a browser, and honest outputs look as before."""

import base64
import time
from functools import cache

import nbformat
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, settings
from hypothesis import strategies as st
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

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


def acts(html):
    """Return the tags and attributes that are not allowed, as a parser of HTML finds them."""
    found = []
    for tag in BeautifulSoup(html, "html.parser").find_all(True):
        found += [tag.name] * (tag.name not in safe_output.TAGS)
        for name, value in tag.attrs.items():
            value = " ".join(value) if isinstance(value, list) else value
            address = "".join(value.split()).lower()
            bad = name not in {*safe_output.ATTRIBUTES, "href", "src", "class"}
            bad |= name == "style" and ("position" in value or "url(" in value)
            bad |= name == "class" and "panel" in value
            bad |= name in ("href", "src") and address.startswith(SCHEMES)
            found += [f"{name}={value}"] * bad
    return found


SCHEMES = ("javascript:", "vbscript:", "data:text", "data:application", "file:")


@pytest.mark.parametrize("html", HARMFUL.values(), ids=HARMFUL)
def test_html_that_acts_is_taken_out(html):
    """Case 35."""
    assert acts(html) or "<!--" in html or "src=x/" in html
    clean = safe_output.clean_html(f"<p>before</p>{html}<p>after</p>")
    assert not acts(clean)
    assert "<!--" not in clean
    assert "<p>before</p>" in clean


def test_a_table_stays_a_table():
    table = (
        '<table border="1" class="dataframe"><thead><tr style="text-align: right"><th>a &lt; b</th>'
        "</tr></thead><tbody><tr><td>1</td></tr></tbody></table>"
    )
    clean = safe_output.clean_html(table)
    assert BeautifulSoup(clean, "html.parser") == BeautifulSoup(
        table.replace("text-align: right", "text-align:right"), "html.parser"
    )
    assert (
        safe_output.clean_html("<div><style scoped>.a {}</style>1 < 2</div>")
        == "<div>1 &lt; 2</div>"
    )


def test_what_is_opened_is_closed_and_no_more():
    assert safe_output.clean_html("<b><i>x") == "<b><i>x</i></b>"
    assert safe_output.clean_html("</div></div>x<br>") == "x<br>"
    assert safe_output.clean_html("<b>" * 1000).count("<b>") == 0  # too deep: shown as text


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
    assert not acts(formgraders(hidden))


FENCE = "~" * 3
ATTACKS = {
    **HARMFUL,
    "link in Markdown": "[x](javascript:alert(1))",
    "upper case in Markdown": "[x](JaVaScRiPt:alert(1))",
    "escaped": "[x](javascript\\:alert(1))",
    "entity": "[x](javascript&colon;alert(1))",
    "tab as entity": "[x](jav&#x09;ascript:alert(1))",
    "new line as entity": "[x](<java&NewLine;script:alert(1)>)",
    "number": "[x](&#106;avascript:alert(1))",
    "long number": "[x](&#0000000000000106;avascript:alert(1))",
    "reference": "[x][y]\n\n[y]: javascript:alert(1)",
    "reference with entity": "[x]\n\n[x]: <java&Tab;script:alert(1)>",
    "autolink": "<javascript:alert(1)>",
    "picture": "![x](javascript:alert(1))",
    "page as data in Markdown": "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "other script": "[x](vbscript:x) [y](file:///etc/passwd)",
    "tab in a tag": '<a href="jav&#x09;ascript:alert(1)">x</a>',
    "control character": '<a href="&#1;javascript&NewLine;:alert(1)">x</a>',
    "line break in a tag": '<a href="java\nscript:alert(1)">x</a>',
    "button": '<button class="full-credit">Full credit</button>',
    "class of the button": '<span class="btn full-credit">Full credit</span>',
    "score of another part": '<b id="check-1" class="score">100</b>',
    "score as heading": "# check-1",
    "score as underlined heading": "check-1\n=======",
    "data attribute": '<a data-link="x" data-toggle="tooltip">x</a>',
    "ping": '<a ping="http://x" href="http://y">x</a>',
    "set of pictures": '<img srcset="http://x 2x">',
    "diagram": f'{FENCE}mermaid\ngraph TD; A-->B; click A "javascript:alert(1)"\n{FENCE}',
    "missing attachment": "![x](attachment:none.png)",
    "fence in a fence": f"~{FENCE}\n{FENCE}\n~{FENCE}\n<script>alert(1)</script>",
    "ends the fence": f"{FENCE}\ncode\n{FENCE}\n<img src=x onerror=alert(1)>",
    "ends the block": "<div>a</div>&#13;&#13;[x](javascript:alert(1))",
    "blank line in a block": "<div>\n\n[x](javascript:alert(1))\n\n</div>",
    "code that is a link": "<b>x</b> `[x](javascript:alert(1))`\n\n    <script>",
    "text that is a link": "<b>x</b> \\[x\\](javascript:alert(1)) &lt;script&gt;",
    "in mathematics": "$$\n<img src=x onerror=alert(1)>\n$$ <b>x</b>",
    "heading with HTML": '# <img src=x onerror="alert(1)">',
    "table": "|a|b|\n|-|-|\n|<script>alert(1)</script>|[x](javascript:a)|",
    "title of a link": "[x](http://a \"' onclick=alert(1) x='\")<b onclick=x>",
}


@cache
def formgrader():
    config = Config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    return HTMLExporter(config=config)


def shown_by_formgrader(source, kind="markdown"):
    """Return what Formgrader shows of a cell, with its own template."""
    make = {"markdown": nbformat.v4.new_markdown_cell, "raw": nbformat.v4.new_raw_cell}[kind]
    notebook = nbformat.v4.new_notebook(cells=[make(source)])
    names = ("assignment_id", "notebook_id", "submission_id", "student", "notebook_path")
    resources = dict.fromkeys((*names, "base_url"), "x") | {"index": 0, "total": 1}
    page = formgrader().from_notebook_node(notebook, resources=resources)[0]
    container = BeautifulSoup(page, "html.parser").find(id="notebook-container")
    return container


def formgraders(source):
    stored = safe_output.markdown(source, reserved={"check-1"})
    return shown_by_formgrader(stored).find(class_="rendered_html").decode_contents()


@pytest.mark.parametrize("source", ATTACKS.values(), ids=ATTACKS)
def test_a_written_answer_is_inert_in_formgrader(source):
    page = formgraders(f"{source}\n\nMy answer")
    assert not acts(page)
    assert "<!--" not in page
    assert "My answer" in page
    stored = safe_output.markdown(source, reserved={"check-1"})
    assert safe_output.markdown(stored, reserved={"check-1"}) == stored


def test_attacks_act_without_cleaning():
    """The test above can fail."""
    names = ("link in Markdown", "reference", "button", "score as heading", "ends the fence")
    for name in names:
        page = shown_by_formgrader(ATTACKS[name]).find(class_="rendered_html")
        assert acts(page.decode_contents())


def test_a_raw_cell_is_text_in_formgrader():
    attack = '<b id="check-1" class="full-credit">x</b> &lt;'
    assert shown_by_formgrader(attack, "raw").find(id="check-1")
    stored = safe_output.raw(attack)
    assert not shown_by_formgrader(stored, "raw").find(id="check-1")
    assert safe_output.raw(stored) == stored


PLAIN = [
    "Because $a < b$ and *c* > d.",
    "`plot(x, style='--')`",
    "In Java\na script",
    "on = 1, a<b",
    "# Answer\n\n## Part *two*\n\nText",
    "| a | b |\n|:-:|--:|\n| $x$ | `y` |",
    f"{FENCE}python\ndef f():\n    return '<b>'\n{FENCE}",
    f"{FENCE}pseudo\n<script>\n{FENCE}",
    "    indented <b>code</b>",
    "- [ ] open\n- [x] done",
    "1. a\n2. b\n\n> quoted\n\n---\n\n~~no~~ AT&T &amp; more",
    "[paper](https://arxiv.org/abs/1706.03762 'title') https://x.org <me@x.org> [top](#top)",
    "![plot](plot.png) [data](data/points.csv)",
    "$$\n\\begin{align}\na &< b\n\n\\end{align}\n$$",
    "The tag `<script>` and `javascript:`.",
]


@pytest.mark.parametrize("source", PLAIN)
def test_plain_markdown_stays(source):
    assert safe_output.markdown(source) == source


def test_html_in_markdown_keeps_its_look():
    source = (
        'a <b>bold</b> <span style="color: red">red</span> `x < 1` $y < 2$\n\n| a |\n|--|\n| 1 |'
    )
    stored = safe_output.markdown(source)
    page = formgraders(source)
    assert "<b>bold</b>" in page
    assert '<span style="color:red">red</span>' in page
    assert "<code>x &lt; 1</code> $y &lt; 2$" in page
    assert "<td>1</td>" in page
    assert safe_output.markdown(stored) == stored


PIECES = [*ATTACKS.values(), *PLAIN, "\n", "\n\n", " ", "`", "<div>", "</div>", "<pre>\n\n", "\r"]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=60))
def test_cleaning_is_idempotent_and_its_result_inert(source):
    stored = safe_output.markdown(source, reserved={"check-1"})
    assert safe_output.markdown(stored, reserved={"check-1"}) == stored
    page = MarkdownWithMath(renderer=IPythonRenderer(escape=False, exclude_anchor_links=True))
    ours = {"input", "task-list-item", "type=checkbox", "disabled="}
    assert not [
        each
        for each in acts(page.render(stored))
        if each not in ours and not each.startswith("class=task-list")
    ]
    clean = safe_output.clean_html(source)
    assert safe_output.clean_html(clean) == clean


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


def test_empty_outputs_are_counted():
    """Many small outputs must not hold up the recording."""
    empty = [{"output_type": "stream", "name": "stdout", "text": ""}] * 200_000
    started = time.process_time()
    kept = safe_output.outputs(empty)
    assert len(kept) == safe_output.MOST_OUTPUTS + 1
    assert "because there are over 1000" in kept[-1]["text"]
    assert time.process_time() - started < 2
