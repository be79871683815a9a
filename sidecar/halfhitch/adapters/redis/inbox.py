"""Reads this instance's inbox and hands what comes to the event loop.

Owns one thread with a connection of its own and the stream `inbox:{instance}`. Invariants: always
read from the beginning and deleted once read, so that it does not matter where a wiped or restored
server goes on counting; what was there before the start is thrown away, and so is what has lain
longer than ENTRY_AGE_S (nobody waits for it any more); the next batch is read only after the loop
has taken the last one; an entry may come twice after an outage, which the receiver must bear.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from halfhitch.adapters.redis import connect
from halfhitch.adapters.redis.address import RedisAddress
from halfhitch.ports import OnPost

logger = logging.getLogger(__name__)

ENTRY_AGE_S: Final = 30.0
_BLOCK_MS: Final = 500
_WAIT_S: Final = 2.0
_COUNT: Final = 32
_PAUSE_S: Final = 0.2
_PAUSE_S_MAX: Final = 1.0
_LOOP_S_MAX: Final = 30.0
_KIND_BYTES_MAX: Final = 64

Entry = tuple[bytes, str, bytes]


class InboxReader:
    """Started and stopped by RedisIndex."""

    _stream: str  # since the start

    def __init__(
        self,
        address: RedisAddress,
        *,
        on_post: OnPost,
        now_ms: Callable[[], int],
        body_bytes_max: int,
    ) -> None:
        self._address = address
        self._on_post = on_post
        self._now_ms = now_ms
        self._body_bytes_max = body_bytes_max
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: connect.Client | None = None
        self._is_fresh = True  # nothing has been read since the start
        self._handed_over: list[bytes] = []  # ids that could perhaps not be deleted yet
        self._stopping = threading.Event()
        self._taken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-inbox", daemon=True)

    def start(self, stream: str, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; what comes to the inbox of this name is handed over on `loop`."""
        self._stream = stream
        self._loop = loop
        self._thread.start()

    def stop(self) -> None:
        """End within half a second."""
        self._stopping.set()
        self._taken.set()

    def join(self, at_most_s: float) -> None:
        """Wait for its end."""
        if self._thread.ident is not None:
            self._thread.join(at_most_s)

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = _PAUSE_S
        while not self._stopping.is_set():
            try:
                if self._client is None:
                    self._client = connect.connect(self._address, wait_s=_WAIT_S)
                self._read(self._client)
                pause_s = _PAUSE_S
            except Exception as error:  # noqa: BLE001 - redis-py raises many kinds
                # The writer says what is wrong with Redis; twice would be noise.
                logger.debug("inbox: %s", connect.sentence(error, self._address))
                connect.close(self._client)
                self._client = None
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        connect.close(self._client)

    def _read(self, client: connect.Client) -> None:
        if self._is_fresh:
            connect.run(client, [("UNLINK", self._stream)])
            self._is_fresh = False
        try:
            answer = client.execute_command(
                *("XREAD", "COUNT", _COUNT, "BLOCK", _BLOCK_MS, "STREAMS", self._stream, "0-0"),
                keys=[self._stream],
            )
        except Exception as error:
            if not connect.is_garbage(error):
                raise
            connect.run(client, [("UNLINK", self._stream)])
            self._stopping.wait(_PAUSE_S)  # whoever wrote it may do so again
            return
        entries, ids = _entries(answer)
        if not ids:
            return
        now_ms = self._now_ms()
        wanted = [
            (kind, body, age_s)
            for entry_id, kind, body in entries
            if entry_id not in self._handed_over
            and len(body) <= self._body_bytes_max
            and (age_s := max(0, now_ms - _time_ms(entry_id)) / 1000) <= ENTRY_AGE_S
        ]
        self._hand_over(wanted)
        self._handed_over = ids
        for deleted in connect.run(client, [("XDEL", self._stream, *ids)]):
            if isinstance(deleted, Exception):
                raise deleted
        self._handed_over = []

    def _hand_over(self, wanted: list[tuple[str, bytes, float]]) -> None:
        if not wanted or self._loop is None or self._stopping.is_set():
            return
        self._taken.clear()
        try:
            self._loop.call_soon_threadsafe(self._deliver, wanted)
        except RuntimeError:  # the loop has been closed: nobody is left to read for
            self._stopping.set()
            return
        self._taken.wait(_LOOP_S_MAX)

    def _deliver(self, wanted: list[tuple[str, bytes, float]]) -> None:
        self._taken.set()
        for kind, body, age_s in wanted:
            try:
                self._on_post(kind, body, age_s)
            except Exception:
                logger.exception(
                    "an entry of the inbox could not be handled", extra={"action": "inbox_bug"}
                )


def _entries(answer: Any) -> tuple[list[Entry], list[bytes]]:
    """What of XREAD's answer is ours, and all ids in it."""
    found: list[Entry] = []
    ids: list[bytes] = []
    for _, rows in answer.items() if isinstance(answer, dict) else answer or ():
        for entry_id, fields in rows:
            ids.append(entry_id)
            if not isinstance(fields, dict) or set(fields) != {b"k", b"b"}:
                continue
            kind, body = fields[b"k"], fields[b"b"]
            if len(kind) <= _KIND_BYTES_MAX and kind.isascii():
                found.append((entry_id, kind.decode("ascii"), body))
    return found, ids


def _time_ms(entry_id: bytes) -> int:
    """Redis's clock when the entry was written; 0 for an id that is none."""
    milliseconds = entry_id.partition(b"-")[0]
    return int(milliseconds) if milliseconds.isdigit() and len(milliseconds) < 20 else 0
