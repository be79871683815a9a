"""Owners go the native way only where it fits; what it says is what Kafka's client would say."""

from __future__ import annotations

import logging
import threading
import types
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from halfhitch.adapters.native import face, owner
from harness.native import native, needs_native
from harness.worlds import NOWHERE

CONFIG = {"bootstrap.servers": NOWHERE, "group.id": "g", "log_level": 7, "debug": "broker"}


@needs_native
def test_the_build_that_is_here_serves_owners() -> None:
    assert face.has_owner(native)
    assert owner.way_of(native) is not None


def test_without_the_package_everything_goes_the_interpreted_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, "installed", lambda: (None, None))
    assert owner.load() is None
    assert owner.way_of(types.ModuleType("halfhitch_native")) is None  # a build before this


@needs_native
def test_a_kafka_client_of_another_form_is_never_reached_into(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owner, "_PRODUCER_BYTES", 1)
    with caplog.at_level(logging.INFO):
        assert owner.way_of(native) is None
    assert "of a form that it does not know" in caplog.text


@needs_native
def test_what_is_no_producer_is_refused_and_nothing_is_given_to_it() -> None:
    half = native.half_record("halves", 0, 0, None, b"v", [])
    library = owner.library()

    class Shell:
        """With room where a producer has its handle."""

        __slots__ = ("first",)

    empty = Shell()
    for client in (object(), empty, Producer):
        with pytest.raises((RuntimeError, TypeError)):
            native.forward(library, client, [(half.payload(), 1)])


@needs_native
def test_a_half_that_is_not_of_the_usual_form_is_never_forwarded_from_here() -> None:
    way = owner.way_of(native)
    assert way is not None
    odd = native.half_record("halves", 0, 0, None, b"v", [(b"HALFHITCH", b"1;0;1;vm")])
    producer = Producer({"bootstrap.servers": NOWHERE}, logger=logging.getLogger("none"))
    refused = way.forward(producer, [(odd.payload(), 1)])
    assert refused is not None
    assert (refused.place, refused.error.code()) == (0, KafkaError._INVALID_ARG)


@needs_native
def test_a_consumer_whose_settings_call_back_into_python_is_pythons() -> None:
    way = owner.way_of(native)
    assert way is not None
    given: dict[str, Any] = {**CONFIG, "oauth_cb": print}
    assert way.consumer(given, "half", "op", 0) is None


@needs_native
def test_a_setting_that_librdkafka_refuses_is_named() -> None:
    way = owner.way_of(native)
    assert way is not None
    with pytest.raises(RuntimeError, match=r"no\.such\.setting"):
        way.consumer({**CONFIG, "no.such.setting": "x"}, "half", "op", 0)


@needs_native
def test_errors_are_raised_as_kafkas_client_raises_them_and_its_lines_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    way = owner.way_of(native)
    assert way is not None
    consumer = way.consumer(CONFIG, "half", "op", 0)
    assert consumer is not None
    with pytest.raises(KafkaException) as caught:
        consumer.get_watermark_offsets(TopicPartition("half", 0), 0.05)
    assert isinstance(caught.value.args[0], KafkaError)
    with pytest.raises(KafkaException):
        consumer.committed([TopicPartition("half", 0), TopicPartition("op", 0)], 0.05)
    consumer.assign([TopicPartition("half", 0, 0), TopicPartition("op", 0, 0)])
    with caplog.at_level(logging.DEBUG, logger="halfhitch"):
        taken = consumer.take(0.2, 10)
    assert (taken.half, taken.op, taken.has_taken_all) == ([], [], True)
    consumer.close()
    consumer.close()
    consumer.wake()  # by whoever has not heard of it
    with pytest.raises(RuntimeError, match="closed"):
        consumer.take(0.0, 10)


@needs_native
def test_one_that_waits_for_records_is_woken_and_a_wake_before_the_wait_is_not_lost() -> None:
    way = owner.way_of(native)
    assert way is not None
    quiet = {"bootstrap.servers": NOWHERE, "group.id": "g", "log_level": 0}
    consumer = way.consumer(quiet, "half", "op", 0)
    assert consumer is not None
    consumer.assign([TopicPartition("half", 0, 0), TopicPartition("op", 0, 0)])
    woken = threading.Event()

    def wait() -> None:
        # What cannot be reached is an error that ends a wait too: until it was woken, again.
        while not woken.is_set():
            consumer.take(60.0, 10)

    waiting = threading.Thread(target=wait)
    waiting.start()
    woken.set()
    consumer.wake()
    waiting.join(30.0)
    assert not waiting.is_alive()
    consumer.close()


@needs_native
def test_a_half_with_a_header_name_that_is_no_text_has_no_headers_as_for_kafkas_client() -> None:
    fixed = [(b"HALFHITCH", b"1;0;1;vm"), (b"UNIQ_KEY", b"t"), (b"PGROUP", b"g")]
    fixed += [(b"REAL_TOPIC", b"orders"), (b"TRAN_MSG", b"true")]
    usual = native.half_record("halves", 0, 0, None, b"v", fixed)
    odd = native.half_record("halves", 0, 0, None, b"v", [*fixed, (b"\xff", b"x")])
    assert usual.payload().facts() is not None
    assert odd.headers() is None
    assert (odd.payload().facts(), odd.payload().headers) == (None, [])


@needs_native
def test_a_setting_with_a_nul_says_what_is_wrong_with_it() -> None:
    way = owner.way_of(native)
    assert way is not None
    with pytest.raises(RuntimeError, match=r"group\.id: a NUL inside"):
        way.consumer({**CONFIG, "group.id": "a\0b"}, "half", "op", 0)
