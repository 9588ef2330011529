"""Record nbgrader's points for the compatibility suite.

PYTHONPATH=tests python -m grader.compatibility.record         # all themes
PYTHONPATH=tests python -m grader.compatibility.record plots   # only these
"""

import json
import sys
import tempfile
from pathlib import Path

from grader.compatibility.course import (
    RECORDED,
    THEMES,
    by_theme,
    inputs,
    make_course,
    recording,
)

from attentively_grader.comparison import grade_with_nbgrader
from attentively_grader.course.course import Course
from attentively_grader.intake.tasks import Options


def points_of_nbgrader(themes, folder):
    """Grade these themes with nbgrader; return the points by theme, student and cell."""
    root = folder / "course"
    root.mkdir()
    make_course(root, themes)
    course = Course(root)
    results = grade_with_nbgrader(course, course.submissions(), folder / "copy", Options())
    assert results.failed == {}
    return by_theme(results.cells)


def main(names):
    themes = [theme for name, theme in THEMES.items() if not names or name in names]
    with tempfile.TemporaryDirectory() as folder:
        points = points_of_nbgrader(themes, Path(folder))
    made = {
        name: {"inputs": inputs(THEMES[name], each), "points": each}
        for name, each in points.items()
    }
    if RECORDED.exists():
        made = recording() | made
    made = {name: made[name] for name in THEMES if name in made}
    RECORDED.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
