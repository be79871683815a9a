"""A schema's text by its number, or why there is none; a registry that is away ends the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import BackendError, ConfigurationError
from halfhitch_spark import schema_registry, schemas
from harness.registry import Registry, registry_server

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD = {"type": "record", "name": "Order", "fields": []}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(schemas, "_PAUSE_S", 0.0)
    with registry_server() as server:
        server.keep(7, RECORD)
        yield server


def test_a_schema_is_asked_for_once_with_the_headers_that_were_given(registry: Registry) -> None:
    schema_of = schema_registry(f"{registry.url}/", headers={"Authorization": "Bearer token"})
    assert schema_of(7) == schema_of(7) == '{"type": "record", "name": "Order", "fields": []}'
    assert registry.asked == [("/schemas/ids/7", "Bearer token")]


def test_a_registry_that_stumbles_is_asked_again(registry: Registry) -> None:
    registry.statuses = [503, 500]
    assert "Order" in schema_registry(registry.url)(7)
    assert len(registry.asked) == 3


def test_a_registry_that_is_away_ends_the_query_and_makes_no_dead_letters(
    registry: Registry,
) -> None:
    registry.statuses = [503] * 3
    with pytest.raises(BackendError, match=r"did not answer .*/schemas/ids/7.*503.*checkpoint"):
        schema_registry(registry.url)(7)
    with pytest.raises(BackendError, match="refused"):
        schema_registry("http://127.0.0.1:1")(7)
    registry.statuses = [401]
    with pytest.raises(ConfigurationError, match="who asks"):
        schema_registry(registry.url)(7)
    registry.schemas[7] = b"<html>"
    with pytest.raises(BackendError, match="is no schema registry"):
        schema_registry(registry.url)(7)


def test_a_number_without_an_avro_schema_says_why(registry: Registry) -> None:
    registry.schemas[2] = {"schema": "syntax", "schemaType": "PROTOBUF"}
    registry.schemas[3] = {"schema": "{}", "references": [{"name": "Other"}]}
    registry.schemas[4] = b" " * (schemas._ANSWER_BYTES_MAX + 1)
    for number, why in ((1, "has no schema 1"), (2, "is PROTOBUF"), (3, "refers"), (4, "longer")):
        with pytest.raises(LookupError, match=why):
            schema_registry(registry.url)(number)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="http"):
        schema_registry("file:///etc/passwd")
