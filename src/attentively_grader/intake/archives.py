"""List the files of a zip archive or a folder without trusting its content.

An archive inside is listed like a folder. Links, paths that lead out of the archive, and archives
that unpack to more than a submission may contain are skipped with a reason. Nothing is written.
"""

import io
import os
import re
import stat
import time
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from attentively_grader.course.course import CourseError
from attentively_grader.intake.submissions import (
    CONTROLS,
    LARGEST_FILE,
    LARGEST_SUBMISSION,
    MOST_FILES,
    SubmissionError,
    printable,
    read_file,
)

MOST_ENTRIES = 200_000
"""Maximum number of files of a whole class."""
DEEPEST_ARCHIVE = 3
"""Maximum number of archives inside each other."""
OF_SYSTEMS = {"__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini"}
"""Files that systems and editors add; with hidden files, they are ignored without a note."""
Opened = AbstractContextManager[zipfile.ZipFile]
FAILURES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a method of compression
    OSError,
    RuntimeError,  # a password
    ValueError,
)
"""What reading from a damaged or unusual archive raises."""


@dataclass(frozen=True)
class Entry:
    """A file in the archive."""

    path: str
    """Relative, with slashes; the name of an archive inside is one of its parts."""
    size: int
    modified: float
    """Time of the last change that the archive states, in seconds."""
    read: Callable[[], bytes]
    """Returns the content; raises `SubmissionError`."""


@dataclass
class Listing:
    """The files of an archive, and what was skipped, with the reason."""

    entries: list[Entry] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def listing(source: Path) -> Listing:
    """List a zip archive or a folder; raise `CourseError` if it is neither."""
    found = Listing()
    if source.is_dir():
        _list_folder(source, found)
    elif source.is_file() and zipfile.is_zipfile(source):
        try:
            archive = zipfile.ZipFile(source)
        except FAILURES as error:
            raise CourseError(f"{source} cannot be read: {error}. Download it again") from None
        _list_archive(lambda: nullcontext(archive), "", 1, found)
    elif source.exists():
        raise CourseError(f"{source} is neither a folder nor a zip archive. Download it again")
    else:
        raise CourseError(f"{source} does not exist")
    return found


def _list_folder(folder: Path, found: Listing) -> None:
    for current, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted((*folders, *names)):
            path = Path(current, name)
            shown = _safe(path.relative_to(folder).as_posix(), found)
            if shown is None:
                continue
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                found.skipped[shown] = "a symbolic link, expected a regular file"
            elif stat.S_ISDIR(status.st_mode):
                continue
            elif not stat.S_ISREG(status.st_mode):
                found.skipped[shown] = "a special file, expected a regular file"
            else:
                read = _reader(path, shown)
                _add(Entry(shown, status.st_size, status.st_mtime, read), 1, found)
        folders[:] = [name for name in folders if not _is_of_system(name)]


def _reader(path: Path, name: str) -> Callable[[], bytes]:
    return lambda: read_file(path, name)


def _list_archive(opened: Callable[[], Opened], prefix: str, depth: int, found: Listing) -> None:
    """List an archive. `opened` opens it; one inside is read again, which saves memory."""
    try:
        with opened() as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
    except FAILURES as error:
        found.skipped[prefix] = f"the archive cannot be read: {printable(str(error))}"
        return
    most, largest = (MOST_FILES, LARGEST_SUBMISSION) if prefix else (MOST_ENTRIES, None)
    size = sum(info.file_size for info in infos)
    if len(infos) > most:
        why = f"the archive has {len(infos)} files; the limit is {most}"
    elif largest is not None and size > largest:
        why = f"the archive unpacks to {size // 2**20} MiB; the limit is {largest // 2**20} MiB"
    elif depth > DEEPEST_ARCHIVE:
        why = f"archives are nested more than {DEEPEST_ARCHIVE} deep"
    else:
        why = ""
    if why and not prefix:
        raise CourseError(why)
    if why:
        found.skipped[prefix] = why
        return
    for info in infos:
        name = _safe(info.filename, found, prefix)
        if name is None:
            continue
        if stat.S_ISLNK(info.external_attr >> 16):
            found.skipped[name] = "a symbolic link, expected a regular file"
            continue
        modified = time.mktime((*info.date_time, 0, 0, -1)) if info.date_time[1] else 0.0
        read = _unpacker(opened, info, name)
        _add(Entry(name, info.file_size, modified, read), depth, found)


def _unpacker(
    opened: Callable[[], Opened], info: zipfile.ZipInfo, name: str
) -> Callable[[], bytes]:
    def read() -> bytes:
        if info.file_size > LARGEST_FILE:
            raise SubmissionError(f"{printable(name)} is larger than {LARGEST_FILE // 2**20} MiB")
        try:
            with opened() as archive:
                return archive.read(info)
        except FAILURES as error:
            said = printable(str(error))
            raise SubmissionError(f"{printable(name)} cannot be unpacked: {said}") from None

    return read


def _add(entry: Entry, depth: int, found: Listing) -> None:
    """Add a file, or the files of an archive."""
    if entry.path.lower().endswith(".zip"):
        try:
            content = entry.read()
        except SubmissionError as error:
            found.skipped[entry.path] = str(error)
            return
        if zipfile.is_zipfile(io.BytesIO(content)):
            again = entry.read
            _list_archive(
                lambda: zipfile.ZipFile(io.BytesIO(again())), entry.path, depth + 1, found
            )
        else:
            found.skipped[entry.path] = "not a readable zip archive"
        return
    found.entries.append(entry)


def _safe(name: str, found: Listing, prefix: str = "") -> str | None:
    """Return the path of a file, or None if it is to be ignored or was skipped."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    shown = printable(f"{prefix}/{name}" if prefix else name)
    if name.startswith(("/", "\\")) or ".." in parts or re.match("[A-Za-z]:", name):
        found.skipped[shown] = "its path leads out of the archive"
        return None
    if any(map(_is_of_system, parts)) or not parts:
        return None
    path = unicodedata.normalize("NFC", "/".join([prefix, *parts] if prefix else parts))
    if CONTROLS.search(path):
        found.skipped[shown] = "its name contains control characters"
        return None
    return path


def _is_of_system(name: str) -> bool:
    return name.startswith(".") or name in OF_SYSTEMS
