"""The course of a transaction and the listener's part in it, through both producers.

Each test runs over TCP and over a unix socket.
"""

import threading
import time
from contextlib import suppress

import pytest

from halfhitch import errors
from halfhitch.client import (
    AsyncTransactionProducer,
    DecisionUnknown,
    LocalTransactionState,
    Message,
    PrepareUnknown,
    TransactionDoomed,
    TransactionEnded,
    TransactionProducer,
)
from halfhitch.client.marks import Mark
from harness.scripted_http import HANG, Answer, like_the_door, refusal

#: What the door says to a single prepare.
STORED = Answer(201, headers={"Half-Handle": "h1", "Half-Transaction-Id": "t1"})


# -- the block


def test_leaving_a_block_commits_what_was_sent_in_it(given):
    world = given()
    with world.producer.transaction() as tx:
        assert tx.handle is None
        assert len(tx.id) == 32
        assert world.server.requests == []
        tx.send("orders", b"one", b"k", {"trace": "x"})
        assert tx.handle == "h1"
        tx.send("points", b"two", partition=3)
        assert tx.handle == "h2"
    assert world.server.targets() == [
        "/v1/topics/orders/half",
        "/v1/transactions/h1/messages",
        "/v1/transactions/h2/commit",
    ]
    first = world.server.requests[0]
    assert first.header("Half-Transaction-Id") == tx.id
    assert first.header("Half-Key") == "k"
    assert first.body == b"one"


def test_several_messages_go_in_one_request(given):
    world = given()
    with world.producer.transaction("t-7", immunity_s=9) as tx:
        tx.prepare([Message("a", b"1"), Message("b", b"2"), Message("c", None)])
        assert (tx.id, tx.handle) == ("t-7", "h3")
        tx.prepare([Message("d", b"4"), Message("e", b"5")])
    assert world.server.targets() == [
        "/v1/transactions",
        "/v1/transactions/h3/messages",
        "/v1/transactions/h5/commit",
    ]
    assert world.server.requests[0].json()["transaction_id"] == "t-7"
    assert world.server.requests[0].json()["immunity_seconds"] == 9


def test_an_exception_in_the_block_rolls_back_and_goes_on(given):
    world = given()
    with pytest.raises(ValueError, match="out of stock") as raised:
        run_block(world, leave_by=ValueError("out of stock"))
    assert world.ends() == ["rollback"]
    assert not hasattr(raised.value, "__notes__")


def test_a_block_without_messages_sends_nothing(given):
    world = given()
    with world.producer.transaction():
        pass
    with pytest.raises(ValueError):
        run_block(world, topics=(), leave_by=ValueError())
    assert world.server.requests == []


def test_a_failed_rollback_does_not_hide_the_exception(given):
    world = given(STORED, HANG, HANG, HANG, deadline_s=0.3)
    with pytest.raises(ValueError, match="out of stock") as raised:
        run_block(world, leave_by=ValueError("out of stock"))
    (note,) = raised.value.__notes__
    assert "rollback failed" in note
    assert "check-back" in note


def test_a_rollback_that_comes_too_late_is_a_note_too(given):
    world = given(STORED, refusal(409, "contrary_decision", "was committed"))
    with pytest.raises(ValueError) as raised:
        run_block(world, leave_by=ValueError())
    assert "was committed" in raised.value.__notes__[0]


def test_leaving_by_an_exception_is_not_held_up_for_long(given, monkeypatch):
    for module in ("sync", "aio"):
        monkeypatch.setattr(f"halfhitch.client.{module}_transactions.LEAVING_DEADLINE_S", 0.2)
    world = given(STORED, HANG, HANG, HANG, deadline_s=60)
    began_at = time.monotonic()
    with pytest.raises(ValueError):
        run_block(world, leave_by=ValueError())
    assert time.monotonic() - began_at < 10


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_an_explicit_end_is_the_only_one(given, decision):
    world = given()
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
        ended = getattr(tx, decision)()
        assert ended.state in ("committed", "rolled_back")
        with pytest.raises(TransactionEnded):
            tx.send("orders", b"two")
    with pytest.raises(ValueError):
        run_block(world, end=decision, leave_by=ValueError())
    assert world.ends() == [decision, decision]


