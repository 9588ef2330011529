"""A stock Firefox without a window, driven over its own remote protocol, WebDriver BiDi.

Playwright drives only its own build of Firefox, which no package manager has. Its experimental
launch of a stock Firefox (`channel="moz-firefox"`) fails on the long-term release: Playwright 1.65
sends `emulation.setMediaFeaturesOverride`, which Firefox 153 does not know.
"""

import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import websocket

NAMES = ["firefox-esr", "firefox"]
LIGHT = 'user_pref("layout.css.prefers-color-scheme.content-override", 1);'
KEYS = {
    key: chr(code)
    for key, code in {
        "Tab": 0xE004,
        "Enter": 0xE006,
        "Escape": 0xE00C,
        "ArrowLeft": 0xE012,
        "ArrowUp": 0xE013,
        "ArrowRight": 0xE014,
        "ArrowDown": 0xE015,
    }.items()
}
HALF_READ = "Invalid markup: Incorrect number of children"
"""Of MathML: Firefox lays a page out while it reads it, and an equation may not be complete yet."""
PATIENCE = 120
"""Seconds: a busy machine is not a fault of the page."""


def find() -> str | None:
    """Return the path of an installed Firefox."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Firefox:
    """A browser with one window; `complaints` has what its console reported."""

    def __init__(self, path: str) -> None:
        self.complaints: list[str] = []
        self._number = 0
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        Path(self._profile.name, "user.js").write_text(LIGHT)
        options = ["--headless", "--no-remote", "--remote-debugging-port=0"]
        self._process = subprocess.Popen(
            [path, *options, "--profile", self._profile.name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in self._process.stderr:
            if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line):
                break
        else:
            raise RuntimeError(f"{path} ended before it listened")
        self._socket = websocket.create_connection(
            f"{found[1]}/session", timeout=PATIENCE, suppress_origin=True
        )
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded", "network.fetchError"])
        self._window = self._send("browsingContext.create", type="window")["context"]
        self._send("browsingContext.activate", context=self._window)

    def close(self) -> None:
        """End the browser."""
        self._send("browser.close")
        self._socket.close()
        self._process.wait(PATIENCE)
        self._process.stderr.close()
        self._profile.cleanup()

    def _send(self, method: str, **params) -> dict:
        """Send a command; return its result, and note the events that come before it."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        self._socket.send(json.dumps(command))
        while True:
            message = json.loads(self._socket.recv())
            if message["type"] == "event":
                self._note(message["method"], message["params"])
            elif message["id"] == self._number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['message']}")
                return message["result"]

    def _note(self, event: str, params: dict) -> None:
        if event == "network.fetchError":
            self.complaints.append(f"failed: {params['request']['url']}")
        elif params["level"] in ("warn", "error") and not params["text"].startswith(HALF_READ):
            self.complaints.append(f"{params['level']}: {params['text']}")

    def open(self, url: str, width: int = 1000) -> None:
        """Go to `url` in a window of this width, and wait until all of it is loaded."""
        size = {"width": width, "height": 900}
        self._send("browsingContext.setViewport", context=self._window, viewport=size)
        self._send("browsingContext.navigate", context=self._window, url=url, wait="complete")

    def evaluate(self, expression: str):
        """Return the value of a JavaScript expression, awaited if it is a promise."""
        result = self._send(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._window},
            awaitPromise=True,
        )
        if result["type"] == "exception":
            raise RuntimeError(result["exceptionDetails"]["text"])
        return json.loads(result["result"].get("value", "null"))

    def wait(self, expression: str):
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.05)
        return value

    def focus(self, selector: str) -> None:
        """Give the first such element the focus, as soon as it is there; what is typed replaces."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!!{found}")
        self.evaluate(f"{found}.focus(), {found}.select?.()")

    def press(self, *keys: str) -> None:
        """Press named keys, or those of the letters of a text, one after the other."""
        values = [value for key in keys for value in (KEYS.get(key) or key)]
        strokes = [
            {"type": way, "value": value} for value in values for way in ("keyDown", "keyUp")
        ]
        source = {"type": "key", "id": "keyboard", "actions": strokes}
        self._send("input.performActions", context=self._window, actions=[source])

    def text(self, selector: str) -> str:
        """Return the text of the first such element, as soon as it is there."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})")
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")
