"""The shipped program under check-back: sidecar processes, and applications that answer over HTTP.

Owns `CheckSidecar` (a process whose ledger can be looked at through its admin door), `Remote` (the
same face as an engine, for the tests' side of the data door) and `Application` (a Python producer
in threads, which answers as a witness tells it) and `Mute` (takes checks, and says nothing at all).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote
from urllib.request import urlopen

from halfhitch.client import (
    AsyncTransactionProducer,
    LocalTransactionState,
    Message,
    TransactionProducer,
)
from halfhitch.core.model import Resolution
from halfhitch.service.api import PartitionState
from harness.check_witness import Answer
from harness.engines import HANDLE_KEY
from harness.kafka import wait_until
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from halfhitch.client import Check
    from halfhitch.service.api import Ended, OutgoingMessage, Prepared
    from harness.check_site import CheckSite
    from harness.check_witness import Witness

STATES = {
    Answer.COMMIT: LocalTransactionState.COMMIT,
    Answer.ROLLBACK: LocalTransactionState.ROLLBACK,
    Answer.UNKNOWN: LocalTransactionState.UNKNOWN,
}


class CheckSidecar(Sidecar):
    """A sidecar of a site's installation, with its rules. `name` is its folder and instance."""

    def __init__(self, site: CheckSite, folder: Path, name: str = "a", **settings: str) -> None:
        own = folder / name
        own.mkdir(exist_ok=True)
        rules = site.rules
        super().__init__(
            site.bootstrap,
            own,
            **{
                "HALFHITCH_HANDLE_KEY": HANDLE_KEY.decode(),
                "HALFHITCH_INSTANCE_ID": name,
                "HALFHITCH_TOPICS_PREFIX": site.prefix,
                "HALFHITCH_TOPICS_CREATE": "true",
                "HALFHITCH_TOPICS_PARTITIONS": "2",
                "HALFHITCH_CHECKS_IMMUNITY_S": str(rules.immunity_ms / 1000),
                "HALFHITCH_CHECKS_INTERVAL_S": str(rules.interval_ms / 1000),
                "HALFHITCH_CHECKS_JITTER": str(rules.jitter),
                "HALFHITCH_CHECKS_COUNT_MAX": str(rules.count_max),
                "HALFHITCH_CHECKS_ANSWER_S_MAX": str(site.desk_limits.answer_s),
                **({} if site.redis_url is None else {"HALFHITCH_REDIS_URL": site.redis_url}),
                **settings,
            },
        )

    def partitions(self) -> list[PartitionState]:
        """As an engine gives them; none while nobody answers."""
        status, answer = self.ask("/v1/partitions")
        return [PartitionState(**p) for p in answer["partitions"]] if status == 200 else []

    def wait_working(self, count: int = 2, deadline_s: float = 40.0) -> None:
        """Until it works on so many partitions."""

        def works() -> bool:
            assert self.exit_code is None, self.log.read_text()
            states = self.partitions()
            return len(states) == count and all(s.phase == "working" for s in states)

        wait_until(works, deadline_s, interval_s=0.1, what=lambda: f"work: {self.partitions()}")

    def scrape(self) -> str:
        """The text of /metrics."""
        with urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text

    def metric(self, name: str) -> float:
        """The sum of a metric's samples; 0 when there is none."""
        lines = self.scrape().splitlines()
        found = [line.rsplit(" ", 1) for line in lines if line.startswith((name + " ", name + "{"))]
        return sum(float(value) for _, value in found)


def clock_settings(folder: Path, shift_s: int) -> dict[str, str]:
    """The environment in which a process's wall clock is wrong by so much.

    Only Python sees it; that is what ages and the index are computed from. libfaketime would reach
    librdkafka too, but librdkafka's waits do not end under it.
    """
    place = folder / f"clock{shift_s}"
    place.mkdir()
    place.joinpath("sitecustomize.py").write_text(
        "import time\n"
        "true_s, true_ns = time.time, time.time_ns\n"
        f"time.time = lambda: true_s() + {shift_s}\n"
        f"time.time_ns = lambda: true_ns() + {shift_s} * 10**9\n"
    )
    # Ahead of what this process was told, for there halfhitch-native may be.
    told = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(place), told]))}


class Remote:
    """A data door with the face of an engine's `transactions`, for CheckSite."""

    def __init__(self, sidecar: CheckSidecar) -> None:
        self.sidecar = sidecar
        self.transactions = self
        self._producers: dict[str, AsyncTransactionProducer] = {}

    def _producer(self, group: str) -> AsyncTransactionProducer:
        if group not in self._producers:
            self._producers[group] = AsyncTransactionProducer(group, self.sidecar.address)
        return self._producers[group]

    async def prepare(
        self,
        *,
        producer_group: str,
        messages: Sequence[OutgoingMessage],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
    ) -> Prepared:
        sent = [Message(m.topic, m.value, m.key, m.headers, m.partition) for m in messages]
        prepared: Any = await self._producer(producer_group).prepare(
            sent, transaction_id, immunity_s
        )
        return prepared

    async def end(self, handle: str, resolution: Resolution, **options: bool) -> Ended:
        producer = next(iter(self._producers.values()))
        if resolution is Resolution.COMMIT:
            ended: Any = await producer.commit(handle, **options)
        else:
            ended = await producer.rollback(handle)
        return ended

    def partitions(self) -> list[PartitionState]:
        return self.sidecar.partitions()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*[producer.close() for producer in self._producers.values()])


class Application:
    """A producer of a group, in threads of this process. SILENT holds its thread until the end."""

    def __init__(
        self, witness: Witness, group: str, address: str, name: str, **options: Any
    ) -> None:
        self.witness, self.name = witness, name
        self._over = threading.Event()
        self.producer = TransactionProducer(group, address, check=self._check, **options)

    def _check(self, check: Check) -> LocalTransactionState:
        answer = self.witness.ask(check.transaction_id, check.number, self.name)
        if answer is Answer.SILENT:
            self._over.wait(60)
            return LocalTransactionState.UNKNOWN
        return STATES[answer]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.producer.close()


class Mute:
    """A producer that takes every check and never says anything, not even a heartbeat."""

    def __init__(self, witness: Witness, group: str, sidecar: CheckSidecar, name: str) -> None:
        self._witness, self._name = witness, name
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(sidecar.socket))
        head = f"GET /v1/checks?producer_group={quote(group)} HTTP/1.1\r\nHost: localhost\r\n"
        head += "Half-Producer-Name: by-hand\r\n\r\n"
        self._socket.sendall(head.encode())
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        with self._socket.makefile("rb") as reader:
            try:
                for line in reader:
                    if line.startswith(b'{"type":"check"'):
                        check = json.loads(line)
                        number = check["check_number"]
                        self._witness.ask(check["transaction_id"], number, self._name)
            except OSError:
                pass  # the other side was killed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has gone already
        self._thread.join(10)
        self._socket.close()
