"""docs/faststream.md as it stands there: a service between two topics of a real Kafka."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from halfhitch import TransactionProducer
from harness.kafka import create_topics, fresh_name, read_all, wait_until
from harness.places import ROOT
from harness.sidecar import Sidecar
from harness.snippets import fence_with, fences, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PAGE = "docs/faststream.md"
SOON_S = 60.0


def write(folder: Path, bootstrap: str, orders: str, parcels: str) -> None:
    shown = fence_with(PAGE, "@broker.subscriber")
    dsn = "postgresql+asyncpg://shipping@localhost/shipping"
    for old, new in {
        dsn: f"sqlite+aiosqlite:///{folder}/shipping.db",
        "127.0.0.1:9092": bootstrap,
        '"placed"': f'"{orders}"',
        '"parcels"': f'"{parcels}"',
    }.items():
        shown = replaced(shown, old, new)
    # A group of its own: other runs on this Kafka have one of the page's name.
    shown = replaced(shown, 'group_id="shipping"', f'group_id="{orders}"')
    (folder / "shipping.py").write_text(shown)


def start(folder: Path, address: str) -> subprocess.Popen[bytes]:
    with (folder / "service.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "shipping.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "sidecar"), "HALFHITCH_ADDRESS": address},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def database(folder: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "shipping.db", timeout=20)) as connection:
        found = [connection.execute(statement).fetchall() for statement in statements]
        connection.commit()
        return found[-1]


def give_again(bootstrap: str, topic: str) -> None:
    """The first message once more, as a mirror does that begins anew."""
    reader = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic + "-x", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    try:
        message = reader.poll(SOON_S)
        assert message is not None
        assert message.error() is None
    finally:
        reader.close()
    writer = Producer({"bootstrap.servers": bootstrap})
    writer.produce(topic, message.value(), message.key(), headers=message.headers())
    assert writer.flush(SOON_S) == 0


@pytest.mark.long
def test_the_page_s_service_does_its_work_once_and_sends_what_follows_from_it(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    orders, parcels = fresh_name("orders"), fresh_name("parcels")
    create_topics(kafka.bootstrap, {orders: 1, parcels: 1})
    write(tmp_path, kafka.bootstrap, orders, parcels)
    database(tmp_path, "PRAGMA journal_mode=WAL", *fences(PAGE, "sql"))
    given = {"HALFHITCH_TOPICS_PREFIX": orders + "-", "HALFHITCH_TOPICS_CREATE": "true"}

    def sent() -> list[str]:
        return [json.loads(one.value or b"")["item"] for one in read_all(kafka.bootstrap, parcels)]

    with Sidecar(kafka.bootstrap, tmp_path, **given) as sidecar:
        sidecar.wait_ready()
        with TransactionProducer("shop", sidecar.address, answers_checks=False) as shop:
            with shop.transaction() as tx:
                tx.send(orders, '{"item": "book"}')
                tx.send(orders, '{"item": "pen"}')
            with shop.transaction() as tx:
                tx.send(orders, '{"item": "moon"}')
                tx.rollback()
        service = start(tmp_path, sidecar.address)
        log = tmp_path / "service.log"
        try:
            # The handler fails, and the message is given again: the table comes late.
            wait_until(
                lambda: "no such table: parcels" in log.read_text(), SOON_S, what="a failure"
            )
            database(tmp_path, "CREATE TABLE parcels (item TEXT)")
            wait_until(lambda: len(sent()) >= 2, SOON_S, what="two parcels")
            service.kill()
            service.wait(20)

            give_again(kafka.bootstrap, orders)
            shop = TransactionProducer("shop", sidecar.address, answers_checks=False)
            with shop, shop.transaction() as tx:
                tx.send(orders, '{"item": "ink"}')
            service = start(tmp_path, sidecar.address)
            wait_until(lambda: len(sent()) >= 3, SOON_S, what="the third parcel")
            service.send_signal(signal.SIGTERM)
            assert service.wait(SOON_S) == 0, log.read_text()
        finally:
            if service.poll() is None:
                service.kill()
                service.wait(20)
    assert sent() == ["book", "pen", "ink"]
    assert database(tmp_path, "SELECT item FROM parcels") == [("book",), ("pen",), ("ink",)]
