"""Both producers answer checks: what is asked, what becomes a decision, and what goes wrong.

Over TCP and a unix socket, against a door whose streams do what the test says.
"""

import logging
import threading

import pytest

from halfhitch import errors
from halfhitch.client import Check, LocalTransactionState, Message, ProducerClosed, checks
from harness.check_streams import HEAD, ChecksDoor, check_of, chunk
from harness.producers import SHELLS, driven
from harness.scripted_http import CUT_AFTER, HANG, Answer, Bytes, refusal

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState
LOGGER = "halfhitch.client"
DEADLINE_S = 10


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """Pauses that a test has to sit through are short."""
    monkeypatch.setattr(checks, "PAUSE_S_MAX", 0.2)
    monkeypatch.setattr(checks, "REFUSED_PAUSE_S", 0.1)


class Application:
    """What the program says to checks; what it was asked is in `asked`."""

    def __init__(self, shell, told=COMMIT):
        self.told = told
        self.asked = []
        self.gates = {}
        self._came = threading.Condition()
        self.function = self._sync if shell == "sync" else self._aio

    def hold(self, transaction_id):
        """Checks of this transaction wait until the gate is opened."""
        gate = self.gates[transaction_id] = threading.Event()
        return gate

    def until_asked(self, count):
        with self._came:
            assert self._came.wait_for(lambda: len(self.asked) >= count, DEADLINE_S), self.asked

    def ids(self):
        return [check.transaction_id for check in self.asked]

    def _note(self, check):
        with self._came:
            self.asked.append(check)
            self._came.notify_all()

    def _say(self, check):
        told = self.told(check) if callable(self.told) else self.told
        if isinstance(told, BaseException):
            raise told
        return told

    def _sync(self, check):
        self._note(check)
        if check.transaction_id in self.gates:
            assert self.gates[check.transaction_id].wait(DEADLINE_S)
        return self._say(check)

    async def _aio(self, check):
        import asyncio

        self._note(check)
        if check.transaction_id in self.gates:
            assert await asyncio.to_thread(self.gates[check.transaction_id].wait, DEADLINE_S)
        return self._say(check)


class World:
    def __init__(self, door, producer, application):
        self.door = door
        self.producer = producer
        self.application = application

    def still_answers(self, stream, transaction_id="last"):
        """The proof that nothing before has hurt."""
        end = (transaction_id, "commit?source=check")
        before = self.door.ends().count(end)
        stream.check(transaction_id)
        self.door.until(lambda: self.door.ends().count(end) > before)


@pytest.fixture(params=[f"{shell}-{kind}" for shell in SHELLS for kind in ("tcp", "unix")])
def given(request):
    shell, kind = request.param.split("-")
    opened = []

    def give(*refusals, told=COMMIT, ends=None, use="check", **options):
        door = ChecksDoor(*refusals, unix=kind == "unix", **({"ends": ends} if ends else {}))
        door.__enter__()
        application = Application(shell, told)
        if use == "check":
            options["check"] = application.function
        else:
            options["listener"] = ListenerOf(application)
        entered = driven(shell, "orders", door.address, **options)
        world = World(door, entered.__enter__(), application)
        opened.append((door, entered))
        return world

    give.shell = shell
    yield give
    for door, entered in opened:
        entered.__exit__(None, None, None)
        door.__exit__(None, None, None)


class ListenerOf:
    def __init__(self, application):
        self.messages = []
        self._application = application

    def check_local_transaction(self, message):
        self.messages.append(message)
        check = Check(message.transaction_id, "orders", "", 1, 1, 0.0, (message,))
        return self._application.function(check)


# -- asking


def test_the_stream_is_asked_for_with_group_token_and_name(given):
    world = given(token="s3cret")
    request = world.door.stream().request
    assert (request.method, request.target) == ("GET", "/v1/checks?producer_group=orders")
    assert request.header("Half-Heartbeat") == "3"
    assert request.header("Half-Token") == "s3cret"
    name, _, process = request.header("Half-Producer-Name").rpartition("-")
    assert name
    assert int(process) > 0
    assert request.body == b""


def test_a_group_that_no_header_carries_is_asked_for_too(shell):
    application = Application(shell)
    with (
        ChecksDoor() as door,
        driven(shell, "grüppe 1/&", door.address, check=application.function),
    ):
        stream = door.stream()
        assert stream.request.target == "/v1/checks?producer_group=gr%C3%BCppe%201%2F%26"
        stream.check("t1", producer_group="grüppe 1/&")
        assert door.until_ends(1) == [("t1", "commit?source=check")]


