"""What is refused at the door, whichever door it is: names, topics, headers, sizes.

Everything that can be refused is refused before the first half is stored.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from halfhitch.errors import (
    InvalidPartition,
    InvalidRequest,
    KafkaUnavailable,
    MessageTooLarge,
    ReservedHeader,
    UnknownTopic,
)
from halfhitch.ports import TopicCatalog
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.wire.half import ID_BYTES_MAX, IMMUNITY_S_MAX, INDEX_MAX
from halfhitch.wire.headers import is_reserved
from halfhitch.wire.plain import WITHOUT_HIDDEN, hides

#: User headers of one message; librdkafka has no limit, consumers' patience has.
HEADERS_MAX: Final = 200
#: Of W3C Trace Context: a parent (55 bytes) and a state (512), with their names.
_TRACE: Final = frozenset({"traceparent", "tracestate"})
_TRACE_BYTES_MAX: Final = 768
#: Names of headers that are longer are taken, but not remembered: they would fill the memory.
_REMEMBERED_CHARACTERS_MAX: Final = 255


class Admission:
    """`message_bytes_max` bounds key, value and user headers of one message together.

    The context of a trace (768 bytes of it) is not counted: a message that fits must not be refused
    because somebody looks at it. Topics have room for it, as for the headers of our own.
    """

    def __init__(
        self, *, policy: TopicPolicy, catalog: TopicCatalog, message_bytes_max: int
    ) -> None:
        self._policy = policy
        self._catalog = catalog
        self._message_bytes_max = message_bytes_max

    def check_names(
        self, producer_group: str, transaction_id: str | None, immunity_s: int | None
    ) -> None:
        """Raises InvalidRequest."""
        check_group(producer_group)
        if transaction_id is not None:
            _check_name("the transaction id", transaction_id)
        if immunity_s is not None and not 0 <= immunity_s <= IMMUNITY_S_MAX:
            raise InvalidRequest(
                f"the immunity must be between 0 and {IMMUNITY_S_MAX} seconds, not {immunity_s}"
            )

    async def check_messages(self, messages: Sequence[OutgoingMessage], first_index: int) -> None:
        """Raises InvalidRequest and kin, MessageTooLarge, KafkaUnavailable."""
        if not messages:
            raise InvalidRequest("a transaction needs at least one message")
        if first_index + len(messages) > INDEX_MAX + 1:
            raise InvalidRequest(f"a transaction takes at most {INDEX_MAX + 1} messages")
        for message in messages:
            if not self.check_message(message):
                await self.learn(message.topic)
                if not self.check_message(message):
                    raise KafkaUnavailable(
                        f"nothing is known of topic {message.topic!r} at the moment; try again"
                    )

    def check_message(self, message: OutgoingMessage) -> bool:
        """Raises InvalidRequest and kin, MessageTooLarge.

        False: nothing is known of its topic yet, so `learn` it and check again.
        """
        self._policy.check(message.topic)
        count = self._catalog.partition_count(message.topic)
        if count is None:
            return False
        if message.partition is not None and not 0 <= message.partition < count:
            raise InvalidPartition(
                f"topic {message.topic!r} has partitions 0 to {count - 1}, not {message.partition}"
            )
        self._check_size(message)
        return True

    async def learn(self, topic: str) -> int:
        """How many partitions it has. Raises ForbiddenTopic, UnknownTopic, KafkaUnavailable."""
        self._policy.check(topic)
        count = self._catalog.partition_count(topic)
        if count is None:
            count = await self._catalog.refresh(topic)
        if count is None:
            raise UnknownTopic(
                f"topic {topic!r} does not exist: correct the name, or create it first "
                f"(kafka-topics.sh --bootstrap-server HOST:9092 --create --topic {topic}; on a "
                f"developer's machine end `halfhitch dev` and start it with --topic {topic})"
            )
        return count

    def _check_size(self, message: OutgoingMessage) -> None:
        size_bytes = len(message.key or b"") + len(message.value or b"")
        if message.headers:
            if len(message.headers) > HEADERS_MAX:
                raise InvalidRequest(f"a message takes at most {HEADERS_MAX} headers")
            for name, value in message.headers:
                is_short = len(name) <= _REMEMBERED_CHARACTERS_MAX
                name_bytes = _known_name_bytes(name) if is_short else _header_name_bytes(name)
                size_bytes += name_bytes + len(value or b"")
        if (
            size_bytes > self._message_bytes_max
            and size_bytes - _trace_bytes(message) > self._message_bytes_max
        ):
            raise MessageTooLarge(
                f"key, value and headers take {size_bytes} bytes; at most "
                f"{self._message_bytes_max} are allowed: send a reference instead of the content"
            )


def _trace_bytes(message: OutgoingMessage) -> int:
    found = [h for h in message.headers or () if h[0].lower() in _TRACE]
    return min(_TRACE_BYTES_MAX, sum(len(name) + len(value or b"") for name, value in found))


def _header_name_bytes(name: str) -> int:
    """Raises InvalidRequest for a name that is ours, or that Kafka's client would mishandle.

    It ends a name at the first NUL, so that `REAL_QID\\0` would become a header of ours, and it
    crashes the process on a name that is not UTF-8.
    """
    if is_reserved(name):
        raise ReservedHeader(
            f"header {name!r} is one that Half Hitch writes itself; choose another name"
        )
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = -1
    if length < 0 or hides(name):
        raise InvalidRequest(f"header name {name[:60]!r} must be UTF-8 text {WITHOUT_HIDDEN}")
    return length


#: The same few names come again and again.
_known_name_bytes: Final = lru_cache(maxsize=4_096)(_header_name_bytes)


def is_name(text: str) -> bool:
    """Whether a producer group or a transaction id may be called so."""
    if text.isascii() and text.isprintable() and 0 < len(text) <= ID_BYTES_MAX:
        return True  # as nearly all are
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= ID_BYTES_MAX and not hides(text)


def check_group(producer_group: str) -> None:
    """Raises InvalidRequest. To be asked before a group is registered, or kept in any other way."""
    _check_name("the producer group", producer_group)


def _check_name(what: str, name: str) -> None:
    if not is_name(name):
        raise InvalidRequest(f"{what} must be 1 to {ID_BYTES_MAX} bytes of UTF-8 {WITHOUT_HIDDEN}")
