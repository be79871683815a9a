"""What listens at the address is no sidecar, or nothing listens: what a person is told, and how
soon; and the lines of a traceback that are his own.
"""

from __future__ import annotations

import logging
import socket
import traceback
import uuid

import pytest

from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls
from halfhitch.client.errors import DecisionUnknown, PrepareUnknown, SidecarUnavailable
from halfhitch.client.marks import Mark
from halfhitch.client.retries import STRANGER_S, Attempts, TransportFailure
from halfhitch.client.values import Check, LocalTransactionState, Message
from halfhitch.errors import RequestError
from harness.producers import driven
from harness.scripted_http import (
    CUT_AFTER,
    HANG,
    Answer,
    Bytes,
    ScriptedServer,
    like_the_door,
    refusal,
)

MESSAGES = [Message("orders", b"one")]
CALLS = Calls(parse_address("http://127.0.0.1:9092"), "shop", None)
CLOSED = TransportFailure("closed", sent=True, stranger=True)
REDIS = b"-ERR wrong number of arguments\r\n"


@pytest.fixture
def nobody():
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("step", [CUT_AFTER, Bytes(REDIS)], ids=["kafka", "redis"])
def test_a_client_at_a_port_of_no_sidecar_was_told_of_an_unknown_outcome(shell, step):
    with (
        ScriptedServer(otherwise=lambda _: step, greets=False) as server,
        driven(shell, "shop", server.address, deadline_s=60, answers_checks=False) as producer,
        pytest.raises(SidecarUnavailable) as caught,
    ):
        producer.prepare(MESSAGES)
    for part in ("may be no sidecar", "http://127.0.0.1:8340", "HALFHITCH_ADDRESS", server.address):
        assert part in str(caught.value)
    assert set(server.targets()) == {"*"}  # which stores nothing: that it says so is true


def test_a_stranger_is_told_long_before_the_deadline():
    attempts = Attempts(
        CALLS.prepare(MESSAGES, "t", None),
        "there",
        now_s=100.0,
        deadline_s=60.0,
        jitter=lambda: 0.5,
        greeting=CALLS.greeting,
    )
    now_s = 100.0
    told = None
    while told is None:
        try:
            now_s += attempts.failed(CLOSED, now_s)
        except SidecarUnavailable as error:
            told = str(error)
    assert "may be no sidecar" in told
    assert STRANGER_S <= now_s - 100.0 < 2 * STRANGER_S + 1


def test_a_sidecar_that_comes_up_behind_its_proxy_is_waited_for(shell):
    with (
        ScriptedServer(CUT_AFTER, CUT_AFTER, Answer(204), greets=False) as server,
        driven(shell, "shop", server.address, answers_checks=False) as producer,
    ):
        assert producer.prepare(MESSAGES).handle == "h1"
    assert [target.rpartition("/")[2] for target in server.targets()] == ["*"] * 3 + ["half"]


def test_who_has_answered_once_is_not_greeted_again(shell):
    def answer(request):
        return Answer(204) if request.method == "OPTIONS" else like_the_door(request)

    with (
        ScriptedServer(otherwise=answer, greets=False) as server,
        driven(shell, "shop", server.address, answers_checks=False) as producer,
    ):
        for _ in range(3):
            producer.prepare(MESSAGES)
        assert server.targets().count("*") == 1
        # No pause before the second try: short pauses leave time for a try behind one that hangs.
        server.then(*[CUT_AFTER] * 4, *[HANG] * 4)
        with pytest.raises(PrepareUnknown) as caught:
            producer.perform(CALLS.prepare(MESSAGES, "t", None), 1.0)
        assert "may be no sidecar" not in str(caught.value)
    assert server.targets().count("*") == 1


def test_an_end_goes_out_ungreeted_and_stays_unknown(shell):
    with (
        ScriptedServer(otherwise=lambda _: CUT_AFTER) as server,
        driven(shell, "shop", server.address, deadline_s=0.3, answers_checks=False) as producer,
        pytest.raises(DecisionUnknown),
    ):
        producer.commit("h1")
    assert "*" not in server.targets()


def test_a_unix_socket_is_no_port_that_was_mistaken():
    assert Calls(parse_address("unix:/run/s"), "shop", None).greeting is None


