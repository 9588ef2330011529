"""A book of four pages with what a reader finds the way by: index, questions, quiz, links."""

import subprocess
import sys
from pathlib import Path

EXTENSIONS = Path(__file__).resolve().parents[1] / "book" / "_ext"
STATIC = EXTENSIONS.parent / "_static"

CONF = """
import sys
from docutils import nodes
sys.path.insert(0, {extensions!r})
extensions = ["myst_parser", "sphinx_design", "glossary_tooltips", "quiz", "section_search"]
extensions += ["chapter_questions", "deep_links", "reading_progress"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
root_doc = "book/index"
html_theme = "sphinx_book_theme"
html_theme_options = {{"navbar_persistent": []}}
html_context = {{"default_mode": "auto"}}
html_static_path = [{static!r}]
html_css_files = ["attentively.css"]
mathjax_path = "none.js"

def name_cells(app, document):
    for node in document.findall(nodes.container):
        if node["classes"] == ["cell-input"]:
            node["classes"] = ["cell"]  # as MyST-NB names it

def setup(app):
    app.connect("doctree-read", name_cells)
"""
INDEX = """
# A small book

```{continue-reading}
```

| | chapter | question |
|---|---|---|
| 01 | [Scores](01_scores.md) | Which "score" is best? |
| 02 | [Weights](02_weights.md) | What do weights & values do? ([More](glossary.md)) |

```{toctree}
01_scores
02_weights
glossary
api
```
"""
CHAPTER = """
# 01 Scores

An introduction.

## The dot product of a query and a key

A score says how well a query and a key agree, here $\\sqrt{d_k}$ and $\\alpha$.

$$ e = q k $$ (eq-score)

::::{container} cell-input
```python
def masked_scores(q, k):
    return hidden_in_code
```
::::

```{raw} html
<div class="results-table"><div role="region" tabindex="0" aria-label="Scores of <b>two</b> keys.">
<table><caption><span>Scores of two keys.</span></caption><tbody><tr><td>1</td></tr></tbody></table>
</div></div>
```

```{figure} dot.svg
:name: fig-dot
:alt: A dot.

A dot as a figure.
```

### Softmax of the scores

The softmax turns scores into weights that sum to one.

## Check yourself

```{quiz}
What do the weights sum to?

- [ ] the number of keys
  Unnormalised parrots do.
- [x] one
  The softmax divides by the sum.
```

```{quiz}
What is $d_k$, in "quotes"?

- [x] a dimension, of keys
  Yes.
- [ ] a score
  No.
```
"""
SECOND = """
# 02 Weights

## Residual connection

A residual connection adds the input. It is trained with attention.

## Masked softmax

Masked positions get the weight zero.
"""
GLOSSARY = """
# Glossary

```{glossary}
entropy
  The expected surprise of a distribution.

softmax
  A function of scores whose values sum to one.
```
"""
API = """
# API

```{py:function} apply_mask(scores, mask)
:module: attentively.masks

Set the scores of masked positions to minus infinity.
```
"""
DOT = """<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">
<circle r="4" cx="4" cy="4"/></svg>"""


def build(root: Path) -> Path:
    """Build the book with the theme of the real one; return the folder of its HTML files."""
    pages = root / "source" / "book"
    pages.mkdir(parents=True)
    conf = CONF.format(extensions=str(EXTENSIONS), static=str(STATIC))
    (root / "source" / "conf.py").write_text(conf)
    texts = {"index": INDEX, "01_scores": CHAPTER, "02_weights": SECOND}
    for name, text in {**texts, "glossary": GLOSSARY, "api": API}.items():
        (pages / f"{name}.md").write_text(text)
    (pages / "dot.svg").write_text(DOT)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", root / "source", root / "html"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return root / "html"
