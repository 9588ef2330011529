"""The course of the compatibility suite: an assignment for each theme, and its small class."""

import hashlib
import json
import sys
from importlib import metadata

import nbformat
from grader.compatibility import language, libraries, names, output
from notebook_tools import ROOT, write

THEMES = {
    theme.name: theme for group in (names, language, libraries, output) for theme in group.THEMES
}
RECORDED = ROOT / "tests" / "grader" / "compatibility" / "nbgrader_points.json"
VERSIONS = [
    *("nbgrader", "nbclient", "nbconvert", "nbformat", "ipykernel", "ipython"),
    *("matplotlib", "numpy", "pandas", "scikit-learn"),
]
"""The packages that grade with nbgrader, and those that the themes import."""
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
    return {name: each["points"] for name, each in recording().items()}


def recording():
    """Return what is recorded of each theme: nbgrader's points, and the hash of `inputs`."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def installed(package):
    """Return the version of a package, None if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def inputs(theme, points):
    """Return a hash of a theme, of nbgrader's points, and of the versions that give them."""
    everything = {
        "python": sys.version_info[:2],
        "versions": [installed(name) for name in VERSIONS],
        "configuration": CONFIG,
        "notebooks": [nbformat.writes(theme.notebook(each)) for each in (None, *theme.students)],
        "points": points,
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def by_theme(verdicts):
    """Return the points of verdicts as `recorded` does."""
    points = {}
    for (theme, student, _, cell), verdict in verdicts.items():
        points.setdefault(theme, {}).setdefault(student, {})[cell] = verdict.points
    return points
