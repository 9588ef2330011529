"""The table of students, students.csv: which folder belongs to which name on a learning platform.

nbgrader and the grader need names of letters without accents, digits, ``_``, ``.`` and ``-``. The
table gives each student such an id, in the order in which they were first collected, and keeps it.
"""

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attentively_grader.course.course import NAME, CourseError
from attentively_grader.intake.platforms import Who
from attentively_grader.intake.result_store import write_whole

FILE = "students.csv"
COLUMNS = ("student", "name", "platform", "number")
LONGEST = 60
SPELLED = str.maketrans(
    {
        **{"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O"},
        **{"ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "þ": "th", "Þ": "Th", "ı": "i"},
    }
)
"""Letters that Unicode does not decompose into a plain letter and an accent."""


@dataclass(frozen=True)
class Row:
    """A student: the id, which is the name of the folder, and who that is on the platform."""

    student: str
    who: Who


def read(root: Path) -> list[Row]:
    """Return the rows of a course's table; raise `CourseError` for a table that is damaged."""
    path = root / FILE
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [
                Row(line["student"], Who(line["platform"], line["name"], line["number"]))
                for line in csv.DictReader(file)
            ]
    except (OSError, KeyError, UnicodeError, csv.Error) as error:
        raise CourseError(
            f"{FILE} cannot be read ({error}). Expected the columns {', '.join(COLUMNS)}"
        ) from None
    for row in rows:
        if not NAME.fullmatch(row.student or ""):
            raise CourseError(
                f"{FILE}: student {row.student!r} is not valid: use letters without accents, "
                "digits, _ . and -"
            )
    return rows


def write(root: Path, rows: Iterable[Row]) -> None:
    """Write the table atomically."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for row in rows:
        table.writerow([row.student, row.who.name, row.who.platform, row.who.number])
    write_whole(root / FILE, text.getvalue())


def safe_id(name: str) -> str:
    """Return the name in lower-case letters without accents, with ``_`` for everything else."""
    plain = unicodedata.normalize("NFKD", name.translate(SPELLED))
    plain = plain.encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:LONGEST]


def with_ids(known: Sequence[Row], everyone: Iterable[Who]) -> tuple[list[Row], dict[Who, str]]:
    """Return the table with a row for everyone, and each one's id.

    A student of Canvas is known by the number, one of Moodle by the full name, because Moodle's
    number is another one in each assignment. Students of the same name are distinguished by both.
    """
    rows, ids = list(known), {}
    everyone = sorted(set(everyone))
    often = Counter((who.platform, who.name.casefold()) for who in everyone)
    for who in everyone:
        several = often[who.platform, who.name.casefold()] > 1
        row = _row_of(rows, who, several)
        if row is None:
            row = Row(_new_id(rows, who), who)
            rows.append(row)
        ids[who] = row.student
    return rows, ids


def _row_of(rows: Sequence[Row], who: Who, several: bool) -> Row | None:
    if who.platform == "canvas":
        same = [r for r in rows if (r.who.platform, r.who.number) == ("canvas", who.number)]
    else:
        same = [
            row
            for row in rows
            if (row.who.platform, row.who.name.casefold()) == (who.platform, who.name.casefold())
        ]
    exact = [row for row in same if row.who.number == who.number]
    if exact:
        return exact[0]
    return same[0] if len(same) == 1 and not several else None


def _new_id(rows: Sequence[Row], who: Who) -> str:
    taken = {row.student.casefold() for row in rows}
    number = safe_id(who.number)
    base = safe_id(who.name)
    if who.platform == "folder" and NAME.fullmatch(who.name):
        base = who.name
    elif not re.search("[a-z]", base):  # of a name in another script, at most digits remain
        base = "_".join(filter(None, ["student", base or number]))
    if base.casefold() in taken and number and not base.endswith(number):
        base = f"{base}_{number}"
    wanted, count = base, 2
    while wanted.casefold() in taken:
        wanted, count = f"{base}_{count}", count + 1
    return wanted
