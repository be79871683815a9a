"""The door's part: a RocketMQ client's bytes in, records to Kafka's client, reports, bytes out.

Everything that the event loop's thread does for a prepare and a one-way commit. Kafka's client and
the socket are played. Imported once by each tree, and makes use of that tree alone.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import uvloop

from halfhitch.adapters.kafka.record_log import KafkaRecordLog
from halfhitch.adapters.memory import MemoryTopicCatalog
from halfhitch.core.ledger import Ledger
from halfhitch.core.partitioning import half_partition
from halfhitch.doors.rocketmq.access import AccessControl
from halfhitch.doors.rocketmq.connection import Connection
from halfhitch.doors.rocketmq.dispatch import Dispatcher
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.load import Load
from halfhitch.doors.rocketmq.offsets import commit_log_offset
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.doors.rocketmq.surroundings import Surroundings
from halfhitch.service.admission import Admission
from halfhitch.service.decisions import DecisionLog
from halfhitch.service.parts import Parts
from halfhitch.service.transactions import TransactionService
from halfhitch.service.visibility import Visibility
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import encode, request
from halfhitch.wire.remoting.properties import write_properties
from halfhitch.wire.remoting.requests import Form
from harness.twin import HANDLES, Twin

_BODY: Final = b"x" * 1024
#: Requests that reach the door in one piece, as they do under load.
_AT_ONCE: Final = 32
_GROUP: Final = "bench-group"
_BORN_MS: Final = 1_700_000_000_000
_HALF_PARTITIONS: Final = 4
#: The beginning of a Java client's ids; twelve digits follow.
_MAKER: Final = "7F00000100010123ABCD"


class PlayedProducer:
    """confluent_kafka.Producer as far as the record log uses it; reports when it is asked to."""

    def __init__(self) -> None:
        self._reports: list[tuple[Any, int]] = []
        self._ends: dict[tuple[str, int], int] = {}

    def produce(
        self, topic: str, value: Any, key: Any, partition: int, report: Any, *, headers: Any
    ) -> None:
        """Store one."""
        place = self._ends.get((topic, partition), 0)
        self._ends[topic, partition] = place + 1
        self._reports.append((report, place))

    def report(self) -> None:
        """Every record so far is stored."""
        reports, self._reports = self._reports, []
        for report, place in reports:
            report(None, PlayedMessage(place))


class PlayedMessage:
    """A stored record."""

    __slots__ = ("_place",)

    def __init__(self, place: int) -> None:
        self._place = place

    def offset(self) -> int:
        """Where it lies."""
        return self._place


class PlayedTransport:
    """A socket whose peer reads at once."""

    def __init__(self) -> None:
        self.written_bytes = 0

    def write(self, content: bytes) -> None:
        """An answer."""
        self.written_bytes += len(content)

    def get_extra_info(self, name: str) -> Any:
        """No name, no certificate."""
        return ("10.0.0.1", 40_000) if name in ("peername", "sockname") else None

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing is ever held."""

    def is_closing(self) -> bool:
        """Never."""
        return False


class Silent:
    """An observer, a desk or an owner of whom nothing is expected."""

    def __getattr__(self, name: str) -> Any:
        def nothing(*_: Any, **__: Any) -> None:
            return None

        setattr(self, name, nothing)
        return nothing


class Owners:
    """service.parts.Owners: one owner's ledger, which has read nothing."""

    def __init__(self) -> None:

        self._ledger = Ledger(
            half_position=0, op_position=0, horizon_ms=900_000, finished_max=200_000
        )

    def standing(self, partition: int, identity: Any, half_offset: int) -> Any:
        """Unknown."""
        return self._ledger.standing(identity)

    def differs(self, partition: int, identity: Any, first_index: int, digests: Any) -> bool:
        """Unknown."""
        return self._ledger.differs(identity, first_index, digests)

    def is_reused(self, partition: int, half_offsets: Any) -> bool:
        """None."""
        return self._ledger.is_reused(half_offsets)


