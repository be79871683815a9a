"""`halfhitch top` on a real sidecar: what is prepared is seen, and the sidecar may go and come."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch import TransactionProducer
from halfhitch.adapters.kafka.topics import ensure
from halfhitch.wire.topics import InternalTopics
from harness.kafka import admin_client, create_topics, fresh_name
from harness.sidecar import Sidecar
from harness.terminal import top

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


async def test_what_is_prepared_is_seen_and_a_sidecar_may_go_and_come(
    kafka: Any, tmp_path: Path
) -> None:
    topic, prefix = fresh_name("orders"), fresh_name("t") + "."
    create_topics(kafka.bootstrap, {topic: 1})
    ensure(
        admin_client(kafka.bootstrap), InternalTopics(prefix), partition_count=1,
        replication_factor=1,
    )  # fmt: skip
    port = free_port()
    settings = {"HALFHITCH_TOPICS_PREFIX": prefix, "HALFHITCH_ADMIN_PORT": str(port)}
    with Sidecar(kafka.bootstrap, tmp_path, **settings) as sidecar:
        await asyncio.to_thread(sidecar.wait_ready)
        await asyncio.to_thread(sidecar.wait_settled)
        with TransactionProducer("shop", sidecar.address) as producer:
            held = producer.transaction(transaction_id="order-[red]7")
            held.send(topic, b"secret", key=b"k")
            async with top(port, size=(100, 30)) as seen:
                await seen.until("Undecided      1, the oldest for")
                await seen.until("prepared")
                await seen.until("LSO lag        0 records")
                await seen.press("2")
                await seen.until("order-[red]7")
                await seen.press("enter")
                await seen.until("Transaction order-[red]7 of group shop: 1 message")
                assert "secret" not in seen.text
                await seen.press("escape", "5")
                await seen.until("working")
                await seen.press("2")
                await seen.until("order-[red]7")
                sidecar.kill()
                await seen.until("No sidecar answers on")
                assert "order-[red]7" in seen.text
                sidecar.start()
                await asyncio.to_thread(sidecar.wait_ready)
                await seen.until("The sidecar answers again.")
                await asyncio.to_thread(held.rollback)
                await seen.until("Nothing that matches is undecided.")
