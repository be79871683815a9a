"""The Python client against the real data door, with a service in memory behind it."""

import asyncio
import random
import threading

import pytest

from halfhitch import errors
from halfhitch.client import BadAnswer, Message, PrepareUnknown
from halfhitch.core.model import ResolutionSource
from halfhitch.doors.http import HttpDoor
from halfhitch.service.api import TransactionState
from harness.defaults import http_limits
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with
from harness.producers import SHELLS, driven

TOKEN = "a-token"


class RunningDoor:
    """A door on a loop of its own, in a thread of its own."""

    def __init__(self, folder, **options):
        self.service = FakeTransactions()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._door = HttpDoor(
            self.service,
            **{
                "port": 0,
                "unix_path": folder / "s",
                "access": access_with(),
                "limits": http_limits(),
                **options,
            },
        )
        self.run(self._door.start())
        self.addresses = {
            "tcp": f"http://127.0.0.1:{self._door.port}",
            "unix": f"unix:{self._door.unix_path}",
        }

    def run(self, awaitable):
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(30)

    def connection_count(self):
        return self._door.connection_count

    def stop(self):
        self.run(self._door.stop(drain_s=5))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def only_transaction(self):
        (transaction,) = {id(t): t for t in self.service.transactions.values()}.values()
        return transaction


@pytest.fixture
def door(tmp_path):
    running = RunningDoor(tmp_path, access=access_with(TOKEN))
    yield running
    running.stop()


@pytest.fixture(params=[f"{shell}-{kind}" for shell in SHELLS for kind in ("tcp", "unix")])
def producer(request, door):
    shell, kind = request.param.split("-")
    with driven(shell, "orders", door.addresses[kind], token=TOKEN, deadline_s=5) as opened:
        yield opened


def test_a_block_is_stored_and_committed(door, producer):
    with producer.transaction(immunity_s=30) as tx:
        tx.send("orders", b"one", b"key", {"trace-id": "x"})
        tx.send("points", "zwölf", "schlüssel", [("Näme", None)], partition=3)
        tx.prepare([Message("orders", None, b"gone"), Message("orders", b"")])
    stored = door.only_transaction()
    assert (stored.transaction_id, stored.producer_group) == (tx.id, "orders")
    assert (stored.state, stored.source) == (TransactionState.COMMITTED, ResolutionSource.PRODUCER)
    assert stored.immunity_s == 30
    assert [(m.topic, m.value, m.key, m.headers, m.partition) for m in stored.messages] == [
        ("orders", b"one", b"key", [("trace-id", b"x")], None),
        ("points", "zwölf".encode(), "schlüssel".encode(), [("Näme", None)], 3),
        ("orders", None, b"gone", [], None),
        ("orders", b"", None, [], None),
    ]
    assert door.service.calls == ["prepare", "add", "add", "end"]
    assert door.connection_count() == 1


def test_every_message_arrives_as_it_was_given(door, producer, rng: random.Random):
    def text(length):
        return "".join(rng.choice("aB-_ é\x00\r\n€'\"\\") for _ in range(rng.randrange(length)))

    def data(length):
        return None if rng.random() < 0.1 else rng.randbytes(rng.randrange(length))

    given = []
    for number in range(150):
        headers = [
            (rng.choice([text(6), "plain", f"n{index}"]), data(6) or rng.choice([None, b"v w"]))
            for index in range(rng.randrange(4))
        ]
        key = rng.choice([None, b"", b"plain key", data(8)])
        partition = rng.choice([None, 0, number])
        message = Message("orders", data(200), key, headers, partition)
        given.append(message)
        producer.prepare([message], f"id-{number}")
    kept = {id(t): t for t in door.service.transactions.values()}.values()
    assert len(kept) == len(given)
    for transaction, message in zip(kept, given, strict=True):
        (stored,) = transaction.messages
        assert (stored.value, stored.key, stored.headers, stored.partition) == message[1:5]


def test_an_exception_rolls_back(door, producer):
    def fail():
        with producer.transaction() as tx:
            tx.send("orders", b"one")
            raise ValueError("out of stock")

    with pytest.raises(ValueError, match="out of stock"):
        fail()
    assert door.only_transaction().state is TransactionState.ROLLED_BACK


def test_ends_are_repeatable_and_contrary_ones_told(producer):
    handle = producer.prepare([Message("orders", b"one")]).handle
    assert producer.view(handle)[1:5] == ("orders", "pending", 1, False)
    assert producer.commit(handle).visible is False
    assert producer.commit(handle, wait_visible=True).visible is True
    with pytest.raises(errors.ContraryDecision) as raised:
        producer.rollback(handle)
    assert (raised.value.decided, raised.value.requested) == ("committed", "rolled_back")
    view = producer.view(handle)
    assert (view.state, view.details["state"]) == ("committed", "committed")
    with pytest.raises(errors.ContraryDecision):
        producer.add(handle, [Message("orders", b"two")])


