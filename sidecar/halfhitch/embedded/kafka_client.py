"""How the embedded Kafka looks at itself from outside, to know when it is ready.

Owns three questions: does a port answer, which brokers does a client see, do the coordinators of
groups and transactions work. Each asks once and answers at once; waiting is the caller's.
"""

from __future__ import annotations

import socket
import struct

_ANSWER_S = 2.0
_FIND_COORDINATOR = 10
_FIND_COORDINATOR_VERSION = 1  # the last with plain fixed-width fields and an explicit kind
_COORDINATOR_KINDS = (0, 1)  # of a consumer group, of a transactional id


def port_is_open(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody listens on a port, of loopback unless told."""
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError:
        return False
    return True


class MetadataClient:
    """Sees the cluster as a client does."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                # Refused connections are expected here and not worth a line on stderr.
                "log_level": 0,
            }
        )

    def known_broker_ids(self, cluster_id: str | None = None) -> set[int]:
        """The brokers that are registered and serve clients.

        Empty if nobody answers, or another cluster does: two programs may hold one port before
        either listens, and then the slower one's broker ends in a moment.
        """
        from confluent_kafka import KafkaException

        try:
            answer = self._admin.list_topics(timeout=_ANSWER_S)
        except KafkaException:
            return set()
        is_meant = cluster_id is None or answer.cluster_id == cluster_id
        return set(answer.brokers) if is_meant else set()


def coordinators_work(port: int, host: str = "127.0.0.1") -> bool:
    """Ask a broker for both coordinators; the first time makes it create their internal topics.

    librdkafka waits a second when its first question is answered with "not yet", and Kafka creates
    these topics only when asked; so a fresh cluster would be slow just once, in whichever test or
    demo came first.
    """
    try:
        with socket.create_connection((host, port), _ANSWER_S) as connection:
            return all(_coordinator_error(connection, kind) == 0 for kind in _COORDINATOR_KINDS)
    except OSError:
        return False


def _coordinator_error(connection: socket.socket, kind: int) -> int:
    """One FindCoordinator request; its error code."""
    name = b"halfhitch-embedded"
    body = struct.pack(
        f">hhih{len(name)}sh{len(name)}sb",
        *(_FIND_COORDINATOR, _FIND_COORDINATOR_VERSION, kind),  # the last is the correlation id
        *(len(name), name),  # client id
        *(len(name), name, kind),
    )
    connection.sendall(struct.pack(">i", len(body)) + body)
    answer = connection.makefile("rb")
    (size_bytes,) = struct.unpack(">i", _exactly(answer.read(4), 4))
    # correlation id, throttle time, error code
    return int(struct.unpack_from(">iih", _exactly(answer.read(size_bytes), size_bytes))[2])


def _exactly(content: bytes, size_bytes: int) -> bytes:
    if len(content) < size_bytes:
        raise ConnectionError("the broker closed the connection in mid-answer")
    return content
