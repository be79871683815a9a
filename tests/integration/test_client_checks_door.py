"""The Python client answers checks through the real data door, with a desk in memory behind it."""

import asyncio
import threading

import pytest

from halfhitch.client import LocalTransactionState, Message, checks
from halfhitch.client.checks import CheckStream
from halfhitch.core.model import ProducerGroup, ResolutionSource, TransactionId
from halfhitch.doors.http import HttpDoor
from halfhitch.doors.http.replies import STREAM_HEAD
from halfhitch.service.api import TransactionState
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.check import Check, CheckMessage, encode
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with
from harness.producers import SHELLS, driven

TOKEN = "a-token"
GROUP = "grüppe 1/&"
DEADLINE_S = 10
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState


class WatchedDesk(FakeDesk):
    """Tells another thread when something has happened."""

    def __init__(self):
        super().__init__()
        self.changed = threading.Condition()

    def connect(self, link):
        with self.changed:
            super().connect(link)
            self.changed.notify_all()

    def disconnect(self, link):
        with self.changed:
            super().disconnect(link)
            self.changed.notify_all()

    def settle(self, identity, outcome, reason=None):
        with self.changed:
            settled = super().settle(identity, outcome, reason)
            self.changed.notify_all()
            return settled

    def until(self, happened):
        with self.changed:
            assert self.changed.wait_for(lambda: happened(self), DEADLINE_S), self


class WatchedTransactions(FakeTransactions):
    """Tells the desk of a decision, as the service does."""

    def __init__(self, desk):
        super().__init__()
        self._desk = desk
        self._check = lambda messages: None

    async def end(self, handle, resolution, **options):
        ended = await super().end(handle, resolution, **options)
        if options["source"] is ResolutionSource.CHECK:
            self._desk.settle(self.identify(handle), CheckOutcome(resolution.name.lower()))
        return ended


class RunningDoor:
    """A door on a loop of its own, in a thread of its own."""

    def __init__(self, folder, **options):
        self.desk = WatchedDesk()
        self.service = WatchedTransactions(self.desk)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._options = {
            "checks": self.desk,
            "access": access_with(TOKEN),
            "limits": http_limits(),
            **options,
        }
        self._port = 0
        self._path = folder / "s"
        self.start()

    def start(self):
        self._door = HttpDoor(self.service, port=self._port, unix_path=self._path, **self._options)
        self.run(self._door.start())
        self._port = self._door.port
        self.addresses = {
            "tcp": f"http://127.0.0.1:{self._port}",
            "unix": f"unix:{self._door.unix_path}",
        }

    def run(self, awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(30)

    def stop(self):
        self.run(self._door.stop(drain_s=5))

    def end(self):
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def offer(self, check):
        async def offer():
            return self.desk.links[-1].offer(check)

        return self.run(offer())

    def prepare(self, transaction_id):
        """A pending transaction, and the check for it."""

        async def prepare():
            return await self.service.prepare(
                producer_group=GROUP, messages=[], transaction_id=transaction_id
            )

        return check_of(transaction_id, self.run(prepare()).handle)


def check_of(transaction_id, handle):
    messages = [
        CheckMessage("orders", "schlüssel".encode(), b"\xff\0", [("trace", b"\xff"), ("n", None)]),
        CheckMessage("points", None, None, [], 3),
    ]
    identity = (ProducerGroup(GROUP), TransactionId(transaction_id))
    return Check(0, identity, 2, 15, handle, 6500, "i1", messages)


@pytest.fixture
def door(tmp_path):
    running = RunningDoor(tmp_path)
    yield running
    running.end()


class Application:
    def __init__(self):
        self.asked = []
        self.told = COMMIT

    def check(self, check):
        self.asked.append(check)
        return self.told

    async def check_async(self, check):
        return self.check(check)


@pytest.fixture(params=[f"{shell}-{kind}" for shell in SHELLS for kind in ("tcp", "unix")])
def opened(request, door):
    shell, kind = request.param.split("-")
    application = Application()
    function = application.check if shell == "sync" else application.check_async
    options = {"token": TOKEN, "deadline_s": 5, "check": function}
    with driven(shell, GROUP, door.addresses[kind], **options) as producer:
        application.producer = producer
        yield application


def test_being_connected_is_being_live_under_its_name(door, opened):
    door.desk.until(lambda desk: desk.links)
    (link,) = door.desk.links
    assert link.producer_group == GROUP
    assert "-" in link.name
    opened.producer.close()
    door.desk.until(lambda desk: not desk.links)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (COMMIT, TransactionState.COMMITTED),
        (ROLLBACK, TransactionState.ROLLED_BACK),
        (UNKNOWN, TransactionState.PENDING),
    ],
)
def test_a_check_is_asked_and_answered(door, opened, told, state):
    opened.told = told
    door.desk.until(lambda desk: desk.links)
    check = door.prepare("t1")
    assert door.offer(check)
    door.desk.until(lambda desk: desk.settled)
    outcome = CheckOutcome(told.name.lower())
    assert door.desk.settled == [((GROUP, "t1"), outcome)]
    transaction = door.service.transactions[check.handle]
    assert transaction.state is state
    assert transaction.source is (None if told is UNKNOWN else ResolutionSource.CHECK)
    (asked,) = opened.asked
    assert asked[:6] == ("t1", GROUP, check.handle, 2, 15, 6.5)
    assert asked.messages == (
        Message(
            "orders",
            b"\xff\0",
            "schlüssel".encode(),
            [("trace", b"\xff"), ("n", None)],
            None,
            "t1",
        ),
        Message("points", None, None, None, 3, "t1"),
    )


