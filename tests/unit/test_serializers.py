"""Objects become messages, and what cannot become one shows before anything is sent."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json

import pytest
from confluent_kafka.schema_registry import (
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from halfhitch.client import Message, TransactionProducer
from halfhitch.errors import ConfigurationError
from halfhitch.serializers import Topic, of_confluent, of_json, of_model
from harness.registry import registry_server
from harness.snippets import fence_with, replaced

PAGE = "docs/serializers.md"
SCHEMA = {
    "type": "record",
    "name": "OrderPlaced",
    "fields": [{"name": "item", "type": "string"}],
}


class OrderPlaced(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    item: str
    placed: dt.date | None = Field(default=None, alias="placedAt")


@dataclasses.dataclass
class Points:
    count: int


@pytest.fixture
def registry():
    with registry_server() as running:
        yield running


def avro(registry, **options):
    client = SchemaRegistryClient({"url": registry.url})
    return AvroSerializer(client, json.dumps(SCHEMA), **options)


# -- without anything ------------------------------------------------------------------------------


def test_json_is_one_line_of_utf_8_and_null_is_nobody_s_business():
    orders = Topic("orders", of_json)
    assert orders({"item": "Bücher", "n": [1, None]}, "k") == Message(
        "orders", '{"item":"Bücher","n":[1,null]}', "k", None, None
    )
    assert orders(None, "k").value is None


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), dt.date(2026, 1, 1), object(), b"bytes"]
)
def test_json_that_others_could_not_read_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        Topic("orders", of_json)({"value": value})


def test_keys_have_a_serializer_of_their_own_if_one_is_given():
    orders = Topic("orders", of_json, key=str)
    assert orders({}, 17, {"a": "b"}, 3) == Message("orders", "{}", "17", [("a", b"b")], 3)
    assert orders({}).key is None


# -- pydantic --------------------------------------------------------------------------------------


def test_models_dataclasses_and_unions_are_dumped_as_pydantic_does():
    orders = Topic("orders", of_model(OrderPlaced | Points, by_alias=True, exclude_none=True))
    placed = OrderPlaced(item="book", placed=dt.date(2026, 1, 2))
    assert orders(placed).value == b'{"item":"book","placedAt":"2026-01-02"}'
    assert orders(Points(5)).value == b'{"count":5}'
    assert orders({"item": "pen"}).value == b'{"item":"pen"}'
    assert orders(None).value is None


def test_what_the_model_refuses_becomes_no_message():
    with pytest.raises(ValidationError):
        Topic("orders", of_model(OrderPlaced))({"count": 5})


# -- Confluent's registry --------------------------------------------------------------------------


def test_values_and_keys_are_what_confluent_s_own_reader_reads(registry):
    serializer = of_confluent(avro(registry))
    orders = Topic("orders", serializer, key=serializer)
    message = orders({"item": "book"}, {"item": "key"}, {"a": "b"})
    assert message.headers == [("a", b"b")]
    reader = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    for field, octets, item in (
        (MessageField.VALUE, message.value, "book"),
        (MessageField.KEY, message.key, "key"),
    ):
        assert reader(octets, SerializationContext("orders", field)) == {"item": item}
    assert set(registry.subjects) == {"orders-value", "orders-key"}
    assert orders(None) == Message("orders", None, None, None, None)


def test_a_schema_that_goes_into_the_headers_reaches_the_message(registry):
    options = {"schema.id.serializer": header_schema_id_serializer}
    message = Topic("orders", of_confluent(avro(registry, conf=options)))(
        {"item": "book"}, headers={"a": "b"}
    )
    assert [name for name, _ in message.headers] == ["a", "__value_schema_id"]
    assert io.BytesIO(message.value).read() == b"\x08book"


def test_what_is_no_record_of_the_schema_becomes_no_message(registry):
    with pytest.raises(Exception, match="item"):
        Topic("orders", of_confluent(avro(registry)))({"count": 5})


def test_serializers_that_are_awaited_or_are_none_are_refused():
    async def awaited(value, context):
        return b""

    with pytest.raises(ConfigurationError, match=r"asyncio\.to_thread"):
        Topic("orders", of_confluent(awaited))({})
    with pytest.raises(ConfigurationError, match="takes a serializer"):
        of_confluent("avro")
    with pytest.raises(ConfigurationError, match="does not know the topic"):
        of_confluent(awaited)({})


# -- the page --------------------------------------------------------------------------------------


class _Block:
    """What the page calls a barrier: its block, without a database."""

    def transaction(self, producer):
        from contextlib import contextmanager

        @contextmanager
        def block():
            with producer.transaction() as tx:
                yield tx, None

        return block()


def test_the_page_s_messages_arrive(halfhitch_coordinator, registry):
    for topic in ("orders", "points"):
        halfhitch_coordinator.create_topic(topic)
    address = halfhitch_coordinator.address
    with TransactionProducer("shop", address, answers_checks=False) as producer:
        names = {"producer": producer, "barrier": _Block()}
        exec(compile(fence_with(PAGE, "class OrderPlaced"), PAGE, "exec"), names)
        shown = replaced(fence_with(PAGE, "AvroSerializer"), "http://127.0.0.1:8081", registry.url)
        exec(compile(shown, PAGE, "exec"), names)
        with producer.transaction() as tx:
            tx.prepare([names["message"]])
    values = [message.value for message in halfhitch_coordinator.messages("orders")]
    assert values == [b'{"item":"book","count":1}', b"\x00\x00\x00\x00\x01\x08book\x02"]
    assert [m.value for m in halfhitch_coordinator.messages("points")] == [b'{"points":5}']
