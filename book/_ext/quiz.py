r"""The `quiz` directive: a question whose every answer explains itself when it is opened.

It is made of <details>, so it needs no script: it works from a file, by keyboard and with a
screen reader. Where scripts run, `_static/quiz.js` adds the reader's own score. In a page::

    ```{quiz}
    What do the weights of one query sum to?

    - [ ] the number of keys
      That would be the sum of unnormalised scores all equal to one.
    - [x] one
      The softmax runs over the keys.
    ```

An option is one line after its box; what is indented under it is the explanation, which no
option may lack. More than one box may hold an x.
"""

import re
import textwrap
from typing import Any, NamedTuple

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

BOX = re.compile(r"^[-*] \[([ xX])\] +(.+)$")


class Option(NamedTuple):
    """One answer to choose, and what is said when it is chosen."""

    text: str
    right: bool
    why: str


class Quiz(NamedTuple):
    """A question and its answers."""

    question: str
    options: list[Option]


def parse(text: str) -> Quiz:
    """Read the body of the directive; raise ValueError where it is incomplete."""
    question: list[str] = []
    found: list[tuple[str, bool, list[str]]] = []
    for line in text.splitlines():
        if box := BOX.match(line):
            found.append((box[2], box[1] != " ", []))
        elif found and line.strip() and not line.startswith("  "):
            raise ValueError(
                f"this line of a quiz is neither an option, '- [ ] …', nor indented by two "
                f"spaces as an explanation: {line!r}"
            )
        else:
            (found[-1][2] if found else question).append(line)
    options = [
        Option(option, right, textwrap.dedent("\n".join(lines)).strip())
        for option, right, lines in found
    ]
    quiz = Quiz("\n".join(question).strip(), options)
    if not quiz.question:
        raise ValueError("a quiz begins with its question")
    if len(options) < 2:
        raise ValueError(f"a quiz needs two options or more, '- [ ] …', and has {len(options)}")
    if not any(option.right for option in options):
        raise ValueError("a quiz needs a right option, '- [x] …'")
    if silent := [option.text for option in options if not option.why]:
        raise ValueError(f"these options lack the indented lines that explain them: {silent}")
    return quiz


def as_markdown(text: str) -> str:
    """Return the quiz as Markdown that notebooks show, answers folded away."""
    quiz = parse(text)
    answers = [
        f"<details><summary>{option.text}</summary>\n\n"
        f"**{verdict(option)}** {option.why}\n\n</details>"
        for option in quiz.options
    ]
    return "\n\n".join([f"**{quiz.question}**", *answers])


def verdict(option: Option) -> str:
    """Return the word that opens the explanation."""
    return "Right." if option.right else "Not so."


class quiz_node(nodes.General, nodes.Element):
    """A question with its options."""


class option_node(nodes.General, nodes.Element):
    """One option: its text, then its explanation."""


class option_text_node(nodes.General, nodes.TextElement):
    """The line one reads before opening an option."""


class QuizDirective(SphinxDirective):
    """Turn the body into nodes."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the question as one node."""
        try:
            quiz = parse("\n".join(self.content))
        except ValueError as problem:
            raise self.error(str(problem)) from None
        label = f"quiz-{self.env.new_serialno('quiz') + 1}"
        question = nodes.container("", *self._parsed(quiz.question), classes=["quiz-question"])
        question["ids"].append(label)
        node = quiz_node("", question, label=label)
        for option in quiz.options:
            (line,) = self._parsed(option.text)
            why = nodes.container("", classes=["quiz-why"])
            why += self._parsed(f"**{verdict(option)}** {option.why}")
            node += option_node(
                "", option_text_node("", "", *line.children), why, right=option.right
            )
        return [node]

    def _parsed(self, text: str) -> list[nodes.Node]:
        node = nodes.container()
        lines = StringList(text.splitlines(), source=self.get_source_info()[0])
        self.state.nested_parse(lines, self.content_offset, node)
        return node.children


def visit_quiz(self: HTML5Translator, node: quiz_node) -> None:
    """Open the question."""
    self.body.append(f'<div class="quiz" role="group" aria-labelledby="{node["label"]}">\n')


def depart_quiz(self: HTML5Translator, node: quiz_node) -> None:
    """Close the question."""
    self.body.append("</div>\n")


def visit_option(self: HTML5Translator, node: option_node) -> None:
    """Open an option, folded."""
    kind = "right" if node["right"] else "wrong"
    self.body.append(f'<details class="quiz-option quiz-{kind}">\n')


def depart_option(self: HTML5Translator, node: option_node) -> None:
    """Close an option."""
    self.body.append("</details>\n")


def visit_option_text(self: HTML5Translator, node: option_text_node) -> None:
    """Open the line that one chooses; one of mathematics only has words for screen readers."""
    words = (text for text in node.findall(nodes.Text) if not isinstance(text.parent, nodes.math))
    named = any(text.strip() for text in words)
    hidden = '<span class="visually-hidden">Answer: </span>'
    self.body.append("<summary>" + hidden * (not named))


def depart_option_text(self: HTML5Translator, node: option_text_node) -> None:
    """Close the line that one chooses."""
    self.body.append("</summary>\n")


def add_score(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], document: nodes.document
) -> None:
    """Add the script that keeps the score to the pages with a quiz."""
    if document is not None and next(iter(document.findall(quiz_node)), None) is not None:
        app.add_js_file("quiz.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("html-page-context", add_score)
    app.add_node(quiz_node, html=(visit_quiz, depart_quiz))
    app.add_node(option_node, html=(visit_option, depart_option))
    app.add_node(option_text_node, html=(visit_option_text, depart_option_text))
    app.add_directive("quiz", QuizDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
