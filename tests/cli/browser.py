"""Chromium without a window, spoken to in the DevTools protocol through two pipes: no package is needed."""

import json
import os
import shutil
import subprocess
import time
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 60.0
"""That anything may take."""


class Browser:
    """One page; `with` closes it."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
        command = (CHROMIUM, *options, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank")

        def connect() -> None:
            """It reads from descriptor 3 and writes to 4, which may be those of other pipes now."""
            for target, own in enumerate(
                [fcntl(each, F_DUPFD, 10) for each in (theirs_in, theirs_out)], start=3
            ):
                os.dup2(own, target)

        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, preexec_fn=connect, close_fds=False, stdout=quiet, stderr=quiet
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._session, self._read = 0, {}, b""
        (page,) = (each for each in self._call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, address: str) -> None:
        self._call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, script: str) -> Any:
        """What an expression is on the page; None while it has none."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value") if "exceptionDetails" not in found else None

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + SECONDS
        while not self.value(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """With the mouse."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{element}.scrollIntoView({{block: 'center'}})")
        box = self.value(f"{element}.getBoundingClientRect().toJSON()")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def enter(self, selector: str, text: str) -> None:
        """Type a text into a field, then Enter."""
        self.click(selector)
        self._call("Input.insertText", text=text)
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r")

    def _call(self, method: str, **params: object) -> Any:
        """The result of a command; events in between are skipped."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **self._session}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._read:
                self._read += os.read(self._from, 1 << 16)
            answer, self._read = self._read.split(b"\0", 1)
            found = json.loads(answer)
            if found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]
