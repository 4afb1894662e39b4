"""Chromium without a window, spoken to in the DevTools protocol through two pipes: no package is needed."""

import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Sequence
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

        from fcntl import F_DUPFD, fcntl  # not on Windows

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
        self.events: list[tuple[str, Any]] = []
        (page,) = (each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, script: str) -> Any:
        """What an expression is on the page; None while it has none."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return found["result"].get("value") if "exceptionDetails" not in found else None

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + SECONDS
        while not self.value(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.05)

    def at(self, selector: str) -> tuple[float, float]:
        """The middle of an element, which is scrolled into view."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{element}.scrollIntoView({{block: 'center'}})")
        box = self.value(f"{element}.getBoundingClientRect().toJSON()")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def click(self, selector: str, times: int = 1, shift: bool = False) -> None:
        """With the mouse."""
        for number in range(1, times + 1):
            self.trace([self.at(selector)], number, shift)

    def trace(self, path: Sequence[tuple[float, float]], clicks: int = 1, shift: bool = False) -> None:
        """Press the mouse at the first point, and release it at the last one."""
        kinds = ("mousePressed", *["mouseMoved"] * (len(path) - 1), "mouseReleased")
        more = {"button": "left", "buttons": 1, "clickCount": clicks, "modifiers": 8 * shift}
        for kind, (x, y) in zip(kinds, [*path, path[-1]], strict=True):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag(self, selector: str, target: str) -> None:
        """Drag an element onto another one."""
        self.call("Input.setInterceptDrags", enabled=True)
        x, y = self.at(selector)
        self.events.clear()
        for kind, by in (("mousePressed", 0), ("mouseMoved", 9), ("mouseMoved", 18)):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x + by, y=y, button="left", buttons=1, clickCount=1
            )
        (carried,) = (each["data"] for name, each in self.events if name == "Input.dragIntercepted")
        x, y = self.at(target)
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=x, y=y, data=carried)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)
        self.call("Input.setInterceptDrags", enabled=False)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Keys by their names, as `ArrowLeft` or `m`."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
            known = {"windowsVirtualKeyCode": code} if code else {}
            for kind in ("keyDown", "keyUp"):
                self.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, text=text, modifiers=8 * shift, **known
                )

    def enter(self, selector: str, text: str) -> None:
        """Type a text into a field, then Enter."""
        self.click(selector)
        self.call("Input.insertText", text=text)
        self.press("Enter")

    def picture(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Store what is seen in a window of this size, in the light or the dark theme."""
        self.look(width, height, scheme)
        time.sleep(0.5)
        path.write_bytes(b64decode(self.call("Page.captureScreenshot")["data"]))

    def look(self, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Give the window this size, and prefer the light or the dark theme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def call(self, method: str, **params: object) -> Any:
        """The result of a command; events in between are kept."""
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
            self.events.append((found.get("method"), found.get("params")))