def test_a_function_is_given_the_whole_check(given):
    world = given()
    messages = [{"topic": "orders", "value": "a"}, {"topic": "points", "value": "b"}]
    world.door.stream().check("t1", check_number=2, messages=messages)
    world.door.until_ends(1)
    (check,) = world.application.asked
    assert check == Check(
        "t1",
        "orders",
        "h-t1",
        2,
        15,
        6.5,
        (
            Message("orders", b"a", transaction_id="t1"),
            Message("points", b"b", transaction_id="t1"),
        ),
    )


def test_a_listener_is_given_the_first_message_with_the_transaction_id(given):
    world = given(use="listener")
    messages = [{"topic": "orders", "value": "a"}, {"topic": "points", "value": "b"}]
    world.door.stream().check("t1", messages=messages)
    assert world.door.until_ends(1) == [("t1", "commit?source=check")]
    (check,) = world.application.asked
    assert check.messages == (Message("orders", b"a", transaction_id="t1"),)


@pytest.mark.parametrize("use", ["check", "listener"])
def test_group_age_and_birth_reach_a_function_and_a_listener(given, use):
    """A barrier compares the group and fences nothing too old, whichever way it is asked."""
    world = given(use=use)
    world.door.stream().check("t1", born_ms=1_785_412_800_000)
    assert world.door.until_ends(1) == [("t1", "commit?source=check")]
    (check,) = world.application.asked
    if use == "listener":
        (check,) = check.messages
        assert check == Message("orders", b"v", b"k", None, None, "t1")
    told = (check.transaction_id, check.producer_group, check.age_s, check.born_ms)
    assert told == ("t1", "orders", 6.5, 1_785_412_800_000)


@pytest.mark.parametrize("born_ms", ["soon", 1.5, True, []])
def test_a_check_with_another_kind_of_birth_is_dropped(given, born_ms):
    world = given()
    stream = world.door.stream()
    stream.check("t1", born_ms=born_ms)
    stream.check("t2")
    assert world.door.until_ends(1) == [("t2", "commit?source=check")]


@pytest.mark.parametrize(
    ("told", "end"),
    [
        (COMMIT, "commit?source=check"),
        (ROLLBACK, "rollback?source=check"),
        (UNKNOWN, "unknown"),
        (None, "unknown"),
        ("COMMIT", "unknown"),
        (True, "unknown"),
        (ValueError("the database is away"), "unknown"),
        (errors.TransactionGone("no"), "unknown"),
    ],
    ids=repr,
)
def test_only_a_state_becomes_a_decision(given, told, end):
    world = given(told=told)
    stream = world.door.stream()
    stream.check("t1")
    assert world.door.until_ends(1) == [("t1", end)]
    world.application.told = COMMIT
    world.still_answers(stream)


def test_an_exit_in_a_check_is_no_decision_and_costs_no_worker():
    application = Application("sync", SystemExit(3))
    with (
        ChecksDoor() as door,
        driven("sync", "orders", door.address, check=application.function, check_workers=1),
    ):
        stream = door.stream()
        for number in range(3):
            stream.check(f"t{number}")
            assert door.until_ends(number + 1)[number] == (f"t{number}", "unknown")


def test_the_exception_of_a_check_is_in_the_log(given, caplog):
    world = given(told=ValueError("the database is away"))
    with caplog.at_level(logging.DEBUG, LOGGER):
        world.door.stream().check("t1")
        world.door.until_ends(1)
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelno, record.action) == (logging.ERROR, "check_failed")
    assert "the database is away" in str(record.exc_info[1])


def test_an_exception_in_a_check_was_told_as_cannot_say_yet(given):
    world = given(told=RuntimeError("db down\r\nwith a long story"))
    stream = world.door.stream()
    stream.check("t1")
    assert world.door.until_ends(1) == [("t1", "unknown")]
    world.application.told = UNKNOWN
    stream.check("t2")
    world.door.until_ends(2)
    answers = [r.header("Half-Reason") for r in world.door.requests if r.method == "POST"]
    assert answers == ["RuntimeError: db down", None]


def test_many_checks_are_answered_each_once(given):
    world = given()
    stream = world.door.stream()
    for number in range(200):
        stream.check(f"t{number}")
    ended = world.door.until_ends(200)
    assert sorted(ended) == sorted((f"t{number}", "commit?source=check") for number in range(200))


