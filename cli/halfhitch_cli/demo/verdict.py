"""The books: what the database says, the topics show and Spark has summed; and the difference.

A transaction is *undecided* when its half messages are in the half log and the op log says nothing
of its end: nobody has found out what became of it. It is *parked* when it was given up. Both are
read from the logs themselves, not asked of the coordinator.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from halfhitch.core.model import COPIED, DecisionRead, DoneRead
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from halfhitch.wire.headers import UNIQ_KEY
from halfhitch.wire.op import OpRead
from halfhitch.wire.parked_fold import ParkedFold, Parking
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli.demo import forgetful
from halfhitch_cli.demo.shop import (
    FENCED_IDS,
    ORDERS,
    POINTS,
    Attempt,
    Order,
    Refusal,
    open_database,
)

_READ_S = 30.0


@dataclass(slots=True)
class Books:
    """Everything that is compared, by transaction id."""

    attempted: set[str]
    taken: dict[str, tuple[str, int]]  # in the database: customer, points
    refused: set[str]  # their local commit came too late and failed
    fenced: set[str]  # the barrier's word that they do not exist
    visible: dict[str, Counter[str]]  # by topic
    undecided: set[str]
    parked: list[Parking]
    spark: dict[str, Any]


@dataclass(slots=True)
class Verdict:
    """The numbers of the demo's table."""

    taken: int
    rolled_back_or_lost_attempts: int
    visible_orders: int
    visible_points: int
    spark_rows: int
    points_in_database: int
    points_in_spark: int
    #: Orders with their points in Spark's table of facts.
    facts: int
    #: Customers of whom Spark's totals say anything but the database.
    wrong_totals: int
    refused: int
    lost: int
    doubled: int
    invented: int
    undecided: int
    parked: list[Parking]
    #: What was parked and should not have been, or should have been and was not.
    misparked: set[str]
    #: Orders in the database that a check had declared not to exist.
    slipped_through: int

    @property
    def is_right(self) -> bool:
        """Whether every promise held."""
        wrong = self.lost or self.doubled or self.invented or self.undecided or self.slipped_through
        balanced = self.points_in_database == self.points_in_spark and not self.wrong_totals
        return not wrong and not self.misparked and balanced


def read_books(database: Path, bootstrap: str, spark: dict[str, Any]) -> Books:
    """Read database, topics and logs; nothing may be written meanwhile."""
    engine = open_database(database)
    with Session(engine) as session:
        attempted = set(session.scalars(select(Attempt.transaction_id)))
        refused = set(session.scalars(select(Refusal.transaction_id)))
        taken = {
            row.transaction_id: (row.customer, row.points) for row in session.scalars(select(Order))
        }
        fenced = set(session.scalars(FENCED_IDS))
    engine.dispose()
    visible = {
        topic: Counter(_id_of(message) for message in read_topic(bootstrap, topic))
        for topic in (ORDERS, POINTS)
    }
    return Books(
        attempted, taken, refused, fenced, visible, _undecided(bootstrap), _parked(bootstrap), spark
    )


