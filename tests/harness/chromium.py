"""A real Chromium without a window, told what to do by chromedriver (W3C WebDriver over HTTP).

Both are Debian's packages, which `make setup` installs where it may. Standard library only: a
client for browsers of all kinds would be a large dependency for a dozen requests.
"""

from __future__ import annotations

import base64
import http.client
import json
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 60.0
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-component-update", "--disable-background-networking"),
)
#: Keys as WebDriver has them.
ENTER, ESCAPE = "\ue007", "\ue00c"


class Browser:
    """One window. Scripts run beside the page's own, where its policy has no say."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._session = ""

    def begin(self, folder: str, flags: tuple[str, ...]) -> None:
        options = {
            "binary": shutil.which("chromium"),
            "args": [*_FLAGS, f"--user-data-dir={folder}", *flags],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def end(self) -> None:
        self._ask("DELETE", self._session)

    def go(self, address: str) -> None:
        """Another fragment alone loads nothing anew: that is how pages of the console change."""
        self._ask("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the script returns; promises are waited for."""
        body = {"script": script, "args": list(arguments)}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    def text(self, selector: str = "body") -> str:
        found = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return str(found)

    def wait(self, script: str, *arguments: Any, what: str = "") -> Any:
        """Until the script returns something true, which is the answer."""
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            answer = self.run(script, *arguments)
            if answer:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"{what or script}: never so; the page says: {self.text()[:2000]}")

    def wait_text(self, text: str, selector: str = "body") -> None:
        script = (
            "return (document.querySelector(arguments[0])?.innerText ?? '').includes(arguments[1])"
        )
        self.wait(script, selector, text, what=f"{text!r} in {selector}")

    def click(self, text: str, selector: str = "button, a, label") -> None:
        """What says just this, once it is there and may be clicked."""
        script = """
            const found = [...document.querySelectorAll(arguments[0])].find(
              (each) => each.innerText.trim() === arguments[1] && !each.disabled);
            found?.click();
            return !!found;"""
        self.wait(script, selector, text, what=f"{text!r} to click")

    def fill(self, name: str, text: str) -> None:
        """A field of that name, as if it were typed."""
        script = """
            const found = document.querySelector(`dialog[open] [name=${arguments[0]}], ` +
              `body:not(:has(dialog[open])) [name=${arguments[0]}]`);
            if (!found) return false;
            found.value = arguments[1];
            found.dispatchEvent(new Event("input", {bubbles: true}));
            return true;"""
        self.wait(script, name, text, what=f"a field {name}")

    def press(self, keys: str) -> None:
        """On the keyboard, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self._ask("POST", f"{self._session}/actions", {"actions": [source]})

    def complaints(self) -> list[str]:
        """What the page has said on its console since the last time, policies included."""
        lines = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [str(line["message"]) for line in lines]

    def picture(self) -> bytes:
        """PNG."""
        return base64.b64decode(self._ask("GET", f"{self._session}/screenshot"))

    def size(self, width: int, height: int) -> None:
        self._ask("POST", f"{self._session}/window/rect", {"width": width, "height": height})

    def devtools(self, command: str, **parameters: Any) -> Any:
        body = {"cmd": command, "params": parameters}
        return self._ask("POST", f"{self._session}/goog/cdp/execute", body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2 * WAIT_S)
        try:
            sent = json.dumps(body or {}) if method == "POST" else None
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            response = connection.getresponse()
            value = json.loads(response.read())["value"]
        finally:
            connection.close()
        if response.status != 200:
            raise AssertionError(f"{path}: {value['message']}")
        return value


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """Skips the test where there is none."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("no chromium and chromedriver here (`make setup` says how to have them)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        browser = Browser(port)
        try:
            _wait_for(port, process)
            browser.begin(folder, flags)
            yield browser
            browser.end()
        finally:
            process.terminate()
            process.wait(20)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("chromedriver does not listen")