def test_calls_go_on_beside_checks(given):
    world = given()
    world.door.stream().check("t1")
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
    world.door.until_ends(2)


# -- who answers, and since when


def test_nothing_is_asked_for_without_a_check(given):
    world = given(use="listener", answers_checks=False)
    world.producer.view("h1")
    assert world.door.checks_requests() == []
    world.producer.start_checks()
    world.producer.start_checks()
    world.still_answers(world.door.stream())
    assert len(world.door.checks_requests()) == 1


def test_a_producer_without_a_check_cannot_begin_to_answer(shell):
    class Half:
        def execute_local_transaction(self, message, arg):
            return COMMIT

    with ChecksDoor() as door, driven(shell, "orders", door.address, listener=Half()) as producer:
        with pytest.raises(errors.InvalidRequest, match="check="):
            producer.start_checks()
        producer.view("h1")
        assert door.checks_requests() == []


def test_a_closed_producer_cannot_begin_to_answer(given):
    world = given(answers_checks=False)
    world.producer.close()
    with pytest.raises(ProducerClosed):
        world.producer.start_checks()
    assert world.door.checks_requests() == []


# -- answers that are refused


@pytest.mark.parametrize(
    "answer",
    [
        refusal(409, "contrary_decision", decided="rolled_back", requested="committed"),
        refusal(410, "transaction_gone"),
        refusal(404, "transaction_not_found"),
        refusal(409, "transaction_parked"),
    ],
    ids=lambda answer: str(answer.body["error"]["code"]),
)
def test_a_transaction_that_was_settled_otherwise_is_no_trouble(given, answer, caplog):
    world = given(ends=lambda request: answer if "h-t1/" in request.target else Answer(*COMMITTED))
    stream = world.door.stream()
    with caplog.at_level(logging.INFO, LOGGER):
        stream.check("t1")
        world.door.until_ends(1)
        world.still_answers(stream)
    assert {record.action for record in caplog.records} == {"check_answered"}


COMMITTED = (200, {"transaction_id": "t", "state": "committed"})


@pytest.mark.parametrize(
    "answer",
    [refusal(400, "invalid_handle"), refusal(500, "internal_error"), Answer(200, b"hello"), HANG],
    ids=["400", "500", "nonsense", "hang"],
)
def test_an_answer_that_is_not_taken_is_logged_and_forgotten(given, answer, caplog):
    world = given(
        ends=lambda request: answer if "h-t1/" in request.target else Answer(*COMMITTED),
        deadline_s=0.3,
        check_workers=1,
    )
    stream = world.door.stream()
    with caplog.at_level(logging.INFO, LOGGER):
        stream.check("t1")
        world.door.until_ends(1)
        world.still_answers(stream)
        world.producer.close()
    actions = {record.action for record in caplog.records}
    assert actions == {"check_answered", "check_answer_failed"}


def test_an_answer_is_tried_again(given):
    failures = iter([Answer(503), CUT_AFTER])
    world = given(ends=lambda _: next(failures, Answer(*COMMITTED)))
    world.door.stream().check("t1")
    assert world.door.until_ends(3) == [("t1", "commit?source=check")] * 3


# -- bounds


def test_a_check_that_comes_again_while_it_runs_is_answered_once(given):
    world = given()
    gate = world.application.hold("t1")
    stream = world.door.stream()
    stream.check("t1")
    world.application.until_asked(1)
    stream.check("t1")
    stream.check("t1", check_number=2)
    world.still_answers(stream)
    gate.set()
    world.door.until_ends(2)
    world.still_answers(stream, "next")
    assert world.application.ids() == ["t1", "last", "next"]
    assert world.door.ends().count(("t1", "commit?source=check")) == 1


def test_the_next_check_after_an_unknown_is_not_taken_for_a_repetition(given):
    world = given(told=UNKNOWN)
    stream = world.door.stream()
    for number in range(1, 101):  # as fast as the answers come
        stream.check("t1", check_number=number)
        world.door.until_ends(number)
    assert [check.number for check in world.application.asked] == list(range(1, 101))


def test_checks_beyond_the_bound_wait_while_heartbeats_go_on(given, monkeypatch):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(checks, "SILENCE_S", 0.2)
    world = given(check_workers=2)
    gates = [world.application.hold(f"t{number}") for number in range(2)]
    stream = world.door.stream()
    for number in range(6):
        stream.check(f"t{number}")
    world.application.until_asked(2)
    stream.until_beats(stream.beat_count + 10)  # longer than silence may last
    assert world.application.ids() == ["t0", "t1"]
    gates[0].set()
    world.door.until_ends(5)
    assert not stream.is_over
    gates[1].set()
    world.door.until_ends(6)
    assert len(world.door.streams) == 1