def judge(books: Books, forgotten_count: int) -> Verdict:
    """Compare. An undecided order is no lost one: nobody has decided yet."""
    decided = {i for i in books.taken if i not in books.undecided}
    lost = doubled = invented = 0
    for seen in books.visible.values():
        lost += sum(1 for i in decided if i not in seen)
        doubled += sum(count - 1 for count in seen.values())
        invented += sum(1 for i in seen if i not in books.taken)
    spark = books.spark
    customers: Counter[str] = Counter()
    for i in decided:
        customer, points = books.taken[i]
        customers[customer] += points
    doubled += int(spark.get("duplicates", 0))
    # Sums that differ although the totals agree would be a message that went to another customer.
    invented += sum(
        1 for name, points in spark.get("customers", {}).items() if customers[name] < points
    )
    forgotten = {(forgetful.GROUP, i) for i in forgetful.transaction_ids(forgotten_count)}
    parked = [tuple(parking.identity) for parking in books.parked]
    doubled += len(parked) - len(set(parked))
    return Verdict(
        taken=len(books.taken),
        rolled_back_or_lost_attempts=len(books.attempted - set(books.taken)),
        visible_orders=sum(books.visible[ORDERS].values()),
        visible_points=sum(books.visible[POINTS].values()),
        spark_rows=int(spark.get("rows", 0)),
        points_in_database=sum(customers.values()),
        points_in_spark=int(spark.get("points", 0)),
        facts=sum(total["orders"] for total in spark["totals"]),
        wrong_totals=_wrong_totals(books, decided),
        refused=len(books.refused),
        lost=lost,
        doubled=doubled,
        invented=invented,
        undecided=len(books.undecided),
        parked=sorted(books.parked, key=lambda parking: parking.identity),
        misparked={transaction_id for _, transaction_id in forgotten.symmetric_difference(parked)},
        slipped_through=len((books.fenced | books.refused) & set(books.taken)),
    )


def _wrong_totals(books: Books, decided: set[str]) -> int:
    """Customers of whom facts or database have other orders, or other points."""
    right: dict[str, tuple[int, int]] = {}
    for i in decided:
        customer, points = books.taken[i]
        orders, so_far = right.get(customer, (0, 0))
        right[customer] = orders + 1, so_far + points
    told = {t["customer"]: (t["orders"], t["points"]) for t in books.spark["totals"]}
    return sum(right.get(name) != told.get(name) for name in right.keys() | told.keys())


def _id_of(message: Any) -> str:
    for name, value in message.headers() or []:
        if name == UNIQ_KEY and value is not None:
            return bytes(value).decode()
    return f"stranger {message.topic()}-{message.partition()}@{message.offset()}"


def _undecided(bootstrap: str) -> set[str]:
    names = InternalTopics()
    known: set[str] = set()
    for message in read_topic(bootstrap, names.op):
        events = op_wire.read(message.offset(), 0, message.value(), message.headers())
        if not isinstance(events, Garbage):
            known.update(event.identity[1] for event in events if _is_end(event))
    halves: set[str] = set()
    for message in read_topic(bootstrap, names.half, from_committed_of=names.owner_group):
        found = half_wire.read_identity(message.offset(), 0, 0, message.headers())
        if not isinstance(found, Garbage):
            halves.add(found.identity[1])
    return halves - known


def _is_end(event: OpRead) -> bool:
    """A decision, or a done mark; but not the mark of a half that was only appended anew."""
    if isinstance(event, DoneRead):
        return event.ending != COPIED
    return isinstance(event, DecisionRead)


def _parked(bootstrap: str) -> list[Parking]:
    fold = ParkedFold()
    for message in read_topic(bootstrap, InternalTopics().parked):
        place = message.partition(), message.offset()
        fold.take(place, message.timestamp()[1], len(message), message.headers())
    return fold.parkings()


def read_topic(
    bootstrap: str,
    topic: str,
    *,
    from_committed_of: str | None = None,
    isolation: str = "read_committed",
) -> Iterator[Any]:
    """All committed messages of a topic, from its start (or a group's positions) to its end."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": from_committed_of or "halfhitch-demo-verdict",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 3,
        }
    )
    try:
        yield from _read(consumer, topic, from_committed=from_committed_of is not None)
    finally:
        consumer.close()


def _read(consumer: Any, topic: str, *, from_committed: bool) -> Iterator[Any]:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    count = len(consumer.list_topics(topic, _READ_S).topics[topic].partitions)
    start = [TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(count)]
    if from_committed:
        for place in consumer.committed([TopicPartition(topic, p) for p in range(count)], _READ_S):
            if place.offset >= 0:
                start[place.partition].offset = place.offset
    consumer.assign(start)
    open_partitions = set(range(count))
    while open_partitions:
        message = consumer.poll(_READ_S)
        if message is None:
            raise TimeoutError(f"{topic} could not be read to its end within {_READ_S:g} s")
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
            open_partitions.discard(message.partition())
