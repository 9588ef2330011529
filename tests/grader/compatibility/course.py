"""The course of the compatibility suite: an assignment for each theme, and its small class."""

import json

from grader.compatibility import language, libraries, names, output
from notebook_tools import ROOT, write

THEMES = {
    theme.name: theme for group in (names, language, libraries, output) for theme in group.THEMES
}
RECORDED = ROOT / "tests" / "grader" / "compatibility" / "nbgrader_points.json"
CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "compatibility"
c.Execute.timeout = 60
c.Execute.extra_arguments = ["--log-level=40"]
"""


def make_course(root, themes):
    """Write the source of these themes and all that their students hand in."""
    (root / "nbgrader_config.py").write_text(CONFIG)
    for theme in themes:
        write(theme.notebook(), root / "source" / theme.name / f"{theme.name}.ipynb")
        for student in theme.students:
            folder = root / "submitted" / student / theme.name
            write(theme.notebook(student), folder / f"{theme.name}.ipynb")


def recorded():
    """Return nbgrader's points by theme, student and cell."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def by_theme(verdicts):
    """Return the points of verdicts as `recorded` does."""
    points = {}
    for (theme, student, _, cell), verdict in verdicts.items():
        points.setdefault(theme, {}).setdefault(student, {})[cell] = verdict.points
    return points