def test_every_check_that_the_coordinator_writes_is_read_as_it_was_meant(rng):
    def data(length):
        return None if rng.random() < 0.2 else rng.randbytes(rng.randrange(length))

    def text(length):
        return "".join(
            rng.choice("aB-_ é\x00\r\n€'\"\\😀") for _ in range(rng.randrange(1, length))
        )

    stream = CheckStream(GROUP, 0.0)
    assert list(stream.feed(STREAM_HEAD, 0.0)) == []
    for number in range(300):
        messages = [
            CheckMessage(
                text(9),
                data(9),
                data(2000),
                [(text(9), data(9)) for _ in range(rng.randrange(3))],
                rng.choice([None, 0, 7]),
            )
            for _ in range(rng.randrange(1, 4))
        ]
        identity = (ProducerGroup(GROUP), TransactionId(text(20)))
        check = Check(0, identity, number, 15, text(40), rng.randrange(10**9), "i1", messages)
        line = encode(check) + b"\n"
        (read,) = stream.feed(b"%x\r\n%b\r\n" % (len(line), line), 0.0)
        assert read[:5] == (identity[1], GROUP, check.handle, number, 15)
        assert read.age_s == check.age_ms / 1000
        for found, meant in zip(read.messages, messages, strict=True):
            assert found.transaction_id == identity[1]
            assert (found.topic, found.key, found.value) == (meant.topic, meant.key, meant.value)
            assert (found.headers or [], found.partition) == (meant.headers, meant.partition)


def test_many_checks_are_answered(door, opened):
    door.desk.until(lambda desk: desk.links)
    offered = [door.prepare(f"t{number}") for number in range(300)]
    for check in offered:
        assert door.offer(check)
    door.desk.until(lambda desk: len(desk.settled) == 300)
    assert {door.service.transactions[check.handle].state for check in offered} == {
        TransactionState.COMMITTED
    }


def test_a_restart_of_the_door_is_survived(door, opened):
    door.desk.until(lambda desk: desk.links)
    for count in range(1, 4):
        door.stop()
        door.desk.until(lambda desk: not desk.links)
        door.start()
        door.desk.until(lambda desk: desk.links)
        assert door.offer(door.prepare(f"t{count}"))
        door.desk.until(lambda desk, count=count: len(desk.settled) == count)


def test_a_quiet_stream_lives_by_the_heartbeats_of_both_sides(tmp_path, monkeypatch):
    # A second stands for the contract's three: the door then ends a silent stream after 3 s.
    monkeypatch.setattr(checks, "HEARTBEAT_S", 1)
    monkeypatch.setattr(checks, "SILENCE_S", 1.5)
    door = RunningDoor(tmp_path, limits=http_limits(heartbeat_s=0.5))
    application = Application()
    options = {"token": TOKEN, "check": application.check}
    try:
        with driven("sync", GROUP, door.addresses["tcp"], **options):
            door.desk.until(lambda desk: desk.links)
            assert not threading.Event().wait(4.0), "a while in which nothing happens"
            assert door.desk.disconnected_count == 0
    finally:
        door.end()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_wrong_token_is_told_and_the_stream_opens_once_it_is_right(
    shell, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(checks, "REFUSED_PAUSE_S", 1.0)
    refused = threading.Event()
    door = RunningDoor(tmp_path, access=access_with("another"), on_request=lambda *_: refused.set())
    application = Application()
    function = application.check if shell == "sync" else application.check_async
    try:
        with driven(shell, GROUP, door.addresses["tcp"], token=TOKEN, check=function):
            assert refused.wait(DEADLINE_S)
            door.stop()  # during the pause
            door._options["access"] = access_with(TOKEN)
            door.start()
            door.desk.until(lambda desk: desk.links)
    finally:
        door.end()
    actions = [record.action for record in caplog.records]
    assert actions == ["http_unauthorized", "check_stream_failed"]
    assert "Half-Token" in caplog.text
