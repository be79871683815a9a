"""A sidecar under load, a stream, and the Prometheus that scrapes them, for dashboards."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from halfhitch import LocalTransactionState, TransactionProducer
from harness.kafka import create_topics, fresh_name, wait_until
from harness.places import ROOT
from harness.prometheus import EmbeddedPrometheus
from harness.remoting_client import RemotingClient
from harness.sidecar import Sidecar
from harness.streams import told_stream
from harness.tracing import traced_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

_COMMIT = 8  # MessageSysFlag's


def shop(sidecar: Sidecar, topic: str, load_s: float) -> None:
    """Commits, rollbacks, and what a check has to settle; all of it traced."""
    with (
        TransactionProducer(
            "shop", sidecar.address, check=lambda _: LocalTransactionState.COMMIT
        ) as producer,
        traced_program() as tracing,
    ):
        tracing.span = "b7ad6b7169203331"
        end_s = time.monotonic() + load_s
        while time.monotonic() < end_s:
            with producer.transaction() as tx:
                tx.send(topic, b"one")
            with producer.transaction() as tx:
                tx.send(topic, b"two")
                tx.rollback()
            producer.transaction().send(topic, b"for a check")
            time.sleep(0.05)


def leave(sidecar: Sidecar, topic: str) -> None:
    """What nobody can be asked about."""
    with TransactionProducer("gone", sidecar.address, on_error="unknown") as producer:
        for _ in range(5):
            producer.transaction().send(topic, b"left")


async def sell(port: int, topic: str, load_s: float) -> None:
    """The same by RocketMQ's door."""
    async with RemotingClient(port) as client:
        end_s = time.monotonic() + load_s
        while time.monotonic() < end_s:
            sent = await client.half("rocket", topic, b"three")
            await client.end_sync("rocket", sent, _COMMIT)
            await asyncio.sleep(0.1)


@contextmanager
def watched(
    bootstrap: str,
    redis_url: str,
    folder: Path,
    load_s: float,
    stream: Callable[[str, str], AbstractContextManager[int]] = lambda _kafka, _topic: (
        told_stream()
    ),
) -> Iterator[EmbeddedPrometheus]:
    """After so much load, and while nothing happens any more. `stream` reads the topic."""
    topic = fresh_name("orders")
    create_topics(bootstrap, {topic: 2})
    sidecar = Sidecar(
        bootstrap,
        folder,
        HALFHITCH_TOPICS_PREFIX=fresh_name("watched") + ".",
        HALFHITCH_TOPICS_CREATE="true",
        HALFHITCH_TOPICS_PARTITIONS="2",
        HALFHITCH_REDIS_URL=redis_url,
        HALFHITCH_ROCKETMQ_ENABLED="true",
        HALFHITCH_ROCKETMQ_PORT="0",
        HALFHITCH_CHECKS_IMMUNITY_S="1",
        HALFHITCH_CHECKS_INTERVAL_S="2",
    )
    with sidecar:
        sidecar.wait_ready(90.0)
        sidecar.wait_settled(90.0)
        found = re.search(r"rocketmq://127\.0\.0\.1:(\d+)", sidecar.log.read_text())
        assert found is not None
        rules_file = ROOT / "dashboards" / "rules.yaml"
        with (
            stream(bootstrap, topic) as stream_port,
            EmbeddedPrometheus([sidecar.admin_port, stream_port], rules_file) as prometheus,
        ):
            wait_until(lambda: prometheus.query("halfhitch_build_info"), 20, what="a scrape")
            leave(sidecar, topic)
            shopping = threading.Thread(target=shop, args=(sidecar, topic, load_s))
            shopping.start()
            asyncio.run(sell(int(found[1]), topic, load_s))
            shopping.join(60)
            yield prometheus


def filled_in(expression: str, interval: str = "1m") -> str:
    """As Grafana sends it when everything is chosen."""
    expression = expression.replace("$__rate_interval", interval)
    return expression.replace("$namespace", ".*").replace("$instance", ".*")
