"""When a producer is suspect, by what librdkafka itself was recorded to say.

`recorded_statistics.json` holds three records of one producer on a real broker: two seconds of
quiet work, and then one in which an EndTxn was kept back, its connection reset and the request
repeated; the commit had returned after 5 ms. Only the counters of connections are kept.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from halfhitch.adapters.kafka.guard import Suspicion

RECORDS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded_statistics.json").read_text("utf-8")
)
BROKER, COORDINATOR = RECORDS[0]["brokers"]

RESET = (
    "[thrd:TxnCoordinator]: TxnCoordinator: 127.0.0.1:42555: Disconnected: connection reset by "
    "peer (after 5545ms in state UP)"
)
TIMED_OUT = (
    "[thrd:TxnCoordinator]: TxnCoordinator/1: Timed out EndTxnRequest in flight (after 4004ms, "
    "timeout #0)"
)
REFUSED = (
    "[thrd:127.0.0.1:1/bootstrap]: 127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: "
    "Connection refused (after 0ms in state CONNECT)"
)


def working(*, ends: int = 1_000) -> Suspicion:
    suspicion = Suspicion()
    for _ in range(ends):
        suspicion.end_asked()
    return suspicion


def tick(suspicion: Suspicion, record: dict[str, Any]) -> None:
    suspicion.statistics(json.dumps(record))


def changed(record: dict[str, Any], broker: str, **counters: Any) -> dict[str, Any]:
    result = copy.deepcopy(record)
    result["brokers"].setdefault(broker, {}).update(counters)
    return result


# -- statistics ----------------------------------------------------------------------------------


def test_quiet_work_raises_no_suspicion_though_many_requests_are_told_to_try_again() -> None:
    suspicion = working()
    for record in RECORDS[:2]:
        tick(suspicion, record)
    retries = [record["brokers"][COORDINATOR]["txretries"] for record in RECORDS[:2]]
    assert retries == [144, 207]
    assert suspicion.reason is None


def test_a_reset_connection_shows_in_the_recorded_statistics() -> None:
    suspicion = working()
    for record in RECORDS:
        tick(suspicion, record)
    assert suspicion.reason == "statistics of TxnCoordinator: 1 answers were lost"


def test_a_repeated_end_shows_in_the_recorded_count_alone() -> None:
    suspicion = working(ends=244)
    tick(suspicion, RECORDS[2])
    assert suspicion.reason == "EndTxn was sent 245 times for 244 transactions"
    suspicion = working(ends=245)
    tick(suspicion, RECORDS[2])
    assert suspicion.reason is None


@pytest.mark.parametrize("broker", [BROKER, COORDINATOR])
@pytest.mark.parametrize("counter", ["req_timeouts", "rxerrs", "disconnects"])
def test_each_counter_of_each_broker_is_a_sense(counter: str, broker: str) -> None:
    suspicion = working()
    tick(suspicion, RECORDS[0])
    tick(suspicion, changed(RECORDS[0], broker, **{counter: 1}))
    assert suspicion.reason is not None
    assert broker in suspicion.reason


def test_what_was_counted_before_the_first_record_says_nothing() -> None:
    """It may belong to the making of the connections."""
    suspicion = working()
    record = changed(RECORDS[0], COORDINATOR, req_timeouts=3, rxerrs=3, disconnects=3)
    tick(suspicion, record)
    tick(suspicion, record)
    assert suspicion.reason is None


def test_a_broker_that_is_down_and_tried_again_and_again_is_no_sign() -> None:
    suspicion = working()
    for attempts in range(5):
        down = {"state": "TRY_CONNECT", "tx": 0, "disconnects": attempts, "connects": attempts}
        tick(suspicion, changed(RECORDS[0], "127.0.0.1:1/2", **down))
    assert suspicion.reason is None


def test_a_connection_that_was_up_or_was_written_to_is_a_sign_when_it_breaks() -> None:
    for before in ({"state": "UP", "tx": 5}, {"state": "CONNECT", "tx": 4}):
        suspicion = working()
        tick(suspicion, changed(RECORDS[0], "other", **before, disconnects=0))
        tick(suspicion, changed(RECORDS[0], "other", state="DOWN", tx=5, disconnects=1))
        assert suspicion.reason == "statistics of other: 1 connections broke", before


def test_a_new_broker_counts_from_zero() -> None:
    suspicion = working()
    tick(suspicion, RECORDS[0])
    tick(suspicion, changed(RECORDS[0], "new", state="UP", tx=3, req_timeouts=1))
    assert suspicion.reason == "statistics of new: 1 requests timed out"


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[]", '{"brokers": {"x": {"tx": "many"}}}'])
def test_what_cannot_be_read_is_passed_over(text: str | bytes) -> None:
    suspicion = working()
    tick(suspicion, RECORDS[0])
    suspicion.statistics(text)
    tick(suspicion, RECORDS[1])
    assert suspicion.reason is None


# -- log lines -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facility", "line"),
    [
        ("FAIL", RESET),
        ("FAIL", RESET.replace("state UP", "state REAUTH")),
        ("FAIL", "something nobody has seen yet"),
        ("REQTMOUT", TIMED_OUT),
        ("REQTMOUT", "[thrd:x]: Timed out 1 in-flight, 0 retry-queued, 0 out-queue requests"),
    ],
)
def test_a_line_about_a_working_connection_is_a_sign(facility: str, line: str) -> None:
    suspicion = working()
    suspicion.hear(facility, line)
    assert suspicion.reason is not None
    assert facility in suspicion.reason


@pytest.mark.parametrize(
    ("facility", "line"),
    [
        ("FAIL", REFUSED),
        ("FAIL", REFUSED.replace("CONNECT)", "SSL_HANDSHAKE)")),
        ("FAIL", REFUSED.replace("CONNECT)", "APIVERSION_QUERY)")),
        (
            "GETPID",
            "[thrd:main]: Failed to acquire transactional PID: Coordinator load in progress",
        ),
        ("CONFWARN", "[thrd:app]: a setting"),
    ],
)
def test_a_line_about_anything_else_is_none(facility: str, line: str) -> None:
    suspicion = working()
    suspicion.hear(facility, line)
    assert suspicion.reason is None


# -- time ----------------------------------------------------------------------------------------


def take(suspicion: Suspicion, took_s: float, times: int = 1) -> str | None:
    reason = None
    for _ in range(times):
        suspicion.begin(100.0)
        reason = suspicion.end(100.0 + took_s)
    return reason


def test_a_kafka_transaction_of_more_than_a_second_is_suspect() -> None:
    assert take(working(), 1.0) is None
    reason = take(working(), 1.1)
    assert reason == "a Kafka transaction took 1.10 s (1.00 s are unusual)"


def test_a_slow_network_is_not_suspect_all_the_time() -> None:
    suspicion = working()
    assert take(suspicion, 0.4, times=200) is None
    assert take(suspicion, 1.5) is None, "four times as long as usual"


def test_whatever_is_usual_less_than_the_socket_timeout_is_suspect_in_the_end() -> None:
    suspicion = working()
    assert take(suspicion, 0.9, times=500) is None
    assert take(suspicion, 3.1) is not None


# -- what becomes of it --------------------------------------------------------------------------


def test_a_line_that_librdkafka_suppresses_is_heard_all_the_same() -> None:
    """As a debug line; and a connection of which librdkafka itself lets go is no sign."""
    suspicion = working()
    gone = "127.0.0.1:1/bootstrap: Decommissioning this broker (after 6ms in state UP)"
    suspicion.hear("FAIL", f"{gone} (_DESTROY_BROKER)")
    suspicion.hear("FAIL", f"{gone} (_DESTROY_BROKER): identical to last error")
    assert suspicion.reason is None
    suspicion.hear("FAIL", f"{RESET} (_TRANSPORT): identical to last error: error log suppressed")
    assert suspicion.reason is not None


def test_a_retriable_error_that_was_met_is_a_sign() -> None:
    suspicion = working()
    suspicion.note("the commit was asked for again: Local: Timed out")
    assert take(suspicion, 0.0) == "the commit was asked for again: Local: Timed out"


def test_the_first_reason_stays() -> None:
    suspicion = working()
    suspicion.hear("REQTMOUT", "first")
    suspicion.hear("REQTMOUT", "second")
    assert suspicion.reason == "librdkafka says REQTMOUT: first"
    assert take(suspicion, 9.0) == suspicion.reason
