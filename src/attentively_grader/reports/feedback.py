"""Render the feedback page of a student: nbgrader's page, safe to open and faster to render.

nbgrader renders the page (`GenerateFeedback`, with its template). Everything that a student wrote
is filtered by an allow list. Rendered cells that many pages share, such as the instructor's text
and tests, are cached. Rendering only reads the gradebook, so it can run in a separate process.

The page needs no network: formulas are MathML, and its policy permits no script and no address.
Parts have their titles, as in the reports.
"""

import html
import re
from collections.abc import Mapping
from typing import Any

import nbformat
from jinja2 import DictLoader, pass_context
from nbconvert.exporters.html import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.writers.files import FilesWriter
from nbgrader.converters import GenerateFeedback
from nbgrader.converters.base import NbGraderException

from attentively_grader.course.course import Course, CourseError, Submission, converting, reason
from attentively_grader.course.notebooks import METADATA_KEY, part_titles
from attentively_grader.gradebook import safe_output
from attentively_grader.gradebook.recording import SharedGradebook, in_folder
from attentively_grader.reports import hidden_tests
from attentively_grader.reports.mathml import with_mathml

MOST_KEPT = 4096
LONGEST = 100_000
"""Maximum characters of a cell that is highlighted or rendered; a longer one stays plain text."""
WITHOUT_ALT = re.compile(r"<img (?![^>]*\balt=)")
ALT = '<img alt="No description has been provided for this image" '


HEAD = """\
{% macro mathjax(url="") %}
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src 'self' file: data:; style-src 'unsafe-inline'">
<style>
summary { display: list-item; cursor: pointer; }
td, th { padding: 0.2em 0.8em; }
table { margin-bottom: 1em; }
</style>
{% endmacro %}
"""
"""In place of nbconvert's macro, which loads MathJax.

Bootstrap hides the marker of a summary and sets cells of tables without a space between them.
"""
LABEL = re.compile(
    r'(?P<before><a href="#(?P<link>[^"]*)">)(?:Test cell|Coding free-response|Written response|'
    r"Task)(?P<after></a> \(Score)|Grade cell: <code>(?P<id>[^<]*)</code>"
)
"""What the template calls a part: in the list at the top, and above its test."""


class _Page(HTMLExporter):
    """nbconvert's HTML exporter with a cache of rendered cells."""

    def __init__(self, **options: Any) -> None:
        super().__init__(extra_loaders=[DictLoader({"mathjax.html.j2": HEAD})], **options)
        self._kept: dict[tuple[object, ...], str] = {}
        self._highlight = Highlight2HTML(pygments_lexer="ipython3", parent=self)

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "markdown2html", self.markdown2html
        yield "highlight_code", self.highlight_code

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        cell = context.get("cell", {})
        theirs = _by_student(cell)
        pictures = repr(cell.get("attachments"))
        key = ("markdown", source, theirs, pictures if "attachment:" in source else "")
        if key not in self._kept:
            if theirs and len(source) > LONGEST:
                return f"<pre>{html.escape(source)}</pre>"
            page = super().markdown2html(context, source)
            self._keep(key, safe_output.clean_html(page) if theirs else page)
        return self._kept[key]

    def highlight_code(self, source: str, metadata: Mapping[str, Any] | None = None) -> str:
        language = (metadata or {}).get("magics_language")
        key = ("code", source, language)
        if key not in self._kept:
            if len(source) > LONGEST:
                return f'<div class="highlight"><pre>{html.escape(source)}</pre></div>'
            self._keep(key, self._highlight(source, language, metadata))
        return self._kept[key]

    def _keep(self, key: tuple[object, ...], page: str) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[key] = page

    def from_notebook_node(self, nb: Any, resources: Any = None, **options: Any) -> Any:
        titles = _titles(nb)
        if hidden_tests.wanted(self.config):
            nb = hidden_tests.without_hidden_tests(nb, self.config)
        else:
            nb = hidden_tests.without_markers(nb, self.config)
        # Skips the method of HTMLExporter, which parses the page again to add alt texts.
        page, resources = TemplateExporter.from_notebook_node(
            self, _with_notes(nb), self._init_resources(resources), **options
        )
        return with_mathml(_with_titles(WITHOUT_ALT.sub(ALT, page), titles)), resources


def _by_student(cell: Mapping[str, Any]) -> bool:
    return cell.get("metadata", {}).get(METADATA_KEY, {}).get("author") != "instructor"


def _titles(notebook: Any) -> dict[str, str]:
    """Return the titles of the parts; a heading that the student wrote is none."""
    cells = [{**cell, "source": ""} if _by_student(cell) else cell for cell in notebook.cells]
    return part_titles(nbformat.from_dict({**notebook, "cells": cells}))


def _with_titles(page: str, titles: Mapping[str, str]) -> str:
    def titled(label: re.Match[str]) -> str:
        title = titles.get(label["link"] or label["id"])
        if title is None:
            return label[0]
        return (label["before"] or "") + html.escape(title) + (label["after"] or "")

    return LABEL.sub(titled, page)


def _with_notes(notebook: Any) -> Any:
    """Add cells that say how the run ended, and which tests ran next to the student's code."""
    how = notebook.metadata.get(METADATA_KEY, {})
    said = []
    if how.get("reason"):
        said.append(f"**How the run ended:** {html.escape(safe_output.text(how['reason'], 2000))}")
    if how.get("sandboxed") is False:
        said.append("This notebook was graded without a sandbox.")
    cells = [nbformat.v4.new_markdown_cell("\n\n".join(said))] if said else []
    for cell in notebook.cells:
        why = cell.metadata.get(METADATA_KEY, {}).get("weaker")
        if why:
            because = f", because {html.escape(why)}" if isinstance(why, str) else ""
            note = f"**Weaker test:** the next test ran next to your code, as in nbgrader{because}."
            cells.append(nbformat.v4.new_markdown_cell(note))
        cells.append(cell)
    return nbformat.from_dict({**notebook, "cells": cells})


class _Rendering(GenerateFeedback):
    """nbgrader's converter; writer and exporter are created once for all pages."""

    def prepare(self) -> None:
        self.force = True
        self.writer = FilesWriter(parent=self, config=self.config)
        self.exporter = _Page(parent=self, config=self.config)
        self.exporter.optimistic_validation = True  # once, at the end
        for step in self.preprocessors:
            self.exporter.register_preprocessor(step)

    def render(self, submission: Submission) -> None:
        self.coursedir.student_id = submission.student
        self.coursedir.assignment_id = submission.assignment
        self.writer.build_directory = ""  # only a change creates the folder
        self.init_notebooks()
        self.convert_notebooks()


class Renderer:
    """Writes the feedback pages of one course."""

    def __init__(self, course: Course) -> None:
        self.gradebook = SharedGradebook(course.directory.db_url, course.directory.course_id)
        self._converter = _Rendering(coursedir=course.directory, config=course.config)
        self._converter.prepare()

    def render(self, submission: Submission) -> None:
        """Write the page of a recorded submission; raise `CourseError` if that fails."""
        with converting(self._converter) as messages:
            try:
                with self.gradebook.in_use(), in_folder(self._converter):
                    self._converter.render(submission)
            except (NbGraderException, OSError, SystemExit) as error:
                raise CourseError(f"nbgrader cannot render it: {reason(messages, error)}") from None
