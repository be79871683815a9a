"""docs/reading.md, pasted as it stands there: plain Kafka clients on what was really committed.

Python's client is always here, kcat is one of the packages of `make servers`. Java's reader needs a
compiler beside the embedded server's jars, Go's a compiler that reaches the module proxy: where one
is missing, its reader is left out.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from halfhitch import TransactionProducer
from halfhitch.embedded.jars import kafka_jars
from harness.kafka import bounds, create_topics, fresh_name, read_all, wait_until
from harness.sidecar import Sidecar
from harness.snippets import ROOT, fence_with, fences, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PAGE = "docs/reading.md"
SOON_S = 90.0  # a compiler and a machine of Java, on a busy machine
KEY = "customer-7"
GO_MODULE = "github.com/twmb/franz-go v1.22.2"


class Shop:
    """Two topics of its own on which one transaction was committed, and others were not."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.orders, self.points = fresh_name("orders"), fresh_name("points")
        create_topics(bootstrap, {self.orders: 1, self.points: 3})
        settings = {
            "HALFHITCH_TOPICS_PREFIX": self.orders + "-",
            "HALFHITCH_TOPICS_CREATE": "true",
        }
        with Sidecar(bootstrap, folder, **settings) as sidecar:
            sidecar.wait_ready()
            with TransactionProducer("shop", sidecar.address, answers_checks=False) as producer:
                with producer.transaction("first") as tx:
                    tx.send(self.orders, '{"order": 4711}', key=KEY, headers={"a": "b"})
                    tx.send(self.points, '{"points": 5}', key=KEY)
                    tx.send(self.orders, '{"order": 4712}', key=KEY)
                with producer.transaction("second") as tx:
                    tx.send(self.orders, "rolled back", key=KEY)
                    tx.rollback()
            wait_until(lambda: len(read_all(bootstrap, self.orders)) == 2, 40, what="two orders")
            assert sidecar.terminate() == 0
        self._abort()
        self.lines = {
            f"{self.orders} {KEY} {{'order': 4711}} first shop".replace("'", '"'),
            f"{self.orders} {KEY} {{'order': 4712}} first shop".replace("'", '"'),
            f"{self.points} {KEY} {{'points': 5}} first shop".replace("'", '"'),
        }

    def _abort(self) -> None:
        """As an owner that dies in the middle: a record that nobody who reads committed sees."""
        name = fresh_name("dead-owner")
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.orders, b"aborted", KEY)
        producer.flush(30)
        producer.abort_transaction(30)

    def here(self, text: str) -> str:
        """A program of the page, for these topics and a consumer group of its own."""
        text = replaced(text, "127.0.0.1:9092", self.bootstrap)
        for name, ours in (("orders", self.orders), ("points", self.points)):
            text = replaced(text, f'"{name}"', f'"{ours}"')
        return replaced(text, "shipping", fresh_name("shipping"))

    def all_messages(self) -> list[Any]:
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": fresh_name("all"),
                "auto.offset.reset": "earliest",
            }
        )
        reader.subscribe([self.orders, self.points])
        try:
            return reader.consume(3, timeout=40)
        finally:
            reader.close()


@pytest.fixture(scope="module")
def shop(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    return Shop(kafka.bootstrap, tmp_path_factory.mktemp("shop"))


def said(shop: Shop, command: Sequence[str], folder: Path, **environment: str) -> None:
    """Run a reader that goes on for ever until it has said what was committed, and nothing else."""
    out, errors = folder / "out.txt", folder / "errors.txt"
    with out.open("wb") as stdout, errors.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:

        def lines() -> list[str]:
            return out.read_text().splitlines()

        wait_until(
            lambda: process.poll() is not None or len(lines()) >= len(shop.lines),
            SOON_S,
            what=f"the messages: {errors.read_text()}",
        )
        assert sorted(lines()) == sorted(shop.lines), errors.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def test_pythons_reader_is_given_what_was_committed(shop: Shop, tmp_path: Path) -> None:
    program = shop.here(fence_with(PAGE, "Consumer("))
    (tmp_path / "reader.py").write_text(program)
    said(shop, [sys.executable, "reader.py"], tmp_path)


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no compiler of Java")
def test_javas_reader_is_given_what_was_committed(shop: Shop, tmp_path: Path) -> None:
    (program,) = fences(PAGE, "java")
    (tmp_path / "Reader.java").write_text(shop.here(program))
    path = os.pathsep.join(str(jar) for jar in kafka_jars())
    said(shop, ["java", "-Xmx256m", "-cp", path, "Reader.java"], tmp_path)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go")
def test_gos_reader_is_given_what_was_committed(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text(f"module reader\n\nrequire {GO_MODULE}\n")
    environment = {**os.environ, "GOFLAGS": "-mod=mod"}
    (program,) = fences(PAGE, "go")
    (tmp_path / "main.go").write_text(shop.here(program))
    command = ["go", "build", "-o", "reader", "."]
    built = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    if "dial tcp" in built.stderr or "GOPROXY=off" in built.stderr:
        pytest.skip("Go reaches no module proxy")
    assert built.returncode == 0, built.stderr
    said(shop, ["./reader"], tmp_path)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="there is no kcat")
def test_kcat_shows_what_was_committed(shop: Shop) -> None:
    command = next(text for text in fences(PAGE, "sh") if text.startswith("kcat "))
    command = replaced(command, "127.0.0.1:9092", shop.bootstrap)
    command = replaced(command, "-t orders", f"-t {shop.orders}")
    done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, check=True)
    orders = sorted(line for line in shop.lines if line.startswith(shop.orders))
    shown = sorted(done.stdout.splitlines())
    assert len(shown) == len(orders)
    for line, order in zip(shown, orders, strict=True):
        assert line.startswith(order.partition(" first")[0])
        assert "UNIQ_KEY=first,PGROUP=shop,HALFHITCH=1;" in line


