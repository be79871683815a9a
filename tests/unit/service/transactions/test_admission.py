"""What is refused at the door, before anything is stored."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import MemoryClock, MemoryKafka, MemoryTopicCatalog
from halfhitch.errors import (
    ForbiddenTopic,
    InvalidPartition,
    InvalidRequest,
    KafkaUnavailable,
    MessageTooLarge,
    ReservedHeader,
    UnknownTopic,
)
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.service.transactions.admission import (
    HEADERS_MAX,
    IMMUNITY_S_MAX,
    Admission,
    _known_name_bytes,
)
from halfhitch.wire.half import ID_BYTES_MAX, INDEX_MAX
from halfhitch.wire.headers import RESERVED

BYTES_MAX = 1_000


class Door:
    """An Admission before a Kafka with one topic of three partitions."""

    def __init__(self) -> None:
        self.kafka = MemoryKafka(MemoryClock())
        self.kafka.create_topic("orders", 3)
        self.admission = Admission(
            policy=TopicPolicy(internal_topics=(self.kafka.half_topic,), allow=("*",)),
            catalog=MemoryTopicCatalog(self.kafka),
            message_bytes_max=BYTES_MAX,
        )

    async def takes(self, *messages: OutgoingMessage, first_index: int = 0) -> None:
        await self.admission.check_messages(messages, first_index)


def message(
    topic: str = "orders",
    key: bytes | None = None,
    value: bytes | None = b"v",
    headers: list[tuple[str, bytes | None]] | None = None,
    partition: int | None = None,
) -> OutgoingMessage:
    return OutgoingMessage(topic, key, value, headers or [], partition)


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["g", "a b", "é" * 127, "x" * ID_BYTES_MAX, "日本", '"\\,;'])
def test_names_may_be_any_text_of_a_certain_length(name: str) -> None:
    Door().admission.check_names(name, name, None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * (ID_BYTES_MAX + 1),
        "é" * 128,
        "a\nb",
        "\x00",
        "a\x7f",
        "\ud800",
        "a\x9b",
        "\u202ea",
    ],
)
def test_names_that_could_not_be_stored_or_read_are_refused(name: str) -> None:
    door = Door()
    with pytest.raises(InvalidRequest, match="producer group"):
        door.admission.check_names(name, None, None)
    with pytest.raises(InvalidRequest, match="transaction id"):
        door.admission.check_names("g", name, None)


def test_the_immunity_has_bounds() -> None:
    admission = Door().admission
    for immunity_s in (None, 0, 1, IMMUNITY_S_MAX):
        admission.check_names("g", "t", immunity_s)
    for immunity_s in (-1, IMMUNITY_S_MAX + 1, 10**30):
        with pytest.raises(InvalidRequest, match="immunity"):
            admission.check_names("g", "t", immunity_s)


# -- messages ------------------------------------------------------------------------------------


async def test_ordinary_messages_are_taken() -> None:
    await Door().takes(
        message(),
        message(key=b"", value=b""),
        message(value=None, partition=0),
        message(headers=[("a", b"1"), ("a", None), ("", b""), ("trace-id", b"\x00")], partition=2),
    )


async def test_a_transaction_has_one_to_a_thousand_messages() -> None:
    door = Door()
    with pytest.raises(InvalidRequest):
        await door.takes()
    await door.takes(*[message()] * 3, first_index=INDEX_MAX - 2)
    with pytest.raises(InvalidRequest, match="1000 messages"):
        await door.takes(*[message()] * 3, first_index=INDEX_MAX - 1)


async def test_a_topic_that_does_not_exist_is_refused_and_one_that_was_made_since_is_taken() -> (
    None
):
    door = Door()
    with pytest.raises(UnknownTopic, match="create it first"):
        await door.takes(message("points"))
    door.kafka.create_topic("points")
    await door.takes(message("points"))


async def test_with_kafka_away_only_what_is_not_known_yet_is_refused() -> None:
    door = Door()
    await door.takes(message())
    door.kafka.faults.is_away = True
    await door.takes(message())
    with pytest.raises(KafkaUnavailable):
        await door.takes(message("points"))


async def test_a_forbidden_topic_is_refused_without_asking_kafka() -> None:
    door = Door()
    door.kafka.faults.is_away = True
    with pytest.raises(ForbiddenTopic):
        await door.takes(message("__consumer_offsets"))


@pytest.mark.parametrize("partition", [-1, 3, 2**31, 10**30])
async def test_a_fixed_partition_must_exist(partition: int) -> None:
    with pytest.raises(InvalidPartition, match="0 to 2"):
        await Door().takes(message(partition=partition))


async def test_key_value_and_headers_together_have_a_limit() -> None:
    door = Door()
    at_limit = message(key=b"k" * 100, value=b"v" * 800, headers=[("n" * 20, b"h" * 80)])
    await door.takes(at_limit)
    for larger in (
        message(key=b"k" * 101, value=b"v" * 800, headers=[("n" * 20, b"h" * 80)]),
        message(value=b"v" * (BYTES_MAX + 1)),
        message(headers=[("n", b"h" * BYTES_MAX)]),
        message(value=None, headers=[("é" * 500, None), ("n", None)]),
    ):
        with pytest.raises(MessageTooLarge, match=str(BYTES_MAX)):
            await door.takes(larger)


async def test_the_context_of_a_trace_pushed_a_message_over_its_limit() -> None:
    door = Door()
    parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    trace: list[tuple[str, bytes | None]] = [("traceparent", parent), ("TraceState", b"x" * 512)]
    await door.takes(message(value=b"v" * BYTES_MAX, headers=trace))
    for headers in ([*trace, ("n", None)], [("tracestate", b"x" * BYTES_MAX)]):
        with pytest.raises(MessageTooLarge):
            await door.takes(message(value=b"v" * BYTES_MAX, headers=headers))


async def test_the_number_of_headers_has_a_limit() -> None:
    door = Door()
    await door.takes(message(headers=[("n", None)] * HEADERS_MAX))
    with pytest.raises(InvalidRequest):
        await door.takes(message(headers=[("n", None)] * (HEADERS_MAX + 1)))


@pytest.mark.parametrize("name", [*sorted(RESERVED), "HALFHITCH", "HALFHITCH-anything"])
async def test_a_header_that_is_ours_is_refused(name: str) -> None:
    with pytest.raises(ReservedHeader, match="another name"):
        await Door().takes(message(headers=[("fine", b""), (name, b"x")]))


@pytest.mark.parametrize("name", ["REAL_QID\x00", "a\x00b", "a\r\nb", "\ud800"])
async def test_a_header_name_that_would_arrive_as_another_one_is_refused(name: str) -> None:
    """Kafka's client ends a name at a NUL: what it sends would be a header of ours."""
    with pytest.raises(InvalidRequest, match="header name"):
        await Door().takes(message(headers=[(name, b"5")]))


async def test_one_bad_message_is_enough_to_refuse_all() -> None:
    with pytest.raises(UnknownTopic):
        await Door().takes(message(), message("points"))


async def test_long_names_of_headers_are_counted_but_not_remembered() -> None:
    """Some thousand of a megabyte each would fill the memory, also when they are refused."""
    _known_name_bytes.cache_clear()
    door = Door()
    await door.takes(message(headers=[("h" * 256, b"v")]))
    with pytest.raises(MessageTooLarge):
        await door.takes(message(headers=[("h" * BYTES_MAX, b"v")]))
    assert _known_name_bytes.cache_info().currsize == 0
    await door.takes(message(headers=[("h" * 255, b"v")]))
    assert _known_name_bytes.cache_info().currsize == 1