def requests(count: int) -> tuple[list[bytes], list[bytes]]:
    """So many half messages of one client and so many one-way commits, in pieces."""

    partition = half_partition(_MAKER.encode(), None, _HALF_PARTITIONS) or 0
    sends, ends = [], []
    for number in range(count):
        unique = f"{_MAKER}{number:012X}"
        properties = {
            "KEYS": f"key-{number}", "TRAN_MSG": "true", "UNIQ_KEY": unique, "CLUSTER": "c",
            "WAIT": "true", "PGROUP": _GROUP, "TAGS": "tag",
        }  # fmt: skip
        send = {
            "a": _GROUP, "b": "orders", "c": "TBW102", "d": "4", "e": str(number % 3), "f": "4",
            "g": str(_BORN_MS + number), "h": "0", "i": write_properties(properties), "j": "0",
            "k": "false", "m": "false", "n": "halfhitch",
        }  # fmt: skip
        end = {
            "topic": "orders", "producerGroup": _GROUP, "tranStateTableOffset": str(number),
            "commitLogOffset": str(commit_log_offset(partition, number)),
            "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": unique,
            "transactionId": unique, "bname": "halfhitch",
        }  # fmt: skip
        sends.append(encode(request(codes.SEND_MESSAGE_V2, number, send, _BODY, form=Form.BINARY)))
        one_way = codes.ONE_WAY_FLAG
        ends.append(
            encode(request(codes.END_TRANSACTION, number, end, flag=one_way, form=Form.BINARY))
        )
    return joined(sends), joined(ends)


def joined(frames: list[bytes]) -> list[bytes]:
    """As they arrive."""
    return [b"".join(frames[at : at + _AT_ONCE]) for at in range(0, len(frames), _AT_ONCE)]


class Door:
    """A connection, the service behind it, and a record log over a played producer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:

        self.producer = PlayedProducer()
        self.log = KafkaRecordLog(lambda: self.producer, half_topic="half", op_topic="op")
        self.log._loop = loop
        twin = Twin()
        catalog = MemoryTopicCatalog(twin.kafka)
        service = self._service(twin, catalog)
        load = Load(Stats())
        limits = Limits()
        dispatcher = Dispatcher(
            service.singles, None, Silent(), access=AccessControl({}), limits=limits, load=load
        )
        self.stats = load.stats
        self.transport = PlayedTransport()
        self.connection = Connection(
            Surroundings(
                dispatcher=dispatcher,
                desk=None,
                questioning=Silent(),
                limits=limits,
                load=load,
                loop=loop,
                advertised=("10.0.0.9", 9876),
                requires_tls=False,
            )
        )
        self.connection.connection_made(self.transport)
        self._catalog = catalog

    def _service(self, twin: Any, catalog: Any) -> Any:

        service = TransactionService(
            Parts(
                log=self.log,
                decisions=DecisionLog(self.log),
                admission=Admission(
                    policy=twin.policy, catalog=catalog, message_bytes_max=1_000_000
                ),
                owners=Owners(),
                visibility=Visibility(self.log._loop, Silent()),
                inquiry=Silent(),
                markers=Silent(),
                handles=HANDLES,
                observer=Silent(),
                clock=twin.clock,
                new_id=str,
                instance="instance-1",
                visible_wait_s=1.0,
                on_decided=lambda *_: None,
                on_group=lambda _: None,
            )
        )
        service.open(_HALF_PARTITIONS)
        return service

    async def _stored(self) -> None:
        await asyncio.sleep(0)
        self.producer.report()
        self.log._deliver()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def serve(self, pieces: list[bytes]) -> float:
        """Processor seconds for these requests and what follows of them."""
        await self._catalog.refresh("orders")
        began = time.thread_time()
        for piece in pieces:
            self.connection.data_received(piece)
            for _ in range(2):  # halves or decisions, and decisions that had to wait for these
                await self._stored()
        while self.stats.in_flight_count:  # the last decisions wait for more
            await asyncio.sleep(0.001)
            await self._stored()
        return time.thread_time() - began


def door_us(count: int) -> dict[str, float]:
    """Of each transaction: its prepare and its end."""

    sends, ends = requests(count)

    async def served() -> dict[str, float]:
        door = Door(asyncio.get_running_loop())
        seconds = {"prepare": await door.serve(sends), "end": await door.serve(ends)}
        assert sorted(door.stats.requests.values()) == [count, count], door.stats.requests
        assert door.transport.written_bytes > 100 * count
        return {f"door: {name}": spent / count * 1e6 for name, spent in seconds.items()}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(served())
