"""What only the blocking producer has to do with: threads, forks, and the collection of garbage."""

import gc
import os
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from halfhitch.client import (
    Message,
    TransactionDoomed,
    TransactionEnded,
    TransactionMisused,
    TransactionProducer,
    calls,
    conversation,
    in_use,
    sync_transactions,
)
from halfhitch.client.pacing import REAL_PACING
from halfhitch.client.values import LocalTransactionState
from harness.scripted_http import HANG, Answer, ScriptedServer, like_the_door
from harness.strikes import strikes

COMMITTED = Answer(200, {"transaction_id": "t", "state": "committed"})


class Clock:
    """A clock that a test may push on."""

    def __init__(self):
        self.ahead_s = 0.0

    def __call__(self):
        return REAL_PACING.clock() + self.ahead_s


def in_a_forked_child(work):
    """Fails unless `work` ends without an exception."""
    with warnings.catch_warnings():
        # Newer Pythons warn of a fork beside threads, which is what these tests are about.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def held_elsewhere(lock):
    """By another thread."""
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    yield
    over.set()
    thread.join(10)


def test_threads_share_a_producer_and_never_an_answer():
    def mirror(request):
        transaction_id = request.header("Half-Transaction-Id")
        return Answer(
            201,
            headers={
                "Half-Handle": f"handle-of-{transaction_id}",
                "Half-Transaction-Id": transaction_id,
            },
        )

    wrong = []
    with (
        ScriptedServer(otherwise=mirror) as server,
        TransactionProducer("orders", server.address, connections_max=4) as producer,
    ):

        def work():
            for _ in range(50):
                transaction_id, handle = producer.prepare([Message("t", b"v")])
                if handle != f"handle-of-{transaction_id}":
                    wrong.append((transaction_id, handle))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert wrong == []
        assert len({r.header("Half-Transaction-Id") for r in server.requests}) == 400
        assert server.connection_count <= 4


def test_pauses_grow_between_tries():
    pauses = []
    pacing = REAL_PACING._replace(jitter=lambda: 1.0, sleep=pauses.append)
    with (
        ScriptedServer(*[Answer(503)] * 4) as server,
        TransactionProducer("orders", server.address, pacing=pacing) as producer,
    ):
        producer.commit("h")
    assert pauses == [0.05, 0.1, 0.2, 0.4]


