"""What only the asyncio producer has to do with: cancellation, loops, and many tasks at once."""

import asyncio
import gc
import os
import socket
import threading
import warnings

import pytest

from halfhitch.client import AsyncTransactionProducer, DecisionUnknown, Message
from halfhitch.client.aio_connections import Connection
from halfhitch.client.calls import Operation
from halfhitch.client.conversation import Phase
from halfhitch.client.errors import TransactionDoomed, TransactionEnded, TransactionMisused
from halfhitch.client.recorded import Local, Word, note
from halfhitch.client.values import LocalTransactionState
from harness.scripted_http import CUT_AFTER, HANG, Answer, Bytes, ScriptedServer

COMMITTED = Answer(200, {"transaction_id": "t", "state": "committed"})


async def received(server, count):
    await asyncio.to_thread(server.until_received, count)


async def test_many_tasks_share_a_producer_and_never_an_answer():
    def mirror(request):
        transaction_id = request.header("Half-Transaction-Id")
        named = {"Half-Handle": f"of-{transaction_id}", "Half-Transaction-Id": transaction_id}
        return Answer(201, headers=named)

    with ScriptedServer(otherwise=mirror) as server:
        async with AsyncTransactionProducer(
            "orders", server.address, connections_max=8
        ) as producer:
            prepared = await asyncio.gather(
                *(producer.prepare([Message("t", b"v")]) for _ in range(200))
            )
        assert all(handle == f"of-{transaction_id}" for transaction_id, handle in prepared)
        assert len({transaction_id for transaction_id, _ in prepared}) == 200
        assert server.connection_count <= 8


async def test_a_cancelled_call_takes_its_connection_with_it():
    with ScriptedServer(HANG) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            task = asyncio.create_task(producer.commit("h"))
            await received(server, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await producer.commit("h")).state == "committed"
            assert [request.connection for request in server.requests] == [1, 2]


async def test_an_exit_behind_the_answer_leaves_no_connection_that_close_waits_for(monkeypatch):
    class Exit(BaseException):
        """As SystemExit out of a signal's handler, which asyncio would take for its own."""

    exchange = Connection.exchange

    async def exit_behind(self, *given):
        await exchange(self, *given)
        raise Exit

    with ScriptedServer(COMMITTED) as server:
        producer = AsyncTransactionProducer("orders", server.address)
        monkeypatch.setattr(Connection, "exchange", exit_behind)
        with pytest.raises(Exit):
            await producer.commit("h")
        async with asyncio.timeout(20):
            await producer.close()


async def test_a_cancelled_call_gives_its_place_back():
    with ScriptedServer(HANG, HANG) as server:
        async with AsyncTransactionProducer(
            "orders", server.address, connections_max=1
        ) as producer:
            tasks = [asyncio.create_task(producer.commit("h")) for _ in range(3)]
            await received(server, 1)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            server._script.clear()
            assert (await producer.commit("h")).state == "committed"


