"""A real browser for tests: Chromium without a window, spoken to over its DevTools pipe; needs no driver and no package."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)

# The browser reads commands from descriptor 3 and answers on 4.
_START = (
    "import fcntl, os, sys\n"
    "a, b = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 20) for n in sys.argv[1:3])\n"
    "os.dup2(a, 3); os.dup2(b, 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)


class Browser:
    """One page in one browser; `problems` are its console errors, uncaught exceptions and requests beyond `site`."""

    def __init__(self, width: int = 1200, height: int = 900, site: str = "about:") -> None:
        assert CHROMIUM is not None
        self._allowed = ("file:", "about:", "data:", site)
        self._folder = tempfile.TemporaryDirectory(prefix="crowdwise-browser-", ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        options += ["--no-first-run", "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={self._folder.name}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(to_read), str(to_write), CHROMIUM, *options, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number, self._session, self._rest = 0, None, b""
        self.problems: list[str] = []
        self._events: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        # Only the process that was started here.
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer; events that come between are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def open(self, place: Path | str) -> float:
        """Open a file or an address and return the seconds until it was loaded and had run its script."""
        self._events.clear()
        start = time.perf_counter()
        self.call("Page.navigate", url=place if isinstance(place, str) else place.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()
        self.run("1")
        return time.perf_counter() - start

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript in the page, whatever its policy, and return its value."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Press the mouse on the middle of an element, as a person would."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.run(f"(() => {{const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                       "return [b.left + b.width / 2, b.top + b.height / 2]})()")  # fmt: skip
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def type(self, words: str) -> None:
        """Type into the element that has the focus."""
        self.call("Input.insertText", text=words)

    def key(self, key: str, code: int) -> None:
        """Press a key such as Tab (9) or Enter (13)."""
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def look(self, *, scheme: str = "light", medium: str = "") -> None:
        """Prefer a colour scheme; show the page as on screen or on paper ("print")."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save what is seen, or the whole page, as PNG."""
        taken = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self, path: Path) -> None:
        """Print the page."""
        printed = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has gone"
            self._rest += more
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        method, parameters = message.get("method"), message.get("params", {})
        if method is not None:
            self._events.append(method)
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(parameters["exceptionDetails"]))
        if method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(parameters["entry"]))
        if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(str(parameters["args"]))
        if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(self._allowed):
            self.problems.append(f"request to {parameters['request']['url']}")
        return message
