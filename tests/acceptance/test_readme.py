"""README's first examples, pasted as they stand there, against a sidecar on a real Kafka.

The first one needs nothing; for the one by hand a reader has an order, a customer and a database.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from harness.kafka import admin_client, create_topics, fresh_name, read_all, wait_until
from harness.sidecar import Sidecar
from harness.snippets import ROOT, replaced

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedKafka

_TOPICS = ("orders", "points")


class Database:
    """The reader's, with an order that waits for its commit."""

    def __init__(self, path: Path, order_id: str) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("INSERT INTO orders (id) VALUES (?)", (order_id,))

    def commit(self) -> None:
        """What `database.commit()` means."""
        self._connection.commit()
        self._connection.close()


def _examples() -> list[str]:
    """The programs below "A service", in their order."""
    section = (ROOT / "README.md").read_text().partition("\n### A service\n")[2]
    section = section.partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def _make_topics(bootstrap: str) -> None:
    known = admin_client(bootstrap).list_topics(timeout=15).topics
    create_topics(bootstrap, {topic: 1 for topic in _TOPICS if topic not in known})


def test_readmes_first_examples_leave_a_row_and_its_messages(
    kafka: EmbeddedKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, to_see, by_hand = _examples()
    _make_topics(kafka.bootstrap)
    monkeypatch.chdir(tmp_path)  # where the first example makes its database
    prefix = fresh_name("readme") + "-"
    settings = {"HALFHITCH_TOPICS_PREFIX": prefix, "HALFHITCH_TOPICS_CREATE": "true"}
    with Sidecar(kafka.bootstrap, tmp_path, **settings) as sidecar:
        sidecar.wait_ready()
        monkeypatch.setenv("HALFHITCH_ADDRESS", sidecar.address)
        names: dict[str, Any] = {}
        exec(compile(first, "README.md, the first example", "exec"), names)
        names["engine"].dispose()
        _check(kafka.bootstrap, names["tx"].id, names["tx"].id)

        to_see = replaced(to_see, "127.0.0.1:9092", kafka.bootstrap)
        to_see = replaced(to_see, "a-look", f"{prefix}look")
        exec(compile(to_see, "README.md, the example that reads", "exec"), {})
        assert len(capsys.readouterr().out.splitlines()) == 2

        order_id = f"{prefix}order"
        names = {
            "customer": "customer-7",
            "order_json": '{"order": 4712}',
            "points_json": '{"points": 6}',
            "database": Database(tmp_path / "first.db", order_id),
        }
        exec(compile(by_hand, "README.md, the example by hand", "exec"), names)
        names["producer"].close()
        _check(kafka.bootstrap, names["tx"].id, order_id)


def _check(bootstrap: str, transaction_id: str, order_id: str) -> None:
    """The row stands, and a message of the transaction is visible on each topic, once."""
    mark = ("UNIQ_KEY", transaction_id.encode())
    for topic in _TOPICS:

        def seen(topic: str = topic) -> int:
            return sum(mark in record.headers for record in read_all(bootstrap, topic))

        wait_until(seen, 30, what=f"the message on {topic}")
        assert seen() == 1
    with closing(sqlite3.connect("first.db")) as connection:
        rows = connection.execute("SELECT id FROM orders WHERE id = ?", (order_id,)).fetchall()
    assert rows == [(order_id,)]