def test_a_traceback_was_thirty_lines_of_ours(shell, nobody):
    with driven(shell, "shop", nobody, deadline_s=1.0, answers_checks=False) as producer:
        for send in (
            lambda: producer.prepare(MESSAGES),
            lambda: producer.transaction().send("orders", b"one"),
        ):
            with pytest.raises(SidecarUnavailable) as caught:
                send()
            error = caught.value
            text = "".join(traceback.format_exception(error))
            assert "During handling" not in text
            assert "direct cause" not in text
            assert "cannot be reached (" in str(error)  # with the cause's own words behind it
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "/halfhitch/client/" in frame.filename]
            assert 1 <= len(ours) <= 4, text


def test_so_was_that_of_a_refusal(shell):
    """A client at the admin door, say."""
    no_route = refusal(404, "route_not_found", "This is the admin door")
    with (
        ScriptedServer(no_route) as server,
        driven(shell, "shop", server.address, answers_checks=False) as producer,
        pytest.raises(RequestError, match="admin door") as caught,
    ):
        producer.prepare(MESSAGES)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if frame.filename.endswith("retries.py")]


def test_an_unknown_outcome_has_one_cause(shell):
    with (
        ScriptedServer(otherwise=lambda _: CUT_AFTER) as server,
        driven(shell, "shop", server.address, deadline_s=0.2, answers_checks=False) as producer,
        pytest.raises(PrepareUnknown) as caught,
    ):
        producer.prepare(MESSAGES)
    cause = caught.value.__cause__
    assert isinstance(cause, SidecarUnavailable)
    assert cause.__cause__ is None
    assert cause.__context__ is None


def told(caplog):
    return [r.getMessage() for r in caplog.records if getattr(r, "action", "") == "no_check"]


def unknown(_check: Check) -> LocalTransactionState:
    return LocalTransactionState.UNKNOWN


def test_a_forgotten_check_was_silent_until_something_was_parked(shell, caplog):
    """It is said once for a group, however many producers and transactions there are."""
    group = f"shop-{uuid.uuid4().hex}"
    with ScriptedServer() as server, caplog.at_level(logging.WARNING, "halfhitch.client"):
        for _ in range(2):
            with driven(shell, group, server.address) as producer:
                for _ in range(2):
                    with producer.transaction() as tx:
                        tx.send("orders", b"one")
    (line,) = told(caplog)
    assert group in line
    assert "check=" in line
    assert "answers_checks=False" in line


@pytest.mark.parametrize(
    "options", [{"answers_checks": False}, {"on_error": "unknown"}, {"check": unknown}]
)
def test_whoever_leaves_the_answers_to_others_and_says_so_hears_nothing(shell, caplog, options):
    group = f"shop-{uuid.uuid4().hex}"
    with (
        ScriptedServer() as server,
        caplog.at_level(logging.WARNING, "halfhitch.client"),
        driven(shell, group, server.address, **options) as producer,
        producer.transaction() as tx,
    ):
        tx.send("orders", b"one")
    assert told(caplog) == []


def test_a_barrier_s_block_is_no_forgotten_check(shell, caplog):
    group = f"shop-{uuid.uuid4().hex}"
    with (
        ScriptedServer() as server,
        caplog.at_level(logging.WARNING, "halfhitch.client"),
        driven(shell, group, server.address) as producer,
    ):
        tx = producer.transaction()
        mark = Mark()
        with mark.hold():
            getattr(tx, "inner", tx).hold(mark)
            tx.send("orders", b"one")
        assert told(caplog) == []
        with producer.transaction() as tx:
            tx.send("orders", b"one")
        assert len(told(caplog)) == 1


@pytest.mark.parametrize("options", [{}, {"answers_checks": False}, {"check": unknown}])
def test_a_barrier_that_nobody_asks_was_not_told(shell, caplog, options):
    """Its check was there, but the producer did not know it: rows stood, messages were parked."""
    group = f"shop-{uuid.uuid4().hex}"
    with (
        ScriptedServer() as server,
        caplog.at_level(logging.WARNING, "halfhitch.client"),
        driven(shell, group, server.address, **options) as producer,
    ):
        for _ in range(2):
            mark = Mark()
            with producer.transaction() as tx, mark.hold():
                getattr(tx, "inner", tx).hold(mark)
                tx.send("orders", b"one")
    lines = [r.getMessage() for r in caplog.records if "no_check" in getattr(r, "action", "")]
    assert len(lines) == (0 if options else 1)
    assert all(f'TransactionProducer("{group}", check=barrier.check)' in line for line in lines)
