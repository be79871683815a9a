"""Can a page in a real browser become a live producer, or end anything? `make browser`.

    python tests/fuzz/browser.py [--browser chromium]

Not among the tests: no package of the project's brings a browser. A page of another origin tries
what pages can: plain GETs in all the ways there are, forms, beacons, event streams, and headers of
Half Hitch's, which need leave first. The door must see most of it, and grant none of it.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from typing import TYPE_CHECKING

from halfhitch.doors.http import HttpDoor
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with

if TYPE_CHECKING:
    from collections.abc import Mapping

WAIT_S = 60.0
PAGE = """<!doctype html><title>a page of somebody else</title>
<img src="DOOR/v1/checks?producer_group=g"><script src="DOOR/v1/checks?producer_group=g"></script>
<iframe src="DOOR/v1/checks?producer_group=g"></iframe>
<iframe name="f"></iframe>
<form id="form" method="post" enctype="text/plain" target="f" action="DOOR/v1/transactions">
<input name='{"producer_group":"g","messages":[{"topic":"orders","value":"' value='"}]}'></form>
<script>
const checks = "DOOR/v1/checks?producer_group=g", half = "DOOR/v1/topics/orders/half";
const tries = [
  fetch(checks, {mode: "no-cors"}), fetch(checks), fetch(checks, {mode: "no-cors", method: "HEAD"}),
  fetch(checks, {headers: {"Half-Producer-Name": "page"}}),
  fetch(checks, {mode: "no-cors", headers: {"Half-Producer-Name": "page"}}),
  fetch(half, {method: "POST", mode: "no-cors", body: "x"}),
  fetch(half, {method: "POST", headers: {"Half-Producer-Group": "g"}, body: "x"}),
  fetch("DOOR/v1/openapi.yaml", {mode: "no-cors"}),
];
new EventSource(checks);
navigator.sendBeacon(half, "x");
document.getElementById("form").submit();
Promise.allSettled(tries).then(all => {
  const readable = all.filter(one => one.status == "fulfilled" && one.value.type != "opaque");
  setTimeout(() => fetch("/done?readable=" + readable.length), 2000);
});
</script>
"""


class Site:
    """A page on an origin of its own; `done` has how many answers it could read."""

    def __init__(self) -> None:
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.page = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        except asyncio.IncompleteReadError:  # browsers open connections in advance
            writer.close()
            return
        is_done = target.startswith(b"/done?")
        if is_done and not self.done.done():
            self.done.set_result(int(target.rpartition(b"=")[2]))
        body = b"" if is_done else self.page
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()


async def tried(browser: str) -> tuple[int, Mapping[tuple[str, int], int], int, int]:
    """Answers the page could read, what the door answered, links, prepares."""
    answers: Counter[tuple[str, int]] = Counter()
    desk, service, site = FakeDesk(), FakeTransactions(), Site()
    door = HttpDoor(
        service,
        checks=desk,
        port=0,
        access=access_with(),
        limits=http_limits(),
        on_request=lambda route, status, *_: answers.update([(route, status)]),
    )
    await door.start()
    origin = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    site.page = PAGE.replace("DOOR", f"http://127.0.0.1:{door.port}").encode()
    url = f"http://localhost:{origin.sockets[0].getsockname()[1]}/"
    with tempfile.TemporaryDirectory() as folder:
        process = await asyncio.create_subprocess_exec(
            browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            f"--user-data-dir={folder}", "--remote-debugging-port=0", url,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            readable = await asyncio.wait_for(site.done, WAIT_S)
        finally:
            process.terminate()
            await process.wait()
            link_count, prepare_count = desk.connected_count, len(service.calls)
            origin.close()
            await door.stop(drain_s=0)
    return readable, answers, link_count, prepare_count


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--browser", default="chromium")
    browser = shutil.which(parser.parse_args().browser)
    if browser is None:
        print("there is no such browser here; name one with --browser", file=sys.stderr)
        return 2
    readable, answers, link_count, prepare_count = asyncio.run(tried(browser))
    for (route, status), count in sorted(answers.items()):
        print(f"{count:3}  {route} {status}")
    granted = sum(count for (_, status), count in answers.items() if status < 400)
    refused = sum(answers.values()) - granted
    print(f"{refused} refused, {granted} granted; {readable} readable, {link_count} live producers")
    is_good = (granted, readable, link_count, prepare_count) == (0, 0, 0, 0) and refused >= 8
    print("no page gets in" if is_good else "A PAGE GETS IN, or the browser tried too little")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