def test_a_door_that_is_slow_to_answer_does_not_keep_others_from_being_asked(given, monkeypatch):
    monkeypatch.setattr(checks, "SENDING_MAX", 3)
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    gate = threading.Event()

    def slow(request):
        if "h-last/" not in request.target:
            assert gate.wait(DEADLINE_S)
        return Answer(*COMMITTED)

    world = given(ends=slow, check_workers=1)
    stream = world.door.stream()
    for number in range(3):
        stream.check(f"t{number}")
    world.door.until(lambda: len(world.door.targets()) == 4)
    world.still_answers(stream)
    stream.check("t3")
    world.door.until(lambda: len(world.door.targets()) == 6)
    for number in range(4, 7):
        stream.check(f"t{number}")
    stream.until_beats(stream.beat_count + 4)
    assert world.application.ids() == ["t0", "t1", "t2", "last", "t3"], "there is a bound"
    gate.set()
    world.door.until_ends(8)


def test_a_stream_that_is_lost_while_no_check_can_be_taken_is_opened_again(given, monkeypatch):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    world = given(check_workers=1)
    gate = world.application.hold("t0")
    stream = world.door.stream()
    stream.check("t0")
    stream.check("t1")
    world.application.until_asked(1)
    stream.cut()
    second = world.door.stream(2)
    second.check("t0")  # the sidecar asks again what was on its way
    second.check("t1")
    second.until_beats(second.beat_count + 2)  # between two of them it has read what was there
    gate.set()
    world.door.until_ends(2)
    assert world.application.ids() == ["t0", "t1"]


def test_checks_that_hang_are_told(given, monkeypatch, caplog):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(checks, "STUCK_S", 0.1)
    world = given(check_workers=1)
    gate = world.application.hold("t0")
    stream = world.door.stream()
    stream.check("t0")
    stream.check("t1")
    world.application.until_asked(1)
    stream.until_beats(stream.beat_count + 8)
    gate.set()
    world.door.until_ends(2)
    assert [record.action for record in caplog.records] == ["checks_stuck"]


# -- lines and streams that are bad


def test_garbage_on_the_stream_hurts_nothing(given):
    world = given()
    stream = world.door.stream()
    stream.bytes(b"nonsense\n\n\xff\xfe\n{}\n[]\n")
    stream.line(check_of("t1") | {"messages": None})
    stream.check("t2", producer_group="others")
    world.still_answers(stream)
    assert world.door.ends() == [("last", "commit?source=check")]
    assert len(world.door.streams) == 1


def test_a_huge_line_ends_the_connection_and_another_is_opened(given, monkeypatch):
    monkeypatch.setattr(checks, "LINE_BYTES_MAX", 100_000)
    world = given()
    stream = world.door.stream()
    stream.bytes(b"x" * 90_000)
    stream.bytes(b"x" * 90_000)
    stream.until_over()
    world.still_answers(world.door.stream(2))


def test_a_large_check_is_answered(given):
    world = given()
    messages = [{"topic": "orders", "value": "x" * 8_000_000}]
    world.door.stream().check("t1", messages=messages)
    world.door.until_ends(1)
    assert len(world.application.asked[0].messages[0].value) == 8_000_000


def test_a_check_in_single_bytes_is_answered(given):
    world = given()
    stream = world.door.stream()
    stream.bytes(b'{"type":"heartbeat"}\n')
    raw = chunk(b'{"type":"check","transaction_id":"t1","producer_group":"orders",')
    raw += chunk(b'"handle":"h-t1","check_number":1,"check_max":2,"age_ms":3,')
    raw += chunk(b'"messages":[{"topic":"t"}]}\n')
    for at in range(len(raw)):
        stream.raw(raw[at : at + 1])
    world.door.until_ends(1)


@pytest.mark.parametrize("way", ["mid-line", "mid-chunk", "cut", "proper"])
def test_a_stream_that_ends_is_opened_again(given, way):
    world = given()
    stream = world.door.stream()
    if way == "mid-line":
        stream.bytes(b'{"type":"check","transaction_id":"t1"')
    elif way == "mid-chunk":
        stream.raw(b"ff\r\n{")
    if way == "proper":
        stream.end()
    else:
        stream.cut()
    world.still_answers(world.door.stream(2))
    assert world.application.ids() == ["last"]