def test_a_restart_of_the_sidecar_costs_no_pause_however_many_connections_were_kept():
    gate = threading.Barrier(4)

    def together(_):
        gate.wait(10)
        return COMMITTED

    pauses = []
    with (
        ScriptedServer(otherwise=together) as server,
        TransactionProducer(
            "orders", server.address, pacing=REAL_PACING._replace(sleep=pauses.append)
        ) as producer,
    ):
        threads = [threading.Thread(target=producer.commit, args=("h",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        gate.wait(10)
        for thread in threads:
            thread.join(10)
        assert server.connection_count == 3
        server.cut_connections()
        server.then(COMMITTED)
        producer.commit("h")
    assert pauses == [0.0]


def test_a_connection_that_was_long_idle_is_looked_at_before_it_is_used():
    clock = Clock()
    pacing = REAL_PACING._replace(clock=clock)
    with (
        ScriptedServer() as server,
        TransactionProducer("orders", server.address, pacing=pacing) as producer,
    ):
        producer.commit("h")
        clock.ahead_s += 60
        producer.commit("h")
        assert server.connection_count == 1, "it was good and should have been used"
        server.cut_connections()
        clock.ahead_s += 60
        producer.commit("h")
        assert (server.connection_count, len(server.requests)) == (2, 3)


def test_a_forked_child_opens_connections_of_its_own():
    with (
        ScriptedServer() as server,
        TransactionProducer("orders", server.address, connections_max=1) as producer,
    ):
        producer.commit("h")
        in_a_forked_child(lambda: (producer.commit("h"), producer.commit("h")))
        producer.commit("h")
        assert [request.connection for request in server.requests] == [1, 2, 2, 1]


def test_a_forked_child_ended_its_parents_transaction():
    def child():
        assert not tx._lock.acquire(blocking=False)  # a thread that is not here has it
        for use in (
            tx.assert_can_commit,
            tx.commit,
            tx.rollback,
            lambda: tx.send("orders", b"two"),
            lambda: tx.__exit__(None, None, None),
        ):
            with pytest.raises(TransactionMisused, match=f"begun in process {parent_id}"):
                use()

    parent_id = os.getpid()
    with ScriptedServer() as server, TransactionProducer("orders", server.address) as producer:
        with producer.transaction() as tx:
            tx.send("orders", b"one")
            with held_elsewhere(tx._lock):
                in_a_forked_child(child)
        assert server.targets() == ["/v1/topics/orders/half", "/v1/transactions/h1/commit"]


class Forks:
    """A listener that both its processes come out of."""

    def __init__(self):
        self.child = 0

    def execute_local_transaction(self, message, arg):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.child = os.fork()
        return LocalTransactionState.ROLLBACK if self.child else LocalTransactionState.COMMIT


def test_a_child_that_was_forked_in_a_listener_ended_its_parents_message():
    listener = Forks()
    with ScriptedServer() as server:
        producer = TransactionProducer(
            "orders", server.address, listener=listener, answers_checks=False
        )
        try:
            result = producer.send_message_in_transaction(Message("orders", b"one"))
        except BaseException as error:  # noqa: BLE001 - a child of a test may not go on
            os._exit(0 if isinstance(error, TransactionMisused) else 1)
        if listener.child == 0:
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(listener.child, 0)[1]) == 0
        producer.close()
        assert result.state is LocalTransactionState.ROLLBACK
        assert server.targets() == ["/v1/topics/orders/half", "/v1/transactions/h1/rollback"]


def test_a_fork_while_another_thread_holds_the_last_connection_does_not_block_the_child():
    gate = threading.Event()
    held = threading.Event()

    def hold_first(request):
        if not held.is_set():
            held.set()
            gate.wait(30)
        return COMMITTED

    with (
        ScriptedServer(otherwise=hold_first) as server,
        TransactionProducer("orders", server.address, connections_max=1, deadline_s=10) as producer,
    ):
        other = threading.Thread(target=producer.commit, args=("h",))
        other.start()
        assert held.wait(10)
        in_a_forked_child(lambda: producer.commit("h"))
        gate.set()
        other.join(10)


@pytest.mark.parametrize("closed", [True, False])
def test_a_dropped_producer_leaves_no_socket_behind(closed):
    # Warnings are errors: a ResourceWarning fails this test.
    with ScriptedServer() as server:
        producer = TransactionProducer("orders", server.address)
        producer.commit("h")
        before = len(list(Path("/proc/self/fd").iterdir()))
        if closed:
            producer.close()
        del producer
        gc.collect()
        assert len(list(Path("/proc/self/fd").iterdir())) < before


def test_an_interrupted_call_does_not_leave_its_answer_to_the_next(monkeypatch):
    class Interrupted(BaseException):
        pass

    with ScriptedServer() as server, TransactionProducer("orders", server.address) as producer:
        producer.commit("first")
        from halfhitch.client import sync_connections

        receive = sync_connections.Connection._receive

        def interrupted(self, parser, ends_at_s):
            monkeypatch.setattr(sync_connections.Connection, "_receive", receive)
            raise Interrupted

        monkeypatch.setattr(sync_connections.Connection, "_receive", interrupted)
        with pytest.raises(Interrupted):
            producer.commit("second")
        server.until_received(2)  # by another of its threads than what comes next
        producer.commit("third")
        assert [request.connection for request in server.requests] == [1, 1, 2]


@pytest.mark.parametrize("use", ["send", "rollback", "commit", "assert_can_commit"])
def test_a_handler_that_used_the_transaction_of_the_call_it_interrupts_hung(use):
    def handler(*_):
        getattr(tx, use)(*(["orders", b"two"] if use == "send" else []))

    before = signal.signal(signal.SIGUSR1, handler)

    def in_between(_):
        signal.raise_signal(signal.SIGUSR1)  # is looked for by the main thread
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        return HANG

    try:
        with (
            ScriptedServer(otherwise=in_between) as server,
            TransactionProducer("orders", server.address) as producer,
        ):
            tx = producer.transaction()
            with pytest.raises(TransactionMisused, match="this very thread"):
                tx.send("orders", b"one")
            assert len(server.requests) == 1
            with pytest.raises(TransactionDoomed, match="TransactionMisused"):
                tx.assert_can_commit()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_send_of_a_handler_inside_a_call_was_refused_and_the_rest_was_committed():
    """Where the handler itself swallowed the refusal."""
    refused = []

    def handler(*_):
        try:
            if not refused:
                tx.send("orders", b"two")
        except TransactionMisused as misused:
            refused.append(misused)

    before = signal.signal(signal.SIGUSR1, handler)

    def in_between(request):
        if not refused:
            signal.raise_signal(signal.SIGUSR1)  # is looked for by the main thread
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        return like_the_door(request)

    try:
        with (
            ScriptedServer(otherwise=in_between) as server,
            TransactionProducer("orders", server.address) as producer,
        ):
            doomed = pytest.raises(TransactionDoomed, match="TransactionMisused")
            with doomed, producer.transaction() as tx:
                tx.send("orders", b"one")
                while not refused:
                    time.sleep(0.001)
            assert [target.rpartition("/")[2] for target in server.targets()] == [
                "half",
                "rollback",
            ]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_no_signal_s_handler_that_raises_leaves_a_transaction_locked():
    def free(tx):
        with held_elsewhere(tx._lock):
            return True

    with ScriptedServer() as server, TransactionProducer("orders", server.address) as producer:
        for use in ("send", "commit", "assert_can_commit"):
            for strike in strikes(sync_transactions, is_real=True):
                tx = producer.transaction()
                with strike:
                    tx.send("orders", b"one")
                    getattr(tx, use)(*(["orders", b"two"] if use == "send" else []))
                assert free(tx), strike.place


def test_an_interrupt_in_the_listener_is_not_swallowed():
    class Listener:
        def execute_local_transaction(self, message, arg):
            raise KeyboardInterrupt

        def check_local_transaction(self, message):
            return LocalTransactionState.UNKNOWN

    with (
        ScriptedServer() as server,
        TransactionProducer(
            "orders", server.address, listener=Listener(), answers_checks=False
        ) as producer,
    ):
        with pytest.raises(KeyboardInterrupt):
            producer.send_message_in_transaction(Message("orders", b"one"))
        assert len(server.requests) == 1


class _Unfair:
    """A lock that lets one thread wait until `over`, though it came first."""

    def __init__(self, thread_of):
        self._lock = threading.RLock()
        self._thread_of = thread_of
        self.is_waited_for = threading.Event()
        self.over = threading.Event()

    def __enter__(self):
        if threading.current_thread() is self._thread_of():
            self.is_waited_for.set()
            assert self.over.wait(20)
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()

    def _is_owned(self):
        return self._lock._is_owned()


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_send_in_line_that_the_end_had_overtaken_was_refused_in_silence(is_asked):
    """Of a thread that was not joined; a lock knows no order. The rest was committed."""
    refused = []

    def send(tx):
        try:
            tx.send("orders", b"two")
        except TransactionEnded as ended:
            refused.append(ended)

    with ScriptedServer() as server, TransactionProducer("orders", server.address) as producer:
        tx = producer.transaction()
        thread = threading.Thread(target=send, args=(tx,))
        tx._lock = unfair = _Unfair(lambda: thread)

        def block():
            with tx:
                tx.send("orders", b"one")
                thread.start()
                assert unfair.is_waited_for.wait(20)
                if is_asked:
                    tx.assert_can_commit()

        try:
            with pytest.raises(TransactionDoomed, match="join the threads"):
                block()
        finally:
            unfair.over.set()
            thread.join(20)
        assert len(refused) == 1
        assert [target.rpartition("/")[2] for target in server.targets()] == ["half", "rollback"]


def test_a_thread_s_send_that_had_only_begun_was_overtaken_by_the_end_in_silence(monkeypatch):
    """It was noted in line behind some looks of its own, and the thread was held up in these."""
    has_begun, over = threading.Event(), threading.Event()
    refused = []

    def look(*_):
        if threading.current_thread() is thread:
            has_begun.set()
            assert over.wait(20)

    def send():
        try:
            tx.send("orders", b"two")
        except TransactionEnded as ended:
            refused.append(ended)

    monkeypatch.setattr(in_use, "require_unheld_id", look)
    with ScriptedServer() as server, TransactionProducer("orders", server.address) as producer:
        thread = threading.Thread(target=send)
        try:
            doomed = pytest.raises(TransactionDoomed, match="join the threads")
            with doomed, producer.transaction() as tx:
                tx.send("orders", b"one")
                thread.start()
                assert has_begun.wait(20)
        finally:
            over.set()
            thread.join(20)
        assert len(refused) == 1
        assert [target.rpartition("/")[2] for target in server.targets()] == ["half", "rollback"]


def test_a_send_that_a_handler_had_ended_was_missing_and_the_rest_was_committed():
    """At a third of the steps of one send; at the others it was on its way, and doomed already."""
    doomed_count = 0
    with (
        ScriptedServer() as server,
        TransactionProducer("orders", server.address, answers_checks=False) as producer,
    ):
        for strike in strikes(sync_transactions, conversation, calls, is_real=True):
            tx = producer.transaction()
            tx.send("orders", b"one")
            with strike:
                tx.send("orders", b"two")
            if not strike.place:
                break
            name, _, step = strike.place.partition(":")
            has_begun = name != "send" and (name != "_prepare" or not step.endswith("+0"))
            if has_begun:
                assert tx._talk.phase is conversation.Phase.DOOMED, strike.place
                doomed_count += 1
    assert doomed_count > 10
