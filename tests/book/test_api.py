"""The API page names every module, floor by floor."""

import re
from pathlib import Path

from test_floors import PLACE, SRC

PAGE = Path(__file__).resolve().parents[2] / "book" / "api.md"
# The command line explains itself; what is for notebooks they say themselves.
ELSEWHERE = {"__main__", "cli", "checks", "coursework", "earlier_parts", "experiments"}


def listed():
    return re.findall(r"automodule:: attentively\.([\w.]+)", PAGE.read_text(encoding="utf-8"))


def test_every_module_is_listed_once():
    modules = {
        path.relative_to(SRC / "attentively").with_suffix("").as_posix().replace("/", ".")
        for path in (SRC / "attentively").rglob("*.py")
    }
    wanted = {
        name.removesuffix(".__init__")
        for name in modules
        if name.split(".")[0] not in ELSEWHERE and name not in ("__init__", "data.__init__")
    }
    inside_toy = {name for name in wanted if name.startswith("data.toy.")}
    found = [name for name in listed() if name.split(".")[0] not in ELSEWHERE]
    assert sorted(found) == sorted(wanted - inside_toy)


def test_the_floors_come_from_the_bottom_up():
    floors = [PLACE[name.split(".")[0]][0] for name in listed()]
    assert floors == sorted(floors)