def test_a_check_goes_on_when_its_stream_ends_and_is_not_run_twice(given):
    world = given()
    gate = world.application.hold("t1")
    stream = world.door.stream()
    stream.check("t1")
    world.application.until_asked(1)
    stream.cut()
    second = world.door.stream(2)
    second.check("t1")
    world.still_answers(second)
    gate.set()
    assert ("t1", "commit?source=check") in world.door.until_ends(2)
    assert world.application.ids() == ["t1", "last"]


def test_a_silent_sidecar_is_left_and_heartbeats_were_sent(given, monkeypatch):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(checks, "SILENCE_S", 0.4)
    world = given()
    stream = world.door.stream()
    stream.until_beats(3)
    stream.until_over()
    world.door.stream(2)


def test_a_sidecar_that_never_answers_the_request_is_left(given, monkeypatch):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(checks, "SILENCE_S", 0.2)
    world = given()
    world.door.stream(with_head=False).until_over()
    monkeypatch.setattr(checks, "SILENCE_S", 10.0)
    world.still_answers(world.door.stream(2))


def test_heartbeats_of_the_sidecar_keep_the_stream(given, monkeypatch):
    monkeypatch.setattr(checks, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(checks, "SILENCE_S", 0.5)
    world = given()
    stream = world.door.stream()
    for count in range(1, 21):
        stream.heartbeat()
        stream.until_beats(count)
    world.still_answers(stream)
    assert len(world.door.streams) == 1


@pytest.mark.parametrize(
    "step",
    [
        refusal(503, "unavailable", retry_after="0"),
        refusal(401, "unauthorized"),
        refusal(404, "route_not_found"),
        CUT_AFTER,
        Bytes(b"SSH-2.0-OpenSSH\r\n"),
        Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
        Bytes(HEAD + b"nonsense\r\n"),
        Bytes(b"HTTP/1.1 502 Bad\r\n\r\n<html>"),
    ],
    ids=["503", "401", "404", "cut", "ssh", "no stream", "bad chunks", "no length"],
)
def test_a_refused_stream_is_asked_for_again(given, step):
    world = given(step, step, step)
    world.still_answers(world.door.stream())
    assert len(world.door.checks_requests()) == 4


def test_the_way_back_is_told_after_a_warning(given, caplog):
    with caplog.at_level(logging.INFO, LOGGER):
        world = given(refusal(401, "unauthorized"))
        world.still_answers(world.door.stream())
    actions = [record.action for record in caplog.records if record.action != "check_answered"]
    assert actions == ["check_stream_failed", "check_stream_recovered"]


def test_a_sidecar_that_comes_later_is_found(shell, tmp_path):
    application = Application(shell)
    address = f"unix:{tmp_path}/s"
    with (
        driven(shell, "orders", address, check=application.function),
        ChecksDoor(unix=True) as door,
    ):
        (tmp_path / "s").symlink_to(door.address.removeprefix("unix:"))
        door.stream().check("t1")
        assert door.until_ends(1) == [("t1", "commit?source=check")]


# -- closing


def test_close_ends_the_stream(given):
    world = given()
    stream = world.door.stream()
    world.producer.close()
    stream.until_over()
    assert len(world.door.checks_requests()) == 1


def test_close_waits_for_a_check_that_runs_and_sends_its_answer(given):
    world = given()
    gate = world.application.hold("t1")
    stream = world.door.stream()
    stream.check("t1")
    world.application.until_asked(1)
    closer = threading.Thread(target=world.producer.close)
    closer.start()
    stream.until_over()
    gate.set()
    closer.join(DEADLINE_S)
    assert not closer.is_alive()
    assert world.door.ends() == [("t1", "commit?source=check")]


def test_close_does_not_wait_for_ever_and_nothing_is_sent_after_it(given, monkeypatch):
    monkeypatch.setattr(checks, "CLOSE_S", 0.1)
    world = given()
    gate = world.application.hold("t1")
    world.door.stream().check("t1")
    world.application.until_asked(1)
    world.producer.close()
    gate.set()
    for thread in threading.enumerate():
        if thread.name.startswith("halfhitch-check"):
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
    assert world.door.ends() == []


def test_close_while_nothing_listens_is_quick(shell):
    application = Application(shell)
    with driven(shell, "orders", "http://127.0.0.1:9", check=application.function):
        pass
    assert not [t for t in threading.enumerate() if t.name.startswith("halfhitch-check")]
