"""Records whose content lies outside of Python keep their order, and can be spelled out."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch.adapters.kafka.outside import Refused, runs, spelled_out
from halfhitch.ports import TargetRecord
from halfhitch.service.owner.payloads import PlainPayload
from halfhitch.wire.half import HalfRecord, system_headers

HEADERS = [*system_headers(HalfRecord("first", "shop", 0, 1, "vm-1", "orders")), ("color", b"red")]
PAYLOAD = PlainPayload(b"k", b"v", HEADERS, 100)
HELD = TargetRecord("orders", None, b"k", None, [], (PAYLOAD, 2))
PLAIN = TargetRecord("audit", 0, None, b"told", [])


def test_neighbours_of_one_kind_go_together_and_none_changes_its_place() -> None:
    found = runs([HELD, HELD, PLAIN, HELD])
    assert found == [(True, [HELD, HELD]), (False, [PLAIN]), (True, [HELD])]
    assert runs([]) == []


def test_content_outside_is_spelled_out_as_the_forwarder_would_have_written_it() -> None:
    found = spelled_out(HELD)
    assert (found.topic, found.partition, found.key, found.value) == ("orders", None, b"k", b"v")
    assert found.headers == [
        ("color", b"red"),
        ("UNIQ_KEY", b"first"),
        ("PGROUP", b"shop"),
        ("HALFHITCH", b"1;0;1;vm-1;n=2"),
    ]
    assert spelled_out(PLAIN) is PLAIN


def test_a_refusal_is_raised_as_kafkas_client_raises_it() -> None:
    with pytest.raises(BufferError):
        Refused(0, KafkaError(KafkaError._QUEUE_FULL)).raised()
    with pytest.raises(KafkaException) as caught:
        Refused(0, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)).raised()
    assert caught.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
