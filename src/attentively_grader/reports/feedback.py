"""The page that a student gets back: nbgrader's own, made harmless and made quickly.

nbgrader renders it (`GenerateFeedback`, with its template). Whatever a student wrote passes
through a white list; what was rendered once, such as the instructor's text and tests, is kept for
the next submission. Rendering reads the gradebook and writes one page, so it can run beside the
recording, in a process of its own.
"""

import html
import re
from collections.abc import Mapping
from typing import Any

import nbformat
from jinja2 import pass_context
from nbconvert.exporters.html import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.writers.files import FilesWriter
from nbgrader.converters import GenerateFeedback
from nbgrader.converters.base import NbGraderException

from attentively_grader.reports import hidden_tests
from attentively_grader.gradebook import safe_output
from attentively_grader.intake import answer_merging
from attentively_grader.course.notebooks import METADATA_KEY
from attentively_grader.course.course import Course, CourseError, Submission, converting, reason
from attentively_grader.gradebook.recording import SharedGradebook, in_folder

MOST_KEPT = 4096
LONGEST = 100_000
"""Characters of a cell that is coloured or set as Markdown; a longer one is shown as it is."""
WITHOUT_ALT = re.compile(r"<img (?![^>]*\balt=)")
ALT = '<img alt="No description has been provided for this image" '


class _Page(HTMLExporter):
    """nbconvert's page, without what it does again and again."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._kept: dict[tuple[object, ...], str] = {}
        self._highlight = Highlight2HTML(pygments_lexer="ipython3", parent=self)

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "markdown2html", self.markdown2html
        yield "highlight_code", self.highlight_code

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        cell = context.get("cell", {})
        theirs = cell.get("metadata", {}).get(METADATA_KEY, {}).get("author") != "instructor"
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
        if hidden_tests.wanted(self.config):
            nb = hidden_tests.without_hidden_tests(nb, self.config)
        # Past HTMLExporter's own, which parses the whole page again to describe pictures.
        page, resources = TemplateExporter.from_notebook_node(
            self, _with_the_reason(nb), self._init_resources(resources), **options
        )
        return WITHOUT_ALT.sub(ALT, page), resources


def _with_the_reason(notebook: Any) -> Any:
    """Say above the work why it did not run to its end, if it did not."""
    how = notebook.metadata.get(METADATA_KEY, {})
    said = []
    if how.get("reason"):
        said.append(f"**How the run ended:** {html.escape(safe_output.text(how['reason'], 2000))}")
    if how.get("sandboxed") is False:
        said.append("This was graded without a sandbox.")
    if not said:
        return notebook
    cell = nbformat.v4.new_markdown_cell("\n\n".join(said))
    return nbformat.from_dict({**notebook, "cells": [cell, *notebook.cells]})


class _Rendering(GenerateFeedback):
    """nbgrader's converter, which keeps what it needs for every page."""

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
        self.init_notebooks()
        self.convert_notebooks()


class Renderer:
    """Writes the pages of one course."""

    def __init__(self, course: Course) -> None:
        self.gradebook = SharedGradebook(course.directory.db_url, course.directory.course_id)
        self._converter = _Rendering(coursedir=course.directory, config=course.config)
        self._converter.prepare()

    def render(self, submission: Submission) -> None:
        """Write the page of a submission that is recorded. Raises `CourseError`."""
        with converting(self._converter) as messages:
            try:
                with self.gradebook.in_use(), in_folder(self._converter):
                    self._converter.render(submission)
            except (NbGraderException, OSError, SystemExit) as error:
                raise CourseError(f"no feedback: {reason(messages, error)}") from None
