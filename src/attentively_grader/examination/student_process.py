"""The student process: runs the cells, and answers requests of the examiner.

This process is not trusted. Whatever the student's code does to it, the examiner accepts only plain
data from it.
"""

import os
import socket
import sys
from typing import Any

from attentively_grader.examination.name_changes import ChangedNames
from attentively_grader.examination.notebook_shell import _OWN, Shell
from attentively_grader.wire import proxies
from attentively_grader.wire.endpoint import Endpoint, Printed
from attentively_grader.wire.gradients import Graph
from attentively_grader.wire.messages import Gone, Wire


def serve(connection: socket.socket) -> None:
    """Run cells and answer calls until the examiner closes the connection."""
    endpoint = Endpoint(Wire(connection, 2**40), trusted=False, known_packages=frozenset())
    shell = Shell(everywhere=True)
    endpoint.hidden = (_OWN, os.path.dirname(os.__file__))

    def begin(packages: list[str], most_text: int) -> None:
        endpoint.known_packages = frozenset(packages)
        shell.outputs.most = most_text

    def run(cell: str, source: str, number: int) -> tuple[list[Any], bool, Any]:
        ran = shell.run(cell, source, number)
        value = ran.value if type(ran.value) in (int, float) else None
        return ran.outputs, ran.error is not None, value

    def names(wanted: list[str]) -> dict[str, Any]:
        return {name: shell.namespace[name] for name in wanted if name in shell.namespace}

    def classes(names: list[str]) -> None:
        for name in names:
            if isinstance(shell.namespace.get(name), type):
                endpoint.own_classes[name] = shell.namespace[name]

    changed = ChangedNames(shell.namespace)
    endpoint.operations = {
        "begin": begin,
        "change": changed.apply,
        "run": run,
        "classes": classes,
        "names": names,
        "call": proxies.call,
        "get": proxies.get,
        "set": proxies.set_,
        "delete": proxies.delete,
        "method": proxies.method,
        "backward": Graph.backward,
    }
    sys.stdout = Printed(endpoint, "stdout", 2**22)
    sys.stderr = Printed(endpoint, "stderr", 2**22)
    try:
        endpoint.serve()
    except Gone:
        return