@pytest.mark.parametrize(
    ("handle", "kind"),
    [
        ("h.unknown", errors.TransactionNotFound),
        ("h.gone", errors.TransactionGone),
        ("h.forged", errors.InvalidHandle),
    ],
)
def test_unusable_handles_are_told_apart(producer, handle, kind):
    with pytest.raises(kind):
        producer.view(handle)
    with pytest.raises(kind):
        producer.commit(handle)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "", "a/b", "tö", "x" * 250])
def test_a_topic_that_cannot_be_is_refused_by_the_door(producer, topic):
    with pytest.raises(errors.ForbiddenTopic):
        producer.prepare([Message(topic, b"one")])


def test_another_groups_transaction_is_not_ended(door, producer):
    handle = producer.prepare([Message("orders", b"one")]).handle
    with (
        driven("sync", "strangers", door.addresses["unix"], token=TOKEN) as stranger,
        pytest.raises(errors.WrongGroup),
    ):
        stranger.commit(handle)


def test_a_wrong_token_is_told(door):
    with (
        driven("sync", "orders", door.addresses["tcp"], token="wrong") as producer,
        pytest.raises(errors.Unauthorized, match="token is not valid here"),
    ):
        producer.prepare([Message("orders", b"one")])
    assert door.service.calls == []


@pytest.mark.parametrize("route", ["raw", "json"])
def test_a_message_that_is_too_large_is_told_and_not_repeated(door, producer, route):
    headers = {} if route == "raw" else {"Capital": b"x"}
    with pytest.raises(errors.MessageTooLarge):
        producer.prepare([Message("orders", b"x" * 5_000_000, headers=headers)])
    assert producer.prepare([Message("orders", b"small")]).handle
    assert door.service.calls == ["prepare"]


@pytest.mark.parametrize(
    "trouble",
    [
        errors.KafkaUnavailable("Kafka is away"),
        errors.Overloaded("too much"),
        errors.OutcomeUnknown("no answer"),
        errors.ShuttingDown("draining"),
    ],
    ids=lambda error: error.code,
)
def test_passing_trouble_is_outlived(door, producer, trouble):
    trouble.retry_after_s = 0
    door.service.fail_with = trouble
    with producer.transaction() as tx:
        tx.send("orders", b"one")
    assert door.service.calls == ["prepare", "prepare", "end"]
    assert door.only_transaction().transaction_id == tx.id


def test_a_bug_of_the_sidecar_is_told_as_an_unknown_outcome(door, producer, caplog):
    door.service.fail_with = ZeroDivisionError("a bug")
    with pytest.raises(PrepareUnknown, match="internal_error"):
        producer.prepare([Message("orders", b"one")])
    assert door.service.calls == ["prepare"]


def test_a_restart_of_the_sidecar_goes_unnoticed(tmp_path):
    running = RunningDoor(tmp_path)
    with driven("sync", "orders", running.addresses["unix"], deadline_s=20) as producer:
        producer.prepare([Message("orders", b"one")])
        running.stop()
        handles = []
        caller = threading.Thread(
            target=lambda: handles.append(producer.prepare([Message("orders", b"two")]))
        )
        caller.start()
        running = RunningDoor(tmp_path)
        caller.join(30)
        assert len(handles) == 1
        assert running.only_transaction().transaction_id == handles[0].transaction_id
    running.stop()


def test_the_doors_limits_are_told(tmp_path):
    running = RunningDoor(tmp_path, limits=http_limits(connection_count_max=1))
    address = running.addresses["tcp"]
    with (
        driven("sync", "orders", address) as first,
        driven("aio", "orders", address, deadline_s=0.5) as second,
    ):
        first.prepare([Message("orders", b"one")])
        with pytest.raises(errors.Overloaded):
            second.prepare([Message("orders", b"two")])
    running.stop()


def test_another_route_of_the_door_is_no_answer_to_a_call(door, producer):
    # Whatever answers with success, only what was asked for counts.
    from halfhitch.client.address import parse_address
    from halfhitch.client.calls import Calls

    calls = Calls(parse_address(door.addresses["tcp"]), "orders", TOKEN)
    call = calls.view("h")
    request = call.request.replace(b"/v1/transactions/h ", b"/v1/openapi.yaml ")
    with pytest.raises(BadAnswer, match="data door"):
        producer.perform(call._replace(request=request))