async def test_cancelling_a_send_decides_nothing():
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tx = producer.transaction()

            async def order():
                async with tx:
                    await tx.send("orders", b"one")
                    server.then(HANG)
                    await tx.send("orders", b"two")

            task = asyncio.create_task(order())
            await received(server, 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert server.targets()[-1] == "/v1/transactions/h1/messages"
            with pytest.raises(TransactionDoomed):
                await tx.commit()
            with pytest.raises(TransactionDoomed):
                await tx.send("orders", b"three")


async def test_cancelling_a_commit_is_never_followed_by_a_rollback():
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tx = producer.transaction()

            async def order():
                async with tx:
                    await tx.send("orders", b"one")
                    server.then(HANG)

            task = asyncio.create_task(order())
            await received(server, 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await tx.commit()).state == "committed"
            assert not any("rollback" in target for target in server.targets())


async def test_a_cancelled_send_dooms_the_transaction():
    with ScriptedServer(HANG) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tx = producer.transaction()
            task = asyncio.create_task(tx.send("orders", b"one"))
            await received(server, 1)
            task.cancel()
            await asyncio.wait([task])
            with pytest.raises(TransactionDoomed):
                await tx.send("orders", b"one")


async def test_a_send_that_timed_out_in_line_was_missing_and_the_rest_was_committed():
    with ScriptedServer(HANG) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tx = producer.transaction()
            first = asyncio.create_task(tx.send("orders", b"one"))
            await received(server, 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(tx.send("orders", b"two"), 0.05)
            assert tx._talk.phase is Phase.DOOMED
            first.cancel()
            await asyncio.wait([first])


async def test_a_timeout_around_a_call_is_the_callers():
    with ScriptedServer(otherwise=lambda _: HANG) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await producer.commit("h")


async def test_a_long_wait_after_a_short_one_is_not_cut():
    def slow(_):
        threading.Event().wait(0.4)
        return COMMITTED

    with ScriptedServer(COMMITTED, otherwise=slow) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            call = producer._calls.end(Operation.COMMIT, "h")
            await producer.perform(call, 0.3)  # leaves a timer that rings during the next call
            assert (await producer.commit("h")).state == "committed"
            assert len(server.requests) == 2


async def test_unasked_bytes_on_an_idle_connection_close_it():
    with ScriptedServer(Bytes(COMMITTED.render(), keep=True)) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            await producer.commit("h")
            (kept,) = producer._pool._all
            lost = kept.lost
            (connection,) = server._sockets
            connection.sendall(COMMITTED.render())
            async with asyncio.timeout(10):
                await lost
            await producer.commit("h")
            assert server.connection_count == 2


async def test_a_lost_commit_is_repeated_by_its_handle():
    with ScriptedServer(CUT_AFTER, CUT_AFTER) as server:
        async with AsyncTransactionProducer("orders", server.address, deadline_s=0.05) as producer:
            with pytest.raises(DecisionUnknown) as raised:
                await producer.commit("h")
        async with AsyncTransactionProducer("orders", server.address) as producer:
            assert (await producer.commit(raised.value.handle)).state == "committed"


def test_a_producer_belongs_to_one_loop():
    async def commit(producer):
        await producer.commit("h")

    async def close(producer):
        await producer.close()

    with ScriptedServer() as server, asyncio.Runner() as runner:
        producer = AsyncTransactionProducer("orders", server.address)
        runner.run(commit(producer))
        with pytest.raises(RuntimeError, match="one producer per loop"):
            asyncio.run(commit(producer))
        runner.run(close(producer))


def test_a_producer_whose_loop_was_left_with_a_connection_in_it_can_still_be_closed():
    # It raised "Event loop is closed" out of the connection that was kept for the next call.
    async def commit(producer):
        await producer.commit("h")

    async def close(producer):
        await producer.close()

    with ScriptedServer() as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # asyncio's, of the socket: rightly so
        producer = AsyncTransactionProducer("orders", server.address)
        asyncio.run(commit(producer))
        asyncio.run(close(producer))
        del producer
        gc.collect()


def test_closing_leaves_nothing_for_the_loop_to_warn_of():
    # Warnings are errors: a transport that is still open when the loop ends would warn.
    async def use():
        async with AsyncTransactionProducer("orders", server.address) as producer:
            await asyncio.gather(*(producer.commit("h") for _ in range(10)))

    with ScriptedServer() as server:
        asyncio.run(use())
        gc.collect()


async def test_a_connection_in_the_making_can_be_cancelled():
    # Nobody accepts: with a full backlog the kernel leaves the connection in the making.
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with AsyncTransactionProducer("orders", address) as producer:
            tasks = [asyncio.create_task(producer.commit("h")) for _ in range(6)]
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            done, _ = await asyncio.wait(tasks)
            assert all(task.cancelled() for task in done)


async def test_a_short_call_on_a_kept_connection_does_not_wait_for_the_long_ones_timer():
    with ScriptedServer(COMMITTED, otherwise=lambda _: HANG) as server:
        async with AsyncTransactionProducer("orders", server.address, deadline_s=600) as producer:
            await producer.commit("h")
            (kept,) = producer._pool._all
            assert kept._watch.when() - asyncio.get_running_loop().time() > 200
            with pytest.raises(DecisionUnknown):
                await producer.perform(producer._calls.end(Operation.COMMIT, "h"), 0.1)
            assert len(server.requests) >= 2


# -- calls that nobody awaited


async def forgetful(server, forget, **options):
    """The error that a block ends with in which `forget(tx)` was called, and the ends sent."""

    async def order():
        async with producer.transaction() as tx:
            await tx.send("orders", b"one")
            forget(tx)

    async with AsyncTransactionProducer("orders", server.address, **options) as producer:
        with pytest.raises(TransactionDoomed) as raised:
            await order()
    return raised.value, [path for path in server.targets() if path.endswith(("commit", "back"))]


@pytest.mark.parametrize(
    ("word", "forget"),
    [
        ("tx.send", lambda tx: tx.send("orders", b"two")),
        ("tx.prepare", lambda tx: tx.prepare([Message("orders", b"two")])),
        ("tx.commit", lambda tx: tx.commit()),
        ("tx.rollback", lambda tx: tx.rollback()),
    ],
)
async def test_a_forgotten_await_committed_without_the_message(word, forget):
    with ScriptedServer() as server:
        error, ends = await forgetful(server, forget, on_error="unknown")
        assert f"{word} ({__file__}:" in str(error)
        assert "was called without await" in str(error)
        assert ends == []
        gc.collect()  # warnings are errors: Python's own of a coroutine would fail this


async def test_pythons_warning_of_a_forgotten_await_named_a_function_of_ours():
    """Where no block's end tells it, `coroutine 'tx.send' was never awaited` is all there is."""
    async with AsyncTransactionProducer("orders") as producer:
        forgotten = producer.transaction().send("orders", b"one")
        assert forgotten.__qualname__ == "tx.send"
        forgotten.close()


async def test_a_forgotten_await_without_a_check_rolls_back():
    with ScriptedServer() as server:
        _, ends = await forgetful(server, lambda tx: tx.send("orders", b"two"))
        assert ends == ["/v1/transactions/h1/rollback"]


async def test_a_forgotten_await_is_told_before_the_local_commit():
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tx = producer.transaction()
            forgotten = tx.send("orders", b"one")
            with pytest.raises(TransactionDoomed, match="without await"):
                tx.assert_can_commit()
            with pytest.raises(TransactionDoomed, match="without await"):
                await tx.commit()
            await forgotten
            tx.assert_can_commit()
            await tx.commit()
        assert len(server.targets()) == 2


async def test_a_message_that_is_still_on_its_way_is_no_ground_for_a_local_commit():
    with ScriptedServer(HANG) as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tx = producer.transaction()
            task = asyncio.create_task(tx.send("orders", b"one"))
            await received(server, 1)
            with pytest.raises(TransactionDoomed, match="still on its way"):
                tx.assert_can_commit()
            task.cancel()
            await asyncio.wait([task])
            with pytest.raises(TransactionDoomed, match="CancelledError"):
                tx.assert_can_commit()


async def test_tasks_and_gathered_sends_are_awaited_ones():
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            async with producer.transaction() as tx:
                await asyncio.gather(tx.send("orders", b"one"), tx.send("orders", b"two"))
                async with asyncio.TaskGroup() as group:
                    group.create_task(tx.send("orders", b"three"))
                await asyncio.wait_for(tx.send("orders", b"four"), 30)
                tx.assert_can_commit()
                last = asyncio.create_task(tx.send("orders", b"five"))  # begins at the end
            assert last.done()
        assert len(server.targets()) == 6
        assert server.targets()[-1] == "/v1/transactions/h5/commit"


@pytest.mark.filterwarnings("error")  # a coroutine that nobody awaits is a warning alone
async def test_a_call_behind_the_block_that_nobody_awaits_was_lost_without_a_word():
    """As Starlette's background tasks call what is no coroutine function."""
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            async with producer.transaction() as tx:
                await tx.send("orders", b"one")
            for late in (lambda: tx.send("orders", b"two"), lambda: tx.prepare([])):
                with pytest.raises(TransactionEnded, match="already sent"):
                    await asyncio.to_thread(late)
        assert len(server.targets()) == 2


async def test_a_task_that_begins_after_its_block_was_left_by_an_error_is_refused():
    tasks = []

    async def order(producer):
        async with producer.transaction() as tx:
            await tx.send("orders", b"one")
            tasks.append(asyncio.create_task(tx.send("orders", b"two")))
            raise ValueError

    with ScriptedServer() as server:
        async with AsyncTransactionProducer(
            "orders", server.address, on_error="unknown"
        ) as producer:
            with pytest.raises(ValueError):
                await order(producer)
            with pytest.raises(TransactionDoomed, match="without await"):
                await tasks[0]
        assert len(server.targets()) == 1


async def test_a_cancellation_rolled_back_what_the_database_had_committed():
    """The cancellation comes out of the await in which the local commit completes."""
    committed = asyncio.Event()

    async def check(_):
        raise AssertionError("nobody asks here")

    with ScriptedServer() as server:
        async with AsyncTransactionProducer(
            "orders", server.address, check=check, answers_checks=False
        ) as producer:

            async def order():
                async with producer.transaction() as tx:
                    await tx.send("orders", b"one")
                    committed.set()
                    await asyncio.sleep(3600)  # the database's answer

            for on_error in ("cancel", "timeout"):
                committed.clear()
                if on_error == "cancel":
                    task = asyncio.create_task(order())
                    await committed.wait()
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                else:
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.2):
                            await order()
        assert len(server.targets()) == 2, server.targets()


def test_another_loop_is_told_and_nothing_is_sent():
    with ScriptedServer() as server:
        producer = AsyncTransactionProducer("orders", server.address)
        tx = producer.transaction()

        async def begin():
            await tx.__aenter__()
            await tx.send("orders", b"one")

        async def end():
            with pytest.raises(TransactionMisused, match="outside the event loop"):
                await tx.send("orders", b"two")
            with pytest.raises(TransactionMisused, match="outside the event loop"):
                await tx.__aexit__(None, None, None)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        with pytest.raises(TransactionMisused, match="outside the event loop"):
            tx.assert_can_commit()
        asyncio.run(end())
        loop.run_until_complete(producer.close())
        loop.close()
        assert len(server.targets()) == 1


async def test_a_send_of_another_loop_was_refused_and_the_rest_was_committed():
    """Where the refusal was swallowed, as by a worker thread that nobody looks at."""
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:

            async def send(tx):
                with pytest.raises(TransactionMisused, match="outside the event loop"):
                    await tx.send("orders", b"two")

            doomed = pytest.raises(TransactionDoomed, match="TransactionMisused")
            with doomed:
                async with producer.transaction() as tx:
                    await tx.send("orders", b"one")
                    await asyncio.to_thread(lambda: asyncio.run(send(tx)))
                    with pytest.raises(TransactionDoomed, match="TransactionMisused"):
                        tx.assert_can_commit()
        assert [target.rpartition("/")[2] for target in server.targets()] == ["half", "rollback"]


async def test_an_async_generator_that_was_dropped_in_its_block_decides_nothing(caplog):
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:

            async def orders():
                async with producer.transaction("t-9") as tx:
                    await tx.send("orders", b"one")
                    yield

            generator = orders()
            await anext(generator)
            await generator.aclose()
        assert len(server.targets()) == 1
    assert "t-9 is undecided: the generator or coroutine" in caplog.text


async def test_the_rest_was_committed_without_a_message_that_was_in_line_at_the_block_s_end():
    """Of two tasks that were not joined: the second was refused where nobody looked."""
    with ScriptedServer() as server:
        async with AsyncTransactionProducer("orders", server.address) as producer:
            tasks = []
            with pytest.raises(TransactionDoomed, match="was left"):
                async with producer.transaction() as tx:
                    tasks += [asyncio.create_task(tx.send("orders", b"1")) for _ in range(2)]
            await asyncio.wait(tasks)
        assert [type(task.exception()).__name__ for task in tasks] == [
            "NoneType",
            "TransactionEnded",
        ]
        assert [target.rpartition("/")[2] for target in server.targets()] == ["half", "rollback"]


class Forks:
    """A listener that both its processes come out of."""

    child = 0

    async def execute_local_transaction(self, message, arg):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.child = os.fork()
        return LocalTransactionState.ROLLBACK if self.child else LocalTransactionState.COMMIT


async def test_a_child_that_was_forked_in_a_listener_ended_its_parents_message():
    listener = Forks()
    with ScriptedServer() as server:
        producer = AsyncTransactionProducer(
            "orders", server.address, listener=listener, answers_checks=False
        )
        try:
            result = await producer.send_message_in_transaction(Message("orders", b"one"))
        except BaseException as error:  # noqa: BLE001 - a child of a test may not go on
            os._exit(0 if isinstance(error, TransactionMisused) else 1)
        if listener.child == 0:
            os._exit(2)
        _, status = await asyncio.to_thread(os.waitpid, listener.child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await producer.close()
        assert result.state is LocalTransactionState.ROLLBACK
        assert server.targets() == ["/v1/topics/orders/half", "/v1/transactions/h1/rollback"]


class Records:
    """A listener whose local transaction is committed, whatever it returns."""

    async def execute_local_transaction(self, message, arg):
        note("orders", message.transaction_id, Word(lambda _: Local.COMMITTED))
        return LocalTransactionState.ROLLBACK


async def test_a_listener_s_rollback_behind_its_local_commit_lost_the_message():
    with ScriptedServer() as server:
        async with AsyncTransactionProducer(
            "orders", server.address, listener=Records(), answers_checks=False
        ) as producer:
            result = await producer.send_message_in_transaction(Message("orders", b"one"))
        assert result.state is LocalTransactionState.UNKNOWN
        assert isinstance(result.error, TransactionMisused)
        assert server.targets() == ["/v1/topics/orders/half"]