def test_a_reader_of_uncommitted_records_sees_what_the_page_warns_of(shop: Shop) -> None:
    values = [found.value for found in read_all(shop.bootstrap, shop.orders, "read_uncommitted")]
    assert b"aborted" in values
    assert b"aborted" not in [found.value for found in read_all(shop.bootstrap, shop.orders)]


def page_names() -> dict[str, Any]:
    """The functions of the page."""
    names: dict[str, Any] = {}
    for phrase in ("def origin_of", "def take", "def whole"):
        exec(compile(fence_with(PAGE, phrase), PAGE, "exec"), names)
    return names


def test_the_headers_say_what_the_page_says(shop: Shop) -> None:
    origin_of = page_names()["origin_of"]
    messages = shop.all_messages()
    assert sorted(origin_of(message) for message in messages) == [
        ("shop", "first", index, 3) for index in range(3)
    ]
    orders = [message for message in messages if message.topic() == shop.orders]
    assert [origin_of(message).index for message in orders] == [0, 2]
    names = [name for name, _ in orders[0].headers()]
    assert names == ["a", "UNIQ_KEY", "PGROUP", "HALFHITCH"]
    marker = dict(orders[0].headers())["HALFHITCH"].decode()
    assert re.fullmatch(r"1;0;\d{13};[^;]+;n=3;d=[0-9a-f]{16}", marker)
    assert re.search(r"`1;0;\d{13};[^;]+;n=2;d=[0-9a-f]{16}`", (ROOT / PAGE).read_text())


def test_a_message_that_comes_again_is_taken_once(shop: Shop) -> None:
    take = page_names()["take"]
    database = sqlite3.connect(":memory:")
    (table,) = fences(PAGE, "sql")
    database.execute(table)
    done: list[bytes] = []
    for message in (*shop.all_messages(), *shop.all_messages()):
        take(database, message, lambda _, message: done.append(message.value()))
    database.close()
    assert sorted(done) == [b'{"order": 4711}', b'{"order": 4712}', b'{"points": 5}']


def test_a_transaction_is_given_once_all_of_it_is_there(shop: Shop) -> None:
    whole = page_names()["whole"]
    first, second, third = shop.all_messages()
    assert whole(first) is None
    assert whole(first) is None  # again
    assert whole(second) is None
    assert [m.value() for m in whole(third)] == [
        b'{"order": 4711}',
        b'{"points": 5}',
        b'{"order": 4712}',
    ]


def test_the_key_chooses_the_partition_that_javas_producer_would(shop: Shop) -> None:
    """What a producer of librdkafka chooses with the option that the page names."""
    (ours,) = [m for m in shop.all_messages() if m.topic() == shop.points]
    other = fresh_name("like-java")
    create_topics(shop.bootstrap, {other: 3})
    producer = Producer(
        {"bootstrap.servers": shop.bootstrap, "partitioner": "murmur2_random"},
    )
    producer.produce(other, b"", KEY)
    producer.flush(30)
    (like_java,) = read_all(shop.bootstrap, other)
    assert like_java.partition == ours.partition()


@pytest.mark.parametrize(("way", "lag"), [("message", 1), ("store", 1), ("automatic", 0)])
def test_a_reader_that_commits_the_next_offset_stays_before_the_marker(
    shop: Shop, way: str, lag: int
) -> None:
    """The lag that monitoring shows of a reader that has read all."""
    reader = Consumer(
        {
            "bootstrap.servers": shop.bootstrap,
            "group.id": fresh_name("lag"),
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": way == "automatic",
            "enable.auto.commit": False,
        }
    )
    reader.subscribe([shop.points])
    try:
        (message,) = reader.consume(1, timeout=40)
        assert reader.poll(2) is None
        if way == "message":
            reader.commit(message, asynchronous=False)
        else:
            if way == "store":
                reader.store_offsets(message)
            reader.commit(asynchronous=False)
        place = TopicPartition(shop.points, message.partition())
        (stored,) = reader.committed([place], timeout=30)
        _, ends = bounds(shop.bootstrap, shop.points, "read_committed")
        assert ends[message.partition()] - stored.offset == lag
    finally:
        reader.close()
