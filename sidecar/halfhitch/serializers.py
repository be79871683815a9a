"""Topics that take objects: what makes bytes of a message's value, and of its key.

    orders = Topic("order-events", of_model(OrderPlaced))
    placed = orders(OrderPlaced(item="book"), key="customer-7")

    with barrier.transaction(producer) as (tx, session):
        tx.prepare([placed])

A serializer is a function of one object that gives bytes, text or None; so are `json.dumps` and a
Protobuf message's `SerializeToString`. None is Kafka's null, and no serializer is asked about it.
Nothing is sent here, so what cannot be serialized shows before anything is stored.
"""

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from halfhitch import extras
from halfhitch.client import given
from halfhitch.client.values import Headers, Message
from halfhitch.errors import ConfigurationError

T = TypeVar("T")

Octets = bytes | str | None
Serializer = Callable[[Any], Octets]


def of_json(value: Any) -> str:
    """JSON (RFC 8259) in UTF-8, in one line. Raises ValueError for NaN, TypeError for the rest.

    What json does not know, such as a date, is refused: how it is to be read is not known here.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def of_model(kind: type[T] | Any, **options: Any) -> Callable[[T], bytes]:
    """JSON by pydantic, of a model, a dataclass, a TypedDict or a union of them.

    What is given is validated first (a model's instance was, when it was made). `options` are those
    of `TypeAdapter.dump_json`: by_alias, exclude_none and so on.
    """
    try:
        from pydantic import TypeAdapter
    except ModuleNotFoundError as error:
        raise extras.missing("of_model", error) or error from None
    adapter: Any = TypeAdapter(kind)

    def serialize(value: T) -> bytes:
        found: bytes = adapter.dump_json(adapter.validate_python(value), **options)
        return found

    return serialize


def of_confluent(serializer: Any) -> Serializer:
    """A serializer of Confluent's: AvroSerializer, JSONSerializer, ProtobufSerializer.

    The first message of a schema asks the registry, and waits for it. One that puts the number of
    the schema into the headers adds them to the message's.
    """
    return _Confluent(serializer)


class _Confluent:
    """Asks for more than the object: where it goes, and the headers."""

    def __init__(self, serializer: Any) -> None:
        try:
            from confluent_kafka.serialization import MessageField, SerializationContext
        except ModuleNotFoundError as error:
            wanted = extras.REGISTRY
            raise extras.missing("of_confluent", error, wanted=wanted) or error from None
        if not callable(serializer):
            raise ConfigurationError(
                f"of_confluent takes a serializer, such as AvroSerializer(...), not {serializer!r}"
            )
        self._serializer = serializer
        self._context: Any = SerializationContext
        self._fields = {"value": MessageField.VALUE, "key": MessageField.KEY}

    def __call__(self, value: Any) -> Octets:
        """Only for a Topic, which knows where it goes."""
        raise ConfigurationError(
            f"of_confluent cannot serialize a {type(value).__name__} by itself, for it does not"
            " know the topic: Topic(name, of_confluent(...))"
        )

    def serialize(
        self, value: Any, topic: str, field: str, headers: list[tuple[str, bytes | None]]
    ) -> Octets:
        """For a Topic."""
        found = self._serializer(value, self._context(topic, self._fields[field], headers))
        if hasattr(found, "__await__"):
            found.close()
            raise ConfigurationError(
                "of_confluent takes the blocking serializers of Confluent's, not those that are"
                " awaited. In asyncio make the message in a thread: await asyncio.to_thread(topic,"
                " value)"
            )
        octets: Octets = found
        return octets


class Topic(Generic[T]):
    """A topic and how its values and keys become bytes. Called with an object it gives a Message.

    Without a serializer of its own a key is bytes, text or None.
    """

    def __init__(self, name: str, value: Serializer, key: Serializer | None = None) -> None:
        self.name = name
        self._value = value
        self._key = key

    def __call__(
        self,
        value: T | None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Message:
        """Raises what the serializer raises; TypeError and InvalidRequest for headers."""
        pairs = given.pairs(headers) if headers else []
        octets = self._made("value", self._value, value, pairs)
        chosen = key if self._key is None else self._made("key", self._key, key, pairs)
        return Message(self.name, octets, chosen, pairs or None, partition)

    def _made(
        self, field: str, serializer: Serializer, value: Any, pairs: list[tuple[str, bytes | None]]
    ) -> Octets:
        if value is None:
            return None
        if isinstance(serializer, _Confluent):
            return serializer.serialize(value, self.name, field, pairs)
        return serializer(value)