def test_waiting_for_visibility_is_asked_for(given):
    world = given()
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
        assert tx.commit(wait_visible=True).visible
        assert not tx.commit().visible
    assert world.server.targets()[1:] == [
        "/v1/transactions/h1/commit?wait=visible",
        "/v1/transactions/h1/commit",
    ]


def test_a_commit_without_an_answer_is_unknown_and_never_followed_by_a_rollback(given):
    world = given(STORED, deadline_s=0.3, otherwise=lambda _: HANG)
    with pytest.raises(DecisionUnknown) as raised, world.producer.transaction() as tx:
        tx.send("orders", b"one")
    assert (raised.value.handle, raised.value.transaction_id) == ("h1", tx.id)
    assert set(world.ends()) == {"commit"}
    with pytest.raises(TransactionEnded):
        tx.rollback()


def test_a_commit_that_is_unknown_can_be_repeated_by_its_handle(given):
    world = given(STORED, HANG, HANG, deadline_s=0.3)
    with pytest.raises(DecisionUnknown) as raised, world.producer.transaction() as tx:
        tx.send("orders", b"one")
    assert world.producer.commit(raised.value.handle).state == "committed"
    assert tx.commit().state == "committed"
    assert "rollback" not in world.ends()


def test_an_explicit_commit_that_is_unknown_is_not_rolled_back_by_the_block(given):
    world = given(STORED, deadline_s=0.3, otherwise=lambda _: HANG)
    with pytest.raises(DecisionUnknown):
        run_block(world, end="commit")
    assert set(world.ends()) == {"commit"}


def test_a_contrary_decision_of_somebody_else_is_told(given):
    world = given(
        STORED,
        refusal(409, "contrary_decision", decided="rolled_back", requested="committed"),
    )
    with pytest.raises(errors.ContraryDecision) as raised, world.producer.transaction() as tx:
        tx.send("orders", b"one")
    assert raised.value.decided == "rolled_back"
    assert world.ends() == ["commit"]


def test_a_refused_message_rolls_the_others_back(given):
    world = given(STORED, refusal(400, "unknown_topic", "no such topic"))
    with pytest.raises(errors.UnknownTopic, match="no such topic"):
        run_block(world, topics=("orders", "nowhere"))
    assert world.ends() == ["rollback"]


def test_a_swallowed_failure_does_not_commit_half_of_a_transaction(given):
    world = given(STORED, refusal(400, "unknown_topic"))

    def careless():
        with world.producer.transaction() as tx:
            tx.send("orders", b"one")
            with pytest.raises(errors.UnknownTopic):
                tx.send("nowhere", b"two")
            with pytest.raises(TransactionDoomed):
                tx.send("orders", b"three")
            with pytest.raises(TransactionDoomed):
                tx.commit()

    with pytest.raises(TransactionDoomed):
        careless()
    assert world.ends() == ["rollback"]


def test_a_lost_first_message_leaves_nothing_to_roll_back(given):
    world = given(deadline_s=0.3, otherwise=lambda _: HANG)
    with pytest.raises(PrepareUnknown) as raised, world.producer.transaction() as tx:
        tx.send("orders", b"one")
    assert raised.value.transaction_id == tx.id
    assert world.ends() == []


WRONG = (
    {"value": 7},
    {"value": b"two", "key": 7},
    {"value": b"two", "headers": {"a": 3}},
)


def sends_wrongly(world, wrong):
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
        with pytest.raises((TypeError, errors.RequestError)):
            tx.send("orders", **wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=["value", "key", "header"])
def test_the_rest_was_committed_without_a_message_of_a_wrong_type(given, wrong):
    """The exception was swallowed, or lay in a Future that nobody looked at."""
    world = given()
    with pytest.raises(TransactionDoomed, match="could not be sent"):
        sends_wrongly(world, wrong)
    assert world.ends() == ["rollback"]


