"""What only the asyncio producer has to do with: cancellation, loops, and many tasks at once."""

import asyncio
import gc
import socket
import threading

import pytest

from halfhitch.client import AsyncTransactionProducer, DecisionUnknown, Message
from halfhitch.client.calls import Operation
from halfhitch.client.errors import TransactionDoomed, TransactionEnded
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


async def test_cancelling_a_send_rolls_the_block_back():
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
            assert server.targets()[-1] == "/v1/transactions/h1/rollback"
            with pytest.raises(TransactionEnded):
                await tx.commit()


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
