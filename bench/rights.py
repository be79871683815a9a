"""What it costs to ask for rights: `python bench/rights.py`, half a minute.

The HTTP door and the service over logs in memory, without sockets and without Kafka, in one
process: the same prepares and commits by turns with nothing asked for, with one shared token, with
identities, and with a bound of requests in a second for each of them. Processor time of this
process alone, so that a busy machine says the same. With Kafka, sockets and an owner a transaction
takes a multiple of this: the shares are upper bounds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests"), str(root / "sidecar")]

from halfhitch.access import Access
from halfhitch.doors.http import HttpDoor
from halfhitch.doors.http.protocol import Connection
from harness.coordinator import Coordinator
from harness.defaults import http_limits
from harness.identities import SHOP, everybody

if TYPE_CHECKING:
    from collections.abc import Callable

_HALF: Final = (
    b"POST /v1/topics/orders/half HTTP/1.1\r\nHost: localhost\r\n%bHalf-Producer-Group: shop\r\n"
    b"Content-Length: 200\r\n\r\n" + b"x" * 200
)
_COMMIT: Final = b"POST /v1/transactions/%b/commit HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
_TOKEN: Final = b"Half-Token: %b\r\n" % SHOP.encode()
_WARM_UP_COUNT: Final = 50
#: What is asked for, and what the caller shows.
WAYS: Final[dict[str, tuple[Callable[[], Access], bytes]]] = {
    "nothing asked for": (Access, b""),
    "one shared token": (lambda: Access(tokens=[SHOP.encode()]), _TOKEN),
    "identities": (lambda: Access(identities=everybody()), _TOKEN),
    "and a bound": (lambda: Access(identities=everybody(), requests_s_max=1_000_000), _TOKEN),
}


class Wire(asyncio.Transport):
    """The other end of a connection: keeps what is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes] = []
        self.came = asyncio.Event()

    def write(self, data: Any) -> None:
        """One answer."""
        self.answers.append(bytes(data))
        self.came.set()

    def is_closing(self) -> bool:
        """It stays open."""
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Nobody in particular."""
        return default


class Line:
    """One connection to a door that asks for these rights."""

    def __init__(self, access: Access, token: bytes) -> None:
        coordinator, limits = Coordinator(), http_limits()
        door = HttpDoor(coordinator.service, port=0, limits=limits, access=access)
        self._half, self._token = _HALF % token, token
        self._wire = Wire()
        self._connection = Connection(
            dispatcher=door._dispatcher(None),
            limits=limits,
            load=door._load,
            loop=asyncio.get_running_loop(),
            on_request=None,
        )
        self._connection.connection_made(self._wire)

    async def _ask(self, request: bytes, expected: bytes) -> bytes:
        self._wire.came.clear()
        self._connection.data_received(request)
        if not self._wire.answers:
            await self._wire.came.wait()
        answer = self._wire.answers.pop()
        assert answer.startswith(expected), answer
        return answer

    async def run(self, count: int) -> float:
        """Seconds of processor time for so many transactions."""
        began_s = time.process_time()
        for _ in range(count):
            answer = await self._ask(self._half, b"HTTP/1.1 201 ")
            handle = answer.partition(b"Half-Handle: ")[2].partition(b"\r\n")[0]
            await self._ask(_COMMIT % (handle, self._token), b"HTTP/1.1 200 ")
        return time.process_time() - began_s


async def measured(rounds: int, count: int) -> dict[str, list[float]]:
    """Microseconds of each transaction, by way and round; the order changes from round to round.

    A round is short, so that what else the machine does meets all ways of it alike.
    """
    lines = {way: Line(make(), token) for way, (make, token) in WAYS.items()}
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for line in lines.values():
        await line.run(_WARM_UP_COUNT)
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            turn = number % len(lines)
            for way in [*lines][turn:] + [*lines][:turn]:
                taken[way].append(await lines[way].run(count) / count * 1e6)
    finally:
        gc.enable()
    return taken


def share(taken: dict[str, list[float]], way: str, than: str) -> tuple[float, float]:
    """How much more `way` takes, in percent: at the quickest tenth of the rounds, which nothing
    else on the machine has disturbed, and at their median."""
    found = [quantiles(taken[which], n=10) for which in (way, than)]
    quick, middle = ((found[0][place] / found[1][place] - 1) * 100 for place in (0, 4))
    return quick, middle


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(prog="bench/rights.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--count", type=int, default=5, help="transactions of each turn")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    taken = asyncio.run(measured(given.rounds, given.count))
    for way, microseconds in taken.items():
        print(f"{way:<20}{median(microseconds):8.1f} us for a prepare and its commit")
    for way, than in (
        ("identities", "one shared token"),
        ("identities", "nothing asked for"),
        ("and a bound", "identities"),
    ):
        quick, middle = share(taken, way, than)
        print(f"{way} against {than}: {quick:+.1f} % undisturbed, {middle:+.1f} % at the median")
    return 0


if __name__ == "__main__":
    sys.exit(main())