def test_a_transaction_is_used_once(given):
    world = given()
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
    with pytest.raises(TransactionEnded), tx:
        pass


# -- RocketMQ's shape


class Listener:
    """Says what it is told to; what it saw is in `seen`."""

    def __init__(self, told):
        self.told = told
        self.seen = []

    def execute_local_transaction(self, message, arg):
        self.seen.append((message, arg))
        if isinstance(self.told, Exception):
            raise self.told
        return self.told

    def check_local_transaction(self, message):
        raise AssertionError("no check was asked for")


class AsyncListener(Listener):
    async def execute_local_transaction(self, message, arg):
        return super().execute_local_transaction(message, arg)


def listener_for(shell, told):
    return (Listener if shell == "sync" else AsyncListener)(told)


@pytest.mark.parametrize(
    ("told", "ends"),
    [
        (LocalTransactionState.COMMIT, ["commit"]),
        (LocalTransactionState.ROLLBACK, ["rollback"]),
        (LocalTransactionState.UNKNOWN, []),
        (None, []),
        (ValueError("out of stock"), []),
    ],
    ids=repr,
)
def test_the_listener_decides_and_unknown_is_no_decision(given, told, ends):
    listener = listener_for(given.shell, told)
    world = given(listener=listener)
    result = world.producer.send_message_in_transaction(Message("orders", b"one", b"k"), {"n": 1})
    assert world.ends() == ends
    ((message, arg),) = listener.seen
    assert arg == {"n": 1}
    assert message == Message("orders", b"one", b"k", transaction_id=result.transaction_id)
    assert result.handle == "h1"
    if isinstance(told, LocalTransactionState):
        assert (result.state, result.error) == (told, None)
    else:
        assert result.state is LocalTransactionState.UNKNOWN
        assert result.error is told or isinstance(result.error, TypeError)


def test_the_message_may_bring_its_transaction_id(given):
    listener = listener_for(given.shell, LocalTransactionState.COMMIT)
    world = given(listener=listener)
    message = Message("orders", b"one", transaction_id="order-17")
    result = world.producer.send_message_in_transaction(message, immunity_s=20)
    assert result.transaction_id == "order-17"
    assert world.server.requests[0].header("Half-Transaction-Id") == "order-17"
    assert world.server.requests[0].header("Half-Immunity-Seconds") == "20"


def test_the_local_transaction_does_not_run_for_a_message_that_is_not_stored(given):
    listener = listener_for(given.shell, LocalTransactionState.COMMIT)
    world = given(refusal(400, "unknown_topic"), listener=listener)
    with pytest.raises(errors.UnknownTopic):
        world.producer.send_message_in_transaction(Message("nowhere", b"one"))
    assert listener.seen == []


def test_a_decision_that_is_not_answered_is_raised_not_hidden(given):
    listener = listener_for(given.shell, LocalTransactionState.COMMIT)
    is_silent = [True]

    def otherwise(request):
        """However often a slow machine makes the client try."""
        hangs = is_silent and request.target.endswith("/commit")
        return HANG if hangs else like_the_door(request)

    world = given(listener=listener, deadline_s=0.3, otherwise=otherwise)
    with pytest.raises(DecisionUnknown) as raised:
        world.producer.send_message_in_transaction(Message("orders", b"one"))
    is_silent.clear()
    assert world.producer.commit(raised.value.handle).state == "committed"


def test_without_a_listener_it_is_refused(given):
    world = given()
    with pytest.raises(errors.InvalidRequest, match="listener="):
        world.producer.send_message_in_transaction(Message("orders", b"one"))
    assert world.server.requests == []


# -- the rest


def test_a_view_tells_all_that_was_answered(given):
    view = given().producer.view("h1")
    assert (view.state, view.message_count, view.visible) == ("pending", 1, False)
    assert view.details["check_count"] == 0


