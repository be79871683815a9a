"""Pages of others against an admin door without tokens: none of them sees or does anything.

On loopback without tokens whoever reaches the door may do everything. Only where a request comes
from tells the console's own from those of a page that somebody has open beside it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from harness.admin_door import admin_door
from harness.chromium import chromium
from harness.fake_operations import FakeOperations, undecided

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = b"""<!doctype html><title>a page of somebody else</title>
<iframe id="framed" src="DOOR/console"></iframe><iframe name="sink"></iframe>
<form id="form" method="post" enctype="text/plain" target="sink" action="DOOR/v1/many/rollback">
<input name='{"operator":"x","reason":"' value='","transactions":{"shop":["order-1"]}}'></form>
<script>
const body = '{"operator": "x", "reason": "y", "transactions": {"shop": ["order-1"]}}';
const json = {"Content-Type": "application/json"};
const many = "DOOR/v1/many/rollback";
window.tried = Promise.allSettled([
  fetch("DOOR/v1/transactions"), fetch("DOOR/v1/transactions", {mode: "no-cors"}),
  fetch("DOOR/console"), fetch(many, {method: "POST", headers: json, body}),
  fetch(many, {method: "POST", mode: "no-cors", body}),
  fetch(many, {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body}),
]).then((all) => all.map((one) => one.status === "fulfilled" ? one.value.type : "refused"));
navigator.sendBeacon(many, body);
document.getElementById("form").submit();
</script>
"""


@contextmanager
def site(page: bytes) -> Iterator[int]:
    """Another origin on this machine; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    # A browser opens connections in advance; one that says nothing would hold up the others.
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_page_of_another_origin_reads_and_does_nothing_and_frames_nothing() -> None:
    operations = FakeOperations([undecided("order-1")])
    with admin_door(operations, {}) as port, chromium() as browser:
        with site(PAGE.replace(b"DOOR", b"http://127.0.0.1:%d" % port)) as theirs:
            for name in ("localhost", "127.0.0.1"):  # another site, and the same one
                browser.go(f"http://{name}:{theirs}/")
                tried = browser.run("return window.tried")
                assert set(tried) <= {"refused", "opaque"}  # what is opaque cannot be read
                browser.run("return new Promise((resolve) => setTimeout(resolve, 500))")
                told = " ".join(browser.complaints())
                assert "frame-ancestors" in told
        assert operations.calls == []
        browser.go(f"http://127.0.0.1:{port}/console#transactions")
        browser.wait_text("order-1")


def test_a_name_that_was_pointed_at_the_door_shows_an_empty_console() -> None:
    operations = FakeOperations([undecided("order-1")])
    rebound = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    with admin_door(operations, {}) as port, chromium(rebound) as browser:
        browser.go(f"http://evil.example:{port}/console#transactions")
        browser.wait_text("The Host header names a host this door does not answer to", "#trouble")
        answer = browser.run(
            """return fetch("/v1/many/rollback", {method: "POST", body: arguments[0],
              headers: {"Content-Type": "application/json"}}).then((got) => got.status);""",
            '{"operator": "x", "reason": "y", "transactions": {"shop": ["order-1"]}}',
        )
        assert answer == 403
        assert operations.calls == []


def test_a_token_is_not_sent_in_the_open_without_a_word() -> None:
    operations = FakeOperations([undecided("order-1")])
    named = "--host-resolver-rules=MAP sidecar.example 127.0.0.1"
    token = "t" * 16
    with admin_door(operations, {}, tokens=[token]) as port, chromium(named) as browser:
        browser.go(f"http://sidecar.example:{port}/console#transactions")
        browser.wait_text("This page came unencrypted")
        browser.fill("token", token)
        browser.click("Sign in")
        browser.run("return new Promise((resolve) => setTimeout(resolve, 300))")
        assert browser.run("return sessionStorage.length") == 0
