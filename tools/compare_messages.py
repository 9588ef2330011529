"""Compare the messages of an assignment's checks with those of an earlier commit, on its old bank.

    python tools/compare_messages.py COMMIT NN

Runs the wrong answers of the bank tests/exercises/wrong_answers_NN.py, as of COMMIT, through the
checks of that commit and through the present ones, and prints every message that differs. Values of
random inputs may differ, and so may the lines with values; both are counted. For the time in which
assignments move to questions.py.
"""

import argparse
import difflib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VALUES = ("called with", "got", "expected", "measured", "Correct so far", "Right so far")
COLLECT = """
import contextlib, importlib, io, json, sys
from attentively.checks import Verdict

bank = importlib.import_module(f"wrong_answers_{sys.argv[1]}")
checks = importlib.import_module(f"attentively.checks.{sys.argv[2]}")
found = []
for check, rows in bank.WRONG.items():
    for answer, words in rows:
        answers = answer if isinstance(answer, tuple) else (answer,)
        title = "-".join(getattr(each, "__name__", type(each).__name__) for each in answers)
        said = "(no message: the answer passes)"
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                getattr(checks, check)(*answers)
        except Verdict as verdict:
            said = str(verdict)
        found.append((check, title, words, said))
print(json.dumps(found))
"""


def messages(source: Path, bank: Path, number: str, topic: str) -> list[list[str]]:
    """Return the check, answer, words and message of every row, with the package in `source`."""
    ran = subprocess.run(
        [sys.executable, "-c", COLLECT, number, topic],
        env={**os.environ, "PYTHONPATH": f"{source}:{bank}"},
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    found: list[list[str]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def prose(said: str) -> str:
    """Return a message without its lines of values."""
    text = re.split(rf"\n +(?=(?:{'|'.join(VALUES)})\b)", said)[0]
    return " ".join(text.split())


def kind(old: str, new: str) -> str:
    """Return how two messages agree."""
    number = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
    if old == new:
        return "equal"
    if number.sub("#", old) == number.sub("#", new):
        return "equal except for numbers"
    if number.sub("#", prose(old)) == number.sub("#", prose(new)):
        return "same diagnosis, other lines of values"
    return "different"


def main() -> int:
    """Print the differences and their counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("number", metavar="NN")
    parser.add_argument("--all", action="store_true", help="print every message that is not equal")
    options = parser.parse_args()
    (folder,) = (ROOT / "solutions").glob(f"{options.number}_*")
    topic = folder.name.partition("_")[2]
    with tempfile.TemporaryDirectory() as place:
        packed = subprocess.run(
            ["git", "-C", ROOT, "archive", options.commit, "src", "tests/exercises"],
            capture_output=True,
            check=True,
        )
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
            tar.extractall(place, filter="data")
        bank = Path(place) / "tests" / "exercises"
        old = messages(Path(place) / "src", bank, options.number, topic)
        new = messages(ROOT / "src", bank, options.number, topic)
    counts: dict[str, int] = {}
    for (check, title, words, before), (*_, after) in zip(old, new, strict=True):
        how = kind(before, after)
        counts[how] = counts.get(how, 0) + 1
        if how == "different" or (options.all and how != "equal"):
            print(f"--- {check}: {title} ({how}; its words in the new message: {words in after})")
            print(*difflib.unified_diff(before.splitlines(), after.splitlines(), n=0), sep="\n")
    print(*(f"{count:4} {how}" for how, count in counts.items()), sep="\n")
    return 1 if counts.get("different") else 0


if __name__ == "__main__":
    sys.exit(main())