def test_the_token_is_sent(given):
    world = given(token="s3cret")
    world.producer.view("h1")
    assert world.server.requests[0].header("Half-Token") == "s3cret"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_takes_the_token_nowhere(given, status):
    world, elsewhere = given(token="s3cret"), given()
    target = {"Location": f"{elsewhere.server.address}/v1/transactions/h1"}
    world.server.then(Answer(status, headers=target))
    with pytest.raises(errors.HalfHitchError):
        world.producer.view("h1")
    assert elsewhere.server.requests == []


@pytest.mark.parametrize("shell", [TransactionProducer, AsyncTransactionProducer])
def test_a_token_does_not_go_to_another_machine_in_clear(shell, monkeypatch):
    far = "http://sidecar.shop.svc:8340"
    with pytest.raises(errors.ConfigurationError, match="encrypted_in_front=True") as raised:
        shell("orders", far, token="s3cret")
    assert far in raised.value.message
    assert "s3cret" not in raised.value.message
    shell("orders", far, token="s3cret", encrypted_in_front=True)
    shell("orders", far)  # nothing to be read
    monkeypatch.setenv("HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT", "true")
    shell("orders", far, token="s3cret")
    with pytest.raises(errors.ConfigurationError, match="encrypted_in_front=True"):
        shell("orders", far, token="s3cret", encrypted_in_front=False)


def test_adds_from_several_threads_follow_one_another(given):
    world = given()
    with world.producer.transaction() as tx:
        threads = [
            threading.Thread(target=tx.send, args=("orders", f"{number}".encode()))
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert tx.handle == "h8"
    adds = [target for target in world.server.targets() if target.endswith("messages")]
    assert adds == [f"/v1/transactions/h{count}/messages" for count in range(1, 8)]


def test_a_message_was_taken_after_a_barrier_s_block_and_committed_by_the_check(given):
    """The block was left undecided; without a row that knows of it, the message appeared."""

    class Exit(BaseException):
        """As of a signal's handler."""

    world = given()
    tx = world.producer.transaction()
    mark = Mark()
    with suppress(Exit), mark.hold():
        getattr(tx, "inner", tx).hold(mark)
        tx.send("orders", b"one")
        raise Exit
    for send in (lambda: tx.send("orders", b"late"), lambda: tx.prepare([Message("orders", b"")])):
        with pytest.raises(TransactionEnded, match="begin a new one"):
            send()
    with pytest.raises(TransactionEnded, match="begin a new one"):
        tx.__enter__()
    assert world.server.targets() == ["/v1/topics/orders/half"]
    tx.commit()  # whoever knows that the rows are there
    assert world.ends() == ["commit"]


@pytest.mark.parametrize("script", [[], [refusal(503, "unavailable", retry_after="1")]])
def test_close_returned_before_the_calls_that_wait_for_a_connection_or_for_another_try(
    given, script
):
    """They were sent behind it, and with asyncio were cut off where the loop ended with it."""
    called_count = 1 if script else 3

    def slowly(request):
        time.sleep(0.2)
        return like_the_door(request)

    world = given(*script, otherwise=slowly, connections_max=1)
    states = []
    threads = [
        threading.Thread(target=lambda: states.append(world.producer.commit("h").state))
        for _ in range(called_count)
    ]
    for thread in threads:
        thread.start()
    pool = getattr(world.producer, "inner", world.producer)._pool
    while not script and len(pool._line._bells) < called_count:
        time.sleep(0.001)
    world.server.until_received(1)
    world.producer.close()
    received_count = len(world.server.targets())
    for thread in threads:
        thread.join(20)
    assert states == ["committed"] * called_count
    assert received_count == len(world.server.targets()) == called_count + len(script)


def run_block(world, *, topics=("orders",), end=None, leave_by=None):
    """A block that sends, perhaps ends explicitly, and is perhaps left by an exception."""
    with world.producer.transaction() as tx:
        for topic in topics:
            tx.send(topic, b"one")
        if end is not None:
            getattr(tx, end)()
        if leave_by is not None:
            raise leave_by
