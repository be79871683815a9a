"""How a block is left, and what goes out then: both producers, over TCP and a unix socket."""

import asyncio
import logging
import threading

import pytest

from halfhitch import errors
from halfhitch.client import (
    AsyncTransactionProducer,
    DecisionUnknown,
    LocalTransactionState,
    Message,
    ProducerClosed,
    TransactionDoomed,
    TransactionEnded,
    TransactionMisused,
    recorded,
)
from harness.scripted_http import HANG, Answer, ScriptedServer, refusal

STORED = Answer(201, headers={"Half-Handle": "h1", "Half-Transaction-Id": "t1"})

NOT_EXCEPTIONS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A machine under load takes more than two seconds now and then, and repeats a request."""
    for module in ("sync", "aio"):
        monkeypatch.setattr(f"halfhitch.client.{module}_transactions.LEAVING_DEADLINE_S", 30.0)


def asked(_):
    return LocalTransactionState.UNKNOWN


async def asked_in_loop(_):
    return LocalTransactionState.UNKNOWN


@pytest.fixture
def checked(given):
    """Of a producer with a check (which others answer)."""

    def give(*script, **options):
        check = asked if given.shell == "sync" else asked_in_loop
        return given(*script, check=check, **options)

    return give


def leave_by(world, error, **options):
    """The transaction whose block was left by `error`, after one message."""
    tx = world.producer.transaction(**options)
    with pytest.raises(type(error)) as raised:
        run_block(tx, error)
    assert raised.value is error
    return tx


def run_block(tx, error=None, *, between=lambda: None):
    with tx:
        tx.send("orders", b"one")
        between()
        if error is not None:
            raise error


def refused(tx):
    with pytest.raises(errors.UnknownTopic):
        tx.send("nowhere", b"two")


# -- what is no Exception


@pytest.mark.parametrize("kind", NOT_EXCEPTIONS)
def test_an_interruption_after_the_local_commit_rolled_the_messages_back(given, kind):
    """Also where the program chose to roll back: the local commit may have been the line it hit."""
    for on_error in (None, "rollback", "unknown"):
        world = given()
        leave_by(world, kind(), on_error=on_error)
        assert world.ends() == []


def test_an_interruption_is_told_with_the_id_and_what_settles_it(given, checked, caplog):
    caplog.set_level(logging.INFO, "halfhitch.client")
    error = asyncio.CancelledError()
    tx = leave_by(checked(), error)
    (note,) = error.__notes__
    assert tx.id in note
    assert "check-back will ask" in note
    (record,) = caplog.records
    assert (record.levelno, record.action) == (logging.INFO, "block_left_undecided")
    assert "CancelledError left its block" in record.getMessage()

    caplog.clear()
    error = KeyboardInterrupt()
    leave_by(given(), error)
    assert "tx rollback" in error.__notes__[0]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_interruption_before_anything_was_stored_needs_no_word(given, caplog):
    world = given(refusal(400, "unknown_topic"))
    with pytest.raises(KeyboardInterrupt) as raised, world.producer.transaction():
        raise KeyboardInterrupt
    assert not hasattr(raised.value, "__notes__")

    def exit_after_a_refusal():
        with world.producer.transaction() as tx:
            refused(tx)  # surely not stored
            raise SystemExit

    with pytest.raises(SystemExit) as left:
        exit_after_a_refusal()
    assert not hasattr(left.value, "__notes__")
    assert caplog.records == []


def test_a_generator_that_was_dropped_in_its_block_is_warned_of(given, caplog):
    world = given()
    ids = []

    def orders():
        with world.producer.transaction() as tx:
            tx.send("orders", b"one")
            ids.append(tx.id)
            yield

    generator = orders()
    next(generator)
    del generator
    assert world.ends() == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert ids[0] in record.getMessage()
    assert "generator or coroutine" in record.getMessage()


# -- Exceptions


def test_an_exception_after_the_local_commit_rolled_back_what_a_check_would_have_committed(checked):
    world = checked()
    error = ValueError("the answer could not be serialised")
    tx = leave_by(world, error)
    assert world.ends() == []
    assert tx.id in error.__notes__[0]
    assert "may have committed" in error.__notes__[0]


@pytest.mark.parametrize(
    ("of_producer", "of_block", "ends"),
    [
        (None, None, []),
        ("unknown", None, []),
        ("rollback", None, ["rollback"]),
        ("rollback", "unknown", []),
        ("unknown", "rollback", ["rollback"]),
    ],
)
def test_on_error_says_what_an_exception_sends(checked, of_producer, of_block, ends):
    world = checked(on_error=of_producer)
    leave_by(world, ValueError(), on_error=of_block)
    assert world.ends() == ends


def test_without_a_check_on_error_may_leave_it_to_others(given):
    world = given(on_error="unknown")
    error = ValueError()
    leave_by(world, error)
    assert world.ends() == []
    assert "no check" in error.__notes__[0]


def test_another_on_error_is_refused_with_the_two_that_are(given):
    with pytest.raises(errors.ConfigurationError, match=r"'commit'.*'unknown'.*'rollback'"):
        given().producer.transaction(on_error="commit")
    with pytest.raises(errors.ConfigurationError, match="on_error"):
        given(on_error="raise")


def test_a_check_that_cannot_be_called_was_noticed_only_at_the_first_check_back(given):
    with pytest.raises(errors.ConfigurationError, match=r"check is object.*check=barrier\.check"):
        given(check=object())


def test_who_knows_that_nothing_was_committed_says_so_inside_the_block(checked):
    world = checked()
    tx = world.producer.transaction()
    with pytest.raises(ValueError) as raised:
        run_block(tx, ValueError(), between=tx.rollback)
    assert world.ends() == ["rollback"]
    assert not hasattr(raised.value, "__notes__")


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_an_undecided_transaction_can_still_be_ended_by_who_knows(checked, decision):
    world = checked()
    tx = leave_by(world, ValueError())
    with pytest.raises(TransactionEnded, match="block of this transaction was left"):
        tx.send("orders", b"two")
    getattr(tx, decision)()
    assert world.ends() == [decision]


def test_dropping_says_that_the_local_transaction_surely_failed(checked):
    world = checked()
    tx = world.producer.transaction()
    tx.send("orders", b"one")
    tx.drop(ValueError())
    tx.drop(ValueError())
    assert world.ends() == ["rollback"]


def test_a_drop_that_is_not_answered_is_a_note(given, monkeypatch):
    for module in ("sync", "aio"):
        monkeypatch.setattr(f"halfhitch.client.{module}_transactions.LEAVING_DEADLINE_S", 0.2)
    world = given(STORED, HANG, HANG, HANG, deadline_s=60)
    tx = world.producer.transaction()
    tx.send("orders", b"one")
    error = ValueError()
    tx.drop(error)
    assert "rollback failed" in error.__notes__[0]


# -- a message that was not sent


def test_a_doomed_transaction_was_noticed_after_the_local_commit(given):
    world = given(STORED, refusal(400, "unknown_topic", "topic 'ordrs' does not exist"))
    committed_locally = []

    def careless():
        with world.producer.transaction() as tx:
            tx.send("orders", b"one")
            tx.assert_can_commit()
            refused(tx)
            tx.assert_can_commit()
            committed_locally.append(tx.id)

    with pytest.raises(TransactionDoomed, match="topic 'ordrs' does not exist") as raised:
        careless()
    assert isinstance(raised.value.__cause__, errors.UnknownTopic)
    assert committed_locally == []
    assert world.ends() == ["rollback"]


def test_a_doomed_block_that_was_committed_locally_rolled_its_messages_back(checked):
    """At its end nobody knows whether the program has committed: the check decides."""
    world = checked(STORED, refusal(400, "unknown_topic"))
    tx = world.producer.transaction()
    with pytest.raises(TransactionDoomed) as raised:
        run_block(tx, between=lambda: refused(tx))
    assert world.ends() == []
    assert "check-back" in raised.value.__notes__[0]


@pytest.mark.parametrize("decision", ["commit", "rollback"])
def test_messages_that_were_ended_before_the_local_commit_are_told_of(given, decision):
    world = given()
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
        getattr(tx, decision)()
        with pytest.raises(TransactionEnded, match=f"a {decision} .*roll the local"):
            tx.assert_can_commit()


# -- ordinary ways out


def test_return_and_break_are_good_ends(given):
    world = given()

    def by_return():
        with world.producer.transaction() as tx:
            tx.send("orders", b"one")
            return tx.id

    assert by_return()
    for _ in range(3):
        with world.producer.transaction() as tx:
            tx.send("orders", b"one")
            break
    assert world.ends() == ["commit", "commit"]


def test_blocks_inside_one_another_are_transactions_of_their_own(checked):
    world = checked()
    with world.producer.transaction() as outer:
        outer.send("orders", b"one")
        inner = leave_by(world, ValueError(), on_error="rollback")
        assert inner.id != outer.id
    assert world.ends() == ["rollback", "commit"]


def test_entering_a_block_twice_committed_at_the_inner_end(given):
    world = given()
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")
        with pytest.raises(TransactionMisused, match=f"{tx.id} is already running"), tx:
            pass
        assert world.ends() == []
        tx.send("orders", b"two")
    assert world.ends() == ["commit"]


def test_a_thread_that_sends_after_the_end_hears_of_it(given):
    world = given()
    heard = []
    with world.producer.transaction() as tx:
        tx.send("orders", b"one")

    def late():
        try:
            tx.send("orders", b"late")
        except TransactionEnded as error:
            heard.append(str(error))

    thread = threading.Thread(target=late)
    thread.start()
    thread.join(30)
    assert "begin a new transaction" in heard[0]
    assert world.ends() == ["commit"]


def test_a_producer_that_was_closed_inside_the_block_is_told_before_anything_is_decided(
    given, caplog
):
    world = given()
    tx = world.producer.transaction()

    def closing():
        world.producer.close()
        (record,) = caplog.records
        assert f"closed inside the block of transaction {tx.id}" in record.getMessage()
        with pytest.raises(ProducerClosed, match="Nothing was sent"):
            tx.assert_can_commit()
        with pytest.raises(ProducerClosed, match="Nothing was sent"):
            tx.send("orders", b"two")

    with pytest.raises(ProducerClosed, match=f"{tx.id} was closed before"):
        run_block(tx, between=closing)
    assert world.ends() == []


def test_a_block_of_a_closed_producer_began_and_its_local_work_was_done(given):
    world = given()
    tx = world.producer.transaction()
    world.producer.close()
    with pytest.raises(ProducerClosed, match=f"{tx.id} was closed before"), tx:
        pytest.fail("the block was entered")


def test_a_commit_that_was_not_answered_is_raised_and_nothing_follows(checked):
    world = checked(STORED, deadline_s=0.3, otherwise=lambda _: HANG)
    with pytest.raises(DecisionUnknown), world.producer.transaction() as tx:
        tx.prepare([Message("orders", b"one")])
    assert set(world.ends()) == {"commit"}


def test_a_signal_behind_the_answer_let_a_commit_leave_its_message_out(given, monkeypatch):
    """The message was stored and its handle lost; whoever swallowed that committed without it."""
    world = given()
    tx = world.producer.transaction()

    def interrupted(*_):
        raise TimeoutError("a signal's handler")

    def swallow():
        with monkeypatch.context() as patch:
            patch.setattr("halfhitch.client.conversation.Conversation.sent", interrupted)
            with pytest.raises(TimeoutError):
                tx.send("points", b"two")

    with pytest.raises(TransactionDoomed):
        run_block(tx, between=swallow)
    assert "commit" not in world.ends()


async def test_a_task_that_was_cancelled_while_the_database_was_asked_has_decided_nothing():
    """At the end of its block: a local transaction by hand may have committed."""
    is_asked = asyncio.Event()

    async def hangs(_):
        is_asked.set()
        await asyncio.Event().wait()

    async def run():
        async with producer.transaction("a") as tx:
            made.append(tx)
            await tx.send("orders", b"one")
            recorded.note("shop", "a", recorded.Word(lambda _: recorded.Local.ENDED, hangs))

    made = []
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("shop", server.address) as producer:
            task = asyncio.create_task(run())
            await is_asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await task
            assert "transaction a is undecided" in cancelled.value.__notes__[0]
            with pytest.raises(TransactionEnded, match="was left"):
                await made[0].send("orders", b"two")
        assert not any(target.endswith("/commit") for target in server.targets())
