"""A Moodle archive of 30 made-up students: right, wrong, blank, broken, misnamed, and worse."""

import io
import json
import stat
import zipfile

NAMES = [f"Student {number:02}" for number in range(1, 31)]
NAMES[3], NAMES[6], NAMES[9], NAMES[14], NAMES[21] = (
    *("Zoë Ångström 04", "José-María O'Student 07", "Ｓtudent 10 ﬁ", "Łukasz Ørsted 15"),
    "学生 22",
)
TIME = (2026, 3, 31, 12, 0, 0)


def zipped(files, time=TIME):
    """Return a zip archive of these files; a value is bytes or text, a link is a tuple."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files if isinstance(files, list) else files.items():
            info = zipfile.ZipInfo(name, time)
            info.external_attr = 0o644 << 16
            if isinstance(data, tuple):
                info.external_attr, data = (stat.S_IFLNK | 0o777) << 16, data[0]
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def submit_zip(name, assignment, notebook, stamp="2026-03-31 10:00:00 UTC"):
    """Return what ``attentively submit --zip`` writes."""
    folder = f"{name}/{assignment}"
    return zipped({f"{folder}/{assignment}.ipynb": notebook, f"{folder}/timestamp.txt": stamp})


def moodle_class(assignment, right, wrong, blank):
    """Return the archive, and the points as a share of 1 (None: nothing to grade) by name.

    `right`, `wrong` and `blank` are notebooks as plain data.
    """
    files, points = {}, {}
    for number, name in enumerate(NAMES, start=1):
        folder = f"{name}_{4000 + number}_assignsubmission_file"
        own = json.loads(json.dumps(right))
        own["metadata"]["by"] = name
        content, share, file = json.dumps(own).encode(), 1.0, f"{assignment}.ipynb"
        if number % 5 == 2:
            content, share = json.dumps(wrong).encode(), 0.6
        elif number % 10 == 8:
            content, share = json.dumps(blank).encode(), 0.0
        elif number in (5, 15):
            content, share = content[: len(content) // 2], None
        elif number in (4, 10):
            file = ["Untitled (3).ipynb", f"{assignment} - Kopie (1).ipynb"][number == 10]
        elif number == 11:
            file, content = (
                f"{assignment}-student11.zip",
                submit_zip("student11", assignment, content),
            )
        elif number == 14:
            file, content, share = "essay.pdf", b"%PDF-1.7", None
        if number == 16:  # two versions
            early = submit_zip("x", assignment, json.dumps(wrong).encode(), "2026-03-30 11:00 UTC")
            files[f"{folder}/a later name, but earlier.zip"] = early
            file, content = f"{assignment}.zip", submit_zip("x", assignment, content)
        if number == 20:
            files[f"{folder}/../../../escaped.ipynb"] = content
        if number == 25:
            folder = f"{name}_{4000 + number}_assignsubmission_onlinetext"
            file, content, share = "onlinetext.html", b"<p>Here is my answer</p>", None
        files[f"{folder}/{file}"] = content
        points[name] = share
    return zipped(files), points
