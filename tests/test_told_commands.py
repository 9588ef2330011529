"""Every command that a page, a file of the project or a result names is one that there is."""

import json
import re
import shlex
from pathlib import Path

import pytest

from attentively import cli
from attentively.models import checkpoints

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("book/*.md"), *ROOT.glob("docs/decisions/*.md")]


def unknown(call: str) -> list[str]:
    """Return what `call` has that the command line does not: its command, or options."""
    words = shlex.split(call.replace("…", ""), comments=True)[1:]
    if not words or words[0] not in cli.COMMANDS:
        return words[:1] if words and re.fullmatch("[a-z]+", words[0]) else []
    command = cli.load(words.pop(0))
    while getattr(command, "commands", None) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    there_are = {option for param in command.params for option in param.opts + param.secondary_opts}
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    return sorted(given - there_are - {"--help"})


def calls(text: str) -> list[str]:
    """Return the calls of ``attentively`` in blocks for a console and between backticks."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    shown = [line.partition("$ ")[2] for line in lines if "$ " in line]
    shown += re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    found = (re.match(r"(?:\S*bin/)?(attentively .*)", " ".join(each.split())) for each in shown)
    return [match[1] for match in found if match]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_a_page_names_there_is(path):
    text = path.read_text(encoding="utf-8")
    assert {call: wrong for call in calls(text) if (wrong := unknown(call))} == {}


def test_a_command_or_option_that_there_is_not_is_found():
    text = """
    ```console
    $ .venv/bin/attentively grade --canvas f.csv   # fine
    $ attentively train toy \\
          --epochs 3 --steps=4
    ```
    `attentively conquer` and `attentively vectors near
    cat --k 3`, `attentively --help`
    """
    found = {call: unknown(call) for call in calls(text.replace("\n    ", "\n"))}
    assert list(filter(None, found.values())) == [["--epochs"], ["conquer"], ["--k"]]
    assert len(found) == 5


def test_what_results_and_models_name_there_is():
    told = [checkpoints.load_pretrained(n).provenance for n in checkpoints.pretrained_names()]
    for path in [*ROOT.glob("book/results/*.json"), *ROOT.glob("benchmarks/results/*.json")]:
        content = json.loads(path.read_text(encoding="utf-8"))
        told += content if isinstance(content, list) else [content]
    commands = {each["command"] for each in told if "command" in each}
    assert len(commands) > 20
    wrong = {
        call: missing
        for call in commands
        if call.startswith("attentively ") and (missing := unknown(call))
    }
    assert wrong == {}
