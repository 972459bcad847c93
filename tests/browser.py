"""Headless Chromium for tests, driven over a pipe with its DevTools protocol; nothing else is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SECONDS = 60.0
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars "
    "--remote-debugging-pipe"
)


class Browser:
    """One page; `problems` collects console errors, exceptions and requests that left the page."""

    def __init__(self, pipe: tuple[int, int]) -> None:
        self._in, self._out = pipe
        self._rest, self._number, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self._events.append(answer)

    def _read(self) -> dict[str, Any]:
        end = time.monotonic() + _SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            got = os.read(self._in, 1 << 20)
            assert got, "Chromium has ended"
            self._rest += got
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Load a page and wait until it is drawn."""
        self._events.clear()
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")
        self.wait("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(() => go(true))))")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + _SECONDS
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def press(self, key: str, code: int = 0) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            keys = {"key": key, "code": key, "windowsVirtualKeyCode": code}
            self.send("Input.dispatchKeyEvent", type=kind, **keys, **more)

    def shot(self, path: Path, *, whole: bool = False) -> None:
        """Save a picture of the window, or of the whole page."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    @property
    def problems(self) -> list[str]:
        """Console errors, exceptions, and requests to anywhere but the page itself."""
        self.run("1")
        found = []
        for event in self._events:
            params, method = event.get("params", {}), event.get("method")
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and params.get("type") != "Document":
                url = params["request"]["url"]
                if not url.startswith(("data:", "blob:")):
                    found.append(f"request: {url}")
        return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with an empty profile."""
    assert CHROMIUM is not None
    to_us, from_it = os.pipe()
    to_it, from_us = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # The protocol wants descriptors 3 and 4; plain sh cannot redirect those above 9.
        command = f'exec "$0" {_FLAGS} --user-data-dir="$1" 3<&{to_it} 4>&{from_it}'
        process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, profile],
            pass_fds=(to_it, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        os.close(to_it)
        os.close(from_it)
        try:
            yield Browser((to_us, from_us))
        finally:
            os.close(from_us)
            os.close(to_us)
            process.terminate()
            process.wait(timeout=20)
