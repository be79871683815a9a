"""Which Kafka transactions are open now, asked of every broker in Kafka's own protocol.

confluent_kafka offers no ListTransactions and the embedded Kafka has no command line tools, so this
speaks one request by hand: ListTransactions (api key 66, version 0) to each broker, which answers
for the transactional ids whose coordinator it is. What no coordinator knows any more but still
holds readers back shows in readers.held_partitions.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfhitch.adapters.kafka.open_producers import Cursor
from harness.kafka import admin_client

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIST_TRANSACTIONS = 66
_CLIENT_ID = b"half-hitch-open-transactions"
#: A transaction in one of these has not ended; all other states are of ended ones.
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_ANSWER_S = 5.0
_BETWEEN_S = 0.2


@dataclass(frozen=True, slots=True)
class KafkaTransactionListed:
    """One transactional id as its coordinator knows it."""

    transactional_id: str
    producer_id: int
    state: str


def open_transactions(bootstrap: str, *, prefix: str = "", patience_s: float = 0.0) -> list[str]:
    """Those that are open, as sentences; waits up to `patience_s` for them to end."""
    end_s = time.monotonic() + patience_s
    while True:
        found = [
            f"{t.transactional_id} (producer {t.producer_id}) is {t.state}"
            for t in list_transactions(bootstrap)
            if t.state in OPEN_STATES and t.transactional_id.startswith(prefix)
        ]
        if not found or time.monotonic() >= end_s:
            return sorted(found)
        time.sleep(_BETWEEN_S)


def list_transactions(bootstrap: str) -> list[KafkaTransactionListed]:
    """All transactional ids that the brokers know. Raises OSError when one does not answer."""
    brokers = admin_client(bootstrap).list_topics(timeout=_ANSWER_S).brokers.values()
    return [one for broker in brokers for one in _ask(broker.host, broker.port)]


def _ask(host: str, port: int) -> list[KafkaTransactionListed]:
    with socket.create_connection((host, port), _ANSWER_S) as connection:
        header = struct.pack(">hhih", _LIST_TRANSACTIONS, 0, 1, len(_CLIENT_ID)) + _CLIENT_ID
        # No tags; no filter by state and none by producer (arrays of length 0 + 1); no tags.
        request = header + b"\x00" + b"\x01\x01\x00"
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size_bytes,) = struct.unpack(">i", answer.read(4))
            return list(_parse(Cursor(answer.read(size_bytes))))


def _parse(cursor: Cursor) -> Iterator[KafkaTransactionListed]:
    cursor.take(">i")  # correlation id
    cursor.tags()
    cursor.take(">i")  # throttle time
    code = cursor.take(">h")
    if code:
        raise OSError(f"the broker answered ListTransactions with error {code}")
    for _ in range(cursor.varint() - 1):  # states that it does not know
        cursor.text()
    for _ in range(cursor.varint() - 1):
        transactional_id, producer_id = cursor.text(), cursor.take(">q")
        yield KafkaTransactionListed(transactional_id, producer_id, cursor.text())
        cursor.tags()
