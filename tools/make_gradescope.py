"""Pack the autograder of one assignment for Gradescope: setup.sh, run_autograder and the course.

    python tools/make_gradescope.py 08_additive_attention

The archive contains the solution and the hidden tests. Upload it to Gradescope; never give it to
students.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import make_bundle
from make_bundle import ROOT

from attentively_grader.course import course
from attentively_grader.course.course import CourseError

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, to build the image.
set -e
apt-get update
apt-get install -y bubblewrap
for python in python3.13 python3.12 python3.11; do
  apt-get install -y $python $python-venv && break
done
if ! command -v $python; then
  echo "No Python 3.11 or later. In Gradescope, choose a base image of Ubuntu 22.04 or later." >&2
  exit 1
fi
$python -m venv /autograder/venv
/autograder/venv/bin/pip install --extra-index-url https://download.pytorch.org/whl/cpu \\
  --constraint /autograder/source/course/constraints.txt \\
  --editable '/autograder/source/course[grading]'
"""
RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission, in the folder /autograder.
exec venv/bin/python -m attentively_grader.gradescope{options} \\
  source/course {assignment} submission results/results.json 2>&1
"""


def contents(root: Path, assignment: str, options: str = "") -> dict[str, bytes]:
    """Return every file of the archive by name; raise `CourseError` for an unknown assignment."""
    course.check_assignment(root, course.load_config(root), assignment)
    paths = [root / name for name in (*make_bundle.FILES, "README.md", course.CONFIG)]
    for folder in (f"solutions/{assignment}", "src", "book/results"):
        paths += make_bundle.files_in(root / folder)
    run = RUN.format(assignment=assignment, options=options)
    return {"setup.sh": SETUP.encode(), "run_autograder": run.encode()} | {
        f"course/{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths
    }


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Pack the archive and print its name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("assignment", help="for example 08_additive_attention")
    parser.add_argument(
        "--unsafe-no-sandbox",
        action="store_true",
        help="run students' code as root in the container, where it can read the solution and "
        "change its own points; for containers that permit no sandbox",
    )
    parser.add_argument("--output", type=Path, help="the archive to write; in dist/ by default")
    given = parser.parse_args(arguments)
    output = given.output or root / "dist" / f"gradescope-{given.assignment}.zip"
    options = " --unsafe-no-sandbox" if given.unsafe_no_sandbox else ""
    found = contents(root, given.assignment, options)
    make_bundle.pack(found, output, folder="")
    print(f"{output}: {len(found)} files, {output.stat().st_size / 1e6:.1f} MB")
    print("It contains the solution and the hidden tests. Do not give it to students.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CourseError, OSError) as error:
        sys.exit(f"error: {error}")
